//! Cuts a final answer, a commit message or a note into passages: stretches about one thing, with the heading or
//! bold lead that says which.
//!
//! Tables and code blocks are left out (the prose around them says what they show); a short command is kept as it is
//! often the only exact statement of how something is done.

use std::borrow::Cow;

use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};

use super::sentence;

/// Answers are a few kilobytes; what lies behind this much is pasted material.
const LONGEST: usize = 48 * 1024;

/// A passage is closed when it has this many bytes and a paragraph ends.
const PASSAGE: usize = 450;

/// Items longer than this on average stand alone; shorter ones make one passage.
const LONG_ITEM: usize = 150;

/// Code blocks up to this many bytes in one line are kept as a sentence.
const SHORT_CODE: usize = 100;

/// A lead of so few words is a label for all that follows it.
const LABEL_WORDS: usize = 3;

/// Items longer than this are split into sentences.
const SPLIT_ITEM: usize = 220;

/// Where a sentence stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Prose,
    Item,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sentence {
    pub(super) text: String,
    pub(super) role: Role,
}

/// A stretch of text about one thing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Passage {
    /// The heading or bold lead, in plain words without its colon.
    pub(super) heading: Option<String>,
    /// The heading of the section around, where the passage has one of its own.
    pub(super) section: Option<String>,
    pub(super) sentences: Vec<Sentence>,
}

impl Passage {
    /// A passage of plain sentences.
    pub(super) fn prose(heading: Option<&str>, text: &str) -> Self {
        let sentences =
            sentence::split(text).into_iter().map(|text| Sentence { text, role: Role::Prose }).collect();
        Self { heading: heading.map(str::to_owned), section: None, sentences }
    }

    pub(super) fn len(&self) -> usize {
        self.sentences.iter().map(|sentence| sentence.text.len()).sum()
    }
}

/// The passages of a Markdown text, in order. Plain text is Markdown too.
pub(super) fn passages(text: &str) -> Vec<Passage> {
    let cut = sentence::floor_boundary(text, LONGEST);
    let text = with_dashes(text.get(..cut).unwrap_or_default());
    let mut reader = Reader::default();
    for event in Parser::new_ext(&text, Options::ENABLE_TABLES) {
        reader.take(event);
    }
    reader.finish()
}

/// Marks of list items that Markdown does not know.
const LIST_MARKS: [&str; 3] = ["• ", "– ", "◦ "];

/// The text with such marks as Markdown writes them.
fn with_dashes(text: &str) -> Cow<'_, str> {
    if !LIST_MARKS.iter().any(|mark| text.contains(mark)) {
        return Cow::Borrowed(text);
    }
    let lines = text.split_inclusive('\n').map(|line| {
        let unindented = line.trim_start_matches([' ', '\t']);
        match LIST_MARKS.iter().find_map(|mark| unindented.strip_prefix(mark)) {
            Some(item) => {
                let indent = line.get(..line.len() - unindented.len()).unwrap_or_default();
                Cow::Owned(format!("{indent}- {item}"))
            }
            None => Cow::Borrowed(line),
        }
    });
    Cow::Owned(lines.collect())
}

/// A block's text with the length of the bold text it begins with.
#[derive(Default)]
struct Block {
    text: String,
    lead: Option<usize>,
    /// Bold text has begun where the block began.
    opens_bold: bool,
}

#[derive(Default)]
struct Reader {
    done: Vec<Passage>,
    current: Passage,
    section: Option<String>,
    block: Block,
    /// The items of the list being read; a nested list adds to the same.
    items: Vec<Block>,
    list_depth: usize,
    /// Inside a table, an image or raw HTML: nothing is taken.
    muted: usize,
    code: Option<String>,
    /// The current passage's lead has said what it is about; another paragraph is about something else.
    is_told: bool,
}

impl Reader {
    fn take(&mut self, event: Event<'_>) {
        match event {
            Event::Start(tag) => self.start(&tag),
            Event::End(tag) => self.end(tag),
            Event::Text(text) => self.text(&text),
            Event::Code(code) if self.muted == 0 => {
                self.block.text.push('`');
                self.block.text.push_str(&code);
                self.block.text.push('`');
            }
            Event::SoftBreak | Event::HardBreak => self.text(" "),
            Event::Rule => self.close_section(),
            _ => {}
        }
    }

    fn text(&mut self, text: &str) {
        match &mut self.code {
            Some(code) => code.push_str(text),
            None if self.muted == 0 => self.block.text.push_str(text),
            None => {}
        }
    }

