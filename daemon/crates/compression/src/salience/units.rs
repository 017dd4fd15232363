//! Divides a Markdown text into units: sentences, list items, table rows and short code blocks, each with its
//! headings.

use super::sentences::{collapsed, sentences};
use super::sources::{SourceKind, SourceText};
use crate::wording::{self, Progress};

/// What a unit is made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    Prose,
    Item,
    Row,
    Code,
}

/// A heading and its level. A line that is completely bold is a heading of the lowest level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heading {
    pub level: u8,
    pub text: String,
}

/// A sentence or a line of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit {
    pub form: Form,
    pub text: String,
    /// The number of characters of the text.
    pub chars: usize,
    pub section: usize,
    pub paragraph: usize,
    pub depth: usize,
    pub headings: Vec<Heading>,
    /// Whether it is the first of its paragraph.
    pub is_first: bool,
    pub is_bold: bool,
    /// Whether it is the first line of a commit message.
    pub is_subject: bool,
    /// Whether the line ends with a colon and introduces a list.
    pub is_led: bool,
    /// The line that introduces its list, or the entry above a deeper one, without its colon.
    pub lead: Option<String>,
    /// Whether it offers to continue. Only the session's last answer keeps such units, as open work.
    pub is_offer: bool,
    /// Whether it is open work.
    pub progress: Progress,
}

/// The number of bytes of a text that are examined.
const LONGEST_TEXT: usize = 48 * 1024;
/// The maximum size of a code block, in lines and in bytes. Larger ones are skipped.
const MOST_CODE_LINES: usize = 12;
const LONGEST_CODE: usize = 400;
/// The maximum length of a bold line that is a heading. Longer ones are sentences.
const LONGEST_BOLD: usize = 90;
const BOLD_LEVEL: u8 = 7;

/// The units of a text of any kind.
pub(super) fn units_of(source: &SourceText) -> Vec<Unit> {
    let text = source.text.get(..source.text.floor_char_boundary(LONGEST_TEXT)).unwrap_or_default();
    match source.kind {
        SourceKind::Ask | SourceKind::Failure | SourceKind::Cure => vec![plain(collapsed(text), 1)],
        SourceKind::Comment => {
            let sentences = sentences(text).into_iter().enumerate();
            sentences
                .map(|(number, sentence)| Unit { is_first: number == 0, ..plain(collapsed(sentence), 1) })
                .collect()
        }
        SourceKind::Commit => {
            let mut units = parse(text);
            if let Some(first) = units.first_mut().filter(|first| first.paragraph == 1) {
                first.is_subject = true;
            }
            units
        }
        // What a user says to be left is what the session is for.
        SourceKind::Prompt | SourceKind::PlanPrompt => {
            let units = parse(text).into_iter();
            units.map(|unit| Unit { progress: Progress::Unstated, ..unit }).collect()
        }
        _ => parse(text),
    }
}

/// A sentence that opens a paragraph, without headings.
fn plain(text: String, paragraph: usize) -> Unit {
    Unit {
        chars: text.chars().count(),
        form: Form::Prose,
        text,
        section: 0,
        paragraph,
        depth: 0,
        headings: Vec::new(),
        is_first: true,
        is_bold: false,
        is_subject: false,
        is_led: false,
        lead: None,
        is_offer: false,
        progress: Progress::Unstated,
    }
}

/// Joins sentences and lines to one text.
pub(super) fn joined(texts: impl IntoIterator<Item = String>) -> String {
    let mut whole = String::new();
    for text in texts {
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        if let Some(last) = whole.chars().last() {
            let is_closed = matches!(last, '.' | '!' | '?' | ':' | ';' | '…' | '。');
            whole.push_str(if is_closed { " " } else { ". " });
        }
        whole.push_str(text);
    }
    whole
}

/// The cells of a table row. `\|` does not end a cell, as in GitHub Flavored Markdown 0.29.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut characters = line.trim_matches('|').chars().peekable();
    while let Some(c) = characters.next() {
        let escaped = characters.next_if(|next| c == '\\' && *next == '|');
        match (c, cells.last_mut()) {
            ('|', _) => cells.push(String::new()),
            (c, Some(cell)) => cell.push(escaped.unwrap_or(c)),
            (_, None) => {}
        }
    }
    cells.iter().map(|cell| cell.trim().to_owned()).collect()
}

/// Reads Markdown line by line.
pub(super) fn parse(text: &str) -> Vec<Unit> {
    let mut reader = Reader::default();
    let mut lines = text.lines().peekable();
    while let Some(line) = lines.next() {
        let next = lines.peek().map_or("", |next| next.trim());
        reader.line(line, next);
    }
    reader.flush();
    reader.units
}

