//! Everything the writer can be asked to put into the database, as values.
//!
//! Each write runs in a savepoint of its own inside the writer's group commit: one that fails takes only itself
//! back. Nothing here is acknowledged; that is the writer's, after the commit.

use rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY;
use rusqlite::{Connection, ErrorCode, OptionalExtension, params};

use super::by_hand::{self, Remembered, Validity};
use super::checkout_records::{self, CheckoutRecord};
use super::effects::{self, EffectContext};
use super::forgetting::{self, Forgotten, Selection, Unreadable};
use super::jobs::{self, Duty, FinishedJob, JobFailure, LeasedJob};
use super::{StoreError, homes, ledger, lives, orphans, projects};
use crate::faults::{self, Fault, Point, planted};
use crate::memory::budget::{Caps, Charge, Cost, Day, OverCap, ReservationId};
use crate::memory::ids::{
    AgentName, EventId, JobId, ObservationId, ProjectKey, ProjectRow, SessionKey, SessionRow, Timestamp,
};
use crate::memory::lifecycle::LifecycleEvent;
use crate::memory::order::Order;
use crate::memory::session::Effect;

/// What can be asked.
#[derive(Clone, Debug, PartialEq)]
pub enum Write {
    /// One event and all that follows from it.
    Event(Box<Transaction>),
    /// What time alone has brought about in a session.
    Idle {
        session: SessionKey,
        effects: Vec<Effect>,
        at: Timestamp,
    },
    /// Something that came and was no event.
    Unparsed(Box<Unparsed>),
    /// Leases the next piece of compression work.
    Lease {
        worker: String,
        duty: Duty,
        now: Timestamp,
        until: Timestamp,
    },
    Finish(Box<FinishedJob>),
    /// A result to go on with; the job's own is still owed.
    StandIn(Box<FinishedJob>),
    Fail(JobFailure),
    /// A worker died: what it held is tried again at `retry_at`, or parked after `max_attempts`.
    GiveBack {
        worker: String,
        error: String,
        retry_at: Timestamp,
        max_attempts: u32,
        now: Timestamp,
    },
    /// Gives back what was leased for too long.
    ExpireLeases {
        now: Timestamp,
    },
    /// Gives back what was leased before this daemon started, and books in full the calls that were under way.
    ReleaseLeases,
    /// Lets dead and waiting jobs be tried at once: this one, or all.
    Retry {
        only: Option<JobId>,
    },
    /// Reserves what a call can cost, if the caps of the day allow it.
    Reserve {
        charge: Box<Charge>,
        caps: Caps,
        day: Day,
    },
    /// Books what it has cost.
    Settle {
        reservation: ReservationId,
        cost: Cost,
    },
    Injected(Box<Injection>),
    /// Nobody heard what was given for this event.
    Unheard {
        session: SessionKey,
        event: EventId,
    },
    /// What was checked out where batches began or ended.
    Sighted(Box<CheckoutRecord>),
    /// The daemon stops, or did so without a word: every live session is stamped.
    SuspendAll {
        at: Timestamp,
        why: Suspension,
    },
    /// What lies about without a batch gets one, and batches that nobody compresses get a job.
    RepairOrphans {
        at: Timestamp,
    },
    /// The index holds everything up to `upto`.
    ForgetLog {
        upto: i64,
    },
    /// Jobs that were done before then are of no interest any more.
    ForgetDoneJobs {
        before: Timestamp,
    },
    /// What shall not be known any more, and when that was said.
    Forget {
        what: Selection,
        unreadable: Unreadable,
        at: Order,
    },
    /// Something the user says.
    Remember(Box<Remembered>),
    /// Whether observations still hold.
    Mark {
        ids: Vec<ObservationId>,
        validity: Validity,
    },
    /// Every place is clean of what was forgotten.
    TracesGone,
}

/// Why sessions are suspended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspension {
    /// The daemon stops in order.
    Stop,
    /// It was killed: what was last heard of a session is all that is known.
    Crash,
}

/// What became of a write.
#[derive(Clone, Debug, PartialEq)]
pub enum Written {
    Event(StoredEvent),
    /// It was stored before; nothing was changed.
    Duplicate,
    Leased(Option<LeasedJob>),
    Reserved(Result<ReservationId, OverCap>),
    /// So many jobs are tried again.
    Retried(u64),
    Forgotten(Box<Forgotten>),
    Remembered(ObservationId),
    /// The event was taken before its session was forgotten: only its id is kept.
    Dropped,
    Done,
}

