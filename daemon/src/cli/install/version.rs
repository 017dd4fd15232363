//! Asks an agent for its version, with a deadline.
//!
//! The version decides which events may be registered, and how. An agent is a large program: it may start slowly, ask
//! for an update, or leave behind a child that keeps its output open. At the deadline the rest of its process group is
//! killed.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

use recall_agents::settings::AgentVersion;

/// How long to wait for an agent's answer. Agents answered within one second on a small machine, and within two under
/// load.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);
/// The maximum number of bytes read, because a version is a short line.
const MAX_ANSWER: u64 = 4096;

/// Runs `program --version`. Returns `None` if it cannot be started, prints no version, or takes longer than
/// `deadline`.
pub(crate) fn ask(program: &Path, deadline: Duration) -> Option<AgentVersion> {
    let mut child = Command::new(program)
        .arg("--version")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .ok()?;
    let output = child.stdout.take()?;
    let (sender, answers) = mpsc::channel();
    thread::spawn(move || {
        let _ = sender.send(first_version(output));
    });
    let answer = answers.recv_timeout(deadline).ok().flatten();
    end(&mut child);
    answer
}

/// Reads until a line contains a version, because the output may stay open much longer.
fn first_version(mut output: impl Read) -> Option<AgentVersion> {
    let mut bytes = Vec::new();
    let mut part = [0; 256];
    loop {
        let read = output.read(&mut part).unwrap_or(0);
        bytes.extend_from_slice(part.get(..read).unwrap_or_default());
        let text = String::from_utf8_lossy(&bytes);
        let whole = if read == 0 { Some(&*text) } else { text.rsplit_once('\n').map(|(lines, _)| lines) };
        let version = whole.and_then(AgentVersion::find);
        if version.is_some() || read == 0 || bytes.len() as u64 > MAX_ANSWER {
            return version;
        }
    }
}

/// Kills the process group and waits for the program.
fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a script in place of an agent. The scripts are files of the repository, because a program that was just
    /// written may still be open in another test's child ("text file busy").
    fn answer_of(agent: &str) -> Option<AgentVersion> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents").join(agent);
        assert!(program.exists(), "{}", program.display());
        ask(&program, Duration::from_secs(60))
    }

    #[test]
    fn a_version_is_read_even_if_the_program_keeps_running() {
        for agent in ["claude", "without-newline", "lingering"] {
            assert_eq!(answer_of(agent), Some(AgentVersion(2, 1, 329)), "{agent}");
        }
    }

    #[test]
    fn the_version_is_unknown_if_the_program_does_not_report_one() {
        assert_eq!(answer_of("failing"), None);
        assert_eq!(answer_of("talking"), None);
        assert_eq!(ask(Path::new("/nonexistent/claude"), DEADLINE), None);
        let silent = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agents/silent");
        assert_eq!(ask(Path::new(silent), Duration::ZERO), None);
    }
}
