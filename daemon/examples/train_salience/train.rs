//! Trains the weights: first the worth of a unit, then, from that, of a run of units, a type and a summary's field.

use std::path::{Path, PathBuf};

use recall_compression::salience::summary::{self, Field};
use recall_compression::salience::{Salience, feature_names, kind, windows};
use recall_domain::linear::{Linear, Weights};
use recall_domain::material::SessionMaterial;

use crate::gold::{self, Gold, groups_in, normal};
use crate::replay;
use crate::ridge::{self, Examples};

/// Shrinkage of each model.
const UNIT: f64 = 1_500.0;
const WINDOW: f64 = 1_000.0;
const KIND: f64 = 3_000.0;
const SUMMARY: f64 = 3_000.0;
/// Above this a unit or a run is worth no more.
const MOST_OF_UNIT: f64 = 12.0;
const MOST_OF_WINDOW: f64 = 20.0;
/// Windows are trained on a salience of units that was trained without their session. Otherwise they would trust it too
/// much.
const FOLDS: usize = 4;

/// A session with its gold, measured.
pub(crate) struct Read {
    pub(crate) set: String,
    pub(crate) project: String,
    pub(crate) id: String,
    pub(crate) session: SessionMaterial,
    pub(crate) gold: Gold,
    salience: Salience<'static>,
    /// The worth of each unit and of each run.
    unit_worth: Vec<f64>,
    window_worth: Vec<f64>,
    /// The facts that each run contains.
    facts: Vec<Vec<usize>>,
}

/// The sessions of a folder that have gold, by project and id.
pub(crate) fn read(sessions: &Path, gold_folder: &Path) -> anyhow::Result<Vec<Read>> {
    let set = gold_folder.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    let mut gold = gold::load(gold_folder)?;
    let mut found = Vec::new();
    for project in entries(sessions)?.into_iter().filter(|path| path.is_dir()) {
        let name = project.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        for path in entries(&project)?.into_iter().filter(|path| path.to_string_lossy().contains(".jsonl")) {
            for (id, session) in replay::sessions(&path)? {
                if let Some(gold) = gold.remove(&id) {
                    found.push(Read::new(set.clone(), name.clone(), id, session, gold));
                }
            }
        }
    }
    found.sort_by(|left, right| (&left.project, &left.id).cmp(&(&right.project, &right.id)));
    Ok(found)
}

fn entries(folder: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let mut paths =
        std::fs::read_dir(folder)?.map(|entry| Ok(entry?.path())).collect::<anyhow::Result<Vec<_>>>()?;
    paths.sort();
    Ok(paths)
}

impl Read {
    fn new(set: String, project: String, id: String, session: SessionMaterial, gold: Gold) -> Self {
        static NONE: Weights = Weights::none();
        let salience = Salience::of(&session.batches, &NONE);
        let mut read = Self {
            set,
            project,
            id,
            unit_worth: vec![0.0; salience.analysis.units.len()],
            window_worth: Vec::new(),
            facts: Vec::new(),
            session,
            gold,
            salience,
        };
        read.label();
        read
    }

    /// A unit is worth its share in the shortest run that tells a fact.
    fn label(&mut self) {
        let analysis = &self.salience.analysis;
        let texts: Vec<String> = analysis.units.iter().map(|unit| normal(&unit.text)).collect();
        let inner: Vec<String> = (0..texts.len())
            .map(|unit| {
                windows::inner_heading(analysis, unit).map_or_else(String::new, |heading| normal(&heading))
            })
            .collect();
        let above: Vec<String> = (0..texts.len())
            .map(|unit| {
                windows::heading_of(analysis, unit).map_or_else(String::new, |heading| normal(&heading))
            })
            .collect();
        let contains_fact = |first: usize, last: usize, fact: &gold::Fact| {
            let hit = |group: &Vec<String>| {
                let any = |text: &String| group.iter().any(|word| text.contains(word.as_str()));
                any(&above[first])
                    || (first..=last).any(|unit| any(&texts[unit]) || (unit > first && any(&inner[unit])))
            };
            fact.groups.iter().filter(|group| hit(group)).count() >= fact.needs()
        };
        let mut best = vec![vec![0.0_f64; self.gold.facts.len()]; texts.len()];
        for window in &self.salience.windows {
            let facts: Vec<usize> = (0..self.gold.facts.len())
                .filter(|fact| contains_fact(window.first, window.last, &self.gold.facts[*fact]))
                .collect();
            for number in &facts {
                let fact = &self.gold.facts[*number];
                let is_single = window.first == window.last;
                let is_shortest = is_single
                    || !(contains_fact(window.first + 1, window.last, fact)
                        || contains_fact(window.first, window.last - 1, fact));
                if !is_shortest {
                    continue;
                }
                let share = fact.importance / (window.last - window.first + 1) as f64;
                for unit in window.first..=window.last {
                    if is_single || groups_in(&fact.groups, &texts[unit]) > 0 {
                        best[unit][*number] = best[unit][*number].max(share);
                    }
                }
            }
            self.window_worth.push(facts.iter().map(|fact| self.gold.facts[*fact].importance).sum());
            self.facts.push(facts);
        }
        self.unit_worth = best.into_iter().map(|facts| facts.into_iter().sum()).collect();
    }

