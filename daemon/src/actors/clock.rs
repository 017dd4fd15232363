//! The one place where the daemon reads the wall clock.

use std::time::SystemTime;

use crate::memory::ids::Timestamp;

pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
