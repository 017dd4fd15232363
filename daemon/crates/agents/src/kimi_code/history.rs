//! Reads sessions of Kimi Code as hook events.
//!
//! Format: `sessions/<project>/<session>/agents/main/wire.jsonl`, one record per line, with times in milliseconds.
//! The project's folder is in the session's `state.json`. Checked against 2.1.0. Subagents have their own records,
//! which are left out, because the main record contains their reports.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::history::{HistoryFolder, RecordedHistory, RecordedSession, each_record, open};

pub(super) const HISTORY: RecordedHistory = RecordedHistory {
    place: HistoryFolder::Agent(SESSIONS),
    also: &[],
    is_session: |path| path.ends_with(RECORD),
    inside: None,
    read,
    each: None,
    tail: Some(|reader, _| session(reader, RecordedSession::default())),
    prompts: None,
    kin: None,
    end: Some("SessionEnd"),
};

const SESSIONS: &str = "sessions";
/// The record in the folder of a session.
const RECORD: &str = "agents/main/wire.jsonl";

/// The path of a session's record in the program's own folder.
pub(super) fn record_of(cwd: &str, session: &str) -> String {
    format!("{SESSIONS}/{}/{session}/{RECORD}", project_key(cwd))
}

/// The program's name for a project: the last part of its path and the start of a hash of the whole.
fn project_key(cwd: &str) -> String {
    const LONGEST: usize = 40;
    const HASH: usize = 6;
    let cwd = cwd.trim_end_matches('/');
    let name = cwd.rsplit('/').next().unwrap_or(cwd).to_lowercase();
    let is_kept = |sign: &char| sign.is_ascii_lowercase() || sign.is_ascii_digit() || "._-".contains(*sign);
    let words = name.split(|sign: char| !is_kept(&sign)).filter(|word| !word.is_empty());
    let slug = words.collect::<Vec<_>>().join("-");
    let slug: String = slug.trim_matches('-').chars().take(LONGEST).collect();
    let slug = match slug.trim_matches('-') {
        "" | "." | ".." => "workspace",
        slug => slug,
    };
    let hash: String = Sha256::digest(cwd).iter().take(HASH).map(|byte| format!("{byte:02x}")).collect();
    format!("wd_{slug}_{hash}")
}

/// A line of a session's record.
#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Record {
    #[serde(rename = "type")]
    kind: String,
    time: i64,
    prompt_id: String,
    input: Value,
    origin: Value,
    event: Value,
}

fn read(path: &Path, _: Option<&str>) -> io::Result<RecordedSession> {
    let folder = path.ancestors().nth(3).unwrap_or(path);
    let state: Value = serde_json::from_reader(BufReader::new(open(&folder.join("state.json"))?))?;
    let cwd = state["cwd"].as_str().ok_or_else(|| io::Error::other("its state.json names no folder"))?;
    let id = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let empty = RecordedSession { id, cwd: cwd.to_owned(), ..RecordedSession::default() };
    session(&mut BufReader::new(open(path)?), empty)
}

#[derive(Default)]
struct Reading {
    session: RecordedSession,
    prompt: String,
    /// The turn's last text, with its time in milliseconds.
    answer: Option<(i64, String)>,
    /// The tool and input of each call, by the call's id.
    calls: HashMap<String, (String, Value)>,
}

fn session(reader: &mut dyn BufRead, session: RecordedSession) -> io::Result<RecordedSession> {
    let mut reading = Reading { session, ..Reading::default() };
    each_record(reader, |record: Option<Record>| match record {
        Some(record) => reading.take(record),
        None => reading.session.unreadable += 1,
    })?;
    reading.end_turn();
    Ok(reading.session)
}

impl Reading {
    fn take(&mut self, record: Record) {
        match record.kind.as_str() {
            "turn.prompt" if record.origin["kind"] == "user" => {
                self.end_turn();
                let prompt = json!({"prompt": record.input});
                self.session.push(record.time, record.prompt_id.clone(), "UserPromptSubmit", prompt);
                self.prompt = record.prompt_id;
            }
            "context.append_loop_event" => self.step(record.time, &record.event),
            _ => {}
        }
    }

    fn step(&mut self, at_ms: i64, event: &Value) {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let call = text(&event["toolCallId"]);
        match event["type"].as_str() {
            Some("content.part") if event["part"]["type"] == "text" => {
                self.answer = Some((at_ms, text(&event["part"]["text"])));
            }
            Some("tool.call") => {
                // Text before a call is not the answer.
                self.answer = None;
                self.calls.insert(call, (text(&event["name"]), event["args"].clone()));
            }
            Some("tool.result") => {
                let Some((name, input)) = self.calls.remove(&call) else { return };
                let result = &event["result"];
                let mut payload = json!({"tool_name": name, "tool_input": input, "tool_call_id": call});
                payload["duration_ms"] = result["durationMs"].clone();
                let (field, event) = match result["isError"] == true {
                    true => ("error", "PostToolUseFailure"),
                    false => ("tool_output", "PostToolUse"),
                };
                payload[field] = result["output"].clone();
                self.session.push(at_ms, call, event, payload);
            }
            _ => {}
        }
    }

    fn end_turn(&mut self) {
        if let Some((at_ms, text)) = self.answer.take() {
            let id = format!("{} answer", self.prompt);
            self.session.push(at_ms, id, "Stop", json!({"last_assistant_message": text}));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AGENTS;

    const WIRE: &str = include_str!("../../../../../tests/fixtures/kimi-code/wire.jsonl");

    #[test]
    fn the_prompt_and_the_answer_of_a_turn_are_read_from_a_record() {
        let session = session(&mut WIRE.as_bytes(), RecordedSession::default()).unwrap();
        assert_eq!(session.unreadable, 0);
        let turns = session.turns(AGENTS.spec("kimi-code"));
        let answer = turns[0].answer.as_ref().unwrap();
        assert_eq!(
            turns[0].prompt.as_deref(),
            Some("Add a percentage discount to the cart total and keep the cents right.")
        );
        assert!(
            answer.text.starts_with("Decision: the cart discount is a whole percentage"),
            "{}",
            answer.text
        );
        assert_eq!(session.events.len(), 7);
    }

    #[test]
    fn the_path_of_a_record_is_derived_from_folder_and_session() {
        assert_eq!(
            record_of("/work/.team/run-kimi-code/shop", "session_1"),
            "sessions/wd_shop_5a9f67201135/session_1/agents/main/wire.jsonl"
        );
        assert!(project_key("/home/dev/My Shop (new)/").starts_with("wd_my-shop-new_"));
        assert!(project_key("/").starts_with("wd_workspace_"));
    }

    #[test]
    fn a_sessions_folder_is_read_from_its_state_file() {
        let own = tempfile::tempdir().unwrap();
        let folder = own.path().join("sessions/wd_shop_1/session_1");
        std::fs::create_dir_all(folder.join("agents/main")).unwrap();
        let path = folder.join(RECORD);
        std::fs::write(&path, WIRE).unwrap();
        assert!((HISTORY.is_session)(&path) && read(&path, None).is_err());
        std::fs::write(folder.join("state.json"), r#"{"id":"session_1","cwd":"/shop"}"#).unwrap();
        let session = read(&path, None).unwrap();
        assert_eq!((session.id.as_str(), session.cwd.as_str()), ("session_1", "/shop"));
    }
}
