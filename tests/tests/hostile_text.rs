//! Tests with text that was made to be slow. The time of redaction, stripping and scanning must not grow faster than
//! the length of the text.

use std::hint::black_box;
use std::path::Path;
use std::time::Duration;

use recall_domain::redaction::{RedactionPolicy, Redactor};
use recall_protocol::{json_scan, privacy};
use rustix::time::{ClockId, clock_gettime};

/// Units that are repeated: beginnings without ends, names without values, values inside values, and strings that are
/// almost tags.
const HOSTILE: [&str; 32] = [
    "eyJ",
    "token:",
    "password:\"",
    "a://b:c9@",
    "/fo1_",
    "-----BEGIN PRIVATE KEY-----\n",
    "bearer a1",
    "_pass:",
    "_key=",
    "curl -u a:b1 ",
    "mysql -p",
    "cookie: a=b;",
    "the password is ",
    "AKIAQWERTYUIOPASDFGH",
    " [... 1 of 2 bytes elided by recall ...] A1b2",
    "-----END PRIVATE KEY-----",
    "AAAAAAAAAAAAAAAAAAAA\n-----END PRIVATE KEY-----",
    "?key=",
    "x=\"a8Kd93jfLs02mQpz71XcV5uT",
    "-eyJa",
    "a8Kd93jfLs02mQpz71XcV5uT.",
    "LS0tLS1CRUdJTi",
    "<",
    "<private ",
    "<private>",
    "<pri</private>vate>",
    "<pr</private><pr/private>",
    "\\\\u003cpri\\\\u003c\\\\/private\\\\u003evate",
    "&lt;recall-context",
    "\\",
    "\\u003cprivate",
    "[\"<private>\",",
];

type Work = fn(&Redactor, &str);

const WORK: [(&str, Work); 4] = [
    ("redaction", |redactor, text| {
        black_box(redactor.redact_text(text));
    }),
    ("redaction of JSON", |redactor, text| {
        black_box(redactor.redact_json(&serde_json::json!({ "a": text }).to_string()));
    }),
    ("stripping", |_, text| {
        black_box(privacy::strip_text(text));
    }),
    ("scanning", |_, text| {
        black_box(json_scan::clean(text.as_bytes()));
    }),
];

/// Returns the processor time of this thread, so that other processes do not count.
fn computed() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(u64::try_from(time.tv_sec).unwrap(), u32::try_from(time.tv_nsec).unwrap())
}

fn time_of(work: Work, redactor: &Redactor, text: &str) -> Duration {
    let begun = computed();
    work(redactor, text);
    computed() - begun
}

fn redactor() -> Redactor {
    Redactor::new(&RedactionPolicy::default()).unwrap()
}

#[test]
fn redacting_stripping_and_scanning_take_linear_time() {
    const SMALL: usize = 8 << 10;
    let redactor = redactor();
    // The first run builds everything that is built only once.
    WORK.iter().for_each(|(_, work)| work(&redactor, "password: x"));
    for unit in HOSTILE {
        let (small, large) = (unit.repeat(SMALL / unit.len()), unit.repeat(8 * SMALL / unit.len()));
        for (name, work) in WORK {
            let once = (0..3).map(|_| time_of(work, &redactor, &small)).max().unwrap();
            let often = (0..3).map(|_| time_of(work, &redactor, &large)).min().unwrap();
            // The factor is 8 if the time is linear, and 64 if it is quadratic. Less than a millisecond is too short
            // to compare.
            let bound = once.max(Duration::from_millis(1)) * 28;
            assert!(often < bound, "{name} of {unit:?}: {once:?} and {often:?}");
        }
    }
}

/// A secret that the hook client has cut in two is redacted too.
#[test]
fn a_secret_that_truncation_cuts_in_two_is_fully_redacted() {
    // Returns letters and digits that look random. No source file may contain a token.
    let drawn = |length: usize, seed: usize| -> String {
        let alphabet = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
        (0..length).map(|at| char::from(alphabet[(at * 37 + at * at * 11 + seed) % alphabet.len()])).collect()
    };
    let redactor = redactor();
    let token = ["ghp_", &drawn(36, 7)].concat();
    let lines: Vec<String> = (0..26).map(|seed| drawn(64, seed)).collect();
    let key =
        format!("-----BEGIN RSA PRIVATE KEY-----\n{}\n-----END RSA PRIVATE KEY-----\n", lines.join("\n"));
    let cleaned = |text: &str| {
        let json = serde_json::json!({ "tool_response": text }).to_string();
        let cut = json_scan::clean(json.as_bytes());
        let cut = String::from_utf8(cut.payload).unwrap();
        assert!(cut.contains(recall_protocol::elision::ELISION), "it was not cut");
        (redactor.redact_json(&cut).into_owned(), cut)
    };
    let mut cut_in_two = 0;
    let half = json_scan::MAX_STRING / 2;
    for secret in [&token, &key] {
        for step in 0..40 {
            // The cut is inside the secret, at another place each time: at the end of the head, and at the beginning
            // of the tail.
            let inside = secret.len() * step / 40;
            let before = ".".repeat(half - inside);
            let after = " ".repeat(half - 100 - secret.len() + inside);
            for text in [
                format!("{before}{secret}{}", " ".repeat(2 * half)),
                format!("{}{secret}{after}", ".".repeat(2 * half)),
            ] {
                let (redacted, cut) = cleaned(&text);
                let pieces = |text: &str| {
                    // Counts the pieces of eight letters or digits of the secret that the text contains.
                    secret
                        .as_bytes()
                        .windows(8)
                        .filter(|piece| piece.iter().all(u8::is_ascii_alphanumeric))
                        .filter(|piece| memchr::memmem::find(text.as_bytes(), piece).is_some())
                        .count()
                };
                cut_in_two += usize::from(pieces(&cut) > 0 && !cut.contains(secret.as_str()));
                assert_eq!(pieces(&redacted), 0, "{inside}: {}", redacted.replace(['.', ' '], ""));
            }
        }
    }
    assert!(cut_in_two > 40, "{cut_in_two}");
}

