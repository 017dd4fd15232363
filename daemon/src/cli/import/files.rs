//! Finds the files in which agents keep their sessions.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::cli::failure::Failure;
use recall_agents::history::{self, HistoryFolder, RecordedHistory};
use recall_agents::{AGENTS, AgentSpec};

/// Deeper folders are not searched.
const MOST_DEEP: usize = 8;

/// Where one session is.
pub(super) struct SessionFile {
    pub(super) spec: &'static AgentSpec,
    pub(super) path: PathBuf,
    /// The session's id in a file with several sessions.
    pub(super) inside: Option<String>,
    pub(super) modified: SystemTime,
}

/// Lists the newest first, so that an interrupted import has the most useful part. Fails if a named path does not
/// exist, or there is no home folder.
pub(super) fn find(source: Option<&str>, path: Option<&Path>) -> anyhow::Result<Vec<SessionFile>> {
    let mut files = Vec::new();
    let agents = AGENTS.iter().filter(|spec| source.is_none_or(|source| source == spec.name));
    for spec in agents {
        let Some(history) = spec.history else { continue };
        // Other users' files are not opened, because a library might block on them.
        let inside = |path: &Path| match (history.inside, history::open(path)) {
            (Some(inside), Ok(_)) => Some(inside(path)),
            (None, _) | (_, Err(_)) => None,
        };
        let mut add = |path: PathBuf, modified| match inside(&path) {
            Some(Ok(ids)) => files.extend(ids.into_iter().map(|id| SessionFile {
                spec,
                path: path.clone(),
                inside: Some(id),
                modified,
            })),
            // The reader reports the problem.
            Some(Err(_)) | None => files.push(SessionFile { spec, path, inside: None, modified }),
        };
        match path {
            Some(path) => {
                let known = std::fs::metadata(path).map_err(|error| {
                    Failure::usage(format!("Cannot read {}: {error}", path.display()))
                        .hint("Give a file, or a folder with files, of that agent.")
                })?;
                match known.is_dir() {
                    true => walk(path, MOST_DEEP, &history.is_session, &mut add),
                    // A file that the user names is a session, whatever its name.
                    false => add(path.to_owned(), known.modified().unwrap_or(SystemTime::UNIX_EPOCH)),
                }
            }
            None => {
                let home = std::env::home_dir().filter(|home| home.is_absolute());
                let home = home.ok_or_else(|| {
                    Failure::failed("Cannot find the home folder").hint("Set HOME to an absolute path.")
                })?;
                for folder in folders(spec, &home) {
                    walk(&folder, MOST_DEEP, &history.is_session, &mut add);
                }
            }
        }
    }
    files.sort_by(|a, b| (b.modified, &a.path).cmp(&(a.modified, &b.path)));
    files.dedup_by(|a, b| (&a.path, &a.inside) == (&b.path, &b.inside));
    Ok(files)
}

pub(crate) fn folders(spec: &AgentSpec, home: &Path) -> Vec<PathBuf> {
    let Some(RecordedHistory { place, also, .. }) = &spec.history else { return Vec::new() };
    match place {
        HistoryFolder::Agent(folder) => {
            let moved = spec.host.folder_variable.and_then(|variable| std::env::var(variable).ok());
            let own = spec.host.folders(home, moved.as_deref());
            own.iter()
                .flat_map(|own| [folder].into_iter().chain(also.iter()).map(|folder| own.join(folder)))
                .collect()
        }
        HistoryFolder::UserData(folder) => {
            let data = std::env::var_os("XDG_DATA_HOME").map(PathBuf::from).filter(|path| path.is_absolute());
            vec![data.unwrap_or_else(|| home.join(".local/share")).join(folder)]
        }
    }
}

/// Walks a folder without following symlinks. Unreadable folders are treated as empty.
fn walk(
    folder: &Path,
    deep: usize,
    is_session: &dyn Fn(&Path) -> bool,
    add: &mut impl FnMut(PathBuf, SystemTime),
) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let (path, Ok(kind)) = (entry.path(), entry.file_type()) else { continue };
        if kind.is_dir() && deep > 0 {
            walk(&path, deep - 1, is_session, add);
        } else if kind.is_file() && is_session(&path) {
            let modified = entry.metadata().and_then(|known| known.modified());
            add(path, modified.unwrap_or(SystemTime::UNIX_EPOCH));
        }
    }
}
