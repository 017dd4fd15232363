//! The arguments of functions that store an effect: the connection, the session, the event and its time.

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::Sql;
use crate::operation::WriteContext;
use crate::sessions::imported::Capture;
use recall_domain::conventions::Conventions;
use recall_domain::ids::{BatchId, EventId, ProjectRow, PromptId, SessionKey, SessionRow, Timestamp};
use recall_domain::lifecycle::LifecycleKind;
use recall_domain::session::{LooseCall, Seq};

/// The rows of a stored event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    pub session: SessionRow,
    pub project: ProjectRow,
}

/// Where and when effects apply.
pub(crate) struct EffectContext<'a> {
    pub(crate) db: &'a WriteContext<'a>,
    pub(crate) stored: StoredEvent,
    pub(crate) key: &'a SessionKey,
    /// `None` if inactivity caused the effect.
    pub(crate) event: Option<EventId>,
    pub(crate) at: Timestamp,
    pub(crate) capture: Capture,
    pub(crate) conventions: Conventions,
    /// Hashes of the files that the event's call changed.
    pub(crate) changed_files: &'a [[u8; 8]],
}

/// The batch and the agent's turn that something belongs to, as far as they are known.
#[derive(Clone, Copy)]
pub(crate) struct TurnOf<'a> {
    pub(crate) seq: Option<Seq>,
    pub(crate) prompt: Option<&'a PromptId>,
}

impl EffectContext<'_> {
    pub(crate) fn session(&self) -> SessionRow {
        self.stored.session
    }

    pub(crate) fn publish(&self, what: LifecycleKind) {
        if self.capture == Capture::Imported {
            return;
        }
        self.db.publish(self.key.clone(), self.at, what);
    }

    /// Publishes a call for traces if the end of its turn does not include it.
    pub(crate) fn publish_call(&self, call: LooseCall) {
        if self.capture != Capture::Imported {
            self.db.publish_call(self.key.clone(), call);
        }
    }

    pub(crate) fn batch(&self, seq: Seq) -> Result<BatchId, StoreError> {
        let batch = self.db.first(
            "SELECT id FROM prompt_batches WHERE session = ?1 AND seq = ?2",
            params![self.session(), seq.0],
        )?;
        batch.ok_or(StoreError::NoSuchBatch(seq.0))
    }

    pub(crate) fn batch_row(&self, seq: Option<Seq>) -> Result<Option<BatchId>, StoreError> {
        seq.map(|seq| self.batch(seq)).transpose()
    }
}
