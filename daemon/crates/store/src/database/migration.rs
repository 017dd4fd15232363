//! Creates the tables, and upgrades older databases.
//!
//! There is one step per schema version. Each runs in its own transaction, which also raises `user_version`, so a
//! killed process leaves the previous version. Before the first step on an existing database, a copy is written next
//! to it. A newer schema is rejected and not modified.
//!
//! Each step stores a fingerprint of all steps so far in `meta`. A database with a different fingerprint was made by a
//! program that was never released. Its tables may look alike and still differ, so it is rejected too.

use std::path::Path;

use rusqlite::{Connection, Transaction, TransactionBehavior};

use crate::database::backup::copy_into;
use crate::database::schema::{FINGERPRINT, STEPS, fingerprint, fingerprint_in, version};
use crate::{OpenStoreError, SqliteError};

pub(crate) fn migrate(
    connection: &mut Connection,
    path: &Path,
    backups: &Path,
) -> Result<(), OpenStoreError> {
    migrate_by(STEPS, connection, path, backups)
}

fn migrate_by(
    steps: &[&str],
    connection: &mut Connection,
    path: &Path,
    backups: &Path,
) -> Result<(), OpenStoreError> {
    let open = |error| OpenStoreError::Open { path: path.to_owned(), source: SqliteError(error) };
    let known = steps.len() as u32;
    let found = version(connection).map_err(open)?;
    if found == 0 {
        return raise(connection, path, steps, 0..steps.len());
    }
    let made = fingerprint_in(connection).map_err(open)?;
    if found > known && made.is_some() {
        return Err(OpenStoreError::TooNew { path: path.to_owned(), found, known });
    }
    if found > known || made != Some(fingerprint(&steps[..found as usize])) {
        return Err(OpenStoreError::OtherTables { path: path.to_owned() });
    }
    if found < known {
        let copy = backups.join(format!("before-schema-{}.db", found + 1));
        // A copy from an earlier attempt is complete and older, so it is kept.
        if !copy.exists() {
            copy_into(connection, &copy)
                .map_err(|source| OpenStoreError::Backup { path: path.to_owned(), source })?;
        }
    }
    for step in found as usize..steps.len() {
        raise(connection, path, steps, step..step + 1)?;
    }
    Ok(())
}

