//! Plans and task lists: one row for each file of a session, rewritten as the plan evolves.

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::StoreError;
use super::effects::EffectContext;
use super::known::order_of;
use super::operation::{WriteContext, log};
use super::text::{Packed, Unpacked};
use crate::memory::ids::{BatchId, PlanId, PromptId, SessionRow, Timestamp};
use crate::memory::order::Order;
use crate::memory::plan::{self, PlanReference, PlanState};
use crate::memory::session::Seq;
use crate::memory::task_list::{TaskChange, TaskList};

/// A plan as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRow {
    pub id: PlanId,
    pub session: SessionRow,
    /// `plan` or `tasks`.
    pub kind: String,
    /// Absent for a plan without a file.
    pub path: Option<String>,
    pub title: String,
    pub text: String,
    /// `draft` or `approved`.
    pub state: String,
    /// The numbers of the prompts whose batches made it or carry it out.
    pub prompt_numbers: Vec<u32>,
    pub created_at: Timestamp,
    pub updated_at: Timestamp,
}

const COLUMNS: &str = "id, session, kind, path, title, text, state, created_at, updated_at,
    (SELECT json_group_array(n) FROM (SELECT DISTINCT b.prompt_number n FROM plan_batches l
        JOIN prompt_batches b ON b.id = l.batch WHERE l.plan = plans.id ORDER BY n)) FROM plans";

fn read(row: &Row<'_>) -> rusqlite::Result<PlanRow> {
    let numbers: String = row.get(9)?;
    Ok(PlanRow {
        id: PlanId(row.get(0)?),
        session: SessionRow(row.get(1)?),
        kind: row.get(2)?,
        path: Some(row.get(3)?).filter(|path: &String| !path.is_empty()),
        title: row.get(4)?,
        text: row.get::<_, Unpacked>(5)?.0,
        state: row.get(6)?,
        prompt_numbers: serde_json::from_str(&numbers).unwrap_or_default(),
        created_at: Timestamp(row.get(7)?),
        updated_at: Timestamp(row.get(8)?),
    })
}

/// A session's plans and its task list, those that were changed last first.
///
/// # Errors
/// When the database refuses.
pub fn plans_of_session(db: &Connection, session: SessionRow) -> Result<Vec<PlanRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} WHERE session = ?1 ORDER BY updated_at DESC, id DESC");
    let mut statement = db.prepare_cached(&sql)?;
    Ok(statement.query_map([session.0], read)?.collect::<Result<_, _>>()?)
}

/// # Errors
/// When the database refuses.
pub fn plan(db: &Connection, id: PlanId) -> Result<Option<PlanRow>, StoreError> {
    let sql = format!("SELECT {COLUMNS} WHERE id = ?1");
    Ok(db.prepare_cached(&sql)?.query_row([id.0], read).optional()?)
}

/// Keeps what a file or an approval says. What is older than what is known changes nothing but the state.
pub(super) fn keep(
    scene: &EffectContext<'_>,
    (seq, prompt): (Option<Seq>, Option<&PromptId>),
    path: Option<&str>,
    text: Option<&str>,
    state: PlanState,
) -> Result<(), StoreError> {
    let path = path.unwrap_or_default();
    if let Some(text) = text {
        write(scene, seq, ("plan", path), text)?;
    }
    if state == PlanState::Approved && path.is_empty() && text.is_none() {
        // What was approved is not said: it is what was written last.
        let Some(plan) = last_written(scene.db, scene.session(), scene.at)? else { return Ok(()) };
        approve(scene.db, plan)?;
        return tie(scene, (seq, prompt), plan);
    }
    let Some(plan) = row_of(scene, ("plan", path))? else { return Ok(()) };
    if state == PlanState::Approved {
        approve(scene.db, plan)?;
    }
    tie(scene, (seq, prompt), plan)?;
    carry_out_anew(scene)
}

fn approve(db: &Connection, plan: i64) -> Result<(), StoreError> {
    db.prepare_cached("UPDATE plans SET state = 'approved' WHERE id = ?1 AND state <> 'approved'")?
        .execute([plan])?;
    Ok(())
}

fn row_of(scene: &EffectContext<'_>, (kind, path): (&str, &str)) -> Result<Option<i64>, StoreError> {
    let mut find =
        scene.db.prepare_cached("SELECT id FROM plans WHERE session = ?1 AND kind = ?2 AND path = ?3")?;
    Ok(find.query_row(params![scene.session(), kind, path], |row| row.get(0)).optional()?)
}

