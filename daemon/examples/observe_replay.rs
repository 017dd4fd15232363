//! Runs the built-in compressor over recorded hook events and writes what it makes of each session, in the shape of
//! `recall ctl session ID --json`, so that a scorer or a reader can judge it without a daemon.
//!
//! ```text
//! cargo run --example observe_replay -- OUT_DIR SESSION.jsonl ...
//! ```
//!
//! One line of a `.jsonl` file is a Claude Code hook payload with `_id`, the event's number, which the evidence of an
//! observation then names. Batches are cut as the daemon cuts them: a prompt opens one, Stop or the next prompt
//! closes it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use recall::agents::claude_code::actions::action;
use recall::compression::extractive::Extractive;
use recall::memory::ids::{EventId, Timestamp};
use recall::memory::material::{BatchMaterial, BatchSource, CallOutcome, SessionMaterial, SourcedText, Step};
use serde_json::{Value, json};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let out = arguments.next().context("usage: observe_replay OUT_DIR SESSION.jsonl ...")?;
    std::fs::create_dir_all(&out)?;
    for path in arguments {
        let text = std::fs::read_to_string(&path).with_context(|| format!("reading {path}"))?;
        let mut sessions: BTreeMap<String, Session> = BTreeMap::new();
        for line in text.lines().filter(|line| !line.trim().is_empty()) {
            let event: Value = serde_json::from_str(line).with_context(|| format!("a line of {path}"))?;
            let id = field(&event, "session_id");
            sessions.entry(id).or_default().take(&event);
        }
        for (id, session) in sessions {
            let told = session.told(&id)?;
            let file = Path::new(&out).join(format!("{id}.json"));
            std::fs::write(&file, serde_json::to_string_pretty(&told)?)?;
        }
    }
    Ok(())
}

/// A session while its events are read.
#[derive(Default)]
struct Session {
    root: Option<String>,
    batches: Vec<BatchMaterial>,
    is_open: bool,
}

impl Session {
    fn take(&mut self, event: &Value) {
        if self.root.is_none() {
            self.root = event.get("cwd").and_then(Value::as_str).map(str::to_owned);
        }
        match field(event, "hook_event_name").as_str() {
            "UserPromptSubmit" => self.open(event),
            "PostToolUse" | "PostToolUseFailure" => {
                let step = step(event);
                self.batch().steps.push(step);
            }
            "Stop" => {
                let response = said(event, "last_assistant_message");
                self.batch().response = response;
                self.is_open = false;
            }
            _ => {}
        }
    }

    fn open(&mut self, event: &Value) {
        let prompt = said(event, "prompt");
        let is_machine = prompt.as_ref().is_some_and(|prompt| prompt.text.starts_with("<task-notification>"));
        let previous = self.batches.iter().rev().find_map(|batch| batch.response.as_ref());
        self.batches.push(BatchMaterial {
            prompt_number: u32::try_from(self.batches.len() + 1).unwrap_or(u32::MAX),
            source: if is_machine { BatchSource::AgentNotification } else { BatchSource::User },
            previous_response: previous.map(|said| said.text.clone()),
            prompt,
            root: self.root.clone(),
            ..BatchMaterial::default()
        });
        self.is_open = true;
    }

    /// The open batch, or the last one, to which late events belong.
    fn batch(&mut self) -> &mut BatchMaterial {
        if self.batches.is_empty() {
            let root = self.root.clone();
            self.batches.push(BatchMaterial {
                source: BatchSource::Recovery,
                root,
                ..BatchMaterial::default()
            });
        }
        let last = self.batches.len() - 1;
        &mut self.batches[last]
    }

    fn told(self, id: &str) -> anyhow::Result<Value> {
        let mut observations = Vec::new();
        for batch in &self.batches {
            for draft in Extractive.draft(batch) {
                observations.push(json!({
                    "id": observations.len() + 1, "type": draft.kind, "title": draft.title, "subtitle": draft.subtitle,
                    "narrative": draft.narrative, "facts": draft.facts, "concepts": draft.concepts,
                    "files_read": draft.files_read, "files_modified": draft.files_modified,
                    "importance": draft.importance, "prompt_number": batch.prompt_number,
                    "evidence": draft.evidence.into_iter().map(number).collect::<Vec<_>>(),
                }));
            }
        }
        let summary = Extractive.sum_up(&SessionMaterial { batches: self.batches }).map(|summary| {
            json!({
                "title": summary.title, "request": summary.request, "investigated": summary.investigated,
                "learned": summary.learned, "completed": summary.completed, "next_steps": summary.next_steps,
                "notes": summary.notes,
            })
        });
        let title = summary.as_ref().map(|summary| summary["title"].clone());
        Ok(json!({"session_id": id, "title": title, "observations": observations, "summary": summary}))
    }
}

fn step(event: &Value) -> Step {
    let text = |name: &str| event.get(name).map(Value::to_string);
    let tool = field(event, "tool_name");
    let response = text("tool_response");
    let outcome = match event.get("error").and_then(Value::as_str) {
        Some(error) => CallOutcome::Failed { error: error.to_owned() },
        None => CallOutcome::Done,
    };
    Step {
        event: event_id(event),
        at: Timestamp(event.get("_t_ms").and_then(Value::as_i64).unwrap_or(0)),
        action: action(&tool, &text("tool_input").unwrap_or_default(), response.as_deref()),
        tool,
        outcome,
        subagent: event.get("agent_id").and_then(Value::as_str).map(str::to_owned),
    }
}

fn said(event: &Value, name: &str) -> Option<SourcedText> {
    let text = field(event, name);
    (!text.is_empty()).then(|| SourcedText { event: event_id(event), text })
}

fn field(event: &Value, name: &str) -> String {
    event.get(name).and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The event's number as an id, and back.
fn event_id(event: &Value) -> EventId {
    let number = event.get("_id").and_then(Value::as_u64).unwrap_or(u64::MAX);
    let mut bytes = [0; 16];
    for (byte, digit) in bytes.iter_mut().zip(number.to_be_bytes()) {
        *byte = digit;
    }
    EventId(bytes)
}

fn number(id: EventId) -> u64 {
    id.0.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}
