//! `recall sync`: what is shared with other machines, optionally after a round with every remote.

use std::time::Duration;

use recall_protocol::query::{SyncRound, SyncState};
use recall_protocol::wire::ErrorKind;

use crate::actors::services::Services;
use crate::actors::sync::SyncMessage;
use recall_app::answers::sharing::SyncAnswer;
use recall_app::queries::{Answer, Refused, blocking};
use recall_app::settings::CheckMode;
use recall_app::sharing::report::{NextRound, report};

/// The time limit of a round. A first round may read the whole past of a project.
const ROUND_WITHIN: Duration = Duration::from_secs(600);
const ANSWER_WITHIN: Duration = Duration::from_secs(2);

pub(super) async fn sync_state(services: &Services, SyncState { round }: SyncState) -> Answer<SyncAnswer> {
    // `recall share` may have changed the file a moment ago.
    let settings = services.syncing.settings.clone();
    blocking(move || {
        settings.check(CheckMode::Now);
        Ok(())
    })
    .await?;
    services.config.settle().await;
    if round == SyncRound::Now {
        let done = services.sync.ask(SyncMessage::Round, ROUND_WITHIN).await;
        done.map_err(|_| {
            Refused::new(
                ErrorKind::Unavailable,
                "The round with the remotes is not finished yet",
                "`recall sync` shows how far it is; the daemon continues.",
            )
        })?;
    }
    let next = services.sync.ask(SyncMessage::Next, ANSWER_WITHIN).await.unwrap_or(NextRound(None));
    let syncing = services.syncing.clone();
    blocking(move || report(&syncing, next)).await
}
