//! One live session: owns its batches and its mailbox, and what it was told.
//!
//! It decides with `memory::session` on the state it holds and queues the effects at the writer without waiting, so
//! events of one session are committed in the order in which they came and still share a commit. Its state is ahead
//! of the store for that moment; when a write fails, or turns out to have been there before, the state is dropped
//! and read again before the next event.

use std::collections::HashSet;
use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};

use ractor::{Actor, ActorProcessingErr, ActorRef};
use recall_protocol::boot::BootStamp;
use recall_protocol::wire::{Deliver, Reply};

use super::pending_reply::{PendingReply, PendingRequest};
use super::session_context::{OriginState, SessionContext};
use super::session_message::{IncomingEvent, SessionMessage, StoreOutcome, WriteResult};
use crate::app::checkouts::LastSeen;
use crate::app::clock;
use crate::app::identity::{Identity, identify};
use crate::app::ports::AcceptedEvent;
use crate::faults::{self, Fault, Point, planted};
use crate::memory::event::{Capture, HookEvent, HookEventKind, StartSource};
use crate::memory::file_memory::InjectedSet;
use crate::memory::ids::{EventId, ProjectKey, SessionKey, Timestamp};
use crate::memory::order::Order;
use crate::memory::plan::PlanChange;
use crate::memory::project::identifying_folder;
use crate::memory::session::{Ask, Batch, Decision, Effect, Session, Watch};
use crate::repository;
use crate::repository::refs::WorkLocation;
use crate::store::{self, Delivery, IdleEffects, Precedence, SessionOrigin, StoreError, Transaction};

pub(super) struct SessionActor;

pub struct SessionArguments {
    pub key: SessionKey,
    pub context: SessionContext,
    /// Where the supervisor looks after a crash: what was being handled.
    pub current_event: CurrentEvent,
}

/// The event that a session actor is handling, for its supervisor to see.
pub type CurrentEvent = Arc<Mutex<Option<EventId>>>;

pub struct SessionState {
    key: SessionKey,
    context: SessionContext,
    current_event: CurrentEvent,
    /// `None` until the first event, or after the state has gone astray.
    loaded: Option<LoadedSession>,
    /// Writes that are on their way.
    in_flight: usize,
    /// Arrivals that can only be answered when nothing is on its way any more: bounded by the gate's permits.
    parked: Vec<IncomingEvent>,
}

struct LoadedSession {
    session: Session,
    home: OriginState,
    /// Shared with the errands that are under way.
    injected: Arc<tokio::sync::Mutex<InjectedSet>>,
    /// The folder of its project.
    root: Option<String>,
    last_seen: LastSeen,
    transcript: Transcript,
    /// The events this actor has taken; older ones the store knows.
    taken: HashSet<EventId>,
    keys: HashSet<[u8; 16]>,
}

/// Where the agent writes the conversation down.
#[derive(Default)]
struct Transcript {
    path: Option<String>,
    /// The agent's own folder, where the user moved it.
    config_dir: Option<String>,
}

impl LoadedSession {
    /// Whether this is the second delivery of something.
    fn has_taken(&self, accepted: &AcceptedEvent) -> bool {
        self.taken.contains(&accepted.deliver.event_id)
            || accepted.key.is_some_and(|key| self.keys.contains(&key))
    }
}

impl Actor for SessionActor {
    type Msg = SessionMessage;
    type State = SessionState;
    type Arguments = SessionArguments;

    async fn pre_start(
        &self,
        _me: ActorRef<SessionMessage>,
        arguments: SessionArguments,
    ) -> Result<SessionState, ActorProcessingErr> {
        let SessionArguments { key, context, current_event } = arguments;
        let mut state =
            SessionState { key, context, current_event, loaded: None, in_flight: 0, parked: Vec::new() };
        // What a predecessor that crashed had decided may still be on its way into the store.
        state.context.writer.settle().await?;
        state.rehydrate().await?;
        Ok(state)
    }

    async fn handle(
        &self,
        me: ActorRef<SessionMessage>,
        message: SessionMessage,
        state: &mut SessionState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SessionMessage::Deliver(incoming) => state.deliver(&me, *incoming).await,
            SessionMessage::LookAtClock { now, at_rest } => {
                let resting = state.look_at_clock(&me, now).await;
                let _ = at_rest.send(resting);
            }
            SessionMessage::ReadAgain => state.loaded = None,
            SessionMessage::WriteResult(settled) => {
                state.settle(&settled);
                state.take_parked(&me).await;
            }
        }
        Ok(())
    }
}

