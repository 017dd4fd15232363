//! Finishes an event after it is queued: waits for the commit, looks up the context during or after it, and answers
//! the agent. Meanwhile the session handles other events.
//!
//! A session start receives the project's state once its event is committed. If that takes too long because the disk,
//! git or the machine is slow, the start receives the index of titles, which needs only a few reads of the store.
//!
//! About one disk flush in a hundred takes longer than an agent should wait. The context is ready by then, so the
//! reply contains it and says that the event is not stored yet. The shim then keeps the event in the spool, and its
//! second delivery changes nothing.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use ractor::{ActorRef, RpcReplyPort};
use recall_protocol::boot::BootStamp;
use recall_protocol::wire::{Deliver, Reply};
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::session_context::{OriginState, SessionContext};
use super::session_message::{SessionMessage, StoreOutcome, WriteResult};
use recall_agents::{AgentSpec, HookOutput};
use recall_app::clock;
use recall_app::command_context::{CommandContextRequest, Subject};
use recall_app::context_lookup::{ContextReply, ContextRequest};
use recall_app::event_trace::{EventTrace, Stage};
use recall_app::file_context::FileContextRequest;
use recall_app::injection_receipt::{InjectionReceipt, PendingAnswer, PendingAnswers, Received, Recipient};
use recall_app::ports::WriteFailed;
use recall_domain::event::{EventName, StartSource};
use recall_domain::file_memory::InjectedSet;
use recall_domain::ids::{EventId, ProjectKey, ProjectRow, SessionId, SessionKey, Timestamp};
use recall_domain::material::ProjectFolder;
use recall_domain::session::ContextAsk;
use recall_repository::refs::WorkLocation;
use recall_store::{EventOutcome, Injection, ProjectInfo, RetractInjection};

/// The remaining work for a queued event: wait for the commit, look up the context, answer, and report to the session.
pub(super) struct PendingReply {
    pub(super) me: ActorRef<SessionMessage>,
    pub(super) key: SessionKey,
    pub(super) context: Arc<SessionContext>,
    /// Locked during a lookup, so that two concurrent calls do not inject the same items.
    pub(super) injected: Arc<Mutex<InjectedSet>>,
    /// The identities of the session's project if the session is not stored yet; otherwise empty.
    pub(super) project: Vec<ProjectKey>,
    /// The name of the project that was in this folder before, if the current one is new there.
    pub(super) replaced: Option<String>,
    pub(super) start: StartDelivery,
    /// Where the agent works.
    pub(super) place: WorkLocation,
    pub(super) last_event: Timestamp,
    pub(super) event: EventName,
    pub(super) trace: EventTrace,
}

/// Whether an event repeats a start with no other event in between. Two hooks may report the same start, each with its
/// own event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StartDelivery {
    First,
    Again,
}

/// A request for context that an agent is waiting for.
pub(super) struct PendingRequest {
    pub(super) ask: ContextAsk,
    /// The event that carries the request.
    pub(super) event: EventId,
    pub(super) look: LookupTime,
    /// Used only for starts.
    times: AnswerTimes,
    pub(super) injection_receipt: InjectionReceipt,
    pub(super) pending: PendingAnswer,
}

/// When to look up the context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookupTime {
    /// While the event is being committed. The context cannot contain the event itself.
    DuringCommit,
    /// After the commit. A start needs this, because it includes items that were just completed, and because the store
    /// may not know before the commit where the session works.
    AfterCommit,
}

