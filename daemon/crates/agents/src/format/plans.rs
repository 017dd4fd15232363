//! The effects of a call on a plan, the task list or the set of subagents.
//!
//! In plan mode an agent writes a Markdown file with ordinary calls. Then it submits the plan, and the response
//! contains the approved text. This module does not decide whether a Markdown file is a plan.

use std::path::{Path, PathBuf};

use serde_json::Value;

use super::tool::Tool;
use crate::PlanRequest;
use crate::named_file::{self, RefusedFile};
use recall_domain::plan::{PlanChange, is_plan_file};
use recall_domain::task_list::{Task, TaskChange, TaskState};

/// The maximum size of a plan, in bytes. Nobody reads longer ones.
const LONGEST: usize = 256 << 10;

/// The fields with a whole task list, and with an entry's text.
pub(super) const TODOS: &[&str] = &["todos", "plan", "todoList"];
pub(super) const TODO: &[&str] = &["content", "step", "title"];

/// Parses a successful call.
pub(super) fn change(tool: Tool, input: &str, response: &str) -> Option<PlanChange> {
    match tool {
        // Most files are code, and are not parsed.
        Tool::Write | Tool::Edit if !input.contains(".md\"") => None,
        Tool::Write | Tool::Edit => file(&parse(input), &parse(response)),
        Tool::Plan => Some(approved(&parse(input), &parse(response))),
        Tool::TodoList | Tool::TaskCreate | Tool::TaskUpdate => {
            tasks(tool, &parse(input), &parse(response)).map(PlanChange::Tasks)
        }
        _ => None,
    }
}

/// The id of the subagent that a call started. Some responses are JSON in a text.
pub(super) fn launched(response: &str) -> Option<String> {
    let mut response = parse(response);
    if let Value::String(inner) = &response {
        response = parse(inner);
    }
    let inside = response.get("metadata").and_then(|metadata| text(metadata, "sessionId"));
    ["agentId", "agent_id"].iter().find_map(|field| text(&response, field)).or(inside)
}

fn parse(json: &str) -> Value {
    serde_json::from_str(json).unwrap_or(Value::Null)
}

fn text(value: &Value, field: &str) -> Option<String> {
    match value.get(field)? {
        Value::String(text) if !text.is_empty() => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        _ => None,
    }
}

/// The whole text of a Markdown file after the call.
fn file(input: &Value, response: &Value) -> Option<PlanChange> {
    let path = ["file_path", "filePath", "path"].iter().find_map(|field| text(input, field));
    let path = path.or_else(|| text(response, "filePath"))?;
    let whole = match text(input, "content") {
        Some(content) => content,
        None => edited(input, response)?,
    };
    (whole.len() <= LONGEST).then_some(PlanChange::File { path, text: whole })
}

/// Computes the text after an edit. The response contains the file's previous content.
fn edited(input: &Value, response: &Value) -> Option<String> {
    let mut whole = text(response, "originalFile").filter(|whole| whole.len() <= LONGEST)?;
    let several = input.get("edits").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    for edit in several.iter().chain(std::iter::once(input)) {
        let part = |field: &str| edit.get(field).and_then(Value::as_str);
        let (Some(old), Some(new)) = (part("old_string"), part("new_string")) else { continue };
        let everywhere = edit.get("replace_all").and_then(Value::as_bool) == Some(true);
        whole = if everywhere { whole.replace(old, new) } else { whole.replacen(old, new, 1) };
    }
    Some(whole)
}

/// PostToolUse has the text in its response. Other versions repeat the input of PreToolUse.
fn approved(input: &Value, response: &Value) -> PlanChange {
    let names = ["filePath", "file_path", "planFilePath"];
    let path = names.iter().find_map(|name| text(response, name)).or_else(|| text(input, "planFilePath"));
    let text = text(response, "plan").or_else(|| text(input, "plan"));
    PlanChange::Approved { path, text: text.filter(|text| text.len() <= LONGEST) }
}

/// Reads a plan's file. It must be in one of the agent's plan folders (`own`) or in one that the user configured.
/// Inside the user's home and the project every step of the path is checked, because the project's author made its
/// folders.
///
/// # Errors
/// The file is not trusted.
pub fn plan_file(own: Vec<PathBuf>, request: &PlanRequest) -> Result<Option<String>, RefusedFile> {
    let path = Path::new(&request.path);
    let mut folders = own;
    folders.extend(request.folders.iter().map(PathBuf::from).filter(|folder| folder.is_absolute()));
    if is_plan_file(&request.path, &request.folders) {
        folders.push(request.home.clone());
        folders.extend(request.root.as_ref().map(PathBuf::from));
    }
    let mut file = named_file::open(&folders, path, "md")?;
    let bytes = named_file::tail(&mut file, LONGEST as u64 + 1)?;
    let text = Some(String::from_utf8_lossy(&bytes).into_owned());
    Ok(text.filter(|_| bytes.len() <= LONGEST).filter(|text| !text.trim().is_empty()))
}

fn tasks(tool: Tool, input: &Value, response: &Value) -> Option<TaskChange> {
    match tool {
        Tool::TodoList => {
            let todos = TODOS.iter().find_map(|field| input.get(field)?.as_array())?.iter();
            let task = |todo| {
                Some(Task {
                    subject: TODO.iter().find_map(|field| text(todo, field))?,
                    state: state(todo).unwrap_or(TaskState::Pending),
                })
            };
            Some(TaskChange::List(todos.filter_map(task).collect()))
        }
        Tool::TaskCreate => {
            let task = response.get("task").unwrap_or(&Value::Null);
            Some(TaskChange::Add {
                id: text(task, "id")?,
                subject: text(input, "subject").or_else(|| text(task, "subject"))?,
            })
        }
        _ => Some(TaskChange::Update {
            id: text(input, "taskId")?,
            subject: text(input, "subject"),
            state: state(input),
        }),
    }
}

