//! Reads the state of sessions for their actors.

use rusqlite::{Connection, Row};

use crate::database::bind::params;
use crate::database::row::{FromRow, Sql, record};
use crate::{ProjectInfo, Reader, StoreError};
use recall_domain::context::InjectedExtent;
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::event::SubagentTask;
use recall_domain::file_memory::InjectedSet;
use recall_domain::guard::Rule;
use recall_domain::ids::{CallId, EventId, PromptId, SessionKey, SessionRow, Timestamp};
use recall_domain::material::BatchSource;
use recall_domain::order::Order;
use recall_domain::session::{
    Batch, BatchState, EarlyCall, Growth, Load, Response, RunningCall, Seq, Session, SessionStatus,
    TurnResponse, TurnSeen,
};

/// The state of a stored session, as its actor needs it.
#[derive(Clone, Debug, PartialEq)]
pub struct KnownSession {
    pub row: SessionRow,
    pub project: ProjectInfo,
    pub session: Session,
    pub transcript_path: Option<String>,
    /// The folder of its project.
    pub root: Option<String>,
    /// The time of the event that decided where the session runs; `None` if unknown.
    pub home: Option<Order>,
    /// Items injected since its context was last emptied.
    pub injected: InjectedSet,
}

record! {
struct SessionColumns from "sessions s JOIN projects p ON p.id = s.project
         LEFT JOIN deliveries e ON e.event_id = s.end_event LEFT JOIN deliveries h ON h.event_id = s.home_event" {
    row: SessionRow = "s.id",
    status: SessionStatus = "s.status",
    life: u32 = "s.life",
    last_event: Timestamp = "s.last_event_at",
    project: ProjectInfo = "p.id, p.key, p.name",
    prompts: u32 = "(SELECT ifnull(max(prompt_number), 0) FROM prompt_batches WHERE session = s.id)",
    ended: Option<Order> = "e.boot_id, e.boot_ns, e.captured_at",
    begun: Timestamp = "s.life_started_at",
    suspended: Option<Timestamp> = "s.suspended_at",
    compacted: u32 = "(SELECT ifnull(max(message_count), 0) FROM compactions WHERE session = s.id AND
             ended_at IS NOT NULL)",
    transcript_path: Option<String> = "s.transcript_path",
    root: Option<String> = "s.root",
    home: Option<Order> = "h.boot_id, h.boot_ns, h.captured_at",
}
}

impl Reader<'_> {
    pub fn known_session(self, key: &SessionKey) -> Result<Option<KnownSession>, StoreError> {
        let db = self.0;
        let sql = format!("{} WHERE s.agent = ?1 AND s.session_id = ?2", SessionColumns::SELECT);
        let Some(found) = db.first::<SessionColumns>(&sql, params![key.agent, key.id])? else {
            return Ok(None);
        };
        let mut session = Session {
            status: found.status,
            life: found.life,
            prompts: found.prompts,
            batches: session_batches(db, found.row)?,
            early: Vec::new(),
            spare: spare_answers(db, found.row)?,
            turns_seen: turns_seen(db, found.row)?,
            last_event: found.last_event,
            latest: latest_order(db, found.row)?,
            ended: found.ended,
            begun: found.begun,
            suspended: found.suspended,
            calls: running_calls(db, found.row)?,
            compacted: found.compacted,
        };
        session.early = early_calls(db, found.row, &session)?;
        let SessionColumns { row, project, transcript_path, root, home, .. } = found;
        Ok(Some(KnownSession {
            row,
            project,
            session,
            transcript_path,
            root,
            home,
            injected: injected(db, row)?,
        }))
    }

    /// Returns sessions that have been silent since `before` and have something open. Suspended ones count only if
    /// they have been silent since `listening_since`, an earlier time.
    pub fn quiet_sessions(
        self,
        before: Timestamp,
        listening_since: Timestamp,
    ) -> Result<Vec<SessionKey>, StoreError> {
        self.0.all(
            "SELECT agent, session_id FROM sessions
         WHERE last_event_at <= ?1 AND (status <> 'suspended' OR ?2 <= ?1)
           AND (status <> 'completed' OR EXISTS (SELECT 1 FROM prompt_batches b
                                                 WHERE b.session = sessions.id AND b.status <> 'closed'))
         LIMIT 200",
            params![before, listening_since],
        )
    }
}

