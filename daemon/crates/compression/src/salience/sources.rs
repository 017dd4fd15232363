//! The texts of a batch that somebody wrote to be read: answers, commits, plans, prompts, comments.

use super::comments;
use super::sentences::collapsed;
use super::shell::{self, SimpleCommand};
use crate::wording;
pub use crate::wording::SourceKind;
use recall_domain::ids::{EventId, Timestamp};
use recall_domain::material::{Action, BatchMaterial, BatchSource, CallOutcome, EditHunk, Step};

/// One text.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceText {
    pub kind: SourceKind,
    pub text: String,
    pub events: Vec<EventId>,
    /// The file that contains it, as the agent named it.
    pub path: Option<String>,
}

impl SourceText {
    fn new(kind: SourceKind, text: &str, event: EventId) -> Self {
        Self { kind, text: text.to_owned(), events: vec![event], path: None }
    }
}

/// The length in bytes from which a prompt with a heading counts as a document.
const LONG_PROMPT: usize = 700;
/// The minimum length of text added to a document. Shorter text says nothing by itself.
const SHORTEST_NOTE: usize = 60;
const SHORTEST_MESSAGE: usize = 8;
/// The maximum length of a failed command, in characters. A longer one is cut.
const LONGEST_COMMAND: usize = 140;
const LONGEST_ERROR_LINE: usize = 220;
const MOST_ERROR_LINES: usize = 3;
/// The number of steps within which a command may fix a failure.
const CURE_STEPS: usize = 11;
/// The number of bytes of an error that are examined.
const LONGEST_ERROR: usize = 16 * 1024;
/// The maximum number of texts of one batch that are read.
const MOST_TEXTS: usize = 400;

/// The texts of each batch of a session, in the order in which they were written. A document belongs to the batch that
/// wrote it last.
pub(super) fn of_session<'a>(batches: impl IntoIterator<Item = &'a BatchMaterial>) -> Vec<Vec<SourceText>> {
    let mut done = Vec::new();
    for batch in batches {
        let texts = texts(batch, &mut done);
        done.push(texts);
    }
    done
}

/// The texts of a batch. Documents that it rewrites are removed from earlier batches.
fn texts(batch: &BatchMaterial, earlier: &mut [Vec<SourceText>]) -> Vec<SourceText> {
    let mut texts = Vec::new();
    if batch.source == BatchSource::Private {
        return texts;
    }
    texts.extend(prompt(batch));
    for (index, step) in batch.steps.iter().enumerate() {
        if texts.len() >= MOST_TEXTS {
            break;
        }
        match &step.outcome {
            CallOutcome::Done => of_step(step, earlier, &mut texts),
            CallOutcome::Failed { error } => {
                let later = batch.steps.get(index + 1..).unwrap_or_default();
                texts.extend(failure(step, error, later));
            }
            CallOutcome::Rejected { .. } => {}
        }
    }
    let answer = batch.response.as_ref().filter(|answer| !answer.text.trim().is_empty());
    texts.extend(answer.map(|answer| SourceText::new(SourceKind::Answer, &answer.text, answer.event)));
    texts
}

fn prompt(batch: &BatchMaterial) -> Option<SourceText> {
    if batch.source.is_made_by_machine() {
        return None;
    }
    let prompt = batch.prompt.as_ref()?;
    let text = without_notices(&prompt.text);
    let text = text.trim();
    if text.is_empty()
        || text.starts_with("This session is being continued from")
        || text.starts_with("[Request interrupted")
    {
        return None;
    }
    let has_heading = text.lines().any(|line| {
        let marks = line.bytes().take_while(|byte| *byte == b'#').count();
        (1..=3).contains(&marks) && line.get(marks..).is_some_and(|rest| rest.starts_with(' '))
    });
    let kind =
        if text.len() > LONG_PROMPT && has_heading { SourceKind::PlanPrompt } else { SourceKind::Prompt };
    Some(SourceText::new(kind, text, prompt.event))
}

