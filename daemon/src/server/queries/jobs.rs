//! `recall ctl jobs`, `recall ctl retry` and `recall stats`: compression and what it costs.

use recall_protocol::wire::Filter;

use super::{QueryResult, Refused, json, limit};
use crate::actors::compression::CompressionMessage;
use crate::actors::services::Services;
use crate::app::clock;
use crate::memory::ids::{JobId, Timestamp};
use crate::server::answers::status::{JobsAnswer, StatsAnswer};
use crate::store::{self, Jobs, RetryJobs};

pub(super) fn jobs(services: &Services, which: Jobs, filter: &Filter) -> QueryResult {
    let since = filter.since_ms.map(Timestamp);
    let rows = services.readers.read(|db| store::jobs(db, which, since, limit(filter)))?;
    json(&JobsAnswer { jobs: rows.into_iter().map(Into::into).collect() })
}

pub(super) async fn retry(services: &Services, only: Option<JobId>) -> QueryResult {
    // First the providers: a job that is tried before they may be asked is put off again.
    let _ = services.compression.tell(CompressionMessage::Reconsider);
    match services.writer.write(RetryJobs { only }).await {
        Ok(0) if only.is_some() => Err(Refused::new(
            "There is no such job that waits or was given up",
            "`recall ctl jobs --dead` lists those that were.",
        )),
        Ok(jobs) => json(&serde_json::json!({"retried": jobs})),
        Err(error) => Err(Refused::new(
            format!("The jobs could not be changed: {error}"),
            "Try again; the daemon's log says more.",
        )),
    }
}

pub(super) fn stats(services: &Services, days: u32) -> QueryResult {
    const DAY_MS: i64 = 24 * 3600 * 1000;
    let back = i64::from(days.clamp(1, 3_660) - 1) * DAY_MS;
    let since = clock::day_of(Timestamp(clock::now().0.saturating_sub(back)));
    let rows = services.readers.read(|db| store::spending(db, &since))?;
    json(&StatsAnswer::of(rows))
}
