//! Recall's entries in agents' settings. `cli/install` reads and writes the files.

use std::fmt;

use serde_json::{Map, Value};

/// The parts that recall installs into an agent.
#[derive(Clone, Copy, Debug)]
pub struct Install {
    /// The parts that make the agent run the hook client.
    pub hooks: &'static [InstalledPart],
    /// The parts that let its model query the memory: an MCP server's entry, a skill.
    pub server: &'static [InstalledPart],
    /// A step that the user must do once, beyond starting a new session.
    pub then: Option<&'static str>,
}

impl Install {
    pub const NOTHING: Self = Self { hooks: &[], server: &[], then: None };
}

/// One file, and recall's part of it.
#[derive(Clone, Copy, Debug)]
pub struct InstalledPart {
    pub place: FilePlace,
    pub content: PartContent,
}

impl InstalledPart {
    pub const fn hooks(place: FilePlace, hooks: JsonHooks) -> Self {
        Self { place, content: PartContent::JsonHooks(hooks) }
    }

    /// The most common form of the MCP server's entry.
    pub const fn server(place: FilePlace, syntax: Syntax) -> Self {
        Self::values(place, JsonValues::new(syntax, &[(&["mcpServers", "recall"], SettingValue::SERVER)]))
    }

    pub const fn values(place: FilePlace, values: JsonValues) -> Self {
        Self { place, content: PartContent::JsonValues(values) }
    }

    pub(crate) const fn own_file(place: FilePlace, file: OwnFile) -> Self {
        Self { place, content: PartContent::OwnFile(file) }
    }
}

/// A value in an agent's settings.
#[derive(Clone, Copy, Debug)]
pub enum SettingValue {
    Text(&'static str),
    Texts(&'static [&'static str]),
    Number(u32),
    Flag(bool),
    Fields(&'static [Field]),
    /// A number, with exceptions for some events.
    NumberExcept(u32, &'static [(&'static str, u32)]),
    /// The event's name.
    Event,
    /// A shell line that runs the hook client.
    ShimLine,
    /// The same, with the event's name, because some payloads lack it.
    ShimLineWithEvent,
    /// The path of the hook client.
    Shim,
    /// Its arguments.
    ShimArguments,
    ShimArgumentsWithEvent,
    /// The path of `recall`.
    Recall,
    /// The words of the command that starts the MCP server.
    RecallMcp,
}

/// A key and its value.
pub type Field = (&'static str, SettingValue);

impl SettingValue {
    /// The most common form of the MCP server's entry.
    pub(crate) const SERVER: Self = Self::Fields(Self::SERVER_FIELDS);
    /// The same, with the field that names its kind.
    pub(crate) const STDIO: Self = Self::Fields(&[
        ("type", Self::Text("stdio")),
        ("command", Self::Recall),
        ("args", Self::Texts(&["mcp"])),
    ]);
    pub(crate) const SERVER_FIELDS: &'static [Field] =
        &[("command", Self::Recall), ("args", Self::Texts(&["mcp"]))];

    pub fn value(self, filling: &Filling<'_>) -> Value {
        let Filling { agent, event, programs } = *filling;
        match self {
            Self::Text(text) => text.into(),
            Self::Texts(texts) => texts.into(),
            Self::Number(number) => number.into(),
            Self::Flag(flag) => flag.into(),
            Self::Fields(fields) => Value::Object(object(fields, filling)),
            Self::NumberExcept(usual, others) => {
                others.iter().find(|(at, _)| *at == event).map_or(usual, |(_, number)| *number).into()
            }
            Self::Event => event.into(),
            Self::ShimLine => shell_line(programs.shim, &[agent]).into(),
            Self::ShimLineWithEvent => shell_line(programs.shim, &[agent, event]).into(),
            Self::Shim => programs.shim.into(),
            Self::ShimArguments => Value::from_iter([agent]),
            Self::ShimArgumentsWithEvent => Value::from_iter([agent, event]),
            Self::Recall => programs.recall.into(),
            Self::RecallMcp => Value::from_iter([programs.recall, "mcp"]),
        }
    }
}

/// Renders the fields as an object.
pub fn object(fields: &[Field], filling: &Filling<'_>) -> Map<String, Value> {
    fields.iter().map(|(name, setting)| ((*name).to_owned(), setting.value(filling))).collect()
}

/// The values that replace placeholders in settings.
#[derive(Clone, Copy, Debug)]
pub struct Filling<'a> {
    pub agent: &'static str,
    /// Empty outside of hooks.
    pub event: &'a str,
    pub programs: Programs<'a>,
}

