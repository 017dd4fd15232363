//! Checks whether a repository contains a commit by reading its files: loose objects and packs (gitformat-pack(5)). A
//! name proves nothing, whether it is a ref or an object's file name: the content must have that hash. Borrowed
//! objects and objects behind links do not count.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use miniz_oxide::inflate::decompress_to_vec_zlib_with_limit;
use sha1::Sha1;
use sha2::{Digest, Sha256};

use recall_domain::ids::CommitId;
use recall_system::trusted_file::Folder;

/// The maximum number of packs that are searched. Git itself keeps far fewer.
const MOST_PACKS: usize = 300;
/// The size limit of a commit's text, which is usually a few hundred bytes.
const MOST_BYTES: usize = 64 * 1024;
/// The maximum length of a delta chain. Git creates chains of at most 50 by default.
const MOST_DELTAS: u32 = 64;

/// Whether a folder of objects contains this commit. Unreadable objects do not count.
pub(super) fn holds(objects: &Folder, id: &CommitId) -> bool {
    commit(objects, id).is_some()
}

/// Whether a folder of objects contains this commit, and it is not the first one of a history.
pub(super) fn holds_later(objects: &Folder, id: &CommitId) -> bool {
    // The parents are in the header, which ends with an empty line.
    let has_parent = |object: Vec<u8>| {
        let mut header = object.split(|byte| *byte == b'\n').take_while(|line| !line.is_empty());
        header.any(|line| line.starts_with(b"parent "))
    };
    commit(objects, id).is_some_and(has_parent)
}

/// Reads the commit, including its header.
fn commit(objects: &Folder, id: &CommitId) -> Option<Vec<u8>> {
    let hash = bytes_of(id)?;
    let found = loose(objects, id).or_else(|| packed(objects, &hash));
    found.filter(|object| is_commit(object, &hash))
}

