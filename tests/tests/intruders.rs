//! Nobody else: other users, squatters, slow and hostile clients get nothing, and what an agent said is in no log.

// Test code: a panic is how it says that something is wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Stdio;
use std::time::Duration;

use recall_protocol::codec::MAX_BODY;
use recall_protocol::frame::{self, PROTOCOL_VERSION, encode_frame};
use recall_protocol::wire::{Query, Request};
use recall_tests::faults::handover::paths;
use recall_tests::faults::intruder::{self, UID, can_change_user, open_to_all};
use recall_tests::faults::process::{Daemon, peak_memory};
use recall_tests::{Stage, run};
use serde_json::{Value, json};

/// After which an answer that has not come never will.
const PATIENCE: Duration = Duration::from_secs(30);

fn prompt(stage: &Stage, text: &str, id: &str) -> Value {
    stage.event("one", "UserPromptSubmit", json!({"prompt": text, "prompt_id": id}))
}

fn stored(stage: &Stage) -> Value {
    stage.json(["ctl", "status"])["events"]["stored"].clone()
}

/// Writes these bytes to the socket and returns what comes back until the other end hangs up.
fn answer_to(socket: &std::path::Path, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // Whoever is refused may find the door shut before the end.
    let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

#[test]
fn another_user_gets_no_word_out_of_the_daemon() {
    let ping = encode_frame(&Request::Query(Query::Ping)).unwrap();
    if intruder::role().is_some() {
        println!("answered {} bytes", answer_to(&intruder::socket(), &ping).len());
        return;
    }
    if !can_change_user() {
        println!("skipped: only the superuser can become another");
        return;
    }
    let stage = Stage::new().daemon();
    // What the folders keep out is let in by force: now only the daemon's own look at its peer is left.
    for folder in [stage.user_home(), stage.home(), stage.home().join("run"), stage.home().join("data")] {
        open_to_all(&folder);
    }
    for file in [stage.socket(), stage.home().join("data/recall.lock")] {
        std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o666)).unwrap();
    }
    let heard = |uid| {
        let test = "another_user_gets_no_word_out_of_the_daemon";
        let output = intruder::command(&stage, test, "ask", uid).output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    assert!(heard(UID).contains("answered 0 bytes"), "{}", heard(UID));
    let ours = heard(rustix::process::geteuid().as_raw());
    assert!(ours.contains("answered ") && !ours.contains("answered 0 bytes"), "{ours}");
    assert!(stage.log().contains("refused a connection of another user"), "{}", stage.log());

    // Neither does recall's own client serve another user.
    let mut command = stage.command("recall");
    command.args(["ctl", "status"]);
    std::os::unix::process::CommandExt::uid(&mut command, UID);
    assert_eq!(run(command, b"").code(), 3);
    assert_eq!(stored(&stage), 0);
}

#[test]
fn a_false_daemon_of_another_user_gets_no_payload() {
    const OVER: &[u8] = b"over";
    if intruder::role().is_some() {
        let listener = UnixListener::bind(intruder::socket()).unwrap();
        std::fs::set_permissions(intruder::socket(), std::fs::Permissions::from_mode(0o666)).unwrap();
        println!("listening");
        let (mut heard, mut visitors) = (0, 0);
        loop {
            let mut bytes = Vec::new();
            let _ = listener.accept().unwrap().0.read_to_end(&mut bytes);
            if bytes == OVER {
                break;
            }
            visitors += 1;
            heard += bytes.len();
        }
        println!("heard {heard} bytes from {visitors} visitors");
        return;
    }
    if !can_change_user() {
        println!("skipped: only the superuser can become another");
        return;
    }
    let stage = Stage::new();
    paths(&stage).create_folders().unwrap();
    for folder in [stage.user_home(), stage.home(), stage.home().join("run")] {
        open_to_all(&folder);
    }
    let test = "a_false_daemon_of_another_user_gets_no_payload";
    let mut daemon = intruder::command(&stage, test, "serve", UID).spawn().unwrap();
    let mut said = BufReader::new(daemon.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening") {
        line.clear();
        assert_ne!(said.read_line(&mut line).unwrap(), 0, "the false daemon does not listen");
    }
    let hook = stage.hook(&prompt(&stage, "Between the two of us", "p1"));
    let status = stage.recall(["ctl", "status"]);
    UnixStream::connect(stage.socket()).unwrap().write_all(OVER).unwrap();
    let mut rest = String::new();
    said.read_to_string(&mut rest).unwrap();
    daemon.wait().unwrap();
    assert!(rest.contains("heard 0 bytes from 2 visitors"), "{rest}");
    assert_eq!((hook.stdout.as_str(), stage.spooled().len()), ("", 1));
    assert_eq!(status.code(), 3, "{status:?}");
}

