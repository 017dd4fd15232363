//! `recall ctl status`: shows the state of the daemon.

use std::io::Write;

use clap::Args;
use recall_protocol::query::{Glance, Status};

use super::pause::sentence;
use crate::cli::client::{Client, Start, this_folder};
use crate::cli::silent_agents::silent;
use crate::cli::terminal::{self, BOLD, ERROR, GOOD, WARNING, bytes, counted, span};
use recall_agents::AGENTS;
use recall_app::answers::metrics::exposition;
use recall_app::answers::sharing::RemoteState;
use recall_app::answers::status::{
    ClockJump, CompressionState, ConfigAnswer, EmbeddingState, GatewayState, GivenUpAnswer, LatencyAnswer,
    ProviderAnswer, QuantilesAnswer, StatusAnswer, SubscriberCounters, TelemetryCounters, WaitingAnswer,
};

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
    /// Print metrics in the text format of Prometheus
    #[arg(long, conflicts_with = "json")]
    prometheus: bool,
}

pub fn run(args: &StatusArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::Never)?.ask(Status)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let status = answer.read()?;
    if args.prometheus {
        return Ok(out.write_all(exposition(&status).as_bytes())?);
    }
    print(out, &status)?;
    Ok(silent_agents(out)?)
}

/// Prints the agents that report nothing any more.
fn silent_agents(out: &mut dyn Write) -> std::io::Result<()> {
    let folder = this_folder();
    let glance = Client::connect(Start::Never).and_then(|mut client| client.ask(Glance { folder })?.read());
    for agent in glance.map(|glance| silent(AGENTS, &glance)).unwrap_or_default() {
        writeln!(out, "  {WARNING}hooks        {agent}. {}{WARNING:#}", agent.hint())?;
    }
    Ok(())
}

/// Explains why sessions old enough to be deleted are kept.
pub fn no_deletion(jump: &ClockJump) -> String {
    let (from, to) = (terminal::time(jump.from), terminal::time(jump.to));
    format!(
        "recall deletes no sessions by age for now, because the clock jumped from {from} to {to}. It trusts the clock again after a restart or a day of running"
    )
}

fn print(out: &mut dyn Write, status: &StatusAnswer) -> std::io::Result<()> {
    let StatusAnswer { sessions, jobs, index, compression, bytes: size, .. } = status;
    writeln!(
        out,
        "{BOLD}recall {}{BOLD:#} {GOOD}running{GOOD:#}, pid {}, up {}, {}",
        status.version,
        status.pid,
        duration(status.uptime_s),
        memory(status)
    )?;
    writeln!(out, "  memory       {}", status.home)?;
    if status.paused.is_some() {
        let (pause, count) = (sentence(status.paused.as_ref()), status.events.paused);
        writeln!(out, "  {WARNING}paused       {pause} {count} events skipped.{WARNING:#}")?;
    }
    config(out, &status.config)?;
    if let Some(jump) = &status.clock_jump {
        writeln!(out, "  {WARNING}retention    {}{WARNING:#}", no_deletion(jump))?;
    }
    writeln!(out, "  sessions     {} live, {} total", sessions.live, sessions.total)?;
    events(out, status)?;
    let unreviewed = match status.unreviewed {
        0 => String::new(),
        unreviewed => format!(" ({unreviewed} not reviewed)"),
    };
    writeln!(
        out,
        "  remembered   {}{unreviewed}, {}",
        counted(status.observations, "observation", "observations"),
        counted(status.summaries, "summary", "summaries")
    )?;
    writeln!(
        out,
        "  index        {}, {} behind",
        counted(index.documents, "document", "documents"),
        index.behind
    )?;
    let has_content = sessions.total + status.observations > 0;
    if has_content && matches!(index.state.as_ref(), "absent" | "rebuilding") {
        writeln!(out, "  {WARNING}             rebuilding; search results may be incomplete{WARNING:#}")?;
    }
    writeln!(
        out,
        "  compression  {}, {} waiting, {} running, {} retrying, {} done, {} dead",
        if compression.backend == "extractive" { "without a model" } else { &compression.backend },
        jobs.pending,
        jobs.running,
        jobs.retrying,
        jobs.done,
        jobs.dead
    )?;
    if compression.circuit == "open" {
        writeln!(
            out,
            "  {WARNING}             paused after too many crashes; events are still stored{WARNING:#}"
        )?;
    }
    budget(out, compression)?;
    embedding(out, &status.embedding)?;
    subscriptions(out, &status.subscribe)?;
    telemetry(out, &status.telemetry)?;
    gateway(out, &status.gateway)?;
    sharing(out, &status.sharing)?;
    latency(out, &status.latency)?;
    for repair in &status.healed {
        writeln!(out, "  {WARNING}repaired     {}{WARNING:#}", terminal::repair(repair))?;
    }
    writeln!(
        out,
        "  on disk      {} database, {} index, {} spool, {} log",
        bytes(size.database),
        bytes(size.index),
        bytes(size.spool),
        bytes(size.log)
    )
}

