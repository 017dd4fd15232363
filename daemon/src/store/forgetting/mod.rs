//! Forgetting: what a selection means, row by row, and removing it so that it does not come back.
//!
//! Rows go, and with them whatever was made of them. What stays has nothing to read in it: the ids of events, by which
//! a second delivery is known; hashes of sessions, for what is still on its way; hashes of titles, so that no
//! compressor makes a forgotten observation again. Of a session that is forgotten in part the places stay, without
//! their texts, because what comes later is ordered by them.
//!
//! Freed pages are overwritten (`secure_delete`), but SQLite leaves copies behind when it moves rows between pages:
//! only [`rewrite`] takes the last of them. Index, spool and backups are other people's: see `app::forgetting`.

mod finding;
mod removal;
mod tombstones;

use rusqlite::Connection;
use serde::{Deserialize, Serialize};

use super::{StoreError, empty_log_now};
use crate::memory::document::DocumentKey;
use crate::memory::ids::{ProjectRow, SessionKey, SessionRow, Timestamp};

pub use finding::{RowsToForget, find_rows_to_forget, has_all_words, unreadable_events};
pub use removal::{Forget, TracesRemoved, traces_left};
pub(super) use removal::{withdraw, without_lost_titles};
pub(super) use tombstones::{belongs_to_forgotten_session, was_forgotten};

/// What shall go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// These, and what was made of them. Of a prompt: also the answer to it and the work on it.
    Documents(Vec<DocumentKey>),
    Session(SessionRow),
    Matching(Criteria),
    /// Sessions that were last heard of before a moment. What was remembered by hand stays.
    SilentSince(Timestamp),
}

/// What rows must have in common; what is not given does not narrow. Without words and times: whole projects.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Criteria {
    pub projects: Option<Vec<ProjectRow>>,
    pub since: Option<Timestamp>,
    /// Exclusive.
    pub until: Option<Timestamp>,
    /// Every one of them must occur in a row's texts, whatever its case.
    pub words: Vec<String>,
}

/// What becomes of events that could not be read, where nothing shows whose they are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unreadable {
    #[default]
    Stays,
    Goes,
}

impl Selection {
    /// Whether something of this moment may be meant.
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

/// How much of what people see is meant, or gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForgottenCounts {
    pub observations: usize,
    pub summaries: usize,
    pub prompts: usize,
    pub responses: usize,
    pub plans: usize,
    pub activities: usize,
    /// Whole sessions.
    pub sessions: usize,
    /// Events that could not be read.
    pub unparsed: usize,
    /// What is shown nowhere by itself: the user's answers, last words of subagents, an agent's own summaries.
    pub asides: usize,
}

/// What was removed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Forgotten {
    pub counts: ForgottenCounts,
    /// Those that lost something and may have an actor with a memory of it.
    pub touched: Vec<SessionKey>,
    /// Those that are gone.
    pub sessions: Vec<SessionKey>,
}

/// Writes the whole database anew and empties the log beside it: afterwards no byte of a removed row is in either. For
/// the write connection, outside of a transaction; takes about a second for a hundred megabytes.
///
/// # Errors
/// When the database refuses, or somebody reads for so long that the log cannot be emptied.
pub fn rewrite(connection: &Connection) -> Result<(), StoreError> {
    connection.execute_batch("VACUUM")?;
    empty_log_now(connection)
}

#[cfg(test)]
mod tests;
