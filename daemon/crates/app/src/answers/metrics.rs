//! The state of the daemon as metrics, for scrapers and collectors. Only counts, sizes and times.

use super::sharing::RemoteState;
use super::status::{QuantilesAnswer, StatusAnswer};
use recall_sync::address::RemoteKind;
use recall_telemetry::MetricChange::{self, Counter, Gauge};
use recall_telemetry::{Metric, Sample};

/// Renders the text format of Prometheus, ending with a line feed.
pub fn exposition(status: &StatusAnswer) -> String {
    recall_telemetry::exposition(&metrics(status))
}

pub fn metrics(status: &StatusAnswer) -> Vec<Metric> {
    let mut metrics = of_daemon(status);
    metrics.extend(of_events(status));
    metrics.extend(of_memory(status));
    metrics.extend(of_models(status));
    metrics.extend(of_receivers(status));
    metrics.extend(of_sharing(status));
    metrics
}

fn of_daemon(status: &StatusAnswer) -> Vec<Metric> {
    let bytes = &status.bytes;
    let sizes = [
        ("database", number(bytes.database)),
        ("index", number(bytes.index)),
        ("spool", number(bytes.spool)),
        ("log", number(bytes.log)),
    ];
    let is_paused = f64::from(u8::from(status.paused.is_some()));
    let mistakes = number(status.config.errors.len());
    vec![
        by(
            "recall_info",
            Gauge,
            "Always 1; the version is a label.",
            Some("version"),
            [(status.version.as_ref(), 1.0)],
        ),
        one("recall_uptime_seconds", Gauge, "Seconds since the daemon started.", number(status.uptime_s)),
        one(
            "recall_resident_memory_bytes",
            Gauge,
            "Resident memory of the daemon.",
            number(status.rss_bytes),
        ),
        by("recall_disk_bytes", Gauge, "Sizes on disk.", Some("what"), sizes),
        one("recall_paused", Gauge, "1 while recording is paused.", is_paused),
        one("recall_config_errors", Gauge, "Errors in the configuration.", mistakes),
    ]
}

fn of_events(status: &StatusAnswer) -> Vec<Metric> {
    let events = &status.events;
    let not_stored = [
        ("duplicate", number(events.duplicates)),
        ("paused", number(events.paused)),
        ("excluded", number(events.excluded)),
    ];
    let guards = [
        ("refused", number(status.guards.refused)),
        ("advised", number(status.guards.advised)),
        ("warned", number(status.guards.warned)),
    ];
    let mut metrics = vec![
        one("recall_events_stored", Gauge, "Stored events.", number(events.stored)),
        one("recall_events_unreadable", Gauge, "Events stored unprocessed.", number(events.unparsed)),
        by(
            "recall_events_not_stored_total",
            Counter,
            "Events that were not stored, by reason.",
            Some("reason"),
            not_stored,
        ),
        one(
            "recall_events_lost_total",
            Counter,
            "Events that could not be stored anywhere.",
            number(events.dropped),
        ),
        by("recall_guard_findings_total", Counter, "Findings of guards.", Some("finding"), guards),
        one("recall_spool_files", Gauge, "Events waiting in the spool.", number(events.spooled)),
    ];
    metrics.extend(quantiles(
        "recall_hook_answer_seconds",
        "Time from an event's arrival until its answer is ready, over the last thousand.",
        status.latency.hook_answers.as_ref(),
    ));
    metrics.extend(quantiles(
        "recall_commit_seconds",
        "Duration of a commit, over the last thousand.",
        status.latency.commits.as_ref(),
    ));
    metrics
}

fn of_memory(status: &StatusAnswer) -> Vec<Metric> {
    let StatusAnswer { sessions, index, embedding, .. } = status;
    let sessions = [("live", number(sessions.live)), ("ended", number(sessions.total - sessions.live))];
    vec![
        by("recall_sessions", Gauge, "Stored sessions, live or ended.", Some("state"), sessions),
        one("recall_observations", Gauge, "Stored observations.", number(status.observations)),
        one("recall_summaries", Gauge, "Stored summaries of sessions.", number(status.summaries)),
        one("recall_index_documents", Gauge, "Searchable documents.", number(index.documents)),
        one("recall_index_behind", Gauge, "Changes that are not indexed yet.", number(index.behind)),
        one("recall_index_rebuilds_total", Counter, "Rebuilds of the index.", number(index.rebuilds)),
        one("recall_embedding_documents", Gauge, "Documents with vectors.", number(embedding.embedded)),
        one(
            "recall_embedding_waiting",
            Gauge,
            "Documents without vectors so far.",
            number(embedding.waiting),
        ),
    ]
}

