use proptest::prelude::*;

use crate::sessions::lineage::*;
use crate::sessions::three_sessions::{commit, database};
use crate::{
    BatchResult, Changes, MarkObservations, Reader, Remembered, UndoChange, Validity, empty_database, execute,
};
use recall_domain::check::Changed;
use recall_domain::fixes::{LeftFailing, Traces};
use recall_domain::ids::ProjectKey;
use recall_domain::observation::{Importance, ObservationDraft, ObservationType};
use recall_domain::subject;

fn draft(title: &str, event: u8) -> ObservationDraft {
    let kind = ObservationType::Discovery;
    ObservationDraft {
        kind,
        title: title.to_owned(),
        subtitle: None,
        narrative: "Seen while the gateway was slow.".to_owned(),
        facts: Vec::new(),
        concepts: Vec::new(),
        files_read: Vec::new(),
        files_modified: Vec::new(),
        importance: Importance::clamped(5),
        evidence: vec![EventId([event; 16])],
        subject: subject::of_title(kind, title),
    }
}

fn finish(db: &Connection, batch: i64, drafts: Vec<ObservationDraft>, settled: Vec<Settled>) {
    commit(db, batch, BatchResult { drafts, settled, traces: Traces::default(), source_tokens: 100 });
}

fn store_note(db: &Connection, batch: i64, title: &str) {
    finish(db, batch, vec![draft(title, batch as u8)], Vec::new());
}

fn mark(db: &Connection, id: i64, validity: Validity) {
    let write = MarkObservations { ids: vec![ObservationId(id)], validity, at: Timestamp(0) };
    execute(db, write, &mut Changes::default()).unwrap();
}

/// Expects a line for each observation, in the order of the batches: `1: active`, or `1: superseded by 2` with the
/// batch of the newer observation.
#[track_caller]
fn check(db: &Connection, expected: &[&str]) {
    let mut rows = db
        .prepare(
            "SELECT o.batch || ': ' || o.status || ifnull(' by ' || n.batch, '') FROM observations o
             LEFT JOIN observations n ON n.id = o.superseded_by ORDER BY o.batch, o.id",
        )
        .unwrap();
    let statuses: Vec<String> = rows.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(statuses, expected);
}

#[test]
fn a_newer_value_supersedes_the_older_one_and_lineage_shows_it() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path());
    store_note(&db, 1, "`max_retries` is 3");
    store_note(&db, 2, "`max_retries` is now 5");
    store_note(&db, 3, "`max_connections` is 5");
    check(&db, &["1: superseded by 2", "2: active", "3: active"]);
    let lineage = |id: i64| Reader(&db).lineage(ObservationId(id)).unwrap();
    let work = Some((SessionId("s2".to_owned()), 1));
    let other = |id: i64, title: &str| Some((ObservationId(id), title.to_owned()));
    let expected = LineageRow {
        relation: Relation::SupersededBy,
        other: other(2, "`max_retries` is now 5"),
        work: work.clone(),
        evidence: Vec::new(),
    };
    assert_eq!(lineage(1), std::slice::from_ref(&expected));
    let newer =
        LineageRow { relation: Relation::Supersedes, other: other(1, "`max_retries` is 3"), ..expected };
    assert_eq!(lineage(2), [newer]);
    assert_eq!(lineage(3), []);
    // The log of the index contains the change.
    let logged: i64 = db
        .query_row("SELECT count(*) FROM index_log WHERE kind = 'observation' AND row = 1", [], |row| {
            row.get(0)
        })
        .unwrap();
    assert!(logged >= 2);
}

#[test]
fn superseding_ignores_arrival_order_and_chains_close_over_removed_notes() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path());
    for batch in [3, 1, 2] {
        store_note(&db, batch, &format!("`max_retries` is {batch}"));
    }
    check(&db, &["1: superseded by 2", "2: superseded by 3", "3: active"]);
    finish(&db, 2, Vec::new(), Vec::new());
    check(&db, &["1: superseded by 3", "3: active"]);
    finish(&db, 3, Vec::new(), Vec::new());
    check(&db, &["1: active"]);
}

