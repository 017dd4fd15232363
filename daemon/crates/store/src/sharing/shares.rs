//! Begins, changes and ends shares.

use std::collections::BTreeSet;

use super::super::StoreError;
use super::super::forgetting::leave;
use super::super::operation::{Operation, RemovedCopies, WriteContext};
use super::super::projects;
use super::super::row::Sql;
use super::{Logged, LoggedColumns};
use crate::Reader;
use crate::bind::params;
use recall_domain::ids::{ObservationId, ProjectKey, ProjectRow, ShareId, Timestamp};
use recall_domain::sync::DeviceId;
use recall_domain::sync::record::{BEGINNING, Chain};

/// What is agreed for a share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    pub injects: bool,
    pub is_personal: bool,
}

/// Makes a project known, by all identities that its folder proves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnowProject {
    pub keys: Vec<ProjectKey>,
    pub name: String,
    pub at: Timestamp,
}

impl Operation for KnowProject {
    type Output = ProjectRow;

    fn execute(self, db: &WriteContext<'_>) -> Result<ProjectRow, StoreError> {
        projects::resolve(db, &self.keys, &self.name, self.at)
    }
}

/// Begins to share a project, or changes the terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenShare {
    /// The identity by which other machines know the project.
    pub project: ProjectKey,
    /// Its name, if it is new here.
    pub project_name: String,
    pub remote: String,
    pub space: String,
    pub device: DeviceId,
    pub author: String,
    pub device_name: String,
    pub terms: Terms,
    pub at: Timestamp,
}

impl Operation for OpenShare {
    type Output = ShareId;

    fn execute(self, db: &WriteContext<'_>) -> Result<ShareId, StoreError> {
        let Terms { injects, is_personal } = self.terms;
        let project = projects::resolve(db, &[self.project], &self.project_name, self.at)?;
        let was_personal: Option<bool> = db.first(
            "SELECT personal FROM shares WHERE project = ?1 AND remote = ?2",
            params![project.0, self.remote],
        )?;
        db.run(
            "INSERT INTO shares (project, remote, space, device, author, device_name, inject, personal)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)
             ON CONFLICT DO UPDATE SET author = excluded.author, device_name = excluded.device_name,
                inject = excluded.inject, personal = excluded.personal",
            params![
                project.0,
                self.remote,
                self.space,
                self.device,
                self.author,
                self.device_name,
                injects,
                is_personal
            ],
        )?;
        let id: i64 = db.one(
            "SELECT id FROM shares WHERE project = ?1 AND remote = ?2",
            params![project.0, self.remote],
        )?;
        if was_personal.is_some_and(|was| was != is_personal) {
            // Other notes may leave now, or not any more.
            db.run("UPDATE shares SET logged_upto = 0 WHERE id = ?1", [id])?;
        }
        Ok(ShareId(id))
    }
}

/// Ends a share. Notes of other machines that came by it go; the own ones stay, here and there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseShare {
    pub share: ShareId,
    pub at: Timestamp,
}

impl Operation for CloseShare {
    /// How many notes of other machines went.
    type Output = usize;

    fn execute(self, db: &WriteContext<'_>) -> Result<usize, StoreError> {
        db.set_removed_copies(RemovedCopies::Stay);
        let foreign: Vec<i64> =
            db.all("SELECT id FROM observations WHERE share = ?1", params![self.share])?;
        let foreign: BTreeSet<i64> = foreign.into_iter().collect();
        leave(db, &foreign, self.at)?;
        db.run("DELETE FROM shares WHERE id = ?1", params![self.share])?;
        Ok(foreign.len())
    }
}

/// Gives this data folder another name everywhere, because another one has the name, too. What was logged is said again
/// under the new name; saying it twice changes nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenewDevice {
    pub device: DeviceId,
}

impl Operation for RenewDevice {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let shares: Vec<(ShareId, String)> =
            db.all("SELECT id, space FROM shares WHERE device <> ?1", params![&self.device])?;
        for (share, space) in shares {
            let chain = Chain { space: &space, device: &self.device };
            let mut hash = BEGINNING.to_owned();
            let all: Vec<LoggedColumns> =
                db.all(&format!("{} WHERE share = ?1 ORDER BY seq", LoggedColumns::SELECT), params![share])?;
            for Logged { record, .. } in all.into_iter().map(Logged::from) {
                hash = chain.hash(&hash, &record);
                db.run(
                    "UPDATE sync_log SET hash = ?3, emptied = 0 WHERE share = ?1 AND seq = ?2",
                    params![share, i64::try_from(record.seq).unwrap_or(i64::MAX), hash],
                )?;
            }
            db.run("UPDATE shares SET device = ?2 WHERE id = ?1", params![share, self.device])?;
        }
        Ok(())
    }
}

/// Records which entries do not leave, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HoldBack {
    pub share: ShareId,
    pub entries: Vec<(u64, String)>,
}

impl Operation for HoldBack {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        for (seq, why) in self.entries {
            db.run(
                "UPDATE sync_log SET held = ?3 WHERE share = ?1 AND seq = ?2",
                params![self.share, i64::try_from(seq).unwrap_or(i64::MAX), why],
            )?;
        }
        Ok(())
    }
}

/// Records that the remote has no body of these entries any more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EmptiedSent {
    pub share: ShareId,
    pub entries: Vec<u64>,
}

impl Operation for EmptiedSent {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        for seq in self.entries {
            db.run(
                "UPDATE sync_log SET emptied = 0 WHERE share = ?1 AND seq = ?2",
                params![self.share, i64::try_from(seq).unwrap_or(i64::MAX)],
            )?;
        }
        Ok(())
    }
}

/// Records the remote's own id at the first round.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AcceptMarker {
    pub share: ShareId,
    pub marker: String,
}

impl Operation for AcceptMarker {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        db.run(
            "UPDATE shares SET marker = ?2 WHERE id = ?1 AND marker IS NULL",
            params![self.share, self.marker],
        )
    }
}

/// What would leave if a project were shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    pub observations: u64,
    pub sessions: u64,
    /// Notes that stay because they are personal.
    pub personal: u64,
    /// All texts that would leave, with their numbers and titles, newest first.
    pub texts: Vec<(ObservationId, String, String)>,
}

impl Reader<'_> {
    /// What would leave now if this project were shared on such terms.
    pub fn preview(self, project: ProjectRow, terms: Terms) -> Result<Preview, StoreError> {
        let db = self.0;
        const PERSONAL: &str = "type IN ('preference', 'correction')";
        let (observations, sessions, personal): (u64, u64, u64) = db.one(
        &format!(
            "SELECT count(*) FILTER (WHERE ?2 OR NOT {PERSONAL}),
                count(DISTINCT session) FILTER (WHERE ?2 OR NOT {PERSONAL}), count(*) FILTER (WHERE NOT ?2 AND {PERSONAL})
             FROM observations WHERE project = ?1 AND share IS NULL"
        ),
        params![project.0, terms.is_personal],
    )?;
        let texts: Vec<(i64, String, String)> = db.all(
        &format!(
            "SELECT id, title, concat_ws(char(10), title, subtitle, narrative, facts, concepts, files_read, files_modified)
             FROM observations WHERE project = ?1 AND share IS NULL AND (?2 OR NOT {PERSONAL})
             ORDER BY created_at DESC, id DESC"
        ),
        params![project.0, terms.is_personal],
    )?;
        let texts = texts.into_iter().map(|(id, title, text)| (ObservationId(id), title, text)).collect();
        Ok(Preview { observations, sessions, personal, texts })
    }
}
