//! What is said to others about a session: the lifecycle events of recall's own, the same whatever the agent.
//!
//! They follow from what was committed and from nothing else, so each is said once: an event that is delivered twice
//! changes nothing the second time and says nothing. Hearing them is for those who listen at that moment. A daemon
//! that is killed between a commit and its telling leaves them unsaid; the store keeps those about a session's life
//! and is the record.

use serde_json::{Value, json};

use super::event::StartSource;
use super::ids::{JobId, ObservationId, SessionId, SessionKey, SummaryId, Timestamp};
use super::material::BatchSource;
use super::observation::ObservationType;

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    /// `None` for what belongs to no session.
    pub session: Option<SessionKey>,
    pub at: Timestamp,
    pub what: Said,
}

/// What is said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said {
    SessionStart {
        /// Counted from 1.
        life: u32,
        source: StartSource,
        /// Its own id after its first life, or that of the session that was cleared away for it.
        resumed_from: Option<SessionId>,
    },
    SessionSuspend {
        tally: Tally,
        reason: String,
    },
    SessionResume {
        suspended_for_ms: i64,
    },
    SessionEnd {
        tally: Tally,
        reason: String,
    },
    BeforeCompaction {
        message_count: u32,
    },
    AfterCompaction {
        message_count: u32,
        /// Of them, those that came since the compaction before.
        compacted_count: u32,
    },
    MessageReceived {
        from: BatchSource,
        /// `None` where it was wholly private.
        content: Option<String>,
    },
    BatchClosed {
        prompt_number: u32,
    },
    ObservationCreated {
        id: ObservationId,
        kind: ObservationType,
        title: String,
    },
    SummaryCreated {
        id: SummaryId,
        title: String,
    },
    JobDead {
        job: JobId,
        error: String,
    },
}

/// What a session amounts to so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Prompts and answers of the whole session.
    pub message_count: u32,
    /// How long the current life lasts.
    pub duration_ms: i64,
}

impl Said {
    /// All names there are.
    pub const NAMES: [&str; 11] = [
        "session_start",
        "session_suspend",
        "session_resume",
        "session_end",
        "before_compaction",
        "after_compaction",
        "message_received",
        "batch_closed",
        "observation_created",
        "summary_created",
        "job_dead",
    ];

    /// The event's public name.
    pub fn name(&self) -> &'static str {
        match self {
            Self::SessionStart { .. } => "session_start",
            Self::SessionSuspend { .. } => "session_suspend",
            Self::SessionResume { .. } => "session_resume",
            Self::SessionEnd { .. } => "session_end",
            Self::BeforeCompaction { .. } => "before_compaction",
            Self::AfterCompaction { .. } => "after_compaction",
            Self::MessageReceived { .. } => "message_received",
            Self::BatchClosed { .. } => "batch_closed",
            Self::ObservationCreated { .. } => "observation_created",
            Self::SummaryCreated { .. } => "summary_created",
            Self::JobDead { .. } => "job_dead",
        }
    }

    /// Its public fields: the form in which it is kept and told. Nothing but counts, names and what is asked for.
    pub fn detail(&self) -> Value {
        let with_reason = |tally: &Tally, reason: &str| json!({"message_count": tally.message_count, "duration_ms": tally.duration_ms, "reason": reason});
        match self {
            Self::SessionStart { life, source, resumed_from } => {
                let resumed_from = resumed_from.as_ref().map(SessionId::as_str);
                json!({"life": life, "source": source.as_str(), "resumed_from": resumed_from})
            }
            Self::SessionSuspend { tally, reason } | Self::SessionEnd { tally, reason } => {
                with_reason(tally, reason)
            }
            Self::SessionResume { suspended_for_ms } => json!({"suspended_for_ms": suspended_for_ms}),
            Self::BeforeCompaction { message_count } => json!({"message_count": message_count}),
            Self::AfterCompaction { message_count, compacted_count } => {
                json!({"message_count": message_count, "compacted_count": compacted_count})
            }
            Self::MessageReceived { from, content } => json!({"from": from.as_str(), "content": content}),
            Self::BatchClosed { prompt_number } => json!({"prompt_number": prompt_number}),
            Self::ObservationCreated { id, kind, title } => {
                json!({"id": id, "type": kind.as_str(), "title": title})
            }
            Self::SummaryCreated { id, title } => json!({"id": id, "title": title}),
            Self::JobDead { job, error } => json!({"job": job, "error": error}),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_listed() {
        let tally = Tally::default();
        let reason = String::new;
        let all = [
            Said::SessionStart { life: 1, source: StartSource::Startup, resumed_from: None },
            Said::SessionSuspend { tally, reason: reason() },
            Said::SessionResume { suspended_for_ms: 0 },
            Said::SessionEnd { tally, reason: reason() },
            Said::BeforeCompaction { message_count: 0 },
            Said::AfterCompaction { message_count: 0, compacted_count: 0 },
            Said::MessageReceived { from: BatchSource::User, content: None },
            Said::BatchClosed { prompt_number: 1 },
            Said::ObservationCreated {
                id: ObservationId(1),
                kind: ObservationType::Gotcha,
                title: String::new(),
            },
            Said::SummaryCreated { id: SummaryId(1), title: String::new() },
            Said::JobDead { job: JobId(1), error: String::new() },
        ];
        assert_eq!(all.map(|said| said.name()), Said::NAMES);
    }
}
