//! Reads records of Command Code as hook events: `projects/<folder>/<session>.jsonl`, version 3, according to the
//! code of 1.53.1.
//!
//! The first line names the session and its folder. The first text of a user message is the user's; the program added
//! the rest, and also wrote messages with `isMeta`, `isAutomated` or `isSummary`. Entries form a tree, in which a
//! rewind begins another branch. All branches are read, because all of them took place.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use crate::history::{HistoryFolder, RecordedHistory, RecordedSession, each_record, moment, open};

pub(super) const HISTORY: RecordedHistory = RecordedHistory {
    place: HistoryFolder::Agent("projects"),
    also: &[],
    is_session,
    inside: None,
    read: |path, _| session(&mut BufReader::new(open(path)?)),
    each: None,
    tail: Some(|reader, _| session(reader)),
    prompts: None,
    kin: None,
    end: None,
};

/// Excludes checkpoints and similar files next to a session's record.
fn is_session(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.strip_suffix(".jsonl").is_some_and(|id| !id.is_empty() && !id.contains('.'))
}

#[derive(Deserialize)]
struct Entry {
    #[serde(rename = "type")]
    kind: String,
    id: String,
    timestamp: String,
    #[serde(default)]
    cwd: String,
    #[serde(default)]
    message: Value,
}

#[derive(Default)]
struct Reading {
    session: RecordedSession,
    calls: HashMap<String, (Value, Value)>,
    /// The newest text of the agent in this turn.
    answer: Option<(i64, String, String)>,
}

fn session(reader: &mut dyn BufRead) -> io::Result<RecordedSession> {
    let mut reading = Reading::default();
    each_record(reader, |entry: Option<Entry>| match entry {
        Some(entry) => reading.take(&entry),
        None => reading.session.unreadable += 1,
    })?;
    reading.end_turn();
    Ok(reading.session)
}

impl Reading {
    fn take(&mut self, entry: &Entry) {
        let Some(at_ms) = moment(&entry.timestamp) else { return };
        match (entry.kind.as_str(), entry.message["role"].as_str()) {
            ("session", _) => {
                (self.session.id, self.session.cwd) = (entry.id.clone(), entry.cwd.clone());
                self.session.push(at_ms, entry.id.clone(), "SessionStart", json!({"source": "startup"}));
            }
            ("message", Some("user")) => self.user(at_ms, entry),
            ("message", Some("assistant")) => self.agent(at_ms, entry),
            _ => {}
        }
    }

    fn user(&mut self, at_ms: i64, entry: &Entry) {
        for (number, block) in
            blocks(&entry.message).filter(|block| block["type"] == "tool_result").enumerate()
        {
            let call = block["tool_use_id"].as_str().and_then(|id| Some((id, self.calls.remove(id)?)));
            let Some((id, (name, input))) = call else { continue };
            let output = text_of(&block["content"]);
            let mut response = json!({"output": output});
            if block["is_error"] == true {
                response["is_error"] = true.into();
            }
            let fields =
                json!({"tool_name": name, "tool_input": input, "tool_use_id": id, "tool_response": response});
            self.session.push(at_ms, format!("{} {number}", entry.id), "PostToolUse", fields);
        }
        let made =
            ["isMeta", "isAutomated", "isSummary"].iter().any(|key| entry.message["meta"][key] == true);
        let Some(text) = typed(&entry.message["content"]).filter(|_| !made) else { return };
        self.end_turn();
        self.session.push(at_ms, entry.id.clone(), "UserPromptSubmit", json!({"prompt": text}));
    }

    fn agent(&mut self, at_ms: i64, entry: &Entry) {
        let text = text_of(&entry.message["content"]);
        if !text.trim().is_empty() {
            self.answer = Some((at_ms, format!("{} answer", entry.id), text));
        }
        for block in blocks(&entry.message).filter(|block| block["type"] == "tool_use") {
            if let Some(id) = block["id"].as_str() {
                self.calls.insert(id.to_owned(), (block["name"].clone(), block["input"].clone()));
            }
        }
    }

    fn end_turn(&mut self) {
        if let Some((at_ms, id, text)) = self.answer.take() {
            self.session.push(at_ms, id, "Stop", json!({"last_assistant_message": text}));
        }
    }
}

fn blocks(message: &Value) -> impl Iterator<Item = &Value> {
    message["content"].as_array().into_iter().flatten()
}

/// The texts of a message, or of a call's result.
fn text_of(content: &Value) -> String {
    if let Some(text) = content.as_str() {
        return text.to_owned();
    }
    let blocks = content.as_array().into_iter().flatten().filter(|block| block["type"] == "text");
    blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
}

/// Extracts what the user typed, without what an editor adds. `None` if the message contains only results of calls.
fn typed(content: &Value) -> Option<String> {
    let first = content.as_array().and_then(|blocks| blocks.iter().find(|block| block["type"] == "text"));
    let text = content.as_str().or_else(|| first?["text"].as_str())?;
    let text = match text.split_once("</ide-context>") {
        Some((before, rest)) if before.trim_start().starts_with("<ide-context>") => rest,
        _ => text,
    };
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AGENTS;

    const RECORD: &str = include_str!("../../../../../tests/fixtures/command-code/session.jsonl");

    #[test]
    fn prompts_are_the_typed_text_and_answers_the_last_text_of_a_turn() {
        let session = session(&mut RECORD.as_bytes()).unwrap();
        assert_eq!((session.id.as_str(), session.cwd.as_str()), ("4f1d3a52", "/home/dev/shop"));
        assert_eq!(session.unreadable, 1);
        let turns = session.turns(AGENTS.spec("command-code"));
        let prompts_and_answers: Vec<_> = turns
            .iter()
            .map(|turn| {
                (turn.prompt.as_deref().unwrap(), turn.answer.as_ref().map(|answer| answer.text.as_str()))
            })
            .collect();
        assert_eq!(
            prompts_and_answers,
            [("Fix the cart total.", Some("The total rounds once now.")), ("And the tests?", None)]
        );
        // The start, two prompts, a call and an answer.
        assert_eq!(session.events.len(), 5);
    }

    #[test]
    fn checkpoint_and_meta_files_are_not_sessions() {
        let is = |name: &str| is_session(Path::new(name));
        assert!(is("/x/4f1d3a52.jsonl"));
        assert!(!is("/x/4f1d3a52.checkpoints.jsonl") && !is("/x/4f1d3a52.meta.json") && !is("/x/.jsonl"));
    }
}