record! {
struct CallColumns from "running_calls" {
    id: CallId = "call_id",
    subagent: Option<String> = "subagent",
    task_kind: Option<String> = "task_kind",
    task: Option<String> = "task",
    tool: Option<String> = "tool",
    began: Timestamp = "began_at",
    refused_by: Option<String> = "refused_by",
}
}

pub(crate) fn running_calls(db: &Connection, session: SessionRow) -> Result<Vec<RunningCall>, StoreError> {
    let sql = format!("{} WHERE session = ?1 ORDER BY call_id", CallColumns::SELECT);
    let calls = db.all::<CallColumns>(&sql, params![session])?.into_iter().map(|call| {
        let task =
            call.task_kind.clone().zip(call.task.clone()).map(|(kind, text)| SubagentTask { kind, text });
        let CallColumns { id, subagent, tool, began, refused_by, .. } = call;
        let refused_by = refused_by.as_deref().and_then(Rule::parse);
        RunningCall { id, subagent, task, tool, began, refused_by }
    });
    Ok(calls.collect())
}

/// Reads how many activities there are, and their bytes.
impl FromRow for Load {
    const WIDTH: usize = 2;

    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        FromRow::from_row(row, first).map(|(activities, bytes)| Self { activities, bytes })
    }
}

record! {
/// Columns of a batch. A batch that still waits for its prompt was opened by the first of its calls.
struct BatchColumns from "prompt_batches b
         LEFT JOIN deliveries o ON o.event_id = ifnull(b.prompt_event,
            (SELECT e.event_id FROM activities a JOIN deliveries e ON e.event_id = ifnull(a.part_of,
            a.event_id)
             WHERE a.batch = b.id AND a.kind <> 'other' AND a.part_of IS NULL ORDER BY e.boot_ns LIMIT 1))
         LEFT JOIN deliveries r ON r.event_id = b.response_event" {
    seq: u32 = "b.seq",
    prompt: Option<PromptId> = "b.prompt_id",
    source: BatchSource = "b.source",
    state: BatchState = "b.status",
    number: u32 = "b.prompt_number",
    response_turn: Option<PromptId> = "b.response_turn",
    opened_at: Timestamp = "b.opened_at",
    opened: Option<Order> = "o.boot_id, o.boot_ns, o.captured_at",
    responded: Option<Order> = "r.boot_id, r.boot_ns, r.captured_at",
    has_response: bool = "b.response IS NOT NULL",
    fresh: Load = "iif(b.status = 'closed' AND b.source <> 'recovery', 0, (SELECT count(*) FROM activities a
            WHERE a.batch = b.id AND a.kind = 'tool' AND a.part_of IS NULL AND a.id > b.flushed_upto)),
        iif(b.status = 'closed' AND b.source <> 'recovery', 0,
            (SELECT ifnull(sum(length(a.input) + length(a.response)), 0) FROM activities a
            WHERE a.batch = b.id AND a.kind = 'tool' AND a.part_of IS NULL AND a.id > b.flushed_upto))",
    compressed: Load = "iif(b.status = 'closed' AND b.source <> 'recovery', 0, (SELECT count(*) FROM
             activities a
            WHERE a.batch = b.id AND a.kind = 'tool' AND a.part_of IS NULL AND a.id <= b.flushed_upto)),
        iif(b.status = 'closed' AND b.source <> 'recovery', 0,
            (SELECT ifnull(sum(length(a.input) + length(a.response)), 0) FROM activities a
            WHERE a.batch = b.id AND a.kind = 'tool' AND a.part_of IS NULL AND a.id <= b.flushed_upto))",
    asked_in: Option<PromptId> = "b.asked_in",
    response_event: Option<EventId> = "b.response_event",
}
}

