//! Renders what another agent or a person needs to continue a session: its goal, its progress, what is open, what
//! fails, what was decided. The result is Markdown of a bounded length, whose lines may also appear in a context
//! block.

mod section;
pub mod work;

use super::context::age;
use super::context::page::without_repeats;
use super::continuity::PlanNote;
use super::ids::{ObservationId, Timestamp};
use super::observation::ObservationType;
use super::plain::plain;
use super::text::shortened;
use section::Section;
use work::{ChangedFile, FailingCommand};

/// The most tokens of a handoff.
pub const MOST_TOKENS: u32 = 1_500;

/// The maximum lengths, in characters, of an entry, of a prompt in between, and of two parts of a summary.
const LINE_CHARS: usize = 240;
const ASKED_CHARS: usize = 160;
const DONE_CHARS: usize = 600;
const LEARNED_CHARS: usize = 400;

/// The state of a session for its successor.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Handoff {
    pub session: HandedOver,
    pub checkout: LastCheckout,
    /// The first prompt.
    pub goal: String,
    /// The last prompt, if it is not the first.
    pub asked: Option<String>,
    /// The prompts between the first and the last, latest first.
    pub asked_between: Vec<String>,
    /// The answer to the last prompt.
    pub answered: Option<String>,
    /// From the session's summary.
    pub done: String,
    pub learned: String,
    pub next_steps: String,
    /// Open entries of the task list.
    pub open_tasks: Vec<String>,
    /// Observations about open ends.
    pub open_notes: Vec<Noted>,
    pub failing: Vec<FailingCommand>,
    /// Files changed after the session's last commit.
    pub uncommitted: Vec<String>,
    pub decided: Vec<Noted>,
    /// The last plan that is not carried out yet, and its id.
    pub plan: Option<(String, PlanNote)>,
    /// Most changed first.
    pub files: Vec<ChangedFile>,
}

/// An observation of the session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Noted {
    pub id: ObservationId,
    pub kind: ObservationType,
    pub title: String,
}

/// The session that is handed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandedOver {
    pub id: String,
    pub agent: String,
    pub project: String,
    /// The project's folder.
    pub folder: Option<String>,
    pub title: Option<String>,
    pub last_event: Timestamp,
}

/// What the session had checked out last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LastCheckout {
    pub branch: Option<String>,
    pub commit: Option<String>,
    /// The current commit, if it differs.
    pub commit_now: Option<String>,
}

impl Handoff {
    /// Applies `change` to all texts of others. Texts written by recall itself stay the same.
    #[must_use]
    pub fn with_texts(self, change: impl Fn(&str) -> String) -> Self {
        let text = |text: String| change(&text);
        let maybe = |text: Option<String>| text.map(|text| change(&text));
        let all = |texts: Vec<String>| texts.iter().map(|text| change(text)).collect::<Vec<_>>();
        let notes = |notes: Vec<Noted>| {
            let changed = |note: Noted| Noted { title: change(&note.title), ..note };
            notes.into_iter().map(changed).collect::<Vec<_>>()
        };
        let failing = |one: FailingCommand| FailingCommand {
            command: change(&one.command),
            error: one.error.as_deref().map(&change),
        };
        let plan = |(id, plan): (String, PlanNote)| {
            let (title, text) = (change(&plan.title), change(&plan.text));
            (id, PlanNote { title, text, ..plan })
        };
        Self {
            session: HandedOver {
                folder: maybe(self.session.folder),
                title: maybe(self.session.title),
                ..self.session
            },
            checkout: LastCheckout { branch: maybe(self.checkout.branch), ..self.checkout },
            goal: text(self.goal),
            asked: maybe(self.asked),
            asked_between: all(self.asked_between),
            answered: maybe(self.answered),
            done: text(self.done),
            learned: text(self.learned),
            next_steps: text(self.next_steps),
            open_tasks: all(self.open_tasks),
            open_notes: notes(self.open_notes),
            failing: self.failing.into_iter().map(failing).collect(),
            uncommitted: all(self.uncommitted),
            decided: notes(self.decided),
            plan: self.plan.map(plan),
            files: (self.files.into_iter())
                .map(|file| ChangedFile { path: change(&file.path), ..file })
                .collect(),
        }
    }

    /// Whether the last prompt has no answer.
    pub fn is_unanswered(&self) -> bool {
        self.answered.is_none() && !(self.goal.is_empty() && self.asked.is_none())
    }

    /// Renders the Markdown with at most `most` tokens.
    pub fn markdown(&self, now: Timestamp, most: u32) -> String {
        let timeline = code(&format!("recall timeline {}", self.session.id));
        let closing = format!("\nMore: `recall show ID`, {timeline}.\n");
        section::page(&self.head(now), &self.sections(), &closing, most)
    }

