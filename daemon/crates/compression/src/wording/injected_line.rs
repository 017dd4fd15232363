//! Chooses the line of a passage that is injected at a prompt: the statement in it that says most about the question.
//!
//! Besides its statements, a passage of an answer has openings, offers, headings, routine, tables and code. The line
//! is a whole sentence that can be read alone, with its subject. If the passage has a title that says as much, the
//! line is the title alone.

use recall_domain::document::DocumentKind;
use recall_domain::injection::excerpt::{self, LINE, beginning, is_filler, joined, sentences};
use recall_domain::passage::{Passage, PassageTerm};
use recall_domain::tokens::estimate;

use super::SourceKind;
use super::clause::{Opening, cut, opening};
use super::faults::faults;
use super::kind::says_why;
use super::never::{Never, Within, never};
use super::open::{Progress, is_left, ticked};
use super::plain::plain;
use super::subject::{is_generic, of_heading};
use super::word::{is_file, is_identifier};

/// The maximum number of names that count in one sentence. Each counts as much as one bit of the question.
const MOST_NAMES: usize = 2;
/// The value of a reason, a cause or a warning, in bits.
const WHY: f32 = 1.0;
/// The penalty of open work, in bits, because an outcome comes before a plan.
const LEFT: f32 = 1.0;
/// The penalty of a fault in a sentence that is read alone, in bits.
const FAULT: f32 = 2.0;
/// The penalty of a sentence without its subject, in bits.
const LEANING: f32 = 1.5;
/// The length that a shorter sentence counts as, because a fragment is no better for being short.
const SHORTEST: u32 = 8;
/// The minimum length of a term that may be a part of a word.
const SHORTEST_PART: usize = 3;
/// The fraction of the line that a title may take beside a sentence: one in this many.
const OF_TITLE: u32 = 2;
/// If there is room, sentences with at least this share of the best one's value are added, and those that contain more
/// of the question.
const OF_BEST: f32 = 0.5;
/// The maximum number of characters of code that are shown with the sentence above it.
const OF_CODE: usize = 160;
/// The characters per token when a sentence is cut.
const OF_TOKEN: usize = 4;

/// The line of a passage within this number of tokens. If there is room for more than a line, every sentence that fits
/// is shown, because any of them may be the answer. `None` if the passage states nothing.
pub fn injected_line(
    passage: &Passage,
    kind: DocumentKind,
    terms: &[PassageTerm],
    most: u32,
) -> Option<Passage> {
    if most <= LINE {
        return line(passage, kind, &Asked(terms));
    }
    let stated = without_the_moment(&passage.text);
    if stated.trim().is_empty() && !passage.text.trim().is_empty() {
        return None;
    }
    let (heading, text) = excerpt::of(&passage.heading, &stated, terms, most);
    Some(Passage { heading, text })
}

/// A text without its sentences about a passing state, which mislead later.
fn without_the_moment(text: &str) -> String {
    let is_of_the_moment = |sentence: &&str| {
        let found = never(sentence, SourceKind::Answer, Within::Earlier);
        matches!(found, Some(Never::Status | Never::GitRoutine | Never::TestCounts))
    };
    let mut is_code = false;
    let mut stated: Vec<String> = Vec::new();
    for line in text.lines() {
        is_code ^= line.trim_start().starts_with("```");
        let of_line = sentences(line);
        if is_code || !of_line.iter().any(is_of_the_moment) {
            stated.push(line.to_owned());
            continue;
        }
        let kept: Vec<&str> = of_line.into_iter().filter(|sentence| !is_of_the_moment(sentence)).collect();
        if !kept.is_empty() {
            stated.push(kept.join(" "));
        }
    }
    stated.join("\n")
}

