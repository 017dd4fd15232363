//! Reads and replaces a user's settings file.
//!
//! **Guarantees.** A reader sees the old file or the new one, never a part: the text is written to a temporary file
//! in the same folder, synced and renamed. A symlink is kept and its target replaced, because people keep settings
//! in a repository. Mode and owner are kept; a new file is private to the user.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use thiserror::Error;

/// The suffix of the only backup, which contains the settings before recall.
const BACKUP_SUFFIX: &str = ".recall-backup";
/// A larger file is not a settings file.
const MAX_BYTES: u64 = 16 * 1024 * 1024;
/// The number of symlinks that the kernel follows.
const MAX_LINKS: usize = 40;

/// Why a settings file could not be read or replaced.
#[derive(Debug, Error)]
pub(crate) enum FileError {
    #[error("cannot {action} {}", path.display())]
    Io { action: &'static str, path: PathBuf, source: io::Error },
    #[error("{} is not a regular file of at most 16 MiB", path.display())]
    NotAFile { path: PathBuf },
    /// Agents read settings as UTF-8; guessing another encoding would change bytes.
    #[error("{}: byte {offset} is not valid UTF-8", path.display())]
    NotUtf8 { path: PathBuf, offset: usize },
}

/// A settings file, which may not exist.
#[derive(Clone, Debug)]
pub(crate) struct SettingsFile {
    /// The path that the agent reads.
    path: PathBuf,
    /// The real file behind all symlinks.
    target: PathBuf,
}

impl SettingsFile {
    /// Follows the symlinks of `path`, even dangling ones.
    pub(crate) fn at(path: &Path) -> Result<Self, FileError> {
        let mut target = path.to_path_buf();
        for _ in 0..MAX_LINKS {
            let Ok(next) = fs::read_link(&target) else {
                return Ok(Self { path: path.to_path_buf(), target });
            };
            // `join` keeps an absolute link target unchanged.
            target = target.parent().unwrap_or(Path::new("")).join(next);
        }
        Err(io_error("follow the symlinks of", path)(io::Error::from(ErrorKind::InvalidInput)))
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the mode of the file if other users may write to it.
    pub(crate) fn open_mode(&self) -> Option<u32> {
        let mode = fs::metadata(&self.target).ok()?.mode() & 0o7777;
        (mode & 0o022 != 0).then_some(mode)
    }

    /// The path of the backup, beside the path that the agent reads.
    pub(crate) fn backup_path(&self) -> PathBuf {
        let mut name = self.path.file_name().unwrap_or_default().to_owned();
        name.push(BACKUP_SUFFIX);
        self.path.with_file_name(name)
    }

    /// Returns the text, or `None` if the file does not exist.
    pub(crate) fn read(&self) -> Result<Option<String>, FileError> {
        read(&self.target)
    }

    /// Returns the text of the backup, if there is one.
    pub(crate) fn read_backup(&self) -> Result<Option<String>, FileError> {
        read(&self.backup_path())
    }

    /// Replaces the file, or creates it together with its folder.
    pub(crate) fn write(&self, text: &str) -> Result<(), FileError> {
        let folder = folder_of(&self.target);
        DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(io_error("make", folder))?;
        replace(&self.target, &self.target, text)
    }

    /// Writes a program that the agent runs.
    pub(crate) fn write_program(&self, text: &str) -> Result<(), FileError> {
        self.write(text)?;
        let failed = io_error("set the mode of", &self.target);
        let mode = fs::metadata(&self.target).map(|known| known.mode() & 0o7777 | 0o700);
        mode.and_then(|mode| fs::set_permissions(&self.target, Permissions::from_mode(mode))).map_err(failed)
    }

    /// Writes `text` as the backup, with the mode of the settings.
    pub(crate) fn write_backup(&self, text: &str) -> Result<(), FileError> {
        replace(&self.backup_path(), &self.target, text)
    }

    /// Deletes a file that recall created. If it is a symlink, the target is deleted and the link stays.
    pub(crate) fn remove(&self) -> Result<(), FileError> {
        remove(&self.target)
    }

    /// Removes the folder of a deleted file, if it has recall's name and is empty.
    pub(crate) fn remove_own_folder(&self) {
        let folder = folder_of(&self.target);
        if folder.file_name().is_some_and(|name| name == "recall") {
            let _ = fs::remove_dir(folder);
        }
    }

    pub(crate) fn remove_backup(&self) -> Result<(), FileError> {
        remove(&self.backup_path())
    }
}

fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FileError {
    let path = path.to_path_buf();
    move |source| FileError::Io { action, path, source }
}

fn folder_of(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

fn read(path: &Path) -> Result<Option<String>, FileError> {
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io_error("read", path)(error)),
    };
    // Opening a pipe would block forever.
    if !metadata.is_file() || metadata.len() > MAX_BYTES {
        return Err(FileError::NotAFile { path: path.to_path_buf() });
    }
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(io_error("read", path))?;
    file.take(MAX_BYTES).read_to_end(&mut bytes).map_err(io_error("read", path))?;
    let text = String::from_utf8(bytes).map_err(|error| FileError::NotUtf8 {
        path: path.to_path_buf(),
        offset: error.utf8_error().valid_up_to(),
    })?;
    Ok(Some(text))
}

/// Writes `text` to `path`, with the mode and owner of `like` if that exists.
fn replace(path: &Path, like: &Path, text: &str) -> Result<(), FileError> {
    let folder = folder_of(path);
    let failed = |action| io_error(action, path);
    let mut temporary = tempfile::Builder::new()
        .prefix(".recall-")
        .tempfile_in(folder)
        .map_err(io_error("create a temporary file in", folder))?;
    temporary.write_all(text.as_bytes()).map_err(failed("write"))?;
    if let Ok(metadata) = fs::metadata(like) {
        let file = temporary.as_file();
        // Only root can change owners; for other users the owner is already right.
        let ours = file.metadata().map_err(failed("write"))?;
        if (ours.uid(), ours.gid()) != (metadata.uid(), metadata.gid()) {
            let _ = fchown(file, Some(metadata.uid()), Some(metadata.gid()));
        }
        let mode = Permissions::from_mode(metadata.mode() & 0o7777);
        file.set_permissions(mode).map_err(failed("set the mode of"))?;
    }
    temporary.as_file().sync_all().map_err(failed("write"))?;
    temporary.persist(path).map_err(|error| failed("replace")(error.error))?;
    // Syncs the folder; otherwise a power failure may restore the old file.
    let _ = File::open(folder).and_then(|folder| folder.sync_all());
    Ok(())
}

fn remove(path: &Path) -> Result<(), FileError> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(io_error("remove", path)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    #[test]
    fn a_new_settings_file_and_its_folder_are_private() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join(".claude/settings.json");
        let file = SettingsFile::at(&path).unwrap();
        assert_eq!(file.read().unwrap(), None);
        file.write("{}").unwrap();
        assert_eq!(file.read().unwrap().as_deref(), Some("{}"));
        assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
        file.remove().unwrap();
        file.remove().unwrap();
        assert_eq!(file.read().unwrap(), None);
    }

