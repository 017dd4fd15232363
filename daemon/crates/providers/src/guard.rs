//! Decides whether a call is made, and records its cost.
//!
//! A failing backend is not called for a while ([`super::breaker`]). A call's maximum cost is reserved before the call
//! ([`super::ledger`]), and replaced by the real cost after it.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::breaker::{BackedOff, Breaker, LONGEST_PAUSE_MS};
use super::ledger::{Ledger, NotReserved};
use super::{Paid, ProviderError, ProviderState};
use recall_domain::budget::{Charge, Cost, Usage};
use recall_domain::ids::{JobId, ProjectRow, Timestamp};

/// Controls the calls to one backend.
pub struct CallGuard {
    /// `provider:model`.
    name: String,
    breaker: Mutex<Breaker>,
    longest_call: Duration,
}

/// The payer of a call.
#[derive(Clone, Copy)]
pub struct Payer<'a> {
    pub job: JobId,
    /// The project whose budget is charged.
    pub project: ProjectRow,
    pub ledger: &'a dyn Ledger,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// No call was made, and none will be made for this many milliseconds.
    #[error("{name} is paused: {why}")]
    BackedOff { name: String, wait_ms: u64, why: String },
    /// No call was made, because its cost could not be reserved.
    #[error(transparent)]
    NotReserved(#[from] NotReserved),
    /// The call failed, or a person has to act before the next call.
    #[error(transparent)]
    Provider(#[from] ProviderError),
}

impl CallGuard {
    pub fn new(name: String, longest_call: Duration) -> Self {
        Self { name, breaker: Mutex::default(), longest_call }
    }

    /// Makes one call, unless the provider is paused or the budget is exhausted. `most` is the maximum cost, `cost`
    /// computes the real one.
    ///
    /// # Errors
    /// Fails when there is no answer.
    pub fn call<T>(
        &self,
        payer: &Payer<'_>,
        most: Usage,
        now: impl Fn() -> Timestamp,
        ask: impl FnOnce(Timestamp) -> Result<T, ProviderError>,
        cost: impl FnOnce(&T) -> Usage,
    ) -> Result<T, CallError> {
        let longest_ms = u64::try_from(self.longest_call.as_millis()).unwrap_or(u64::MAX);
        self.breaker().admit(now(), longest_ms).map_err(|held| match held {
            BackedOff::For { wait_ms, why } => CallError::BackedOff { name: self.name.clone(), wait_ms, why },
            BackedOff::Barred { why } => ProviderError::Barred { why }.into(),
        })?;
        let charge = Charge { job: payer.job, project: payer.project, backend: self.name.clone(), most };
        let reservation = payer.ledger.reserve(&charge).inspect_err(|_| self.breaker().stood_back())?;
        let answered = ask(now()).map_err(within_an_hour);
        payer.ledger.settle(reservation, booked(&answered, cost));
        self.report(&answered, now());
        Ok(answered?)
    }

    /// Allows calls again, after a person has acted.
    pub fn reset(&self) {
        *self.breaker() = Breaker::default();
    }

    pub fn state(&self) -> ProviderState {
        ProviderState { name: self.name.clone(), circuit: self.breaker().circuit() }
    }

    fn report<T>(&self, answered: &Result<T, ProviderError>, now: Timestamp) {
        let mut breaker = self.breaker();
        match answered {
            // The provider has processed the request, so it works.
            Ok(_) | Err(ProviderError::Unacceptable { .. } | ProviderError::Unreadable { .. }) => {
                breaker.succeeded();
            }
            Err(ProviderError::Trouble { wait_ms, why, .. }) => breaker.failed(now, *wait_ms, why),
            Err(ProviderError::Barred { why }) => breaker.bar(why),
        }
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cost to record for a call. If a failed call may have cost something, everything that was reserved.
fn booked<T>(answered: &Result<T, ProviderError>, cost: impl FnOnce(&T) -> Usage) -> Cost {
    match answered {
        Ok(answer) => Cost::Known(cost(answer)),
        Err(ProviderError::Trouble { paid: Paid::Perhaps, .. } | ProviderError::Unreadable { .. }) => {
            Cost::AtMost
        }
        Err(_) => Cost::Known(Usage::default()),
    }
}

/// Limits the wait that a provider asks for to an hour.
fn within_an_hour(error: ProviderError) -> ProviderError {
    match error {
        ProviderError::Trouble { why, wait_ms, paid } => {
            ProviderError::Trouble { why, wait_ms: wait_ms.map(|wait| wait.min(LONGEST_PAUSE_MS)), paid }
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::super::breaker::Circuit;
    use super::*;
    use recall_domain::budget::{OverCap, ReservationId};

    /// Answers without text, like embeddings.
    #[derive(Clone, Debug, PartialEq)]
    struct Vectors(Vec<f32>);

    /// A ledger that only does what a test says, and may be empty.
    #[derive(Default)]
    struct Purse {
        is_empty: bool,
        settled: Mutex<Vec<Cost>>,
    }

    impl Ledger for Purse {
        fn reserve(&self, _charge: &Charge) -> Result<ReservationId, NotReserved> {
            if self.is_empty { Err(NotReserved::Spent(OverCap::Tokens)) } else { Ok(ReservationId(1)) }
        }

        fn settle(&self, _reservation: ReservationId, cost: Cost) {
            self.settled.lock().unwrap().push(cost);
        }
    }

    fn used(tokens_in: u64) -> Usage {
        Usage { tokens_in, ..Usage::default() }
    }

    #[track_caller]
    fn call(
        guard: &CallGuard,
        purse: &Purse,
        second: i64,
        answer: Result<Vectors, ProviderError>,
    ) -> Result<Vectors, CallError> {
        let payer = Payer { job: JobId(1), project: ProjectRow(1), ledger: purse };
        guard.call(&payer, used(9), || Timestamp(second * 1000), |_| answer, |it| used(it.0.len() as u64))
    }

    fn guard() -> CallGuard {
        CallGuard::new("openai:e".to_owned(), Duration::from_secs(60))
    }

    #[test]
    fn each_provider_call_is_charged_its_known_or_maximum_cost() {
        let (guard, purse) = (guard(), Purse::default());
        let vectors = Vectors(vec![0.5, 0.25]);
        assert_eq!(call(&guard, &purse, 0, Ok(vectors.clone())), Ok(vectors));
        let lost = ProviderError::Trouble { why: "lost".to_owned(), wait_ms: None, paid: Paid::Perhaps };
        assert_eq!(call(&guard, &purse, 0, Err(lost.clone())), Err(CallError::Provider(lost)));
        let unread = ProviderError::Unreadable { why: "html".to_owned() };
        assert!(call(&guard, &purse, 0, Err(unread)).is_err());
        let refused = ProviderError::Unacceptable { why: "400".to_owned() };
        assert!(call(&guard, &purse, 0, Err(refused)).is_err());
        let booked = [Cost::Known(used(2)), Cost::AtMost, Cost::AtMost, Cost::Known(used(0))];
        assert_eq!(*purse.settled.lock().unwrap(), booked);
    }

    #[test]
    fn no_call_is_made_while_a_provider_is_paused() {
        let (guard, purse) = (guard(), Purse::default());
        let busy = ProviderError::Trouble { why: "429".to_owned(), wait_ms: Some(u64::MAX), paid: Paid::No };
        let capped =
            ProviderError::Trouble { why: "429".to_owned(), wait_ms: Some(LONGEST_PAUSE_MS), paid: Paid::No };
        assert_eq!(call(&guard, &purse, 0, Err(busy)), Err(CallError::Provider(capped)));
        let held = call(&guard, &purse, 1, Ok(Vectors(Vec::new()))).unwrap_err();
        assert_eq!(held.to_string(), "openai:e is paused: 429");
        assert_eq!(purse.settled.lock().unwrap().len(), 1);
        assert!(matches!(guard.state().circuit, Circuit::Open { until: Some(_), .. }));
        guard.reset();
        assert!(call(&guard, &purse, 1, Ok(Vectors(Vec::new()))).is_ok());
    }

    #[test]
    fn an_unaffordable_trial_call_does_not_block_the_next_call() {
        let guard = guard();
        let busy = ProviderError::Trouble { why: "429".to_owned(), wait_ms: Some(1_000), paid: Paid::No };
        assert!(call(&guard, &Purse::default(), 0, Err(busy)).is_err());
        let empty = Purse { is_empty: true, ..Purse::default() };
        let spent = call(&guard, &empty, 2, Ok(Vectors(Vec::new())));
        assert_eq!(spent, Err(CallError::NotReserved(NotReserved::Spent(OverCap::Tokens))));
        assert!(call(&guard, &Purse::default(), 2, Ok(Vectors(Vec::new()))).is_ok());
    }
}
