//! `recall model bench`: measures how long a model takes for a passage and a question, and where searches find the
//! answers to your own questions with and without it.

use std::io::Write;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use recall_protocol::paths::Paths;
use recall_protocol::query::{Explain, Filter, Search, Status};
use serde::Serialize;

use super::get::PASSAGE;
use crate::cli::candidates;
use crate::cli::client::{Client, Start, this_folder};
use crate::cli::failure::Failure;
use crate::cli::terminal::{self, BOLD, DIM, counted, table};
use recall_app::answers::found::SearchResult;
use recall_embedding::{Embedder, InstalledModels, Model, Purpose};

/// How often each time is measured.
const TIMES: usize = 20;
/// The number of results in which an answer is searched.
const RESULTS: u32 = 50;
/// The maximum size of the file of questions, in bytes.
const MOST_BYTES: u64 = 1 << 20;

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// The model's name in `recall model list`
    #[arg(add = candidates::models())]
    name: String,
    /// One question per line: the question, a tab, and the ID of the item that answers it, as `recall search` shows
    /// it
    #[arg(value_name = "FILE")]
    questions: PathBuf,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Measured {
    model: String,
    /// The median, in milliseconds of one thread.
    passage_ms: f64,
    question_ms: f64,
    /// Absent if no daemon uses the model.
    ranking: Option<Ranking>,
}

#[derive(Serialize)]
struct Ranking {
    questions: usize,
    words: Ranks,
    words_and_meaning: Ranks,
}

/// The share of questions whose answer is among the first results, in percent, and the mean of 1 / rank.
#[derive(Serialize)]
struct Ranks {
    first: f64,
    first_5: f64,
    first_10: f64,
    mrr: f64,
}

pub(super) fn run(
    args: &BenchArgs,
    paths: &Paths,
    models: &InstalledModels,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let questions = questions(args)?;
    let model = models.open(&args.name).map_err(|error| super::failure(error.into()))?;
    let question = questions.first().map_or(PASSAGE, |(question, _)| question.as_str());
    let measured = Measured {
        model: args.name.clone(),
        passage_ms: milliseconds(&model, PASSAGE, Purpose::Passages),
        question_ms: milliseconds(&model, question, Purpose::Question),
        ranking: ranking(&args.name, &questions, paths)?,
    };
    if args.json {
        serde_json::to_writer(&mut *out, &measured)?;
        return Ok(writeln!(out)?);
    }
    let Measured { passage_ms, question_ms, ranking, .. } = &measured;
    writeln!(
        out,
        "{BOLD}{}{BOLD:#}  a passage {passage_ms:.1} ms, a question {question_ms:.1} ms",
        args.name
    )?;
    let Some(Ranking { questions, words, words_and_meaning }) = ranking else {
        writeln!(
            out,
            "No daemon uses this model, so nothing was searched. Name it in [embedding], and start a daemon with `recall daemon`."
        )?;
        return Ok(());
    };
    let row = |name: &str, ranks: &Ranks| {
        let percent = [ranks.first, ranks.first_5, ranks.first_10, ranks.mrr];
        std::iter::once(name.to_owned()).chain(percent.map(|value| format!("{value:.1}"))).collect()
    };
    let rows: [Vec<String>; 2] = [row("words", words), row("words and meaning", words_and_meaning)];
    let heading = counted(*questions, "question", "questions");
    table(out, &[&heading, "first", "first 5", "first 10", "MRR"], &rows)?;
    writeln!(
        out,
        "{DIM}Percentage of questions whose answer is the first result, or among the first 5 or 10.{DIM:#}"
    )?;
    Ok(())
}

