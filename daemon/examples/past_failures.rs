//! Asks `fix` and `how` about real failures of recorded sessions, so that a person can judge the answers.
//!
//! ```text
//! cargo run --example past_failures -- DATES.json SESSIONS [COUNT]
//! ```
//!
//! `SESSIONS` has a folder for each project with recordings (`replay/mod.rs` describes the format), and `DATES.json`
//! says when each session began. Each project is asked about failures of its sessions, drawn by a hash of session and
//! error. A failure is asked about twice: once with the knowledge of its own and all earlier sessions, once with that
//! of earlier sessions alone.

// A report for a reader.
#![allow(clippy::print_stdout)]

#[allow(dead_code, reason = "other examples write what a session became")]
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Context;
use recall_domain::command_form::CommandForm;
use recall_domain::ids::SessionId;
use recall_domain::known_error;
use recall_domain::material::{Action, CallOutcome, Step};
use recall_domain::past_work::PastSession;
use recall_domain::past_work::fix::{CureStep, Met, fix};
use recall_domain::past_work::how::how;
use sha2::{Digest, Sha256};

fn main() -> anyhow::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let usage = "usage: past_failures DATES.json SESSIONS [COUNT]";
    let (dates, folder) = (arguments.next().context(usage)?, arguments.next().context(usage)?);
    let count = arguments.next().map_or(Ok(20), |count| count.parse::<usize>())?;
    let dates: BTreeMap<String, String> = serde_json::from_str(&std::fs::read_to_string(dates)?)?;
    let mut failures = Vec::new();
    let mut projects: Vec<Vec<PastSession>> = Vec::new();
    for project in entries(Path::new(&folder))? {
        let mut sessions = Vec::new();
        for file in entries(&project)? {
            sessions.extend(replay::sessions(&file)?);
        }
        sessions.sort_by_key(|(id, _)| dates.get(id).cloned());
        let sessions: Vec<PastSession> =
            sessions.into_iter().map(|(id, material)| PastSession { id: SessionId(id), material }).collect();
        for (at, session) in sessions.iter().enumerate() {
            failures.extend(failures_of(session).into_iter().map(|failure| (projects.len(), at, failure)));
        }
        projects.push(sessions);
    }
    let earlier = failures.iter().filter(|(project, at, failure)| {
        let known = projects.get(*project).and_then(|sessions| sessions.get(..*at)).unwrap_or_default();
        let is_cured = |met: &Met| !met.steps.is_empty() || met.passed_as.is_some();
        fix(&failure.line, known).first().is_some_and(is_cured)
    });
    println!("{} failures, {} of them cured in an earlier session", failures.len(), earlier.count());
    let mut asked = BTreeSet::new();
    failures.retain(|(project, _, failure)| asked.insert((*project, failure.line.clone())));
    failures.sort_by_key(|(_, _, failure)| Sha256::digest(failure.line.as_bytes()).to_vec());
    for (project, at, failure) in failures.iter().take(count) {
        let sessions = projects.get(*project).map(Vec::as_slice).unwrap_or_default();
        println!("\n## {}\n$ {}", failure.line, short(&failure.command));
        for (name, until) in [("all", *at + 1), ("earlier", *at)] {
            let known = sessions.get(..until).unwrap_or_default();
            match fix(&failure.line, known).first() {
                Some(met) => print_met(name, met),
                None => println!("{name}: not met"),
            }
        }
        let form = CommandForm::all(&failure.command).first().map(CommandForm::text).unwrap_or_default();
        for run in how(&form, sessions).iter().take(2) {
            println!("how {form}: {} ({} worked, {} failed)", short(&run.command), run.worked, run.failed);
        }
    }
    Ok(())
}

fn print_met(name: &str, met: &Met) {
    let result = if met.passed_at.is_some() { "passed after" } else { "never passed" };
    println!("{name}: {} times, {result}", met.times);
    for step in &met.steps {
        match step {
            CureStep::Changed(path) => println!("  changed {path}"),
            CureStep::Ran(command) => println!("  ran {}", short(command)),
        }
    }
    if let Some(line) = &met.passed_as {
        println!("  passed as {}", short(line));
    }
}

fn short(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(160).collect()
}

fn entries(folder: &Path) -> anyhow::Result<BTreeSet<std::path::PathBuf>> {
    let entries = std::fs::read_dir(folder).with_context(|| folder.display().to_string())?;
    entries.map(|entry| Ok(entry?.path())).collect()
}

struct Failure {
    line: String,
    command: String,
}

/// The failed commands of a session whose error can be recognised, each error once.
fn failures_of(session: &PastSession) -> Vec<Failure> {
    let mut seen = BTreeSet::new();
    let failure = |step: &Step| {
        let (Action::Command { command, .. }, CallOutcome::Failed { error }) = (&step.action, &step.outcome)
        else {
            return None;
        };
        let line = known_error::error_line(error)?;
        Some(Failure { line, command: command.clone() })
    };
    let steps = session.material.batches.iter().flat_map(|batch| &batch.steps);
    steps.filter_map(failure).filter(|failure| seen.insert(failure.line.clone())).collect()
}
