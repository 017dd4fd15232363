//! Reads chats of Qwen Code as hook events.
//!
//! Format: `projects/<folder>/chats/<session>.jsonl`, one record per line, and
//! `projects/<folder>/subagents/<session>/agent-<id>.jsonl` next to it. Checked against 0.24.4. Text that hooks added
//! is in separate parts and fields, which are not read.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use crate::chain::{Chain, Link};
use crate::format::typed;
use crate::history::{self, HistoryFolder, RecordedHistory, RecordedSession, each_record, moment, open};
use recall_domain::material::BatchSource;

pub(super) const HISTORY: RecordedHistory = RecordedHistory {
    place: HistoryFolder::Agent("projects"),
    also: &[],
    is_session,
    inside: None,
    read,
    each: None,
    tail: Some(|reader, _| read_records(reader, RecordedSession::default(), Side::Main)),
    prompts: None,
    kin: Some(|path| history::first_of(path, |record: &Record| Some(record.uuid.clone()))),
    end: Some("SessionEnd"),
};

/// Excludes the transcripts of subagents, which are read with their session.
fn is_session(path: &Path) -> bool {
    let is_chat = path.parent().and_then(Path::file_name).is_some_and(|folder| folder == "chats");
    is_chat && path.extension().is_some_and(|extension| extension == "jsonl")
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Record {
    #[serde(rename = "type")]
    kind: String,
    subtype: Option<String>,
    provenance: Option<String>,
    uuid: String,
    parent_uuid: Option<String>,
    timestamp: String,
    cwd: String,
    agent_id: Option<String>,
    agent_name: Option<String>,
    message: Message,
    tool_call_result: Value,
    system_payload: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Message {
    parts: Vec<Value>,
}

/// The author of the records: the main agent or a subagent.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    Main,
    Subagent,
}

struct Reading {
    session: RecordedSession,
    side: Side,
    /// The id and type of the subagent that writes.
    subagent: Option<(String, String)>,
    /// The tool and input of each call, by the call's id.
    calls: HashMap<String, (String, Value)>,
    /// The newest text that no call follows, with its record and time.
    answer: Option<(String, i64, String)>,
    chain: Chain,
}

fn read(path: &Path, _: Option<&str>) -> io::Result<RecordedSession> {
    let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut session = read_file(path, RecordedSession { id, ..RecordedSession::default() }, Side::Main)?;
    let main = session.events.len();
    for file in subagents(path, &session.id) {
        let empty =
            RecordedSession { id: session.id.clone(), cwd: session.cwd.clone(), ..Default::default() };
        let of_subagent = read_file(&file, empty, Side::Subagent)?;
        session.unreadable += of_subagent.unreadable;
        session.events.extend(of_subagent.events);
    }
    if session.events.len() > main {
        session.events.sort_by_key(|event| event.at_ms);
    }
    Ok(session)
}

fn subagents(path: &Path, session: &str) -> Vec<PathBuf> {
    let project = path.parent().and_then(Path::parent);
    let folder = project.map(|project| project.join("subagents").join(session));
    let files = folder.and_then(|folder| std::fs::read_dir(folder).ok()).into_iter().flatten().flatten();
    let files = files.map(|entry| entry.path());
    let mut files: Vec<_> =
        files.filter(|file| file.extension().is_some_and(|extension| extension == "jsonl")).collect();
    files.sort();
    files
}

fn read_file(path: &Path, session: RecordedSession, side: Side) -> io::Result<RecordedSession> {
    read_records(&mut BufReader::new(open(path)?), session, side)
}

fn read_records(
    reader: &mut dyn BufRead,
    session: RecordedSession,
    side: Side,
) -> io::Result<RecordedSession> {
    let mut reading = Reading {
        session,
        side,
        subagent: None,
        calls: HashMap::new(),
        answer: None,
        chain: Chain::default(),
    };
    each_record(reader, |record| match record {
        Some(record) => reading.take(record),
        None => reading.session.unreadable += 1,
    })?;
    reading.end_turn();
    Ok(reading.session)
}

impl Reading {
    fn take(&mut self, record: Record) {
        let Some(at_ms) = moment(&record.timestamp) else { return };
        if record.kind == "user" {
            self.chain.begin(&record.uuid);
        } else if self.chain.follow(&record.uuid, record.parent_uuid.as_deref()) == Link::Broken
            && record.kind == "assistant"
        {
            // The call answers a prompt that is lost, so the turn before is over.
            return self.end_turn();
        }
        match record.kind.as_str() {
            "user" => self.take_user(record, at_ms),
            "assistant" => self.take_assistant(record, at_ms),
            "tool_result" => self.take_result(&record, at_ms),
            "system" if record.subtype.as_deref() == Some("chat_compression") => {
                let history = &record.system_payload["compressedHistory"];
                let parts = history[0]["parts"].as_array().map(Vec::as_slice).unwrap_or_default();
                let fields = json!({"trigger": "auto", "compact_summary": text_of(parts)});
                self.push(at_ms, format!("{} before", record.uuid), "PreCompact", json!({"trigger": "auto"}));
                self.push(at_ms, record.uuid, "PostCompact", fields);
            }
            _ => {}
        }
    }

    /// Starts the session at its first conversation record.
    fn begin(&mut self, record: &Record, at_ms: i64) {
        if !self.session.events.is_empty() {
            return;
        }
        if self.session.cwd.is_empty() {
            self.session.cwd = record.cwd.clone();
        }
        let session = &self.session.id;
        match (self.side, &record.agent_id) {
            (Side::Main, _) => {
                let id = format!("{session} start");
                self.push(at_ms, id, "SessionStart", json!({"source": "startup"}));
            }
            (Side::Subagent, Some(agent)) => {
                let id = format!("{session} {agent} start");
                let kind = record.agent_name.clone().unwrap_or_else(|| "general-purpose".to_owned());
                self.subagent = Some((agent.clone(), kind));
                self.push(at_ms, id, "SubagentStart", json!({}));
            }
            (Side::Subagent, None) => {}
        }
    }

    fn push(&mut self, at_ms: i64, id: impl Into<String>, name: &str, mut fields: Value) {
        if let Some((id, kind)) = &self.subagent {
            fields["agent_id"] = json!(id);
            fields["agent_type"] = json!(kind);
        }
        self.session.push(at_ms, id, name, fields);
    }

    /// Adds a user's record. A notice from a background agent begins a turn that no person asked for. Older records
    /// do not name their author.
    fn take_user(&mut self, record: Record, at_ms: i64) {
        self.begin(&record, at_ms);
        let is_person = record.provenance.as_deref().is_none_or(|whose| whose == "real_user");
        let is_notice = record.subtype.as_deref() == Some("notification");
        // A subagent's prompt comes from its caller.
        if self.side == Side::Subagent || !is_notice && (!is_person || record.subtype.is_some()) {
            return;
        }
        let shown = record.system_payload["displayText"].as_str().map(str::to_owned);
        let first = || text_of(record.message.parts.get(..1).unwrap_or_default());
        let text = shown.unwrap_or_else(first);
        if !text.trim().is_empty() {
            self.end_turn();
            let mut fields = json!({"prompt": text.trim()});
            if is_notice {
                fields["source"] = json!(typed::word_for(BatchSource::AgentNotification));
            }
            self.push(at_ms, record.uuid, "UserPromptSubmit", fields);
        }
    }

    fn take_assistant(&mut self, record: Record, at_ms: i64) {
        self.begin(&record, at_ms);
        let text = text_of(&record.message.parts);
        if !text.trim().is_empty() {
            self.answer = Some((record.uuid, at_ms, text));
        }
        for call in record.message.parts.iter().map(|part| &part["functionCall"]) {
            if let (Some(id), Some(tool)) = (call["id"].as_str(), call["name"].as_str()) {
                // Text before a call is not the answer.
                self.answer = None;
                self.calls.insert(id.to_owned(), (tool.to_owned(), call["args"].clone()));
            }
        }
    }

    fn take_result(&mut self, record: &Record, at_ms: i64) {
        let result = &record.tool_call_result;
        for function_response in record.message.parts.iter().map(|part| &part["functionResponse"]) {
            let Some(id) = function_response["id"].as_str() else { continue };
            let Some((tool, input)) = self.calls.remove(id) else { continue };
            let response = &function_response["response"];
            let mut fields = json!({"tool_name": tool, "tool_input": input, "tool_use_id": id});
            let name = if response["error"].is_string() || result["status"] == "error" {
                let error = response["error"].as_str().or_else(|| response["output"].as_str());
                fields["error"] = json!(error.unwrap_or_default());
                "PostToolUseFailure"
            } else {
                let shown = &result["resultDisplay"];
                fields["tool_response"] = json!({"llmContent": response["output"], "returnDisplay": shown});
                if shown.as_str().is_none_or(str::is_empty) && !shown.is_object() {
                    fields["tool_response"] = json!({"llmContent": response["output"]});
                }
                "PostToolUse"
            };
            self.push(at_ms, format!("{} {id}", self.session.id), name, fields);
        }
    }

    fn end_turn(&mut self) {
        let Some((record, at_ms, text)) = self.answer.take() else { return };
        let name = match self.side {
            Side::Main => "Stop",
            Side::Subagent => "SubagentStop",
        };
        self.push(at_ms, format!("{record} stop"), name, json!({"last_assistant_message": text}));
    }
}

/// The texts of a message, without the model's thoughts.
fn text_of(parts: &[Value]) -> String {
    let visible_parts = parts.iter().filter(|part| part["thought"] != true);
    visible_parts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
}
