//! Exchanges shared notes with remotes, one round at a time: every minute while an agent works, else every ten minutes,
//! and when somebody asks. After a failure it waits longer each time. Nothing waits for it but `recall sync --now`, and
//! without a share it does nothing.

use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, RpcReplyPort};

use super::handle::ActorHandle;
use super::ports::ActorPorts;
use recall_app::clock;
use recall_app::sharing::report::NextRound;
use recall_app::sharing::round::Syncing;
use recall_domain::ids::Timestamp;

/// After the start, so that sessions that wait for the daemon come first.
const FIRST_AFTER: Duration = Duration::from_secs(2);
const WHILE_WORKING: Duration = Duration::from_secs(60);
const OTHERWISE: Duration = Duration::from_secs(600);
/// The longest wait after failures.
const MOST_BACKOFF: Duration = Duration::from_secs(1800);

pub type SyncHandle = ActorHandle<SyncMessage>;

pub enum SyncMessage {
    /// It is time for a round.
    Due {
        number: u64,
    },
    /// Replies when a round that began after the request has ended.
    Round(RpcReplyPort<()>),
    Done,
    /// When the next round begins by itself.
    Next(RpcReplyPort<NextRound>),
}

pub(super) struct SyncActor;

pub struct SyncState {
    syncing: Syncing<ActorPorts>,
    run: Run,
    failures: u32,
    /// The number of the timer that counts. Earlier ones are outdated.
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
            failures: 0,
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
            SyncMessage::Due { number } if number == state.timer => state.start(&me),
            SyncMessage::Due { .. } => {}
            SyncMessage::Round(done) => {
                state.waiting.push(done);
                state.start(&me);
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

    fn start(&mut self, me: &ActorRef<SyncMessage>) {
        if self.run == Run::Going {
            return;
        }
        self.run = Run::Going;
        self.served_by_run.append(&mut self.waiting);
        let (me, syncing) = (me.clone(), self.syncing.clone());
        tokio::spawn(async move {
            // A round that panics is over, too. Its panic is in the log, and a stopped actor needs no report.
            let _ = tokio::spawn(async move { syncing.round().await }).await;
            let _ = me.send_message(SyncMessage::Done);
        });
    }

    async fn done(&mut self, me: &ActorRef<SyncMessage>) -> Result<(), ActorProcessingErr> {
        self.run = Run::Idle;
        for done in self.served_by_run.drain(..) {
            let _ = done.send(());
        }
        if !self.waiting.is_empty() {
            self.start(me);
            return Ok(());
        }
        self.failures = if self.syncing.has_failed() { self.failures.saturating_add(1) } else { 0 };
        let asked = self.syncing.clone();
        let (has_work, is_working) = tokio::task::spawn_blocking(move || {
            (asked.has_work(), asked.readers.read(|db| db.has_open_session()).unwrap_or_default())
        })
        .await?;
        if has_work {
            let usual = if is_working { WHILE_WORKING } else { OTHERWISE };
            self.schedule(me, usual.max(backoff(self.failures)));
        } else {
            self.timer += 1;
            self.next = NextRound(None);
        }
        Ok(())
    }
}

/// Zero, then one minute, two, four ... at most half an hour, each up to a quarter longer by chance, so that machines do
/// not all come back at once.
fn backoff(failures: u32) -> Duration {
    if failures == 0 {
        return Duration::ZERO;
    }
    let doubled = WHILE_WORKING.saturating_mul(1 << (failures - 1).min(10)).min(MOST_BACKOFF);
    let chance = u32::from(uuid::Uuid::new_v4().as_bytes()[0]);
    doubled + doubled / 1024 * chance
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_failures_it_waits_longer_and_not_for_ever() {
        assert_eq!(backoff(0), Duration::ZERO);
        for (failures, least) in [(1, 60), (2, 120), (3, 240), (20, 1800), (u32::MAX, 1800)] {
            let wait = backoff(failures).as_secs();
            assert!((least..=least + least / 4).contains(&wait), "{failures}: {wait}");
        }
    }
}