impl SessionState {
    fn work_on(&self, event: Option<EventId>) {
        *self.current_event.lock().unwrap_or_else(PoisonError::into_inner) = event;
    }

    /// Reads what the store knows.
    async fn rehydrate(&mut self) -> Result<(), StoreError> {
        let (readers, key) = (self.context.context_lookup.readers.clone(), self.key.clone());
        let known = tokio::task::spawn_blocking(move || readers.read(|db| store::known_session(db, &key)))
            .await
            .map_err(|error| StoreError::Unavailable(error.to_string()))??;
        self.loaded = Some(match known {
            Some(known) => LoadedSession {
                session: known.session,
                home: OriginState::Stored(known.home),
                injected: Arc::new(tokio::sync::Mutex::new(known.injected)),
                root: known.root,
                last_seen: LastSeen::default(),
                transcript: Transcript { path: known.transcript_path, config_dir: None },
                taken: HashSet::new(),
                keys: HashSet::new(),
            },
            None => LoadedSession {
                session: Session::default(),
                home: OriginState::Unknown,
                injected: Arc::default(),
                root: None,
                last_seen: LastSeen::default(),
                transcript: Transcript::default(),
                taken: HashSet::new(),
                keys: HashSet::new(),
            },
        });
        Ok(())
    }

    async fn deliver(&mut self, me: &ActorRef<SessionMessage>, incoming: IncomingEvent) {
        self.work_on(Some(incoming.accepted.deliver.event_id));
        self.decide(me, incoming).await;
        self.work_on(None);
    }

    /// Nothing is on its way: what had to wait for that gets its turn, in the order in which it came.
    async fn take_parked(&mut self, me: &ActorRef<SessionMessage>) {
        if self.in_flight > 0 {
            return;
        }
        for incoming in std::mem::take(&mut self.parked) {
            self.deliver(me, incoming).await;
        }
    }

    async fn decide(&mut self, me: &ActorRef<SessionMessage>, incoming: IncomingEvent) {
        if self.loaded.is_none() {
            // What is still on its way was decided on the lost state; only the store knows what came of it.
            if self.in_flight > 0 {
                self.parked.push(incoming);
                return;
            }
            if self.rehydrate().await.is_err() {
                let _ = incoming.reply.send(Reply::Busy);
                return;
            }
        }
        if self.loaded.as_ref().is_some_and(|loaded| loaded.has_taken(&incoming.accepted)) {
            if self.in_flight > 0 {
                // Taken and perhaps not yet committed: the answer may only be given when it is.
                self.parked.push(incoming);
            } else {
                self.count_second_hook(&incoming);
                let _ = incoming.reply.send(Reply::Duplicate { stdout: Vec::new() });
            }
            return;
        }
        let IncomingEvent { accepted, reply } = incoming;
        let AcceptedEvent { mut event, deliver, key, alias, recipient } = accepted;
        let at = Timestamp(deliver.captured_at_ms);
        let order = Order { boot: deliver.boot_id, boot_ns: place_of(&deliver), wall: at };
        let mut origin = match self.origin(&event, &deliver, order).await {
            Ok(origin) => origin,
            Err(error) => {
                tracing::warn!(%error, "cannot tell which project a session is of");
                let _ = reply.send(Reply::Busy);
                return;
            }
        };
        origin.alias = alias;
        let found = self.reply_left_by(&mut event, &deliver).await;
        self.read_plan(&mut event, &deliver).await;
        let Some(loaded) = &mut self.loaded else { return };
        let capture = Capture { event: deliver.event_id, at, order };
        let (before, recovered) = with_reply(loaded.session.clone(), found);
        let last_event = before.last_event;
        let Decision { next, mut effects, ask } = before.on_event(&event, capture, &self.context.capture);
        effects.splice(..0, recovered);
        loaded.session = next;
        loaded.taken.insert(deliver.event_id);
        loaded.keys.extend(key);
        if matches!(ask, Some(Ask::Start(StartSource::Compact, _))) {
            // The conversation is gone, and what was told with it; what is still being told belongs to the old one.
            loaded.injected = Arc::default();
        }
        let place = WorkLocation { cwd: event.cwd.clone(), root: loaded.root.clone() };
        let project = origin.project.clone();
        let transaction = Transaction {
            session: self.key.clone(),
            origin,
            delivery: delivery(&self.key, &deliver, event.name(), key),
            effects,
        };
        faults::reach(Point::Enqueue);
        let works = transaction.effects.iter().filter_map(Effect::work).collect();
        let stored = self.context.writer.queue(transaction);
        self.context.checkouts.look(&self.key, (&deliver, works), place.clone(), &loaded.last_seen);
        self.in_flight += 1;
        let within = self.context.context_lookup.answer_within;
        let asked =
            PendingRequest::of(ask, recipient, (&deliver, within), (&loaded.home, &self.context.answers));
        let pending_reply = PendingReply {
            me: me.clone(),
            key: self.key.clone(),
            context: self.context.clone(),
            injected: Arc::clone(&loaded.injected),
            project,
            place,
            last_event,
            event_name: event.name().to_owned(),
        };
        tokio::spawn(pending_reply.run(reply, asked, stored));
    }

