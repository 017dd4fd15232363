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

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use recall_protocol::boot::BootStamp;
use recall_protocol::wire::{Deliver, Reply};

use super::checkouts::{Checkouts, LastSeen};
use super::clock;
use super::errand::{Asked, Errand};
use super::hearing::{Answers, Listener};
use super::identity::{Identity, identify};
use super::intake::Counters;
use super::recollection::Recollection;
use super::replies::Replies;
use super::sessions::Crashes;
use super::settings::CurrentRedactor;
use super::writer::WriterHandle;
use crate::faults::{self, Fault, Point, planted};
use crate::memory::event::{Capture, LifecycleEvent, StartSource, What};
use crate::memory::file_memory::Told;
use crate::memory::ids::{EventId, ProjectKey, SessionKey, Timestamp};
use crate::memory::order::Order;
use crate::memory::plan::PlanChange;
use crate::memory::project::telling_folder;
use crate::memory::session::{Ask, Batch, CapturePolicy, Decision, Effect, IdlePolicy, Session, Watch};
use crate::repository;
use crate::repository::refs::Workplace;
use crate::store::{self, Delivery, Precedence, SessionOrigin, StoreError, Transaction, Write};

/// A happening that waits to be stored.
pub struct Arrival {
    pub event: LifecycleEvent,
    pub deliver: Deliver,
    /// The second key against double delivery.
    pub key: Option<[u8; 16]>,
    /// The name the project wants to be shown under.
    pub alias: Option<String>,
    pub listener: Listener,
    pub reply: RpcReplyPort<Reply>,
}

pub enum SessionMessage {
    Deliver(Box<Arrival>),
    /// Looks whether something has been silent for too long. Answers whether the session is at rest and may go.
    LookAtClock {
        now: Timestamp,
        at_rest: RpcReplyPort<bool>,
    },
    /// Something of the session was forgotten: what the state says of it is no longer so.
    ReadAgain,
    /// What became of a write that was queued.
    Settled(Settled),
}

/// What became of an event.
pub struct Settled {
    pub(super) outcome: SettledAs,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SettledAs {
    Stored,
    /// The state went ahead of what the store took: it has to be read again.
    NotStored,
}

/// What every session needs.
#[derive(Clone)]
pub struct SessionContext {
    pub writer: WriterHandle,
    pub recollection: Recollection,
    pub checkouts: Checkouts,
    pub answers: Answers,
    pub counters: Arc<Counters>,
    pub crashes: Crashes,
    pub capture: CapturePolicy,
    pub idle: IdlePolicy,
    /// Since when sessions are heard: a suspended one was not silent before.
    pub heard_since: Timestamp,
    pub replies: Replies,
    pub redactor: CurrentRedactor,
}

pub(super) struct SessionActor;

pub struct SessionArguments {
    pub key: SessionKey,
    pub context: SessionContext,
    /// Where the supervisor looks after a crash: what was being handled.
    pub at_work_on: AtWorkOn,
}

/// The event that a session actor is handling, for its supervisor to see.
pub type AtWorkOn = Arc<Mutex<Option<EventId>>>;

pub struct SessionState {
    key: SessionKey,
    context: SessionContext,
    at_work_on: AtWorkOn,
    /// `None` until the first event, or after the state has gone astray.
    held: Option<Held>,
    /// Writes that are on their way.
    in_flight: usize,
    /// Arrivals that can only be answered when nothing is on its way any more: bounded by the gate's permits.
    parked: Vec<Arrival>,
}

struct Held {
    session: Session,
    home: Home,
    /// Shared with the errands that are under way.
    told: Arc<tokio::sync::Mutex<Told>>,
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

impl Held {
    /// Whether this is the second delivery of something.
    fn has_taken(&self, arrival: &Arrival) -> bool {
        self.taken.contains(&arrival.deliver.event_id)
            || arrival.key.is_some_and(|key| self.keys.contains(&key))
    }
}

/// Whether it is known where the session runs, and since which event: the earliest one decides, for an agent may go
/// anywhere later.
pub(super) enum Home {
    Unknown,
    /// Looked up, and not yet known to be stored.
    Found(SessionOrigin, Order),
    /// `None`: what decided is not known any more.
    Stored(Option<Order>),
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
        let SessionArguments { key, context, at_work_on } = arguments;
        let mut state =
            SessionState { key, context, at_work_on, held: None, in_flight: 0, parked: Vec::new() };
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
            SessionMessage::Deliver(arrival) => state.deliver(&me, *arrival).await,
            SessionMessage::LookAtClock { now, at_rest } => {
                let resting = state.look_at_clock(&me, now).await;
                let _ = at_rest.send(resting);
            }
            SessionMessage::ReadAgain => state.held = None,
            SessionMessage::Settled(settled) => {
                state.settle(&settled);
                state.take_parked(&me).await;
            }
        }
        Ok(())
    }
}

impl SessionState {
    fn work_on(&self, event: Option<EventId>) {
        *self.at_work_on.lock().unwrap_or_else(PoisonError::into_inner) = event;
    }

