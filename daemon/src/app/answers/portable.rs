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

/// What became of lines.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct RestoreAnswer {
    /// By the kind of line.
    pub added: BTreeMap<String, u64>,
    pub known: u64,
    pub skipped: u64,
}

impl RestoreAnswer {
    /// Adds what became of further lines.
    pub fn add(&mut self, more: Self) {
        for (kind, count) in more.added {
            *self.added.entry(kind).or_default() += count;
        }
        self.known += more.known;
        self.skipped += more.skipped;
    }
}
