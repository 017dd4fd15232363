//! Edits the hooks of a JSON settings file and keeps every other byte.
//!
//! The structure is that of [`JsonHooks`]. These functions turn text into text; `settings_file` reads and writes the
//! file.
//!
//! **Guarantees.** Others' entries keep their bytes and positions. After [`install`], each wanted event has exactly
//! one entry of recall's, and no other event has any. [`uninstall`] removes only these entries and whatever they leave
//! empty. Unexpected structures are rejected with a message and never repaired.

use jsonc_parser::ParseOptions;
use jsonc_parser::cst::{CstArray, CstNode, CstObject, CstObjectProp, CstRootNode};
use serde_json::Value;
use thiserror::Error;

use super::hook_entry::{Hook, input, shim_of};
use recall_agents::settings::{Groups, JsonHooks, Syntax};

/// Why settings cannot be edited. None of these errors changes anything.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum SettingsError {
    /// Invalid JSON; line and column count from 1. The agent ignores the whole file.
    #[error("line {line}, column {column}: {what}")]
    Json { line: usize, column: usize, what: String },
    /// Valid JSON with an unexpected structure; each text names the place and what is there.
    #[error("{}", .0.join("; "))]
    Shape(Vec<String>),
    /// Another file exists where recall would write.
    #[error("the file is not recall's")]
    Foreign,
}

/// The result of [`uninstall`].
#[derive(Debug, PartialEq, Eq)]
pub struct Removal {
    pub text: String,
    /// The number of removed entries.
    pub entries: usize,
}

/// Whether the agent runs hooks at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookSwitch {
    On,
    /// Off: this setting is true, so registered hooks never run.
    Off(&'static str),
}

/// One of recall's entries in the settings.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundEntry {
    pub event: String,
    /// The shim's path as written in the entry.
    pub shim: String,
    pub entry: Value,
    pub reach: MatcherScope,
}

/// Which events a group receives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatcherScope {
    Every,
    /// The group has a matcher that hides some events.
    Some,
}

/// The hooks that are registered.
#[derive(Debug, PartialEq)]
pub struct Survey {
    pub entries: Vec<FoundEntry>,
    pub switch: HookSwitch,
    /// An enabled plugin that has hooks.
    pub plugin: Option<String>,
}

/// Registers `hooks` and removes recall's entries from every other event. Returns equal text if nothing changes.
pub fn install(json: &JsonHooks, text: &str, hooks: &[Hook]) -> Result<String, SettingsError> {
    let file = Parsed::of(json.syntax, text)?;
    file.check_shapes(json)?;
    let settings = file.settings()?;
    if let Some((name, value)) = json.frame.filter(|(name, _)| settings.get(name).is_none()) {
        settings.append(name, input(value.into()));
    }
    let registered = settings.object_value_or_set(json.key);
    for property in registered.properties() {
        let event = name_of(&property);
        let kept = match hooks.iter().find(|hook| hook.event == event) {
            Some(hook) => keep_one(json, &property, hook),
            None => KeptEntry::Nothing,
        };
        sweep(json, &property, kept);
    }
    for hook in hooks {
        let present = registered.get(hook.event).is_some_and(|event| !our_entries(json, &event).is_empty());
        if !present {
            let groups = registered.array_value_or_set(hook.event);
            // An array on one line stays on one line.
            if groups.elements().is_empty() {
                groups.ensure_multiline();
            }
            groups.append(hook.to_element(json));
        }
    }
    Ok(file.text())
}

/// Removes all of recall's entries, and the groups, events and the object of events that become empty.
pub fn uninstall(json: &JsonHooks, text: &str) -> Result<Removal, SettingsError> {
    let file = Parsed::of(json.syntax, text)?;
    let mut entries = 0;
    if let Some(hooks) = file.hooks(json) {
        for property in hooks.properties() {
            entries += sweep(json, &property, KeptEntry::Nothing);
        }
        if entries > 0
            && hooks.properties().is_empty()
            && let Some(property) = file.settings()?.get(json.key)
        {
            property.remove();
        }
    }
    Ok(Removal { text: file.text(), entries })
}

