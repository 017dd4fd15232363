//! One compressor: leases a job, computes on a thread of its own, commits the result.
//!
//! The thread stands outside the runtime because an actor cannot be stopped inside blocking code. Past the deadline
//! its result is discarded and the thread counted as lost; a panic in it ends this actor, and the supervisor gives
//! the job back and starts another.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef};
use tokio::sync::oneshot;

use super::bus::{BusHandle, Happening};
use super::clock;
use super::material::{batch_material, session_material, source_tokens};
use super::writer::WriterHandle;
use crate::compression::Compressor;
use crate::config::CompressionPolicy;
use crate::faults::{self, Point};
use crate::memory::ids::{JobId, Timestamp};
use crate::store::{FinishedJob, JobFailure, JobKind, JobResult, LeasedJob, Readers, Write, Written};

/// A lease outlives the deadline by this much, so that no job is leased twice while its thread may still finish.
const LEASE_MARGIN: Duration = Duration::from_secs(30);

pub enum CompressorMessage {
    /// There may be work.
    Wake,
    /// The lease was granted, or there was nothing to lease.
    Leased(Option<LeasedJob>),
    /// The thread is done with the job, or the deadline has passed.
    Finished(LeasedJob, Outcome),
    /// The result is committed, or could not be.
    Settled,
}

/// How a thread ended.
pub enum Outcome {
    Result(JobResult),
    Failed(String),
    Panicked,
    TimedOut,
}

#[derive(Clone)]
pub struct CompressorArguments {
    /// Unique for each incarnation, so that a lease tells who holds it.
    pub worker: String,
    pub writer: WriterHandle,
    pub readers: Readers,
    pub bus: BusHandle,
    pub compressor: Arc<dyn Compressor>,
    pub policy: CompressionPolicy,
}

pub(super) struct CompressorActor;

pub struct CompressorState {
    arguments: CompressorArguments,
    work: Work,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Idle,
    Busy,
    /// Woken while busy: there may be more.
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
        Ok(CompressorState { arguments, work: Work::Idle })
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
            CompressorMessage::Finished(job, Outcome::Panicked) => {
                return Err(format!("job {} panicked", job.id).into());
            }
            CompressorMessage::Finished(job, outcome) => state.commit(&me, job, outcome),
            CompressorMessage::Settled => {
                // There may be more where this came from.
                state.work = Work::BusyAndWoken;
                state.rest(&me);
            }
        }
        Ok(())
    }
}

impl CompressorState {
    fn wake(&mut self, me: &ActorRef<CompressorMessage>) {
        if self.work != Work::Idle {
            self.work = Work::BusyAndWoken;
            return;
        }
        self.work = Work::Busy;
        let now = clock::now();
        let deadline = Duration::from_secs(self.arguments.policy.timeout_s) + LEASE_MARGIN;
        let until = Timestamp(now.0.saturating_add(i64::try_from(deadline.as_millis()).unwrap_or(i64::MAX)));
        let lease = Write::Lease { worker: self.arguments.worker.clone(), now, until };
        let granted = self.arguments.writer.queue(lease);
        let me = me.clone();
        tokio::spawn(async move {
            let job = match granted.await {
                Ok(Written::Leased(job)) => job,
                Ok(_) => None,
                Err(error) => {
                    tracing::warn!(%error, "no lease");
                    None
                }
            };
            let _ = me.send_message(CompressorMessage::Leased(job));
        });
    }

    fn rest(&mut self, me: &ActorRef<CompressorMessage>) {
        let woken = self.work == Work::BusyAndWoken;
        self.work = Work::Idle;
        if woken {
            self.wake(me);
        }
    }

