//! Rearranges batches when a prompt arrives late, and keeps what a late prompt may need.

use std::collections::{BTreeSet, HashMap};

use rusqlite::Connection;

use crate::database::bind::params;
use crate::database::row::Sql;
use crate::database::text::Packed;
use crate::jobs::job_kind::JobKind;
use crate::jobs::queue;
use crate::operation::{WriteContext, log};
use crate::sessions::effect_context::EffectContext;
use crate::{StoreError, forgetting};
use recall_domain::document::DocumentKey;
use recall_domain::ids::{ActivityId, BatchId, CompactionId, EventId, PromptId, SessionRow, Timestamp};
use recall_domain::material::BatchSource;
use recall_domain::order::Order;
use recall_domain::plan;
use recall_domain::session::{NewPrompt, Period, Seq};

/// A table whose rows belong to a batch by time.
struct Movable {
    table: &'static str,
    /// The event that provides the time.
    event: &'static str,
    /// Whether the event is a call with its own row.
    is_call: &'static str,
}

const MOVABLE: [Movable; 5] = [
    Movable {
        table: "activities",
        event: "ifnull(t.part_of, t.event_id)",
        is_call: "t.kind = 'tool' AND t.part_of IS NULL",
    },
    Movable { table: "asides", event: "t.event_id", is_call: "FALSE" },
    Movable { table: "subagents", event: "t.event_id", is_call: "FALSE" },
    Movable { table: "compactions", event: "t.event_id", is_call: "FALSE" },
    // A prompt's own reference to a plan stays with the prompt.
    Movable {
        table: "plan_batches",
        event: "iif(t.event_id IS b.prompt_event, NULL, t.event_id)",
        is_call: "EXISTS (SELECT 1 FROM activities a WHERE a.event_id = t.event_id AND a.kind = 'tool')",
    },
];

/// Reassigns everything in the batches of these periods. Closed batches that lost or gained something are
/// recompressed.
pub(crate) fn rearrange(
    scene: &EffectContext<'_>,
    periods: &[Period],
    among: &[Seq],
    hidden: &[Seq],
) -> Result<(), StoreError> {
    let db = scene.db;
    let mut rows: HashMap<Seq, BatchId> = HashMap::new();
    for period in periods {
        rows.insert(period.seq, scene.batch(period.seq)?);
    }
    let mut touched = BTreeSet::new();
    for batch in among.iter().filter_map(|seq| rows.get(seq)) {
        for movable in MOVABLE {
            let sql = format!("UPDATE OR REPLACE {} SET batch = ?2 WHERE rowid = ?1", movable.table);
            for (row, to) in misplaced(db, &movable, *batch, periods, &rows)? {
                db.run(&sql, params![row, to])?;
                touched.extend([*batch, to]);
            }
        }
    }
    for batch in &touched {
        compress_again(scene, *batch)?;
    }
    for batch in among.iter().filter_map(|seq| rows.get(seq)) {
        follow_plans(scene, *batch)?;
    }
    for batch in hidden.iter().filter_map(|seq| rows.get(seq)) {
        hide(scene, *batch)?;
    }
    Ok(())
}

/// Returns the rows of a batch that belong to another batch, each with that batch.
fn misplaced(
    db: &Connection,
    movable: &Movable,
    batch: BatchId,
    periods: &[Period],
    rows: &HashMap<Seq, BatchId>,
) -> Result<Vec<(i64, BatchId)>, StoreError> {
    let Movable { table, event, is_call } = movable;
    let found: Vec<(i64, Option<PromptId>, Order, bool)> = db.all(
        &format!(
            "SELECT t.rowid, t.prompt_id, d.boot_id, d.boot_ns, d.captured_at, {is_call}
         FROM {table} t JOIN prompt_batches b ON b.id = t.batch JOIN deliveries d ON d.event_id = {event}
         WHERE t.batch = ?1"
        ),
        params![batch],
    )?;
    let mut misplaced = Vec::new();
    for (row, turn, at, is_call) in found {
        let seat = match is_call {
            true => Period::seat_of_call(periods, turn.as_ref(), &at),
            false => Period::seat(periods, turn.as_ref(), &at),
        };
        let seat = seat.and_then(|seq| rows.get(&seq).copied());
        misplaced.extend(seat.filter(|seat| *seat != batch).map(|seat| (row, seat)));
    }
    Ok(misplaced)
}

