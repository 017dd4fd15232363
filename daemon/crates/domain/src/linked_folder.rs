//! Folders that a session names through a symlink. Their paths are rewritten to those of the real folder, so that both
//! names mean the same files.

use std::borrow::Cow;

use super::event::{HookEvent, HookEventKind, ToolCall, ToolStart};
use super::plan::PlanChange;
use super::redaction::json_text::{Replacement, Role, StringPlace, rewrite};

/// Prefixes of lines in a patch that contain a path.
const BEFORE_PATH: [&str; 4] = ["*** Add File: ", "*** Update File: ", "*** Delete File: ", "*** Move to: "];

/// A folder's name through a link, and its real path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkedFolder {
    named: String,
    real: String,
}

impl LinkedFolder {
    /// Finds the shortest pair of names. The common end of both names is removed, up to the project's real folder
    /// `root`, so that the pair covers the whole project. `None` if the name is already real, or leads out of the
    /// project.
    pub fn new(named: &str, real: &str, root: &str) -> Option<Self> {
        let [mut named, mut real, root] = [named, real, root].map(|path| path.trim_end_matches('/'));
        let inside = real.strip_prefix(root)?;
        if root.is_empty() || named == real || !(inside.is_empty() || inside.starts_with('/')) {
            return None;
        }
        while real != root
            && let (Some((parent, name)), Some((real_parent, real_name))) =
                (named.rsplit_once('/'), real.rsplit_once('/'))
            && name == real_name
            && !parent.is_empty()
        {
            (named, real) = (parent, real_parent);
        }
        let is_plain = |path: &str| !path.contains(['"', '\\']) && !path.chars().any(char::is_control);
        (is_plain(real) && !named.is_empty()).then(|| Self { named: named.to_owned(), real: real.to_owned() })
    }

    /// Returns the event with real file paths.
    #[must_use]
    pub fn with_real_paths(&self, event: HookEvent) -> HookEvent {
        let what = match event.what {
            HookEventKind::ToolStart(start) => HookEventKind::ToolStart(ToolStart {
                input: self.of_input(start.input),
                file: start.file.map(|path| self.of_path(path)),
                ..start
            }),
            HookEventKind::Tool(call) => HookEventKind::Tool(self.of_call(call)),
            HookEventKind::ToolBatch(calls) => {
                HookEventKind::ToolBatch(calls.into_iter().map(|call| self.of_call(call)).collect())
            }
            what => what,
        };
        HookEvent { what, ..event }
    }

    fn of_call(&self, call: ToolCall) -> ToolCall {
        let plan = call.plan.map(|plan| match plan {
            PlanChange::File { path, text } => PlanChange::File { path: self.of_path(path), text },
            PlanChange::Approved { path, text } => {
                PlanChange::Approved { path: path.map(|path| self.of_path(path)), text }
            }
            plan => plan,
        });
        let (input, rewrote) = (self.of_input(call.input), call.rewrote.map(|path| self.of_path(path)));
        ToolCall { input, plan, rewrote, ..call }
    }

    fn of_path(&self, path: String) -> String {
        match self.is_before(&path) {
            true => format!("{}{}", self.real, path.get(self.named.len()..).unwrap_or_default()),
            false => path,
        }
    }

    fn is_before(&self, path: &str) -> bool {
        path.strip_prefix(&self.named).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    }

    /// Rewrites texts that are paths, and the files of a patch. Everything else stays unchanged.
    fn of_input(&self, input: String) -> String {
        // Slashes may be escaped in JSON, so only the last component is searched for.
        let name = self.named.rsplit('/').next().unwrap_or_default();
        if !input.contains(name) {
            return input;
        }
        let named = self.named.len();
        let replacement =
            |start: usize| Replacement { range: start..start + named, text: Cow::Owned(self.real.clone()) };
        let changed = rewrite(&input, |StringPlace { role, text }| {
            if role == Role::Key {
                return Vec::new();
            }
            if self.is_before(text) {
                return vec![replacement(0)];
            }
            let mut at = 0;
            let lines = text.split_inclusive('\n').map(|line| {
                let start = at;
                at += line.len();
                (start, line)
            });
            let starts = lines.filter_map(|(start, line)| {
                let mark = BEFORE_PATH.iter().find(|mark| line.starts_with(**mark))?;
                self.is_before(line.get(mark.len()..)?).then_some(start + mark.len())
            });
            starts.map(replacement).collect()
        });
        changed.into_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::ToolResult;
    use crate::ids::SessionId;

    #[test]
    fn a_linked_folder_is_found_from_its_named_and_real_path() {
        let found = |named: &str, real: &str| {
            LinkedFolder::new(named, real, "/code/shop").map(|folder| (folder.named, folder.real))
        };
        let pair = |named: &str, real: &str| Some((named.to_owned(), real.to_owned()));
        assert_eq!(found("/home/link", "/code/shop"), pair("/home/link", "/code/shop"));
        assert_eq!(found("/home/link/src/a", "/code/shop/src/a"), pair("/home/link", "/code/shop"));
        // Its parent may be no link.
        assert_eq!(found("/home/shop", "/code/shop"), pair("/home/shop", "/code/shop"));
        // A link into the project.
        assert_eq!(found("/home/sources", "/code/shop/src"), pair("/home/sources", "/code/shop/src"));
        assert_eq!(found("/code/shop/src", "/code/shop/src"), None);
        assert_eq!(found("/home/link", "/code/shopping"), None);
        assert_eq!(found("/home/link", "/tmp"), None);
    }

    #[test]
    fn paths_in_a_tool_call_are_rewritten_to_the_real_folder() {
        let folder = LinkedFolder::new("/home/link", "/code/shop", "/code/shop").unwrap();
        let real = |input: &str| {
            let call = ToolCall {
                name: "Edit".to_owned(),
                use_id: None,
                input: input.to_owned(),
                result: ToolResult::Done("{}".to_owned()),
                duration_ms: None,
                plan: None,
                launched: None,
                rewrote: Some("/home/link/a".to_owned()),
            };
            let event = HookEvent::bare(SessionId::from("s"), HookEventKind::Tool(call));
            let HookEventKind::Tool(call) = folder.with_real_paths(event).what else { panic!("a call") };
            assert_eq!(call.rewrote.as_deref(), Some("/code/shop/a"));
            call.input
        };
        for (input, expected) in [
            (r#"{"file_path":"/home/link/src/a.rs"}"#, r#"{"file_path":"/code/shop/src/a.rs"}"#),
            (r#"{"paths":["\/home\/link","/x"]}"#, r#"{"paths":["/code/shop","/x"]}"#),
            (r#"{"file_path":"/home/linked/a.rs"}"#, r#"{"file_path":"/home/linked/a.rs"}"#),
            (r#"{"content":"see /home/link/a.rs"}"#, r#"{"content":"see /home/link/a.rs"}"#),
            (
                r#"{"patch":"*** Begin Patch\n*** Update File: /home/link/a.rs\n+x\n*** Move to: /home/link/b.rs"}"#,
                r#"{"patch":"*** Begin Patch\n*** Update File: /code/shop/a.rs\n+x\n*** Move to: /code/shop/b.rs"}"#,
            ),
        ] {
            assert_eq!(real(input), expected);
        }
    }
}
