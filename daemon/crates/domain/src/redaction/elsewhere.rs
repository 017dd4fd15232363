//! Hides files of excluded projects when another project's call names them: only the call's program and the file names
//! are kept.
//!
//! This module does not know which projects are excluded. It collects the file names in a call; the caller looks them
//! up and returns those to hide.

use std::borrow::Cow;
use std::collections::HashSet;
use std::ops::Range;

use super::Redactor;
use super::json_text::{Replacement, Role, StringPlace, rewrite};
use super::secret_files::mark;
use super::shell_words;
use crate::event::{HookEvent, HookEventKind, ToolCall, ToolResult, ToolStart};

/// The maximum length of a path, in bytes.
const MOST_BYTES: usize = 4096;
/// The maximum number of words without a slash that are checked as file names.
const MOST_WORDS: usize = 500;
const COMMAND_KEYS: [&str; 6] = ["command", "cmd", "script", "commandline", "args", "code"];
const MARK: &str = "[redacted:file-content]";

/// Whether the outputs of calls are examined too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outputs {
    Searched,
    Left,
}

impl Redactor {
    /// Returns all possible file names in an event's calls, without duplicates.
    pub fn file_names(event: &HookEvent, outputs: Outputs) -> Vec<String> {
        let mut names = Names::default();
        let mut of_call = |call: &ToolCall| {
            names.of_input(&call.input);
            if outputs == Outputs::Searched {
                names.of_output(result_of(call));
            }
        };
        match &event.what {
            HookEventKind::Tool(call) => of_call(call),
            HookEventKind::ToolBatch(calls) => calls.iter().for_each(of_call),
            HookEventKind::ToolStart(start) => names.of_input(&start.input),
            HookEventKind::Other { detail, .. } => names.of_input(detail),
            _ => {}
        }
        names.list
    }

    /// Returns the event without the content of calls that involve these files.
    pub fn reduce_to_names(event: HookEvent, hidden: &HashSet<String>) -> HookEvent {
        if hidden.is_empty() {
            return event;
        }
        let what = match event.what {
            HookEventKind::Tool(call) => HookEventKind::Tool(without(call, hidden)),
            HookEventKind::ToolBatch(calls) => {
                HookEventKind::ToolBatch(calls.into_iter().map(|call| without(call, hidden)).collect())
            }
            HookEventKind::ToolStart(start) if names_one(&start.input, hidden) => {
                let input = only_names(&start.input, hidden).into_owned();
                HookEventKind::ToolStart(ToolStart { input, task: None, ..start })
            }
            HookEventKind::Other { name, detail } if names_one(&detail, hidden) => {
                let detail = only_names(&detail, hidden).into_owned();
                HookEventKind::Other { name, detail }
            }
            what => what,
        };
        HookEvent { what, ..event }
    }
}

fn without(call: ToolCall, hidden: &HashSet<String>) -> ToolCall {
    let by_input = names_one(&call.input, hidden);
    let mut shown = Names::default();
    shown.of_output(result_of(&call));
    if !by_input && !shown.list.iter().any(|name| hidden.contains(name)) {
        return call;
    }
    let input = match by_input {
        true => only_names(&call.input, hidden).into_owned(),
        false => call.input,
    };
    let result = match &call.result {
        ToolResult::Done(_) => ToolResult::Done(format!("\"{MARK}\"")),
        ToolResult::Failed(_) => ToolResult::Failed(mark()),
    };
    ToolCall { input, result, plan: None, ..call }
}

fn result_of(call: &ToolCall) -> &str {
    match &call.result {
        ToolResult::Done(text) | ToolResult::Failed(text) => text,
    }
}

fn names_one(input: &str, hidden: &HashSet<String>) -> bool {
    let mut names = Names::default();
    names.of_input(input);
    names.list.iter().any(|name| hidden.contains(name))
}

#[derive(Default)]
struct Names {
    list: Vec<String>,
    known: HashSet<String>,
}

impl Names {
    fn add(&mut self, name: &str) {
        if !self.known.contains(name) {
            self.known.insert(name.to_owned());
            self.list.push(name.to_owned());
        }
    }

