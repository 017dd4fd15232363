//! Measures the search with the code that the daemon uses.
//!
//! `search_bench --docs docs.jsonl` answers a retrieval benchmark: a question per line on standard input, e.g.
//! `{"qid": "q1", "scope": "shop", "query": "why is login slow?", "k": 200}`, and per question a line with the ids of
//! the answers, best first. A benchmark's runner starts it and computes the scores. With `--relevance` it also writes
//! the estimated relevance of each scope's best answer to standard error.
//!
//! `search_bench --synthetic 100000` measures time and memory over made-up documents instead. `--folder`
//! keeps the index, so that a second run measures a process that only opens it.

use std::collections::HashMap;
use std::io::{BufRead, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, bail};
use clap::Parser;
use serde::Deserialize;

use recall_domain::document::{Document, DocumentKey, DocumentKind, Status};
use recall_domain::ids::{AgentName, LogSeq, ProjectKey, SessionId, Timestamp};
use recall_domain::observation::{Importance, Maker};
use recall_domain::passage::{self, Passage};
use recall_embedding::{Model, pack};
use recall_search::meaning::{self, Meaning, Vectors};
use recall_search::request::SourceScore;
use recall_search::request::Spelling;
use recall_search::{Hit, Hits, Index, Opened, Query, Scope, SearchRequest, search};

#[derive(Parser)]
struct Arguments {
    /// Documents, one JSON object per line
    #[arg(long)]
    docs: Option<PathBuf>,
    /// Measure with this number of made-up documents
    #[arg(long)]
    synthetic: Option<u32>,
    /// Replace this many documents before the search, so that the index contains deleted ones
    #[arg(long, default_value_t = 0, requires = "synthetic")]
    replaced: u32,
    /// The index's folder [default: a temporary one]
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Also search by meaning, with the sentence model in this folder
    #[arg(long, requires = "docs")]
    model: Option<PathBuf>,
    /// Keep the vectors of the documents in this file, for later runs
    #[arg(long, requires = "model")]
    vectors: Option<PathBuf>,
    /// Write the best relevance of each question to standard error, in every scope
    #[arg(long)]
    relevance: bool,
    /// Add to each answer its ranking: the factors, and the matches of each source
    #[arg(long)]
    explain: bool,
}

fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    let temporary;
    let folder = match &arguments.folder {
        Some(folder) => folder.clone(),
        None => {
            temporary = tempfile::tempdir()?;
            temporary.path().to_owned()
        }
    };
    match (&arguments.docs, arguments.synthetic) {
        (Some(docs), None) => answer_questions(docs, &folder, &arguments),
        (None, Some(count)) => synthetic::measure((count, arguments.replaced), &folder),
        _ => bail!("give either --docs or --synthetic"),
    }
}

#[derive(Deserialize)]
struct BenchDocument {
    id: String,
    scope: String,
    session: String,
    #[serde(default)]
    t_ms: i64,
    ts: Option<String>,
    text: String,
    #[serde(default)]
    speaker: String,
    #[serde(default)]
    kind: String,
}

#[derive(Deserialize)]
struct Question {
    qid: String,
    scope: String,
    query: String,
    k: usize,
}

impl BenchDocument {
    /// Some documents tell the time of day, others the time since their session began.
    fn at(&self) -> Timestamp {
        let date_time = self
            .ts
            .as_deref()
            .and_then(|ts| ts.parse::<jiff::civil::DateTime>().ok()?.to_zoned(jiff::tz::TimeZone::UTC).ok());
        Timestamp(date_time.map_or(self.t_ms, |date_time| date_time.timestamp().as_millisecond()))
    }