fn line(passage: &Passage, kind: DocumentKind, asked: &Asked<'_>) -> Option<Passage> {
    let pieces = pieces(&passage.text);
    let is_titled = matches!(kind, DocumentKind::Observation | DocumentKind::Summary);
    let title = if is_titled { plain(&passage.heading) } else { String::new() };
    let title_is_statement = kind == DocumentKind::Observation && !title.is_empty();
    let title_alone = || Passage { heading: beginning(&title, LINE), text: String::new() };
    let mut order: Vec<(f32, usize)> =
        pieces.iter().enumerate().map(|(place, piece)| (asked.worth(piece), place)).collect();
    order.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
    let Some(best) = order.first().and_then(|(_, place)| pieces.get(*place)) else {
        return title_is_statement.then(title_alone);
    };
    // A title that says as much, where both do not fit.
    let is_long = estimate(&title) + estimate(&best.text) > LINE;
    if title_is_statement && is_long && asked.bits(&title) + WHY >= asked.bits(&best.text) {
        return Some(title_alone());
    }
    let heading = match is_titled {
        true if is_long && asked.bits(&title) == 0.0 => String::new(),
        true => beginning(&title, LINE / OF_TITLE),
        false => of_heading(Some(&passage.heading), &best.text).unwrap_or_default(),
    };
    let room = LINE.saturating_sub(estimate(&heading));
    Some(Passage { text: chosen(&pieces, &order, room, asked), heading })
}

/// The best sentence, the text that it depends on, and further sentences as far as they fit.
fn chosen(pieces: &[Piece], order: &[(f32, usize)], room: u32, asked: &Asked<'_>) -> String {
    let texts: Vec<&str> = pieces.iter().map(|piece| piece.text.as_str()).collect();
    let mut kept: Vec<usize> = Vec::new();
    let mut line = String::new();
    let add = |places: &[usize], kept: &mut Vec<usize>, line: &mut String| {
        let mut more: Vec<usize> = kept.iter().chain(places).copied().collect();
        more.sort_unstable();
        more.dedup();
        let longer = joined(&texts, &more);
        let fits = estimate(&longer) <= room;
        if fits {
            (*kept, *line) = (more, longer);
        }
        fits
    };
    let enough = order.first().map_or(0.0, |(best, _)| (best * OF_BEST).max(0.0));
    for (worth, place) in order {
        let Some(piece) = pieces.get(*place) else { continue };
        let is_first = kept.is_empty();
        let is_worth_adding = *worth > enough && !piece.is_left || asked.adds(&piece.text, &line);
        if !is_first && !is_worth_adding {
            continue;
        }
        let before = place.checked_sub(1).filter(|_| piece.leans);
        let is_added = before.is_some_and(|before| add(&[before, *place], &mut kept, &mut line))
            || add(&[*place], &mut kept, &mut line);
        if is_first && !is_added {
            return shortened(&piece.text, room);
        }
    }
    line
}

/// Shortens a sentence that is too long: to its beginning if that is a complete statement, or else to its first words.
fn shortened(text: &str, room: u32) -> String {
    let most = usize::try_from(room).unwrap_or_default() * OF_TOKEN;
    match cut(text, most) {
        Some(cut) if estimate(&cut.head) <= room => cut.head,
        _ => beginning(text, room),
    }
}

/// A sentence, an entry of a list, or a row of a table.
#[derive(Clone, Debug, PartialEq)]
struct Piece {
    /// The text without marks.
    text: String,
    /// Whether its subject is in the piece before it.
    leans: bool,
    /// Whether it is open work.
    is_left: bool,
    /// Its value whatever the question is, in bits.
    form: f32,
}

impl Piece {
    /// `None` if it says nothing.
    fn of(raw: &str) -> Option<Self> {
        let text = plain(raw);
        let is_never = never(raw, SourceKind::Answer, Within::Earlier).is_some();
        let is_code =
            raw.starts_with("//") || raw.starts_with("::") || raw.ends_with(['{', '}']) && !raw.contains('`');
        let names_only = text.split_whitespace().all(|word| is_identifier(word) || is_file(word));
        if is_never || is_code || names_only || is_filler(&text) || is_generic(&text) || is_commit(&text) {
            return None;
        }
        let leans = matches!(opening(&text), Opening::Pronoun | Opening::Lacking);
        let mut form = -FAULT * faults(&text);
        form += if says_why(&text) { WHY } else { 0.0 };
        let is_left = is_left(&text);
        form -= if is_left { LEFT } else { 0.0 };
        form -= if leans { LEANING } else { 0.0 };
        form += text.split_whitespace().filter(|word| is_identifier(word)).take(MOST_NAMES).count() as f32;
        Some(Self { text, leans, is_left, form })
    }
}