/// Returns every row that lineage uses.
fn rows(db: &Connection) -> Vec<String> {
    let sql = "SELECT concat_ws('|', id, title, status, superseded_by, hex(subject)) FROM observations
               UNION ALL SELECT concat_ws('|', older, newer, batch, reason, evidence, undone) FROM lineage
               UNION ALL SELECT concat_ws('|', batch, hex(subject), how, files, evidence) FROM settlements
               UNION ALL SELECT concat_ws('|', batch, file, step, event, project, opened_at) FROM changes
               UNION ALL SELECT concat_ws('|', batch, hex(subject), step, event) FROM failings";
    let mut statement = db.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn storing_the_same_results_again_leaves_the_same_rows() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path());
    let failing =
        || ObservationDraft { subject: Some(subject::of_check("cargo test")), ..draft("It fails", 1) };
    let both = |db: &Connection| {
        finish(db, 1, vec![failing(), draft("`max_retries` is 3", 1)], Vec::new());
        finish(db, 2, vec![draft("`max_retries` is 5", 2)], vec![passed()]);
    };
    both(&db);
    let once = rows(&db);
    both(&db);
    assert_eq!(rows(&db), once);
    check(&db, &["1: resolved", "1: superseded by 2", "2: active"]);
}

#[test]
fn a_reworded_observation_keeps_its_lineage() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path());
    store_note(&db, 1, "`max_retries` is 3");
    store_note(&db, 2, "`max_retries` is 5");
    store_note(&db, 2, "Requests to the gateway give up after 5 tries, see `max_retries`");
    check(&db, &["1: superseded by 2", "2: active"]);
    store_note(&db, 1, "Three tries were the limit of old: `max_retries` stood at 3");
    check(&db, &["1: superseded by 2", "2: active"]);
    store_note(&db, 2, "Something else altogether");
    check(&db, &["1: active", "2: active"]);
}

fn passed() -> Settled {
    Settled {
        subject: subject::of_check("cargo test"),
        files: vec!["src/cart.rs".to_owned()],
        evidence: vec![EventId([7; 16])],
    }
}

fn fails(db: &Connection, batch: i64) {
    let files_modified = vec!["src/cart.rs".to_owned()];
    let subject = Some(subject::of_check("cargo test"));
    let failing = ObservationDraft { subject, files_modified, ..draft("Fails: `cargo test`", 1) };
    finish(db, batch, vec![failing], Vec::new());
}

#[test]
fn a_passing_check_resolves_its_failure_whichever_is_stored_first() {
    for fails_first in [true, false] {
        let home = tempfile::tempdir().unwrap();
        let db = database(home.path());
        if fails_first {
            fails(&db, 1);
        }
        finish(&db, 2, Vec::new(), vec![passed()]);
        if !fails_first {
            fails(&db, 1);
        }
        check(&db, &["1: resolved"]);
        let lineage = Reader(&db).lineage(ObservationId(1)).unwrap();
        assert_eq!(lineage[0].relation, Relation::Settled);
        assert_eq!(
            (lineage[0].work.clone(), lineage[0].evidence.len()),
            (Some((SessionId("s2".to_owned()), 1)), 1)
        );
        // The check fails again, which is a new observation.
        fails(&db, 3);
        check(&db, &["1: superseded by 3", "3: active"]);
        // The work that settled the observation no longer counts.
        finish(&db, 3, Vec::new(), Vec::new());
        finish(&db, 2, Vec::new(), Vec::new());
        check(&db, &["1: active"]);
    }
}

#[test]
fn a_note_the_user_reopened_stays_active_until_a_newer_value_arrives() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path());
    store_note(&db, 1, "`max_retries` is 3");
    store_note(&db, 2, "`max_retries` is 5");
    mark(&db, 1, Validity::Holds);
    check(&db, &["1: active", "2: active"]);
    assert_eq!(Reader(&db).lineage(ObservationId(1)).unwrap(), [], "undone lineage is not told");
    store_note(&db, 2, "`max_retries` is 5");
    check(&db, &["1: active", "2: active"]);
    store_note(&db, 3, "`max_retries` is 7");
    check(&db, &["1: superseded by 3", "2: superseded by 3", "3: active"]);
}

#[test]
fn a_failure_the_user_reopens_after_a_passing_check_stays_active() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path());
    fails(&db, 1);
    mark(&db, 1, Validity::Resolved);
    check(&db, &["1: resolved"]);
    assert_eq!(Reader(&db).lineage(ObservationId(1)).unwrap()[0].relation, Relation::ResolvedByHand);
    mark(&db, 1, Validity::Holds);
    finish(&db, 2, Vec::new(), vec![passed()]);
    check(&db, &["1: resolved"]);
    mark(&db, 1, Validity::Holds);
    finish(&db, 2, Vec::new(), vec![passed()]);
    check(&db, &["1: active"]);
    assert_eq!(Reader(&db).observation(ObservationId(1)).unwrap().unwrap().superseded_by, None);
}

