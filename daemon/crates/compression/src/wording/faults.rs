//! Signs against a title: fragments, steps of a procedure, references to other places.

use super::clause::{Opening, opening};
use super::word::{bare, is_english, is_identifier, is_third_person, phrases, verb_at};

/// How a title begins, as features.
pub(crate) fn manner(title: &str) -> [(&'static str, bool); 6] {
    let manner = opening(title);
    [
        ("title has subject", Opening::Subject),
        ("title orders", Opening::Imperative),
        ("title is deed", Opening::Done),
        ("title lacks subject", Opening::Lacking),
        ("title is reference", Opening::Pronoun),
        ("title is fragment", Opening::Fragment),
    ]
    .map(|(name, opening)| (name, opening == manner))
}

/// Whether a title names its subject and has no fault.
pub(crate) fn stands_alone(title: &str) -> bool {
    opening(title) == Opening::Subject && faults(title) == 0.0 && !is_bare(title)
}

/// Whether a title's subject is a word for any work: `The fix changes the total`. Earlier text said which fix. In an
/// answer to a question the word means what was asked about.
pub(super) fn is_bare(title: &str) -> bool {
    const ANY: &str = "fix, result, results, outcome, failure, failures, refactoring, refactor, change, changes, component, job, \
        test, tests, function, method, file, code, implementation, solution, approach, error, errors, bug, hook, handler, check, \
        update, feature, diff, plan, workflow";
    let split: Vec<&str> = title.split_whitespace().take(5).collect();
    let [the, noun, verb, ..] = split.as_slice() else { return false };
    bare(the) == "the"
        && phrases(ANY).any(|any| any == *noun)
        && (verb_at(&split, 0).is_some_and(|at| at <= 2) || is_third_person(&bare(verb)))
}

/// The penalty of a title as a feature.
pub(crate) fn title_faults(title: &str) -> f32 {
    faults(title)
}

/// The penalty of a title, in the units of its value.
pub(super) fn faults(text: &str) -> f32 {
    let words: Vec<String> = text.split_whitespace().map(bare).collect();
    let length = text.chars().count();
    let mut against = 0.0;
    if words.len() < 4 || length < 24 {
        against += 0.6;
    }
    // A step of a procedure, not a statement.
    const STEPS: [&str; 14] = [
        "run", "verify", "check", "test", "ensure", "confirm", "open", "manual", "click", "see", "look",
        "example", "read", "load",
    ];
    if words.first().is_some_and(|first| STEPS.contains(&first.as_str())) {
        against += 0.6;
    }
    // To have looked at something is a step, too: what was found says more.
    const LOOKED: &str = "mapped, researched, investigated, reviewed, checked, looked, read, explored, analyzed, analysed, \
        traced, inspected, audited, verified, confirmed";
    if words.first().is_some_and(|first| phrases(LOOKED).any(|looked| looked == first)) {
        against += 0.6;
    }
    // `Stop running them`, `Pulled it back`: what, was said before.
    let is_deed = matches!(opening(text), Opening::Imperative | Opening::Done);
    if is_deed
        && words.iter().skip(1).take(2).any(|word| matches!(word.as_str(), "it" | "them" | "those" | "these"))
    {
        against += 0.5;
    }
    // `It unwraps those rows`, `every line in it`: which ones, was said before.
    let spaced_text = format!(" {} ", words.join(" "));
    if phrases("those, these, in it, of it, fixed by")
        .any(|pointer| spaced_text.contains(&format!(" {pointer} ")))
    {
        against += 0.4;
    }
    // `The fix is in cart.rs`: where, not what.
    let place = text.split_once(" is in ").or_else(|| text.split_once(" are in "));
    if place.is_some_and(|(_, place)| place.split_whitespace().count() == 1 && is_identifier(place)) {
        against += 0.6;
    }
    if text.contains("...") || text.contains('…') || text.contains(['{', '}']) {
        against += 0.4;
    }
    // Code that is set to something, and a label before next to nothing.
    if text.matches(" = ").count() > 1 {
        against += 0.8;
    }
    if let Some((_, rest)) = text.split_once(": ")
        && rest.chars().count() < 24
        && !rest.split_whitespace().any(is_identifier)
    {
        against += 0.3;
    }
    // `The issue was x`, `The comment explains y`: about the telling, not about the thing.
    const TELLING: [&str; 12] = [
        "issue",
        "problem",
        "comment",
        "checklist",
        "question",
        "point",
        "idea",
        "reason",
        "answer",
        "scenario",
        "thought",
        "feedback",
    ];
    let is_meta = words.iter().take(3).any(|word| TELLING.contains(&word.as_str()));
    if is_meta && words.first().is_some_and(|the| the == "the" || the == "general") {
        against += 0.35;
    }
    against += leaning(text, &words);
    // A list of names says nothing of them.
    let names = text.split_whitespace().filter(|word| is_identifier(word)).count();
    if names * 3 > words.len() * 2 {
        against += 0.5;
    }
    let split: Vec<&str> = text.split_whitespace().collect();
    let has_verb =
        verb_at(&split, 0).is_some() || matches!(opening(text), Opening::Imperative | Opening::Done);
    if is_english(text) && !has_verb {
        against += 0.35;
    }
    if words.iter().any(|word| {
        matches!(word.as_str(), "i" | "i'd" | "i've" | "i'm" | "you" | "your" | "we" | "we'd" | "let's")
    }) {
        against += 0.35;
    }
    against
}

/// How much a title depends on its context: it begins with a reference, or names something by number.
fn leaning(text: &str, words: &[String]) -> f32 {
    const REFERENCES: &str = "at that point, at this point, at the time, in that case, in this case, in both cases, that way, \
    this way, either way, the same, the other, the others, the former, the latter, the rest, the second, the first, the above, \
    as above, on success, on failure, with that, with this, after that, after this, before that, before this, by then, \
    for this, for that, to this, such a, such an, both, all three, each of them";
    let mut against = 0.0;
    let spaced_text = format!("{} ", words.join(" "));
    if phrases(REFERENCES).any(|opening| spaced_text.starts_with(&format!("{opening} "))) {
        against += 0.5;
    }
    // `With the cache gone, it returns nothing`: what it is was said before.
    if let Some((clause, rest)) = text.split_once(", ") {
        let next = rest.split_whitespace().next().map(bare).unwrap_or_default();
        let leads = clause.split_whitespace().next().map(bare).unwrap_or_default();
        let leads = matches!(
            leads.as_str(),
            "with"
                | "when"
                | "if"
                | "after"
                | "before"
                | "once"
                | "since"
                | "because"
                | "while"
                | "for"
                | "in"
                | "on"
                | "without"
        );
        if leads
            && (matches!(next.as_str(), "it" | "they" | "this" | "that" | "these" | "those")
                || clause.ends_with(" gone"))
        {
            against += 0.4;
        }
    }
    let by_number = text.split_whitespace().zip(words).any(|(word, bare)| {
        word.trim_start_matches('(').starts_with('#') && bare.starts_with(|c: char| c.is_ascii_digit())
    });
    let by_letter = words.windows(2).any(|pair| {
        matches!(pair, [one, next] if matches!(one.as_str(), "option" | "options" | "variant" | "approach" | "finding" | "comment")
            && (next.len() == 1 || next.starts_with(|c: char| c.is_ascii_digit())))
    });
    if by_number || by_letter {
        against += 0.4;
    }
    // `When called: in a session`, `On main: Shows all`.
    if let Some((label, _)) = text.split_once(": ") {
        let first = label.split_whitespace().next().map(bare).unwrap_or_default();
        let leads = matches!(
            first.as_str(),
            "when"
                | "on"
                | "in"
                | "if"
                | "for"
                | "with"
                | "after"
                | "before"
                | "from"
                | "at"
                | "to"
                | "then"
                | "by"
                | "not"
        );
        if leads || label.chars().count() < 3 {
            against += 0.4;
        }
    }
    if text.contains(" (line ") || text.contains(" (lines ") {
        against += 0.2;
    }
    against
}
