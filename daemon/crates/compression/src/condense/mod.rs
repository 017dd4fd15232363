//! Reduces a batch's material to a model's budget, deterministically.
//!
//! Repeated texts are included once, edits become differences, long texts are reduced to head and tail, and errors
//! stay complete as long as possible. Nothing disappears silently: a mark shows how much is missing. The first
//! [`Measures`] that fit are used, from generous to strict. If even the strictest do not fit, steps in the middle are
//! dropped, because a turn's goal is at its beginning and its outcome at its end.

mod excerpt;
mod notes;
mod step;

use super::Cuts;
use excerpt::Excerpts;
pub use notes::notes;
use recall_domain::material::{BatchMaterial, BatchSource, SessionMaterial};
use recall_domain::tokens;
use step::StepWriter;

/// Condensed material, as the model reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condensed {
    pub text: String,
    pub cuts: Cuts,
}

/// The maximum bytes of one text, by sort of text.
#[derive(Clone, Copy, Debug)]
struct Measures {
    message: usize,
    answer: usize,
    before: usize,
    error: usize,
    output: usize,
    edit: usize,
}

const MEASURES: [Measures; 5] = [
    Measures { message: 12_000, answer: 16_000, before: 2_000, error: 24_000, output: 6_000, edit: 6_000 },
    Measures { message: 8_000, answer: 12_000, before: 1_200, error: 12_000, output: 2_400, edit: 3_000 },
    Measures { message: 6_000, answer: 8_000, before: 800, error: 6_000, output: 1_000, edit: 1_400 },
    Measures { message: 4_000, answer: 6_000, before: 400, error: 3_000, output: 400, edit: 600 },
    Measures { message: 2_000, answer: 3_000, before: 200, error: 1_500, output: 160, edit: 240 },
];

/// Condenses a batch to about `budget` tokens.
pub fn batch(material: &BatchMaterial, budget: u32) -> Condensed {
    fitted(
        budget,
        |measures| whole_batch(material, measures),
        |measures, budget| shortest(material, measures, budget),
    )
}

/// Condenses a session to about `budget` tokens: requests, answers, and what was touched in between.
pub fn session(material: &SessionMaterial, budget: u32) -> Condensed {
    let whole = |measures: &Measures| turns(&material.batches, measures);
    fitted(budget, whole, |measures, budget| {
        // The middle of a very long session is dropped, for the same reason as steps.
        let mut kept = material.batches.len();
        loop {
            kept = kept * 3 / 4;
            let (first, last) = (kept.div_ceil(2), kept / 2);
            let (head, rest) = material.batches.split_at(first.min(material.batches.len()));
            let left_out = rest.len().saturating_sub(last);
            let mut condensed = turns(head, measures);
            condensed.text.push_str(&format!("\n[… {left_out} turns left out …]\n\n"));
            let end = turns(rest.get(left_out..).unwrap_or_default(), measures);
            condensed.text.push_str(&end.text);
            condensed.cuts = condensed.cuts.and(end.cuts);
            condensed.cuts.left_out = u32::try_from(left_out).unwrap_or(u32::MAX);
            if kept < 2 || tokens::estimate(&condensed.text) <= budget {
                return condensed;
            }
        }
    })
}

/// Uses the first measures that fit, or the shortest form if none does.
fn fitted(
    budget: u32,
    whole: impl Fn(&Measures) -> Condensed,
    shortest: impl FnOnce(&Measures, u32) -> Condensed,
) -> Condensed {
    let mut strictest = &MEASURES[0];
    for measures in &MEASURES {
        let condensed = whole(measures);
        if tokens::estimate(&condensed.text) <= budget {
            return sealed(condensed);
        }
        strictest = measures;
    }
    sealed(shortest(strictest, budget))
}

/// Makes sure that no text can close the block that contains it.
fn sealed(mut condensed: Condensed) -> Condensed {
    if condensed.text.contains("</material") {
        condensed.text = condensed.text.replace("</material", "<\\/material");
    }
    condensed.cuts.sent = condensed.text.len() as u64;
    condensed
}

fn whole_batch(material: &BatchMaterial, measures: &Measures) -> Condensed {
    let mut excerpts = Excerpts::default();
    let steps = steps(material, measures, &mut excerpts);
    framed(material, measures, &steps, excerpts)
}

