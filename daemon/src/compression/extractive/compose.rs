//! Makes an observation of a candidate: chooses its sentences, gives it a title, a type and an importance.
//!
//! An observation is read in a context window that costs money, so nothing is said twice: the title is the first
//! sentence, not a copy of it.

use std::collections::BTreeSet;

use super::candidate::{self, Candidate, CandidateSource};
use super::cue;
use super::files::About;
use super::identifier;
use super::markdown::{Role, Sentence};
use super::sentence::{self, shortened};
use super::setting::{Detail, Setting, WorkKind};
use super::sort;
use crate::memory::observation::{Importance, ObservationDraft, ObservationType};
use crate::memory::subject;

/// Bytes of title, narrative and facts of an ordinary observation: about 100 tokens.
const BODY: usize = 220;

/// Bytes where cause and effect are told together.
const LONG_BODY: usize = 480;

/// Bytes of the names that an observation's sentences left out.
const CONCEPTS: usize = 40;

/// Longer headings are no labels.
const LABEL: usize = 48;

/// Bytes of the question that a bare yes or no answers.
const ASKED: usize = 110;

/// A passage of so few bytes is told whole but for talk and routine.
const SHORT: usize = 260;

/// Bytes of a title.
const TITLE: usize = 120;

/// Sentences worth less are left out, in tenths of a point.
const LEAST: i32 = 12;

/// What the first sentence of a passage has before the others: it says what they are about.
const LEAD: i32 = 8;

/// A candidate written out, with what it was worth.
#[derive(Clone, Debug)]
pub(super) struct Composed {
    pub(super) draft: ObservationDraft,
    pub(super) worth: i32,
    pub(super) origin: CandidateSource,
    pub(super) reference: Option<String>,
    /// The weightiest sentence, whole.
    pub(super) essence: String,
}

/// Writes the candidate out. `None`: it has nothing to say.
pub(super) fn compose(candidate: &Candidate, setting: &Setting) -> Option<Composed> {
    let mut chosen = chosen(candidate, setting.detail);
    while chosen
        .last()
        .is_some_and(|last| last.role == Role::Prose && last.text.ends_with(':') && candidate.title.is_none())
    {
        chosen.pop();
    }
    let essence = essence(&chosen);
    let (title, chosen) = titled(candidate, chosen, setting)?;
    if !title.chars().any(char::is_alphanumeric) {
        return None;
    }
    let mut narrative = String::new();
    let mut facts = Vec::new();
    for sentence in chosen {
        if sentence.role == Role::Item {
            facts.push(sentence.text);
        } else {
            if !narrative.is_empty() {
                narrative.push(' ');
            }
            narrative.push_str(&sentence.text);
        }
    }
    let kind = match setting.work {
        WorkKind::Done(kind) if setting.request.as_deref() == Some(title.as_str()) => kind,
        _ => candidate.kind.unwrap_or_else(|| sort::kind(candidate, setting.work)),
    };
    let subtitle = candidate.reference.clone().or_else(|| {
        let replies =
            cue::begins_with(&title, "yes, no, yep, nope, correct, right, exactly, ja, nein, genau, richtig");
        let asked =
            setting.question.as_deref().filter(|_| replies && candidate.origin == CandidateSource::Answer)?;
        Some(format!("Asked: {}", shortened(asked, ASKED)))
    });
    let told = format!("{title} {narrative} {}", facts.join(" "));
    let about = match kind {
        ObservationType::Bugfix
        | ObservationType::Feature
        | ObservationType::Refactor
        | ObservationType::Change => About::WorkKind,
        // What fails may lie in whatever was changed before.
        _ if candidate.origin == CandidateSource::Failing => About::WorkKind,
        _ => About::Knowledge,
    };
    let touched = setting.files.named_in(&told, about);
    let mut evidence = candidate.evidence.clone();
    for event in touched.events {
        if !evidence.contains(&event) {
            evidence.push(event);
        }
    }
    let worth = candidate.worth();
    Some(Composed {
        draft: ObservationDraft {
            subject: candidate.subject.clone().or_else(|| subject::of_title(kind, &title)),
            concepts: concepts(candidate, &told),
            kind,
            title,
            subtitle,
            narrative,
            facts,
            files_read: touched.read,
            files_modified: touched.modified,
            importance: importance(candidate, kind, worth),
            evidence,
        },
        worth,
        origin: candidate.origin,
        reference: candidate.reference.clone(),
        essence: if essence.is_empty() { candidate.title.clone().unwrap_or_default() } else { essence },
    })
}

