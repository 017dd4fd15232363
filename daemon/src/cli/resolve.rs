//! `recall resolve`: saying that an observation no longer holds, or holds again: also what recall itself has taken for
//! superseded or solved.

use std::io::Write;

use clap::Args;
use recall_protocol::query::{Mark, Validity};

use super::client::{Client, Start};
use super::terminal::ACCENT;

#[derive(Debug, Args)]
pub struct ResolveArgs {
    /// 12 or #12
    #[arg(required = true)]
    id: Vec<String>,
    /// It holds all the same, whoever said that it does not
    #[arg(long, visible_alias = "undo")]
    reopen: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When the daemon does not answer, or one of the ids is no observation.
pub fn run(args: &ResolveArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let validity = if args.reopen { Validity::Active } else { Validity::Resolved };
    let answer = Client::connect(Start::IfNeeded)?.ask(Mark { ids: args.id.clone(), validity })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    for item in answer.read()?.items {
        writeln!(out, "{ACCENT}#{}{ACCENT:#} is {}: {}", item.id, item.status, item.title)?;
    }
    Ok(())
}