/// An event with all that follows from it, stored or not stored as a whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Transaction {
    pub session: SessionKey,
    pub origin: SessionOrigin,
    pub delivery: Delivery,
    pub effects: Vec<Effect>,
}

/// Whether what an event says of where its session runs counts when the session is stored already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precedence {
    /// It does not.
    #[default]
    Later,
    /// It was taken before the event that has decided until now.
    Earlier,
}

/// Where a session runs: what its earliest event says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SessionOrigin {
    pub precedence: Precedence,
    /// The identities of the project, strongest first; at least one.
    pub project: Vec<ProjectKey>,
    pub project_name: String,
    /// The name the project asks to be shown under. Its identity is none of it.
    pub alias: Option<String>,
    /// The project's folder, for telling paths relative to it.
    pub root: Option<String>,
    pub cwd: Option<String>,
    pub transcript_path: Option<String>,
}

/// The acceptance of an event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Delivery {
    pub event: EventId,
    /// The second key: equal for two deliveries of the same happening under different event ids.
    pub key: Option<[u8; 16]>,
    pub agent: AgentName,
    pub event_name: String,
    pub captured_at: Timestamp,
    pub boot_id: [u8; 16],
    pub boot_ns: u64,
    pub flags: u32,
    pub stored_at: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unparsed {
    pub delivery: Delivery,
    pub parse_error: String,
    pub payload: Vec<u8>,
}

/// What a session was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Injection {
    pub session: SessionKey,
    /// The event that asked.
    pub event: EventId,
    pub at: Timestamp,
    /// `start`, `prompt` and so on.
    pub moment: String,
    pub tokens: u32,
    /// What was given and why, a JSON array.
    pub items: String,
    /// The file it was about, relative to the project's folder.
    pub file: Option<String>,
}

/// The rows of a stored event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    pub session: SessionRow,
    pub project: ProjectRow,
}

/// Carries one write out, and adds to `said` what others shall hear once it is committed. The caller has opened a
/// transaction.
///
/// # Errors
/// When the database refuses; the savepoint is taken back then.
pub fn execute(
    connection: &Connection,
    write: &Write,
    said: &mut Vec<LifecycleEvent>,
) -> Result<Written, StoreError> {
    let run = |sql| -> Result<(), StoreError> {
        connection.prepare_cached(sql)?.execute([])?;
        Ok(())
    };
    let before = said.len();
    run("SAVEPOINT one_write")?;
    let written = perform(connection, write, said);
    if matches!(&written, Ok(Written::Duplicate) | Err(_)) {
        said.truncate(before);
        // Some errors have ended the whole transaction already; what went wrong first is what the caller must hear.
        let taken_back = run("ROLLBACK TO one_write").and_then(|()| run("RELEASE one_write"));
        return written.and_then(|written| taken_back.map(|()| written));
    }
    run("RELEASE one_write")?;
    written
}

