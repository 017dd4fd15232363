//! Tests ids, names, folders and branches that were made to do harm: with secrets, a megabyte long, or with
//! characters that control a terminal.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::Stdio;

use recall_tests::Stage;
use recall_tests::repository::Repository;
use serde_json::json;

/// Builds a token from parts, because no source file may contain one.
fn token() -> String {
    ["ghp_", &"a8Kd93jfLs02".repeat(3)].concat()
}

/// Returns all files beneath the stage's home that contain the bytes.
fn holding(stage: &Stage, bytes: &str) -> Vec<PathBuf> {
    let mut folders = vec![stage.home()];
    let mut found = Vec::new();
    while let Some(path) = folders.pop() {
        if path.is_dir() {
            folders.extend(std::fs::read_dir(&path).unwrap().flatten().map(|entry| entry.path()));
        } else if std::fs::read(&path)
            .is_ok_and(|file| memchr::memmem::find(&file, bytes.as_bytes()).is_some())
        {
            found.push(path);
        }
    }
    found
}

#[test]
fn secrets_in_ids_names_folders_and_branches_are_redacted() {
    let mut stage = Stage::new().daemon();
    let token = token();
    let folder = stage.project().join(&token);
    let _inside = Repository::init(&folder);
    Repository::init(&stage.project()).git(&["checkout", "-q", "-b", &format!("fix/{token}")]);
    stage.hook_bytes(&[&token, "Stop"], br#"{"session_id": "of-an-agent", "prompt_id": "p1"}"#);
    let session = format!("session-{token}");
    let fields = |more: serde_json::Value| {
        let mut fields = json!({"cwd": folder, "prompt_id": token, "agent_type": token,
            "transcript_path": format!("/t/{token}.jsonl"), "tool_use_id": token});
        fields.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        fields
    };
    for (name, more) in [
        ("SessionStart", json!({"source": "startup"})),
        ("UserPromptSubmit", json!({"prompt": "Round the cart"})),
        ("PreToolUse", json!({"tool_name": token, "tool_input": {"file_path": format!("/a/{token}")}})),
        ("PostToolUse", json!({"tool_name": token, "tool_input": {}, "tool_response": {"ok": true}})),
        ("SubagentStart", json!({"agent_id": token})),
        ("SubagentStop", json!({"agent_id": token, "last_assistant_message": "Done."})),
        (&*token, json!({"more": token})),
        ("Stop", json!({"last_assistant_message": "The cart is rounded once, after summing."})),
        ("SessionEnd", json!({"reason": token})),
    ] {
        let mut delivery = stage.delivery(&stage.event(&session, name, fields(more)));
        delivery.context.cwd = folder.to_string_lossy().into_owned();
        delivery.event_name.clone_from(&token);
        stage.deliver([&delivery]);
    }
    let prompt = stage.event("on-branch", "UserPromptSubmit", json!({"prompt": "Go", "prompt_id": "p"}));
    stage.deliver([&stage.delivery(&prompt)]);
    stage.flush();
    let session = stage.json(["ctl", "session", "session-[redacted:github-token-"]);
    assert_eq!(session["status"], "completed", "{session}");
    let branch = stage.json(["ctl", "session", "on-branch"])["batches"][0]["branch"].clone();
    assert!(branch.as_str().is_some_and(|name| name.starts_with("fix/[redacted:github-token-")), "{branch}");
    stage.stop_daemon();
    assert_eq!(holding(&stage, &token), Vec::<PathBuf>::new());
}

/// The search through the parents of such a path once took 27 seconds.
#[test]
fn a_path_of_a_megabyte_is_handled_quickly() {
    let stage = Stage::new().daemon();
    let long = "/a".repeat(500_000);
    let before = processor_ms(stage.daemon_pid());
    for (name, more) in [
        ("SessionStart", json!({"source": "startup"})),
        ("PreToolUse", json!({"tool_name": "Read", "tool_input": {"file_path": long}})),
        (
            "PostToolUse",
            json!({"tool_name": "Write", "tool_input": {"file_path": long, "content": "x"}, "tool_response": {}}),
        ),
    ] {
        let mut event = stage.event("long", name, json!({"cwd": long, "transcript_path": long}));
        event.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        let mut delivery = stage.delivery(&event);
        delivery.context.cwd.clone_from(&long);
        delivery.context.project_dir = Some(long.clone());
        stage.deliver([&delivery]);
    }
    stage.flush();
    let took = processor_ms(stage.daemon_pid()) - before;
    assert!(took < 3_000, "{took} ms");
    assert_eq!(stage.json(["ctl", "session", "long"])["cwd"], serde_json::Value::Null);
}

/// Returns the processor time of a process in milliseconds. Linux counts hundredths of a second.
fn processor_ms(pid: u32) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or_default().split(' ').collect();
    [11, 12].iter().filter_map(|at| fields.get(*at)?.parse::<u64>().ok()).sum::<u64>() * 10
}

#[test]
fn followed_events_contain_no_terminal_control_characters() {
    let mut stage = Stage::new().daemon();
    let mut command = stage.command("recall");
    command.args(["ctl", "events", "--follow"]);
    let mut follower =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut lines = BufReader::new(follower.stdout.take().unwrap()).lines();
    assert!(lines.next().unwrap().unwrap().contains("Following"));
    let hostile = "x\u{1b}[2J\u{202e}\u{200b}\u{9b}y";
    let event = stage.event(hostile, "UserPromptSubmit", json!({"prompt": hostile, "prompt_id": hostile}));
    stage.deliver([&stage.delivery(&event)]);
    stage.flush();
    stage.stop_daemon();
    let output: Vec<String> = lines.map(Result::unwrap).collect();
    follower.wait().unwrap();
    assert!(output.iter().any(|line| line.contains("message_received")), "{output:?}");
    let steers = |c: char| c.is_control() || "\u{202e}\u{200b}".contains(c);
    assert!(!output.iter().any(|line| line.contains(steers)), "{output:?}");
}

#[test]
fn control_characters_in_a_folder_name_are_never_printed() {
    let stage = Stage::new().daemon();
    let folder = stage.project().with_file_name("shop\u{202e}gpj.exe\u{200b}\u{1b}[2J\u{9b}x");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(".recall.toml"), "alias = 3\n").unwrap();
    let mut event = stage.event("odd", "UserPromptSubmit", json!({"prompt": "hello"}));
    event["cwd"] = json!(folder);
    let mut delivery = stage.delivery(&event);
    delivery.context.cwd = folder.to_string_lossy().into_owned();
    stage.deliver([&delivery]);
    stage.flush();
    let steers = |c: char| c.is_control() && !matches!(c, '\n' | '\t') || "\u{202e}\u{200b}".contains(c);
    let missing = folder.join("missing");
    for arguments in [
        vec!["doctor"],
        vec!["ctl", "status"],
        vec!["sessions", "--all"],
        vec!["ctl", "session", "odd"],
        vec!["search", "hello"],
        vec!["context"],
        vec!["install", "--dry-run"],
        vec!["import", "recall", missing.to_str().unwrap()],
    ] {
        let mut command = stage.command("recall");
        let output = recall_tests::run(
            {
                command.args(&arguments).current_dir(&folder);
                command
            },
            b"",
        );
        for text in [&output.stdout, &output.stderr] {
            assert!(!text.contains(steers), "{arguments:?}: {text:?}");
        }
        if arguments == ["doctor"] {
            assert!(output.stdout.contains("gpj.exe"), "it names the folder: {output:?}");
        }
    }
}