/// A prompt without elements that the agent's program added: those with a name of two words, such as `<ide_selection>`.
/// HTML has none.
fn without_notices(prompt: &str) -> String {
    let mut kept = String::with_capacity(prompt.len());
    let mut rest = prompt;
    while let Some((before, behind)) = rest.split_once('<') {
        kept.push_str(before);
        let name_length =
            behind.bytes().take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'));
        let name = behind.get(..name_length.count()).unwrap_or_default();
        let is_notice = name.contains(['-', '_']);
        let end = if is_notice { behind.split_once(&format!("</{name}>")) } else { None };
        match end {
            Some((_, after)) => rest = after,
            None => {
                kept.push('<');
                rest = behind;
            }
        }
    }
    kept.push_str(rest);
    without_images(&kept)
}

/// The text without the marks of pictures, such as `[Image #1]`.
fn without_images(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("[Image") {
        kept.push_str(before);
        rest = behind.split_once(']').map_or("", |(_, after)| after);
    }
    kept.push_str(rest);
    kept
}

/// The texts that a successful call leaves for people: commits, pull requests, plans, a subagent's report, the user's
/// answers. Documents and comments are left out, because an agent can read them in the repository.
pub fn texts_for_people(action: &Action, event: EventId) -> Vec<SourceText> {
    let step = Step {
        event,
        at: Timestamp::default(),
        tool: String::new(),
        outcome: CallOutcome::Done,
        subagent: None,
        action: action.clone(),
    };
    let mut texts = Vec::new();
    of_step(&step, &mut [], &mut texts);
    texts.retain(|text| !matches!(text.kind, SourceKind::Document | SourceKind::Comment));
    texts
}

fn of_step(step: &Step, earlier: &mut [Vec<SourceText>], texts: &mut Vec<SourceText>) {
    let new = |kind, text: &str| SourceText::new(kind, text, step.event);
    let in_file =
        |kind, text: &str, path: &str| SourceText { path: Some(path.to_owned()), ..new(kind, text) };
    match &step.action {
        Action::Command { command, .. } => {
            texts.extend(messages(command).into_iter().map(|(kind, text)| new(kind, &text)));
        }
        Action::Ask { exchanges } => {
            for (question, answer) in exchanges {
                if let Some(settled) = wording::answered(None, question, answer, None) {
                    let text = format!("{}. {}", settled.statement.trim_end_matches('.'), settled.rest);
                    texts.push(new(SourceKind::Ask, text.trim()));
                }
            }
        }
        Action::Delegate { answer: Some(report), .. } => texts.push(new(SourceKind::Subagent, report)),
        Action::Plan { text, path } => {
            texts.push(SourceText { path: path.clone(), ..new(SourceKind::Plan, text) });
        }
        Action::Write { path, content, .. } if is_markdown(path) => {
            let is_other = |text: &SourceText| !is_document(text, path);
            texts.retain(is_other);
            earlier.iter_mut().for_each(|texts| texts.retain(is_other));
            texts.push(in_file(document_kind(path), content, path));
        }
        Action::Write { path, content, .. } => {
            let found = comments::added(content, "", path).into_iter();
            texts.extend(found.map(|text| in_file(SourceKind::Comment, &text, path)));
        }
        Action::Edit { path, changes } if is_markdown(path) => {
            for change in changes {
                let revised = take_document(texts, path, change).or_else(|| {
                    earlier.iter_mut().rev().find_map(|texts| take_document(texts, path, change))
                });
                if let Some(document) = revised {
                    texts.push(revise(document, change, step.event));
                } else {
                    let text = added_lines(change);
                    if text.trim().len() > SHORTEST_NOTE {
                        texts.push(in_file(document_kind(path), &text, path));
                    }
                }
            }
        }
        Action::Edit { path, changes } => {
            let found =
                changes.iter().flat_map(|change| comments::added(&change.after, &change.before, path));
            texts.extend(found.map(|text| in_file(SourceKind::Comment, &text, path)));
        }
        _ => {}
    }
}

