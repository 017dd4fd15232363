//! The file in which a machine keeps what it knows of a team, its keys among it.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use recall_system::trusted_file::{self, Links};
use rustix::fs::FlockOperation;

use super::{Team, TeamError};

const MOST_BYTES: u64 = 1024 * 1024;

impl Team {
    /// Locks the team files against other processes until the result is dropped. Blocks.
    pub fn lock(data: &Path) -> Result<File, TeamError> {
        let folder = data.join("teams");
        let locked = std::fs::create_dir_all(&folder).and_then(|()| {
            let file = File::options().create(true).truncate(false).write(true).open(folder.join("lock"))?;
            rustix::fs::flock(&file, FlockOperation::LockExclusive)?;
            Ok(file)
        });
        locked.map_err(|error| TeamError::File(format!("{}: {error}", folder.display())))
    }

    /// Loads the file of a remote's team. Returns `None` if this machine is not in one.
    pub fn load(data: &Path, remote: &str) -> Result<Option<Self>, TeamError> {
        let path = file_of(data, remote)?;
        match trusted_file::read_text(&path, Links::Refused, MOST_BYTES) {
            Ok(text) => {
                serde_json::from_str(&text).map(Some).map_err(|error| TeamError::File(error.to_string()))
            }
            Err(why) if why.is_absence() => Ok(None),
            Err(why) => Err(TeamError::File(why.to_string())),
        }
    }

    /// Writes the file, readable only by this user.
    pub fn save(&self, data: &Path) -> Result<(), TeamError> {
        let path = file_of(data, &self.remote)?;
        self.write(&path).map_err(|error| TeamError::File(format!("{}: {error}", path.display())))
    }

    fn write(&self, path: &Path) -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder)?;
        // Temporary files are private to the user.
        let mut file = tempfile::NamedTempFile::new_in(folder)?;
        file.write_all(serde_json::to_string(self)?.as_bytes())?;
        file.as_file().sync_all()?;
        file.persist(path).map_err(|error| error.error)?;
        File::open(folder)?.sync_all()
    }

    /// Deletes the file. From then on this machine has no key.
    pub fn discard(data: &Path, remote: &str) -> Result<(), TeamError> {
        let path = file_of(data, remote)?;
        std::fs::remove_file(&path).map_err(|error| TeamError::File(format!("{}: {error}", path.display())))
    }
}

fn file_of(data: &Path, remote: &str) -> Result<PathBuf, TeamError> {
    // The remote chooses its name, so it is not trusted.
    let is_name =
        !remote.is_empty() && remote.len() <= 64 && remote.bytes().all(|byte| byte.is_ascii_alphanumeric());
    if is_name { Ok(data.join("teams").join(format!("{remote}.json"))) } else { Err(TeamError::Remote) }
}
