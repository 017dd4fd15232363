//! `recall ctl status`: how the daemon is doing.

use std::io::Write;

use clap::Args;
use recall_protocol::wire::Query;
use serde_json::Value;

use super::pause::sentence;
use crate::cli::client::{Client, Start};
use crate::cli::terminal::{self, BOLD, ERROR, GOOD, WARNING, bytes, counted, list, number, text};

#[derive(Debug, Args)]
pub struct StatusArgs {
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When the daemon does not answer.
pub fn run(args: &StatusArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::Never)?.ask(Query::Status)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    Ok(tell(out, &answer.value)?)
}

fn tell(out: &mut dyn Write, status: &Value) -> std::io::Result<()> {
    let null = Value::Null;
    let part = |key: &str| status.get(key).unwrap_or(&null);
    let (sessions, events, jobs) = (part("sessions"), part("events"), part("jobs"));
    let (index, compression, size) = (part("index"), part("compression"), part("bytes"));
    writeln!(
        out,
        "{BOLD}recall {}{BOLD:#} {GOOD}running{GOOD:#}, pid {}, up {}, {} resident",
        text(status, "version"),
        number(status, "pid"),
        duration(number(status, "uptime_s")),
        bytes(number(status, "rss_bytes"))
    )?;
    writeln!(out, "  memory       {}", text(status, "home"))?;
    if part("paused").is_object() {
        let count = number(events, "paused");
        writeln!(out, "  {WARNING}{}; {count} events were let go{WARNING:#}", sentence(part("paused")))?;
    }
    config(out, part("config"))?;
    writeln!(out, "  sessions     {} live, {} in all", number(sessions, "live"), number(sessions, "total"))?;
    writeln!(
        out,
        "  events       {} stored, {} came twice, {} wait in the spool, {} unreadable",
        number(events, "stored"),
        number(events, "duplicates"),
        number(events, "spooled"),
        number(events, "unparsed")
    )?;
    if number(events, "told_twice") > 0 {
        let count = number(events, "told_twice");
        writeln!(
            out,
            "  {WARNING}told twice   {count} of them by a second hook: see `recall doctor`{WARNING:#}"
        )?;
    }
    if number(events, "dropped") > 0 {
        writeln!(
            out,
            "  {WARNING}dropped      {}: the spool was full or could not be written{WARNING:#}",
            counted(number(events, "dropped"), "event", "events")
        )?;
    }
    writeln!(
        out,
        "  remembered   {}, {}",
        counted(number(status, "observations"), "observation", "observations"),
        counted(number(status, "summaries"), "summary", "summaries")
    )?;
    writeln!(
        out,
        "  index        {}, {} behind",
        counted(number(index, "documents"), "document", "documents"),
        number(index, "behind")
    )?;
    if matches!(text(index, "state"), "absent" | "rebuilding") {
        writeln!(
            out,
            "  {WARNING}the index is being made anew; searching compares plain words meanwhile{WARNING:#}"
        )?;
    }
    writeln!(
        out,
        "  compression  {}, {} waiting, {} running, {} retrying, {} done, {} dead",
        text(compression, "backend"),
        number(jobs, "pending"),
        number(jobs, "running"),
        number(jobs, "retrying"),
        number(jobs, "done"),
        number(jobs, "dead")
    )?;
    if text(compression, "circuit") == "open" {
        writeln!(
            out,
            "  {WARNING}compression pauses after too many crashes; events are stored all the same{WARNING:#}"
        )?;
    }
    budget(out, compression)?;
    subscriptions(out, part("subscribe"))?;
    for repair in list(status, "healed") {
        writeln!(out, "  {WARNING}healed       {}{WARNING:#}", terminal::repair(repair))?;
    }
    writeln!(
        out,
        "  on disk      {} database, {} index, {} spool, {} log",
        bytes(number(size, "database")),
        bytes(number(size, "index")),
        bytes(number(size, "spool")),
        bytes(number(size, "log"))
    )
}

/// What is wrong with the configuration, and what of it waits.
fn config(out: &mut dyn Write, config: &Value) -> std::io::Result<()> {
    for error in list(config, "errors").iter().filter_map(Value::as_str) {
        writeln!(out, "  {ERROR}config       {}, {error}{ERROR:#}", text(config, "file"))?;
    }
    if let Some(consequence) = config.get("consequence").and_then(Value::as_str) {
        writeln!(out, "  {WARNING}             {consequence}{WARNING:#}")?;
    }
    let waiting: Vec<_> = list(config, "after_restart").iter().filter_map(Value::as_str).collect();
    if !waiting.is_empty() {
        let waiting = waiting.join("], [");
        writeln!(
            out,
            "  {WARNING}config       [{waiting}] has changed: `recall ctl stop`, and the next hook starts with it{WARNING:#}"
        )?;
    }
    Ok(())
}

/// What models have cost today, and what is wrong with them.
fn budget(out: &mut dyn Write, compression: &Value) -> std::io::Result<()> {
    let dollars = |key: &str| compression.get(key).and_then(Value::as_f64).unwrap_or(0.0);
    let (spent, cap) = (number(compression, "tokens_today"), number(compression, "tokens_per_day"));
    if spent > 0 || cap > 0 || dollars("usd_per_day") > 0.0 {
        let of = |cap: String, is_set: bool| if is_set { format!(" of {cap}") } else { String::new() };
        let tokens = format!("{spent}{} tokens", of(cap.to_string(), cap > 0));
        let usd_cap = of(format!("{:.2}", dollars("usd_per_day")), dollars("usd_per_day") > 0.0);
        writeln!(out, "  today        {tokens}, {:.4}{usd_cap} USD", dollars("usd_today"))?;
    }
    for provider in
        list(compression, "providers").iter().filter(|provider| text(provider, "circuit") != "closed")
    {
        let name = text(provider, "name");
        let how = match text(provider, "circuit") {
            "barred" => "has refused and is not asked again before `recall ctl retry`",
            _ => "is left alone for a while",
        };
        writeln!(out, "  {WARNING}{name} {how}{WARNING:#}")?;
    }
    let trouble = compression.get("trouble").filter(|trouble| trouble.is_object());
    if let Some(trouble) = trouble {
        writeln!(
            out,
            "  {WARNING}models have failed since {} on {}: {}; the built-in compressor does their work \
             meanwhile{WARNING:#}",
            terminal::time(trouble, "since"),
            counted(number(trouble, "jobs"), "job", "jobs"),
            text(trouble, "error")
        )?;
    }
    Ok(())
}

/// The user's commands, where something is wrong with them.
fn subscriptions(out: &mut dyn Write, subscribe: &Value) -> std::io::Result<()> {
    let (failures, dropped) = (number(subscribe, "failures"), number(subscribe, "dropped"));
    if failures + dropped > 0 {
        writeln!(
            out,
            "  {WARNING}subscribed   {failures} of {} commands failed, {dropped} events were too many: {}{WARNING:#}",
            number(subscribe, "runs"),
            text(subscribe, "last_failure")
        )?;
    }
    Ok(())
}

fn duration(seconds: i64) -> String {
    match seconds {
        ..60 => format!("{seconds} s"),
        60..3600 => format!("{} min", seconds / 60),
        3600..86_400 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}
