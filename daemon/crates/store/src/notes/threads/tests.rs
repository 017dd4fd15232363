use proptest::prelude::*;

use crate::notes::threads::*;
use crate::sessions::three_sessions::{EXPORTS, PER_CUSTOMER, PER_SHOP, database, discovery, finish};
use crate::{Changes, MarkObservations, Reader, Relation, Validity, execute};
use recall_domain::ids::Timestamp;

const BY_MONTH: &str =
    "Since the merger invoices are numbered for every customer together, starting anew each month";
const NAMES_MORE: &str = "Invoices are numbered per customer by `NumberRange`, starting anew each January";
fn add_notes(db: &Connection, batch: i64, titles: &[&str]) {
    finish(db, batch, titles.iter().map(|title| discovery(batch, title)).collect());
}

/// Returns each title with its session and the observation that covers it.
fn titles_with_covers(db: &Connection) -> Vec<(String, i64, Option<String>)> {
    let mut rows = db
        .prepare(
            "SELECT o.title, o.session, n.title, o.status, (SELECT count(*) FROM lineage WHERE older = o.id)
             FROM observations o LEFT JOIN observations n ON n.id = o.superseded_by ORDER BY o.session, o.title",
        )
        .unwrap();
    let rows = rows.query_map([], |row| {
        let (newer, status): (Option<String>, String) = (row.get(2)?, row.get(3)?);
        assert_eq!(status, if newer.is_some() { "superseded" } else { "active" });
        assert_eq!(row.get::<_, i64>(4)?, i64::from(newer.is_some()));
        Ok((row.get(0)?, row.get(1)?, newer))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

fn row(title: &str, session: i64, newer: Option<&str>) -> (String, i64, Option<String>) {
    (title.to_owned(), session, newer.map(str::to_owned))
}

fn numbered(db: &Connection, title: &str) -> ObservationId {
    let sql = "SELECT id FROM observations WHERE title = ?1";
    ObservationId(db.query_row(sql, [title], |row| row.get(0)).unwrap())
}

#[test]
fn the_newest_statement_supersedes_the_older_one_until_it_is_removed() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path());
    add_notes(&db, 1, &[PER_CUSTOMER, EXPORTS]);
    add_notes(&db, 2, &[PER_SHOP]);
    assert_eq!(
        titles_with_covers(&db),
        [row(PER_CUSTOMER, 1, Some(PER_SHOP)), row(EXPORTS, 1, None), row(PER_SHOP, 2, None)]
    );
    let (older, newer) = (numbered(&db, PER_CUSTOMER), numbered(&db, PER_SHOP));
    let lineage = Reader(&db).lineage(older).unwrap();
    assert_eq!(
        (lineage[0].relation, lineage[0].other.as_ref().map(|other| other.0)),
        (Relation::SupersededBy, Some(newer))
    );
    assert_eq!(Reader(&db).lineage(newer).unwrap()[0].relation, Relation::Supersedes);
    // The older one is shown again after the newer one is removed.
    add_notes(&db, 2, &[]);
    assert_eq!(titles_with_covers(&db), [row(PER_CUSTOMER, 1, None), row(EXPORTS, 1, None)]);
}

#[test]
fn an_older_statement_that_names_more_stays_active() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path());
    add_notes(&db, 1, &[NAMES_MORE]);
    add_notes(&db, 2, &[PER_SHOP]);
    assert_eq!(titles_with_covers(&db), [row(NAMES_MORE, 1, None), row(PER_SHOP, 2, None)]);
}

#[test]
fn a_reopened_statement_stays_active_until_a_newer_one_arrives() {
    let home = tempfile::tempdir().unwrap();
    let db = database(home.path());
    add_notes(&db, 1, &[PER_CUSTOMER]);
    add_notes(&db, 2, &[PER_SHOP]);
    let older = numbered(&db, PER_CUSTOMER);
    let reopen = MarkObservations { ids: vec![older], validity: Validity::Holds, at: Timestamp(0) };
    execute(&db, reopen, &mut Changes::default()).unwrap();
    let status = || Reader(&db).observation(older).unwrap().unwrap().status.as_str();
    assert_eq!(status(), "active");
    add_notes(&db, 2, &[PER_SHOP, EXPORTS]);
    assert_eq!(status(), "active", "made anew, the other still does not cover it");
    add_notes(&db, 3, &[BY_MONTH]);
    assert_eq!(status(), "superseded");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn threads_do_not_depend_on_the_order_of_arrival(
        statements in prop::collection::vec(prop::collection::btree_set(0usize..4, 0..3), 3..=3),
        before in prop::collection::vec((0usize..3, prop::collection::btree_set(0usize..4, 0..3)), 0..5),
        order in Just(vec![0usize, 1, 2]).prop_shuffle(),
    ) {
        // The words differ between sessions, because equal words would be one observation.
        let titles = |session: usize, which: &std::collections::BTreeSet<usize>| -> Vec<String> {
            let all = [PER_CUSTOMER, PER_SHOP, BY_MONTH, NAMES_MORE];
            which.iter().map(|at| format!("{} (session {session})", all[*at])).collect()
        };
        let play = |before: &[(usize, std::collections::BTreeSet<usize>)], order: &[usize]| {
            let home = tempfile::tempdir().unwrap();
            let db = database(home.path());
            let last = order.iter().map(|session| (*session, statements[*session].clone()));
            for (session, which) in before.iter().cloned().chain(last) {
                let titles = titles(session, &which);
                let titles: Vec<&str> = titles.iter().map(String::as_str).collect();
                add_notes(&db, session as i64 + 1, &titles);
            }
            titles_with_covers(&db)
        };
        prop_assert_eq!(play(&before, &order), play(&[], &[0, 1, 2]));
    }
}