fn of_models(status: &StatusAnswer) -> Vec<Metric> {
    let StatusAnswer { jobs, compression, .. } = status;
    let jobs = [
        ("pending", number(jobs.pending)),
        ("running", number(jobs.running)),
        ("retrying", number(jobs.retrying)),
        ("done", number(jobs.done)),
        ("dead", number(jobs.dead)),
    ];
    let tokens = number(compression.tokens_today);
    vec![
        by("recall_jobs", Gauge, "Compression jobs by state.", Some("state"), jobs),
        one("recall_model_tokens_today", Gauge, "Tokens used by models today.", tokens),
        one("recall_model_cost_dollars_today", Gauge, "Cost of models today.", compression.usd_today),
        one(
            "recall_compressor_restarts_total",
            Counter,
            "Restarts after a crash.",
            number(compression.restarts),
        ),
    ]
}

fn of_receivers(status: &StatusAnswer) -> Vec<Metric> {
    let StatusAnswer { subscribe, telemetry, .. } = status;
    let counters = [
        ("recall_subscription_runs_total", "Starts of subscribed commands.", subscribe.runs),
        ("recall_subscription_failures_total", "Subscribed commands that failed.", subscribe.failures),
        (
            "recall_subscription_dropped_events_total",
            "Events that subscribed commands missed.",
            subscribe.dropped,
        ),
        ("recall_telemetry_spans_total", "Spans that a collector accepted.", telemetry.spans),
        ("recall_telemetry_dropped_spans_total", "Spans that no collector accepted.", telemetry.dropped),
        ("recall_telemetry_failures_total", "Failed calls to a collector.", telemetry.failures),
    ];
    let mut metrics =
        vec![one("recall_subscriptions", Gauge, "Subscribed commands.", number(subscribe.subscriptions))];
    metrics.extend(counters.map(|(name, help, count)| one(name, Counter, help, number(count))));
    metrics
}

/// Returns nothing if nothing is shared.
fn of_sharing(status: &StatusAnswer) -> Vec<Metric> {
    if status.sharing.is_empty() {
        return Vec::new();
    }
    let by_remote = |name, help, value: fn(&RemoteState) -> f64| {
        let sample =
            |one: &RemoteState| Sample { label: Some(("remote", one.remote.clone())), value: value(one) };
        Metric { name, change: Gauge, help, samples: status.sharing.iter().map(sample).collect() }
    };
    let of_kind = RemoteKind::ALL.map(|kind| {
        let is_of = |one: &&RemoteState| one.kind.as_deref() == Some(kind.as_str());
        (kind.as_str(), number(status.sharing.iter().filter(is_of).count() as u64))
    });
    vec![
        by("recall_sync_remotes", Gauge, "Remotes through which something is shared.", Some("kind"), of_kind),
        by_remote("recall_sync_projects", "Shared projects.", |one| number(one.projects)),
        by_remote("recall_sync_waiting", "Changes not yet sent to the remote.", |one| number(one.waiting)),
        by_remote("recall_sync_held_back", "Items held back because they look like a secret.", |one| {
            number(one.held)
        }),
        by_remote("recall_sync_parked", "Changes waiting for a newer version of recall.", |one| {
            number(one.parked)
        }),
        by_remote("recall_sync_quarantined", "Items that read like instructions and await review.", |one| {
            number(one.quarantined)
        }),
        by_remote("recall_sync_to_come", "Changes of others not yet read.", |one| number(one.to_come)),
        by_remote("recall_sync_stopped_machines", "Machines whose logs are invalid and not read.", |one| {
            number(one.stopped)
        }),
        by_remote("recall_sync_clocks_off", "Machines with wrong clocks.", |one| number(one.clocks_off)),
        by_remote("recall_sync_failing", "1 if the last round with the remote failed.", |one| {
            f64::from(u8::from(one.error.is_some()))
        }),
    ]
}

fn one(name: &'static str, change: MetricChange, help: &'static str, value: f64) -> Metric {
    by(name, change, help, None, [("", value)])
}

/// Several values, distinguished by a label.
fn by<const N: usize>(
    name: &'static str,
    change: MetricChange,
    help: &'static str,
    label: Option<&'static str>,
    values: [(&str, f64); N],
) -> Metric {
    let sample =
        |(of, value): (&str, f64)| Sample { label: label.map(|label| (label, of.to_owned())), value };
    Metric { name, change, help, samples: values.into_iter().map(sample).collect() }
}

/// Gauges instead of a summary, because they cover a window and have no sum.
fn quantiles(name: &'static str, help: &'static str, quantiles: Option<&QuantilesAnswer>) -> Option<Metric> {
    let QuantilesAnswer { p50_ms, p99_ms, .. } = quantiles?;
    let values = [("0.5", p50_ms / 1_000.0), ("0.99", p99_ms / 1_000.0)];
    Some(by(name, MetricChange::Gauge, help, Some("quantile"), values))
}

/// Converts to `f64`. No count gets near the range where this is inexact.
fn number(count: impl TryInto<i64>) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "from nine thousand billion on")]
    let number = count.try_into().unwrap_or(i64::MAX) as f64;
    number
}