#[test]
fn a_model_is_shown_only_values_of_its_files_that_it_may_replace() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path());
    let about = |title: &str, file: &str| ObservationDraft {
        files_modified: vec![file.to_owned()],
        ..draft(title, 1)
    };
    let (value, file) = ("`max_retries` is 3", "src/gateway.rs");
    let insisted =
        ObservationDraft { importance: Importance::clamped(8), ..about("`max_wait` is 9 s", file) };
    let mut decided = about("`max_hops` is 4", file);
    decided.kind = ObservationType::Decision;
    let all = vec![
        about(value, file),
        about("`max_items` is 99", "src/cart.rs"),
        about("The gateway is slow in the morning", file),
        insisted,
        decided,
    ];
    finish(&db, 1, all, Vec::new());
    db.execute_batch("INSERT INTO project_aliases VALUES ('path:/shop', 1)").unwrap();
    let by_hand = Remembered {
        project: vec![ProjectKey("path:/shop".to_owned())],
        project_name: "shop".to_owned(),
        draft: about("`max_size` is 7", file),
        author: crate::RemarkAuthor::User,
        at: Timestamp(12),
    };
    execute(&db, by_hand, &mut Changes::default()).unwrap();
    let shown = |batch: i64| -> Vec<String> {
        let shown = Reader(&db).earlier_statements(BatchId(batch), &[file.to_owned()]).unwrap();
        shown.into_iter().map(|earlier| earlier.title).collect()
    };
    assert_eq!(shown(2), [value]);
    assert_eq!(shown(1), Vec::<String>::new(), "what it made itself is no news to it");
    // Batch 2 still receives the observation that it replaced. Batch 3 receives the new one.
    finish(&db, 2, vec![about("`max_retries` is 5", file)], Vec::new());
    assert_eq!((shown(2), shown(3)), (vec![value.to_owned()], vec!["`max_retries` is 5".to_owned()]));
    // An observation about the same subject in other words can be replaced too.
    let reworded = ObservationDraft {
        subject: subject::of_title(ObservationType::Discovery, value),
        ..about("Requests are tried up to 5 times, see `max_retries`", file)
    };
    let title = reworded.title.clone();
    finish(&db, 2, vec![reworded], Vec::new());
    assert_eq!(shown(3), [title]);
    db.execute_batch("INSERT INTO projects VALUES (2, 'path:/other', 'other', 0)").unwrap();
    db.execute("UPDATE sessions SET project = 2 WHERE id = 3", []).unwrap();
    assert_eq!(shown(3), Vec::<String>::new(), "another project");
}

/// What a batch of a chain does: it fails, changes something, passes, or none of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    Fails,
    Changes,
    Passes,
    Nothing,
}

impl Work {
    fn of(word: char) -> Self {
        match word {
            'f' => Self::Fails,
            'c' => Self::Changes,
            'p' => Self::Passes,
            _ => Self::Nothing,
        }
    }

    fn result(self, batch: i64) -> BatchResult {
        let (check, event) = (subject::of_check("cargo test"), EventId([batch as u8; 16]));
        let mut made = BatchResult {
            drafts: Vec::new(),
            settled: Vec::new(),
            traces: Traces::default(),
            source_tokens: 9,
        };
        match self {
            Self::Fails => {
                // The words differ, so this is not taken for the same observation.
                let title = format!("Run {batch} of the checks fails at `case_{batch}`");
                made.drafts
                    .push(ObservationDraft { subject: Some(check.clone()), ..draft(&title, batch as u8) });
                made.traces.failing.push(LeftFailing { subject: check, event, step: 0 });
            }
            Self::Changes => {
                made.traces.changed.push(Changed { path: "src/cart.rs".to_owned(), event, step: 0 });
            }
            Self::Passes => {
                made.settled.push(Settled { subject: check, files: Vec::new(), evidence: vec![event] })
            }
            Self::Nothing => {}
        }
        made
    }
}

