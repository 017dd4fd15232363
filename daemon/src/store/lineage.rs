//! Which observations hold no longer, and why: the rules of `memory::lineage` over the stored rows.
//!
//! What follows from the rules is worked out anew for a subject whenever one of its rows comes, changes or goes, so it
//! does not matter in which order results are committed, or how often. What a user has undone stays undone.
//!
//! Subjects and files are kept as hashes here: a copy of words that a forgotten row would leave behind.

use std::collections::BTreeSet;
use std::collections::btree_map::{BTreeMap, Entry};

use rusqlite::{Connection, OptionalExtension, Row, params};

use super::StoreError;
use super::operation::{WriteContext, log};
use super::subjects::{SubjectHash, file_hash, subjects};
use super::traces::{changes_before, failings, span};
use crate::memory::document::Status;
use crate::memory::fixes::{Change, Failing, Span, Trail};
use crate::memory::ids::{BatchId, EventId, ObservationId, ProjectRow, SessionId, SessionRow, Timestamp};
use crate::memory::lineage::{Author, Claim, Settled, Settlement, Settling, successor};

/// The origin of what a user said.
pub(super) const USER: &str = "user";

/// What a lineage's row says for a newer observation of the same subject, and for the user's own word.
const SAME_SUBJECT: &str = "subject";
const BY_HAND: &str = "user";

/// Why an observation holds no longer, or what holds no longer because of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineageRow {
    pub relation: Relation,
    /// The other observation, where there is one.
    pub other: Option<(ObservationId, String)>,
    /// Whose work it was: session and prompt number.
    pub work: Option<(SessionId, u32)>,
    /// Ids of events.
    pub evidence: Vec<String>,
}

/// What an observation's lineage says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Relation {
    /// The other took its place.
    SupersededBy,
    /// It took the other's place.
    Supersedes,
    Settled(Settling),
    ResolvedByHand,
}

/// What is said of an observation: first what ended it, then what it ended. Undone lineage is not told.
///
/// # Errors
/// When the database refuses.
pub fn lineage(db: &Connection, id: ObservationId) -> Result<Vec<LineageRow>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT l.older = ?1, l.reason, o.id, o.title, s.session_id, b.prompt_number, l.evidence
         FROM lineage l LEFT JOIN observations o ON o.id = iif(l.older = ?1, l.newer, l.older)
         LEFT JOIN prompt_batches b ON b.id = ifnull(l.batch,
            (SELECT batch FROM observations WHERE id = l.newer)) LEFT JOIN sessions s ON s.id = b.session
         WHERE (l.older = ?1 OR l.newer = ?1) AND NOT l.undone ORDER BY l.older = ?1 DESC, l.newer IS NULL, l.id",
    )?;
    let read = |row: &Row<'_>| {
        let (is_older, reason): (bool, String) = (row.get(0)?, row.get(1)?);
        let other = row.get::<_, Option<i64>>(2)?.map(ObservationId);
        let relation = match (is_older, Settling::parse(&reason)) {
            (_, Some(how)) => Relation::Settled(how),
            (true, None) if other.is_none() => Relation::ResolvedByHand,
            (true, None) => Relation::SupersededBy,
            (false, None) => Relation::Supersedes,
        };
        let (session, prompt): (Option<String>, Option<u32>) = (row.get(4)?, row.get(5)?);
        let title = row.get::<_, Option<String>>(3)?.unwrap_or_default();
        Ok((
            relation,
            other.map(|other| (other, title)),
            session.map(SessionId).zip(prompt),
            row.get::<_, String>(6)?,
        ))
    };
    let rows = statement.query_map([id.0], read)?.collect::<Result<Vec<_>, _>>()?;
    rows.into_iter()
        .map(|(relation, other, work, evidence)| {
            Ok(LineageRow { relation, other, work, evidence: serde_json::from_str(&evidence)? })
        })
        .collect()
}

