//! The begin and end of sessions, turns, calls and jobs, for traces. They contain names, ids, times and counts, but
//! no text.

use rusqlite::Connection;

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::jobs::job_kind::{JobKind, JobStatus};
use crate::sessions::known::running_calls;
use crate::{Reader, StoreError};
use recall_domain::ids::{
    ActivityId, AgentName, BatchId, CallId, EventId, JobId, SessionId, SessionKey, SessionRow, Timestamp,
};
use recall_domain::lifecycle::Tally;
use recall_domain::material::BatchSource;
use recall_domain::observation::NoteOrigin;
use recall_domain::session::{RunningCall, Seq};

record! {
/// A session in its latest life.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionTimes from "sessions s JOIN projects p ON p.id = s.project" {
    pub row: SessionRow = "s.id",
    pub agent: AgentName = "s.agent",
    pub id: SessionId = "s.session_id",
    /// Counted from 1.
    pub life: u32 = "s.life",
    pub project: String = "p.name",
}
}

record! {
/// A closed turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TurnTimes from "prompt_batches b" {
    pub batch: BatchId = "b.id",
    pub source: BatchSource = "b.source",
    pub began: Timestamp = "b.opened_at",
    pub ended: Timestamp = "b.closed_at",
    pub close_reason: Option<String> = "b.close_reason",
    /// The life in which it began.
    pub life: u32 = "ifnull((SELECT max(l.life) FROM life_events l
        WHERE l.session = b.session AND l.name = 'session_start' AND l.at <= b.opened_at), 1)",
}
}

record! {
/// A tool call that has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallTimes from "activities a" {
    pub row: ActivityId = "a.id",
    pub tool: String = "a.tool_name",
    pub id: Option<CallId> = "a.tool_use_id",
    pub subagent: Option<String> = "a.subagent_type",
    pub failed: bool = "a.failed",
    /// The call never ran: the user or a rule refused it.
    pub refused: bool = "a.failed AND a.part_of IS NOT NULL",
    /// The rule of the guard that refused it.
    pub refused_by: Option<String> = "a.refused_by",
    /// `None` if the agent did not report it.
    pub began: Option<Timestamp> = "a.began_at",
    pub ended: Timestamp = "a.at",
    /// How long the call ran, excluding the wait for permission. `None` if the agent does not report it.
    pub duration_ms: Option<i64> = "a.duration_ms",
}
}

record! {
/// A finished compression job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobTimes from "jobs j" {
    pub id: JobId = "j.id",
    session: SessionRow = "j.session",
    pub batch: Option<BatchId> = "j.batch",
    pub kind: JobKind = "j.kind",
    pub status: JobStatus = "j.status",
    pub attempts: u32 = "j.attempts",
    /// Who produced the result.
    pub origin: Option<NoteOrigin> = "j.origin",
    pub queued: Timestamp = "j.created_at",
    pub ended: Option<Timestamp> = "j.finished_at",
    /// Whether it is a summary of a session that continues; it is made again at the session's end.
    pub is_early: bool = "j.kind = 'summary' AND EXISTS (SELECT 1 FROM sessions s WHERE s.id = j.session AND s.ended_at IS NULL)",
}
}

/// The open state of a session that was deleted because it was silent for too long. The store no longer contains it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiredLife {
    pub session: SessionTimes,
    /// The turns that were open, with the numbers of their prompts.
    pub turns: Vec<(u32, TurnTimes, Vec<CallTimes>)>,
    /// The calls that were running, each with its turn.
    pub calls: Vec<(Option<BatchId>, RunningCall)>,
    pub tally: Tally,
    /// The time of the session's last event.
    pub ended: Timestamp,
    pub reason: String,
}

