//! Turns that the user stopped: the agent worked and gave no answer, and the user said something else.

use super::{Friction, FrictionKind, Groups};
use crate::material::BatchMaterial;
use crate::past_work::PastSession;
use crate::text::shortened_line;

/// Fewer stopped turns may be chance.
const LEAST_TIMES: u32 = 3;
const PROMPT_CHARS: usize = 140;

pub(super) fn stops(sessions: &[PastSession]) -> Vec<Friction> {
    let mut groups = Groups::new();
    for session in sessions {
        let batches: Vec<&BatchMaterial> = session.material.batches.iter().collect();
        for pair in batches.windows(2) {
            let [stopped, next] = pair else { continue };
            if let (Some(at), Some(next_prompt)) = (stopped_at(stopped), prompt(next)) {
                let asked = prompt(stopped).unwrap_or_default();
                groups.add(String::new(), &session.id, at, (asked, next_prompt));
            }
        }
    }
    let groups = groups.of_sessions(1).into_iter().filter(|group| group.times() >= LEAST_TIMES);
    groups
        .map(|group| Friction {
            kind: FrictionKind::Stop,
            what: "Turns end without an answer, and the user says something else".to_owned(),
            times: group.times(),
            example: group.occurrences.first().map(|one| {
                let (asked, next_prompt) = &one.what;
                format!("asked \"{asked}\", then \"{next_prompt}\"")
            }),
            met: group.met,
            remember: None,
            note: None,
        })
        .collect()
}

/// When a turn ended that had work and no answer.
fn stopped_at(batch: &BatchMaterial) -> Option<crate::ids::Timestamp> {
    let is_answered = batch.response.as_ref().is_some_and(|answer| !answer.text.trim().is_empty());
    if is_answered || !batch.source.is_asked_openly() {
        return None;
    }
    batch.steps.last().map(|step| step.at)
}

fn prompt(batch: &BatchMaterial) -> Option<String> {
    let prompt = batch.prompt.as_ref().filter(|_| batch.source.is_asked_openly())?;
    Some(shortened_line(&prompt.text, PROMPT_CHARS))
}