    fn of_input(&mut self, json: &str) {
        rewrite(json, |StringPlace { role, text }| {
            match role {
                Role::Value { key } | Role::Element { key } if is_command(key) => {
                    for word in words(text).filter_map(|word| text.get(word)) {
                        // A document inside a command can have any number of words.
                        if word.contains('/') || self.list.len() < MOST_WORDS {
                            self.add(word);
                        }
                    }
                    for name in shell_words::read(text).into_iter().flat_map(|word| word.names) {
                        if name.contains('/') || self.list.len() < MOST_WORDS {
                            self.add(&name);
                        }
                    }
                }
                Role::Value { .. } | Role::Element { .. } => {
                    if let Some(name) = as_name(text) {
                        self.add(name);
                    }
                }
                Role::Key => {}
            }
            Vec::new()
        });
    }

    /// Finds folders in the results of a search or a listing: a path at the beginning of a line.
    fn of_output(&mut self, json: &str) {
        let mut of_text = |text: &str| {
            for line in text.lines() {
                let path = line.split([':', ' ', '\t']).next().unwrap_or_default();
                if let Some(slash) = path.rfind('/').filter(|_| path.len() <= MOST_BYTES) {
                    self.add(path.get(..=slash).unwrap_or_default());
                }
            }
        };
        let mut strings = 0;
        rewrite(json, |StringPlace { role, text }| {
            if role != Role::Key {
                strings += 1;
                of_text(text);
            }
            Vec::new()
        });
        if strings == 0 {
            of_text(json);
        }
    }
}

/// Returns the string as a file name if it can be one.
fn as_name(text: &str) -> Option<&str> {
    let name = text.strip_prefix("file://").unwrap_or(text);
    let is_one_line = || !name.contains(['\n', '\0']);
    // A long string without a slash is text.
    let is_short = name.len() <= 255 || (name.len() <= MOST_BYTES && name.contains('/'));
    (!name.is_empty() && is_short && is_one_line()).then_some(name)
}

/// Returns the words of a command that may be file names.
fn words(command: &str) -> impl Iterator<Item = Range<usize>> {
    let cuts = |c: char| c.is_whitespace() || "'\"`;|&<>=(),@".contains(c);
    let mut at = 0;
    std::iter::from_fn(move || {
        loop {
            let rest = command.get(at..).filter(|rest| !rest.is_empty())?;
            let end = rest.find(cuts).unwrap_or(rest.len());
            let word = at..at + end;
            at = word.end + rest.get(end..).and_then(|cut| cut.chars().next()).map_or(0, char::len_utf8);
            let text = command.get(word.clone())?;
            let skipped = if text.starts_with("file://") { "file://".len() } else { 0 };
            if !text.is_empty() && !text.starts_with('-') && text.len() <= MOST_BYTES {
                return Some(word.start + skipped..word.end);
            }
        }
    })
}

/// Reduces each string of the JSON to the names of hidden files, and a command also to its program.
fn only_names<'a>(json: &'a str, hidden: &HashSet<String>) -> Cow<'a, str> {
    rewrite(json, |StringPlace { role, text }| {
        let key = match role {
            Role::Key => return Vec::new(),
            Role::Value { key } | Role::Element { key } => key,
        };
        if text.is_empty() || text == MARK || as_name(text).is_some_and(|name| hidden.contains(name)) {
            return Vec::new();
        }
        if !is_command(key) {
            return vec![Replacement { range: 0..text.len(), text: Cow::Borrowed(MARK) }];
        }
        let mut named: Vec<Range<usize>> = words(text)
            .filter(|word| text.get(word.clone()).is_some_and(|name| hidden.contains(name)))
            .collect();
        let spelled = shell_words::read(text).into_iter().filter(|word| {
            // A string with blanks may contain more than a name.
            let is_one = text.get(word.range.clone()).is_some_and(|text| !text.contains(char::is_whitespace));
            is_one && word.is_path && word.names.iter().any(|name| hidden.contains(name))
        });
        // A name that is part of one already kept is not repeated.
        let is_new =
            |range: &Range<usize>| named.iter().all(|it| it.end <= range.start || range.end <= it.start);
        let spelled: Vec<_> = spelled.map(|word| word.range).filter(is_new).collect();
        named.extend(spelled);
        named.sort_by_key(|word| word.start);
        let mut kept: Vec<Range<usize>> = program(text).into_iter().collect();
        for word in named {
            if kept.last().is_none_or(|last| last.end <= word.start) {
                kept.push(word);
            }
        }
        let mut gaps = Vec::new();
        let mut at = 0;
        for word in kept.into_iter().chain(std::iter::once(text.len()..text.len())) {
            if text.get(at..word.start).is_some_and(|gap| !gap.trim().is_empty()) {
                gaps.push(Replacement {
                    range: at..word.start,
                    text: Cow::Borrowed(" [redacted:file-content] "),
                });
            }
            at = word.end;
        }
        gaps
    })
}

