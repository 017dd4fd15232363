//! Tracks whether an injection was delivered. Injected context is not injected again, so it must have reached its
//! agent.
//!
//! An injection counts from the moment the reply is sent, so that two concurrent hooks do not inject the same items.
//! It is retracted if it was not delivered: the connection was closed when the reply was written, or before the reply
//! was read. Only Linux reports the latter; elsewhere a client that closes counts as having read. An agent that kills
//! its hook between reading and printing goes unnoticed. Detecting that would need a confirmation of every reply, for
//! which every hook would wait.

use tokio::sync::{oneshot, watch};

/// The recipient of a reply.
#[derive(Debug)]
pub enum Recipient {
    /// The agent's hook is waiting for it.
    Agent(InjectionReceipt),
    /// The hook has ended: the event comes from the spool.
    Nobody,
}

/// Whether a reply was delivered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    Yes,
    No,
}

/// Waits for the outcome of a reply.
#[derive(Debug)]
pub struct InjectionReceipt(oneshot::Receiver<()>);

/// Held by the sender of a reply. Dropping it means that the reply was not delivered.
#[derive(Debug)]
pub struct ReceiptSender(oneshot::Sender<()>);

impl InjectionReceipt {
    pub fn new() -> (ReceiptSender, Self) {
        let (receipt, injection_receipt) = oneshot::channel();
        (ReceiptSender(receipt), Self(injection_receipt))
    }

    pub async fn receipt(self) -> Received {
        match self.0.await {
            Ok(()) => Received::Yes,
            Err(_) => Received::No,
        }
    }
}

impl ReceiptSender {
    pub fn received(self) {
        // Most events have no injection, and nobody waits for their receipt.
        let _ = self.0.send(());
    }
}

/// The replies whose receipt is still unknown. Cheap to clone.
#[derive(Clone, Default)]
pub struct PendingAnswers(watch::Sender<usize>);

/// One pending reply. It ends when this is dropped.
pub struct PendingAnswer(watch::Sender<usize>);

impl PendingAnswers {
    pub fn begin(&self) -> PendingAnswer {
        self.0.send_modify(|pending| *pending += 1);
        PendingAnswer(self.0.clone())
    }

    /// Waits until the receipts of all pending replies are known.
    pub async fn settle(&self) {
        // The sender belongs to this value, so the channel cannot be closed.
        let _ = self.0.subscribe().wait_for(|pending| *pending == 0).await;
    }
}

impl Drop for PendingAnswer {
    fn drop(&mut self) {
        self.0.send_modify(|pending| *pending -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_dropped_sender_means_not_received() {
        let (receipt, injection_receipt) = InjectionReceipt::new();
        receipt.received();
        assert_eq!(injection_receipt.receipt().await, Received::Yes);
        let (receipt, injection_receipt) = InjectionReceipt::new();
        drop(receipt);
        assert_eq!(injection_receipt.receipt().await, Received::No);
    }

    #[tokio::test]
    async fn settle_waits_for_all_pending_replies() {
        let answers = PendingAnswers::default();
        answers.settle().await;
        let (one, other) = (answers.begin(), answers.begin());
        let waiting = tokio::spawn({
            let answers = answers.clone();
            async move { answers.settle().await }
        });
        drop(one);
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        drop(other);
        waiting.await.unwrap();
    }
}
