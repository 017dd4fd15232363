//! `recall completions`: completion scripts, which also know the keys of the settings.

use std::io::Write;

use clap::builder::PossibleValuesParser;
use clap::{Args, Command};
use clap_complete::Shell;

use crate::config::keys::Key;

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    shell: Shell,
}

pub fn run(args: &CompletionsArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut with_keys(super::command_line()), "recall", &mut script);
    Ok(out.write_all(&script)?)
}

/// The command line in which a key is one of a list. For completion alone: a mistyped key gets a better answer from the
/// command itself.
fn with_keys(command: Command) -> Command {
    command.mut_subcommand("config", |config| {
        ["get", "set", "unset"].into_iter().fold(config, |config, name| {
            config.mut_subcommand(name, |command| {
                let keys = PossibleValuesParser::new(Key::all().map(|key| key.name));
                // One argument alone would move to the end.
                command.mut_args(|argument| match argument.get_id() == "key" {
                    true => argument.value_parser(keys.clone()),
                    false => argument,
                })
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_complete_keys() {
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish, Shell::PowerShell] {
            let mut script = Vec::new();
            run(&CompletionsArgs { shell }, &mut script).unwrap();
            let script = String::from_utf8(script).unwrap();
            let has_keys = script.contains("context.start_tokens");
            // The scripts of the others complete names of commands and options only.
            assert_eq!(has_keys, matches!(shell, Shell::Bash | Shell::Zsh), "{shell}");
        }
    }
}
