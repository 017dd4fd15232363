//! Parses a shell command line as far as necessary to find messages in it: words, quotes, here-documents.
//!
//! This does not imitate a shell. Variables stay as they are written. The only command substitution that is
//! understood is `$(cat <<'EOF' ...)`, because agents write messages of several lines in that form.

/// The number of bytes of a command line that are examined; scripts after that are data.
const LONGEST: usize = 64 * 1024;

/// The maximum number of commands of one line.
const MOST_COMMANDS: usize = 64;

/// One command between separators.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SimpleCommand {
    /// Unquoted. Here-documents inside quotes are replaced by their text.
    pub(super) words: Vec<String>,
    /// A here-document on its standard input.
    pub(super) stdin: Option<String>,
}

/// The commands of a line or script, in order.
pub(super) fn commands(script: &str) -> Vec<SimpleCommand> {
    let cut = script.floor_char_boundary(LONGEST);
    let mut reader = Reader { rest: script.get(..cut).unwrap_or_default(), ..Reader::default() };
    while reader.done.len() < MOST_COMMANDS && reader.step() {}
    reader.end_command();
    reader.done
}

#[derive(Default)]
struct Reader<'a> {
    rest: &'a str,
    done: Vec<SimpleCommand>,
    command: SimpleCommand,
    /// The word being read; `Some("")` after an empty pair of quotes.
    word: Option<String>,
    /// A here-document that this line announces; its body begins on the next line.
    awaited: Option<Awaited>,
}

struct Awaited {
    delimiter: String,
    /// The index of its command.
    command: usize,
}

impl Reader<'_> {
    /// Reads the next piece. Returns false at the end.
    fn step(&mut self) -> bool {
        let Some(first) = self.rest.chars().next() else { return false };
        let after = self.rest.get(first.len_utf8()..).unwrap_or_default();
        match first {
            '\n' => {
                self.rest = after;
                self.end_word();
                self.end_command();
                if let Some(awaited) = self.awaited.take() {
                    let text = self.here_document(&awaited.delimiter);
                    if let Some(command) = self.done.get_mut(awaited.command) {
                        command.stdin = Some(text);
                    }
                }
            }
            ' ' | '\t' | '\r' => {
                self.rest = after;
                self.end_word();
            }
            // `2>&1` is one word.
            '&' if self.word.as_deref().is_some_and(|word| word.ends_with(['>', '<'])) => {
                self.rest = after;
                self.push(first);
            }
            ';' | '&' | '|' => {
                self.rest = after;
                self.end_command();
            }
            '\\' => {
                let escaped = after.chars().next();
                self.rest = after.get(escaped.map_or(0, char::len_utf8)..).unwrap_or_default();
                if let Some(escaped) = escaped.filter(|escaped| *escaped != '\n') {
                    self.push(escaped);
                }
            }
            '$' if after.starts_with('\'') => {
                self.rest = after.get(1..).unwrap_or_default();
                self.ansi_c_quoted();
            }
            '\'' => {
                let (inside, behind) = after.split_once('\'').unwrap_or((after, ""));
                self.rest = behind;
                self.word.get_or_insert_default().push_str(inside);
            }
            '"' => {
                self.rest = after;
                self.double_quoted();
            }
            '<' if self.rest.starts_with("<<") && !self.rest.starts_with("<<<") => self.announce(),
            '#' if self.word.is_none() => {
                self.rest = after.find('\n').map_or("", |end| after.get(end..).unwrap_or(""))
            }
            _ => {
                self.rest = after;
                self.push(first);
            }
        }
        true
    }

    fn push(&mut self, character: char) {
        self.word.get_or_insert_default().push(character);
    }

    fn end_word(&mut self) {
        self.command.words.extend(self.word.take());
    }

    fn end_command(&mut self) {
        self.end_word();
        let command = std::mem::take(&mut self.command);
        if !command.words.is_empty() {
            self.done.push(command);
        }
    }

    /// Inside double quotes, up to the closing one.
    fn double_quoted(&mut self) {
        self.word.get_or_insert_default();
        while let Some(first) = self.rest.chars().next() {
            let after = self.rest.get(first.len_utf8()..).unwrap_or_default();
            match first {
                '"' => {
                    self.rest = after;
                    return;
                }
                '\\' => {
                    let escaped = after.chars().next();
                    self.rest = after.get(escaped.map_or(0, char::len_utf8)..).unwrap_or_default();
                    match escaped {
                        Some(special @ ('"' | '\\' | '$' | '`')) => self.push(special),
                        Some('\n') | None => {}
                        Some(other) => {
                            self.push('\\');
                            self.push(other);
                        }
                    }
                }
                '$' if self.substituted() => {}
                _ => {
                    self.rest = after;
                    self.push(first);
                }
            }
        }
    }

    /// Inside `$'…'`, up to the closing quote, as the Bash manual describes it in "ANSI-C Quoting", without character
    /// codes.
    fn ansi_c_quoted(&mut self) {
        self.word.get_or_insert_default();
        while let Some(first) = self.rest.chars().next() {
            self.rest = self.rest.get(first.len_utf8()..).unwrap_or_default();
            match first {
                '\'' => return,
                '\\' => {
                    let Some(escaped) = self.rest.chars().next() else { return };
                    self.rest = self.rest.get(escaped.len_utf8()..).unwrap_or_default();
                    match escaped {
                        'n' => self.push('\n'),
                        't' => self.push('\t'),
                        'r' => self.push('\r'),
                        '\\' | '\'' | '"' | '?' => self.push(escaped),
                        other => {
                            self.push('\\');
                            self.push(other);
                        }
                    }
                }
                _ => self.push(first),
            }
        }
    }

    /// Reads `$(cat <<'EOF' … EOF )` as its text. Returns false if there is none here.
    fn substituted(&mut self) -> bool {
        let Some(inner) = self.rest.strip_prefix("$(") else { return false };
        let inner = inner.trim_start();
        let Some(inner) = inner.strip_prefix("cat") else { return false };
        let Some(inner) = inner.trim_start().strip_prefix("<<") else { return false };
        let Some((announced, body)) = inner.split_once('\n') else { return false };
        self.rest = body;
        let text = self.here_document(&delimiter(announced).0);
        let behind = self.rest.trim_start();
        self.rest = behind.strip_prefix(')').unwrap_or(behind);
        self.word.get_or_insert_default().push_str(text.trim_end());
        true
    }

    /// `<<EOF` outside quotes: the text comes after the line's end.
    fn announce(&mut self) {
        self.end_word();
        let inner = self.rest.get(2..).unwrap_or_default();
        let line = inner.split('\n').next().unwrap_or(inner);
        let (name, used) = delimiter(line);
        self.rest = inner.get(used..).unwrap_or_default();
        if !name.is_empty() {
            self.awaited = Some(Awaited { delimiter: name, command: self.done.len() });
        }
    }

    /// Reads lines up to the delimiter, or to the end.
    fn here_document(&mut self, delimiter: &str) -> String {
        let mut text = String::new();
        while !self.rest.is_empty() {
            let (line, behind) = self.rest.split_once('\n').unwrap_or((self.rest, ""));
            let bare = line.trim_end_matches('\r');
            if bare.trim_start() == delimiter {
                self.rest = behind;
                return text;
            }
            // `EOF)"` closes the substitution on the delimiter's own line.
            if let Some(tail) = bare.trim_start().strip_prefix(delimiter).filter(|tail| tail.starts_with(')'))
            {
                let tail_at = self.rest.find(tail).unwrap_or(0);
                self.rest = self.rest.get(tail_at..).unwrap_or_default();
                return text;
            }
            text.push_str(bare);
            text.push('\n');
            self.rest = behind;
        }
        text
    }
}

