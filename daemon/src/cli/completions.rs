//! `recall completions`: prints a completion script, which asks recall at each Tab.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;
use clap_complete::env::{CompleteEnv, Shells};

/// Set by the scripts: the shell that asks.
const ASKED_BY: &str = "RECALL_COMPLETE";

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    shell: Shell,
}

pub fn run(args: &CompletionsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    if let Some(shell) = Shells::builtins().completer(&args.shell.to_string()) {
        // By its name, so that the script outlives an update and a move.
        shell.write_registration(ASKED_BY, "recall", "recall", "recall", out)?;
    }
    Ok(())
}

/// Answers a script; `None` if none asks. Whatever is wrong, nothing is said of it in the middle of a command line.
pub fn answer(arguments: &[OsString]) -> Option<ExitCode> {
    std::env::var_os(ASKED_BY)?;
    let asked = CompleteEnv::with_factory(super::command_line).var(ASKED_BY);
    let folder = std::env::current_dir().ok();
    match asked.try_complete(arguments, folder.as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        Err(_) => Some(ExitCode::FAILURE),
    }
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_shell_has_a_script() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            run(&CompletionsArgs { shell: *shell }, &mut script).unwrap();
            assert!(String::from_utf8(script).unwrap().contains(ASKED_BY), "{shell}");
        }
    }
}
