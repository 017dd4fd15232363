//! Prompts and final answers, for shares that include them. An item's name is derived from its session and its text,
//! so an item never changes: another text is another item.
//!
//! Those of other machines are in a separate table, so nothing that reads the user's prompts finds them.

use rusqlite::Connection;

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::database::text::Packed;
use crate::forgetting::is_forgotten;
use crate::operation::{WriteContext, log};
use crate::sharing::home::{number_of, text};
use crate::sharing::{Known, Share};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::{ProjectRow, ShareId, Timestamp};
use recall_domain::sync::fields::session_of;
use recall_domain::sync::item::SharedItem;
use recall_domain::sync::kind::{ItemKind, message_of};

record! {
/// A prompt or an answer of another machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedTextRow from "said_elsewhere t JOIN shares h ON h.id = t.share" {
    pub id: i64 = "t.id",
    pub share: ShareId = "t.share",
    pub uuid: String = "t.uuid",
    /// `Prompt` or `Response`.
    pub kind: DocumentKind = "t.kind",
    pub text: String = "t.text",
    pub author: String = "t.author",
    pub device: String = "t.device",
    pub created_at: Timestamp = "t.created_at",
    pub project: ProjectRow = "h.project",
}
}

pub(crate) fn received_text(db: &Connection, id: i64) -> Result<Option<ReceivedTextRow>, StoreError> {
    db.first(&format!("{} WHERE t.id = ?1", ReceivedTextRow::SELECT), [id])
}

/// Finds the batch of this machine's own session that has the same text.
pub(super) fn adopt(db: &Connection, share: &Share, item: &str, known: &mut Known) -> Result<(), StoreError> {
    let Some(session) = session_of(&known.item) else { return Ok(()) };
    let kind = ItemKind::of(item);
    let column = if kind == ItemKind::Answer { "response" } else { "prompt" };
    let own: Vec<(i64, String)> = db.all(
        &format!(
            "SELECT b.id, b.{column} FROM prompt_batches b JOIN sessions s ON s.id = b.session
             WHERE s.agent = ?1 AND s.session_id = ?2 AND s.project = ?3 AND b.{column} IS NOT NULL"
        ),
        params![session.agent.as_str(), session.id.as_str(), share.project.0],
    )?;
    known.row =
        own.into_iter().find(|(_, text)| message_of(&session, kind, text) == item).map(|(row, _)| row);
    Ok(())
}

/// Whether its session was forgotten here, or the text arrived by another share.
pub(super) fn is_unwanted(db: &Connection, item: &str, state: &SharedItem) -> Result<bool, StoreError> {
    let Some(session) = session_of(state) else { return Ok(true) };
    Ok(is_forgotten(db, &session)?
        || db.one("SELECT EXISTS (SELECT 1 FROM said_elsewhere WHERE uuid = ?1)", [item])?)
}

/// Inserts a row. Returns its number in `sync_items`.
pub(super) fn insert(
    db: &WriteContext<'_>,
    share: &Share,
    item: &str,
    state: &SharedItem,
) -> Result<i64, StoreError> {
    db.run(
        "INSERT INTO said_elsewhere (share, uuid, kind, text, author, device, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            share.id,
            item,
            ItemKind::of(item).document().as_str(),
            Packed(text(state, "text")),
            text(state, "author"),
            text(state, "device"),
            state.get("created_at").as_i64()
        ],
    )?;
    let key = DocumentKey { kind: DocumentKind::ReceivedText, row: db.last_insert_rowid() };
    log(db, key)?;
    Ok(number_of(key))
}

/// Updates the author. Two machines that know the same session both name an author, and all others keep the same one.
pub(super) fn update(db: &WriteContext<'_>, key: DocumentKey, state: &SharedItem) -> Result<(), StoreError> {
    if key.kind != DocumentKind::ReceivedText {
        return Ok(());
    }
    let (author, device) = (text(state, "author"), text(state, "device"));
    let changed = db.update(
        "UPDATE said_elsewhere SET author = ?2, device = ?3, created_at = ifnull(?4, created_at)
         WHERE id = ?1 AND (author, device, created_at) IS NOT (?2, ?3, ifnull(?4, created_at))",
        params![key.row, author, device, state.get("created_at").as_i64()],
    )?;
    if changed > 0 { log(db, key) } else { Ok(()) }
}