    /// Reads what the store knows.
    async fn rehydrate(&mut self) -> Result<(), StoreError> {
        let (readers, key) = (self.context.recollection.readers.clone(), self.key.clone());
        let known = tokio::task::spawn_blocking(move || readers.read(|db| store::known_session(db, &key)))
            .await
            .map_err(|error| StoreError::Unavailable(error.to_string()))??;
        self.held = Some(match known {
            Some(known) => Held {
                session: known.session,
                home: Home::Stored(known.home),
                told: Arc::new(tokio::sync::Mutex::new(known.told)),
                root: known.root,
                last_seen: LastSeen::default(),
                transcript: Transcript { path: known.transcript_path, config_dir: None },
                taken: HashSet::new(),
                keys: HashSet::new(),
            },
            None => Held {
                session: Session::default(),
                home: Home::Unknown,
                told: Arc::default(),
                root: None,
                last_seen: LastSeen::default(),
                transcript: Transcript::default(),
                taken: HashSet::new(),
                keys: HashSet::new(),
            },
        });
        Ok(())
    }

    async fn deliver(&mut self, me: &ActorRef<SessionMessage>, arrival: Arrival) {
        self.work_on(Some(arrival.deliver.event_id));
        self.decide(me, arrival).await;
        self.work_on(None);
    }

    /// Nothing is on its way: what had to wait for that gets its turn, in the order in which it came.
    async fn take_parked(&mut self, me: &ActorRef<SessionMessage>) {
        if self.in_flight > 0 {
            return;
        }
        for arrival in std::mem::take(&mut self.parked) {
            self.deliver(me, arrival).await;
        }
    }

    async fn decide(&mut self, me: &ActorRef<SessionMessage>, arrival: Arrival) {
        if self.held.is_none() {
            // What is still on its way was decided on the lost state; only the store knows what came of it.
            if self.in_flight > 0 {
                self.parked.push(arrival);
                return;
            }
            if self.rehydrate().await.is_err() {
                let _ = arrival.reply.send(Reply::Busy);
                return;
            }
        }
        if self.held.as_ref().is_some_and(|held| held.has_taken(&arrival)) {
            if self.in_flight > 0 {
                // Taken and perhaps not yet committed: the answer may only be given when it is.
                self.parked.push(arrival);
            } else {
                self.count_second_hook(&arrival);
                let _ = arrival.reply.send(Reply::Duplicate { stdout: Vec::new() });
            }
            return;
        }
        let Arrival { mut event, deliver, key, alias, listener, reply } = arrival;
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
        let Some(held) = &mut self.held else { return };
        let capture = Capture { event: deliver.event_id, at, order };
        let (before, recovered) = with_reply(held.session.clone(), found);
        let last_event = before.last_event;
        let Decision { next, mut effects, ask } = before.on_event(&event, capture, &self.context.capture);
        effects.splice(..0, recovered);
        held.session = next;
        held.taken.insert(deliver.event_id);
        held.keys.extend(key);
        if matches!(ask, Some(Ask::Start(StartSource::Compact, _))) {
            // The conversation is gone, and what was told with it; what is still being told belongs to the old one.
            held.told = Arc::default();
        }
        let place = Workplace { cwd: event.cwd.clone(), root: held.root.clone() };
        let project = origin.project.clone();
        let transaction = Transaction {
            session: self.key.clone(),
            origin,
            delivery: delivery(&self.key, &deliver, event.name(), key),
            effects,
        };
        faults::reach(Point::Enqueue);
        let works = transaction.effects.iter().filter_map(Effect::work).collect();
        let stored = self.context.writer.queue(Write::Event(Box::new(transaction)));
        self.context.checkouts.look(&self.key, (&deliver, works), place.clone(), &held.last_seen);
        self.in_flight += 1;
        let within = self.context.recollection.answer_within;
        let asked = Asked::of(ask, listener, (&deliver, within), (&held.home, &self.context.answers));
        let errand = Errand {
            me: me.clone(),
            key: self.key.clone(),
            context: self.context.clone(),
            told: Arc::clone(&held.told),
            project,
            place,
            last_event,
            event_name: event.name().to_owned(),
        };
        tokio::spawn(errand.run(reply, asked, stored));
    }