    #[test]
    fn writing_keeps_the_mode_and_leaves_no_temporary_file() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("settings.json");
        fs::write(&path, "before").unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o664)).unwrap();
        let file = SettingsFile::at(&path).unwrap();
        file.write_backup("before").unwrap();
        file.write("after").unwrap();
        assert_eq!((mode(&path), mode(&file.backup_path())), (0o664, 0o664));
        assert_eq!(file.read_backup().unwrap().as_deref(), Some("before"));
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 2);
    }

    #[test]
    fn a_symlink_stays_and_its_target_is_replaced() {
        let home = tempfile::tempdir().unwrap();
        let (links, dotfiles) = (home.path().join("links"), home.path().join("dotfiles"));
        fs::create_dir(&links).unwrap();
        let path = links.join("settings.json");
        symlink("middle", &path).unwrap();
        symlink(dotfiles.join("claude.json"), links.join("middle")).unwrap();
        let file = SettingsFile::at(&path).unwrap();
        file.write("dangling until now").unwrap();
        file.write("after").unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().is_symlink());
        assert_eq!(fs::read_to_string(dotfiles.join("claude.json")).unwrap(), "after");
        assert_eq!(file.backup_path(), links.join("settings.json.recall-backup"));
    }

    #[test]
    fn folders_non_utf8_files_and_symlink_loops_are_rejected() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("settings.json");
        fs::create_dir(&path).unwrap();
        assert!(matches!(SettingsFile::at(&path).unwrap().read(), Err(FileError::NotAFile { .. })));
        let path = home.path().join("latin-1.json");
        fs::write(&path, b"{\"name\": \"J\xf6rg\"}").unwrap();
        assert!(matches!(
            SettingsFile::at(&path).unwrap().read(),
            Err(FileError::NotUtf8 { offset: 11, .. })
        ));
        let path = home.path().join("loop");
        symlink("loop", &path).unwrap();
        assert!(matches!(SettingsFile::at(&path), Err(FileError::Io { .. })));
    }
}
