//! Injections as JSON: each item with its id for `recall show`.

use serde::Deserialize;

use crate::answers::PublicId;
use crate::answers::found::InjectedItem;
use crate::answers::session::InjectionAnswer;
use recall_domain::context::InjectedExtent;
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::{SessionRow, Timestamp};
use recall_store::{Reader, StoreError};

/// Returns all injections of a session.
pub fn injections(db: Reader<'_>, session: SessionRow) -> Result<Vec<InjectionAnswer>, StoreError> {
    let rows = db.injections(session)?.into_iter();
    let uses = db.uses_of_session(session)?;
    rows.map(|row| {
        let mut items = public_items(db, &row.items, row.at)?;
        for item in &mut items {
            let of_item = uses
                .iter()
                .filter(|(injection, key, _)| *injection == row.id && item.id.is_some_and(|id| id.0 == *key));
            item.uses = of_item.map(|(.., what)| what.as_str().into()).collect();
        }
        Ok(InjectionAnswer::new(row, items))
    })
    .collect()
}

/// An item as stored.
#[derive(Deserialize)]
struct RecordedItem {
    kind: String,
    id: i64,
    #[serde(default)]
    extent: InjectedExtent,
    title: String,
    reason: String,
}

/// Returns the items of a block, stored by kind and row. A session's state is derived from its prompts and what
/// followed, so its id is that of the last prompt at that time.
pub(crate) fn public_items(
    db: Reader<'_>,
    items: &str,
    at: Timestamp,
) -> Result<Vec<InjectedItem>, StoreError> {
    let items: Vec<RecordedItem> = serde_json::from_str(items)?;
    let public = |RecordedItem { kind, id, extent, title, reason }: RecordedItem| {
        let key = match DocumentKind::parse(&kind) {
            Some(kind) => Some(DocumentKey { kind, row: id }),
            None => db.last_prompt(SessionRow(id), at)?,
        };
        let kind = if matches!(extent, InjectedExtent::Passage(_)) { "passage".to_owned() } else { kind };
        Ok(InjectedItem { kind, id: key.map(PublicId), title, reason, uses: Vec::new() })
    };
    items.into_iter().map(public).collect()
}
