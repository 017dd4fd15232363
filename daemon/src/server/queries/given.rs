//! What was given, as others read it: each item with the id that `recall show` opens.

use rusqlite::Connection;
use serde::Deserialize;

use crate::memory::document::{DocumentKey, DocumentKind};
use crate::memory::ids::{SessionRow, Timestamp};
use crate::server::answers::PublicId;
use crate::server::answers::found::InjectedItem;
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

/// An item as it is recorded.
#[derive(Deserialize)]
struct RecordedItem {
    kind: String,
    id: i64,
    title: String,
    reason: String,
}

/// The items of a block, as they are recorded by kind and row. Where a session stands is told from its prompts and what
/// followed: its id is that of the last of them at that moment.
pub(super) fn public_items(
    db: &Connection,
    items: &str,
    at: Timestamp,
) -> Result<Vec<InjectedItem>, StoreError> {
    let items: Vec<RecordedItem> = serde_json::from_str(items)?;
    let public = |RecordedItem { kind, id, title, reason }: RecordedItem| {
        let key = match DocumentKind::parse(&kind) {
            Some(kind) => Some(DocumentKey { kind, row: id }),
            None => store::last_prompt(db, SessionRow(id), at)?,
        };
        Ok(InjectedItem { kind, id: key.map(PublicId), title, reason })
    };
    items.into_iter().map(public).collect()
}
