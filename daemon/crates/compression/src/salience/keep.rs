//! Decides whether an observation is kept: whether a colleague would want it a week later.
//!
//! The text of a rejected observation stays searchable as a passage. The weights were learned from observations that
//! people judged, see `docs/observations.md`. They use nothing that comes after the batch, so an observation that is
//! emitted when its batch ends is still kept when its session ends.

use std::sync::LazyLock;

use super::analysis::{Analysis, Places};
use super::cues;
use super::terms::{self, Terms, Vocabulary};
use super::unit_features::KINDS;
use super::windows::Window;
use crate::phrases::Phrases;
use crate::wording;
use recall_domain::linear::Features;
use recall_domain::observation::ObservationType;

/// The model. An observation with a value below zero is not kept.
pub const MODEL: &str = "keep";

/// An observation to judge.
#[derive(Clone, Copy, Debug)]
pub struct Proposed<'a> {
    pub window: &'a Window,
    pub kind: ObservationType,
    pub title: &'a str,
    pub narrative: &'a str,
    pub facts: &'a [String],
}

static HEDGES: LazyLock<Phrases> = LazyLock::new(|| {
    cues::cue(
        "may.,might.,maybe.,perhaps.,probabl,possibl,could.,seems.,seem.,appears.,appear.,likely.,unlikely.,i think.,\
i guess.,not sure.,unsure.,unclear.,should work.,would be.,assum,suspect,apparently.,roughly.",
    )
});
static PROCESS: LazyLock<Phrases> = LazyLock::new(|| {
    cues::cue(
        "checked.,verified.,confirmed.,ran.,rerun.,re ran.,looked.,reviewed.,tested.,inspected.,searched.,read.,opened.,\
reading.,checking.,verifying.,running.,investigat,worktree.,branch.,merge.,merged.,rebase,rebased.,pr.,ci.,session.,turn.,comment.,\
review.,reviewer.,ready.,restart,try.,again.,please.,done.,complete.,above.,below.",
    )
});
const TYPES: [(ObservationType, &str); 6] = [
    (ObservationType::Decision, "is decision"),
    (ObservationType::Change, "is change"),
    (ObservationType::Discovery, "is discovery"),
    (ObservationType::Gotcha, "is gotcha"),
    (ObservationType::Bugfix, "is bugfix"),
    (ObservationType::NextStep, "is next step"),
];

/// The features of an observation. `salience` contains that of each unit; `worth` is that of its window.
pub fn features(analysis: &Analysis, (salience, worth): (&[f64], f64), candidate: Proposed<'_>) -> Features {
    let body = std::iter::once(candidate.narrative).chain(candidate.facts.iter().map(String::as_str));
    let body = body.collect::<Vec<_>>().join(" ");
    let mut words = Vocabulary::default();
    let titled = terms::read(candidate.title, &mut words);
    let all_terms = terms::read(&format!("{} {body}", candidate.title), &mut words);
    let mut features = Features::default();
    let f = &mut features;
    title(f, candidate.title, &titled);
    text(f, analysis, candidate, &body, &all_terms);
    for (kind, name) in TYPES {
        f.add(name, candidate.kind == kind);
    }
    place(f, analysis, candidate.window);
    let scores = salience.get(candidate.window.first..=candidate.window.last).unwrap_or_default();
    f.add("worth", worth.max(0.0).sqrt());
    f.add("best unit", scores.iter().copied().fold(0.0, f64::max));
    f.add("mean of units", scores.iter().sum::<f64>() / scores.len().max(1) as f64);
    features
}

fn title(f: &mut Features, title: &str, terms: &Terms) {
    for (name, is_so) in wording::manner(title) {
        f.add(name, is_so);
    }
    f.add("title faults", f64::from(wording::title_faults(title)));
    f.count("title words", title.split_whitespace().count(), 25);
    f.add("title length", (title.chars().count().max(1) as f64).ln());
    f.count("title names", terms.names.len(), 5);
    f.add("title stop words", share(terms.stop_words, terms.words));
    f.add("title has label", title.contains(": "));
    f.count("title numbers", terms.numbers, 3);
    f.count("title quotes", title.matches(['"', '“', '(']).count(), 4);
    let lower = cues::plain(title);
    f.add("title process", PROCESS.are_in(&lower));
    f.add("title hedge", HEDGES.are_in(&lower));
    for (name, cue) in cues::TEXT.iter() {
        if let Some(name) = TITLE_CUES.iter().find(|(known, _)| known == name).map(|(_, name)| *name) {
            f.add(name, cue.are_in(&lower));
        }
    }
}

