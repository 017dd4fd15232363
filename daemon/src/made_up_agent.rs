//! A worked example of adding an agent: a made-up one that differs from all others in names, JSON and settings. It is
//! described only here, and tested from its settings to its answer.

use std::fs;
use std::sync::Arc;

use recall_protocol::agents::Wait;
use recall_protocol::wire::{Deliver, Reply};
use serde_json::{Value, json};

use crate::actors::test_system::Tree;
use crate::cli::consent::Consent;
use crate::cli::install::agent::{LocalAgent, SettingsOwner};
use crate::cli::install::{Access, Installation, Programs, inspection};
use crate::cli::uninstall::{Daemon, Uninstallation};
use crate::service::commands::Processes;
use crate::service::environment::Environment;
use recall_agents::failure::ResultSource;
use recall_agents::format::Format;
use recall_agents::json::JsonFields;
use recall_agents::settings::{
    AgentVersion, FilePlace, Install, InstalledPart, JsonHooks, Off, OffSwitch, SettingValue,
};
use recall_agents::{AGENTS, AgentSpec, Agents, Cap, EventSpec, GuardAnswers, HookOutput, Host, Unreadable};
use recall_compression::extractive::Extractive;
use recall_config::Config;
use recall_domain::conventions::Conventions;
use recall_domain::event::{
    Audience, EventName, HookEvent, HookEventKind, PromptText, StartContext, StartSource, ToolCall,
    ToolResult,
};
use recall_domain::ids::SessionId;
use recall_domain::material::{Action, BatchSource, EditHunk};

const KNOWN: Agents = Agents::new(&[&SPEC]);

const SPEC: AgentSpec = AgentSpec {
    name: "made-up",
    title: "Made-Up",
    host: Host {
        program: "made-up-agent",
        other_places: &[],
        folder: ".made-up",
        folder_variable: Some("MADE_UP_HOME"),
        assumed_version: AgentVersion(1, 0, 0),
        tried: None,
        marks: &[],
    },
    format: Format {
        events: &[
            event("run.began", EventName::SessionStart, Wait::Start, Some(CAP)),
            event("run.asked", EventName::Prompt, Wait::Answer, Some(CAP)),
            event("call.done", EventName::Tool, Wait::Report, None),
            event("run.said", EventName::Stop, Wait::Report, None),
            EventSpec {
                since: AgentVersion(2, 0, 0),
                ..event("run.over", EventName::SessionEnd, Wait::Report, None)
            },
        ],
        prompt_field: "words",
        ..Format::PLAIN
    },
    read,
    envelope: |_, output| {
        let HookOutput { context, notice, .. } = output;
        json!({"tell_the_model": context, "tell_the_user": notice}).to_string().into_bytes()
    },
    action: |_, tool, input, _| {
        let input: Value = serde_json::from_str(input).unwrap_or_default();
        let text = |name: &str| input[name].as_str().unwrap_or_default().to_owned();
        match tool {
            "alter" => Action::Edit {
                path: text("where"),
                changes: vec![EditHunk { before: text("old"), after: text("new") }],
            },
            _ => Action::Other { input: input.to_string(), output: String::new() },
        }
    },
    rejected: |_| None,
    reply: |_| Ok(None),
    plan_file: |_| Ok(None),
    injected_block: None,
    conventions: Conventions {
        work_trees: &["made-up-trees/"],
        plan_prompts: &["AS PLANNED:"],
        machine_prompts: &[("[timer]", BatchSource::System)],
        foreign_lines: &[],
        empty_answers: &["(nothing)"],
        failed_answers: &[],
    },
    plan_folders: &[".made-up/plans"],
    skipped_tools: &["ponder"],
    history: None,
    memories: None,
    notes: None,
    guards: GuardAnswers::NONE,
    install: Install {
        hooks: &[InstalledPart::hooks(
            FilePlace::own("preferences.json", &[".made-up.json"]),
            JsonHooks {
                entry: &[
                    ("command", SettingValue::ShimLineWithEvent),
                    ("patience_ms", SettingValue::Number(2_000)),
                ],
                switched_off: &[OffSwitch { at: "/quiet", off: Off::If(true), title: "quiet" }],
                ..JsonHooks::GROUPED
            },
        )],
        ..Install::NOTHING
    },
};

