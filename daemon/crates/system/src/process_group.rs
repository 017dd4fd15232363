//! Runs a user's program and all its child processes as one process group, and ends the whole group.
//!
//! A long-running program gets a guard that leads the group: a shell that reads from a pipe whose other end this
//! process holds. When this process ends, even by SIGKILL, the system closes the pipe, and the guard kills the group
//! including itself. So nothing has to be recorded for the next daemon, and no process id can be mistaken for another
//! process's. If only the guard is killed, the deadline still applies, because the group keeps its id until the guard
//! is reaped.

use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// The interval of the checks whether a program has ended.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A running program in its own group. Dropping it kills the group.
pub struct ProcessGroup {
    child: Child,
    /// The guard, which leads the group; without one the program leads it.
    guard: Option<Child>,
    /// Whether the processes were reaped. Then the ids may belong to other processes.
    is_reaped: bool,
}

impl ProcessGroup {
    /// Starts a program in its own group.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn spawn(command: &mut Command) -> std::io::Result<Self> {
        Ok(Self { child: command.process_group(0).spawn()?, guard: None, is_reaped: false })
    }

    /// Starts a program in a group that is also killed when this process ends, for whatever reason.
    ///
    /// # Errors
    /// The program or its guard cannot be started.
    pub fn spawn_guarded(command: &mut Command) -> std::io::Result<Self> {
        let mut guard = spawn_guard()?;
        let group = i32::try_from(guard.id()).unwrap_or(0);
        match command.process_group(group).spawn() {
            Ok(child) => Ok(Self { child, guard: Some(guard), is_reaped: false }),
            Err(error) => {
                let _ = guard.kill();
                let _ = guard.wait();
                Err(error)
            }
        }
    }

    pub fn take_stdin(&mut self) -> Option<ChildStdin> {
        self.child.stdin.take()
    }

    pub fn take_stdout(&mut self) -> Option<ChildStdout> {
        self.child.stdout.take()
    }

    /// Waits until the program ends, and kills any process that it left running. `None` if it ran for longer than
    /// allowed and was killed. Blocks.
    ///
    /// # Errors
    /// Waiting for the program failed.
    pub fn finish(mut self, may_go_on: impl Fn() -> bool) -> std::io::Result<Option<ExitStatus>> {
        while !self.has_ended() {
            if !may_go_on() {
                return Ok(None);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        // Killed before reaping, because until then the group's id cannot be reused.
        self.kill();
        self.reap().map(Some)
    }

    /// Checks whether the program has ended, without reaping it.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), options), Ok(None))
    }

    fn kill(&self) {
        let leader = self.guard.as_ref().unwrap_or(&self.child);
        // An error means that no process is left.
        let _ = kill_process_group(Pid::from_child(leader), Signal::KILL);
    }

    fn reap(&mut self) -> std::io::Result<ExitStatus> {
        self.is_reaped = true;
        if let Some(guard) = &mut self.guard {
            let _ = guard.wait();
        }
        self.child.wait()
    }
}

/// Starts the leader of a group. It kills the group when its standard input closes, of which this process holds the
/// other end.
fn spawn_guard() -> std::io::Result<Child> {
    Command::new("/bin/sh")
        .args(["-c", "read -r nothing; kill -KILL 0"])
        .env_clear()
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        if !self.is_reaped {
            self.kill();
            let _ = self.reap();
        }
    }
}

/// Returns a condition that holds until the deadline.
pub fn until(deadline: Instant) -> impl Fn() -> bool {
    move || Instant::now() < deadline
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    /// A program that answers its first line, beside a long-running one that it started.
    fn echo() -> ProcessGroup {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 1000 & read -r line; echo $line"]);
        ProcessGroup::spawn_guarded(command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap()
    }

    fn forever() -> bool {
        true
    }

    #[test]
    fn a_guarded_process_group_ends_when_the_pipe_closes() {
        let mut group = echo();
        // The program's own input stays open, so only the guard can end it.
        let (_stdin, mut stdout) = (group.take_stdin(), group.take_stdout().unwrap());
        drop(group.guard.as_mut().unwrap().stdin.take());
        let ended = group.finish(forever).unwrap().unwrap();
        assert_eq!(ended.signal(), Some(Signal::KILL.as_raw()));
        // The output closes when no process of the group is left.
        assert_eq!(stdout.read_to_end(&mut Vec::new()).unwrap(), 0);
    }

    #[test]
    fn a_process_group_without_its_guard_still_ends_by_its_deadline() {
        let mut group = echo();
        group.guard.as_mut().unwrap().kill().unwrap();
        let (mut stdin, mut stdout) = (group.take_stdin().unwrap(), group.take_stdout().unwrap());
        stdin.write_all(b"still here\n").unwrap();
        assert!(group.finish(forever).unwrap().unwrap().success());
        let mut output = String::new();
        stdout.read_to_string(&mut output).unwrap();
        assert_eq!(output, "still here\n");
        // The deadline ends a program that does not end by itself.
        let mut group = echo();
        group.guard.as_mut().unwrap().kill().unwrap();
        let (_stdin, mut stdout) = (group.take_stdin(), group.take_stdout().unwrap());
        assert_eq!(group.finish(|| false).unwrap(), None);
        assert_eq!(stdout.read_to_end(&mut Vec::new()).unwrap(), 0);
    }
}