/// What stands in the place of the runtime folder stops the daemon, with words, and no hook.
#[track_caller]
fn is_refused(in_the_way: impl FnOnce(&std::path::Path), why: &str) {
    let stage = Stage::new();
    paths(&stage).create_state_folder().unwrap();
    let runtime = stage.home().join("run");
    in_the_way(&runtime);
    let before = std::fs::symlink_metadata(&runtime).unwrap();
    let said = stage.recall(["daemon"]);
    assert_eq!(said.code(), 1, "{said:?}");
    assert!(said.stderr.contains(why) && said.stderr.contains(&*runtime.to_string_lossy()), "{said:?}");
    stage.hook(&prompt(&stage, "Is anybody there?", "p1"));
    assert_eq!(stage.spooled().len(), 1);
    let after = std::fs::symlink_metadata(&runtime).unwrap();
    assert_eq!(before.permissions(), after.permissions(), "left alone");

    // When the way is free, nothing has been lost.
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

/// Connections that have begun something and never go on.
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
fn three_hundred_who_say_nothing_keep_nobody_from_being_served() {
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
fn where_every_place_is_taken_events_wait_in_the_spool() {
    let stage = Stage::new().daemon();
    let silent = half_open(&stage, 600);
    let mut command = stage.command("recall-shim");
    command.arg("claude-code").env_remove("RECALL_ANSWER_MS");
    let said = run(command, prompt(&stage, "Go on", "p1").to_string().as_bytes());
    assert_eq!((said.code(), said.stderr.as_str()), (0, ""));
    assert_eq!(stage.spooled().len(), 1, "600 do not fit into the daemon's places");
    drop(silent);
    stage.flush();
    assert_eq!(stored(&stage), 1);
}

#[test]
fn no_bytes_bring_the_daemon_down_or_fill_its_memory() {
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
        // A true header and noise behind it, cut off or not.
        let mut frame = frame::header(noise.len(), PROTOCOL_VERSION).unwrap().to_vec();
        frame.extend(&noise);
        frame.truncate(random.usize(0..=frame.len()));
        answer_to(&stage.socket(), &frame);
        // A true frame that ends too early, and one with a byte changed in its head.
        answer_to(&stage.socket(), &whole[..random.usize(0..whole.len())]);
        let mut changed = whole.clone();
        changed[random.usize(5..30)] ^= 1 << random.u8(0..8);
        changed[5] = 0xff;
        answer_to(&stage.socket(), &changed);
    }
    // Lengths beyond all measure, and the greatest that is allowed, with little behind it.
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

/// A word that the daemon hears in every way there is, and must not repeat in its log.
#[track_caller]
fn is_not_logged(filter: &str, to_stderr: bool) {
    const CANARY: &str = "heliotrope-quokka-7741";
    let mut stage = Stage::new().variable("RECALL_LOG", filter);
    if to_stderr {
        stage = stage.variable("JOURNAL_STREAM", "1:1");
    }
    let stderr = stage.user_home().join("stderr");
    let mut daemon = Daemon::spawn_with(&stage, Stdio::from(File::create(&stderr).unwrap()));
    daemon.wait_until_it_listens(&stage).unwrap();
    stage.hook(&prompt(&stage, &format!("What is {CANARY}?"), "p1"));
    let output = json!({"tool_name": "Bash", "tool_use_id": "t1", "prompt_id": "p1",
        "tool_input": {"command": format!("grep {CANARY}")}, "tool_response": {"stdout": CANARY, "stderr": CANARY}});
    stage.hook(&stage.event("one", "PostToolUse", output));
    let answer = json!({"last_assistant_message": format!("It is {CANARY}."), "prompt_id": "p1"});
    stage.hook(&stage.event("one", "Stop", answer));
    stage.hook_bytes(&["claude-code"], format!(r#"{{"prompt": "{CANARY}"#).as_bytes());
    stage.hook_bytes(&["claude-code"], format!(r#"{{"session_id": "{CANARY}", "prompt": 7}}"#).as_bytes());
    answer_to(&stage.socket(), format!("\x16\0\0\0\x01{CANARY}").as_bytes());
    let spool = stage.home().join("state/spool/new");
    std::fs::create_dir_all(&spool).unwrap();
    let name = format!("000000000000001-{}", "0".repeat(32));
    std::fs::write(spool.join(name), format!("\x16\0\0\0\x01{CANARY}")).unwrap();
    stage.flush();
    let found = stage.json(["search", CANARY]);
    assert_ne!(found["total"], 0, "it was heard");
    daemon.kill();

    let log = if to_stderr { std::fs::read_to_string(&stderr).unwrap() } else { stage.log() };
    assert!(log.contains("drained the spool") && log.contains("a frame holds no request"), "{log}");
    assert!(!log.contains(CANARY), "{log}");
    let other = if to_stderr { stage.log() } else { std::fs::read_to_string(&stderr).unwrap() };
    assert_eq!(other, "", "the log has one place");
}

#[test]
fn what_an_agent_said_is_in_no_log() {
    is_not_logged("info", false);
    is_not_logged("debug", false);
    is_not_logged("debug", true);
}
