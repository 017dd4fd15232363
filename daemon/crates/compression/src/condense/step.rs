//! Describes a step of the agent in a few lines.

use std::collections::HashMap;

use similar::{ChangeTag, TextDiff};

use super::Measures;
use super::excerpt::Excerpts;
use recall_domain::material::{Action, BatchMaterial, CallOutcome, EditHunk, ProjectFolder, Step, WriteKind};

/// The maximum size in bytes of texts to compare. Larger ones are shown as before and after, because computing their
/// difference costs too much.
const MOST_TO_COMPARE: usize = 64 * 1024;

/// Describes steps in order, and remembers which texts it has included.
pub(super) struct StepWriter<'a> {
    folder: ProjectFolder<'a>,
    measures: &'a Measures,
    /// The included texts, with the number of their step.
    included: HashMap<(String, String), usize>,
}

impl<'a> StepWriter<'a> {
    pub(super) fn new(folder: ProjectFolder<'a>, measures: &'a Measures) -> Self {
        Self { folder, measures, included: HashMap::new() }
    }

    /// Describes a step under its number, ending with a line break. A repeated read is only a line with the number.
    pub(super) fn describe(&mut self, number: usize, step: &Step, excerpts: &mut Excerpts) -> String {
        let who = step.subagent.as_ref().map_or("", |_| " (subagent)");
        let mut text = format!("[{number}]{who} {}", self.deed(number, step, excerpts));
        match &step.outcome {
            CallOutcome::Done => {}
            CallOutcome::Failed { error } => {
                let error = excerpts.of(error, self.measures.error);
                text.push_str(&format!("\nFAILED: {error}"));
            }
            CallOutcome::Rejected { reason } => {
                let reason = excerpts.of(reason.as_deref().unwrap_or_default(), self.measures.message);
                text.push_str(&format!("\nTHE USER REJECTED IT: {reason}"));
            }
        }
        text.push('\n');
        text
    }

    fn deed(&mut self, number: usize, step: &Step, excerpts: &mut Excerpts) -> String {
        let measures = self.measures;
        match &step.action {
            Action::Read { path } => {
                let path = self.path(path);
                match self.earlier(number, "read", &path) {
                    Some(_) => {
                        excerpts.repeated(path.len());
                        format!("read {path} again")
                    }
                    None => format!("read {path}"),
                }
            }
            Action::Edit { path, changes } => {
                let difference: String = changes.iter().map(difference).collect();
                format!("edited {}\n{}", self.path(path), excerpts.of(&difference, measures.edit))
            }
            Action::Write { path, content, kind } => {
                let verb = if *kind == WriteKind::Created { "created" } else { "rewrote" };
                format!("{verb} {}\n{}", self.path(path), excerpts.of(content, measures.edit))
            }
            Action::Command { command, description, output } => {
                let why = description.as_ref().map(|why| format!("  # {why}")).unwrap_or_default();
                let command = excerpts.of(command, measures.edit);
                format!("$ {command}{why}{}", self.output(number, &command, output, excerpts))
            }
            Action::Search { pattern, path, output } => {
                let place = path.as_ref().map(|path| format!(" in {}", self.path(path))).unwrap_or_default();
                format!("searched {pattern}{place}{}", self.output(number, pattern, output, excerpts))
            }
            Action::Fetch { url, question, output } => {
                let asked = question.as_deref().unwrap_or_default();
                format!("looked up {url} {asked}{}", self.output(number, url, output, excerpts))
            }
            Action::Delegate { description, prompt, answer } => {
                let prompt = excerpts.of(prompt, measures.edit);
                let answer = answer.as_deref().unwrap_or("(no answer)");
                let answer = excerpts.of(answer, measures.error);
                format!("gave a subagent the work: {description}\n{prompt}\nIts answer: {answer}")
            }
            Action::Ask { exchanges } => {
                exchanges.iter().fold("asked the user".to_owned(), |text, (q, a)| {
                    format!(
                        "{text}\nQ: {}\nA: {}",
                        excerpts.of(q, measures.message),
                        excerpts.of(a, measures.message)
                    )
                })
            }
            Action::Plan { text, .. } => {
                let verdict = match step.outcome {
                    CallOutcome::Done => "the user approved this plan",
                    CallOutcome::Failed { .. } | CallOutcome::Rejected { .. } => {
                        "put a plan to the user, who did not approve it"
                    }
                };
                format!("{verdict}:\n{}", excerpts.of(text, measures.answer))
            }
            Action::Tasks { entries } => {
                let tasks: String =
                    entries.iter().map(|(task, state)| format!("\n- {task}: {state}")).collect();
                format!("task list{}", excerpts.of(&tasks, measures.output))
            }
            Action::Other { input, output } => {
                let input = excerpts.of(input, measures.edit);
                format!("{} {input}{}", step.tool, self.output(number, &input, output, excerpts))
            }
        }
    }

