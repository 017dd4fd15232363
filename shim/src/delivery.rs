//! Delivers one event: stamps it and sends it to the daemon, or stores it in the spool.
//!
//! An event is accepted once the daemon has acknowledged it or its file is in the spool. An event without an
//! acknowledgement goes to the spool, so it can arrive twice; the daemon detects this by its id.

use std::borrow::Cow;
use std::io::ErrorKind;
use std::time::{Duration, Instant};

use recall_protocol::agents::{AgentRow, Wait};
use recall_protocol::boot::{self, BootStamp};
use recall_protocol::client::{ConnectError, Connection};
use recall_protocol::frame::{self, Deadline};
use recall_protocol::json_field::{field, is_wholly_private};
use recall_protocol::json_scan::Cleaned;
use recall_protocol::losses::Losses;
use recall_protocol::paths::{self, Paths};
use recall_protocol::spool::{Spool, SpoolName, SpoolWriteError};
use recall_protocol::wire::{Deliver, EventId, Flags, Reply, Request, ShimContext};

use crate::agent::Agent;
use crate::launch::{self, Launch};

/// The time for connecting, sending and the answer, counted from the end of stdin. The whole budget is 60 ms; the rest
/// is for the spool.
const ANSWER_TIME: Duration = Duration::from_millis(50);
/// The same for an event without an answer. It waits only for the acknowledgement, which a daemon with a stalled disk
/// cannot give. The spool is as safe, and the agent can continue sooner.
const REPORT_TIME: Duration = Duration::from_millis(20);
/// The same for a session start that also starts the daemon.
const START_TIME: Duration = Duration::from_millis(980);
/// The pause between two checks whether the daemon is listening yet.
const START_POLL: Duration = Duration::from_millis(1);

/// An event to be delivered.
pub(crate) struct Event {
    agent: &'static AgentRow,
    deliver: Request,
    spool_name: SpoolName,
    /// When stdin was complete.
    complete: Instant,
}

/// The daemon's answer.
struct Answered {
    /// The output for the agent.
    stdout: Vec<u8>,
    kept: Acceptance,
}

/// Whether the daemon has stored the event.
enum Acceptance {
    Durably,
    /// The daemon received the event, but its disk is slow.
    NotYet,
}

/// Why there is no answer.
enum NoAnswer {
    NothingListens,
    /// A daemon is running, but did not acknowledge in time, or not in a form that this build understands.
    NoAcknowledgement,
}

impl Event {
    pub(crate) fn new(agent: &Agent, event_name: String, cleaned: Cleaned) -> Self {
        let complete = Instant::now();
        let wholly_private = is_wholly_private(&cleaned, agent.row().prompt_field);
        let Cleaned { payload, mut flags } = cleaned;
        if wholly_private {
            flags = flags.with(Flags::WHOLLY_PRIVATE);
        }
        let (captured_at_ms, stamp) = (boot::wall_ms(), BootStamp::now());
        let event_id = EventId::new(captured_at_ms);
        let deliver = Deliver {
            event_id,
            agent: agent.name().to_owned(),
            event_name,
            captured_at_ms,
            boot_id: stamp.boot_id,
            boot_ns: stamp.boot_ns,
            context: ShimContext {
                pid: std::process::id(),
                cwd: std::env::current_dir().map(paths::lossy).unwrap_or_default(),
                project_dir: agent.project_dir(),
                config_dir: agent.config_dir(),
            },
            payload,
            flags,
        };
        let spool_name = SpoolName::new(captured_at_ms, event_id);
        Self { agent: agent.row(), deliver: Request::Deliver(deliver), spool_name, complete }
    }

    /// The event's name from the command line or else from the payload; empty if both lack it. Reads the whole
    /// payload, so it is called only when needed.
    fn name(&self) -> Cow<'_, str> {
        match &self.deliver {
            Request::Deliver(deliver) if deliver.event_name.is_empty() => {
                field(&deliver.payload, self.agent.event_field).unwrap_or_default()
            }
            Request::Deliver(deliver) => Cow::Borrowed(&deliver.event_name),
            Request::Query(_) => Cow::Borrowed(""),
        }
    }

    /// Delivers the event to the daemon or the spool. Returns the output for the agent.
    pub(crate) fn deliver(&self) -> Option<Vec<u8>> {
        let paths = Paths::from_env().ok()?;
        let frame = frame::encode_frame(&self.deliver).ok()?;

        match ask(&paths, &frame, Deadline::from_instant(self.complete, self.answer_time())) {
            Ok(answered) => return Some(self.ensure_kept(&paths, &frame, answered)),
            Err(NoAnswer::NoAcknowledgement) => {}
            Err(NoAnswer::NothingListens) if self.wait() == Wait::Start => {
                let time = match launch::start_daemon(&paths) {
                    Launch::JustTried(since) => START_TIME.checked_sub(since),
                    Launch::TriedBefore | Launch::NotOurs => None,
                };
                let answer = time
                    .map(|time| Deadline::from_instant(self.complete, time))
                    .and_then(|deadline| ask_when_it_listens(&paths, &frame, deadline));
                if let Some(answered) = answer {
                    return Some(self.ensure_kept(&paths, &frame, answered));
                }
            }
            Err(NoAnswer::NothingListens) => {
                // Stores the event first: starting a process takes longer and may fail.
                keep(&paths, &self.spool_name, &frame);
                launch::start_daemon(&paths);
                return None;
            }
        }
        keep(&paths, &self.spool_name, &frame);
        None
    }

    /// Stores the event in the spool if the daemon has not stored it yet. Returns the output.
    fn ensure_kept(&self, paths: &Paths, frame: &[u8], Answered { stdout, kept }: Answered) -> Vec<u8> {
        match kept {
            Acceptance::Durably => {}
            Acceptance::NotYet => keep(paths, &self.spool_name, frame),
        }
        stdout
    }

    /// The time the daemon gets to answer. `RECALL_ANSWER_MS` (10 to 10,000) extends it for slow machines.
    fn answer_time(&self) -> Duration {
        match std::env::var("RECALL_ANSWER_MS").ok().and_then(|text| text.parse().ok()) {
            Some(ms) => Duration::from_millis(u64::clamp(ms, 10, 10_000)),
            None => match self.wait() {
                Wait::Report => REPORT_TIME,
                Wait::Start | Wait::Answer => ANSWER_TIME,
            },
        }
    }

    fn wait(&self) -> Wait {
        self.agent.wait(&self.name())
    }

    /// The output when there is no answer.
    pub(crate) fn silence(&self) -> &'static str {
        match (&self.deliver, self.agent.silence_at) {
            (Request::Deliver(deliver), _) if self.agent.is_unknown() => {
                AgentRow::silence_to_unknown(&self.name(), &deliver.payload)
            }
            (_, []) => self.agent.silence,
            (_, _) => self.agent.silence(&self.name()),
        }
    }
}

