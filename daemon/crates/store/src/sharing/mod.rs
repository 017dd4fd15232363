//! Notes, summaries and plans that are shared with other machines: the shares, this machine's changes, and others'
//! items.
//!
//! `log.rs` appends this machine's changes, in the transaction of the change. `apply.rs` merges what other machines
//! logged, and `projection.rs` writes the result into rows. A row then equals the merged state, so the log has
//! nothing to add: others' changes are never logged again. `quarantine.rs` keeps items that read like instructions
//! out of the rows, until a person decides (`judging.rs`). `elsewhere.rs` records others' changes for an undo.
//!
//! **Invariant:** nothing is logged, read or stored here for a project that is not shared.

mod apply;
mod elsewhere;
mod home;
mod judging;
mod log;
mod of_sessions;
mod projection;
mod quarantine;
mod relations;
mod shared_texts;
mod shared_row;
mod shares;
#[cfg(test)]
mod tests;

use rusqlite::Connection;

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::sharing::home::text;
use crate::{Reader, StoreError};
use recall_domain::document::DocumentKey;
use recall_domain::ids::{ProjectRow, ShareId, Timestamp};
use recall_domain::observation::NoteOrigin;
use recall_domain::sync::DeviceId;
use recall_domain::sync::item::SharedItem;
use recall_domain::sync::record::Record;

pub use apply::{Applied, ApplyParked, ApplyRecords};
pub use judging::{JudgeQuarantined, JudgedQuarantine, Quarantined};
pub(crate) use judging::{JudgedBefore, judged, judged_as, unjudge};
pub use log::{Left, LogExisting};
pub(super) use log::{append, log_again};
pub(super) use of_sessions::{claim_plan, claim_summary};
pub use relations::CompareArrived;
pub use shared_texts::ReceivedTextRow;
pub(crate) use shared_texts::received_text;
pub use shares::{
    AcceptMarker, CloseShare, EmptiedSent, HoldBack, KnowProject, OpenShare, Preview, PreviewText,
    RenewDevice, ShareTerms,
};

record! {
/// A project that is shared through a remote.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Share from "shares s JOIN projects p ON p.id = s.project" {
    pub id: ShareId = "s.id",
    pub project: ProjectRow = "s.project",
    pub project_name: String = "p.name",
    pub remote: String = "s.remote",
    pub space: String = "s.space",
    /// The name of this data folder.
    pub device: DeviceId = "s.device",
    pub author: String = "s.author",
    pub device_name: String = "s.device_name",
    /// Whether others' notes are delivered to sessions. Otherwise they can only be searched.
    pub injects: bool = "s.inject",
    /// Whether all machines belong to one person. If so, preferences, corrections and pins are shared, too.
    pub is_personal: bool = "s.personal",
    /// Whether prompts are shared; `has_answers` says the same of final answers.
    pub has_prompts: bool = "s.prompts",
    pub has_answers: bool = "s.answers",
    pub marker: Option<String> = "s.marker",
}
}

impl Share {
    pub fn terms(&self) -> ShareTerms {
        ShareTerms {
            injects: self.injects,
            is_personal: self.is_personal,
            has_prompts: self.has_prompts,
            has_answers: self.has_answers,
        }
    }

    /// Returns the origin to store for another machine's item.
    fn origin_of(&self, state: &SharedItem) -> NoteOrigin {
        let origin = NoteOrigin::from(text(state, "origin"));
        if self.is_personal { origin } else { origin.shared() }
    }
}

