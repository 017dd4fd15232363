//! The tables of this version, and the fingerprint that detects databases with different tables.

use rusqlite::{Connection, OptionalExtension};
use sha2::{Digest, Sha256};

/// Step N upgrades a database from version N to N + 1. A released step must never change.
pub(crate) const STEPS: &[&str] = &[
    include_str!("schema_1.sql"),
    include_str!("schema_2.sql"),
    include_str!("schema_3.sql"),
    include_str!("schema_4.sql"),
    include_str!("schema_5.sql"),
    include_str!("schema_6.sql"),
    include_str!("schema_7.sql"),
    include_str!("schema_8.sql"),
    include_str!("schema_9.sql"),
    include_str!("schema_10.sql"),
    include_str!("schema_11.sql"),
    include_str!("schema_12.sql"),
];

pub(crate) const VERSION: u32 = STEPS.len() as u32;

pub(crate) const FINGERPRINT: &str = "schema_fingerprint";

/// Whether this program can open a database: its tables were made by this version or an earlier one.
pub(crate) fn is_known(db: &Connection) -> rusqlite::Result<bool> {
    let found = version(db)?;
    Ok((1..=VERSION).contains(&found) && fingerprint_in(db)? == Some(fingerprint(&STEPS[..found as usize])))
}

pub(crate) fn version(db: &Connection) -> rusqlite::Result<u32> {
    db.query_row("PRAGMA user_version", [], |row| row.get(0))
}

/// A hash of the steps, without their comments and white space.
pub(crate) fn fingerprint(steps: &[&str]) -> String {
    let mut hash = Sha256::new();
    for step in steps {
        let code = step.lines().map(|line| line.split_once("--").map_or(line, |(code, _)| code));
        for word in code.flat_map(str::split_whitespace) {
            hash.update(word);
            hash.update(" ");
        }
    }
    hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

pub(crate) fn fingerprint_in(db: &Connection) -> rusqlite::Result<Option<String>> {
    let has_meta = "SELECT count(*) FROM sqlite_schema WHERE type = 'table' AND name = 'meta'";
    if db.query_row(has_meta, [], |row| row.get::<_, u32>(0))? == 0 {
        return Ok(None);
    }
    db.query_row("SELECT value FROM meta WHERE key = ?1", [FINGERPRINT], |row| row.get(0)).optional()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deleting a row looks for rows that refer to it. Without an index that reads their whole table.
    #[test]
    fn every_foreign_key_has_an_index() {
        let db = Connection::open_in_memory().unwrap();
        STEPS.iter().for_each(|step| db.execute_batch(step).unwrap());
        let references =
            "SELECT t.name, f.\"from\" FROM sqlite_schema t JOIN pragma_foreign_key_list(t.name) f
                          WHERE t.type = 'table'";
        let mut references = db.prepare(references).unwrap();
        let references = references.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let references: Vec<(String, String)> = references.map(Result::unwrap).collect();
        assert!(references.len() > 30, "{references:?}");
        for (table, column) in references {
            let plan = format!("EXPLAIN QUERY PLAN SELECT 1 FROM {table} WHERE {column} = ?1");
            let how: String = db.query_row(&plan, [1], |row| row.get(3)).unwrap();
            assert!(how.starts_with("SEARCH"), "{table}.{column}: {how}");
        }
    }
}
