//! Asks git whether one commit contains another, because the files of a repository do not show it.
//!
//! Git runs in an empty repository of our own that only borrows the other repository's objects. So none of the other's
//! settings apply: no hook, no monitor, no command and no url. Git fetches nothing and has a deadline.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use recall_domain::checkout::Containment;
use recall_domain::ids::CommitId;
use recall_system::process_group::{ProcessGroup, until};

/// The deadline. A history of a million commits without a commit graph takes several seconds. No caller needs the
/// answer at once.
const ENDS_WITHIN: Duration = Duration::from_secs(5);

/// Whether `head` contains `commit`. Unknown if git is missing or too slow, or lacks one of the commits. Blocks.
pub fn containment(objects: &Path, head: &CommitId, commit: &CommitId) -> Containment {
    ask(objects, head, commit).unwrap_or(Containment::Unknown)
}

fn ask(objects: &Path, head: &CommitId, commit: &CommitId) -> Option<Containment> {
    let repository = EmptyRepository::new(head).ok()?;
    let mut command = Command::new("git");
    command
        .args(["merge-base", "--is-ancestor", commit.as_str(), head.as_str()])
        .env_clear()
        .envs(std::env::var_os("PATH").map(|path| ("PATH", path)))
        .env("GIT_DIR", repository.folder.path())
        .env("GIT_OBJECT_DIRECTORY", objects)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_NO_LAZY_FETCH", "1")
        .env("GIT_ALLOW_PROTOCOL", "none")
        .env("GIT_OPTIONAL_LOCKS", "0")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("RECALL_DISABLE", "1")
        .current_dir(repository.folder.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let ended = ProcessGroup::spawn(&mut command).ok()?.finish(until(Instant::now() + ENDS_WITHIN));
    match ended.ok()??.code()? {
        0 => Some(Containment::Contained),
        1 => Some(Containment::Missing),
        _ => None,
    }
}

/// A repository without objects of its own.
struct EmptyRepository {
    folder: tempfile::TempDir,
}

impl EmptyRepository {
    /// Uses the same hash format as the commit `like`.
    fn new(like: &CommitId) -> std::io::Result<Self> {
        let folder = tempfile::tempdir()?;
        let config = match like.as_str().len() {
            64 => {
                "[core]\n\trepositoryformatversion = 1\n\tbare = true\n[extensions]\n\tobjectformat = sha256\n"
            }
            _ => "[core]\n\trepositoryformatversion = 0\n\tbare = true\n",
        };
        std::fs::write(folder.path().join("HEAD"), "ref: refs/heads/none\n")?;
        std::fs::write(folder.path().join("config"), config)?;
        std::fs::create_dir(folder.path().join("refs"))?;
        std::fs::create_dir(folder.path().join("objects"))?;
        Ok(Self { folder })
    }
}
