//! Tests peculiarities of other agents, with the real programs.

use recall_protocol::query::Remember;
use std::path::Path;

use crate::notes_by_hand::noted;
use recall_tests::checks::secrecy::is_nowhere;
use recall_tests::{DISCOUNT_PROMPT, Stage, run};
use serde_json::{Value, json};

fn recorded(name: &str) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

/// Runs a hook of this agent and returns what it printed.
#[track_caller]
fn hook(stage: &Stage, agent: &str, event: &Value) -> String {
    let name = event["agent_action_name"].as_str().or(event["hook_event_name"].as_str()).unwrap();
    let output = stage.hook_bytes(&[agent, name], &serde_json::to_vec(event).unwrap());
    assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{output:?}");
    output.stdout
}

/// Plays a turn of Windsurf, whose payloads have the prompt inside an object.
fn windsurf_turn(stage: &Stage, prompt: &str) -> Value {
    let [mut asked, mut wrote, mut ran, mut answered] =
        ["pre_user_prompt", "post_write_code", "post_run_command", "post_cascade_response"]
            .map(|name| recorded(&format!("windsurf/{name}.json")));
    asked["tool_info"]["user_prompt"] = json!(prompt);
    wrote["tool_info"]["file_path"] = json!(stage.project().join("src/heliotrope.js"));
    ran["tool_info"]["command_line"] = json!("npm test -- heliotrope");
    ran["tool_info"]["cwd"] = json!(stage.project());
    answered["tool_info"]["response"] = json!("### Planner Response\n\nThe heliotrope is planted.");
    for event in [&asked, &wrote, &ran, &answered] {
        assert_eq!(hook(stage, "windsurf", event), "");
    }
    stage.flush();
    stage.json(["ctl", "session", asked["trajectory_id"].as_str().unwrap()])
}

#[test]
fn a_private_prompt_inside_windsurfs_payload_hides_its_turn() {
    let stage = Stage::new().daemon();
    let session = windsurf_turn(&stage, "<private>Plant the heliotrope.</private>");
    let batches = session["batches"].as_array().unwrap();
    assert_eq!(batches.len(), 1, "{session}");
    assert_eq!(batches[0]["source"], "private", "{session}");
    is_nowhere(&stage, "heliotrope");

    // The same turn without the marks is kept.
    let stage = Stage::new().daemon();
    let session = windsurf_turn(&stage, "Plant the heliotrope.");
    assert_eq!(session["batches"][0]["prompt"], "Plant the heliotrope.", "{session}");
    assert_eq!(session["batches"][0]["activities"].as_array().map(Vec::len), Some(2), "{session}");
}

/// Grok Build also runs the hook files of Claude Code and Cursor, each with the same payload.
#[test]
fn grok_events_from_three_hook_files_are_stored_once_under_grok() {
    let stage = Stage::new().daemon();
    let events = ["SessionStart", "UserPromptSubmit", "PostToolUse.read_file", "Stop", "SessionEnd"];
    for name in events {
        let mut event = recorded(&format!("grok/{name}.json"));
        event["cwd"] = json!(stage.project());
        event["workspaceRoot"] = json!(stage.project());
        for file in ["claude-code", "cursor", "grok"] {
            let mut command = stage.command("recall-shim");
            command.arg(file).env("GROK_HOOK_EVENT", event["hookEventName"].as_str().unwrap());
            let output = run(command, &serde_json::to_vec(&event).unwrap());
            assert_eq!(
                (output.code(), output.stdout.as_str(), output.stderr.as_str()),
                (0, "", ""),
                "{name} {file}"
            );
        }
    }
    stage.flush();
    let sessions = stage.json(["sessions"]);
    assert_eq!(sessions["total"], 1, "{sessions}");
    let only = &sessions["sessions"][0];
    let counts = (&only["agent"], &only["prompts"], &only["activities"]);
    assert_eq!(counts, (&json!("grok"), &json!(1), &json!(1)), "{sessions}");
}

/// A session of Cursor, in the editor or in the terminal.
struct Cursor<'a> {
    stage: &'a Stage,
    prompt: Value,
}

/// The place where a session of Cursor runs.
#[derive(Clone, Copy)]
enum Surface {
    Editor,
    Terminal,
}

impl<'a> Cursor<'a> {
    /// Starts a session and returns the context that it got.
    fn start(stage: &'a Stage, surface: Surface) -> (Self, String) {
        let (start, prompt) = match surface {
            Surface::Editor => ("sessionStart", "beforeSubmitPrompt"),
            Surface::Terminal => ("sessionStart.cli", "beforeSubmitPrompt.cli"),
        };
        let [mut start, mut prompt] = [start, prompt].map(|name| recorded(&format!("cursor/{name}.json")));
        for event in [&mut start, &mut prompt] {
            event["workspace_roots"] = json!([stage.project()]);
        }
        let answer: Value = serde_json::from_str(&hook(stage, "cursor", &start)).unwrap();
        let context = answer["additional_context"].as_str().unwrap().to_owned();
        (Self { stage, prompt }, context)
    }