impl Reader<'_> {
    pub fn shares(self) -> Result<Vec<Share>, StoreError> {
        let db = self.0;
        db.all(&format!("{} ORDER BY p.name, s.remote", Share::SELECT), [])
    }

    /// Returns how far the logs of other machines were read.
    pub fn heads(self, share: ShareId) -> Result<Vec<ReadHead>, StoreError> {
        let db = self.0;
        db.all(
            &format!("{} WHERE share = ?1 ORDER BY author, name, device", ReadHead::SELECT),
            params![share],
        )
    }

    /// Returns the entries of this machine's log with these numbers, at most `most`.
    pub fn logged(
        self,
        share: ShareId,
        (first, last): (u64, u64),
        most: u32,
    ) -> Result<Vec<Logged>, StoreError> {
        let db = self.0;
        let sql = format!(
            "{} WHERE share = ?1 AND seq BETWEEN ?2 AND ?3 ORDER BY seq LIMIT ?4",
            LoggedColumns::SELECT
        );
        let number = |seq: u64| i64::try_from(seq).unwrap_or(i64::MAX);
        let rows: Vec<LoggedColumns> =
            db.all(&sql, crate::database::bind::params![share, number(first), number(last), most])?;
        Ok(rows.into_iter().map(Logged::from).collect())
    }

    /// Returns the number and the hash of the last entry of this machine's log; 0 if there is none.
    pub fn log_head(self, share: ShareId) -> Result<(u64, String), StoreError> {
        let db = self.0;
        let head = db.first(
            "SELECT seq, hash FROM sync_log WHERE share = ?1 ORDER BY seq DESC LIMIT 1",
            params![share],
        )?;
        Ok(head.unwrap_or_default())
    }

    /// Returns the entries that were emptied here, and whose body may still be in the remote.
    pub fn emptied(self, share: ShareId) -> Result<Vec<u64>, StoreError> {
        let db = self.0;
        db.all("SELECT seq FROM sync_log WHERE share = ?1 AND emptied ORDER BY seq", params![share])
    }

    pub fn held_back(self, share: ShareId) -> Result<Vec<Held>, StoreError> {
        let db = self.0;
        let sql = format!(
            "{} WHERE l.share = ?1 AND l.held IS NOT NULL AND l.body IS NOT NULL ORDER BY l.seq",
            Held::SELECT
        );
        db.all(&sql, params![share])
    }

    /// Counts the deletions that this machine has logged: all of them, and those up to an entry.
    pub fn count_deletions(self, share: ShareId, upto: u64) -> Result<(u64, u64), StoreError> {
        let db = self.0;
        db.one(
            "SELECT count(*), count(*) FILTER (WHERE seq <= ?2) FROM sync_log WHERE share = ?1 AND kind = 'forget'",
            params![share, i64::try_from(upto).unwrap_or(i64::MAX)],
        )
    }

    /// Returns the newest deletions that this machine has logged after an entry, with their times.
    pub fn deletions_after(
        self,
        share: ShareId,
        seq: u64,
        most: u32,
    ) -> Result<Vec<(u64, Timestamp)>, StoreError> {
        let db = self.0;
        db.all(
            "SELECT seq, at FROM sync_log WHERE share = ?1 AND kind = 'forget' AND seq > ?2 ORDER BY seq DESC LIMIT ?3",
            params![share, i64::try_from(seq).unwrap_or(i64::MAX), most],
        )
    }

    /// Counts the entries of other machines that wait for a version of recall that knows their kind.
    pub fn count_parked(self, share: ShareId) -> Result<u64, StoreError> {
        let db = self.0;
        db.one("SELECT count(*) FROM sync_parked WHERE share = ?1", params![share])
    }

    /// Counts the items of others that wait for a person, because they read like instructions.
    pub fn count_quarantined(self, share: ShareId) -> Result<u64, StoreError> {
        let db = self.0;
        db.one("SELECT count(*) FROM quarantine WHERE share = ?1 AND verdict IS NULL", params![share])
    }

    /// Counts the notes, summaries and plans of others.
    pub fn count_foreign(self, share: ShareId) -> Result<u64, StoreError> {
        let db = self.0;
        db.one(
            "SELECT (SELECT count(*) FROM observations WHERE share = ?1)
                + (SELECT count(*) FROM session_summaries WHERE share = ?1)
                + (SELECT count(*) FROM plans WHERE share = ?1)
                + (SELECT count(*) FROM said_elsewhere WHERE share = ?1)",
            params![share],
        )
    }
}

