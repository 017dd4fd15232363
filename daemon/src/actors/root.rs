//! The root of the tree: starts everything in order and restarts what fails.
//!
//! Children are started from the ground up, so that each finds behind its doors what it needs. One that fails is
//! started again behind the same door, at once the first time and then ever slower; five failures of the same child
//! within a minute mean that restarting does not help, and the daemon ends for its service manager to see. The
//! indexer and the subscriber are tried for ever instead: without them search is poorer or the user's commands do not
//! run, and capturing goes on.
//!
//! A damaged database is repaired here, because everybody who holds part of it must let go first: see [`RootState::heal`].

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use recall_protocol::spool::Spool;
use tokio::time::Instant;

use super::ancestry::Ancestry;
use super::boundaries::Boundaries;
use super::bus::{Bus, BusHandle};
use super::checkouts::Checkouts;
use super::clock;
use super::compression::{Compression, CompressionDoor};
use super::compressor::CompressorArguments;
use super::failure;
use super::forgetting::{BackingUp, Forgetting};
use super::hearing::Answers;
use super::housekeeper::{Housekeeper, HousekeeperArguments, HousekeeperDoor};
use super::indexer::{Indexer, IndexerArguments, IndexerDoor};
use super::intake::{Counters, Intake};
use super::maintenance::Maintenance;
use super::pause::PauseSwitch;
use super::recollection::{IndexDoor, Recollection, answer_within};
use super::replies::Replies;
use super::session::SessionContext;
use super::sessions::{Crashes, Sessions, SessionsDoor};
use super::subscriber::{Subscriber, SubscriberDoor};
use super::writer::{DatabaseDamaged, OnlyWriter, Writer, WriterArguments, WriterHandle};
use crate::compression::Compressor;
use crate::config::Config;
use crate::memory::ids::Timestamp;
use crate::memory::redaction::Redactor;
use crate::store::{self, Evidence, Outcome, Readers, RepairSite, Suspicion, Write};

const FAILURE_WINDOW: Duration = Duration::from_secs(60);
const MOST_FAILURES: usize = 5;

/// What the tree is started with.
#[derive(Clone)]
pub struct Blueprint {
    pub database: PathBuf,
    pub backups: PathBuf,
    /// Where repairs of the database are remembered.
    pub repair_note: PathBuf,
    /// Where pauses are remembered.
    pub pause_note: PathBuf,
    pub index_folder: PathBuf,
    pub spool: Spool,
    pub config: Config,
    /// Built from the config, whose patterns may be wrong: the tree itself starts with one that is right.
    pub redactor: Arc<Redactor>,
    pub compressor: Arc<dyn Compressor>,
}

/// The doors of the tree: all that the rooms above need of it. Cheap to clone.
#[derive(Clone)]
pub struct House {
    pub writer: WriterHandle,
    pub bus: BusHandle,
    pub indexer: IndexerDoor,
    pub sessions: SessionsDoor,
    pub compression: CompressionDoor,
    pub housekeeper: HousekeeperDoor,
    pub subscriber: SubscriberDoor,
    pub intake: Intake,
    pub recollection: Recollection,
    pub checkouts: Checkouts,
    pub answers: Answers,
    pub forgetting: Forgetting,
    pub readers: Readers,
    pub spool: Spool,
    pub config: Config,
    pub backend: String,
    /// When the daemon began to hear of sessions.
    pub heard_since: Timestamp,
}