    /// An agent tells of a call or a prompt once, so another event of the same is another hook's. Ends of turns do
    /// come again.
    fn count_second_hook(&self, incoming: &IncomingEvent) {
        let is_another_event = self
            .loaded
            .as_ref()
            .is_some_and(|loaded| !loaded.taken.contains(&incoming.accepted.deliver.event_id));
        let once = matches!(
            incoming.accepted.event.what,
            HookEventKind::Tool(_) | HookEventKind::ToolStart(_) | HookEventKind::Prompt { .. }
        );
        if is_another_event && once {
            self.context.counters.told_twice.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The answer to a turn that this event leaves without one. A Stop without words gets them as its own.
    async fn reply_left_by(&mut self, event: &mut HookEvent, deliver: &Deliver) -> Option<String> {
        let loaded = self.loaded.as_mut()?;
        let Transcript { path, config_dir } = &mut loaded.transcript;
        config_dir.clone_from(&deliver.context.config_dir);
        if event.transcript_path.is_some() {
            path.clone_from(&event.transcript_path);
        }
        let loaded = self.loaded.as_ref()?;
        let batch = loaded.session.unanswered_batch_before(event)?;
        let is_own = !batch.is_of_other_turn(event.prompt.as_ref());
        let found = self.look_up(loaded, batch).await;
        match &mut event.what {
            HookEventKind::Stop { message } if is_own => {
                *message = found;
                None
            }
            _ => found,
        }
    }

    /// An approval that names only the plan's file gets its text from there.
    async fn read_plan(&self, event: &mut HookEvent, deliver: &Deliver) {
        let HookEventKind::Tool(call) = &mut event.what else { return };
        let Some(PlanChange::Approved { path: Some(path), text: text @ None }) = &mut call.plan else {
            return;
        };
        let root = self.loaded.as_ref().and_then(|loaded| loaded.root.clone());
        let named = (path.clone(), deliver.context.config_dir.clone());
        let folders = self.context.capture.plan_folders.clone();
        *text = self.context.transcript_replies.plan(&self.key.agent, named, root, folders).await;
    }

    async fn look_up(&self, loaded: &LoadedSession, batch: &Batch) -> Option<String> {
        let Transcript { path, config_dir } = &loaded.transcript;
        let (path, config_dir) = (path.clone()?, config_dir.clone());
        self.context.transcript_replies.look_up(&self.key.agent, path, batch.prompt.clone(), config_dir).await
    }

    /// Where the session runs. Looked up once, and again for an event that was taken before the one that decided: it
    /// must not matter which one is heard first.
    async fn origin(
        &mut self,
        event: &HookEvent,
        deliver: &Deliver,
        order: Order,
    ) -> Result<SessionOrigin, StoreError> {
        let mut origin = SessionOrigin {
            cwd: event.cwd.clone(),
            transcript_path: event.transcript_path.clone(),
            ..SessionOrigin::default()
        };
        match self.loaded.as_ref().map(|loaded| &loaded.home) {
            Some(OriginState::Stored(decided)) => {
                if !decided.is_some_and(|decided| order.is_before(&decided)) {
                    return Ok(origin);
                }
                origin.precedence = Precedence::Earlier;
            }
            Some(OriginState::Found(found, decided)) => {
                if !order.is_before(decided) {
                    let (cwd, transcript_path) = (origin.cwd, origin.transcript_path);
                    let precedence = Precedence::Later;
                    return Ok(SessionOrigin { cwd, transcript_path, precedence, ..found.clone() });
                }
                origin.precedence = Precedence::Earlier;
            }
            Some(OriginState::Unknown) | None => {}
        }
        let shim = &deliver.context;
        let named = [shim.project_dir.as_deref(), event.cwd.as_deref(), Some(&*shim.cwd)];
        let folder = identifying_folder(&named.map(Option::unwrap_or_default)).to_owned();
        let readers = self.context.context_lookup.readers.clone();
        let look_up = tokio::task::spawn_blocking(move || {
            let facts = repository::facts(Path::new(&folder));
            readers.read(|db| identify(db, &facts)).map(|identity| (identity, facts.folder))
        });
        let (Identity { keys, name, .. }, root) =
            look_up.await.map_err(|error| StoreError::Unavailable(error.to_string()))??;
        // What is stored of a folder; what is looked at is the folder itself.
        let redactor = self.context.redactor.get();
        let redact = |text: &str| redactor.redact_id(text).into_owned();
        origin.project = keys.iter().map(|key| ProjectKey(redact(key.as_str()))).collect();
        (origin.project_name, origin.root) = (redact(&name), Some(redact(&root)));
        if let Some(loaded) = &mut self.loaded {
            loaded.root = Some(root);
            loaded.home = OriginState::Found(origin.clone(), order);
        }
        Ok(origin)
    }

    fn settle(&mut self, settled: &WriteResult) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match settled.outcome {
            StoreOutcome::NotStored => self.loaded = None,
            StoreOutcome::Stored => {
                // With others on their way it may not be the one that decided.
                if self.in_flight == 0
                    && let Some(loaded) = &mut self.loaded
                    && let OriginState::Found(_, decided) = loaded.home
                {
                    loaded.home = OriginState::Stored(Some(decided));
                }
            }
        }
    }

    /// Lets time do what it does to a silent session. True: nothing more can come of waiting.
    async fn look_at_clock(&mut self, me: &ActorRef<SessionMessage>, now: Timestamp) -> bool {
        if self.in_flight > 0 || (self.loaded.is_none() && self.rehydrate().await.is_err()) {
            return false;
        }
        let watch = Watch { now, since: self.context.heard_since };
        let found = match self.loaded.as_ref() {
            Some(loaded) => match loaded.session.unanswered_batch_on_idle(watch, self.context.idle) {
                Some(batch) => self.look_up(loaded, batch).await,
                None => None,
            },
            None => None,
        };
        let Some(loaded) = &mut self.loaded else { return false };
        let (before, recovered) = with_reply(loaded.session.clone(), found);
        let Decision { next, mut effects, .. } = before.on_idle(watch, self.context.idle);
        effects.splice(..0, recovered);
        if effects.is_empty() {
            let silent = now.since(loaded.session.last_event) > self.context.idle.batch_ms;
            return silent && loaded.session.is_at_rest();
        }
        loaded.session = next;
        // A life that ends by silence ended with its last event.
        let write = IdleEffects { session: self.key.clone(), effects, at: now };
        let stored = self.context.writer.queue(write);
        self.in_flight += 1;
        let me = me.clone();
        tokio::spawn(async move {
            let outcome = match stored.await {
                Ok(()) => StoreOutcome::Stored,
                Err(error) => {
                    tracing::warn!(%error, "an idle session could not be stored");
                    StoreOutcome::NotStored
                }
            };
            let _ = me.send_message(SessionMessage::WriteResult(WriteResult { outcome }));
        });
        false
    }
}

fn with_reply(session: Session, found: Option<String>) -> (Session, Option<Effect>) {
    match found {
        Some(text) => session.with_reply(&text),
        None => (session, None),
    }
}

/// Nanoseconds since the boot.
fn place_of(deliver: &Deliver) -> u64 {
    if planted(Fault::OrderOfArrival) { BootStamp::now().boot_ns } else { deliver.boot_ns }
}

fn delivery(key: &SessionKey, deliver: &Deliver, event_name: &str, second: Option<[u8; 16]>) -> Delivery {
    Delivery {
        event: deliver.event_id,
        key: second,
        agent: key.agent.clone(),
        event_name: event_name.to_owned(),
        captured_at: Timestamp(deliver.captured_at_ms),
        boot_id: deliver.boot_id,
        boot_ns: place_of(deliver),
        flags: deliver.flags.0,
        stored_at: clock::now(),
    }
}