/// Returns a database with a session. It has this many closed batches and a job for each.
fn one_session(home: &std::path::Path, batches: usize) -> Connection {
    let db = empty_database(home);
    db.execute_batch(
        "INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0);
         INSERT INTO sessions (id, agent, session_id, project, status, life, started_at, last_event_at)
         VALUES (1, 'claude-code', 's1', 1, 'active', 1, 0, 1000)",
    )
    .unwrap();
    for id in 1..=batches {
        db.execute_batch(&format!(
            "INSERT INTO prompt_batches (id, session, seq, prompt_number, source, status, opened_at, closed_at)
             VALUES ({id}, 1, {id}, {id}, 'user', 'closed', {id}0, {id}5);
             INSERT INTO jobs (id, kind, session, batch, status, created_at)
             VALUES ({id}, 'batch', 1, {id}, 'running', 0)"
        ))
        .unwrap();
    }
    db
}

/// Returns the status of each batch's observations, with the events that prove it.
fn fates(db: &Connection) -> Vec<String> {
    let sql =
        "SELECT concat_ws(' ', o.batch, o.status, n.batch, l.batch, l.reason, l.evidence) FROM observations o
               LEFT JOIN observations n ON n.id = o.superseded_by LEFT JOIN lineage l ON l.older = o.id
               ORDER BY o.batch";
    let mut statement = db.prepare(sql).unwrap();
    statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
}

#[test]
fn a_failure_fixed_in_one_batch_and_passing_in_a_later_one_is_resolved() {
    let home = tempfile::tempdir().unwrap();
    let db = one_session(home.path(), 4);
    for (batch, word) in (1..).zip("fc-p".chars()) {
        commit(&db, batch, Work::of(word).result(batch));
    }
    check(&db, &["1: resolved"]);
    let lineage = Reader(&db).lineage(ObservationId(1)).unwrap();
    let [change, pass] = [2, 4].map(|batch| EventId([batch; 16]).to_string());
    assert_eq!((lineage[0].relation, &lineage[0].evidence), (Relation::Settled, &vec![change, pass]));
    // The change no longer counts.
    commit(&db, 2, Work::Nothing.result(2));
    check(&db, &["1: active"]);
    // Another batch made the change.
    commit(&db, 3, Work::Changes.result(3));
    check(&db, &["1: resolved"]);
    // The user rejects the settlement, and recomputing does not bring it back.
    mark(&db, 1, Validity::Holds);
    commit(&db, 4, Work::Passes.result(4));
    check(&db, &["1: active"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    /// Results may be committed in any order, and more than once.
    #[test]
    fn the_order_of_results_does_not_change_a_chain(
        story in "[fp-]?f[c-]{1,2}p[fcp-]{1,2}",
        order in prop::collection::vec((any::<prop::sample::Index>(), "[fcp-]"), 4..16),
    ) {
        let homes = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [plain, mixed] = homes.each_ref().map(|home| one_session(home.path(), story.len()));
        let last: Vec<(i64, Work)> = (1..).zip(story.chars().map(Work::of)).collect();
        for (batch, work) in &last {
            commit(&plain, *batch, work.result(*batch));
        }
        let mut late = last.clone();
        for (index, word) in order {
            let at = index.index(last.len());
            commit(&mixed, at as i64 + 1, Work::of(word.chars().next().unwrap()).result(at as i64 + 1));
            late.swap(0, at);
        }
        for (batch, work) in late {
            commit(&mixed, batch, work.result(batch));
        }
        prop_assert_eq!(fates(&plain), fates(&mixed), "{:?}", story);
    }
}

#[test]
fn undoing_a_mark_restores_the_previous_lineage() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path());
    store_note(&db, 1, "`max_retries` is 3");
    store_note(&db, 2, "`max_retries` is 4");
    let superseded = ["1: superseded by 2", "2: active"];
    check(&db, &superseded);
    let undone = || execute(&db, UndoChange::NewestOwn, &mut Changes::default()).unwrap();
    let undo = || undone().change().unwrap().what;
    mark(&db, 1, Validity::Holds);
    check(&db, &["1: active", "2: active"]);
    assert_eq!(undo(), "reopen");
    check(&db, &superseded);
    mark(&db, 2, Validity::Resolved);
    assert_eq!(undo(), "resolve");
    check(&db, &superseded);
    // Newer work about the same subject supersedes the observation, as if nobody had marked it.
    store_note(&db, 3, "`max_retries` is 5");
    check(&db, &["1: superseded by 2", "2: superseded by 3", "3: active"]);
}
