//! A machine whose wall clock jumps, and which restarts from time to time.
//!
//! Only the times on the wire are made up. The daemon uses the true clock.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use recall_protocol::boot::{self, BootStamp};
use recall_protocol::wire::Deliver;

/// The time from one boot to the next. It is far more than [`FARTHEST_STEP_MS`], so the wall clock alone
/// distinguishes the boots.
const BOOT_EVERY_MS: i64 = 24 * 3_600_000;
/// How far the wall clock may be wrong in either direction, in milliseconds.
const FARTHEST_STEP_MS: i64 = 6 * 3_600_000;
/// The longest pause between two events.
const LONGEST_PAUSE: Duration = Duration::from_millis(40);

/// The clock that stamps events.
#[derive(Debug)]
pub enum Clock {
    /// The system's time.
    True,
    /// Another time. See [`Stepped`].
    Stepped(Mutex<Stepped>),
}

/// A clock whose time since boot only grows. Its wall clock is set forward and back at random.
#[derive(Debug)]
pub struct Stepped {
    random: fastrand::Rng,
    events_a_boot: usize,
    boots: u64,
    events: usize,
    since_boot: Duration,
    booted_at_ms: i64,
    off_by_ms: i64,
    /// How often the wall clock of an event was before that of the previous one.
    backward: usize,
    last_ms: i64,
}

impl Clock {
    /// Returns a clock that starts some days ago. It boots again after this many events.
    pub fn stepped(seed: u64, boots: usize, events_a_boot: usize) -> Self {
        let began = boot::wall_ms() - BOOT_EVERY_MS * i64::try_from(boots).unwrap();
        Self::Stepped(Mutex::new(Stepped {
            random: fastrand::Rng::with_seed(seed),
            events_a_boot,
            boots: 0,
            events: 0,
            since_boot: Duration::ZERO,
            booted_at_ms: began - BOOT_EVERY_MS,
            off_by_ms: 0,
            backward: 0,
            last_ms: i64::MIN,
        }))
    }

    /// Stamps an event that happens now.
    pub fn stamp(&self, delivery: &mut Deliver) {
        let Self::Stepped(stepped) = self else { return };
        let mut stepped = stepped.lock().unwrap_or_else(PoisonError::into_inner);
        let (wall_ms, stamp) = stepped.next_moment();
        (delivery.captured_at_ms, delivery.boot_id, delivery.boot_ns) =
            (wall_ms, stamp.boot_id, stamp.boot_ns);
    }

    /// Returns the number of boots, and how often the wall clock went backward.
    pub fn troubles(&self) -> (u64, usize) {
        match self {
            Self::True => (1, 0),
            Self::Stepped(stepped) => {
                let stepped = stepped.lock().unwrap_or_else(PoisonError::into_inner);
                (stepped.boots, stepped.backward)
            }
        }
    }
}

impl Stepped {
    fn next_moment(&mut self) -> (i64, BootStamp) {
        if self.events.is_multiple_of(self.events_a_boot) {
            self.boots += 1;
            self.since_boot = Duration::from_secs(20);
            self.booted_at_ms += BOOT_EVERY_MS;
            self.off_by_ms = 0;
        }
        self.events += 1;
        self.since_boot += LONGEST_PAUSE.mul_f64(self.random.f64()) + Duration::from_nanos(1);
        if self.random.u8(0..6) == 0 {
            self.off_by_ms = self.random.i64(-FARTHEST_STEP_MS..=FARTHEST_STEP_MS);
        }
        let wall = self.booted_at_ms + self.off_by_ms + i64::try_from(self.since_boot.as_millis()).unwrap();
        self.backward += usize::from(wall < self.last_ms);
        self.last_ms = wall;
        let mut boot_id = [0xb0; 16];
        boot_id[..8].copy_from_slice(&self.boots.to_le_bytes());
        (wall, BootStamp { boot_id, boot_ns: u64::try_from(self.since_boot.as_nanos()).unwrap() })
    }
}
