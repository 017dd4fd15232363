//! Makes the weights that decide when recall speaks at a prompt and what it says, and says how good they are.
//!
//! ```text
//! cargo run --release --example train_injection -- [--weights FILE] [--model FOLDER [--vectors FILE]] \
//!     [--moments FOLDER] SESSIONS QUERIES PROMPTS
//! ```
//!
//! `SESSIONS` is a folder with a folder per project, each with recorded sessions (`.jsonl` or `.jsonl.gz`, see
//! `replay/mod.rs`). `QUERIES` holds questions with the sessions that answer them, and for most of them the terms that an
//! answer must hold. `PROMPTS` holds real prompts of the sessions, labelled `silent`, `lookup` or `either`.
//!
//! `--model` is the folder of a sentence model, `--vectors` a file in which its vectors are kept for the next time.
//!
//! `--moments` is a folder with real prompts that were judged by hand (`moments.jsonl`), their sessions (`sessions/PROJECT/`), and
//! when each began (`dates.json`). Nothing is learned from them. The weights that have not seen their project are judged by them.
//!
//! It prints a table without and one with the model: each project is judged by weights that were learned from the other projects alone. `--weights`
//! learns from everything and writes the file that recall is built with; that needs the model. The same input makes the same bytes.

// The table is what the program is for.
#![allow(clippy::print_stdout)]

mod asked;
mod corpus;
mod logistic;
mod moments;
#[allow(dead_code, reason = "one example uses what another does not")]
#[path = "../replay/mod.rs"]
mod replay;
#[allow(dead_code, reason = "only its solver is used here")]
#[path = "../train_salience/ridge.rs"]
mod ridge;
mod score;
mod sentences;
mod train;

use std::path::PathBuf;

use anyhow::Context;
use asked::{Everything, Search};
use recall::memory::injection::FLOOR;
use recall::memory::linear::Weights;
use score::{MomentScore, Score};
use sentences::Sentences;

fn main() -> anyhow::Result<()> {
    let (mut file, mut model, mut vectors, mut judged) = (None, None, None, None);
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--weights" => file = arguments.next().map(PathBuf::from),
            "--model" => model = arguments.next().map(PathBuf::from),
            "--vectors" => vectors = arguments.next().map(PathBuf::from),
            "--moments" => judged = arguments.next().map(PathBuf::from),
            _ => paths.push(PathBuf::from(argument)),
        }
    }
    let [sessions, queries, prompts] = paths.as_slice() else {
        anyhow::bail!(
            "usage: train_injection [--weights FILE] [--model FOLDER [--vectors FILE]] [--moments FOLDER] \
             SESSIONS QUERIES PROMPTS"
        );
    };
    let mut sentences = model.map(|model| Sentences::read(&model, vectors)).transpose()?;
    let mut everything = asked::everything((sessions, queries, prompts), sentences.as_mut())?;
    if let Some(judged) = judged {
        moments::add(&mut everything, &judged, sentences.as_mut())?;
    }
    if let Some(sentences) = &sentences {
        sentences.keep()?;
    }
    if let Some(file) = file {
        anyhow::ensure!(sentences.is_some(), "the weights of meaning need --model");
        let weights = train::train(&everything, None).render("train_injection");
        std::fs::write(&file, &weights).with_context(|| format!("writing {}", file.display()))?;
        println!("{}: {} bytes", file.display(), weights.len());
        return Ok(());
    }
    let folds: Vec<_> =
        everything.projects.iter().map(|held| (held, train::train(&everything, Some(held)))).collect();
    let searches: &[Search] =
        if sentences.is_some() { &[Search::Words, Search::Meaning] } else { &[Search::Words] };
    for search in searches {
        println!("{}", Score::HEADER);
        for floor in FLOORS {
            let mut all = Score::default();
            for (held, weights) in &folds {
                all.add(&everything, held, (weights, *search), floor);
            }
            println!("{}", all.row(&format!("{floor:.2}")));
        }
        for (held, weights) in &folds {
            let mut one = Score::default();
            one.add(&everything, held, (weights, *search), FLOOR);
            println!("{}", one.row(&format!("{FLOOR:.2}, {held}")));
        }
        if !everything.moments.is_empty() {
            let seen = train::train(&everything, None);
            print_moments(&everything, (&folds, &seen), *search);
        }
    }
    Ok(())
}

const FLOORS: [f64; 13] = [0.0, 0.3, 0.4, 0.5, 0.54, 0.56, 0.58, 0.6, 0.62, 0.64, 0.66, 0.7, 0.8];

/// The judged moments by floor, and by project at the floor that is built in.
fn print_moments(
    everything: &Everything,
    (folds, of_all): (&[(&String, Weights)], &Weights),
    search: Search,
) {
    let mut projects: Vec<&String> = everything.moments.iter().map(|moment| &moment.project).collect();
    projects.sort();
    projects.dedup();
    let score = |projects: &[&String], floor: f64| {
        let mut score = MomentScore::default();
        for project in projects {
            let fold = folds.iter().find(|(held, _)| held == project);
            let weights = fold.map_or(of_all, |(_, weights)| weights);
            score.add(everything, project, (weights, search), floor);
        }
        score
    };
    println!("{}", MomentScore::HEADER);
    for floor in FLOORS {
        println!("{}", score(&projects, floor).row(&format!("{floor:.2}")));
    }
    for project in &projects {
        println!("{}", score(&[project], FLOOR).row(&format!("{FLOOR:.2}, {project}")));
    }
}

#[cfg(test)]
// Test code: a panic is how it says that something is wrong.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// By name, with `RECALL_TRAINING="MODEL SESSIONS QUERIES PROMPTS"`: the sets that `docs/retrieval.md` names.
    #[test]
    #[ignore = "needs the training sessions, which are not part of the project"]
    fn the_training_set_makes_the_shipped_weights_to_the_byte() {
        let paths = std::env::var("RECALL_TRAINING").unwrap();
        let paths: Vec<PathBuf> = paths.split_whitespace().map(PathBuf::from).collect();
        let mut sentences = Sentences::read(&paths[0], None).unwrap();
        let sets = (paths[1].as_path(), paths[2].as_path(), paths[3].as_path());
        let everything = asked::everything(sets, Some(&mut sentences)).unwrap();
        let weights = train::train(&everything, None).render("train_injection");
        assert!(weights == include_str!("../../src/memory/injection/weights.txt"), "train again");
    }
}
