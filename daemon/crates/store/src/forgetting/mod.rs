//! Forgetting: finds the rows that match a selection, and removes them permanently.
//!
//! A row is removed together with everything derived from it. The remaining traces contain no text: event ids detect
//! repeated deliveries, session hashes reject late events, and title hashes keep a compressor from producing a
//! forgotten observation again. A partly forgotten session keeps its sequence numbers without their texts, because
//! later events are ordered by them.
//!
//! Freed pages are overwritten (`secure_delete`), but SQLite leaves copies behind when it moves rows between pages.
//! Only [`rewrite`] removes all of them. `app::forgetting` cleans the index, the spool and the backups.

mod copies;
mod finding;
mod removal;
mod tombstones;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use crate::database::connection::empty_log_now;
use crate::{SqliteError, StoreError};
use recall_domain::document::DocumentKey;
use recall_domain::ids::{ProjectRow, SessionKey, SessionRow, Timestamp};

pub(super) use copies::{CopyOf, Memory, forgotten_at, keep_forgotten, memory};
pub use finding::{RowsToForget, has_all_words};
pub(super) use removal::{
    Foreign, ForgetAgain, forget_document, forget_own_text, leave, withdraw, without_lost_titles,
};
pub use removal::{Forget, TracesRemoved};
pub(super) use tombstones::{belongs_to_forgotten_session, is_forgotten, was_forgotten};

/// Selects what to forget.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// These items and everything derived from them; for a prompt also its answer and its work.
    Documents(Vec<DocumentKey>),
    Session(SessionRow),
    Matching(Criteria),
    /// Sessions without events since a time. Notes added by hand stay.
    SilentSince(Timestamp),
}

/// Conditions that rows must meet; absent ones do not filter. Without words or times, whole projects are selected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Criteria {
    pub projects: Option<Vec<ProjectRow>>,
    pub since: Option<Timestamp>,
    /// Exclusive.
    pub until: Option<Timestamp>,
    /// Words that must all occur in a row's texts, ignoring case.
    pub words: Vec<String>,
}

/// What to do with unreadable events that cannot be assigned to a session or project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unreadable {
    #[default]
    Stays,
    Goes,
}

impl Selection {
    /// Whether the selection may cover events of this time.
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

/// The number of visible items selected or removed.
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

/// The removed items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    pub counts: ForgottenCounts,
    /// Sessions that lost something and whose running actor may still hold it.
    pub touched: Vec<SessionKey>,
    /// Sessions that were removed.
    pub sessions: Vec<SessionKey>,
}

/// Rewrites the whole database and empties the log, so that neither contains a byte of a removed row. Needs the write
/// connection outside of a transaction, and takes about a second per hundred megabytes. Fails if a reader blocks the
/// log for too long.
pub(super) fn rewrite(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch("VACUUM").map_err(SqliteError)?;
    empty_log_now(connection)
}

#[cfg(test)]
mod tests;
