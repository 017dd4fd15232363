//! What the parser of the command line prints: help, the version, or an error. A mistyped command gets a hint.

use std::io::Write as _;

use recall_search::edit_distance::nearest_name;

use super::{command_line, examples};

/// Prints help, the version, or an error with a hint.
pub(super) fn print(mut error: clap::Error, words: &[String]) {
    use clap::error::{ContextKind, ContextValue, ErrorKind as Kind};
    let hint = match error.kind() {
        Kind::InvalidSubcommand => match error.get(ContextKind::InvalidSubcommand) {
            Some(ContextValue::String(typed)) => {
                let meant = match meant_by(typed) {
                    Some(command) => {
                        // The parser suggests names of similar spelling, such as `remember` for `remove`.
                        error.remove(ContextKind::SuggestedSubcommand);
                        Some(command.to_owned())
                    }
                    None if error.get(ContextKind::SuggestedSubcommand).is_some() => None,
                    None => nearest_command(typed),
                };
                meant.map(|command| format!("Did you mean `recall {command}`?"))
            }
            _ => None,
        },
        Kind::MissingRequiredArgument | Kind::InvalidValue => {
            examples::example_for(words).map(|line| format!("For example: {line}"))
        }
        _ => None,
    };
    let _ = error.print();
    if let Some(hint) = hint {
        let _ = writeln!(anstream::AutoStream::auto(std::io::stderr().lock()), "  hint: {hint}");
    }
}

/// Returns the command with the closest name, where clap does not search for one.
fn nearest_command(typed: &str) -> Option<String> {
    let line = command_line();
    let names: Vec<&str> =
        line.get_subcommands().filter(|inner| !inner.is_hide_set()).map(|inner| inner.get_name()).collect();
    nearest_name(typed, names).map(str::to_owned)
}

/// Names that other programs use for a command.
const SYNONYMS: &[(&str, &str)] = &[
    ("find", "search"),
    ("grep", "search"),
    ("query", "search"),
    ("list", "sessions"),
    ("ls", "sessions"),
    ("history", "sessions"),
    ("log", "timeline"),
    ("logs", "events"),
    ("watch", "events"),
    ("add", "remember"),
    ("note", "remember"),
    ("save", "remember"),
    ("delete", "forget"),
    ("remove", "forget"),
    ("rm", "forget"),
    ("get", "show"),
    ("cat", "show"),
    ("close", "resolve"),
    ("start", "daemon"),
    ("stop", "ctl stop"),
    ("restart", "ctl stop"),
    ("jobs", "ctl jobs"),
    ("session", "ctl session"),
    ("settings", "config list"),
    ("set", "config set"),
    ("setup", "install"),
    ("init", "install"),
    ("check", "doctor"),
    ("disable", "pause"),
    ("enable", "resume"),
    ("version", "--version"),
];

/// Returns the command that this synonym means.
fn meant_by(name: &str) -> Option<&'static str> {
    SYNONYMS.iter().find(|(synonym, _)| *synonym == name).map(|(_, command)| *command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn synonyms_are_not_commands_but_name_existing_commands() {
        let line = command_line();
        let is_command =
            |path: &str| path.split(' ').try_fold(&line, |at, name| at.find_subcommand(name)).is_some();
        for (synonym, command) in SYNONYMS {
            assert!(!is_command(synonym), "{synonym} is a command");
            assert!(command.starts_with('-') || is_command(command), "{command} is not a command");
        }
    }
}
