//! Tests that every recorded payload of Claude Code is understood, and that special payloads have the right effect.

use std::path::{Path, PathBuf};

use recall_protocol::wire::Reply;
use recall_tests::checks::secrecy::{self, is_nowhere};
use recall_tests::{Stage, recording};
use serde_json::{Value, json};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/claude-code")
}

fn read(name: &str) -> Value {
    let path = folder().join(format!("{name}.json"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    serde_json::from_str(&text).unwrap()
}

/// Returns the payload in a separate session that is named after its file, because the files are not one consistent
/// story.
fn alone(name: &str) -> Value {
    let mut event = read(name);
    event["session_id"] = json!(name);
    event
}

fn names() -> Vec<String> {
    let files = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let json = files.filter(|path| path.extension().is_some_and(|extension| extension == "json"));
    let mut names: Vec<String> =
        json.map(|path| path.file_stem().unwrap().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// Plays fixtures through the real shim and returns their sessions.
fn sessions<const N: usize>(stage: &Stage, names: [&str; N]) -> [Value; N] {
    for name in names {
        stage.hook(&alone(name));
    }
    stage.flush();
    names.map(|name| stage.json(["ctl", "session", name]))
}

#[test]
fn every_recorded_payload_is_parsed() {
    let stage = Stage::new().daemon();
    let names = names();
    assert!(names.len() > 100, "{}", names.len());
    let deliveries: Vec<_> = names.iter().map(|name| stage.delivery(&alone(name))).collect();
    for (name, reply) in names.iter().zip(stage.deliver(&deliveries)) {
        // On a slow disk an event may not be saved yet, but it is understood.
        assert!(matches!(reply, Reply::Ack { .. } | Reply::Unsaved { .. }), "{name}: {reply:?}");
    }
    stage.flush();
    let status = stage.json(["ctl", "status"]);
    assert_eq!(status["events"]["unparsed"], 0, "{status}");
    assert_eq!(status["events"]["stored"], json!(names.len()), "{status}");
    assert_eq!(status["sessions"]["total"], json!(names.len()), "{status}");
    assert_eq!((&status["jobs"]["dead"], &status["jobs"]["retrying"]), (&json!(0), &json!(0)), "{status}");
}

/// `docs/lifecycle.md` has a table row for each event.
#[test]
fn every_recorded_event_has_a_row_in_the_lifecycle_document() {
    let page = std::fs::read_to_string(recall_tests::workspace().join("docs/lifecycle.md")).unwrap();
    let (_, chapter) = page.split_once("## What becomes of each event").unwrap();
    let (table, _) = chapter.split_once("\n## ").unwrap();
    let first_cells: String = table
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
        .collect::<Vec<_>>()
        .join("\n");
    let recorded =
        folder().join("sequences").read_dir().unwrap().flat_map(|entry| recording(&entry.unwrap().path()));
    let mut events: Vec<Value> = names().iter().map(|name| read(name)).chain(recorded).collect();
    // An unknown event has no row.
    events.retain(|event| event["hook_event_name"].is_string() && event["hook_event_name"] != "FutureEvent");
    assert!(events.len() > 100);
    for event in events {
        let name = event["hook_event_name"].as_str().unwrap();
        assert!(first_cells.contains(&format!("`{name}`")), "{name} has no row");
    }
}

#[test]
fn an_unknown_event_is_stored_with_its_input() {
    let stage = Stage::new().daemon();
    let mut prompt = alone("UserPromptSubmit");
    let mut unknown = alone("FutureEvent");
    for event in [&mut prompt, &mut unknown] {
        event["session_id"] = json!("one");
    }
    unknown["prompt_id"] = prompt["prompt_id"].clone();
    stage.hook(&prompt);
    stage.hook(&unknown);
    stage.flush();
    let session = stage.json(["ctl", "session", "one"]);
    let activities = session["batches"][0]["activities"].as_array().unwrap();
    let [activity] = activities.as_slice() else { panic!("{session}") };
    assert_eq!((&activity["kind"], &activity["tool_name"]), (&json!("other"), &json!("FutureEvent")));
    assert_eq!(activity["input"]["something_new"], json!({"a": [1, 2, 3]}));
    assert_eq!(stage.json(["ctl", "status"])["events"]["unparsed"], 0);
}

#[test]
fn a_prompt_from_a_program_is_not_stored_as_the_users() {
    let stage = Stage::new().daemon();
    let check = |session: &Value, source: &str| {
        assert_eq!(session["batches"][0]["source"], source, "{session}");
        assert_eq!(session["batches"].as_array().unwrap().len(), 1, "{session}");
    };
    let [agent, shell, system, user] = sessions(
        &stage,
        [
            "UserPromptSubmit.task-notification",
            "UserPromptSubmit.task-notification-shell",
            "UserPromptSubmit.source-system",
            "UserPromptSubmit.slash",
        ],
    );
    check(&agent, "agent_notification");
    check(&shell, "agent_notification");
    check(&system, "system");
    check(&user, "user");
}

#[test]
fn private_text_in_a_recorded_prompt_is_stored_nowhere() {
    let stage = Stage::new().daemon();
    let [session] = sessions(&stage, ["UserPromptSubmit.source-user"]);
    let prompt = session["batches"][0]["prompt"].as_str().unwrap();
    assert_eq!(prompt.trim(), "Why does total() round twice?");
    assert_eq!(session["batches"][0]["source"], "user");
    let found = stage.json(["search", "4111"]);
    assert_eq!(found["results"], json!([]), "{found}");
    is_nowhere(&stage, "4111 1111");
}

#[test]
fn private_text_and_secrets_are_stored_nowhere() {
    secrecy::private_words_are_stored_nowhere(Stage::new());
    secrecy::secrets_are_stored_nowhere(Stage::new());
}

#[test]
fn stored_text_is_injected_without_system_tags() {
    secrecy::stored_text_contains_no_tag(Stage::new());
}

#[test]
fn a_unicode_prompt_is_stored_without_the_context_blocks_closing_tag() {
    let stage = Stage::new().daemon();
    let [session] = sessions(&stage, ["UserPromptSubmit.unicode"]);
    let typed = read("UserPromptSubmit.unicode");
    let typed = typed["prompt"].as_str().unwrap();
    assert!(typed.contains("</recall-context>") && !typed.is_ascii());
    assert_eq!(session["batches"][0]["prompt"], typed.replace("</recall-context>", ""));
}

#[test]
fn calls_keep_their_outcome() {
    let stage = Stage::new().daemon();
    let check = |session: &Value, tool: &str, failed: bool| {
        let activity = &session["batches"][0]["activities"][0];
        assert_eq!(
            (&activity["tool_name"], &activity["failed"]),
            (&json!(tool), &json!(failed)),
            "{session}"
        );
        assert_eq!(session["batches"][0]["source"], "recovery", "{session}");
    };
    let [edit, failure, mcp, subagent] = sessions(
        &stage,
        ["PostToolUse.Edit", "PostToolUseFailure.Bash", "PostToolUse.mcp", "PostToolUse.subagent"],
    );
    check(&edit, "Edit", false);
    check(&failure, "Bash", true);
    check(&mcp, "mcp__stock__lookup", false);
    let label = &subagent["batches"][0]["activities"][0]["subagent"];
    assert_eq!(*label, read("PostToolUse.subagent")["agent_type"], "{subagent}");
}

#[test]
fn the_users_answers_todo_lists_and_skills_are_not_activities() {
    let stage = Stage::new().daemon();
    for name in ["PostToolUse.AskUserQuestion", "PostToolUse.TodoWrite", "PostToolUse.Skill"] {
        let mut prompt = alone("UserPromptSubmit");
        let mut call = alone(name);
        prompt["session_id"] = json!(name);
        call["prompt_id"] = prompt["prompt_id"].clone();
        stage.hook(&prompt);
        stage.hook(&call);
        let session = stage.json(["ctl", "session", name]);
        assert_eq!(session["batches"][0]["activities"], json!([]), "{session}");
    }
    assert_eq!(stage.json(["ctl", "status"])["events"]["stored"], 6);
}

#[test]
fn input_and_output_of_skipped_tools_are_not_stored() {
    let config = "[capture]\nskip_tools = ['Skill', 'Write', 'Task', 'AskUserQuestion']\n";
    let stage = Stage::new().config(config).daemon();
    let call = |name: &str, id: &str, input: Value, response: Value| {
        let fields = json!({"tool_name": name, "tool_use_id": id, "prompt_id": "p1", "tool_input": input,
                            "tool_response": response});
        stage.hook(&stage.event("s", "PreToolUse", fields.clone()));
        stage.hook(&stage.event("s", "PostToolUse", fields));
    };
    stage.hook(&stage.event("s", "UserPromptSubmit", json!({"prompt": "Go on", "prompt_id": "p1"})));
    call("Skill", "t1", json!({"skill": "heliotrope"}), json!({"commandName": "heliotrope"}));
    let plan = stage.project().join(".claude/plans/heliotrope.md");
    call("Write", "t2", json!({"file_path": plan, "content": "# heliotrope"}), json!({"type": "create"}));
    let task = json!({"description": "heliotrope", "prompt": "heliotrope", "subagent_type": "Explore"});
    stage.hook(&stage.event(
        "s",
        "PreToolUse",
        json!({"tool_name": "Task", "tool_use_id": "t3", "prompt_id": "p1",
        "tool_input": task}),
    ));
    let failed = json!({"tool_name": "Skill", "tool_use_id": "t4", "prompt_id": "p1",
        "tool_input": {"skill": "heliotrope"}, "error": "no heliotrope"});
    stage.hook(&stage.event("s", "PostToolUseFailure", failed));
    let question = json!({"questions": [{"question": "Which currency does the ledger keep?"}]});
    let answer = json!({"answers": {"Which currency does the ledger keep?": "Integer cents of EUR"}});
    call("AskUserQuestion", "t5", question, answer);
    let done = json!({"last_assistant_message": "Done.", "prompt_id": "p1"});
    stage.hook(&stage.event("s", "Stop", done));
    stage.flush();
    is_nowhere(&stage, "heliotrope");
    // The user's answer is remembered all the same.
    let session = stage.json(["ctl", "session", "s"]);
    assert_eq!((&session["batches"][0]["activities"], &session["plans"]), (&json!([]), &json!([])));
    let kept = [&session["observations"], &session["summary"]].map(Value::to_string).concat();
    assert!(kept.contains("Integer cents of EUR"), "{session}");
}
