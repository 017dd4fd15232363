//! Claude Code's settings: which events recall registers, and how.
//!
//! The versions come from the vendor's public change log. Two of them matter most: before 2.1.101 one unknown event
//! name made it ignore the user's *whole* settings file, and before 2.1.139 it only knew commands as shell lines and
//! ignored `args`.

use recall_protocol::agents::Wait;

use crate::settings::{
    AgentVersion, Base, Field, FilePlace, Install, InstalledPart, JsonHooks, JsonValues, Off, OffSwitch,
    SKILL, SettingValue, Syntax,
};
use crate::{Cap, EventSpec};
use recall_domain::event::EventName;

pub(super) const INSTALL: Install = Install {
    // The file for one user comes first: the entry names a path on this machine.
    hooks: &[InstalledPart::hooks(
        FilePlace::own("settings.json", &[".claude/settings.local.json", ".claude/settings.json"]),
        HOOKS,
    )],
    server: &[
        InstalledPart::values(
            FilePlace { base: Base::HomeUnlessMoved, user: ".claude.json", project: &[".mcp.json"] },
            JsonValues::new(Syntax::Json, &[(&["mcpServers", "recall"], SettingValue::STDIO)]),
        ),
        InstalledPart::own_file(
            FilePlace::own("skills/recall/SKILL.md", &[".claude/skills/recall/SKILL.md"]),
            SKILL,
        ),
    ],
    then: None,
};

/// The setting that turns all hooks off, also in agents that copied the format.
pub(crate) const ALL_OFF: OffSwitch =
    OffSwitch { at: "/disableAllHooks", off: Off::If(true), title: "disableAllHooks" };

const HOOKS: JsonHooks = JsonHooks {
    entry: &[
        ("type", SettingValue::Text("command")),
        ("command", SettingValue::Shim),
        ("args", SettingValue::ShimArguments),
        TIMEOUT,
    ],
    older_entry: Some((
        EXEC_FORM,
        &[("type", SettingValue::Text("command")), ("command", SettingValue::ShimLine), TIMEOUT],
    )),
    switched_off: &[ALL_OFF],
    plugins: Some("enabledPlugins"),
    ..JsonHooks::GROUPED
};

/// From this version on, a command may be started without a shell.
const EXEC_FORM: AgentVersion = AgentVersion(2, 1, 139);
/// From this version on, only the unknown event itself is ignored.
const UNKNOWN_EVENTS_ARE_HARMLESS: AgentVersion = AgentVersion(2, 1, 101);
/// At SessionEnd an explicit value also replaces the usual 1.5 s for all hooks together.
const TIMEOUT: Field = ("timeout", SettingValue::Number(10));

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

#[cfg(test)]
mod tests {
    use super::super::SPEC;
    use super::*;
    use crate::settings::{Filling, Programs};

    #[track_caller]
    fn check(version: Option<(u32, u32, u32)>, missing: &[&str], exec: bool) {
        let version = version.map(|(a, b, c)| AgentVersion(a, b, c));
        let events: Vec<_> = SPEC.events_of(version).collect();
        let names = EVENTS.map(|event| event.name).into_iter();
        let absent: Vec<_> = names.filter(|name| events.iter().all(|event| event.name != *name)).collect();
        assert_eq!(absent, missing);
        for event in events {
            let version = version.unwrap_or(SPEC.host.assumed_version);
            let programs = Programs { recall: "recall", shim: "/a b/recall-shim" };
            let entry = HOOKS.entry_of(version, &Filling { agent: SPEC.name, event: event.name, programs });
            let command = if exec { "/a b/recall-shim" } else { "'/a b/recall-shim' claude-code" };
            assert_eq!((&entry["command"], entry.contains_key("args")), (&command.into(), exec));
        }
    }

    #[test]
    fn hooks_use_only_what_the_agent_version_supports() {
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
}
