//! What is given back when an agent opens a file. It is asked at every call of a file tool, so what costs little says
//! no first: the budget, then what the session was told, then one look into the index of paths.

use super::clock;
use super::context_lookup::{ContextLookup, ContextReply, note};
use crate::memory::context::{Material, Moment, assemble};
use crate::memory::file_memory::{Candidate, INJECTED_FOR_FILE, InjectedSet, LEAST_IMPORTANCE};
use crate::memory::ids::{ProjectRow, SessionId};
use crate::repository::refs::WorkLocation;
use crate::store::{self, StoreError};

/// Of the newest observations about a file so many are considered.
const CONSIDERED: u32 = 20;

/// Which file is opened, and by whom.
#[derive(Clone, Debug)]
pub struct FileContextRequest {
    /// Relative to the project's folder.
    pub file: String,
    pub project: ProjectRow,
    pub session: SessionId,
    pub place: WorkLocation,
}

impl ContextLookup {
    /// What the session should know of the file and was not told. On any trouble nothing.
    pub async fn about_file(
        &self,
        context_request: FileContextRequest,
        injected: &InjectedSet,
    ) -> ContextReply {
        if Moment::File.budget(&self.budgets) == 0 || injected.files.contains(&context_request.file) {
            return ContextReply::default();
        }
        let (this, injected) = (self.clone(), injected.clone());
        self.in_time(move || this.file_context(context_request, &injected)).await
    }

    fn file_context(
        &self,
        context_request: FileContextRequest,
        injected: &InjectedSet,
    ) -> Result<ContextReply, StoreError> {
        let material = self.readers.read(|db| {
            let place = (context_request.project, context_request.file.as_str());
            let mut rows = Vec::new();
            for row in store::notes_about(db, place, (&INJECTED_FOR_FILE, LEAST_IMPORTANCE), CONSIDERED)? {
                let candidate = Candidate {
                    id: row.id,
                    session: row.session.as_ref(),
                    at: row.created_at,
                    rewritten: row.rewritten,
                };
                if candidate.is_new_to(&context_request.session, injected) {
                    rows.extend(store::observation(db, row.id)?);
                }
            }
            let listener = self.listener(&context_request.place);
            let observations = rows.into_iter().map(|row| note(row, 0.0, &listener)).collect();
            Ok(Material { observations, file: context_request.file, ..Material::default() })
        })?;
        let budget = Moment::File.budget(&self.budgets);
        let block = assemble(Moment::File, &material, budget, clock::now());
        Ok(ContextReply { block, moment: Some(Moment::File), notice: None, file: Some(material.file) })
    }
}
