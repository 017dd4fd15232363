//! `recall ctl sessions`: lists sessions.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Sessions;

use crate::cli::client::{Client, Start};
use crate::cli::filter::FilterArgs;
use crate::cli::terminal::{table, time};

#[derive(Debug, Args)]
pub struct SessionsArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &SessionsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::Never)?.ask(Sessions { filter: args.filter.filter()? })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let rows: Vec<Vec<String>> = answer
        .read()?
        .sessions
        .into_iter()
        .map(|session| {
            vec![
                session.session_id,
                session.project,
                session.status,
                time(session.started_at),
                session.prompts.to_string(),
                session.activities.to_string(),
                session.title.unwrap_or_default(),
            ]
        })
        .collect();
    if rows.is_empty() {
        return Ok(writeln!(out, "No sessions yet. Run `recall install` to connect your agents.")?);
    }
    Ok(table(out, &["SESSION", "PROJECT", "STATUS", "STARTED", "PROMPTS", "CALLS", "TITLE"], &rows)?)
}
