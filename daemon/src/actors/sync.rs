//! Exchanges shared notes with remotes, one round at a time: every minute while an agent works or a round left work
//! undone, otherwise every ten minutes, and on request. A remote that fails is skipped for longer each time. Only
//! `recall sync --now` waits for a round, and without a share it does nothing.

use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use super::handle::ActorHandle;
use super::ports::ActorPorts;
use recall_app::clock;
use recall_app::sharing::report::NextRound;
use recall_app::sharing::round::Which;
use recall_app::sharing::syncing::Syncing;
use recall_domain::ids::Timestamp;

/// The delay after the start, so that sessions waiting for the daemon come first.
const FIRST_AFTER: Duration = Duration::from_secs(2);
const WHILE_WORKING: Duration = Duration::from_secs(60);
const OTHERWISE: Duration = Duration::from_secs(600);
// One timer for all remotes: however many there are, a machine wakes once a minute at most.
const _: () = assert!(WHILE_WORKING.as_secs() >= 60 && OTHERWISE.as_secs() >= 60);

pub type SyncHandle = ActorHandle<SyncMessage>;

pub enum SyncMessage {
    /// The timer of a round has fired.
    Due {
        number: u64,
    },
    /// Replies once a round that began after the request has ended.
    Round(RpcReplyPort<()>),
    Done,
    /// Replies with when the next scheduled round begins.
    Next(RpcReplyPort<NextRound>),
}

pub(super) struct SyncActor;

pub struct SyncState {
    syncing: Syncing<ActorPorts>,
    run: Run,
    /// The number of the current timer. Earlier timers are ignored.
    timer: u64,
    next: NextRound,
    waiting: Vec<RpcReplyPort<()>>,
    served_by_run: Vec<RpcReplyPort<()>>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Run {
    Idle,
    Going,
}

impl Actor for SyncActor {
    type Msg = SyncMessage;
    type State = SyncState;
    type Arguments = Syncing<ActorPorts>;

    async fn pre_start(
        &self,
        me: ActorRef<SyncMessage>,
        syncing: Self::Arguments,
    ) -> Result<SyncState, ActorProcessingErr> {
        let mut state = SyncState {
            syncing,
            run: Run::Idle,
            timer: 0,
            next: NextRound(None),
            waiting: Vec::new(),
            served_by_run: Vec::new(),
        };
        let asked = state.syncing.clone();
        if tokio::task::spawn_blocking(move || asked.has_work()).await? {
            state.schedule(&me, FIRST_AFTER);
        }
        Ok(state)
    }

    async fn handle(
        &self,
        me: ActorRef<SyncMessage>,
        message: SyncMessage,
        state: &mut SyncState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            SyncMessage::Due { number } if number == state.timer => state.start(&me, Which::Due),
            SyncMessage::Due { .. } => {}
            SyncMessage::Round(done) => {
                state.waiting.push(done);
                state.start(&me, Which::All);
            }
            SyncMessage::Done => state.done(&me).await?,
            SyncMessage::Next(reply) => drop(reply.send(state.next)),
        }
        Ok(())
    }
}

impl SyncState {
    fn schedule(&mut self, me: &ActorRef<SyncMessage>, after: Duration) {
        self.timer += 1;
        let number = self.timer;
        let after_ms = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
        self.next = NextRound(Some(Timestamp(clock::now().0.saturating_add(after_ms))));
        me.send_after(after, move || SyncMessage::Due { number });
    }

    fn start(&mut self, me: &ActorRef<SyncMessage>, which: Which) {
        if self.run == Run::Going {
            return;
        }
        self.run = Run::Going;
        self.served_by_run.append(&mut self.waiting);
        let (me, syncing) = (me.clone(), self.syncing.clone());
        tokio::spawn(async move {
            // A round that panics has ended too. The panic is in the log, and a stopped actor needs no report.
            let _ = tokio::spawn(async move { syncing.round(which).await }).await;
            let _ = me.send_message(SyncMessage::Done);
        });
    }

    async fn done(&mut self, me: &ActorRef<SyncMessage>) -> Result<(), ActorProcessingErr> {
        self.run = Run::Idle;
        for done in self.served_by_run.drain(..) {
            let _ = done.send(());
        }
        if !self.waiting.is_empty() {
            self.start(me, Which::All);
            return Ok(());
        }
        let asked = self.syncing.clone();
        let (has_work, is_working) = tokio::task::spawn_blocking(move || {
            (asked.has_work(), asked.readers.read(|db| db.has_open_session()).unwrap_or_default())
        })
        .await?;
        if has_work {
            let is_soon = is_working || self.syncing.has_more();
            self.schedule(me, if is_soon { WHILE_WORKING } else { OTHERWISE });
        } else {
            self.timer += 1;
            self.next = NextRound(None);
        }
        Ok(())
    }
}
