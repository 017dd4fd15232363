//! Supervises the compressors: a pool of fixed size that replaces crashed members. If compression uses models, an
//! extra member works without them, on jobs that must not wait for a model: the summaries of live sessions and, if
//! models run once per session, all jobs except notes.
//!
//! Five crashes within a minute open the circuit: jobs wait, and no member is replaced for a minute. A member whose
//! thread hangs abandons the thread and continues. More than four abandoned threads within an hour stop the member for
//! an hour, because they may still hold memory and a core. Capturing is not affected.
//!
//! The bus announces queued jobs. If a job is due later, a timer waits for it.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use ractor::{Actor, ActorId, ActorProcessingErr, ActorRef, MessagingErr, RpcReplyPort, SupervisionEvent};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::backoff::{full_jitter, retry_delay_ms};
use super::compressor::{CompressorActor, CompressorArguments, CompressorMessage};
use super::failure;
use super::handle::ActorHandle;
use recall_app::bus::BusEvent;
use recall_app::clock;
use recall_compression::policy::{CompressionPolicy, Unit};
use recall_domain::ids::Timestamp;
use recall_providers::ProviderState;
use recall_store::{Duty, GiveBackJobs};

const CRASH_WINDOW: Duration = Duration::from_secs(60);
const CRASHES_TO_OPEN: usize = 5;
const OPEN_FOR: Duration = Duration::from_secs(60);
const LOST_WINDOW: Duration = Duration::from_secs(3600);
const MOST_LOST: usize = 4;
/// How often to offer waiting jobs to the compressors.
const OFFER_EVERY: Duration = Duration::from_secs(1);
/// The maximum duration of a timer, because the clock may change and the machine may sleep.
const LONGEST_TIMER: Duration = Duration::from_secs(60);

pub enum CompressionMessage {
    /// A job may be available.
    Wake,
    /// When the first waiting job is due; `None` if no job is waiting.
    Due(Option<Timestamp>),
    /// Starts the missing member of this slot.
    Refill {
        slot: usize,
    },
    /// Closes the circuit.
    TryAgain,
    /// A member has abandoned a thread that does not end.
    ThreadLost {
        worker: String,
    },
    /// Calls providers with an open circuit again, at the user's request.
    Reconsider,
    Observe(RpcReplyPort<CompressionCounters>),
}

/// What `recall ctl status` shows of compression.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CompressionCounters {
    /// The backends in use, named as in an observation's origin.
    pub backend: String,
    pub restarts: u64,
    pub threads_lost: u64,
    pub circuit: Circuit,
    pub providers: Vec<ProviderState>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Circuit {
    #[default]
    Closed,
    /// Too many crashes: no compressor runs for now.
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
    /// All arguments of a member except its name and its duty.
    template: CompressorArguments,
    members: HashMap<ActorId, Member>,
    crashes: VecDeque<Instant>,
    lost: VecDeque<Instant>,
    incarnations: u64,
    counters: CompressionCounters,
    due_lookup: DueLookup,
    /// The timer until the next job is due.
    timer: Option<JoinHandle<Result<(), MessagingErr<CompressionMessage>>>>,
}

/// Whether a lookup of the next due job is running.
#[derive(Clone, Copy, PartialEq, Eq)]
enum DueLookup {
    Idle,
    Running,
    /// Jobs were queued during the lookup, so another one must follow.
    RunAgain,
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
        // Jobs may be waiting from the previous daemon.
        me.send_message(CompressionMessage::Wake)?;
        wake_on_work(&me, &template);
        Ok(CompressionState {
            template,
            members: HashMap::new(),
            crashes: VecDeque::new(),
            lost: VecDeque::new(),
            incarnations: 0,
            counters: CompressionCounters::default(),
            due_lookup: DueLookup::Idle,
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
                let compressor = &state.template.compressor;
                let (backend, providers) = (compressor.origin().0, compressor.providers());
                let _ = counters.send(CompressionCounters { backend, providers, ..state.counters.clone() });
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

/// The number of members: those that may work concurrently, plus one without models if the others use models.
fn slots(policy: &CompressionPolicy) -> usize {
    policy.concurrency + usize::from(!policy.backends.is_empty())
}

fn duty(slot: usize, policy: &CompressionPolicy) -> Duty {
    match slot {
        _ if policy.backends.is_empty() => Duty::All,
        asking if asking < policy.concurrency => match policy.unit {
            Unit::Session => Duty::Notes,
            Unit::Turn => Duty::Models,
        },
        _ => match policy.unit {
            Unit::Session => Duty::BuiltIn,
            Unit::Turn => Duty::LiveSessions,
        },
    }
}

/// Wakes the pool when jobs are queued.
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
            // The supervision event of a member that has just died starts its replacement.
            let _ = member.actor.send_message(CompressorMessage::Wake);
        }
        self.look_up_due(me);
    }

