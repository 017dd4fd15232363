//! Checks recall's folders, and the events that are waiting in them or were lost.

use std::path::PathBuf;
use std::time::Duration;

use recall_protocol::folder::{self, FolderError, FolderState};
use recall_protocol::losses::Losses;
use recall_protocol::paths::Paths;
use recall_protocol::spool::Spool;

use super::{Area, Finding};
use crate::cli::keeping;
use crate::server::run::foreign_files;
use recall_system::holding::file_system::FileSystem;

/// Older losses are only a note.
const RECENTLY: Duration = Duration::from_secs(7 * 24 * 3600);

/// Checks recall's folders. Returns the cause of each failure, because several folders may fail for the same cause.
pub(super) fn folders(paths: &Paths, findings: &mut Vec<Finding>) -> Vec<PathBuf> {
    let mut area = Area { name: "folders", findings };
    let keeping = keeping::obstacle(paths).map(|error| cause(&error));
    let mut unusable = Vec::new();
    for (name, path) in
        [("data", paths.data_dir()), ("state", paths.state_dir()), ("socket", paths.runtime_dir())]
    {
        let shown = format!("{name} folder {}", path.display());
        match (folder::check_writable(path), folder::look(path)) {
            (Ok(()), FolderState::Absent) => {
                area.note(format!("{shown} does not exist yet"), "The daemon creates it.");
            }
            (Ok(()), FolderState::Open) => {
                area.note(
                    format!("{shown} is readable by other users"),
                    "The daemon makes it private when it starts.",
                );
            }
            (Ok(()), _) => area.good(shown),
            (Err(error), _) if keeping::is_seen_from_a_sandbox(&error, paths) => {
                area.note(
                    format!("{shown} cannot be written by this command, but the daemon runs"),
                    "A sandbox around this command may be the cause; in that case nothing is wrong.",
                );
                unusable.push(cause(&error));
            }
            (Err(error), _) => {
                let cause = cause(&error);
                if unusable.contains(&cause) {
                    continue;
                }
                let mut hint = folder_hint(&error).to_owned();
                if keeping.as_ref() == Some(&cause) {
                    hint.push_str(" Until then no event can be stored.");
                }
                area.bad(keeping::reason(&error), &hint);
                unusable.push(cause);
            }
        }
    }
    if let Some(system) = FileSystem::of(paths.data_dir()).name() {
        area.note(
            format!("the data folder is on {system}, where other machines or containers may not see its lock"),
            "A lease in the folder guards it too, and the database is written with a rollback journal instead of a \
             write-ahead log: slower, and a commit waits for searches. A local disk is better: set RECALL_HOME.",
        );
    }
    for foreign in foreign_files(paths) {
        area.bad(foreign.to_string(), "The daemon does not start until you move it away.");
    }
    if let Err(error) = paths.socket() {
        area.bad(error.to_string(), "");
    }
    unusable
}

/// Returns where the failure is: the folder itself, or the parent in which it cannot be created.
fn cause(error: &FolderError) -> PathBuf {
    match error {
        FolderError::Create { path, .. } => {
            let above = path.ancestors().skip(1).find(|above| above.symlink_metadata().is_ok());
            above.unwrap_or(path).to_owned()
        }
        FolderError::Symlink { path }
        | FolderError::NotAFolder { path }
        | FolderError::DiskFull { path }
        | FolderError::QuotaUsedUp { path }
        | FolderError::Foreign { path, .. }
        | FolderError::Write { path, .. }
        | FolderError::Restrict { path, .. } => path.clone(),
    }
}

fn folder_hint(error: &FolderError) -> &'static str {
    match error {
        FolderError::Symlink { .. } => "Replace it with a real folder.",
        FolderError::NotAFolder { .. } => "Move the file away.",
        FolderError::Foreign { .. } => "Change its owner to you, or move it away.",
        FolderError::DiskFull { .. } => "Free some space there; recall then continues by itself.",
        FolderError::QuotaUsedUp { .. } => "Free some of your space there; recall then continues by itself.",
        FolderError::Create { .. } | FolderError::Write { .. } | FolderError::Restrict { .. } => {
            "Make its parent yours and writable, or set RECALL_HOME to another folder."
        }
    }
}

pub(super) fn spool(paths: &Paths, unusable: &[PathBuf], findings: &mut Vec<Finding>) {
    let mut area = Area { name: "spool", findings };
    match keeping::obstacle(paths) {
        Some(error) if unusable.contains(&cause(&error)) => {}
        Some(error) if keeping::is_seen_from_a_sandbox(&error, paths) => {
            area.note(
                "cannot be written by this command",
                "The hooks of an agent run outside of its sandbox.",
            );
        }
        Some(error) => area.bad(
            format!("events are lost while the daemon is down: {}", keeping::reason(&error)),
            folder_hint(&error),
        ),
        None => {
            let waiting = Spool::new(paths).list(usize::MAX).map_or(0, |names| names.len());
            area.good(format!("{waiting} events waiting for the daemon"));
        }
    }
    let losses = Losses::new(paths);
    let lost = losses.lost();
    if lost.events > 0 {
        let sentence = keeping::lost_sentence(&lost);
        let is_recent = lost.last.and_then(|last| last.elapsed().ok()).is_none_or(|age| age < RECENTLY);
        if is_recent {
            area.bad(
                sentence,
                "They cannot be recovered. Make sure that the daemon runs, that recall's folders are writable and that \
                 their disk has room.",
            );
        } else {
            area.note(sentence, "They cannot be recovered.");
        }
    }
    losses.mark_reported();
}
