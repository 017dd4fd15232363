//! What a whole batch says about its observations: the work it was, its files, how much there is to tell.

use super::cue;
use super::files::TouchedFiles;
use super::gather;
use super::request;
use super::statement;
use crate::memory::material::{Action, BatchMaterial, SourcedText};
use crate::memory::observation::ObservationType;

/// Answers up to this many bytes are told in full.
const SHORT_ANSWER: usize = 1_200;

/// The first characters of prompt and answer that say what sort of work it was.
const OPENING: usize = 600;

const REPAIR: &str = "fix, fixed, fixes, bug, error, broken, fails, failing, issue, regression, crash, problem, wrong, \
    fehler, kaputt, behoben";

/// An answer speaks of failures on the way to anything.
const REPAIRED: &str = "fixed, bug, bugfix, regression, root cause, behoben";

const REORDERING: &str = "refactor, refactored, rename, renamed, extract, extracted, simplify, clean up, cleanup, split, \
    move, moved, umbenennen, aufräumen";

const EXTENSION: &str = "add, adds, added, implement, implemented, support, introduce, create, new, build, feature, neu, \
    neue, hinzufügen, füge, baue";

/// What sort of work a batch was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WorkKind {
    /// Nothing was changed.
    Inquiry,
    /// Files were changed or something was committed.
    Done(ObservationType),
}

/// How much an observation of the batch may say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Detail {
    /// The batch has much to tell.
    Brief,
    /// What there is to tell is short.
    Full,
}

/// The batch around its observations.
#[derive(Clone, Debug)]
pub(super) struct Setting {
    pub(super) files: TouchedFiles,
    pub(super) work: WorkKind,
    pub(super) detail: Detail,
    /// What the user asked, for answers that begin with yes or no.
    pub(super) question: Option<String>,
    /// What the user asked to have done, where it was done.
    pub(super) request: Option<String>,
}

impl Setting {
    pub(super) fn of(batch: &BatchMaterial) -> Self {
        let files = TouchedFiles::of(batch);
        let length = gather::answer(batch).map_or(0, |answer| answer.text.len());
        let asked = request::own_words(batch).map(|words| request::sentences(&words)).unwrap_or_default();
        let stated = stated(batch);
        let work =
            if files.any_modified() || stated { WorkKind::Done(kind(batch)) } else { WorkKind::Inquiry };
        let says_all = |sentence: &&String| request::is_substantial(sentence) && !sentence.ends_with('?');
        let request = asked.first().filter(says_all).map(|sentence| request::plainly(sentence));
        Self {
            work,
            request: request
                .filter(|_| work != WorkKind::Inquiry && !stated)
                .map(|request| request.trim_end_matches('.').to_owned()),
            files,
            detail: if length <= SHORT_ANSWER { Detail::Full } else { Detail::Brief },
            question: asked.into_iter().rfind(|sentence| sentence.ends_with('?')),
        }
    }
}

/// Whether something was committed or published.
fn stated(batch: &BatchMaterial) -> bool {
    batch.steps.iter().filter(|step| !step.outcome.is_failed()).any(|step| match &step.action {
        Action::Command { command, output, .. } => !statement::statements(command, output).is_empty(),
        _ => false,
    })
}

/// The request says it better than the answer, which mentions errors and additions on the way.
fn kind(batch: &BatchMaterial) -> ObservationType {
    const OTHERS: [(&str, ObservationType); 2] =
        [(REORDERING, ObservationType::Refactor), (EXTENSION, ObservationType::Feature)];
    let spoken = [(batch.prompt.as_ref(), REPAIR), (batch.response.as_ref(), REPAIRED)];
    let found = spoken.into_iter().find_map(|(said, repair)| {
        let text = opening(said);
        let kinds = [(repair, ObservationType::Bugfix)].into_iter().chain(OTHERS);
        kinds.filter(|(words, _)| cue::mentions(&text, words)).map(|(_, kind)| kind).next()
    });
    found.unwrap_or(ObservationType::Change)
}

fn opening(said: Option<&SourcedText>) -> String {
    said.map_or(String::new(), |said| said.text.chars().take(OPENING).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::ids::{EventId, Timestamp};
    use crate::memory::material::{CallOutcome, Change, Step};

    #[track_caller]
    fn check(prompt: &str, answer: &str, edited: &[&str], expected: WorkKind) {
        let said = |text: &str| Some(SourcedText { event: EventId([1; 16]), text: text.to_owned() });
        let edit = |path: &&str| Step {
            event: EventId([2; 16]),
            at: Timestamp(0),
            tool: "Edit".to_owned(),
            outcome: CallOutcome::Done,
            subagent: None,
            action: Action::Edit {
                path: (*path).to_owned(),
                changes: vec![Change { before: String::new(), after: "x".to_owned() }],
            },
        };
        let batch = BatchMaterial {
            prompt: said(prompt),
            response: said(answer),
            steps: edited.iter().map(edit).collect(),
            ..BatchMaterial::default()
        };
        assert_eq!(Setting::of(&batch).work, expected);
    }

    #[test]
    fn the_request_names_the_work() {
        check("the login is broken", "Added a test.", &["a.rs"], WorkKind::Done(ObservationType::Bugfix));
        check("add a login page", "Fixed a typo too.", &["a.rs"], WorkKind::Done(ObservationType::Feature));
        check("rename Foo to Bar", "Done.", &["a.rs"], WorkKind::Done(ObservationType::Refactor));
        check("go on", "Everything is in place.", &["a.rs"], WorkKind::Done(ObservationType::Change));
    }

    #[test]
    fn without_a_change_it_was_an_inquiry() {
        check("fix the login", "I found the bug.", &[], WorkKind::Inquiry);
    }
}
