//! Appends what this machine changes of shared notes, in the transaction of the change.
//!
//! An operation reports each observation that it writes or removes. At its end the rows are compared with the merged
//! state of their notes, and what differs is logged. So no writer has to know of sharing, and the same change is never
//! logged twice.

use std::collections::BTreeSet;

use rusqlite::Connection;
use serde_json::{Value, json};
use uuid::Uuid;

use super::super::StoreError;
use super::super::operation::{Operation, RemovedCopies, WriteContext};
use super::super::row::{Sql, record};
use super::{Known, Share, Wanted, empty_bodies, keep, known, share};
use crate::Reader;
use crate::bind::params;
use recall_domain::ids::{ProjectRow, ShareId, Timestamp};
use recall_domain::sync::Stamp;
use recall_domain::sync::fields::is_personal;
use recall_domain::sync::item::{Change, Fields, Removal};
use recall_domain::sync::record::{Chain, Record};

/// Logs what became of the touched observations.
pub(in super::super) fn append(
    db: &WriteContext<'_>,
    touched: &BTreeSet<i64>,
    removed: RemovedCopies,
) -> Result<(), StoreError> {
    if touched.is_empty() || !db.one::<bool>("SELECT EXISTS (SELECT 1 FROM shares)", [])? {
        return Ok(());
    }
    for row in touched {
        match SharedColumns::of(db, *row)? {
            Some(columns) => {
                for share in shares_of(db, &columns)? {
                    log_row(db, &share, *row, &columns)?;
                }
            }
            None => log_removal(db, *row, removed)?,
        }
    }
    Ok(())
}

record! {
/// What is shared of an observation.
struct SharedColumns from "observations" {
    uuid: String = "uuid",
    project: ProjectRow = "project",
    share: Option<ShareId> = "share",
    kind: String = "type",
    title: String = "title",
    subtitle: Option<String> = "subtitle",
    narrative: String = "narrative",
    facts: Vec<String> = "facts",
    concepts: Vec<String> = "concepts",
    files_read: Vec<String> = "files_read",
    files_modified: Vec<String> = "files_modified",
    importance: i64 = "importance",
    origin: String = "origin",
    created_at: i64 = "created_at",
    is_pinned: bool = "pinned_at IS NOT NULL",
    is_reviewed: bool = "reviewed_at IS NOT NULL",
    is_rejected: bool = "rejected_at IS NOT NULL",
    /// Whoever imports a note does not become its author.
    author: Option<String> = "author",
    device: Option<String> = "device",
    /// A newer note may cover it all the same, so its status does not tell.
    is_resolved: bool = "EXISTS (SELECT 1 FROM lineage WHERE older = observations.id AND newer IS NULL AND NOT undone)",
}
}

impl SharedColumns {
    fn of(db: &Connection, row: i64) -> Result<Option<Self>, StoreError> {
        db.first(&format!("{} WHERE id = ?1", Self::SELECT), [row])
    }

