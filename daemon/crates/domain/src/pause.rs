//! Pauses: periods for which the user turned recording off.
//!
//! An event's capture time decides: an event captured during a pause is dropped, whenever it arrives. Within a boot
//! the time since boot decides, so a clock that is set back or forward neither ends a pause nor opens a gap in it.

use serde::{Deserialize, Serialize};

use super::ids::Timestamp;
use super::order::Order;

/// The maximum number of separate pauses, kept for events that arrive late and records read later.
const MOST: usize = 2_000;

/// The id of boots without a name. Their times come from the wall clock.
const NO_BOOT: [u8; 16] = [0; 16];
const NS_OF_MS: u64 = 1_000_000;

/// A pause. `until` is `None` if it lasts until the user ends it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pause {
    pub since: Timestamp,
    pub until: Option<Timestamp>,
    /// When the pause began.
    #[serde(default)]
    began: Option<Order>,
    /// When the user ended it.
    #[serde(default)]
    ended: Option<Order>,
}

/// All pauses, latest last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pauses(Vec<Pause>);

impl Pauses {
    /// An endless pause, used when the user's setting cannot be read.
    pub fn unknown() -> Self {
        Self(vec![Pause { since: Timestamp(i64::MIN), ..Pause::default() }])
    }

    pub fn cover(&self, at: &Order) -> bool {
        self.0.iter().any(|pause| pause.covers(at))
    }

    /// Returns the pause in force at this moment.
    pub fn current(&self, now: &Order) -> Option<Pause> {
        self.0.iter().rev().find(|pause| pause.covers(now)).copied()
    }

    /// Starts a pause, or changes the end of the current one.
    pub fn begin(&mut self, now: &Order, until: Option<Timestamp>) {
        match self.0.iter_mut().rev().find(|pause| pause.covers(now)) {
            Some(pause) => {
                // `until` counts from now, whatever the clock showed when the pause began.
                let passed = pause.began.filter(|began| is_same_boot(began, now)).map(|began| {
                    let passed = now.boot_ns.saturating_sub(began.boot_ns) / NS_OF_MS;
                    i64::try_from(passed).unwrap_or(i64::MAX)
                });
                let stepped = passed
                    .map_or(0, |passed| now.wall.0.saturating_sub(pause.since.0).saturating_sub(passed));
                pause.until = until.map(|until| Timestamp(until.0.saturating_sub(stepped)));
            }
            None => self.0.push(Pause { since: now.wall, until, began: Some(*now), ended: None }),
        }
        self.join_oldest();
    }

    /// Merges the two oldest pauses if there are too many. The result also covers the time between them: dropping more
    /// is better than recording what was said in a pause.
    fn join_oldest(&mut self) {
        while self.0.len() > MOST {
            let first = self.0.remove(0);
            if let Some(next) = self.0.first_mut() {
                *next =
                    Pause { since: first.since.min(next.since), began: None, ended: None, until: next.until };
            }
        }
    }

    /// The begin and end of each pause by the wall clock. The end is `None` while the pause is open.
    pub fn spans(&self) -> impl Iterator<Item = (Timestamp, Option<Timestamp>)> {
        self.0.iter().map(|pause| (pause.since, pause.until))
    }

    /// Ends the current pause, if any.
    pub fn end(&mut self, now: &Order) {
        for pause in self.0.iter_mut().filter(|pause| pause.covers(now)) {
            (pause.until, pause.ended) = (Some(now.wall), Some(*now));
        }
    }
}

impl Pause {
    /// The line shown to the user.
    pub fn in_words(&self) -> &'static str {
        match self.until {
            None => "paused until `recall resume`; this session is not recorded",
            Some(_) => "paused for a while (see `recall ctl status`); this session is not recorded",
        }
    }

    fn covers(&self, at: &Order) -> bool {
        let began = self.began.filter(|began| is_same_boot(began, at));
        let has_begun = began.map_or(at.wall >= self.since, |began| !at.is_before(&began));
        has_begun && !self.is_over(began.as_ref(), at)
    }

    /// Whether the pause is over at `at`. `began` is when it began, if in the same boot as `at`.
    fn is_over(&self, began: Option<&Order>, at: &Order) -> bool {
        let Some(until) = self.until else { return false };
        match (began, self.ended) {
            (_, Some(ended)) if is_same_boot(&ended, at) => !at.is_before(&ended),
            // It ended in a later boot.
            (Some(_), Some(_)) => false,
            (Some(began), None) => {
                let lasts = u64::try_from(until.since(self.since)).unwrap_or(0).saturating_mul(NS_OF_MS);
                at.boot_ns >= began.boot_ns.saturating_add(lasts)
            }
            (None, _) => at.wall >= until,
        }
    }
}

