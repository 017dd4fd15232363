//! Detects commands that check the work (test, build, lint), and how they ended.
//!
//! Only plain commands count: one check per command line, without quotes and substitutions. Two command lines with the
//! same name are therefore the same check.

use std::collections::BTreeMap;

use super::ids::EventId;
use super::material::{Action, BatchMaterial, CallOutcome, ProjectFolder, Step};

/// The maximum length of a command line in bytes. Longer ones are treated as scripts.
const LONGEST: usize = 300;

/// Words for testing, building and linting.
const VERBS: [&str; 24] = [
    "test",
    "tests",
    "lint",
    "fmt",
    "format",
    "check",
    "build",
    "clippy",
    "vet",
    "bench",
    "typecheck",
    "tsc",
    "pytest",
    "jest",
    "vitest",
    "eslint",
    "golangci-lint",
    "tox",
    "rspec",
    "phpunit",
    "mypy",
    "ruff",
    "ctest",
    "nox",
];

/// Programs that run checks, and need one of [`VERBS`] after them.
const RUNNERS: [&str; 33] = [
    "cargo",
    "npm",
    "pnpm",
    "yarn",
    "bun",
    "npx",
    "deno",
    "make",
    "just",
    "go",
    "python",
    "python3",
    "uv",
    "poetry",
    "mvn",
    "./mvnw",
    "gradle",
    "./gradlew",
    "dotnet",
    "mix",
    "rake",
    "bundle",
    "composer",
    "php",
    "swift",
    "zig",
    "bazel",
    "ninja",
    "meson",
    "cmake",
    "task",
    "mise",
    "nix",
];

/// Whether one of the first words names a check, as in `npm run test:unit`.
pub(crate) fn names_a_check(words: &[impl AsRef<str>]) -> bool {
    let is_verb = |word: &str| VERBS.iter().any(|verb| word.split(':').next() == Some(verb));
    words.iter().take(5).any(|word| is_verb(word.as_ref()))
}

/// Returns the check that a command line runs, without the commands around it. `None` unless there is certainly
/// exactly one.
pub(crate) fn check_in(command: &str) -> Option<String> {
    if is_opaque(command) {
        return None;
    }
    let mut parts = command.split("&&").flat_map(|part| part.split([';', '\n'])).filter_map(command_words);
    let only = parts.next().filter(|_| parts.next().is_none())?;
    check_of(&only)
}

/// Returns the checks of commands that run only while all before them succeed. If the line succeeds, so did each.
fn chained(command: &str) -> Vec<String> {
    if is_opaque(command) || command.contains([';', '\n', '|']) {
        return Vec::new();
    }
    command.split("&&").filter_map(command_words).filter_map(|words| check_of(&words)).collect()
}

/// Whether the command line has quotes, substitutions or alternatives, so that its words are not certain.
fn is_opaque(command: &str) -> bool {
    const OPAQUE: [&str; 8] = ["\"", "'", "`", "$(", "<<", "||", "\\", "{"];
    command.len() > LONGEST || OPAQUE.iter().any(|mark| command.contains(mark))
}

fn check_of(words: &[&str]) -> Option<String> {
    let program = words.first()?;
    let runs = RUNNERS.contains(program) || VERBS.contains(program);
    (runs && names_a_check(words)).then(|| words.join(" "))
}

/// Returns the words of one command before its pipe, without variables and redirections. `None` if it only changes the
/// folder.
fn command_words(command: &str) -> Option<Vec<&str>> {
    let before_pipe = command.split('|').next().unwrap_or_default();
    let words = before_pipe.split_whitespace().skip_while(|word| word.contains('='));
    let words: Vec<&str> = words.filter(|word| !word.contains(['>', '<'])).collect();
    (!matches!(words.first(), None | Some(&("cd" | "export" | "set" | "source" | "echo" | "pwd"))))
        .then_some(words)
}

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Run<'a> {
    Passed,
    Failed {
        output: &'a str,
    },
    /// The output and the exit status contradict each other, or the run was killed.
    Unclear,
}

fn run<'a>(outcome: &'a CallOutcome, output: &'a str) -> Run<'a> {
    match outcome {
        CallOutcome::Failed { error }
            if ["timed out", "interrupted", "aborted", "killed"].iter().any(|word| error.contains(word)) =>
        {
            Run::Unclear
        }
        CallOutcome::Failed { error } => Run::Failed { output: error },
        CallOutcome::Rejected { .. } => Run::Unclear,
        CallOutcome::Done if output.lines().any(is_failure) => Run::Failed { output },
        CallOutcome::Done
            if output.lines().any(|line| line.to_lowercase().contains("error") || line.contains("FAIL")) =>
        {
            Run::Unclear
        }
        CallOutcome::Done => Run::Passed,
    }
}

