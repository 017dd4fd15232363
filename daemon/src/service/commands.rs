//! Runs the programs of a service manager, each with a deadline.

use std::ffi::OsStr;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use thiserror::Error;

/// The time limit, which is longer than a service may take to stop (`TimeoutStopSec` in the unit).
const DEADLINE: Duration = Duration::from_secs(30);

/// A program that failed; `line` is the whole command.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CommandError {
    #[error("cannot run `{line}`: {why}")]
    NotStarted { line: String, why: String },
    /// `output` is the program's stderr, or its stdout if that is empty.
    #[error("`{line}` failed: {output}")]
    Failed { line: String, output: String },
    #[error("`{line}` did not end within {} s", DEADLINE.as_secs())]
    TooSlow { line: String },
}

/// Runs programs. Tests have their own implementation.
pub trait Commands {
    /// Runs a program to its end and returns its stdout, trimmed. Every exit status except 0 is an error.
    fn run(&self, program: &OsStr, args: &[&str]) -> Result<String, CommandError>;
}

/// Runs real programs.
#[derive(Clone, Copy, Debug, Default)]
pub struct Processes;

impl Commands for Processes {
    fn run(&self, program: &OsStr, args: &[&str]) -> Result<String, CommandError> {
        run_within(DEADLINE, program, args)
    }
}

fn run_within(deadline: Duration, program: &OsStr, args: &[&str]) -> Result<String, CommandError> {
    let line = format!("{} {}", program.display(), args.join(" "));
    let child = Command::new(program)
        .args(args)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .spawn()
        .map_err(|error| CommandError::NotStarted { line: line.clone(), why: error.to_string() })?;
    let group = i32::try_from(child.id()).ok().and_then(Pid::from_raw);
    let (sender, ends) = mpsc::channel();
    thread::spawn(move || {
        let _ = sender.send(child.wait_with_output());
    });
    let output = match ends.recv_timeout(deadline) {
        Ok(output) => {
            output.map_err(|error| CommandError::Failed { line: line.clone(), output: error.to_string() })?
        }
        Err(_) => {
            if let Some(group) = group {
                let _ = kill_process_group(group, Signal::KILL);
            }
            return Err(CommandError::TooSlow { line });
        }
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(text(&output.stdout));
    }
    let messages = [text(&output.stderr), text(&output.stdout), output.status.to_string()];
    let output = messages.into_iter().find(|text| !text.is_empty()).unwrap_or_default();
    Err(CommandError::Failed { line, output })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(script: &str) -> Result<String, CommandError> {
        Processes.run(OsStr::new("sh"), &["-c", script])
    }

    #[test]
    fn a_command_returns_its_output_or_a_detailed_error() {
        assert_eq!(sh("echo ' done '"), Ok("done".into()));
        let failed = |output: &str, script: &str| {
            Err(CommandError::Failed { line: format!("sh -c {script}"), output: output.into() })
        };
        assert_eq!(sh("echo why >&2; exit 3"), failed("why", "echo why >&2; exit 3"));
        assert_eq!(sh("echo inactive; exit 3"), failed("inactive", "echo inactive; exit 3"));
        assert_eq!(sh("exit 3"), failed("exit status: 3", "exit 3"));
        let missing = Processes.run(OsStr::new("/nonexistent/systemctl"), &["--user"]);
        assert!(matches!(missing, Err(CommandError::NotStarted { .. })));
    }

    #[test]
    fn a_program_that_exceeds_its_deadline_is_an_error() {
        let hung = run_within(Duration::ZERO, OsStr::new("sh"), &["-c", "exec sleep 600"]);
        assert!(matches!(hung, Err(CommandError::TooSlow { .. })));
    }
}
