//! Tests that `recall statusline` always prints one line and starts nothing.

use recall_tests::{Stage, run};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

fn line(stage: &Stage, arguments: &[&str], stdin: &str) -> String {
    let mut command = stage.command("recall");
    // The command is allowed to start a daemon.
    command.arg("statusline").args(arguments).env_remove("RECALL_NO_DAEMON_START");
    let output = run(command, stdin.as_bytes());
    assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{output:?}");
    output.stdout
}

#[test]
fn statusline_and_config_path_print_json() {
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
fn statusline_shows_the_note_counts_of_the_project() {
    let stage = Stage::new().daemon();
    assert_eq!(line(&stage, &[], ""), "recall 0 notes\n");
    stage.discount_session("first");
    stage.flush();
    for (text, kind) in [("Refuse negative discounts.", "next_step"), ("Prices are in cents.", "decision")] {
        assert_eq!(stage.recall(["remember", text, "--type", kind]).code(), 0);
    }
    assert_eq!(line(&stage, &[], ""), "recall 3 notes · 1 open · shop\n");
    // An agent gives the folder of another project on stdin. A person gives it with `--cwd`.
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
fn statusline_reports_a_missing_daemon_and_starts_none() {
    let stage = Stage::new();
    assert_eq!(line(&stage, &[], "{}"), "recall is not running\n");
    assert!(!stage.home().exists());
    let stage = Stage::new().variable("RECALL_HOME", "relative");
    assert_eq!(line(&stage, &[], "{}"), "recall is not running\n");
}

#[test]
fn statusline_shows_a_daemon_that_does_not_answer_in_time_as_busy() {
    let stage = Stage::new().daemon();
    let daemon = Pid::from_raw(i32::try_from(stage.daemon_pid()).unwrap()).unwrap();
    kill_process(daemon, Signal::STOP).unwrap();
    let mut command = stage.command("recall");
    command.arg("statusline").env_remove("RECALL_ANSWER_MS");
    let output = run(command, b"");
    kill_process(daemon, Signal::CONT).unwrap();
    assert_eq!((output.code(), output.stdout.as_str()), (0, "recall is busy\n"));
}

#[test]
fn missing_hooks_of_an_agent_are_named() {
    let stage = Stage::new().daemon();
    let install = || stage.recall(["install", "--agent", "claude-code", "--yes", "--no-service"]);
    assert_eq!(install().code(), 0);
    let event = json!({"session_id": "s1", "hook_event_name": "SessionStart", "cwd": stage.project(), "source": "startup"});
    stage.deliver(&[stage.delivery(&event)]);
    stage.flush();
    let stdout_of = |arguments: &[&str]| stage.recall(arguments.iter().copied()).stdout;
    assert!(!stdout_of(&["statusline"]).contains("no hooks"), "{}", stdout_of(&["statusline"]));
    assert!(!stdout_of(&["ctl", "status"]).contains("are gone"));

    std::fs::write(stage.user_home().join(".claude/settings.json"), "{}\n").unwrap();
    assert!(
        stdout_of(&["statusline"]).contains("no hooks in Claude Code, see recall doctor"),
        "{}",
        stdout_of(&["statusline"])
    );
    assert!(stdout_of(&["ctl", "status"]).contains("the hooks of Claude Code are gone; it last reported"));
    let warned = |arguments: &[&str]| stage.recall(arguments.iter().copied()).stderr;
    let next = warned(&["search", "anything"]);
    assert!(next.contains("warning: the hooks of Claude Code are gone; it last reported"), "{next}");
    assert!(next.contains("recall install --agent claude-code"), "{next}");
    for quiet in [&["statusline"][..], &["ctl", "status"], &["sql", "select 1"]] {
        assert!(!warned(quiet).contains("are gone"), "{quiet:?}");
    }
    let doctor = stdout_of(&["doctor"]);
    assert!(doctor.contains("its hooks are gone from") && doctor.contains("it last reported"), "{doctor}");

    assert_eq!(install().code(), 0);
    assert!(!stdout_of(&["statusline"]).contains("no hooks"));
}

/// Returns a stage with a reported session of Claude Code, and the folder for its records.
fn reported() -> (Stage, std::path::PathBuf) {
    let stage = Stage::new().daemon();
    assert_eq!(stage.recall(["install", "--agent", "claude-code", "--yes", "--no-service"]).code(), 0);
    report(&stage, "s1");
    let records = stage.user_home().join(".claude/projects/-home-dev-shop");
    std::fs::create_dir_all(&records).unwrap();
    (stage, records)
}

fn report(stage: &Stage, session: &str) {
    let event = json!({"session_id": session, "hook_event_name": "SessionStart", "cwd": stage.project(), "source": "startup"});
    stage.deliver(&[stage.delivery(&event)]);
    stage.flush();
}

/// Writes a record with a time of change this many minutes from now.
fn record(path: &std::path::Path, minutes: u64) {
    let file = std::fs::File::create(path).unwrap();
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(minutes * 60);
    file.set_modified(later).unwrap();
}

/// Returns everything that can show the problem to a user: the next command, the status line, `status`, `doctor`.
fn seen(stage: &Stage) -> [String; 4] {
    let next = stage.recall(["search", "anything"]).stderr;
    let [line, status, doctor] = ["statusline", "status", "doctor"].map(|name| stage.recall([name]).stdout);
    [next, line, status, doctor]
}

#[test]
fn hooks_that_a_setting_turns_off_are_named() {
    let (stage, _) = reported();
    let settings = stage.user_home().join(".claude/settings.json");
    let text = std::fs::read_to_string(&settings).unwrap();
    std::fs::write(&settings, text.replacen('{', "{\"disableAllHooks\": true,", 1)).unwrap();
    let [next, line, status, doctor] = seen(&stage);
    assert!(next.contains("turns the hooks of Claude Code off; it last reported"), "{next}");
    assert!(
        next.contains("hint: Remove disableAllHooks, or run `recall uninstall --agent claude-code`"),
        "{next}"
    );
    assert!(line.contains("hooks of Claude Code are off, see recall doctor"), "{line}");
    assert!(status.contains("turns the hooks of Claude Code off"), "{status}");
    assert!(doctor.contains("Claude Code: hooks are disabled in"), "{doctor}");
    std::fs::write(&settings, text).unwrap();
    assert_eq!(seen(&stage).map(|text| text.contains("hooks of Claude Code")), [false; 4]);
}

#[test]
fn an_agent_that_works_and_reports_nothing_is_named() {
    let (stage, records) = reported();
    let is_silent = |texts: &[String; 4]| {
        texts.each_ref().map(|text| text.contains("recorded a session") || text.contains("is silent"))
    };
    // The last events of a session are written after its last hook. Other files are not sessions.
    record(&records.join("s1.jsonl"), 9);
    record(&records.join("notes.md"), 30);
    assert_eq!(is_silent(&seen(&stage)), [false; 4]);
    record(&records.join("s2.jsonl"), 30);
    // The last report is too recent for a warning.
    assert_eq!(is_silent(&seen(&stage)), [false; 4]);
    let stage = stage.variable("RECALL_CLOCK_AHEAD_MS", "3600000");
    let texts = seen(&stage);
    assert_eq!(is_silent(&texts), [true; 4], "{texts:#?}");
    let [next, line, status, doctor] = texts;
    assert!(
        next.contains(
            "warning: Claude Code recorded a session 29 min ago, but its hooks last reported 1 h ago."
        ) || next.contains(
            "warning: Claude Code recorded a session 30 min ago, but its hooks last reported 1 h ago."
        ),
        "{next}"
    );
    assert!(next.contains("hint: Start a new session of it"), "{next}");
    assert!(line.contains("Claude Code is silent, see recall doctor"), "{line}");
    assert!(status.contains("but its hooks last reported"), "{status}");
    assert!(doctor.contains("report nothing; it recorded a session"), "{doctor}");
}

#[test]
fn an_agent_is_not_reported_as_silent_while_recording_is_paused() {
    let (stage, records) = reported();
    assert_eq!(stage.recall(["pause"]).code(), 0);
    record(&records.join("s2.jsonl"), 30);
    let stage = stage.variable("RECALL_CLOCK_AHEAD_MS", "3600000");
    let silent = |stage: &Stage| stage.recall(["statusline"]).stdout.contains("is silent");
    assert!(!silent(&stage), "recording is paused");
    assert_eq!(stage.recall(["resume"]).code(), 0);
    assert!(silent(&stage));
}
