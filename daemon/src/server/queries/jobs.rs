//! `recall ctl jobs`, `recall ctl retry` and `recall stats`: compression and what it costs.

use recall_protocol::query::{Jobs, Stats, WhichJobs};
use recall_protocol::wire::ErrorKind;

use super::{Answer, Refused, limit};
use crate::actors::compression::CompressionMessage;
use crate::actors::services::Services;
use crate::app::clock;
use crate::memory::ids::{JobId, Timestamp};
use crate::server::answers::status::{JobsAnswer, RetryAnswer, StatsAnswer};
use crate::store::{self, RetryJobs};

pub(super) fn jobs(services: &Services, request: Jobs) -> Answer<JobsAnswer> {
    let Jobs { which, filter } = request;
    let which = match which {
        WhichJobs::All => store::Jobs::All,
        WhichJobs::Dead => store::Jobs::Dead,
    };
    let since = filter.since_ms.map(Timestamp);
    let rows = services.readers.read(|db| store::jobs(db, which, since, limit(&filter)))?;
    Ok(JobsAnswer { jobs: rows.into_iter().map(Into::into).collect() })
}

pub(super) async fn retry(services: &Services, only: Option<JobId>) -> Answer<RetryAnswer> {
    // First the providers: a job that is tried before they may be asked is put off again.
    let _ = services.compression.tell(CompressionMessage::Reconsider);
    match services.writer.write(RetryJobs { only }).await {
        Ok(0) if only.is_some() => Err(Refused::new(
            ErrorKind::NotFound,
            "There is no such job that waits or was given up",
            "`recall ctl jobs --dead` lists those that were.",
        )),
        Ok(jobs) => Ok(RetryAnswer { retried: jobs }),
        Err(error) => Err(Refused::new(
            ErrorKind::Internal,
            format!("The jobs could not be changed: {error}"),
            "Try again; the daemon's log says more.",
        )),
    }
}

pub(super) fn stats(services: &Services, Stats { days }: Stats) -> Answer<StatsAnswer> {
    const DAY_MS: i64 = 24 * 3600 * 1000;
    let back = i64::from(days.clamp(1, 3_660) - 1) * DAY_MS;
    let since = clock::day_of(Timestamp(clock::now().0.saturating_sub(back)));
    let rows = services.readers.read(|db| store::spending(db, &since))?;
    Ok(StatsAnswer::of(rows))
}