/// What the work of a batch has settled: just this. Returns the subjects that are concerned, before or now.
pub(super) fn keep_settlements(
    db: &Connection,
    batch: i64,
    settled: &[Settled],
) -> Result<BTreeSet<SubjectHash>, StoreError> {
    let mut subjects = subjects(db, "SELECT subject FROM settlements WHERE batch = ?1", [batch])?;
    db.prepare_cached("DELETE FROM settlements WHERE batch = ?1")?.execute([batch])?;
    let mut insert = db.prepare_cached(
        "INSERT OR IGNORE INTO settlements (batch, subject, how, files, evidence) VALUES (?1, ?2, ?3, ?4, ?5)",
    )?;
    for one in settled {
        let subject = SubjectHash::of(&one.subject);
        let files: Vec<String> = one.files.iter().map(|file| file_hash(file)).collect();
        let evidence: Vec<String> = one.evidence.iter().map(EventId::to_string).collect();
        let (files, evidence) = (serde_json::to_string(&files)?, serde_json::to_string(&evidence)?);
        insert.execute(params![batch, subject.0, one.how.as_str(), files, evidence])?;
        subjects.insert(subject);
    }
    Ok(subjects)
}

/// Works out who succeeds whom, and what is settled, among a project's observations about these subjects. Nothing from
/// before `since` has changed, but for observations that went.
pub(super) fn settle(
    db: &WriteContext<'_>,
    project: ProjectRow,
    subjects: &BTreeSet<SubjectHash>,
    since: Timestamp,
) -> Result<(), StoreError> {
    for subject in subjects {
        let claims = claims(db, project, *subject)?;
        let mut history = History::new(db, project, *subject);
        for claim in &claims {
            let undone = undone(db, claim.id)?;
            let newer = successor(claim, &claims, |newer| undone.contains(&Ender::Newer(newer.0)));
            let ended = match (newer, Search::of(db, claim.id, since)?) {
                (Some(newer), _) => Some((Ender::Newer(newer.id.0), SAME_SUBJECT, Vec::new())),
                (None, Search::Needless) => continue,
                (None, Search::From(from)) => history.settling(claim, from, &undone)?,
            };
            keep_ender(db, claim.id, ended)?;
            restate(db, claim.id)?;
        }
    }
    Ok(())
}

/// What has to be looked at to tell whether work has settled a claim. What was worked out before still holds as far as
/// it rests on what has not changed: a project has thousands of passed checks, and few problems that are open.
enum Search {
    /// What settled it came before anything that has changed.
    Needless,
    From(Timestamp),
}

impl Search {
    fn of(db: &Connection, claim: ObservationId, since: Timestamp) -> Result<Self, StoreError> {
        let mut find = db.prepare_cached(
            "SELECT o.status, (SELECT ifnull(b.closed_at, b.opened_at) FROM lineage l
                JOIN prompt_batches b ON b.id = l.batch WHERE l.older = o.id AND NOT l.undone)
             FROM observations o WHERE o.id = ?1",
        )?;
        let (status, settled): (String, Option<i64>) =
            find.query_row([claim.0], |row| Ok((row.get(0)?, row.get(1)?)))?;
        Ok(match settled.map(Timestamp) {
            Some(settled) if settled < since => Self::Needless,
            None if status != Status::Active.as_str() => Self::From(Timestamp(i64::MIN)),
            _ => Self::From(since),
        })
    }
}

/// What may have settled claims about a subject, read as far as it is needed.
struct History<'a> {
    /// From a moment on, the earliest first.
    settlements: Option<(Timestamp, Vec<Settlement>)>,
    trails: Trails<'a>,
}

impl<'a> History<'a> {
    fn new(db: &'a Connection, project: ProjectRow, subject: SubjectHash) -> Self {
        let trails = Trails { db, project, subject, failings: None, changes: BTreeMap::new() };
        Self { settlements: None, trails }
    }

    /// What settled the claim: the first from this moment on that did, and that the user has not undone.
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
            by.end() >= from && settlement.comes_after(claim) && !undone.contains(&Ender::Batch(by.batch.0))
        };
        for settlement in settlements.iter().filter(may_settle) {
            let trail = match settlement.how {
                Settling::Passed => self.trails.to(&settlement.by)?,
                Settling::Done | Settling::Delivered => Trail::default(),
            };
            if let Some(evidence) = settlement.settles(claim, &trail) {
                return Ok(Some((Ender::Batch(settlement.by.batch.0), settlement.how.as_str(), evidence)));
            }
        }
        Ok(None)
    }
}

