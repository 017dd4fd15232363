//! How recall gets into an agent's settings. `cli/install` reads and writes the files.

use std::fmt;

use serde_json::{Map, Value};

use super::EventSpec;

/// How the hooks are installed. A variant for each kind of settings that an agent here uses.
#[derive(Clone, Copy, Debug)]
pub enum Install {
    /// Entries in the `hooks` of a JSON file, beside the user's other settings.
    JsonHooks(JsonHooks),
}

/// Settings of the shape `{"hooks": {"<Event>": [{"matcher", "hooks": [entry]}]}}`.
#[derive(Clone, Copy, Debug)]
pub struct JsonHooks {
    /// The user's file, within the agent's folder.
    pub file: &'static str,
    /// Further files that a project may have, relative to its folder. Their hooks are run besides the user's.
    pub project_files: &'static [&'static str],
    /// The entry that calls the hook client.
    pub entry: fn(&HookCall<'_>) -> Map<String, Value>,
    /// The setting that turns all hooks off, if these settings do.
    pub switched_off: fn(&Value) -> Option<&'static str>,
    /// An enabled plugin that brings recall's hooks, too.
    pub plugin: fn(&Value) -> Option<String>,
}

/// A hook to be registered.
#[derive(Clone, Copy, Debug)]
pub struct HookCall<'a> {
    pub event: &'a EventSpec,
    /// The agent's version, or the one that is assumed.
    pub version: AgentVersion,
    /// The path of the hook client.
    pub shim: &'a str,
}

/// A shell line that starts `program` with `args`, quoted where a shell would read more into it.
///
/// Only a NUL byte cannot be quoted, and neither a path nor an argument can hold one; such a word is left out.
pub fn shell_line(program: &str, args: &[&str]) -> String {
    let words = std::iter::once(program).chain(args.iter().copied());
    words.filter_map(|word| shlex::try_quote(word).ok()).collect::<Vec<_>>().join(" ")
}

/// An agent's version: major, minor, patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct AgentVersion(pub u32, pub u32, pub u32);

impl AgentVersion {
    /// The first `1.2.3` in a text such as `2.1.329 (Some Agent)`.
    pub fn find(text: &str) -> Option<Self> {
        text.split(|character: char| !character.is_ascii_digit() && character != '.').find_map(|word| {
            let mut numbers = word.split('.').map(str::parse::<u32>);
            match (numbers.next(), numbers.next(), numbers.next()) {
                (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch))) => Some(Self(major, minor, patch)),
                _ => None,
            }
        })
    }
}

impl fmt::Display for AgentVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.0, self.1, self.2)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_three_numbers_are_the_version() {
        #[track_caller]
        fn check(text: &str, version: Option<(u32, u32, u32)>) {
            assert_eq!(AgentVersion::find(text), version.map(|(a, b, c)| AgentVersion(a, b, c)), "{text}");
        }
        check("2.1.329 (Claude Code)\n", Some((2, 1, 329)));
        check("codex-cli v0.98.0-beta.1", Some((0, 98, 0)));
        check("a new version 3 is out\n2.1.0", Some((2, 1, 0)));
        check("99999999999.1.1", None);
        check("2.1", None);
        check("...", None);
        check("", None);
        assert!(AgentVersion(2, 1, 139) > AgentVersion(2, 1, 76));
    }

    #[test]
    fn a_shell_line_quotes_only_what_needs_it() {
        assert_eq!(shell_line("/usr/bin/recall-shim", &["an-agent"]), "/usr/bin/recall-shim an-agent");
        assert_eq!(shell_line("/a b/recall-shim", &["an-agent"]), "'/a b/recall-shim' an-agent");
    }
}
