//! A compressor. It leases a job, runs it on its own thread, and commits the result.
//!
//! The job runs on a thread outside the runtime, because an actor cannot be stopped inside blocking code. After the
//! deadline, the result is discarded and the thread counts as lost. A panic in the thread ends this actor; the
//! supervisor then returns the job to the queue and starts another compressor. The built-in compressor's result is
//! stored first, so that readers do not wait for a model.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

use super::backoff::{full_jitter, retry_delay_ms};
use super::failure::GaveUp;
use super::writer::WriterHandle;
use super::writer_ledger::{CallsUnderWay, WriterLedger};
use recall_agents::Agents;
use recall_app::bus::{Bus, BusEvent};
use recall_app::clock;
use recall_app::job_runner::{JobOutcome, JobOutput, JobRunner};
use recall_app::ports::WriteFailed;
use recall_compression::extractive::Announced;
use recall_compression::policy::CompressionPolicy;
use recall_compression::{CompressionError, Compressor};
use recall_domain::ids::{JobId, Timestamp};
use recall_domain::observation::NoteOrigin;
use recall_store::{
    Duty, FinishJob, FinishedJob, JobFailure, JobResult, LeaseJob, LeasedJob, NextTry, Operation, Readers,
    StoreStandIn,
};
use recall_system::faults::{self, Point};

/// The time by which a lease outlasts the deadline, so that no job is leased again while its thread may still finish.
const LEASE_MARGIN: Duration = Duration::from_secs(60);
/// The deadline of the built-in compressor, which needs milliseconds.
const STAND_IN_WITHIN: Duration = Duration::from_secs(30);
/// The pause before a result is stored again, for example while the disk is full.
const STORE_AGAIN_AFTER: Duration = Duration::from_secs(1);
/// Jitter for jobs that waited for a provider, so that they do not all return at once.
const HELD_JITTER_MS: i64 = 1_000;

pub enum CompressorMessage {
    /// A job may be available.
    Wake,
    /// The reply to a lease request; `None` if there was nothing to lease.
    Leased(Option<LeasedJob>),
    /// The thread has finished the job, or the deadline has passed.
    Finished(Box<(LeasedJob, Ended)>),
}

type BoxedWrite = Pin<Box<dyn Future<Output = Result<(), WriteFailed>> + Send>>;

/// How a thread ended.
pub enum Ended {
    With(JobOutcome),
    /// The thread has not ended. Another thread computed the stand-in.
    Never {
        stand_in: Option<JobResult>,
    },
    NotStarted(String),
}

#[derive(Clone)]
pub struct CompressorArguments {
    pub agents: Agents,
    /// Unique for each start of the actor, so that a lease identifies its holder.
    pub worker: String,
    pub duty: Duty,
    pub writer: WriterHandle,
    pub readers: Readers,
    pub bus: Bus,
    pub compressor: Arc<dyn Compressor>,
    pub policy: CompressionPolicy,
    pub announced: Announced,
    /// Called with the worker's name if its thread does not end.
    pub on_lost_thread: Arc<dyn Fn(String) + Send + Sync>,
}

pub(super) struct CompressorActor;

pub struct CompressorState {
    arguments: CompressorArguments,
    activity: Activity,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Activity {
    Idle,
    Busy,
    /// Busy, and woken in the meantime, so another job may be available.
    BusyAndWoken,
}

impl Actor for CompressorActor {
    type Msg = CompressorMessage;
    type State = CompressorState;
    type Arguments = CompressorArguments;

    async fn pre_start(
        &self,
        me: ActorRef<CompressorMessage>,
        arguments: CompressorArguments,
    ) -> Result<CompressorState, ActorProcessingErr> {
        me.send_message(CompressorMessage::Wake)?;
        Ok(CompressorState { arguments, activity: Activity::Idle })
    }

    async fn handle(
        &self,
        me: ActorRef<CompressorMessage>,
        message: CompressorMessage,
        state: &mut CompressorState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            CompressorMessage::Wake => state.wake(&me),
            CompressorMessage::Leased(Some(job)) => state.compute(&me, job),
            CompressorMessage::Leased(None) => state.rest(&me),
            CompressorMessage::Finished(finished) => match *finished {
                (job, Ended::With(JobOutcome::Panicked { stand_in })) => {
                    state.stand_in(&job, stand_in);
                    return Err(GaveUp(format!("job {} panicked", job.id)).into());
                }
                (job, ended) => state.commit(&me, &job, ended),
            },
        }
        Ok(())
    }
}