impl Reader<'_> {
    /// Returns a session's times; `None` if it was forgotten.
    pub fn session_times(self, key: &SessionKey) -> Result<Option<SessionTimes>, StoreError> {
        let sql = format!("{} WHERE s.agent = ?1 AND s.session_id = ?2", SessionTimes::SELECT);
        self.0.first(&sql, params![key.agent, key.id])
    }

    /// Returns the closed turns of this prompt, each with its calls. A prompt has several if it was resumed. Private
    /// ones are omitted.
    pub fn turn_times(
        self,
        session: &SessionTimes,
        prompt_number: u32,
    ) -> Result<Vec<(TurnTimes, Vec<CallTimes>)>, StoreError> {
        let db = self.0;
        let sql = format!(
            "{} WHERE b.session = ?1 AND b.prompt_number = ?2 AND b.closed_at IS NOT NULL AND b.source <> ?3",
            TurnTimes::SELECT
        );
        let turns: Vec<TurnTimes> =
            db.all(&sql, params![session.row, prompt_number, BatchSource::Private.as_str()])?;
        // Events after the turn's end get their own spans.
        let sql = format!(
            "{} WHERE a.batch = ?1 AND a.kind = 'tool' AND a.at <= ?2 ORDER BY a.at, a.id",
            CallTimes::SELECT
        );
        let calls = |turn: &TurnTimes| db.all(&sql, params![turn.batch, turn.ended]);
        turns.into_iter().map(|turn| calls(&turn).map(|calls| (turn, calls))).collect()
    }

    /// Returns a call that ended after its turn, with the turn. `None` if it ended within the turn, is private or was
    /// forgotten.
    pub fn late_call(self, event: EventId) -> Result<Option<(BatchId, CallTimes)>, StoreError> {
        let db = self.0;
        let call = format!("{} WHERE a.event_id = ?1 AND a.kind = 'tool'", CallTimes::SELECT);
        let Some(call) = db.first::<CallTimes>(&call, [event.0])? else { return Ok(None) };
        let turn = db.first(
            "SELECT b.id FROM activities a JOIN prompt_batches b ON b.id = a.batch
         WHERE a.id = ?1 AND b.closed_at < a.at AND b.source <> ?2",
            params![call.row, BatchSource::Private.as_str()],
        )?;
        Ok(turn.map(|turn| (turn, call)))
    }

    /// Returns the turn in which something began, private or not. `None` if it began before the first turn.
    pub fn turn_at(
        self,
        session: &SessionTimes,
        at: Timestamp,
    ) -> Result<Option<(BatchId, BatchSource)>, StoreError> {
        self.0.first(
            "SELECT id, source FROM prompt_batches WHERE session = ?1 AND opened_at <= ?2
         ORDER BY opened_at DESC, seq DESC LIMIT 1",
            params![session.row, at],
        )
    }

    /// Returns the batch of a session, private or not.
    pub fn turn_of(
        self,
        session: &SessionTimes,
        seq: Seq,
    ) -> Result<Option<(BatchId, BatchSource)>, StoreError> {
        self.0.first(
            "SELECT id, source FROM prompt_batches WHERE session = ?1 AND seq = ?2",
            params![session.row, seq.0],
        )
    }

    /// Returns a job with its session; `None` if it was forgotten.
    pub fn job_times(self, job: JobId) -> Result<Option<(JobTimes, SessionTimes)>, StoreError> {
        let db = self.0;
        let job: Option<JobTimes> =
            db.first(&format!("{} WHERE j.id = ?1", JobTimes::SELECT), params![job])?;
        let Some(job) = job else { return Ok(None) };
        let session = db.one(&format!("{} WHERE s.id = ?1", SessionTimes::SELECT), params![job.session])?;
        Ok(Some((job, session)))
    }
}

/// Closes the open parts of a session and returns them. `None` if the session does not exist.
pub(crate) fn expire(
    db: &Connection,
    key: &SessionKey,
    tally: Tally,
    ended: Timestamp,
    reason: &str,
) -> Result<Option<ExpiredLife>, StoreError> {
    let Some(session) = Reader(db).session_times(key)? else { return Ok(None) };
    let closed: Vec<(BatchId, u32)> = db.all(
        "UPDATE prompt_batches SET status = 'closed', close_reason = 'session_end', closed_at = ?2
         WHERE session = ?1 AND status <> 'closed' RETURNING id, prompt_number",
        params![session.row, ended],
    )?;
    let mut turns = Vec::new();
    for (batch, number) in closed {
        let found = Reader(db).turn_times(&session, number)?;
        turns.extend(
            found
                .into_iter()
                .filter(|(turn, _)| turn.batch == batch)
                .map(|(turn, calls)| (number, turn, calls)),
        );
    }
    let mut calls = Vec::new();
    for call in running_calls(db, session.row)? {
        match Reader(db).turn_at(&session, call.began)? {
            Some((_, BatchSource::Private)) => {}
            turn => calls.push((turn.map(|(turn, _)| turn), call)),
        }
    }
    Ok(Some(ExpiredLife { session, turns, calls, tally, ended, reason: reason.to_owned() }))
}
