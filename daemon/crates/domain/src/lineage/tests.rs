use super::*;
use crate::ids::EventId;
use crate::material::{Action, CallOutcome, EditHunk, Step};
use crate::observation::{Importance, ObservationType};

fn claim(id: i64) -> Claim {
    Claim {
        id: ObservationId(id),
        name: format!("{id:03}"),
        author: Author::Compressor,
        person: String::new(),
        audience: Audience::Sessions,
        session: Some(SessionRow(1)),
        batch: Some(BatchId(id)),
        at: Timestamp(id * 10),
        files: Vec::new(),
    }
}

fn files(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// Expects `older→newer` for each superseded claim, and no other.
#[track_caller]
fn check(claims: &[Claim], undone: &[(i64, i64)], expected: &[&str]) {
    let actual: Vec<String> = claims
        .iter()
        .filter_map(|older| {
            let is_undone = |newer: ObservationId| undone.contains(&(older.id.0, newer.0));
            let newer = successor(older, claims, is_undone)?;
            Some(format!("{}→{}", older.id, newer.id))
        })
        .collect();
    assert_eq!(actual, expected);
}

#[test]
fn each_claim_is_superseded_by_the_next() {
    check(&[claim(1), claim(2), claim(3)], &[], &["1→2", "2→3"]);
    // This holds for any order of arrival, and with any of the claims deleted.
    check(&[claim(3), claim(1)], &[], &["1→3"]);
    check(&[claim(1)], &[], &[]);
    check(&[claim(1), claim(2), claim(3)], &[(1, 2)], &["1→3", "2→3"]);
}

#[test]
fn a_users_claim_outranks_a_compressors_and_files_must_overlap() {
    let by_hand = |id| Claim { author: Author::User, session: None, batch: None, ..claim(id) };
    check(&[by_hand(1), claim(2)], &[], &[]);
    check(&[claim(1), by_hand(2)], &[], &["1→2"]);
    check(&[by_hand(1), by_hand(2)], &[], &["1→2"]);
    let about = |id, names: &[&str]| Claim { files: files(names), ..claim(id) };
    check(&[about(1, &["a"]), about(2, &["b"])], &[], &[]);
    check(&[about(1, &["a", "b"]), about(2, &["b"])], &[], &["1→2"]);
    check(&[about(1, &["a"]), about(2, &[])], &[], &["1→2"]);
    let same_batch = Claim { batch: Some(BatchId(1)), ..claim(2) };
    check(&[claim(1), same_batch], &[], &[]);
}

#[test]
fn a_search_only_claim_does_not_replace_one_that_sessions_receive() {
    let elsewhere = |id| Claim { batch: None, session: Some(SessionRow(-1)), ..claim(id) };
    let only_found = |id| Claim { audience: Audience::Searches, ..elsewhere(id) };
    check(&[claim(1), elsewhere(2)], &[], &["1→2"]);
    check(&[elsewhere(1), claim(2)], &[], &["1→2"]);
    check(&[claim(1), only_found(2)], &[], &[]);
    check(&[only_found(1), only_found(2)], &[], &["1→2"]);
    // Claims with the same time come from one batch, so neither replaces the other.
    check(&[elsewhere(1), Claim { at: Timestamp(10), ..elsewhere(2) }], &[], &[]);
    // Nobody replaces a claim that another person wrote by hand.
    let by_hand =
        |id, person: &str| Claim { author: Author::User, person: person.to_owned(), ..elsewhere(id) };
    check(&[by_hand(1, "mia"), by_hand(2, "ben")], &[], &[]);
    check(&[by_hand(1, "mia"), by_hand(2, "ben"), by_hand(3, "mia")], &[], &["1→3"]);
    // If two machines wrote at the same time, the names decide. They are the same on every machine.
    let named =
        |id, name: &str| Claim { name: name.to_owned(), at: Timestamp(1), session: None, ..elsewhere(id) };
    check(&[named(1, "b"), named(2, "a")], &[], &["2→1"]);
}

#[track_caller]
fn check_settles(settlement: &Settlement, claim: &Claim, expected: bool) {
    let found = settlement.settles(claim, &Trail::default());
    assert_eq!(found.is_some(), expected, "{settlement:?} {claim:?}");
}

#[test]
fn later_work_on_the_same_files_settles_a_problem() {
    let by = BatchSpan {
        batch: BatchId(2),
        session: SessionRow(2),
        place: 1,
        opened: Timestamp(15),
        closed: Some(Timestamp(20)),
    };
    let passed = Settlement { by, files: files(&["a"]), evidence: Vec::new() };
    let about_a = Claim { files: files(&["a"]), ..claim(1) };
    check_settles(&passed, &about_a, true);
    check_settles(&passed, &claim(1), true);
    check_settles(&passed, &Claim { files: files(&["b"]), ..claim(1) }, false);
    check_settles(&passed, &Claim { author: Author::User, ..claim(1) }, false);
    check_settles(&passed, &claim(3), false);
    check_settles(&passed, &Claim { batch: Some(BatchId(2)), ..claim(1) }, false);
    check_settles(&Settlement { files: Vec::new(), ..passed }, &about_a, false);
}

fn ran(number: u8, command: &str, outcome: CallOutcome) -> Step {
    let action = Action::Command { command: command.to_owned(), description: None, output: String::new() };
    step(number, outcome, action)
}

fn step(number: u8, outcome: CallOutcome, action: Action) -> Step {
    let event = EventId([number; 16]);
    Step { event, at: Timestamp(0), tool: "tool".to_owned(), outcome, subagent: None, action }
}

fn edited(number: u8, path: &str) -> Step {
    let changes = vec![EditHunk { before: String::new(), after: "x".to_owned() }];
    step(number, CallOutcome::Done, Action::Edit { path: format!("/shop/{path}"), changes })
}

#[track_caller]
fn batch_settles(steps: Vec<Step>, expected: &[&str]) {
    let batch = BatchMaterial { steps, root: Some("/shop".to_owned()), ..BatchMaterial::default() };
    let actual: Vec<String> = settled(&batch)
        .iter()
        .map(|settled| format!("{} {}", settled.subject, settled.files.join(",")))
        .collect();
    assert_eq!(actual.iter().map(|actual| actual.trim()).collect::<Vec<_>>(), expected);
}

#[test]
fn a_check_that_passes_after_a_change_settles_its_failure() {
    let passes = || ran(3, "cargo test", CallOutcome::Done);
    let fails = ran(1, "cargo test", CallOutcome::Failed { error: "Exit code 101".to_owned() });
    batch_settles(vec![fails.clone(), edited(2, "a.rs"), passes()], &["check: cargo test a.rs"]);
    batch_settles(vec![edited(2, "a.rs"), fails.clone()], &[]);
    // Changes of earlier batches are unknown here, and changes after the run were not checked.
    batch_settles(vec![passes()], &["check: cargo test"]);
    batch_settles(vec![passes(), edited(4, "a.rs")], &["check: cargo test"]);
    batch_settles(vec![fails, passes()], &[]);
}

#[test]
fn a_draft_about_failing_tests_is_linked_to_the_failed_check() {
    let fails = ran(3, "cargo test", CallOutcome::Failed { error: "Exit code 101".to_owned() });
    let batch = BatchMaterial { steps: vec![fails], ..BatchMaterial::default() };
    let aimed = |drafts: &[(&str, u8)]| {
        let mut drafts: Vec<_> = drafts.iter().map(|(title, event)| draft(title, *event)).collect();
        link_to_failed_check(&batch, &mut drafts);
        drafts.into_iter().position(|draft| draft.subject == Some(subject::of_check("cargo test")))
    };
    assert_eq!(aimed(&[("Money is kept in cents", 3), ("The cart's tests are failing", 3)]), Some(1));
    assert_eq!(aimed(&[("The cart's tests are failing", 4)]), None, "it rests on something else");
    assert_eq!(aimed(&[("Money is kept in cents", 3)]), None);
    assert_eq!(aimed(&[("Tests fail", 3), ("The build fails", 3)]), None, "nobody knows which");
}

fn draft(title: &str, event: u8) -> ObservationDraft {
    ObservationDraft {
        kind: ObservationType::Discovery,
        title: title.to_owned(),
        subtitle: None,
        narrative: String::new(),
        facts: Vec::new(),
        concepts: Vec::new(),
        files_read: Vec::new(),
        files_modified: Vec::new(),
        importance: Importance::clamped(5),
        evidence: vec![EventId([event; 16])],
        subject: None,
    }
}

#[test]
fn a_replacement_must_name_the_same_fact_and_share_its_evidence() {
    let of = |title: &str, drafts: &[ObservationDraft]| replacement(title, &[EventId([1; 16])], drafts);
    let reworded = draft("Requests give up after `max_retries` = 5 tries", 1);
    assert_eq!(of("`max_retries` is 5", &[draft("Other", 1), reworded.clone()]), Some(1));
    assert_eq!(of("`max_retries` is 6", std::slice::from_ref(&reworded)), None);
    assert_eq!(of("`max_retries` is 5", &[draft("`max_retries` is 5 now", 2)]), None);
    assert_eq!(of("`max_retries` is 5", &[reworded.clone(), reworded]), None, "nobody knows which");
    assert_eq!(of("User chose: last writer wins", &[draft("The last writer wins", 1)]), Some(0));
}
