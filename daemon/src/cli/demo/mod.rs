//! `recall demo`: plays a recorded session through the real shim and a throw-away daemon, and shows what it was given
//! back when its conversation was shortened, and what the next session would be given.
//!
//! Everything happens in a temporary home that is removed afterwards; the user's own memory and settings are not
//! touched. The recording is of a real session of Claude Code working on a small shop.

mod stage;

use std::io::Write;

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use recall_protocol::query::{Explain, Filter, Flush, Search, Session};
use serde_json::{Value, json};

use super::client::this_program;
use super::failure::Failure;
use super::show::fields;
use super::terminal::{self, ACCENT, BOLD, DIM, GOOD};
use crate::server::answers::found::SearchAnswer;
use crate::server::answers::session::SessionAnswer;
use stage::DemoStage;

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Write JSON: what was remembered, what the session got back, and what the next one would be given
    #[arg(long)]
    json: bool,
}

const RECORDING: &str = include_str!("session.jsonl");
/// What the second session asks. Other words than the first session's answer.
const QUESTION: &str = "What is left to do for the discount?";

/// # Errors
/// When the shim is missing or the daemon does not start.
pub fn run(args: &DemoArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let program = this_program()?;
    let shim = program.with_file_name("recall-shim");
    if !shim.is_file() {
        return Err(Failure::failed(format!("There is no recall-shim at {}", shim.display()))
            .hint("The demo plays through the real shim: keep both programs in one folder, as ./install.sh does.")
            .into());
    }
    let events = recording()?;
    let mut stage = DemoStage::open(&program, &shim)?;
    if !args.json {
        writeln!(out, "{BOLD}A session of Claude Code, played through the real hooks{BOLD:#}")?;
        writeln!(out, "{DIM}in a throw-away home; your own memory is not touched{DIM:#}\n")?;
        out.flush()?;
    }
    let played = play(&mut stage, &events)?;
    stage.ask(Flush)?;

    let session_id = text(events.first().unwrap_or(&Value::Null), "session_id").to_owned();
    let session = stage.ask(Session { id: session_id })?;
    let search = Search {
        text: "rounding".to_owned(),
        filter: Filter { limit: Some(3), ..Filter::default() },
        explain: Explain::No,
        folder: None,
    };
    let found = stage.ask(search)?.read()?;
    let cwd = text(events.first().unwrap_or(&Value::Null), "cwd");
    let start = json!({"session_id": "the-next-session", "cwd": cwd, "hook_event_name": "SessionStart", "source": "startup",
                       "model": "claude"});
    let answer = stage.hook(&start)?;
    let prompt = json!({"session_id": "the-next-session", "cwd": cwd, "hook_event_name": "UserPromptSubmit",
                        "prompt": QUESTION});
    let prompted = stage.hook(&prompt)?;
    stage.close();

    let context = given(&answer.stdout).ok_or_else(|| {
        Failure::failed("The next session would be given nothing")
            .hint("This is a bug: the demo's memory is known.")
    })?;
    if args.json {
        let mut session: Value = serde_json::from_slice(&session.bytes).context("reading the session")?;
        terminal::defuse(&mut session);
        let told = json!({"session": session, "compacted": played.compacted, "context": context,
                          "notice": text(&answer.stdout, "systemMessage")});
        serde_json::to_writer(&mut *out, &told)?;
        return Ok(writeln!(out)?);
    }
    tell(out, &events, &played, &session.read()?)?;
    if let Some(given) = &played.compacted {
        writeln!(out, "\n{BOLD}What it got back in its midst, when its conversation was shortened{BOLD:#}")?;
        quote(out, given)?;
    }
    found_lines(out, &found)?;
    writeln!(out, "\n{BOLD}What the next session in this project starts with{BOLD:#}")?;
    quote(out, context)?;
    if let Some(more) = given(&prompted.stdout) {
        writeln!(out, "\n{BOLD}And with its prompt {QUESTION:?}{BOLD:#}")?;
        quote(out, more)?;
    }
    writeln!(
        out,
        "\n{GOOD}It remembered.{GOOD:#} Connect your agents with `recall install`; look around with `recall --help`."
    )?;
    Ok(())
}

/// A text of a hook event or of a hook's answer, or "" where it has none.
fn text<'a>(event: &'a Value, key: &str) -> &'a str {
    event.get(key).and_then(Value::as_str).unwrap_or_default()
}

fn recording() -> anyhow::Result<Vec<Value>> {
    RECORDING.lines().map(|line| serde_json::from_str(line).context("reading the recording")).collect()
}

/// What a hook's answer carries for the model.
fn given(stdout: &Value) -> Option<&str> {
    stdout.pointer("/hookSpecificOutput/additionalContext").and_then(Value::as_str)
}

/// How long the hooks took, and what the session was given when its conversation was shortened.
struct Played {
    slowest_ms: f64,
    median_ms: f64,
    compacted: Option<String>,
}

fn play(stage: &mut DemoStage, events: &[Value]) -> anyhow::Result<Played> {
    let bar = ProgressBar::new(events.len() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:32.cyan/dim} {pos}/{len} {msg}")?);
    let (mut times, mut compacted) = (Vec::new(), None);
    for event in events {
        let name = text(event, "hook_event_name");
        bar.set_message(format!("{name} {}", text(event, "tool_name")));
        let answer = stage.hook(event)?;
        times.push(answer.took.as_secs_f64() * 1000.0);
        if text(event, "source") == "compact" {
            compacted = given(&answer.stdout).map(str::to_owned);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    times.sort_by(f64::total_cmp);
    let median_ms = times.get(times.len() / 2).copied().unwrap_or_default();
    Ok(Played { slowest_ms: times.last().copied().unwrap_or_default(), median_ms, compacted })
}

fn tell(
    out: &mut dyn Write,
    events: &[Value],
    played: &Played,
    session: &SessionAnswer,
) -> std::io::Result<()> {
    let Played { median_ms, slowest_ms, .. } = played;
    writeln!(
        out,
        "{GOOD}played{GOOD:#} {} hook events, {median_ms:.1} ms each in the median, {slowest_ms:.1} ms the slowest",
        events.len()
    )?;
    for batch in session.batches.iter().filter(|batch| batch.source == "user") {
        writeln!(out, "\n{BOLD}It was asked{BOLD:#} {}", batch.prompt.as_deref().unwrap_or_default())?;
        writeln!(out, "{BOLD}and answered{BOLD:#} {}", batch.response.as_deref().unwrap_or_default())?;
    }
    writeln!(out, "\n{BOLD}What recall made of it, without any model{BOLD:#}")?;
    for observation in &session.observations {
        let (id, kind) = (observation.id, &observation.observation_type);
        writeln!(out, "  {ACCENT}#{id}{ACCENT:#} {kind}: {}", observation.title)?;
    }
    if let Some(summary) = &session.summary {
        writeln!(out)?;
        fields(out, summary)?;
    }
    Ok(())
}

fn found_lines(out: &mut dyn Write, found: &SearchAnswer) -> std::io::Result<()> {
    writeln!(out, "\n{BOLD}recall search rounding{BOLD:#}")?;
    for result in &found.results {
        writeln!(out, "  {ACCENT}{}{ACCENT:#} {}", terminal::id(result.id), result.title)?;
    }
    Ok(())
}

fn quote(out: &mut dyn Write, context: &str) -> std::io::Result<()> {
    context.lines().try_for_each(|line| writeln!(out, "{DIM}│{DIM:#} {line}"))
}