/// Sends the frame. Only a reply about the stored event counts as an answer.
fn ask(paths: &Paths, frame: &[u8], deadline: Deadline) -> Result<Answered, NoAnswer> {
    let mut connection = Connection::open(paths, deadline).map_err(|error| match error {
        ConnectError::NothingListens | ConnectError::Paths(_) => NoAnswer::NothingListens,
        ConnectError::Deadline
        | ConnectError::Foreign { .. }
        | ConnectError::Forbidden
        | ConnectError::Io(_) => NoAnswer::NoAcknowledgement,
    })?;
    match connection.ask_frame(frame, deadline) {
        Ok(Reply::Ack { stdout } | Reply::Duplicate { stdout }) => {
            Ok(Answered { stdout, kept: Acceptance::Durably })
        }
        Ok(Reply::Unsaved { stdout }) => Ok(Answered { stdout, kept: Acceptance::NotYet }),
        Ok(
            Reply::Busy
            | Reply::TooBig
            | Reply::Version { .. }
            | Reply::ShuttingDown
            | Reply::Invalid(_)
            | Reply::Json(_)
            | Reply::Failed { .. },
        )
        | Err(_) => Err(NoAnswer::NoAcknowledgement),
    }
}

/// Sends the frame as soon as the newly started daemon listens.
fn ask_when_it_listens(paths: &Paths, frame: &[u8], deadline: Deadline) -> Option<Answered> {
    while let Some(left) = deadline.remaining() {
        match ask(paths, frame, deadline) {
            Ok(answered) => return Some(answered),
            Err(NoAnswer::NoAcknowledgement) => return None,
            Err(NoAnswer::NothingListens) => std::thread::sleep(START_POLL.min(left)),
        }
    }
    None
}

/// Stores the frame in the spool, or counts its loss.
fn keep(paths: &Paths, name: &SpoolName, frame: &[u8]) {
    let spool = Spool::new(paths);
    let kept = match spool.write(name, frame) {
        Err(SpoolWriteError::Io { source, .. }) if source.kind() == ErrorKind::NotFound => paths
            .create_state_folder()
            .and_then(|()| spool.create_folders())
            .map_err(SpoolWriteError::from)
            .and_then(|()| spool.write(name, frame)),
        result => result,
    };
    if kept.is_err() {
        Losses::new(paths).count();
    }
}

#[cfg(test)]
mod tests {
    use recall_protocol::json_scan::clean;

    use super::*;

    #[test]
    fn the_event_name_of_the_command_line_overrides_the_payload() {
        let agent = Agent::named(None);
        let payload = br#"{"tool_input":{"hook_event_name":"no"},"hook_event_name":"Stop"}"#;
        assert_eq!(Event::new(&agent, String::new(), clean(payload)).name(), "Stop");
        assert_eq!(Event::new(&agent, "SessionEnd".to_owned(), clean(payload)).name(), "SessionEnd");
        assert_eq!(Event::new(&agent, String::new(), clean(b"[]")).name(), "");
    }

    #[test]
    fn a_prompt_of_only_private_text_is_wholly_private() {
        let check = |payload: &str, expected: bool| {
            let cleaned = clean(payload.as_bytes());
            assert_eq!(is_wholly_private(&cleaned, "prompt"), expected, "{payload}");
        };
        check(r#"{"prompt":"<private>secret</private>"}"#, true);
        check(r#"{"prompt":" \n<private>secret"}"#, true);
        check(r#"{"prompt":"a <private>secret</private>"}"#, false);
        check(r#"{"prompt":""}"#, false);
        check(r#"{"x":"<private>secret"}"#, false);
    }
}