impl PendingRequest {
    /// Returns `None` if no client waits for the answer. Then nothing is looked up, and nothing counts as injected.
    pub(super) fn of(
        ask: Option<ContextAsk>,
        recipient: Recipient,
        (deliver, within): (&Deliver, Duration),
        (origin, answers): (&OriginState, &PendingAnswers),
    ) -> Option<Self> {
        let (ask, injection_receipt) = match (ask, recipient) {
            (Some(ask), Recipient::Agent(injection_receipt)) => (ask, injection_receipt),
            (None, _) | (_, Recipient::Nobody) => return None,
        };
        let look = match (&ask, origin) {
            (
                ContextAsk::Prompt(_)
                | ContextAsk::First(_)
                | ContextAsk::File(_)
                | ContextAsk::Call { .. }
                | ContextAsk::Task(_),
                OriginState::Stored(_),
            ) => LookupTime::DuringCommit,
            (ContextAsk::Start(..), _) | (_, OriginState::Unknown | OriginState::Found(..)) => {
                LookupTime::AfterCommit
            }
        };
        let waited = match &ask {
            ContextAsk::Start(..) => waited(deliver),
            _ => None,
        };
        let times = AnswerTimes::of(within, waited.unwrap_or_default());
        Some(Self { ask, event: deliver.event_id, look, times, injection_receipt, pending: answers.begin() })
    }
}

/// When the reply to a start falls back to the index of titles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AnswerTimes {
    /// From here on, the titles are looked up in parallel with the full context.
    titles: Instant,
    /// From here on, the reply contains the titles if they are ready.
    until: Instant,
}

impl AnswerTimes {
    /// `within` is the time for an answer; `waited` is how long the hook has already waited. Reading the titles and
    /// sending the answer also take time, so after half of the time the answer waits neither for the commit nor for
    /// the full context. A hook that has waited longer than the time for an answer has started the daemon, and waits
    /// longer.
    fn of(within: Duration, waited: Duration) -> Self {
        let now = Instant::now();
        if waited >= within / 2 && waited < within {
            return Self { titles: now, until: now };
        }
        let waited = if waited < within { waited } else { Duration::ZERO };
        let reserve = within / RESERVE;
        Self {
            titles: now + (within / TITLES_AFTER).saturating_sub(waited),
            until: now + within.saturating_sub(waited + reserve),
        }
    }
}

/// How long a hook has waited since it captured its event; `None` if the machine has restarted since. On a busy
/// machine much of the time has passed before a lookup starts.
pub(super) fn waited(deliver: &Deliver) -> Option<Duration> {
    let now = BootStamp::now();
    let is_same_boot = now.boot_id == deliver.boot_id;
    is_same_boot.then(|| Duration::from_nanos(now.boot_ns.saturating_sub(deliver.boot_ns)))
}

/// The commit may take one in this many parts of the time for an answer. After that the answer is sent without it.
const UNSAVED_AFTER: u32 = 3;
/// The full context of a start may take one in this many parts of the time for the answer. After that the titles are
/// looked up in parallel. A healthy machine needs less.
const TITLES_AFTER: u32 = 9;
/// One in this many parts of the time for a start's answer is reserved for writing and sending it. On a busy machine
/// each of these steps waits for a core.
const RESERVE: u32 = 3;

/// The result of a lookup. Its lock blocks the session's other lookups until the result is recorded.
struct LookedUp {
    injected: OwnedMutexGuard<InjectedSet>,
    context_reply: ContextReply,
}

/// Whether the caller was still waiting for the reply.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sent {
    Yes,
    No,
}

impl<E> From<Result<(), E>> for Sent {
    fn from(sent: Result<(), E>) -> Self {
        if sent.is_ok() { Self::Yes } else { Self::No }
    }
}

/// Runs a lookup during a commit. Returns the commit's result if it is known once the lookup has ended and `until` has
/// passed.
async fn beside<T, R>(
    look: impl Future<Output = T>,
    mut commit: Pin<&mut impl Future<Output = R>>,
    until: Instant,
) -> (T, Option<R>) {
    let mut look = pin!(look);
    let mut committed = None;
    let found = loop {
        tokio::select! {
            result = commit.as_mut(), if committed.is_none() => committed = Some(result),
            found = &mut look => break found,
        }
    };
    if committed.is_none() {
        committed = timeout_at(until, commit).await.ok();
    }
    (found, committed)
}

