//! Determines which observations are resolved or superseded, and why, by applying the rules of `domain::lineage` to
//! the stored rows.
//!
//! The lineage of a subject is recomputed whenever one of its rows is added, changed or removed. So the result does
//! not depend on the order of commits or on repeated commits. Lineage that a user reverted stays reverted.
//!
//! Subjects and files are stored as hashes, so that forgetting a row leaves no copy of its words here.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use rusqlite::Connection;
use serde_json::Value;

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::notes::sessions_elsewhere::{SessionOf, numbered};
use crate::notes::subjects::{SubjectHash, file_hash, subjects};
use crate::notes::threads;
use crate::operation::WriteContext;
use crate::sessions::enders::{Ended, Ender, FILE, THREAD, keep_ender, rejected, restate, undone};
use crate::sessions::traces::{changes_before, failings};
use crate::{Reader, StoreError};
use recall_domain::document::Status;
use recall_domain::fixes::{BatchSpan, FailingCheck, FileChange, Trail};
use recall_domain::ids::{BatchId, EventId, ObservationId, ProjectRow, SessionId, SessionRow, Timestamp};
use recall_domain::lineage::{Audience, Author, Claim, Settled, Settlement, successor};
use recall_domain::review::ReviewVerdict;

/// The lineage kinds for a newer observation of the same subject and for a user's decision.
const SAME_SUBJECT: &str = "subject";
const BY_HAND: &str = "user";

/// The lineage kind for a passing check.
const PASSED: &str = "passed";

/// Why an observation is inactive, or which observation it made inactive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineageRow {
    pub relation: Relation,
    /// The other observation, if there is one.
    pub other: Option<(ObservationId, String)>,
    /// The session and the prompt number of the work.
    pub work: Option<(SessionId, u32)>,
    /// Ids of events.
    pub evidence: Vec<String>,
}

/// The role of an observation in its lineage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The other observation superseded this one.
    SupersededBy,
    /// This observation superseded the other one.
    Supersedes,
    /// The check that this observation is about now passes.
    Settled,
    ResolvedByHand,
    /// The file from which it was imported no longer contains it.
    GoneFromFile,
    Rejected,
}

record! {
/// Columns of a lineage row; `?1` is the observation.
struct LineageColumns from "lineage l LEFT JOIN observations o ON o.id = iif(l.older = ?1, l.newer, l.older)
         LEFT JOIN prompt_batches b ON b.id = ifnull(l.batch,
            (SELECT batch FROM observations WHERE id = l.newer)) LEFT JOIN sessions s ON s.id = b.session" {
    is_older: bool = "l.older = ?1",
    reason: String = "l.reason",
    other: Option<ObservationId> = "o.id",
    title: Option<String> = "o.title",
    session: Option<SessionId> = "s.session_id",
    prompt: Option<u32> = "b.prompt_number",
    evidence: Vec<String> = "l.evidence",
    is_rejected: bool = "EXISTS (SELECT 1 FROM observations WHERE id = l.older AND rejected_at IS NOT NULL)",
}
}

impl LineageColumns {
    fn into_row(self) -> LineageRow {
        let relation = match (self.is_older, self.reason.as_str()) {
            (_, PASSED) => Relation::Settled,
            (true, _) if self.other.is_none() && self.is_rejected => Relation::Rejected,
            (true, FILE) if self.other.is_none() => Relation::GoneFromFile,
            (true, _) if self.other.is_none() => Relation::ResolvedByHand,
            (true, _) => Relation::SupersededBy,
            (false, _) => Relation::Supersedes,
        };
        LineageRow {
            relation,
            other: self.other.map(|other| (other, self.title.unwrap_or_default())),
            work: self.session.zip(self.prompt),
            evidence: self.evidence,
        }
    }
}

impl Reader<'_> {
    /// Returns the lineage of an observation: first what ended it, then what it ended. Reverted lineage is omitted.
    pub fn lineage(self, id: ObservationId) -> Result<Vec<LineageRow>, StoreError> {
        let rows: Vec<LineageColumns> = self.0.all(
            &format!(
                "{} WHERE (l.older = ?1 OR l.newer = ?1) AND NOT l.undone
             ORDER BY l.older = ?1 DESC, l.newer IS NULL, l.id",
                LineageColumns::SELECT
            ),
            params![id],
        )?;
        Ok(rows.into_iter().map(LineageColumns::into_row).collect())
    }
}

