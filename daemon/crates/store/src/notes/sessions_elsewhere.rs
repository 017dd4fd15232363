//! Gives sessions of other machines numbers, so that notes of all machines can be compared by session. A session that
//! this machine knows as well has its own number.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::Connection;

use crate::StoreError;
use crate::database::bind::params;
use crate::database::row::Sql;
use recall_domain::ids::{SessionKey, SessionRow};
use recall_domain::sync::kind::summary_of;

/// The session of a note: a row of this machine, or the name of a session of another one.
pub(crate) type SessionOf = (Option<SessionRow>, Option<String>);

/// Returns the number of each note's session.
pub(crate) fn numbered(db: &Connection, notes: &[SessionOf]) -> Result<Vec<Option<SessionRow>>, StoreError> {
    let names: BTreeSet<&str> = notes.iter().filter_map(|(_, name)| name.as_deref()).collect();
    if names.is_empty() {
        return Ok(notes.iter().map(|(row, _)| *row).collect());
    }
    // No row has a negative number.
    let mut number_of: BTreeMap<&str, SessionRow> =
        (1..).zip(&names).map(|(at, name)| (*name, SessionRow(-at))).collect();
    let rows: BTreeSet<i64> = notes.iter().filter_map(|(row, _)| Some((*row)?.0)).collect();
    for row in rows {
        let key: Option<SessionKey> =
            db.first("SELECT agent, session_id FROM sessions WHERE id = ?1", params![row])?;
        if let Some(number) = key.and_then(|key| number_of.get_mut(summary_of(&key).as_str())) {
            *number = SessionRow(row);
        }
    }
    let number = |(row, name): &SessionOf| row.or_else(|| number_of.get(name.as_deref()?).copied());
    Ok(notes.iter().map(number).collect())
}