/// Waits for the full context. From `begins` on, the substitute is looked up too. From `until` on, whichever is ready
/// first is returned.
async fn whole_or<T, F: Future<Output = Option<T>>>(
    whole: impl Future<Output = T>,
    stand_in: impl FnOnce() -> F,
    begins: Instant,
    until: Instant,
) -> T {
    let mut whole = pin!(whole);
    if let Ok(found) = timeout_at(begins, whole.as_mut()).await {
        return found;
    }
    let mut stand_in = pin!(stand_in());
    let early = tokio::select! {
        biased;
        found = whole.as_mut() => return found,
        found = stand_in.as_mut() => Some(found),
        () = sleep_until(until) => None,
    };
    let found = match early {
        Some(found) => match timeout_at(until, whole.as_mut()).await {
            Ok(whole) => return whole,
            Err(_) => found,
        },
        None => tokio::select! {
            biased;
            whole = whole.as_mut() => return whole,
            found = stand_in.as_mut() => found,
        },
    };
    match found {
        Some(found) => found,
        None => whole.await,
    }
}

/// A conversation that still has injected context starts like a resumed one, whatever its agent reports: some agents
/// start a session anew at each prompt, or report a start twice.
fn meant(ask: ContextAsk, injected: &InjectedSet) -> ContextAsk {
    match ask {
        ContextAsk::Start(StartSource::Startup, audience) if *injected != InjectedSet::default() => {
            ContextAsk::Start(StartSource::Resume, audience)
        }
        ask => ask,
    }
}

/// The injected items, and the task that records them.
struct RecordedInjection {
    news: InjectedSet,
    recorded: JoinHandle<()>,
}

impl PendingReply {
    /// Does the remaining work. `stored` is the result of writing the event.
    pub(super) async fn run(
        self,
        reply: RpcReplyPort<Reply>,
        asked: Option<PendingRequest>,
        stored: impl Future<Output = Result<EventOutcome, WriteFailed>>,
    ) {
        let begun = self.trace.now();
        let mut stored = pin!(async {
            let result = stored.await;
            self.trace.finish(Stage::Commit, begun);
            result
        });
        let patience = self.context.context_lookup.answer_within / UNSAVED_AFTER;
        let (looked, committed) = match &asked {
            Some(request) if request.look == LookupTime::DuringCommit => {
                let until = Instant::now() + patience;
                let (found, result) = beside(self.look_up(request), stored.as_mut(), until).await;
                (Some(found), result)
            }
            Some(request) if matches!(request.ask, ContextAsk::Start(..)) => {
                self.look_up_start(request, stored.as_mut()).await
            }
            _ => (None, None),
        };
        let looked = match (&asked, looked, &committed) {
            (Some(request), Some(found), None) => {
                // The disk is slow. Answer without the commit.
                let (stdout, injection) = self.inject(request, found);
                let sent = Sent::from(reply.send(Reply::Unsaved { stdout }));
                self.settled(&stored.await);
                return self.settle_injection(injection.zip(asked), sent).await;
            }
            (_, looked, _) => looked,
        };
        let committed = match committed {
            Some(result) => result,
            None => stored.await,
        };
        let mut injection = None;
        let answer = match &committed {
            Ok(EventOutcome::Stored(_)) => {
                let mut stdout = self.rendered(&ContextReply::default());
                if let Some(asked) = &asked {
                    let looked = match looked {
                        Some(looked) => looked,
                        None => self.look_up(asked).await,
                    };
                    (stdout, injection) = self.inject(asked, looked);
                }
                Reply::Ack { stdout }
            }
            Ok(EventOutcome::Duplicate) => Reply::Duplicate { stdout: Vec::new() },
            // The session was forgotten after the event was accepted, so there is nothing left to do.
            Ok(EventOutcome::Dropped) => Reply::Ack { stdout: Vec::new() },
            Err(_) => Reply::Busy,
        };
        self.settled(&committed);
        let sent = Sent::from(reply.send(answer));
        self.settle_injection(injection.zip(asked), sent).await;
    }

    /// Reports the result of the write to the session.
    fn settled(&self, committed: &Result<EventOutcome, WriteFailed>) {
        let outcome = match committed {
            Ok(EventOutcome::Stored(_)) => StoreOutcome::Stored,
            Ok(EventOutcome::Duplicate | EventOutcome::Dropped) => StoreOutcome::NotStored,
            Err(error) => {
                tracing::warn!(%error, "cannot store an event");
                StoreOutcome::NotStored
            }
        };
        let _ = self.me.send_message(SessionMessage::WriteResult(WriteResult { outcome }));
    }

