//! Tests `recall handoff`: what is needed to continue a session, and which session gets it.

use std::os::unix::fs::PermissionsExt;

use recall_tests::Stage;
use serde_json::{Value, json};

const SECRET: &str = concat!("ghp_", "0123456789abcdefghijABCDEFGHIJ012345");

fn edit(stage: &Stage, session: &str, number: u32, file: &str) {
    let path = stage.project().join(file);
    let input = json!({"file_path": path, "old_string": "a", "new_string": "b"});
    let call = json!({"tool_name": "Edit", "tool_input": input, "tool_use_id": format!("{session}-t{number}"),
        "tool_response": {"filePath": path}});
    stage.hook(&stage.event(session, "PostToolUse", call));
}

/// Plays an unfinished session: a check fails, a file is not committed, and the last prompt has no answer.
fn worked() -> Stage {
    let stage = Stage::new().daemon();
    stage.ask("one", 1, "Add a percentage discount to the cart");
    edit(&stage, "one", 1, "src/cart.rs");
    edit(&stage, "one", 2, "src/cart.rs");
    stage.ran("one", 3, "cargo test cart", None);
    stage.ran("one", 4, "git commit -am discount", None);
    stage.hook(&stage.event(
        "one",
        "Stop",
        json!({"last_assistant_message": "The cart has a discount. We decided to round once, at the end."}),
    ));
    stage.ask("one", 2, "<private>for the lawyer of Quokka</private> Show it on the receipt <tag>");
    edit(&stage, "one", 5, "src/receipt.rs");
    stage.ran("one", 6, "cargo test receipt", Some("error: expected a discount on the receipt"));
    stage.flush();
    stage
}

fn sections(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("## ")).collect()
}

#[test]
fn a_handoff_contains_what_another_session_needs_to_continue() {
    let stage = worked();
    let text = stage.recall(["handoff"]).stdout;
    assert!(text.starts_with("# Handoff: "), "{text}");
    let titles = sections(&text);
    let wanted = [
        "Goal",
        "Asked last, not answered yet",
        "Failing",
        "Changed after the session's last commit",
        "Files changed, the most changed first",
    ];
    for wanted in wanted {
        assert!(titles.contains(&wanted), "{wanted}: {text}");
    }
    assert!(text.contains("- `cargo test receipt`: error: expected a discount on the receipt\n"), "{text}");
    assert!(text.contains("last commit\n- `src/receipt.rs`\n\n"), "{text}");
    assert!(text.contains("- `src/cart.rs` (2 times)\n- `src/receipt.rs` (once)\n"), "{text}");
    assert!(!text.contains("Quokka"), "{text}");
    let answer = stage.json(["handoff", "one"]);
    assert_eq!(answer["text"].as_str().unwrap(), text);
    assert_eq!(answer["answered_last"], Value::Null);
    assert_eq!(answer["failing"][0]["command"], "cargo test receipt");
    assert_eq!(answer["uncommitted"], json!(["src/receipt.rs"]));
}

#[test]
fn a_handoff_is_injected_once_into_the_next_session_of_that_agent() {
    let stage = worked();
    let output = stage.recall(["handoff", "--to", "claude"]).stdout;
    assert!(output.starts_with("The next session of Claude Code in "), "{output}");
    let start = |session: &str| {
        stage.hook(&stage.event(session, "SessionStart", json!({"source": "startup"}))).context()
    };
    let first = start("two");
    assert!(
        first.contains("handed over to you") && first.contains("## Failing\n- `cargo test receipt`"),
        "{first}"
    );
    assert_eq!(first.matches("Add a percentage discount to the cart").count(), 1, "told twice: {first}");
    stage.flush();
    let second = start("three");
    assert!(!second.contains("handed over to you"), "{second}");
    let why = stage.recall(["why", "two"]).stdout;
    assert!(why.contains("handed over with `recall handoff`"), "{why}");
}

#[test]
fn a_forgotten_session_is_not_handed_over() {
    let stage = worked();
    assert_eq!(stage.recall(["handoff", "one", "--to", "claude-code"]).code(), 0);
    assert_eq!(stage.recall(["forget", "--session", "one", "--yes"]).code(), 0);
    let start = stage.hook(&stage.event("two", "SessionStart", json!({"source": "startup"}))).context();
    assert!(!start.contains("handed over"), "{start}");
    let none = stage.recall(["handoff"]);
    assert_eq!(none.code(), 1, "{none:?}");
    assert!(none.stderr.contains("hint:"), "{none:?}");
}

#[test]
fn a_handoff_file_is_not_overwritten_and_contains_no_foreign_markup() {
    let stage = worked();
    let path = stage.home().join("handoff.html");
    let path_text = path.to_str().unwrap();
    let output = stage.recall(["handoff", "--file", path_text]);
    assert!(output.stdout.contains("Read it before you share it"), "{output:?}");
    let page = std::fs::read_to_string(&path).unwrap();
    assert!(
        page.starts_with("<!doctype html>") && page.contains("<li><code>cargo test receipt</code>: "),
        "{page}"
    );
    assert!(!page.contains("<tag>") && !page.contains("<script") && !page.contains("Quokka"), "{page}");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let again = stage.recall(["handoff", "--file", path_text]);
    assert_eq!(again.code(), 1, "{again:?}");
    let markdown = stage.home().join("handoff.md");
    stage.recall(["handoff", "--file", markdown.to_str().unwrap()]);
    assert!(std::fs::read_to_string(markdown).unwrap().starts_with("# Handoff: "));
    assert_eq!(stage.recall(["handoff", "--file", "handoff.pdf"]).code(), 2);
}

#[test]
fn a_failed_handoff_explains_the_reason_and_the_remedy() {
    let stage = worked();
    let unknown = stage.recall(["handoff", "--to", "codx"]);
    assert_eq!(unknown.code(), 2, "{unknown:?}");
    assert!(unknown.stderr.contains("Did you mean codex?"), "{unknown:?}");
    assert!(stage.recall(["handoff", "nothing"]).stderr.contains("There is no session \"nothing\""));
    let stage = Stage::new().config("[context]\nstart_tokens = 0\n").daemon();
    stage.ask("one", 1, "Sort the receipts");
    stage.flush();
    let silent = stage.recall(["handoff", "--to", "codex"]);
    assert!(silent.stderr.contains("context.start_tokens is 0"), "{silent:?}");
}

#[test]
fn a_stored_secret_is_redacted_in_the_handoff() {
    let stage = Stage::new().config("[redaction]\nenabled = false\n").daemon();
    stage.ask("one", 1, &format!("Deploy with {SECRET}"));
    stage.flush();
    assert!(stage.recall(["handoff"]).stdout.contains(SECRET), "the rules are off");
    std::fs::remove_file(stage.home().join("config.toml")).unwrap();
    let stage = {
        let mut stage = stage;
        stage.stop_daemon();
        stage.daemon()
    };
    let text = stage.recall(["handoff"]).stdout;
    assert!(text.contains("[redacted:") && !text.contains(SECRET), "{text}");
}
