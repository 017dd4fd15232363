//! What a session's event still needs once it is queued: its commit is waited for, what bears on it is recalled beside
//! that or after it, the agent is answered. The session goes on meanwhile.
//!
//! A start is told how things stand once its event is committed. Where that is not ready in time, because the disk, git
//! or the machine is slow, it is given the index of titles, which a few reads of the store tell.
//!
//! Disks stall. One flush in some hundred takes longer than an agent should wait, and the notes for its prompt are long
//! found by then: they are given, with the word that the event is not safe yet, and the shim keeps it in the spool. It
//! comes from there a second time, which changes nothing.

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
use crate::agents::{self, HookOutput};
use crate::app::clock;
use crate::app::context_lookup::{ContextReply, ContextRequest};
use crate::app::file_context::FileContextRequest;
use crate::app::injection_receipt::{InjectionReceipt, PendingAnswer, PendingAnswers, Received, Recipient};
use crate::app::ports::WriteFailed;
use crate::memory::file_memory::InjectedSet;
use crate::memory::ids::{EventId, ObservationId, ProjectKey, ProjectRow, SessionId, SessionKey, Timestamp};
use crate::memory::material::beneath;
use crate::memory::session::Ask;
use crate::repository::refs::WorkLocation;
use crate::store::{self, EventOutcome, Injection, ProjectInfo, RetractInjection};

/// What is left to do for an event once it is queued: wait for the commit, recall, answer, and report back.
pub(super) struct PendingReply {
    pub(super) me: ActorRef<SessionMessage>,
    pub(super) key: SessionKey,
    pub(super) context: SessionContext,
    /// Locked while something is recalled: of two calls at once only one tells.
    pub(super) injected: Arc<Mutex<InjectedSet>>,
    /// The identities of its project, for a session that is not stored yet; else empty.
    pub(super) project: Vec<ProjectKey>,
    /// Where the agent works.
    pub(super) place: WorkLocation,
    pub(super) last_event: Timestamp,
    pub(super) event_name: String,
}

/// What the agent waits to be told.
pub(super) struct PendingRequest {
    pub(super) ask: Ask,
    /// The event that asks.
    pub(super) event: EventId,
    pub(super) look: LookupTime,
    /// Of a start.
    times: AnswerTimes,
    pub(super) injection_receipt: InjectionReceipt,
    pub(super) pending: PendingAnswer,
}

/// When an answer is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LookupTime {
    /// While the event is being committed: nothing of it can be in the answer.
    BesideTheCommit,
    /// A start is told how things stand, also those that it ends; and the store may not know yet where a session works.
    AfterTheCommit,
}

impl PendingRequest {
    /// What nobody hears is not looked for, and does not count as told.
    pub(super) fn of(
        ask: Option<Ask>,
        recipient: Recipient,
        (deliver, within): (&Deliver, Duration),
        (home, answers): (&OriginState, &PendingAnswers),
    ) -> Option<Self> {
        let (ask, injection_receipt) = match (ask, recipient) {
            (Some(ask), Recipient::Agent(injection_receipt)) => (ask, injection_receipt),
            (None, _) | (_, Recipient::Nobody) => return None,
        };
        let look = match (&ask, home) {
            (Ask::Prompt(_) | Ask::File(_) | Ask::Task(_), OriginState::Stored(_)) => {
                LookupTime::BesideTheCommit
            }
            (Ask::Start(..), _) | (_, OriginState::Unknown | OriginState::Found(..)) => {
                LookupTime::AfterTheCommit
            }
        };
        let waited = match &ask {
            Ask::Start(..) => waited(deliver),
            _ => None,
        };
        let times = AnswerTimes::of(within, waited.unwrap_or_default());
        Some(Self { ask, event: deliver.event_id, look, times, injection_receipt, pending: answers.begin() })
    }
}

/// When a start's answer falls back on the index of titles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AnswerTimes {
    /// From here on the titles are looked up beside the whole answer.
    titles: Instant,
    /// From here on they are given if they are ready.
    until: Instant,
}

