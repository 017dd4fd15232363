use proptest::prelude::*;

use crate::notes::choice::*;
use crate::{
    BatchResult, Changes, FinishJob, FinishedJob, JobResult, MarkObservations, SessionResult, Validity,
    empty_database, execute,
};
use recall_domain::fixes::Traces;
use recall_domain::ids::{EventId, JobId, ObservationId};
use recall_domain::observation::{Importance, ObservationType};

const SESSION: SessionRow = SessionRow(1);

/// The id of the session's job. The id of a batch's job is the number of its batch.
const JOB: i64 = 100;

const TITLES: [&str; 5] = [
    "The cart rounds its total once",
    "Login keeps its token in a cookie",
    "`search.rs` reads postings backwards",
    "Backups wait for the nightly window",
    "Images are scaled on upload",
];

/// Returns a database with a session. It has this many closed batches, a job for each, and a job for the session.
fn database(home: &std::path::Path, batches: i64) -> Connection {
    let db = empty_database(home);
    db.execute_batch(
        "INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0);
         INSERT INTO sessions (id, agent, session_id, project, status, life, started_at, last_event_at)
         VALUES (1, 'claude-code', 's1', 1, 'active', 1, 0, 0)",
    )
    .unwrap();
    for id in 1..=batches {
        db.execute_batch(&format!(
            "INSERT INTO prompt_batches (id, session, seq, prompt_number, source, status, opened_at, closed_at)
             VALUES ({id}, 1, {id}, {id}, 'user', 'closed', {id}0, {id}5);
             INSERT INTO jobs (id, kind, session, batch, status, created_at)
             VALUES ({id}, 'batch', 1, {id}, 'done', 0)"
        ))
        .unwrap();
    }
    db
}

fn draft(title: &str, event: u8) -> ObservationDraft {
    ObservationDraft {
        kind: ObservationType::Discovery,
        title: title.to_owned(),
        subtitle: None,
        narrative: format!("{title}."),
        facts: Vec::new(),
        concepts: Vec::new(),
        files_read: vec!["src/cart.rs".to_owned()],
        files_modified: Vec::new(),
        importance: Importance::clamped(i64::from(event)),
        evidence: vec![EventId([event; 16])],
        subject: None,
    }
}

fn finish(db: &Connection, job: i64, result: JobResult, origin: &str, now: i64) -> Vec<LifecycleKind> {
    db.execute("UPDATE jobs SET status = 'running' WHERE id = ?1", [job]).unwrap();
    let finished =
        FinishedJob { job: JobId(job), result, origin: origin.into(), cuts: None, now: Timestamp(now) };
    let mut changes = Changes::default();
    execute(db, FinishJob(finished), &mut changes).unwrap();
    changes.events.into_iter().map(|event| event.what).collect()
}

fn make(db: &Connection, batch: i64, origin: &str, titles: &[&str], now: i64) {
    let drafts = titles.iter().map(|title| draft(title, batch.to_le_bytes()[0])).collect();
    let made = BatchResult { drafts, settled: Vec::new(), traces: Traces::default(), source_tokens: 100 };
    finish(db, batch, JobResult::Observations(made), origin, now);
}

fn due(db: &Connection) -> DueChoice {
    Reader(db).due_choice(SESSION, Lives::NoLonger).unwrap().expect("a choice is due")
}

/// Finishes the session's job. Its result has these titles for the batches.
fn choose(db: &Connection, due: DueChoice, titles: &[&[&str]]) -> Vec<LifecycleKind> {
    let chosen = due.batches.into_iter().map(|of| {
        let event = u8::try_from(of.batch.0).unwrap();
        let drafts = titles[of.index].iter().map(|title| draft(title, event)).collect();
        ChosenBatch { of, drafts, source_tokens: 100 }
    });
    db.execute_batch(&format!(
        "DELETE FROM jobs WHERE kind = 'summary';
         INSERT INTO jobs (id, kind, session, status, created_at) VALUES ({JOB}, 'summary', 1, 'running', 0)"
    ))
    .unwrap();
    let choice = Some(SessionChoice { among: due.among, extent: due.extent, batches: chosen.collect() });
    finish(
        db,
        JOB,
        JobResult::Session(SessionResult { choice, ..SessionResult::default() }),
        NoteOrigin::BUILT_IN,
        99,
    )
}

/// Returns each observation's id, batch and title, and the end of its batch.
fn stored(db: &Connection) -> Vec<(i64, i64, String, i64)> {
    let mut rows = db.prepare("SELECT id, batch, title, created_at FROM observations ORDER BY id").unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).unwrap();
    rows.map(Result::unwrap).collect()
}

fn job_status(db: &Connection) -> String {
    db.query_row("SELECT status FROM jobs WHERE id = ?1", [JOB], |row| row.get(0)).unwrap()
}

