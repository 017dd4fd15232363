//! The state of the daemon in the text format of Prometheus (exposition format 0.0.4), for who scrapes it.
//!
//! Only counts, sizes and times. Names have the unit and, where they only grow, `_total`, as that project recommends.

use std::fmt::Write as _;

use super::status::{QuantilesAnswer, StatusAnswer};

/// How a metric changes.
#[derive(Clone, Copy)]
enum Kind {
    /// It only grows until the daemon starts anew.
    Counter,
    Gauge,
}

/// The text, ending with a line feed.
pub fn exposition(status: &StatusAnswer) -> String {
    let mut page = Page(String::new());
    let StatusAnswer { sessions, events, jobs, index, compression, embedding, subscribe, bytes, .. } = status;
    page.head("recall_info", Kind::Gauge, "Always 1; the version is a label.");
    page.sample("recall_info", &[("version", &status.version)], 1);
    page.one("recall_uptime_seconds", Kind::Gauge, "Since the daemon started.", status.uptime_s);
    page.one("recall_resident_memory_bytes", Kind::Gauge, "Memory of the daemon.", status.rss_bytes);
    page.one("recall_paused", Kind::Gauge, "1 while recording is paused.", u8::from(status.paused.is_some()));
    page.one(
        "recall_config_errors",
        Kind::Gauge,
        "Mistakes in the configuration.",
        status.config.errors.len(),
    );

    page.head("recall_sessions", Kind::Gauge, "Stored sessions, by whether they are live.");
    page.sample("recall_sessions", &[("state", "live")], sessions.live);
    page.sample("recall_sessions", &[("state", "ended")], sessions.total - sessions.live);

    page.one("recall_events_stored", Kind::Gauge, "Stored events.", events.stored);
    page.one("recall_events_unreadable", Kind::Gauge, "Events kept as they came.", events.unparsed);
    page.head("recall_events_not_stored_total", Kind::Counter, "Events that were not stored, by reason.");
    for (reason, count) in
        [("duplicate", events.duplicates), ("paused", events.paused), ("excluded", events.excluded)]
    {
        page.sample("recall_events_not_stored_total", &[("reason", reason)], count);
    }
    page.one("recall_events_lost_total", Kind::Counter, "Events that could be kept nowhere.", events.dropped);
    page.one("recall_spool_files", Kind::Gauge, "Events that wait in the spool.", events.spooled);

    page.head("recall_jobs", Kind::Gauge, "Compression jobs by state.");
    for (state, count) in [
        ("pending", jobs.pending),
        ("running", jobs.running),
        ("retrying", jobs.retrying),
        ("done", jobs.done),
        ("dead", jobs.dead),
    ] {
        page.sample("recall_jobs", &[("state", state)], count);
    }
    page.one("recall_observations", Kind::Gauge, "Stored observations.", status.observations);
    page.one("recall_summaries", Kind::Gauge, "Stored summaries of sessions.", status.summaries);

    page.one("recall_index_documents", Kind::Gauge, "Searchable documents.", index.documents);
    page.one("recall_index_behind", Kind::Gauge, "Changes that the index has not taken yet.", index.behind);
    page.one(
        "recall_index_rebuilds_total",
        Kind::Counter,
        "How often the index was rebuilt.",
        index.rebuilds,
    );
    page.one("recall_embedding_documents", Kind::Gauge, "Documents with vectors.", embedding.embedded);
    page.one(
        "recall_embedding_waiting",
        Kind::Gauge,
        "Documents whose vectors are not made yet.",
        embedding.waiting,
    );

    page.one(
        "recall_model_tokens_today",
        Kind::Gauge,
        "Tokens that models have cost today.",
        compression.tokens_today,
    );
    page.one(
        "recall_model_cost_dollars_today",
        Kind::Gauge,
        "What models have cost today.",
        compression.usd_today,
    );
    page.one(
        "recall_compressor_restarts_total",
        Kind::Counter,
        "Restarts after a crash.",
        compression.restarts,
    );

    page.one("recall_subscriptions", Kind::Gauge, "Subscribed commands.", subscribe.subscriptions);
    page.one(
        "recall_subscription_runs_total",
        Kind::Counter,
        "Starts of subscribed commands.",
        subscribe.runs,
    );
    page.one(
        "recall_subscription_failures_total",
        Kind::Counter,
        "Subscribed commands that failed.",
        subscribe.failures,
    );
    page.one(
        "recall_subscription_dropped_events_total",
        Kind::Counter,
        "Events that subscribed commands missed.",
        subscribe.dropped,
    );

    page.quantiles(
        "recall_hook_answer_seconds",
        "From an event's arrival until its answer is ready, of the last thousand.",
        status.latency.hook_answers.as_ref(),
    );
    page.quantiles(
        "recall_commit_seconds",
        "What a commit takes, of the last thousand.",
        status.latency.commits.as_ref(),
    );

    page.head("recall_disk_bytes", Kind::Gauge, "Sizes on disk.");
    let sizes =
        [("database", bytes.database), ("index", bytes.index), ("spool", bytes.spool), ("log", bytes.log)];
    for (what, size) in sizes {
        page.sample("recall_disk_bytes", &[("what", what)], size);
    }
    page.0
}

struct Page(String);

impl Page {
    fn head(&mut self, name: &str, kind: Kind, help: &str) {
        let kind = match kind {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
        };
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> =
            labels.iter().map(|(label, value)| format!("{label}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.0, "{name}{labels} {value}");
    }

    fn one(&mut self, name: &str, kind: Kind, help: &str, value: impl std::fmt::Display) {
        self.head(name, kind, help);
        self.sample(name, &[], value);
    }

    /// Gauges and not a summary: they are of a window, and have no sum.
    fn quantiles(&mut self, name: &str, help: &str, quantiles: Option<&QuantilesAnswer>) {
        let Some(QuantilesAnswer { p50_ms, p99_ms, .. }) = quantiles else { return };
        self.head(name, Kind::Gauge, help);
        for (quantile, ms) in [("0.5", p50_ms), ("0.99", p99_ms)] {
            self.sample(name, &[("quantile", quantile)], ms / 1_000.0);
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