/// Prints the counts of events, and what guards and a full spool did with some.
fn events(out: &mut dyn Write, status: &StatusAnswer) -> std::io::Result<()> {
    let events = &status.events;
    writeln!(
        out,
        "  events       {} stored, {} duplicates ignored, {} waiting in the spool, {} unreadable",
        events.stored, events.duplicates, events.spooled, events.unparsed
    )?;
    if events.told_twice > 0 {
        let count = events.told_twice;
        writeln!(
            out,
            "  {WARNING}duplicates   {count} events reported by a second hook; run `recall doctor`{WARNING:#}"
        )?;
    }
    let guards = &status.guards;
    if guards.refused + guards.advised + guards.warned > 0 {
        let refused = counted(guards.refused, "call", "calls");
        let warned = counted(guards.warned, "result", "results");
        let advised = match guards.advised {
            0 => String::new(),
            advised => format!(", {advised} advised on"),
        };
        writeln!(out, "  guards       {refused} refused or asked about{advised}, {warned} warned about")?;
    }
    if events.dropped > 0 {
        writeln!(
            out,
            "  {WARNING}dropped      {}{}; the spool was full or not writable{WARNING:#}",
            counted(events.dropped, "event", "events"),
            events.dropped_since.map(|since| format!(" since {}", terminal::time(since))).unwrap_or_default()
        )?;
    }
    Ok(())
}

/// Prints what is shared with other machines, if anything.
fn sharing(out: &mut dyn Write, remotes: &[RemoteState]) -> std::io::Result<()> {
    for state in remotes {
        let RemoteState { projects, waiting, held, parked, quarantined, error, synced_at, .. } = state;
        let mut parts = vec![counted(*projects, "project", "projects")];
        parts.push(if *waiting == 0 { "all sent".to_owned() } else { format!("{waiting} waiting") });
        if *held > 0 {
            parts.push(format!("{held} held back"));
        }
        if *parked > 0 {
            parts.push(format!("{parked} for a newer recall"));
        }
        if *quarantined > 0 {
            parts.push(format!("{quarantined} for your review"));
        }
        parts.extend(synced_at.map(|at| format!("in sync {}", terminal::ago(at))));
        writeln!(out, "  sharing      {}: {}", state.title(), parts.join(", "))?;
        if let Some(error) = error {
            writeln!(out, "  {ERROR}             {error}{ERROR:#}")?;
        }
    }
    Ok(())
}