    /// Features of units whose names begin like this are left out.
    pub(crate) fn leave_out(&mut self, left_out: &[&str]) {
        let names = feature_names();
        let units = names.iter().find(|(model, _)| model == "unit").map_or(&[][..], |(_, names)| names);
        for row in &mut self.salience.analysis.rows {
            for (value, name) in row.iter_mut().zip(units) {
                if left_out.iter().any(|start| name.starts_with(start)) {
                    *value = 0.0;
                }
            }
        }
    }

    fn saliences(&self, unit: &Linear) -> Vec<f64> {
        self.salience.analysis.rows.iter().map(|row| unit.predict(row)).collect()
    }

    /// A session's weight grows more slowly than its length.
    fn share(count: usize) -> f64 {
        1.0 / (count.max(1) as f64).sqrt()
    }
}

/// All models from these sessions.
pub(crate) fn train(sessions: &[&Read]) -> Weights {
    let names = feature_names();
    let mut weights = Weights::none();
    let mut put = |model: &str, linear: Linear| {
        let names = names.iter().find(|(known, _)| known == model).map_or(&[][..], |(_, names)| names);
        weights
            .models
            .insert(model.to_owned(), (names.iter().map(|name| (*name).to_owned()).collect(), linear));
    };
    let mut saliences: Vec<Vec<f64>> = vec![Vec::new(); sessions.len()];
    for fold in 0..FOLDS {
        let others: Vec<&Read> = numbered(sessions, |number| number % FOLDS != fold);
        let model = unit_model(&others);
        for (number, read) in sessions.iter().enumerate().filter(|(number, _)| number % FOLDS == fold) {
            saliences[number] = read.saliences(&model);
        }
    }
    put("unit", unit_model(sessions));

    let mut windows = Examples::default();
    for (read, salience) in sessions.iter().zip(&saliences) {
        let share = Read::share(read.salience.windows.len());
        for (window, worth) in read.salience.windows.iter().zip(&read.window_worth) {
            if let Some(features) = windows::features(&read.salience.analysis, salience, window) {
                windows.add(features.values(), worth.min(MOST_OF_WINDOW).sqrt(), share);
            }
        }
    }
    put("window", ridge::fit_one(&windows, WINDOW));

    let mut rows = Vec::new();
    let mut shares = Vec::new();
    let mut targets: Vec<Vec<f64>> = vec![Vec::new(); kind::SORTS.len()];
    for read in sessions {
        let telling: Vec<usize> = (0..read.facts.len())
            .filter(|number| {
                !read.facts[*number].is_empty() && (80..=600).contains(&read.salience.windows[*number].chars)
            })
            .collect();
        for number in &telling {
            let mut sorts = vec![0.0; kind::SORTS.len()];
            for fact in &read.facts[*number] {
                let fact = &read.gold.facts[*fact];
                if let Some(sort) = kind::SORTS.iter().position(|(sort, _)| *sort == fact.kind) {
                    sorts[sort] += fact.importance;
                }
            }
            let whole: f64 = sorts.iter().sum();
            for (targets, sort) in targets.iter_mut().zip(sorts) {
                targets.push(if whole > 0.0 { sort / whole } else { 0.0 });
            }
            rows.push(kind::features(&read.salience.analysis, &read.salience.windows[*number]).values());
            shares.push(Read::share(telling.len()));
        }
    }
    let models = ridge::fit(&rows, &shares, &targets, KIND);
    for ((sort, _), linear) in kind::SORTS.iter().zip(models) {
        put(&kind::model(sort), linear);
    }

    let mut rows = Vec::new();
    let mut shares = Vec::new();
    let mut targets: Vec<Vec<f64>> = vec![Vec::new(); Field::ALL.len()];
    for (read, salience) in sessions.iter().zip(&saliences) {
        let candidates = &read.salience.candidates;
        for candidate in candidates {
            let Some(row) = summary::row(&read.salience.analysis, salience, candidate) else { continue };
            let text = normal(&candidate.text);
            for (field, targets) in Field::ALL.iter().zip(&mut targets) {
                let hits = read.gold.fields.get(field.name()).map_or(0, |groups| groups_in(groups, &text));
                targets.push((hits as f64).sqrt());
            }
            rows.push(row);
            shares.push(Read::share(candidates.len()));
        }
    }
    for (field, linear) in Field::ALL.iter().zip(ridge::fit(&rows, &shares, &targets, SUMMARY)) {
        put(field.name(), linear);
    }
    weights
}

fn numbered<'a>(sessions: &[&'a Read], takes: impl Fn(usize) -> bool) -> Vec<&'a Read> {
    sessions.iter().enumerate().filter(|(number, _)| takes(*number)).map(|(_, read)| *read).collect()
}

fn unit_model(sessions: &[&Read]) -> Linear {
    let mut examples = Examples::default();
    for read in sessions {
        for (row, worth) in read.salience.analysis.rows.iter().zip(&read.unit_worth) {
            examples.add(row.clone(), worth.min(MOST_OF_UNIT).sqrt(), 1.0);
        }
    }
    ridge::fit_one(&examples, UNIT)
}
