//! Selects runs: those that are worth most for their length and say something new.

use super::analysis::{self, Analysis};
use super::terms::Term;
use super::windows::Window;

/// The minimum value of a run, however much room there is.
const LEAST: f64 = 0.16;
/// The minimum value of the best run. It is lower, because a short session has only one sentence worth remembering.
const LEAST_OF_BEST: f64 = 0.08;
/// The maximum tokens of a session's observations and summary.
pub const BUDGET: f64 = 1_000.0;
/// The share of the summary's content that counts as covered.
const COVERED_BY_SUMMARY: f64 = 0.7;
/// How much more a run of the last batch counts than one of the first, because the last statement on a subject counts.
const LATER: f64 = 0.3;
/// The minimum length of a run. Shorter ones are fragments.
const SHORTEST: usize = 60;
/// The maximum number of runs of a session.
const MOST: usize = 14;
/// The maximum number of runs that are worded, so that the time stays linear.
const MOST_TRIES: usize = 80;

/// A selected run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Chosen {
    /// Its index.
    pub window: usize,
    /// Its value times the share of it that is new.
    pub worth: f64,
}

/// Terms that a reader knows from elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Known<'a> {
    /// Terms of the answer before this batch.
    pub before: &'a [Term],
    /// Terms of the summary.
    pub summary: &'a [Term],
}

/// The runs of a session with their values.
#[derive(Clone, Copy, Debug)]
pub struct ValuedRuns<'a> {
    pub analysis: &'a Analysis,
    pub windows: &'a [Window],
    pub values: &'a [f64],
}

