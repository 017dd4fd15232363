//! What nobody else remembers: silent sessions, leases of the dead, the spool, and the care of the database.
//!
//! The spool is drained when the daemon starts, when something falls into it, and with every round of housekeeping.

use std::path::Path;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, MessagingErr, RpcReplyPort};
use recall_protocol::spool::Spool;
use tokio::task::JoinHandle;

use super::housekeeper_message::HousekeeperMessage;
use super::ports::ActorPorts;
use super::sessions::SessionsMessage;
use crate::app::clock;
use crate::app::draining::drain;
use crate::app::ingest::Ingest;
use crate::app::maintenance::{LastDone, Maintenance};
use crate::app::ports::Drained;
use crate::app::settings::{Look, Looked};
use crate::app::spool_watch::SpoolWatch;
use crate::memory::ids::Timestamp;
use crate::memory::session::IdlePolicy;
use crate::store::{self, ExpireLeases, Readers, RepairOrphans};

/// How often the spool is looked at where the system does not tell, and where files could not be taken.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How often the configuration's stamp is looked at beside the watch on its folder, which does not see what a symlink
/// leads to.
const LOOK_AT_CONFIG: Duration = Duration::from_secs(10);
/// A change counts when two looks this far apart agree.
const CONFIG_SETTLES: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct HousekeeperArguments {
    pub spool: Spool,
    pub ingest: Ingest<ActorPorts>,
    pub readers: Readers,
    pub idle: IdlePolicy,
    /// Since when sessions are heard.
    pub heard_since: Timestamp,
    pub every: Duration,
    pub maintenance: Maintenance<ActorPorts>,
}

pub(super) struct Housekeeper;

pub struct HousekeeperState {
    arguments: HousekeeperArguments,
    drain: Drain,
    waiting: Vec<RpcReplyPort<Drained>>,
    /// `None`: the system does not watch, and the spool is looked at every second.
    watch: Option<SpoolWatch>,
    /// `None`: there is no such folder, or the system does not watch it; it is looked at all the same.
    config_watch: Option<SpoolWatch>,
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
        if arguments.ingest.settings.are_read_again() {
            me.send_interval(LOOK_AT_CONFIG, || HousekeeperMessage::LookAtConfig);
            me.send_message(HousekeeperMessage::LookAtConfig)?;
        }
        let mut state = HousekeeperState {
            arguments,
            drain: Drain::Idle,
            waiting: Vec::new(),
            watch: None,
            config_watch: None,
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
            HousekeeperMessage::LookAtConfig => state.look_at_config(&me),
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
    fn look_at_config(&mut self, me: &ActorRef<HousekeeperMessage>) {
        self.watch_config(me);
        if let Some(watch) = &self.config_watch {
            watch.heard();
        }
        let (me, settings) = (me.clone(), self.arguments.ingest.settings.clone());
        tokio::spawn(async move {
            let looked = tokio::task::spawn_blocking(move || settings.look(Look::Patient)).await;
            if looked.is_ok_and(|looked| looked == Looked::Changing) {
                me.send_after(CONFIG_SETTLES, || HousekeeperMessage::LookAtConfig);
            }
        });
    }

    /// Has the configuration's folder watched, unless it is or there is none.
    fn watch_config(&mut self, me: &ActorRef<HousekeeperMessage>) {
        if self.config_watch.as_ref().is_some_and(SpoolWatch::is_current) {
            return;
        }
        let teller = me.clone();
        let tell = move || {
            // A housekeeper that is gone looks when it is back.
            let _ = teller.send_message(HousekeeperMessage::LookAtConfig);
        };
        let folder = self.arguments.ingest.settings.folder().map(Path::to_owned);
        self.config_watch = folder.and_then(|folder| SpoolWatch::start(&folder, tell).ok());
    }

    /// Silent sessions, expired leases and orphans. Where there are none, nothing is written.
    fn round(&self) {
        let HousekeeperArguments { ingest, readers, idle, heard_since, .. } = self.arguments.clone();
        tokio::spawn(async move {
            let now = clock::now();
            let before = Timestamp(now.0.saturating_sub(idle.batch_ms.min(idle.session_ms)));
            let looked = tokio::task::spawn_blocking(move || {
                readers.read(|db| {
                    let others = store::quiet_sessions(db, before, heard_since)?;
                    Ok((others, store::has_expired_leases(db, now)?, store::has_orphans(db)?))
                })
            });
            let (expired, orphans) = match looked.await {
                Ok(Ok((others, expired, orphans))) => {
                    let _ = ingest.ports.sessions.tell(SessionsMessage::LookAtClock { now, others });
                    (expired, orphans)
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "cannot look for silent sessions");
                    return;
                }
                Err(_) => {
                    tracing::error!("looking for silent sessions panicked");
                    return;
                }
            };
            if expired && let Err(error) = ingest.ports.writer.write(ExpireLeases { now }).await {
                tracing::warn!(%error, "cannot take leases back");
            }
            if orphans && let Err(error) = ingest.ports.writer.write(RepairOrphans { at: now }).await {
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
        let (me, spool, ingest) = (me.clone(), self.arguments.spool.clone(), self.arguments.ingest.clone());
        tokio::spawn(async move {
            let drained = drain(&spool, &ingest).await;
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
