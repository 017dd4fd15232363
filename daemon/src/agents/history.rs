//! The sessions that an agent has recorded itself, as the hook events that would have reported them.
//!
//! So an imported session takes the same way as any other, with the same readers and the same rules. The id of an event
//! is made of the record's own id: whatever was imported once is recognized, also in the copy that a forked session has.

use std::io::{self, BufRead, Read};
use std::path::Path;

use recall_protocol::json_field::is_wholly_private;
use recall_protocol::json_scan::clean;
use recall_protocol::wire::{Deliver, EventId, Flags, ShimContext};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::AgentSpec;
use super::format::payload::EVENT_FIELD;

/// A longer line is skipped, in bytes. Only request snapshots and pictures are that long.
const LONGEST_LINE: u64 = 64 << 20;
/// Instead of a boot's id: imported events are ordered by their own times.
const IMPORT_BOOT: [u8; 16] = *b"recall import   ";

/// Where an agent keeps its sessions, and how one is read.
#[derive(Clone, Copy, Debug)]
pub struct History {
    pub place: Place,
    /// Whether a file below that folder holds sessions.
    pub is_session: fn(&Path) -> bool,
    /// The ids of the sessions in a file of several. Blocks.
    pub inside: Option<ListSessions>,
    /// Reads the session of a file; of a file of several the named one. Blocks.
    pub read: fn(&Path, Option<&str>) -> io::Result<RecordedSession>,
    /// The agent's name of a session's end, if it has one.
    pub end: Option<&'static str>,
}

/// Lists the ids of the sessions in a file.
pub type ListSessions = fn(&Path) -> io::Result<Vec<String>>;

/// The folder with the files.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// Below each of the agent's own folders.
    Agent(&'static str),
    /// Below the folder of the user's data, by default `~/.local/share`.
    UserData(&'static str),
}

/// A session as its agent recorded it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedSession {
    pub id: String,
    /// Where it began.
    pub cwd: String,
    /// In the order of their times.
    pub events: Vec<RecordedEvent>,
    /// Lines that could not be read.
    pub unreadable: usize,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RecordedEvent {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The record's own id, unique for this agent.
    pub id: String,
    /// What the agent's hook would have been given.
    pub payload: Map<String, Value>,
}

impl RecordedSession {
    /// Adds an event. No event is older than the one before it: records are written in the order of what happened, and
    /// some carry the time at which they began.
    pub(super) fn push(&mut self, at_ms: i64, id: impl Into<String>, name: &str, fields: Value) {
        // A time before 1970 is a clock that was not set.
        let at_ms = self.events.last().map_or(at_ms.max(0), |last| last.at_ms.max(at_ms));
        let mut payload = Map::new();
        payload.insert("session_id".to_owned(), json!(self.id));
        payload.insert("cwd".to_owned(), json!(self.cwd));
        payload.insert(EVENT_FIELD.to_owned(), json!(name));
        if let Value::Object(fields) = fields {
            payload.extend(fields);
        }
        self.events.push(RecordedEvent { at_ms, id: id.into(), payload });
    }

    /// Ends the session with its last event.
    pub fn end(&mut self, name: &str) {
        if let Some(last) = self.events.last() {
            let (at_ms, id) = (last.at_ms, format!("{} end", self.id));
            self.push(at_ms, id, name, json!({"reason": "import"}));
        }
    }

    /// When it was last worked in.
    pub fn last_ms(&self) -> Option<i64> {
        self.events.last().map(|event| event.at_ms)
    }
}

impl RecordedEvent {
    /// The event as a hook client would send it. `place`: its place among the session's events, which orders those of one
    /// moment.
    pub fn deliver(&self, spec: &AgentSpec, cwd: &str, place: usize) -> Deliver {
        let cleaned = clean(Value::Object(self.payload.clone()).to_string().as_bytes());
        let mut flags = Flags::IMPORTED.with(cleaned.flags);
        if is_wholly_private(&cleaned, spec.prompt_field) {
            flags = flags.with(Flags::WHOLLY_PRIVATE);
        }
        let context = ShimContext { cwd: cwd.to_owned(), ..ShimContext::default() };
        let wall_ns = u64::try_from(self.at_ms).unwrap_or_default().saturating_mul(1_000_000);
        Deliver {
            event_id: self.event_id(spec.name),
            agent: spec.name.to_owned(),
            event_name: String::new(),
            captured_at_ms: self.at_ms,
            boot_id: IMPORT_BOOT,
            boot_ns: wall_ns.saturating_add(place as u64),
            context,
            payload: cleaned.payload,
            flags,
        }
    }

    fn event_id(&self, agent: &str) -> EventId {
        let mut hash = Sha256::new();
        hash.update(agent);
        hash.update([0]);
        hash.update(&self.id);
        let mut bytes = [0; 16];
        let (time, rest) = bytes.split_at_mut(6);
        time.copy_from_slice(&self.at_ms.to_be_bytes()[2..]);
        rest.copy_from_slice(&hash.finalize()[..10]);
        EventId(bytes)
    }
}

/// Hands each line to `take`, without its end. Lines that are too long are handed over empty.
pub(super) fn each_line(mut reader: impl BufRead, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok(());
        }
        let is_cut = length as u64 == LONGEST_LINE && !line.ends_with(b"\n");
        if is_cut {
            line.clear();
            let mut rest = Vec::new();
            while reader.by_ref().take(1 << 16).read_until(b'\n', &mut rest)? > 0 && !rest.ends_with(b"\n") {
                rest.clear();
            }
        }
        take(line.trim_ascii());
    }
}

