//! Tests `recall ctl backup`, `restore`, `check`, `prune` and `reindex`, and `recall sql`.

use std::path::{Path, PathBuf};

use recall_tests::faults::process::peak_memory;
use recall_tests::{CommandOutput, Stage};
use rusqlite::Connection;
use serde_json::{Value, json};

fn worked() -> Stage {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    stage.flush();
    stage
}

fn sessions(stage: &Stage) -> Vec<String> {
    let listed = stage.json(["ctl", "sessions"]);
    let ids = listed["sessions"].as_array().unwrap().iter();
    ids.map(|session| session["session_id"].as_str().unwrap().to_owned()).collect()
}

fn backup(stage: &Stage, name: &str) -> PathBuf {
    let path = stage.user_home().join(name);
    let output = stage.recall(["ctl", "backup", path.to_str().unwrap()]);
    assert!(output.code() == 0 && output.stdout.starts_with("Backed up to "), "{output:?}");
    path
}

fn restore(stage: &Stage, path: &Path) -> CommandOutput {
    stage.recall(["ctl", "restore", path.to_str().unwrap(), "--yes"])
}

#[test]
fn table_cells_in_a_pipe_are_not_truncated() {
    let stage = Stage::new().daemon();
    let note = format!("The gateway {} sleeps.", "and its very long name ".repeat(5));
    assert_eq!(stage.recall(["remember", &note]).code(), 0);
    assert_eq!(stage.recall(["remember", "Short."]).code(), 0);
    let output = stage.recall([
        "sql",
        "SELECT iif(narrative = '', title, narrative) AS text, id FROM observations ORDER BY id",
    ]);
    let lines: Vec<&str> = output.stdout.lines().collect();
    assert!(lines[1].contains(" sleeps.  1") && !output.stdout.contains('…'), "{output:?}");
    assert_eq!(lines[2], "Short.  2", "{output:?}");
}

#[test]
fn a_restored_backup_is_searchable_and_takes_new_sessions() {
    let stage = worked();
    let path = backup(&stage, "memory.db");
    let documents = stage.json(["ctl", "check"])["documents"].clone();
    stage.discount_session("second");
    stage.flush();
    let output = restore(&stage, &path);
    assert_eq!(output.code(), 0, "{output:?}\n{}", stage.log());
    assert_eq!(sessions(&stage), ["first"]);
    let kept = output.stdout.lines().last().unwrap().rsplit(": ").next().unwrap().to_owned();
    assert!(Path::new(&kept).exists(), "{output:?}");
    assert_eq!(stage.json(["ctl", "status"])["healed"], json!([]), "nothing was damaged");
    // The index is correct at once.
    let found = stage.json(["search", "rounding"])["results"].clone();
    assert!(found.as_array().unwrap().iter().all(|item| item["session_id"] == "first"), "{found}");
    assert_ne!(found, json!([]));
    let checked = stage.json(["ctl", "check"]);
    assert_eq!((&checked["healthy"], &checked["documents"]), (&json!(true), &documents), "{checked}");

    stage.discount_session("third");
    stage.flush();
    let found = stage.json(["search", "rounding"]);
    let of: Vec<&Value> =
        found["results"].as_array().unwrap().iter().map(|item| &item["session_id"]).collect();
    assert!(
        of.contains(&&json!("first")) && of.contains(&&json!("third")) && !of.contains(&&json!("second")),
        "{of:?}"
    );

    // A database that was set aside contains forgotten text, so it is removed too.
    stage.json(["forget", "--session", "third", "--yes"]);
    assert!(!Path::new(&kept).exists());
}

/// Returns the files below recall's home that contain a text.
fn holding(stage: &Stage, text: &str) -> Vec<PathBuf> {
    let (mut found, mut folders) = (Vec::new(), vec![stage.home()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() {
                let bytes = std::fs::read(&path).unwrap_or_default();
                if bytes.windows(text.len()).any(|window| window == text.as_bytes()) {
                    found.push(path);
                }
            }
        }
    }
    found
}

