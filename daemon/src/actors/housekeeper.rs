//! Periodic work: idle sessions, expired leases, the spool, and database maintenance.
//!
//! The spool is drained when the daemon starts, when a file appears in it, and in each round.

use std::path::Path;
use std::time::Duration;

use ractor::{Actor, ActorProcessingErr, ActorRef, MessagingErr, RpcReplyPort};
use recall_protocol::spool::Spool;
use tokio::task::JoinHandle;

use super::housekeeper_message::HousekeeperMessage;
use super::ports::ActorPorts;
use super::sessions::SessionsMessage;
use recall_app::clock;
use recall_app::draining::drain;
use recall_app::ingest::Ingest;
use recall_app::maintenance::{LastDone, Maintenance};
use recall_app::ports::Drained;
use recall_app::settings::{CheckMode, CheckResult};
use recall_app::spool_watch::SpoolWatch;
use recall_domain::ids::Timestamp;
use recall_domain::session::IdlePolicy;
use recall_store::{ExpireLeases, Readers, RepairOrphans, RepairedOrphans};
use recall_system::holding::Holding;

/// How often to poll the spool if it cannot be watched, or if files could not be stored.
const POLL_SPOOL_EVERY: Duration = Duration::from_secs(1);
/// How often to poll the configuration. The watch on its folder does not see changes behind a symlink.
const CHECK_CONFIG_EVERY: Duration = Duration::from_secs(10);
/// A change takes effect once two checks this far apart agree.
const CONFIG_SETTLES: Duration = Duration::from_secs(1);

#[derive(Clone)]
pub struct HousekeeperArguments {
    pub spool: Spool,
    pub ingest: Ingest<ActorPorts>,
    pub readers: Readers,
    pub idle: IdlePolicy,
    /// When the daemon began to receive events of sessions.
    pub started_at: Timestamp,
    pub every: Duration,
    pub holding: Holding,
    pub maintenance: Maintenance<ActorPorts>,
}

pub(super) struct Housekeeper;

pub struct HousekeeperState {
    arguments: HousekeeperArguments,
    drain: Drain,
    waiting: Vec<RpcReplyPort<Drained>>,
    /// `None` if the system cannot watch the spool; it is then polled every second.
    watch: Option<SpoolWatch>,
    /// `None` if the folder does not exist or cannot be watched. It is polled in any case.
    config_watch: Option<SpoolWatch>,
    /// The timer of the next poll.
    poll_timer: Option<JoinHandle<Result<(), MessagingErr<HousekeeperMessage>>>>,
    maintenance: MaintenanceState,
}

/// Whether maintenance is running. A backup may take longer than a round.
#[derive(Clone, Copy, PartialEq, Eq)]
enum MaintenanceState {
    Idle { last: LastDone },
    Running,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Drain {
    Idle,
    Running,
    /// Requested again while running, because files may have appeared after it listed them.
    RunAgain,
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
        if arguments.ingest.settings.can_reload() {
            me.send_interval(CHECK_CONFIG_EVERY, || HousekeeperMessage::CheckConfig);
            me.send_message(HousekeeperMessage::CheckConfig)?;
        }
        let mut state = HousekeeperState {
            arguments,
            drain: Drain::Idle,
            waiting: Vec::new(),
            watch: None,
            config_watch: None,
            poll_timer: None,
            maintenance: MaintenanceState::Idle { last: LastDone::default() },
        };
        // Watch before the first drain, so that no file is missed in between.
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
            // The daemon is about to end, and these files belong to another one.
            _ if state.arguments.holding.check().is_err() => {}
            HousekeeperMessage::Round => {
                state.watch_spool(&me);
                state.start_drain(&me);
                state.round();
                state.maintain_database(&me);
            }
            HousekeeperMessage::DrainSpool => state.start_drain(&me),
            HousekeeperMessage::CheckConfig => state.check_config(&me),
            HousekeeperMessage::Drain(done) => {
                state.waiting.push(done);
                state.start_drain(&me);
            }
            HousekeeperMessage::Drained(drained) => state.drained(&me, drained),
            HousekeeperMessage::Maintained(last) => state.maintenance = MaintenanceState::Idle { last },
        }
        Ok(())
    }
}

impl HousekeeperState {
    fn check_config(&mut self, me: &ActorRef<HousekeeperMessage>) {
        self.watch_config(me);
        if let Some(watch) = &self.config_watch {
            watch.rearm();
        }
        let (me, settings) = (me.clone(), self.arguments.ingest.settings.clone());
        tokio::spawn(async move {
            let checked = tokio::task::spawn_blocking(move || settings.check(CheckMode::AfterSettling)).await;
            if checked.is_ok_and(|result| result == CheckResult::Changing) {
                me.send_after(CONFIG_SETTLES, || HousekeeperMessage::CheckConfig);
            }
        });
    }

