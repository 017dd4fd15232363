//! `recall wrong`: says that something should not have been told where it was told.

use std::io::Write;

use clap::Args;
use recall_protocol::query::{Told, Wrong};

use super::candidates;
use super::client::{Client, Start};
use super::terminal::{self, ACCENT, DIM};

#[derive(Debug, Args)]
pub struct WrongArgs {
    /// What was told: 12 or #12 an observation, or any other id that `recall why` shows
    #[arg(required = true, add = candidates::items_and_sessions())]
    id: Vec<String>,
    /// Where it was told to this session [default: where it was told last]
    #[arg(long, value_name = "ID")]
    session: Option<String>,
    /// Take back what was said against telling it
    #[arg(long, conflicts_with = "session")]
    undo: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When there is no such item, or nobody was told it.
pub fn run(args: &WrongArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let told = if args.undo { Told::Rightly } else { Told::Wrongly };
    let request = Wrong { ids: args.id.clone(), session: args.session.clone(), told };
    let answer = Client::connect(Start::IfNeeded)?.ask(request)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    for item in answer.read()?.items {
        let (id, title) = (terminal::id(item.id), terminal::whole_words(&item.title));
        match item.told {
            Some(told) => {
                let (session, when) = (terminal::session(&told.session_id), terminal::ago(told.at));
                let told = format!("told to session {session} at {}, {when}", told.moment);
                writeln!(
                    out,
                    "{ACCENT}{id}{ACCENT:#} is not told like that again: {title} {DIM}({told}){DIM:#}"
                )?;
            }
            None => writeln!(out, "{ACCENT}{id}{ACCENT:#} may be told again: {title}")?,
        }
    }
    Ok(())
}
