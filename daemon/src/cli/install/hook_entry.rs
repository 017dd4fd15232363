//! A hook entry in an agent's settings: how recall writes its own entries and recognises them.
//!
//! An entry belongs to recall if the *file name* of its program is `recall-shim` or `recall-shim.exe`, in any folder
//! and form. A partial match does not count: `total-recall-backup.sh` belongs to somebody else.

use jsonc_parser::cst::CstInputValue;
use serde_json::{Map, Value};

use recall_agents::settings::{Groups, JsonHooks};

/// The file name, without `.exe`, that identifies recall's entries.
const PROGRAM: &str = "recall-shim";

/// A hook to register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The agent's name for the event.
    pub event: &'static str,
    /// The content of the entry, in the usual order of keys.
    pub entry: Map<String, Value>,
}

impl Hook {
    /// Returns the entry as an element of its event. A group has a matcher only if the agent needs one for every
    /// event.
    pub fn to_element(&self, json: &JsonHooks) -> CstInputValue {
        let entry = input(Value::Object(self.entry.clone()));
        match json.groups_of(self.event) {
            Groups::Nested => {
                let matcher = json.matcher.map(|matcher| ("matcher".to_owned(), input(matcher.into())));
                let hooks = ("hooks".to_owned(), CstInputValue::Array(vec![entry]));
                CstInputValue::Object(matcher.into_iter().chain([hooks]).collect())
            }
            Groups::Flat => entry,
        }
    }

    /// Whether `entry` is exactly what recall would write.
    pub fn is_written_as(&self, entry: &Value) -> bool {
        entry.as_object().is_some_and(|entry| *entry == self.entry)
    }
}

/// Converts a value for the settings editor.
pub fn input(value: Value) -> CstInputValue {
    match value {
        Value::Null => CstInputValue::Null,
        Value::Bool(bool) => CstInputValue::Bool(bool),
        Value::Number(number) => CstInputValue::Number(number.to_string()),
        Value::String(text) => CstInputValue::String(text),
        Value::Array(items) => CstInputValue::Array(items.into_iter().map(input).collect()),
        Value::Object(map) => {
            CstInputValue::Object(map.into_iter().map(|(key, value)| (key, input(value))).collect())
        }
    }
}

/// Returns the path of recall's shim as written in a hook entry, or `None` for another program.
pub fn shim_of(entry: &Value) -> Option<String> {
    let entry = entry.as_object()?;
    // The agent would not run an entry without a type, but if it names our program we clean it up.
    if entry.get("type").is_some_and(|kind| kind != "command") {
        return None;
    }
    let command = entry.get("command")?.as_str()?;
    if entry.contains_key("args") {
        return is_shim(command).then(|| command.to_owned());
    }
    // A shell removes backslashes, so the line is also split at spaces to keep Windows paths.
    let words = shlex::split(command).unwrap_or_default();
    let posix = words.into_iter().find(|word| !is_assignment(word));
    let blank = command.split_whitespace().next().map(|word| word.trim_matches('"').to_owned());
    posix.into_iter().chain(blank).find(|program| is_shim(program))
}

/// Whether the word is `NAME=value`, which may precede the program in a shell line.
fn is_assignment(word: &str) -> bool {
    word.split_once('=').is_some_and(|(name, _)| {
        !name.is_empty() && name.bytes().all(|byte| byte == b'_' || byte.is_ascii_alphanumeric())
    })
}

fn is_shim(program: &str) -> bool {
    let name = program.rsplit(['/', '\\']).next().unwrap_or(program);
    name == PROGRAM || name.strip_suffix(".exe") == Some(PROGRAM)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use recall_agents::settings::shell_line;
    use serde_json::json;

    #[track_caller]
    fn check(entry: Value, shim: Option<&str>) {
        assert_eq!(shim_of(&entry).as_deref(), shim, "{entry}");
    }

    #[test]
    fn own_entries_are_recognised_by_the_programs_file_name() {
        let line = |command: &str| json!({"type": "command", "command": command});
        check(line("recall-shim"), Some("recall-shim"));
        check(line("/opt/recall-0.0.1/recall-shim claude-code Stop"), Some("/opt/recall-0.0.1/recall-shim"));
        check(line("'/home/a b/recall-shim' claude-code"), Some("/home/a b/recall-shim"));
        check(
            line("~/.local/bin/recall-shim claude-code 2>/dev/null || true"),
            Some("~/.local/bin/recall-shim"),
        );
        check(line("RECALL_HOME=/tmp/r /usr/bin/recall-shim codex"), Some("/usr/bin/recall-shim"));
        check(line(r"C:\Users\dev\recall-shim.exe claude-code"), Some(r"C:\Users\dev\recall-shim.exe"));
        check(line(r#""C:\Program Files\recall-shim.exe" x"#), Some(r"C:\Program Files\recall-shim.exe"));
        check(json!({"command": "/a b/recall-shim", "args": ["claude-code"]}), Some("/a b/recall-shim"));
    }

    #[test]
    fn lookalike_entries_are_not_recognised_as_own() {
        let line = |command: &str| json!({"type": "command", "command": command});
        check(line("/home/dev/bin/total-recall-backup.sh"), None);
        check(line("/home/dev/bin/recall-shim-wrapper"), None);
        check(line("my-recall-shim"), None);
        check(line("/opt/recall-shim/bin/other"), None);
        check(line("echo recall-shim"), None);
        check(line("notify 'recall-shim'"), None);
        check(line("'unbalanced recall-shim"), None);
        check(line(""), None);
        check(json!({"type": "prompt", "command": "recall-shim"}), None);
        check(json!({"type": "command", "command": "node", "args": ["/x/recall-shim"]}), None);
        check(json!({"type": "command", "command": "/x/recall-shim claude-code", "args": []}), None);
        check(json!({"type": "http", "url": "https://example.com/recall-shim"}), None);
        check(json!(["recall-shim"]), None);
        check(json!({"command": 7}), None);
    }

    proptest! {
        #[test]
        fn a_shim_in_any_folder_is_recognised_in_both_entry_forms(folder in "/[^\0/\r\n]{0,40}") {
            let program = format!("{folder}/recall-shim");
            let shell = json!({"command": shell_line(&program, &["claude-code"])});
            let exec = json!({"command": program, "args": ["claude-code"]});
            for entry in [shell, exec] {
                prop_assert_eq!(shim_of(&entry), Some(program.clone()));
            }
        }

        #[test]
        fn any_command_line_gives_a_shim_path_or_nothing(line in ".{0,80}") {
            let entry = json!({"type": "command", "command": line});
            if let Some(shim) = shim_of(&entry) {
                prop_assert!(shim.ends_with("recall-shim") || shim.ends_with("recall-shim.exe"));
            }
        }
    }
}
