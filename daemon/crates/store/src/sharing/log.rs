//! Appends this machine's changes of shared notes to its log, in the transaction of the change.
//!
//! An operation reports each observation, summary and plan that it writes or removes. At its end the rows are
//! compared with the merged state of their items, and the differences are logged. So code that writes rows need not
//! know of sharing, and the same change is never logged twice.

use std::collections::BTreeSet;

use rusqlite::Connection;
use serde_json::Value;
use uuid::Uuid;

use crate::database::bind::params;
use crate::database::row::Sql;
use crate::operation::{Operation, RemovedCopies, WriteContext};
use crate::sharing::home::{key_of, number_of};
use crate::sharing::shared_row::SharedRow;
use crate::sharing::{Known, Share, Wanted, empty_bodies, keep, known, quarantine, share};
use crate::{Reader, StoreError};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::{ObservationId, ShareId, Timestamp};
use recall_domain::sync::Stamp;
use recall_domain::sync::item::{ItemChange, ItemRemoval};
use recall_domain::sync::kind::ItemKind;
use recall_domain::sync::record::{Cause, CausedChange, LogChain, Record};

/// Logs the changes of the touched rows.
pub(crate) fn append(
    db: &WriteContext<'_>,
    touched: &BTreeSet<DocumentKey>,
    removed: RemovedCopies,
) -> Result<(), StoreError> {
    if touched.is_empty() || !db.one::<bool>("SELECT EXISTS (SELECT 1 FROM shares)", [])? {
        return Ok(());
    }
    for key in touched {
        match SharedRow::of(db, *key)? {
            Some(row) => {
                let shares = row.shares(db)?;
                withdraw_elsewhere(db, &row, &shares)?;
                for share in shares {
                    log_row(db, &share, &row)?;
                }
            }
            None => log_removal(db, *key, removed)?,
        }
    }
    Ok(())
}

pub(super) fn log_row(db: &WriteContext<'_>, share: &Share, row: &SharedRow) -> Result<(), StoreError> {
    let item = row.item.as_str();
    let found = known(db, share.id, item)?;
    let is_new = found.is_none();
    let mut known = found.unwrap_or_default();
    if known.item.is_gone_for_good() {
        return Ok(());
    }
    let before = known.row.replace(number_of(row.key));
    if !row.leaves_by(share) {
        // Others lose it, unless it belongs to another machine.
        return match (is_new || known.item.is_empty(), row.share) {
            (false, None) => log_change(db, share, item, known, ItemChange::Remove(ItemRemoval::Withdrawn)),
            _ => Ok(()),
        };
    }
    // Until now only another machine had the session.
    if let Some(others) = before.filter(|number| *number != number_of(row.key)) {
        let others = key_of(item, others);
        if others.kind == DocumentKind::ReceivedText {
            quarantine::remove(db, others)?;
        }
    }
    let mut fields = row.fields(share);
    let beginning = row.beginning(share);
    // Another machine may know the same session, and more of it.
    let at = ItemKind::of(item).made_at();
    if row.key.kind != DocumentKind::Observation
        && known.item.get(at).as_i64() > fields.get(at).and_then(Value::as_i64)
    {
        return keep(db, share.id, item, &known);
    }
    if !beginning.keys().all(|name| known.item.has(name)) {
        fields.extend(beginning);
    }
    let differing = known.item.difference(&fields);
    match differing.is_empty() {
        true if before == known.row => Ok(()),
        true => keep(db, share.id, item, &known),
        false => log_change(db, share, item, known, ItemChange::Set(differing)),
    }
}

/// Returns a row's items in all shares.
fn items_of(db: &Connection, key: DocumentKey) -> Result<Vec<(ShareId, String)>, StoreError> {
    let number = number_of(key);
    let mut items: Vec<(ShareId, String)> =
        db.all("SELECT share, item FROM sync_items WHERE row = ?1 ORDER BY share", [number])?;
    // Rows of two tables may have the same number.
    items.retain(|(_, item)| key_of(item, number) == key);
    Ok(items)
}

