//! `recall ctl flush`: waits until every event is processed.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Flush;

use crate::cli::client::{Client, FLUSH_WITHIN, Start};
use crate::cli::terminal::{WARNING, counted, time};
use recall_app::answers::status::OpenJobsAnswer;

#[derive(Debug, Args)]
pub struct FlushArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Waits until all events are stored, compressed and indexed. Fails if this takes more than five minutes, or more than 15
/// because of the index. A failing model is not a failure: the built-in result is stored.
pub fn run(args: &FlushArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::Never)?.ask_within(Flush, FLUSH_WITHIN)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let flushed = answer.read()?;
    let (took, left) = (flushed.took_ms, flushed.spooled_left);
    if left > 0 {
        let (events, stay) = (counted(left, "event", "events"), if left == 1 { "stays" } else { "stay" });
        writeln!(
            out,
            "{WARNING}{events} could not be stored and {stay} in the spool; see the daemon's log.{WARNING:#}"
        )?;
    }
    let what = if left > 0 { "Everything else" } else { "Everything" };
    let OpenJobsAnswer { running, waiting, dead, .. } = flushed.jobs;
    // A job that waits for a model already has a built-in result, but not everything is done.
    let is = match running + waiting + dead {
        0 => "stored, compressed and searchable",
        _ => "stored and searchable",
    };
    writeln!(out, "{what} is {is} ({took} ms).")?;
    Ok(print_open(out, &flushed.jobs)?)
}

/// Reports jobs that still await a better result.
fn print_open(out: &mut dyn Write, jobs: &OpenJobsAnswer) -> std::io::Result<()> {
    if jobs.running > 0 {
        let running = counted(jobs.running, "job still runs", "jobs still run");
        writeln!(out, "{running}; built-in results are used until then.")?;
    }
    if jobs.waiting > 0 {
        let next = jobs.next_try.map(|at| format!(", the next at {}", time(at))).unwrap_or_default();
        writeln!(
            out,
            "{WARNING}{} for a retry{next}.{WARNING:#} Built-in results are used until then; `recall ctl jobs` says why.",
            counted(jobs.waiting, "job waits", "jobs wait")
        )?;
    }
    if jobs.dead > 0 {
        let dead = counted(jobs.dead, "job was given up", "jobs were given up");
        writeln!(out, "{dead}; `recall ctl jobs --dead` says why.")?;
    }
    Ok(())
}
