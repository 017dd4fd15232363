//! `recall ctl backup`, `restore`, `prune` and `reindex`.

use std::path::PathBuf;
use std::time::Duration;

use recall_protocol::query::{Backup, ForgetStep, Prune, RestoreBackup};
use recall_protocol::wire::ErrorKind;
use tokio::time::Instant;

use super::CommandContext;
use super::forget::forget_selection;
use crate::answers::by_hand::ForgetAnswer;
use crate::answers::upkeep::{BackupAnswer, ReindexAnswer, RestoreBackupAnswer};
use crate::clock;
use crate::forgetting::Request;
use crate::ports::{Ports, Writer};
use crate::queries::{Answer, Refused, blocking};
use recall_domain::ids::Timestamp;
use recall_store::{BackupError, Reindex, Selection, Unreadable};

/// The time within which a replacement of the database either succeeds or fails.
const RESTORED_WITHIN: Duration = Duration::from_secs(240);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
const REINDEXED_WITHIN: Duration = Duration::from_secs(300);

pub async fn backup(context: &CommandContext<impl Ports>, request: Backup) -> Answer<BackupAnswer> {
    // A copy begun before a forgetting must not be finished after it.
    let _alone = context.forgetting.backing_up.lock().await;
    let (readers, folder) = (context.context_lookup.readers.clone(), context.forgetting.backups.clone());
    blocking(move || {
        let target = match request.path {
            Some(path) => absolute(path)?,
            None => recall_store::backup_by_hand(&folder, clock::now()),
        };
        match readers.read(|db| Ok(db.back_up_to(&target)))? {
            Ok(()) => {
                let bytes = std::fs::metadata(&target).map_or(0, |file| file.len());
                Ok(BackupAnswer { path: target.to_string_lossy().into_owned(), bytes })
            }
            Err(BackupError::Source(error)) => {
                readers.suspect(&error);
                Err(error.into())
            }
            Err(error) => Err(Refused::new(
                ErrorKind::Conflict,
                format!("No backup was made: {}", recall_store::in_full(&error)),
                "Name a new file in a folder where you may write.",
            )),
        }
    })
    .await
}

fn absolute(path: String) -> Answer<PathBuf> {
    let path = PathBuf::from(path);
    if path.is_absolute() {
        return Ok(path);
    }
    Err(Refused::new(ErrorKind::Invalid, "The path is not absolute", ""))
}

pub async fn restore_backup(
    context: &CommandContext<impl Ports>,
    request: RestoreBackup,
) -> Answer<RestoreBackupAnswer> {
    let _alone = context.forgetting.backing_up.lock().await;
    let readers = context.context_lookup.readers.clone();
    let path = absolute(request.path)?;
    let looked_at = path.clone();
    blocking(move || {
        let hint = "Backups are in the folder `backups` next to the database; `recall ctl backup` makes one.";
        let refused = |what: String| Err(Refused::new(ErrorKind::Conflict, what, hint));
        match recall_store::is_usable(&looked_at) {
            Ok(true) => Ok(()),
            Ok(false) => refused(
                "This is not a recall database, or it belongs to a newer version; nothing was changed"
                    .to_owned(),
            ),
            Err(error) => refused(format!("This database cannot be restored: {error}; nothing was changed")),
        }
    })
    .await?;
    // Drops the result of an earlier replacement that nobody waited for.
    let _ = readers.replaced();
    readers.replace_by(path.clone());
    let deadline = Instant::now() + RESTORED_WITHIN;
    let not_replaced = |why: &str| {
        Refused::new(
            ErrorKind::Internal,
            format!("The database was not replaced{why}"),
            "The current database is still in use. See the daemon's log.",
        )
    };
    let replaced = loop {
        match readers.replaced() {
            Some(Ok(replaced)) => break replaced,
            Some(Err(why)) => return Err(not_replaced(&format!(": {why}"))),
            None if Instant::now() >= deadline => return Err(not_replaced("")),
            None => tokio::time::sleep(LOOK_AGAIN).await,
        }
    };
    // The write succeeds once the new database is in use.
    while context.ports.writer().write(recall_store::ExpireLeases { now: clock::now() }).await.is_err() {
        if Instant::now() >= deadline {
            return Err(not_replaced(": it cannot be written"));
        }
        tokio::time::sleep(LOOK_AGAIN).await;
    }
    // Nothing else may wake the indexer. If it does not finish, `recall ctl check` reports it.
    let _ = context.ports.flush_index(REINDEXED_WITHIN).await;
    Ok(RestoreBackupAnswer {
        restored: path.to_string_lossy().into_owned(),
        kept: replaced.damaged.to_string_lossy().into_owned(),
        forgotten: replaced.left_out.forgotten,
        left_behind: replaced.left_out.foreign,
    })
}

/// Forgets whole sessions, like `timers.retention_days`.
pub async fn prune(context: &CommandContext<impl Ports>, request: Prune) -> Answer<ForgetAnswer> {
    let Prune { silent_since_ms, step } = request;
    let now = clock::now();
    if silent_since_ms >= now.0 && step == ForgetStep::Forget {
        return Err(Refused::new(ErrorKind::Invalid, "This time is in the future", "Try --older-than 90d."));
    }
    let what = Selection::SilentSince(Timestamp(silent_since_ms));
    forget_selection(context, Request { what, unreadable: Unreadable::Stays }, step, now).await
}

pub async fn reindex(context: &CommandContext<impl Ports>) -> Answer<ReindexAnswer> {
    let not_done = |why: String| {
        Refused::new(
            ErrorKind::Internal,
            format!("The index is not complete: {why}"),
            "See the daemon's log.",
        )
    };
    let written = context.ports.writer().write(Reindex { at: clock::now() }).await;
    written.map_err(|error| not_done(error.to_string()))?;
    let flushed = context.ports.flush_index(REINDEXED_WITHIN).await;
    flushed.map_err(|_| not_done("it is still being built".to_owned()))?;
    let index = context.context_lookup.index.index();
    Ok(ReindexAnswer { documents: index.map_or(0, |index| index.documents()) })
}