    fn start(&mut self, tag: &Tag<'_>) {
        match tag {
            Tag::Table(_) | Tag::Image { .. } | Tag::HtmlBlock => self.muted += 1,
            Tag::CodeBlock(_) => {
                self.end_block();
                self.code = Some(String::new());
            }
            Tag::List(_) => {
                self.end_block();
                self.list_depth += 1;
            }
            Tag::Item | Tag::Heading { .. } | Tag::Paragraph => self.end_block(),
            Tag::Strong => self.block.opens_bold = self.block.text.trim().is_empty(),
            _ => {}
        }
    }

    fn end(&mut self, tag: TagEnd) {
        match tag {
            TagEnd::Table | TagEnd::Image | TagEnd::HtmlBlock => self.muted = self.muted.saturating_sub(1),
            TagEnd::CodeBlock => self.end_code(),
            TagEnd::Strong => self.end_strong(),
            TagEnd::Heading(_) => self.end_heading(),
            TagEnd::Item | TagEnd::Paragraph => self.end_block(),
            TagEnd::List(_) => {
                self.end_block();
                self.list_depth = self.list_depth.saturating_sub(1);
                if self.list_depth == 0 {
                    self.end_list();
                }
            }
            _ => {}
        }
    }

    fn end_strong(&mut self) {
        if std::mem::take(&mut self.block.opens_bold) && self.block.lead.is_none() {
            self.block.lead = Some(self.block.text.len());
        }
    }

    fn end_heading(&mut self) {
        let heading = std::mem::take(&mut self.block).text;
        self.close_passage();
        let heading = plain_lead(&heading);
        self.section = (!heading.is_empty()).then_some(heading);
        self.current.heading.clone_from(&self.section);
    }

    fn end_code(&mut self) {
        let Some(code) = self.code.take() else { return };
        let code = code.trim();
        if !code.is_empty() && code.len() <= SHORT_CODE && !code.contains('\n') {
            let sentence = Sentence { text: format!("`{}`", code.replace('`', "'")), role: Role::Prose };
            match self.items.last_mut() {
                Some(item) if self.list_depth > 0 => {
                    item.text.push(' ');
                    item.text.push_str(&sentence.text);
                }
                _ => self.current.sentences.push(sentence),
            }
        }
    }

    fn end_block(&mut self) {
        let block = std::mem::take(&mut self.block);
        if block.text.trim().is_empty() {
            return;
        }
        if self.list_depth > 0 {
            self.items.push(block);
        } else {
            self.paragraph(&block);
        }
    }

    fn paragraph(&mut self, block: &Block) {
        let lead = split_lead(block);
        if lead.is_some() {
            self.continue_section();
        } else if self.is_told {
            let about = self.current.heading.clone();
            self.continue_section();
            self.current.section = about;
        }
        match lead {
            Some((lead, rest)) => {
                self.current.section.clone_from(&self.section);
                self.add(rest, Role::Prose);
                if rest.trim().is_empty() {
                    self.section = Some(lead.clone());
                }
                // `Fix: …` goes on in the next paragraph; a lead that is a statement ends with its own.
                self.is_told = !rest.trim().is_empty() && lead.split_whitespace().count() > LABEL_WORDS;
                self.current.heading = Some(lead);
            }
            None => self.add(&block.text, Role::Prose),
        }
        let introduces = block.text.trim_end().ends_with(':');
        if self.current.len() >= PASSAGE && !introduces {
            self.continue_section();
        }
    }

    fn add(&mut self, text: &str, role: Role) {
        let texts = match role {
            Role::Prose => sentence::split(text),
            Role::Item if text.len() <= SPLIT_ITEM => vec![sentence::tidy(text)],
            Role::Item => sentence::split(text),
        };
        let kept = texts.into_iter().filter(|text| text.chars().any(char::is_alphanumeric));
        self.current.sentences.extend(kept.map(|text| Sentence { text, role }));
    }

    /// Long items, and items with a lead of their own, are passages; short ones belong to what introduced them.
    fn end_list(&mut self) {
        let items = std::mem::take(&mut self.items);
        let total: usize = items.iter().map(|item| item.text.len()).sum();
        let stand_alone = total > LONG_ITEM * items.len().max(1);
        for item in &items {
            match split_lead(item).filter(|_| stand_alone) {
                Some((lead, rest)) => {
                    self.continue_section();
                    self.current.section.clone_from(&self.section);
                    self.add(rest, Role::Prose);
                    self.is_told = true;
                    self.current.heading = Some(lead);
                }
                None => {
                    if self.is_told {
                        self.continue_section();
                    }
                    self.add(&item.text, Role::Item);
                }
            }
            if stand_alone && self.current.len() >= PASSAGE {
                self.continue_section();
            }
        }
        if stand_alone && !items.is_empty() {
            self.continue_section();
        }
    }

