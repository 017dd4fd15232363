//! Reads the batches of a session: divides their texts into units, and computes the features of each as they are when
//! its batch ends.

use super::analysis::{Analysis, BatchFacts};
use super::sources::{self, SourceKind};
use super::{noise, unit_features, units};
use crate::wording::Within;
use recall_domain::linear::Row;
use recall_domain::material::{Action, BatchMaterial, CallOutcome};

/// The maximum number of units that are examined.
const MOST_UNITS: usize = 12_000;

impl Analysis {
    /// Reads the batches of a session, or a single batch.
    pub fn of<'a>(batches: impl IntoIterator<Item = &'a BatchMaterial> + Clone) -> Self {
        let texts = sources::of_session(batches.clone());
        let last_answer =
            texts.iter().rposition(|texts| texts.iter().any(|text| text.kind == SourceKind::Answer));
        // Somebody answered what is offered before the last prompt.
        let is_asked = |batch: &BatchMaterial| batch.source.is_of_person() && batch.prompt.is_some();
        let last_asked = batches.clone().into_iter().enumerate().filter(|(_, batch)| is_asked(batch)).last();
        let last_asked = last_asked.map_or(0, |(number, _)| number);
        let mut analysis = Self::default();
        let mut index = unit_features::Index::default();
        for (number, (batch, texts)) in batches.into_iter().zip(texts).enumerate() {
            let facts = facts(batch);
            let first = analysis.units.len();
            for text in texts {
                let within = match Some(number) == last_answer && text.kind == SourceKind::Answer {
                    true => Within::End,
                    false => Within::Earlier,
                };
                let unanswered = if number >= last_asked { within } else { Within::Earlier };
                let units = noise::clean(text.kind, unanswered, units::units_of(&text));
                if !units.is_empty() && analysis.units.len() + units.len() <= MOST_UNITS {
                    analysis.add(text.kind, number, text.events, within, units);
                }
            }
            analysis.is_unanswered = batch.prompt.is_some() && batch.response.is_none();
            analysis.batches = number + 1;
            analysis.facts.push(facts);
            index.extend(&analysis);
            let rows = (first..analysis.units.len()).map(|unit| index.row(&analysis, facts, unit));
            let rows: Vec<Row> = rows.collect();
            analysis.rows.extend(rows);
        }
        analysis
    }
}

fn facts(batch: &BatchMaterial) -> BatchFacts {
    let prompt = batch.prompt.as_ref().map_or("", |prompt| prompt.text.as_str());
    let mut facts =
        BatchFacts { prompt_chars: prompt.len(), asks: prompt.contains('?'), ..BatchFacts::default() };
    for step in &batch.steps {
        match step.outcome {
            CallOutcome::Done => {
                facts.steps += 1;
                facts.edits += usize::from(matches!(step.action, Action::Edit { .. } | Action::Write { .. }));
            }
            CallOutcome::Failed { .. } | CallOutcome::Rejected { .. } => facts.failures += 1,
        }
    }
    facts
}

#[cfg(test)]
mod tests {
    use super::super::analysis::Places;
    use super::*;
    use recall_domain::ids::EventId;
    use recall_domain::material::SourcedText;

    fn batch(prompt: &str, answer: &str) -> BatchMaterial {
        let sourced = |text: &str| {
            (!text.is_empty()).then(|| SourcedText { event: EventId([1; 16]), text: text.to_owned() })
        };
        BatchMaterial { prompt: sourced(prompt), response: sourced(answer), ..BatchMaterial::default() }
    }

    fn session() -> [BatchMaterial; 2] {
        [
            batch(
                "Cache the exchange rates",
                "The provider bills every request. Rates are cached for an hour.",
            ),
            batch(
                "Why are refunds negative in the ledger?",
                "The gateway drops the sign of `Refund::total`.",
            ),
        ]
    }

    #[test]
    fn features_of_a_unit_do_not_depend_on_later_batches() {
        let session = session();
        let first = Analysis::of(&session[..1]);
        let whole = Analysis::of(&session);
        assert!(!first.rows.is_empty() && first.rows.len() < whole.rows.len());
        assert_eq!(first.rows, whole.rows[..first.rows.len()]);
    }

    #[test]
    fn each_unit_has_a_source_terms_and_a_feature_row() {
        let analysis = Analysis::of(&session());
        let count = analysis.units.len();
        assert_eq!(
            (analysis.terms.len(), analysis.source_of.len(), analysis.rows.len()),
            (count, count, count)
        );
        for (number, source) in analysis.sources.iter().enumerate() {
            assert!(source.units.clone().all(|unit| analysis.source_of[unit] == number));
        }
        let last: Vec<usize> =
            analysis.sources.iter().filter(|source| source.is_last).map(|source| source.batch).collect();
        assert_eq!(last, [1]);
    }

    #[test]
    fn a_term_in_fewer_sources_has_a_higher_rarity() {
        let mut analysis = Analysis::of(&session());
        let mut term = |text: &str| analysis.read(text).content[0];
        let (twice, once, never) = (term("rates"), term("ledger"), term("kubernetes"));
        assert_eq!([twice, once, never].map(|term| analysis.frequency(term)), [2, 1, 0]);
        assert!(analysis.rarity(twice) < analysis.rarity(once));
        assert!((analysis.share_in(&[twice, once], Places::ANSWER) - 0.5).abs() < 1e-9);
        assert!((analysis.share_in(&[twice, once], Places::PROMPT) - 1.0).abs() < 1e-9);
        assert!(analysis.share_in(&[never], Places::PROMPT).abs() < 1e-9);
    }

    #[test]
    fn a_prompt_without_an_answer_is_detected() {
        assert!(!Analysis::of(&session()).is_unanswered);
        assert!(Analysis::of(&[batch("Cache the exchange rates", "")]).is_unanswered);
        assert!(!Analysis::of(&[]).is_unanswered);
    }
}
