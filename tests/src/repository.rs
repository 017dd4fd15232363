//! A real repository for tests. The real git makes it, without the settings of any user.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// A folder in which git runs.
pub struct Repository(pub PathBuf);

impl Repository {
    /// Makes a repository with one commit on `main`.
    #[must_use]
    pub fn init(folder: &Path) -> Self {
        std::fs::create_dir_all(folder).unwrap();
        let repository = Self(folder.to_owned());
        repository.git(&["init", "-q", "-b", "main"]);
        repository.commit("one");
        repository
    }

    /// Runs git, which must succeed, and returns its output.
    #[track_caller]
    pub fn git(&self, arguments: &[&str]) -> String {
        let output = Command::new("git")
            .args(arguments)
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .envs([("HOME", "/nonexistent"), ("GIT_CONFIG_NOSYSTEM", "1"), ("LC_ALL", "C")])
            .envs([("GIT_AUTHOR_NAME", "Dev"), ("GIT_AUTHOR_EMAIL", "dev@example.com")])
            .envs([("GIT_COMMITTER_NAME", "Dev"), ("GIT_COMMITTER_EMAIL", "dev@example.com")])
            .current_dir(&self.0)
            .stdin(Stdio::null())
            .output()
            .unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    /// Commits a new file of this name.
    pub fn commit(&self, name: &str) -> String {
        std::fs::write(self.0.join(name), name).unwrap();
        self.git(&["add", name]);
        self.git(&["commit", "-q", "-m", name]);
        self.git(&["rev-parse", "HEAD"])
    }
}
