//! Tests compressors that panic once, always panic, or hang: jobs are retried or given up, and capture goes on.
//!
//! The actor tree runs in the test's process with a compressor of the test. The test reads what happens from the bus.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use ractor::{Actor, ActorRef};
use recall::actors::compression::CompressionMessage;
use recall::actors::housekeeper_message::HousekeeperMessage;
use recall::actors::root::{self, Root, RootMessage};
use recall::actors::services::{DaemonSetup, Services};
use recall::actors::writer::FirstConnection;
use recall_agents::AGENTS;
use recall_app::bus::BusEvent;
use recall_app::injection_receipt::Recipient;
use recall_compression::extractive::Extractive;
use recall_compression::policy::Unit;
use recall_compression::{CompressionError, Compressor, JobContext, Made};
use recall_config::Config;
use recall_domain::material::{BatchMaterial, SessionMaterial};
use recall_domain::observation::{NoteOrigin, ObservationDraft, SummaryDraft};
use recall_protocol::paths::Paths;
use recall_protocol::spool::Spool;
use recall_protocol::wire::Reply;
use recall_store::{JobRow, JobStatus};
use recall_system::holding::Holding;
use recall_tests::Stage;
use serde_json::json;
use tokio::sync::broadcast::error::RecvError;

/// What has not happened after this time never will.
const PATIENCE: Duration = Duration::from_secs(60);

/// A whole actor tree in this process.
struct Tree {
    stage: Stage,
    services: Services,
    root: ActorRef<RootMessage>,
}

impl Tree {
    async fn grow(compressor: impl Compressor, adjust: impl FnOnce(&mut Config)) -> Self {
        let stage = Stage::new();
        let home = stage.home();
        let paths =
            Paths::from_variables(&|name| (name == "RECALL_HOME").then(|| home.clone().into())).unwrap();
        paths.create_folders().unwrap();
        let spool = Spool::new(&paths);
        spool.create_folders().unwrap();
        let backups: PathBuf = paths.backups_dir();
        std::fs::create_dir_all(&backups).unwrap();
        let mut config = Config::default();
        // These tests count the calls for each turn.
        config.compression.unit = Unit::Turn;
        adjust(&mut config);
        let setup = DaemonSetup {
            agents: AGENTS,
            repair_note: recall::server::run::repair_note(&paths),
            pause_note: paths.state_dir().join("pauses.json"),
            clock_note: paths.state_dir().join("clock.json"),
            welcome: recall_app::welcome::Welcome::new(paths.state_dir()),
            redactor: Arc::new(recall_domain::redaction::Redactor::new(&config.redaction).unwrap()),
            database: paths.database(),
            backups,
            index_folder: paths.index_dir(),
            models_folder: paths.models_dir(),
            vectors_folder: paths.vectors_dir(),
            first_index: recall::actors::indexer::FirstIndex::default(),
            first_connection: FirstConnection::default(),
            spool,
            config: config.into(),
            settings: None,
            compressor: Arc::new(compressor),
            holding: Holding::default(),
        };
        let services = Services::new(&setup);
        let (root, _) = Actor::spawn(None, Root, (setup, services.clone())).await.unwrap();
        Self { stage, services, root }
    }

    /// Plays one turn of a session. Its batch is closed at the end.
    async fn turn(&self, session: &str, prompt: &str) {
        self.turn_answered(session, prompt, "Rounding happens once, because rounding each line lost cents.")
            .await;
    }

    async fn turn_answered(&self, session: &str, prompt: &str, answer: &str) {
        for event in [
            self.stage.event(session, "UserPromptSubmit", json!({"prompt": prompt, "prompt_id": prompt})),
            self.stage.event(session, "Stop", json!({"last_assistant_message": answer, "prompt_id": prompt})),
        ] {
            let reply = self.services.ingest.take(self.stage.delivery(&event), Recipient::Nobody).await;
            assert!(matches!(reply, Reply::Ack { .. }), "{reply:?}");
        }
    }

    fn jobs(&self) -> Vec<JobRow> {
        self.services.readers.read(|db| db.jobs(recall_store::Jobs::All, None, 100)).unwrap()
    }

    fn job(&self, kind: &str, session: &str) -> JobRow {
        let jobs = self.jobs();
        let found = jobs.iter().find(|job| job.kind.as_str() == kind && job.session.as_str() == session);
        found.unwrap_or_else(|| panic!("no {kind} job of {session}: {jobs:?}")).clone()
    }

