//! Records which events were accepted, and checks at the end that each of them exists once and in its place.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use recall_protocol::client::Connection;
use recall_protocol::frame::Deadline;
use recall_protocol::query::Session;
use recall_protocol::wire::{Reply, Request};
use serde_json::Value;

use super::script::{self, Step};
use crate::Stage;

/// How long one answer may take. The daemon may have much to report, and the machine may be busy.
const PATIENCE: Duration = Duration::from_secs(60);

/// The beginning of the names of sessions that the oracle ignores.
pub const DECOY: &str = "decoy";

/// Events accepted so far.
#[derive(Debug, Default)]
pub struct Oracle {
    accepted: Mutex<BTreeMap<String, Vec<Step>>>,
}

/// The state of the accepted events.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OracleVerdict {
    /// Events that were accepted.
    pub accepted: usize,
    /// Events that the database contains.
    pub stored: usize,
    pub lost: Vec<String>,
    pub twice: Vec<String>,
    /// Prompts and calls that come before an earlier one, and everything that is in a wrong turn.
    pub misplaced: Vec<String>,
    /// SQLite's verdict on the database after the daemon ended. It is "ok" if there are no errors.
    pub integrity: String,
}

impl OracleVerdict {
    /// Returns whether every promise was kept.
    pub fn is_clean(&self) -> bool {
        self.lost.is_empty()
            && self.twice.is_empty()
            && self.misplaced.is_empty()
            && self.stored == self.accepted
            && self.integrity == "ok"
    }
}

impl fmt::Display for OracleVerdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { accepted, stored, lost, twice, misplaced, integrity } = self;
        write!(
            f,
            "{accepted} accepted, {stored} stored, {} lost, {} twice, {} misplaced, integrity {integrity}",
            lost.len(),
            twice.len(),
            misplaced.len()
        )?;
        for (what, marks) in [("lost", lost), ("twice", twice), ("misplaced", misplaced)] {
            for mark in marks.iter().take(10) {
                write!(f, "\n  {what}: {mark}")?;
            }
        }
        Ok(())
    }
}

impl Oracle {
    /// Records that the session's step was accepted.
    pub fn accept(&self, session: &str, step: Step) {
        let mut accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        accepted.entry(session.to_owned()).or_default().push(step);
    }

    /// Checks everything. It starts a daemon, waits until it is idle, and kills it at the end.
    pub fn verdict(&self, stage: &mut Stage) -> OracleVerdict {
        stage.start_daemon();
        stage.flush();
        let mut verdict = self.ask(stage);
        stage.kill_daemon();
        let database = rusqlite::Connection::open(stage.database()).unwrap();
        // Imported or forgotten events do not count as accepted.
        let counting = "SELECT count(*) FROM deliveries JOIN sessions ON deliveries.session = sessions.id
             WHERE session_id NOT LIKE ?1 || '%'";
        let stored: u32 = database.query_row(counting, [DECOY], |row| row.get(0)).unwrap();
        verdict.stored = stored as usize;
        verdict.integrity = integrity(&database);
        verdict
    }

    /// Compares the accepted events with what the daemon on the stage shows.
    fn ask(&self, stage: &Stage) -> OracleVerdict {
        let accepted = self.accepted.lock().unwrap_or_else(PoisonError::into_inner);
        let mut verdict = OracleVerdict::default();
        for (session, steps) in accepted.iter() {
            let query = Request::Query(Session { id: session.clone() }.into());
            let deadline = Deadline::after(PATIENCE);
            let mut connection = Connection::open_socket(&stage.socket(), deadline).unwrap();
            match connection.ask(&query, deadline) {
                Ok(Reply::Json(bytes)) => {
                    judge(session, steps, &serde_json::from_slice(&bytes).unwrap(), &mut verdict);
                }
                _ => verdict.lost.extend(steps.iter().map(|step| script::mark(session, *step))),
            }
            verdict.accepted += steps.len();
        }
        verdict
    }
}

/// Returns "ok", or what is wrong with the database.
pub fn integrity(database: &rusqlite::Connection) -> String {
    let verdict: String = database.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    let orphans: u32 =
        database.query_row("SELECT count(*) FROM pragma_foreign_key_check", [], |row| row.get(0)).unwrap();
    if orphans > 0 { format!("{verdict}, {orphans} rows refer to nothing") } else { verdict }
}

