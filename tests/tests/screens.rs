//! Tests `docs/screens.md`, which shows what the commands print. The test plays the same sessions, and the page must
//! match what the commands print now. `INSTA_UPDATE=always` rewrites the page.

use std::fmt::Write as _;
use std::fs;
use std::time::{Duration, Instant};

use recall_tests::screen::Screen;
use recall_tests::{DISCOUNT_ANSWER, DISCOUNT_PROMPT, Stage, binaries, recording, run, workspace};
use serde_json::{Value, json};

const COLUMNS: u16 = 100;
const ROWS: u16 = 30;

const HEAD: &str = "# What the commands show

These are the main screens, at 100 columns, after two small sessions and four notes; the last ones follow
[three real sessions](#on-real-sessions). A test plays the sessions and compares this page with what the programs print
(`tests/tests/screens.rs`). Times of day are made the same, and figures of the machine are `…`.
";

const LEDGER_PROMPT: &str = "Why do invoices differ from the ledger by a cent?";
const LEDGER_ANSWER: &str = "The invoice rounded each line half up, and the ledger rounds half even. Both now call \
    `round_half_even` in src/money.rs. The nightly export still rounds half up; that is not fixed yet.";

const SECOND: &str = "0c9d3f6e-77aa-4a43-9d53-2f0c1f6f3b10";

/// Plays a session. Its ids are the same each time, because each job is done before the next one is requested.
fn session(stage: &Stage, id: &str, prompt: &str, calls: &[Value], answer: &str) {
    stage.hook(&stage.event(id, "SessionStart", json!({"source": "startup"})));
    let prompt = json!({"prompt": prompt, "prompt_id": format!("{id}-p1")});
    stage.hook(&stage.event(id, "UserPromptSubmit", prompt));
    for (number, call) in calls.iter().enumerate() {
        let mut call = call.clone();
        call["tool_use_id"] = json!(format!("{id}-t{number}"));
        call["prompt_id"] = json!(format!("{id}-p1"));
        stage.hook(&stage.event(id, "PostToolUse", call));
    }
    let stop = json!({"last_assistant_message": answer, "prompt_id": format!("{id}-p1")});
    stage.hook(&stage.event(id, "Stop", stop));
    stage.flush();
    stage.hook(&stage.event(id, "SessionEnd", json!({"reason": "other"})));
    stage.flush();
}

/// Returns a stage with two ended sessions, four notes, and a session that has just received injected text.
fn played() -> Stage {
    let stage = Stage::new().config("[context]\nprompt_tokens = 400\n").daemon();
    let first = "52ab9f04-61c3-4b8e-a0a3-5d1c7f0e9b21";
    session(&stage, first, DISCOUNT_PROMPT, &stage.discount_calls(), DISCOUNT_ANSWER);
    let money = stage.project().join("src/money.rs");
    let call = json!({"tool_name": "Edit",
        "tool_input": {"file_path": money, "old_string": "fn round(", "new_string": "fn round_half_even("},
        "tool_response": {"filePath": money, "oldString": "fn round(", "newString": "fn round_half_even("}});
    session(&stage, "7be1c2d8-0b64-4f57-8a3e-c4a1d2e9f635", LEDGER_PROMPT, &[call], LEDGER_ANSWER);
    for (note, kind) in [
        ("Prices are in cents everywhere; only the receipt shows decimals.", "decision"),
        ("Do not touch the tax table by hand: it is generated from rates.csv.", "gotcha"),
        ("The nightly export still has to round half even.", "next_step"),
        ("Always run `cargo test cart` before a commit.", "preference"),
    ] {
        assert_eq!(stage.recall(["remember", note, "--type", kind]).code(), 0);
    }
    stage.hook(&stage.event(SECOND, "SessionStart", json!({"source": "startup", "model": "claude"})));
    let prompt = json!({"prompt": "Round the nightly export like the ledger", "prompt_id": "p"});
    stage.hook(&stage.event(SECOND, "UserPromptSubmit", prompt));
    stage.flush();
    stage
}

/// Returns a stage with three sessions that met the same error, in a repository whose code may be read.
fn failed() -> Stage {
    let stage = Stage::new().config("[context]\ncode = true\n").daemon();
    let folder = stage.project();
    let made = std::process::Command::new("git").args(["init", "-q"]).current_dir(&folder).status();
    assert!(made.is_ok_and(|status| status.success()));
    fs::create_dir_all(folder.join("src")).unwrap();
    fs::write(folder.join("src/prices.rs"), "pub struct PriceImport;\n\npub fn import_prices() {}\n")
        .unwrap();
    for (number, id) in ["3a1f0c77", "5e92b4d0", "c80d16aa"].into_iter().enumerate() {
        stage.ask(id, 1, "Import the prices");
        let error = format!("error: could not acquire the lock of prices.db after {number}0 ms");
        stage.ran(id, 1, "pnpm run import", Some(&error));
        stage.ran(id, 2, "pkill -f worker", None);
        stage.ran(id, 3, "pnpm run import", None);
        stage.hook(&stage.event(id, "Stop", json!({"last_assistant_message": "The prices are imported."})));
        stage.flush();
    }
    stage
}

/// The recordings of `tests/fixtures/recorded`, in the order in which they happened.
const RECORDED: [&str; 3] = ["3c794a22", "6f3b4b02", "3f059980"];

/// Returns a stage with three real sessions of one project, and the memory file of its agent.
fn recorded() -> Stage {
    let stage = Stage::new().daemon();
    let folder = stage.project();
    let place = folder.to_string_lossy();
    for name in RECORDED {
        let path = workspace().join(format!("tests/fixtures/recorded/{name}.jsonl"));
        for event in recording(&path) {
            let here = event.to_string().replace("/home/dev/context-evaluator", &place);
            let event: Value = serde_json::from_str(&here).unwrap();
            stage.hook(&event);
            // Ids are the same each time if each job is done before the next one is requested.
            if matches!(event["hook_event_name"].as_str(), Some("Stop" | "SessionEnd")) {
                stage.flush();
            }
        }
    }
    let rules = "# Commands\n\n- Run the tests with `bun run test`, never through `rtk`.\n\
                 - `bun run lint:fix` cannot fix an empty block: write why it is empty.\n";
    fs::write(folder.join("CLAUDE.md"), rules).unwrap();
    stage
}

/// Adds the commands about past work to the page, on real sessions.
fn real_work(page: &mut String) {
    let stage = recorded();
    page.push_str(
        "\n## On real sessions\n\nThe rest follows three sessions of Claude Code in a public project (`tests/fixtures/recorded`), replayed.\n",
    );
    for (heading, line) in [
        ("How the tests were run", "how bun run test"),
        ("What fixed an error", "fix \"unrecognized subcommand 'bun'\""),
        ("What fixed another", "fix \"lint/suspicious/noEmptyBlockStatements\""),
        ("Why a file changed", "blame src/shared/file-system/git-cloner.ts"),
        ("What goes wrong in session after session", "friction"),
        ("What the next agent needs", "handoff 3c79"),
        ("What machines wrote and nobody has read", "review --list"),
        ("What the agent itself keeps", "import memories --project . --dry-run"),
        ("Taking it over", "import memories --project ."),
        ("The memory as pages", "export --markdown pages"),
    ] {
        capture(page, &stage, heading, line);
    }
    let pages = stage.project().join("pages");
    let mut names = Vec::new();
    list(&pages, &pages, &mut names);
    names.sort();
    write!(page, "\nIt wrote these files:\n\n```\n{}\n```\n", settled(&names.join("\n"), &stage)).unwrap();
}

fn list(root: &std::path::Path, folder: &std::path::Path, names: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => list(root, &entry.path(), names),
            false => names.push(entry.path().strip_prefix(root).unwrap().display().to_string()),
        }
    }
}

