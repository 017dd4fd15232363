//! Opens files that an agent's JSON names. The JSON is not trusted, so a path is checked:
//!
//! - it must be below a folder known to be the agent's, without `..`, with the expected extension;
//! - the folder itself may be a symlink (people move their settings), but nothing beneath it: every step is opened
//!   relative to the one before, without following links, so nobody can swap a part in between;
//! - only regular files of our own user are opened. Opening does not block on a FIFO;
//! - reading is bounded, whatever the file's length.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use rustix::fs::Mode;

use recall_system::trusted_file::{FILE, FOLDER, step};

/// Why a file is not read.
#[derive(Debug, thiserror::Error)]
pub enum RefusedFile {
    #[error("it is outside the agent's folders")]
    Elsewhere,
    #[error("its name does not end in .{0}")]
    Extension(&'static str),
    #[error("it is not a regular file")]
    NotAFile,
    #[error("it belongs to user {0}")]
    Foreign(u32),
    #[error("it cannot be opened: {0}")]
    Io(#[from] io::Error),
}

/// Opens `path`, which must be below one of `folders`.
///
/// # Errors
/// The path or the file breaks one of the module's rules.
pub fn open(folders: &[PathBuf], path: &Path, extension: &'static str) -> Result<File, RefusedFile> {
    if path.extension() != Some(OsStr::new(extension)) {
        return Err(RefusedFile::Extension(extension));
    }
    let (folder, rest) = folders
        .iter()
        .find_map(|folder| Some((folder, path.strip_prefix(folder).ok()?)))
        .ok_or(RefusedFile::Elsewhere)?;
    let mut names = Vec::new();
    for component in rest.components() {
        match component {
            Component::Normal(name) => names.push(name),
            _ => return Err(RefusedFile::Elsewhere),
        }
    }
    let last = names.pop().ok_or(RefusedFile::Elsewhere)?;
    let mut at = rustix::fs::open(folder, FOLDER, Mode::empty()).map_err(io::Error::from)?;
    for name in names {
        at = step(&at, name, FOLDER)?;
    }
    let file = File::from(step(&at, last, FILE)?);
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(RefusedFile::NotAFile);
    }
    if found.uid() != rustix::process::geteuid().as_raw() {
        return Err(RefusedFile::Foreign(found.uid()));
    }
    Ok(file)
}

/// The last `most` bytes of a file, or all of a shorter one.
pub fn tail(file: &mut File, most: u64) -> io::Result<Vec<u8>> {
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
    let mut bytes = Vec::new();
    // The file may grow meanwhile.
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    struct Home {
        folder: tempfile::TempDir,
    }

    impl Home {
        fn new() -> Self {
            let folder = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(folder.path().join("agent/projects/shop")).unwrap();
            std::fs::write(folder.path().join("agent/projects/shop/s.jsonl"), "inside").unwrap();
            std::fs::write(folder.path().join("secret.jsonl"), "secret").unwrap();
            Self { folder }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn open(&self, path: &Path) -> Result<File, RefusedFile> {
            open(&[self.path("agent/projects")], path, "jsonl")
        }

        fn read(&self, name: &str) -> String {
            let mut file = self.open(&self.path(name)).unwrap();
            String::from_utf8(tail(&mut file, 1000).unwrap()).unwrap()
        }
    }

    #[test]
    fn the_end_of_a_file_in_the_agents_folder_is_read() {
        let home = Home::new();
        assert_eq!(home.read("agent/projects/shop/s.jsonl"), "inside");
        let mut file = home.open(&home.path("agent/projects/shop/s.jsonl")).unwrap();
        assert_eq!(tail(&mut file, 4).unwrap(), b"side");
        // The agent's folder may be a symlink.
        symlink(home.path("agent"), home.path("linked")).unwrap();
        let linked = home.path("linked/projects");
        assert!(open(std::slice::from_ref(&linked), &linked.join("shop/s.jsonl"), "jsonl").is_ok());
    }

    #[test]
    fn links_special_files_and_paths_outside_the_folder_are_refused() {
        let home = Home::new();
        let shop = home.path("agent/projects/shop");
        symlink(home.path("secret.jsonl"), shop.join("link.jsonl")).unwrap();
        symlink(home.path(""), home.path("agent/projects/away")).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            shop.join("fifo.jsonl"),
            rustix::fs::FileType::Fifo,
            Mode::RWXU,
            0,
        )
        .unwrap();
        std::fs::create_dir(shop.join("folder.jsonl")).unwrap();
        std::fs::write(shop.join("notes.txt"), "x").unwrap();
        for wish in [
            shop.join("../../../secret.jsonl"),
            shop.join("link.jsonl"),
            home.path("agent/projects/away/secret.jsonl"),
            shop.join("fifo.jsonl"),
            shop.join("folder.jsonl"),
            shop.join("notes.txt"),
            shop.join("none.jsonl"),
            home.path("secret.jsonl"),
            home.path("agent/projects"),
            PathBuf::from("/proc/self/environ"),
            PathBuf::from("/proc/self/fd/0.jsonl"),
            PathBuf::from("agent/projects/shop/s.jsonl"),
            PathBuf::from(""),
        ] {
            assert!(home.open(&wish).is_err(), "{}", wish.display());
        }
    }

    #[test]
    fn a_folder_swapped_for_a_symlink_while_opening_is_not_followed() {
        let home = Home::new();
        let (shop, kept) = (home.path("agent/projects/shop"), home.path("agent/projects/kept"));
        std::fs::create_dir(home.path("outside")).unwrap();
        std::fs::write(home.path("outside/s.jsonl"), "secret").unwrap();
        let over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !over.load(Ordering::Relaxed) {
                    std::fs::rename(&shop, &kept).unwrap();
                    symlink(home.path("outside"), &shop).unwrap();
                    std::fs::remove_file(&shop).unwrap();
                    std::fs::rename(&kept, &shop).unwrap();
                }
            });
            for _ in 0..2_000 {
                if let Ok(mut file) = home.open(&shop.join("s.jsonl")) {
                    assert_eq!(tail(&mut file, 100).unwrap(), b"inside");
                }
            }
            over.store(true, Ordering::Relaxed);
        });
    }
}