/// A setting that turns recall's part off.
#[derive(Clone, Copy, Debug)]
pub struct OffSwitch {
    /// Its location, as a JSON pointer.
    pub at: &'static str,
    pub off: Off,
    /// Its name for people.
    pub title: &'static str,
}

#[derive(Clone, Copy, Debug)]
pub enum Off {
    If(bool),
    /// Recall is off if this list contains its name.
    Listed,
}

impl OffSwitch {
    /// Returns its title if these settings turn recall off.
    pub fn is_off(&self, settings: &Value) -> Option<&'static str> {
        let value = settings.pointer(self.at)?;
        let is_off = match self.off {
            Off::If(off) => *value == Value::Bool(off),
            Off::Listed => value.as_array().is_some_and(|names| names.contains(&"recall".into())),
        };
        is_off.then_some(self.title)
    }
}

/// The location of a file.
#[derive(Clone, Copy, Debug)]
pub struct FilePlace {
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

impl FilePlace {
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
pub enum PartContent {
    /// Entries in an object of a JSON file, beside the user's other settings.
    JsonHooks(JsonHooks),
    /// Values in a JSON file, each with its path of keys.
    JsonValues(JsonValues),
    /// A table in a TOML file, with its path of keys.
    TomlTable(TomlTable),
    /// Entries in a list of tables of a TOML file, beside the user's.
    TomlList(TomlList),
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
    /// Events whose entries are flat even if those of the others are not.
    pub flat_events: &'static [&'static str],
    /// The matcher of recall's groups. `None` if a group without one gets every event.
    pub matcher: Option<&'static str>,
    /// A setting at the top that the agent requires in the file.
    pub frame: Option<(&'static str, u32)>,
    /// Keys of that object that are not events.
    pub other_keys: &'static [&'static str],
    /// A TOML file in which the user may have hooks of the same shape. In that case recall's hooks go there too,
    /// because the agent warns about two files.
    pub or_toml: Option<TomlHooks>,
    /// The agent whose file it is, if two agents read it: the hook client runs under this name.
    pub owner: Option<&'static str>,
    /// The entry that calls the hook client.
    pub entry: &'static [Field],
    /// The entry for versions before this one.
    pub older_entry: Option<(AgentVersion, &'static [Field])>,
    /// The settings that turn all hooks off.
    pub switched_off: &'static [OffSwitch],
    /// The key of an object with plugins; one may also contain recall's hooks.
    pub plugins: Option<&'static str>,
}

impl JsonHooks {
    /// Groups of entries in strict JSON. The timeout is in seconds. The hook client always ends within a second, so it
    /// only matters on a stalled machine.
    pub const GROUPED: Self = Self {
        syntax: Syntax::Json,
        key: "hooks",
        groups: Groups::Nested,
        flat_events: &[],
        matcher: None,
        frame: None,
        other_keys: &[],
        or_toml: None,
        owner: None,
        entry: &[
            ("type", SettingValue::Text("command")),
            ("command", SettingValue::ShimLine),
            ("timeout", SettingValue::Number(10)),
        ],
        older_entry: None,
        switched_off: &[],
        plugins: None,
    };

    /// The entry for an event.
    pub fn entry_of(&self, version: AgentVersion, filling: &Filling<'_>) -> Map<String, Value> {
        let filling = &Filling { agent: self.owner.unwrap_or(filling.agent), ..*filling };
        let older = self.older_entry.filter(|(since, _)| version < *since);
        object(older.map_or(self.entry, |(_, older)| older), filling)
    }

    /// Returns the title of the setting that turns all hooks off, if these settings do.
    pub fn switched_off(&self, settings: &Value) -> Option<&'static str> {
        self.switched_off.iter().find_map(|switch| switch.is_off(settings))
    }

    /// Returns an enabled plugin named `recall` (as `recall@marketplace`).
    pub fn plugin(&self, settings: &Value) -> Option<String> {
        let plugins = settings.get(self.plugins?)?.as_object()?;
        let mut enabled = plugins.iter().filter(|(_, enabled)| **enabled != Value::Bool(false));
        enabled.find(|(name, _)| name.split('@').next() == Some("recall")).map(|(name, _)| name.clone())
    }

