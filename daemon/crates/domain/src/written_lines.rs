//! The lines that work left in a file, and whether they are still there.
//!
//! A file's modification time says that it was written, not what changed: git sets it when it checks out another
//! commit, and a formatter sets it without changing anything. A statement depends on the lines that its own work
//! wrote.

use std::collections::HashSet;

use super::material::Action;
use super::sameness::is_code;

/// The maximum number of lines per file.
const MOST: usize = 400;
/// Lines with fewer letters and digits, such as a brace, occur in every file.
const LEAST_CONTENT: usize = 6;
/// The minimum length of a name by which lines are selected, in characters.
const SHORTEST_NAME: usize = 4;

/// Lines without surrounding white space.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WrittenLines(Vec<String>);

/// How much of the lines a file still contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    All,
    Some,
    None,
}

impl WrittenLines {
    /// Adds the lines that a later call left in the file, and removes those that it replaced.
    pub fn add(&mut self, action: &Action) {
        match action {
            Action::Write { content, .. } => {
                self.0.clear();
                self.extend(content);
            }
            Action::Edit { changes, .. } => {
                for change in changes {
                    let before: HashSet<&str> = lines(&change.before).collect();
                    self.0.retain(|line| !before.contains(line.as_str()));
                    self.extend(&change.after);
                }
            }
            _ => {}
        }
    }

    fn extend(&mut self, text: &str) {
        let room = MOST.saturating_sub(self.0.len());
        self.0.extend(lines(text).take(room).map(str::to_owned));
    }

    /// Keeps the lines that a statement depends on: those that contain a name from it, or all lines if none does.
    pub fn named_in(mut self, statement: &str) -> Self {
        let words = statement.split_whitespace().filter(|word| is_code(word) || word.starts_with('`'));
        let parts = words.flat_map(|word| word.split(|c: char| !c.is_alphanumeric() && c != '_'));
        let names: HashSet<&str> = parts.filter(|name| name.chars().count() >= SHORTEST_NAME).collect();
        let is_named = |line: &String| names.iter().any(|name| line.contains(name));
        if self.0.iter().any(is_named) {
            self.0.retain(is_named);
        }
        self
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Checks which lines a file still contains. `None` if no line is known.
    pub fn kept_in(&self, content: &str) -> Option<Kept> {
        let there: HashSet<&str> = lines(content).collect();
        let kept = self.0.iter().filter(|line| there.contains(line.as_str())).count();
        match kept {
            _ if self.0.is_empty() => None,
            0 => Some(Kept::None),
            _ if kept == self.0.len() => Some(Kept::All),
            _ => Some(Kept::Some),
        }
    }
}

fn lines(text: &str) -> impl Iterator<Item = &str> {
    let is_content = |line: &&str| line.chars().filter(|c| c.is_alphanumeric()).count() >= LEAST_CONTENT;
    text.lines().map(str::trim).filter(is_content)
}

#[cfg(test)]
mod tests {
    use super::super::material::{EditHunk, WriteKind};
    use super::*;

    fn edit(before: &str, after: &str) -> Action {
        let change = EditHunk { before: before.to_owned(), after: after.to_owned() };
        Action::Edit { path: "src/oven.rs".to_owned(), changes: vec![change] }
    }

    fn written(actions: &[Action]) -> WrittenLines {
        let mut lines = WrittenLines::default();
        actions.iter().for_each(|action| lines.add(action));
        lines
    }

    #[test]
    fn written_lines_are_found_despite_indentation_and_other_lines() {
        let lines = written(&[edit("", "const HEAT: u32 = 220;\n}\n")]);
        assert_eq!(lines.kept_in("mod a {\n    const HEAT: u32 = 220;\n}\nfn more() {}"), Some(Kept::All));
        assert_eq!(lines.kept_in("const HEAT: u32 = 180;\n}\n"), Some(Kept::None));
        assert_eq!(written(&[]).kept_in("const HEAT: u32 = 220;"), None);
        assert_eq!(written(&[edit("", "}\n")]).kept_in(""), None, "a brace proves nothing");
    }

    #[test]
    fn a_later_edit_or_write_replaces_the_lines_of_an_earlier_edit() {
        let first = edit("", "let heat = 180;\nlet minutes = 20;");
        let lines = written(&[first.clone(), edit("let heat = 180;", "let heat = 220;")]);
        assert_eq!(lines.kept_in("let heat = 220;\nlet minutes = 20;"), Some(Kept::All));
        let kind = WriteKind::Replaced;
        let whole = Action::Write { path: String::new(), content: "let heat = 90;".to_owned(), kind };
        assert_eq!(written(&[first, whole]).kept_in("let heat = 90;"), Some(Kept::All));
    }

    #[test]
    fn only_lines_that_contain_names_from_the_statement_are_compared() {
        let lines = written(&[edit("", "const MOST_LOAVES: usize = 40;\nfn bake_all() {}")]);
        let now = "const MOST_LOAVES: usize = 40;\nfn bake_some() {}";
        let about = |statement: &str| lines.clone().named_in(statement).kept_in(now);
        assert_eq!(about("The oven holds `MOST_LOAVES` = 40"), Some(Kept::All));
        assert_eq!(about("bake_all() bakes them together"), Some(Kept::None));
        assert_eq!(about("The oven is full at noon"), Some(Kept::Some));
    }
}
