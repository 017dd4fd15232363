//! Decides again which notes replace each other, after notes of other machines were written or removed. The results
//! are not sent: each machine derives the same ones from the same notes.
//!
//! Comparing reads a project's latest notes. So arriving notes are only listed in `sync_uncompared`, and compared
//! many at a time once all have arrived. The result does not depend on the order.

use std::collections::BTreeSet;

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::Sql;
use crate::notes::subjects::{SubjectHash, subjects};
use crate::notes::threads::rethread;
use crate::operation::{Operation, WriteContext};
use crate::sessions::lineage::settle;
use crate::sharing::log::Left;
use crate::sharing::{Share, ShareId, share};
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

    /// Adds up to `most` notes and subjects that wait, and takes them from the list.
    pub(super) fn take_waiting(
        &mut self,
        db: &WriteContext<'_>,
        share: ShareId,
        most: u32,
    ) -> Result<Left, StoreError> {
        let of_share = "FROM sync_uncompared WHERE share = ?1 ORDER BY id LIMIT ?2";
        let waiting: Vec<(i64, Option<ObservationId>, Option<SubjectHash>)> =
            db.all(&format!("SELECT id, observation, subject {of_share}"), params![share, most])?;
        let Some((last, ..)) = waiting.last().copied() else { return Ok(Left::Nothing) };
        db.run("DELETE FROM sync_uncompared WHERE share = ?1 AND id <= ?2", params![share, last])?;
        let left = if waiting.len() < most as usize { Left::Nothing } else { Left::Some };
        for (_, observation, subject) in waiting {
            self.touched.extend(observation);
            self.subjects.extend(subject);
        }
        Ok(left)
    }

    /// Lists what was added, for [`CompareArrived`].
    pub(super) fn wait(self, db: &WriteContext<'_>, share: ShareId) -> Result<(), StoreError> {
        for id in self.touched {
            db.run("INSERT INTO sync_uncompared (share, observation) VALUES (?1, ?2)", params![share, id])?;
        }
        for subject in self.subjects {
            db.run(
                "INSERT INTO sync_uncompared (share, subject) VALUES (?1, ?2)",
                params![share, subject.0],
            )?;
        }
        Ok(())
    }

    pub(super) fn decide(self, db: &WriteContext<'_>, share: &Share) -> Result<(), StoreError> {
        if self.touched.is_empty() && self.subjects.is_empty() {
            return Ok(());
        }
        settle(db, share.project, &self.subjects, Timestamp(0))?;
        rethread(db, share.project, &self.touched)
    }
}

/// Decides which notes replace each other, for up to `most` of those that arrived since it was last decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompareArrived {
    pub share: ShareId,
    pub most: u32,
}

impl Operation for CompareArrived {
    /// Whether more wait.
    type Output = Left;

    fn execute(self, db: &WriteContext<'_>) -> Result<Left, StoreError> {
        let Some(share) = share(db, self.share)? else { return Ok(Left::Nothing) };
        let mut relations = Relations::default();
        let left = relations.take_waiting(db, share.id, self.most)?;
        relations.decide(db, &share)?;
        Ok(left)
    }
}