fn is_document(text: &SourceText, path: &str) -> bool {
    matches!(text.kind, SourceKind::Plan | SourceKind::Document) && text.path.as_deref() == Some(path)
}

/// Removes the document that a change is about from the texts.
fn take_document(texts: &mut Vec<SourceText>, path: &str, change: &EditHunk) -> Option<SourceText> {
    if change.before.is_empty() {
        return None;
    }
    let known =
        texts.iter().rposition(|text| is_document(text, path) && text.text.contains(&change.before))?;
    Some(texts.remove(known))
}

fn revise(mut document: SourceText, change: &EditHunk, event: EventId) -> SourceText {
    document.text = document.text.replacen(&change.before, &change.after, 1);
    if !document.events.contains(&event) {
        document.events.push(event);
    }
    document
}

fn is_markdown(path: &str) -> bool {
    let lower = path.to_lowercase();
    lower.ends_with(".md") || lower.ends_with(".mdx")
}

fn document_kind(path: &str) -> SourceKind {
    if path.to_lowercase().contains("plan") { SourceKind::Plan } else { SourceKind::Document }
}

fn added_lines(change: &EditHunk) -> String {
    let known: std::collections::HashSet<&str> = change.before.lines().map(str::trim).collect();
    let new = change.after.lines().filter(|line| line.trim().is_empty() || !known.contains(line.trim()));
    new.collect::<Vec<_>>().join("\n")
}

/// The texts for other people in a command line.
fn messages(script: &str) -> Vec<(SourceKind, String)> {
    // Most commands say nothing; reading them whole would cost more than looking for the verbs.
    if !["commit", " pr ", " issue ", " api ", " release "].iter().any(|verb| script.contains(verb)) {
        return Vec::new();
    }
    let commands = shell::commands(script);
    let Some(kind) = commands.iter().filter_map(medium).min() else { return Vec::new() };
    let media = || commands.iter().filter(|command| medium(command).is_some());
    let files: Vec<&str> = media().flat_map(files).collect();
    let mut found: Vec<(SourceKind, String)> = Vec::new();
    for command in &commands {
        let texts: Vec<String> = if medium(command).is_some() { values(command) } else { Vec::new() };
        let is_read = medium(command).is_some()
            || files.iter().any(|file| writes(command, file))
            || variable(command).is_some_and(|name| media().any(|reader| reads(reader, name)));
        let texts = texts.into_iter().chain(command.stdin.clone().filter(|text| is_read && !is_code(text)));
        for text in texts {
            let text = without_trailers(&text);
            if text.len() > SHORTEST_MESSAGE && !found.iter().any(|(_, known)| *known == text) {
                found.push((kind, text));
            }
        }
    }
    // The messages of one commit are its subject and its body.
    if kind == SourceKind::Commit {
        let whole: Vec<&str> = found.iter().map(|(_, text)| text.as_str()).collect();
        let whole = whole.join("\n\n");
        return if whole.is_empty() { Vec::new() } else { vec![(kind, whole)] };
    }
    found
}

/// Whether a command writes to other people, and where.
fn medium(command: &SimpleCommand) -> Option<SourceKind> {
    let mut words = command.words.iter().map(String::as_str).skip_while(|word| word.contains('='));
    match words.next()?.rsplit('/').next()? {
        "git" | "jj" if words.any(|word| matches!(word, "commit" | "describe")) => Some(SourceKind::Commit),
        "gh" | "glab" if matches!(words.next()?, "pr" | "mr" | "issue" | "api" | "release") => {
            Some(SourceKind::PullRequest)
        }
        _ => None,
    }
}

