//! `recall ctl flush`: waiting until everything is where it belongs.

use std::io::Write;

use clap::Args;
use recall_protocol::query::Flush;

use crate::cli::client::{Client, FLUSH_WITHIN, Start};
use crate::cli::terminal::WARNING;

#[derive(Debug, Args)]
pub struct FlushArgs {
    /// Write JSON
    #[arg(long)]
    json: bool,
}

/// # Errors
/// When the daemon does not answer, or work is not done within five minutes.
pub fn run(args: &FlushArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let answer = Client::connect(Start::Never)?.ask_within(Flush, FLUSH_WITHIN)?;
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    let flushed = answer.read()?;
    writeln!(out, "Everything is stored, compressed and searchable ({} ms).", flushed.took_ms)?;
    let left = flushed.spooled_left;
    if left > 0 {
        writeln!(
            out,
            "{WARNING}{left} spooled events could not be stored now and stay in the spool.{WARNING:#}"
        )?;
    }
    Ok(())
}
