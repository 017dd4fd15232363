//! Opens the write connection.
//!
//! SQLite opens and removes the files next to a database by path. The folder may be deleted while the machine sleeps,
//! and the paths may then belong to another daemon. So this module follows three rules:
//! - A new database is created under another name and renamed once complete. Otherwise SQLite would remove the log
//!   next to an empty database as a leftover.
//! - Files are renamed or removed by their name in the held folder, never by a full path.
//! - Nothing is written before all files are open and the folder is known to be still held.

use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rusqlite::{Connection, OpenFlags};
use rustix::fs::AtFlags;
use uuid::Uuid;

use crate::database::connection::{leave_log_when_closed, plans_do_not_depend_on_values};
use crate::database::{migration, repair};
use crate::{Durability, OpenStoreError, SqliteError};
use recall_system::holding::Holding;
use recall_system::holding::file_system::FileSystem;

/// The number of log pages at which SQLite moves the write-ahead log into the database.
const LOG_PAGES: u32 = 4_000;
/// The size in bytes to which a larger log is truncated. Overwriting the log takes half the time of extending it, so
/// the size covers `LOG_PAGES` plus the commit that exceeded it.
const LOG_BYTES: u32 = 20 * 1024 * 1024;

/// The number of prepared statements that the write connection keeps. Events and their jobs alternate: with room for
/// 64, each prepared its own statements again, which took a thirteenth of the writer's time.
const WRITER_STATEMENTS: usize = 256;

/// The suffix of an incomplete database's name. A random part follows.
const DRAFT: &str = ".new-";

/// The write-ahead log needs shared memory between all connections, which network and FUSE file systems do not
/// guarantee. There, a journal of overwritten pages protects each commit: it is slower and waits for readers. An
/// earlier write-ahead log is then read without shared memory, by an exclusive connection.
const ROLLBACK_JOURNAL: &str = "PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = TRUNCATE;
     PRAGMA locking_mode = NORMAL; SELECT count(*) FROM sqlite_schema;";

/// Opens the write connection in a folder that nobody else can take.
///
/// # Errors
/// See [`open_held`].
#[cfg(test)]
pub(crate) fn open_writer(
    path: &Path,
    backups: &Path,
    durability: Durability,
) -> Result<Connection, OpenStoreError> {
    open_held(path, backups, durability, &Holding::default())
}

/// Opens a new, empty database. The file is a copy, because creating all tables takes longer than most tests.
#[cfg(test)]
pub(crate) fn empty_database(home: &Path) -> Connection {
    static EMPTY: std::sync::LazyLock<Vec<u8>> = std::sync::LazyLock::new(|| {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("recall.db");
        drop(open_writer(&path, home.path(), Durability::Normal).unwrap());
        std::fs::read(path).unwrap()
    });
    let path = home.join("recall.db");
    std::fs::write(&path, &*EMPTY).unwrap();
    open_writer(&path, home, Durability::Normal).unwrap()
}

/// Opens the write connection; creates or migrates the database if necessary. Only one may exist across all processes,
/// which the daemon's lock ensures.
///
/// # Errors
/// Fails when the file cannot be opened or migrated, was written by a newer version, or is in a lost folder. Nothing is then
/// changed.
pub(crate) fn open_held(
    path: &Path,
    backups: &Path,
    durability: Durability,
    holding: &Holding,
) -> Result<Connection, OpenStoreError> {
    holding.check()?;
    repair::finish_repair(path).map_err(|source| OpenStoreError::Repair { path: path.to_owned(), source })?;
    let folder = folder_of(path, holding)?;
    if is_missing(&folder, path) {
        create(path, backups, &folder)?;
    }
    let failed = |error| OpenStoreError::Open { path: path.to_owned(), source: SqliteError(error) };
    let flags = OpenFlags::default() - OpenFlags::SQLITE_OPEN_CREATE;
    let mut connection = Connection::open_with_flags(path, flags).map_err(failed)?;
    leave_log_when_closed(&connection).map_err(failed)?;
    let journal = match FileSystem::of(path) {
        FileSystem::Local => "PRAGMA journal_mode = WAL;",
        FileSystem::Shared(_) => ROLLBACK_JOURNAL,
    };
    let synchronous = match durability {
        Durability::Full => "FULL",
        Durability::Normal => "NORMAL",
    };
    connection
        .execute_batch(&format!(
            "PRAGMA synchronous = {synchronous}; {journal} PRAGMA secure_delete = ON;
             PRAGMA trusted_schema = OFF; PRAGMA foreign_keys = ON; PRAGMA busy_timeout = 5000;
             PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8000; PRAGMA wal_autocheckpoint = {LOG_PAGES};
             PRAGMA journal_size_limit = {LOG_BYTES};"
        ))
        .map_err(failed)?;
    // Both the database and the log are open by now.
    holding.check()?;
    private_file(path);
    plans_do_not_depend_on_values(&connection).map_err(failed)?;
    connection.set_prepared_statement_cache_capacity(WRITER_STATEMENTS);
    migration::migrate(&mut connection, path, backups)?;
    Ok(connection)
}

