//! Whose a row is, and where it lies.

use rusqlite::Connection;

use crate::StoreError;
use crate::database::row::Sql;
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::ShareId;
use recall_domain::sync::item::Item;

/// Whose row it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Here,
    Elsewhere,
}

/// What becomes of a row that was there before its note's log was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adopted {
    /// It follows the state.
    ToBeWritten,
    /// It is newer here. What differs is logged.
    AsItIs,
}

pub(super) fn table(kind: DocumentKind) -> &'static str {
    match kind {
        DocumentKind::Summary => "session_summaries",
        DocumentKind::Plan => "plans",
        _ => "observations",
    }
}

/// `None`: the row is gone.
pub(super) fn home(db: &Connection, key: DocumentKey) -> Result<Option<Home>, StoreError> {
    let share: Option<Option<ShareId>> =
        db.first(&format!("SELECT share FROM {} WHERE id = ?1", table(key.kind)), [key.row])?;
    Ok(share.map(|share| if share.is_some() { Home::Elsewhere } else { Home::Here }))
}

/// A text of an item. A missing one is empty.
pub(super) fn text<'a>(item: &'a Item, name: &str) -> &'a str {
    item.get(name).as_str().unwrap_or_default()
}
