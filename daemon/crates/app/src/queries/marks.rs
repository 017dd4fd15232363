//! Marks observations made on branches that are not merged into the current checkout.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use crate::ancestry::BranchContext;
use crate::answers::MadeOnAnswer;
use crate::context_lookup::ContextLookup;
use crate::identity::project_of;
use recall_domain::checkout::MadeOn;
use recall_domain::document::DocumentKey;
use recall_domain::ids::ProjectRow;
use recall_repository::refs::WorkLocation;
use recall_store::{Reader, StoreError};

/// How long a request waits for git. A user at a terminal waits a little longer than an agent.
const PATIENCE: Duration = Duration::from_secs(1);

/// Returns the checkout where something was first made.
pub fn checkout(made: &[MadeOn]) -> MadeOnAnswer {
    let first = made.first();
    MadeOnAnswer {
        branch: first.and_then(|made| made.branch.as_ref()).map(|branch| branch.0.clone()),
        commit: first.and_then(|made| made.commit.as_ref()).map(|commit| commit.0.clone()),
        elsewhere: None,
    }
}

/// The marks for one answer. The current project is compared with the folder's checkout, any other project with the
/// checkout where it was last worked on.
pub(crate) struct Marks<'a> {
    lookup: &'a ContextLookup,
    db: Reader<'a>,
    asked_in: Option<(ProjectRow, WorkLocation)>,
    branch_contexts: HashMap<ProjectRow, BranchContext>,
}

impl<'a> Marks<'a> {
    /// Prepares the marks. `folder` is where the request comes from, if known. Reads files, so it must run on a thread
    /// that may block.
    pub(crate) fn new(
        lookup: &'a ContextLookup,
        db: Reader<'a>,
        folder: Option<&str>,
    ) -> Result<Self, StoreError> {
        let asked_in = match folder.map(Path::new) {
            Some(folder) => project_of(db, folder)?.map(|project| (project.row, WorkLocation::at(folder))),
            None => None,
        };
        Ok(Self { lookup, db, asked_in, branch_contexts: HashMap::new() })
    }

    /// Returns where a document was made, and its mark if that is on another branch.
    pub(crate) fn place(
        &mut self,
        project: ProjectRow,
        key: DocumentKey,
    ) -> Result<MadeOnAnswer, StoreError> {
        let made = self.db.made_where(key)?;
        let elsewhere = self.of(project, &made)?;
        Ok(MadeOnAnswer { elsewhere, ..checkout(&made) })
    }

    /// Returns `on branch feature-x, not merged here`, or nothing.
    pub(crate) fn of(&mut self, project: ProjectRow, made: &[MadeOn]) -> Result<Option<String>, StoreError> {
        if made.iter().all(|made| made.branch.is_none() && made.commit.is_none()) {
            return Ok(None);
        }
        if !self.branch_contexts.contains_key(&project) {
            let place = match &self.asked_in {
                Some((own, place)) if *own == project => place.clone(),
                _ => WorkLocation { cwd: None, root: self.db.latest_root(project)? },
            };
            let patience = PATIENCE.max(self.lookup.answer_within / 2);
            let branch_context = self.lookup.ancestry.branch_context(&place, patience);
            self.branch_contexts.insert(project, branch_context);
        }
        let mark = self.branch_contexts.get(&project).and_then(|branch_context| branch_context.mark(made));
        Ok(mark.map(|mark| mark.to_string()))
    }
}
