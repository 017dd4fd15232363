//! Which sort of knowledge a passage is, told from its wording.

use super::candidate::Candidate;
use super::cue;
use super::setting::WorkKind;
use crate::memory::observation::ObservationType;

/// Ways to say that something was settled, anywhere in a passage.
const DECIDED: &str = "decided to, decided on, decided not, decided against, decided that, we decided, i decided, was decided, \
    chose, was chosen, we agreed, agreed to, agreed on, we settled on, settled on, we went with, opted for, opted to, \
    entschieden, beschlossen, haben uns geeinigt";

/// Whether the passage calls itself a decision, in its heading or at the beginning of a sentence.
fn decides(candidate: &Candidate) -> bool {
    const CALLED: [&str; 8] = [
        "decision",
        "decisions",
        "decided",
        "design decision",
        "agreed",
        "entscheidung",
        "entschieden",
        "beschluss",
    ];
    let heading = candidate.passage.heading.as_deref().unwrap_or_default();
    let calls_itself = |text: &str| {
        let label =
            text.split_once([':', '—', '–']).map(|(label, _)| label.trim_matches(['*', ' ']).to_lowercase());
        label.is_some_and(|label| CALLED.contains(&label.as_str()))
    };
    cue::mentions(heading, "decision, decisions, entscheidung, entscheidungen")
        || candidate.passage.sentences.iter().any(|sentence| calls_itself(&sentence.text))
}

/// What sort of knowledge the wording shows.
pub(super) fn kind(candidate: &Candidate, work: WorkKind) -> ObservationType {
    let cues = candidate.cues();
    let heading = candidate.passage.heading.as_deref().unwrap_or_default();
    let whole: String = candidate
        .passage
        .sentences
        .iter()
        .map(|sentence| sentence.text.as_str())
        .collect::<Vec<_>>()
        .join(" ");
    if cue::mentions(
        &whole,
        "vulnerability, vulnerable, injection, xss, csrf, cve, privilege escalation, \
                sicherheitslücke",
    ) {
        return ObservationType::Security;
    }
    if decides(candidate) {
        return ObservationType::Decision;
    }
    if cue::mentions(heading, "root cause, cause, why, ursache, warum, grund") {
        return ObservationType::Discovery;
    }
    if cue::mentions(&whole, "trade-off, tradeoff, i'd not, wouldn't do, not worth, at the cost of") {
        return ObservationType::TradeOff;
    }
    if cue::mentions(&whole, DECIDED) {
        return ObservationType::Decision;
    }
    let changed = cues.change > 0 && cues.change * 2 >= cues.rule && cues.proposal < 2;
    match work {
        WorkKind::Done(kind) if changed && says_done(&whole, heading) => kind,
        _ if cues.rule >= 3 && cues.rule > cues.cause => ObservationType::Gotcha,
        _ => ObservationType::Discovery,
    }
}

fn says_done(whole: &str, heading: &str) -> bool {
    const DONE: &str = "fixed, now, changed, replaced, added, removed, moved, renamed, updated, implemented, corrected, \
        rewrote, split, extracted, fix, behoben, jetzt, ersetzt, hinzugefügt, entfernt, geändert";
    cue::mentions(whole, DONE) || cue::begins_with(heading, "fix, changes, what changed")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compression::extractive::candidate::CandidateSource;
    use crate::compression::extractive::markdown::Passage;
    use crate::memory::ids::EventId;

    #[track_caller]
    fn sort(heading: Option<&str>, text: &str, expected: ObservationType) {
        let event = EventId([1; 16]);
        let passage = Passage::prose(heading, text);
        let candidate = Candidate::new(CandidateSource::Answer, passage, event);
        for work in [WorkKind::Inquiry, WorkKind::Done(ObservationType::Feature)] {
            assert_eq!(kind(&candidate, work), expected, "{text}");
        }
    }

    #[test]
    fn what_calls_itself_a_decision_is_one() {
        let decision = ObservationType::Decision;
        sort(None, "Decision: rounding happens once, after summing.", decision);
        sort(None, "**Decision:** money is kept in cents, because floats lose them.", decision);
        sort(None, "We decided the gateway keeps its own pool.", decision);
        sort(None, "We decided against a second index, because it doubles the writes.", decision);
        sort(None, "It was agreed to keep the old names.", decision);
        sort(None, "We settled on SQLite.", decision);
        sort(None, "Entscheidung: Beträge werden in Cent gehalten.", decision);
        sort(Some("Decision"), "Rounding happens once, because lines lost cents.", decision);
        sort(Some("Why"), "Decision: rounding happens once.", decision);
    }

    #[test]
    fn what_only_speaks_of_decisions_is_none() {
        sort(None, "The decision tree is built from the rules.", ObservationType::Discovery);
        sort(None, "The planner decides by the row count which index it takes.", ObservationType::Discovery);
        sort(Some("Root cause"), "The pool is closed before it is drained.", ObservationType::Discovery);
        sort(None, "Whoever reads this must decide first.", ObservationType::Discovery);
    }
}
