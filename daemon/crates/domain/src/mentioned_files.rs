//! The files that a text names.

/// The maximum number of files per text.
const MOST: usize = 6;
/// The maximum length of a path, in bytes.
const LONGEST: usize = 200;

/// Returns words that look like file paths, without duplicates and line numbers.
pub fn mentioned_files(text: &str) -> Vec<&str> {
    let borders =
        |c: char| c.is_whitespace() || matches!(c, '`' | '"' | '\'' | '(' | ')' | '[' | ']' | ',' | ';');
    let mut files: Vec<&str> = Vec::new();
    for word in text.split(borders) {
        let word = word.trim_matches(['*', '<', '>', '{', '}', '|', '\u{2026}']);
        let path = word.split(':').next().unwrap_or_default().trim_end_matches('.').trim_start_matches("./");
        if is_path(path) && !files.contains(&path) {
            files.push(path);
        }
        if files.len() == MOST {
            break;
        }
    }
    files
}

/// Whether the word is a name with an extension, possibly below folders.
fn is_path(path: &str) -> bool {
    let name = path.rsplit('/').next().unwrap_or_default();
    let is_named = name.rsplit_once('.').is_some_and(|(stem, extension)| {
        !stem.is_empty()
            && (1..=10).contains(&extension.len())
            && extension.chars().all(|c| c.is_ascii_alphanumeric())
            && extension.contains(|c: char| c.is_ascii_alphabetic())
    });
    is_named && path.len() <= LONGEST && path.chars().all(|c| c.is_alphanumeric() || "._-/@+".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_paths_are_found_among_prose_and_numbers() {
        let text = "See `src/cart.rs:12`, ./README.md and (web/App.test.tsx). It took 1.5 s, i.e. v2.0. **src/cart.rs**\n\
            https://example.com/a.html ends. Makefile is none, but /abs/x.py is.";
        assert_eq!(
            mentioned_files(text),
            ["src/cart.rs", "README.md", "web/App.test.tsx", "i.e", "/abs/x.py"]
        );
        assert_eq!(mentioned_files(""), [""; 0]);
        assert_eq!(mentioned_files(&"a.rs b.rs c.rs d.rs e.rs f.rs g.rs ".repeat(3)).len(), MOST);
    }
}
