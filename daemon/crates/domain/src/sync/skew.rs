//! How far another machine's clock is from this one's. Nothing is decided by that; people are told, because a wrong clock puts
//! notes at wrong times.

use crate::ids::Timestamp;

/// Clocks that differ less are not worth a word: networks and waiting for a turn take time.
const TOLERATED_MS: i64 = 120_000;

/// What is known of a clock, in milliseconds. It may be farther off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Skew {
    AheadAtLeast(i64),
    BehindAtLeast(i64),
}

impl Skew {
    /// What follows from what a machine's clock said. It said so before `now`, and after `after` if that is known.
    pub fn of(said: Timestamp, after: Option<Timestamp>, now: Timestamp) -> Option<Self> {
        let ahead = said.0.saturating_sub(now.0);
        let behind = after.map_or(0, |after| after.0.saturating_sub(said.0));
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
    fn a_clock_is_off_only_if_nothing_else_explains_what_it_said() {
        let at = Timestamp;
        for (said, after, now, expected) in [
            (1_000_000, None, 1_000_000, None),
            (1_120_000, None, 1_000_000, None),
            (1_120_001, None, 1_000_000, Some(Skew::AheadAtLeast(120_001))),
            // It may have been said long ago.
            (0, None, 1_000_000, None),
            (880_000, Some(1_000_000), 1_060_000, None),
            (879_999, Some(1_000_000), 1_060_000, Some(Skew::BehindAtLeast(120_001))),
            (i64::MIN, Some(i64::MAX), i64::MAX, Some(Skew::BehindAtLeast(i64::MAX))),
        ] {
            assert_eq!(Skew::of(at(said), after.map(at), at(now)), expected, "{said}");
        }
    }
}
