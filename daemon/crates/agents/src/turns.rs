//! Matches the turns that an agent has recorded with the prompts in the memory.
//!
//! Hooks and records describe the same turns, but neither has all of them: a hook may report no end, and a record may
//! be written after the hook ran. So both lists are compared in order. An answer belongs to a prompt only if the turn's
//! id or the prompt's words match.

use std::io::{BufReader, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use recall_protocol::privacy::strip_text;

use super::history::{ReadTail, RecordedSession, tail_folders};
use super::named_file::{self, RefusedFile};
use super::{AgentSpec, RecordedReply, ReplyRequest};
use recall_domain::event::{HookEventKind, PromptText};
use recall_domain::redaction::MARK;

/// How many bytes are read from the end of a record. Little else follows a turn's last message.
const TAIL: u64 = 4 << 20;
/// How many bytes are read if that contains no complete turn.
const LONGER_TAIL: u64 = 64 << 20;
/// The most turns that are compared, from the end.
const MOST: usize = 400;
/// Different prompts count as the same if one contains the other, and the shorter has at least this many bytes.
const TELLING: usize = 12;
/// A prompt without known words matches the turn that began within this time, in milliseconds.
const CLOSE_MS: i64 = 5_000;
/// A hook runs at most this long before or after its prompt is recorded, in milliseconds. Prompts with the same words
/// that are further apart are two.
const APART_MS: i64 = 600_000;

/// A recorded prompt and its answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedTurn {
    pub id: Option<String>,
    pub at_ms: i64,
    /// The time at which it was typed.
    pub occurred_ms: i64,
    /// `None` if it is private.
    pub prompt: Option<String>,
    pub answer: Option<RecordedReply>,
    /// The positions of its prompt and its answer among the session's events.
    pub places: (usize, Option<usize>),
}

/// A stored prompt.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredTurn {
    pub id: Option<String>,
    pub at_ms: i64,
    /// `None` if it is private or was forgotten.
    pub prompt: Option<String>,
}

impl RecordedSession {
    /// The prompts of persons in this session, each with its answer.
    pub fn turns(&self, spec: &AgentSpec) -> Vec<RecordedTurn> {
        let mut turns: Vec<RecordedTurn> = Vec::new();
        for (place, event) in self.events.iter().enumerate() {
            if event.is_of_call() {
                continue;
            }
            let Ok(read) = (spec.read)(&spec.format, &event.deliver(spec, &self.cwd, place)) else {
                continue;
            };
            let id = read.prompt.map(|id| id.0);
            match read.what {
                HookEventKind::Prompt { text, .. } => {
                    let prompt = match text {
                        PromptText::Text(text) => Some(text),
                        PromptText::WhollyPrivate => None,
                    };
                    turns.push(RecordedTurn {
                        id,
                        at_ms: event.at_ms,
                        occurred_ms: event.occurred_ms,
                        prompt,
                        answer: None,
                        places: (place, None),
                    });
                }
                HookEventKind::Stop { message: Some(message) } if !message.trim().is_empty() => {
                    let reply = RecordedReply { text: message, at_ms: Some(event.occurred_ms) };
                    let is_own = |turn: &RecordedTurn| id.is_some() && turn.id == id;
                    let first =
                        turns.iter().rposition(|turn| is_own(turn) || turn.id.is_none() || id.is_none());
                    // Prompts that were typed while the agent worked share the turn's answer.
                    for (at, turn) in turns.iter_mut().enumerate() {
                        if Some(at) == first || is_own(turn) {
                            (turn.answer, turn.places.1) = (Some(reply.clone()), Some(place));
                        }
                    }
                }
                _ => {}
            }
        }
        turns
    }
}

/// The turns at the end of the record that an event named. None if the agent's record cannot be read from its end.
///
/// # Errors
/// The file is not trusted.
pub fn recorded_turns(spec: &AgentSpec, request: &ReplyRequest) -> Result<Vec<RecordedTurn>, RefusedFile> {
    let Some(read) = spec.history.and_then(|history| history.tail) else { return Ok(Vec::new()) };
    Ok(read_end(spec, request, read)?.map(|session| session.turns(spec)).unwrap_or_default())
}

/// The part of the session that the end of its record contains. None if the agent's record cannot be read from its end.
///
/// # Errors
/// The file is not trusted.
pub fn recorded_end(
    spec: &AgentSpec,
    request: &ReplyRequest,
) -> Result<Option<RecordedSession>, RefusedFile> {
    let read = spec.history.and_then(|history| history.prompts.or(history.tail));
    read.map_or(Ok(None), |read| read_end(spec, request, read))
}

