//! The only place where the daemon reads the wall clock.

use std::time::SystemTime;

use recall_protocol::boot::BootStamp;
#[cfg(test)]
use recall_protocol::boot::UNKNOWN_BOOT;

use crate::memory::budget::Day;
use crate::memory::ids::Timestamp;
use crate::memory::order::Order;

#[cfg(not(test))]
pub fn now() -> Timestamp {
    of(SystemTime::now())
}

/// The current time. A test may pause and advance its runtime's clock, and the wall clock follows.
#[cfg(test)]
pub fn now() -> Timestamp {
    use std::sync::LazyLock;
    use tokio::time::Instant;

    static BEGINNING: LazyLock<(SystemTime, Instant)> = LazyLock::new(|| (SystemTime::now(), Instant::now()));
    let (wall, instant) = *BEGINNING;
    of(wall + Instant::now().saturating_duration_since(instant))
}

/// This moment, in the order of events.
pub fn moment() -> Order {
    let BootStamp { boot_id, boot_ns } = boot_stamp();
    Order { boot: boot_id, boot_ns, wall: now() }
}

#[cfg(not(test))]
fn boot_stamp() -> BootStamp {
    BootStamp::now()
}

/// A test's clock differs from the machine's.
#[cfg(test)]
fn boot_stamp() -> BootStamp {
    BootStamp { boot_id: UNKNOWN_BOOT, boot_ns: 0 }
}

/// A time of a file, or of another program.
pub fn of(time: SystemTime) -> Timestamp {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// When the day after this moment begins in the user's time zone.
pub fn midnight_after(moment: Timestamp) -> Timestamp {
    const DAY_MS: i64 = 24 * 3600 * 1000;
    let zoned = jiff::Timestamp::from_millisecond(moment.0)
        .unwrap_or_default()
        .to_zoned(jiff::tz::TimeZone::system());
    let midnight = zoned.tomorrow().and_then(|tomorrow| tomorrow.start_of_day());
    midnight
        .map_or(Timestamp(moment.0.saturating_add(DAY_MS)), |at| Timestamp(at.timestamp().as_millisecond()))
}

/// The day in the user's time zone. Budgets start again at its midnight.
pub fn day_of(moment: Timestamp) -> Day {
    let moment = jiff::Timestamp::from_millisecond(moment.0).unwrap_or_default();
    Day(moment.to_zoned(jiff::tz::TimeZone::system()).date().to_string())
}
