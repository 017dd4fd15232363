//! `recall demo`: replays a recorded session through the real shim and a temporary daemon. Shows the context
//! restored after compaction and the context of the next session.
//!
//! Everything happens in a temporary home that is removed afterwards. The user's memory and settings are not touched.
//! The recording is a real session of an agent in a small shop project.

mod stage;

use std::io::Write;

use anyhow::Context;
use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use recall_protocol::query::{Explain, Filter, Flush, Search, Session};
use serde_json::json;

use super::client::this_program;
use super::failure::Failure;
use super::install::inspection::connected;
use super::summary::fields;
use super::terminal::{self, ACCENT, BOLD, DIM, GOOD};
use recall_agents::demo::DemoSession;
use recall_agents::{AGENTS, demo_session};
use recall_app::answers::found::SearchAnswer;
use recall_app::answers::session::SessionAnswer;
use stage::DemoStage;

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Print JSON: what was recorded, and the context that the sessions received
    #[arg(long)]
    json: bool,
}

/// Plays the demo. Fails if the shim is missing or the daemon does not start.
pub fn run(args: &DemoArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let program = this_program()?;
    let shim = program.with_file_name("recall-shim");
    if !shim.is_file() {
        return Err(Failure::failed(format!("No recall-shim at {}", shim.display()))
            .hint("Install both programs into one folder, as ./install.sh does.")
            .into());
    }
    let demo = demo_session().context("Cannot read the recording")?;
    let mut stage = DemoStage::open(&program, &shim, demo.spec)?;
    if !args.json {
        let title = demo.spec.title;
        writeln!(out, "{BOLD}Replaying a session of {title} through the real hooks{BOLD:#}")?;
        writeln!(out, "{DIM}in a temporary home; your own data is not touched{DIM:#}\n")?;
        out.flush()?;
    }
    stage.hook(&demo.open)?;
    let played = play(&mut stage, &demo)?;
    stage.ask(Flush)?;

    let session = stage.ask(Session { id: demo.session.clone() })?;
    let search = Search {
        text: "rounding".to_owned(),
        filter: Filter { limit: Some(3), ..Filter::default() },
        explain: Explain::No,
        folder: None,
    };
    let found = stage.ask(search)?.read()?;
    let answer = stage.hook(&demo.start)?;
    let prompted = stage.hook(&demo.prompt)?;
    stage.close();

    let context = (demo.context)(&answer.stdout).ok_or_else(|| {
        Failure::failed("The next session received no context").hint("This is a bug; please report it.")
    })?;
    if args.json {
        let mut session = serde_json::from_slice(&session.bytes).context("Cannot read the session")?;
        terminal::defuse(&mut session);
        let output = json!({"session": session, "compacted": played.compacted, "context": context,
                            "notice": (demo.notice)(&answer.stdout),
                            "prompted": (demo.context)(&prompted.stdout)});
        serde_json::to_writer(&mut *out, &output)?;
        return Ok(writeln!(out)?);
    }
    print(out, &demo, &played, &session.read()?)?;
    if let Some(given) = &played.compacted {
        writeln!(out, "\n{BOLD}Context restored after compaction{BOLD:#}")?;
        quote(out, given)?;
    }
    found_lines(out, &found)?;
    writeln!(out, "\n{BOLD}Context for the next session in this project{BOLD:#}")?;
    quote(out, context)?;
    if let Some(given) = (demo.context)(&prompted.stdout) {
        writeln!(out, "\n{BOLD}Context for the prompt {:?}{BOLD:#}", demo.question)?;
        writeln!(out, "{DIM}in another session, which was open before this one began{DIM:#}")?;
        quote(out, given)?;
    }
    let next = match connected(AGENTS).as_slice() {
        [] => "Run `recall install` to connect your agents.".to_owned(),
        agents => format!("Your next session of {} will be remembered like this one.", agents.join(" or ")),
    };
    writeln!(out, "\n{GOOD}Done.{GOOD:#} {next}")?;
    Ok(())
}

/// How long the hooks took, and the context restored after compaction.
struct Played {
    slowest_ms: f64,
    median_ms: f64,
    compacted: Option<String>,
}

fn play(stage: &mut DemoStage, demo: &DemoSession) -> anyhow::Result<Played> {
    let bar = ProgressBar::new(demo.hooks.len() as u64);
    bar.set_style(ProgressStyle::with_template("{bar:32.cyan/dim} {pos}/{len} {msg}")?);
    let (mut times, mut compacted) = (Vec::new(), None);
    for hook in &demo.hooks {
        bar.set_message(hook.label.clone());
        let answer = stage.hook(&hook.payload)?;
        times.push(answer.took.as_secs_f64() * 1000.0);
        if hook.is_after_compaction {
            compacted = (demo.context)(&answer.stdout).map(str::to_owned);
        }
        bar.inc(1);
    }
    bar.finish_and_clear();
    times.sort_by(f64::total_cmp);
    let median_ms = times.get(times.len() / 2).copied().unwrap_or_default();
    Ok(Played { slowest_ms: times.last().copied().unwrap_or_default(), median_ms, compacted })
}

fn print(
    out: &mut dyn Write,
    demo: &DemoSession,
    played: &Played,
    session: &SessionAnswer,
) -> std::io::Result<()> {
    let Played { median_ms, slowest_ms, .. } = played;
    writeln!(
        out,
        "{GOOD}replayed{GOOD:#} {} hook events: median {median_ms:.1} ms, slowest {slowest_ms:.1} ms",
        demo.hooks.len()
    )?;
    for batch in session.batches.iter().filter(|batch| batch.source == "user") {
        writeln!(out, "\n{BOLD}Prompt:{BOLD:#} {}", batch.prompt.as_deref().unwrap_or_default())?;
        writeln!(out, "{BOLD}Answer:{BOLD:#} {}", batch.response.as_deref().unwrap_or_default())?;
    }
    writeln!(out, "\n{BOLD}Observations, made without a model{BOLD:#}")?;
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
