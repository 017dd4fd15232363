//! Tests the daemon with bad files: a damaged database, a damaged index, and files that a killed process left.

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use recall_tests::Stage;
use rusqlite::Connection;
use serde_json::{Value, json};

fn edit(path: &str, result: &str) -> Value {
    json!({"tool_name": "Edit", "tool_input": {"file_path": path, "old_string": "a", "new_string": "b"},
           "tool_response": {"filePath": path, "result": result}})
}

fn remember(stage: &Stage, id: &str, prompt: &str, answer: &str) {
    let path = format!("{}/src/{id}.rs", stage.project().display());
    stage.session(id, prompt, &[edit(&path, "ok")], answer);
}

/// Stores one session about the greenhouse.
fn greenhouse(stage: &Stage) {
    remember(
        stage,
        "greenhouse",
        "Why does the greenhouse pump stall?",
        "The greenhouse pump stalled because its watchdog fired at 40 ms; I raised it to 400 ms in src/greenhouse.rs.",
    );
    stage.flush();
}

/// Polls until `look` returns a value. The daemon repairs without a request, so there is no answer to wait for.
#[track_caller]
fn until<T>(stage: &Stage, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "{what} does not come about\n{}", stage.log());
        std::thread::yield_now();
    }
}

fn backups(stage: &Stage) -> Vec<PathBuf> {
    let entries = fs::read_dir(stage.home().join("data/backups")).into_iter().flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths.filter(|path| path.extension().is_some_and(|extension| extension == "db")).collect()
}

/// Restarts the daemon, and waits for the day's backup that it makes.
fn backed_up(stage: &mut Stage) -> PathBuf {
    stage.stop_daemon();
    // The first daemon may have made a backup when the session had only begun.
    backups(stage).into_iter().for_each(|early| fs::remove_file(early).unwrap());
    stage.start_daemon();
    until(stage, "a backup", || backups(stage).into_iter().next())
}

/// Returns the database files that were set aside.
fn set_aside(stage: &Stage) -> Vec<PathBuf> {
    let entries = fs::read_dir(stage.home().join("data")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| {
            let name = path.file_name().unwrap().to_string_lossy().into_owned();
            name.contains(".damaged-") && !name.ends_with("-wal") && !name.ends_with("-shm")
        })
        .collect()
}

/// Counts the log lines that contain the words and the value.
fn count_log_lines(stage: &Stage, words: &str, value: &str) -> usize {
    stage.log().lines().filter(|line| line.contains(words) && line.contains(value)).count()
}

#[test]
fn a_start_logs_each_repair_and_a_clean_start_logs_none() {
    let mut stage = Stage::new().daemon();
    let prompt = json!({"prompt": "Why does the pump stall?", "prompt_id": "p1"});
    stage.hook(&stage.event("one", "UserPromptSubmit", prompt));
    stage.flush();
    let expected = [
        ("suspended the sessions that the last stop interrupted", "sessions=1"),
        ("returned the jobs of stopped compressors to the queue", "jobs=1"),
        ("booked unfinished model calls at their maximum cost", "calls=1"),
        ("drained the spool", "stored=1"),
        ("removed a dead daemon's socket", ""),
        ("the last stop was sudden; the database is sound", ""),
    ];
    let counts = |stage: &Stage| expected.map(|(words, value)| count_log_lines(stage, words, value));
    assert_eq!(counts(&stage), [0; 6], "{}", stage.log());
    stage.kill_daemon();
    // Writes the rows of a daemon that was killed while a model worked.
    let db = Connection::open(stage.database()).unwrap();
    db.execute_batch(
        "INSERT INTO jobs (kind, session, status, worker, lease_until, created_at)
            SELECT 'summary', id, 'running', 'w', 4102444800000, 0 FROM sessions;
         INSERT INTO reservations (day, project, backend, job, tokens_in, tokens_out, micro_usd)
            VALUES ('2026-01-01', 1, 'm', 1, 1, 1, 1)",
    )
    .unwrap();
    drop(db);
    let answer = json!({"last_assistant_message": "Its watchdog fired.", "prompt_id": "p1"});
    stage.spool(&stage.delivery(&stage.event("one", "Stop", answer)));
    stage.start_daemon();
    stage.flush();
    until(&stage, "the look for damage", || (counts(&stage)[5] == 1).then_some(()));
    assert_eq!(counts(&stage), [1; 6], "{}", stage.log());
    // A proper stop leaves nothing to repair.
    stage.stop_daemon();
    stage.start_daemon();
    stage.flush();
    assert_eq!(counts(&stage), [1; 6], "{}", stage.log());
}

/// Overwrites the first page of a table, so that no row of it can be read or written.
fn damage_table(stage: &Stage, table: &str) {
    let db = Connection::open(stage.database()).unwrap();
    // SQLite would read pages in the write-ahead log instead of the damaged page.
    db.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let (page, size): (i64, i64) = db
        .query_row(
            "SELECT rootpage, page_size FROM sqlite_schema, pragma_page_size WHERE name = ?1",
            [table],
            |row| Ok((row.get(0)?, row.get(1)?)),
        )
        .unwrap();
    drop(db);
    let file = fs::OpenOptions::new().write(true).open(stage.database()).unwrap();
    let at = u64::try_from((page - 1) * size).unwrap();
    file.write_all_at(&vec![0xa5; usize::try_from(size).unwrap()], at).unwrap();
}