/// Links or unlinks a batch's plan, because its contents decide whether it works on one.
fn follow_plans(scene: &EffectContext<'_>, batch: BatchId) -> Result<(), StoreError> {
    let db = scene.db;
    db.run(
        "UPDATE plans SET batch = ?1 WHERE EXISTS (
            SELECT 1 FROM plan_batches l WHERE l.plan = plans.id AND l.batch = ?1 AND l.event_id = plans.event_id)",
        params![batch],
    )?;
    let found: Option<(Option<String>, bool)> = db.first(
        "SELECT prompt, EXISTS (SELECT 1 FROM plan_batches l JOIN plans p ON p.id = l.plan
                                WHERE l.batch = ?1 AND p.kind = 'plan')
         FROM prompt_batches WHERE id = ?1 AND source IN ('user', 'plan')",
        params![batch],
    )?;
    let Some((prompt, is_tied)) = found else { return Ok(()) };
    // A prompt that asks for the plan counts whether the plan is known or not.
    let beginnings = scene.conventions.plan_prompts;
    let asks = || prompt.is_some_and(|text| plan::reference(&text, &[], beginnings).is_some());
    let source = if is_tied || asks() { BatchSource::Plan } else { BatchSource::User };
    db.run("UPDATE prompt_batches SET source = ?2 WHERE id = ?1", params![batch, source.as_str()])
}

fn compress_again(scene: &EffectContext<'_>, batch: BatchId) -> Result<(), StoreError> {
    match scene.db.one(
        "SELECT EXISTS (SELECT 1 FROM prompt_batches WHERE id = ?1 AND status = 'closed'
             AND source <> 'private')",
        [batch.0],
    )? {
        true => queue::enqueue(scene.db, JobKind::Batch, scene.session(), Some(batch), scene.at),
        false => Ok(()),
    }
}

/// Keeps the answer that another turn's answer is about to replace, because its prompt may still arrive.
pub(crate) fn keep_replaced_answer(
    db: &Connection,
    batch: BatchId,
    by: Option<&PromptId>,
) -> Result<(), StoreError> {
    db.run(
        "INSERT INTO activities (session, batch, event_id, kind, tool_name, prompt_id, failed, input, at)
         SELECT b.session, b.id, b.response_event, 'other', 'Stop', b.response_turn, 0, b.response,
         d.captured_at
         FROM prompt_batches b JOIN deliveries d ON d.event_id = b.response_event
         WHERE b.id = ?1 AND b.response IS NOT NULL AND (?2 IS NULL OR b.response_turn IS NOT ?2)
         ON CONFLICT (event_id) DO NOTHING",
        params![batch.0, by.map(PromptId::as_str)],
    )
}

/// Sets the number of a batch's prompt among the session's prompts.
pub(crate) fn renumber(
    db: &Connection,
    session: SessionRow,
    batch: BatchId,
    number: u32,
) -> Result<(), StoreError> {
    db.run("UPDATE prompt_batches SET prompt_number = ?2 WHERE id = ?1", params![batch.0, number])?;
    db.run("UPDATE sessions SET prompts = max(prompts, ?2) WHERE id = ?1", params![session, number])
}

/// Turns the batch's answer into an activity, because it belongs to another turn.
pub(crate) fn set_aside(db: &WriteContext<'_>, batch: BatchId) -> Result<(), StoreError> {
    keep_replaced_answer(db, batch, None)?;
    db.run(
        "UPDATE prompt_batches SET response = NULL, response_event = NULL, response_turn = NULL
             WHERE id = ?1",
        [batch.0],
    )?;
    log(db, DocumentKey::response(batch))
}

/// Gives a batch an answer that was stored as an activity, unless it was forgotten.
pub(crate) fn take_answer(db: &WriteContext<'_>, batch: BatchId, event: EventId) -> Result<(), StoreError> {
    let kept: Option<(String, Option<String>)> = db
        .first("SELECT input, prompt_id FROM activities WHERE event_id = ?1 AND kind = 'other'", [event.0])?;
    let Some((text, turn)) = kept else { return Ok(()) };
    db.run(
        "UPDATE prompt_batches SET response = ?2, response_event = ?3, response_turn = ?4 WHERE id = ?1",
        params![batch.0, Packed(&text), event.0, turn],
    )?;
    drop_answer(db, event)?;
    log(db, DocumentKey::response(batch))
}

pub(crate) fn drop_answer(db: &Connection, event: EventId) -> Result<(), StoreError> {
    db.run("DELETE FROM activities WHERE event_id = ?1 AND tool_name = 'Stop' AND kind <> 'tool'", [event.0])
}

pub(crate) fn share_answer(db: &WriteContext<'_>, from: BatchId, to: BatchId) -> Result<(), StoreError> {
    db.run(
        "UPDATE prompt_batches SET (response, response_event, response_turn) =
            (SELECT response, response_event, response_turn FROM prompt_batches WHERE id = ?1) WHERE id = ?2",
        [from.0, to.0],
    )?;
    log(db, DocumentKey::response(to))
}