    /// Waits for the receipt of an injection, and retracts the injection if it was not delivered.
    async fn settle_injection(&self, injection: Option<(RecordedInjection, PendingRequest)>, sent: Sent) {
        let Some((RecordedInjection { news, recorded }, asked)) = injection else { return };
        let PendingRequest { event, injection_receipt, pending, .. } = asked;
        let received = match sent {
            Sent::Yes => injection_receipt.receipt().await,
            // The client no longer waits.
            Sent::No => Received::No,
        };
        let _ = recorded.await;
        if received == Received::No {
            self.injected.lock().await.remove(&news);
            let retraction = RetractInjection { session: self.key.clone(), event };
            if let Err(error) = self.context.writer.write(retraction).await {
                tracing::warn!(%error, "cannot retract an undelivered injection");
            }
        }
        drop(pending);
    }

    /// Looks up the context for a request.
    async fn look_up(&self, asked: &PendingRequest) -> LookedUp {
        let injected = Arc::clone(&self.injected).lock_owned().await;
        let context_reply = self.context_reply(asked, &injected).await;
        LookedUp { injected, context_reply }
    }

    /// Looks up the context of a start. Also returns the commit's result, if known by then.
    async fn look_up_start(
        &self,
        asked: &PendingRequest,
        mut stored: Pin<&mut impl Future<Output = Result<EventOutcome, WriteFailed>>>,
    ) -> (Option<LookedUp>, Option<Result<EventOutcome, WriteFailed>>) {
        let injected = Arc::clone(&self.injected).lock_owned().await;
        let mut committed = None;
        let context_reply = {
            let whole = async {
                let result = stored.as_mut().await;
                let is_stored = matches!(result, Ok(EventOutcome::Stored(_)));
                committed = Some(result);
                if is_stored { Some(self.context_reply(asked, &injected).await) } else { None }
            };
            whole_or(whole, || self.titles(asked, injected.clone()), asked.times.titles, asked.times.until)
                .await
        };
        (context_reply.map(|context_reply| LookedUp { injected, context_reply }), committed)
    }

    /// Whether another delivery of this start was already answered.
    fn was_given(&self, injected: &InjectedSet) -> bool {
        self.start == StartDelivery::Again && *injected != InjectedSet::default()
    }

    /// Looks up the index of titles. The session may not be stored yet. `None` if its project is unknown.
    async fn titles(&self, asked: &PendingRequest, injected: InjectedSet) -> Option<Option<ContextReply>> {
        if self.was_given(&injected) {
            return Some(Some(ContextReply::default()));
        }
        let (context_lookup, key) = (self.context.context_lookup.clone(), self.key.clone());
        let ask = meant(asked.ask.clone(), &injected);
        let (identities, place) = (self.project.clone(), self.place.clone());
        let replaced = self.replaced.clone();
        let (cap, last_event) = (self.spec().cap(), self.last_event);
        let read = tokio::task::spawn_blocking(move || {
            let project = context_lookup.readers.read(|db| match db.project_of(&key)? {
                Some(project) => Ok(Some(project)),
                None => db.find_project(&identities),
            })?;
            let Some(project) = project else { return Ok(None) };
            let (session, agent) = (Some(key.id), Some(key.agent));
            let context_request =
                ContextRequest { cap, project, session, agent, injected, last_event, place, replaced };
            context_lookup.look_up_titles(&ask, &context_request).map(Some)
        });
        match read.await {
            Ok(Ok(context_reply)) => {
                tracing::info!(session = %self.key.id, "the start context is late; answering with the index of titles");
                context_reply.map(Some)
            }
            Ok(Err(error)) => {
                let error: recall_store::StoreError = error;
                tracing::warn!(%error, "cannot read the index of titles");
                None
            }
            Err(_) => None,
        }
    }

