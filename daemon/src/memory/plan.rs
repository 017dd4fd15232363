//! Plans: what a session means to do, each one text that evolves. A task list is one of its own, see `task_list`.
//!
//! A plan is known by its file, which lies in a folder made for plans, or by the user's approval.

use super::task_list::TaskChange;

/// What a call does to a plan or to the task list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanChange {
    /// A text file was written; this is all of it. It is a plan if it lies where plans do.
    File {
        path: String,
        text: String,
    },
    /// The user approved a plan. The text is absent where the agent named only the file.
    Approved {
        path: Option<String>,
        text: Option<String>,
    },
    Tasks(TaskChange),
}

/// How far a plan has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlanState {
    Draft,
    Approved,
}

/// Which plan a prompt asks to carry out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PlanReference {
    /// The file, as it was written: often only the end of its path.
    File(String),
    /// The prompt holds the plan itself.
    Text(String),
    /// The one that was made last: "proceed with the approved plan".
    Last,
}

/// How Claude Code begins the prompt that carries an approved plan into a fresh conversation.
const CARRY_OUT: &str = "Implement the following plan:";

/// Whether a file at `path` is a plan: it lies beneath one of `folders`, each absolute or the end of a folder's path.
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

/// The plan that a prompt asks to carry out, if it does.
pub fn reference(prompt: &str, folders: &[String]) -> Option<PlanReference> {
    if let Some(plan) = prompt.trim_start().strip_prefix(CARRY_OUT) {
        let plan = plan.trim();
        return (!plan.is_empty()).then(|| PlanReference::Text(plan.to_owned()));
    }
    let words =
        prompt.split(|c: char| c.is_whitespace() || matches!(c, '`' | '"' | '\'' | '(' | ')' | '<' | '>'));
    let mut paths =
        words.map(|word| word.trim_start_matches('@').trim_end_matches(['.', ',', ':', ';', '!', '?']));
    let file =
        paths.find(|path| is_plan_file(path, folders)).map(|path| PlanReference::File(path.to_owned()));
    file.or_else(|| asks_to_go_on(prompt).then_some(PlanReference::Last))
}

/// So far into a prompt it is told what to do with a plan; a long one speaks of plans for many reasons. In bytes.
const BEGINNING: usize = 240;

/// What is done with a plan by whoever carries it out; the last word of it.
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
const THE: [&str; 6] = ["the", "this", "that", "your", "our", "my"];
/// What a plan may be called without being a plan of something.
const SUCH_AS: [&str; 18] = [
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
/// What may follow a plan in the same clause: any other word makes it a word of something else, a "plan selector".
const FOLLOWS: [&str; 22] = [
    "now", "please", "above", "below", "as", "and", "then", "from", "that", "which", "we", "you", "i", "in",
    "with", "to", "exactly", "fully", "step", "for", "until", "on",
];
/// Before an order these make it none.
const NOT: [&str; 20] = [
    "not", "don't", "dont", "never", "before", "without", "until", "if", "when", "while", "why", "how",
    "what", "did", "should", "shall", "stop", "instead", "after", "once",
];

/// Whether a prompt asks to carry out the plan, and names it: a bare "proceed" may mean anything.
fn asks_to_go_on(prompt: &str) -> bool {
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
        !before.iter().any(|word| NOT.contains(word)) && after.any(names_plan)
    })
}

/// "the approved plan", and nothing that makes it another thing.
fn names_plan(words: &[&str]) -> bool {
    let Some((the, rest)) = words.split_first() else { return false };
    let Some(at) = rest.iter().position(|word| *word == "plan") else { return false };
    let (kind, after) = (rest.get(..at).unwrap_or_default(), rest.get(at + 1));
    let is_approved = kind.len() <= 3 && kind.first() == Some(&"approved");
    THE.contains(the)
        && (is_approved || kind.iter().all(|word| SUCH_AS.contains(word)))
        && after.is_none_or(|word| FOLLOWS.contains(word))
}

/// "The plan is approved, go ahead."
fn is_approved(clauses: &[Vec<&str>]) -> bool {
    const APPROVED: [&[&str]; 5] = [
        &["plan", "is", "approved"],
        &["plan", "approved"],
        &["approve", "the", "plan"],
        &["approve", "this", "plan"],
        &["approve", "your", "plan"],
    ];
    const GO: [&[&str]; 5] =
        [&["proceed"], &["go", "ahead"], &["implement", "it"], &["execute", "it"], &["start"]];
    let says = |clause: &Vec<&str>, phrases: &[&[&str]]| {
        let found = |at: usize| {
            phrases.iter().any(|phrase| clause.get(at..).is_some_and(|rest| rest.starts_with(phrase)))
        };
        !clause.iter().any(|word| NOT.contains(word)) && (0..clause.len()).any(found)
    };
    clauses.iter().any(|clause| says(clause, &APPROVED)) && clauses.iter().any(|clause| says(clause, &GO))
}

/// The first heading, or the first line that says something, at most 100 characters of it.
pub fn title(text: &str) -> String {
    let mut lines = text.lines().map(|line| line.trim_start_matches('#').trim());
    let line = lines.find(|line| !line.is_empty()).unwrap_or("Plan");
    line.chars().take(100).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folders() -> Vec<String> {
        [".claude/plans", "/srv/plans/"].map(str::to_owned).to_vec()
    }

    #[test]
    fn a_plan_lies_in_a_folder_for_plans() {
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
    fn a_prompt_that_carries_out_a_plan_is_known() {
        let check = |prompt: &str, expected: Option<PlanReference>| {
            assert_eq!(reference(prompt, &folders()), expected, "{prompt}");
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
    fn a_prompt_that_names_the_plan_carries_it_out() {
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
            assert_eq!(reference(prompt, &folders()), Some(PlanReference::Last), "{prompt}");
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
            assert_eq!(reference(prompt, &folders()), None, "{prompt}");
        }
        let long = format!("{} proceed with the approved plan", "Look at this log line. ".repeat(20));
        assert_eq!(reference(&long, &folders()), None);
        let named = "Proceed with the plan .claude/plans/a.md";
        assert_eq!(reference(named, &folders()), Some(PlanReference::File(".claude/plans/a.md".into())));
    }

    #[test]
    fn a_title_is_the_first_heading() {
        assert_eq!(title("\n\n# Plan: coins\n\n1. x"), "Plan: coins");
        assert_eq!(title(""), "Plan");
    }
}
