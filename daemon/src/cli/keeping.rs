//! Warns if events cannot be stored or were lost.
//!
//! A hook that cannot store its event prints nothing, because the agent would show that to the model. Instead, the
//! next command that a person runs prints the warning.

use std::io::{ErrorKind, Write};
use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use recall_protocol::client::{ConnectError, Connection};
use recall_protocol::folder::{self, FolderError};
use recall_protocol::frame::Deadline;
use recall_protocol::losses::{Losses, Lost};
use recall_protocol::paths::Paths;

use super::terminal::WARNING;

/// How long a live daemon may take to accept a connection.
const LIVES_WITHIN: Duration = Duration::from_millis(200);

/// Why a folder is unusable, with its cause but without the error number.
pub fn reason(error: &FolderError) -> String {
    match error {
        FolderError::Create { source, .. }
        | FolderError::Write { source, .. }
        | FolderError::Restrict { source, .. } => format!("{error}: {}", source.kind()),
        FolderError::Symlink { .. }
        | FolderError::NotAFolder { .. }
        | FolderError::Foreign { .. }
        | FolderError::DiskFull { .. }
        | FolderError::QuotaUsedUp { .. } => error.to_string(),
    }
}

/// Returns why the spool accepts no events; `None` if it does.
pub fn obstacle(paths: &Paths) -> Option<FolderError> {
    let mut folders = paths.state_folders();
    folders.extend([paths.spool_dir(), paths.spool_dir().join("tmp"), paths.spool_dir().join("new")]);
    let unwritable = folders.iter().find_map(|folder| folder::check_writable(folder).err());
    unwritable.or_else(|| folder::check_room(paths.state_dir()).err())
}

/// Whether this command runs in a sandbox that forbids writing, while a daemon is running outside of it.
pub fn is_seen_from_a_sandbox(error: &FolderError, paths: &Paths) -> bool {
    let (FolderError::Create { source, .. }
    | FolderError::Write { source, .. }
    | FolderError::Restrict { source, .. }) = error
    else {
        return false;
    };
    matches!(source.kind(), ErrorKind::ReadOnlyFilesystem | ErrorKind::PermissionDenied)
        && matches!(
            Connection::open(paths, Deadline::after(LIVES_WITHIN)),
            Ok(_) | Err(ConnectError::Forbidden)
        )
}

/// Describes lost events: a sentence without a full stop.
pub fn lost_sentence(lost: &Lost) -> String {
    let events =
        if lost.events == 1 { "1 event was".to_owned() } else { format!("{} events were", lost.events) };
    let when = match (lost.first.map(moment), lost.last.map(moment)) {
        (Some(first), Some(last)) if first != last => format!(", from {first} to {last}"),
        (_, Some(last)) => format!(", at {last}"),
        (_, None) => String::new(),
    };
    format!("{events} dropped because the spool was full or could not be written{when}")
}

fn moment(time: SystemTime) -> String {
    let zoned = Timestamp::try_from(time).map(|time| time.to_zoned(jiff::tz::TimeZone::system()));
    zoned.map(|time| time.strftime("%Y-%m-%d %H:%M").to_string()).unwrap_or_default()
}

/// Prints a warning on stderr if something is wrong. Each loss is reported once.
pub fn warn() {
    // The command itself reports a missing home folder.
    let Ok(paths) = Paths::from_env() else { return };
    let losses = Losses::new(&paths);
    let obstacle = obstacle(&paths).filter(|error| !is_seen_from_a_sandbox(error, &paths));
    let news = losses.news();
    if obstacle.is_none() && news.events == 0 {
        return;
    }
    let mut err = anstream::AutoStream::auto(std::io::stderr().lock());
    if let Some(error) = obstacle {
        let what = match error {
            // A small event may still fit, and the database may be on a different disk.
            FolderError::DiskFull { .. } | FolderError::QuotaUsedUp { .. } => "events can be lost",
            _ => "events are being lost",
        };
        let _ = writeln!(err, "{WARNING}warning:{WARNING:#} {what}: {}.", reason(&error));
    }
    if news.events > 0 {
        let _ = writeln!(err, "{WARNING}warning:{WARNING:#} {}.", lost_sentence(&news));
        losses.mark_reported();
    }
    let _ = writeln!(err, "  hint: Run `recall doctor` for details.");
}
