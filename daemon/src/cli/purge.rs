//! `recall uninstall --purge`: deletes the memory. Otherwise tells its size and where it stays.
//!
//! Only recall's own files are deleted, because a user may have given recall a folder with other files in it.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use recall_protocol::paths::Paths;

use super::failure::Failure;
use crate::server::instance::Instance;

/// Prefixes of the names of recall's own files.
const OWN: [&str; 17] = [
    "recall.",
    "device.json",
    "teams",
    "index",
    "vectors",
    "models",
    "backups",
    "spool",
    "log",
    "daemon-start",
    "pauses.json",
    "clock.json",
    "last-config.json",
    "repairs.json",
    "welcome",
    "dropped",
    "gateway.json",
];
/// How long a daemon may take to stop.
const STOPPED_WITHIN: Duration = Duration::from_secs(20);
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Returns the size of the memory in bytes, with its backups and waiting events.
pub(super) fn size(paths: &Paths) -> u64 {
    folders(paths).iter().map(|folder| size_of(folder)).sum()
}

/// Deletes the memory. Returns the folders that stay because they contain other files.
///
/// # Errors
/// Fails when a daemon is using the memory, or a file cannot be deleted.
pub(super) fn delete(paths: &Paths) -> anyhow::Result<Vec<PathBuf>> {
    if !paths.data_dir().is_dir() && !paths.state_dir().is_dir() {
        return Ok(Vec::new());
    }
    let _alone = if paths.data_dir().is_dir() { Some(alone(paths)?) } else { None };
    let mut left = Vec::new();
    for folder in folders(paths) {
        let emptied = empty(&folder);
        emptied.map_err(|error| {
            Failure::failed(format!("Cannot completely delete {}: {error}", folder.display()))
                .hint("Delete the rest of this folder yourself.")
        })?;
        if folder.is_dir() && fs::remove_dir(&folder).is_err() {
            left.push(folder);
        }
    }
    Ok(left)
}

fn folders(paths: &Paths) -> Vec<PathBuf> {
    let mut folders = vec![paths.data_dir(), paths.state_dir(), paths.runtime_dir()];
    folders.dedup();
    folders.into_iter().map(Path::to_owned).collect()
}

/// Takes the daemon's lock, so that none starts in the meantime.
fn alone(paths: &Paths) -> anyhow::Result<Instance> {
    let deadline = Instant::now() + STOPPED_WITHIN;
    loop {
        match Instance::claim(&paths.lock_file()) {
            Ok(instance) => return Ok(instance),
            Err(_) if Instant::now() < deadline => std::thread::sleep(LOOK_EVERY),
            Err(error) => {
                return Err(Failure::failed(format!("The memory was not deleted: {error}"))
                    .hint(
                        "Stop the daemon with `recall ctl stop`, then run `recall uninstall --purge` again.",
                    )
                    .into());
            }
        }
    }
}

/// Deletes recall's files in a folder. A symlink is deleted, but not its target.
fn empty(folder: &Path) -> io::Result<()> {
    for entry in entries(folder)? {
        let name = entry.file_name();
        if !OWN.iter().any(|own| name.to_string_lossy().starts_with(own)) {
            continue;
        }
        let deleted = match entry.file_type()?.is_dir() {
            true => fs::remove_dir_all(entry.path()),
            false => fs::remove_file(entry.path()),
        };
        match deleted {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Empty if there is no such folder.
fn entries(folder: &Path) -> io::Result<Vec<fs::DirEntry>> {
    match fs::read_dir(folder) {
        Ok(entries) => entries.collect(),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn size_of(folder: &Path) -> u64 {
    let entries = entries(folder).unwrap_or_default();
    entries
        .iter()
        .map(|entry| match entry.metadata() {
            Ok(found) if found.is_dir() => size_of(&entry.path()),
            Ok(found) => found.len(),
            Err(_) => 0,
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_files_written_by_recall_are_deleted() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().as_os_str().to_owned();
        let paths = Paths::from_variables(&|name| (name == "RECALL_HOME").then(|| folder.clone())).unwrap();
        assert_eq!((size(&paths), delete(&paths).unwrap()), (0, Vec::new()));
        paths.create_folders().unwrap();
        fs::create_dir_all(paths.backups_dir()).unwrap();
        fs::create_dir_all(paths.spool_dir().join("new")).unwrap();
        for file in [paths.database(), paths.backups_dir().join("daily.db"), paths.config_file().to_owned()] {
            fs::write(file, "12345").unwrap();
        }
        fs::write(paths.state_dir().join("welcome"), "1").unwrap();
        fs::write(paths.data_dir().join("thesis.odt"), "mine").unwrap();
        let outside = home.path().join("outside");
        fs::create_dir(&outside).unwrap();
        fs::write(outside.join("kept"), "").unwrap();
        std::os::unix::fs::symlink(&outside, paths.vectors_dir()).unwrap();
        assert!(size(&paths) >= 15, "{}", size(&paths));

        assert_eq!(delete(&paths).unwrap(), [paths.data_dir()]);
        assert_eq!(fs::read_dir(paths.data_dir()).unwrap().count(), 1, "the user's own file stays");
        assert!(outside.join("kept").exists() && paths.config_file().exists());
        assert!(!paths.state_dir().exists());
    }
}
