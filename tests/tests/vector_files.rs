//! Tests the file in which the vectors of a project are searched. It is built from the database. It is never wrong,
//! whenever the daemon is killed, and it contains nothing that was forgotten.

use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::{Duration, Instant};

use recall_system::faults::Point;
use recall_tests::Stage;
use recall_tests::faults::process::{Daemon, kill_all};
use rusqlite::Connection;
use serde_json::json;

use crate::embedding::{NOWHERE, embedding, holding, local, orphans, rows, tiny, with_tiny};

/// Plays sessions of one turn. More than 64 vectors make a file.
fn talk(stage: &Stage, sessions: impl IntoIterator<Item = String>) {
    for id in sessions {
        let text = format!("The parser of {id} has syntax.");
        let prompt = json!({"prompt": format!("Slow login {id}"), "prompt_id": id});
        let stop = json!({"last_assistant_message": text, "prompt_id": id});
        stage.deliver(&[
            stage.delivery(&stage.event(&id, "UserPromptSubmit", prompt)),
            stage.delivery(&stage.event(&id, "Stop", stop)),
        ]);
    }
}

fn many(count: usize) -> impl Iterator<Item = String> {
    (0..count).map(|number| format!("s{number}"))
}

/// Returns the files of vectors, whatever their names.
fn files(stage: &Stage) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(stage.home().join("data/vectors")).into_iter().flatten();
    entries.map(|entry| entry.unwrap().path()).collect()
}

/// Checks that no row, file or entry of the database is stale, orphaned, doubled or missing.
#[track_caller]
fn is_sound(stage: &Stage) {
    let state = embedding(stage);
    assert_eq!((&state["waiting"], orphans(stage)), (&json!(0), 0), "{state}");
    assert_eq!(state["embedded"].as_u64().unwrap() as usize, rows(stage).len());
    let database = Connection::open(stage.database()).unwrap();
    let named: Vec<String> = database
        .prepare("SELECT project || '-' || made FROM vector_files WHERE newest > 0")
        .unwrap()
        .query_map([], |row| row.get(0))
        .unwrap()
        .collect::<Result<_, _>>()
        .unwrap();
    let mut found: Vec<String> =
        files(stage).iter().map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect();
    found.sort();
    assert_eq!(found, named);
    for file in files(stage) {
        let bytes = std::fs::read(&file).unwrap();
        let is_known =
            |sql: &str, id: i64| database.query_row(sql, [id], |row| row.get::<_, bool>(0)).unwrap();
        // The tiny model has 16 dimensions.
        let (records, rest) = bytes[44..bytes.len() - 4].as_chunks::<{ 20 + 4 + 16 }>();
        assert!(rest.is_empty() && !records.is_empty());
        for record in records {
            let id = i64::from_le_bytes(*record.first_chunk().unwrap());
            let is_there = is_known("SELECT EXISTS (SELECT 1 FROM vectors WHERE id = ?1)", id);
            let is_gone = is_known("SELECT EXISTS (SELECT 1 FROM gone_vectors WHERE id = ?1)", id);
            assert!(is_there != is_gone, "row {id}: there {is_there}, gone {is_gone}");
        }
    }
}

