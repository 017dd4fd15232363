//! Sends spans and metrics to the collector in the user's configuration. See [`recall_telemetry`].
//!
//! The bus reports operations that ended, after their commit, and the store has the details. No agent waits for this.
//! The number of waiting spans is limited; further ones are dropped and counted.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::sync::broadcast::error::RecvError;

use super::handle::ActorHandle;
use recall_app::answers::status::TelemetryCounters;
use recall_app::bus::{Bus, BusEvent};
use recall_app::clock;
use recall_domain::budget::ModelCall;
use recall_domain::ids::{JobId, SessionKey, Timestamp};
use recall_domain::lifecycle::{LifecycleEvent, LifecycleKind};
use recall_domain::material::BatchSource;
use recall_domain::session::LooseCall;
use recall_store::{ExpiredLife, JobStatus, JobTimes, Readers, StoreError};
use recall_telemetry::{Collector, Metric, NotSent, Sent, Span, spans};

/// How long to collect spans before sending.
const COLLECT_FOR: Duration = Duration::from_secs(2);
/// The pause before an unreachable collector is retried.
const TRY_AGAIN: Duration = Duration::from_secs(5);
/// The maximum number of waiting spans.
const MOST_WAITING: usize = 4_096;
/// The maximum number of spans per request.
const AT_ONCE: usize = 512;
/// The flush timeout for spans at shutdown.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

pub type TelemetryHandle = ActorHandle<TelemetryMessage>;

pub enum TelemetryMessage {
    Ended(Ended),
    /// The bus has dropped at most this many events.
    Missed(u64),
    /// The collection time is over.
    Send,
    /// The daemon was measured.
    Measured(Vec<Metric>),
    Answered {
        spans: Vec<Span>,
        outcome: Result<Sent, NotSent>,
    },
    MetricsAnswered(Result<(), NotSent>),
    Observe(RpcReplyPort<TelemetryCounters>),
}

/// An operation that ended and becomes a span.
#[derive(Clone)]
pub enum Ended {
    OfSession(Arc<LifecycleEvent>),
    Call(Arc<(SessionKey, LooseCall)>),
    Expired(Arc<ExpiredLife>),
    Job(JobId),
    ModelCall(Arc<ModelCall>),
}

#[derive(Clone)]
pub struct TelemetryArguments {
    /// `None` disables sending.
    pub endpoint: Option<String>,
    pub readers: Readers,
    pub bus: Bus,
    /// When the daemon started.
    pub since: Timestamp,
}

pub(super) struct Telemetry;

pub struct TelemetryState {
    readers: Readers,
    since: Timestamp,
    collector: Option<Collector>,
    waiting: VecDeque<Span>,
    sending: Sending,
    /// The spans of jobs that were sent. A summary is created again if something arrives late.
    sent_jobs: HashSet<Vec<u8>>,
    /// Why the last call failed, if it did. Each problem is logged only once.
    trouble: Option<String>,
    counters: TelemetryCounters,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Sending {
    /// No spans are waiting.
    No,
    /// A message that sends the waiting spans is queued.
    Soon,
    Yes,
}

impl Actor for Telemetry {
    type Msg = TelemetryMessage;
    type State = TelemetryState;
    type Arguments = TelemetryArguments;

    async fn pre_start(
        &self,
        me: ActorRef<TelemetryMessage>,
        TelemetryArguments { endpoint, readers, bus, since }: Self::Arguments,
    ) -> Result<TelemetryState, ActorProcessingErr> {
        let collector = endpoint.as_deref().map(Collector::new).transpose()?;
        if collector.is_some() {
            forward(&me, &bus);
        }
        Ok(TelemetryState {
            readers,
            since,
            collector,
            waiting: VecDeque::new(),
            sending: Sending::No,
            sent_jobs: HashSet::new(),
            trouble: None,
            counters: TelemetryCounters { endpoint, ..TelemetryCounters::default() },
        })
    }

