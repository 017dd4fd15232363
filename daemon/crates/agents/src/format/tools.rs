//! Tools: what a call does, by the agent's name of the tool.
//!
//! An agent's table says which of its tools do what. Inputs and results of all agents are read in the same way, in
//! every spelling. Tools and result formats change between versions, so every field is optional. Unknown calls become
//! [`Action::Other`] with unchanged texts, so reading never fails.

use serde_json::Value;

use super::plans;
pub use super::tool::Tool;
use recall_domain::event::{SubagentTask, ToolCall, is_too_long};
use recall_domain::material::{Action, EditHunk, WriteKind};

/// An agent's tools by their names.
#[derive(Clone, Copy, Debug)]
pub struct Tools(pub &'static [(&'static str, Tool)]);

impl Tools {
    pub(super) fn named(self, name: &str) -> Option<Tool> {
        self.0.iter().find(|(known, _)| *known == name).map(|(_, tool)| *tool)
    }

    /// Parses a call. `input` and `response` are the agent's JSON. A failed call has no response.
    ///
    /// A web search is a [`Action::Fetch`] without a url, with the query as the question.
    pub fn action(self, tool_name: &str, input: &str, response: Option<&str>) -> Action {
        let call = Call { input: parse(input), response: response.map_or(Value::Null, parse) };
        let read = self.named(tool_name).and_then(|tool| match tool {
            Tool::Read => call.read(),
            Tool::Edit => call.edit(),
            Tool::NotebookEdit => call.notebook_edit(),
            Tool::Write => call.write(),
            Tool::Command => call.command(),
            Tool::Search => call.search(),
            Tool::Fetch => call.fetch(),
            Tool::Delegate => call.delegate(),
            Tool::Ask => call.ask(),
            Tool::Plan => call.plan(),
            Tool::TodoList | Tool::TaskCreate | Tool::TaskUpdate => call.tasks(),
        });
        read.unwrap_or_else(|| Action::Other {
            input: input.to_owned(),
            output: response.map_or_else(String::new, words),
        })
    }

    /// The file that a file tool's call is about. Other tools' inputs are not parsed.
    pub fn file(self, tool_name: &str, input: &str) -> Option<String> {
        let tool = self.named(tool_name)?;
        if !matches!(tool, Tool::Read | Tool::Edit | Tool::Write | Tool::NotebookEdit) {
            return None;
        }
        let call = Call { input: parse(input), response: Value::Null };
        let path = call.path().or_else(|| call.patched().map(|(path, _)| path));
        path.filter(|path| !path.is_empty())
    }

    /// The task that a call gives to a subagent.
    pub fn task(self, tool_name: &str, input: &str) -> Option<SubagentTask> {
        if self.named(tool_name) != Some(Tool::Delegate) {
            return None;
        }
        let input = parse(input);
        let words = [&["description"][..], PROMPT].map(|fields| text(&input, fields).unwrap_or_default());
        let words = words.join("\n");
        let words = words.trim();
        if words.is_empty() {
            return None;
        }
        let kind = text(&input, AGENT_KIND).filter(|kind| !kind.is_empty());
        Some(SubagentTask {
            kind: kind.unwrap_or_else(|| GENERAL_PURPOSE.to_owned()),
            text: words.get(..words.floor_char_boundary(TASK_BYTES)).unwrap_or(words).to_owned(),
        })
    }

    /// Adds the changes that a successful call makes: plans and tasks, subagents, whole files.
    pub(super) fn effects(self, call: &mut ToolCall, response: Option<&str>) {
        let Some(tool) = self.named(&call.name) else { return };
        call.plan = plans::change(tool, &call.input, response.unwrap_or("null"));
        match tool {
            Tool::Delegate => call.launched = response.and_then(plans::launched),
            Tool::Write => call.rewrote = self.file(&call.name, &call.input),
            _ => {}
        }
    }
}

/// The type of a subagent that is requested without one (Claude Code 2.1).
const GENERAL_PURPOSE: &str = "general-purpose";
/// How many bytes of a task are kept, enough to see its subject.
const TASK_BYTES: usize = 2_000;

