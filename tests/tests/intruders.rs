//! Tests that strangers (other users, squatters, slow and hostile clients) get nothing, and that no log contains an
//! agent's text.

use std::io::Write;
use std::os::unix::fs::{chown, symlink};
use std::os::unix::net::UnixStream;

use recall_protocol::codec::MAX_BODY;
use recall_protocol::frame::{self, PROTOCOL_VERSION, encode_frame};
use recall_protocol::wire::Request;
use recall_tests::checks::others::{self, answer_to};
use recall_tests::checks::secrecy::agent_text_is_in_no_log;
use recall_tests::faults::handover::paths;
use recall_tests::faults::intruder::{UID, can_change_user, open_to_all};
use recall_tests::faults::process::peak_memory;
use recall_tests::{Stage, run};
use serde_json::{Value, json};

fn prompt(stage: &Stage, text: &str, id: &str) -> Value {
    stage.event("one", "UserPromptSubmit", json!({"prompt": text, "prompt_id": id}))
}

fn stored(stage: &Stage) -> Value {
    stage.json(["ctl", "status"])["events"]["stored"].clone()
}

#[test]
fn another_user_gets_no_answer_from_the_daemon() {
    let test = "intruders::another_user_gets_no_answer_from_the_daemon";
    others::another_user_gets_no_answer_from_the_daemon(Stage::new(), test);
}

#[test]
fn a_false_daemon_of_another_user_gets_no_payload() {
    let test = "intruders::a_false_daemon_of_another_user_gets_no_payload";
    others::a_false_daemon_of_another_user_gets_no_payload(Stage::new(), test);
}

#[test]
fn a_message_longer_than_the_limit_is_rejected() {
    others::a_message_longer_than_the_limit_is_rejected(Stage::new());
}

/// Checks that a file in place of the runtime folder stops the daemon with a message, but stops no hook.
#[track_caller]
fn is_refused(in_the_way: impl FnOnce(&std::path::Path), why: &str) {
    let stage = Stage::new();
    paths(&stage).create_state_folder().unwrap();
    let runtime = stage.home().join("run");
    in_the_way(&runtime);
    let before = std::fs::symlink_metadata(&runtime).unwrap();
    let output = stage.recall(["daemon"]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains(why) && output.stderr.contains(&*runtime.to_string_lossy()), "{output:?}");
    stage.hook(&prompt(&stage, "Is anybody there?", "p1"));
    assert_eq!(stage.spooled().len(), 1);
    let after = std::fs::symlink_metadata(&runtime).unwrap();
    assert_eq!(before.permissions(), after.permissions(), "left alone");

    // When the obstacle is gone, nothing has been lost.
    if after.is_dir() { std::fs::remove_dir(&runtime) } else { std::fs::remove_file(&runtime) }.unwrap();
    let mut stage = stage;
    stage.start_daemon();
    stage.flush();
    assert_eq!(stored(&stage), 1);
}

#[test]
fn a_symlink_in_place_of_the_runtime_folder_is_refused() {
    let elsewhere = tempfile::tempdir().unwrap();
    is_refused(|runtime| symlink(elsewhere.path(), runtime).unwrap(), "is a symlink");
    assert_eq!(std::fs::read_dir(elsewhere.path()).unwrap().count(), 0);
}

#[test]
fn a_file_in_place_of_the_runtime_folder_is_refused() {
    is_refused(|runtime| std::fs::write(runtime, "mine").unwrap(), "is not a folder");
}

#[test]
fn a_runtime_folder_of_another_user_is_refused() {
    if !can_change_user() {
        println!("skipped: only the superuser can give folders away");
        return;
    }
    let foreign = |runtime: &std::path::Path| {
        std::fs::create_dir(runtime).unwrap();
        open_to_all(runtime);
        chown(runtime, Some(UID), Some(UID)).unwrap();
    };
    is_refused(foreign, "belongs to user 65534");
}

/// Opens connections that begin a message at most, and never go on.
fn half_open(stage: &Stage, clients: usize) -> Vec<UnixStream> {
    let [a, b, c, d] = (MAX_BODY as u32).to_le_bytes();
    let beginnings: [&[u8]; 4] =
        [b"", &[a, b], &[a, b, c, d, PROTOCOL_VERSION], &[a, b, c, d, PROTOCOL_VERSION, 1, 2, 3]];
    let client = |number: usize| {
        let mut stream = UnixStream::connect(stage.socket()).unwrap();
        stream.write_all(beginnings[number % beginnings.len()]).unwrap();
        stream
    };
    (0..clients).map(client).collect()
}

#[test]
fn three_hundred_silent_connections_do_not_block_hooks() {
    let stage = Stage::new().daemon();
    let silent = half_open(&stage, 300);
    for number in 0..10 {
        stage.hook(&prompt(&stage, "Go on", &format!("p{number}")));
    }
    assert_eq!((stage.spooled().len(), stored(&stage)), (0, json!(10)));
    assert!(peak_memory(stage.daemon_pid()) < 200 << 20);
    drop(silent);
}

