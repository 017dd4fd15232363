//! Lists what a person has changed, and undoes it: changes of observations, and verdicts on what waits in quarantine.

use serde_json::Value;

use crate::database::bind::params;
use crate::database::row::Sql;
use crate::notes::editing::{pin_at, write};
use crate::notes::hand_changes::{self, HandChange, of_observations};
use crate::operation::{Operation, WriteContext};
use crate::sessions::lineage;
use crate::sharing::{JudgedBefore, judged, unjudge};
use crate::{Reader, StoreError};
use recall_domain::ids::{ObservationId, Timestamp};
use recall_domain::review::Verdict;

/// A manual change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    pub of: Changed,
    /// `edit`, `pin`, `unpin`, `resolve`, `reopen`, `keep` or `reject`.
    pub what: String,
    pub title: String,
    pub at: Timestamp,
}

/// What a person has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    Observation(ObservationId),
    /// Something of another machine that reads like instructions, by its number.
    Quarantined(i64),
}

impl From<HandChange> for Change {
    fn from(change: HandChange) -> Self {
        let HandChange { observation, what, title, at, .. } = change;
        Self { of: Changed::Observation(observation), what, title, at }
    }
}

impl From<JudgedBefore> for Change {
    fn from(judged: JudgedBefore) -> Self {
        let JudgedBefore { id, verdict, title, at } = judged;
        let what = match verdict {
            Verdict::Kept => "keep",
            Verdict::Rejected => "reject",
        };
        Self { of: Changed::Quarantined(id), what: what.to_owned(), title, at }
    }
}

/// Reverts the newest manual change that is not reverted yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UndoChange;

impl Reader<'_> {
    /// Returns the newest changes that can be reverted, newest first.
    pub fn hand_changes(self, most: u32) -> Result<Vec<Change>, StoreError> {
        let db = self.0;
        let mut verdicts = judged(db, most)?.into_iter().map(Change::from).peekable();
        let mut changes = Vec::new();
        for change in of_observations(db, most)?.into_iter().map(Change::from) {
            while let Some(later) = verdicts.next_if(|verdict| verdict.at >= change.at) {
                changes.push(later);
            }
            changes.push(change);
        }
        changes.extend(verdicts);
        changes.truncate(usize::try_from(most).unwrap_or(usize::MAX));
        Ok(changes)
    }
}

impl Operation for UndoChange {
    /// The reverted change; `None` if there was nothing to revert.
    type Output = Option<Change>;

    fn execute(self, db: &WriteContext<'_>) -> Result<Option<Change>, StoreError> {
        let Some(newest) = Reader(db).hand_changes(1)?.pop() else { return Ok(None) };
        if let Changed::Quarantined(id) = newest.of {
            unjudge(db, id)?;
            return Ok(Some(newest));
        }
        let Some(change) = of_observations(db, 1)?.pop() else { return Ok(None) };
        let id = change.observation;
        let before: String = db.one("SELECT before FROM hand_changes WHERE id = ?1", [change.number])?;
        // An unreadable record cannot be restored.
        let Ok(before) = serde_json::from_str::<Value>(&before) else { return Ok(None) };
        hand_changes::restore(db, id, &before["reviewed"])?;
        match change.what.as_str() {
            "edit" => write(db, id, &before)?,
            "resolve" => lineage::unresolve(db, id)?,
            "reopen" => lineage::end_again(db, id, &before["ended"])?,
            "keep" | "reject" => {
                lineage::unresolve(db, id)?;
                lineage::end_again(db, id, &before["ended"])?;
            }
            _ => pin_at(db, id, before["pinned_at"].as_i64())?,
        }
        db.run("UPDATE hand_changes SET undone = 1 WHERE id = ?1", [change.number])?;
        let title = db.one("SELECT title FROM observations WHERE id = ?1", params![id])?;
        Ok(Some(Change { title, ..newest }))
    }
}
