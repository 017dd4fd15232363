//! Reads transcripts of Claude Code as hook events.
//!
//! Format: `projects/<folder>/<session>.jsonl`, one record per line, and `<session>/subagents/agent-<id>.jsonl` next
//! to it. Older versions wrote `agent-<id>.jsonl` next to it, with records that name the session. Checked against
//! 2.1.329. Branches that a rewind abandoned are kept, because their hooks had fired, too.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};

use super::SPEC;
use crate::chain::{Chain, Link};
use crate::format::typed;
use crate::history::{
    self, HistoryFolder, Keep, RecordedEvent, RecordedHistory, RecordedSession, each_record, moment, open,
};
use recall_domain::material::BatchSource;

pub(super) const HISTORY: RecordedHistory = RecordedHistory {
    place: HistoryFolder::Agent("projects"),
    also: &[],
    is_session,
    inside: None,
    read,
    each: Some(each),
    // Answers are found by the id of their turn.
    tail: None,
    prompts: Some(|reader, _| Ok(read_records(reader, RecordedSession::default(), Side::Main, &mut kept)?.0)),
    kin: Some(|path| history::first_of(path, |record: &Record| record.uuid.clone())),
    end: Some("SessionEnd"),
};

/// Excludes the transcripts of subagents, which are read with their session.
fn is_session(path: &Path) -> bool {
    let is_named_so = || path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"agent-"));
    let is_subagent = || is_named_so() || path.components().any(|part| part.as_os_str() == "subagents");
    path.extension().is_some_and(|extension| extension == "jsonl") && !is_subagent()
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Record {
    #[serde(rename = "type")]
    kind: String,
    subtype: Option<String>,
    uuid: Option<String>,
    parent_uuid: Option<String>,
    agent_id: Option<String>,
    timestamp: Option<String>,
    session_id: Option<String>,
    cwd: Option<String>,
    prompt_id: Option<String>,
    is_meta: bool,
    is_sidechain: bool,
    is_compact_summary: bool,
    is_api_error_message: bool,
    /// The author of a prompt.
    origin: Value,
    turn_origin: Option<String>,
    prompt_source: Option<String>,
    tool_use_result: Value,
    message: Message,
    compact_metadata: CompactMetadata,
    custom_title: Option<String>,
    attachment: Attachment,
    operation: String,
    /// Text that was typed while the agent worked.
    content: Value,
}

impl Record {
    /// Whether this is a prompt. Results of calls also come as messages of the user.
    fn is_prompt(&self) -> bool {
        self.kind == "user" && blocks(&self.message.content).all(|block| block["type"] != "tool_result")
    }
}

/// Text between a turn's messages, such as a prompt that was typed while the agent worked.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Attachment {
    #[serde(rename = "type")]
    kind: String,
    prompt: Value,
    command_mode: Option<String>,
    origin: Value,
    is_meta: bool,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Message {
    id: Option<String>,
    content: Value,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct CompactMetadata {
    trigger: Option<String>,
}

/// The file with a subagent's type.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct SubagentNote {
    agent_type: Option<String>,
}

/// A text that no call has followed yet, so it may be the answer.
struct Text {
    record: String,
    message: Option<String>,
    at_ms: i64,
    text: String,
}

/// The author of the records: the main agent or a subagent.
enum Side {
    Main,
    Subagent { id: String, kind: Option<String> },
}

impl Side {
    /// The side of a subagent's file.
    fn of_subagent(file: &Path) -> Self {
        let id = file.file_stem().unwrap_or_default().to_string_lossy();
        let id = id.strip_prefix("agent-").unwrap_or(&id).to_owned();
        let note = std::fs::read(file.with_extension("meta.json")).unwrap_or_default();
        let kind = serde_json::from_slice::<SubagentNote>(&note).unwrap_or_default().agent_type;
        Self::Subagent { id, kind }
    }
}

struct Reading {
    session: RecordedSession,
    side: Side,
    prompt: Option<String>,
    /// The tool and input of each call, by the call's id.
    calls: HashMap<String, (String, Value)>,
    answer: Option<Text>,
    title: Option<String>,
    /// When prompts were typed that waited for the running turn.
    waiting: HashMap<String, i64>,
    trigger: String,
    chain: Chain,
}

