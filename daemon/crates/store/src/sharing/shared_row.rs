//! The shared part of a row: an observation, a session's summary, or an approved plan.
//!
//! Draft plans change with every step of an agent, and task lists only show a session's progress. Neither is shared.
//! Prompts and final answers are shared only if the share includes them.

use rusqlite::Connection;
use serde_json::{Value, json};
use uuid::Uuid;

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::{Sql, record};
use crate::sharing::{ReceivedTextRow, Share, received_text, share};
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::ids::{ProjectRow, SessionKey, ShareId};
use recall_domain::material::BatchSource;
use recall_domain::observation::NoteOrigin;
use recall_domain::sync::fields::{PARTS, is_personal};
use recall_domain::sync::item::ItemFields;
use recall_domain::sync::kind::{ItemKind, message_of, plan_of, summary_of};

/// The shared part of a row.
pub(super) struct SharedRow {
    pub key: DocumentKey,
    /// Its name on all machines.
    pub item: String,
    pub project: ProjectRow,
    /// The share by which it arrived. `None` if it is this machine's own.
    pub share: Option<ShareId>,
    /// Whether it describes a person's traits or wishes.
    pub is_personal: bool,
    /// Fields that may change.
    fields: ItemFields,
    /// Fields that may change, and that only the same person's machines receive.
    own_marks: ItemFields,
    /// Fields that are set once.
    beginning: ItemFields,
    /// The author of a note that was imported. Importing a note does not change its author.
    author: Option<String>,
    device: Option<String>,
}

fn fields<const N: usize>(fields: [(&str, Value); N]) -> ItemFields {
    fields.map(|(name, value)| (name.to_owned(), value)).into()
}

impl SharedRow {
    /// Returns `None` if there is no such row, or if such rows are never shared.
    pub(super) fn of(db: &Connection, key: DocumentKey) -> Result<Option<Self>, StoreError> {
        match key.kind {
            DocumentKind::Observation => Ok(ObservationColumns::of(db, key.row)?.map(|row| row.shared(key))),
            DocumentKind::Summary => Ok(SummaryColumns::of(db, key.row)?.and_then(|row| row.shared(key))),
            DocumentKind::Plan => Ok(PlanColumns::of(db, key.row)?.and_then(|row| row.shared(key))),
            DocumentKind::Prompt | DocumentKind::Response => {
                Ok(BatchTexts::of(db, key)?.and_then(|row| row.shared(key)))
            }
            DocumentKind::ReceivedText => Ok(received_text(db, key.row)?.map(|row| of_others(key, row))),
            _ => Ok(None),
        }
    }

    /// Whether this share sends it to other machines.
    pub(super) fn leaves_by(&self, share: &Share) -> bool {
        match self.key.kind {
            DocumentKind::Prompt => share.has_prompts,
            DocumentKind::Response => share.has_answers,
            _ => share.is_personal || !self.is_personal,
        }
    }

    /// The fields that may change, for this share.
    pub(super) fn fields(&self, share: &Share) -> ItemFields {
        let mut fields = self.fields.clone();
        if share.is_personal {
            fields.extend(self.own_marks.clone());
        }
        fields
    }

    /// The fields that are set once, for this share.
    pub(super) fn beginning(&self, share: &Share) -> ItemFields {
        let mut beginning = self.beginning.clone();
        beginning.extend(fields([
            ("author", json!(self.author.as_ref().unwrap_or(&share.author))),
            ("device", json!(self.device.as_ref().unwrap_or(&share.device_name))),
        ]));
        beginning
    }

    /// Returns the shares that it belongs to. An item of another machine belongs only to the share by which it
    /// arrived.
    pub(super) fn shares(&self, db: &Connection) -> Result<Vec<Share>, StoreError> {
        match self.share {
            Some(id) => Ok(share(db, id)?.into_iter().collect()),
            None => db
                .all(&format!("{} WHERE s.project = ?1 ORDER BY s.id", Share::SELECT), params![self.project]),
        }
    }
}

