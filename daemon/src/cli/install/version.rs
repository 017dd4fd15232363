//! Asks an agent for its version, and never waits long for the answer.
//!
//! Which events may be registered, and how, depends on it. Agents are large programs: one may start slowly, ask for
//! an update, or leave a child behind that keeps its output open. So the answer has a deadline and whatever is left
//! of the program's process group is ended.

use std::fmt;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};

/// What `claude --version` may take. It answers within one second on a small machine; twice that under load.
pub(crate) const DEADLINE: Duration = Duration::from_secs(5);
/// A version is a short line.
const MAX_ANSWER: u64 = 4096;

/// An agent's version: major, minor, patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentVersion(pub u32, pub u32, pub u32);

impl AgentVersion {
    /// The first `1.2.3` in a text such as `2.1.329 (Claude Code)`.
    pub(crate) fn find(text: &str) -> Option<Self> {
        text.split(|character: char| !character.is_ascii_digit() && character != '.').find_map(|word| {
            let mut numbers = word.split('.').map(str::parse::<u32>);
            match (numbers.next(), numbers.next(), numbers.next()) {
                (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch))) => Some(Self(major, minor, patch)),
                _ => None,
            }
        })
    }
}

impl fmt::Display for AgentVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

/// Runs `program --version`. `None` when it cannot be started, says nothing that looks like a version, or takes
/// longer than `deadline`.
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

/// Reads until a whole line holds a version: the output may stay open long after it.
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

/// Ends the program with all of its group, and collects it.
fn end(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_three_numbers_are_the_version() {
        #[track_caller]
        fn check(text: &str, version: Option<(u32, u32, u32)>) {
            assert_eq!(AgentVersion::find(text), version.map(|(a, b, c)| AgentVersion(a, b, c)), "{text}");
        }
        check("2.1.329 (Claude Code)\n", Some((2, 1, 329)));
        check("codex-cli v0.98.0-beta.1", Some((0, 98, 0)));
        check("a new version 3 is out\n2.1.0", Some((2, 1, 0)));
        check("99999999999.1.1", None);
        check("2.1", None);
        check("...", None);
        check("", None);
        assert!(AgentVersion(2, 1, 139) > AgentVersion(2, 1, 76));
    }

    /// Asks one of the scripts that stand in for an agent. They are files of the repository, because a program that
    /// was written a moment ago may still be open in another test's child ("text file busy").
    fn answer_of(agent: &str) -> Option<AgentVersion> {
        let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/agents").join(agent);
        assert!(program.exists(), "{}", program.display());
        ask(&program, Duration::from_secs(60))
    }

    #[test]
    fn an_answer_counts_even_when_the_program_stays() {
        for agent in ["claude", "without-newline", "lingering"] {
            assert_eq!(answer_of(agent), Some(AgentVersion(2, 1, 329)), "{agent}");
        }
    }

    #[test]
    fn no_answer_is_none() {
        assert_eq!(answer_of("failing"), None);
        assert_eq!(answer_of("talking"), None);
        assert_eq!(ask(Path::new("/nonexistent/claude"), DEADLINE), None);
        let silent = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/agents/silent");
        assert_eq!(ask(Path::new(silent), Duration::ZERO), None);
    }
}
