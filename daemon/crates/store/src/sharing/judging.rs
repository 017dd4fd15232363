//! Quarantined items, and a person's verdict on them.

use rusqlite::Connection;

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::notes::editing::written;
use crate::notes::hand_changes::{mark, remember};
use crate::operation::{Operation, RemovedCopies, WriteContext};
use crate::sharing::home::{Home, home, key_of, text};
use crate::sharing::projection::Projection;
use crate::sharing::relations::Relations;
use crate::sharing::shared_row::SharedRow;
use crate::sharing::{Known, Share, Wanted, keep, known, log, quarantine, share};
use crate::{Reader, StoreError};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::{ObservationId, ProjectRow, ShareId, Timestamp};
use recall_domain::review::ReviewVerdict;
use recall_domain::sync::item::SharedItem;
use recall_domain::sync::kind::ItemKind;

record! {
struct Columns from "quarantine q JOIN shares s ON s.id = q.share JOIN projects p ON p.id = s.project
         JOIN sync_items i ON i.share = q.share AND i.item = q.item" {
    id: i64 = "q.id",
    share: ShareId = "q.share",
    item: String = "q.item",
    why: String = "q.why",
    at: Timestamp = "q.at",
    project: String = "p.name",
    state: String = "i.state",
}
}

/// An item of another machine that waits for a person.
#[derive(Clone, Debug, PartialEq)]
pub struct Quarantined {
    /// The quarantine's number. Other texts of the same item get a new one.
    pub id: i64,
    pub kind: DocumentKind,
    /// What reads like instructions, in a few words of recall's own.
    pub why: String,
    /// When it was detected, or when a verdict on it was given that was undone since.
    pub at: Timestamp,
    pub project: String,
    /// The item's full state.
    pub item: SharedItem,
}

impl Columns {
    fn read(self) -> Result<Quarantined, StoreError> {
        let Self { id, item, why, at, project, state, .. } = self;
        let kind = ItemKind::of(&item).document();
        Ok(Quarantined { id, kind, why, at, project, item: serde_json::from_str(&state)? })
    }
}

impl Reader<'_> {
    /// Returns these projects' items that wait for a person, the newest first, at most `most`; and how many there
    /// are.
    pub fn quarantined(
        self,
        projects: Option<&[ProjectRow]>,
        most: u32,
    ) -> Result<(Vec<Quarantined>, u64), StoreError> {
        let db = self.0;
        let of_projects = projects.map(|rows| {
            let rows: Vec<String> = rows.iter().map(|row| row.0.to_string()).collect();
            format!(" AND s.project IN ({})", rows.join(", "))
        });
        let which = format!("q.verdict IS NULL{}", of_projects.unwrap_or_default());
        let sql = format!("{} WHERE {which} ORDER BY q.id DESC LIMIT ?1", Columns::SELECT);
        let found: Vec<Columns> = db.all(&sql, [most])?;
        let total: u64 = db.one(
            &format!("SELECT count(*) FROM quarantine q JOIN shares s ON s.id = q.share WHERE {which}"),
            [],
        )?;
        Ok((found.into_iter().map(Columns::read).collect::<Result<_, _>>()?, total))
    }
}

/// Applies a person's verdict on a quarantined item. An accepted item gets its row as it is. A rejected one never
/// does, and this machine logs the state of its own note again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgeQuarantined {
    pub id: i64,
    pub verdict: ReviewVerdict,
    pub at: Timestamp,
}

/// The result of a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JudgedQuarantine {
    pub id: i64,
    pub title: String,
    /// The document that shows the item. `None` if there is none.
    pub document: Option<DocumentKey>,
}

impl Operation for JudgeQuarantined {
    /// `None` if it was changed or withdrawn meanwhile.
    type Output = Option<JudgedQuarantine>;

    fn execute(self, db: &WriteContext<'_>) -> Result<Option<JudgedQuarantine>, StoreError> {
        // Others have already removed it themselves.
        db.set_removed_copies(RemovedCopies::Stay);
        let id = self.id;
        let found: Option<Columns> = db.first(&format!("{} WHERE q.id = ?1", Columns::SELECT), [id])?;
        let Some(Columns { share: of, item, .. }) = found else { return Ok(None) };
        let (Some(share), Some(mut known)) = (share(db, of)?, known(db, of, &item)?) else { return Ok(None) };
        let verdict = match self.verdict {
            ReviewVerdict::Kept => "kept",
            ReviewVerdict::Rejected => "rejected",
        };
        db.run("UPDATE quarantine SET verdict = ?2, at = ?3 WHERE id = ?1", params![id, verdict, self.at])?;
        let mut relations = Relations::default();
        relations.add(db, &item, known.row)?;
        match self.verdict {
            ReviewVerdict::Kept => self.take_in(db, &share, &item, &mut known)?,
            ReviewVerdict::Rejected => refuse(db, &share, &item, &mut known)?,
        }
        relations.add(db, &item, known.row)?;
        relations.decide(db, &share)?;
        let title = text(&known.item, "title").to_owned();
        Ok(Some(JudgedQuarantine { id, title, document: known.row.map(|row| key_of(&item, row)) }))
    }
}

