//! Stores the results of compression as rows.

use std::collections::BTreeSet;

use rusqlite::{Connection, Row};
use uuid::Uuid;

use crate::database::bind::params;
use crate::database::row::{Cells, FromRow, Sql, record};
use crate::notes::evidence::{evidence_json, keep_files, merge, recompute_evidence, retract_missing};
use crate::notes::subjects::{Aimed, SubjectHash, aim, subjects, with_heirs};
use crate::notes::threads::{rethread, thread_words};
use crate::operation::{WriteContext, log};
use crate::sessions::lineage::{keep_settlements, settle};
use crate::sessions::lives::totals;
use crate::sessions::titles;
use crate::sessions::traces::{Beginning, keep_traces};
use crate::{StoreError, forgetting, sharing};
use recall_domain::fixes::Traces;
use recall_domain::ids::{BatchId, ObservationId, ProjectRow, SessionRow, SummaryId, Timestamp};
use recall_domain::lifecycle::LifecycleKind;
use recall_domain::lineage::Settled;
use recall_domain::observation::{NoteOrigin, ObservationDraft, SummaryDraft};
use recall_domain::sameness::{ComparedNote, is_duplicate};
use recall_domain::tokens::estimate;

/// Sets the observations of a batch to these, and to those that wait for the session's next selection. An observation
/// with an existing title keeps its number, because somebody may have cited it. One that another session of the
/// project already made gets this batch as further evidence. Finally, recomputes which observations supersede which.
/// Returns what is new.
pub(crate) fn replace_observations(
    db: &WriteContext<'_>,
    origin: &NoteOrigin,
    batch: BatchId,
    made: &BatchResult,
    reach: DuplicateScope,
) -> Result<Vec<LifecycleKind>, StoreError> {
    let (place, opened_at) = batch_scope(db, batch)?;
    let project = place.project;
    let mut pass = Pass::new(origin, opened_at);
    pass.concerned.extend(subjects(db, "SELECT subject FROM observations WHERE batch = ?1", params![batch])?);
    pass.concerned.extend(keep_settlements(db, batch, &made.settled)?);
    pass.concerned.extend(keep_traces(db, Beginning { batch, project, opened_at }, &made.traces)?);
    let drafts = with_heirs(db, batch, &made.drafts)?;
    let mut kept = pass.keep(db, &place, drafts, made.source_tokens, reach)?;
    kept.extend(waiting_for_choice(db, batch, origin)?);
    kept.extend(reviewed(db, batch)?);
    pass.changed.extend(retract_missing(db, batch, &kept)?);
    pass.end(db, project)
}

/// Returns the observations that a session selected from a batch. When the built-in compressor reads the batch again,
/// they stay until the session's next selection.
fn waiting_for_choice(
    db: &Connection,
    batch: BatchId,
    origin: &NoteOrigin,
) -> Result<Vec<ObservationId>, StoreError> {
    db.all(
        "SELECT o.id FROM observations o JOIN prompt_batches b ON b.id = o.batch
         WHERE b.id = ?1 AND b.chosen_among > 0 AND o.origin = ?2 AND ?2 = ?3",
        params![batch, origin, NoteOrigin::BUILT_IN],
    )
}

/// Returns the observations of a batch that a person reviewed, which stay as they were seen.
fn reviewed(db: &Connection, batch: BatchId) -> Result<Vec<ObservationId>, StoreError> {
    db.all("SELECT id FROM observations WHERE batch = ?1 AND reviewed_at IS NOT NULL", params![batch])
}

/// Returns the scope of a batch's observations, and when the batch began.
pub(crate) fn batch_scope(
    db: &Connection,
    batch: BatchId,
) -> Result<(ObservationScope, Timestamp), StoreError> {
    let (session, project, opened_at, at): (SessionRow, ProjectRow, Timestamp, Timestamp) = db.one(
        "SELECT b.session, s.project, b.opened_at, ifnull(b.closed_at, b.opened_at)
         FROM prompt_batches b JOIN sessions s ON s.id = b.session WHERE b.id = ?1",
        params![batch],
    )?;
    Ok((ObservationScope { session: Some(session), batch: Some(batch), project, at }, opened_at))
}

