//! Backups of the database: one per day and one before each migration. Also finds the newest usable backup.
//!
//! A copy is made inside one read transaction, so it is consistent and blocks no writer. It is written under a
//! temporary name, checked, synced and then renamed, so every file with a backup's name is complete. Copying reads
//! every table, so the daily backup also detects damage.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rusqlite::types::{ToSql, ToSqlOutput, ValueRef};
use rusqlite::{Connection, OpenFlags};

use crate::database::row::Sql;
use crate::database::schema;
use crate::{BackupError, Reader, SqliteError, StoreError};
use recall_domain::ids::Timestamp;

/// The number of daily backups to keep. Backups made before a migration are kept too.
const KEPT: usize = 2;
/// The maximum age of the newest daily backup.
const EVERY: Duration = Duration::from_secs(24 * 60 * 60);
const DAILY: &str = "daily-";

/// Whether there is no daily backup, or the newest is more than a day old.
pub fn daily_backup_is_due(folder: &Path, now: SystemTime) -> bool {
    let newest = backups(folder).into_iter().find(|backup| backup.is_daily());
    // A backup from the future is ignored: it was made under another clock.
    newest.is_none_or(|newest| now.duration_since(newest.made).map_or(true, |age| age >= EVERY))
}

impl Reader<'_> {
    /// Makes today's backup from a read connection and removes all but the newest [`KEPT`]. An empty database gets no
    /// backup. On an error older backups are kept.
    pub fn back_up_daily(self, folder: &Path, now: Timestamp) -> Result<Option<PathBuf>, BackupError> {
        let db = self.0;
        let sessions: i64 = db.one("SELECT count(*) FROM (SELECT 1 FROM sessions LIMIT 1)", [])?;
        if sessions == 0 {
            return Ok(None);
        }
        let made = folder.join(format!("{DAILY}{}.db", time_in_name(now)));
        copy_by_reader(db, &made)?;
        for old in backups(folder).iter().filter(|backup| backup.is_daily()).skip(KEPT) {
            if let Err(error) = fs::remove_file(&old.path) {
                tracing::warn!(backup = %old.path.display(), %error, "cannot remove an old backup");
            }
        }
        Ok(Some(made))
    }

    /// Makes a new backup and deletes every other file in the folder, because those contain what is being forgotten.
    /// This includes backups made before a migration. The old files are deleted even if the new backup fails.
    pub fn renew_backups(self, folder: &Path, now: Timestamp) -> Result<(), BackupError> {
        let made = self.back_up_daily(folder, now);
        let newest = made.as_ref().ok().and_then(Option::as_ref);
        let mut removed = Ok(());
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let path = entry.path();
            if Some(&path) != newest
                && entry.file_type().is_ok_and(|kind| kind.is_file())
                && let Err(source) = remove_if_there(&path)
            {
                removed = Err(BackupError::Remove { path, source });
            }
        }
        made.and(removed)
    }

    /// Makes a backup like the daily one, to a file that must not exist yet.
    ///
    /// # Errors
    /// Fails when the file exists or cannot be written.
    pub fn back_up_to(self, target: &Path) -> Result<(), BackupError> {
        if target.exists() {
            let source = io::ErrorKind::AlreadyExists.into();
            return Err(BackupError::File { path: target.to_owned(), source });
        }
        copy_by_reader(self.0, target)
    }

    /// Checks every page. [`Thoroughness::Structure`] reads a gigabyte in a few seconds. Returns
    /// [`StoreError::Damaged`] with the first problem found.
    pub fn check(self, thoroughness: Thoroughness) -> Result<(), StoreError> {
        let sql = match thoroughness {
            Thoroughness::Structure => "PRAGMA quick_check(1)",
            Thoroughness::StructureAndIndexes => "PRAGMA integrity_check(1)",
        };
        match self.0.one::<String>(sql, [])? {
            fine if fine == "ok" => Ok(()),
            found => Err(StoreError::Damaged(found)),
        }
    }
}

/// Like [`copy_into`]. A query-only connection may not write the copy either. The file itself is opened read-only.
fn copy_by_reader(db: &Connection, target: &Path) -> Result<(), BackupError> {
    db.execute_batch("PRAGMA query_only = OFF").map_err(unreadable)?;
    let copied = copy_into(db, target);
    db.execute_batch("PRAGMA query_only = ON").map_err(unreadable)?;
    copied
}

