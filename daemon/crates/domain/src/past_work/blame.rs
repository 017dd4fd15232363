//! Finds the sessions that changed a file, and what they were asked to do.

use super::PastSession;
use crate::ids::{SessionId, Timestamp};
use crate::material::{Action, BatchMaterial, Step};

/// The changes of one turn to a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Touch {
    pub session: SessionId,
    pub prompt_number: u32,
    /// The time of the last change.
    pub at: Timestamp,
    pub changes: u32,
    pub asked: Option<String>,
    pub answered: Option<String>,
}

/// The question about a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked<'a> {
    /// Relative to the project.
    pub file: &'a str,
    /// Only changes that wrote this line, exactly as it is in the file.
    pub line: Option<&'a str>,
}

/// Returns the turns that changed the file, latest first.
pub fn blame(asked: Asked<'_>, sessions: &[PastSession]) -> Vec<Touch> {
    let mut found: Vec<Touch> = Vec::new();
    for session in sessions {
        for batch in &session.material.batches {
            let wrote: Vec<&Step> = batch.steps.iter().filter(|step| wrote(step, batch, asked)).collect();
            let Some(last) = wrote.iter().map(|step| step.at).max() else { continue };
            found.push(Touch {
                session: session.id.clone(),
                prompt_number: batch.prompt_number,
                at: last,
                changes: u32::try_from(wrote.len()).unwrap_or(u32::MAX),
                asked: batch.prompt.as_ref().map(|prompt| prompt.text.clone()),
                answered: batch.response.as_ref().map(|answer| answer.text.clone()),
            });
        }
    }
    found.sort_by_key(|touch| std::cmp::Reverse(touch.at));
    found
}

fn wrote(step: &Step, batch: &BatchMaterial, asked: Asked<'_>) -> bool {
    let (Action::Edit { path, .. } | Action::Write { path, .. }) = &step.action else { return false };
    if step.outcome.is_failed() || batch.folder().beneath(path).as_deref() != Some(asked.file) {
        return false;
    }
    asked.line.is_none_or(|line| adds(&step.action, line.trim()))
}

/// Whether the line is in the written text but not in the replaced one.
fn adds(action: &Action, line: &str) -> bool {
    let has = |text: &str| text.lines().any(|other| other.trim() == line);
    match action {
        Action::Edit { changes, .. } => {
            changes.iter().any(|change| has(&change.after) && !has(&change.before))
        }
        Action::Write { content, .. } => has(content),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{changed, edited, failed, session};
    use super::*;

    #[test]
    fn turns_that_changed_a_file_are_listed_with_their_prompt() {
        let sessions = [
            session("old", [changed("src/cart.rs", "round(price)", "price")]),
            session("new", [changed("src/cart.rs", "price", "price * 2"), edited("src/cart.rs")]),
            session("other", [edited("src/tax.rs"), failed("make", "no")]),
        ];
        let asked = Asked { file: "src/cart.rs", line: None };
        let touches: Vec<_> = blame(asked, &sessions)
            .into_iter()
            .map(|touch| (touch.session.0, touch.changes, touch.asked))
            .collect();
        let prompt = Some("Do it".to_owned());
        assert_eq!(touches, [("new".to_owned(), 2, prompt.clone()), ("old".to_owned(), 1, prompt)]);
    }

    #[test]
    fn a_line_is_attributed_to_the_turn_that_wrote_it() {
        let sessions = [
            session("first", [changed("a.rs", "", "let total = 0;\nlet tax = 1;")]),
            session("moved", [changed("a.rs", "let total = 0;", "    let total = 0;\n    log();")]),
            session("second", [changed("a.rs", "let tax = 1;", "let tax = 2;")]),
        ];
        let of = |line| {
            let touches = blame(Asked { file: "a.rs", line: Some(line) }, &sessions);
            touches.into_iter().map(|touch| touch.session.0).collect::<Vec<_>>()
        };
        assert_eq!(of("let tax = 2;"), ["second"]);
        // It was only indented later.
        assert_eq!(of("    let total = 0;"), ["first"]);
        assert_eq!(of("nothing"), [""; 0]);
    }
}