    async fn handle(
        &self,
        me: ActorRef<TelemetryMessage>,
        message: TelemetryMessage,
        state: &mut TelemetryState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            TelemetryMessage::Ended(ended) => {
                let readers = state.readers.clone();
                let is_job = matches!(ended, Ended::Job(_));
                match tokio::task::spawn_blocking(move || spans_of(&readers, &ended)).await? {
                    Ok(spans) if is_job => {
                        let spans = spans.into_iter().filter(|span| state.is_news(span)).collect();
                        state.collect(&me, spans);
                    }
                    Ok(spans) => state.collect(&me, spans),
                    Err(error) => state.failed(&format!("cannot read what has ended: {error}")),
                }
            }
            TelemetryMessage::Missed(bus_events) => state.counters.dropped += bus_events,
            TelemetryMessage::Send => state.send(&me),
            TelemetryMessage::Measured(metrics) => state.send_metrics(&me, metrics),
            TelemetryMessage::Answered { spans, outcome } => state.answered(&me, spans, outcome),
            TelemetryMessage::MetricsAnswered(Err(error)) => state.failed(&error.to_string()),
            TelemetryMessage::MetricsAnswered(Ok(())) => {}
            TelemetryMessage::Observe(counters) => drop(counters.send(state.counters.clone())),
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _me: ActorRef<TelemetryMessage>,
        state: &mut TelemetryState,
    ) -> Result<(), ActorProcessingErr> {
        let spans = state.waiting.drain(..).take(AT_ONCE).collect::<Vec<_>>();
        if let Some(collector) = state.collector.as_ref().filter(|_| !spans.is_empty()) {
            // Shutdown waits no longer than this.
            let _ = tokio::time::timeout(ENDS_WITHIN, collector.send_spans(spans)).await;
        }
        Ok(())
    }
}

/// Forwards events from the bus until the actor stops.
fn forward(me: &ActorRef<TelemetryMessage>, bus: &Bus) {
    let (me, mut bus_events) = (me.clone(), bus.listen());
    tokio::spawn(async move {
        loop {
            let message = match bus_events.recv().await {
                Ok(BusEvent::LifecycleEvent(event)) if has_span(&event) => {
                    TelemetryMessage::Ended(Ended::OfSession(event))
                }
                Ok(BusEvent::LooseCall(call)) => TelemetryMessage::Ended(Ended::Call(call)),
                Ok(BusEvent::LifeExpired(life)) => TelemetryMessage::Ended(Ended::Expired(life)),
                Ok(BusEvent::JobDone { job } | BusEvent::JobFailed { job: Some(job) }) => {
                    TelemetryMessage::Ended(Ended::Job(job))
                }
                Ok(BusEvent::ModelCalled(call)) => TelemetryMessage::Ended(Ended::ModelCall(call)),
                Err(RecvError::Lagged(bus_events)) => TelemetryMessage::Missed(bus_events),
                Ok(_) => continue,
                Err(RecvError::Closed) => return,
            };
            if me.send_message(message).is_err() {
                return;
            }
        }
    });
}

fn has_span(event: &LifecycleEvent) -> bool {
    // A suspended session continues, or ends later.
    matches!(event.what, LifecycleKind::SessionEnd { .. } | LifecycleKind::BatchClosed(_))
}

/// Returns the spans of an operation that ended; none if it was forgotten. Blocks.
fn spans_of(readers: &Readers, ended: &Ended) -> Result<Vec<Span>, StoreError> {
    readers.read(|db| match ended {
        Ended::OfSession(event) => {
            let Some(key) = &event.session else { return Ok(Vec::new()) };
            let Some(session) = db.session_times(key)? else { return Ok(Vec::new()) };
            match &event.what {
                LifecycleKind::SessionEnd { tally, reason, .. } => {
                    Ok(vec![spans::session_span(&session, *tally, event.at, reason)])
                }
                LifecycleKind::BatchClosed(closed) => {
                    let turns = db.turn_times(&session, closed.prompt_number)?;
                    let spans = |(turn, calls): &(_, Vec<_>)| {
                        spans::turn_spans(&session, closed.prompt_number, turn, calls)
                    };
                    Ok(turns.iter().flat_map(spans).collect())
                }
                _ => Ok(Vec::new()),
            }
        }
        Ended::Call(ended) => {
            let (key, call) = &**ended;
            let Some(session) = db.session_times(key)? else { return Ok(Vec::new()) };
            let span = match call {
                LooseCall::AfterTurn { event } => {
                    db.late_call(*event)?.map(|(turn, call)| spans::late_call_span(&session, turn, &call))
                }
                LooseCall::NoResult { call, ended } => match db.turn_at(&session, call.began)? {
                    Some((_, BatchSource::Private)) => None,
                    turn => spans::unfinished_call_span(&session, turn.map(|(turn, _)| turn), call, *ended),
                },
                LooseCall::Unstored(call) => match db.turn_of(&session, call.seq)? {
                    None | Some((_, BatchSource::Private)) => None,
                    Some((turn, _)) => Some(spans::unstored_call_span(&session, turn, call)),
                },
            };
            Ok(span.into_iter().collect())
        }
        Ended::Expired(life) => Ok(expired_spans(life)),
        Ended::Job(job) => {
            // A job that was queued again while it ran is not finished.
            let is_over = |job: &JobTimes| {
                job.ended.is_some()
                    && matches!(job.status, JobStatus::Done | JobStatus::Dead)
                    && !job.is_early
            };
            let found = db.job_times(*job)?.filter(|(job, _)| is_over(job));
            Ok(found.map(|(job, session)| spans::job_span(&session, &job)).into_iter().collect())
        }
        Ended::ModelCall(call) => {
            let found = db.job_times(call.job)?;
            let job = found.as_ref().map(|(job, session)| (job, session));
            Ok(vec![spans::model_span(job, call)])
        }
    })
}

/// Returns the spans of a session that is already deleted.
fn expired_spans(life: &ExpiredLife) -> Vec<Span> {
    let ExpiredLife { session, turns, calls, tally, ended, reason } = life;
    let turns =
        turns.iter().flat_map(|(number, turn, calls)| spans::turn_spans(session, *number, turn, calls));
    let calls =
        calls.iter().filter_map(|(turn, call)| spans::unfinished_call_span(session, *turn, call, *ended));
    let life = spans::session_span(session, *tally, *ended, reason);
    turns.chain(calls).chain([life]).collect()
}

impl TelemetryState {
    /// Whether a job's span has not been sent yet.
    fn is_news(&mut self, span: &Span) -> bool {
        if self.sent_jobs.len() >= MOST_WAITING {
            self.sent_jobs.clear();
        }
        self.sent_jobs.insert([&*span.trace_id, &*span.span_id].concat())
    }

