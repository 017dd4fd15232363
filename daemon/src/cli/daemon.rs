//! `recall daemon`: runs the daemon in the foreground.

use std::io::Write;
use std::process::Command;

use anyhow::Context;
use clap::Args;
use recall_protocol::core_dump;
use recall_protocol::environment::DAEMON_SETTINGS;
use recall_protocol::paths::Paths;

use super::failure::Failure;
use crate::server::instance::InstanceError;
use crate::server::run::RunError;
use crate::server::{log, run};
use recall_config::Config;
use recall_store::OpenStoreError;
use recall_system::faults;
use recall_system::holding::{self, TakeError};

#[derive(Debug, Args)]
pub struct DaemonArgs {}

/// The number of worker threads for tasks that do not block. recall should leave the cores to the user.
const WORKERS: usize = 2;
/// The maximum number of threads for blocking work; idle ones end.
const BLOCKING_THREADS: usize = 16;

/// Restarts the program with the allocator's settings, which are read only when a process starts. Everything that
/// starts a daemon passes [`DAEMON_SETTINGS`]; a daemon started by hand executes itself again with them. If that
/// fails, it runs without them.
fn begin_again_with_settings() {
    use std::os::unix::process::CommandExt;
    let is_set = |(name, _): &(&str, &str)| std::env::var_os(name).is_some();
    if !cfg!(target_os = "linux") || DAEMON_SETTINGS.iter().any(is_set) {
        return;
    }
    let mut arguments = std::env::args_os();
    let name = arguments.next().unwrap_or_default();
    let _ = Command::new("/proc/self/exe").arg0(name).args(arguments).envs(DAEMON_SETTINGS).exec();
}

/// Runs until the daemon is stopped. Fails when it cannot start or keeps failing.
pub fn run(_args: &DaemonArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    begin_again_with_settings();
    let paths = Paths::from_env().context("Cannot find recall's folders")?;
    core_dump::disable();
    // Files created from here on are private, and the working directory blocks no unmount.
    rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    std::env::set_current_dir("/").context("Cannot change to the root folder")?;
    log::start(&paths);
    faults::arm()?;
    // If the folder cannot be created, starting the daemon reports why.
    let _ = paths.create_state_folder();
    // An invalid config must not stop recording; `recall doctor` reports it.
    let loaded = Config::obeyed(paths.config_file(), &run::last_config(&paths));
    for problem in &loaded.problems {
        tracing::error!(line = problem.line, "the configuration has an error; `recall doctor` names it");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(BLOCKING_THREADS)
        .enable_all()
        .build()
        .context("Cannot start the runtime")?;
    let outcome = runtime.block_on(run::run(paths.clone(), loaded));
    // A stuck compressor thread must not keep the process alive.
    runtime.shutdown_timeout(std::time::Duration::from_secs(1));
    match outcome {
        Ok(()) => Ok(()),
        Err(RunError::Instance(InstanceError::Taken(note))) => {
            let named =
                holding::holder(paths.data_dir(), &paths.lock_file()).map(|holder| holder.to_string());
            let named = named.or_else(|| note.map(|note| format!("pid {}", note.pid)));
            let pid = named.map(|holder| format!(" ({holder})")).unwrap_or_default();
            if std::env::var_os("LISTEN_FDS").is_some() {
                // The service manager holds a connection open, and would restart us immediately after a clean exit.
                return Err(Failure::failed(format!("Another daemon is already running{pid}"))
                    .hint("Run `recall ctl stop`; the service then starts its own.")
                    .into());
            }
            writeln!(out, "Another daemon is already running{pid}.")?;
            Ok(())
        }
        Err(error) => {
            tracing::error!(error = %chain(&error), "the daemon could not run");
            Err(explain(error, &paths))
        }
    }
}

fn chain(error: &RunError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Adds to an error what the user can do. Until then events go to the spool, so nothing is lost.
fn explain(error: RunError, paths: &Paths) -> anyhow::Error {
    let what = chain(&error);
    let hint = match &error {
        RunError::Held(TakeError::Held { .. }) => {
            "Stop that daemon with `recall ctl stop` where it runs, or set RECALL_HOME to a folder of its own. Events wait \
             in the spool."
                .to_owned()
        }
        RunError::Lost(_) => {
            "The next hook starts a daemon on what is there now. Events wait in the spool.".to_owned()
        }
        RunError::Store(OpenStoreError::TooNew { .. }) => {
            "Install the newer recall again. Events wait in the spool.".to_owned()
        }
        RunError::Store(OpenStoreError::OtherTables { path }) => format!(
            "Move it away (`mv {0} {0}.old`) and try again. Events wait in the spool.",
            path.display()
        ),
        RunError::Store(_) | RunError::Repair(_) => format!(
            "Check the permissions of {} and the free space; backups are in {}. Events wait in the spool.",
            paths.database().display(),
            paths.backups_dir().display()
        ),
        RunError::Folder(_) | RunError::DataFolder(..) | RunError::Held(TakeError::Io { .. }) => {
            "Make the folder yours and writable, or set RECALL_HOME to another one.".to_owned()
        }
        RunError::Paths(_) => "Set RECALL_HOME to a short absolute path.".to_owned(),
        RunError::Listen(_) => {
            format!("Check the permissions of {}.", paths.runtime_dir().display())
        }
        RunError::Compression(_) => format!("Fix [compression] in {}.", paths.config_file().display()),
        RunError::Redaction(_) => format!("Fix the patterns in {}.", paths.config_file().display()),
        RunError::Instance(_) | RunError::Start(_) | RunError::Signals(_) | RunError::RootFailed => {
            format!("See the log: {}.", paths.log_file().display())
        }
    };
    Failure::failed(capitalised(&what)).hint(hint).into()
}

fn capitalised(text: &str) -> String {
    let mut characters = text.chars();
    characters.next().map(|first| first.to_uppercase().chain(characters).collect()).unwrap_or_default()
}
