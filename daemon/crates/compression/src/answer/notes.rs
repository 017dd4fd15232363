//! Parses the notes of a session: observations, each with its turn, and the summary.
//!
//! Files and evidence are never taken from the model. They come from the turn to which a note belongs.

use std::collections::HashSet;

use super::{Evidence, UnusableAnswer, Written, elements, first_object, summary_of, written};
use crate::extractive::files::{About, TouchedFiles};
use crate::notes::{NotesMaterial, SessionNotes, Wanted};
use crate::wording;
use recall_domain::material::BatchMaterial;
use recall_domain::observation::{ObservationDraft, ObservationType};

/// The maximum number of observations from one call.
pub const MOST_NOTES: usize = 12;

/// Parses the notes of an answer. The result lists each requested turn, with or without observations.
///
/// # Errors
/// The answer has no notes, or one of them is invalid.
pub fn notes(answer: &str, material: &NotesMaterial) -> Result<SessionNotes, UnusableAnswer> {
    let object = first_object(answer, "observations");
    let written = written(answer, object.as_ref(), MOST_NOTES)?;
    let summary = match material.wanted {
        Wanted::Observations => None,
        Wanted::WithSummary => {
            let of_object =
                object.as_ref().and_then(|object| object.get("summary")).filter(|it| it.is_object());
            let summary = of_object.cloned().or_else(|| elements::summary(answer));
            let summary =
                summary.ok_or_else(|| UnusableAnswer("there is no object `summary` in it".to_owned()))?;
            summary_of(&summary)?
        }
    };
    let mut turns: Vec<(usize, Vec<ObservationDraft>)> =
        material.due.iter().map(|turn| (*turn, Vec::new())).collect();
    let mut titles = HashSet::new();
    for (at, one) in written.into_iter().enumerate().filter(|(_, one)| one.may_be_one()) {
        let Some((turn, batch)) = turn_of(&one, material) else { continue };
        let draft = draft(one, batch, material)
            .map_err(|UnusableAnswer(why)| UnusableAnswer(format!("observation {}: {why}", at + 1)))?;
        if !is_in_summary(&draft)
            && titles.insert(draft.title.to_lowercase())
            && let Some((_, drafts)) = turns.iter_mut().find(|(known, _)| *known == turn)
        {
            drafts.push(draft);
        }
    }
    Ok(SessionNotes { turns, summary })
}

/// Whether the summary already contains it. An open task is an observation only if it says more than that it is open.
fn is_in_summary(draft: &ObservationDraft) -> bool {
    let body: Vec<&str> = std::iter::once(&draft.narrative).chain(&draft.facts).map(String::as_str).collect();
    draft.kind == ObservationType::NextStep
        && wording::without_repeats(&body, &[draft.title.as_str()]).is_empty()
}

/// The turn that an observation names, if it was requested; otherwise the turn that shares most of its words.
fn turn_of<'a>(one: &Written, material: &'a NotesMaterial) -> Option<(usize, &'a BatchMaterial)> {
    let named = one.turn.filter(|turn| *turn >= 1.0).map(|turn| turn as usize - 1);
    if let Some(asked) = material.asked().find(|(turn, _)| Some(*turn) == named) {
        return Some(asked);
    }
    let words_of_note = words(&format!("{} {}", one.title, one.narrative));
    let common = |batch: &BatchMaterial| {
        let texts = [&batch.prompt, &batch.response].into_iter().flatten();
        let of_turn: HashSet<String> = texts.flat_map(|message| words(&message.text)).collect();
        words_of_note.intersection(&of_turn).count()
    };
    material.asked().max_by_key(|(_, batch)| common(batch))
}

fn words(text: &str) -> HashSet<String> {
    const SHORTEST: usize = 5;
    let words = text.split(|character: char| !character.is_alphanumeric());
    words.filter(|word| word.chars().count() >= SHORTEST).map(str::to_lowercase).collect()
}