/// Reads the registered hooks and ignores unknown structures.
pub fn survey(json: &JsonHooks, text: &str) -> Result<Survey, SettingsError> {
    let file = Parsed::of(json.syntax, text)?;
    let mut entries = Vec::new();
    for property in file.hooks(json).map(|hooks| hooks.properties()).unwrap_or_default() {
        let event = name_of(&property);
        entries.extend(our_entries(json, &property).into_iter().map(|ours| FoundEntry {
            event: event.clone(),
            shim: ours.shim,
            entry: ours.value,
            reach: ours.reach,
        }));
    }
    let switch = json.switched_off(&file.value).map_or(HookSwitch::On, HookSwitch::Off);
    let plugin = json.plugin(&file.value);
    Ok(Survey { entries, switch, plugin })
}

/// Whether others have hooks here.
pub(super) fn has_others_hooks(json: &JsonHooks, text: &str) -> bool {
    let Ok(file) = Parsed::of(json.syntax, text) else { return true };
    let events = file.hooks(json).map(|hooks| hooks.properties()).unwrap_or_default();
    events.iter().any(|event| {
        let groups = groups_of(event);
        let entries = groups.iter().map(|group| match json.groups_of(&name_of(event)) {
            Groups::Nested => group.array_value("hooks").map_or(0, |hooks| hooks.elements().len()),
            Groups::Flat => 1,
        });
        entries.sum::<usize>() > our_entries(json, event).len()
    })
}

/// Removes what installing may have added besides entries: empty hook lists and the surrounding objects.
pub fn without_traces(json: &JsonHooks, settings: &mut Value) {
    if let Some(hooks) = settings.get_mut(json.key).and_then(Value::as_object_mut) {
        hooks.retain(|_, groups| groups.as_array().is_none_or(|groups| !groups.is_empty()));
    }
    let Some(settings) = settings.as_object_mut() else { return };
    if settings.get(json.key).and_then(Value::as_object).is_some_and(serde_json::Map::is_empty) {
        settings.shift_remove(json.key);
    }
    if let Some((name, value)) = json.frame
        && settings.get(name) == Some(&value.into())
    {
        settings.shift_remove(name);
    }
}

/// A settings text, parsed twice: strictly, as the agent does, and as a tree that keeps every byte.
pub(super) struct Parsed {
    byte_order_mark: &'static str,
    pub(super) value: Value,
    tree: CstRootNode,
}

impl Parsed {
    pub(super) fn of(syntax: Syntax, text: &str) -> Result<Self, SettingsError> {
        let (byte_order_mark, body) = match text.strip_prefix('\u{feff}') {
            Some(body) => ("\u{feff}", body),
            None => ("", text),
        };
        // An empty file, as created by `touch`, has no settings to lose.
        let body = if body.trim().is_empty() { "{}\n" } else { body };
        if syntax == Syntax::Json {
            // The error message uses the terms of the standard.
            serde_json::from_str::<serde::de::IgnoredAny>(body).map_err(|error| json_error(&error))?;
        }
        let tree = CstRootNode::parse(body, &options(syntax)).map_err(|error| SettingsError::Json {
            line: error.line_display(),
            column: error.column_display(),
            what: error.kind().to_string(),
        })?;
        let value = tree.to_serde_value().unwrap_or_default();
        Ok(Self { byte_order_mark, value, tree })
    }

    pub(super) fn text(&self) -> String {
        format!("{}{}", self.byte_order_mark, self.tree)
    }

    pub(super) fn settings(&self) -> Result<CstObject, SettingsError> {
        let refusal = || SettingsError::Shape(vec![unusual("the file", &self.value, "an object")]);
        self.tree.object_value().ok_or_else(refusal)
    }

    fn hooks(&self, json: &JsonHooks) -> Option<CstObject> {
        self.tree.object_value()?.object_value(json.key)
    }

    /// Rejects text that an edit could not keep intact, reporting all problems at once.
    fn check_shapes(&self, json: &JsonHooks) -> Result<(), SettingsError> {
        let settings = self.settings()?;
        let mut problems = Vec::new();
        let key = json.key;
        repeated_names(&settings, key, Level::Top, &mut problems);
        if let Some(hooks) = self.value.get(key) {
            match (hooks, self.hooks(json)) {
                (Value::Object(events), Some(tree)) => {
                    repeated_names(&tree, key, Level::Events, &mut problems);
                    let events =
                        events.iter().filter(|(event, _)| !json.other_keys.contains(&event.as_str()));
                    for (event, groups) in events {
                        check_event(key, event, groups, &mut problems);
                    }
                }
                _ => problems.push(unusual(key, hooks, "an object")),
            }
        }
        if problems.is_empty() { Ok(()) } else { Err(SettingsError::Shape(problems)) }
    }
}

