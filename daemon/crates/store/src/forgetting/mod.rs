//! Forgetting: finds the rows that a selection matches, and removes them so that they do not come back.
//!
//! A row is removed with everything that was made from it. The traces that stay contain no text: event ids detect
//! repeated deliveries, session hashes reject late events, and title hashes stop a compressor from making a forgotten
//! observation again. A partly forgotten session keeps its sequence numbers without their texts, because later events
//! are ordered by them.
//!
//! Freed pages are overwritten (`secure_delete`), but SQLite leaves copies behind when it moves rows between pages.
//! Only [`rewrite`] removes them all. `app::forgetting` cleans the index, the spool and the backups.

mod copies;
mod finding;
mod removal;
mod tombstones;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::StoreError;
use crate::database::connection::empty_log_now;
use recall_domain::document::DocumentKey;
use recall_domain::ids::{ProjectRow, SessionKey, SessionRow, Timestamp};

pub(super) use copies::{CopyOf, Memory, forgotten_at, keep_forgotten, memory};
pub use finding::{RowsToForget, has_all_words};
pub(super) use removal::{
    Foreign, ForgetAgain, forget_document, forget_said, leave, withdraw, without_lost_titles,
};
pub use removal::{Forget, TracesRemoved};
pub(super) use tombstones::{belongs_to_forgotten_session, is_forgotten, was_forgotten};

/// Selects what to forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// These items and what was made from them; for a prompt also its answer and its work.
    Documents(Vec<DocumentKey>),
    Session(SessionRow),
    Matching(Criteria),
    /// Sessions without events since a time. Notes added by hand stay.
    SilentSince(Timestamp),
}

/// Conditions that rows must meet; an absent one does not filter. Without words or times, whole projects are selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Criteria {
    pub projects: Option<Vec<ProjectRow>>,
    pub since: Option<Timestamp>,
    /// Exclusive.
    pub until: Option<Timestamp>,
    /// Each of them must occur in a row's texts, ignoring case.
    pub words: Vec<String>,
}

/// The treatment of unreadable events that cannot be assigned to a session or project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unreadable {
    #[default]
    Stays,
    Goes,
}

impl Selection {
    /// True if the selection may include events of this time.
    pub fn spans(&self, at: Timestamp) -> bool {
        match self {
            Self::Documents(_) => false,
            Self::Session(_) => true,
            Self::Matching(criteria) => {
                criteria.since.is_none_or(|since| at >= since)
                    && criteria.until.is_none_or(|until| at < until)
            }
            Self::SilentSince(before) => at < *before,
        }
    }
}

/// How many visible items are selected, or were removed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ForgottenCounts {
    pub observations: usize,
    pub summaries: usize,
    pub prompts: usize,
    pub responses: usize,
    pub plans: usize,
    pub activities: usize,
    /// Whole sessions.
    pub sessions: usize,
    /// Unreadable events.
    pub unparsed: usize,
    /// Items that are not listed separately: the user's answers, final messages of subagents, compaction summaries, and what was
    /// said on other machines.
    pub asides: usize,
}

/// The counts of removed items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    pub counts: ForgottenCounts,
    /// Sessions that lost something and whose running actor may still have it.
    pub touched: Vec<SessionKey>,
    /// Sessions that were removed.
    pub sessions: Vec<SessionKey>,
}

/// Rewrites the whole database and empties the log, so that neither contains a byte of a removed row. Needs the
/// write connection outside of a transaction, and takes about a second per hundred megabytes. Fails if a reader
/// stays so long that the log cannot be emptied.
pub fn rewrite(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch("VACUUM")?;
    empty_log_now(connection)
}

#[cfg(test)]
mod tests;
