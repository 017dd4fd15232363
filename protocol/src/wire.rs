//! The messages on the wire: one request and one reply per connection, or several in sequence.
//!
//! Rules of evolution (bincode has no field names): variants are only appended, a changed shape is a new variant, and
//! golden frames of every version stay in the tests. No field may be skipped, flattened or untagged in serialisation.
//! An agent's own JSON travels as bytes, so an agent's update never needs a new shim.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::query::Query;

/// The id of an event, created by the shim: six bytes of time and ten random bytes. The time makes the newest ids
/// adjacent in an index, so storing one touches a cached page. An event delivered twice is stored once.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct EventId(pub [u8; 16]);

/// The number of leading bytes that encode the time, in milliseconds since 1970. They suffice until the year 10889.
const TIME_BYTES: usize = 6;

impl EventId {
    /// Creates the id of an event captured `wall_ms` milliseconds after 1970. If the system has no random numbers, the
    /// process id and the clock are used: an event with a weaker id is better than no event.
    pub fn new(wall_ms: i64) -> Self {
        let mut bytes = [0; 16];
        let (time, chance) = bytes.split_at_mut(TIME_BYTES);
        if !fill_random(chance) {
            let stamp = crate::boot::BootStamp::now().boot_ns;
            let stand_in = u128::from(stamp) << 32 | u128::from(std::process::id());
            chance.copy_from_slice(&stand_in.to_le_bytes()[..16 - TIME_BYTES]);
        }
        time.copy_from_slice(&wall_ms.to_be_bytes()[8 - TIME_BYTES..]);
        Self(bytes)
    }
}

#[cfg(target_os = "linux")]
fn fill_random(bytes: &mut [u8]) -> bool {
    // Never blocks: fails if the pool is not ready at boot, because no hook may wait for it.
    rustix::rand::getrandom(&mut *bytes, rustix::rand::GetRandomFlags::NONBLOCK) == Ok(bytes.len())
}

#[cfg(not(target_os = "linux"))]
fn fill_random(bytes: &mut [u8]) -> bool {
    getrandom::fill(bytes).is_ok()
}

impl fmt::Display for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for EventId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EventId({self})")
    }
}

impl std::str::FromStr for EventId {
    type Err = NotAnEventId;

    fn from_str(text: &str) -> Result<Self, NotAnEventId> {
        let mut bytes = [0; 16];
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(NotAnEventId);
        }
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| NotAnEventId)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| NotAnEventId)?;
        }
        Ok(Self(bytes))
    }
}

/// The text is not an event id of 32 hexadecimal digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an event id is 32 hexadecimal digits")]
pub struct NotAnEventId;

/// A client's request to the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Request {
    /// A hook fired: the daemon stores this event and replies with the agent's stdout.
    Deliver(Deliver),
    /// A query of `recall search`, `recall ctl` and similar commands.
    Query(Query),
}

/// A hook event as the shim saw it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Deliver {
    pub event_id: EventId,
    /// The agent's name on the shim's command line.
    pub agent: String,
    /// The event's name on the command line. Empty if only the payload names it.
    pub event_name: String,
    /// The wall clock when the shim had read the payload, in milliseconds since 1970 (UTC).
    pub captured_at_ms: i64,
    /// The machine's boot id. Events of one boot are ordered by `boot_ns`, regardless of the wall clock.
    pub boot_id: [u8; 16],
    /// Time since boot (CLOCK_BOOTTIME) in nanoseconds.
    pub boot_ns: u64,
    pub context: ShimContext,
    /// The agent's JSON with private text removed and long strings shortened, or the raw input if it was not JSON.
    #[serde(with = "serde_bytes")]
    pub payload: Vec<u8>,
    pub flags: Flags,
}

/// Where the shim ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShimContext {
    pub pid: u32,
    pub cwd: String,
    /// The project's folder, from the agent's environment variable.
    pub project_dir: Option<String>,
    /// The agent's config folder if the user moved it.
    pub config_dir: Option<String>,
}

/// Flags that say what the shim did to the payload.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flags(pub u32);

impl Flags {
    /// The whole prompt was private. The payload does not contain its text.
    pub const WHOLLY_PRIVATE: Self = Self(1);
    /// Stdin ended, or the deadline passed, before the JSON value was complete.
    pub const INCOMPLETE: Self = Self(1 << 1);
    /// A long string was shortened. The mark inside it states its original length.
    pub const SHORTENED: Self = Self(1 << 2);
    /// A `<private>` block or a block of recall's own was removed.
    pub const STRIPPED: Self = Self(1 << 3);
    /// The input is not JSON. Tags were removed as from plain text.
    pub const NOT_JSON: Self = Self(1 << 4);
    /// The event did not come from a hook but from the agent's own record of a session. Nobody waits for an answer.
    pub const IMPORTED: Self = Self(1 << 5);

    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    #[must_use]
    pub fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// The answer to any request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Reply {
    /// The event is durable. `stdout` is what the agent reads, byte for byte; often empty.
    Ack {
        #[serde(with = "serde_bytes")]
        stdout: Vec<u8>,
    },
    /// The event was already stored, and had no second effect.
    Duplicate {
        #[serde(with = "serde_bytes")]
        stdout: Vec<u8>,
    },
    /// The daemon had no permit before the deadline, or the writer failed. The sender keeps the event and retries.
    Busy,
    /// The frame exceeds the daemon's limit.
    TooBig,
    /// The frame's version is unknown. The daemon understands these.
    Version { min: u8, max: u8 },
    /// The daemon is stopping. The sender keeps the event and retries.
    ShuttingDown,
    /// The daemon understood the request and refused it.
    Invalid(String),
    /// The answer to a query: one JSON object of the documented shape.
    Json(#[serde(with = "serde_bytes")] Vec<u8>),
    /// A query failed: `kind` is for programs, `what` says what happened, `hint` what the user can do.
    Failed { kind: ErrorKind, what: String, hint: String },
    /// The disk is slow: the same answer as [`Reply::Ack`], but the event is not durable yet. The sender keeps the
    /// event as if it had received no reply; a sender that does not know this variant does the same.
    Unsaved {
        #[serde(with = "serde_bytes")]
        stdout: Vec<u8>,
    },
}

/// Why a query failed, for programs: exit codes and the errors of other protocols derive from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ErrorKind {
    /// The named item does not exist.
    NotFound,
    /// The request is malformed or contradictory.
    Invalid,
    /// Work is unfinished, or too many requests are running. Retrying helps.
    Busy,
    /// A part of the daemon does not respond.
    Unavailable,
    /// The request is valid, but conflicts with what is stored now.
    Conflict,
    /// Something outside the request failed.
    Internal,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_ids_are_unique_and_parsed_from_their_text() {
        let (first, second) = (EventId::new(1_700_000_000_000), EventId::new(1_700_000_000_000));
        assert_ne!(first, second);
        assert_eq!(first.to_string().parse(), Ok(first));
        let odd = format!("{}+1", "0".repeat(30));
        for text in ["", "00", "zz000000000000000000000000000000", odd.as_str()] {
            assert_eq!(text.parse::<EventId>(), Err(NotAnEventId), "{text}");
        }
    }
}
