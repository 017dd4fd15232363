//! The files that a shell command names, and whether it would read or change them.
//!
//! Words are split by [`shell_words`](crate::redaction). A command counts as a reader of every file that it names,
//! except for a few programs that show no content, change the files they are given, or take a pattern first. Names
//! that are composed while the command runs (globs, command substitution, scripts) are not detected.

use super::patterns::ENVIRONMENT;
use super::{Access, Touched, Where};
use crate::redaction::shell_words;

/// Programs that list or test names without showing content.
const SHOWS_NAMES: [&str; 18] = [
    "echo", "printf", "ls", "test", "[", "[[", "stat", "mkdir", "which", "type", "cd", "pushd", "popd",
    "basename", "dirname", "realpath", "du", "tree",
];
/// Programs that change all files they are given.
const CHANGES: [&str; 10] =
    ["rm", "mv", "tee", "truncate", "shred", "unlink", "touch", "chmod", "chown", "rmdir"];
/// Programs that change only the last file they are given.
const CHANGES_LAST: [&str; 5] = ["cp", "install", "ln", "rsync", "scp"];
/// Programs whose first argument is not a file.
const TAKES_PATTERN: [&str; 9] = ["grep", "egrep", "fgrep", "rg", "ag", "ack", "sed", "awk", "jq"];
/// Git subcommands that show no content.
const GIT_SHOWS_NAMES: [&str; 7] = ["add", "status", "commit", "check-ignore", "ls-files", "push", "branch"];
const GIT_CHANGES: [&str; 5] = ["rm", "mv", "checkout", "restore", "clean"];
/// Words that precede a command.
pub(super) const PREFIXES: [&str; 17] = [
    "sudo", "env", "time", "command", "builtin", "exec", "nice", "nohup", "timeout", "if", "while", "until",
    "then", "do", "else", "!", "{",
];
/// Options of these words that take a value.
const VALUE_FOLLOWS: [(&str, &[&str]); 4] = [
    ("sudo", &["-u", "-g", "-h", "-p", "-C", "-D", "-R", "-T", "-U"]),
    ("env", &["-u", "-C"]),
    ("nice", &["-n"]),
    ("timeout", &["-k", "-s"]),
];
/// Programs that run a quoted argument like a shell.
const RUNS_SHELL: [&str; 11] =
    ["sh", "bash", "dash", "zsh", "ksh", "ash", "eval", "ssh", "su", "watch", "trap"];

/// Characters that separate simple commands.
const SEPARATORS: [char; 7] = [';', '|', '&', '\n', '(', ')', '`'];

/// The maximum nesting depth of commands inside words.
const MOST_DEPTH: usize = 2;
/// The number of bytes of a command that are examined.
const MOST_BYTES: usize = 64 << 10;
const MOST_FOUND: usize = 2_000;

/// Returns every file that the command names.
pub(super) fn touched(command: &str) -> Vec<Touched> {
    let mut found = Findings { touched: Vec::new(), place: Where::Here };
    let command = command.get(..command.floor_char_boundary(MOST_BYTES)).unwrap_or(command);
    look(&without_documents(command), 0, &mut found);
    found.touched
}

/// The findings so far, and where the current part runs.
struct Findings {
    touched: Vec<Touched>,
    place: Where,
}

/// One simple command.
#[derive(Default)]
struct Simple {
    program: Option<String>,
    /// The word before the program, such as `sudo`.
    prefix: Option<&'static str>,
    /// The arguments, each with the names that it may stand for.
    arguments: Vec<Vec<String>>,
    /// The command's text from the program on.
    text: String,
}

