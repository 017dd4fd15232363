//! Reads the state of a session from its rows: the facts it needs to continue after its conversation was emptied.

use recall_agents::Agents;
use recall_domain::continuity::{Continuity, PlanNote, is_decision};
use recall_domain::digest::relative;
use recall_domain::material::Action;
use recall_domain::plan::PlanKind;
use recall_domain::task_list::open_tasks;
use recall_store::{Reader, SessionInfo, StoreError};

/// The number of latest calls that are searched for the files they touched.
const CALLS: u32 = 300;

pub fn continuity(db: Reader<'_>, agents: Agents, session: &SessionInfo) -> Result<Continuity, StoreError> {
    let mut state = Continuity { session: session.row.0, prompts: session.prompts, ..Continuity::default() };
    let (first, last) = db.first_and_last_prompt(session.row)?;
    state.asked = last.filter(|last| Some(last) != first.as_ref());
    state.goal = first.unwrap_or_default();
    for plan in db.plans_of_session(session.row)? {
        if plan.kind == PlanKind::Tasks {
            state.open_tasks = open_tasks(&plan.text).map(str::to_owned).collect();
        } else if state.plan.is_none() {
            state.plan = Some(PlanNote { title: plan.title, stage: plan.stage, text: plan.text });
        }
    }
    touched_files(db, agents, session, &mut state)?;
    let mut observations = db.observations_of_session(session.row)?;
    observations.retain(|row| is_decision(row.kind, row.importance));
    state.decided = observations.into_iter().rev().map(|row| row.title).collect();
    Ok(state)
}

fn touched_files(
    db: Reader<'_>,
    agents: Agents,
    session: &SessionInfo,
    state: &mut Continuity,
) -> Result<(), StoreError> {
    let spec = agents.spec(session.agent.as_str());
    for (tool, input) in db.latest_calls(session.row, CALLS)? {
        let (path, list) = match spec.action(&tool, &input, None) {
            Action::Edit { path, .. } | Action::Write { path, .. } => (path, &mut state.changed_files),
            Action::Read { path } => (path, &mut state.read_files),
            _ => continue,
        };
        let path = relative(&path, session.root.as_deref());
        // A file outside the project does not help an agent that continues there.
        if is_absolute(&path) && session.root.is_some() {
            continue;
        }
        if !list.contains(&path) {
            list.push(path);
        }
    }
    let changed = &state.changed_files;
    state.read_files.retain(|path| !changed.contains(path));
    Ok(())
}

/// Whether the path is absolute on any system, because the session may come from another machine.
fn is_absolute(path: &str) -> bool {
    let after_drive =
        path.strip_prefix(|c: char| c.is_ascii_alphabetic()).and_then(|rest| rest.strip_prefix(':'));
    path.starts_with('/') || after_drive.is_some_and(|rest| rest.starts_with(['/', '\\']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_from_a_root_or_from_a_drives_root_are_absolute() {
        for (path, expected) in
            [("/a", true), ("C:\\a", true), ("d:/a", true), ("a/b", false), ("c:a", false), ("", false)]
        {
            assert_eq!(is_absolute(path), expected, "{path}");
        }
    }
}