/// One replacement of the observations of a batch, or of several batches of a session.
pub(crate) struct Pass<'a> {
    origin: &'a NoteOrigin,
    /// Observations of the batches that no draft has repeated yet. The first batch that repeats one takes it over.
    pub(crate) unclaimed: BTreeSet<ObservationId>,
    /// The subjects of the observations before and after.
    pub(crate) concerned: BTreeSet<SubjectHash>,
    created: Vec<LifecycleKind>,
    /// The observations that now match the drafts, and those that other batches took over.
    pub(crate) changed: BTreeSet<ObservationId>,
    /// The time before which nothing changes.
    since: Timestamp,
}

impl<'a> Pass<'a> {
    pub(crate) fn new(origin: &'a NoteOrigin, opened_at: Timestamp) -> Self {
        let (unclaimed, concerned, created) = (BTreeSet::new(), BTreeSet::new(), Vec::new());
        Self { origin, unclaimed, concerned, created, changed: BTreeSet::new(), since: opened_at }
    }

    /// Stores the drafts of a batch. Returns the matching observations.
    pub(crate) fn keep(
        &mut self,
        db: &WriteContext<'_>,
        place: &ObservationScope,
        drafts: Vec<Aimed<'_>>,
        source_tokens: i64,
        reach: DuplicateScope,
    ) -> Result<Vec<ObservationId>, StoreError> {
        let (Some(session), Some(batch)) = (place.session, place.batch) else { return Ok(Vec::new()) };
        self.concerned.extend(drafts.iter().filter_map(|draft| draft.subject));
        let share = source_tokens / i64::try_from(drafts.len().max(1)).unwrap_or(1);
        let mut kept = Vec::new();
        for Aimed { draft, subject } in drafts {
            let known = known_as(db, place, draft, reach)?;
            if known.is_none() && forgetting::was_forgotten(db, session, batch, draft)? {
                continue;
            }
            let saved = (share - tokens_of(draft)).max(0);
            let is_unclaimed = known.is_some_and(|(id, _)| self.unclaimed.remove(&id));
            let id = match known {
                // It may have moved here from another batch, so its time is set again.
                Some((id, _)) if is_unclaimed => {
                    move_to_batch(db, id, place)?;
                    rewrite(db, id, draft, self.origin, saved)?
                }
                Some((id, MadeHere::Yes)) => rewrite(db, id, draft, self.origin, saved)?,
                Some((id, MadeHere::ByHand)) => id,
                Some((id, MadeHere::No)) => merge(db, id, session, batch, draft)?,
                None => {
                    let id = insert(db, place, draft, self.origin, saved)?;
                    let (kind, title) = (draft.kind, draft.title.clone());
                    self.created.push(LifecycleKind::ObservationCreated { id, kind, title });
                    id
                }
            };
            aim(db, id, subject)?;
            kept.push(id);
            log(db, id)?;
        }
        // An existing observation may have a different subject now.
        self.since = db.one(
            "SELECT min(created_at, ?2) FROM observations WHERE id IN (SELECT value FROM json_each(?1))
             UNION ALL SELECT ?2 ORDER BY 1 LIMIT 1",
            params![serde_json::to_string(&kept)?, self.since],
        )?;
        self.changed.extend(&kept);
        Ok(kept)
    }

    /// Recomputes the effects on other observations. Returns what is new.
    pub(crate) fn end(
        self,
        db: &WriteContext<'_>,
        project: ProjectRow,
    ) -> Result<Vec<LifecycleKind>, StoreError> {
        settle(db, project, &self.concerned, self.since)?;
        rethread(db, project, &self.changed)?;
        Ok(self.created)
    }
}

/// Moves an observation from another batch of the session to this batch.
fn move_to_batch(db: &Connection, id: ObservationId, place: &ObservationScope) -> Result<(), StoreError> {
    db.run(
        "UPDATE observations SET batch = ?2, created_at = ?3 WHERE id = ?1",
        params![id, place.batch, place.at],
    )?;
    db.run("DELETE FROM observation_batches WHERE observation = ?1 AND batch = ?2", params![id, place.batch])
}

