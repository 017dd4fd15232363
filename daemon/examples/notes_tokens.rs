//! Counts the tokens that recall would send to a model for recorded sessions, by unit: one call per turn and one for
//! the summary, or one call per session. It calls no model.
//!
//! ```text
//! cargo run --example notes_tokens -- SESSION.jsonl ...
//! ```
//!
//! The format of a session is that of `replay/mod.rs`. With `RECALL_SHOW=ID` it prints the material of that session
//! instead.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

#[allow(dead_code)] // Each example uses a part of it.
mod replay;

use std::path::Path;

use recall_compression::notes::NotesMaterial;
use recall_compression::{condense, prompt};
use recall_domain::material::SessionMaterial;
use recall_domain::tokens;
use recall_providers::chat::ChatRequest;

/// The default of `compression.material_tokens`.
const MATERIAL_TOKENS: u32 = 6_000;

fn main() -> anyhow::Result<()> {
    let shown = std::env::var("RECALL_SHOW").ok();
    let mut all = Vec::new();
    for path in std::env::args().skip(1) {
        for (id, session) in replay::sessions(Path::new(&path))? {
            let by_session = of_session(&session);
            if shown.as_ref() == Some(&id) {
                by_session.iter().for_each(|request| println!("{}\n{}\n", request.system, request.user));
            }
            all.push((cost(&of_turns(&session)), cost(&by_session)));
        }
    }
    if shown.is_some() {
        return Ok(());
    }
    println!("{} sessions", all.len());
    println!("unit      calls  tokens a session: mean, median, 90 %, most");
    print("turn", all.iter().map(|(turns, _)| *turns).collect());
    print("session", all.iter().map(|(_, session)| *session).collect());
    Ok(())
}

fn of_turns(session: &SessionMaterial) -> Vec<ChatRequest> {
    let turns = session.batches.iter().map(|batch| {
        let condensed = condense::batch(batch, MATERIAL_TOKENS);
        prompt::observations(&condensed.text)
    });
    let summary = prompt::summary(&condense::session(session, MATERIAL_TOKENS).text);
    turns.chain([summary]).collect()
}

fn of_session(session: &SessionMaterial) -> Vec<ChatRequest> {
    let mut due: Vec<usize> = (0..session.batches.len()).collect();
    let mut requests = Vec::new();
    while !due.is_empty() {
        let material =
            NotesMaterial { session: session.clone(), due: due.clone(), ..NotesMaterial::default() };
        let part = material.first_part();
        let condensed = condense::notes(&part, MATERIAL_TOKENS);
        requests.push(prompt::notes(&condensed.text, &part));
        due.drain(..part.due.len());
    }
    requests
}

/// Numbers of calls, and of tokens sent.
fn cost(requests: &[ChatRequest]) -> (usize, u32) {
    let sent = |request: &ChatRequest| tokens::estimate(&request.system) + tokens::estimate(&request.user);
    (requests.len(), requests.iter().map(sent).sum())
}

fn print(unit: &str, mut costs: Vec<(usize, u32)>) {
    costs.sort_by_key(|(_, tokens)| *tokens);
    let count = costs.len().max(1);
    let calls: usize = costs.iter().map(|(calls, _)| calls).sum();
    let sum: u64 = costs.iter().map(|(_, tokens)| u64::from(*tokens)).sum();
    let at = |share: usize| costs.get(count * share / 100).or(costs.last()).map_or(0, |(_, tokens)| *tokens);
    println!("{unit:8} {calls:6}  {:.0}, {}, {}, {}", sum as f64 / count as f64, at(50), at(90), at(100));
}
