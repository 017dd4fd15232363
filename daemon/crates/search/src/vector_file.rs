//! A file of vectors, mapped into memory. Searches read vectors from the system's page cache, so the program's own
//! memory does not grow.
//!
//! A file is written under a temporary name and renamed once it is complete. After that nobody writes to it, and a new
//! version gets a new name. So mapped data never changes, as mapping requires. tantivy does the mapping, as for the
//! index files.

use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::path::Path;

use tantivy::directory::{Directory, MmapDirectory, OwnedBytes};

use recall_domain::document::DocumentKey;
use recall_domain::ids::VectorId;
use recall_domain::passage::PassageKey;
use recall_embedding::ModelHash;

use super::vector_record::{record_bytes, records_of};

const MAGIC: [u8; 8] = *b"rcvecs01";
/// The length of the header: magic bytes, model and dimensions.
const HEADER: usize = 8 + 32 + 4;
/// The length of the trailer: the checksum of everything before it.
const TRAILER: usize = 4;

/// Why a vector file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum VectorFileError {
    #[error("cannot read a vector file: {0}")]
    Io(#[from] io::Error),
    #[error("cannot map a vector file: {0}")]
    Map(String),
    #[error("a vector file is damaged or belongs to another model")]
    Damaged,
}

/// A mapped file.
pub struct VectorFile {
    bytes: OwnedBytes,
    dimensions: usize,
}

impl VectorFile {
    /// Maps a file. Does not verify its checksum, which would read the whole file.
    ///
    /// # Errors
    /// Fails when the file is missing, cannot be mapped, or has an invalid header or end.
    pub fn open(folder: &Path, name: &str, model: ModelHash) -> Result<Self, VectorFileError> {
        let failed = |error: &dyn std::fmt::Display| VectorFileError::Map(error.to_string());
        // Each file gets its own directory object, because a directory returns the earlier mapping of the same name.
        let directory = MmapDirectory::open(folder).map_err(|error| failed(&error))?;
        let bytes = directory.open_read(Path::new(name)).map_err(|error| failed(&error))?.read_bytes()?;
        let dimensions = dimensions(&bytes, model).ok_or(VectorFileError::Damaged)?;
        Ok(Self { bytes, dimensions })
    }

    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    pub(super) fn records(&self) -> &[u8] {
        let end = self.bytes.len().saturating_sub(TRAILER);
        self.bytes.get(HEADER..end).unwrap_or_default()
    }
}

fn dimensions(bytes: &[u8], model: ModelHash) -> Option<usize> {
    let rest = bytes.strip_prefix(&MAGIC)?.strip_prefix(&model.0)?;
    let dimensions = u32::from_le_bytes(*rest.first_chunk()?) as usize;
    let records = bytes.len().checked_sub(HEADER + TRAILER)?;
    (dimensions > 0 && records.is_multiple_of(record_bytes(dimensions))).then_some(dimensions)
}

/// Whether a file is unchanged since it was written. Reads the whole file.
///
/// # Errors
/// Fails when the file cannot be read.
pub fn is_whole(path: &Path) -> io::Result<bool> {
    let mut file = File::open(path)?;
    let Some(mut left) = file.metadata()?.len().checked_sub(TRAILER as u64) else { return Ok(false) };
    let mut checksum = crc32fast::Hasher::new();
    let mut buffer = vec![0; 256 * 1024];
    while left > 0 {
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let Some(buffer) = buffer.get_mut(..most) else { return Ok(false) };
        file.read_exact(buffer)?;
        checksum.update(buffer);
        left -= most as u64;
    }
    let mut trailer = [0; TRAILER];
    file.read_exact(&mut trailer)?;
    Ok(u32::from_le_bytes(trailer) == checksum.finalize())
}

/// Writes a vector file that only its owner can read.
pub struct VectorFileWriter {
    file: BufWriter<tempfile::NamedTempFile>,
    checksum: crc32fast::Hasher,
    dimensions: usize,
}

impl VectorFileWriter {
    /// # Errors
    /// Fails when the folder cannot be written to.
    pub fn new(folder: &Path, model: ModelHash, dimensions: usize) -> io::Result<Self> {
        std::fs::create_dir_all(folder)?;
        let file = tempfile::Builder::new().prefix(".").suffix(".part").tempfile_in(folder)?;
        let mut this = Self { file: BufWriter::new(file), checksum: crc32fast::Hasher::new(), dimensions };
        this.write(&MAGIC)?;
        this.write(&model.0)?;
        this.write(&u32::try_from(dimensions).unwrap_or_default().to_le_bytes())?;
        Ok(this)
    }

