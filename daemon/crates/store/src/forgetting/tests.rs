use std::collections::BTreeSet;

use rusqlite::Connection;

use crate::forgetting::removal::without_lost_titles;
use crate::forgetting::*;
use crate::notes::subjects::SubjectHash;
use crate::operation::WriteContext;
use crate::sessions::lineage::settle;
use crate::{Changes, Reader, empty_database, execute};
use recall_domain::document::DocumentKind;
use recall_domain::ids::{BatchId, EventId, SessionRow};
use recall_domain::observation::{Importance, ObservationDraft, ObservationType};
use recall_domain::order::Order;

const NOW: Order = Order { boot: [1; 16], boot_ns: 1000, wall: Timestamp(1000) };

/// Returns a database with two sessions of one project, each with a prompt at its own time. Each observation rests on
/// its session's prompt and call. The second session received the observation of the first.
fn memory() -> (tempfile::TempDir, Connection) {
    let home = tempfile::tempdir().unwrap();
    let db = empty_database(home.path());
    let mut sql =
        "INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0), (2, 'path:/blog', 'blog', 0);".to_owned();
    for (id, at, word) in [(1, 100, "heron"), (2, 200, "stork")] {
        let [asked, answered, done] = [0, 1, 2].map(|kind| format!("{kind}{id}").repeat(16));
        sql.push_str(&format!(
            "INSERT INTO sessions (id, agent, session_id, project, status, life, title, activities, started_at, last_event_at)
             VALUES ({id}, 'claude-code', 's{id}', 1, 'active', 1, 'About the {word}', 1, {at}, {at} + 10);
             INSERT INTO prompt_batches (id, session, seq, prompt_number, source, status, prompt, prompt_event,
                                         response, response_event, opened_at)
             VALUES ({id}, {id}, 1, 1, 'user', 'closed', 'Where is the {word}?', X'{asked}', 'In the {word}ry.',
                     X'{answered}', {at});
             INSERT INTO activities (id, session, batch, event_id, kind, tool_name, failed, input, at)
             VALUES ({id}, {id}, {id}, X'{done}', 'tool', 'Bash', 0, '{{\"command\":\"ls \\\"{word} nest\\\"\"}}', {at} + 5);
             INSERT INTO observations (id, uuid, session, batch, project, type, title, narrative, facts, concepts,
                                       files_read, files_modified, importance, evidence, origin, created_at)
             VALUES ({id}, 'u{id}', {id}, {id}, 1, 'discovery', 'The {word} nests', '', '[]', '[]', '[\"{word}.rs\"]',
                     '[]', 5, '[\"{asked}\",\"{done}\"]', 'x', {at});
             INSERT INTO session_summaries (id, session, project, title, request, investigated, learned, completed,
                                            next_steps, notes, origin, created_at)
             VALUES ({id}, {id}, 1, 'About the {word}', '', '', '', '', '', '', 'x', {at});
             INSERT INTO plans (id, session, batch, kind, path, title, text, state, created_at, updated_at)
             VALUES ({id}, {id}, {id}, 'plan', 'plan.md', 'Find the {word}', 'Look for the {word}.', 'draft', {at}, {at});
             INSERT INTO subagents (id, session, batch, agent_id, message, ended_at)
             VALUES ({id}, {id}, {id}, 'helper', 'The {word} is there.', {at});
             INSERT INTO compactions (id, session, batch, trigger, message_count, summary, ended_at)
             VALUES ({id}, {id}, {id}, 'auto', 3, 'We look for the {word}.', {at});
             INSERT INTO deliveries VALUES (X'{asked}', {id}, X'aa', 'claude-code', 'x', {at}, zeroblob(16), 0, 0, 0);"
        ));
    }
    sql.push_str(
        "INSERT INTO injections (session, at, moment, tokens, items) VALUES (2, 150, 'start', 9,
            '[{\"kind\":\"observation\",\"id\":1,\"title\":\"The heron nests\",\"reason\":\"r\"}]');",
    );
    db.execute_batch(&sql).unwrap();
    (home, db)
}

