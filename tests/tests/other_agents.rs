//! What is peculiar to other agents, through the real programs.

use std::path::Path;

use recall_tests::checks::secrecy::is_nowhere;
use recall_tests::{DISCOUNT_PROMPT, Stage};
use serde_json::{Value, json};

fn recorded(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Runs a hook of this agent and returns what it printed.
#[track_caller]
fn hook(stage: &Stage, agent: &str, event: &Value) -> String {
    let name = event["agent_action_name"].as_str().or(event["hook_event_name"].as_str()).unwrap();
    let said = stage.hook_bytes(&[agent, name], &serde_json::to_vec(event).unwrap());
    assert_eq!((said.code(), said.stderr.as_str()), (0, ""), "{said:?}");
    said.stdout
}

/// A turn of Windsurf, whose payloads have the prompt inside an object.
fn windsurf_turn(stage: &Stage, prompt: &str) -> Value {
    let [mut asked, mut wrote, mut ran, mut answered] =
        ["pre_user_prompt", "post_write_code", "post_run_command", "post_cascade_response"]
            .map(|name| recorded(&format!("windsurf/{name}.json")));
    asked["tool_info"]["user_prompt"] = json!(prompt);
    wrote["tool_info"]["file_path"] = json!(stage.project().join("src/heliotrope.js"));
    ran["tool_info"]["command_line"] = json!("npm test -- heliotrope");
    ran["tool_info"]["cwd"] = json!(stage.project());
    answered["tool_info"]["response"] = json!("### Planner Response\n\nThe heliotrope is planted.");
    for event in [&asked, &wrote, &ran, &answered] {
        assert_eq!(hook(stage, "windsurf", event), "");
    }
    stage.flush();
    stage.json(["ctl", "session", asked["trajectory_id"].as_str().unwrap()])
}

#[test]
fn a_private_prompt_inside_windsurfs_payload_hides_its_turn() {
    let stage = Stage::new().daemon();
    let session = windsurf_turn(&stage, "<private>Plant the heliotrope.</private>");
    let batches = session["batches"].as_array().unwrap();
    assert_eq!(batches.len(), 1, "{session}");
    assert_eq!(batches[0]["source"], "private", "{session}");
    is_nowhere(&stage, "heliotrope");

    // The same turn without the marks is kept.
    let stage = Stage::new().daemon();
    let session = windsurf_turn(&stage, "Plant the heliotrope.");
    assert_eq!(session["batches"][0]["prompt"], "Plant the heliotrope.", "{session}");
    assert_eq!(session["batches"][0]["activities"].as_array().map(Vec::len), Some(2), "{session}");
}

/// Cursor's editor drops what it is given at a start. A first prompt is answered like any other nevertheless: the start's
/// block does not come again, and what it told is not told twice.
#[test]
fn cursors_first_prompt_does_not_carry_the_start_again() {
    let stage = Stage::new().daemon();
    stage.discount_session("before");
    stage.flush();
    let mut start = recorded("cursor/sessionStart.json");
    let mut prompt = recorded("cursor/beforeSubmitPrompt.json");
    for event in [&mut start, &mut prompt] {
        event["workspace_roots"] = json!([stage.project()]);
    }
    let told: Value = serde_json::from_str(&hook(&stage, "cursor", &start)).unwrap();
    let told = told["additional_context"].as_str().unwrap();
    assert!(told.contains("Rounding happens once"), "{told}");
    for text in ["Write a letter to the harbour master.", DISCOUNT_PROMPT] {
        prompt["prompt"] = json!(text);
        prompt["generation_id"] = json!(text);
        assert_eq!(hook(&stage, "cursor", &prompt).trim(), r#"{"continue":true}"#, "{text}");
    }
}
