//! `recall improve`: has the configured model rewrite the notes of the built-in compressor.
//!
//! The daemon does the work, and continues when nobody is watching. Finished work is not requested again, so the same
//! command continues where the last one stopped.

use std::io::{self, Write};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressStyle};
use recall_protocol::query::{Improvable, Improve, Improving};

use super::client::{Client, Start, WORK_WITHIN};
use super::consent::{Confirmation, Consent};
use super::failure::Failure;
use super::filter::FilterArgs;
use super::terminal::{self, DIM, WARNING, counted, thousands};
use recall_app::answers::Moment;
use recall_app::answers::improving::{ImprovableAnswer, ImprovingAnswer};
use recall_app::clock;
use recall_domain::ids::Timestamp;

/// The maximum number of sessions named in the plan.
const NAMED: usize = 5;
const LOOK_EVERY: Duration = Duration::from_millis(250);
/// Jobs that wait longer than this are not watched any more, in milliseconds.
const WATCHED_MS: i64 = 60_000;

#[derive(Debug, Args)]
pub struct ImproveArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Show the estimated cost, and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Do not ask
    #[arg(long, short)]
    yes: bool,
    /// Print JSON: the plan with --dry-run, otherwise the result
    #[arg(long)]
    json: bool,
}

/// # Errors
/// Fails when no model is configured, nobody can be asked for consent, or the model returned no notes for a session.
pub fn run(args: &ImproveArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let request = Improvable { filter: args.filter.filter()? };
    let answer = Client::connect(Start::IfNeeded)?.ask_within(request, WORK_WITHIN)?;
    if args.json && args.dry_run {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let plan = answer.read()?;
    if !args.json {
        print_plan(out, &plan)?;
    }
    let mut input = io::stdin().lock();
    let consent = match (args.dry_run, args.yes) {
        (true, _) => Consent::ShowOnly,
        (false, true) => Consent::Given,
        (false, false) if args.json => Consent::Unavailable,
        (false, false) => Consent::at_terminal(&mut input),
    };
    let mut jobs = plan.under_way.clone();
    if !plan.sessions.is_empty() {
        if consent.obtain("Let the model rewrite these notes?", out)? == Confirmation::Leave {
            return Ok(());
        }
        let sessions = plan.sessions.iter().map(|session| session.row).collect();
        jobs.extend(Client::connect(Start::IfNeeded)?.ask(Improve { sessions })?.read()?.jobs);
    }
    if args.dry_run || (jobs.is_empty() && !args.json) {
        return Ok(());
    }
    let became = watch(&jobs)?;
    match args.json {
        true => writeln!(out, "{}", serde_json::to_string(&became)?)?,
        false => print_outcome(out, &became)?,
    }
    match became.dead {
        0 => Ok(()),
        dead => {
            let why = became.error.unwrap_or_default();
            Err(Failure::failed(format!(
                "The model returned no notes for {}: {why}",
                counted(dead, "session", "sessions")
            ))
            .hint(
                "The built-in notes stay. `recall ctl jobs --dead` says more; `recall ctl retry` asks again.",
            )
            .into())
        }
    }
}

fn print_plan(out: &mut dyn Write, plan: &ImprovableAnswer) -> io::Result<()> {
    let waiting = plan.under_way.len();
    if waiting > 0 {
        let waits = counted(waiting, "session waits", "sessions wait");
        writeln!(out, "{waits} for {} already.", plan.backend)?;
    }
    if plan.sessions.is_empty() {
        let nothing = "No session that has ended has notes of the built-in compressor alone";
        return if waiting > 0 { Ok(()) } else { writeln!(out, "{nothing}: there is nothing to improve.") };
    }
    for session in plan.sessions.iter().take(NAMED) {
        let title = session.title.as_deref().unwrap_or("(no title)");
        let of = format!("{}  {}", terminal::time(session.at), session.project);
        writeln!(out, "  {DIM}{of}{DIM:#}  {title}")?;
    }
    if plan.sessions.len() > NAMED {
        writeln!(out, "  {DIM}and {} more{DIM:#}", plan.sessions.len() - NAMED)?;
    }
    let usd = match plan.usd {
        Some(usd) => format!("about {usd:.2} USD"),
        None => "its price is not set".to_owned(),
    };
    writeln!(
        out,
        "{} would be asked about {}: {}, about {} tokens, {usd}.",
        plan.backend,
        counted(plan.sessions.len(), "session", "sessions"),
        counted(plan.calls, "call", "calls"),
        count(plan.tokens)
    )?;
    print_caps(out, plan)?;
    if plan.more > 0 {
        let more = counted(plan.more, "older session is", "older sessions are");
        writeln!(out, "{more} left for another run (--limit).")?;
    }
    Ok(())
}

/// Prints what the day's caps leave of the budget.
fn print_caps(out: &mut dyn Write, plan: &ImprovableAnswer) -> io::Result<()> {
    let today = &plan.today;
    if today.tokens_per_day > 0 {
        let left = today.tokens_per_day.saturating_sub(today.tokens);
        let cap = count(today.tokens_per_day);
        writeln!(out, "{} of {cap} tokens a day are left today.", count(left))?;
    }
    if today.usd_per_day > 0.0 {
        let left = (today.usd_per_day - today.usd).max(0.0);
        writeln!(out, "{left:.2} of {:.2} USD a day are left today.", today.usd_per_day)?;
    }
    let is_capped = today.tokens_per_day > 0 || today.usd_per_day > 0.0;
    match is_capped {
        true => writeln!(out, "Anything above that waits until tomorrow."),
        false => {
            writeln!(out, "{WARNING}No cap is set (`compression.tokens_per_day`).{WARNING:#}")
        }
    }
}

fn count(tokens: u64) -> String {
    thousands(usize::try_from(tokens).unwrap_or(usize::MAX))
}

/// Watches the jobs until none of them finishes or is due any more.
fn watch(jobs: &[i64]) -> anyhow::Result<ImprovingAnswer> {
    let style = ProgressStyle::with_template("  {bar:32.cyan/dim} {pos} of {len} sessions, {eta} left");
    let bar = ProgressBar::new(jobs.len() as u64);
    if let Ok(style) = style {
        bar.set_style(style);
    }
    let mut client = Client::connect(Start::IfNeeded)?;
    loop {
        let now = client.ask(Improving { jobs: jobs.to_vec() })?.read()?;
        bar.set_position(now.done);
        let is_due = now.waiting > 0 && now.next_try_in_ms.is_none_or(|left| left < WATCHED_MS);
        if now.running == 0 && !is_due {
            bar.finish_and_clear();
            return Ok(now);
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

fn print_outcome(out: &mut dyn Write, became: &ImprovingAnswer) -> io::Result<()> {
    writeln!(out, "The notes of {} were rewritten.", counted(became.done, "session", "sessions"))?;
    if became.waiting > 0 {
        let left = became.next_try_in_ms.unwrap_or_default();
        let at = terminal::clock_time(Moment(Timestamp(clock::now().0.saturating_add(left))));
        let why = became.error.as_ref().map(|why| format!(": {why}")).unwrap_or_default();
        let waits = counted(became.waiting, "session waits", "sessions wait");
        writeln!(
            out,
            "{WARNING}{waits}, not asked until {at}{why}.{WARNING:#} The daemon continues by itself."
        )?;
    }
    Ok(())
}
