use super::*;
use crate::ids::ObservationId;
use crate::lineage::{Audience, Author, Claim, Settlement};
use crate::material::{Action, CallOutcome, EditHunk, Step};

/// The history of one check. Each word is a batch: `session:steps` or `session:steps@opened-closed`. A step is `f`
/// (the check fails), `p` (it passes) or a capital letter (that file changes). Batch n lasts from 10n to 10n + 5 if
/// the word does not give its times.
struct History {
    batches: Vec<(BatchSpan, BatchMaterial)>,
}

impl History {
    fn of(script: &str) -> Self {
        let mut batches: Vec<(BatchSpan, BatchMaterial)> = Vec::new();
        for (number, word) in (1_i64..).zip(script.split_whitespace()) {
            let (session, rest) = word.split_once(':').unwrap();
            let (steps, times) = rest.split_once('@').unwrap_or((rest, ""));
            let (opened, closed) = match times.split_once('-') {
                Some((opened, closed)) => (opened.parse().unwrap(), closed.parse().unwrap()),
                None => (number * 10, number * 10 + 5),
            };
            let session = SessionRow(session.parse().unwrap());
            let place = batches.iter().filter(|(span, _)| span.session == session).count() as u32 + 1;
            let batch = BatchId(number);
            let (opened, closed) = (Timestamp(opened), Some(Timestamp(closed)));
            let steps = (0..).zip(steps.chars()).map(|(at, kind)| step(number as u8, at, kind)).collect();
            let material =
                BatchMaterial { steps, root: Some("/shop".to_owned()), ..BatchMaterial::default() };
            batches.push((BatchSpan { batch, session, place, opened, closed }, material));
        }
        Self { batches }
    }

    /// Returns the batch whose pass resolves the failure that the first batch observed. Also returns its evidence, as
    /// `batch.step`.
    fn settled(&self, files: &str) -> Option<(i64, String)> {
        let (first, _) = self.batches.first().unwrap();
        let claim = Claim {
            id: ObservationId(1),
            name: "1".to_owned(),
            author: Author::Compressor,
            person: String::new(),
            audience: Audience::Sessions,
            session: Some(first.session),
            batch: Some(first.batch),
            at: first.end(),
            files: files.chars().map(String::from).collect(),
        };
        let (mut failings, mut changes) = (Vec::new(), Vec::new());
        for (by, material) in &self.batches {
            let Traces { failing, changed } = traces(material);
            failings.extend(failing.into_iter().map(|left| FailingCheck { by: *by, step: left.step }));
            changes.extend(changed.into_iter().map(|changed| {
                let event = batch_and_step(changed.event);
                FileChange { by: *by, step: changed.step, file: changed.path, event }
            }));
        }
        let trail = Trail { failings: &failings, changes: &changes };
        self.batches.iter().find_map(|(by, material)| {
            let settled = crate::lineage::settled(material).pop()?;
            let evidence = settled.evidence.into_iter().map(batch_and_step).collect();
            let settlement = Settlement { by: *by, files: settled.files, evidence };
            Some((by.batch.0, settlement.settles(&claim, &trail)?.join(" ")))
        })
    }
}

fn batch_and_step(event: EventId) -> String {
    format!("{}.{}", event.0[0], event.0[1])
}

fn step(batch: u8, at: u8, kind: char) -> Step {
    let command = "cargo test".to_owned();
    let ran = Action::Command { command, description: None, output: String::new() };
    let (outcome, action) = match kind {
        'f' => (CallOutcome::Failed { error: "Exit code 101".to_owned() }, ran),
        'p' => (CallOutcome::Done, ran),
        file => {
            let changes = vec![EditHunk { before: String::new(), after: "x".to_owned() }];
            (CallOutcome::Done, Action::Edit { path: format!("/shop/{file}"), changes })
        }
    };
    let mut event = [0; 16];
    (event[0], event[1]) = (batch, at);
    Step { event: EventId(event), at: Timestamp(0), tool: "tool".to_owned(), outcome, subagent: None, action }
}

/// Checks which batch resolves the failure. `files` are the files of the observation.
#[track_caller]
fn check(history: &str, files: &str, expected: Option<(i64, &str)>) {
    let settled = History::of(history).settled(files);
    assert_eq!(settled.as_ref().map(|(batch, shown)| (*batch, shown.as_str())), expected, "{history}");
}

#[test]
fn a_failure_is_matched_to_its_later_pass_across_batches() {
    check("1:f 1:A 1:p", "", Some((3, "2.0 3.0")));
    // The pass may be in a later session, with other work in between.
    check("1:f 2:A 2:B 3:p", "", Some((4, "2.0 3.0 4.0")));
    check("1:f 1:A 1:Ap", "", Some((3, "2.0 3.0 3.1")));
    // The change came after the run, in the batch that failed.
    check("1:fA 1:p", "", Some((2, "1.1 2.0")));
    check("1:f 1:ABCDEF 1:p", "", Some((3, "2.2 2.3 2.4 2.5 3.0")));
}

#[test]
fn a_pass_without_a_change_resolves_nothing() {
    check("1:f 1:p", "", None);
    check("1:Af 1:p", "", None);
    check("1:f 1:pA", "", None);
    check("1:f 1:A 1:fp", "", None);
    check("1:f 1:A 1:f 1:p", "", None);
    check("1:f 1:Af 1:p", "", None);
    check("1:f 1:Afp 1:p", "", None);
    // A later change explains the pass after it.
    check("1:f 1:A 1:f 1:p 1:A 1:p", "", Some((6, "2.0 5.0 6.0")));
}

#[test]
fn only_changes_of_the_observed_files_count() {
    check("1:f 1:A 1:p", "A", Some((3, "2.0 3.0")));
    check("1:f 1:A 1:p", "B", None);
    check("1:f 1:AB 1:p", "B", Some((3, "2.1 3.0")));
    // The observed file was changed first, and another change then led to the pass.
    check("1:f 1:Af 1:B 1:p", "A", Some((4, "2.0 4.0")));
    check("1:f 1:Af 1:Bp", "A", Some((3, "2.0 3.0 3.1")));
}

#[test]
fn overlapping_batches_count_only_within_one_session() {
    check("1:f@10-20 2:A@30-40 1:p@40-50", "", Some((3, "2.0 3.0")));
    check("1:f@10-20 2:A@30-45 1:p@40-50", "", None);
    check("1:f@10-20 2:A@15-30 1:p@40-50", "", None);
    // Batches of one session are ordered by index, not by the clock times of their ends.
    check("1:f@10-50 1:A@30-60 1:p@40-70", "", Some((3, "2.0 3.0")));
}
