//! Runs a user's query in its own process, `recall sql-reader`. SQLite's memory can be limited only for a whole
//! process, and a step that takes too long can be ended only with its process.

use std::io::{Read, Write};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use recall_protocol::core_dump;
use recall_protocol::query::Sql;
use rustix::process::{Resource, Rlimit, setrlimit};
use serde::{Deserialize, Serialize};

use recall_store::{Found, QueryError, QueryLimits, Readers};
use recall_system::process_group::{ProcessGroup, until};

/// The name of the command that runs the reader.
pub const COMMAND: &str = "sql-reader";
const MOST_ROWS: u32 = 10_000;
/// The maximum size of an answer in bytes, so that it fits into a frame when escaped as JSON.
pub const MOST_BYTES: usize = 4 * 1024 * 1024;
const WITHIN: Duration = Duration::from_secs(10);
/// The time after which the reader stops by itself, unless a single step takes longer.
const ENDS_WITHIN: Duration = Duration::from_secs(11);
/// SQLite's memory limit in bytes, including temporary tables.
const SQLITE_BYTES: u32 = 128 * 1024 * 1024;
/// The reader's address space in bytes: SQLite's memory, the answer, the program and its libraries.
const PROCESS_BYTES: u64 = 1024 * 1024 * 1024;
/// The maximum number of bytes read from the reader's output. A character takes at most six bytes in JSON.
const MOST_ANSWERED: u64 = 8 * MOST_BYTES as u64;
/// How long the end of the output may take once the reader has ended.
const OUTPUT_WITHIN: Duration = Duration::from_secs(2);

/// The request that the reader process receives on stdin.
#[derive(Serialize, Deserialize)]
struct Task {
    database: PathBuf,
    text: String,
    limits: QueryLimits,
}

/// Runs a query in a reader process. Blocks until it has ended, or its time is up.
///
/// # Errors
/// Fails when the reader cannot be started, or the query fails.
pub(crate) fn read_apart(readers: &Readers, request: &Sql) -> Result<Found, QueryError> {
    let limits = QueryLimits { rows: request.limit.min(MOST_ROWS) as usize, bytes: MOST_BYTES, time: WITHIN };
    let task = Task { database: readers.path().to_owned(), text: request.text.clone(), limits };
    let failed = |why: String| QueryError::Unreadable(format!("the reader failed: {why}"));
    let task = serde_json::to_vec(&task).map_err(|error| failed(error.to_string()))?;
    let mut group = start().map_err(|error| failed(error.to_string()))?;
    if let Some(mut stdin) = group.take_stdin() {
        // The reader may end before it has read everything. Its answer then shows the cause.
        std::thread::spawn(move || drop(stdin.write_all(&task)));
    }
    let (sender, output) = mpsc::channel();
    if let Some(stdout) = group.take_stdout() {
        std::thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stdout.take(MOST_ANSWERED).read_to_end(&mut bytes);
            let _ = sender.send(bytes);
        });
    }
    let ended =
        group.finish(until(Instant::now() + ENDS_WITHIN)).map_err(|error| failed(error.to_string()))?;
    if ended.is_none() {
        return Err(QueryError::TooLong(WITHIN.as_secs()));
    }
    let answer = output.recv_timeout(OUTPUT_WITHIN).unwrap_or_default();
    // A missing answer means that the reader was killed by its memory limit.
    serde_json::from_slice::<Result<Found, QueryError>>(&answer).map_err(|_| QueryError::TooMuchMemory)?
}

fn start() -> std::io::Result<ProcessGroup> {
    let mut command = Command::new(own_program()?);
    command.arg(COMMAND).env_clear().current_dir("/");
    ProcessGroup::spawn(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()))
}

/// Returns the path of the running program. On Linux this works even after an update replaced its file, which matters
/// because both sides must have the same version.
fn own_program() -> std::io::Result<PathBuf> {
    let running = PathBuf::from("/proc/self/exe");
    if running.exists() { Ok(running) } else { std::env::current_exe() }
}

/// Runs the reader: answers one task of the daemon.
///
/// # Errors
/// Fails when stdin or stdout fail.
pub fn serve(stdin: impl Read, stdout: &mut dyn Write) -> anyhow::Result<()> {
    core_dump::disable();
    let limit = |most| Rlimit { current: Some(most), maximum: Some(most) };
    // If the system has no such limit, SQLite's own remains, and the daemon ends the process in time.
    let _ = setrlimit(Resource::As, limit(PROCESS_BYTES));
    let _ = setrlimit(Resource::Cpu, limit(ENDS_WITHIN.as_secs() + 1));
    let task: Task = serde_json::from_reader(stdin)?;
    let answer = recall_store::bound_memory(SQLITE_BYTES)
        .map_err(QueryError::from)
        .and_then(|()| recall_store::query(&Readers::new(&task.database), &task.text, task.limits));
    serde_json::to_writer(&mut *stdout, &answer)?;
    Ok(stdout.flush()?)
}
