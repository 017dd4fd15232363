//! The state of the daemon: what is stored, what is waiting, and what was spent.

mod jobs;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::injection_uses::InjectionTotal;
use super::sharing::RemoteState;
use super::{Moment, Text};
use crate::clock;
use crate::latency::{Latencies, LatencyWindow, Quantiles};
use crate::pause::PauseSwitch;
pub use jobs::{
    GivenUpAnswer, JobCounts, JobLine, JobsAnswer, OpenJobsAnswer, RetryAnswer, TroubleAnswer, WaitingAnswer,
};
use recall_domain::budget::{Assumed, Usage};
use recall_domain::wall_clock::Jump;
use recall_providers::{Circuit, ProviderState};
use recall_store::{Repair, SpendingRow, UnreadableRow};

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
    /// Those of them that a machine made and no person has reviewed.
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
    /// What is shared with other machines, one entry per remote.
    #[serde(default)]
    pub sharing: Vec<RemoteState>,
    pub bytes: ByteCounts,
    pub rss_bytes: u64,
    /// The part of it that no file backs, which is the daemon's own memory.
    #[serde(default)]
    pub own_bytes: u64,
    /// The part of it that is mapped from files, which the system reclaims when it needs memory.
    #[serde(default)]
    pub mapped_bytes: u64,
    #[serde(default)]
    pub latency: LatencyAnswer,
    pub paused: Option<PauseAnswer>,
    /// Why sessions are currently not deleted by age (`timers.retention_days`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clock_jump: Option<ClockJump>,
    pub config: ConfigAnswer,
    /// Repairs of the database in the last week, latest last.
    pub healed: Vec<RepairAnswer>,
    /// Whether traces of forgotten items may remain, because something cannot be removed.
    #[serde(default)]
    pub traces_left: bool,
}

/// A step of the wall clock that elapsed time does not explain.
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
    /// Time from an event's arrival until its answer is ready.
    pub hook_answers: Option<QuantilesAnswer>,
    pub commits: Option<QuantilesAnswer>,
}

/// The median and the 99th percentile.
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
    /// All problems, with line numbers.
    pub errors: Vec<String>,
    /// The consequence of the problems; null if there are none.
    pub consequence: Option<Text>,
}

/// The state of subscriptions since the daemon started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SubscriberCounters {
    pub subscriptions: usize,
    /// Commands that were started, or should have been.
    pub runs: u64,
    pub failures: u64,
    /// Events that were dropped because too many were waiting.
    pub dropped: u64,
    pub last_failure: Option<String>,
}

/// What the daemon has sent to a collector since it started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TelemetryCounters {
    /// Null if sending is disabled.
    pub endpoint: Option<String>,
    /// Spans that the collector accepted.
    pub spans: u64,
    pub dropped: u64,
    /// Failed or unanswered calls.
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
    /// The backup that replaced it; null for an empty database.
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
    /// Null if it is closed.
    pub url: Option<String>,
    /// Why it is closed although it should be open.
    pub failure: Option<String>,
}

/// `ui --web`: where the gateway listens, and a one-time link that signs in one browser.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct GatewayAnswer {
    pub url: String,
    pub link: String,
}

/// `ctl flush`: what it waited for.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize, JsonSchema)]
pub struct FlushAnswer {
    pub spooled_stored: u64,
    /// Spool files that cannot be stored now.
    pub spooled_left: u64,
    /// Unfinished compression jobs. Everything that was accepted before has a result: the built-in one, if a model's
    /// is still pending.
    pub jobs: OpenJobsAnswer,
    pub took_ms: u64,
}

/// A project's figures for a single line.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct GlanceAnswer {
    /// `None` if nothing is known about it.
    pub project: Option<String>,
    /// Observations that are neither resolved nor superseded.
    pub notes: u64,
    /// Those of them that are open next steps.
    pub open: u64,
    pub paused: bool,
    /// Everything that the hooks reported since then is stored.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stored_since: Option<Moment>,
    /// The agents that reported recently, latest first.
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
    /// Returns the current pause. `None` if recording is on.
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