/// Removes everything that was made from a batch.
pub(crate) fn take_back(db: &WriteContext<'_>, batch: BatchId) -> Result<(), StoreError> {
    let (project, opened_at): (ProjectRow, Timestamp) = db.one(
        "SELECT s.project, b.opened_at FROM prompt_batches b JOIN sessions s ON s.id = b.session WHERE b.id = ?1",
        params![batch],
    )?;
    let mut concerned = subjects(db, "SELECT subject FROM observations WHERE batch = ?1", params![batch])?;
    concerned.extend(keep_settlements(db, batch, &[])?);
    concerned.extend(keep_traces(db, Beginning { batch, project, opened_at }, &Traces::default())?);
    let taken_over = retract_missing(db, batch, &[])?;
    // Removed items may have been older than their batch.
    settle(db, project, &concerned, Timestamp(0))?;
    rethread(db, project, &taken_over.into_iter().collect())
}

/// The result of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BatchResult {
    pub drafts: Vec<ObservationDraft>,
    /// The claims that the batch's work settled, independent of the compressor.
    pub settled: Vec<Settled>,
    /// Traces that later work may build on, independent of the compressor.
    pub traces: Traces,
    /// The cost of reading the batch itself.
    pub source_tokens: i64,
}

/// Where to look for an observation that says the same.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum DuplicateScope {
    Project,
    /// Only in the batch. The model's result replaces a stand-in as a whole, so a stand-in is not mixed with anything
    /// else.
    Batch,
}

/// Whether an observation was made from the current batch.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MadeHere {
    Yes,
    No,
    /// A person rewrote or reviewed it.
    ByHand,
}

/// Reads whether an observation belongs to the batch; NULL if a person wrote, pinned or reviewed it.
impl FromRow for MadeHere {
    fn from_row(row: &Row<'_>, first: usize) -> rusqlite::Result<Self> {
        Ok(match row.cell::<Option<bool>>(first)? {
            Some(true) => Self::Yes,
            Some(false) => Self::No,
            None => Self::ByHand,
        })
    }
}

record! {
/// Columns of a known observation; `?2` is the current batch.
struct KnownColumns from "observations" {
    id: ObservationId = "id",
    made: MadeHere = "iif(batch IS ?2 AND reviewed_at IS NOT NULL, NULL, batch IS ?2)",
    title: String = "title",
    narrative: String = "narrative",
    facts: Vec<String> = "facts",
}
}

/// Returns the project's observation that says the same: one with the same title in this session, or a recent one with
/// nearly the same words.
fn known_as(
    db: &Connection,
    place: &ObservationScope,
    draft: &ObservationDraft,
    reach: DuplicateScope,
) -> Result<Option<(ObservationId, MadeHere)>, StoreError> {
    /// The number of observations compared. Further back, the same words may be a different finding.
    const LATEST: u32 = 200;
    let within_reach = |made: MadeHere| reach == DuplicateScope::Project || made != MadeHere::No;
    let same: Option<(ObservationId, MadeHere)> = db.first(
        "SELECT id, iif(made_as IS NULL AND pinned_at IS NULL AND (reviewed_at IS NULL OR batch IS NOT ?3),
                        batch IS ?3, NULL) FROM observations
         WHERE id IN (SELECT id FROM observations WHERE project = ?1 AND title = ?2
                      UNION SELECT id FROM observations WHERE project = ?1 AND made_as = ?2)
           AND share IS NULL AND ((status = 'active' AND +session IS ?4) OR +batch IS ?3)
         ORDER BY made_as IS NOT NULL DESC, batch IS ?3 DESC, id LIMIT 1",
        params![place.project, draft.title, place.batch, place.session],
    )?;
    let known = same.filter(|(_, made)| within_reach(*made));
    if known.is_some() {
        return Ok(known);
    }
    let body = [&draft.narrative].into_iter().chain(&draft.facts).map(String::as_str);
    let body = body.collect::<Vec<_>>().join("\n");
    let latest: Vec<KnownColumns> = db.all(
        &format!(
            "{0} WHERE batch = ?2 AND status <> 'active' AND type = ?3 AND origin <> 'user'
             UNION ALL SELECT * FROM ({0} WHERE project = ?1 AND status = 'active' AND type = ?3 AND origin <> 'user' AND share IS NULL
                ORDER BY created_at DESC, id DESC LIMIT ?4)
             UNION ALL SELECT * FROM ({0} WHERE project = ?1 AND rejected_at IS NOT NULL AND type = ?3 ORDER BY created_at DESC LIMIT ?4)",
            KnownColumns::SELECT
        ),
        params![place.project, place.batch, draft.kind.as_str(), LATEST],
    )?;
    let new = ComparedNote { kind: draft.kind, title: &draft.title, body: &body };
    let is_same_statement = |known: &KnownColumns| {
        let known_body = std::iter::once(&known.narrative).chain(&known.facts).map(String::as_str);
        let known_body = known_body.collect::<Vec<_>>().join("\n");
        is_duplicate(ComparedNote { kind: draft.kind, title: &known.title, body: &known_body }, new)
    };
    let known = latest.into_iter().find(|known| within_reach(known.made) && is_same_statement(known));
    Ok(known.map(|known| (known.id, known.made)))
}