// All spellings of a tool's fields.
const PATH: &[&str] = &[
    "file_path",
    "filePath",
    "notebook_path",
    "path",
    "absolute_path",
    "target_file",
    "TargetFile",
    "AbsolutePath",
];
const BEFORE: &[&str] = &["old_string", "oldString", "old_str", "oldText", "TargetContent", "before"];
const AFTER: &[&str] = &["new_string", "newString", "new_str", "newText", "ReplacementContent", "after"];
const CONTENT: &[&str] = &["content", "file_text", "CodeContent"];
const EDITS: &[&str] = &["edits", "replacements", "ReplacementChunks"];
const COMMAND: &[&str] = &["command", "command_line", "cmd", "CommandLine"];
const PATTERN: &[&str] = &["pattern", "query", "includePattern", "path", "Pattern", "Query", "DirectoryPath"];
const PROMPT: &[&str] = &["prompt", "message", "task"];
const AGENT_KIND: &[&str] = &["subagent_type", "agent_type", "agentName", "profile"];
/// The fields of a tool's result, or of the part that the model received.
const OUTPUT: &[&str] =
    &["stdout", "output", "returnDisplay", "llmContent", "text_result_for_llm", "textResultForLlm", "result"];
const PATCH_FILES: [&str; 3] = ["*** Add File: ", "*** Update File: ", "*** Delete File: "];
const PATCH: &[&str] = &["input", "command", "patch"];

/// The files that a patch in the call's input changes.
pub fn patched_files(input: &str) -> Vec<String> {
    if !input.contains("*** ") {
        return Vec::new();
    }
    let input = parse(input);
    let patch = text(&input, PATCH).or_else(|| input.as_str().map(str::to_owned)).unwrap_or_default();
    let file = |line: &str| {
        let mut marks = PATCH_FILES.iter().chain(&["*** Move to: "]);
        marks.find_map(|mark| line.strip_prefix(mark)).map(|file| file.trim().to_owned())
    };
    patch.lines().filter_map(file).filter(|file| !is_too_long(file)).collect()
}

/// Whether a tool belongs to an MCP server. Nearly all agents spell it `mcp__server__tool` or `MCP:tool`.
pub fn is_of_server(tool_name: &str) -> bool {
    tool_name.get(..3).is_some_and(|start| start.eq_ignore_ascii_case("mcp"))
}

/// The input and response of a call. A parser returns `None` if the essential field is missing.
struct Call {
    input: Value,
    response: Value,
}

impl Call {
    fn path(&self) -> Option<String> {
        text(&self.input, PATH)
            .or_else(|| text(&self.response, &["filePath", "notebook_path"]))
            .filter(|path| !is_too_long(path))
    }

    /// The tool's output, or the part that the model received.
    fn output(&self) -> String {
        let field = OUTPUT.iter().find_map(|field| text_of(self.response.get(field)?));
        field.unwrap_or_else(|| match &self.response {
            Value::String(whole) => whole.clone(),
            _ => blocks(list(&self.response, "content")),
        })
    }

    fn read(&self) -> Option<Action> {
        Some(Action::Read { path: self.path()? })
    }

    fn edit(&self) -> Option<Action> {
        let Some(path) = self.path() else {
            return self.patched().map(|(path, changes)| Action::Edit { path, changes });
        };
        let several = EDITS.iter().flat_map(|field| list(&self.input, field));
        let changes = several.chain([&self.input]).filter_map(change).collect();
        Some(Action::Edit { path, changes })
    }

    /// The first file of a patch, with all its replacements.
    fn patched(&self) -> Option<(String, Vec<EditHunk>)> {
        let patch =
            text(&self.input, PATCH).filter(|patch| patch.trim_start().starts_with("*** Begin Patch"))?;
        let mut path = None;
        let mut changes: Vec<EditHunk> = Vec::new();
        let mut is_new_hunk = true;
        for line in patch.lines() {
            let section = PATCH_FILES.iter().find_map(|mark| line.strip_prefix(mark));
            if let Some(file) = section {
                path = path.or_else(|| Some(file.trim().to_owned()).filter(|path| !is_too_long(path)));
            }
            if section.is_some() || line.starts_with("@@") {
                is_new_hunk = true;
                continue;
            }
            let (Some(side), Some(rest)) = (line.get(..1), line.get(1..)) else { continue };
            if !matches!(side, "+" | "-" | " ") {
                continue;
            }
            if std::mem::take(&mut is_new_hunk) {
                changes.push(EditHunk { before: String::new(), after: String::new() });
            }
            let Some(hunk) = changes.last_mut() else { continue };
            let sides = [(&mut hunk.before, side != "+"), (&mut hunk.after, side != "-")];
            for (text, _) in sides.into_iter().filter(|(_, is_on)| *is_on) {
                text.push_str(rest);
                text.push('\n');
            }
        }
        Some((path?, changes))
    }

