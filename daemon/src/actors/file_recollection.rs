//! What is given back when an agent opens a file. It is asked at every call of a file tool, so what costs little says
//! no first: the budget, then what the session was told, then one look into the index of paths.

use super::clock;
use super::recollection::{Recalled, Recollection, note};
use crate::memory::context::{Material, Moment, assemble};
use crate::memory::file_memory::{Candidate, LEAST_IMPORTANCE, TOLD_OF_A_FILE, Told};
use crate::memory::ids::{ProjectRow, SessionId};
use crate::repository::refs::Workplace;
use crate::store::{self, StoreError};

/// Of the newest observations about a file so many are considered.
const CONSIDERED: u32 = 20;

/// Which file is opened, and by whom.
#[derive(Clone, Debug)]
pub struct FileAsker {
    /// Relative to the project's folder.
    pub file: String,
    pub project: ProjectRow,
    pub session: SessionId,
    pub place: Workplace,
}

impl Recollection {
    /// What the session should know of the file and was not told. On any trouble nothing.
    pub async fn about_file(&self, asker: FileAsker, told: &Told) -> Recalled {
        if Moment::File.budget(&self.budgets) == 0 || told.files.contains(&asker.file) {
            return Recalled::default();
        }
        let (this, told) = (self.clone(), told.clone());
        self.in_time(move || this.recall_file(asker, &told)).await
    }

    fn recall_file(&self, asker: FileAsker, told: &Told) -> Result<Recalled, StoreError> {
        let material = self.readers.read(|db| {
            let place = (asker.project, asker.file.as_str());
            let mut rows = Vec::new();
            for row in store::notes_about(db, place, (&TOLD_OF_A_FILE, LEAST_IMPORTANCE), CONSIDERED)? {
                let candidate = Candidate {
                    id: row.id,
                    session: row.session.as_ref(),
                    at: row.created_at,
                    rewritten: row.rewritten,
                };
                if candidate.is_news(&asker.session, told) {
                    rows.extend(store::observation(db, row.id)?);
                }
            }
            let listener = self.listener(&asker.place);
            let observations = rows.into_iter().map(|row| note(row, 0.0, &listener)).collect();
            Ok(Material { observations, file: asker.file, ..Material::default() })
        })?;
        let budget = Moment::File.budget(&self.budgets);
        let block = assemble(Moment::File, &material, budget, clock::now());
        Ok(Recalled { block, moment: Some(Moment::File), notice: None, file: Some(material.file) })
    }
}
