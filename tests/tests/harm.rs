//! Tests that the agent is never harmed: whatever the state of the daemon, a hook ends soon and without an error, and
//! its event is kept.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt;
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use recall_tests::faults::handover::paths;
use recall_tests::faults::process::signal;
use recall_tests::faults::{intruder, process};
use recall_tests::{CommandOutput, Stage, run};
use rustix::process::Signal;
use serde_json::{Value, json};

/// A hook that takes longer hangs, even on the busiest machine. How long it really takes is measured elsewhere.
const HANG: Duration = Duration::from_secs(60);

fn call(stage: &Stage, number: usize) -> Value {
    let fields = json!({"tool_name": "Bash", "tool_use_id": format!("call-{number}"),
        "tool_input": {"command": "make"}, "tool_response": {"stdout": "done", "stderr": ""}});
    stage.event("one", "PostToolUse", fields)
}

/// Runs the hook with the deadlines of an agent's machine, not those of a stage.
#[track_caller]
fn ends_soon(stage: &Stage, event: &Value) -> CommandOutput {
    let mut command = stage.command("recall-shim");
    command.arg("claude-code").env_remove("RECALL_ANSWER_MS");
    let begun = Instant::now();
    let output = run(command, event.to_string().as_bytes());
    assert!(begun.elapsed() < HANG, "the hook hangs");
    assert_eq!((output.code(), output.stdout.as_str(), output.stderr.as_str()), (0, "", ""));
    output
}

fn activities(stage: &Stage) -> usize {
    let session = stage.json(["ctl", "session", "one"]);
    let batches = session["batches"].as_array().unwrap().iter();
    batches.map(|batch| batch["activities"].as_array().unwrap().len()).sum()
}

#[test]
fn a_suspended_daemon_blocks_no_hook_and_stores_every_event_later() {
    let stage = Stage::new().daemon();
    stage.hook(&call(&stage, 0));
    signal(&stage, Signal::STOP);
    for number in 1..=5 {
        ends_soon(&stage, &call(&stage, number));
    }
    ends_soon(&stage, &stage.event("two", "SessionStart", json!({"source": "startup"})));
    assert_eq!(stage.spooled().len(), 6);
    signal(&stage, Signal::CONT);
    // Each event waits in the socket as well. The one that arrives second is a duplicate.
    stage.flush();
    assert_eq!(activities(&stage), 6);
    assert!(stage.spooled().is_empty());
    assert_eq!(stage.json(["ctl", "status"])["events"]["stored"], 7);
}

#[test]
fn a_suspended_daemon_with_a_full_backlog_blocks_no_hook() {
    let stage = Stage::new().daemon();
    signal(&stage, Signal::STOP);
    let line = process::fill_backlog(&stage);
    ends_soon(&stage, &call(&stage, 1));
    assert_eq!(stage.spooled().len(), 1);
    drop(line);
    signal(&stage, Signal::CONT);
    stage.flush();
    assert_eq!(activities(&stage), 1);
}

#[test]
fn a_listener_that_never_answers_blocks_no_hook() {
    let mut stage = Stage::new();
    paths(&stage).create_folders().unwrap();
    let listener = UnixListener::bind(stage.socket()).unwrap();
    let over = Arc::new(AtomicBool::new(false));
    let hooks_are_over = Arc::clone(&over);
    let mute = std::thread::spawn(move || {
        // The connections stay open until the hooks have ended.
        let mut held: Vec<UnixStream> = Vec::new();
        loop {
            let (stream, _) = listener.accept().unwrap();
            if hooks_are_over.load(Ordering::SeqCst) {
                return held;
            }
            held.push(stream);
        }
    });
    for number in 0..3 {
        ends_soon(&stage, &call(&stage, number));
    }
    over.store(true, Ordering::SeqCst);
    UnixStream::connect(stage.socket()).unwrap();
    // On a busy machine, a hook may run out of time before it connects.
    assert!(!mute.join().unwrap().is_empty());
    assert_eq!(stage.spooled().len(), 3);
    stage.start_daemon();
    stage.flush();
    assert_eq!(activities(&stage), 3);
}

#[test]
fn a_read_only_state_folder_makes_no_hook_fail() {
    let stage = Stage::new();
    paths(&stage).create_folders().unwrap();
    let mut command = stage.command("recall-shim");
    command.arg("claude-code");
    if intruder::can_change_user() {
        // The superuser may write everywhere.
        intruder::open_to_all(&stage.user_home());
        for folder in [stage.home(), stage.home().join("state"), stage.home().join("run")] {
            std::os::unix::fs::chown(&folder, Some(intruder::UID), Some(intruder::UID)).unwrap();
        }
        command.uid(intruder::UID).gid(intruder::UID);
    }
    let state = stage.home().join("state");
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o500)).unwrap();
    let output = run(command, call(&stage, 1).to_string().as_bytes());
    std::fs::set_permissions(&state, std::fs::Permissions::from_mode(0o700)).unwrap();
    assert_eq!((output.code(), output.stdout.as_str(), output.stderr.as_str()), (0, "", ""), "{output:?}");
    assert!(!state.join("spool").exists());
    assert_eq!(std::fs::metadata(stage.home().join("run/dropped")).unwrap().len(), 4, "the loss is counted");
}

