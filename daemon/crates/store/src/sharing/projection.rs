//! Writes the merged state of a shared item into a row. Summaries and plans are in `of_sessions.rs`.
//!
//! A note of another machine has no session here, but the name of one, and takes part in threads (`relations.rs`). Its
//! origin shows that another machine sent it, unless all machines of the share belong to one person.

use rusqlite::Connection;
use uuid::Uuid;

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::forgetting::{CopyOf, forget_document, forget_own_text, forgotten_at, keep_forgotten};
use crate::notes::threads::thread_words_of;
use crate::operation::{WriteContext, log};
use crate::sessions::lineage;
use crate::sharing::elsewhere::{Before, Sender};
use crate::sharing::home::{Adopted, Home, home, key_of, table, text};
use crate::sharing::{Known, Share, Wanted, of_sessions, quarantine, shared_texts};
use recall_domain::ids::{ObservationId, SessionKey, Timestamp};
use recall_domain::review::ReviewVerdict;
use recall_domain::sync::fields::{is_complete, is_personal};
use recall_domain::sync::item::{ItemRemoval, SharedItem};
use recall_domain::sync::kind::ItemKind;

/// A change of rows to match the merged states of a share's items.
#[derive(Clone, Copy)]
pub(super) struct Projection<'a> {
    pub(super) db: &'a WriteContext<'a>,
    pub(super) share: &'a Share,
    /// The machine whose changes led to the states.
    pub(super) sender: Option<&'a Sender>,
    pub(super) now: Timestamp,
}

impl Projection<'_> {
    /// Updates an item's row to match its state, which a machine's changes may have led to. Returns the sessions that lost
    /// something.
    pub(super) fn project(&self, item: &str, known: &mut Known) -> Result<Vec<SessionKey>, StoreError> {
        let Self { db, share, sender, now } = *self;
        let kind = ItemKind::of(item);
        if known.row.is_none()
            && known.wanted == Wanted::Yes
            && adopt(db, share, item, known)? == Adopted::AsItIs
        {
            return Ok(Vec::new());
        }
        // After a withdrawal, a machine that had not read it may have set some fields.
        let is_taken_back = known.item.was_withdrawn() && !is_complete(item, &known.item);
        let removed = known.item.removed().or(is_taken_back.then_some(ItemRemoval::Withdrawn));
        let may_begin = known.row.is_none() && known.wanted == Wanted::Yes && is_complete(item, &known.item);
        if removed.is_some() {
            quarantine::end(db, share, item)?;
        } else if may_begin && is_unwanted(db, share, item, &known.item)? {
            known.wanted = Wanted::No;
        } else if quarantine::is_apart(db, share, item, known, now)? {
            return Ok(Vec::new());
        }
        match (removed, known.row) {
            (Some(removal), row) => {
                known.row = None;
                if let (ItemRemoval::Forgotten, Some(key), Some(sender)) =
                    (removal, row.map(|row| key_of(item, row)), sender)
                    && home(db, key)?.is_some()
                {
                    sender.record_deletion(db, share, key.kind, now)?;
                }
                remove(db, item, row, removal, now)
            }
            (None, Some(row)) => {
                match kind {
                    ItemKind::Observation => self.update(row, &known.item)?,
                    ItemKind::Summary | ItemKind::Plan => {
                        of_sessions::update(db, share, kind, row, &known.item)?
                    }
                    ItemKind::Prompt | ItemKind::Answer => {
                        shared_texts::update(db, key_of(item, row), &known.item)?
                    }
                }
                Ok(Vec::new())
            }
            (None, None) if known.wanted == Wanted::No || !is_complete(item, &known.item) => Ok(Vec::new()),
            (None, None) => {
                known.row = Some(match kind {
                    ItemKind::Observation => insert(db, share, item, &known.item)?,
                    ItemKind::Summary | ItemKind::Plan => of_sessions::insert(db, share, item, &known.item)?,
                    ItemKind::Prompt | ItemKind::Answer => {
                        shared_texts::insert(db, share, item, &known.item)?
                    }
                });
                Ok(Vec::new())
            }
        }
    }

    fn update(&self, row: i64, state: &SharedItem) -> Result<(), StoreError> {
        let Self { db, share, sender, now } = *self;
        let Some(home) = home(db, ObservationId(row).into())? else { return Ok(()) };
        let before = Before::of(db, ObservationId(row), state, sender)?;
        // The row may have fields that the state lacks, because nobody has set them yet.
        let is_unchanged: bool = db.one(
            "SELECT type = ifnull(?2, type) AND title = ifnull(?3, title) AND subtitle IS iif(?5, ?4, subtitle)
                AND narrative = ifnull(?6, narrative) AND facts = ifnull(?7, facts) AND concepts = ifnull(?8, concepts)
                AND files_read = ifnull(?9, files_read) AND files_modified = ifnull(?10, files_modified)
                AND importance = ifnull(?11, importance) FROM observations WHERE id = ?1",
            written(row, state),
        )?;
        if !is_unchanged {
            write(db, row, state)?;
            if !share.is_personal {
                // Another person has changed a note that was shown here.
                db.run(
                    "UPDATE observations SET reviewed_at = NULL WHERE id = ?1 AND rejected_at IS NULL",
                    [row],
                )?;
            }
        }
        if home == Home::Elsewhere {
            // Two machines that imported the same note both name an author, and all others keep the same one.
            db.run(
                "UPDATE observations SET author = ?2, device = ?3 WHERE id = ?1 AND (author, device) IS NOT (?2, ?3)",
                params![row, text(state, "author"), text(state, "device")],
            )?;
        }
        relate(db, row, state, home)?;
        Marks::of(db, ObservationId(row))?.follow(db, share, state, now)?;
        match (before, sender) {
            (Some(before), Some(sender)) => before.record(db, share, sender, now),
            _ => Ok(()),
        }
    }
}

