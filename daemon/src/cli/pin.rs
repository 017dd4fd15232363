//! `recall pin`: pins observations to the start of sessions.

use std::io::Write;

use clap::Args;
use recall_protocol::query::{Pin, PinUp};

use super::candidates;
use super::client::{Client, Start};
use super::terminal::ACCENT;

#[derive(Debug, Args)]
pub struct PinArgs {
    /// Number of an observation, e.g. 12 or #12
    #[arg(required = true, add = candidates::observations())]
    id: Vec<String>,
    /// Unpin them
    #[arg(long)]
    off: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &PinArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let pin = if args.off { Pin::Off } else { Pin::On };
    let answer = Client::connect(Start::IfNeeded)?.ask(PinUp { ids: args.id.clone(), pin })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    for item in answer.read()?.items {
        let state = if item.pinned { "pinned" } else { "not pinned" };
        writeln!(out, "{ACCENT}#{}{ACCENT:#} is {state}: {}", item.id, item.title)?;
    }
    Ok(())
}
