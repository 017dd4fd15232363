//! Reports what git and gh say about a session: the last commit, its pull request, and what the commit does not
//! contain.

use super::shell;
use recall_domain::material::{Action, BatchMaterial, CallOutcome};

/// The maximum number of uncommitted files that are named.
const MOST_FILES: usize = 3;

/// The state of the work at the end of a session.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GitFacts {
    /// The hash and the branch of the last commit.
    commit: Option<(String, String)>,
    /// The ref of a pull request, such as `pull/7`.
    pull_request: Option<String>,
    is_unpushed: bool,
    /// Names of files that were changed after the last commit.
    changed: Vec<String>,
}

impl GitFacts {
    pub fn of<'a>(batches: impl IntoIterator<Item = &'a BatchMaterial>) -> Self {
        let mut facts = Self::default();
        for batch in batches {
            for step in batch.steps.iter().filter(|step| step.outcome == CallOutcome::Done) {
                match &step.action {
                    Action::Command { command, output, .. } => facts.ran(command, output),
                    Action::Edit { path, .. } | Action::Write { path, .. } => {
                        if let Some(path) = batch.folder().beneath(path)
                            && !path.starts_with('.')
                        {
                            facts.touched(&path);
                        }
                    }
                    _ => {}
                }
            }
        }
        facts
    }

    fn touched(&mut self, path: &str) {
        let name = path.rsplit(['/', '\\']).next().unwrap_or(path);
        if !self.changed.iter().any(|known| known == name) {
            self.changed.push(name.to_owned());
        }
    }

    fn ran(&mut self, command: &str, output: &str) {
        if !["commit", "push", "gh pr create"].iter().any(|verb| command.contains(verb)) {
            return;
        }
        for command in shell::commands(command) {
            let words: Vec<&str> = command.words.iter().map(String::as_str).collect();
            match words.as_slice() {
                ["git", rest @ ..] if rest.contains(&"commit") => {
                    if let Some(commit) = committed(output) {
                        self.commit = Some(commit);
                        self.is_unpushed = true;
                        self.changed.clear();
                    }
                }
                ["git", rest @ ..] if rest.contains(&"push") => self.is_unpushed = false,
                ["gh", "pr", "create", ..] => {
                    self.pull_request = pull_request(output).or(self.pull_request.take());
                    self.is_unpushed = false;
                }
                _ => {}
            }
        }
    }

    /// `Commit 1a2b3c4 on main, pull/7`.
    pub fn done(&self) -> Option<String> {
        let commit = self.commit.as_ref().map(|(hash, branch)| format!("Commit {hash} on {branch}"));
        let parts: Vec<String> = commit.into_iter().chain(self.pull_request.clone()).collect();
        (!parts.is_empty()).then(|| parts.join(", "))
    }

    /// `Commit 1a2b3c4 is not pushed; not committed: pool.rs`. Without a commit, recall does not know what is missing.
    pub fn open(&self) -> Option<String> {
        let (hash, _) = self.commit.as_ref()?;
        let mut parts = Vec::new();
        if self.is_unpushed {
            parts.push(format!("Commit {hash} is not pushed"));
        }
        if !self.changed.is_empty() {
            let files: Vec<&str> = self.changed.iter().take(MOST_FILES).map(String::as_str).collect();
            parts.push(format!("not committed: {}", files.join(", ")));
        }
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

/// The hash and branch of the last `[branch 1a2b3c4] subject` line.
fn committed(output: &str) -> Option<(String, String)> {
    output.lines().rev().find_map(|line| {
        let (inside, _) = line.trim().strip_prefix('[')?.split_once(']')?;
        let (branch, hash) = inside.rsplit_once(' ')?;
        let branch = branch.split(' ').next()?;
        let is_hash = hash.len() >= 7 && hash.bytes().all(|byte| byte.is_ascii_hexdigit());
        is_hash.then(|| (hash.to_owned(), branch.to_owned()))
    })
}

fn pull_request(output: &str) -> Option<String> {
    let address =
        output.split_whitespace().rfind(|word| word.starts_with("https://") && word.contains("/pull/"))?;
    let (_, number) = address.rsplit_once("/pull/")?;
    let number: String = number.chars().take_while(char::is_ascii_digit).collect();
    (!number.is_empty()).then(|| format!("pull/{number}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_commit_is_reported() {
        let mut facts = GitFacts::default();
        facts.touched("src/pool.rs");
        facts.ran("git commit -am 'a'", "[main 1a2b3c4] a\n 1 file changed");
        assert_eq!(facts.done().as_deref(), Some("Commit 1a2b3c4 on main"));
        facts.touched("src/port.rs");
        assert_eq!(facts.open().as_deref(), Some("Commit 1a2b3c4 is not pushed; not committed: port.rs"));
        facts.ran("git commit -am 'b' && git push", "[main (root-commit) 5d6e7f8] b\nmain -> main");
        assert_eq!((facts.done().as_deref(), facts.open()), (Some("Commit 5d6e7f8 on main"), None));
        facts.ran("gh pr create --fill", "https://github.com/o/r/pull/7\n");
        assert_eq!(facts.done().as_deref(), Some("Commit 5d6e7f8 on main, pull/7"));
    }

    #[test]
    fn without_a_commit_nothing_is_reported() {
        let mut facts = GitFacts::default();
        facts.touched("src/pool.rs");
        facts.ran("git status", "nothing to commit");
        assert_eq!((facts.done(), facts.open()), (None, None));
    }
}
