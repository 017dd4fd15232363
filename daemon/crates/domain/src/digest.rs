//! Summarizes a tool call for the index: the action and its target, and the head and tail of its output.

use super::material::{Action, CallOutcome};

/// The indexed parts of a tool call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    pub title: String,
    pub body: String,
    pub files: Vec<String>,
}

/// The number of characters kept from the beginning and from the end of an output.
const HEAD: usize = 1200;
const TAIL: usize = 600;

/// Whether to index a call by meaning. Reads and searches show file contents, so they are indexed by words only.
pub fn is_found_by_meaning(action: &Action) -> bool {
    !matches!(action, Action::Read { .. } | Action::Search { .. })
}

/// Summarizes a call. Paths beneath `root` become relative.
pub fn digest(tool: &str, action: &Action, outcome: &CallOutcome, root: Option<&str>) -> Digest {
    let path = |path: &str| relative(path, root);
    let mut digest = match action {
        Action::Read { path: file } => {
            Digest { title: path(file), body: String::new(), files: vec![path(file)] }
        }
        Action::Edit { path: file, changes } => {
            let changed: Vec<_> = changes
                .iter()
                .map(|change| format!("{}\n{}", head_and_tail(&change.before), head_and_tail(&change.after)))
                .collect();
            Digest { title: path(file), body: changed.join("\n"), files: vec![path(file)] }
        }
        Action::Write { path: file, content, .. } => {
            Digest { title: path(file), body: head_and_tail(content), files: vec![path(file)] }
        }
        Action::Command { command, description, output } => Digest {
            title: description.clone().unwrap_or_else(|| first_line(command)),
            body: format!("{}\n{}", head_and_tail(command), head_and_tail(output)),
            files: Vec::new(),
        },
        Action::Search { pattern, path: place, output } => {
            let place = place.as_deref().map(path).unwrap_or_default();
            Digest {
                title: format!("{pattern} {place}").trim().to_owned(),
                body: head_and_tail(output),
                files: Vec::new(),
            }
        }
        Action::Fetch { url, question, output } => Digest {
            title: url.clone(),
            body: format!("{}\n{}", question.as_deref().unwrap_or_default(), head_and_tail(output)),
            files: Vec::new(),
        },
        Action::Delegate { description, prompt, answer } => Digest {
            title: description.clone(),
            body: format!(
                "{}\n{}",
                head_and_tail(prompt),
                head_and_tail(answer.as_deref().unwrap_or_default())
            ),
            files: Vec::new(),
        },
        Action::Ask { exchanges } => pairs("questions", exchanges),
        Action::Tasks { entries } => pairs("tasks", entries),
        Action::Plan { text, path: file } => Digest {
            title: first_line(text),
            body: head_and_tail(text),
            files: file.iter().map(|file| path(file)).collect(),
        },
        Action::Other { input, output } => Digest {
            title: String::new(),
            body: format!("{}\n{}", head_and_tail(input), head_and_tail(output)),
            files: Vec::new(),
        },
    };
    digest.title = format!("{tool} {}", digest.title).trim().to_owned();
    if let CallOutcome::Failed { error } = outcome {
        digest.title = format!("{} (failed)", digest.title);
        digest.body = format!("{}\n{}", head_and_tail(error), digest.body);
    }
    digest.body = digest.body.trim().to_owned();
    digest
}

fn pairs(title: &str, pairs: &[(String, String)]) -> Digest {
    let lines: Vec<_> = pairs.iter().map(|(left, right)| format!("{left}: {right}")).collect();
    Digest { title: title.to_owned(), body: head_and_tail(&lines.join("\n")), files: Vec::new() }
}

/// Makes the path relative to the project's folder if it lies beneath it.
pub fn relative(path: &str, root: Option<&str>) -> String {
    let beneath = root
        .map(|root| root.trim_end_matches('/'))
        .filter(|root| !root.is_empty())
        .and_then(|root| path.strip_prefix(root))
        .and_then(|rest| rest.strip_prefix('/'))
        .filter(|rest| !rest.is_empty());
    beneath.unwrap_or(path).to_owned()
}

fn first_line(text: &str) -> String {
    text.trim_start().lines().next().unwrap_or_default().chars().take(120).collect()
}

/// The head and tail of a long text, cut between characters.
fn head_and_tail(text: &str) -> String {
    let text = text.trim();
    if text.len() <= HEAD + TAIL {
        return text.to_owned();
    }
    let head = text.get(..text.floor_char_boundary(HEAD)).unwrap_or_default();
    let tail = text.get(text.ceil_char_boundary(text.len() - TAIL)..).unwrap_or_default();
    format!("{head}\n…\n{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_puts_the_error_first_and_keeps_both_ends_of_output() {
        let output = format!("BEGIN{}END", "ü".repeat(5000));
        let action = Action::Command { command: "make".to_owned(), description: None, output };
        let digest = digest("Bash", &action, &CallOutcome::Failed { error: "Exit code 2".to_owned() }, None);
        assert_eq!(digest.title, "Bash make (failed)");
        assert!(digest.body.starts_with("Exit code 2\nmake\nBEGIN"));
        assert!(digest.body.ends_with("END") && digest.body.len() < 2500);
    }

    #[test]
    fn paths_are_relative_to_the_project() {
        for (path, root, expected) in [
            ("/p/shop/src/a.js", Some("/p/shop"), "src/a.js"),
            ("/p/shop/src/a.js", Some("/p/shop/"), "src/a.js"),
            ("/p/shopping/a.js", Some("/p/shop"), "/p/shopping/a.js"),
            ("/p/shop", Some("/p/shop"), "/p/shop"),
            ("/etc/hosts", Some("/"), "/etc/hosts"),
            ("src/a.js", None, "src/a.js"),
        ] {
            assert_eq!(relative(path, root), expected);
        }
    }
}
