//! Measures which pairs of statements recall puts into one thread, on pairs that a person has labelled.
//!
//! ```text
//! cargo run --example threads -- GOLD.jsonl [open|locked]
//! ```
//!
//! `pairs.tsv` names the pairs by the ids of the statements in `GOLD.jsonl`, without their texts: `same` (said again),
//! `supersedes` (the newer one replaces it), `closes` (the newer one solves a problem or finishes open work) and
//! `unrelated`. A hash of the pair selects its half. The locked half is for reports, not for finding rules.

// A report for a reader.
#![allow(clippy::print_stdout)]

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Context;
use recall_domain::observation::ObservationType;
use recall_domain::subject;
use recall_domain::thread::{Kinship, ThreadWords, kinship};
use serde_json::Value;
use sha2::{Digest, Sha256};

const PAIRS: &str = include_str!("pairs.tsv");

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let gold = arguments.next().context("usage: threads GOLD.jsonl [open|locked]")?;
    let only = arguments.next();
    let mut statements: BTreeMap<String, Statement> = BTreeMap::new();
    for line in std::fs::read_to_string(&gold)?.lines() {
        let fact: Value = serde_json::from_str(line)?;
        let field = |name: &str| fact.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let statement = Statement { session: field("session_id"), kind: field("kind"), text: field("fact") };
        statements.insert(field("id"), statement);
    }
    for half in ["open", "locked"].into_iter().filter(|half| only.as_deref().is_none_or(|only| only == *half))
    {
        let mut tally: BTreeMap<&str, Tally> = BTreeMap::new();
        for line in PAIRS.lines().skip(1) {
            let mut columns = line.split('\t');
            let (Some(older), Some(newer), Some(label)) = (columns.next(), columns.next(), columns.next())
            else {
                anyhow::bail!("a line of pairs.tsv is no pair: {line}");
            };
            if half_of(older, newer) != half {
                continue;
            }
            let statement = |id: &str| statements.get(id).with_context(|| format!("no statement {id}"));
            let (older, newer) = (statement(older)?, statement(newer)?);
            let is_same = matches!(label, "same" | "supersedes");
            let found = older.kinship(newer);
            tally.entry("1 in one thread").or_default().count(is_same, found != Kinship::Unrelated);
            tally.entry("2 the older is not told").or_default().count(is_same, found == Kinship::Covered);
            let subject = newer.subject();
            let replaced = subject.is_some() && subject == older.subject();
            tally.entry("3 superseded, by its grammar").or_default().count(is_same, replaced);
        }
        println!("{half} half");
        for (decision, tally) in tally {
            println!("  {decision}: {tally}");
        }
    }
    let subjects: Vec<_> = statements.values().filter_map(Statement::subject).collect();
    let distinct: BTreeSet<_> = subjects.iter().collect();
    println!(
        "{} of {} statements have a subject by grammar, {} of them one that another has",
        subjects.len(),
        statements.len(),
        subjects.len() - distinct.len()
    );
    Ok(())
}

/// A labelled statement.
struct Statement {
    session: String,
    kind: String,
    text: String,
}

impl Statement {
    /// Only statements of different sessions are compared.
    fn kinship(&self, newer: &Self) -> Kinship {
        match self.session == newer.session {
            true => Kinship::Unrelated,
            false => kinship(&ThreadWords::of([self.text.as_str()]), &ThreadWords::of([newer.text.as_str()])),
        }
    }

    fn subject(&self) -> Option<subject::SubjectKey> {
        let kind = ObservationType::parse(&self.kind).unwrap_or(ObservationType::Decision);
        subject::of_title(kind, &self.text)
    }
}

fn half_of(older: &str, newer: &str) -> &'static str {
    let hash = Sha256::digest(format!("{older} {newer}"));
    if hash.first().is_some_and(|byte| byte % 2 == 1) { "locked" } else { "open" }
}

/// How often a decision was right.
#[derive(Default)]
struct Tally {
    right: u32,
    wrong: u32,
    missed: u32,
}

impl Tally {
    fn count(&mut self, is_so: bool, is_found: bool) {
        match (is_so, is_found) {
            (true, true) => self.right += 1,
            (false, true) => self.wrong += 1,
            (true, false) => self.missed += 1,
            (false, false) => {}
        }
    }
}

impl std::fmt::Display for Tally {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { right, wrong, missed } = self;
        let percent =
            |of: u32| (100 * right).checked_div(of).map_or("-".to_owned(), |share| format!("{share} %"));
        write!(
            f,
            "{right} right, {wrong} wrong, {missed} missed: precision {}, recall {}",
            percent(right + wrong),
            percent(right + missed)
        )
    }
}
