//! Text made to be slow: whatever it is, the time of redaction, stripping and scanning grows with its length and no
//! faster.

// Test code: a panic is how it says that something is wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::hint::black_box;
use std::time::Duration;

use recall::memory::redaction::{RedactionPolicy, Redactor};
use recall_protocol::{json_scan, privacy};
use rustix::time::{ClockId, clock_gettime};

/// Each is repeated: beginnings without ends, names without values, values inside values, tags that nearly are some.
const HOSTILE: [&str; 18] = [
    "eyJ",
    "token:",
    "password:\"",
    "a://b:c9@",
    "/fo1_",
    "-----BEGIN PRIVATE KEY-----\n",
    "bearer a1",
    "_pass:",
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

/// The bound of an answer for 10 MB on a machine of today.
const LONGEST: Duration = Duration::from_millis(500);

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

/// What this thread has computed so far: other processes do not count.
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
fn eight_times_the_text_takes_about_eight_times_as_long() {
    const SMALL: usize = 8 << 10;
    let redactor = redactor();
    // Whatever is made once.
    WORK.iter().for_each(|(_, work)| work(&redactor, "password: x"));
    for unit in HOSTILE {
        let (small, large) = (unit.repeat(SMALL / unit.len()), unit.repeat(8 * SMALL / unit.len()));
        for (name, work) in WORK {
            let once = (0..3).map(|_| time_of(work, &redactor, &small)).max().unwrap();
            let often = (0..3).map(|_| time_of(work, &redactor, &large)).min().unwrap();
            // Eight is linear, sixty-four is quadratic; less than a millisecond is too little to compare.
            let bound = once.max(Duration::from_millis(1)) * 28;
            assert!(often < bound, "{name} of {unit:?}: {once:?} and {often:?}");
        }
    }
}

/// `cargo test -p recall-tests --release -- --ignored ten_megabytes_of_hostile_text --nocapture`
#[test]
#[ignore = "means something only in a release build"]
fn ten_megabytes_of_hostile_text() {
    const SIZE: usize = 10_000_000;
    let redactor = redactor();
    let mut slowest = Duration::ZERO;
    for unit in HOSTILE {
        let text = unit.repeat(SIZE / unit.len());
        for (name, work) in WORK {
            let took = time_of(work, &redactor, &text);
            println!("{name} of 10 MB of {unit:?}: {took:?}");
            slowest = slowest.max(took);
        }
    }
    assert!(slowest < LONGEST, "{slowest:?}");
}
