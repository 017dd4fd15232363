//! The line that greets the user at the first session after the installation.
//!
//! `recall install` leaves an empty file. The first session of a person removes it and shows the line.

use std::io;
use std::path::{Path, PathBuf};

const LINE: &str = "recall is on: it remembers your sessions, on this machine only, and gives later ones what helps. \
                    `recall ui` shows what it knows, `recall pause` stops it for a while, `recall uninstall` removes it.";

/// A file that exists until the welcome was shown.
#[derive(Clone, Debug)]
pub struct Welcome(PathBuf);

impl Welcome {
    /// `state` is the folder of recall's state files.
    pub fn new(state: &Path) -> Self {
        Self(state.join("welcome"))
    }

    /// Makes the next session show the line. Fails if the file cannot be written.
    pub fn announce(&self) -> io::Result<()> {
        std::fs::write(&self.0, "")
    }

    /// Cancels the welcome, because recall is being uninstalled.
    pub fn withdraw(&self) {
        // The file rarely exists, and one that cannot be removed does no harm.
        let _ = std::fs::remove_file(&self.0);
    }

    /// Returns the line if it was not shown yet. Of two sessions that start together only one gets it.
    pub fn take(&self) -> Option<String> {
        std::fs::remove_file(&self.0).ok().map(|()| LINE.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_welcome_line_is_shown_once() {
        let state = tempfile::tempdir().unwrap();
        let welcome = Welcome::new(state.path());
        assert_eq!(welcome.take(), None);
        welcome.announce().unwrap();
        assert!(welcome.take().unwrap().contains("recall ui"));
        assert_eq!(welcome.take(), None);
    }
}
