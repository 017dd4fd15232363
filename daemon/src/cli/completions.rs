//! `recall completions`: prints a completion script, which runs recall at each Tab.

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;
use clap_complete::env::{CompleteEnv, Shells};

use super::candidates;

/// Set by the bash script: the line up to the cursor.
const LINE: &str = "RECALL_COMPLETE_LINE";
/// Set by the scripts: the shell that requests completions.
const ASKED_BY: &str = "RECALL_COMPLETE";

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    shell: Shell,
}

pub fn run(args: &CompletionsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    if let Some(shell) = Shells::builtins().completer(&args.shell.to_string()) {
        let mut script = Vec::new();
        // By name, so that the script survives updates and moves.
        shell.write_registration(ASKED_BY, "recall", "recall", "recall", &mut script)?;
        // bash breaks words at colons without saying so.
        let asks = format!("{ASKED_BY}=\"bash\"");
        let script = String::from_utf8(script)?;
        let with_line = format!("{LINE}=\"${{COMP_LINE:0:COMP_POINT}}\" {asks}");
        out.write_all(script.replace(&asks, &with_line).as_bytes())?;
    }
    Ok(())
}

/// Answers a script; `None` if no script is asking. Errors are not printed, because this runs in the middle of a
/// command line.
pub fn answer(arguments: &[OsString]) -> Option<ExitCode> {
    std::env::var_os(ASKED_BY)?;
    if let Some(values) = std::env::var(LINE).ok().and_then(|line| behind_a_colon(&line)) {
        let between = std::env::var("_CLAP_IFS").unwrap_or_else(|_| "\n".to_owned());
        let written = write!(std::io::stdout().lock(), "{}", values.join(&between));
        return Some(written.map_or(ExitCode::FAILURE, |()| ExitCode::SUCCESS));
    }
    let asked = CompleteEnv::with_factory(super::command_line).var(ASKED_BY);
    let folder = std::env::current_dir().ok();
    match asked.try_complete(arguments, folder.as_deref()) {
        Ok(false) => None,
        Ok(true) => Some(ExitCode::SUCCESS),
        Err(_) => Some(ExitCode::FAILURE),
    }
}

/// Returns the completions after `type:` in a search; `None` if something else is being completed.
fn behind_a_colon(line: &str) -> Option<Vec<String>> {
    let mut words = line.split_whitespace();
    words.next().filter(|_| words.next() == Some("search"))?;
    let word = line.rsplit(char::is_whitespace).next()?;
    let (key, typed) = word.split_once(':')?;
    Some(candidates::filter_values(key, typed))
}

#[cfg(test)]
mod tests {
    use clap::ValueEnum;

    use super::*;

    #[test]
    fn every_shell_has_a_completion_script() {
        for shell in Shell::value_variants() {
            let mut script = Vec::new();
            run(&CompletionsArgs { shell: *shell }, &mut script).unwrap();
            let script = String::from_utf8(script).unwrap();
            assert!(script.contains(ASKED_BY), "{shell}");
            assert_eq!(script.contains(LINE), *shell == Shell::Bash, "{shell}");
        }
    }

    #[test]
    fn bash_completes_a_filter_value_after_a_colon() {
        assert_eq!(behind_a_colon("recall search cents type:bug").unwrap(), ["bugfix"]);
        assert!(behind_a_colon("recall search type:").unwrap().contains(&"decision".to_owned()));
        assert_eq!(behind_a_colon("recall search type: "), None);
        assert_eq!(behind_a_colon("recall show type:"), None);
    }
}