/// Opens the held folder, or otherwise the one at the path.
fn folder_of(path: &Path, holding: &Holding) -> Result<File, OpenStoreError> {
    let opened = match holding.folder() {
        Some(held) => held.try_clone(),
        None => File::open(path.parent().unwrap_or(Path::new("."))),
    };
    opened.map_err(|source| OpenStoreError::Create { path: path.to_owned(), source })
}

/// Whether there is no database, or one that was never written.
fn is_missing(folder: &File, path: &Path) -> bool {
    let found = path.file_name().map(|name| rustix::fs::statat(folder, name, AtFlags::empty()));
    match found {
        Some(Ok(found)) => found.st_size == 0,
        Some(Err(error)) => error == rustix::io::Errno::NOENT,
        None => false,
    }
}

/// Creates an empty database with all tables.
fn create(path: &Path, backups: &Path, folder: &File) -> Result<(), OpenStoreError> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beginning = format!("{name}{DRAFT}");
    if let Err(error) = remove_drafts(folder, &beginning) {
        tracing::warn!(%error, "cannot remove an unfinished database");
    }
    let draft = format!("{beginning}{}", Uuid::new_v4().simple());
    let draft_path = path.with_file_name(&draft);
    let made = fill(&draft_path, backups).and_then(|()| {
        let renamed = put_in_place(folder, &draft, &name);
        renamed.map_err(|source| OpenStoreError::Create { path: path.to_owned(), source })
    });
    if made.is_err() {
        // Nobody else uses this name.
        let _ = std::fs::remove_file(&draft_path);
    }
    made
}

/// Removes unfinished databases of a killed daemon. The folder is held, so nobody is still working on them.
fn remove_drafts(folder: &File, beginning: &str) -> std::io::Result<()> {
    for entry in rustix::fs::Dir::read_from(folder)? {
        let entry = entry?;
        if entry.file_name().to_bytes().starts_with(beginning.as_bytes()) {
            rustix::fs::unlinkat(folder, entry.file_name(), AtFlags::empty())?;
        }
    }
    Ok(())
}

/// Fills the draft. The file is synced once, when it is complete.
fn fill(draft: &Path, backups: &Path) -> Result<(), OpenStoreError> {
    let failed = |error| OpenStoreError::Open { path: draft.to_owned(), source: SqliteError(error) };
    let mut connection = Connection::open(draft).map_err(failed)?;
    private_file(draft);
    let journal = match FileSystem::of(draft) {
        FileSystem::Local => "PRAGMA journal_mode = WAL",
        FileSystem::Shared(_) => "PRAGMA journal_mode = TRUNCATE",
    };
    connection.execute_batch(&format!("PRAGMA synchronous = OFF; {journal}")).map_err(failed)?;
    migration::migrate(&mut connection, draft, backups)?;
    connection.close().map_err(|(_, source)| failed(source))?;
    let synced = File::open(draft).and_then(|file| file.sync_all());
    synced.map_err(|source| OpenStoreError::Create { path: draft.to_owned(), source })
}