/// Runs some steps in one transaction. A new database runs all of them at once, because the first session is waiting
/// for it.
fn raise(
    connection: &mut Connection,
    path: &Path,
    steps: &[&str],
    range: std::ops::Range<usize>,
) -> Result<(), OpenStoreError> {
    let (done, to) = (&steps[..range.end], range.end as u32);
    let take = |transaction: &Transaction<'_>| {
        for step in &steps[range] {
            transaction.execute_batch(step)?;
        }
        let meta = "INSERT INTO meta (key, value) VALUES (?1, ?2) ON CONFLICT (key) DO UPDATE SET value = ?2";
        transaction.execute(meta, (FINGERPRINT, fingerprint(done)))?;
        transaction.pragma_update(None, "user_version", to)
    };
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate);
    transaction
        .and_then(|transaction| take(&transaction).and_then(|()| transaction.commit()))
        .map_err(|error| OpenStoreError::Migrate { path: path.to_owned(), to, source: SqliteError(error) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::schema::{VERSION, is_known};
    use crate::{Durability, open_writer};

    #[test]
    fn opening_a_database_twice_keeps_the_same_tables() {
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
    fn a_new_database_is_created_completely_or_not_at_all_and_is_durable() {
        let (home, after_kill) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let path = home.path().join("recall.db");
        let connection = Connection::open(&path).unwrap();
        connection
            .execute_batch("PRAGMA journal_mode = WAL; PRAGMA cache_spill = 1; PRAGMA cache_size = 1")
            .unwrap();
        connection.execute_batch("BEGIN IMMEDIATE").unwrap();
        connection.execute_batch(STEPS[0]).unwrap();
        for name in ["recall.db", "recall.db-wal"] {
            std::fs::copy(home.path().join(name), after_kill.path().join(name)).unwrap();
        }
        let left = after_kill.path().join("recall.db");
        assert_eq!(version(&Connection::open(&left).unwrap()).unwrap(), 0);
        for _ in 0..2 {
            let connection = open_writer(&left, after_kill.path(), Durability::Full).unwrap();
            assert_eq!(version(&connection).unwrap(), VERSION);
            assert_eq!(synchronous(&connection), 2);
        }
        let new = after_kill.path().join("new.db");
        assert_eq!(synchronous(&open_writer(&new, after_kill.path(), Durability::Full).unwrap()), 2);
        assert_eq!(synchronous(&open_writer(&new, after_kill.path(), Durability::Normal).unwrap()), 1);
    }

    /// 1 is NORMAL, 2 is FULL.
    fn synchronous(connection: &Connection) -> u32 {
        connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn newer_and_unreleased_schemas_are_rejected_and_left_unchanged() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("recall.db");
        let opened = || open_writer(&path, home.path(), Durability::Full);
        let database = opened().unwrap();
        assert!(is_known(&database).unwrap());
        database.pragma_update(None, "user_version", VERSION + 7).unwrap();
        assert!(!is_known(&database).unwrap());
        let versions = || {
            ["user_version", "schema_version"]
                .map(|name| database.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).unwrap())
        };
        let before = versions();
        let refused = opened().unwrap_err();
        assert!(matches!(refused, OpenStoreError::TooNew { found, .. } if found == VERSION + 7), "{refused}");
        assert_eq!(versions(), before, "the newer database is unchanged");

        for change in [
            "UPDATE meta SET value = 'another' WHERE key = 'schema_fingerprint'",
            "DELETE FROM meta WHERE key = 'schema_fingerprint'",
            "DROP TABLE meta",
        ] {
            database.pragma_update(None, "user_version", VERSION).unwrap();
            database.execute_batch(change).unwrap();
            assert!(!is_known(&database).unwrap(), "{change}");
            let refused = opened().unwrap_err();
            assert!(matches!(refused, OpenStoreError::OtherTables { .. }), "{change}: {refused}");
            assert!(refused.to_string().contains(&path.display().to_string()), "{refused}");
        }
    }

    #[test]
    fn the_fingerprint_depends_on_the_tables_but_not_on_their_comments() {
        assert_eq!(fingerprint(&["a  b -- c\n;"]), fingerprint(&["a b\n;"]));
        assert_ne!(fingerprint(&["a b;"]), fingerprint(&["a c;"]));
        assert_ne!(fingerprint(&["a;"]), fingerprint(&["a;", "b;"]));
    }

    #[test]
    fn migration_marks_notes_changed_by_hand_as_reviewed() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("recall.db");
        let mut connection = Connection::open(&path).unwrap();
        migrate_by(&STEPS[..4], &mut connection, &path, home.path()).unwrap();
        connection.execute_batch("INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0)").unwrap();
        for id in 1..=3 {
            let observation = format!(
                "INSERT INTO observations (id, uuid, project, type, title, narrative, facts, concepts, files_read,
                    files_modified, importance, evidence, origin, created_at)
                 VALUES ({id}, '{id}', 1, 'gotcha', 't', 'n', '[]', '[]', '[]', '[]', 5, '[]', 'extractive', 7);
                 INSERT INTO hand_changes (observation, what, before, at, undone) VALUES ({id}, 'resolve', '{{}}', 9, {})",
                u8::from(id == 2)
            );
            connection.execute_batch(&observation).unwrap();
        }
        connection.execute_batch("DELETE FROM hand_changes WHERE observation = 3").unwrap();
        migrate(&mut connection, &path, home.path()).unwrap();
        let mut reviewed = connection.prepare("SELECT reviewed_at FROM observations ORDER BY id").unwrap();
        let reviewed = reviewed.query_map([], |row| row.get::<_, Option<i64>>(0)).unwrap();
        assert_eq!(reviewed.map(Result::unwrap).collect::<Vec<_>>(), [Some(9), None, None]);
    }

    #[test]
    fn migration_reindexes_summaries_and_removes_their_vectors() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("recall.db");
        let mut connection = Connection::open(&path).unwrap();
        migrate_by(&STEPS[..10], &mut connection, &path, home.path()).unwrap();
        connection
            .execute_batch(
                "INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0);
                 INSERT INTO sessions (id, agent, session_id, project, status, life, started_at, last_event_at)
                 VALUES (3, 'x', 's', 1, 'completed', 1, 0, 0);
                 INSERT INTO session_summaries (id, session, project, title, request, investigated, learned, completed,
                    next_steps, notes, origin, created_at)
                 VALUES (4, 3, 1, 't', '', '', 'l', 'c', '', '', 'extractive', 7);
                 INSERT INTO vectors (id, kind, row, project, model, dimensions, packed)
                 VALUES (8, 'summary', 4, 1, x'00', 1, x'00'), (9, 'observation', 4, 1, x'00', 1, x'00');
                 DELETE FROM index_log",
            )
            .unwrap();
        migrate(&mut connection, &path, home.path()).unwrap();
        let of = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
        assert_eq!(of("SELECT group_concat(kind || ' ' || row) FROM index_log"), "summary 4");
        assert_eq!(of("SELECT group_concat(id) FROM vectors"), "9");
        assert_eq!(of("SELECT group_concat(project || ' ' || id) FROM gone_vectors"), "1 8");
    }

    #[test]
    fn merged_sync_states_are_kept_when_their_table_is_rebuilt() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("recall.db");
        let mut connection = Connection::open(&path).unwrap();
        connection.execute_batch("PRAGMA foreign_keys = ON").unwrap();
        migrate_by(&STEPS[..11], &mut connection, &path, home.path()).unwrap();
        connection
            .execute_batch(
                "INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0);
                 INSERT INTO shares (id, project, remote, space, device, author, device_name, inject, personal)
                 VALUES (2, 1, 'team', 's', 'd', 'mia', 'laptop', 1, 0);
                 INSERT INTO sync_items VALUES (2, 'b', '{\"x\": 1}', 7, 0), (2, 'a', '{}', NULL, 1)",
            )
            .unwrap();
        migrate(&mut connection, &path, home.path()).unwrap();
        let of = |sql: &str| connection.query_row(sql, [], |row| row.get::<_, String>(0)).unwrap();
        assert_eq!(
            of("SELECT group_concat(concat_ws('|', share, item, state, row, unwanted), ' ')
                FROM (SELECT * FROM sync_items ORDER BY item)"),
            "2|a|{}|1 2|b|{\"x\": 1}|7|0"
        );
        assert!(connection.execute("INSERT INTO sync_items VALUES (2, 'a', '', NULL, 0)", []).is_err());
        connection.execute("DELETE FROM shares", []).unwrap();
        assert_eq!(of("SELECT count(*) || '' FROM sync_items"), "0");
    }

    #[test]
    fn summaries_and_plans_keep_their_ids_when_their_tables_are_rebuilt() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("recall.db");
        let mut connection = Connection::open(&path).unwrap();
        connection.execute_batch("PRAGMA foreign_keys = ON").unwrap();
        migrate_by(&STEPS[..5], &mut connection, &path, home.path()).unwrap();
        connection
            .execute_batch(
                "INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0);
                 INSERT INTO sessions (id, agent, session_id, project, status, life, started_at, last_event_at)
                 VALUES (3, 'x', 's', 1, 'completed', 1, 0, 0);
                 INSERT INTO prompt_batches (id, session, seq, prompt_number, source, status, opened_at)
                 VALUES (4, 3, 1, 1, 'user', 'closed', 0);
                 INSERT INTO session_summaries (id, session, project, title, request, investigated, learned, completed,
                    next_steps, notes, origin, created_at)
                 VALUES (5, 3, 1, 'Rounded', 'r', 'i', 'l', 'c', 'n', 'o', 'extractive', 7);
                 INSERT INTO plans (id, session, batch, kind, path, title, text, state, event_id, created_at, updated_at,
                    tasks)
                 VALUES (6, 3, 4, 'plan', '/p.md', 'Coins', 'Rates', 'approved', x'01', 8, 9, NULL),
                        (9, 3, 4, 'tasks', '', 'Task list', '', 'draft', NULL, 8, 9, '{}');
                 DELETE FROM plans WHERE id = 9;
                 INSERT INTO plan_batches (plan, batch, event_id, prompt_id) VALUES (6, 4, x'02', 'p1')",
            )
            .unwrap();
        migrate(&mut connection, &path, home.path()).unwrap();
        let all = |sql: &str| -> String { connection.query_row(sql, [], |row| row.get(0)).unwrap() };
        assert_eq!(
            all("SELECT concat_ws('|', id, session, project, title, request, investigated, learned, completed, next_steps,
                notes, origin, created_at, share) FROM session_summaries"),
            "5|3|1|Rounded|r|i|l|c|n|o|extractive|7"
        );
        assert_eq!(
            all("SELECT concat_ws('|', id, session, batch, kind, path, title, text, state, hex(event_id), created_at,
                updated_at) FROM plans"),
            "6|3|4|plan|/p.md|Coins|Rates|approved|01|8|9"
        );
        assert_eq!(
            all("SELECT concat_ws('|', plan, batch, hex(event_id), prompt_id) FROM plan_batches"),
            "6|4|02|p1"
        );
        // A number of a removed plan is not given again.
        let next = "INSERT INTO plans (session, kind, path, title, text, state, created_at, updated_at)
            VALUES (3, 'plan', '/q.md', '', '', 'draft', 0, 0) RETURNING id || ''";
        assert_eq!(all(next), "10");
        connection.execute("DELETE FROM sessions", []).unwrap();
        assert_eq!(all("SELECT (SELECT count(*) FROM plans) || (SELECT count(*) FROM plan_batches)"), "00");
    }

    /// A possible step after the released ones, one statement each.
    const NEXT_STEP: [&str; 4] = [
        "ALTER TABLE projects ADD COLUMN colour TEXT",
        "CREATE TABLE tags (id INTEGER PRIMARY KEY, name TEXT NOT NULL)",
        "INSERT INTO tags (name) SELECT name FROM projects",
        "UPDATE projects SET colour = 'red'",
    ];

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
        migrate_by(&steps, &mut connection, &path, folder).map(|()| connection)
    }

    /// A killed process leaves what is on disk at that moment.
    #[test]
    fn a_killed_migration_leaves_the_old_version_and_the_next_one_completes() {
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
            let left = Connection::open(after_kill.path().join("recall.db")).unwrap();
            assert_eq!(version(&left).unwrap(), VERSION);
            drop(left);
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
            assert_eq!(version(&connection).unwrap(), VERSION + 1);
            // Opening it once more changes nothing.
            drop(connection);
            migrated(after_kill.path(), &NEXT_STEP.join(";")).unwrap();
        }
    }

    #[test]
    fn a_failed_migration_step_leaves_the_old_version_and_a_backup() {
        for good in 0..NEXT_STEP.len() {
            let home = tempfile::tempdir().unwrap();
            drop(database_of_this_version(home.path()));
            let broken = format!("{}; SELECT nonsense", NEXT_STEP[..good].join(";"));
            assert!(matches!(
                migrated(home.path(), &broken),
                Err(OpenStoreError::Migrate { to, .. }) if to == VERSION + 1
            ));
            let connection = Connection::open(home.path().join("recall.db")).unwrap();
            assert_eq!(version(&connection).unwrap(), VERSION);
            assert!(connection.prepare("SELECT * FROM tags").is_err());
            drop(connection);
            let backup = home.path().join(format!("before-schema-{}.db", VERSION + 1));
            let backup = Connection::open(backup).unwrap();
            assert!(is_known(&backup).unwrap());
            let projects: i64 =
                backup.query_row("SELECT count(*) FROM projects", [], |row| row.get(0)).unwrap();
            assert_eq!(projects, 2);
            migrated(home.path(), &NEXT_STEP.join(";")).unwrap();
        }
    }
}