    fn observations(&self, session: &str) -> usize {
        let count = |db: recall_store::Reader<'_>| {
            let found = db.find_sessions(session)?;
            db.observations_of_session(found[0].row)
        };
        self.services.readers.read(count).unwrap().len()
    }

    /// Waits for events on the bus until the jobs are as expected.
    async fn until(&self, expected: impl Fn(&[JobRow]) -> bool) {
        let mut bus_events = self.services.bus.listen();
        let wait = async {
            while !expected(&self.jobs()) {
                match bus_events.recv().await {
                    Ok(_) | Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => panic!("the bus is gone"),
                }
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        assert!(waited.is_ok(), "the jobs stay as they are: {:?}", self.jobs());
    }

    async fn restarts(&self) -> u64 {
        let observe = self.services.ports.compression.ask(CompressionMessage::Observe, PATIENCE);
        observe.await.unwrap().restarts
    }

    async fn fell(self) {
        root::stop(&self.root).await;
    }
}

fn all_done(jobs: &[JobRow]) -> bool {
    !jobs.is_empty() && jobs.iter().all(|job| job.status == JobStatus::Done)
}

/// A compressor that works like the built-in one, but first calls `before` with each prompt.
struct Troubled<F> {
    honest: Extractive,
    before: F,
}

fn troubled<F: Fn(&str) + Send + Sync + 'static>(before: F) -> Troubled<F> {
    Troubled { honest: Extractive, before }
}

impl<F: Fn(&str) + Send + Sync + 'static> Compressor for Troubled<F> {
    fn origin(&self) -> NoteOrigin {
        "troubled".into()
    }

    fn observe(
        &self,
        batch: &BatchMaterial,
        job_context: &JobContext<'_>,
    ) -> Result<Made<Vec<ObservationDraft>>, CompressionError> {
        (self.before)(batch.prompt.as_ref().map(|prompt| prompt.text.as_str()).unwrap_or_default());
        self.honest.observe(batch, job_context)
    }

    fn summarize(
        &self,
        session: &SessionMaterial,
        job_context: &JobContext<'_>,
    ) -> Result<Made<Option<SummaryDraft>>, CompressionError> {
        self.honest.summarize(session, job_context)
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compressor_panic_costs_only_one_attempt() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&calls);
    let compressor = troubled(move |prompt| {
        if prompt == "fragile" && counted.fetch_add(1, Ordering::SeqCst) == 0 {
            panic!("the first time it breaks");
        }
    });
    let tree = Tree::grow(compressor, |_| {}).await;
    let mut bus_events = tree.services.bus.listen();
    tree.turn("one", "fragile").await;
    // Waits until it has crashed. After that, other sessions are captured and compressed as usual.
    while bus_events.recv().await.unwrap() != (BusEvent::JobFailed { job: None }) {}
    tree.turn("two", "sturdy").await;
    tree.until(all_done).await;

    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert_eq!(tree.job("batch", "one").attempts, 2);
    assert_eq!(tree.job("batch", "two").attempts, 1);
    assert_eq!(tree.restarts().await, 1);
    assert!(tree.observations("one") > 0);
    assert!(tree.observations("two") > 0);
    tree.fell().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_always_crashes_the_compressor_is_given_up() {
    let compressor = troubled(|prompt| assert!(prompt != "poison", "it breaks every time"));
    let tree = Tree::grow(compressor, |config| config.compression.max_attempts = 2).await;
    tree.turn("one", "poison").await;
    tree.turn("two", "sturdy").await;
    tree.until(|jobs| jobs.iter().all(|job| matches!(job.status, JobStatus::Done | JobStatus::Dead))).await;

    let dead = tree.job("batch", "one");
    assert_eq!((dead.status, dead.attempts), (JobStatus::Dead, 2));
    assert!(dead.error.is_some_and(|error| error.contains("panicked")));
    assert_eq!(
        tree.jobs().iter().filter(|job| job.status == JobStatus::Dead).count(),
        1,
        "{:?}",
        tree.jobs()
    );
    assert!(tree.observations("one") > 0, "the built-in one stands in");
    assert!(tree.observations("two") > 0);
    // The circuit stays closed, and the session goes on.
    let answer = "The index needs a refresh after each import, because searches missed the new articles.";
    tree.turn_answered("one", "sturdy again", answer).await;
    tree.until(|jobs| jobs.iter().all(|job| matches!(job.status, JobStatus::Done | JobStatus::Dead))).await;
    assert_eq!(
        tree.jobs().iter().filter(|job| job.status == JobStatus::Dead).count(),
        1,
        "{:?}",
        tree.jobs()
    );
    assert!(tree.observations("one") > 0, "{:?}", tree.jobs());
    tree.fell().await;
}