impl House {
    pub fn new(blueprint: &Blueprint) -> Self {
        let readers = Readers::new(&blueprint.database);
        let (writer, sessions) = (WriterHandle::default(), SessionsDoor::default());
        let intake = Intake {
            sessions: sessions.clone(),
            writer: writer.clone(),
            crashes: Crashes::default(),
            redactor: Arc::clone(&blueprint.redactor),
            counters: Arc::new(Counters::default()),
            pauses: PauseSwitch::load(&blueprint.pause_note),
            boundaries: Boundaries::new(&blueprint.config.excluded),
        };
        let indexer = IndexerDoor::default();
        let recollection = Recollection {
            readers: readers.clone(),
            index: IndexDoor::default(),
            indexer: indexer.clone(),
            ancestry: Ancestry::default(),
            budgets: blueprint.config.budgets,
            notice: blueprint.config.notice,
            answer_within: answer_within(),
        };
        let housekeeper = HousekeeperDoor::default();
        let forgetting = Forgetting {
            writer: writer.clone(),
            indexer: indexer.clone(),
            sessions: sessions.clone(),
            housekeeper: housekeeper.clone(),
            readers: readers.clone(),
            spool: blueprint.spool.clone(),
            database: blueprint.database.clone(),
            backups: blueprint.backups.clone(),
            backing_up: BackingUp::default(),
        };
        Self {
            checkouts: Checkouts::new(writer.clone()),
            answers: Answers::default(),
            writer,
            bus: BusHandle::default(),
            indexer,
            sessions,
            compression: CompressionDoor::default(),
            housekeeper,
            subscriber: SubscriberDoor::default(),
            intake,
            recollection,
            forgetting,
            readers,
            spool: blueprint.spool.clone(),
            config: blueprint.config.clone(),
            backend: blueprint.compressor.origin(),
            heard_since: clock::now(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Child {
    Bus,
    Writer,
    Indexer,
    Sessions,
    Compression,
    Housekeeper,
    Subscriber,
}

/// In the order in which they are started; they are stopped the other way round.
const CHILDREN: [Child; 7] = [
    Child::Bus,
    Child::Subscriber,
    Child::Writer,
    Child::Indexer,
    Child::Sessions,
    Child::Compression,
    Child::Housekeeper,
];

pub enum RootMessage {
    /// A failed child's turn to be started again has come.
    Restart(Child),
    /// Somebody has read what cannot have been written.
    Suspect(Suspicion),
    /// Stop a child and answer when it is gone.
    StopChild(Child, ractor::RpcReplyPort<()>),
}

pub struct Root;

pub struct RootState {
    blueprint: Blueprint,
    house: House,
    children: HashMap<ActorId, (Child, ActorCell)>,
    failures: HashMap<Child, VecDeque<Instant>>,
    only_writer: OnlyWriter,
}

impl Actor for Root {
    type Msg = RootMessage;
    type State = RootState;
    type Arguments = (Blueprint, House);

    async fn pre_start(
        &self,
        me: ActorRef<RootMessage>,
        (blueprint, house): Self::Arguments,
    ) -> Result<RootState, ActorProcessingErr> {
        let root = me.clone();
        house.readers.on_damage(move |suspicion| {
            // A root that is gone repairs nothing.
            let _ = root.send_message(RootMessage::Suspect(suspicion));
        });
        let mut state = RootState {
            blueprint,
            house,
            children: HashMap::new(),
            failures: HashMap::new(),
            only_writer: OnlyWriter::default(),
        };
        for child in CHILDREN {
            match (child, state.start(&me, child).await) {
                (Child::Indexer, Err(error)) => {
                    tracing::error!(%error, "the index cannot be opened");
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
                // What was told of the database before this one is settled.
                if suspicion.generation == state.house.readers.generation() {
                    state.heal(&me, suspicion.evidence, suspicion.why).await?;
                }
            }
            RootMessage::StopChild(child, gone) => {
                let cell =
                    state.children.values().find(|(kind, _)| *kind == child).map(|(_, cell)| cell.clone());
                if let Some(cell) = cell {
                    state.children.remove(&cell.get_id());
                    let _ = cell.drain_and_wait(Some(STOP_WITHIN)).await;
                }
                let _ = gone.send(());
            }
        }
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
                tracing::error!(?child, %why, "failed");
                match damage {
                    Some(DatabaseDamaged(why)) => state.heal(&me, Evidence::Reported, why).await,
                    None => state.failed(&me, child),
                }
            }
            // It was stopped on purpose.
            None => Ok(()),
        }
    }
}

/// How long a child may take to handle what it has.
const STOP_WITHIN: Duration = Duration::from_secs(10);

impl RootState {
    async fn start(&mut self, me: &ActorRef<RootMessage>, child: Child) -> Result<(), SpawnErr> {
        let supervisor = me.get_cell();
        let house = &self.house;
        let cell = match child {
            Child::Bus => {
                let (actor, _) = Actor::spawn_linked(None, Bus, house.bus.clone(), supervisor).await?;
                house.bus.door().open_to(actor.clone());
                actor.get_cell()
            }
            Child::Writer => {
                let arguments = WriterArguments {
                    database: self.blueprint.database.clone(),
                    backups: self.blueprint.backups.clone(),
                    durability: house.config.durability,
                    bus: house.bus.clone(),
                    only: self.only_writer.clone(),
                };
                let (actor, _) = Actor::spawn_linked(None, Writer, arguments, supervisor).await?;
                house.writer.door().open_to(actor.clone());
                actor.get_cell()
            }
            Child::Indexer => {
                let arguments = IndexerArguments {
                    folder: self.blueprint.index_folder.clone(),
                    readers: house.readers.clone(),
                    writer: house.writer.clone(),
                    door: house.recollection.index.clone(),
                    bus: house.bus.clone(),
                };
                let (actor, _) = Actor::spawn_linked(None, Indexer, arguments, supervisor).await?;
                house.indexer.open_to(actor.clone());
                actor.get_cell()
            }
            Child::Sessions => {
                let context = SessionContext {
                    checkouts: house.checkouts.clone(),
                    answers: house.answers.clone(),
                    counters: Arc::clone(&house.intake.counters),
                    writer: house.writer.clone(),
                    recollection: house.recollection.clone(),
                    crashes: house.intake.crashes.clone(),
                    capture: house.config.capture.clone(),
                    idle: house.config.idle,
                    heard_since: house.heard_since,
                    replies: Replies::new(Arc::clone(&self.blueprint.redactor)),
                };
                let (actor, _) = Actor::spawn_linked(None, Sessions, context, supervisor).await?;
                house.sessions.open_to(actor.clone());
                actor.get_cell()
            }
            Child::Compression => {
                let template = CompressorArguments {
                    worker: String::new(),
                    writer: house.writer.clone(),
                    readers: house.readers.clone(),
                    bus: house.bus.clone(),
                    compressor: Arc::clone(&self.blueprint.compressor),
                    policy: house.config.compression.clone(),
                    supervisor: house.compression.clone(),
                };
                let (actor, _) = Actor::spawn_linked(None, Compression, template, supervisor).await?;
                house.compression.open_to(actor.clone());
                actor.get_cell()
            }
            Child::Housekeeper => {
                let arguments = HousekeeperArguments {
                    spool: house.spool.clone(),
                    intake: house.intake.clone(),
                    readers: house.readers.clone(),
                    idle: house.config.idle,
                    heard_since: house.heard_since,
                    every: Duration::from_secs(house.config.housekeeping_s),
                    maintenance: Maintenance {
                        database: self.blueprint.database.clone(),
                        backups: self.blueprint.backups.clone(),
                        readers: house.readers.clone(),
                        writer: house.writer.clone(),
                        forgetting: house.forgetting.clone(),
                        retention_days: house.config.retention_days,
                    },
                };
                let (actor, _) = Actor::spawn_linked(None, Housekeeper, arguments, supervisor).await?;
                house.housekeeper.open_to(actor.clone());
                actor.get_cell()
            }
            Child::Subscriber => {
                let arguments = (house.config.subscriptions.clone(), house.bus.clone());
                let (actor, _) = Actor::spawn_linked(None, Subscriber, arguments, supervisor).await?;
                house.subscriber.open_to(actor.clone());
                actor.get_cell()
            }
        };
        self.children.insert(cell.get_id(), (child, cell));
        Ok(())
    }

    /// # Errors
    /// When restarting does not help: the root fails, and with it the daemon.
    async fn restart(&mut self, me: &ActorRef<RootMessage>, child: Child) -> Result<(), ActorProcessingErr> {
        if self.children.values().any(|(kind, _)| *kind == child) {
            // A repair has started it meanwhile.
            return Ok(());
        }
        let Err(error) = self.start(me, child).await else { return Ok(()) };
        tracing::error!(?child, %error, "cannot be started again");
        let damage = match &error {
            SpawnErr::StartupFailed(cause) => cause.downcast_ref::<DatabaseDamaged>().cloned(),
            SpawnErr::ActorAlreadyStarted | SpawnErr::ActorAlreadyRegistered(_) => None,
        };
        match damage {
            Some(DatabaseDamaged(why)) => self.heal(me, Evidence::Reported, why).await,
            None => self.failed(me, child),
        }
    }

    /// Has a damaged database replaced. Everybody whose state follows from it starts anew; their callers are told
    /// BUSY meanwhile, so that events go to the spool. The index finds out by itself.
    ///
    /// # Errors
    /// When it had to be done too often: the root fails, and with it the daemon.
    async fn heal(
        &mut self,
        me: &ActorRef<RootMessage>,
        evidence: Evidence,
        why: String,
    ) -> Result<(), ActorProcessingErr> {
        let again = self.count_failure(Child::Writer)? > 1;
        // A database that looks sound and fails again is not.
        let evidence = if again { Evidence::Proven } else { evidence };
        tracing::error!(%why, "the database seems damaged");
        for child in [Child::Compression, Child::Sessions, Child::Writer] {
            self.stop(child).await;
        }
        match self.only_writer.claim(STOP_WITHIN).await {
            Some(only) => {
                self.house.readers.renew();
                let site = RepairSite {
                    database: self.blueprint.database.clone(),
                    backups: self.blueprint.backups.clone(),
                    note: self.blueprint.repair_note.clone(),
                };
                let at = clock::now();
                let outcome =
                    tokio::task::spawn_blocking(move || store::repair(&site, evidence, &why, at)).await;
                match outcome {
                    Ok(Ok(Outcome::Sound)) => tracing::warn!("the database is sound after all"),
                    Ok(Ok(Outcome::Repaired(repair))) => tracing::error!(
                        damaged = %repair.damaged.display(),
                        restored = repair.restored.as_ref().map(|backup| tracing::field::display(backup.display())),
                        "the database was replaced"
                    ),
                    Ok(Err(error)) => tracing::error!(%error, "the database cannot be repaired"),
                    Err(_) => tracing::error!("repairing the database panicked"),
                }
                // Who has opened it in between has opened either.
                self.house.readers.renew();
                drop(only);
            }
            None => tracing::error!("the writer does not let go of the database"),
        }
        for child in [Child::Writer, Child::Sessions, Child::Compression] {
            if let Err(error) = self.start(me, child).await {
                tracing::error!(?child, %error, "cannot be started after the repair");
                self.failed(me, child)?;
            }
        }
        let released = self.house.writer.queue(Write::ReleaseLeases);
        tokio::spawn(async move {
            if let Err(error) = released.await {
                tracing::warn!(%error, "leases of before the repair wait until they expire");
            }
        });
        Ok(())
    }

    /// Stops a child at once; what waits in its mailbox gets no answer.
    async fn stop(&mut self, child: Child) {
        let cell = self.children.values().find(|(kind, _)| *kind == child).map(|(_, cell)| cell.clone());
        if let Some(cell) = cell {
            self.children.remove(&cell.get_id());
            let _ = cell.stop_and_wait(None, Some(STOP_WITHIN)).await;
        }
    }

    /// # Errors
    /// When restarting does not help: the root fails, and with it the daemon.
    fn failed(&mut self, me: &ActorRef<RootMessage>, child: Child) -> Result<(), ActorProcessingErr> {
        let failures = self.count_failure(child)?;
        me.send_after(restart_delay(failures), move || RootMessage::Restart(child));
        Ok(())
    }

    /// How often it has failed in the last minute.
    ///
    /// # Errors
    /// When that is too often for a child that the daemon cannot do without.
    fn count_failure(&mut self, child: Child) -> Result<usize, ActorProcessingErr> {
        let now = Instant::now();
        let failures = self.failures.entry(child).or_default();
        failures.push_back(now);
        while failures.front().is_some_and(|first| now.duration_since(*first) > FAILURE_WINDOW) {
            failures.pop_front();
        }
        if failures.len() >= MOST_FAILURES && !matches!(child, Child::Indexer | Child::Subscriber) {
            return Err(format!("{child:?} keeps failing").into());
        }
        Ok(failures.len())
    }
}

/// At once the first time, then 400 ms, 800 ms ... at most 5 s.
fn restart_delay(failures: usize) -> Duration {
    match failures {
        0 | 1 => Duration::ZERO,
        more => Duration::from_millis(100 << more.min(6)),
    }
    .min(Duration::from_secs(5))
}

/// Stops the tree from the top down; each child first handles what it has.
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
    fn restarts_slow_down() {
        let delays: Vec<u128> =
            [0, 1, 2, 3, 4, 99].map(|failures| restart_delay(failures).as_millis()).to_vec();
        assert_eq!(delays, [0, 0, 400, 800, 1600, 5000]);
    }
}
