//! Stores calls and other activities, and asides.

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::Sql;
use crate::database::text::Packed;
use crate::notes::file_notes;
use crate::operation::log;
use crate::sessions::effect_context::EffectContext;
use recall_domain::event::{ToolCall, ToolResult};
use recall_domain::guard::Rule;
use recall_domain::ids::{ActivityId, BatchId, CallId, EventId, PromptId};
use recall_domain::session::{ActivityContent, ActivityKind, NewActivity, Seq};

pub(super) fn add_aside(
    scene: &EffectContext<'_>,
    seq: Seq,
    prompt: Option<&PromptId>,
    event: EventId,
    call: &ToolCall,
) -> Result<(), StoreError> {
    let batch = scene.batch(seq)?;
    let (ToolResult::Done(response) | ToolResult::Failed(response)) = &call.result;
    // Most such calls leave only the fact that they happened.
    let kept = |text| Some(text).filter(|text: &&str| !text.is_empty()).map(Packed);
    scene.db.run(
        "INSERT INTO asides (batch, event_id, tool_name, input, response, at, prompt_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            batch.0,
            event.0,
            call.name,
            kept(&call.input),
            kept(response),
            scene.at.0,
            prompt.map(PromptId::as_str)
        ],
    )
}

/// The columns that depend on the kind of activity.
struct Columns<'a> {
    kind: ActivityKind,
    tool: &'a str,
    use_id: Option<&'a str>,
    failed: bool,
    duration_ms: Option<i64>,
    input: Option<&'a str>,
    response: Option<&'a str>,
    /// The file that the activity rewrote.
    rewrote: Option<&'a str>,
}

impl<'a> Columns<'a> {
    fn of(content: &'a ActivityContent) -> Self {
        let nothing = Self {
            kind: ActivityKind::Other,
            tool: "",
            use_id: None,
            failed: false,
            duration_ms: None,
            input: None,
            response: None,
            rewrote: None,
        };
        match content {
            ActivityContent::Tool(call) => {
                let (ToolResult::Done(response) | ToolResult::Failed(response)) = &call.result;
                Self {
                    kind: ActivityKind::Tool,
                    tool: &call.name,
                    use_id: call.use_id.as_ref().map(CallId::as_str),
                    failed: call.is_failed(),
                    duration_ms: call.duration_ms,
                    input: Some(&call.input),
                    response: Some(response),
                    rewrote: call.rewrote.as_deref(),
                }
            }
            ActivityContent::Other { name, detail } => Self { tool: name, input: Some(detail), ..nothing },
            ActivityContent::Hidden { name } => Self { kind: ActivityKind::Private, tool: name, ..nothing },
        }
    }
}

pub(super) fn add_activity(
    scene: &EffectContext<'_>,
    batch: Option<BatchId>,
    activity: &NewActivity,
) -> Result<(), StoreError> {
    let columns = Columns::of(&activity.content);
    if let Some(call) = columns.use_id {
        forget_refused(scene, call)?;
    }
    insert_activity(scene, batch, activity, &columns, None)
}

fn insert_activity(
    scene: &EffectContext<'_>,
    batch: Option<BatchId>,
    activity: &NewActivity,
    columns: &Columns<'_>,
    part_of: Option<EventId>,
) -> Result<(), StoreError> {
    let (db, session) = (scene.db, scene.session());
    let changed_files = Some(scene.changed_files.concat())
        .filter(|marks| columns.kind == ActivityKind::Tool && !marks.is_empty());
    db.run(
        "INSERT INTO activities (session, batch, event_id, kind, tool_name, tool_use_id, prompt_id,
             subagent, subagent_type,
                                 failed, duration_ms, input, response, at, part_of, began_at, refused_by,
                                 changed_files)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18)",
        params![
            session,
            batch,
            activity.event.0,
            columns.kind.as_str(),
            columns.tool,
            columns.use_id,
            activity.prompt.as_ref().map(PromptId::as_str),
            activity.subagent.as_ref().map(|subagent| &subagent.id),
            activity.subagent.as_ref().and_then(|subagent| subagent.kind.as_ref()),
            columns.failed,
            columns.duration_ms,
            columns.input.map(Packed),
            columns.response.map(Packed),
            scene.at.0,
            part_of.map(|event| event.0),
            activity.began.map(|began| began.0),
            activity.refused_by.map(Rule::name),
            changed_files
        ],
    )?;
    let row = ActivityId(db.last_insert_rowid());
    if columns.kind == ActivityKind::Tool {
        log(db, row)?;
        db.run("UPDATE sessions SET activities = activities + 1 WHERE id = ?1", params![session])?;
    }
    let work_trees = scene.conventions.work_trees;
    columns.rewrote.map_or(Ok(()), |path| file_notes::keep_rewrite(db, session, row, path, work_trees))
}

/// Adds the calls of a rejected group that have no row. They never ran.
pub(super) fn add_refused(
    scene: &EffectContext<'_>,
    batch: Option<BatchId>,
    activities: &[NewActivity],
) -> Result<(), StoreError> {
    let known = "SELECT EXISTS (SELECT 1 FROM activities WHERE session = ?1 AND tool_use_id = ?2)";
    for (nth, activity) in activities.iter().enumerate() {
        let columns = Columns::of(&activity.content);
        if !scene.db.one::<bool>(known, params![scene.session(), columns.use_id])? {
            let part = NewActivity { event: nth_part(activity.event, nth), ..activity.clone() };
            insert_activity(scene, batch, &part, &columns, Some(activity.event))?;
        }
    }
    Ok(())
}

/// Deletes the row of a call that seemed rejected but whose result arrived late.
fn forget_refused(scene: &EffectContext<'_>, call: &str) -> Result<(), StoreError> {
    let gone = scene.db.all::<ActivityId>(
        "SELECT id FROM activities WHERE session = ?1 AND tool_use_id = ?2 AND part_of IS NOT NULL",
        params![scene.session(), call],
    )?;
    for row in gone {
        scene.db.run("DELETE FROM activities WHERE id = ?1", params![row])?;
        log(scene.db, row)?;
        scene
            .db
            .run("UPDATE sessions SET activities = activities - 1 WHERE id = ?1", params![scene.session()])?;
    }
    Ok(())
}

/// The id of an event's nth activity. Event ids are random, so the following ones are free.
fn nth_part(event: EventId, nth: usize) -> EventId {
    EventId(u128::from_be_bytes(event.0).wrapping_add(nth as u128).to_be_bytes())
}
