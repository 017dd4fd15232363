//! A live session: owns its batches, its mailbox and its injected set.
//!
//! It applies `domain::session` to its state and queues the effects at the writer without waiting. So events of one
//! session are committed in the order of arrival and can share a commit. Until then, its state is ahead of the store.
//! If a write fails, or the event turns out to be stored already, the state is dropped and reloaded before the next
//! event.

mod origin;
mod replies;

use std::collections::HashSet;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use recall_protocol::boot::BootStamp;
use recall_protocol::wire::{Deliver, Reply};
use tokio::time::Instant;
use tracing::Instrument;

use super::pending_reply::{PendingReply, PendingRequest, StartDelivery};
use super::session_context::{OriginState, SessionContext};
use super::session_message::{IncomingEvent, SessionMessage, StoreOutcome, WriteResult};
use recall_app::changed_files;
use recall_app::checkouts::LastSeen;
use recall_app::clock;
use recall_app::command_context::Subject;
use recall_app::ports::AcceptedEvent;
use recall_app::skipped_tools;
use recall_domain::event::{Capture, HookEventKind, StartSource};
use recall_domain::file_memory::InjectedSet;
use recall_domain::ids::{EventId, SessionKey, Timestamp};
use recall_domain::linked_folder::LinkedFolder;
use recall_domain::order::Order;
use recall_domain::session::{ContextAsk, Decision, Effect, Seq, Session, Watch};
use recall_repository::refs::WorkLocation;
use recall_store::{Delivery, IdleEffects, StoreError, Transaction};
use recall_system::faults::{self, Fault, Point, planted};
use replies::{Awaited, MOST_AWAITED, look_later, with_replies};

/// How long an ended session keeps its actor. Hooks of its end may still arrive; later ones are answered from the
/// store.
const RESTS_AFTER: Duration = Duration::from_secs(10);

pub(super) struct SessionActor;

pub struct SessionArguments {
    pub key: SessionKey,
    pub context: SessionContext,
    /// The event being handled. The supervisor reads it after a crash.
    pub current_event: CurrentEvent,
    pub earlier_writes: EarlierWrites,
    /// Tells the supervisor that the session is at rest.
    pub retire: Box<dyn Fn() + Send + Sync>,
}

/// How much is known about writes queued by earlier actors of this session. The store may not reflect them yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EarlierWrites {
    Committed,
    Pending,
}

/// The event that a session actor is handling.
pub type CurrentEvent = Arc<Mutex<Option<EventId>>>;

pub struct SessionState {
    key: SessionKey,
    /// Shared with the pending replies.
    context: Arc<SessionContext>,
    current_event: CurrentEvent,
    retire: Box<dyn Fn() + Send + Sync>,
    /// `None` before the first event, and after the state was dropped.
    loaded: Option<LoadedSession>,
    /// Writes that are not committed yet.
    in_flight: usize,
    /// Events that can be answered only once no write is in flight. Bounded by the gate's permits.
    parked: Vec<IncomingEvent>,
    /// When the last write was settled.
    settled_at: Instant,
}

#[derive(Default)]
struct LoadedSession {
    session: Session,
    origin: OriginState,
    /// Shared with the pending replies.
    injected: Arc<tokio::sync::Mutex<InjectedSet>>,
    /// The folder of the session's project.
    root: Option<String>,
    /// The folders that the session's events named, and which of them are links.
    links: Vec<(String, Option<LinkedFolder>)>,
    last_seen: LastSeen,
    transcript: Transcript,
    /// The source of the last event if it was a start.
    last_start: Option<StartSource>,
    /// Batches that ended without an answer. Their answers may still appear in the transcript.
    awaited: Vec<Seq>,
    /// The last event before the silence in which answers were searched for.
    looked_after: Option<Timestamp>,
    /// The events that this actor accepted. Older ones are in the store.
    accepted: HashSet<EventId>,
    keys: HashSet<[u8; 16]>,
}

/// The agent's transcript.
#[derive(Default)]
struct Transcript {
    path: Option<String>,
    /// The agent's own folder, if the user moved it.
    config_dir: Option<String>,
}