    async fn context_reply(&self, asked: &PendingRequest, injected: &InjectedSet) -> ContextReply {
        let begun = self.trace.now();
        let context_reply = match self.project().await {
            None => ContextReply::default(),
            Some(_) if self.was_given(injected) => ContextReply::default(),
            Some(project) => match meant(asked.ask.clone(), injected) {
                ContextAsk::File(path) => self.file_context(&path, project.row, injected).await,
                ask @ ContextAsk::Call { .. } => self.command_context(&ask, project, injected).await,
                // A subagent does not see its caller's context. The caller's findings are in the task.
                ask @ ContextAsk::Task(_) => {
                    self.project_context(ask, project, Some(self.key.id.clone()), InjectedSet::default())
                        .await
                }
                ask => self.project_context(ask, project, Some(self.key.id.clone()), injected.clone()).await,
            },
        };
        self.trace.finish(Stage::Context, begun);
        context_reply
    }

    /// Renders the context and records it. It counts as injected unless the receipt says that it was not delivered.
    fn inject(
        &self,
        asked: &PendingRequest,
        LookedUp { mut injected, context_reply }: LookedUp,
    ) -> (Vec<u8>, Option<RecordedInjection>) {
        let injection = self.record(&context_reply, asked.event).map(|recorded| {
            let items =
                context_reply.block.items.iter().filter_map(|item| Some((item.document()?, item.extent)));
            let given = InjectedSet::of_items(items, context_reply.file.clone());
            let news = match asked.ask {
                ContextAsk::Task(_) => InjectedSet::default(),
                ContextAsk::Start(..)
                | ContextAsk::Prompt(_)
                | ContextAsk::First(_)
                | ContextAsk::File(_)
                | ContextAsk::Call { .. } => injected.add(given),
            };
            RecordedInjection { news, recorded }
        });
        (self.rendered(&context_reply), injection)
    }

    /// Returns the bytes that the agent reads.
    fn rendered(&self, context_reply: &ContextReply) -> Vec<u8> {
        let answer = HookOutput {
            event: self.event,
            context: Some(context_reply.block.text.clone()).filter(|text| !text.is_empty()),
            notice: context_reply.notice.clone(),
        };
        self.spec().answer(answer)
    }

