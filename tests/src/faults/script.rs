//! The events of a made-up session, in order. Every event contains a mark that identifies it.

use serde_json::{Value, json};

use crate::Stage;

/// The highest number of tool calls in one turn.
const MOST_CALLS: usize = 6;
/// Facts for the answers. Each is used once, so that every turn has something to learn.
const LEARNED: [&str; 6] = [
    "The importer closes its file before it renames it, because the rename failed on network drives.",
    "Tokens are compared in constant time now, because the old comparison leaked their length.",
    "The cart rounds after summing, because rounding each line lost a cent.",
    "Login sessions expire at midnight UTC, because local time skipped an hour in spring.",
    "The mail queue retries with jitter, because all workers came back in the same second.",
    "Search ignores accents, because customers type cafe for the drink they want.",
];

/// One event of a session. Turns and calls count from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    Start,
    Prompt { turn: usize },
    Call { turn: usize, call: usize },
    Stop { turn: usize },
}

/// Whether the agent reports the turn of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TurnIds {
    /// Every event contains a `prompt_id`.
    Sent,
    /// Only the order of the events shows the turn.
    Absent,
}

/// The events of one session, in order.
#[derive(Clone, Debug)]
pub struct Script {
    pub session: String,
    pub turn_ids: TurnIds,
    pub steps: Vec<Step>,
}

impl Script {
    /// Returns a session of this many events.
    pub fn random(session: String, events: usize, turn_ids: TurnIds, random: &mut fastrand::Rng) -> Self {
        let mut steps = vec![Step::Start];
        for turn in 1.. {
            steps.push(Step::Prompt { turn });
            steps.extend((1..=random.usize(0..=MOST_CALLS)).map(|call| Step::Call { turn, call }));
            steps.push(Step::Stop { turn });
            if steps.len() >= events {
                break;
            }
        }
        steps.truncate(events);
        Self { session, turn_ids, steps }
    }

    /// Returns the step as Claude Code reports it.
    pub fn event(&self, stage: &Stage, step: Step) -> Value {
        let session = &self.session;
        let (name, turn, mut fields) = match step {
            Step::Start => ("SessionStart", 0, json!({"source": "startup"})),
            Step::Prompt { turn } => ("UserPromptSubmit", turn, json!({"prompt": self.mark(step)})),
            Step::Call { turn, .. } => {
                let input = json!({"command": format!("make {}", self.mark(step))});
                let output = json!({"stdout": "done", "stderr": ""});
                let call = json!({"tool_name": "Bash", "tool_input": input, "tool_response": output,
                    "tool_use_id": self.mark(step)});
                ("PostToolUse", turn, call)
            }
            Step::Stop { turn } => ("Stop", turn, json!({"last_assistant_message": self.mark(step)})),
        };
        if self.turn_ids == TurnIds::Sent && turn > 0 {
            fields["prompt_id"] = json!(format!("{session}-turn-{turn}"));
        }
        stage.event(session, name, fields)
    }

    /// Returns the mark that identifies a step: its prompt, the id of its call, or its response.
    pub fn mark(&self, step: Step) -> String {
        mark(&self.session, step)
    }
}

/// Like [`Script::mark`], without a script.
pub fn mark(session: &str, step: Step) -> String {
    match step {
        Step::Start => format!("{session} start"),
        Step::Prompt { turn } => format!("{session} prompt {turn}"),
        Step::Call { turn, call } => format!("{session}-call-{turn}-{call}"),
        Step::Stop { turn } => format!("{session} answer {turn}: {}", LEARNED[turn % LEARNED.len()]),
    }
}

/// Returns the step that a mark belongs to.
pub fn step(session: &str, mark: &str) -> Option<Step> {
    let rest = mark.strip_prefix(session)?;
    if let Some(numbers) = rest.strip_prefix("-call-") {
        let (turn, call) = numbers.split_once('-')?;
        return Some(Step::Call { turn: turn.parse().ok()?, call: call.parse().ok()? });
    }
    if let Some(turn) = rest.strip_prefix(" prompt ") {
        return Some(Step::Prompt { turn: turn.parse().ok()? });
    }
    let (turn, _) = rest.strip_prefix(" answer ")?.split_once(':')?;
    turn.parse().ok().map(|turn| Step::Stop { turn })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_identifies_its_step() {
        let script = Script::random("s-1".to_owned(), 200, TurnIds::Sent, &mut fastrand::Rng::with_seed(1));
        assert_eq!(script.steps.len(), 200);
        for of in &script.steps[1..] {
            assert_eq!(step("s-1", &script.mark(*of)), Some(*of));
        }
        assert_eq!(step("s-1", "s-2 prompt 1"), None);
    }

    #[test]
    fn a_seed_determines_the_script() {
        let script = |seed| {
            Script::random("s".to_owned(), 60, TurnIds::Absent, &mut fastrand::Rng::with_seed(seed)).steps
        };
        assert_eq!(script(7), script(7));
        assert_ne!(script(7), script(8));
    }
}