fn options(syntax: Syntax) -> ParseOptions {
    let is_json5 = syntax == Syntax::Json5;
    ParseOptions {
        allow_comments: syntax != Syntax::Json,
        allow_loose_object_property_names: is_json5,
        allow_trailing_commas: is_json5 || syntax == Syntax::CommentsAndTrailingCommas,
        allow_missing_commas: false,
        allow_single_quoted_strings: is_json5,
        allow_hexadecimal_numbers: is_json5,
        allow_unary_plus_numbers: is_json5,
    }
}

fn json_error(error: &serde_json::Error) -> SettingsError {
    let text = error.to_string();
    let what = text.split(" at line ").next().unwrap_or(&text).to_owned();
    SettingsError::Json { line: error.line(), column: error.column(), what }
}

/// Where an object is in the settings.
#[derive(Clone, Copy)]
enum Level {
    Top,
    Events,
}

/// Reports duplicate keys. Parsers disagree about which one counts, so an edit might change the wrong one.
fn repeated_names(object: &CstObject, key: &str, level: Level, problems: &mut Vec<String>) {
    let mut names: Vec<String> = object.properties().iter().map(name_of).collect();
    names.sort_unstable();
    let mut previous = None;
    for name in &names {
        // Above the hooks, only the key that we edit matters.
        let place = match level {
            Level::Top => (name == key).then(|| name.clone()),
            Level::Events => Some(format!("{key}.{name}")),
        };
        if let Some(place) = place.filter(|_| previous == Some(name)) {
            problems.push(format!("{place} occurs more than once"));
        }
        previous = Some(name);
    }
}

fn check_event(key: &str, event: &str, groups: &Value, problems: &mut Vec<String>) {
    let place = format!("{key}.{event}");
    let Some(groups) = groups.as_array() else {
        problems.push(unusual(&place, groups, "an array"));
        return;
    };
    for (index, group) in groups.iter().enumerate() {
        match group {
            Value::Object(fields) => {
                if let Some(entries) = fields.get("hooks").filter(|entries| !entries.is_array()) {
                    problems.push(unusual(&format!("{place}[{index}].hooks"), entries, "an array"));
                }
            }
            other => problems.push(unusual(&format!("{place}[{index}]"), other, "an object")),
        }
    }
}

