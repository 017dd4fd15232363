//! `recall ctl status`: the state of the daemon.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::time::Duration;

use recall_protocol::frame::PROTOCOL_VERSION;
use recall_protocol::losses::{Losses, Lost};

use crate::actors::compression::{CompressionCounters, CompressionMessage};
use crate::actors::indexer::{IndexCounters, IndexerMessage};
use crate::actors::services::Services;
use crate::actors::subscriber::SubscriberMessage;
use crate::actors::telemetry::TelemetryMessage;
use crate::server::connection_context::ConnectionContext;
use crate::server::run::repair_note;
use recall_app::answers::Moment;
use recall_app::answers::sharing::RemoteState;
use recall_app::answers::status::{
    ByteCounts, ClockJump, CompressionState, ConfigAnswer, EmbeddingState, EventCounts, GatewayState,
    GuardCounts, IndexState as IndexAnswer, JobCounts, LatencyAnswer, PauseAnswer, SessionCounts,
    StatsAnswer, StatusAnswer, TroubleAnswer, dollars,
};
use recall_app::answers::status::{SubscriberCounters, TelemetryCounters};
use recall_app::clock;
use recall_app::index_handle::IndexState;
use recall_app::queries::{Answer, blocking};
use recall_app::sentences::ModelState;
use recall_app::sharing::report::{NextRound, report};
use recall_domain::budget::Usage;
use recall_store::{CompressionTrouble, DeadJobs, SpendingRow, Statistics, WaitingJobs, recent_repairs};

const OBSERVE_WITHIN: Duration = Duration::from_secs(2);

pub(in crate::server) async fn status(connection: &ConnectionContext) -> Answer<StatusAnswer> {
    let services = &connection.services;
    let observed = Observed {
        compression: services
            .ports
            .compression
            .ask(CompressionMessage::Observe, OBSERVE_WITHIN)
            .await
            .unwrap_or_default(),
        index: services.ports.indexer.ask(IndexerMessage::Observe, OBSERVE_WITHIN).await.unwrap_or_default(),
        subscribe: services
            .subscriber
            .ask(SubscriberMessage::Observe, OBSERVE_WITHIN)
            .await
            .unwrap_or_default(),
        telemetry: services
            .telemetry
            .ask(TelemetryMessage::Observe, OBSERVE_WITHIN)
            .await
            .unwrap_or_default(),
    };
    let connection = connection.clone();
    let gateway = connection.gateway.state().await;
    blocking(move || put_together(&connection, observed, gateway)).await
}

/// The number of reasons shown for jobs that were given up.
const REASONS: u32 = 3;

/// What models were asked, what it cost, and what is left to do.
struct Work {
    spent: Usage,
    asked: Vec<SpendingRow>,
    trouble: Option<CompressionTrouble>,
    waiting: Vec<WaitingJobs>,
    dead: Vec<DeadJobs>,
}

/// Figures reported by actors; empty while one restarts.
struct Observed {
    compression: CompressionCounters,
    index: IndexCounters,
    subscribe: SubscriberCounters,
    telemetry: TelemetryCounters,
}

fn put_together(
    connection: &ConnectionContext,
    observed: Observed,
    gateway: GatewayState,
) -> Answer<StatusAnswer> {
    let (services, paths) = (&connection.services, &connection.home);
    let Observed { compression, index, subscribe, telemetry } = observed;
    let today = clock::day_of(clock::now());
    let (counts, unreadable, newest, work) = services.readers.read(|db| {
        let work = Work {
            spent: db.spent(&today)?,
            asked: db.spending(&today)?,
            trouble: db.compression_trouble()?,
            waiting: db.waiting_jobs()?,
            dead: db.dead_jobs(REASONS)?,
        };
        let unreadable = db.last_unreadable()?;
        Ok((db.statistics()?, unreadable, db.highest_log_entry()?, work))
    })?;
    let settings = services.ingest.settings.report();
    let spool = services.spool.settle().unwrap_or_default();
    let memory = ProcessMemory::now();
    Ok(StatusAnswer {
        version: env!("CARGO_PKG_VERSION").into(),
        pid: std::process::id(),
        uptime_s: connection.started_at.elapsed().as_secs(),
        protocol: PROTOCOL_VERSION,
        home: paths.data_dir().to_string_lossy().into_owned(),
        sessions: SessionCounts { live: counts.sessions_live, total: counts.sessions },
        events: EventCounts {
            unreadable: unreadable.map(Into::into),
            ..events(services, &counts, spool.files, Losses::new(paths).lost())
        },
        guards: guards(services),
        jobs: JobCounts {
            pending: counts.jobs_pending,
            running: counts.jobs_running,
            retrying: counts.jobs_retrying,
            done: counts.jobs_done,
            dead: counts.jobs_dead,
        },
        observations: counts.observations,
        unreviewed: counts.unreviewed,
        summaries: counts.summaries,
        index: IndexAnswer {
            documents: services.context_lookup.index.index().map_or(0, |index| index.documents()),
            behind: (newest.0 - index.high_water.0).max(0),
            state: index_state(&services.context_lookup.index.state()).into(),
            rebuilds: index.rebuilds,
        },
        compression: compression_state(services, compression, work),
        embedding: embedding_state(services)?,
        subscribe,
        telemetry,
        gateway,
        sharing: RemoteState::of(&report(&services.syncing, NextRound(None))?.shares),
        bytes: ByteCounts {
            database: database_bytes(&paths.database()),
            index: folder_bytes(&paths.index_dir()),
            spool: spool.bytes,
            log: folder_bytes(&paths.log_dir()),
        },
        rss_bytes: memory.resident,
        own_bytes: memory.own,
        mapped_bytes: memory.mapped,
        latency: LatencyAnswer::from(&*services.latencies),
        clock_jump: clock_jump(services),
        paused: PauseAnswer::now(&services.ingest.pauses),
        config: ConfigAnswer {
            file: paths.config_file().to_string_lossy().into_owned(),
            errors: settings.problems.clone(),
            consequence: settings.consequence.map(Into::into),
        },
        healed: recent_repairs(&repair_note(paths), clock::now()).into_iter().map(Into::into).collect(),
        traces_left: counts.traces_left,
    })
}

