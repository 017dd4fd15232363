//! The context for a file that an agent opens. Requested at every call of a file tool, so cheap checks come first: the
//! budget, then the injected set, then one lookup in the index of paths.

use super::clock;
use super::context_lookup::{ContextLookup, ContextReply, note};
use recall_agents::Cap;
use recall_domain::context::{BlockLimits, InjectionMoment, Material, assemble};
use recall_domain::file_memory::{FileNote, INJECTED_FOR_FILE, InjectedSet, LEAST_IMPORTANCE};
use recall_domain::ids::{ProjectRow, SessionId};
use recall_domain::used::{Disfavour, Occasion};
use recall_repository::refs::WorkLocation;
use recall_store::{NotesWanted, ObservationRow, StoreError};

/// The number of newest observations about a file that are candidates.
const CONSIDERED: u32 = 20;

/// The file, and who opens it.
#[derive(Clone, Debug)]
pub struct FileContextRequest {
    /// The agent's limit.
    pub cap: Cap,
    /// Relative to the project's folder.
    pub file: String,
    pub project: ProjectRow,
    pub session: SessionId,
    pub place: WorkLocation,
}

impl ContextLookup {
    /// Returns the context for the file, without what the session already received. Empty after an error or a timeout.
    pub async fn about_file(
        &self,
        context_request: FileContextRequest,
        injected: &InjectedSet,
    ) -> ContextReply {
        if InjectionMoment::File.budget(&self.settings.context().budgets) == 0
            || injected.files.contains(&context_request.file)
        {
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
            let (mut rows, disfavour) = (Vec::new(), db.disfavour()?);
            let wanted = NotesWanted {
                kinds: &INJECTED_FOR_FILE,
                least_importance: LEAST_IMPORTANCE,
                most: CONSIDERED,
                injectable: self.settings.context().injectable,
            };
            for row in db.notes_about(context_request.project, &context_request.file, wanted)? {
                let candidate = FileNote {
                    id: row.id,
                    session: row.session.as_ref(),
                    at: row.created_at,
                    rewritten: row.rewritten,
                };
                if candidate.is_new_to(&context_request.session, injected) {
                    let found = db.observation(row.id)?;
                    rows.extend(found.filter(|row| is_worth_a_word(&disfavour, row)));
                }
            }
            let branch_context = self.branch_context(&context_request.place);
            let observations = rows.into_iter().map(|row| note(row, &branch_context)).collect();
            Ok(Material { observations, file: context_request.file, ..Material::default() })
        })?;
        let limits = BlockLimits {
            tokens: InjectionMoment::File.budget(&self.settings.context().budgets),
            utf16_units: context_request.cap.utf16_units,
        };
        let block = assemble(InjectionMoment::File, &material, limits, clock::now());
        Ok(ContextReply {
            block,
            moment: Some(InjectionMoment::File),
            file: Some(material.file),
            ..ContextReply::default()
        })
    }
}

/// Whether a note is important enough to interrupt. A contradicted note must be more important.
fn is_worth_a_word(disfavour: &Disfavour, row: &ObservationRow) -> bool {
    let worth = disfavour.worth(row.id.into(), Occasion::File, row.importance);
    worth.is_some_and(|importance| importance.get() >= LEAST_IMPORTANCE)
}