    /// The next passage is still about the same heading.
    fn continue_section(&mut self) {
        let told = !self.current.sentences.is_empty();
        let heading = self.current.heading.clone().filter(|_| !told);
        self.close_passage();
        // The first passage of a section bears its heading; the next ones have a title of their own.
        self.current.heading = heading;
        self.current.section.clone_from(&self.section);
    }

    fn close_section(&mut self) {
        self.end_block();
        self.close_passage();
        self.section = None;
    }

    fn close_passage(&mut self) {
        self.is_told = false;
        let passage = std::mem::take(&mut self.current);
        if !passage.sentences.is_empty() {
            self.done.push(passage);
        }
    }

    fn finish(mut self) -> Vec<Passage> {
        self.end_block();
        self.end_list();
        self.close_passage();
        self.done
    }
}

/// The bold text that a block begins with and what follows, where the bold text stands for itself: it ends like a
/// sentence, or a colon or dash follows. `**Not** done` has no lead.
fn split_lead(block: &Block) -> Option<(String, &str)> {
    let lead = block.text.get(..block.lead?)?;
    let rest = block.text.get(block.lead?..)?;
    let ends = lead.trim_end().ends_with([':', '.', '!', '?']);
    let follows = rest.trim_start();
    let behind = follows
        .strip_prefix('(')
        .and_then(|inner| inner.split_once(')'))
        .map_or(follows, |(_, rest)| rest.trim_start());
    let separated = follows.is_empty() || behind.starts_with([':', '—', '–', '-', '.']);
    let lead = plain_lead(lead);
    if !(ends || separated) || lead.is_empty() || lead.len() > 160 {
        return None;
    }
    Some((lead, follows.trim_start_matches([':', '—', '–', '-', '.', ' '])))
}

/// A heading without numbering and closing punctuation.
fn plain_lead(text: &str) -> String {
    let tidy = sentence::tidy(text);
    let bare = tidy.trim_start_matches(|first: char| first.is_ascii_digit());
    let bare = if bare.len() < tidy.len() && bare.starts_with(['.', ')']) {
        bare.trim_start_matches(['.', ')', ' '])
    } else {
        &tidy
    };
    bare.trim_end_matches([':', '.', ' ', '—']).to_owned()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One line per passage: `section / heading | sentence | - item`.
    #[track_caller]
    fn check(text: &str, expected: &[&str]) {
        let told: Vec<String> = passages(text)
            .iter()
            .map(|passage| {
                let mut line =
                    passage.section.as_ref().map_or(String::new(), |section| format!("{section} / "));
                line.push_str(passage.heading.as_deref().unwrap_or("_"));
                for sentence in &passage.sentences {
                    line.push_str(if sentence.role == Role::Item { " | - " } else { " | " });
                    line.push_str(&sentence.text);
                }
                line
            })
            .collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn headings_and_leads_open_passages() {
        check(
            "# Why\n\nIt leaks. Nothing frees it.\n\n**Fix:** call `free`.\n\n**Proof**\n\nThe test.",
            &["Why | It leaks. | Nothing frees it.", "Why / Fix | call `free`.", "Why / Proof | The test."],
        );
    }

    #[test]
    fn bold_words_inside_a_sentence_are_no_lead() {
        check("**Not** done yet.", &["_ | Not done yet."]);
        check("It is **done**: see there.", &["_ | It is done: see there."]);
    }

    #[test]
    fn short_items_stay_with_their_introduction() {
        check("Two things:\n\n- one\n- two `x`", &["_ | Two things: | - one | - two `x`"]);
    }

    #[test]
    fn long_items_with_leads_stand_alone() {
        let long = "word ".repeat(40);
        check(
            &format!("1. **First:** {long}\n2. **Second:** {long}"),
            &[&format!("First | {}", long.trim()), &format!("Second | {}", long.trim())],
        );
    }

    #[test]
    fn links_keep_their_words_and_tables_and_long_code_go() {
        check(
            "See [the log](https://x.y/z).\n\n|a|b|\n|-|-|\n|1|2|\n\n```\na\nb\n```\nEnd.",
            &["_ | See the log. | End."],
        );
        check("Run this:\n\n```sh\nmake check\n```", &["_ | Run this: | `make check`"]);
    }

    #[test]
    fn a_rule_ends_a_section() {
        check("# A\n\nOne.\n\n---\n\nTwo.", &["A | One.", "_ | Two."]);
    }

    proptest! {
        #[test]
        fn any_text_is_cut_without_empty_passages(text in "[\\PC\n]{0,300}") {
            for passage in passages(&text) {
                prop_assert!(!passage.sentences.is_empty());
            }
        }
    }
}
