//! Records what people at other machines change and forget here: changes of observations, so that they can be undone
//! like one's own, and deletions, so that they can be explained.
//!
//! What a note's own machine changes without a person, such as a compression, is not listed.

use serde_json::{Value, json};

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::notes::editing::written;
use crate::notes::hand_changes::{self, Reviewed, remember_elsewhere};
use crate::operation::WriteContext;
use crate::sessions::lineage;
use crate::sharing::Share;
use recall_domain::document::{DocumentKind, Status};
use recall_domain::ids::{ObservationId, Timestamp};
use recall_domain::sync::DeviceId;
use recall_domain::sync::item::SharedItem;
use recall_domain::sync::record::Cause;

/// The machine that sent the changes of one item.
#[derive(Clone, Debug)]
pub(super) struct Sender {
    pub device: DeviceId,
    /// Whether a person made one of them.
    pub cause: Cause,
    /// The time of the last one.
    pub at: i64,
}

impl Sender {
    /// Adds the next change of the same item.
    pub(super) fn join(before: Option<Self>, next: Self) -> Self {
        match before {
            Some(Self { cause: Cause::Person, .. }) => Self { cause: Cause::Person, ..next },
            _ => next,
        }
    }

    /// Whether a person can undo its changes. Nothing but a person has a reason to change another machine's note.
    fn is_listed(&self, state: &SharedItem) -> bool {
        self.cause == Cause::Person || state.made_by() != Some(&self.device)
    }

    /// Its author's name and its own.
    fn names(&self, db: &WriteContext<'_>, share: &Share) -> Result<(String, String), StoreError> {
        let found = db.first(
            "SELECT author, name FROM sync_heads WHERE share = ?1 AND device = ?2",
            params![share.id, self.device],
        )?;
        Ok(found.unwrap_or_else(|| (self.device.short().to_owned(), String::new())))
    }

    /// The time of its last change, which is never in the future.
    fn at(&self, now: Timestamp) -> Timestamp {
        Timestamp(self.at.min(now.0))
    }

    /// Records that it has forgotten something that is here.
    pub(super) fn record_deletion(
        &self,
        db: &WriteContext<'_>,
        share: &Share,
        kind: DocumentKind,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let (author, device) = self.names(db, share)?;
        db.run(
            "INSERT INTO forgotten_elsewhere (share, kind, author, device, at) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![share.id, kind.as_str(), author, device, self.at(now)],
        )
    }
}

/// The fields of [`written`] that a person writes.
const TEXTS: [&str; 7] = ["type", "title", "subtitle", "narrative", "facts", "files_read", "files_modified"];

record! {
/// The marks that a person sets.
#[derive(PartialEq, Eq)]
struct Marks from "observations o" {
    is_resolved: bool = "EXISTS (SELECT 1 FROM lineage WHERE older = o.id AND newer IS NULL AND NOT undone)",
    is_rejected: bool = "rejected_at IS NOT NULL",
    is_reviewed: bool = "reviewed_at IS NOT NULL",
    pinned_at: Option<i64> = "pinned_at",
}
}

impl Marks {
    fn of(db: &WriteContext<'_>, id: ObservationId) -> Result<Self, StoreError> {
        db.one(&format!("{} WHERE o.id = ?1", Self::SELECT), params![id])
    }
}

/// An observation before another machine's change.
pub(super) struct Before {
    id: ObservationId,
    texts: Value,
    reviewed: Value,
    ended: Value,
    status: Status,
    marks: Marks,
}

impl Before {
    /// Returns `None` if the change is not listed.
    pub(super) fn of(
        db: &WriteContext<'_>,
        id: ObservationId,
        state: &SharedItem,
        sender: Option<&Sender>,
    ) -> Result<Option<Self>, StoreError> {
        if !sender.is_some_and(|sender| sender.is_listed(state)) {
            return Ok(None);
        }
        Ok(Some(Self {
            id,
            texts: written(db, id)?,
            reviewed: hand_changes::state(db, id)?,
            ended: lineage::enders(db, id)?,
            status: Reviewed::of(db, id)?.status,
            marks: Marks::of(db, id)?,
        }))
    }

    /// Records what has changed.
    pub(super) fn record(
        mut self,
        db: &WriteContext<'_>,
        share: &Share,
        sender: &Sender,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let mut changes = Vec::new();
        let texts = written(db, self.id)?;
        if TEXTS.iter().any(|name| texts[name] != self.texts[name]) {
            let mut before = self.texts.take();
            before["reviewed"] = self.reviewed.clone();
            changes.push(("edit", before));
        }
        let marks = Marks::of(db, self.id)?;
        let validity = match (&self.marks, &marks) {
            (Marks { is_rejected: false, .. }, Marks { is_rejected: true, .. }) => Some("reject"),
            (Marks { is_resolved: false, .. }, Marks { is_resolved: true, .. }) => Some("resolve"),
            (Marks { is_resolved: true, .. }, Marks { is_resolved: false, .. }) => Some("reopen"),
            _ => None,
        };
        let of_validity =
            json!({"status": self.status.as_str(), "ended": self.ended, "reviewed": self.reviewed});
        if let Some(what) = validity {
            changes.push((what, of_validity.clone()));
        }
        match (self.marks.pinned_at, marks.pinned_at) {
            (None, Some(_)) => changes.push(("pin", json!({"pinned_at": null, "reviewed": self.reviewed}))),
            (Some(at), None) => changes.push(("unpin", json!({"pinned_at": at, "reviewed": self.reviewed}))),
            _ => {}
        }
        // Every change by a person is a review.
        if changes.is_empty() && !self.marks.is_reviewed && marks.is_reviewed {
            changes.push(("keep", of_validity));
        }
        if changes.is_empty() {
            return Ok(());
        }
        let (author, device) = sender.names(db, share)?;
        for (what, before) in changes {
            remember_elsewhere(db, self.id, what, &before, (&author, &device, sender.at(now)))?;
        }
        Ok(())
    }
}
