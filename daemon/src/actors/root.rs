//! The root of the tree: starts everything in order and restarts what fails.
//!
//! Children are started from the ground up, so that each finds behind its doors what it needs. One that fails is
//! started again behind the same door, at once the first time and then ever slower; five failures of the same child
//! within a minute mean that restarting does not help, and the daemon ends for its service manager to see.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorCell, ActorId, ActorProcessingErr, ActorRef, SpawnErr, SupervisionEvent};
use recall_protocol::spool::Spool;
use tokio::time::Instant;

use super::bus::{Bus, BusHandle};
use super::compression::{Compression, CompressionDoor};
use super::compressor::CompressorArguments;
use super::housekeeper::{Housekeeper, HousekeeperArguments, HousekeeperDoor};
use super::indexer::{Indexer, IndexerArguments, IndexerDoor};
use super::intake::{Counters, Intake};
use super::recollection::{IndexDoor, Recollection, answer_within};
use super::session::SessionContext;
use super::sessions::{Crashes, Sessions, SessionsDoor};
use super::writer::{Writer, WriterArguments, WriterHandle};
use crate::compression::Compressor;
use crate::config::Config;
use crate::memory::redaction::Redactor;
use crate::store::Readers;

const FAILURE_WINDOW: Duration = Duration::from_secs(60);
const MOST_FAILURES: usize = 5;

/// What the tree is started with.
#[derive(Clone)]
pub struct Blueprint {
    pub database: PathBuf,
    pub backups: PathBuf,
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
    pub intake: Intake,
    pub recollection: Recollection,
    pub readers: Readers,
    pub spool: Spool,
    pub config: Config,
    pub backend: String,
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
        };
        let recollection = Recollection {
            readers: readers.clone(),
            index: IndexDoor::default(),
            budgets: blueprint.config.budgets,
            notice: blueprint.config.notice,
            answer_within: answer_within(),
        };
        Self {
            writer,
            bus: BusHandle::default(),
            indexer: IndexerDoor::default(),
            sessions,
            compression: CompressionDoor::default(),
            housekeeper: HousekeeperDoor::default(),
            intake,
            recollection,
            readers,
            spool: blueprint.spool.clone(),
            config: blueprint.config.clone(),
            backend: blueprint.compressor.origin(),
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
}

/// In the order in which they are started; they are stopped the other way round.
const CHILDREN: [Child; 6] =
    [Child::Bus, Child::Writer, Child::Indexer, Child::Sessions, Child::Compression, Child::Housekeeper];

pub enum RootMessage {
    /// A failed child's turn to be started again has come.
    Restart(Child),
    /// Stop a child and answer when it is gone.
    StopChild(Child, ractor::RpcReplyPort<()>),
}

pub struct Root;

pub struct RootState {
    blueprint: Blueprint,
    house: House,
    children: HashMap<ActorId, (Child, ActorCell)>,
    failures: HashMap<Child, VecDeque<Instant>>,
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
        let mut state = RootState { blueprint, house, children: HashMap::new(), failures: HashMap::new() };
        for child in CHILDREN {
            state.start(&me, child).await?;
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
            RootMessage::Restart(child) => {
                if let Err(error) = state.start(&me, child).await {
                    tracing::error!(?child, %error, "cannot be started again");
                    state.failed(&me, child)?;
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
        let (who, why) = match event {
            SupervisionEvent::ActorFailed(who, error) => (who, error.to_string()),
            SupervisionEvent::ActorTerminated(who, _, reason) => (who, reason.unwrap_or_default()),
            SupervisionEvent::ActorStarted(_) | SupervisionEvent::ProcessGroupChanged(_) => return Ok(()),
        };
        match state.children.remove(&who.get_id()) {
            Some((child, _)) => {
                tracing::error!(?child, %why, "failed");
                state.failed(&me, child)
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
                    writer: house.writer.clone(),
                    bus: house.bus.clone(),
                    recollection: house.recollection.clone(),
                    crashes: house.intake.crashes.clone(),
                    capture: house.config.capture.clone(),
                    idle: house.config.idle,
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
                    every: Duration::from_secs(house.config.housekeeping_s),
                };
                let (actor, _) = Actor::spawn_linked(None, Housekeeper, arguments, supervisor).await?;
                house.housekeeper.open_to(actor.clone());
                actor.get_cell()
            }
        };
        self.children.insert(cell.get_id(), (child, cell));
        Ok(())
    }

    /// # Errors
    /// When restarting does not help: the root fails, and with it the daemon.
    fn failed(&mut self, me: &ActorRef<RootMessage>, child: Child) -> Result<(), ActorProcessingErr> {
        let now = Instant::now();
        let failures = self.failures.entry(child).or_default();
        failures.push_back(now);
        while failures.front().is_some_and(|first| now.duration_since(*first) > FAILURE_WINDOW) {
            failures.pop_front();
        }
        if failures.len() >= MOST_FAILURES {
            return Err(format!("{child:?} keeps failing").into());
        }
        me.send_after(restart_delay(failures.len()), move || RootMessage::Restart(child));
        Ok(())
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
