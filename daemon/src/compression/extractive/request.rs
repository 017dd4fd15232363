//! Reads the user's prompts: what they lay down, correct, choose or report, and what they leave unanswered.
//!
//! Prompts are the densest texts of a session: a rule or a correction stands in them once and nowhere else.

use super::candidate::{Candidate, CandidateSource};
use super::correction;
use super::cue;
use super::identifier;
use super::markdown::{Passage, Role, Sentence};
use super::sentence;
use crate::memory::ids::EventId;
use crate::memory::material::{Action, BatchMaterial, BatchSource, SourcedText};
use crate::memory::observation::ObservationType;

/// Behind this a prompt is pasted material; its beginning and its end are the user's own words.
const HEAD: usize = 1_500;
const TAIL: usize = 500;

/// Shorter prompts without a rule ask for something and no more.
const SHORTEST: usize = 40;

/// Bytes of the user's words in an observation.
const WORDS: usize = 300;

/// Rules for the work to come.
const RULE: &str = "always, never, please don't, please do not, make sure, must, must not, from now on, in the future, prefer, \
    we use, we don't, please use, use only, only use, only, instead of, rather than, \
    not anything, and don't, but don't, so don't, and do not, you don't, do not use, don't use, should not, shouldn't, should always, avoid, stick to, keep it, remember, \
    no need to, ensure, without, immer, nie, niemals, bitte nicht, nicht, nutze, verwende, lieber, \
    stattdessen, statt, nur, achte darauf, ab jetzt, auf keinen fall";

/// Openings that turn against what was just said or done.
const CORRECTION: &str = "no, nope, but, wait, stop, actually, that's not, that is not, this is not, wrong, not quite, \
    hmm, you're wrong, i meant, why did you, you forgot, that's wrong, still, \
    nein, doch, falsch, halt, eigentlich, aber, moment, das stimmt nicht, so nicht";

/// Words inside a prompt that contradict.
const CONTRADICTION: &str = "not what i, doesn't make sense, does not make, \
    already have, you should have, is wrong, that's not, isn't right, not correct, incorrect, \
    the issue was, was not, misunderstanding, ergibt keinen sinn, stimmt nicht, war nicht, \
    ist falsch";

/// Agreement and nothing else.
const ASSENT: &str = "yes, y, yep, yeah, sure, ok, okay, go, go ahead, do it, please, please do, continue, proceed, \
    sounds good, great, perfect, thanks, thank you, lgtm, fix it, ja, gerne, mach das, mach, \
    weiter, genau, passt, danke, bitte";

/// The user's own words of a prompt, without what the agent program put around them. `None`: nothing is left, or a
/// machine said it.
pub(super) fn own_words(batch: &BatchMaterial) -> Option<String> {
    if matches!(batch.source, BatchSource::Private | BatchSource::AgentNotification | BatchSource::System) {
        return None;
    }
    let SourcedText { text, .. } = batch.prompt.as_ref()?;
    let text = text.trim();
    let from_machine = [
        "<task-notification>",
        "<local-command",
        "<command-",
        "<system-reminder>",
        "[Request interrupted",
        "Caveat: ",
        "This session is being continued from",
    ];
    if from_machine.iter().any(|opening| text.starts_with(opening)) {
        return None;
    }
    // A slash command's name says little; its arguments are the user's.
    let text = match text.strip_prefix('/') {
        Some(command) if !command.split_whitespace().next().unwrap_or_default().contains('/') => {
            command.split_once(char::is_whitespace).map_or("", |(_, arguments)| arguments)
        }
        _ => text,
    };
    let words = without_pasted(text);
    (!words.is_empty()).then_some(words)
}

/// Drops fenced blocks and the middle of very long prompts.
fn without_pasted(text: &str) -> String {
    let mut words = String::new();
    let mut in_fence = false;
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            in_fence = !in_fence;
        } else if !in_fence {
            words.push_str(line);
            words.push('\n');
        }
    }
    let words = words.trim();
    if words.len() <= HEAD + TAIL {
        return words.to_owned();
    }
    let head = words.get(..sentence::floor_boundary(words, HEAD)).unwrap_or_default();
    let tail = words.get(sentence::floor_boundary(words, words.len() - TAIL)..).unwrap_or_default();
    format!("{head}\n{tail}")
}

/// Sentences of the user's own words; every line begins a new one, as users seldom write full stops.
pub(super) fn sentences(words: &str) -> Vec<String> {
    words.lines().flat_map(sentence::split).collect()
}

/// Whether the prompt only agrees, or only says which number of a menu.
pub(super) fn is_assent(words: &str) -> bool {
    let plain: String = words
        .to_lowercase()
        .chars()
        .map(|character| if character.is_alphanumeric() || character == '\'' { character } else { ' ' })
        .collect();
    let mut rest = plain.trim();
    while let Some(phrase) = cue::each(ASSENT)
        .filter(|phrase| {
            rest.strip_prefix(*phrase).is_some_and(|tail| tail.is_empty() || tail.starts_with(' '))
        })
        .max_by_key(|phrase| phrase.len())
    {
        rest = rest.get(phrase.len()..).unwrap_or_default().trim_start();
    }
    rest.is_empty() || rest.chars().all(|character| character.is_ascii_digit())
}

