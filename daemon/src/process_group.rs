//! A program of the user's, and all that it starts: one process group, of which nothing stays behind.
//!
//! Where it may run for long, a guard leads the group: a shell that waits at a pipe of which this process holds the other
//! end. However this process ends, by SIGKILL too, the system closes the pipe, and the guard ends the group and itself.
//! Nothing has to be noted down or looked for by whoever comes next, and no number of a process can be mistaken for
//! another's. A guard that is killed alone leaves things as they are without one: the deadline still holds, for the
//! group keeps its number until the guard is reaped.

use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// The end of a program is noticed within this.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A running program in a group of its own. The group is killed when this is dropped.
pub struct ProcessGroup {
    child: Child,
    /// Leads the group; else the program does.
    guard: Option<Child>,
    /// Their numbers may be somebody else's.
    is_reaped: bool,
}

impl ProcessGroup {
    /// # Errors
    /// When the program cannot be started.
    pub fn spawn(command: &mut Command) -> std::io::Result<Self> {
        Ok(Self { child: command.process_group(0).spawn()?, guard: None, is_reaped: false })
    }

    /// The same with a group that ends with this process, too, however that ends.
    ///
    /// # Errors
    /// When the program or its guard cannot be started.
    pub fn spawn_guarded(command: &mut Command) -> std::io::Result<Self> {
        let mut guard = post_guard()?;
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

    /// Waits until the program ends, and kills what it has started and left. `None`: it went on while it was no longer
    /// to, and was killed. Blocks.
    ///
    /// # Errors
    /// When the system has lost the program.
    pub fn finish(mut self, may_go_on: impl Fn() -> bool) -> std::io::Result<Option<ExitStatus>> {
        while !self.has_ended() {
            if !may_go_on() {
                return Ok(None);
            }
            std::thread::sleep(LOOK_EVERY);
        }
        // Before it is reaped: its group's number cannot belong to somebody else yet.
        self.kill();
        self.reap().map(Some)
    }

    /// Looks without reaping.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), options), Ok(None))
    }

    fn kill(&self) {
        let leader = self.guard.as_ref().unwrap_or(&self.child);
        // An error means that nobody is left.
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

/// A process that leads a group of its own and ends it when its input ends, which this process holds.
fn post_guard() -> std::io::Result<Child> {
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

/// Until then a program may go on.
pub fn until(deadline: Instant) -> impl Fn() -> bool {
    move || Instant::now() < deadline
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::os::unix::process::ExitStatusExt;

    use super::*;

    /// A program that answers its first line, beside one that it has started and that would go on for long.
    fn echo() -> ProcessGroup {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", "sleep 1000 & read -r line; echo $line"]);
        ProcessGroup::spawn_guarded(command.stdin(Stdio::piped()).stdout(Stdio::piped())).unwrap()
    }

    fn forever() -> bool {
        true
    }

    #[test]
    fn what_is_guarded_ends_with_whoever_holds_the_pipe() {
        let mut group = echo();
        // The program's own input stays open: it is the guard that ends it.
        let (_stdin, mut stdout) = (group.take_stdin(), group.take_stdout().unwrap());
        drop(group.guard.as_mut().unwrap().stdin.take());
        let ended = group.finish(forever).unwrap().unwrap();
        assert_eq!(ended.signal(), Some(Signal::KILL.as_raw()));
        // Its end comes when nobody of the group is left.
        assert_eq!(stdout.read_to_end(&mut Vec::new()).unwrap(), 0);
    }

    #[test]
    fn a_guard_that_is_killed_alone_is_not_missed() {
        let mut group = echo();
        group.guard.as_mut().unwrap().kill().unwrap();
        let (mut stdin, mut stdout) = (group.take_stdin().unwrap(), group.take_stdout().unwrap());
        stdin.write_all(b"still here\n").unwrap();
        assert!(group.finish(forever).unwrap().unwrap().success());
        let mut said = String::new();
        stdout.read_to_string(&mut said).unwrap();
        assert_eq!(said, "still here\n");
        // And the deadline still ends what does not end by itself.
        let mut group = echo();
        group.guard.as_mut().unwrap().kill().unwrap();
        let (_stdin, mut stdout) = (group.take_stdin(), group.take_stdout().unwrap());
        assert_eq!(group.finish(|| false).unwrap(), None);
        assert_eq!(stdout.read_to_end(&mut Vec::new()).unwrap(), 0);
    }
}
