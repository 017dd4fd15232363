//! `recall review`: machine-made notes that nobody has reviewed, and a person's verdicts on them.

use recall_protocol::query::{Review, Unreviewed};
use recall_protocol::wire::ErrorKind;

use super::CommandContext;
use super::by_hand::{not_written, quarantined, show, unanswered};
use super::editing::observation;
use crate::answers::TextAnswer;
use crate::answers::browsing::{Entry, JudgedItem, QuarantinedItem, ReviewAnswer, UnreviewedAnswer};
use crate::answers::by_hand::QUARANTINED;
use crate::clock;
use crate::context_lookup::ContextLookup;
use crate::ports::{Ports, Writer};
use crate::queries::{Answer, Refused, limit, projects, read};
use recall_domain::ids::{ObservationId, Timestamp};
use recall_store::{JudgeQuarantined, ReviewObservations};

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
        for (id, at) in db.unreviewed(&which, skip, limit(&filter))? {
            entries.extend(db.entry(id.into())?.map(|row| Entry::new(id.into(), at, row)));
        }
        // They stand on the first page.
        let most = if skip == 0 { limit(&filter) } else { 0 };
        let (apart, in_all) = db.quarantined(which.projects.as_deref(), most)?;
        let quarantined = apart.into_iter().map(QuarantinedItem::from).collect();
        Ok(UnreviewedAnswer { entries, waiting, quarantined, quarantined_in_all: in_all })
    })
}

pub async fn review(context: &CommandContext<impl Ports>, request: Review) -> Answer<ReviewAnswer> {
    let Review { ids, verdict } = request;
    let (apart, ids): (Vec<String>, Vec<String>) =
        ids.into_iter().partition(|id| id.trim().starts_with(QUARANTINED));
    let apart = apart.iter().map(|id| quarantined(id)).collect::<Result<Vec<i64>, _>>()?;
    let asked = context.clone();
    let ids = tokio::task::spawn_blocking(move || {
        read(&asked.context_lookup, |db| {
            ids.iter().map(|id| observation(db, id)).collect::<Result<Vec<_>, _>>()
        })
    });
    let ids: Vec<ObservationId> = ids.await.map_err(|_| unanswered())??;
    let mut quarantined = Vec::new();
    for id in apart {
        let judge = JudgeQuarantined { id, verdict, at: clock::now() };
        let judged = context.ports.writer().write(judge).await.map_err(not_written)?;
        quarantined.push(judged.map(JudgedItem::from).ok_or_else(|| not_apart(id))?);
    }
    let change = ReviewObservations { ids: ids.clone(), verdict, at: clock::now() };
    context.ports.writer().write(change).await.map_err(not_written)?;
    let TextAnswer { text, tokens, items } = show(context, ids).await?;
    Ok(ReviewAnswer { text, tokens, items, quarantined })
}

fn not_apart(id: i64) -> Refused {
    Refused::new(
        ErrorKind::NotFound,
        format!("There is no {QUARANTINED}{id}: its author may have changed or withdrawn it meanwhile"),
        "`recall review --list` shows what waits.",
    )
}
