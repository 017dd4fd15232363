//! Finds the places at which a sentence can be cut so that its beginning is still a complete statement.

use super::plain::is_balanced;
use super::word::{
    bare, is_base_verb, is_past, is_quantity, is_surely_finite, is_third_person, is_weak, verb_at,
};

/// How the beginning of a sentence ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Border {
    /// The text is complete.
    Whole,
    /// The end of a sentence, or a dash or semicolon between two.
    Sentence,
    /// A reason, a consequence or a contrast follows.
    Clause,
    /// More of the same follows, or a bracket.
    Addition,
}

impl Border {
    /// The penalty for a title with this end.
    pub(super) fn cost(self) -> f32 {
        match self {
            Self::Whole => 0.0,
            Self::Sentence => 0.05,
            Self::Clause => 0.2,
            Self::Addition => 0.4,
        }
    }
}

/// A beginning and the rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cut {
    pub(super) head: String,
    pub(super) rest: String,
    pub(super) border: Border,
}

/// Whether the mark itself belongs to the rest.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    Goes,
    Stays,
}

const BORDERS: [(&str, Border, Mark); 28] = [
    (". ", Border::Sentence, Mark::Goes),
    (" — ", Border::Sentence, Mark::Goes),
    (" – ", Border::Sentence, Mark::Goes),
    (" - ", Border::Sentence, Mark::Goes),
    (" -- ", Border::Sentence, Mark::Goes),
    ("; ", Border::Sentence, Mark::Goes),
    (" so that ", Border::Clause, Mark::Stays),
    (" because ", Border::Clause, Mark::Stays),
    (", so ", Border::Clause, Mark::Stays),
    (", which ", Border::Clause, Mark::Stays),
    (", but ", Border::Clause, Mark::Stays),
    (", instead of ", Border::Clause, Mark::Stays),
    (", rather than ", Border::Clause, Mark::Stays),
    (" instead of ", Border::Clause, Mark::Stays),
    (" rather than ", Border::Clause, Mark::Stays),
    (" since ", Border::Clause, Mark::Stays),
    (" even though ", Border::Clause, Mark::Stays),
    (", not ", Border::Clause, Mark::Stays),
    (", and ", Border::Addition, Mark::Stays),
    (", or ", Border::Addition, Mark::Stays),
    (": ", Border::Addition, Mark::Goes),
    (" (", Border::Addition, Mark::Stays),
    (", ", Border::Addition, Mark::Goes),
    (" where ", Border::Addition, Mark::Stays),
    (" while ", Border::Addition, Mark::Stays),
    (" when ", Border::Addition, Mark::Stays),
    (" via ", Border::Addition, Mark::Stays),
    (" and ", Border::Addition, Mark::Stays),
];

/// Abbreviations: a point after one does not end a sentence.
const ABBREVIATIONS: [&str; 6] = [" etc", " e.g", "(e.g", " i.e", " vs", " approx"];

/// The minimum length of a beginning. A shorter one says too little.
const SHORTEST: usize = 24;
/// A beginning shorter than this is used only if no longer one ends at another border.
const SHORT: usize = 45;

/// The whole text if it has at most `most` characters, else its best beginning of at most that length. `None` if it
/// cannot be cut well.
pub(super) fn cut(text: &str, most: usize) -> Option<Cut> {
    let text = text.trim();
    let whole = trimmed(text);
    if whole.chars().count() <= most {
        return is_balanced(whole).then(|| Cut {
            head: whole.to_owned(),
            rest: String::new(),
            border: Border::Whole,
        });
    }
    let mut best: Option<Cut> = None;
    for (mark, border, goes) in BORDERS {
        if best.as_ref().is_some_and(|best| best.border < border && best.head.chars().count() >= SHORT) {
            break;
        }
        for (at, _) in text.match_indices(mark) {
            let head = trimmed(text.get(..at).unwrap_or_default());
            if head.chars().count() > most {
                break;
            }
            if mark == ". " && ABBREVIATIONS.iter().any(|short| head.to_lowercase().ends_with(short)) {
                continue;
            }
            let skipped = if goes == Mark::Goes { at + mark.len() } else { at };
            let rest = text.get(skipped..).unwrap_or_default().trim_start_matches([',', ' ']);
            // A list is not cut between its entries, nor a pair of things, nor a sentence before its aside.
            let is_within = match mark {
                " and " => !goes_on(rest),
                ", and " | ", or " => ends_with_entry(head) && !goes_on(rest),
                ", " => best.is_some() || joins(rest) || begins_with_entries(rest),
                " — " | " – " | " - " | " -- " => is_aside(rest, mark),
                ": " => ends_with_scope(head),
                _ => false,
            };
            if is_within {
                continue;
            }
            let is_longer = best.as_ref().is_none_or(|best| best.head.len() < head.len());
            let is_statement = border < Border::Clause || mark == " (" || states(head) || !states(text);
            if head.chars().count() >= SHORTEST
                && is_longer
                && is_statement
                && stands(head)
                && is_balanced(head)
            {
                best = Some(Cut { head: head.to_owned(), rest: rest.to_owned(), border });
            }
        }
    }
    best
}

