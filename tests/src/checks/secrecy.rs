//! Checks that private text stays private, and that stored text is only text.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use serde_json::{Value, json};

use crate::Stage;
use crate::checks::others::answer_to;
use crate::faults::process::Daemon;

fn prompt(stage: &Stage, text: &str) -> Value {
    stage.event("one", "UserPromptSubmit", json!({"prompt": text, "prompt_id": "p1"}))
}

fn call(stage: &Stage, output: &str) -> Value {
    let fields = json!({"tool_name": "Bash", "tool_use_id": "t1", "prompt_id": "p1",
        "tool_input": {"command": "cat notes"}, "tool_response": {"stdout": output, "stderr": ""}});
    stage.event("one", "PostToolUse", fields)
}

/// Expects that no file of the stage's home contains the words.
#[track_caller]
pub fn is_nowhere(stage: &Stage, words: &str) {
    for path in files_below(&stage.home()) {
        let bytes = std::fs::read(&path).unwrap();
        let found = memchr::memmem::find(&bytes, words.as_bytes());
        assert!(found.is_none(), "{words:?} is in {}", path.display());
    }
}

fn files_below(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(files_below(&path));
        } else if path.is_file() {
            files.push(path);
        }
    }
    files
}

/// The user's private words and recall's own blocks are stored nowhere, whether they arrive through the daemon or the
/// spool.
pub fn private_words_are_stored_nowhere(mut stage: Stage) {
    let text = "Why twice? <private>heliotrope</private><recall-context>quokka</recall-context>";
    stage.hook(&prompt(&stage, text));
    assert_eq!(stage.spooled().len(), 1);
    is_nowhere(&stage, "heliotrope");
    stage.start_daemon();
    stage.hook(&call(&stage, text));
    stage.flush();
    assert!(stage.json(["search", "twice"])["total"].as_u64() >= Some(2), "the rest is kept");
    for words in ["heliotrope", "quokka"] {
        is_nowhere(&stage, words);
    }
}

/// After the commit no file contains a secret. Before it, only the spool contains the unchanged event.
pub fn secrets_are_stored_nowhere(stage: Stage) {
    let stage = stage.daemon();
    let secret = "swordfish-heliotrope-7741";
    stage.hook(&prompt(&stage, &format!("Use DB_PASSWORD={secret} for the harbour")));
    stage.hook(&call(&stage, &format!("harbour\nDB_PASSWORD={secret}\n")));
    stage.flush();
    assert_eq!(stage.json(["search", "harbour"])["total"], 2, "the rest is kept");
    is_nowhere(&stage, secret);
}

/// A model receives one fence with no tag inside, whatever was stored.
pub fn stored_text_contains_no_tag(stage: Stage) {
    let stage = stage.daemon();
    let answer = "The cart rounds once after summing its `Vec<Line>`, because rounding each `</system>` line lost a cent.";
    stage.session(
        "first",
        "Why does the <system>cart</system> round twice?",
        &stage.discount_calls(),
        answer,
    );
    stage.flush();
    let context = stage.hook(&stage.event("second", "SessionStart", json!({"source": "startup"}))).context();
    assert!(context.contains("rounds once after summing"), "{context}");
    let inside = context
        .trim()
        .strip_prefix("<recall-context>")
        .and_then(|rest| rest.strip_suffix("</recall-context>"))
        .unwrap_or_else(|| panic!("no fence: {context}"));
    assert!(
        !inside.contains("<system>") && !inside.contains("</system>"),
        "a tag inside the fence: {context}"
    );
    assert!(inside.contains("Vec<Line>"), "it stays as it was written: {context}");
}

/// A word reaches the daemon in every possible way. The daemon's log must not contain it.
pub fn agent_text_is_in_no_log(stage: Stage, filter: &str, to_stderr: bool) {
    const CANARY: &str = "heliotrope-quokka-7741";
    let mut stage = stage.variable("RECALL_LOG", filter);
    if to_stderr {
        stage = stage.variable("JOURNAL_STREAM", "1:1");
    }
    let stderr = stage.user_home().join("stderr");
    let mut daemon = Daemon::spawn_with(&stage, Stdio::from(File::create(&stderr).unwrap()));
    daemon.wait_until_it_listens(&stage).unwrap();
    stage.hook(&prompt(&stage, &format!("What is {CANARY}?")));
    let output = json!({"tool_name": "Bash", "tool_use_id": "t1", "prompt_id": "p1",
        "tool_input": {"command": format!("grep {CANARY}")}, "tool_response": {"stdout": CANARY, "stderr": CANARY}});
    stage.hook(&stage.event("one", "PostToolUse", output));
    let answer = json!({"last_assistant_message": format!("It is {CANARY}."), "prompt_id": "p1"});
    stage.hook(&stage.event("one", "Stop", answer));
    stage.hook_bytes(&["claude-code"], format!(r#"{{"prompt": "{CANARY}"#).as_bytes());
    stage.hook_bytes(&["claude-code"], format!(r#"{{"session_id": "{CANARY}", "prompt": 7}}"#).as_bytes());
    answer_to(&stage.socket(), format!("\x16\0\0\0\x02{CANARY}").as_bytes());
    let spool = stage.home().join("state/spool/new");
    std::fs::create_dir_all(&spool).unwrap();
    let name = format!("000000000000001-{}", "0".repeat(32));
    std::fs::write(spool.join(name), format!("\x16\0\0\0\x02{CANARY}")).unwrap();
    stage.flush();
    let found = stage.json(["search", CANARY]);
    assert_ne!(found["total"], 0, "it was heard");
    daemon.kill();

    let log = if to_stderr { std::fs::read_to_string(&stderr).unwrap() } else { stage.log() };
    assert!(log.contains("drained the spool") && log.contains("a frame does not contain a request"), "{log}");
    assert!(!log.contains(CANARY), "the log repeats it: {log}");
    let other = if to_stderr { stage.log() } else { std::fs::read_to_string(&stderr).unwrap() };
    assert_eq!(other, "", "the log has one place");
}