fn document(text: &str) -> Selection {
    Selection::Documents(text.split(' ').map(|id| DocumentKey::parse(id).unwrap()).collect())
}

fn forget(db: &Connection, selection: &Selection, at: Order) -> Result<Forgotten, StoreError> {
    let what = selection.clone();
    execute(db, Forget { what, unreadable: Unreadable::Stays, at }, &mut Changes::default())
}

fn matching(criteria: Criteria) -> Selection {
    Selection::Matching(criteria)
}

fn words(text: &str) -> Selection {
    matching(Criteria { words: text.split(' ').map(str::to_owned).collect(), ..Criteria::default() })
}

#[track_caller]
fn check(selection: &Selection, expected: &str) {
    let (_home, db) = memory();
    let to_forget = Reader(&db).find_rows_to_forget(selection).unwrap();
    let found: Vec<String> = to_forget.documents().map(|key| key.to_string()).collect();
    assert_eq!(found.join(" "), expected, "{selection:?}");
    let forgotten = forget(&db, selection, NOW).unwrap();
    assert_eq!(forgotten.counts, to_forget.counts());
    // A second search for the same rows finds nothing.
    let again = Reader(&db).find_rows_to_forget(selection).unwrap();
    let left: Vec<DocumentKey> = again
        .documents()
        .filter(|key| key.kind != DocumentKind::Prompt)
        .filter(|key| exists(&db, *key))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}

fn exists(db: &Connection, key: DocumentKey) -> bool {
    Reader(db).load_document(key).unwrap().is_some()
}

#[test]
fn each_selection_forgets_its_documents_and_what_depends_on_them() {
    check(&document("2"), "2");
    check(&document("a1"), "1 s1 a1 c1");
    check(&document("r1"), "s1 r1 c1");
    check(&document("p1"), "1 s1 p1 r1 l1 a1 c1");
    check(&document("s2"), "s2");
    check(&document("l2"), "l2");
    check(&document("c2"), "c2");
    check(&Selection::Session(SessionRow(1)), "1 s1 p1 r1 l1 a1 c1");
    check(&Selection::SilentSince(Timestamp(150)), "1 s1 p1 r1 l1 a1 c1");
    check(&Selection::SilentSince(Timestamp(50)), "");
    let project = |row| matching(Criteria { projects: Some(vec![ProjectRow(row)]), ..Criteria::default() });
    check(&project(1), "1 2 s1 s2 p1 p2 r1 r2 l1 l2 a1 a2 c1 c2");
    check(&project(2), "");
}

#[test]
fn all_words_of_a_selection_must_occur_in_one_text() {
    check(&words("HERON"), "1 s1 p1 r1 l1 a1 c1");
    check(&words("where heron"), "p1");
    let phrase = Criteria { words: vec!["ls \"heron nest\"".to_owned()], ..Criteria::default() };
    check(&matching(phrase), "a1");
    check(&words("heron.rs"), "1");
    check(&words("heron stork"), "");
    let elsewhere = Criteria {
        words: vec!["heron".to_owned()],
        projects: Some(vec![ProjectRow(2)]),
        ..Criteria::default()
    };
    check(&matching(elsewhere), "");
}

#[test]
fn a_period_selects_whole_sessions_and_parts_of_others() {
    let period = |since, until| {
        let time = |at: i64| (at > 0).then_some(Timestamp(at));
        matching(Criteria { since: time(since), until: time(until), ..Criteria::default() })
    };
    check(&period(0, 150), "1 s1 p1 r1 l1 a1 c1");
    check(&period(200, 0), "2 s2 p2 r2 l2 a2 c2");
    check(&period(205, 206), "2 s2 a2 c2");
    check(&period(300, 0), "");
}

