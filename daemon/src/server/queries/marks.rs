//! What was made on a branch that is not merged where somebody asks, and how that is said.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use rusqlite::Connection;

use crate::actors::services::Services;
use crate::app::ancestry::BranchContext;
use crate::app::identity::project_of;
use crate::memory::checkout::MadeOn;
use crate::memory::document::DocumentKey;
use crate::memory::ids::ProjectRow;
use crate::repository::refs::WorkLocation;
use crate::server::answers::MadeOnAnswer;
use crate::store::{self, StoreError};

/// Somebody at a terminal waits for git a little longer than an agent does.
const PATIENCE: Duration = Duration::from_secs(1);

/// What was checked out where something was first made.
pub(super) fn checkout(made: &[MadeOn]) -> MadeOnAnswer {
    let first = made.first();
    MadeOnAnswer {
        branch: first.and_then(|made| made.branch.as_ref()).map(|branch| branch.0.clone()),
        commit: first.and_then(|made| made.commit.as_ref()).map(|commit| commit.0.clone()),
        elsewhere: None,
    }
}

/// The marks of one answer. Of the asker's own project what is checked out in the folder counts, of any other what is
/// checked out where it was last worked on.
pub(super) struct Marks<'a> {
    services: &'a Services,
    db: &'a Connection,
    asked_in: Option<(ProjectRow, WorkLocation)>,
    listeners: HashMap<ProjectRow, BranchContext>,
}

impl<'a> Marks<'a> {
    /// `folder`: where the question is asked, if that is known. Reads files: for threads that may block.
    pub(super) fn new(
        services: &'a Services,
        db: &'a Connection,
        folder: Option<&str>,
    ) -> Result<Self, StoreError> {
        let asked_in = match folder.map(Path::new) {
            Some(folder) => project_of(db, folder)?.map(|project| (project.row, WorkLocation::at(folder))),
            None => None,
        };
        Ok(Self { services, db, asked_in, listeners: HashMap::new() })
    }

    /// Where a document was made, and whether that is elsewhere.
    pub(super) fn place(
        &mut self,
        project: ProjectRow,
        key: DocumentKey,
    ) -> Result<MadeOnAnswer, StoreError> {
        let made = store::made_where(self.db, key)?;
        let elsewhere = self.of(project, &made)?;
        Ok(MadeOnAnswer { elsewhere, ..checkout(&made) })
    }

    /// `on branch feature-x, not merged here`, or nothing.
    pub(super) fn of(&mut self, project: ProjectRow, made: &[MadeOn]) -> Result<Option<String>, StoreError> {
        if made.iter().all(|made| made.branch.is_none() && made.commit.is_none()) {
            return Ok(None);
        }
        if !self.listeners.contains_key(&project) {
            let place = match &self.asked_in {
                Some((own, place)) if *own == project => place.clone(),
                _ => WorkLocation { cwd: None, root: store::latest_root(self.db, project)? },
            };
            let patience = PATIENCE.max(self.services.context_lookup.answer_within / 2);
            let listener = self.services.context_lookup.ancestry.listener(&place, patience);
            self.listeners.insert(project, listener);
        }
        let mark = self.listeners.get(&project).and_then(|listener| listener.mark(made));
        Ok(mark.map(|mark| mark.to_string()))
    }
}
