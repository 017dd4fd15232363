//! Trains the weights that decide when recall injects something at a prompt, and what; then measures them.
//!
//! ```text
//! cargo run --release --example train_injection -- [--weights FILE] [--model FOLDER [--vectors FILE]] \
//!     [--moments FOLDER [--show NUMBER]] SESSIONS QUERIES PROMPTS
//! ```
//!
//! `SESSIONS` is a folder with a folder per project, each with recorded sessions (`.jsonl` or `.jsonl.gz`, see
//! `replay/mod.rs`). `QUERIES` contains questions with the sessions that answer them, and for most the terms that an
//! answer must contain. `PROMPTS` contains real prompts of the sessions, labelled `silent`, `lookup` or `either`.
//!
//! `--model` is the folder of a sentence model, `--vectors` a file that keeps its vectors for the next run.
//!
//! `--moments` is a folder with real prompts that were judged by hand (`moments.jsonl`), their sessions
//! (`sessions/PROJECT/`), and when each began (`dates.json`). The model of need is trained on them.
//!
//! `--show` prints, for this many moments of each project, what the shipped weights inject there, for a person to read.
//! A hash draws the moments. They need no judgement, only a place.
//!
//! It prints tables without and with the model: each project is judged with weights trained on the other projects
//! alone. `--weights` trains on everything and writes the file that recall is built with; that needs the model and the
//! moments. The same input generates the same bytes.

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
use recall_domain::injection::{FLOORS, Floors, excerpt};
use recall_domain::linear::Weights;
use score::{LineScore, MomentScore, Score};
use sentences::Sentences;

