//! `recall timeline`: what happened around a moment.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Timeline;

use super::candidates;
use super::client::{Client, Start, this_folder};
use super::filter::whole;
use super::terminal::{self, ACCENT, DIM};

#[derive(Debug, Args)]
pub struct TimelineArgs {
    /// Id of an observation, prompt or other item, or of a session
    #[arg(add = candidates::items_and_sessions())]
    id: String,
    /// Number of entries before it
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole)]
    before: u32,
    /// Number of entries after it
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = whole)]
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
    let rows = answer.read()?.items.into_iter().map(|item| {
        let kind = item.observation_type.as_deref().unwrap_or(&item.kind);
        let (time, id) = (terminal::time(item.created_at), item.id.map(terminal::id).unwrap_or_default());
        let (title, mark) =
            (terminal::whole_words(&item.title), terminal::elsewhere(item.made_on.elsewhere.as_deref()));
        let (time, id) = (format!("{DIM}{time}{DIM:#}"), format!("{ACCENT}{id:>6}{ACCENT:#}"));
        vec![time, id, kind.to_owned(), format!("{title}{mark}")]
    });
    Ok(terminal::table(out, &["", "", "", ""], &rows.collect::<Vec<_>>())?)
}
