//! Whether a repository holds an object, read from its files: loose ones, and the indexes of its packs. What it borrows
//! from elsewhere, or reaches through a link, is not its own.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::open_plain;
use crate::memory::ids::CommitId;

/// Packs that are looked into; git itself keeps far fewer.
const MOST_PACKS: usize = 300;

/// Whether the object of this hash lies in a folder of objects. What cannot be read does not hold it.
pub fn holds(objects: &Path, id: &CommitId) -> bool {
    let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|it| it.is_dir());
    let Some((folder, name)) = id.as_str().split_at_checked(2) else { return false };
    if !is_folder(objects) {
        return false;
    }
    let loose = objects.join(folder);
    if is_folder(&loose) && fs::symlink_metadata(loose.join(name)).is_ok_and(|it| it.is_file()) {
        return true;
    }
    let (packs, Some(hash)) = (objects.join("pack"), bytes_of(id)) else { return false };
    if !is_folder(&packs) {
        return false;
    }
    let files = fs::read_dir(packs).into_iter().flatten().flatten().map(|entry| entry.path());
    let indexes = files.filter(|path: &PathBuf| path.extension().is_some_and(|it| it == "idx"));
    indexes.take(MOST_PACKS).any(|path| is_indexed(&path, &hash).unwrap_or(false))
}

fn bytes_of(id: &CommitId) -> Option<Vec<u8>> {
    let digits = id.as_str().as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Looks a hash up in a pack's index of version 2 (gitformat-pack(5)): a table of how many hashes begin with at most
/// each byte, then the hashes in order.
fn is_indexed(path: &Path, hash: &[u8]) -> Option<bool> {
    const MAGIC: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];
    const TABLE: u64 = 8;
    const HASHES: u64 = TABLE + 256 * 4;
    let file = open_plain(path, OFlags::NOFOLLOW)?;
    let mut magic = [0; 8];
    file.read_exact_at(&mut magic, 0).ok()?;
    if magic != MAGIC {
        return None;
    }
    let first = u64::from(*hash.first()?);
    let mut low = if first == 0 { 0 } else { number_at(&file, TABLE + (first - 1) * 4)? };
    let mut high = number_at(&file, TABLE + first * 4)?;
    let mut found = vec![0; hash.len()];
    while low < high {
        let middle = low + (high - low) / 2;
        file.read_exact_at(&mut found, HASHES + middle * hash.len() as u64).ok()?;
        match found.as_slice().cmp(hash) {
            std::cmp::Ordering::Equal => return Some(true),
            std::cmp::Ordering::Less => low = middle + 1,
            std::cmp::Ordering::Greater => high = middle,
        }
    }
    Some(false)
}

fn number_at(file: &File, offset: u64) -> Option<u64> {
    let mut bytes = [0; 4];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(u32::from_be_bytes(bytes).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> CommitId {
        CommitId(format!("{byte:02x}").repeat(20))
    }

    /// The index of a pack that holds these objects.
    fn index(bytes: &[u8]) -> Vec<u8> {
        let mut index = vec![0xff, b't', b'O', b'c', 0, 0, 0, 2];
        for first in 0..=255_u8 {
            let up_to = bytes.iter().filter(|byte| **byte <= first).count();
            index.extend(u32::try_from(up_to).unwrap().to_be_bytes());
        }
        bytes.iter().for_each(|byte| index.extend([*byte; 20]));
        index
    }

    #[test]
    fn objects_lie_loose_or_in_packs_and_nowhere_else() {
        let home = tempfile::tempdir().unwrap();
        let (objects, lender) = (home.path().join("objects"), home.path().join("lender"));
        for folder in ["pack", "info", "aa"] {
            fs::create_dir_all(objects.join(folder)).unwrap();
        }
        fs::create_dir_all(lender.join("pack")).unwrap();
        fs::create_dir_all(lender.join("bb")).unwrap();
        fs::write(objects.join("aa").join("aa".repeat(19)), "").unwrap();
        fs::write(objects.join("pack/a.idx"), index(&[0, 1, 7, 0x80, 0xff])).unwrap();
        fs::write(objects.join("pack/bad.idx"), "no index").unwrap();
        // By saying that they are borrowed, and through links.
        fs::write(lender.join("pack/b.idx"), index(&[9])).unwrap();
        fs::write(lender.join("bb").join("bb".repeat(19)), "").unwrap();
        fs::write(objects.join("info/alternates"), "../lender\n").unwrap();
        std::os::unix::fs::symlink(lender.join("pack/b.idx"), objects.join("pack/b.idx")).unwrap();
        std::os::unix::fs::symlink(lender.join("bb"), objects.join("bb")).unwrap();
        for byte in [0, 1, 7, 0x80, 0xaa, 0xff] {
            assert!(holds(&objects, &id(byte)), "{byte}");
        }
        for byte in [2, 9, 0xbb, 0xfe] {
            assert!(!holds(&objects, &id(byte)), "{byte}");
        }
        std::os::unix::fs::symlink(&lender, home.path().join("link")).unwrap();
        assert!(holds(&lender, &id(9)) && !holds(&home.path().join("link"), &id(9)));
        assert!(!holds(&home.path().join("nowhere"), &id(1)));
    }
}
