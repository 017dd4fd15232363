//! Records people's changes to observations, newest last, with the previous state, and when they last reviewed one.
//! Changes by people at other machines are recorded in the same way, with their author.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::operation::{WriteContext, log_mark};
use crate::sessions::lineage;
use recall_domain::document::Status;
use recall_domain::ids::{ObservationId, Timestamp};
use recall_domain::review::ReviewVerdict;

record! {
/// A manual change of an observation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct HandChange from "hand_changes c JOIN observations o ON o.id = c.observation" {
    pub(crate) number: i64 = "c.id",
    pub(crate) observation: ObservationId = "c.observation",
    pub(crate) what: String = "c.what",
    pub(crate) title: String = "o.title",
    pub(crate) at: Timestamp = "c.at",
    /// The author and the device; `None` if it was made on this machine.
    pub(crate) by: Option<(String, String)> = "c.author, c.device",
}
}

/// Which of an observation's parts a change concerns. Changes of different parts are undone independently.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Text,
    Validity,
    Pin,
}

impl HandChange {
    fn part(&self) -> Part {
        match self.what.as_str() {
            "edit" => Part::Text,
            "pin" | "unpin" => Part::Pin,
            _ => Part::Validity,
        }
    }
}

record! {
/// When a person last reviewed an observation, and whether they rejected it.
pub(crate) struct Reviewed from "observations" {
    pub(crate) at: Option<Timestamp> = "reviewed_at",
    pub(crate) is_rejected: bool = "rejected_at IS NOT NULL",
    pub(crate) status: Status = "status",
}
}

impl Reviewed {
    pub(crate) fn of(db: &Connection, id: ObservationId) -> Result<Self, StoreError> {
        db.one(&format!("{} WHERE id = ?1", Self::SELECT), params![id])
    }
}

/// The newest changes of observations that can be reverted, newest first. Those of other machines are included.
pub(crate) fn of_observations(db: &Connection, most: u32) -> Result<Vec<HandChange>, StoreError> {
    db.all(&format!("{} WHERE NOT c.undone ORDER BY c.id DESC LIMIT ?1", HandChange::SELECT), [most])
}

/// The newest change of an observation that can be reverted, whoever made it.
pub(crate) fn newest_of(db: &Connection, id: ObservationId) -> Result<Option<HandChange>, StoreError> {
    let sql = format!(
        "{} WHERE c.observation = ?1 AND NOT c.undone ORDER BY c.id DESC LIMIT 1",
        HandChange::SELECT
    );
    db.first(&sql, params![id])
}

/// The newest change of this machine that can be reverted.
pub(crate) fn newest_own(db: &Connection) -> Result<Option<HandChange>, StoreError> {
    let sql =
        format!("{} WHERE NOT c.undone AND c.author IS NULL ORDER BY c.id DESC LIMIT 1", HandChange::SELECT);
    db.first(&sql, [])
}

/// A later change by another machine of the same part of the observation. Reverting the earlier one would revert both.
pub(crate) fn covering(db: &Connection, change: &HandChange) -> Result<Option<HandChange>, StoreError> {
    let sql = format!(
        "{} WHERE c.observation = ?1 AND c.id > ?2 AND NOT c.undone AND c.author IS NOT NULL ORDER BY c.id DESC",
        HandChange::SELECT
    );
    let later: Vec<HandChange> = db.all(&sql, params![change.observation, change.number])?;
    Ok(later.into_iter().find(|later| later.part() == change.part()))
}

/// Stores the state before a change, and whether it was reviewed.
pub(crate) fn remember(
    db: &WriteContext<'_>,
    id: ObservationId,
    what: &str,
    mut before: Value,
    at: Timestamp,
) -> Result<(), StoreError> {
    if before["reviewed"].is_null() {
        before["reviewed"] = state(db, id)?;
    }
    db.change_by_hand(id.0);
    db.run(
        "INSERT INTO hand_changes (observation, what, before, at) VALUES (?1, ?2, ?3, ?4)",
        params![id, what, before.to_string(), at.0],
    )
}

/// Stores the state before a change that another machine made.
pub(crate) fn remember_elsewhere(
    db: &WriteContext<'_>,
    id: ObservationId,
    what: &str,
    before: &Value,
    (author, device, at): (&str, &str, Timestamp),
) -> Result<(), StoreError> {
    db.run(
        "INSERT INTO hand_changes (observation, what, before, at, author, device) VALUES (?1, ?2, ?3, ?4, ?5, ?6)",
        params![id, what, before.to_string(), at.0, author, device],
    )
}

/// Records that a person has reviewed an observation.
pub(crate) fn mark(db: &WriteContext<'_>, id: ObservationId, at: Timestamp) -> Result<(), StoreError> {
    db.run("UPDATE observations SET reviewed_at = ?2 WHERE id = ?1", params![id, at])?;
    log_mark(db, id.into());
    Ok(())
}

/// Returns the review state of an observation, for [`restore`].
pub(crate) fn state(db: &Connection, id: ObservationId) -> Result<Value, StoreError> {
    let Reviewed { at, is_rejected, .. } = Reviewed::of(db, id)?;
    Ok(json!({"at": at.map(|at| at.0), "rejected": is_rejected}))
}

/// Restores what [`state`] returned. Changes from earlier versions have no state.
pub(crate) fn restore(db: &WriteContext<'_>, id: ObservationId, state: &Value) -> Result<(), StoreError> {
    if state.is_null() {
        return Ok(());
    }
    db.run("UPDATE observations SET reviewed_at = ?2 WHERE id = ?1", params![id, state["at"].as_i64()])?;
    let verdict = if state["rejected"] == true { ReviewVerdict::Rejected } else { ReviewVerdict::Kept };
    lineage::judge(db, id, verdict)?;
    log_mark(db, id.into());
    Ok(())
}