#[derive(Default)]
struct Reader<'a> {
    units: Vec<Unit>,
    headings: Vec<Heading>,
    section: usize,
    paragraph: usize,
    /// The last sentence of the last paragraph, if it ends with a colon.
    lead: Option<String>,
    /// The entries above, with their depths.
    above: Vec<(usize, String)>,
    remains: Remains,
    pending: Option<Pending<'a>>,
    code: Option<Code<'a>>,
}

/// Lines that belong together and are not divided yet.
struct Pending<'a> {
    form: Form,
    depth: usize,
    lines: Vec<&'a str>,
}

struct Code<'a> {
    fence: &'a str,
    lines: Vec<&'a str>,
}

impl<'a> Reader<'a> {
    fn line(&mut self, line: &'a str, next: &str) {
        let bare = line.trim();
        if let Some(mut code) = self.code.take() {
            if bare.starts_with(code.fence) {
                self.end_code(&code);
            } else {
                code.lines.push(bare);
                self.code = Some(code);
            }
            return;
        }
        if let Some(fence) = bare.get(..3).filter(|fence| matches!(*fence, "```" | "~~~")) {
            self.flush();
            self.code = Some(Code { fence, lines: Vec::new() });
            return;
        }
        if bare.is_empty() || is_rule(bare) || bare.starts_with("<!--") {
            self.flush();
            return;
        }
        if let Some((level, heading)) = heading(bare) {
            self.flush();
            self.section += 1;
            self.lead = None;
            self.above.clear();
            self.remains = Remains::default();
            self.headings.retain(|above| above.level < level);
            let text = without_marks(heading).trim_end_matches(':').to_owned();
            self.headings.push(Heading { level, text });
            return;
        }
        if bare.starts_with('|') && bare.bytes().filter(|byte| *byte == b'|').count() >= 2 {
            self.flush();
            if !is_table_rule(bare) && !is_table_rule(next) {
                self.pending = Some(Pending { form: Form::Row, depth: 0, lines: vec![bare] });
                self.flush();
            }
            return;
        }
        if let Some((depth, item)) = item(line) {
            self.flush();
            self.pending = Some(Pending { form: Form::Item, depth, lines: vec![item] });
            return;
        }
        let bare = bare.strip_prefix('>').map_or(bare, str::trim_start);
        // `> [!NOTE]` colours a box on GitHub.
        if bare.is_empty() || bare.starts_with("[!") && bare.ends_with(']') {
            self.flush();
            return;
        }
        match &mut self.pending {
            Some(pending) => pending.lines.push(bare),
            None => self.pending = Some(Pending { form: Form::Prose, depth: 0, lines: vec![bare] }),
        }
    }

    fn flush(&mut self) {
        let Some(Pending { form, depth, mut lines }) = self.pending.take() else { return };
        let is_bold = lines.first().is_some_and(|line| line.starts_with("**"));
        let mut ticked = Progress::Unstated;
        if let Some(first) = lines.first_mut().filter(|_| form == Form::Item) {
            (ticked, *first) = wording::ticked(first);
        }
        let text = match form {
            // The first mark stays: it says that these are cells.
            Form::Row => {
                let cells = lines.iter().flat_map(|line| cells(line)).filter(|cell| !cell.is_empty());
                format!("| {}", without_marks(&cells.collect::<Vec<_>>().join(" | ")))
            }
            _ => without_marks(&lines.join(" ")),
        };
        if text.trim_matches(['|', ' ']).is_empty() {
            return;
        }
        self.paragraph += 1;
        let sentences = if form == Form::Row { vec![text.as_str()] } else { sentences(&text) };
        let is_entry = matches!(form, Form::Item | Form::Row);
        self.above.retain(|(above, _)| is_entry && *above < depth);
        let lead =
            self.above.last().map(|(_, entry)| entry).or(self.lead.as_ref()).filter(|_| is_entry).cloned();
        let is_led = self.lead.is_some() && is_entry;
        let inherited = match ticked {
            Progress::Unstated => self.remains.of_paragraph(form, depth, &sentences, &self.headings),
            progress => progress,
        };
        for (number, sentence) in sentences.iter().enumerate() {
            let is_left = inherited == Progress::Unstated && wording::is_left(sentence);
            let progress = match inherited {
                _ if wording::is_settled(sentence) => Progress::Unstated,
                Progress::Unstated if is_left => Progress::Left,
                progress => progress,
            };
            self.units.push(Unit {
                form,
                section: self.section,
                depth,
                headings: self.headings.clone(),
                is_bold: is_bold && number == 0,
                is_led,
                lead: lead.clone(),
                progress,
                is_first: number == 0,
                ..plain((*sentence).to_owned(), self.paragraph)
            });
        }
        let last = sentences.last().map(|last| last.trim_end_matches(':').to_owned());
        if form == Form::Prose {
            self.lead = last.filter(|_| text.ends_with(':'));
        } else if let Some(entry) = last.filter(|_| form == Form::Item && text.ends_with(':')) {
            self.above.push((depth, entry));
        }
    }