    /// Returns the context that the session gets with a prompt.
    fn ask(&mut self, text: &str) -> String {
        self.prompt["prompt"] = json!(text);
        self.prompt["generation_id"] = json!(text);
        let answer: Value = serde_json::from_str(&hook(self.stage, "cursor", &self.prompt)).unwrap();
        assert_eq!(answer["continue"], true, "{answer}");
        answer["additional_context"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the session's injections, as `recall why` lists them.
    fn injections(&self) -> Vec<Value> {
        let why = self.stage.json(["why", self.prompt["session_id"].as_str().unwrap()]);
        why["injections"].as_array().unwrap().clone()
    }
}

const UNRELATED: &str = "Write a letter to the harbour master.";
const QUESTION: &str = "How does the staging gateway treat idle connections?";
const REMARK: &str = "The staging gateway drops idle connections after 50 seconds, see src/gateway.rs.";
/// The heading above context for a prompt.
const BEARS: &str = "may bear on this prompt";

/// Returns a note of a model. A person's note would stand first at the start.
fn remark(text: &str, importance: u8) -> Remember {
    let kind = Some("gotcha".to_owned());
    Remember { text: text.to_owned(), kind, importance: Some(importance), ..Remember::default() }
}

/// Returns a stage with a remark that answers a question and is not among the lines of a start's block.
fn stage_with_a_remark() -> Stage {
    let stage = Stage::new().daemon();
    stage.discount_session("before");
    for harbour in ["north", "south", "east", "west", "old"] {
        noted(&stage, remark(&format!("Boats of the {harbour} harbour must be in boats_{harbour}.csv"), 9));
    }
    noted(&stage, remark(REMARK, 3));
    stage.flush();
    stage
}

/// Cursor's editor drops the context that it gets at a start.
#[test]
fn the_first_prompt_in_cursors_editor_gets_the_start_context_again() {
    for first in [UNRELATED, DISCOUNT_PROMPT] {
        let stage = Stage::new().daemon();
        stage.discount_session("before");
        stage.flush();
        let (mut cursor, start) = Cursor::start(&stage, Surface::Editor);
        assert!(start.contains("Rounding happens once"), "{start}");
        // The start's block already answers the second of the two.
        assert_eq!(cursor.ask(first), start, "{first}");
        for later in ["Thank the harbour master.", "Add a percentage discount to the cart total again"] {
            assert_eq!(cursor.ask(later), "", "{later}");
        }
    }
}

#[test]
fn the_first_prompt_in_cursors_editor_gets_its_notes_after_the_start_context() {
    let stage = stage_with_a_remark();
    let (mut cursor, start) = Cursor::start(&stage, Surface::Editor);
    assert!(!start.contains(REMARK), "{start}");
    let first = cursor.ask(QUESTION);
    let behind = first.strip_prefix(&start).unwrap_or_else(|| panic!("{first}"));
    assert!(behind.contains(BEARS) && behind.matches(REMARK).count() == 1, "{behind}");
    assert_eq!(cursor.ask("How does the staging gateway treat idle connections now?"), "");

    let injections = cursor.injections();
    let kinds = |injection: &Value| {
        let items = injection["items"].as_array().unwrap().iter();
        items.map(|item| item["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    let moments: Vec<_> = injections.iter().map(|injection| injection["moment"].as_str().unwrap()).collect();
    assert_eq!(moments, ["start", "prompt"], "{injections:?}");
    // The notes on the last session say no more than its title.
    let at_the_start = [&["summary", "session"][..], &["observation"; 5]].concat();
    assert_eq!(kinds(&injections[0]), at_the_start);
    assert_eq!(kinds(&injections[1]), [at_the_start, vec!["observation"]].concat());
    let tokens = |injection: &Value| injection["tokens"].as_u64().unwrap();
    assert!(tokens(&injections[1]) > tokens(&injections[0]), "{injections:?}");
}

#[test]
fn a_private_first_prompt_in_cursors_editor_gets_only_the_start_context() {
    let stage = stage_with_a_remark();
    let (mut cursor, start) = Cursor::start(&stage, Surface::Editor);
    assert_eq!(cursor.ask(&format!("<private>{QUESTION}</private>")), start);
    let second = cursor.ask(QUESTION);
    assert!(second.contains(REMARK) && !second.contains("Rounding"), "{second}");
}

#[test]
fn the_first_prompt_in_cursors_terminal_gets_no_start_context() {
    let stage = stage_with_a_remark();
    let (mut cursor, start) = Cursor::start(&stage, Surface::Terminal);
    assert!(start.contains("Rounding happens once"), "{start}");
    for text in [UNRELATED, DISCOUNT_PROMPT] {
        assert_eq!(cursor.ask(text), "", "{text}");
    }
    let context = cursor.ask(QUESTION);
    assert!(context.contains(REMARK) && !context.contains("Rounding"), "{context}");
}

/// Cursor drops an answer that is too long. The start and the context for the first prompt share the room. If the
/// start leaves out a note that the prompt asks for, the prompt brings it.
#[test]
fn the_start_context_in_cursors_editor_leaves_room_for_the_prompts_notes() {
    // These notes by hand leave room for one more line, but not for a second block.
    const HARBOURS: u32 = 34;
    let stage = Stage::new().config("[context]\nstart_tokens = 10000\n").daemon();
    for number in 0..HARBOURS {
        let text = format!("Harbour {number} is {number} metres deep{}.", ", and its quay is long".repeat(4));
        assert_eq!(stage.recall(["remember", &text]).code(), 0);
    }
    noted(&stage, remark(REMARK, 9));
    stage.flush();
    let (mut cursor, start) = Cursor::start(&stage, Surface::Editor);
    assert!(start.contains(REMARK), "{start}");
    let first = cursor.ask(QUESTION);
    let (again, behind) = first.split_once(BEARS).unwrap_or_else(|| panic!("{first}"));
    assert!(again.contains("Harbour 30") && !again.contains(REMARK) && behind.contains(REMARK), "{first}");
    assert!(first.encode_utf16().count() <= 9_500, "{first}");
}
