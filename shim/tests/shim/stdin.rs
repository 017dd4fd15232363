//! Tests the real shim with the ways in which agents use its stdin.

use std::fs;
use std::io::Write;

use crate::support::{Home, acknowledge, finish};
use recall_protocol::json_scan::MAX_PAYLOAD;
use recall_protocol::wire::{Deliver, Flags};
use serde_json::Value;

/// Returns the event that the shim stores for `stdin`.
fn kept(stdin: &[u8]) -> Deliver {
    let home = Home::new();
    assert_eq!(home.run(&["claude-code"], stdin).stdout, "");
    home.only_spooled()
}

#[test]
fn a_complete_value_is_spooled_while_stdin_stays_open() {
    let home = Home::new();
    let mut child = home.shim(&["claude-code"]).spawn().expect("starts");
    let mut stdin = child.stdin.take().expect("piped");
    stdin.write_all(b"{\"session_id\":\"s\"}").expect("writes");
    finish(child);
    drop(stdin);
    let event = home.only_spooled();
    assert_eq!((event.payload.as_slice(), event.flags), (&b"{\"session_id\":\"s\"}"[..], Flags::default()));
}

#[test]
fn a_value_that_arrives_in_single_bytes_is_read_whole() {
    let home = Home::new();
    let mut child = home.shim(&["claude-code"]).spawn().expect("starts");
    let mut stdin = child.stdin.take().expect("piped");
    let value = "{\"prompt\":\"ä\\n<private>x</private>\\u00e4\"}";
    for byte in value.bytes() {
        stdin.write_all(&[byte]).expect("writes");
    }
    finish(child);
    let event = home.only_spooled();
    assert_eq!(String::from_utf8_lossy(&event.payload), "{\"prompt\":\"ä\\n\\u00e4\"}");
    assert_eq!(event.flags, Flags::STRIPPED);
}

#[test]
fn incomplete_stdin_is_kept_and_flagged() {
    for start in [&b"{\"session_id\":\"s\",\"x\":["[..], b""] {
        let home = Home::new();
        let mut child = home.shim(&["gemini-cli"]).spawn().expect("starts");
        let mut stdin = child.stdin.take().expect("piped");
        stdin.write_all(start).expect("writes");
        assert_eq!(finish(child).stdout, "{}");
        drop(stdin);
        let event = home.only_spooled();
        assert_eq!((event.payload.as_slice(), event.flags), (start, Flags::INCOMPLETE));
    }
}

#[test]
fn stdin_may_be_a_file_or_empty() {
    let home = Home::new();
    let file = home.dir.path().join("event.json");
    fs::write(&file, "{\"a\":1}").expect("writes");
    let mut command = home.shim(&["claude-code"]);
    command.stdin(fs::File::open(&file).expect("opens"));
    finish(command.spawn().expect("starts"));
    assert_eq!(home.only_spooled().payload, b"{\"a\":1}");

    let home = Home::new();
    let mut closed = home.shim(&["claude-code", "SessionEnd"]);
    closed.stdin(std::process::Stdio::null());
    finish(closed.spawn().expect("starts"));
    let event = home.only_spooled();
    assert_eq!((event.payload.as_slice(), event.flags), (&b""[..], Flags::INCOMPLETE));
}

