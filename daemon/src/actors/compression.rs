//! Supervises the compressors: a pool of fixed size whose crashed members are replaced. Where they ask models, one more
//! sums up the sessions that go on, which needs none: a summary that somebody continues from must not wait for them.
//!
//! Five crashes within a minute open the circuit: nobody is replaced until a minute has passed, and jobs wait. A member
//! whose thread hangs leaves it behind and goes on; more than four such threads within an hour cost the member its place
//! for an hour, for they may still hold memory and a processor. Capturing does not notice any of it.
//!
//! Work that is queued is told of on the bus. For work that becomes due by time a timer waits for the first of it; where
//! nothing waits there is none, and nobody wakes.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, MessagingErr, RpcReplyPort, SupervisionEvent};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::backoff::{full_jitter, retry_delay_ms};
use super::compressor::{CompressorActor, CompressorArguments, CompressorMessage};
use super::failure;
use super::handle::ActorHandle;
use crate::app::bus::BusEvent;
use crate::app::clock;
use crate::compression::ProviderState;
use crate::compression::policy::CompressionPolicy;
use crate::memory::ids::Timestamp;
use crate::store::{self, Duty, GiveBackJobs};

const CRASH_WINDOW: Duration = Duration::from_secs(60);
const CRASHES_TO_OPEN: usize = 5;
const OPEN_FOR: Duration = Duration::from_secs(60);
const LOST_WINDOW: Duration = Duration::from_secs(3600);
const MOST_LOST: usize = 4;
/// Work that is due and that nobody has taken is offered so often.
const OFFER_EVERY: Duration = Duration::from_secs(1);
/// No timer runs for longer: clocks are set, and machines sleep.
const LONGEST_TIMER: Duration = Duration::from_secs(60);

pub enum CompressionMessage {
    /// There is work.
    Wake,
    /// When the first of the jobs that wait is due; `None` where none waits.
    Due(Option<Timestamp>),
    /// A member is missing; its turn to be replaced has come.
    Refill {
        slot: usize,
    },
    /// The circuit may close again.
    TryAgain,
    /// A member has left a thread behind that does not end.
    ThreadLost {
        worker: String,
    },
    /// Providers that are left alone may be asked again: somebody has seen to them.
    Reconsider,
    Observe(RpcReplyPort<CompressionCounters>),
}

/// What `recall ctl status` shows of compression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompressionCounters {
    pub restarts: u64,
    pub threads_lost: u64,
    pub circuit: Circuit,
    pub providers: Vec<ProviderState>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Circuit {
    #[default]
    Closed,
    /// Too many crashes: nobody works for a while.
    Open,
}

impl Circuit {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Closed => "closed",
            Self::Open => "open",
        }
    }
}

pub type CompressionHandle = ActorHandle<CompressionMessage>;

pub(super) struct Compression;

pub struct CompressionState {
    /// Everything a member needs but its name.
    template: CompressorArguments,
    members: HashMap<ActorId, Member>,
    crashes: VecDeque<Instant>,
    lost: VecDeque<Instant>,
    incarnations: u64,
    counters: CompressionCounters,
    look: Look,
    /// Runs until the next job is due.
    timer: Option<JoinHandle<Result<(), MessagingErr<CompressionMessage>>>>,
}

/// Whether somebody looks for the next job that is due.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Look {
    Idle,
    Running,
    /// What was queued since it began counts too.
    RunningAndWanted,
}

struct Member {
    slot: usize,
    worker: String,
    actor: ActorRef<CompressorMessage>,
}

impl Actor for Compression {
    type Msg = CompressionMessage;
    type State = CompressionState;
    type Arguments = CompressorArguments;

    async fn pre_start(
        &self,
        me: ActorRef<CompressionMessage>,
        template: CompressorArguments,
    ) -> Result<CompressionState, ActorProcessingErr> {
        for slot in 0..slots(&template.policy) {
            me.send_message(CompressionMessage::Refill { slot })?;
        }
        // What the last daemon has left.
        me.send_message(CompressionMessage::Wake)?;
        wake_on_work(&me, &template);
        Ok(CompressionState {
            template,
            members: HashMap::new(),
            crashes: VecDeque::new(),
            lost: VecDeque::new(),
            incarnations: 0,
            counters: CompressionCounters::default(),
            look: Look::Idle,
            timer: None,
        })
    }