/// Reads every file of this workspace. Only secrets that the tests planted may be redacted.
#[test]
fn redaction_finds_only_planted_secrets_in_the_workspace() {
    let planted =
        ["redaction", "hostile_text.rs", "redaction_bench.rs", "by_hand.rs", "secrecy.rs", "ingest.rs"];
    let root = recall_tests::workspace();
    let folders =
        ["daemon", "shim", "protocol", "tests", "docs", "README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
    let found = redactions(&redactor(), folders.map(|folder| root.join(folder)).into_iter().collect());
    let of_others = found.iter().filter(|line| {
        !planted.iter().any(|file| line.contains(file))
            && !["DB_PASSWORD=", "identity.rs", "lifecycle.rs"].iter().any(|known| line.contains(known))
    });
    let of_others: Vec<_> = of_others.collect();
    assert!(of_others.is_empty(), "{of_others:#?}");
}

/// `cargo test -p recall-tests --release -- --ignored redaction_finds_few_secrets_in_sources_of_dependencies --nocapture`
#[test]
#[ignore = "reads the sources of all dependencies"]
fn redaction_finds_few_secrets_in_sources_of_dependencies() {
    /// One redaction is allowed for this many megabytes.
    const MEGABYTES: usize = 3;
    let home = std::env::var_os("CARGO_HOME").map(std::path::PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo"))).unwrap();
    let sources = home.join("registry/src");
    let mut found = redactions(&redactor(), vec![sources.clone()]);
    // The password in an address is a secret, even in a test.
    found.retain(|line| !line.contains("[redacted:url-password]"));
    found.iter().for_each(|line| println!("{line}"));
    let most = megabytes(&sources) / MEGABYTES;
    assert!(found.len() <= most, "{} of {most}", found.len());
}

/// Returns the size of the files beneath a folder.
fn megabytes(folder: &Path) -> usize {
    let mut folders = vec![folder.to_owned()];
    let mut bytes = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            let about = entry.metadata().unwrap();
            if about.is_dir() { folders.push(entry.path()) } else { bytes += about.len() }
        }
    }
    usize::try_from(bytes / 1_000_000).unwrap()
}

/// Returns the texts in the files beneath these folders that would be redacted, each with its file and line.
fn redactions(redactor: &Redactor, mut folders: Vec<std::path::PathBuf>) -> Vec<String> {
    let mut found = Vec::new();
    while let Some(path) = folders.pop() {
        if path.is_dir() {
            let entries = std::fs::read_dir(&path).unwrap().flatten().map(|entry| entry.path());
            folders.extend(entries.filter(|path| !path.ends_with("target")));
        } else if let Ok(text) = std::fs::read_to_string(&path) {
            let before: std::collections::HashSet<_> = text.lines().collect();
            let redacted = redactor.redact_text(&text);
            let lines = redacted.lines().filter(|line| line.contains("[redacted:") && !before.contains(line));
            let around = |line: &str| {
                let mark = line.find("[redacted:").unwrap();
                let (from, to) =
                    (line.floor_char_boundary(mark.saturating_sub(80)), line.floor_char_boundary(mark + 80));
                line[from..to].trim().to_owned()
            };
            found.extend(lines.map(|line| format!("{}: {}", path.display(), around(line))));
        }
    }
    found
}

/// `cargo test -p recall-tests --release -- --ignored cleaning_ten_megabytes_of_hostile_text_is_timed --nocapture`
#[test]
#[ignore = "its figure is what it is for, and means something only in a release build"]
fn cleaning_ten_megabytes_of_hostile_text_is_timed() {
    const SIZE: usize = 10_000_000;
    let redactor = redactor();
    for unit in HOSTILE {
        let text = unit.repeat(SIZE / unit.len());
        for (name, work) in WORK {
            println!("{name} of 10 MB of {unit:?}: {:?}", time_of(work, &redactor, &text));
        }
    }
}
