//! Stores the effects of an event as rows.

use std::collections::HashSet;

use rusqlite::Connection;

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::Sql;
use crate::database::text::Packed;
use crate::jobs::job_kind::JobKind;
use crate::jobs::queue;
use crate::operation::{WriteContext, log};
use crate::sessions::activities::{add_activity, add_aside, add_refused};
use crate::sessions::compactions::Messages;
use crate::sessions::effect_context::{EffectContext, TurnOf};
use crate::sessions::late::Adopted;
use crate::sessions::{compactions, late, lives, plans, subagents, titles};
use recall_domain::document::DocumentKey;
use recall_domain::event::MessageOrigin;
use recall_domain::guard::Rule;
use recall_domain::ids::{BatchId, CallId, EventId, PromptId, Timestamp};
use recall_domain::lifecycle::{ClosedBatch, LifecycleKind};
use recall_domain::material::BatchSource;
use recall_domain::session::{BatchState, CloseReason, Effect, LooseCall, NewPrompt, RunningCall, Seq};

/// Applies an effect. A new effect does not compile until it is handled here.
#[deny(clippy::wildcard_enum_match_arm)]
pub(crate) fn apply(scene: &EffectContext<'_>, effect: &Effect) -> Result<(), StoreError> {
    let (db, session, at) = (scene.db, scene.session(), scene.at);
    match effect {
        Effect::BeginLife { life, source } => lives::begin(scene, *life, *source),
        Effect::KeepHostFacts(facts) => lives::keep_host_facts(scene, facts),
        Effect::SetStatus(status) => {
            db.run("UPDATE sessions SET status = ?2 WHERE id = ?1", params![session, status.as_str()])
        }
        Effect::FollowCleared => lives::follow_cleared(scene),
        Effect::SetTitle { title } => titles::set(scene, title),
        Effect::Suspend { reason, tally } => lives::suspend(scene, reason, *tally),
        Effect::PublishNotification(notification) => {
            scene.publish(LifecycleKind::Notification(notification.clone()));
            Ok(())
        }
        Effect::PublishMessage { content, origin } => {
            publish_message(scene, content.as_deref(), origin.as_deref());
            Ok(())
        }
        Effect::Resume { status, suspended_for_ms } => lives::resume(scene, *status, *suspended_for_ms),
        Effect::Complete { reason, tally } => lives::complete(scene, reason, *tally),
        Effect::BeginCompaction { seq, prompt, trigger, message_count, since_last } => {
            let messages = Messages { count: *message_count, since_last: *since_last };
            compactions::begins(scene, TurnOf { seq: *seq, prompt: prompt.as_ref() }, trigger, messages)
        }
        Effect::EndCompaction { seq, prompt, trigger, message_count, since_last, summary } => {
            let messages = Messages { count: *message_count, since_last: *since_last };
            let turn = TurnOf { seq: *seq, prompt: prompt.as_ref() };
            compactions::ends(scene, turn, trigger, messages, summary.as_deref())
        }
        Effect::HideCompactions => compactions::hide(scene),
        Effect::BeginSubagent { seq, prompt, subagent } => {
            subagents::begin(scene, *seq, prompt.as_ref(), subagent)
        }
        Effect::EndSubagent { seq, prompt, subagent, message } => {
            subagents::end(scene, *seq, prompt.as_ref(), subagent, message.as_deref())
        }
        Effect::LinkSubagent { subagent, call } => subagents::link(scene, subagent, call),
        Effect::KeepPlan { seq, prompt, path, text, state } => {
            let turn = TurnOf { seq: *seq, prompt: prompt.as_ref() };
            plans::keep(scene, turn, path.as_deref(), text.as_deref(), *state)
        }
        Effect::KeepTasks { seq, prompt, change } => {
            plans::keep_tasks(scene, TurnOf { seq: *seq, prompt: prompt.as_ref() }, change)
        }
        Effect::CarryOut { seq, plan } => plans::carry_out(scene, *seq, plan),
        Effect::BeginCall { call } => begin_call(scene, call),
        Effect::EndCalls { calls } => end_calls(scene, calls.iter()),
        Effect::AbandonCalls { calls } => abandon_calls(scene, calls),
        Effect::PublishLateCall { event } => {
            scene.publish_call(LooseCall::AfterTurn { event: *event });
            Ok(())
        }
        Effect::PublishCall { call } => {
            scene.publish_call(LooseCall::Unstored(call.clone()));
            Ok(())
        }
        Effect::SetCallStart { id } => db.run(
            "UPDATE activities SET began_at = min(at, ?3) WHERE session = ?1 AND tool_use_id = ?2
             AND began_at IS NULL",
            params![session, id.as_str(), at.0],
        ),
        Effect::AddActivity { seq, activity } => add_activity(scene, scene.batch_row(*seq)?, activity),
        Effect::AddRefused { seq, activities } => add_refused(scene, scene.batch_row(*seq)?, activities),
        Effect::AddAside { seq, event, prompt, call } => {
            add_aside(scene, *seq, prompt.as_ref(), *event, call)
        }
        Effect::OpenBatch { seq, number, source, state, prompt_id, prompt } => {
            let opened = OpenedBatch { seq: *seq, number: *number, source: *source, state: *state };
            open_batch(scene, opened, prompt_id.as_ref(), prompt.as_ref())
        }
        Effect::RunBatch { seq, prompt_id } => run_batch(db, scene.batch(*seq)?, prompt_id),
        Effect::SetTurn { seq, turn } => set_turn(db, scene.batch(*seq)?, turn.as_ref()),
        Effect::SetSource { seq, source } => set_source(db, scene.batch(*seq)?, *source),
        Effect::SetState { seq, state } => set_state(db, scene.batch(*seq)?, *state),
        Effect::CloseBatch { seq, why } => close_batch(scene, *seq, *why),
        Effect::Respond { seq, event, text, prompt_id } => {
            let batch = scene.batch(*seq)?;
            late::keep_replaced_answer(db, batch, prompt_id.as_ref())?;
            set_response(db, batch, text, Some(*event), prompt_id.as_ref())
        }
        Effect::RecoverReply { seq, text } => set_response(db, scene.batch(*seq)?, text, None, None),
        Effect::AdoptRecovery { seq, number, source, prompt_id, prompt } => {
            let adopted = Adopted { number: *number, source: *source, prompt_id: prompt_id.as_ref(), prompt };
            late::adopt_recovery(db, session, scene.batch(*seq)?, adopted, at)?;
            publish_prompt(scene, *number, *source, Some(prompt));
            Ok(())
        }
        Effect::MergeRecovery { from, to } => {
            late::merge_recovery(db, scene.batch(*from)?, scene.batch(*to)?)
        }
        Effect::Renumber { seq, number } => late::renumber(db, session, scene.batch(*seq)?, *number),
        Effect::Rearrange { periods, among, hidden } => late::rearrange(scene, periods, among, hidden),
        Effect::SetAside { seq } => late::set_aside(db, scene.batch(*seq)?),
        Effect::TakeAnswer { seq, event } => late::take_answer(db, scene.batch(*seq)?, *event),
        Effect::DropAnswer { event } => late::drop_answer(db, *event),
        Effect::ShareAnswer { from, to } => late::share_answer(db, scene.batch(*from)?, scene.batch(*to)?),
        Effect::FlushChunk { seq } => flush_chunk(scene, scene.batch(*seq)?),
        Effect::CompressBatch { seq } => {
            queue::enqueue(db, JobKind::Batch, session, Some(scene.batch(*seq)?), at)
        }
        Effect::Summarize => queue::enqueue(db, JobKind::Summary, session, None, at),
    }
}

