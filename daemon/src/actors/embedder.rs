//! Computes vectors in the background. It wakes after the index is updated, and periodically to check the model's
//! folder. It is a separate actor because its work takes minutes and may fail without harm: nothing waits for it, and
//! it is restarted without limit.

use std::sync::atomic::Ordering;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};
use tokio::sync::broadcast::error::RecvError;

use super::handle::ActorHandle;
use super::writer::WriterHandle;
use recall_app::bus::{Bus, BusEvent};
use recall_app::embedding_pace::Pace;
use recall_app::embedding_work::{EmbeddingError, EmbeddingWork, FilesChecked, Origin};
use recall_config::EmbeddingPolicy;
use recall_embedding::EmbedError;

/// How long to collect new documents.
const COLLECT_FOR: Duration = Duration::from_secs(1);
/// How long after the start the model is loaded.
const FIRST_LOOK_AFTER: Duration = Duration::from_millis(250);
/// How often to check the model's folder and retry failed work.
const LOOK_EVERY: Duration = Duration::from_secs(30);

pub enum EmbedderMessage {
    /// New documents may be available.
    Wake,
    /// The collection time is over.
    Collected,
    /// Check the model's folder.
    Look,
    /// Replies once a run that began after the request has ended, whatever its result.
    Flush(RpcReplyPort<()>),
    Done {
        origin: Option<Origin>,
        outcome: Result<(), EmbeddingError>,
    },
}

pub type EmbedderHandle = ActorHandle<EmbedderMessage>;

#[derive(Clone)]
pub struct EmbedderArguments {
    pub work: EmbeddingWork<WriterHandle>,
    pub bus: Bus,
}

pub(super) struct EmbedderActor;

pub struct EmbedderState {
    arguments: EmbedderArguments,
    run: Run,
    origin: Option<Origin>,
    collecting: Collecting,
    /// Whether the files were checked. Done once per start of the actor, because it takes a while and nobody else
    /// writes them.
    checked: FilesChecked,
    waiting: Vec<RpcReplyPort<()>>,
    served_by_run: Vec<RpcReplyPort<()>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Idle,
    Going,
    /// Another run was requested in the meantime.
    GoAgain,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Collecting {
    No,
    Yes,
}

impl Actor for EmbedderActor {
    type Msg = EmbedderMessage;
    type State = EmbedderState;
    type Arguments = EmbedderArguments;

    async fn pre_start(
        &self,
        me: ActorRef<EmbedderMessage>,
        arguments: EmbedderArguments,
    ) -> Result<EmbedderState, ActorProcessingErr> {
        if arguments.work.policy != EmbeddingPolicy::None {
            follow(&me, &arguments.bus, arguments.work.pace.clone());
            me.send_interval(LOOK_EVERY, || EmbedderMessage::Look);
        }
        // Needed even without a model, to remove vectors of an earlier configuration. Delayed, because loading a model
        // takes CPU and disk from a session that waits for the daemon's start.
        me.send_after(FIRST_LOOK_AFTER, || EmbedderMessage::Look);
        Ok(EmbedderState {
            arguments,
            run: Run::Idle,
            origin: None,
            collecting: Collecting::No,
            checked: FilesChecked::No,
            waiting: Vec::new(),
            served_by_run: Vec::new(),
        })
    }

    async fn handle(
        &self,
        me: ActorRef<EmbedderMessage>,
        message: EmbedderMessage,
        state: &mut EmbedderState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            EmbedderMessage::Wake => state.collect(&me),
            EmbedderMessage::Collected => {
                state.collecting = Collecting::No;
                state.run(&me);
            }
            EmbedderMessage::Look => state.run(&me),
            EmbedderMessage::Flush(done) => {
                state.waiting.push(done);
                state.arguments.work.pace.hurry();
                state.run(&me);
            }
            EmbedderMessage::Done { origin, outcome } => state.done(&me, origin, outcome),
        }
        Ok(())
    }
}

fn follow(me: &ActorRef<EmbedderMessage>, bus: &Bus, pace: Pace) {
    let (me, mut bus_events, mut rows) = (me.clone(), bus.listen(), bus.follow_rows());
    tokio::spawn(async move {
        loop {
            let bus_event = tokio::select! {
                bus_event = bus_events.recv() => bus_event,
                Ok(()) = rows.changed() => {
                    pace.happened();
                    continue;
                }
            };
            match bus_event {
                Ok(BusEvent::Indexed { .. }) | Err(RecvError::Lagged(_)) => {
                    if me.send_message(EmbedderMessage::Wake).is_err() {
                        return;
                    }
                }
                Ok(BusEvent::LifecycleEvent(_) | BusEvent::LooseCall(_)) => pace.happened(),
                Ok(_) => {}
                Err(RecvError::Closed) => return,
            }
        }
    });
}

impl EmbedderState {
    fn collect(&mut self, me: &ActorRef<EmbedderMessage>) {
        if self.collecting == Collecting::No {
            self.collecting = Collecting::Yes;
            me.send_after(COLLECT_FOR, || EmbedderMessage::Collected);
        }
    }

    fn run(&mut self, me: &ActorRef<EmbedderMessage>) {
        if self.run != Run::Idle {
            self.arguments.work.news.store(true, Ordering::Relaxed);
            self.run = Run::GoAgain;
            return;
        }
        self.run = Run::Going;
        self.served_by_run.append(&mut self.waiting);
        let (me, work, origin) = (me.clone(), self.arguments.work.clone(), self.origin.clone());
        let checked = std::mem::replace(&mut self.checked, FilesChecked::Yes);
        tokio::spawn(async move {
            let (origin, outcome) = work.run(origin, checked).await;
            let _ = me.send_message(EmbedderMessage::Done { origin, outcome });
        });
    }

    fn done(
        &mut self,
        me: &ActorRef<EmbedderMessage>,
        origin: Option<Origin>,
        outcome: Result<(), EmbeddingError>,
    ) {
        self.origin = origin;
        if let Err(error) = outcome {
            tracing::warn!(%error, "cannot make vectors; trying again later");
            if let EmbeddingError::Model(EmbedError::Later { wait_ms: Some(wait_ms), .. }) = error {
                me.send_after(Duration::from_millis(wait_ms), || EmbedderMessage::Look);
            }
        }
        for done in self.served_by_run.drain(..) {
            let _ = done.send(());
        }
        let again = std::mem::replace(&mut self.run, Run::Idle) == Run::GoAgain;
        if self.waiting.is_empty() {
            self.arguments.work.pace.take_your_time();
        }
        if again || !self.waiting.is_empty() {
            self.run(me);
        }
    }
}
