//! Plays a recording to a daemon: in order, with kills again and again, or with some events late. Returns the memory
//! at the end, in a form that can be compared between runs.

use std::collections::HashMap;
use std::path::Path;
use std::time::Duration;

use recall_protocol::boot::{self, BootStamp};
use recall_protocol::client::Connection;
use recall_protocol::frame::Deadline;
use recall_protocol::query::Session;
use recall_protocol::wire::{Deliver, EventId, Reply, Request};
use serde_json::{Value, json};

use crate::faults::handover::Handover;
use crate::{Stage, recording};

/// The time between two events of a recording, in milliseconds. It is short enough that no session is silent for too
/// long.
const STEP_MS: i64 = 7;
/// How long an answer of a daemon on a busy machine may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// The highest number of events that wait in the spool while later ones arrive.
const LONGEST_WINDOW: usize = 9;

/// Sessions that are played one after another in one home.
#[derive(Clone, Debug)]
pub struct Recording {
    pub name: String,
    events: Vec<Value>,
}

impl Recording {
    /// Reads recordings and gives each its own sessions.
    pub fn read<'a>(name: &str, paths: impl IntoIterator<Item = &'a Path>) -> Self {
        let mut events = Vec::new();
        for path in paths {
            let of = path.file_stem().unwrap().to_string_lossy().into_owned();
            for mut event in recording(path) {
                event["session_id"] = json!(format!("{of}/{}", event["session_id"].as_str().unwrap()));
                events.push(event);
            }
        }
        Self { name: name.to_owned(), events }
    }

    pub fn len(&self) -> usize {
        self.events.len()
    }

    pub fn is_empty(&self) -> bool {
        self.events.is_empty()
    }

    fn sessions(&self) -> Vec<&str> {
        let mut ids: Vec<&str> = Vec::new();
        for event in &self.events {
            let id = event["session_id"].as_str().unwrap();
            if !ids.contains(&id) {
                ids.push(id);
            }
        }
        ids
    }

    /// Returns each event as a shim would deliver it, with the time at which it happened.
    fn deliveries(&self, stage: &Stage) -> Vec<Deliver> {
        let (now, boot) = (boot::wall_ms(), BootStamp::now());
        let begun = now - STEP_MS * i64::try_from(self.events.len()).unwrap();
        let stamped = self.events.iter().zip(1..).map(|(event, nth)| Deliver {
            event_id: EventId::new(begun),
            captured_at_ms: begun + nth * STEP_MS,
            boot_id: boot.boot_id,
            boot_ns: nth.unsigned_abs() * 1_000_000,
            ..stage.delivery(event)
        });
        stamped.collect()
    }
}

/// How a recording is played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// Each event is delivered when it happens.
    InOrder,
    /// The daemon dies this often, at any moment. Events that it does not acknowledge are spooled.
    Killed { seed: u64, kills: usize },
    /// Some events wait in the spool while later ones arrive, and concurrent hooks overtake each other.
    Late { seed: u64 },
}

/// Plays a recording in an empty home and returns the memory at the end.
pub fn remembered(recording: &Recording, manner: Manner) -> Value {
    let mut stage = Stage::new().daemon();
    let deliveries = recording.deliveries(&stage);
    match manner {
        Manner::InOrder => {
            stage.deliver(&deliveries);
        }
        Manner::Killed { seed, kills } => play_killed(&mut stage, &deliveries, seed, kills),
        Manner::Late { seed } => play_late(&stage, recording, &deliveries, seed),
    }
    stage.flush();
    memory(&stage, recording, &deliveries)
}

fn play_killed(stage: &mut Stage, deliveries: &[Deliver], seed: u64, kills: usize) {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut deadly: Vec<usize> = (0..kills).map(|_| random.usize(0..deliveries.len())).collect();
    deadly.sort_unstable();
    deadly.dedup();
    for (at, delivery) in deliveries.iter().enumerate() {
        if !deadly.contains(&at) {
            Handover::new(stage, PATIENCE).deliver(delivery).unwrap();
            continue;
        }
        let pid = rustix::process::Pid::from_raw(stage.daemon_pid().cast_signed()).unwrap();
        // The moment of the kill is the fault. The sleep does not wait for anything.
        let until_kill = Duration::from_micros(random.u64(0..6_000));
        std::thread::scope(|scope| {
            scope.spawn(move || {
                std::thread::sleep(until_kill);
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            });
            Handover::new(stage, PATIENCE).deliver(delivery).unwrap();
        });
        stage.kill_daemon();
        stage.start_daemon();
    }
}

