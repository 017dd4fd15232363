//! Plans: texts that describe what a session intends to do. The task list has its own module, `task_list`.
//!
//! A plan is recognised by its file, which is in a plan folder, or by the user's approval.

use super::names::named;
use super::task_list::TaskChange;

/// The effect of a call on a plan or on the task list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanChange {
    /// A text file was written with this content. It is a plan if it is in a plan folder.
    File {
        path: String,
        text: String,
    },
    /// The user approved a plan. The text is absent if the agent named only the file.
    Approved {
        path: Option<String>,
        text: Option<String>,
    },
    /// Like `Approved`, but the event arrives late. `now` is the file's current text, which may have changed since.
    ApprovedEarlier {
        path: String,
        now: String,
    },
    Tasks(TaskChange),
}

/// What a stored plan is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanKind {
    Plan,
    /// The task list of a session.
    Tasks,
}

named! { PlanKind {
    Plan = "plan",
    Tasks = "tasks",
} }

/// The state of a stored plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanStage {
    Draft,
    Approved,
}

named! { PlanStage {
    Draft = "draft",
    Approved = "approved",
} }

/// The state of a plan that an event reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanState {
    Draft,
    Approved,
    /// Approved some time ago. The text is the file's current one, and counts only if no earlier one is known.
    ApprovedEarlier,
}

/// The plan that a prompt asks to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanReference {
    /// The file as written in the prompt, often only the end of its path.
    File(String),
    /// The text of the plan, which the prompt contains.
    Text(String),
    /// The latest plan, as in "proceed with the approved plan".
    Last,
}

/// Whether `path` is a plan file, beneath one of `folders`. Each folder is absolute or the end of a folder's path.
pub fn is_plan_file(path: &str, folders: &[String]) -> bool {
    folders.iter().any(|folder| {
        let folder = folder.trim_matches('/');
        path.match_indices(folder).any(|(at, _)| {
            let (before, rest) = path.split_at(at);
            let after = rest.get(folder.len()..).unwrap_or_default();
            (before.is_empty() || before.ends_with('/')) && after.len() > 1 && after.starts_with('/')
        })
    })
}

/// Returns the plan that a prompt asks to carry out, if any. `beginnings` are the prefixes of prompts that contain the
/// plan itself, see [`Conventions::plan_prompts`](super::conventions::Conventions::plan_prompts).
pub fn reference(prompt: &str, folders: &[String], beginnings: &[&str]) -> Option<PlanReference> {
    let start = prompt.trim_start();
    if let Some(plan) = beginnings.iter().find_map(|beginning| start.strip_prefix(beginning)) {
        let plan = plan.trim();
        return (!plan.is_empty()).then(|| PlanReference::Text(plan.to_owned()));
    }
    let words =
        prompt.split(|c: char| c.is_whitespace() || matches!(c, '`' | '"' | '\'' | '(' | ')' | '<' | '>'));
    let mut paths =
        words.map(|word| word.trim_start_matches('@').trim_end_matches(['.', ',', ':', ';', '!', '?']));
    let file =
        paths.find(|path| is_plan_file(path, folders)).map(|path| PlanReference::File(path.to_owned()));
    file.or_else(|| asks_to_carry_out(prompt).then_some(PlanReference::Last))
}

/// The number of bytes at the beginning of a prompt that are searched for such a request. Longer prompts mention plans
/// for many reasons.
const BEGINNING: usize = 240;

