//! The input of a compressor: a closed prompt batch, in one form for every agent.
//!
//! The store keeps each call as its agent sent it, and `agents/` parses it into an [`Action`] on demand. So a better
//! parser also improves old rows.

pub use super::batch_source::BatchSource;
use super::conventions::Conventions;
use super::earlier::Earlier;
use super::ids::{EventId, Timestamp};

/// A closed batch, or a chunk of a long one, with the answer before it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchMaterial {
    pub prompt_number: u32,
    pub source: BatchSource,
    /// The user's words. Absent in a recovery batch.
    pub prompt: Option<SourcedText>,
    /// The agent's final answer. Absent if the turn never ended.
    pub response: Option<SourcedText>,
    /// The answer before this batch. A prompt such as "yes, do that" refers to it.
    pub previous_response: Option<String>,
    /// Earlier statements about files that the batch touches and that may be outdated now, newest first. Only for
    /// models.
    pub earlier: Vec<Earlier>,
    /// In chronological order.
    pub steps: Vec<Step>,
    /// The project's folder. Paths beneath it are shown relative to it.
    pub root: Option<String>,
    /// Conventions of the agent that did the work.
    pub conventions: Conventions,
}

impl BatchMaterial {
    pub fn folder(&self) -> ProjectFolder<'_> {
        ProjectFolder { root: self.root.as_deref(), work_trees: self.conventions.work_trees }
    }
}

/// A text and the event that delivered it.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct SourcedText {
    pub event: EventId,
    pub text: String,
}

/// One action of the agent.
#[derive(Clone, Debug, PartialEq, Hash)]
pub struct Step {
    pub event: EventId,
    pub at: Timestamp,
    /// The agent's own name for the tool.
    pub tool: String,
    /// A failed call has its error in `Action::Command::output` or `Step::error`.
    pub outcome: CallOutcome,
    /// The subagent that did it. `None` for the main agent.
    pub subagent: Option<String>,
    pub action: Action,
}

/// How a call ended.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum CallOutcome {
    Done,
    Failed {
        error: String,
    },
    /// The user denied permission.
    Rejected {
        /// The user's reason, if any.
        reason: Option<String>,
    },
}

impl CallOutcome {
    /// Whether the call failed or was rejected.
    pub fn is_failed(&self) -> bool {
        matches!(self, Self::Failed { .. } | Self::Rejected { .. })
    }
}

/// The effect of a call, in terms that fit every agent. Texts are complete; compressors shorten them.
#[derive(Clone, Debug, PartialEq, Hash)]
pub enum Action {
    Read {
        path: String,
    },
    /// Replacements of text in a file, in order.
    Edit {
        path: String,
        changes: Vec<EditHunk>,
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
    /// A search for files or for text in files.
    Search {
        pattern: String,
        path: Option<String>,
        output: String,
    },
    /// A fetched web page or a web search. For a search the url is empty and the question is the query.
    Fetch {
        url: String,
        question: Option<String>,
        output: String,
    },
    /// Work delegated to a subagent, with its final message.
    Delegate {
        description: String,
        prompt: String,
        answer: Option<String>,
    },
    /// Questions to the user, with the answers.
    Ask {
        exchanges: Vec<(String, String)>,
    },
    /// A plan that the user approved.
    Plan {
        text: String,
        path: Option<String>,
    },
    /// The task list, with the state of each entry.
    Tasks {
        entries: Vec<(String, String)>,
    },
    Other {
        input: String,
        output: String,
    },
}

/// One replacement inside a file.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EditHunk {
    pub before: String,
    pub after: String,
}

/// Whether a written file existed before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum WriteKind {
    Created,
    Replaced,
}

/// Whether the session is finished.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionExtent {
    /// The session continues. Only what its batches say is used, because that will not change.
    SoFar,
    Whole,
}

/// A whole session, for its summary.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SessionMaterial {
    /// In order. The last may have no response.
    pub batches: Vec<BatchMaterial>,
}

/// The number of bytes of text in an action, an estimate of the cost of reading it.
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

/// A project's folder, if known.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProjectFolder<'a> {
    pub root: Option<&'a str>,
    /// See [`Conventions::work_trees`].
    pub work_trees: &'static [&'static str],
}

impl ProjectFolder<'_> {
    /// Returns the path relative to the project, or to a work tree inside it, since both are the same file. `None` if
    /// the path lies outside, so it is scratch or belongs to another project.
    pub fn beneath(&self, path: &str) -> Option<String> {
        let path = path.replace('\\', "/");
        let Some(root) = self.root.map(|root| root.replace('\\', "/")) else { return Some(path) };
        let root = root.trim_end_matches('/');
        let head = path.get(..root.len());
        let inside = path.get(root.len()..).and_then(|rest| rest.strip_prefix('/'));
        match (head, inside) {
            // Drive letters and Windows folders are compared ignoring case.
            (Some(head), Some(inside))
                if head == root || (root.get(1..2) == Some(":") && head.eq_ignore_ascii_case(root)) =>
            {
                let of_worktree = self.work_trees.iter().find_map(|folder| inside.strip_prefix(folder));
                let of_worktree = of_worktree.and_then(|rest| rest.split_once('/'));
                Some(of_worktree.map_or(inside, |(_name, file)| file).to_owned())
            }
            _ => {
                let is_absolute =
                    path.starts_with('/') || path.get(1..2) == Some(":") || path.starts_with('~');
                (!is_absolute).then_some(path)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_relative_to_the_project() {
        let beneath = |path: &str, root| ProjectFolder { root, work_trees: &[".agent/trees/"] }.beneath(path);
        let root = Some("/home/dev/shop");
        assert_eq!(beneath("/home/dev/shop/src/a.rs", root).as_deref(), Some("src/a.rs"));
        assert_eq!(beneath("/home/dev/shopping/a.rs", root), None);
        assert_eq!(beneath("/tmp/x.rs", root), None);
        assert_eq!(beneath("src/a.rs", root).as_deref(), Some("src/a.rs"));
        assert_eq!(beneath("/home/dev/shop/.agent/trees/x/src/a.rs", root).as_deref(), Some("src/a.rs"));
        assert_eq!(beneath("/home/dev/shop/.agent/trees/x", root).as_deref(), Some(".agent/trees/x"));
        assert_eq!(beneath("d:\\shop\\src\\a.rs", Some("D:/shop")).as_deref(), Some("src/a.rs"));
        assert_eq!(beneath("/x/a.rs", None).as_deref(), Some("/x/a.rs"));
    }
}
