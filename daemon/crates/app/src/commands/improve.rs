//! `recall improve`: queues the sessions whose notes a model should rewrite.

use recall_protocol::query::Improve;
use recall_protocol::wire::ErrorKind;

use super::CommandContext;
use crate::answers::improving::ImproveAnswer;
use crate::clock;
use crate::ports::{Ports, Writer};
use crate::queries::improving::{MOST_SESSIONS, asks_a_model};
use crate::queries::{Answer, Refused};
use recall_compression::policy::CompressionPolicy;
use recall_domain::ids::SessionRow;
use recall_store::ImproveSessions;

pub async fn improve(
    context: &CommandContext<impl Ports>,
    policy: &CompressionPolicy,
    Improve { sessions }: Improve,
) -> Answer<ImproveAnswer> {
    asks_a_model(policy)?;
    if sessions.len() > MOST_SESSIONS as usize {
        return Err(Refused::new(ErrorKind::Invalid, "Too many sessions at once", "Give a smaller --limit."));
    }
    let sessions = sessions.into_iter().map(SessionRow).collect();
    match context.ports.writer().write(ImproveSessions { sessions, now: clock::now() }).await {
        Ok(jobs) => Ok(ImproveAnswer { jobs: jobs.into_iter().map(|job| job.0).collect() }),
        Err(error) => Err(Refused::new(
            ErrorKind::Internal,
            format!("The sessions could not be queued: {error}"),
            "Try again, or see the daemon's log.",
        )),
    }
}
