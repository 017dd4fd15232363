//! Models installed in recall's data folder: one file each, created from a published model's folder.
//!
//! Adding or removing a model takes the folder's lock, which is released when the process ends. So the daemon, which
//! cleans up after killed programs, does not touch files that another program is still writing.

use std::fs;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use super::model_folder::{ModelError, packed};
use super::{Model, ModelFacts, model_file};

/// The file name extension of a model.
const ENDS: &str = ".model";
/// The first character of a file or folder that is being created or removed.
const UNFINISHED: char = '.';
/// The maximum size of a header in bytes.
const MOST_HEADER: u64 = 64 * 1024;

/// The installed models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledModels {
    folder: PathBuf,
}

/// An installed model as shown in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledModel {
    pub name: String,
    /// The hash that identifies the model's vectors, in hexadecimal digits; empty if the file cannot be read.
    pub hash: String,
    /// SHA-256 of the published weights from which the file was created.
    pub weights_sha256: String,
    pub bytes: u64,
}

/// Why a model was not installed or removed.
#[derive(Debug, thiserror::Error)]
pub enum InstallError {
    #[error(transparent)]
    Model(#[from] ModelError),
    #[error("{0:?} is not a name for a model: use letters, digits, and . _ - between them")]
    Name(String),
    #[error("another model is installed as {0}")]
    Taken(String),
    #[error("there is no model {0}")]
    Unknown(String),
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Whether the name is valid for a model: the name of a folder, not a path.
pub fn is_model_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c);
    name.len() <= 100 && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(fits)
}

impl InstalledModels {
    /// `folder` need not exist.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The weights file of a model: the installed file, or the one in the folder if `model` is an absolute path.
    pub fn weights_of(&self, model: &str) -> PathBuf {
        if is_model_name(model) { self.file_of(model) } else { Path::new(model).join("model.safetensors") }
    }

