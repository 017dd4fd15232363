//! `recall context`: shows the context that an agent would receive.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Context;

use super::client::{Client, Start};
use super::failure::Failure;
use super::terminal::{self, DIM, counted};
use recall_app::answers::found::{DecisionAnswer, Silence};

#[derive(Debug, Args)]
pub struct ContextArgs {
    /// Folder in which the session would start
    #[arg(long, value_name = "DIR", default_value = ".")]
    cwd: String,
    /// Show the context for this prompt instead of a session start
    #[arg(long)]
    prompt: Option<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &ContextArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let folder = std::path::absolute(&args.cwd).map_err(|error| {
        Failure::usage(format!("Invalid folder {:?}: {error}", args.cwd)).hint("Name a folder with --cwd.")
    })?;
    if !folder.is_dir() {
        return Err(Failure::usage(format!("There is no folder {}", folder.display()))
            .hint("Name a folder with --cwd.")
            .into());
    }
    let query = Context { cwd: folder.to_string_lossy().into_owned(), prompt: args.prompt.clone() };
    let answer = Client::connect(Start::IfNeeded)?.ask(query)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let context = answer.read()?;
    if context.block.text.is_empty() {
        let why = match context.silent {
            Some(Silence::Paused) => "No context: recall is paused. Run `recall resume` to continue.",
            Some(Silence::Excluded) => {
                "No context: this project is excluded, by `capture.exclude` or its `.recall.toml`."
            }
            None if context.unreviewed.is_some_and(|waiting| waiting > 0) => {
                "No reviewed note here would be injected."
            }
            None if args.prompt.is_some() => "No note here helps with this prompt.",
            None => "recall has no notes about this folder yet: a session here would start without context.",
        };
        writeln!(out, "{why}")?;
        print_unreviewed(context.unreviewed, out)?;
        return print_decision(context.decision.as_ref(), out);
    }
    writeln!(out, "{}", context.block.text)?;
    let tokens = context.block.tokens;
    writeln!(out, "{DIM}about {tokens} tokens{DIM:#}")?;
    print_unreviewed(context.unreviewed, out)?;
    print_decision(context.decision.as_ref(), out)
}

/// Prints how many notes are left out until somebody reviews them.
fn print_unreviewed(unreviewed: Option<u64>, out: &mut dyn Write) -> std::io::Result<()> {
    let Some(waiting) = unreviewed.filter(|waiting| *waiting > 0) else { return Ok(()) };
    let waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
    let waiting = counted(waiting, "observation waits", "observations wait");
    writeln!(out, "{DIM}{waiting} for a review, and `context.reviewed_only` is on: `recall review`{DIM:#}")
}

/// Prints the probabilities of a prompt and the threshold.
fn print_decision(decision: Option<&DecisionAnswer>, out: &mut dyn Write) -> anyhow::Result<()> {
    let Some(DecisionAnswer { floor, prompt, known, need, need_floor, answer, best, .. }) = decision else {
        return Ok(());
    };
    let of = best.map_or(String::new(), |best| format!(" ({})", terminal::id(best)));
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    let worth = need.zip(*need_floor).map_or(String::new(), |(need, floor)| {
        format!(", or worth saying here: {} (needs {})", percent(need), percent(floor))
    });
    writeln!(
        out,
        "{DIM}earlier sessions can help: {} × known here: {} = {} (needs {}){worth}; best answer{of}: {}{DIM:#}",
        percent(*prompt),
        percent(*known),
        percent(prompt * known),
        percent(*floor),
        percent(*answer)
    )?;
    Ok(())
}
