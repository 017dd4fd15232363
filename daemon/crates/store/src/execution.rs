//! Runs an operation inside the writer's group commit, so that a failed one is rolled back alone: the first together
//! with the transaction, each further one with its own savepoint. Changes to shared notes are logged in the same step.

use rusqlite::Connection;

use crate::database::row::Sql;
use crate::operation::{Changes, Operation, WriteContext};
use crate::{StoreError, sharing};

/// How a failed operation is rolled back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Undo {
    /// Back to its beginning. For this, SQLite keeps a copy of each page that it changes.
    Savepoint,
    /// Together with the whole transaction, which must have changed nothing before. A new one then begins.
    Transaction,
}

impl Undo {
    fn prepare(self, connection: &Connection) -> Result<(), StoreError> {
        match self {
            Self::Savepoint => connection.run("SAVEPOINT one_write", []),
            Self::Transaction => Ok(()),
        }
    }

    fn keep(self, connection: &Connection) -> Result<(), StoreError> {
        match self {
            Self::Savepoint => connection.run("RELEASE one_write", []),
            Self::Transaction => Ok(()),
        }
    }

    fn roll_back(self, connection: &Connection) -> Result<(), StoreError> {
        match self {
            Self::Savepoint => {
                connection.run("ROLLBACK TO one_write", [])?;
                connection.run("RELEASE one_write", [])
            }
            Self::Transaction => {
                // Some errors have already ended the transaction.
                if !connection.is_autocommit() {
                    connection.run("ROLLBACK", [])?;
                }
                connection.run("BEGIN IMMEDIATE", [])
            }
        }
    }
}

/// Executes an operation and adds its changes to `changes`. The caller must have opened a transaction.
///
/// # Errors
/// Fails when the database refuses. The operation is then rolled back and has changed nothing.
pub(crate) fn execute<O: Operation>(
    connection: &Connection,
    operation: O,
    changes: &mut Changes,
) -> Result<O::Output, StoreError> {
    carry_out(connection, operation, changes, Undo::Savepoint)
}

/// Like [`execute`], for the first operation of a transaction. Cheaper, because no page is copied.
///
/// # Errors
/// See [`execute`].
pub(crate) fn execute_first<O: Operation>(
    connection: &Connection,
    operation: O,
    changes: &mut Changes,
) -> Result<O::Output, StoreError> {
    carry_out(connection, operation, changes, Undo::Transaction)
}

