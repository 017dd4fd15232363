//! `recall ctl retry`: retries failed jobs.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Retry;

use crate::cli::client::{Client, Start};

#[derive(Debug, Args)]
pub struct RetryArgs {
    /// Only this job, by its number in `recall ctl jobs`
    #[arg(value_parser = number)]
    job: Option<i64>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

fn number(text: &str) -> Result<i64, &'static str> {
    text.parse().map_err(|_| "give the number of a job")
}

pub fn run(args: &RetryArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::Never)?.ask(Retry { job: args.job })?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let message = match answer.read()?.retried {
        0 => "No job to retry.".to_owned(),
        1 => "Retrying 1 job.".to_owned(),
        jobs => format!("Retrying {jobs} jobs."),
    };
    Ok(writeln!(out, "{message}")?)
}
