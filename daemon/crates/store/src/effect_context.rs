//! The arguments of functions that store an effect: the connection, the session, the event and its time.

use super::StoreError;
use super::imported::Capture;
use super::operation::WriteContext;
use super::row::Sql;
use crate::bind::params;
use recall_domain::conventions::Conventions;
use recall_domain::ids::{BatchId, EventId, ProjectRow, SessionKey, SessionRow, Timestamp};
use recall_domain::lifecycle::LifecycleKind;
use recall_domain::session::{LooseCall, Seq};

/// The rows of a stored event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    pub session: SessionRow,
    pub project: ProjectRow,
}

/// Where and when effects happen.
pub(super) struct EffectContext<'a> {
    pub(super) db: &'a WriteContext<'a>,
    pub(super) stored: StoredEvent,
    pub(super) key: &'a SessionKey,
    /// `None` if inactivity caused the effect.
    pub(super) event: Option<EventId>,
    pub(super) at: Timestamp,
    pub(super) capture: Capture,
    pub(super) conventions: Conventions,
    /// Hashes of the files that the event's call has changed.
    pub(super) changed_files: &'a [[u8; 8]],
}

impl EffectContext<'_> {
    pub(super) fn session(&self) -> SessionRow {
        self.stored.session
    }

    pub(super) fn say(&self, what: LifecycleKind) {
        if self.capture == Capture::Imported {
            return;
        }
        self.db.publish(self.key.clone(), self.at, what);
    }

    /// Publishes a call for traces if the end of its turn does not cover it.
    pub(super) fn tell_call(&self, call: LooseCall) {
        if self.capture != Capture::Imported {
            self.db.publish_call(self.key.clone(), call);
        }
    }

    pub(super) fn batch(&self, seq: Seq) -> Result<BatchId, StoreError> {
        let row = self.db.first(
            "SELECT id FROM prompt_batches WHERE session = ?1 AND seq = ?2",
            params![self.session(), seq.0],
        )?;
        row.map(BatchId).ok_or(StoreError::NoSuchBatch(seq.0))
    }

    pub(super) fn batch_row(&self, seq: Option<Seq>) -> Result<Option<i64>, StoreError> {
        seq.map(|seq| self.batch(seq).map(|batch| batch.0)).transpose()
    }
}
