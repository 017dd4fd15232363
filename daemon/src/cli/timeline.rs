//! `recall timeline`: what happened around a moment.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Timeline;

use super::client::{Client, Start, this_folder};
use super::terminal::{self, ACCENT, DIM};

#[derive(Debug, Args)]
pub struct TimelineArgs {
    /// Id of an observation, prompt or other item, or of a session
    id: String,
    /// Number of entries before it
    #[arg(long, default_value_t = 10)]
    before: u32,
    /// Number of entries after it
    #[arg(long, default_value_t = 10)]
    after: u32,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When the daemon does not answer or there is no such thing.
pub fn run(args: &TimelineArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let (id, before, after) = (args.id.clone(), args.before, args.after);
    let query = Timeline { id, before, after, folder: Some(this_folder()) };
    let answer = Client::connect(Start::IfNeeded)?.ask(query)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    for item in answer.read()?.items {
        let kind = item.observation_type.as_deref().unwrap_or(&item.kind);
        let (time, id) = (terminal::time(item.created_at), item.id.map(terminal::id).unwrap_or_default());
        let (title, mark) = (&item.title, terminal::elsewhere(item.made_on.elsewhere.as_deref()));
        writeln!(out, "{DIM}{time}{DIM:#} {ACCENT}{id:>6}{ACCENT:#} {kind:11} {title}{mark}")?;
    }
    Ok(())
}
