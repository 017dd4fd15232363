use rusqlite::Connection;

use crate::notes::review::*;
use crate::sessions::three_sessions::{EXPORTS, PER_CUSTOMER, PER_SHOP, database, discovery, finish};
use crate::{
    Changes, EditObservation, EditedText, MarkObservations, Pin, PinObservations, Relation, UndoChange,
    Validity, execute,
};
use recall_domain::document::Status;
use recall_domain::observation::{ObservationDraft, ObservationType};
use recall_domain::subject;

fn add_notes(db: &Connection, batch: i64, titles: &[&str]) {
    let subject = |title: &str| title.starts_with("The timeout").then(|| subject::of_check("timeout"));
    let draft = |title: &&str| ObservationDraft { subject: subject(title), ..discovery(batch, title) };
    finish(db, batch, titles.iter().map(draft).collect());
}

fn numbered(db: &Connection, title: &str) -> ObservationId {
    let sql = "SELECT id FROM observations WHERE title = ?1";
    ObservationId(db.query_row(sql, [title], |row| row.get(0)).unwrap())
}

fn judge(db: &Connection, title: &str, verdict: ReviewVerdict) {
    let ids = vec![numbered(db, title)];
    execute(db, ReviewObservations { ids, verdict, at: Timestamp(100) }, &mut Changes::default()).unwrap();
}

fn undo(db: &Connection) -> String {
    let undone = execute(db, UndoChange::NewestOwn, &mut Changes::default()).unwrap();
    undone.change().map(|change| change.what).unwrap_or_default()
}

/// Returns the titles that wait for a review, newest first.
fn waiting(db: &Connection) -> Vec<String> {
    let all = Unreviewed { projects: None, from: Timestamp(i64::MIN), until: Timestamp(i64::MAX) };
    let here = Unreviewed { projects: Some(vec![ProjectRow(1)]), ..all.clone() };
    let listed = |which: &Unreviewed| Reader(db).unreviewed(which, 0, 100).unwrap();
    assert_eq!(listed(&all), listed(&here));
    assert_eq!(Reader(db).count_unreviewed(&all).unwrap(), listed(&all).len() as u64);
    assert_eq!(Reader(db).statistics().unwrap().unreviewed, listed(&all).len() as i64);
    for which in [&all, &here] {
        let plan = format!("EXPLAIN QUERY PLAN SELECT count(*) FROM {}", which.source());
        let how: String = db.query_row(&plan, [], |row| row.get(3)).unwrap();
        assert!(how.contains("COVERING INDEX observations_unreviewed"), "{how}");
    }
    let title = |id: ObservationId| Reader(db).observation(id).unwrap().unwrap().title;
    listed(&all).into_iter().map(|(id, _)| title(id)).collect()
}

fn status(db: &Connection, title: &str) -> Status {
    Reader(db).observation(numbered(db, title)).unwrap().unwrap().status
}

#[test]
fn a_machine_made_note_waits_until_a_person_reviews_it() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path());
    add_notes(&db, 1, &[EXPORTS]);
    add_notes(&db, 2, &[PER_CUSTOMER]);
    assert_eq!(waiting(&db), [PER_CUSTOMER, EXPORTS]);
    judge(&db, EXPORTS, ReviewVerdict::Kept);
    assert_eq!(waiting(&db), [PER_CUSTOMER]);
    judge(&db, PER_CUSTOMER, ReviewVerdict::Rejected);
    assert_eq!(waiting(&db), [""; 0]);
    let rejected = Reader(&db).observation(numbered(&db, PER_CUSTOMER)).unwrap().unwrap();
    assert_eq!(
        (rejected.status, rejected.is_rejected, rejected.is_reviewed()),
        (Status::Resolved, true, true)
    );
    assert_eq!(Reader(&db).lineage(rejected.id).unwrap()[0].relation, Relation::Rejected);
    // Rejecting it a second time is not another change.
    judge(&db, PER_CUSTOMER, ReviewVerdict::Rejected);
    assert_eq!((undo(&db), undo(&db), undo(&db)), ("reject".to_owned(), "keep".to_owned(), String::new()));
    assert_eq!(waiting(&db), [PER_CUSTOMER, EXPORTS]);
    assert_eq!(status(&db, PER_CUSTOMER), Status::Active);
}

