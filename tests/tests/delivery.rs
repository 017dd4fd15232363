//! Tests that no accepted event is lost or stored twice, whichever process is killed or late.

use std::process::Stdio;

use recall_protocol::frame::encode_frame;
use recall_protocol::spool::SpoolName;
use recall_protocol::wire::{Reply, Request};
use recall_tests::checks::outcome::{is_duplicate, is_stored, stored};
use recall_tests::checks::{keeping, others};
use recall_tests::{Stage, run};
use rustix::process::Signal;
use serde_json::{Value, json};

fn prompt(stage: &Stage, text: &str, id: &str) -> Value {
    stage.event("one", "UserPromptSubmit", json!({"prompt": text, "prompt_id": id}))
}

fn call(stage: &Stage, use_id: &str) -> Value {
    let input = json!({"file_path": stage.project().join("cart.rs")});
    let fields =
        json!({"tool_name": "Read", "tool_input": input, "tool_response": {}, "tool_use_id": use_id});
    stage.event("one", "PostToolUse", fields)
}

fn stop(stage: &Stage, id: &str, text: &str) -> Value {
    stage.event("one", "Stop", json!({"last_assistant_message": text, "prompt_id": id}))
}

fn session(stage: &Stage) -> Value {
    stage.json(["ctl", "session", "one"])
}

fn batches(session: &Value) -> &[Value] {
    session["batches"].as_array().unwrap()
}

#[track_caller]
fn database_is_sound(stage: &Stage) {
    let database = rusqlite::Connection::open(stage.database()).unwrap();
    let verdict: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    let orphans: u32 =
        database.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0)).unwrap();
    assert_eq!(orphans, 0);
}

#[test]
fn an_event_delivered_repeatedly_is_stored_once() {
    let stage = Stage::new().daemon();
    let delivery = stage.delivery(&prompt(&stage, "Add a discount", "p1"));
    let replies = stage.deliver([&delivery, &delivery]);
    is_stored(replies.first());
    is_duplicate(replies.get(1));
    // A shim that got no acknowledgement leaves the event in the spool, although it was stored.
    stage.spool(&delivery);
    stored(&stage, 1, 2);
    assert!(stage.spooled().is_empty());
    assert_eq!(batches(&session(&stage)).len(), 1);
}

#[test]
fn an_event_delivered_again_after_a_restart_is_stored_once() {
    keeping::an_event_is_stored_once_across_a_restart(Stage::new());
}

#[test]
fn an_event_delivered_twice_at_once_is_stored_once_and_never_rejected() {
    let stage = Stage::new().daemon();
    let deliveries: Vec<_> = (0..100).map(|n| stage.delivery(&call(&stage, &format!("call-{n}")))).collect();
    let both = std::thread::scope(|scope| {
        let way = || scope.spawn(|| stage.deliver(&deliveries));
        [way(), way()].map(|way| way.join().unwrap())
    });
    for (one, other) in both[0].iter().zip(&both[1]) {
        let kinds = [one, other].map(|reply| matches!(reply, Reply::Duplicate { .. }));
        assert!(kinds == [true, false] || kinds == [false, true], "{one:?} and {other:?}");
        assert!(
            [one, other].iter().all(|reply| matches!(reply, Reply::Ack { .. } | Reply::Duplicate { .. }))
        );
    }
    stored(&stage, 100, 100);
}

#[test]
fn a_tool_call_delivered_repeatedly_is_one_activity() {
    keeping::a_tool_call_is_stored_once(Stage::new());
}

#[test]
fn the_same_prompt_in_the_same_turn_is_stored_once() {
    let stage = Stage::new().daemon();
    let deliveries = [
        stage.delivery(&prompt(&stage, "Add a discount", "p1")),
        stage.delivery(&prompt(&stage, "Add a discount", "p1")),
        stage.delivery(&prompt(&stage, "Add a discount", "p2")),
    ];
    let replies = stage.deliver(&deliveries);
    is_stored(replies.first());
    is_duplicate(replies.get(1));
    is_stored(replies.get(2));
    stored(&stage, 2, 1);
    assert_eq!(batches(&session(&stage)).len(), 2);
}

#[test]
fn a_prompt_without_an_id_is_stored_each_time() {
    let stage = Stage::new().daemon();
    let event = stage.event("one", "UserPromptSubmit", json!({"prompt": "yes"}));
    let deliveries = [stage.delivery(&event), stage.delivery(&event)];
    for reply in stage.deliver(&deliveries) {
        is_stored(Some(&reply));
    }
    stored(&stage, 2, 0);
    assert_eq!(batches(&session(&stage)).len(), 2);
}

