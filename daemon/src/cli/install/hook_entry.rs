//! One hook as an agent's settings name it: how recall writes its own, and how it knows them again.
//!
//! An entry is ours when the *file name* of its program is `recall-shim` (or `recall-shim.exe`), in whatever folder
//! and form. A part of a name never counts: `total-recall-backup.sh` belongs to somebody else.

use jsonc_parser::cst::CstInputValue;
use serde_json::{Map, Value};

/// The file name, without `.exe`, by which an entry of ours is recognised.
const PROGRAM: &str = "recall-shim";

/// A hook that recall wants to have registered: one event, one program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hook {
    /// The agent's name of the event.
    pub event: &'static str,
    pub command: HookCommand,
    /// How long the agent may wait, in seconds.
    pub timeout_s: u32,
}

/// How the agent starts the program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HookCommand {
    /// Started directly, without a shell: `command` is the program and `args` its arguments.
    Exec { program: String, args: Vec<String> },
    /// A line for `/bin/sh -c`, for versions that know nothing else.
    Shell(String),
}

impl HookCommand {
    /// The shell line that starts `program` with `args`, quoted where a shell would read more into it.
    ///
    /// Only a NUL byte cannot be quoted, and neither a path nor an argument can hold one; such a word is left out.
    pub fn shell(program: &str, args: &[&str]) -> Self {
        let words = std::iter::once(program).chain(args.iter().copied());
        let quoted: Vec<_> = words.filter_map(|word| shlex::try_quote(word).ok()).collect();
        Self::Shell(quoted.join(" "))
    }
}

impl Hook {
    /// What the entry says, in the order in which people write these keys.
    pub fn fields(&self) -> Map<String, Value> {
        let mut entry = Map::new();
        entry.insert("type".into(), "command".into());
        match &self.command {
            HookCommand::Exec { program, args } => {
                entry.insert("command".into(), program.as_str().into());
                entry.insert("args".into(), args.iter().map(String::as_str).collect());
            }
            HookCommand::Shell(line) => {
                entry.insert("command".into(), line.as_str().into());
            }
        }
        entry.insert("timeout".into(), self.timeout_s.into());
        entry
    }

    /// The group that holds this entry alone. It has no matcher: recall wants every occurrence of the event.
    pub fn to_group(&self) -> CstInputValue {
        let entry = input(Value::Object(self.fields()));
        CstInputValue::Object(vec![("hooks".into(), CstInputValue::Array(vec![entry]))])
    }

    /// True when `entry` says exactly what this hook would be written as.
    pub fn is_written_as(&self, entry: &Value) -> bool {
        entry.as_object().is_some_and(|entry| *entry == self.fields())
    }
}

/// A value as the editor of settings files takes it.
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

/// The program of a hook entry if it is recall's shim, as the entry spells it.
pub fn shim_of(entry: &Value) -> Option<String> {
    let entry = entry.as_object()?;
    // An entry without a type is none the agent would run, but if it names our program it is ours to clean up.
    if entry.get("type").is_some_and(|kind| kind != "command") {
        return None;
    }
    let command = entry.get("command")?.as_str()?;
    if entry.contains_key("args") {
        return is_shim(command).then(|| command.to_owned());
    }
    // A shell eats backslashes, so a Windows path survives only when the line is also split at blanks.
    let words = shlex::split(command).unwrap_or_default();
    let posix = words.into_iter().find(|word| !is_assignment(word));
    let blank = command.split_whitespace().next().map(|word| word.trim_matches('"').to_owned());
    posix.into_iter().chain(blank).find(|program| is_shim(program))
}

/// True for `NAME=value`, which a shell line may put before its program.
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
    use serde_json::json;

    #[track_caller]
    fn check(entry: Value, shim: Option<&str>) {
        assert_eq!(shim_of(&entry).as_deref(), shim, "{entry}");
    }

    #[test]
    fn our_entries_are_known_by_the_program_s_file_name() {
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
    fn what_merely_sounds_like_us_is_somebody_else_s() {
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

    #[test]
    fn a_shell_line_quotes_only_what_needs_it() {
        let shell = |program| HookCommand::shell(program, &["claude-code"]);
        assert_eq!(
            shell("/usr/bin/recall-shim"),
            HookCommand::Shell("/usr/bin/recall-shim claude-code".into())
        );
        assert_eq!(shell("/a b/recall-shim"), HookCommand::Shell("'/a b/recall-shim' claude-code".into()));
    }

    proptest! {
        #[test]
        fn a_shim_in_any_folder_is_found_again_in_both_forms(folder in "/[^\0/\r\n]{0,40}") {
            let program = format!("{folder}/recall-shim");
            let shell = HookCommand::shell(&program, &["claude-code"]);
            let exec = HookCommand::Exec { program: program.clone(), args: vec!["claude-code".into()] };
            for command in [shell, exec] {
                let entry = Value::Object(Hook { event: "Stop", command, timeout_s: 10 }.fields());
                prop_assert_eq!(shim_of(&entry), Some(program.clone()));
            }
        }

        #[test]
        fn no_command_line_makes_it_stumble(line in ".{0,80}") {
            let entry = json!({"type": "command", "command": line});
            if let Some(shim) = shim_of(&entry) {
                prop_assert!(shim.ends_with("recall-shim") || shim.ends_with("recall-shim.exe"));
            }
        }
    }
}