impl AnswerTimes {
    /// `within`: the time for an answer; `waited`: what the hook has waited already. Reading the titles and sending
    /// the answer take time as well. So once half of it is over, the answer waits neither for the commit nor for the
    /// whole. A hook that has waited for longer than for an answer has started the daemon, and has more patience.
    fn of(within: Duration, waited: Duration) -> Self {
        let now = Instant::now();
        if waited >= within / 2 && waited < within {
            return Self { titles: now, until: now };
        }
        let waited = if waited < within { waited } else { Duration::ZERO };
        let reserve = within / RESERVE;
        Self {
            titles: now + (within / UNSAVED_AFTER).saturating_sub(waited),
            until: now + within.saturating_sub(waited + reserve),
        }
    }
}

/// For how long a hook has waited since it took its event. On a busy machine much of its time has passed before anything
/// is looked up.
fn waited(deliver: &Deliver) -> Option<Duration> {
    let now = BootStamp::now();
    let is_same_boot = now.boot_id == deliver.boot_id;
    is_same_boot.then(|| Duration::from_nanos(now.boot_ns.saturating_sub(deliver.boot_ns)))
}

/// Of the time there is for an answer, the commit gets one part in so many; then the answer goes without it.
const UNSAVED_AFTER: u32 = 3;
/// The last of so many parts is kept for writing the answer and for its way to the hook.
const RESERVE: u32 = 9;

/// What was found for somebody who asks; as long as this is held, nobody else of the session is told anything.
struct LookedUp {
    injected: OwnedMutexGuard<InjectedSet>,
    context_reply: ContextReply,
}

/// Whether there was somebody yet to pass an answer on.
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

/// Looks while something is committed. What became of that is told if it is known when both the looking is done and
/// the time has come.
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

