//! `recall ctl status`: how the daemon is doing.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Status;

use super::pause::sentence;
use crate::actors::subscriber::SubscriberCounters;
use crate::cli::client::{Client, Start};
use crate::cli::terminal::{self, BOLD, ERROR, GOOD, WARNING, bytes, counted};
use crate::server::answers::status::{CompressionState, ConfigAnswer, StatusAnswer};

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When the daemon does not answer.
pub fn run(args: &StatusArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::Never)?.ask(Status)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    Ok(tell(out, &answer.read()?)?)
}

fn tell(out: &mut dyn Write, status: &StatusAnswer) -> std::io::Result<()> {
    let StatusAnswer { sessions, events, jobs, index, compression, bytes: size, .. } = status;
    writeln!(
        out,
        "{BOLD}recall {}{BOLD:#} {GOOD}running{GOOD:#}, pid {}, up {}, {} resident",
        status.version,
        status.pid,
        duration(status.uptime_s),
        bytes(status.rss_bytes)
    )?;
    writeln!(out, "  memory       {}", status.home)?;
    if status.paused.is_some() {
        let (pause, count) = (sentence(status.paused.as_ref()), events.paused);
        writeln!(out, "  {WARNING}{pause}; {count} events were let go{WARNING:#}")?;
    }
    config(out, &status.config)?;
    writeln!(out, "  sessions     {} live, {} in all", sessions.live, sessions.total)?;
    writeln!(
        out,
        "  events       {} stored, {} came twice, {} wait in the spool, {} unreadable",
        events.stored, events.duplicates, events.spooled, events.unparsed
    )?;
    if events.told_twice > 0 {
        let count = events.told_twice;
        writeln!(
            out,
            "  {WARNING}told twice   {count} of them by a second hook: see `recall doctor`{WARNING:#}"
        )?;
    }
    if events.dropped > 0 {
        writeln!(
            out,
            "  {WARNING}dropped      {}: the spool was full or could not be written{WARNING:#}",
            counted(events.dropped, "event", "events")
        )?;
    }
    writeln!(
        out,
        "  remembered   {}, {}",
        counted(status.observations, "observation", "observations"),
        counted(status.summaries, "summary", "summaries")
    )?;
    writeln!(
        out,
        "  index        {}, {} behind",
        counted(index.documents, "document", "documents"),
        index.behind
    )?;
    if matches!(index.state.as_ref(), "absent" | "rebuilding") {
        writeln!(
            out,
            "  {WARNING}the index is being made anew; searching compares plain words meanwhile{WARNING:#}"
        )?;
    }
    writeln!(
        out,
        "  compression  {}, {} waiting, {} running, {} retrying, {} done, {} dead",
        compression.backend, jobs.pending, jobs.running, jobs.retrying, jobs.done, jobs.dead
    )?;
    if compression.circuit == "open" {
        writeln!(
            out,
            "  {WARNING}compression pauses after too many crashes; events are stored all the same{WARNING:#}"
        )?;
    }
    budget(out, compression)?;
    subscriptions(out, &status.subscribe)?;
    for repair in &status.healed {
        writeln!(out, "  {WARNING}healed       {}{WARNING:#}", terminal::repair(repair))?;
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

/// What is wrong with the configuration, and what of it waits.
fn config(out: &mut dyn Write, config: &ConfigAnswer) -> std::io::Result<()> {
    for error in &config.errors {
        writeln!(out, "  {ERROR}config       {}, {error}{ERROR:#}", config.file)?;
    }
    if let Some(consequence) = &config.consequence {
        writeln!(out, "  {WARNING}             {consequence}{WARNING:#}")?;
    }
    if !config.after_restart.is_empty() {
        let waiting = config.after_restart.join("], [");
        writeln!(
            out,
            "  {WARNING}config       [{waiting}] has changed: `recall ctl stop`, and the next hook starts with it{WARNING:#}"
        )?;
    }
    Ok(())
}

/// What models have cost today, and what is wrong with them.
fn budget(out: &mut dyn Write, compression: &CompressionState) -> std::io::Result<()> {
    let (spent, cap) = (compression.tokens_today, compression.tokens_per_day);
    if spent > 0 || cap > 0 || compression.usd_per_day > 0.0 {
        let of = |cap: String, is_set: bool| if is_set { format!(" of {cap}") } else { String::new() };
        let tokens = format!("{spent}{} tokens", of(cap.to_string(), cap > 0));
        let usd_cap = of(format!("{:.2}", compression.usd_per_day), compression.usd_per_day > 0.0);
        writeln!(out, "  today        {tokens}, {:.4}{usd_cap} USD", compression.usd_today)?;
    }
    for provider in compression.providers.iter().filter(|provider| provider.circuit != "closed") {
        let name = &provider.name;
        let how = match provider.circuit.as_ref() {
            "barred" => "has refused and is not asked again before `recall ctl retry`",
            _ => "is left alone for a while",
        };
        writeln!(out, "  {WARNING}{name} {how}{WARNING:#}")?;
    }
    if let Some(trouble) = &compression.trouble {
        writeln!(
            out,
            "  {WARNING}models have failed since {} on {}: {}; the built-in compressor does their work \
             meanwhile{WARNING:#}",
            terminal::time(trouble.since),
            counted(trouble.jobs, "job", "jobs"),
            trouble.error
        )?;
    }
    Ok(())
}

/// The user's commands, where something is wrong with them.
fn subscriptions(out: &mut dyn Write, subscribe: &SubscriberCounters) -> std::io::Result<()> {
    let (failures, dropped) = (subscribe.failures, subscribe.dropped);
    if failures + dropped > 0 {
        writeln!(
            out,
            "  {WARNING}subscribed   {failures} of {} commands failed, {dropped} events were too many: {}{WARNING:#}",
            subscribe.runs,
            subscribe.last_failure.as_deref().unwrap_or_default()
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
