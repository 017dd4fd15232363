//! `recall why`: what a session was given, when and for what reason; or who was given something.

use std::io::Write;

use clap::Args;
use recall_protocol::wire::Query;
use serde_json::Value;

use super::client::{Client, Start};
use super::terminal::{self, ACCENT, BOLD, DIM, list, number, text};

#[derive(Debug, Args)]
pub struct WhyArgs {
    /// A session's id or its beginning; 12 or #12 an observation, s12 a summary
    id: String,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When the daemon does not answer or there is no such session.
pub fn run(args: &WhyArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::IfNeeded)?.ask(Query::Why { id: args.id.clone() })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    if answer.value.get("given").is_some() {
        return Ok(given(out, &answer.value)?);
    }
    let injections = list(&answer.value, "injections");
    if injections.is_empty() {
        return Ok(writeln!(out, "Session {} was given nothing.", text(&answer.value, "session_id"))?);
    }
    for injection in injections {
        let (moment, tokens) = (text(injection, "moment"), number(injection, "tokens"));
        let file = injection["file"].as_str().map(|file| format!(" {file}")).unwrap_or_default();
        writeln!(
            out,
            "{BOLD}{} at {moment}{file}{BOLD:#} {DIM}~{tokens} tokens{DIM:#}",
            terminal::time(injection, "at")
        )?;
        for item in list(injection, "items") {
            writeln!(
                out,
                "  {ACCENT}{}{ACCENT:#} {} {DIM}({}){DIM:#}",
                terminal::id(item),
                text(item, "title"),
                text(item, "reason")
            )?;
        }
    }
    Ok(())
}

/// To whom one thing was given.
fn given(out: &mut dyn Write, answer: &Value) -> std::io::Result<()> {
    let given = list(answer, "given");
    writeln!(out, "{ACCENT}{}{ACCENT:#} {BOLD}{}{BOLD:#}", terminal::id(answer), text(answer, "title"))?;
    if given.is_empty() {
        return writeln!(out, "It was given to no session yet.");
    }
    for one in given {
        let (at, session, moment) = (terminal::time(one, "at"), text(one, "session_id"), text(one, "moment"));
        writeln!(out, "  {at} at {moment} to session {session} {DIM}({}){DIM:#}", text(one, "reason"))?;
    }
    Ok(())
}
