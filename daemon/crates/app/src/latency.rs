//! Measures how long hook answers and commits take, over the last thousand of each.
//!
//! Recording costs two atomic operations, because it is on the hook's path. A concurrent reader may see a slightly
//! older value.

use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

/// The number of values kept of each kind.
const WINDOW: usize = 1_000;

/// The latencies shown by `status`.
#[derive(Debug, Default)]
pub struct Latencies {
    /// From an event's arrival until its answer is ready.
    pub hook_answers: LatencyWindow,
    /// From the start of a group's transaction until it is durable.
    pub commits: LatencyWindow,
}

/// The last values of one kind, in microseconds.
#[derive(Debug)]
pub struct LatencyWindow {
    micros: Box<[AtomicU32]>,
    recorded: AtomicUsize,
}

/// The median and the 99th percentile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quantiles {
    pub samples: usize,
    pub(crate) p50_us: u32,
    pub(crate) p99_us: u32,
}

impl Default for LatencyWindow {
    fn default() -> Self {
        Self { micros: (0..WINDOW).map(|_| AtomicU32::new(0)).collect(), recorded: AtomicUsize::new(0) }
    }
}

impl LatencyWindow {
    pub fn record(&self, took: Duration) {
        let place = self.recorded.fetch_add(1, Ordering::Relaxed) % WINDOW;
        if let Some(slot) = self.micros.get(place) {
            slot.store(u32::try_from(took.as_micros()).unwrap_or(u32::MAX), Ordering::Relaxed);
        }
    }

    /// Returns the quantiles. `None` if nothing was recorded.
    pub fn quantiles(&self) -> Option<Quantiles> {
        let samples = self.recorded.load(Ordering::Relaxed).min(WINDOW);
        let mut micros: Vec<u32> =
            self.micros.iter().take(samples).map(|slot| slot.load(Ordering::Relaxed)).collect();
        micros.sort_unstable();
        let at = |percent: usize| micros.get((samples * percent).div_ceil(100).checked_sub(1)?).copied();
        Some(Quantiles { samples, p50_us: at(50)?, p99_us: at(99)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(micros: impl IntoIterator<Item = u64>) -> Option<Quantiles> {
        let window = LatencyWindow::default();
        micros.into_iter().for_each(|each| window.record(Duration::from_micros(each)));
        window.quantiles()
    }

    #[test]
    fn quantiles_are_values_that_were_recorded() {
        assert_eq!(window([]), None);
        assert_eq!(window([7]), Some(Quantiles { samples: 1, p50_us: 7, p99_us: 7 }));
        assert_eq!(window((1..=100).rev()), Some(Quantiles { samples: 100, p50_us: 50, p99_us: 99 }));
        assert_eq!(window([u64::MAX]), Some(Quantiles { samples: 1, p50_us: u32::MAX, p99_us: u32::MAX }));
    }

    #[test]
    fn only_the_last_thousand_measurements_count() {
        let slow_at_first = (0..1_000).map(|_| 900_000).chain((0..1_000).map(|_| 5));
        assert_eq!(window(slow_at_first), Some(Quantiles { samples: 1_000, p50_us: 5, p99_us: 5 }));
    }
}
