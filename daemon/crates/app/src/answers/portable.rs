//! The answers of `export`, and of importing an export.

use std::collections::BTreeMap;

use recall_protocol::query::ExportFrom;
use serde::{Deserialize, Serialize};

/// A part of an export.
#[derive(Serialize, Deserialize)]
pub struct ExportAnswer {
    pub lines: Vec<String>,
    /// Where the next part begins; `None` at the end.
    pub next: Option<ExportFrom>,
}

/// The outcome for the notes of an agent's own memory about a project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoriesAnswer {
    pub added: u64,
    /// Already stored and still there.
    pub kept: u64,
    /// Superseded by a changed version.
    pub replaced: u64,
    /// No longer contained in their file.
    pub resolved: u64,
    /// Forgotten here earlier, and still forgotten.
    pub forgotten: u64,
    /// Notes of an excluded project or file, without any storable text, or duplicates.
    pub left_out: u64,
}

impl MemoriesAnswer {
    pub fn add(&mut self, more: Self) {
        self.added += more.added;
        self.kept += more.kept;
        self.replaced += more.replaced;
        self.resolved += more.resolved;
        self.forgotten += more.forgotten;
        self.left_out += more.left_out;
    }
}

/// The outcome for a batch of lines.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct RestoreAnswer {
    /// Counts by kind of line.
    pub added: BTreeMap<String, u64>,
    pub known: u64,
    pub skipped: u64,
    /// Items that were forgotten here earlier, and still are.
    #[serde(default, skip_serializing_if = "is_none")]
    pub forgotten: u64,
    /// Lines with an invalid value for a field, by `KIND.FIELD`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unfit: BTreeMap<String, u64>,
    /// Notes whose pin at their source was not taken over.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unpinned: u64,
    /// Other identities that the file gives to projects and that were not taken over.
    #[serde(default, skip_serializing_if = "is_none")]
    pub aliases: u64,
    /// Notes whose author at their source was not taken over.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unsigned: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

impl RestoreAnswer {
    /// The key in [`Self::unfit`] for lines that are too long.
    pub const TOO_LONG: &'static str = "length";

    /// Adds the outcome of further lines.
    pub fn add(&mut self, more: Self) {
        for (kind, count) in more.added {
            *self.added.entry(kind).or_default() += count;
        }
        self.known += more.known;
        self.skipped += more.skipped;
        self.forgotten += more.forgotten;
        for (field, count) in more.unfit {
            *self.unfit.entry(field).or_default() += count;
        }
        self.unpinned += more.unpinned;
        self.aliases += more.aliases;
        self.unsigned += more.unsigned;
    }
}
