//! Pauses calls to a provider that fails or refuses requests.
//!
//! Calls are paused after several failures in a row, or after one failure that names a time. After the pause one trial
//! call is made, and other calls follow only if it succeeds. A refusal that a person has to resolve (an invalid key,
//! an empty account) stops calls until somebody asks for a retry.

use recall_domain::ids::Timestamp;

/// This many failures in a row cause a pause.
const FAILURES_TO_OPEN: u32 = 5;
const FIRST_PAUSE_MS: u64 = 60_000;
/// The maximum pause, whatever a provider asks for.
pub(super) const LONGEST_PAUSE_MS: u64 = 3_600_000;

/// The state of one provider. It is not kept over a restart.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Breaker {
    way: Way,
    /// The number of failed calls since the last success.
    failures: u32,
    /// The reason of the last failure.
    why: String,
    /// The number of pauses since the last success. Each pause is twice as long as the previous one.
    pauses: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Way {
    #[default]
    Open,
    /// No call is made before this time.
    ClosedUntil(Timestamp),
    /// A trial call was made at this time; other calls wait for its result.
    Trying(Timestamp),
    /// No call is made until a person has acted.
    Barred(String),
}

/// Why a call is not made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum BackedOff {
    For { wait_ms: u64, why: String },
    Barred { why: String },
}

/// Whether calls are made. As in an electric circuit, and unlike in [`Way`], `Closed` lets calls pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Circuit {
    Closed,
    /// No call is made before `until`, or before the end of the current trial call if it is `None`.
    Open {
        until: Option<Timestamp>,
        why: String,
    },
    /// No call is made until a person has acted.
    Barred {
        why: String,
    },
}

impl Breaker {
    /// Requests permission for a call. The caller must report the outcome; a trial call without an outcome after
    /// `longest_call_ms` counts as lost.
    ///
    /// # Errors
    /// Fails when no call may be made now.
    pub(super) fn admit(&mut self, now: Timestamp, longest_call_ms: u64) -> Result<(), BackedOff> {
        match &self.way {
            Way::Open => Ok(()),
            Way::Barred(why) => Err(BackedOff::Barred { why: why.clone() }),
            Way::ClosedUntil(until) if now < *until => {
                Err(BackedOff::For { wait_ms: between(now, *until), why: self.why.clone() })
            }
            Way::Trying(since) if between(*since, now) < longest_call_ms => {
                let wait_ms = longest_call_ms - between(*since, now);
                Err(BackedOff::For { wait_ms, why: self.why.clone() })
            }
            Way::ClosedUntil(_) | Way::Trying(_) => {
                self.way = Way::Trying(now);
                Ok(())
            }
        }
    }

    /// Returns an unused permission.
    pub(super) fn stood_back(&mut self) {
        if let Way::Trying(since) = self.way {
            self.way = Way::ClosedUntil(since);
        }
    }

    pub(super) fn succeeded(&mut self) {
        *self = Self::default();
    }

    /// Records a failed call. `asked_ms` is the pause that the provider asked for.
    pub(super) fn failed(&mut self, now: Timestamp, asked_ms: Option<u64>, why: &str) {
        self.failures = self.failures.saturating_add(1);
        why.clone_into(&mut self.why);
        let was_trial = matches!(self.way, Way::Trying(_));
        let pause = match asked_ms {
            Some(asked) => asked.min(LONGEST_PAUSE_MS),
            None if was_trial || self.failures >= FAILURES_TO_OPEN => {
                self.pauses = self.pauses.saturating_add(1);
                pause_ms(self.pauses)
            }
            None => return,
        };
        let until = Timestamp(now.0.saturating_add(i64::try_from(pause).unwrap_or(i64::MAX)));
        // Simultaneous calls fail one after another; the longest pause applies.
        match &self.way {
            Way::Barred(_) => {}
            Way::ClosedUntil(already) if *already > until => {}
            _ => self.way = Way::ClosedUntil(until),
        }
    }

    /// Stops calls until a person has acted.
    pub(super) fn bar(&mut self, why: &str) {
        self.way = Way::Barred(why.to_owned());
    }

    pub(super) fn circuit(&self) -> Circuit {
        match &self.way {
            Way::Open => Circuit::Closed,
            Way::ClosedUntil(until) => Circuit::Open { until: Some(*until), why: self.why.clone() },
            Way::Trying(_) => Circuit::Open { until: None, why: self.why.clone() },
            Way::Barred(why) => Circuit::Barred { why: why.clone() },
        }
    }
}

