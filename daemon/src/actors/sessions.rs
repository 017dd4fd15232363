//! Supervises the sessions: finds or starts the actor of an event, and forgets actors that are at rest.
//!
//! A session actor that crashes takes only itself down: the callers of its unanswered events get no answer, so
//! their shims spool, and the next event starts it anew from the store. An event that crashed its session twice is
//! kept as it came instead of being tried for ever.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};

use super::handle::ActorHandle;
use super::session::{CurrentEvent, SessionActor, SessionArguments};
use super::session_context::SessionContext;
use super::session_message::{IncomingEvent, SessionMessage};
use crate::memory::ids::{SessionKey, Timestamp};

pub enum SessionsMessage {
    Deliver {
        key: SessionKey,
        incoming: Box<IncomingEvent>,
    },
    /// Lets every session look at the clock, those too that have no actor but something left open.
    LookAtClock {
        now: Timestamp,
        others: Vec<SessionKey>,
    },
    /// Something of these was forgotten: their actors read anew what there is.
    ReadAgain(Vec<SessionKey>),
    /// A session is at rest: its actor may go.
    Retire(SessionKey),
    /// How many actors there are.
    Count(RpcReplyPort<usize>),
}

pub type SessionsHandle = ActorHandle<SessionsMessage>;

pub(super) struct Sessions;

pub struct SessionsState {
    context: SessionContext,
    live: HashMap<SessionKey, Live>,
    keys: HashMap<ActorId, SessionKey>,
}

struct Live {
    actor: ActorRef<SessionMessage>,
    current_event: CurrentEvent,
}

impl Actor for Sessions {
    type Msg = SessionsMessage;
    type State = SessionsState;
    type Arguments = SessionContext;

    async fn pre_start(
        &self,
        _me: ActorRef<SessionsMessage>,
        context: SessionContext,
    ) -> Result<SessionsState, ActorProcessingErr> {
        Ok(SessionsState { context, live: HashMap::new(), keys: HashMap::new() })
    }

    async fn handle(
        &self,
        me: ActorRef<SessionsMessage>,
        message: SessionsMessage,
        state: &mut SessionsState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SessionsMessage::Deliver { key, incoming } => state.deliver(&me, key, incoming),
            SessionsMessage::LookAtClock { now, others } => state.look_at_clock(&me, now, others),
            SessionsMessage::ReadAgain(keys) => state.read_again(&keys),
            SessionsMessage::Retire(key) => state.retire(&key),
            SessionsMessage::Count(count) => {
                let _ = count.send(state.live.len());
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        _me: ActorRef<SessionsMessage>,
        event: SupervisionEvent,
        state: &mut SessionsState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            // Only a panic ends it, and what a panic says may quote the event.
            SupervisionEvent::ActorFailed(who, _) => {
                state.remember_crash(who.get_id());
                let key = state.forget(who.get_id());
                tracing::error!(session = key.map(|key| key.to_string()), "a session actor failed");
            }
            SupervisionEvent::ActorTerminated(who, ..) => {
                state.forget(who.get_id());
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

/// How long a session may think about the time.
const CLOCK_WITHIN: Duration = Duration::from_secs(10);

impl SessionsState {
    fn deliver(&mut self, me: &ActorRef<SessionsMessage>, key: SessionKey, incoming: Box<IncomingEvent>) {
        if let Some(session) = self.session(me, key) {
            // Not taken: the reply port is dropped with the message and the caller tells its client BUSY.
            let _ = session.send_message(SessionMessage::Deliver(incoming));
        }
    }

    fn remember_crash(&self, actor: ActorId) {
        let live = self.keys.get(&actor).and_then(|key| self.live.get(key));
        let event = live.and_then(|live| *live.current_event.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(event) = event {
            self.context.crashes.remember(event);
        }
    }

    fn session(
        &mut self,
        me: &ActorRef<SessionsMessage>,
        key: SessionKey,
    ) -> Option<ActorRef<SessionMessage>> {
        if let Some(live) = self.live.get(&key) {
            return Some(live.actor.clone());
        }
        let current_event = CurrentEvent::default();
        let arguments = SessionArguments {
            key: key.clone(),
            context: self.context.clone(),
            current_event: Arc::clone(&current_event),
        };
        // Messages queue while it reads the store; a start that fails drops them, and their callers say BUSY.
        match ractor::ActorRuntime::spawn_linked_instant(None, SessionActor, arguments, me.get_cell()) {
            Ok((session, _)) => {
                self.keys.insert(session.get_id(), key.clone());
                self.live.insert(key, Live { actor: session.clone(), current_event });
                Some(session)
            }
            Err(error) => {
                tracing::error!(%error, "cannot start a session actor");
                None
            }
        }
    }

    fn look_at_clock(&mut self, me: &ActorRef<SessionsMessage>, now: Timestamp, others: Vec<SessionKey>) {
        let mut keys: Vec<SessionKey> = self.live.keys().cloned().collect();
        keys.extend(others.into_iter().filter(|key| !self.live.contains_key(key)));
        for key in keys {
            let Some(session) = self.session(me, key.clone()) else { continue };
            let me = me.clone();
            tokio::spawn(async move {
                let (port, answer) = ractor::concurrency::oneshot();
                let message = SessionMessage::LookAtClock { now, at_rest: port.into() };
                if session.send_message(message).is_err() {
                    return;
                }
                if let Ok(Ok(true)) = tokio::time::timeout(CLOCK_WITHIN, answer).await {
                    let _ = me.send_message(SessionsMessage::Retire(key));
                }
            });
        }
    }

    fn read_again(&self, keys: &[SessionKey]) {
        for live in keys.iter().filter_map(|key| self.live.get(key)) {
            // One that is just ending has nothing to forget.
            let _ = live.actor.send_message(SessionMessage::ReadAgain);
        }
    }

    fn retire(&mut self, key: &SessionKey) {
        if let Some(Live { actor: session, .. }) = self.live.remove(key) {
            self.keys.remove(&session.get_id());
            // What is in its mailbox is still handled; an event that comes later starts another.
            let _ = session.drain();
        }
    }

    fn forget(&mut self, actor: ActorId) -> Option<SessionKey> {
        let key = self.keys.remove(&actor)?;
        if self.live.get(&key).is_some_and(|live| live.actor.get_id() == actor) {
            self.live.remove(&key);
        }
        Some(key)
    }
}
