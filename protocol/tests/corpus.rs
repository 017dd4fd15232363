//! Inputs that the fuzzers found, replayed. `fuzz/README.md` says how the corpus was made.

// Test code reports a failure by panicking.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod invariants;

use std::path::Path;

/// Replays one target's folder.
#[track_caller]
fn holds(target: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/corpus").join(target);
    let mut inputs: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "no corpus for {target}");
    for input in inputs {
        let bytes = std::fs::read(&input).unwrap();
        let kept = std::panic::catch_unwind(|| check(&bytes));
        assert!(kept.is_ok(), "{} breaks an invariant, see above", input.display());
    }
}

#[test]
fn fuzzed_frames_break_no_invariant() {
    holds("frame_decode", invariants::frame_decode);
}

#[test]
fn fuzzed_spool_files_break_no_invariant() {
    holds("spool_decode", invariants::spool_decode);
}

#[test]
fn fuzzed_stdin_breaks_no_invariant() {
    holds("stdin_scan", invariants::stdin_scan);
}

#[test]
fn fuzzed_floods_of_stdin_break_no_invariant() {
    holds("stdin_flood", invariants::stdin_flood);
}

#[test]
fn fuzzed_tags_break_no_invariant() {
    holds("tag_strip", invariants::tag_strip);
}