    /// The layout of an event's entries.
    pub fn groups_of(&self, event: &str) -> Groups {
        if self.flat_events.contains(&event) { Groups::Flat } else { self.groups }
    }
}

/// Hooks as `[[hooks.<Event>]]`.
#[derive(Clone, Copy, Debug)]
pub struct TomlHooks {
    pub place: FilePlace,
    /// The setting there that turns all hooks off.
    pub switched_off: OffSwitch,
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
    pub values: &'static [(KeyPath, SettingValue)],
    /// A setting that would make the agent ignore the values.
    pub refused: Option<OffSwitch>,
    /// A list that must contain recall's name if it exists.
    pub allowed: Option<KeyPath>,
}

/// A path of keys.
pub type KeyPath = &'static [&'static str];

/// A value and its path of keys.
pub type PlacedValue = (KeyPath, Value);

impl JsonValues {
    pub const fn new(syntax: Syntax, values: &'static [(KeyPath, SettingValue)]) -> Self {
        Self { syntax, values, refused: None, allowed: None }
    }

    pub fn placed(&self, filling: &Filling<'_>) -> Vec<PlacedValue> {
        self.values.iter().map(|(path, setting)| (*path, setting.value(filling))).collect()
    }
}

#[derive(Clone, Copy, Debug)]
pub struct TomlTable {
    pub path: KeyPath,
    pub values: &'static [Field],
}

impl TomlTable {
    /// The most common form of the MCP server's entry.
    pub(crate) const SERVER: Self =
        Self { path: &["mcp_servers", "recall"], values: SettingValue::SERVER_FIELDS };
}

/// Hooks as `[[hooks]]`, each with the name of its event.
#[derive(Clone, Copy, Debug)]
pub struct TomlList {
    /// The key of the list.
    pub key: &'static str,
    /// The entry that calls the hook client.
    pub entry: &'static [Field],
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
    /// A text that the agent reads.
    Text,
    /// A program that the agent runs because of its name. A user's program of that name is kept, and the event is
    /// left out.
    Program,
}

impl OwnFile {
    /// Placeholder for the hook client's path, as a JSON string.
    pub const SHIM: &'static str = "\"@recall-shim@\"";
    /// Placeholder for the same path as a word of a shell.
    pub(crate) const SHIM_IN_SHELL: &'static str = "'@recall-shim@'";
    /// Placeholder for the agent's name, where agents share a text.
    const AGENT: &'static str = "@agent@";
    /// The mark that identifies recall's files.
    pub const MARK: &'static str = "written by `recall install`";

    pub const fn text(text: &'static str) -> Self {
        Self { text, kind: OwnKind::Text }
    }

    pub const fn program(text: &'static str) -> Self {
        Self { text, kind: OwnKind::Program }
    }

    pub fn written(&self, filling: &Filling<'_>) -> String {
        let shim = filling.programs.shim;
        let text = self.text.replace(Self::SHIM, &Value::from(shim).to_string());
        let text = text.replace(Self::SHIM_IN_SHELL, &shell_line(shim, &[]));
        text.replace(Self::AGENT, filling.agent)
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

/// Renders a shell line that starts `program` with `args`, quoted where necessary.
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
    /// Finds the first `1.2.3` in a text such as `2.1.329 (Some Agent)`.
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
    fn the_first_three_part_number_is_the_version() {
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
    fn the_recall_plugin_is_detected_unless_it_is_disabled() {
        let hooks = JsonHooks { plugins: Some("enabledPlugins"), ..JsonHooks::GROUPED };
        let plugin = |name: &str, on: bool| hooks.plugin(&serde_json::json!({"enabledPlugins": {name: on}}));
        assert_eq!(plugin("recall@team", true).as_deref(), Some("recall@team"));
        assert_eq!(plugin("recall@team", false), None);
        assert_eq!(plugin("recaller@team", true), None);
    }

    #[test]
    fn a_shell_line_quotes_only_what_needs_it() {
        assert_eq!(shell_line("/usr/bin/recall-shim", &["an-agent"]), "/usr/bin/recall-shim an-agent");
        assert_eq!(shell_line("/a b/recall-shim", &["an-agent"]), "'/a b/recall-shim' an-agent");
    }
}
