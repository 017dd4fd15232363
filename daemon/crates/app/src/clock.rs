//! The only place where the daemon reads the wall clock.

use std::sync::OnceLock;
use std::time::SystemTime;

use recall_protocol::boot::{BootStamp, UNKNOWN_BOOT};
use tokio::time::Instant;

use recall_domain::budget::Day;
use recall_domain::ids::Timestamp;
use recall_domain::order::Order;
use recall_system::faults;

/// When the time began to follow the runtime. Set only by tests.
static FOLLOWED_FROM: OnceLock<(SystemTime, Instant)> = OnceLock::new();

/// Makes the time of this process follow its runtime's clock, which a test may pause and advance. Called only by
/// tests.
pub fn follow_the_runtime() {
    FOLLOWED_FROM.get_or_init(|| (SystemTime::now(), Instant::now()));
}

/// The current time.
pub fn now() -> Timestamp {
    let now = of(match FOLLOWED_FROM.get() {
        Some((wall, instant)) => *wall + Instant::now().saturating_duration_since(*instant),
        None => SystemTime::now(),
    });
    Timestamp(now.0.saturating_add(faults::clock_ahead_ms()))
}

/// Returns this moment in the order of events.
pub fn moment() -> Order {
    let BootStamp { boot_id, boot_ns } = boot_stamp();
    Order { boot: boot_id, boot_ns, wall: now() }
}

/// A test's clock differs from the machine's, so its boot is unknown.
fn boot_stamp() -> BootStamp {
    match FOLLOWED_FROM.get() {
        Some(_) => BootStamp { boot_id: UNKNOWN_BOOT, boot_ns: 0 },
        None => BootStamp::now(),
    }
}

/// Converts the time of a file or of another program.
pub fn of(time: SystemTime) -> Timestamp {
    let since = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Returns when the day after this moment begins in the user's time zone.
pub fn midnight_after(moment: Timestamp) -> Timestamp {
    const DAY_MS: i64 = 24 * 3600 * 1000;
    let zoned = jiff::Timestamp::from_millisecond(moment.0)
        .unwrap_or_default()
        .to_zoned(jiff::tz::TimeZone::system());
    let midnight = zoned.tomorrow().and_then(|tomorrow| tomorrow.start_of_day());
    midnight
        .map_or(Timestamp(moment.0.saturating_add(DAY_MS)), |at| Timestamp(at.timestamp().as_millisecond()))
}

/// Returns the day in the user's time zone. Budgets restart at its midnight.
pub fn day_of(moment: Timestamp) -> Day {
    let moment = jiff::Timestamp::from_millisecond(moment.0).unwrap_or_default();
    Day(moment.to_zoned(jiff::tz::TimeZone::system()).date().to_string())
}