/// Waits for the whole. Where it is not there when the time has come, what stands in for it is given, as soon as it is
/// there; that is begun at `begins`.
async fn whole_or<T, F: Future<Output = Option<T>>>(
    whole: impl Future<Output = T>,
    stand_in: impl FnOnce() -> F,
    (begins, until): (Instant, Instant),
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

/// What counts as told since it was given, and the writing down of it.
struct RecordedInjection {
    news: InjectedSet,
    recorded: JoinHandle<()>,
}

impl PendingReply {
    /// Does what is left to do. `stored`: what became of the event's write.
    pub(super) async fn run(
        self,
        reply: RpcReplyPort<Reply>,
        asked: Option<PendingRequest>,
        stored: impl Future<Output = Result<EventOutcome, WriteFailed>>,
    ) {
        let mut stored = pin!(stored);
        let patience = self.context.context_lookup.answer_within / UNSAVED_AFTER;
        let (looked, committed) = match &asked {
            Some(asks) if asks.look == LookupTime::BesideTheCommit => {
                let until = Instant::now() + patience;
                let (found, result) = beside(self.look(asks), stored.as_mut(), until).await;
                (Some(found), result)
            }
            Some(asks) if matches!(asks.ask, Ask::Start(..)) => {
                self.look_at_start(asks, stored.as_mut()).await
            }
            _ => (None, None),
        };
        let looked = match (&asked, looked, &committed) {
            (Some(asks), Some(found), None) => {
                // The disk stalls; the answer does not.
                let (stdout, given) = self.give(asks, found);
                let passed_on = Sent::from(reply.send(Reply::Unsaved { stdout }));
                self.settled(&stored.await);
                return self.hear(given.zip(asked), passed_on).await;
            }
            (_, looked, _) => looked,
        };
        let committed = match committed {
            Some(result) => result,
            None => stored.await,
        };
        let mut given = None;
        let answer = match &committed {
            Ok(EventOutcome::Stored(_)) => {
                let mut stdout = self.rendered(&ContextReply::default());
                if let Some(asked) = &asked {
                    let looked = match looked {
                        Some(looked) => looked,
                        None => self.look(asked).await,
                    };
                    (stdout, given) = self.give(asked, looked);
                }
                Reply::Ack { stdout }
            }
            Ok(EventOutcome::Duplicate) => Reply::Duplicate { stdout: Vec::new() },
            // Its session was forgotten after it was taken: there is nothing more to do about it.
            Ok(EventOutcome::Dropped) => Reply::Ack { stdout: Vec::new() },
            Err(_) => Reply::Busy,
        };
        self.settled(&committed);
        let passed_on = Sent::from(reply.send(answer));
        self.hear(given.zip(asked), passed_on).await;
    }

    /// Tells the session what became of its event.
    fn settled(&self, committed: &Result<EventOutcome, WriteFailed>) {
        let outcome = match committed {
            Ok(EventOutcome::Stored(_)) => StoreOutcome::Stored,
            Ok(EventOutcome::Duplicate | EventOutcome::Dropped) => StoreOutcome::NotStored,
            Err(error) => {
                tracing::warn!(%error, "an event could not be stored");
                StoreOutcome::NotStored
            }
        };
        let _ = self.me.send_message(SessionMessage::WriteResult(WriteResult { outcome }));
    }

    /// Waits until it is known whether anybody heard what was given, and takes back what nobody did.
    async fn hear(&self, given: Option<(RecordedInjection, PendingRequest)>, passed_on: Sent) {
        let Some((RecordedInjection { news, recorded }, asked)) = given else { return };
        let PendingRequest { event, injection_receipt, pending, .. } = asked;
        let heard = match passed_on {
            Sent::Yes => injection_receipt.receipt().await,
            // It took so long that nobody waits for it any more.
            Sent::No => Received::No,
        };
        let _ = recorded.await;
        if heard == Received::No {
            self.injected.lock().await.remove(&news);
            let unheard = RetractInjection { session: self.key.clone(), event };
            if let Err(error) = self.context.writer.write(unheard).await {
                tracing::warn!(%error, "an injection that nobody heard stays recorded");
            }
        }
        drop(pending);
    }

    /// What the agent could be given.
    async fn look(&self, asked: &PendingRequest) -> LookedUp {
        let injected = Arc::clone(&self.injected).lock_owned().await;
        let context_reply = self.context_reply(asked, &injected).await;
        LookedUp { injected, context_reply }
    }

    /// What a session that starts could be given, and what became of the commit, as far as that is known.
    async fn look_at_start(
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
            whole_or(whole, || self.titles(asked, injected.clone()), (asked.times.titles, asked.times.until))
                .await
        };
        (context_reply.map(|context_reply| LookedUp { injected, context_reply }), committed)
    }

    /// The titles alone. The session may not be stored yet. `None`: nothing is known of its project.
    async fn titles(&self, asked: &PendingRequest, injected: InjectedSet) -> Option<Option<ContextReply>> {
        let (context_lookup, key) = (self.context.context_lookup.clone(), self.key.clone());
        let (ask, identities, place) = (asked.ask.clone(), self.project.clone(), self.place.clone());
        let last_event = self.last_event;
        let read = tokio::task::spawn_blocking(move || {
            let project = context_lookup.readers.read(|db| match store::project_of(db, &key)? {
                Some(project) => Ok(Some(project)),
                None => store::find_project(db, &identities),
            })?;
            let Some(project) = project else { return Ok(None) };
            let context_request =
                ContextRequest { project, session: Some(key.id), injected, last_event, place };
            context_lookup.recall_titles(&ask, &context_request).map(Some)
        });
        match read.await {
            Ok(Ok(context_reply)) => {
                tracing::info!(session = %self.key.id, "the answer to a start is late; the titles stand in");
                context_reply.map(Some)
            }
            Ok(Err(error)) => {
                let error: store::StoreError = error;
                tracing::warn!(%error, "cannot read the index of titles");
                None
            }
            Err(_) => None,
        }
    }

    async fn context_reply(&self, asked: &PendingRequest, injected: &InjectedSet) -> ContextReply {
        match self.project().await {
            None => ContextReply::default(),
            Some(project) => match asked.ask.clone() {
                Ask::File(path) => self.file_context(&path, project.row, injected).await,
                // A subagent has read nothing of what its caller was told and has found out.
                ask @ Ask::Task(_) => self.project_context(ask, project, None, InjectedSet::default()).await,
                ask => self.project_context(ask, project, Some(self.key.id.clone()), injected.clone()).await,
            },
        }
    }

    /// Gives it: it counts as told from here on, unless nobody hears it.
    fn give(
        &self,
        asked: &PendingRequest,
        LookedUp { mut injected, context_reply }: LookedUp,
    ) -> (Vec<u8>, Option<RecordedInjection>) {
        let given = self.record(&context_reply, asked.event).map(|recorded| {
            let items = context_reply.block.items.iter().filter(|item| item.kind == "observation");
            let ids = items.map(|item| ObservationId(item.id)).collect();
            let news = match asked.ask {
                Ask::Task(_) => InjectedSet::default(),
                Ask::Start(..) | Ask::Prompt(_) | Ask::File(_) => {
                    injected.add(ids, context_reply.file.clone())
                }
            };
            RecordedInjection { news, recorded }
        });
        (self.rendered(&context_reply), given)
    }

    /// The bytes that the agent reads.
    fn rendered(&self, context_reply: &ContextReply) -> Vec<u8> {
        let answer = HookOutput {
            event_name: self.event_name.clone(),
            context: Some(context_reply.block.text.clone()).filter(|text| !text.is_empty()),
            notice: context_reply.notice.clone(),
        };
        (agents::spec(self.key.agent.as_str()).answer)(&answer)
    }

    /// Where the session works, as far as the store knows.
    async fn project(&self) -> Option<ProjectInfo> {
        let (readers, key) = (self.context.context_lookup.readers.clone(), self.key.clone());
        let found = tokio::task::spawn_blocking(move || readers.read(|db| store::project_of(db, &key))).await;
        match found {
            Ok(Ok(project)) => project,
            Ok(Err(error)) => {
                tracing::warn!(%error, "cannot tell whose memory is asked for");
                None
            }
            Err(_) => None,
        }
    }

    async fn file_context(&self, path: &str, project: ProjectRow, injected: &InjectedSet) -> ContextReply {
        let Some(file) = beneath(path, self.place.root.as_deref()) else { return ContextReply::default() };
        let context_request =
            FileContextRequest { file, project, session: self.key.id.clone(), place: self.place.clone() };
        self.context.context_lookup.about_file(context_request, injected).await
    }

    async fn project_context(
        &self,
        ask: Ask,
        project: ProjectInfo,
        session: Option<SessionId>,
        injected: InjectedSet,
    ) -> ContextReply {
        let place = self.place.clone();
        let context_request =
            ContextRequest { project, session, injected, last_event: self.last_event, place };
        self.context.context_lookup.answer(ask, context_request).await
    }

    /// Writes down what is given, if anything is.
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
                tracing::warn!(%error, "an injection could not be recorded");
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_commit_is_waited_for_while_something_is_looked_for_and_until_the_time_has_come() {
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
    async fn a_start_that_has_waited_for_half_of_its_time_gets_what_is_ready_first() {
        let within = Duration::from_millis(45);
        let times = |waited: u64| {
            let times = AnswerTimes::of(within, Duration::from_millis(waited));
            let from_now = |at: Instant| at.duration_since(Instant::now()).as_millis();
            (from_now(times.titles), from_now(times.until))
        };
        assert_eq!(times(0), (15, 40));
        assert_eq!(times(10), (5, 30));
        assert_eq!(times(20), (0, 20));
        assert_eq!(times(23), (0, 0));
        assert_eq!(times(44), (0, 0));
        assert_eq!(times(300), (15, 40), "it has started the daemon");

        let late = AnswerTimes::of(within, Duration::from_millis(30));
        let begun = Instant::now();
        let after = async |ms: u64, found: &'static str| {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            found
        };
        let titles = async || Some(after(4, "titles").await);
        let found = whole_or(after(12, "whole"), titles, (late.titles, late.until)).await;
        assert_eq!((found, begun.elapsed().as_millis()), ("titles", 4));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_ready_is_given_when_the_time_has_come() {
        let after = async |ms: u64, found: &'static str| {
            tokio::time::sleep(Duration::from_millis(ms)).await;
            found
        };
        // The stand-in's time counts from 15 ms on; the time is over after 45 ms.
        let check = async |whole_ms: u64, stand_in_ms: u64, expected: &str, took_ms: u64| {
            let begun = Instant::now();
            let times = (begun + Duration::from_millis(15), begun + Duration::from_millis(45));
            let stand_in = async || Some(after(stand_in_ms, "titles").await);
            let found = whole_or(after(whole_ms, "whole"), stand_in, times).await;
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
        let nothing = whole_or(after(100, "whole"), async || None, (begun, begun)).await;
        assert_eq!(nothing, "whole", "nothing stands in for it");
    }
}