#[test]
fn without_a_daemon_events_wait_in_the_spool_in_order() {
    let mut stage = Stage::new();
    let events = [
        stage.event("one", "SessionStart", json!({"source": "startup"})),
        prompt(&stage, "First question", "p1"),
        call(&stage, "t1"),
        stop(&stage, "p1", "The first answer."),
        prompt(&stage, "Second question", "p2"),
        call(&stage, "t2"),
        stop(&stage, "p2", "The second answer."),
        stage.event("one", "SessionEnd", json!({"reason": "other"})),
    ];
    for event in &events {
        assert_eq!(stage.hook(event).stdout, "");
    }
    assert_eq!(stage.spooled().len(), events.len());
    stage.start_daemon();
    stored(&stage, events.len(), 0);
    assert!(stage.spooled().is_empty());
    let session = session(&stage);
    let turns: Vec<_> = batches(&session)
        .iter()
        .map(|batch| (batch["prompt_number"].clone(), batch["prompt"].clone(), batch["response"].clone()))
        .collect();
    assert_eq!(
        turns,
        [
            (json!(1), json!("First question"), json!("The first answer.")),
            (json!(2), json!("Second question"), json!("The second answer.")),
        ]
    );
    for (batch, id) in batches(&session).iter().zip(["t1", "t2"]) {
        assert_eq!(batch["activities"][0]["tool_use_id"], id, "{batch}");
    }
    assert_eq!(session["status"], "completed");
}

#[test]
fn a_running_daemon_stores_events_from_the_spool() {
    let stage = Stage::new().daemon();
    stage.spool(&stage.delivery(&prompt(&stage, "Add a discount", "p1")));
    stored(&stage, 1, 0);
    assert!(stage.spooled().is_empty());
}

#[test]
fn a_damaged_spool_file_is_set_aside_and_does_not_block_others() {
    let stage = Stage::new().daemon();
    let delivery = stage.delivery(&prompt(&stage, "Half of this is lost", "p1"));
    let name = SpoolName::new(delivery.captured_at_ms, delivery.event_id);
    let whole = encode_frame(&Request::Deliver(delivery)).unwrap();
    std::fs::create_dir_all(stage.home().join("state/spool/new")).unwrap();
    std::fs::write(stage.home().join("state/spool/new").join(name.as_str()), &whole[..whole.len() / 2])
        .unwrap();
    stage.spool(&stage.delivery(&prompt(&stage, "Whole", "p2")));
    stage.flush();
    assert!(stage.spooled().is_empty());
    assert!(stage.home().join("state/spool/bad").join(name.as_str()).is_file());
    let session = session(&stage);
    let [batch] = batches(&session) else { panic!("{session}") };
    assert_eq!(batch["prompt"], "Whole");
}

#[test]
fn a_symlink_in_the_spool_is_set_aside_and_not_followed() {
    others::a_symlink_in_the_spool_is_not_read(Stage::new());
}

#[test]
fn a_killed_daemon_loses_no_event_and_the_session_continues() {
    let mut stage = Stage::new().daemon();
    stage.hook(&prompt(&stage, "First question", "p1"));
    stage.hook(&call(&stage, "t1"));
    stage.kill_daemon();
    // No daemon runs, so these events wait in the spool.
    stage.hook(&call(&stage, "t2"));
    stage.hook(&stop(&stage, "p1", "The first answer."));
    assert_eq!(stage.spooled().len(), 2);
    stage.start_daemon();
    stage.flush();
    stage.hook(&prompt(&stage, "Second question", "p2"));
    stage.kill_daemon();
    stage.start_daemon();
    stage.hook(&stop(&stage, "p2", "The second answer."));
    stored(&stage, 6, 0);

    let session = session(&stage);
    let [first, second] = batches(&session) else { panic!("{session}") };
    assert_eq!((&first["prompt_number"], &second["prompt_number"]), (&json!(1), &json!(2)));
    assert_eq!(first["activities"].as_array().unwrap().len(), 2);
    assert_eq!(first["response"], "The first answer.");
    assert_eq!((&second["response"], &second["status"]), (&json!("The second answer."), &json!("closed")));
    stage.kill_daemon();
    database_is_sound(&stage);
}

/// Checks what a clean stop leaves, however it is requested.
#[track_caller]
fn suspends(end: impl FnOnce(&mut Stage)) {
    let mut stage = Stage::new().daemon();
    stage.hook(&stage.event("one", "SessionStart", json!({"source": "startup"})));
    stage.hook(&prompt(&stage, "First question", "p1"));
    stage.session("over", "Another", &[], "Done.");
    end(&mut stage);
    assert!(!stage.socket().exists(), "the socket goes with the daemon");
    database_is_sound(&stage);

    stage.start_daemon();
    assert_eq!(session(&stage)["status"], "suspended");
    assert_eq!(stage.json(["ctl", "session", "over"])["status"], "completed", "it had ended before");
    stage.hook(&call(&stage, "t1"));
    let resumed = session(&stage);
    assert_eq!(resumed["status"], "active");
    assert_eq!(batches(&resumed)[0]["activities"].as_array().unwrap().len(), 1);
    stage.hook(&prompt(&stage, "Second question", "p2"));
    assert_eq!(batches(&session(&stage))[1]["prompt_number"], 2);
}

