//! Cline, according to the types of its core 0.0.86 and its vendor's page. Not run here.
//!
//! A hook is a program named after its event, in a folder of hooks. Recall writes a short program for each event, and
//! leaves the user's programs unchanged. An event's data is in an object inside the payload. The extension and the core
//! name the events differently.

use recall_protocol::agents::Wait;
use recall_protocol::wire::Deliver;
use serde_json::{Map, Value, json};

use super::failure::FailureRules;
use super::format::payload::EVENT_FIELD;
use super::format::tools::{Tool, Tools};
use super::format::{Format, Meaning, answer};
use super::settings::{AgentVersion, FilePlace, Install, InstalledPart, OwnFile, Syntax};
use super::{AgentSpec, Cap, EventSpec, HookOutput, Host, Mark, Unreadable};
use recall_domain::event::{EventName, HookEvent};

/// The program for one event.
macro_rules! hook {
    ($event:literal) => {
        InstalledPart::own_file(
            FilePlace::own(concat!("hooks/", $event), &[concat!(".clinerules/hooks/", $event)]),
            OwnFile::program(concat!(
                "#!/bin/sh\n# recall's hook, written by `recall install`; `recall uninstall` removes it.\n",
                "exec '@recall-shim@' cline ",
                $event,
                "\n"
            )),
        )
    };
}
pub(super) const SPEC: AgentSpec = AgentSpec {
    name: "cline",
    title: "Cline",
    host: Host {
        program: "cline",
        folder: ".cline",
        assumed_version: AgentVersion(3, 0, 65),
        marks: &[Mark { field: "clineVersion", part: "" }],
        ..AgentSpec::PLAIN.host
    },
    format: FORMAT,
    read: |format: &Format, delivery: &Deliver| -> Result<HookEvent, Unreadable> {
        format.read(shaped(delivery).as_ref().unwrap_or(delivery))
    },
    envelope,
    install: Install {
        hooks: &[
            hook!("TaskStart"),
            hook!("TaskResume"),
            hook!("UserPromptSubmit"),
            hook!("PostToolUse"),
            hook!("TaskComplete"),
            hook!("TaskError"),
            hook!("SessionShutdown"),
        ],
        server: &[
            InstalledPart::server(FilePlace::own("data/settings/cline_mcp_settings.json", &[]), Syntax::Json),
            InstalledPart::own_file(
                FilePlace::of_project(&[".clinerules/recall.md"]),
                OwnFile::text(include_str!("../memory.md")),
            ),
        ],
        then: Some("Cline runs hooks only where they are enabled in its settings."),
    },
    ..AgentSpec::PLAIN
};

/// In characters.
const CAP: Cap = Cap { utf16_units: 50_000 };

/// Left out: `PreToolUse`, whose answer can only cancel, and `PreCompact`, which newer cores do not report.
const EVENTS: &[EventSpec] = &[
    EventSpec::answered("TaskStart", EventName::SessionStart, Wait::Start, CAP),
    EventSpec::answered("TaskResume", EventName::SessionStart, Wait::Start, CAP),
    EventSpec::answered("UserPromptSubmit", EventName::Prompt, Wait::Answer, CAP),
    EventSpec::reported("PostToolUse", EventName::Tool),
    EventSpec::reported("TaskComplete", EventName::Stop),
    EventSpec::reported("TaskError", EventName::StopFailure),
    EventSpec::reported("SessionShutdown", EventName::SessionEnd),
];

const FORMAT: Format = Format {
    events: EVENTS,
    also: &[
        ("agentstart", Meaning::Is(EventName::SessionStart)),
        ("agentresume", Meaning::Is(EventName::SessionStart)),
        ("promptsubmit", Meaning::Is(EventName::Prompt)),
        ("toolresult", Meaning::Is(EventName::Tool)),
        ("agentend", Meaning::Is(EventName::Stop)),
        ("agenterror", Meaning::Is(EventName::StopFailure)),
        ("precompact", Meaning::Is(EventName::PreCompact)),
    ],
    tools: Tools(&[
        ("read_file", Tool::Read),
        ("write_to_file", Tool::Write),
        ("replace_in_file", Tool::Edit),
        ("execute_command", Tool::Command),
        ("bash", Tool::Command),
        ("search_files", Tool::Search),
        ("list_files", Tool::Search),
        ("web_fetch", Tool::Fetch),
        ("new_task", Tool::Delegate),
    ]),
    failures: FailureRules::COMMON,
    ..Format::PLAIN
};

/// Converts the payload into the common form, with the fields of its objects at the top level.
fn shaped(delivery: &Deliver) -> Option<Deliver> {
    let payload: Map<String, Value> = serde_json::from_slice(&delivery.payload).ok()?;
    let part = |name: &str| payload.get(name).unwrap_or(&Value::Null);
    let event = part("hookName").as_str().unwrap_or(&delivery.event_name);
    let mut fields = Map::new();
    let mut put = |name: &str, value: &Value| {
        if !value.is_null() {
            fields.insert(name.to_owned(), value.clone());
        }
    };
    put("session_id", part("taskId"));
    put("workspace_roots", part("workspaceRoots"));
    // The main conversation of the core also has an id.
    if part("parent_agent_id").is_string() {
        put("agent_id", part("agent_id"));
    }
    put(EVENT_FIELD, &json!(event));
    if matches!(event, "TaskResume" | "agent_resume") {
        put("source", &json!("resume"));
    }
    put("prompt", &part("userPromptSubmit")["prompt"]);
    put("last_assistant_message", &part("taskComplete")["taskMetadata"]["result"]);
    put("error", &part("error")["message"]);
    let (call, core) = (part("postToolUse"), part("tool_result"));
    if call.is_object() || core.is_object() {
        let first = |a: &Value, b: &Value| if a.is_null() { b.clone() } else { a.clone() };
        put("tool_name", &first(&call["toolName"], &core["name"]));
        put("tool_use_id", &core["id"]);
        put("tool_input", &first(&call["parameters"], &core["input"]));
        put("duration_ms", &first(&call["executionTimeMs"], &core["durationMs"]));
        let mut response = json!({"output": first(&call["result"], &core["output"])});
        if call["success"] == false || !core["error"].is_null() {
            response["success"] = json!(false);
        }
        put("tool_response", &response);
    }
    Some(Deliver { payload: Value::Object(fields).to_string().into_bytes(), ..delivery.clone() })
}

fn envelope(_: &str, output: &HookOutput) -> Vec<u8> {
    let Some(context) = &output.context else { return Vec::new() };
    let fields = [
        ("cancel".to_owned(), false.into()),
        ("contextModification".to_owned(), context.as_str().into()),
        ("errorMessage".to_owned(), "".into()),
    ];
    answer::line(fields.into_iter().collect())
}
