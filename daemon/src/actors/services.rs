//! What the tree is made of: its plan, its doors, and what each actor is given to start with.
//!
//! The root supervises; here stands who knows whom.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use recall_protocol::spool::Spool;

use super::compression::{CompressionHandle, CompressionMessage};
use super::compressor::CompressorArguments;
use super::housekeeper::HousekeeperArguments;
use super::housekeeper_message::HousekeeperHandle;
use super::indexer::{IndexerArguments, IndexerHandle, IndexerMessage};
use super::ports::ActorPorts;
use super::session_context::SessionContext;
use super::sessions::SessionsHandle;
use super::subscriber::SubscriberHandle;
use super::writer::{DatabaseLock, FirstConnection, WriterArguments, WriterHandle};
use crate::app::ancestry::Ancestry;
use crate::app::bus::Bus;
use crate::app::capture_rules::CaptureRules;
use crate::app::checkouts::Checkouts;
use crate::app::clock;
use crate::app::context_lookup::{ContextLookup, answer_within};
use crate::app::crashes::Crashes;
use crate::app::forgetting::{BackingUp, Forgetting};
use crate::app::index_handle::IndexHandle;
use crate::app::ingest::{Counters, Ingest};
use crate::app::injection_receipt::PendingAnswers;
use crate::app::maintenance::Maintenance;
use crate::app::pause::PauseSwitch;
use crate::app::settings::{CurrentRedactor, Settings, SettingsFiles};
use crate::app::transcript_replies::TranscriptReplies;
use crate::compression::Compressor;
use crate::config::{Config, Loaded, Subscription};
use crate::memory::ids::Timestamp;
use crate::memory::redaction::Redactor;
use crate::store::{Duty, Readers};

/// What the tree is started with.
#[derive(Clone)]
pub struct DaemonSetup {
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
pub struct Services {
    pub writer: WriterHandle,
    pub bus: Bus,
    pub indexer: IndexerHandle,
    pub sessions: SessionsHandle,
    pub compression: CompressionHandle,
    pub housekeeper: HousekeeperHandle,
    pub subscriber: SubscriberHandle,
    pub ingest: Ingest<ActorPorts>,
    pub context_lookup: ContextLookup,
    pub checkouts: Checkouts<WriterHandle>,
    pub answers: PendingAnswers,
    pub forgetting: Forgetting<ActorPorts>,
    pub readers: Readers,
    pub spool: Spool,
    pub config: Config,
    pub backend: String,
    /// When the daemon began to hear of sessions.
    pub heard_since: Timestamp,
}

impl Services {
    pub fn new(setup: &DaemonSetup) -> Self {
        let readers = Readers::new(&setup.database);
        let (writer, sessions) = (WriterHandle::default(), SessionsHandle::default());
        let config = &setup.config.config;
        let redactor = CurrentRedactor::new(Arc::clone(&setup.redactor));
        let capture_rules = CaptureRules::new(&config.excluded);
        let settings =
            Settings::new(setup.settings.clone(), &setup.config, redactor.clone(), capture_rules.clone());
        let (indexer, housekeeper) = (IndexerHandle::default(), HousekeeperHandle::default());
        let ports = ActorPorts {
            writer: writer.clone(),
            sessions: sessions.clone(),
            indexer: indexer.clone(),
            housekeeper: housekeeper.clone(),
        };
        let ingest = Ingest {
            ports: ports.clone(),
            crashes: Crashes::default(),
            redactor,
            counters: Arc::new(Counters::default()),
            pauses: PauseSwitch::load(&setup.pause_note),
            capture_rules,
            settings: settings.clone(),
        };
        let suspected = indexer.clone();
        let on_suspicion = move || {
            // An indexer that is not there looks when it starts.
            let _ = suspected.tell(IndexerMessage::Suspect);
        };
        let context_lookup = ContextLookup {
            readers: readers.clone(),
            index: IndexHandle::new(on_suspicion),
            ancestry: Ancestry::default(),
            budgets: config.budgets,
            notice: config.notice,
            settings,
            answer_within: answer_within(),
        };
        let forgetting = Forgetting {
            ports,
            readers: readers.clone(),
            spool: setup.spool.clone(),
            database: setup.database.clone(),
            backups: setup.backups.clone(),
            backing_up: BackingUp::default(),
        };
        Self {
            checkouts: Checkouts::new(writer.clone(), ingest.redactor.clone()),
            answers: PendingAnswers::default(),
            writer,
            bus: Bus::default(),
            indexer,
            sessions,
            compression: CompressionHandle::default(),
            housekeeper,
            subscriber: SubscriberHandle::default(),
            ingest,
            context_lookup,
            forgetting,
            readers,
            spool: setup.spool.clone(),
            config: config.clone(),
            backend: setup.compressor.origin(),
            heard_since: clock::now(),
        }
    }

    pub(super) fn subscriber_arguments(&self) -> (Vec<Subscription>, Bus) {
        (self.config.subscriptions.clone(), self.bus.clone())
    }

    pub(super) fn writer_arguments(&self, setup: &DaemonSetup, only: DatabaseLock) -> WriterArguments {
        WriterArguments {
            database: setup.database.clone(),
            backups: setup.backups.clone(),
            durability: self.config.durability,
            bus: self.bus.clone(),
            only,
            first: setup.first_connection.clone(),
        }
    }

    pub(super) fn indexer_arguments(&self, setup: &DaemonSetup) -> IndexerArguments {
        IndexerArguments {
            folder: setup.index_folder.clone(),
            readers: self.readers.clone(),
            writer: self.writer.clone(),
            handle: self.context_lookup.index.clone(),
            bus: self.bus.clone(),
        }
    }

    pub(super) fn session_context(&self) -> SessionContext {
        SessionContext {
            checkouts: self.checkouts.clone(),
            answers: self.answers.clone(),
            counters: Arc::clone(&self.ingest.counters),
            writer: self.writer.clone(),
            context_lookup: self.context_lookup.clone(),
            crashes: self.ingest.crashes.clone(),
            capture: self.config.capture.clone(),
            idle: self.config.idle,
            heard_since: self.heard_since,
            transcript_replies: TranscriptReplies::new(self.ingest.redactor.clone()),
            redactor: self.ingest.redactor.clone(),
        }
    }

    /// Each compressor gets a name and a duty of its own.
    pub(super) fn compressor_template(&self, setup: &DaemonSetup) -> CompressorArguments {
        let supervisor = self.compression.clone();
        let on_lost_thread = move |worker| {
            // A supervisor that is gone counts nothing.
            let _ = supervisor.tell(CompressionMessage::ThreadLost { worker });
        };
        CompressorArguments {
            worker: String::new(),
            duty: Duty::All,
            writer: self.writer.clone(),
            readers: self.readers.clone(),
            bus: self.bus.clone(),
            compressor: Arc::clone(&setup.compressor),
            policy: self.config.compression.clone(),
            on_lost_thread: Arc::new(on_lost_thread),
        }
    }

    pub(super) fn housekeeper_arguments(&self, setup: &DaemonSetup) -> HousekeeperArguments {
        HousekeeperArguments {
            spool: self.spool.clone(),
            ingest: self.ingest.clone(),
            readers: self.readers.clone(),
            idle: self.config.idle,
            heard_since: self.heard_since,
            every: Duration::from_secs(self.config.housekeeping_s),
            maintenance: Maintenance {
                database: setup.database.clone(),
                backups: setup.backups.clone(),
                readers: self.readers.clone(),
                forgetting: self.forgetting.clone(),
                retention_days: self.config.retention_days,
            },
        }
    }
}
