//! Records the checkout at the beginning and end of each batch. This runs on a thread that may block, after the event
//! is queued, so no acknowledgement waits for a repository.
//!
//! Only recent events are recorded. When a late event from the spool happened, a different commit may have been
//! checked out, so the checkout of its batch is unknown.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use recall_protocol::boot::BootStamp;
use recall_protocol::wire::Deliver;
use tokio::sync::watch;

use super::ports::Writer;
use super::settings::CurrentRedactor;
use recall_domain::checkout::Checkout;
use recall_domain::ids::{BranchName, SessionKey};
use recall_domain::session::{Seq, Work};
use recall_repository::refs::{Refs, WorkLocation};
use recall_store::CheckoutRecord;

/// An event that was captured longer ago is late.
const FRESH: Duration = Duration::from_secs(10);
/// A folder that does not respond within this time, such as one on a network, is skipped.
const LOOK_WITHIN: Duration = Duration::from_secs(5);

/// Records the checkout of each batch. Cheap to clone.
#[derive(Clone)]
pub struct Checkouts<W> {
    writer: W,
    redactor: CurrentRedactor,
    under_way: watch::Sender<usize>,
}

/// The last recorded checkout of a session, so that it is written only once.
#[derive(Clone, Debug, Default)]
pub struct LastSeen(Arc<Mutex<Option<Seen>>>);

#[derive(Debug, PartialEq, Eq)]
struct Seen {
    batches: Vec<Seq>,
    checkout: Checkout,
}

impl LastSeen {
    /// Records a checkout. Returns whether it differs from the last one.
    fn take(&self, batches: &[Seq], checkout: &Checkout) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let seen = Some(Seen { batches: batches.to_vec(), checkout: checkout.clone() });
        let is_news = *last != seen;
        *last = seen;
        is_news
    }
}

impl<W: Writer> Checkouts<W> {
    pub fn new(writer: W, redactor: CurrentRedactor) -> Self {
        Self { writer, redactor, under_way: watch::Sender::new(0) }
    }

    /// Records the checkout if work on batches begins or ends with this event.
    pub fn record(
        &self,
        session: &SessionKey,
        deliver: &Deliver,
        batches: Vec<(Seq, Work)>,
        place: WorkLocation,
        last: &LastSeen,
    ) {
        if batches.is_empty() || !is_fresh(deliver) {
            return;
        }
        self.under_way.send_modify(|looks| *looks += 1);
        let (this, session, last) = (self.clone(), session.clone(), last.clone());
        tokio::spawn(async move {
            this.look_and_write(session, batches, place, &last).await;
            this.under_way.send_modify(|looks| *looks -= 1);
        });
    }

    async fn look_and_write(
        &self,
        session: SessionKey,
        batches: Vec<(Seq, Work)>,
        place: WorkLocation,
        last: &LastSeen,
    ) {
        let look = tokio::task::spawn_blocking(move || place.refs().as_ref().and_then(Refs::own_checkout));
        let Ok(Ok(Some(mut checkout))) = tokio::time::timeout(LOOK_WITHIN, look).await else { return };
        // A branch name comes from a file that anybody may have written.
        let redact =
            |BranchName(name): BranchName| BranchName(self.redactor.get().redact_id(&name).into_owned());
        checkout.branch = checkout.branch.map(redact);
        let seqs: Vec<Seq> = batches.iter().map(|(seq, _)| *seq).collect();
        if !last.take(&seqs, &checkout) {
            return;
        }
        let sighting = CheckoutRecord { session, batches, checkout };
        if let Err(error) = self.writer.write(sighting).await {
            tracing::warn!(%error, "cannot store the checkout");
        }
    }

    /// Waits until no lookup is running.
    pub async fn settle(&self) {
        // The sender belongs to this value, so the channel cannot be closed.
        let _ = self.under_way.subscribe().wait_for(|looks| *looks == 0).await;
    }
}

/// Whether the event is recent, measured by the time since boot because the wall clock may change.
fn is_fresh(deliver: &Deliver) -> bool {
    let now = BootStamp::now();
    let age = now.boot_ns.saturating_sub(deliver.boot_ns);
    now.boot_id == deliver.boot_id && u128::from(age) < FRESH.as_nanos()
}

#[cfg(test)]
mod tests {
    use recall_protocol::wire::{EventId, Flags, ShimContext};

    use super::*;

    #[test]
    fn late_events_and_events_of_another_boot_are_not_fresh() {
        let now = BootStamp::now();
        let is_fresh = |boot_id: [u8; 16], boot_ns: u64| {
            is_fresh(&Deliver {
                event_id: EventId([1; 16]),
                agent: "claude-code".to_owned(),
                event_name: String::new(),
                captured_at_ms: 0,
                boot_id,
                boot_ns,
                context: ShimContext::default(),
                payload: Vec::new(),
                flags: Flags::default(),
            })
        };
        assert!(is_fresh(now.boot_id, now.boot_ns));
        assert!(!is_fresh(now.boot_id, now.boot_ns.saturating_sub(11_000_000_000)));
        assert!(!is_fresh([7; 16], now.boot_ns), "before the machine was started again");
    }

    #[test]
    fn a_checkout_is_new_only_if_it_or_the_batch_changed() {
        let seen = LastSeen::default();
        let on = |name: &str| Checkout { branch: Some(name.into()), commit: None };
        assert!(seen.take(&[Seq(1)], &on("x")));
        assert!(!seen.take(&[Seq(1)], &on("x")));
        assert!(seen.take(&[Seq(1)], &on("y")));
        assert!(seen.take(&[Seq(2)], &on("y")));
    }
}