    fn document(&self, row: i64) -> Document {
        let kind = match self.kind.as_str() {
            "UserPromptSubmit" => DocumentKind::Prompt,
            "Stop" => DocumentKind::Response,
            // Conversations between people: all turns are of one kind.
            "" => DocumentKind::Prompt,
            _ => DocumentKind::Activity,
        };
        let body = if self.speaker.is_empty() {
            self.text.clone()
        } else {
            format!("{}: {}", self.speaker, self.text)
        };
        Document {
            key: DocumentKey { kind, row },
            project: ProjectKey(self.scope.clone()),
            project_name: self.scope.clone(),
            agent: AgentName::from("bench"),
            session: SessionId(self.session.clone()),
            observation_type: None,
            status: Status::Active,
            importance: Importance::clamped(5),
            maker: Maker::Machine,
            at: self.at(),
            files: Vec::new(),
            title: String::new(),
            body,
            passages: Vec::new(),
        }
    }
}

fn answer_questions(docs: &Path, folder: &Path, arguments: &Arguments) -> anyhow::Result<()> {
    let lines = std::fs::read_to_string(docs).with_context(|| docs.display().to_string())?;
    let Opened { index, mut writer } = Index::open(folder)?;
    let mut ids = HashMap::new();
    let mut scopes: Vec<String> = Vec::new();
    let mut documents = Vec::new();
    for (row, line) in (1..).zip(lines.lines()) {
        let document: BenchDocument = serde_json::from_str(line)?;
        documents.push(document.document(row));
        writer.put(&document.document(row))?;
        if !scopes.contains(&document.scope) {
            scopes.push(document.scope.clone());
        }
        ids.insert(row, document.id);
    }
    writer.commit(LogSeq(ids.len() as i64))?;
    let meaning =
        arguments.model.as_deref().map(|model| Sentences::read(model, arguments, &documents)).transpose()?;
    let mut out = std::io::stdout().lock();
    for line in std::io::stdin().lock().lines() {
        let question: Question = serde_json::from_str(&line?)?;
        let mut request = SearchRequest::new(Query::plain(&question.query), Timestamp(0));
        // As a person's search.
        request.spelling = Spelling::Forgiving;
        request.scope = Scope::Project(ProjectKey(question.scope.clone()));
        request.limit = question.k;
        let hits = found_for(&index, meaning.as_ref(), &request)?;
        let found: Vec<&String> = hits.hits.iter().filter_map(|hit| ids.get(&hit.key.row)).collect();
        let mut answer = serde_json::json!({"qid": question.qid, "ids": found});
        if arguments.explain {
            answer["parts"] = hits.hits.iter().map(parts).collect();
        }
        serde_json::to_writer(&mut out, &answer)?;
        writeln!(out)?;
        out.flush()?;
        if arguments.relevance {
            write_relevance(&index, meaning.as_ref(), &question, &scopes)?;
        }
    }
    Ok(())
}

/// How a hit was ranked, for training the weights.
fn parts(hit: &Hit) -> serde_json::Value {
    let source = |(source, part): &(&str, SourceScore)| serde_json::json!({"source": source, "fit": part.fit, "relevance": part.relevance, "cosine": part.cosine});
    let sources: Vec<_> = hit.sources.iter().map(source).collect();
    let factors: HashMap<&str, f32> = hit.factors.besides_fit().into_iter().collect();
    serde_json::json!({"kind": hit.key.kind.as_str(), "at": hit.at.0, "factors": factors, "sources": sources})
}

/// How recorded calls of reading and searching tools begin.
const READING: [&str; 3] = ["Read", "Grep", "Glob"];

/// A sentence model, and the vectors of each scope's documents.
struct Sentences {
    model: Model,
    scopes: HashMap<ProjectKey, Vectors>,
}