fn set_turn(db: &Connection, batch: BatchId, turn: Option<&PromptId>) -> Result<(), StoreError> {
    db.run(
        "UPDATE prompt_batches SET prompt_id = ?2 WHERE id = ?1",
        params![batch.0, turn.map(PromptId::as_str)],
    )
}

/// The stored state of a batch that is opened. Only [`close_batch`] closes it.
fn opening_state(state: BatchState) -> BatchState {
    match state {
        BatchState::Waiting => BatchState::Waiting,
        BatchState::Open | BatchState::Closed => BatchState::Open,
    }
}

fn set_state(db: &Connection, batch: BatchId, state: BatchState) -> Result<(), StoreError> {
    db.run(
        "UPDATE prompt_batches SET status = ?2, close_reason = NULL, closed_at = NULL WHERE id = ?1",
        params![batch.0, opening_state(state).as_str()],
    )
}

/// Stores the answer that `event` reported in this turn.
fn set_response(
    db: &WriteContext<'_>,
    batch: BatchId,
    text: &str,
    event: Option<EventId>,
    turn: Option<&PromptId>,
) -> Result<(), StoreError> {
    db.run(
        "UPDATE prompt_batches SET response = ?2, response_event = ?3, response_turn = ?4 WHERE id = ?1",
        params![batch.0, Packed(text), event.map(|event| event.0), turn.map(PromptId::as_str)],
    )?;
    log(db, DocumentKey::response(batch))
}

