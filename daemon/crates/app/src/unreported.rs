//! Takes over prompts that no hook reported, from the agent's own record.
//!
//! Only prompts that were typed while recording was certainly on ([`CertainTimes`](super::certain_times)) count. They
//! are handled like all events, so the rules for private text, secrets, exclusions and forgotten items apply. Their
//! deliveries are marked as coming from a record. If a record has ids, an import uses the same ids.

use std::path::PathBuf;

use recall_protocol::wire::{Deliver, ShimContext};

use super::certain_times::{Certain, Span};
use super::pause::PauseSwitch;
use recall_agents::history::RecordIds;
use recall_agents::named_file::RefusedFile;
use recall_agents::turns::{self, RecordedTurn, StoredTurn};
use recall_agents::{AgentSpec, ReplyRequest};
use recall_domain::ids::{SessionKey, Timestamp};
use recall_domain::order::Order;
use recall_store::Readers;

/// The maximum number of prompts taken over at once.
const MOST: usize = 100;

/// Returns the prompts as events, in order. Reads files and blocks.
///
/// # Errors
/// Fails when the record is not trusted, or the store cannot be read.
pub(super) fn unreported(
    spec: &AgentSpec,
    key: &SessionKey,
    certain: Certain,
    (readers, pauses): (&Readers, &PauseSwitch),
    home: PathBuf,
) -> Result<Vec<Deliver>, RefusedFile> {
    let Certain { transcript, context, in_turns, between } = certain;
    let request = ReplyRequest { transcript, prompt: None, home, config_dir: context.config_dir.clone() };
    let Some(mut session) = turns::recorded_end(spec, &request)? else { return Ok(Vec::new()) };
    let recorded = session.turns(spec);
    let stored = readers.read(|db| db.stored_prompts(key)).map_err(std::io::Error::other)?;
    let stored: Vec<StoredTurn> = stored.into_iter().map(|prompt| prompt.turn).collect();
    let mut found = missing(&stored, &recorded, &in_turns, &between);
    found.retain(|turn| {
        let times =
            [turn.at_ms, turn.occurred_ms].map(|at| Order { wall: Timestamp(at), ..Order::default() });
        !times.iter().any(|at| pauses.covers(at))
    });
    let has_own = spec.history.is_some_and(|history| history.prompts.is_some());
    let ids = if has_own { RecordIds::Own } else { RecordIds::OfSession };
    let mut prompts = Vec::new();
    for turn in found.into_iter().take(MOST) {
        let place = turn.places.0;
        let Some(event) = session.events.get_mut(place) else { continue };
        event.belong_to(key.id.as_str(), ids);
        let deliver = event.deliver(spec, &context.cwd, place);
        prompts.push(Deliver { context: ShimContext { pid: 0, ..context.clone() }, ..deliver });
    }
    Ok(prompts)
}

/// Returns the recorded turns within certain times that are not stored.
fn missing<'a>(
    stored: &[StoredTurn],
    recorded: &'a [RecordedTurn],
    in_turns: &[Span],
    between: &[Span],
) -> Vec<&'a RecordedTurn> {
    let mut known = vec![false; recorded.len()];
    for place in turns::matches(stored, recorded).into_iter().flatten() {
        if let Some(known) = known.get_mut(place) {
            *known = true;
        }
    }
    let unknown = recorded
        .iter()
        .zip(known)
        .filter(|(turn, known)| !known && turn.prompt.is_some() && !turns::is_stored_elsewhere(stored, turn));
    let unknown: Vec<&RecordedTurn> = unknown.map(|(turn, _)| turn).collect();
    let holds =
        |spans: &[Span], turn: &RecordedTurn| spans.iter().position(|span| span.holds(turn.occurred_ms));
    let last_of = |span: usize| {
        unknown.iter().rposition(|turn| between.get(span).is_some_and(|span| span.holds(turn.occurred_ms)))
    };
    let is_certain = |number: usize, turn: &RecordedTurn| {
        holds(in_turns, turn).is_some()
            || holds(between, turn).is_some_and(|span| last_of(span) == Some(number))
    };
    unknown
        .iter()
        .enumerate()
        .filter(|(number, turn)| is_certain(*number, turn))
        .map(|(_, turn)| *turn)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn turn(at_ms: i64, prompt: &str) -> RecordedTurn {
        RecordedTurn { at_ms, occurred_ms: at_ms, prompt: Some(prompt.to_owned()), ..RecordedTurn::default() }
    }

    fn found<'a>(stored: &[StoredTurn], recorded: &'a [RecordedTurn], spans: [&[Span]; 2]) -> Vec<&'a str> {
        let found = missing(stored, recorded, spans[0], spans[1]);
        found.iter().filter_map(|turn| turn.prompt.as_deref()).collect()
    }

    #[test]
    fn stored_prompts_and_prompts_outside_certain_spans_are_not_taken_over() {
        let recorded = [
            turn(5, "before any hook"),
            turn(20, "reported by its hook"),
            turn(30, "typed while the agent worked"),
            turn(60, "typed when nobody looked"),
        ];
        let stored = |at_ms, prompt: &str| StoredTurn { id: None, at_ms, prompt: Some(prompt.to_owned()) };
        let in_turns = [Span { since_ms: 10, until_ms: 50 }];
        let known = [stored(19, "reported by its hook")];
        assert_eq!(found(&known, &recorded, [&in_turns, &[]]), ["typed while the agent worked"]);
        // Stored under another turn's id, and out of order.
        let mut other = stored(10_000, "typed while the agent worked");
        other.id = Some("t9".to_owned());
        assert_eq!(found(&[other, known[0].clone()], &recorded, [&in_turns, &[]]), [""; 0]);
        // A private or forgotten prompt has no words.
        let blank = StoredTurn { id: None, at_ms: 31, prompt: None };
        assert_eq!(found(&[known[0].clone(), blank], &recorded, [&in_turns, &[]]), [""; 0]);
    }

    #[test]
    fn only_the_last_prompt_between_two_hooks_is_taken_over() {
        let recorded = [turn(20, "typed elsewhere"), turn(30, "began the turn"), turn(70, "and the next")];
        let spans = [Span { since_ms: 10, until_ms: 40 }, Span { since_ms: 50, until_ms: 80 }];
        assert_eq!(found(&[], &recorded, [&[], &spans]), ["began the turn", "and the next"]);
    }
}