/// What is known of the ways to the passes of a check.
struct Trails<'a> {
    db: &'a Connection,
    project: ProjectRow,
    subject: SubjectHash,
    failings: Option<Vec<Failing>>,
    changes: BTreeMap<BatchId, Vec<Change>>,
}

impl Trails<'_> {
    fn to(&mut self, pass: &Span) -> Result<Trail<'_>, StoreError> {
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

/// What ended an observation, in which way, and the events that show it.
type Ended = (Ender, &'static str, Vec<String>);

/// What ended an observation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Ender {
    Newer(i64),
    Batch(i64),
}

/// Makes the one row that follows from the rules be just this.
fn keep_ender(db: &Connection, older: ObservationId, ended: Option<Ended>) -> Result<(), StoreError> {
    let (newer, batch) = match ended {
        Some((Ender::Newer(newer), ..)) => (Some(newer), None),
        Some((Ender::Batch(batch), ..)) => (None, Some(batch)),
        None => (None, None),
    };
    db.prepare_cached(
        "DELETE FROM lineage WHERE older = ?1 AND reason <> 'user' AND NOT undone
            AND (newer IS NOT ?2 OR batch IS NOT ?3)",
    )?
    .execute(params![older.0, newer, batch])?;
    if let Some((_, reason, evidence)) = ended {
        db.prepare_cached(
            "INSERT INTO lineage (older, newer, batch, reason, evidence) VALUES (?1, ?2, ?3, ?4, ?5)
             ON CONFLICT DO UPDATE SET reason = excluded.reason, evidence = excluded.evidence",
        )?
        .execute(params![older.0, newer, batch, reason, serde_json::to_string(&evidence)?])?;
    }
    Ok(())
}

fn undone(db: &Connection, older: ObservationId) -> Result<BTreeSet<Ender>, StoreError> {
    let mut statement = db.prepare_cached("SELECT newer, batch FROM lineage WHERE older = ?1 AND undone")?;
    let rows = statement.query_map([older.0], |row| {
        let (newer, batch): (Option<i64>, Option<i64>) = (row.get(0)?, row.get(1)?);
        Ok(newer.map(Ender::Newer).or(batch.map(Ender::Batch)))
    })?;
    Ok(rows.collect::<Result<Vec<_>, _>>()?.into_iter().flatten().collect())
}

/// Lets an observation's status follow from its lineage, and says so to the index where it changes.
fn restate(db: &WriteContext<'_>, id: ObservationId) -> Result<(), StoreError> {
    let ended = db
        .prepare_cached(
            "SELECT newer FROM lineage WHERE older = ?1 AND NOT undone ORDER BY newer IS NULL, id DESC LIMIT 1",
        )?
        .query_row([id.0], |row| row.get::<_, Option<i64>>(0))
        .optional()?;
    let status = match ended {
        Some(Some(_)) => Status::Superseded,
        Some(None) => Status::Resolved,
        None => Status::Active,
    };
    let changed = db
        .prepare_cached(
            "UPDATE observations SET status = ?2, superseded_by = ?3
             WHERE id = ?1 AND (status <> ?2 OR superseded_by IS NOT ?3)",
        )?
        .execute(params![id.0, status.as_str(), ended.flatten()])?;
    if changed > 0 {
        log(db, "observation", id.0)?;
    }
    Ok(())
}

/// The user says that it holds no longer.
pub(super) fn resolve_by_hand(db: &WriteContext<'_>, id: ObservationId) -> Result<(), StoreError> {
    db.prepare_cached(
        "INSERT INTO lineage (older, reason, evidence) SELECT id, ?2, '[]' FROM observations WHERE id = ?1
         ON CONFLICT DO NOTHING",
    )?
    .execute(params![id.0, BY_HAND])?;
    restate(db, id)
}

