//! The way in: from a delivered frame, or a spooled one, to the session it belongs to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use recall_protocol::wire::{Deliver, Reply};
use sha2::{Digest, Sha256};

use super::clock;
use super::session::Arrival;
use super::sessions::{SessionsDoor, SessionsMessage};
use super::writer::WriterHandle;
use crate::agents::{self, Unreadable};
use crate::memory::event::{LifecycleEvent, What};
use crate::memory::ids::{AgentName, SessionKey, Timestamp};
use crate::store::{Delivery, Unparsed, Write, Written};

/// A shim has long given up by then; the event is stored all the same or offered again.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// Cheap to clone.
#[derive(Clone)]
pub struct Intake {
    pub sessions: SessionsDoor,
    pub writer: WriterHandle,
    pub counters: Arc<Counters>,
}

/// What `status` tells of the way in, since the daemon started.
#[derive(Debug, Default)]
pub struct Counters {
    pub accepted: AtomicU64,
    pub duplicates: AtomicU64,
    pub busy: AtomicU64,
}

impl Intake {
    /// Stores an event and says what its sender shall be told. Never fails: what cannot be taken is BUSY.
    pub async fn take(&self, deliver: Deliver) -> Reply {
        let reply = match (agents::spec(&deliver.agent).read)(&deliver) {
            Ok(event) => self.pass_on(event, deliver).await,
            Err(error) => self.keep_raw(deliver, &error).await,
        };
        let counter = match &reply {
            Reply::Ack { .. } => &self.counters.accepted,
            Reply::Duplicate { .. } => &self.counters.duplicates,
            _ => &self.counters.busy,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        reply
    }

    async fn pass_on(&self, event: LifecycleEvent, deliver: Deliver) -> Reply {
        let key = SessionKey { agent: AgentName(deliver.agent.clone()), id: event.session.clone() };
        let second = second_key(&event, &deliver);
        let within = ANSWER_WITHIN;
        let answer = self.sessions.ask(
            |reply| {
                let arrival = Box::new(Arrival { event, deliver, key: second, reply });
                SessionsMessage::Deliver { key, arrival }
            },
            within,
        );
        answer.await.unwrap_or(Reply::Busy)
    }

    async fn keep_raw(&self, deliver: Deliver, error: &Unreadable) -> Reply {
        let unparsed = Unparsed {
            delivery: Delivery {
                event: deliver.event_id,
                key: None,
                agent: AgentName(deliver.agent),
                event_name: deliver.event_name,
                captured_at: Timestamp(deliver.captured_at_ms),
                boot_id: deliver.boot_id,
                boot_ns: deliver.boot_ns,
                flags: deliver.flags.0,
                stored_at: clock::now(),
            },
            parse_error: parse_error(error),
            payload: deliver.payload,
        };
        match self.writer.write(Write::Unparsed(Box::new(unparsed))).await {
            Ok(Written::Duplicate) => Reply::Duplicate { stdout: Vec::new() },
            Ok(_) => Reply::Ack { stdout: Vec::new() },
            Err(error) => {
                tracing::warn!(%error, "an unreadable event could not be stored");
                Reply::Busy
            }
        }
    }
}

/// What was wrong and where, without what it was: the parser's own words may quote the payload.
fn parse_error(error: &Unreadable) -> String {
    match error {
        Unreadable::NotJson(error) => {
            format!(
                "not a JSON object: {:?} at line {}, column {}",
                error.classify(),
                error.line(),
                error.column()
            )
        }
        other => other.to_string(),
    }
}

/// Two deliveries under different event ids are one happening when the agent's own id of the call is the same, or,
/// where there is none, the turn's id and the whole payload. Without either both are kept.
fn second_key(event: &LifecycleEvent, deliver: &Deliver) -> Option<[u8; 16]> {
    let mut hash = Sha256::new();
    match (&event.what, &event.prompt) {
        (What::Tool(call), _) if call.use_id.is_some() => {
            hash.update(if call.is_failed() { "failure" } else { "result" });
            hash.update([0]);
            hash.update(call.use_id.as_deref().unwrap_or_default());
        }
        (_, Some(prompt)) => {
            hash.update(prompt.as_str());
            hash.update([0]);
            hash.update(&deliver.payload);
        }
        _ => return None,
    }
    hash.finalize().first_chunk().copied()
}
