//! Creates, opens and removes the vector files, one per project.
//!
//! The database names the files ([`vector_files`](recall_store::Reader::vector_files)). A file that it does not name
//! is removed, and a missing file is recreated from the rows. So a kill at any moment can cost a file, but no vector.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tokio::sync::{Mutex, MutexGuard};
use uuid::Uuid;

use recall_domain::ids::{ProjectRow, VectorId};
use recall_embedding::ModelHash;
use recall_search::vector_file::{VectorFile, VectorFileError, VectorFileWriter, is_whole};
use recall_store::{Readers, StoreError, UseVectorFile, VectorFileRow};

/// The number of rows read at once.
const STEP: u32 = 500;

/// The folder of the files. Cheap to clone.
#[derive(Clone, Debug)]
pub struct VectorFiles {
    folder: Arc<Path>,
    alone: Arc<Mutex<()>>,
}

/// Why a file could not be created.
#[derive(Debug, thiserror::Error)]
pub enum MakeError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error("cannot write a vector file: {0}")]
    Disk(#[from] io::Error),
}

impl VectorFiles {
    /// Uses this folder, which need not exist.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder: folder.into(), alone: Arc::default() }
    }

    /// Locked while files are created or removed. A finished file that the database does not name yet must not be
    /// removed as unused, and a file begun before something was forgotten must not be used afterwards.
    pub async fn alone(&self) -> MutexGuard<'_, ()> {
        self.alone.lock().await
    }

    fn name(file: &VectorFileRow) -> String {
        format!("{}-{}", file.project.0, file.made)
    }

    /// Maps a file.
    ///
    /// # Errors
    /// Fails when the file is missing, damaged or belongs to another model.
    pub fn open(&self, file: &VectorFileRow, model: ModelHash) -> Result<VectorFile, VectorFileError> {
        VectorFile::open(&self.folder, &Self::name(file), model)
    }

    /// Writes the vectors of a project to a new file. The file is used once the returned operation is committed. The
    /// caller must hold [`alone`](Self::alone).
    ///
    /// # Errors
    /// Fails when the store cannot be read or the file cannot be written.
    pub fn make(
        &self,
        readers: &Readers,
        model: ModelHash,
        project: ProjectRow,
    ) -> Result<UseVectorFile, MakeError> {
        // Deletions during the write are applied after this.
        let (gone_until, state) =
            readers.read(|db| Ok((db.last_gone_vector()?, db.vector_state(&model.0, project)?)))?;
        let made = Uuid::new_v4().simple().to_string();
        let mut file = VectorFileRow { project, made, newest: state.newest };
        let mut writer = None;
        let (mut after, mut rows) = (VectorId::default(), 0);
        loop {
            let step = readers.read(|db| db.vectors_after(&model.0, project, after, state.newest, STEP))?;
            let Some(last) = step.last() else { break };
            after = last.id;
            rows += step.len() as i64;
            for row in &step {
                let dimensions = row.dimensions as usize;
                if dimensions > 0 {
                    let writer = match &mut writer {
                        Some(writer) => writer,
                        None => writer.insert(VectorFileWriter::new(&self.folder, model, dimensions)?),
                    };
                    writer.add(row.id, row.key, dimensions, &row.packed)?;
                }
            }
        }
        match writer {
            Some(writer) => writer.finish(&self.folder, &Self::name(&file))?,
            None => file.newest = VectorId::default(),
        }
        Ok(UseVectorFile { file, model: model.0, rows, gone_until })
    }

    /// Removes every file that the database does not name. The caller must hold [`alone`](Self::alone).
    ///
    /// # Errors
    /// Fails when the store cannot be read or a file cannot be removed.
    pub fn sweep(&self, readers: &Readers) -> Result<(), MakeError> {
        let entries = match fs::read_dir(&self.folder) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        let named: Vec<String> = readers.read(|db| db.vector_files())?.iter().map(Self::name).collect();
        let mut removed = 0_usize;
        for entry in entries {
            let entry = entry?;
            if !named.iter().any(|name| entry.file_name() == name.as_str()) {
                fs::remove_file(entry.path())?;
                removed += 1;
            }
        }
        if removed > 0 {
            tracing::info!(removed, "removed vector files that the database does not name");
        }
        Ok(())
    }

    /// Returns the named files that are missing or differ from what was written. Reads all of them.
    ///
    /// # Errors
    /// Fails when the store cannot be read.
    pub fn damaged(&self, readers: &Readers) -> Result<Vec<VectorFileRow>, StoreError> {
        let mut files = readers.read(|db| db.vector_files())?;
        files.retain(|file| !is_whole(&self.folder.join(Self::name(file))).unwrap_or(false));
        Ok(files)
    }
}
