//! What the user would not have: corrections, calls they rejected, work they had taken back.
//!
//! Whoever makes the same mistake again costs the user most, so these weigh more than anything else that is said. The
//! price of a false one is as high; only a prompt that follows an answer and opens against it counts.

use super::candidate::{Candidate, CandidateSource};
use super::cue;
use super::identifier;
use super::markdown::Passage;
use super::request;
use super::sentence::shortened;
use super::statement::{self, Medium};
use crate::memory::ids::EventId;
use crate::memory::material::{Action, BatchMaterial, CallOutcome, Step, beneath};
use crate::memory::observation::ObservationType;

/// Bytes of what was said before, or would have been written.
const ABOUT: usize = 160;

/// At most so many rejected calls of a batch are told.
const MOST_REJECTED: usize = 2;

/// Openings that turn against what was said or done, whatever follows.
const AGAINST: &str = "i said, i told you, as i said, like i said, i meant, i asked for, i asked you to, \
    that's not what i, that is not what i, this is not what i, not what i, you misunderstood, that's wrong, \
    that is wrong, this is wrong, you're wrong, you are wrong, that's not right, that is not right, \
    that's incorrect, that is incorrect, wrong, ich sagte, ich habe gesagt, ich meinte, das ist falsch, \
    das stimmt nicht, so nicht";

/// What a no is followed by where it corrects nothing.
const HARMLESS: &str = "problem, problems, worries, need, idea, rush, hurry, thanks, thank you, question, questions, \
    thats fine, that's fine, that's ok, that's okay, that's all, it's fine, it's ok, i'm fine, all good, go ahead, \
    more, further, danke, passt, schon gut, alles gut";

/// What a don't is followed by where it corrects nothing.
const HARMLESS_DONT: &str = "don't worry, do not worry, don't forget, do not forget, don't hesitate, don't know, do not know, \
    don't you, don't mind, don't think, do not think, don't see, do not see, don't understand, don't have, do not have, \
    don't need to, do not need to";

/// What has work taken back.
const UNDO: &str = "revert, revert that, undo, undo that, roll back, roll that back, take that back, rückgängig, zurücknehmen";
const ASKS_TO_UNDO: &str = "revert, undo, roll back, roll that back, roll it back, take that back, take it back, \
    please revert, please undo, please roll back, no revert, no undo, mach das rückgängig, nimm das zurück, \
    bitte rückgängig, can you revert, can you undo";

/// Whether a prompt that follows an answer turns against it.
pub(super) fn is_one(words: &str) -> bool {
    let Some(first) = request::sentences(words).into_iter().next() else { return false };
    if first.ends_with('?') {
        return false;
    }
    let count = first.split_whitespace().count();
    let forbids = cue::begins_with(&first, "don't, do not") && !cue::begins_with(&first, HARMLESS_DONT);
    let stops = cue::begins_with(&first, "stop")
        && first.split_whitespace().nth(1).is_some_and(|word| word.len() > 4 && word.ends_with("ing"));
    let chooses_other = (cue::begins_with(&first, "not") && first.contains(" but "))
        || (cue::begins_with(&first, "nicht") && first.contains(" sondern "))
        || (cue::begins_with(&first, "use, nimm")
            && (first.contains(", not ") || first.contains(" instead")));
    denies(words) || (count > 2 && (cue::begins_with(&first, AGAINST) || forbids || stops || chooses_other))
}

/// `no, use X`: a no that is set off from what it says instead.
fn denies(words: &str) -> bool {
    let lower = words.trim().to_lowercase();
    let Some(rest) = ["nope", "no", "nein"].iter().find_map(|no| lower.strip_prefix(no)) else {
        return false;
    };
    let is_set_off = rest.starts_with([',', '.', '!', ';', ':', '-', '—', '–', '\n']) || {
        let leads = "that's, that is, it, the, use, don't, not, i, we, you, this, das, wir, nimm, nicht";
        rest.starts_with(' ') && cue::begins_with(rest, leads)
    };
    let said = rest.trim_start_matches(|edge: char| !edge.is_alphanumeric());
    let asks = request::sentences(said).first().is_none_or(|first| first.ends_with('?'));
    is_set_off && said.split_whitespace().count() > 1 && !asks && !cue::begins_with(said, HARMLESS)
}

/// Whether a prompt has the work before it taken back.
pub(super) fn takes_back(words: &str) -> bool {
    !words.ends_with('?') && words.len() < 200 && cue::mentions(words, UNDO)
}

/// What the user would not have, but for what they said: see [`is_one`].
pub(super) fn candidates(batch: &BatchMaterial) -> Vec<Candidate> {
    let rejected = batch.steps.iter().filter_map(|step| rejected(step, batch.root.as_deref()));
    let mut found: Vec<Candidate> = rejected.take(MOST_REJECTED).collect();
    found.extend(taken_back(batch));
    found
}