#[test]
fn a_forgotten_session_leaves_no_readable_text() {
    let (_home, db) = memory();
    let forgotten = forget(&db, &Selection::Session(SessionRow(1)), NOW).unwrap();
    assert_eq!(forgotten.sessions.len(), 1);
    let one = |sql: &str| db.query_row(sql, [], |row| row.get::<_, i64>(0)).unwrap();
    assert_eq!(one("SELECT count(*) FROM deliveries WHERE session IS NULL AND key IS NULL"), 1);
    assert_eq!(one("SELECT count(*) FROM injections WHERE items LIKE '%heron%'"), 0);
    assert_eq!(one("SELECT count(*) FROM injections WHERE items LIKE '%(forgotten)%'"), 1);
    assert_eq!(one("SELECT count(*) FROM index_log"), 7);
    assert_eq!(one("SELECT count(*) FROM projects"), 1, "the empty one goes, the other stays");
    assert!(Reader(&db).traces_left().unwrap());
    execute(&db, TracesRemoved, &mut Changes::default()).unwrap();
    assert!(!Reader(&db).traces_left().unwrap());
}

#[test]
fn forgetting_also_erases_subagent_messages_and_compaction_summaries() {
    let count_texts = "SELECT (SELECT count(*) FROM subagents WHERE message IS NOT NULL)
              + 10 * (SELECT count(*) FROM compactions WHERE summary IS NOT NULL)";
    for (selection, left) in [
        (document("p1"), 11),
        // This is also a part of the compaction's summary.
        (document("a1"), 12),
        (words("heron"), 11),
        (words("nobody"), 22),
        (matching(Criteria { until: Some(Timestamp(150)), ..Criteria::default() }), 11),
    ] {
        let (_home, db) = memory();
        forget(&db, &selection, NOW).unwrap();
        assert_eq!(db.query_row(count_texts, [], |row| row.get::<_, i64>(0)).unwrap(), left, "{selection:?}");
    }
}

#[test]
fn forgetting_counts_matches_in_subagent_and_compaction_texts() {
    for phrase in ["heron is there", "look for the heron."] {
        let (_home, db) = memory();
        let selection = matching(Criteria { words: vec![phrase.to_owned()], ..Criteria::default() });
        let counts = forget(&db, &selection, NOW).unwrap().counts;
        assert_eq!(counts.asides, 1, "{phrase}: {counts:?}");
        assert_eq!(Reader(&db).find_rows_to_forget(&selection).unwrap().counts(), ForgottenCounts::default());
    }
}

#[test]
fn an_observation_shared_with_a_remaining_session_is_compressed_again() {
    let (_home, db) = memory();
    db.execute_batch(
        "INSERT INTO observation_sessions VALUES (1, 2), (2, 1);
         UPDATE observations SET evidence = '[\"01010101010101010101010101010101\",\"02020202020202020202020202020202\"]';
         INSERT INTO observation_files VALUES (2, 'stork.rs', 'read'), (2, 'heron.rs', 'read');",
    )
    .unwrap();
    forget(&db, &Selection::Session(SessionRow(1)), NOW).unwrap();
    let jobs: Vec<i64> = db
        .prepare("SELECT batch FROM jobs WHERE kind = 'batch'")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .map(Result::unwrap)
        .collect();
    assert_eq!(jobs, [2]);
    let text = |sql: &str| db.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
    assert_eq!(
        text("SELECT evidence FROM observations WHERE id = 2"),
        "[\"02020202020202020202020202020202\"]"
    );
    assert_eq!(text("SELECT group_concat(path) FROM observation_files"), "stork.rs");
}

#[test]
fn a_running_job_is_restarted_when_its_material_is_forgotten() {
    let (_home, db) = memory();
    db.execute_batch(
        "INSERT INTO jobs (id, kind, session, batch, status, error, created_at)
         VALUES (1, 'batch', 1, 1, 'running', 'no heron', 0), (2, 'batch', 2, 2, 'running', 'no stork', 0);",
    )
    .unwrap();
    forget(&db, &words("heron"), NOW).unwrap();
    let mut jobs =
        db.prepare("SELECT concat_ws(' ', id, kind, batch, status, error) FROM jobs ORDER BY id").unwrap();
    let jobs: Vec<String> = jobs.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    assert_eq!(jobs, ["2 batch 2 running no stork", "3 batch 1 pending"]);
}

