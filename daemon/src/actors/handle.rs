//! A handle to an actor that survives the actor's restarts.
//!
//! A restarted actor has a new reference and an empty mailbox. A handle uses the current reference for each message;
//! the supervisor updates it.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use ractor::concurrency::oneshot;
use ractor::{ActorRef, Message, RpcReplyPort};

use recall_app::ports::NoAnswer;

/// A handle to an actor. Cheap to clone. Empty before the actor's first start.
pub struct ActorHandle<M: Message> {
    current: Arc<RwLock<Option<ActorRef<M>>>>,
}

impl<M: Message> Clone for ActorHandle<M> {
    fn clone(&self) -> Self {
        Self { current: Arc::clone(&self.current) }
    }
}

impl<M: Message> Default for ActorHandle<M> {
    fn default() -> Self {
        Self { current: Arc::default() }
    }
}

impl<M: Message> ActorHandle<M> {
    /// Sets the reference of a new actor.
    pub fn set(&self, actor: ActorRef<M>) {
        *self.current.write().unwrap_or_else(PoisonError::into_inner) = Some(actor);
    }

    pub fn actor(&self) -> Option<ActorRef<M>> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Sends a message without waiting for a reply.
    pub fn send(&self, message: M) -> Result<(), NoAnswer> {
        self.actor().ok_or(NoAnswer)?.send_message(message).map_err(|_| NoAnswer)
    }

    /// Sends a message and waits up to `within` for the reply.
    pub async fn ask<R: Send + 'static>(
        &self,
        message: impl FnOnce(RpcReplyPort<R>) -> M,
        within: Duration,
    ) -> Result<R, NoAnswer> {
        let (port, answer) = oneshot();
        self.send(message(port.into()))?;
        tokio::time::timeout(within, answer).await.map_err(|_| NoAnswer)?.map_err(|_| NoAnswer)
    }
}