/// Whether the text has a verb.
fn states(text: &str) -> bool {
    !matches!(opening(text), Opening::Fragment)
}

/// Whether the text after an `and` has its own verb.
fn goes_on(rest: &str) -> bool {
    let next = rest.split_whitespace().nth(1).map(bare).unwrap_or_default();
    is_surely_finite(&next) || is_past(&next) || next.ends_with("ing") || is_base_verb(&next)
}

/// Whether the text after the last comma is a list entry: `no CLI, global`.
fn ends_with_entry(head: &str) -> bool {
    head.rsplit_once(", ").is_some_and(|(_, last)| is_entry(last))
}

/// Whether a text begins with the next entries of a list: `global, or per tool`.
fn begins_with_entries(rest: &str) -> bool {
    let mut entries =
        [", and ", ", or "].iter().filter_map(|last| rest.split_once(last)).map(|(some, _)| some);
    entries.any(|some| some.split(", ").all(is_entry))
}

fn joins(rest: &str) -> bool {
    rest.starts_with("and ") || rest.starts_with("or ")
}

fn is_entry(text: &str) -> bool {
    let words: Vec<String> = text.split_whitespace().map(bare).collect();
    words.len() < 4 && !words.iter().any(|word| is_surely_finite(word) || is_past(word))
}

/// Whether the text after a dash is an aside, with the verb after its second dash: `- which nobody saw - rounds once`.
fn is_aside(rest: &str, dash: &str) -> bool {
    rest.split_once(dash).is_some_and(|(_, behind)| {
        let next = behind.split_whitespace().next().map(bare).unwrap_or_default();
        is_surely_finite(&next) || is_third_person(&next)
    })
}

/// Whether a commit's type with its scope precedes a colon: `because feat(cart): round once added it`.
fn ends_with_scope(head: &str) -> bool {
    let last = head.rsplit(' ').next().unwrap_or_default();
    last.contains('(') && last.ends_with(')')
}

/// The text without the marks at its end.
pub(super) fn trimmed(text: &str) -> &str {
    let text = text.trim_end_matches(['.', ':', ';', ',', ' ', '—', '–', '…', '!']);
    text.strip_suffix(" -").unwrap_or(text)
}

/// Whether a beginning can stand alone: it does not end with a word that needs another, and its first clause is not a
/// condition without a consequence.
fn stands(head: &str) -> bool {
    let words: Vec<String> = head.split_whitespace().map(bare).collect();
    let last = words.last().map(String::as_str).unwrap_or_default();
    let conditional = matches!(
        words.first().map(String::as_str),
        Some(
            "if" | "when"
                | "while"
                | "since"
                | "because"
                | "after"
                | "before"
                | "although"
                | "though"
                | "once"
                | "for"
                | "with"
                | "during"
                | "unless"
        )
    );
    !is_weak(last) && (!conditional || head.contains(", "))
}

/// How a sentence begins, which shows whether it names its subject.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Opening {
    /// A subject, then a verb.
    Subject,
    /// `Add x`, the form of commits and plans.
    Imperative,
    /// `Added x`.
    Done,
    /// `Returns x`: the subject was named before.
    Lacking,
    /// `It returns x`.
    Pronoun,
    /// No verb: a name, a heading.
    Fragment,
}

/// The number of words that are searched for a verb.
const FAR: usize = 14;

/// The words up to a dash, a semicolon or a full stop.
fn first_clause(text: &str) -> Vec<&str> {
    let mut words = Vec::new();
    for word in text.split_whitespace().take(FAR) {
        if matches!(word, "—" | "–" | "-" | "--") && !words.is_empty() {
            break;
        }
        words.push(word);
        if word.ends_with([';', ':']) || word.ends_with('.') && word.len() > 3 {
            break;
        }
    }
    words
}

