//! Synchronises the notes of an agent's own memory: new notes are stored, and notes that their file no longer contains
//! are superseded or resolved.

use std::collections::{BTreeMap, HashSet};

use serde_json::json;

use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::operation::{Operation, WriteContext};
use crate::portable::{RestoreRows, Trust};
use crate::questions::projects;
use crate::sessions::enders::{FILE, restate};
use crate::{Reader, StoreError};
use recall_domain::document::Status;
use recall_domain::ids::{ObservationId, ProjectKey, Timestamp};
use recall_domain::observation::NoteOrigin;
use recall_domain::text::shortened_line;

/// The importance of such a note. Low, because the agent reads the file itself.
const IMPORTANCE: u8 = 5;
const TITLE_CHARS: usize = 100;
/// The minimum share of common words, in percent, for a note to count as a changed version of another.
const SAME_WORDS: usize = 40;

/// A note, with secrets and private text removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryNote {
    /// Equal for the same words at the same place.
    pub uuid: String,
    pub file: String,
    pub heading: String,
    pub text: String,
    /// When the note's file was written.
    pub at: Timestamp,
}

/// Replaces the stored notes of this origin in this project with these.
#[derive(Clone, Debug, PartialEq)]
pub struct KeepMemories {
    /// The identities of the project, strongest first; never empty.
    pub project: Vec<ProjectKey>,
    pub project_name: String,
    pub origin: NoteOrigin,
    pub notes: Vec<MemoryNote>,
    pub write: Write,
    pub at: Timestamp,
}

/// Whether to store anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Write {
    /// Only counts the changes.
    Nothing,
    All,
}

/// The numbers of changed notes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MemoryChanges {
    pub added: u64,
    pub kept: u64,
    /// Notes that a changed version superseded.
    pub replaced: u64,
    /// Notes that their file no longer contains.
    pub resolved: u64,
    /// Notes that were forgotten here.
    pub forgotten: u64,
}

record! {
struct Stored from "observations o" {
    id: ObservationId = "o.id",
    uuid: String = "o.uuid",
    place: Option<String> = "o.subtitle",
    title: String = "o.title",
    text: String = "o.narrative",
    status: Status = "o.status",
}
}

impl Operation for KeepMemories {
    type Output = MemoryChanges;

    fn execute(self, db: &WriteContext<'_>) -> Result<MemoryChanges, StoreError> {
        let known = Reader(db).find_project(&self.project)?;
        if known.is_none() && (self.write == Write::Nothing || self.notes.is_empty()) {
            // A preview must not create a project.
            return Ok(MemoryChanges { added: self.notes.len() as u64, ..Default::default() });
        }
        let project = projects::resolve(db, &self.project, &self.project_name, self.at)?;
        let key: ProjectKey = db.one("SELECT key FROM projects WHERE id = ?1", params![project])?;
        let stored: Vec<Stored> = db.all(
            &format!("{} WHERE o.project = ?1 AND o.origin = ?2 ORDER BY o.id", Stored::SELECT),
            params![project, self.origin],
        )?;
        let known: HashSet<&str> = stored.iter().map(|row| row.uuid.as_str()).collect();
        let now: HashSet<&str> = self.notes.iter().map(|note| note.uuid.as_str()).collect();
        let new: Vec<&MemoryNote> =
            self.notes.iter().filter(|note| !known.contains(note.uuid.as_str())).collect();
        let mut changes = MemoryChanges { kept: (self.notes.len() - new.len()) as u64, ..Default::default() };
        let gone: Vec<&Stored> = stored
            .iter()
            .filter(|row| !now.contains(row.uuid.as_str()) && row.status == Status::Active)
            .collect();
        let successors = successors(&gone, &new);
        if self.write == Write::Nothing {
            changes.added = new.len() as u64;
        } else {
            let lines = new.iter().map(|note| self.line(note, &key)).collect();
            let restored = RestoreRows { lines, trust: Trust::Nothing, at: self.at }.execute(db)?;
            changes.added = restored.added.values().sum();
            changes.forgotten = restored.forgotten;
            for row in stored.iter().filter(|row| now.contains(row.uuid.as_str())) {
                is_back(db, row.id)?;
            }
        }
        for row in gone {
            let newer = successors.get(&row.id);
            *(if newer.is_some() { &mut changes.replaced } else { &mut changes.resolved }) += 1;
            if self.write == Write::All {
                is_gone(db, row.id, newer.copied())?;
            }
        }
        Ok(changes)
    }
}

