//! `recall ctl retry`: tries again what was given up.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Retry;

use crate::cli::client::{Client, Start};

#[derive(Debug, Args)]
pub struct RetryArgs {
    /// Only this job, by its number in `recall ctl jobs`
    job: Option<i64>,
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When the daemon does not answer, or there is no such job.
pub fn run(args: &RetryArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::Never)?.ask(Retry { job: args.job })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let said = match answer.read()?.retried {
        0 => "No job waits or was given up.".to_owned(),
        1 => "1 job is tried again.".to_owned(),
        jobs => format!("{jobs} jobs are tried again."),
    };
    Ok(writeln!(out, "{said}")?)
}
