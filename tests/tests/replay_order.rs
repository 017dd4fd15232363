//! Tests that recorded work leaves the same memory however its events arrive: in order, with a daemon that is killed
//! in between, or late and out of order.

use std::path::{Path, PathBuf};
use std::time::Instant;

use recall_tests::replay::{Manner, Recording, differences, remembered};
use recall_tests::workspace;
use serde_json::Value;

fn fixture(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/claude-code").join(path)
}

fn recorded(name: &str) -> Recording {
    Recording::read(name, [fixture(&format!("recorded/{name}.jsonl")).as_path()])
}

/// Reads the bundled sessions into one recording for one home. Each session shows one peculiarity of real sessions.
fn peculiar() -> Recording {
    let mut paths: Vec<_> =
        fixture("sequences").read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    Recording::read("sequences", paths.iter().map(PathBuf::as_path))
}

#[track_caller]
fn is_the_same(recording: &Recording, expected: &Value, manner: Manner) {
    let found = remembered(recording, manner);
    let differences = differences(expected, &found);
    assert!(
        differences.is_empty(),
        "{} events of {} played {manner:?}: {} differences\n{}",
        recording.len(),
        recording.name,
        differences.len(),
        differences.iter().take(20).cloned().collect::<Vec<_>>().join("\n")
    );
}

#[test]
fn a_recording_played_in_two_homes_leaves_the_same_memory() {
    let recording = recorded("shell-prompt");
    let expected = remembered(&recording, Manner::InOrder);
    assert!(!expected[0]["observations"].as_array().unwrap().is_empty(), "{expected}");
    is_the_same(&recording, &expected, Manner::InOrder);
}

#[test]
fn kills_of_the_daemon_do_not_change_the_memory() {
    let recording = recorded("checkpoint-cli");
    let expected = remembered(&recording, Manner::InOrder);
    is_the_same(&recording, &expected, Manner::Killed { seed: 1, kills: 4 });
}

#[test]
fn late_events_do_not_change_the_memory() {
    let recording = recorded("file-vault");
    let expected = remembered(&recording, Manner::InOrder);
    is_the_same(&recording, &expected, Manner::Late { seed: 0 });
}

#[test]
fn unusual_sessions_leave_the_same_memory_after_kills_or_late_events() {
    let names = [
        "terminal-queued-prompt-resume-hangup",
        "two-background-agents",
        "terminal-reject-plan-question-shell",
        "worktree",
        "stop-hook-loop",
    ];
    let paths = names.map(|name| fixture(&format!("sequences/{name}.jsonl")));
    let recording = Recording::read("peculiar", paths.iter().map(PathBuf::as_path));
    let expected = remembered(&recording, Manner::InOrder);
    is_the_same(&recording, &expected, Manner::Killed { seed: 5, kills: 2 });
    is_the_same(&recording, &expected, Manner::Late { seed: 6 });
}

/// `cargo test -p recall-tests --release replay_order:: -- --ignored --nocapture`
///
/// `RECALL_REPLAY_DIR` names other recordings. `RECALL_SEEDS` sets how often each is played.
#[test]
#[ignore = "minutes: every recording many times"]
fn every_recording_leaves_the_same_memory_after_kills_or_late_events() {
    let named = std::env::var_os("RECALL_REPLAY_DIR").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| workspace().join("../shared/bench/replay-dev"));
    let seeds: u64 = std::env::var("RECALL_SEEDS").map_or(20, |seeds| seeds.parse().unwrap());
    let mut recordings = vec![peculiar()];
    recordings.extend(["shell-prompt", "checkpoint-cli", "file-vault"].map(recorded));
    for project in folder.read_dir().into_iter().flatten().flatten().filter(|entry| entry.path().is_dir()) {
        let mut paths: Vec<_> =
            project.path().read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        let name = project.file_name().to_string_lossy().into_owned();
        recordings.push(Recording::read(&name, paths.iter().map(PathBuf::as_path)));
    }
    let (mut plays, mut different) = (0, Vec::new());
    for recording in &recordings {
        let begun = Instant::now();
        let expected = remembered(recording, Manner::InOrder);
        let manners = (0..seeds).flat_map(|seed| {
            [Manner::Killed { seed, kills: 1 + recording.len() / 10 }, Manner::Late { seed }]
        });
        let before = different.len();
        for manner in std::iter::once(Manner::InOrder).chain(manners) {
            plays += 1;
            let found = differences(&expected, &remembered(recording, manner));
            if !found.is_empty() {
                let some: Vec<_> = found.iter().take(5).cloned().collect();
                println!("{} {manner:?}: {} differences\n{}", recording.name, found.len(), some.join("\n"));
                different.push((recording.name.clone(), manner));
            }
        }
        println!(
            "{}: {} events, {} of {} plays differ, {:?}",
            recording.name,
            recording.len(),
            different.len() - before,
            2 * seeds + 1,
            begun.elapsed()
        );
    }
    assert!(different.is_empty(), "{} of {plays} plays differ: {different:?}", different.len());
}
