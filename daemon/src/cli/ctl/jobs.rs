//! `recall ctl jobs`: the compression work.

use std::io::Write;

use clap::Args;
use recall_protocol::wire::Query;

use crate::cli::client::{Client, Start};
use crate::cli::filter::FilterArgs;
use crate::cli::terminal::{list, number, table, text};

#[derive(Debug, Args)]
pub struct JobsArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Only those that were given up
    #[arg(long)]
    dead: bool,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When the daemon does not answer or refuses.
pub fn run(args: &JobsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let filter = args.filter.filter()?;
    let query = if args.dead { Query::DeadJobs(filter) } else { Query::Jobs(filter) };
    let answer = Client::connect(Start::Never)?.ask(query)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let rows: Vec<Vec<String>> = list(&answer.value, "jobs")
        .iter()
        .map(|job| {
            vec![
                number(job, "id").to_string(),
                text(job, "kind").to_owned(),
                text(job, "status").to_owned(),
                number(job, "attempts").to_string(),
                text(job, "session_id").to_owned(),
                text(job, "error").to_owned(),
            ]
        })
        .collect();
    if rows.is_empty() {
        let nothing = if args.dead { "No job was given up." } else { "No jobs yet." };
        return Ok(writeln!(out, "{nothing}")?);
    }
    Ok(table(out, &["JOB", "KIND", "STATUS", "TRIES", "SESSION", "ERROR"], &rows)?)
}
