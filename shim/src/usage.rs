//! The answers to options, for people who run the shim by hand. Names of agents and events never begin with a dash.

const VERSION: &str = concat!("recall-shim ", env!("CARGO_PKG_VERSION"), "\n");

const HELP: &str = "\
Usage: recall-shim AGENT [EVENT]

Hands one event of a coding agent to recall. Agents run this at their hooks and write the event's JSON to stdin;
`recall install` sets that up. AGENT is `claude-code` if it is not given. Always exits with 0.

Options:
  -h, --help     Print this
  -V, --version  Print the version

For everything else there is `recall --help`.
";

/// The answer to an option among the arguments.
pub(crate) fn answer(arguments: [&str; 2]) -> Option<String> {
    let option = arguments.into_iter().find(|argument| argument.starts_with('-'))?;
    Some(match option {
        "-h" | "--help" => HELP.to_owned(),
        "-V" | "--version" => VERSION.to_owned(),
        // Quoted, so that it cannot control a terminal.
        unknown => format!("recall-shim: there is no option {unknown:?}\n\n{HELP}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_answered_and_names_are_not() {
        for help in ["-h", "--help"] {
            assert_eq!(answer([help, ""]).as_deref(), Some(HELP));
            assert_eq!(answer(["claude-code", help]).as_deref(), Some(HELP));
        }
        assert_eq!(answer(["--version", ""]).as_deref(), Some(VERSION));
        let unknown = answer(["--agent", "claude-code"]).expect("told");
        assert!(unknown.starts_with("recall-shim: there is no option \"--agent\"\n"), "{unknown}");
        assert_eq!(answer(["claude-code", "SessionStart"]), None);
        assert_eq!(answer(["from-the-future", ""]), None);
        assert_eq!(answer(["", ""]), None);
    }
}
