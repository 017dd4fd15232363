//! Splits a command into words like a shell: without quotes and backslashes, with the variables that the command
//! itself sets, and relative to the folders that it changes to.
//!
//! This does not imitate a shell in full. A folder that was changed to counts for all later words, so that nothing is
//! missed after a subshell or `popd` has left it.

use std::collections::HashMap;
use std::ops::Range;

/// The maximum length of a path, in bytes.
const MOST_BYTES: usize = 4096;
/// The maximum number of folders that a command changes to.
const MOST_FOLDERS: usize = 16;
/// The maximum number of names that are combined from words and folders.
const MOST_JOINED: usize = 2_000;
const MOST_VARIABLES: usize = 100;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Word {
    /// The word's range, including quotes.
    pub range: Range<usize>,
    /// The files that the word may name: itself, the part after its `=`, and both relative to the folders that were
    /// changed to.
    pub names: Vec<String>,
    /// Whether the word consists only of path characters, so that it reveals nothing but names.
    pub is_path: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Position {
    /// Assignments and the program come here.
    Start,
    /// The target folder of `cd`.
    Folder,
    Argument,
}

/// Returns all words that may name files.
pub(crate) fn read(command: &str) -> Vec<Word> {
    let mut reader = Reader::default();
    let mut words = Vec::new();
    let mut position = Position::Start;
    let mut chars = command.char_indices().peekable();
    while let Some(&(start, char)) = chars.peek() {
        if is_cut(char) {
            if !(char == ' ' || char == '\t') {
                position = Position::Start;
            }
            chars.next();
            continue;
        }
        let mut text = String::new();
        let mut end = start;
        let mut quote = None;
        while let Some(&(at, char)) = chars.peek() {
            if quote.is_none() && is_cut(char) {
                break;
            }
            chars.next();
            end = at + char.len_utf8();
            match (quote, char) {
                (Some(open), char) if open == char => quote = None,
                (None, '\'' | '"') => quote = Some(char),
                (None | Some('"'), '\\') => {
                    if let Some((at, next)) = chars.next() {
                        end = at + next.len_utf8();
                        if quote.is_some() && !"$`\"\\\n".contains(next) {
                            text.push('\\');
                        }
                        if next != '\n' {
                            text.push(next);
                        }
                    }
                }
                (None | Some('"'), '$') => {
                    let rest = command.get(end..).unwrap_or_default();
                    if quote.is_none() && rest.starts_with(['\'', '"']) {
                        continue;
                    }
                    if let Some((value, length)) = reader.variable(rest) {
                        text.push_str(&value);
                        end += length;
                        while chars.next_if(|(at, _)| *at < end).is_some() {}
                    } else {
                        text.push('$');
                    }
                }
                (_, char) => text.push(char),
            }
        }
        if text.is_empty() || text.len() > MOST_BYTES || text.contains('\0') {
            continue;
        }
        let source = command.get(start..end).unwrap_or_default();
        let names = reader.take(&text, &mut position);
        if !names.is_empty() {
            let is_path =
                source.chars().all(|char| char.is_alphanumeric() || "._-/+~$\"'{}[]*?,".contains(char));
            words.push(Word { range: start..end, names, is_path });
        }
    }
    words
}

/// Whether an unquoted character ends a word.
fn is_cut(char: char) -> bool {
    char.is_whitespace() || ";|&<>()`".contains(char)
}

#[derive(Default)]
struct Reader {
    variables: HashMap<String, String>,
    folders: Vec<String>,
    joined: usize,
}

impl Reader {
    /// Returns the value of the variable at the beginning of a text, after its `$`, and the length of its name in the
    /// text.
    fn variable(&self, text: &str) -> Option<(String, usize)> {
        let (name, length) = match text.strip_prefix('{') {
            Some(inner) => {
                let end = inner.find('}')?;
                let name = inner.find(|char| !is_of_name(char)).and_then(|end| inner.get(..end))?;
                (name, end + 2)
            }
            None => {
                let end = text.find(|char| !is_of_name(char)).unwrap_or(text.len());
                (text.get(..end)?, end)
            }
        };
        match self.variables.get(name) {
            Some(value) => Some((value.clone(), length)),
            None if name == "PWD" => Some((".".to_owned(), length)),
            None => None,
        }
    }

    fn take(&mut self, text: &str, position: &mut Position) -> Vec<String> {
        let assigned =
            text.split_once('=').filter(|(name, _)| !name.is_empty() && name.chars().all(is_of_name));
        if let Some((name, value)) = assigned
            && (self.variables.len() < MOST_VARIABLES || self.variables.contains_key(name))
        {
            self.variables.insert(name.to_owned(), value.to_owned());
        }
        match *position {
            Position::Start if assigned.is_some() => {}
            Position::Start => {
                *position = match text {
                    "cd" | "pushd" => Position::Folder,
                    // These words precede a command.
                    "builtin" | "command" | "then" | "do" | "else" | "{" | "!" | "time" | "sudo" | "exec" => {
                        Position::Start
                    }
                    _ => Position::Argument,
                };
            }
            Position::Argument if text == "-C" => *position = Position::Folder,
            Position::Folder if text.starts_with('-') => {}
            Position::Folder => {
                let names = self.names(text);
                self.go_to(text);
                *position = Position::Argument;
                return names;
            }
            Position::Argument => {}
        }
        if text.starts_with('-') && !text.contains('=') {
            return Vec::new();
        }
        let mut names = self.names(text);
        if let Some((_, value)) = text.rsplit_once('=').filter(|(_, value)| !value.is_empty()) {
            names.extend(self.names(value));
        }
        names
    }

    fn names(&mut self, text: &str) -> Vec<String> {
        let text = text.strip_prefix("file://").unwrap_or(text);
        let mut names = vec![text.to_owned()];
        if !is_rooted(text) && self.joined < MOST_JOINED {
            names.extend(self.folders.iter().map(|folder| join(folder, text)));
            names.retain(|name| name.len() <= MOST_BYTES);
            self.joined += names.len() - 1;
        }
        names
    }

    fn go_to(&mut self, folder: &str) {
        let mut gone_to = vec![folder.to_owned()];
        if !is_rooted(folder) {
            gone_to.extend(self.folders.iter().map(|from| join(from, folder)));
        }
        for folder in gone_to {
            if folder.len() <= MOST_BYTES && !self.folders.contains(&folder) {
                if self.folders.len() >= MOST_FOLDERS {
                    self.folders.remove(0);
                }
                self.folders.push(folder);
            }
        }
    }
}

fn is_of_name(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

/// Whether a path has an explicit starting point.
fn is_rooted(path: &str) -> bool {
    ["/", "~", "$HOME", "${HOME}"].iter().any(|start| path.starts_with(start))
}

fn join(folder: &str, path: &str) -> String {
    format!("{}/{path}", folder.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(command: &str, name: &str) {
        let words = read(command);
        assert!(words.iter().any(|word| word.names.iter().any(|it| it == name)), "{command}: {words:?}");
    }

    #[test]
    fn words_of_a_command_are_resolved_as_by_a_shell() {
        for command in [
            "cd ../x && cat a/f",
            "pushd ../x; cat a/f",
            "(cd ..; cd x; cat a/f)",
            "cd -P -- ../x\ncat a/f",
            "D=../x; cat $D/a/f",
            "export D='../x' && cat \"${D}\"/a/f",
            "D=../x E=$D/a; cat ${E}/f",
            "cat \"../x\"/a/f",
            "cat '../x/a'/f",
            "cat ../\\x/a/f",
            "cat $'../x/a/f'",
            "cat --file=\"../x\"/a/f",
            "git -C ../x show a/f",
            "cat <\"../x/a/f\"",
            "cd ../x && cd nowhere; popd; cat a/f",
            "X=1 builtin cd ../x; cat a/f",
            "cat ../x/a/f",
        ] {
            check(command, "../x/a/f");
        }
        check("cd ~/x && cat a/f", "~/x/a/f");
        check("cat ../my\\ x/f", "../my x/f");
        // It is no path of the folder, and a quote that nobody closes ends nowhere.
        for command in
            ["'", "\"", "\\", "$", "${", "${a", "a='", "cd", "cd -", "é\\é $é", "= ==", "cat ${D}/x"]
        {
            let words = read(command);
            assert!(
                words.iter().all(|word| command.get(word.range.clone()).is_some()),
                "{command}: {words:?}"
            );
        }
    }

    #[test]
    fn the_number_and_length_of_names_in_a_command_are_bounded() {
        let many = "cd a; ".repeat(500) + &"b/c ".repeat(5_000);
        let names: usize = read(&many).iter().map(|word| word.names.len()).sum();
        assert!(names < 20_000, "{names}");
        let doubling = "a=xx;".to_owned() + &"a=$a$a;".repeat(60);
        assert!(read(&doubling).iter().all(|word| word.names.iter().all(|name| name.len() <= MOST_BYTES)));
    }
}
