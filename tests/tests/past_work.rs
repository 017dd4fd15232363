//! Tests `recall how`, `recall fix` and `recall blame` on the calls that hooks reported.

use recall_tests::{Stage, run as run_program};
use serde_json::{Value, json};

fn ask(stage: &Stage, session: &str, prompt: &str) {
    let event = json!({"prompt": prompt, "prompt_id": format!("{session}-p")});
    stage.hook(&stage.event(session, "UserPromptSubmit", event));
}

fn run(stage: &Stage, session: &str, number: u32, command: &str) {
    let call = json!({"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": format!("{session}-t{number}"),
        "tool_response": {"stdout": "ok", "stderr": ""}});
    stage.hook(&stage.event(session, "PostToolUse", call));
}

fn fail(stage: &Stage, session: &str, number: u32, command: &str, error: &str) {
    let call = json!({"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": format!("{session}-t{number}"),
        "error": error});
    stage.hook(&stage.event(session, "PostToolUseFailure", call));
}

fn edit(stage: &Stage, session: &str, number: u32, file: &str, (before, after): (&str, &str)) {
    let path = stage.project().join(file);
    let input = json!({"file_path": path, "old_string": before, "new_string": after});
    let call = json!({"tool_name": "Edit", "tool_input": input, "tool_use_id": format!("{session}-t{number}"),
        "tool_response": {"filePath": path}});
    stage.hook(&stage.event(session, "PostToolUse", call));
}

fn stop(stage: &Stage, session: &str, answer: &str) {
    stage.hook(&stage.event(session, "Stop", json!({"last_assistant_message": answer})));
    stage.flush();
}

const ERROR: &str = "error: could not acquire the lock of /var/lib/shop/index.lock";

/// Plays two sessions. The first meets an error and fixes it. The second changes the same file.
fn worked() -> Stage {
    let stage = Stage::new().daemon();
    ask(&stage, "first", "Make the import run again");
    fail(&stage, "first", 1, "npm run import", "npm error Missing script: \"import\"");
    fail(&stage, "first", 2, "pnpm run import --all", ERROR);
    edit(&stage, "first", 3, "src/worker.rs", ("let held = lock();", "let held = lock()?;"));
    run(&stage, "first", 4, "pkill -f worker");
    run(&stage, "first", 5, "pnpm run import --all");
    stop(&stage, "first", "The old worker held the lock. The import runs again.");
    ask(&stage, "second", "Log when the lock is waited for");
    edit(
        &stage,
        "second",
        1,
        "src/worker.rs",
        ("let held = lock()?;", "let held = lock()?;\n    log(\"waits\");"),
    );
    run(&stage, "second", 2, "grep -rn import scripts");
    stop(&stage, "second", "Waiting for the lock is logged.");
    stage
}

fn texts<'a>(answer: &'a Value, field: &str) -> Vec<&'a str> {
    answer["items"].as_array().unwrap().iter().map(|item| item[field].as_str().unwrap()).collect()
}

#[test]
fn recall_how_shows_which_commands_worked_and_which_failed() {
    let stage = worked();
    let runs = stage.json(["how", "import"]);
    assert_eq!(texts(&runs, "command"), ["pnpm run import --all", "npm run import"]);
    assert_eq!((&runs["items"][0]["worked"], &runs["items"][0]["failed"]), (&json!(1), &json!(1)));
    assert_eq!(runs["items"][1]["error"], "npm error Missing script: \"import\"");
    let output = stage.recall(["how", "import"]).stdout;
    assert!(output.starts_with("pnpm run import --all\n  worked 1 time, last "), "{output}");
    assert!(output.contains("never worked; failed last"), "{output}");
    assert_eq!(stage.recall(["how", "kubectl"]).stdout, "No session here ran \"kubectl\".\n");
}

#[test]
fn recall_fix_shows_the_steps_that_resolved_an_error() {
    let stage = worked();
    let met = stage.json(["fix", "could not acquire the lock of /tmp/other.lock"]);
    let items = met["items"].as_array().unwrap();
    assert_eq!(items.len(), 1, "{met}");
    assert_eq!(items[0]["steps"], json!([{"changed": "src/worker.rs"}, {"ran": "pkill -f worker"}]));
    assert!(items[0]["passed_at"].is_string(), "{met}");
    // The command reads output from stdin and finds the error in it.
    let output = format!("Compiling\n{ERROR}\nmake: *** [all] Error 1\n");
    let mut program = stage.command("recall");
    program.args(["fix", "-"]);
    let stdout = run_program(program, output.as_bytes()).stdout;
    assert!(
        stdout.contains("it passed after:\n    changed src/worker.rs\n    ran pkill -f worker\n"),
        "{stdout}"
    );
    assert_eq!(
        stage.recall(["fix", "the moon is missing here"]).stdout,
        "This error did not occur in any session here.\n"
    );
}

#[test]
fn recall_blame_shows_the_prompts_that_changed_a_file_or_a_line() {
    let stage = worked();
    let file = stage.project().join("src/worker.rs");
    std::fs::create_dir_all(file.parent().unwrap()).unwrap();
    std::fs::write(&file, "fn work() {\n    let held = lock()?;\n    log(\"waits\");\n\n}\n").unwrap();
    let path = file.to_str().unwrap();
    let turns = stage.json(["blame", path]);
    assert_eq!(texts(&turns, "asked"), ["Log when the lock is waited for", "Make the import run again"]);
    let line = |number: u32| stage.json(["blame", &format!("{path}:{number}")]);
    assert_eq!(texts(&line(2), "session_id"), ["first"]);
    assert_eq!(texts(&line(3), "session_id"), ["second"]);
    let output = stage.recall(["blame", &format!("{path}:3")]).stdout;
    assert!(output.starts_with("Log when the lock is waited for\n  1 change "), "{output}");
    let no_line = stage.recall(["blame", &format!("{path}:9")]);
    assert_eq!(no_line.code(), 2, "{no_line:?}");
    assert!(no_line.stderr.contains("has no line 9"), "{no_line:?}");
    assert!(stage.recall(["blame", &format!("{path}:4")]).stderr.contains("is empty"));
}

#[test]
fn recall_how_and_fix_report_when_nothing_matches_or_no_error_is_given() {
    let stage = Stage::new().daemon();
    assert_eq!(stage.recall(["how", "deploy"]).stdout, "No session here ran \"deploy\".\n");
    assert_eq!(
        stage.recall(["fix", "error: no such table"]).stdout,
        "This error did not occur in any session here.\n"
    );
    let output = stage.recall(["fix", "-"]);
    assert_eq!(output.code(), 2, "{output:?}");
    assert!(output.stderr.contains("No error was given"), "{output:?}");
}