/// The selected runs, best first, each worded by `word`. If `word` returns nothing for a run, the next run gets its
/// room.
pub fn select<T>(
    runs: ValuedRuns<'_>,
    known: Known<'_>,
    budget: f64,
    word: impl Fn(Chosen) -> Option<T>,
) -> Vec<T> {
    let ValuedRuns { analysis, windows, values } = runs;
    let terms = analysis.frequency.len();
    let rarity: Vec<f64> =
        (0..terms).map(|term| analysis::rarity(analysis.frequency.get(term).copied().unwrap_or(1))).collect();
    let rarity = |term: &Term| rarity.get(term.index()).copied().unwrap_or(1.0);
    let mut holders: Vec<Vec<u32>> = vec![Vec::new(); terms];
    let mut is_open: Vec<bool> =
        windows.iter().zip(values).map(|(window, value)| window.chars >= SHORTEST && *value > 0.0).collect();
    for (number, window) in
        windows.iter().enumerate().filter(|(number, _)| is_open.get(*number) == Some(&true))
    {
        for term in &window.content {
            if let Some(holders) = holders.get_mut(term.index()) {
                holders.push(number as u32);
            }
        }
    }
    let whole: Vec<f64> = windows.iter().map(|window| window.content.iter().map(rarity).sum()).collect();
    // The covered part of each run, and of each term.
    let mut covered = vec![0.0_f64; windows.len()];
    let mut share = vec![0.0_f64; terms];
    let mut cover = |term: &Term, of: f64, covered: &mut Vec<f64>| {
        let Some(share) = share.get_mut(term.index()) else { return };
        let more = (of - *share).max(0.0) * rarity(term);
        *share = share.max(of);
        if more > 0.0 {
            for holder in holders.get(term.index()).into_iter().flatten() {
                if let Some(covered) = covered.get_mut(*holder as usize) {
                    *covered += more;
                }
            }
        }
    };
    known.before.iter().for_each(|term| cover(term, 1.0, &mut covered));
    let mut left = budget;
    let mut chosen: Vec<(Chosen, T)> = Vec::new();
    let mut tries = 0;
    while chosen.len() < MOST && tries < MOST_TRIES {
        tries += 1;
        let least = if chosen.is_empty() { LEAST_OF_BEST } else { LEAST };
        let mut best: Option<(f64, f64, usize)> = None;
        for (number, window) in windows.iter().enumerate() {
            let tokens = window.tokens();
            if is_open.get(number) != Some(&true) || tokens > left {
                continue;
            }
            let at = |list: &[f64]| list.get(number).copied().unwrap_or(0.0);
            let new = (1.0 - at(&covered) / at(&whole).max(1e-6)).clamp(0.0, 1.0);
            let worth = at(values) * new * new;
            let batch = analysis.sources.get(window.source).map_or(0, |source| source.batch);
            let place = batch as f64 / analysis.batches.max(1) as f64;
            let score = worth * (1.0 + LATER * place) / tokens.max(1.0).sqrt();
            if score >= best.map_or(least, |(score, _, _)| score) {
                best = Some((score, worth, number));
            }
        }
        let Some((_, worth, number)) = best else { break };
        let Some(window) = windows.get(number) else { break };
        let run = Chosen { window: number, worth };
        let Some(worded) = word(run) else {
            is_open.get_mut(number).into_iter().for_each(|is_open| *is_open = false);
            continue;
        };
        left -= window.tokens();
        for term in &window.content {
            cover(term, 1.0, &mut covered);
        }
        for (other, is_open) in windows.iter().zip(&mut is_open) {
            if other.source == window.source && other.overlaps(window) {
                *is_open = false;
            }
        }
        // The best run is an observation whatever the summary says: a summary is not found by subject or file.
        if chosen.is_empty() {
            known.summary.iter().for_each(|term| cover(term, COVERED_BY_SUMMARY, &mut covered));
        }
        chosen.push((run, worded));
    }
    chosen.sort_by(|(left, _), (right, _)| {
        right.worth.total_cmp(&left.worth).then(left.window.cmp(&right.window))
    });
    chosen.into_iter().map(|(_, worded)| worded).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::salience::windows;
    use recall_domain::ids::EventId;
    use recall_domain::material::{BatchMaterial, SourcedText};

    const DRAIN: &str = "The worker pool drains its queue before the listening socket is closed.";
    const DRAIN_AGAIN: &str = "Before the listening socket is closed, the worker pool drains its queue.";
    const RATES: &str = "Exchange rates are cached for an hour because the provider bills every request.";

    /// The texts selected for a session with these answers, one per batch. `value` gives the value of each run.
    fn selected(answers: &[&str], value: impl Fn(&str) -> f64, known: [&str; 2], budget: f64) -> Vec<String> {
        let batch = |(number, answer): (usize, &&str)| {
            let response = SourcedText { event: EventId([number as u8; 16]), text: (*answer).to_owned() };
            BatchMaterial { response: Some(response), ..BatchMaterial::default() }
        };
        let batches: Vec<BatchMaterial> = answers.iter().enumerate().map(batch).collect();
        let mut analysis = Analysis::of(&batches);
        let [before, summary] = known.map(|text| analysis.read(text).content);
        let windows = windows::windows(&analysis);
        let text = |window: &Window| {
            let units = &analysis.units[window.first..=window.last];
            units.iter().map(|unit| unit.text.as_str()).collect::<Vec<_>>().join(" ")
        };
        let values: Vec<f64> = windows.iter().map(|window| value(&text(window))).collect();
        let known = Known { before: &before, summary: &summary };
        let runs = ValuedRuns { analysis: &analysis, windows: &windows, values: &values };
        select(runs, known, budget, |chosen| Some(text(&windows[chosen.window])))
    }

    #[test]
    fn only_the_later_of_two_equal_statements_is_selected() {
        assert_eq!(selected(&[DRAIN, DRAIN_AGAIN], |_| 3.0, ["", ""], BUDGET), [DRAIN_AGAIN]);
    }

    #[test]
    fn statements_of_the_previous_text_are_not_selected_again() {
        let answers = [DRAIN, RATES];
        assert_eq!(selected(&answers, |_| 3.0, ["", ""], BUDGET).len(), 2);
        assert_eq!(selected(&answers, |_| 3.0, [DRAIN_AGAIN, ""], BUDGET), [RATES]);
    }

    #[test]
    fn the_best_run_is_selected_even_if_the_summary_has_it() {
        assert_eq!(selected(&[DRAIN], |_| 3.0, ["", DRAIN_AGAIN], BUDGET), [DRAIN]);
    }

    #[test]
    fn runs_of_little_value_are_not_selected_even_with_room_left() {
        assert_eq!(selected(&[DRAIN], |_| 0.1, ["", ""], BUDGET), [""; 0]);
        let value = |text: &str| if text.contains("rates") { 3.0 } else { -1.0 };
        assert_eq!(selected(&[DRAIN, RATES], value, ["", ""], BUDGET), [RATES]);
    }

    #[test]
    fn runs_are_ranked_by_value_within_the_budget() {
        let value = |text: &str| if text.contains("rates") { 3.0 } else { 2.0 };
        assert_eq!(selected(&[DRAIN, RATES], value, ["", ""], BUDGET), [RATES, DRAIN]);
        assert_eq!(selected(&[DRAIN, RATES], value, ["", ""], 30.0), [RATES]);
        assert_eq!(selected(&[DRAIN, RATES], value, ["", ""], 10.0), [""; 0]);
    }

    #[test]
    fn runs_of_one_text_do_not_overlap() {
        let selected = selected(&[&format!("{DRAIN} {RATES}")], |_| 3.0, ["", ""], BUDGET);
        for sentence in [DRAIN, RATES] {
            assert!(selected.iter().filter(|text| text.contains(sentence)).count() <= 1, "{selected:?}");
        }
    }

    #[test]
    fn a_rejected_run_leaves_its_budget_to_the_next_one() {
        let batch = |text: &str| {
            let response = SourcedText { event: EventId([1; 16]), text: text.to_owned() };
            BatchMaterial { response: Some(response), ..BatchMaterial::default() }
        };
        let batches = [batch(DRAIN), batch(RATES)];
        let analysis = Analysis::of(&batches);
        let windows = windows::windows(&analysis);
        let values = vec![3.0; windows.len()];
        let runs = ValuedRuns { analysis: &analysis, windows: &windows, values: &values };
        let source = |chosen: Chosen| windows[chosen.window].source;
        let selected_sources = |budget, kept: &dyn Fn(usize) -> bool| {
            select(runs, Known::default(), budget, |chosen| {
                Some(source(chosen)).filter(|source| kept(*source))
            })
        };
        assert_eq!(selected_sources(25.0, &|_| true), [1], "the later one, and there is no room for two");
        assert_eq!(selected_sources(25.0, &|source| source == 0), [0]);
        assert_eq!(selected_sources(25.0, &|_| false), [0; 0]);
    }

    #[test]
    fn no_run_is_selected_from_an_empty_session() {
        assert_eq!(selected(&[], |_| 3.0, ["", ""], BUDGET), [""; 0]);
    }
}