fn steps(material: &BatchMaterial, measures: &Measures, excerpts: &mut Excerpts) -> Vec<String> {
    let mut writer = StepWriter::new(material.folder(), measures);
    material.steps.iter().enumerate().map(|(at, step)| writer.describe(at + 1, step, excerpts)).collect()
}

/// Applies the strictest measures, and keeps as many steps from both ends as fit.
fn shortest(material: &BatchMaterial, measures: &Measures, budget: u32) -> Condensed {
    let mut excerpts = Excerpts::default();
    let steps = steps(material, measures, &mut excerpts);
    let frame = tokens::estimate(&framed(material, measures, &[], Excerpts::default()).text);
    let mut left = budget.saturating_sub(frame).saturating_sub(16);
    let (mut first, mut last) = (0, 0);
    while first + last < steps.len() {
        let from_front = first <= last;
        let next = if from_front { steps.get(first) } else { steps.get(steps.len() - 1 - last) };
        let cost = next.map_or(0, |step| tokens::estimate(step));
        if cost > left {
            break;
        }
        left -= cost;
        if from_front { first += 1 } else { last += 1 }
    }
    let left_out = steps.len() - first - last;
    let mut kept: Vec<String> = steps.iter().take(first).cloned().collect();
    if left_out > 0 {
        kept.push(format!("[… {left_out} steps left out …]\n"));
    }
    kept.extend(steps.into_iter().skip(first + left_out));
    excerpts.cuts.left_out = u32::try_from(left_out).unwrap_or(u32::MAX);
    framed(material, measures, &kept, excerpts)
}

/// The handle of an earlier note, from its position in [`BatchMaterial::earlier`].
pub fn handle(at: usize) -> String {
    format!("k{}", at + 1)
}

/// Places the steps between the request and the answer.
fn framed(
    material: &BatchMaterial,
    measures: &Measures,
    steps: &[String],
    mut excerpts: Excerpts,
) -> Condensed {
    let mut text = String::new();
    if let Some(before) = &material.previous_response {
        let before = excerpts.of(before, measures.before);
        text.push_str(&format!("## The agent's answer before this turn\n{before}\n\n"));
    }
    if let Some(prompt) = &material.prompt {
        let who = context_request(material.source);
        text.push_str(&format!("## {who}\n{}\n\n", excerpts.of(&prompt.text, measures.message)));
    }
    if !material.earlier.is_empty() {
        text.push_str("## Noted before about these files\n");
        for (at, earlier) in material.earlier.iter().enumerate() {
            text.push_str(&format!("[{}] {}\n", handle(at), earlier.title));
        }
        text.push('\n');
    }
    if !steps.is_empty() {
        text.push_str("## What the agent did\n");
        steps.iter().for_each(|step| text.push_str(step));
        text.push('\n');
    }
    match &material.response {
        Some(response) => {
            let answer = excerpts.of(&response.text, measures.answer);
            text.push_str(&format!("## The agent's final answer\n{answer}\n"));
        }
        None => text.push_str("## The turn was broken off: there is no final answer\n"),
    }
    Condensed { text, cuts: excerpts.cuts }
}

fn context_request(source: BatchSource) -> &'static str {
    match source {
        BatchSource::User | BatchSource::Plan | BatchSource::Queued => "The user's request",
        BatchSource::AgentNotification
        | BatchSource::AgentMessage
        | BatchSource::System
        | BatchSource::Recovery
        | BatchSource::Private => "What set the agent off (no user wrote this)",
    }
}

/// The turns of a session, without file contents and output.
fn turns(batches: &[BatchMaterial], measures: &Measures) -> Condensed {
    let mut excerpts = Excerpts::default();
    let mut text = String::new();
    for batch in batches {
        text.push_str(&format!("# Turn {}\n", batch.prompt_number));
        if let Some(prompt) = &batch.prompt {
            let asked = excerpts.of(&prompt.text, measures.message / 4);
            text.push_str(&format!("{}: {asked}\n", context_request(batch.source)));
        }
        text.push_str(&step::deeds(batch));
        if let Some(response) = &batch.response {
            let answer = excerpts.of(&response.text, measures.answer / 4);
            text.push_str(&format!("The agent's answer: {answer}\n"));
        }
        text.push('\n');
    }
    Condensed { text, cuts: excerpts.cuts }
}

#[cfg(test)]
mod tests;
