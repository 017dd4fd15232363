//! Finds the subject of a statement: the label in front of it, the heading above it, or the name before it.

use super::clause::{Opening, opening, trimmed};
use super::plain::{capitalized, is_balanced, plain};
use super::word::{bare, content, file_name, is_file, is_identifier, phrases, verb_at};

/// Words of headings and labels that say what kind of text follows, not its subject.
const GENERIC: &str = "action, actions, add, added, after, all, also, analysis, and, answer, approach, architectural, \
    architecture, areas, as, assessment, background, before, behavior, behaviour, benefits, blocking, \
    bot, bug, caveat, caveats, cause, change, changed, changes, check, checklist, code, comments, \
    commit, commits, complete, completed, concern, concerns, conclusion, confirmed, considered, context, \
    coverage, created, critical, current, decision, decisions, deferred, deleted, deliverables, \
    description, design, detail, details, did, discretion, documented, done, edge, evaluation, evidence, \
    example, examples, existing, explanation, expected, features, feedback, files, file, finding, \
    findings, first, fix, fixed, fixes, flow, follow-up, follow-ups, for, found, future, gap, goal, \
    goals, high, how, i, idea, ideas, impact, implementation, implemented, implications, important, \
    improvements, in, info, integration, introduction, is, issue, issues, it, key, limitations, list, \
    location, long, low, made, main, major, manual, medium, method, minor, modification, modifications, \
    modified, my, needed, new, next, no, non-blocking, non-goals, note, notes, objective, observation, \
    of, on, one, open, option, options, other, out, output, overall, overview, part, pending, phase, \
    plan, points, position, problem, problems, progress, proposed, pros, cons, purpose, question, \
    questions, rationale, reason, reasons, recent, recommendation, recommendations, recommended, \
    refactor, remaining, removed, required, requirements, response, result, results, review, risk, \
    risks, root, rules, safeguards, scenario, scope, section, severity, signature, smaller, solution, \
    solutions, specific, state, status, step, steps, structure, suggested, suggestion, suggestions, \
    summary, task, tasks, technical, test, testing, tests, text, the, then, things, this, to, todo, \
    todos, two, three, unit, up, update, updated, updates, usage, valid, verdict, verification, \
    verified, verify, warning, was, were, what, what's, why, with, work, working, works, worth, you, \
    your, addressing, alternatives, rejected, previous, addressed, both, behind, happened, happens, \
    additional, minor, short, answer, detailed, reasoning, verdict, clarification, optional, document, documents, research, thought, thoughts, general, outcome, correction, bonus, \
    heads-up, caution, tip";

/// Whether a heading or label only says what kind of text follows.
pub(super) fn is_generic(text: &str) -> bool {
    text.split_whitespace().all(|word| {
        let bare = bare(word);
        !is_identifier(word) && (phrases(GENERIC).any(|known| known == bare) || bare.len() < 3)
            || bare.chars().all(|c| c.is_ascii_digit())
    })
}

/// A heading without its number: `2.`, `Step 3:`, `D.`, `PR 2 —`.
pub(super) fn without_number(heading: &str) -> String {
    let heading = plain(heading);
    let mut rest = heading.as_str();
    for _ in 0..2 {
        let first = rest.split_whitespace().next().unwrap_or_default();
        let second = rest.split_whitespace().nth(1).unwrap_or_default();
        let is_number = |word: &str| {
            let word = word.trim_end_matches(['.', ')', ':']);
            !word.is_empty()
                && word.len() <= 3
                && (word.chars().all(|c| c.is_ascii_digit())
                    || (word.len() <= 2
                        && word
                            .chars()
                            .all(|c| c.is_ascii_alphanumeric() && !c.is_lowercase() || c.is_ascii_digit()))
                    || word.starts_with(|c: char| c.is_ascii_digit()) && word.len() == 2)
        };
        let counted = matches!(
            bare(first).as_str(),
            "step" | "part" | "phase" | "task" | "section" | "option" | "file" | "files"
        );
        if is_number(first) && first.ends_with(['.', ')', ':']) {
            rest = rest.get(first.len()..).unwrap_or_default().trim_start();
        } else if counted && (is_number(second) || first.ends_with(':')) {
            let at = if first.ends_with(':') {
                first.len()
            } else {
                rest.find(second).unwrap_or(0) + second.len()
            };
            rest = rest.get(at..).unwrap_or_default().trim_start_matches([' ', ':', '—', '-', '.']);
        } else {
            break;
        }
    }
    trimmed(rest).to_owned()
}

