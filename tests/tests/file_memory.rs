//! Tests the context for a session that opens a file about which another session learned something.

use recall_tests::{CommandOutput, Stage};
use serde_json::{Value, json};

const LEARNED: &str = "Fixed the wrong total in `src/cart.rs`: it rounds the total once, after summing, because rounding \
    each line lost up to a cent per line.";

/// Returns a project in which something is known about `src/cart.rs`. Context is injected only for files.
fn stage(more: &str) -> Stage {
    let config = format!("[context]\nstart_tokens = 0\ncompact_tokens = 0\nprompt_tokens = 0\n{more}");
    let stage = Stage::new().config(&config).daemon();
    stage.session("first", "Why is the total a cent too low?", &stage.discount_calls(), LEARNED);
    stage.flush();
    stage
}

fn open(stage: &Stage, session: &str, tool: &str, file: &str, fields: Value) -> CommandOutput {
    let mut event = stage.event(
        session,
        "PreToolUse",
        json!({"tool_name": tool, "tool_input": {"file_path": stage.project().join(file)}}),
    );
    for (key, value) in fields.as_object().into_iter().flatten() {
        event[key] = value.clone();
    }
    stage.hook(&event)
}

fn read_cart(stage: &Stage, session: &str) -> CommandOutput {
    open(stage, session, "Read", "src/cart.rs", json!({}))
}

fn compact(stage: &Stage, session: &str) {
    stage.hook(&stage.event(session, "PreCompact", json!({"trigger": "manual"})));
    stage.hook(&stage.event(session, "SessionStart", json!({"source": "compact"})));
    stage.hook(&stage.event(session, "PostCompact", json!({"trigger": "manual", "compact_summary": "x"})));
}

#[test]
fn notes_about_a_file_are_injected_once_and_again_after_a_compaction() {
    let mut stage = stage("");
    assert_eq!(open(&stage, "second", "Read", "src/other.rs", json!({})).stdout, "");
    assert_eq!(open(&stage, "second", "Bash", "src/cart.rs", json!({})).stdout, "");
    assert_eq!(open(&stage, "second", "Read", "src/cart.rs", json!({"agent_id": "a1"})).stdout, "");

    let output = read_cart(&stage, "second");
    assert!(output.context().contains("rounds the total once"), "{output:?}");
    let answer = output.json();
    assert_eq!(
        answer,
        json!({"hookSpecificOutput":
        {"hookEventName": "PreToolUse", "additionalContext": output.context()}})
    );
    assert_eq!(open(&stage, "second", "Edit", "src/cart.rs", json!({})).stdout, "", "told once");
    stage.flush();
    let why = stage.json(["why", "second"]);
    let [injection] = why["injections"].as_array().unwrap().as_slice() else { panic!("{why}") };
    assert_eq!((&injection["moment"], &injection["file"]), (&json!("file"), &json!("src/cart.rs")));
    assert!(stage.recall(["why", "second"]).stdout.contains("at file src/cart.rs"));

    stage.stop_daemon();
    stage.start_daemon();
    assert_eq!(read_cart(&stage, "second").stdout, "", "a new daemon knows it");
    stage.hook(&stage.event("second", "SessionStart", json!({"source": "resume"})));
    assert_eq!(read_cart(&stage, "second").stdout, "", "a resumed conversation still has it");
    compact(&stage, "second");
    assert_eq!(read_cart(&stage, "second").context(), output.context());
    assert_eq!(read_cart(&stage, "first").stdout, "", "it found that out itself");
}

#[test]
fn notes_about_a_file_are_not_injected_after_it_is_rewritten() {
    let stage = stage("");
    let cart = stage.project().join("src/cart.rs");
    let edit = json!({"tool_name": "Edit", "tool_response": {"filePath": cart},
        "tool_input": {"file_path": cart, "old_string": "a", "new_string": "b"}});
    stage.session("edits", "Rename it", &[edit], "Renamed.");
    assert_ne!(read_cart(&stage, "second").stdout, "", "an edit leaves most of a file");
    let write = json!({"tool_name": "Write", "tool_input": {"file_path": cart, "content": "new"},
        "tool_response": {"type": "update", "filePath": cart}});
    stage.session("writes", "Start over", &[write], "Done.");
    assert_eq!(read_cart(&stage, "third").stdout, "");
}

#[test]
fn a_zero_token_budget_injects_nothing_for_a_file() {
    assert_eq!(read_cart(&stage("file_tokens = 0\n"), "second").stdout, "");
}
