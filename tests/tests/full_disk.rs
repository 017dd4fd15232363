//! Tests that on a full disk each event is kept or counted, people are informed, and everything goes on once there is
//! room.

use std::os::unix::fs::PermissionsExt;
use std::process::Stdio;

use recall_tests::faults::disk::SmallDisk;
use recall_tests::faults::process::Daemon;
use recall_tests::{CommandOutput, Stage, run};
use serde_json::{Value, json};

/// Returns a stage whose user has only this disk, and no other place for counting.
fn stage_on_a_small_disk(kib: u32) -> Option<(Stage, SmallDisk)> {
    let stage = Stage::new();
    let Some(disk) = SmallDisk::mount(&stage.user_home(), kib) else {
        println!("skipped: nothing can be mounted here");
        return None;
    };
    std::fs::create_dir(stage.project()).unwrap();
    Some((stage, disk))
}

/// Runs the hook with the deadlines of an agent's machine.
fn hook(stage: &Stage, event: &Value) -> CommandOutput {
    let mut command = stage.command("recall-shim");
    command.arg("claude-code").env_remove("RECALL_ANSWER_MS");
    let output = run(command, event.to_string().as_bytes());
    assert_eq!((output.code(), output.stdout.as_str(), output.stderr.as_str()), (0, "", ""));
    output
}

fn call(stage: &Stage, number: usize) -> Value {
    let fields = json!({"tool_name": "Bash", "tool_use_id": format!("call-{number}"),
        "tool_input": {"command": "make"}, "tool_response": {"stdout": "done", "stderr": ""}});
    stage.event("full", "PostToolUse", fields)
}

/// Runs these hooks, four at a time.
fn hooks(stage: &Stage, numbers: std::ops::Range<usize>) {
    let numbers: Vec<usize> = numbers.collect();
    std::thread::scope(|scope| {
        for part in numbers.chunks(numbers.len().div_ceil(4)) {
            scope.spawn(|| part.iter().for_each(|number| drop(hook(stage, &call(stage, *number)))));
        }
    });
}

fn events(stage: &Stage) -> Value {
    stage.json(["ctl", "status"])["events"].clone()
}

/// Checks that each of `delivered` events is stored or was counted as lost, that some were lost, and that `doctor`
/// and `status` show it.
#[track_caller]
fn every_one_is_stored_or_counted(stage: &Stage, delivered: u64) {
    stage.flush();
    let counts = events(stage);
    let (stored, dropped) = (counts["stored"].as_u64().unwrap(), counts["dropped"].as_u64().unwrap());
    assert!(dropped > 0, "the disk was not full: {counts}");
    assert_eq!(stored + dropped, delivered, "{counts}");
    assert!(counts["dropped_since"].is_string(), "{counts}");
    let doctor = stage.recall(["doctor"]);
    assert!(doctor.stdout.contains(&format!("{dropped} events were dropped because")), "{doctor:?}");
    let status = stage.recall(["ctl", "status"]);
    assert!(status.stdout.contains(&format!("{dropped} events since ")), "{status:?}");
}