    /// Looks up when the first waiting job is due.
    fn look_up_due(&mut self, me: &ActorRef<CompressionMessage>) {
        if self.due_lookup != DueLookup::Idle {
            self.due_lookup = DueLookup::RunAgain;
            return;
        }
        self.due_lookup = DueLookup::Running;
        let (me, readers) = (me.clone(), self.template.readers.clone());
        tokio::spawn(async move {
            let due = match tokio::task::spawn_blocking(move || readers.read(|db| db.next_try())).await {
                Ok(Ok(due)) => due,
                // The due time is unknown, so it is looked up again soon.
                Ok(Err(_)) | Err(_) => Some(clock::now()),
            };
            let _ = me.send_message(CompressionMessage::Due(due));
        });
    }

    fn wait_until(&mut self, me: &ActorRef<CompressionMessage>, due: Option<Timestamp>) {
        if let Some(earlier) = self.timer.take() {
            earlier.abort();
        }
        let run_again = self.due_lookup == DueLookup::RunAgain;
        self.due_lookup = DueLookup::Idle;
        if run_again {
            return self.look_up_due(me);
        }
        let Some(due) = due else { return };
        let delay = match due.since(clock::now()).unsigned_abs() {
            // The job is already due; it waits for another job or for a compressor.
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

    /// Returns the dead member's job to the queue and schedules the member's replacement.
    fn replace(&mut self, me: &ActorRef<CompressionMessage>, dead: ActorId, error: &str) {
        let Some(Member { slot, worker, .. }) = self.members.remove(&dead) else { return };
        tracing::error!(%worker, %error, "a compressor failed");
        self.counters.restarts += 1;
        let now = Instant::now();
        self.crashes.push_back(now);
        remove_before(&mut self.crashes, now, CRASH_WINDOW);
        let crashes = u32::try_from(self.crashes.len()).unwrap_or(u32::MAX);
        let wall = clock::now();
        let returned = self.template.writer.queue(GiveBackJobs {
            worker,
            error: error.to_owned(),
            retry_at: Timestamp(wall.0.saturating_add(full_jitter(retry_delay_ms(1)))),
            max_attempts: self.template.policy.max_attempts,
            now: wall,
        });
        let bus = self.template.bus.clone();
        tokio::spawn(async move {
            if let Err(error) = returned.await {
                tracing::warn!(%error, "cannot return the job of a stopped compressor; it waits until its lease expires");
            }
            bus.publish(BusEvent::JobFailed { job: None });
        });
        if self.crashes.len() >= CRASHES_TO_OPEN {
            tracing::error!("compression paused after too many crashes");
            self.counters.circuit = Circuit::Open;
            me.send_after(OPEN_FOR, || CompressionMessage::TryAgain);
        } else {
            let delay = full_jitter(retry_delay_ms(crashes) / 5);
            let delay = Duration::from_millis(delay.unsigned_abs());
            me.send_after(delay, move || CompressionMessage::Refill { slot });
        }
    }

    /// Counts an abandoned thread. Too many of them stop the member for a while.
    fn lost(&mut self, me: &ActorRef<CompressionMessage>, worker: &str) {
        let now = Instant::now();
        self.counters.threads_lost += 1;
        self.lost.push_back(now);
        remove_before(&mut self.lost, now, LOST_WINDOW);
        if self.lost.len() <= MOST_LOST {
            return;
        }
        let Some(member) = self.members.values().find(|member| member.worker == worker) else { return };
        let slot = member.slot;
        tracing::error!(%worker, "too many compressor threads are stuck; this slot stays empty for an hour");
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

/// Removes the entries that are older than the window.
fn remove_before(moments: &mut VecDeque<Instant>, now: Instant, window: Duration) {
    while moments.front().is_some_and(|first| now.duration_since(*first) > window) {
        moments.pop_front();
    }
}
