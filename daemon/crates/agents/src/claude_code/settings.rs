//! Claude Code's settings: which events recall registers, and how.
//!
//! The versions come from the vendor's public change log. Two of them matter most: before 2.1.101 one unknown event
//! name made it ignore the user's *whole* settings file, and before 2.1.139 it only knew commands as shell lines and
//! ignored `args`.

use recall_protocol::agents::Wait;
use serde_json::{Map, Value, json};

use super::NAME;
use crate::settings::{
    AgentVersion, Base, Content, HookCall, Install, JsonHooks, JsonValues, Part, Place, SKILL, Syntax,
    shell_line,
};
use crate::{Cap, EventSpec};
use recall_domain::event::EventName;

pub(super) const INSTALL: Install = Install {
    hooks: &[Part {
        // The file for one user comes first: the entry names a path on this machine.
        place: Place::own("settings.json", &[".claude/settings.local.json", ".claude/settings.json"]),
        content: Content::JsonHooks(HOOKS),
    }],
    server: &[
        Part {
            place: Place { base: Base::HomeUnlessMoved, user: ".claude.json", project: &[".mcp.json"] },
            content: Content::JsonValues(JsonValues::new(Syntax::Json, |programs| {
                let server = json!({"type": "stdio", "command": programs.recall, "args": ["mcp"]});
                vec![(&["mcpServers", "recall"], server)]
            })),
        },
        Part {
            place: Place::own("skills/recall/SKILL.md", &[".claude/skills/recall/SKILL.md"]),
            content: Content::OwnFile(SKILL),
        },
    ],
    then: None,
};

const HOOKS: JsonHooks = JsonHooks {
    entry,
    switched_off: |settings| {
        (settings.get("disableAllHooks") == Some(&Value::Bool(true))).then_some("disableAllHooks")
    },
    plugin,
    ..JsonHooks::GROUPED
};

/// From this version on, a command may be started without a shell.
const EXEC_FORM: AgentVersion = AgentVersion(2, 1, 139);
/// From this version on, only the unknown event itself is ignored.
const UNKNOWN_EVENTS_ARE_HARMLESS: AgentVersion = AgentVersion(2, 1, 101);
/// In seconds. The shim always ends within a second, so this only matters on a stalled machine. At SessionEnd an
/// explicit value also replaces the usual 1.5 s for all hooks together.
const TIMEOUT_S: u32 = 10;

/// Claude Code moves a hook's text of more than 10,000 UTF-16 units to a file, and shows the model 2 KB of it.
const CAP: Option<Cap> = Some(Cap { utf16_units: 10_000 });

const fn event(
    name: &'static str,
    is: EventName,
    since: AgentVersion,
    wait: Wait,
    answer: Option<Cap>,
) -> EventSpec {
    EventSpec { name, is, since, wait, answer }
}

/// Left out: `MessageDisplay` (one process for each piece of text), `WorktreeCreate` (its hook replaces git), events
/// that ask for a decision, and events without anything that recall uses.
///
/// A wrong `hookEventName` makes Claude Code refuse the whole output, so only events that take context are answered.
/// `PreToolUse` is answered without a `permissionDecision`, which would skip the user's own dialog.
pub(super) const EVENTS: [EventSpec; 14] = [
    event("SessionStart", EventName::SessionStart, AgentVersion(1, 0, 62), Wait::Start, CAP),
    event("UserPromptSubmit", EventName::Prompt, AgentVersion(1, 0, 54), Wait::Answer, CAP),
    // It also shows which call is running, so a batch is not closed during a long command.
    event("PreToolUse", EventName::ToolStart, AgentVersion(1, 0, 38), Wait::Report, CAP),
    event("PostToolUse", EventName::Tool, AgentVersion(1, 0, 38), Wait::Report, None),
    // The change log does not name its first version, so it waits for the version that tolerates unknown names.
    event("PostToolUseFailure", EventName::ToolFailure, UNKNOWN_EVENTS_ARE_HARMLESS, Wait::Report, CAP),
    // The only event about calls that were refused before they ran. Its first version is unknown, too.
    event("PostToolBatch", EventName::ToolBatch, UNKNOWN_EVENTS_ARE_HARMLESS, Wait::Report, None),
    event("SubagentStart", EventName::SubagentStart, AgentVersion(2, 0, 43), Wait::Answer, CAP),
    event("SubagentStop", EventName::SubagentStop, AgentVersion(1, 0, 41), Wait::Report, None),
    event("PreCompact", EventName::PreCompact, AgentVersion(1, 0, 48), Wait::Report, None),
    event("PostCompact", EventName::PostCompact, AgentVersion(2, 1, 76), Wait::Report, None),
    event("Stop", EventName::Stop, AgentVersion(1, 0, 38), Wait::Report, None),
    event("StopFailure", EventName::StopFailure, AgentVersion(2, 1, 78), Wait::Report, None),
    event("Notification", EventName::Notification, AgentVersion(1, 0, 38), Wait::Report, None),
    event("SessionEnd", EventName::SessionEnd, AgentVersion(1, 0, 85), Wait::Report, None),
];

