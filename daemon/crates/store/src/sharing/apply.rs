//! Merges what another machine logged. The entries, and how far that machine was read, are written in one
//! transaction.

use std::collections::BTreeMap;

use uuid::Uuid;

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::operation::{Operation, RemovedCopies, WriteContext};
use crate::sharing::elsewhere::Sender;
use crate::sharing::projection::Projection;
use crate::sharing::relations::Relations;
use crate::sharing::{Known, Share, empty_bodies, keep, known, share};
use recall_domain::ids::{SessionKey, ShareId, Timestamp};
use recall_domain::sync::fields::{MOST_FIELDS, are_valid};
use recall_domain::sync::item::{ItemChange, SharedItem};
use recall_domain::sync::kind::ItemKind;
use recall_domain::sync::record::{BEGINNING, BrokenChain, LogChain, Record, RecordContent};
use recall_domain::sync::{DeviceId, Stamp};

/// The latest time that is accepted from a machine's clock.
const LATEST_MS: i64 = 253_402_300_799_999;

/// The maximum number of entries of one machine that wait for a version that knows their kind.
const MOST_PARKED: u64 = 10_000;

/// Merges entries of another machine's log that follow those already read.
#[derive(Clone, Debug, PartialEq)]
pub struct ApplyRecords {
    pub share: ShareId,
    pub device: DeviceId,
    pub author: String,
    /// The device's name for people.
    pub name: String,
    pub records: Vec<Record>,
    /// The hash of the last entry.
    pub end: String,
    pub now: Timestamp,
}

/// The result of merging entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Applied {
    /// All were merged; `new` of them were not known yet.
    All { new: usize, touched: Vec<SessionKey> },
    /// Nothing was merged: entries before them are missing.
    Gap { known: u64, first: u64 },
    /// Nothing was merged: they do not continue the entries read before.
    WrongHash { at: u64 },
    /// Nothing was merged: too many entries of this machine already wait for a later version.
    TooManyParked,
    /// The project is no longer shared.
    #[default]
    NotShared,
}

impl Operation for ApplyRecords {
    type Output = Applied;

    fn execute(self, db: &WriteContext<'_>) -> Result<Applied, StoreError> {
        let Self { share: id, device, author, name, records, end, now } = self;
        let Some(share) = share(db, id)? else { return Ok(Applied::NotShared) };
        let head: Option<(u64, String)> = db.first(
            "SELECT seq, hash FROM sync_heads WHERE share = ?1 AND device = ?2",
            params![id, device],
        )?;
        let (seq, hash) = head.unwrap_or((0, BEGINNING.to_owned()));
        let new: Vec<Record> = records.into_iter().filter(|record| record.seq > seq).collect();
        let Some(last) = new.last().map(|record| record.seq) else {
            return Ok(Applied::All { new: 0, touched: Vec::new() });
        };
        let chain = LogChain { space: &share.space, device: &device };
        match chain.follow(seq, &hash, &new, &end) {
            Ok(_) => {}
            Err(BrokenChain::Gap { known, first }) => return Ok(Applied::Gap { known, first }),
            Err(BrokenChain::WrongHash { at }) => return Ok(Applied::WrongHash { at }),
        }
        let unknown = new.iter().filter(|record| record.is_unknown()).count() as u64;
        if unknown > 0 {
            let parked: u64 = db.one(
                "SELECT count(*) FROM sync_parked WHERE share = ?1 AND device = ?2",
                params![id, device],
            )?;
            if parked + unknown > MOST_PARKED {
                return Ok(Applied::TooManyParked);
            }
        }
        let mut pass = Pass::new(db, &share, now);
        for record in &new {
            pass.take(&device, record)?;
        }
        let refused = i64::try_from(pass.refused).unwrap_or(i64::MAX);
        // Before the rows, because what is recorded there names the device's author.
        db.run(
            "INSERT INTO sync_heads (share, device, author, name, seq, hash, at, refused) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT DO UPDATE SET author = excluded.author, name = excluded.name, seq = excluded.seq,
                hash = excluded.hash, at = excluded.at, refused = refused + excluded.refused",
            params![id, device, author, name, i64::try_from(last).unwrap_or(i64::MAX), end, now, refused],
        )?;
        let touched = pass.end()?;
        Ok(Applied::All { new: new.len(), touched })
    }
}

/// Merges entries that an earlier version did not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApplyParked {
    pub share: ShareId,
    pub now: Timestamp,
}

impl Operation for ApplyParked {
    /// The number of merged entries.
    type Output = usize;

