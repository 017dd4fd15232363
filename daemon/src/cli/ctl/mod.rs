//! `recall ctl`: administers the daemon, and never starts one. Daily commands also exist at the top level, where they
//! start a daemon if necessary.

pub mod status;
pub mod sessions;
pub mod session;
pub mod jobs;
pub mod retry;
pub mod events;
pub mod flush;
pub mod stop;
pub mod pause;
pub mod upkeep;

use std::io::Write;

use clap::Subcommand;

use super::client::Start;
use super::output::{Notices, Output};

#[derive(Debug, Subcommand)]
pub enum CtlCommand {
    /// Show the state of the daemon
    Status(status::StatusArgs),
    /// List sessions, newest first
    Sessions(sessions::SessionsArgs),
    /// Show a session's prompts, observations and summary
    Session(session::SessionArgs),
    /// List compression jobs, newest first
    Jobs(jobs::JobsArgs),
    /// Retry failed and waiting compression jobs
    Retry(retry::RetryArgs),
    /// Follow session events live
    Events(events::EventsArgs),
    /// Wait until every accepted event is stored, compressed and searchable
    Flush(flush::FlushArgs),
    /// Copy the database to a file
    Backup(upkeep::BackupArgs),
    /// Replace the database with a backup; keeps the current one under another name
    Restore(upkeep::RestoreArgs),
    /// Check the database and the index for damage
    Check(upkeep::CheckArgs),
    /// Forget old sessions
    Prune(upkeep::PruneArgs),
    /// Rebuild the search index
    Reindex(upkeep::ReindexArgs),
    /// Stop recording and injecting for a while
    Pause(pause::PauseArgs),
    /// Resume recording
    Resume(pause::ResumeArgs),
    /// Stop the daemon; live sessions are suspended, not ended
    Stop(stop::StopArgs),
}

pub fn run(command: &CtlCommand, out: &mut dyn Write) -> anyhow::Result<()> {
    match command {
        CtlCommand::Status(args) => status::run(args, out),
        CtlCommand::Sessions(args) => sessions::run(args, Start::Never, out),
        CtlCommand::Session(args) => session::run(args, out),
        CtlCommand::Jobs(args) => jobs::run(args, out),
        CtlCommand::Retry(args) => retry::run(args, out),
        CtlCommand::Events(args) => events::run(args, Start::Never, out),
        CtlCommand::Flush(args) => flush::run(args, out),
        CtlCommand::Backup(args) => upkeep::backup(args, out),
        CtlCommand::Restore(args) => upkeep::restore(args, out),
        CtlCommand::Check(args) => upkeep::check(args, out),
        CtlCommand::Prune(args) => upkeep::prune(args, out),
        CtlCommand::Reindex(args) => upkeep::reindex(args, out),
        CtlCommand::Pause(args) => pause::pause(args, Start::Never, out),
        CtlCommand::Resume(args) => pause::resume(args, Start::Never, out),
        CtlCommand::Stop(args) => stop::run(args, out),
    }
}

impl CtlCommand {
    pub(super) fn output(&self) -> Output {
        match self {
            Self::Status(_) | Self::Sessions(_) | Self::Session(_) | Self::Jobs(_) => Output::Page,
            Self::Events(_) => Output::Program,
            _ => Output::Lines,
        }
    }

    pub(super) fn notices(&self) -> Notices {
        if matches!(self, Self::Status(_) | Self::Stop(_)) { Notices::Events } else { Notices::All }
    }
}