    fn end_code(&mut self, code: &Code<'_>) {
        if code.lines.is_empty() || code.lines.len() > MOST_CODE_LINES {
            return;
        }
        let text = collapsed(&code.lines.join(" "));
        let text = text.get(..text.floor_char_boundary(LONGEST_CODE)).unwrap_or_default();
        if text.is_empty() {
            return;
        }
        self.paragraph += 1;
        self.units.push(Unit {
            form: Form::Code,
            section: self.section,
            headings: self.headings.clone(),
            ..plain(text.to_owned(), self.paragraph)
        });
    }
}

/// What the text so far says about the following entries.
#[derive(Default)]
struct Remains {
    /// Whether the line before names open work: it introduces the entries or the paragraph below it.
    is_led: bool,
    /// The depth of an entry that names open work, which then includes the deeper entries below it.
    below: Option<usize>,
    /// Whether the section had list entries. Text that follows them below a bold line does not belong to the list.
    had_entries: bool,
}

impl Remains {
    /// What a paragraph or an entry inherits from the text above it. Also records what it says about the entries below
    /// it.
    fn of_paragraph(
        &mut self,
        form: Form,
        depth: usize,
        sentences: &[&str],
        headings: &[Heading],
    ) -> Progress {
        let is_entry = matches!(form, Form::Item | Form::Row);
        let (first, last) =
            (sentences.first().copied().unwrap_or_default(), sentences.last().copied().unwrap_or_default());
        let is_alone = sentences.len() == 1 && !last.ends_with(['.', '!']);
        let is_lead = (is_alone || last.ends_with([':', '：'])) && wording::names_what_is_left(last)
            || last.ends_with([':', '：']) && wording::is_left(last);
        if self.below.is_some_and(|above| form != Form::Item || depth <= above) {
            self.below = None;
        }
        let is_below = self.below.is_some();
        let is_of_bold = headings.last().is_some_and(|heading| heading.level == BOLD_LEVEL);
        let of_section = match of_headings(headings) {
            Progress::Left if is_of_bold && self.had_entries && !is_entry => Progress::Unstated,
            progress => progress,
        };
        let is_open_row = form == Form::Row && wording::is_open_row(first);
        let is_led = self.is_led;
        self.had_entries |= is_entry;
        match form {
            Form::Item if is_lead => self.below = self.below.or(Some(depth)),
            Form::Item | Form::Row => {}
            Form::Prose | Form::Code => self.is_led = is_lead,
        }
        // A label in front of a paragraph holds for all of it.
        let is_labelled = sentences.len() > 1 && wording::is_left(first) && first.contains(": ");
        match is_led || is_below || is_open_row || is_labelled {
            true => Progress::Left,
            false => of_section,
        }
    }
}

/// What the headings above a text say about it: the nearest one that says something. A title of the whole text does not
/// count.
fn of_headings(headings: &[Heading]) -> Progress {
    let nearest = headings.len().saturating_sub(1);
    let counts = headings.iter().enumerate().filter(|(at, heading)| heading.level > 1 || *at == nearest);
    let mut states = counts.map(|(_, heading)| match &heading.text {
        text if wording::names_what_is_left(text) => Progress::Left,
        text if wording::names_what_is_done(text) => Progress::Done,
        _ => Progress::Unstated,
    });
    states.rfind(|state| *state != Progress::Unstated).unwrap_or_default()
}

/// A rule: `---`, `***`, `═══`, three or more of the same sign. Also `★ Insight ─────`, the frame of a box.
fn is_rule(line: &str) -> bool {
    if line.contains("─────") {
        return true;
    }
    let mut signs = line.chars().filter(|sign| !sign.is_whitespace());
    let Some(first) = signs.next() else { return false };
    !first.is_alphanumeric()
        && !matches!(first, '`' | '|' | '(' | '.')
        && signs.clone().count() >= 2
        && signs.all(|sign| sign == first)
}

fn is_table_rule(line: &str) -> bool {
    line.starts_with('|') && line.bytes().all(|byte| matches!(byte, b'|' | b' ' | b':' | b'-'))
}

fn heading(line: &str) -> Option<(u8, &str)> {
    let marks = line.bytes().take_while(|byte| *byte == b'#').count();
    if (1..=6).contains(&marks) {
        let text = line.get(marks..)?.strip_prefix([' ', '\t'])?;
        return Some((u8::try_from(marks).unwrap_or(6), text.trim().trim_end_matches('#').trim_end()));
    }
    let inner = line.trim_end_matches(':').strip_prefix("**")?.strip_suffix("**")?;
    let is_heading = inner.chars().count() >= 2 && inner.len() <= LONGEST_BOLD && !inner.contains('*');
    is_heading.then_some((BOLD_LEVEL, inner))
}

