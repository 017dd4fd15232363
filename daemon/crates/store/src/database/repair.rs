//! Replaces a damaged database.
//!
//! The damaged file and its side files are renamed to a name that contains the time, and never deleted. The newest
//! good backup replaces them, or an empty database if there is none. The new database lacks what was stored after that
//! backup. Nothing is recovered from the damaged file; users can try that themselves, for example with `.recover` in
//! the sqlite3 shell. Events that arrive during a repair wait in the spool.
//!
//! The replacement is complete on disk before the damaged file is touched. A process killed at any point leaves either
//! the damaged database or everything that [`finish_repair`] needs.
//!
//! A backup whose tables differ from this program's is not used directly: its rows are copied into our own tables.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use crate::Reader;
use recall_protocol::boot::BootStamp;
use rusqlite::{Connection, OpenFlags};

use crate::database::backup::{
    Thoroughness, newest_good_backup, remove_if_there, sync_folder_of, time_in_name,
};
use crate::database::connection::leave_log_when_closed;
use crate::database::damage::{Evidence, LeftOut, Repair};
use crate::database::migration;
use crate::forgetting::{ForgetAgain, ForgottenCounts, TracesRemoved};
use crate::operation::Changes;
use crate::portable::{Misfits, misfits, take_rows};
use crate::searching::reindex::make_the_index_start_over;
use crate::{OpenStoreError, Readers, SqliteError, StoreError, execution, forgetting};
use recall_domain::ids::Timestamp;
use recall_domain::order::Order;
use recall_system::trusted_file::{self, Links};

/// Part of the names of databases that were set aside, before the time.
const DAMAGED: &str = ".damaged-";
const REPLACED: &str = ".replaced-";
/// Part of the name of a database that is about to replace another one.
const RESTORING: &str = ".restoring";
/// The same while that database is being created, and the backup from which its rows come.
const DRAFT: &str = ".restoring.part";
const FOREIGN: &str = ".restoring.foreign";
/// How long a repair is reported, in milliseconds.
const REPORTED_FOR_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// The maximum number of repairs in the note, in case a disk keeps damaging files.
const MOST_REPAIRS: usize = 10;
/// The number of bytes of the note that are read.
const MOST_NOTE: u64 = 1 << 20;

/// The files that a repair uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairSite {
    pub database: PathBuf,
    pub backups: PathBuf,
    /// The note that lists repairs for the user.
    pub note: PathBuf,
}

/// The result of checking a database that was reported as damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RepairOutcome {
    /// The database is intact and was not touched.
    Sound,
    Repaired(Repair),
}

