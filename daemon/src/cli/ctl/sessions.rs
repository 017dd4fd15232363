//! `recall ctl sessions`: the sessions there are.

use std::io::Write;

use clap::Args;
use recall_protocol::wire::Query;

use crate::cli::client::{Client, Start};
use crate::cli::filter::FilterArgs;
use crate::cli::terminal::{list, number, table, text, time};

#[derive(Debug, Args)]
pub struct SessionsArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When the daemon does not answer or refuses.
pub fn run(args: &SessionsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::Never)?.ask(Query::Sessions(args.filter.filter()?))?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let rows: Vec<Vec<String>> = list(&answer.value, "sessions")
        .iter()
        .map(|session| {
            vec![
                text(session, "session_id").to_owned(),
                text(session, "project").to_owned(),
                text(session, "status").to_owned(),
                time(session, "started_at"),
                number(session, "prompts").to_string(),
                number(session, "activities").to_string(),
                text(session, "title").to_owned(),
            ]
        })
        .collect();
    if rows.is_empty() {
        return Ok(writeln!(out, "No sessions yet. `recall install` connects your agents.")?);
    }
    Ok(table(out, &["SESSION", "PROJECT", "STATUS", "STARTED", "PROMPTS", "CALLS", "TITLE"], &rows)?)
}