fn perform(db: &Connection, write: &Write, said: &mut Vec<LifecycleEvent>) -> Result<Written, StoreError> {
    match write {
        Write::Event(transaction) => event(db, transaction, said),
        Write::Idle { session, effects, at } => idle(db, session, effects, *at, said),
        Write::Unparsed(unparsed) => keep_unparsed(db, unparsed),
        Write::Lease { worker, duty, now, until } => {
            Ok(Written::Leased(jobs::lease(db, (worker, *duty), *now, *until)?))
        }
        Write::Finish(finished) => jobs::finish(db, finished, said).map(|()| Written::Done),
        Write::StandIn(finished) => jobs::stand_in(db, finished, said).map(|()| Written::Done),
        Write::Fail(failure) => jobs::fail(db, failure, said).map(|()| Written::Done),
        Write::GiveBack { worker, error, retry_at, max_attempts, now } => {
            jobs::give_back(db, worker, error, (*retry_at, *max_attempts, *now), said).map(|()| Written::Done)
        }
        Write::ExpireLeases { now } => jobs::expire(db, *now).map(|()| Written::Done),
        Write::ReleaseLeases => {
            ledger::book_abandoned(db)?;
            jobs::release(db).map(|()| Written::Done)
        }
        Write::Retry { only } => jobs::retry(db, *only).map(Written::Retried),
        Write::Reserve { charge, caps, day } => ledger::reserve(db, charge, caps, day).map(Written::Reserved),
        Write::Settle { reservation, cost } => {
            ledger::settle(db, *reservation, *cost).map(|()| Written::Done)
        }
        Write::Injected(injection) => injected(db, injection),
        Write::Unheard { session, event } => unheard(db, session, *event),
        Write::Sighted(sighting) => checkout_records::keep(db, sighting).map(|()| Written::Done),
        Write::SuspendAll { at, why } => lives::suspend_all(db, *at, *why, said).map(|()| Written::Done),
        Write::RepairOrphans { at } => orphans::repair(db, *at).map(|()| Written::Done),
        Write::ForgetDoneJobs { before } => jobs::forget_done(db, *before).map(|()| Written::Done),
        Write::Forget { what, unreadable, at } => {
            let forgotten = forgetting::forget(db, (what, *unreadable), *at, said)?;
            Ok(Written::Forgotten(Box::new(forgotten)))
        }
        Write::Remember(said) => Ok(Written::Remembered(by_hand::remember(db, said)?)),
        Write::Mark { ids, validity } => by_hand::mark(db, ids, *validity).map(|()| Written::Done),
        Write::TracesGone => forgetting::traces_gone(db).map(|()| Written::Done),
        Write::ForgetLog { upto } => {
            db.prepare_cached("DELETE FROM index_log WHERE seq <= ?1")?.execute([upto])?;
            Ok(Written::Done)
        }
    }
}

fn event(
    db: &Connection,
    transaction: &Transaction,
    said: &mut Vec<LifecycleEvent>,
) -> Result<Written, StoreError> {
    let delivery = &transaction.delivery;
    if forgetting::belongs_to_forgotten_session(db, &transaction.session, delivery)? {
        let without_key = Delivery { key: None, ..delivery.clone() };
        let is_new = deliver(db, &without_key, None)?;
        return Ok(if is_new { Written::Dropped } else { Written::Duplicate });
    }
    let known = session_row(db, &transaction.session)?;
    let is_new = known.is_none();
    let mut stored = match known {
        Some(stored) => stored,
        // It was stored when this was decided, and has been forgotten since.
        None if transaction.origin.project.is_empty() => return Err(StoreError::NoSuchSession),
        None => create_session(db, transaction)?,
    };
    if !deliver(db, delivery, Some(stored.session))? {
        return Ok(Written::Duplicate);
    }
    faults::reach_disk(Point::Insert)?;
    if !is_new && transaction.origin.precedence == Precedence::Earlier {
        stored = homes::move_to(db, stored, transaction)?;
    }
    db.prepare_cached(
        "UPDATE sessions SET last_event_at = max(last_event_at, ?2), cwd = ifnull(?3, cwd),
                transcript_path = ifnull(?4, transcript_path) WHERE id = ?1",
    )?
    .execute(params![
        stored.session.0,
        delivery.captured_at.0,
        transaction.origin.cwd,
        transaction.origin.transcript_path
    ])?;
    let (key, event, at) = (&transaction.session, Some(delivery.event), delivery.captured_at);
    let mut scene = EffectContext { db, stored, key, event, at, said };
    for effect in &transaction.effects {
        effects::apply(&mut scene, effect)?;
    }
    Ok(Written::Event(stored))
}

fn idle(
    db: &Connection,
    session: &SessionKey,
    effects: &[Effect],
    at: Timestamp,
    said: &mut Vec<LifecycleEvent>,
) -> Result<Written, StoreError> {
    let Some(stored) = session_row(db, session)? else { return Ok(Written::Done) };
    let mut scene = EffectContext { db, stored, key: session, event: None, at, said };
    for effect in effects {
        effects::apply(&mut scene, effect)?;
    }
    Ok(Written::Event(stored))
}

pub(super) fn session_row(db: &Connection, key: &SessionKey) -> Result<Option<StoredEvent>, StoreError> {
    let mut statement =
        db.prepare_cached("SELECT id, project FROM sessions WHERE agent = ?1 AND session_id = ?2")?;
    let row = statement.query_row([key.agent.as_str(), key.id.as_str()], |row| {
        Ok(StoredEvent { session: SessionRow(row.get(0)?), project: ProjectRow(row.get(1)?) })
    });
    Ok(row.optional()?)
}

