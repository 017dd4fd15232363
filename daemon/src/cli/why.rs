//! `recall why`: what was injected into a session, when and why; or the sessions that received an item.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Why;

use super::candidates;
use super::client::{Client, Start};
use super::terminal::{self, ACCENT, BOLD, DIM};
use recall_app::answers::session::{self, WhyAnswer, WhyGivenAnswer};

#[derive(Debug, Args)]
pub struct WhyArgs {
    /// A session's ID or its first characters; 12 or #12 for an observation, s12 for a summary, or any other ID that
    /// `recall search` or `recall why` shows
    #[arg(add = candidates::items_and_sessions())]
    id: String,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// Fails when the daemon does not respond, or the session does not exist.
pub fn run(args: &WhyArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::IfNeeded)?.ask(Why { id: args.id.clone() })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    match answer.read()? {
        session::Why::Session(answer) => injections(out, &answer)?,
        session::Why::Given(answer) => given(out, &answer)?,
    }
    Ok(())
}

/// Prints the injections of a session.
fn injections(out: &mut dyn Write, answer: &WhyAnswer) -> std::io::Result<()> {
    if answer.injections.is_empty() {
        return writeln!(out, "Session {} received no context.", terminal::session(&answer.session_id));
    }
    for injection in &answer.injections {
        let (moment, tokens) = (&injection.moment, injection.tokens);
        let file = injection.file.as_ref().map(|file| format!(" {file}")).unwrap_or_default();
        let at = terminal::time(injection.at);
        writeln!(out, "{BOLD}{at} at {moment}{file}{BOLD:#} {DIM}~{tokens} tokens{DIM:#}")?;
        for item in &injection.items {
            let (id, title) = (item.id.map(terminal::id).unwrap_or_default(), &item.title);
            let uses = became(item.uses.iter().map(AsRef::as_ref));
            writeln!(out, "  {ACCENT}{id}{ACCENT:#} {title} {DIM}({}{uses}){DIM:#}", item.reason)?;
        }
    }
    Ok(())
}

/// Prints the sessions that received an item.
fn given(out: &mut dyn Write, answer: &WhyGivenAnswer) -> std::io::Result<()> {
    let (id, title) = (terminal::id(answer.id), terminal::whole_words(&answer.title));
    writeln!(out, "{ACCENT}{id}{ACCENT:#} {BOLD}{title}{BOLD:#}")?;
    if answer.given.is_empty() {
        return writeln!(out, "No session has received it yet.");
    }
    for one in &answer.given {
        let (at, session, moment) = (terminal::time(one.at), terminal::session(&one.session_id), &one.moment);
        let uses = became(one.uses.iter().map(String::as_str));
        writeln!(out, "  {at} at {moment} to session {session} {DIM}({}{uses}){DIM:#}", one.reason)?;
    }
    Ok(())
}

/// Describes what became of an injected item, to append to its reason.
fn became<'a>(uses: impl Iterator<Item = &'a str>) -> String {
    let words = uses.map(|name| match name {
        "repeated" => "done anyway",
        "wrong" => "you marked it as wrong here",
        name => name,
    });
    words.map(|words| format!("; {words}")).collect()
}