fn look(command: &str, depth: usize, found: &mut Findings) {
    let mut simple = Simple::default();
    let mut before = 0;
    for word in shell_words::read(command) {
        let gap = command.get(before..word.range.start).unwrap_or_default();
        before = word.range.end;
        let text = command.get(word.range.clone()).unwrap_or_default();
        let names = word.names;
        let inner = names.first().filter(|name| name.contains(char::is_whitespace) || name.contains('('));
        if let Some(inner) = inner.cloned() {
            if depth < MOST_DEPTH && !simple.program.as_deref().is_some_and(takes_words) {
                let outside = found.place;
                if !simple.program.as_deref().is_some_and(|program| RUNS_SHELL.contains(&program)) {
                    found.place = Where::Elsewhere;
                }
                look(&inner, depth + 1, found);
                found.place = outside;
                pieces(&inner, found);
            }
            simple.text.push_str(gap);
            simple.text.push_str(text);
            // Keeps the argument's position, but names nothing.
            simple.arguments.push(Vec::new());
            continue;
        }
        let gap_end = gap.trim_end();
        if gap_end.ends_with('>') || gap_end.ends_with(">|") || gap_end.ends_with(">&") {
            push(Access::Write, names, found);
            continue;
        }
        if gap_end.ends_with('<') {
            push(Access::Read, names, found);
            continue;
        }
        if let Some((options, _)) = gap.split_once(SEPARATORS) {
            simple.text.push_str(options);
            settle(std::mem::take(&mut simple), found);
        }
        simple.text.push_str(gap);
        simple.text.push_str(text);
        match &simple.program {
            None if is_assignment(text) => {}
            None if is_value(simple.prefix, gap, text) => {}
            None if let Some(prefix) = PREFIXES.iter().find(|prefix| **prefix == text) => {
                simple.prefix = Some(prefix);
            }
            None => {
                let name = names.first().map_or(text, String::as_str);
                simple.program = Some(name.rsplit('/').next().unwrap_or(name).to_owned());
            }
            Some(_) => simple.arguments.push(names),
        }
    }
    let rest = command.get(before..).unwrap_or_default();
    simple.text.push_str(rest.split(SEPARATORS).next().unwrap_or_default());
    settle(simple, found);
}

/// Whether a word is the value of an option of the preceding prefix.
fn is_value(prefix: Option<&str>, gap: &str, word: &str) -> bool {
    let Some(prefix) = prefix else { return false };
    let options =
        VALUE_FOLLOWS.iter().find(|(name, _)| *name == prefix).map_or(&[][..], |(_, options)| options);
    let option = gap.split_whitespace().last();
    option.is_some_and(|option| options.contains(&option))
        || (prefix == "timeout" && word.starts_with(|c: char| c.is_ascii_digit()))
}

/// Programs whose quoted arguments are text for people.
fn takes_words(program: &str) -> bool {
    ["echo", "printf", "git", "gh"].contains(&program) || TAKES_PATTERN.contains(&program)
}

/// Whether a simple command prints the whole environment.
fn prints_environment(simple: &Simple) -> bool {
    let names = || simple.arguments.iter().flatten().map(String::as_str);
    match simple.program.as_deref() {
        // A prefix without a command.
        None => simple.text.split_whitespace().rfind(|word| !word.starts_with('-')) == Some("env"),
        // Without the name of a variable these print all of them.
        Some("printenv" | "export" | "declare" | "typeset") => names().all(|name| name.starts_with('-')),
        // Quoted commands of several words were examined before; this handles a single word.
        Some("sh" | "bash" | "dash" | "zsh") => names().any(|name| ["env", "printenv"].contains(&name)),
        _ => false,
    }
}