/// Returns the first word that is not an assignment, if it looks like a program.
fn program(command: &str) -> Option<Range<usize>> {
    let mut at = 0;
    for word in command.split_whitespace() {
        let start = at + command.get(at..)?.find(word)?;
        at = start + word.len();
        if !word.contains('=') {
            let is_program = word.chars().all(|c| c.is_ascii_alphanumeric() || "._-/+~".contains(c));
            return is_program.then_some(start..at);
        }
    }
    None
}

fn is_command(key: &str) -> bool {
    COMMAND_KEYS.iter().any(|name| key.eq_ignore_ascii_case(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hidden() -> HashSet<String> {
        ["/x/plan.txt", "~/x/", "../x/a"].map(str::to_owned).into()
    }

    #[test]
    fn only_program_and_file_names_of_a_call_are_kept() {
        let mark = "[redacted:file-content]";
        for (json, expected) in [
            (
                r#"{"file_path":"/x/plan.txt","content":"heron","n":1}"#.to_owned(),
                format!(r#"{{"file_path":"/x/plan.txt","content":"{mark}","n":1}}"#),
            ),
            (r#"{"command":"cat /x/plan.txt"}"#.to_owned(), r#"{"command":"cat /x/plan.txt"}"#.to_owned()),
            (
                r#"{"command":"echo heron > /x/plan.txt"}"#.to_owned(),
                format!(r#"{{"command":"echo {mark} /x/plan.txt"}}"#),
            ),
            (
                r#"{"command":"A=heron sed -i \"s/a/heron/\" '../x/a'\n"}"#.to_owned(),
                format!(r#"{{"command":" {mark} sed {mark} ../x/a {mark} "}}"#),
            ),
            (
                r#"{"command":"python3 -c \"open('/x/plan.txt').write('heron')\"","description":"heron"}"#
                    .to_owned(),
                format!(r#"{{"command":"python3 {mark} /x/plan.txt {mark} ","description":"{mark}"}}"#),
            ),
        ] {
            let once = only_names(&json, &hidden());
            assert_eq!(once, expected);
            assert!(!once.contains("heron"));
        }
    }

    #[test]
    fn an_oddly_spelled_file_name_exposes_no_other_text() {
        let hidden: HashSet<String> = ["../x/a/f", "../x/a/ the heron"].map(str::to_owned).into();
        for (command, left) in [
            ("cd ../x && cat a/f heron", Some("a/f")),
            (r#"cat "../x"/a/f heron"#, Some("/a/f")),
            (r"cat ../\x/a/f heron", None),
            ("D=../x; cat $D/a/f heron", Some("$D/a/f")),
            ("cat '../x/a/ the heron'", None),
        ] {
            let json = serde_json::json!({ "command": command }).to_string();
            assert!(names_one(&json, &hidden), "{command}");
            let once = only_names(&json, &hidden);
            assert!(!once.contains("heron"), "{once}");
            assert!(left.is_none_or(|left| once.contains(left)), "{once}");
        }
    }

    #[test]
    fn file_names_are_found_in_inputs_and_outputs() {
        let mut names = Names::default();
        names.of_input(r#"{"path":"/x/plan.txt","pattern":"~/x/","command":"cp -r a=../x/a @f 'b c'"}"#);
        let expected = ["/x/plan.txt", "~/x/", "cp", "a", "../x/a", "f", "b", "c", "a=../x/a", "@f", "b c"];
        assert_eq!(names.list, expected);
        let mut names = Names::default();
        names.of_output(
            r#"{"content":"/x/plan.txt:3:heron\nsrc/a.rs:1:b\n/x/b.txt:1:c","filenames":["y/z"]}"#,
        );
        assert_eq!(names.list, ["/x/", "src/", "y/"]);
    }
}