/// Neither recall's files nor anything below the user's home can be created. Only the runtime folder is left.
#[test]
fn the_next_command_reports_that_events_cannot_be_stored() {
    let stage = Stage::new();
    let runtime = stage.user_home().join("runtime");
    std::fs::create_dir(&runtime).unwrap();
    std::fs::set_permissions(&runtime, std::fs::Permissions::from_mode(0o700)).unwrap();
    let is_root = intruder::can_change_user();
    let mode = if is_root { 0o755 } else { 0o555 };
    if is_root {
        // The superuser may write everywhere.
        std::os::unix::fs::chown(&runtime, Some(intruder::UID), Some(intruder::UID)).unwrap();
    }
    std::fs::set_permissions(stage.user_home(), std::fs::Permissions::from_mode(mode)).unwrap();
    let run = |program: &str, arguments: &[&str], stdin: &[u8]| {
        let mut command = stage.command(program);
        command.args(arguments).env("XDG_RUNTIME_DIR", &runtime).current_dir("/");
        if is_root {
            command.uid(intruder::UID).gid(intruder::UID);
        }
        run(command, stdin)
    };
    let event = call(&stage, 1).to_string();
    for _ in 0..2 {
        let output = run("recall-shim", &["claude-code"], event.as_bytes());
        assert_eq!(
            (output.code(), output.stdout.as_str(), output.stderr.as_str()),
            (0, "", ""),
            "{output:?}"
        );
    }
    assert!(!stage.home().exists());

    let first = run("recall", &["ctl", "status"], b"");
    let cannot = format!("events are being lost: cannot create folder {}", stage.home().display());
    assert!(first.stderr.contains(&cannot) && first.stderr.contains(": permission denied."), "{first:?}");
    assert!(first.stderr.contains("2 events were dropped"), "{first:?}");
    let second = run("recall", &["search", "cart"], b"");
    assert!(second.stderr.contains(&cannot) && !second.stderr.contains("dropped"), "once: {second:?}");
    let doctor = run("recall", &["doctor"], b"");
    assert_eq!(doctor.code(), 1);
    let bad = format!("bad   cannot create folder {}/data: permission denied", stage.home().display());
    assert!(doctor.stdout.contains(&bad), "{doctor:?}");
    assert!(doctor.stdout.contains("2 events were dropped"), "{doctor:?}");
    assert!(!doctor.stdout.contains("events wait in the spool"), "{doctor:?}");
    // `doctor` shows the cause once, and not its consequences. The two events are lost for good.
    assert_eq!(doctor.stdout.matches("cannot create").count(), 1, "{doctor:?}");
    assert!(doctor.stdout.contains("Until then no event can be stored."), "{doctor:?}");
    let report = run("recall", &["doctor", "--json"], b"").json();
    let bad = report["findings"].as_array().unwrap().iter().filter(|finding| finding["health"] == "bad");
    let areas: Vec<_> = bad.map(|finding| finding["area"].clone()).collect();
    assert_eq!(areas, ["folders", "spool"], "{report}");

    // Once the place is writable again, the daemon knows what was lost meanwhile, and reports a new loss again.
    std::fs::set_permissions(stage.user_home(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut stage = stage.variable("XDG_RUNTIME_DIR", &runtime.to_string_lossy());
    if is_root {
        std::os::unix::fs::chown(&runtime, Some(0), Some(0)).unwrap();
        let kept = runtime.join("recall");
        for file in kept.read_dir().unwrap().map(|entry| entry.unwrap().path()).chain([kept.clone()]) {
            std::os::unix::fs::chown(file, Some(0), Some(0)).unwrap();
        }
    }
    stage.start_daemon();
    let status = stage.json(["ctl", "status"]);
    assert_eq!(status["events"]["dropped"], 2, "{status}");
    let output = stage.recall(["ctl", "status"]);
    assert_eq!(output.stderr, "", "{output:?}");
    assert!(output.stdout.contains("2 events since "), "{output:?}");
}

/// Starts this many hooks, as many at once as the system allows.
#[track_caller]
fn storm(hooks: usize) {
    let stage = Stage::new().daemon();
    recall_tests::binaries();
    let (wrong, begun) = (AtomicUsize::new(0), Instant::now());
    std::thread::scope(|scope| {
        for part in 0..4 {
            let (stage, wrong) = (&stage, &wrong);
            scope.spawn(move || {
                let event = stage.user_home().join(format!("event-{part}"));
                let started = (part..hooks).step_by(4).map(|number| {
                    // The event comes from a file, so all hooks can be started before the first is waited for.
                    std::fs::write(&event, call(stage, number).to_string()).unwrap();
                    let stdin = File::open(&event).unwrap();
                    std::fs::remove_file(&event).unwrap();
                    let mut command = stage.command("recall-shim");
                    command.arg("claude-code").env_remove("RECALL_ANSWER_MS");
                    command.stdin(stdin).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
                });
                for mut hook in started.collect::<Vec<_>>() {
                    if !hook.wait().unwrap().success() {
                        wrong.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
    });
    let (took, spooled) = (begun.elapsed(), stage.spooled().len());
    assert_eq!(wrong.into_inner(), 0, "hooks that did not exit with 0");
    stage.flush();
    let peak = process::peak_memory(stage.daemon_pid());
    let events = stage.json(["ctl", "status"])["events"].clone();
    println!(
        "{hooks} hooks in {took:?}: {spooled} still in the spool, then {events}, daemon at most {} MiB",
        peak >> 20
    );
    assert_eq!((&events["stored"], &events["dropped"]), (&json!(hooks), &json!(0)), "{events}");
    assert_eq!((&events["spooled"], &events["unparsed"]), (&json!(0), &json!(0)), "{events}");
    assert_eq!(activities(&stage), hooks);
    assert!(peak < 200 << 20, "the daemon took {} MiB", peak >> 20);
}

#[test]
fn a_thousand_hooks_at_once_lose_no_event() {
    storm(1_000);
}

/// `cargo test -p recall-tests --release -- --ignored ten_thousand_hooks_at_once_lose_no_event --nocapture`
#[test]
#[ignore = "ten thousand processes"]
fn ten_thousand_hooks_at_once_lose_no_event() {
    storm(10_000);
}
