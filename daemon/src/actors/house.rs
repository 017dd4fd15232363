//! What the tree is made of: its plan, its doors, and what each actor is given to start with.
//!
//! The root supervises; here stands who knows whom.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use recall_protocol::spool::Spool;

use super::ancestry::Ancestry;
use super::boundaries::Boundaries;
use super::bus::BusHandle;
use super::checkouts::Checkouts;
use super::clock;
use super::compression::CompressionDoor;
use super::compressor::CompressorArguments;
use super::forgetting::{BackingUp, Forgetting};
use super::hearing::Answers;
use super::housekeeper::{HousekeeperArguments, HousekeeperDoor};
use super::indexer::{IndexerArguments, IndexerDoor};
use super::intake::{Counters, Intake};
use super::maintenance::Maintenance;
use super::pause::PauseSwitch;
use super::recollection::{IndexDoor, Recollection, answer_within};
use super::replies::Replies;
use super::session::SessionContext;
use super::sessions::{Crashes, SessionsDoor};
use super::settings::{CurrentRedactor, Settings, SettingsFiles};
use super::subscriber::SubscriberDoor;
use super::writer::{FirstConnection, OnlyWriter, WriterArguments, WriterHandle};
use crate::compression::Compressor;
use crate::config::{Config, Loaded, Subscription};
use crate::memory::ids::Timestamp;
use crate::memory::redaction::Redactor;
use crate::store::{Duty, Readers};

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
    /// Empty where nobody has looked at the database before.
    pub first_connection: FirstConnection,
    pub spool: Spool,
    pub config: Loaded,
    /// Where the configuration is read from again; `None`: nowhere.
    pub settings: Option<SettingsFiles>,
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
        let config = &blueprint.config.config;
        let redactor = CurrentRedactor::new(Arc::clone(&blueprint.redactor));
        let boundaries = Boundaries::new(&config.excluded);
        let settings = Settings::new(
            blueprint.settings.clone(),
            &blueprint.config,
            redactor.clone(),
            boundaries.clone(),
        );
        let intake = Intake {
            sessions: sessions.clone(),
            writer: writer.clone(),
            crashes: Crashes::default(),
            redactor,
            counters: Arc::new(Counters::default()),
            pauses: PauseSwitch::load(&blueprint.pause_note),
            boundaries,
            settings: settings.clone(),
        };
        let indexer = IndexerDoor::default();
        let recollection = Recollection {
            readers: readers.clone(),
            index: IndexDoor::default(),
            indexer: indexer.clone(),
            ancestry: Ancestry::default(),
            budgets: config.budgets,
            notice: config.notice,
            settings,
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
            checkouts: Checkouts::new(writer.clone(), intake.redactor.clone()),
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
            config: config.clone(),
            backend: blueprint.compressor.origin(),
            heard_since: clock::now(),
        }
    }

    pub(super) fn subscriber_arguments(&self) -> (Vec<Subscription>, BusHandle) {
        (self.config.subscriptions.clone(), self.bus.clone())
    }

    pub(super) fn writer_arguments(&self, blueprint: &Blueprint, only: OnlyWriter) -> WriterArguments {
        WriterArguments {
            database: blueprint.database.clone(),
            backups: blueprint.backups.clone(),
            durability: self.config.durability,
            bus: self.bus.clone(),
            only,
            first: blueprint.first_connection.clone(),
        }
    }

    pub(super) fn indexer_arguments(&self, blueprint: &Blueprint) -> IndexerArguments {
        IndexerArguments {
            folder: blueprint.index_folder.clone(),
            readers: self.readers.clone(),
            writer: self.writer.clone(),
            door: self.recollection.index.clone(),
            bus: self.bus.clone(),
        }
    }

    pub(super) fn session_context(&self) -> SessionContext {
        SessionContext {
            checkouts: self.checkouts.clone(),
            answers: self.answers.clone(),
            counters: Arc::clone(&self.intake.counters),
            writer: self.writer.clone(),
            recollection: self.recollection.clone(),
            crashes: self.intake.crashes.clone(),
            capture: self.config.capture.clone(),
            idle: self.config.idle,
            heard_since: self.heard_since,
            replies: Replies::new(self.intake.redactor.clone()),
            redactor: self.intake.redactor.clone(),
        }
    }

    /// Each compressor gets a name and a duty of its own.
    pub(super) fn compressor_template(&self, blueprint: &Blueprint) -> CompressorArguments {
        CompressorArguments {
            worker: String::new(),
            duty: Duty::All,
            writer: self.writer.clone(),
            readers: self.readers.clone(),
            bus: self.bus.clone(),
            compressor: Arc::clone(&blueprint.compressor),
            policy: self.config.compression.clone(),
            supervisor: self.compression.clone(),
        }
    }

    pub(super) fn housekeeper_arguments(&self, blueprint: &Blueprint) -> HousekeeperArguments {
        HousekeeperArguments {
            spool: self.spool.clone(),
            intake: self.intake.clone(),
            readers: self.readers.clone(),
            idle: self.config.idle,
            heard_since: self.heard_since,
            every: Duration::from_secs(self.config.housekeeping_s),
            maintenance: Maintenance {
                database: blueprint.database.clone(),
                backups: blueprint.backups.clone(),
                readers: self.readers.clone(),
                writer: self.writer.clone(),
                forgetting: self.forgetting.clone(),
                retention_days: self.config.retention_days,
            },
        }
    }
}