/// Prints the latencies of hooks and commits, if any.
fn latency(out: &mut dyn Write, latency: &LatencyAnswer) -> std::io::Result<()> {
    let kinds = [("hook answers", &latency.hook_answers), ("commits", &latency.commits)];
    let measured: Vec<String> = kinds
        .into_iter()
        .filter_map(|(name, quantiles)| {
            let QuantilesAnswer { p50_ms, p99_ms, .. } = quantiles.as_ref()?;
            Some(format!("{name} p50 {p50_ms:.1} ms, p99 {p99_ms:.1} ms"))
        })
        .collect();
    match measured.is_empty() {
        true => Ok(()),
        false => writeln!(out, "  latency      {}", measured.join("; ")),
    }
}

/// Problems of the configuration.
fn config(out: &mut dyn Write, config: &ConfigAnswer) -> std::io::Result<()> {
    for error in &config.errors {
        writeln!(out, "  {ERROR}config       {}, {error}{ERROR:#}", config.file)?;
    }
    if let Some(consequence) = &config.consequence {
        writeln!(out, "  {WARNING}             {consequence}{WARNING:#}")?;
    }
    Ok(())
}

/// Prints today's model costs, and problems with the models.
fn budget(out: &mut dyn Write, compression: &CompressionState) -> std::io::Result<()> {
    let (spent, cap) = (compression.tokens_today, compression.tokens_per_day);
    if spent > 0 || cap > 0 || compression.usd_per_day > 0.0 {
        let of = |cap: String, is_set: bool| if is_set { format!(" of {cap}") } else { String::new() };
        let tokens = format!("{spent}{} tokens", of(cap.to_string(), cap > 0));
        let usd_cap = of(format!("{:.2}", compression.usd_per_day), compression.usd_per_day > 0.0);
        match compression.is_priced || compression.usd_today > 0.0 {
            true => writeln!(out, "  today        {tokens}, {:.4}{usd_cap} USD", compression.usd_today)?,
            false => writeln!(out, "  today        {tokens}, price not set")?,
        }
    }
    asked(out, compression)?;
    for provider in compression.providers.iter().filter(|provider| provider.circuit != "closed") {
        let ProviderAnswer { name, circuit, why, until } = provider;
        let when = match (circuit.as_ref(), until) {
            ("barred", _) => "not asked until you run `recall ctl retry`".to_owned(),
            (_, Some(until)) => format!("not asked until {}", terminal::clock_time(*until)),
            (_, None) => "being retried".to_owned(),
        };
        let why = why.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        writeln!(out, "  {WARNING}             {name} is {when}{why}{WARNING:#}")?;
    }
    if let Some(trouble) = &compression.trouble {
        writeln!(
            out,
            "  {WARNING}             model calls have failed since {} for {}: {}. The built-in compressor takes over; once \
             this is fixed, run `recall ctl retry`.{WARNING:#}",
            terminal::time(trouble.since),
            counted(trouble.jobs, "job", "jobs"),
            trouble.error
        )?;
    }
    Ok(())
}

/// Prints which models were asked today, what is waiting until when, and what was given up.
fn asked(out: &mut dyn Write, compression: &CompressionState) -> std::io::Result<()> {
    for line in &compression.asked_today {
        let tokens = line.total.tokens_in.saturating_add(line.total.tokens_out);
        let calls = counted(line.total.calls, "call", "calls");
        writeln!(out, "               {}: {calls}, {tokens} tokens", line.backend)?;
    }
    for WaitingAnswer { kind, jobs, next_try, error } in &compression.waiting {
        let what = match kind.as_ref() {
            "notes" => {
                counted(*jobs, "session waits for a model's notes", "sessions wait for a model's notes")
            }
            "summary" => counted(*jobs, "session waits for its summary", "sessions wait for their summaries"),
            _ => counted(*jobs, "turn waits for its notes", "turns wait for their notes"),
        };
        let until = next_try.map(|at| format!(", not asked until {}", terminal::clock_time(at)));
        let why = error.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        writeln!(out, "               {what}{}{why}", until.unwrap_or_default())?;
    }
    for GivenUpAnswer { jobs, error, .. } in &compression.given_up {
        let jobs = counted(*jobs, "job was given up", "jobs were given up");
        let why = error.as_deref().unwrap_or("the reason is unknown");
        writeln!(
            out,
            "  {WARNING}             {jobs}: {why}. Once this is fixed, run `recall ctl retry`.{WARNING:#}"
        )?;
    }
    Ok(())
}

