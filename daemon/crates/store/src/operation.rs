//! Operations are the changes that the writer executes. Each has its own output type and records what it changes.
//!
//! `execution.rs` runs them. The writer acknowledges operations, after the commit.
//!
//! **Invariant:** code that changes something which others follow reports it to the [`WriteContext`] right there.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Deref;

use rusqlite::Connection;

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::Sql;
use crate::sessions::spans::ExpiredLife;
use recall_domain::document::DocumentKey;
use recall_domain::event::ConversationPlace;
use recall_domain::ids::{ProjectRow, SessionKey, Timestamp, VectorId};
use recall_domain::lifecycle::{LifecycleEvent, LifecycleKind};
use recall_domain::session::LooseCall;
use recall_domain::sync::kind::ItemKind;

/// A change to the database, as a value.
pub trait Operation: Send + 'static {
    /// The value that the caller receives after the commit.
    type Output: Send + 'static;

    /// # Errors
    /// Fails when the database refuses; everything is then rolled back.
    fn execute(self, db: &WriteContext<'_>) -> Result<Self::Output, StoreError>;
}

/// Changes by operations that others follow.
#[derive(Debug, Default, PartialEq)]
pub struct Changes {
    /// An event was accepted.
    pub accepted: bool,
    /// Documents were written or removed, so the index must follow.
    pub documents: bool,
    /// New compression work exists, or an obstacle to it is gone.
    pub jobs: bool,
    /// Events to publish after the commit, in this order.
    pub events: Vec<LifecycleEvent>,
    /// Calls to publish before the events.
    pub calls: Vec<(SessionKey, LooseCall)>,
    /// Sessions that were deleted before they ended, to publish with the calls.
    pub expired: Vec<ExpiredLife>,
}

impl Changes {
    fn add(&mut self, later: Self) {
        let Self { accepted, documents, jobs, events, calls, expired } = later;
        self.accepted |= accepted;
        self.documents |= documents;
        self.jobs |= jobs;
        self.events.extend(events);
        self.calls.extend(calls);
        self.expired.extend(expired);
    }
}

/// What happens to other machines' copies of a note that an operation removes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum RemovedCopies {
    /// They are removed, because the note was made again or withdrawn.
    #[default]
    Withdrawn,
    /// They are removed permanently, because a person said so.
    Forgotten,
    /// They stay: only this machine stops keeping the note.
    Stay,
}

/// The write connection during an operation. It collects what the operation changes.
pub struct WriteContext<'a> {
    connection: &'a Connection,
    changes: RefCell<Changes>,
    is_taken_back: Cell<bool>,
    /// Documents that may be shared and were written or removed.
    shareable: RefCell<BTreeSet<DocumentKey>>,
    removed_copies: Cell<RemovedCopies>,
    /// Observations that a person changes by this operation.
    changed_by_hand: RefCell<BTreeSet<i64>>,
}

impl Deref for WriteContext<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        self.connection
    }
}

impl<'a> WriteContext<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self {
            connection,
            changes: RefCell::default(),
            is_taken_back: Cell::new(false),
            shareable: RefCell::default(),
            removed_copies: Cell::default(),
            changed_by_hand: RefCell::default(),
        }
    }

    pub(super) fn accept(&self) {
        self.changes.borrow_mut().accepted = true;
    }

    pub(super) fn queue_work(&self) {
        self.changes.borrow_mut().jobs = true;
    }

    /// Publishes an event of a session once the operation is committed.
    pub(super) fn publish(&self, key: SessionKey, at: Timestamp, what: LifecycleKind) {
        let sql = "SELECT root, place FROM sessions WHERE session_id = ?1 AND agent = ?2";
        // An informational event must not make a write fail.
        let found = self.one(sql, params![key.id.as_str(), key.agent.as_str()]);
        let (workspace, place): (_, Option<String>) = found.unwrap_or_default();
        let place = place.and_then(|place| serde_json::from_str(&place).ok()).unwrap_or_default();
        let event = LifecycleEvent { session: Some(key), workspace, place, at, what };
        self.changes.borrow_mut().events.push(event);
    }

    /// Publishes an event that belongs to no session once the operation is committed.
    pub(super) fn publish_apart(&self, place: ConversationPlace, at: Timestamp, what: LifecycleKind) {
        let event = LifecycleEvent { session: None, workspace: None, place: Box::new(place), at, what };
        self.changes.borrow_mut().events.push(event);
    }

    /// Publishes a call of a session once the operation is committed.
    pub(super) fn publish_call(&self, key: SessionKey, call: LooseCall) {
        self.changes.borrow_mut().calls.push((key, call));
    }

    /// Publishes the open state of an expired session once the operation is committed.
    pub(super) fn publish_expired(&self, life: ExpiredLife) {
        self.changes.borrow_mut().expired.push(life);
    }

    /// Sets what happens to other machines' copies of what this operation removes.
    pub(super) fn set_removed_copies(&self, copies: RemovedCopies) {
        self.removed_copies.set(copies);
    }

    /// Records that a person changes an observation, so that other machines can tell and undo it.
    pub(super) fn change_by_hand(&self, observation: i64) {
        self.changed_by_hand.borrow_mut().insert(observation);
    }

    pub(super) fn is_changed_by_hand(&self, observation: i64) -> bool {
        self.changed_by_hand.borrow().contains(&observation)
    }

    /// Returns the shareable documents that were written or removed since the last call, and what happens to copies.
    pub(super) fn take_shareable(&self) -> (BTreeSet<DocumentKey>, RemovedCopies) {
        (self.shareable.take(), self.removed_copies.get())
    }

    pub(super) fn is_taken_back(&self) -> bool {
        self.is_taken_back.get()
    }

    /// Adds the operation's changes to those of earlier ones.
    pub(super) fn add_changes_to(self, changes: &mut Changes) {
        changes.add(self.changes.into_inner());
    }

    /// Rolls the operation back although it succeeds, because it was already done before.
    pub(super) fn take_back(&self) {
        self.is_taken_back.set(true);
    }
}

/// Logs that a row was written or removed, so that the index follows. Removes its vectors, because they belong to the
/// previous text.
pub(super) fn log(db: &WriteContext<'_>, key: impl Into<DocumentKey>) -> Result<(), StoreError> {
    let key = key.into();
    db.run("INSERT INTO index_log (kind, row) VALUES (?1, ?2)", params![key.kind.as_str(), key.row])?;
    remove_vectors(db, key)?;
    log_mark(db, key);
    db.changes.borrow_mut().documents = true;
    Ok(())
}

/// Records a change that concerns other machines but not the index.
pub(super) fn log_mark(db: &WriteContext<'_>, key: DocumentKey) {
    if ItemKind::has_document(key.kind) {
        db.shareable.borrow_mut().insert(key);
    }
}

/// Removes the vectors of a document, and records their id for the file that may contain them.
pub(super) fn remove_vectors(db: &WriteContext<'_>, key: DocumentKey) -> Result<(), StoreError> {
    let removed: Vec<(ProjectRow, VectorId)> = db.all(
        "DELETE FROM vectors WHERE kind = ?1 AND row = ?2 RETURNING project, id",
        params![key.kind.as_str(), key.row],
    )?;
    for (project, id) in removed {
        db.run("INSERT INTO gone_vectors (project, id) VALUES (?1, ?2)", params![project, id])?;
    }
    Ok(())
}