fn draft(
    one: Written,
    batch: &BatchMaterial,
    material: &NotesMaterial,
) -> Result<ObservationDraft, UnusableAnswer> {
    let text = format!("{} {} {}", one.title, one.narrative, one.facts.join(" "));
    let about = match ObservationType::parse(one.kind.trim()) {
        Some(
            ObservationType::Bugfix
            | ObservationType::Feature
            | ObservationType::Refactor
            | ObservationType::Change,
        ) => About::WorkKind,
        _ => About::Knowledge,
    };
    let touched = TouchedFiles::of(batch).named_in(&text, about);
    let (files_read, files_modified) = (touched.read, touched.modified);
    let one = Written { files_read, files_modified, evidence: Vec::new(), ..one };
    let of_turn = BatchMaterial { earlier: material.earlier.clone(), ..batch.clone() };
    one.check(&Evidence::of(batch), &of_turn)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use recall_domain::ids::{EventId, Timestamp};
    use recall_domain::material::{Action, CallOutcome, EditHunk, SessionMaterial, SourcedText, Step};

    fn turn(number: u8, prompt: &str, file: &str) -> BatchMaterial {
        let change = EditHunk { before: "a".to_owned(), after: "b".to_owned() };
        let sourced_text =
            |event: u8, text: &str| Some(SourcedText { event: EventId([event; 16]), text: text.to_owned() });
        BatchMaterial {
            prompt: sourced_text(number, prompt),
            response: sourced_text(number + 1, "Done."),
            steps: vec![Step {
                event: EventId([number + 2; 16]),
                at: Timestamp(0),
                tool: "Edit".to_owned(),
                outcome: CallOutcome::Done,
                subagent: None,
                action: Action::Edit { path: format!("/shop/src/{file}"), changes: vec![change] },
            }],
            root: Some("/shop".to_owned()),
            ..BatchMaterial::default()
        }
    }

    fn material() -> NotesMaterial {
        let batches = vec![
            turn(10, "Round the total of the cart", "cart.rs"),
            turn(20, "Weigh the parcels in kilograms", "parcel.rs"),
        ];
        NotesMaterial { session: SessionMaterial { batches }, due: vec![0, 1], ..NotesMaterial::default() }
    }

    fn answer(observations: &[Value]) -> String {
        let summary = json!({"title": "Cart and parcels", "request": "Both.", "learned": "", "completed": "Both.",
            "next_steps": "Print the labels."});
        json!({"observations": observations, "summary": summary}).to_string()
    }

    fn one(fields: Value) -> Value {
        let mut one = json!({"turn": 2, "type": "gotcha", "title": "Parcels are weighed in kilograms",
            "narrative": "The printer misread pounds.", "importance": 6});
        for (key, value) in fields.as_object().into_iter().flatten() {
            one[key] = value.clone();
        }
        one
    }

    #[test]
    fn each_note_gets_the_files_and_the_evidence_of_its_turn() {
        let found = notes(&answer(&[one(json!({}))]), &material()).unwrap();
        assert_eq!(
            found.turns.iter().map(|(turn, drafts)| (*turn, drafts.len())).collect::<Vec<_>>(),
            [(0, 0), (1, 1)]
        );
        let draft = &found.turns[1].1[0];
        assert_eq!(draft.files_modified, ["src/parcel.rs"]);
        assert_eq!(draft.evidence, [20, 21, 22].map(|number| EventId([number; 16])));
        assert_eq!(found.summary.unwrap().next_steps, "Print the labels.");
    }

    #[test]
    fn a_note_with_an_unknown_turn_is_assigned_by_its_words() {
        for number in [json!(9), json!(0), json!(-1), Value::Null] {
            let found = notes(&answer(&[one(json!({"turn": number}))]), &material()).unwrap();
            assert_eq!(found.turns[1].1.len(), 1, "{number}");
        }
    }

    #[test]
    fn a_slightly_too_long_title_is_truncated() {
        let title = "The weight of a parcel is always given in kilograms since the label printer misreads pounds, which made labels";
        assert!((100..=120).contains(&title.chars().count()));
        let found = notes(&answer(&[one(json!({"title": title}))]), &material()).unwrap();
        assert!(found.turns[1].1[0].title.chars().count() <= wording::LONGEST_TITLE);
    }

    #[test]
    fn open_work_is_a_note_only_with_a_detail() {
        let bare = one(
            json!({"type": "next_step", "title": "Labels are not printed yet", "narrative": "Labels are not printed yet."}),
        );
        let detailed = one(json!({"type": "next_step", "title": "Labels are not printed yet",
            "narrative": "The printer driver rejects kilograms."}));
        let count = |one: Value| notes(&answer(&[one]), &material()).unwrap().turns[1].1.len();
        assert_eq!((count(bare), count(detailed)), (0, 1));
    }

    #[test]
    fn incomplete_or_invalid_answers_are_rejected_with_a_reason() {
        let refused = |answer: &str| notes(answer, &material()).unwrap_err().0;
        assert!(refused("{\"observations\": []}").contains("no object `summary`"));
        assert!(refused(&answer(&vec![one(json!({})); 13])).contains("13 observations, at most 12"));
        assert!(refused(&answer(&[one(json!({"type": "thought"}))])).contains("observation 1: type"));
        let whole = answer(&[one(json!({}))]);
        assert!(refused(&whole[..whole.len() / 2]).contains("no JSON object"));
        let alone = NotesMaterial { wanted: Wanted::Observations, ..material() };
        assert_eq!(notes("{\"observations\": []}", &alone).unwrap().summary, None);
    }
}