    fn execute(self, db: &WriteContext<'_>) -> Result<usize, StoreError> {
        let Some(share) = share(db, self.share)? else { return Ok(0) };
        let parked: Vec<Parked> = db
            .all(&format!("{} WHERE share = ?1 ORDER BY device, seq", Parked::SELECT), params![self.share])?;
        let mut pass = Pass::new(db, &share, self.now);
        let mut applied = 0;
        for Parked { device, seq, kind, item, at, body } in parked {
            let record = Record { seq, kind, item, at, body, body_hash: String::new() };
            if record.is_unknown() {
                continue;
            }
            pass.take(&device, &record)?;
            applied += 1;
            db.run(
                "DELETE FROM sync_parked WHERE share = ?1 AND device = ?2 AND seq = ?3",
                params![share.id, device, i64::try_from(seq).unwrap_or(i64::MAX)],
            )?;
        }
        pass.end()?;
        Ok(applied)
    }
}

record! {
struct Parked from "sync_parked" {
    device: DeviceId = "device",
    seq: u64 = "seq",
    kind: String = "kind",
    item: String = "item",
    at: i64 = "at",
    body: Option<String> = "body",
}
}

/// Whether an item would have more fields than any version has. Each change of an item reads all of its fields.
fn has_too_many(item: &SharedItem, change: &ItemChange) -> bool {
    match change {
        ItemChange::Set(fields) => {
            item.len() + fields.keys().filter(|name| !item.has(name)).count() > MOST_FIELDS
        }
        ItemChange::Remove(_) => false,
    }
}

/// One merge of several entries.
struct Pass<'a> {
    db: &'a WriteContext<'a>,
    share: &'a Share,
    now: Timestamp,
    refused: u64,
    /// The changed items, in their present state, and who has changed them.
    items: BTreeMap<String, (Known, Option<Sender>)>,
}

impl<'a> Pass<'a> {
    fn new(db: &'a WriteContext<'a>, share: &'a Share, now: Timestamp) -> Self {
        // Others have already removed it themselves.
        db.set_removed_copies(RemovedCopies::Stay);
        Self { db, share, now, refused: 0, items: BTreeMap::new() }
    }

    fn take(&mut self, device: &DeviceId, record: &Record) -> Result<(), StoreError> {
        let Record { seq, kind, item, at, body, .. } = record;
        let is_uuid = Uuid::parse_str(item).is_ok_and(|uuid| uuid.to_string() == *item);
        if !is_uuid || !(0..=LATEST_MS).contains(at) {
            self.refused += 1;
            return Ok(());
        }
        match record.content() {
            RecordContent::Empty => Ok(()),
            RecordContent::Unknown => self.db.run(
                "INSERT OR REPLACE INTO sync_parked (share, device, seq, kind, item, at, body)
                 VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                params![self.share.id, device, i64::try_from(*seq).unwrap_or(i64::MAX), kind, item, at, body],
            ),
            RecordContent::Change(ItemChange::Set(fields)) if !are_valid(ItemKind::of(item), &fields) => {
                self.refused += 1;
                Ok(())
            }
            RecordContent::Malformed => {
                self.refused += 1;
                Ok(())
            }
            RecordContent::Change(change) => {
                let (mut changed, before) = match self.items.remove(item) {
                    Some(changed) => changed,
                    None => (known(self.db, self.share.id, item)?.unwrap_or_default(), None),
                };
                let sender = Sender { device: device.clone(), cause: record.cause(), at: *at };
                if has_too_many(&changed.item, &change) {
                    self.refused += 1;
                } else {
                    changed.item.merge(&change, &Stamp { at: *at, device: device.clone() });
                }
                if changed.item.removed().is_some() {
                    empty_bodies(self.db, self.share.id, item)?;
                }
                self.items.insert(item.clone(), (changed, Some(Sender::join(before, sender))));
                Ok(())
            }
        }
    }

    /// Writes the results into rows. Returns the sessions that lost something.
    fn end(self) -> Result<Vec<SessionKey>, StoreError> {
        let (mut touched, mut relations) = (Vec::new(), Relations::default());
        for (item, (mut known, sender)) in self.items {
            let (db, sender) = (self.db, sender.as_ref());
            let projection = Projection { db, share: self.share, sender, now: self.now };
            relations.add(db, &item, known.row)?;
            touched.extend(projection.project(&item, &mut known)?);
            relations.add(db, &item, known.row)?;
            keep(self.db, self.share.id, &item, &known)?;
        }
        relations.wait(self.db, self.share.id)?;
        Ok(touched)
    }
}