fn unusual(place: &str, found: &Value, wanted: &str) -> String {
    let found = match found {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    format!("{place} is {found} where {wanted} belongs")
}

pub(super) fn name_of(property: &CstObjectProp) -> String {
    property.name().and_then(|name| name.decoded_value().ok()).unwrap_or_default()
}

pub(super) fn value_of(node: &CstNode) -> Value {
    node.to_serde_value().unwrap_or_default()
}

/// One of recall's entries with its position in the tree.
struct OurEntry {
    node: CstNode,
    value: Value,
    shim: String,
    reach: MatcherScope,
    /// The index of its group, then its index in the group.
    place: (usize, usize),
}

fn groups_of(event: &CstObjectProp) -> Vec<CstObject> {
    let groups = event.array_value().map(|groups| groups.elements()).unwrap_or_default();
    groups.iter().filter_map(CstNode::as_object).collect()
}

fn our_entries(json: &JsonHooks, event: &CstObjectProp) -> Vec<OurEntry> {
    let shape = json.groups_of(&name_of(event));
    let mut ours = Vec::new();
    for (group_index, group) in groups_of(event).into_iter().enumerate() {
        let reach = match group.get("matcher").and_then(|matcher| matcher.value()).map(|node| value_of(&node))
        {
            None | Some(Value::Null) => MatcherScope::Every,
            Some(Value::String(matcher)) if matcher.is_empty() || matcher == "*" => MatcherScope::Every,
            Some(_) => MatcherScope::Some,
        };
        let entries = match shape {
            Groups::Nested => group.array_value("hooks").map(|hooks| hooks.elements()).unwrap_or_default(),
            Groups::Flat => vec![group.into()],
        };
        for (entry_index, node) in entries.into_iter().enumerate() {
            let value = value_of(&node);
            if let Some(shim) = shim_of(&value) {
                ours.push(OurEntry { node, value, shim, reach, place: (group_index, entry_index) });
            }
        }
    }
    ours
}

/// Which of recall's entries to keep.
#[derive(Clone, Copy)]
enum KeptEntry {
    Nothing,
    At((usize, usize)),
}

/// Selects the entry to keep and updates it. Only an entry without a matcher can be kept.
fn keep_one(json: &JsonHooks, event: &CstObjectProp, hook: &Hook) -> KeptEntry {
    let ours: Vec<_> =
        our_entries(json, event).into_iter().filter(|entry| entry.reach == MatcherScope::Every).collect();
    let current = ours.iter().find(|entry| hook.is_written_as(&entry.value));
    if let Some(entry) = current {
        return KeptEntry::At(entry.place);
    }
    let Some(entry) = ours.into_iter().next() else { return KeptEntry::Nothing };
    if let Some(object) = entry.node.as_object() {
        update(&object, hook);
    }
    KeptEntry::At(entry.place)
}

/// Updates an entry key by key, so that correct lines stay unchanged.
fn update(entry: &CstObject, hook: &Hook) {
    for property in entry.properties() {
        if !hook.entry.contains_key(&name_of(&property)) {
            property.remove();
        }
    }
    for (name, value) in &hook.entry {
        match entry.get(name) {
            Some(property) if property.value().is_some_and(|node| value_of(&node) == *value) => {}
            Some(property) => property.set_value(input(value.clone())),
            None => drop(entry.append(name, input(value.clone()))),
        }
    }
}

/// Removes recall's entries of one event except the kept one, and everything that becomes empty. Returns the number of
/// removed entries.
fn sweep(json: &JsonHooks, event: &CstObjectProp, kept: KeptEntry) -> usize {
    let mut removed = 0;
    let shape = json.groups_of(&name_of(event));
    let ours = our_entries(json, event);
    let groups = groups_of(event);
    for (index, group) in groups.into_iter().enumerate() {
        let mut removed_here = 0;
        for entry in ours.iter().filter(|entry| entry.place.0 == index) {
            if matches!(kept, KeptEntry::At(place) if place == entry.place) {
                continue;
            }
            entry.node.clone().remove();
            removed_here += 1;
        }
        if shape == Groups::Nested && removed_here > 0 {
            let left = group.array_value("hooks").map_or(0, |hooks: CstArray| hooks.elements().len());
            if left == 0 {
                group.remove();
            }
        }
        removed += removed_here;
    }
    let left = event.array_value().map_or(0, |groups| groups.elements().len());
    if removed > 0 && left == 0 {
        event.clone().remove();
    }
    removed
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;
    use proptest::prelude::*;
    use recall_agents::AGENTS;
    use recall_agents::settings::PartContent;

    const EMPTY: &str = include_str!("../../../tests/settings/1-empty.json");
    const OTHER_HOOKS: &str = include_str!("../../../tests/settings/2-other-hooks.json");
    const FULL: &str = include_str!("../../../tests/settings/3-full-user-settings.json");
    const TABS: &str = include_str!("../../../tests/settings/4-tabs-no-final-newline.json");
    const ALREADY: &str = include_str!("../../../tests/settings/5-already-recall.json");
    const BROKEN: &str = include_str!("../../../tests/settings/6-broken.json");
    const UNUSUAL: &str = include_str!("../../../tests/settings/7-unusual-shapes.json");
    const SHIM: &str = "/home/dev/.local/bin/recall-shim";
    const EVENTS: [&str; 5] = ["SessionStart", "UserPromptSubmit", "PostToolUse", "Stop", "PreCompact"];

    fn hooks() -> Vec<Hook> {
        EVENTS.map(|event| hook(event, SHIM)).to_vec()
    }

    fn hook(event: &'static str, shim: &str) -> Hook {
        let entry =
            serde_json::json!({"type": "command", "command": shim, "args": ["claude-code"], "timeout": 10});
        Hook { event, entry: entry.as_object().expect("an object").clone() }
    }

    fn survey(text: &str) -> Result<Survey, SettingsError> {
        super::survey(settings_of_the_agent(), text)
    }

    fn settings_of_the_agent() -> &'static JsonHooks {
        match &AGENTS.spec("claude-code").install.hooks[0].content {
            PartContent::JsonHooks(json) => json,
            other => panic!("{other:?}"),
        }
    }

    fn install(text: &str, hooks: &[Hook]) -> Result<String, SettingsError> {
        super::install(settings_of_the_agent(), text, hooks)
    }

    fn uninstall(text: &str) -> Result<Removal, SettingsError> {
        super::uninstall(settings_of_the_agent(), text)
    }

    fn same_settings(one: &str, other: &str) -> bool {
        let meaning = |text: &str| {
            let mut value = Parsed::of(Syntax::Json, text).ok()?.value;
            without_traces(settings_of_the_agent(), &mut value);
            Some(value)
        };
        meaning(one).is_some_and(|one| Some(one) == meaning(other))
    }

    /// The text after installation, checked for what holds in every file.
    #[track_caller]
    fn installed(before: &str) -> String {
        let after = install(before, &hooks()).expect("installs");
        let found = survey(&after).expect("what we wrote is JSON").entries;
        let mut events: Vec<_> = found.iter().map(|entry| entry.event.as_str()).collect();
        events.sort_unstable();
        let mut expected = EVENTS;
        expected.sort_unstable();
        assert_eq!(events, expected, "exactly one entry for each event");
        for entry in &found {
            assert!(hooks().iter().all(|hook| hook.is_written_as(&entry.entry)), "{entry:?}");
        }
        assert_eq!(install(&after, &hooks()), Ok(after.clone()), "installing twice changes nothing");
        after
    }

    /// Installs and uninstalls; the meaning and the order of keys must be restored.
    #[track_caller]
    fn round_trip(before: &str) -> String {
        let removal = uninstall(&installed(before)).expect("uninstalls");
        assert_eq!(removal.entries, EVENTS.len());
        assert!(same_settings(&removal.text, before), "{}", removal.text);
        assert_eq!(uninstall(&removal.text).map(|again| again.entries), Ok(0));
        removal.text
    }

    fn json(text: &str) -> Value {
        serde_json::from_str(text).expect("test JSON")
    }

    #[test]
    fn an_empty_file_gets_only_own_hooks_and_is_empty_after_uninstalling() {
        assert_snapshot!(install(EMPTY, &hooks()[..2]).expect("installs"), @r#"
        {
          "hooks": {
            "SessionStart": [
              {
                "hooks": [
                  {
                    "type": "command",
                    "command": "/home/dev/.local/bin/recall-shim",
                    "args": ["claude-code"],
                    "timeout": 10
                  }
                ]
              }
            ],
            "UserPromptSubmit": [
              {
                "hooks": [
                  {
                    "type": "command",
                    "command": "/home/dev/.local/bin/recall-shim",
                    "args": ["claude-code"],
                    "timeout": 10
                  }
                ]
              }
            ]
          }
        }
        "#);
        assert_eq!(round_trip(EMPTY), EMPTY);
        assert_eq!(round_trip(""), EMPTY);
    }

    #[test]
    fn foreign_hooks_keep_their_places_and_own_hooks_follow_them() {
        let after = json(&installed(OTHER_HOOKS));
        let before = json(OTHER_HOOKS);
        for (event, groups) in before["hooks"].as_object().expect("hooks") {
            let groups = groups.as_array().expect("groups");
            assert_eq!(
                after["hooks"][event].as_array().expect("groups")[..groups.len()],
                groups[..],
                "{event}"
            );
        }
        let names =
            |value: &Value| value["hooks"].as_object().expect("hooks").keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&after)[..names(&before).len()], names(&before)[..]);
        assert_eq!(round_trip(OTHER_HOOKS), OTHER_HOOKS);
    }

    #[test]
    fn other_settings_keep_every_byte() {
        let after = installed(FULL);
        let (head, _) = FULL.split_once("\"hooks\"").expect("has hooks");
        assert!(after.starts_with(head), "numbers, text and order above the hooks are untouched");
        assert_eq!(round_trip(FULL), FULL);
    }

    #[test]
    fn tabs_and_a_missing_final_newline_are_kept() {
        assert_snapshot!(install(TABS, &hooks()[..1]).expect("installs"), @r#"
        {
        	"model": "sonnet",
        	"hooks": {
        		"Stop": [
        			{ "hooks": [ { "type": "command", "command": "echo done" } ] }
        		],
        		"SessionStart": [
        			{
        				"hooks": [
        					{
        						"type": "command",
        						"command": "/home/dev/.local/bin/recall-shim",
        						"args": ["claude-code"],
        						"timeout": 10
        					}
        				]
        			}
        		]
        	},
        	"permissions": { "allow": ["Bash(ls:*)"], "deny": [] }
        }
        "#);
        let after = installed(TABS);
        assert!(!after.ends_with('\n'));
        assert!(after.lines().all(|line| !line.starts_with(' ')), "{after}");
        round_trip(TABS);
    }

    #[test]
    fn carriage_returns_and_a_byte_order_mark_are_kept() {
        let windows = FULL.replace('\n', "\r\n");
        let after = installed(&windows);
        assert_eq!(after.matches('\n').count(), after.matches("\r\n").count());
        assert_eq!(round_trip(&windows), windows);
        let marked = format!("\u{feff}{FULL}");
        assert_eq!(round_trip(&marked), marked);
    }

    #[test]
    fn old_entries_are_replaced_and_lookalikes_left_alone() {
        let after = installed(ALREADY);
        assert!(!after.contains("/opt/recall-0.0.1"));
        assert!(after.contains("echo mine") && after.contains("total-recall-backup.sh"));
        let updated =
            after.split("\"UserPromptSubmit\": ").nth(1).and_then(|rest| rest.split("\"Post").next());
        assert_snapshot!(updated.expect("is there"), @r#"
        [
              {
                "hooks": [
                  {
                    "type": "command",
                    "command": "/home/dev/.local/bin/recall-shim",
                    "timeout": 10,
                    "args": ["claude-code"]
                  }
                ]
              }
            ],
        "#);
        assert_snapshot!(uninstall(&after).expect("uninstalls").text, @r#"
        {
          "hooks": {
            "PostToolUse": [
              {
                "matcher": "*",
                "hooks": [
                  {
                    "type": "command",
                    "command": "echo mine"
                  }
                ]
              }
            ],
            "PreCompact": [
              {
                "hooks": [
                  {
                    "type": "command",
                    "command": "/home/dev/bin/total-recall-backup.sh"
                  }
                ]
              }
            ]
          }
        }
        "#);
        assert_eq!(uninstall(ALREADY).map(|removal| removal.entries), Ok(3));
    }

    #[test]
    fn duplicate_entries_are_reduced_to_one_without_a_matcher() {
        let ours = r#"{"type": "command", "command": "/old/recall-shim", "args": ["claude-code"]}"#;
        let groups = format!(
            r#"[{{"matcher": "startup", "hooks": [{ours}, {{"type": "command", "command": "a"}}]}},
                {{"hooks": [{ours}]}}, {{"matcher": "*", "hooks": [{ours}]}}]"#
        );
        let before = format!(r#"{{"hooks": {{"SessionStart": {groups}, "Setup": {groups}}}}}"#);
        let after = json(&installed(&before));
        let groups = after["hooks"]["SessionStart"].as_array().expect("groups");
        assert_eq!(groups.len(), 2);
        assert_eq!(
            groups[0]["hooks"].as_array().expect("entries").len(),
            1,
            "the foreign one stays with its matcher"
        );
        assert!(groups[1].get("matcher").is_none());
        assert_eq!(after["hooks"]["Setup"].as_array().expect("groups").len(), 1, "an event we do not want");
    }

    #[test]
    fn broken_json_is_rejected_with_the_line_of_the_error() {
        let error = install(BROKEN, &hooks()).expect_err("a comment is no JSON");
        assert_snapshot!(error, @"line 2, column 3: key must be a string");
        assert_eq!(uninstall(BROKEN), Err(error));
        for broken in ["{", "{\"a\": 01}", "{'a': 1}", "{\"a\": 1,}", "nul", "{} {}", "{\"a\": \"\t\"}"] {
            assert!(matches!(install(broken, &hooks()), Err(SettingsError::Json { .. })), "{broken}");
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(matches!(install(&deep, &hooks()), Err(SettingsError::Json { .. })));
    }

    #[test]
    fn unexpected_structures_are_rejected_with_their_path() {
        assert_snapshot!(install(UNUSUAL, &hooks()).expect_err("refuses"), @"hooks.PostToolUse is null where an array belongs; hooks.PreToolUse is an object where an array belongs");
        assert_eq!(uninstall(UNUSUAL), Ok(Removal { text: UNUSUAL.into(), entries: 0 }));
        assert_eq!(survey(UNUSUAL).map(|survey| survey.switch), Ok(HookSwitch::Off("disableAllHooks")));

        #[track_caller]
        fn check(text: &str, place: &str) {
            let error = install(text, &hooks()).expect_err(text).to_string();
            assert!(error.contains(place), "{error}");
        }
        check("[]", "the file is an array");
        check(r#"{"hooks": []}"#, "hooks is an array");
        check(r#"{"hooks": {"Stop": [null]}}"#, "hooks.Stop[0] is null");
        check(r#"{"hooks": {"Stop": [{"hooks": {}}]}}"#, "hooks.Stop[0].hooks is an object");
        check(r#"{"hooks": {"Stop": [], "Stop": []}}"#, "hooks.Stop occurs more than once");
        check(r#"{"hooks": {}, "hooks": {}}"#, "hooks occurs more than once");
    }

    #[test]
    fn uninstalling_also_removes_the_users_empty_events() {
        let before = "{\n  \"hooks\": {\n    \"Stop\": []\n  }\n}\n";
        assert_eq!(round_trip(before), EMPTY);
        assert!(!same_settings(before, r#"{"hooks": {"Stop": [{}]}}"#));
        assert!(!same_settings("{}", r#"{"model": "opus"}"#));
        assert!(!same_settings("{}", "{"));
    }

    #[test]
    fn an_outdated_entry_is_updated_in_place() {
        let before = r#"{
  "hooks": {
    "Stop": [
      {
        "hooks": [
          {
            "timeout": 5,
            "command": "/old/recall-shim",
            "async": true,
            "type": "command"
          }
        ]
      }
    ]
  }
}"#;
        let entry = r#"
            "timeout": 10,
            "command": "/home/dev/.local/bin/recall-shim",
            "type": "command",
            "args": ["claude-code"]
          }
"#;
        let after = install(before, &hooks()[3..4]).expect("installs");
        assert!(after.contains(entry), "{after}");
    }

    #[test]
    fn paths_with_odd_characters_are_written_as_json() {
        let program = "/home/ü \"x\"\\\n\u{1}/recall-shim";
        let after = install("{}", &[hook("Stop", program)]).expect("installs");
        assert_eq!(survey(&after).expect("JSON").entries[0].shim, program);
    }

    /// Generates settings: our keys and others', entries in all forms, with a little nesting.
    fn settings() -> impl Strategy<Value = Value> {
        let entry = prop_oneof![
            Just(serde_json::json!({"type": "command", "command": "echo mine"})),
            Just(serde_json::json!({"type": "http", "url": "https://example.com"})),
            Just(
                serde_json::json!({"type": "command", "command": SHIM, "args": ["claude-code"], "timeout": 10})
            ),
            Just(
                serde_json::json!({"type": "command", "command": "/old/recall-shim claude-code", "timeout": 5})
            ),
        ];
        let matcher = prop_oneof![Just(None), Just(Some("")), Just(Some("*")), Just(Some("Bash"))];
        let group =
            (matcher, prop::collection::vec(entry, 0..4)).prop_map(|(matcher, entries)| match matcher {
                Some(matcher) => serde_json::json!({"matcher": matcher, "hooks": entries}),
                None => serde_json::json!({"hooks": entries}),
            });
        let event =
            prop_oneof![Just("SessionStart"), Just("Stop"), Just("Notification"), Just("PostToolUse")];
        let events = prop::collection::btree_map(event, prop::collection::vec(group, 0..4), 0..4);
        (events, any::<Option<u8>>()).prop_map(|(events, other)| match other {
            Some(other) => serde_json::json!({"other": other, "hooks": events}),
            None => serde_json::json!({"hooks": events}),
        })
    }

    proptest! {
        #[test]
        fn installing_gives_one_entry_per_event_and_uninstalling_undoes_it(value in settings(), pretty: bool) {
            let before = if pretty { format!("{value:#}") } else { value.to_string() };
            let after = installed(&before);
            let gone = uninstall(&after).expect("uninstalls").text;
            let bare = uninstall(&before).expect("uninstalls").text;
            prop_assert!(same_settings(&gone, &bare), "{}\n{}", gone, bare);
            prop_assert_eq!(json(&after)["other"].clone(), value["other"].clone());
        }

        #[test]
        fn no_settings_text_causes_a_panic(text in ".{0,60}") {
            let _ = install(&text, &hooks());
            let _ = uninstall(&text);
            let _ = survey(&text);
        }
    }
}
