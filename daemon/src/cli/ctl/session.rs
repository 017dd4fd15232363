//! `recall ctl session`: one session from beginning to end.

use std::io::Write;

use clap::Args;
use recall_protocol::wire::Query;
use serde_json::Value;

use crate::cli::client::{Client, Start};
use crate::cli::show::fields;
use crate::cli::terminal::{self, ACCENT, BOLD, DIM, list, number, text, time};
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
    let answer = Client::connect(Start::Never)?.ask(Query::Session { id: args.id.clone() })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    Ok(tell(out, &answer.value)?)
}

fn tell(out: &mut dyn Write, session: &Value) -> std::io::Result<()> {
    let title = match text(session, "title") {
        "" => "(no title yet)",
        title => title,
    };
    writeln!(out, "{BOLD}{title}{BOLD:#}")?;
    let (id, agent, project) =
        (text(session, "session_id"), text(session, "agent"), text(session, "project"));
    let (status, started) = (text(session, "status"), time(session, "started_at"));
    writeln!(out, "{DIM}{agent} session {id}, {project}, {status}, since {started}{DIM:#}")?;
    for batch in list(session, "batches") {
        let prompt = match text(batch, "prompt") {
            "" => format!("({})", text(batch, "source")),
            prompt => one_line(prompt),
        };
        writeln!(out, "\n{ACCENT}{}.{ACCENT:#} {prompt}", number(batch, "prompt_number"))?;
        let calls = list(batch, "activities");
        if !calls.is_empty() {
            writeln!(out, "   {DIM}{}{DIM:#}", tally(calls))?;
        }
        let response = text(batch, "response");
        if !response.is_empty() {
            writeln!(out, "   → {}", one_line(response))?;
        }
    }
    tell_plans(out, list(session, "plans"))?;
    let observations = list(session, "observations");
    if !observations.is_empty() {
        writeln!(out, "\n{BOLD}Observed{BOLD:#}")?;
    }
    for observation in observations {
        let (id, kind) = (terminal::id(observation), text(observation, "type"));
        writeln!(out, "  {ACCENT}{id}{ACCENT:#} {kind}: {}", text(observation, "title"))?;
    }
    if let Some(summary) = session.get("summary").filter(|summary| summary.is_object()) {
        writeln!(out, "\n{BOLD}In short{BOLD:#}")?;
        fields(out, summary)?;
    }
    Ok(())
}

fn tell_plans(out: &mut dyn Write, plans: &[Value]) -> std::io::Result<()> {
    if !plans.is_empty() {
        writeln!(out, "\n{BOLD}Planned{BOLD:#}")?;
    }
    for plan in plans {
        let (id, state) = (terminal::id(plan), text(plan, "state"));
        let state = if text(plan, "kind") == "tasks" { String::new() } else { format!("{state}: ") };
        writeln!(out, "  {ACCENT}{id}{ACCENT:#} {state}{}", text(plan, "title"))?;
    }
    Ok(())
}

fn one_line(text: &str) -> String {
    shortened(&text.split_whitespace().collect::<Vec<_>>().join(" "), 160)
}

/// How often which tool was called, in the order of their first call.
fn tally(calls: &[Value]) -> String {
    let mut counts: Vec<(&str, usize, usize)> = Vec::new();
    for call in calls {
        let (name, failed) = (text(call, "tool_name"), call.get("failed") == Some(&Value::Bool(true)));
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