    fn compute(&mut self, me: &ActorRef<CompressorMessage>, job: LeasedJob) {
        let (sender, result) = oneshot::channel();
        let (readers, compressor, leased) =
            (self.arguments.readers.clone(), Arc::clone(&self.arguments.compressor), job.clone());
        let thread = std::thread::Builder::new().name("compressor".to_owned());
        // The sender is dropped when the thread panics, and with it the receiver learns of it.
        let started = thread.spawn(move || {
            // Nobody waits any more after the deadline.
            faults::reach(Point::Lease);
            let _ = sender.send(work(&readers, compressor.as_ref(), &leased));
        });
        let deadline = Duration::from_secs(self.arguments.policy.timeout_s);
        let me = me.clone();
        tokio::spawn(async move {
            let outcome = match started {
                Err(error) => Outcome::Failed(format!("no thread: {error}")),
                Ok(_) => match tokio::time::timeout(deadline, result).await {
                    Ok(Ok(Ok(result))) => Outcome::Result(result),
                    Ok(Ok(Err(error))) => Outcome::Failed(error),
                    Ok(Err(_)) => Outcome::Panicked,
                    Err(_) => Outcome::TimedOut,
                },
            };
            let _ = me.send_message(CompressorMessage::Finished(job, outcome));
        });
    }

    fn commit(&mut self, me: &ActorRef<CompressorMessage>, job: LeasedJob, outcome: Outcome) {
        let now = clock::now();
        let failed = |error: String| self.failure(&job, error, now);
        let (write, happening) = match outcome {
            Outcome::Result(result) => {
                let origin = self.arguments.compressor.origin();
                let finished = FinishedJob { job: job.id, result, origin, now };
                (Write::Finish(Box::new(finished)), Happening::JobDone { job: job.id })
            }
            Outcome::Failed(error) => (failed(error), Happening::JobFailed { job: Some(job.id) }),
            Outcome::Panicked => (failed("panicked".to_owned()), Happening::JobFailed { job: Some(job.id) }),
            Outcome::TimedOut => {
                tracing::warn!(job = %job.id, "a compressor thread is lost");
                (
                    failed("no result before the deadline".to_owned()),
                    Happening::JobFailed { job: Some(job.id) },
                )
            }
        };
        let committed = self.arguments.writer.queue(write);
        let (me, bus) = (me.clone(), self.arguments.bus.clone());
        tokio::spawn(async move {
            match committed.await {
                Ok(_) => {
                    faults::reach(Point::ResultCommitted);
                    bus.publish(happening);
                }
                // The lease expires, and somebody else does it again.
                Err(error) => tracing::warn!(job = %job.id, %error, "a result could not be stored"),
            }
            let _ = me.send_message(CompressorMessage::Settled);
        });
    }

    fn failure(&self, job: &LeasedJob, error: String, now: Timestamp) -> Write {
        let again = job.attempts < self.arguments.policy.max_attempts;
        tracing::warn!(job = %job.id, attempt = job.attempts, again, "a compression job failed");
        let retry_at = again.then(|| Timestamp(now.0.saturating_add(retry_delay_ms(job.attempts))));
        Write::Fail(JobFailure { job: job.id, error, retry_at, now })
    }
}

/// How long to wait after the `attempt`-th failure, in milliseconds: 1 s, 2 s, 4 s ... at most 256 s.
pub fn retry_delay_ms(attempt: u32) -> i64 {
    1000 << attempt.saturating_sub(1).min(8)
}

/// Reads the material and compresses it. Blocks.
fn work(readers: &Readers, compressor: &dyn Compressor, job: &LeasedJob) -> Result<JobResult, String> {
    let unreadable = |error: crate::store::StoreError| error.to_string();
    match (job.kind, job.batch) {
        (JobKind::Batch, Some(batch)) => {
            let material = readers.read(|db| batch_material(db, batch)).map_err(unreadable)?;
            let drafts = compressor.observe(&material).map_err(|error| error.to_string())?;
            Ok(JobResult::Observations { drafts, source_tokens: source_tokens(&material) })
        }
        (JobKind::Summary, _) => {
            let material = readers.read(|db| session_material(db, job.session_row)).map_err(unreadable)?;
            Ok(JobResult::Summary(compressor.summarize(&material).map_err(|error| error.to_string())?))
        }
        (JobKind::Batch, None) => Err(format!("job {} names no batch", JobId(job.id.0))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_double_up_to_minutes() {
        let delays: Vec<i64> = [1, 2, 3, 8, 9, 10, u32::MAX].map(retry_delay_ms).to_vec();
        assert_eq!(delays, [1_000, 2_000, 4_000, 128_000, 256_000, 256_000, 256_000]);
    }
}