fn share(db: &Connection, id: ShareId) -> Result<Option<Share>, StoreError> {
    db.first(&format!("{} WHERE s.id = ?1", Share::SELECT), params![id])
}

record! {
/// How far another machine's log was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReadHead from "sync_heads" {
    pub device: DeviceId = "device",
    pub author: String = "author",
    pub name: String = "name",
    pub seq: u64 = "seq",
    pub hash: String = "hash",
    /// When entries of it were last read.
    pub at: Timestamp = "at",
    /// The number of entries that could not be used.
    pub refused: u64 = "refused",
}
}

/// An entry of this machine's log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Logged {
    pub record: Record,
    pub hash: String,
}

record! {
struct LoggedColumns from "sync_log" {
    seq: u64 = "seq",
    kind: String = "kind",
    item: String = "item",
    at: i64 = "at",
    body: Option<String> = "body",
    body_hash: String = "body_hash",
    hash: String = "hash",
}
}

impl From<LoggedColumns> for Logged {
    fn from(row: LoggedColumns) -> Self {
        let LoggedColumns { seq, kind, item, at, body, body_hash, hash } = row;
        Self { record: Record { seq, kind, item, at, body, body_hash }, hash }
    }
}

record! {
/// A change that does not leave this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held from "sync_log l LEFT JOIN sync_items i ON i.share = l.share AND i.item = l.item
         LEFT JOIN observations o ON o.id = i.row AND l.kind = 'observation'
         LEFT JOIN session_summaries m ON m.id = i.row AND l.kind = 'summary'
         LEFT JOIN plans p ON p.id = i.row AND l.kind = 'plan'
         LEFT JOIN prompt_batches b ON b.id = i.row AND l.kind IN ('prompt', 'response')" {
    pub seq: u64 = "l.seq",
    pub why: String = "l.held",
    /// `None` if it no longer exists here.
    pub what: Option<DocumentKey> = "iif(coalesce(o.id, m.id, p.id, b.id) IS NULL, NULL, l.kind), coalesce(o.id, m.id, p.id, b.id)",
    pub title: Option<String> = "coalesce(o.title, m.title, p.title)",
}
}

/// The stored state of a shared item.
#[derive(Clone, Debug, Default)]
struct Known {
    item: SharedItem,
    row: Option<i64>,
    wanted: Wanted,
}

/// Whether an item without a row may get one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Wanted {
    #[default]
    Yes,
    No,
}

fn known(db: &Connection, share: ShareId, item: &str) -> Result<Option<Known>, StoreError> {
    let found: Option<(String, Option<i64>, bool)> = db.first(
        "SELECT state, row, unwanted FROM sync_items WHERE share = ?1 AND item = ?2",
        crate::database::bind::params![share, item],
    )?;
    let known = |(state, row, unwanted): (String, Option<i64>, bool)| -> Result<Known, StoreError> {
        let wanted = if unwanted { Wanted::No } else { Wanted::Yes };
        Ok(Known { item: serde_json::from_str(&state)?, row, wanted })
    };
    found.map(known).transpose()
}

fn keep(db: &Connection, share: ShareId, item: &str, known: &Known) -> Result<(), StoreError> {
    db.run(
        "INSERT INTO sync_items (share, item, state, row, unwanted) VALUES (?1, ?2, ?3, ?4, ?5)
         ON CONFLICT DO UPDATE SET state = excluded.state, row = excluded.row, unwanted = excluded.unwanted",
        crate::database::bind::params![
            share,
            item,
            serde_json::to_string(&known.item)?,
            known.row,
            known.wanted == Wanted::No
        ],
    )
}

/// Empties this machine's logged bodies of a note. The remote's copies are emptied in the next round.
fn empty_bodies(db: &Connection, share: ShareId, item: &str) -> Result<(), StoreError> {
    db.run(
        "UPDATE sync_log SET body = NULL, held = NULL, emptied = 1 WHERE share = ?1 AND item = ?2 AND body IS NOT NULL",
        crate::database::bind::params![share, item],
    )
}
