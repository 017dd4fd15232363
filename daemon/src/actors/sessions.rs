//! Supervises the sessions: finds or starts the actor for an event, and retires actors at rest.
//!
//! A session actor that crashes affects only itself. The callers of its unanswered events get no reply, so their shims
//! spool. The next event restarts it from the store. An event that crashed its session twice is stored unprocessed and
//! not retried.
//!
//! The writes of an actor that has ended may still be queued. Until they are committed, its successor waits for the
//! writer before it reads the store. All other actors read immediately, so that a slow disk does not delay them.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, RpcReplyPort, SupervisionEvent};

use super::handle::ActorHandle;
use super::session::{CurrentEvent, EarlierWrites, SessionActor, SessionArguments};
use super::session_context::SessionContext;
use super::session_message::{IncomingEvent, SessionMessage};
use recall_domain::ids::{SessionKey, Timestamp};

pub enum SessionsMessage {
    Deliver {
        key: SessionKey,
        incoming: Box<IncomingEvent>,
    },
    /// Makes every session check its idle times, including those with open batches but no actor.
    CheckIdle {
        now: Timestamp,
        others: Vec<SessionKey>,
    },
    /// Parts of these sessions were forgotten, so their actors must reload their state.
    Reload(Vec<SessionKey>),
    /// The session is at rest, so its actor may end.
    Retire(SessionKey),
    /// All writes of an ended actor are committed. `None` means those of all actors of the previous supervisor.
    Committed(Option<ActorId>),
    /// Replies with the number of actors.
    Count(RpcReplyPort<usize>),
}

pub type SessionsHandle = ActorHandle<SessionsMessage>;

pub(super) struct Sessions;

pub struct SessionsState {
    context: SessionContext,
    live: HashMap<SessionKey, Live>,
    /// Keys of live actors, and of ended actors whose writes may not be committed yet.
    keys: HashMap<ActorId, SessionKey>,
    /// Writes queued under the previous supervisor.
    earlier_writes: EarlierWrites,
    /// The number of messages passed to actors so far.
    uses: u64,
}

struct Live {
    actor: ActorRef<SessionMessage>,
    /// The value of `uses` when the actor last received a message.
    used: u64,
    current_event: CurrentEvent,
}

impl Actor for Sessions {
    type Msg = SessionsMessage;
    type State = SessionsState;
    type Arguments = SessionContext;

    async fn pre_start(
        &self,
        me: ActorRef<SessionsMessage>,
        context: SessionContext,
    ) -> Result<SessionsState, ActorProcessingErr> {
        let state = SessionsState {
            context,
            live: HashMap::new(),
            keys: HashMap::new(),
            earlier_writes: EarlierWrites::Pending,
            uses: 0,
        };
        state.wait_for_writes(&me, None);
        Ok(state)
    }

