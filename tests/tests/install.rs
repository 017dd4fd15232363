//! Tests `recall install` and `uninstall` with the real binary in a separate home, and runs the hooks that they
//! write.

use std::path::{Path, PathBuf};
use std::process::Command;

use recall_tests::{CommandOutput, Stage, run};
use serde_json::{Value, json};

const SETTINGS: &str = r#"{
  "model": "opus",
  "hooks": {
    "Stop": [{ "hooks": [{ "type": "command", "command": "notify-send done" }] }]
  }
}
"#;

fn settings_file(stage: &Stage) -> PathBuf {
    stage.user_home().join(".claude/settings.json")
}

fn read(stage: &Stage) -> String {
    std::fs::read_to_string(settings_file(stage)).unwrap()
}

/// Returns a stage with the home of a Claude Code user.
fn home() -> Stage {
    let stage = Stage::new();
    std::fs::create_dir(stage.user_home().join(".claude")).unwrap();
    std::fs::write(settings_file(&stage), SETTINGS).unwrap();
    stage
}

#[track_caller]
fn install(stage: &Stage) -> CommandOutput {
    let output = stage.recall(["install", "--agent", "claude-code", "--yes", "--no-service"]);
    assert_eq!(output.code(), 0, "{output:?}");
    output
}

fn parsed(stage: &Stage) -> Value {
    serde_json::from_str(&read(stage)).unwrap()
}

