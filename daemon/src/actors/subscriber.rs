//! Runs the commands that the user's configuration subscribes to lifecycle events.
//!
//! A command receives the event as JSON on stdin, runs in its own process group, and has five seconds. It ends with
//! the daemon, however the daemon ends. Commands of one subscription run one after another. The queue is limited:
//! further events are dropped and counted, and a failed command is not retried. A command of mode `stream` keeps
//! running, see [`EventStream`]. No agent waits for a command, because events come from the bus, after their commit.

use std::collections::VecDeque;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::sync::broadcast::error::RecvError;

use super::handle::ActorHandle;
use recall_app::answers::status::SubscriberCounters;
use recall_app::bus::{Bus, BusEvent};
use recall_app::event_stream::{EventStream, Queued, StreamReport, command_of};
use recall_app::lifecycle_json::to_json;
use recall_config::{Subscription, SubscriptionMode};
use recall_domain::lifecycle::LifecycleEvent;
use recall_system::process_group::{ProcessGroup, until};

/// The time limit from a command's start to the end of its process group.
const ENDS_WITHIN: Duration = Duration::from_secs(5);
/// The maximum number of events waiting for a subscription's command.
const MOST_WAITING: usize = 64;

pub type SubscriberHandle = ActorHandle<SubscriberMessage>;

pub enum SubscriberMessage {
    Event(Arc<LifecycleEvent>),
    /// The bus has dropped at most this many events.
    Missed(u64),
    /// A subscription's command has ended.
    Ended {
        subscription: usize,
        outcome: Result<(), CommandFailed>,
    },
    /// A report from a command that keeps running.
    Stream {
        subscription: usize,
        report: StreamReport,
    },
    Observe(RpcReplyPort<SubscriberCounters>),
}

/// Why a command counts as failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandFailed {
    #[error("cannot start {program}: {error}")]
    Start { program: String, error: std::io::Error },
    #[error("{program} was killed after {} s", ENDS_WITHIN.as_secs())]
    Deadline { program: String },
    #[error("{program} failed: {status}")]
    Status { program: String, status: std::process::ExitStatus },
    #[error("cannot run {program}: {error}")]
    Lost { program: String, error: String },
}

pub(super) struct Subscriber;

pub struct SubscriberState {
    queues: Vec<Queue>,
    counters: SubscriberCounters,
    stopping: Arc<AtomicBool>,
}

/// A subscription and the events that wait for it.
struct Queue {
    subscription: Arc<Subscription>,
    waiting: VecDeque<Arc<LifecycleEvent>>,
    running: Running,
    /// The running command of a stream.
    stream: Option<EventStream>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Running {
    No,
    Yes,
}

impl Actor for Subscriber {
    type Msg = SubscriberMessage;
    type State = SubscriberState;
    type Arguments = (Vec<Subscription>, Bus);

    async fn pre_start(
        &self,
        me: ActorRef<SubscriberMessage>,
        (subscriptions, bus): Self::Arguments,
    ) -> Result<SubscriberState, ActorProcessingErr> {
        if !subscriptions.is_empty() {
            forward(&me, &bus);
        }
        let counters = SubscriberCounters { subscriptions: subscriptions.len(), ..Default::default() };
        let stopping = Arc::default();
        let queue = |(number, subscription): (usize, Subscription)| {
            let subscription = Arc::new(subscription);
            let stream = match subscription.mode {
                SubscriptionMode::Each => None,
                SubscriptionMode::Stream => Some(stream(&me, number, &subscription, &stopping)),
            };
            Queue { subscription, waiting: VecDeque::new(), running: Running::No, stream }
        };
        let queues = subscriptions.into_iter().enumerate().map(queue).collect();
        Ok(SubscriberState { queues, counters, stopping })
    }

