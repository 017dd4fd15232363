//! What a session did with what it was told, from its own record.

use super::documents::title_and_text;
use recall_agents::Agents;
use recall_domain::document::DocumentKey;
use recall_domain::ids::{SessionRow, Timestamp};
use recall_domain::material::{Action, SessionMaterial};
use recall_domain::redaction::own_calls;
use recall_domain::used::{Deed, DeedKind, Occasion, ToldItem, uses};
use recall_store::{Reader, StoreError, ToldUse};

/// Items of a session of which the latest are looked at.
const MOST: usize = 200;

/// What is seen of the use of all that a session was told.
pub(super) fn uses_of(
    db: Reader<'_>,
    agents: Agents,
    session: SessionRow,
    material: &SessionMaterial,
) -> Result<Vec<ToldUse>, StoreError> {
    let items = db.told_items(session)?;
    if items.is_empty() {
        return Ok(Vec::new());
    }
    let deeds = deeds(db, session, material)?;
    let mut found = Vec::new();
    for item in items.iter().rev().take(MOST) {
        let Some(key) = item.key() else { continue };
        let Some(row) = db.load_document(key)? else { continue };
        let (title, text) = title_and_text(&row, agents);
        let told = ToldItem {
            key,
            text: format!("{title}\n{text}"),
            at: item.at,
            occasion: Occasion::of(&item.moment),
        };
        found.extend(uses(&told, &deeds).into_iter().map(|(what, at)| ToldUse {
            injection: item.injection,
            key,
            what,
            at,
        }));
    }
    Ok(found)
}

/// What happened in the session, in order.
fn deeds(db: Reader<'_>, session: SessionRow, material: &SessionMaterial) -> Result<Vec<Deed>, StoreError> {
    let mut deeds = Vec::new();
    for (at, prompt) in db.prompts_of_persons(session)? {
        deeds.push(Deed { at, what: DeedKind::Said(prompt) });
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

/// The ids of items in a call to recall, of which nothing else is kept.
fn ids(input: &str) -> Vec<DocumentKey> {
    let words = input.split(|char: char| !char.is_ascii_alphanumeric());
    words.filter_map(DocumentKey::parse).collect()
}
