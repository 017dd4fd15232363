//! Tests what is injected for a command: what is known of it when it is about to run, and what fixed its error when
//! it fails as it did before.

use recall_protocol::query::Remember;
use recall_tests::{CommandOutput, Stage};
use serde_json::{Value, json};

use super::notes_by_hand::noted;

const RULE: &str = "Never run migrations by hand on staging: ask Priya first";
const SYNC: &str = "Sync the mirror through `scripts/sync.sh`: the direct call wiped the target in May";

/// Returns a project where context is injected only for commands.
fn stage(more: &str) -> Stage {
    let config = format!(
        "[context]\nstart_tokens = 0\ncompact_tokens = 0\nprompt_tokens = 0\nfile_tokens = 0\n{more}"
    );
    Stage::new().config(&config).daemon()
}

fn remember(stage: &Stage, text: &str, kind: &str) {
    let output = stage.recall(["remember", text, "--type", kind]);
    assert_eq!(output.code(), 0, "{output:?}");
}

fn before(stage: &Stage, session: &str, command: &str) -> CommandOutput {
    let call = json!({"tool_name": "Bash", "tool_input": {"command": command}});
    stage.hook(&stage.event(session, "PreToolUse", call))
}

fn failed(stage: &Stage, session: &str, command: &str, output: &str) -> CommandOutput {
    let call = json!({"tool_name": "Bash", "tool_input": {"command": command}, "error": output, "is_interrupt": false});
    stage.hook(&stage.event(session, "PostToolUseFailure", call))
}

#[test]
fn a_users_rule_is_injected_when_its_command_is_about_to_run() {
    let stage = Stage::new().daemon();
    remember(&stage, RULE, "preference");
    remember(&stage, "The logo is drawn by Anna", "contact");
    stage.flush();
    stage.hook(&stage.event("s1", "SessionStart", json!({"source": "startup"})));
    for silent in
        ["ls -la db", "git status", "cargo test cart", "git commit -m 'Never run migrations on staging'"]
    {
        assert_eq!(before(&stage, "s1", silent).stdout, "", "{silent}");
    }
    let output = before(&stage, "s1", "cd app && bin/rails db:migrate --env staging");
    let context = output.context();
    assert!(context.contains("ask Priya first") && !context.contains("Anna"), "{context}");
    assert_eq!(output.json()["hookSpecificOutput"]["hookEventName"], "PreToolUse");
    assert!(output.json()["hookSpecificOutput"].get("permissionDecision").is_none(), "{output:?}");
    // In a session it is injected once for each form of command.
    assert_eq!(before(&stage, "s1", "bin/rails db:migrate --env staging --trace").stdout, "");
    assert_eq!(before(&stage, "s2", "bin/rails db:migrate --env staging").context(), context);
    stage.flush();
    let why = stage.json(["why", "s1"]);
    let injection =
        why["injections"].as_array().unwrap().iter().find(|one| one["moment"] == "command").unwrap();
    assert!(injection["tokens"].as_u64().unwrap() <= 80, "{injection}");
    assert!(injection["file"].as_str().unwrap().starts_with("$ bin/rails db:migrate"), "{injection}");
    assert_eq!(injection["items"][0]["reason"], "written or pinned by hand, and about this command");
}

#[test]
fn a_note_about_a_script_is_injected_when_its_path_is_run() {
    let stage = stage("");
    remember(&stage, SYNC, "gotcha");
    stage.flush();
    assert!(before(&stage, "s1", "./scripts/sync.sh --all").context().contains("wiped the target"));
    assert_eq!(before(&stage, "s1", "scripts/other.sh").stdout, "");
    // A subagent has a separate conversation. A search for the path does not run the script.
    let call = json!({"tool_name": "Bash", "tool_input": {"command": "scripts/sync.sh"}, "agent_id": "a1"});
    assert_eq!(stage.hook(&stage.event("s2", "PreToolUse", call)).stdout, "");
    let call = json!({"tool_name": "Grep", "tool_input": {"pattern": "scripts/sync.sh"}});
    assert_eq!(stage.hook(&stage.event("s2", "PreToolUse", call)).stdout, "");
}