fn play_late(stage: &Stage, recording: &Recording, deliveries: &[Deliver], seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let handover = Handover::new(stage, PATIENCE);
    let mut waiting: Vec<&Deliver> = Vec::new();
    let (mut at, mut until_drained) = (0, 0);
    let order = overtaken(recording, &mut random);
    while at < order.len() {
        let window = if random.u8(0..10) == 0 { random.usize(1..=LONGEST_WINDOW) } else { 0 };
        let held = order.iter().skip(at).take(window);
        waiting.extend(held.filter_map(|nth| deliveries.get(*nth)));
        at += window;
        if let Some(live) = order.get(at).and_then(|nth| deliveries.get(*nth)) {
            stage.deliver([live]);
        }
        at += 1;
        if until_drained == 0 && !waiting.is_empty() {
            until_drained = random.usize(1..=12);
        } else if until_drained > 0 {
            until_drained -= 1;
            if until_drained == 0 {
                spool(&handover, &mut waiting);
                if random.bool() {
                    stage.flush();
                }
            }
        }
    }
    spool(&handover, &mut waiting);
}

fn spool(handover: &Handover<'_>, waiting: &mut Vec<&Deliver>) {
    for delivery in waiting.drain(..) {
        handover.keep(delivery).unwrap();
    }
}

/// Returns the order in which a busy daemon receives the events. Hooks of neighbouring calls run concurrently.
fn overtaken(recording: &Recording, random: &mut fastrand::Rng) -> Vec<usize> {
    let mut order: Vec<usize> = (0..recording.events.len()).collect();
    for at in 1..order.len() {
        if random.u8(0..8) == 0 {
            order.swap(at - 1, at);
        }
    }
    order
}

/// Returns the memory of the recording's sessions, with events named by position. It leaves out numbers, times and
/// traces of storage.
fn memory(stage: &Stage, recording: &Recording, deliveries: &[Deliver]) -> Value {
    let places = places(recording, deliveries);
    let deadline = || Deadline::after(PATIENCE);
    let mut connection = Connection::open_socket(&stage.socket(), deadline()).unwrap();
    let sessions = recording.sessions().into_iter().map(|id| {
        let asked = Request::Query(Session { id: id.to_owned() }.into());
        let Ok(Reply::Json(json)) = connection.ask(&asked, deadline()) else { panic!("no session {id}") };
        let mut session = comparable(serde_json::from_slice(&json).unwrap(), &places);
        for list in ["observations", "plans"] {
            session[list].as_array_mut().unwrap().sort_by_key(|each| {
                (each["session_id"].to_string(), each["prompt_number"].as_u64(), each["title"].to_string())
            });
        }
        session
    });
    sessions.collect()
}

/// The highest number of calls in one event. Calls without their own event get the ids after the event's id.
const MOST_PARTS: u128 = 16;

/// Names events by position. An event that repeats the exact words of a turn is the same occurrence. It has the name
/// of the first one.
fn places(recording: &Recording, deliveries: &[Deliver]) -> HashMap<String, String> {
    let mut places = HashMap::new();
    for (nth, delivery) in deliveries.iter().enumerate() {
        let event = recording.events.get(nth);
        let same =
            recording.events.iter().position(|other| Some(other) == event && !other["prompt_id"].is_null());
        let nth = same.unwrap_or(nth);
        for part in 0..MOST_PARTS {
            let id = EventId((u128::from_be_bytes(delivery.event_id.0) + part).to_be_bytes());
            let name = if part == 0 { format!("event {nth}") } else { format!("part {part} of event {nth}") };
            places.insert(id.to_string(), name);
        }
    }
    places
}

fn comparable(value: Value, places: &HashMap<String, String>) -> Value {
    const LEFT_OUT: [&str; 10] = [
        "id",
        "uuid",
        "created_at",
        "updated_at",
        "opened_at",
        "started_at",
        "ended_at",
        "at",
        "life_events",
        "injections",
    ];
    match value {
        Value::Object(object) => {
            let kept = object.into_iter().filter(|(key, _)| !LEFT_OUT.contains(&key.as_str()));
            kept.map(|(key, value)| (key, comparable(value, places))).collect()
        }
        Value::Array(list) => list.into_iter().map(|value| comparable(value, places)).collect(),
        Value::String(text) => json!(places.get(&text).unwrap_or(&text)),
        other => other,
    }
}

/// Returns the differences between two memories, one line for each place.
pub fn differences(expected: &Value, found: &Value) -> Vec<String> {
    let mut all = Vec::new();
    compare("", expected, found, &mut all);
    all
}

fn compare(place: &str, expected: &Value, found: &Value, all: &mut Vec<String>) {
    match (expected, found) {
        (Value::Object(left), Value::Object(right)) => {
            for key in left.keys().chain(right.keys().filter(|key| !left.contains_key(*key))) {
                let of =
                    |object: &serde_json::Map<String, Value>| object.get(key).cloned().unwrap_or(Value::Null);
                compare(&format!("{place}.{key}"), &of(left), &of(right), all);
            }
        }
        (Value::Array(left), Value::Array(right)) if left.len() == right.len() => {
            for (nth, (left, right)) in left.iter().zip(right).enumerate() {
                compare(&format!("{place}[{nth}]"), left, right, all);
            }
        }
        _ if expected == found => {}
        _ => {
            let short = |value: &Value| value.to_string().chars().take(400).collect::<String>();
            all.push(format!("{place}: expected {}, found {}", short(expected), short(found)));
        }
    }
}