impl Sentences {
    fn read(folder: &Path, arguments: &Arguments, documents: &[Document]) -> anyhow::Result<Self> {
        let started = Instant::now();
        let model = Model::open(folder)?;
        writeln!(std::io::stderr(), "model read in {:?}", started.elapsed())?;
        let kept: HashMap<String, Vec<u8>> = match &arguments.vectors {
            Some(file) if file.exists() => serde_json::from_slice(&std::fs::read(file)?)?,
            _ => HashMap::new(),
        };
        let (mut made, started) = (HashMap::new(), Instant::now());
        let dimensions = model.facts().dimensions;
        let mut scopes: HashMap<ProjectKey, Vectors> = HashMap::new();
        for document in documents {
            let vectors = scopes.entry(document.project.clone()).or_insert_with(|| Vectors::new(dimensions));
            // As in the daemon: of a call the beginning, and nothing of what was read or searched.
            let most = match document.key.kind {
                DocumentKind::Activity if READING.iter().any(|tool| document.body.starts_with(tool)) => 0,
                DocumentKind::Activity => 2,
                _ => usize::MAX,
            };
            for passage in passage::cut(&document.body).iter().take(most).map(Passage::whole) {
                let packed = kept.get(&passage).cloned().unwrap_or_else(|| pack(&model.vector(&passage)));
                vectors.add(document.key, &packed);
                made.insert(passage, packed);
            }
        }
        let count: usize = scopes.values().map(Vectors::len).sum();
        writeln!(std::io::stderr(), "{count} vectors in {:?}", started.elapsed())?;
        if let Some(file) = &arguments.vectors {
            made.extend(kept);
            std::fs::write(file, serde_json::to_vec(&made)?)?;
        }
        let question = "Why did we choose to retry the calls of the gateway?";
        let started = Instant::now();
        for _ in 0..50 {
            std::hint::black_box(model.vector(question));
        }
        writeln!(std::io::stderr(), "a question takes {:?}", started.elapsed() / 50)?;
        Ok(Self { model, scopes })
    }
}

fn found_for(index: &Index, sentences: Option<&Sentences>, request: &SearchRequest) -> anyhow::Result<Hits> {
    let vectors = sentences.and_then(|it| match &request.scope {
        Scope::Project(key) => Some((it, it.scopes.get(key)?.clone())),
        Scope::Everything => None,
    });
    let Some((sentences, vectors)) = vectors else { return Ok(search(&[index], request)?) };
    let question = meaning::Question::new(&sentences.model.vector(&request.query.wanted_text()));
    Ok(search(&[index, &Meaning::new(index, question, vectors)], request)?)
}

/// The relevance of each project's best answer. A question belongs to one project; the others must score low.
fn write_relevance(
    index: &Index,
    meaning: Option<&Sentences>,
    question: &Question,
    scopes: &[String],
) -> anyhow::Result<()> {
    for scope in scopes {
        let mut request = SearchRequest::new(Query::plain(&question.query), Timestamp(0));
        request.scope = Scope::Project(ProjectKey(scope.clone()));
        request.kinds = vec![DocumentKind::Prompt, DocumentKind::Response];
        let best =
            found_for(index, meaning, &request)?.hits.iter().map(|hit| hit.relevance).fold(0.0, f32::max);
        let place = if *scope == question.scope { "own" } else { "other" };
        writeln!(std::io::stderr(), "{place} {best:.3} {}", question.query)?;
    }
    Ok(())
}

/// Measures time and memory with documents of a vocabulary with Zipf-like frequencies.
mod synthetic {
    use super::*;

    const VOCABULARY: u64 = 60_000;
    const WORDS_PER_DOCUMENT: u64 = 120;
    const PROJECTS: u64 = 5;
    const QUERIES: usize = 500;

    /// A small generator with a fixed seed: runs are comparable and need no crate.
    struct Numbers(u64);

    impl Numbers {
        fn next(&mut self) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            self.0 >> 33
        }

        /// A word's rank, low ranks far more often: the logarithm of ranks is even.
        fn word(&mut self) -> String {
            let even = self.next() as f64 / (1u64 << 31) as f64;
            let rank = (VOCABULARY as f64).powf(even) as u64;
            spelled(rank)
        }

