//! Lists what people have changed, here or on other machines, and undoes it. This covers changes of observations, and
//! verdicts on quarantined items.

use serde_json::Value;

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::notes::editing::{pin_at, write};
use crate::notes::hand_changes::{self, HandChange, covering, newest_of, newest_own, of_observations};
use crate::operation::{Operation, WriteContext};
use crate::sessions::lineage;
use crate::sharing::{JudgedBefore, judged, judged_as, unjudge};
use crate::{Reader, StoreError};
use recall_domain::ids::{ObservationId, Timestamp};
use recall_domain::review::ReviewVerdict;

/// A manual change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NoteChange {
    pub of: Changed,
    /// `edit`, `pin`, `unpin`, `resolve`, `reopen`, `keep` or `reject`.
    pub what: String,
    pub title: String,
    pub at: Timestamp,
    /// The author and the device; `None` if it was made on this machine.
    pub by: Option<(String, String)>,
}

/// What a person has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    Observation(ObservationId),
    /// Something of another machine that reads like instructions, by its number.
    Quarantined(i64),
}

impl From<HandChange> for NoteChange {
    fn from(change: HandChange) -> Self {
        let HandChange { observation, what, title, at, by, .. } = change;
        Self { of: Changed::Observation(observation), what, title, at, by }
    }
}

impl From<JudgedBefore> for NoteChange {
    fn from(judged: JudgedBefore) -> Self {
        let JudgedBefore { id, verdict, title, at } = judged;
        let what = match verdict {
            ReviewVerdict::Kept => "keep",
            ReviewVerdict::Rejected => "reject",
        };
        Self { of: Changed::Quarantined(id), what: what.to_owned(), title, at, by: None }
    }
}

/// Reverts a manual change that is not reverted yet. The result is a change of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UndoChange {
    /// The newest change of this machine.
    NewestOwn,
    /// The newest change of one thing, whoever made it.
    NewestOf(Changed),
}

/// The result of an undo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Undone {
    Change(NoteChange),
    /// There was nothing to revert.
    Nothing,
    /// Another machine has changed the same since. Nothing was reverted.
    Covered {
        by: NoteChange,
    },
}

impl Undone {
    /// Returns the reverted change.
    pub fn change(self) -> Option<NoteChange> {
        match self {
            Self::Change(change) => Some(change),
            Self::Nothing | Self::Covered { .. } => None,
        }
    }
}

record! {
/// What a person at another machine has forgotten here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ForgottenElsewhere from "forgotten_elsewhere" {
    pub author: String = "author",
    pub device: String = "device",
    pub items: u64 = "count(*)",
    /// The last time.
    pub at: Timestamp = "max(at)",
}
}

impl Reader<'_> {
    /// Returns the newest changes that can be reverted, newest first.
    pub fn hand_changes(self, most: u32) -> Result<Vec<NoteChange>, StoreError> {
        let db = self.0;
        let mut verdicts = judged(db, most)?.into_iter().map(NoteChange::from).peekable();
        let mut changes = Vec::new();
        for change in of_observations(db, most)?.into_iter().map(NoteChange::from) {
            while let Some(later) = verdicts.next_if(|verdict| verdict.at >= change.at) {
                changes.push(later);
            }
            changes.push(change);
        }
        changes.extend(verdicts);
        changes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        Ok(changes)
    }

    /// Returns the newest change of an observation, if another machine made it.
    pub fn changed_elsewhere(self, id: ObservationId) -> Result<Option<NoteChange>, StoreError> {
        Ok(newest_of(self.0, id)?.map(NoteChange::from).filter(|change| change.by.is_some()))
    }

    /// Returns who has forgotten things on other machines that were here, the latest first. These have no undo.
    pub fn forgotten_elsewhere(self) -> Result<Vec<ForgottenElsewhere>, StoreError> {
        self.0
            .all(&format!("{} GROUP BY author, device ORDER BY max(at) DESC", ForgottenElsewhere::SELECT), [])
    }
}

impl Operation for UndoChange {
    type Output = Undone;

    fn execute(self, db: &WriteContext<'_>) -> Result<Undone, StoreError> {
        let (change, verdict) = match self {
            Self::NewestOwn => (newest_own(db)?, judged(db, 1)?.pop()),
            Self::NewestOf(Changed::Observation(id)) => (newest_of(db, id)?, None),
            Self::NewestOf(Changed::Quarantined(id)) => (None, judged_as(db, id)?),
        };
        match (change, verdict) {
            (None, None) => Ok(Undone::Nothing),
            (Some(change), verdict) if verdict.as_ref().is_none_or(|verdict| verdict.at < change.at) => {
                match covering(db, &change)? {
                    Some(by) => Ok(Undone::Covered { by: by.into() }),
                    None => revert(db, change),
                }
            }
            (_, Some(verdict)) => {
                unjudge(db, verdict.id)?;
                Ok(Undone::Change(verdict.into()))
            }
            (Some(_), None) => Ok(Undone::Nothing),
        }
    }
}

fn revert(db: &WriteContext<'_>, change: HandChange) -> Result<Undone, StoreError> {
    let id = change.observation;
    let before: String = db.one("SELECT before FROM hand_changes WHERE id = ?1", [change.number])?;
    // An unreadable record cannot be restored.
    let Ok(before) = serde_json::from_str::<Value>(&before) else { return Ok(Undone::Nothing) };
    db.change_by_hand(id.0);
    hand_changes::restore(db, id, &before["reviewed"])?;
    match change.what.as_str() {
        "edit" => write(db, id, &before)?,
        "resolve" => lineage::unresolve(db, id)?,
        "reopen" => lineage::end_again(db, id, &before["ended"])?,
        "keep" | "reject" => {
            lineage::unresolve(db, id)?;
            lineage::end_again(db, id, &before["ended"])?;
        }
        _ => pin_at(db, id, before["pinned_at"].as_i64().map(Timestamp))?,
    }
    db.run("UPDATE hand_changes SET undone = 1 WHERE id = ?1", [change.number])?;
    let title = db.one("SELECT title FROM observations WHERE id = ?1", params![id])?;
    Ok(Undone::Change(NoteChange { title, ..change.into() }))
}
