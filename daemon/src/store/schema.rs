//! The tables, and how an older database gets them.
//!
//! One step per schema version, each in a transaction of its own that also raises `user_version`: a process that is
//! killed in between leaves the version before. Before the first step of a database that holds anything a copy of
//! it is written beside it. A newer schema is refused and not touched.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::OpenStoreError;

/// Step N brings a database from version N to N + 1. Never change one that was released.
const STEPS: &[&str] = &[include_str!("schema_1.sql")];

pub(super) const VERSION: u32 = STEPS.len() as u32;

pub(super) fn migrate(
    connection: &mut Connection,
    path: &Path,
    backups: &Path,
) -> Result<(), OpenStoreError> {
    let open = |source| OpenStoreError::Open { path: path.to_owned(), source };
    let found: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(open)?;
    if found > VERSION {
        return Err(OpenStoreError::TooNew { path: path.to_owned(), found, known: VERSION });
    }
    if found > 0 && found < VERSION {
        back_up(connection, backups, found)
            .map_err(|source| OpenStoreError::Backup { path: path.to_owned(), source })?;
    }
    for (step, sql) in STEPS.iter().enumerate().skip(found as usize) {
        let to = step as u32 + 1;
        let failed = |source| OpenStoreError::Migrate { path: path.to_owned(), to, source };
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        transaction.execute_batch(sql).map_err(failed)?;
        transaction.pragma_update(None, "user_version", to).map_err(failed)?;
        transaction.commit().map_err(failed)?;
    }
    Ok(())
}

fn back_up(connection: &Connection, backups: &Path, version: u32) -> Result<(), rusqlite::Error> {
    let copy = backups.join(format!("before-schema-{}.db", version + 1));
    if copy.exists() {
        // An earlier try got this far; its copy is the older and truer one.
        return Ok(());
    }
    connection.execute("VACUUM INTO ?1", [copy.to_string_lossy()])?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Durability, open_writer};

    #[test]
    fn opening_twice_changes_nothing() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("recall.db");
        let tables = |connection: &Connection| -> Vec<String> {
            let mut statement = connection.prepare("SELECT sql FROM sqlite_schema ORDER BY name").unwrap();
            let rows = statement.query_map([], |row| row.get::<_, Option<String>>(0)).unwrap();
            rows.map(|row| row.unwrap().unwrap_or_default()).collect()
        };
        let first = tables(&open_writer(&path, home.path(), Durability::Full).unwrap());
        let second = tables(&open_writer(&path, home.path(), Durability::Full).unwrap());
        assert!(first.len() > 20);
        assert_eq!(first, second);
    }

    #[test]
    fn a_newer_schema_is_refused_and_left_alone() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("recall.db");
        Connection::open(&path).unwrap().pragma_update(None, "user_version", VERSION + 7).unwrap();
        let refused = open_writer(&path, home.path(), Durability::Full).unwrap_err();
        assert!(matches!(refused, OpenStoreError::TooNew { found, .. } if found == VERSION + 7));
        assert!(refused.to_string().contains("newer recall"));
        let tables: u32 = Connection::open(&path)
            .unwrap()
            .query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))
            .unwrap();
        assert_eq!(tables, 0);
    }
}
