//! The state of the daemon: what is stored, what waits, and what was spent.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::sharing::RemoteState;
use super::told::ToldTotal;
use super::{Moment, Text};
use crate::clock;
use crate::latency::{Latencies, LatencyWindow, Quantiles};
use crate::pause::PauseSwitch;
use recall_domain::budget::{Assumed, Usage};
use recall_domain::wall_clock::Jump;
use recall_providers::{Circuit, ProviderState};
use recall_store::{
    CompressionTrouble, DeadJobs, JobRow, OpenJobs, Repair, SpendingRow, UnreadableRow, WaitingJobs,
};

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct JobsAnswer {
    pub jobs: Vec<JobLine>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct JobLine {
    pub id: i64,
    pub kind: String,
    pub session_id: String,
    pub status: String,
    pub attempts: u32,
    pub error: Option<String>,
    /// The origin of the last result.
    pub origin: Option<String>,
    /// Text left out for the model; null if no model was used.
    #[schemars(with = "Option<serde_json::Value>")]
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

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct StatusAnswer {
    pub version: Text,
    pub pid: u32,
    pub uptime_s: u64,
    pub protocol: u8,
    pub home: String,
    pub sessions: SessionCounts,
    pub events: EventCounts,
    pub guards: GuardCounts,
    pub jobs: JobCounts,
    pub observations: i64,
    /// Of these, what machines made and no person has looked at.
    #[serde(default)]
    pub unreviewed: i64,
    pub summaries: i64,
    pub index: IndexState,
    pub compression: CompressionState,
    #[serde(default)]
    pub embedding: EmbeddingState,
    pub subscribe: SubscriberCounters,
    #[serde(default)]
    pub telemetry: TelemetryCounters,
    #[serde(default)]
    pub gateway: GatewayState,
    /// What is shared with other machines, one for each remote.
    #[serde(default)]
    pub sharing: Vec<RemoteState>,
    pub bytes: ByteCounts,
    pub rss_bytes: u64,
    /// The part of it that no file backs: what the daemon itself takes.
    #[serde(default)]
    pub own_bytes: u64,
    /// The part of it that is mapped of files, which the system takes back when it needs the memory.
    #[serde(default)]
    pub mapped_bytes: u64,
    #[serde(default)]
    pub latency: LatencyAnswer,
    pub paused: Option<PauseAnswer>,
    /// Why sessions are not deleted for their age at the moment (`timers.retention_days`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_jump: Option<ClockJump>,
    pub config: ConfigAnswer,
    /// Repairs of the database in the last week, the latest last.
    pub healed: Vec<RepairAnswer>,
    /// Whether traces of what was forgotten may remain, because something cannot be removed.
    #[serde(default)]
    pub traces_left: bool,
}

/// A step of the wall clock that time does not explain.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ClockJump {
    pub from: Moment,
    pub to: Moment,
}

impl From<Jump> for ClockJump {
    fn from(Jump { from, to }: Jump) -> Self {
        Self { from: Moment(from), to: Moment(to) }
    }
}

/// The latencies of the last thousand of each kind; null if there were none since the daemon started.
#[derive(Default, Serialize, Deserialize, JsonSchema)]
pub struct LatencyAnswer {
    /// From an event's arrival until its answer is ready.
    pub hook_answers: Option<QuantilesAnswer>,
    pub commits: Option<QuantilesAnswer>,
}

/// The values that half, and 99 of 100, did not exceed.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct QuantilesAnswer {
    pub samples: usize,
    pub p50_ms: f64,
    pub p99_ms: f64,
}

impl From<&Latencies> for LatencyAnswer {
    fn from(latencies: &Latencies) -> Self {
        let answer = |window: &LatencyWindow| window.quantiles().map(QuantilesAnswer::from);
        Self { hook_answers: answer(&latencies.hook_answers), commits: answer(&latencies.commits) }
    }
}

impl From<Quantiles> for QuantilesAnswer {
    fn from(Quantiles { samples, p50_us, p99_us }: Quantiles) -> Self {
        Self { samples, p50_ms: f64::from(p50_us) / 1_000.0, p99_ms: f64::from(p99_us) / 1_000.0 }
    }
}

/// The configuration in force.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ConfigAnswer {
    pub file: String,
    /// All problems, with lines.
    pub errors: Vec<String>,
    /// The consequences of the problems; null without any.
    pub consequence: Option<Text>,
}

/// The state of subscriptions since the daemon started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubscriberCounters {
    pub subscriptions: usize,
    /// Commands that were started, or should have been.
    pub runs: u64,
    pub failures: u64,
    /// Events that were dropped because too many waited.
    pub dropped: u64,
    pub last_failure: Option<String>,
}

/// Counts of what the daemon has sent to a collector since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TelemetryCounters {
    /// Null: nothing is sent.
    pub endpoint: Option<String>,
    /// Spans that the collector took.
    pub spans: u64,
    pub dropped: u64,
    /// Calls that were not answered, or not well.
    pub failures: u64,
    pub last_failure: Option<String>,
}