#[test]
fn a_repeated_observation_keeps_its_id_and_an_omitted_one_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path(), 2);
    let [cart, login, search, ..] = TITLES;
    make(&db, 1, NoteOrigin::BUILT_IN, &[cart, login], 50);
    make(&db, 2, NoteOrigin::BUILT_IN, &[search], 51);
    let before = stored(&db);
    let uuid = || -> String {
        db.query_row("SELECT uuid FROM observations WHERE title = ?1", [cart], |row| row.get(0)).unwrap()
    };
    let first = uuid();
    db.execute("DELETE FROM index_log", []).unwrap();
    choose(&db, due(&db), &[&[], &[cart, TITLES[3]]]);
    let ids: Vec<i64> = before.iter().map(|row| row.0).collect();
    assert_eq!(
        stored(&db),
        [(ids[0], 2, cart.to_owned(), 25), (ids[2] + 1, 2, TITLES[3].to_owned(), 25)],
        "the statement moves to the batch that says it now"
    );
    assert_eq!(uuid(), first);
    let evidence: String =
        db.query_row("SELECT evidence FROM observations WHERE id = ?1", [ids[0]], |row| row.get(0)).unwrap();
    assert_eq!(evidence, format!("[\"{}\"]", EventId([2; 16])));
    let logged: Vec<i64> = {
        let mut rows = db.prepare("SELECT DISTINCT row FROM index_log ORDER BY row").unwrap();
        rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(logged, [ids[0], ids[1], ids[2], ids[2] + 1], "the index follows each");
    let files: i64 = db
        .query_row("SELECT count(DISTINCT observation) FROM observation_files", [], |row| row.get(0))
        .unwrap();
    assert_eq!(files, 2);
}

const SHORT: &str = "The cart rounds its total once";
const LONG: &str = "The cart rounds its total once after all lines are summed";

#[test]
fn an_event_names_the_observation_that_replaces_another() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path(), 2);
    make(&db, 1, NoteOrigin::BUILT_IN, &[SHORT, TITLES[1]], 50);
    make(&db, 2, NoteOrigin::BUILT_IN, &[], 51);
    let gone = stored(&db)[0].0;
    let events = choose(&db, due(&db), &[&[TITLES[1]], &[LONG]]);
    let titles: Vec<String> = stored(&db).into_iter().map(|row| row.2).collect();
    assert_eq!(titles, [TITLES[1], LONG]);
    let replaced: Vec<_> = events.iter().filter(|event| event.name() == "observation_replaced").collect();
    assert_eq!(replaced.len(), 1, "{events:?}");
    let detail = replaced[0].detail();
    assert_eq!((detail["id"].as_i64(), detail["title"].as_str()), (Some(gone), Some(LONG)));
}

#[test]
fn a_selected_observation_keeps_its_id_when_its_batch_is_compressed_again() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path(), 1);
    make(&db, 1, NoteOrigin::BUILT_IN, &[], 50);
    choose(&db, due(&db), &[&[SHORT]]);
    let chosen = stored(&db);
    // A late event arrives. The batch's own result does not contain the observation, but the choice keeps it.
    make(&db, 1, NoteOrigin::BUILT_IN, &[], 52);
    assert_eq!(stored(&db), chosen);
    choose(&db, due(&db), &[&[SHORT]]);
    assert_eq!(stored(&db), chosen);
    make(&db, 1, NoteOrigin::BUILT_IN, &[], 53);
    choose(&db, due(&db), &[&[]]);
    assert_eq!(stored(&db), []);
}

#[test]
fn a_selection_is_due_once_and_repeating_it_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path(), 2);
    make(&db, 1, NoteOrigin::BUILT_IN, &TITLES[..2], 50);
    make(&db, 2, NoteOrigin::BUILT_IN, &TITLES[2..3], 51);
    let due = due(&db);
    let titles: [&[&str]; 2] = [&TITLES[1..2], &TITLES[..1]];
    choose(&db, due.clone(), &titles);
    let once = stored(&db);
    assert_eq!(Reader(&db).due_choice(SESSION, Lives::NoLonger).unwrap(), None);
    choose(&db, due, &titles);
    assert_eq!(stored(&db), once);
    assert_eq!(once.len(), 2);
}

#[test]
fn the_selection_of_a_live_session_is_repeated_at_its_end() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path(), 2);
    make(&db, 1, NoteOrigin::BUILT_IN, &TITLES[..1], 50);
    make(&db, 2, NoteOrigin::BUILT_IN, &TITLES[1..2], 51);
    let living = || Reader(&db).due_choice(SESSION, Lives::On).unwrap();
    let so_far = living().expect("a choice is due");
    assert_eq!((so_far.among, so_far.extent), (2, SessionExtent::SoFar));
    choose(&db, so_far, &[&TITLES[..1], &[]]);
    assert_eq!(living(), None);
    let whole = due(&db);
    assert_eq!((whole.among, whole.extent), (2, SessionExtent::Whole));
    choose(&db, whole, &[&TITLES[..1], &TITLES[1..2]]);
    assert_eq!(Reader(&db).due_choice(SESSION, Lives::NoLonger).unwrap(), None);
    assert_eq!(stored(&db).len(), 2);
}