record! {
struct ObservationColumns from "observations" {
    uuid: String = "uuid",
    project: ProjectRow = "project",
    share: Option<ShareId> = "share",
    kind: String = "type",
    title: String = "title",
    subtitle: Option<String> = "subtitle",
    narrative: String = "narrative",
    facts: Vec<String> = "facts",
    concepts: Vec<String> = "concepts",
    files_read: Vec<String> = "files_read",
    files_modified: Vec<String> = "files_modified",
    importance: i64 = "importance",
    origin: NoteOrigin = "origin",
    created_at: i64 = "created_at",
    is_pinned: bool = "pinned_at IS NOT NULL",
    is_reviewed: bool = "reviewed_at IS NOT NULL",
    is_rejected: bool = "rejected_at IS NOT NULL",
    author: Option<String> = "author",
    device: Option<String> = "device",
    /// Not derived from the status, because a newer note may cover a resolved one.
    is_resolved: bool = "EXISTS (SELECT 1 FROM lineage WHERE older = observations.id AND newer IS NULL AND NOT undone)",
    /// A newer note has replaced it. Each machine derives this itself.
    is_replaced: bool = "superseded_by IS NOT NULL",
    agent: Option<String> = "(SELECT agent FROM sessions WHERE id = observations.session)",
    session: Option<String> = "(SELECT session_id FROM sessions WHERE id = observations.session)",
    work: Option<String> = "work",
    subject: Option<[u8; 16]> = "subject",
    is_by_hand: bool = "origin IN ('user', 'shared:user') OR by_hand",
    /// The newer notes that a person, here or elsewhere, lets it stand beside: the last ones, because there may be many.
    beside: Vec<String> = "(SELECT json_group_array(uuid) FROM (SELECT uuid FROM (
         SELECT n.uuid FROM lineage l JOIN observations n ON n.id = l.newer
            WHERE l.older = observations.id AND l.undone AND n.created_at >= observations.created_at
         UNION SELECT value FROM json_each(observations.stands_beside)) ORDER BY uuid DESC LIMIT 40) ORDER BY uuid)",
}
}

impl ObservationColumns {
    fn of(db: &Connection, row: i64) -> Result<Option<Self>, StoreError> {
        db.first(&format!("{} WHERE id = ?1", Self::SELECT), [row])
    }

    fn shared(self, key: DocumentKey) -> SharedRow {
        let name = session(self.agent, self.session).map(|session| summary_of(&session)).or(self.work);
        let mut beginning = fields([("origin", json!(self.origin)), ("created_at", json!(self.created_at))]);
        beginning.extend(name.map(|name| ("session".to_owned(), json!(name))));
        let mut validity = ItemFields::new();
        // What replaced it may have taken the place of what resolved it. That reopens it nowhere.
        if self.is_resolved || !self.is_replaced {
            validity.insert("resolved".to_owned(), json!(self.is_resolved));
        }
        let mut row = SharedRow {
            key,
            project: self.project,
            share: self.share,
            is_personal: is_personal(&self.kind),
            fields: fields([
                ("type", json!(self.kind)),
                ("title", json!(self.title)),
                ("subtitle", json!(self.subtitle)),
                ("narrative", json!(self.narrative)),
                ("facts", json!(self.facts)),
                ("concepts", json!(self.concepts)),
                ("files_read", json!(self.files_read)),
                ("files_modified", json!(self.files_modified)),
                ("importance", json!(self.importance)),
                // Absent instead of `false`, so that older notes are not logged again.
                ("rejected", json!(self.is_rejected.then_some(true))),
                ("hand", json!(self.is_by_hand.then_some(true))),
                ("subject", json!(self.subject.map(|hash| Uuid::from_bytes(hash).to_string()))),
                ("beside", json!(Some(self.beside).filter(|names| !names.is_empty()))),
            ]),
            own_marks: fields([
                ("pinned", json!(self.is_pinned)),
                ("reviewed", json!(self.is_reviewed.then_some(true))),
            ]),
            beginning,
            item: self.uuid,
            author: self.author,
            device: self.device,
        };
        row.fields.extend(validity);
        row
    }
}

record! {
struct SummaryColumns from "session_summaries m LEFT JOIN sessions s ON s.id = m.session" {
    agent: Option<String> = "s.agent",
    session: Option<String> = "s.session_id",
    uuid: Option<String> = "m.uuid",
    project: ProjectRow = "m.project",
    share: Option<ShareId> = "m.share",
    title: String = "m.title",
    request: String = "m.request",
    investigated: String = "m.investigated",
    learned: String = "m.learned",
    completed: String = "m.completed",
    next_steps: String = "m.next_steps",
    notes: String = "m.notes",
    origin: NoteOrigin = "m.origin",
    created_at: i64 = "m.created_at",
    author: Option<String> = "m.author",
    device: Option<String> = "m.device",
}
}

/// The session's key of a row of this machine.
fn session(agent: Option<String>, id: Option<String>) -> Option<SessionKey> {
    Some(SessionKey { agent: agent?.as_str().into(), id: recall_domain::ids::SessionId(id?) })
}

/// Adds the fields that identify the session.
fn of_session(session: Option<&SessionKey>, mut more: ItemFields) -> ItemFields {
    if let Some(SessionKey { agent, id }) = session {
        more.extend(fields([("agent", json!(agent.as_str())), ("session", json!(id.as_str()))]));
    }
    more
}

impl SummaryColumns {
    fn of(db: &Connection, row: i64) -> Result<Option<Self>, StoreError> {
        db.first(&format!("{} WHERE m.id = ?1", Self::SELECT), [row])
    }