fn state(value: &Value) -> Option<TaskState> {
    text(value, "status").map(|word| TaskState::parse(&word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_or_edit_of_a_markdown_file_yields_its_whole_text() {
        let file = |path: &str, text: &str| Some(PlanChange::File { path: path.into(), text: text.into() });
        assert_eq!(
            change(Tool::Write, r##"{"file_path":"/p/a.md","content":"# A"}"##, "null"),
            file("/p/a.md", "# A")
        );
        let edit = r#"{"file_path":"/p/a.md","old_string":"x","new_string":"y","replace_all":true}"#;
        assert_eq!(change(Tool::Edit, edit, r#"{"originalFile":"x and x"}"#), file("/p/a.md", "y and y"));
        let edits = r#"{"file_path":"/p/a.md","edits":[{"old_string":"1","new_string":"2"},{"old_string":"b","new_string":""}]}"#;
        assert_eq!(change(Tool::Edit, edits, r#"{"originalFile":"1b1"}"#), file("/p/a.md", "21"));
        assert_eq!(change(Tool::Edit, edit, "null"), None);
        assert_eq!(change(Tool::Write, r#"{"file_path":"/p/a.rs","content":"x"}"#, "null"), None);
    }

    #[test]
    fn a_plan_approval_has_the_approved_text_and_path() {
        let approved = |path: Option<&str>, text: Option<&str>| {
            Some(PlanChange::Approved { path: path.map(str::to_owned), text: text.map(str::to_owned) })
        };
        let response = r##"{"plan":"# P","filePath":"/p.md"}"##;
        assert_eq!(change(Tool::Plan, "{}", response), approved(Some("/p.md"), Some("# P")));
        assert_eq!(change(Tool::Plan, r#"{"plan":"P"}"#, "null"), approved(None, Some("P")));
        for name in ["filePath", "file_path", "planFilePath"] {
            let response = format!(r#"{{"{name}":"/p.md"}}"#);
            assert_eq!(change(Tool::Plan, "{}", &response), approved(Some("/p.md"), None));
        }
    }

    #[test]
    fn only_files_inside_plan_folders_are_read() {
        let home = tempfile::tempdir().unwrap();
        let at = |name: &str| home.path().join(name);
        for folder in [".claude/plans", "shop/.claude/plans", "moved/plans", "team"] {
            std::fs::create_dir_all(at(folder)).unwrap();
            std::fs::write(at(folder).join("a.md"), format!("# {folder}")).unwrap();
        }
        std::fs::write(at("shop/README.md"), "# Shop").unwrap();
        std::fs::write(at(".claude/plans/long.md"), "x".repeat(LONGEST + 1)).unwrap();
        std::os::unix::fs::symlink(at("shop/README.md"), at(".claude/plans/link.md")).unwrap();
        std::fs::create_dir_all(at("evil/.claude")).unwrap();
        std::os::unix::fs::symlink(at("team"), at("evil/.claude/plans")).unwrap();
        let read = |name: &str, root: &str| {
            let folder = |name: &str| at(name).to_string_lossy().into_owned();
            let own = vec![at(if name.starts_with("moved") { "moved" } else { ".claude" }).join("plans")];
            let request = PlanRequest {
                path: folder(name),
                home: at("nobody"),
                config_dir: None,
                root: Some(folder(root)),
                folders: vec![".claude/plans".to_owned(), folder("team")],
            };
            plan_file(own, &request)
        };
        let plan = |name: &str| read(name, "shop").unwrap();
        assert_eq!(plan(".claude/plans/a.md").as_deref(), Some("# .claude/plans"));
        assert_eq!(plan("moved/plans/a.md").as_deref(), Some("# moved/plans"));
        assert_eq!(plan("team/a.md").as_deref(), Some("# team"));
        assert_eq!(plan("shop/.claude/plans/a.md").as_deref(), Some("# shop/.claude/plans"));
        assert_eq!(plan(".claude/plans/long.md"), None);
        for other in
            ["shop/README.md", ".claude/plans/link.md", ".claude/plans/../../shop/README.md", "none.md"]
        {
            assert!(read(other, "shop").is_err(), "{other}");
        }
        assert!(read("evil/.claude/plans/a.md", "evil").is_err());
    }

    #[test]
    fn tasks_are_parsed_from_a_list_or_one_by_one() {
        let add = change(Tool::TaskCreate, r#"{"subject":"S"}"#, r#"{"task":{"id":"1"}}"#);
        assert_eq!(add, Some(PlanChange::Tasks(TaskChange::Add { id: "1".into(), subject: "S".into() })));
        let update = change(Tool::TaskUpdate, r#"{"taskId":1,"status":"completed"}"#, "{}");
        let done = TaskChange::Update { id: "1".into(), subject: None, state: Some(TaskState::Done) };
        assert_eq!(update, Some(PlanChange::Tasks(done)));
        let list = change(Tool::TodoList, r#"{"todos":[{"content":"A","status":"in_progress"},{}]}"#, "{}");
        let tasks = vec![Task { subject: "A".into(), state: TaskState::Running }];
        assert_eq!(list, Some(PlanChange::Tasks(TaskChange::List(tasks))));
    }

    #[test]
    fn the_id_of_a_started_subagent_is_read() {
        assert_eq!(launched(r#"{"agentId":"a1","status":"async_launched"}"#).as_deref(), Some("a1"));
        assert_eq!(launched("[]"), None);
    }
}
