//! What a compressor reads: a closed prompt batch, told in the same words whatever the agent.
//!
//! The store keeps each call as its agent sent it; `agents/` reads it into an [`Action`] when it is needed, so a
//! better reading of an agent's format reaches old rows too.

use super::earlier::Earlier;
use super::ids::{EventId, Timestamp};

/// A closed batch, or a chunk of a long one, with what came directly before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchMaterial {
    pub prompt_number: u32,
    pub source: BatchSource,
    /// The user's words. Absent for a recovery batch.
    pub prompt: Option<SourcedText>,
    /// The agent's final answer. Absent when the turn never reached its end.
    pub response: Option<SourcedText>,
    /// The answer that ended the batch before: what a "yes, do that" refers to.
    pub previous_response: Option<String>,
    /// What was noted before of files that the batch touches and may be outdated now, the newest first. For models.
    pub earlier: Vec<Earlier>,
    /// In the order in which they happened.
    pub steps: Vec<Step>,
    /// The project's folder: paths beneath it are told relative to it.
    pub root: Option<String>,
}

/// A text and the event that brought it.
#[derive(Clone, Debug, PartialEq)]
pub struct SourcedText {
    pub event: EventId,
    pub text: String,
}

/// Who started a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum BatchSource {
    #[default]
    User,
    /// A machine's prompt: a background agent or shell has ended.
    AgentNotification,
    /// The agent program itself: a schedule, a loop, a poll.
    System,
    /// Work on a plan.
    Plan,
    /// Opened for activities that had no batch.
    Recovery,
    /// The prompt was wholly private: nothing of it is kept.
    Private,
    /// Typed while the agent worked on another prompt.
    Queued,
}

impl BatchSource {
    pub const ALL: [(Self, &'static str); 7] = [
        (Self::User, "user"),
        (Self::AgentNotification, "agent_notification"),
        (Self::System, "system"),
        (Self::Plan, "plan"),
        (Self::Recovery, "recovery"),
        (Self::Private, "private"),
        (Self::Queued, "queued"),
    ];

    pub fn as_str(self) -> &'static str {
        Self::ALL.iter().find(|(source, _)| *source == self).map_or("user", |(_, name)| name)
    }

    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(_, known)| *known == name).map(|(source, _)| *source)
    }
}

/// One thing the agent did.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub event: EventId,
    pub at: Timestamp,
    /// The agent's own name of the tool.
    pub tool: String,
    /// The call did not succeed; `Action::Command::output` or `Step::error` says how.
    pub outcome: CallOutcome,
    /// The agent that did it, where it was not the main one.
    pub subagent: Option<String>,
    pub action: Action,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CallOutcome {
    Done,
    Failed {
        error: String,
    },
    /// The user did not let it happen.
    Rejected {
        /// What they said about it, if anything.
        said: Option<String>,
    },
}

impl CallOutcome {
    /// Whether nothing came of it.
    pub fn is_failed(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Rejected { .. })
    }
}

/// What a call did, in words that fit every agent. Texts are whole; compressors cut them.
#[derive(Clone, Debug, PartialEq)]
pub enum Action {
    Read {
        path: String,
    },
    /// Some text of a file was replaced; several replacements of one call stand in order.
    Edit {
        path: String,
        changes: Vec<Change>,
    },
    Write {
        path: String,
        content: String,
        kind: WriteKind,
    },
    Command {
        command: String,
        description: Option<String>,
        output: String,
    },
    /// Looking for files or for text in files.
    Search {
        pattern: String,
        path: Option<String>,
        output: String,
    },
    /// A page of the web, or a search of it: then the url is empty and the question is the query.
    Fetch {
        url: String,
        question: Option<String>,
        output: String,
    },
    /// Work given to a subagent, and what it said at the end.
    Delegate {
        description: String,
        prompt: String,
        answer: Option<String>,
    },
    /// Questions put to the user, with the answers.
    Ask {
        exchanges: Vec<(String, String)>,
    },
    /// A plan that the user approved.
    Plan {
        text: String,
        path: Option<String>,
    },
    /// The task list: each entry with its state.
    Tasks {
        entries: Vec<(String, String)>,
    },
    Other {
        input: String,
        output: String,
    },
}