    fn shared(self, key: DocumentKey) -> Option<SharedRow> {
        let session = session(self.agent, self.session);
        let parts =
            [self.request, self.investigated, self.learned, self.completed, self.next_steps, self.notes];
        let parts = PARTS.iter().zip(parts).map(|(name, text)| ((*name).to_owned(), json!(text)));
        let mut texts = fields([("title", json!(self.title)), ("created_at", json!(self.created_at))]);
        texts.extend(parts);
        Some(SharedRow {
            key,
            item: session.as_ref().map(summary_of).or(self.uuid)?,
            project: self.project,
            share: self.share,
            is_personal: false,
            fields: texts,
            own_marks: ItemFields::new(),
            beginning: of_session(session.as_ref(), fields([("origin", json!(self.origin))])),
            author: self.author,
            device: self.device,
        })
    }
}

record! {
struct PlanColumns from "plans l LEFT JOIN sessions s ON s.id = l.session LEFT JOIN shares h ON h.id = l.share" {
    agent: Option<String> = "s.agent",
    session: Option<String> = "s.session_id",
    uuid: Option<String> = "l.uuid",
    project: ProjectRow = "ifnull(s.project, h.project)",
    share: Option<ShareId> = "l.share",
    is_approved: bool = "l.kind = 'plan' AND l.state = 'approved'",
    path: String = "l.path",
    title: String = "l.title",
    text: String = "l.text",
    created_at: i64 = "l.created_at",
    updated_at: i64 = "l.updated_at",
    author: Option<String> = "l.author",
    device: Option<String> = "l.device",
}
}

impl PlanColumns {
    fn of(db: &Connection, row: i64) -> Result<Option<Self>, StoreError> {
        db.first(&format!("{} WHERE l.id = ?1", Self::SELECT), [row])
    }

    fn shared(self, key: DocumentKey) -> Option<SharedRow> {
        if !self.is_approved {
            return None;
        }
        let session = session(self.agent, self.session);
        Some(SharedRow {
            key,
            item: session.as_ref().map(|session| plan_of(session, &self.path)).or(self.uuid)?,
            project: self.project,
            share: self.share,
            is_personal: false,
            fields: fields([
                ("title", json!(self.title)),
                ("text", json!(self.text)),
                ("updated_at", json!(self.updated_at)),
            ]),
            own_marks: ItemFields::new(),
            beginning: of_session(session.as_ref(), fields([("created_at", json!(self.created_at))])),
            author: self.author,
            device: self.device,
        })
    }
}

record! {
/// A batch's texts on this machine. The query returns no row if no share includes texts.
struct BatchTexts from "shares h JOIN sessions s ON s.project = h.project JOIN prompt_batches b ON b.session = s.id" {
    agent: String = "s.agent",
    session: String = "s.session_id",
    project: ProjectRow = "s.project",
    source: BatchSource = "b.source",
    prompt: Option<String> = "b.prompt",
    response: Option<String> = "b.response",
    opened_at: i64 = "b.opened_at",
}
}

impl BatchTexts {
    fn of(db: &Connection, key: DocumentKey) -> Result<Option<Self>, StoreError> {
        let sql = format!(
            "{} WHERE b.id = ?1 AND EXISTS (SELECT 1 FROM shares WHERE prompts OR answers
                OR id IN (SELECT share FROM sync_items WHERE row = ?1)) LIMIT 1",
            Self::SELECT
        );
        db.first(&sql, [key.row])
    }

    /// Returns `None` if no person typed the prompt, or if there is no text.
    fn shared(self, key: DocumentKey) -> Option<SharedRow> {
        if self.source != BatchSource::User {
            return None;
        }
        let (kind, text) = match key.kind {
            DocumentKind::Response => (ItemKind::Answer, self.response?),
            _ => (ItemKind::Prompt, self.prompt?),
        };
        if text.trim().is_empty() {
            return None;
        }
        let session = session(Some(self.agent), Some(self.session))?;
        Some(SharedRow {
            key,
            item: message_of(&session, kind, &text),
            project: self.project,
            share: None,
            is_personal: false,
            fields: fields([("text", json!(text))]),
            own_marks: ItemFields::new(),
            beginning: of_session(Some(&session), fields([("created_at", json!(self.opened_at))])),
            author: None,
            device: None,
        })
    }
}

/// Wraps an item of another machine. Local actions never change it.
fn of_others(key: DocumentKey, row: ReceivedTextRow) -> SharedRow {
    SharedRow {
        key,
        item: row.uuid,
        project: row.project,
        share: Some(row.share),
        is_personal: false,
        fields: ItemFields::new(),
        own_marks: ItemFields::new(),
        beginning: ItemFields::new(),
        author: Some(row.author),
        device: Some(row.device),
    }
}