impl CompressorState {
    fn wake(&mut self, me: &ActorRef<CompressorMessage>) {
        if self.activity != Activity::Idle {
            self.activity = Activity::BusyAndWoken;
            return;
        }
        self.activity = Activity::Busy;
        tokio::spawn(self.next_job(me));
    }

    /// Requests a lease; the result is sent to the actor.
    fn next_job(&self, me: &ActorRef<CompressorMessage>) -> impl Future<Output = ()> + Send + use<> {
        let now = clock::now();
        let deadline = self.arguments.policy.job_within() + LEASE_MARGIN;
        let until = Timestamp(now.0.saturating_add(i64::try_from(deadline.as_millis()).unwrap_or(i64::MAX)));
        let (worker, duty) = (self.arguments.worker.clone(), self.arguments.duty);
        let lease = LeaseJob { worker, duty, now, until };
        let granted = self.arguments.writer.queue(lease);
        let me = me.clone();
        async move {
            let job = match granted.await {
                Ok(job) => job,
                Err(error) => {
                    tracing::warn!(%error, "cannot lease a job");
                    None
                }
            };
            let _ = me.send_message(CompressorMessage::Leased(job));
        }
    }

    fn rest(&mut self, me: &ActorRef<CompressorMessage>) {
        let woken = self.activity == Activity::BusyAndWoken;
        self.activity = Activity::Idle;
        if woken {
            self.wake(me);
        }
    }

    fn compute(&mut self, me: &ActorRef<CompressorMessage>, job: LeasedJob) {
        let bench = Arc::new(self.runner());
        let deadline = self.arguments.policy.job_within();
        let me = me.clone();
        tokio::spawn(async move {
            let (at_work, leased) = (Arc::clone(&bench), job.clone());
            let work = move || {
                faults::reach(Point::Lease);
                at_work.work(&leased)
            };
            let ended = match on_thread(deadline, work).await {
                OnThread::Ended(outcome) => Ended::With(outcome),
                OnThread::NotStarted(error) => Ended::NotStarted(error),
                OnThread::Lost => {
                    let leased = job.clone();
                    match on_thread(STAND_IN_WITHIN, move || bench.stand_in(&leased)).await {
                        OnThread::Ended(stand_in) => Ended::Never { stand_in },
                        OnThread::NotStarted(_) | OnThread::Lost => Ended::Never { stand_in: None },
                    }
                }
            };
            let _ = me.send_message(CompressorMessage::Finished(Box::new((job, ended))));
        });
    }

    fn runner(&self) -> JobRunner {
        let CompressorArguments { agents, writer, readers, compressor, policy, bus, announced, .. } =
            &self.arguments;
        let ledger = WriterLedger {
            writer: writer.clone(),
            caps: policy.caps,
            runtime: Handle::current(),
            bus: bus.clone(),
            under_way: CallsUnderWay::default(),
        };
        JobRunner {
            agents: *agents,
            readers: readers.clone(),
            compressor: Arc::clone(compressor),
            ledger: Arc::new(ledger),
            max_attempts: policy.max_attempts,
            unit: policy.unit,
            announced: announced.clone(),
        }
    }

    fn commit(&self, me: &ActorRef<CompressorMessage>, job: &LeasedJob, ended: Ended) {
        let error = match ended {
            Ended::With(JobOutcome::Done(work)) => {
                let finish = FinishJob(self.finished(job, work));
                return self.store(me, finish, BusEvent::JobDone { job: job.id }, job.id);
            }
            Ended::With(JobOutcome::Failed { error, stand_in }) => {
                self.stand_in(job, stand_in);
                error
            }
            Ended::With(JobOutcome::Panicked { stand_in }) => {
                self.stand_in(job, stand_in);
                CompressionError::Failed("panicked".to_owned())
            }
            Ended::NotStarted(error) => CompressionError::Failed(format!("cannot start a thread: {error}")),
            Ended::Never { stand_in } => {
                tracing::warn!(job = %job.id, "a compressor thread is stuck");
                self.stand_in(job, stand_in);
                (self.arguments.on_lost_thread)(self.arguments.worker.clone());
                CompressionError::Failed("no result before the deadline".to_owned())
            }
        };
        let failure = self.failure(job, error, clock::now());
        self.store(me, failure, BusEvent::JobFailed { job: Some(job.id) }, job.id);
    }

