//! A small session that tests whether a model fulfils the contract before the user relies on it.

use super::answer::{self, UnusableAnswer};
use super::notes::NotesMaterial;
use super::policy::Unit;
use super::{condense, prompt};
use recall_domain::ids::{EventId, Timestamp};
use recall_domain::material::{
    Action, BatchMaterial, CallOutcome, EditHunk, SessionMaterial, SourcedText, Step,
};
use recall_providers::chat::ChatRequest;

/// The maximum tokens of the material.
const MOST_TOKENS: u32 = 1_000;

fn session() -> BatchMaterial {
    let event = |number| EventId([number; 16]);
    let sourced_text = |number, text: &str| Some(SourcedText { event: event(number), text: text.to_owned() });
    let edit = Action::Edit {
        path: "/shop/src/cart.rs".to_owned(),
        changes: vec![EditHunk {
            before: "lines.iter().map(Line::rounded).sum()".to_owned(),
            after: "round(lines.iter().map(Line::exact).sum())".to_owned(),
        }],
    };
    BatchMaterial {
        prompt_number: 1,
        prompt: sourced_text(1, "Why is the cart's total a cent too high?"),
        response: sourced_text(
            3,
            "Each line was rounded before summing, which cost up to a cent per line. `total()` in src/cart.rs now rounds \
             once, after summing.",
        ),
        steps: vec![Step {
            event: event(2),
            at: Timestamp(0),
            tool: "Edit".to_owned(),
            outcome: CallOutcome::Done,
            subagent: None,
            action: edit,
        }],
        root: Some("/shop".to_owned()),
        ..BatchMaterial::default()
    }
}

fn notes() -> NotesMaterial {
    NotesMaterial {
        session: SessionMaterial { batches: vec![session()] },
        due: vec![0],
        ..NotesMaterial::default()
    }
}

/// Creates the same request as for any session.
pub fn request(unit: Unit) -> ChatRequest {
    match unit {
        Unit::Session => prompt::notes(&condense::notes(&notes(), MOST_TOKENS).text, &notes()),
        Unit::Turn => prompt::observations(&condense::batch(&session(), MOST_TOKENS).text),
    }
}

/// Counts the observations in an answer.
///
/// # Errors
/// The answer could not be used after a real session either.
pub fn judge(unit: Unit, answer: &str) -> Result<usize, UnusableAnswer> {
    match unit {
        Unit::Session => answer::notes(answer, &notes())
            .map(|found| found.turns.iter().map(|(_, drafts)| drafts.len()).sum()),
        Unit::Turn => answer::observations(answer, &session()).map(|found| found.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_accepts_only_answers_that_fulfil_the_contract() {
        let asked = request(Unit::Turn);
        assert!(
            asked.user.contains("a cent too high") && asked.user.contains("src/cart.rs"),
            "{}",
            asked.user
        );
        let answer = r#"{"observations": [{"type": "bugfix", "title": "The cart rounds once, after summing",
            "narrative": "Rounding each line cost up to a cent per line.", "importance": 7, "evidence": [1]}]}"#;
        assert_eq!(judge(Unit::Turn, answer), Ok(1));
        assert_eq!(judge(Unit::Turn, r#"{"observations": []}"#), Ok(0));
        for wrong in ["Yes, I am there!", r#"{"title": "ok"}"#, r#"{"observations": [{"type": "thought"}]}"#]
        {
            assert!(judge(Unit::Turn, wrong).is_err() && judge(Unit::Session, wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_model_that_is_asked_about_sessions_must_write_a_summary() {
        assert!(request(Unit::Session).user.contains("a cent too high"));
        let observation = r#"{"turn": 1, "type": "bugfix", "title": "The cart rounds once, after summing",
            "narrative": "Rounding each line cost up to a cent per line.", "importance": 7}"#;
        let alone = format!(r#"{{"observations": [{observation}]}}"#);
        assert!(judge(Unit::Session, &alone).is_err());
        let whole = format!(
            r#"{{"observations": [{observation}], "summary": {{"title": "Cart", "completed": "Rounded."}}}}"#
        );
        assert_eq!(judge(Unit::Session, &whole), Ok(1));
    }
}