    async fn handle(
        &self,
        me: ActorRef<CompressionMessage>,
        message: CompressionMessage,
        state: &mut CompressionState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            CompressionMessage::Wake => state.wake(&me),
            CompressionMessage::Due(due) => state.wait_until(&me, due),
            CompressionMessage::Refill { slot } => state.refill(&me, slot).await,
            CompressionMessage::TryAgain => state.try_again(&me).await,
            CompressionMessage::ThreadLost { worker } => state.lost(&me, &worker),
            CompressionMessage::Reconsider => state.template.compressor.reconsider(),
            CompressionMessage::Observe(counters) => {
                let providers = state.template.compressor.providers();
                let _ = counters.send(CompressionCounters { providers, ..state.counters.clone() });
            }
        }
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<CompressionMessage>,
        event: SupervisionEvent,
        state: &mut CompressionState,
    ) -> Result<(), ActorProcessingErr> {
        match event {
            SupervisionEvent::ActorFailed(who, error) => {
                state.replace(&me, who.get_id(), &failure::reason(&error))
            }
            SupervisionEvent::ActorTerminated(who, ..) => {
                state.members.remove(&who.get_id());
            }
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => {}
        }
        Ok(())
    }
}

/// As many members as may work at the same time; where they ask models, one more that does not.
fn slots(policy: &CompressionPolicy) -> usize {
    policy.concurrency + usize::from(!policy.backends.is_empty())
}

fn duty(slot: usize, policy: &CompressionPolicy) -> Duty {
    match slot {
        _ if policy.backends.is_empty() => Duty::All,
        asking if asking < policy.concurrency => Duty::Models,
        _ => Duty::LiveSessions,
    }
}

/// Tells the pool when work is queued.
fn wake_on_work(me: &ActorRef<CompressionMessage>, template: &CompressorArguments) {
    let (me, mut bus_events) = (me.clone(), template.bus.listen());
    tokio::spawn(async move {
        loop {
            match bus_events.recv().await {
                Ok(BusEvent::WorkQueued) | Err(tokio::sync::broadcast::error::RecvError::Lagged(_)) => {
                    if me.send_message(CompressionMessage::Wake).is_err() {
                        return;
                    }
                }
                Ok(_) => {}
                Err(tokio::sync::broadcast::error::RecvError::Closed) => return,
            }
        }
    });
}

impl CompressionState {
    fn wake(&mut self, me: &ActorRef<CompressionMessage>) {
        for member in self.members.values() {
            // One that has just died is replaced by the supervision event.
            let _ = member.actor.send_message(CompressorMessage::Wake);
        }
        self.look_ahead(me);
    }

    /// Finds out when the first of the jobs that wait is due.
    fn look_ahead(&mut self, me: &ActorRef<CompressionMessage>) {
        if self.look != Look::Idle {
            self.look = Look::RunningAndWanted;
            return;
        }
        self.look = Look::Running;
        let (me, readers) = (me.clone(), self.template.readers.clone());
        tokio::spawn(async move {
            let due = match tokio::task::spawn_blocking(move || readers.read(store::next_try)).await {
                Ok(Ok(due)) => due,
                // Nobody knows, so somebody has to look again.
                Ok(Err(_)) | Err(_) => Some(clock::now()),
            };
            let _ = me.send_message(CompressionMessage::Due(due));
        });
    }