    fn file_of(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}{ENDS}"))
    }

    /// Opens an installed model by name, or any model by its folder's absolute path.
    ///
    /// # Errors
    /// Fails when there is none, it is not a model, or the file has changed since it was written.
    pub fn open(&self, model: &str) -> Result<Model, ModelError> {
        if !is_model_name(model) {
            let folder = Path::new(model);
            let absent = || ModelError::Absent { path: folder.to_owned() };
            return if folder.is_dir() { Model::open(folder) } else { Err(absent()) };
        }
        let file = self.file_of(model);
        if !file.is_file() {
            return Err(ModelError::Absent { path: file });
        }
        Model::map(&self.folder, &format!("{model}{ENDS}"))
    }

    /// Creates the file of a model. A failure or a killed program leaves nothing behind.
    ///
    /// # Errors
    /// Fails when it is not a model, the name is taken, or the file cannot be written.
    pub fn add(&self, from: &Path, name: &str) -> Result<ModelFacts, InstallError> {
        if !is_model_name(name) {
            return Err(InstallError::Name(name.to_owned()));
        }
        if !from.is_dir() {
            return Err(ModelError::NoFolder { path: from.to_owned() }.into());
        }
        let bytes = packed(from)?;
        let facts = Model::try_from_packed(bytes.clone())?.facts();
        let place = self.file_of(name);
        let _alone = self.lock()?;
        if place.exists() {
            return match self.open(name) {
                Ok(model) if model.facts() == facts => Ok(facts),
                _ => Err(InstallError::Taken(name.to_owned())),
            };
        }
        self.clear();
        let write = || {
            let prefix = UNFINISHED.to_string();
            let mut draft =
                tempfile::Builder::new().prefix(&prefix).suffix(".part").tempfile_in(&self.folder)?;
            draft.write_all(&bytes)?;
            draft.as_file().sync_all()?;
            draft.persist_noclobber(&place).map_err(|error| error.error)
        };
        write().map(|_| facts).map_err(|source| InstallError::Write { path: place.clone(), source })
    }

    /// The installed models, sorted by name.
    pub fn list(&self) -> Vec<InstalledModel> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut models: Vec<InstalledModel> = entries
            .filter_map(|entry| entry.file_name().into_string().ok()?.strip_suffix(ENDS).map(str::to_owned))
            .filter(|name| is_model_name(name))
            .map(|name| {
                let file = self.file_of(&name);
                let mut head = Vec::new();
                let read =
                    fs::File::open(&file).and_then(|file| file.take(MOST_HEADER).read_to_end(&mut head));
                let header = read.ok().and_then(|_| model_file::header(&head));
                let (hash, weights_sha256) =
                    header.map(|header| (header.model, header.weights_sha256)).unwrap_or_default();
                InstalledModel {
                    bytes: fs::metadata(file).map_or(0, |file| file.len()),
                    hash,
                    weights_sha256,
                    name,
                }
            })
            .collect();
        models.sort_by(|a, b| a.name.cmp(&b.name));
        models
    }

    /// Removes a model. A daemon that has mapped it continues to use it until its next check.
    ///
    /// # Errors
    /// Fails when there is none, or its file cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), InstallError> {
        let place = self.file_of(name);
        if !is_model_name(name) || !place.is_file() {
            return Err(InstallError::Unknown(name.to_owned()));
        }
        let _alone = self.lock()?;
        self.clear();
        fs::remove_file(&place).map_err(|source| InstallError::Write { path: place, source })
    }

    /// Removes files left behind by a killed program, unless a model is being added or removed.
    pub fn clean(&self) {
        if let Ok(folder) = fs::File::open(&self.folder)
            && folder.try_lock().is_ok()
        {
            self.clear();
        }
    }

    /// Waits until no other process adds or removes a model.
    fn lock(&self) -> Result<fs::File, InstallError> {
        let lock = || {
            fs::create_dir_all(&self.folder)?;
            let folder = fs::File::open(&self.folder)?;
            folder.lock().map(|()| folder)
        };
        lock().map_err(|source| InstallError::Write { path: self.folder.clone(), source })
    }

    /// Removes unfinished files. The caller must hold the lock.
    fn clear(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                let _ = fs::remove_dir_all(entry.path()).or_else(|_| fs::remove_file(entry.path()));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests/fixtures/tiny-model")
    }

    #[test]
    fn unfinished_models_are_removed_only_when_the_lock_is_free() {
        let home = tempfile::tempdir().unwrap();
        let models = InstalledModels::new(home.path().join("models"));
        let at_work = models.lock().unwrap();
        let draft = home.path().join("models/.tiny.part");
        fs::create_dir(&draft).unwrap();
        models.clean();
        assert!(draft.exists());
        drop(at_work);
        models.clean();
        assert!(!draft.exists(), "nobody is");
    }

    #[test]
    fn a_model_is_copied_listed_opened_and_removed() {
        let home = tempfile::tempdir().unwrap();
        let models = InstalledModels::new(home.path().join("models"));
        assert!(models.list().is_empty() && models.open("tiny").is_err());
        let facts = models.add(&tiny(), "tiny").unwrap();
        assert_eq!(models.add(&tiny(), "tiny").unwrap(), facts, "adding it again changes nothing");
        let listed = models.list();
        assert_eq!((listed.len(), listed[0].name.as_str()), (1, "tiny"));
        assert_eq!(listed[0].hash, facts.hash.to_string());
        assert_eq!(listed[0].weights_sha256.len(), 64);
        assert_eq!(models.open("tiny").unwrap().facts(), facts);
        assert_eq!(models.open(tiny().to_str().unwrap()).unwrap().facts(), facts);

        // The file was changed after it was written.
        let file = home.path().join("models/tiny.model");
        let mut bytes = fs::read(&file).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(&file, &bytes).unwrap();
        assert!(matches!(models.open("tiny"), Err(ModelError::Altered { .. })));
        assert!(matches!(models.add(&tiny(), "tiny"), Err(InstallError::Taken(_))));
        models.remove("tiny").unwrap();
        assert_eq!(fs::read_dir(home.path().join("models")).unwrap().count(), 0);
        assert!(matches!(models.remove("tiny"), Err(InstallError::Unknown(_))));
    }

    #[test]
    fn leftovers_of_a_killed_program_are_not_listed_and_are_removed() {
        let home = tempfile::tempdir().unwrap();
        let models = InstalledModels::new(home.path().to_owned());
        for left in [".tiny.part", ".old.gone"] {
            fs::create_dir(home.path().join(left)).unwrap();
            fs::write(home.path().join(left).join("config.json"), "{").unwrap();
            fs::write(home.path().join(format!("{left}.model")), "x").unwrap();
        }
        assert!(models.list().is_empty());
        models.add(&tiny(), "tiny").unwrap();
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn adding_an_invalid_model_or_name_leaves_nothing_behind() {
        let home = tempfile::tempdir().unwrap();
        let models = InstalledModels::new(home.path().join("models"));
        assert!(matches!(models.add(home.path(), "x"), Err(InstallError::Model(_))));
        for name in ["", ".x", "a/b", "..", "-a", "é"] {
            assert!(matches!(models.add(&tiny(), name), Err(InstallError::Name(_))), "{name}");
            assert!(models.remove(name).is_err(), "{name}");
        }
        assert!(!home.path().join("models").exists());
    }
}