/// `Commit 1f2e3d4 on main`.
fn is_commit(text: &str) -> bool {
    let mut words = text.split_whitespace();
    let is_named = words.next().is_some_and(|word| word.eq_ignore_ascii_case("commit"));
    is_named
        && words.next().is_some_and(|word| word.len() >= 7 && word.chars().all(|c| c.is_ascii_hexdigit()))
}

/// The pieces of a text that say something. Code belongs to the sentence above it.
fn pieces(text: &str) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    // The line before, if it only introduces what follows.
    let mut lead: Option<String> = None;
    let mut code: Option<Vec<&str>> = None;
    let mut lines = text.lines().map(str::trim).peekable();
    while let Some(line) = lines.next() {
        let is_fence = line.starts_with("```") || line.starts_with("~~~");
        match (&mut code, is_fence) {
            (None, true) => code = Some(Vec::new()),
            (Some(inner), true) => {
                with_code(&mut pieces, lead.take(), inner);
                code = None;
            }
            (Some(inner), false) => inner.push(line),
            (None, false) if line.starts_with('|') => {
                let is_head = lines.peek().is_some_and(|next| is_rule(next));
                if !is_head && !is_rule(line) {
                    pieces.extend(row(line).as_deref().and_then(Piece::of));
                }
            }
            (None, false) => {
                let entry = ["- ", "* "].iter().find_map(|mark| line.strip_prefix(mark)).unwrap_or(line);
                let (progress, entry_text) = ticked(entry);
                if progress == Progress::Left {
                    continue;
                }
                let before = pieces.len();
                if let Some((file, last)) = only_file(entry_text).zip(pieces.last_mut()) {
                    last.text.push_str(&format!(" ({file})"));
                    continue;
                }
                for sentence in sentences(entry_text) {
                    lead = sentence.ends_with(':').then(|| plain(sentence));
                    pieces.extend(Piece::of(sentence));
                }
                // What lacks a piece before it in the same paragraph leans on a text that is not told.
                if let Some(first) = pieces.get_mut(before).filter(|_| before == 0) {
                    first.leans = false;
                }
            }
        }
    }
    pieces
}

/// `File: src/cart.rs`, the place that the sentence before it is about.
fn only_file(line: &str) -> Option<String> {
    let text = plain(line);
    let (label, file) = text.split_once(": ")?;
    let is_label =
        ["file", "location", "path", "where"].iter().any(|known| label.eq_ignore_ascii_case(known));
    (is_label && !file.contains(' ') && is_file(file)).then(|| file.to_owned())
}

/// Adds code to the line that introduces it, or to the sentence before it.
fn with_code(pieces: &mut Vec<Piece>, lead: Option<String>, code: &[&str]) {
    let is_shown = |line: &&&str| {
        let is_frame = line.starts_with(['#', '{', '}', '/', ']', ')']) || line.ends_with(['{', '[', '(']);
        !is_frame && line.chars().filter(|c| c.is_alphanumeric()).count() > 2
    };
    let mut shown = String::new();
    for line in code.iter().filter(is_shown) {
        let more = format!(" `{line}`");
        if shown.chars().count() + more.chars().count() > OF_CODE {
            break;
        }
        shown.push_str(&more);
    }
    if shown.is_empty() {
        return;
    }
    let names = MOST_NAMES as f32;
    match (lead, pieces.last_mut()) {
        (Some(lead), _) => {
            pieces.push(Piece { text: format!("{lead}{shown}"), leans: false, is_left: false, form: names });
        }
        (None, Some(last)) => {
            last.text.push_str(&shown);
            last.form += names;
        }
        (None, None) => {}
    }
}

/// `|---|---:|`.
fn is_rule(line: &str) -> bool {
    line.starts_with('|') && line.contains('-') && line.chars().all(|c| matches!(c, '|' | '-' | ':' | ' '))
}

