//! Converts stored batches to material for compressors.

use std::collections::BTreeSet;

use recall_agents::{AgentSpec, Agents};
use recall_compression::notes::{NotesMaterial, Wanted};
use recall_domain::earlier::{Earlier, MOST_SHOWN};
use recall_domain::guard::{Rule, refusal_by, refusal_in};
use recall_domain::ids::{BatchId, SessionRow};
use recall_domain::material::{
    Action, BatchMaterial, BatchSource, CallOutcome, SessionMaterial, SourcedText, Step,
};
use recall_domain::redaction::own_calls;
use recall_domain::session::ActivityKind;
use recall_store::{ActivityRow, BatchRow, DueBatch, Lives, Reader, SessionInfo, StoreError, SubagentRow};

/// Builds the material of a batch. Fails if the batch is gone.
pub(crate) fn batch_material(
    db: Reader<'_>,
    agents: Agents,
    batch: BatchId,
) -> Result<BatchMaterial, StoreError> {
    let stored = db.batch_row(batch)?;
    let mut material = read_batch(db, agents, stored.batch, &stored.session)?;
    let is_empty = |answer: &String| material.conventions.is_empty_answer(answer.trim());
    material.previous_response = stored.previous_response.filter(|answer| !is_empty(answer));
    let touched = files_touched(&material);
    if !touched.is_empty() {
        material.earlier = db.earlier_statements(batch, &touched)?;
    }
    Ok(material)
}

/// Builds the material of a session. Fails if the session is gone.
pub(crate) fn session_material(
    db: Reader<'_>,
    agents: Agents,
    session: SessionRow,
) -> Result<SessionMaterial, StoreError> {
    let info = db.session_info(session)?;
    let mut batches: Vec<BatchMaterial> = Vec::new();
    for batch in db.batches(session)? {
        let mut material = read_batch(db, agents, batch, &info)?;
        material.previous_response = batches
            .iter()
            .rev()
            .filter_map(|earlier| earlier.response.as_ref())
            .find(|response| !response.text.is_empty())
            .map(|response| response.text.clone());
        batches.push(material);
    }
    Ok(SessionMaterial { batches })
}

/// Builds the material of a session for a model's notes on these batches. A session that continues gets its summary
/// when it ends.
pub(crate) fn notes_material(
    db: Reader<'_>,
    agents: Agents,
    session: SessionRow,
    lives: Lives,
    due: &[DueBatch],
) -> Result<NotesMaterial, StoreError> {
    let material = session_material(db, agents, session)?;
    let mut earlier: Vec<Earlier> = Vec::new();
    for batch in due {
        let touched = material.batches.get(batch.index).map(files_touched).unwrap_or_default();
        if earlier.len() >= MOST_SHOWN || touched.is_empty() {
            continue;
        }
        for known in db.earlier_statements(batch.batch, &touched)? {
            if earlier.len() < MOST_SHOWN && !earlier.iter().any(|it| it.subject == known.subject) {
                earlier.push(known);
            }
        }
    }
    Ok(NotesMaterial {
        session: material,
        due: due.iter().map(|batch| batch.index).collect(),
        noted: db.noted_titles(session)?,
        earlier,
        wanted: match lives {
            Lives::On => Wanted::Observations,
            Lives::NoLonger => Wanted::WithSummary,
        },
    })
}

fn read_batch(
    db: Reader<'_>,
    agents: Agents,
    batch: BatchRow,
    session: &SessionInfo,
) -> Result<BatchMaterial, StoreError> {
    let spec = agents.spec(session.agent.as_str());
    let mut steps: Vec<Step> = Vec::new();
    if batch.source != BatchSource::Private {
        let calls = db.session_activities(session.row, Some(batch.id))?;
        let asides = db.asides_of_batch(batch.id)?;
        let asks_recall =
            |row: &ActivityRow| own_calls::is_own(&row.tool_name, row.input.as_deref().unwrap_or_default());
        let calls = calls.into_iter().filter(|row| row.kind == ActivityKind::Tool);
        let rows = calls.chain(asides).filter(|row| !asks_recall(row));
        steps.extend(rows.map(|row| step(row, spec)));
        for subagent in db.subagents_of_batch(batch.id)? {
            steps.extend(last_words(subagent, &steps));
        }
        steps.sort_by_key(|step| step.at);
    }
    let sourced = |event: Option<_>, text: Option<_>| Some(SourcedText { event: event?, text: text? });
    // The prompt got an empty answer.
    let response = batch.response.map(|answer| match spec.conventions.is_empty_answer(answer.trim()) {
        true => String::new(),
        false => answer,
    });
    Ok(BatchMaterial {
        prompt_number: batch.prompt_number,
        source: batch.source,
        prompt: sourced(batch.prompt_event, batch.prompt),
        // An answer from the transcript has no event of its own.
        response: sourced(batch.response_event.or(batch.prompt_event), response),
        previous_response: None,
        earlier: Vec::new(),
        steps,
        root: session.root.clone(),
        conventions: spec.conventions,
    })
}

/// Returns the project files that a batch read or changed.
fn files_touched(batch: &BatchMaterial) -> Vec<String> {
    let path = |step: &Step| match &step.action {
        Action::Read { path } | Action::Edit { path, .. } | Action::Write { path, .. } => {
            batch.folder().beneath(path)
        }
        _ => None,
    };
    let files: BTreeSet<String> = batch.steps.iter().filter_map(path).collect();
    files.into_iter().collect()
}

/// Returns a subagent's last message, unless the call that started it contains it.
fn last_words(subagent: SubagentRow, steps: &[Step]) -> Option<Step> {
    let (text, event) = (subagent.message?, subagent.message_event?);
    let is_in_steps = steps.iter().any(|step| match &step.action {
        Action::Delegate { answer, .. } => {
            answer.as_deref().is_some_and(|answer| answer.trim() == text.trim())
        }
        _ => false,
    });
    (!is_in_steps).then(|| Step {
        event,
        at: subagent.ended_at.unwrap_or_default(),
        tool: "SubagentStop".to_owned(),
        outcome: CallOutcome::Done,
        action: Action::Delegate {
            description: subagent.kind.clone().unwrap_or_default(),
            prompt: String::new(),
            answer: Some(text),
        },
        subagent: subagent.kind,
    })
}

fn step(row: ActivityRow, spec: &AgentSpec) -> Step {
    let response = row.response.unwrap_or_default();
    let given = (!row.failed).then_some(response.as_str());
    let rule = row.refused_by.as_deref().and_then(Rule::parse);
    let refused = rule.filter(|_| refusal_in(&response).is_none()).map(refusal_by);
    let action = spec.action(&row.tool_name, row.input.as_deref().unwrap_or_default(), given);
    Step {
        event: row.event,
        at: row.at,
        tool: row.tool_name,
        outcome: match row.failed.then(|| (spec.rejected)(&response)) {
            None => CallOutcome::Done,
            Some(None) => CallOutcome::Failed { error: refused.unwrap_or(response) },
            Some(Some(rejected)) => CallOutcome::Rejected { reason: rejected.reason },
        },
        subagent: row.subagent,
        action,
    }
}

/// The batch's own tokens, at four characters each.
pub fn source_tokens(batch: &BatchMaterial) -> i64 {
    let text_bytes = [&batch.prompt, &batch.response]
        .into_iter()
        .flatten()
        .map(|response| response.text.len())
        .sum::<usize>();
    let done: usize = batch.steps.iter().map(|step| recall_domain::material::size(&step.action)).sum();
    i64::try_from((text_bytes + done) / 4).unwrap_or(i64::MAX)
}
