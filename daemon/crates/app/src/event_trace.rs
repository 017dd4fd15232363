//! Traces one event through the daemon: a span for the log, with the event's ids and times.
//!
//! **Invariant:** a span contains ids, names and numbers, never content. If the log level is below `debug`, a trace
//! does not read the clock or allocate.

use std::time::{Duration, Instant};

use recall_protocol::wire::{EventId, Reply};
use tracing::Span;
use tracing::field::{Empty, display};

use recall_domain::ids::SessionKey;
use recall_domain::plain::visible;

/// The maximum length of a name or id in the log.
const LONGEST_NAME: usize = 80;

/// The trace of one event. Cheap to clone.
#[derive(Clone, Debug)]
pub struct EventTrace {
    span: Span,
    accepted: Instant,
}

/// A stage of an event's handling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// From the event's arrival until its session has queued the effects.
    Queue,
    /// From then until the commit.
    Commit,
    /// The context lookup, which runs during or after the commit.
    Context,
}

impl EventTrace {
    /// Starts a trace. `accepted` is when the event arrived.
    pub fn begin(event: EventId, accepted: Instant) -> Self {
        let span = tracing::debug_span!(
            parent: None,
            "event",
            id = %event,
            agent = Empty,
            name = Empty,
            session = Empty,
            queue_us = Empty,
            commit_us = Empty,
            context_us = Empty,
        );
        Self { span, accepted }
    }

    /// The span for work on the event.
    pub fn span(&self) -> Span {
        self.span.clone()
    }

    /// Records the session and the event's name, which must contain no secrets.
    pub fn identify(&self, session: &SessionKey, name: &str) {
        if self.is_logged() {
            self.span.record("agent", display(short(session.agent.as_str())));
            self.span.record("name", display(short(name)));
            self.span.record("session", display(short(session.id.as_str())));
        }
    }

    /// Returns the start of a stage; `None` if stages are not logged.
    pub fn now(&self) -> Option<Instant> {
        self.is_logged().then(Instant::now)
    }

    /// Records that the session has queued the effects of the event.
    pub fn queued(&self) {
        if self.is_logged() {
            self.finish(Stage::Queue, Some(self.accepted));
        }
    }

    /// Records the end of a stage.
    pub fn finish(&self, stage: Stage, begun: Option<Instant>) {
        let Some(begun) = begun else { return };
        let field = match stage {
            Stage::Queue => "queue_us",
            Stage::Commit => "commit_us",
            Stage::Context => "context_us",
        };
        self.span.record(field, micros(begun.elapsed()));
    }

    /// Logs the event's final line.
    pub fn answered(&self, reply: &Reply) {
        if self.is_logged() {
            let total_us = micros(self.accepted.elapsed());
            tracing::debug!(parent: &self.span, reply = kind(reply), total_us, "answered an event");
        }
    }

    fn is_logged(&self) -> bool {
        !self.span.is_disabled()
    }
}

/// The kind of a reply, without its content.
pub fn kind(reply: &Reply) -> &'static str {
    match reply {
        Reply::Ack { .. } => "ack",
        Reply::Unsaved { .. } => "unsaved",
        Reply::Duplicate { .. } => "duplicate",
        Reply::Busy => "busy",
        Reply::TooBig => "too big",
        Reply::Version { .. } => "version",
        Reply::ShuttingDown => "shutting down",
        Reply::Invalid(_) => "invalid",
        Reply::Json(_) => "answer",
        Reply::Failed { .. } => "failed",
    }
}

fn short(name: &str) -> String {
    visible(name.get(..name.floor_char_boundary(LONGEST_NAME)).unwrap_or_default())
}

/// Converts to microseconds, for the log.
pub fn micros(took: Duration) -> u64 {
    u64::try_from(took.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_log_a_trace_does_not_read_the_clock() {
        let trace = EventTrace::begin(EventId([1; 16]), Instant::now());
        assert_eq!(trace.now(), None);
        trace.finish(Stage::Commit, trace.now());
    }

    #[test]
    fn logged_names_are_short_and_without_control_characters() {
        assert_eq!(short("UserPromptSubmit"), "UserPromptSubmit");
        assert!(short(&"é".repeat(1_000)).len() <= LONGEST_NAME);
        assert!(!short("a\u{1b}[2Jb\nc").contains(char::is_control));
    }
}
