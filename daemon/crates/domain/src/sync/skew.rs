//! Clock skew between this machine and another. Merging does not use it. It is reported to people, because a wrong
//! clock puts notes at wrong times.

use crate::ids::Timestamp;

/// Smaller differences are not reported: the network and the wait for the next round take time. In milliseconds.
const TOLERATED_MS: i64 = 120_000;

/// A lower bound of the skew, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skew {
    AheadAtLeast(i64),
    BehindAtLeast(i64),
}

impl Skew {
    /// Compares a machine's clock reading with the local clock. The reading was taken before `now`, and after `after`
    /// if that is known. Returns `None` if the clocks may agree.
    pub fn of(reading: Timestamp, after: Option<Timestamp>, now: Timestamp) -> Option<Self> {
        let ahead = reading.0.saturating_sub(now.0);
        let behind = after.map_or(0, |after| after.0.saturating_sub(reading.0));
        match () {
            () if ahead > TOLERATED_MS => Some(Self::AheadAtLeast(ahead)),
            () if behind > TOLERATED_MS => Some(Self::BehindAtLeast(behind)),
            () => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clock_skew_is_reported_only_if_the_readings_cannot_agree() {
        let at = Timestamp;
        for (reading, after, now, expected) in [
            (1_000_000, None, 1_000_000, None),
            (1_120_000, None, 1_000_000, None),
            (1_120_001, None, 1_000_000, Some(Skew::AheadAtLeast(120_001))),
            // The reading may be old.
            (0, None, 1_000_000, None),
            (880_000, Some(1_000_000), 1_060_000, None),
            (879_999, Some(1_000_000), 1_060_000, Some(Skew::BehindAtLeast(120_001))),
            (i64::MIN, Some(i64::MAX), i64::MAX, Some(Skew::BehindAtLeast(i64::MAX))),
        ] {
            assert_eq!(Skew::of(at(reading), after.map(at), at(now)), expected, "{reading}");
        }
    }
}
