//! Known names, used to suggest one for a mistyped name.

use crate::database::row::Sql;
use crate::{Reader, StoreError};
use recall_domain::ids::ObservationId;

/// The maximum number of names per kind, newest first. Older names are not suggested.
const MOST: u32 = 5_000;

/// The kinds of things that have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Named {
    Project,
    Agent,
    /// The agent's session id.
    Session,
    /// As in observations, usually relative to the project's folder.
    File,
}

impl Reader<'_> {
    /// # Errors
    /// Fails when the database refuses.
    pub fn names(self, of: Named) -> Result<Vec<String>, StoreError> {
        let sql = match of {
            Named::Project => "SELECT name FROM projects ORDER BY id DESC LIMIT ?1",
            Named::Agent => "SELECT DISTINCT agent FROM sessions ORDER BY agent LIMIT ?1",
            Named::Session => "SELECT session_id FROM sessions ORDER BY id DESC LIMIT ?1",
            Named::File => {
                "SELECT path FROM observation_files GROUP BY path ORDER BY max(observation) DESC, path LIMIT ?1"
            }
        };
        self.0.all(sql, [MOST])
    }

    /// Returns the newest observation's number; `None` if there is none.
    ///
    /// # Errors
    /// Fails when the database refuses.
    pub fn newest_observation(self) -> Result<Option<ObservationId>, StoreError> {
        self.0.one("SELECT max(id) FROM observations", [])
    }
}
