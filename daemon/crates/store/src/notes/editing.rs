//! Lets a person rewrite, pin, resolve or reopen observations. `changes.rs` undoes each of these.
//!
//! An edited observation belongs to the user from then on. No compression changes or removes it, and an observation
//! that a compression makes again under the old title counts as this one.

use rusqlite::Connection;
use serde_json::{Value, json};

use crate::database::bind::params;
use crate::database::row::Sql;
use crate::notes::by_hand::Validity;
use crate::notes::hand_changes::remember;
use crate::notes::subjects::subjects;
use crate::notes::threads::thread_words_of;
use crate::notes::{hand_changes, threads};
use crate::operation::{Operation, WriteContext, log};
use crate::sessions::lineage;
use crate::{Reader, StoreError};
use recall_domain::ids::{ObservationId, ProjectRow, Timestamp};
use recall_domain::observation::{NoteOrigin, ObservationType};

/// Text written by a person.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditedText {
    pub kind: ObservationType,
    pub title: String,
    pub narrative: String,
    pub facts: Vec<String>,
    /// Paths relative to the project's folder.
    pub files: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EditObservation {
    pub id: ObservationId,
    pub text: EditedText,
    pub at: Timestamp,
}

/// Whether an observation is pinned to the start of sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pin {
    On,
    Off,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinObservations {
    pub ids: Vec<ObservationId>,
    pub pin: Pin,
    pub at: Timestamp,
}

/// Marks observations. The user's mark overrides earlier results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkObservations {
    pub ids: Vec<ObservationId>,
    pub validity: Validity,
    pub at: Timestamp,
}

impl Reader<'_> {
    /// Returns when a person last rewrote an observation on this machine; `None` if never, or if that was reverted.
    pub fn edited_at(self, id: ObservationId) -> Result<Option<Timestamp>, StoreError> {
        let found = "SELECT max(at) FROM hand_changes WHERE observation = ?1 AND what = 'edit' AND NOT undone
            AND author IS NULL";
        self.0.one(found, params![id])
    }
}

impl Operation for EditObservation {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let Self { id, text, at } = self;
        let before = written(db, id)?;
        remember(db, id, "edit", before.clone(), at)?;
        hand_changes::mark(db, id, at)?;
        // Changed files stay marked as changed; the others are only mentioned.
        let modified: Vec<String> = texts(&before["files_modified"]).collect();
        let (modified, read): (Vec<_>, Vec<_>) =
            text.files.into_iter().partition(|file| modified.contains(file));
        let after = json!({
            "type": text.kind.as_str(), "title": text.title, "subtitle": null, "narrative": text.narrative,
            "facts": text.facts, "files_read": read, "files_modified": modified, "origin": NoteOrigin::USER,
            "made_as": before["made_as"].as_str().or(before["title"].as_str().filter(|_| before["origin"] != NoteOrigin::USER)),
        });
        write(db, id, &after)
    }
}

impl Operation for PinObservations {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let Self { ids, pin, at } = self;
        let (what, pinned_at) = match pin {
            Pin::On => ("pin", Some(at)),
            Pin::Off => ("unpin", None),
        };
        for id in ids {
            let before: Option<Timestamp> =
                db.one("SELECT pinned_at FROM observations WHERE id = ?1", params![id])?;
            if before.is_some() != pinned_at.is_some() {
                remember(db, id, what, json!({"pinned_at": before}), at)?;
                hand_changes::mark(db, id, at)?;
                pin_at(db, id, pinned_at)?;
            }
        }
        Ok(())
    }
}

impl Operation for MarkObservations {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        for id in self.ids {
            let before: String = db.one("SELECT status FROM observations WHERE id = ?1", params![id])?;
            let (ended, reviewed) = (lineage::enders(db, id)?, hand_changes::state(db, id)?);
            match self.validity {
                Validity::Holds => lineage::uphold(db, id)?,
                Validity::Resolved => lineage::resolve_by_hand(db, id)?,
            }
            let what = match self.validity {
                Validity::Holds => "reopen",
                Validity::Resolved => "resolve",
            };
            let after: String = db.one("SELECT status FROM observations WHERE id = ?1", params![id])?;
            if after != before {
                let before = json!({"status": before, "ended": ended, "reviewed": reviewed});
                remember(db, id, what, before, self.at)?;
                hand_changes::mark(db, id, self.at)?;
            }
        }
        Ok(())
    }
}

/// Sets or removes a pin. Logs it for the index, because a search ranks by it.
pub(super) fn pin_at(
    db: &WriteContext<'_>,
    id: ObservationId,
    at: Option<Timestamp>,
) -> Result<(), StoreError> {
    db.run("UPDATE observations SET pinned_at = ?2 WHERE id = ?1", params![id, at])?;
    log(db, id)
}

/// Returns the current values of the fields that a person may change.
pub(crate) fn written(db: &Connection, id: ObservationId) -> Result<Value, StoreError> {
    let written: String = db.one(
        "SELECT json_object('type', type, 'title', title, 'subtitle', subtitle, 'narrative', narrative,
                'facts', json(iif(json_valid(facts), facts, '[]')),
                'files_read', json(iif(json_valid(files_read), files_read, '[]')),
                'files_modified', json(iif(json_valid(files_modified), files_modified, '[]')),
                'origin', origin, 'made_as', made_as) FROM observations WHERE id = ?1",
        params![id],
    )?;
    Ok(serde_json::from_str(&written)?)
}

pub(super) fn write(db: &WriteContext<'_>, id: ObservationId, new: &Value) -> Result<(), StoreError> {
    let title_and_narrative = ["title", "narrative"].into_iter().filter_map(|key| new[key].as_str());
    let facts: Vec<String> = texts(&new["facts"]).collect();
    db.run(
        "UPDATE observations SET type = ?2, title = ?3, subtitle = ?4, narrative = ?5, facts = ?6, files_read = ?7,
                files_modified = ?8, origin = ?9, made_as = ?10, words = ?11 WHERE id = ?1",
        params![
            id,
            new["type"].as_str(),
            new["title"].as_str(),
            new["subtitle"].as_str(),
            new["narrative"].as_str(),
            new["facts"].to_string(),
            new["files_read"].to_string(),
            new["files_modified"].to_string(),
            new["origin"].as_str(),
            new["made_as"].as_str(),
            thread_words_of(title_and_narrative.chain(facts.iter().map(String::as_str))),
        ],
    )?;
    db.run("DELETE FROM observation_files WHERE observation = ?1", params![id])?;
    for (key, usage) in [("files_read", "read"), ("files_modified", "modified")] {
        for path in texts(&new[key]) {
            db.run("INSERT OR IGNORE INTO observation_files VALUES (?1, ?2, ?3)", params![id, path, usage])?;
        }
    }
    log(db, id)?;
    let project: ProjectRow = db.one("SELECT project FROM observations WHERE id = ?1", params![id])?;
    // What a person writes is replaced by less.
    let subjects = subjects(db, "SELECT subject FROM observations WHERE id = ?1", params![id])?;
    lineage::settle(db, project, &subjects, Timestamp(0))?;
    threads::rethread(db, project, &[id].into())
}

fn texts(list: &Value) -> impl Iterator<Item = String> {
    list.as_array().into_iter().flatten().filter_map(|value| value.as_str().map(str::to_owned))
}