/// Replaces the stored settlements of a batch. Returns the affected subjects, old and new.
pub(crate) fn keep_settlements(
    db: &Connection,
    batch: BatchId,
    settled: &[Settled],
) -> Result<BTreeSet<SubjectHash>, StoreError> {
    let mut subjects = subjects(db, "SELECT subject FROM settlements WHERE batch = ?1", params![batch])?;
    db.run("DELETE FROM settlements WHERE batch = ?1", params![batch])?;
    for one in settled {
        let subject = SubjectHash::of(&one.subject);
        let files: Vec<String> = one.files.iter().map(|file| file_hash(file)).collect();
        let evidence: Vec<String> = one.evidence.iter().map(EventId::to_string).collect();
        let (files, evidence) = (serde_json::to_string(&files)?, serde_json::to_string(&evidence)?);
        db.run(
            "INSERT OR IGNORE INTO settlements (batch, subject, how, files, evidence) VALUES (?1, ?2, ?3, ?4, ?5)",
            params![batch, subject.0, PASSED, files, evidence],
        )?;
        subjects.insert(subject);
    }
    Ok(subjects)
}

/// Recomputes which of a project's observations about these subjects are superseded or settled. Apart from removed
/// observations, nothing before `since` has changed.
pub(crate) fn settle(
    db: &WriteContext<'_>,
    project: ProjectRow,
    subjects: &BTreeSet<SubjectHash>,
    since: Timestamp,
) -> Result<(), StoreError> {
    if subjects.is_empty() {
        return Ok(());
    }
    let rejected = rejected(db, project)?;
    for subject in subjects {
        let (claims, elsewhere) = claims(db, project, *subject)?;
        let mut history = History::new(db, project, *subject);
        for claim in &claims {
            let undone = undone(db, claim.id)?;
            let newer = successor(claim, &claims, |newer| {
                rejected.contains(&newer) || undone.contains(&Ender::Newer(newer))
            });
            let search = match elsewhere.contains(&claim.id) {
                // Its own machine knows what work there has settled.
                true => Search::Elsewhere,
                false => Search::of(db, claim.id, since)?,
            };
            let ended = match (newer, search) {
                (Some(newer), _) => Some((Ender::Newer(newer.id), SAME_SUBJECT, Vec::new())),
                (None, Search::Elsewhere) => None,
                (None, Search::Needless) => continue,
                (None, Search::From(from)) => history.settling(claim, from, &undone)?,
            };
            keep_ender(db, claim.id, ended)?;
            restate(db, claim.id)?;
        }
    }
    Ok(())
}

/// Which settlements to read to decide whether a claim is settled. Earlier results still hold if they rest on
/// unchanged rows. This matters because a project has thousands of passed checks and few open problems.
enum Search {
    /// The claim was settled by work before `since`.
    Needless,
    /// The claim is another machine's.
    Elsewhere,
    From(Timestamp),
}

impl Search {
    fn of(db: &Connection, claim: ObservationId, since: Timestamp) -> Result<Self, StoreError> {
        let (status, settled): (Status, Option<Timestamp>) = db.one(
            "SELECT o.status, (SELECT ifnull(b.closed_at, b.opened_at) FROM lineage l
                JOIN prompt_batches b ON b.id = l.batch WHERE l.older = o.id AND NOT l.undone)
             FROM observations o WHERE o.id = ?1",
            params![claim],
        )?;
        Ok(match settled {
            Some(settled) if settled < since => Self::Needless,
            None if status != Status::Active => Self::From(Timestamp(i64::MIN)),
            _ => Self::From(since),
        })
    }
}

/// The settlements of a subject, read lazily.
struct History<'a> {
    /// The settlements since a time, earliest first.
    settlements: Option<(Timestamp, Vec<Settlement>)>,
    trails: Trails<'a>,
}

impl<'a> History<'a> {
    fn new(db: &'a Connection, project: ProjectRow, subject: SubjectHash) -> Self {
        let trails = Trails { db, project, subject, failings: None, changes: BTreeMap::new() };
        Self { settlements: None, trails }
    }

    /// Returns the first settlement since `from` that settles the claim and is not undone.
    fn settling(
        &mut self,
        claim: &Claim,
        from: Timestamp,
        undone: &BTreeSet<Ender>,
    ) -> Result<Option<Ended>, StoreError> {
        let Trails { db, project, subject, .. } = self.trails;
        let known = match self.settlements.take() {
            Some((known_from, known)) if known_from <= from => (known_from, known),
            _ => (from, settlements(db, project, subject, from)?),
        };
        let (_, settlements) = self.settlements.insert(known);
        let may_settle = |settlement: &&Settlement| {
            let by = &settlement.by;
            by.end() >= from && settlement.comes_after(claim) && !undone.contains(&Ender::Batch(by.batch))
        };
        for settlement in settlements.iter().filter(may_settle) {
            let trail = self.trails.to(&settlement.by)?;
            if let Some(evidence) = settlement.settles(claim, &trail) {
                return Ok(Some((Ender::Batch(settlement.by.batch), PASSED, evidence)));
            }
        }
        Ok(None)
    }
}

