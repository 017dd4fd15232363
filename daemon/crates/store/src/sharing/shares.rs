//! Creates, changes and ends shares.

use std::collections::{BTreeMap, BTreeSet};

use crate::database::bind::params;
use crate::database::row::Sql;
use crate::forgetting::{Foreign, leave};
use crate::operation::{Operation, RemovedCopies, WriteContext};
use crate::questions::projects;
use crate::sharing::log::withdraw_items;
use crate::sharing::relations::Relations;
use crate::sharing::{Logged, LoggedColumns, share};
use crate::{Reader, StoreError};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::{ProjectKey, ProjectRow, ShareId, Timestamp};
use recall_domain::sync::DeviceId;
use recall_domain::sync::kind::ItemKind;
use recall_domain::sync::record::{BEGINNING, LogChain};

/// The terms of a share.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ShareTerms {
    pub injects: bool,
    pub is_personal: bool,
    pub has_prompts: bool,
    pub has_answers: bool,
}

/// Stores a project with all identities that its folder proves.
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

/// Creates a share for a project, or changes its terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenShare {
    /// The identity that the project has on all machines.
    pub project: ProjectKey,
    /// The project's name, used if it is not stored yet.
    pub project_name: String,
    pub remote: String,
    pub space: String,
    pub device: DeviceId,
    pub author: String,
    pub device_name: String,
    pub terms: ShareTerms,
    pub at: Timestamp,
}

impl Operation for OpenShare {
    type Output = ShareId;

    fn execute(self, db: &WriteContext<'_>) -> Result<ShareId, StoreError> {
        let ShareTerms { injects, is_personal, has_prompts, has_answers } = self.terms;
        let project = projects::resolve(db, &[self.project], &self.project_name, self.at)?;
        let before: Option<(bool, bool, bool, bool)> = db.first(
            "SELECT inject, personal, prompts, answers FROM shares WHERE project = ?1 AND remote = ?2",
            params![project.0, self.remote],
        )?;
        db.run(
            "INSERT INTO shares (project, remote, space, device, author, device_name, inject, personal, prompts, answers)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)
             ON CONFLICT DO UPDATE SET author = excluded.author, device_name = excluded.device_name,
                inject = excluded.inject, personal = excluded.personal, prompts = excluded.prompts,
                answers = excluded.answers",
            params![
                project.0,
                self.remote,
                self.space,
                self.device,
                self.author,
                self.device_name,
                injects,
                is_personal,
                has_prompts,
                has_answers
            ],
        )?;
        let id: i64 = db.one(
            "SELECT id FROM shares WHERE project = ?1 AND remote = ?2",
            params![project.0, self.remote],
        )?;
        let Some((injected, was_personal, had_prompts, had_answers)) = before else { return Ok(ShareId(id)) };
        if was_personal != is_personal {
            // The new terms may include other notes, or exclude some.
            db.run("UPDATE shares SET logged_upto = 0 WHERE id = ?1", [id])?;
        }
        if let Some(share) = share(db, ShareId(id))?.filter(|_| injected != injects) {
            // What sessions may receive replaces what they may receive.
            let mut relations = Relations::default();
            relations.add_all(db, share.id)?;
            relations.decide(db, &share)?;
        }
        for (had, has, kind, column) in [
            (had_prompts, has_prompts, ItemKind::Prompt, "prompts_logged_upto"),
            (had_answers, has_answers, ItemKind::Answer, "answers_logged_upto"),
        ] {
            if let (true, false, Some(share)) = (had, has, share(db, ShareId(id))?) {
                withdraw_items(db, &share, kind)?;
                db.run(&format!("UPDATE shares SET {column} = 0 WHERE id = ?1"), [id])?;
            }
        }
        Ok(ShareId(id))
    }
}

/// Ends a share. Other machines' notes that arrived by it are removed. This machine's own notes stay, here and on
/// other machines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CloseShare {
    pub share: ShareId,
    pub at: Timestamp,
}

impl Operation for CloseShare {
    /// The number of removed items of other machines.
    type Output = usize;

    fn execute(self, db: &WriteContext<'_>) -> Result<usize, StoreError> {
        db.set_removed_copies(RemovedCopies::Stay);
        let of_share = params![self.share];
        let foreign = Foreign {
            observations: db
                .all("SELECT id FROM observations WHERE share = ?1", of_share)?
                .into_iter()
                .collect(),
            summaries: db
                .all("SELECT id FROM session_summaries WHERE share = ?1", of_share)?
                .into_iter()
                .collect(),
            plans: db.all("SELECT id FROM plans WHERE share = ?1", of_share)?.into_iter().collect(),
            received_texts: db
                .all("SELECT id FROM said_elsewhere WHERE share = ?1", of_share)?
                .into_iter()
                .collect(),
        };
        let count = foreign.observations.len()
            + foreign.summaries.len()
            + foreign.plans.len()
            + foreign.received_texts.len();
        let mut relations = Relations::default();
        relations.add_all(db, self.share)?;
        relations.take_waiting(db, self.share, u32::MAX)?;
        let closed = share(db, self.share)?;
        leave(db, foreign, self.at)?;
        if let Some(share) = closed {
            relations.decide(db, &share)?;
        }
        db.run("DELETE FROM shares WHERE id = ?1", params![self.share])?;
        Ok(count)
    }
}