impl JudgeQuarantined {
    fn take_in(
        &self,
        db: &WriteContext<'_>,
        share: &Share,
        item: &str,
        known: &mut Known,
    ) -> Result<(), StoreError> {
        let own = own_note(db, item, known)?;
        if let Some(own) = own {
            // It is undone as an edit of this note.
            remember(db, own, "edit", written(db, own)?, self.at)?;
        }
        known.wanted = Wanted::Yes;
        Projection { db, share, sender: None, now: self.at }.project(item, known)?;
        keep(db, share.id, item, known)?;
        if own.is_some() {
            // The note says it itself now.
            quarantine::end(db, share, item)?;
        }
        match known.row.filter(|_| ItemKind::of(item) == ItemKind::Observation) {
            Some(row) => mark(db, ObservationId(row), self.at),
            None => Ok(()),
        }
    }
}

fn refuse(db: &WriteContext<'_>, share: &Share, item: &str, known: &mut Known) -> Result<(), StoreError> {
    if let Some(row) = known.row {
        let key = key_of(item, row);
        if home(db, key)? == Some(Home::Here) {
            let own = SharedRow::of(db, key)?;
            return own.map_or(Ok(()), |row| log::log_row(db, share, &row));
        }
        // It was accepted before.
        quarantine::remove(db, key)?;
        known.row = None;
    }
    known.wanted = Wanted::No;
    keep(db, share.id, item, known)
}

/// The note of this machine that an item is about.
fn own_note(db: &WriteContext<'_>, item: &str, known: &Known) -> Result<Option<ObservationId>, StoreError> {
    let Some(row) = known.row.filter(|_| ItemKind::of(item) == ItemKind::Observation) else {
        return Ok(None);
    };
    Ok((home(db, key_of(item, row))? == Some(Home::Here)).then_some(ObservationId(row)))
}

record! {
struct Verdicts from "quarantine q JOIN sync_items i ON i.share = q.share AND i.item = q.item" {
    id: i64 = "q.id",
    is_kept: bool = "q.verdict = 'kept'",
    state: String = "i.state",
    at: Timestamp = "q.at",
}
}

/// A verdict that can be taken back.
pub(crate) struct JudgedBefore {
    pub(crate) id: i64,
    pub(crate) verdict: ReviewVerdict,
    pub(crate) title: String,
    pub(crate) at: Timestamp,
}

impl Verdicts {
    fn read(self) -> Result<JudgedBefore, StoreError> {
        let Self { id, is_kept, state, at } = self;
        let item: SharedItem = serde_json::from_str(&state)?;
        let verdict = if is_kept { ReviewVerdict::Kept } else { ReviewVerdict::Rejected };
        Ok(JudgedBefore { id, verdict, title: text(&item, "title").to_owned(), at })
    }
}

/// The newest verdicts that can be taken back, newest first.
pub(crate) fn judged(db: &Connection, most: u32) -> Result<Vec<JudgedBefore>, StoreError> {
    let sql =
        format!("{} WHERE q.verdict IS NOT NULL ORDER BY q.at DESC, q.id DESC LIMIT ?1", Verdicts::SELECT);
    let found: Vec<Verdicts> = db.all(&sql, [most])?;
    found.into_iter().map(Verdicts::read).collect()
}

/// The verdict on one item that can be taken back.
pub(crate) fn judged_as(db: &Connection, id: i64) -> Result<Option<JudgedBefore>, StoreError> {
    let sql = format!("{} WHERE q.verdict IS NOT NULL AND q.id = ?1", Verdicts::SELECT);
    db.first::<Verdicts>(&sql, [id])?.map(Verdicts::read).transpose()
}

/// Takes a verdict back: the item waits again, and no row says it.
pub(crate) fn unjudge(db: &WriteContext<'_>, id: i64) -> Result<(), StoreError> {
    db.set_removed_copies(RemovedCopies::Stay);
    let found: Option<Columns> = db.first(&format!("{} WHERE q.id = ?1", Columns::SELECT), [id])?;
    let Some(Columns { share: of, item, at, .. }) = found else { return Ok(()) };
    let (Some(share), Some(mut known)) = (share(db, of)?, known(db, of, &item)?) else { return Ok(()) };
    db.run("UPDATE quarantine SET verdict = NULL WHERE id = ?1", [id])?;
    known.wanted = Wanted::Yes;
    let mut relations = Relations::default();
    relations.add(db, &item, known.row)?;
    Projection { db, share: &share, sender: None, now: at }.project(&item, &mut known)?;
    relations.add(db, &item, known.row)?;
    relations.decide(db, &share)?;
    keep(db, share.id, &item, &known)
}