fn index_state(state: &IndexState) -> &'static str {
    match state {
        IndexState::Absent => "absent",
        IndexState::Filling(_) => "rebuilding",
        IndexState::Unexamined(_) => "checking",
        IndexState::Complete(_) => "complete",
    }
}

/// Returns a jump of the clock, which matters only if something is deleted by age.
fn clock_jump(services: &Services) -> Option<ClockJump> {
    (services.config.get().retention_days > 0).then(|| services.clock.jump())?.map(ClockJump::from)
}

fn events(services: &Services, counts: &Statistics, spooled: u64, lost: Lost) -> EventCounts {
    let taken = &services.ingest.counters;
    EventCounts {
        stored: counts.events,
        duplicates: taken.duplicates.load(Ordering::Relaxed),
        told_twice: taken.told_twice.load(Ordering::Relaxed),
        paused: taken.paused.load(Ordering::Relaxed),
        excluded: taken.excluded.load(Ordering::Relaxed),
        spooled,
        dropped: lost.events,
        dropped_since: lost.first.map(|first| Moment(clock::of(first))),
        unparsed: counts.unparsed,
        unreadable: None,
    }
}

fn guards(services: &Services) -> GuardCounts {
    let taken = &services.ingest.counters;
    GuardCounts {
        refused: taken.guarded.load(Ordering::Relaxed),
        advised: taken.advised.load(Ordering::Relaxed),
        warned: taken.warned.load(Ordering::Relaxed),
    }
}

fn compression_state(
    services: &Services,
    counters: CompressionCounters,
    Work { spent, asked, trouble, waiting, dead }: Work,
) -> CompressionState {
    let caps = services.config.get().compression.caps;
    CompressionState {
        backend: counters.backend,
        circuit: counters.circuit.as_str().into(),
        tokens_today: spent.tokens(),
        usd_today: dollars(spent.micro_usd),
        tokens_per_day: caps.tokens,
        usd_per_day: dollars(caps.micro_usd),
        is_priced: services.config.get().compression.is_priced(),
        restarts: counters.restarts,
        threads_lost: counters.threads_lost,
        providers: counters.providers.into_iter().map(Into::into).collect(),
        trouble: trouble.map(TroubleAnswer::from),
        asked_today: StatsAnswer::of(asked).spending,
        waiting: waiting.into_iter().map(Into::into).collect(),
        given_up: dead.into_iter().map(Into::into).collect(),
    }
}

fn embedding_state(services: &Services) -> Answer<EmbeddingState> {
    let config = services.config.get();
    let policy = &config.embedding;
    let state = EmbeddingState {
        backend: policy.backend().into(),
        model: policy.model().to_owned(),
        state: "off".into(),
        ..EmbeddingState::default()
    };
    match services.context_lookup.index.sentences.state() {
        ModelState::None => Ok(state),
        ModelState::Missing { why } | ModelState::Unusable { why } => {
            Ok(EmbeddingState { state: "unusable".into(), why: Some(why), ..state })
        }
        ModelState::Ready(embedder) => {
            let model = embedder.model();
            let calls = services.context_lookup.index.sentences.calls_seen();
            let (count, waiting) = services.readers.read(|db| {
                let calls = calls.map_or(Ok(0), |seen| seen.count_left(db))?;
                Ok((db.count_vectors(&model.0)?, db.count_without_vectors(&model.0)? + calls))
            })?;
            let per_second = services.context_lookup.index.sentences.per_second().filter(|rate| *rate > 0.0);
            Ok(EmbeddingState {
                per_second,
                seconds_left: per_second.map(|rate| (waiting as f64 / rate).ceil() as i64),
                state: "ready".into(),
                why: services.context_lookup.index.sentences.trouble().filter(|_| waiting > 0),
                model_hash: Some(model.to_string()),
                embedded: count,
                waiting,
                ..state
            })
        }
    }
}

/// The size of the database including SQLite's files beside it.
fn database_bytes(database: &Path) -> u64 {
    let file = |suffix: &str| {
        let mut path = database.as_os_str().to_owned();
        path.push(suffix);
        file_bytes(Path::new(&path))
    };
    ["", "-wal", "-shm"].into_iter().map(file).sum()
}

fn file_bytes(path: &Path) -> u64 {
    std::fs::metadata(path).map_or(0, |file| file.len())
}

fn folder_bytes(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .filter(std::fs::Metadata::is_file)
        .map(|file| file.len())
        .sum()
}

/// The memory of this process in bytes.
struct ProcessMemory {
    resident: u64,
    own: u64,
    mapped: u64,
}

impl ProcessMemory {
    /// Reads proc(5); zeros if there is no such file.
    fn now() -> Self {
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let of = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kilobytes =
                line.and_then(|line| line.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
            kilobytes.unwrap_or(0) * 1024
        };
        Self { resident: of("VmRSS"), own: of("RssAnon") + of("RssShmem"), mapped: of("RssFile") }
    }
}