/// Reads how a check went from failing to passing.
struct Trails<'a> {
    db: &'a Connection,
    project: ProjectRow,
    subject: SubjectHash,
    failings: Option<Vec<FailingCheck>>,
    changes: BTreeMap<BatchId, Vec<FileChange>>,
}

impl Trails<'_> {
    fn to(&mut self, pass: &BatchSpan) -> Result<Trail<'_>, StoreError> {
        let failings = match self.failings.take() {
            Some(known) => known,
            None => failings(self.db, self.project, self.subject)?,
        };
        let changes = match self.changes.entry(pass.batch) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(unknown) => unknown.insert(changes_before(self.db, self.project, pass)?),
        };
        Ok(Trail { failings: self.failings.insert(failings), changes })
    }
}

/// Resolves an observation at the user's request.
pub(crate) fn resolve_by_hand(db: &WriteContext<'_>, id: ObservationId) -> Result<(), StoreError> {
    db.run(
        "INSERT INTO lineage (older, reason, evidence) SELECT id, ?2, '[]' FROM observations WHERE id = ?1
         ON CONFLICT DO NOTHING",
        params![id, BY_HAND],
    )?;
    restate(db, id)
}

/// Records whether an observation is rejected. A rejected one supersedes nothing, so what it superseded is decided
/// again.
pub(crate) fn judge(
    db: &WriteContext<'_>,
    id: ObservationId,
    verdict: ReviewVerdict,
) -> Result<(), StoreError> {
    let changed = db.update(
        "UPDATE observations SET rejected_at = iif(?2, ifnull(reviewed_at, created_at), NULL)
         WHERE id = ?1 AND (rejected_at IS NOT NULL) <> ?2",
        params![id, verdict == ReviewVerdict::Rejected],
    )?;
    if changed == 0 {
        return Ok(());
    }
    let project: ProjectRow = db.one("SELECT project FROM observations WHERE id = ?1", params![id])?;
    let subjects = subjects(db, "SELECT subject FROM observations WHERE id = ?1", params![id])?;
    // What it superseded is older.
    settle(db, project, &subjects, Timestamp(0))?;
    threads::rethread(db, project, &[id].into())
}

/// Reverts `resolve_by_hand`. Other causes of the observation's end stay.
pub(crate) fn unresolve(db: &WriteContext<'_>, id: ObservationId) -> Result<(), StoreError> {
    db.run("DELETE FROM lineage WHERE older = ?1 AND reason = ?2", params![id, BY_HAND])?;
    restate(db, id)
}

/// Returns the causes of an observation's end, or those that would apply again after an undo. `end_again` takes them.
pub(crate) fn enders(db: &Connection, id: ObservationId) -> Result<Value, StoreError> {
    let rows: String = db.one(
        "SELECT json_group_array(json_object('newer', newer, 'batch', batch, 'reason', reason,
                'evidence', evidence, 'undone', undone)) FROM lineage WHERE older = ?1",
        params![id],
    )?;
    Ok(serde_json::from_str(&rows)?)
}

/// Reverts `uphold`. Causes added since then stay; causes forgotten since then have no effect.
pub(crate) fn end_again(db: &WriteContext<'_>, id: ObservationId, enders: &Value) -> Result<(), StoreError> {
    db.run("DELETE FROM lineage WHERE older = ?1 AND undone", params![id])?;
    db.run(
        "INSERT INTO lineage (older, newer, batch, reason, evidence, undone)
         SELECT ?1, value ->> 'newer', value ->> 'batch', value ->> 'reason', value ->> 'evidence', value ->> 'undone'
         FROM json_each(?2)
         WHERE (value ->> 'newer' IS NULL OR value ->> 'newer' IN (SELECT id FROM observations))
           AND (value ->> 'batch' IS NULL OR value ->> 'batch' IN (SELECT id FROM prompt_batches))
         ON CONFLICT DO NOTHING",
        params![id, enders.to_string()],
    )?;
    restate(db, id)
}

/// Reopens an observation at the user's request, whatever ended it.
pub(crate) fn uphold(db: &WriteContext<'_>, id: ObservationId) -> Result<(), StoreError> {
    db.run("UPDATE lineage SET undone = 1 WHERE older = ?1 AND newer IS NOT NULL", params![id])?;
    for newer in threads::covers(db, id)? {
        db.run(
            "INSERT INTO lineage (older, newer, reason, evidence, undone) VALUES (?1, ?2, ?3, '[]', 1)
             ON CONFLICT DO NOTHING",
            params![id, newer, THREAD],
        )?;
    }
    // Reverts the lineage of every observation of the subject, so that no other one takes its place.
    db.run(
        "INSERT INTO lineage (older, newer, reason, evidence, undone)
         SELECT o.id, n.id, ?2, '[]', 1 FROM observations o JOIN observations n
            ON n.project = o.project AND n.subject = o.subject AND n.id <> o.id
         WHERE o.id = ?1 ON CONFLICT DO NOTHING",
        params![id, SAME_SUBJECT],
    )?;
    uphold_against_work(db, id)
}

