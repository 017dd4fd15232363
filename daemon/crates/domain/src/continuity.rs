//! The state of a session, from which it can continue after its conversation was compacted. It is built from recall's
//! own rows, because the agent's own summary arrives too late or never.

use super::observation::{Importance, ObservationType};
use super::plan::PlanStage;
use super::text::shortened;

/// The state of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Continuity {
    /// The session's row.
    pub session: i64,
    pub prompts: u32,
    /// The first prompt.
    pub goal: String,
    /// The last prompt, if it is not the first.
    pub asked: Option<String>,
    pub plan: Option<PlanNote>,
    /// Open entries of the task list.
    pub open_tasks: Vec<String>,
    /// Relative to the project's folder, most recent first.
    pub changed_files: Vec<String>,
    pub read_files: Vec<String>,
    /// Decisions and similar observations of the session, most recent first.
    pub decided: Vec<String>,
}

/// An excerpt of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanNote {
    pub title: String,
    pub stage: PlanStage,
    pub text: String,
}

/// The maximum number of entries shown per list. The rest is available on request.
const MOST: usize = 12;
/// The maximum lengths of a prompt and of a plan, in characters.
const PROMPT_CHARS: usize = 400;
const PLAN_CHARS: usize = 1_500;

/// Whether an observation of this type tells the session itself why it did something.
pub fn is_decision(kind: ObservationType, importance: Importance) -> bool {
    match kind {
        ObservationType::Gotcha | ObservationType::TradeOff => true,
        kind if kind.is_settled_by_user() => true,
        _ => importance.get() >= 8,
    }
}

/// Who reads the state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reader {
    /// The session itself.
    Itself,
    /// The next session, which also receives the summary and the project's notes.
    Successor,
}

impl Continuity {
    /// The labelled lines for a reader, most important first.
    pub fn lines(&self, reader: Reader) -> Vec<(&'static str, String)> {
        let plan = self.plan.as_ref().map(|plan| {
            let text = shortened(&plan.text, PLAN_CHARS);
            format!("{} ({}): {text}", plan.title, plan.stage.as_str())
        });
        let lines = [
            ("Goal", Some(shortened(&self.goal, PROMPT_CHARS))),
            ("Asked last", self.asked.as_deref().map(|asked| shortened(asked, PROMPT_CHARS))),
            ("To do", joined(&self.open_tasks, "; ")),
            ("Plan", plan),
            ("Files changed", joined(&self.changed_files, ", ")),
            ("Decided", joined(&self.decided, "; ")),
            ("Files read", joined(&self.read_files, ", ")),
        ];
        let wanted = |label: &str| match reader {
            Reader::Itself => true,
            Reader::Successor => ["To do", "Plan", "Files changed"].contains(&label),
        };
        let filled = lines.into_iter().filter_map(|(label, text)| Some((label, text?)));
        filled.filter(|(label, text)| wanted(label) && !text.trim().is_empty()).collect()
    }
}

fn joined(list: &[String], between: &str) -> Option<String> {
    let shown = list.iter().take(MOST).map(String::as_str).collect::<Vec<_>>().join(between);
    match list.len().saturating_sub(MOST) {
        _ if list.is_empty() => None,
        0 => Some(shown),
        more => Some(format!("{shown}{between}and {more} more")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_state_puts_the_goal_first_and_truncates_long_lists() {
        let state = Continuity {
            goal: "Add a discount".into(),
            changed_files: (0..14).map(|n| format!("f{n}")).collect(),
            open_tasks: vec!["Test it".into()],
            plan: Some(PlanNote {
                title: "Coins".into(),
                stage: PlanStage::Approved,
                text: "x".repeat(2000),
            }),
            ..Continuity::default()
        };
        let lines = state.lines(Reader::Itself);
        let labels: Vec<_> = lines.iter().map(|(label, _)| *label).collect();
        assert_eq!(labels, ["Goal", "To do", "Plan", "Files changed"]);
        assert!(lines[2].1.len() < 1_600 && lines[2].1.ends_with('…'));
        assert!(lines[3].1.ends_with("f11, and 2 more"));
        assert_eq!(state.lines(Reader::Successor).len(), 3);
        assert_eq!(Continuity::default().lines(Reader::Itself), []);
    }
}
