//! Items of others that read like instructions to a model. They are merged like all others, but get no row until a
//! person accepts them. So no search finds them, and no session receives them.
//!
//! If another person changes a note of this machine into such a text, the note stays as it was. A share among one
//! person's machines has no quarantine.

use rusqlite::Connection;

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::Sql;
use crate::operation::{WriteContext, log};
use crate::sharing::home::{Home, home, key_of, table};
use crate::sharing::shared_row::SharedRow;
use crate::sharing::{Known, Share, Wanted};
use recall_domain::document::DocumentKey;
use recall_domain::ids::Timestamp;
use recall_domain::sync::fields::is_complete;
use recall_domain::sync::item::SharedItem;
use recall_domain::sync::quarantine::{ItemTexts, is_text};

/// Decides whether an item is quarantined now. If so, a row that it had before is removed.
pub(super) fn is_apart(
    db: &WriteContext<'_>,
    share: &Share,
    item: &str,
    known: &mut Known,
    now: Timestamp,
) -> Result<bool, StoreError> {
    let is_shown = known.row.is_some() || known.wanted == Wanted::Yes && is_complete(item, &known.item);
    if share.is_personal || !is_shown {
        return Ok(false);
    }
    let texts = ItemTexts::of(&known.item);
    let Some(why) = texts.instruction() else {
        end(db, share, item)?;
        return Ok(false);
    };
    let key = known.row.map(|row| key_of(item, row));
    let home = key.map(|key| home(db, key)).transpose()?.flatten();
    let is_own_text = match key.filter(|_| home == Some(Home::Here)) {
        Some(key) => own_row_has_texts(db, share, key, &known.item)?,
        None => false,
    };
    if is_own_text || is_kept(db, share, item, &texts)? {
        return Ok(false);
    }
    db.run(
        "DELETE FROM quarantine WHERE share = ?1 AND item = ?2 AND texts <> ?3",
        params![share.id, item, texts.hash()],
    )?;
    db.run(
        "INSERT INTO quarantine (share, item, why, texts, at) VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT DO NOTHING",
        params![share.id, item, why, texts.hash(), now],
    )?;
    if let Some(key) = key.filter(|_| home == Some(Home::Elsewhere)) {
        remove(db, key)?;
        known.row = None;
    }
    Ok(true)
}

/// Removes another machine's row.
pub(super) fn remove(db: &WriteContext<'_>, key: DocumentKey) -> Result<(), StoreError> {
    log(db, key)?;
    db.run(&format!("DELETE FROM {} WHERE id = ?1", table(key.kind)), [key.row])
}

/// Whether this machine's own row has these texts.
fn own_row_has_texts(
    db: &Connection,
    share: &Share,
    key: DocumentKey,
    state: &SharedItem,
) -> Result<bool, StoreError> {
    let Some(row) = SharedRow::of(db, key)? else { return Ok(false) };
    let differing = state.difference(&row.fields(share));
    Ok(!differing.keys().any(|name| is_text(name) && state.has(name)))
}

/// Whether a person has accepted these texts.
fn is_kept(db: &Connection, share: &Share, item: &str, texts: &ItemTexts<'_>) -> Result<bool, StoreError> {
    db.one(
        "SELECT EXISTS (SELECT 1 FROM quarantine WHERE share = ?1 AND item = ?2 AND texts = ?3 AND verdict = 'kept')",
        params![share.id, item, texts.hash()],
    )
}

/// Ends the quarantine of an item that is gone, or harmless now.
pub(super) fn end(db: &Connection, share: &Share, item: &str) -> Result<(), StoreError> {
    db.run("DELETE FROM quarantine WHERE share = ?1 AND item = ?2", params![share.id, item])
}

/// Adjusts a verdict after this machine has changed the item. An accepted item stays accepted with the new texts.
pub(super) fn follow(
    db: &Connection,
    share: &Share,
    item: &str,
    state: &SharedItem,
) -> Result<(), StoreError> {
    let verdict: Option<Option<String>> =
        db.first("SELECT verdict FROM quarantine WHERE share = ?1 AND item = ?2", params![share.id, item])?;
    match verdict {
        None => Ok(()),
        Some(Some(kept)) if kept == "kept" && !state.is_empty() => db.run(
            "UPDATE quarantine SET texts = ?3 WHERE share = ?1 AND item = ?2",
            params![share.id, item, ItemTexts::of(state).hash()],
        ),
        Some(_) => end(db, share, item),
    }
}