fn read(path: &Path, _: Option<&str>) -> io::Result<RecordedSession> {
    let files = subagents(path);
    let length = |file: &Path| file.metadata().map_or(0, |file| file.len());
    let session = RecordedSession {
        id: path.file_stem().unwrap_or_default().to_string_lossy().into_owned(),
        keep: Keep::of(files.iter().map(|file| length(file)).sum::<u64>() + length(path)),
        ..RecordedSession::default()
    };
    let (mut session, title) = read_file(path, session, Side::Main, &mut kept)?;
    let main = session.events.len();
    for file in files {
        let empty = RecordedSession {
            id: session.id.clone(),
            cwd: session.cwd.clone(),
            keep: session.keep,
            ..Default::default()
        };
        let side = Side::of_subagent(&file);
        let (of_subagent, _) = read_file(&file, empty, side, &mut kept)?;
        session.unreadable += of_subagent.unreadable;
        session.events.extend(of_subagent.events);
    }
    if session.events.len() > main {
        session.events.sort_by_key(|event| event.at_ms);
    }
    // A title can come with any event.
    if let Some(title) = title {
        session.add_to_last("session_title", json!(title));
    }
    Ok(session)
}

/// Keeps all events in the session.
fn kept(_: &mut RecordedSession) {}

fn each(path: &Path, take: &mut dyn FnMut(RecordedEvent)) -> io::Result<()> {
    let id = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
    let mut cwd = String::new();
    let sides = subagents(path).into_iter().map(|file| (Side::of_subagent(&file), file));
    for (side, file) in std::iter::once((Side::Main, path.to_owned())).chain(sides) {
        let empty = RecordedSession { id: id.clone(), cwd: cwd.clone(), ..Default::default() };
        let (last, _) = read_file(&file, empty, side, &mut |session| session.hand_over(take))?;
        cwd.clone_from(&last.cwd);
        last.events.into_iter().for_each(&mut *take);
    }
    Ok(())
}

fn subagents(path: &Path) -> Vec<PathBuf> {
    let files = |folder: &Path| {
        let files = std::fs::read_dir(folder).into_iter().flatten().flatten().map(|entry| entry.path());
        files
            .filter(|file| file.extension().is_some_and(|extension| extension == "jsonl"))
            .collect::<Vec<_>>()
    };
    let mut own = files(&path.with_extension("").join("subagents"));
    let session = path.file_stem().unwrap_or_default().to_string_lossy();
    let beside = files(path.parent().unwrap_or(path)).into_iter().filter(|file| !is_session(file));
    own.extend(beside.filter(|file| {
        history::first_of(file, |record: &Record| record.session_id.clone())
            .first()
            .is_some_and(|id| *id == session)
    }));
    own.sort();
    own
}

fn read_file(
    path: &Path,
    session: RecordedSession,
    side: Side,
    settle: &mut dyn FnMut(&mut RecordedSession),
) -> io::Result<(RecordedSession, Option<String>)> {
    read_records(BufReader::new(open(path)?), session, side, settle)
}

fn read_records(
    reader: impl BufRead,
    session: RecordedSession,
    side: Side,
    settle: &mut dyn FnMut(&mut RecordedSession),
) -> io::Result<(RecordedSession, Option<String>)> {
    let mut reading = Reading {
        session,
        side,
        prompt: None,
        calls: HashMap::new(),
        answer: None,
        title: None,
        waiting: HashMap::new(),
        trigger: "auto".to_owned(),
        chain: Chain::default(),
    };
    each_record(reader, |record| {
        match record {
            Some(record) => reading.take(record),
            None => reading.session.unreadable += 1,
        }
        settle(&mut reading.session);
    })?;
    reading.end_turn();
    Ok((reading.session, reading.title))
}

