//! Reads rollouts of Codex CLI as hook events.
//!
//! Format: `sessions/YYYY/MM/DD/rollout-<time>-<thread>.jsonl`, lines of `{timestamp, type, payload}`. Checked against
//! 0.169.0 and the format of late 2025. Old rollouts are compressed (`.jsonl.zst`), and archived ones are in
//! `archived_sessions`. Rollouts of subagents are left out, because their parent contains their reports.

use std::collections::HashMap;
use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};

use super::SPEC;
use crate::history::{
    HistoryFolder, Keep, RecordedEvent, RecordedHistory, RecordedSession, each_record, moment, open,
};
use recall_domain::material::BatchSource;

pub(super) const HISTORY: RecordedHistory = RecordedHistory {
    place: HistoryFolder::Agent("sessions"),
    also: &["archived_sessions"],
    is_session,
    inside: None,
    read,
    each: Some(each),
    tail: Some(read_records),
    prompts: None,
    kin: Some(kin),
    end: Some("SessionEnd"),
};

/// The text before a command's output.
const OUTPUT: &str = "Output:\n";

/// The ending of a compressed rollout's name.
const COMPRESSED: &str = ".jsonl.zst";
/// A rough factor by which unpacking lengthens a rollout.
const PACKING: u64 = 8;
/// The maximum length of an unpacked rollout, in bytes. Longer ones are cut.
const MOST_UNPACKED: u64 = 4 << 30;
/// How much of a rollout's beginning is read to find the session from which it was forked: the maximum number of bytes,
/// and of records that name sessions.
const HEAD: u64 = 1 << 20;
const MOST_METAS: usize = 16;

fn is_session(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.starts_with("rollout-") && (name.ends_with(".jsonl") || name.ends_with(COMPRESSED))
}

/// The lines of a rollout, unpacked.
fn lines_of(path: &Path) -> io::Result<Box<dyn BufRead>> {
    let file = open(path)?;
    Ok(match path.to_string_lossy().ends_with(COMPRESSED) {
        true => Box::new(BufReader::new(zstd::stream::read::Decoder::new(file)?.take(MOST_UNPACKED))),
        false => Box::new(BufReader::new(file)),
    })
}

/// The thread's own id, and the ids of the threads that it was forked from.
fn kin(path: &Path) -> Vec<String> {
    let Ok(lines) = lines_of(path) else { return Vec::new() };
    let lines = lines.take(HEAD).split(b'\n').map_while(Result::ok);
    let records = lines.filter_map(|line| serde_json::from_slice::<Line>(&line).ok());
    let metas = records.filter(|line| line.kind == "session_meta").take(MOST_METAS);
    metas
        .flat_map(|meta| ["id", "forked_from_id"].map(|key| meta.payload[key].as_str().map(str::to_owned)))
        .flatten()
        .collect()
}

#[derive(Deserialize)]
struct Line {
    timestamp: String,
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    payload: Value,
}

#[derive(Default)]
struct Reading {
    session: RecordedSession,
    turn: Option<String>,
    calls: HashMap<String, (String, Value)>,
    /// The newest message of the agent in this turn, and its time.
    answer: Option<(i64, String)>,
    lines: usize,
    is_subagent: bool,
}

fn read(path: &Path, _: Option<&str>) -> io::Result<RecordedSession> {
    let length = open(path)?.metadata()?.len();
    let length = if path.to_string_lossy().ends_with(COMPRESSED) { length * PACKING } else { length };
    read_lines(&mut *lines_of(path)?, Keep::of(length), &mut |_| ())
}

fn each(path: &Path, take: &mut dyn FnMut(RecordedEvent)) -> io::Result<()> {
    let last = read_lines(&mut *lines_of(path)?, Keep::All, &mut |session| session.hand_over(take))?;
    last.events.into_iter().for_each(take);
    Ok(())
}

fn read_records(reader: &mut dyn BufRead, _: &str) -> io::Result<RecordedSession> {
    read_lines(reader, Keep::All, &mut |_| ())
}