    /// Watches the configuration folder, unless it is already watched or missing.
    fn watch_config(&mut self, me: &ActorRef<HousekeeperMessage>) {
        if self.config_watch.as_ref().is_some_and(SpoolWatch::is_current) {
            return;
        }
        let housekeeper = me.clone();
        let on_change = move || {
            // A restarted housekeeper checks the configuration at its start.
            let _ = housekeeper.send_message(HousekeeperMessage::CheckConfig);
        };
        let folder = self.arguments.ingest.settings.folder().map(Path::to_owned);
        self.config_watch = folder.and_then(|folder| SpoolWatch::start(&folder, on_change).ok());
    }

    /// Handles idle sessions, expired leases and orphans. Writes nothing if there are none.
    fn round(&self) {
        let HousekeeperArguments { ingest, readers, idle, started_at, .. } = self.arguments.clone();
        tokio::spawn(async move {
            let now = clock::now();
            ingest.take_unreported_of_silent(now, idle.batch_ms).await;
            let before = Timestamp(now.0.saturating_sub(idle.batch_ms.min(idle.session_ms)));
            let looked = tokio::task::spawn_blocking(move || {
                readers.read(|db| {
                    let others = db.quiet_sessions(before, started_at)?;
                    Ok((others, db.has_expired_leases(now)?, db.has_orphans()?))
                })
            });
            let (expired, orphans) = match looked.await {
                Ok(Ok((others, expired, orphans))) => {
                    let _ = ingest.ports.sessions.send(SessionsMessage::CheckIdle { now, others });
                    (expired, orphans)
                }
                Ok(Err(error)) => {
                    tracing::warn!(%error, "cannot look for idle sessions");
                    return;
                }
                Err(_) => {
                    tracing::error!("the search for idle sessions panicked");
                    return;
                }
            };
            if expired {
                match ingest.ports.writer.write(ExpireLeases { now }).await {
                    Ok(jobs) => tracing::info!(jobs, "returned jobs with expired leases to the queue"),
                    Err(error) => tracing::warn!(%error, "cannot expire leases"),
                }
            }
            if orphans {
                match ingest.ports.writer.write(RepairOrphans { at: now }).await {
                    Ok(RepairedOrphans { calls, prompts }) => {
                        tracing::info!(
                            calls,
                            prompts,
                            "repaired calls without a prompt and prompts without a job"
                        );
                    }
                    Err(error) => tracing::warn!(%error, "cannot repair orphans"),
                }
            }
        });
    }

    fn maintain_database(&mut self, me: &ActorRef<HousekeeperMessage>) {
        let MaintenanceState::Idle { last } = self.maintenance else { return };
        self.maintenance = MaintenanceState::Running;
        let (me, maintenance) = (me.clone(), self.arguments.maintenance.clone());
        tokio::spawn(async move {
            let last = maintenance.run(last).await;
            let _ = me.send_message(HousekeeperMessage::Maintained(last));
        });
    }

    /// Watches the spool, unless it is already watched.
    fn watch_spool(&mut self, me: &ActorRef<HousekeeperMessage>) {
        if self.watch.as_ref().is_some_and(SpoolWatch::is_current) {
            return;
        }
        let housekeeper = me.clone();
        let on_change = move || {
            // A restarted housekeeper drains the spool at its start.
            let _ = housekeeper.send_message(HousekeeperMessage::DrainSpool);
        };
        self.watch = SpoolWatch::start(&self.arguments.spool.new_dir(), on_change)
            .inspect_err(|error| tracing::warn!(%error, "cannot watch the spool; it is polled instead"))
            .ok();
    }

    fn poll_later(&mut self, me: &ActorRef<HousekeeperMessage>) {
        let later = me.send_after(POLL_SPOOL_EVERY, || HousekeeperMessage::DrainSpool);
        if let Some(earlier) = self.poll_timer.replace(later) {
            earlier.abort();
        }
    }

    fn start_drain(&mut self, me: &ActorRef<HousekeeperMessage>) {
        if let Some(watch) = &self.watch {
            watch.rearm();
        }
        if self.drain != Drain::Idle {
            self.drain = Drain::RunAgain;
            return;
        }
        self.drain = Drain::Running;
        let (me, spool, ingest) = (me.clone(), self.arguments.spool.clone(), self.arguments.ingest.clone());
        tokio::spawn(async move {
            let drained = drain(&spool, &ingest).await;
            let _ = me.send_message(HousekeeperMessage::Drained(drained));
        });
    }

    fn drained(&mut self, me: &ActorRef<HousekeeperMessage>, drained: Drained) {
        if drained != Drained::default() {
            tracing::info!(
                stored = drained.stored,
                bad = drained.bad,
                left = drained.left,
                "drained the spool"
            );
        }
        let again = self.drain == Drain::RunAgain;
        self.drain = Drain::Idle;
        if again {
            return self.start_drain(me);
        }
        if drained.left > 0 || self.watch.is_none() {
            self.poll_later(me);
        }
        for done in self.waiting.drain(..) {
            let _ = done.send(drained);
        }
    }
}
