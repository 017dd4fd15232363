//! `recall why`: what a session was given, when and for what reason.

use std::io::Write;

use clap::Args;
use recall_protocol::wire::Query;

use super::client::{Client, Start};
use super::terminal::{self, ACCENT, BOLD, DIM, list, number, text};

#[derive(Debug, Args)]
pub struct WhyArgs {
    /// A session's id or its beginning
    session: String,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When the daemon does not answer or there is no such session.
pub fn run(args: &WhyArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::IfNeeded)?.ask(Query::Why { id: args.session.clone() })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
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
            let kind = text(item, "kind");
            let id = if kind == "summary" { format!("s{}", number(item, "id")) } else { terminal::id(item) };
            writeln!(
                out,
                "  {ACCENT}{id}{ACCENT:#} {} {DIM}({}){DIM:#}",
                text(item, "title"),
                text(item, "reason")
            )?;
        }
    }
    Ok(())
}
