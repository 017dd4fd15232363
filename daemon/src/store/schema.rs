//! The tables, and how an older database gets them.
//!
//! One step per schema version, each in a transaction of its own that also raises `user_version`: a process that is
//! killed in between leaves the version before. A new database gets `schema.sql`, which is what all steps together make. Before the first step of a database that holds anything a copy of
//! it is written beside it. A newer schema is refused and not touched.

use std::path::Path;

use rusqlite::{Connection, TransactionBehavior};

use super::OpenStoreError;
use super::backup::copy_into;

/// Step N brings a database from version N to N + 1. Never change one that was released.
const STEPS: &[&str] = &[
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
    include_str!("schema_13.sql"),
    include_str!("schema_14.sql"),
    include_str!("schema_15.sql"),
];

pub(super) const VERSION: u32 = STEPS.len() as u32;

/// All steps at once, for a new database: every step that changes a table reads all of them again, and somebody's first
/// session waits. Made of the steps, see the test that compares.
const WHOLE: &str = include_str!("schema.sql");

pub(super) fn migrate(
    connection: &mut Connection,
    path: &Path,
    backups: &Path,
) -> Result<(), OpenStoreError> {
    migrate_by(STEPS, WHOLE, connection, path, backups)
}

fn migrate_by(
    steps: &[&str],
    whole: &str,
    connection: &mut Connection,
    path: &Path,
    backups: &Path,
) -> Result<(), OpenStoreError> {
    let open = |source| OpenStoreError::Open { path: path.to_owned(), source };
    let known = steps.len() as u32;
    let found: u32 = connection.query_row("PRAGMA user_version", [], |row| row.get(0)).map_err(open)?;
    if found > known {
        return Err(OpenStoreError::TooNew { path: path.to_owned(), found, known });
    }
    if found > 0 && found < known {
        let copy = backups.join(format!("before-schema-{}.db", found + 1));
        // One from an earlier try is whole, too, and the older and truer one.
        if !copy.exists() {
            copy_into(connection, &copy)
                .map_err(|source| OpenStoreError::Backup { path: path.to_owned(), source })?;
        }
    }
    let mut raise = |to: u32, sql: &str| {
        let failed = |source| OpenStoreError::Migrate { path: path.to_owned(), to, source };
        let transaction =
            connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
        transaction.execute_batch(sql).map_err(failed)?;
        transaction.pragma_update(None, "user_version", to).map_err(failed)?;
        transaction.commit().map_err(failed)
    };
    if found == 0 {
        return raise(known, whole);
    }
    for (to, sql) in (1..).zip(steps).skip(found as usize) {
        raise(to, sql)?;
    }
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
    fn a_new_database_is_whole_or_empty_and_then_as_durable_as_any() {
        let (home, after_kill) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = home.path().join("recall.db");
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch("PRAGMA journal_mode = WAL; PRAGMA cache_spill = 1; PRAGMA cache_size = 1")
            .unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        connection.execute_batch(WHOLE).unwrap();
        for name in ["recall.db", "recall.db-wal"] {
            std::fs::copy(home.path().join(name), after_kill.path().join(name)).unwrap();
        }
        let left = after_kill.path().join("recall.db");
        assert_eq!(version(&Connection::open(&left).unwrap()), 0);
        for _ in 0..2 {
            let connection = open_writer(&left, after_kill.path(), Durability::Full).unwrap();
            assert_eq!(version(&connection), VERSION);
            assert_eq!(synchronous(&connection), 2);
        }
        let new = after_kill.path().join("new.db");
        assert_eq!(synchronous(&open_writer(&new, after_kill.path(), Durability::Full).unwrap()), 2);
        assert_eq!(synchronous(&open_writer(&new, after_kill.path(), Durability::Normal).unwrap()), 1);
    }

    /// What the steps make of nothing, one after another.
    fn stepped() -> Connection {
        let connection = Connection::open_in_memory().unwrap();
        for step in STEPS {
            connection.execute_batch(step).unwrap();
        }
        connection
    }

    fn written_out(connection: &Connection) -> String {
        let sql =
            "SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%' ORDER BY rowid";
        let mut statement = connection.prepare(sql).unwrap();
        let statements = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
        let statements: Vec<String> = statements.map(|sql| format!("{};\n", sql.unwrap())).collect();
        format!(
            "-- Made of the steps; `RECALL_WRITE_SCHEMA=1 cargo test schema` makes it anew.\n\n{}",
            statements.join("\n")
        )
    }

    #[test]
    fn a_new_database_is_what_the_steps_make() {
        let stepped = stepped();
        if std::env::var_os("RECALL_WRITE_SCHEMA").is_some() {
            let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/store/schema.sql");
            std::fs::write(file, written_out(&stepped)).unwrap();
        }
        assert!(
            written_out(&stepped) == WHOLE,
            "schema.sql is of other steps: RECALL_WRITE_SCHEMA=1 cargo test schema"
        );
        let whole = Connection::open_in_memory().unwrap();
        whole.execute_batch(WHOLE).unwrap();
        assert_eq!(written_out(&whole), WHOLE);
        let tables = tables_and_columns(&stepped);
        assert_eq!(tables_and_columns(&whole), tables);
        assert_eq!(contents(&whole, &tables), contents(&stepped, &tables));
    }

    /// 1 is NORMAL, 2 is FULL.
    fn synchronous(connection: &Connection) -> u32 {
        connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap()
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

    /// What a step after the released ones might be, one statement each.
    const NEXT_STEP: [&str; 4] = [
        "ALTER TABLE projects ADD COLUMN colour TEXT",
        "CREATE TABLE tags (id INTEGER PRIMARY KEY, name TEXT NOT NULL)",
        "INSERT INTO tags (name) SELECT name FROM projects",
        "UPDATE projects SET colour = 'red'",
    ];

    fn version(connection: &Connection) -> u32 {
        connection.query_row("PRAGMA user_version", [], |row| row.get(0)).unwrap()
    }

    fn database_of_this_version(folder: &Path) -> Connection {
        let connection = open_writer(&folder.join("recall.db"), folder, Durability::Full).unwrap();
        connection
            .execute_batch("INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0), (2, 'path:/b', 'b', 0)")
            .unwrap();
        connection
    }

    fn migrated(folder: &Path, last: &str) -> Result<Connection, OpenStoreError> {
        let path = folder.join("recall.db");
        let mut connection = Connection::open(&path).unwrap();
        let steps: Vec<&str> = STEPS.iter().copied().chain([last]).collect();
        migrate_by(&steps, WHOLE, &mut connection, &path, folder).map(|()| connection)
    }

    /// What a killed process leaves is what is on disk at that moment.
    #[test]
    fn killed_at_any_statement_the_version_before_is_left_and_the_next_start_goes_on() {
        for done in 0..=NEXT_STEP.len() {
            let (home, after_kill) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let mut connection = database_of_this_version(home.path());
            // Forces the changes out before the commit.
            connection.execute_batch("PRAGMA cache_spill = 1; PRAGMA cache_size = 1").unwrap();
            let transaction = connection.transaction().unwrap();
            for statement in &NEXT_STEP[..done] {
                transaction.execute_batch(statement).unwrap();
            }
            transaction.pragma_update(None, "user_version", VERSION + 1).unwrap();
            for name in ["recall.db", "recall.db-wal"] {
                std::fs::copy(home.path().join(name), after_kill.path().join(name)).unwrap();
            }
            assert_eq!(version(&Connection::open(after_kill.path().join("recall.db")).unwrap()), VERSION);
            let connection = migrated(after_kill.path(), &NEXT_STEP.join(";")).unwrap();
            let tags: Vec<(String, String)> = connection
                .prepare("SELECT t.name, p.colour FROM tags t JOIN projects p USING (name) ORDER BY t.id")
                .unwrap()
                .query_map([], |row| Ok((row.get(0)?, row.get(1)?)))
                .unwrap()
                .map(Result::unwrap)
                .collect();
            let expected =
                [("shop", "red"), ("b", "red")].map(|(name, red)| (name.to_owned(), red.to_owned()));
            assert_eq!(tags, expected, "killed after {done} statements");
            assert_eq!(version(&connection), VERSION + 1);
        }
    }

    #[test]
    fn a_step_that_fails_leaves_the_version_before_and_its_backup() {
        for good in 0..NEXT_STEP.len() {
            let home = tempfile::tempdir().unwrap();
            drop(database_of_this_version(home.path()));
            let broken = format!("{}; SELECT nonsense", NEXT_STEP[..good].join(";"));
            assert!(matches!(
                migrated(home.path(), &broken),
                Err(OpenStoreError::Migrate { to, .. }) if to == VERSION + 1
            ));
            let connection = Connection::open(home.path().join("recall.db")).unwrap();
            assert_eq!(version(&connection), VERSION);
            assert!(connection.prepare("SELECT * FROM tags").is_err());
            drop(connection);
            let backup = home.path().join(format!("before-schema-{}.db", VERSION + 1));
            let backup = Connection::open(backup).unwrap();
            assert_eq!(version(&backup), VERSION);
            let projects: i64 =
                backup.query_row("SELECT count(*) FROM projects", [], |row| row.get(0)).unwrap();
            assert_eq!(projects, 2);
            migrated(home.path(), &NEXT_STEP.join(";")).unwrap();
        }
    }

    /// Every table's rows as text.
    fn contents(connection: &Connection, tables: &[(String, String)]) -> Vec<String> {
        let mut lines = Vec::new();
        for (table, columns) in tables {
            let quoted: Vec<String> = columns.split(',').map(|column| format!("quote({column})")).collect();
            let sql = format!("SELECT concat_ws('|', {}) FROM {table} ORDER BY 1", quoted.join(","));
            let mut statement = connection.prepare(&sql).unwrap();
            let rows = statement.query_map([], |row| row.get::<_, String>(0)).unwrap();
            lines.extend(rows.map(|row| format!("{table}: {}", row.unwrap())));
        }
        lines
    }

    fn tables_and_columns(connection: &Connection) -> Vec<(String, String)> {
        let sql = "SELECT s.name, group_concat('\"' || c.name || '\"') FROM sqlite_schema s, pragma_table_info(s.name) c
                   WHERE s.type = 'table' AND s.name NOT LIKE 'sqlite%' GROUP BY s.name ORDER BY s.name";
        let mut statement = connection.prepare(sql).unwrap();
        statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
    }

    /// A database as the program of that version left it, `tests/golden/README.md` says how it was made.
    #[track_caller]
    fn check_golden(name: &str, written_by: u32) {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden").join(name);
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("recall.db");
        std::fs::copy(golden, &path).unwrap();
        let before = Connection::open(&path).unwrap();
        assert_eq!(version(&before), written_by);
        let tables = tables_and_columns(&before);
        let expected = contents(&before, &tables);
        assert!(tables.len() > 10 && expected.len() > 50, "{} tables, {} rows", tables.len(), expected.len());
        drop(before);
        for opening in 1..=2 {
            let connection = open_writer(&path, home.path(), Durability::Full).unwrap();
            assert_eq!(version(&connection), VERSION);
            assert_eq!(contents(&connection, &tables), expected, "opening {opening}");
            let newest = crate::store::jobs(&connection, crate::store::Jobs::All, None, 1).unwrap();
            assert_eq!(newest.len(), 1, "today's queries read it");
        }
        assert_eq!(
            home.path().join(format!("before-schema-{}.db", written_by + 1)).exists(),
            written_by < VERSION
        );
    }

    #[test]
    fn a_database_of_schema_1_keeps_every_row() {
        check_golden("schema-1.db", 1);
    }

    #[test]
    fn a_database_of_schema_6_keeps_every_row() {
        check_golden("schema-6.db", 6);
    }
}