const TITLE_CUES: [(&str, &str); 7] = [
    ("cue contrast", "title contrast"),
    ("cue past", "title past"),
    ("cue fix", "title fix"),
    ("cue norm", "title norm"),
    ("cue status", "title status"),
    ("cue we", "title we"),
    ("cue test", "title test"),
];

fn text(f: &mut Features, analysis: &Analysis, candidate: Proposed<'_>, body: &str, terms: &Terms) {
    let whole = format!("{} {body}", candidate.title);
    let chars = whole.chars().count().max(1);
    f.add("length", (chars as f64).ln());
    f.add("has no body", body.trim().is_empty());
    f.count("facts", candidate.facts.len(), 6);
    f.count("sentences", body.matches(". ").count() + 1, 8);
    f.count("names", terms.names.len(), 12);
    f.add("share of names", share(terms.name_chars, chars));
    let content = &candidate.window.content;
    let rare = content.iter().filter(|term| analysis.frequency(**term) <= 1).count();
    f.add("rare", share(rare, content.len()));
    f.count("numbers", terms.numbers, 8);
    f.count("paths", terms.paths, 4);
    f.add("stop words", share(terms.stop_words, terms.words));
    f.add("signs", share(whole.matches(['{', '}', '=', ';', '<', '>', '|', '/']).count(), chars));
    f.add("asks", whole.contains('?'));
    f.count("labels", body.matches(": ").count(), 5);
    let lower = cues::plain(&whole);
    f.add("hedge", HEDGES.are_in(&lower));
    f.add("process", PROCESS.are_in(&lower));
    for (name, cue) in cues::TEXT.iter() {
        f.add(name, cue.are_in(&lower));
    }
}

fn place(f: &mut Features, analysis: &Analysis, window: &Window) {
    let Some(source) = analysis.sources.get(window.source) else { return };
    for (kind, name) in KINDS {
        f.add(name, source.kind == kind);
    }
    let units = source.units.len();
    let at = window.first - source.units.start;
    f.add("place", at as f64 / units.saturating_sub(1).max(1) as f64);
    f.count("units before", at, 20);
    f.count("units behind", (source.units.end - 1).saturating_sub(window.last), 20);
    f.count("units", window.last + 1 - window.first, 9);
    f.count("sections", source.sections, 15);
    f.add("has heading", window.heading_chars > 0);
    f.add("share in prompts", analysis.share_in(&window.content, Places::PROMPT));
    f.add("share in commits", analysis.share_in(&window.content, Places::COMMIT));
    let batch = analysis.facts.get(source.batch).copied().unwrap_or_default();
    f.add("edits of batch", (batch.edits as f64).ln_1p());
    f.add("failures of batch", (batch.failures as f64).ln_1p());
    f.add("steps of batch", (batch.steps as f64).ln_1p());
    f.add("length of prompt", (batch.prompt_chars as f64).ln_1p());
    f.add("prompt asks", batch.asks);
}

fn share(part: usize, whole: usize) -> f64 {
    part as f64 / whole.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::super::{Salience, built_in};
    use super::*;
    use recall_domain::ids::EventId;
    use recall_domain::material::{BatchMaterial, SourcedText};

    /// The value that the shipped weights give to an answer of one sentence.
    fn value(answer: &str) -> f64 {
        let sourced = |text: &str| Some(SourcedText { event: EventId([1; 16]), text: text.to_owned() });
        let batch = BatchMaterial {
            prompt: sourced("Why is it slow?"),
            response: sourced(answer),
            ..BatchMaterial::default()
        };
        let salience = Salience::of([&batch], built_in());
        let is_answer = |window: &&Window| salience.analysis.units[window.first].text == answer;
        let window = salience.windows.iter().find(is_answer).unwrap();
        let (kind, title) = (ObservationType::Discovery, answer.trim_end_matches('.'));
        let candidate = Proposed { window, kind, title, narrative: "", facts: &[] };
        let features = features(&salience.analysis, (&salience.units, 1.0), candidate);
        built_in().model(MODEL).predict(&features.values())
    }

    #[test]
    fn a_cause_is_worth_more_than_talk_doubt_and_status() {
        let cause = value("`Ledger::close` waits for every reader because `drop` takes the write lock.");
        assert!(cause > 0.0, "{cause}");
        for talk in [
            "I looked at the branch again and reviewed your comments above.",
            "Maybe it could be the review comment, I am not sure.",
            "The pull request was merged and the pipeline is passing again.",
        ] {
            assert!(value(talk) + 0.1 < cause, "{talk}: {} of {cause}", value(talk));
        }
    }
}
