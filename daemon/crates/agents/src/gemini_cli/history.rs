//! Reads chats of Gemini CLI as hook events.
//!
//! Format: `tmp/<project>/chats/session-*.jsonl`, one message a line. A later line with the same id replaces the
//! earlier one. Older versions wrote one JSON object in `session-*.json`. Checked against 0.61.0 and the format of
//! January 2026. The project's folder is in `.project_root` beside `chats`, or `projects.json` names it.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::history::{HistoryFolder, RecordedHistory, RecordedSession, each_record, moment, open};

pub(super) const HISTORY: RecordedHistory = RecordedHistory {
    place: HistoryFolder::Agent("tmp"),
    also: &[],
    is_session,
    inside: None,
    read,
    each: None,
    tail: Some(read_tail),
    prompts: None,
    kin: None,
    end: Some("SessionEnd"),
};

const OWN_BLOCK: (&str, &str) = ("<hook_context>", "</hook_context>");

fn is_session(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let is_chat = path.parent().and_then(Path::file_name).is_some_and(|folder| folder == "chats");
    is_chat && name.starts_with("session-") && (name.ends_with(".jsonl") || name.ends_with(".json"))
}

fn read(path: &Path, _: Option<&str>) -> io::Result<RecordedSession> {
    let extension = path.extension().unwrap_or_default().to_string_lossy();
    let mut chat = Chat::of(&mut BufReader::new(open(path)?), &extension)?;
    chat.session.cwd = folder_of(path)
        .ok_or_else(|| io::Error::other("the folder of its project is unknown: .project_root is missing"))?;
    chat.play();
    Ok(chat.session)
}

fn read_tail(reader: &mut dyn BufRead, extension: &str) -> io::Result<RecordedSession> {
    let mut chat = Chat::of(reader, extension)?;
    chat.play();
    Ok(chat.session)
}

/// Determines the project's folder from the files around the chat.
fn folder_of(path: &Path) -> Option<String> {
    let project = path.parent()?.parent()?;
    if let Ok(root) = std::fs::read_to_string(project.join(".project_root")) {
        return Some(root.trim().to_owned()).filter(|root| !root.is_empty());
    }
    let name = project.file_name()?.to_str()?;
    let known = std::fs::read(project.parent()?.parent()?.join("projects.json")).ok()?;
    let known: Value = serde_json::from_slice(&known).ok()?;
    // Older folders are named by the hash of the path.
    let hash = |path: &str| Sha256::digest(path).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut folders = known["projects"].as_object()?.iter();
    folders.find(|(path, slug)| **slug == name || hash(path) == name).map(|(path, _)| path.clone())
}

/// The messages of a chat, without repetitions.
#[derive(Default)]
struct Chat {
    session: RecordedSession,
    messages: Vec<Value>,
    /// The position of each message, by its id.
    places: HashMap<String, usize>,
}

impl Chat {
    fn of(reader: &mut dyn BufRead, extension: &str) -> io::Result<Self> {
        let mut chat = Self::default();
        if extension == "json" {
            let mut text = Vec::new();
            reader.read_to_end(&mut text)?;
            let text = String::from_utf8_lossy(text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text));
            let mut whole: Value = serde_json::from_str(text.trim_matches(['\0', ' ', '\n', '\r']))?;
            chat.head(&whole);
            let messages = whole["messages"].as_array_mut().map(std::mem::take);
            messages.into_iter().flatten().for_each(|message| chat.message(message));
            return Ok(chat);
        }
        each_record(reader, |record| match record {
            Some(record) => chat.record(record),
            None => chat.session.unreadable += 1,
        })?;
        Ok(chat)
    }

    fn head(&mut self, record: &Value) {
        if let Some(id) = record["sessionId"].as_str().filter(|_| self.session.id.is_empty()) {
            self.session.id = id.to_owned();
        }
    }

    fn record(&mut self, record: Value) {
        self.head(&record);
        if record["id"].is_string() {
            self.message(record);
        }
    }

    fn message(&mut self, message: Value) {
        let Some(id) = message["id"].as_str() else { return };
        match self.places.get(id) {
            Some(place) => self.messages[*place] = message,
            None => {
                self.places.insert(id.to_owned(), self.messages.len());
                self.messages.push(message);
            }
        }
    }

    fn play(&mut self) {
        let mut answer: Option<(i64, String, String)> = None;
        let mut prompt = String::new();
        for message in std::mem::take(&mut self.messages) {
            let (Some(id), Some(at_ms)) =
                (message["id"].as_str(), message["timestamp"].as_str().and_then(moment))
            else {
                continue;
            };
            if self.session.events.is_empty() {
                let start = format!("{} start", self.session.id);
                self.session.push(at_ms, start, "SessionStart", json!({"source": "startup"}));
            }
            match message["type"].as_str() {
                Some("user") => {
                    let shown = [&message["displayContent"], &message["content"]];
                    let text =
                        shown.into_iter().map(text_of).find(|text| !text.is_empty()).unwrap_or_default();
                    if text.is_empty() || text.starts_with("<session_context>") {
                        continue;
                    }
                    self.end_turn(answer.take(), &prompt);
                    self.session.push(at_ms, id, "BeforeAgent", json!({"prompt": text}));
                    prompt = text;
                }
                Some("gemini") => {
                    for call in message["toolCalls"].as_array().into_iter().flatten() {
                        self.call(at_ms, call);
                    }
                    let text = text_of(&message["content"]);
                    if !text.is_empty() {
                        answer = Some((at_ms, id.to_owned(), text));
                    }
                }
                _ => {}
            }
        }
        self.end_turn(answer, &prompt);
    }

    fn end_turn(&mut self, answer: Option<(i64, String, String)>, prompt: &str) {
        if let Some((at_ms, id, text)) = answer {
            let fields = json!({"prompt": prompt, "prompt_response": text});
            self.session.push(at_ms, format!("{id} answer"), "AfterAgent", fields);
        }
    }

    fn call(&mut self, at_ms: i64, call: &Value) {
        let (Some(id), Some(tool)) = (call["id"].as_str(), call["name"].as_str()) else { return };
        let at_ms = call["timestamp"].as_str().and_then(moment).unwrap_or(at_ms);
        let response = &call["result"][0]["functionResponse"]["response"];
        let output = response["output"].as_str().or_else(|| response["error"].as_str()).unwrap_or_default();
        let output = without_own_blocks(output);
        let mut answered = json!({"llmContent": output});
        if call["status"] == "error" {
            answered["error"] = json!({"message": output});
        }
        let fields = json!({"tool_name": tool, "tool_input": call["args"], "tool_response": answered});
        self.session.push(at_ms, format!("{} {id}", self.session.id), "AfterTool", fields);
    }
}

/// The text of a message, without the text that hooks added.
fn text_of(content: &Value) -> String {
    let text = match content {
        Value::String(text) => text.clone(),
        content => {
            let parts = content.as_array().into_iter().flatten();
            parts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
    };
    without_own_blocks(&text)
}

fn without_own_blocks(text: &str) -> String {
    let (open, close) = OWN_BLOCK;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, inside)) = rest.split_once(open) {
        out.push_str(before);
        rest = inside.split_once(close).map_or("", |(_, after)| after);
    }
    out.push_str(rest);
    out.trim().to_owned()
}
