//! What people type wrong, and what they are told.

// Test code: a panic is how it says that something is wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use recall_tests::{Stage, run};

/// Each with its exit code and words of the message that lead on.
const WRONG: [(&[&str], i32, &[&str]); 44] = [
    (&["serach", "x"], 2, &["unrecognized subcommand 'serach'", "'search'"]),
    (&["--nope"], 2, &["unexpected argument '--nope'", "--help"]),
    (&["search"], 2, &["<QUERY>"]),
    (&["search", ""], 2, &["The query is empty", "Name a word"]),
    (&["search", "type:bugfx"], 2, &["Unknown type \"bugfx\"", "type:bugfix"]),
    (&["search", "typ:bugfix"], 2, &["type:"]),
    (&["search", "type:"], 2, &["type"]),
    (&["search", "x", "-n", "0"], 2, &["whole number from 1 on"]),
    (&["search", "x", "--since", "soon"], 2, &["Invalid time \"soon\"", "2h, yesterday"]),
    (&["search", "x", "--project", "./nowhere"], 2, &["No folder", "existing folder"]),
    (&["show"], 2, &["<ID>"]),
    (&["show", "zzz"], 1, &["\"zzz\" is no id", "p12"]),
    (&["show", "99"], 1, &["There is no observation 99", "recall search"]),
    (&["timeline", "zzz"], 1, &["zzz", "recall ctl sessions"]),
    (&["why", "nobody"], 1, &["nobody"]),
    (&["resolve"], 2, &["<ID>"]),
    (&["resolve", "p1"], 1, &["p1 is no observation", "12 or #12"]),
    (&["resolve", "1", "--query", "x"], 2, &["cannot be used with"]),
    (&["pin", "99"], 1, &["There is no observation 99"]),
    (&["edit", "99", "--title", "x"], 1, &["There is no observation 99"]),
    (&["remember"], 2, &["<TEXT>"]),
    (&["remember", "  "], 2, &["There is nothing to remember"]),
    (&["remember", "<private>x</private>"], 2, &["All of it is private"]),
    (&["remember", "x", "--type", "fact"], 1, &["\"fact\" is no type", "gotcha"]),
    (&["remember", "x", "--importance", "11"], 2, &["1..=10"]),
    (&["forget"], 2, &["Specify what to forget", "--session"]),
    (&["forget", "99", "--yes"], 1, &["There is no observation 99"]),
    (&["ctl", "statu"], 2, &["'status'"]),
    (&["ctl", "session", "nope"], 1, &["There is no session \"nope\"", "recall ctl sessions"]),
    (&["ctl", "retry", "x"], 2, &["invalid value 'x'"]),
    (&["pause", "--for", "soon"], 2, &["Invalid duration \"soon\"", "30m, 2h"]),
    (&["ctl", "prune"], 2, &["--older-than"]),
    (&["ctl", "restore", "/nowhere.db"], 2, &["No file /nowhere.db"]),
    (&["sql", "DROP TABLE sessions"], 1, &["only reading is allowed"]),
    (&["sql", "SELECT nosuch FROM calls"], 1, &["no such column", "docs/sql.md"]),
    (&["config", "get", "context.start_token"], 2, &["Did you mean context.start_tokens?"]),
    (&["config", "set", "context.notice"], 2, &["<VALUE>"]),
    (&["config", "set", "context.notice", "perhaps"], 2, &["not accepted", "Nothing was changed"]),
    (&["install", "--agent", "clode"], 2, &["invalid value 'clode'", "claude-code"]),
    (&["import", "vim"], 2, &["invalid value 'vim'", "claude-code"]),
    (&["import", "codex", "/nowhere"], 2, &["Cannot read /nowhere", "file, or a folder"]),
    (&["export", "--project", "nobody"], 1, &["Nothing is remembered of a project \"nobody\""]),
    (&["model", "add", "/nowhere"], 1, &["/nowhere"]),
    (&["completions", "tcsh"], 2, &["invalid value 'tcsh'", "bash"]),
];

#[test]
fn each_mistake_is_told_with_what_to_do() {
    let stage = Stage::new().daemon();
    let mut wrong = Vec::new();
    for (words, code, told) in WRONG {
        let said = stage.recall(words.iter().copied());
        let is_told = told.iter().all(|part| said.stderr.contains(part)) && !said.stderr.contains("panicked");
        if said.code() != code || !is_told {
            wrong.push(format!("{words:?}: {said:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn without_a_daemon_it_is_said_how_to_get_one() {
    let stage = Stage::new();
    for words in [&["ctl", "status"][..], &["status"], &["sessions"], &["events"], &["ctl", "backup"]] {
        let said = stage.recall(words.iter().copied());
        assert!(said.code() == 3 && said.stderr.contains("hint: "), "{words:?}: {said:?}");
    }
}

#[test]
fn the_hook_client_answers_a_person_and_starts_nothing() {
    let stage = Stage::new();
    for (word, told) in [("--help", "Usage: recall-shim"), ("--version", "recall-shim ")] {
        let mut shim = stage.command("recall-shim");
        shim.arg(word);
        let said = run(shim, b"");
        assert!(said.code() == 0 && said.stdout.starts_with(told), "{said:?}");
    }
    let mut shim = stage.command("recall-shim");
    shim.arg("--nope");
    let said = run(shim, b"");
    assert!(said.code() == 0 && said.stderr.contains("--help"), "{said:?}");
    assert!(!stage.home().join("run").exists(), "no daemon was started");
}