fn unreadable(error: rusqlite::Error) -> BackupError {
    BackupError::Source(SqliteError(error).into())
}

/// Copies what `db` contains now. The copy gets its name only once complete.
pub(crate) fn copy_into(db: &Connection, target: &Path) -> Result<(), BackupError> {
    let draft = target.with_extension("part");
    let failed = |source| BackupError::File { path: draft.clone(), source };
    remove_if_there(&draft).map_err(failed)?;
    // SQLite accepts an empty file as the target. Creating it here makes it private from the start.
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft).map_err(failed)?;
    let copied = db
        .execute("VACUUM INTO ?1", [SqlPath(&draft)])
        .map_err(unreadable)
        .and_then(|_| check_file(&draft).map_err(BackupError::Copy))
        .and_then(|_| file.sync_all().map_err(failed))
        .and_then(|()| fs::rename(&draft, target).map_err(failed));
    if copied.is_err() {
        let _ = fs::remove_file(&draft);
    }
    copied?;
    sync_folder_of(target).map_err(failed)
}

/// Whether this file is an undamaged recall database, with this version's tables or older ones.
///
/// # Errors
/// Fails when the file cannot be read or is damaged.
pub fn is_usable(path: &Path) -> Result<bool, StoreError> {
    // Opening a pipe would wait for a writer.
    if !std::fs::metadata(path)?.is_file() {
        return Err(io::Error::other("not a regular file").into());
    }
    check_file(path)
}

/// The file name of a manual backup in the backup folder.
pub fn backup_by_hand(folder: &Path, now: Timestamp) -> PathBuf {
    folder.join(format!("by-hand-{}.db", time_in_name(now)))
}

/// Returns the newest backup that opens, is undamaged and has no newer schema.
pub(crate) fn newest_good_backup(folder: &Path) -> Option<PathBuf> {
    backups(folder).into_iter().map(|backup| backup.path).find(|path| match check_file(path) {
        Ok(is_known) => is_known,
        Err(error) => {
            tracing::warn!(backup = %path.display(), %error, "this backup is unusable");
            false
        }
    })
}

/// How thoroughly [`Reader::check`] checks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Thoroughness {
    /// Pages and their rows.
    Structure,
    /// Also compares each index with its table, which takes several times longer.
    StructureAndIndexes,
}

/// Whether an undamaged database file without writers has the tables that this program knows.
fn check_file(path: &Path) -> Result<bool, StoreError> {
    let db = Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(SqliteError)?;
    Reader(&db).check(Thoroughness::Structure)?;
    Ok(schema::is_known(&db).map_err(SqliteError)?)
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

/// Lists all backups, newest first; empty if the folder does not exist.
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

/// A path for SQLite, which need not be UTF-8.
struct SqlPath<'a>(&'a Path);

impl ToSql for SqlPath<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(ValueRef::Text(self.0.as_os_str().as_bytes())))
    }
}

/// Formats a time for a file name: sortable, in UTC, with milliseconds.
pub(crate) fn time_in_name(at: Timestamp) -> String {
    let time = jiff::Timestamp::from_millisecond(at.0).unwrap_or_default();
    time.strftime("%Y%m%dT%H%M%S%3fZ").to_string()
}

pub(crate) fn remove_if_there(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => Ok(()),
    }
}

/// Syncs the folder, so that renames survive a power failure.
pub(crate) fn sync_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), |folder| File::open(folder)?.sync_all())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::{Durability, Readers, open_writer};

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
                     INSERT INTO sessions (agent, session_id, project, status, life, started_at,
                     last_event_at)
                     VALUES ('claude-code', '{id}', 1, 'active', 1, 0, 0)"
                ))
                .unwrap();
        }

        fn back_up(&self, at: i64) -> Option<PathBuf> {
            let folder = self.home.path();
            self.readers.read(|db| Ok(db.back_up_daily(folder, Timestamp(NOW.0 + at)).unwrap())).unwrap()
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
    fn a_backup_is_private_and_omits_uncommitted_changes() {
        let fixture = Fixture::with_session();
        // A write transaction does not wait for the copy and is not included in it.
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
    fn two_daily_backups_are_kept_and_the_next_is_due_after_a_day() {
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
    fn damaged_foreign_and_newer_schema_backups_are_skipped() {
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
