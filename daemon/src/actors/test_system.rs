//! The whole actor tree in a test, with a paused clock.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorRef};
use recall_protocol::paths::Paths;
use recall_protocol::spool::Spool;
use recall_protocol::wire::{Deliver, EventId, Flags, Reply, ShimContext};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::time::Instant;

use super::indexer::FirstIndex;
use super::root::{self, Root, RootMessage};
use super::services::{DaemonSetup, Services};
use super::writer::FirstConnection;
use crate::actors::sessions::SessionsMessage;
use recall_agents::{AGENTS, Agents};
use recall_app::bus::BusEvent;
use recall_app::clock;
use recall_app::injection_receipt::{InjectionReceipt, Recipient};
use recall_app::welcome::Welcome;
use recall_compression::Compressor;
use recall_compression::extractive::Extractive;
use recall_config::{Config, Loaded};
use recall_domain::lifecycle::LifecycleKind;
use recall_domain::redaction::Redactor;
use recall_store::Durability;
use recall_system::holding::Holding;

/// The whole actor tree in its own home.
pub(crate) struct Tree {
    pub(crate) services: Services,
    root: ActorRef<RootMessage>,
    pub(crate) bus_events: Receiver<BusEvent>,
    pub(crate) home: tempfile::TempDir,
}

impl Tree {
    /// Starts the tree without compressors.
    pub(crate) async fn start(mut config: Config) -> Self {
        config.compression.concurrency = 0;
        Self::compressing(config, Arc::new(Extractive)).await
    }

    pub(crate) async fn compressing(config: Config, compressor: Arc<dyn Compressor>) -> Self {
        Self::of(AGENTS, config, compressor).await
    }

    pub(crate) async fn of(agents: Agents, mut config: Config, compressor: Arc<dyn Compressor>) -> Self {
        clock::follow_the_runtime();
        config.durability = Durability::Normal;
        let home = tempfile::tempdir().unwrap();
        let paths =
            Paths::from_variables(&|name| (name == "RECALL_HOME").then(|| home.path().into())).unwrap();
        paths.create_folders().unwrap();
        std::fs::create_dir_all(paths.backups_dir()).unwrap();
        let spool = Spool::new(&paths);
        spool.create_folders().unwrap();
        let setup = DaemonSetup {
            agents,
            database: paths.database(),
            backups: paths.backups_dir(),
            repair_note: home.path().join("repairs.json"),
            pause_note: home.path().join("pauses.json"),
            clock_note: home.path().join("clock.json"),
            welcome: Welcome::new(home.path()),
            index_folder: paths.index_dir(),
            models_folder: paths.models_dir(),
            vectors_folder: paths.vectors_dir(),
            first_connection: FirstConnection::default(),
            first_index: FirstIndex::default(),
            spool,
            redactor: Arc::new(Redactor::new(&config.redaction).unwrap()),
            config: Loaded::from(config),
            settings: None,
            compressor,
            holding: Holding::default(),
        };
        let services = Services::new(&setup);
        let (root, _) = Actor::spawn(None, Root, (setup, services.clone())).await.unwrap();
        let bus_events = services.bus.listen();
        Self { services, root, bus_events, home }
    }

    /// Sends an event of the session `s`.
    pub(crate) async fn hook(&self, name: &str, fields: Value) {
        self.hook_of("s", name, fields).await;
    }

    pub(crate) async fn hook_of(&self, session: &str, name: &str, fields: Value) {
        let mut event = json!({"session_id": session, "hook_event_name": name, "prompt_id": "p1"});
        for (key, value) in fields.as_object().unwrap() {
            event[key] = value.clone();
        }
        let deliver = self.delivery(event.to_string());
        let reply = self.services.ingest.take(deliver, Recipient::Nobody).await;
        assert!(matches!(reply, Reply::Ack { .. }), "{reply:?}");
    }

    /// An event as a hook sends it.
    pub(crate) fn delivery(&self, payload: String) -> Deliver {
        let at = clock::now();
        Deliver {
            event_id: EventId::new(at.0),
            agent: "claude-code".to_owned(),
            event_name: String::new(),
            captured_at_ms: at.0,
            boot_id: [1; 16],
            boot_ns: at.0.unsigned_abs() * 1_000_000,
            context: ShimContext { cwd: self.home.path().display().to_string(), ..ShimContext::default() },
            payload: payload.into_bytes(),
            flags: Flags::default(),
        }
    }

    /// Sends an event whose hook waits for the answer.
    pub(crate) async fn answered(&self, deliver: Deliver) -> Reply {
        let (receipt, injection_receipt) = InjectionReceipt::new();
        let reply = self.services.ingest.take(deliver, Recipient::Agent(injection_receipt)).await;
        receipt.received();
        reply
    }

    /// Advances the clock until a lifecycle event of this name is published for the session. Returns how long that
    /// took.
    pub(crate) async fn wait_for(&mut self, session: &str, name: &str) -> (Duration, LifecycleKind) {
        let begun = Instant::now();
        loop {
            if let BusEvent::LifecycleEvent(event) = self.bus_events.recv().await.unwrap()
                && event.session.as_ref().is_some_and(|key| key.id.as_str() == session)
                && event.what.name() == name
            {
                return (begun.elapsed(), event.what.clone());
            }
        }
    }

    /// How many sessions have an actor.
    pub(crate) async fn sessions(&self) -> usize {
        self.services.ports.sessions.ask(SessionsMessage::Count, Duration::from_secs(1)).await.unwrap()
    }

    pub(crate) fn batch_states(&self) -> Vec<String> {
        let states = self.services.readers.read(|db| {
            let session = db.find_sessions("s")?.remove(0);
            Ok::<_, recall_store::StoreError>(
                db.batches(session.row)?.into_iter().map(|batch| batch.status.as_str().to_owned()).collect(),
            )
        });
        states.unwrap()
    }

    pub(crate) async fn stop(self) {
        root::stop(&self.root).await;
    }
}
