//! Times a local sentence model on one thread, and writes its vectors. `tools/encoder-bench` compares it with another
//! program on the same weights.
//!
//! Reads texts from standard input, one JSON string per line. It times the first text of 590 bytes or more. Prints one
//! line of JSON: milliseconds, the best and the median of the runs.

use std::io::{self, BufRead, Write};
use std::path::PathBuf;
use std::time::Instant;

use anyhow::Context;
use clap::Parser;
use recall_embedding::{Embedder, Model, Purpose};

#[derive(Parser)]
struct Arguments {
    /// The published model's folder
    #[arg(value_name = "FOLDER")]
    model: PathBuf,
    /// How often each text is computed
    #[arg(long, default_value_t = 100)]
    runs: usize,
    /// Write the vectors of all texts to this file, in order, as 32-bit numbers
    #[arg(long)]
    vectors: Option<PathBuf>,
}

const QUESTION: &str = "why does the login page time out after the upgrade of redis?";

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let model = Model::open(&arguments.model)?;
    let lines = io::stdin().lock().lines();
    let texts =
        lines.map(|line| Ok(serde_json::from_str(&line?)?)).collect::<anyhow::Result<Vec<String>>>()?;
    let passage = texts.iter().find(|text| text.len() >= 590).context("no text has 590 bytes")?;
    let timed = |text: &str, purpose| -> anyhow::Result<(f64, f64)> {
        let texts = [text.to_owned()];
        let mut times = Vec::with_capacity(arguments.runs);
        for _ in 0..arguments.runs.max(1) {
            let started = Instant::now();
            std::hint::black_box(model.embed(&texts, purpose)?);
            times.push(started.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        Ok((
            times.first().copied().unwrap_or_default(),
            times.get(times.len() / 2).copied().unwrap_or_default(),
        ))
    };
    let (passage_best, passage_median) = timed(passage, Purpose::Passages)?;
    let (question_best, question_median) = timed(QUESTION, Purpose::Question)?;
    let found = serde_json::json!({
        "passage": {"bytes": passage.len(), "best": passage_best, "median": passage_median},
        "question": {"text": QUESTION, "best": question_best, "median": question_median},
    });
    writeln!(io::stdout(), "{found}")?;
    if let Some(path) = arguments.vectors {
        let mut bytes = Vec::new();
        for some in texts.chunks(64) {
            for vector in model.embed(some, Purpose::Passages)? {
                vector.iter().for_each(|value| bytes.extend(value.to_le_bytes()));
            }
        }
        std::fs::write(&path, bytes).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}
