//! The pages: one per session, project, day and thread, and one that lists projects and days. A page depends only on
//! the memory, so the same memory produces the same bytes.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use jiff::tz::TimeZone;
use serde_json::json;

use super::folder::mark;
use super::memory::{Memory, Note, Project, Session};
use super::names::{self, INDEX};
use recall_domain::observation::NoteOrigin;
use recall_domain::text::{one_line, shortened_line};

/// The maximum length of a title in a list, in characters.
const TITLE: usize = 120;

/// All pages by their names.
pub(super) fn pages(memory: &Memory, zone: &TimeZone) -> BTreeMap<String, String> {
    let book = Book { memory, zone, threads: memory.threads() };
    let mut pages = BTreeMap::new();
    for session in memory.sessions.values() {
        pages.insert(names::of_session(session), book.session(session));
    }
    for project in book.projects() {
        pages.insert(names::of_project(project), book.project(project));
    }
    for (day, sessions) in book.days() {
        pages.insert(names::of_day(&day), book.day(&day, &sessions));
    }
    for thread in &book.threads {
        if let [first, ..] = thread.as_slice() {
            pages.insert(names::of_thread(first), book.thread(thread));
        }
    }
    if !pages.is_empty() {
        pages.insert(INDEX.to_owned(), book.index());
    }
    pages
}

struct Book<'a> {
    memory: &'a Memory,
    zone: &'a TimeZone,
    threads: Vec<Vec<&'a Note>>,
}