#[test]
fn edits_pins_and_marks_count_as_reviews_but_undone_edits_and_pins_do_not() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path());
    add_notes(&db, 1, &[EXPORTS]);
    let (id, at) = (numbered(&db, EXPORTS), Timestamp(7));
    let text = EditedText {
        kind: ObservationType::Discovery,
        title: EXPORTS.to_owned(),
        narrative: "Since March.".to_owned(),
        facts: Vec::new(),
        files: Vec::new(),
    };
    execute(&db, EditObservation { id, text, at }, &mut Changes::default()).unwrap();
    assert_eq!(waiting(&db), [""; 0]);
    undo(&db);
    assert_eq!(waiting(&db), [EXPORTS]);
    execute(&db, PinObservations { ids: vec![id], pin: Pin::On, at }, &mut Changes::default()).unwrap();
    execute(&db, PinObservations { ids: vec![id], pin: Pin::Off, at }, &mut Changes::default()).unwrap();
    assert_eq!(waiting(&db), [""; 0], "who unpins it has seen it, too");
    undo(&db);
    undo(&db);
    assert_eq!(waiting(&db), [EXPORTS]);
    for validity in [Validity::Resolved, Validity::Holds] {
        execute(&db, MarkObservations { ids: vec![id], validity, at }, &mut Changes::default()).unwrap();
        assert_eq!(waiting(&db), [""; 0]);
    }
}

#[test]
fn a_rejected_note_is_active_again_when_it_is_kept_or_reopened() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path());
    add_notes(&db, 1, &[EXPORTS]);
    let is_rejected = || Reader(&db).observation(numbered(&db, EXPORTS)).unwrap().unwrap().is_rejected;
    judge(&db, EXPORTS, ReviewVerdict::Rejected);
    judge(&db, EXPORTS, ReviewVerdict::Kept);
    assert_eq!((status(&db, EXPORTS), is_rejected()), (Status::Active, false));
    assert_eq!(undo(&db), "keep");
    assert_eq!((status(&db, EXPORTS), is_rejected()), (Status::Resolved, true));
    let ids = vec![numbered(&db, EXPORTS)];
    let reopen = MarkObservations { ids, validity: Validity::Holds, at: Timestamp(9) };
    execute(&db, reopen, &mut Changes::default()).unwrap();
    assert_eq!((status(&db, EXPORTS), is_rejected()), (Status::Active, false));
    assert_eq!(undo(&db), "reopen");
    assert_eq!((status(&db, EXPORTS), is_rejected()), (Status::Resolved, true));
}

#[test]
fn a_rejected_note_replaces_no_other_note() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path());
    // The first pair forms a thread, and the second has a common subject.
    let (old, new) = ("The timeout is 30 seconds", "The timeout takes a minute");
    add_notes(&db, 1, &[PER_CUSTOMER, old]);
    add_notes(&db, 2, &[PER_SHOP, new]);
    assert_eq!((status(&db, PER_CUSTOMER), status(&db, old)), (Status::Superseded, Status::Superseded));
    judge(&db, PER_SHOP, ReviewVerdict::Rejected);
    judge(&db, new, ReviewVerdict::Rejected);
    assert_eq!((status(&db, PER_CUSTOMER), status(&db, old)), (Status::Active, Status::Active));
    // This still holds after a new compression.
    add_notes(&db, 1, &[PER_CUSTOMER, old]);
    assert_eq!((status(&db, PER_CUSTOMER), status(&db, old)), (Status::Active, Status::Active));
    judge(&db, PER_SHOP, ReviewVerdict::Kept);
    judge(&db, new, ReviewVerdict::Kept);
    assert_eq!((status(&db, PER_CUSTOMER), status(&db, old)), (Status::Superseded, Status::Superseded));
}

#[test]
fn a_later_compression_neither_changes_kept_nor_revives_rejected_notes() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path());
    add_notes(&db, 1, &[EXPORTS, PER_CUSTOMER]);
    judge(&db, EXPORTS, ReviewVerdict::Kept);
    judge(&db, PER_CUSTOMER, ReviewVerdict::Rejected);
    let reworded = "The nightly export of orders skips an empty basket, instead of failing.";
    add_notes(&db, 1, &[reworded, PER_CUSTOMER]);
    assert_eq!((status(&db, EXPORTS), status(&db, PER_CUSTOMER)), (Status::Active, Status::Resolved));
    // Another session makes the same observation, and the first session no longer makes it.
    add_notes(&db, 2, &[PER_CUSTOMER]);
    add_notes(&db, 1, &[]);
    let all: i64 = db.query_row("SELECT count(*) FROM observations", [], |row| row.get(0)).unwrap();
    assert_eq!((all, status(&db, PER_CUSTOMER), waiting(&db).len()), (2, Status::Resolved, 0));
}
