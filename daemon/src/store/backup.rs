//! Copies of the database: one a day, one before each migration, and finding the newest that is good.
//!
//! A copy is made inside one read transaction, so it shows one moment and holds up no writer. It is written under
//! another name, checked, synced and only then renamed: what carries a backup's name is whole. Copying reads every
//! table, so the daily copy is at the same time the daily look for damage.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags};

use super::{StoreError, schema};
use crate::memory::ids::Timestamp;

/// Daily backups that are kept; those made before a migration stay.
const KEPT: usize = 2;
/// How old the newest daily backup becomes.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);
const DAILY: &str = "daily-";

/// Why there is no backup.
#[derive(Debug, thiserror::Error)]
pub enum BackupError {
    /// The database itself refuses to be read: perhaps it is damaged.
    #[error(transparent)]
    Source(#[from] StoreError),
    #[error("the copy cannot be trusted: {0}")]
    Copy(#[source] StoreError),
    #[error("cannot write {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Whether the newest daily backup is more than a day old, or there is none.
pub fn daily_backup_is_due(folder: &Path, now: SystemTime) -> bool {
    let newest = backups(folder).into_iter().find(|backup| backup.is_daily());
    // One from the future was made under another clock and says nothing.
    newest.is_none_or(|newest| now.duration_since(newest.made).map_or(true, |age| age >= EVERY))
}

/// Makes today's backup from a read connection and removes all but the newest [`KEPT`]. Nothing to keep: no backup.
///
/// # Errors
/// When the database cannot be read or the copy cannot be written; older backups are left alone then.
pub fn back_up_daily(db: &Connection, folder: &Path, now: Timestamp) -> Result<Option<PathBuf>, BackupError> {
    let sessions: i64 = db
        .query_row("SELECT count(*) FROM (SELECT 1 FROM sessions LIMIT 1)", [], |row| row.get(0))
        .map_err(StoreError::from)?;
    if sessions == 0 {
        return Ok(None);
    }
    let made = folder.join(format!("{DAILY}{}.db", time_in_name(now)));
    // "Query only" forbids to write the copy as well; the file itself is open for reading only.
    db.execute_batch("PRAGMA query_only = OFF").map_err(StoreError::from)?;
    let copied = copy_into(db, &made);
    db.execute_batch("PRAGMA query_only = ON").map_err(StoreError::from)?;
    copied?;
    for old in backups(folder).iter().filter(|backup| backup.is_daily()).skip(KEPT) {
        if let Err(error) = fs::remove_file(&old.path) {
            tracing::warn!(backup = %old.path.display(), %error, "an old backup stays");
        }
    }
    Ok(Some(made))
}

/// Makes one new backup and removes every other file of the folder, those made before a migration too: they hold what
/// is to be forgotten. They go also when the new one fails.
///
/// # Errors
/// When the new one cannot be made or an old one cannot be removed.
pub fn renew_backups(db: &Connection, folder: &Path, now: Timestamp) -> Result<(), BackupError> {
    let made = back_up_daily(db, folder, now);
    let newest = made.as_ref().ok().and_then(Option::as_ref);
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if Some(&path) != newest && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            remove_if_there(&path).map_err(|source| BackupError::File { path, source })?;
        }
    }
    made.map(drop)
}

/// A copy of what `db` shows at this moment, under its name only when it is whole.
///
/// # Errors
/// When the database cannot be read or the copy cannot be written.
pub(super) fn copy_into(db: &Connection, target: &Path) -> Result<(), BackupError> {
    let draft = target.with_extension("part");
    let failed = |source| BackupError::File { path: draft.clone(), source };
    remove_if_there(&draft).map_err(failed)?;
    // SQLite takes an empty file as a place to copy to; made here, it is private from its first byte.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(failed)?;
    let copied = db
        .execute("VACUUM INTO ?1", [SqlPath(&draft)])
        .map_err(|error| BackupError::Source(error.into()))
        .and_then(|_| check_file(&draft).map_err(BackupError::Copy))
        .and_then(|_| file.sync_all().map_err(failed))
        .and_then(|()| fs::rename(&draft, target).map_err(failed));
    if copied.is_err() {
        let _ = fs::remove_file(&draft);
    }
    copied?;
    sync_folder_of(target).map_err(failed)
}

/// The newest backup that can be opened, is undamaged and not of a newer schema.
pub fn newest_good_backup(folder: &Path) -> Option<PathBuf> {
    backups(folder).into_iter().map(|backup| backup.path).find(|path| match check_file(path) {
        Ok(is_known) => is_known,
        Err(error) => {
            tracing::warn!(backup = %path.display(), %error, "this backup is no good");
            false
        }
    })
}

/// Looks at every page. The way of [`Thoroughness::Structure`] reads a gigabyte in a few seconds.
///
/// # Errors
/// [`StoreError::Damaged`] with the first thing found, or the database's refusal to be read.
pub fn check(db: &Connection, thoroughness: Thoroughness) -> Result<(), StoreError> {
    let sql = match thoroughness {
        Thoroughness::Structure => "PRAGMA quick_check(1)",
        Thoroughness::StructureAndIndexes => "PRAGMA integrity_check(1)",
    };
    match db.query_row(sql, [], |row| row.get::<_, String>(0))? {
        fine if fine == "ok" => Ok(()),
        found => Err(StoreError::Damaged(found)),
    }
}

/// How much [`check`] compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoroughness {
    /// Pages and the rows on them.
    Structure,
    /// Also whether each index holds what its table holds: several times slower.
    StructureAndIndexes,
}