    fn collect(&mut self, me: &ActorRef<TelemetryMessage>, spans: Vec<Span>) {
        self.waiting.extend(spans);
        let excess = self.waiting.len().saturating_sub(MOST_WAITING);
        self.waiting.drain(..excess);
        self.counters.dropped += excess as u64;
        if self.sending == Sending::No && !self.waiting.is_empty() {
            self.send_after(me, COLLECT_FOR);
        }
    }

    fn send_after(&mut self, me: &ActorRef<TelemetryMessage>, wait: Duration) {
        self.sending = Sending::Soon;
        me.send_after(wait, || TelemetryMessage::Send);
    }

    fn send(&mut self, me: &ActorRef<TelemetryMessage>) {
        let Some(collector) = self.collector.clone() else { return };
        self.sending = Sending::Yes;
        let spans: Vec<Span> = self.waiting.drain(..self.waiting.len().min(AT_ONCE)).collect();
        let me = me.clone();
        tokio::spawn(async move {
            let outcome = collector.send_spans(spans.clone()).await;
            let _ = me.send_message(TelemetryMessage::Answered { spans, outcome });
        });
    }

    fn answered(
        &mut self,
        me: &ActorRef<TelemetryMessage>,
        spans: Vec<Span>,
        outcome: Result<Sent, NotSent>,
    ) {
        let count = spans.len() as u64;
        let mut wait = COLLECT_FOR;
        match outcome {
            Ok(Sent { rejected }) => {
                self.trouble = None;
                self.counters.spans += count.saturating_sub(rejected);
                self.counters.dropped += rejected.min(count);
            }
            Err(NotSent::Never(why)) => {
                self.counters.dropped += count;
                self.failed(&why);
            }
            Err(NotSent::Later(why)) => {
                self.failed(&why);
                for span in spans.into_iter().rev() {
                    self.waiting.push_front(span);
                }
                wait = TRY_AGAIN;
            }
        }
        self.sending = Sending::No;
        if !self.waiting.is_empty() {
            self.send_after(me, wait);
        }
    }

    fn send_metrics(&self, me: &ActorRef<TelemetryMessage>, metrics: Vec<Metric>) {
        let Some(collector) = self.collector.clone() else { return };
        let (me, since) = (me.clone(), self.since);
        tokio::spawn(async move {
            let outcome = collector.send_metrics(&metrics, since, clock::now()).await;
            let _ = me.send_message(TelemetryMessage::MetricsAnswered(outcome));
        });
    }

    fn failed(&mut self, why: &str) {
        if self.trouble.as_deref() != Some(why) {
            tracing::warn!(error = why, "cannot send telemetry");
        }
        self.trouble = Some(why.to_owned());
        self.counters.failures += 1;
        self.counters.last_failure.clone_from(&self.trouble);
    }
}
