//! The names by which copies of forgotten items are recognised: in exports, in other tools' databases, in older
//! backups.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::{Connection, params_from_iter};

use crate::database::bind::params;
use crate::database::row::{Cells, FromRow, Sql};
use crate::forgetting::finding::{RowsToForget, set};
use crate::forgetting::tombstones::{Hash, hash, session_hash};
use crate::{SqliteError, StoreError};
use recall_domain::ids::{SessionKey, SessionRow, Timestamp};
use recall_domain::order::Order;
use recall_domain::sync::kind::{plan_of, summary_of};

/// A name that a copy shares with its original.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyOf<'a> {
    /// Lower-case hexadecimal digits.
    Event(&'a str),
    Uuid(&'a str),
    Statement {
        title: &'a str,
        text: &'a str,
    },
    Summary(&'a SessionKey),
    Plan {
        session: &'a SessionKey,
        kind: &'a str,
        path: &'a str,
    },
    Prompt {
        session: &'a SessionKey,
        seq: i64,
    },
}

impl CopyOf<'_> {
    fn name(self) -> Hash {
        match self {
            Self::Event(digits) => hash(&["event", digits]),
            Self::Uuid(uuid) => hash(&["uuid", uuid]),
            Self::Statement { title, text } => hash(&["statement", title.trim(), text.trim()]),
            Self::Summary(SessionKey { agent, id }) => hash(&["summary", agent.as_str(), id.as_str()]),
            Self::Plan { session: SessionKey { agent, id }, kind, path } => {
                hash(&["plan", agent.as_str(), id.as_str(), kind, path])
            }
            Self::Prompt { session: SessionKey { agent, id }, seq } => {
                hash(&["prompt", agent.as_str(), id.as_str(), &seq.to_string()])
            }
        }
    }
}

/// Returns when the original of this copy was forgotten.
pub(crate) fn forgotten_at(db: &Connection, copy: CopyOf<'_>) -> Result<Option<Timestamp>, StoreError> {
    db.first("SELECT at FROM forgotten WHERE name = ?1", [copy.name()])
}

/// Records that the original of this copy was forgotten.
pub(crate) fn keep_forgotten(db: &Connection, copy: CopyOf<'_>, at: Timestamp) -> Result<(), StoreError> {
    db.run(
        "INSERT INTO forgotten (name, at) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET at = max(at, excluded.at)",
        params![copy.name(), at.0],
    )
}

/// A row that may be forgotten, with the names of its copies.
struct Named<T> {
    row: T,
    at: Timestamp,
    names: Vec<Hash>,
}

const PROMPTS: &str = "SELECT b.id, b.opened_at, s.agent, s.session_id, b.seq, lower(hex(b.prompt_event))
    FROM prompt_batches b JOIN sessions s ON s.id = b.session WHERE b.prompt IS NOT NULL";
const RESPONSES: &str = "SELECT id, opened_at, lower(hex(response_event)) FROM prompt_batches
    WHERE response IS NOT NULL AND response_event IS NOT NULL";
const ACTIVITIES: &str = "SELECT id, at, lower(hex(event_id)) FROM activities WHERE TRUE";
const ASIDES: &str = "SELECT id, at, lower(hex(event_id)) FROM asides WHERE TRUE";
const SUBAGENTS: &str = "SELECT id, ifnull(ended_at, 0), lower(hex(message_event)) FROM subagents
    WHERE message IS NOT NULL AND message_event IS NOT NULL";
const COMPACTIONS: &str =
    "SELECT id, ifnull(ended_at, 0), lower(hex(ifnull(end_event, event_id))) FROM compactions
    WHERE summary IS NOT NULL AND ifnull(end_event, event_id) IS NOT NULL";
const OBSERVATIONS: &str = "SELECT id, created_at, uuid, title, narrative FROM observations WHERE TRUE";
const SUMMARIES: &str = "SELECT m.id, m.created_at, s.agent, s.session_id, m.uuid FROM session_summaries m
    LEFT JOIN sessions s ON s.id = m.session WHERE TRUE";
const PLANS: &str = "SELECT l.id, l.updated_at, s.agent, s.session_id, l.kind, l.path, l.uuid FROM plans l
    LEFT JOIN sessions s ON s.id = l.session WHERE TRUE";

const RECEIVED_TEXTS: &str = "SELECT id, created_at, uuid FROM said_elsewhere WHERE TRUE";

/// Names all rows that a statement finds, or those of a JSON array.
fn named<T: FromRow>(db: &Connection, sql: &str, these: Option<&str>) -> rusqlite::Result<Vec<Named<T>>> {
    // The first column is the row's number.
    let number = sql.split_once(',').map_or("id", |(first, _)| first.trim_start_matches("SELECT "));
    let of_these = format!("{sql} AND {number} IN (SELECT value FROM json_each(?1))");
    let mut find = db.prepare_cached(if these.is_some() { &of_these } else { sql })?;
    let mut all = Vec::new();
    let mut found = find.query(params_from_iter(these))?;
    while let Some(row) = found.next()? {
        let text = |column: usize| row.cell::<String>(column);
        let session = || Ok::<_, rusqlite::Error>(SessionKey { agent: row.cell(2)?, id: row.cell(3)? });
        let names = match sql {
            OBSERVATIONS => vec![
                CopyOf::Uuid(&text(2)?).name(),
                CopyOf::Statement { title: &text(3)?, text: &text(4)? }.name(),
            ],
            RECEIVED_TEXTS => vec![CopyOf::Uuid(&text(2)?).name()],
            SUMMARIES => match row.cell::<Option<String>>(4)? {
                Some(uuid) => vec![CopyOf::Uuid(&uuid).name()],
                None => {
                    let session = session()?;
                    vec![CopyOf::Summary(&session).name(), CopyOf::Uuid(&summary_of(&session)).name()]
                }
            },
            PLANS => match row.cell::<Option<String>>(6)? {
                Some(uuid) => vec![CopyOf::Uuid(&uuid).name()],
                None => {
                    let (session, path) = (session()?, text(5)?);
                    let uuid = plan_of(&session, &path);
                    let plan = CopyOf::Plan { session: &session, kind: &text(4)?, path: &path };
                    vec![plan.name(), CopyOf::Uuid(&uuid).name()]
                }
            },
            PROMPTS => {
                let place = CopyOf::Prompt { session: &session()?, seq: row.cell(4)? }.name();
                let event = row.cell::<Option<String>>(5)?.filter(|event| !event.is_empty());
                event.map(|event| CopyOf::Event(&event).name()).into_iter().chain([place]).collect()
            }
            _ => vec![CopyOf::Event(&text(2)?).name()],
        };
        all.push(Named { row: row.cell(0)?, at: row.cell(1)?, names });
    }
    Ok(all)
}

/// Records the names of rows before they are removed. For a whole session its own name is enough, except for rows that
/// outlive it.
pub(super) fn remember(db: &Connection, to_forget: &RowsToForget, at: Timestamp) -> Result<(), StoreError> {
    let keep = "INSERT INTO forgotten (name, at) VALUES (?1, ?2) ON CONFLICT DO UPDATE SET at = excluded.at";
    for (sql, table, rows) in [
        (PROMPTS, "prompt_batches", set(&to_forget.prompts)?),
        (RESPONSES, "prompt_batches", set(&to_forget.responses)?),
        (ACTIVITIES, "activities", set(&to_forget.activities)?),
        (SUBAGENTS, "subagents", set(&to_forget.subagents)?),
        (COMPACTIONS, "compactions", set(&to_forget.compactions)?),
        (SUMMARIES, "session_summaries", set(&to_forget.summaries)?),
        (PLANS, "plans", set(&to_forget.plans)?),
        (ASIDES, "", set(&to_forget.asides)?),
        (OBSERVATIONS, "", set(&to_forget.observations)?),
        (RECEIVED_TEXTS, "", set(&to_forget.received_texts)?),
    ] {
        let rows = match table {
            "" => rows,
            table => outside(db, table, &rows, &set(&to_forget.sessions)?)?,
        };
        let named = named::<i64>(db, sql, Some(&rows)).map_err(SqliteError)?;
        for name in named.iter().flat_map(|named| &named.names) {
            db.run(keep, params![name, at.0])?;
        }
    }
    Ok(())
}

/// Returns the rows outside these sessions. All are JSON arrays.
fn outside(db: &Connection, table: &str, rows: &str, sessions: &str) -> Result<String, StoreError> {
    let sql = format!(
        "SELECT json_group_array(id) FROM {table} WHERE id IN (SELECT value FROM json_each(?1))
            AND ifnull(session, 0) NOT IN (SELECT value FROM json_each(?2))"
    );
    db.one(&sql, [rows, sessions])
}

/// Everything that a database remembers about forgotten items.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Memory {
    names: BTreeMap<Hash, Timestamp>,
    /// With the moment at which each was forgotten.
    sessions: Vec<(Hash, Order)>,
}