/// The pauses double: 1 min, 2 min, 4 min and so on, at most an hour.
fn pause_ms(pauses: u32) -> u64 {
    (FIRST_PAUSE_MS << pauses.saturating_sub(1).min(10)).min(LONGEST_PAUSE_MS)
}

fn between(earlier: Timestamp, later: Timestamp) -> u64 {
    u64::try_from(later.0.saturating_sub(earlier.0)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CALL: u64 = 60_000;
    const WHY: &str = "rate limited (429)";

    fn waits(wait_ms: u64) -> Result<(), BackedOff> {
        Err(BackedOff::For { wait_ms, why: WHY.to_owned() })
    }

    fn at(second: i64) -> Timestamp {
        Timestamp(second * 1000)
    }

    #[test]
    fn five_failures_in_a_row_pause_calls_and_one_success_resumes_them() {
        let mut breaker = Breaker::default();
        for _ in 0..4 {
            breaker.failed(at(0), None, WHY);
        }
        assert_eq!(breaker.admit(at(0), CALL), Ok(()));
        breaker.failed(at(0), None, WHY);
        assert_eq!(breaker.admit(at(1), CALL), waits(59_000));
        // One call is tried; the second waits for it.
        assert_eq!(breaker.admit(at(60), CALL), Ok(()));
        assert_eq!(breaker.admit(at(61), CALL), waits(59_000));
        breaker.succeeded();
        assert_eq!((breaker.admit(at(61), CALL), breaker.circuit()), (Ok(()), Circuit::Closed));
    }

    #[test]
    fn pauses_double_up_to_an_hour() {
        let mut breaker = Breaker::default();
        let (mut now, mut pauses) = (0, Vec::new());
        for _ in 0..4 {
            breaker.failed(at(now), None, WHY);
        }
        for _ in 0..8 {
            breaker.failed(at(now), None, WHY);
            let Err(BackedOff::For { wait_ms, .. }) = breaker.admit(at(now), CALL) else {
                panic!("it is open")
            };
            pauses.push(wait_ms / 60_000);
            now += i64::try_from(wait_ms / 1000).unwrap();
            assert_eq!(breaker.admit(at(now), CALL), Ok(()));
        }
        assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    }

    #[test]
    fn a_pause_requested_by_a_provider_is_honoured_up_to_an_hour() {
        let mut breaker = Breaker::default();
        breaker.failed(at(0), Some(7_000), WHY);
        assert_eq!(breaker.admit(at(0), CALL), waits(7_000));
        // A call that was under way and asks for less does not shorten the pause.
        breaker.failed(at(0), Some(1_000), WHY);
        assert_eq!(breaker.admit(at(0), CALL), waits(7_000));
        breaker.failed(at(0), Some(u64::MAX), WHY);
        assert_eq!(breaker.admit(at(0), CALL), waits(LONGEST_PAUSE_MS));
    }

    #[test]
    fn a_refused_provider_stays_barred_until_a_call_succeeds() {
        let mut breaker = Breaker::default();
        breaker.bar("the key is refused");
        let refused = Err(BackedOff::Barred { why: "the key is refused".to_owned() });
        assert_eq!(breaker.admit(at(1_000_000), CALL), refused);
        breaker.failed(at(1_000_000), Some(1), WHY);
        assert_eq!(breaker.admit(at(2_000_000), CALL), refused);
        breaker.succeeded();
        assert_eq!(breaker.admit(at(2_000_000), CALL), Ok(()));
    }

    #[test]
    fn the_circuit_breaker_reports_why_and_until_when_calls_are_paused() {
        let mut breaker = Breaker::default();
        breaker.failed(at(0), Some(7_000), WHY);
        assert_eq!(breaker.circuit(), Circuit::Open { until: Some(at(7)), why: WHY.to_owned() });
        assert_eq!(breaker.admit(at(7), CALL), Ok(()));
        assert_eq!(breaker.circuit(), Circuit::Open { until: None, why: WHY.to_owned() });
        breaker.bar("the key is refused");
        assert_eq!(breaker.circuit(), Circuit::Barred { why: "the key is refused".to_owned() });
    }

    #[test]
    fn a_trial_call_without_an_outcome_does_not_block_calls_forever() {
        let mut breaker = Breaker::default();
        breaker.failed(at(0), Some(1_000), WHY);
        assert_eq!(breaker.admit(at(1), CALL), Ok(()));
        assert!(breaker.admit(at(60), CALL).is_err());
        assert_eq!(breaker.admit(at(61), CALL), Ok(()));
    }
}