fn is_same_boot(one: &Order, other: &Order) -> bool {
    one.boot == other.boot && one.boot != NO_BOOT
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(wall: i64) -> Order {
        Order { wall: Timestamp(wall), ..Order::default() }
    }

    fn in_boot(boot: u8, ms: u64, wall: i64) -> Order {
        Order { boot: [boot; 16], boot_ns: ms * NS_OF_MS, wall: Timestamp(wall) }
    }

    #[test]
    fn setting_the_clock_neither_ends_a_pause_nor_opens_a_gap() {
        let mut pauses = Pauses::default();
        pauses.begin(&in_boot(1, 100, 5_000), None);
        // Set back, and on.
        for wall in [10, 9_000_000] {
            assert!(pauses.cover(&in_boot(1, 150, wall)) && !pauses.cover(&in_boot(1, 99, wall)));
        }
        assert!(pauses.current(&in_boot(1, 160, 20)).is_some());
        pauses.end(&in_boot(1, 200, 30));
        assert!(pauses.cover(&in_boot(1, 199, 7_000)) && !pauses.cover(&in_boot(1, 200, 5_001)));
        assert_eq!(pauses.current(&in_boot(1, 300, 6_000)), None);
        assert!(!pauses.cover(&in_boot(2, 5, 6_000)));

        // One for a while, of 1,000 ms, made shorter when the clock stands elsewhere.
        pauses.begin(&in_boot(3, 0, 10_000), Some(Timestamp(11_000)));
        assert!(pauses.cover(&in_boot(3, 999, 0)) && !pauses.cover(&in_boot(3, 1_000, 10_500)));
        pauses.begin(&in_boot(3, 500, 400), Some(Timestamp(500)));
        assert!(pauses.cover(&in_boot(3, 599, 0)) && !pauses.cover(&in_boot(3, 600, 0)));

        // One that outlives its boot is ended in another.
        pauses.begin(&in_boot(4, 0, 20_000), None);
        assert!(pauses.cover(&in_boot(5, 0, 20_100)));
        pauses.end(&in_boot(5, 100, 20_200));
        assert!(pauses.cover(&in_boot(4, 9_000, 30_000)) && !pauses.cover(&in_boot(5, 100, 20_150)));
    }

    #[test]
    fn pauses_stored_without_boot_times_use_the_wall_clock() {
        let pauses: Pauses =
            serde_json::from_str(r#"[{"since":10,"until":20},{"since":30,"until":null}]"#).unwrap();
        let covered = [9, 10, 20, 30].map(|wall| pauses.cover(&in_boot(1, 0, wall)));
        assert_eq!(covered, [false, true, false, true]);
    }

    #[test]
    fn pauses_cover_events_by_their_capture_time() {
        let mut pauses = Pauses::default();
        pauses.begin(&at(10), Some(Timestamp(20)));
        pauses.begin(&at(30), None);
        let covered = |pauses: &Pauses| {
            [9, 10, 19, 20, 30, 99]
                .map(|wall| if pauses.cover(&at(wall)) { '-' } else { '+' })
                .iter()
                .collect::<String>()
        };
        assert_eq!(covered(&pauses), "+--+--");
        pauses.end(&at(99));
        assert_eq!(covered(&pauses), "+--+-+");
        assert_eq!(pauses.current(&at(99)), None);
        pauses.begin(&at(100), None);
        pauses.begin(&at(110), Some(Timestamp(120)));
        let current = pauses.current(&at(115)).map(|pause| (pause.since, pause.until));
        assert_eq!(current, Some((Timestamp(100), Some(Timestamp(120)))));
        assert!(Pauses::unknown().cover(&at(0)));
    }

    #[test]
    fn the_oldest_pauses_are_merged_and_none_is_lost() {
        let mut pauses = Pauses::default();
        for begun in 0..2_500 {
            pauses.begin(&at(begun * 10), Some(Timestamp(begun * 10 + 1)));
        }
        assert_eq!(pauses.0.len(), MOST);
        assert!((0..2_500).all(|begun| pauses.cover(&at(begun * 10))));
        assert!(!pauses.cover(&at(24_995)) && pauses.cover(&at(5)) && !pauses.cover(&at(-1)));
    }
}
