//! What nobody else remembers: silent sessions, leases of the dead, the spool, and the care of the database.
//!
//! The spool is drained when the daemon starts, when something falls into it, and with every round of housekeeping:
//! commit first, remove after.

use std::collections::HashSet;
use std::time::{Duration, SystemTime};

use ractor::{Actor, ActorProcessingErr, ActorRef, MessagingErr, RpcReplyPort};
use recall_protocol::spool::{Spool, SpoolName, SpoolReadError};
use recall_protocol::wire::Reply;
use tokio::task::JoinHandle;

use super::clock;
use super::door::Door;
use super::intake::{Intake, Listener};
use super::maintenance::{LastDone, Maintenance};
use super::sessions::SessionsMessage;
use super::spool_watch::SpoolWatch;
use crate::faults::{self, Fault, Point, planted};
use crate::memory::ids::Timestamp;
use crate::memory::session::IdlePolicy;
use crate::store::{self, Readers, Write};

/// Spool files of one listing; the next round takes the rest.
const DRAIN_STEP: usize = 1000;
/// A shim writes for milliseconds: a file that is being written for so long is nobody's any more.
const LEFT_BEHIND: Duration = Duration::from_secs(3600);
/// How often the spool is looked at where the system does not tell, and where files could not be taken.
const LOOK_AGAIN: Duration = Duration::from_secs(1);

pub enum HousekeeperMessage {
    /// A round of everything.
    Round,
    /// Something has fallen into the spool, or it is time to see whether something has.
    LookAtSpool,
    /// Answers when all that lies in the spool has been offered once.
    Drain(RpcReplyPort<Drained>),
    /// A drain is over.
    Over(Drained),
    /// The database was cared for.
    Maintained(LastDone),
}

/// What a drain did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drained {
    pub stored: u64,
    /// No frame of ours: moved aside.
    pub bad: u64,
    /// Could not be stored now; they stay.
    pub left: u64,
}

pub type HousekeeperDoor = Door<HousekeeperMessage>;

#[derive(Clone)]
pub struct HousekeeperArguments {
    pub spool: Spool,
    pub intake: Intake,
    pub readers: Readers,
    pub idle: IdlePolicy,
    /// Since when sessions are heard.
    pub heard_since: Timestamp,
    pub every: Duration,
    pub maintenance: Maintenance,
}

pub(super) struct Housekeeper;

pub struct HousekeeperState {
    arguments: HousekeeperArguments,
    drain: Drain,
    waiting: Vec<RpcReplyPort<Drained>>,
    /// `None`: the system does not watch, and the spool is looked at every second.
    watch: Option<SpoolWatch>,
    /// The timer of the next look, where nobody else tells.
    looks_again: Option<JoinHandle<Result<(), MessagingErr<HousekeeperMessage>>>>,
    care: Care,
}

/// Whether the database is being cared for: a backup may take longer than a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Care {
    Idle { last: LastDone },
    Running,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Drain {
    Idle,
    Running,
    /// Asked for again while it runs: what fell in after its listing counts too.
    RunningAndWanted,
}

impl Actor for Housekeeper {
    type Msg = HousekeeperMessage;
    type State = HousekeeperState;
    type Arguments = HousekeeperArguments;

    async fn pre_start(
        &self,
        me: ActorRef<HousekeeperMessage>,
        arguments: HousekeeperArguments,
    ) -> Result<HousekeeperState, ActorProcessingErr> {
        me.send_interval(arguments.every, || HousekeeperMessage::Round);
        let mut state = HousekeeperState {
            arguments,
            drain: Drain::Idle,
            waiting: Vec::new(),
            watch: None,
            looks_again: None,
            care: Care::Idle { last: LastDone::default() },
        };
        // Before the first look, so that nothing falls in between.
        state.watch_spool(&me);
        me.send_message(HousekeeperMessage::Round)?;
        Ok(state)
    }

    async fn handle(
        &self,
        me: ActorRef<HousekeeperMessage>,
        message: HousekeeperMessage,
        state: &mut HousekeeperState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            HousekeeperMessage::Round => {
                state.watch_spool(&me);
                state.start_drain(&me);
                state.round();
                state.care_for_database(&me);
            }
            HousekeeperMessage::LookAtSpool => state.start_drain(&me),
            HousekeeperMessage::Drain(done) => {
                state.waiting.push(done);
                state.start_drain(&me);
            }
            HousekeeperMessage::Over(drained) => state.over(&me, drained),
            HousekeeperMessage::Maintained(last) => state.care = Care::Idle { last },
        }
        Ok(())
    }
}

impl HousekeeperState {
    /// Silent sessions and expired leases.
    fn round(&self) {
        let HousekeeperArguments { intake, readers, idle, heard_since, .. } = self.arguments.clone();
        tokio::spawn(async move {
            let now = clock::now();
            let before = Timestamp(now.0.saturating_sub(idle.batch_ms.min(idle.session_ms)));
            let quiet = tokio::task::spawn_blocking(move || {
                readers.read(|db| store::quiet_sessions(db, before, heard_since))
            });
            match quiet.await {
                Ok(Ok(others)) => {
                    let _ = intake.sessions.tell(SessionsMessage::LookAtClock { now, others });
                }
                Ok(Err(error)) => tracing::warn!(%error, "cannot look for silent sessions"),
                Err(_) => tracing::error!("looking for silent sessions panicked"),
            }
            if let Err(error) = intake.writer.write(Write::ExpireLeases { now }).await {
                tracing::warn!(%error, "cannot take leases back");
            }
            if let Err(error) = intake.writer.write(Write::RepairOrphans { at: now }).await {
                tracing::warn!(%error, "cannot look for orphans");
            }
        });
    }