/// The scope of an observation.
pub(crate) struct ObservationScope {
    pub(crate) session: Option<SessionRow>,
    pub(crate) batch: Option<BatchId>,
    pub(crate) project: ProjectRow,
    pub(crate) at: Timestamp,
}

/// The number of tokens that an observation costs its reader.
fn tokens_of(draft: &ObservationDraft) -> i64 {
    let texts = [&draft.title, &draft.narrative].into_iter().chain(&draft.facts);
    texts.map(|text| i64::from(estimate(text))).sum()
}

pub(crate) fn insert(
    db: &Connection,
    place: &ObservationScope,
    draft: &ObservationDraft,
    origin: &NoteOrigin,
    saved: i64,
) -> Result<ObservationId, StoreError> {
    db.run(
        "INSERT INTO observations (uuid, session, batch, project, type, title, subtitle, narrative, facts, concepts,
                files_read, files_modified, importance, evidence, origin, tokens_saved, created_at, own_importance,
                own_evidence, words)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?13, ?14, ?18)",
        params![
            Uuid::now_v7().to_string(),
            place.session,
            place.batch,
            place.project,
            draft.kind.as_str(),
            draft.title,
            draft.subtitle,
            draft.narrative,
            serde_json::to_string(&draft.facts)?,
            serde_json::to_string(&draft.concepts)?,
            serde_json::to_string(&draft.files_read)?,
            serde_json::to_string(&draft.files_modified)?,
            draft.importance.get(),
            evidence_json(&draft.evidence)?,
            origin,
            saved,
            place.at,
            thread_words(draft),
        ],
    )?;
    let id = ObservationId(db.last_insert_rowid());
    keep_files(db, id, draft)?;
    Ok(id)
}

fn rewrite(
    db: &Connection,
    id: ObservationId,
    draft: &ObservationDraft,
    origin: &NoteOrigin,
    saved: i64,
) -> Result<ObservationId, StoreError> {
    db.run(
        "UPDATE observations SET title = ?13, type = ?2, subtitle = ?3, narrative = ?4, facts = ?5, concepts = ?6, files_read = ?7,
                files_modified = ?8, own_importance = ?9, own_evidence = ?10, origin = ?11, tokens_saved = ?12,
                words = ?14
         WHERE id = ?1",
        params![
            id,
            draft.kind.as_str(),
            draft.subtitle,
            draft.narrative,
            serde_json::to_string(&draft.facts)?,
            serde_json::to_string(&draft.concepts)?,
            serde_json::to_string(&draft.files_read)?,
            serde_json::to_string(&draft.files_modified)?,
            draft.importance.get(),
            evidence_json(&draft.evidence)?,
            origin,
            saved,
            draft.title,
            thread_words(draft),
        ],
    )?;
    db.run("DELETE FROM observation_files WHERE observation = ?1", params![id])?;
    keep_files(db, id, draft)?;
    recompute_evidence(db, id)?;
    Ok(id)
}