#[test]
fn hostile_input_is_spooled_unchanged() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let raw: [(&[u8], Flags); 8] = [
        (b"{\"a\":\"\xff\xfe\x80\"}", Flags::default()),
        (br#"{"a":"\ud800","b":"\udc00\ud800"}"#, Flags::default()),
        (b"{\"a\":\"\0\"}", Flags::default()),
        (deep.as_bytes(), Flags::default()),
        (br#"{"session_id":"a","session_id":"b"}"#, Flags::default()),
        (br#"{"n":123456789012345678901234567890e99999}"#, Flags::default()),
        (b"not json at all", Flags::NOT_JSON),
        (b"", Flags::INCOMPLETE),
    ];
    for (stdin, flags) in raw {
        let event = kept(stdin);
        assert!(event.payload == stdin, "{}", String::from_utf8_lossy(&stdin[..stdin.len().min(80)]));
        assert_eq!(event.flags, flags);
    }
}

#[test]
fn private_text_never_reaches_the_spool() {
    let stdin =
        r#"{"prompt":"a <private>SECRET</private> b","x":["<recall-context v=\"1\">old","SECRET"],"y":"z"}"#;
    let home = Home::new();
    home.run(&["claude-code"], stdin.as_bytes());
    let event = home.only_spooled();
    assert_eq!(String::from_utf8_lossy(&event.payload), r#"{"prompt":"a  b","x":["",""],"y":"z"}"#);
    assert_eq!(event.flags, Flags::STRIPPED);
    for file in fs::read_dir(home.paths.spool_dir().join("new")).expect("lists") {
        let bytes = fs::read(file.expect("entry").path()).expect("reads");
        assert!(!String::from_utf8_lossy(&bytes).contains("SECRET"));
    }
}

#[test]
fn a_wholly_private_prompt_is_spooled_without_its_text() {
    let event = kept(br#"{"session_id":"s","prompt":"<private>SECRET</private>\n"}"#);
    assert_eq!(event.payload, br#"{"session_id":"s","prompt":"\n"}"#);
    assert_eq!(event.flags, Flags::WHOLLY_PRIVATE.with(Flags::STRIPPED));
}

/// Checks the shim's peak memory. The daemon has not answered yet, so the shim still runs and its peak can be read.
#[track_caller]
fn has_taken_little_memory(event: &Deliver) {
    let status = fs::read_to_string(format!("/proc/{}/status", event.context.pid)).expect("alive");
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("a peak");
    let peak: u64 = peak.trim().trim_end_matches(" kB").parse().expect("a number");
    assert!(peak <= 16 * 1024, "peak of {peak} kB");
}

#[test]
fn a_value_of_a_hundred_megabytes_needs_little_memory() {
    let home = Home::new();
    let daemon = home.daemon(|event| {
        has_taken_little_memory(event);
        acknowledge("{}")
    });
    let megabyte = "line of output\\n".repeat((1 << 20) / 16);
    let input = home.input(
        r#"{"session_id":"s","tool_response":{"stdout":"HEAD"#,
        &megabyte,
        r#"TAIL","after":"short"},"tool_use_id":"t"}"#,
    );
    let child = home.shim(&["claude-code"]).stdin(input).spawn().expect("starts");
    assert_eq!(finish(child).stdout, "{}");

    let event = daemon.join().expect("daemon");
    assert_eq!(event.flags, Flags::SHORTENED);
    assert!(event.payload.len() <= MAX_PAYLOAD);
    let value: Value = serde_json::from_slice(&event.payload).expect("valid");
    assert_eq!((value["session_id"].as_str(), value["tool_use_id"].as_str()), (Some("s"), Some("t")));
    assert_eq!(value["tool_response"]["after"], "short");
    let output = value["tool_response"]["stdout"].as_str().expect("text");
    assert!(output.starts_with("HEADline") && output.ends_with("\nTAIL"));
    assert!(output.contains(&format!("of {} bytes elided", 100 * megabyte.len() + 8)));
}

#[test]
fn a_hundred_megabytes_of_short_values_need_little_memory() {
    let home = Home::new();
    let daemon = home.daemon(|event| {
        has_taken_little_memory(event);
        acknowledge("")
    });
    let megabyte = r#"{"text":"short"},"#.repeat((1 << 20) / 17);
    let input = home.input(r#"{"tool_response":["#, &megabyte, r#"0],"session_id":"s"}"#);
    let child = home.shim(&["claude-code"]).stdin(input).spawn().expect("starts");
    finish(child);
    let event = daemon.join().expect("daemon");
    let value: Value = serde_json::from_slice(&event.payload).expect("valid");
    assert_eq!(value["session_id"], "s");
}
