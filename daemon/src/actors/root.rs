//! The root of the actor tree: starts all actors in order and restarts those that fail.
//!
//! Children start in the order of their dependencies. One that fails is restarted behind the same handle, immediately
//! the first time and then with growing delays. Five failures of the same child within a minute end the daemon, so
//! that its service manager notices. The indexer, the embedder, the subscriber and the telemetry are restarted without
//! limit: without them search gets worse or the user learns less, but capturing continues.
//!
//! A damaged database is repaired here, because all actors that have it open must first stop: see
//! [`RootState::repair`].

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use tokio::time::Instant;

use super::compression::Compression;
use super::embedder::EmbedderActor;
use super::failure;
use super::failure::DatabaseDamaged;
use super::handle::ActorHandle;
use super::housekeeper::Housekeeper;
use super::indexer::Indexer;
use super::services::{DaemonSetup, Services};
use super::sessions::Sessions;
use super::subscriber::Subscriber;
use super::sync::SyncActor;
use super::telemetry::Telemetry;
use super::writer::{DatabaseLock, Writer};
use recall_app::bus::BusEvent;
use recall_app::clock;
use recall_config::Config;
use recall_store::{Evidence, ReleaseLeases, RepairOutcome, RepairSite, Suspicion, WakeRetries};

const FAILURE_WINDOW: Duration = Duration::from_secs(60);
const MOST_FAILURES: usize = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Child {
    Writer,
    Indexer,
    Embedder,
    Sessions,
    Compression,
    Housekeeper,
    Subscriber,
    Sync,
    Telemetry,
}

/// In start order. They stop in reverse order.
const CHILDREN: [Child; 9] = [
    Child::Subscriber,
    Child::Telemetry,
    Child::Writer,
    Child::Indexer,
    Child::Embedder,
    Child::Sessions,
    Child::Compression,
    Child::Housekeeper,
    Child::Sync,
];

pub enum RootMessage {
    /// The restart delay of a failed child is over.
    Restart(Child),
    /// A read found signs of damage in the database.
    Suspect(Suspicion),
    /// Applies this configuration.
    Reconfigure(Arc<Config>),
    /// Stops a child and replies once it has stopped.
    StopChild(Child, ractor::RpcReplyPort<()>),
}

pub struct Root;

pub struct RootState {
    setup: DaemonSetup,
    services: Services,
    children: HashMap<ActorId, (Child, ActorCell)>,
    failures: HashMap<Child, VecDeque<Instant>>,
    database_lock: DatabaseLock,
}

impl Actor for Root {
    type Msg = RootMessage;
    type State = RootState;
    type Arguments = (DaemonSetup, Services);

    async fn pre_start(
        &self,
        me: ActorRef<RootMessage>,
        (setup, services): Self::Arguments,
    ) -> Result<RootState, ActorProcessingErr> {
        let root = me.clone();
        services.readers.on_damage(move |suspicion| {
            // A root that has stopped repairs nothing.
            let _ = root.send_message(RootMessage::Suspect(suspicion));
        });
        let (mut changes, root) = (services.config.changes(), me.clone());
        tokio::spawn(async move {
            while changes.changed().await.is_ok() {
                let config = Arc::clone(&changes.borrow_and_update());
                if root.send_message(RootMessage::Reconfigure(config)).is_err() {
                    return;
                }
            }
        });
        let mut state = RootState {
            setup,
            services,
            children: HashMap::new(),
            failures: HashMap::new(),
            database_lock: DatabaseLock::default(),
        };
        for child in CHILDREN {
            match (child, state.start(&me, child).await) {
                (Child::Indexer, Err(error)) => {
                    tracing::error!(%error, "cannot open the index");
                    state.failed(&me, child)?;
                }
                (_, started) => started?,
            }
        }
        Ok(state)
    }

    async fn handle(
        &self,
        me: ActorRef<RootMessage>,
        message: RootMessage,
        state: &mut RootState,
    ) -> Result<(), ActorProcessingErr> {
        match message {
            RootMessage::Restart(child) => state.restart(&me, child).await?,
            RootMessage::Suspect(suspicion) => {
                // Reports from before a repair are outdated.
                if suspicion.generation == state.services.readers.generation() {
                    state.repair(&me, suspicion.evidence, suspicion.why).await?;
                }
            }
            RootMessage::Reconfigure(config) => state.reconfigure(&me, config).await?,
            RootMessage::StopChild(child, gone) => {
                state.drain(child).await;
                let _ = gone.send(());
            }
        }
        Ok(())
    }