fn read_end(
    spec: &AgentSpec,
    request: &ReplyRequest,
    read: ReadTail,
) -> Result<Option<RecordedSession>, RefusedFile> {
    let Some(history) = spec.history else { return Ok(None) };
    let folders = tail_folders(spec, &history.place, request);
    let named = Path::new(&request.transcript);
    let path = &in_own_folder(spec, request, named).unwrap_or_else(|| named.to_owned());
    let extension = if path.extension().is_some_and(|known| known == "json") { "json" } else { "jsonl" };
    let mut file = named_file::open(&folders, path, extension)?;
    let length = file.metadata()?.len();
    for most in [TAIL, LONGER_TAIL] {
        file.seek(SeekFrom::Start(length.saturating_sub(most)))?;
        // The file may grow meanwhile.
        let session = read(&mut BufReader::new(Read::by_ref(&mut file).take(most)), extension)?;
        if length <= most || !session.turns(spec).is_empty() {
            return Ok(Some(session));
        }
    }
    Ok(None)
}

/// The record that a reader locates in the agent's own folder.
fn in_own_folder(spec: &AgentSpec, request: &ReplyRequest, named: &Path) -> Option<PathBuf> {
    let folders = spec.host.folders(&request.home, request.config_dir.as_deref());
    let mut places = folders.iter().filter(|_| named.is_relative()).map(|folder| folder.join(named));
    places.find(|place| place.exists())
}

/// Whether a prompt with these words is stored at about this time, in any turn and order.
pub fn is_stored_elsewhere(stored: &[StoredTurn], recorded: &RecordedTurn) -> bool {
    let recorded_words = recorded.prompt.as_deref().map(|text| words(&strip_text(text).text));
    stored.iter().any(|known| {
        let kept = known.prompt.as_deref().map(words);
        let apart = recorded.at_ms.saturating_sub(known.at_ms).saturating_abs();
        apart < APART_MS && have_same_words(kept.as_deref(), recorded_words.as_deref())
    })
}

/// Finds the recorded turn for each stored one. Both lists are in the order of their prompts.
///
/// This is a longest common subsequence: it matches as many turns as possible without changing the order. Ties go to
/// the closest times.
pub fn matches(stored: &[StoredTurn], recorded: &[RecordedTurn]) -> Vec<Option<usize>> {
    let skipped = (stored.len().saturating_sub(MOST), recorded.len().saturating_sub(MOST));
    let stored_words: Vec<_> =
        stored.iter().skip(skipped.0).map(|turn| turn.prompt.as_deref().map(words)).collect();
    let recorded_words: Vec<_> = recorded
        .iter()
        .skip(skipped.1)
        .map(|turn| turn.prompt.as_deref().map(|text| words(&strip_text(text).text)))
        .collect();
    let (rows, columns) = (stored_words.len(), recorded_words.len());
    // The best result from each position on: how many matches, and their total distance in time.
    let mut best = vec![vec![(0_u32, 0_i64); columns + 1]; rows + 1];
    let apart = |row: usize, column: usize| {
        let (kept, recorded_turn) = (stored.get(skipped.0 + row)?, recorded.get(skipped.1 + column)?);
        let same = is_same(
            kept,
            stored_words.get(row)?.as_deref(),
            recorded_turn,
            recorded_words.get(column)?.as_deref(),
        );
        same.then(|| recorded_turn.at_ms.saturating_sub(kept.at_ms).saturating_abs())
    };
    let at = |best: &[Vec<(u32, i64)>], row: usize, column: usize| {
        best.get(row).and_then(|row| row.get(column)).copied().unwrap_or_default()
    };
    let better = |a: (u32, i64), b: (u32, i64)| a.0 > b.0 || (a.0 == b.0 && a.1 < b.1);
    for row in (0..rows).rev() {
        for column in (0..columns).rev() {
            let mut choice = at(&best, row + 1, column);
            let other = at(&best, row, column + 1);
            if better(other, choice) {
                choice = other;
            }
            if let Some(apart) = apart(row, column) {
                let rest = at(&best, row + 1, column + 1);
                let taken = (rest.0 + 1, rest.1.saturating_add(apart));
                if better(taken, choice) {
                    choice = taken;
                }
            }
            if let Some(place) = best.get_mut(row).and_then(|row| row.get_mut(column)) {
                *place = choice;
            }
        }
    }
    let mut found = vec![None; stored.len()];
    let (mut row, mut column) = (0, 0);
    while row < rows && column < columns {
        let here = at(&best, row, column);
        if here == at(&best, row + 1, column) {
            row += 1;
        } else if here == at(&best, row, column + 1) {
            column += 1;
        } else {
            if let Some(place) = found.get_mut(skipped.0 + row) {
                *place = Some(skipped.1 + column);
            }
            (row, column) = (row + 1, column + 1);
        }
    }
    found
}

