//! The one place where the daemon reads the wall clock.

use std::time::SystemTime;

use crate::memory::budget::Day;
use crate::memory::ids::Timestamp;

pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The day in the user's own time zone: budgets begin anew at their midnight.
pub fn day_of(moment: Timestamp) -> Day {
    let moment = jiff::Timestamp::from_millisecond(moment.0).unwrap_or_default();
    Day(moment.to_zoned(jiff::tz::TimeZone::system()).date().to_string())
}
