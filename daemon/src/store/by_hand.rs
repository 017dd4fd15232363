//! What users say themselves: observations of their own, and whether one still holds.

use rusqlite::{Connection, OptionalExtension, params};

use super::results::{self, Place};
use super::writes::log;
use super::{StoreError, projects};
use crate::memory::document::Status;
use crate::memory::ids::{ObservationId, ProjectKey, Timestamp};
use crate::memory::observation::ObservationDraft;

/// The origin of what a user said.
const USER: &str = "user";

/// An observation of the user's own: it rests on no event and belongs to no session.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    /// The identities of the project, strongest first; at least one.
    pub project: Vec<ProjectKey>,
    pub project_name: String,
    pub draft: ObservationDraft,
    pub at: Timestamp,
}

/// Said twice it is one observation, which holds again.
pub(super) fn remember(db: &Connection, said: &Remembered) -> Result<ObservationId, StoreError> {
    let project = projects::resolve(db, &said.project, &said.project_name, said.at)?;
    let mut same = db.prepare_cached(
        "SELECT id FROM observations WHERE project = ?1 AND title = ?2 AND narrative = ?3 AND origin = ?4 LIMIT 1",
    )?;
    let known = same
        .query_row(params![project.0, said.draft.title, said.draft.narrative, USER], |row| row.get(0))
        .optional()?;
    if let Some(known) = known.map(ObservationId) {
        mark(db, &[known], Status::Active)?;
        return Ok(known);
    }
    let place = Place { session: None, batch: None, project: project.0, at: said.at.0 };
    let id = results::insert(db, &place, &said.draft, USER, 0)?;
    log(db, "observation", id)?;
    Ok(ObservationId(id))
}

/// Says of observations whether they hold. What a newer one has taken the place of stays as it is.
pub(super) fn mark(db: &Connection, ids: &[ObservationId], status: Status) -> Result<(), StoreError> {
    let mut update = db.prepare_cached(
        "UPDATE observations SET status = ?2 WHERE id = ?1 AND status <> ?2 AND status <> 'superseded'",
    )?;
    for id in ids {
        if update.execute(params![id.0, status.as_str()])? > 0 {
            log(db, "observation", id.0)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::observation::{Importance, ObservationType};
    use crate::store::{Durability, open_writer};

    #[test]
    fn said_twice_it_is_one_and_holds_again() {
        let home = tempfile::tempdir().unwrap();
        let db = open_writer(&home.path().join("recall.db"), home.path(), Durability::Full).unwrap();
        let said = |title: &str| Remembered {
            project: vec![ProjectKey::from("path:/shop")],
            project_name: "shop".to_owned(),
            draft: ObservationDraft {
                kind: ObservationType::Decision,
                title: title.to_owned(),
                subtitle: None,
                narrative: String::new(),
                facts: Vec::new(),
                concepts: Vec::new(),
                files_read: vec!["src/cart.rs".to_owned()],
                files_modified: Vec::new(),
                importance: Importance::clamped(9),
                evidence: Vec::new(),
            },
            at: Timestamp(7),
        };
        let first = remember(&db, &said("Round once")).unwrap();
        mark(&db, &[first], Status::Resolved).unwrap();
        let status = |id: ObservationId| crate::store::observation(&db, id).unwrap().unwrap().status;
        assert_eq!(status(first), Status::Resolved);
        assert_eq!(remember(&db, &said("Round once")).unwrap(), first);
        assert_eq!(status(first), Status::Active);
        let second = remember(&db, &said("Round twice")).unwrap();
        assert_ne!(second, first);
        db.execute("UPDATE observations SET status = 'superseded' WHERE id = ?1", [second.0]).unwrap();
        mark(&db, &[second], Status::Active).unwrap();
        assert_eq!(status(second), Status::Superseded);
    }
}