/// Phrases that ask to carry out a plan.
const CARRIES_OUT: [&[&str]; 21] = [
    &["proceed", "with"],
    &["continue", "with"],
    &["go", "on", "with"],
    &["carry", "on", "with"],
    &["go", "ahead", "with"],
    &["go", "ahead", "and", "implement"],
    &["move", "forward", "with"],
    &["get", "going", "with"],
    &["start", "with"],
    &["begin", "with"],
    &["start", "on"],
    &["implement"],
    &["implementing"],
    &["execute"],
    &["executing"],
    &["carry", "out"],
    &["follow"],
    &["work", "through"],
    &["work", "on"],
    &["resume"],
    &["finish"],
];
const DETERMINERS: [&str; 6] = ["the", "this", "that", "your", "our", "my"];
/// Words that may come before "plan" without naming a plan of something else.
const QUALIFIERS: [&str; 18] = [
    "approved",
    "agreed",
    "accepted",
    "proposed",
    "above",
    "previous",
    "existing",
    "current",
    "latest",
    "last",
    "same",
    "new",
    "full",
    "whole",
    "entire",
    "remaining",
    "implementation",
    "final",
];
/// Words that may follow "plan" in the same clause. Any other word makes it part of a compound, such as "plan
/// selector".
const FOLLOWS: [&str; 22] = [
    "now", "please", "above", "below", "as", "and", "then", "from", "that", "which", "we", "you", "i", "in",
    "with", "to", "exactly", "fully", "step", "for", "until", "on",
];
/// Words that negate a request.
const NEGATIONS: [&str; 20] = [
    "not", "don't", "dont", "never", "before", "without", "until", "if", "when", "while", "why", "how",
    "what", "did", "should", "shall", "stop", "instead", "after", "once",
];

/// Whether a prompt asks to carry out the plan and names it. A bare "proceed" is ambiguous.
fn asks_to_carry_out(prompt: &str) -> bool {
    let beginning = prompt.get(..prompt.floor_char_boundary(BEGINNING)).unwrap_or_default().to_lowercase();
    let clauses = beginning.split(['.', ',', ';', ':', '!', '?', '\n', '(', ')', '—', '–']);
    let clauses: Vec<Vec<&str>> = clauses.map(|clause| words_of(clause).collect()).collect();
    clauses.iter().any(|clause| carries_out(clause)) || is_approved(&clauses)
}

fn words_of(clause: &str) -> impl Iterator<Item = &str> {
    let words = clause.split(|c: char| !c.is_alphanumeric() && c != '\'' && c != '-');
    words.filter(|word| !word.is_empty())
}

fn carries_out(clause: &[&str]) -> bool {
    (0..clause.len()).any(|at| {
        let (before, rest) = clause.split_at(at);
        let mut after = CARRIES_OUT.iter().filter_map(|words| rest.strip_prefix(*words));
        !before.iter().any(|word| NEGATIONS.contains(word)) && after.any(names_plan)
    })
}

/// Whether the words name the plan, as in "the approved plan", without words that make it something else.
fn names_plan(words: &[&str]) -> bool {
    let Some((the, rest)) = words.split_first() else { return false };
    let Some(at) = rest.iter().position(|word| *word == "plan") else { return false };
    let (kind, after) = (rest.get(..at).unwrap_or_default(), rest.get(at + 1));
    let is_approved = kind.len() <= 3 && kind.first() == Some(&"approved");
    DETERMINERS.contains(the)
        && (is_approved || kind.iter().all(|word| QUALIFIERS.contains(word)))
        && after.is_none_or(|word| FOLLOWS.contains(word))
}

/// Whether the plan is declared approved, as in "The plan is approved, go ahead."
fn is_approved(clauses: &[Vec<&str>]) -> bool {
    const APPROVED: [&[&str]; 5] = [
        &["plan", "is", "approved"],
        &["plan", "approved"],
        &["approve", "the", "plan"],
        &["approve", "this", "plan"],
        &["approve", "your", "plan"],
    ];
    const GO_AHEAD: [&[&str]; 5] =
        [&["proceed"], &["go", "ahead"], &["implement", "it"], &["execute", "it"], &["start"]];
    let contains_phrase = |clause: &Vec<&str>, phrases: &[&[&str]]| {
        let found = |at: usize| {
            phrases.iter().any(|phrase| clause.get(at..).is_some_and(|rest| rest.starts_with(phrase)))
        };
        !clause.iter().any(|word| NEGATIONS.contains(word)) && (0..clause.len()).any(found)
    };
    clauses.iter().any(|clause| contains_phrase(clause, &APPROVED))
        && clauses.iter().any(|clause| contains_phrase(clause, &GO_AHEAD))
}

