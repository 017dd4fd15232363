//! Sessions that were read from an agent's own record instead of being reported by hooks.

use crate::Reader;
use crate::database::bind::params;
use recall_protocol::wire::Flags;
use rusqlite::{Connection, Row};

use crate::StoreError;
use crate::database::row::{Cells, FromRow, Sql};
use recall_agents::turns::StoredTurn;
use recall_domain::ids::{SessionKey, SessionRow, Timestamp};
use recall_domain::session::Seq;

/// How the events of a session were captured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capture {
    /// A hook reported at least one event.
    Hooks,
    /// All events were imported. Models are not asked about them, and nobody is notified.
    Imported,
}

// SQL conditions use this flag as a number, including the one for leased jobs.
const _: () = assert!(Flags::IMPORTED.0 == 32);

impl FromRow for Capture {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        Ok(if row.cell(first)? { Self::Imported } else { Self::Hooks })
    }
}

pub(crate) fn capture_of(db: &Connection, session: SessionRow) -> Result<Capture, StoreError> {
    db.one(
        "SELECT NOT EXISTS (SELECT 1 FROM deliveries WHERE session = ?1 AND flags & 32 = 0)
            AND EXISTS (SELECT 1 FROM deliveries WHERE session = ?1)",
        params![session],
    )
}

/// A stored prompt with the fields that identify its turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredPrompt {
    pub seq: Seq,
    pub turn: StoredTurn,
    pub answer: AnswerState,
}

/// Whether a prompt's answer may still be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnswerState {
    /// The answer is stored, or the prompt is private or forgotten.
    Settled,
    Missing,
}

impl Reader<'_> {
    /// Returns the prompts of a session, in order.
    pub fn stored_prompts(self, key: &SessionKey) -> Result<Vec<StoredPrompt>, StoreError> {
        let rows = self.0.all(
        "SELECT seq, ifnull(asked_in, prompt_id), prompt, opened_at, prompt IS NULL OR response IS NOT NULL
         FROM prompt_batches WHERE source <> 'recovery'
            AND session = (SELECT id FROM sessions WHERE agent = ?1 AND session_id = ?2) ORDER BY opened_at, seq",
        params![key.agent.as_str(), key.id.as_str()],
    )?;
        let prompt = |(seq, id, prompt, at_ms, is_settled)| StoredPrompt {
            seq: Seq(seq),
            turn: StoredTurn { id, at_ms, prompt },
            answer: if is_settled { AnswerState::Settled } else { AnswerState::Missing },
        };
        Ok(rows.into_iter().map(prompt).collect())
    }

    /// Returns the number of imported events of a session, and when its first and last hooks fired.
    pub fn captured(self, key: &SessionKey) -> Result<(u64, Option<(Timestamp, Timestamp)>), StoreError> {
        let (imported, first, last): (u64, Option<Timestamp>, Option<Timestamp>) = self.0.one(
            "SELECT count(*) FILTER (WHERE flags & 32 <> 0), min(captured_at) FILTER (WHERE flags & 32 = 0),
            max(captured_at) FILTER (WHERE flags & 32 = 0)
         FROM deliveries WHERE session = (SELECT id FROM sessions WHERE agent = ?1 AND session_id = ?2)",
            params![key.agent.as_str(), key.id.as_str()],
        )?;
        Ok((imported, first.zip(last)))
    }
}
