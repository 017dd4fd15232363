//! `recall undo`: reverts the last manual change.

use std::io::Write;

use clap::Args;
use recall_protocol::query::{Changes, Undo};

use super::client::{Client, Start};
use super::terminal::{ACCENT, ago, table};
use recall_app::answers::by_hand::ChangeAnswer;

/// The number of changes that `--list` shows.
const LISTED: u32 = 20;

#[derive(Debug, Args)]
#[command(after_help = "Items deleted by `recall forget` cannot be restored.")]
pub struct UndoArgs {
    /// List the changes that can be reverted, newest first, and change nothing
    #[arg(long)]
    pub(super) list: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &UndoArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut client = Client::connect(Start::IfNeeded)?;
    if args.list {
        let answer = client.ask(Changes { limit: LISTED })?;
        if args.json {
            out.write_all(&answer.bytes)?;
            return Ok(writeln!(out)?);
        }
        let changes = answer.read()?.changes;
        if changes.is_empty() {
            return Ok(writeln!(out, "There is nothing to undo.")?);
        }
        let row = |change: &ChangeAnswer| {
            vec![change.id.to_string(), change.change.clone(), ago(change.at), change.title.clone()]
        };
        let rows: Vec<_> = changes.iter().map(row).collect();
        return Ok(table(out, &["ID", "CHANGE", "MADE", "TITLE"], &rows)?);
    }
    let answer = client.ask(Undo)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    match answer.read()?.undone {
        Some(change) => {
            writeln!(out, "Undone: {} of {ACCENT}{}{ACCENT:#}: {}", change.change, change.id, change.title)?
        }
        None => writeln!(out, "There is nothing to undo.")?,
    }
    Ok(())
}