/// Whether an undamaged database file that nobody writes to has tables that this program knows.
fn check_file(path: &Path) -> Result<bool, StoreError> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY)?;
    check(&db, Thoroughness::Structure)?;
    Ok(schema::is_known(&db)?)
}

struct Backup {
    path: PathBuf,
    made: SystemTime,
}

impl Backup {
    fn is_daily(&self) -> bool {
        self.path.file_name().is_some_and(|name| name.as_bytes().starts_with(DAILY.as_bytes()))
    }
}

/// Every backup, the newest first. A folder that is not there holds none.
fn backups(folder: &Path) -> Vec<Backup> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut found: Vec<Backup> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "db"))
        .filter_map(|path| {
            let metadata = fs::symlink_metadata(&path).ok().filter(fs::Metadata::is_file)?;
            Some(Backup { made: metadata.modified().ok()?, path })
        })
        .collect();
    found.sort_by(|one, other| other.made.cmp(&one.made).then_with(|| other.path.cmp(&one.path)));
    found
}

/// A path as SQLite takes it, which need not be UTF-8.
struct SqlPath<'a>(&'a Path);

impl ToSql for SqlPath<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0.as_os_str().as_bytes())))
    }
}

/// A moment as part of a file's name: sortable, UTC, to the millisecond.
pub(super) fn time_in_name(at: Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
    time.strftime("%Y%m%dT%H%M%S%3fZ").to_string()
}

