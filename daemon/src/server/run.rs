//! The life of the daemon, from top to bottom.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use ractor::Actor;
use recall_protocol::folder::FolderError;
use recall_protocol::paths::{Paths, PathsError};
use recall_protocol::spool::Spool;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::MissedTickBehavior;

use super::connection_context::ConnectionContext;
use super::gate::Gate;
use super::gateway::files_of_an_open_one;
use super::http;
use super::instance::{Instance, InstanceError, LastStop};
use super::listener::{self, ListenError};
use super::presence::{LOOK_EVERY, Presence};
use super::queries;
use crate::actors::indexer::{FirstIndex, IndexerMessage};
use crate::actors::root::{self, Root};
use crate::actors::services::{DaemonSetup, Services};
use crate::actors::telemetry::TelemetryMessage;
use crate::actors::writer::FirstConnection;
use recall_agents::AGENTS;
use recall_app::answers::metrics::metrics;
use recall_app::bus::BusEvent;
use recall_app::clock;
use recall_app::settings::SettingsFiles;
use recall_app::welcome::Welcome;
use recall_compression::Compressor;
use recall_config::{Config, GatewayOpens, Loaded};
use recall_domain::lifecycle::LifecycleEvent;
use recall_domain::redaction::{RedactionError, RedactionMode, Redactor};
use recall_providers::ProviderSetupError;
use recall_store::{
    Changes, Evidence, ExpireLeases, OpenStoreError, Readers, ReleaseLeases, RepairError, RepairSite,
    StoreWriter, SuspendAll, Suspension, Thoroughness,
};
use recall_system::faults::{Fault, planted};
use recall_system::holding::{self, Holding, Lost, TakeError};
use recall_system::trusted_file::{self, Refused};