impl Reading {
    fn take(&mut self, mut record: Record) {
        if record.kind == "custom-title" {
            self.title = record.custom_title.take().filter(|title| !title.trim().is_empty());
        }
        let Some(at_ms) = record.timestamp.as_deref().and_then(moment) else { return };
        if record.kind == "queue-operation" && record.operation == "enqueue" {
            self.waiting.insert(text_of(&record.content), at_ms);
        }
        let Some(uuid) = record.uuid.clone() else { return };
        // Older versions kept subagents' records in the session's file, without naming the subagent.
        if record.is_sidechain && matches!(self.side, Side::Main) {
            return;
        }
        self.begin(&record, at_ms);
        if record.is_prompt() {
            self.chain.begin(&uuid);
        } else if self.chain.follow(&uuid, record.parent_uuid.as_deref()) == Link::Broken
            && record.kind == "assistant"
        {
            // The call answers a prompt that is lost, so the turn before is over.
            return self.end_turn();
        }
        match record.kind.as_str() {
            "user" if record.is_compact_summary => {
                let summary = text_of(&record.message.content);
                let fields = json!({"trigger": self.trigger, "compact_summary": summary});
                self.push(at_ms, uuid, "PostCompact", fields);
            }
            "user" => self.take_user(record, at_ms, &uuid),
            "assistant" if !record.is_api_error_message => self.take_assistant(record, at_ms, uuid),
            "system" if record.subtype.as_deref() == Some("compact_boundary") => {
                self.trigger = record.compact_metadata.trigger.unwrap_or_else(|| "auto".to_owned());
                self.push(at_ms, uuid, "PreCompact", json!({"trigger": self.trigger}));
            }
            "attachment" => self.take_queued(record.attachment, at_ms, uuid),
            _ => {}
        }
    }

    /// Adds a prompt that was typed while the agent worked. It belongs to the running turn. Texts from other programs
    /// are not prompts.
    fn take_queued(&mut self, queued: Attachment, at_ms: i64, uuid: String) {
        let Attachment { kind, prompt, command_mode, origin, is_meta } = queued;
        let is_of_person = origin["kind"].as_str().is_none_or(|kind| kind == "human") && !is_meta;
        let is_prompt = command_mode.as_deref().is_none_or(|mode| mode == "prompt");
        let typed_ms = self.waiting.remove(&text_of(&prompt));
        let text = SPEC.without_injected_blocks(&text_of(&prompt)).trim().to_owned();
        let is_machine = SPEC.conventions.machine_source(&text).is_some();
        if kind == "queued_command" && is_of_person && is_prompt && !is_machine && !text.is_empty() {
            self.push(at_ms, uuid, "UserPromptSubmit", json!({"prompt": text}));
            if let Some((event, typed_ms)) = self.session.events.last_mut().zip(typed_ms) {
                event.occurred_ms = typed_ms;
            }
        }
    }

    /// Starts the session at its first conversation record.
    fn begin(&mut self, record: &Record, at_ms: i64) {
        if !self.session.events.is_empty() || !matches!(record.kind.as_str(), "user" | "assistant") {
            return;
        }
        if self.session.cwd.is_empty() {
            self.session.cwd = record.cwd.clone().unwrap_or_default();
        }
        match &self.side {
            Side::Main => {
                // A fork's file has its own name, and contains records of the session that it came from.
                let id = format!("{} start", self.session.id);
                self.push(at_ms, id, "SessionStart", json!({"source": "startup"}));
            }
            Side::Subagent { id, .. } => {
                let id = format!("{} {id} start", self.session.id);
                self.push(at_ms, id, "SubagentStart", json!({}));
            }
        }
    }

    fn push(&mut self, at_ms: i64, id: impl Into<String>, name: &str, mut fields: Value) {
        if let Some(prompt) = &self.prompt {
            fields["prompt_id"] = json!(prompt);
        }
        if let Side::Subagent { id, kind } = &self.side {
            fields["agent_id"] = json!(id);
            fields["agent_type"] = json!(kind.as_deref().unwrap_or("general-purpose"));
        }
        self.session.push(at_ms, id, name, fields);
    }