/// A label in front of a statement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Label {
    None,
    /// It only says what kind of statement follows.
    Generic,
    File(String),
    Named(String),
}

/// The length from which a label is a clause.
const LONGEST_LABEL: usize = 44;
const MOST_LABEL_WORDS: usize = 6;

/// A sentence's label and its statement: `cart.rs — rounds once`, `Save failures: warn only`.
pub(super) fn labelled(text: &str) -> (Label, &str) {
    let marks = [" — ", " – ", " - ", " -- ", ": "];
    let found = marks.iter().filter_map(|mark| Some((text.find(mark)?, mark.len()))).min();
    let Some((at, length)) = found else { return (Label::None, text) };
    let (label, rest) =
        (text.get(..at).unwrap_or_default().trim(), text.get(at + length..).unwrap_or_default().trim());
    let words: Vec<&str> = label.split_whitespace().collect();
    let files: Vec<&&str> = words.iter().filter(|word| is_file(word)).collect();
    // `cart.rs (lines 3-5)`, `cart.rs and line.rs`
    if let Some(file) = files.first()
        && words.first().is_some_and(|first| is_file(first))
        && words.len() <= MOST_LABEL_WORDS
        && rest.split_whitespace().count() > 1
    {
        let named = if files.len() == 2 {
            format!("{}, {}", file_name(file), file_name(files[1]))
        } else {
            file_name(file).to_owned()
        };
        return (Label::File(named), rest);
    }
    let too_long = label.chars().count() > LONGEST_LABEL || words.len() > MOST_LABEL_WORDS;
    let has_verb = verb_at(&words, 0).is_some();
    let does = matches!(opening(label), Opening::Imperative | Opening::Done) && words.len() > 1;
    if label.is_empty() || rest.split_whitespace().count() < 2 || !is_balanced(label) {
        return (Label::None, text);
    }
    // `What the branch does: x` asks what x answers.
    let asks = words
        .first()
        .is_some_and(|first| matches!(bare(first).as_str(), "what" | "how" | "why" | "where" | "when"));
    if is_generic(label) || asks && words.len() > 2 && rest.split_whitespace().count() > 3 {
        return (Label::Generic, rest);
    }
    if too_long || has_verb || does || label.ends_with(',') {
        return (Label::None, text);
    }
    let named = without_brackets(label);
    (Label::Named(if named.is_empty() { label.to_owned() } else { named }), rest)
}

/// A label or heading without `(...)`.
pub(super) fn without_brackets(text: &str) -> String {
    match (text.find(" ("), text.rfind(')')) {
        (Some(open), Some(close)) if open < close => {
            let tail = text.get(close + 1..).unwrap_or_default();
            format!("{}{tail}", text.get(..open).unwrap_or_default()).trim().to_owned()
        }
        _ => text.to_owned(),
    }
}

/// The length from which a heading leaves no room for a statement.
const LONGEST_HEADING: usize = 48;

/// A heading as the subject of a statement below it: a file's name, or the subject of the section. `None` if it names
/// nothing, or if the statement names it already.
pub(super) fn of_heading(heading: Option<&str>, statement: &str) -> Option<String> {
    let heading = without_number(heading?);
    if heading.ends_with('?') || heading.split_whitespace().count() == 0 {
        return None;
    }
    let words: Vec<&str> = heading.split_whitespace().collect();
    let file = words.iter().rev().find(|word| is_file(word)).map(|word| file_name(word).to_owned());
    let named = match (labelled(&heading), file) {
        // `File: src/cart.rs`, `src/cart.rs (new)`
        (_, Some(file)) if words.len() <= 3 => file,
        ((Label::Named(label), _), _) if label.chars().count() <= LONGEST_HEADING => label,
        ((Label::Generic, rest), _) => rest.to_owned(),
        _ => without_brackets(&heading),
    };
    let named = trimmed(&named).to_owned();
    if named.is_empty()
        || is_generic(&named)
        || named.chars().count() > LONGEST_HEADING
        || !is_balanced(&named)
    {
        return None;
    }
    let known = content(statement);
    let adds = content(&named)
        .iter()
        .any(|word| !known.contains(word) && !known.iter().any(|known| known.contains(word.as_str())));
    adds.then(|| capitalized(&named))
}

