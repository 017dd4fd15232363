//! Models that were copied into recall's data folder, each in a folder of its name, with the hash of its files.
//!
//! Whoever adds or removes one holds the lock of the folder, which ends with the process. So the daemon, which clears away
//! what a killed program has left, leaves alone what another is at work on.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::model_folder::{FILES, Model, ModelError, fingerprint};
use super::{ModelFacts, ModelHash};

/// The file that keeps a model's hash.
const KEPT: &str = "sha256";
/// How the folder of a model begins that is being copied or removed.
const UNFINISHED: char = '.';

/// The installed models.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledModels {
    folder: PathBuf,
}

/// An installed model, as it is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstalledModel {
    pub name: String,
    /// As it was when it was installed, in hexadecimal digits; empty if that is not known.
    pub sha256: String,
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
    #[error("the folder changed while it was copied")]
    Changed,
    #[error("cannot write {}", path.display())]
    Write {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
}

/// Whether a model may have this name: it is a folder's name and no path.
pub fn is_model_name(name: &str) -> bool {
    let fits = |c: char| c.is_ascii_alphanumeric() || ['.', '_', '-'].contains(&c);
    name.len() <= 100 && name.starts_with(|c: char| c.is_ascii_alphanumeric()) && name.chars().all(fits)
}