/// The plan of a session that was written last until a moment; approving one is writing it. What a prompt that carries
/// one out says is no writing.
const WRITTEN: &str = "SELECT l.plan, max(d.captured_at) AS at FROM plan_batches l
    JOIN deliveries d ON d.event_id = l.event_id JOIN plans p ON p.id = l.plan
    JOIN prompt_batches b ON b.id = l.batch JOIN sessions s ON s.id = p.session
    WHERE p.kind = 'plan' AND d.captured_at <= ?2 AND (l.event_id IS NOT b.prompt_event OR l.event_id IS p.event_id)";

fn last_written(db: &Connection, session: i64, until: Timestamp) -> Result<Option<i64>, StoreError> {
    let sql = format!("{WRITTEN} AND p.session = ?1 GROUP BY l.plan ORDER BY at DESC, l.plan DESC LIMIT 1");
    Ok(db.prepare_cached(&sql)?.query_row(params![session, until.0], |row| row.get(0)).optional()?)
}

/// The same of other sessions of the project, of those that were approved.
fn last_approved(db: &Connection, project: i64, until: Timestamp) -> Result<Option<i64>, StoreError> {
    let sql = format!(
        "{WRITTEN} AND s.project = ?1 AND p.state = 'approved' GROUP BY l.plan ORDER BY at DESC, l.plan DESC LIMIT 1"
    );
    Ok(db.prepare_cached(&sql)?.query_row(params![project, until.0], |row| row.get(0)).optional()?)
}

/// A plan that is heard of late may be the one that later prompts meant.
fn carry_out_anew(scene: &EffectContext<'_>) -> Result<(), StoreError> {
    let mut find = scene.db.prepare_cached(
        "SELECT id, prompt, prompt_event, opened_at FROM prompt_batches
         WHERE session = ?1 AND source IN ('plan', 'queued') AND prompt IS NOT NULL AND opened_at > ?2",
    )?;
    let mut rows = find.query(params![scene.session(), scene.at.0])?;
    while let Some(row) = rows.next()? {
        let (batch, text, event): (i64, Unpacked, Vec<u8>) = (row.get(0)?, row.get(1)?, row.get(2)?);
        if plan::reference(&text.0, &[]) == Some(PlanReference::Last) {
            scene
                .db
                .prepare_cached("DELETE FROM plan_batches WHERE batch = ?1 AND event_id = ?2")?
                .execute(params![batch, event])?;
            carry_out_last(scene, BatchId(batch), &event, Timestamp(row.get(3)?))?;
        }
    }
    Ok(())
}

/// Ties a batch to the plan that was made last before its prompt: the session's own, else one of the project's that was
/// approved.
fn carry_out_last(
    scene: &EffectContext<'_>,
    batch: BatchId,
    event: &[u8],
    at: Timestamp,
) -> Result<(), StoreError> {
    let plan = match last_written(scene.db, scene.session(), at)? {
        Some(plan) => Some(plan),
        None => last_approved(scene.db, scene.stored.project.0, at)?,
    };
    let Some(plan) = plan else { return Ok(()) };
    scene
        .db
        .prepare_cached("INSERT OR IGNORE INTO plan_batches (plan, batch, event_id) VALUES (?1, ?2, ?3)")?
        .execute(params![plan, batch.0, event])?;
    Ok(())
}

/// Keeps what was told of the session's task list.
pub(super) fn keep_tasks(
    scene: &EffectContext<'_>,
    (seq, prompt): (Option<Seq>, Option<&PromptId>),
    change: &TaskChange,
) -> Result<(), StoreError> {
    let Some(at) = scene.event.map(|event| order_of(scene.db, event)).transpose()?.flatten() else {
        return Ok(());
    };
    let mut list = task_list(scene)?;
    list.take(change, at);
    write(scene, seq, ("tasks", ""), &list.text())?;
    scene
        .db
        .prepare_cached("UPDATE plans SET tasks = ?2 WHERE session = ?1 AND kind = 'tasks' AND path = ''")?
        .execute(params![scene.session(), serde_json::to_string(&list)?])?;
    row_of(scene, ("tasks", ""))?.map_or(Ok(()), |row| tie(scene, (seq, prompt), row))
}