impl LoadedSession {
    /// Whether a start repeats the last event. Records the start.
    fn start(&mut self, what: &HookEventKind) -> StartDelivery {
        let start = match what {
            // A resume only injects news, each time.
            HookEventKind::SessionStart { source, .. } if *source != StartSource::Resume => Some(*source),
            _ => None,
        };
        let is_again = start.is_some() && start == self.last_start;
        self.last_start = start;
        if is_again { StartDelivery::Again } else { StartDelivery::First }
    }

    /// Whether this event is a second delivery.
    fn has_accepted(&self, accepted: &AcceptedEvent) -> bool {
        self.accepted.contains(&accepted.deliver.event_id)
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
        let SessionArguments { key, mut context, current_event, earlier_writes, retire } = arguments;
        context.capture.plan_prompts = context.agents.spec(key.agent.as_str()).conventions.plan_prompts;
        let mut state = SessionState {
            key,
            context: Arc::new(context),
            current_event,
            retire,
            loaded: None,
            in_flight: 0,
            parked: Vec::new(),
            settled_at: Instant::now(),
        };
        if earlier_writes == EarlierWrites::Pending {
            state.context.writer.settle().await?;
        }
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
            SessionMessage::CheckIdle { now, at_rest } => {
                let resting = state.check_idle(&me, now).await;
                let _ = at_rest.send(resting);
            }
            SessionMessage::Reload => state.loaded = None,
            SessionMessage::WriteResult(settled) => {
                state.settle(&settled);
                state.take_parked(&me).await;
                if state.is_at_rest() {
                    me.send_after(RESTS_AFTER, || SessionMessage::Rest);
                }
            }
            SessionMessage::LookAgain(times) => {
                if state.look_again(&me).await == Awaited::Some {
                    look_later(&me, times + 1);
                }
            }
            SessionMessage::GiveWay => {
                if state.in_flight == 0 && state.parked.is_empty() {
                    (state.retire)();
                }
            }
            SessionMessage::Rest => {
                if state.is_at_rest() && state.settled_at.elapsed() >= RESTS_AFTER {
                    (state.retire)();
                }
            }
        }
        Ok(())
    }
}

impl SessionState {
    fn set_current_event(&self, event: Option<EventId>) {
        *self.current_event.lock().unwrap_or_else(PoisonError::into_inner) = event;
    }

    /// Reads the session's state from the store.
    async fn rehydrate(&mut self) -> Result<(), StoreError> {
        let (readers, key) = (self.context.context_lookup.readers.clone(), self.key.clone());
        let known = tokio::task::spawn_blocking(move || readers.read(|db| db.known_session(&key)))
            .await
            .map_err(|error| StoreError::Unavailable(error.to_string()))??;
        let mut loaded = LoadedSession::default();
        if let Some(known) = known {
            // An earlier daemon may have been waiting for these answers.
            loaded.awaited = known.session.ended_unanswered();
            loaded.awaited.drain(..loaded.awaited.len().saturating_sub(MOST_AWAITED));
            loaded.session = known.session;
            loaded.origin = OriginState::Stored(known.home);
            loaded.injected = Arc::new(tokio::sync::Mutex::new(known.injected));
            loaded.root = known.root;
            loaded.transcript.path = known.transcript_path;
        }
        self.loaded = Some(loaded);
        Ok(())
    }

    async fn deliver(&mut self, me: &ActorRef<SessionMessage>, incoming: IncomingEvent) {
        self.set_current_event(Some(incoming.accepted.deliver.event_id));
        let span = incoming.accepted.trace.span();
        self.decide(me, incoming).instrument(span).await;
        self.set_current_event(None);
    }

    /// Handles the parked events in order of arrival, if no write is in flight.
    async fn take_parked(&mut self, me: &ActorRef<SessionMessage>) {
        if self.in_flight > 0 {
            return;
        }
        for incoming in std::mem::take(&mut self.parked) {
            self.deliver(me, incoming).await;
        }
    }