/// Renames the draft. A log without its database is useless, and SQLite would apply it to the new database.
fn put_in_place(folder: &File, draft: &str, name: &str) -> std::io::Result<()> {
    for side in ["-wal", "-shm", "-journal"] {
        match rustix::fs::unlinkat(folder, format!("{name}{side}"), AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => {}
            Err(error) => return Err(error.into()),
        }
    }
    rustix::fs::renameat(folder, draft, folder, name)?;
    folder.sync_all()
}

/// Makes the database private. SQLite gives its side files the same mode.
fn private_file(path: &Path) {
    if let Err(error) = std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)) {
        tracing::warn!(path = %path.display(), %error, "cannot make the database private");
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn log_of(path: &Path) -> PathBuf {
        path.with_extension("db-wal")
    }

    fn marks(connection: &Connection) -> u32 {
        connection.query_row("SELECT count(*) FROM meta WHERE key = 'mark'", [], |row| row.get(0)).unwrap()
    }

    fn mark(connection: &Connection) {
        connection.execute("INSERT INTO meta (key, value) VALUES ('mark', '1')", []).unwrap();
    }

    #[test]
    fn a_new_database_needs_no_write_ahead_log_and_leftovers_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("recall.db");
        // A killed daemon left these.
        for left in ["recall.db.new-0", "recall.db.new-0-wal"] {
            std::fs::write(home.path().join(left), "unfinished").unwrap();
        }
        let _writer = open_writer(&path, home.path(), Durability::Full).unwrap();
        assert!(!is_missing(&File::open(home.path()).unwrap(), &path));
        assert_eq!(log_of(&path).metadata().map_or(0, |found| found.len()), 0);
        let others: Vec<_> = std::fs::read_dir(home.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .filter(|name| name.contains(".new-"))
            .collect();
        assert!(others.is_empty(), "{others:?}");
    }

    /// A program that opens and closes the file beside SQLite releases SQLite's locks on it, and the next program that
    /// closes the database removes the log.
    #[cfg(target_os = "linux")]
    #[test]
    fn a_new_database_is_locked_while_it_is_open() {
        use std::os::unix::fs::MetadataExt;
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("recall.db");
        let writer = open_writer(&path, home.path(), Durability::Full).unwrap();
        mark(&writer);
        let inode = format!(":{} ", path.metadata().unwrap().ino());
        let is_locked = || std::fs::read_to_string("/proc/locks").unwrap().contains(&inode);
        assert!(is_locked());
        drop(writer);
        assert!(!is_locked());
    }

    #[test]
    fn a_write_ahead_log_without_its_database_is_not_applied_to_a_new_one() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("recall.db");
        let writer = open_writer(&path, home.path(), Durability::Full).unwrap();
        mark(&writer);
        std::fs::remove_file(&path).unwrap();
        assert!(log_of(&path).metadata().unwrap().len() > 0);
        let other = open_writer(&path, home.path(), Durability::Full).unwrap();
        assert_eq!(marks(&other), 0);
    }

    #[test]
    fn a_daemon_whose_folder_was_replaced_leaves_the_new_database_alone() {
        let base = tempfile::tempdir().unwrap();
        let home = base.path().join("data");
        let lock = home.join("lock");
        let begin = || {
            std::fs::create_dir_all(&home).unwrap();
            std::fs::write(&lock, "").unwrap();
            Holding::take(&home, &lock).unwrap()
        };
        let path = home.join("recall.db");
        for is_made in [false, true] {
            let holding = begin();
            if is_made {
                drop(open_held(&path, &home, Durability::Full, &holding).unwrap());
            }
            // From here on this daemon sleeps.
            std::fs::remove_dir_all(&home).unwrap();
            let others = begin();
            let writer = open_held(&path, &home, Durability::Full, &others).unwrap();
            mark(&writer);
            assert!(matches!(
                open_held(&path, &home, Durability::Full, &holding),
                Err(OpenStoreError::Lost(_))
            ));
            // Even if it was seen just before, its own folder is the one in which it makes a database.
            let folder = holding.folder().unwrap().try_clone().unwrap();
            assert!(is_missing(&folder, &path));
            assert!(create(&path, &home, &folder).is_err());
            drop(writer);
            assert_eq!(marks(&Connection::open(&path).unwrap()), 1);
            std::fs::remove_dir_all(&home).unwrap();
        }
    }
}
