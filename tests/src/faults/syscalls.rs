//! A program that dies, or is refused something, at its n-th system call, by the hand of strace.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use rustix::process::Signal;

use crate::{Said, Stage, run};

/// What happens at a system call.
#[derive(Clone, Copy, Debug)]
pub enum Fault {
    /// SIGKILL at the n-th call of any kind, counted from 1.
    Kill { at: usize },
    /// The n-th call of this name fails with this error and has no effect.
    Refuse { call: &'static str, error: &'static str, at: usize },
}

/// Whether strace is there and may trace.
pub fn strace_works() -> bool {
    let traced = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    traced.is_ok_and(|output| output.status.success())
}

/// Runs the shim of Claude Code with the fault.
pub fn shim_with(stage: &Stage, fault: Fault, stdin: &[u8]) -> Said {
    let shim = stage.command("recall-shim");
    let mut command = Command::new("strace");
    command.args(["-qq", "-o", "/dev/null", "-e"]);
    match fault {
        Fault::Kill { at } => command.arg(format!("inject=all:signal=KILL:when={at}")),
        Fault::Refuse { call, error, at } => command.arg(format!("inject={call}:error={error}:when={at}")),
    };
    command.arg(shim.get_program()).arg("claude-code").env_clear();
    command.envs(shim.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = shim.get_current_dir() {
        command.current_dir(folder);
    }
    run(command, stdin)
}

/// Whether the program died of SIGKILL; strace dies of what its child dies of.
pub fn was_killed(said: &Said) -> bool {
    said.status.signal() == Some(Signal::KILL.as_raw())
}
