//! A handle to an actor that survives the actor's restarts.
//!
//! A respawned actor has a new reference and an empty mailbox; whoever held the old one would talk to the dead. A
//! door is looked through each time, and its supervisor puts the new actor behind it.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ractor::concurrency::oneshot;
use ractor::{ActorRef, Message, RpcReplyPort};

use crate::app::ports::NoAnswer;

/// Cheap to clone; empty until the actor is there for the first time.
pub struct ActorHandle<M: Message> {
    behind: Arc<RwLock<Option<ActorRef<M>>>>,
}

impl<M: Message> Clone for ActorHandle<M> {
    fn clone(&self) -> Self {
        Self { behind: Arc::clone(&self.behind) }
    }
}

impl<M: Message> Default for ActorHandle<M> {
    fn default() -> Self {
        Self { behind: Arc::default() }
    }
}

impl<M: Message> ActorHandle<M> {
    /// Puts a new actor behind the door.
    pub fn set(&self, actor: ActorRef<M>) {
        *self.behind.write().unwrap_or_else(PoisonError::into_inner) = Some(actor);
    }

    pub fn actor(&self) -> Option<ActorRef<M>> {
        self.behind.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a message that nobody waits for.
    ///
    /// # Errors
    /// When nobody is there to take it.
    pub fn tell(&self, message: M) -> Result<(), NoAnswer> {
        self.actor().ok_or(NoAnswer)?.send_message(message).map_err(|_| NoAnswer)
    }

    /// Sends a message and waits for its answer, at most `within`.
    ///
    /// # Errors
    /// When there is no answer in time.
    pub async fn ask<R: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<R>) -> M,
        within: Duration,
    ) -> Result<R, NoAnswer> {
        let (port, answer) = oneshot();
        self.tell(message(port.into()))?;
        tokio::time::timeout(within, answer).await.map_err(|_| NoAnswer)?.map_err(|_| NoAnswer)
    }
}
