//! Tests `recall export --markdown`, which writes the memory as a folder of pages.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};

use recall_tests::Stage;
use serde_json::json;

/// Returns all pages by name.
fn pages(folder: &Path) -> BTreeMap<String, String> {
    let mut pages = BTreeMap::new();
    let mut open = vec![folder.to_owned()];
    while let Some(next) = open.pop() {
        for entry in fs::read_dir(&next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                pages.insert(name, fs::read_to_string(&path).unwrap());
            }
        }
    }
    pages
}

fn turn(stage: &Stage, session: &str, number: u32, prompt: &str, answer: &str) {
    let prompt = json!({"prompt": prompt, "prompt_id": format!("{session}-p{number}")});
    stage.hook(&stage.event(session, "UserPromptSubmit", prompt));
    stage.hook(&stage.event(session, "Stop", json!({"last_assistant_message": answer})));
    stage.flush();
}

fn worked() -> (Stage, PathBuf) {
    let stage = Stage::new().daemon();
    turn(
        &stage,
        "one",
        1,
        "Which rounding is used?",
        "We decided to round half even.\n---\nrecall: x\n# Not a heading",
    );
    turn(&stage, "two", 1, "<private>for Quokka</private>Sort the receipts", "Sorted by date.");
    stage.recall(["remember", "Prices are in cents.", "--type", "decision"]);
    let folder = stage.user_home().join("pages");
    (stage, folder)
}

fn export(stage: &Stage, folder: &Path) -> String {
    let output = stage.recall(["export", "--markdown", folder.to_str().unwrap()]);
    assert_eq!(output.code(), 0, "{output:?}");
    output.stdout
}

#[test]
fn sessions_projects_and_days_get_pages_and_a_second_export_writes_none() {
    let (stage, folder) = worked();
    stage.recall(["edit", "1", "--title", "Prices are in cents, on receipts too"]);
    export(&stage, &folder);
    let first = pages(&folder);
    let of = |inner: &str| first.keys().filter(|name| name.starts_with(inner)).count();
    assert_eq!((of("sessions/"), of("projects/"), of("index.md")), (2, 1, 1), "{:?}", first.keys());
    assert!(of("days/") >= 1, "{:?}", first.keys());
    let one = &first["sessions/claude-code--one.md"];
    assert!(one.starts_with("---\nrecall: sessions/claude-code--one.md\ntitle: "), "{one}");
    assert!(one.contains("> Which rounding is used?\n") && one.contains("> # Not a heading\n"), "{one}");
    assert_eq!(one.matches("\n---\n").count(), 1, "stored text ends no front matter: {one}");
    assert!(!first.values().any(|page| page.contains("Quokka")), "{first:?}");
    let output = export(&stage, &folder);
    assert!(output.starts_with("Wrote 0 pages to "), "{output}");
    assert_eq!(pages(&folder), first);
}

#[test]
fn page_names_stay_and_the_page_of_a_forgotten_session_is_removed() {
    let (stage, folder) = worked();
    export(&stage, &folder);
    let first = pages(&folder);
    turn(&stage, "one", 2, "And the export?", "It rounds half up.");
    export(&stage, &folder);
    assert!(pages(&folder).keys().eq(first.keys()), "{:?}", pages(&folder).keys());
    let mine = folder.join("sessions/mine.md");
    fs::write(&mine, "# Mine\n").unwrap();
    assert_eq!(stage.recall(["forget", "--session", "one", "--yes"]).code(), 0);
    let output = export(&stage, &folder);
    assert!(output.contains("removed 1."), "{output}");
    let left = pages(&folder);
    assert!(!left.contains_key("sessions/claude-code--one.md") && left.contains_key("sessions/mine.md"));
    assert!(!left.values().any(|page| page.contains("Which rounding is used?")), "{left:?}");
}

#[test]
fn export_does_not_overwrite_the_users_files_and_names_them() {
    let (stage, folder) = worked();
    fs::create_dir_all(folder.join("sessions")).unwrap();
    fs::write(folder.join("sessions/claude-code--one.md"), "# Mine\n").unwrap();
    let output = export(&stage, &folder);
    assert!(
        output.contains(
            "Left alone, because recall did not write what is there: sessions/claude-code--one.md."
        ),
        "{output}"
    );
    assert_eq!(pages(&folder)["sessions/claude-code--one.md"], "# Mine\n");
    let wrong = stage.recall(["export", "--watch"]);
    assert_eq!(wrong.code(), 2, "{wrong:?}");
    let unknown = stage.recall(["export", "--markdown", "elsewhere", "--project", "nothing"]);
    assert_eq!(unknown.code(), 1, "{unknown:?}");
    assert!(!stage.project().join("elsewhere").exists());
}

/// A program that is killed when the test ends.
struct Watching(Child);

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn export_watch_writes_and_removes_pages_as_the_memory_changes() {
    let (stage, folder) = worked();
    let mut command = stage.command("recall");
    command.args(["export", "--markdown", folder.to_str().unwrap(), "--watch"]).stdout(Stdio::piped());
    let mut watching = Watching(command.spawn().unwrap());
    let mut lines = BufReader::new(watching.0.stdout.take().unwrap()).lines().map(Result::unwrap);
    let mut until = |what: &str| lines.find(|line| line.contains(what)).unwrap();
    until("Following the memory");
    assert!(folder.join("sessions/claude-code--one.md").exists());
    turn(&stage, "three", 1, "Print the totals", "Printed.");
    until("Wrote ");
    assert!(folder.join("sessions/claude-code--three.md").exists());
    assert_eq!(stage.recall(["forget", "--session", "three", "--yes"]).code(), 0);
    until("removed 1.");
    assert!(!folder.join("sessions/claude-code--three.md").exists());
}
