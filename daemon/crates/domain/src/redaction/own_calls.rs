//! Detects calls by which an agent queries recall itself: through its MCP server, in any agent's spelling, or by a
//! shell command.
//!
//! Their answers, and often their questions, repeat what is already stored. If kept with the call, they would be found
//! a second time, and would survive the forgetting of what they repeat. So only the tool's name and the ids are kept.

use std::fmt::Write as _;

use serde_json::{Value, json};

use super::json_text::{Role, StringPlace, rewrite};
use super::shell_words;
use crate::event::{HookEvent, HookEventKind, ToolCall, ToolResult, ToolStart};

const PROGRAM: &str = "recall";
/// The tools of the server.
const TOOLS: [&str; 12] = [
    "search",
    "timeline",
    "get_observations",
    "recent_context",
    "file_history",
    "how",
    "fix",
    "blame",
    "friction",
    "code_outline",
    "remember",
    "resolve",
];
/// Tool names that no other server is likely to have. Some agents do not name the server.
const DISTINCTIVE: [&str; 3] = ["get_observations", "recent_context", "file_history"];
/// Words that may surround the names of the server and the tool.
const AROUND: [&str; 6] = ["mcp", "plugin", "server", "tool", "tools", "functions"];
/// The prefix of a resource address of the server.
const ADDRESS: &str = "recall://";
/// Fields that name the server when one tool calls all servers; in lower case without underscores.
const SERVER_FIELDS: [&str; 3] = ["server", "servername", "mcpservername"];
/// Fields that contain a command.
const COMMAND_FIELDS: [&str; 6] = ["command", "cmd", "script", "commandline", "args", "code"];
/// Fields that contain ids of items.
const ID_FIELDS: [&str; 3] = ["id", "ids", "anchor"];
/// Commands that reveal nothing stored.
const SILENT: [&str; 9] =
    ["install", "uninstall", "doctor", "config", "completions", "man", "model", "daemon", "help"];
/// Commands that print or store content. They identify the program where it is not the first word.
const SECRET_COMMANDS: [&str; 26] = [
    "search", "show", "timeline", "context", "why", "sessions", "sql", "export", "import", "remember",
    "edit", "pin", "undo", "resolve", "forget", "stats", "events", "status", "guard", "mcp", "ctl", "wrong",
    "review", "improve", "handoff", "friction",
];
/// Programs whose arguments are texts.
const TAKES_WORDS: [&str; 12] =
    ["echo", "printf", "git", "gh", "grep", "egrep", "fgrep", "rg", "ag", "ack", "sed", "awk"];
/// Words that precede a command.
const PREFIXES: [&str; 14] = [
    "sudo", "env", "time", "command", "builtin", "exec", "nice", "nohup", "then", "do", "else", "if",
    "while", "!",
];
/// The maximum nesting depth of commands inside words.
const MOST_DEPTH: usize = 2;
/// The number of bytes of a command that are examined.
const MOST_BYTES: usize = 64 << 10;
/// The maximum number of ids kept per call.
const MOST_IDS: usize = 100;

/// Whether a call queries recall. `input` is the agent's JSON, or what [`without_answers`] left of it.
pub fn is_own(tool: &str, input: &str) -> bool {
    Own::of(tool, input).is_some()
}

/// Returns the event without questions to recall and its answers.
pub fn without_answers(event: HookEvent) -> HookEvent {
    let what = match event.what {
        HookEventKind::ToolStart(start) => HookEventKind::ToolStart(of_start(start)),
        HookEventKind::Tool(call) => HookEventKind::Tool(of_call(call)),
        HookEventKind::ToolBatch(calls) => HookEventKind::ToolBatch(calls.into_iter().map(of_call).collect()),
        HookEventKind::Other { name, detail } => {
            let detail = match Own::of("", &detail) {
                Some(own) => own.reduced(&detail),
                None => detail,
            };
            HookEventKind::Other { name, detail }
        }
        what => what,
    };
    HookEvent { what, ..event }
}

fn of_start(start: ToolStart) -> ToolStart {
    match Own::of(&start.name, &start.input) {
        Some(own) => ToolStart { input: own.reduced(&start.input), file: None, task: None, ..start },
        None => start,
    }
}

