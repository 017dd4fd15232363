//! `recall resolve`: marks an observation as resolved or active, also one that recall had superseded or settled
//! itself.

use std::io::Write;

use clap::Args;
use recall_protocol::query::{Mark, Validity};

use super::client::{Client, Start};
use super::terminal::ACCENT;

#[derive(Debug, Args)]
pub struct ResolveArgs {
    /// Number of an observation, e.g. 12 or #12
    #[arg(required = true)]
    id: Vec<String>,
    /// Mark it as active again
    #[arg(long, visible_alias = "undo")]
    reopen: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

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
