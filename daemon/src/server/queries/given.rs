//! What was given, as others read it: each item with the id that `recall show` opens.

use rusqlite::Connection;
use serde_json::Value;

use crate::memory::document::{DocumentKey, DocumentKind};
use crate::memory::ids::{SessionRow, Timestamp};
use crate::server::answers::PublicId;
use crate::server::answers::session::InjectionAnswer;
use crate::store::{self, StoreError};

/// All that a session was given.
pub(super) fn injections(db: &Connection, session: SessionRow) -> Result<Vec<InjectionAnswer>, StoreError> {
    let rows = store::injections(db, session)?.into_iter();
    rows.map(|row| {
        let items = public_items(db, &row.items, row.at)?;
        Ok(InjectionAnswer::new(row, items))
    })
    .collect()
}

/// The items of a block, as they are recorded by kind and row. Where a session stands is told from its prompts and what
/// followed: its id is that of the last of them at that moment.
pub(super) fn public_items(db: &Connection, items: &str, at: Timestamp) -> Result<Vec<Value>, StoreError> {
    let mut items: Vec<Value> = serde_json::from_str(items)?;
    for item in &mut items {
        let Some(row) = item.get("id").and_then(Value::as_i64) else { continue };
        let kind = item.get("kind").and_then(Value::as_str).unwrap_or_default();
        let key = match DocumentKind::parse(kind) {
            Some(kind) => Some(DocumentKey { kind, row }),
            None => store::last_prompt(db, SessionRow(row), at)?,
        };
        item["id"] = serde_json::to_value(key.map(PublicId))?;
    }
    Ok(items)
}