/// Reopens an observation that a person or work had resolved. Newer observations may still replace it.
pub(crate) fn uphold_against_work(db: &WriteContext<'_>, id: ObservationId) -> Result<(), StoreError> {
    judge(db, id, ReviewVerdict::Kept)?;
    db.run("DELETE FROM lineage WHERE older = ?1 AND reason = ?2", params![id, BY_HAND])?;
    db.run("UPDATE lineage SET undone = 1 WHERE older = ?1 AND newer IS NULL", params![id])?;
    db.run(
        "INSERT INTO lineage (older, batch, reason, evidence, undone)
         SELECT o.id, t.batch, t.how, '[]', 1 FROM observations o JOIN settlements t ON t.subject = o.subject
         JOIN prompt_batches b ON b.id = t.batch JOIN sessions s ON s.id = b.session AND s.project = o.project
         WHERE o.id = ?1 ON CONFLICT DO NOTHING",
        params![id],
    )?;
    restate(db, id)
}

record! {
struct ClaimColumns from "observations o" {
    id: ObservationId = "id",
    name: String = "uuid",
    /// See [`threads::IS_BY_HAND`] and [`threads::INJECTABLE`].
    is_by_hand: bool = "o.origin IN ('user', 'shared:user') OR o.by_hand",
    is_told: bool = "o.share IS NULL OR (SELECT inject FROM shares WHERE id = o.share)",
    is_elsewhere: bool = "o.share IS NOT NULL",
    person: String = "ifnull(o.author, ifnull((SELECT author FROM shares WHERE project = o.project ORDER BY id LIMIT 1), ''))",
    work: Option<String> = "work",
    session: Option<SessionRow> = "session",
    batch: Option<BatchId> = "batch",
    at: Timestamp = "created_at",
    files: Vec<String> = "(SELECT json_group_array(DISTINCT path) FROM observation_files WHERE
             observation = o.id)",
}
}

/// Returns a subject's claims, and which of them are another machine's.
fn claims(
    db: &Connection,
    project: ProjectRow,
    subject: SubjectHash,
) -> Result<(Vec<Claim>, BTreeSet<ObservationId>), StoreError> {
    let sql = format!("{} WHERE project = ?1 AND subject = ?2", ClaimColumns::SELECT);
    let rows: Vec<ClaimColumns> = db.all(&sql, params![project, subject.0])?;
    let elsewhere = rows.iter().filter(|row| row.is_elsewhere).map(|row| row.id).collect();
    let of: Vec<SessionOf> = rows.iter().map(|row| (row.session, row.work.clone())).collect();
    let claim = |(columns, session): (ClaimColumns, Option<SessionRow>)| Claim {
        id: columns.id,
        name: columns.name,
        author: if columns.is_by_hand { Author::User } else { Author::Compressor },
        person: columns.person,
        audience: if columns.is_told { Audience::Sessions } else { Audience::Searches },
        session,
        batch: columns.batch,
        at: columns.at,
        files: columns.files.iter().map(|file| file_hash(file)).collect(),
    };
    Ok((rows.into_iter().zip(numbered(db, &of)?).map(claim).collect(), elsewhere))
}

/// Returns the settlements of a subject since a time, earliest first. A settlement's time is when its batch ended or,
/// if the batch is open, began.
fn settlements(
    db: &Connection,
    project: ProjectRow,
    subject: SubjectHash,
    from: Timestamp,
) -> Result<Vec<Settlement>, StoreError> {
    let rows: Vec<(BatchSpan, Vec<String>, Vec<String>)> = db.all(
        "SELECT b.id, b.session, b.seq, b.opened_at, b.closed_at, t.files, t.evidence
         FROM settlements t JOIN prompt_batches b ON b.id = t.batch JOIN sessions s ON s.id = b.session
         WHERE t.subject = ?2 AND s.project = ?1 AND ifnull(b.closed_at, b.opened_at) >= ?3
         ORDER BY ifnull(b.closed_at, b.opened_at), b.id",
        params![project, subject.0, from],
    )?;
    Ok(rows.into_iter().map(|(by, files, evidence)| Settlement { by, files, evidence }).collect())
}

#[cfg(test)]
mod tests;
