//! The log: to stderr for whoever started the daemon, or to a file of bounded size where nobody reads stderr.
//!
//! Ids and lengths are logged, never content.

use std::fs::{File, OpenOptions};
use std::io::{self, IsTerminal, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

/// The file is set aside at this size; one older file is kept.
const MOST_BYTES: u64 = 4 * 1024 * 1024;

/// Starts logging. `RECALL_LOG` holds the filter, e.g. `debug` or `recall::server=trace`.
pub fn start(file: &Path) {
    let filter = EnvFilter::try_from_env("RECALL_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_target(false);
    // Where the log cannot be written the command says what is wrong, once.
    let builder = builder.log_internal_errors(false);
    let read_by_somebody = io::stderr().is_terminal() || std::env::var_os("JOURNAL_STREAM").is_some();
    // A second start in one process keeps the first log: only tests do that.
    let started = if read_by_somebody {
        builder.with_writer(io::stderr).with_ansi(io::stderr().is_terminal()).try_init()
    } else {
        builder.with_writer(LogFile::new(file)).with_ansi(false).try_init()
    };
    drop(started);
    tell_panics();
}

/// A panic is told by its place alone: what it says may quote the text that it stumbled over.
fn tell_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        tracing::error!(place, "panicked: this is a bug of recall");
    }));
}

/// A file that is set aside when it has grown enough.
#[derive(Clone)]
struct LogFile {
    path: PathBuf,
    open: Arc<Mutex<Option<(File, u64)>>>,
}

impl LogFile {
    fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), open: Arc::default() }
    }

    fn open(&self) -> io::Result<(File, u64)> {
        if let Some(folder) = self.path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let nofollow = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();
        let file = OpenOptions::new()
            .append(true)
            .create(true)
            .mode(0o600)
            .custom_flags(nofollow)
            .open(&self.path)?;
        let length = file.metadata()?.len();
        Ok((file, length))
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
    use std::process::Command;

    use super::*;

    /// Where the program that panics shall log.
    const LOG: &str = "RECALL_TEST_PANIC_LOG";

    /// The panicking program is this test again: a hook is for the whole process.
    #[test]
    fn a_panic_is_told_by_its_place_and_not_in_its_words() {
        if let Some(file) = std::env::var_os(LOG) {
            start(Path::new(&file));
            let text = std::hint::black_box("h\u{e9}liotrope quokka");
            assert!(std::thread::spawn(move || text[..2].len()).join().is_err());
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("recall.log");
        let name = "server::log::tests::a_panic_is_told_by_its_place_and_not_in_its_words";
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--nocapture"]).env(LOG, &file).env_remove("JOURNAL_STREAM");
        let said = command.output().unwrap();
        assert!(said.status.success(), "{said:?}");
        let log = std::fs::read_to_string(&file).unwrap();
        assert!(log.contains("panicked") && log.contains("log.rs"), "{log}");
        let stderr = String::from_utf8_lossy(&said.stderr);
        assert!(!log.contains("quokka") && !stderr.contains("quokka"), "{log}\n{stderr}");
    }

    #[test]
    fn the_log_stays_small() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("state/daemon.log");
        let mut log = LogFile::new(&path);
        let line = vec![b'x'; 64 * 1024];
        for _ in 0..200 {
            log.write_all(&line).unwrap();
        }
        let total: u64 = std::fs::read_dir(path.parent().unwrap())
            .unwrap()
            .map(|entry| entry.unwrap().metadata().unwrap().len())
            .sum();
        assert!(total <= 2 * MOST_BYTES + line.len() as u64, "{total}");
        assert!(total > MOST_BYTES);
    }
}
