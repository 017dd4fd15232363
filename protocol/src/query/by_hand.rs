//! Requests that change notes and other documents by hand, and that list such changes.

use serde::{Deserialize, Serialize};

use super::Filter;

/// Records whether documents (ids as in [`Show`](super::Show)) should have been injected where they were.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wrong {
    pub ids: Vec<String>,
    /// The agent's session id or an unambiguous prefix of it; absent: wherever each document was last injected.
    pub session: Option<String>,
    pub told: InjectionVerdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum InjectionVerdict {
    Wrongly,
    /// Withdraws an earlier objection.
    Rightly,
}

/// Forgets permanently, or previews what would be removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forget {
    pub what: Forgettable,
    pub unreadable: Unreadable,
    pub step: ForgetStep,
}

/// Stores what the user says. The daemon chooses all absent fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Remember {
    pub text: String,
    pub title: Option<String>,
    /// One of the types of observations.
    pub kind: Option<String>,
    /// A known project's name or identity, or an absolute folder.
    pub project: String,
    /// Absolute paths, or relative to the project's folder.
    pub files: Vec<String>,
    /// From 1 (trivia) to 10.
    pub importance: Option<u8>,
}

/// Stores a statement of an agent's model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentRemark {
    pub remark: Remember,
}

/// Marks observations (`123`, `#123`) as still valid or not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    pub ids: Vec<String>,
    pub validity: Validity,
}

/// Lists observations that await review, newest first: written by a machine and not yet seen by a person.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unreviewed {
    pub filter: Filter,
    /// Only observations before this time.
    pub until_ms: Option<i64>,
    /// Skips this many of the newest observations.
    pub skip: u32,
}

/// A person's verdict on observations (`123`, `#123`).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    pub ids: Vec<String>,
    pub verdict: ReviewVerdict,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReviewVerdict {
    /// Keeps the observation as it is. A rejected one becomes valid again.
    Kept,
    /// The observation is never injected unasked, and supersedes nothing.
    Rejected,
}

/// A person's new text for an observation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edit {
    /// `123`, `#123`.
    pub id: String,
    pub kind: String,
    pub title: String,
    pub narrative: String,
    pub facts: Vec<String>,
    /// Absolute paths, or relative to the project's folder.
    pub files: Vec<String>,
}

/// Pins observations to the start of sessions, or unpins them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PinUp {
    pub ids: Vec<String>,
    pub pin: Pin,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Pin {
    On,
    Off,
}

/// Reverts the newest manual change of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Undo;

/// Reverts the newest manual change of one item, whoever made it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UndoOf {
    /// An observation, or `q3`, as `recall review` names what waits.
    pub id: String,
}

/// Lists manual changes that can be reverted, newest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    pub limit: u32,
}

/// What to forget: the documents in `ids`, or one session, or everything that matches the other fields.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forgettable {
    /// Ids as in [`Show`](super::Show).
    pub ids: Vec<String>,
    /// The agent's session id or an unambiguous prefix of it.
    pub session: Option<String>,
    /// See [`Filter::project`].
    pub project: Option<String>,
    /// Only items from this time on.
    pub since_ms: Option<i64>,
    /// Only items before this time.
    pub until_ms: Option<i64>,
    /// Texts that must all occur, ignoring case.
    pub words: Vec<String>,
}

/// Whether to remove unreadable files too. Nobody can tell which session they belong to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Unreadable {
    #[default]
    Stays,
    Goes,
}

/// Whether to forget, or only to preview it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ForgetStep {
    /// Only counts and names what would be removed.
    #[default]
    Preview,
    Forget,
}

/// Whether an observation still holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Validity {
    Active,
    Resolved,
}