/// A gate that stays closed until the test opens it.
#[derive(Default)]
struct Shut {
    open: Mutex<bool>,
    opened: Condvar,
}

impl Shut {
    fn wait(&self) {
        let open = self.open.lock().unwrap();
        drop(self.opened.wait_while(open, |open| !*open).unwrap());
    }

    fn open(&self) {
        *self.open.lock().unwrap() = true;
        self.opened.notify_all();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_compression_job_that_hangs_past_the_deadline_is_retried() {
    let (shut, calls) = (Arc::new(Shut::default()), Arc::new(AtomicU32::new(0)));
    let (held, counted) = (Arc::clone(&shut), Arc::clone(&calls));
    let compressor = troubled(move |prompt| {
        if prompt == "endless" && counted.fetch_add(1, Ordering::SeqCst) == 0 {
            held.wait();
        }
    });
    let tree = Tree::grow(compressor, |config| {
        config.compression.timeout_s = 1;
        config.compression.concurrency = 1;
    })
    .await;
    tree.turn("one", "endless").await;
    // The only compressor hangs. Events are stored all the same.
    tree.turn("two", "sturdy").await;
    tree.until(all_done).await;

    let retried = tree.job("batch", "one");
    assert_eq!(retried.attempts, 2);
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert_eq!(tree.job("batch", "two").attempts, 1);
    assert_eq!(tree.restarts().await, 0, "a thread was lost, no actor");
    assert!(tree.observations("one") > 0);

    // The lost thread ends too late, so its result is dropped.
    let before = tree.observations("one");
    shut.open();
    let round = tree.services.ports.housekeeper.ask(HousekeeperMessage::Drain, PATIENCE).await;
    assert!(round.is_ok());
    assert_eq!(tree.observations("one"), before);
    tree.fell().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_always_hangs_the_compressor_is_given_up() {
    let (shut, calls) = (Arc::new(Shut::default()), Arc::new(AtomicU32::new(0)));
    let (held, counted) = (Arc::clone(&shut), Arc::clone(&calls));
    let compressor = troubled(move |prompt| {
        if prompt == "endless" {
            counted.fetch_add(1, Ordering::SeqCst);
            held.wait();
        }
    });
    let tree = Tree::grow(compressor, |config| {
        config.compression.timeout_s = 1;
        config.compression.concurrency = 1;
        config.compression.max_attempts = 2;
    })
    .await;
    tree.turn("one", "endless").await;
    tree.turn("two", "sturdy").await;
    tree.until(|jobs| jobs.iter().all(|job| matches!(job.status, JobStatus::Done | JobStatus::Dead))).await;

    let dead = tree.job("batch", "one");
    assert_eq!((dead.status, dead.attempts), (JobStatus::Dead, 2), "{dead:?}");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert!(tree.observations("one") > 0, "the built-in one stands in");
    assert_eq!(tree.job("batch", "two").attempts, 1);
    assert!(tree.observations("two") > 0);
    shut.open();
    tree.fell().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_compressor_crashes_open_the_circuit_and_capture_continues() {
    let compressor = troubled(|_| panic!("it breaks every time"));
    let tree = Tree::grow(compressor, |config| config.compression.concurrency = 4).await;
    let mut bus_events = tree.services.bus.listen();
    for number in 0..5 {
        tree.turn(&format!("s{number}"), &format!("p{number}")).await;
    }
    let mut crashes = 0;
    while crashes < 5 {
        if bus_events.recv().await.unwrap() == (BusEvent::JobFailed { job: None }) {
            crashes += 1;
        }
    }
    let observe = tree.services.ports.compression.ask(CompressionMessage::Observe, PATIENCE);
    assert_eq!(observe.await.unwrap().circuit.as_str(), "open");
    tree.turn("later", "still heard").await;
    let found = tree.services.readers.read(|db| db.find_sessions("later")).unwrap();
    assert_eq!(found.len(), 1);
    tree.fell().await;
}
