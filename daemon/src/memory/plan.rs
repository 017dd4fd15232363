//! Plans and task lists: what a session means to do, each one text that evolves.
//!
//! A plan is known by its file, which lies in a folder made for plans, or by the user's approval. A session has one
//! task list, kept as Markdown so that it is read, searched and shown like any plan.

use std::fmt::Write as _;

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

/// What a call does to the task list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TaskChange {
    /// The whole list anew.
    List(Vec<Task>),
    Add {
        id: String,
        subject: String,
    },
    Update {
        id: String,
        subject: Option<String>,
        state: Option<TaskState>,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Task {
    pub subject: String,
    pub state: TaskState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskState {
    Pending,
    Running,
    Done,
    Deleted,
}

impl TaskState {
    /// Reads an agent's word; an unknown one is a task that waits.
    pub fn parse(word: &str) -> Self {
        match word {
            "in_progress" => Self::Running,
            "completed" => Self::Done,
            "deleted" | "cancelled" => Self::Deleted,
            _ => Self::Pending,
        }
    }

    fn mark(self) -> char {
        match self {
            Self::Running => '~',
            Self::Done => 'x',
            Self::Pending | Self::Deleted => ' ',
        }
    }
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

/// The task list after `change`.
pub fn with_tasks(list: &str, change: &TaskChange) -> String {
    match change {
        TaskChange::List(tasks) => {
            let mut text = String::new();
            for task in tasks.iter().filter(|task| task.state != TaskState::Deleted) {
                let _ = writeln!(text, "- [{}] {}", task.state.mark(), one_line(&task.subject));
            }
            text
        }
        TaskChange::Add { id, subject } => changed(list, id, Some(subject), None),
        TaskChange::Update { id, subject, state } => changed(list, id, subject.as_deref(), *state),
    }
}

/// What of a task list is still to be done, the entries' words.
pub fn open_tasks(list: &str) -> impl Iterator<Item = &str> {
    list.lines().filter_map(|line| line.strip_prefix("- [ ] ").or_else(|| line.strip_prefix("- [~] "))).map(
        |words| words.strip_prefix('#').and_then(|rest| rest.split_once(' ')).map_or(words, |(_, rest)| rest),
    )
}

/// Changes the entry of that id, or adds it: news of a task may arrive before the task.
fn changed(list: &str, id: &str, subject: Option<&str>, state: Option<TaskState>) -> String {
    let id = one_line(id);
    let mut text = String::new();
    let mut found = false;
    for line in list.lines() {
        let entry = line.get(6..).and_then(|rest| rest.strip_prefix(&format!("#{id} ")));
        let Some(known) = entry else {
            let _ = writeln!(text, "{line}");
            continue;
        };
        found = true;
        let mark = state.map(TaskState::mark).or_else(|| line.chars().nth(3)).unwrap_or(' ');
        let subject = subject.map_or_else(|| known.to_owned(), one_line);
        if state != Some(TaskState::Deleted) {
            let _ = writeln!(text, "- [{mark}] #{id} {subject}");
        }
    }
    if !found && state != Some(TaskState::Deleted) {
        let subject = subject.map_or_else(|| format!("task {id}"), one_line);
        let _ = writeln!(text, "- [{}] #{id} {subject}", state.unwrap_or(TaskState::Pending).mark());
    }
    text
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
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
    fn the_task_list_evolves_in_whatever_order_news_arrive() {
        let add = |id: &str, subject: &str| TaskChange::Add { id: id.into(), subject: subject.into() };
        let update =
            |id: &str, state| TaskChange::Update { id: id.into(), subject: None, state: Some(state) };
        let mut list = String::new();
        for change in [
            add("1", "Read the\ncart"),
            add("2", "Fix it"),
            update("1", TaskState::Done),
            update("3", TaskState::Running),
            add("3", "Test it"),
            update("2", TaskState::Deleted),
        ] {
            list = with_tasks(&list, &change);
        }
        assert_eq!(list, "- [x] #1 Read the cart\n- [~] #3 Test it\n");
        assert_eq!(open_tasks(&list).collect::<Vec<_>>(), ["Test it"]);
        let whole = TaskChange::List(vec![
            Task { subject: "A".into(), state: TaskState::Done },
            Task { subject: "B".into(), state: TaskState::Pending },
        ]);
        let list = with_tasks(&list, &whole);
        assert_eq!(list, "- [x] A\n- [ ] B\n");
        assert_eq!(open_tasks(&list).collect::<Vec<_>>(), ["B"]);
    }

    #[test]
    fn a_title_is_the_first_heading() {
        assert_eq!(title("\n\n# Plan: coins\n\n1. x"), "Plan: coins");
        assert_eq!(title(""), "Plan");
    }
}