/// The prompt that a recovery batch gets.
pub(crate) struct Adopted<'a> {
    pub(crate) number: u32,
    pub(crate) source: BatchSource,
    pub(crate) prompt_id: Option<&'a PromptId>,
    pub(crate) prompt: &'a NewPrompt,
}

/// Turns the recovery batch into the batch of a prompt that arrived after its calls.
pub(crate) fn adopt_recovery(
    db: &WriteContext<'_>,
    session: SessionRow,
    batch: BatchId,
    adopted: Adopted<'_>,
    at: Timestamp,
) -> Result<(), StoreError> {
    let Adopted { number, source, prompt_id, prompt } = adopted;
    db.run(
        "UPDATE prompt_batches SET prompt_number = ?2, source = ?3, prompt_id = ?4, prompt = ?5,
             prompt_event = ?6,
                opened_at = ?7, asked_in = ?8 WHERE id = ?1",
        params![
            batch,
            number,
            source.as_str(),
            prompt_id,
            prompt.text.as_deref().map(Packed),
            prompt.event.0,
            at,
            prompt.asked_in
        ],
    )?;
    db.run("UPDATE sessions SET prompts = max(prompts, ?2) WHERE id = ?1", params![session, number])?;
    match prompt.text {
        Some(_) => log(db, DocumentKey::prompt(batch)),
        None => Ok(()),
    }
}

/// Tables whose rows belong to a batch, except its jobs.
const PARTS: [&str; 13] = [
    "activities",
    "asides",
    "observations",
    "subagents",
    "compactions",
    "plans",
    "forgotten_observations",
    "observation_batches",
    "plan_batches",
    "lineage",
    "settlements",
    "changes",
    "failings",
];

/// Moves everything in the recovery batch to another batch of its session, and deletes it with its jobs.
pub(crate) fn merge_recovery(db: &Connection, from: BatchId, to: BatchId) -> Result<(), StoreError> {
    for table in PARTS {
        db.run(&format!("UPDATE OR REPLACE {table} SET batch = ?2 WHERE batch = ?1"), [from.0, to.0])?;
    }
    db.run("DELETE FROM prompt_batches WHERE id = ?1", [from.0])
}

/// Deletes the contents of a private batch, except those of another turn.
fn hide(scene: &EffectContext<'_>, batch: BatchId) -> Result<(), StoreError> {
    let db = scene.db;
    forgetting::withdraw(db, scene.session(), batch, scene.at)?;
    const OWN: &str =
        "batch = ?1 AND ifnull(prompt_id = (SELECT prompt_id FROM prompt_batches WHERE id = ?1), TRUE)";
    for activity in db.all::<ActivityId>(&format!("SELECT id FROM activities WHERE {OWN}"), params![batch])? {
        log(db, activity)?;
    }
    let compactions = format!("SELECT id FROM compactions WHERE summary IS NOT NULL AND {OWN}");
    for compaction in db.all::<CompactionId>(&compactions, params![batch])? {
        log(db, compaction)?;
    }
    for forget in [
        "UPDATE activities SET kind = 'private', input = NULL, response = NULL, failed = 0, changed_files = NULL",
        "UPDATE subagents SET message = NULL",
        "UPDATE compactions SET summary = NULL",
        "DELETE FROM asides",
    ] {
        db.run(&format!("{forget} WHERE {OWN}"), [batch.0])?;
    }
    crate::sessions::plans::hide(db, batch)?;
    crate::notes::file_notes::hide(db, batch)?;
    db.run(
        "UPDATE prompt_batches SET response = NULL, branch = NULL, head_commit = NULL, base_commit =
             NULL WHERE id = ?1",
        [batch.0],
    )?;
    log(db, DocumentKey::response(batch))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::empty_database;

    /// Or a merge would delete the rows of a new table with the batch.
    #[test]
    fn a_merge_covers_every_table_that_refers_to_a_batch_except_jobs() {
        let home = tempfile::tempdir().unwrap();
        let db = empty_database(home.path());
        let naming: BTreeSet<String> = db
            .all::<String>(
                "SELECT DISTINCT t.name FROM sqlite_schema t, pragma_foreign_key_list(t.name) f
                 WHERE t.type = 'table' AND f.\"table\" = 'prompt_batches' AND f.\"from\" = 'batch'",
                [],
            )
            .unwrap()
            .into_iter()
            .filter(|table| table != "jobs")
            .collect();
        assert_eq!(naming, PARTS.map(str::to_owned).into());
    }
}
