//! Claude Code: where its settings are and which of its events recall registers.
//!
//! The versions come from the vendor's public change log. Two of them decide more than the rest: before 2.1.101 one
//! event name that a version did not know made it ignore the user's *whole* settings file, and before 2.1.139 it
//! knew commands only as shell lines and ignored `args`.

use super::agent::AgentSpec;
use super::hook_entry::{Hook, HookCommand};
use super::version::AgentVersion;

pub(crate) const SPEC: AgentSpec = AgentSpec {
    name: NAME,
    title: "Claude Code",
    program: "claude",
    other_places: &[".local/bin/claude", ".claude/local/claude"],
    // `CLAUDE_CONFIG_DIR` replaces the whole folder.
    folder: |environment| {
        environment.folder("CLAUDE_CONFIG_DIR").unwrap_or_else(|| environment.home().join(".claude"))
    },
    settings: "settings.json",
    project_settings: &[".claude/settings.json", ".claude/settings.local.json"],
    hooks,
};

const NAME: &str = "claude-code";
/// From here on a command may be started without a shell.
const EXEC_FORM: AgentVersion = AgentVersion(2, 1, 139);
/// From here on an unknown event is ignored by itself.
const UNKNOWN_EVENTS_ARE_HARMLESS: AgentVersion = AgentVersion(2, 1, 101);
/// What is taken for a version that did not answer: old enough to be met, new enough to be useful.
const ASSUMED: AgentVersion = AgentVersion(2, 1, 76);
/// In seconds. The shim ends within a second whatever happens, so this only matters on a machine that stands still.
/// At SessionEnd an explicit value also replaces the 1.5 s that all hooks together have otherwise.
const TIMEOUT_S: u32 = 10;

/// The events, each with the first version that knows it. Not here, though they exist: `MessageDisplay` (a process
/// for every piece of text), `WorktreeCreate` (its hook replaces git), those that ask for a decision, and those that
/// tell recall nothing it uses.
const EVENTS: [(&str, AgentVersion); 13] = [
    ("SessionStart", AgentVersion(1, 0, 62)),
    ("UserPromptSubmit", AgentVersion(1, 0, 54)),
    // What runs now: a batch is not closed in the middle of a long command.
    ("PreToolUse", AgentVersion(1, 0, 38)),
    ("PostToolUse", AgentVersion(1, 0, 38)),
    // Its first version is in no change log, so it waits for the one that forgives unknown names.
    ("PostToolUseFailure", UNKNOWN_EVENTS_ARE_HARMLESS),
    // The only sight of calls that were refused before they ran. Of unknown age, too.
    ("PostToolBatch", UNKNOWN_EVENTS_ARE_HARMLESS),
    ("SubagentStart", AgentVersion(2, 0, 43)),
    ("SubagentStop", AgentVersion(1, 0, 41)),
    ("PreCompact", AgentVersion(1, 0, 48)),
    ("PostCompact", AgentVersion(2, 1, 76)),
    ("Stop", AgentVersion(1, 0, 38)),
    ("StopFailure", AgentVersion(2, 1, 78)),
    ("SessionEnd", AgentVersion(1, 0, 85)),
];

fn hooks(version: Option<AgentVersion>, shim: &str) -> Vec<Hook> {
    let version = version.unwrap_or(ASSUMED);
    let command = if version >= EXEC_FORM {
        HookCommand::Exec { program: shim.to_owned(), args: vec![NAME.to_owned()] }
    } else {
        HookCommand::shell(shim, &[NAME])
    };
    let known = EVENTS.into_iter().filter(|(_, since)| *since <= version);
    known.map(|(event, _)| Hook { event, command: command.clone(), timeout_s: TIMEOUT_S }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::environment::Environment;
    use std::path::Path;

    #[track_caller]
    fn check(version: Option<(u32, u32, u32)>, missing: &[&str], exec: bool) {
        let hooks = hooks(version.map(|(a, b, c)| AgentVersion(a, b, c)), "/a b/recall-shim");
        let events: Vec<_> = hooks.iter().map(|hook| hook.event).collect();
        let absent: Vec<_> =
            EVENTS.map(|(event, _)| event).into_iter().filter(|name| !events.contains(name)).collect();
        assert_eq!(absent, missing);
        for hook in &hooks {
            assert_eq!(matches!(hook.command, HookCommand::Exec { .. }), exec, "{hook:?}");
            if let HookCommand::Shell(line) = &hook.command {
                assert_eq!(line, "'/a b/recall-shim' claude-code");
            }
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
    fn its_folder_may_be_elsewhere() {
        let home = Environment::new("/home/dev".into(), []);
        assert_eq!(SPEC.settings_path(&home), Path::new("/home/dev/.claude/settings.json"));
        let moved =
            Environment::new("/home/dev".into(), [("CLAUDE_CONFIG_DIR".into(), "/data/claude".into())]);
        assert_eq!(SPEC.settings_path(&moved), Path::new("/data/claude/settings.json"));
    }
}