/// Returns the text without what differs from run to run, at the same width.
fn settled(text: &str, stage: &Stage) -> String {
    const VARYING: [(&str, &str); 11] = [
        (r"\d{4}-\d\d-\d\d \d\d:\d\d", "2026-11-23 14:05"),
        (r"(?m)^\d{4}-\d\d-\d\d$", "2026-11-23"),
        (r"(?m)^  \d\d:\d\d  ", "  14:05  "),
        (r"days/\d{4}-\d\d-\d\d", "days/2026-11-23"),
        // A hash of the project's folder.
        (r"shop--[0-9a-f]{10}", "shop--…"),
        (r"\b1 min ago\b", "just now"),
        (r"\b\d+(\.\d+)? (ms|KiB|MiB|GiB|B)\b", "… $2"),
        (r"\bpid \d+", "pid …"),
        // The count of a word includes rows of the index that a merge has not removed yet.
        (r"(best answer[ (#a-z0-9)]*: )\d+ %", "$1… %"),
        (r"\bup \d+ (s|min)\b", "up … min"),
        (r"(?m)[ \t]+$", ""),
    ];
    let mut text = text.replace(&*binaries().to_string_lossy(), "~/.local/bin");
    text = text.replace(&*stage.user_home().to_string_lossy(), "~");
    for (pattern, same) in VARYING {
        text = regex::Regex::new(pattern).unwrap().replace_all(&text, same).into_owned();
    }
    text
}

