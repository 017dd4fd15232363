//! Chooses the type of an observation by learned weights. The rules of [`wording`](crate::wording) take precedence.

use super::analysis::Analysis;
use super::cues;
use super::sources::SourceKind;
use super::windows::Window;
use recall_domain::linear::{Features, Weights};
use recall_domain::observation::ObservationType;

/// The kinds of fact that the weights distinguish, with the types that agree with each.
pub const SORTS: [(&str, &[ObservationType]); 12] = {
    use ObservationType as T;
    [
        ("decision", &[T::Decision, T::TradeOff, T::Preference]),
        ("trade_off", &[T::TradeOff, T::Decision, T::Gotcha]),
        ("bugfix", &[T::Bugfix, T::Change]),
        ("feature", &[T::Feature, T::Change]),
        ("refactor", &[T::Refactor, T::Change]),
        ("change", &[T::Change, T::Feature, T::Bugfix, T::Refactor]),
        ("discovery", &[T::Discovery, T::Gotcha]),
        ("gotcha", &[T::Gotcha, T::Discovery, T::Bugfix]),
        ("security", &[T::Security, T::Bugfix, T::Gotcha]),
        ("correction", &[T::Correction, T::Preference, T::Decision]),
        ("preference", &[T::Preference, T::Correction, T::Decision]),
        ("next_step", &[T::NextStep, T::Decision]),
    ]
};

const WORDS: [&str; 87] = [
    "was",
    "were",
    "now",
    "previously",
    "instead",
    "should",
    "must",
    "never",
    "because",
    "fix",
    "fixed",
    "bug",
    "add",
    "added",
    "adds",
    "new",
    "create",
    "rename",
    "renamed",
    "refactor",
    "move",
    "moved",
    "remove",
    "removed",
    "update",
    "updated",
    "change",
    "changed",
    "decision",
    "decided",
    "chose",
    "declined",
    "by design",
    "prefer",
    "keep",
    "not",
    "only",
    "fails",
    "failed",
    "error",
    "missing",
    "root cause",
    "cause",
    "user",
    "wants",
    "todo",
    "deferred",
    "pending",
    "next",
    "follow up",
    "open",
    "limitation",
    "risk",
    "already",
    "exists",
    "uses",
    "is",
    "are",
    "does",
    "currently",
    "plan",
    "test",
    "tests",
    "default",
    "support",
    "if",
    "when",
    "security",
    "token",
    "secret",
    "commit",
    "pushed",
    "recommended",
    "option",
    "later",
    "cannot",
    "can't",
    "doesn't",
    "don't",
    "no longer",
    "gotcha",
    "note",
    "caveat",
    "warning",
    "implemented",
    "replaced",
    "so that",
];

const KINDS: [(SourceKind, &str); 6] = [
    (SourceKind::Answer, "in answer"),
    (SourceKind::Commit, "in commit"),
    (SourceKind::Plan, "in plan"),
    (SourceKind::PlanPrompt, "in plan prompt"),
    (SourceKind::Comment, "in comment"),
    (SourceKind::Ask, "in ask"),
];

/// The features of a run for its type: words of its text, words of its headings, its source.
pub fn features(analysis: &Analysis, window: &Window) -> Features {
    let units = analysis.units.get(window.first..=window.last).unwrap_or_default();
    let text: Vec<&str> = units.iter().map(|unit| unit.text.as_str()).collect();
    let text = cues::plain(&text.join(" "));
    let headings = units.first().map_or(&[][..], |unit| unit.headings.as_slice());
    let headings: Vec<&str> = headings.iter().map(|heading| heading.text.as_str()).collect();
    let headings = cues::plain(&headings.join(" "));
    let mut features = Features::default();
    for word in WORDS {
        features.add(word, has(&text, word));
    }
    for word in WORDS {
        features.add(word, has(&headings, word));
    }
    let first = text.split_whitespace().next().unwrap_or_default();
    for (name, words) in [
        (
            "begins add",
            &[
                "add",
                "added",
                "adds",
                "new",
                "create",
                "created",
                "implement",
                "implemented",
                "introduce",
                "support",
            ][..],
        ),
        ("begins fix", &["fix", "fixed", "fixes"]),
        ("begins remove", &["remove", "removed", "drop", "delete", "removes"]),
        ("begins rename", &["rename", "renamed", "move", "moved", "refactor", "extract", "extracted"]),
    ] {
        features.add(name, words.contains(&first));
    }
    let kind = analysis.sources.get(window.source).map(|source| source.kind);
    for (of, name) in KINDS {
        features.add(name, kind == Some(of));
    }
    features
}