#[test]
fn events_wait_in_the_spool_when_all_connections_are_taken() {
    let stage = Stage::new().daemon();
    let silent = half_open(&stage, 600);
    let mut command = stage.command("recall-shim");
    command.arg("claude-code").env_remove("RECALL_ANSWER_MS");
    let output = run(command, prompt(&stage, "Go on", "p1").to_string().as_bytes());
    assert_eq!((output.code(), output.stderr.as_str()), (0, ""));
    assert_eq!(stage.spooled().len(), 1, "600 do not fit into the daemon's places");
    drop(silent);
    stage.flush();
    assert_eq!(stored(&stage), 1);
}

#[test]
fn many_large_messages_use_a_bounded_amount_of_memory() {
    let stage = Stage::new().daemon();
    stage.hook(&prompt(&stage, "Before", "p1"));
    let before = peak_memory(stage.daemon_pid());
    // A header that announces the greatest length, and a part of what it announces.
    let mut beginning = frame::header(MAX_BODY, PROTOCOL_VERSION).unwrap().to_vec();
    beginning.resize(3 << 20, 0);
    let client = |_| {
        let mut stream = UnixStream::connect(stage.socket()).unwrap();
        stream.set_write_timeout(Some(std::time::Duration::from_secs(5))).unwrap();
        // The daemon refuses in the middle of the message.
        let _ = stream.write_all(&beginning);
        stream
    };
    let hostile: Vec<_> = (0..200).map(client).collect();
    for number in 0..5 {
        stage.hook(&prompt(&stage, "Go on", &format!("p2-{number}")));
    }
    assert_eq!((stage.spooled().len(), stored(&stage)), (0, json!(6)));
    let grown = peak_memory(stage.daemon_pid()).saturating_sub(before);
    println!("grown by {} MiB", grown >> 20);
    assert!(grown < 160 << 20, "grown by {} MiB", grown >> 20);
    // When these clients are gone, there is room for large events again. The event has many short values, so that the
    // shim shortens none.
    drop(hostile);
    let lines: Vec<String> = (0..3_000).map(|line| format!("{line} {}", "long ".repeat(200))).collect();
    let event = stage.event("one", "Stop", json!({"last_assistant_message": "Done.", "lines": lines}));
    stage.hook(&event);
    stage.flush();
    assert_eq!((stage.spooled().len(), stored(&stage)), (0, json!(7)));
}

#[test]
fn malformed_bytes_do_not_crash_the_daemon_or_fill_its_memory() {
    let stage = Stage::new().daemon();
    stage.hook(&prompt(&stage, "Before", "p1"));
    let before = peak_memory(stage.daemon_pid());
    let mut random = fastrand::Rng::with_seed(3);
    let event = stage.delivery(&prompt(&stage, "Never whole", "p2"));
    let whole = encode_frame(&Request::Deliver(event)).unwrap();
    for _ in 0..300 {
        // Noise of any length.
        let mut noise = vec![0; random.usize(0..2_000)];
        random.fill(&mut noise);
        answer_to(&stage.socket(), &noise);
        // A valid header with noise behind it, which may be cut off.
        let mut frame = frame::header(noise.len(), PROTOCOL_VERSION).unwrap().to_vec();
        frame.extend(&noise);
        frame.truncate(random.usize(0..=frame.len()));
        answer_to(&stage.socket(), &frame);
        // A valid frame that ends too early, and one with a changed byte in its head.
        answer_to(&stage.socket(), &whole[..random.usize(0..whole.len())]);
        let mut changed = whole.clone();
        changed[random.usize(5..30)] ^= 1 << random.u8(0..8);
        changed[5] = 0xff;
        answer_to(&stage.socket(), &changed);
    }
    // Lengths above the limit, and the limit itself, with little data behind them.
    let lengths = [MAX_BODY as u32, MAX_BODY as u32 + 1, 1 << 31, u32::MAX];
    for length in lengths.into_iter().cycle().take(200) {
        let mut frame = length.to_le_bytes().to_vec();
        frame.push(PROTOCOL_VERSION);
        frame.extend([0; 1_000]);
        answer_to(&stage.socket(), &frame);
    }
    stage.hook(&prompt(&stage, "Afterwards", "p3"));
    assert_eq!((stage.spooled().len(), stored(&stage)), (0, json!(2)));
    let grown = peak_memory(stage.daemon_pid()).saturating_sub(before);
    assert!(grown < 64 << 20, "grown by {} MiB", grown >> 20);
}

#[test]
fn no_log_contains_text_of_an_agent() {
    agent_text_is_in_no_log(Stage::new(), "info", false);
    agent_text_is_in_no_log(Stage::new(), "debug", false);
    agent_text_is_in_no_log(Stage::new(), "debug", true);
}