/// A damaged database that was replaced.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct RepairAnswer {
    pub at: Moment,
    pub why: String,
    /// The path of the damaged file.
    pub damaged: String,
    /// The backup that replaced it; null: an empty database.
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
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct PingAnswer {
    pub version: Text,
    pub pid: u32,
}

/// `ctl stop`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct StopAnswer {
    pub stopping: bool,
}

/// Whether the gateway is open.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GatewayState {
    /// Null: it is closed.
    pub url: Option<String>,
    /// Why it is closed, though it was to open.
    pub failure: Option<String>,
}

/// `ui --web`: where the gateway listens, and a link that lets one browser in, once.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct GatewayAnswer {
    pub url: String,
    pub link: String,
}

/// `ctl retry`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct RetryAnswer {
    pub retried: u64,
}

/// `ctl flush`: what it waited for.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct FlushAnswer {
    pub spooled_stored: u64,
    /// Spool files that cannot be stored now.
    pub spooled_left: u64,
    /// Compression jobs that are not done. All that was accepted before has a result: the built-in one, where a model's is
    /// still owed.
    pub jobs: OpenJobsAnswer,
    pub took_ms: u64,
}

/// Compression jobs that are not done.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct OpenJobsAnswer {
    pub running: u64,
    pub waiting: u64,
    /// They were given up.
    pub dead: u64,
    /// When the first of those that wait is tried again; null: none waits, or it is tried at once.
    pub next_try: Option<Moment>,
}

impl From<OpenJobs> for OpenJobsAnswer {
    fn from(jobs: OpenJobs) -> Self {
        let OpenJobs { running, waiting, dead, next_try } = jobs;
        Self { running, waiting, dead, next_try: next_try.filter(|at| at.0 > 0).map(Moment) }
    }
}

/// The figures of a project for one line.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct GlanceAnswer {
    /// `None`: nothing is known of it.
    pub project: Option<String>,
    /// Observations that are neither resolved nor replaced.
    pub notes: u64,
    /// How many of these are steps that are still to be taken.
    pub open: u64,
    pub paused: bool,
    /// The agents that reported lately, latest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reported: Vec<ReportedAnswer>,
}

/// An agent that reported.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ReportedAnswer {
    pub agent: String,
    /// Its latest event.
    pub at: Moment,
    /// The folder of that session.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub folder: Option<String>,
}

/// `ctl pause` and `ctl resume`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct CaptureAnswer {
    pub paused: Option<PauseAnswer>,
}

/// Whether recording is paused, and until when; without an end, until `recall resume`.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct PauseAnswer {
    pub since: Moment,
    pub until: Option<Moment>,
}

impl PauseAnswer {
    /// `None`: recording is on.
    pub fn now(pauses: &PauseSwitch) -> Option<Self> {
        let pause = pauses.current(&clock::moment())?;
        Some(Self { since: Moment(pause.since), until: pause.until.map(Moment) })
    }
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct SessionCounts {
    pub live: i64,
    pub total: i64,
}

/// `duplicates`: since the daemon started; `spooled`: files that wait now; `dropped`: events that could not be stored
/// anywhere.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct EventCounts {
    pub stored: i64,
    pub duplicates: u64,
    /// The calls and prompts among them that two hooks reported: the hook is registered twice.
    pub told_twice: u64,
    /// Events that arrived during a pause and were not stored, since the daemon started.
    pub paused: u64,
    /// Events of excluded projects, since the daemon started.
    pub excluded: u64,
    pub spooled: u64,
    pub dropped: u64,
    /// When the first of those was dropped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped_since: Option<Moment>,
    pub unparsed: i64,
    /// The last of those that could not be read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<UnreadableEvent>,
}

/// An event that was kept as it came.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct UnreadableEvent {
    pub agent: String,
    /// As the command line named it; empty: it did not.
    pub event: String,
    pub why: String,
    pub at: Moment,
}

impl From<UnreadableRow> for UnreadableEvent {
    fn from(row: UnreadableRow) -> Self {
        let UnreadableRow { agent, event, why, at } = row;
        Self { agent, event, why, at: Moment(at) }
    }
}