fn of_call(call: ToolCall) -> ToolCall {
    let Some(own) = Own::of(&call.name, &call.input) else { return call };
    let result = match call.result {
        ToolResult::Done(_) => ToolResult::Done(String::new()),
        ToolResult::Failed(_) => ToolResult::Failed(String::new()),
    };
    ToolCall { input: own.reduced(&call.input), result, plan: None, rewrote: None, ..call }
}

/// How a call queries recall.
enum Own {
    /// The tool's name says so.
    Tool,
    /// The input names the server, or its tool.
    Server,
    /// The input runs these commands: each is the program with its command and ids.
    Commands(Vec<String>),
}

impl Own {
    fn of(tool: &str, input: &str) -> Option<Self> {
        if is_own_tool(tool) {
            return Some(Self::Tool);
        }
        // Nearly no call names the program, and inputs are long.
        memchr::memmem::find(input.as_bytes(), PROGRAM.as_bytes())?;
        let (mut commands, mut is_of_server) = (Vec::new(), false);
        rewrite(input, |StringPlace { role, text }| {
            if let Role::Value { key } | Role::Element { key } = role {
                let key = key.replace('_', "").to_ascii_lowercase();
                is_of_server |= (SERVER_FIELDS.contains(&key.as_str()) && text == PROGRAM)
                    || (key == "uri" && text.starts_with(ADDRESS))
                    || (key == "toolname" && is_own_tool(text));
                // A single word among several may be anything.
                let is_argument = key == "args" && text == PROGRAM;
                if !is_argument && COMMAND_FIELDS.contains(&key.as_str()) {
                    own_commands(text, 0, &mut commands);
                }
            }
            Vec::new()
        });
        match (is_of_server, commands.is_empty()) {
            (true, _) => Some(Self::Server),
            (false, false) => Some(Self::Commands(commands)),
            (false, true) => None,
        }
    }

    /// Reduces the input to what is kept. The result still counts as a query.
    fn reduced(&self, input: &str) -> String {
        let ids = || ids_in(input);
        let kept = match self {
            Self::Tool => json!({"ids": ids()}),
            Self::Server => json!({"server": PROGRAM, "ids": ids()}),
            Self::Commands(commands) => json!({"command": commands.join("; ")}),
        };
        kept.to_string()
    }
}

/// Whether a name is that of one of the server's tools, as agents compose it: `mcp__recall__search`, `recall-search`,
/// `@recall/search`, `mcp__plugin_recall_recall__search`.
fn is_own_tool(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let words: Vec<&str> =
        name.split(|char: char| !char.is_alphanumeric()).filter(|word| !word.is_empty()).collect();
    TOOLS.iter().any(|tool| {
        let of_tool: Vec<&str> = tool.split('_').collect();
        let rest = words.strip_suffix(&of_tool[..]).or_else(|| words.strip_prefix(&of_tool[..]));
        rest.is_some_and(|rest| {
            let names_server = rest.contains(&PROGRAM);
            (names_server || DISTINCTIVE.contains(tool))
                && rest.iter().all(|word| *word == PROGRAM || AROUND.contains(word))
        })
    })
}

/// Returns the ids that an input names. Free text is not an id.
fn ids_in(input: &str) -> Vec<Value> {
    fn collect(field: &str, value: &Value, ids: &mut Vec<Value>) {
        let is_id = ID_FIELDS.contains(&field);
        match value {
            Value::Object(fields) => fields.iter().for_each(|(field, value)| collect(field, value, ids)),
            Value::Array(elements) => elements.iter().for_each(|element| collect(field, element, ids)),
            Value::Number(_) if is_id => ids.push(value.clone()),
            Value::String(text) if is_id && is_id_word(text) => ids.push(value.clone()),
            // Some agents put the arguments into a string.
            Value::String(text) if text.starts_with('{') => {
                if let Ok(inner @ Value::Object(_)) = serde_json::from_str(text) {
                    collect("", &inner, ids);
                }
            }
            _ => {}
        }
    }
    let mut ids = Vec::new();
    collect("", &serde_json::from_str(input).unwrap_or(Value::Null), &mut ids);
    ids.truncate(MOST_IDS);
    ids
}

/// Whether a word is an item's id, such as `12`, `#12` or `s3`.
fn is_id_word(word: &str) -> bool {
    let number = word.strip_prefix('#').unwrap_or(word);
    let number = number.strip_prefix(|char: char| char.is_ascii_alphabetic()).unwrap_or(number);
    !number.is_empty() && number.len() <= 19 && number.bytes().all(|byte| byte.is_ascii_digit())
}

