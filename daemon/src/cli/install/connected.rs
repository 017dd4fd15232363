//! Records which agents were connected for the user, to notice when their hooks are gone. One file per agent, written
//! only by `recall install` and `recall uninstall`.

use std::fs;
use std::path::PathBuf;

use super::paths;
use crate::service::environment::Environment;

/// Returns the file that records that an agent was connected.
fn file(environment: &Environment, agent: &str) -> Option<PathBuf> {
    Some(paths(environment)?.state_dir().join(format!("connected-{agent}")))
}

/// Records the agent. If the file cannot be written, a loss of the hooks goes unnoticed, which is no reason to stop.
pub(crate) fn remember(environment: &Environment, agent: &str) {
    let Some(paths) = paths(environment) else { return };
    if paths.create_state_folder().is_ok()
        && let Some(file) = file(environment, agent)
    {
        let _ = fs::write(file, "");
    }
}

pub(crate) fn forget(environment: &Environment, agent: &str) {
    // Most agents have no such file.
    let _ = file(environment, agent).map(fs::remove_file);
}

pub(super) fn was_connected(environment: &Environment, agent: &str) -> bool {
    file(environment, agent).is_some_and(|file| file.exists())
}
