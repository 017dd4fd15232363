#![no_main]

#[allow(dead_code, reason = "each target has one function of them")]
#[path = "../../protocol/tests/invariants/mod.rs"]
mod invariants;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| invariants::stdin_flood(bytes));
