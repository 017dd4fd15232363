//! The services of the daemon: its setup, the handles, and the arguments of each actor.
//!
//! The root supervises the actors; this file connects them.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use recall_protocol::spool::Spool;

use super::compression::CompressionMessage;
use super::compressor::CompressorArguments;
use super::embedder::{EmbedderArguments, EmbedderHandle};
use super::housekeeper::HousekeeperArguments;
use super::indexer::{FirstIndex, IndexerArguments, IndexerHandle, IndexerMessage};
use super::ports::ActorPorts;
use super::session_context::SessionContext;
use super::subscriber::SubscriberHandle;
use super::sync::SyncHandle;
use super::telemetry::{TelemetryArguments, TelemetryHandle};
use super::writer::{DatabaseLock, FirstConnection, WriterArguments, WriterHandle};
use super::writer_ledger::{CallsUnderWay, WriterLedger};
use recall_agents::Agents;
use recall_app::ancestry::Ancestry;
use recall_app::bus::Bus;
use recall_app::capture_rules::CaptureRules;
use recall_app::certain_times::CertainTimes;
use recall_app::checkouts::Checkouts;
use recall_app::clock;
use recall_app::clock_watch::ClockWatch;
use recall_app::commands::CommandContext;
use recall_app::context_lookup::{ContextLookup, answer_within};
use recall_app::crashes::Crashes;
use recall_app::current_config::CurrentConfig;
use recall_app::embedding_pace::Pace;
use recall_app::embedding_work::EmbeddingWork;
use recall_app::forgetting::{BackingUp, Forgetting};
use recall_app::index_handle::{IndexHandle, StoredDocuments};
use recall_app::ingest::{Counters, Ingest};
use recall_app::injection_receipt::PendingAnswers;
use recall_app::latency::Latencies;
use recall_app::maintenance::Maintenance;
use recall_app::outlines::Outlines;
use recall_app::pause::PauseSwitch;
use recall_app::sentences::Sentences;
use recall_app::settings::{CurrentRedactor, Settings, SettingsFiles};
use recall_app::sharing::syncing::Syncing;
use recall_app::subject_cache::SubjectCache;
use recall_app::transcript_replies::TranscriptReplies;
use recall_app::vector_files::VectorFiles;
use recall_app::welcome::Welcome;
use recall_compression::Compressor;
use recall_compression::extractive::Announced;
use recall_config::{Loaded, Subscription};
use recall_domain::ids::Timestamp;
use recall_domain::redaction::Redactor;
use recall_embedding::InstalledModels;
use recall_store::{Duty, Readers};
use recall_system::holding::Holding;

/// The arguments of the daemon's start.
#[derive(Clone)]
pub struct DaemonSetup {
    /// The known agents.
    pub agents: Agents,
    pub database: PathBuf,
    pub backups: PathBuf,
    /// The file where repairs of the database are recorded.
    pub repair_note: PathBuf,
    /// The file where pauses are recorded.
    pub pause_note: PathBuf,
    /// The file where the clock's readings are recorded.
    pub clock_note: PathBuf,
    pub welcome: Welcome,
    pub index_folder: PathBuf,
    /// The folder of installed sentence models.
    pub models_folder: PathBuf,
    pub vectors_folder: PathBuf,
    /// Empty if the start did not open the database.
    pub first_connection: FirstConnection,
    pub first_index: FirstIndex,
    pub spool: Spool,
    pub config: Loaded,
    /// The files from which the configuration is reloaded; `None` disables reloading.
    pub settings: Option<SettingsFiles>,
    /// Built by the caller, because the configured patterns may be invalid.
    pub redactor: Arc<Redactor>,
    pub compressor: Arc<dyn Compressor>,
    pub holding: Holding,
}

/// The handles of the actors, and shared state for the rooms above. Cheap to clone.
#[derive(Clone)]
pub struct Services {
    pub agents: Agents,
    pub ports: ActorPorts,
    pub bus: Bus,
    pub embedder: EmbedderHandle,
    pub subscriber: SubscriberHandle,
    pub telemetry: TelemetryHandle,
    pub sync: SyncHandle,
    pub syncing: Syncing<ActorPorts>,
    pub ingest: Ingest<ActorPorts>,
    pub context_lookup: ContextLookup,
    pub checkouts: Checkouts<WriterHandle>,
    pub answers: PendingAnswers,
    pub readers: Readers,
    pub spool: Spool,
    pub index_folder: PathBuf,
    pub config: CurrentConfig,
    /// When the daemon began to receive events of sessions.
    pub started_at: Timestamp,
    pub latencies: Arc<Latencies>,
    pub clock: ClockWatch,
}