    async fn post_stop(
        &self,
        _me: ActorRef<RootMessage>,
        state: &mut RootState,
    ) -> Result<(), ActorProcessingErr> {
        // All publishers have stopped.
        state.services.bus.publish(BusEvent::Stopped);
        Ok(())
    }

    async fn handle_supervisor_evt(
        &self,
        me: ActorRef<RootMessage>,
        event: SupervisionEvent,
        state: &mut RootState,
    ) -> Result<(), ActorProcessingErr> {
        let (who, why, damage) = match event {
            SupervisionEvent::ActorFailed(who, error) => {
                (who, failure::reason(&error), error.downcast_ref::<DatabaseDamaged>().cloned())
            }
            SupervisionEvent::ActorTerminated(who, _, reason) => (who, reason.unwrap_or_default(), None),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        };
        match state.children.remove(&who.get_id()) {
            Some((child, _)) => {
                tracing::error!(?child, %why, "an actor failed");
                match damage {
                    Some(DatabaseDamaged(why)) => state.repair(&me, Evidence::Reported, why).await,
                    None => state.failed(&me, child),
                }
            }
            // The child was stopped on purpose.
            None => Ok(()),
        }
    }
}

/// How long a child may take to handle its queued messages.
const STOP_WITHIN: Duration = Duration::from_secs(10);

impl RootState {
    async fn start(&mut self, me: &ActorRef<RootMessage>, child: Child) -> Result<(), SpawnErr> {
        let (services, setup, root) = (&self.services, &self.setup, me.get_cell());
        let cell = match child {
            Child::Subscriber => {
                spawn(Subscriber, services.subscriber_arguments(), &services.subscriber, root).await
            }
            Child::Telemetry => {
                spawn(Telemetry, services.telemetry_arguments(), &services.telemetry, root).await
            }
            Child::Writer => {
                let arguments = services.writer_arguments(setup, self.database_lock.clone());
                spawn(Writer, arguments, services.ports.writer.handle(), root).await
            }
            Child::Indexer => {
                spawn(Indexer, services.indexer_arguments(setup), &services.ports.indexer, root).await
            }
            Child::Embedder => {
                spawn(EmbedderActor, services.embedder_arguments(setup), &services.embedder, root).await
            }
            Child::Sessions => {
                spawn(Sessions, services.session_context(), &services.ports.sessions, root).await
            }
            Child::Compression => {
                spawn(Compression, services.compressor_template(setup), &services.ports.compression, root)
                    .await
            }
            Child::Housekeeper => {
                spawn(Housekeeper, services.housekeeper_arguments(setup), &services.ports.housekeeper, root)
                    .await
            }
            Child::Sync => spawn(SyncActor, services.syncing.clone(), &services.sync, root).await,
        }?;
        self.children.insert(cell.get_id(), (child, cell));
        Ok(())
    }

    /// Restarts a child. Fails if the child has failed too often. The root then fails, and the daemon ends.
    async fn restart(&mut self, me: &ActorRef<RootMessage>, child: Child) -> Result<(), ActorProcessingErr> {
        if self.children.values().any(|(kind, _)| *kind == child) {
            // A repair has already started the child.
            return Ok(());
        }
        let Err(error) = self.start(me, child).await else { return Ok(()) };
        tracing::error!(?child, %error, "cannot restart an actor");
        let damage = match &error {
            SpawnErr::StartupFailed(cause) => cause.downcast_ref::<DatabaseDamaged>().cloned(),
            SpawnErr::ActorAlreadyStarted | SpawnErr::ActorAlreadyRegistered(_) => None,
        };
        match damage {
            Some(DatabaseDamaged(why)) => self.repair(me, Evidence::Reported, why).await,
            None => self.failed(me, child),
        }
    }

