//! How the daemon is: what it holds, what waits, what is spent.

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::{Moment, Text};
use crate::actors::subscriber::SubscriberCounters;
use crate::app::clock;
use crate::app::pause::PauseSwitch;
use crate::compression::ProviderState;
use crate::memory::budget::{Assumed, Usage};
use crate::store::{CompressionTrouble, JobRow, Repair, SpendingRow};

#[derive(Serialize, Deserialize)]
pub struct JobsAnswer {
    pub jobs: Vec<JobLine>,
}

#[derive(Serialize, Deserialize)]
pub struct JobLine {
    pub id: i64,
    pub kind: String,
    pub session_id: String,
    pub status: String,
    pub attempts: u32,
    pub error: Option<String>,
    /// Who made the last result.
    pub origin: Option<String>,
    /// What a model was not shown; null where none was asked.
    pub cuts: Option<Box<RawValue>>,
}

impl From<JobRow> for JobLine {
    fn from(row: JobRow) -> Self {
        Self {
            id: row.id.0,
            kind: row.kind,
            session_id: row.session.0,
            status: row.status,
            attempts: row.attempts,
            error: row.error,
            origin: row.origin,
            cuts: row.cuts.and_then(|json| RawValue::from_string(json).ok()),
        }
    }
}

#[derive(Serialize, Deserialize)]
pub struct StatusAnswer {
    pub version: Text,
    pub pid: u32,
    pub uptime_s: u64,
    pub protocol: u8,
    pub home: String,
    pub sessions: SessionCounts,
    pub events: EventCounts,
    pub jobs: JobCounts,
    pub observations: i64,
    pub summaries: i64,
    pub index: IndexState,
    pub compression: CompressionState,
    pub subscribe: SubscriberCounters,
    pub bytes: ByteCounts,
    pub rss_bytes: u64,
    pub paused: Option<PauseAnswer>,
    pub config: ConfigAnswer,
    /// Repairs of the database in the last week, the latest last.
    pub healed: Vec<RepairAnswer>,
}

/// The configuration that the daemon follows.
#[derive(Serialize, Deserialize)]
pub struct ConfigAnswer {
    pub file: String,
    /// All that is wrong with it, with lines.
    pub errors: Vec<String>,
    /// What follows from the errors; null without any.
    pub consequence: Option<Text>,
    /// Parts that have changed since the daemon started and count after a restart.
    pub after_restart: Vec<Text>,
}

/// A damaged database that was replaced.
#[derive(Serialize, Deserialize)]
pub struct RepairAnswer {
    pub at: Moment,
    pub why: String,
    /// Where the damaged file lies.
    pub damaged: String,
    /// The backup in its place; null: an empty database.
    pub restored: Option<String>,
    pub restored_from: Option<Moment>,
}

impl From<Repair> for RepairAnswer {
    fn from(repair: Repair) -> Self {
        Self {
            at: Moment(repair.at),
            why: repair.why,
            damaged: repair.damaged.to_string_lossy().into_owned(),
            restored: repair.restored.map(|backup| backup.to_string_lossy().into_owned()),
            restored_from: repair.restored_from.map(Moment),
        }
    }
}

/// `ping`.
#[derive(Serialize, Deserialize)]
pub struct PingAnswer {
    pub version: Text,
    pub pid: u32,
}

/// `ctl stop`.
#[derive(Serialize, Deserialize)]
pub struct StopAnswer {
    pub stopping: bool,
}

/// `ctl retry`.
#[derive(Serialize, Deserialize)]
pub struct RetryAnswer {
    pub retried: u64,
}

/// `ctl flush`: what was waited for.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub struct FlushAnswer {
    pub spooled_stored: u64,
    /// Spool files that cannot be stored now.
    pub spooled_left: u64,
    pub took_ms: u64,
}

/// `ctl pause` and `ctl resume`.
#[derive(Serialize, Deserialize)]
pub struct CaptureAnswer {
    pub paused: Option<PauseAnswer>,
}

/// That nothing is captured, and until when; no end: until somebody says so.
#[derive(Serialize, Deserialize)]
pub struct PauseAnswer {
    pub since: Moment,
    pub until: Option<Moment>,
}

impl PauseAnswer {
    /// `None`: recall captures.
    pub fn now(pauses: &PauseSwitch) -> Option<Self> {
        let pause = pauses.current(clock::now())?;
        Some(Self { since: Moment(pause.since), until: pause.until.map(Moment) })
    }
}