    async fn handle(
        &self,
        me: ActorRef<SessionsMessage>,
        message: SessionsMessage,
        state: &mut SessionsState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SessionsMessage::Deliver { key, incoming } => state.deliver(&me, key, incoming),
            SessionsMessage::CheckIdle { now, others } => state.check_idle(&me, now, others),
            SessionsMessage::Reload(keys) => state.reload(&keys),
            SessionsMessage::Retire(key) => state.retire(&key),
            SessionsMessage::Committed(Some(actor)) => drop(state.keys.remove(&actor)),
            SessionsMessage::Committed(None) => state.earlier_writes = EarlierWrites::Committed,
            SessionsMessage::Count(count) => {
                let _ = count.send(state.live.len());
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<SessionsMessage>,
        event: SupervisionEvent,
        state: &mut SessionsState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            // An actor ends only by a panic, whose message may quote the event.
            SupervisionEvent::ActorFailed(who, _) => {
                state.record_crash(who.get_id());
                let key = state.ended(&me, who.get_id());
                tracing::error!(session = key.map(|key| key.to_string()), "a session actor failed");
            }
            SupervisionEvent::ActorTerminated(who, ..) => {
                state.ended(&me, who.get_id());
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

/// Above this many actors, the least recently used are asked to give way. Each takes about 30 KiB.
const MOST_LIVE: usize = if cfg!(test) { 60 } else { 1_500 };
/// They are asked again each time this many more have started.
const LOOK_EVERY: usize = if cfg!(test) { 5 } else { 50 };

/// How long a session may take to check its idle times.
const IDLE_CHECK_WITHIN: Duration = Duration::from_secs(10);

impl SessionsState {
    fn deliver(&mut self, me: &ActorRef<SessionsMessage>, key: SessionKey, incoming: Box<IncomingEvent>) {
        if let Some(session) = self.session(me, key) {
            // If this fails, the reply port is dropped with the message, and the caller replies BUSY.
            let _ = session.send_message(SessionMessage::Deliver(incoming));
        }
    }

    fn record_crash(&self, actor: ActorId) {
        let live = self.keys.get(&actor).and_then(|key| self.live.get(key));
        let live = live.filter(|live| live.actor.get_id() == actor);
        let event = live.and_then(|live| *live.current_event.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(event) = event {
            self.context.crashes.record(event);
        }
    }

    fn session(
        &mut self,
        me: &ActorRef<SessionsMessage>,
        key: SessionKey,
    ) -> Option<ActorRef<SessionMessage>> {
        self.uses += 1;
        let used = self.uses;
        if let Some(live) = self.live.get_mut(&key) {
            live.used = used;
            return Some(live.actor.clone());
        }
        if self.live.len() >= MOST_LIVE && self.live.len().is_multiple_of(LOOK_EVERY) {
            self.ask_to_give_way();
        }
        let current_event = CurrentEvent::default();
        let (supervisor, over) = (me.clone(), key.clone());
        let arguments = SessionArguments {
            key: key.clone(),
            context: self.context.clone(),
            current_event: Arc::clone(&current_event),
            earlier_writes: self.writes_before(&key),
            retire: Box::new(move || drop(supervisor.send_message(SessionsMessage::Retire(over.clone())))),
        };
        // Messages wait while the actor reads the store. If its start fails they are dropped, and their callers reply
        // BUSY.
        match ractor::ActorRuntime::spawn_linked_instant(None, SessionActor, arguments, me.get_cell()) {
            Ok((session, _)) => {
                self.keys.insert(session.get_id(), key.clone());
                self.live.insert(key, Live { actor: session.clone(), used, current_event });
                Some(session)
            }
            Err(error) => {
                tracing::error!(%error, "cannot start a session actor");
                None
            }
        }
    }

    fn check_idle(&mut self, me: &ActorRef<SessionsMessage>, now: Timestamp, others: Vec<SessionKey>) {
        let mut keys: Vec<SessionKey> = self.live.keys().cloned().collect();
        // Actors beyond the limit remain idle until the next round.
        let room = MOST_LIVE.saturating_sub(keys.len());
        keys.extend(others.into_iter().filter(|key| !self.live.contains_key(key)).take(room));
        for key in keys {
            let Some(session) = self.session(me, key.clone()) else { continue };
            let me = me.clone();
            tokio::spawn(async move {
                let (port, answer) = ractor::concurrency::oneshot();
                let message = SessionMessage::CheckIdle { now, at_rest: port.into() };
                if session.send_message(message).is_err() {
                    return;
                }
                if let Ok(Ok(true)) = tokio::time::timeout(IDLE_CHECK_WITHIN, answer).await {
                    let _ = me.send_message(SessionsMessage::Retire(key));
                }
            });
        }
    }

    /// Asks the least recently used actors to give way. Actors with a write in flight stay. A session's state is in
    /// the store, and its next event starts another actor.
    fn ask_to_give_way(&self) {
        let mut oldest: Vec<(u64, &ActorRef<SessionMessage>)> =
            self.live.values().map(|live| (live.used, &live.actor)).collect();
        oldest.sort_unstable_by_key(|(used, _)| *used);
        for (_, actor) in oldest.iter().take(MOST_LIVE / 3) {
            // An actor that is ending gives way anyway.
            let _ = actor.send_message(SessionMessage::GiveWay);
        }
    }

    fn reload(&self, keys: &[SessionKey]) {
        for live in keys.iter().filter_map(|key| self.live.get(key)) {
            // An actor that is ending needs no reload.
            let _ = live.actor.send_message(SessionMessage::Reload);
        }
    }

    fn retire(&mut self, key: &SessionKey) {
        if let Some(Live { actor: session, .. }) = self.live.remove(key) {
            // The actor still handles its queued messages. A later event starts another actor.
            let _ = session.drain();
        }
    }

    fn ended(&mut self, me: &ActorRef<SessionsMessage>, actor: ActorId) -> Option<SessionKey> {
        let key = self.keys.get(&actor)?.clone();
        if self.live.get(&key).is_some_and(|live| live.actor.get_id() == actor) {
            self.live.remove(&key);
        }
        self.wait_for_writes(me, Some(actor));
        Some(key)
    }

    /// What is known about the writes of this session's earlier actors.
    fn writes_before(&self, session: &SessionKey) -> EarlierWrites {
        if self.keys.values().any(|key| key == session) {
            EarlierWrites::Pending
        } else {
            self.earlier_writes
        }
    }

    /// Informs the supervisor once everything queued so far is committed.
    fn wait_for_writes(&self, me: &ActorRef<SessionsMessage>, ended: Option<ActorId>) {
        let (me, writer) = (me.clone(), self.context.writer.clone());
        tokio::spawn(async move {
            // A writer that does not respond may still commit, so the next actor asks again.
            if writer.settle().await.is_ok() {
                let _ = me.send_message(SessionsMessage::Committed(ended));
            }
        });
    }
}