fn settle(simple: Simple, found: &mut Findings) {
    if prints_environment(&simple) {
        return push(Access::Read, vec![ENVIRONMENT.to_owned()], found);
    }
    let Simple { program: Some(program), mut arguments, text, .. } = simple else { return };
    let program = program.as_str();
    if SHOWS_NAMES.contains(&program) {
        return;
    }
    if program == "rm" && erases_folders(&text) {
        for names in &arguments {
            // The last name is relative to the folder changed to last.
            push(Access::Erase, names.last().cloned().into_iter().collect(), found);
        }
    }
    if CHANGES.contains(&program) {
        return arguments.into_iter().for_each(|names| push(Access::Write, names, found));
    }
    if CHANGES_LAST.contains(&program) {
        let last = match target_option(&text) {
            Some(target) => vec![target],
            None => arguments.pop().unwrap_or_default(),
        };
        push(Access::Write, last, found);
    } else if program == "dd" {
        let outputs = arguments.iter().flatten().filter_map(|name| name.strip_prefix("of="));
        push(Access::Write, outputs.map(str::to_owned).collect(), found);
    } else if program == "git" {
        let sub = arguments.iter().flatten().next().cloned().unwrap_or_default();
        if GIT_SHOWS_NAMES.contains(&sub.as_str()) {
            return;
        }
        if GIT_CHANGES.contains(&sub.as_str()) {
            return arguments.into_iter().skip(1).for_each(|names| push(Access::Write, names, found));
        }
    } else if TAKES_PATTERN.contains(&program) {
        if !arguments.is_empty() {
            // Removes the pattern, or the first of those that options name.
            arguments.remove(0);
        }
        if program == "sed"
            && text.split_whitespace().any(|word| word.starts_with("-i") || word == "--in-place")
        {
            return arguments.into_iter().for_each(|names| push(Access::Write, names, found));
        }
    }
    for names in arguments {
        // `HEAD:.env` and `user@host:.env` name a file after the colon.
        let behind: Vec<String> =
            names.iter().filter_map(|name| name.rsplit_once(':')).map(|(_, name)| name.to_owned()).collect();
        push(Access::Read, names, found);
        push(Access::Read, behind, found);
    }
}

/// Whether this `rm` removes folders recursively.
fn erases_folders(text: &str) -> bool {
    options(text).any(|option| match option.strip_prefix("--") {
        Some(long) => long.starts_with('r') && "recursive".starts_with(long),
        None => option.contains(['r', 'R']),
    })
}

fn options(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split_whitespace().map(|word| word.trim_matches(['\'', '"']));
    words.take_while(|word| *word != "--").filter(|word| word.starts_with('-'))
}

/// The target folder that an option names for `cp`, `mv` or `install`.
fn target_option(text: &str) -> Option<String> {
    let mut words = text.split_whitespace().map(|word| word.trim_matches(['\'', '"']));
    while let Some(word) = words.next() {
        if word == "-t" || word == "--target-directory" {
            return words.next().map(str::to_owned);
        }
        if let Some(folder) = word.strip_prefix("--target-directory=") {
            return Some(folder.to_owned());
        }
    }
    None
}

/// Finds paths in a program's text, such as `open('.env')`.
fn pieces(text: &str, found: &mut Findings) {
    let cuts = |c: char| c.is_whitespace() || "'\"`()[]{}<>=,;|&".contains(c);
    let is_path = |piece: &&str| (piece.starts_with('.') || piece.contains('/')) && !piece.contains("://");
    let paths = text.split(cuts).filter(is_path).map(str::to_owned).collect();
    push(Access::Read, paths, found);
}

fn push(access: Access, names: Vec<String>, found: &mut Findings) {
    for name in names {
        if found.touched.len() < MOST_FOUND && !name.is_empty() {
            found.touched.push(Touched { access, name, place: found.place });
        }
    }
}

fn is_assignment(word: &str) -> bool {
    let is_of_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    word.split_once('=').is_some_and(|(name, _)| !name.is_empty() && name.chars().all(is_of_name))
}

/// Returns the command without the lines of here-documents, which are content.
fn without_documents(command: &str) -> String {
    let mut out = String::with_capacity(command.len());
    let mut end: Option<String> = None;
    for line in command.split_inclusive('\n') {
        match &end {
            Some(word) => {
                if line.trim() == word {
                    end = None;
                }
            }
            None => {
                out.push_str(line);
                end = document_end(line);
            }
        }
    }
    out
}

/// Returns the word that ends the here-document which begins on this line.
fn document_end(line: &str) -> Option<String> {
    let (_, rest) = line.split_once("<<")?;
    // `<<<` takes a word, not a document.
    let rest = rest.strip_prefix('-').unwrap_or(rest);
    if rest.starts_with('<') {
        return None;
    }
    let rest = rest.trim_start().trim_start_matches(['\'', '"', '\\']);
    let word: String = rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect();
    (!word.is_empty()).then_some(word)
}