/// Collects the recall commands that a command runs.
fn own_commands(command: &str, depth: usize, found: &mut Vec<String>) {
    if !command.contains(PROGRAM) {
        return;
    }
    let command = command.get(..command.floor_char_boundary(MOST_BYTES)).unwrap_or(command);
    let (mut program, mut own): (Option<String>, Option<String>) = (None, None);
    let mut before = 0;
    for word in shell_words::read(command) {
        let gap = command.get(before..word.range.start).unwrap_or_default();
        let source = command.get(word.range.clone()).unwrap_or_default();
        before = word.range.end;
        if gap.contains([';', '|', '&', '\n', '(', ')', '`']) {
            (program, own) = (None, finish(own, found));
        }
        let Some(text) = word.names.first() else { continue };
        let name = text.rsplit('/').next().unwrap_or(text);
        let takes_words = program.as_deref().is_some_and(|program| TAKES_WORDS.contains(&program));
        if text.contains("mcp") && is_own_tool(text) {
            // A program that calls tools.
            found.push(text.clone());
        } else if text.contains(char::is_whitespace) {
            if depth < MOST_DEPTH && !takes_words && own.is_none() {
                own_commands(text, depth + 1, found);
            }
        } else if let Some(own) = &mut own {
            if own == PROGRAM || is_id_word(text) {
                let _ = write!(own, " {text}");
            }
        } else if program.is_none() && (is_assignment(source) || PREFIXES.contains(&text.as_str())) {
        } else if name == PROGRAM && !takes_words {
            let follows = || follower(command.get(word.range.end..).unwrap_or_default());
            let is_first = program.is_none();
            let is_own = match follows() {
                Some(next) if is_first => !SILENT.contains(&next.as_str()),
                Some(next) => SECRET_COMMANDS.contains(&next.as_str()),
                None => is_first,
            };
            own = is_own.then(|| PROGRAM.to_owned());
            program.get_or_insert_with(|| name.to_owned());
        } else {
            program.get_or_insert_with(|| name.to_owned());
        }
    }
    finish(own, found);
}

fn finish(own: Option<String>, found: &mut Vec<String>) -> Option<String> {
    found.extend(own);
    None
}

fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_')
    })
}