fn read_lines(
    reader: &mut dyn BufRead,
    keep: Keep,
    settle: &mut dyn FnMut(&mut RecordedSession),
) -> io::Result<RecordedSession> {
    let mut reading = Reading::default();
    reading.session.keep = keep;
    each_record(reader, |line| {
        reading.lines += 1;
        match line {
            Some(line) => reading.take(line),
            None => reading.session.unreadable += 1,
        }
        settle(&mut reading.session);
    })?;
    reading.end_turn();
    Ok(match reading.is_subagent {
        true => RecordedSession::default(),
        false => reading.session,
    })
}

impl Reading {
    fn take(&mut self, Line { timestamp, kind, payload }: Line) {
        let Some(at_ms) = moment(&timestamp) else { return };
        let inner = payload["type"].as_str().unwrap_or_default();
        if kind == "event_msg" {
            self.begin_turn(&payload);
        }
        match (kind.as_str(), inner) {
            // A resumed session has a second one.
            ("session_meta", _) if self.session.id.is_empty() => self.begin(at_ms, &payload),
            ("turn_context", _) => self.begin_turn(&payload),
            ("event_msg", "user_message") => self.prompt(at_ms, payload["message"].as_str()),
            ("event_msg", "agent_message") => self.keep_answer(at_ms, payload["message"].as_str()),
            ("event_msg", "item_completed") => self.item(at_ms, &payload["item"]),
            ("event_msg", "task_complete") => {
                self.keep_answer(at_ms, payload["last_agent_message"].as_str());
                self.end_turn();
            }
            ("event_msg", "turn_aborted") => {
                self.answer = None;
                self.push(at_ms, "Interrupt", json!({}));
            }
            ("response_item", "function_call" | "custom_tool_call") => self.call(&payload),
            ("response_item", "function_call_output" | "custom_tool_call_output") => {
                self.result(at_ms, &payload);
            }
            ("compacted", _) => {
                self.push(at_ms, "PreCompact", json!({"trigger": "auto"}));
                let fields = json!({"trigger": "auto", "compact_summary": payload["message"]});
                self.push(at_ms, "PostCompact", fields);
            }
            _ => {}
        }
    }

    /// Takes the turn's id from a line that names it. An interrupted turn ends when another one begins.
    fn begin_turn(&mut self, payload: &Value) {
        let Some(turn) = payload["turn_id"].as_str() else { return };
        if self.turn.as_deref() != Some(turn) {
            self.end_turn();
            self.turn = Some(turn.to_owned());
        }
    }

    /// Begins the session. A source that is an object belongs to a subagent, or to a program that a person uses.
    fn begin(&mut self, at_ms: i64, meta: &Value) {
        let text = |key: &str| meta[key].as_str().unwrap_or_default().to_owned();
        self.is_subagent = meta["source"].is_object() && meta["source"].get("custom").is_none();
        (self.session.id, self.session.cwd) = (text("id"), text("cwd"));
        self.push(at_ms, "SessionStart", json!({"source": "startup"}));
    }

    /// Adds an event. Its id is the line's number, because lines are only appended.
    fn push(&mut self, at_ms: i64, name: &str, mut fields: Value) {
        if let Some(turn) = &self.turn {
            fields["turn_id"] = json!(turn);
        }
        let id = format!("{} {} {name}", self.session.id, self.lines);
        self.session.push(at_ms, id, name, fields);
    }

    fn prompt(&mut self, at_ms: i64, text: Option<&str>) {
        let Some(text) = text.filter(|text| !text.trim().is_empty()) else { return };
        // Instructions and similar texts belong to a turn, and do not begin one.
        if SPEC.conventions.machine_source(text) == Some(BatchSource::System) {
            return;
        }
        self.end_turn();
        self.push(at_ms, "UserPromptSubmit", json!({"prompt": text}));
    }

    fn keep_answer(&mut self, at_ms: i64, text: Option<&str>) {
        if let Some(text) = text.filter(|text| !text.trim().is_empty()) {
            self.answer = Some((at_ms, text.to_owned()));
        }
    }

    fn end_turn(&mut self) {
        if let Some((at_ms, text)) = self.answer.take() {
            self.push(at_ms, "Stop", json!({"last_assistant_message": text}));
        }
    }