fn has(plain: &str, word: &str) -> bool {
    plain.match_indices(word).any(|(at, _)| {
        let behind = plain.as_bytes().get(at + word.len());
        at.checked_sub(1).and_then(|before| plain.as_bytes().get(before)) == Some(&b' ')
            && behind == Some(&b' ')
    })
}

/// The name of the model for a kind of fact.
pub fn model(sort: &str) -> String {
    format!("kind {sort}")
}

/// For each type of [`ObservationType::ALL`], the likelihood that it agrees with the run.
pub(crate) fn agreements(analysis: &Analysis, window: &Window, weights: &Weights) -> Vec<f32> {
    let row = features(analysis, window).values();
    let likely: Vec<f64> =
        SORTS.iter().map(|(sort, _)| weights.model(&model(sort)).predict(&row).clamp(0.0, 1.0)).collect();
    let agreement = |kind: ObservationType| -> f32 {
        let agreeing = SORTS.iter().zip(&likely).filter(|((_, types), _)| types.contains(&kind));
        agreeing.map(|(_, likely)| *likely as f32).sum()
    };
    ObservationType::ALL.iter().map(|(kind, _)| agreement(*kind)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::salience::windows;
    use recall_domain::ids::EventId;
    use recall_domain::linear::Linear;
    use recall_domain::material::{BatchMaterial, SourcedText};

    fn answered(answer: &str) -> Analysis {
        let response = Some(SourcedText { event: EventId([1; 16]), text: answer.to_owned() });
        Analysis::of([&BatchMaterial { response, ..BatchMaterial::default() }])
    }

    fn set(answer: &str) -> Vec<&'static str> {
        let analysis = answered(answer);
        let windows = windows::windows(&analysis);
        let features = features(&analysis, windows.first().unwrap());
        features.0.into_iter().filter(|(_, value)| *value > 0.0).map(|(name, _)| name).collect()
    }

    #[test]
    fn whole_words_of_text_and_headings_are_features() {
        let names = set("Fixed the cart, which was missing the sign of refunds.");
        for name in ["was", "fixed", "missing", "begins fix", "in answer"] {
            assert!(names.contains(&name), "{name}: {names:?}");
        }
        // `fix` within `fixed`, `is` within `missing`
        assert!(!names.contains(&"fix") && !names.contains(&"is"), "{names:?}");
        let headed = set("## Decision\n\nThe cart holds integer cents.");
        assert_eq!(headed.iter().filter(|name| **name == "decision").count(), 1, "{headed:?}");
    }

    #[test]
    fn the_agreement_of_a_type_is_the_sum_over_the_sorts_it_covers() {
        let analysis = answered("Rates of the provider are cached for an hour.");
        let windows = windows::windows(&analysis);
        let mut weights = Weights::default();
        for (sort, bias) in [("bugfix", 0.5), ("next_step", -3.0), ("feature", 7.0)] {
            weights.models.insert(model(sort), (Vec::new(), Linear { bias, weights: Vec::new() }));
        }
        let agreements = agreements(&analysis, windows.first().unwrap(), &weights);
        let of = |kind| {
            let at = ObservationType::ALL.iter().position(|(known, _)| *known == kind).unwrap();
            agreements[at]
        };
        assert_eq!(agreements.len(), ObservationType::ALL.len());
        // A likelihood is at most 1 and at least 0.
        for (kind, likely) in [
            (ObservationType::Feature, 1.0),
            (ObservationType::Bugfix, 0.5),
            (ObservationType::Change, 1.5),
            (ObservationType::NextStep, 0.0),
            (ObservationType::Contact, 0.0),
        ] {
            assert!((of(kind) - likely).abs() < 1e-6, "{kind:?}: {}", of(kind));
        }
    }
}