    fn wait_until(&mut self, me: &ActorRef<CompressionMessage>, due: Option<Timestamp>) {
        if let Some(earlier) = self.timer.take() {
            earlier.abort();
        }
        let wanted = self.look == Look::RunningAndWanted;
        self.look = Look::Idle;
        if wanted {
            return self.look_ahead(me);
        }
        let Some(due) = due else { return };
        let delay = match due.since(clock::now()).unsigned_abs() {
            // It waits for something else than time: another job, or a worker.
            0 => OFFER_EVERY,
            ms => Duration::from_millis(ms).min(LONGEST_TIMER),
        };
        self.timer = Some(me.send_after(delay, || CompressionMessage::Wake));
    }

    async fn refill(&mut self, me: &ActorRef<CompressionMessage>, slot: usize) {
        if self.counters.circuit == Circuit::Open || self.members.values().any(|member| member.slot == slot) {
            return;
        }
        self.incarnations += 1;
        let worker = format!("compressor-{slot}-{}", self.incarnations);
        let duty = duty(slot, &self.template.policy);
        let arguments = CompressorArguments { worker: worker.clone(), duty, ..self.template.clone() };
        match Actor::spawn_linked(None, CompressorActor, arguments, me.get_cell()).await {
            Ok((actor, _)) => {
                self.members.insert(actor.get_id(), Member { slot, worker, actor });
            }
            Err(error) => tracing::error!(%error, "cannot start a compressor"),
        }
    }

    /// Gives back what the dead member held and sees to its replacement.
    fn replace(&mut self, me: &ActorRef<CompressionMessage>, dead: ActorId, error: &str) {
        let Some(Member { slot, worker, .. }) = self.members.remove(&dead) else { return };
        tracing::error!(%worker, %error, "a compressor failed");
        self.counters.restarts += 1;
        let now = Instant::now();
        self.crashes.push_back(now);
        forget_before(&mut self.crashes, now, CRASH_WINDOW);
        let crashes = u32::try_from(self.crashes.len()).unwrap_or(u32::MAX);
        let wall = clock::now();
        let given_back = self.template.writer.queue(GiveBackJobs {
            worker,
            error: error.to_owned(),
            retry_at: Timestamp(wall.0.saturating_add(full_jitter(retry_delay_ms(1)))),
            max_attempts: self.template.policy.max_attempts,
            now: wall,
        });
        let bus = self.template.bus.clone();
        tokio::spawn(async move {
            if let Err(error) = given_back.await {
                tracing::warn!(%error, "a dead compressor's job waits for its lease to expire");
            }
            bus.publish(BusEvent::JobFailed { job: None });
        });
        if self.crashes.len() >= CRASHES_TO_OPEN {
            tracing::error!("compression pauses: too many crashes");
            self.counters.circuit = Circuit::Open;
            me.send_after(OPEN_FOR, || CompressionMessage::TryAgain);
        } else {
            let delay = full_jitter(retry_delay_ms(crashes) / 5);
            let delay = Duration::from_millis(delay.unsigned_abs());
            me.send_after(delay, move || CompressionMessage::Refill { slot });
        }
    }

    /// Counts a thread that was left behind; too many of them cost its member its place for a while.
    fn lost(&mut self, me: &ActorRef<CompressionMessage>, worker: &str) {
        let now = Instant::now();
        self.counters.threads_lost += 1;
        self.lost.push_back(now);
        forget_before(&mut self.lost, now, LOST_WINDOW);
        if self.lost.len() <= MOST_LOST {
            return;
        }
        let Some(member) = self.members.values().find(|member| member.worker == worker) else { return };
        let slot = member.slot;
        tracing::error!(%worker, "too many threads are lost; its place stays empty for an hour");
        member.actor.stop(None);
        me.send_after(LOST_WINDOW, move || CompressionMessage::Refill { slot });
    }

    async fn try_again(&mut self, me: &ActorRef<CompressionMessage>) {
        self.counters.circuit = Circuit::Closed;
        self.crashes.clear();
        for slot in 0..slots(&self.template.policy) {
            self.refill(me, slot).await;
        }
    }
}

/// What lies further back than the window does not count any more.
fn forget_before(moments: &mut VecDeque<Instant>, now: Instant, window: Duration) {
    while moments.front().is_some_and(|first| now.duration_since(*first) > window) {
        moments.pop_front();
    }
}