#[derive(Serialize, Deserialize)]
pub struct SessionCounts {
    pub live: i64,
    pub total: i64,
}

/// `duplicates` since the daemon started; `spooled`: files that wait now; `dropped`: events that
/// could be kept nowhere.
#[derive(Serialize, Deserialize)]
pub struct EventCounts {
    pub stored: i64,
    pub duplicates: u64,
    /// Of those, calls and prompts that two hooks have told of: they are registered twice.
    pub told_twice: u64,
    /// Taken in a pause and not kept, since the daemon started.
    pub paused: u64,
    /// Of projects of which nothing is captured, since the daemon started.
    pub excluded: u64,
    pub spooled: u64,
    pub dropped: u64,
    pub unparsed: i64,
}

#[derive(Serialize, Deserialize)]
pub struct JobCounts {
    pub pending: i64,
    pub running: i64,
    pub retrying: i64,
    pub done: i64,
    pub dead: i64,
}

#[derive(Serialize, Deserialize)]
pub struct IndexState {
    pub documents: u64,
    /// Log entries that the index does not hold yet.
    pub behind: i64,
    /// `complete`, `rebuilding` or `absent`.
    pub state: Text,
    /// How often it was made anew since the daemon started.
    pub rebuilds: u64,
}

#[derive(Serialize, Deserialize)]
pub struct CompressionState {
    pub backend: String,
    pub circuit: Text,
    pub tokens_today: u64,
    pub usd_today: f64,
    /// 0: no cap.
    pub tokens_per_day: u64,
    pub usd_per_day: f64,
    pub restarts: u64,
    pub threads_lost: u64,
    pub providers: Vec<ProviderState>,
    /// What models have failed at since their last success; null: nothing.
    pub trouble: Option<TroubleAnswer>,
}

#[derive(Serialize, Deserialize)]
pub struct TroubleAnswer {
    pub since: Moment,
    pub jobs: i64,
    pub error: String,
}

impl From<CompressionTrouble> for TroubleAnswer {
    fn from(trouble: CompressionTrouble) -> Self {
        Self { since: Moment(trouble.since), jobs: trouble.jobs, error: trouble.error }
    }
}

#[derive(Serialize, Deserialize)]
pub struct StatsAnswer {
    /// The earliest first; a day without calls is left out.
    pub spending: Vec<SpendingLine>,
    pub total: SpendingTotal,
}

#[derive(Serialize, Deserialize)]
pub struct SpendingLine {
    /// In the user's own time zone.
    pub day: String,
    pub backend: String,
    #[serde(flatten)]
    pub total: SpendingTotal,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize)]
pub struct SpendingTotal {
    pub calls: i64,
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub usd: f64,
    /// Calls of which nobody knows what they cost, among the others; `tokens_in` and `tokens_out` hold their most.
    pub assumed_calls: i64,
    pub assumed_tokens: u64,
}

impl StatsAnswer {
    pub fn of(rows: Vec<SpendingRow>) -> Self {
        let mut calls = 0;
        let (mut sum, mut assumed) = (Usage::default(), Assumed::default());
        let spending = rows
            .into_iter()
            .map(|row| {
                calls += row.calls;
                sum.tokens_in += row.usage.tokens_in;
                sum.tokens_out += row.usage.tokens_out;
                sum.micro_usd += row.usage.micro_usd;
                assumed.calls += row.assumed.calls;
                assumed.tokens += row.assumed.tokens;
                let total = SpendingTotal::of(row.calls, row.usage, row.assumed);
                SpendingLine { day: row.day.0, backend: row.backend, total }
            })
            .collect();
        Self { spending, total: SpendingTotal::of(calls, sum, assumed) }
    }
}

impl SpendingTotal {
    fn of(calls: i64, usage: Usage, assumed: Assumed) -> Self {
        let Usage { tokens_in, tokens_out, micro_usd } = usage;
        let Assumed { calls: assumed_calls, tokens: assumed_tokens } = assumed;
        Self { calls, tokens_in, tokens_out, usd: dollars(micro_usd), assumed_calls, assumed_tokens }
    }
}

/// Millionths as dollars.
pub fn dollars(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1_000_000.0
}

#[derive(Serialize, Deserialize)]
pub struct ByteCounts {
    pub database: u64,
    pub index: u64,
    pub spool: u64,
    pub log: u64,
}
