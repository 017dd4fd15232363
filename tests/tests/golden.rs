//! Snapshots of what each recorded payload and each recorded session of Claude Code becomes: the stored rows and the
//! exact bytes that the agent gets. Ids and times are masked.
//!
//! The rows have the shape of `recall ctl session --json`, without the texts that other tests check. These snapshots
//! show what changes when a rule changes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use recall_protocol::wire::Reply;
use recall_tests::{Stage, masked_text, recording};
use serde_json::{Value, json};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/claude-code")
}

fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|found| found == extension)).collect();
    files.sort();
    files
}

fn name_of(path: &Path) -> String {
    path.file_stem().unwrap().to_string_lossy().into_owned()
}

/// Returns the output that the daemon lets the shim print.
fn stdout(reply: &Reply) -> String {
    match reply {
        Reply::Ack { stdout } => String::from_utf8(stdout.clone()).unwrap(),
        Reply::Duplicate { .. } => "(told before)".to_owned(),
        other => panic!("{other:?}"),
    }
}

fn list<'a>(value: &'a Value, key: &str) -> &'a [Value] {
    value[key].as_array().map(Vec::as_slice).unwrap_or_default()
}

fn word<'a>(value: &'a Value, key: &str) -> &'a str {
    value[key].as_str().unwrap_or("-")
}

/// Returns the first characters of a text, on one line.
fn short(value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > 60 { line.chars().take(59).chain(['…']).collect() } else { line }
}

/// Returns a session's rows, one per line.
fn rows(session: &Value) -> String {
    let mut lines = String::new();
    let mut line = |text: String| writeln!(lines, "{text}").unwrap();
    line(format!("status {} ({})", word(session, "status"), word(session, "reason")));
    if session["resumed_from"].is_string() {
        line("resumed from another session".to_owned());
    }
    for life_event in list(session, "life_events") {
        let detail = &life_event["detail"];
        let of = |key: &str| detail.get(key).map(|value| format!(" {key} {value}"));
        let parts = ["source", "reason", "message_count", "compacted_count"].into_iter().filter_map(of);
        line(format!(
            "said {} in life {}{}",
            word(life_event, "event"),
            life_event["life"],
            parts.collect::<String>()
        ));
    }
    for batch in list(session, "batches") {
        let (number, source, status) =
            (&batch["prompt_number"], word(batch, "source"), word(batch, "status"));
        line(format!(
            "batch {number} {source} {status}: {} -> {}",
            short(&batch["prompt"]),
            short(&batch["response"])
        ));
        for call in list(batch, "activities") {
            let failed = if call["failed"] == true { " failed" } else { "" };
            let by = call["subagent"].as_str().map(|kind| format!(" by {kind}")).unwrap_or_default();
            line(format!("  {} {}{failed}{by}", word(call, "kind"), word(call, "tool_name")));
        }
    }
    for plan in list(session, "plans") {
        line(format!(
            "{} {} of prompts {}: {}",
            word(plan, "kind"),
            word(plan, "state"),
            plan["prompt_numbers"],
            short(&plan["text"])
        ));
    }
    for helper in list(session, "subagents") {
        let linked = if helper["parent_tool_use_id"].is_string() { ", its call is known" } else { "" };
        line(format!(
            "subagent {} of prompt {}{linked}: {}",
            word(helper, "agent_type"),
            helper["prompt_number"],
            short(&helper["response"])
        ));
    }
    lines
}

#[test]
fn each_recorded_event_alone_matches_the_snapshot() {
    let stage = Stage::new().daemon();
    let mut text = String::new();
    let mut played = Vec::new();
    for path in files(&fixtures(), "json") {
        let name = name_of(&path);
        let mut event: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        // Each event has its own session and project, so nothing is remembered for it.
        event["session_id"] = json!(name);
        event["cwd"] = json!(format!("/nowhere/{name}"));
        let replies = stage.deliver(&[stage.delivery(&event)]);
        played.push((name, stdout(&replies[0])));
    }
    stage.flush();
    for (name, stdout) in played {
        let session = stage.json(["ctl", "session", &name]);
        let _ = writeln!(text, "# {name}\nstdout {stdout:?}\n{}", rows(&session));
    }
    insta::assert_snapshot!("each_event", masked_text(&text, &stage));
}

#[test]
fn each_recorded_session_matches_its_snapshot() {
    // One at a time, so that observations are numbered in the order of their batches.
    let stage = Stage::new().config("[compression]\nconcurrency = 1\n").daemon();
    // These numbers go on from one recording to the next.
    let numbers = regex::Regex::new(r"(- #|session \(s|so far \(s)\d+").unwrap();
    for path in files(&fixtures().join("sequences"), "jsonl") {
        let name = name_of(&path);
        let mut snapshot = String::new();
        let mut ids: Vec<String> = Vec::new();
        for mut event in recording(&path) {
            // Each recording has its own project and its own ids.
            let id = format!("{name}/{}", event["session_id"].as_str().unwrap());
            event["session_id"] = json!(id);
            event["cwd"] = json!(format!("/nowhere/{name}"));
            if word(&event, "hook_event_name") == "SessionStart" {
                // The start injects what was made so far, so all of it must be done.
                stage.flush();
            }
            if !ids.contains(&id) {
                ids.push(id.clone());
            }
            let nth = ids.iter().position(|known| *known == id).unwrap() + 1;
            let replies = stage.deliver(&[stage.delivery(&event)]);
            let stdout = stdout(&replies[0]);
            let answered = if stdout.is_empty() { String::new() } else { format!(": {stdout}") };
            let _ = writeln!(snapshot, "{nth} {}{answered}", word(&event, "hook_event_name"));
        }
        stage.flush();
        for (nth, id) in ids.iter().enumerate() {
            let session = stage.json(["ctl", "session", id]);
            let _ = writeln!(snapshot, "\n# session {}\n{}", nth + 1, rows(&session));
        }
        let snapshot = numbers.replace_all(&masked_text(&snapshot, &stage), "$1[n]").into_owned();
        insta::assert_snapshot!(format!("recorded_{name}"), snapshot);
    }
}