fn rejected(step: &Step, root: Option<&str>) -> Option<Candidate> {
    let CallOutcome::Rejected { said } = &step.outcome else { return None };
    let path = |path: &str| beneath(path, root).unwrap_or_else(|| identifier::file_name(path).to_owned());
    let (deed, new) = match &step.action {
        Action::Edit { path: file, changes } => {
            (format!("an edit of `{}`", path(file)), changes.first().map(|change| change.after.as_str()))
        }
        Action::Write { path: file, content, .. } => {
            (format!("writing `{}`", path(file)), Some(content.as_str()))
        }
        Action::Command { command, .. } => {
            let line = command.lines().next().unwrap_or_default().replace('`', "'");
            (format!("the command `{}`", shortened(&line, 90)), None)
        }
        Action::Plan { .. } => ("the plan".to_owned(), None),
        _ => return None,
    };
    let new = new.and_then(|new| new.lines().map(str::trim).find(|line| line.len() > 3));
    let passage =
        new.map(|new| Passage::prose(None, &format!("It would have written: {}", shortened(new, ABOUT))));
    // Without a word it may have been for any reason.
    let origin = if said.is_some() { CandidateSource::Correction } else { CandidateSource::User };
    let mut candidate = Candidate::new(origin, passage.unwrap_or_default(), step.event);
    candidate.title = Some(match said {
        Some(said) => format!("User rejected {deed}: {}", shortened(said.trim(), ABOUT)),
        None => format!("User rejected {deed}"),
    });
    candidate.kind = Some(ObservationType::Decision);
    candidate.bonus = if said.is_some() { 60 } else { 40 };
    Some(candidate)
}

/// Work that was undone because the user asked for it first thing.
fn taken_back(batch: &BatchMaterial) -> Option<Candidate> {
    let words = request::own_words(batch)?;
    let before = batch.previous_response.as_deref()?;
    if !takes_back(&words) || !cue::begins_with(&words, ASKS_TO_UNDO) {
        return None;
    }
    let undone: Vec<EventId> =
        batch.steps.iter().filter(|step| undoes(step)).map(|step| step.event).collect();
    let what = request::sentences(before).into_iter().find(|said| cue::read(said).is_statement())?;
    if undone.is_empty() {
        return None;
    }
    let asked = format!("Asked: {}", shortened(words.trim(), ABOUT));
    let mut candidate = Candidate::new(
        CandidateSource::Correction,
        Passage::prose(None, &asked),
        batch.prompt.as_ref()?.event,
    );
    candidate.evidence.extend(undone);
    candidate.title = Some(format!("User had this taken back: {}", shortened(&what, ABOUT)));
    candidate.kind = Some(ObservationType::Decision);
    candidate.bonus = 50;
    Some(candidate)
}

/// A change, or a command that takes one back.
fn undoes(step: &Step) -> bool {
    match &step.action {
        _ if step.outcome.is_failed() => false,
        Action::Edit { .. } | Action::Write { .. } => true,
        Action::Command { command, output, .. } => {
            let by_git = ["git checkout", "git restore", "git reset", "git revert", "git stash"];
            by_git.iter().any(|undo| command.contains(undo))
                || statement::statements(command, output).iter().any(|said| said.medium == Medium::Revert)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prompt_that_opens_against_the_answer_corrects() {
        for words in [
            "no, use the helper in money.rs",
            "No. The server closes the connection, not the client.",
            "no that's the wrong file",
            "nope, keep the old name",
            "Nein, nimm die andere Datei",
            "not the client but the server",
            "use pnpm, not npm",
            "use the second one instead",
            "I said no new dependencies",
            "I meant the other test",
            "that's wrong, the limit is 30",
            "That's not what I asked for.",
            "don't add comments everywhere",
            "do not touch the lock file",
            "stop adding comments",
            "nicht löschen, sondern verschieben",
        ] {
            assert!(is_one(words), "{words}");
        }
    }

    #[test]
    fn everyday_prompts_correct_nothing() {
        for words in [
            "yes please",
            "no problem, go on",
            "no worries",
            "No, that's fine",
            "no thanks",
            "no need to commit yet",
            "nothing else, thanks",
            "no idea why it fails",
            "note that the build is slow",
            "now run the tests",
            "don't worry about the docs",
            "don't forget the changelog",
            "I don't know",
            "stop for a second, so the issue was the ignore file",
            "stop the server",
            "can you use tabs instead?",
            "is that not the same?",
            "but is this the same issue?",
            "actually, could you look at the parser too?",
            "why did you use npm?",
            "use the staging database",
            "ok lets get back to main",
            "fix both",
            "do stack, fix it",
            "no?",
            "6",
            "",
        ] {
            assert!(!is_one(words), "{words}");
        }
    }

    #[test]
    fn to_take_back_is_said_and_not_asked() {
        assert!(takes_back("undo that") && takes_back("please revert the last commit"));
        assert!(!takes_back("can you revert that?") && !takes_back("go on"));
    }
}