/// The name after `<<`, unquoted, and its length in bytes.
fn delimiter(announced: &str) -> (String, usize) {
    let bare = announced.trim_start_matches(['-', '~', ' ', '\\']);
    let start = announced.len() - bare.len();
    let quote = bare.chars().next().filter(|first| matches!(first, '\'' | '"'));
    let (name, taken) = match quote {
        Some(quote) => {
            let inner = bare.get(1..).unwrap_or_default();
            let name = inner.split(quote).next().unwrap_or_default();
            (name, name.len() + 2)
        }
        None => {
            let name =
                bare.split(|end: char| !(end.is_alphanumeric() || end == '_')).next().unwrap_or_default();
            (name, name.len())
        }
    };
    (name.to_owned(), (start + taken).min(announced.len()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// One line per command: its words joined by `|`, its input after `<`.
    #[track_caller]
    fn check(script: &str, expected: &[&str]) {
        let actual: Vec<String> = commands(script)
            .iter()
            .map(|command| {
                let words = command.words.join("|");
                command.stdin.as_ref().map_or(words.clone(), |stdin| format!("{words}<{stdin}"))
            })
            .collect();
        assert_eq!(actual, expected);
    }

    #[test]
    fn commands_are_split_at_separators_and_quotes_are_removed() {
        check("cd /a && git commit -m 'one two' ; ls", &["cd|/a", "git|commit|-m|one two", "ls"]);
        check(r#"echo "a \"b\" $HOME" c\ d"#, &[r#"echo|a "b" $HOME|c d"#]);
        check("a # note\nb ''", &["a", "b|"]);
        check("make 2>&1 | tail", &["make|2>&1", "tail"]);
        check("unclosed 'text", &["unclosed|text"]);
        check(
            r"gh pr edit -b $'## Why\n\nIt can\'t pay \x41' 7",
            &["gh|pr|edit|-b|## Why\n\nIt can't pay \\x41|7"],
        );
        check(r"unclosed $'a\", &["unclosed|a"]);
    }

    #[test]
    fn here_documents_are_parsed_in_quotes_and_as_input() {
        check(
            "git commit -m \"$(cat <<'EOF'\nfix: it\n\nBecause.\nEOF\n)\" && ls",
            &["git|commit|-m|fix: it\n\nBecause.", "ls"],
        );
        check("git commit -m \"$(cat <<EOF\nfix\nEOF)\"", &["git|commit|-m|fix"]);
        check(
            "git commit -F - <<'EOF' && ls\nfix: it\nEOF\npwd",
            &["git|commit|-F|-<fix: it\n", "ls", "pwd"],
        );
        check("cat > a.go <<'EOF'\nx := \"y\nEOF\nrun", &["cat|>|a.go<x := \"y\n", "run"]);
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_into_a_limited_number_of_commands(script in "[\\PC\n]{0,300}") {
            prop_assert!(commands(&script).len() <= MOST_COMMANDS);
        }
    }
}