    fn care_for_database(&mut self, me: &ActorRef<HousekeeperMessage>) {
        let Care::Idle { last } = self.care else { return };
        self.care = Care::Running;
        let (me, maintenance) = (me.clone(), self.arguments.maintenance.clone());
        tokio::spawn(async move {
            let last = maintenance.run(last).await;
            let _ = me.send_message(HousekeeperMessage::Maintained(last));
        });
    }

    /// Has the spool watched, unless it is.
    fn watch_spool(&mut self, me: &ActorRef<HousekeeperMessage>) {
        if self.watch.as_ref().is_some_and(SpoolWatch::is_current) {
            return;
        }
        let teller = me.clone();
        let tell = move || {
            // A housekeeper that is gone looks when it is back.
            let _ = teller.send_message(HousekeeperMessage::LookAtSpool);
        };
        self.watch = SpoolWatch::start(&self.arguments.spool.new_dir(), tell)
            .inspect_err(|error| tracing::warn!(%error, "the spool is not watched but looked at"))
            .ok();
    }

    fn look_again(&mut self, me: &ActorRef<HousekeeperMessage>) {
        let later = me.send_after(LOOK_AGAIN, || HousekeeperMessage::LookAtSpool);
        if let Some(earlier) = self.looks_again.replace(later) {
            earlier.abort();
        }
    }

    fn start_drain(&mut self, me: &ActorRef<HousekeeperMessage>) {
        if let Some(watch) = &self.watch {
            watch.heard();
        }
        if self.drain != Drain::Idle {
            self.drain = Drain::RunningAndWanted;
            return;
        }
        self.drain = Drain::Running;
        let (me, spool, intake) = (me.clone(), self.arguments.spool.clone(), self.arguments.intake.clone());
        tokio::spawn(async move {
            let drained = drain(&spool, &intake).await;
            let _ = me.send_message(HousekeeperMessage::Over(drained));
        });
    }

    fn over(&mut self, me: &ActorRef<HousekeeperMessage>, drained: Drained) {
        if drained != Drained::default() {
            tracing::info!(
                stored = drained.stored,
                bad = drained.bad,
                left = drained.left,
                "drained the spool"
            );
        }
        let again = self.drain == Drain::RunningAndWanted;
        self.drain = Drain::Idle;
        if again {
            return self.start_drain(me);
        }
        if drained.left > 0 || self.watch.is_none() {
            self.look_again(me);
        }
        for done in self.waiting.drain(..) {
            let _ = done.send(drained);
        }
    }
}

/// Offers every file once, oldest first; also those that fall in meanwhile.
async fn drain(spool: &Spool, intake: &Intake) -> Drained {
    let mut drained = Drained::default();
    let mut offered: HashSet<SpoolName> = HashSet::new();
    loop {
        let listing = spool.clone();
        let names = match tokio::task::spawn_blocking(move || listing.list(usize::MAX)).await {
            Ok(Ok(names)) => names,
            Ok(Err(error)) => {
                if error.kind() != std::io::ErrorKind::NotFound {
                    tracing::warn!(%error, "cannot list the spool");
                }
                return drained;
            }
            Err(_) => return drained,
        };
        let names: Vec<_> =
            names.into_iter().filter(|name| !offered.contains(name)).take(DRAIN_STEP).collect();
        if names.is_empty() {
            break;
        }
        for name in names {
            offered.insert(name.clone());
            drain_one(spool, intake, name, &mut drained).await;
        }
    }
    let spool = spool.clone();
    if tokio::task::spawn_blocking(move || tidy(&spool)).await.is_err() {
        tracing::error!("counting the spool panicked");
    }
    drained
}

/// Counts what is left. What killed shims have left half written was never accepted, and nobody else removes it.
fn tidy(spool: &Spool) {
    if let Err(error) = spool.settle() {
        tracing::warn!(%error, "cannot count the spool");
    }
    match spool.sweep(SystemTime::now(), LEFT_BEHIND) {
        Ok(0) => {}
        Ok(swept) => tracing::info!(swept, "removed what killed shims had left in the spool"),
        Err(error) => tracing::warn!(%error, "cannot look for what killed shims have left in the spool"),
    }
}

async fn drain_one(spool: &Spool, intake: &Intake, name: SpoolName, drained: &mut Drained) {
    let (reading, reading_name) = (spool.clone(), name.clone());
    let deliver = match tokio::task::spawn_blocking(move || reading.read(&reading_name)).await {
        Ok(Ok(deliver)) => deliver,
        Ok(Err(SpoolReadError::Gone)) => return,
        Ok(Err(SpoolReadError::Bad { why, .. })) => {
            tracing::warn!(file = name.as_str(), why, "a spool file is no event");
            let _ = spool.move_to_bad(&name);
            drained.bad += 1;
            return;
        }
        Ok(Err(error)) => {
            tracing::warn!(file = name.as_str(), %error, "a spool file stays");
            drained.left += 1;
            return;
        }
        Err(_) => {
            drained.left += 1;
            return;
        }
    };
    if planted(Fault::UnlinkBeforeCommit) {
        let _ = spool.remove(&name);
    }
    match intake.take(deliver, Listener::Nobody).await {
        Reply::Ack { .. } | Reply::Duplicate { .. } => {
            drained.stored += 1;
            faults::reach(Point::Unlink);
            if let Err(error) = spool.remove(&name) {
                tracing::warn!(file = name.as_str(), %error, "a stored spool file stays");
            }
        }
        _ => drained.left += 1,
    }
}