impl InstalledModels {
    /// `folder` need not exist.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder }
    }

    /// The folder of a model: an absolute path is one already.
    pub fn folder_of(&self, model: &str) -> PathBuf {
        self.folder.join(model)
    }

    /// Opens an installed model by its name, or any by its absolute path.
    ///
    /// # Errors
    /// When there is none, it is no model, or an installed one has other files than it was installed with.
    pub fn open(&self, model: &str) -> Result<Model, ModelError> {
        let folder = self.folder_of(model);
        if !folder.is_dir() {
            return Err(ModelError::Absent { folder });
        }
        let opened = Model::open(&folder)?;
        let kept = fs::read_to_string(folder.join(KEPT)).unwrap_or_default();
        if is_model_name(model) && kept.trim() != opened.facts().hash.to_string() {
            return Err(ModelError::Altered { folder });
        }
        Ok(opened)
    }

    /// Copies a model here. Nothing is left of one that does not fit, or if the program is killed meanwhile.
    ///
    /// # Errors
    /// When it is no model, the name is taken, or it cannot be copied.
    pub fn add(&self, from: &Path, name: &str) -> Result<ModelFacts, InstallError> {
        if !is_model_name(name) {
            return Err(InstallError::Name(name.to_owned()));
        }
        if !from.is_dir() {
            return Err(ModelError::NoFolder { path: from.to_owned() }.into());
        }
        let facts = Model::open(from)?.facts();
        let place = self.folder_of(name);
        let _alone = self.lock()?;
        if place.exists() {
            return match fingerprint(&place) {
                Ok(hash) if hash == facts.hash && self.open(name).is_ok() => Ok(facts),
                _ => Err(InstallError::Taken(name.to_owned())),
            };
        }
        self.clear();
        let draft = self.folder.join(format!("{UNFINISHED}{name}.part"));
        let copied = copy(from, &draft, facts.hash);
        let moved = copied.and_then(|()| {
            fs::rename(&draft, &place).map_err(|source| InstallError::Write { path: place, source })
        });
        if moved.is_err() {
            let _ = fs::remove_dir_all(&draft);
        }
        moved.map(|()| facts)
    }

    /// The installed models by name.
    pub fn list(&self) -> Vec<InstalledModel> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut models: Vec<InstalledModel> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| is_model_name(name))
            .map(|name| {
                let folder = self.folder_of(&name);
                let size = |file: &str| fs::metadata(folder.join(file)).map_or(0, |file| file.len());
                let sha256 = fs::read_to_string(folder.join(KEPT)).unwrap_or_default().trim().to_owned();
                InstalledModel { bytes: FILES.iter().map(|file| size(file)).sum(), sha256, name }
            })
            .collect();
        models.sort_by(|a, b| a.name.cmp(&b.name));
        models
    }

    /// Removes a model. From the first step on it is not listed and cannot be opened.
    ///
    /// # Errors
    /// When there is none, or its files cannot be removed.
    pub fn remove(&self, name: &str) -> Result<(), InstallError> {
        let place = self.folder_of(name);
        if !is_model_name(name) || !place.is_dir() {
            return Err(InstallError::Unknown(name.to_owned()));
        }
        let _alone = self.lock()?;
        self.clear();
        let gone = self.folder.join(format!("{UNFINISHED}{name}.gone"));
        let removed = fs::rename(&place, &gone).and_then(|()| fs::remove_dir_all(&gone));
        removed.map_err(|source| InstallError::Write { path: place, source })
    }

    /// Removes what a killed program has left, unless a model is being added or removed.
    pub fn clean(&self) {
        if let Ok(folder) = fs::File::open(&self.folder)
            && folder.try_lock().is_ok()
        {
            self.clear();
        }
    }

    /// Waits until nobody else adds or removes a model.
    fn lock(&self) -> Result<fs::File, InstallError> {
        let lock = || {
            fs::create_dir_all(&self.folder)?;
            let folder = fs::File::open(&self.folder)?;
            folder.lock().map(|()| folder)
        };
        lock().map_err(|source| InstallError::Write { path: self.folder.clone(), source })
    }

    /// For whoever holds the lock.
    fn clear(&self) {
        for entry in fs::read_dir(&self.folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

fn copy(from: &Path, to: &Path, expected: ModelHash) -> Result<(), InstallError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |source| InstallError::Write { path, source }
    };
    for file in FILES {
        let (source, target) = (from.join(file), to.join(file));
        if !source.is_file() {
            continue;
        }
        let parent = target.parent().unwrap_or(to);
        fs::create_dir_all(parent).map_err(failed(parent))?;
        fs::copy(&source, &target)
            .and_then(|_| fs::File::open(&target)?.sync_all())
            .map_err(failed(&target))?;
    }
    if fingerprint(to)? != expected {
        return Err(InstallError::Changed);
    }
    let kept = to.join(KEPT);
    fs::write(&kept, format!("{expected}\n")).map_err(failed(&kept))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tiny() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/tiny-model")
    }

    #[test]
    fn what_another_is_at_work_on_is_not_cleared_away() {
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
        assert_eq!(listed[0].sha256, facts.hash.to_string());
        assert_eq!(models.open("tiny").unwrap().facts(), facts);
        assert_eq!(models.open(tiny().to_str().unwrap()).unwrap().facts(), facts);

        // Other files than those that were installed.
        fs::write(home.path().join("models/tiny/tokenizer_config.json"), "{}").unwrap();
        assert!(matches!(models.open("tiny"), Err(ModelError::Altered { .. })));
        assert!(matches!(models.add(&tiny(), "tiny"), Err(InstallError::Taken(_))));
        models.remove("tiny").unwrap();
        assert_eq!(fs::read_dir(home.path().join("models")).unwrap().count(), 0);
        assert!(matches!(models.remove("tiny"), Err(InstallError::Unknown(_))));
    }

    #[test]
    fn what_a_killed_program_left_is_no_model_and_goes() {
        let home = tempfile::tempdir().unwrap();
        let models = InstalledModels::new(home.path().to_owned());
        for left in [".tiny.part", ".old.gone"] {
            fs::create_dir(home.path().join(left)).unwrap();
            fs::write(home.path().join(left).join("config.json"), "{").unwrap();
        }
        assert!(models.list().is_empty());
        models.add(&tiny(), "tiny").unwrap();
        assert_eq!(fs::read_dir(home.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_no_model_leaves_nothing_behind() {
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