const CAP: Cap = Cap { utf16_units: 2_000 };

const fn event(name: &'static str, is: EventName, wait: Wait, answer: Option<Cap>) -> EventSpec {
    EventSpec { name, is, since: AgentVersion(1, 0, 0), wait, answer }
}

fn read(format: &Format, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
    let fields = JsonFields::read(&delivery.payload)?;
    let session = fields.word("run").ok_or(Unreadable::NoSession)?;
    let known = format.events.iter().find(|event| event.name == delivery.event_name);
    let text = |name: &str| fields.text(name).unwrap_or_default();
    let what = match known.ok_or(Unreadable::NoEvent)?.is {
        EventName::SessionStart => {
            HookEventKind::SessionStart { source: StartSource::Startup, audience: Audience::Nobody }
        }
        EventName::Prompt => {
            let words = text("words");
            let (source, start) = (BatchSource::User, StartContext::Shown);
            HookEventKind::Prompt { text: PromptText::Text(words), source, start }
        }
        EventName::Tool => {
            let response = fields.raw("outcome");
            let failure = format.failures.error_text(ResultSource::Agent, &fields, response);
            HookEventKind::Tool(ToolCall {
                name: text("tool"),
                use_id: None,
                input: fields.raw("with").unwrap_or("{}").to_owned(),
                result: match failure {
                    Some(words) => ToolResult::Failed(words),
                    None => ToolResult::Done(response.unwrap_or("null").to_owned()),
                },
                duration_ms: None,
                plan: None,
                launched: None,
                rewrote: None,
            })
        }
        EventName::Stop => HookEventKind::Stop { message: fields.text("words") },
        _ => HookEventKind::SessionEnd { reason: "other".to_owned() },
    };
    Ok(HookEvent {
        session: SessionId(session),
        prompt: None,
        cwd: fields.word("folder"),
        transcript_path: None,
        title: None,
        subagent: None,
        origin: None,
        host: None,
        what,
    })
}