/// The values of the options that contain text.
fn values(command: &SimpleCommand) -> Vec<String> {
    const OPTIONS: [&str; 9] =
        ["-m", "--message", "-b", "--body", "-t", "--title", "--notes", "--comment", "--description"];
    let mut values = Vec::new();
    let mut words = command.words.iter();
    while let Some(word) = words.next() {
        let is_bundle =
            word.len() < 6 && word.starts_with('-') && !word.starts_with("--") && word.ends_with('m');
        if OPTIONS.contains(&word.as_str()) || is_bundle {
            values.extend(words.next().cloned());
        } else if matches!(word.as_str(), "-f" | "-F" | "--field" | "--raw-field") {
            let body = words.next().and_then(|word| word.strip_prefix("body="));
            // `body=@reply.md` names a file, `body='@kim You were right'` greets somebody.
            let is_file = |body: &&str| body.starts_with('@') && !body.contains(char::is_whitespace);
            values.extend(body.filter(|body| !is_file(body)).map(str::to_owned));
        } else if let Some((name, value)) = word.split_once('=')
            && OPTIONS.contains(&name)
        {
            values.push(value.to_owned());
        }
    }
    values
}

/// The files from which a command reads its text: `git commit -F message.txt`, `gh api -F body=@reply.md`.
fn files(command: &SimpleCommand) -> Vec<&str> {
    const OPTIONS: [&str; 4] = ["-F", "--file", "--body-file", "--notes-file"];
    let mut files = Vec::new();
    let mut words = command.words.iter().map(String::as_str);
    while let Some(word) = words.next() {
        if OPTIONS.contains(&word) {
            files.extend(words.next().map(|file| file.rsplit("=@").next().unwrap_or(file)));
        } else if let Some((option, file)) = word.split_once('=')
            && (OPTIONS.contains(&option) || file.starts_with('@'))
        {
            files.push(file.trim_start_matches('@'));
        }
    }
    files
}

/// The variable to which a command assigns a text: `body=$(cat <<'EOF'`.
fn variable(command: &SimpleCommand) -> Option<&str> {
    command.words.iter().find_map(|word| word.strip_suffix("=$(cat"))
}

/// Whether a command reads a variable: `gh api -f body="$body"`.
fn reads(command: &SimpleCommand, name: &str) -> bool {
    let forms = [format!("${name}"), format!("${{{name}}}")];
    command.words.iter().any(|word| forms.iter().any(|form| word.ends_with(form.as_str())))
}

/// Whether a command writes a file: `cat > message.txt`, `tee message.txt`.
fn writes(command: &SimpleCommand, file: &str) -> bool {
    command.words.iter().any(|word| word.trim_start_matches('>') == file)
}

fn is_code(text: &str) -> bool {
    let first = text.trim_start();
    ["import ", "#!", "package ", "const ", "def ", "{"].iter().any(|opening| first.starts_with(opening))
}

/// A message without the lines that tools add below it, and without the marks of a here-string of PowerShell.
fn without_trailers(message: &str) -> String {
    let inside = message.strip_prefix("@\n").and_then(|text| text.trim_end().strip_suffix('@'));
    let message = inside.unwrap_or(message);
    const TRAILERS: [&str; 7] = [
        "co-authored-by:",
        "signed-off-by:",
        "reviewed-by:",
        "change-id:",
        "generated with",
        "🤖",
        "entire-checkpoint:",
    ];
    let is_known = |line: &str| {
        let lower = line.trim().to_lowercase();
        TRAILERS.iter().any(|trailer| lower.starts_with(trailer))
    };
    // `Word-Word: value` in the last paragraph is a trailer, see git-interpret-trailers(1).
    let is_trailer = |line: &&str| {
        line.split_once(": ").is_some_and(|(name, _)| {
            name.contains('-')
                && name.split('-').all(|word| word.starts_with(|c: char| c.is_ascii_uppercase()))
                && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
        })
    };
    let lines: Vec<&str> = message.trim_end().lines().filter(|line| !is_known(line)).collect();
    let trailers = lines.iter().rev().take_while(|line| line.trim().is_empty() || is_trailer(line)).count();
    let kept = lines.get(..lines.len() - trailers).unwrap_or_default();
    kept.join("\n").trim().to_owned()
}