/// Describes the daemon's memory. Mapped files are listed separately, because the system can reclaim them.
fn memory(status: &StatusAnswer) -> String {
    match status.own_bytes {
        0 => format!("{} resident", bytes(status.rss_bytes)),
        own => format!("{} of memory, and {} of mapped files", bytes(own), bytes(status.mapped_bytes)),
    }
}

/// The sentence model, if one is configured.
fn embedding(out: &mut dyn Write, embedding: &EmbeddingState) -> std::io::Result<()> {
    let EmbeddingState { backend, model, state, why, embedded, waiting, .. } = embedding;
    match (state.as_ref(), why) {
        ("ready", Some(why)) => writeln!(
            out,
            "  {WARNING}embedding    {backend}, {model}, {} with vectors, {waiting} waiting: {why}{WARNING:#}",
            counted(*embedded, "document", "documents")
        ),
        ("ready", None) => writeln!(
            out,
            "  embedding    {backend}, {model}, {} with vectors, {waiting} waiting{}",
            counted(*embedded, "document", "documents"),
            left(embedding)
        ),
        ("unusable", why) => writeln!(
            out,
            "  {WARNING}embedding    {backend}, {model}: {}{WARNING:#}",
            why.as_deref().unwrap_or_default()
        ),
        _ => Ok(()),
    }
}

/// Describes how fast vectors are computed, and how long the rest will take.
fn left(embedding: &EmbeddingState) -> String {
    match (embedding.per_second, embedding.seconds_left.and_then(|left| u64::try_from(left).ok())) {
        (Some(rate), Some(left)) if embedding.waiting > 0 => {
            format!(", {rate:.1} a second, about {} left", span(left))
        }
        _ => String::new(),
    }
}

/// Prints problems of the user's subscribed commands.
fn subscriptions(out: &mut dyn Write, subscribe: &SubscriberCounters) -> std::io::Result<()> {
    let (failures, dropped) = (subscribe.failures, subscribe.dropped);
    if failures + dropped > 0 {
        writeln!(
            out,
            "  {WARNING}subscribed   {failures} of {} commands failed; {dropped} events dropped: {}{WARNING:#}",
            subscribe.runs,
            subscribe.last_failure.as_deref().unwrap_or_default()
        )?;
    }
    Ok(())
}

/// Prints where the gateway listens, or why it does not.
fn gateway(out: &mut dyn Write, gateway: &GatewayState) -> std::io::Result<()> {
    match gateway {
        GatewayState { url: Some(url), .. } => writeln!(out, "  gateway      {url}"),
        GatewayState { failure: Some(failure), .. } => {
            writeln!(out, "  {WARNING}gateway      closed: {failure}{WARNING:#}")
        }
        _ => Ok(()),
    }
}

/// Prints the counts of telemetry sent, if a collector is configured.
fn telemetry(out: &mut dyn Write, telemetry: &TelemetryCounters) -> std::io::Result<()> {
    let TelemetryCounters { endpoint, spans, dropped, failures, last_failure } = telemetry;
    let Some(endpoint) = endpoint else { return Ok(()) };
    writeln!(out, "  telemetry    {endpoint}, {} sent", counted(*spans, "span", "spans"))?;
    if failures + dropped > 0 {
        writeln!(
            out,
            "  {WARNING}             {} failed, {dropped} spans dropped: {}{WARNING:#}",
            counted(*failures, "call", "calls"),
            last_failure.as_deref().unwrap_or_default()
        )?;
    }
    Ok(())
}

fn duration(seconds: u64) -> String {
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}
