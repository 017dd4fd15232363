//! `recall import` with transcripts that real agents wrote.

// Test code: a panic is how it says that something is wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use recall_tests::Stage;
use serde_json::{Value, json};

const LONG: &str = "d84a0660-97da-4ee4-b745-131143ff0d8a";
const TERMINAL: &str = "ca6d2b6c-f9ba-4956-96f1-45e99bfb01e2";

fn recorded(agent: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/transcripts").join(agent)
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        match path.is_dir() {
            true => copy(&path, &to.join(name)),
            false => drop(std::fs::copy(&path, to.join(name)).unwrap()),
        }
    }
}

/// A home whose Claude Code has worked before.
fn with_history() -> Stage {
    let stage = Stage::new().daemon();
    copy(&recorded("claude-code"), &stage.user_home().join(".claude/projects/-home-dev-shop"));
    stage
}

fn import(stage: &Stage, arguments: &[&str]) -> Value {
    stage.json(["import"].into_iter().chain(arguments.iter().copied()))
}

fn prompts(session: &Value) -> Vec<&str> {
    let batches = session["batches"].as_array().unwrap();
    batches.iter().filter_map(|batch| batch["prompt"].as_str()).collect()
}

#[test]
fn transcripts_become_sessions_with_their_dates() {
    let stage = with_history();
    let counted = import(&stage, &["--dry-run"]);
    assert_eq!((&counted["sessions"], &counted["unreadable_files"]), (&json!(4), &json!([])), "{counted}");
    assert_eq!(stage.json(["ctl", "sessions"])["sessions"], json!([]), "a dry run stores nothing");

    let counted = import(&stage, &[]);
    assert_eq!((&counted["sessions"], &counted["projects"]), (&json!(4), &json!(["/home/dev/shop"])), "{counted}");
    stage.flush();
    let session = stage.json(["ctl", "session", LONG]);
    assert_eq!(session["status"], "completed");
    assert!(session["started_at"].as_str().unwrap().starts_with("2026-11-20T23:4"), "{session}");
    let asked = prompts(&session);
    assert!(asked.contains(&"Say hello, please.") && asked.contains(&"Show the discount on the receipt"), "{asked:?}");
    assert!(!session.to_string().contains("local-command"), "commands of the terminal are no prompts");
    assert_eq!(session["compaction_summaries"].as_array().unwrap().len(), 2, "{session}");
    let first = &session["batches"][0];
    assert!(first["activities"].as_array().unwrap().len() >= 10, "{first}");
    assert!(first["response"].as_str().unwrap().contains("discountPercent"), "{first}");
    let terminal = stage.json(["ctl", "session", TERMINAL]);
    assert!(prompts(&terminal).contains(&"Delete the dist folder"), "{terminal}");
    let found = stage.json(["search", "discountPercent receipt", "--project", "shop"]);
    assert!(found["total"].as_u64().unwrap() > 0, "{found}");
    assert!(!stage.json(["search", "MARK"]).to_string().contains("MARK-"), "what hooks had injected is no memory");

    let again = import(&stage, &[]);
    assert_eq!((&again["sessions"], &again["known"]), (&json!(0), &json!(4)), "{again}");
}

#[test]
fn a_session_that_hooks_have_captured_stays_one() {
    let stage = with_history();
    // The hooks came in time for the last two prompts of the terminal session.
    let event = |name: &str, fields: Value| {
        let mut deliver = stage.delivery(&stage.event(TERMINAL, name, fields));
        deliver.captured_at_ms = 1_795_218_874_000;
        deliver
    };
    stage.deliver(&[event("UserPromptSubmit", json!({"prompt": "Ask me which currency"}))]);
    stage.deliver(&[event("Stop", json!({"last_assistant_message": "EUR first, then."}))]);
    import(&stage, &[]);
    stage.flush();
    let session = stage.json(["ctl", "session", TERMINAL]);
    let asked = prompts(&session);
    assert_eq!(asked.iter().filter(|prompt| **prompt == "Ask me which currency").count(), 1, "{asked:?}");
    assert_eq!(asked[0], "Delete the dist folder", "what was before the hooks is imported: {asked:?}");
    assert_eq!(import(&stage, &[])["sessions"], 0);
}