/// The user says that it holds, whatever was said against it until now.
pub(super) fn uphold(db: &WriteContext<'_>, id: ObservationId) -> Result<(), StoreError> {
    db.prepare_cached("DELETE FROM lineage WHERE older = ?1 AND reason = ?2")?
        .execute(params![id.0, BY_HAND])?;
    db.prepare_cached("UPDATE lineage SET undone = 1 WHERE older = ?1")?.execute([id.0])?;
    // All that are about the same, so that none of them steps in for the one that was undone.
    db.prepare_cached(
        "INSERT INTO lineage (older, newer, reason, evidence, undone)
         SELECT o.id, n.id, ?2, '[]', 1 FROM observations o JOIN observations n
            ON n.project = o.project AND n.subject = o.subject AND n.id <> o.id
         WHERE o.id = ?1 ON CONFLICT DO NOTHING",
    )?
    .execute(params![id.0, SAME_SUBJECT])?;
    db.prepare_cached(
        "INSERT INTO lineage (older, batch, reason, evidence, undone)
         SELECT o.id, t.batch, t.how, '[]', 1 FROM observations o JOIN settlements t ON t.subject = o.subject
         JOIN prompt_batches b ON b.id = t.batch JOIN sessions s ON s.id = b.session AND s.project = o.project
         WHERE o.id = ?1 ON CONFLICT DO NOTHING",
    )?
    .execute([id.0])?;
    restate(db, id)
}

fn claims(db: &Connection, project: ProjectRow, subject: SubjectHash) -> Result<Vec<Claim>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT id, origin, session, batch, created_at,
                (SELECT json_group_array(DISTINCT path) FROM observation_files WHERE observation = o.id)
         FROM observations o WHERE project = ?1 AND subject = ?2",
    )?;
    let rows = statement.query_map(params![project.0, subject.0], |row| {
        let origin: String = row.get(1)?;
        let claim = Claim {
            id: ObservationId(row.get(0)?),
            author: if origin == USER { Author::User } else { Author::Compressor },
            session: row.get::<_, Option<i64>>(2)?.map(SessionRow),
            batch: row.get::<_, Option<i64>>(3)?.map(BatchId),
            at: Timestamp(row.get(4)?),
            files: Vec::new(),
        };
        Ok((claim, row.get::<_, String>(5)?))
    })?;
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    rows.into_iter()
        .map(|(claim, files)| {
            let files: Vec<String> = serde_json::from_str(&files)?;
            Ok(Claim { files: files.iter().map(|file| file_hash(file)).collect(), ..claim })
        })
        .collect()
}

/// What settled the subject from this moment on, the earliest first. A settlement bears the end of its batch or, while
/// that is open, its beginning.
fn settlements(
    db: &Connection,
    project: ProjectRow,
    subject: SubjectHash,
    from: Timestamp,
) -> Result<Vec<Settlement>, StoreError> {
    let mut statement = db.prepare_cached(
        "SELECT b.id, b.session, b.seq, b.opened_at, b.closed_at, t.how, t.files, t.evidence
         FROM settlements t JOIN prompt_batches b ON b.id = t.batch JOIN sessions s ON s.id = b.session
         WHERE t.subject = ?2 AND s.project = ?1 AND ifnull(b.closed_at, b.opened_at) >= ?3
         ORDER BY ifnull(b.closed_at, b.opened_at), b.id",
    )?;
    let rows = statement.query_map(params![project.0, subject.0, from.0], |row| {
        let how: String = row.get(5)?;
        let settlement = Settlement {
            by: span(row)?,
            how: Settling::parse(&how).unwrap_or(Settling::Done),
            files: Vec::new(),
            evidence: Vec::new(),
        };
        Ok((settlement, row.get::<_, String>(6)?, row.get::<_, String>(7)?))
    })?;
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    rows.into_iter()
        .map(|(settlement, files, evidence)| {
            let (files, evidence) = (serde_json::from_str(&files)?, serde_json::from_str(&evidence)?);
            Ok(Settlement { files, evidence, ..settlement })
        })
        .collect()
}

#[cfg(test)]
mod tests;