#[test]
fn a_clean_stop_suspends_a_session_and_its_next_event_resumes_it() {
    suspends(|stage| assert!(stage.stop_daemon().success()));
}

#[test]
fn sigterm_is_a_clean_stop() {
    suspends(|stage| assert!(stage.signal_daemon(Signal::TERM).success()));
}

#[test]
fn sigint_is_a_clean_stop() {
    suspends(|stage| assert!(stage.signal_daemon(Signal::INT).success()));
}

#[test]
fn after_a_clean_stop_the_next_session_starts_a_daemon_at_once() {
    let stage = Stage::new();
    let start = |session: &str| {
        let mut shim = stage.command("recall-shim");
        shim.arg("claude-code").env_remove("RECALL_NO_DAEMON_START");
        let event = stage.event(session, "SessionStart", json!({"source": "startup"}));
        run(shim, event.to_string().as_bytes());
    };
    for session in ["one", "two"] {
        start(session);
        let stamp = std::fs::metadata(stage.home().join("state/daemon-start")).unwrap();
        // A daemon is found only if this hook has started it.
        assert_eq!((stage.recall(["ctl", "status"]).code(), stamp.len()), (0, 1), "{session}");
        assert_eq!(stage.recall(["ctl", "stop"]).code(), 0);
    }
}

#[test]
fn a_second_daemon_exits_and_the_first_keeps_serving() {
    let stage = Stage::new().daemon();
    let pid = stage.json(["ctl", "status"])["pid"].clone();
    let output = stage.recall(["daemon"]);
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(output.stdout.contains(&format!("Another daemon is already running (pid {pid})")), "{output:?}");
    assert_eq!(stage.json(["ctl", "status"])["pid"], pid);
    stage.hook(&prompt(&stage, "Still there?", "p1"));
    stored(&stage, 1, 0);
}

#[test]
fn only_one_of_many_daemons_started_at_once_serves() {
    let stage = Stage::new();
    let mut started: Vec<_> = (0..6)
        .map(|_| {
            let mut command = stage.command("recall");
            command.arg("daemon").stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
            command.spawn().unwrap()
        })
        .collect();
    // All but one end by themselves, with exit code 0.
    while started.len() > 1 {
        let ended = started.iter_mut().position(|daemon| daemon.try_wait().unwrap().is_some());
        match ended {
            Some(at) => assert!(started.remove(at).wait().unwrap().success()),
            None => std::thread::yield_now(),
        }
    }
    let mut serving = started.remove(0);
    let mut search = stage.command("recall");
    search.args(["search", "anything", "--json"]);
    assert_eq!(run(search, b"").code(), 0);
    assert_eq!(stage.json(["ctl", "status"])["pid"], serving.id());
    assert_eq!(stage.recall(["ctl", "stop"]).code(), 0);
    assert!(serving.wait().unwrap().success());
}

#[test]
fn old_half_written_spool_files_are_removed() {
    let mut stage = Stage::new().daemon();
    stage.stop_daemon();
    let writing = |name: &str| stage.home().join("state/spool/tmp").join(name);
    let (left, recent) = (writing("left"), writing("recent"));
    std::fs::write(&recent, "half").unwrap();
    let file = std::fs::File::create(&left).unwrap();
    file.set_modified(std::time::SystemTime::now() - std::time::Duration::from_secs(2 * 3600)).unwrap();
    stage.start_daemon();
    stage.flush();
    assert!(!left.exists());
    assert!(recent.exists(), "it may still be written");
}

#[test]
fn context_that_no_agent_received_does_not_count_as_injected() {
    let stage = Stage::new().daemon();
    stage.discount_session("before");
    stage.flush();
    let ask = |id: &str| {
        let fields = json!({"prompt": "Why is the cart total rounded after summing?", "prompt_id": id});
        stage.event("asks", "UserPromptSubmit", fields)
    };
    stage.spool(&stage.delivery(&ask("p1")));
    stage.flush();
    assert_eq!(stage.json(["ctl", "session", "asks"])["injections"], json!([]));
    assert!(stage.hook(&ask("p2")).context().contains("Rounding happens once"), "it was not told before");
    // The record of what was injected is written in the background.
    stage.flush();
    let given = stage.json(["ctl", "session", "asks"])["injections"].clone();
    assert_eq!(given.as_array().unwrap().len(), 1, "{given}");
}
