//! Finds comments in code, in whatever language: agents write there what their answers leave out.

/// Code is looked at up to here.
const LONGEST: usize = 24 * 1024;

/// Shorter comments name the next step; longer ones explain.
const EXPLAINS: usize = 60;

/// At most so many of one edit.
const MOST: usize = 4;

/// Comments of several lines as one text each, longest first where there are more than a few.
pub(super) fn blocks(code: &str) -> Vec<String> {
    let cut = super::sentence::floor_boundary(code, LONGEST);
    let mut blocks: Vec<String> = Vec::new();
    let mut current = String::new();
    for line in code.get(..cut).unwrap_or_default().lines() {
        match comment(line) {
            Some(text) if !text.is_empty() => {
                if !current.is_empty() {
                    current.push(' ');
                }
                current.push_str(text);
            }
            _ => end(&mut current, &mut blocks),
        }
    }
    end(&mut current, &mut blocks);
    if blocks.len() > MOST {
        blocks.sort_by_key(|block| std::cmp::Reverse(block.len()));
        blocks.truncate(MOST);
    }
    blocks
}

fn end(current: &mut String, blocks: &mut Vec<String>) {
    let block = std::mem::take(current);
    if block.len() >= EXPLAINS {
        blocks.push(block);
    }
}

/// The text of a line that is a comment and nothing else.
fn comment(line: &str) -> Option<&str> {
    let line = line.trim();
    let marks = ["///", "//!", "//", "/**", "/*", "* ", "-- ", "# ", ";; ", "<!--"];
    let text = marks.iter().find_map(|mark| line.strip_prefix(mark))?;
    Some(text.trim_end_matches(['*', '/']).trim_end_matches("--").trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(code: &str, expected: &[&str]) {
        assert_eq!(blocks(code), expected);
    }

    #[test]
    fn explaining_comments_are_told_whole() {
        let first = "The pool is drained before the socket is closed,";
        let second = "or the last reply is lost.";
        let whole = format!("{first} {second}");
        check(&format!("// {first}\n// {second}\nclose();\n// next"), &[&whole]);
        check(&format!("    # {first}\n    # {second}\n    close()"), &[&whole]);
        check(&format!("/*\n * {first}\n * {second}\n */"), &[&whole]);
    }

    #[test]
    fn code_is_no_comment() {
        check("let url = \"https://example.org/a/very/long/path/that/goes/on/and/on/and/on/for/ever\";", &[]);
    }
}
