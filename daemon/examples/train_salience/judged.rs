//! Observations that people judged, and the model trained on them, which decides whether an observation is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use recall_compression::salience::keep::{self, Proposed};
use recall_compression::salience::{Salience, feature_names, terms, windows};
use recall_domain::linear::{Linear, Weights};
use recall_domain::material::SessionMaterial;
use recall_domain::observation::ObservationType;
use serde_json::Value;

use crate::gold;
use crate::replay;
use crate::ridge::{self, Examples};

/// A text with less in common with a judged one counts as a different text.
const LEAST_COMMON: f64 = 0.4;
const SHRINKAGE: f64 = 300.0;
/// The minimum worth of an observation that is kept.
pub(crate) const FLOOR: f64 = 0.3;

/// A judged observation, where its text stands, and its features.
pub(crate) struct Judged {
    pub(crate) project: String,
    kind: ObservationType,
    /// The type that a reader gave it, and the one that its text has today.
    types: (String, Option<ObservationType>),
    title: String,
    narrative: String,
    facts: Vec<String>,
    points: Points,
    /// The index of its run in the session.
    window: usize,
    row: Vec<f64>,
}

/// A reader's judgement.
#[derive(Clone, Copy)]
struct Points {
    is_wanted: bool,
    /// The title stands alone, one subject, a true type, nothing pasted and no talk.
    others: [bool; 4],
}

impl Points {
    /// Nothing if nobody wants it, otherwise more for each point except the type, which is judged separately.
    fn worth(self) -> f64 {
        let [title, one, _, clean] = self.others.map(|holds| f64::from(u8::from(holds)));
        if self.is_wanted { (1.0 + title + one + clean) / 4.0 } else { 0.0 }
    }

    fn all_hold(self) -> bool {
        self.is_wanted && self.others.iter().all(|holds| *holds)
    }
}

/// Reads the judgements with their sessions. `weights` were trained without the judged project. A judgement is left out
/// if its session does not contain its text.
pub(crate) fn read<'w>(
    judgements: &Path,
    sessions: &Path,
    weights: impl Fn(&str) -> &'w Weights,
) -> anyhow::Result<Vec<Judged>> {
    let mut by_session: BTreeMap<(String, String), Vec<Value>> = BTreeMap::new();
    for line in gold::lines(judgements)? {
        by_session
            .entry((gold::text(&line, "project"), gold::text(&line, "session_id")))
            .or_default()
            .push(line);
    }
    let mut found = Vec::new();
    for ((project, id), lines) in by_session {
        let path = sessions.join(&project).join(format!("{id}.jsonl.gz"));
        let material = replay::sessions(&path)?.remove(&id).with_context(|| path.display().to_string())?;
        let weights = weights(&project);
        let mut salience = Salience::of(&material.batches, weights);
        found.extend(
            lines.iter().filter_map(|line| judged(&project, line, &material, &mut salience, weights)),
        );
    }
    Ok(found)
}

