//! Was it heard? What is given back counts as told and is not told again, so it must have reached somebody.
//!
//! It counts as told from the moment at which it is given: of two hooks that ask at the same time one is told. Where it
//! turns out that nobody heard it, that is taken back. Nobody did if the connection was gone when the answer was
//! written, or was left with the answer unread, which Linux tells; elsewhere whoever leaves counts as having read. An
//! agent that kills its hook between reading and printing is not seen: to hear of that, every answer would have to be
//! confirmed over the socket, and every hook would wait for it.

use tokio::sync::{oneshot, watch};

/// Who hears what is given back.
#[derive(Debug)]
pub enum Recipient {
    /// The agent's hook waits for it.
    Agent(InjectionReceipt),
    /// The hook has long gone: the event comes from the spool.
    Nobody,
}

/// Whether an answer was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    Yes,
    No,
}

/// Tells whoever has answered what became of the answer.
#[derive(Debug)]
pub struct InjectionReceipt(oneshot::Receiver<()>);

/// Held by whoever passes an answer on. Dropped without a word it says that nobody heard it.
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
    pub fn heard(self) {
        // Most events are not answered, and nobody wants to know.
        let _ = self.0.send(());
    }
}

/// Answers of which it is not known yet what became of them. Cheap to clone.
#[derive(Clone, Default)]
pub struct PendingAnswers(watch::Sender<usize>);

/// One of them; it is no more when this is dropped.
pub struct PendingAnswer(watch::Sender<usize>);

impl PendingAnswers {
    pub fn begin(&self) -> PendingAnswer {
        self.0.send_modify(|pending| *pending += 1);
        PendingAnswer(self.0.clone())
    }

    /// Waits until all is known of those that are under way.
    pub async fn settle(&self) {
        // Its sender is our own.
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
    async fn who_says_nothing_says_that_nobody_heard() {
        let (receipt, injection_receipt) = InjectionReceipt::new();
        receipt.heard();
        assert_eq!(injection_receipt.receipt().await, Received::Yes);
        let (receipt, injection_receipt) = InjectionReceipt::new();
        drop(receipt);
        assert_eq!(injection_receipt.receipt().await, Received::No);
    }

    #[tokio::test]
    async fn all_that_are_under_way_are_waited_for() {
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