impl Services {
    pub fn new(setup: &DaemonSetup) -> Self {
        let readers = Readers::new(&setup.database);
        let ports = ActorPorts::default();
        let loaded = &setup.config;
        let config = CurrentConfig::new(&loaded.config);
        let redactor = CurrentRedactor::new(Arc::clone(&setup.redactor));
        let capture_rules = CaptureRules::new(&loaded.config.excluded);
        let (files, rules) = (setup.settings.clone(), capture_rules.clone());
        let settings = Settings::new(files, loaded, config.clone(), redactor.clone(), rules);
        let sentences = Sentences::new(readers.clone(), VectorFiles::new(setup.vectors_folder.clone()));
        let forgetting = Forgetting {
            ports: ports.clone(),
            readers: readers.clone(),
            spool: setup.spool.clone(),
            database: setup.database.clone(),
            backups: setup.backups.clone(),
            backing_up: BackingUp::default(),
            sentences: sentences.clone(),
        };
        let ingest = Ingest {
            agents: setup.agents,
            ports: ports.clone(),
            crashes: Crashes::default(),
            redactor,
            counters: Arc::new(Counters::default()),
            pauses: PauseSwitch::load(&setup.pause_note),
            capture_rules,
            settings: settings.clone(),
            readers: readers.clone(),
            certain_times: CertainTimes::default(),
            forgetting,
        };
        let context_lookup = context_lookup(setup, &readers, &sentences, settings, &ports.indexer);
        let syncing = Syncing {
            ports: ports.clone(),
            readers: readers.clone(),
            config: config.clone(),
            settings: context_lookup.settings.clone(),
            redactor: ingest.redactor.clone(),
            device_file: setup.database.with_file_name("device.json"),
            known: Arc::default(),
        };
        Self {
            agents: setup.agents,
            checkouts: Checkouts::new(ports.writer.clone(), ingest.redactor.clone()),
            answers: PendingAnswers::default(),
            ports,
            bus: Bus::default(),
            embedder: EmbedderHandle::default(),
            subscriber: SubscriberHandle::default(),
            telemetry: TelemetryHandle::default(),
            sync: SyncHandle::default(),
            syncing,
            ingest,
            context_lookup,
            readers,
            spool: setup.spool.clone(),
            index_folder: setup.index_folder.clone(),
            config,
            started_at: clock::now(),
            latencies: Arc::default(),
            clock: ClockWatch::new(&setup.clock_note),
        }
    }

    /// The services that commands use.
    pub fn commands(&self) -> CommandContext<ActorPorts> {
        CommandContext {
            ports: self.ports.clone(),
            context_lookup: self.context_lookup.clone(),
            ingest: self.ingest.clone(),
            forgetting: self.ingest.forgetting.clone(),
        }
    }

    pub(super) fn subscriber_arguments(&self) -> (Vec<Subscription>, Bus) {
        (self.config.get().subscriptions.clone(), self.bus.clone())
    }

    pub(super) fn telemetry_arguments(&self) -> TelemetryArguments {
        TelemetryArguments {
            endpoint: self.config.get().otlp_endpoint.clone(),
            readers: self.readers.clone(),
            bus: self.bus.clone(),
            since: self.started_at,
        }
    }

    pub(super) fn writer_arguments(&self, setup: &DaemonSetup, only: DatabaseLock) -> WriterArguments {
        WriterArguments {
            database: setup.database.clone(),
            backups: setup.backups.clone(),
            durability: self.config.get().durability,
            bus: self.bus.clone(),
            only,
            first: setup.first_connection.clone(),
            latencies: Arc::clone(&self.latencies),
            holding: setup.holding.clone(),
            queue: self.ports.writer.entrance(),
        }
    }