fn create_session(db: &Connection, transaction: &Transaction) -> Result<StoredEvent, StoreError> {
    let Transaction { session: key, origin, delivery, .. } = transaction;
    let project = projects::resolve(db, &origin.project, &origin.project_name, delivery.captured_at)?;
    if let Some(alias) = &origin.alias {
        projects::rename(db, project, alias)?;
    }
    db.prepare_cached(
        "INSERT INTO sessions (agent, session_id, project, root, status, life, started_at, last_event_at, home_event)
         VALUES (?1, ?2, ?3, ?4, 'initialized', 0, ?5, ?5, ?6)",
    )?
    .execute(params![
        key.agent.as_str(),
        key.id.as_str(),
        project.0,
        origin.root,
        delivery.captured_at.0,
        delivery.event.0
    ])?;
    Ok(StoredEvent { session: SessionRow(db.last_insert_rowid()), project })
}

/// Records the acceptance. `false`: it was recorded before, under this event id or this second key.
fn deliver(db: &Connection, delivery: &Delivery, session: Option<SessionRow>) -> Result<bool, StoreError> {
    let inserted = db
        .prepare_cached(
            "INSERT INTO deliveries (event_id, session, key, agent, event_name, captured_at, boot_id, boot_ns, flags, stored_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
        )?
        .execute(params![
            delivery.event.0,
            session.map(|row| row.0),
            delivery.key,
            delivery.agent.as_str(),
            delivery.event_name,
            delivery.captured_at.0,
            delivery.boot_id,
            // SQLite has no unsigned numbers; a boot lasts less than 292 years.
            i64::try_from(delivery.boot_ns).unwrap_or(i64::MAX),
            delivery.flags,
            delivery.stored_at.0,
        ]);
    match inserted {
        Ok(_) => Ok(true),
        Err(rusqlite::Error::SqliteFailure(error, _)) if error.code == ErrorCode::ConstraintViolation => {
            Ok(planted(match error.extended_code {
                SQLITE_CONSTRAINT_PRIMARYKEY => Fault::NoEventKey,
                _ => Fault::NoSecondKey,
            }))
        }
        Err(error) => Err(error.into()),
    }
}

fn keep_unparsed(db: &Connection, unparsed: &Unparsed) -> Result<Written, StoreError> {
    if !deliver(db, &unparsed.delivery, None)? {
        return Ok(Written::Duplicate);
    }
    db.prepare_cached("INSERT INTO unparsed (event_id, parse_error, payload) VALUES (?1, ?2, ?3)")?
        .execute(params![unparsed.delivery.event.0, unparsed.parse_error, unparsed.payload])?;
    Ok(Written::Done)
}

fn injected(db: &Connection, injection: &Injection) -> Result<Written, StoreError> {
    let Some(stored) = session_row(db, &injection.session)? else { return Ok(Written::Done) };
    // It may have been forgotten while it was given.
    let cleaned = forgetting::without_lost_titles(db, &injection.items, &[])?;
    db.prepare_cached(
        "INSERT INTO injections (session, at, moment, tokens, items, file, event_id)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
    )?
    .execute(params![
        stored.session.0,
        injection.at.0,
        injection.moment,
        injection.tokens,
        cleaned.as_ref().unwrap_or(&injection.items),
        injection.file,
        injection.event.0
    ])?;
    Ok(Written::Done)
}

fn unheard(db: &Connection, session: &SessionKey, event: EventId) -> Result<Written, StoreError> {
    let Some(stored) = session_row(db, session)? else { return Ok(Written::Done) };
    db.prepare_cached("DELETE FROM injections WHERE session = ?1 AND event_id = ?2")?
        .execute(params![stored.session.0, event.0])?;
    Ok(Written::Done)
}

/// Says that a row was written or is gone, so that the index follows.
pub(super) fn log(db: &Connection, kind: &str, row: i64) -> Result<(), StoreError> {
    db.prepare_cached("INSERT INTO index_log (kind, row) VALUES (?1, ?2)")?.execute(params![kind, row])?;
    Ok(())
}