fn questions(args: &BenchArgs) -> anyhow::Result<Vec<(String, String)>> {
    let file = &args.questions;
    let is_small = std::fs::metadata(file).is_ok_and(|found| found.is_file() && found.len() <= MOST_BYTES);
    let text = if is_small { std::fs::read_to_string(file).ok() } else { None };
    let lines = text.with_context(|| format!("Cannot read {} as text of at most 1 MiB", file.display()))?;
    let lines: Vec<&str> = lines.lines().filter(|line| !line.trim().is_empty()).collect();
    let read = lines.iter().zip(1..).map(|(line, number)| {
        let (question, id) = line.rsplit_once('\t').ok_or_else(|| {
            Failure::usage(format!("Line {number} of {} has no tab", file.display()))
                .hint("Write a question, a tab, and the id of what answers it, such as #12.")
        })?;
        Ok((question.trim().to_owned(), id.trim().trim_start_matches('#').to_owned()))
    });
    read.collect()
}

fn milliseconds(model: &Model, text: &str, purpose: Purpose) -> f64 {
    let texts = [text.to_owned()];
    let mut times: Vec<Duration> = (0..TIMES)
        .map(|_| {
            let begun = Instant::now();
            let _ = model.embed(&texts, purpose);
            begun.elapsed()
        })
        .collect();
    times.sort();
    times.get(TIMES / 2).map_or(0.0, |time| time.as_secs_f64() * 1000.0)
}

fn ranking(name: &str, questions: &[(String, String)], paths: &Paths) -> anyhow::Result<Option<Ranking>> {
    let Ok(mut client) = Client::connect_at(paths, Start::Never) else { return Ok(None) };
    let embedding = client.ask(Status)?.read()?.embedding;
    if embedding.model != name || embedding.state != "ready" {
        return Ok(None);
    }
    let (mut words, mut both) = (Vec::new(), Vec::new());
    for (question, id) in questions {
        let search = Search {
            text: question.clone(),
            filter: Filter { limit: Some(RESULTS), ..Filter::default() },
            explain: Explain::Yes,
            folder: Some(this_folder()),
        };
        let mut results = client.ask(search)?.read()?.results;
        both.push(rank(&results, id));
        results.sort_by(|a, b| by_words(b).total_cmp(&by_words(a)));
        results.retain(|result| by_words(result) > 0.0);
        words.push(rank(&results, id));
    }
    let questions = questions.len();
    Ok(Some(Ranking { questions, words: Ranks::of(&words), words_and_meaning: Ranks::of(&both) }))
}

/// Returns the rank of a question's answer, from 1.
fn rank(results: &[SearchResult], id: &str) -> Option<usize> {
    let is_it = |result: &SearchResult| terminal::id(result.id).trim_start_matches('#') == id;
    results.iter().position(is_it).map(|place| place + 1)
}

/// Returns the score of a result without its part for meaning. Fits are added, and everything else is multiplied.
fn by_words(result: &SearchResult) -> f32 {
    let sources = result.why.as_ref().map(|why| why.sources.as_slice()).unwrap_or_default();
    let all: f32 = sources.iter().map(|source| source.fit).sum();
    let meaning: f32 =
        sources.iter().filter(|source| source.source == "meaning").map(|source| source.fit).sum();
    if all > 0.0 { result.score * (all - meaning) / all } else { result.score }
}

impl Ranks {
    fn of(ranks: &[Option<usize>]) -> Self {
        let share = |count: f64| 100.0 * count / ranks.len().max(1) as f64;
        let among = |most: usize| share(ranks.iter().flatten().filter(|rank| **rank <= most).count() as f64);
        let mrr = share(ranks.iter().flatten().map(|rank| 1.0 / *rank as f64).sum());
        Self { first: among(1), first_5: among(5), first_10: among(10), mrr }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_is_not_found_scores_zero() {
        let Ranks { first, first_5, first_10, mrr } = Ranks::of(&[Some(1), Some(4), None, Some(10)]);
        assert_eq!((first, first_5, first_10), (25.0, 50.0, 75.0));
        assert!((mrr - 33.75).abs() < 1e-9, "{mrr}");
    }
}