    /// Queues the result of a job, announces it once committed, and requests the next job. While the disk is full the
    /// result is kept, because the lease lasts for minutes and a model may have been paid for it.
    fn store<O: Operation<Output = ()> + Clone>(
        &self,
        me: &ActorRef<CompressorMessage>,
        operation: O,
        bus_event: BusEvent,
        job: JobId,
    ) {
        let writer = self.arguments.writer.clone();
        let mut committed: BoxedWrite = Box::pin(writer.queue(operation.clone()));
        // A single commit stores the result and leases the next job.
        let next_job = self.next_job(me);
        let bus = self.arguments.bus.clone();
        tokio::spawn(async move {
            loop {
                match committed.await {
                    Ok(()) => {
                        faults::reach(Point::ResultCommitted);
                        bus.publish(bus_event);
                        break;
                    }
                    Err(error) => {
                        tracing::warn!(%job, %error, "cannot store a result");
                        if !error.may_pass() {
                            // The lease expires, and another compressor takes over the job.
                            break;
                        }
                    }
                }
                tokio::time::sleep(STORE_AGAIN_AFTER).await;
                committed = Box::pin(writer.queue(operation.clone()));
            }
            next_job.await;
        });
    }

    fn finished(&self, job: &LeasedJob, work: JobOutput) -> FinishedJob {
        let JobOutput { result, origin, cuts } = work;
        let cuts = (cuts.sent > 0).then(|| serde_json::to_string(&cuts).ok()).flatten();
        FinishedJob { job: job.id, result, origin, cuts, now: clock::now() }
    }

    /// Queues the stand-in before any other write.
    fn stand_in(&self, job: &LeasedJob, stand_in: Option<JobResult>) {
        let Some(result) = stand_in else { return };
        let origin = NoteOrigin::built_in();
        let finished = FinishedJob { job: job.id, result, origin, cuts: None, now: clock::now() };
        let written = self.arguments.writer.queue(StoreStandIn(finished));
        let job = job.id;
        tokio::spawn(async move {
            if let Err(error) = written.await {
                tracing::warn!(%job, %error, "cannot store the built-in compressor's result");
            }
        });
    }

    fn failure(&self, job: &LeasedJob, error: CompressionError, now: Timestamp) -> JobFailure {
        let next = self.next_try(job, &error, now);
        let attempt = job.attempts;
        tracing::warn!(job = %job.id, attempt, ?next, %error, "a compression job failed");
        JobFailure { job: job.id, error: error.to_string(), next, now }
    }

    fn next_try(&self, job: &LeasedJob, error: &CompressionError, now: Timestamp) -> NextTry {
        let is_last = job.attempts >= self.arguments.policy.max_attempts;
        let after = |wait: i64| Timestamp(now.0.saturating_add(wait));
        let back_off = full_jitter(retry_delay_ms(job.attempts));
        let asked = |wait_ms: u64| i64::try_from(wait_ms).unwrap_or(i64::MAX);
        match error {
            CompressionError::BackedOff { wait_ms, .. } => {
                NextTry::UncountedAt(after(asked(*wait_ms).saturating_add(full_jitter(HELD_JITTER_MS))))
            }
            CompressionError::Refused(_) => NextTry::Never,
            // The next day has a new budget.
            CompressionError::Spent(_) => NextTry::UncountedAt(clock::midnight_after(now)),
            CompressionError::Failed(_) | CompressionError::Wait { .. } if is_last => NextTry::Never,
            CompressionError::Failed(_) => NextTry::At(after(back_off)),
            CompressionError::Wait { wait_ms, .. } => {
                NextTry::At(after(asked(*wait_ms).saturating_add(back_off)))
            }
        }
    }
}

/// The outcome of a function on its own thread.
enum OnThread<T> {
    Ended(T),
    NotStarted(String),
    Lost,
}

/// Runs a function on its own thread. After the deadline the thread is abandoned.
async fn on_thread<T: Send + 'static>(
    within: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> OnThread<T> {
    let (sender, result) = oneshot::channel();
    let started = start(move || {
        // After the deadline the receiver is gone.
        let _ = sender.send(work());
    });
    if let Err(error) = started {
        return OnThread::NotStarted(error.to_string());
    }
    match tokio::time::timeout(within, result).await {
        Ok(Ok(ended)) => OnThread::Ended(ended),
        Ok(Err(_)) => OnThread::NotStarted("it ended without a result".to_owned()),
        Err(_) => OnThread::Lost,
    }
}

#[cfg(not(test))]
fn start(work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    std::thread::Builder::new().name("compressor".to_owned()).spawn(work).map(drop)
}

/// The test clock, while paused, waits only for threads that the runtime knows.
#[cfg(test)]
fn start(work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    drop(tokio::task::spawn_blocking(work));
    Ok(())
}