impl BatchColumns {
    fn into_batch(self) -> Batch {
        let response = match (self.responded, self.response_event) {
            (Some(at), Some(event)) => {
                Response::Known(TurnResponse { event, at, prompt: self.response_turn })
            }
            _ if self.has_response => Response::Recovered,
            _ => Response::Missing,
        };
        Batch {
            seq: Seq(self.seq),
            number: self.number,
            opened: self.opened.unwrap_or(Order { wall: self.opened_at, ..Order::default() }),
            prompt: self.prompt,
            asked_in: self.asked_in,
            source: self.source,
            state: self.state,
            response,
            growth: Growth { fresh: self.fresh, compressed: self.compressed },
        }
    }
}

fn session_batches(db: &Connection, session: SessionRow) -> Result<Vec<Batch>, StoreError> {
    let sql = format!("{} WHERE b.session = ?1 ORDER BY b.seq", BatchColumns::SELECT);
    let rows = db.all::<BatchColumns>(&sql, params![session])?.into_iter().map(BatchColumns::into_batch);
    // In the order of the live session: each at its position among those that it knows.
    let mut batches: Vec<Batch> = Vec::new();
    for batch in rows {
        let place = batches.iter().take_while(|known| !batch.opened.is_before(&known.opened)).count();
        batches.insert(place, batch);
    }
    Ok(batches)
}

/// Returns the calls from before the first prompt: the first one of each turn.
fn early_calls(db: &Connection, session: SessionRow, known: &Session) -> Result<Vec<EarlyCall>, StoreError> {
    let (Some(first), Some(holder)) = (known.batches.first(), known.batch_of_early()) else {
        return Ok(Vec::new());
    };
    let Order { boot, boot_ns, wall } = first.opened;
    let rows: Vec<(Option<PromptId>, Order)> = db.all(
        "SELECT a.prompt_id, d.boot_id, min(d.boot_ns), d.captured_at
         FROM prompt_batches b JOIN activities a ON a.batch = b.id JOIN deliveries d ON d.event_id =
         a.event_id
         WHERE b.session = ?1 AND b.seq = ?2 AND a.kind = 'tool' AND a.part_of IS NULL
           AND (b.source = 'recovery' OR iif(d.boot_id = ?3, d.boot_ns < ?4, d.captured_at < ?5))
         GROUP BY a.prompt_id, d.boot_id",
        params![session, holder.seq.0, boot, boot_ns, wall],
    )?;
    let mut early: Vec<EarlyCall> = Vec::new();
    for (turn, at) in rows {
        let call = EarlyCall { turn, at };
        match early.iter_mut().find(|known| known.turn == call.turn) {
            Some(known) if call.at.is_before(&known.at) => known.at = call.at,
            Some(_) => {}
            None => early.push(call),
        }
    }
    Ok(early)
}

/// Answers that are stored as activities.
fn spare_answers(db: &Connection, session: SessionRow) -> Result<Vec<TurnResponse>, StoreError> {
    let rows: Vec<(EventId, Option<PromptId>, Order)> = db.all(
        "SELECT a.event_id, a.prompt_id, d.boot_id, d.boot_ns, d.captured_at
         FROM activities a JOIN deliveries d ON d.event_id = a.event_id
         WHERE a.session = ?1 AND a.kind = 'other' AND a.tool_name = 'Stop' AND length(a.input) > 0 ORDER BY a.id",
        params![session],
    )?;
    Ok(rows.into_iter().map(|(event, prompt, at)| TurnResponse { event, at, prompt }).collect())
}