#[test]
fn what_may_not_be_stored_is_not_imported() {
    let stage = Stage::new();
    copy(&recorded("claude-code"), &stage.user_home().join(".claude/projects/-home-dev-shop"));
    std::fs::create_dir_all(stage.home()).unwrap();
    std::fs::write(stage.home().join("config.toml"), "[capture]\nexclude = ['/home/dev/*']\n").unwrap();
    let stage = stage.daemon();
    let counted = import(&stage, &[]);
    assert_eq!((&counted["sessions"], &counted["left_out"]), (&json!(0), &json!(4)), "{counted}");
    assert_eq!(stage.json(["ctl", "sessions"])["sessions"], json!([]));
}

#[test]
fn what_was_forgotten_does_not_come_back() {
    let stage = with_history();
    import(&stage, &[]);
    stage.flush();
    stage.json(["forget", "--session", LONG, "--yes"]);
    let counted = import(&stage, &[]);
    assert_eq!((&counted["known"], &counted["left_out"]), (&json!(3), &json!(1)), "{counted}");
    assert_eq!(stage.json(["ctl", "sessions"])["sessions"].as_array().unwrap().len(), 3);
}

#[test]
fn nobody_is_told_of_old_sessions_and_no_model_is_asked() {
    let stage = Stage::new();
    copy(&recorded("claude-code"), &stage.user_home().join(".claude/projects/-home-dev-shop"));
    let told = stage.user_home().join("told");
    let config = format!(
        "[[subscribe]]\nevents = ['session_start', 'session_end', 'observation_created', 'summary_created']\n\
         command = ['touch', {told:?}]\n[compression]\nbackend = 'anthropic'\nbase_url = 'http://127.0.0.1:9'\n"
    );
    std::fs::create_dir_all(stage.home()).unwrap();
    std::fs::write(stage.home().join("config.toml"), config).unwrap();
    let stage = stage.daemon();
    assert_eq!(import(&stage, &[])["sessions"], 4);
    stage.flush();
    assert!(!told.exists());
    let jobs = stage.json(["ctl", "jobs"]);
    assert!(!jobs.to_string().contains("error\":\""), "no call failed, because none was made: {jobs}");
    let found = stage.json(["search", "kind:observation"]);
    assert!(found["total"].as_u64().unwrap() > 0, "{found}");
}

#[test]
fn an_import_that_was_cut_short_goes_on() {
    let stage = with_history();
    let path = stage.user_home().join(format!(".claude/projects/-home-dev-shop/{LONG}.jsonl"));
    let whole = std::fs::read_to_string(&path).unwrap();
    let cut: String = whole.lines().take(90).map(|line| format!("{line}\n")).collect();
    std::fs::write(&path, format!("{cut}{{\"type\":\"user\",\"mess")).unwrap();
    let counted = import(&stage, &[]);
    assert_eq!((&counted["sessions"], &counted["unreadable_lines"]), (&json!(4), &json!(1)), "{counted}");
    std::fs::write(&path, whole).unwrap();
    let counted = import(&stage, &[]);
    assert_eq!((&counted["sessions"], &counted["known"]), (&json!(1), &json!(3)), "{counted}");
    stage.flush();
    let session = stage.json(["ctl", "session", LONG]);
    assert!(prompts(&session).contains(&"Show the discount on the receipt"), "{session}");
}

#[test]
fn what_cannot_be_read_is_said() {
    let stage = Stage::new().daemon();
    let said = stage.recall(["import"]);
    assert_eq!((said.code(), said.stdout.trim()), (0, "Nothing new to import."), "{said:?}");
    let said = stage.recall(["import", "claude-code", "/no/such/place"]);
    assert_eq!(said.code(), 2, "{said:?}");
    assert!(said.stderr.contains("Cannot read /no/such/place"), "{said:?}");
    let said = stage.recall(["import", "frob"]);
    assert!(said.stderr.contains("claude-code"), "it names what there is: {said:?}");
}
