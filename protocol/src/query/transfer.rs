//! Requests that export, import, back up and restore.

use serde::{Deserialize, Serialize};

use super::Filter;

/// Requests the next part of the stored memory, as JSON lines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Export {
    pub filter: Filter,
    /// Where the part begins; `None` for the beginning.
    pub from: Option<ExportFrom>,
}

/// The position where a part of an export begins. Only the daemon that created it can interpret it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportFrom {
    pub table: u32,
    pub after: i64,
}

/// Stores lines of an export, each a JSON object. Rows that already exist stay unchanged.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Restore {
    pub lines: Vec<String>,
}

/// Like [`Restore`], for lines from a source that is trusted more than a stranger's.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreFrom {
    pub lines: Vec<String>,
    pub source: RowSource,
}

/// The author of these lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RowSource {
    /// Another tool's memory, which identifies projects by name.
    OtherMemory,
    /// The user's own export, according to the user.
    OwnExport,
}

/// Replaces the stored notes of an agent's own memory about a project with these.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TakeMemories {
    pub agent: String,
    /// The absolute path of the project's folder.
    pub folder: String,
    pub notes: Vec<AgentNote>,
    pub step: MemoryStep,
}

/// A note from an agent's own memory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AgentNote {
    pub file: String,
    /// The headings above the note.
    pub heading: String,
    pub text: String,
    /// When the note's file was written.
    pub at_ms: i64,
}

/// Whether to store anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum MemoryStep {
    /// Only counts the changes.
    Preview,
    Store,
}

/// Copies the database to this file, which must not exist yet; if absent, to the backup folder.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backup {
    /// An absolute path.
    pub path: Option<String>,
}

/// Replaces the database with this one, and keeps the current one aside.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreBackup {
    /// An absolute path.
    pub path: String,
}
