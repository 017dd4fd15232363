//! Parses the arguments: the agent's and the event's names, or an option if a person runs the shim by hand.
//!
//! Agents put a hook's stdout into the model's context, and several show its stderr. So only `--help` and `--version`
//! print to stdout, and an unknown option next to an agent's name is ignored, because the event matters more.

use recall_protocol::agents::DEFAULT;

const VERSION: &str = concat!("recall-shim ", env!("CARGO_PKG_VERSION"), "\n");

pub(crate) fn help() -> String {
    format!(
        "\
Usage: recall-shim AGENT [EVENT]

Hands one event of a coding agent to recall. Agents run this at their hooks and write the event's JSON to stdin;
`recall install` sets that up. AGENT is `{DEFAULT}` if it is not given. Always exits with 0.

Options:
  -h, --help     Print this
  -V, --version  Print the version

For everything else there is `recall --help`.
"
    )
}

/// What the arguments ask for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Invocation {
    /// Deliver one event. Without an agent's name, it is the default agent's.
    Event { agent: Option<String>, event_name: String },
    /// Print this text on stdout.
    Answer(String),
    /// Report an unknown option without an agent's name: this text goes to stderr.
    UnknownOption(String),
}

impl Invocation {
    /// Parses the arguments. Options count at any position. A bare `-` or `--` is neither an option nor a name.
    pub(crate) fn of(arguments: impl Iterator<Item = String>) -> Self {
        let (mut names, mut unknown) = (Vec::new(), None);
        for argument in arguments {
            match argument.as_str() {
                "-h" | "--help" => return Self::Answer(help()),
                "-V" | "--version" => return Self::Answer(VERSION.to_owned()),
                "-" | "--" => {}
                option if option.starts_with('-') => unknown = unknown.or(Some(argument)),
                _ => names.push(argument),
            }
        }
        let mut names = names.into_iter();
        match (names.next(), unknown) {
            // Debug formatting escapes text that could control a terminal.
            (None, Some(option)) => Self::UnknownOption(format!(
                "recall-shim: unknown option: {option:?}\nRun `recall-shim --help` for the options.\n"
            )),
            (agent, _) => Self::Event { agent, event_name: names.next().unwrap_or_default() },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(arguments: &[&str]) -> Invocation {
        Invocation::of(arguments.iter().map(|&argument| argument.to_owned()))
    }

    fn event(agent: &str, event_name: &str) -> Invocation {
        let agent = Some(agent.to_owned()).filter(|agent| !agent.is_empty());
        Invocation::Event { agent, event_name: event_name.to_owned() }
    }

    #[test]
    fn help_and_version_options_are_answered_at_any_position() {
        for option in ["-h", "--help"] {
            for arguments in
                [&[option][..], &["claude-code", option], &["claude-code", "Stop", option], &["--x", option]]
            {
                assert_eq!(of(arguments), Invocation::Answer(help()), "{arguments:?}");
            }
        }
        assert_eq!(of(&["claude-code", "Stop", "x", "--version"]), Invocation::Answer(VERSION.to_owned()));
    }

    #[test]
    fn an_unknown_option_is_reported_only_without_an_agents_name() {
        let Invocation::UnknownOption(message) = of(&["--agent"]) else { panic!("an unknown option") };
        assert!(message.starts_with("recall-shim: unknown option: \"--agent\"\n"), "{message}");
        assert_eq!(of(&["claude-code", "--foo"]), event("claude-code", ""));
        assert_eq!(of(&["--foo", "claude-code", "Stop"]), event("claude-code", "Stop"));
        assert_eq!(of(&["claude-code", "--foo", "Stop"]), event("claude-code", "Stop"));
    }

    #[test]
    fn names_and_bare_dashes_are_not_options() {
        assert_eq!(of(&[]), event("", ""));
        assert_eq!(of(&["from-the-future"]), event("from-the-future", ""));
        assert_eq!(of(&["claude-code", "SessionStart"]), event("claude-code", "SessionStart"));
        for dashes in ["-", "--"] {
            assert_eq!(of(&[dashes]), event("", ""));
            assert_eq!(of(&["claude-code", dashes, "Stop"]), event("claude-code", "Stop"));
        }
    }
}