    /// Repairs a damaged database, and restarts all actors whose state depends on it. Their callers get BUSY
    /// meanwhile, so events go to the spool. The index notices on its own. Fails if there were too many repairs: the
    /// root then fails, and the daemon ends.
    async fn repair(
        &mut self,
        me: &ActorRef<RootMessage>,
        evidence: Evidence,
        why: String,
    ) -> Result<(), ActorProcessingErr> {
        let again = self.count_failure(Child::Writer)? > 1;
        // A database that looks sound and fails again is damaged.
        let evidence = if again && evidence == Evidence::Reported { Evidence::Proven } else { evidence };
        tracing::error!(%why, "repairing the database: it is replaced if damaged");
        for child in [Child::Compression, Child::Sessions, Child::Writer] {
            self.stop(child).await;
        }
        match self.database_lock.claim(STOP_WITHIN).await {
            // The daemon ends.
            _ if self.setup.holding.check().is_err() => {
                tracing::error!("another daemon has taken over the database")
            }
            Some(only) => {
                // Readers have seen everything up to here; later changes are new to them.
                self.services.readers.renew();
                let site = RepairSite {
                    database: self.setup.database.clone(),
                    backups: self.setup.backups.clone(),
                    note: self.setup.repair_note.clone(),
                };
                let (readers, at) = (self.services.readers.clone(), clock::now());
                let repair = move || recall_store::repair(&site, &readers, evidence, &why, at);
                let outcome = tokio::task::spawn_blocking(repair).await;
                match outcome {
                    Ok(Ok(RepairOutcome::Sound)) => tracing::warn!("no damage found in the database"),
                    Ok(Ok(RepairOutcome::Repaired(repair))) => tracing::error!(
                        damaged = %repair.damaged.display(),
                        restored = repair.restored.as_ref().map(|backup| tracing::field::display(backup.display())),
                        "replaced the database"
                    ),
                    Ok(Err(error)) => tracing::error!(%error, "cannot repair the database"),
                    Err(_) => tracing::error!("the repair of the database panicked"),
                }
                drop(only);
            }
            None => tracing::error!("cannot repair the database: the writer still has it open"),
        }
        self.start_again(me, Child::Writer).await?;
        self.release_leases();
        self.start_again(me, Child::Sessions).await?;
        self.start_again(me, Child::Compression).await
    }

    async fn start_again(
        &mut self,
        me: &ActorRef<RootMessage>,
        child: Child,
    ) -> Result<(), ActorProcessingErr> {
        let Err(error) = self.start(me, child).await else { return Ok(()) };
        tracing::error!(?child, %error, "cannot start an actor again");
        self.failed(me, child)
    }

    /// Restarts the actors affected by a configuration change. Callers of a restarting actor get BUSY, so events go to
    /// the spool.
    async fn reconfigure(
        &mut self,
        me: &ActorRef<RootMessage>,
        config: Arc<Config>,
    ) -> Result<(), ActorProcessingErr> {
        let before = self.services.config.get();
        if before.compression != config.compression {
            match recall_compression::compressor(&config.compression, &tokio::runtime::Handle::current()) {
                Ok(compressor) => self.setup.compressor = compressor,
                Err(error) => tracing::error!(%error, "cannot apply a change of [compression]"),
            }
        }
        let concerned = concerned(&before, &config);
        for child in concerned.iter().rev() {
            self.drain(*child).await;
        }
        self.services.config.set_in_force(config);
        for child in &concerned {
            if *child == Child::Compression {
                self.release_leases();
                self.wake_retries();
            }
            self.start_again(me, *child).await?;
        }
        self.services.config.set_applied();
        tracing::info!(restarted = ?concerned, "applied a change of the configuration");
        Ok(())
    }

    /// Returns the jobs of stopped compressors to the queue before new leases are granted.
    fn release_leases(&self) {
        let released = self.services.ports.writer.queue(ReleaseLeases);
        tokio::spawn(async move {
            match released.await {
                Ok(released) => released.log(),
                Err(error) => tracing::warn!(%error, "cannot release the leases of stopped compressors"),
            }
        });
    }

    /// Immediately retries jobs that were waiting for the previous model.
    fn wake_retries(&self) {
        let woken = self.services.ports.writer.queue(WakeRetries);
        tokio::spawn(async move {
            if let Err(error) = woken.await {
                tracing::warn!(%error, "cannot wake the jobs that wait for a model");
            }
        });
    }

