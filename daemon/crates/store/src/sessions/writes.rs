//! Stores events: their acceptance, their effects, and their injections.

use crate::database::bind::params;
use recall_protocol::wire::Flags;
use rusqlite::Connection;
use rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY;

use crate::database::row::Sql;
use crate::operation::{Operation, WriteContext};
use crate::questions::projects;
use crate::sessions::delivery::{Delivery, Precedence, SessionOrigin};
use crate::sessions::effect_context::{EffectContext, StoredEvent};
use crate::sessions::imported::{Capture, capture_of};
use crate::sessions::{effects, handoffs, homes};
use crate::{StoreError, forgetting};
use recall_domain::conventions::Conventions;
use recall_domain::event::{ConversationPlace, MessageOrigin};
use recall_domain::ids::{EventId, LogSeq, SessionKey, SessionRow, Timestamp};
use recall_domain::lifecycle::LifecycleKind;
use recall_domain::session::Effect;
use recall_system::faults::{self, Fault, Point, planted};

/// An event with everything that follows from it, stored completely or not at all.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    pub session: SessionKey,
    /// The conventions of the session's agent.
    pub conventions: Conventions,
    pub origin: SessionOrigin,
    pub delivery: Delivery,
    pub effects: Vec<Effect>,
    /// Hashes of the files that the event's call changed.
    pub changed_files: Vec<[u8; 8]>,
}

/// A delivery that could not be parsed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unparsed {
    pub delivery: Delivery,
    pub parse_error: String,
    pub payload: Vec<u8>,
}

/// The outcome of storing an unparsed delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UnparsedOutcome {
    Stored,
    /// It was already stored, so nothing changed.
    Duplicate,
}

/// An injection into a session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    pub session: SessionKey,
    /// The event that caused it.
    pub event: EventId,
    pub at: Timestamp,
    /// `start`, `prompt` and so on.
    pub moment: String,
    pub tokens: u32,
    /// The injected items and the reasons, a JSON array.
    pub items: String,
    /// The file that it was about, relative to the project's folder.
    pub file: Option<String>,
}

/// The outcome of storing an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventOutcome {
    Stored(StoredEvent),
    /// It was already stored, so nothing changed.
    Duplicate,
    /// It was captured before its session was forgotten, so only its id is stored.
    Dropped,
}

impl Operation for Transaction {
    type Output = EventOutcome;

    fn execute(self, db: &WriteContext<'_>) -> Result<EventOutcome, StoreError> {
        let outcome = store_event(db, &self)?;
        if outcome == EventOutcome::Duplicate {
            db.take_back();
        }
        Ok(outcome)
    }
}

fn store_event(db: &WriteContext<'_>, transaction: &Transaction) -> Result<EventOutcome, StoreError> {
    let delivery = &transaction.delivery;
    if forgetting::belongs_to_forgotten_session(db, &transaction.session, delivery)? {
        let without_key = Delivery { key: None, ..delivery.clone() };
        let is_new = deliver(db, &without_key, None)?;
        return Ok(if is_new { EventOutcome::Dropped } else { EventOutcome::Duplicate });
    }
    let known = session_row(db, &transaction.session)?;
    let is_new = known.is_none();
    let mut stored = match known {
        Some(stored) => stored,
        // The session was stored when this was decided, but has since been forgotten.
        None if transaction.origin.project.is_empty() => return Err(StoreError::NoSuchSession),
        None => create_session(db, transaction)?,
    };
    if !deliver(db, delivery, Some(stored.session))? {
        return Ok(EventOutcome::Duplicate);
    }
    faults::reach_disk(Point::Insert)?;
    if !is_new && transaction.origin.precedence == Precedence::Earlier {
        stored =
            homes::move_to(db, stored, &transaction.origin, delivery, transaction.conventions.work_trees)?;
    }
    db.run(
        "UPDATE sessions SET last_event_at = max(last_event_at, ?2), cwd = ifnull(?3, cwd),
                transcript_path = ifnull(?4, transcript_path) WHERE id = ?1",
        params![
            stored.session.0,
            delivery.captured_at.0,
            transaction.origin.cwd,
            transaction.origin.transcript_path
        ],
    )?;
    if let Some(place) = &transaction.origin.place {
        keep_place(db, stored.session, place)?;
    }
    let (key, event, at) = (&transaction.session, Some(delivery.event), delivery.captured_at);
    let conventions = transaction.conventions;
    let capture = match Flags(delivery.flags).contains(Flags::IMPORTED) {
        true => Capture::Imported,
        false => Capture::Hooks,
    };
    let changed_files = &transaction.changed_files;
    let scene = EffectContext { db, stored, key, event, at, capture, conventions, changed_files };
    for effect in &transaction.effects {
        effects::apply(&scene, effect)?;
    }
    Ok(EventOutcome::Stored(stored))
}

/// Stores where the session's conversation takes place. Another channel replaces the fields of the previous one.
fn keep_place(db: &Connection, session: SessionRow, place: &ConversationPlace) -> Result<(), StoreError> {
    db.run(
        "UPDATE sessions SET place = json_patch(CASE
                WHEN json_extract(?2, '$.channel_id') <> ifnull(json_extract(place, '$.channel_id'), '')
                THEN json_object('session_key', json_extract(place, '$.session_key'))
                ELSE ifnull(place, '{}') END, ?2) WHERE id = ?1",
        params![session.0, serde_json::to_string(place)?],
    )
}

/// Effects of inactivity in a session.
#[derive(Clone, Debug, PartialEq)]
pub struct IdleEffects {
    pub session: SessionKey,
    pub effects: Vec<Effect>,
    pub at: Timestamp,
}