    /// Returns the event if it can be decided now. Otherwise parks or answers it.
    async fn admit(&mut self, incoming: IncomingEvent) -> Option<IncomingEvent> {
        if self.loaded.is_none() {
            // The writes in flight were based on the dropped state, so only the store knows their result.
            if self.in_flight > 0 {
                self.parked.push(incoming);
                return None;
            }
            if self.rehydrate().await.is_err() {
                let _ = incoming.reply.send(Reply::Busy);
                return None;
            }
        }
        if self.loaded.as_ref().is_some_and(|loaded| loaded.has_accepted(&incoming.accepted)) {
            if self.in_flight > 0 {
                // The first delivery may not be committed yet, and a duplicate may be answered only after the commit.
                self.parked.push(incoming);
            } else {
                self.count_second_hook(&incoming);
                let _ = incoming.reply.send(Reply::Duplicate { stdout: Vec::new() });
            }
            return None;
        }
        Some(incoming)
    }

    async fn decide(&mut self, me: &ActorRef<SessionMessage>, incoming: IncomingEvent) {
        let Some(IncomingEvent { accepted, reply }) = self.admit(incoming).await else { return };
        let AcceptedEvent { mut event, deliver, key, alias, recipient, trace } = accepted;
        let at = Timestamp(deliver.captured_at_ms);
        let order = Order { boot: deliver.boot_id, boot_ns: boot_ns_of(&deliver), wall: at };
        let mut origin = match self.origin(&event, &deliver, order).await {
            Ok(origin) => origin,
            Err(error) => {
                tracing::warn!(%error, "cannot find the project of a session");
                let _ = reply.send(Reply::Busy);
                return;
            }
        };
        origin.alias = alias;
        event = self.with_real_paths(event, &deliver).await;
        let found = self.missing_replies(me, &mut event, &deliver).await;
        let spec = self.context.agents.spec(self.key.agent.as_str());
        skipped_tools::remove_contents(&mut event, spec, &self.context.capture.skip_tools);
        self.read_plan(&mut event, &deliver).await;
        let Some(loaded) = &mut self.loaded else { return };
        let capture = Capture { event: deliver.event_id, at, order };
        let (before, recovered) = with_replies(std::mem::take(&mut loaded.session), &found);
        let last_event = before.last_event;
        let Decision { next, mut effects, ask } = before.on_event(&event, capture, &self.context.capture);
        // Some agents report a call's start only for guards.
        let takes_context = spec.takes_context_at(event.what.name());
        let ask = ask.filter(|ask| match ask {
            ContextAsk::File(_) => takes_context,
            ContextAsk::Call { .. } => takes_context && Subject::of(spec, ask).is_some(),
            _ => true,
        });
        effects.splice(..0, recovered);
        loaded.session = next;
        loaded.accepted.insert(deliver.event_id);
        loaded.keys.extend(key);
        let start = loaded.start(&event.what);
        if start == StartDelivery::First
            && matches!(ask, Some(ContextAsk::Start(StartSource::Compact, _) | ContextAsk::First(_)))
        {
            // The conversation was emptied and the injected context with it, or the agent dropped everything injected
            // before the conversation began. Injections in flight belong to the old conversation.
            loaded.injected = Arc::default();
        }
        let place = WorkLocation { cwd: event.cwd.clone(), root: loaded.root.clone() };
        let (project, replaced) = (origin.project.clone(), origin.replaced.clone());
        let transaction = Transaction {
            conventions: self.context.agents.spec(self.key.agent.as_str()).conventions,
            session: self.key.clone(),
            origin,
            delivery: delivery(&self.key, &deliver, event.name(), key),
            effects,
            changed_files: changed_files::marks(spec, &event, loaded.root.as_deref()),
        };
        faults::reach(Point::Enqueue);
        let works = transaction.effects.iter().filter_map(Effect::work).collect();
        let stored = self.context.writer.queue(transaction);
        trace.queued();
        self.context.checkouts.record(&self.key, &deliver, works, place.clone(), &loaded.last_seen);
        self.in_flight += 1;
        let within = self.context.context_lookup.answer_within;
        let asked =
            PendingRequest::of(ask, recipient, (&deliver, within), (&loaded.origin, &self.context.answers));
        let pending_reply = PendingReply {
            me: me.clone(),
            key: self.key.clone(),
            context: Arc::clone(&self.context),
            injected: Arc::clone(&loaded.injected),
            project,
            replaced,
            start,
            place,
            last_event,
            event: event.what.name(),
            trace,
        };
        let span = pending_reply.trace.span();
        tokio::spawn(pending_reply.run(reply, asked, stored).instrument(span));
    }