fn search(stage: &Stage, query: &str) -> Value {
    let output = stage.recall(["search", "--json", query]);
    assert_eq!(output.code(), 0, "{output:?}");
    output.json()
}

fn titles(stage: &Stage, query: &str) -> Vec<String> {
    let answer = search(stage, query);
    let results = answer["results"].as_array().unwrap();
    results.iter().map(|result| format!("{} {}", result["title"], result["snippet"])).collect()
}

fn healed(stage: &Stage) -> Vec<Value> {
    stage.json(["ctl", "status"])["healed"].as_array().unwrap().clone()
}

#[test]
fn a_database_damaged_between_two_runs_is_restored_from_the_backup() {
    let mut stage = Stage::new().daemon();
    greenhouse(&stage);
    let backup = backed_up(&mut stage);
    remember(&stage, "after", "Paint the shed blue", "The shed is blue now, painted in src/after.rs.");
    stage.flush();
    stage.stop_daemon();
    damage_table(&stage, "activities");
    stage.start_daemon();

    let start = stage.event("next", "SessionStart", json!({"source": "startup"}));
    stage.hook(&start);
    remember(&stage, "next", "Water the tomatoes", "The tomatoes get water from src/next.rs every morning.");
    let repair = until(&stage, "the repair", || healed(&stage).pop());
    stage.flush();

    // Search finds the session in the backup, and the one that went through the spool during the repair. The session
    // after the backup is lost.
    assert!(!titles(&stage, "greenhouse pump").is_empty(), "{}", stage.log());
    assert!(!titles(&stage, "tomatoes").is_empty(), "{}", stage.log());
    assert_eq!(titles(&stage, "shed"), Vec::<String>::new());
    assert!(stage.spooled().is_empty());

    // The damaged file is kept, and `doctor` and `status` report the repair.
    let aside = set_aside(&stage);
    assert_eq!(aside.len(), 1);
    assert_eq!(repair["damaged"], json!(aside[0]));
    assert_eq!(repair["restored"], json!(backup));
    let doctor = stage.recall(["doctor"]).stdout;
    assert!(doctor.contains("the database was damaged"), "{doctor}");
    assert!(doctor.contains(&*aside[0].to_string_lossy()), "{doctor}");
    let status = stage.recall(["ctl", "status"]).stdout;
    assert!(status.contains("repaired"), "{status}");

    // A second restart repairs nothing, and the restored data is sound.
    stage.stop_daemon();
    stage.start_daemon();
    stage.flush();
    assert_eq!((healed(&stage).len(), set_aside(&stage).len()), (1, 1));
    assert!(!titles(&stage, "greenhouse pump").is_empty());
}

#[test]
fn after_a_kill_damage_in_an_unused_table_is_found() {
    let mut stage = Stage::new().daemon();
    greenhouse(&stage);
    backed_up(&mut stage);
    stage.stop_daemon();
    stage.start_daemon();
    stage.kill_daemon();
    // The daemon reads this table only on request.
    damage_table(&stage, "injections");
    stage.start_daemon();
    until(&stage, "the repair", || healed(&stage).pop());
    stage.flush();
    assert!(!titles(&stage, "greenhouse pump").is_empty(), "{}", stage.log());
    assert_eq!(set_aside(&stage).len(), 1);
}

#[test]
fn without_a_backup_a_damaged_database_is_replaced_by_an_empty_one() {
    let mut stage = Stage::new().daemon();
    greenhouse(&stage);
    stage.stop_daemon();
    for backup in backups(&stage) {
        fs::remove_file(backup).unwrap();
    }
    // Even the header is overwritten.
    let length = fs::metadata(stage.database()).unwrap().len();
    fs::write(stage.database(), vec![0x5a; length as usize]).unwrap();
    stage.start_daemon();
    remember(&stage, "next", "Water the tomatoes", "The tomatoes get water from src/next.rs every morning.");
    stage.flush();
    assert!(!titles(&stage, "tomatoes").is_empty(), "{}", stage.log());
    assert_eq!(titles(&stage, "greenhouse"), Vec::<String>::new());
    assert_eq!(healed(&stage)[0]["restored"], Value::Null);
    assert!(stage.recall(["doctor"]).stdout.contains("an empty one was created"));
    assert_eq!(fs::read(&set_aside(&stage)[0]).unwrap(), vec![0x5a; length as usize]);
}

fn index_files(stage: &Stage) -> Vec<PathBuf> {
    let entries = fs::read_dir(stage.home().join("data/index")).unwrap();
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension != "lock"));
    files.sort();
    files
}

