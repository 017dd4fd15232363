//! Plans and task lists: one row per file of a session, updated as the plan changes.

use rusqlite::Connection;

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::database::text::Packed;
use crate::operation::{WriteContext, log, log_mark};
use crate::sessions::effect_context::{EffectContext, TurnOf};
use crate::sessions::known::order_of;
use crate::{Reader, StoreError, sharing};
use recall_domain::ids::{BatchId, PlanId, ProjectRow, SessionRow, Timestamp};
use recall_domain::order::Order;
use recall_domain::plan::{self, PlanKind, PlanReference, PlanStage, PlanState};
use recall_domain::session::Seq;
use recall_domain::task_list::{TaskChange, TaskList};

record! {
/// A stored plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRow from "plans" {
    pub id: PlanId = "id",
    /// `None` for a plan of another machine's session.
    pub session: Option<SessionRow> = "session",
    /// The person and machine that made it, if not this machine.
    pub author: Option<String> = "author",
    pub device: Option<String> = "device",
    /// The project of another machine's plan.
    pub shared_project: Option<ProjectRow> = "(SELECT h.project FROM shares h WHERE h.id = plans.share)",
    pub kind: PlanKind = "kind",
    /// `None` for a plan without a file.
    pub path: Option<String> = "nullif(path, '')",
    pub title: String = "title",
    pub text: String = "text",
    pub stage: PlanStage = "state",
    /// The prompt numbers of the batches that wrote the plan or carry it out.
    pub prompt_numbers: Vec<u32> = "(SELECT json_group_array(n) FROM (
        SELECT DISTINCT b.prompt_number n FROM plan_batches l JOIN prompt_batches b ON b.id = l.batch
        WHERE l.plan = plans.id ORDER BY n))",
    pub created_at: Timestamp = "created_at",
    pub updated_at: Timestamp = "updated_at",
}
}

impl Reader<'_> {
    /// The plans and the task list of a session, last changed first.
    pub fn plans_of_session(self, session: SessionRow) -> Result<Vec<PlanRow>, StoreError> {
        let sql = format!("{} WHERE session = ?1 ORDER BY updated_at DESC, id DESC", PlanRow::SELECT);
        self.0.all(&sql, params![session])
    }

    pub fn plan(self, id: PlanId) -> Result<Option<PlanRow>, StoreError> {
        self.0.first(&format!("{} WHERE id = ?1", PlanRow::SELECT), params![id])
    }
}

/// Stores the contents of a file or an approval. If it is older than the stored plan, only the state changes.
pub(crate) fn keep(
    scene: &EffectContext<'_>,
    turn: TurnOf<'_>,
    path: Option<&str>,
    text: Option<&str>,
    state: PlanState,
) -> Result<(), StoreError> {
    let path = path.unwrap_or_default();
    let (state, text) = match state {
        PlanState::ApprovedEarlier if row_of(scene, PlanKind::Plan, path)?.is_some() => {
            (PlanState::Approved, None)
        }
        PlanState::ApprovedEarlier => (PlanState::Approved, text),
        PlanState::Draft | PlanState::Approved => (state, text),
    };
    if let Some(text) = text {
        write(scene, turn.seq, PlanKind::Plan, path, text)?;
    }
    if state == PlanState::Approved && path.is_empty() && text.is_none() {
        // An approval without text approves the last written text.
        let Some(plan) = last_written(scene.db, scene.session(), scene.at)? else { return Ok(()) };
        approve(scene.db, plan)?;
        return tie(scene, turn, plan);
    }
    let Some(plan) = row_of(scene, PlanKind::Plan, path)? else { return Ok(()) };
    if state == PlanState::Approved {
        approve(scene.db, plan)?;
    }
    tie(scene, turn, plan)?;
    relink_later_prompts(scene)
}

fn approve(db: &WriteContext<'_>, plan: PlanId) -> Result<(), StoreError> {
    db.run("UPDATE plans SET state = 'approved' WHERE id = ?1 AND state <> 'approved'", params![plan])?;
    // An approved plan may be shared.
    log_mark(db, plan.into());
    Ok(())
}

fn row_of(scene: &EffectContext<'_>, kind: PlanKind, path: &str) -> Result<Option<PlanId>, StoreError> {
    scene.db.first(
        "SELECT id FROM plans WHERE session = ?1 AND kind = ?2 AND path = ?3",
        params![scene.session(), kind.as_str(), path],
    )
}

