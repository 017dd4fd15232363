//! Tests how sessions use injected notes, and how users report notes that should not have been injected.

use recall_tests::Stage;
use serde_json::{Value, json};

const DEPLOY: &str = "Deploy with `scripts/deploy.sh staging`: the direct copy skips the cache of the reader";
const RULE: &str = "Invoices are never deleted, only cancelled: ask Hedwig first";

fn remembered(text: &str) -> Stage {
    let stage = Stage::new().daemon();
    let output = stage.recall(["remember", text]);
    assert_eq!(output.code(), 0, "{output:?}");
    stage.flush();
    stage
}

fn start(stage: &Stage, session: &str) -> String {
    stage.hook(&stage.event(session, "SessionStart", json!({"source": "startup"}))).context()
}

fn ask(stage: &Stage, session: &str, prompt: &str, number: u32) -> String {
    let prompt_id = format!("{session}-p{number}");
    let event = json!({"prompt": prompt, "prompt_id": prompt_id});
    stage.hook(&stage.event(session, "UserPromptSubmit", event)).context()
}

fn run(stage: &Stage, session: &str, command: &str, number: u32) {
    let call = json!({"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": format!("{session}-t{number}"),
        "tool_response": {"stdout": "ok", "stderr": ""}});
    stage.hook(&stage.event(session, "PostToolUse", call));
}

fn stop(stage: &Stage, session: &str) {
    stage.hook(&stage.event(session, "Stop", json!({"last_assistant_message": "Done."})));
    stage.flush();
}

/// Returns the uses of item 1 among everything that was injected into a session at a moment.
fn uses(stage: &Stage, session: &str, moment: &str) -> Vec<String> {
    let why = stage.json(["why", session]);
    let injections = why["injections"].as_array().unwrap().iter().filter(|one| one["moment"] == moment);
    let items = injections.flat_map(|one| one["items"].as_array().unwrap());
    let uses =
        items.filter(|item| item["id"] == 1).flat_map(|item| item["uses"].as_array().into_iter().flatten());
    uses.map(|name| name.as_str().unwrap().to_owned()).collect()
}

#[test]
fn uses_of_an_injected_note_are_stored_with_its_injection() {
    let stage = remembered(DEPLOY);
    assert!(start(&stage, "s1").contains("scripts/deploy.sh"));
    ask(&stage, "s1", "Bring it to staging", 1);
    run(&stage, "s1", "cd web && scripts/deploy.sh staging", 1);
    run(&stage, "s1", "recall show 1", 2);
    stop(&stage, "s1");
    let mut found = uses(&stage, "s1", "start");
    found.sort();
    assert_eq!(found, ["followed", "opened"]);
    // Uses are looked for again after each turn, but counted once.
    ask(&stage, "s1", "Once more", 2);
    run(&stage, "s1", "scripts/deploy.sh staging", 3);
    stop(&stage, "s1");
    let counts = stage.json(["stats"])["told"].clone();
    assert_eq!(
        (&counts["opened"], &counts["followed"], &counts["contradicted"]),
        (&json!(1), &json!(1), &json!(0)),
        "{counts}"
    );
    assert!(counts["told"].as_u64().unwrap() >= 1, "{counts}");
    let people = stage.recall(["why", "1"]).stdout;
    assert!(people.contains("; followed") && people.contains("; opened"), "{people}");
    let people = stage.recall(["stats"]).stdout;
    assert!(people.contains("1 opened, 1 followed"), "{people}");
    // Another session does not use the note.
    start(&stage, "s2");
    ask(&stage, "s2", "Tidy the readme", 1);
    run(&stage, "s2", "git status", 1);
    stop(&stage, "s2");
    assert_eq!(uses(&stage, "s2", "start"), Vec::<String>::new());
}

#[test]
fn a_note_reported_as_wrong_is_not_injected_like_that_again() {
    let stage = remembered(RULE);
    let about = "Write a job that deletes old invoices";
    let is_injected = |session: &str| ask(&stage, session, about, 1).contains("Hedwig");
    assert!(is_injected("s1"));
    let output = stage.recall(["wrong", "1"]);
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(
        output.stdout.contains("#1 will not be injected like that again: Invoices are never deleted"),
        "{output:?}"
    );
    assert!(output.stdout.contains("injected into session s1 at prompt"), "{output:?}");
    assert_eq!(uses(&stage, "s1", "prompt"), ["wrong"]);
    assert!(!is_injected("s2"));
    assert!(start(&stage, "s3").contains("Hedwig"), "a start is another occasion");
    assert_eq!(stage.json(["stats"])["told"]["wrong"], 1);

    let output = stage.recall(["wrong", "--undo", "1"]);
    assert!(output.stdout.contains("#1 may be injected again"), "{output:?}");
    assert!(is_injected("s4"));
    // An edit answers the report, so the note may be injected again.
    stage.recall(["wrong", "1", "--session", "s4"]);
    assert!(!is_injected("s5"));
    let output = stage.recall([
        "edit",
        "1",
        "--text",
        "Invoices are cancelled by Hedwig, and only deleted after ten years.",
    ]);
    assert_eq!(output.code(), 0, "{output:?}");
    stage.flush();
    assert!(is_injected("s6"));
}

#[test]
fn only_an_injected_note_can_be_reported_as_wrong() {
    let stage = remembered(RULE);
    let output = stage.recall(["wrong", "1"]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output.stderr.contains("1 was not injected into such a session")
            && output.stderr.contains("recall resolve 1"),
        "{output:?}"
    );
    let output = stage.recall(["wrong", "99"]);
    assert_eq!(output.code(), 1, "{output:?}");
    start(&stage, "s1");
    let output = stage.recall(["wrong", "1", "--session", "s2"]);
    assert_eq!(output.code(), 1, "{output:?}");
    let answer: Value = stage.json(["wrong", "1"]);
    assert_eq!(answer["items"][0]["told"]["session_id"], "s1", "{answer}");
}

#[test]
fn a_note_that_the_user_contradicts_twice_is_no_longer_injected() {
    let stage = remembered(RULE);
    assert!(ask(&stage, "s1", "Write a job that deletes old invoices", 1).contains("Hedwig"));
    stop(&stage, "s1");
    ask(&stage, "s1", "No, invoices may be deleted now, Hedwig has left", 2);
    stop(&stage, "s1");
    assert_eq!(uses(&stage, "s1", "prompt"), ["contradicted"]);
    assert_eq!(stage.json(["stats"])["told"]["contradicted"], 1);
    // After a second contradiction the note is no longer injected.
    assert!(ask(&stage, "s2", "Write a job that deletes old invoices", 1).contains("Hedwig"));
    stop(&stage, "s2");
    ask(&stage, "s2", "Wrong, invoices are deleted at once", 2);
    stop(&stage, "s2");
    assert!(!ask(&stage, "s3", "Write a job that deletes old invoices", 1).contains("Hedwig"));
}
