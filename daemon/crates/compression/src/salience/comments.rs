//! Finds comments that an edit added: agents write there what their answers leave out.

use std::collections::HashSet;

/// The number of bytes of code that are examined.
const LONGEST_CODE: usize = 48 * 1024;
/// The minimum length of a comment. Shorter ones name the next step; longer ones explain.
const SHORTEST: usize = 45;
const FEWEST_GAPS: usize = 6;
/// The maximum number of comments of one edit.
const MOST: usize = 12;

/// Files whose comments are not comments of code.
const PROSE: [&str; 6] = ["md", "mdx", "txt", "json", "lock", "rst"];
/// Languages whose comments begin with `#`.
const HASH: [&str; 18] = [
    "py", "sh", "bash", "zsh", "fish", "yml", "yaml", "toml", "rb", "ps1", "tf", "r", "pl", "mk", "nix", "",
    "exs", "ex",
];
/// Languages whose comments begin with `--`.
const DASH: [&str; 4] = ["sql", "lua", "hs", "elm"];
/// Comments for tools.
const FOR_TOOLS: [&str; 9] =
    ["eslint", "nolint", "noqa", "ts-ignore", "@ts", "todo(", "region", "copyright", "spdx"];

/// The comments of `after` that are not in `before`; neighbouring lines are one comment.
pub(super) fn added(after: &str, before: &str, path: &str) -> Vec<String> {
    let name = path.rsplit(['/', '\\']).next().unwrap_or_default();
    let ending = name.rsplit_once('.').map_or("", |(_, ending)| ending).to_lowercase();
    if PROSE.contains(&ending.as_str()) {
        return Vec::new();
    }
    let after = after.get(..after.floor_char_boundary(LONGEST_CODE)).unwrap_or_default();
    let before = before.get(..before.floor_char_boundary(LONGEST_CODE)).unwrap_or_default();
    let known: HashSet<&str> = before.lines().map(str::trim).collect();
    let mut blocks = Vec::new();
    let mut block = String::new();
    for line in after.lines().map(str::trim) {
        let comment = comment(line, &ending, &block).filter(|text| !text.is_empty() && !known.contains(line));
        match comment {
            Some(text) => {
                if !block.is_empty() {
                    block.push(' ');
                }
                block.push_str(text);
            }
            None => end(&mut block, &mut blocks),
        }
    }
    end(&mut block, &mut blocks);
    blocks.truncate(MOST);
    blocks
}

fn end(block: &mut String, blocks: &mut Vec<String>) {
    let text = std::mem::take(block);
    let lower = text.to_lowercase();
    let explains = text.chars().count() >= SHORTEST && text.matches(' ').count() >= FEWEST_GAPS;
    if explains && !FOR_TOOLS.iter().any(|opening| lower.starts_with(opening)) {
        blocks.push(text);
    }
}

/// The text of a line that contains only a comment. `block` is the comment so far, which the line may continue.
fn comment<'a>(line: &'a str, ending: &str, block: &str) -> Option<&'a str> {
    const MARKS: [&str; 10] = ["///", "//!", "//", "/**", "/*", "*", ";;", "<!--", "\"\"\"", "'''"];
    let (mark, text) = match MARKS.iter().find_map(|mark| Some((*mark, line.strip_prefix(mark)?))) {
        Some(found) => found,
        None if line.starts_with('#') && HASH.contains(&ending) => ("#", line.trim_start_matches('#')),
        None if DASH.contains(&ending) => ("--", line.strip_prefix("--")?),
        None => return None,
    };
    let is_end = mark == "*" && text.starts_with('/');
    let is_attribute = mark == "#" && text.starts_with(['!', '[']);
    let is_pointer = mark == "*" && block.is_empty() && !line.starts_with("* ");
    if is_attribute || is_pointer || is_end {
        return None;
    }
    let closings = ["*/", "-->", "\"\"\"", "'''"];
    let text = text.trim();
    Some(closings.iter().find_map(|closing| text.strip_suffix(closing)).unwrap_or(text).trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIRST: &str = "The pool is drained before the socket is closed,";
    const SECOND: &str = "or the last reply is lost.";

    #[track_caller]
    fn check(after: &str, before: &str, path: &str, expected: &[&str]) {
        assert_eq!(added(after, before, path), expected);
    }

    #[test]
    fn explanatory_comments_are_returned_whole() {
        let whole = format!("{FIRST} {SECOND}");
        check(&format!("// {FIRST}\n// {SECOND}\nclose();\n// next"), "", "a.rs", &[&whole]);
        check(&format!("  # {FIRST}\n  # {SECOND}\n  close()"), "", "a.py", &[&whole]);
        check(&format!("/**\n * {FIRST}\n * {SECOND}\n */"), "", "a.ts", &[&whole]);
        check(&format!("-- {FIRST}"), "", "a.sql", &[FIRST]);
    }

    #[test]
    fn existing_comments_code_and_lint_directives_are_skipped() {
        check("let url = \"https://example.org/a/very/long/path/that/goes/on/and/on\";", "", "a.rs", &[]);
        check(&format!("// {FIRST}\nopen();"), &format!("// {FIRST}"), "a.rs", &[]);
        check(&format!("# {FIRST}"), "", "a.md", &[]);
        check(&format!("# {FIRST}"), "", "a.rs", &[]);
        check("// eslint-disable-next-line because the rule does not know about it", "", "a.ts", &[]);
    }
}