    /// Counts a second hook. An agent reports a call or a prompt once, so another event for it comes from a second
    /// hook. Ends of turns may repeat.
    fn count_second_hook(&self, incoming: &IncomingEvent) {
        let is_another_event = self
            .loaded
            .as_ref()
            .is_some_and(|loaded| !loaded.accepted.contains(&incoming.accepted.deliver.event_id));
        let once = matches!(
            incoming.accepted.event.what,
            HookEventKind::Tool(_) | HookEventKind::ToolStart(_) | HookEventKind::Prompt { .. }
        );
        if is_another_event && once {
            self.context.counters.told_twice.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether the session has ended and is completely stored.
    fn is_at_rest(&self) -> bool {
        let is_over = self.loaded.as_ref().is_some_and(|loaded| loaded.session.is_at_rest());
        is_over && self.in_flight == 0 && self.parked.is_empty()
    }

    fn settle(&mut self, settled: &WriteResult) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.settled_at = Instant::now();
        match settled.outcome {
            StoreOutcome::NotStored => self.loaded = None,
            StoreOutcome::Stored => {
                // With other writes in flight, another event may decide.
                if self.in_flight == 0
                    && let Some(loaded) = &mut self.loaded
                    && let OriginState::Found(_, decided) = loaded.origin
                {
                    loaded.origin = OriginState::Stored(Some(decided));
                }
            }
        }
    }

    /// Applies the idle times to the session. Returns `true` if the session is at rest.
    async fn check_idle(&mut self, me: &ActorRef<SessionMessage>, now: Timestamp) -> bool {
        if self.in_flight > 0 || (self.loaded.is_none() && self.rehydrate().await.is_err()) {
            return false;
        }
        let watch = Watch { now, since: self.context.started_at };
        let wanted = self.loaded.as_mut().map_or_else(Vec::new, |loaded| {
            let running = loaded.session.unanswered_batch_on_idle(watch, self.context.idle);
            let running = running.map(|batch| batch.seq);
            // A session without open batches is checked once per silence.
            let is_silent = now.since(loaded.session.last_event) >= self.context.idle.batch_ms;
            let looks = is_silent && loaded.looked_after != Some(loaded.session.last_event);
            if !looks && running.is_none() {
                return Vec::new();
            }
            loaded.looked_after = Some(loaded.session.last_event);
            loaded.awaited.iter().copied().chain(running).collect()
        });
        let found = if wanted.is_empty() { Vec::new() } else { self.look_up(wanted).await };
        let Some(loaded) = &mut self.loaded else { return false };
        loaded.awaited.retain(|seq| found.iter().all(|(known, _)| known != seq));
        let (before, recovered) = with_replies(loaded.session.clone(), &found);
        let Decision { next, mut effects, .. } = before.on_idle(watch, self.context.idle);
        effects.splice(..0, recovered);
        if effects.is_empty() {
            let silent = now.since(loaded.session.last_event) > self.context.idle.batch_ms;
            return silent && loaded.session.is_at_rest();
        }
        loaded.session = next;
        // A life that ends by silence ended with its last event.
        self.store_quietly(me, effects, now);
        false
    }

    /// Stores effects that no event caused.
    fn store_quietly(&mut self, me: &ActorRef<SessionMessage>, effects: Vec<Effect>, at: Timestamp) {
        let write = IdleEffects { session: self.key.clone(), effects, at };
        let stored = self.context.writer.queue(write);
        self.in_flight += 1;
        let me = me.clone();
        tokio::spawn(async move {
            let outcome = match stored.await {
                Ok(()) => StoreOutcome::Stored,
                Err(error) => {
                    tracing::warn!(%error, "cannot store the effects of an idle check");
                    StoreOutcome::NotStored
                }
            };
            let _ = me.send_message(SessionMessage::WriteResult(WriteResult { outcome }));
        });
    }
}

/// Nanoseconds since the boot.
fn boot_ns_of(deliver: &Deliver) -> u64 {
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
        boot_ns: boot_ns_of(deliver),
        flags: deliver.flags.0,
        stored_at: clock::now(),
    }
}
