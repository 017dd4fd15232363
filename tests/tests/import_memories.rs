//! Tests `recall import memories`: the memory files of agents become notes, which follow changes in these files.

use std::fs;

use recall_tests::Stage;
use serde_json::json;

const SECRET: &str = concat!("sk-ant-api03-", "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUV");

fn import(stage: &Stage, more: &[&str]) -> serde_json::Value {
    let project = stage.project().display().to_string();
    let args = ["import", "memories", "--project", project.as_str(), "--json"];
    let run = stage.recall(args.iter().chain(more).copied());
    assert_eq!(run.code(), 0, "{run:?}");
    stage.flush();
    serde_json::from_str(&run.stdout).unwrap()
}

fn notes(stage: &Stage) -> Vec<(String, String, String)> {
    let rows = stage.json(["sql", "SELECT title, status, generated_by_model FROM observations ORDER BY id"])
        ["rows"]
        .clone();
    let rows = rows.as_array().unwrap().clone();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    rows.iter().map(|row| (text(&row[0]), text(&row[1]), text(&row[2]))).collect()
}

#[test]
fn memory_files_of_an_unknown_repository_are_found_from_a_subfolder() {
    let stage = Stage::new().daemon();
    fs::write(stage.project().join("CLAUDE.md"), "- Cents are whole numbers.\n").unwrap();
    let found = |folder: &std::path::Path| -> serde_json::Value {
        let mut command = stage.command("recall");
        command.args(["import", "memories", "--json"]).current_dir(folder);
        let run = recall_tests::run(command, b"");
        assert_eq!(run.code(), 0, "{run:?}");
        serde_json::from_str(&run.stdout).unwrap()
    };
    assert_eq!(found(&stage.project())["agents"], json!({}));
    fs::create_dir_all(stage.project().join(".git")).unwrap();
    let within = stage.project().join("src");
    fs::create_dir_all(&within).unwrap();
    assert_eq!(found(&within)["agents"]["claude-code"]["added"], 1);
}

#[test]
fn imported_notes_follow_changes_in_the_memory_files() {
    let stage = Stage::new().daemon();
    let rules = stage.project().join("CLAUDE.md");
    let secret = format!("- The key of the test account is {SECRET} for now.\n");
    fs::write(
        &rules,
        format!("# Money\n\n- Totals are rounded half-even, once.\n- Cents are whole numbers.\n{secret}"),
    )
    .unwrap();
    fs::create_dir_all(stage.project().join(".cursor/rules")).unwrap();
    let rule =
        "---\ndescription: How to test\nalwaysApply: false\n---\nRun `make check` before each commit.\n";
    fs::write(stage.project().join(".cursor/rules/tests.mdc"), rule).unwrap();

    let counted = import(&stage, &["--dry-run"]);
    assert_eq!(counted["agents"]["claude-code"]["added"], 3, "{counted}");
    assert_eq!(notes(&stage), []);
    assert_eq!(stage.json(["sql", "SELECT count(*) FROM projects"])["rows"][0][0], 0);
    let first = import(&stage, &[]);
    assert_eq!(first["agents"]["claude-code"]["added"], 3, "{first}");
    assert_eq!(first["agents"]["cursor"]["added"], 1, "{first}");
    let stored = notes(&stage);
    assert_eq!(stored.len(), 4);
    assert!(
        stored.iter().all(|(_, status, origin)| status == "active" && origin.starts_with("import:")),
        "{stored:?}"
    );
    assert!(stored[2].0.starts_with("The key of the test account is [redacted"), "{stored:?}");
    let found = stage.json(["search", "half-even", "--project", &stage.project().display().to_string()]);
    assert!(found.to_string().contains("Totals are rounded half-even, once."), "{found}");

    let again = import(&stage, &[]);
    assert_eq!(again["agents"]["claude-code"]["kept"], 3, "{again}");
    fs::write(&rules, "# Money\n\n- Totals are rounded half-even, twice.\n").unwrap();
    let changed = import(&stage, &["--agent", "claude-code"]);
    let of_agent = &changed["agents"]["claude-code"];
    assert_eq!(
        (&of_agent["added"], &of_agent["replaced"], &of_agent["resolved"]),
        (&json!(1), &json!(1), &json!(2))
    );
    fs::remove_file(&rules).unwrap();
    let gone = import(&stage, &["--agent", "claude-code"]);
    assert_eq!(gone["agents"]["claude-code"]["resolved"], 1, "{gone}");
    let active: Vec<_> = notes(&stage).into_iter().filter(|(_, status, _)| status == "active").collect();
    assert_eq!(active.len(), 1);
    assert_eq!(active[0].2, "import:cursor");
}

#[test]
fn a_forgotten_note_is_not_imported_again() {
    let stage = Stage::new().daemon();
    fs::write(stage.project().join(".cursorrules"), "Run `make check` before each commit.\n").unwrap();
    import(&stage, &[]);
    assert_eq!(notes(&stage).len(), 1);
    let forgotten = stage.recall(["forget", "1", "--yes"]);
    assert_eq!(forgotten.code(), 0, "{forgotten:?}");
    let again = import(&stage, &[]);
    assert_eq!(again["agents"]["cursor"]["forgotten"], 1, "{again}");
    assert_eq!(notes(&stage), []);
}

#[test]
fn memory_files_of_an_excluded_project_are_not_imported() {
    let stage = Stage::new().daemon();
    fs::write(stage.project().join(".recall.toml"), "disable = true\n").unwrap();
    fs::write(stage.project().join(".cursorrules"), "Never push on a Friday evening.\n").unwrap();
    let excluded = import(&stage, &[]);
    assert_eq!(excluded["agents"]["cursor"]["left_out"], 1, "{excluded}");
    assert_eq!(notes(&stage), []);
}
