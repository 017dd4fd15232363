//! Tests `context.code`, which injects the places of the code that a prompt names.

use std::process::Command;

use recall_tests::Stage;
use serde_json::{Value, json};

const ON: &str = "[context]\ncode = true\n";

/// Makes a repository with two source files. One of them is ignored.
fn repository(stage: &Stage) {
    let folder = stage.project();
    let made = Command::new("git").args(["init", "-q"]).current_dir(&folder).status().unwrap();
    assert!(made.success());
    std::fs::create_dir_all(folder.join("src")).unwrap();
    std::fs::write(folder.join("src/cart.rs"), "pub struct PassageCache;\n\npub fn round_total() {}\n")
        .unwrap();
    std::fs::write(folder.join("src/made.rs"), "pub struct MadeByProgram;\n").unwrap();
    std::fs::write(folder.join(".gitignore"), "made.rs\n").unwrap();
}

fn prompt(stage: &Stage, text: &str) -> String {
    stage.hook(&stage.event("one", "UserPromptSubmit", json!({"prompt": text}))).context()
}

fn files(found: &Value) -> Vec<&str> {
    found["items"].as_array().unwrap().iter().map(|item| item["file"].as_str().unwrap()).collect()
}

#[test]
fn outlines_are_off_until_the_user_enables_them() {
    let stage = Stage::new().daemon();
    repository(&stage);
    let output = stage.recall(["outline", "PassageCache"]);
    assert_ne!(output.code(), 0);
    assert!(output.stderr.contains("recall config set context.code true"), "{}", output.stderr);
    assert!(!prompt(&stage, "Why does `PassageCache` drop entries?").contains("src/cart.rs"));
}

#[test]
fn the_place_of_code_that_a_prompt_names_is_injected_once() {
    let stage = Stage::new().config(ON).daemon();
    repository(&stage);
    // The command waits for the first reading. A prompt does not.
    assert_eq!(files(&stage.json(["outline", "passage", "cache"])), ["src/cart.rs"]);
    assert_eq!(files(&stage.json(["outline", "src/cart.rs"])), ["src/cart.rs", "src/cart.rs"]);
    let first = prompt(&stage, "Why does `PassageCache` drop entries?");
    assert!(first.contains("- src/cart.rs:1 struct PassageCache\n"), "{first}");
    assert!(!prompt(&stage, "And does `PassageCache` keep the newest?").contains("src/cart.rs"));
    // A line that has moved is injected with its new place.
    let moved = "//! Carts.\n\npub struct PassageCache;\n\n/// Once.\npub fn round_total() {}\n";
    std::fs::write(stage.project().join("src/cart.rs"), moved).unwrap();
    let second = prompt(&stage, "What calls `round_total` in the shop?");
    assert!(second.contains("- src/cart.rs:6 fn round_total\n"), "{second}");
}

#[test]
fn places_in_a_file_that_the_session_has_read_are_not_injected() {
    let stage = Stage::new().config(ON).daemon();
    repository(&stage);
    assert_eq!(files(&stage.json(["outline", "PassageCache"])), ["src/cart.rs"]);
    prompt(&stage, "Look at the cart.");
    let file = stage.project().join("src/cart.rs");
    let read = json!({"tool_name": "Read", "tool_use_id": "r1", "tool_input": {"file_path": file},
        "tool_response": {"type": "text", "file": {"filePath": file, "content": "x"}}});
    stage.hook(&stage.event("one", "PostToolUse", read));
    stage.flush();
    assert!(!prompt(&stage, "Why does `PassageCache` drop entries?").contains("src/cart.rs:"));
    let other =
        stage.event("two", "UserPromptSubmit", json!({"prompt": "Why does `PassageCache` drop entries?"}));
    assert!(stage.hook(&other).context().contains("src/cart.rs:1 struct PassageCache"));
}

#[test]
fn outline_skips_files_that_the_repository_ignores() {
    let stage = Stage::new().config(ON).daemon();
    repository(&stage);
    assert_eq!(files(&stage.json(["outline", "round_total"])), ["src/cart.rs"]);
    assert_eq!(files(&stage.json(["outline", "MadeByProgram"])), [""; 0]);
}
