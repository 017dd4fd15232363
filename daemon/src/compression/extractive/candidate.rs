//! What might become an observation, and how much it is worth.

use super::cue::{self, Cues};
use super::markdown::{Passage, Sentence};
use super::sentence;
use crate::memory::ids::EventId;
use crate::memory::observation::ObservationType;
use crate::memory::subject::SubjectKey;

/// Where a candidate was found. It decides the title's form and how much is known of its standing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CandidateSource {
    /// The agent's final answer.
    Answer,
    /// A commit, pull request, issue or comment.
    Statement,
    /// What the user laid down: a rule, a correction, a choice, an answer to a question.
    User,
    /// A plan that the user approved.
    Plan,
    /// Prose that the agent wrote into a file.
    Note,
    /// A comment in code that an edit brought.
    Remark,
    /// The user turned against what was said or done: a correction, a rejected call, work taken back.
    Correction,
    /// A command that failed and what made it work.
    Failure,
    /// A check that fails at the end of the batch.
    Failing,
    /// A subagent's report.
    Report,
    /// What is left to do or to decide.
    OpenEnd,
    /// A request that was worked on when the batch ended without an answer.
    Unfinished,
}

/// A passage with what is known of it.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    pub(super) origin: CandidateSource,
    /// Where the source says it; else it is told from the wording.
    pub(super) kind: Option<ObservationType>,
    /// Where the source has one, such as a commit's first line.
    pub(super) title: Option<String>,
    pub(super) passage: Passage,
    /// A commit or page that holds the whole.
    pub(super) reference: Option<String>,
    /// A word or two for what it is about, where the source names it.
    pub(super) topic: Option<String>,
    pub(super) evidence: Vec<EventId>,
    /// Added to the worth of the wording, in tenths of a point.
    pub(super) bonus: i32,
    /// Where the source says what it is about; else it is read from the title.
    pub(super) subject: Option<SubjectKey>,
}

impl Candidate {
    pub(super) fn new(origin: CandidateSource, passage: Passage, event: EventId) -> Self {
        Self {
            origin,
            kind: None,
            title: None,
            passage,
            reference: None,
            topic: None,
            evidence: vec![event],
            bonus: 0,
            subject: None,
        }
    }

    /// What the candidate is worth, in tenths of a point: its best sentences, the later ones counting less.
    pub(super) fn worth(&self) -> i32 {
        let mut worths: Vec<i32> = self.passage.sentences.iter().map(worth).collect();
        if let Some(title) = &self.title {
            worths.push(cue::read(title).worth());
        }
        worths.sort_unstable_by(|a, b| b.cmp(a));
        let shares = [10, 5, 3];
        let wording: i32 = worths.iter().zip(shares).map(|(worth, share)| worth.max(&0) * share / 10).sum();
        let heading = self.passage.heading.as_deref().or(self.passage.section.as_deref());
        wording + self.bonus + heading.map_or(0, heading_bonus)
    }

    /// Whether it stands under a heading that announces a cause.
    pub(super) fn tells_cause(&self) -> bool {
        let headings = [&self.passage.heading, &self.passage.section];
        headings
            .into_iter()
            .flatten()
            .any(|heading| cue::mentions(heading, "root cause, cause, the problem, ursache"))
    }

    /// Whether the sentence is part of it.
    pub(super) fn tells(&self, text: &str) -> bool {
        self.title.as_deref().is_some_and(|title| title.contains(text))
            || self.passage.sentences.iter().any(|sentence| sentence.text == text)
    }

    /// The cues of the whole, heading included.
    pub(super) fn cues(&self) -> Cues {
        let mut text = self.passage.heading.clone().unwrap_or_default();
        for part in self.title.iter().chain(self.passage.sentences.iter().map(|sentence| &sentence.text)) {
            text.push_str(". ");
            text.push_str(part);
        }
        cue::read(&text)
    }
}

/// What one sentence is worth where it stands.
pub(super) fn worth(sentence: &Sentence) -> i32 {
    cue::read(&sentence.text).worth()
}

/// Headings that announce knowledge, and headings that announce routine.
fn heading_bonus(heading: &str) -> i32 {
    if cue::mentions(heading, "root cause, cause, why, problem, the bug, ursache, problem, warum") {
        return 15;
    }
    if cue::mentions(
        heading,
        "caveat, gotcha, note, warning, important, severe, decision, limitation, wichtig, achtung",
    ) {
        return 10;
    }
    if is_routine(heading) {
        return -20;
    }
    0
}