#[test]
fn a_restore_takes_only_known_rows_of_a_backup_with_other_tables() {
    let stage = worked();
    stage.json(["remember", "The quetzalcoatlus cache is cold", "--type", "decision"]);
    let path = backup(&stage, "hostile.db");
    let db = Connection::open(&path).unwrap();
    db.execute_batch(
        "CREATE TABLE hidden (t); INSERT INTO hidden SELECT title FROM observations;
         CREATE TRIGGER keep AFTER DELETE ON observations BEGIN INSERT INTO hidden VALUES (old.title); END;
         CREATE INDEX more ON observations (narrative, title);
         DROP TABLE observation_files;
         CREATE VIEW observation_files AS
            WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS observation FROM n;
         DROP TABLE hand_changes;
         DROP TABLE changes;
         CREATE TABLE changes (batch, file, step, event, project, opened_at AS (lower(file)));
         UPDATE observations SET facts = '[1', evidence = 7 WHERE title LIKE '%quetzal%';
         INSERT INTO observations (id, uuid, project, type, title, narrative, facts, concepts, files_read, files_modified,
            importance, evidence, origin, created_at)
         VALUES (9223372036854775807, 'u', 1, 'decision', 't', 'n', '[]', '[]', '[]', '[]', 5, '[]', 'user', 0);
         INSERT INTO meta VALUES ('odd', 'quetzalcoatlus');
         CREATE TRIGGER again AFTER INSERT ON meta BEGIN DELETE FROM sessions; END",
    )
    .unwrap();
    drop(db);
    let done = stage.json(["ctl", "restore", path.to_str().unwrap(), "--yes"]);
    let left: Vec<&str> =
        done["left_behind"].as_array().unwrap().iter().map(|thing| thing.as_str().unwrap()).collect();
    for thing in [
        "table hidden",
        "trigger keep",
        "trigger again",
        "index more",
        "view observation_files",
        "table observation_files, which is missing",
        "table hand_changes, which is missing",
        "table changes, which differs",
        "unreadable values of observations.facts: 1",
        "unusable rows of observations: 1",
    ] {
        assert!(left.contains(&thing), "{thing}: {left:#?}");
    }
    assert_eq!(stage.json(["ctl", "check"])["healthy"], true);
    assert_eq!(sessions(&stage), ["first"]);
    let found = stage.json(["search", "quetzalcoatlus"]);
    assert_eq!(found["total"], 1, "{found}");
    assert!(stage.json(["search", "rounding"])["total"].as_u64() > Some(0));
    stage.json(["remember", "One more note is numbered"]);

    // No file contains forgotten text.
    stage.json(["forget", "--yes", &found["results"][0]["id"].to_string()]);
    assert_eq!(holding(&stage, "quetzalcoatlus"), Vec::<PathBuf>::new());
    let own = |sql: &str| -> Vec<String> {
        let db = Connection::open(stage.database()).unwrap();
        let mut find = db.prepare(sql).unwrap();
        find.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    };
    let triggers = own("SELECT name FROM sqlite_schema WHERE type = 'trigger' OR name IN ('hidden', 'more')");
    assert_eq!(triggers, Vec::<String>::new());
    let output = restore(&stage, &path);
    assert!(
        output.stdout.contains("Left behind:\n  ") && output.stdout.contains("  table hidden\n"),
        "{output:?}"
    );
    assert!(output.stdout.contains("it has since been forgotten: 1 observation."), "{output:?}");
    assert_eq!(holding(&stage, "quetzalcoatlus"), Vec::<PathBuf>::new());
}

#[test]
fn a_restore_skips_unreadable_values_of_a_backup() {
    let stage = worked();
    let path = backup(&stage, "broken.db");
    let sound = stage.json(["ctl", "restore", path.to_str().unwrap(), "--yes"]);
    assert_eq!(sound["left_behind"], json!([]), "what recall has made is recall's own");
    let db = Connection::open(&path).unwrap();
    db.execute_batch("UPDATE observations SET facts = '{}' WHERE id = 1; UPDATE sessions SET title = x'00'")
        .unwrap();
    drop(db);
    let done = stage.json(["ctl", "restore", path.to_str().unwrap(), "--yes"]);
    let left =
        json!(["unreadable values of observations.facts: 1", "unreadable values of sessions.title: 1"]);
    assert_eq!(done["left_behind"], left, "{done}");
    assert_eq!(stage.json(["ctl", "check"])["healthy"], true);
    assert_eq!(sessions(&stage), ["first"]);
}

#[test]
fn a_file_that_is_not_a_database_of_recall_is_not_restored() {
    let stage = worked();
    let garbage = stage.user_home().join("garbage.db");
    std::fs::write(&garbage, "no database".repeat(1000)).unwrap();
    let other = stage.user_home().join("other.db");
    Connection::open(&other)
        .unwrap()
        .execute_batch("CREATE TABLE t (x); PRAGMA user_version = 1000")
        .unwrap();
    for path in [&garbage, &other] {
        let output = restore(&stage, path);
        assert!(output.code() == 1 && output.stderr.contains("nothing was changed"), "{output:?}");
    }
    assert_eq!(restore(&stage, Path::new("/nowhere.db")).code(), 2);
    let output = stage.recall(["ctl", "restore", garbage.to_str().unwrap()]);
    assert!(output.code() == 2 && output.stderr.contains("--yes"), "nobody can be asked: {output:?}");
    let output = stage.recall(["ctl", "backup", other.to_str().unwrap()]);
    assert!(output.code() == 1 && output.stderr.contains("Name a new file"), "{output:?}");
    assert_eq!(sessions(&stage), ["first"]);
    let output = stage.recall(["ctl", "backup"]);
    assert!(output.stdout.contains("/backups/by-hand-"), "{output:?}");
}