    fn notebook_edit(&self) -> Option<Action> {
        let before = text(&self.response, &["old_source"]).unwrap_or_default();
        let after = text(&self.input, &["new_source"]).or_else(|| text(&self.response, &["new_source"]));
        let changes = after.into_iter().map(|after| EditHunk { before: before.clone(), after }).collect();
        Some(Action::Edit { path: self.path()?, changes })
    }

    fn write(&self) -> Option<Action> {
        let is = |pointer: &str, value: bool| self.response.pointer(pointer) == Some(&Value::Bool(value));
        let existed = text(&self.response, &["type"]).as_deref() == Some("update")
            || is("/returnDisplay/isNewFile", false)
            || is("/metadata/exists", true);
        let kind = if existed { WriteKind::Replaced } else { WriteKind::Created };
        let content = text(&self.input, CONTENT).or_else(|| text(&self.response, CONTENT));
        Some(Action::Write { path: self.path()?, content: content.unwrap_or_default(), kind })
    }

    fn command(&self) -> Option<Action> {
        let mut output = self.output();
        if let Some(complaint) = text(&self.response, &["stderr"]).filter(|complaint| !complaint.is_empty()) {
            if !output.is_empty() && !output.ends_with('\n') {
                output.push('\n');
            }
            output.push_str(&complaint);
        }
        Some(Action::Command {
            command: text(&self.input, COMMAND)?,
            description: text(&self.input, &["description", "explanation"]),
            output,
        })
    }

    fn search(&self) -> Option<Action> {
        let found: Vec<&str> = list(&self.response, "filenames").iter().filter_map(Value::as_str).collect();
        let output = text(&self.response, &["content"]).filter(|content| !content.is_empty());
        let output = output.or_else(|| Some(found.join("\n")).filter(|found| !found.is_empty()));
        Some(Action::Search {
            pattern: text(&self.input, PATTERN)?,
            path: text(&self.input, &["path", "file_path", "SearchDirectory", "SearchPath"])
                .filter(|path| !is_too_long(path)),
            output: output.unwrap_or_else(|| self.output()),
        })
    }

    fn fetch(&self) -> Option<Action> {
        let url = text(&self.input, &["url"]);
        let question = text(&self.input, &["query", "prompt"]);
        if url.is_none() && question.is_none() {
            return None;
        }
        let results: Vec<&str> = list(&self.response, "results").iter().filter_map(Value::as_str).collect();
        let output = Some(results.join("\n")).filter(|text| !text.is_empty());
        Some(Action::Fetch {
            url: url.unwrap_or_default(),
            question,
            output: output.unwrap_or_else(|| self.output()),
        })
    }

    fn delegate(&self) -> Option<Action> {
        let description = text(&self.input, &["description"]);
        let prompt = text(&self.input, PROMPT);
        if description.is_none() && prompt.is_none() {
            return None;
        }
        // A background agent is only started here. Its answer arrives with its own event.
        let answer = text(&self.response, &["text_result_for_llm", "textResultForLlm"]);
        let answer = answer.unwrap_or_else(|| blocks(list(&self.response, "content")));
        let answer = answer.trim();
        Some(Action::Delegate {
            description: description.unwrap_or_default(),
            prompt: prompt.unwrap_or_default(),
            answer: (!answer.is_empty()).then(|| answer.to_owned()),
        })
    }

    fn ask(&self) -> Option<Action> {
        let answers =
            [&self.response, &self.input].into_iter().find_map(|side| side.get("answers")?.as_object())?;
        let exchanges =
            answers.iter().map(|(question, answer)| (question.clone(), answer_text(answer))).collect();
        Some(Action::Ask { exchanges })
    }

    fn plan(&self) -> Option<Action> {
        let text_of_plan = text(&self.response, &["plan"])
            .or_else(|| text(&self.input, &["plan"]))
            .filter(|plan| !plan.is_empty())?;
        let path = text(&self.response, &["filePath"]).or_else(|| text(&self.input, &["planFilePath"]));
        Some(Action::Plan { text: text_of_plan, path })
    }

    fn tasks(&self) -> Option<Action> {
        let mut entries: Vec<(String, String)> = plans::TODOS
            .iter()
            .flat_map(|field| list(&self.input, field))
            .filter_map(|todo| Some((text(todo, plans::TODO)?, text(todo, &["status"]).unwrap_or_default())))
            .collect();
        let task = self.response.get("task").unwrap_or(&Value::Null);
        let subject = text(&self.input, &["subject"]).or_else(|| text(task, &["subject"]));
        let number = text(&self.input, &["taskId"]).map(|number| format!("task {number}"));
        if let Some(name) = subject.or(number) {
            let state = text(&self.input, &["status"]).unwrap_or_else(|| "pending".to_owned());
            entries.push((name, state));
        }
        (!entries.is_empty()).then_some(Action::Tasks { entries })
    }
}