    /// The step's output on separate lines. A repeated output is included once.
    fn output(&mut self, number: usize, of: &str, output: &str, excerpts: &mut Excerpts) -> String {
        let output = output.trim();
        if output.is_empty() {
            return String::new();
        }
        match self.earlier(number, of, output) {
            Some(earlier) => {
                excerpts.repeated(output.len());
                format!("\n(as in [{earlier}])")
            }
            None => format!("\n{}", excerpts.of(output, self.measures.output)),
        }
    }

    /// Returns the step that already included the same text.
    fn earlier(&mut self, number: usize, kind: &str, text: &str) -> Option<usize> {
        let first = *self.included.entry((kind.to_owned(), text.to_owned())).or_insert(number);
        (first != number).then_some(first)
    }

    fn path(&self, path: &str) -> String {
        self.folder.beneath(path).unwrap_or_else(|| path.to_owned())
    }
}

/// Describes a change as removed and added lines.
fn difference(change: &EditHunk) -> String {
    if change.before.len() + change.after.len() > MOST_TO_COMPARE {
        return format!("- {}\n+ {}\n", change.before, change.after);
    }
    let difference = TextDiff::from_lines(change.before.as_str(), change.after.as_str());
    let mut text = String::new();
    for group in difference.grouped_ops(1) {
        for change in group.iter().flat_map(|operation| difference.iter_changes(operation)) {
            let sign = match change.tag() {
                ChangeTag::Delete => '-',
                ChangeTag::Insert => '+',
                ChangeTag::Equal => ' ',
            };
            text.push(sign);
            text.push_str(change.value().trim_end_matches('\n'));
            text.push('\n');
        }
    }
    text
}

/// Summarises a turn's work in at most three lines: changed files, failed commands, questions that the user answered.
pub(super) fn deeds(batch: &BatchMaterial) -> String {
    const MOST: usize = 8;
    let mut files: Vec<String> = Vec::new();
    let mut failed: Vec<&str> = Vec::new();
    let mut answers: Vec<String> = Vec::new();
    for step in &batch.steps {
        match &step.action {
            Action::Edit { path, .. } | Action::Write { path, .. } => {
                let path = batch.folder().beneath(path).unwrap_or_else(|| path.clone());
                if !files.contains(&path) {
                    files.push(path);
                }
            }
            Action::Command { command, .. } if step.outcome.is_failed() => failed.push(command),
            Action::Ask { exchanges } => {
                answers.extend(exchanges.iter().map(|(question, answer)| format!("{question} {answer}")));
            }
            _ => {}
        }
    }
    let line = |label: &str, entries: Vec<&str>| {
        let more = entries.len().saturating_sub(MOST);
        let some: Vec<String> =
            entries.iter().take(MOST).map(|entry| entry.chars().take(200).collect()).collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        if some.is_empty() { String::new() } else { format!("{label}: {}{more}\n", some.join("; ")) }
    };
    line("Changed files", files.iter().map(String::as_str).collect())
        + &line("Commands that failed", failed)
        + &line("The user was asked", answers.iter().map(String::as_str).collect())
}
