//! The texts that an agent wrote for other people inside commands: commits, pull requests, issues, comments.
//!
//! They are as dense as final answers and say cause, fix and reason in one place.

use super::shell::{self, SimpleCommand};

/// What a text was written for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    Commit,
    PullRequest,
    Issue,
    Comment,
    /// An earlier commit was taken back.
    Revert,
}

/// A text with what it came out as.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) medium: Medium,
    /// The first line or title; empty for comments.
    pub(super) subject: String,
    pub(super) body: String,
    /// The commit's hash or the page's address, as the command's output told it.
    pub(super) reference: Option<String>,
}

/// What a successful command said to other people.
pub(super) fn statements(command: &str, output: &str) -> Vec<Statement> {
    // Most commands say nothing; reading them whole would cost more than looking for the verbs.
    if !["commit", "revert", "describe", " pr ", " mr ", " issue "].iter().any(|verb| command.contains(verb))
    {
        return Vec::new();
    }
    // Repositories made for a trial.
    if command.contains("git init") {
        return Vec::new();
    }
    let mut commits = committed(output);
    shell::commands(command)
        .iter()
        .filter_map(|command| {
            let mut statement = read(command)?;
            statement.reference = match statement.medium {
                Medium::Commit | Medium::Revert => commits.next(),
                _ => address(output),
            };
            if statement.medium == Medium::Revert && statement.subject.is_empty() {
                statement.subject = reverted(output)?;
            }
            Some(statement)
        })
        .collect()
}

fn read(command: &SimpleCommand) -> Option<Statement> {
    let mut words = command.words.iter().map(String::as_str).skip_while(|word| word.contains('='));
    let program = words.next()?.rsplit('/').next()?;
    let mut verbs = words.filter(|word| !word.starts_with('-'));
    match program {
        "git" | "jj" => {
            let verb = command
                .words
                .iter()
                .find(|word| matches!(word.as_str(), "commit" | "revert" | "describe"))?;
            if verb == "revert" {
                return Some(statement(Medium::Revert, String::new(), String::new()));
            }
            let messages = values(command, &["-m", "--message"], 'm');
            let stdin = command.stdin.as_deref().filter(|_| command.words.iter().any(|word| word == "-"));
            let whole = if messages.is_empty() { stdin?.to_owned() } else { messages.join("\n\n") };
            let (subject, body) = whole.trim().split_once('\n').unwrap_or((whole.trim(), ""));
            (!subject.is_empty())
                .then(|| statement(Medium::Commit, subject.trim().to_owned(), without_trailers(body)))
        }
        "gh" | "glab" | "hub" => {
            let medium = match (verbs.next()?, verbs.next()?) {
                ("pr" | "mr", "create" | "edit") => Medium::PullRequest,
                ("issue", "create" | "edit") => Medium::Issue,
                ("pr" | "mr" | "issue", "comment" | "note" | "review" | "close") => Medium::Comment,
                _ => return None,
            };
            let subject = values(command, &["--title", "-t"], '\0').join(" ");
            let mut body =
                values(command, &["--body", "-b", "--description", "--message", "-m", "--comment"], '\0')
                    .join("\n");
            if body.is_empty() {
                body = command.stdin.clone().unwrap_or_default();
            }
            let said = !(subject.is_empty() && body.is_empty());
            said.then(|| statement(medium, subject, without_trailers(&body)))
        }
        _ => None,
    }
}

fn statement(medium: Medium, subject: String, body: String) -> Statement {
    Statement { medium, subject, body, reference: None }
}

/// The values of an option, written apart, with `=`, or at the end of a bundle of short ones (`-am`).
fn values(command: &SimpleCommand, names: &[&str], bundled: char) -> Vec<String> {
    let mut values = Vec::new();
    let mut words = command.words.iter();
    while let Some(word) = words.next() {
        let is_bundle =
            word.len() < 6 && word.starts_with('-') && !word.starts_with("--") && word.ends_with(bundled);
        if names.contains(&word.as_str()) || is_bundle {
            values.extend(words.next().cloned());
        } else if let Some((name, value)) = word.split_once('=')
            && names.contains(&name)
        {
            values.push(value.to_owned());
        }
    }
    values
}

/// A body without the lines that tools add below it.
fn without_trailers(body: &str) -> String {
    let is_trailer = |line: &str| {
        let lower = line.trim().to_lowercase();
        ["co-authored-by:", "signed-off-by:", "change-id:", "generated with", "🤖"]
            .iter()
            .any(|trailer| lower.starts_with(trailer))
    };
    body.lines().filter(|line| !is_trailer(line)).collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// The hashes of `[branch 1a2b3c4] subject` lines, each told as `1a2b3c4 on branch`.
fn committed(output: &str) -> impl Iterator<Item = String> {
    output.lines().filter_map(|line| {
        let (inside, _) = line.trim().strip_prefix('[')?.split_once(']')?;
        let (branch, hash) = inside.rsplit_once(' ')?;
        let branch = branch.strip_suffix(" (root-commit)").unwrap_or(branch);
        let is_hash = hash.len() >= 7 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| format!("{hash} on {branch}"))
    })
}

/// The page that a command made: the last address of its output.
fn address(output: &str) -> Option<String> {
    let page = output.split_whitespace().rfind(|word| word.starts_with("https://"))?;
    Some(page.split('#').next().unwrap_or(page).to_owned())
}

/// The subject of the commit that a revert made.
fn reverted(output: &str) -> Option<String> {
    let line = output.lines().find(|line| line.contains("Revert \""))?;
    line.find("Revert \"").and_then(|at| line.get(at..)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One line per statement: `medium: subject / body <reference>`.
    #[track_caller]
    fn check(command: &str, output: &str, expected: &[&str]) {
        let told: Vec<String> = statements(command, output)
            .iter()
            .map(|said| {
                let reference =
                    said.reference.as_ref().map_or(String::new(), |reference| format!(" <{reference}>"));
                format!("{:?}: {} / {}{reference}", said.medium, said.subject, said.body)
            })
            .collect();
        assert_eq!(told, expected);
    }

    #[test]
    fn commit_messages_in_every_spelling() {
        check("git commit -m 'Fix it'", "[main 1a2b3c4] Fix it", &["Commit: Fix it /  <1a2b3c4 on main>"]);
        check("git add . && git commit -qam \"a\" -m \"b\"", "", &["Commit: a / b"]);
        check("git -C /x commit --message='a: b'", "", &["Commit: a: b / "]);
        check(
            "git commit -F - <<'EOF'\nfix: x\n\nBecause y.\n\nCo-Authored-By: A <a@b.c>\nEOF",
            "",
            &["Commit: fix: x / Because y."],
        );
        check("git commit --amend --no-edit", "", &[]);
        check("git log --grep commit", "", &[]);
    }

    #[test]
    fn pages_and_their_addresses() {
        check(
            "gh pr create --title \"t\" --body \"$(cat <<'EOF'\n## Why\nz\nEOF\n)\"",
            "https://h/o/r/pull/7\n",
            &["PullRequest: t / ## Why\nz <https://h/o/r/pull/7>"],
        );
        check(
            "gh issue comment 3 --body 'said'",
            "https://h/3#issuecomment-1",
            &["Comment:  / said <https://h/3>"],
        );
        check("gh issue view 3", "https://h/3", &[]);
    }

    #[test]
    fn a_revert_names_what_it_took_back() {
        check(
            "git revert --no-edit 1a2b3c4",
            "[next 5d6e7f8] Revert \"perf: chunks\"",
            &["Revert: Revert \"perf: chunks\" /  <5d6e7f8 on next>"],
        );
    }
}