    fn head(&self, now: Timestamp) -> String {
        let title = self.session.title.as_deref().unwrap_or(&self.goal);
        let mut head = format!("# Handoff: {}\n\n", shortened(&plain(title), 120));
        head.push_str(&format!(
            "Session {} of {} in {}, last worked on {}",
            code(&self.session.id),
            plain(&self.session.agent),
            plain(&self.session.project),
            age(self.session.last_event, now)
        ));
        if let Some(branch) = &self.checkout.branch {
            head.push_str(&format!(", on branch {}", code(branch)));
        }
        if let Some(commit) = &self.checkout.commit {
            head.push_str(&format!(" at {}", short_commit(commit)));
        }
        head.push_str(".\n");
        if let Some(now) = &self.checkout.commit_now {
            head.push_str(&format!("The checkout has moved since: it is at {} now.\n", short_commit(now)));
        }
        head
    }

    fn sections(&self) -> Vec<Section> {
        // Without any commit, the list of changed files is complete.
        let (files, uncommitted): (_, &[String]) = match self.uncommitted.len() == self.files.len() {
            true => ("Files changed, none committed by the session, the most changed first", &[]),
            false => ("Files changed, the most changed first", &self.uncommitted),
        };
        vec![
            Section::quoted("Goal", &self.goal),
            self.asked_last(),
            Section::of_list(
                "Asked in between, the latest first",
                self.asked_between.iter().map(|it| shortened(&plain(it), ASKED_CHARS)),
            ),
            Section::quoted("The agent said last", self.answered.as_deref().unwrap_or_default()),
            self.state(),
            self.open_ends(),
            Section::of_list("Failing", self.failing.iter().map(failing_line)),
            Section::of_list(
                "Changed after the session's last commit",
                uncommitted.iter().map(|it| code(it)),
            ),
            Section::of_list("Decided and found out", self.decided.iter().map(note_line)),
            self.plan_section(),
            Section::of_list(files, self.files.iter().map(file_line)),
        ]
    }

    fn asked_last(&self) -> Section {
        let heading = if self.is_unanswered() { "Asked last, not answered yet" } else { "Asked last" };
        match &self.asked {
            Some(asked) => Section::quoted(heading, asked),
            // The goal is already shown above.
            None if self.is_unanswered() => Section::new(heading, ["The goal itself.".to_owned()]),
            None => Section::new(heading, []),
        }
    }

    fn state(&self) -> Section {
        // A summary often repeats the last answer.
        let mut shown = Vec::new();
        without_repeats(self.answered.as_deref().unwrap_or_default(), &mut shown);
        let mut labelled = |label: &str, text: &str, most: usize| {
            let text = shortened(&plain(&without_repeats(text, &mut shown)), most);
            if text.is_empty() { text } else { format!("{label}: {text}") }
        };
        let lines =
            [labelled("Done", &self.done, DONE_CHARS), labelled("Learned", &self.learned, LEARNED_CHARS)];
        Section::new("State", lines)
    }

    fn open_ends(&self) -> Section {
        let next = shortened(&plain(&self.next_steps), DONE_CHARS);
        let next = (!next.is_empty()).then_some(next);
        // The summary's next steps and the notes often repeat each other.
        let shown = next.clone().unwrap_or_default();
        let notes =
            self.open_notes.iter().filter(|note| !shown.contains(plain(&note.title).trim_end_matches('.')));
        let tasks = self.open_tasks.iter().map(|task| short(task));
        let entries = next.into_iter().chain(notes.map(note_line)).chain(tasks);
        Section::of_list("Open", entries)
    }

    fn plan_section(&self) -> Section {
        let Some((id, plan)) = &self.plan else { return Section::new("Plan", []) };
        let heading =
            format!("Plan ({}, {id}): {}", plan.stage.as_str(), shortened(&plain(&plan.title), 100));
        let title = plan.title.trim();
        let lines = plan.text.lines().filter(|line| line.trim_start_matches(['#', ' ']).trim() != title);
        let text = lines.collect::<Vec<_>>().join("\n");
        Section::quoted(heading, &text).with_rest(format!("`recall show {id}`"))
    }
}

fn short(text: &str) -> String {
    shortened(&plain(text), LINE_CHARS)
}

fn note_line(note: &Noted) -> String {
    format!("#{} {}: {}", note.id, note.kind.as_str(), short(&note.title))
}

fn failing_line(failing: &FailingCommand) -> String {
    let error = failing.error.as_deref().map(short);
    let error = error.filter(|error| !error.is_empty()).map(|error| format!(": {error}")).unwrap_or_default();
    format!("{}{error}", code(&shortened(&failing.command, LINE_CHARS)))
}

fn file_line(file: &ChangedFile) -> String {
    let times = if file.changes == 1 { "once".to_owned() } else { format!("{} times", file.changes) };
    format!("{} ({times})", code(&file.path))
}

/// Formats stored text as inline Markdown code.
fn code(text: &str) -> String {
    format!("`{}`", plain(text).replace('`', "'"))
}

fn short_commit(commit: &str) -> String {
    commit.chars().filter(char::is_ascii_hexdigit).take(9).collect()
}

#[cfg(test)]
mod tests;
