//! Recall's entries in agents' settings. `cli/install` reads and writes the files.

use std::fmt;

use serde_json::{Map, Value};

use super::EventSpec;

/// The parts that recall installs into an agent.
#[derive(Clone, Copy, Debug)]
pub struct Install {
    /// The parts that make the agent run the hook client.
    pub hooks: &'static [Part],
    /// The parts that let its model query the memory: an MCP server's entry, a skill.
    pub server: &'static [Part],
    /// A step that the user must do once, beyond starting a new session.
    pub then: Option<&'static str>,
}

impl Install {
    pub const NOTHING: Self = Self { hooks: &[], server: &[], then: None };
}

/// One file, and recall's part of it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub place: Place,
    pub content: Content,
}

/// Where a file is.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    pub base: Base,
    /// The user's file; empty if only projects have one. `*.json` means each such file in an existing folder.
    pub user: &'static str,
    /// A project's files, relative to its folder. Their hooks run in addition to the user's. Recall installs into the
    /// first.
    pub project: &'static [&'static str],
}

/// The base of a relative path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The agent's folder.
    Folder,
    /// The home folder.
    Home,
    /// The home folder, or the agent's folder if the user moved it.
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

/// Recall's part of a file, with a variant for each kind of settings that an agent uses.
#[derive(Clone, Copy, Debug)]
pub enum Content {
    /// Entries in an object of a JSON file, beside the user's other settings.
    JsonHooks(JsonHooks),
    /// Values in a JSON file, each with its path of keys.
    JsonValues(JsonValues),
    /// A table in a TOML file, with its path of keys.
    TomlTable(TomlTable),
    /// A whole file.
    OwnFile(OwnFile),
}

/// Settings of the shape `{"hooks": {"<Event>": [...]}}`.
#[derive(Clone, Copy, Debug)]
pub struct JsonHooks {
    pub syntax: Syntax,
    /// The key of the object with the events.
    pub key: &'static str,
    pub groups: Groups,
    /// Events whose entries are flat, whatever those of the others are.
    pub flat_events: &'static [&'static str],
    /// The matcher of recall's groups. `None` if a group without one gets every event.
    pub matcher: Option<&'static str>,
    /// A setting at the top that the agent requires in the file.
    pub frame: Option<(&'static str, u32)>,
    /// Keys of that object that are not events.
    pub other_keys: &'static [&'static str],
    /// A TOML file in which the user may have hooks of the same shape. If so, recall's go there too, because the agent
    /// warns about two files.
    pub or_toml: Option<TomlHooks>,
    /// The entry that calls the hook client.
    pub entry: fn(&HookCall<'_>) -> Map<String, Value>,
    /// The setting that turns all hooks off, if these settings do.
    pub switched_off: fn(&Value) -> Option<&'static str>,
    /// An enabled plugin that also contains recall's hooks.
    pub plugin: fn(&Value) -> Option<String>,
}

impl JsonHooks {
    /// Groups of entries in strict JSON. The entry itself has to be given.
    pub const GROUPED: Self = Self {
        syntax: Syntax::Json,
        key: "hooks",
        groups: Groups::Nested,
        flat_events: &[],
        matcher: None,
        frame: None,
        other_keys: &[],
        or_toml: None,
        entry: |_| Map::new(),
        switched_off: |_| None,
        plugin: |_| None,
    };

    /// The layout of an event's entries.
    pub fn groups_of(&self, event: &str) -> Groups {
        if self.flat_events.contains(&event) { Groups::Flat } else { self.groups }
    }
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

/// The layout of an event's entries.
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
    /// The values with their paths of keys. A value that is an object is merged, so the user's keys stay.
    pub values: fn(&Programs<'_>) -> Vec<PlacedValue>,
    /// A reason why the agent would ignore the values.
    pub refused: fn(&Value) -> Option<&'static str>,
    /// A list that must contain recall's name if it exists.
    pub allowed: Option<&'static [&'static str]>,
}

/// A value and its path of keys.
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
    /// Its text, which contains [`OwnFile::SHIM`] or [`OwnFile::SHIM_IN_SHELL`], and [`OwnFile::MARK`].
    pub text: &'static str,
    pub kind: OwnKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnKind {
    /// The agent reads it.
    Text,
    /// The agent runs it because of its name. If the user has a program of that name, it stays and the event is left
    /// out.
    Program,
}

impl OwnFile {
    /// Placeholder for the hook client's path, as a JSON string.
    pub const SHIM: &'static str = "\"@recall-shim@\"";
    /// Placeholder for the same path as a word of a shell.
    pub(crate) const SHIM_IN_SHELL: &'static str = "'@recall-shim@'";
    /// The mark that identifies recall's files.
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

/// Tells the model about the memory and when to read it. `$more` adds text that the agent needs in such a file.
macro_rules! about_the_memory {
    ($more:literal) => {
        concat!(
            "---\n",
            $more,
            "description: ",
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/when.txt")),
            "---\n",
            include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/src/memory.md"))
        )
    };
}
pub(super) use about_the_memory;

pub const SKILL: OwnFile = OwnFile::text(about_the_memory!("name: recall\n"));

/// The paths of recall's programs as written into settings.
#[derive(Clone, Copy, Debug)]
pub struct Programs<'a> {
    pub recall: &'a str,
    pub shim: &'a str,
}

/// A hook to register.
#[derive(Clone, Copy, Debug)]
pub struct HookCall<'a> {
    pub event: &'a EventSpec,
    /// The agent's version, or the assumed one.
    pub version: AgentVersion,
    /// The path of the hook client.
    pub shim: &'a str,
}

/// A shell line that starts `program` with `args`, quoted where necessary.
///
/// Only a NUL byte cannot be quoted, and no path or argument can contain one; such a word is left out.
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
