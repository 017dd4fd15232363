//! `recall wrong`: records that something should not have been injected where it was.

use std::io::Write;

use clap::Args;
use recall_protocol::query::{InjectionVerdict, Wrong};

use super::candidates;
use super::client::{Client, Start};
use super::terminal::{self, ACCENT, DIM};

#[derive(Debug, Args)]
pub struct WrongArgs {
    /// The injected item: 12 or #12 for an observation, or any other ID that `recall why` shows
    #[arg(required = true, add = candidates::items_and_sessions())]
    id: Vec<String>,
    /// The session that received it [default: the last one]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Allow injecting it again
    #[arg(long, conflicts_with = "session")]
    undo: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// Fails when the item does not exist, or was never injected.
pub fn run(args: &WrongArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let verdict = if args.undo { InjectionVerdict::Rightly } else { InjectionVerdict::Wrongly };
    let request = Wrong { ids: args.id.clone(), session: args.session.clone(), told: verdict };
    let answer = Client::connect(Start::IfNeeded)?.ask(request)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    for item in answer.read()?.items {
        let (id, title) = (terminal::id(item.id), terminal::whole_words(&item.title));
        match item.told {
            Some(injection) => {
                let (session, when) = (terminal::session(&injection.session_id), terminal::ago(injection.at));
                let occasion = format!("injected into session {session} at {}, {when}", injection.moment);
                writeln!(
                    out,
                    "{ACCENT}{id}{ACCENT:#} will not be injected like that again: {title} {DIM}({occasion}){DIM:#}"
                )?;
            }
            None => writeln!(out, "{ACCENT}{id}{ACCENT:#} may be injected again: {title}")?,
        }
    }
    Ok(())
}