    fn spec(&self) -> &'static AgentSpec {
        self.context.agents.spec(self.key.agent.as_str())
    }

    /// Returns the session's project, if the store knows it.
    async fn project(&self) -> Option<ProjectInfo> {
        let (readers, key) = (self.context.context_lookup.readers.clone(), self.key.clone());
        let found = tokio::task::spawn_blocking(move || readers.read(|db| db.project_of(&key))).await;
        match found {
            Ok(Ok(project)) => project,
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot find the project of a request");
                None
            }
            Err(_) => None,
        }
    }

    async fn file_context(&self, path: &str, project: ProjectRow, injected: &InjectedSet) -> ContextReply {
        let spec = self.spec();
        let work_trees = spec.conventions.work_trees;
        let folder = ProjectFolder { root: self.place.root.as_deref(), work_trees };
        let Some(file) = folder.beneath(path) else { return ContextReply::default() };
        let (session, place) = (self.key.id.clone(), self.place.clone());
        let context_request = FileContextRequest { cap: spec.cap(), file, project, session, place };
        self.context.context_lookup.about_file(context_request, injected).await
    }

    async fn command_context(
        &self,
        ask: &ContextAsk,
        project: ProjectInfo,
        injected: &InjectedSet,
    ) -> ContextReply {
        let spec = self.spec();
        let Some(subject) = Subject::of(spec, ask) else { return ContextReply::default() };
        let (session, place) = (self.key.id.clone(), self.place.clone());
        let context_request = CommandContextRequest { cap: spec.cap(), subject, project, session, place };
        self.context.context_lookup.about_command(context_request, injected).await
    }

    async fn project_context(
        &self,
        ask: ContextAsk,
        project: ProjectInfo,
        session: Option<SessionId>,
        injected: InjectedSet,
    ) -> ContextReply {
        let (place, replaced) = (self.place.clone(), self.replaced.clone());
        let (cap, last_event) = (self.spec().cap(), self.last_event);
        let agent = Some(self.key.agent.clone());
        let context_request =
            ContextRequest { cap, project, session, agent, injected, last_event, place, replaced };
        self.context.context_lookup.answer(ask, context_request).await
    }

    /// Queues the record of the injection, if anything is injected.
    fn record(&self, context_reply: &ContextReply, event: EventId) -> Option<JoinHandle<()>> {
        let moment = context_reply.moment.filter(|_| !context_reply.block.items.is_empty())?;
        let items = serde_json::to_string(&context_reply.block.items).unwrap_or_else(|_| "[]".to_owned());
        let injection = Injection {
            session: self.key.clone(),
            event,
            at: clock::now(),
            moment: moment.as_str().to_owned(),
            tokens: context_reply.block.tokens,
            items,
            file: context_reply.file.clone(),
        };
        let queued = self.context.writer.queue(injection);
        Some(tokio::spawn(async move {
            if let Err(error) = queued.await {
                tracing::warn!(%error, "cannot record an injection");
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_commit_is_awaited_during_the_lookup_and_until_the_deadline() {
        let after = |ms: u64| tokio::time::sleep(Duration::from_millis(ms));
        let check = async |look_ms: u64, commit_ms: u64, known: bool, took_ms: u64| {
            let begun = Instant::now();
            let commit = pin!(after(commit_ms));
            let (_, committed) = beside(after(look_ms), commit, begun + Duration::from_millis(15)).await;
            let case = (look_ms, commit_ms);
            assert_eq!(
                (committed.is_some(), begun.elapsed().as_millis() as u64),
                (known, took_ms),
                "{case:?}"
            );
        };
        check(5, 1, true, 5).await;
        check(5, 8, true, 8).await;
        check(5, 100, false, 15).await;
        check(40, 100, false, 40).await;
        check(40, 20, true, 40).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_start_that_waited_half_its_time_gets_the_first_ready_reply() {
        let within = Duration::from_millis(45);
        let times = |waited: u64| {
            let times = AnswerTimes::of(within, Duration::from_millis(waited));
            let from_now = |at: Instant| at.duration_since(Instant::now()).as_millis();
            (from_now(times.titles), from_now(times.until))
        };
        // Every step takes longer on a busy machine: the titles are read early, and a third of the time is reserved for
        // the reply.
        assert_eq!(times(0), (5, 30));
        assert_eq!(times(3), (2, 27));
        assert_eq!(times(20), (0, 10));
        assert_eq!(times(23), (0, 0));
        assert_eq!(times(44), (0, 0));
        assert_eq!(times(300), (5, 30), "it has started the daemon");

        let late = AnswerTimes::of(within, Duration::from_millis(30));
        let begun = Instant::now();
        let after = async |ms: u64, found: &'static str| {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            found
        };
        let titles = async || Some(after(4, "titles").await);
        let found = whole_or(after(12, "whole"), titles, late.titles, late.until).await;
        assert_eq!((found, begun.elapsed().as_millis()), ("titles", 4));
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_start_gets_titles_at_its_deadline_if_the_state_is_not_ready() {
        let after = async |ms: u64, found: &'static str| {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            found
        };
        // The substitute's time counts from 15 ms on; all time is used up after 45 ms.
        let check = async |whole_ms: u64, stand_in_ms: u64, expected: &str, took_ms: u64| {
            let begun = Instant::now();
            let (begins, until) = (begun + Duration::from_millis(15), begun + Duration::from_millis(45));
            let stand_in = async || Some(after(stand_in_ms, "titles").await);
            let found = whole_or(after(whole_ms, "whole"), stand_in, begins, until).await;
            let case = (whole_ms, stand_in_ms);
            assert_eq!((found, begun.elapsed().as_millis() as u64), (expected, took_ms), "{case:?}");
        };
        check(5, 1, "whole", 5).await;
        check(40, 1, "whole", 40).await;
        check(40, 1_000, "whole", 40).await;
        check(100, 1, "titles", 45).await;
        check(100, 40, "titles", 55).await;
        check(100, 1_000, "whole", 100).await;
        let begun = Instant::now();
        let nothing = whole_or(after(100, "whole"), async || None, begun, begun).await;
        assert_eq!(nothing, "whole", "nothing stands in for it");
    }
}
