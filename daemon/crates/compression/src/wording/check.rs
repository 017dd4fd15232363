//! Describes commands that check the work, and the state of a check for a later reader.

use super::LONGEST_FACT;
use super::plain::plain;
use super::word::{bare, has, is_identifier, is_surely_finite, lowered, phrases};

/// Headings that introduce how the result of a plan is tested.
const TESTING: &str = "verification, validation, verify, verified, checks, tests, testing, test plan, test cases, test coverage, coverage, \
    success criteria";

/// Whether an entry says how a result is checked: `bun run lint — ensure that lint passes`. That is done when somebody
/// reads it.
pub(super) fn is_check(text: &str, heading: Option<&str>) -> bool {
    let is_entry = !text.ends_with(['.', '!', '?']) && text.chars().count() <= LONGEST_FACT;
    is_entry && (is_code(text) || heading.is_some_and(is_of_testing))
}

/// Whether a heading introduces how a result is tested.
pub(super) fn is_of_testing(heading: &str) -> bool {
    let heading = lowered(&plain(heading));
    phrases(TESTING).any(|step| has(&heading, step))
}

/// Whether a line is code or a command rather than words.
pub(super) fn is_code(text: &str) -> bool {
    let marks = text
        .chars()
        .filter(|c| matches!(c, '{' | '}' | ';' | '=' | '$' | '|' | '<' | '>' | '\\' | '&'))
        .count();
    let words: Vec<&str> = text.split_whitespace().collect();
    let first = words.first().copied().unwrap_or_default();
    const COMMANDS: [&str; 23] = [
        "cargo", "git", "npm", "pnpm", "npx", "yarn", "bun", "go", "make", "cd", "mise", "pip", "pytest",
        "docker", "curl", "gh", "bash", "corepack", "uv", "func", "let", "const", "import",
    ];
    let is_command = COMMANDS.contains(&first)
        && words.get(1).is_some_and(|second| {
            !is_surely_finite(&bare(second)) && second.chars().all(|c| !c.is_uppercase())
        });
    let is_comment = text.starts_with("//") || text.starts_with("/*") || text.contains(" // ");
    is_comment
        || marks * 8 > text.chars().count()
        || is_command
        || (words.len() < 4 && words.iter().all(|word| is_identifier(word)))
}