pub(crate) fn memory(db: &Connection) -> Result<Memory, StoreError> {
    let names: Vec<(Hash, Timestamp)> = db.all("SELECT name, at FROM forgotten", [])?;
    let sessions = db.all("SELECT name, boot_id, boot_ns, at FROM forgotten_sessions", [])?;
    Ok(Memory { names: names.into_iter().collect(), sessions })
}

impl Memory {
    /// Whether nothing was ever forgotten.
    pub(crate) fn is_empty(&self) -> bool {
        self.names.is_empty() && self.sessions.is_empty()
    }

    /// Stores this record in another database.
    pub(crate) fn keep_in(&self, db: &Connection) -> Result<(), StoreError> {
        for (name, at) in &self.names {
            db.run(
                "INSERT INTO forgotten (name, at) VALUES (?1, ?2)
                 ON CONFLICT DO UPDATE SET at = max(at, excluded.at)",
                params![name, at.0],
            )?;
        }
        for (name, at) in &self.sessions {
            db.run(
                "INSERT INTO forgotten_sessions (name, at, boot_id, boot_ns) VALUES (?1, ?2, ?3, ?4)
                 ON CONFLICT DO UPDATE SET at = excluded.at, boot_id = excluded.boot_id, boot_ns = excluded.boot_ns
                 WHERE excluded.at > at",
                params![name, at.wall, at.boot, at.boot_ns],
            )?;
        }
        Ok(())
    }

