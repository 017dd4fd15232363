//! `recall improve`: which notes a model would rewrite, at what cost, and the progress.

use recall_protocol::query::{Filter, Improvable, Improving};
use recall_protocol::wire::ErrorKind;

use super::{Answer, Refused, projects, read};
use crate::answers::improving::{ImprovableAnswer, ImprovingAnswer, SpentToday};
use crate::answers::status::dollars;
use crate::clock;
use crate::context_lookup::ContextLookup;
use crate::material::notes_material;
use recall_compression::estimate::{self, Estimate};
use recall_compression::policy::CompressionPolicy;
use recall_domain::ids::{JobId, ProjectRow, Timestamp};
use recall_store::Lives;

/// The number of sessions per run. Their cost is estimated before any model is asked.
const SESSIONS: u32 = 100;
pub(crate) const MOST_SESSIONS: u32 = 1_000;

/// Returns the model's name. Without a model there is nothing to do, and the refusal says what to set.
pub(crate) fn asks_a_model(policy: &CompressionPolicy) -> Result<String, Refused> {
    match policy.backends.first() {
        Some(backend) => Ok(backend.origin()),
        None => Err(Refused::new(
            ErrorKind::Invalid,
            "No model is configured that could write notes",
            "Set one, for example `recall config set compression.backend claude-cli`, try it with `recall config test`, \
             and cap it with `recall config set compression.tokens_per_day 100000`.",
        )),
    }
}

pub fn improvable(
    lookup: &ContextLookup,
    policy: &CompressionPolicy,
    Improvable { filter }: Improvable,
) -> Answer<ImprovableAnswer> {
    let backend = asks_a_model(policy)?;
    let today = clock::day_of(clock::now());
    read(lookup, |db| {
        let rows: Option<Vec<ProjectRow>> =
            projects(db, &filter)?.map(|found| found.iter().map(|project| project.row).collect());
        let since = filter.since_ms.map(Timestamp);
        let found = db.improvable(rows.as_deref(), since, limit(&filter))?;
        let all = db.count_improvable(rows.as_deref(), since)?;
        let mut sum = Estimate::default();
        for session in &found {
            let due = db.due_notes(session.row, Lives::NoLonger)?;
            let material = notes_material(db, lookup.agents, session.row, Lives::NoLonger, &due)?;
            sum = sum.and(estimate::of_notes(material, policy));
        }
        let spent = db.spent(&today)?;
        let is_priced = policy
            .backends
            .first()
            .is_some_and(|backend| backend.prices.per_mtok_in > 0 || backend.prices.per_mtok_out > 0);
        Ok(ImprovableAnswer {
            backend,
            more: all.saturating_sub(found.len() as u64),
            sessions: found.into_iter().map(Into::into).collect(),
            calls: sum.calls,
            tokens: sum.usage.tokens(),
            usd: is_priced.then(|| dollars(sum.usage.micro_usd)),
            today: SpentToday {
                tokens: spent.tokens(),
                tokens_per_day: policy.caps.tokens,
                usd: dollars(spent.micro_usd),
                usd_per_day: dollars(policy.caps.micro_usd),
            },
            under_way: db.improving_jobs()?.into_iter().map(|job| job.0).collect(),
        })
    })
}

fn limit(filter: &Filter) -> u32 {
    filter.limit.unwrap_or(SESSIONS).min(MOST_SESSIONS)
}

pub fn improving(lookup: &ContextLookup, Improving { jobs }: Improving) -> Answer<ImprovingAnswer> {
    let jobs: Vec<JobId> = jobs.into_iter().map(JobId).collect();
    let progress = lookup.readers.read(|db| db.job_progress(&jobs))?;
    Ok(ImprovingAnswer::of(jobs.len() as u64, progress, clock::now().0))
}
