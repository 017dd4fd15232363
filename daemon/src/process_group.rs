//! A program of the user's, and all that it starts: one process group, of which nothing stays behind.

use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, waitid};

/// The end of a program is noticed within this.
const LOOK_EVERY: Duration = Duration::from_millis(10);

/// A running program that leads a group of its own. The group is killed when this is dropped.
pub struct ProcessGroup {
    child: Child,
}

impl ProcessGroup {
    /// # Errors
    /// When the program cannot be started.
    pub fn spawn(command: &mut Command) -> std::io::Result<Self> {
        Ok(Self { child: command.process_group(0).spawn()? })
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
        self.child.wait().map(Some)
    }

    /// Looks without reaping.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
        !matches!(waitid(WaitId::Pid(Pid::from_child(&self.child)), options), Ok(None))
    }

    fn kill(&self) {
        // An error means that nobody is left.
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
    }
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        // Reaped means killed before; its number may be somebody else's now.
        if let Ok(None) = self.child.try_wait() {
            self.kill();
            let _ = self.child.wait();
        }
    }
}

/// Until then a program may go on.
pub fn until(deadline: Instant) -> impl Fn() -> bool {
    move || Instant::now() < deadline
}