    async fn handle(
        &self,
        me: ActorRef<SubscriberMessage>,
        message: SubscriberMessage,
        state: &mut SubscriberState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SubscriberMessage::Event(event) => state.take(&me, &event),
            SubscriberMessage::Missed(bus_events) => {
                state.counters.dropped += bus_events;
                for stream in state.queues.iter_mut().filter_map(|queue| queue.stream.as_mut()) {
                    stream.miss(bus_events);
                }
            }
            SubscriberMessage::Stream { subscription, report } => match report {
                StreamReport::Started => state.counters.runs += 1,
                StreamReport::Failed(why) => state.failed(subscription, why),
            },
            SubscriberMessage::Ended { subscription, outcome } => state.ended(&me, subscription, outcome),
            SubscriberMessage::Observe(counters) => drop(counters.send(state.counters.clone())),
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _me: ActorRef<SubscriberMessage>,
        state: &mut SubscriberState,
    ) -> Result<(), ActorProcessingErr> {
        // Commands that are still running end with the daemon.
        state.stopping.store(true, Ordering::Release);
        Ok(())
    }
}

/// Forwards events from the bus until the actor stops.
fn forward(me: &ActorRef<SubscriberMessage>, bus: &Bus) {
    let (me, mut bus_events) = (me.clone(), bus.listen());
    tokio::spawn(async move {
        loop {
            let message = match bus_events.recv().await {
                Ok(BusEvent::LifecycleEvent(event)) => SubscriberMessage::Event(event),
                Err(RecvError::Lagged(bus_events)) => SubscriberMessage::Missed(bus_events),
                Ok(_) => continue,
                Err(RecvError::Closed) => return,
            };
            if me.send_message(message).is_err() {
                return;
            }
        }
    });
}

impl SubscriberState {
    fn take(&mut self, me: &ActorRef<SubscriberMessage>, event: &Arc<LifecycleEvent>) {
        let name = event.what.name();
        for number in 0..self.queues.len() {
            let Some(queue) = self.queues.get_mut(number) else { continue };
            if !queue.subscription.events.iter().any(|event| event == name) {
                continue;
            }
            if let Some(stream) = &mut queue.stream {
                self.counters.dropped += u64::from(stream.send(event) == Queued::Dropped);
                continue;
            }
            if queue.waiting.len() >= MOST_WAITING {
                self.counters.dropped += 1;
                continue;
            }
            queue.waiting.push_back(Arc::clone(event));
            self.run_next(me, number);
        }
    }

    /// Starts a subscription's next command, if one is waiting and the previous one has ended.
    fn run_next(&mut self, me: &ActorRef<SubscriberMessage>, number: usize) {
        let Some(queue) = self.queues.get_mut(number).filter(|queue| queue.running == Running::No) else {
            return;
        };
        let Some(event) = queue.waiting.pop_front() else { return };
        queue.running = Running::Yes;
        self.counters.runs += 1;
        let (me, subscription) = (me.clone(), Arc::clone(&queue.subscription));
        let stopping = Arc::clone(&self.stopping);
        tokio::spawn(async move {
            let program = subscription.program().to_owned();
            let run = tokio::task::spawn_blocking(move || run(&subscription, &event, &stopping));
            let outcome = run
                .await
                .unwrap_or_else(|error| Err(CommandFailed::Lost { program, error: error.to_string() }));
            // A stopped actor counts nothing.
            let _ = me.send_message(SubscriberMessage::Ended { subscription: number, outcome });
        });
    }

    fn failed(&mut self, number: usize, why: String) {
        tracing::warn!(subscription = number, error = why, "a subscribed command failed");
        self.counters.failures += 1;
        self.counters.last_failure = Some(why);
    }

    fn ended(&mut self, me: &ActorRef<SubscriberMessage>, number: usize, outcome: Result<(), CommandFailed>) {
        if let Err(error) = outcome {
            self.failed(number, error.to_string());
        }
        if let Some(queue) = self.queues.get_mut(number) {
            queue.running = Running::No;
        }
        self.run_next(me, number);
    }
}

/// Opens the stream to a command that keeps running.
fn stream(
    me: &ActorRef<SubscriberMessage>,
    number: usize,
    subscription: &Arc<Subscription>,
    stopping: &Arc<AtomicBool>,
) -> EventStream {
    let me = me.clone();
    EventStream::open(Arc::clone(subscription), Arc::clone(stopping), move |report| {
        // A stopped actor counts nothing.
        let _ = me.send_message(SubscriberMessage::Stream { subscription: number, report });
    })
}

/// Runs a command until it ends or its time is up. Blocks.
fn run(
    subscription: &Subscription,
    event: &LifecycleEvent,
    stopping: &AtomicBool,
) -> Result<(), CommandFailed> {
    let program = || subscription.program().to_owned();
    let mut group = ProcessGroup::spawn_guarded(&mut command_of(subscription))
        .map_err(|error| CommandFailed::Start { program: program(), error })?;
    if let Some(mut stdin) = group.take_stdin() {
        let line = format!("{}\n", to_json(event));
        // The command may end without reading its input.
        std::thread::spawn(move || drop(stdin.write_all(line.as_bytes())));
    }
    let in_time = until(Instant::now() + ENDS_WITHIN);
    let ended = group.finish(|| in_time() && !stopping.load(Ordering::Acquire));
    match ended.map_err(|error| CommandFailed::Lost { program: program(), error: error.to_string() })? {
        None => Err(CommandFailed::Deadline { program: program() }),
        Some(status) if !status.success() => Err(CommandFailed::Status { program: program(), status }),
        Some(_) => Ok(()),
    }
}
