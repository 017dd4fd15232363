//! The recording that `recall demo` plays: a session on a small shop, and hooks of sessions before and after it.

use serde_json::{Value, json};

use crate::demo::{DemoHook, DemoSession};

const RECORDING: &str = include_str!("demo.jsonl");
/// The session after the recorded one.
const NEXT: &str = "the-next-session";
/// The session that starts before it. The memory is empty at its start, so its prompt receives what was learned
/// since.
const OPEN: &str = "the-open-session";

/// # Errors
/// The recording is not JSON.
pub fn session() -> serde_json::Result<DemoSession> {
    let recorded = RECORDING.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    let first = recorded.first().unwrap_or(&Value::Null);
    let (session, cwd) = (text(first, "session_id").to_owned(), text(first, "cwd").to_owned());
    let of = |session: &str, name: &str| json!({"session_id": session, "cwd": cwd, "hook_event_name": name});
    let (mut open, mut start) = (of(OPEN, "SessionStart"), of(NEXT, "SessionStart"));
    for start in [&mut open, &mut start] {
        (start["source"], start["model"]) = ("startup".into(), "claude".into());
    }
    let mut prompt = of(OPEN, "UserPromptSubmit");
    prompt["prompt"] = "Why is the discount rounded after summing?".into();
    let question = text(&prompt, "prompt").to_owned();
    let hooks = recorded.into_iter().map(hook).collect();
    Ok(DemoSession { spec: &super::SPEC, session, hooks, open, start, prompt, question, context, notice })
}

fn hook(payload: Value) -> DemoHook {
    let label = format!("{} {}", text(&payload, "hook_event_name"), text(&payload, "tool_name"));
    DemoHook { label, is_after_compaction: text(&payload, "source") == "compact", payload }
}

fn context(stdout: &Value) -> Option<&str> {
    stdout.pointer("/hookSpecificOutput/additionalContext").and_then(Value::as_str)
}

fn notice(stdout: &Value) -> &str {
    text(stdout, "systemMessage")
}

/// A text, or "" if it is missing.
fn text<'a>(value: &'a Value, key: &str) -> &'a str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}
