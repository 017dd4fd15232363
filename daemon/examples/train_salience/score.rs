//! Measures how much of the gold the notes contain, by the rules of the scorer in `docs/observations.md`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::gold::{Gold, groups_in, normal};

/// Tokens of the budget of `told@1000`.
const BUDGET: f64 = 1_000.0;

/// Sums over sessions.
#[derive(Default)]
pub(crate) struct Score {
    weight: f64,
    contained: f64,
    within: f64,
    observations: usize,
    useful: usize,
    typed: usize,
    agreeing: usize,
    noisy: usize,
    tokens: f64,
    fields: [[usize; 2]; 4],
}

const FIELDS: [&str; 4] = ["request", "completed", "learned", "next_steps"];

impl Score {
    pub(crate) const HEADER: &str = "| | told@all | told@1000 | useful | kind | density | summary | noise | observations | tokens | \
request/completed/learned/next |\n|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|";

    pub(crate) fn add(&mut self, gold: &Gold, notes: &Value) {
        let none = Vec::new();
        let observations = notes["observations"].as_array().unwrap_or(&none);
        let texts: Vec<String> = observations
            .iter()
            .map(|observation| {
                flat(
                    observation,
                    &["title", "subtitle", "narrative", "facts", "concepts", "files_read", "files_modified"],
                )
            })
            .collect();
        let normal_texts: Vec<String> = texts.iter().map(|text| normal(text)).collect();
        let summary = &notes["summary"];
        let summary_text = flat(
            summary,
            &["title", "request", "investigated", "learned", "completed", "next_steps", "notes"],
        );
        let normal_summary = normal(&summary_text);
        let mut order: Vec<usize> = (0..texts.len()).collect();
        order.sort_by_key(|number| {
            (std::cmp::Reverse(observations[*number]["importance"].as_u64()), std::cmp::Reverse(*number))
        });
        let mut left = BUDGET;
        let is_summary_shown = !summary_text.is_empty() && tokens(&summary_text) <= left;
        if is_summary_shown {
            left -= tokens(&summary_text);
        }
        let mut shown = BTreeSet::new();
        for number in order {
            if tokens(&texts[number]) <= left {
                left -= tokens(&texts[number]);
                shown.insert(number);
            }
        }
        let mut useful = BTreeSet::new();
        for fact in &gold.facts {
            let by: Vec<usize> =
                (0..texts.len()).filter(|number| fact.is_in(&normal_texts[*number])).collect();
            let in_summary = fact.is_in(&normal_summary);
            self.weight += fact.importance;
            if in_summary || !by.is_empty() {
                self.contained += fact.importance;
            }
            if (in_summary && is_summary_shown) || by.iter().any(|number| shown.contains(number)) {
                self.within += fact.importance;
            }
            if !by.is_empty() {
                self.typed += 1;
                let agrees = |number: &usize| {
                    observations[*number]["type"].as_str().is_some_and(|kind| agrees(&fact.kind, kind))
                };
                self.agreeing += usize::from(by.iter().any(agrees));
            }
            useful.extend(by);
        }
        self.observations += texts.len();
        self.useful += useful.len();
        self.tokens += tokens(&summary_text) + texts.iter().map(|text| tokens(text)).sum::<f64>();
        for observation in observations {
            let evidence: Vec<u64> =
                observation["evidence"].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
            let is_noise = if evidence.is_empty() {
                observation["prompt_number"]
                    .as_u64()
                    .is_some_and(|number| gold.noise_batches.contains(&number))
            } else {
                evidence.iter().all(|event| gold.noise_events.contains(event))
            };
            self.noisy += usize::from(is_noise);
        }
        for (field, count) in FIELDS.iter().zip(&mut self.fields) {
            if let Some(groups) = gold.fields.get(*field) {
                count[0] += groups_in(groups, &normal(summary[*field].as_str().unwrap_or_default()));
                count[1] += groups.len();
            }
        }
    }

    pub(crate) fn row(&self, name: &str) -> String {
        let share = |part: f64, whole: f64| if whole > 0.0 { 100.0 * part / whole } else { 0.0 };
        let count = |part: usize, whole: usize| share(part as f64, whole as f64);
        let fields: Vec<String> =
            self.fields.iter().map(|[hit, all]| format!("{:.1}", count(*hit, *all))).collect();
        let (hit, all) =
            self.fields.iter().fold((0, 0), |(hit, all), field| (hit + field[0], all + field[1]));
        format!(
            "| {name} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {:.1} | {} | {:.0} | {} |",
            share(self.contained, self.weight),
            share(self.within, self.weight),
            count(self.useful, self.observations),
            count(self.agreeing, self.typed),
            self.contained / self.tokens.max(1.0) * 1_000.0,
            count(hit, all),
            count(self.noisy, self.observations),
            self.observations,
            self.tokens,
            fields.join("/"),
        )
    }
}

fn tokens(text: &str) -> f64 {
    text.chars().count() as f64 / 4.0
}

/// The texts of these fields, one per line.
fn flat(value: &Value, fields: &[&str]) -> String {
    let mut lines: Vec<&str> = Vec::new();
    for field in fields {
        match &value[*field] {
            Value::String(text) => lines.push(text),
            Value::Array(texts) => lines.extend(texts.iter().filter_map(Value::as_str)),
            _ => {}
        }
    }
    lines.retain(|line| !line.is_empty());
    lines.join("\n")
}

/// Whether a type agrees with a fact's kind.
fn agrees(kind: &str, observation_type: &str) -> bool {
    let types: &[&str] = match kind {
        "decision" => &["decision", "trade_off", "preference"],
        "trade_off" => &["trade_off", "decision", "gotcha"],
        "bugfix" => &["bugfix", "change"],
        "feature" => &["feature", "change"],
        "refactor" => &["refactor", "change"],
        "change" => &["change", "feature", "bugfix", "refactor"],
        "discovery" => &["discovery", "gotcha"],
        "gotcha" => &["gotcha", "discovery", "bugfix"],
        "security" => &["security", "bugfix", "gotcha"],
        "correction" => &["correction", "preference", "decision"],
        "preference" => &["preference", "correction", "decision"],
        "next_step" => &["next_step", "todo", "decision"],
        other => return other == observation_type,
    };
    types.contains(&observation_type)
}