    fn item(&mut self, at_ms: i64, item: &Value) {
        let text = || {
            let parts = item["content"].as_array().into_iter().flatten();
            parts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        };
        match item["type"].as_str() {
            Some("UserMessage") => self.prompt(at_ms, Some(&text())),
            Some("AgentMessage") => self.keep_answer(at_ms, Some(&text())),
            _ => {}
        }
    }

    /// Reports a call under the hooks' name for the tool.
    fn call(&mut self, payload: &Value) {
        let (Some(id), Some(name)) = (payload["call_id"].as_str(), payload["name"].as_str()) else { return };
        let given =
            payload["arguments"].as_str().map(|text| serde_json::from_str(text).unwrap_or(Value::Null));
        let (tool, input) = match (name, given) {
            ("exec_command" | "shell" | "local_shell", Some(given)) => {
                ("Bash".to_owned(), json!({"command": command_of(&given)}))
            }
            (name, Some(given)) => match payload["namespace"].as_str() {
                Some(namespace) => (format!("{namespace}__{name}"), given),
                None => (name.to_owned(), given),
            },
            (name, None) => (name.to_owned(), json!({"command": payload["input"]})),
        };
        self.calls.insert(id.to_owned(), (tool, input));
    }

    fn result(&mut self, at_ms: i64, payload: &Value) {
        let Some(id) = payload["call_id"].as_str() else { return };
        let Some((tool, input)) = self.calls.remove(id) else { return };
        let fields = json!({"tool_name": tool, "tool_input": input, "tool_use_id": id,
                            "tool_response": output_of(&payload["output"])});
        self.push(at_ms, "PostToolUse", fields);
    }
}

/// The command line of a shell call: a string, or the words of `bash -lc TEXT`.
fn command_of(given: &Value) -> String {
    match (&given["cmd"], &given["command"]) {
        (Value::String(text), _) | (_, Value::String(text)) => text.clone(),
        (_, Value::Array(words)) => match words.as_slice() {
            [_, Value::String(option), Value::String(text)] if option.ends_with('c') => text.clone(),
            words => words.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(" "),
        },
        _ => String::new(),
    }
}

/// The result of a call, in the hooks' format. A failed command's exit code precedes its output.
fn output_of(output: &Value) -> String {
    let text = match output {
        Value::String(text) => text.clone(),
        output => {
            let parts = output.as_array().into_iter().flatten();
            parts.filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
    };
    // The older form is JSON in a string.
    if let Ok(Value::Object(parts)) = serde_json::from_str::<Value>(&text)
        && let Some(inner) = parts.get("output").and_then(Value::as_str)
    {
        let code = parts.get("metadata").and_then(|metadata| metadata["exit_code"].as_i64());
        return with_code(code, inner);
    }
    let Some((head, body)) = text.split_once(OUTPUT) else { return text };
    let code = head.lines().find_map(|line| line.strip_prefix("Process exited with code "));
    match code {
        Some(code) => with_code(code.trim().parse().ok(), body),
        None => text,
    }
}

fn with_code(code: Option<i64>, output: &str) -> String {
    match code {
        Some(code) if code != 0 => format!("Exit code: {code}\n{OUTPUT}{output}"),
        _ => output.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_output_of_a_failed_command_has_its_exit_code() {
        let output = |text: &str| output_of(&json!(text));
        assert_eq!(output("Chunk ID: 1\nProcess exited with code 0\nOutput:\nok\n"), "ok\n");
        assert_eq!(output("Process exited with code 2\nOutput:\nno\n"), "Exit code: 2\nOutput:\nno\n");
        assert_eq!(output(r#"{"output":"no","metadata":{"exit_code":1}}"#), "Exit code: 1\nOutput:\nno");
        assert_eq!(output("Exit code: 1\nOutput:\nno\n"), "Exit code: 1\nOutput:\nno\n");
        assert_eq!(output_of(&json!([{"text": "a"}, {"text": "b"}])), "a\nb");
    }

    #[test]
    fn a_command_is_the_text_that_the_shell_gets() {
        assert_eq!(command_of(&json!({"cmd": "ls"})), "ls");
        assert_eq!(command_of(&json!({"command": ["bash", "-lc", "ls a"]})), "ls a");
        assert_eq!(command_of(&json!({"command": ["ls", "a"]})), "ls a");
    }
}