fn judged(
    project: &str,
    line: &Value,
    material: &SessionMaterial,
    salience: &mut Salience<'_>,
    weights: &Weights,
) -> Option<Judged> {
    let facts = line["facts"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let batch = line["prompt_number"].as_u64()?.checked_sub(1)? as usize;
    material.batches.get(batch)?;
    let kind = gold::text(line, "type");
    let mut judged = Judged {
        project: project.to_owned(),
        kind: ObservationType::ALL.iter().find(|(_, name)| *name == kind)?.0,
        types: (line["better_type"].as_str().map_or(kind, str::to_owned), None),
        title: gold::text(line, "title"),
        narrative: gold::text(line, "narrative"),
        facts: facts.map(str::to_owned).collect(),
        points: Points {
            is_wanted: line["want"] == 1,
            others: ["ok_title", "one", "ok_type", "clean"].map(|point| line[point] == 1),
        },
        window: 0,
        row: Vec::new(),
    };
    judged.window = origin(salience, batch, &judged)?;
    let window = &salience.windows[judged.window];
    judged.types.1 = salience.kind_of(window);
    let worth = windows::value(&salience.analysis, &salience.units, window, weights.model("window"));
    let Judged { kind, title, narrative, facts, .. } = &judged;
    let candidate = Proposed { window, kind: *kind, title, narrative, facts };
    judged.row = keep::features(&salience.analysis, (&salience.units, worth), candidate).values();
    Some(judged)
}

/// The run of a batch with the most in common with an observation.
fn origin(salience: &mut Salience<'_>, batch: usize, judged: &Judged) -> Option<usize> {
    let text = format!("{} {} {}", judged.title, judged.narrative, judged.facts.join(" "));
    let content = salience.analysis.read(&text).content;
    let mut best: Option<(f64, usize)> = None;
    for (number, window) in salience.windows.iter().enumerate() {
        if salience.analysis.sources[window.source].batch != batch {
            continue;
        }
        let shared = terms::shared(&window.content, &content);
        let common = shared as f64 / (window.content.len() + content.len() - shared).max(1) as f64;
        if common >= best.map_or(LEAST_COMMON, |(most, _)| most + 1e-9) {
            best = Some((common, number));
        }
    }
    best.map(|(_, number)| number)
}

/// Adds the model to the weights, learned from these judgements.
pub(crate) fn add_model<'a>(weights: &mut Weights, judged: impl Iterator<Item = &'a Judged>, floor: f64) {
    let names = feature_names();
    let names =
        names.into_iter().find(|(model, _)| model == keep::MODEL).map_or_else(Vec::new, |(_, names)| names);
    let mut linear = fit(judged);
    linear.bias -= floor;
    let names = names.into_iter().map(str::to_owned).collect();
    weights.models.insert(keep::MODEL.to_owned(), (names, linear));
}

fn fit<'a>(judged: impl Iterator<Item = &'a Judged>) -> Linear {
    let mut examples = Examples::default();
    judged.for_each(|judged| examples.add(judged.row.clone(), judged.points.worth(), 1.0));
    ridge::fit_one(&examples, SHRINKAGE)
}

/// What each floor keeps, with weights trained without the project.
pub(crate) fn curve(judged: &[Judged]) -> String {
    let mut valued: Vec<(f64, Points)> = Vec::new();
    for project in judged.iter().map(|judged| judged.project.as_str()).collect::<BTreeSet<_>>() {
        let model = fit(judged.iter().filter(|judged| judged.project != project));
        let own = judged.iter().filter(|judged| judged.project == project);
        valued.extend(own.map(|judged| (model.predict(&judged.row), judged.points)));
    }
    let mut table =
        String::from("| floor | kept | wanted | all five | title |\n|---:|---:|---:|---:|---:|\n");
    for floor in [f64::MIN, 0.2, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6] {
        let kept: Vec<Points> =
            valued.iter().filter(|(value, _)| *value >= floor).map(|(_, points)| *points).collect();
        let share = |holds: &dyn Fn(&Points) -> bool| {
            100.0 * kept.iter().filter(|points| holds(points)).count() as f64 / kept.len().max(1) as f64
        };
        let floor = if floor == f64::MIN { "none".to_owned() } else { format!("{floor:.2}") };
        table.push_str(&format!(
            "| {floor} | {:.1} | {:.1} | {:.1} | {:.1} |\n",
            100.0 * kept.len() as f64 / valued.len().max(1) as f64,
            share(&|points| points.is_wanted),
            share(&|points| points.all_hold()),
            share(&|points| points.others[0]),
        ));
    }
    let is_true = |judged: &&Judged| {
        let (given, today) = &judged.types;
        ObservationType::ALL.iter().any(|(kind, name)| name == given && Some(*kind) == *today)
    };
    let wanted = || judged.iter().filter(|judged| judged.points.is_wanted);
    table.push_str(&format!(
        "\n{} of {} have the type that a reader gave them, {} of the {} that are wanted.\n\n",
        judged.iter().filter(is_true).count(),
        judged.len(),
        wanted().filter(is_true).count(),
        wanted().count()
    ));
    table
}