        fn text(&mut self, words: u64) -> String {
            (0..words).map(|_| self.word()).collect::<Vec<_>>().join(" ")
        }
    }

    /// A pronounceable word for a number, a different one for each.
    fn spelled(mut rank: u64) -> String {
        const SYLLABLES: [&str; 16] =
            ["ba", "de", "fi", "go", "ku", "la", "me", "ni", "po", "ru", "ta", "ve", "zi", "do", "fu", "ga"];
        let mut word = String::new();
        loop {
            word.extend(SYLLABLES.get((rank % 16) as usize).copied());
            rank /= 16;
            if rank == 0 {
                return word + "x";
            }
        }
    }

    pub(super) fn measure((count, replaced): (u32, u32), folder: &Path) -> anyhow::Result<()> {
        let started = Instant::now();
        let Opened { index, mut writer } = Index::open(folder)?;
        writeln!(std::io::stderr(), "open {:?}, {} documents", started.elapsed(), index.documents())?;
        let mut numbers = Numbers(1);
        if index.documents() == 0 {
            fill(&mut writer, &mut numbers, count)?;
        }
        for number in 0..replaced {
            writer.put(&document(&mut numbers, i64::from(number * (count / replaced))))?;
        }
        writer.commit(LogSeq(i64::from(count)))?;
        writeln!(std::io::stderr(), "filled after {:?}; {}", started.elapsed(), memory()?)?;
        for (name, words) in [("1 word", 1), ("3 words", 3), ("6 words", 6), ("a prompt of 500 words", 500)] {
            for scope in [Scope::Everything, Scope::Project(ProjectKey::from("p1"))] {
                let mut times = Vec::new();
                for _ in 0..QUERIES {
                    let mut request = SearchRequest::new(Query::plain(&numbers.text(words)), Timestamp(0));
                    request.scope = scope.clone();
                    let asked = Instant::now();
                    search(&[&index], &request)?;
                    times.push(asked.elapsed());
                }
                times.sort();
                let at =
                    |share: f64| times.get((share * QUERIES as f64) as usize).copied().unwrap_or_default();
                writeln!(std::io::stderr(), "{name:22} {scope:?}: p50 {:?} p99 {:?}", at(0.5), at(0.99))?;
            }
        }
        let asked = Instant::now();
        for round in 0..20 {
            writer.put(&document(&mut numbers, i64::from(count) + round))?;
            writer.commit(LogSeq(round))?;
        }
        writeln!(std::io::stderr(), "put and commit {:?} each", asked.elapsed() / 20)?;
        writer.settle()?;
        writeln!(std::io::stderr(), "settled; {}", memory()?)?;
        Ok(())
    }

    fn fill(writer: &mut recall_search::Writer, numbers: &mut Numbers, count: u32) -> anyhow::Result<()> {
        for row in 0..count {
            writer.put(&document(numbers, i64::from(row)))?;
            // As a rebuild does: larger steps are hardly faster and leave more memory behind.
            if row % 500 == 499 {
                writer.commit(LogSeq(i64::from(row)))?;
            }
        }
        writer.commit(LogSeq(i64::from(count)))?;
        writer.settle()?;
        Ok(())
    }

    fn document(numbers: &mut Numbers, row: i64) -> Document {
        let kind = DocumentKind::ALL.get(row as usize % DocumentKind::ALL.len());
        Document {
            key: DocumentKey { kind: kind.map_or(DocumentKind::Activity, |(kind, ..)| *kind), row },
            project: ProjectKey(format!("p{}", row as u64 % PROJECTS)),
            project_name: "shop".to_owned(),
            agent: AgentName::from("bench"),
            session: SessionId(format!("s{}", row / 200)),
            observation_type: None,
            status: Status::Active,
            importance: Importance::clamped(row % 10),
            maker: Maker::Machine,
            at: Timestamp(row * 1_000),
            files: vec![format!("src/{}/{}.rs", numbers.word(), numbers.word())],
            title: numbers.text(8),
            body: numbers.text(WORDS_PER_DOCUMENT),
            passages: Vec::new(),
        }
    }

    fn memory() -> anyhow::Result<String> {
        let status = std::fs::read_to_string("/proc/self/status")?;
        let lines: Vec<String> = status
            .lines()
            .filter(|line| ["VmRSS", "RssAnon", "RssFile", "VmHWM"].iter().any(|name| line.starts_with(name)))
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        Ok(lines.join(", "))
    }
}
