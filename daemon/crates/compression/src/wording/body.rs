//! Writes bodies: what the selected pieces say beyond the title, without repetition.

use super::check::is_check;
use super::clause::{Opening, opening};
use super::never::{Within, never};
use super::plain::{capitalized, plain};
use super::subject::{is_generic, without_number};
use super::title::Title;
use super::word::{content, is_identifier, phrases};
use super::{LONGEST_FACT, Piece, SourceKind};

/// The text of an observation below its title.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Body {
    /// Whole sentences.
    pub narrative: String,
    /// Short lines.
    pub facts: Vec<String>,
}

/// What the pieces say beyond the title: sentences become the narrative, short list entries become facts. A piece
/// without anything new is left out. A heading that names something precedes the first piece below it.
pub(crate) fn body(pieces: &[Piece<'_>], title: Option<&Title>) -> Body {
    let mut known = KnownContent::default();
    if let Some(title) = title {
        known.add(&title.text);
    }
    let mut body = Body::default();
    let mut sentences: Vec<String> = Vec::new();
    let mut labelled = Labelled::default();
    let mut heading = pieces.first().and_then(|piece| piece.about());
    // What the title leaves of its sentence goes on below it.
    let mut order: Vec<(usize, &Piece<'_>)> = pieces.iter().enumerate().collect();
    order.sort_by_key(|(at, _)| title.is_none_or(|title| title.piece != *at));
    for (at, piece) in order {
        let titled = title.filter(|title| title.piece == at);
        let text =
            titled.map_or_else(|| plain(piece.text), |title| continued(&plain(&title.rest), piece.text));
        let text = without_bracket(without_joint(text.trim()));
        let is_chaff = titled.is_none()
            && (never(piece.text, piece.source, Within::Earlier).is_some()
                || is_check(&text, piece.heading)
                || is_check(&text, piece.lead)
                || is_question(&text, piece.source));
        if text.is_empty() || is_chaff || known.has(&text) && titled.is_none() {
            continue;
        }
        let text = match piece.about() {
            Some(new) if piece.about() != heading => {
                heading = piece.about();
                with_heading(new, &text, &known)
            }
            _ => text,
        };
        known.add(&text);
        let is_line =
            !text.ends_with(['.', '!', '?']) && text.chars().count() <= LONGEST_FACT && titled.is_none();
        // A label says something together with what stands below it.
        if is_line && text.ends_with(':') {
            labelled.end(&mut body, &mut sentences);
            labelled.label = Some(text);
        } else if is_line && labelled.label.is_some() {
            labelled.lines.push(text);
        } else if let Some(label) = labelled.label.take_if(|_| labelled.lines.is_empty()) {
            sentences.push(format!("{label} {text}"));
        } else {
            labelled.end(&mut body, &mut sentences);
            // A narrative first: facts alone say too little where no title leads to them.
            match is_line && (title.is_some() || !sentences.is_empty()) {
                true => body.facts.push(text),
                false => sentences.push(text),
            }
        }
    }
    labelled.end(&mut body, &mut sentences);
    body.narrative = joined(&sentences);
    body
}

/// Whether an agent asks something. The answer is then elsewhere.
fn is_question(text: &str, source: SourceKind) -> bool {
    matches!(source, SourceKind::Answer | SourceKind::Subagent) && text.ends_with('?')
}

/// A label with the lines below it.
#[derive(Default)]
struct Labelled {
    label: Option<String>,
    lines: Vec<String>,
}

impl Labelled {
    /// Joins the lines with their label: one line becomes a fact, several become a sentence, because the label applies
    /// to all of them.
    fn end(&mut self, body: &mut Body, sentences: &mut Vec<String>) {
        let (Some(label), lines) = (self.label.take(), std::mem::take(&mut self.lines)) else { return };
        match lines.as_slice() {
            [] => {}
            [line] => body.facts.push(format!("{label} {line}")),
            _ => sentences.push(format!("{label} {}", lines.join("; "))),
        }
    }
}

/// The rest of the title's sentence, as a sentence of its own; the whole sentence if the rest cannot be one.
fn continued(rest: &str, sentence: &str) -> String {
    const DEPENDENT: &str = "which, who, whose, where, when, while, or, instead, rather, including, not, than, with, without, \
        via, unless, until, even, as";
    const OWN_SUBJECT: &str = "it, its, they, their, this, that, these, there, the, a, an, no, each, every, all, only, both, if, \
        I, we, you, he, she, when, since, our, your";
    /// The minimum number of words that adds something to the title.
    const FEWEST_WORDS: usize = 3;
    let has_subject = |text: &str| {
        let first = text.split_whitespace().next().unwrap_or_default();
        phrases(OWN_SUBJECT).any(|word| word == first)
            || is_identifier(first)
            || matches!(opening(text), Opening::Subject)
    };
    let (first, after) = rest.split_once(' ').unwrap_or((rest, ""));
    let whole = || match rest.split_whitespace().count() < FEWEST_WORDS {
        true => String::new(),
        false => plain(sentence),
    };
    match first {
        _ if !rest.starts_with(char::is_lowercase) => capitalized(rest),
        "which" if !has_subject(after) => format!("This {after}"),
        "because" | "since" if has_subject(after) => format!("The reason: {after}"),
        "so" | "but" | "and" if has_subject(after) => capitalized(rest),
        "because" | "since" | "so" | "but" | "and" => whole(),
        _ if phrases(DEPENDENT).any(|word| word == first) => whole(),
        _ if has_subject(rest) || opening(rest) == Opening::Imperative => capitalized(rest),
        _ => whole(),
    }
}

/// A list entry without the word that joins it to the next: `restart the till, or`.
fn without_joint(text: &str) -> &str {
    let joint = [", or", ", and", " or", " and", ";", ","];
    joint.iter().find_map(|joint| text.strip_suffix(joint)).unwrap_or(text).trim_end()
}

/// `(from x) and so on`, the rest after a title, without the bracket.
fn without_bracket(text: &str) -> String {
    match text.strip_prefix('(').and_then(|rest| rest.split_once(')')) {
        Some((aside, rest)) if !aside.contains('(') => capitalized(&format!("{aside}{rest}")),
        _ => text.to_owned(),
    }
}

fn with_heading(heading: &str, text: &str, known: &KnownContent) -> String {
    let heading = without_number(heading);
    let adds = !heading.is_empty()
        && !is_generic(&heading)
        && !known.has(&heading)
        && !KnownContent::of(text).has(&heading);
    if adds { format!("{heading}: {text}") } else { text.to_owned() }
}

/// Joins sentences, each with its end mark.
pub(super) fn joined(sentences: &[String]) -> String {
    let mut out = String::new();
    for sentence in sentences {
        if !out.is_empty() {
            out.push(' ');
        }
        out.push_str(&capitalized(sentence));
        if !sentence.ends_with(['.', '!', '?', ':', ';', '…']) {
            out.push('.');
        }
    }
    out
}

/// The content said so far.
#[derive(Clone, Debug, Default)]
pub(super) struct KnownContent(Vec<String>);

impl KnownContent {
    pub(super) fn of(text: &str) -> Self {
        Self(content(text))
    }

    pub(super) fn add(&mut self, text: &str) {
        for word in content(text) {
            if !self.0.contains(&word) {
                self.0.push(word);
            }
        }
    }

    /// Whether the text says nothing new: nine tenths of its content and all of its names and numbers were said.
    pub(super) fn has(&self, text: &str) -> bool {
        let words = content(text);
        let new: Vec<&String> = words.iter().filter(|word| !self.0.contains(word)).collect();
        let is_name = |word: &&&String| word.chars().any(|c| !c.is_alphabetic());
        new.len() * 10 <= words.len() && !new.iter().any(|word| is_name(&word))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Progress;
    use super::super::title::title;
    use super::*;

    fn piece<'a>(text: &'a str, heading: Option<&'a str>) -> Piece<'a> {
        Piece {
            text,
            heading,
            lead: None,
            salience: 1.0,
            source: SourceKind::Answer,
            progress: Progress::Unstated,
        }
    }

    #[test]
    fn a_body_repeats_neither_the_title_nor_itself() {
        let pieces = [
            piece(
                "The cart's total is rounded once after all lines are summed — every line lost up to a cent of its own before.",
                None,
            ),
            piece("The total is rounded once, after the lines of the cart are summed.", None),
            piece("- `Cart::total` is where it happens", None),
            piece("- `Cart::total` is where it happens", None),
        ];
        let title = title(&pieces).unwrap();
        assert_eq!(title.text, "The cart's total is rounded once after all lines are summed");
        let body = body(&pieces, Some(&title));
        assert_eq!(body.narrative, "Every line lost up to a cent of its own before.");
        assert_eq!(body.facts, ["Cart::total is where it happens"]);
    }

    #[test]
    fn the_rest_of_a_shortened_titles_sentence_starts_the_narrative() {
        let pieces = [
            piece("That is expected for old carts.", None),
            piece(
                "`Cart::total` is only summed after a line of the cart was changed by somebody, which happens on every sale in the shop",
                None,
            ),
        ];
        let title = title(&pieces).unwrap();
        assert_eq!(title.text, "Cart::total is only summed after a line of the cart was changed by somebody");
        assert_eq!(
            body(&pieces, Some(&title)).narrative,
            "This happens on every sale in the shop. That is expected for old carts."
        );
    }

    #[test]
    fn a_label_is_put_before_its_fact() {
        let pieces = [
            piece("The cart rounds its total once.", None),
            piece("What gift cards cost:", None),
            piece("a card is a line without a tax", None),
        ];
        let title = title(&pieces).unwrap();
        let body = body(&pieces, Some(&title));
        assert_eq!(body.facts, ["What gift cards cost: a card is a line without a tax"]);
    }

    #[test]
    fn a_label_of_several_lines_is_put_once_before_all_of_them() {
        let pieces = [
            piece("The cart rounds its total once.", None),
            piece("Gift cards are:", None),
            piece("a line without a tax", None),
            piece("never refunded", None),
            piece("That holds for vouchers as well.", None),
        ];
        let title = title(&pieces).unwrap();
        assert_eq!(
            body(&pieces, Some(&title)).narrative,
            "Gift cards are: a line without a tax; never refunded. That holds for vouchers as well."
        );
    }

    #[test]
    fn the_rest_of_a_titles_sentence_becomes_a_full_sentence() {
        let whole = "The till of the shop";
        for (rest, expected) in [
            ("which prints twice.", "This prints twice."),
            ("which I mended.", whole),
            ("because the drawer is open.", "The reason: the drawer is open."),
            ("so the drawer opens.", "So the drawer opens."),
            ("but if it is open, nothing happens.", "But if it is open, nothing happens."),
            ("and opens the drawer.", whole),
            ("when the drawer is open.", whole),
            ("retried, then failed.", whole),
            ("on Mondays.", ""),
            ("use the till for refunds.", "Use the till for refunds."),
            ("the till prints it.", "The till prints it."),
            ("cart_total is right.", "cart_total is right."),
        ] {
            assert_eq!(continued(rest, whole), expected, "{rest}");
        }
    }

    #[test]
    fn verification_steps_are_not_facts() {
        let pieces = [
            piece("The cart rounds its total once.", None),
            piece("cargo test cart", None),
            piece("open the shop and pay", Some("Verification")),
            piece("the drawer opens for refunds, or", None),
            piece("a voucher is a line", Some("Vouchers")),
            Piece { lead: Some("Validation passed"), ..piece("12 unit tests of the till", None) },
        ];
        let title = title(&pieces).unwrap();
        assert_eq!(
            body(&pieces, Some(&title)).facts,
            ["the drawer opens for refunds", "a voucher is a line"]
        );
    }

    #[test]
    fn status_and_offers_are_left_out_of_a_body() {
        let pieces = [
            piece("The cart rounds its total once.", None),
            piece("All 98 tests pass.", None),
            piece("Want me to push it?", None),
        ];
        let title = title(&pieces).unwrap();
        assert_eq!(body(&pieces, Some(&title)), Body::default());
    }

    #[test]
    fn a_new_number_or_name_makes_a_statement_new() {
        let known = KnownContent::of("The limit of the gateway is 30 s for the whole shop");
        assert!(known.has("The whole shop's gateway has the limit 30"));
        assert!(!known.has("The limit of the gateway is 60 s for the whole shop"));
        assert!(!known.has("The limit of `pay.rs` is 30 s"));
    }

    #[test]
    fn a_heading_that_names_something_is_put_before_its_statement() {
        let pieces = [
            piece("The cart rounds its total once.", Some("Summary")),
            piece("They cost nothing to send.", Some("Empty carts")),
            piece("It is cached for an hour.", Some("2. Details")),
        ];
        let title = title(&pieces).unwrap();
        assert_eq!(
            body(&pieces, Some(&title)).narrative,
            "Empty carts: They cost nothing to send. It is cached for an hour."
        );
    }
}