/// The weightiest sentence, with the one before it where it leans on that.
fn essence(chosen: &[Sentence]) -> String {
    let weightiest = chosen
        .iter()
        .enumerate()
        .max_by_key(|(index, sentence)| (candidate::worth(sentence), std::cmp::Reverse(*index)));
    let Some((index, sentence)) = weightiest else { return String::new() };
    let before = index.checked_sub(1).filter(|_| candidate::is_dependent(&sentence.text));
    match before.and_then(|before| chosen.get(before)) {
        Some(before) => format!("{} {}", before.text, sentence.text),
        None => candidate::status(&sentence.text),
    }
}

/// The sentences that are told, in their own order: the best stretch of them, as a cause and its effect stand side by
/// side, then single ones while there is room. Items of a list are each for themselves.
fn chosen(candidate: &Candidate, detail: Detail) -> Vec<Sentence> {
    let sentences = &candidate.passage.sentences;
    let keeps_all = matches!(
        candidate.origin,
        CandidateSource::User
            | CandidateSource::Correction
            | CandidateSource::Failure
            | CandidateSource::Failing
            | CandidateSource::OpenEnd
            | CandidateSource::Plan
    );
    let worths: Vec<i32> = sentences
        .iter()
        .enumerate()
        .map(|(index, sentence)| candidate::worth(sentence) + if index == 0 { LEAD } else { 0 })
        .collect();
    let short = sentences.iter().map(|sentence| sentence.text.len()).sum::<usize>() <= SHORT;
    let worths: Vec<i32> = sentences
        .iter()
        .zip(worths)
        .map(|(sentence, worth)| {
            let is_said = keeps_all || (short && cue::read(&sentence.text).is_statement());
            if is_said { worth.max(LEAST) } else { worth }
        })
        .collect();
    let body = match candidate.origin {
        CandidateSource::Statement => LONG_BODY,
        _ if candidate.tells_cause() || detail == Detail::Full => LONG_BODY,
        _ => BODY,
    };
    let mut room = body.saturating_sub(candidate.title.as_ref().map_or(0, String::len) / 2);
    let mut taken = BTreeSet::new();
    let items = sentences.iter().filter(|sentence| sentence.role == Role::Item).count();
    if items * 2 < sentences.len() {
        taken.extend(
            best_stretch(sentences, &worths, room).filter(|index| worths.get(*index) >= Some(&LEAST)),
        );
        let used: usize =
            taken.iter().filter_map(|index| sentences.get(*index)).map(|sentence| sentence.text.len()).sum();
        room = room.saturating_sub(used);
    }
    let mut ranked: Vec<(usize, i32)> =
        worths.into_iter().enumerate().filter(|(_, worth)| *worth >= LEAST).collect();
    ranked.sort_by_key(|(index, worth)| (std::cmp::Reverse(*worth), *index));
    for (index, _) in ranked {
        let Some(sentence) = sentences.get(index).filter(|_| !taken.contains(&index)) else { continue };
        let stands = sentence.role == Role::Item || !candidate::is_dependent(&sentence.text);
        if taken.is_empty() || (stands && sentence.text.len() <= room) {
            room = room.saturating_sub(sentence.text.len());
            taken.insert(index);
        }
    }
    taken.iter().filter_map(|index| sentences.get(*index).cloned()).collect()
}

/// The stretch of neighbours that is worth most and fits the room.
fn best_stretch(sentences: &[Sentence], worths: &[i32], room: usize) -> std::ops::Range<usize> {
    let (mut start, mut length, mut worth) = (0, 0, 0);
    let (mut best, mut best_worth) = (0..0, 0);
    for (end, (sentence, gain)) in sentences.iter().zip(worths).enumerate() {
        length += sentence.text.len();
        worth += gain.max(&0);
        while length > room && start < end {
            length -= sentences.get(start).map_or(0, |first| first.text.len());
            worth -= worths.get(start).map_or(0, |first| *first.max(&0));
            start += 1;
        }
        if worth > best_worth && length <= room {
            best_worth = worth;
            best = start..end + 1;
        }
    }
    best
}