/// Whether only a failing check prints this line. Needed because a pipe hides the check's exit status.
fn is_failure(line: &str) -> bool {
    const SIGNS: [&str; 5] =
        ["test result: FAILED", "make: *** ", "npm ERR!", "BUILD FAILED", "error: could not compile"];
    // `Tests: 1 failed, 2 passed`, `1 failed in 0.2s`. A log's `task 2 failed` counts nothing.
    let counts_failures = || {
        let words: Vec<&str> = line.split_whitespace().collect();
        words.windows(2).enumerate().any(|(at, pair)| {
            let before = at.checked_sub(1).and_then(|before| words.get(before)).copied().unwrap_or("=");
            let is_total = before.ends_with(|c: char| !c.is_alphanumeric())
                || matches!(before.to_lowercase().as_str(), "tests" | "suites" | "files" | "total");
            match pair {
                [count, word] => {
                    is_total
                        && word.starts_with("failed")
                        && count.parse::<u32>().is_ok_and(|count| count > 0)
                }
                _ => false,
            }
        })
    };
    SIGNS.iter().any(|sign| line.contains(sign)) || counts_failures()
}

/// A check and its status at the end of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checked {
    /// The check's name, as [`check_in`] returns it.
    pub name: String,
    pub status: CheckStatus,
    /// The check's last run, and the index of that run among the batch's steps.
    pub event: EventId,
    pub step: u32,
    /// The files that the batch changed before that run.
    pub changed: Vec<Changed>,
}

/// The status of a check at the end of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckStatus {
    Passed,
    Failed {
        output: String,
    },
    /// The check failed and then passed without a change in between.
    Flaky,
}

/// A file that a batch changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    /// Relative to the project's folder.
    pub path: String,
    /// The last call that changed the file, and the index of that call among the batch's steps.
    pub event: EventId,
    pub step: u32,
}

/// Returns the checks of a batch, ordered by their last runs. Checks whose last run is unclear are omitted.
pub fn checked(batch: &BatchMaterial) -> Vec<Checked> {
    let mut found: Vec<(String, Option<Checked>)> = Vec::new();
    let mut failed_at: BTreeMap<String, u32> = BTreeMap::new();
    for (at, step) in (0_u32..).zip(&batch.steps) {
        let Action::Command { command, output, .. } = &step.action else { continue };
        let run = run(&step.outcome, output);
        if run == Run::Passed {
            settle(&mut found, command);
        }
        let Some(name) = check_in(command) else { continue };
        found.retain(|(known, _)| *known != name);
        let changed = changed(batch.steps.iter().take(at as usize), batch.folder());
        let status = match run {
            Run::Passed => {
                let mended = |failed: &u32| changed.iter().any(|changed| changed.step > *failed);
                let is_proven = failed_at.get(&name).is_none_or(mended);
                Some(if is_proven { CheckStatus::Passed } else { CheckStatus::Flaky })
            }
            Run::Failed { output } => {
                failed_at.insert(name.clone(), at);
                Some(CheckStatus::Failed { output: output.to_owned() })
            }
            Run::Unclear => None,
        };
        let checked = status.map(|status| {
            let (name, event) = (name.clone(), step.event);
            Checked { name, status, event, step: at, changed }
        });
        found.push((name, checked));
    }
    found.into_iter().filter_map(|(_, checked)| checked).collect()
}

/// Forgets failures that a line which succeeded has settled: `cargo test` passes also what `cargo test cart` ran.
fn settle(found: &mut Vec<(String, Option<Checked>)>, command: &str) {
    let passed = chained(command);
    let is_settled = |failed: &str| {
        passed.iter().any(|name| {
            failed.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
        })
    };
    found.retain(|(name, checked)| {
        let fails =
            checked.as_ref().is_some_and(|checked| matches!(checked.status, CheckStatus::Failed { .. }));
        !fails || !is_settled(name)
    });
}

