//! `recall ctl jobs`: lists compression jobs.

use std::io::Write;

use clap::Args;
use recall_protocol::query::{Jobs, WhichJobs};

use crate::cli::client::{Client, Start};
use crate::cli::filter::FilterArgs;
use crate::cli::terminal::{self, table};

#[derive(Debug, Args)]
pub struct JobsArgs {
    #[command(flatten)]
    filter: FilterArgs,
    /// Only failed jobs
    #[arg(long)]
    dead: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

pub fn run(args: &JobsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let filter = args.filter.filter()?;
    let which = if args.dead { WhichJobs::Dead } else { WhichJobs::All };
    let answer = Client::connect(Start::Never)?.ask(Jobs { which, filter })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let rows: Vec<Vec<String>> = answer
        .read()?
        .jobs
        .into_iter()
        .map(|job| {
            vec![
                job.id.to_string(),
                job.kind,
                job.status,
                job.attempts.to_string(),
                terminal::session(&job.session_id),
                job.error.unwrap_or_default(),
            ]
        })
        .collect();
    if rows.is_empty() {
        let nothing = if args.dead { "No failed jobs." } else { "No jobs yet." };
        return Ok(writeln!(out, "{nothing}")?);
    }
    Ok(table(out, &["JOB", "KIND", "STATUS", "TRIES", "SESSION", "ERROR"], &rows)?)
}
