//! Reads the sessions that an agent has recorded, as hook events.
//!
//! So an imported session is handled like a reported one, by the same readers and rules. An event's id is derived
//! from the record's own id. So an event that was imported before is recognised, even in the copy of a forked
//! session.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use recall_protocol::json_field::is_wholly_private;
use recall_protocol::json_scan::{Cleaned, MAX_PAYLOAD, clean};
use recall_protocol::wire::{Deliver, EventId, Flags, ShimContext};
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::format::payload::{EVENT_FIELD, TOOL};
use super::{AgentSpec, ReplyRequest};
use recall_system::trusted_file::FILE;

/// The maximum length of a line, in bytes. Longer lines are skipped; only request snapshots and pictures are that
/// long.
const LONGEST_LINE: u64 = 64 << 20;
/// How much of a file's beginning is read to find the session that it is a copy of: bytes, and lines.
const HEAD: u64 = 1 << 20;
const FIRST_LINES: usize = 40;
/// The maximum number of positions in a damaged line that are tried as the beginning of a record.
const MOST_STARTS: usize = 4_096;
/// The session id of a file whose beginning is missing. It is never sent.
const NAMELESS: &str = "tail";
/// Records longer than this many bytes are kept as an outline. The contents of calls are read again when they are
/// sent.
const OUTLINE_FROM: u64 = 16 << 20;
/// Payloads from this size in bytes are compressed.
const PACKED_FROM: usize = 4_096;
/// Replaces the boot id: imported events are ordered by their own times.
const IMPORT_BOOT: [u8; 16] = *b"recall import   ";

/// Where an agent keeps its sessions, and how to read them.
#[derive(Clone, Copy, Debug)]
pub struct RecordedHistory {
    pub place: HistoryFolder,
    /// Further folders.
    pub also: &'static [&'static str],
    /// Whether a file in those folders contains sessions.
    pub is_session: fn(&Path) -> bool,
    /// The ids of the sessions in a file with several. Blocks.
    pub inside: Option<ListSessions>,
    /// Reads the session of a file; in a file with several, the named one. Blocks.
    pub read: fn(&Path, Option<&str>) -> io::Result<RecordedSession>,
    /// Reads a session again and passes on its events one by one, used if `read` kept only an outline. Blocks.
    pub each: Option<ReadEach>,
    /// Reads the main conversation from the end of a file, whose beginning may be missing. `None` if a turn's answer
    /// is read in another way, or not at all.
    pub tail: Option<ReadTail>,
    /// Reads the prompts from the end of a file, if answers are read in another way.
    pub prompts: Option<ReadTail>,
    /// The ids that a file shares with copies of its session. Blocks.
    pub kin: Option<fn(&Path) -> Vec<String>>,
    /// The name of the event that ends a session, if the agent has one.
    pub end: Option<&'static str>,
}

/// Lists the ids of the sessions in a file.
pub(crate) type ListSessions = fn(&Path) -> io::Result<Vec<String>>;

/// Passes on the events of a file's session.
pub(crate) type ReadEach = fn(&Path, &mut dyn FnMut(RecordedEvent)) -> io::Result<()>;

/// Reads the rest of a file with this extension.
pub(crate) type ReadTail = fn(&mut dyn BufRead, &str) -> io::Result<RecordedSession>;

/// The folder that contains the files.
#[derive(Clone, Copy, Debug)]
pub enum HistoryFolder {
    /// In each of the agent's own folders.
    Agent(&'static str),
    /// In the folder of the user's data, by default `~/.local/share`.
    UserData(&'static str),
}

/// A session as its agent recorded it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RecordedSession {
    pub id: String,
    /// The folder where it began.
    pub cwd: String,
    /// Ordered by time.
    pub events: Vec<RecordedEvent>,
    /// Lines that could not be read.
    pub unreadable: usize,
    pub(super) keep: Keep,
}

/// How much of a session is kept in memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Keep {
    #[default]
    All,
    /// Everything except the contents of calls.
    Outline,
}

