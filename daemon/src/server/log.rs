//! Writes the log to stderr if somebody reads it there, otherwise to a file of bounded size.
//!
//! The log contains ids and lengths, never content.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use recall_protocol::folder;
use recall_protocol::paths::Paths;
use rustix::fs::OFlags;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The size in bytes at which the file is rotated; one older file is kept.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// Starts logging. `RECALL_LOG` is the filter, such as `debug` or `recall::server=trace`.
pub fn start(paths: &Paths) {
    let filter = EnvFilter::try_from_env("RECALL_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    // If the log cannot be written, the command reports it once.
    let builder = builder.log_internal_errors(false);
    let read_by_somebody = io::stderr().is_terminal() || std::env::var_os("JOURNAL_STREAM").is_some();
    // A second start in one process, as in tests, keeps the first log.
    let started = if read_by_somebody {
        builder.with_writer(io::stderr).with_ansi(io::stderr().is_terminal()).try_init()
    } else {
        builder.with_writer(LogFile::new(paths)).with_ansi(false).try_init()
    };
    drop(started);
    log_panics();
}

/// Logs only the location of a panic, because its message may quote the text that caused it.
fn log_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panicked: this is a bug in recall");
    }));
}

/// A log file that is rotated at its size limit.
#[derive(Clone)]
struct LogFile {
    path: PathBuf,
    /// Folders that must be ours alone before anything is written, outermost first.
    folders: Vec<PathBuf>,
    open: Arc<Mutex<Option<(File, u64)>>>,
}

impl LogFile {
    fn new(paths: &Paths) -> Self {
        let folders = [paths.state_folders(), vec![paths.log_dir()]].concat();
        let log = Self { path: paths.log_file(), folders, open: Arc::default() };
        // Opened now, so that folders are private before anybody can connect. Each line retries a failed open.
        *log.open.lock().unwrap_or_else(PoisonError::into_inner) = log.open().ok();
        log
    }

    /// Opens the file, unless somebody else may have prepared it or its folder. Does not block on a pipe.
    fn open(&self) -> io::Result<(File, u64)> {
        self.folders.iter().try_for_each(|folder| folder::secure(folder)).map_err(io::Error::other)?;
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(flags.bits().cast_signed())
            .open(&self.path)?;
        let found = file.metadata()?;
        if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
            return Err(io::Error::other("not a regular file of this user"));
        }
        Ok((file, found.len()))
    }
}

impl Write for LogFile {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let (mut file, length) = match open.take() {
            Some(current) => current,
            None => self.open()?,
        };
        file.write_all(line)?;
        let length = length + line.len() as u64;
        if length < MOST_BYTES {
            *open = Some((file, length));
        } else {
            std::fs::rename(&self.path, self.path.with_extension("log.1"))?;
        }
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogFile {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::process::Command;

    use super::*;

    /// Names the home of the program that panics.
    const HOME: &str = "RECALL_TEST_PANIC_HOME";

    fn paths(home: &Path) -> Paths {
        Paths::from_variables(&|name| (name == "RECALL_HOME").then(|| home.into())).unwrap()
    }

    /// This test starts itself again as the panicking program, because a panic hook is for the whole process.
    #[test]
    fn a_panic_is_logged_with_its_place_but_without_its_message() {
        if let Some(home) = std::env::var_os(HOME) {
            start(&paths(Path::new(&home)));
            let text = std::hint::black_box("h\u{e9}liotrope quokka");
            assert!(std::thread::spawn(move || text[..2].len()).join().is_err());
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let name = "server::log::tests::a_panic_is_logged_with_its_place_but_without_its_message";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--nocapture"]).env(HOME, home.path()).env_remove("JOURNAL_STREAM");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        let log = std::fs::read_to_string(paths(home.path()).log_file()).unwrap();
        assert!(log.contains("panicked") && log.contains("log.rs"), "{log}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(!log.contains("quokka") && !stderr.contains("quokka"), "{log}\n{stderr}");
    }

    #[test]
    fn the_log_stays_small() {
        let home = tempfile::tempdir().unwrap();
        let paths = paths(home.path());
        let mut log = LogFile::new(&paths);
        let line = vec![b'x'; 64 * 1024];
        for _ in 0..200 {
            log.write_all(&line).unwrap();
        }
        let total: u64 = std::fs::read_dir(paths.log_dir())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!(total <= 2 * MOST_BYTES + line.len() as u64, "{total}");
        assert!(total > MOST_BYTES);
    }

    #[test]
    fn a_pipe_or_symlink_in_place_of_the_log_is_rejected() {
        let home = tempfile::tempdir().unwrap();
        let paths = paths(home.path());
        LogFile::new(&paths).write_all(b"line").unwrap();
        let (file, elsewhere) = (paths.log_file(), home.path().join("elsewhere"));
        std::fs::remove_file(&file).unwrap();
        let mode = rustix::fs::Mode::from_raw_mode(0o600);
        rustix::fs::mknodat(rustix::fs::CWD, &file, rustix::fs::FileType::Fifo, mode, 0).unwrap();
        assert!(LogFile::new(&paths).write_all(b"line").is_err());
        // The same with a reader on the pipe.
        let reader = OpenOptions::new().read(true).write(true).open(&file).unwrap();
        assert!(LogFile::new(&paths).write_all(b"line").is_err());
        drop(reader);
        std::fs::remove_file(&file).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &file).unwrap();
        assert!(LogFile::new(&paths).write_all(b"line").is_err());
        // A folder that is a symlink is refused as well.
        std::fs::remove_dir_all(paths.log_dir()).unwrap();
        std::fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, paths.log_dir()).unwrap();
        assert!(LogFile::new(&paths).write_all(b"line").is_err());
        assert_eq!(std::fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}
