//! Finds what is missing from a session that hooks captured: events before the first hook, and answers and prompts
//! that no hook reported. Calls come only from hooks.

use recall_agents::AgentSpec;
use recall_agents::history::{RecordedEvent, RecordedSession};
use recall_agents::turns::{RecordedTurn, StoredTurn, matches};
use recall_app::answers::session::{CapturedPrompt, CapturedSession};

/// Keeps only the events that the session lacks. `since_ms` is the time of its first hook.
pub(super) fn keep_missing(
    session: &mut RecordedSession,
    spec: &AgentSpec,
    captured: &CapturedSession,
    since_ms: i64,
) {
    let turns = session.turns(spec);
    let wanted = wanted(&turns, &captured.prompts, since_ms);
    let until_ms = captured.until_ms.unwrap_or(since_ms);
    // A record begins just before the first hook, which alone is nothing to add.
    let is_older =
        |turn: &RecordedTurn| turn.at_ms < since_ms && !wanted.contains(&(turn.places.0, Wish::Leave));
    let had_begun = turns.iter().any(is_older);
    let mut place = 0;
    session.events.retain_mut(|event| {
        let at = place;
        place += 1;
        match wanted.iter().find(|(place, _)| *place == at) {
            Some((_, Wish::Leave)) => false,
            Some((_, Wish::Take)) => {
                keep_within(event, until_ms);
                true
            }
            None => had_begun && event.at_ms < since_ms,
        }
    });
}

/// Moves an event to the time of the last hook if it is later, so that it does not begin a new life of the session.
fn keep_within(event: &mut RecordedEvent, until_ms: i64) {
    event.at_ms = event.at_ms.min(until_ms.saturating_sub(1));
}

/// What to do with an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wish {
    Take,
    Leave,
}

fn wanted(turns: &[RecordedTurn], prompts: &[CapturedPrompt], since_ms: i64) -> Vec<(usize, Wish)> {
    let stored: Vec<StoredTurn> = prompts
        .iter()
        .map(|known| StoredTurn { id: known.turn.clone(), at_ms: known.at_ms, prompt: known.prompt.clone() })
        .collect();
    let mut owners = vec![None; turns.len()];
    for (prompt, place) in prompts.iter().zip(matches(&stored, turns)) {
        if let Some(owner) = place.and_then(|place| owners.get_mut(place)) {
            *owner = Some(prompt);
        }
    }
    let mut wanted = Vec::new();
    for (number, (turn, owner)) in turns.iter().zip(owners).enumerate() {
        let (prompt, answer) = turn.places;
        match owner {
            // A hook may come slightly later than the record.
            Some(known) if known.at_ms >= since_ms => {
                wanted.push((prompt, Wish::Leave));
                let wish = if known.is_unanswered { Wish::Take } else { Wish::Leave };
                wanted.extend(answer.map(|answer| (answer, wish)));
            }
            // The hooks of the last turn may still be in transit.
            None if turn.at_ms >= since_ms && turn.prompt.is_some() => {
                if answer.is_some() || number + 1 < turns.len() {
                    wanted.extend(
                        [Some(prompt), answer].into_iter().flatten().map(|place| (place, Wish::Take)),
                    );
                }
            }
            // It came before the hooks, so an import already has it or adds it now.
            Some(_) | None => {}
        }
    }
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(at_ms: i64, prompt: &str, places: (usize, Option<usize>)) -> RecordedTurn {
        RecordedTurn {
            id: None,
            at_ms,
            occurred_ms: at_ms,
            prompt: Some(prompt.to_owned()),
            answer: None,
            places,
        }
    }

    fn known(at_ms: i64, prompt: &str, is_unanswered: bool) -> CapturedPrompt {
        CapturedPrompt { turn: None, at_ms, prompt: Some(prompt.to_owned()), is_unanswered }
    }

    #[test]
    fn import_adds_only_prompts_and_answers_that_no_hook_reported() {
        let turns = [
            turn(100, "before the hooks", (1, Some(2))),
            turn(1_000, "told whole", (3, Some(4))),
            turn(2_000, "told without its end", (5, Some(6))),
            turn(3_000, "never told at all", (7, Some(8))),
            turn(4_000, "interrupted at once", (9, None)),
            turn(5_000, "still running", (10, None)),
        ];
        let prompts = [known(1_001, "told whole", false), known(2_001, "told without its end", true)];
        let wanted = wanted(&turns, &prompts, 999);
        let takes: Vec<_> =
            wanted.iter().filter(|(_, wish)| *wish == Wish::Take).map(|(at, _)| *at).collect();
        assert_eq!(takes, [6, 7, 8, 9]);
        let leaves: Vec<_> =
            wanted.iter().filter(|(_, wish)| *wish == Wish::Leave).map(|(at, _)| *at).collect();
        assert_eq!(leaves, [3, 4, 5]);
    }
}
