//! Reads sessions of OpenCode as hook events.
//!
//! Format: the SQLite database `opencode.db` with the tables `session`, `message` and `part`, the latter two with
//! JSON in `data`. Checked against 1.18.33. Older versions wrote one file for each:
//! `storage/session/<project>/<session>.json`, `storage/message/<session>/<message>.json`,
//! `storage/part/<message>/<part>.json`. Sessions of subagents are left out, because their parent contains their
//! reports.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use rusqlite::{Connection, OpenFlags, Row};
use serde_json::{Value, json};

use crate::history::{self, HistoryFolder, RecordedHistory, RecordedSession};

pub(super) const HISTORY: RecordedHistory = RecordedHistory {
    place: HistoryFolder::UserData("opencode"),
    also: &[],
    is_session: |path| is_database(path) || is_old(path),
    inside: Some(|path| match is_old(path) {
        true => old_sessions(path),
        false => sessions(path).map_err(io::Error::other),
    }),
    read: |path, id| match is_old(path) {
        true => read_old(path),
        false => {
            known_tables(path)?;
            read(path, id.unwrap_or_default()).map_err(io::Error::other)
        }
    },
    each: None,
    tail: None,
    prompts: None,
    kin: None,
    end: Some("SessionEnd"),
};

/// The database of a fork, in the same format.
pub(crate) const OF_KILO: RecordedHistory =
    RecordedHistory { place: HistoryFolder::UserData("kilo"), ..HISTORY };

/// The maximum size of a file of the old format, in bytes. A larger one is not a session.
const LARGEST: u64 = 64 << 20;

fn is_database(path: &Path) -> bool {
    ["opencode.db", "kilo.db"].iter().any(|name| path.ends_with(name))
}

/// Whether the file is a session in the old format.
fn is_old(path: &Path) -> bool {
    let folder = path.parent().and_then(Path::parent);
    path.extension().is_some_and(|extension| extension == "json")
        && folder.is_some_and(|folder| folder.ends_with("storage/session"))
}

fn open(path: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    Connection::open_with_flags(path, flags)
}

fn known_tables(path: &Path) -> io::Result<()> {
    let is_known = || -> rusqlite::Result<bool> {
        let db = open(path)?;
        Ok(["session", "message", "part"]
            .iter()
            .all(|table| db.table_exists(None, *table).unwrap_or_default()))
    };
    match is_known().map_err(io::Error::other)? {
        true => Ok(()),
        false => Err(io::Error::other(
            "its tables differ from those of OpenCode up to 1.18, so nothing was imported; a newer recall may support them",
        )),
    }
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
        if take_row(&mut reading, row).is_err() {
            reading.session.unreadable += 1;
        }
    }
    Ok(reading.finish())
}

/// Reads one row. Fails if the row's part is damaged; a message whose own record is damaged is skipped.
fn take_row(reading: &mut Reading, row: &Row<'_>) -> rusqlite::Result<()> {
    let message: String = row.get(0)?;
    if reading.message.as_ref().is_none_or(|known| known.id != message) {
        let (at_ms, data) = (row.get(1)?, json_of(row, 2).unwrap_or_default());
        reading.begin_message(message, at_ms, data);
    }
    let (part, at_ms, data) = (row.get::<_, String>(3)?, row.get(4)?, json_of(row, 5)?);
    reading.part(&part, at_ms, &data);
    Ok(())
}

fn json_of(row: &Row<'_>, column: usize) -> rusqlite::Result<Value> {
    let damaged = |error: serde_json::Error| {
        rusqlite::Error::FromSqlConversionFailure(column, rusqlite::types::Type::Text, Box::new(error))
    };
    serde_json::from_str(&row.get::<_, String>(column)?).map_err(damaged)
}

/// Lists the session of a file in the old format; none for a subagent's file.
fn old_sessions(path: &Path) -> io::Result<Vec<String>> {
    let session = json_file(path)?;
    let id = session["id"].as_str().filter(|_| !session["parentID"].is_string());
    Ok(id.map(str::to_owned).into_iter().collect())
}

fn json_file(path: &Path) -> io::Result<Value> {
    let mut text = Vec::new();
    history::open(path)?.take(LARGEST).read_to_end(&mut text)?;
    Ok(serde_json::from_slice(&text)?)
}

fn read_old(path: &Path) -> io::Result<RecordedSession> {
    let info = json_file(path)?;
    let storage = path.ancestors().nth(3).unwrap_or(path);
    let text = |key: &str| info[key].as_str().unwrap_or_default().to_owned();
    let mut session =
        RecordedSession { id: text("id"), cwd: text("directory"), ..RecordedSession::default() };
    let began = info["time"]["created"].as_i64().unwrap_or_default();
    session.push(began, format!("{} start", session.id), "SessionStart", json!({"source": "startup"}));
    let mut reading = Reading { session, message: None, answer: None };
    let messages = reading.json_files(&storage.join("message").join(&reading.session.id));
    let mut messages: Vec<_> = messages
        .into_iter()
        .filter_map(|data| Some((data["time"]["created"].as_i64()?, data["id"].as_str()?.to_owned(), data)))
        .collect();
    messages.sort_by(|(at, id, _), (other, than, _)| (at, id).cmp(&(other, than)));
    for (at_ms, id, data) in messages {
        let parts = storage.join("part").join(&id);
        reading.begin_message(id, at_ms, data);
        for part in reading.json_files(&parts) {
            let at_ms = part["time"]["start"].as_i64().unwrap_or(at_ms);
            reading.part(part["id"].as_str().unwrap_or_default(), at_ms, &part);
        }
    }
    Ok(reading.finish())
}

struct Message {
    id: String,
    at_ms: i64,
    data: Value,
    /// The message's text.
    text: String,
}

struct Reading {
    session: RecordedSession,
    message: Option<Message>,
    /// The agent's newest message in this turn: id, time and text.
    answer: Option<(String, i64, String)>,
}

impl Reading {
    /// Reads a folder's files by name, which is the order of time.
    fn json_files(&mut self, folder: &Path) -> Vec<Value> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
        paths.sort();
        let known = paths.len();
        let read: Vec<Value> = paths.iter().filter_map(|path| json_file(path).ok()).collect();
        self.session.unreadable += known - read.len();
        read
    }

    fn begin_message(&mut self, id: String, at_ms: i64, data: Value) {
        self.end_message();
        self.message = Some(Message { id, at_ms, data, text: String::new() });
    }

    fn finish(mut self) -> RecordedSession {
        self.end_message();
        self.end_turn();
        self.session
    }

    fn part(&mut self, id: &str, at_ms: i64, part: &Value) {
        match part["type"].as_str() {
            // Text added by plugins is synthetic.
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
            // The call never ended.
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