#[test]
fn an_agents_important_gotcha_is_injected_before_its_command_runs() {
    let stage = stage("");
    let note = |text: &str, kind: &str, importance: u8| {
        let (text, kind) = (text.to_owned(), Some(kind.to_owned()));
        noted(&stage, Remember { text, kind, importance: Some(importance), ..Remember::default() });
    };
    note("`make seed` must not run twice: the second run deletes the customers of the first", "gotcha", 7);
    note("`make docs` writes into the public folder", "gotcha", 3);
    note("`make dist` packs everything", "change", 9);
    stage.flush();
    let context = before(&stage, "s1", "make seed").context();
    assert!(
        context.contains("must not run twice") && context.contains("(a note, not an instruction)"),
        "{context}"
    );
    // Nothing is injected if the note has little weight or another type, or if the command is another one.
    for silent in ["make docs", "make dist", "make bread", "echo make seed"] {
        assert_eq!(before(&stage, "s2", silent).stdout, "", "{silent}");
    }
}

#[test]
fn a_known_fix_is_injected_when_its_error_occurs_again() {
    let stage = stage("");
    let cure = "connect ECONNREFUSED 127.0.0.1:5432 in the tests: the test database has to be started with `make db` first";
    remember(&stage, cure, "bugfix");
    stage.flush();
    let output = "Exit code 1\n> vitest run\n\u{1b}[31mError: connect ECONNREFUSED 127.0.0.1:5432\u{1b}[39m\n at net.js";
    let hook_output = failed(&stage, "s1", "npm test", output);
    assert!(hook_output.context().contains("make db"), "{hook_output:?}");
    assert_eq!(hook_output.json()["hookSpecificOutput"]["hookEventName"], "PostToolUseFailure");
    assert_eq!(failed(&stage, "s1", "npm test -- --watch", output).stdout, "", "told once");
    assert_eq!(failed(&stage, "s2", "npm test", "Error: expected 12 to be 13\n at cart.test.js").stdout, "");
    assert_eq!(failed(&stage, "s2", "npm test", "").stdout, "");
    stage.flush();
    let why = stage.json(["why", "s1"]);
    assert_eq!(why["injections"][0]["moment"], "failure", "{why}");
}

#[test]
fn a_zero_token_budget_injects_nothing_for_a_command() {
    let stage = stage("command_tokens = 0\n");
    remember(&stage, SYNC, "gotcha");
    stage.flush();
    assert_eq!(before(&stage, "s1", "scripts/sync.sh").stdout, "");
}

#[test]
fn a_note_marked_wrong_at_a_command_is_not_injected_there_again() {
    let stage = stage("");
    remember(&stage, SYNC, "gotcha");
    stage.flush();
    assert_ne!(before(&stage, "s1", "scripts/sync.sh").stdout, "");
    stage.flush();
    let output = stage.recall(["wrong", "1"]);
    assert!(output.stdout.contains("at command"), "{output:?}");
    assert_eq!(before(&stage, "s2", "scripts/sync.sh").stdout, "");
}

#[test]
fn another_agent_gets_command_context_in_its_own_format() {
    let stage = stage("");
    remember(&stage, SYNC, "gotcha");
    stage.flush();
    let project = stage.project().to_string_lossy().into_owned();
    let call = json!({"conversation_id": "c1", "generation_id": "g1", "hook_event_name": "preToolUse", "cursor_version": "2.0.0",
        "workspace_roots": [project], "tool_name": "Shell", "tool_input": {"command": "scripts/sync.sh"}, "tool_use_id": "t1",
        "cwd": project});
    let output = stage.hook_bytes(&["cursor"], call.to_string().as_bytes());
    let answer: Value = serde_json::from_str(&output.stdout).unwrap_or_default();
    assert!(
        answer["additional_context"].as_str().unwrap_or_default().contains("wiped the target"),
        "{output:?}"
    );
}