    pub(super) fn indexer_arguments(&self, setup: &DaemonSetup) -> IndexerArguments {
        IndexerArguments {
            agents: self.agents,
            folder: setup.index_folder.clone(),
            readers: self.readers.clone(),
            writer: self.ports.writer.clone(),
            handle: self.context_lookup.index.clone(),
            bus: self.bus.clone(),
            first: setup.first_index.clone(),
            holding: setup.holding.clone(),
        }
    }

    pub(super) fn embedder_arguments(&self, setup: &DaemonSetup) -> EmbedderArguments {
        let ledger = WriterLedger {
            writer: self.ports.writer.clone(),
            caps: self.config.get().compression.caps,
            runtime: tokio::runtime::Handle::current(),
            bus: self.bus.clone(),
            under_way: CallsUnderWay::default(),
        };
        EmbedderArguments {
            work: EmbeddingWork {
                agents: self.agents,
                readers: self.readers.clone(),
                writer: self.ports.writer.clone(),
                sentences: self.context_lookup.index.sentences.clone(),
                policy: self.config.get().embedding.clone(),
                models: InstalledModels::new(setup.models_folder.clone()),
                ledger: Arc::new(ledger),
                pace: Pace::default(),
                news: Arc::default(),
            },
            bus: self.bus.clone(),
        }
    }

    pub(super) fn session_context(&self) -> SessionContext {
        SessionContext {
            agents: self.agents,
            checkouts: self.checkouts.clone(),
            answers: self.answers.clone(),
            counters: Arc::clone(&self.ingest.counters),
            writer: self.ports.writer.clone(),
            context_lookup: self.context_lookup.clone(),
            crashes: self.ingest.crashes.clone(),
            capture: self.config.get().capture.clone(),
            idle: self.config.get().idle,
            started_at: self.started_at,
            transcript_replies: TranscriptReplies::new(
                self.agents,
                self.ingest.redactor.clone(),
                self.readers.clone(),
                self.ingest.pauses.clone(),
            ),
            redactor: self.ingest.redactor.clone(),
        }
    }

    /// Each compressor gets its own name and duty.
    pub(super) fn compressor_template(&self, setup: &DaemonSetup) -> CompressorArguments {
        let supervisor = self.ports.compression.clone();
        let on_lost_thread = move |worker| {
            // Nobody counts once the supervisor has stopped.
            let _ = supervisor.send(CompressionMessage::ThreadLost { worker });
        };
        CompressorArguments {
            agents: self.agents,
            worker: String::new(),
            duty: Duty::All,
            writer: self.ports.writer.clone(),
            readers: self.readers.clone(),
            bus: self.bus.clone(),
            compressor: Arc::clone(&setup.compressor),
            policy: self.config.get().compression.clone(),
            announced: Announced::default(),
            on_lost_thread: Arc::new(on_lost_thread),
        }
    }

    pub(super) fn housekeeper_arguments(&self, setup: &DaemonSetup) -> HousekeeperArguments {
        HousekeeperArguments {
            spool: self.spool.clone(),
            ingest: self.ingest.clone(),
            readers: self.readers.clone(),
            idle: self.config.get().idle,
            started_at: self.started_at,
            every: Duration::from_secs(self.config.get().housekeeping_s),
            holding: setup.holding.clone(),
            maintenance: Maintenance {
                database: setup.database.clone(),
                backups: setup.backups.clone(),
                readers: self.readers.clone(),
                forgetting: self.ingest.forgetting.clone(),
                retention_days: self.config.get().retention_days,
                clock: self.clock.clone(),
            },
        }
    }
}

fn context_lookup(
    setup: &DaemonSetup,
    readers: &Readers,
    sentences: &Sentences,
    settings: Settings,
    indexer: &IndexerHandle,
) -> ContextLookup {
    let suspect = indexer.clone();
    let on_suspicion = move || {
        // An indexer that is not running checks the index when it starts.
        let _ = suspect.send(IndexerMessage::Suspect);
    };
    let stored = StoredDocuments { readers: readers.clone(), agents: setup.agents };
    ContextLookup {
        agents: setup.agents,
        readers: readers.clone(),
        index: IndexHandle::new(stored, sentences.clone(), on_suspicion),
        ancestry: Ancestry::default(),
        welcome: setup.welcome.clone(),
        subjects: SubjectCache::default(),
        outlines: Outlines::default(),
        settings,
        answer_within: answer_within(),
    }
}