/// Checks that search works although the index was damaged, and that the index is complete in the end.
#[track_caller]
fn check_index(hurt: impl Fn(&Stage)) {
    let mut stage = Stage::new().daemon();
    greenhouse(&stage);
    stage.stop_daemon();
    hurt(&stage);
    stage.start_daemon();
    // Search answers at once, with or without the index.
    assert!(!titles(&stage, "greenhouse").is_empty(), "{}", stage.log());
    stage.flush();
    let answer = search(&stage, "pumps stalling");
    assert_eq!(answer["degraded"], false);
    assert!(answer["total"].as_u64() > Some(0), "only the index knows word forms: {answer}");
    assert_eq!(stage.json(["ctl", "status"])["index"]["state"], "complete");
}

#[test]
fn a_missing_index_is_rebuilt() {
    check_index(|stage| fs::remove_dir_all(stage.home().join("data/index")).unwrap());
    check_index(|stage| fs::remove_file(stage.home().join("data/index/meta.json")).unwrap());
}

#[test]
fn a_truncated_index_is_rebuilt() {
    check_index(|stage| {
        for file in index_files(stage) {
            let length = fs::metadata(&file).unwrap().len();
            fs::OpenOptions::new().write(true).open(&file).unwrap().set_len(length / 2).unwrap();
        }
    });
}

#[test]
fn an_index_with_flipped_bits_is_rebuilt() {
    check_index(|stage| {
        for file in index_files(stage) {
            let mut bytes = fs::read(&file).unwrap();
            let half = bytes.len() / 2;
            if let Some(byte) = bytes.get_mut(half) {
                *byte ^= 0x10;
            }
            fs::write(&file, bytes).unwrap();
        }
    });
}

/// The lists of files and segments are intact. So the index opens and is searched before its files are compared.
#[test]
fn an_index_with_flipped_bits_that_still_opens_is_rebuilt() {
    let segments = |stage: &Stage| {
        let mut files = index_files(stage);
        files.retain(|file| file.extension().is_some_and(|extension| extension != "json"));
        files
    };
    check_index(|stage| {
        for file in segments(stage) {
            let mut bytes = fs::read(&file).unwrap();
            if let Some(byte) = bytes.first_mut() {
                *byte ^= 0x10;
            }
            fs::write(&file, bytes).unwrap();
        }
    });
    // Damages only the words, so a search would find nothing.
    check_index(|stage| {
        for file in segments(stage) {
            if file.extension().is_some_and(|extension| extension == "term") {
                let mut bytes = fs::read(&file).unwrap();
                let words = bytes.len() - 200;
                bytes[..words].iter_mut().for_each(|byte| *byte ^= 0x20);
                fs::write(&file, bytes).unwrap();
            }
        }
    });
}

#[test]
fn an_empty_memory_has_no_index_to_rebuild() {
    let mut stage = Stage::new();
    fs::create_dir_all(stage.home().join("data")).unwrap();
    fs::write(stage.home().join("data/index"), b"in the way").unwrap();
    stage.start_daemon();
    assert_eq!(stage.json(["ctl", "status"])["index"]["state"], "absent");
    assert_eq!(search(&stage, "greenhouse")["degraded"], false);
    assert_eq!(stage.recall(["search", "greenhouse"]).stdout, "Nothing found.\n");
    assert!(!stage.recall(["ctl", "status"]).stdout.contains("rebuilding"));
}

#[test]
fn an_index_that_cannot_be_created_is_reported_and_capture_continues() {
    let mut stage = Stage::new().daemon();
    greenhouse(&stage);
    stage.stop_daemon();
    // A file takes the place of the folder, so no index can be created.
    let index = stage.home().join("data/index");
    fs::remove_dir_all(&index).unwrap();
    fs::write(&index, b"in the way").unwrap();
    stage.start_daemon();
    let answer = search(&stage, "greenhouse");
    assert_eq!(answer["degraded"], true);
    assert!(answer["total"].as_u64() > Some(0), "{answer}");
    assert!(stage.recall(["search", "greenhouse"]).stdout.contains("The search index is not ready yet"));
    assert_eq!(stage.json(["ctl", "status"])["index"]["state"], "absent");
    remember(&stage, "next", "Water the tomatoes", "The tomatoes get water from src/next.rs every morning.");
    until(&stage, "the new memory", || (!titles(&stage, "tomatoes").is_empty()).then_some(()));
    // When the file is gone, the daemon creates the index without a request.
    fs::remove_file(&index).unwrap();
    stage.flush();
    assert_eq!(search(&stage, "tomatoes")["degraded"], false);
    assert!(!titles(&stage, "greenhouse").is_empty());
}

#[test]
fn an_index_removed_while_the_daemon_runs_is_rebuilt() {
    let stage = Stage::new().daemon();
    greenhouse(&stage);
    fs::remove_dir_all(stage.home().join("data/index")).unwrap();
    remember(&stage, "next", "Water the tomatoes", "The tomatoes get water from src/next.rs every morning.");
    stage.flush();
    for query in ["greenhouse", "tomatoes"] {
        let answer = search(&stage, query);
        assert_eq!(answer["degraded"], false);
        assert!(answer["total"].as_u64() > Some(0), "{query}: {answer}\n{}", stage.log());
    }
}