/// Selects the session's plan that was last written or approved before a time. A prompt that carries out a plan does
/// not count as writing.
const WRITTEN: &str = "SELECT l.plan, max(d.captured_at) AS at FROM plan_batches l
    JOIN deliveries d ON d.event_id = l.event_id JOIN plans p ON p.id = l.plan
    JOIN prompt_batches b ON b.id = l.batch JOIN sessions s ON s.id = p.session
    WHERE p.kind = 'plan' AND d.captured_at <= ?2 AND (l.event_id IS NOT b.prompt_event OR l.event_id IS p.event_id)";

fn last_written(
    db: &Connection,
    session: SessionRow,
    until: Timestamp,
) -> Result<Option<PlanId>, StoreError> {
    let sql = format!("{WRITTEN} AND p.session = ?1 GROUP BY l.plan ORDER BY at DESC, l.plan DESC LIMIT 1");
    db.first(&sql, params![session, until.0])
}

/// Returns the approved plan of the project's sessions that was last written before a time.
fn last_approved(
    db: &Connection,
    project: ProjectRow,
    until: Timestamp,
) -> Result<Option<PlanId>, StoreError> {
    let sql = format!(
        "{WRITTEN} AND s.project = ?1 AND p.state = 'approved' GROUP BY l.plan ORDER BY at DESC, l.plan
                 DESC LIMIT 1"
    );
    db.first(&sql, params![project, until.0])
}

/// Relinks later prompts when a plan arrives late, because they may have meant this plan.
fn relink_later_prompts(scene: &EffectContext<'_>) -> Result<(), StoreError> {
    type Later = (BatchId, String, Vec<u8>, Timestamp);
    let later = "SELECT id, prompt, prompt_event, opened_at FROM prompt_batches
         WHERE session = ?1 AND source IN ('plan', 'queued') AND prompt IS NOT NULL AND opened_at > ?2";
    scene.db.try_each(later, params![scene.session(), scene.at.0], |(batch, text, event, at): Later| {
        if plan::reference(&text, &[], scene.conventions.plan_prompts) == Some(PlanReference::Last) {
            scene
                .db
                .run("DELETE FROM plan_batches WHERE batch = ?1 AND event_id = ?2", params![batch, event])?;
            carry_out_last(scene, batch, &event, at)?;
        }
        Ok(())
    })
}

/// Links a batch to the latest plan before its prompt: a plan of its session or else an approved plan of the project.
fn carry_out_last(
    scene: &EffectContext<'_>,
    batch: BatchId,
    event: &[u8],
    at: Timestamp,
) -> Result<(), StoreError> {
    let plan = match last_written(scene.db, scene.session(), at)? {
        Some(plan) => Some(plan),
        None => last_approved(scene.db, scene.stored.project, at)?,
    };
    let Some(plan) = plan else { return Ok(()) };
    scene.db.run(
        "INSERT OR IGNORE INTO plan_batches (plan, batch, event_id) VALUES (?1, ?2, ?3)",
        params![plan, batch.0, event],
    )
}

/// Stores a change of the session's task list.
pub(crate) fn keep_tasks(
    scene: &EffectContext<'_>,
    turn: TurnOf<'_>,
    change: &TaskChange,
) -> Result<(), StoreError> {
    let Some(at) = scene.event.map(|event| order_of(scene.db, event)).transpose()?.flatten() else {
        return Ok(());
    };
    let mut list = task_list(scene)?;
    list.take(change, at);
    write(scene, turn.seq, PlanKind::Tasks, "", &list.text())?;
    scene.db.run(
        "UPDATE plans SET tasks = ?2 WHERE session = ?1 AND kind = 'tasks' AND path = ''",
        params![scene.session(), serde_json::to_string(&list)?],
    )?;
    row_of(scene, PlanKind::Tasks, "")?.map_or(Ok(()), |row| tie(scene, turn, row))
}