/// Withdraws a row from shares that no longer include it, because its project or its name has changed.
fn withdraw_elsewhere(db: &WriteContext<'_>, row: &SharedRow, shares: &[Share]) -> Result<(), StoreError> {
    // An observation does not move; it is created again.
    if row.key.kind == DocumentKind::Observation || row.share.is_some() {
        return Ok(());
    }
    for (id, item) in items_of(db, row.key)? {
        if shares.iter().any(|share| share.id == id) && item == row.item {
            continue;
        }
        if let (Some(mut known), Some(share)) = (known(db, id, &item)?, share(db, id)?) {
            known.row = None;
            log_change(db, &share, &item, known, ItemChange::Remove(ItemRemoval::Withdrawn))?;
        }
    }
    Ok(())
}

fn log_removal(db: &WriteContext<'_>, key: DocumentKey, removed: RemovedCopies) -> Result<(), StoreError> {
    for (id, item) in items_of(db, key)? {
        let Some(mut known) = known(db, id, &item)? else { continue };
        known.row = None;
        let removal = match removed {
            RemovedCopies::Withdrawn => Some(ItemRemoval::Withdrawn),
            RemovedCopies::Forgotten => Some(ItemRemoval::Forgotten),
            RemovedCopies::Stay => None,
        };
        match (removal, share(db, id)?) {
            (Some(removal), Some(share)) if known.item.removed().is_none() => {
                log_change(db, &share, &item, known, ItemChange::Remove(removal))?;
            }
            _ => {
                known.wanted = Wanted::No;
                keep(db, id, &item, &known)?;
            }
        }
    }
    Ok(())
}

/// Empties the logged bodies of these observations, and logs their present state. Earlier texts are gone then.
pub(crate) fn log_again(db: &WriteContext<'_>, rows: &BTreeSet<ObservationId>) -> Result<(), StoreError> {
    for id in rows {
        let Some(row) = SharedRow::of(db, (*id).into())? else { continue };
        for share in row.shares(db)? {
            let item = row.item.as_str();
            let Some(found) = known(db, share.id, item)? else { continue };
            if found.item.removed().is_some() || found.row != Some(id.0) {
                continue;
            }
            empty_bodies(db, share.id, item)?;
            let mut fields = row.fields(&share);
            // The author stays as first logged.
            for (name, value) in row.beginning(&share) {
                let logged = found.item.get(&name).clone();
                fields.insert(name, if logged.is_null() { value } else { logged });
            }
            log_change(db, &share, item, found, ItemChange::Set(fields))?;
        }
    }
    Ok(())
}

fn log_change(
    db: &WriteContext<'_>,
    share: &Share,
    item: &str,
    mut known: Known,
    change: ItemChange,
) -> Result<(), StoreError> {
    if let ItemChange::Remove(_) = change {
        empty_bodies(db, share.id, item)?;
    }
    let (seq, before) = Reader(db).log_head(share.id)?;
    let at = known.item.next_at(now(db)?);
    let is_by_hand = known.row.is_some_and(|row| db.is_changed_by_hand(row));
    let cause = match ItemKind::of(item) {
        ItemKind::Observation if is_by_hand => Cause::Person,
        _ => Cause::Machine,
    };
    let salt = Uuid::new_v4().simple().to_string();
    let record = Record::of(seq + 1, item, at, CausedChange { cause, change: &change }, &salt);
    let hash = LogChain { space: &share.space, device: &share.device }.hash(&before, &record);
    let Record { seq, kind, item, at, body, body_hash } = record;
    db.run(
        "INSERT INTO sync_log (share, seq, kind, item, at, body, body_hash, hash) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)",
        params![share.id, i64::try_from(seq).unwrap_or(i64::MAX), kind, item, at, body, body_hash, hash],
    )?;
    known.item.merge(&change, &Stamp { at, device: share.device.clone() });
    quarantine::follow(db, share, &item, &known.item)?;
    keep(db, share.id, &item, &known)
}

/// Reads SQLite's clock, because an operation's own time may be that of an old event.
fn now(db: &Connection) -> Result<Timestamp, StoreError> {
    db.one("SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER)", [])
}

/// Logs items from before the share, a few at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogExisting {
    pub share: ShareId,
    pub most: u32,
}