pub(super) fn opening(text: &str) -> Opening {
    let words = first_clause(text);
    let bares: Vec<String> = words.iter().map(|word| bare(word)).collect();
    let Some(first) = bares.first() else { return Opening::Fragment };
    let code = |at: usize| words.get(at).is_some_and(|word| super::word::is_identifier(word));
    let later = verb_at(&words, 1);
    let counts =
        is_quantity(first) && bares.get(1).is_some_and(|next| !is_weak(next) && !is_surely_finite(next));
    if super::word::is_pronoun(first) && !counts {
        return Opening::Pronoun;
    }
    // `Uses x`, `Triggers when y`: a verb although it could be a noun.
    let takes = words.get(1).is_some_and(|next| super::word::is_identifier(next))
        || bares.get(1).is_some_and(|next| is_weak(next) && !is_surely_finite(next));
    if is_third_person(first) && !code(0) && takes {
        return Opening::Lacking;
    }
    let soon = bares.iter().enumerate().skip(1).take(3).any(|(at, word)| !code(at) && is_surely_finite(word));
    if !code(0) && !soon {
        if is_base_verb(first) {
            return Opening::Imperative;
        }
        if is_past(first) {
            return Opening::Done;
        }
        if is_third_person(first) && is_surely_finite(first) {
            return Opening::Lacking;
        }
    }
    if matches!(first.as_str(), "no" | "not" | "never" | "always" | "only" | "don't") && later.is_none() {
        let verb = bares.get(1).is_some_and(|word| is_base_verb(word));
        return if verb { Opening::Imperative } else { Opening::Fragment };
    }
    if later.is_some() || !super::word::is_english(text) && words.len() > 3 {
        return Opening::Subject;
    }
    if is_third_person(first) && !code(0) { Opening::Lacking } else { Opening::Fragment }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: Option<(&str, &str)>) {
        let cut = cut(text, 60);
        assert_eq!(cut.as_ref().map(|cut| (cut.head.as_str(), cut.rest.as_str())), expected);
    }

    #[test]
    fn a_long_sentence_is_cut_where_a_clause_ends() {
        check("The total is rounded once.", Some(("The total is rounded once", "")));
        check(
            "The total is rounded after all lines are summed — lines lost a cent each before.",
            Some(("The total is rounded after all lines are summed", "lines lost a cent each before.")),
        );
        check(
            "The total is rounded after summing because every line lost a cent of its own",
            Some(("The total is rounded after summing", "because every line lost a cent of its own")),
        );
        check(
            "The total of a cart that holds more than one kind of currency is never rounded at all by anyone",
            None,
        );
        check("If the cart is empty, the total that is shown to whoever looks at it is nought", None);
        check(
            "The total (which nobody would have thought of, but for the tests) is rounded after summing",
            None,
        );
    }

    #[test]
    fn a_sentence_is_not_cut_after_a_commit_scope() {
        check("The upload of the parcel broke after feat(cart): round totals of all carts only once", None);
    }

    #[test]
    fn a_list_is_not_cut_before_its_last_entry() {
        check(
            "Prices come from the cache when no catalogue, customer, or seasonal discount of this week applies to it",
            Some((
                "Prices come from the cache",
                "when no catalogue, customer, or seasonal discount of this week applies to it",
            )),
        );
        check(
            "The cart rounds its total, adds the tax, and sends the whole to the printer in the back office",
            Some((
                "The cart rounds its total, adds the tax",
                "and sends the whole to the printer in the back office",
            )),
        );
    }

    #[test]
    fn a_sentence_is_not_cut_before_an_aside_that_precedes_its_verb() {
        check(
            "A cart that was left by its owner — and that is most of them by now — keeps its prices for an hour",
            None,
        );
        check(
            "The total of the cart is rounded once — as it says in the law — and never again",
            Some(("The total of the cart is rounded once", "as it says in the law — and never again")),
        );
    }

    #[test]
    fn a_sentence_opening_shows_whether_its_subject_is_named() {
        for (text, expected) in [
            ("The cart rounds its total once", Opening::Subject),
            ("`Cart` returns nothing", Opening::Subject),
            ("Reset deletes both branches", Opening::Subject),
            ("Add a cache to the cart", Opening::Imperative),
            ("Never push to main", Opening::Imperative),
            ("Added a cache to the cart", Opening::Done),
            ("Returns nothing on errors", Opening::Lacking),
            ("It returns nothing", Opening::Pronoun),
            ("The cart of the shop", Opening::Fragment),
            ("Der Warenkorb rundet einmal", Opening::Subject),
        ] {
            assert_eq!(opening(text), expected, "{text}");
        }
    }
}
