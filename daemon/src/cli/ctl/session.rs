//! `recall ctl session`: shows one session.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Session;

use crate::cli::candidates;
use crate::cli::client::{Client, Start};
use crate::cli::summary::fields;
use crate::cli::terminal::{self, ACCENT, BOLD, DIM};
use recall_app::answers::session::{ActivityAnswer, CompactionAnswer, PlanAnswer, SessionAnswer};
use recall_domain::text::shortened_line;

/// The most characters of a text on one line.
const LINE_CHARS: usize = 160;

#[derive(Debug, Args)]
pub struct SessionArgs {
    /// The session's ID, or its first characters
    #[arg(add = candidates::sessions())]
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &SessionArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::Never)?.ask(Session { id: args.id.clone() })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    Ok(print(out, &answer.read()?)?)
}

/// An overview of a session, for people.
pub fn print(out: &mut dyn Write, session: &SessionAnswer) -> std::io::Result<()> {
    let title = session.title.as_deref().filter(|title| !title.is_empty()).unwrap_or("(no title yet)");
    writeln!(out, "{BOLD}{title}{BOLD:#}")?;
    let SessionAnswer { session_id, agent, project, status, .. } = session;
    let started = terminal::time(session.started_at);
    writeln!(out, "{DIM}{agent} session {session_id}, {project}, {status}, since {started}{DIM:#}")?;
    if let Some(since) = session.suspended_at {
        writeln!(out, "{DIM}suspended since {}{DIM:#}", terminal::time(since))?;
    }
    if let Some(before) = session.resumed_from.as_ref().filter(|before| *before != session_id) {
        writeln!(out, "{DIM}continues session {before}{DIM:#}")?;
    }
    print_host_counts(out, session)?;
    for batch in &session.batches {
        let prompt = match batch.prompt.as_deref().unwrap_or_default() {
            "" => format!("({})", batch.source),
            prompt => shortened_line(prompt, LINE_CHARS),
        };
        writeln!(out, "\n{ACCENT}{}.{ACCENT:#} {prompt}", batch.prompt_number)?;
        if !batch.activities.is_empty() {
            writeln!(out, "   {DIM}{}{DIM:#}", tally(&batch.activities))?;
        }
        if let Some(response) = batch.response.as_deref().filter(|response| !response.is_empty()) {
            writeln!(out, "   → {}", shortened_line(response, LINE_CHARS))?;
        }
    }
    print_plans(out, &session.plans)?;
    if !session.observations.is_empty() {
        writeln!(out, "\n{BOLD}Observations{BOLD:#}")?;
    }
    for observation in &session.observations {
        let (id, kind) = (observation.id, &observation.observation_type);
        writeln!(out, "  {ACCENT}#{id}{ACCENT:#} {kind}: {}", observation.title)?;
    }
    print_compactions(out, &session.compaction_summaries)?;
    if let Some(summary) = &session.summary {
        writeln!(out, "\n{BOLD}Summary{BOLD:#}")?;
        fields(out, summary)?;
    }
    Ok(())
}

/// Prints the host's own counts. They differ from recall's, because a host also counts messages that never became
/// prompts.
fn print_host_counts(out: &mut dyn Write, session: &SessionAnswer) -> std::io::Result<()> {
    let counts = [(session.host_message_count, "messages"), (session.host_compacted_count, "compacted")];
    let parts: Vec<String> =
        counts.iter().filter_map(|(count, what)| Some(format!("{} {what}", (*count)?))).collect();
    if parts.is_empty() {
        return Ok(());
    }
    writeln!(out, "{DIM}by the host's own count: {}{DIM:#}", parts.join(", "))
}

fn print_plans(out: &mut dyn Write, plans: &[PlanAnswer]) -> std::io::Result<()> {
    if !plans.is_empty() {
        writeln!(out, "\n{BOLD}Plans{BOLD:#}")?;
    }
    for plan in plans {
        let state = if plan.kind == "tasks" { String::new() } else { format!("{}: ", plan.state) };
        writeln!(out, "  {ACCENT}{}{ACCENT:#} {state}{}", terminal::id(plan.id), plan.title)?;
    }
    Ok(())
}

/// The agent's summaries of its compactions.
fn print_compactions(out: &mut dyn Write, compactions: &[CompactionAnswer]) -> std::io::Result<()> {
    if !compactions.is_empty() {
        writeln!(out, "\n{BOLD}Compacted{BOLD:#}")?;
    }
    for compaction in compactions {
        let (id, at) = (terminal::id(compaction.id), terminal::time(compaction.created_at));
        let after = compaction.prompt_number.map(|number| format!(", prompt {number}")).unwrap_or_default();
        let (trigger, summary) = (&compaction.trigger, shortened_line(&compaction.summary, LINE_CHARS));
        writeln!(out, "  {ACCENT}{id}{ACCENT:#} {DIM}{trigger}, {at}{after}{DIM:#}: {summary}")?;
    }
    Ok(())
}

/// The number of calls per tool, in order of the first call.
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
