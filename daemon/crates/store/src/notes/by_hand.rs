//! Observations that people or agents write by hand, and marks on others.

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::Sql;
use crate::notes::results::ObservationScope;
use crate::notes::subjects::{SubjectHash, aim};
use crate::notes::{results, threads};
use crate::operation::{Operation, WriteContext, log};
use crate::questions::projects;
use crate::sessions::lineage;
use recall_domain::ids::{ObservationId, ProjectKey, Timestamp};
use recall_domain::observation::{NoteOrigin, ObservationDraft};

/// The author of a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RemarkAuthor {
    User,
    /// An agent's model.
    Agent,
}

impl RemarkAuthor {
    fn origin(self) -> NoteOrigin {
        match self {
            Self::User => NoteOrigin::USER.into(),
            Self::Agent => NoteOrigin::AGENT.into(),
        }
    }
}

/// An observation written by the user or an agent. It has no evidence and no session.
#[derive(Clone, Debug, PartialEq)]
pub struct Remembered {
    /// The identities of the project, strongest first; never empty.
    pub project: Vec<ProjectKey>,
    pub project_name: String,
    pub draft: ObservationDraft,
    pub author: RemarkAuthor,
    pub at: Timestamp,
}

/// Whether the user says that an observation is still valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Validity {
    Holds,
    Resolved,
}

/// Stores the text. Storing the same text again reopens the observation.
impl Operation for Remembered {
    type Output = ObservationId;

    fn execute(self, db: &WriteContext<'_>) -> Result<ObservationId, StoreError> {
        let remark = self;
        let project = projects::resolve(db, &remark.project, &remark.project_name, remark.at)?;
        let known: Option<ObservationId> = db.first(
            "SELECT id FROM observations WHERE project = ?1 AND title = ?2 AND
                 narrative = ?3 AND origin = ?4 LIMIT 1",
            params![project.0, remark.draft.title, remark.draft.narrative, remark.author.origin()],
        )?;
        if let Some(known) = known {
            lineage::uphold(db, known)?;
            return Ok(known);
        }
        let place = ObservationScope { session: None, batch: None, project, at: remark.at };
        let id = results::insert(db, &place, &remark.draft, &remark.author.origin(), 0)?;
        log(db, id)?;
        if let Some(subject) = remark.draft.subject.as_ref().map(SubjectHash::of) {
            aim(db, id, Some(subject))?;
            lineage::settle(db, project, &[subject].into(), remark.at)?;
        }
        threads::rethread(db, project, &[id].into())?;
        Ok(id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Changes, MarkObservations, Reader, empty_database, execute};
    use recall_domain::document::Status;
    use recall_domain::observation::{Importance, ObservationType};

    #[test]
    fn remembering_a_resolved_note_again_reactivates_it() {
        let home = tempfile::tempdir().unwrap();
        let db = empty_database(home.path());
        let remark = |title: &str| Remembered {
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
                subject: None,
            },
            author: RemarkAuthor::User,
            at: Timestamp(7),
        };
        let remember = |title: &str| execute(&db, remark(title), &mut Changes::default()).unwrap();
        let first = remember("Round once");
        let resolve = MarkObservations { ids: vec![first], validity: Validity::Resolved, at: Timestamp(0) };
        execute(&db, resolve, &mut Changes::default()).unwrap();
        let status = |id: ObservationId| Reader(&db).observation(id).unwrap().unwrap().status;
        assert_eq!(status(first), Status::Resolved);
        assert_eq!(remember("Round once"), first);
        assert_eq!(status(first), Status::Active);
        let second = remember("Round twice");
        assert_ne!(second, first);
        assert_eq!(status(first), Status::Active, "what is not for sure about the same stands beside it");
    }
}