impl<'a> Book<'a> {
    /// Returns the projects with something to read, by name.
    fn projects(&self) -> Vec<&'a Project> {
        let used: BTreeSet<&str> = (self.memory.sessions.values().map(|session| session.project.as_str()))
            .chain(self.memory.notes.values().map(|note| note.project.as_str()))
            .collect();
        let projects = self.memory.projects.values().filter(|project| used.contains(project.key.as_str()));
        let mut projects: Vec<&Project> = projects.collect();
        projects.sort_by(|a, b| (&a.name, &a.key).cmp(&(&b.name, &b.key)));
        projects
    }

    /// Returns the days with a prompt or a session start, and their sessions.
    fn days(&self) -> BTreeMap<String, Vec<&'a Session>> {
        let mut days: BTreeMap<String, Vec<&Session>> = BTreeMap::new();
        for session in self.memory.sessions.values() {
            let times = session.turns.iter().map(|turn| turn.opened_at).chain([session.started_at]);
            for day in times.map(|at| self.day_of(at)).collect::<BTreeSet<_>>() {
                days.entry(day).or_default().push(session);
            }
        }
        for sessions in days.values_mut() {
            sessions.sort_by_key(|session| (session.started_at, &session.session_id));
        }
        days
    }

    fn session(&self, session: &Session) -> String {
        let name = names::of_session(session);
        let branch = session.turns.iter().rev().find_map(|turn| turn.branch.as_deref());
        let mut page = self.head(
            &name,
            session.title(),
            [
                ("kind", Some(json!("session"))),
                ("agent", Some(json!(session.agent))),
                ("session", Some(json!(session.session_id))),
                ("project", self.project_name(&session.project).map(|name| json!(name))),
                ("started", Some(json!(moment(session.started_at)))),
                ("ended", session.ended_at.map(|at| json!(moment(at)))),
                ("branch", branch.map(|branch| json!(branch))),
            ],
        );
        let day = self.day_of(session.started_at);
        let project = self.memory.projects.get(&session.project);
        let project = project.map(|project| link("..", &project.name, &names::of_project(project)));
        let day = link("..", &day, &names::of_day(&day));
        let from: Vec<String> = project.into_iter().chain([day, one_line(&session.agent)]).collect();
        page.line(&from.join(" · "));
        if let Some(summary) = &session.summary {
            page.heading("Summary");
            for (label, text) in [
                ("Asked", &summary.request),
                ("Looked at", &summary.investigated),
                ("Learned", &summary.learned),
                ("Done", &summary.completed),
                ("Next", &summary.next_steps),
            ] {
                if !text.trim().is_empty() {
                    page.line(&format!("- {label}: {}", inline(text)));
                }
            }
        }
        let notes: Vec<&Note> = session.notes.iter().filter_map(|uuid| self.memory.notes.get(uuid)).collect();
        self.notes(&mut page, "Notes", &notes);
        for plan in &session.plans {
            page.heading(&format!("Plan ({}): {}", plan.state, title(&plan.title)));
            page.quoted(&plan.text);
        }
        if !session.turns.is_empty() {
            page.heading("Prompts and answers");
        }
        for turn in &session.turns {
            page.apart(&format!("### {}", self.minute(turn.opened_at)));
            for (label, text) in [("Asked", &turn.prompt), ("Answered", &turn.response)] {
                if let Some(text) = text.as_ref().filter(|text| !text.trim().is_empty()) {
                    page.line(&format!("{label}:"));
                    page.quoted(text);
                }
            }
        }
        page.finish()
    }

    fn project(&self, project: &Project) -> String {
        let name = names::of_project(project);
        let kind = [("kind", Some(json!("project"))), ("project", Some(json!(project.name)))];
        let mut page = self.head(&name, &project.name, kind);
        self.notes(&mut page, "Told to recall", &self.memory.sessionless_notes(&project.key));
        let mut open: Vec<&Note> = self.memory.notes.values().collect();
        open.retain(|note| {
            note.project == project.key
                && note.kind == "next_step"
                && note.status == "active"
                && note.session.is_some()
        });
        open.sort_by(|a, b| (b.created_at, &b.uuid).cmp(&(a.created_at, &a.uuid)));
        page.list("Open", open.iter().map(|note| self.note_line(note)));
        let threads = self.threads.iter().filter_map(|thread| match thread.as_slice() {
            [first, .., last] if first.project == project.key => {
                Some(format!("- {}", link("..", &title(&last.title), &names::of_thread(first))))
            }
            _ => None,
        });
        page.list("Threads", threads);
        let mut sessions: Vec<&Session> = self.memory.sessions.values().collect();
        sessions.retain(|session| session.project == project.key);
        sessions.sort_by_key(|session| (std::cmp::Reverse(session.started_at), &session.session_id));
        page.list("Sessions", sessions.iter().map(|session| self.session_line(session)));
        page.finish()
    }

    fn day(&self, day: &str, sessions: &[&Session]) -> String {
        let mut page =
            self.head(&names::of_day(day), day, [("kind", Some(json!("day"))), ("date", Some(json!(day)))]);
        let mut by_project: BTreeMap<&str, Vec<&Session>> = BTreeMap::new();
        for session in sessions {
            by_project.entry(&session.project).or_default().push(session);
        }
        for (project, sessions) in by_project {
            let known = self.memory.projects.get(project);
            let heading = known.map(|project| link("..", &project.name, &names::of_project(project)));
            page.heading(&heading.unwrap_or_else(|| title(project)));
            for session in sessions {
                page.line(&self.session_line(session));
                let notes = session.notes.iter().filter_map(|uuid| self.memory.notes.get(uuid));
                for note in notes.filter(|note| self.day_of(note.created_at) == day) {
                    page.line(&format!("    - {}: {}", note.kind, title(&note.title)));
                }
            }
        }
        page.finish()
    }

    /// Renders a thread, with the valid statement first.
    fn thread(&self, thread: &[&Note]) -> String {
        let [first, .., last] = thread else { return String::new() };
        let kind = [
            ("kind", Some(json!("thread"))),
            ("project", self.project_name(&first.project).map(|name| json!(name))),
        ];
        let mut page = self.head(&names::of_thread(first), &last.title, kind);
        for note in thread.iter().rev() {
            page.heading(&format!("{} {}", self.minute(note.created_at), state(note)));
            page.apart(&format!("**{}: {}**", note.kind, title(&note.title)));
            self.note_body(&mut page, note);
            let session = note.session.as_ref().and_then(|key| self.memory.sessions.get(key));
            if let Some(session) = session {
                page.line(&format!(
                    "From {}",
                    link("..", &title(session.title()), &names::of_session(session))
                ));
            }
        }
        page.finish()
    }

    fn index(&self) -> String {
        let mut page = self.head(INDEX, "Memory", [("kind", Some(json!("index")))]);
        page.list(
            "Projects",
            self.projects()
                .into_iter()
                .map(|project| format!("- {}", link(".", &project.name, &names::of_project(project)))),
        );
        let days = self.days();
        let day = |(day, sessions): (&String, &Vec<&Session>)| {
            let sessions = sessions.len();
            let word = if sessions == 1 { "session" } else { "sessions" };
            format!("- {}: {sessions} {word}", link(".", day, &names::of_day(day)))
        };
        page.list("Days", days.iter().rev().map(day));
        page.finish()
    }

    fn notes(&self, page: &mut Page, heading: &str, notes: &[&Note]) {
        if notes.is_empty() {
            return;
        }
        page.heading(heading);
        for note in notes {
            page.apart(&format!("### {}: {} {}", note.kind, title(&note.title), state(note)));
            self.note_body(page, note);
        }
    }

    fn note_body(&self, page: &mut Page, note: &Note) {
        if !note.narrative.trim().is_empty() && note.narrative.trim() != note.title.trim() {
            page.quoted(&note.narrative);
        }
        for fact in &note.facts {
            page.line(&format!("- {}", inline(fact)));
        }
        let files = note.files_modified.iter().map(|file| format!("`{}`", one_line(file).replace('`', "'")));
        let files = files.collect::<Vec<_>>().join(", ");
        if !files.is_empty() {
            page.apart(&format!("Files: {files}"));
        }
    }

    fn session_line(&self, session: &Session) -> String {
        let (start, link) = (
            self.minute(session.started_at),
            link("..", &title(session.title()), &names::of_session(session)),
        );
        format!("- {start} {link} ({})", one_line(&session.agent))
    }

    fn note_line(&self, note: &Note) -> String {
        let session = note.session.as_ref().and_then(|key| self.memory.sessions.get(key));
        match session {
            Some(session) => format!("- {}", link("..", &title(&note.title), &names::of_session(session))),
            None => format!("- {}", title(&note.title)),
        }
    }

    fn head<const N: usize>(
        &self,
        name: &str,
        heading: &str,
        fields: [(&str, Option<serde_json::Value>); N],
    ) -> Page {
        // JSON is YAML.
        let mut text = format!("{}title: {}\n", mark(name), json!(one_line(heading)));
        for (field, value) in fields {
            if let Some(value) = value {
                let _ = writeln!(text, "{field}: {value}");
            }
        }
        let _ = write!(text, "---\n\n# {}\n\n", title(heading));
        Page { text }
    }

    fn project_name(&self, key: &str) -> Option<&str> {
        self.memory.projects.get(key).map(|project| project.name.as_str())
    }

    fn day_of(&self, at: i64) -> String {
        self.zoned(at, "%Y-%m-%d")
    }

    fn minute(&self, at: i64) -> String {
        self.zoned(at, "%Y-%m-%d %H:%M")
    }

    fn zoned(&self, at: i64, format: &str) -> String {
        let at = jiff::Timestamp::from_millisecond(at).unwrap_or_default();
        at.to_zoned(self.zone.clone()).strftime(format).to_string()
    }
}