fn task_list(scene: &EffectContext<'_>) -> Result<TaskList, StoreError> {
    let mut find = scene.db.prepare_cached(
        "SELECT tasks, text, updated_at FROM plans WHERE session = ?1 AND kind = 'tasks' AND path = ''",
    )?;
    let known = find
        .query_row([scene.session()], |row| {
            Ok((row.get::<_, Option<String>>(0)?, row.get::<_, Unpacked>(1)?.0, Timestamp(row.get(2)?)))
        })
        .optional()?;
    Ok(match known {
        Some((Some(tasks), ..)) => serde_json::from_str(&tasks)?,
        // Kept before all news of it were.
        Some((None, text, at)) => TaskList::of_text(&text, Order { wall: at, ..Order::default() }),
        None => TaskList::default(),
    })
}

fn write(
    scene: &EffectContext<'_>,
    seq: Option<Seq>,
    (kind, path): (&str, &str),
    text: &str,
) -> Result<(), StoreError> {
    let title = if kind == "tasks" { "Task list".to_owned() } else { plan::title(text) };
    let batch = scene.batch_row(seq)?;
    // News of the task list counts whenever it comes; a whole text only if it is the newest.
    let row = scene
        .db
        .prepare_cached(
            "INSERT INTO plans (session, batch, kind, path, title, text, state, event_id, created_at, updated_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, 'draft', ?7, ?8, ?8)
             ON CONFLICT (session, kind, path) DO UPDATE SET title = excluded.title, text = excluded.text,
                    batch = iif(updated_at > excluded.updated_at, batch, excluded.batch),
                    event_id = iif(updated_at > excluded.updated_at, event_id, excluded.event_id),
                    updated_at = max(updated_at, excluded.updated_at)
             WHERE kind = 'tasks' OR updated_at <= excluded.updated_at RETURNING id",
        )?
        .query_row(
            params![
                scene.session(),
                batch,
                kind,
                path,
                title,
                Packed(text),
                scene.event.map(|event| event.0),
                scene.at.0
            ],
            |row| row.get::<_, i64>(0),
        )
        .optional()?;
    row.map_or(Ok(()), |row| log(scene.db, "plan", row))
}

/// Says that a batch works on a plan of its session.
fn tie(
    scene: &EffectContext<'_>,
    (seq, prompt): (Option<Seq>, Option<&PromptId>),
    plan: i64,
) -> Result<(), StoreError> {
    let Some(batch) = scene.batch_row(seq)? else { return Ok(()) };
    let event = scene.event.map(|event| event.0.to_vec()).unwrap_or_default();
    scene
        .db
        .prepare_cached(
            "INSERT OR IGNORE INTO plan_batches (plan, batch, event_id, prompt_id) VALUES (?1, ?2, ?3, ?4)",
        )?
        .execute(params![plan, batch, event, prompt.map(PromptId::as_str)])?;
    Ok(())
}

/// Ties a batch to the plan that its prompt names, which another session of the project may have made.
pub(super) fn carry_out(
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
    scene
        .db
        .prepare_cached(
            "INSERT OR IGNORE INTO plan_batches (plan, batch, event_id)
             SELECT p.id, ?3, ?6 FROM plans p JOIN sessions s ON s.id = p.session
             WHERE s.project = ?1 AND p.path <> ''
               AND (p.path = ?2 OR substr(p.path, -length(?5) - 1) = '/' || ?5)
             ORDER BY s.id = ?4 DESC, p.updated_at DESC LIMIT 1",
        )?
        .execute(params![scene.stored.project.0, path, batch.0, scene.session(), tail, event])?;
    Ok(())
}

/// Forgets plans that a batch which turned private has written. What names another turn is not its own.
pub(super) fn hide(db: &WriteContext<'_>, batch: BatchId) -> Result<(), StoreError> {
    let mut gone = db.prepare_cached(
        "DELETE FROM plans WHERE batch = ?1 AND NOT EXISTS (
            SELECT 1 FROM plan_batches l JOIN prompt_batches b ON b.id = l.batch
            WHERE l.plan = plans.id AND l.event_id = plans.event_id AND l.prompt_id <> b.prompt_id) RETURNING id",
    )?;
    let gone = gone.query_map([batch.0], |row| row.get::<_, i64>(0))?.collect::<Result<Vec<_>, _>>()?;
    gone.into_iter().try_for_each(|row| log(db, "plan", row))
}
