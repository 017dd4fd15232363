//! The only place where the daemon reads the wall clock.

use std::time::SystemTime;

use crate::memory::budget::Day;
use crate::memory::ids::Timestamp;

#[cfg(not(test))]
pub fn now() -> Timestamp {
    of(SystemTime::now())
}

/// A test may pause its runtime's clock and move it on; the wall clock follows it.
#[cfg(test)]
pub fn now() -> Timestamp {
    use std::sync::LazyLock;
    use tokio::time::Instant;

    static BEGINNING: LazyLock<(SystemTime, Instant)> = LazyLock::new(|| (SystemTime::now(), Instant::now()));
    let (wall, instant) = *BEGINNING;
    of(wall + Instant::now().saturating_duration_since(instant))
}

fn of(time: SystemTime) -> Timestamp {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// The day in the user's time zone. Budgets start again at its midnight.
pub fn day_of(moment: Timestamp) -> Day {
    let moment = jiff::Timestamp::from_millisecond(moment.0).unwrap_or_default();
    Day(moment.to_zoned(jiff::tz::TimeZone::system()).date().to_string())
}
