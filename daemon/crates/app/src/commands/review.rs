//! `recall review`: what machines noted and nobody has looked at, and a person's verdicts on it.

use recall_protocol::query::{Review, Unreviewed, Verdict};

use super::CommandContext;
use super::by_hand::{not_written, show, unanswered};
use super::editing::observation;
use crate::answers::TextAnswer;
use crate::answers::browsing::{Entry, UnreviewedAnswer};
use crate::answers::observation::ObservationAnswer;
use crate::clock;
use crate::context_lookup::ContextLookup;
use crate::ports::{Ports, Writer};
use crate::queries::{Answer, limit, projects, read};
use recall_domain::ids::{ObservationId, Timestamp};
use recall_domain::review;
use recall_store::ReviewObservations;

pub fn unreviewed(lookup: &ContextLookup, request: Unreviewed) -> Answer<UnreviewedAnswer> {
    let Unreviewed { filter, until_ms, skip } = request;
    read(lookup, |db| {
        let found = projects(db, &filter)?;
        let which = recall_store::Unreviewed {
            projects: found.map(|found| found.iter().map(|project| project.row).collect()),
            from: Timestamp(filter.since_ms.unwrap_or(i64::MIN)),
            until: Timestamp(until_ms.unwrap_or(i64::MAX)),
        };
        let waiting = db.count_unreviewed(&which)?;
        let mut entries = Vec::new();
        for (id, at) in db.unreviewed(&which, (skip, limit(&filter)))? {
            entries.extend(db.entry(id.into())?.map(|row| Entry::new(id.into(), at, row)));
        }
        Ok(UnreviewedAnswer { entries, waiting })
    })
}

pub async fn review(
    context: &CommandContext<impl Ports>,
    request: Review,
) -> Answer<TextAnswer<ObservationAnswer>> {
    let Review { ids, verdict } = request;
    let asked = context.clone();
    let ids = tokio::task::spawn_blocking(move || {
        read(&asked.context_lookup, |db| {
            ids.iter().map(|id| observation(db, id)).collect::<Result<Vec<_>, _>>()
        })
    });
    let ids: Vec<ObservationId> = ids.await.map_err(|_| unanswered())??;
    let verdict = match verdict {
        Verdict::Kept => review::Verdict::Kept,
        Verdict::Rejected => review::Verdict::Rejected,
    };
    let change = ReviewObservations { ids: ids.clone(), verdict, at: clock::now() };
    context.ports.writer().write(change).await.map_err(not_written)?;
    show(context, ids).await
}
