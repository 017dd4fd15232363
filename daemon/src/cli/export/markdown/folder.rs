//! The folder of pages. Only files that recall wrote are changed or removed: each begins with a mark that contains its
//! own name, so a copy under another name belongs to the user.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use anyhow::Context as _;

use super::names::{FOLDERS, INDEX};
use crate::cli::failure::Failure;

/// The prefix of a file that is being written.
const UNFINISHED: &str = ".recall-page-";

/// The first lines of a page.
pub(super) fn mark(name: &str) -> String {
    format!("---\nrecall: {name}\n")
}

/// The numbers of pages that were written, already the same, and removed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Written {
    pub(super) written: usize,
    pub(super) unchanged: usize,
    pub(super) removed: usize,
    /// Names of pages in whose place the user has a file.
    pub(super) foreign: Vec<String>,
}

/// What exists in a page's place.
enum Existing {
    Free,
    /// A page of recall's, with this content.
    Ours(Vec<u8>),
    Foreign,
}

/// Makes the folder contain these pages and no others of recall's.
///
/// # Errors
/// Fails when the folder or a file cannot be read or written.
pub(super) fn write(folder: &Path, pages: &BTreeMap<String, String>) -> anyhow::Result<Written> {
    make_folder(folder)?;
    let mut done = Written::default();
    for (name, text) in pages {
        let path = folder.join(name);
        match place(&path, name)? {
            Existing::Foreign => done.foreign.push(name.clone()),
            Existing::Ours(known) if known == text.as_bytes() => done.unchanged += 1,
            Existing::Ours(_) | Existing::Free => {
                write_page(&path, text)?;
                done.written += 1;
            }
        }
    }
    done.removed = remove_others(folder, pages)?;
    Ok(done)
}

fn make_folder(folder: &Path) -> anyhow::Result<()> {
    // The pages contain the memory, so they are equally private.
    DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(|error| {
        Failure::failed(format!("Cannot create the folder {}: {error}", folder.display()))
            .hint("Name a folder that you may write to.")
            .into()
    })
}

fn place(path: &Path, name: &str) -> anyhow::Result<Existing> {
    // The folder that the user named may be a symlink; those inside it are recall's.
    if name.contains('/') && path.parent().is_some_and(Path::is_symlink) {
        return Ok(Existing::Foreign);
    }
    let metadata = match fs::symlink_metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Existing::Free),
        // A file exists where the page's folder should be.
        Err(error) if error.kind() == ErrorKind::NotADirectory => return Ok(Existing::Foreign),
        Err(error) => return Err(error).with_context(|| format!("Cannot read {}", path.display())),
    };
    if !metadata.is_file() {
        return Ok(Existing::Foreign);
    }
    let mut content = Vec::new();
    let mut file = fs::File::open(path).with_context(|| format!("Cannot open {}", path.display()))?;
    file.read_to_end(&mut content).with_context(|| format!("Cannot read {}", path.display()))?;
    Ok(if content.starts_with(mark(name).as_bytes()) { Existing::Ours(content) } else { Existing::Foreign })
}

/// Writes a temporary file and renames it, so that nobody reads half a page.
fn write_page(path: &Path, text: &str) -> anyhow::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    make_folder(folder)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = folder.join(format!("{UNFINISHED}{name}"));
    let written = || -> std::io::Result<()> {
        if fs::symlink_metadata(&beside).is_ok() {
            fs::remove_file(&beside)?;
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        file.write_all(text.as_bytes())?;
        fs::rename(&beside, path)
    };
    written().map_err(|error| {
        Failure::failed(format!("Cannot write {}: {error}", path.display()))
            .hint("Free some space, or make the folder writable; then run the same command again.")
            .into()
    })
}

/// Removes recall's pages that are no longer needed. Returns their number.
fn remove_others(folder: &Path, pages: &BTreeMap<String, String>) -> anyhow::Result<usize> {
    let mut removed = 0;
    for inner in FOLDERS {
        let inner_path = folder.join(inner);
        if inner_path.is_symlink() {
            continue;
        }
        let entries = match fs::read_dir(&inner_path) {
            Ok(entries) => entries,
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => continue,
            Err(error) => return Err(error).with_context(|| format!("Cannot read {}", inner_path.display())),
        };
        for entry in entries {
            let path = entry.with_context(|| format!("Cannot read {}", inner_path.display()))?.path();
            let Some(file) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let name = format!("{inner}/{file}");
            if file.starts_with(UNFINISHED) {
                // Left behind by an interrupted run.
                remove(&path)?;
            } else if !pages.contains_key(&name) && matches!(place(&path, &name)?, Existing::Ours(_)) {
                remove(&path)?;
                removed += 1;
            }
        }
    }
    if !pages.contains_key(INDEX) && matches!(place(&folder.join(INDEX), INDEX)?, Existing::Ours(_)) {
        remove(&folder.join(INDEX))?;
        removed += 1;
    }
    Ok(removed)
}

fn remove(path: &PathBuf) -> anyhow::Result<()> {
    fs::remove_file(path).with_context(|| format!("Cannot remove {}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pages<const N: usize>(names: [&str; N]) -> BTreeMap<String, String> {
        names.into_iter().map(|name| (name.to_owned(), format!("{}---\n# {name}\n", mark(name)))).collect()
    }

    #[test]
    fn unchanged_pages_are_not_written_again_and_obsolete_pages_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("a/b");
        let all = pages(["index.md", "sessions/one.md", "days/2026-11-23.md"]);
        assert_eq!(write(&folder, &all).unwrap(), Written { written: 3, ..Written::default() });
        assert_eq!(write(&folder, &all).unwrap(), Written { unchanged: 3, ..Written::default() });
        fs::write(folder.join("sessions/.recall-page-two.md"), "half").unwrap();
        let fewer = pages(["index.md"]);
        assert_eq!(
            write(&folder, &fewer).unwrap(),
            Written { unchanged: 1, removed: 2, ..Written::default() }
        );
        assert_eq!(fs::read_dir(folder.join("sessions")).unwrap().count(), 0);
    }

    #[test]
    fn files_of_the_user_are_neither_overwritten_nor_removed() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path();
        let all = pages(["index.md", "sessions/one.md", "sessions/two.md", "threads/t.md"]);
        write(folder, &all).unwrap();
        fs::copy(folder.join("sessions/one.md"), folder.join("sessions/copy.md")).unwrap();
        fs::write(folder.join("sessions/mine.md"), "---\nrecall: no\n---\n").unwrap();
        fs::write(folder.join("index.md"), "# Mine\n").unwrap();
        fs::remove_file(folder.join("sessions/two.md")).unwrap();
        std::os::unix::fs::symlink(folder.join("index.md"), folder.join("sessions/two.md")).unwrap();
        fs::remove_dir_all(folder.join("threads")).unwrap();
        fs::write(folder.join("threads"), "a file").unwrap();
        let done = write(folder, &all).unwrap();
        assert_eq!(done.foreign, ["index.md", "sessions/two.md", "threads/t.md"]);
        let done = write(folder, &BTreeMap::new()).unwrap();
        assert_eq!(done.removed, 1, "sessions/one.md");
        for kept in ["index.md", "sessions/copy.md", "sessions/mine.md", "sessions/two.md", "threads"] {
            assert!(fs::symlink_metadata(folder.join(kept)).is_ok(), "{kept}");
        }
        assert_eq!(fs::read_to_string(folder.join("index.md")).unwrap(), "# Mine\n");
    }
}
