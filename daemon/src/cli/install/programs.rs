//! The paths of recall's programs for settings and service units.
//!
//! The path must stay valid after an upgrade. So a program that was started through a symlink, as package managers
//! install it, is named by the symlink. If the shim is not next to the symlink, the real folder is used.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use thiserror::Error;

use crate::service::environment::{Environment, is_executable};

const SHIM: &str = "recall-shim";

/// The absolute paths of both programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Programs {
    pub(crate) recall: PathBuf,
    pub(crate) shim: PathBuf,
}

/// Why the paths could not be determined.
#[derive(Debug, Error, PartialEq, Eq)]
pub(crate) enum ProgramsError {
    #[error("cannot determine the path of recall itself")]
    NoRecall,
    #[error("there is no executable recall-shim in {}", .0.display())]
    NoShim(PathBuf),
    #[error("{} is not an executable file", .0.display())]
    NotExecutable(PathBuf),
    /// Hooks call the shim by this name, and it is how they are recognised.
    #[error("{} is not named recall-shim", .0.display())]
    OtherName(PathBuf),
}

impl Programs {
    /// Finds the running `recall`, and the shim next to it or at `wish`.
    pub(crate) fn find(environment: &Environment, wish: Option<&Path>) -> Result<Self, ProgramsError> {
        let real = std::env::current_exe().map_err(|_| ProgramsError::NoRecall)?;
        let called = std::env::args_os().next();
        Self::beside(environment, called.as_deref(), &real, wish)
    }

    fn beside(
        environment: &Environment,
        called: Option<&OsStr>,
        real: &Path,
        wish: Option<&Path>,
    ) -> Result<Self, ProgramsError> {
        let named = called.and_then(|called| as_called(environment, called, real));
        let recall = named.clone().unwrap_or_else(|| real.to_path_buf());
        if let Some(wish) = wish {
            return Ok(Self { recall, shim: checked(wish)? });
        }
        let places = [named.as_deref(), Some(real)].into_iter().flatten();
        let mut shims = places.map(|recall| recall.with_file_name(SHIM));
        let shim = shims.find(|shim| is_executable(shim));
        let folder = || recall.parent().unwrap_or(Path::new("/")).to_path_buf();
        let shim = shim.ok_or_else(|| ProgramsError::NoShim(folder()))?;
        Ok(Self { recall, shim })
    }
}

fn checked(shim: &Path) -> Result<PathBuf, ProgramsError> {
    let shim = std::path::absolute(shim).map_err(|_| ProgramsError::NotExecutable(shim.to_path_buf()))?;
    if !is_executable(&shim) {
        return Err(ProgramsError::NotExecutable(shim));
    }
    if shim.file_name() != Some(OsStr::new(SHIM)) {
        return Err(ProgramsError::OtherName(shim));
    }
    Ok(shim)
}

/// Returns the path by which recall was started, if it leads to the running program.
fn as_called(environment: &Environment, called: &OsStr, real: &Path) -> Option<PathBuf> {
    let called = Path::new(called);
    let path = match called.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => std::path::absolute(called).ok()?,
        _ => environment.program(called.to_str()?)?,
    };
    let same = path.canonicalize().ok()? == real.canonicalize().ok()?;
    same.then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    struct TestHome {
        folder: tempfile::TempDir,
    }

    impl TestHome {
        fn new(programs: &[&str]) -> Self {
            let folder = tempfile::tempdir().unwrap();
            for name in programs {
                let path = folder.path().join(name);
                fs::create_dir_all(path.parent().unwrap()).unwrap();
                fs::write(&path, "").unwrap();
                fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
            }
            fs::create_dir_all(folder.path().join("bin")).unwrap();
            Self { folder }
        }

        fn path(&self, name: &str) -> PathBuf {
            self.folder.path().join(name)
        }

        fn find(&self, called: &str, wish: Option<&Path>) -> Result<Programs, ProgramsError> {
            let path = self.path("bin").into_os_string();
            let environment = Environment::new(self.path("home"), [("PATH".into(), path)]);
            Programs::beside(&environment, Some(OsStr::new(called)), &self.path("opt/recall"), wish)
        }
    }

    #[test]
    fn the_shim_beside_recall_is_used() {
        let place = TestHome::new(&["opt/recall", "opt/recall-shim"]);
        let programs = Programs { recall: place.path("opt/recall"), shim: place.path("opt/recall-shim") };
        assert_eq!(place.find(place.path("opt/recall").to_str().unwrap(), None), Ok(programs.clone()));
        assert_eq!(place.find("something else", None), Ok(programs));
    }

    #[test]
    fn a_program_started_through_a_symlink_is_named_by_the_symlink() {
        let place = TestHome::new(&["opt/recall", "opt/recall-shim"]);
        symlink(place.path("opt/recall"), place.path("bin/recall")).unwrap();
        let recall = place.path("bin/recall");
        let found = place.find("recall", None).unwrap();
        assert_eq!(found, Programs { recall: recall.clone(), shim: place.path("opt/recall-shim") });
        symlink(place.path("opt/recall-shim"), place.path("bin/recall-shim")).unwrap();
        let found = place.find("recall", None).unwrap();
        assert_eq!(found, Programs { recall, shim: place.path("bin/recall-shim") });
    }

    #[test]
    fn a_missing_or_misnamed_shim_is_an_error() {
        let place = TestHome::new(&["opt/recall", "opt/other"]);
        assert_eq!(place.find("recall", None), Err(ProgramsError::NoShim(place.path("opt"))));
        let check = |name: &str| place.find("recall", Some(&place.path(name))).map(|programs| programs.shim);
        assert_eq!(check("opt/other"), Err(ProgramsError::OtherName(place.path("opt/other"))));
        assert_eq!(
            check("opt/recall-shim"),
            Err(ProgramsError::NotExecutable(place.path("opt/recall-shim")))
        );
    }
}