    /// Stops a child after it has handled its queued messages.
    async fn drain(&mut self, child: Child) {
        let cell = self.children.values().find(|(kind, _)| *kind == child).map(|(_, cell)| cell.clone());
        if let Some(cell) = cell {
            self.children.remove(&cell.get_id());
            let _ = cell.drain_and_wait(Some(STOP_WITHIN)).await;
        }
    }

    /// Stops a child immediately. Callers of queued messages get no reply.
    async fn stop(&mut self, child: Child) {
        let cell = self.children.values().find(|(kind, _)| *kind == child).map(|(_, cell)| cell.clone());
        if let Some(cell) = cell {
            self.children.remove(&cell.get_id());
            let _ = cell.stop_and_wait(None, Some(STOP_WITHIN)).await;
        }
    }

    /// Schedules a restart. Fails if the child has failed too often: the root then fails, and the daemon ends.
    fn failed(&mut self, me: &ActorRef<RootMessage>, child: Child) -> Result<(), ActorProcessingErr> {
        let failures = self.count_failure(child)?;
        me.send_after(restart_delay(failures), move || RootMessage::Restart(child));
        Ok(())
    }

    /// Counts a failure. Returns how often the child failed in the last minute. Fails if that is too often for an
    /// essential child.
    fn count_failure(&mut self, child: Child) -> Result<usize, ActorProcessingErr> {
        let now = Instant::now();
        let failures = self.failures.entry(child).or_default();
        failures.push_back(now);
        while failures.front().is_some_and(|first| now.duration_since(*first) > FAILURE_WINDOW) {
            failures.pop_front();
        }
        if failures.len() >= MOST_FAILURES
            && !matches!(
                child,
                Child::Indexer | Child::Embedder | Child::Subscriber | Child::Sync | Child::Telemetry
            )
        {
            return Err(format!("{child:?} keeps failing").into());
        }
        Ok(failures.len())
    }
}

/// Returns the children whose settings differ, in start order.
fn concerned(before: &Config, now: &Config) -> Vec<Child> {
    let timers = (before.idle, before.housekeeping_s, before.retention_days)
        != (now.idle, now.housekeeping_s, now.retention_days);
    let is_concerned = |child: &Child| match child {
        Child::Subscriber => before.subscriptions != now.subscriptions,
        Child::Telemetry => before.otlp_endpoint != now.otlp_endpoint,
        Child::Writer => before.durability != now.durability,
        Child::Indexer => false,
        // The embedder's calls count towards the caps of both.
        Child::Embedder => {
            before.embedding != now.embedding || before.compression.caps != now.compression.caps
        }
        Child::Sessions => timers || before.capture != now.capture,
        Child::Compression => before.compression != now.compression,
        Child::Housekeeper => timers,
        Child::Sync => before.sharing != now.sharing,
    };
    CHILDREN.into_iter().filter(is_concerned).collect()
}

/// Starts an actor under its supervisor and sets its handle.
async fn spawn<A: Actor>(
    actor: A,
    arguments: A::Arguments,
    handle: &ActorHandle<A::Msg>,
    supervisor: ActorCell,
) -> Result<ActorCell, SpawnErr> {
    let (started, _) = Actor::spawn_linked(None, actor, arguments, supervisor).await?;
    handle.set(started.clone());
    Ok(started.get_cell())
}

/// Returns 0 the first time, then 400 ms, 800 ms ... at most 5 s.
fn restart_delay(failures: usize) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => Duration::from_millis(100 << more.min(6)),
    }
    .min(Duration::from_secs(5))
}

/// Stops the tree from the top down. Each child first handles its queued messages.
pub async fn stop(root: &ActorRef<RootMessage>) {
    for child in CHILDREN.iter().rev() {
        let (port, gone) = ractor::concurrency::oneshot();
        if root.send_message(RootMessage::StopChild(*child, port.into())).is_err() {
            return;
        }
        let _ = tokio::time::timeout(STOP_WITHIN, gone).await;
    }
    let _ = root.stop_and_wait(None, Some(STOP_WITHIN)).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn restart_delays_grow_up_to_five_seconds() {
        let delays: Vec<u128> =
            [0, 1, 2, 3, 4, 99].map(|failures| restart_delay(failures).as_millis()).to_vec();
        assert_eq!(delays, [0, 0, 400, 800, 1600, 5000]);
    }
}