#[test]
fn a_check_finds_references_to_missing_rows() {
    let stage = worked();
    let output = stage.recall(["ctl", "check"]);
    assert!(output.code() == 0 && output.stdout.starts_with("No problems found: 1 session, "), "{output:?}");
    let db = Connection::open(stage.database()).unwrap();
    db.execute_batch(
        "PRAGMA foreign_keys = OFF; INSERT INTO observation_files VALUES (4711, 'a.rs', 'read')",
    )
    .unwrap();
    let output = stage.recall(["ctl", "check"]);
    assert!(
        output.code() == 1 && output.stdout.contains("references to rows that do not exist: 1"),
        "{output:?}"
    );
    let output = stage.recall(["ctl", "check", "--json"]);
    assert_eq!((output.code(), &output.json()["healthy"]), (1, &json!(false)));
}

#[test]
fn a_check_says_that_index_and_database_differ() {
    let stage = worked();
    let db = Connection::open(stage.database()).unwrap();
    db.execute_batch("DELETE FROM observations WHERE id = 1").unwrap();
    drop(db);
    let output = stage.recall(["ctl", "check"]);
    assert!(
        output.code() == 1 && output.stdout.contains("`recall ctl reindex` builds it again"),
        "{output:?}"
    );
    stage.json(["ctl", "reindex"]);
    assert_eq!(stage.json(["ctl", "check"])["healthy"], true);
}

#[test]
fn a_flush_reports_jobs_that_wait_or_were_given_up() {
    let mut stage = worked();
    let output = stage.recall(["ctl", "flush"]).stdout;
    assert!(output.starts_with("Everything is stored") && output.lines().count() == 1, "{output}");
    let nothing = json!({"running": 0, "waiting": 0, "dead": 0, "next_try": null});
    assert_eq!(stage.json(["ctl", "flush"])["jobs"], nothing);
    stage.stop_daemon();
    let db = Connection::open(stage.database()).unwrap();
    // This is the state after a model could not be reached: the built-in results are stored.
    db.execute_batch(
        "UPDATE jobs SET status = 'retrying', stood_in = 1, error = 'x', not_before = 4102444800000 WHERE kind = 'batch';
         UPDATE jobs SET status = 'dead', stood_in = 1, error = 'x' WHERE kind = 'summary'",
    )
    .unwrap();
    drop(db);
    stage.start_daemon();
    let flushed = stage.json(["ctl", "flush"]);
    let expected = json!({"running": 0, "waiting": 1, "dead": 1, "next_try": "2100-01-01T00:00:00Z"});
    assert_eq!(flushed["jobs"], expected, "{flushed}");
    let output = stage.recall(["ctl", "flush"]);
    assert_eq!(output.code(), 0);
    assert!(output.stdout.contains("1 job waits for a retry, the next at 2100-01-01"), "{output:?}");
    assert!(output.stdout.contains("1 job was given up; `recall ctl jobs --dead`"), "{output:?}");
}

#[test]
fn a_flush_does_not_wait_for_a_process_that_locks_the_index() {
    let stage = worked();
    let path = stage.home().join("data/index/.tantivy-meta.lock");
    let lock = std::fs::File::options().write(true).create(true).truncate(false).open(&path).unwrap();
    lock.lock().unwrap();
    stage.discount_session("second");
    let output = stage.recall(["ctl", "flush"]);
    let holder = format!("process {} holds the lock {}", std::process::id(), path.display());
    assert!(output.code() == 1 && output.stderr.contains(&holder), "{output:?}");
    assert!(output.stderr.contains("Everything is stored"), "{output:?}");
    lock.unlock().unwrap();
    stage.flush();
    assert_eq!(sessions(&stage).len(), 2);
}

#[test]
fn old_sessions_are_pruned() {
    let stage = worked();
    let event = |name: &str, fields: Value| {
        let mut deliver = stage.delivery(&stage.event("old", name, fields));
        deliver.captured_at_ms = 1_700_000_000_000;
        deliver
    };
    stage.deliver(&[event("UserPromptSubmit", json!({"prompt": "Why is the quetzal slow?"}))]);
    stage.deliver(&[event("Stop", json!({"last_assistant_message": "The quetzal index was missing."}))]);
    stage.flush();
    let shown = stage.json(["ctl", "prune", "--older-than", "90d", "--dry-run"]);
    assert_eq!(shown["sessions"], 1, "{shown}");
    assert_eq!(sessions(&stage).len(), 2, "a dry run changes nothing");
    let output = stage.recall(["ctl", "prune", "--older-than", "90d", "--yes"]);
    assert!(output.code() == 0 && output.stdout.starts_with("Forgotten: 1 session"), "{output:?}");
    assert_eq!(sessions(&stage), ["first"]);
    assert_eq!(stage.json(["search", "quetzal"])["total"], 0);
    let output = stage.recall(["ctl", "prune", "--older-than", "90d", "--yes"]);
    assert_eq!((output.code(), output.stdout.as_str()), (0, "No session is that old.\n"));
    assert_eq!(stage.recall(["ctl", "prune"]).code(), 2);
}