/// Withdraws this machine's items of one kind, because the share no longer includes them.
pub(super) fn withdraw_items(db: &WriteContext<'_>, share: &Share, kind: ItemKind) -> Result<(), StoreError> {
    let items: Vec<String> =
        db.all("SELECT item FROM sync_items WHERE share = ?1 AND row > 0", params![share.id])?;
    for item in items.iter().filter(|item| ItemKind::of(item) == kind) {
        match known(db, share.id, item)? {
            Some(mut known) if known.item.removed().is_none() => {
                known.row = None;
                log_change(db, share, item, known, ItemChange::Remove(ItemRemoval::Withdrawn))?;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whether more items are left to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    Nothing,
    Some,
}

/// Rows of one kind that existed before their project was shared.
struct Existing {
    kind: DocumentKind,
    /// Finds a project's rows of this machine, after those that were logged.
    find: &'static str,
    /// The number of the table's last row. Only for tables that also have rows of other machines.
    last: Option<&'static str>,
    /// Keeps the number up to which they were logged.
    keep_upto: &'static str,
}

const EXISTING: [Existing; 5] = [
    Existing {
        kind: DocumentKind::Observation,
        find: "SELECT id FROM observations WHERE project = ?1 AND share IS NULL
            AND id > (SELECT logged_upto FROM shares WHERE id = ?2) ORDER BY id LIMIT ?3",
        last: Some("SELECT max(id) FROM observations"),
        keep_upto: "UPDATE shares SET logged_upto = ?2 WHERE id = ?1 AND logged_upto < ?2",
    },
    Existing {
        kind: DocumentKind::Summary,
        find: "SELECT id FROM session_summaries WHERE project = ?1 AND share IS NULL
            AND id > (SELECT summaries_logged_upto FROM shares WHERE id = ?2) ORDER BY id LIMIT ?3",
        last: Some("SELECT max(id) FROM session_summaries"),
        keep_upto: "UPDATE shares SET summaries_logged_upto = ?2 WHERE id = ?1 AND summaries_logged_upto < ?2",
    },
    Existing {
        kind: DocumentKind::Plan,
        find: "SELECT l.id FROM plans l JOIN sessions s ON s.id = l.session WHERE s.project = ?1
            AND l.id > (SELECT plans_logged_upto FROM shares WHERE id = ?2) ORDER BY l.id LIMIT ?3",
        last: None,
        keep_upto: "UPDATE shares SET plans_logged_upto = ?2 WHERE id = ?1",
    },
    Existing {
        kind: DocumentKind::Prompt,
        find: "SELECT b.id FROM prompt_batches b JOIN sessions s ON s.id = b.session
         WHERE s.project = ?1 AND b.prompt IS NOT NULL AND (SELECT prompts FROM shares WHERE id = ?2)
            AND b.id > (SELECT prompts_logged_upto FROM shares WHERE id = ?2) ORDER BY b.id LIMIT ?3",
        last: None,
        keep_upto: "UPDATE shares SET prompts_logged_upto = ?2 WHERE id = ?1",
    },
    Existing {
        kind: DocumentKind::Response,
        find: "SELECT b.id FROM prompt_batches b JOIN sessions s ON s.id = b.session
         WHERE s.project = ?1 AND b.response IS NOT NULL AND (SELECT answers FROM shares WHERE id = ?2)
            AND b.id > (SELECT answers_logged_upto FROM shares WHERE id = ?2) ORDER BY b.id LIMIT ?3",
        last: None,
        keep_upto: "UPDATE shares SET answers_logged_upto = ?2 WHERE id = ?1",
    },
];

impl Operation for LogExisting {
    type Output = Left;

    fn execute(self, db: &WriteContext<'_>) -> Result<Left, StoreError> {
        let Some(share) = share(db, self.share)? else { return Ok(Left::Nothing) };
        for Existing { kind, find, last, keep_upto } in EXISTING {
            let rows: Vec<i64> = db.all(find, params![share.project.0, share.id, self.most])?;
            for row in &rows {
                if let Some(row) = SharedRow::of(db, DocumentKey { kind, row: *row })? {
                    log_row(db, &share, &row)?;
                }
            }
            let is_full = rows.len() >= self.most as usize;
            let upto = match last {
                // Later rounds skip the thousands of rows that a pull has added. New rows of this machine are logged
                // when they are written.
                Some(last) if !is_full => db.one(last, [])?,
                _ => rows.last().copied(),
            };
            if let Some(upto) = upto {
                db.run(keep_upto, params![share.id, upto])?;
            }
            if is_full {
                return Ok(Left::Some);
            }
        }
        Ok(Left::Nothing)
    }
}
