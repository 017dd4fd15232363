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
pub enum Listener {
    /// The agent's hook waits for it.
    Agent(Hearing),
    /// The hook has long gone: the event comes from the spool.
    Nobody,
}

/// Whether an answer was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Heard {
    Yes,
    No,
}

/// Tells whoever has answered what became of the answer.
#[derive(Debug)]
pub struct Hearing(oneshot::Receiver<()>);

/// Held by whoever passes an answer on. Dropped without a word it says that nobody heard it.
#[derive(Debug)]
pub struct Verdict(oneshot::Sender<()>);

impl Hearing {
    pub fn new() -> (Verdict, Self) {
        let (verdict, hearing) = oneshot::channel();
        (Verdict(verdict), Self(hearing))
    }

    pub(super) async fn verdict(self) -> Heard {
        match self.0.await {
            Ok(()) => Heard::Yes,
            Err(_) => Heard::No,
        }
    }
}

impl Verdict {
    pub fn heard(self) {
        // Most events are not answered, and nobody wants to know.
        let _ = self.0.send(());
    }
}

/// Answers of which it is not known yet what became of them. Cheap to clone.
#[derive(Clone, Default)]
pub struct Answers(watch::Sender<usize>);

/// One of them; it is no more when this is dropped.
pub(super) struct Pending(watch::Sender<usize>);

impl Answers {
    pub(super) fn begin(&self) -> Pending {
        self.0.send_modify(|pending| *pending += 1);
        Pending(self.0.clone())
    }

    /// Waits until all is known of those that are under way.
    pub async fn settle(&self) {
        // Its sender is our own.
        let _ = self.0.subscribe().wait_for(|pending| *pending == 0).await;
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.send_modify(|pending| *pending -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn who_says_nothing_says_that_nobody_heard() {
        let (verdict, hearing) = Hearing::new();
        verdict.heard();
        assert_eq!(hearing.verdict().await, Heard::Yes);
        let (verdict, hearing) = Hearing::new();
        drop(verdict);
        assert_eq!(hearing.verdict().await, Heard::No);
    }

    #[tokio::test]
    async fn all_that_are_under_way_are_waited_for() {
        let answers = Answers::default();
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
