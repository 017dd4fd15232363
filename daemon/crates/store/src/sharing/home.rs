//! Whether a row belongs to this machine, and where it is stored.

use rusqlite::Connection;

use crate::StoreError;
use crate::database::row::Sql;
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::ShareId;
use recall_domain::sync::item::SharedItem;
use recall_domain::sync::kind::ItemKind;

/// Which machine a row belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Home {
    Here,
    Elsewhere,
}

/// What happens to a row that existed before its item's log was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Adopted {
    /// It is overwritten with the state.
    ToBeWritten,
    /// It is newer than the state. The differences are logged.
    AsItIs,
}

pub(super) fn table(kind: DocumentKind) -> &'static str {
    match kind {
        DocumentKind::Summary => "session_summaries",
        DocumentKind::Plan => "plans",
        DocumentKind::ReceivedText => "said_elsewhere",
        _ => "observations",
    }
}

/// Returns the document of an item with this number in `sync_items`.
pub(super) fn key_of(item: &str, number: i64) -> DocumentKey {
    match ItemKind::of(item) {
        kind if kind.is_message() && number < 0 => {
            DocumentKey { kind: DocumentKind::ReceivedText, row: -number }
        }
        kind => DocumentKey { kind: kind.document(), row: number },
    }
}

/// Returns the number of a document in `sync_items`. Texts of other machines have negative numbers, so they never
/// equal a batch's.
pub(super) fn number_of(key: DocumentKey) -> i64 {
    if key.kind == DocumentKind::ReceivedText { -key.row } else { key.row }
}

/// Returns `None` if the row is gone.
pub(super) fn home(db: &Connection, key: DocumentKey) -> Result<Option<Home>, StoreError> {
    let column = match key.kind {
        DocumentKind::Prompt => "prompt",
        DocumentKind::Response => "response",
        _ => "",
    };
    if !column.is_empty() {
        let sql =
            format!("SELECT EXISTS (SELECT 1 FROM prompt_batches WHERE id = ?1 AND {column} IS NOT NULL)");
        return Ok(db.one::<bool>(&sql, [key.row])?.then_some(Home::Here));
    }
    let share: Option<Option<ShareId>> =
        db.first(&format!("SELECT share FROM {} WHERE id = ?1", table(key.kind)), [key.row])?;
    Ok(share.map(|share| if share.is_some() { Home::Elsewhere } else { Home::Here }))
}

/// Returns a text field of an item; empty if it is missing.
pub(super) fn text<'a>(item: &'a SharedItem, name: &str) -> &'a str {
    item.get(name).as_str().unwrap_or_default()
}