/// Returns turns that have activity but no prompt, and when they began.
fn turns_seen(db: &Connection, session: SessionRow) -> Result<Vec<TurnSeen>, StoreError> {
    let rows: Vec<(PromptId, Order)> = db.all(
        "WITH seen (turn, event) AS (
            SELECT prompt_id, ifnull(part_of, event_id) FROM activities WHERE session = ?1
            UNION ALL SELECT a.prompt_id, a.event_id FROM asides a JOIN prompt_batches b ON b.id =
            a.batch WHERE b.session = ?1
            UNION ALL SELECT response_turn, response_event FROM prompt_batches WHERE session = ?1
            UNION ALL SELECT prompt_id, event_id FROM subagents WHERE session = ?1
            UNION ALL SELECT prompt_id, event_id FROM compactions WHERE session = ?1
            UNION ALL SELECT end_prompt_id, end_event FROM compactions WHERE session = ?1)
         SELECT turn, boot_id, min(boot_ns), captured_at FROM seen JOIN deliveries ON event_id = event
         WHERE turn IS NOT NULL AND (
            turn NOT IN (SELECT asked_in FROM prompt_batches WHERE session = ?1 AND asked_in = prompt_id)
            OR turn IN (SELECT prompt_id FROM prompt_batches WHERE session = ?1 AND asked_in <> prompt_id))
         GROUP BY turn, boot_id",
        params![session],
    )?;
    let mut first: Vec<TurnSeen> = Vec::new();
    for (turn, at) in rows {
        let seen = TurnSeen { turn, at };
        match first.iter_mut().find(|known| known.turn == seen.turn) {
            Some(known) if seen.at.is_before(&known.at) => known.at = seen.at,
            Some(_) => {}
            None => first.push(seen),
        }
    }
    Ok(first)
}

/// Returns when the session's latest event was captured: the latest event of the latest boot.
fn latest_order(db: &Connection, session: SessionRow) -> Result<Option<Order>, StoreError> {
    db.first(
        "SELECT boot_id, boot_ns, captured_at FROM deliveries WHERE session = ?1
         ORDER BY boot_id = (SELECT boot_id FROM deliveries WHERE session = ?1 ORDER BY captured_at
         DESC LIMIT 1) DESC,
                  boot_ns DESC LIMIT 1",
        params![session],
    )
}

/// When an event was captured.
pub(crate) fn order_of(db: &Connection, event: EventId) -> Result<Option<Order>, StoreError> {
    db.first("SELECT boot_id, boot_ns, captured_at FROM deliveries WHERE event_id = ?1", [event.0])
}

/// Returns items that were injected into a session since its last compaction.
fn injected(db: &Connection, session: SessionRow) -> Result<InjectedSet, StoreError> {
    // The caller of a subagent has not read the subagent's context.
    const SINCE: &str = "i.session = ?1 AND i.moment <> 'subagent'
        AND i.id >= ifnull((SELECT max(id) FROM injections WHERE session = ?1 AND moment = 'compact'), 0)
        AND i.at >= ifnull((SELECT max(started_at) FROM compactions WHERE session = ?1 AND ended_at IS NOT NULL), 0)";
    let items: Vec<(Option<String>, Option<i64>, Option<String>)> = db.all(
        &format!(
            "SELECT DISTINCT json_extract(item.value, '$.kind'), json_extract(item.value, '$.id'),
                    json_quote(json_extract(item.value, '$.extent'))
             FROM injections i, json_each(iif(json_valid(i.items), i.items, '[]')) item WHERE {SINCE}"
        ),
        params![session],
    )?;
    let files: Vec<String> = db.all(
        &format!("SELECT DISTINCT i.file FROM injections i WHERE i.file IS NOT NULL AND {SINCE}"),
        params![session],
    )?;
    let items = items.iter().filter_map(|(kind, row, extent)| {
        let extent: Option<InjectedExtent> =
            extent.as_deref().and_then(|extent| serde_json::from_str(extent).ok());
        let document = DocumentKey { kind: DocumentKind::parse(kind.as_deref()?)?, row: (*row)? };
        Some((document, extent.unwrap_or_default()))
    });
    let given = InjectedSet::of_items(items, None);
    Ok(InjectedSet { files: files.into_iter().collect(), ..given })
}
