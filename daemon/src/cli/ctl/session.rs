//! `recall ctl session`: one session from beginning to end.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Session;

use crate::cli::client::{Client, Start};
use crate::cli::show::fields;
use crate::cli::terminal::{self, ACCENT, BOLD, DIM};
use crate::server::answers::session::{ActivityAnswer, PlanAnswer, SessionAnswer};
use crate::server::answers::shortened;

#[derive(Debug, Args)]
pub struct SessionArgs {
    /// The agent's session id or its beginning
    id: String,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When the daemon does not answer or there is no such session.
pub fn run(args: &SessionArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::Never)?.ask(Session { id: args.id.clone() })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    Ok(tell(out, &answer.read()?)?)
}

fn tell(out: &mut dyn Write, session: &SessionAnswer) -> std::io::Result<()> {
    let title = session.title.as_deref().filter(|title| !title.is_empty()).unwrap_or("(no title yet)");
    writeln!(out, "{BOLD}{title}{BOLD:#}")?;
    let SessionAnswer { session_id, agent, project, status, .. } = session;
    let started = terminal::time(session.started_at);
    writeln!(out, "{DIM}{agent} session {session_id}, {project}, {status}, since {started}{DIM:#}")?;
    for batch in &session.batches {
        let prompt = match batch.prompt.as_deref().unwrap_or_default() {
            "" => format!("({})", batch.source),
            prompt => one_line(prompt),
        };
        writeln!(out, "\n{ACCENT}{}.{ACCENT:#} {prompt}", batch.prompt_number)?;
        if !batch.activities.is_empty() {
            writeln!(out, "   {DIM}{}{DIM:#}", tally(&batch.activities))?;
        }
        if let Some(response) = batch.response.as_deref().filter(|response| !response.is_empty()) {
            writeln!(out, "   → {}", one_line(response))?;
        }
    }
    tell_plans(out, &session.plans)?;
    if !session.observations.is_empty() {
        writeln!(out, "\n{BOLD}Observed{BOLD:#}")?;
    }
    for observation in &session.observations {
        let (id, kind) = (observation.id, &observation.observation_type);
        writeln!(out, "  {ACCENT}#{id}{ACCENT:#} {kind}: {}", observation.title)?;
    }
    if let Some(summary) = &session.summary {
        writeln!(out, "\n{BOLD}In short{BOLD:#}")?;
        fields(out, summary)?;
    }
    Ok(())
}

fn tell_plans(out: &mut dyn Write, plans: &[PlanAnswer]) -> std::io::Result<()> {
    if !plans.is_empty() {
        writeln!(out, "\n{BOLD}Planned{BOLD:#}")?;
    }
    for plan in plans {
        let state = if plan.kind == "tasks" { String::new() } else { format!("{}: ", plan.state) };
        writeln!(out, "  {ACCENT}{}{ACCENT:#} {state}{}", terminal::id(plan.id), plan.title)?;
    }
    Ok(())
}

fn one_line(text: &str) -> String {
    shortened(&text.split_whitespace().collect::<Vec<_>>().join(" "), 160)
}

/// How often which tool was called, in the order of their first call.
fn tally(calls: &[ActivityAnswer]) -> String {
    let mut counts: Vec<(&str, usize, usize)> = Vec::new();
    for call in calls {
        let (name, failed) = (call.tool_name.as_str(), call.failed);
        match counts.iter_mut().find(|(known, ..)| *known == name) {
            Some((_, count, failures)) => {
                *count += 1;
                *failures += usize::from(failed);
            }
            None => counts.push((name, 1, usize::from(failed))),
        }
    }
    let parts = counts.into_iter().map(|(name, count, failures)| match (count, failures) {
        (1, 0) => name.to_owned(),
        (count, 0) => format!("{name} x{count}"),
        (1, _) => format!("{name} (failed)"),
        (count, failures) => format!("{name} x{count} ({failures} failed)"),
    });
    parts.collect::<Vec<_>>().join(", ")
}