/// Why a damaged database could not be replaced.
#[derive(Debug, thiserror::Error)]
pub enum RepairError {
    #[error("cannot check the database for damage")]
    Check(#[source] StoreError),
    #[error("cannot prepare the replacement of the damaged database")]
    Prepare(#[from] OpenStoreError),
    #[error("cannot remove from the replacement what was forgotten")]
    Forget(#[source] StoreError),
    #[error("cannot read the rows of the backup")]
    Take(#[source] StoreError),
    #[error("cannot mark the replacement of the damaged database")]
    Mark(#[from] SqliteError),
    #[error("cannot write {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Replaces a damaged database. Nobody may have it open for writing; readers wait during the swap. On an error the
/// damaged database stays in place.
pub fn repair(
    site: &RepairSite,
    readers: &Readers,
    evidence: Evidence,
    why: &str,
    at: Timestamp,
) -> Result<RepairOutcome, RepairError> {
    let is_wanted = matches!(evidence, Evidence::Unwanted { .. });
    let outcome = look_and_replace(site, readers, evidence, why, at);
    match &outcome {
        Ok(RepairOutcome::Repaired(repair)) if is_wanted => readers.set_replaced(Ok(repair.clone())),
        Err(error) if is_wanted => readers.set_replaced(Err(in_full(error))),
        Ok(_) | Err(_) => {}
    }
    outcome
}

/// Formats an error with all its causes.
pub fn in_full(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", in_full(source)),
        None => error.to_string(),
    }
}

fn look_and_replace(
    site: &RepairSite,
    readers: &Readers,
    evidence: Evidence,
    why: &str,
    at: Timestamp,
) -> Result<RepairOutcome, RepairError> {
    if evidence == Evidence::Reported {
        match look_at(&site.database) {
            Ok(()) => return Ok(RepairOutcome::Sound),
            Err(error) if error.is_damage() => {}
            Err(error) => return Err(RepairError::Check(error)),
        }
    }
    let (restored, suffix) = match evidence {
        Evidence::Unwanted { instead } => (Some(instead), REPLACED),
        Evidence::Reported | Evidence::Proven => (newest_good_backup(&site.backups), DAMAGED),
    };
    // Forgotten items stay forgotten. A damaged database is not cleaned, but its backups were renewed whenever
    // something was forgotten.
    let forgotten = match suffix {
        REPLACED => Connection::open_with_flags(&site.database, OpenFlags::SQLITE_OPEN_READ_ONLY)
            .map_err(|error| SqliteError(error).into())
            .and_then(|db| forgetting::memory(&db))
            .map_err(RepairError::Forget)?,
        _ => forgetting::Memory::default(),
    };
    let left_out = prepare(site, restored.as_deref(), forgotten, at)?;
    let repair = Repair {
        at,
        why: why.to_owned(),
        damaged: with_suffix(&site.database, &format!("{suffix}{}", time_in_name(at))),
        restored_from: restored.as_deref().and_then(modified),
        restored,
        left_out,
    };
    // Writes the note first: if the process dies after this, the next start finishes the repair.
    if suffix == DAMAGED {
        remember(&site.note, &repair);
    }
    readers.replace(|| put_in_place(&site.database, &repair.damaged))?;
    Ok(RepairOutcome::Repaired(repair))
}

/// Moves the damaged database aside and puts its replacement in place.
fn put_in_place(database: &Path, damaged: &Path) -> Result<(), RepairError> {
    // Moves the log first: a log without its database is harmless, but a foreign log would be applied to the copy.
    for side in ["-wal", "-shm", ""] {
        move_if_there(&with_suffix(database, side), &with_suffix(damaged, side))?;
    }
    let failed = |source| RepairError::File { path: database.to_owned(), source };
    sync_folder_of(database).map_err(failed)?;
    fs::rename(replacement(database), database).map_err(failed)?;
    sync_folder_of(database).map_err(failed)
}

/// Finishes the repair of a killed process. Must be called before the database is opened.
pub(crate) fn finish_repair(database: &Path) -> io::Result<()> {
    let ready = replacement(database);
    remove_beside(database, &[DRAFT, FOREIGN])?;
    if !ready.exists() {
        return Ok(());
    }
    if database.exists() {
        // The process died before it replaced anything.
        return remove_if_there(&ready);
    }
    tracing::warn!("finishing an interrupted repair of the database");
    fs::rename(&ready, database)?;
    sync_folder_of(database)
}

/// Returns the repairs of the last week, latest last; empty if the note cannot be read.
pub fn recent_repairs(note: &Path, now: Timestamp) -> Vec<Repair> {
    let Ok(bytes) = trusted_file::read(note, Links::Refused, MOST_NOTE) else { return Vec::new() };
    let mut repairs: Vec<Repair> = serde_json::from_slice(&bytes).unwrap_or_default();
    repairs.retain(|repair| now.since(repair.at) < REPORTED_FOR_MS);
    repairs
}

/// Deletes the databases that were set aside, damaged or replaced, because single rows cannot be removed from them.
pub fn remove_damaged(database: &Path) -> io::Result<()> {
    // A killed restore leaves its copy behind.
    remove_beside(database, &[DAMAGED, REPLACED, RESTORING])
}

/// Removes the files whose names consist of the database's name and one of these suffixes.
fn remove_beside(database: &Path, endings: &[&str]) -> io::Result<()> {
    let (Some(folder), Some(name)) = (database.parent(), database.file_name()) else { return Ok(()) };
    let aside: Vec<PathBuf> = endings.iter().map(|ending| with_suffix(Path::new(name), ending)).collect();
    if !folder.exists() {
        return Ok(());
    }
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let is_of = |aside: &PathBuf| entry.file_name().as_bytes().starts_with(aside.as_os_str().as_bytes());
        if aside.iter().any(is_of) {
            remove_if_there(&entry.path()).map_err(|error| {
                io::Error::new(error.kind(), format!("cannot remove {}: {error}", entry.path().display()))
            })?;
        }
    }
    Ok(())
}

fn look_at(database: &Path) -> Result<(), StoreError> {
    // Playing back a log needs write access.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let db = Connection::open_with_flags(database, flags).map_err(SqliteError)?;
    leave_log_when_closed(&db).map_err(SqliteError)?;
    Reader(&db).check(Thoroughness::StructureAndIndexes)
}

/// Writes a complete replacement next to the damaged database.
fn prepare(
    site: &RepairSite,
    restored: Option<&Path>,
    forgotten: forgetting::Memory,
    at: Timestamp,
) -> Result<LeftOut, RepairError> {
    let ready = replacement(&site.database);
    let draft = with_suffix(&site.database, DRAFT);
    let failed = |source| RepairError::File { path: draft.clone(), source };
    remove_beside(&site.database, &[RESTORING]).map_err(failed)?;
    let mut foreign = Misfits::default();
    if let Some(backup) = restored {
        fs::copy(backup, &draft).map_err(failed)?;
        fs::set_permissions(&draft, fs::Permissions::from_mode(0o600)).map_err(failed)?;
        foreign = misfits(&Connection::open(&draft).map_err(SqliteError)?).map_err(RepairError::Take)?;
    }
    if !foreign.is_empty() {
        copy_rows(site, &draft, &mut foreign)?;
        tracing::warn!(
            left_behind = foreign.describe().len(),
            "restored only the rows of a backup with different tables"
        );
    }
    let mut db = Connection::open(&draft).map_err(SqliteError)?;
    fs::set_permissions(&draft, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    migration::migrate(&mut db, &draft, &site.backups)?;
    // Statistics are recomputed.
    db.execute_batch(
        "PRAGMA secure_delete = ON; DROP TABLE IF EXISTS sqlite_stat1; DROP TABLE IF EXISTS sqlite_stat4",
    )
    .map_err(SqliteError)?;
    let forgotten = forget_again(&db, forgotten, at)?;
    make_the_index_start_over(&db, at).map_err(SqliteError)?;
    drop(db);
    File::open(&draft).and_then(|file| file.sync_all()).map_err(failed)?;
    fs::rename(&draft, &ready).map_err(failed)?;
    sync_folder_of(&ready).map_err(failed)?;
    Ok(LeftOut { forgotten, foreign: foreign.describe() })
}

/// Replaces a copied database with a new one that has the same rows.
fn copy_rows(site: &RepairSite, draft: &Path, misfits: &mut Misfits) -> Result<(), RepairError> {
    let foreign = with_suffix(&site.database, FOREIGN);
    let failed = |source| RepairError::File { path: foreign.clone(), source };
    fs::rename(draft, &foreign).map_err(failed)?;
    let from = Connection::open(&foreign).map_err(SqliteError)?;
    from.execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF").map_err(SqliteError)?;
    let mut into = Connection::open(draft).map_err(SqliteError)?;
    fs::set_permissions(draft, fs::Permissions::from_mode(0o600)).map_err(failed)?;
    migration::migrate(&mut into, draft, &site.backups)?;
    take_rows(&from, &into, misfits).map_err(RepairError::Take)?;
    drop((from, into));
    remove_beside(&site.database, &[FOREIGN]).map_err(failed)
}

/// Removes what was forgotten since then from a copy of an older database, down to the last byte.
fn forget_again(
    db: &Connection,
    forgotten: forgetting::Memory,
    at: Timestamp,
) -> Result<ForgottenCounts, RepairError> {
    if forgotten.is_empty() {
        return Ok(ForgottenCounts::default());
    }
    let now = BootStamp::now();
    let at = Order { boot: now.boot_id, boot_ns: now.boot_ns, wall: at };
    db.execute_batch("PRAGMA foreign_keys = ON; PRAGMA secure_delete = ON; BEGIN").map_err(SqliteError)?;
    let again = ForgetAgain { memory: forgotten, at };
    let forgotten = execution::execute(db, again, &mut Changes::default()).map_err(RepairError::Forget)?;
    // The vacuum below removes the traces.
    execution::execute(db, TracesRemoved, &mut Changes::default()).map_err(RepairError::Forget)?;
    db.execute_batch("COMMIT; VACUUM").map_err(SqliteError)?;
    Ok(forgotten.counts)
}

fn replacement(database: &Path) -> PathBuf {
    with_suffix(database, RESTORING)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name: OsString = path.as_os_str().to_owned();
    name.push(suffix);
    PathBuf::from(name)
}

fn move_if_there(from: &Path, to: &Path) -> Result<(), RepairError> {
    match fs::rename(from, to) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(RepairError::File { path: to.to_owned(), source })
        }
        Ok(()) | Err(_) => Ok(()),
    }
}

fn modified(path: &Path) -> Option<Timestamp> {
    let since = fs::metadata(path).ok()?.modified().ok()?.duration_since(std::time::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_millis()).ok().map(Timestamp)
}

/// Adds a repair to the note. A failure does not stop the repair, because the log reports it too.
fn remember(note: &Path, repair: &Repair) {
    let mut repairs = recent_repairs(note, repair.at);
    repairs.push(repair.clone());
    let surplus = repairs.len().saturating_sub(MOST_REPAIRS);
    repairs.drain(..surplus);
    if let Err(error) = write_note(note, &repairs) {
        tracing::warn!(note = %note.display(), %error, "cannot write the repair note; the repair is reported only here");
    }
}

fn write_note(note: &Path, repairs: &[Repair]) -> io::Result<()> {
    let draft = with_suffix(note, ".part");
    let mut file = fs::OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
    file.write_all(&serde_json::to_vec_pretty(repairs)?)?;
    file.sync_all()?;
    fs::rename(&draft, note)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::backup;
    use crate::database::connection::empty_log;
    use crate::{Durability, open_writer};
    use recall_domain::ids::LogSeq;

    const NOW: Timestamp = Timestamp(1_795_262_400_000);

    struct Fixture {
        home: tempfile::TempDir,
        site: RepairSite,
    }

    impl Fixture {
        /// A database with one project and, optionally, a backup from before a second one.
        fn new(with_backup: bool) -> Self {
            let home = tempfile::tempdir().unwrap();
            let site = RepairSite {
                database: home.path().join("recall.db"),
                backups: home.path().join("backups"),
                note: home.path().join("repairs.json"),
            };
            fs::create_dir(&site.backups).unwrap();
            let db = open_writer(&site.database, &site.backups, Durability::Full).unwrap();
            db.execute_batch(
                "INSERT INTO projects VALUES (1, 'path:/one', 'one', 0);
                 INSERT INTO index_log (kind, row) VALUES ('observation', 1), ('observation', 2)",
            )
            .unwrap();
            if with_backup {
                backup::copy_into(&db, &site.backups.join("daily-1.db")).unwrap();
            }
            db.execute_batch("INSERT INTO projects VALUES (2, 'path:/two', 'two', 0)").unwrap();
            empty_log(&db).unwrap();
            Self { home, site }
        }

        fn damage(&self) {
            let mut bytes = fs::read(&self.site.database).unwrap();
            bytes[8192..].fill(0xa5);
            fs::write(&self.site.database, bytes).unwrap();
        }

        fn readers(&self) -> Readers {
            Readers::new(&self.site.database)
        }

        fn projects(&self) -> Vec<String> {
            let db = open_writer(&self.site.database, &self.site.backups, Durability::Full).unwrap();
            let mut statement = db.prepare("SELECT name FROM projects ORDER BY id").unwrap();
            statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
        }

        /// Databases, without their logs.
        fn set_aside(&self) -> Vec<String> {
            let entries = fs::read_dir(self.home.path()).unwrap();
            let names = entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
            let is_log = |name: &str| name.ends_with("-wal") || name.ends_with("-shm");
            names.filter(|name| name.contains("damaged") && !is_log(name)).collect()
        }
    }

    fn repaired(fixture: &Fixture, evidence: Evidence) -> Repair {
        match repair(&fixture.site, &fixture.readers(), evidence, "malformed", NOW).unwrap() {
            RepairOutcome::Repaired(repair) => repair,
            RepairOutcome::Sound => panic!("nothing was found"),
        }
    }

    #[test]
    fn a_backup_replaces_a_damaged_database_and_the_damaged_file_is_kept() {
        let fixture = Fixture::new(true);
        fixture.damage();
        let damaged_bytes = fs::read(&fixture.site.database).unwrap();
        let repair = repaired(&fixture, Evidence::Reported);
        assert_eq!(fixture.projects(), ["one"]);
        assert_eq!(fixture.set_aside(), ["recall.db.damaged-20261121T120000000Z"]);
        assert_eq!(fs::read(&repair.damaged).unwrap(), damaged_bytes);
        assert_eq!(repair.restored, Some(fixture.site.backups.join("daily-1.db")));
        assert_eq!(recent_repairs(&fixture.site.note, NOW), [repair]);
    }

    #[test]
    fn a_damaged_database_without_a_backup_is_replaced_by_an_empty_one() {
        let fixture = Fixture::new(false);
        fixture.damage();
        fs::write(with_suffix(&fixture.site.database, "-wal"), b"a log of before").unwrap();
        let repair = repaired(&fixture, Evidence::Proven);
        assert_eq!(repair.restored, None);
        assert_eq!(fixture.projects(), Vec::<String>::new());
        let wal = fixture.home.path().join("recall.db.damaged-20261121T120000000Z-wal");
        assert_eq!(fs::read(wal).unwrap(), b"a log of before");
    }

    #[test]
    fn a_sound_database_reported_as_damaged_is_not_replaced() {
        let fixture = Fixture::new(true);
        let outcome =
            repair(&fixture.site, &fixture.readers(), Evidence::Reported, "malformed", NOW).unwrap();
        assert_eq!(outcome, RepairOutcome::Sound);
        assert_eq!(fixture.projects(), ["one", "two"]);
        assert_eq!(recent_repairs(&fixture.site.note, NOW), []);
        let nowhere = RepairSite { database: fixture.home.path().join("x/y.db"), ..fixture.site.clone() };
        let error = repair(&nowhere, &fixture.readers(), Evidence::Reported, "", NOW).unwrap_err();
        assert!(matches!(error, RepairError::Check(_)));
    }

    #[test]
    fn the_index_cannot_continue_from_its_old_position_after_a_repair() {
        for with_backup in [true, false] {
            let fixture = Fixture::new(with_backup);
            fixture.damage();
            repaired(&fixture, Evidence::Proven);
            let db = open_writer(&fixture.site.database, &fixture.site.backups, Durability::Full).unwrap();
            assert!(!Reader(&db).log_goes_on_after(LogSeq(2)).unwrap());
            assert!(!Reader(&db).log_goes_on_after(LogSeq(0)).unwrap());
            db.execute_batch("INSERT INTO index_log (kind, row) VALUES ('observation', 1)").unwrap();
            assert!(!Reader(&db).log_goes_on_after(LogSeq(2)).unwrap());
            assert!(Reader(&db).log_goes_on_after(LogSeq(NOW.0)).unwrap());
        }
    }

    /// Covers every state that a kill between two steps can leave.
    #[test]
    fn an_interrupted_repair_is_finished() {
        for steps in 0..=3 {
            let fixture = Fixture::new(true);
            fixture.damage();
            prepare(
                &fixture.site,
                newest_good_backup(&fixture.site.backups).as_deref(),
                forgetting::Memory::default(),
                NOW,
            )
            .unwrap();
            for side in ["-wal", "-shm", ""].iter().take(steps) {
                let from = with_suffix(&fixture.site.database, side);
                move_if_there(&from, &with_suffix(&fixture.home.path().join("damaged"), side)).unwrap();
            }
            finish_repair(&fixture.site.database).unwrap();
            if steps < 3 {
                // The damaged database is still in place and will be found again.
                repaired(&fixture, Evidence::Reported);
            }
            assert_eq!(fixture.projects(), ["one"], "after {steps} steps");
            assert!(!replacement(&fixture.site.database).exists());
        }
    }

    #[test]
    fn leftover_files_of_a_killed_restore_are_removed() {
        let left = ["part", "part-wal", "part-journal", "foreign", "foreign-shm"];
        for sweep in [finish_repair, remove_damaged] {
            let fixture = Fixture::new(false);
            let names = left.map(|ending| fixture.home.path().join(format!("recall.db.restoring.{ending}")));
            names.iter().for_each(|name| fs::write(name, "forgotten").unwrap());
            sweep(&fixture.site.database).unwrap();
            assert!(names.iter().all(|name| !name.exists()), "{names:?}");
            assert_eq!(fixture.projects(), ["one", "two"]);
        }
    }

    #[test]
    fn repairs_are_reported_for_a_week_and_at_most_ten_are_kept() {
        let fixture = Fixture::new(false);
        let repair = Repair {
            at: NOW,
            why: "malformed".to_owned(),
            damaged: PathBuf::from("/d"),
            restored: None,
            restored_from: None,
            left_out: LeftOut::default(),
        };
        for day in 0..12 {
            remember(&fixture.site.note, &Repair { at: Timestamp(NOW.0 + day), ..repair.clone() });
        }
        let at = |ms: i64| recent_repairs(&fixture.site.note, Timestamp(NOW.0 + ms)).len();
        assert_eq!((at(12), at(REPORTED_FOR_MS + 5), at(REPORTED_FOR_MS + 12)), (10, 6, 0));
        fs::write(&fixture.site.note, b"[{").unwrap();
        assert_eq!(at(0), 0);
    }
}