/// Why the daemon could not run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error(transparent)]
    Paths(#[from] PathsError),
    #[error(transparent)]
    Instance(#[from] InstanceError),
    #[error(transparent)]
    Held(#[from] TakeError),
    #[error("{0}; the daemon ends")]
    Lost(Lost),
    #[error(transparent)]
    Store(#[from] OpenStoreError),
    #[error(transparent)]
    Repair(#[from] RepairError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error("cannot create folder {}", .0.display())]
    DataFolder(PathBuf, #[source] std::io::Error),
    #[error(transparent)]
    Redaction(#[from] RedactionError),
    #[error("[compression]: {0}")]
    Compression(#[from] ProviderSetupError),
    #[error("cannot start: {0}")]
    Start(String),
    #[error("cannot wait for signals")]
    Signals(#[source] std::io::Error),
    #[error("the daemon's root failed")]
    RootFailed,
}

/// How long unfinished events may take at shutdown.
const DRAIN_WITHIN: Duration = Duration::from_secs(5);
const FAREWELL_WITHIN: Duration = Duration::from_secs(1);

/// Runs until a signal or `recall ctl stop`.
///
/// # Errors
/// Fails when it cannot start, or when restarting its parts did not help.
pub async fn run(paths: Paths, config: Loaded) -> Result<(), RunError> {
    let compressor =
        recall_compression::compressor(&config.config.compression, &tokio::runtime::Handle::current())?;
    run_with(paths, config, compressor).await
}

/// Like [`run`], with a given compressor, for tests of the whole tree.
///
/// # Errors
/// See [`run`].
pub async fn run_with(
    paths: Paths,
    mut loaded: Loaded,
    compressor: Arc<dyn Compressor>,
) -> Result<(), RunError> {
    // A session may be waiting for this start, so slow steps run in parallel. All are done before anybody is answered.
    let (note, valid) = (last_config(&paths), loaded.clone());
    let recorded = spawn_blocking(move || valid.record(&note));
    if planted(Fault::KeepSecrets) {
        loaded.config.redaction.mode = RedactionMode::Off;
    }
    let policy = loaded.config.redaction.clone();
    let redactor = spawn_blocking(move || Redactor::new(&policy));
    paths.create_folders()?;
    if let Some(foreign) = foreign_files(&paths).into_iter().next() {
        return Err(foreign.into());
    }
    let backups = paths.backups_dir();
    std::fs::create_dir_all(&backups).map_err(|error| RunError::DataFolder(backups.clone(), error))?;
    let spool = Spool::new(&paths);
    spool.create_folders()?;
    let mut instance = Instance::claim_patiently(&paths.lock_file()).await?;
    let holding = hold(&paths).await?;
    for left in files_of_an_open_one(&paths) {
        let _ = std::fs::remove_file(left);
    }
    let socket = paths.socket()?.to_owned();
    let start_stamp = paths.start_stamp();
    // Must come before anybody can connect.
    let announced = instance.announce(&socket);
    let announced = spawn_blocking(move || announced?.sync_data());
    // From here on, connecting clients wait in the backlog instead of spooling.
    let opened = listener::open(&socket)?;
    let first_index = FirstIndex::open(&paths.index_dir());
    let site = RepairSite { database: paths.database(), backups, note: repair_note(&paths) };
    let (connection, interrupted) = open_first(&site, &loaded.config, &holding)?;

    let setup = DaemonSetup {
        agents: AGENTS,
        database: site.database,
        backups: site.backups,
        repair_note: site.note,
        pause_note: pause_note(&paths),
        clock_note: clock_note(&paths),
        welcome: Welcome::new(paths.state_dir()),
        index_folder: paths.index_dir(),
        models_folder: paths.models_dir(),
        vectors_folder: paths.vectors_dir(),
        first_connection: FirstConnection::new(connection),
        first_index,
        spool,
        config: loaded,
        settings: Some(SettingsFiles {
            config: paths.config_file().to_owned(),
            last_good: last_config(&paths),
        }),
        redactor: Arc::new(redactor.await.map_err(|error| RunError::Start(error.to_string()))??),
        compressor,
        holding: holding.clone(),
    };
    let services = Services::new(&setup);
    let (tree, mut tree_ended) = Actor::spawn(None, Root, (setup, services.clone()))
        .await
        .map_err(|error| RunError::Start(error.to_string()))?;
    for event in interrupted {
        services.bus.publish(BusEvent::LifecycleEvent(Arc::new(event)));
    }
    let (stop, mut stop_asked) = mpsc::channel(1);
    let connection = ConnectionContext::new(services.clone(), Arc::new(paths), stop);
    let (permits, event_feed) = (Arc::clone(&connection.permits), connection.event_feed.clone());
    let all_permits = u32::try_from(permits.available_permits()).unwrap_or(u32::MAX);
    open_gateway(&connection).await;
    let gateway = connection.gateway.clone();
    let following = tokio::spawn(follow_gateway(connection.clone()));
    let measuring = tokio::spawn(measure(connection.clone()));
    let _ = recorded.await;
    if let Ok(Err(error)) = announced.await {
        tracing::warn!(%error, "cannot write the daemon's socket path to the lock file");
    }
    let gate = Gate::open(opened.listener, connection);
    let last_stop = instance.last_stop();
    let mut presence = Presence::new(holding.clone(), instance, opened.door, gate);
    notify_service_manager(&[sd_notify::NotifyState::Ready]);
    let watchdog = tokio::spawn(feed_watchdog(services.clone()));
    tracing::info!(pid = std::process::id(), version = env!("CARGO_PKG_VERSION"), "ready");
    if last_stop == LastStop::Sudden {
        let readers = services.readers.clone();
        drop(spawn_blocking(move || look_for_damage(&readers)));
    }

    let mut terminated = signal(SignalKind::terminate()).map_err(RunError::Signals)?;
    let mut interrupted = signal(SignalKind::interrupt()).map_err(RunError::Signals)?;
    // A closed terminal sends a hangup, which must not end a daemon started from it.
    let _hangup = signal(SignalKind::hangup()).map_err(RunError::Signals)?;
    let mut looks = tokio::time::interval(LOOK_EVERY);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let outcome = loop {
        tokio::select! {
            _ = terminated.recv() => break Ok(()),
            _ = interrupted.recv() => break Ok(()),
            _ = stop_asked.recv() => break Ok(()),
            lost = holding.lost() => break Err(RunError::Lost(lost)),
            _ = &mut tree_ended => break Err(RunError::RootFailed),
            _ = looks.tick() => presence.look().await,
        }
    };
    let Presence { mut instance, door, gate, .. } = presence;

    notify_service_manager(&[sd_notify::NotifyState::Stopping]);
    watchdog.abort();
    measuring.abort();
    following.abort();
    gate.close();
    if !matches!(outcome, Err(RunError::Lost(_))) {
        // Another daemon's files may exist by now.
        gateway.stop().await;
    }
    if outcome.is_ok() {
        // Once every permit is back, every event is acknowledged.
        let _ = tokio::time::timeout(DRAIN_WITHIN, permits.acquire_many(all_permits)).await;
        if let Err(error) =
            services.ports.writer.write(SuspendAll { at: clock::now(), why: Suspension::Stop }).await
        {
            tracing::error!(%error, "cannot mark live sessions as suspended");
        }
        let _ = services.ports.indexer.ask(IndexerMessage::Flush, DRAIN_WITHIN).await;
        root::stop(&tree).await;
        // Followers of events are told about the end. Nobody waits for one that does not read.
        event_feed.wait_until_empty(FAREWELL_WITHIN).await;
    }
    door.remove();
    instance.retract();
    holding.release();
    if outcome.is_ok() {
        forget_start(&start_stamp);
    }
    tracing::info!("stopped");
    outcome
}

/// Takes the data folder. Warns on file systems whose locks other machines may not see.
async fn hold(paths: &Paths) -> Result<Holding, RunError> {
    let (folder, lock) = (paths.data_dir().to_owned(), paths.lock_file());
    let taken = spawn_blocking(move || Holding::take(&folder, &lock)).await;
    let holding = taken.map_err(|error| RunError::Start(error.to_string()))??;
    if let Some(name) = holding.file_system().name() {
        tracing::warn!(
            folder = %paths.data_dir().display(),
            "the data folder is on {name}: a lease with a heartbeat guards it in addition to the lock, and the database is written \
             with a rollback journal instead of a write-ahead log"
        );
    }
    Ok(holding)
}

/// Lets the next hook start a daemon immediately. For some seconds after a start the shim does not start another,
/// in case the first start failed; this one succeeded. The stamp is emptied instead of removed, because a shim may
/// hold its lock. An empty stamp counts as new.
fn forget_start(stamp: &Path) {
    let flags = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
    match OpenOptions::new().write(true).custom_flags(flags).open(stamp) {
        Ok(stamp) => {
            if let Err(error) = stamp.set_len(0) {
                tracing::warn!(%error, "the next hook may wait some seconds before it starts a daemon");
            }
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => tracing::warn!(%error, "cannot open the file that marks the last start"),
    }
}

/// Returns other users' files where recall's own files belong.
pub fn foreign_files(paths: &Paths) -> Vec<FolderError> {
    let mut places = vec![paths.database(), paths.lock_file(), paths.index_dir(), paths.backups_dir()];
    places.push(holding::lease_file(paths.data_dir()));
    places
        .extend(["recall.db-wal", "recall.db-shm", "recall.db-journal"].map(|it| paths.data_dir().join(it)));
    places.extend([
        paths.spool_dir(),
        paths.log_dir(),
        paths.log_file(),
        pause_note(paths),
        clock_note(paths),
        repair_note(paths),
    ]);
    let foreign = |path: PathBuf| match trusted_file::check_owner_of(&path) {
        Err(Refused::Foreign(owner)) => Some(FolderError::Foreign { path, owner }),
        _ => None,
    };
    places.into_iter().filter_map(foreign).collect()
}

fn pause_note(paths: &Paths) -> PathBuf {
    paths.state_dir().join("pauses.json")
}

fn clock_note(paths: &Paths) -> PathBuf {
    paths.state_dir().join("clock.json")
}

/// The file that contains the last valid configuration.
pub fn last_config(paths: &Paths) -> PathBuf {
    paths.state_dir().join("last-config.json")
}

/// The file that records repairs of the database.
pub fn repair_note(paths: &Paths) -> PathBuf {
    paths.state_dir().join("repairs.json")
}

/// Opens the database early, to report its errors; inside the actor tree, opening would be retried. Repairs a damaged
/// database. Sessions that still count as live were interrupted by a sudden end: they are suspended before anything
/// resumes them, and the events that report it are returned. Leases of the last run are released before new ones are
/// granted. If the folder was lost in the meantime, the database belongs to another daemon and nothing is changed.
fn open_first(
    site: &RepairSite,
    config: &Config,
    holding: &Holding,
) -> Result<(StoreWriter, Vec<LifecycleEvent>), RunError> {
    let still_ours = || holding.check().map_err(RunError::Lost);
    let open = || StoreWriter::open(&site.database, &site.backups, config.durability, holding);
    let connection = match open() {
        Err(error) if error.is_damage() => {
            still_ours()?;
            tracing::error!(%error, "the database is damaged");
            let readers = Readers::new(&site.database);
            recall_store::repair(site, &readers, Evidence::Reported, &error.to_string(), clock::now())?;
            open()?
        }
        opened => opened?,
    };
    still_ours()?;
    let mut changes = Changes::default();
    let suspend = SuspendAll { at: clock::now(), why: Suspension::Crash };
    if let Err(error) = connection.execute(suspend, &mut changes) {
        // The tree repairs damage that shows here.
        tracing::error!(%error, "cannot mark interrupted sessions as suspended");
    }
    let sessions = changes.events.len();
    if sessions > 0 {
        tracing::info!(sessions, "suspended the sessions that the last stop interrupted");
    }
    match connection.execute(ReleaseLeases, &mut changes) {
        Ok(released) => released.log(),
        Err(error) => tracing::warn!(%error, "cannot release the last run's leases; they will expire"),
    }
    Ok((connection, changes.events))
}

/// After a sudden end, checks every page once in the background, because reading the whole file would delay the start.
/// The readers' alarm reports damage to the root.
fn look_for_damage(readers: &Readers) {
    let started = std::time::Instant::now();
    match readers.read(|db| db.check(Thoroughness::Structure)) {
        Ok(()) => {
            tracing::info!(took = ?started.elapsed(), "the last stop was sudden; the database is sound")
        }
        Err(error) => tracing::error!(%error, "the last stop was sudden"),
    }
}

fn notify_service_manager(state: &[sd_notify::NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(state) {
        tracing::warn!(%error, "cannot notify the service manager");
    }
}

/// Feeds the watchdog only after a successful commit: a daemon that accepts events but cannot store them does not
/// work.
async fn feed_watchdog(services: Services) {
    let Some(limit) = sd_notify::watchdog_enabled() else { return };
    let mut rounds = tokio::time::interval(limit / 3);
    loop {
        rounds.tick().await;
        if services.ports.writer.write(ExpireLeases { now: clock::now() }).await.is_ok() {
            notify_service_manager(&[sd_notify::NotifyState::Watchdog]);
        }
    }
}

/// Opens the gateway at the start if the configuration says so.
async fn open_gateway(connection: &ConnectionContext) {
    if connection.services.config.get().gateway.opens == GatewayOpens::AtStart
        && let Err(error) = http::open(connection).await
    {
        tracing::error!(%error, "cannot open the gateway");
    }
}

/// Applies changes of `[gateway]`. A gateway that was opened for a browser closes at a change, and opens again on the
/// next request.
async fn follow_gateway(connection: ConnectionContext) {
    let mut applied = connection.services.config.applied();
    let mut known = applied.borrow_and_update().gateway.clone();
    while applied.changed().await.is_ok() {
        let gateway = applied.borrow_and_update().gateway.clone();
        if gateway != known {
            known = gateway;
            connection.gateway.close().await;
            open_gateway(&connection).await;
        }
    }
}

/// How often to send the daemon's metrics to a collector: the default of OpenTelemetry's own libraries.
const MEASURE_EVERY: Duration = Duration::from_secs(60);

/// Sends metrics if the configuration names a collector.
async fn measure(connection: ConnectionContext) {
    let mut rounds = tokio::time::interval(MEASURE_EVERY);
    loop {
        rounds.tick().await;
        if connection.services.config.get().otlp_endpoint.is_none() {
            continue;
        }
        if let Ok(status) = queries::status::status(&connection).await {
            let measured = TelemetryMessage::Measured(metrics(&status));
            // A restarting actor gets the next round.
            let _ = connection.services.telemetry.send(measured);
        }
    }
}