/// The disk has room, but the user may not use it.
#[test]
fn events_lost_to_a_used_up_quota_are_counted_and_reported() {
    let stage = Stage::new();
    let Some(disk) = SmallDisk::with_quota(&stage.user_home(), 32) else {
        println!("skipped: no disk with a quota can be made here");
        return;
    };
    std::fs::create_dir(stage.project()).unwrap();
    std::fs::set_permissions(stage.user_home(), std::fs::Permissions::from_mode(0o700)).unwrap();
    // This file system copies each block that it writes, so it cannot write even into reserved space.
    let runtime = tempfile::Builder::new().prefix("rc-").tempdir().unwrap();
    std::fs::set_permissions(runtime.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut stage = stage.variable("XDG_RUNTIME_DIR", &runtime.path().to_string_lossy()).daemon();
    hooks(&stage, 0..8);
    stage.flush();
    disk.fill();
    hooks(&stage, 8..60);
    let output = stage.recall(["search", "anything"]);
    assert!(output.stderr.contains("events can be lost: the disk quota is used up for"), "{output:?}");
    assert!(output.stderr.contains(" events were dropped because the spool was full"), "{output:?}");
    disk.make_room();
    let output = stage.recall(["search", "anything"]);
    assert!(!output.stderr.contains("quota"), "{output:?}");
    hooks(&stage, 60..68);
    every_one_is_stored_or_counted(&stage, 68);
    // The same without a daemon, where only the hooks write.
    stage.stop_daemon();
    disk.fill();
    hooks(&stage, 68..80);
    disk.make_room();
    stage.start_daemon();
    every_one_is_stored_or_counted(&stage, 80);
    stage.stop_daemon();
    drop(disk);
}

#[test]
fn events_lost_to_a_full_disk_are_counted_and_reported() {
    let Some((mut stage, disk)) = stage_on_a_small_disk(16 << 10) else { return };
    stage.start_daemon();
    hooks(&stage, 0..8);
    stage.flush();
    disk.fill();
    hooks(&stage, 8..60);
    let output = stage.recall(["search", "anything"]);
    assert!(output.stderr.contains("events can be lost: no space is left on the disk of"), "{output:?}");
    assert!(output.stderr.contains(" events were dropped because the spool was full"), "{output:?}");
    disk.make_room();
    let output = stage.recall(["search", "anything"]);
    assert!(!output.stderr.contains("no space"), "{output:?}");
    hooks(&stage, 60..68);
    every_one_is_stored_or_counted(&stage, 68);
    stage.stop_daemon();
    drop(disk);
}

/// No daemon runs, so only the hooks write.
#[test]
fn events_lost_to_a_full_disk_without_a_daemon_are_counted() {
    let Some((mut stage, disk)) = stage_on_a_small_disk(16 << 10) else { return };
    // The first hook creates the spool and what is needed for counting.
    hook(&stage, &call(&stage, 0));
    disk.fill();
    hooks(&stage, 1..41);
    disk.make_room();
    stage.start_daemon();
    every_one_is_stored_or_counted(&stage, 41);
    stage.stop_daemon();
    drop(disk);
}

#[test]
fn events_lost_when_no_more_files_can_be_created_are_counted() {
    let Some((mut stage, disk)) = stage_on_a_small_disk(64 << 10) else { return };
    hook(&stage, &call(&stage, 0));
    disk.fill_with_files();
    hooks(&stage, 1..9);
    let output = stage.recall(["search", "anything"]);
    assert!(output.stderr.contains("no space is left on the disk of"), "{output:?}");
    disk.remove_files();
    stage.start_daemon();
    every_one_is_stored_or_counted(&stage, 9);
    stage.stop_daemon();
    drop(disk);
}

/// Nothing can be counted on such a disk, so the losses are counted in the runtime folder.
#[test]
fn events_lost_to_a_read_only_disk_are_counted_elsewhere_and_reported() {
    let Some((stage, disk)) = stage_on_a_small_disk(16 << 10) else { return };
    let runtime = tempfile::Builder::new().prefix("rc-").tempdir().unwrap();
    std::fs::set_permissions(runtime.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
    let mut stage = stage.variable("XDG_RUNTIME_DIR", &runtime.path().to_string_lossy());
    hook(&stage, &call(&stage, 0));
    disk.make_read_only();
    hooks(&stage, 1..9);
    let output = stage.recall(["search", "anything"]);
    assert!(output.stderr.contains("events are being lost: cannot write to folder"), "{output:?}");
    assert!(output.stderr.contains("8 events were dropped"), "{output:?}");
    disk.make_writable();
    stage.start_daemon();
    every_one_is_stored_or_counted(&stage, 9);
    stage.stop_daemon();
    drop(disk);
}

/// A full disk refuses the result of a job three times. Meanwhile the job is not done again.
#[test]
fn a_job_result_that_a_full_disk_refuses_is_stored_later() {
    let stage = Stage::new();
    let mut daemon = Daemon::spawn_armed(&stage, "store.result=3*return(refuse)", Stdio::null());
    daemon.wait_until_it_listens(&stage).unwrap();
    stage.discount_session("shop");
    stage.flush();
    assert!(stage.log().contains("cannot store a result"), "{}", stage.log());
    let jobs = stage.json(["ctl", "jobs"]);
    for job in jobs["jobs"].as_array().unwrap() {
        assert_eq!((&job["status"], &job["attempts"]), (&json!("done"), &json!(1)), "{jobs}");
    }
    daemon.kill();
}
