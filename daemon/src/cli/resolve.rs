//! `recall resolve`: saying that an observation no longer holds, or holds again: also what recall itself has taken for
//! superseded or solved.

use std::io::Write;

use clap::Args;
use recall_protocol::wire::{Query, Validity};

use super::client::{Client, Start};
use super::terminal::{self, ACCENT, list, text};

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
    let answer = Client::connect(Start::IfNeeded)?.ask(Query::Mark { ids: args.id.clone(), validity })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    for item in list(&answer.value, "items") {
        let (status, title) = (text(item, "status"), text(item, "title"));
        writeln!(out, "{ACCENT}{}{ACCENT:#} is {status}: {title}", terminal::id(item))?;
    }
    Ok(())
}