fn capture(page: &mut String, stage: &Stage, heading: &str, line: &str) {
    let mut command = stage.command("recall");
    command.args(shlex(line)).env("COLUMNS", COLUMNS.to_string());
    let output = run(command, b"");
    let shown = settled(&output.stdout, stage);
    // The list of agents and the service manager differ between machines.
    let shown = shown.split("agents\n").next().unwrap().trim_end();
    write!(page, "\n## {heading}\n\n```\n$ recall {line}\n{shown}\n```\n").unwrap();
}

/// Splits a line into words. Text between quotes is one word.
fn shlex(line: &str) -> Vec<String> {
    let parts = line.split('"').enumerate();
    let words = parts.flat_map(|(nth, part)| match nth % 2 {
        0 => part.split_whitespace().map(str::to_owned).collect(),
        _ => vec![part.to_owned()],
    });
    words.collect()
}

#[test]
fn the_page_of_screens_matches_what_commands_print() {
    let since = Instant::now();
    let stage = played();
    let mut page = HEAD.to_owned();
    for (heading, line) in [
        ("Searching", "search rounding"),
        ("One observation in full", "show 1"),
        ("Around it", "timeline 2 --before 3 --after 3"),
        ("How a command was run", "how cargo test"),
        ("Who changed a file, and why", "blame src/money.rs"),
        ("What somebody needs to go on", "handoff 7be1"),
        ("What the next session gets", "context"),
        ("What a prompt gets", "context --prompt \"Why does the invoice differ from the ledger by a cent?\""),
        ("What a session got, and why", "why 0c9d"),
        ("What nobody has looked at", "review --list"),
        ("Sessions", "sessions"),
        ("The daemon", "status"),
        ("What is wrong", "doctor"),
    ] {
        capture(&mut page, &stage, heading, line);
    }

    let other = failed();
    for (heading, line) in [
        ("What made an error go away", "fix \"could not acquire the lock of prices.db\""),
        ("What goes wrong again and again", "friction"),
        ("Where the code declares a name", "outline import prices"),
    ] {
        capture(&mut page, &other, heading, line);
    }

    let mut command = stage.command("recall");
    command.arg("ui");
    let mut screen = Screen::of(command, (COLUMNS, ROWS));
    screen.shows("Prices are in cents");
    screen.press("rounding");
    screen.until("what is found", |shown| !shown.contains("#6") && shown.contains("by you"));
    let shown = settled(&screen.text(), &stage);
    write!(
        page,
        "\n## Looking around\n\n`recall ui`, after `rounding` was typed:\n\n```\n{}\n```\n",
        shown.trim_end()
    )
    .unwrap();
    screen.press("\r");
    screen.press("q");
    real_work(&mut page);

    // The screens show ages. A longer age moves the text around it.
    if since.elapsed() > Duration::from_secs(50) {
        println!("skipped: this machine is too slow now, so that things have an age");
        return;
    }
    let path = workspace().join("docs/screens.md");
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        fs::write(&path, &page).unwrap();
    }
    let known = fs::read_to_string(&path).unwrap_or_default();
    for (known, now) in known.lines().zip(page.lines()) {
        assert_eq!(known, now, "docs/screens.md is not what is shown; INSTA_UPDATE=always writes it");
    }
    assert_eq!(known, page);
}