    /// An agent tells of a call or a prompt once, so another event of the same is another hook's. Ends of turns do
    /// come again.
    fn count_second_hook(&self, arrival: &Arrival) {
        let is_another_event =
            self.held.as_ref().is_some_and(|held| !held.taken.contains(&arrival.deliver.event_id));
        let once = matches!(arrival.event.what, What::Tool(_) | What::ToolStart(_) | What::Prompt { .. });
        if is_another_event && once {
            self.context.counters.told_twice.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// The answer to a turn that this event leaves without one. A Stop without words gets them as its own.
    async fn reply_left_by(&mut self, event: &mut LifecycleEvent, deliver: &Deliver) -> Option<String> {
        let held = self.held.as_mut()?;
        let Transcript { path, config_dir } = &mut held.transcript;
        config_dir.clone_from(&deliver.context.config_dir);
        if event.transcript_path.is_some() {
            path.clone_from(&event.transcript_path);
        }
        let held = self.held.as_ref()?;
        let batch = held.session.left_unanswered_by(event)?;
        let is_own = !batch.is_strange_to(event.prompt.as_ref());
        let found = self.look_up(held, batch).await;
        match &mut event.what {
            What::Stop { message } if is_own => {
                *message = found;
                None
            }
            _ => found,
        }
    }

    /// An approval that names only the plan's file gets its text from there.
    async fn read_plan(&self, event: &mut LifecycleEvent, deliver: &Deliver) {
        let What::Tool(call) = &mut event.what else { return };
        let Some(PlanChange::Approved { path: Some(path), text: text @ None }) = &mut call.plan else {
            return;
        };
        let root = self.held.as_ref().and_then(|held| held.root.clone());
        let named = (path.clone(), deliver.context.config_dir.clone());
        let folders = self.context.capture.plan_folders.clone();
        *text = self.context.replies.plan(&self.key.agent, named, root, folders).await;
    }

    async fn look_up(&self, held: &Held, batch: &Batch) -> Option<String> {
        let Transcript { path, config_dir } = &held.transcript;
        let (path, config_dir) = (path.clone()?, config_dir.clone());
        self.context.replies.look_up(&self.key.agent, path, batch.prompt.clone(), config_dir).await
    }

    /// Where the session runs. Looked up once, and again for an event that was taken before the one that decided: it
    /// must not matter which one is heard first.
    async fn origin(
        &mut self,
        event: &LifecycleEvent,
        deliver: &Deliver,
        order: Order,
    ) -> Result<SessionOrigin, StoreError> {
        let mut origin = SessionOrigin {
            cwd: event.cwd.clone(),
            transcript_path: event.transcript_path.clone(),
            ..SessionOrigin::default()
        };
        match self.held.as_ref().map(|held| &held.home) {
            Some(Home::Stored(decided)) => {
                if !decided.is_some_and(|decided| order.is_before(&decided)) {
                    return Ok(origin);
                }
                origin.precedence = Precedence::Earlier;
            }
            Some(Home::Found(found, decided)) => {
                if !order.is_before(decided) {
                    let (cwd, transcript_path) = (origin.cwd, origin.transcript_path);
                    let precedence = Precedence::Later;
                    return Ok(SessionOrigin { cwd, transcript_path, precedence, ..found.clone() });
                }
                origin.precedence = Precedence::Earlier;
            }
            Some(Home::Unknown) | None => {}
        }
        let shim = &deliver.context;
        let named = [shim.project_dir.as_deref(), event.cwd.as_deref(), Some(&*shim.cwd)];
        let folder = telling_folder(&named.map(Option::unwrap_or_default)).to_owned();
        let readers = self.context.recollection.readers.clone();
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
        if let Some(held) = &mut self.held {
            held.root = Some(root);
            held.home = Home::Found(origin.clone(), order);
        }
        Ok(origin)
    }

    fn settle(&mut self, settled: &Settled) {
        self.in_flight = self.in_flight.saturating_sub(1);
        match settled.outcome {
            SettledAs::NotStored => self.held = None,
            SettledAs::Stored => {
                // With others on their way it may not be the one that decided.
                if self.in_flight == 0
                    && let Some(held) = &mut self.held
                    && let Home::Found(_, decided) = held.home
                {
                    held.home = Home::Stored(Some(decided));
                }
            }
        }
    }

    /// Lets time do what it does to a silent session. True: nothing more can come of waiting.
    async fn look_at_clock(&mut self, me: &ActorRef<SessionMessage>, now: Timestamp) -> bool {
        if self.in_flight > 0 || (self.held.is_none() && self.rehydrate().await.is_err()) {
            return false;
        }
        let watch = Watch { now, since: self.context.heard_since };
        let found = match self.held.as_ref() {
            Some(held) => match held.session.left_unanswered_by_time(watch, self.context.idle) {
                Some(batch) => self.look_up(held, batch).await,
                None => None,
            },
            None => None,
        };
        let Some(held) = &mut self.held else { return false };
        let (before, recovered) = with_reply(held.session.clone(), found);
        let Decision { next, mut effects, .. } = before.on_idle(watch, self.context.idle);
        effects.splice(..0, recovered);
        if effects.is_empty() {
            let silent = now.since(held.session.last_event) > self.context.idle.batch_ms;
            return silent && held.session.is_at_rest();
        }
        held.session = next;
        // A life that ends by silence ended with its last event.
        let write = Write::Idle { session: self.key.clone(), effects, at: now };
        let stored = self.context.writer.queue(write);
        self.in_flight += 1;
        let me = me.clone();
        tokio::spawn(async move {
            let outcome = match stored.await {
                Ok(_) => SettledAs::Stored,
                Err(error) => {
                    tracing::warn!(%error, "an idle session could not be stored");
                    SettledAs::NotStored
                }
            };
            let _ = me.send_message(SessionMessage::Settled(Settled { outcome }));
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
