//! `recall timeline`: the events around a time.

use recall_protocol::query::Timeline;

use super::marks::Marks;
use super::session::one_session;
use super::show::{DocumentContext, load};
use super::{Answer, Refused, read};
use crate::answers::found::TimelineItem;
use crate::answers::{PublicId, TextAnswer};
use crate::context_lookup::ContextLookup;
use recall_domain::document::{DocumentKey, DocumentKind};
use recall_domain::tokens::estimate;
use recall_store::TimelineRow;

/// Returns the events around a document, or in a session.
pub fn timeline(lookup: &ContextLookup, request: Timeline) -> Answer<TextAnswer<TimelineItem>> {
    let Timeline { id, before, after, folder } = request;
    let items = read(lookup, |db| {
        let (project, at) = match DocumentKey::parse(&id) {
            Some(key) => {
                let place = DocumentContext::of(db, &load(db, key)?)?;
                (place.project_row, place.at)
            }
            None => {
                let session = one_session(db, &id)?;
                (session.project.row, session.started_at)
            }
        };
        let mut marks = Marks::new(lookup, db, folder.as_deref())?;
        let rows = db.timeline(project, at, before, after)?.into_iter();
        let item = |row: TimelineRow| {
            let made_on = marks.place(project, row.key)?;
            Ok(TimelineItem::new(row, made_on))
        };
        rows.map(item).collect::<Result<Vec<_>, Refused>>()
    })?;
    let lines: Vec<String> = items.iter().map(timeline_line).collect();
    let text = lines.join("\n");
    Ok(TextAnswer { tokens: estimate(&text), text, items })
}

fn timeline_line(item: &TimelineItem) -> String {
    let time = jiff::Timestamp::from_millisecond(item.created_at.0.0).unwrap_or_default();
    let PublicId(key) = item.id;
    let id = if key.kind == DocumentKind::Observation { format!("#{key}") } else { key.to_string() };
    let kind = item.observation_type.as_deref().unwrap_or(&item.kind);
    let mark = item.made_on.elsewhere.as_ref().map(|elsewhere| format!(" ({elsewhere})"));
    format!("{} {id} {kind}: {}{}", time.strftime("%Y-%m-%d %H:%M"), item.title, mark.unwrap_or_default())
}
