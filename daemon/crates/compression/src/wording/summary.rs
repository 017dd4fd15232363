//! Words a session's summary for the reader who continues it.

use super::body::KnownContent;
use super::clause::trimmed;
use super::plain::{capitalized, plain};
use super::prompt::statement;
use super::title::clean_title;
use super::word::{content, is_identifier};

/// The title of a session: a text that names its subject. It is the first of these that exists: the heading of the plan
/// as last written, the last of these commit subjects that is not a chore, the title of the most important observation,
/// the request, even if it is only a question. `None` if none of them names anything.
pub(crate) fn session_title(
    plan: Option<&str>,
    commits: &[&str],
    observed: Option<&str>,
    request: Option<&str>,
) -> Option<String> {
    let plan = plan.map(without_plan).filter(|plan| names_something(plan));
    let commit = commits.iter().rev().find(|subject| !is_chore(subject)).map(|subject| subject_of(subject));
    let observed = observed.map(str::to_owned);
    let stated = request.map(statement);
    [plan, commit, observed, stated]
        .into_iter()
        .flatten()
        .filter(|title| names_something(title))
        .find_map(|title| clean_title(&title))
        .map(|title| title.text)
        .or_else(|| request.and_then(question))
}

/// A question as a title. It is not a statement, but it says what the session was about.
fn question(request: &str) -> Option<String> {
    let asked = request.trim().strip_suffix('?').filter(|asked| names_something(asked))?;
    clean_title(asked).map(|title| format!("{}?", title.text))
}

/// A plan's heading without the word: `Plan: Fix the cart`, `Implementation Plan — Cart`.
fn without_plan(heading: &str) -> String {
    let heading = plain(heading);
    let lower = heading.to_lowercase();
    for opening in ["implementation plan", "plan", "phase plan", "design", "task", "proposal"] {
        if let Some(rest) = lower.strip_prefix(opening)
            && rest.trim_start().starts_with([':', '—', '–', '-'])
            && let Some(named) = heading.get(opening.len()..)
        {
            return capitalized(named.trim_start_matches([' ', ':', '—', '–', '-']));
        }
    }
    heading
}

/// A commit's subject without its conventional type.
fn subject_of(subject: &str) -> String {
    let line = plain(subject.lines().next().unwrap_or_default());
    match line.split_once(": ") {
        Some((kind, description)) if !kind.contains(' ') && kind.len() < 24 => capitalized(description),
        _ => line,
    }
}

/// Commits that tidy, instead of doing what the session was about.
pub(crate) fn is_chore(subject: &str) -> bool {
    let lower = subject.trim_start().to_lowercase();
    let is_reply = (lower.starts_with("address ") || lower.contains(": address "))
        && ["review", "feedback", "comment", "findings"].iter().any(|word| lower.contains(word));
    const CHORES: [&str; 18] = [
        "merge ",
        "wip",
        "fixup!",
        "squash!",
        "chore",
        "docs(",
        "docs:",
        "style",
        "test:",
        "test(",
        "ci:",
        "bump ",
        "release ",
        "update changelog",
        "lint",
        "fmt",
        "format",
        "revert \"",
    ];
    is_reply || CHORES.iter().any(|chore| lower.starts_with(chore))
}

/// Whether a line is about something: two words with content, or a name of code.
fn names_something(text: &str) -> bool {
    !super::subject::is_generic(text)
        && (content(text).len() >= 2 || text.split_whitespace().any(is_identifier))
}

/// The sentences of one field that neither another field nor this one has said, so done and learned never repeat each
/// other.
pub(crate) fn without_repeats<'a>(sentences: &[&'a str], others: &[&str]) -> Vec<&'a str> {
    let mut known = KnownContent::default();
    for other in others {
        known.add(other);
    }
    let mut kept = Vec::new();
    for sentence in sentences {
        let sentence = trimmed(sentence);
        if !sentence.is_empty() && !known.has(sentence) {
            known.add(sentence);
            kept.push(sentence);
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_title_comes_from_plan_commit_observation_or_request() {
        let title = |plan, commits: &[&str], observed, request| {
            session_title(plan, commits, observed, request).unwrap_or_default()
        };
        assert_eq!(title(Some("# Plan: Round totals once"), &["fix: x"], None, None), "Round totals once");
        assert_eq!(
            title(Some("Plan"), &["fix(cart): Round totals once", "chore: bump"], None, None),
            "Round totals once"
        );
        let replies =
            ["fix: round totals once", "Address CodeRabbit review: 7 findings", "fix: address cart feedback"];
        assert_eq!(title(None, &replies, None, None), "Round totals once");
        assert_eq!(title(None, &["wip"], Some("Totals are rounded once"), None), "Totals are rounded once");
        assert_eq!(title(None, &[], None, Some("please round the totals once")), "Round the totals once");
        assert_eq!(session_title(Some("Implementation plan"), &["wip"], None, Some("yes")), None);
        assert_eq!(
            title(None, &[], None, Some("Why does the cart round twice?")),
            "Why does the cart round twice?"
        );
        assert_eq!(title(None, &[], None, Some("Why?")), "");
    }

    #[test]
    fn sentences_of_done_are_not_repeated_in_learned() {
        let done = ["Totals are rounded once.", "The cart keeps cents."];
        let learned = ["Totals are rounded once", "Each line lost a cent.", "Each line lost a cent"];
        assert_eq!(without_repeats(&learned, &done), ["Each line lost a cent"]);
    }
}