/// A page under construction.
struct Page {
    text: String,
}

impl Page {
    fn line(&mut self, line: &str) {
        self.text.push_str(line.trim_end_matches(' '));
        self.text.push('\n');
    }

    fn heading(&mut self, heading: &str) {
        self.apart(&format!("## {}", heading.trim_end()));
    }

    /// Adds a line with an empty one before and after it.
    fn apart(&mut self, line: &str) {
        self.blank();
        self.line(line);
        self.blank();
    }

    fn blank(&mut self) {
        if !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    /// Returns the page's text, which ends with one line break.
    fn finish(self) -> String {
        format!("{}\n", self.text.trim_end())
    }

    fn list(&mut self, heading: &str, entries: impl Iterator<Item = String>) {
        let entries: Vec<String> = entries.collect();
        if !entries.is_empty() {
            self.heading(heading);
            entries.iter().for_each(|entry| self.line(entry));
        }
    }

    /// Adds stored text as a quotation, which nothing in the text can end.
    fn quoted(&mut self, text: &str) {
        self.blank();
        for line in text.trim().lines() {
            let line: String = line.chars().filter(|c| *c == '\t' || !c.is_control()).collect();
            self.line(&format!("> {line}"));
        }
        self.blank();
    }
}

/// Describes the state of a note besides its text.
fn state(note: &Note) -> String {
    let mut words = Vec::new();
    match note.status.as_str() {
        "" | "active" => {}
        status => words.push(status.to_owned()),
    }
    if note.pinned_at.is_some() {
        words.push("pinned".to_owned());
    }
    if note.origin == NoteOrigin::USER {
        words.push("by you".to_owned());
    }
    words.push(format!("importance {}", note.importance));
    format!("({})", words.join(", "))
}

/// Returns stored text on one line that can neither begin nor end markup of the page.
fn inline(text: &str) -> String {
    let visible: String = one_line(text).chars().filter(|c| !c.is_control()).collect();
    visible.replace('<', "&lt;")
}

fn title(text: &str) -> String {
    shortened_line(&inline(text), TITLE)
}

fn link(root: &str, text: &str, name: &str) -> String {
    let text = title(text).replace('\\', "\\\\").replace('[', "\\[").replace(']', "\\]");
    format!("[{text}]({root}/{name})")
}

fn moment(at: i64) -> String {
    jiff::Timestamp::from_millisecond(at).unwrap_or_default().to_string()
}

#[cfg(test)]
mod tests;