/// Compares the accepted events of a session with the output of `recall ctl session`.
fn judge(session: &str, accepted: &[Step], shown: &Value, verdict: &mut OracleVerdict) {
    let (mut prompts, mut calls, mut found) = (Vec::new(), Vec::new(), BTreeMap::<Step, usize>::new());
    let (mut misplaced, mut aside) = (Vec::new(), BTreeSet::new());
    for batch in shown["batches"].as_array().into_iter().flatten() {
        let of_batch = step_of(session, &batch["prompt"]);
        let turn_of_batch = of_batch.and_then(turn);
        prompts.extend(of_batch);
        let response = step_of(session, &batch["response"]);
        let activities = batch["activities"].as_array().into_iter().flatten();
        let of_activities: Vec<_> =
            activities.filter_map(|activity| step_of(session, &activity["tool_use_id"])).collect();
        for step in response.iter().chain(&of_activities) {
            if turn(*step) != turn_of_batch {
                misplaced.push(format!("{} in turn {turn_of_batch:?}", script::mark(session, *step)));
            }
        }
        for step in of_batch.into_iter().chain(response).chain(of_activities.iter().copied()) {
            *found.entry(step).or_default() += 1;
        }
        calls.extend(of_activities);
        // If the turn of an answer was unknown when it arrived, the answer is stored beside the batch's own answer.
        let kept = batch["activities"].as_array().into_iter().flatten();
        aside.extend(kept.filter_map(|activity| step_of(session, &activity["input"])));
    }
    for order in [&prompts, &calls] {
        let inverted = order.windows(2).filter(|pair| pair[0] > pair[1]);
        misplaced.extend(inverted.map(|pair| format!("{} too late", script::mark(session, pair[1]))));
    }
    verdict.misplaced.extend(misplaced);
    let twice = found.iter().filter(|(_, times)| **times > 1);
    verdict.twice.extend(twice.map(|(step, _)| script::mark(session, *step)));
    // A start has no mark. The count of the stored events covers it.
    let is_lost = |step: &&Step| **step != Step::Start && !found.contains_key(step) && !aside.contains(step);
    let lost = accepted.iter().filter(is_lost);
    verdict.lost.extend(lost.map(|step| script::mark(session, *step)));
}

fn step_of(session: &str, mark: &Value) -> Option<Step> {
    script::step(session, mark.as_str()?)
}

fn turn(step: Step) -> Option<usize> {
    match step {
        Step::Start => None,
        Step::Prompt { turn } | Step::Call { turn, .. } | Step::Stop { turn } => Some(turn),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const ACCEPTED: [Step; 6] = [
        Step::Start,
        Step::Prompt { turn: 1 },
        Step::Call { turn: 1, call: 1 },
        Step::Call { turn: 1, call: 2 },
        Step::Stop { turn: 1 },
        Step::Prompt { turn: 2 },
    ];

    /// Checks the oracle's findings for a session with these batches.
    #[track_caller]
    fn check(batches: Value, lost: usize, twice: usize, misplaced: usize) {
        let mut verdict = OracleVerdict::default();
        judge("s", &ACCEPTED, &json!({"batches": batches}), &mut verdict);
        let found = (verdict.lost.len(), verdict.twice.len(), verdict.misplaced.len());
        assert_eq!(found, (lost, twice, misplaced), "{verdict}");
    }

    fn batch(prompt: usize, calls: &[&str], answer: Option<usize>) -> Value {
        let activities: Vec<_> = calls.iter().map(|id| json!({"tool_use_id": id})).collect();
        json!({"prompt": format!("s prompt {prompt}"), "activities": activities,
            "response": answer.map(|turn| script::mark("s", Step::Stop { turn }))})
    }

    #[test]
    fn lost_doubled_and_misplaced_events_are_found() {
        let (one, two) = ("s-call-1-1", "s-call-1-2");
        check(json!([batch(1, &[one, two], Some(1)), batch(2, &[], None)]), 0, 0, 0);
        check(json!([batch(1, &[one], Some(1)), batch(2, &[], None)]), 1, 0, 0);
        check(json!([batch(1, &[one, two], None), batch(2, &[], None)]), 1, 0, 0);
        check(json!([]), 5, 0, 0);
        let mut kept_aside = batch(1, &[one, two], None);
        kept_aside["activities"]
            .as_array_mut()
            .unwrap()
            .push(json!({"input": script::mark("s", Step::Stop { turn: 1 })}));
        check(json!([kept_aside, batch(2, &[], None)]), 0, 0, 0);
        check(json!([batch(1, &[one, two, two], Some(1)), batch(2, &[], None)]), 0, 1, 0);
        check(json!([batch(1, &[one, two], Some(1)), batch(2, &[], None), batch(2, &[], None)]), 0, 1, 0);
        check(json!([batch(1, &[two, one], Some(1)), batch(2, &[], None)]), 0, 0, 1);
        check(json!([batch(2, &[], None), batch(1, &[one, two], Some(1))]), 0, 0, 1);
        check(json!([batch(1, &[one], Some(1)), batch(2, &[two], None)]), 0, 0, 1);
    }

    #[test]
    fn a_verdict_with_a_wrong_count_or_bad_integrity_is_not_clean() {
        let clean =
            OracleVerdict { accepted: 6, stored: 6, integrity: "ok".to_owned(), ..OracleVerdict::default() };
        assert!(clean.is_clean());
        assert!(!OracleVerdict { stored: 5, ..clean.clone() }.is_clean());
        assert!(!OracleVerdict { integrity: "row 1 missing".to_owned(), ..clean }.is_clean());
    }
}
