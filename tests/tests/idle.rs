//! Tests that a daemon with nothing to do does nothing.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use recall_tests::Stage;
use recall_tests::faults::process;
use recall_tests::faults::syscalls::strace_works;
use serde_json::json;

use super::sharing::{RULE, done, machine, remember, sync};

/// The number of attempts to find the daemon as expected.
const LOOKS: usize = 10;

/// The locks that SQLite takes. They are on bytes beside the database, and byte 120 is for the writer.
struct Locks {
    all: usize,
    to_write: usize,
}

/// Counts the locks that the daemon's threads take in this many seconds. A busy machine reduces the count and never
/// increases it.
fn locks_within(stage: &Stage, seconds: u32) -> Locks {
    let trace = stage.user_home().join("trace");
    let traced = Command::new("timeout")
        .args(["-s", "INT", &seconds.to_string(), "strace", "-f", "-qq", "-e", "trace=fcntl", "-o"])
        .args([trace.as_os_str(), "-p".as_ref(), stage.daemon_pid().to_string().as_ref()])
        .output()
        .unwrap();
    assert!(trace.exists(), "{traced:?}");
    let text = std::fs::read_to_string(&trace).unwrap();
    let all: Vec<&str> = text.lines().filter(|line| line.contains("F_SETLK")).collect();
    let to_write = all.iter().filter(|line| line.contains("F_WRLCK") && line.contains("l_start=120")).count();
    Locks { all: all.len(), to_write }
}

#[test]
fn an_idle_daemon_leaves_its_database_alone_and_housekeeping_only_reads_it() {
    if !strace_works() {
        println!("skipped: strace is missing or may not trace");
        return;
    }
    // The first round runs at the start, and the next one an hour later.
    let stage = Stage::new().config("[timers]\nhousekeeping_s = 3600\n").daemon();
    stage.flush();
    // Nothing reports the end of the first round, and on a busy machine the round takes a while.
    let mut looks = (0..LOOKS).map(|_| locks_within(&stage, 4));
    assert!(looks.any(|idle| idle.all == 0), "it does not come to rest");

    let stage = Stage::new().config("[timers]\nhousekeeping_s = 1\n").daemon();
    stage.flush();
    let mut looks = (0..LOOKS).map(|_| locks_within(&stage, 4));
    let rounds = looks.find(|rounds| rounds.all > 0).expect("a round reads");
    assert_eq!(rounds.to_write, 0);
}

/// Counts how often the daemon's threads name a file below a folder in this many seconds.
fn looks_into(stage: &Stage, folder: &Path, seconds: u32) -> usize {
    let trace = stage.user_home().join("trace");
    let traced = Command::new("timeout")
        .args([
            "-s",
            "INT",
            &seconds.to_string(),
            "strace",
            "-f",
            "-qq",
            "-s",
            "500",
            "-e",
            "trace=%file",
            "-o",
        ])
        .args([trace.as_os_str(), "-p".as_ref(), stage.daemon_pid().to_string().as_ref()])
        .output()
        .unwrap();
    assert!(trace.exists(), "{traced:?}");
    let name = folder.to_string_lossy().into_owned();
    std::fs::read_to_string(&trace).unwrap().lines().filter(|line| line.contains(&name)).count()
}

/// Rounds are a minute apart, by a constant of the program. Between two rounds nothing reads a remote.
#[test]
fn remotes_are_not_read_between_two_sync_rounds() {
    if !strace_works() {
        println!("skipped: strace is missing or may not trace");
        return;
    }
    let stage = machine(
        "mia",
        "laptop",
        "
[timers]
housekeeping_s = 3600
",
    );
    let places = tempfile::tempdir().unwrap();
    for name in ["team", "mine"] {
        let folder = places.path().join(name);
        std::fs::create_dir(&folder).unwrap();
        done(&stage.recall(["remote", "add", name, folder.to_str().unwrap(), "--plaintext"]));
        done(&stage.recall(["share", "--with", name, "--yes"]));
    }
    remember(&stage, RULE);
    // An agent is at work, so rounds run as often as they ever do.
    stage.hook(&stage.event("open", "SessionStart", json!({"source": "startup"})));
    let state = sync(&stage);
    assert_eq!(state["shares"].as_array().unwrap().len(), 2, "{state}");
    // Checks that the trace can see a round. On a busy machine, a round may be over before the trace begins.
    let mut rounds = (0..LOOKS).map(|_| {
        let asking = stage.command("recall").args(["sync", "--now"]).stdout(Stdio::null()).spawn();
        let seen = looks_into(&stage, places.path(), 4);
        assert!(asking.unwrap().wait().unwrap().success());
        seen
    });
    assert!(rounds.any(|seen| seen > 0), "the trace sees no round");
    let mut looks = (0..LOOKS).map(|_| looks_into(&stage, places.path(), 6));
    assert!(looks.any(|seen| seen == 0), "it looks all the time");
}

#[test]
fn a_daemon_started_by_hand_gets_the_allocator_settings() {
    let stage = Stage::new();
    let mut daemon = stage.command("recall").arg("daemon").stderr(Stdio::null()).spawn().unwrap();
    let environment = format!("/proc/{}/environ", daemon.id());
    let deadline = Instant::now() + Duration::from_secs(30);
    // The process stays the same, and so does its id.
    while !std::fs::read_to_string(&environment).unwrap().contains("MALLOC_ARENA_MAX=2") {
        assert!(daemon.try_wait().unwrap().is_none() && Instant::now() < deadline);
        std::thread::yield_now();
    }
    while !process::listens(&stage.socket(), daemon.id()) {
        assert!(daemon.try_wait().unwrap().is_none() && Instant::now() < deadline);
        std::thread::yield_now();
    }
    assert_eq!(stage.recall(["ctl", "stop"]).code(), 0);
    assert!(daemon.wait().unwrap().success());
}
