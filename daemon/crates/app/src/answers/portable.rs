//! The answers of `export`, and of the import of what it wrote.

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

/// What became of the notes of an agent's own memory about a project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoriesAnswer {
    pub added: u64,
    /// Stored before, and still there.
    pub kept: u64,
    /// A changed note took their place.
    pub replaced: u64,
    /// Their file does not contain them any more.
    pub resolved: u64,
    /// They were forgotten here, and stay so.
    pub forgotten: u64,
    /// Notes of an excluded project or file, without any text that may be stored, or a second time the same.
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
    /// By the kind of line.
    pub added: BTreeMap<String, u64>,
    pub known: u64,
    pub skipped: u64,
    /// They were forgotten here, and stay so.
    #[serde(default, skip_serializing_if = "is_none")]
    pub forgotten: u64,
    /// Lines with a value that its field cannot have, by `KIND.FIELD`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unfit: BTreeMap<String, u64>,
    /// Notes that were pinned where they come from, and are not here.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unpinned: u64,
    /// Other identities that the file gives to projects, which were not taken.
    #[serde(default, skip_serializing_if = "is_none")]
    pub aliases: u64,
    /// Notes that a person wrote where they come from: here nobody did.
    #[serde(default, skip_serializing_if = "is_none")]
    pub unsigned: u64,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde gives a reference")]
fn is_none(count: &u64) -> bool {
    *count == 0
}

impl RestoreAnswer {
    /// Stands in [`Self::unfit`] for what is too long to be read.
    pub const TOO_LONG: &'static str = "length";

    /// Adds what became of further lines.
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
