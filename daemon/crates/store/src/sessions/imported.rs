//! Sessions that were read from an agent's own record instead of being reported by hooks.

use crate::Reader;
use crate::database::bind::params;
use recall_protocol::wire::Flags;
use rusqlite::{Connection, Row};

use crate::StoreError;
use crate::database::row::{Cells, FromRow};
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
    Ok(db.query_row(
        "SELECT NOT EXISTS (SELECT 1 FROM deliveries WHERE session = ?1 AND flags & 32 = 0)
            AND EXISTS (SELECT 1 FROM deliveries WHERE session = ?1)",
        params![session],
        |row| Capture::from_row(row, 0),
    )?)
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
        let mut find = self.0.prepare_cached(
        "SELECT seq, ifnull(asked_in, prompt_id), prompt, opened_at, prompt IS NULL OR response IS NOT NULL
         FROM prompt_batches WHERE source <> 'recovery'
            AND session = (SELECT id FROM sessions WHERE agent = ?1 AND session_id = ?2) ORDER BY opened_at, seq",
    )?;
        let rows = find.query_map(params![key.agent.as_str(), key.id.as_str()], |row| {
            let (id, prompt): (_, Option<String>) = (row.cell(1)?, row.cell(2)?);
            let turn = StoredTurn { id, at_ms: row.cell(3)?, prompt };
            let answer = if row.cell(4)? { AnswerState::Settled } else { AnswerState::Missing };
            Ok(StoredPrompt { seq: Seq(row.cell(0)?), turn, answer })
        })?;
        Ok(rows.collect::<Result<_, _>>()?)
    }

    /// Returns the number of imported events of a session, and when its first and last hooks fired.
    pub fn captured(self, key: &SessionKey) -> Result<(u64, Option<(Timestamp, Timestamp)>), StoreError> {
        let mut find = self.0.prepare_cached(
            "SELECT count(*) FILTER (WHERE flags & 32 <> 0), min(captured_at) FILTER (WHERE flags & 32 = 0),
            max(captured_at) FILTER (WHERE flags & 32 = 0)
         FROM deliveries WHERE session = (SELECT id FROM sessions WHERE agent = ?1 AND session_id = ?2)",
        )?;
        Ok(find.query_row(params![key.agent.as_str(), key.id.as_str()], |row| {
            let hooks: (Option<i64>, Option<i64>) = (row.cell(1)?, row.cell(2)?);
            let hooks = hooks.0.zip(hooks.1).map(|(first, last)| (Timestamp(first), Timestamp(last)));
            Ok((row.cell::<i64>(0)?.unsigned_abs(), hooks))
        })?)
    }
}
