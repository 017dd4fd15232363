//! Sessions that were handed over to an agent's next session in their project.

use rusqlite::Connection;

use crate::database::bind::params;
use crate::database::row::Sql;
use crate::operation::{Operation, WriteContext};
use crate::{Reader, StoreError};
use recall_domain::context::BlockItemKind;
use recall_domain::ids::{AgentName, EventId, ProjectRow, SessionId, SessionRow, Timestamp};

/// How long a handover waits before it expires, in milliseconds.
const WAITS_MS: i64 = 7 * 86_400_000;

/// Hands a session over to an agent's next session in the same project. Replaces an earlier handover that is still
/// waiting there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandOver {
    pub session: SessionRow,
    pub agent: AgentName,
    pub at: Timestamp,
}

impl Operation for HandOver {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let (session, agent) = (self.session.0, self.agent.as_str());
        db.run(
            "DELETE FROM handoffs WHERE given IS NULL AND agent = ?2 AND session IN (
                SELECT s.id FROM sessions s WHERE s.project = (SELECT project FROM sessions WHERE id = ?1))",
            params![session, agent],
        )?;
        db.run(
            "INSERT INTO handoffs (session, agent, at) SELECT id, ?2, ?3 FROM sessions WHERE id = ?1",
            params![session, agent, self.at.0],
        )
    }
}

impl Reader<'_> {
    /// Returns the session that waits for this agent's next session in a project.
    ///
    /// # Errors
    /// Fails when the database refuses.
    pub fn handed_over(
        self,
        project: ProjectRow,
        agent: &AgentName,
        to: &SessionId,
        now: Timestamp,
    ) -> Result<Option<SessionRow>, StoreError> {
        self.0.first(
            "SELECT h.session FROM handoffs h INDEXED BY handoffs_waiting JOIN sessions s ON s.id = h.session
             WHERE h.given IS NULL AND h.agent = ?1 AND s.project = ?2 AND h.at > ?3
               AND NOT (s.agent = ?1 AND s.session_id = ?4)
             ORDER BY h.id DESC LIMIT 1",
            params![agent.as_str(), project.0, now.0.saturating_sub(WAITS_MS), to.as_str()],
        )
    }
}

/// Marks the handovers among these injected items as delivered.
pub(crate) fn given(
    db: &Connection,
    agent: &AgentName,
    event: EventId,
    items: &str,
) -> Result<(), StoreError> {
    let kind = BlockItemKind::Handover.as_str();
    if !items.contains(kind) {
        return Ok(());
    }
    db.run(
        "UPDATE handoffs SET given = ?1 WHERE given IS NULL AND agent = ?2 AND session IN (
            SELECT json_extract(e.value, '$.id') FROM json_each(?3) e
            WHERE json_extract(e.value, '$.kind') = ?4)",
        params![event.0, agent.as_str(), items, kind],
    )
}

/// Makes a handover wait again, because the injection of this event was not delivered.
pub(crate) fn not_given(db: &Connection, event: EventId) -> Result<(), StoreError> {
    db.run("UPDATE handoffs SET given = NULL WHERE given = ?1", params![event.0])
}