/// Returns the vectors of a session's prompts, answers, observations and summary: kind, row, vector. It leaves out
/// other sessions, because their vectors may be made again at any moment.
fn of_session(stage: &Stage, id: &str) -> Vec<(String, i64, Vec<u8>)> {
    let database = Connection::open(stage.database()).unwrap();
    let of = "JOIN sessions s ON s.id = d.session WHERE s.session_id = ?1";
    let sql = format!(
        "SELECT kind, row, packed FROM vectors v WHERE
         (kind IN ('prompt', 'response') AND row IN (SELECT d.id FROM prompt_batches d {of}))
         OR (kind = 'summary' AND row IN (SELECT d.id FROM session_summaries d {of}))
         OR (kind = 'observation' AND row IN (SELECT d.id FROM observations d {of}))"
    );
    let mut found = database.prepare(&sql).unwrap();
    let found = found.query_map([id], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    found.collect::<Result<_, _>>().unwrap()
}

/// Returns the results of a search by meaning: ids and scores.
fn found(stage: &Stage, question: &str) -> Vec<(String, f64)> {
    let answer = stage.json(["search", question, "--limit", "20"]);
    let hits = answer["results"].as_array().unwrap().iter();
    hits.map(|hit| (hit["id"].to_string(), hit["score"].as_f64().unwrap())).collect()
}

/// Expects the same documents in the same order. The age of a document is part of its score, so the last bit of the
/// score depends on the moment of the search.
#[track_caller]
fn is_same(found: &[(String, f64)], expected: &[(String, f64)]) {
    let is_same = |((id, score), (other, of_other)): (&(String, f64), &(String, f64))| {
        id == other && (score - of_other).abs() < 1e-6
    };
    let is_all = found.len() == expected.len() && found.iter().zip(expected).all(is_same);
    assert!(is_all, "{found:?}\n{expected:?}");
}

#[test]
fn a_search_uses_the_projects_vector_file_and_later_vectors() {
    let mut stage = with_tiny().daemon();
    talk(&stage, many(20));
    stage.flush();
    let few = found(&stage, "sluggish signin");
    assert!(!few.is_empty() && files(&stage).is_empty(), "a few are read from the database: {few:?}");
    talk(&stage, many(40).skip(20));
    stage.flush();
    let [file] = &files(&stage)[..] else { panic!("{:?}", files(&stage)) };
    assert_eq!(std::fs::metadata(file).unwrap().permissions().mode() & 0o777, 0o600);
    is_sound(&stage);
    let by_file = found(&stage, "sluggish signin");
    assert!(!by_file.is_empty());

    // Later texts are found too, and a replaced text is found once.
    talk(&stage, ["later".to_owned()]);
    stage.flush();
    assert_eq!(&files(&stage)[0], file);
    let later = stage.json(["search", "sluggish signin session:later"]);
    assert!(!later["results"].as_array().unwrap().is_empty(), "{later}");
    let changed = json!({"last_assistant_message": "Password latency: authentication.", "prompt_id": "s1"});
    stage.deliver(&[stage.delivery(&stage.event("s1", "Stop", changed))]);
    stage.flush();
    is_sound(&stage);
    let with_changes = found(&stage, "sluggish signin");

    // A file that is damaged, cut off or missing is made again, and searches find the same.
    let good = std::fs::read(file).unwrap();
    let damages: [&dyn Fn(); 3] = [
        &|| std::fs::write(file, [&good[..100], &[good[100] ^ 1], &good[101..]].concat()).unwrap(),
        &|| std::fs::write(file, &good[..good.len() / 2]).unwrap(),
        &|| std::fs::remove_file(file).unwrap(),
    ];
    for damage in damages {
        stage.kill_daemon();
        for other in files(&stage) {
            std::fs::rename(other, file).unwrap();
        }
        let database = Connection::open(stage.database()).unwrap();
        let made = file.file_name().unwrap().to_str().unwrap().split_once('-').unwrap().1.to_owned();
        database.execute("UPDATE vector_files SET made = ?1 WHERE newest > 0", [made]).unwrap();
        drop(database);
        damage();
        stage.start_daemon();
        stage.flush();
        is_sound(&stage);
        assert_eq!(files(&stage).len(), 1);
        is_same(&found(&stage, "sluggish signin"), &with_changes);
    }
}

#[test]
fn vectors_of_a_forgotten_session_are_in_no_file() {
    let mut stage = with_tiny().daemon();
    stage.session("doomed", "Theme palette", &[], "Palette colour theme colour.");
    talk(&stage, many(40));
    stage.flush();
    assert_eq!(files(&stage).len(), 1);
    let doomed = of_session(&stage, "doomed");
    assert!(doomed.len() >= 2, "{}", doomed.len());
    assert_eq!(stage.recall(["forget", "--yes", "--session", "doomed"]).code(), 0);
    // `forget` waits until the vectors are gone. Nothing else has to happen.
    for (kind, row, packed) in &doomed {
        assert_eq!(holding(&stage, packed), NOWHERE, "the vector of {kind} {row}");
    }
    stage.flush();
    // The remaining vectors are in a file again.
    assert_eq!(files(&stage).len(), 1);
    is_sound(&stage);

    // The daemon is killed when the rows are gone and the file is not.
    stage.session("doomed", "Theme palette", &[], "Palette colour theme colour.");
    talk(&stage, (40..90).map(|number| format!("s{number}")));
    stage.flush();
    let doomed = of_session(&stage, "doomed");
    assert!(doomed.len() >= 2, "{}", doomed.len());
    stage.kill_daemon();
    let mut daemon = Daemon::spawn_armed(
        &stage,
        &format!("{}=return(kill)", Point::VectorFilesDropped.name()),
        Stdio::null(),
    );
    daemon.wait_until_it_listens(&stage).unwrap();
    assert_ne!(stage.recall(["forget", "--yes", "--session", "doomed"]).code(), 0);
    daemon.wait();
    stage.start_daemon();
    let deadline = Instant::now() + Duration::from_secs(60);
    while doomed.iter().any(|(.., packed)| holding(&stage, packed) != NOWHERE) && Instant::now() < deadline {
        stage.flush();
    }
    for (kind, row, packed) in &doomed {
        assert_eq!(holding(&stage, packed), NOWHERE, "the vector of {kind} {row}");
    }
    is_sound(&stage);
}

#[test]
fn kills_while_vectors_are_computed_or_written_leave_no_wrong_vector() {
    for (point, passes) in [(Point::Vectors, 0), (Point::Vectors, 70), (Point::VectorFile, 0)] {
        let mut stage = Stage::new().daemon();
        talk(&stage, many(40));
        stage.flush();
        stage.kill_daemon();
        stage = stage.config(&local(tiny().to_str().unwrap()));
        let points = format!("{}={passes}*off->return(kill)", point.name());
        let mut daemon = Daemon::spawn_armed(&stage, &points, Stdio::null());
        let deadline = Instant::now() + Duration::from_secs(60);
        while daemon.ended().is_none() && Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert!(daemon.ended().is_some_and(|status| !status.success()), "{point:?} was never reached");
        drop(daemon);
        stage.start_daemon();
        stage.flush();
        is_sound(&stage);
        assert_eq!(files(&stage).len(), 1, "{point:?} {passes}");
    }
}

/// Kills the daemon at random moments while vectors are made, files are written, sessions are forgotten, and the
/// model is removed and added again.
fn kill_at_random(seed: u64, rounds: usize) {
    let mut chance = fastrand::Rng::with_seed(seed);
    let mut stage = Stage::new().config(&local("tiny"));
    let folder = tiny();
    let add = ["model", "add", folder.to_str().unwrap(), "--name", "tiny"];
    assert_eq!(stage.recall(add).code(), 0);
    stage.start_daemon();
    let mut forgotten = Vec::new();
    for round in 0..rounds {
        talk(&stage, (0..chance.usize(10..30)).map(|number| format!("s{round}-{number}")));
        let command: Vec<String> = match chance.u8(0..5) {
            0 => ["model", "remove", "tiny"].map(str::to_owned).into(),
            1 => add.map(str::to_owned).into(),
            2 if round > 0 => {
                let session = format!("s{}-{}", round - 1, chance.usize(0..10));
                forgotten.push(session.clone());
                ["forget", "--yes", "--session", &session].map(str::to_owned).into()
            }
            _ => ["ctl", "flush"].map(str::to_owned).into(),
        };
        let mut running = stage.command("recall");
        let running = running.args(&command).stdout(Stdio::null()).stderr(Stdio::null());
        let mut running = running.spawn().unwrap();
        // The kill comes somewhere in the middle of the command.
        for _ in 0..chance.usize(0..6) {
            let _ = stage.recall(["ctl", "status"]);
        }
        stage.kill_daemon();
        if chance.bool() {
            running.kill().unwrap();
        }
        let _ = running.wait();
        // The command may have started another daemon after the kill, which may not listen yet.
        kill_all(&stage, &[]);
        stage.start_daemon();
    }
    let _ = stage.recall(add);
    stage.flush();
    stage.kill_daemon();
    stage.start_daemon();
    stage.flush();
    is_sound(&stage);
    assert!(!rows(&stage).is_empty());
    let listed = std::fs::read_dir(stage.home().join("data/models")).unwrap().count();
    assert_eq!(listed, 1, "half a model is left");
    for session in forgotten {
        // A kill may have come before the session was forgotten.
        assert_eq!(stage.recall(["forget", "--yes", "--session", &session]).code(), 0, "{session}");
    }
    stage.flush();
    is_sound(&stage);

    // No vector belongs to an outdated text: all vectors are made again, and are the same.
    let before = rows(&stage);
    assert_eq!(stage.recall(["model", "remove", "tiny"]).code(), 0);
    stage.flush();
    assert_eq!((rows(&stage).len(), files(&stage)), (0, vec![]), "seed {seed}");
    assert_eq!(stage.recall(add).code(), 0);
    stage.flush();
    assert_eq!(rows(&stage), before, "seed {seed}");
}

#[test]
fn random_kills_while_vectors_and_models_change_leave_no_wrong_vector() {
    kill_at_random(1, 8);
}

/// `cargo test -p recall-tests --release -- --ignored many_random_kills_leave_no_wrong_vector --nocapture`
#[test]
#[ignore = "some hundred kills"]
fn many_random_kills_leave_no_wrong_vector() {
    for seed in 100..112 {
        kill_at_random(seed, 25);
        println!("seed {seed}: 25 kills, nothing stale, orphaned or left");
    }
}