    /// Adds a row. Its id must be greater than all earlier ones. A row with other dimensions is skipped.
    ///
    /// # Errors
    /// Fails when writing fails.
    pub fn add(
        &mut self,
        id: VectorId,
        document: DocumentKey,
        dimensions: usize,
        packed: &[u8],
    ) -> io::Result<()> {
        if dimensions == self.dimensions {
            for record in records_of(id.0, PassageKey { document, part: 0 }, packed, dimensions) {
                self.write(&record)?;
            }
        }
        Ok(())
    }

    /// Syncs the file and renames it.
    ///
    /// # Errors
    /// Fails when writing fails; the file is then removed.
    pub fn finish(mut self, folder: &Path, name: &str) -> io::Result<()> {
        let checksum = std::mem::take(&mut self.checksum).finalize();
        self.file.write_all(&checksum.to_le_bytes())?;
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.as_file().sync_all()?;
        file.persist(folder.join(name)).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.checksum.update(bytes);
        self.file.write_all(bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;
    use std::sync::Arc;

    use super::super::vectors::Vectors;
    use super::*;
    use recall_domain::document::DocumentKind;
    use recall_embedding::{Compared, pack};

    const MODEL: ModelHash = ModelHash([7; 32]);

    fn written(folder: &Path) {
        let mut writer = VectorFileWriter::new(folder, MODEL, 2).unwrap();
        for (id, vector) in [(3, [1.0, 0.0]), (5, [0.0, 1.0])] {
            let document = DocumentKey { kind: DocumentKind::Plan, row: 10 * id };
            writer.add(VectorId(id), document, 2, &pack(&vector)).unwrap();
        }
        writer.add(VectorId(6), DocumentKey { kind: DocumentKind::Plan, row: 1 }, 1, &pack(&[1.0])).unwrap();
        writer.finish(folder, "x").unwrap();
    }

    #[test]
    fn written_vectors_are_read_back() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("vectors");
        written(&folder);
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        assert_eq!(fs::metadata(folder.join("x")).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(is_whole(&folder.join("x")).unwrap());
        let file = Arc::new(VectorFile::open(&folder, "x", MODEL).unwrap());
        // A mapped file stays readable after it is removed.
        fs::remove_file(folder.join("x")).unwrap();
        let mut vectors = Vectors::new(2);
        vectors.add_file(Arc::clone(&file), [VectorId(3)].into());
        let cosines = vectors.values(&Compared::new(&[0.0, 1.0]));
        assert!(cosines[0].is_nan() && cosines[1] > 0.99 && cosines.len() == 2, "{cosines:?}");
        assert_eq!(vectors.keys().map(|key| key.document.row).collect::<Vec<_>>(), [30, 50]);
        // Vectors of other dimensions cannot be compared.
        let mut other = Vectors::new(3);
        other.add_file(file, Arc::default());
        assert!(other.is_empty());
        assert!(VectorFile::open(&folder, "x", MODEL).is_err());
    }

    #[test]
    fn damaged_files_and_files_of_another_model_are_rejected() {
        let home = tempfile::tempdir().unwrap();
        let (folder, path) = (home.path(), home.path().join("x"));
        written(folder);
        let is_refused = || matches!(VectorFile::open(folder, "x", MODEL), Err(VectorFileError::Damaged));
        assert!(VectorFile::open(folder, "x", ModelHash([8; 32])).is_err() && !is_refused());
        let good = fs::read(&path).unwrap();
        for length in [0, 3, HEADER, HEADER + TRAILER + 1, good.len() - 1] {
            fs::write(&path, &good[..length]).unwrap();
            assert!(VectorFile::open(folder, "x", MODEL).is_err(), "{length}");
            assert!(!is_whole(&path).unwrap(), "{length}");
        }
        for place in 0..good.len() {
            let mut bad = good.clone();
            bad[place] ^= 1;
            fs::write(&path, &bad).unwrap();
            assert!(!is_whole(&path).unwrap(), "{place}");
        }
        assert!(is_whole(&folder.join("nowhere")).is_err());
    }

    #[test]
    fn dropping_an_unfinished_writer_leaves_no_file() {
        let home = tempfile::tempdir().unwrap();
        drop(VectorFileWriter::new(home.path(), MODEL, 2).unwrap());
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 0);
    }
}