#[test]
fn a_selection_keeps_model_results_and_notes_the_user_marked() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path(), 3);
    make(&db, 1, NoteOrigin::BUILT_IN, &TITLES[..2], 50);
    make(&db, 2, "openai:m", &TITLES[2..3], 51);
    make(&db, 3, "openai:m", &[], 51);
    let (resolved, of_model) = (stored(&db)[0].clone(), stored(&db)[2].clone());
    let mark = MarkObservations {
        ids: vec![ObservationId(resolved.0)],
        validity: Validity::Resolved,
        at: Timestamp(0),
    };
    execute(&db, mark, &mut Changes::default()).unwrap();
    let due = due(&db);
    assert_eq!(due.batches.iter().map(|due| due.index).collect::<Vec<_>>(), [0]);
    choose(&db, due, &[&[], &TITLES[4..], &TITLES[4..]]);
    assert_eq!(stored(&db), [resolved.clone(), of_model]);
    let status: String = db
        .query_row("SELECT status FROM observations WHERE id = ?1", [resolved.0], |row| row.get(0))
        .unwrap();
    assert_eq!(status, "resolved");
}

#[test]
fn a_batch_compressed_in_between_waits_for_the_next_selection() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path(), 2);
    make(&db, 1, NoteOrigin::BUILT_IN, &TITLES[..1], 50);
    make(&db, 2, NoteOrigin::BUILT_IN, &TITLES[1..2], 51);
    let stale = due(&db);
    make(&db, 2, NoteOrigin::BUILT_IN, &TITLES[2..3], 52);
    choose(&db, stale, &[&TITLES[3..4], &[]]);
    let titles: Vec<String> = stored(&db).into_iter().map(|row| row.2).collect();
    assert_eq!(titles, [TITLES[2], TITLES[3]]);
    assert_eq!(job_status(&db), "pending", "the session's job is asked for again");
    choose(&db, due(&db), &[&TITLES[3..4], &[]]);
    assert_eq!(stored(&db).len(), 1);
    assert_eq!(job_status(&db), "done");
    // Late work leads to a new choice.
    make(&db, 2, NoteOrigin::BUILT_IN, &TITLES[2..3], 53);
    let asked: i64 = db
        .query_row("SELECT count(*) FROM jobs WHERE kind = 'summary' AND status = 'pending'", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert_eq!(asked, 1);
}

#[test]
fn a_live_sessions_selection_is_repeated_only_after_enough_growth() {
    let reached = |lives: Lives| (1..=40).map(|batches| reach(batches, lives)).collect::<Vec<_>>();
    assert_eq!(reached(Lives::NoLonger), (1..=40).collect::<Vec<_>>());
    let mut distinct = reached(Lives::On);
    assert_eq!(distinct[..9], [1, 2, 3, 4, 5, 6, 7, 8, 8]);
    distinct.dedup();
    assert_eq!(distinct[8..], [10, 12, 14, 16, 20, 24, 28, 32, 40]);
    let mut checkpoints: Vec<usize> = (1..=200).map(|batches| reach(batches, Lives::On)).collect();
    checkpoints.dedup();
    let drafted: usize = checkpoints.iter().sum::<usize>() + 200;
    assert!(drafted < 200 * 8, "{drafted}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    /// The result does not depend on earlier results of the batches, on their order, or on repeated choices.
    #[test]
    fn a_selection_does_not_depend_on_earlier_results(
        before in prop::collection::vec((1i64..=3, prop::collection::btree_set(0usize..5, 0..4), any::<bool>()), 0..8),
        last in prop::collection::vec(prop::collection::btree_set(0usize..5, 0..4), 3..=3),
    ) {
        let last: Vec<Vec<&str>> =
            last.iter().map(|titles| titles.iter().map(|at| TITLES[*at]).collect()).collect();
        let last: Vec<&[&str]> = last.iter().map(Vec::as_slice).collect();
        let rows_after = |before: &[(i64, std::collections::BTreeSet<usize>, bool)]| {
            let home = tempfile::tempdir().unwrap();
            let db = database(home.path(), 3);
            for batch in 1..=3 {
                make(&db, batch, NoteOrigin::BUILT_IN, &[], 40);
            }
            for ((batch, titles, chosen), now) in before.iter().zip(50..) {
                let titles: Vec<&str> = titles.iter().map(|at| TITLES[*at]).collect();
                make(&db, *batch, NoteOrigin::BUILT_IN, &titles, now);
                if *chosen {
                    choose(&db, due(&db), &[&titles, &[], &titles]);
                }
            }
            db.execute("UPDATE prompt_batches SET chosen_among = 0", []).unwrap();
            choose(&db, due(&db), &last);
            let mut rows = db
                .prepare(
                    "SELECT batch || ' ' || title || created_at || evidence || own_evidence || importance || status
                        || (SELECT count(*) FROM observation_batches m WHERE m.observation = o.id)
                        || (SELECT count(*) FROM observation_files f WHERE f.observation = o.id)
                     FROM observations o ORDER BY title",
                )
                .unwrap();
            let rows = rows.query_map([], |row| row.get::<_, String>(0)).unwrap();
            rows.map(Result::unwrap).collect::<Vec<_>>()
        };
        prop_assert_eq!(rows_after(&before), rows_after(&[]));
    }
}