impl Operation for IdleEffects {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let Self { session, effects, at } = self;
        // The session was forgotten meanwhile.
        let Some(stored) = session_row(db, &session)? else { return Ok(()) };
        // Inactivity involves no prompt and no path.
        let conventions = Conventions::default();
        let capture = capture_of(db, stored.session)?;
        let (key, event, changed_files) = (&session, None, &[][..]);
        let scene = EffectContext { db, stored, key, event, at, capture, conventions, changed_files };
        effects.iter().try_for_each(|effect| effects::apply(&scene, effect))
    }
}

pub(crate) fn session_row(db: &Connection, key: &SessionKey) -> Result<Option<StoredEvent>, StoreError> {
    let sql = "SELECT id, project FROM sessions WHERE agent = ?1 AND session_id = ?2";
    let row = db.first(sql, [key.agent.as_str(), key.id.as_str()])?;
    Ok(row.map(|(session, project)| StoredEvent { session, project }))
}

fn create_session(db: &Connection, transaction: &Transaction) -> Result<StoredEvent, StoreError> {
    let Transaction { session: key, origin, delivery, .. } = transaction;
    let project = projects::resolve_folder(db, &origin.project, &origin.project_name, delivery.captured_at)?;
    if let Some(alias) = &origin.alias {
        projects::rename(db, project, alias)?;
    }
    db.run(
        "INSERT INTO sessions (agent, session_id, project, root, status, life, started_at,
             last_event_at, home_event)
         VALUES (?1, ?2, ?3, ?4, 'initialized', 0, ?5, ?5, ?6)",
        params![
            key.agent.as_str(),
            key.id.as_str(),
            project.0,
            origin.root,
            delivery.captured_at.0,
            delivery.event.0
        ],
    )?;
    Ok(StoredEvent { session: SessionRow(db.last_insert_rowid()), project })
}

/// Records the acceptance. Returns `false` if this event id or second key was already recorded.
fn deliver(
    db: &WriteContext<'_>,
    delivery: &Delivery,
    session: Option<SessionRow>,
) -> Result<bool, StoreError> {
    let inserted = db.run(
        "INSERT INTO deliveries (event_id, session, key, agent, event_name, captured_at, boot_id,
                     boot_ns, flags, stored_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        params![
            delivery.event.0,
            session.map(|row| row.0),
            delivery.key,
            delivery.agent.as_str(),
            delivery.event_name,
            delivery.captured_at.0,
            delivery.boot_id,
            // SQLite has no unsigned integers; a boot lasts less than 292 years.
            delivery.boot_ns,
            delivery.flags,
            delivery.stored_at.0,
        ],
    );
    let Err(error) = inserted else {
        db.accept();
        return Ok(true);
    };
    match error.violated() {
        Some(SQLITE_CONSTRAINT_PRIMARYKEY) => Ok(planted(Fault::NoEventKey)),
        Some(_) => Ok(planted(Fault::NoSecondKey)),
        None => Err(error),
    }
}

impl Operation for Unparsed {
    type Output = UnparsedOutcome;

    fn execute(self, db: &WriteContext<'_>) -> Result<UnparsedOutcome, StoreError> {
        if !deliver(db, &self.delivery, None)? {
            db.take_back();
            return Ok(UnparsedOutcome::Duplicate);
        }
        db.run(
            "INSERT INTO unparsed (event_id, parse_error, payload) VALUES (?1, ?2, ?3)",
            params![self.delivery.event.0, self.parse_error, self.payload],
        )?;
        Ok(UnparsedOutcome::Stored)
    }
}

/// A message in a conversation without a session. It is not a prompt yet and may never become one, so it is only
/// published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageApart {
    pub delivery: Delivery,
    pub content: Option<String>,
    pub origin: Box<MessageOrigin>,
}

impl Operation for MessageApart {
    type Output = UnparsedOutcome;

    fn execute(self, db: &WriteContext<'_>) -> Result<UnparsedOutcome, StoreError> {
        if !deliver(db, &self.delivery, None)? {
            db.take_back();
            return Ok(UnparsedOutcome::Duplicate);
        }
        let (place, content, origin) =
            (ConversationPlace::from(&*self.origin), self.content, Some(self.origin));
        let what = LifecycleKind::MessageReceived { source: None, prompt_number: None, content, origin };
        db.publish_apart(place, self.delivery.captured_at, what);
        Ok(UnparsedOutcome::Stored)
    }
}

impl Operation for Injection {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let Some(stored) = session_row(db, &self.session)? else { return Ok(()) };
        // An item may have been forgotten while it was being injected.
        let cleaned = forgetting::without_lost_titles(db, &self.items, &[])?;
        db.run(
            "INSERT INTO injections (session, at, moment, tokens, items, file, event_id)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
            params![
                stored.session.0,
                self.at.0,
                self.moment,
                self.tokens,
                cleaned.as_ref().unwrap_or(&self.items),
                self.file,
                self.event.0
            ],
        )?;
        handoffs::given(db, &self.session.agent, self.event, &self.items)
    }
}

/// Deletes the record of an injection that was not delivered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RetractInjection {
    pub session: SessionKey,
    pub event: EventId,
}

impl Operation for RetractInjection {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        let Some(stored) = session_row(db, &self.session)? else { return Ok(()) };
        db.run(
            "DELETE FROM injections WHERE session = ?1 AND event_id = ?2",
            params![stored.session.0, self.event.0],
        )?;
        handoffs::not_given(db, self.event)
    }
}

/// Deletes log entries that the index already contains, up to `upto`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimIndexLog {
    pub upto: LogSeq,
}

impl Operation for TrimIndexLog {
    type Output = ();

    fn execute(self, db: &WriteContext<'_>) -> Result<(), StoreError> {
        db.run("DELETE FROM index_log WHERE seq <= ?1", params![self.upto])
    }
}