/// Parsed JSON, or the text itself.
fn parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or_else(|_| Value::String(json.to_owned()))
}

/// The first of these fields that exists, as text.
fn text(value: &Value, fields: &[&str]) -> Option<String> {
    fields.iter().find_map(|field| match value.get(field)? {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    })
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value.get(field).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn change(edit: &Value) -> Option<EditHunk> {
    Some(EditHunk { before: text(edit, BEFORE).unwrap_or_default(), after: text(edit, AFTER)? })
}

/// A text, or the texts of an array.
fn text_of(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Array(parts) => {
            let texts = parts.iter().filter_map(|part| part.as_str().or_else(|| part.get("text")?.as_str()));
            Some(texts.collect::<Vec<_>>().join("\n"))
        }
        _ => None,
    }
}

/// The texts of content blocks, without the agent's own note about used tools.
fn blocks(content: &[Value]) -> String {
    let texts: Vec<&str> = content
        .iter()
        .filter_map(|block| block.get("text")?.as_str())
        .filter(|text| !text.starts_with("<tools-used-before-summary>"))
        .collect();
    texts.join("\n")
}

/// The user's answer. Several choices are joined.
fn answer_text(answer: &Value) -> String {
    match answer {
        Value::String(text) => text.clone(),
        Value::Array(choices) => choices.iter().map(answer_text).collect::<Vec<_>>().join(", "),
        other => other.to_string(),
    }
}