/// The title and what is left of the sentences.
fn titled(
    candidate: &Candidate,
    mut chosen: Vec<Sentence>,
    setting: &Setting,
) -> Option<(String, Vec<Sentence>)> {
    if let Some(title) = &candidate.title {
        let (title, rest) = headline(&sentence::tidy(title), TITLE);
        if let Some(rest) = rest {
            chosen.insert(0, Sentence { text: rest, role: Role::Prose });
        }
        return Some((title, clipped(chosen)));
    }
    let heading = candidate.passage.heading.as_deref().filter(|heading| !heading.is_empty());
    if let Some(heading) = heading.filter(|heading| candidate::is_telling(heading)) {
        return (!chosen.is_empty()).then(|| (shortened(heading, TITLE), clipped(chosen)));
    }
    // A list of changes has no sentence that stands for all of it; what was asked for does.
    let is_list = !chosen.is_empty() && chosen.iter().all(|sentence| sentence.role == Role::Item);
    if let Some(request) =
        setting.request.as_deref().filter(|_| is_list && candidate.origin == CandidateSource::Answer)
    {
        return Some((shortened(request, TITLE), clipped(chosen)));
    }
    let first = leading(&chosen)?;
    let sentence = chosen.remove(first);
    let label =
        heading.map(candidate::label).filter(|label| label.len() <= LABEL && !candidate::is_generic(label));
    let label = label.map_or(String::new(), |label| format!("{label}: "));
    let (head, rest) = headline(&candidate::status(&sentence.text), TITLE.saturating_sub(label.len()));
    if let Some(rest) = rest {
        chosen.insert(0, Sentence { text: rest, role: Role::Prose });
    }
    Some((format!("{label}{head}"), clipped(chosen)))
}

/// The sentence that a title is made of: the first that stands alone and is not much weaker than the best.
fn leading(chosen: &[Sentence]) -> Option<usize> {
    let best = chosen.iter().map(candidate::worth).max()?;
    chosen
        .iter()
        .position(|sentence| is_title(sentence, best, 6) && sentence.role == Role::Prose)
        .or_else(|| {
            chosen.iter().position(|sentence| is_title(sentence, best, 4) && sentence.text.len() > 45)
        })
        .or_else(|| chosen.iter().position(|sentence| sentence.role == Role::Prose))
        .or_else(|| (!chosen.is_empty()).then_some(0))
}

fn is_title(sentence: &Sentence, best: i32, share: i32) -> bool {
    candidate::worth(sentence) * 10 >= best * share && !candidate::is_dependent(&sentence.text)
}

/// Sentences of the body at a readable length.
fn clipped(chosen: Vec<Sentence>) -> Vec<Sentence> {
    chosen
        .into_iter()
        .map(|sentence| Sentence { text: shortened(&sentence.text, BODY), ..sentence })
        .collect()
}

/// The beginning of a sentence that can stand as a line by itself, and what is left of it.
fn headline(text: &str, limit: usize) -> (String, Option<String>) {
    if text.len() <= limit {
        return (text.trim_end_matches(['.', ':', ' ']).to_owned(), None);
    }
    let breaks =
        [" — ", " – ", "; ", ": ", ", so ", ", but ", ", because ", ", which ", " which ", " because ", ", "];
    let cut = breaks
        .iter()
        .filter_map(|separator| {
            // The separator itself may lie behind the limit.
            let head = text.get(..sentence::floor_boundary(text, limit + separator.len()))?;
            Some((head.rfind(separator)?, separator.len()))
        })
        .find(|(position, _)| {
            (limit / 3..=limit).contains(position) && balanced(text.get(..*position).unwrap_or_default())
        });
    match cut {
        Some((position, separator)) => {
            let keeps = text
                .get(position..position + separator)
                .unwrap_or_default()
                .trim_matches([' ', ',', ';', ':', '—', '–']);
            let rest = text.get(position + separator..).unwrap_or_default();
            let rest = if keeps.is_empty() { rest.to_owned() } else { format!("{keeps} {rest}") };
            (text.get(..position).unwrap_or_default().to_owned(), Some(rest))
        }
        None => {
            let title = shortened(text, limit);
            let kept = title.trim_end_matches('…').len().min(text.len());
            let rest = text.get(sentence::floor_boundary(text, kept)..).unwrap_or_default().trim_start();
            (title, (!rest.is_empty()).then(|| format!("…{rest}")))
        }
    }
}

