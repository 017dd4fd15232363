//! The sessions of OpenCode as hook events.
//!
//! Format: the SQLite database `opencode.db` with the tables `session`, `message` and `part`, the latter two with JSON in
//! `data`. Checked against 1.18.33. Sessions of subagents are left out: their parent has what they reported.

use std::io;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use serde_json::{Value, json};

use crate::agents::history::{History, Place, RecordedSession};

pub(super) const HISTORY: History = History {
    place: Place::UserData("opencode"),
    is_session: |path| path.file_name().is_some_and(|name| name == "opencode.db"),
    inside: Some(|path| sessions(path).map_err(io::Error::other)),
    read: |path, id| read(path, id.unwrap_or_default()).map_err(io::Error::other),
    end: Some("SessionEnd"),
};

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
}

fn sessions(path: &Path) -> rusqlite::Result<Vec<String>> {
    let db = open(path)?;
    let mut find = db.prepare("SELECT id FROM session WHERE parent_id IS NULL ORDER BY time_updated DESC")?;
    find.query_map([], |row| row.get(0))?.collect()
}

fn read(path: &Path, id: &str) -> rusqlite::Result<RecordedSession> {
    let db = open(path)?;
    let mut session = RecordedSession { id: id.to_owned(), ..RecordedSession::default() };
    let began: i64;
    (session.cwd, began) =
        db.query_row("SELECT directory, time_created FROM session WHERE id = ?1", [id], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })?;
    session.push(began, format!("{id} start"), "SessionStart", json!({"source": "startup"}));
    let mut find = db.prepare(
        "SELECT m.id, m.time_created, m.data, p.id, p.time_created, p.data FROM message m JOIN part p ON p.message_id = m.id
         WHERE m.session_id = ?1 ORDER BY m.time_created, m.id, p.id",
    )?;
    let mut rows = find.query([id])?;
    let mut reading = Reading { session, message: None, answer: None };
    while let Some(row) = rows.next()? {
        let json = |column| -> rusqlite::Result<Value> {
            Ok(serde_json::from_str(&row.get::<_, String>(column)?).unwrap_or_default())
        };
        let message: String = row.get(0)?;
        if reading.message.as_ref().is_none_or(|known| known.id != message) {
            reading.end_message();
            reading.message =
                Some(Message { id: message, at_ms: row.get(1)?, data: json(2)?, text: String::new() });
        }
        reading.part(&row.get::<_, String>(3)?, row.get(4)?, &json(5)?);
    }
    reading.end_message();
    reading.end_turn();
    Ok(reading.session)
}

struct Message {
    id: String,
    at_ms: i64,
    data: Value,
    /// What was said in it.
    text: String,
}

struct Reading {
    session: RecordedSession,
    message: Option<Message>,
    /// The newest message of the agent in this turn: its id, time and text.
    answer: Option<(String, i64, String)>,
}

impl Reading {
    fn part(&mut self, id: &str, at_ms: i64, part: &Value) {
        match part["type"].as_str() {
            // What plugins add is synthetic.
            Some("text") if part["synthetic"] != true => {
                let Some(message) = &mut self.message else { return };
                if !message.text.is_empty() {
                    message.text.push('\n');
                }
                message.text.push_str(part["text"].as_str().unwrap_or_default());
            }
            Some("tool") => self.call(id, at_ms, part),
            _ => {}
        }
    }

    fn call(&mut self, id: &str, at_ms: i64, part: &Value) {
        let state = &part["state"];
        let at_ms = state["time"]["end"].as_i64().unwrap_or(at_ms);
        let mut fields =
            json!({"tool_name": part["tool"], "tool_use_id": part["callID"], "tool_input": state["input"]});
        let name = match state["status"].as_str() {
            Some("completed") => {
                fields["tool_response"] = json!({"title": state["title"], "output": state["output"], "metadata": state["metadata"]});
                "PostToolUse"
            }
            Some("error") => {
                fields["error"] = state["error"].clone();
                "PostToolUseFailure"
            }
            // It never ended.
            _ => return,
        };
        self.session.push(at_ms, id, name, fields);
    }

    fn end_message(&mut self) {
        let Some(Message { id, at_ms, data, text }) = self.message.take() else { return };
        if text.trim().is_empty() {
            return;
        }
        match data["role"].as_str() {
            Some("user") => {
                self.end_turn();
                self.session.push(at_ms, id, "UserPromptSubmit", json!({"prompt": text}));
            }
            Some("assistant") if data["summary"] == true => {
                let fields = json!({"trigger": "auto", "compact_summary": text});
                self.session.push(at_ms, id, "PostCompact", fields);
            }
            Some("assistant") => {
                let ended = data["time"]["completed"].as_i64().unwrap_or(at_ms);
                self.answer = Some((id, ended, text));
            }
            _ => {}
        }
    }

    fn end_turn(&mut self) {
        if let Some((id, at_ms, text)) = self.answer.take() {
            self.session.push(at_ms, id, "Stop", json!({"last_assistant_message": text}));
        }
    }
}
