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
    paths.find(|path| is_plan_file(path, folders)).map(|path| PlanReference::File(path.to_owned()))
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
    fn a_title_is_the_first_heading() {
        assert_eq!(title("\n\n# Plan: coins\n\n1. x"), "Plan: coins");
        assert_eq!(title(""), "Plan");
    }
}