fn is_same(
    stored: &StoredTurn,
    kept: Option<&str>,
    recorded: &RecordedTurn,
    recorded_words: Option<&str>,
) -> bool {
    let apart = recorded.at_ms.saturating_sub(stored.at_ms).saturating_abs();
    let ids = (stored.id.as_deref(), recorded.id.as_deref());
    if let (Some(id), Some(other)) = ids {
        // Prompts that were typed while the agent worked share the turn's id.
        return id == other
            && (kept.is_none()
                || recorded_words.is_none()
                || have_same_words(kept, recorded_words)
                || apart < CLOSE_MS);
    }
    match (kept, recorded_words) {
        (Some(_), Some(_)) => have_same_words(kept, recorded_words) && apart < APART_MS,
        _ => apart < CLOSE_MS,
    }
}

/// Whether two prompts have the same words. `kept` has no secrets and no private text.
fn have_same_words(kept: Option<&str>, recorded: Option<&str>) -> bool {
    let (Some(kept), Some(recorded)) = (kept, recorded) else { return false };
    if kept == recorded {
        return true;
    }
    if let Some((before, _)) = kept.split_once(MARK) {
        return recorded.starts_with(before);
    }
    let (short, long) = if kept.len() < recorded.len() { (kept, recorded) } else { (recorded, kept) };
    short.len() >= TELLING && long.contains(short)
}

/// Normalises what a renderer or an editor may change.
fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(id: Option<&str>, at_ms: i64, prompt: &str) -> StoredTurn {
        let prompt = Some(prompt.to_owned()).filter(|prompt| !prompt.is_empty());
        StoredTurn { id: id.map(str::to_owned), at_ms, prompt }
    }

    fn recorded(id: Option<&str>, at_ms: i64, prompt: &str) -> RecordedTurn {
        let StoredTurn { id, at_ms, prompt } = stored(id, at_ms, prompt);
        RecordedTurn { id, at_ms, occurred_ms: at_ms, prompt, ..RecordedTurn::default() }
    }

    #[test]
    fn a_turn_is_matched_by_its_id_its_prompt_or_its_time() {
        let record =
            [recorded(Some("t1"), 1_000, "fix  it"), recorded(Some("t2"), 9_000, "and then test it")];
        let known = [stored(Some("t2"), 8_000, "and then test it"), stored(Some("t3"), 9_000, "other")];
        assert_eq!(matches(&known, &record), [Some(1), None]);
        let nameless = [stored(None, 900, "fix it"), stored(None, 8_900, "and then test it, please")];
        assert_eq!(matches(&nameless, &record), [Some(0), Some(1)]);
        assert_eq!(matches(&[stored(None, 1_000, "something else")], &record), [None]);
        assert_eq!(matches(&[stored(None, 8_990, "")], &record), [Some(1)], "a private one by its time");
        assert_eq!(matches(&[], &record), []);
        assert_eq!(matches(&known, &[]), [None, None]);
    }

    #[test]
    fn among_equal_prompts_the_nearest_in_time_is_matched() {
        let record = [recorded(None, 60_000, "go on")];
        let known =
            [stored(None, 100, "go on"), stored(None, 60_100, "go on"), stored(None, 90_000, "go on")];
        assert_eq!(matches(&known, &record), [None, Some(0), None]);
        assert_eq!(matches(&[stored(None, 3_600_000, "go on")], &record), [None], "it is recorded later");
    }

    #[test]
    fn a_redacted_prompt_still_matches_its_recorded_turn() {
        let record = [recorded(None, 0, "use DB_PASSWORD=swordfish <private>heron</private> now")];
        let known = [stored(None, 0, "use DB_PASSWORD=[redacted:password] now")];
        assert_eq!(matches(&known, &record), [Some(0)]);
    }
}