/// Since the daemon started.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct GuardCounts {
    /// Calls that a guard refused or asked about.
    pub refused: u64,
    /// Calls that went on, and that a guard told of.
    #[serde(default)]
    pub advised: u64,
    /// Results that a guard warned of.
    pub warned: u64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct JobCounts {
    pub pending: i64,
    pub running: i64,
    pub retrying: i64,
    pub done: i64,
    pub dead: i64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct IndexState {
    pub documents: u64,
    /// Log entries that are not in the index yet.
    pub behind: i64,
    /// `complete`, `rebuilding`, `absent`, or `checking`: it was complete at the last stop, and its files are being
    /// compared with their checksums.
    pub state: Text,
    /// How often it was rebuilt since the daemon started.
    pub rebuilds: u64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct CompressionState {
    pub backend: String,
    pub circuit: Text,
    pub tokens_today: u64,
    pub usd_today: f64,
    /// 0: no cap.
    pub tokens_per_day: u64,
    pub usd_per_day: f64,
    /// Whether the prices of all models are known, so that `usd_today` says what they have cost.
    #[serde(default)]
    pub is_priced: bool,
    pub restarts: u64,
    pub threads_lost: u64,
    pub providers: Vec<ProviderAnswer>,
    /// Failures of models since their last success; null: none.
    pub trouble: Option<TroubleAnswer>,
    /// What each model was asked today, and what that has cost; a call under way counts at its most.
    #[serde(default)]
    pub asked_today: Vec<SpendingLine>,
    /// Jobs that wait, by kind.
    #[serde(default)]
    pub waiting: Vec<WaitingAnswer>,
    /// Jobs that were given up, by reason, the latest first.
    #[serde(default)]
    pub given_up: Vec<GivenUpAnswer>,
}

/// Jobs of one kind that wait.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WaitingAnswer {
    /// `batch`, `summary` or `notes`.
    pub kind: String,
    pub jobs: u64,
    /// When the first of them is tried; null: as soon as a compressor is free.
    pub next_try: Option<Moment>,
    /// Why the last one that was tried has no result; null: none was.
    pub error: Option<String>,
}

impl From<WaitingJobs> for WaitingAnswer {
    fn from(WaitingJobs { kind, jobs, next_try, error }: WaitingJobs) -> Self {
        Self { kind, jobs, next_try: Some(next_try).filter(|at| at.0 > 0).map(Moment), error }
    }
}

/// Jobs that were given up for one reason.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct GivenUpAnswer {
    pub jobs: u64,
    pub error: Option<String>,
    pub last: Option<Moment>,
}

impl From<DeadJobs> for GivenUpAnswer {
    fn from(DeadJobs { jobs, error, last }: DeadJobs) -> Self {
        Self { jobs, error, last: last.map(Moment) }
    }
}

/// Whether a model is asked.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ProviderAnswer {
    /// `provider:model`.
    pub name: String,
    /// `closed`: calls are made. `open`: none for a while. `barred`: none until a person has acted.
    pub circuit: Text,
    /// Why it is not asked; absent where it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it is asked again; absent where that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Moment>,
}

impl From<ProviderState> for ProviderAnswer {
    fn from(ProviderState { name, circuit }: ProviderState) -> Self {
        let (circuit, why, until) = match circuit {
            Circuit::Closed => ("closed", None, None),
            Circuit::Open { until, why } => ("open", Some(why), until.map(Moment)),
            Circuit::Barred { why } => ("barred", Some(why), None),
        };
        Self { name, circuit: circuit.into(), why, until }
    }
}

/// The vectors of texts.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct EmbeddingState {
    /// `none`, `local` or `openai`.
    pub backend: Text,
    /// As it is configured; empty without one.
    pub model: String,
    /// `off`, `ready`, or `unusable`: searches use words only.
    pub state: Text,
    /// Why it is unusable, or why the documents that wait got no vectors at the last attempt; null if neither is so.
    pub why: Option<String>,
    /// The hash of the model's files, or of its address; null without a model.
    pub model_hash: Option<String>,
    /// Documents that have vectors.
    pub embedded: i64,
    /// Documents that have none yet.
    pub waiting: i64,
    /// Documents that get vectors in a second; null before the first.
    #[serde(default)]
    pub per_second: Option<f64>,
    /// How long those that wait take at this rate; null if nobody knows.
    #[serde(default)]
    pub seconds_left: Option<i64>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
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

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct StatsAnswer {
    /// The earliest first; days without calls are left out.
    pub spending: Vec<SpendingLine>,
    pub total: SpendingTotal,
    /// What sessions were told in these days.
    #[serde(default)]
    pub told: ToldTotal,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct SpendingLine {
    /// In the user's time zone.
    pub day: String,
    pub backend: String,
    #[serde(flatten)]
    pub total: SpendingTotal,
}

#[derive(Clone, Copy, Default, Serialize, Deserialize, JsonSchema)]
pub struct SpendingTotal {
    pub calls: i64,
    pub tokens_in: u64,
    pub tokens_out: u64,
    pub usd: f64,
    /// Calls of unknown cost, which the other numbers include; `tokens_in` and `tokens_out` contain their maximum.
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
        Self { spending, total: SpendingTotal::of(calls, sum, assumed), told: ToldTotal::default() }
    }
}

impl SpendingTotal {
    fn of(calls: i64, usage: Usage, assumed: Assumed) -> Self {
        let Usage { tokens_in, tokens_out, micro_usd } = usage;
        let Assumed { calls: assumed_calls, tokens: assumed_tokens } = assumed;
        Self { calls, tokens_in, tokens_out, usd: dollars(micro_usd), assumed_calls, assumed_tokens }
    }
}

/// Dollars from millionths.
pub fn dollars(micro_usd: u64) -> f64 {
    micro_usd as f64 / 1_000_000.0
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct ByteCounts {
    pub database: u64,
    pub index: u64,
    pub spool: u64,
    pub log: u64,
}
