//! Tests that the checks can fail. A fault is planted where recall protects itself, and the check of that protection
//! must fail.
//!
//! Each fault of [`Fault::ALL`] has a row, and each row is a test. Its check passes without the fault. With the fault
//! the check fails with the words of the row. By hand:
//! `RECALL_PLANTED=ack-before-commit cargo test -p recall-tests kills::`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use recall_system::faults::Fault;
use recall_tests::Stage;
use recall_tests::checks::{calls, keeping, others, secrecy};
use recall_tests::faults::clock::Clock;
use recall_tests::faults::intruder::{can_change_user, role};
use recall_tests::faults::points::Arrival;
use recall_tests::faults::script::TurnIds;

fn turns_red(fault: Fault, words: &str, check: impl Fn(Stage)) {
    check(Stage::new());
    if role().is_some() {
        return;
    }
    let (begun, stage) = (Instant::now(), Stage::new().planted(fault));
    let red = catch_unwind(AssertUnwindSafe(|| check(stage)));
    println!("{}: red after {:?}", fault.name(), begun.elapsed());
    let payload = red.expect_err("the check is green although the fault is planted");
    let message =
        payload.downcast_ref::<String>().map(String::as_str).or(payload.downcast_ref::<&str>().copied());
    assert!(message.is_some_and(|message| message.contains(words)), "red for another reason: {message:?}");
}

/// Makes one test of each row: its name, the fault, the words of the failed check, the check.
macro_rules! planted {
    ($($test:ident: $fault:ident, $words:literal, $check:expr;)*) => {
        $(
            #[test]
            fn $test() {
                turns_red(Fault::$fault, $words, $check);
            }
        )*

        const WITH_A_ROW: &[Fault] = &[$(Fault::$fault),*];
    };
}

planted! {
    ack_before_commit: AckBeforeCommit, "accepted and not stored", |stage| {
        keeping::no_event_is_lost_before_its_commit(stage, Arrival::Mixed);
    };
    unlink_before_commit: UnlinkBeforeCommit, "accepted and not stored", |stage| {
        keeping::no_event_is_lost_before_its_commit(stage, Arrival::Spooled);
    };
    no_event_key: NoEventKey, "not known: Some(Ack", keeping::an_event_is_stored_once_across_a_restart;
    no_second_key: NoSecondKey, "not known: Some(Ack", keeping::a_tool_call_is_stored_once;
    no_lease: NoLease, "somebody was given a job", keeping::a_job_belongs_to_one_compressor;
    no_parking: NoParking, "not stored: Some(Busy)", keeping::an_event_that_crashes_its_session_is_set_aside;
    order_of_arrival: OrderOfArrival, "misplaced: late", |stage| {
        keeping::late_events_are_placed_correctly(stage, 0, TurnIds::Absent, &Clock::True);
    };
    any_length: NoLengthCap, "TooBig", others::a_message_longer_than_the_limit_is_rejected;
    links_in_the_spool: FollowLinks, "a symlink was followed", others::a_symlink_in_the_spool_is_not_read;
    links_to_folders: FollowLinks, "a folder behind a symlink was taken", others::a_symlinked_runtime_folder_is_rejected;
    private_words: KeepPrivate, "\"heliotrope\" is in", secrecy::private_words_are_stored_nowhere;
    secrets: KeepSecrets, "\"swordfish-heliotrope-7741\" is in", secrecy::secrets_are_stored_nowhere;
    no_escaping: NoEscaping, "a tag inside the fence", secrecy::stored_text_contains_no_tag;
    content_in_logs: LogContent, "the log repeats it", |stage| {
        secrecy::agent_text_is_in_no_log(stage, "info", false);
    };
    redirects: FollowRedirects, "a second host was reached", |stage| {
        calls::redirects_reach_no_second_host(stage, 307);
    };
}

#[test]
fn any_peer() {
    if role().is_none() && !can_change_user() {
        println!("skipped: only the superuser can become another");
        return;
    }
    let check = |stage| others::another_user_gets_no_answer_from_the_daemon(stage, "planted::any_peer");
    turns_red(Fault::AnyPeer, "answered ", check);
}

#[test]
fn any_daemon() {
    if role().is_none() && !can_change_user() {
        println!("skipped: only the superuser can become another");
        return;
    }
    let check = |stage| others::a_false_daemon_of_another_user_gets_no_payload(stage, "planted::any_daemon");
    turns_red(Fault::AnyDaemon, "bytes from 2 visitors", check);
}

#[test]
fn every_planted_fault_has_a_test() {
    let tested =
        |fault: &Fault| WITH_A_ROW.contains(fault) || matches!(fault, Fault::AnyPeer | Fault::AnyDaemon);
    let untested: Vec<_> = Fault::ALL.iter().filter(|fault| !tested(fault)).collect();
    assert!(untested.is_empty(), "{untested:?}");
}
