//! Tests the user's own `claude` program as a model.

use std::time::{Duration, Instant};

use recall_tests::{Stage, provider};
use serde_json::json;

use super::turns::{origins, turn};

/// Returns a stage where `claude` runs this script. Its folder comes before all others in `PATH`.
fn with_claude(stage: Stage, script: &str) -> Stage {
    use std::os::unix::fs::PermissionsExt;
    let folder = stage.user_home().join("bin");
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("claude");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap_or_default());
    stage.variable("PATH", &path)
}

#[test]
fn a_model_program_of_the_user_runs_without_tools_hooks_or_settings() {
    let answer = json!({"type": "result", "subtype": "success", "is_error": false, "total_cost_usd": 0.002,
        "result": format!("Here: {}", provider::OBSERVATIONS), "usage": {"input_tokens": 11, "output_tokens": 7}});
    let stage = Stage::new()
        .config("[compression]\nbackend = 'claude-cli'\nunit = 'turn'\n")
        .variable("CLAUDECODE", "1")
        .variable("ANTHROPIC_API_KEY", "sk-of-the-program")
        .variable("OPENAI_API_KEY", "sk-of-another")
        .variable("LC_ALL", "C");
    let home = stage.user_home().display().to_string();
    let script = format!(
        "printf '%s\\n' \"$@\" > {home}/arguments; env > {home}/environment; pwd > {home}/folder; cat > {home}/stdin\n\
         cat <<'ANSWER'\n{answer}\nANSWER"
    );
    let stage = with_claude(stage, &script).daemon();
    turn(&stage, "s1");
    stage.flush();
    assert_eq!(origins(&stage, "s1"), ["claude-cli:haiku"], "{}", stage.log());
    let read = |name: &str| std::fs::read_to_string(stage.user_home().join(name)).unwrap();
    let arguments = read("arguments");
    for needed in ["-p", "--tools", "--setting-sources", "--strict-mcp-config", "--no-session-persistence"] {
        assert!(arguments.lines().any(|argument| argument == needed), "{needed}: {arguments}");
    }
    let environment = read("environment");
    assert!(environment.lines().any(|line| line == "RECALL_DISABLE=1"), "{environment}");
    // The shell sets `PWD`, `SHLVL` and `_`.
    let known = ["ANTHROPIC_API_KEY", "HOME", "LC_ALL", "PATH", "PWD", "RECALL_DISABLE", "SHLVL", "_"];
    let names = environment.lines().filter_map(|line| line.split_once('=')).map(|(name, _)| name);
    let unknown: Vec<_> = names.filter(|name| !known.contains(name)).collect();
    assert!(unknown.is_empty(), "{environment}");
    assert!(environment.contains("ANTHROPIC_API_KEY=sk-of-the-program"), "{environment}");
    assert!(read("stdin").contains("<material>"));
    assert!(!std::path::Path::new(read("folder").trim()).exists(), "its folder is gone");
    assert!((stage.json(["stats"])["total"]["usd"].as_f64().unwrap() - 0.002).abs() < 1e-9);
}

#[test]
fn children_of_a_model_program_end_at_its_deadline_or_exit() {
    let good = json!({"is_error": false, "result": provider::OBSERVATIONS});
    let hangs = "echo $$ >> $HOME/pids; sleep 1000 & echo $! >> $HOME/pids; wait";
    let leaves =
        format!("sleep 1000 & echo $! >> $HOME/pids\ncat > /dev/null\ncat <<'ANSWER'\n{good}\nANSWER");
    for (script, timeout_s, expected) in
        [(hangs.to_owned(), 5, "extractive"), (leaves, 300, "claude-cli:haiku")]
    {
        let config = format!(
            "[compression]\nbackend = 'claude-cli'\nunit = 'turn'\ntimeout_s = {timeout_s}\nmax_attempts = 1\n"
        );
        let stage = with_claude(Stage::new().config(&config), &script).daemon();
        turn(&stage, "s1");
        stage.flush();
        assert!(origins(&stage, "s1").iter().all(|origin| origin == expected), "{}", stage.log());
        let pids = std::fs::read_to_string(stage.user_home().join("pids")).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        // A killed process needs a moment to disappear. A forgotten one sleeps for many minutes.
        while pids.lines().any(is_alive) {
            assert!(Instant::now() < deadline, "{expected}: of {pids:?} some live on");
            std::thread::yield_now();
        }
        assert!(!pids.is_empty());
    }
}

/// Creates a pipe and returns its lines. The pipe ends when all processes that have inherited it have ended.
fn lifeline(stage: &Stage) -> std::sync::mpsc::Receiver<String> {
    use std::io::BufRead;
    let pipe = stage.user_home().join("lifeline");
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    let (sender, lines) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let pipe = std::io::BufReader::new(std::fs::File::open(pipe).unwrap());
        // The channel ends with the pipe.
        pipe.lines().for_each(|line| drop(sender.send(line.unwrap())));
    });
    lines
}

#[test]
fn a_model_program_and_its_children_end_with_the_daemon() {
    use std::sync::mpsc::RecvTimeoutError;
    /// Much shorter than a forgotten process would run.
    const PATIENCE: Duration = Duration::from_secs(60);
    let hangs = "exec 9> $HOME/lifeline\nsleep 1000 &\n(sleep 1000) &\necho up >&9\nwait";
    let stops: fn(&mut Stage) = |stage| assert!(stage.stop_daemon().success());
    for end in [Stage::kill_daemon, stops] {
        let stage =
            Stage::new().config("[compression]\nbackend = 'claude-cli'\nunit = 'turn'\ntimeout_s = 900\n");
        let mut stage = with_claude(stage, hangs);
        let lines = lifeline(&stage);
        stage.start_daemon();
        turn(&stage, "s1");
        assert_eq!(lines.recv_timeout(PATIENCE).as_deref(), Ok("up"), "{}", stage.log());
        end(&mut stage);
        assert_eq!(lines.recv_timeout(PATIENCE), Err(RecvTimeoutError::Disconnected), "somebody lives on");
    }
}

/// Returns whether a process is alive. A zombie that its new parent has not collected yet does nothing any more.
fn is_alive(pid: &str) -> bool {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    !status.is_empty() && !status.contains("State:\tZ")
}
