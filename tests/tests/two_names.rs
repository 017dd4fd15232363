//! Some agents also run the hooks of other agents. Tests that the same event under two names is stored once, and is
//! answered in the format of the agent that sent it.

use std::path::Path;

use recall_protocol::wire::{Deliver, Reply};
use recall_tests::{DISCOUNT_PROMPT, Stage};
use serde_json::{Value, json};

fn recorded(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Delivers the event twice, under two names of agents.
fn twice(stage: &Stage, event: &Value, names: [&str; 2]) -> Vec<Reply> {
    let deliveries = names.map(|agent| Deliver { agent: agent.to_owned(), ..stage.delivery(event) });
    stage.deliver(&deliveries)
}

#[test]
fn an_event_sent_under_two_agent_names_is_stored_and_answered_once() {
    let stage = Stage::new().daemon();
    stage.discount_session("before");
    stage.flush();
    let mut prompt = recorded("cursor/beforeSubmitPrompt.json");
    prompt["workspace_roots"] = json!([stage.project()]);
    prompt["prompt"] = json!(DISCOUNT_PROMPT);
    let id = prompt["session_id"].as_str().unwrap().to_owned();
    let replies = twice(&stage, &prompt, ["claude-code", "cursor"]);
    let Reply::Ack { stdout } = &replies[0] else { panic!("{replies:?}") };
    let answer: Value = serde_json::from_slice(stdout).unwrap();
    assert_eq!(answer["continue"], true, "in the words of the agent that sent it: {answer}");
    assert!(answer["additional_context"].as_str().unwrap().contains("Rounding"), "{answer}");
    assert!(matches!(&replies[1], Reply::Duplicate { stdout } if stdout.is_empty()), "{replies:?}");
    let mut call = recorded("cursor/postToolUse.Shell.json");
    call["workspace_roots"] = json!([stage.project()]);
    twice(&stage, &call, ["cursor", "claude-code"]);
    stage.flush();
    let session = stage.json(["ctl", "session", &id]);
    assert_eq!(session["agent"], "cursor");
    let batches = session["batches"].as_array().unwrap();
    assert_eq!((batches.len(), batches[0]["activities"].as_array().unwrap().len()), (1, 1), "{session}");
    assert!(!session.to_string().contains("dev@example.com"));
}

#[test]
fn a_repeated_event_without_ids_is_recognised_by_its_time() {
    let stage = Stage::new().daemon();
    for name in ["SessionStart", "UserPromptSubmit", "PostToolUse.view"] {
        let mut event = recorded(&format!("copilot-cli/{name}.json"));
        event["cwd"] = json!(stage.project());
        let replies = twice(&stage, &event, ["copilot-cli", "copilot-cli"]);
        assert!(matches!(&replies[..], [Reply::Ack { .. }, Reply::Duplicate { .. }]), "{name}: {replies:?}");
    }
}