fn bytes_of(id: &CommitId) -> Option<Vec<u8>> {
    let digits = id.as_str().as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Whether an object, including its header, is a commit with this hash.
fn is_commit(object: &[u8], hash: &[u8]) -> bool {
    object.starts_with(b"commit ")
        && match hash.len() {
            20 => Sha1::digest(object).as_slice() == hash,
            32 => Sha256::digest(object).as_slice() == hash,
            _ => false,
        }
}

fn loose(objects: &Folder, id: &CommitId) -> Option<Vec<u8>> {
    let (folder, name) = id.as_str().split_at_checked(2)?;
    let file = objects.file(&Path::new(folder).join(name)).ok()?;
    let mut deflated = Vec::new();
    file.take(deflated_bytes(MOST_BYTES)).read_to_end(&mut deflated).ok()?;
    decompress_to_vec_zlib_with_limit(&deflated, MOST_BYTES).ok()
}

fn packed(objects: &Folder, hash: &[u8]) -> Option<Vec<u8>> {
    let packs = objects.folder(Path::new("pack")).ok()?;
    let indexes = packs.names().map(PathBuf::from);
    let indexes = indexes.filter(|name| name.extension().is_some_and(|it| it == "idx"));
    let (name, index, offset) = indexes.take(MOST_PACKS).find_map(|name| {
        let index = Index::open(packs.file(&name).ok()?, hash.len())?;
        index.offset_of(hash).map(|offset| (name, index, offset))
    })?;
    let pack = Pack { file: packs.file(&name.with_extension("pack")).ok()?, index };
    let text = pack.commit_at(offset)?;
    Some([format!("commit {}\0", text.len()).as_bytes(), &text].concat())
}

/// An upper bound for the deflated size of a text of this length.
fn deflated_bytes(length: usize) -> u64 {
    (length + length / 256 + 1024) as u64
}

/// The index of a pack, version 2: a fan-out table, the sorted names, a checksum for each name, and each object's
/// offset in the pack.
struct Index {
    file: File,
    /// The number of bytes per name.
    width: u64,
    objects: u64,
}

impl Index {
    const MAGIC: [u8; 8] = [0xff, b't', b'O', b'c', 0, 0, 0, 2];
    const TABLE: u64 = 8;
    const NAMES: u64 = Self::TABLE + 256 * 4;

    fn open(file: File, width: usize) -> Option<Self> {
        if bytes_at::<8>(&file, 0)? != Self::MAGIC {
            return None;
        }
        let objects = number_at(&file, Self::NAMES - 4)?;
        Some(Self { file, width: width as u64, objects })
    }

    /// The offset of an object in the pack.
    fn offset_of(&self, hash: &[u8]) -> Option<u64> {
        let offsets = Self::NAMES + self.objects * (self.width + 4);
        let offset = number_at(&self.file, offsets + self.place_of(hash)? * 4)?;
        match offset.checked_sub(1 << 31) {
            None => Some(offset),
            // The offset does not fit into four bytes, so this is the index of an eight-byte offset.
            Some(large) => {
                Some(u64::from_be_bytes(bytes_at(&self.file, offsets + self.objects * 4 + large * 8)?))
            }
        }
    }

    /// The position of the name in the index.
    fn place_of(&self, hash: &[u8]) -> Option<u64> {
        let first = u64::from(*hash.first()?);
        let mut low = if first == 0 { 0 } else { number_at(&self.file, Self::TABLE + (first - 1) * 4)? };
        let mut high = number_at(&self.file, Self::TABLE + first * 4)?;
        let mut found = vec![0; hash.len()];
        while low < high {
            let middle = low + (high - low) / 2;
            self.file.read_exact_at(&mut found, Self::NAMES + middle * self.width).ok()?;
            match found.as_slice().cmp(hash) {
                std::cmp::Ordering::Equal => return Some(middle),
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
            }
        }
        None
    }
}

struct Pack {
    file: File,
    index: Index,
}

impl Pack {
    /// The text of the commit at this offset. `None` if the object is of a different type.
    fn commit_at(&self, mut offset: u64) -> Option<Vec<u8>> {
        let mut deltas = Vec::new();
        for _ in 0..=MOST_DELTAS {
            let entry = Entry::read(&self.file, offset, self.index.width)?;
            let content = self.inflated(offset + entry.header, entry.length)?;
            offset = match entry.kind {
                Kind::Commit => {
                    return deltas
                        .iter()
                        .rev()
                        .try_fold(content, |base, delta: &Vec<u8>| apply(&base, delta));
                }
                Kind::DeltaTo(distance) => offset.checked_sub(distance)?,
                Kind::DeltaOf(base) => self.index.offset_of(&base)?,
            };
            deltas.push(content);
        }
        None
    }

    fn inflated(&self, offset: u64, length: usize) -> Option<Vec<u8>> {
        let most = usize::try_from(deflated_bytes(length)).ok()?;
        let deflated = read_at(&self.file, offset, most)?;
        decompress_to_vec_zlib_with_limit(&deflated, length).ok().filter(|content| content.len() == length)
    }
}

/// The header of an object in a pack.
struct Entry {
    kind: Kind,
    /// The size of the inflated data.
    length: usize,
    /// The size of the header in bytes.
    header: u64,
}

enum Kind {
    Commit,
    /// A delta whose base is this many bytes before it.
    DeltaTo(u64),
    /// A delta whose base has this name.
    DeltaOf(Vec<u8>),
}

impl Entry {
    fn read(pack: &File, offset: u64, width: u64) -> Option<Self> {
        let bytes = read_at(pack, offset, 64)?;
        let mut rest = bytes.iter();
        let mut byte = *rest.next()?;
        let (kind, mut length, mut shift) = ((byte >> 4) & 7, u64::from(byte & 15), 4);
        while byte & 0x80 != 0 {
            byte = *rest.next()?;
            length |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
        }
        let kind = match kind {
            1 => Kind::Commit,
            6 => {
                byte = *rest.next()?;
                let mut distance = u64::from(byte & 0x7f);
                while byte & 0x80 != 0 {
                    byte = *rest.next()?;
                    distance = distance.checked_add(1)?.checked_mul(128)? | u64::from(byte & 0x7f);
                }
                // The base must be before the delta; otherwise the lookup might not terminate.
                Kind::DeltaTo(Some(distance).filter(|distance| *distance > 0)?)
            }
            7 => Kind::DeltaOf(rest.by_ref().take(usize::try_from(width).ok()?).copied().collect()),
            _ => return None,
        };
        let length = usize::try_from(length).ok().filter(|length| *length <= MOST_BYTES)?;
        Some(Self { kind, length, header: (bytes.len() - rest.len()) as u64 })
    }
}

/// Applies a delta to its base, by copying parts of the base and inserting new data.
fn apply(base: &[u8], delta: &[u8]) -> Option<Vec<u8>> {
    let mut rest = delta.iter().copied();
    let mut number = || {
        let (mut value, mut shift) = (0_u64, 0);
        loop {
            let byte = rest.next()?;
            value |= u64::from(byte & 0x7f).checked_shl(shift)?;
            shift += 7;
            if byte & 0x80 == 0 {
                return usize::try_from(value).ok();
            }
        }
    };
    let (from, to) = (number()?, number()?);
    if from != base.len() || to > MOST_BYTES {
        return None;
    }
    let mut made = Vec::with_capacity(to);
    while let Some(order) = rest.next() {
        if order & 0x80 == 0 {
            let wanted = made.len() + usize::from(order);
            made.extend(rest.by_ref().take(order.into()));
            if order == 0 || made.len() != wanted {
                return None;
            }
            continue;
        }
        let mut field = |bits: std::ops::Range<u32>| {
            let mut value = 0_usize;
            for (place, bit) in bits.enumerate() {
                if order & (1 << bit) != 0 {
                    value |= usize::from(rest.next()?) << (place * 8);
                }
            }
            Some(value)
        };
        let (start, length) = (field(0..4)?, field(4..7)?);
        let length = if length == 0 { 0x1_0000 } else { length };
        made.extend_from_slice(base.get(start..start.checked_add(length)?)?);
        if made.len() > to {
            return None;
        }
    }
    (made.len() == to).then_some(made)
}

/// Reads at most this many bytes, starting at this offset.
fn read_at(file: &File, offset: u64, most: usize) -> Option<Vec<u8>> {
    let mut bytes = vec![0; most];
    let mut filled = 0;
    while let Some(free) = bytes.get_mut(filled..).filter(|free| !free.is_empty()) {
        match file.read_at(free, offset.checked_add(filled as u64)?).ok()? {
            0 => break,
            more => filled += more,
        }
    }
    bytes.truncate(filled);
    Some(bytes)
}

fn bytes_at<const COUNT: usize>(file: &File, offset: u64) -> Option<[u8; COUNT]> {
    let mut bytes = [0; COUNT];
    file.read_exact_at(&mut bytes, offset).ok()?;
    Some(bytes)
}

fn number_at(file: &File, offset: u64) -> Option<u64> {
    bytes_at(file, offset).map(u32::from_be_bytes).map(u64::from)
}

#[cfg(test)]
pub(crate) mod tests {
    use std::fs;

    use miniz_oxide::deflate::compress_to_vec_zlib;

    use super::*;

    fn name_of(object: &[u8]) -> CommitId {
        CommitId(Sha1::digest(object).iter().map(|byte| format!("{byte:02x}")).collect())
    }

    fn object(kind: &str, text: &str) -> Vec<u8> {
        format!("{kind} {}\0{text}", text.len()).into_bytes()
    }

    /// Writes a loose object under its own or another name.
    fn write_loose(objects: &Path, name: &CommitId, object: &[u8]) {
        let (folder, rest) = name.as_str().split_at(2);
        fs::create_dir_all(objects.join(folder)).unwrap();
        fs::write(objects.join(folder).join(rest), compress_to_vec_zlib(object, 6)).unwrap();
    }

    /// Writes a loose commit with this text and returns its name.
    pub(crate) fn write_commit(objects: &Path, text: &str) -> CommitId {
        let object = object("commit", text);
        let name = name_of(&object);
        write_loose(objects, &name, &object);
        name
    }

    /// The header of an object in a pack.
    fn header(kind: u8, length: usize) -> Vec<u8> {
        assert!(length < 1 << 11);
        vec![0x80 | (kind << 4) | (length & 15) as u8, (length >> 4) as u8]
    }

    /// Writes a pack with a commit, a delta of it by offset, a delta of that by name, and a blob; with its index.
    fn pack(folder: &Path, texts: [&str; 3], blob: &str) -> [CommitId; 4] {
        let names = texts.map(|text| name_of(&object("commit", text)));
        // Copies all of the base, then adds new data.
        let delta = |base: &str, text: &str| {
            let added = text.strip_prefix(base).unwrap();
            let mut delta = vec![base.len() as u8, text.len() as u8, 0x80 | 0x10, base.len() as u8];
            delta.push(added.len() as u8);
            delta.extend(added.bytes());
            delta
        };
        let mut pack = b"PACK\0\0\0\x02\0\0\0\x04".to_vec();
        let mut offsets = Vec::new();
        let [first, second, third] = texts;
        offsets.push(pack.len());
        pack.extend(header(1, first.len()));
        pack.extend(compress_to_vec_zlib(first.as_bytes(), 6));
        offsets.push(pack.len());
        let by_distance = delta(first, second);
        pack.extend(header(6, by_distance.len()));
        pack.push((offsets[1] - offsets[0]) as u8);
        pack.extend(compress_to_vec_zlib(&by_distance, 6));
        offsets.push(pack.len());
        let by_name = delta(second, third);
        pack.extend(header(7, by_name.len()));
        pack.extend(bytes_of(&names[1]).unwrap());
        pack.extend(compress_to_vec_zlib(&by_name, 6));
        offsets.push(pack.len());
        pack.extend(header(3, blob.len()));
        pack.extend(compress_to_vec_zlib(blob.as_bytes(), 6));
        let [one, two, three] = names.clone();
        let names = [one, two, three, name_of(&object("blob", blob))];
        fs::write(folder.join("a.pack"), pack).unwrap();
        let lies: Vec<_> = names.iter().zip(offsets).map(|(name, at)| (name.clone(), at as u32)).collect();
        fs::write(folder.join("a.idx"), index(&lies)).unwrap();
        names
    }

    fn index(lies: &[(CommitId, u32)]) -> Vec<u8> {
        let mut lies: Vec<_> = lies.iter().map(|(name, at)| (bytes_of(name).unwrap(), at)).collect();
        lies.sort();
        let mut index = Index::MAGIC.to_vec();
        for first in 0..=255_u8 {
            let up_to = lies.iter().filter(|(name, _)| name[0] <= first).count() as u32;
            index.extend(up_to.to_be_bytes());
        }
        lies.iter().for_each(|(name, _)| index.extend(name));
        lies.iter().for_each(|_| index.extend([0; 4]));
        lies.iter().for_each(|(_, at)| index.extend(at.to_be_bytes()));
        index
    }

    fn holds(folder: &Path, id: &CommitId) -> bool {
        Folder::open(folder).is_ok_and(|objects| super::holds(&objects, id))
    }

    #[test]
    fn loose_and_packed_commits_are_found_and_blobs_are_not() {
        let home = tempfile::tempdir().unwrap();
        let objects = home.path().join("objects");
        fs::create_dir_all(objects.join("pack")).unwrap();
        let loose = write_commit(&objects, "tree 1\n\nloose");
        let [one, two, three, blob] =
            pack(&objects.join("pack"), ["one", "one two", "one two three"], "blob");
        for commit in [&loose, &one, &two, &three] {
            assert!(holds(&objects, commit), "{commit:?}");
        }
        // A blob proves nothing, because others may have the same file.
        assert!(!holds(&objects, &blob));
        let empty = object("blob", "");
        write_loose(&objects, &name_of(&empty), &empty);
        assert!(!holds(&objects, &name_of(&empty)));
    }

    #[test]
    fn a_commit_whose_content_does_not_match_its_name_is_not_found() {
        let home = tempfile::tempdir().unwrap();
        let objects = home.path().join("objects");
        fs::create_dir_all(objects.join("pack")).unwrap();
        let wanted = name_of(&object("commit", "of somebody else"));
        write_loose(&objects, &wanted, &object("commit", "made up"));
        assert!(!holds(&objects, &wanted));
        let (folder, rest) = wanted.as_str().split_at(2);
        for content in [&b""[..], b"no zlib"] {
            fs::write(objects.join(folder).join(rest), content).unwrap();
            assert!(!holds(&objects, &wanted));
        }
        fs::remove_dir_all(objects.join(folder)).unwrap();
        // An index without its pack, one whose pack has something else, and one with a cycle.
        fs::write(objects.join("pack/x.idx"), index(&[(wanted.clone(), 0)])).unwrap();
        assert!(!holds(&objects, &wanted));
        let mut circle = header(7, 1);
        circle.extend(bytes_of(&wanted).unwrap());
        circle.extend(compress_to_vec_zlib(b"x", 6));
        let mut other = header(1, 5);
        other.extend(compress_to_vec_zlib(b"other", 6));
        for pack in [circle, other, Vec::new(), vec![0xff; 100]] {
            fs::write(objects.join("pack/x.pack"), pack).unwrap();
            assert!(!holds(&objects, &wanted));
        }
        assert!(!holds(&objects, &CommitId("é".repeat(20))) && !holds(&home.path().join("nowhere"), &wanted));
    }

    #[test]
    fn borrowed_and_symlinked_git_objects_are_ignored() {
        let home = tempfile::tempdir().unwrap();
        let (objects, lender) = (home.path().join("objects"), home.path().join("lender"));
        fs::create_dir_all(objects.join("pack")).unwrap();
        fs::create_dir_all(objects.join("info")).unwrap();
        fs::create_dir_all(lender.join("pack")).unwrap();
        let loose = write_commit(&lender, "loose");
        let [packed, ..] = pack(&lender.join("pack"), ["one", "one two", "one two three"], "blob");
        let link = |target: PathBuf, name: PathBuf| std::os::unix::fs::symlink(target, name).unwrap();
        fs::write(objects.join("info/alternates"), "../lender\n").unwrap();
        let (folder, _) = loose.as_str().split_at(2);
        link(lender.join(folder), objects.join(folder));
        for name in ["a.idx", "a.pack"] {
            link(lender.join("pack").join(name), objects.join("pack").join(name));
        }
        link(lender.clone(), home.path().join("link"));
        for commit in [&loose, &packed] {
            assert!(holds(&lender, commit));
            assert!(!holds(&objects, commit) && !holds(&home.path().join("link"), commit));
        }
    }

    proptest::proptest! {
        #[test]
        fn corrupt_packs_cause_no_panic_and_deltas_stay_within_the_limit(
            place in 0..200_usize, byte in proptest::num::u8::ANY, base in ".{0,80}",
            delta in proptest::collection::vec(proptest::num::u8::ANY, 0..40),
        ) {
            let made = apply(base.as_bytes(), &delta);
            proptest::prop_assert!(made.is_none_or(|made| made.len() <= MOST_BYTES));
            let home = tempfile::tempdir().unwrap();
            let objects = home.path().join("objects");
            fs::create_dir_all(objects.join("pack")).unwrap();
            let names = pack(&objects.join("pack"), ["one", "one two", "one two three"], "blob");
            for name in ["a.pack", "a.idx"] {
                let path = objects.join("pack").join(name);
                let mut bytes = fs::read(&path).unwrap();
                // In the index, also the bytes after the table.
                let at = if name == "a.idx" { bytes.len() - 1 - place } else { place % bytes.len() };
                bytes[at] = byte;
                fs::write(&path, bytes).unwrap();
                let _ = names.iter().filter(|name| holds(&objects, name)).count();
            }
        }
    }
}
