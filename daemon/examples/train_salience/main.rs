//! Trains the weights of the built-in compressor on sessions that people have read, and measures them.
//!
//! ```text
//! cargo run --release --example train_salience -- [--out DIR] [--weights FILE] [--without NAME,...] \
//!     [--judged FILE SESSIONS] [--floor NUMBER] SESSIONS GOLD [SESSIONS GOLD ...]
//! ```
//!
//! `SESSIONS` is a folder with a folder per project, each with recorded sessions (`.jsonl` or `.jsonl.gz`, see
//! `replay/mod.rs`). `GOLD` is a folder with `gold.jsonl`, `summaries.jsonl` and `noise.jsonl`.
//!
//! It prints a table: the notes of each project, made with weights trained on the other projects alone. `--out` writes
//! the notes of each session as JSON. `--weights` trains on everything and writes the file that recall is built with.
//! `--judged` adds the model that says which observations are kept: `FILE` has observations that people judged,
//! `SESSIONS` their sessions. It prints what each floor keeps, and `--floor` replaces the shipped one. `--without`
//! leaves out features of units whose names begin like this, to measure their value. The same sessions make the same
//! bytes.

// The table is what the program is for.
#![allow(clippy::print_stdout)]

mod gold;
mod judged;
#[path = "../replay/mod.rs"]
mod replay;
mod ridge;
mod score;
mod train;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use anyhow::Context;
use judged::Judged;
use recall_compression::extractive::drafts;
use recall_domain::linear::Weights;
use recall_domain::material::SessionExtent;
use score::Score;
use train::Read;

fn main() -> anyhow::Result<()> {
    let mut out: Option<PathBuf> = None;
    let mut file: Option<PathBuf> = None;
    let mut without = String::new();
    let mut judgements: Option<(PathBuf, PathBuf)> = None;
    let mut floor = judged::FLOOR;
    let mut folders: Vec<PathBuf> = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--out" => out = arguments.next().map(PathBuf::from),
            "--weights" => file = arguments.next().map(PathBuf::from),
            "--judged" => {
                judgements = arguments.next().map(PathBuf::from).zip(arguments.next().map(PathBuf::from))
            }
            "--floor" => floor = arguments.next().context("--floor NUMBER")?.parse()?,
            "--without" => without = arguments.next().unwrap_or_default(),
            _ => folders.push(PathBuf::from(argument)),
        }
    }
    anyhow::ensure!(
        !folders.is_empty() && folders.len().is_multiple_of(2),
        "usage: train_salience [--out DIR] [--weights FILE] [--without NAME,...] [--judged FILE SESSIONS] \
         [--floor NUMBER] SESSIONS GOLD [SESSIONS GOLD ...]"
    );
    let mut sessions = Vec::new();
    for pair in folders.chunks(2) {
        sessions.extend(train::read(&pair[0], &pair[1])?);
    }
    let left_out: Vec<&str> = without.split(',').filter(|name| !name.is_empty()).collect();
    sessions.iter_mut().for_each(|read| read.leave_out(&left_out));
    anyhow::ensure!(!sessions.is_empty(), "no session in {}", folders[0].display());
    let learned = Learned::of(&sessions, judgements.as_ref(), floor)?;
    if let Some(file) = file {
        let weights = learned.without("").render("train_salience");
        std::fs::write(&file, &weights).with_context(|| format!("writing {}", file.display()))?;
        println!("{}: {} bytes from {} sessions", file.display(), weights.len(), sessions.len());
        return Ok(());
    }
    print!("{}", judged::curve(&learned.judged));
    table(&sessions, &learned, out.as_deref())
}

/// Weights trained without one project.
struct Learned {
    /// By the project left out. The empty name has the weights of all projects.
    weights: BTreeMap<String, Weights>,
    judged: Vec<Judged>,
    floor: f64,
}

impl Learned {
    fn of(sessions: &[Read], judged: Option<&(PathBuf, PathBuf)>, floor: f64) -> anyhow::Result<Self> {
        let projects: BTreeSet<&str> =
            sessions.iter().map(|read| read.project.as_str()).chain([""]).collect();
        let without = |project: &&str| {
            let others: Vec<&Read> = sessions.iter().filter(|read| read.project != **project).collect();
            ((*project).to_owned(), train::train(&others))
        };
        let mut learned = Self { weights: projects.iter().map(without).collect(), judged: Vec::new(), floor };
        if let Some((judgements, folder)) = judged {
            learned.judged = judged::read(judgements, folder, |project| learned.salience_without(project))?;
        }
        Ok(learned)
    }

    fn salience_without(&self, project: &str) -> &Weights {
        &self.weights[if self.weights.contains_key(project) { project } else { "" }]
    }

    fn without(&self, project: &str) -> Weights {
        let mut weights = self.salience_without(project).clone();
        if !self.judged.is_empty() {
            let others = self.judged.iter().filter(|judged| judged.project != project);
            judged::add_model(&mut weights, others, self.floor);
        }
        weights
    }
}