impl KeepMemories {
    fn line(&self, note: &MemoryNote, project: &ProjectKey) -> serde_json::Value {
        let title = title_of(note);
        json!({
            "kind": "observation", "uuid": note.uuid, "project": project.0, "type": "discovery", "title": title,
            "subtitle": place(note), "narrative": if note.text == title { "" } else { note.text.as_str() },
            "facts": [], "concepts": [], "files_read": [note.file], "files_modified": [],
            "importance": IMPORTANCE, "status": "active", "evidence": [], "origin": self.origin,
            "created_at": note.at.0,
        })
    }
}

/// Returns the first line without emphasis. A table is titled by its columns and the heading above it.
fn title_of(note: &MemoryNote) -> String {
    let first = note.text.lines().next().unwrap_or_default().replace("**", "");
    let Some(row) = first.trim().strip_prefix('|') else { return shortened_line(first.trim(), TITLE_CHARS) };
    let columns = row.split('|').map(str::trim).filter(|column| !column.is_empty());
    let columns = columns.collect::<Vec<_>>().join(", ");
    let above = note.heading.rsplit(" › ").next().unwrap_or_default();
    shortened_line(&format!("{above}: {columns}"), TITLE_CHARS)
}

fn place(note: &MemoryNote) -> String {
    shortened_line(&note.heading, TITLE_CHARS)
}

/// Finds the changed version of each missing note: the note at the same place with the most common words.
fn successors<'a>(gone: &[&Stored], new: &[&'a MemoryNote]) -> BTreeMap<ObservationId, &'a str> {
    let mut found = BTreeMap::new();
    let mut taken: HashSet<&str> = HashSet::new();
    for row in gone {
        let before = words(&format!("{} {}", row.title, row.text));
        let candidates = new
            .iter()
            .filter(|note| !taken.contains(note.uuid.as_str()) && row.place.as_ref() == Some(&place(note)));
        let common = |note: &&&MemoryNote| {
            let after = words(&note.text);
            before.intersection(&after).count() * 100 / before.union(&after).count().max(1)
        };
        if let Some(best) = candidates.max_by_key(common)
            && common(&best) >= SAME_WORDS
        {
            taken.insert(best.uuid.as_str());
            found.insert(row.id, best.uuid.as_str());
        }
    }
    found
}

fn words(text: &str) -> HashSet<String> {
    let words = text.split(|sign: char| !sign.is_alphanumeric()).filter(|word| !word.is_empty());
    words.map(str::to_lowercase).collect()
}

/// Reactivates a note that its file contains again, unless a person ended it.
fn is_back(db: &WriteContext<'_>, id: ObservationId) -> Result<(), StoreError> {
    db.run("DELETE FROM lineage WHERE older = ?1 AND reason = ?2 AND NOT undone", params![id, FILE])?;
    restate(db, id)
}

