//! Snapshot of the event that each recorded payload becomes, and of the bytes of its answer.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use recall_protocol::wire::{Deliver, EventId, Flags, ShimContext};

use super::{AGENTS, HookOutput};

const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../tests/fixtures");

fn payloads(agent: &str) -> Vec<PathBuf> {
    let entries = Path::new(FIXTURES).join(agent).read_dir().unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    files.sort();
    assert!(!files.is_empty(), "{agent} has no payloads");
    files
}

fn delivery(agent: &str, path: &Path) -> Deliver {
    let name = path.file_stem().unwrap().to_string_lossy().into_owned();
    Deliver {
        event_id: EventId([1; 16]),
        agent: agent.to_owned(),
        event_name: name.split('.').next().unwrap_or_default().to_owned(),
        captured_at_ms: 0,
        boot_id: [0; 16],
        boot_ns: 0,
        context: ShimContext::default(),
        payload: std::fs::read(path).unwrap(),
        flags: Flags::default(),
    }
}

/// The beginning of a text, on one line.
fn short(text: &str) -> String {
    const LENGTH: usize = 900;
    let line = text.replace("\\n", " ");
    if line.chars().count() > LENGTH { line.chars().take(LENGTH).chain(['…']).collect() } else { line }
}

#[test]
fn recorded_payloads_have_the_expected_events_and_answers() {
    for spec in AGENTS.iter().filter(|spec| spec.name != "claude-code") {
        let mut snapshot = String::new();
        for path in payloads(spec.name) {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            let delivery = delivery(spec.name, &path);
            let event =
                spec.event(&delivery).unwrap_or_else(|error| panic!("{name} of {}: {error}", spec.name));
            let whose =
                if event.subagent.is_some() { format!(" {:?}", event.subagent) } else { String::new() };
            let _ = writeln!(
                snapshot,
                "# {name}\n{} turn {:?} in {:?}{whose}",
                event.session.as_str(),
                event.prompt.as_ref().map(|prompt| prompt.as_str()),
                event.cwd
            );
            let _ = writeln!(snapshot, "{}", short(&format!("{:?}", event.what)));
            if let recall_domain::event::HookEventKind::Tool(call) = &event.what {
                let response = match &call.result {
                    recall_domain::event::ToolResult::Done(response) => Some(response.as_str()),
                    recall_domain::event::ToolResult::Failed(_) => None,
                };
                let action = spec.action(&call.name, &call.input, response);
                let _ = writeln!(snapshot, "-> {}", short(&format!("{action:?}")));
            }
            let output = HookOutput { event: event.what.name(), context: Some("TEXT".into()), notice: None };
            let stdout = spec.answer(output);
            if !stdout.is_empty() {
                let _ = writeln!(snapshot, "= {}", String::from_utf8(stdout).unwrap().trim_end());
            }
            snapshot.push('\n');
        }
        insta::assert_snapshot!(format!("{}", spec.name), snapshot);
    }
}

#[test]
fn payloads_under_another_agents_name_are_recognized_by_their_marks() {
    let check = |folder: &str, file: &str, expected: Option<&str>| {
        let path = Path::new(FIXTURES).join(folder).join(file);
        let found = AGENTS.real_sender(&delivery("claude-code", &path)).map(|spec| spec.name);
        assert_eq!(found, expected, "{file}");
    };
    check("cursor", "beforeSubmitPrompt.via-claude-file.json", Some("cursor"));
    check("vscode-copilot", "PostToolUse.from-claude-settings.json", Some("vscode-copilot"));
    check("windsurf", "pre_user_prompt.json", Some("windsurf"));
    check("claude-code", "UserPromptSubmit.json", None);
    check("codex", "Stop.json", None);
}

#[test]
fn hook_answers_make_no_decision_for_the_user() {
    for spec in AGENTS.iter() {
        for event in spec.events() {
            let output = HookOutput { event: event.is, context: Some("x".into()), notice: None };
            let text = String::from_utf8(spec.answer(output)).unwrap();
            for word in ["permission", "decision", "followup", "stopReason", "suppressOutput"] {
                assert!(!text.contains(word), "{} {}: {text}", spec.name, event.name);
            }
        }
    }
}
