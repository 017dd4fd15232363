//! Reads recorded hook events as the daemon would store them: one Claude Code hook payload per line, with `_id`, the
//! event's number. Batches are the same as in the daemon: a prompt opens one, Stop or the next prompt closes it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use recall_agents::AGENTS;
use recall_domain::ids::{EventId, Timestamp};
use recall_domain::material::{BatchMaterial, BatchSource, CallOutcome, SessionMaterial, SourcedText, Step};
use recall_domain::observation::{ObservationDraft, SummaryDraft};
use serde_json::{Value, json};

/// The agent that made the recordings.
const AGENT: &str = "claude-code";

/// The sessions of a file by id. A name that ends in `.gz` is gunzipped.
pub(crate) fn sessions(path: &Path) -> anyhow::Result<BTreeMap<String, SessionMaterial>> {
    let text = text(path)?;
    let mut sessions: BTreeMap<String, Recording> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let event: Value =
            serde_json::from_str(line).with_context(|| format!("a line of {}", path.display()))?;
        let id = field(&event, "session_id");
        sessions.entry(id).or_default().take(&event);
    }
    let material = |recording: Recording| SessionMaterial { batches: recording.batches };
    Ok(sessions.into_iter().map(|(id, recording)| (id, material(recording))).collect())
}

/// The text of a file. A name that ends in `.gz` is gunzipped.
pub(crate) fn text(path: &Path) -> anyhow::Result<String> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    let is_gzip = path.extension().is_some_and(|ending| ending == "gz");
    let bytes = if is_gzip { gunzip(&bytes).with_context(|| path.display().to_string())? } else { bytes };
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// The content of a gzip file with one member.
fn gunzip(bytes: &[u8]) -> anyhow::Result<Vec<u8>> {
    const NAME: u8 = 8;
    let flags = *bytes.get(3).context("no gzip header")?;
    let mut body = bytes.get(10..).context("no gzip header")?;
    if flags & NAME != 0 {
        let end = body.iter().position(|byte| *byte == 0).context("no end of the name")?;
        body = body.get(end + 1..).unwrap_or_default();
    }
    anyhow::ensure!(flags & !NAME == 0, "a gzip header with more than a name");
    miniz_oxide::inflate::decompress_to_vec(body).map_err(|error| anyhow::anyhow!("damaged: {error}"))
}

/// A session while its events are read.
#[derive(Default)]
struct Recording {
    root: Option<String>,
    batches: Vec<BatchMaterial>,
}

impl Recording {
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
            "Stop" => self.batch().response = sourced_text(event, "last_assistant_message"),
            _ => {}
        }
    }

    fn open(&mut self, event: &Value) {
        let prompt = sourced_text(event, "prompt");
        let is_machine = prompt.as_ref().is_some_and(|prompt| prompt.text.starts_with("<task-notification>"));
        let previous = self.batches.iter().rev().find_map(|batch| batch.response.as_ref());
        self.batches.push(BatchMaterial {
            prompt_number: u32::try_from(self.batches.len() + 1).unwrap_or(u32::MAX),
            source: if is_machine { BatchSource::AgentNotification } else { BatchSource::User },
            previous_response: previous.map(|response| response.text.clone()),
            prompt,
            root: self.root.clone(),
            conventions: AGENTS.spec(AGENT).conventions,
            ..BatchMaterial::default()
        });
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
        action: AGENTS.spec(AGENT).action(
            &tool,
            &text("tool_input").unwrap_or_default(),
            response.as_deref(),
        ),
        tool,
        outcome,
        subagent: event.get("agent_id").and_then(Value::as_str).map(str::to_owned),
    }
}

fn sourced_text(event: &Value, name: &str) -> Option<SourcedText> {
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

pub(crate) fn number(id: EventId) -> u64 {
    id.0.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// A session's observations and summary in the shape of `recall ctl session ID --json`.
pub(crate) fn session_json(
    id: &str,
    session: &SessionMaterial,
    batches: Vec<Vec<ObservationDraft>>,
    summary: Option<SummaryDraft>,
) -> Value {
    let mut observations = Vec::new();
    for (batch, drafts) in session.batches.iter().zip(batches) {
        for draft in drafts {
            observations.push(json!({
                "id": observations.len() + 1, "type": draft.kind, "title": draft.title, "subtitle": draft.subtitle,
                "narrative": draft.narrative, "facts": draft.facts, "concepts": draft.concepts,
                "files_read": draft.files_read, "files_modified": draft.files_modified,
                "importance": draft.importance, "prompt_number": batch.prompt_number,
                "evidence": draft.evidence.into_iter().map(number).collect::<Vec<_>>(),
            }));
        }
    }
    let summary = summary.map(|summary| {
        json!({
            "title": summary.title, "request": summary.request, "investigated": summary.investigated,
            "learned": summary.learned, "completed": summary.completed, "next_steps": summary.next_steps,
            "notes": summary.notes,
        })
    });
    let title = summary.as_ref().map(|summary| summary["title"].clone());
    json!({"session_id": id, "title": title, "observations": observations, "summary": summary})
}
