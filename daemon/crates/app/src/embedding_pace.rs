//! Limits what computing vectors may use of the machine: half a core while somebody works, all cores but one once
//! nothing has happened for a minute and the machine is not on battery.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// After this long without an event, nobody is working.
const QUIET_AFTER: Duration = Duration::from_secs(60);
/// The folder of power supplies, see sysfs(5).
const SUPPLIES: &str = "/sys/class/power_supply";

/// Limits how much of the machine the computing of vectors uses. Cheap to clone.
#[derive(Clone)]
pub struct Pace {
    last: Arc<Mutex<Instant>>,
    /// Whether somebody is waiting for the vectors.
    hurry: Arc<AtomicBool>,
}

impl Default for Pace {
    fn default() -> Self {
        Self { last: Arc::new(Mutex::new(Instant::now())), hurry: Arc::default() }
    }
}

/// How fast to compute vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Speed {
    /// The number of batches that run concurrently.
    pub lanes: usize,
    pub rest: Rest,
}

/// How long to rest after a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rest {
    None,
    /// A pause as long as the batch took.
    AsLong,
}

impl Pace {
    /// Records that something happened in a session.
    pub fn happened(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    /// Works as fast as possible from now on, because somebody is waiting.
    pub fn hurry(&self) {
        self.hurry.store(true, Ordering::Relaxed);
    }

    pub(super) fn is_hurried(&self) -> bool {
        self.hurry.load(Ordering::Relaxed)
    }

    /// Returns to the normal pace, because nobody is waiting any more.
    pub fn take_your_time(&self) {
        self.hurry.store(false, Ordering::Relaxed);
    }

    pub(super) fn speed(&self) -> Speed {
        let quiet = self.last.lock().unwrap_or_else(PoisonError::into_inner).elapsed() >= QUIET_AFTER;
        if self.is_hurried() || quiet && !is_on_battery(Path::new(SUPPLIES)) {
            let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            return Speed { lanes: cores.saturating_sub(1).max(1), rest: Rest::None };
        }
        Speed { lanes: 1, rest: Rest::AsLong }
    }
}

/// Whether the machine runs on battery: it has a mains supply, and that is offline. A machine that reports neither
/// counts as on mains power.
fn is_on_battery(supplies: &Path) -> bool {
    let entries = std::fs::read_dir(supplies).into_iter().flatten().flatten();
    let cords: Vec<bool> = entries
        .filter_map(|entry| {
            let read = |name: &str| std::fs::read_to_string(entry.path().join(name));
            let is_cord = matches!(read("type").ok()?.trim(), "Mains" | "USB");
            is_cord.then(|| read("online").is_ok_and(|online| online.trim() == "1"))
        })
        .collect();
    !cords.is_empty() && !cords.contains(&true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_computed_on_half_a_core_while_the_user_works() {
        let pace = Pace::default();
        assert_eq!(pace.speed(), Speed { lanes: 1, rest: Rest::AsLong });
        pace.hurry();
        assert_eq!(pace.speed().rest, Rest::None);
        pace.take_your_time();
        *pace.last.lock().unwrap() = Instant::now().checked_sub(QUIET_AFTER).unwrap();
        if !is_on_battery(Path::new(SUPPLIES)) {
            assert_eq!(pace.speed().rest, Rest::None);
        }
        pace.happened();
        assert_eq!(pace.speed().rest, Rest::AsLong);
    }

    #[test]
    fn a_machine_is_on_battery_if_all_its_power_supplies_are_offline() {
        let folder = tempfile::tempdir().unwrap();
        let supply = |name: &str, kind: &str, online: &str| {
            let place = folder.path().join(name);
            std::fs::create_dir_all(&place).unwrap();
            std::fs::write(place.join("type"), kind).unwrap();
            std::fs::write(place.join("online"), online).unwrap();
        };
        assert!(!is_on_battery(folder.path()) && !is_on_battery(&folder.path().join("none")));
        supply("BAT0", "Battery\n", "");
        assert!(!is_on_battery(folder.path()), "nobody says whether there is a cord");
        supply("AC", "Mains\n", "0\n");
        assert!(is_on_battery(folder.path()));
        supply("ucsi", "USB\n", "1\n");
        assert!(!is_on_battery(folder.path()));
    }
}