/// Counts of events. `duplicates`: since the daemon started; `spooled`: files waiting now; `dropped`: events that
/// could not be stored anywhere.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct EventCounts {
    pub stored: i64,
    pub duplicates: u64,
    /// Those calls and prompts that two hooks reported, because the hook is registered twice.
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
    /// The last event that could not be parsed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unreadable: Option<UnreadableEvent>,
}

/// An event that was stored as received.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct UnreadableEvent {
    pub agent: String,
    /// As the command line named it; empty if it did not.
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

/// Counts since the daemon started.
#[derive(Serialize, Deserialize, JsonSchema)]
pub struct GuardCounts {
    /// Calls that a guard refused or asked about.
    pub refused: u64,
    /// Calls that proceeded with a guard's notice.
    #[serde(default)]
    pub advised: u64,
    /// Results that a guard warned about.
    pub warned: u64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct IndexState {
    pub documents: u64,
    /// Log entries that are not indexed yet.
    pub behind: i64,
    /// `complete`, `rebuilding`, `absent`, or `checking`: it was complete at the last stop, and its files are being
    /// verified.
    pub state: Text,
    /// The number of rebuilds since the daemon started.
    pub rebuilds: u64,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct CompressionState {
    pub backend: String,
    pub circuit: Text,
    pub tokens_today: u64,
    pub usd_today: f64,
    /// 0 means no cap.
    pub tokens_per_day: u64,
    pub usd_per_day: f64,
    /// Whether the prices of all models are known, so that `usd_today` is their actual cost.
    #[serde(default)]
    pub is_priced: bool,
    pub restarts: u64,
    pub threads_lost: u64,
    pub providers: Vec<ProviderAnswer>,
    /// Failures of models since their last success; null if none.
    pub trouble: Option<TroubleAnswer>,
    /// What each model was asked today, and its cost; a running call counts with its maximum cost.
    #[serde(default)]
    pub asked_today: Vec<SpendingLine>,
    /// Waiting jobs, by kind.
    #[serde(default)]
    pub waiting: Vec<WaitingAnswer>,
    /// Jobs that were given up, by reason, latest first.
    #[serde(default)]
    pub given_up: Vec<GivenUpAnswer>,
}

/// Whether a model is being called.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ProviderAnswer {
    /// `provider:model`.
    pub name: String,
    /// `closed`: calls are made. `open`: no calls for a while. `barred`: no calls until a person has acted.
    pub circuit: Text,
    /// Why it is not called; absent if it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// When it is called again; absent if unknown.
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
    /// One of `none`, `local` and `openai`.
    pub backend: Text,
    /// As configured; empty without a model.
    pub model: String,
    /// `off`, `ready`, or `unusable`, in which case searches use words only.
    pub state: Text,
    /// Why it is unusable, or why the waiting documents got no vectors at the last attempt; otherwise null.
    pub why: Option<String>,
    /// The hash of the model's files or of its address; null without a model.
    pub model_hash: Option<String>,
    /// Documents that have vectors.
    pub embedded: i64,
    /// Documents that have none yet.
    pub waiting: i64,
    /// The number of documents that get vectors per second; null before the first.
    #[serde(default)]
    pub per_second: Option<f64>,
    /// How long the waiting documents will take at this rate; null if unknown.
    #[serde(default)]
    pub seconds_left: Option<i64>,
}

#[derive(Serialize, Deserialize, JsonSchema)]
pub struct StatsAnswer {
    /// Earliest first; days without calls are omitted.
    pub spending: Vec<SpendingLine>,
    pub total: SpendingTotal,
    /// What was injected into sessions on these days.
    #[serde(default)]
    pub told: InjectionTotal,
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
    /// Calls of unknown cost, which the other numbers include; for these, `tokens_in` and `tokens_out` contain the
    /// maximum.
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
        Self { spending, total: SpendingTotal::of(calls, sum, assumed), told: InjectionTotal::default() }
    }
}

impl SpendingTotal {
    fn of(calls: i64, usage: Usage, assumed: Assumed) -> Self {
        let Usage { tokens_in, tokens_out, micro_usd } = usage;
        let Assumed { calls: assumed_calls, tokens: assumed_tokens } = assumed;
        Self { calls, tokens_in, tokens_out, usd: dollars(micro_usd), assumed_calls, assumed_tokens }
    }
}

/// Converts millionths of a dollar to dollars.
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