/// Finds this machine's own row of an item that has none yet.
fn adopt(db: &Connection, share: &Share, item: &str, known: &mut Known) -> Result<Adopted, StoreError> {
    match ItemKind::of(item) {
        ItemKind::Observation => {}
        ItemKind::Summary | ItemKind::Plan => return of_sessions::adopt(db, share, item, known),
        ItemKind::Prompt | ItemKind::Answer => {
            shared_texts::adopt(db, share, item, known)?;
            return Ok(Adopted::ToBeWritten);
        }
    }
    known.row = db.first(
        "SELECT id FROM observations WHERE uuid = ?1 AND project = ?2",
        params![item, share.project.0],
    )?;
    let changed: Option<i64> = db.one(
        "SELECT max(at) FROM hand_changes WHERE observation = ?1 AND NOT undone AND author IS NULL",
        [known.row],
    )?;
    let is_newer = changed.is_some() && changed > known.item.latest() && known.item.removed().is_none();
    Ok(if is_newer { Adopted::AsItIs } else { Adopted::ToBeWritten })
}

/// Whether a note was forgotten here, belongs to another project, or is another person's preference.
pub(super) fn is_unwanted(
    db: &Connection,
    share: &Share,
    item: &str,
    state: &SharedItem,
) -> Result<bool, StoreError> {
    if forgotten_at(db, CopyOf::Uuid(item))?.is_some() {
        return Ok(true);
    }
    match ItemKind::of(item) {
        ItemKind::Observation => {}
        ItemKind::Summary | ItemKind::Plan => return of_sessions::is_unwanted(db, item, state),
        ItemKind::Prompt | ItemKind::Answer => return shared_texts::is_unwanted(db, item, state),
    }
    let statement = CopyOf::Statement { title: text(state, "title"), text: text(state, "narrative") };
    let is_elsewhere: bool = db.one("SELECT EXISTS (SELECT 1 FROM observations WHERE uuid = ?1)", [item])?;
    Ok(is_elsewhere
        || !share.is_personal && is_personal(text(state, "type"))
        || forgotten_at(db, statement)?.is_some())
}

fn remove(
    db: &WriteContext<'_>,
    item: &str,
    row: Option<i64>,
    removal: ItemRemoval,
    now: Timestamp,
) -> Result<Vec<SessionKey>, StoreError> {
    if removal == ItemRemoval::Forgotten {
        // Even if it never existed here, because an import may add it.
        keep_forgotten(db, CopyOf::Uuid(item), now)?;
    }
    let Some(row) = row else { return Ok(Vec::new()) };
    let key = key_of(item, row);
    match (removal, home(db, key)?) {
        (ItemRemoval::Forgotten, Some(Home::Here)) if ItemKind::of(item).is_message() => {
            forget_own_text(db, key, now)
        }
        (ItemRemoval::Forgotten, Some(_)) => forget_document(db, key, now),
        (ItemRemoval::Withdrawn, Some(Home::Elsewhere)) => {
            log(db, key)?;
            db.run(&format!("DELETE FROM {} WHERE id = ?1", table(key.kind)), [key.row])?;
            Ok(Vec::new())
        }
        _ => Ok(Vec::new()),
    }
}

