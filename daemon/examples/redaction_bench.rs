//! Measures the speed of redaction, and its false positives in sources without secrets.
//!
//! `cargo run --release --example redaction_bench -- FOLDER...` reads every text file beneath the folders and prints
//! what it would redact there, the rate per 10 kB, and the time for payloads of two sizes and for 10 MB of texts
//! designed to be slow.

#![allow(clippy::print_stdout, reason = "its output is its purpose")]

use std::error::Error;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use recall_domain::redaction::{RedactionPolicy, Redactor};

/// The size limit of a payload after the shim, and a common size.
const SIZES: [usize; 2] = [20 << 10, 4 << 20];
/// The number of runs per measurement; the median counts.
const ROUNDS: usize = 21;

/// Each is repeated: names without values, values inside values, beginnings without ends.
const HOSTILE: [&str; 8] = [
    "eyJ",
    "token:",
    "password:\"",
    "a://b:c9@",
    "/fo1_",
    "-----BEGIN PRIVATE KEY-----\n",
    "bearer a1",
    "_pass:",
];
const HOSTILE_SIZE: usize = 10_000_000;

fn main() -> Result<(), Box<dyn Error>> {
    let started = Instant::now();
    let redactor = Redactor::new(&RedactionPolicy::default())?;
    println!("built in {:?}, {} kB resident", started.elapsed(), resident_kb());
    let mut corpus = String::new();
    let (mut bytes, mut redactions) = (0_usize, 0_usize);
    for folder in std::env::args_os().skip(1) {
        let mut files = Vec::new();
        collect(Path::new(&folder), &mut files)?;
        for file in files {
            let Ok(text) = std::fs::read_to_string(&file) else { continue };
            bytes += text.len();
            let redacted = redactor.redact_text(&text);
            let before: std::collections::HashSet<_> = text.lines().collect();
            for line in redacted.lines().filter(|line| line.contains("[redacted:") && !before.contains(line))
            {
                redactions += line.matches("[redacted:").count();
                println!("{}: {}", file.display(), line.trim().chars().take(160).collect::<String>());
            }
            // Clean text only: what the capture path sees nearly always.
            if corpus.len() < SIZES[1] && *redacted == text {
                corpus.push_str(&text);
            }
        }
    }
    println!(
        "{redactions} redactions in {bytes} bytes: {:.4} per 10 kB",
        redactions as f64 * 1e4 / bytes.max(1) as f64
    );
    for size in SIZES {
        let part = (0..4).find_map(|back| corpus.get(..size - back)).unwrap_or(&corpus);
        let json = serde_json::json!({ "tool_response": { "stdout": part } }).to_string();
        let text = median(|| redactor.redact_text(part).len());
        let json_time = median(|| redactor.redact_json(&json).len());
        println!("{} bytes: text {text:?}, JSON {json_time:?}", part.len());
    }
    for unit in HOSTILE {
        let text = unit.repeat(HOSTILE_SIZE / unit.len());
        let started = Instant::now();
        std::hint::black_box(redactor.redact_text(&text));
        println!("10 MB of {unit:?}: {:?}", started.elapsed());
    }
    Ok(())
}

fn median(mut work: impl FnMut() -> usize) -> Duration {
    let mut times: Vec<_> = (0..ROUNDS)
        .map(|_| {
            let started = Instant::now();
            std::hint::black_box(work());
            started.elapsed()
        })
        .collect();
    times.sort_unstable();
    times.get(ROUNDS / 2).copied().unwrap_or_default()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> std::io::Result<()> {
    if folder.is_file() {
        files.push(folder.to_owned());
        return Ok(());
    }
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let kind = entry.file_type()?;
        let hidden = entry.file_name().to_string_lossy().starts_with('.') || entry.file_name() == "target";
        if kind.is_dir() && !hidden {
            collect(&entry.path(), files)?;
        } else if kind.is_file() {
            files.push(entry.path());
        }
    }
    Ok(())
}

/// The resident memory of this process in kB; 0 if the system does not tell.
fn resident_kb() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap_or_default();
    line.trim().trim_end_matches(" kB").parse().unwrap_or(0)
}