/// Returns the files that these steps changed, ordered by their last changes.
pub fn changed<'a>(steps: impl Iterator<Item = &'a Step>, folder: ProjectFolder<'_>) -> Vec<Changed> {
    let mut changed: Vec<Changed> = Vec::new();
    for (at, step) in (0_u32..).zip(steps) {
        let (Action::Edit { path, .. } | Action::Write { path, .. }) = &step.action else { continue };
        if let (Some(path), false) = (folder.beneath(path), step.outcome.is_failed()) {
            changed.retain(|known| known.path != path);
            changed.push(Changed { path, event: step.event, step: at });
        }
    }
    changed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::Timestamp;
    use crate::material::EditHunk;

    #[track_caller]
    fn check(command: &str, expected: Option<&str>) {
        assert_eq!(check_in(command).as_deref(), expected, "{command:?}");
    }

    #[test]
    fn a_check_is_found_among_other_commands() {
        check("cargo test -p shop", Some("cargo test -p shop"));
        check(
            "cd /home/dev/shop && RUST_LOG=debug cargo test -p shop 2>&1 | tail -20",
            Some("cargo test -p shop"),
        );
        check("npm run test:unit", Some("npm run test:unit"));
        check("./gradlew build", Some("./gradlew build"));
        check("python -m pytest -q", Some("python -m pytest -q"));
        check("pytest -q", Some("pytest -q"));
    }

    #[test]
    fn ambiguous_and_unrelated_command_lines_are_not_checks() {
        check("make fmt && make lint", None);
        check("cargo test || true", None);
        check("git commit -m test", None);
        check("ls tests", None);
        check("cat test", None);
        check("npm test -- -t 'adds'", None);
        check("for t in a b; do cargo test $t; done", None);
        check("", None);
    }

    fn step(number: u8, outcome: CallOutcome, action: Action) -> Step {
        let event = EventId([number; 16]);
        Step { event, at: Timestamp(0), tool: "tool".to_owned(), outcome, subagent: None, action }
    }

    fn ran(number: u8, command: &str, output: &str) -> Step {
        let action =
            Action::Command { command: command.to_owned(), description: None, output: output.to_owned() };
        step(number, CallOutcome::Done, action)
    }

    fn failed(number: u8, command: &str, error: &str) -> Step {
        Step { outcome: CallOutcome::Failed { error: error.to_owned() }, ..ran(number, command, "") }
    }

    fn edited(number: u8, path: &str) -> Step {
        let changes = vec![EditHunk { before: String::new(), after: "x".to_owned() }];
        step(number, CallOutcome::Done, Action::Edit { path: format!("/shop/{path}"), changes })
    }

    /// Compares with one word per check: `name:status:changed files`.
    #[track_caller]
    fn check_statuses(steps: Vec<Step>, expected: &[&str]) {
        let batch = BatchMaterial { steps, root: Some("/shop".to_owned()), ..BatchMaterial::default() };
        let statuses: Vec<String> = checked(&batch)
            .iter()
            .map(|checked| {
                let status = match checked.status {
                    CheckStatus::Passed => "passed",
                    CheckStatus::Failed { .. } => "failed",
                    CheckStatus::Flaky => "flaky",
                };
                let changed: Vec<&str> =
                    checked.changed.iter().map(|changed| changed.path.as_str()).collect();
                format!("{}:{status}:{}", checked.name, changed.join(","))
            })
            .collect();
        assert_eq!(statuses, expected);
    }

    #[test]
    fn the_last_run_of_a_check_counts() {
        check_statuses(
            vec![failed(1, "cargo test", "Exit code 101"), edited(2, "a.rs"), ran(3, "cargo test", "ok")],
            &["cargo test:passed:a.rs"],
        );
        check_statuses(
            vec![ran(1, "cargo test", "ok"), edited(2, "a.rs"), failed(3, "cargo test", "Exit code 101")],
            &["cargo test:failed:a.rs"],
        );
        check_statuses(
            vec![failed(1, "cargo test", "x"), ran(2, "cargo check", "Finished")],
            &["cargo test:failed:", "cargo check:passed:"],
        );
    }

    #[test]
    fn a_larger_check_or_a_chain_settles_a_failure() {
        let fails = || failed(1, "cargo test cart::round", "Exit code 101");
        check_statuses(
            vec![fails(), edited(2, "a.rs"), ran(3, "cargo test cart", "ok")],
            &["cargo test cart::round:failed:", "cargo test cart:passed:a.rs"],
        );
        check_statuses(
            vec![fails(), edited(2, "a.rs"), ran(3, "cargo test", "ok")],
            &["cargo test:passed:a.rs"],
        );
        check_statuses(
            vec![fails(), ran(2, "cargo fmt --all && cargo test cart::round && git diff --check", "ok")],
            &[],
        );
        check_statuses(
            vec![fails(), ran(2, "cargo fmt; cargo test cart::round", "ok")],
            &["cargo test cart::round:failed:"],
        );
    }

    #[test]
    fn a_pass_after_a_failure_without_a_change_is_flaky() {
        let fails = |number| failed(number, "cargo test", "Exit code 101");
        check_statuses(vec![fails(1), ran(2, "cargo test", "ok")], &["cargo test:flaky:"]);
        check_statuses(
            vec![edited(1, "a.rs"), fails(2), ran(3, "cargo test", "ok")],
            &["cargo test:flaky:a.rs"],
        );
        // The same file is changed once more.
        check_statuses(
            vec![edited(1, "a.rs"), fails(2), edited(3, "a.rs"), ran(4, "cargo test", "ok")],
            &["cargo test:passed:a.rs"],
        );
    }

    #[test]
    fn the_output_decides_when_a_pipe_hides_the_exit_status() {
        let piped = "cargo test 2>&1 | tail -3";
        check_statuses(
            vec![ran(1, piped, "test result: FAILED. 1 passed; 2 failed")],
            &["cargo test:failed:"],
        );
        check_statuses(vec![ran(1, piped, "test result: ok. 3 passed; 0 failed")], &["cargo test:passed:"]);
        check_statuses(vec![ran(1, "pytest -q", "2 failed, 3 passed in 1.2s")], &["pytest -q:failed:"]);
        check_statuses(
            vec![ran(1, "bun test", "[Queue] task 2 failed\n 12 pass\n 0 fail")],
            &["bun test:passed:"],
        );
    }

    #[test]
    fn an_unclear_run_is_left_out() {
        check_statuses(vec![failed(1, "cargo test", "Command timed out after 2m 0s")], &[]);
        check_statuses(vec![ran(1, "npm test", "Error: something odd")], &[]);
        check_statuses(vec![failed(1, "cargo test", "x"), ran(2, "cargo test", "an error, perhaps")], &[]);
    }
}
