//! Times the reading of a repository, and the question what a prompt is about.
//!
//! ```text
//! cargo run --release -p recall-outline --example outline_bench -- FOLDER [FILES]
//! ```
//!
//! In an empty folder it makes so many files (100,000) of nine names, in six languages; a folder with something in it
//! is read as it is.

// A report for a reader.
#![allow(clippy::print_stdout)]

use std::fs;
use std::io;
use std::path::Path;
use std::time::{Duration, Instant};

use recall_outline::{Asked, Outline, read};

const FILES: usize = 100_000;
/// How often each question is asked.
const TIMES: usize = 50;
/// The places that a prompt's question looks at.
const MOST: usize = 8;
const WORDS: [&str; 24] = [
    "cart", "price", "ledger", "invoice", "tax", "user", "session", "token", "cache", "index", "batch",
    "page", "order", "stock", "mail", "export", "import", "round", "total", "report", "audit", "queue",
    "route", "filter",
];
/// Each but two names something that the made files declare.
const PROMPTS: [&str; 5] = [
    "Why does `ImportQueueLedger70000` drop entries?",
    "The queue rounds twice; look at queue_ledger_70001 and say what calls it.",
    "Make the order batch filter faster and add a test for the empty page.",
    "Fix the build",
    "In the ledger, the audit queue and the mail route both read the stock index: who writes it, and when is it stale?",
];

fn main() -> io::Result<()> {
    let mut arguments = std::env::args().skip(1);
    let Some(folder) = arguments.next() else { return Err(io::Error::other("name a folder")) };
    let files = arguments.next().and_then(|count| count.parse().ok()).unwrap_or(FILES);
    let root = Path::new(&folder);
    fs::create_dir_all(root)?;
    if fs::read_dir(root)?.next().is_none() {
        make(root, files)?;
    }
    let began = Instant::now();
    let outline = read(root, &Outline::default(), &|_| false)
        .map_err(|refused| io::Error::other(format!("{refused:?}")))?;
    println!("read {} files with {} names in {:.1?}", outline.files(), outline.names(), began.elapsed());
    let began = Instant::now();
    let again =
        read(root, &outline, &|_| false).map_err(|refused| io::Error::other(format!("{refused:?}")))?;
    println!("read again, nothing changed: {} files in {:.1?}", again.files(), began.elapsed());
    for prompt in PROMPTS {
        let mut took: Vec<Duration> = Vec::new();
        let mut found = 0;
        for _ in 0..TIMES {
            let began = Instant::now();
            let places = again.related(prompt, Asked::Unasked, MOST);
            found = again.as_now(root, places).len();
            took.push(began.elapsed());
        }
        took.sort();
        let at = |part: usize| took.get((took.len() - 1) * part / 100).copied().unwrap_or_default();
        println!("{found} places, median {:.2?}, p99 {:.2?}: {prompt}", at(50), at(99));
    }
    Ok(())
}

fn make(root: &Path, files: usize) -> io::Result<()> {
    for number in 0..files {
        let folder = root.join(format!("part{}", number / 500));
        if number % 500 == 0 {
            fs::create_dir_all(&folder)?;
        }
        let (ending, text) = source(number);
        fs::write(folder.join(format!("file{number}.{ending}")), text)?;
    }
    Ok(())
}

fn source(number: usize) -> (&'static str, String) {
    let word = |step: usize| WORDS.get((number * 7 + step * 5) % WORDS.len()).copied().unwrap_or("cart");
    let title = |step: usize| {
        let word = word(step);
        word.get(..1).unwrap_or_default().to_uppercase() + word.get(1..).unwrap_or_default()
    };
    let class = format!("{}{}{}{number}", title(0), title(1), title(2));
    let name = |step: usize| format!("{}_{}_{}", word(step), word(step + 1), number + step);
    let names: Vec<String> = (0..8).map(name).collect();
    let lines = |line: &dyn Fn(&String) -> String| names.iter().map(line).collect::<String>();
    match number % 6 {
        0 => {
            ("rs", format!("pub struct {class};\n{}", lines(&|name| format!("fn {name}() -> u32 {{ 1 }}\n"))))
        }
        1 => (
            "ts",
            format!(
                "export class {class} {{}}\n{}",
                lines(&|name| format!("export function {name}() {{ return 1; }}\n"))
            ),
        ),
        2 => (
            "py",
            format!("class {class}:\n    pass\n{}", lines(&|name| format!("def {name}():\n    return 1\n"))),
        ),
        3 => (
            "go",
            format!(
                "package main\ntype {class} struct {{}}\n{}",
                lines(&|name| format!("func {name}() int {{ return 1 }}\n"))
            ),
        ),
        4 => (
            "java",
            format!("class {class} {{\n{}}}\n", lines(&|name| format!("  int {name}() {{ return 1; }}\n"))),
        ),
        _ => (
            "c",
            format!(
                "struct {class} {{ int a; }};\n{}",
                lines(&|name| format!("int {name}(void) {{ return 1; }}\n"))
            ),
        ),
    }
}
