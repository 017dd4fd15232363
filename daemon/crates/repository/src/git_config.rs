//! Parses git-config(5): sections, comments, quotes and continued lines.

/// One setting of a configuration file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setting {
    /// The section's name in lower case. The key is in lower case as well.
    section: String,
    /// The quoted name in `[remote "origin"]`; empty if there is none.
    pub subsection: String,
    key: String,
    pub value: String,
}

impl Setting {
    pub(super) fn is(&self, section: &str, key: &str) -> bool {
        self.section == section && self.key == key
    }
}

/// Parses all settings of a text, in order. Invalid ones are left out.
pub(super) fn parse(text: &str) -> Vec<Setting> {
    let mut settings = Vec::new();
    let (mut section, mut subsection) = (String::new(), String::new());
    let mut rest = text.trim_start_matches('\u{feff}');
    loop {
        rest = rest.trim_start();
        if rest.is_empty() {
            return settings;
        }
        if rest.starts_with(['#', ';']) {
            rest = after_line(rest);
        } else if let Some(header) = rest.strip_prefix('[') {
            let after;
            (section, subsection, after) = header_of(header);
            rest = after;
        } else {
            let end = rest.find(['=', '\n', '#', ';']).unwrap_or(rest.len());
            let (key, after) = rest.split_at(end);
            let value;
            (value, rest) = match after.strip_prefix('=') {
                Some(after) => value_of(after),
                // A key without a value means true.
                None => ("true".to_owned(), after_line(after)),
            };
            settings.push(Setting {
                section: section.clone(),
                subsection: subsection.clone(),
                key: key.trim().to_ascii_lowercase(),
                value,
            });
        }
    }
}

fn after_line(text: &str) -> &str {
    text.split_once('\n').map_or("", |(_, rest)| rest)
}

/// Parses a header: the section and subsection, and the rest of the line.
fn header_of(text: &str) -> (String, String, &str) {
    let mut name = String::new();
    let mut subsection = String::new();
    let (mut is_quoted, mut had_quotes, mut is_escaped) = (false, false, false);
    for (at, char) in text.char_indices() {
        match char {
            '\n' => return (name, subsection, text.get(at..).unwrap_or_default()),
            _ if is_escaped => {
                subsection.push(char);
                is_escaped = false;
            }
            '\\' if is_quoted => is_escaped = true,
            '"' => (is_quoted, had_quotes) = (!is_quoted, true),
            _ if is_quoted => subsection.push(char),
            ']' => {
                let mut name = name.trim().to_ascii_lowercase();
                // The old spelling, `[section.subsection]`.
                if let Some((section, sub)) = name.clone().split_once('.').filter(|_| !had_quotes) {
                    (name, subsection) = (section.to_owned(), sub.to_owned());
                }
                return (name, subsection, text.get(at + 1..).unwrap_or_default());
            }
            _ => name.push(char),
        }
    }
    (name, subsection, "")
}

/// Parses a value, and returns it with the text after its line.
fn value_of(text: &str) -> (String, &str) {
    let mut value = String::new();
    // Trailing blanks are not part of the value, except in quotes.
    let mut counted = 0;
    let mut is_quoted = false;
    let mut chars = text.char_indices();
    while let Some((at, char)) = chars.next() {
        match char {
            '\n' => {
                value.truncate(counted);
                return (value, text.get(at + 1..).unwrap_or_default());
            }
            '#' | ';' if !is_quoted => {
                value.truncate(counted);
                return (value, after_line(text.get(at..).unwrap_or_default()));
            }
            '"' => is_quoted = !is_quoted,
            '\\' => match chars.next().map(|(_, char)| char) {
                Some('\n') | None => continue,
                Some('n') => value.push('\n'),
                Some('t') => value.push('\t'),
                Some(char) => value.push(char),
            },
            char if char.is_whitespace() && !is_quoted => {
                if !value.is_empty() {
                    value.push(char);
                }
                continue;
            }
            char => value.push(char),
        }
        counted = value.len();
    }
    value.truncate(counted);
    (value, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_git_reads_them() {
        let text = "[core]\n\tbare = false ; no\n[Remote \"a \\\"b\\\"\"] URL = \"/x y/\"z # here\n\
                    [remote.old]\nurl=one\\\n two\n[include]\n\tpath = \"a;b\"\n  flag\n[url \"/x/\"]insteadOf = gh:";
        let found: Vec<_> = parse(text)
            .into_iter()
            .map(|it| format!("{}|{}|{}|{}", it.section, it.subsection, it.key, it.value))
            .collect();
        let expected = [
            "core||bare|false",
            "remote|a \"b\"|url|/x y/z",
            "remote|old|url|one two",
            "include||path|a;b",
            "include||flag|true",
            "url|/x/|insteadof|gh:",
        ];
        assert_eq!(found, expected);
        for text in ["[", "[a", "[a \"", "=", "x", "[a]\nb = \"", "[a]\nb = \\", "]"] {
            let _ = parse(text);
        }
    }
}