/// While a summary is being made, it has no text by which it could be found.
#[test]
fn a_running_summary_job_is_restarted_when_its_session_loses_material() {
    let (_home, db) = memory();
    db.execute_batch(
        "DELETE FROM session_summaries; UPDATE sessions SET title = NULL;
         INSERT INTO jobs (id, kind, session, status, created_at)
         VALUES (1, 'summary', 1, 'running', 0), (2, 'summary', 2, 'running', 0);",
    )
    .unwrap();
    forget(&db, &words("nest ls"), NOW).unwrap();
    let jobs = |db: &Connection| -> Vec<String> {
        let mut jobs =
            db.prepare("SELECT concat_ws(' ', id, kind, session, status) FROM jobs ORDER BY id").unwrap();
        jobs.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    assert_eq!(jobs(&db), ["3 summary 1 pending", "4 summary 2 pending"], "both lost a call");
    db.execute("UPDATE jobs SET status = 'running'", []).unwrap();
    forget(&db, &words("goose"), NOW).unwrap();
    assert_eq!(jobs(&db), ["3 summary 1 running", "4 summary 2 running"], "nothing of theirs went");
}

#[test]
fn a_forgotten_observation_is_recognized_by_its_title_or_evidence() {
    let (_home, db) = memory();
    let event = |byte: u8| EventId([byte; 16]);
    db.execute("UPDATE observations SET evidence = ?1", [format!("[\"{}\",\"{}\"]", event(1), event(2))])
        .unwrap();
    forget(&db, &document("1"), NOW).unwrap();
    let known = |session, batch, title: &str, evidence: &[u8]| {
        let draft = ObservationDraft {
            kind: ObservationType::Discovery,
            title: title.to_owned(),
            subtitle: None,
            narrative: String::new(),
            facts: Vec::new(),
            concepts: Vec::new(),
            files_read: Vec::new(),
            files_modified: Vec::new(),
            importance: Importance::clamped(5),
            evidence: evidence.iter().map(|byte| event(*byte)).collect(),
            subject: None,
        };
        was_forgotten(&db, SessionRow(session), BatchId(batch), &draft).unwrap()
    };
    assert!(known(1, 1, "The heron nests", &[9]));
    assert!(known(1, 7, "The heron nests", &[]));
    assert!(known(1, 1, "Said otherwise", &[2]));
    assert!(!known(1, 1, "Something else", &[2, 3]));
    assert!(!known(1, 1, "Something else", &[]));
    assert!(!known(1, 7, "Said otherwise", &[2]));
    assert!(!known(2, 2, "The heron nests", &[1]));
}

#[test]
fn injected_titles_are_removed_with_their_words_or_their_row() {
    let (_home, db) = memory();
    let items =
        r#"[{"kind":"observation","id":2,"title":"A stork"},{"kind":"session","id":7,"title":"A state"}]"#;
    assert_eq!(without_lost_titles(&db, items, &[]).unwrap(), None);
    let cleaned = without_lost_titles(&db, items, &["STORK".to_owned()]).unwrap().unwrap();
    assert!(!cleaned.contains("stork") && cleaned.contains("A state"), "{cleaned}");
    for kind in ["observation", "summary", "prompt", "response", "plan", "activity"] {
        let items = format!(r#"[{{"kind":"{kind}","id":777,"title":"A heron"}}]"#);
        let cleaned = without_lost_titles(&db, &items, &[]).unwrap().unwrap();
        assert!(!cleaned.contains("heron"), "{kind}: its row is gone");
    }
    let none: BTreeSet<i64> = BTreeSet::new();
    assert_eq!(serde_json::to_string(&none).unwrap(), "[]", "an empty set is a list for SQL too");
}

fn status(db: &Connection, id: i64) -> String {
    db.query_row("SELECT status FROM observations WHERE id = ?1", [id], |row| row.get(0)).unwrap()
}

/// Returns a database with lineage. If `what` is "newer", both observations have the same subject and the second is
/// newer. Otherwise the second batch settles the first observation.
fn with_lineage(what: &str) -> (tempfile::TempDir, Connection) {
    let (home, db) = memory();
    let subject = SubjectHash([9; 16]);
    let settled = format!(
        "INSERT INTO settlements VALUES (2, X'{}', 'passed', '[\"a\"]', '[\"{}\"]')",
        "09".repeat(16),
        "22".repeat(16)
    );
    let rows = if what == "newer" { "" } else { settled.as_str() };
    let about = if what == "newer" { "1, 2" } else { "1" };
    db.execute(&format!("UPDATE observations SET subject = ?1 WHERE id IN ({about})"), [subject.0]).unwrap();
    db.execute_batch(rows).unwrap();
    settle(&WriteContext::new(&db), ProjectRow(1), &[subject].into(), Timestamp(0)).unwrap();
    (home, db)
}

#[test]
fn a_note_superseded_by_a_forgotten_one_is_active_again() {
    for what in [document("2"), Selection::Session(SessionRow(2)), words("stork")] {
        let (_home, db) = with_lineage("newer");
        assert_eq!((status(&db, 1), status(&db, 2)), ("superseded".to_owned(), "active".to_owned()));
        forget(&db, &what, NOW).unwrap();
        assert_eq!(status(&db, 1), "active", "{what:?}");
        let left: i64 = db.query_row("SELECT count(*) FROM lineage", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0);
    }
    let (_home, db) = with_lineage("newer");
    forget(&db, &document("1"), NOW).unwrap();
    assert_eq!(status(&db, 2), "active");
}

#[test]
fn a_note_resolved_by_forgotten_work_is_active_again() {
    for what in [document("a2"), document("p2"), Selection::Session(SessionRow(2))] {
        let (_home, db) = with_lineage("settled");
        assert_eq!(status(&db, 1), "resolved");
        forget(&db, &what, NOW).unwrap();
        assert_eq!(status(&db, 1), "active", "{what:?}");
        let left: i64 = db.query_row("SELECT count(*) FROM settlements", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0);
    }
}

#[test]
fn a_passing_check_resolves_nothing_once_the_fix_is_forgotten() {
    for what in [document("a2"), Selection::Session(SessionRow(2))] {
        let (_home, db) = memory();
        let subject = SubjectHash([9; 16]);
        db.execute_batch(&format!(
            "UPDATE observations SET subject = X'{subject}' WHERE id = 1;
             INSERT INTO sessions (id, agent, session_id, project, status, life, started_at, last_event_at)
             VALUES (3, 'claude-code', 's3', 1, 'active', 1, 300, 310);
             INSERT INTO prompt_batches (id, session, seq, prompt_number, source, status, opened_at)
             VALUES (3, 3, 1, 1, 'user', 'closed', 300);
             UPDATE prompt_batches SET closed_at = opened_at + 10;
             INSERT INTO failings VALUES (1, X'{subject}', 0, '{first}');
             INSERT INTO changes VALUES (2, 'file', 0, '{second}', 1, 200);
             INSERT INTO settlements VALUES (3, X'{subject}', 'passed', '[]', '[]')",
            subject = "09".repeat(16),
            first = "21".repeat(16),
            second = "22".repeat(16),
        ))
        .unwrap();
        settle(&WriteContext::new(&db), ProjectRow(1), &[subject].into(), Timestamp(0)).unwrap();
        assert_eq!(status(&db, 1), "resolved");
        forget(&db, &what, NOW).unwrap();
        assert_eq!(status(&db, 1), "active", "{what:?}");
        let left: i64 = db.query_row("SELECT count(*) FROM changes", [], |row| row.get(0)).unwrap();
        assert_eq!(left, 0);
    }
}

#[test]
fn retention_reports_the_end_of_an_active_session_it_forgets() {
    let (_home, db) = memory();
    db.execute("UPDATE sessions SET life_started_at = started_at + 4", []).unwrap();
    db.execute("UPDATE sessions SET status = 'completed' WHERE id = 2", []).unwrap();
    let mut changes = Changes::default();
    let what = Selection::SilentSince(Timestamp(1000));
    let expire = Forget { what, unreadable: Unreadable::Stays, at: NOW };
    let forgotten = execute(&db, expire, &mut changes).unwrap();
    assert_eq!(forgotten.counts.sessions, 2);
    let [ended] = changes.events.as_slice() else { panic!("{changes:?}") };
    assert_eq!(ended.session.as_ref().map(|session| session.id.as_str()), Some("s1"));
    let expected = serde_json::json!({"message_count": 2, "duration_ms": 10, "life_ms": 6,
        "reason": "retention", "prompt_count": 0, "tool_call_count": 1, "observation_count": 1});
    assert_eq!((ended.what.name(), ended.what.detail()), ("session_end", expected));
    // Forgetting by hand does not report the end of a session.
    let (_home, db) = memory();
    let what = Selection::Session(SessionRow(1));
    execute(&db, Forget { what, unreadable: Unreadable::Stays, at: NOW }, &mut changes).unwrap();
    assert_eq!(changes.events.len(), 1);
}

#[test]
fn unreadable_payloads_are_forgotten_only_on_request_and_in_the_period() {
    let keep = |db: &Connection, id: u8, at: i64, payload: &str| {
        db.execute(
            "INSERT INTO deliveries (event_id, agent, event_name, captured_at, boot_id, boot_ns, flags, stored_at)
             VALUES (?1, 'claude-code', '', ?2, ?3, 1, 0, 0)",
            crate::database::bind::params![[id; 16], at, [9_u8; 16]],
        )
        .unwrap();
        db.execute(
            "INSERT INTO unparsed (event_id, parse_error, payload) VALUES (?1, 'cut off', ?2)",
            crate::database::bind::params![[id; 16], payload.as_bytes()],
        )
        .unwrap();
    };
    let check = |selection: Selection, unreadable, expected: usize| {
        let (_home, db) = memory();
        keep(&db, 200, 100, r#"{"session_id":"s1"#);
        keep(&db, 201, 100, r#"{"prompt":"whose"#);
        keep(&db, 202, 5000, r#"{"prompt":"whose"#);
        let forget = Forget { what: selection.clone(), unreadable, at: NOW };
        let gone = execute(&db, forget, &mut Changes::default()).unwrap();
        assert_eq!(gone.counts.unparsed, expected, "{selection:?} {unreadable:?}");
    };
    let project = |until: Option<i64>| {
        let projects = Some(vec![ProjectRow(1)]);
        matching(Criteria { projects, until: until.map(Timestamp), ..Criteria::default() })
    };
    check(project(None), Unreadable::Stays, 0);
    check(project(None), Unreadable::Goes, 3);
    check(project(Some(1000)), Unreadable::Goes, 2);
    check(matching(Criteria::default()), Unreadable::Goes, 3);
    check(matching(Criteria::default()), Unreadable::Stays, 0);
}

#[test]
fn words_removed_by_an_edit_are_forgotten_and_the_new_text_is_kept() {
    use crate::{EditObservation, EditedText};
    use recall_domain::ids::ObservationId;
    let (_home, db) = memory();
    let text = EditedText {
        kind: ObservationType::Discovery,
        title: "The bird nests".to_owned(),
        narrative: String::new(),
        facts: Vec::new(),
        files: Vec::new(),
    };
    let edit = EditObservation { id: ObservationId(1), text, at: Timestamp(300) };
    execute(&db, edit, &mut Changes::default()).unwrap();
    forget(&db, &words("heron"), NOW).unwrap();
    assert_eq!(Reader(&db).hand_changes(9).unwrap(), []);
    let left: (String, bool, bool) = db
        .query_row(
            "SELECT title, instr(ifnull(made_as, ''), 'heron') > 0, made_as IS NOT NULL FROM observations WHERE id = 1",
            [],
            |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
        )
        .unwrap();
    assert_eq!(left, ("The bird nests".to_owned(), false, true), "it stays a person's");
}
