//! Provisional solutions: agents mention them in their answers, and some command options switch a check off.

use super::{Friction, FrictionKind, Groups};
use crate::injection::excerpt::sentences;
use crate::material::{Action, BatchMaterial, Step};
use crate::observation::ObservationType;
use crate::past_work::{PastSession, command_of};
use crate::text::{one_line, shortened_line};

/// Phrases by which an answer calls something provisional.
const PHRASES: [&str; 9] = [
    "for now",
    "as a workaround",
    "workaround:",
    "worked around",
    "work around this",
    "temporarily",
    "as a stopgap",
    "quick hack",
    "as a temporary",
];
/// Options that switch off a safeguard.
const OPTIONS: [&str; 6] = [
    "--no-verify",
    "--legacy-peer-deps",
    "--skip-tests",
    "-DskipTests",
    "--no-gpg-sign",
    "--break-system-packages",
];
/// The minimum number of sessions; an option used in fewer is an exception.
const LEAST_SESSIONS: usize = 2;
const MOST: usize = 8;
const CHARS: usize = 240;
const SHORTEST: usize = 25;

pub(super) fn workarounds(sessions: &[PastSession]) -> Vec<Friction> {
    let mut options = Groups::new();
    let mut mentions = Groups::new();
    for session in sessions {
        for step in session.steps().filter(|step| !step.outcome.is_failed()) {
            let Some(command) = command_of(step) else { continue };
            for option in
                OPTIONS.iter().filter(|option| command.split_whitespace().any(|word| word == **option))
            {
                options.add((*option).to_owned(), &session.id, step.at, shortened_line(command, CHARS));
            }
        }
        for batch in &session.material.batches {
            let Some(at) = batch.steps.last().map(|step| step.at) else { continue };
            for sentence in provisional(batch) {
                mentions.add(super::failures::form(&sentence), &session.id, at, sentence);
            }
        }
    }
    let of_options = options.of_sessions(LEAST_SESSIONS).into_iter().filter_map(|group| {
        let last = group.occurrences.first()?;
        let option = OPTIONS.iter().find(|option| last.what.contains(**option))?;
        Some(Friction {
            kind: FrictionKind::Workaround,
            what: format!("`{option}` switches a check off"),
            times: group.times(),
            example: Some(last.what.clone()),
            met: group.met.clone(),
            remember: Some((
                ObservationType::Preference,
                format!("Do not use `{option}`; say what makes it necessary instead."),
            )),
            note: None,
        })
    });
    let of_answers = mentions.of_sessions(1).into_iter().filter_map(|group| {
        let last = group.occurrences.first()?;
        Some(Friction {
            kind: FrictionKind::Workaround,
            what: last.what.clone(),
            times: group.times(),
            example: None,
            met: group.met.clone(),
            remember: Some((ObservationType::NextStep, format!("Provisional: {}", last.what))),
            note: None,
        })
    });
    of_options.chain(of_answers).take(MOST).collect()
}

/// Returns the sentences of an answer that call something provisional. Code and quotations are ignored.
fn provisional(batch: &BatchMaterial) -> Vec<String> {
    let is_change = |step: &Step| matches!(step.action, Action::Edit { .. } | Action::Write { .. });
    // Without a change it is only a proposal.
    let Some(answer) = batch.response.as_ref().filter(|_| batch.steps.iter().any(is_change)) else {
        return Vec::new();
    };
    let mut is_code = false;
    let mut found = Vec::new();
    for line in answer.text.lines() {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        }
        if is_code || line.trim_start().starts_with('>') {
            continue;
        }
        for sentence in sentences(line) {
            let sentence = one_line(sentence);
            let lower = sentence.to_lowercase();
            if PHRASES.iter().any(|phrase| lower.contains(phrase)) && sentence.len() >= SHORTEST {
                found.push(shortened_line(sentence.trim_start_matches(['-', '*', '#', ' ']), CHARS));
            }
        }
    }
    found
}
