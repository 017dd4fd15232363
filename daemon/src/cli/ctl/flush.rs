//! `recall ctl flush`: waits until every event is processed.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Flush;

use crate::cli::client::{Client, FLUSH_WITHIN, Start};
use crate::cli::terminal::{WARNING, counted};

#[derive(Debug, Args)]
pub struct FlushArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Fails when the work takes more than five minutes.
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
    Ok(writeln!(out, "{what} is stored, compressed and searchable ({took} ms).")?)
}