fn is_routine(heading: &str) -> bool {
    const ROUTINE: &str = "verified, verification, tests, test results, test plan, files changed, files modified, \
        usage, how to run, sources, build, checklist, tests added, commands, references, \
        proof, example, next steps, status, \
        out of scope";
    // `PR comment`: what was said there is told from where it was said.
    const MESSAGES: &str = "commit, commits, comment, comments, pr, pull request, branch, push";
    let is_short = heading.split_whitespace().count() <= 3;
    cue::begins_with(heading, ROUTINE) || (is_short && cue::mentions(heading, MESSAGES))
}

/// Whether the heading says what the passage is about, so that it can be a title by itself.
pub(super) fn is_telling(heading: &str) -> bool {
    let words = heading.split_whitespace().count();
    let cues = cue::read(heading);
    if cue::begins_with(heading, LABELS) && cues.names == 0 {
        return false;
    }
    words >= 4 && (cues.names > 0 || cues.rule + cues.change + cues.choice > 0 || words >= 6)
}

/// What a heading says by itself: `Fix (two lines)` is `Fix`.
pub(super) fn label(heading: &str) -> &str {
    let end = heading.find([',', '(', '—', ':']).unwrap_or(heading.len());
    heading.get(..end).unwrap_or_default().trim()
}

/// Whether a heading only says that something follows: `Summary`, `Modified files`.
pub(super) fn is_generic(heading: &str) -> bool {
    const GENERIC: &str = "summary, modified files, new files, files, key features, features, key changes, implementation, done, result, results, analysis, overview, changes, what changed, what i changed, \
        what was done, notes, context, details, background, findings, answer, fixed, fix, also, \
        verified, verification, in short, tl, short answer, conclusion, changes made, what i did, \
        zusammenfassung, ergebnis, fazit, änderungen, kurz";
    cue::begins_with(heading, GENERIC)
}

/// Words that name a sort of content, not a content.
const LABELS: &str = "root cause, cause, fix, the fix, problem, the problem, proposed fix, solution, result, \
    recommendation, bug, the bug, ursache, lösung";

/// Whether a sentence needs the one before it to be understood.
pub(super) fn is_dependent(text: &str) -> bool {
    cue::begins_with(
        text,
        "it, this, that, these, those, they, so, which, but, and, also, then, otherwise, he, \
                its, both, neither, instead, either, however, hence, therefore, same, es, das, \
                dies, diese, so, aber, und, dann, damit, deshalb, sonst",
    )
}

/// The sentence as it stands in an observation: without an opening that only ties it to what was left out.
pub(super) fn status(text: &str) -> String {
    let mut rest = text;
    for opening in [
        "Done — ",
        "Done - ",
        "Done: ",
        "Fixed — ",
        "So ",
        "And ",
        "But ",
        "Also, ",
        "Also ",
        "Then ",
        "However, ",
        "Note: ",
        "Note that ",
        "Und ",
        "Aber ",
    ] {
        if let Some(stripped) = rest.strip_prefix(opening) {
            rest = stripped;
            break;
        }
    }
    let mut characters = rest.chars();
    match characters.next() {
        Some(first) if rest.len() < text.len() => first.to_uppercase().chain(characters).collect(),
        _ => sentence::tidy(rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::ids::EventId;

    #[test]
    fn headings_that_say_something_are_titles() {
        for sentence in ["The cache is never invalidated", "A stale lease is renewed, not dropped"] {
            assert!(is_telling(sentence), "{sentence}");
        }
        for label in ["Root cause, in short", "Fix (two lines)", "Why", "Key features"] {
            assert!(!is_telling(label), "{label}");
        }
        assert_eq!(label("Root cause, in short"), "Root cause");
        assert_eq!(label("Fix (two lines)"), "Fix");
    }

    #[test]
    fn an_opening_that_leans_on_what_went_before_is_cut_off() {
        assert_eq!(status("So the lock is held."), "The lock is held.");
        assert_eq!(status("Done — it works."), "It works.");
        assert_eq!(status("Sockets close."), "Sockets close.");
        assert!(is_dependent("It fails then."));
        assert!(!is_dependent("Italics fail."));
    }

    #[test]
    fn a_cause_is_worth_more_than_a_check() {
        let worth = |heading: &str, text: &str| {
            Candidate::new(CandidateSource::Answer, Passage::prose(Some(heading), text), EventId([0; 16]))
                .worth()
        };
        let cause = worth("Root cause", "The pool is closed before `drain` returns.");
        assert!(cause > worth("Details", "The pool is closed before `drain` returns."));
        assert!(worth("Verified", "The pool is closed before `drain` returns.") < cause - 20);
    }
}