/// A failed command with its error and, if there is one, the similar command that worked.
fn failure(step: &Step, error: &str, later: &[Step]) -> Option<SourceText> {
    let Action::Command { command, .. } = &step.action else { return None };
    let first = first_line(command);
    if first.is_empty() {
        return None;
    }
    let cure = later.iter().take(CURE_STEPS).find_map(|step| {
        let Action::Command { command, .. } = &step.action else { return None };
        let line = first_line(command);
        let is_cure = step.outcome == CallOutcome::Done && line != first && runs_the_same(&line, &first);
        is_cure.then_some((line, step.event))
    });
    let (mut kind, mut events) = (SourceKind::Failure, vec![step.event]);
    let mut text = format!("`{first}` failed: {}", error_lines(error).join(" / "));
    if let Some((line, event)) = cure {
        kind = SourceKind::Cure;
        text.push_str(&format!(". `{line}` worked."));
        events.push(event);
    }
    Some(SourceText { kind, text, events, path: None })
}

/// Whether both lines run one program on the same thing. `node -e 0` says nothing about `node cart.js`.
fn runs_the_same(line: &str, failed: &str) -> bool {
    let (mut words, mut failed) = (line.split_whitespace(), failed.split_whitespace().peekable());
    words.next() == failed.next()
        && (failed.peek().is_none() || failed.any(|word| words.clone().any(|other| other == word)))
}

/// The first line of a command, without a preceding change of folder.
fn first_line(command: &str) -> String {
    let line = command.trim().lines().next().unwrap_or_default();
    let line = match line.strip_prefix("cd ").and_then(|rest| rest.split_once("&&")) {
        Some((folder, rest)) if !folder.trim().contains(' ') => rest.trim_start(),
        _ => line,
    };
    line.chars().take(LONGEST_COMMAND).collect()
}