/// Returns the command that Claude Code would start for an event, as the settings contain it.
fn command(stage: &Stage, event: &str) -> Command {
    let settings = parsed(stage);
    let groups =
        settings["hooks"][event].as_array().unwrap_or_else(|| panic!("no hook for {event}: {settings}"));
    let hooks = groups.iter().flat_map(|group| group["hooks"].as_array().unwrap());
    let hook = hooks
        .into_iter()
        .find(|hook| hook.to_string().contains("recall-shim"))
        .unwrap_or_else(|| panic!("no hook of ours for {event}: {settings}"));
    let program = hook["command"].as_str().unwrap();
    let mut command = match hook["args"].as_array() {
        Some(words) => {
            let mut command = Command::new(program);
            command.args(words.iter().map(|word| word.as_str().unwrap()));
            command
        }
        None => {
            let mut command = Command::new("/bin/sh");
            command.args(["-c", program]);
            command
        }
    };
    let environment = stage.command("recall");
    command.env_clear().current_dir(stage.project());
    command.envs(environment.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

#[track_caller]
fn run_hook(stage: &Stage, event: &str, fields: Value) -> CommandOutput {
    let payload = stage.event("next", event, fields).to_string();
    let output = run(command(stage, event), payload.as_bytes());
    assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{output:?}");
    output
}

#[test]
fn hooks_written_by_install_work() {
    let stage = home().daemon();
    install(&stage);
    stage.discount_session("first");
    stage.flush();
    let output = run_hook(&stage, "SessionStart", json!({"source": "startup"}));
    assert!(output.context().contains("Rounding happens once"), "{output:?}");
    run_hook(&stage, "UserPromptSubmit", json!({"prompt": "Go on"}));
    run_hook(&stage, "PostToolUse", json!({"tool_name": "Read", "tool_input": {}, "tool_response": {}}));
    run_hook(&stage, "Stop", json!({"last_assistant_message": "Done."}));
    run_hook(&stage, "SessionEnd", json!({"reason": "other"}));
    stage.flush();
    let session = stage.json(["ctl", "session", "next"]);
    assert_eq!(session["status"], "completed");
    assert_eq!(session["batches"][0]["activities"].as_array().unwrap().len(), 1);
    assert_eq!(session["batches"][0]["response"], "Done.");
}

#[test]
fn the_welcome_is_shown_only_in_the_first_session_after_the_installation() {
    let stage = home();
    install(&stage);
    let stage = stage.daemon();
    let start = |id: &str| {
        let fields = json!({"source": "startup", "model": "opus"});
        let payload = stage.event(id, "SessionStart", fields).to_string();
        let output = run(command(&stage, "SessionStart"), payload.as_bytes());
        let answer: Value = serde_json::from_str(&output.stdout).unwrap_or(Value::Null);
        assert_eq!(output.context(), "", "an empty project says nothing to the agent");
        answer["systemMessage"].as_str().unwrap_or_default().to_owned()
    };
    assert!(start("first").starts_with("recall is on"));
    assert_eq!(start("second"), "");
    install(&stage);
    assert_eq!(start("third"), "", "nothing was installed anew");
    let log = std::fs::read_to_string(stage.home().join("state/log/recall.log")).unwrap();
    assert!(log.contains("session started") && log.contains("first"), "{log}");
}

/// Returns a stage with the home of a Claude Code user who has worked before.
fn home_with_history() -> Stage {
    let stage = home();
    let recorded = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/transcripts/claude-code");
    let projects = stage.user_home().join(".claude/projects/-home-dev-shop");
    std::fs::create_dir_all(&projects).unwrap();
    for entry in std::fs::read_dir(recorded).unwrap().flatten().filter(|entry| entry.path().is_file()) {
        std::fs::copy(entry.path(), projects.join(entry.file_name())).unwrap();
    }
    stage
}

#[test]
fn an_installation_reports_earlier_sessions_that_can_be_imported() {
    let stage = home_with_history();
    let output = install(&stage);
    assert!(output.stdout.contains("Found 4 earlier sessions; `recall import` imports them."), "{output:?}");
    // If there is a memory, the user knows about the earlier sessions.
    let stage = stage.daemon();
    stage.flush();
    let output = install(&stage);
    assert!(!output.stdout.contains("earlier"), "{output:?}");
    let output = stage.recall(["install", "--agent", "claude-code", "--yes", "--no-service", "--import"]);
    assert!(output.stdout.contains("Imported 4 sessions"), "{output:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn at_a_terminal_an_installation_offers_to_import() {
    let stage = home_with_history();
    let recall = stage.command("recall");
    let line = format!("{} install --agent claude-code --no-service", recall.get_program().display());
    let answered = |answers: &str| {
        let mut terminal = stage.command("recall");
        terminal = {
            // `script` gives the program a terminal.
            let mut command = Command::new("script");
            command.env_clear().args(["-qec", &line, "/dev/null"]).current_dir(stage.project());
            command.envs(terminal.get_envs().filter_map(|(name, value)| Some((name, value?))));
            command.env_remove("RECALL_NO_DAEMON_START");
            command
        };
        run(terminal, answers.as_bytes()).stdout
    };
    let stdout = answered("y\nno\n");
    assert!(stdout.contains("Found 4 sessions of 1 project from before."), "{stdout}");
    assert!(
        stdout.contains("Import them (less than a minute)?") && stdout.contains("does it later"),
        "{stdout}"
    );
    // The second installation has nothing to change, so it asks only about the import. There is still no memory.
    let stdout = answered("y\n");
    assert!(stdout.contains("Imported 4 sessions"), "{stdout}");
}

#[test]
fn install_keeps_the_users_settings_and_a_second_run_changes_nothing() {
    let stage = home();
    install(&stage);
    let once = read(&stage);
    assert!(once.starts_with("{\n  \"model\": \"opus\",\n"), "{once}");
    let stops = parsed(&stage)["hooks"]["Stop"].to_string();
    assert!(stops.contains("notify-send done") && stops.contains("recall-shim"), "{stops}");
    install(&stage);
    assert_eq!(read(&stage), once);
}

#[test]
fn uninstall_keeps_the_memory_unless_purge_is_given() {
    let stage = Stage::new();
    stage.discount_session("first");
    assert_eq!(stage.recall(["remember", "Prices are in cents."]).code(), 0);
    let output = stage.recall(["uninstall", "--yes"]);
    assert_eq!(output.code(), 0, "{output:?}");
    let stays = format!("Your memory stays in {} (", stage.home().join("data").display());
    assert!(
        output.stdout.contains(&stays) && output.stdout.contains("`recall uninstall --purge`"),
        "{output:?}"
    );
    let output = stage.recall(["uninstall", "--purge", "--dry-run"]);
    assert!(output.stdout.contains("Memory: delete ") && stage.database().exists(), "{output:?}");
    assert_eq!(stage.recall(["uninstall", "--purge", "--agent", "claude-code"]).code(), 2);
    let output = stage.recall(["uninstall", "--purge", "--yes"]);
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(output.stdout.ends_with("Deleted the memory.\n"), "{output:?}");
    for folder in ["data", "state"] {
        assert!(!stage.home().join(folder).exists(), "{folder}");
    }
}

#[test]
fn uninstall_restores_the_original_settings() {
    let stage = home();
    install(&stage);
    let uninstall = || stage.recall(["uninstall", "--agent", "claude-code", "--yes"]);
    assert_eq!(uninstall().code(), 0);
    assert_eq!(read(&stage), SETTINGS);
    assert_eq!(uninstall().code(), 0, "again is fine");
    assert_eq!(read(&stage), SETTINGS);
}

#[test]
fn a_dry_run_changes_nothing() {
    let stage = home();
    let output = stage.recall(["install", "--agent", "claude-code", "--dry-run", "--no-service"]);
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(output.stdout.contains("recall-shim"), "it shows what it would write: {output:?}");
    assert_eq!(read(&stage), SETTINGS);
    let left: Vec<_> = std::fs::read_dir(stage.user_home().join(".claude")).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[test]
fn settings_that_cannot_be_read_are_not_touched() {
    let stage = home();
    std::fs::write(settings_file(&stage), "{ \"hooks\": [").unwrap();
    let output = stage.recall(["install", "--agent", "claude-code", "--yes", "--no-service"]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains("settings.json"), "{output:?}");
    assert_eq!(read(&stage), "{ \"hooks\": [");
}

#[test]
fn events_of_hooks_registered_twice_are_stored_once_and_reported() {
    let stage = home().daemon();
    install(&stage);
    let again = stage.project().join(".claude/settings.local.json");
    std::fs::create_dir_all(again.parent().unwrap()).unwrap();
    let line = format!("{} claude-code # again", recall_tests::binaries().join("recall-shim").display());
    let entry = json!([{"hooks": [{"type": "command", "command": line}]}]);
    std::fs::write(&again, json!({"hooks": {"PostToolUse": entry, "Stop": entry}}).to_string()).unwrap();
    let output = stage.recall(["doctor"]).stdout;
    assert!(output.contains("2 hooks of ") && output.contains("settings.local.json"), "{output}");

    let prompt = json!({"prompt": "Go on", "prompt_id": "p1"});
    let call = json!({"tool_name": "Read", "tool_input": {}, "tool_response": {}, "tool_use_id": "t1", "prompt_id": "p1"});
    let stop = json!({"last_assistant_message": "Done.", "prompt_id": "p1"});
    for (event, fields) in [("UserPromptSubmit", prompt), ("PostToolUse", call), ("Stop", stop)] {
        run_hook(&stage, event, fields.clone());
        assert_eq!(run_hook(&stage, event, fields).stdout, "");
    }
    stage.flush();
    let events = stage.json(["ctl", "status"])["events"].clone();
    assert_eq!((&events["stored"], &events["duplicates"]), (&json!(3), &json!(3)), "{events}");
    assert_eq!(events["told_twice"], 2, "an end of a turn may come again: {events}");
    assert!(stage.recall(["doctor"]).stdout.contains("2 events were reported by two hooks"));
    assert!(stage.recall(["ctl", "status"]).stdout.contains("reported by a second hook"));
}
