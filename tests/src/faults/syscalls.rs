//! Uses strace to kill a program at its n-th system call, or to return an error from that call.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::process::Command;

use rustix::process::Signal;

use crate::{CommandOutput, Stage, run};

/// What happens at a system call.
#[derive(Clone, Copy, Debug)]
pub enum Fault<'a> {
    /// SIGKILL at the n-th call of this name, counted from 1.
    Kill { call: &'a str, at: usize },
    /// The n-th call of this name fails with this error and has no effect.
    Refuse { call: &'a str, error: &'a str, at: usize },
}

/// Returns whether strace is installed and may trace.
pub fn strace_works() -> bool {
    let traced = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    traced.is_ok_and(|output| output.status.success())
}

/// Returns whether strace may be attached to a running daemon. Only the superuser may do that.
pub fn strace_attaches() -> bool {
    rustix::process::geteuid().is_root() && strace_works()
}

/// Returns every system call of an undisturbed run of the shim, in order: its name, and its number among the calls of
/// that name.
pub fn calls_of_shim(stage: &Stage, stdin: &[u8]) -> Vec<(String, usize)> {
    let trace = stage.user_home().join("trace");
    let output = run_traced(stage, &["-o", &trace.to_string_lossy()], stdin);
    assert!(output.status.success(), "{output:?}");
    let text = std::fs::read_to_string(&trace).unwrap();
    let mut times = BTreeMap::<String, usize>::new();
    let names = text.lines().filter_map(|line| line.split_once('(')).map(|(name, _)| name.to_owned());
    names
        .map(|name| {
            let at = times.entry(name.clone()).or_default();
            *at += 1;
            (name, *at)
        })
        .collect()
}

/// Runs the shim of Claude Code with the fault.
pub fn shim_with(stage: &Stage, fault: Fault<'_>, stdin: &[u8]) -> CommandOutput {
    let expression = match fault {
        Fault::Kill { call, at } => format!("inject={call}:signal=KILL:when={at}"),
        Fault::Refuse { call, error, at } => format!("inject={call}:error={error}:when={at}"),
    };
    run_traced(stage, &["-o", "/dev/null", "-e", &expression], stdin)
}

fn run_traced(stage: &Stage, options: &[&str], stdin: &[u8]) -> CommandOutput {
    let shim = stage.command("recall-shim");
    let mut command = Command::new("strace");
    command.arg("-qq").args(options).arg(shim.get_program()).arg("claude-code").env_clear();
    command.envs(shim.get_envs().filter_map(|(name, value)| Some((name, value?))));
    if let Some(folder) = shim.get_current_dir() {
        command.current_dir(folder);
    }
    run(command, stdin)
}

/// Returns whether the program died of SIGKILL. strace dies of the same signal as its child.
pub fn was_killed(output: &CommandOutput) -> bool {
    output.status.signal() == Some(Signal::KILL.as_raw())
}