impl Keep {
    /// Chooses what to keep of a session whose files have this many bytes.
    pub(super) fn of(length: u64) -> Self {
        if length < OUTLINE_FROM { Self::All } else { Self::Outline }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct RecordedEvent {
    /// Milliseconds since 1970.
    pub at_ms: i64,
    /// The actual time. A prompt may wait in a queue, while events keep the order of their records.
    pub occurred_ms: i64,
    /// The record's own id, unique for this agent.
    pub id: String,
    /// The payload that the agent's hook would have sent.
    payload: Payload,
    flags: Flags,
    what: Reported,
}

/// A payload to be sent. Long texts are shortened and compressed, so a long session takes little memory.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Payload {
    Plain(Vec<u8>),
    Packed(Vec<u8>),
    /// Not kept.
    Left,
}

impl Payload {
    fn of(bytes: Vec<u8>) -> Self {
        match bytes.len() {
            0..PACKED_FROM => Self::Plain(bytes),
            _ => zstd::bulk::compress(&bytes, 1).map_or(Self::Plain(bytes), Self::Packed),
        }
    }

    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Left => Vec::new(),
            Self::Plain(bytes) => bytes.clone(),
            Self::Packed(packed) => zstd::bulk::decompress(packed, MAX_PAYLOAD).unwrap_or_default(),
        }
    }
}

/// Whether an agent's record ids can be derived without the beginning of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordIds {
    Own,
    OfSession,
}

/// The kinds of events that matter before an event is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Reported {
    Call,
    #[default]
    Other,
}

impl RecordedSession {
    /// Adds an event. No event gets a time before its predecessor's, because records are written in the order of what
    /// happened, while some contain the time at which they began.
    pub(super) fn push(&mut self, at_ms: i64, id: impl Into<String>, name: &str, fields: Value) {
        if let (Keep::Outline, Some(last)) = (self.keep, self.events.last_mut())
            && last.is_of_call()
        {
            last.payload = Payload::Left;
        }
        // A time before 1970 means that the clock was not set.
        let occurred_ms = at_ms;
        let at_ms = self.events.last().map_or(at_ms.max(0), |last| last.at_ms.max(at_ms));
        let mut payload = Map::new();
        let session = if self.id.is_empty() { NAMELESS } else { &self.id };
        payload.insert("session_id".to_owned(), json!(session));
        payload.insert("cwd".to_owned(), json!(self.cwd));
        payload.insert(EVENT_FIELD.to_owned(), json!(name));
        if let Value::Object(fields) = fields {
            payload.extend(fields);
        }
        let is_of_call = TOOL.iter().any(|field| payload.contains_key(*field));
        let what = if is_of_call { Reported::Call } else { Reported::Other };
        let cleaned = clean(Value::Object(payload).to_string().as_bytes());
        let (payload, flags) = (Payload::of(cleaned.payload), cleaned.flags);
        self.events.push(RecordedEvent { at_ms, occurred_ms, id: id.into(), payload, flags, what });
    }

    /// Passes on all events except the last, which may still change.
    pub(super) fn hand_over(&mut self, take: &mut dyn FnMut(RecordedEvent)) {
        let settled = self.events.len().saturating_sub(1);
        self.events.drain(..settled).for_each(take);
    }

    /// Adds a field to the last event, if its payload is kept.
    pub(super) fn add_to_last(&mut self, field: &str, value: Value) {
        let kept = self.events.iter_mut().rfind(|event| event.payload != Payload::Left);
        let Some(last) = kept else { return };
        if let Ok(Value::Object(mut payload)) = serde_json::from_slice(&last.payload.bytes()) {
            payload.insert(field.to_owned(), value);
            let cleaned = clean(Value::Object(payload).to_string().as_bytes());
            last.flags = last.flags.with(cleaned.flags);
            last.payload = Payload::of(cleaned.payload);
        }
    }

    /// Adds the event that ends the session.
    pub fn end(&mut self, name: &str) {
        if let Some(last) = self.events.last() {
            let (at_ms, id) = (last.at_ms, format!("{} end", self.id));
            self.push(at_ms, id, name, json!({"reason": "import"}));
        }
    }

    /// The time of its last event.
    pub fn last_ms(&self) -> Option<i64> {
        self.events.last().map(|event| event.at_ms)
    }
}

