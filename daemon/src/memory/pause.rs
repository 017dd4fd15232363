//! Pauses: periods in which the user has turned recording off.
//!
//! The capture time of an event decides: one that was captured during a pause is dropped, whenever it arrives.

use serde::{Deserialize, Serialize};

use super::ids::Timestamp;

/// Pauses that are remembered, for events that arrive late.
const MOST: usize = 200;

/// A pause. `until` is `None` if it lasts until the user ends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub since: Timestamp,
    pub until: Option<Timestamp>,
}

/// All pauses, the latest last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pauses(Vec<Pause>);

impl Pauses {
    /// An endless pause, used when the user's setting cannot be read.
    pub fn unknown() -> Self {
        Self(vec![Pause { since: Timestamp(i64::MIN), until: None }])
    }

    pub fn cover(&self, at: Timestamp) -> bool {
        self.0.iter().any(|pause| pause.covers(at))
    }

    /// The pause at this moment.
    pub fn current(&self, now: Timestamp) -> Option<Pause> {
        self.0.iter().rev().find(|pause| pause.covers(now)).copied()
    }

    /// Starts a pause, or changes the end of the current one.
    pub fn begin(&mut self, now: Timestamp, until: Option<Timestamp>) {
        match self.0.iter_mut().rev().find(|pause| pause.covers(now)) {
            Some(pause) => pause.until = until,
            None => self.0.push(Pause { since: now, until }),
        }
        let surplus = self.0.len().saturating_sub(MOST);
        self.0.drain(..surplus);
    }

    /// Ends the current pause, if there is one.
    pub fn end(&mut self, now: Timestamp) {
        for pause in self.0.iter_mut().filter(|pause| pause.covers(now)) {
            pause.until = Some(now);
        }
    }
}

impl Pause {
    /// A line for the user.
    pub fn in_words(&self) -> &'static str {
        match self.until {
            None => "paused until `recall resume`; this session is not recorded",
            Some(_) => "paused for a while (see `recall ctl status`); this session is not recorded",
        }
    }

    fn covers(&self, at: Timestamp) -> bool {
        at >= self.since && self.until.is_none_or(|until| at < until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_count_by_the_moment_they_were_taken() {
        let mut pauses = Pauses::default();
        pauses.begin(Timestamp(10), Some(Timestamp(20)));
        pauses.begin(Timestamp(30), None);
        let covered = |pauses: &Pauses| {
            [9, 10, 19, 20, 30, 99]
                .map(|at| if pauses.cover(Timestamp(at)) { '-' } else { '+' })
                .iter()
                .collect::<String>()
        };
        assert_eq!(covered(&pauses), "+--+--");
        pauses.end(Timestamp(99));
        assert_eq!(covered(&pauses), "+--+-+");
        assert_eq!(pauses.current(Timestamp(99)), None);
        pauses.begin(Timestamp(100), None);
        pauses.begin(Timestamp(110), Some(Timestamp(120)));
        let current = Pause { since: Timestamp(100), until: Some(Timestamp(120)) };
        assert_eq!(pauses.current(Timestamp(115)), Some(current));
        assert!(Pauses::unknown().cover(Timestamp(0)));
    }

    #[test]
    fn the_oldest_are_dropped() {
        let mut pauses = Pauses::default();
        for at in 0..500 {
            pauses.begin(Timestamp(at * 10), Some(Timestamp(at * 10 + 1)));
        }
        assert_eq!(pauses.0.len(), MOST);
        assert!(pauses.cover(Timestamp(4990)) && !pauses.cover(Timestamp(0)));
    }
}
