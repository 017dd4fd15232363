//! Calls that are denied again and again.

use super::{Friction, FrictionKind, Groups};
use crate::command_form::CommandForm;
use crate::material::{Action, CallOutcome, Step};
use crate::observation::ObservationType;
use crate::past_work::{PastSession, command_of};
use crate::text::{one_line, shortened_line};

/// A call that was denied so often is not asked for by chance.
const LEAST_TIMES: u32 = 2;
const MOST: usize = 10;
const CHARS: usize = 160;

struct Denied {
    call: String,
    said: Option<String>,
}

pub(super) fn denials(sessions: &[PastSession]) -> Vec<Friction> {
    let mut groups = Groups::new();
    for session in sessions {
        for step in session.steps() {
            if let CallOutcome::Rejected { said } = &step.outcome {
                let said =
                    said.as_deref().map(|said| shortened_line(said, CHARS)).filter(|said| !said.is_empty());
                let denied = Denied { call: call(step), said };
                groups.add(key(step), &session.id, step.at, denied);
            }
        }
    }
    let groups = groups.of_sessions(1).into_iter().filter(|group| group.times() >= LEAST_TIMES);
    let told = groups.filter_map(|group| {
        let last = group.occurrences.first()?;
        let said = group.occurrences.iter().find_map(|one| one.what.said.clone());
        let text = match &said {
            Some(said) => format!("Do not ask for `{}`: {said}", last.what.call),
            None => format!("Do not ask for `{}`; it is always denied.", last.what.call),
        };
        Some(Friction {
            kind: FrictionKind::Denial,
            what: last.what.call.clone(),
            times: group.times(),
            example: said.map(|said| format!("the user said: {said}")),
            met: group.met.clone(),
            remember: Some((ObservationType::Preference, text)),
            note: None,
        })
    });
    told.take(MOST).collect()
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

/// Commands by what they run, other calls by the tool and the file.
fn key(step: &Step) -> String {
    match command_of(step).map(CommandForm::all) {
        Some(forms) if !forms.is_empty() => {
            forms.iter().map(CommandForm::text).collect::<Vec<_>>().join(" && ")
        }
        _ => call(step),
    }
}