impl RecordedEvent {
    /// Converts the event into a delivery, as a hook client would send it. `place` is its position among the
    /// session's events, which orders events of the same time.
    pub fn deliver(&self, spec: &AgentSpec, cwd: &str, place: usize) -> Deliver {
        let cleaned = Cleaned { payload: self.payload.bytes(), flags: self.flags };
        let mut flags = Flags::IMPORTED.with(self.flags);
        if is_wholly_private(&cleaned, spec.format.prompt_field) {
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

    /// Assigns the event to this session. The end of a record may lack the session and the ids.
    pub fn belong_to(&mut self, session: &str, ids: RecordIds) {
        if ids == RecordIds::OfSession {
            self.id = format!("{session} {}", self.id);
        }
        if let Ok(Value::Object(mut payload)) = serde_json::from_slice(&self.payload.bytes()) {
            payload.insert("session_id".to_owned(), json!(session));
            self.payload = Payload::of(Value::Object(payload).to_string().into_bytes());
        }
    }

    /// Whether its payload must be read again.
    pub fn is_outlined(&self) -> bool {
        self.payload == Payload::Left
    }

    /// Takes the payload of the same event, which was read again.
    #[must_use]
    pub fn filled(&self, again: Self) -> Self {
        Self { at_ms: self.at_ms, id: self.id.clone(), ..again }
    }

    /// Whether it reports a call.
    pub(super) fn is_of_call(&self) -> bool {
        self.what == Reported::Call
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

/// Opens a file of sessions that belongs to the user or root. Never waits for a FIFO or a device.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::from(rustix::fs::open(path, FILE, rustix::fs::Mode::empty())?);
    let known = file.metadata()?;
    if !known.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let own = rustix::process::geteuid().as_raw();
    if known.uid() != own && known.uid() != 0 {
        let whose = known.uid();
        return Err(io::Error::other(format!("it belongs to user {whose}; import a copy of your own")));
    }
    Ok(file)
}

/// Returns the value from the first record that has it; none if none of the first lines does.
pub(super) fn first_of<T: DeserializeOwned>(path: &Path, of: impl Fn(&T) -> Option<String>) -> Vec<String> {
    let Ok(file) = open(path) else { return Vec::new() };
    let lines = BufReader::new(file.take(HEAD)).split(b'\n').take(FIRST_LINES).map_while(Result::ok);
    let records = lines.filter_map(|line| serde_json::from_slice::<T>(line.trim_ascii()).ok());
    records.filter_map(|record| of(&record)).find(|id| !id.is_empty()).into_iter().collect()
}

/// Passes each record to `take`, in line order, and `None` for a line with an unreadable part. Empty lines are
/// skipped.
///
/// A file may be damaged. After a crash a record may be cut off and the next one attached to it, or zeros may lie
/// between them; an editor may add a byte order mark; a byte may be wrong. Each complete record is still read.
pub(super) fn each_record<T: DeserializeOwned>(
    reader: impl BufRead,
    mut take: impl FnMut(Option<T>),
) -> io::Result<()> {
    each_line(reader, |line| {
        let line = line.strip_prefix(b"\xef\xbb\xbf").unwrap_or(line);
        for part in line.split(|byte| *byte == 0).map(<[u8]>::trim_ascii).filter(|part| !part.is_empty()) {
            match serde_json::from_slice(part) {
                Ok(record) => take(Some(record)),
                Err(_) => take_damaged(part, &mut take),
            }
        }
    })
}

/// Extracts the complete records of a damaged line.
fn take_damaged<T: DeserializeOwned>(line: &[u8], take: &mut impl FnMut(Option<T>)) {
    let text = String::from_utf8_lossy(line);
    let mut rest = text.as_ref();
    let mut is_whole = true;
    while !rest.is_empty() {
        let mut values = serde_json::Deserializer::from_str(rest).into_iter::<T>();
        if let Some(Ok(record)) = values.next() {
            let end = values.byte_offset();
            take(Some(record));
            rest = rest.get(end..).unwrap_or_default().trim_start();
            continue;
        }
        is_whole = false;
        // A record was cut off. Another one that reaches the line's end may follow it.
        let starts = rest.match_indices("{\"").filter(|(at, _)| *at > 0).take(MOST_STARTS);
        let whole = starts.map(|(at, _)| rest.get(at..).unwrap_or_default());
        if let Some(record) = whole.into_iter().find_map(|part| serde_json::from_str(part).ok()) {
            take(Some(record));
        }
        break;
    }
    if !is_whole {
        take(None);
    }
}

/// Passes each line to `take`, without its end. A line that is too long is passed on as unreadable.
pub fn each_line(mut reader: impl BufRead, mut take: impl FnMut(&[u8])) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        let length = reader.by_ref().take(LONGEST_LINE).read_until(b'\n', &mut line)?;
        if length == 0 {
            return Ok(());
        }
        if length as u64 == LONGEST_LINE && !line.ends_with(b"\n") {
            line = b"too long".to_vec();
            skip_line(&mut reader)?;
        }
        take(line.trim_ascii());
    }
}

/// Skips to the end of the line.
fn skip_line(reader: &mut impl BufRead) -> io::Result<()> {
    loop {
        let part = reader.fill_buf()?;
        let (used, is_end) = match part.iter().position(|byte| *byte == b'\n') {
            Some(end) => (end + 1, true),
            None => (part.len(), part.is_empty()),
        };
        reader.consume(used);
        if is_end {
            return Ok(());
        }
    }
}

/// The folders that may contain the record that an event names.
pub(super) fn tail_folders(spec: &AgentSpec, place: &HistoryFolder, request: &ReplyRequest) -> Vec<PathBuf> {
    let HistoryFolder::Agent(folder) = place else { return Vec::new() };
    let own = spec.host.folders(&request.home, request.config_dir.as_deref());
    own.into_iter().map(|own| own.join(folder)).collect()
}

/// Parses an RFC 3339 time. Returns milliseconds since 1970.
pub(super) fn moment(text: &str) -> Option<i64> {
    text.parse::<jiff::Timestamp>().ok().map(jiff::Timestamp::as_millisecond)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::AGENTS;

    fn session() -> RecordedSession {
        let mut session =
            RecordedSession { id: "s".to_owned(), cwd: "/shop".to_owned(), ..Default::default() };
        session.push(2_000, "a", "UserPromptSubmit", json!({"prompt": "Say <private>no</private> hello"}));
        session.push(1_000, "b", "Stop", json!({"last_assistant_message": "Hello."}));
        session
    }

    #[test]
    fn recorded_events_have_stable_ids_and_no_private_text() {
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
    fn a_session_of_long_results_takes_little_memory() {
        let mut session = session();
        for number in 0..20 {
            let output: String = (0..20_000).map(|line| format!("line {line} of {number}\n")).collect();
            let fields = json!({"tool_name": "Bash", "tool_input": {}, "tool_response": output});
            session.push(3_000, number.to_string(), "PostToolUse", fields);
        }
        let kept = |event: &RecordedEvent| match &event.payload {
            Payload::Plain(bytes) | Payload::Packed(bytes) => bytes.len(),
            Payload::Left => 0,
        };
        assert!(session.events.iter().map(kept).sum::<usize>() < 2 << 20);
        let last = session.events.last().unwrap().deliver(AGENTS.spec("claude-code"), "/shop", 0);
        let text = String::from_utf8(last.payload).unwrap();
        assert!(text.contains("line 0 of 19") && last.flags.contains(Flags::SHORTENED));
    }

    #[test]
    fn lines_are_read_without_their_line_ends() {
        let mut lines = Vec::new();
        each_line(&b"one\r\n\ntwo"[..], |line| lines.push(line.to_vec())).unwrap();
        assert_eq!(lines, [b"one".to_vec(), Vec::new(), b"two".to_vec()]);
    }

    #[track_caller]
    fn check(file: &[u8], records: &[&str], damaged: usize) {
        let (mut found, mut bad) = (Vec::new(), 0);
        each_record(file, |record: Option<Value>| match record {
            Some(record) => found.push(record.to_string()),
            None => bad += 1,
        })
        .unwrap();
        assert_eq!(found, records);
        assert_eq!(bad, damaged);
    }

    #[test]
    fn each_whole_record_of_a_damaged_file_is_read() {
        let (one, two) = (r#"{"a":{"b":[1,{"c":2}]}}"#, r#"{"b":"x"}"#);
        check(b"", &[], 0);
        check(format!("{one}\n\n{two}").as_bytes(), &[one, two], 0);
        check(format!("\u{feff}{one}\n{two}").as_bytes(), &[one, two], 0);
        check(format!("\0\0{one}\0\n\0\0\0\n{two}").as_bytes(), &[one, two], 0);
        check(format!("{one}{two}\n").as_bytes(), &[one, two], 0);
        for cut in 1..one.len() {
            check(format!("{}{two}\n{one}\n", &one[..cut]).as_bytes(), &[two, one], 1);
        }
        check(format!("{two}\n{{\"a\": \"tor").as_bytes(), &[two], 1);
        check(b"{\"a\":\"x\xffy\"}", &["{\"a\":\"x\u{fffd}y\"}"], 0);
    }

    #[test]
    fn an_overlong_line_is_skipped_as_damaged_and_the_next_is_read() {
        let long = std::io::Read::take(std::io::repeat(b'x'), LONGEST_LINE + 70_000);
        let file = std::io::Read::chain(long, &b"\n{}"[..]);
        let mut seen = Vec::new();
        each_record(io::BufReader::new(file), |record: Option<Value>| seen.push(record)).unwrap();
        assert_eq!(seen, [None, Some(json!({}))]);
    }
}