/// Ends a note that its file no longer contains, unless a person said that it is valid.
fn is_gone(db: &WriteContext<'_>, id: ObservationId, newer: Option<&str>) -> Result<(), StoreError> {
    db.run(
        "INSERT INTO lineage (older, newer, reason, evidence)
         SELECT ?1, (SELECT id FROM observations WHERE uuid = ?2), ?3, '[]'
         WHERE NOT EXISTS (SELECT 1 FROM lineage WHERE older = ?1 AND reason = ?3)
         ON CONFLICT DO NOTHING",
        params![id, newer, FILE],
    )?;
    restate(db, id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Changes, MarkObservations, Validity, empty_database, execute};
    use rusqlite::Connection;

    const ORIGIN: &str = "import:an-agent";

    fn keep(db: &Connection, texts: &[&str]) -> MemoryChanges {
        let notes = texts.iter().map(|text| MemoryNote {
            uuid: format!("uuid of {text}"),
            file: "/shop/RULES.md".to_owned(),
            heading: "RULES.md › Money".to_owned(),
            text: (*text).to_owned(),
            at: Timestamp(7),
        });
        let kept = KeepMemories {
            project: vec![ProjectKey::from("path:/shop")],
            project_name: "shop".to_owned(),
            origin: ORIGIN.into(),
            notes: notes.collect(),
            write: Write::All,
            at: Timestamp(9),
        };
        execute(db, kept, &mut Changes::default()).unwrap()
    }

    fn states(db: &Connection) -> Vec<(String, String)> {
        let mut find = db.prepare("SELECT title, status FROM observations ORDER BY id").unwrap();
        find.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    }

    fn is(states: &[(String, String)], expected: &[(&str, &str)]) {
        let states: Vec<_> = states.iter().map(|(title, status)| (title.as_str(), status.as_str())).collect();
        assert_eq!(states, expected);
    }

    #[test]
    fn the_title_of_a_memory_note_is_one_readable_line() {
        let title = |text: &str| {
            let (heading, text) = ("RULES.md › Money".to_owned(), text.to_owned());
            title_of(&MemoryNote {
                uuid: String::new(),
                file: String::new(),
                heading,
                text,
                at: Timestamp(0),
            })
        };
        assert_eq!(title("**Rounding**: `round` once\nand never twice"), "Rounding: `round` once");
        assert_eq!(title("| what | command |\n|---|---|\n| test | make |"), "Money: what, command");
    }

    #[test]
    fn the_stored_notes_follow_their_file() {
        let home = tempfile::tempdir().unwrap();
        let db = empty_database(home.path());
        let counts =
            |added, kept, replaced, resolved| MemoryChanges { added, kept, replaced, resolved, forgotten: 0 };
        assert_eq!(keep(&db, &["Totals are rounded once.", "Cents are whole numbers."]), counts(2, 0, 0, 0));
        assert_eq!(keep(&db, &["Totals are rounded once.", "Cents are whole numbers."]), counts(0, 2, 0, 0));
        assert_eq!(keep(&db, &["Totals are rounded twice."]), counts(1, 0, 1, 1));
        is(
            &states(&db),
            &[
                ("Totals are rounded once.", "superseded"),
                ("Cents are whole numbers.", "resolved"),
                ("Totals are rounded twice.", "active"),
            ],
        );
        assert_eq!(keep(&db, &["Totals are rounded once."]), counts(0, 1, 0, 1));
        is(
            &states(&db),
            &[
                ("Totals are rounded once.", "active"),
                ("Cents are whole numbers.", "resolved"),
                ("Totals are rounded twice.", "resolved"),
            ],
        );
    }

    #[test]
    fn a_memory_without_notes_creates_no_project() {
        let home = tempfile::tempdir().unwrap();
        let db = empty_database(home.path());
        keep(&db, &[]);
        let projects: i64 = db.query_row("SELECT count(*) FROM projects", [], |row| row.get(0)).unwrap();
        assert_eq!(projects, 0);
    }

    #[test]
    fn a_mark_set_by_a_person_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let db = empty_database(home.path());
        let mark = |validity| {
            let ids = vec![ObservationId(1)];
            let mark = MarkObservations { ids, validity, at: Timestamp(8) };
            execute(&db, mark, &mut Changes::default()).unwrap();
        };
        keep(&db, &["Totals are rounded once."]);
        mark(Validity::Resolved);
        keep(&db, &["Totals are rounded once."]);
        is(&states(&db), &[("Totals are rounded once.", "resolved")]);
        mark(Validity::Holds);
        keep(&db, &[]);
        mark(Validity::Holds);
        keep(&db, &[]);
        is(&states(&db), &[("Totals are rounded once.", "active")]);
        assert_eq!(Reader(&db).lineage(ObservationId(1)).unwrap(), []);
    }
}
