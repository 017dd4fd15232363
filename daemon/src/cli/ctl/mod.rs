//! `recall ctl`: administering the daemon. Never starts one.

pub mod status;
pub mod sessions;
pub mod session;
pub mod jobs;
pub mod retry;
pub mod events;
pub mod flush;
pub mod stop;
pub mod pause;

use std::io::Write;

use clap::Subcommand;

#[derive(Debug, Subcommand)]
pub enum CtlCommand {
    /// Show how the daemon is doing
    Status(status::StatusArgs),
    /// List sessions, the latest first
    Sessions(sessions::SessionsArgs),
    /// Show a session: its batches, observations and summary
    Session(session::SessionArgs),
    /// List compression jobs, the newest first
    Jobs(jobs::JobsArgs),
    /// Try again what was given up, or waits for its next try
    Retry(retry::RetryArgs),
    /// Tell what happens to sessions, as it happens
    Events(events::EventsArgs),
    /// Wait until all that was accepted is stored, compressed and searchable
    Flush(flush::FlushArgs),
    /// Capture nothing and give nothing back for a while
    Pause(pause::PauseArgs),
    /// Capture again
    Resume(pause::ResumeArgs),
    /// Stop the daemon; live sessions are suspended, not ended
    Stop(stop::StopArgs),
}

/// # Errors
/// When the daemon does not answer or refuses.
pub fn run(command: CtlCommand, out: &mut dyn Write) -> anyhow::Result<()> {
    match command {
        CtlCommand::Status(args) => status::run(&args, out),
        CtlCommand::Sessions(args) => sessions::run(&args, out),
        CtlCommand::Session(args) => session::run(&args, out),
        CtlCommand::Jobs(args) => jobs::run(&args, out),
        CtlCommand::Retry(args) => retry::run(&args, out),
        CtlCommand::Events(args) => events::run(&args, out),
        CtlCommand::Flush(args) => flush::run(&args, out),
        CtlCommand::Pause(args) => pause::pause(&args, out),
        CtlCommand::Resume(args) => pause::resume(&args, out),
        CtlCommand::Stop(args) => stop::run(&args, out),
    }
}
