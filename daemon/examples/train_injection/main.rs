//! Makes the weights that decide when recall speaks at a prompt and what it says, and says how good they are.
//!
//! ```text
//! cargo run --release --example train_injection -- [--weights FILE] SESSIONS QUERIES PROMPTS
//! ```
//!
//! `SESSIONS` is a folder with a folder per project, each with recorded sessions (`.jsonl` or `.jsonl.gz`, see
//! `replay/mod.rs`). `QUERIES` holds questions with the sessions that answer them, and for most of them the terms that an
//! answer must hold. `PROMPTS` holds real prompts of the sessions, labelled `silent`, `lookup` or `either`.
//!
//! It prints a table: each project is judged by weights that were learned from the other projects alone. `--weights`
//! learns from everything and writes the file that recall is built with. The same input makes the same bytes.

// The table is what the program is for.
#![allow(clippy::print_stdout)]

mod asked;
mod corpus;
mod logistic;
#[allow(dead_code, reason = "one example uses what another does not")]
#[path = "../replay/mod.rs"]
mod replay;
#[allow(dead_code, reason = "only its solver is used here")]
#[path = "../train_salience/ridge.rs"]
mod ridge;
mod score;
mod train;

use std::path::PathBuf;

use anyhow::Context;
use recall::memory::injection::FLOOR;
use score::Score;

fn main() -> anyhow::Result<()> {
    let mut file: Option<PathBuf> = None;
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--weights" => file = arguments.next().map(PathBuf::from),
            _ => paths.push(PathBuf::from(argument)),
        }
    }
    let [sessions, queries, prompts] = paths.as_slice() else {
        anyhow::bail!("usage: train_injection [--weights FILE] SESSIONS QUERIES PROMPTS");
    };
    let everything = asked::everything(sessions, queries, prompts)?;
    if let Some(file) = file {
        let weights = train::train(&everything, None).render("train_injection");
        std::fs::write(&file, &weights).with_context(|| format!("writing {}", file.display()))?;
        println!("{}: {} bytes", file.display(), weights.len());
        return Ok(());
    }
    let folds: Vec<_> =
        everything.projects.iter().map(|held| (held, train::train(&everything, Some(held)))).collect();
    println!("{}", Score::HEADER);
    for floor in [0.0, 0.05, 0.1, 0.15, 0.18, 0.2, 0.22, 0.24, 0.26, 0.3, 0.4, 0.5] {
        let mut all = Score::default();
        for (held, weights) in &folds {
            all.add(&everything, held, weights, floor);
        }
        println!("{}", all.row(&format!("{floor:.2}")));
    }
    for (held, weights) in &folds {
        let mut one = Score::default();
        one.add(&everything, held, weights, FLOOR);
        println!("{}", one.row(&format!("{FLOOR:.2}, {held}")));
    }
    Ok(())
}

#[cfg(test)]
// Test code: a panic is how it says that something is wrong.
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    /// By name, with `RECALL_TRAINING="SESSIONS QUERIES PROMPTS"`: the sets that `docs/retrieval.md` names.
    #[test]
    #[ignore = "needs the training sessions, which are not part of the project"]
    fn the_training_set_makes_the_shipped_weights_to_the_byte() {
        let paths = std::env::var("RECALL_TRAINING").unwrap();
        let paths: Vec<PathBuf> = paths.split_whitespace().map(PathBuf::from).collect();
        let everything = asked::everything(&paths[0], &paths[1], &paths[2]).unwrap();
        let weights = train::train(&everything, None).render("train_injection");
        assert!(weights == include_str!("../../src/memory/injection/weights.txt"), "train again");
    }
}