/// Adds a row in one statement, because a pull adds thousands, and each later change would update indexes again.
fn insert(db: &WriteContext<'_>, share: &Share, item: &str, state: &SharedItem) -> Result<i64, StoreError> {
    let list =
        |name: &str| if state.get(name).is_array() { state.get(name).to_string() } else { "[]".to_owned() };
    let Relation { is_by_hand, stands_beside, work, subject } = Relation::of(state);
    let statement_texts =
        [text(state, "title"), text(state, "narrative")].into_iter().chain(texts(state, "facts"));
    db.run(
        "INSERT INTO observations (uuid, project, type, title, subtitle, narrative, facts, concepts, files_read,
                files_modified, importance, evidence, origin, created_at, own_importance, own_evidence, share, author,
                device, by_hand, stands_beside, work, subject, words)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, '[]', ?12, ?13, ?11, '[]', ?14, ?15, ?16, ?17, ?18, ?19,
                ?20, ?21)",
        params![
            item,
            share.project.0,
            text(state, "type"),
            text(state, "title"),
            state.get("subtitle").as_str(),
            text(state, "narrative"),
            list("facts"),
            list("concepts"),
            list("files_read"),
            list("files_modified"),
            state.get("importance").as_i64(),
            share.origin_of(state),
            state.get("created_at").as_i64(),
            share.id,
            text(state, "author"),
            text(state, "device"),
            is_by_hand,
            stands_beside,
            work,
            subject,
            thread_words_of(statement_texts),
        ],
    )?;
    let row = db.last_insert_rowid();
    let id = ObservationId(row);
    add_files(db, row, texts(state, "files_read"), "read")?;
    add_files(db, row, texts(state, "files_modified"), "modified")?;
    log(db, id)?;
    let at = Timestamp(state.get("created_at").as_i64().unwrap_or_default());
    Marks::of_new(id).follow(db, share, state, at)?;
    Ok(row)
}

/// Returns the texts of a list field; none if it is missing.
fn texts<'a>(state: &'a SharedItem, name: &str) -> impl Iterator<Item = &'a str> {
    state.get(name).as_array().into_iter().flatten().filter_map(serde_json::Value::as_str)
}

fn add_files<'a>(
    db: &Connection,
    row: i64,
    paths: impl IntoIterator<Item = &'a str>,
    usage: &str,
) -> Result<(), StoreError> {
    for path in paths {
        db.run("INSERT OR IGNORE INTO observation_files VALUES (?1, ?2, ?3)", params![row, path, usage])?;
    }
    Ok(())
}

/// The row, and the fields that its state contains.
fn written(row: i64, state: &SharedItem) -> impl rusqlite::Params + use<'_> {
    let text = |name: &str| state.get(name).as_str();
    let list = |name: &str| state.get(name).is_array().then(|| state.get(name).to_string());
    (
        row,
        text("type"),
        text("title"),
        text("subtitle"),
        state.has("subtitle"),
        text("narrative"),
        list("facts"),
        list("concepts"),
        list("files_read"),
        list("files_modified"),
        state.get("importance").as_i64(),
    )
}

/// Writes the texts. One of this machine's own notes counts as edited by a person from then on, so that compression
/// does not overwrite it.
fn write(db: &WriteContext<'_>, row: i64, state: &SharedItem) -> Result<(), StoreError> {
    db.run(
        "UPDATE observations SET made_as = iif(share IS NULL AND made_as IS NULL AND origin <> 'user', title, made_as),
                type = ifnull(?2, type), title = ifnull(?3, title), subtitle = iif(?5, ?4, subtitle),
                narrative = ifnull(?6, narrative), facts = ifnull(?7, facts), concepts = ifnull(?8, concepts),
                files_read = ifnull(?9, files_read), files_modified = ifnull(?10, files_modified),
                importance = ifnull(?11, importance) WHERE id = ?1",
        written(row, state),
    )?;
    let texts: (String, String, Vec<String>) =
        db.one("SELECT title, narrative, facts FROM observations WHERE id = ?1", [row])?;
    let files: (Vec<String>, Vec<String>) =
        db.one("SELECT files_read, files_modified FROM observations WHERE id = ?1", [row])?;
    db.run("DELETE FROM observation_files WHERE observation = ?1", [row])?;
    add_files(db, row, files.0.iter().map(String::as_str), "read")?;
    add_files(db, row, files.1.iter().map(String::as_str), "modified")?;
    log(db, ObservationId(row))?;
    let (title, narrative, facts) = texts;
    let statement_texts = [title, narrative].into_iter().chain(facts).collect::<Vec<_>>();
    let words = thread_words_of(statement_texts.iter().map(String::as_str));
    db.run("UPDATE observations SET words = ?2 WHERE id = ?1", params![row, words])
}

