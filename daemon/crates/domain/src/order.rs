//! The order of events. They may arrive late or out of order: some wait in the spool, and concurrent hooks overtake
//! each other.

use serde::{Deserialize, Serialize};

use super::ids::Timestamp;

/// When an event was captured. Time since boot orders events of one boot, even if the wall clock jumps. Events of
/// different boots are ordered by the wall clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Order {
    pub boot: [u8; 16],
    /// Nanoseconds since that boot.
    pub boot_ns: u64,
    pub wall: Timestamp,
}

impl Order {
    /// Whether this was certainly earlier. False if both are of the same instant.
    pub fn is_before(&self, other: &Self) -> bool {
        if self.boot == other.boot { self.boot_ns < other.boot_ns } else { self.wall < other.wall }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_that_steps_back_changes_nothing_within_a_boot() {
        let at = |boot: u8, boot_ns, wall| Order { boot: [boot; 16], boot_ns, wall: Timestamp(wall) };
        assert!(at(1, 10, 900).is_before(&at(1, 20, 100)));
        assert!(!at(1, 20, 100).is_before(&at(1, 10, 900)));
        assert!(at(1, 99, 100).is_before(&at(2, 1, 200)));
        assert!(!at(1, 5, 5).is_before(&at(1, 5, 5)));
    }
}
