//! `recall ctl retry`: retries jobs that are waiting or have been given up.

use recall_protocol::wire::ErrorKind;

use super::CommandContext;
use crate::answers::status::RetryAnswer;
use crate::ports::{Ports, Writer};
use crate::queries::{Answer, Refused};
use recall_domain::ids::JobId;
use recall_store::RetryJobs;

pub async fn retry(context: &CommandContext<impl Ports>, only: Option<JobId>) -> Answer<RetryAnswer> {
    // Providers come first, because a job that runs while their circuit is open is delayed again.
    context.ports.reconsider_providers();
    match context.ports.writer().write(RetryJobs { only }).await {
        Ok(0) if only.is_some() => Err(Refused::new(
            ErrorKind::NotFound,
            "No waiting or failed job has this number",
            "`recall ctl jobs --dead` lists jobs that were given up.",
        )),
        Ok(jobs) => Ok(RetryAnswer { retried: jobs }),
        Err(error) => Err(Refused::new(
            ErrorKind::Internal,
            format!("The jobs could not be changed: {error}"),
            "Try again, or see the daemon's log.",
        )),
    }
}