fn carry_out<O: Operation>(
    connection: &Connection,
    operation: O,
    changes: &mut Changes,
    undo: Undo,
) -> Result<O::Output, StoreError> {
    undo.prepare(connection)?;
    let db = WriteContext::new(connection);
    let result = operation.execute(&db).and_then(|output| {
        let (touched, removed) = db.take_shareable();
        sharing::append(&db, &touched, removed).map(|()| output)
    });
    if result.is_err() || db.is_taken_back() {
        // Logged only, because the caller must get the original error.
        let taken_back = undo.roll_back(connection);
        return result.and_then(|output| taken_back.map(|()| output));
    }
    undo.keep(connection)?;
    db.add_changes_to(changes);
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::log;
    use crate::{ExpireLeases, IdleEffects, empty_database};
    use recall_domain::document::DocumentKey;
    use recall_domain::ids::BatchId;
    use recall_domain::ids::{SessionKey, Timestamp};
    use recall_domain::lifecycle::{ClosedBatch, LifecycleKind};
    use recall_domain::session::{Effect, Period, Seq};

    /// How an operation ends after it has changed everything.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    enum End {
        Kept,
        TakenBack,
        Failed,
    }

    impl Operation for End {
        type Output = Self;

        fn execute(self, db: &WriteContext<'_>) -> Result<Self, StoreError> {
            log(db, DocumentKey::prompt(BatchId(1)))?;
            db.accept();
            db.queue_work();
            let key = SessionKey {
                agent: recall_domain::ids::AgentName::from("claude-code"),
                id: recall_domain::ids::SessionId("s".to_owned()),
            };
            db.publish(key, Timestamp(1), LifecycleKind::BatchClosed(ClosedBatch::default()));
            match self {
                Self::Kept => {}
                Self::TakenBack => db.take_back(),
                Self::Failed => return Err(StoreError::NoSuchSession),
            }
            Ok(self)
        }
    }

    fn database() -> (tempfile::TempDir, Connection) {
        let home = tempfile::tempdir().unwrap();
        let db = empty_database(home.path());
        (home, db)
    }

    #[test]
    fn operations_that_are_rolled_back_announce_nothing() {
        let (_home, db) = database();
        let logged =
            || db.query_row("SELECT count(*) FROM index_log", [], |row| row.get::<_, i64>(0)).unwrap();
        let mut changes = Changes::default();
        assert_eq!(execute(&db, End::TakenBack, &mut changes).unwrap(), End::TakenBack);
        assert!(matches!(execute(&db, End::Failed, &mut changes), Err(StoreError::NoSuchSession)));
        assert_eq!((&changes, logged()), (&Changes::default(), 0));
        for kept in 1..=2 {
            assert_eq!(execute(&db, End::Kept, &mut changes).unwrap(), End::Kept);
            assert!(changes.accepted && changes.documents && changes.jobs);
            assert_eq!((changes.events.len(), logged()), (kept, kept as i64));
        }
    }

    #[test]
    fn a_transaction_stays_open_when_its_first_operation_is_rolled_back() {
        let (_home, db) = database();
        let mut changes = Changes::default();
        for failing in [End::TakenBack, End::Failed] {
            db.execute_batch("BEGIN IMMEDIATE").unwrap();
            let _ = execute_first(&db, failing, &mut changes);
            assert!(!db.is_autocommit(), "{failing:?}: the next operation needs it");
            execute(&db, End::Kept, &mut Changes::default()).unwrap();
            db.execute_batch("COMMIT").unwrap();
        }
        assert_eq!(changes, Changes::default());
        let logged: i64 = db.query_row("SELECT count(*) FROM index_log", [], |row| row.get(0)).unwrap();
        assert_eq!(logged, 2);
    }

    #[test]
    fn only_operations_that_queue_jobs_announce_jobs() {
        let (_home, db) = database();
        db.execute_batch(
            "INSERT INTO projects VALUES (1, 'path:/shop', 'shop', 0);
             INSERT INTO sessions (id, agent, session_id, project, status, life, started_at, last_event_at)
             VALUES (1, 'a', 's', 1, 'active', 1, 0, 0);
             INSERT INTO prompt_batches (id, session, seq, prompt_number, source, status, prompt,
             response, opened_at)
             VALUES (1, 1, 1, 1, 'user', 'closed', 'x', 'y', 0), (2, 1, 2, 2, 'user', 'closed', 'x', 'y', 0)",
        )
        .unwrap();
        let changed_by = |effect: Effect| {
            let session = SessionKey { agent: "a".into(), id: "s".into() };
            let mut changes = Changes::default();
            let idle = IdleEffects { session, effects: vec![effect], at: Timestamp(1) };
            execute(&db, idle, &mut changes).unwrap();
            (changes.documents, changes.jobs)
        };
        assert_eq!(changed_by(Effect::FollowCleared), (false, false));
        assert_eq!(changed_by(Effect::Summarize), (false, true));
        assert_eq!(changed_by(Effect::CompressBatch { seq: Seq(1) }), (false, true));
        // A batch that turns out to be private causes a new summary of its session.
        let periods = vec![Period {
            seq: Seq(1),
            turn: None,
            since: None,
            source: recall_domain::material::BatchSource::User,
        }];
        let hide = Effect::Rearrange { periods, among: Vec::new(), hidden: vec![Seq(1)] };
        assert_eq!(changed_by(hide), (true, true));
        let mut changes = Changes::default();
        execute(&db, ExpireLeases { now: Timestamp(1) }, &mut changes).unwrap();
        assert_eq!(changes, Changes::default(), "no lease has expired");
    }
}