/// Gives this data folder a new name everywhere, because another one has the same name. Its items are logged again
/// under the new name; merging them twice changes nothing.
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
            let chain = LogChain { space: &space, device: &self.device };
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

/// Records that the remote no longer has the bodies of these entries.
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

/// Records the remote's own id in the first round.
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

/// Lists what would leave if a project were shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Preview {
    pub observations: u64,
    pub summaries: u64,
    pub plans: u64,
    pub prompts: u64,
    pub answers: u64,
    pub sessions: u64,
    /// The number of notes that stay because they are personal.
    pub personal: u64,
}

/// A text that would leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreviewText {
    pub key: DocumentKey,
    pub title: String,
    pub text: String,
}

/// SQL that selects personal notes.
const PERSONAL: &str = "type IN ('preference', 'correction')";
/// The summaries, plans, prompts and answers that would leave, with their sessions.
const OF_SESSIONS: &str = "SELECT 'summary' AS kind, id, title, session, created_at AS at,
        concat_ws(char(10), title, request, investigated, learned, completed, next_steps, notes) AS text
    FROM session_summaries WHERE project = ?1 AND share IS NULL
    UNION ALL SELECT 'plan', l.id, l.title, l.session, l.updated_at, l.text
    FROM plans l JOIN sessions s ON s.id = l.session
    WHERE s.project = ?1 AND l.kind = 'plan' AND l.state = 'approved'
    UNION ALL SELECT 'prompt', b.id, '', b.session, b.opened_at, b.prompt
    FROM prompt_batches b JOIN sessions s ON s.id = b.session
    WHERE ?2 AND s.project = ?1 AND b.source = 'user' AND b.prompt IS NOT NULL
    UNION ALL SELECT 'response', b.id, '', b.session, b.opened_at, b.response
    FROM prompt_batches b JOIN sessions s ON s.id = b.session
    WHERE ?3 AND s.project = ?1 AND b.source = 'user' AND b.response IS NOT NULL";

impl Reader<'_> {
    /// Counts what would leave now if this project were shared on these terms, and visits each text: notes first, and
    /// the newest first. A project may have more text than fits into memory.
    pub fn preview(
        self,
        project: ProjectRow,
        terms: ShareTerms,
        mut visit: impl FnMut(PreviewText),
    ) -> Result<Preview, StoreError> {
        let db = self.0;
        let notes =
            format!("FROM observations WHERE project = ?1 AND share IS NULL AND (?2 OR NOT {PERSONAL})");
        let ShareTerms { is_personal, has_prompts, has_answers, .. } = terms;
        let observations: u64 =
            db.one(&format!("SELECT count(*) {notes}"), params![project.0, is_personal])?;
        let personal: u64 = db.one(
            &format!(
                "SELECT count(*) FROM observations WHERE project = ?1 AND share IS NULL AND NOT ?2 AND {PERSONAL}"
            ),
            params![project.0, is_personal],
        )?;
        let mut kinds: BTreeMap<&str, u64> = BTreeMap::new();
        let mut visit = |(key, title, text): (DocumentKey, String, String)| {
            *kinds.entry(key.kind.as_str()).or_default() += 1;
            visit(PreviewText { key, title, text });
        };
        db.each(
            &format!(
                "SELECT 'observation', id, title,
                    concat_ws(char(10), title, subtitle, narrative, facts, concepts, files_read, files_modified)
                 {notes} ORDER BY created_at DESC, id DESC"
            ),
            params![project.0, is_personal],
            &mut visit,
        )?;
        let given = params![project.0, has_prompts, has_answers];
        db.each(
            &format!("SELECT kind, id, title, text FROM ({OF_SESSIONS}) ORDER BY at DESC, kind, id DESC"),
            given,
            &mut visit,
        )?;
        let mut sessions: BTreeSet<i64> = db
            .all::<i64>(&format!("SELECT DISTINCT session FROM ({OF_SESSIONS})"), given)?
            .into_iter()
            .collect();
        sessions.extend(db.all::<i64>(
            &format!("SELECT DISTINCT session {notes} AND session IS NOT NULL"),
            params![project.0, is_personal],
        )?);
        let count = |kind: DocumentKind| kinds.get(kind.as_str()).copied().unwrap_or_default();
        Ok(Preview {
            observations,
            summaries: count(DocumentKind::Summary),
            plans: count(DocumentKind::Plan),
            prompts: count(DocumentKind::Prompt),
            answers: count(DocumentKind::Response),
            sessions: sessions.len() as u64,
            personal,
        })
    }
}