fn balanced(text: &str) -> bool {
    text.matches('`').count().is_multiple_of(2) && text.matches('(').count() == text.matches(')').count()
}

/// The weight of its sort, a little more or less by what the wording is worth.
fn importance(candidate: &Candidate, kind: ObservationType, worth: i32) -> Importance {
    let base = match (candidate.origin, kind) {
        (CandidateSource::Statement, ObservationType::Bugfix | ObservationType::Feature) => 7,
        (CandidateSource::Plan, _) => 7,
        (CandidateSource::Correction, _) => 8,
        (
            CandidateSource::Answer,
            ObservationType::Gotcha | ObservationType::Bugfix | ObservationType::Security,
        ) => 6,
        (CandidateSource::Failure | CandidateSource::Failing | CandidateSource::Remark, _) => 5,
        (CandidateSource::Note | CandidateSource::Report | CandidateSource::Unfinished, _) => 5,
        (
            CandidateSource::Statement
            | CandidateSource::OpenEnd
            | CandidateSource::Answer
            | CandidateSource::User,
            _,
        ) => 6,
    };
    let step = match worth {
        // However plainly it is said, it must not be done again.
        _ if candidate.origin == CandidateSource::Correction => 0,
        ..=44 => -1,
        45..=69 => 0,
        70..=94 => 1,
        // A commit's text is long as often as it is important.
        _ if candidate.origin == CandidateSource::Statement => 1,
        _ => 2,
    };
    Importance::clamped(base + step + i64::from(candidate.tells_cause()))
}

/// The topic, and names of the passage that its chosen sentences left out.
fn concepts(candidate: &Candidate, told: &str) -> Vec<String> {
    let told = told.to_lowercase();
    let mut concepts: Vec<String> = candidate.topic.iter().cloned().collect();
    let whole: Vec<&str> =
        candidate.passage.sentences.iter().map(|sentence| sentence.text.as_str()).collect();
    let names = identifier::all(&whole.join(" "));
    let mut room = CONCEPTS;
    for name in names {
        if name.len() <= room && !told.contains(&name.to_lowercase()) {
            room -= name.len();
            concepts.push(name);
        }
    }
    concepts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, title: &str, rest: Option<&str>) {
        let told = headline(text, 40);
        assert_eq!((told.0.as_str(), told.1.as_deref()), (title, rest));
    }

    #[test]
    fn a_long_sentence_is_cut_where_a_clause_ends() {
        check("It is short.", "It is short", None);
        check(
            "The mail is sent at commit time, so a rollback comes too late.",
            "The mail is sent at commit time",
            Some("so a rollback comes too late."),
        );
        check(
            "The reader waits for `a, b, c and d` which never come from the other side.",
            "The reader waits for `a, b, c and d`",
            Some("which never come from the other side."),
        );
    }

    #[test]
    fn without_a_clause_it_is_cut_at_a_word_and_goes_on() {
        check(
            "Every worker of the second pool signals completion twice",
            "Every worker of the second pool…",
            Some("…signals completion twice"),
        );
    }

    #[test]
    fn the_best_stretch_fits_the_room() {
        let sentences: Vec<Sentence> = ["aaaa", "bbbb", "cccc", "dddd"]
            .map(|text| Sentence { text: text.to_owned(), role: Role::Prose })
            .into();
        assert_eq!(best_stretch(&sentences, &[1, 5, 6, 1], 8), 1..3);
        assert_eq!(best_stretch(&sentences, &[9, 5, 6, 1], 4), 0..1);
        assert_eq!(best_stretch(&sentences, &[1, 1, 1, 1], 3), 0..0);
        assert_eq!(best_stretch(&[], &[], 3), 0..0);
    }
}