/// The lines of an error that say what went wrong.
fn error_lines(error: &str) -> Vec<String> {
    const WRONG: [&str; 17] = [
        "error",
        "fatal",
        "fail",
        "cannot",
        "could not",
        "not found",
        "undefined",
        "no such",
        "denied",
        "invalid",
        "unexpected",
        "missing",
        "panic",
        "exception",
        "refus",
        "conflict",
        "unable",
    ];
    let error = error.get(..error.floor_char_boundary(LONGEST_ERROR)).unwrap_or_default();
    let lines =
        || error.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("Exit code"));
    let names_error = |line: &&str| {
        let lower = line.to_lowercase();
        WRONG.iter().any(|word| lower.contains(word))
    };
    let mut found: Vec<&str> = lines().filter(names_error).take(MOST_ERROR_LINES).collect();
    if found.is_empty() {
        found = lines().take(2).collect();
    }
    found.into_iter().map(|line| collapsed(line).chars().take(LONGEST_ERROR_LINE).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(script: &str, expected: &[(SourceKind, &str)]) {
        let found = messages(script);
        let actual: Vec<(SourceKind, &str)> =
            found.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
        assert_eq!(actual, expected);
    }

    #[test]
    fn commits_and_pull_requests_are_read() {
        use SourceKind::{Commit, PullRequest};
        check(
            "git add . && git commit -m \"$(cat <<'EOF'\nfix: wait for the drain\n\nIt hung.\n\nCo-Authored-By: A <a@b.c>\nEOF\n)\"",
            &[(Commit, "fix: wait for the drain\n\nIt hung.")],
        );
        check(
            "git commit -q -m @'\nfix: wait for the drain\n\nIt hung.\n\nShop-Session: 12\nCo-Authored-By: A <a@b.c>\n'@",
            &[(Commit, "fix: wait for the drain\n\nIt hung.")],
        );
        // A last line of the author's own with a hyphen in front of a colon stays.
        check(
            "git commit -m 'fix: wait for the drain' -m 'read-only: no lock is taken'",
            &[(Commit, "fix: wait for the drain\n\nread-only: no lock is taken")],
        );
        check(
            "git commit -am 'fix: wait' -m 'It was stale.'",
            &[(Commit, "fix: wait\n\nIt was stale.".trim())],
        );
        check(
            "gh pr create --title 'Wait for the drain' --body 'It hung because of the port.'",
            &[(PullRequest, "Wait for the drain"), (PullRequest, "It hung because of the port.")],
        );
        check(
            "gh api repos/a/b/comments -f body='Declined, it is on purpose.'",
            &[(PullRequest, "Declined, it is on purpose.")],
        );
        check(
            "cat > /tmp/said.md <<'EOF'\nfix: wait for the drain\n\nIt hung.\nEOF\ngit commit -F /tmp/said.md",
            &[(Commit, "fix: wait for the drain\n\nIt hung.")],
        );
        check(
            "cat > /tmp/said.md <<'EOF'\nDeclined, it is on purpose.\nEOF\ngh api repos/a/b/comments -F body=@/tmp/said.md",
            &[(PullRequest, "Declined, it is on purpose.")],
        );
        check(
            "body=$(cat <<'EOF'\nDeclined, it is on purpose.\nEOF\n)\ngh api repos/a/b/comments -f body=\"$body\"",
            &[(PullRequest, "Declined, it is on purpose.")],
        );
        check(
            "gh api repos/a/b/comments -f body='@kim You were right: it is on purpose.'",
            &[(PullRequest, "@kim You were right: it is on purpose.")],
        );
        // A file that is written before the commit is no message.
        check(
            "cat >> drain_test.go <<'EOF'\n// TestDrain covers the drain.\nEOF\ngit add -A && git commit --amend --no-edit",
            &[],
        );
        check("git log --grep commit", &[]);
        check("make commit", &[]);
    }

    #[test]
    fn program_notices_are_removed_from_a_prompt() {
        let prompt = "<ide_opened_file>The user opened a.rs</ide_opened_file>Fix <T> here [Image #1]<system-reminder>x</system-reminder>";
        assert_eq!(without_notices(prompt).trim(), "Fix <T> here");
    }

    #[test]
    fn a_failed_command_is_paired_with_the_one_that_worked() {
        let step = |number: u8, command: &str, outcome| Step {
            event: EventId([number; 16]),
            at: recall_domain::ids::Timestamp(0),
            tool: "Bash".to_owned(),
            outcome,
            subagent: None,
            action: Action::Command { command: command.to_owned(), description: None, output: String::new() },
        };
        let error = "Exit code 2\nerror: no such flag --fast\nusage".to_owned();
        let steps = vec![
            step(1, "cd /x && make test --fast", CallOutcome::Failed { error }),
            step(2, "make -n all", CallOutcome::Done),
            step(3, "make test FAST=1", CallOutcome::Done),
        ];
        let found = texts(&BatchMaterial { steps, ..BatchMaterial::default() }, &mut []);
        assert_eq!(
            found[0].text,
            "`make test --fast` failed: error: no such flag --fast. `make test FAST=1` worked."
        );
        assert_eq!(found[0].events, [EventId([1; 16]), EventId([3; 16])]);
    }

    #[test]
    fn only_the_last_version_of_a_plan_is_read() {
        let step = |number: u8, action| Step {
            event: EventId([number; 16]),
            at: recall_domain::ids::Timestamp(0),
            tool: "Write".to_owned(),
            outcome: CallOutcome::Done,
            subagent: None,
            action,
        };
        let path = "/x/plans/a.md".to_owned();
        let write = Action::Write {
            path: path.clone(),
            content: "# Sync\n\nUse a clock.".to_owned(),
            kind: recall_domain::material::WriteKind::Created,
        };
        let changes = vec![EditHunk { before: "a clock".to_owned(), after: "a counter".to_owned() }];
        let steps = vec![step(1, write), step(2, Action::Edit { path, changes })];
        let found = texts(&BatchMaterial { steps, ..BatchMaterial::default() }, &mut []);
        assert_eq!(found.len(), 1);
        assert_eq!((found[0].text.as_str(), found[0].kind), ("# Sync\n\nUse a counter.", SourceKind::Plan));
    }
}