/// What decides how notes replace each other. `Relations` then decides it.
struct Relation<'a> {
    is_by_hand: bool,
    stands_beside: Option<String>,
    /// The name of another machine's session.
    work: Option<&'a str>,
    subject: Option<[u8; 16]>,
}

impl<'a> Relation<'a> {
    fn of(state: &'a SharedItem) -> Self {
        let uuid = |name: &str| state.get(name).as_str().and_then(|text| Uuid::parse_str(text).ok());
        Self {
            is_by_hand: state.get("hand") == true,
            stands_beside: state.get("beside").is_array().then(|| state.get("beside").to_string()),
            work: state.get("session").as_str(),
            subject: uuid("subject").map(Uuid::into_bytes),
        }
    }
}

fn relate(db: &WriteContext<'_>, row: i64, state: &SharedItem, home: Home) -> Result<(), StoreError> {
    let Relation { is_by_hand, stands_beside, work, subject } = Relation::of(state);
    db.run(
        "UPDATE observations SET by_hand = ?2, stands_beside = ?3 WHERE id = ?1 AND (by_hand, stands_beside) IS NOT (?2, ?3)",
        params![row, is_by_hand, stands_beside],
    )?;
    if home == Home::Elsewhere {
        // This machine knows the sessions and the subjects of its own notes.
        db.run(
            "UPDATE observations SET work = ?2, subject = ?3 WHERE id = ?1 AND (work, subject) IS NOT (?2, ?3)",
            params![row, work, subject],
        )?;
    }
    Ok(())
}

record! {
/// An observation's marks.
struct Marks from "observations o" {
    id: ObservationId = "o.id",
    is_resolved: bool = "EXISTS (SELECT 1 FROM lineage WHERE older = o.id AND newer IS NULL AND NOT undone)",
    is_rejected: bool = "rejected_at IS NOT NULL",
    is_reviewed: bool = "reviewed_at IS NOT NULL",
    is_pinned: bool = "pinned_at IS NOT NULL",
}
}

impl Marks {
    /// Those of a new observation.
    fn of_new(id: ObservationId) -> Self {
        Self { id, is_resolved: false, is_rejected: false, is_reviewed: false, is_pinned: false }
    }

    fn of(db: &Connection, id: ObservationId) -> Result<Self, StoreError> {
        db.one(&format!("{} WHERE o.id = ?1", Self::SELECT), params![id])
    }

    /// Applies the marks that a state has: resolves, rejects, reopens, pins and unpins.
    fn follow(
        &self,
        db: &WriteContext<'_>,
        share: &Share,
        state: &SharedItem,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let id = self.id;
        match (self.is_resolved, state.get("resolved").as_bool()) {
            (false, Some(true)) => lineage::resolve_by_hand(db, id)?,
            (true, Some(false)) => lineage::uphold_against_work(db, id)?,
            _ => {}
        }
        if !self.is_rejected && state.get("rejected") == true && state.get("resolved") == true {
            lineage::judge(db, id, ReviewVerdict::Rejected)?;
        }
        let is_reviewed = state.get("reviewed") == true;
        if share.is_personal && state.has("reviewed") && is_reviewed != self.is_reviewed {
            let at = is_reviewed.then_some(now.0);
            db.run("UPDATE observations SET reviewed_at = ?2 WHERE id = ?1", params![id, at])?;
        }
        match state.get("pinned").as_bool().filter(|pinned| share.is_personal && *pinned != self.is_pinned) {
            Some(pinned) => {
                let at = pinned.then_some(now.0);
                db.run("UPDATE observations SET pinned_at = ?2 WHERE id = ?1", params![id, at])?;
                log(db, id)
            }
            None => Ok(()),
        }
    }
}