fn entry(call: &HookCall<'_>) -> Map<String, Value> {
    let mut entry = Map::new();
    entry.insert("type".into(), "command".into());
    if call.version >= EXEC_FORM {
        entry.insert("command".into(), call.shim.into());
        entry.insert("args".into(), [NAME].into_iter().collect());
    } else {
        entry.insert("command".into(), shell_line(call.shim, &[NAME]).into());
    }
    entry.insert("timeout".into(), TIMEOUT_S.into());
    entry
}

/// An enabled plugin named `recall` (as `recall@marketplace`).
fn plugin(settings: &Value) -> Option<String> {
    let plugins = settings.get("enabledPlugins")?.as_object()?;
    let mut enabled = plugins.iter().filter(|(_, enabled)| **enabled != Value::Bool(false));
    enabled.find(|(name, _)| name.split('@').next() == Some("recall")).map(|(name, _)| name.clone())
}

#[cfg(test)]
mod tests {
    use super::super::SPEC;
    use super::*;

    #[track_caller]
    fn check(version: Option<(u32, u32, u32)>, missing: &[&str], exec: bool) {
        let version = version.map(|(a, b, c)| AgentVersion(a, b, c));
        let events: Vec<_> = SPEC.events_of(version).collect();
        let names = EVENTS.map(|event| event.name).into_iter();
        let absent: Vec<_> = names.filter(|name| events.iter().all(|event| event.name != *name)).collect();
        assert_eq!(absent, missing);
        for event in events {
            let version = version.unwrap_or(SPEC.host.assumed_version);
            let entry = entry(&HookCall { event, version, shim: "/a b/recall-shim" });
            let command = if exec { "/a b/recall-shim" } else { "'/a b/recall-shim' claude-code" };
            assert_eq!((&entry["command"], entry.contains_key("args")), (&command.into(), exec));
        }
    }

    #[test]
    fn a_version_gets_only_what_it_knows() {
        check(Some((2, 1, 329)), &[], true);
        check(Some((2, 1, 139)), &[], true);
        check(Some((2, 1, 138)), &[], false);
        check(Some((2, 1, 100)), &["PostToolUseFailure", "PostToolBatch"], false);
        check(Some((2, 1, 77)), &["PostToolUseFailure", "PostToolBatch", "StopFailure"], false);
        check(None, &["PostToolUseFailure", "PostToolBatch", "StopFailure"], false);
        check(
            Some((2, 0, 43)),
            &["PostToolUseFailure", "PostToolBatch", "PostCompact", "StopFailure"],
            false,
        );
        let early = [
            "PostToolUseFailure",
            "PostToolBatch",
            "SubagentStart",
            "PostCompact",
            "StopFailure",
            "SessionEnd",
        ];
        check(Some((1, 0, 62)), &early, false);
    }

    #[test]
    fn a_plugin_of_ours_is_seen_unless_it_is_switched_off() {
        let plugin =
            |name: &str, enabled: bool| plugin(&serde_json::json!({"enabledPlugins": {name: enabled}}));
        assert_eq!(plugin("recall@team", true).as_deref(), Some("recall@team"));
        assert_eq!(plugin("recall@team", false), None);
        assert_eq!(plugin("recaller@team", true), None);
    }
}