/// The text of a result of unknown format: its text blocks, else its JSON.
fn words(response: &str) -> String {
    let value = parse(response);
    let words = match &value {
        Value::Array(content) => blocks(content),
        Value::String(text) => text.clone(),
        other => {
            let field =
                OUTPUT.iter().find_map(|field| text_of(other.get(field)?).filter(|text| !text.is_empty()));
            field.unwrap_or_else(|| blocks(list(other, "content")))
        }
    };
    if words.is_empty() { response.to_owned() } else { words }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::claude_code::TOOLS;

    #[track_caller]
    fn check(tool: &str, input: &str, response: &str, expected: Action) {
        assert_eq!(TOOLS.action(tool, input, (!response.is_empty()).then_some(response)), expected);
    }

    fn owned(text: &str) -> String {
        text.to_owned()
    }

    #[test]
    fn only_calls_that_start_a_subagent_have_a_task() {
        let input =
            r#"{"description":"Review A","prompt":"Review the cart change","subagent_type":"Explore"}"#;
        let given = TOOLS.task("Agent", input).unwrap();
        assert_eq!(
            (given.kind.as_str(), given.text.as_str()),
            ("Explore", "Review A\nReview the cart change")
        );
        assert_eq!(TOOLS.task("Task", r#"{"prompt":"Look"}"#).unwrap().kind, "general-purpose");
        let long = format!(r#"{{"prompt":"{}"}}"#, "é".repeat(5_000));
        assert_eq!(TOOLS.task("Agent", &long).unwrap().text.len(), TASK_BYTES);
        for (name, input) in
            [("Bash", input), ("Agent", "{}"), ("Agent", r#"{"prompt":" "}"#), ("Agent", "7")]
        {
            assert_eq!(TOOLS.task(name, input), None, "{name} {input}");
        }
    }

    #[test]
    fn file_reads_edits_and_writes_are_parsed() {
        check("Read", r#"{"file_path":"/a/b.rs","limit":3}"#, "", Action::Read { path: owned("/a/b.rs") });
        check(
            "Edit",
            r#"{"file_path":"/a","old_string":"x","new_string":"y","replace_all":false}"#,
            r#"{"filePath":"/a","originalFile":"x"}"#,
            Action::Edit {
                path: owned("/a"),
                changes: vec![EditHunk { before: owned("x"), after: owned("y") }],
            },
        );
        check(
            "MultiEdit",
            r#"{"file_path":"/a","edits":[{"old_string":"1","new_string":"2"},{"old_string":"3","new_string":""}]}"#,
            "{}",
            Action::Edit {
                path: owned("/a"),
                changes: vec![
                    EditHunk { before: owned("1"), after: owned("2") },
                    EditHunk { before: owned("3"), after: owned("") },
                ],
            },
        );
        check(
            "NotebookEdit",
            r#"{"notebook_path":"/n.ipynb","new_source":"print(2)"}"#,
            r#"{"old_source":"print(1)"}"#,
            Action::Edit {
                path: owned("/n.ipynb"),
                changes: vec![EditHunk { before: owned("print(1)"), after: owned("print(2)") }],
            },
        );
        check(
            "Write",
            r#"{"file_path":"/a","content":"t"}"#,
            r#"{"type":"update"}"#,
            Action::Write { path: owned("/a"), content: owned("t"), kind: WriteKind::Replaced },
        );
    }

    #[test]
    fn command_output_contains_stdout_and_stderr() {
        check(
            "Bash",
            r#"{"command":"make","description":"Build"}"#,
            r#"{"stdout":"ok","stderr":"warning: x"}"#,
            Action::Command {
                command: owned("make"),
                description: Some(owned("Build")),
                output: owned("ok\nwarning: x"),
            },
        );
        check(
            "PowerShell",
            r#"{"command":"ls"}"#,
            "",
            Action::Command { command: owned("ls"), description: None, output: String::new() },
        );
    }

    #[test]
    fn searches_and_web_lookups_are_parsed() {
        check(
            "Glob",
            r#"{"pattern":"**/*.rs"}"#,
            r#"{"filenames":["a.rs","b.rs"]}"#,
            Action::Search { pattern: owned("**/*.rs"), path: None, output: owned("a.rs\nb.rs") },
        );
        check(
            "Grep",
            r#"{"pattern":"x","path":"/s"}"#,
            r#"{"filenames":[],"content":"a:1:x"}"#,
            Action::Search { pattern: owned("x"), path: Some(owned("/s")), output: owned("a:1:x") },
        );
        check(
            "WebSearch",
            r#"{"query":"rounding"}"#,
            r#"{"results":[{"content":[]},"Use cents."]}"#,
            Action::Fetch {
                url: String::new(),
                question: Some(owned("rounding")),
                output: owned("Use cents."),
            },
        );
    }

    #[test]
    fn user_answers_plans_and_tasks_are_parsed() {
        check(
            "AskUserQuestion",
            r#"{"questions":[],"answers":{"Which?":"EUR"}}"#,
            r#"{"answers":{"Which?":"EUR","And?":["a","b"]}}"#,
            Action::Ask { exchanges: vec![(owned("Which?"), owned("EUR")), (owned("And?"), owned("a, b"))] },
        );
        check(
            "ExitPlanMode",
            "{}",
            r##"{"plan":"# Plan","filePath":"/p.md"}"##,
            Action::Plan { text: owned("# Plan"), path: Some(owned("/p.md")) },
        );
        check(
            "TaskUpdate",
            r#"{"taskId":"1","status":"completed"}"#,
            "{}",
            Action::Tasks { entries: vec![(owned("task 1"), owned("completed"))] },
        );
        check(
            "TodoWrite",
            r#"{"todos":[{"content":"A","status":"pending"}]}"#,
            "{}",
            Action::Tasks { entries: vec![(owned("A"), owned("pending"))] },
        );
    }

    #[test]
    fn the_note_about_used_tools_is_removed_from_a_subagents_answer() {
        check(
            "Agent",
            r#"{"description":"d","prompt":"p"}"#,
            r#"{"content":[{"type":"text","text":"<tools-used-before-summary>x</tools-used-before-summary>"},{"type":"text","text":"Fine."}]}"#,
            Action::Delegate { description: owned("d"), prompt: owned("p"), answer: Some(owned("Fine.")) },
        );
        check(
            "Agent",
            r#"{"description":"d","prompt":"p"}"#,
            r#"{"isAsync":true,"status":"async_launched"}"#,
            Action::Delegate { description: owned("d"), prompt: owned("p"), answer: None },
        );
    }

    #[test]
    fn unrecognized_calls_keep_their_input_and_output() {
        let other = |input: &str, output: &str| Action::Other { input: owned(input), output: owned(output) };
        check(
            "mcp__stock__get",
            r#"{"sku":1}"#,
            r#"[{"type":"text","text":"42"}]"#,
            other(r#"{"sku":1}"#, "42"),
        );
        check("Read", r#"{"no":"path"}"#, "", other(r#"{"no":"path"}"#, ""));
        check("Bash", "not json", "also not", other("not json", "also not"));
    }

    proptest! {
        #[test]
        fn parsing_a_call_never_panics_and_is_deterministic(tool in "(Read|Edit|Bash|Agent|TodoWrite|Glob|x)", input in ".*", response in ".*") {
            let first = TOOLS.action(&tool, &input, Some(&response));
            prop_assert_eq!(first, TOOLS.action(&tool, &input, Some(&response)));
        }
    }
}