/// Stores a session's summary. Returns `None` if it equals the previous one.
pub(crate) fn keep_summary(
    db: &WriteContext<'_>,
    origin: &NoteOrigin,
    session: SessionRow,
    summary: &SummaryDraft,
) -> Result<Option<LifecycleKind>, StoreError> {
    let title = titles::of_summary(db, session, &summary.title)?;
    sharing::claim_summary(db, session)?;
    let values = params![
        session,
        title,
        summary.request,
        summary.investigated,
        summary.learned,
        summary.completed,
        summary.next_steps,
        summary.notes,
    ];
    let is_known: bool = db.one(
        "SELECT EXISTS (SELECT 1 FROM session_summaries WHERE session = ?1
                AND (title, request, investigated, learned, completed, next_steps, notes)
                    IS (?2, ?3, ?4, ?5, ?6, ?7, ?8))",
        values,
    )?;
    db.run(
        "INSERT INTO session_summaries (session, project, title, request, investigated, learned, completed, next_steps,
                notes, origin, created_at)
         SELECT id, project, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, last_event_at FROM sessions WHERE id = ?1
         ON CONFLICT (session) DO UPDATE SET title = excluded.title, request = excluded.request,
                investigated = excluded.investigated, learned = excluded.learned, completed = excluded.completed,
                next_steps = excluded.next_steps, notes = excluded.notes, origin = excluded.origin,
                created_at = excluded.created_at",
        rusqlite::params_from_iter(values.into_iter().chain(params![origin])),
    )?;
    let id: SummaryId = db.one("SELECT id FROM session_summaries WHERE session = ?1", params![session])?;
    log(db, id)?;
    db.run("UPDATE sessions SET title = ?2 WHERE id = ?1", params![session, title])?;
    if is_known {
        return Ok(None);
    }
    Ok(Some(LifecycleKind::SummaryCreated { id, title, totals: totals(db, session)? }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Changes, FinishJob, FinishedJob, JobResult, SessionResult, empty_database, execute};
    use recall_domain::ids::{EventId, JobId, Timestamp};
    use recall_domain::observation::{Importance, ObservationType};

    fn draft(title: &str, event: u8) -> ObservationDraft {
        ObservationDraft {
            kind: ObservationType::Gotcha,
            title: title.to_owned(),
            subtitle: None,
            narrative: "Rounding each line lost up to a cent per line, so the total is rounded once."
                .to_owned(),
            facts: Vec::new(),
            concepts: Vec::new(),
            files_read: Vec::new(),
            files_modified: Vec::new(),
            importance: Importance::clamped(5),
            evidence: vec![EventId([event; 16])],
            subject: None,
        }
    }

    /// Two sessions of one project with a closed batch and a running job each.
    fn database(home: &std::path::Path) -> Connection {
        let db = empty_database(home);
        db.execute_batch("INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0)").unwrap();
        for id in 1..=2 {
            db.execute_batch(&format!(
                "INSERT INTO sessions (id, agent, session_id, project, status, life, started_at, last_event_at)
                 VALUES ({id}, 'claude-code', 's{id}', 1, 'active', 1, 0, 0);
                 INSERT INTO prompt_batches (id, session, seq, prompt_number, source, status, opened_at)
                 VALUES ({id}, {id}, 1, 1, 'user', 'closed', {id});
                 INSERT INTO jobs (id, kind, session, batch, status, created_at)
                 VALUES ({id}, 'batch', {id}, {id}, 'running', 0)"
            ))
            .unwrap();
        }
        db
    }

    fn finish(db: &Connection, job: i64, drafts: Vec<ObservationDraft>) {
        db.execute("UPDATE jobs SET status = 'running' WHERE id = ?1", [job]).unwrap();
        let result = JobResult::Observations(BatchResult {
            drafts,
            settled: Vec::new(),
            traces: Traces::default(),
            source_tokens: 100,
        });
        let origin = "openai:m".into();
        let finished = FinishedJob { job: JobId(job), result, origin, cuts: None, now: Timestamp(1) };
        execute(db, FinishJob(finished), &mut Changes::default()).unwrap();
    }

    fn titles_and_evidence(db: &Connection) -> Vec<(i64, String, i64)> {
        let mut rows = db
            .prepare("SELECT id, title, json_array_length(evidence) FROM observations ORDER BY id")
            .unwrap();
        let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
        rows.map(Result::unwrap).collect()
    }

    #[test]
    fn observations_in_nearly_the_same_words_are_merged_with_their_evidence() {
        let home = tempfile::tempdir().unwrap();
        let db = database(home.path());
        finish(&db, 1, vec![draft("The cart total is rounded once after summing", 1)]);
        finish(&db, 2, vec![draft("The cart total is rounded once, after summing.", 2)]);
        let first = "The cart total is rounded once after summing".to_owned();
        assert_eq!(titles_and_evidence(&db), [(1, first, 2)]);
        finish(&db, 2, vec![draft("The cart total is not rounded once after summing", 2)]);
        assert_eq!(titles_and_evidence(&db).len(), 2, "what contradicts is another");
    }

    #[test]
    fn a_summary_is_published_once_and_again_when_its_text_changes() {
        let home = tempfile::tempdir().unwrap();
        let db = database(home.path());
        let count_published = |completed: &str| {
            db.execute("UPDATE jobs SET status = 'running' WHERE id = 1", []).unwrap();
            let summary = SummaryDraft {
                title: "Cart".to_owned(),
                completed: completed.to_owned(),
                ..SummaryDraft::default()
            };
            let result =
                JobResult::Session(SessionResult { summary: Some(summary), ..SessionResult::default() });
            let origin = NoteOrigin::built_in();
            let finished = FinishedJob { job: JobId(1), result, origin, cuts: None, now: Timestamp(1) };
            let mut changes = Changes::default();
            execute(&db, FinishJob(finished), &mut changes).unwrap();
            changes.events.len()
        };
        assert_eq!(
            ["Rounded.", "Rounded.", "Rounded once.", "Rounded once."].map(count_published),
            [1, 0, 1, 0]
        );
    }

    #[test]
    fn an_observations_evidence_comes_only_from_batches_that_still_make_it() {
        let home = tempfile::tempdir().unwrap();
        let db = database(home.path());
        let finish = |job: i64, event: u8, importance: i64| {
            let importance = Importance::clamped(importance);
            let title = "The cart total is rounded once after summing";
            finish(&db, job, vec![ObservationDraft { importance, ..draft(title, event) }]);
        };
        let rests_on = || -> (String, i64) {
            let sql =
                "SELECT group_concat(substr(value, 1, 2)), importance FROM observations, json_each(evidence)";
            db.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?))).unwrap()
        };
        finish(1, 1, 5);
        finish(2, 2, 7);
        assert_eq!(rests_on(), ("01,02".to_owned(), 7));
        finish(1, 3, 6);
        assert_eq!(rests_on(), ("03,02".to_owned(), 7), "made anew by its own batch");
        finish(2, 4, 5);
        assert_eq!(rests_on(), ("03,04".to_owned(), 6), "and by the other");
        super::tests::finish(&db, 2, Vec::new());
        assert_eq!(rests_on(), ("03".to_owned(), 6));
    }

    #[test]
    fn a_reworded_observation_of_a_batch_keeps_its_id() {
        let home = tempfile::tempdir().unwrap();
        let db = database(home.path());
        finish(&db, 1, vec![draft("The cart total is rounded once after summing", 1)]);
        finish(&db, 1, vec![draft("The total is rounded once after summing", 1)]);
        assert_eq!(titles_and_evidence(&db), [(1, "The total is rounded once after summing".to_owned(), 1)]);
    }

    #[test]
    fn an_observation_of_two_sessions_survives_its_removal_from_the_first() {
        let home = tempfile::tempdir().unwrap();
        let db = database(home.path());
        let title = "The cart total is rounded once after summing";
        finish(&db, 1, vec![draft(title, 1)]);
        finish(&db, 2, vec![draft(title, 2)]);
        finish(&db, 1, vec![draft("Login sends the token in the address of the page", 1)]);
        let titles = || titles_and_evidence(&db).into_iter().map(|(_, title, _)| title).collect::<Vec<_>>();
        assert!(titles().contains(&title.to_owned()) && titles().len() == 2, "{:?}", titles());
        // The observation belongs to the second batch now, and goes when that batch no longer makes it.
        let batch: i64 = db
            .query_row("SELECT batch FROM observations WHERE title = ?1", [title], |row| row.get(0))
            .unwrap();
        assert_eq!(batch, 2);
        finish(&db, 2, Vec::new());
        assert!(!titles().contains(&title.to_owned()), "{:?}", titles());
    }

    #[test]
    fn an_observation_that_both_batches_dropped_is_removed() {
        let home = tempfile::tempdir().unwrap();
        let db = database(home.path());
        let title = "The cart total is rounded once after summing";
        finish(&db, 1, vec![draft(title, 1)]);
        finish(&db, 2, vec![draft(title, 2)]);
        finish(&db, 2, Vec::new());
        finish(&db, 1, Vec::new());
        assert_eq!(titles_and_evidence(&db), []);
    }
}