fn task_list(scene: &EffectContext<'_>) -> Result<TaskList, StoreError> {
    let known: Option<(Option<String>, String, Timestamp)> = scene.db.first(
        "SELECT tasks, text, updated_at FROM plans WHERE session = ?1 AND kind = 'tasks' AND path = ''",
        params![scene.session()],
    )?;
    Ok(match known {
        Some((Some(tasks), ..)) => serde_json::from_str(&tasks).unwrap_or_default(),
        // The row was stored before order was recorded.
        Some((None, text, at)) => TaskList::of_text(&text, Order { wall: at, ..Order::default() }),
        None => TaskList::default(),
    })
}

fn write(
    scene: &EffectContext<'_>,
    seq: Option<Seq>,
    kind: PlanKind,
    path: &str,
    text: &str,
) -> Result<(), StoreError> {
    let title = if kind == PlanKind::Tasks { "Task list".to_owned() } else { plan::title(text) };
    if kind == PlanKind::Plan {
        sharing::claim_plan(scene.db, scene.session(), path)?;
    }
    let batch = scene.batch_row(seq)?;
    // A task change counts whenever it arrives; a whole text counts only if it is the newest.
    let row: Option<PlanId> = scene.db.first(
        "INSERT INTO plans (session, batch, kind, path, title, text, state, event_id, created_at,
                     updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'draft', ?7, ?8, ?8)
             ON CONFLICT (session, kind, path) DO UPDATE SET title = excluded.title, text = excluded.text,
                    batch = iif(updated_at > excluded.updated_at, batch, excluded.batch),
                    event_id = iif(updated_at > excluded.updated_at, event_id, excluded.event_id),
                    updated_at = max(updated_at, excluded.updated_at)
             WHERE kind = 'tasks' OR updated_at <= excluded.updated_at RETURNING id",
        params![
            scene.session(),
            batch,
            kind.as_str(),
            path,
            title,
            Packed(text),
            scene.event.map(|event| event.0),
            scene.at
        ],
    )?;
    row.map_or(Ok(()), |row| log(scene.db, row))
}

/// Links a batch to a plan of its session.
fn tie(scene: &EffectContext<'_>, turn: TurnOf<'_>, plan: PlanId) -> Result<(), StoreError> {
    let Some(batch) = scene.batch_row(turn.seq)? else { return Ok(()) };
    let event = scene.event.map(|event| event.0.to_vec()).unwrap_or_default();
    scene.db.run(
        "INSERT OR IGNORE INTO plan_batches (plan, batch, event_id, prompt_id) VALUES (?1, ?2, ?3, ?4)",
        params![plan, batch, event, turn.prompt],
    )
}

/// Links a batch to the plan that its prompt names. Another session of the project may have written it.
pub(crate) fn carry_out(
    scene: &EffectContext<'_>,
    seq: Seq,
    reference: &PlanReference,
) -> Result<(), StoreError> {
    let batch = scene.batch(seq)?;
    let event = scene.event.map(|event| event.0.to_vec()).unwrap_or_default();
    let path = match reference {
        PlanReference::File(path) => path,
        PlanReference::Last => return carry_out_last(scene, batch, &event, scene.at),
        PlanReference::Text(_) => return Ok(()),
    };
    let tail = path.trim_start_matches("~/").trim_start_matches("./").trim_start_matches('/');
    scene.db.run(
        "INSERT OR IGNORE INTO plan_batches (plan, batch, event_id)
             SELECT p.id, ?3, ?6 FROM plans p JOIN sessions s ON s.id = p.session
             WHERE s.project = ?1 AND p.path <> ''
               AND (p.path = ?2 OR substr(p.path, -length(?5) - 1) = '/' || ?5)
             ORDER BY s.id = ?4 DESC, p.updated_at DESC LIMIT 1",
        params![scene.stored.project.0, path, batch.0, scene.session(), tail, event],
    )
}

/// Removes plans that a batch wrote before it became private, except those that it only refers to.
pub(crate) fn hide(db: &WriteContext<'_>, batch: BatchId) -> Result<(), StoreError> {
    let gone: Vec<PlanId> = db.all(
        "DELETE FROM plans WHERE batch = ?1 AND NOT EXISTS (
            SELECT 1 FROM plan_batches l JOIN prompt_batches b ON b.id = l.batch
            WHERE l.plan = plans.id AND l.event_id = plans.event_id AND l.prompt_id <> b.prompt_id) RETURNING id",
        params![batch],
    )?;
    gone.into_iter().try_for_each(|plan| log(db, plan))
}