pub(super) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Makes renames in the file's folder survive a power failure.
pub(super) fn sync_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::store::{Durability, Readers, open_writer};

    const NOW: Timestamp = Timestamp(1_795_262_400_123);

    struct Fixture {
        home: tempfile::TempDir,
        writer: Connection,
        readers: Readers,
    }

    impl Fixture {
        fn new() -> Self {
            let home = tempfile::tempdir().unwrap();
            let path = home.path().join("recall.db");
            let writer = open_writer(&path, home.path(), Durability::Full).unwrap();
            Self { readers: Readers::new(&path), home, writer }
        }

        fn with_session() -> Self {
            let this = Self::new();
            this.add_session("s1");
            this
        }

        fn add_session(&self, id: &str) {
            self.writer
                .execute_batch(&format!(
                    "INSERT OR IGNORE INTO projects VALUES (1, 'path:/shop', 'shop', 0);
                     INSERT INTO sessions (agent, session_id, project, status, life, started_at, last_event_at)
                     VALUES ('claude-code', '{id}', 1, 'active', 1, 0, 0)"
                ))
                .unwrap();
        }

        fn back_up(&self, at: i64) -> Option<PathBuf> {
            let folder = self.home.path();
            self.readers.read(|db| Ok(back_up_daily(db, folder, Timestamp(NOW.0 + at)).unwrap())).unwrap()
        }

        fn names(&self) -> Vec<String> {
            let found = backups(self.home.path()).into_iter().filter(Backup::is_daily);
            found.map(|backup| backup.path.file_name().unwrap().to_string_lossy().into_owned()).collect()
        }
    }

    fn made(path: &Path, seconds: u64) {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    }

    fn sessions(path: &Path) -> i64 {
        let db = Connection::open(path).unwrap();
        db.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap()
    }

    #[test]
    fn a_backup_is_whole_private_and_shows_the_moment() {
        let fixture = Fixture::with_session();
        // A transaction of the writer neither waits for the copy nor gets into it.
        fixture.writer.execute_batch("BEGIN IMMEDIATE").unwrap();
        fixture.add_session("s2");
        let backup = fixture.back_up(0).unwrap();
        fixture.writer.execute_batch("COMMIT").unwrap();
        assert_eq!(sessions(&backup), 1);
        assert_eq!(fs::metadata(&backup).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(fixture.names(), ["daily-20261121T120000123Z.db"]);
        assert_eq!(newest_good_backup(fixture.home.path()), Some(backup));
    }

    #[test]
    fn an_empty_memory_is_not_backed_up() {
        assert_eq!(Fixture::new().back_up(0), None);
    }

    #[test]
    fn two_are_kept_and_the_next_is_due_after_a_day() {
        let fixture = Fixture::with_session();
        let due = |seconds: u64| {
            daily_backup_is_due(fixture.home.path(), SystemTime::UNIX_EPOCH + Duration::from_secs(seconds))
        };
        assert!(due(1_000_000));
        for day in 1..=3_u64 {
            let backup = fixture.back_up(day as i64 * 86_400_000).unwrap();
            made(&backup, day * 86_400);
        }
        assert_eq!(fixture.names(), ["daily-20261124T120000123Z.db", "daily-20261123T120000123Z.db"]);
        assert!(!due(3 * 86_400));
        assert!(!due(4 * 86_400 - 1));
        assert!(due(4 * 86_400));
        assert!(due(86_400), "one from the future says nothing");
    }

    #[test]
    fn damaged_newer_and_strange_files_are_passed_over() {
        let fixture = Fixture::with_session();
        let folder = fixture.home.path();
        let good = fixture.back_up(0).unwrap();
        made(&good, 1_000);
        let damaged = fixture.back_up(1).unwrap();
        let mut bytes = fs::read(&damaged).unwrap();
        let half = bytes.len() / 2;
        bytes[half..].fill(0x5a);
        fs::write(&damaged, bytes).unwrap();
        let newer = folder.join("before-schema-99.db");
        fs::copy(&good, &newer).unwrap();
        Connection::open(&newer).unwrap().pragma_update(None, "user_version", 99).unwrap();
        fs::write(folder.join("daily-empty.db"), b"").unwrap();
        fs::write(folder.join("daily-text.db"), b"this is no database, whatever its name says").unwrap();
        fs::write(folder.join("daily-x.part"), b"unfinished").unwrap();
        fs::rename(folder.join("recall.db"), folder.join("elsewhere")).unwrap();
        assert_eq!(newest_good_backup(folder), Some(good));
        assert_eq!(newest_good_backup(&folder.join("nowhere")), None);
    }
}
