//! Tests the context that is injected when a subagent starts. It is about the task of the subagent, and the caller
//! does not read it.

use recall_tests::{CommandOutput, Stage};
use serde_json::{Value, json};

const TASK: &str = "Find out why the cart total is rounded after summing";

/// Starts a stage with an observation about the cart, and a session that works on something else.
fn stage() -> Stage {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    stage.flush();
    begin(&stage, "second", "Say hello.");
    stage
}

fn begin(stage: &Stage, session: &str, prompt: &str) {
    stage.hook(&stage.event(session, "UserPromptSubmit", json!({"prompt": prompt, "prompt_id": "p1"})));
}

fn with(mut event: Value, fields: &Value) -> Value {
    for (name, value) in fields.as_object().unwrap() {
        event[name] = value.clone();
    }
    event
}

/// Sends the call with which the main agent starts a subagent.
fn give(stage: &Stage, session: &str, call: &str, kind: &str) {
    let input = json!({"description": "Rounding", "prompt": TASK, "subagent_type": kind});
    let fields = json!({"tool_name": "Agent", "tool_input": input, "tool_use_id": call, "prompt_id": "p1"});
    assert_eq!(stage.hook(&stage.event(session, "PreToolUse", fields)).stdout, "");
}

fn starts(stage: &Stage, session: &str, id: &str, kind: &str) -> CommandOutput {
    let fields = json!({"agent_id": id, "agent_type": kind, "prompt_id": "p1"});
    stage.hook(&with(stage.event(session, "SubagentStart", json!({})), &fields))
}

#[test]
fn notes_about_a_subagents_task_are_injected_at_its_start() {
    let mut stage = stage();
    give(&stage, "second", "c1", "Explore");
    let output = starts(&stage, "second", "a1", "Explore");
    assert!(output.context().contains("Rounding happens once"), "{output:?}");
    assert_eq!(output.json()["hookSpecificOutput"]["hookEventName"], "SubagentStart");
    assert_eq!(starts(&stage, "second", "a1", "Explore").stdout, "", "another hook of the same start");
    assert_eq!(starts(&stage, "second", "a2", "Plan").stdout, "", "nobody gave it a task");

    // The caller has read none of it.
    let asks = json!({"prompt": "Why is the cart total rounded after summing?", "prompt_id": "p2"});
    let caller = stage.hook(&stage.event("second", "UserPromptSubmit", asks));
    assert!(caller.context().contains("Rounding happens once"), "{caller:?}");
    stage.flush();
    let why = stage.json(["why", "second"]);
    let moments: Vec<&str> =
        why["injections"].as_array().unwrap().iter().map(|given| given["moment"].as_str().unwrap()).collect();
    assert_eq!(moments, ["subagent", "prompt"]);

    // A task is kept across a restart of the daemon. It ends with its call.
    give(&stage, "second", "c2", "Explore");
    stage.kill_daemon();
    stage.start_daemon();
    assert!(starts(&stage, "second", "a3", "Explore").context().contains("Rounding happens once"));
    for call in ["c1", "c2"] {
        let fields = json!({"tool_name": "Agent", "tool_input": {}, "tool_use_id": call, "prompt_id": "p2",
                            "tool_response": {"status": "completed"}});
        stage.hook(&stage.event("second", "PostToolUse", fields));
    }
    assert_eq!(starts(&stage, "second", "a4", "Explore").stdout, "");
}

#[test]
fn a_subagent_task_of_a_private_turn_is_neither_stored_nor_searched() {
    let stage = stage();
    begin(&stage, "private", "<private>not for recall</private>");
    give(&stage, "private", "c1", "Explore");
    assert_eq!(starts(&stage, "private", "a1", "Explore").stdout, "");
    stage.flush();
    let kept = rusqlite::Connection::open(stage.database()).unwrap();
    let tasks: u32 = kept
        .query_row("SELECT count(*) FROM running_calls WHERE task IS NOT NULL", [], |row| row.get(0))
        .unwrap();
    assert_eq!(tasks, 0);
}

#[test]
fn forgetting_a_session_forgets_its_tasks() {
    let stage = stage();
    give(&stage, "second", "c1", "Explore");
    assert_eq!(stage.recall(["forget", "--session", "second", "--yes"]).code(), 0);
    let kept = rusqlite::Connection::open(stage.database()).unwrap();
    let calls: u32 = kept.query_row("SELECT count(*) FROM running_calls", [], |row| row.get(0)).unwrap();
    assert_eq!(calls, 0);
}