/// One replacement inside a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub before: String,
    pub after: String,
}

/// Whether a written file was there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteKind {
    Created,
    Replaced,
}

/// A whole session, for its summary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionMaterial {
    /// In order; the last may be without a response.
    pub batches: Vec<BatchMaterial>,
}

/// Bytes of text in an action: what reading it would cost.
pub fn size(action: &Action) -> usize {
    let pairs = |pairs: &[(String, String)]| pairs.iter().map(|(left, right)| left.len() + right.len()).sum();
    match action {
        Action::Read { path } => path.len(),
        Action::Edit { changes, .. } => {
            changes.iter().map(|change| change.before.len() + change.after.len()).sum()
        }
        Action::Write { content, .. } => content.len(),
        Action::Command { command, output, .. } => command.len() + output.len(),
        Action::Search { output, .. } | Action::Fetch { output, .. } => output.len(),
        Action::Delegate { prompt, answer, .. } => prompt.len() + answer.as_ref().map_or(0, String::len),
        Action::Ask { exchanges } => pairs(exchanges),
        Action::Tasks { entries } => pairs(entries),
        Action::Plan { text, .. } => text.len(),
        Action::Other { input, output } => input.len() + output.len(),
    }
}

/// Where Claude Code makes a work tree of a session's own, inside of the project that it is one of (EnterWorktree).
const INNER_WORKTREES: &str = ".claude/worktrees/";

/// The path relative to the project, or to the work tree inside of it where it lies in one: both are the same file to
/// whoever remembers it. `None`: it lies outside, so it is scratch or another project's.
pub fn beneath(path: &str, root: Option<&str>) -> Option<String> {
    let path = path.replace('\\', "/");
    let Some(root) = root.map(|root| root.replace('\\', "/")) else { return Some(path) };
    let root = root.trim_end_matches('/');
    let head = path.get(..root.len());
    let inside = path.get(root.len()..).and_then(|rest| rest.strip_prefix('/'));
    match (head, inside) {
        // Drive letters and Windows folders are written in either case.
        (Some(head), Some(inside))
            if head == root || (root.get(1..2) == Some(":") && head.eq_ignore_ascii_case(root)) =>
        {
            let of_worktree = inside.strip_prefix(INNER_WORKTREES).and_then(|rest| rest.split_once('/'));
            Some(of_worktree.map_or(inside, |(_name, file)| file).to_owned())
        }
        _ => {
            let is_absolute = path.starts_with('/') || path.get(1..2) == Some(":") || path.starts_with('~');
            (!is_absolute).then_some(path)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_project() {
        let root = Some("/home/dev/shop");
        assert_eq!(beneath("/home/dev/shop/src/a.rs", root).as_deref(), Some("src/a.rs"));
        assert_eq!(beneath("/home/dev/shopping/a.rs", root), None);
        assert_eq!(beneath("/tmp/x.rs", root), None);
        assert_eq!(beneath("src/a.rs", root).as_deref(), Some("src/a.rs"));
        assert_eq!(beneath("/home/dev/shop/.claude/worktrees/x/src/a.rs", root).as_deref(), Some("src/a.rs"));
        assert_eq!(
            beneath("/home/dev/shop/.claude/worktrees/x", root).as_deref(),
            Some(".claude/worktrees/x")
        );
        assert_eq!(beneath("d:\\shop\\src\\a.rs", Some("D:/shop")).as_deref(), Some("src/a.rs"));
        assert_eq!(beneath("/x/a.rs", None).as_deref(), Some("/x/a.rs"));
    }
}