#[test]
fn reindex_rebuilds_the_index() {
    let stage = worked();
    let before = stage.json(["ctl", "check"])["documents"].clone();
    let report = stage.json(["ctl", "reindex"]);
    assert_eq!(report["documents"], before);
    assert!(stage.json(["search", "rounding"])["total"].as_u64().unwrap() > 0);
}

#[test]
fn sql_reads_and_changes_nothing() {
    let stage = worked();
    let output = stage.recall(["sql", "SELECT content_session_id, status FROM sdk_sessions"]);
    assert_eq!(output.stdout, "content_session_id  status\nfirst               completed\n");
    let output =
        stage.recall(["sql", "--csv", "SELECT prompt_number, prompt_text AS \"a, b\" FROM user_prompts"]);
    assert_eq!(output.stdout, "prompt_number,\"a, b\"\n1,Add a percentage discount to the cart total\n");
    let found = stage.json(["sql", "SELECT title FROM observations LIMIT 1"]);
    assert_eq!((&found["columns"], &found["more"]), (&json!(["title"]), &json!(false)), "{found}");
    let output = stage.recall(["sql", "-n", "1", "SELECT id FROM calls"]);
    assert!(output.stderr.contains("more rows"), "{output:?}");
    let output = stage.recall(["sql", "DELETE FROM sessions"]);
    assert!(output.code() == 2 && output.stderr.contains("only reading is allowed"), "{output:?}");
    let output = stage.recall(["sql", "SELECT nosuch FROM calls"]);
    assert!(output.code() == 2 && output.stderr.contains("no such column: nosuch"), "{output:?}");
    assert_eq!(sessions(&stage), ["first"]);
}

#[test]
fn a_query_that_needs_too_much_memory_or_time_is_stopped() {
    let stage = worked();
    let before = peak_memory(stage.daemon_pid());
    let endless = "WITH RECURSIVE n(x, y) AS (SELECT 1, '' UNION ALL SELECT x + 1, '' FROM n)";
    let distinct =
        "WITH RECURSIVE n(x, y) AS (SELECT 1, '' UNION SELECT x + 1, hex(randomblob(60000)) FROM n)";
    let columns = |count, column: &str| vec![column; count].join(", ");
    let wide = columns(100, "printf('%.*c', 16000000, 'x')");
    let empty = columns(1_900, "''");
    for (query, why, code) in [
        (format!("{endless} SELECT zeroblob(16000000) FROM n"), "its first row has more than", 1),
        (format!("SELECT {wide}"), "it needs too much memory", 1),
        (format!("{distinct} SELECT count(*) FROM n"), "it needs too much memory", 1),
        (format!("{distinct} SELECT * FROM n ORDER BY y"), "it needs too much memory", 1),
        (format!("{endless} SELECT group_concat(printf('%.*c', 1000000, 'x')) FROM n"), "it ran longer", 1),
        ("SELECT zeroblob(20000000)".to_owned(), "too big", 2),
    ] {
        let output = stage.recall(["sql", &query]);
        assert!(output.code() == code && output.stderr.contains(why), "{query:.90}: {output:?}");
    }
    let output = stage.recall(["sql", "--limit", "10000", &format!("{endless} SELECT {empty} FROM n")]);
    assert!(output.stderr.contains("There are more rows"), "{}", output.stderr);
    let grown = peak_memory(stage.daemon_pid()).saturating_sub(before);
    assert!(grown < 100 << 20, "the daemon grew by {grown} bytes");
    assert_eq!(sessions(&stage), ["first"]);
}

/// While SQLite copies texts of 16 MB it makes no steps, so the clock is not checked.
#[test]
fn a_query_with_long_steps_is_ended_at_its_time_limit() {
    let stage = worked();
    let text = "replace(hex(zeroblob(7900000)), '00', '11')";
    let long = format!(
        "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT sum(instr({text} || x, '2')) FROM n"
    );
    let output = stage.recall(["sql", &long]);
    assert!(output.code() == 1 && output.stderr.contains("it ran longer than 10 seconds"), "{output:?}");
    assert_eq!(sessions(&stage), ["first"]);
}