/// Milliseconds since 1970 of an RFC 3339 time.
pub(super) fn moment(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::agents::AGENTS;

    fn session() -> RecordedSession {
        let mut session =
            RecordedSession { id: "s".to_owned(), cwd: "/shop".to_owned(), ..Default::default() };
        session.push(2_000, "a", "UserPromptSubmit", json!({"prompt": "Say <private>no</private> hello"}));
        session.push(1_000, "b", "Stop", json!({"last_assistant_message": "Hello."}));
        session
    }

    #[test]
    fn an_event_is_that_of_a_hook_client() {
        let session = session();
        let spec = AGENTS.spec("claude-code");
        let deliver = session.events[0].deliver(spec, "/shop", 0);
        let text = String::from_utf8(deliver.payload.clone()).unwrap();
        assert!(!text.contains("private>no") && text.contains("hello"), "{text}");
        assert!(deliver.flags.contains(Flags::IMPORTED) && deliver.flags.contains(Flags::STRIPPED));
        assert_eq!(deliver.event_id, session.events[0].deliver(spec, "/elsewhere", 9).event_id);
        assert_ne!(deliver.event_id, session.events[1].deliver(spec, "/shop", 1).event_id);
        assert_ne!(deliver.event_id, session.events[0].deliver(AGENTS.spec("codex"), "/shop", 0).event_id);
    }

    #[test]
    fn events_keep_the_order_of_their_records() {
        let mut session = session();
        session.end("SessionEnd");
        let times: Vec<i64> = session.events.iter().map(|event| event.at_ms).collect();
        assert_eq!(times, [2_000, 2_000, 2_000]);
        let spec = AGENTS.spec("claude-code");
        let order: Vec<u64> = session
            .events
            .iter()
            .enumerate()
            .map(|(place, event)| event.deliver(spec, "", place).boot_ns)
            .collect();
        assert!(order.is_sorted_by(|earlier, later| earlier < later), "{order:?}");
    }

    #[test]
    fn lines_end_where_they_end() {
        let mut lines = Vec::new();
        each_line(&b"one\r\n\ntwo"[..], |line| lines.push(line.to_vec())).unwrap();
        assert_eq!(lines, [b"one".to_vec(), Vec::new(), b"two".to_vec()]);
    }
}