/// The depth and text of a list item.
fn item(line: &str) -> Option<(usize, &str)> {
    let bare = line.trim_start();
    let indent: usize = line
        .chars()
        .take_while(|edge| edge.is_whitespace())
        .map(|edge| if edge == '\t' { 4 } else { 1 })
        .sum();
    let behind = match bare.chars().next()? {
        mark @ ('-' | '*' | '+' | '•') => bare.get(mark.len_utf8()..)?,
        digit if digit.is_ascii_digit() => {
            let number = bare.bytes().take_while(u8::is_ascii_digit).count();
            (number <= 2).then(|| bare.get(number..))??.strip_prefix(['.', ')'])?
        }
        letter if letter.is_ascii_alphabetic() => bare.get(1..)?.strip_prefix(['.', ')'])?,
        _ => return None,
    };
    let text = behind.strip_prefix(|gap: char| gap.is_whitespace())?.trim();
    (!text.is_empty()).then_some(((indent / 2).min(3), text))
}

/// The text without bold marks and link addresses, with single spaces.
pub(super) fn without_marks(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once('[') {
        plain.push_str(before);
        let link = behind.split_once("](").and_then(|(label, address)| {
            let (address, after) = address.split_once(')')?;
            let is_link = !label.is_empty()
                && label.len() <= 160
                && !label.contains(']')
                && (1..=300).contains(&address.len())
                && !address.contains(char::is_whitespace);
            is_link.then_some((label, after))
        });
        match link {
            Some((label, after)) => {
                plain.push_str(label);
                rest = after;
            }
            None => {
                plain.push('[');
                rest = behind;
            }
        }
    }
    plain.push_str(rest);
    collapsed(&plain.replace("**", "").replace("__", ""))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line per unit: form, section, paragraph and text.
    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let actual: Vec<String> = parse(text)
            .iter()
            .map(|unit| format!("{:?} {}.{} {}", unit.form, unit.section, unit.paragraph, unit.text))
            .collect();
        assert_eq!(actual, expected);
    }

    #[test]
    fn paragraphs_items_rows_and_code_become_units() {
        check(
            "## Cause\nThe pool hangs.\nNobody **wakes** it.\n\n- one\n  - two\n\n| a | b |\n|---|---|\n| c | d |\n\n```sh\nmake\ntest\n```",
            &[
                "Prose 1.1 The pool hangs.",
                "Prose 1.1 Nobody wakes it.",
                "Item 1.2 one",
                "Item 1.3 two",
                "Row 1.4 | c | d",
                "Code 1.5 make test",
            ],
        );
    }

    #[test]
    fn frames_around_boxes_are_skipped() {
        check(
            "`★ Insight ─────────────`\nCarts round once.\n`────────────────────────`\n\n> [!NOTE]\n> Lines do not.",
            &["Prose 0.1 Carts round once.", "Prose 0.2 Lines do not."],
        );
    }

    #[test]
    fn the_line_above_a_list_is_the_lead_of_its_entries() {
        let units = parse("Carts that are empty:\n- cost nothing\n- Gift cards:\n  - are lines\n\nThe end.");
        let leads: Vec<(&str, Option<&str>)> =
            units.iter().map(|unit| (unit.text.as_str(), unit.lead.as_deref())).collect();
        assert_eq!(
            leads,
            [
                ("Carts that are empty:", None),
                ("cost nothing", Some("Carts that are empty")),
                ("Gift cards:", Some("Carts that are empty")),
                ("are lines", Some("Gift cards")),
                ("The end.", None),
            ]
        );
    }

    #[test]
    fn bold_lines_are_headings() {
        let units = parse("# Plan\n\n**Why:**\n\nIt hangs.");
        let headings: Vec<&str> =
            units.iter().flat_map(|unit| &unit.headings).map(|h| h.text.as_str()).collect();
        assert_eq!(headings, ["Plan", "Why"]);
    }

    #[test]
    fn links_become_their_text() {
        assert_eq!(
            without_marks("see [the page](https://x.y/z) and a[0](b c)"),
            "see the page and a[0](b c)"
        );
    }

    #[test]
    fn horizontal_rules_and_comments_are_no_units() {
        check("---\n═════\n<!-- x -->\n***", &[]);
    }

    #[test]
    fn list_items_below_a_lead_line_are_marked_as_led() {
        let units = parse("It does this:\n- one\n- two");
        assert_eq!(units.iter().map(|unit| unit.is_led).collect::<Vec<_>>(), [false, true, true]);
    }
}