/// A table row as a sentence: its subject, then its other cells.
fn row(line: &str) -> Option<String> {
    let mut cells = line.split('|').map(str::trim).filter(|cell| !cell.is_empty());
    let first = cells.next()?;
    let rest: Vec<&str> = cells.collect();
    (!rest.is_empty()).then(|| format!("{first}: {}", rest.join(", ")))
}

/// The question.
struct Asked<'a>(&'a [PassageTerm]);

impl Asked<'_> {
    fn terms(&self, text: &str) -> impl Iterator<Item = &PassageTerm> {
        let lower = text.to_lowercase();
        self.0.iter().filter(move |term| term.text.len() >= SHORTEST_PART && lower.contains(&term.text))
    }

    /// The information that a text shares with the request, in bits.
    fn bits(&self, text: &str) -> f32 {
        self.terms(text).map(|term| term.information).sum()
    }

    /// Whether a text contains something of the question that a line lacks.
    fn adds(&self, text: &str, line: &str) -> bool {
        let line = line.to_lowercase();
        self.terms(text).any(|term| !line.contains(&term.text))
    }

    fn worth(&self, piece: &Piece) -> f32 {
        let length = estimate(&piece.text).max(SHORTEST) as f32;
        (self.bits(&piece.text) + piece.form) / length.sqrt()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use recall_domain::injection::excerpt::ANSWER;
    use recall_domain::ranking::Commonness;

    use super::*;

    fn term(text: &str) -> PassageTerm {
        PassageTerm { text: text.to_owned(), information: 3.0, passages: 3, commonness: Commonness::Content }
    }

    fn line(kind: DocumentKind, heading: &str, text: &str, asked: &[&str]) -> Option<String> {
        let passage = Passage { heading: heading.to_owned(), text: text.to_owned() };
        let terms: Vec<PassageTerm> = asked.iter().map(|text| term(text)).collect();
        injected_line(&passage, kind, &terms, LINE)
            .map(|injected| format!("{}|{}", injected.heading, injected.text))
    }

    #[track_caller]
    fn check(text: &str, asked: &[&str], expected: &str) {
        assert_eq!(line(DocumentKind::Response, "", text, asked).as_deref(), Some(expected), "{text}");
    }

    #[test]
    fn a_name_alone_is_not_a_statement() {
        check("roundCartTotal()\nThe cart rounds once.", &["round"], "|The cart rounds once.");
        assert_eq!(line(DocumentKind::Response, "", "`roundCartTotal()`", &["round"]), None);
    }

    #[test]
    fn sentences_about_a_passing_state_are_left_out_of_an_answer() {
        let injected_text = |text: &str| {
            let passage = Passage { heading: String::new(), text: text.to_owned() };
            injected_line(&passage, DocumentKind::Response, &[term("cart")], ANSWER)
                .map(|injected| injected.text)
        };
        let rounds = "The cart rounds once.\n```\ngit push\n```";
        assert_eq!(
            injected_text(&format!("All code is committed and pushed. {rounds}")).as_deref(),
            Some(rounds)
        );
        assert_eq!(injected_text(rounds).as_deref(), Some(rounds));
        assert_eq!(injected_text("All code of the cart is committed and pushed."), None);
    }

    #[test]
    fn the_injected_line_is_the_statement_about_the_question() {
        check(
            "All done! Here is what I did:\n\nThe gateway gives up after 30 s because the bank never answers later. \
             All 98 tests pass.\n\nWant me to commit the gateway?",
            &["gateway"],
            "|The gateway gives up after 30 s because the bank never answers later.",
        );
        check(
            "I will look at how the cart rounds first.\nThe cart rounds once, after the sum.\nPushed to main.",
            &["cart", "round"],
            "|The cart rounds once, after the sum.",
        );
        check(
            "TODO: the gateway still has to be moved to a queue.\nThe gateway was moved out of the cart.",
            &["gateway"],
            "|The gateway was moved out of the cart.",
        );
    }

    #[test]
    fn a_sentence_without_a_subject_is_injected_with_the_previous_one() {
        check(
            "The wallet cache keeps rates for a day. It drops them when the bank sends a refund notice.",
            &["refund"],
            "|The wallet cache keeps rates for a day. It drops them when the bank sends a refund notice.",
        );
    }

    #[test]
    fn links_and_marks_are_removed_from_the_injected_line() {
        check(
            "- **Rounding** lives in [cart.ts](/home/kim/work/shop/src/deeply/nested/cart.ts#L140) now, not in the view.",
            &["rounding"],
            "|Rounding lives in cart.ts now, not in the view.",
        );
    }

    #[test]
    fn code_is_shown_with_its_introduction_and_a_table_row_with_its_name() {
        check(
            "Clear the quarantine mark of the app first:\n```sh\n# once\nxattr -cr Shop.app\n```",
            &["quarantine"],
            "|Clear the quarantine mark of the app first: `xattr -cr Shop.app`",
        );
        check(
            "| place | radius |\n|---|---|\n| village | at least 5 km around it |\n| town | 2 km |",
            &["village"],
            "|village: at least 5 km around it",
        );
    }

    #[test]
    fn a_file_line_is_added_to_the_sentence_before_it() {
        check(
            "The cart rounds once, after the sum.\n**File**: `src/cart.rs`",
            &["cart"],
            "|The cart rounds once, after the sum. (src/cart.rs)",
        );
    }

    #[test]
    fn text_without_a_statement_is_not_injected() {
        for text in [
            "Review complete.",
            "Done. Want me to commit it?",
            "```sh\ncargo test\n```",
            "- [ ] round the cart\n- [ ] ship the gateway",
            "Commit 1f2e3d4c on feat/cart",
            "// the cart rounds once\nfn gateway(cart: Cart) {",
            "| what | where |\n|---|---|",
        ] {
            assert_eq!(line(DocumentKind::Response, "Changes", text, &["cart", "gateway"]), None, "{text}");
        }
    }

    #[test]
    fn a_title_is_injected_alone_if_its_text_does_not_fit() {
        let long = "It was tried with one rounding per line before that, and the sums on the invoices of the larger \
                    customers then differed from what the bank had booked by up to a euro in every single month, which \
                    nobody could explain to the people who audit the books at the end of the year.";
        let title = "Totals of the cart are rounded once, after the sum";
        assert_eq!(
            line(DocumentKind::Observation, title, long, &["cart", "total"]),
            Some(format!("{title}|"))
        );
        let short = "Each line lost a cent.";
        assert_eq!(
            line(DocumentKind::Observation, title, short, &["cart"]),
            Some(format!("{title}|{short}"))
        );
        assert_eq!(line(DocumentKind::Observation, title, "", &[]), Some(format!("{title}|")));
    }

    #[test]
    fn a_heading_is_injected_only_if_it_adds_a_subject() {
        let rule = "Orders older than a week are never sent again.";
        let injected_with = |heading| line(DocumentKind::Response, heading, rule, &["sent"]).unwrap();
        assert_eq!(injected_with("Summary"), format!("|{rule}"));
        assert_eq!(injected_with("Retry queue"), format!("Retry queue|{rule}"));
    }

    #[test]
    fn a_long_sentence_is_cut_where_a_clause_ends() {
        let head = "The gateway keeps each answer of the bank for a day";
        let text =
            format!("{head}, because {}", "a second call would cost what the first one did ".repeat(8));
        check(&text, &["gateway"], &format!("|{head}"));
    }

    proptest! {
        #[test]
        fn an_injected_line_is_short(
            heading in "[a-z ]{0,200}",
            text in "([a-zA-Z\u{e9}]{1,9}[ .!?\n]{1,2}|\u{3002}|`|```\n|\\| |- |\\[a\\]\\(b\\)){0,200}",
        ) {
            let passage = Passage { heading, text };
            for most in [LINE, ANSWER] {
                for kind in [DocumentKind::Response, DocumentKind::Observation, DocumentKind::Summary] {
                    if let Some(shown) = injected_line(&passage, kind, &[term("abc")], most) {
                        prop_assert!(estimate(&shown.heading) + estimate(&shown.text) <= most + 2, "{shown:?}");
                        prop_assert!(most > LINE || !shown.text.contains('\n'));
                    }
                }
            }
        }
    }
}