/// Runs one hook. The event's name comes on the command line, as in its settings.
async fn hook(tree: &Tree, event: &str, payload: Value) -> Value {
    let folder = tree.home.path().join("shop");
    let mut payload = payload;
    payload["folder"] = folder.display().to_string().into();
    let deliver = Deliver {
        agent: SPEC.name.to_owned(),
        event_name: event.to_owned(),
        ..tree.delivery(payload.to_string())
    };
    match tree.answered(deliver).await {
        Reply::Ack { stdout } if stdout.is_empty() => Value::Null,
        Reply::Ack { stdout } => serde_json::from_slice(&stdout).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn events_of_a_made_up_agent_are_stored_and_answered_in_its_format() {
    let mut config = Config::default();
    config.compression.concurrency = 1;
    let mut tree = Tree::of(KNOWN, config, Arc::new(Extractive)).await;
    let root = tree.home.path().join("shop");
    fs::create_dir(&root).unwrap();
    let file = root.join("made-up-trees/night/src/cart.rs").display().to_string();

    assert_eq!(hook(&tree, "run.began", json!({"run": "r1"})).await, Value::Null);
    hook(&tree, "run.asked", json!({"run": "r1", "words": "Why is the total of the cart off by a cent?"}))
        .await;
    let change = json!({"where": file, "old": "round(line)", "new": "line"});
    hook(&tree, "call.done", json!({"run": "r1", "tool": "alter", "with": change, "outcome": {"ok": true}}))
        .await;
    let missing =
        json!({"run": "r1", "tool": "alter", "with": {"where": "gone"}, "outcome": {"error": "no file"}});
    hook(&tree, "call.done", missing).await;
    let answer =
        "The cart's total is rounded once now, because rounding each line lost up to a cent per line.";
    hook(&tree, "run.said", json!({"run": "r1", "words": answer})).await;
    hook(&tree, "run.over", json!({"run": "r1"})).await;
    tree.wait_for("r1", "summary_created").await;

    let (info, calls, observations) = tree
        .services
        .readers
        .read(|db| {
            let info = db.find_sessions("r1")?.remove(0);
            let calls = db.session_activities(info.row, None)?;
            let observations = db.observations_of_session(info.row)?;
            Ok::<_, recall_store::StoreError>((info, calls, observations))
        })
        .unwrap();
    assert_eq!((info.agent.as_str(), info.prompts), ("made-up", 1));
    let failed: Vec<bool> = calls.iter().map(|call| call.failed).collect();
    assert_eq!(failed, [false, true]);
    let observation = observations
        .iter()
        .find(|row| row.title.contains("rounded once"))
        .unwrap_or_else(|| panic!("its answer is kept: {observations:?}"));
    assert_eq!(observation.files_modified, ["src/cart.rs"], "a file of its work tree is the project's");

    let start = hook(&tree, "run.began", json!({"run": "r2"})).await;
    let context = start["tell_the_model"].as_str().expect("an answer in its own envelope");
    assert!(context.contains("rounded once"), "{context}");
    assert!(context.encode_utf16().count() as u64 <= CAP.utf16_units);
    assert_eq!(hook(&tree, "run.said", json!({"run": "r2", "words": "Bye."})).await, Value::Null);
    // A daemon that does not know the agent answers the same session with nothing.
    assert!(AGENTS.spec("made-up").answer(output("x")).is_empty());
    tree.stop().await;
}

fn output(context: &str) -> HookOutput {
    HookOutput { event: EventName::SessionStart, context: Some(context.to_owned()), notice: None }
}

#[test]
fn a_made_up_agent_is_installed_and_removed() {
    let home = tempfile::tempdir().unwrap();
    let moved = home.path().join("elsewhere");
    fs::create_dir(&moved).unwrap();
    let environment =
        Environment::new(home.path().into(), [("MADE_UP_HOME".into(), moved.clone().into_os_string())]);
    let shim = home.path().join("a b/recall-shim");
    fs::create_dir(shim.parent().unwrap()).unwrap();
    fs::copy("/bin/true", &shim).unwrap();
    let settings = moved.join("preferences.json");
    let before = "{\n  \"colour\": \"green\"\n}\n";
    fs::write(&settings, before).unwrap();
    let local = LocalAgent { spec: &SPEC, environment: &environment, scope: SettingsOwner::User };
    let mut out = Vec::new();

    let programs = Programs { recall: home.path().join("a b/recall"), shim: shim.clone() };
    let installation = Installation {
        environment: &environment,
        programs: &programs,
        known: KNOWN,
        agents: vec![&SPEC],
        scope: SettingsOwner::User,
        access: Access::HooksAndServer,
        service: None,
    };
    installation.run(Consent::Given, &mut out).unwrap();
    let written: Value = serde_json::from_str(&fs::read_to_string(&settings).unwrap()).unwrap();
    assert_eq!(written["colour"], "green");
    let names: Vec<_> = written["hooks"].as_object().unwrap().keys().cloned().collect();
    assert_eq!(names, ["run.began", "run.asked", "call.done", "run.said"], "what version 1.0.0 knows");
    let line = format!("'{}' made-up run.asked", shim.display());
    assert_eq!(written["hooks"]["run.asked"][0]["hooks"][0], json!({"command": line, "patience_ms": 2_000}));
    let report = inspection::inspect_agent(local, &[], Some(&shim));
    assert!(report.is_healthy() && report.title == "Made-Up", "{report:?}");

    let agents = vec![&SPEC];
    let (scope, daemon) = (SettingsOwner::User, Daemon::Keep);
    let uninstallation =
        Uninstallation { environment: &environment, agents, scope, daemon, commands: &Processes };
    uninstallation.run(Consent::Given, &mut out).unwrap();
    assert_eq!(fs::read_to_string(&settings).unwrap(), before);
    let text = String::from_utf8(out).unwrap();
    assert!(text.contains("Installed the hooks of Made-Up."), "{text}");
    assert!(text.contains("Removed the hooks of Made-Up."), "{text}");
}
