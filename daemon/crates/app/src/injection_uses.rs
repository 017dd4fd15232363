//! Determines from a session's record what it did with the items injected into it.

use super::documents::title_and_text;
use recall_agents::Agents;
use recall_domain::document::DocumentKey;
use recall_domain::ids::{SessionRow, Timestamp};
use recall_domain::material::{Action, SessionMaterial};
use recall_domain::redaction::own_calls;
use recall_domain::used::{Deed, DeedKind, InjectedDocument, Occasion, uses};
use recall_store::{InjectionUse, Reader, StoreError};

/// The number of a session's latest injected items that are examined.
const MOST: usize = 200;

/// Returns the observed uses of everything injected into a session.
pub(super) fn uses_of(
    db: Reader<'_>,
    agents: Agents,
    session: SessionRow,
    material: &SessionMaterial,
) -> Result<Vec<InjectionUse>, StoreError> {
    let items = db.injected_items(session)?;
    if items.is_empty() {
        return Ok(Vec::new());
    }
    let deeds = deeds(db, session, material)?;
    let mut found = Vec::new();
    for item in items.iter().rev().take(MOST) {
        let Some(key) = item.key() else { continue };
        let Some(row) = db.load_document(key)? else { continue };
        let (title, text) = title_and_text(&row, agents);
        let injected = InjectedDocument {
            key,
            text: format!("{title}\n{text}"),
            at: item.at,
            occasion: Occasion::of(&item.moment),
        };
        found.extend(uses(&injected, &deeds).into_iter().map(|(what, at)| InjectionUse {
            injection: item.injection,
            key,
            what,
            at,
        }));
    }
    Ok(found)
}

/// Returns what happened in the session, in chronological order.
fn deeds(db: Reader<'_>, session: SessionRow, material: &SessionMaterial) -> Result<Vec<Deed>, StoreError> {
    let mut deeds = Vec::new();
    for (at, prompt) in db.prompts_of_persons(session)? {
        deeds.push(Deed { at, what: DeedKind::Prompted(prompt) });
    }
    for step in material.batches.iter().flat_map(|batch| &batch.steps) {
        if let Action::Command { command, .. } = &step.action {
            deeds.push(Deed { at: step.at, what: DeedKind::Ran(command.clone()) });
        }
    }
    for row in db.session_activities(session, None)? {
        let input = row.input.as_deref().unwrap_or_default();
        if own_calls::is_own(&row.tool_name, input) {
            deeds.push(Deed { at: row.at, what: DeedKind::Opened(ids(input)) });
        }
    }
    deeds.sort_by_key(|deed: &Deed| -> Timestamp { deed.at });
    Ok(deeds)
}

/// Returns the ids of items in a call to recall, which are all that is kept of it.
fn ids(input: &str) -> Vec<DocumentKey> {
    let words = input.split(|char: char| !char.is_ascii_alphanumeric());
    words.filter_map(DocumentKey::parse).collect()
}
