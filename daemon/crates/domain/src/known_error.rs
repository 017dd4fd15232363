//! Finds the line of an output that states the error, and decides whether a text is about the same error.

/// Words that mark a line which states an error.
const MARKS: [&str; 16] = [
    "error",
    "exception",
    "fatal",
    "panicked",
    "failed",
    "failure",
    "cannot",
    "could not",
    "can't",
    "not found",
    "denied",
    "refused",
    "undefined",
    "no such",
    "unable to",
    "timed out",
];
/// The number of final output lines that are searched, and of characters per line.
const MOST_LINES: usize = 200;
const LONGEST: usize = 300;
/// An error with fewer words is too generic.
const LEAST_WORDS: usize = 3;
/// The number of consecutive words in common that cannot be chance.
const WORDS_IN_A_ROW: usize = 4;

/// Returns the first line that states an error. `None` if there is none, or it is too generic to recognise.
pub fn error_line(output: &str) -> Option<String> {
    let lines: Vec<&str> = output.lines().collect();
    let late = lines.get(lines.len().saturating_sub(MOST_LINES)..).unwrap_or_default();
    let lines = late.iter().map(|line| cleaned(line));
    lines.filter(|line| words(line).len() >= LEAST_WORDS).find(|line| {
        let lower = line.to_lowercase();
        // A summary such as `error: test failed, to rerun pass ...` names no cause.
        MARKS.iter().any(|mark| lower.contains(mark)) && !is_tally(&lower) && !is_pass(&lower)
    })
}

/// Whether the line reports a passed test, whose name may mention errors.
fn is_pass(line: &str) -> bool {
    let begins =
        ["✔", "✓", "√", "ok ", "pass ", "pass: ", "passed "].iter().any(|mark| line.starts_with(mark));
    begins || [" ... ok", " passed", "[pass]"].iter().any(|mark| line.ends_with(mark))
}

/// Whether the line only counts failures, or only says that a command failed.
fn is_tally(line: &str) -> bool {
    const TALLIES: [&str; 9] = [
        "0 errors",
        "0 failed",
        "test result:",
        "to rerun pass",
        "exit code",
        "exit status",
        "aborting due to",
        "command failed",
        "no errors",
    ];
    TALLIES.iter().any(|tally| line.contains(tally))
}

/// Removes colours and repeated spaces.
fn cleaned(line: &str) -> String {
    let mut plain = String::new();
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\u{1b}' => drop(chars.by_ref().find(char::is_ascii_alphabetic)),
            c if c.is_control() => plain.push(' '),
            c => plain.push(c),
        }
    }
    let words = plain.split_whitespace().collect::<Vec<_>>().join(" ");
    words.chars().take(LONGEST).collect()
}

/// Whether a text is about the error in this line: it repeats several consecutive words of it, or an error code.
pub fn is_about(text: &str, line: &str) -> bool {
    let (text, line) = (words(text), words(line));
    let in_a_row = line.windows(WORDS_IN_A_ROW).any(|run| {
        let has_longer_word = run.iter().any(|word| word.len() > 3 && !is_mark(word));
        has_longer_word && text.windows(WORDS_IN_A_ROW).any(|other| other == run)
    });
    let codes = line.iter().filter(|word| is_code(word));
    in_a_row || codes.into_iter().any(|code| text.contains(code))
}

fn is_mark(word: &str) -> bool {
    MARKS.contains(&word)
}

/// Whether the word is an error code, such as `e0277`, `econnrefused` (originally in capitals) or `ts2345`.
fn is_code(word: &str) -> bool {
    let letters = word.chars().filter(char::is_ascii_alphabetic).count();
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let is_plain = word.chars().all(|c| c.is_ascii_alphanumeric());
    is_plain && word.len() >= 5 && ((1..=4).contains(&letters) && digits >= 3 || word.starts_with("econn"))
}

/// Splits into lower-case words, keeping punctuation inside names. Numbers that differ at each run are dropped.
fn words(text: &str) -> Vec<String> {
    let parts = text.split(|c: char| !(c.is_alphanumeric() || "_-./:@".contains(c)));
    let words = parts.map(|part| part.trim_matches(|c: char| !c.is_alphanumeric()).to_lowercase());
    words
        .filter(|word| !word.is_empty() && !word.chars().all(|c| c.is_ascii_digit() || ".:-".contains(c)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_states_the_error_is_found() {
        #[track_caller]
        fn check(output: &str, line: Option<&str>) {
            assert_eq!(error_line(output).as_deref(), line, "{output}");
        }
        check(
            "   Compiling cart v0.1.0\n\u{1b}[31merror\u{1b}[0m: linker `cc` not found\nerror: could not compile `cart`",
            Some("error: linker `cc` not found"),
        );
        check(
            "Exit code 1\nconnect ECONNREFUSED 127.0.0.1:5432: connection refused",
            Some("connect ECONNREFUSED 127.0.0.1:5432: connection refused"),
        );
        check("3 passed\n0 failed", None);
        check("✔ the provider keeps load errors\ntest loads_no_error_twice ... ok", None);
        check("✓ errors are told\n✗ the total could not be read", Some("✗ the total could not be read"));
        check("error: test failed, to rerun pass `-p cart`", None);
        check("failed", None);
        check("", None);
    }

    #[test]
    fn the_same_error_is_recognized_by_consecutive_words_or_a_code() {
        #[track_caller]
        fn check(text: &str, line: &str, same: bool) {
            assert_eq!(is_about(text, line), same, "{text}: {line}");
        }
        let lock = "error: could not acquire the lock of /var/lib/shop/index.lock";
        check(
            "The import could not acquire the lock of the index until the old worker was stopped",
            lock,
            true,
        );
        check("The lock is acquired late", lock, false);
        check("could not compile", lock, false);
        check(
            "TS2345 came from the old types; `npm ci` cured it",
            "src/a.ts(3,4): error TS2345: Argument of type",
            true,
        );
        check(
            "ECONNREFUSED: the test database has to be started with `make db`",
            "connect ECONNREFUSED 127.0.0.1:5432",
            true,
        );
        check("error error error error", "error error error error again", false);
        check("listens on port 5432", "could not connect to port 5432", false);
    }
}