    fn take_user(&mut self, record: Record, at_ms: i64, uuid: &str) {
        let written = machine_source(&record);
        let Record { prompt_id, message, tool_use_result, is_meta, .. } = record;
        let results = blocks(&message.content).filter(|block| block["type"] == "tool_result");
        let results: Vec<Value> = results.cloned().collect();
        if !results.is_empty() {
            let is_only_one = results.len() == 1;
            for result in results {
                self.take_result(&result, is_only_one.then_some(&tool_use_result), at_ms);
            }
            return;
        }
        // A subagent's prompt comes from its caller.
        if matches!(self.side, Side::Subagent { .. }) {
            self.prompt = prompt_id;
            return;
        }
        let text = SPEC.without_injected_blocks(&text_of(&message.content));
        let text = text.trim();
        // Texts that the program inserts into a running turn (a command's output, a hook's feedback) do not begin one.
        let from_text = SPEC.conventions.machine_source(text);
        let source = match (written, from_text) {
            (_, Some(BatchSource::System)) => return,
            (Some(written), _) if is_meta && written == BatchSource::System => return,
            (written, from_text) => written.or(from_text),
        };
        if text.is_empty() || is_meta && source.is_none() {
            return;
        }
        self.end_turn();
        self.prompt = Some(prompt_id.unwrap_or_else(|| uuid.to_owned()));
        let mut fields = json!({"prompt": text});
        if let Some(source) = source {
            fields["source"] = json!(typed::word_for(source));
        }
        self.push(at_ms, uuid, "UserPromptSubmit", fields);
    }

    fn take_result(&mut self, result: &Value, response: Option<&Value>, at_ms: i64) {
        let Some(id) = result["tool_use_id"].as_str() else { return };
        let Some((tool, input)) = self.calls.remove(id) else { return };
        let output = text_of(&result["content"]);
        let mut fields = json!({"tool_name": tool, "tool_input": input, "tool_use_id": id});
        let name = if result["is_error"] == true {
            fields["error"] = json!(output);
            "PostToolUseFailure"
        } else {
            let response = response.filter(|response| !response.is_null()).cloned();
            fields["tool_response"] = response.unwrap_or_else(|| json!(output));
            "PostToolUse"
        };
        self.push(at_ms, format!("{id} result"), name, fields);
    }

    fn take_assistant(&mut self, record: Record, at_ms: i64, uuid: String) {
        for block in blocks(&record.message.content) {
            match block["type"].as_str() {
                Some("tool_use") => {
                    // Text before a call is not the answer.
                    self.answer = None;
                    let (id, tool) = (block["id"].as_str(), block["name"].as_str());
                    if let (Some(id), Some(tool)) = (id, tool) {
                        self.calls.insert(id.to_owned(), (tool.to_owned(), block["input"].clone()));
                    }
                }
                Some("text") => {
                    let text = block["text"].as_str().unwrap_or_default().to_owned();
                    let message = record.message.id.clone();
                    match &mut self.answer {
                        // Each block of a message has its own record.
                        Some(answer) if message.is_some() && answer.message == message => {
                            answer.text.push_str("\n\n");
                            answer.text.push_str(&text);
                        }
                        answer => *answer = Some(Text { record: uuid.clone(), message, at_ms, text }),
                    }
                }
                _ => {}
            }
        }
    }

    fn end_turn(&mut self) {
        let Some(Text { record, at_ms, text, .. }) = self.answer.take() else { return };
        let name = match self.side {
            Side::Main => "Stop",
            Side::Subagent { .. } => "SubagentStop",
        };
        self.push(at_ms, format!("{record} stop"), name, json!({"last_assistant_message": text}));
    }
}

/// The source of a record's prompt, if the record says that no person typed it.
fn machine_source(record: &Record) -> Option<BatchSource> {
    let kind = record.origin["kind"].as_str();
    let of_kind = kind.filter(|kind| !typed::is_person(kind));
    let of_kind = of_kind.map(|kind| typed::machine(kind).unwrap_or(BatchSource::System));
    let words = [&record.turn_origin, &record.prompt_source];
    of_kind.or_else(|| words.into_iter().flatten().find_map(|word| typed::machine(word)))
}

fn blocks(content: &Value) -> impl Iterator<Item = &Value> {
    content.as_array().into_iter().flatten()
}

/// The text of a message or a result.
fn text_of(content: &Value) -> String {
    match content {
        Value::String(text) => text.clone(),
        content => {
            let texts = blocks(content).filter(|block| block["type"] == "text");
            texts.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
    }
}
