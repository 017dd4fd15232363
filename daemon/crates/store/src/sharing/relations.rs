//! Decides anew which notes replace each other, after notes of other machines were written or removed. Nothing of it
//! travels: each machine finds the same from the same notes.

use std::collections::BTreeSet;

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::Sql;
use crate::notes::subjects::{SubjectHash, subjects};
use crate::notes::threads::rethread;
use crate::operation::WriteContext;
use crate::sessions::lineage::settle;
use crate::sharing::{Share, ShareId};
use recall_domain::ids::{ObservationId, Timestamp};
use recall_domain::sync::kind::ItemKind;

/// The notes that were written or removed, and their subjects before and after.
#[derive(Debug, Default)]
pub(super) struct Relations {
    touched: BTreeSet<ObservationId>,
    subjects: BTreeSet<SubjectHash>,
}

impl Relations {
    /// Adds an item's row, before or after a change.
    pub(super) fn add(
        &mut self,
        db: &WriteContext<'_>,
        item: &str,
        row: Option<i64>,
    ) -> Result<(), StoreError> {
        let Some(row) = row.filter(|_| ItemKind::of(item) == ItemKind::Observation) else { return Ok(()) };
        self.touched.insert(ObservationId(row));
        self.subjects.extend(subjects(db, "SELECT subject FROM observations WHERE id = ?1", params![row])?);
        Ok(())
    }

    /// Adds all notes that arrived by a share.
    pub(super) fn add_all(&mut self, db: &WriteContext<'_>, share: ShareId) -> Result<(), StoreError> {
        self.touched
            .extend(db.all::<ObservationId>("SELECT id FROM observations WHERE share = ?1", params![share])?);
        let of_share = "SELECT DISTINCT subject FROM observations WHERE share = ?1";
        self.subjects.extend(subjects(db, of_share, params![share])?);
        Ok(())
    }

    pub(super) fn decide(self, db: &WriteContext<'_>, share: &Share) -> Result<(), StoreError> {
        if self.touched.is_empty() {
            return Ok(());
        }
        settle(db, share.project, &self.subjects, Timestamp(0))?;
        rethread(db, share.project, &self.touched)
    }
}