    /// Returns the rows of a database that were stored there before they were forgotten elsewhere.
    pub(crate) fn rows_in(&self, db: &Connection) -> Result<RowsToForget, StoreError> {
        let mut found = RowsToForget::default();
        if self.is_empty() {
            return Ok(found);
        }
        let forgotten: BTreeMap<Hash, Timestamp> =
            self.sessions.iter().map(|(name, at)| (*name, at.wall)).collect();
        let sessions: Vec<(SessionRow, SessionKey, Timestamp)> =
            db.all("SELECT id, agent, session_id, last_event_at FROM sessions", [])?;
        for (row, key, last) in sessions {
            if forgotten.get(&session_hash(&key)).is_some_and(|at| last <= *at) {
                found.add_session(db, row)?;
            }
        }
        self.add_named(db, PROMPTS, &mut found.prompts)?;
        self.add_named(db, RESPONSES, &mut found.responses)?;
        self.add_named(db, ACTIVITIES, &mut found.activities)?;
        self.add_named(db, ASIDES, &mut found.asides)?;
        self.add_named(db, SUBAGENTS, &mut found.subagents)?;
        self.add_named(db, COMPACTIONS, &mut found.compactions)?;
        self.add_named(db, OBSERVATIONS, &mut found.observations)?;
        self.add_named(db, SUMMARIES, &mut found.summaries)?;
        self.add_named(db, PLANS, &mut found.plans)?;
        self.add_named(db, RECEIVED_TEXTS, &mut found.received_texts)?;
        let titles = found.sessions_of_rows(db)?;
        found.titles.extend(titles);
        Ok(found)
    }

    /// Adds the rows that were forgotten by one of their names.
    fn add_named<T: FromRow + Ord>(
        &self,
        db: &Connection,
        sql: &str,
        rows: &mut BTreeSet<T>,
    ) -> Result<(), StoreError> {
        let is_forgotten = |named: &Named<T>| {
            named.names.iter().any(|name| self.names.get(name).is_some_and(|at| named.at <= *at))
        };
        let named = named(db, sql, None).map_err(SqliteError)?;
        rows.extend(named.into_iter().filter(is_forgotten).map(|named| named.row));
        Ok(())
    }
}
