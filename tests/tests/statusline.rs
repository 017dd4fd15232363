//! `recall statusline` says one line, whatever happens, and starts nothing.

use recall_tests::{Stage, run};
use serde_json::{Value, json};

fn line(stage: &Stage, arguments: &[&str], stdin: &str) -> String {
    let mut command = stage.command("recall");
    // It may start a daemon, if it wants one.
    command.arg("statusline").args(arguments).env_remove("RECALL_NO_DAEMON_START");
    let said = run(command, stdin.as_bytes());
    assert_eq!((said.code(), said.stderr.as_str()), (0, ""), "{said:?}");
    said.stdout
}

#[test]
fn a_status_line_and_the_place_of_the_settings_come_as_json() {
    let stage = Stage::new();
    assert_eq!(stage.json(["statusline"]), Value::Null, "nothing runs");
    let stage = stage.daemon();
    assert_eq!(stage.recall(["remember", "Prices are in cents."]).code(), 0);
    let line = stage.json(["statusline"]);
    assert_eq!((&line["project"], &line["notes"]), (&json!("shop"), &json!(1)), "{line}");
    let path = stage.json(["config", "path"]);
    assert_eq!(path["path"], stage.home().join("config.toml").display().to_string(), "{path}");
}

#[test]
fn a_project_is_told_in_a_line() {
    let stage = Stage::new().daemon();
    assert_eq!(line(&stage, &[], ""), "recall 0 notes\n");
    stage.discount_session("first");
    stage.flush();
    for (text, kind) in [("Refuse negative discounts.", "next_step"), ("Prices are in cents.", "decision")] {
        assert_eq!(stage.recall(["remember", text, "--type", kind]).code(), 0);
    }
    assert_eq!(line(&stage, &[], ""), "recall 3 notes · 1 open · shop\n");
    // The folder of another project, as an agent and as a person tells it.
    let elsewhere = json!({"cwd": "/", "workspace": {"current_dir": "/", "project_dir": "/"}}).to_string();
    assert_eq!(line(&stage, &[], &elsewhere), "recall 0 notes\n");
    let there = json!({"session_id": "one", "cwd": stage.project()}).to_string();
    let mut command = stage.command("recall");
    command.arg("statusline").current_dir("/");
    assert_eq!(run(command, there.as_bytes()).stdout, "recall 3 notes · 1 open · shop\n");
    assert_eq!(line(&stage, &["--cwd", "/"], &there), "recall 0 notes\n");
    assert_eq!(line(&stage, &[], "no JSON"), "recall 3 notes · 1 open · shop\n");
    assert_eq!(stage.recall(["pause"]).code(), 0);
    assert_eq!(line(&stage, &[], ""), "recall 3 notes · 1 open · paused · shop\n");
}

#[test]
fn without_a_daemon_it_says_so_and_starts_none() {
    let stage = Stage::new();
    assert_eq!(line(&stage, &[], "{}"), "recall is not running\n");
    assert!(!stage.home().exists());
    let stage = Stage::new().variable("RECALL_HOME", "relative");
    assert_eq!(line(&stage, &[], "{}"), "recall is not running\n");
}

#[test]
fn hooks_that_are_gone_are_named() {
    let stage = Stage::new().daemon();
    let install = || stage.recall(["install", "--agent", "claude-code", "--yes", "--no-service"]);
    assert_eq!(install().code(), 0);
    let event = json!({"session_id": "s1", "hook_event_name": "SessionStart", "cwd": stage.project(), "source": "startup"});
    stage.deliver(&[stage.delivery(&event)]);
    stage.flush();
    let told = |arguments: &[&str]| stage.recall(arguments.iter().copied()).stdout;
    assert!(!told(&["statusline"]).contains("no hooks"), "{}", told(&["statusline"]));
    assert!(!told(&["ctl", "status"]).contains("are gone"));

    std::fs::write(stage.user_home().join(".claude/settings.json"), "{}\n").unwrap();
    assert!(
        told(&["statusline"]).contains("no hooks in Claude Code, see recall doctor"),
        "{}",
        told(&["statusline"])
    );
    assert!(told(&["ctl", "status"]).contains("the hooks of Claude Code are gone; it last reported"));
    let warned = |arguments: &[&str]| stage.recall(arguments.iter().copied()).stderr;
    let next = warned(&["search", "anything"]);
    assert!(next.contains("warning: the hooks of Claude Code are gone; it last reported"), "{next}");
    assert!(next.contains("recall install --agent claude-code"), "{next}");
    for quiet in [&["statusline"][..], &["ctl", "status"], &["sql", "select 1"]] {
        assert!(!warned(quiet).contains("are gone"), "{quiet:?}");
    }
    let doctor = told(&["doctor"]);
    assert!(doctor.contains("its hooks are gone from") && doctor.contains("it last reported"), "{doctor}");

    assert_eq!(install().code(), 0);
    assert!(!told(&["statusline"]).contains("no hooks"));
}