fn main() -> anyhow::Result<()> {
    let (mut file, mut model, mut vectors, mut judged) = (None, None, None, None);
    let mut show: Option<usize> = None;
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--weights" => file = arguments.next().map(PathBuf::from),
            "--model" => model = arguments.next().map(PathBuf::from),
            "--vectors" => vectors = arguments.next().map(PathBuf::from),
            "--show" => show = arguments.next().map(|number| number.parse()).transpose()?,
            "--moments" => judged = arguments.next().map(PathBuf::from),
            _ => paths.push(PathBuf::from(argument)),
        }
    }
    let [sessions, queries, prompts] = paths.as_slice() else {
        anyhow::bail!(
            "usage: train_injection [--weights FILE] [--model FOLDER [--vectors FILE]] \
             [--moments FOLDER [--show NUMBER]] SESSIONS QUERIES PROMPTS"
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
    if let Some(each) = show {
        print_lines(&everything);
        score::show(&everything, each);
        return Ok(());
    }
    if let Some(file) = file {
        anyhow::ensure!(sentences.is_some(), "the weights of meaning need --model");
        anyhow::ensure!(!everything.moments.is_empty(), "the weights of the need need --moments");
        let weights = train::train(&everything, None).render("train_injection");
        std::fs::write(&file, &weights).with_context(|| format!("writing {}", file.display()))?;
        println!("{}: {} bytes", file.display(), weights.len());
        return Ok(());
    }
    let mut projects: Vec<&String> = everything.projects.iter().collect();
    projects.extend(everything.moments.iter().map(|moment| &moment.project));
    projects.sort();
    projects.dedup();
    let folds: Vec<(&String, Weights)> =
        projects.into_iter().map(|held| (held, train::train(&everything, Some(held)))).collect();
    let searches: &[Search] =
        if sentences.is_some() { &[Search::Words, Search::Meaning] } else { &[Search::Words] };
    print_lines(&everything);
    for search in searches {
        print_questions(&everything, &folds, *search);
        if !everything.moments.is_empty() {
            print_moments(&everything, &folds, *search);
        }
    }
    Ok(())
}

const QUESTIONS: [f64; 13] = [0.0, 0.3, 0.4, 0.5, 0.54, 0.56, 0.58, 0.6, 0.62, 0.64, 0.66, 0.7, 0.8];
const NEEDS: [f64; 13] = [0.3, 0.34, 0.36, 0.38, 0.4, 0.42, 0.44, 0.46, 0.48, 0.5, 0.54, 0.6, 0.7];
/// The maximum share of moments without need at which anything is injected.
const WITHOUT_NEED: f64 = 0.05;

/// What lines of both lengths keep of an answer.
fn print_lines(everything: &Everything) {
    println!("{}", LineScore::HEADER);
    for most in [excerpt::LINE, excerpt::ANSWER] {
        println!("{}", LineScore::of(everything, most).row(most));
    }
}

/// The questions by their floor, and by project at the floor that is built in.
fn print_questions(everything: &Everything, folds: &[(&String, Weights)], search: Search) {
    println!("{}", Score::HEADER);
    for question in QUESTIONS {
        let mut all = Score::default();
        for (held, weights) in folds {
            all.add(everything, held, (weights, search), Floors { question, ..FLOORS });
        }
        println!("{}", all.row(&format!("{question:.2}")));
    }
    for (held, weights) in folds.iter().filter(|(held, _)| everything.projects.contains(held)) {
        let mut one = Score::default();
        one.add(everything, held, (weights, search), FLOORS);
        println!("{}", one.row(&format!("{:.2}, {held}", FLOORS.question)));
    }
}

/// The judged moments by the floor of the need; with the floor that is best for the other projects; and by project at
/// the floor that is built in.
fn print_moments(everything: &Everything, folds: &[(&String, Weights)], search: Search) {
    let score = |(held, weights): &(&String, Weights), need: f64| {
        let mut score = MomentScore::default();
        score.add(everything, held, (weights, search), Floors { need, ..FLOORS });
        score
    };
    // By floor, then by project.
    let scores: Vec<Vec<MomentScore>> =
        NEEDS.iter().map(|need| folds.iter().map(|fold| score(fold, *need)).collect()).collect();
    let sum = |of_floor: &[MomentScore], is_in: &dyn Fn(usize) -> bool| {
        let mut all = MomentScore::default();
        of_floor.iter().enumerate().filter(|(fold, _)| is_in(*fold)).for_each(|(_, one)| all.add_all(one));
        all
    };
    println!("{}", MomentScore::HEADER);
    for (need, of_floor) in NEEDS.iter().zip(&scores) {
        println!("{}", sum(of_floor, &|_| true).row(&format!("{need:.2}")));
    }
    let mut chosen = MomentScore::default();
    for held in 0..folds.len() {
        let others = scores.iter().map(|of_floor| sum(of_floor, &|fold| fold != held));
        let silent = others.enumerate().filter(|(_, others)| others.spoke_without_need() <= WITHOUT_NEED);
        let best = silent.max_by_key(|(_, others)| others.needs_met()).map(|(place, _)| place);
        chosen.add_all(&scores[best.unwrap_or(NEEDS.len() - 1)][held]);
    }
    println!("{}", chosen.row("chosen by the others"));
    for fold in folds.iter().filter(|(held, _)| everything.moments.iter().any(|one| one.project == **held)) {
        println!("{}", score(fold, FLOORS.need).row(&format!("{:.2}, {}", FLOORS.need, fold.0)));
    }
}

#[cfg(test)]
// Test code: a panic is how it says that something is wrong.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// By name, with `RECALL_TRAINING="MODEL SESSIONS QUERIES PROMPTS MOMENTS"`: the sets that `docs/retrieval.md`
    /// names.
    #[test]
    #[ignore = "needs the training sessions, which are not part of the project"]
    fn training_reproduces_the_shipped_weights_byte_for_byte() {
        let paths = std::env::var("RECALL_TRAINING").unwrap();
        let paths: Vec<PathBuf> = paths.split_whitespace().map(PathBuf::from).collect();
        let mut sentences = Sentences::read(&paths[0], None).unwrap();
        let sets = (paths[1].as_path(), paths[2].as_path(), paths[3].as_path());
        let mut everything = asked::everything(sets, Some(&mut sentences)).unwrap();
        moments::add(&mut everything, &paths[4], Some(&mut sentences)).unwrap();
        let weights = train::train(&everything, None).render("train_injection");
        assert!(weights == include_str!("../../crates/domain/src/injection/weights.txt"), "train again");
    }
}
