//! The part of the process's environment that installing needs: the home folder, variables, programs on the `PATH`.
//!
//! It is a value instead of calls to `std::env`, so that tests can use their own home.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};

/// The environment of one run.
#[derive(Clone, Debug)]
pub struct Environment {
    home: PathBuf,
    variables: HashMap<OsString, OsString>,
}

impl Environment {
    pub fn new(home: PathBuf, variables: impl IntoIterator<Item = (OsString, OsString)>) -> Self {
        Self { home, variables: variables.into_iter().collect() }
    }

    /// The environment of this process; `None` if the user has no home folder.
    pub fn of_process() -> Option<Self> {
        let home = std::env::home_dir().filter(|home| home.is_absolute())?;
        Some(Self::new(home, std::env::vars_os()))
    }

    pub fn home(&self) -> &Path {
        &self.home
    }

    /// Returns a variable's value; an empty one counts as unset.
    pub fn variable(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(OsStr::new(name)).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// Returns the folder that a variable names.
    pub fn folder(&self, variable: &str) -> Option<PathBuf> {
        self.variable(variable).map(PathBuf::from)
    }

    /// Returns the first executable file with this name on the `PATH`, ignoring relative entries.
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        let path = self.variable("PATH")?;
        let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
        folders.map(|folder| folder.join(name)).find(|program| is_executable(program))
    }
}

/// Whether this is a file that the user may run.
pub fn is_executable(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_program_is_an_executable_file_on_the_path() {
        let home = tempfile::tempdir().unwrap();
        let folders = ["folder", "plain", "good"].map(|name| home.path().join(name));
        for folder in &folders {
            fs::create_dir(folder).unwrap();
        }
        fs::create_dir(folders[0].join("claude")).unwrap();
        fs::write(folders[1].join("claude"), "").unwrap();
        fs::write(folders[2].join("claude"), "").unwrap();
        fs::set_permissions(folders[2].join("claude"), fs::Permissions::from_mode(0o755)).unwrap();
        let path = std::env::join_paths(&folders).unwrap();
        let environment =
            Environment::new(home.path().into(), [("PATH".into(), path), ("EMPTY".into(), "".into())]);
        assert_eq!(environment.program("claude"), Some(folders[2].join("claude")));
        assert_eq!(environment.program("codex"), None);
        assert_eq!(environment.folder("EMPTY"), None);
    }
}
