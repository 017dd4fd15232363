//! Tests that `recall friction` shows what goes wrong again and again, with its evidence.

use recall_tests::Stage;
use serde_json::{Value, json};

use super::mcp::Mcp;

fn stop(stage: &Stage, session: &str, answer: &str) {
    stage.hook(&stage.event(session, "Stop", json!({"last_assistant_message": answer})));
    stage.flush();
}

/// Plays three sessions with the same error, but with different numbers and paths. One of them gets rid of the error.
fn worked() -> Stage {
    let stage = Stage::new().daemon();
    for (number, session) in ["one", "two", "three"].into_iter().enumerate() {
        stage.ask(session, 1, "Import the prices");
        let error =
            format!("error: could not acquire the lock of /tmp/{session}/index.lock after {number}0 ms");
        stage.ran(session, 1, "pnpm run import", Some(&error));
        if session == "two" {
            stage.ran(session, 2, "pkill -f worker", None);
            stage.ran(session, 3, "pnpm run import", None);
        }
        let file = stage.project().join("src/tax.rs");
        let edit = json!({"tool_name": "Edit", "tool_use_id": format!("{session}-e"), "tool_response": {"filePath": file},
            "tool_input": {"file_path": file, "old_string": "a", "new_string": "b"}});
        stage.hook(&stage.event(session, "PostToolUse", edit));
        stage.ran(session, 4, "git commit --no-verify -m prices", None);
        stop(
            &stage,
            session,
            "The prices are imported. For now the tax table is read from a file of last year.",
        );
    }
    stage
}

fn of_kind<'a>(answer: &'a Value, kind: &str) -> Vec<&'a Value> {
    answer["items"].as_array().unwrap().iter().filter(|item| item["kind"] == kind).collect()
}

#[test]
fn the_same_failure_in_three_sessions_is_shown_with_its_fix() {
    let stage = worked();
    let answer = stage.json(["friction"]);
    let failures = of_kind(&answer, "failure");
    assert_eq!(failures.len(), 1, "{answer}");
    let sessions: Vec<&str> = failures[0]["met"]
        .as_array()
        .unwrap()
        .iter()
        .map(|met| met["session_id"].as_str().unwrap())
        .collect();
    assert_eq!(sessions, ["three", "two", "one"]);
    let suggested = failures[0]["remember"]["text"].as_str().unwrap();
    assert!(suggested.ends_with(": run `pkill -f worker`."), "{answer}");
    let workarounds = of_kind(&answer, "workaround");
    let what: Vec<&str> = workarounds.iter().map(|item| item["what"].as_str().unwrap()).collect();
    assert_eq!(
        what,
        ["`--no-verify` switches a check off", "For now the tax table is read from a file of last year."]
    );
    let mut mcp = Mcp::start(&stage, None);
    let text = mcp.text_of("friction", json!({}));
    assert!(
        text.contains("failure: error: could not acquire the lock") && text.contains("(3 times)"),
        "{text}"
    );
    assert!(mcp.text_of("friction", json!({"since": "2099-01-01"})).starts_with("Nothing found"), "{text}");
    let output = stage.recall(["friction"]).stdout;
    assert!(
        output.starts_with("The same failure in several sessions\nerror: could not acquire the lock"),
        "{output}"
    );
    assert!(
        output.contains("  3 times in 3 sessions: three just now, two just now, one just now\n"),
        "{output}"
    );
    assert!(output.contains("\n  recall remember 'When `pnpm run import` says "), "{output}");
}

#[test]
fn a_failure_in_only_two_sessions_is_not_shown() {
    let stage = worked();
    stage.recall(["forget", "--session", "two", "--yes"]);
    let answer = stage.json(["friction"]);
    assert_eq!(of_kind(&answer, "failure").len(), 0, "{answer}");
    let none = stage.recall(["friction", "--since", "2099-01-01"]);
    assert!(none.stdout.starts_with("No recurring problems here."), "{none:?}");
    assert_eq!(stage.recall(["friction", "--project", "nothing"]).code(), 1);
}

#[test]
fn corrections_stops_and_denials_by_the_user_are_shown() {
    let stage = Stage::new().daemon();
    for session in ["one", "two", "three"] {
        stage.ask(session, 1, "Sort the receipts");
        let denied = "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file \
            edit, the new_string was NOT written to the file). To tell you how to proceed, the user said:\nnever push";
        stage.ran(session, 1, "git push origin main", Some(denied));
        stage.ran(session, 2, "npm run build", None);
        stage.ask(session, 2, "No, the receipts are sorted by date and not by number");
        stage.ran(session, 3, "npm run build", None);
        stop(&stage, session, "They are sorted by date.");
    }
    let answer = stage.json(["friction"]);
    let stops = of_kind(&answer, "stop");
    assert_eq!(stops.len(), 1, "{answer}");
    assert_eq!((&stops[0]["times"], stops[0]["met"].as_array().unwrap().len()), (&json!(3), 3));
    let denials = of_kind(&answer, "denial");
    assert_eq!(denials.len(), 1, "{answer}");
    assert_eq!(denials[0]["what"], "git push origin main");
    assert_eq!(denials[0]["remember"]["text"], "Do not ask for `git push origin main`: never push");
    assert!(!of_kind(&answer, "correction").is_empty(), "{answer}");
    let output = stage.recall(["friction"]).stdout;
    assert!(output.contains("What you corrected\n") && output.contains("`recall pin "), "{output}");
}

#[test]
fn a_call_that_a_guard_refuses_twice_is_shown_as_a_denial() {
    let stage = Stage::new().config("[guards]\nreads = 'deny'\n").daemon();
    for session in ["one", "two"] {
        stage.ask(session, 1, "Show the settings");
        let call = json!({"tool_name": "Bash", "tool_use_id": format!("{session}-1"), "tool_input": {"command": "cat .env"}});
        let output = stage.hook(&stage.event(session, "PreToolUse", call.clone()));
        let reason = output.json()["hookSpecificOutput"]["permissionDecisionReason"].clone();
        let mut settled = call;
        settled["tool_response"] = format!("PreToolUse:Bash hook error: {}", reason.as_str().unwrap()).into();
        stage.hook(&stage.event(session, "PostToolBatch", json!({"tool_calls": [settled]})));
        stop(&stage, session, "I may not read it.");
    }
    let answer = stage.json(["friction"]);
    let denials = of_kind(&answer, "denial");
    assert_eq!(denials.len(), 1, "{answer}");
    assert_eq!((&denials[0]["what"], &denials[0]["times"]), (&json!("cat .env"), &json!(2)), "{answer}");
    assert_eq!(denials[0]["example"], "recall guard `secrets` refused it");
}