/// Returns the first heading or else the first non-empty line, at most 100 characters.
pub fn title(text: &str) -> String {
    let mut lines = text.lines().map(|line| line.trim_start_matches('#').trim());
    let line = lines.find(|line| !line.is_empty()).unwrap_or("Plan");
    line.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGINNINGS: [&str; 1] = ["Implement the following plan:"];

    fn folders() -> Vec<String> {
        [".claude/plans", "/srv/plans/"].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_plan_file_is_recognized_by_its_folder() {
        for plan in
            ["/home/dev/.claude/plans/a.md", ".claude/plans/a.md", "srv/plans/x/y.md", "/srv/plans/x.md"]
        {
            assert!(is_plan_file(plan, &folders()), "{plan}");
        }
        for other in
            ["/a/my.claude/plans/a.md", "/a/.claude/plans", "/a/.claude/plans/", "/a/.claude/plans.md", ""]
        {
            assert!(!is_plan_file(other, &folders()), "{other}");
        }
    }

    #[test]
    fn a_prompt_that_carries_out_a_plan_is_recognized() {
        let check = |prompt: &str, expected: Option<PlanReference>| {
            assert_eq!(reference(prompt, &folders(), &BEGINNINGS), expected, "{prompt}");
        };
        check(
            "Implement the following plan:\n\n# Coins\n1. Go",
            Some(PlanReference::Text("# Coins\n1. Go".into())),
        );
        check(
            "Please work on @.claude/plans/coins.md, step 2.",
            Some(PlanReference::File(".claude/plans/coins.md".into())),
        );
        check("do `/h/.claude/plans/a.md`!", Some(PlanReference::File("/h/.claude/plans/a.md".into())));
        check("Implement the following plan:", None);
        check("Plan the folder .claude/plans/", None);
    }

    #[test]
    fn a_request_to_carry_out_the_plan_refers_to_the_latest_plan() {
        for prompt in [
            "proceed with the approved plan",
            "Proceed with the approved plan.",
            "Yes, please go ahead with the plan!",
            "Implement the plan",
            "ok execute this plan now",
            "Let's carry out the agreed plan, starting with the tests",
            "Can you implement the plan above?",
            "Continue with the plan from yesterday",
            "start implementing the plan",
            "proceed with the approved migration plan",
            "The plan is approved, go ahead",
            "I approve the plan. Please proceed.",
            "follow your plan step by step",
        ] {
            assert_eq!(reference(prompt, &folders(), &BEGINNINGS), Some(PlanReference::Last), "{prompt}");
        }
        for prompt in [
            "proceed",
            "go ahead",
            "yes, continue",
            "make a plan",
            "Review the plan",
            "update the plan",
            "Do not implement the plan yet",
            "don't proceed with the plan",
            "Before you implement the plan, read the tests",
            "How do we implement the plan?",
            "Implement the plan selector of the billing page",
            "Implement the payment plan",
            "implement a plan cache",
            "The plan is not approved, do not proceed",
            "Is the plan approved?",
            "",
        ] {
            assert_eq!(reference(prompt, &folders(), &BEGINNINGS), None, "{prompt}");
        }
        let long = format!("{} proceed with the approved plan", "Look at this log line. ".repeat(20));
        assert_eq!(reference(&long, &folders(), &BEGINNINGS), None);
        let named = "Proceed with the plan .claude/plans/a.md";
        assert_eq!(
            reference(named, &folders(), &BEGINNINGS),
            Some(PlanReference::File(".claude/plans/a.md".into()))
        );
    }

    #[test]
    fn a_plan_title_is_its_first_heading() {
        assert_eq!(title("\n\n# Plan: coins\n\n1. x"), "Plan: coins");
        assert_eq!(title(""), "Plan");
    }
}
