//! `recall timeline`: the events around an item.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Timeline;

use super::candidates;
use super::client::{Client, Start, this_folder};
use super::filter::whole;
use super::terminal::{self, ACCENT, BOLD, DIM};
use recall_domain::document::DocumentKey;

#[derive(Debug, Args)]
pub struct TimelineArgs {
    /// ID of an observation, prompt or other item, or of a session
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
/// Fails when the daemon does not respond, or the item does not exist.
pub fn run(args: &TimelineArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let (id, before, after) = (args.id.clone(), args.before, args.after);
    let query = Timeline { id, before, after, folder: Some(this_folder()) };
    let answer = Client::connect(Start::IfNeeded)?.ask(query)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let asked = DocumentKey::parse(&args.id);
    let mut day = String::new();
    let mut rows = Vec::new();
    let items = answer.read()?.items;
    for item in &items {
        let at = terminal::time(item.created_at);
        let (date, time) = at.split_once(' ').unwrap_or((&at, ""));
        if date != day {
            print(out, &mut rows)?;
            writeln!(out, "{BOLD}{date}{BOLD:#}")?;
            date.clone_into(&mut day);
        }
        let kind = terminal::kind(item.observation_type.as_deref().unwrap_or(&item.kind));
        let id = terminal::id(item.id);
        let title = terminal::whole_words(&item.title);
        // The requested item is highlighted.
        let title = if Some(item.id.0) == asked { format!("{BOLD}{title}{BOLD:#}") } else { title };
        let mark = terminal::elsewhere(item.made_on.elsewhere.as_deref());
        let (time, id) = (format!("  {DIM}{time}{DIM:#}"), format!("{ACCENT}{id}{ACCENT:#}"));
        let by = item.author.as_ref().map(|author| format!("{DIM}, by {author}{DIM:#}")).unwrap_or_default();
        rows.push(vec![time, id, kind.to_owned(), format!("{title}{by}{mark}")]);
    }
    if items.is_empty() {
        return Ok(writeln!(out, "No other events happened around it.")?);
    }
    Ok(print(out, &mut rows)?)
}

/// Prints the rows of a day and empties the list.
fn print(out: &mut dyn Write, rows: &mut Vec<Vec<String>>) -> std::io::Result<()> {
    terminal::table(out, &["", "", "", ""], rows)?;
    rows.clear();
    Ok(())
}