/// Whether the words ask for something by themselves.
pub(super) fn is_substantial(words: &str) -> bool {
    let names = !identifier::all(words).is_empty() || words.contains("://");
    !is_assent(words) && (words.split_whitespace().count() >= 3 || names)
}

/// A request without the courtesies it begins with.
pub(super) fn plainly(words: &str) -> String {
    const COURTESY: &str = "please, can you please, can you, could you, i want you to, i want to, i'd like you to, i'd like to, \
        i would like to, we need to, you need to, let's, i have the impression that, i had a quick question about, \
        i have a question about, i'm currently, hey, hi, hello, ok, okay, so, now, kannst du bitte, kannst du, bitte, \
        ich möchte";
    let mut rest = sentence::tidy(words).replace("https://", "");
    while let Some(courtesy) = cue::each(COURTESY).find(|courtesy| {
        let head = rest.get(..courtesy.len()).unwrap_or_default();
        head.eq_ignore_ascii_case(courtesy)
            && rest.get(courtesy.len()..).is_some_and(|tail| tail.starts_with([' ', ',']))
    }) {
        rest = rest.get(courtesy.len()..).unwrap_or_default().trim_start_matches([' ', ',']).to_owned();
    }
    rest
}

/// What the user laid down in this prompt, at most one candidate.
pub(super) fn candidate(batch: &BatchMaterial, answered: Answered) -> Option<Candidate> {
    let words = own_words(batch)?;
    let event = batch.prompt.as_ref()?.event;
    if let Some(option) = picked(batch, &words) {
        return Some(chosen(&option, event));
    }
    if is_assent(&words) {
        return None;
    }
    let all = sentences(&words);
    let rules_any = all.iter().any(|sentence| rules(sentence));
    let corrects = corrects(batch, &words, answered);
    let choice = choice(batch, &words);
    let is_left = answered == Answered::No && words.chars().count() >= SHORTEST;
    let reasons = [rules_any, corrects, choice.is_some(), is_left];
    if !reasons.contains(&true) {
        return None;
    }
    let told = if corrects || choice.is_some() || is_left { all } else { from_the_firmest(all) };
    let mut told = told.into_iter();
    let first = told.next()?;
    let mut room = WORDS.saturating_sub(first.len());
    let told = told.take_while(|sentence| {
        let fits = sentence.len() <= room;
        room = room.saturating_sub(sentence.len());
        fits
    });
    let sentences = told.chain(choice).map(|text| Sentence { text, role: Role::Prose }).collect();
    let origin = if follows(batch) && correction::is_one(&words) {
        CandidateSource::Correction
    } else {
        CandidateSource::User
    };
    let mut candidate = Candidate::new(origin, Passage { sentences, ..Passage::default() }, event);
    let is_open = is_left && batch.steps.iter().all(|step| !changes(&step.action));
    candidate.title = Some(format!("{}: {first}", if is_open { "User (unanswered)" } else { "User" }));
    candidate.kind = Some(ObservationType::Decision);
    let weights = [25, 25, 25, 15];
    candidate.bonus =
        20 + reasons.iter().zip(weights).filter(|(holds, _)| **holds).map(|(_, weight)| weight).sum::<i32>();
    Some(candidate)
}

/// The option that a bare number picks out of the list that ended the answer before.
fn picked(batch: &BatchMaterial, words: &str) -> Option<String> {
    let number: usize = words.trim().trim_end_matches(['.', ')']).parse().ok()?;
    let passages = super::markdown::passages(batch.previous_response.as_deref()?);
    let with_items =
        passages.iter().rfind(|passage| passage.sentences.iter().any(|said| said.role == Role::Item))?;
    let mut items = with_items.sentences.iter().filter(|said| said.role == Role::Item);
    items.nth(number.checked_sub(1)?).map(|item| item.text.clone())
}

fn chosen(option: &str, event: EventId) -> Candidate {
    let mut candidate = Candidate::new(CandidateSource::User, Passage::default(), event);
    candidate.title = Some(format!("User chose: {option}"));
    candidate.kind = Some(ObservationType::Decision);
    candidate.bonus = 40;
    candidate
}

/// The sentences that lay something down, beginning with the firmest.
fn from_the_firmest(all: Vec<String>) -> Vec<String> {
    let ruling: Vec<String> = all.into_iter().filter(|sentence| rules(sentence)).collect();
    let firmest = ruling.iter().map(|sentence| cue::read(sentence).worth()).max();
    ruling.into_iter().skip_while(|sentence| Some(cue::read(sentence).worth()) != firmest).collect()
}

/// Whether the prompt turns against what was said or done before.
fn corrects(batch: &BatchMaterial, words: &str, answered: Answered) -> bool {
    let opens = cue::begins_with(words, CORRECTION) && words.split_whitespace().count() > 4;
    let only_asks = answered == Answered::Yes && sentences(words).iter().all(|sentence| asks(sentence));
    let turns = opens || cue::mentions(words, CONTRADICTION) || correction::is_one(words);
    follows(batch) && !only_asks && turns
}