/// Returns the word after the program in the same command.
fn follower(rest: &str) -> Option<String> {
    let word = shell_words::read(rest).into_iter().next()?;
    let gap = rest.get(..word.range.start)?;
    if gap.contains([';', '|', '&', '\n', '(', ')', '`', '<', '>']) {
        return None;
    }
    word.names.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::SessionId;

    fn event(what: HookEventKind) -> HookEvent {
        HookEvent::bare(SessionId::from("s"), what)
    }

    #[test]
    fn an_event_about_a_recall_call_keeps_no_query_text() {
        let left = |detail: &str| {
            let other =
                HookEventKind::Other { name: "PermissionRequest".to_owned(), detail: detail.to_owned() };
            let HookEventKind::Other { detail, .. } = without_answers(event(other)).what else {
                panic!("another")
            };
            detail
        };
        for (detail, kept) in [
            (
                r#"{"tool_name":"mcp__recall__search","tool_input":{"query":"wombat"}}"#,
                r#"{"server":"recall","ids":[]}"#,
            ),
            (
                r#"{"tool_name":"Bash","tool_input":{"command":"recall search wombat"}}"#,
                r#"{"command":"recall search"}"#,
            ),
            (r#"{"message":"recall is wanted"}"#, r#"{"message":"recall is wanted"}"#),
        ] {
            assert_eq!(left(detail), kept);
        }
    }

    #[track_caller]
    fn left_of(name: &str, input: &str) -> Option<String> {
        let call = ToolCall {
            name: name.to_owned(),
            use_id: Some("t".into()),
            input: input.to_owned(),
            result: ToolResult::Done("\"the wombat cache\"".to_owned()),
            duration_ms: None,
            plan: None,
            launched: None,
            rewrote: None,
        };
        let event = event(HookEventKind::Tool(call.clone()));
        let HookEventKind::Tool(left) = without_answers(event).what else { panic!("another event") };
        if left == call {
            return None;
        }
        assert_eq!(left.result, ToolResult::Done(String::new()), "{name} {input}");
        assert_eq!((&left.name, &left.use_id), (&call.name, &call.use_id));
        assert!(is_own(&left.name, &left.input), "{name} {} is known again", left.input);
        Some(left.input)
    }

    #[test]
    fn calls_of_recall_tools_are_recognised_in_every_spelling_and_keep_only_ids() {
        for name in [
            "mcp__recall__get_observations",
            "mcp__plugin_recall_recall__get_observations",
            "mcp_recall_get_observations",
            "recall-get_observations",
            "recall_get_observations",
            "recall__get_observations",
            "recall___get_observations",
            "recall.get_observations",
            "recall:get_observations",
            "@recall/get_observations",
            "MCP:get_observations",
            "get_observations_recall",
            "functions.mcp__recall__get_observations",
        ] {
            let left = left_of(name, r#"{"ids":[1,"p12","the wombat cache"],"query":"wombat"}"#);
            assert_eq!(left.as_deref(), Some(r#"{"ids":[1,"p12"]}"#), "{name}");
        }
        for tool in TOOLS {
            let left = left_of(&format!("mcp__recall__{tool}"), r#"{"query":"wombat","limit":3}"#);
            assert_eq!(left.as_deref(), Some(r#"{"ids":[]}"#), "{tool}");
        }
        for name in ["mcp__github__search", "search", "MCP:search", "mcp__recalls__search", "Grep", "recall"]
        {
            assert_eq!(left_of(name, r#"{"query":"wombat"}"#), None, "{name}");
        }
    }

    #[test]
    fn a_recall_call_through_a_generic_tool_is_recognised_by_its_input() {
        for (input, left) in [
            (
                r#"{"server_name":"recall","tool_name":"get_observations","arguments":"{\"ids\":[3]}"}"#,
                r#"{"server":"recall","ids":[3]}"#,
            ),
            (r#"{"server":"recall","uri":"recall://session/s1"}"#, r#"{"server":"recall","ids":[]}"#),
        ] {
            assert_eq!(left_of("use_tool", input).as_deref(), Some(left));
        }
        assert_eq!(left_of("use_tool", r#"{"server":"stock","note":"recall"}"#), None);
    }

    #[test]
    fn recall_commands_are_recognised_within_shell_commands_and_code() {
        for (command, left) in [
            ("recall show 12", "recall show 12"),
            ("recall search wombat cache --all", "recall search"),
            ("/usr/local/bin/recall why 'the wombat cache'", "recall why"),
            ("RECALL_HOME=/x recall --no-pager show 1 s3 | head -3", "recall show 1 s3"),
            ("cd /src && recall show 12 > notes.md", "recall show 12"),
            ("make; (recall timeline 3)", "recall timeline 3"),
            ("bash -lc 'recall show 7 | cat'", "recall show 7"),
            ("timeout 5 target/debug/recall sql 'select text from prompts'", "recall sql"),
            ("X=$(recall show 4)", "recall show 4"),
            ("echo the wombat cache | recall remember -", "recall remember"),
            ("recall", "recall"),
            ("recall show 1 && recall show 2", "recall show 1; recall show 2"),
        ] {
            let input = json!({"command": command, "description": "the wombat cache"}).to_string();
            let left_input = json!({"command": left}).to_string();
            assert_eq!(left_of("Bash", &input), Some(left_input), "{command}");
        }
        let code = r#"{"code":"const r = await tools.mcp__recall__search({query: \"the wombat cache\"})"}"#;
        let left = r#"{"command":"tools.mcp__recall__search"}"#;
        assert_eq!(left_of("exec", code).as_deref(), Some(left));
        assert_eq!(left_of("Skill", r#"{"skill":"recall","args":"recall"}"#), None);
        let input = r#"{"command":["bash","-lc","recall show 9"]}"#;
        assert_eq!(left_of("shell", input).as_deref(), Some(r#"{"command":"recall show 9"}"#));
        for command in [
            "cargo test -p recall",
            "git commit -m 'recall: show notes'",
            "grep -rn recall show",
            "echo recall show 1",
            "ls recall",
            "recall install --mcp",
            "recall doctor",
            "cd recall && make",
            "cat recall/show.rs",
            "precision and recall of search",
        ] {
            let input = json!({"command": command}).to_string();
            assert_eq!(left_of("Bash", &input), None, "{command}");
        }
    }
}
