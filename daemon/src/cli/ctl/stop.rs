//! `recall ctl stop`: stops the daemon and waits until it has ended.

use std::io::Write;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use recall_protocol::paths::{LockNote, Paths};
use recall_protocol::query::Stop;

use crate::cli::client::{Client, Start};
use crate::cli::failure::Failure;
use crate::server::instance::Instance;

#[derive(Debug, Args)]
pub struct StopArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

const GONE_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Stops the daemon. Fails if no daemon responds, or it does not end in time.
pub fn run(args: &StopArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let paths = Paths::from_env().context("Cannot find recall's folders")?;
    let pid = LockNote::read(&paths.lock_file()).map(|note| note.pid);
    let answer = Client::connect_at(&paths, Start::Never)?.ask(Stop)?;
    let deadline = Instant::now() + GONE_WITHIN;
    // The system releases the lock when the process ends. A different pid means that the service manager started a new
    // daemon.
    while Instance::claim(&paths.lock_file()).is_err() {
        let holder = LockNote::read(&paths.lock_file()).map(|note| note.pid);
        if holder.is_some() && holder != pid {
            break;
        }
        if Instant::now() >= deadline {
            return Err(Failure::failed("The daemon did not stop in time")
                .hint(format!("See its log: {}.", paths.log_file().display()))
                .into());
        }
        std::thread::sleep(LOOK_EVERY);
    }
    if args.json {
        out.write_all(&answer.bytes)?;
        return Ok(writeln!(out)?);
    }
    Ok(writeln!(out, "Stopped the daemon.")?)
}