/// Whether there is an answer that a prompt can turn against.
fn follows(batch: &BatchMaterial) -> bool {
    batch.previous_response.is_some() || batch.prompt_number > 1
}

fn changes(action: &Action) -> bool {
    matches!(action, Action::Edit { .. } | Action::Write { .. } | Action::Plan { .. })
}

/// Whether the batch has an answer worth the name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Answered {
    Yes,
    No,
}

/// Whether a sentence lays something down. Questions do not, and what the user does not see or know is no rule.
fn rules(sentence: &str) -> bool {
    let forbids =
        sentence.split([',', ';']).any(|clause| cue::begins_with(clause, "don't, do not, never, not"));
    !asks(sentence) && (forbids || cue::mentions(sentence, RULE))
}

fn asks(sentence: &str) -> bool {
    sentence.trim_end().ends_with('?')
}

/// What the prompt chose of: the question or offer that ended the answer before. A short prompt with words of its own
/// after such a question is an answer to it.
fn choice(batch: &BatchMaterial, words: &str) -> Option<String> {
    if words.len() > 240 || words.trim_end().ends_with('?') {
        return None;
    }
    let previous = batch.previous_response.as_deref()?;
    let asked = closing_question(previous)?;
    names_part(words, &asked).then(|| format!("In answer to: {asked}"))
}

/// Whether the words take one of the things the question names: `take sqlite`, but not `do both`.
fn names_part(words: &str, question: &str) -> bool {
    let question = question.to_lowercase();
    let picks = ["first", "second", "third", "option", "former", "latter", "erste", "zweite", "variante"];
    words
        .to_lowercase()
        .split(|gap: char| !gap.is_alphanumeric())
        .filter(|word| word.chars().count() > 3)
        .any(|word| {
            picks.contains(&word)
                || (question.contains(word)
                    && !["this", "that", "want", "with", "diese", "das"].contains(&word))
        })
}

/// The last question of an answer with what it is about.
pub(super) fn closing_question(answer: &str) -> Option<String> {
    let passages = super::markdown::passages(answer);
    let sentences: Vec<&Sentence> =
        passages.iter().rev().take(2).rev().flat_map(|passage| passage.sentences.iter()).collect();
    let at = sentences.iter().rposition(|sentence| asks(&sentence.text))?;
    let question = sentences.get(at)?;
    let leans = question.text.len() < 60 || super::candidate::is_dependent(&question.text);
    let before = at.checked_sub(1).filter(|_| leans).and_then(|before| sentences.get(before));
    let mut told = before.map_or(String::new(), |before| format!("{} ", before.text));
    told.push_str(&question.text);
    Some(sentence::shortened(&told, 330))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(prompt: &str, previous: &str) -> BatchMaterial {
        BatchMaterial {
            prompt: Some(SourcedText { event: EventId([1; 16]), text: prompt.to_owned() }),
            previous_response: (!previous.is_empty()).then(|| previous.to_owned()),
            ..BatchMaterial::default()
        }
    }

    #[track_caller]
    fn check(prompt: &str, previous: &str, expected: Option<&str>) {
        let found = candidate(&batch(prompt, previous), Answered::Yes);
        assert_eq!(found.and_then(|found| found.title).as_deref(), expected);
    }

    #[test]
    fn rules_corrections_and_choices_are_told() {
        check("Never push to main from here.", "", Some("User: Never push to main from here."));
        check("Look at the parser. Use tabs, don't reformat.", "", Some("User: Use tabs, don't reformat."));
        check("no, the server closes it", "The client does.", Some("User: no, the server closes it"));
        check("take the second one", "A or B. Which do you want?", Some("User: take the second one"));
        check(
            "Bitte immer erst die Tests schreiben.",
            "",
            Some("User: Bitte immer erst die Tests schreiben."),
        );
    }

    #[test]
    fn a_number_picks_an_option() {
        let options = "Two ways out:\n\n1. raise the limit\n2. pin the agent\n\nI would pin it.";
        check("2", options, Some("User chose: pin the agent"));
        check("3", options, None);
        check("2", "Done.", None);
    }

    #[test]
    fn plain_requests_assent_and_menu_numbers_are_not() {
        check("fix the login page", "", None);
        check("yes please, go ahead", "Want me to?", None);
        check("ok", "", None);
        check("6", "", None);
        check("/review", "", None);
        check("can you look at src/a.rs?", "", None);
    }

    #[test]
    fn machines_do_not_speak_for_the_user() {
        assert_eq!(own_words(&batch("<task-notification>never</task-notification>", "")), None);
        let mut private = batch("never", "");
        private.source = BatchSource::Private;
        assert_eq!(own_words(&private), None);
    }

    #[test]
    fn a_choice_brings_its_question_along() {
        let found =
            candidate(&batch("take sqlite", "Fine.\n\nFiles or SQLite? Which do you want?"), Answered::Yes);
        let told =
            found.map(|found| found.passage.sentences.iter().map(|s| s.text.clone()).collect::<String>());
        assert_eq!(told.as_deref(), Some("In answer to: Files or SQLite? Which do you want?"));
    }
}