/// The subject of a sentence, for the next one that begins with `It`.
pub(super) fn of_sentence(sentence: &str) -> Option<String> {
    const MOST: usize = 6;
    let sentence = plain(sentence);
    let words: Vec<&str> = sentence.split_whitespace().collect();
    if sentence.contains(['{', ';', '=']) || sentence.starts_with('/') {
        return None;
    }
    if words.first().is_some_and(|word| is_identifier(word)) {
        let verb_later = words.get(1).is_some_and(|next| !next.starts_with(['→', '+']));
        return verb_later.then(|| trimmed(words.first().copied().unwrap_or_default()).to_owned());
    }
    if opening(&sentence) != Opening::Subject {
        return None;
    }
    let verb = verb_at(&words, 1)?;
    let subject = words.get(..verb)?.join(" ");
    let is_plain =
        (1..=MOST).contains(&verb) && !subject.contains([',', ':', ';', '(']) && is_balanced(&subject);
    let first = bare(words.first()?);
    let leads = matches!(
        first.as_str(),
        "if" | "when"
            | "while"
            | "since"
            | "because"
            | "after"
            | "before"
            | "for"
            | "in"
            | "on"
            | "with"
            | "no"
            | "only"
            | "currently"
            | "now"
    );
    let leans = subject.split_whitespace().any(|word| super::word::is_pronoun(&bare(word)));
    (is_plain && !leads && !leans && !is_generic(&subject)).then_some(subject)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: (Label, &str)) {
        assert_eq!(labelled(text), expected);
    }

    #[test]
    fn a_label_is_separated_from_its_statement() {
        let file = |name: &str| Label::File(name.to_owned());
        let named = |name: &str| Label::Named(name.to_owned());
        check("src/shop/cart.rs — rounds once", (file("cart.rs"), "rounds once"));
        check("src/cart.rs (lines 3-5): rounds once", (file("cart.rs"), "rounds once"));
        check("Impact: carts are wrong", (Label::Generic, "carts are wrong"));
        check("Why carts are wrong: each line is rounded", (Label::Generic, "each line is rounded"));
        check("Empty carts (new): they cost nothing", (named("Empty carts"), "they cost nothing"));
        check("The cart rounds once: lines do not", (Label::None, "The cart rounds once: lines do not"));
        check("Added a cache - it was slow", (Label::None, "Added a cache - it was slow"));
        check("no label here", (Label::None, "no label here"));
    }

    #[test]
    fn a_heading_gives_a_subject_if_it_names_one() {
        let of = |heading, statement| of_heading(Some(heading), statement);
        assert_eq!(of("2. Key changes", "Rounds once"), None);
        assert_eq!(of("Step 3: `src/cart.rs`", "Rounds once").as_deref(), Some("cart.rs"));
        assert_eq!(of("Empty carts", "Cost nothing").as_deref(), Some("Empty carts"));
        assert_eq!(of("Empty carts", "An empty cart costs nothing"), None);
        assert_eq!(of("Why?", "Rounds once"), None);
        assert_eq!(of_heading(None, "Rounds once"), None);
    }

    #[test]
    fn the_subject_of_a_sentence_precedes_its_verb() {
        assert_eq!(of_sentence("The shop's cart rounds once").as_deref(), Some("The shop's cart"));
        assert_eq!(of_sentence("`Cart::total` (`cart.rs`):").as_deref(), Some("Cart::total"));
        assert_eq!(of_sentence("When it rains, carts get wet"), None);
        assert_eq!(of_sentence("Added a cache"), None);
    }
}