fn run_batch(db: &Connection, batch: BatchId, turn: &PromptId) -> Result<(), StoreError> {
    db.run(
        "UPDATE prompt_batches SET status = 'open', prompt_id = ?2 WHERE id = ?1",
        params![batch.0, turn.as_str()],
    )
}

fn set_source(db: &Connection, batch: BatchId, source: BatchSource) -> Result<(), StoreError> {
    db.run("UPDATE prompt_batches SET source = ?2 WHERE id = ?1", params![batch.0, source.as_str()])
}

/// Requests compression of what the batch contains so far.
fn flush_chunk(scene: &EffectContext<'_>, batch: BatchId) -> Result<(), StoreError> {
    scene.db.run(
        "UPDATE prompt_batches SET flushed_upto =
            (SELECT ifnull(max(id), 0) FROM activities WHERE batch = ?1) WHERE id = ?1",
        [batch.0],
    )?;
    queue::enqueue(scene.db, JobKind::Batch, scene.session(), Some(batch), scene.at)
}

fn publish_message(scene: &EffectContext<'_>, content: Option<&str>, origin: Option<&MessageOrigin>) {
    let (content, origin) = (content.map(str::to_owned), origin.cloned().map(Box::new));
    scene.publish(LifecycleKind::MessageReceived { source: None, prompt_number: None, content, origin });
}

fn publish_prompt(scene: &EffectContext<'_>, number: u32, source: BatchSource, prompt: Option<&NewPrompt>) {
    if let Some(prompt) = prompt {
        let (content, origin) = (prompt.text.clone(), prompt.origin.clone());
        let (source, prompt_number) = (Some(source), Some(number));
        scene.publish(LifecycleKind::MessageReceived { source, prompt_number, content, origin });
    }
}

fn close_batch(scene: &EffectContext<'_>, seq: Seq, why: CloseReason) -> Result<(), StoreError> {
    let batch = scene.batch(seq)?;
    let (prompt_number, source, opened): (_, _, Timestamp) = scene.db.one(
        "UPDATE prompt_batches SET status = 'closed', close_reason = ?2, closed_at = ?3 WHERE id = ?1
             RETURNING prompt_number, source, opened_at",
        params![batch.0, why.as_str(), scene.at.0],
    )?;
    let (tool_call_count, failed_call_count) = scene.db.one(
        "SELECT count(*), ifnull(sum(failed), 0) FROM activities WHERE batch = ?1 AND kind = 'tool'",
        params![batch],
    )?;
    let marks: Vec<Vec<u8>> = scene.db.all(
        "SELECT changed_files FROM activities WHERE batch = ?1 AND changed_files IS NOT NULL",
        params![batch],
    )?;
    let changed: HashSet<&[u8]> = marks.iter().flat_map(|marks| marks.chunks(8)).collect();
    let duration_ms = scene.at.since(opened);
    let reason = why.as_str().to_owned();
    scene.publish(LifecycleKind::BatchClosed(ClosedBatch {
        prompt_number,
        source,
        reason,
        duration_ms,
        tool_call_count,
        failed_call_count,
        changed_file_count: u32::try_from(changed.len()).unwrap_or(u32::MAX),
    }));
    Ok(())
}

