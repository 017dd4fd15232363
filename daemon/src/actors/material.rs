//! Stored batches as the material of the compressors.

use rusqlite::Connection;

use crate::agents;
use crate::memory::ids::{BatchId, SessionRow};
use crate::memory::material::{BatchMaterial, BatchSource, Outcome, Said, SessionMaterial, Step};
use crate::store::{self, ActivityRow, BatchRow, SessionInfo, StoreError};

/// # Errors
/// When the database refuses or the batch is gone.
pub fn batch_material(db: &Connection, batch: BatchId) -> Result<BatchMaterial, StoreError> {
    let stored = store::batch_row(db, batch)?;
    let mut material = told(db, stored.batch, &stored.session)?;
    material.previous_response = stored.previous_response;
    Ok(material)
}

/// # Errors
/// When the database refuses or the session is gone.
pub fn session_material(db: &Connection, session: SessionRow) -> Result<SessionMaterial, StoreError> {
    let info = store::session_info(db, session)?;
    let mut batches: Vec<BatchMaterial> = Vec::new();
    for batch in store::batches(db, session)? {
        let mut material = told(db, batch, &info)?;
        material.previous_response =
            batches.iter().rev().find_map(|earlier| earlier.response.as_ref()).map(|said| said.text.clone());
        batches.push(material);
    }
    Ok(SessionMaterial { batches })
}

fn told(db: &Connection, batch: BatchRow, session: &SessionInfo) -> Result<BatchMaterial, StoreError> {
    let mut steps: Vec<Step> = Vec::new();
    if batch.source != BatchSource::Private {
        let calls = store::session_activities(db, session.row, Some(batch.id))?;
        let asides = store::asides_of_batch(db, batch.id)?;
        let rows = calls.into_iter().filter(|row| row.kind == "tool").chain(asides);
        steps.extend(rows.map(|row| step(row, session)));
        steps.sort_by_key(|step| step.at);
    }
    let said = |event: Option<_>, text: Option<_>| Some(Said { event: event?, text: text? });
    Ok(BatchMaterial {
        prompt_number: batch.prompt_number,
        source: batch.source,
        prompt: said(batch.prompt_event, batch.prompt),
        response: said(batch.response_event, batch.response),
        previous_response: None,
        steps,
        root: session.root.clone(),
    })
}

fn step(row: ActivityRow, session: &SessionInfo) -> Step {
    let response = row.response.unwrap_or_default();
    let given = (!row.failed).then_some(response.as_str());
    let action = (agents::spec(session.agent.as_str()).action)(
        &row.tool_name,
        row.input.as_deref().unwrap_or_default(),
        given,
    );
    Step {
        event: row.event,
        at: row.at,
        tool: row.tool_name,
        outcome: if row.failed { Outcome::Failed { error: response } } else { Outcome::Done },
        subagent: row.subagent,
        action,
    }
}

/// What reading the batch itself would cost, in tokens by four characters each.
pub fn source_tokens(batch: &BatchMaterial) -> i64 {
    let said =
        [&batch.prompt, &batch.response].into_iter().flatten().map(|said| said.text.len()).sum::<usize>();
    let done: usize = batch.steps.iter().map(|step| crate::memory::material::size(&step.action)).sum();
    i64::try_from((said + done) / 4).unwrap_or(i64::MAX)
}
