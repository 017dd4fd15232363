//! Calls that were denied repeatedly.

use super::{Friction, FrictionKind, Groups};
use crate::command_form::CommandForm;
use crate::guard::{Rule, refusal_in};
use crate::material::{Action, CallOutcome, Step};
use crate::observation::ObservationType;
use crate::past_work::{PastSession, command_of};
use crate::text::{one_line, shortened_line};

/// The minimum number of denials of a call; fewer may be chance.
const LEAST_TIMES: u32 = 2;
const MOST: usize = 10;
const CHARS: usize = 160;

struct Denied {
    call: String,
    by: By,
}

#[derive(PartialEq, Eq)]
enum By {
    /// The user, with these words.
    User(Option<String>),
    Guard(Rule),
}

pub(super) fn denials(sessions: &[PastSession]) -> Vec<Friction> {
    let mut groups = Groups::new();
    for session in sessions {
        for step in session.steps() {
            if let Some(by) = denied_by(&step.outcome) {
                groups.add(key(step), &session.id, step.at, Denied { call: call(step), by });
            }
        }
    }
    let groups = groups.of_sessions(1).into_iter().filter(|group| group.times() >= LEAST_TIMES);
    let frictions = groups.filter_map(|group| {
        let last = group.occurrences.first()?;
        // The user's words say more than the name of a rule.
        let reason = group.occurrences.iter().find_map(|one| match &one.what.by {
            By::User(reason) => reason.clone(),
            By::Guard(_) => None,
        });
        let guard = group.occurrences.iter().find_map(|one| match one.what.by {
            By::Guard(rule) => Some(rule.name()),
            By::User(_) => None,
        });
        let call = &last.what.call;
        let (text, example) = match (reason, guard) {
            (Some(reason), _) => {
                (format!("Do not ask for `{call}`: {reason}"), Some(format!("the user said: {reason}")))
            }
            (None, Some(guard)) => (
                format!("Do not try `{call}`; the guard `{guard}` refuses it."),
                Some(format!("recall guard `{guard}` refused it")),
            ),
            (None, None) => (format!("Do not ask for `{call}`; it is always denied."), None),
        };
        Some(Friction {
            kind: FrictionKind::Denial,
            what: last.what.call.clone(),
            times: group.times(),
            example,
            met: group.met.clone(),
            remember: Some((ObservationType::Preference, text)),
            note: None,
        })
    });
    frictions.take(MOST).collect()
}

/// Who denied the call. `None` if it ran.
fn denied_by(outcome: &CallOutcome) -> Option<By> {
    match outcome {
        CallOutcome::Rejected { reason } => {
            let reason = reason.as_deref().map(|reason| shortened_line(reason, CHARS));
            Some(By::User(reason.filter(|reason| !reason.is_empty())))
        }
        CallOutcome::Failed { error } => refusal_in(error).map(By::Guard),
        _ => None,
    }
}

fn call(step: &Step) -> String {
    let call = match (&step.action, command_of(step)) {
        (_, Some(command)) => one_line(command),
        (Action::Read { path } | Action::Edit { path, .. } | Action::Write { path, .. }, _) => {
            format!("{} {path}", step.tool)
        }
        _ => step.tool.clone(),
    };
    shortened_line(&call, CHARS)
}

/// Groups commands by their form, and other calls by tool and file.
fn key(step: &Step) -> String {
    match command_of(step).map(CommandForm::all) {
        Some(forms) if !forms.is_empty() => {
            forms.iter().map(CommandForm::text).collect::<Vec<_>>().join(" && ")
        }
        _ => call(step),
    }
}