/// The scores of each project by the weights of the others.
fn table(sessions: &[Read], learned: &Learned, out: Option<&Path>) -> anyhow::Result<()> {
    let projects: BTreeSet<&str> = sessions.iter().map(|read| read.project.as_str()).collect();
    let sets: BTreeSet<&str> = sessions.iter().map(|read| read.set.as_str()).collect();
    let mut notes = Vec::new();
    for project in &projects {
        let weights = learned.without(project);
        for read in sessions.iter().filter(|read| read.project == *project) {
            let draft = drafts::of_session(&read.session.batches, SessionExtent::Whole, &weights);
            notes.push((read, replay::session_json(&read.id, &read.session, draft.batches, draft.summary)));
        }
    }
    println!("{}", Score::HEADER);
    for set in &sets {
        let of_set = || notes.iter().filter(|(read, _)| read.set == *set);
        println!("{}", row(&format!("{set}, pooled"), of_set()));
        for project in &projects {
            let mut of_project = of_set().filter(|(read, _)| read.project == *project).peekable();
            if of_project.peek().is_some() {
                println!("{}", row(&format!("{set}, {project}"), of_project));
            }
        }
    }
    if let Some(out) = out {
        std::fs::create_dir_all(out)?;
        for (read, session_notes) in &notes {
            std::fs::write(
                out.join(format!("{}.json", read.id)),
                serde_json::to_string_pretty(session_notes)?,
            )?;
        }
    }
    Ok(())
}

fn row<'a>(name: &str, notes: impl Iterator<Item = &'a (&'a Read, serde_json::Value)>) -> String {
    let mut score = Score::default();
    for (read, session_notes) in notes {
        score.add(&read.gold, session_notes);
    }
    score.row(name)
}

#[cfg(test)]
// Test code: a panic is how it says that something is wrong.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/train_salience/sample");

    fn made(pairs: &[(&str, &str)]) -> String {
        let sessions: Vec<Read> = pairs
            .iter()
            .flat_map(|(sessions, gold)| train::read(Path::new(sessions), Path::new(gold)).unwrap())
            .collect();
        train::train(&sessions.iter().collect::<Vec<_>>()).render("train_salience")
    }

    #[test]
    fn training_on_the_sample_reproduces_its_weights_byte_for_byte() {
        let weights = made(&[(&format!("{SAMPLE}/sessions"), SAMPLE)]);
        let known = std::fs::read_to_string(format!("{SAMPLE}/weights.txt")).unwrap();
        assert!(weights == known, "train again, see sample/README.md");
    }

    /// By name, with `RECALL_TRAINING="SESSIONS GOLD SESSIONS GOLD"` and `RECALL_JUDGED="FILE SESSIONS"`: the sets that
    /// `docs/observations.md` names.
    #[test]
    #[ignore = "needs the training sessions, which are not part of the project"]
    fn training_reproduces_the_shipped_weights_byte_for_byte() {
        let folders = std::env::var("RECALL_TRAINING").unwrap();
        let folders: Vec<&str> = folders.split_whitespace().collect();
        let sessions: Vec<Read> = folders
            .chunks(2)
            .flat_map(|pair| train::read(Path::new(pair[0]), Path::new(pair[1])).unwrap())
            .collect();
        let judged = std::env::var("RECALL_JUDGED").unwrap();
        let (file, folder) = judged.split_once(' ').unwrap();
        let judged = (PathBuf::from(file), PathBuf::from(folder));
        let learned = Learned::of(&sessions, Some(&judged), judged::FLOOR).unwrap();
        let made = learned.without("").render("train_salience");
        assert!(made == include_str!("../../crates/compression/src/salience/weights.txt"), "train again");
    }

    #[test]
    fn the_shipped_weights_name_the_current_features() {
        use recall_compression::salience::feature_names;

        let known: Vec<(String, Vec<String>)> = recall_compression::salience::built_in()
            .models
            .iter()
            .map(|(model, (names, _))| (model.clone(), names.clone()))
            .collect();
        let mut today: Vec<(String, Vec<String>)> = feature_names()
            .into_iter()
            .map(|(model, names)| (model, names.into_iter().map(str::to_owned).collect()))
            .collect();
        today.sort();
        assert_eq!(known, today);
    }

    #[test]
    fn the_sample_is_scored_against_its_gold_notes() {
        let folder = PathBuf::from(SAMPLE);
        let sessions = train::read(&folder.join("sessions"), &folder).unwrap();
        let read = &sessions[0];
        let summary = serde_json::json!({"request": "two tabs"});
        let observations = serde_json::json!([
            {"type": "bugfix", "title": "A merge leaves a tombstone", "importance": 5, "evidence": [6]},
            {"type": "change", "title": "The tests pass", "importance": 4, "evidence": [5]},
        ]);
        let mut score = Score::default();
        score.add(&read.gold, &serde_json::json!({"observations": observations, "summary": summary}));
        assert!(score.row("x").starts_with("| x | 36.8 | 36.8 | 50.0 | 100.0 |"), "{}", score.row("x"));
    }
}
