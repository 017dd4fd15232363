//! `recall friction`: recurring problems.

use recall_protocol::query::Friction as Request;

use super::past_work::past_sessions;
use super::{Answer, projects, read};
use crate::answers::TextAnswer;
use crate::answers::friction::FrictionAnswer;
use crate::context_lookup::ContextLookup;
use recall_domain::document::Status;
use recall_domain::friction::{Friction, FrictionKind, Meeting, friction as found_in};
use recall_domain::ids::{ProjectRow, SessionRow, Timestamp};
use recall_domain::observation::ObservationType;
use recall_domain::text::shortened_line;
use recall_domain::tokens::estimate;
use recall_store::{Reader, StoreError};

/// The number of latest sessions whose calls are read.
const MOST_SESSIONS: u32 = 200;
const LIMIT: u32 = 40;
const EXAMPLE_CHARS: usize = 240;

pub fn friction(lookup: &ContextLookup, Request { filter }: Request) -> Answer<TextAnswer<FrictionAnswer>> {
    let since = filter.since_ms.map(Timestamp);
    let (sessions, corrections) = read(lookup, |db| {
        let rows: Option<Vec<ProjectRow>> =
            projects(db, &filter)?.map(|found| found.iter().map(|project| project.row).collect());
        let listed = db.session_list(rows.as_deref(), since, 0, MOST_SESSIONS)?;
        let rows: Vec<SessionRow> = listed.iter().map(|session| session.row).collect();
        let corrections = corrections(db, &rows, since)?;
        Ok((past_sessions(lookup, db, rows)?, corrections))
    })?;
    let mut found = found_in(&sessions);
    found.extend(corrections);
    // The sort is stable, so the order within a kind is kept.
    found.sort_by_key(|friction| friction.kind);
    let limit = filter.limit.unwrap_or(LIMIT) as usize;
    let items: Vec<FrictionAnswer> = found.into_iter().take(limit).map(FrictionAnswer::from).collect();
    let line = |item: &FrictionAnswer| format!("{}: {} ({} times)", item.kind, item.what, item.times);
    let text = items.iter().map(line).collect::<Vec<_>>().join("\n");
    Ok(TextAnswer { tokens: estimate(&text), text, items })
}

/// Returns what the user corrected, latest first. The notes record it; notes by hand do not count as friction.
fn corrections(
    db: Reader<'_>,
    sessions: &[SessionRow],
    since: Option<Timestamp>,
) -> Result<Vec<Friction>, StoreError> {
    let mut notes = Vec::new();
    for row in sessions {
        notes.extend(db.observations_of_session(*row)?);
    }
    notes.retain(|note| {
        note.kind == ObservationType::Correction
            && note.status == Status::Active
            && since.is_none_or(|since| note.created_at >= since)
    });
    notes.sort_by_key(|note| std::cmp::Reverse((note.created_at, note.id)));
    // A note may rest on several sessions.
    notes.dedup_by_key(|note| note.id);
    let correction = |note: recall_store::ObservationRow| Friction {
        kind: FrictionKind::Correction,
        times: 1,
        met: note.session.map(|session| Meeting { session, at: note.created_at }).into_iter().collect(),
        example: Some(shortened_line(&note.narrative, EXAMPLE_CHARS))
            .filter(|text| !text.is_empty() && *text != note.title),
        remember: Some((ObservationType::Preference, note.title.clone())),
        note: Some(note.id),
        what: note.title,
    };
    Ok(notes.into_iter().map(correction).collect())
}