    /// The fields that may change.
    fn fields(&self, share: &Share) -> Fields {
        let mut fields: Fields = [
            ("type", json!(self.kind)),
            ("title", json!(self.title)),
            ("subtitle", json!(self.subtitle)),
            ("narrative", json!(self.narrative)),
            ("facts", json!(self.facts)),
            ("concepts", json!(self.concepts)),
            ("files_read", json!(self.files_read)),
            ("files_modified", json!(self.files_modified)),
            ("importance", json!(self.importance)),
            ("resolved", json!(self.is_resolved)),
            // Nobody says that a note is not rejected, so older notes are not logged anew.
            ("rejected", json!(self.is_rejected.then_some(true))),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into();
        if share.is_personal {
            fields.insert("pinned".to_owned(), json!(self.is_pinned));
            fields.insert("reviewed".to_owned(), json!(self.is_reviewed.then_some(true)));
        }
        fields
    }

    /// The fields that are said once.
    fn beginning(&self, share: &Share) -> [(String, Value); 4] {
        [
            ("origin", json!(self.origin)),
            ("created_at", json!(self.created_at)),
            ("author", json!(self.author.as_ref().unwrap_or(&share.author))),
            ("device", json!(self.device.as_ref().unwrap_or(&share.device_name))),
        ]
        .map(|(name, value)| (name.to_owned(), value))
    }
}

/// The shares that an observation belongs to. One of another machine belongs to the share that it came by.
fn shares_of(db: &Connection, columns: &SharedColumns) -> Result<Vec<Share>, StoreError> {
    match columns.share {
        Some(id) => Ok(share(db, id)?.into_iter().collect()),
        None => {
            db.all(&format!("{} WHERE s.project = ?1 ORDER BY s.id", Share::SELECT), params![columns.project])
        }
    }
}

fn log_row(
    db: &WriteContext<'_>,
    share: &Share,
    row: i64,
    columns: &SharedColumns,
) -> Result<(), StoreError> {
    let item = columns.uuid.as_str();
    let found = known(db, share.id, item)?;
    let is_new = found.is_none();
    let mut known = found.unwrap_or_default();
    if known.item.removed.is_some() {
        return Ok(());
    }
    known.row = Some(row);
    if !share.is_personal && is_personal(&columns.kind) {
        // Whoever had it loses it, unless it is not ours to take back.
        return match (is_new, columns.share) {
            (false, None) => log_change(db, share, item, known, Change::Remove(Removal::Withdrawn)),
            _ => Ok(()),
        };
    }
    let mut fields = columns.fields(share);
    if !known.item.has("created_at") {
        fields.extend(columns.beginning(share));
    }
    let differing = known.item.difference(&fields);
    match differing.is_empty() {
        true => keep(db, share.id, item, &known),
        false => log_change(db, share, item, known, Change::Set(differing)),
    }
}

fn log_removal(db: &WriteContext<'_>, row: i64, removed: RemovedCopies) -> Result<(), StoreError> {
    let items: Vec<(ShareId, String)> =
        db.all("SELECT share, item FROM sync_items WHERE row = ?1 ORDER BY share", [row])?;
    for (id, item) in items {
        let Some(mut known) = known(db, id, &item)? else { continue };
        known.row = None;
        let removal = match removed {
            RemovedCopies::Withdrawn => Some(Removal::Withdrawn),
            RemovedCopies::Forgotten => Some(Removal::Forgotten),
            RemovedCopies::Stay => None,
        };
        match (removal, share(db, id)?) {
            (Some(removal), Some(share)) if known.item.removed.is_none() => {
                log_change(db, &share, &item, known, Change::Remove(removal))?;
            }
            _ => {
                known.wanted = Wanted::No;
                keep(db, id, &item, &known)?;
            }
        }
    }
    Ok(())
}

/// Removes what the log says of these observations, and says how they are now. Texts from before are gone then.
pub(in super::super) fn say_anew(db: &WriteContext<'_>, rows: &BTreeSet<i64>) -> Result<(), StoreError> {
    for row in rows {
        let Some(columns) = SharedColumns::of(db, *row)? else { continue };
        for share in shares_of(db, &columns)? {
            let item = columns.uuid.as_str();
            let Some(found) = known(db, share.id, item)? else { continue };
            if found.item.removed.is_some() || found.row != Some(*row) {
                continue;
            }
            empty_bodies(db, share.id, item)?;
            let mut fields = columns.fields(&share);
            // Whose it is stays as it was said first.
            for (name, value) in columns.beginning(&share) {
                let said = found.item.get(&name).clone();
                fields.insert(name, if said.is_null() { value } else { said });
            }
            log_change(db, &share, item, found, Change::Set(fields))?;
        }
    }
    Ok(())
}

fn log_change(
    db: &WriteContext<'_>,
    share: &Share,
    item: &str,
    mut known: Known,
    change: Change,
) -> Result<(), StoreError> {
    if let Change::Remove(_) = change {
        empty_bodies(db, share.id, item)?;
    }
    let (seq, before) = Reader(db).log_head(share.id)?;
    let at = known.item.next_at(now(db)?);
    let record = Record::of(seq + 1, item, at, &change, &Uuid::new_v4().simple().to_string());
    let hash = Chain { space: &share.space, device: &share.device }.hash(&before, &record);
    let Record { seq, kind, item, at, body, body_hash } = record;
    db.run(
        "INSERT INTO sync_log (share, seq, kind, item, at, body, body_hash, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![share.id, i64::try_from(seq).unwrap_or(i64::MAX), kind, item, at, body, body_hash, hash],
    )?;
    known.item.merge(&change, &Stamp { at, device: share.device.clone() });
    keep(db, share.id, &item, &known)
}

/// SQLite's clock, because an operation's own time may be that of an old event.
fn now(db: &Connection) -> Result<Timestamp, StoreError> {
    db.one("SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)", [])
}

/// Logs notes that were there before their project was shared, a few at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogExisting {
    pub share: ShareId,
    pub most: u32,
}

/// Whether there are more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    Nothing,
    Some,
}

impl Operation for LogExisting {
    type Output = Left;

    fn execute(self, db: &WriteContext<'_>) -> Result<Left, StoreError> {
        let Some(share) = share(db, self.share)? else { return Ok(Left::Nothing) };
        let rows: Vec<i64> = db.all(
            "SELECT id FROM observations WHERE project = ?1 AND share IS NULL
                AND id > (SELECT logged_upto FROM shares WHERE id = ?2) ORDER BY id LIMIT ?3",
            params![share.project.0, share.id, self.most],
        )?;
        for row in &rows {
            if let Some(columns) = SharedColumns::of(db, *row)? {
                log_row(db, &share, *row, &columns)?;
            }
        }
        let Some(last) = rows.last() else { return Ok(Left::Nothing) };
        db.run("UPDATE shares SET logged_upto = ?2 WHERE id = ?1", params![share.id, last])?;
        Ok(if rows.len() < self.most as usize { Left::Nothing } else { Left::Some })
    }
}
