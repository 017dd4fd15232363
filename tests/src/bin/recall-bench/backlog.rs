//! Measures how a machine with a large memory shares its project for the first time. An archive is imported, and then
//! sent through a folder.

use std::path::Path;
use std::time::Instant;

use recall_tests::Stage;
use recall_tests::archive::{self, NOTE};
use recall_tests::faults::process::peak_memory;
use recall_tests::repository::Repository;

/// How often a flush or a round with a remote is repeated. Each ends after some minutes, and a gibibyte takes
/// several.
const MOST_TRIES: usize = 50;

/// Prints how long this many bytes of notes take, and how much memory.
pub(super) fn measure(bytes: usize) {
    let folder = tempfile::tempdir().unwrap();
    let stage = Stage::new();
    let repository = Repository::init(&stage.project());
    repository.git(&["remote", "add", "origin", "git@example.com:acme/shop.git"]);
    let stage = stage.daemon();
    let file = folder.path().join("memory.jsonl");
    done(&stage, &["remember", "Hedwig files invoices", "--type", "gotcha"]);
    let notes = archive::write(&stage, &file, bytes);
    println!(
        "# {notes} notes of {NOTE} bytes\n\n| | seconds | peak memory of the daemon, MB |\n|---|---:|---:|"
    );
    let print = |what: &str, begun: Instant| {
        let memory = peak_memory(stage.daemon_pid()) as f64 / 1e6;
        println!("| {what} | {:.1} | {memory:.0} |", begun.elapsed().as_secs_f64());
    };
    let begun = Instant::now();
    done(&stage, &["import", "recall", file.to_str().unwrap()]);
    print("imported", begun);
    let begun = Instant::now();
    let is_flushed = (0..MOST_TRIES).any(|_| stage.recall(["ctl", "flush"]).code() == 0);
    assert!(is_flushed, "{}", stage.log());
    print("indexed", begun);
    let begun = Instant::now();
    let remote = folder.path().join("remote");
    std::fs::create_dir_all(&remote).unwrap();
    done(&stage, &["remote", "add", "team", remote.to_str().unwrap(), "--plaintext"]);
    // The command waits for the first round. That round may end before everything is sent.
    stage.recall(["share", "--with", "team", "--yes"]);
    print("shared: the first round", begun);
    let state = (0..MOST_TRIES).map(|_| stage.json(["sync", "--now"])).find(|state| {
        let share = &state["shares"][0];
        share["sent"] == share["logged"] && share["sent"].as_u64() > Some(notes as u64)
    });
    assert!(state.is_some(), "{}", stage.json(["sync"]));
    print("shared: all sent", begun);
    let (parts, largest, all) = sizes(&remote);
    println!("\n{:.0} MB in {parts} parts, the largest of {:.2} MB", all as f64 / 1e6, largest as f64 / 1e6);
}

fn done(stage: &Stage, arguments: &[&str]) {
    let output = stage.recall(arguments.iter().copied());
    assert_eq!(output.code(), 0, "{output:?}");
}

/// Returns the number of files below a folder, the size of the largest, and the size of all, in bytes.
fn sizes(folder: &Path) -> (usize, u64, u64) {
    let mut sum = (0, 0, 0);
    for entry in std::fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let (files, largest, all) = match entry.file_type().unwrap().is_dir() {
            true => sizes(&entry.path()),
            false => {
                let size = entry.metadata().unwrap().len();
                (1, size, size)
            }
        };
        sum = (sum.0 + files, sum.1.max(largest), sum.2 + all);
    }
    sum
}
