//! How recall gets into an agent's settings. `cli/install` reads and writes the files.

use std::fmt;

use serde_json::{Map, Value};

use super::EventSpec;

/// The parts that recall installs into an agent.
#[derive(Clone, Copy, Debug)]
pub struct Install {
    /// The parts that make the agent run the hook client.
    pub hooks: &'static [Part],
    /// The parts that let its model ask the memory: an MCP server's entry, a skill.
    pub server: &'static [Part],
    /// A step that the user must do once, beyond starting a new session.
    pub then: Option<&'static str>,
}

impl Install {
    pub const NOTHING: Self = Self { hooks: &[], server: &[], then: None };
}

/// One file, and what is recall's in it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub place: Place,
    pub content: Content,
}

/// Where a file lies.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub base: Base,
    /// The user's file; empty if there is only one of a project. `*.json` stands for each such file of a folder that exists.
    pub user: &'static str,
    /// A project's files, relative to its folder. Their hooks are run besides the user's. The first is the one to
    /// install into.
    pub project: &'static [&'static str],
}

/// The folder that a path is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The agent's folder.
    Folder,
    /// The home folder.
    Home,
    /// The home folder or, if the user moved it, the agent's folder.
    HomeUnlessMoved,
}

impl Place {
    /// A file in the agent's folder.
    pub const fn own(user: &'static str, project: &'static [&'static str]) -> Self {
        Self { base: Base::Folder, user, project }
    }

    /// A file that only projects have.
    pub const fn of_project(project: &'static [&'static str]) -> Self {
        Self { base: Base::Folder, user: "", project }
    }
}

/// recall's part of a file, with a variant for each kind of settings that an agent uses.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// Entries in the `hooks` of a JSON file, beside the user's other settings.
    JsonHooks(JsonHooks),
    /// Values in a JSON file, each at a path of keys.
    JsonValues(JsonValues),
    /// A table of a TOML file, at a path of keys.
    TomlTable(TomlTable),
    /// A whole file.
    OwnFile(OwnFile),
}

/// Settings of the shape `{"hooks": {"<Event>": [...]}}`.
#[derive(Clone, Copy, Debug)]
pub struct JsonHooks {
    pub syntax: Syntax,
    pub groups: Groups,
    /// A setting at the top without which the agent refuses the file.
    pub frame: Option<(&'static str, u32)>,
    /// Keys inside `hooks` that are no events.
    pub other_keys: &'static [&'static str],
    /// A TOML file in which the user may have hooks of the same shape. Then recall's stand there, too, because the agent
    /// warns about two files.
    pub or_toml: Option<TomlHooks>,
    /// The entry that calls the hook client.
    pub entry: fn(&HookCall<'_>) -> Map<String, Value>,
    /// The setting that turns all hooks off, if these settings do.
    pub switched_off: fn(&Value) -> Option<&'static str>,
    /// An enabled plugin that brings recall's hooks, too.
    pub plugin: fn(&Value) -> Option<String>,
}

impl JsonHooks {
    /// Groups of entries in strict JSON. The entry has to be told.
    pub const GROUPED: Self = Self {
        syntax: Syntax::Json,
        groups: Groups::Nested,
        frame: None,
        other_keys: &[],
        or_toml: None,
        entry: |_| Map::new(),
        switched_off: |_| None,
        plugin: |_| None,
    };
}

/// Hooks as `[[hooks.<Event>]]`.
#[derive(Clone, Copy, Debug)]
pub struct TomlHooks {
    pub place: Place,
    /// The setting there that turns all hooks off.
    pub switched_off: fn(&Value) -> Option<&'static str>,
}

/// Syntax that the agent's parser accepts beyond JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Syntax {
    Json,
    Comments,
    CommentsAndTrailingCommas,
    Json5,
}

/// How an event's entries are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Groups {
    /// `[{"matcher", "hooks": [entry]}]`.
    Nested,
    /// `[entry]`.
    Flat,
}

#[derive(Clone, Copy, Debug)]
pub struct JsonValues {
    pub syntax: Syntax,
    /// The keys on the way to each value, and the value. A value that is an object is merged: keys of the user's stay.
    pub values: fn(&Programs<'_>) -> Vec<PlacedValue>,
    /// A reason why the agent would ignore the values.
    pub refused: fn(&Value) -> Option<&'static str>,
    /// A list that has to contain recall's name if it exists.
    pub allowed: Option<&'static [&'static str]>,
}

/// A value and the keys on the way to it.
pub type PlacedValue = (&'static [&'static str], Value);

impl JsonValues {
    pub const fn new(syntax: Syntax, values: fn(&Programs<'_>) -> Vec<PlacedValue>) -> Self {
        Self { syntax, values, refused: |_| None, allowed: None }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct TomlTable {
    pub path: &'static [&'static str],
    pub values: fn(&Programs<'_>) -> Vec<(&'static str, Value)>,
}

/// A file that only recall writes.
#[derive(Clone, Copy, Debug)]
pub struct OwnFile {
    /// Its text, with [`OwnFile::SHIM`] or [`OwnFile::SHIM_IN_SHELL`], and [`OwnFile::MARK`] in it.
    pub text: &'static str,
    pub kind: OwnKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnKind {
    /// The agent reads it.
    Text,
    /// The agent runs it, because of its name. A program of the user's with that name stays, and the event is left out.
    Program,
}

impl OwnFile {
    /// Stands for the path of the hook client, as a string of JSON.
    pub const SHIM: &'static str = "\"@recall-shim@\"";
    /// Stands for it as a word of a shell.
    pub const SHIM_IN_SHELL: &'static str = "'@recall-shim@'";
    /// The mark that identifies a file of recall's.
    pub const MARK: &'static str = "written by `recall install`";

    pub const fn text(text: &'static str) -> Self {
        Self { text, kind: OwnKind::Text }
    }

    pub const fn program(text: &'static str) -> Self {
        Self { text, kind: OwnKind::Program }
    }

    pub fn written(&self, programs: &Programs<'_>) -> String {
        let text = self.text.replace(Self::SHIM, &Value::from(programs.shim).to_string());
        text.replace(Self::SHIM_IN_SHELL, &shell_line(programs.shim, &[]))
    }
}

/// The text that tells the model about the memory and when to read it. `$more` adds what the agent needs in such a
/// file.
macro_rules! about_the_memory {
    ($more:literal) => {
        concat!(
            "---\n",
            $more,
            "description: ",
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/agents/when.txt")),
            "---\n",
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/agents/memory.md"))
        )
    };
}
pub(super) use about_the_memory;

pub const SKILL: OwnFile = OwnFile::text(about_the_memory!("name: recall\n"));

/// The paths of recall's programs, as they are written into settings.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'a> {
    pub recall: &'a str,
    pub shim: &'a str,
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
