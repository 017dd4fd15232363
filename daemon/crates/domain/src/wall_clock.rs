//! Decides whether to trust the wall clock when deleting something for its age.
//!
//! A clock may be wrong for a while: an empty battery, a mistyped date, a restored machine. Whatever it makes look old
//! would be deleted permanently. So a clock that jumped, or that was never seen before, is trusted only once the
//! daemon was started twice with it or has run with it for a day.

use serde::{Deserialize, Serialize};

use super::ids::Timestamp;
use super::order::Order;

const HOUR_MS: i64 = 60 * 60 * 1000;
/// A larger difference from the expected time is a jump. Time zones differ by less.
const JUMP_MS: i64 = 36 * HOUR_MS;
const STARTS: u32 = 2;
const RAN_MS: i64 = 24 * HOUR_MS;
/// The id of boots without a name. Their times come from the wall clock.
const NO_BOOT: [u8; 16] = [0; 16];
const NS_OF_MS: u64 = 1_000_000;

/// Facts about the clock, kept across daemon restarts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockRecord {
    /// When the clock was last checked.
    seen: Option<Order>,
    /// Daemon starts since the last jump.
    starts: u32,
    /// How long daemons have run since the last jump.
    ran_ms: i64,
    /// The last jump, until the clock is trusted.
    jump: Option<Jump>,
}

/// A step that elapsed time does not explain.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jump {
    /// The time before the jump.
    pub from: Timestamp,
    pub to: Timestamp,
}

/// Why the clock is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A daemon started.
    Start,
    /// The daemon has run for this long since the last check.
    Running { ms: i64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    Believed,
    /// Not trusted yet. `None` if the clock has not jumped but has not been seen for long enough.
    NotYet(Option<Jump>),
}

impl ClockRecord {
    #[must_use]
    pub fn look(self, now: &Order, look: Look) -> Self {
        let (starts, ms) = match look {
            Look::Start => (1, 0),
            Look::Running { ms } => (0, ms),
        };
        let jump = self.seen.and_then(|seen| jump_since(&seen, now, ms));
        let mut next = match jump {
            Some(_) => Self { seen: Some(*now), starts, ran_ms: 0, jump },
            None => Self {
                seen: Some(*now),
                starts: self.starts.saturating_add(starts),
                ran_ms: self.ran_ms.saturating_add(ms),
                jump: self.jump,
            },
        };
        if next.trust() == Trust::Believed {
            next.jump = None;
        }
        next
    }

    pub fn trust(&self) -> Trust {
        if self.starts >= STARTS || self.ran_ms >= RAN_MS {
            Trust::Believed
        } else {
            Trust::NotYet(self.jump)
        }
    }
}

/// Detects a jump. `ran_ms` is the time that has certainly passed. Within a boot it is known exactly, even through
/// sleep.
fn jump_since(seen: &Order, now: &Order, ran_ms: i64) -> Option<Jump> {
    let passed = match seen.boot == now.boot && seen.boot != NO_BOOT {
        true => i64::try_from(now.boot_ns.saturating_sub(seen.boot_ns) / NS_OF_MS).unwrap_or(i64::MAX),
        false => ran_ms,
    };
    let expected = Timestamp(seen.wall.0.saturating_add(passed));
    let step = now.wall.0.saturating_sub(expected.0);
    (step.saturating_abs() > JUMP_MS).then_some(Jump { from: seen.wall, to: now.wall })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 24 * HOUR_MS;
    const TODAY: i64 = 20_000 * DAY;

    fn at(boot: u8, ms: i64, wall: i64) -> Order {
        Order { boot: [boot; 16], boot_ns: ms as u64 * NS_OF_MS, wall: Timestamp(wall) }
    }

    /// A clock that two daemons were started with.
    fn believed() -> ClockRecord {
        let record = ClockRecord::default().look(&at(1, 0, TODAY), Look::Start);
        assert_eq!(record.trust(), Trust::NotYet(None));
        let record = record.look(&at(2, 0, TODAY + DAY), Look::Start);
        assert_eq!(record.trust(), Trust::Believed);
        record
    }

    #[test]
    fn a_clock_that_jumped_years_is_trusted_only_after_a_second_start() {
        let ahead = TODAY + 3_650 * DAY;
        let record = believed().look(&at(3, 0, ahead), Look::Start);
        let jump = Jump { from: Timestamp(TODAY + DAY), to: Timestamp(ahead) };
        assert_eq!(record.trust(), Trust::NotYet(Some(jump)));
        let later = record.look(&at(3, 60_000, ahead + 60_000), Look::Running { ms: 60_000 });
        assert_eq!(later.trust(), Trust::NotYet(Some(jump)));
        assert_eq!(later.look(&at(4, 0, ahead + DAY), Look::Start).trust(), Trust::Believed);
        // Set right again, it has to prove itself as well.
        let right = later.look(&at(5, 0, TODAY + 2 * DAY), Look::Start);
        assert!(matches!(right.trust(), Trust::NotYet(Some(Jump { from, .. })) if from.0 > ahead));
        assert_eq!(right.look(&at(6, 0, TODAY + 2 * DAY), Look::Start).trust(), Trust::Believed);
    }

    #[test]
    fn a_clock_that_jumped_is_trusted_after_a_day_of_running() {
        let mut record = believed().look(&at(3, 0, TODAY + 10 * DAY), Look::Start);
        for hour in 1..=24 {
            assert_ne!(record.trust(), Trust::Believed, "{hour}");
            let now = at(3, hour * HOUR_MS, TODAY + 10 * DAY + hour * HOUR_MS);
            record = record.look(&now, Look::Running { ms: HOUR_MS });
        }
        assert_eq!(record.trust(), Trust::Believed);
    }

    #[test]
    fn sleep_is_no_clock_jump_and_a_step_while_running_is_one() {
        let record = believed();
        let now = at(2, 9 * DAY, TODAY + 10 * DAY);
        assert_eq!(record.look(&now, Look::Running { ms: 60_000 }).trust(), Trust::Believed, "it slept");
        for wall in [TODAY - 2 * DAY, TODAY + 5 * DAY] {
            let stepped = record.look(&at(2, 60_000, wall), Look::Running { ms: 60_000 });
            assert!(matches!(stepped.trust(), Trust::NotYet(Some(_))), "{wall}");
            let again = stepped.look(&at(3, 0, wall + 1), Look::Start);
            assert!(matches!(again.trust(), Trust::NotYet(Some(_))), "one start with it");
            assert_eq!(again.look(&at(4, 0, wall + 2), Look::Start).trust(), Trust::Believed);
        }
        // Daylight saving, another time zone, a clock that was set by some minutes.
        for wall in [TODAY + DAY - HOUR_MS, TODAY + DAY + 30 * HOUR_MS] {
            assert_eq!(record.look(&at(3, 0, wall), Look::Start).trust(), Trust::Believed);
        }
    }

    #[test]
    fn without_boot_ids_clock_jumps_are_detected_by_running_time() {
        let none = |wall| Order { boot: NO_BOOT, boot_ns: 0, wall: Timestamp(wall) };
        let record = ClockRecord::default().look(&none(TODAY), Look::Start);
        let record = record.look(&none(TODAY + 3 * DAY), Look::Running { ms: 3 * DAY });
        assert_eq!(record.trust(), Trust::Believed);
        let record = record.look(&none(TODAY + 9 * DAY), Look::Running { ms: 60_000 });
        assert!(matches!(record.trust(), Trust::NotYet(Some(_))));
    }
}
