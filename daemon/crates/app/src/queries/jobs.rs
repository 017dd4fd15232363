//! `recall ctl jobs` and `recall stats`: compression and its cost.

use recall_protocol::query::{Jobs, Stats, WhichJobs};

use super::{Answer, limit};
use crate::answers::status::{JobsAnswer, StatsAnswer};
use crate::clock;
use crate::context_lookup::ContextLookup;
use recall_domain::ids::Timestamp;

pub fn jobs(lookup: &ContextLookup, request: Jobs) -> Answer<JobsAnswer> {
    let Jobs { which, filter } = request;
    let which = match which {
        WhichJobs::All => recall_store::Jobs::All,
        WhichJobs::Dead => recall_store::Jobs::Dead,
    };
    let since = filter.since_ms.map(Timestamp);
    let rows = lookup.readers.read(|db| db.jobs(which, since, limit(&filter)))?;
    Ok(JobsAnswer { jobs: rows.into_iter().map(Into::into).collect() })
}

pub fn stats(lookup: &ContextLookup, Stats { days }: Stats) -> Answer<StatsAnswer> {
    const DAY_MS: i64 = 24 * 3600 * 1000;
    let back = i64::from(days.clamp(1, 3_660) - 1) * DAY_MS;
    let first = Timestamp(clock::now().0.saturating_sub(back));
    let since = clock::day_of(first);
    let (rows, counts) = lookup.readers.read(|db| {
        // From the beginning of the first day.
        let begins = clock::midnight_after(Timestamp(first.0.saturating_sub(DAY_MS)));
        Ok((db.spending(&since)?, db.injection_use_counts(begins)?))
    })?;
    Ok(StatsAnswer { told: counts.into(), ..StatsAnswer::of(rows) })
}
