//! `recall undo`: reverts the last manual change, or that of one item.

use std::io::Write;

use clap::Args;
use recall_protocol::query::{Changes, Undo, UndoOf};

use super::client::{Answer, Client, Start};
use super::show::by;
use super::terminal::{ACCENT, DIM, ago, counted, table};
use recall_app::answers::by_hand::{ChangeAnswer, ChangesAnswer, ForgottenAnswer, UndoAnswer};
use recall_app::requests::Request;

/// The number of changes that `--list` shows.
const LISTED: u32 = 20;

#[derive(Debug, Args)]
#[command(
    after_help = "Without an ID, it undoes your own last change. Items deleted with `recall forget` cannot be restored, \
whoever deleted them."
)]
pub struct UndoArgs {
    /// Undo the last change of this observation, whoever made it: `12`, or `q3` for a verdict on a quarantined item
    #[arg(value_name = "ID", conflicts_with = "list")]
    id: Option<String>,
    /// List the changes that can be undone, newest first, and change nothing
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
        return listed(&answer.read()?, out);
    }
    match &args.id {
        Some(id) => reverted(args, &client.ask(UndoOf { id: id.clone() })?, out),
        None => reverted(args, &client.ask(Undo)?, out),
    }
}

fn reverted<R: Request<Response = UndoAnswer>>(
    args: &UndoArgs,
    answer: &Answer<R>,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    match answer.read()?.undone {
        Some(change) => {
            let made_by = by(&change.author, &change.device);
            let made_by = if made_by.is_empty() { made_by } else { format!(", {made_by}") };
            writeln!(
                out,
                "Undone: {} of {ACCENT}{}{ACCENT:#}{made_by}: {}",
                change.change, change.id, change.title
            )?
        }
        None => writeln!(out, "There is nothing to undo.")?,
    }
    Ok(())
}

fn listed(answer: &ChangesAnswer, out: &mut dyn Write) -> anyhow::Result<()> {
    let ChangesAnswer { changes, forgotten } = answer;
    let is_foreign = |change: &ChangeAnswer| change.author.is_some();
    if changes.is_empty() {
        writeln!(out, "There is nothing to undo.")?;
    } else {
        let names = |change: &ChangeAnswer| {
            let names = [change.author.as_deref(), change.device.as_deref()];
            names.into_iter().flatten().collect::<Vec<_>>().join(", ")
        };
        let has_foreign = changes.iter().any(is_foreign);
        let row = |change: &ChangeAnswer| {
            let made_by = if is_foreign(change) { names(change) } else { "you".to_owned() };
            let mut row = vec![change.id.to_string(), change.change.clone(), ago(change.at)];
            row.extend(has_foreign.then_some(made_by));
            row.push(change.title.clone());
            row
        };
        let rows: Vec<_> = changes.iter().map(row).collect();
        match has_foreign {
            true => table(out, &["ID", "CHANGE", "MADE", "BY", "TITLE"], &rows)?,
            false => table(out, &["ID", "CHANGE", "MADE", "TITLE"], &rows)?,
        }
        if has_foreign {
            writeln!(
                out,
                "{DIM}`recall undo` reverts your last change; `recall undo ID` the last one of an item.{DIM:#}"
            )?;
        }
    }
    for ForgottenAnswer { author, device, items, at } in forgotten {
        let what = counted(*items, "item", "items");
        writeln!(
            out,
            "{author}, {device} deleted {what} that you had, the last {}. This cannot be undone: the text is gone from all machines.",
            ago(*at)
        )?;
    }
    Ok(())
}
