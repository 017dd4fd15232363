//! Tests that play recorded sessions of Claude Code from beginning to end.
//!
//! The bundled recordings are small, and each shows one peculiarity of real sessions. Longer recordings are played if
//! there are any: in `RECALL_REPLAY_DIR`, or in `shared/bench/replay-dev` beside the workspace.

use std::path::{Path, PathBuf};

use recall_protocol::wire::Reply;
use recall_tests::{Stage, recording, workspace};
use serde_json::{Value, json};

fn sequence(name: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/claude-code/sequences");
    recording(&folder.join(format!("{name}.jsonl")))
}

/// The number of events that were stored, and of events that were stored already.
#[derive(Debug, Default, PartialEq)]
struct Answered {
    stored: usize,
    duplicates: usize,
}

fn play(stage: &Stage, events: &[Value]) -> Answered {
    let deliveries: Vec<_> = events.iter().map(|event| stage.delivery(event)).collect();
    let mut answered = Answered::default();
    for (event, reply) in events.iter().zip(stage.deliver(&deliveries)) {
        match reply {
            Reply::Ack { .. } => answered.stored += 1,
            Reply::Duplicate { .. } => answered.duplicates += 1,
            other => panic!("{other:?} to {event}"),
        }
    }
    stage.flush();
    answered
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn ids(events: &[Value]) -> Vec<String> {
    let mut ids: Vec<String> = Vec::new();
    for event in events {
        let id = event["session_id"].as_str().unwrap();
        if !ids.iter().any(|known| known == id) {
            ids.push(id.to_owned());
        }
    }
    ids
}

/// Plays one bundled recording and returns its sessions in the order of their first event.
fn played(name: &str) -> (Stage, Vec<Value>) {
    let stage = Stage::new().daemon();
    let events = sequence(name);
    play(&stage, &events);
    let sessions = ids(&events).iter().map(|id| stage.json(["ctl", "session", id])).collect();
    (stage, sessions)
}

fn one(name: &str) -> Value {
    let (_stage, mut sessions) = played(name);
    assert_eq!(sessions.len(), 1);
    sessions.remove(0)
}

fn sources(session: &Value) -> Vec<&str> {
    list(session, "batches").iter().map(|batch| batch["source"].as_str().unwrap()).collect()
}

fn calls(batch: &Value) -> Vec<&str> {
    let tools = list(batch, "activities").iter().filter(|activity| activity["kind"] == "tool");
    tools.map(|activity| activity["tool_use_id"].as_str().unwrap()).collect()
}

/// Checks what must hold for every session that was played to its end.
#[track_caller]
fn is_at_rest(session: &Value) {
    assert_eq!(session["status"], "completed", "{session}");
    for batch in list(session, "batches") {
        assert_eq!(batch["status"], "closed", "{batch}");
    }
}

#[track_caller]
fn nothing_is_left_over(stage: &Stage, stored: usize) {
    let status = stage.json(["ctl", "status"]);
    assert_eq!(status["events"]["stored"], json!(stored), "{status}");
    assert_eq!(status["events"]["unparsed"], 0, "{status}");
    assert_eq!(status["events"]["spooled"], 0, "{status}");
    for state in ["pending", "running", "retrying", "dead"] {
        assert_eq!(status["jobs"][state], 0, "{status}");
    }
    assert_eq!(status["index"]["behind"], 0, "{status}");
    assert_eq!(status["sessions"]["live"], 0, "{status}");
}

#[test]
fn every_bundled_recording_is_stored_once_and_leaves_no_work_open() {
    let stage = Stage::new().daemon();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/claude-code/sequences");
    let recordings = recordings_below(&folder);
    assert_eq!(recordings.len(), 18);
    let mut all = Answered::default();
    let mut sessions = Vec::new();
    for path in &recordings {
        let events = recording(path);
        let answered = play(&stage, &events);
        assert_eq!(answered.stored + answered.duplicates, events.len(), "{}", path.display());
        all.stored += answered.stored;
        all.duplicates += answered.duplicates;
        sessions.extend(ids(&events));
    }
    // The Stop hook that always answered got the same text several times in one turn. That counts as one event.
    assert_eq!(all.duplicates, 7);
    nothing_is_left_over(&stage, all.stored);
    assert_eq!(stage.json(["ctl", "status"])["events"]["duplicates"], 7);
    for id in sessions {
        is_at_rest(&stage.json(["ctl", "session", &id]));
    }
}

#[test]
fn a_recording_played_twice_is_stored_once() {
    let stage = Stage::new().daemon();
    let events = sequence("resume");
    let deliveries: Vec<_> = events.iter().map(|event| stage.delivery(event)).collect();
    stage.deliver(&deliveries);
    let before = stage.json(["ctl", "session", &ids(&events)[0]]);
    let replies = stage.deliver(&deliveries);
    assert!(replies.iter().all(|reply| matches!(reply, Reply::Duplicate { .. })), "{replies:?}");
    stage.flush();
    let after = stage.json(["ctl", "session", &ids(&events)[0]]);
    assert_eq!(before["batches"], after["batches"]);
    nothing_is_left_over(&stage, events.len());
}

#[test]
fn queued_prompts_get_their_own_batches() {
    let (_stage, sessions) = played("terminal-queued-prompt-resume-hangup");
    let [terminal, resumed, hung_up] = sessions.as_slice() else { panic!("{}", sessions.len()) };
    assert_eq!(sources(terminal), ["user", "queued", "user", "queued"]);
    let [interrupted, first, uninterrupted, second] = list(terminal, "batches") else { unreachable!() };
    assert_eq!(calls(interrupted), [""; 0], "a call that was interrupted has no result");
    assert_eq!(interrupted["response"], Value::Null);
    assert!(first["response"].is_string(), "{first}");
    assert_eq!(calls(uninterrupted).len(), 1, "the late result belongs to the running turn, once");
    assert_eq!(calls(second), [""; 0]);
    assert_eq!(uninterrupted["response"], second["response"], "one Stop answers both");
    assert_eq!(terminal["reason"], "resume");
    assert_eq!(resumed["reason"], "other");
    assert_eq!((&hung_up["status"], &hung_up["reason"]), (&json!("completed"), &json!("other")));
    sessions.iter().for_each(is_at_rest);
}

#[test]
fn compaction_creates_no_prompt_and_no_second_session() {
    let session = one("automatic-compaction");
    assert_eq!(sources(&session), ["user"], "{session}");
    assert_eq!(session["batches"][0]["response"], "Done.");
    assert_eq!(calls(&session["batches"][0]).len(), 2);
    is_at_rest(&session);
    let manual = one("manual-compaction");
    assert_eq!(sources(&manual), [""; 0], "nothing was asked: {manual}");
    is_at_rest(&manual);
}

#[test]
fn clearing_ends_one_session_and_begins_another() {
    let (_stage, sessions) = played("terminal-model-error-compact-clear");
    let [first, second] = sessions.as_slice() else { panic!("{}", sessions.len()) };
    assert_eq!((&first["status"], &first["reason"]), (&json!("completed"), &json!("clear")));
    assert_eq!(list(first, "batches").len(), 6, "the model's errors leave closed batches too");
    assert_eq!(second["reason"], "prompt_input_exit");
    assert_eq!(list(second, "batches").len(), 1);
    sessions.iter().for_each(is_at_rest);
}

#[test]
fn a_background_agents_report_does_not_count_as_a_user_prompt() {
    let session = one("task-with-background-agent");
    assert_eq!(sources(&session), ["user", "agent_notification"]);
    let [asked, returned] = list(&session, "batches") else { unreachable!() };
    // Calls after Stop belong to the turn that started them. Five of all the calls never ran.
    assert_eq!(calls(asked).len(), 18, "{:?}", calls(asked));
    let refused = list(asked, "activities").iter().filter(|call| {
        call["failed"] == true
            && call["response"].as_str().is_some_and(|response| response.contains("tool_use_error"))
    });
    assert_eq!(refused.count(), 5);
    let [helper] = list(&session, "subagents") else { panic!("{}", session["subagents"]) };
    assert_eq!((&helper["agent_type"], &helper["prompt_number"]), (&json!("general-purpose"), &json!(1)));
    assert!(calls(asked).contains(&helper["parent_tool_use_id"].as_str().unwrap()), "{helper}");
    assert!(helper["response"].as_str().unwrap().starts_with("Rounding happens once"), "{helper}");
    assert_ne!(helper["response"], asked["response"]);
    assert_eq!(calls(returned), [""; 0]);
    assert!(returned["response"].is_string());
    assert!(!list(&session, "observations").is_empty());
    is_at_rest(&session);

    let two = one("two-background-agents");
    assert_eq!(sources(&two), ["user", "agent_notification", "agent_notification"]);
    assert_eq!(calls(&two["batches"][0]).len(), 6, "{two}");
    is_at_rest(&two);

    let shell = one("background-shell");
    assert_eq!(sources(&shell), ["user", "agent_notification"]);
    is_at_rest(&shell);
}

#[test]
fn a_turn_whose_end_is_not_reported_is_closed_by_later_events() {
    let error = one("api-error-print");
    assert_eq!(sources(&error), ["user"]);
    assert_eq!(error["batches"][0]["response"], Value::Null);
    is_at_rest(&error);

    let interrupted = one("terminal-interrupt-idle-rename");
    assert_eq!(sources(&interrupted), ["user", "user", "user"]);
    assert_eq!(calls(&interrupted["batches"][0]), [""; 0]);
    assert_eq!(interrupted["reason"], "prompt_input_exit");
    is_at_rest(&interrupted);

    let rejected = one("terminal-reject-plan-question-shell");
    assert_eq!(list(&rejected, "batches").len(), 4);
    is_at_rest(&rejected);
}

#[test]
fn a_stop_hook_that_always_answers_adds_no_turns() {
    let session = one("stop-hook-loop");
    assert_eq!(sources(&session), ["user"]);
    is_at_rest(&session);
}

#[test]
fn a_session_without_a_prompt_has_no_batch() {
    let session = one("init-only");
    assert_eq!(sources(&session), [""; 0]);
    is_at_rest(&session);
}

fn recordings_below(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(recordings_below(&path));
        } else if path.extension().is_some_and(|extension| extension == "jsonl") {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn longer_recordings() -> Vec<PathBuf> {
    let named = std::env::var_os("RECALL_REPLAY_DIR").map(PathBuf::from);
    let folder = named.unwrap_or_else(|| workspace().join("../shared/bench/replay-dev"));
    let found = recordings_below(&folder);
    if found.is_empty() {
        println!("skipped: no recordings in {}", folder.display());
    }
    found
}

/// Checks that a session with real work left observations and a summary.
#[track_caller]
fn left_a_memory(session: &Value) {
    is_at_rest(session);
    assert!(!list(session, "observations").is_empty(), "no observation of {}", session["session_id"]);
    assert!(session["summary"]["title"].is_string(), "no summary of {}", session["session_id"]);
}

#[test]
fn long_sessions_leave_observations_and_a_summary() {
    for path in longer_recordings() {
        let stage = Stage::new().daemon();
        let events = recording(&path);
        let answered = play(&stage, &events);
        assert_eq!(answered, Answered { stored: events.len(), duplicates: 0 }, "{}", path.display());
        nothing_is_left_over(&stage, events.len());
        for id in ids(&events) {
            left_a_memory(&stage.json(["ctl", "session", &id]));
        }
    }
}

#[test]
fn a_long_session_through_the_real_shim_leaves_observations_and_a_summary() {
    let recordings = longer_recordings();
    let Some(shortest) = recordings.iter().min_by_key(|path| std::fs::metadata(path).unwrap().len()) else {
        return;
    };
    let stage = Stage::new().daemon();
    let events = recording(shortest);
    for event in &events {
        stage.hook(event);
    }
    stage.flush();
    nothing_is_left_over(&stage, events.len());
    for id in ids(&events) {
        left_a_memory(&stage.json(["ctl", "session", &id]));
    }
}