fn begin_call(scene: &EffectContext<'_>, call: &RunningCall) -> Result<(), StoreError> {
    let (kind, text) = call.task.as_ref().map(|task| (&task.kind, &task.text)).unzip();
    scene.db.run(
        "INSERT OR IGNORE INTO running_calls (session, call_id, subagent, task_kind, task, tool, began_at, refused_by)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![
            scene.session(),
            call.id.as_str(),
            call.subagent,
            kind,
            text,
            call.tool,
            call.began.0,
            call.refused_by.map(Rule::name)
        ],
    )
}

fn abandon_calls(scene: &EffectContext<'_>, calls: &[RunningCall]) -> Result<(), StoreError> {
    for call in calls.iter().filter(|call| call.tool.is_some()) {
        scene.publish_call(LooseCall::NoResult { call: call.clone(), ended: scene.at });
    }
    end_calls(scene, calls.iter().map(|call| &call.id))
}

fn end_calls<'a>(
    scene: &EffectContext<'_>,
    calls: impl Iterator<Item = &'a CallId>,
) -> Result<(), StoreError> {
    let delete = "DELETE FROM running_calls WHERE session = ?1 AND call_id = ?2";
    for call in calls {
        scene.db.run(delete, params![scene.session(), call.as_str()])?;
    }
    Ok(())
}

/// The columns of a batch that is opened.
#[derive(Clone, Copy)]
struct OpenedBatch {
    seq: Seq,
    number: u32,
    source: BatchSource,
    state: BatchState,
}

fn open_batch(
    scene: &EffectContext<'_>,
    opened: OpenedBatch,
    turn: Option<&PromptId>,
    prompt: Option<&NewPrompt>,
) -> Result<(), StoreError> {
    let batch = insert_batch(scene, opened, prompt)?;
    if turn.is_some() {
        set_turn(scene.db, batch, turn)?;
    }
    publish_prompt(scene, opened.number, opened.source, prompt);
    Ok(())
}

fn insert_batch(
    scene: &EffectContext<'_>,
    opened: OpenedBatch,
    prompt: Option<&NewPrompt>,
) -> Result<BatchId, StoreError> {
    let (db, session, at) = (scene.db, scene.session(), scene.at);
    let OpenedBatch { seq, number, source, state } = opened;
    let text = prompt.and_then(|prompt| prompt.text.as_deref());
    db.run(
        "INSERT INTO prompt_batches (session, seq, prompt_number, source, status, prompt,
             prompt_event, opened_at,
                                     asked_in)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
        params![
            session,
            seq.0,
            number,
            source.as_str(),
            opening_state(state).as_str(),
            text.map(Packed),
            prompt.map(|prompt| prompt.event.0),
            at.0,
            prompt.and_then(|prompt| prompt.asked_in.as_ref()).map(PromptId::as_str)
        ],
    )?;
    let batch = BatchId(db.last_insert_rowid());
    if prompt.is_some() {
        db.run("UPDATE sessions SET prompts = max(prompts, ?2) WHERE id = ?1", params![session, number])?;
    }
    if text.is_some() {
        log(db, DocumentKey::prompt(batch))?;
    }
    if seq.0 == 1 {
        for table in ["activities", "subagents", "compactions"] {
            let sql = format!("UPDATE {table} SET batch = ?2 WHERE session = ?1 AND batch IS NULL");
            db.run(&sql, params![session, batch.0])?;
        }
    }
    Ok(batch)
}
