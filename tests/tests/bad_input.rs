//! Tests bad input. Whatever an agent writes, the hook succeeds and the event is kept. Whatever a person types gets a
//! readable answer.

use std::os::unix::net::UnixListener;

use recall_tests::{CommandOutput, Stage, masked_text};
use serde_json::{Value, json};

#[track_caller]
fn ends_well(output: &CommandOutput, case: &str) {
    assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{case}: {output:?}");
    assert!(output.stdout.is_empty() || output.json().is_object(), "{case}: {output:?}");
}

/// Returns an event with raw bytes in place of its prompt's text.
fn prompt_with(stage: &Stage, session: &str, raw: &[u8]) -> Vec<u8> {
    let event = stage.event(session, "UserPromptSubmit", json!({"prompt": "@"})).to_string();
    let (before, after) = event.split_once("\"@\"").unwrap();
    [before.as_bytes(), b"\"", raw, b"\"", after.as_bytes()].concat()
}

fn status(stage: &Stage) -> Value {
    stage.flush();
    stage.json(["ctl", "status"])
}

/// Runs one hook with these bytes and checks that they are stored. `unparsed` is 1 if they are kept as they came, and
/// 0 if they are understood.
#[track_caller]
fn is_kept(bytes: impl FnOnce(&Stage) -> Vec<u8>, unparsed: u32) -> Stage {
    let stage = Stage::new().daemon();
    let output = stage.hook_bytes(&["claude-code"], &bytes(&stage));
    ends_well(&output, "");
    let events = &status(&stage)["events"];
    assert_eq!((&events["stored"], &events["unparsed"]), (&json!(1), &json!(unparsed)), "{events}");
    assert_eq!((&events["spooled"], &events["dropped"]), (&json!(0), &json!(0)), "{events}");
    stage
}

#[test]
fn an_empty_hook_payload_is_stored_unparsed() {
    is_kept(|_| Vec::new(), 1);
}

#[test]
fn half_a_hook_payload_is_stored_unparsed() {
    is_kept(|stage| stage.event("one", "Stop", json!({})).to_string().as_bytes()[..60].to_vec(), 1);
}

#[test]
fn a_hook_payload_that_is_not_json_is_stored_unparsed() {
    is_kept(|_| b"Segmentation fault (core dumped)\n".to_vec(), 1);
}

#[test]
fn a_hook_payload_that_is_an_array_is_stored_unparsed() {
    is_kept(|_| b"[{\"session_id\": \"one\", \"hook_event_name\": \"Stop\"}]".to_vec(), 1);
}

#[test]
fn a_hook_payload_without_a_session_or_event_name_is_stored_unparsed() {
    is_kept(|_| b"{\"hook_event_name\": \"Stop\"}".to_vec(), 1);
    is_kept(|_| b"{\"session_id\": \"one\"}".to_vec(), 1);
    is_kept(|_| b"{\"session_id\": 7, \"hook_event_name\": {}}".to_vec(), 1);
}

#[test]
fn nearly_valid_json_is_parsed() {
    let prompt_of = |bytes: &dyn Fn(&Stage) -> Vec<u8>| {
        let stage = is_kept(|stage| bytes(stage), 0);
        stage.json(["ctl", "session", "one"])["batches"][0]["prompt"].as_str().unwrap().to_owned()
    };
    assert_eq!(
        prompt_of(&|stage| prompt_with(stage, "one", b"caf\xe9 \xff\xfe")),
        "caf\u{fffd} \u{fffd}\u{fffd}"
    );
    assert_eq!(prompt_of(&|stage| prompt_with(stage, "one", b"line one\nline\ttwo")), "line one\nline\ttwo");
    assert_eq!(
        prompt_of(&|stage| [b"starting...\n".to_vec(), prompt_with(stage, "one", b"go")].concat()),
        "go"
    );
    let blocks = |stage: &Stage| {
        let blocks = json!([{"type": "text", "text": "as"}, {"type": "text", "text": "blocks"}]);
        stage.event("one", "UserPromptSubmit", json!({"prompt": blocks})).to_string().into_bytes()
    };
    assert_eq!(prompt_of(&blocks), "as\nblocks");
}

#[test]
fn a_truncated_stop_event_still_ends_its_turn() {
    let stage = Stage::new().daemon();
    stage.hook(&stage.event("one", "UserPromptSubmit", json!({"prompt": "please fix"})));
    let whole = stage.event("one", "Stop", json!({"last_assistant_message": "Fixed: the comma is kept"}));
    let whole = whole.to_string();
    let (before, _) = whole.split_once(" is kept").unwrap();
    ends_well(&stage.hook_bytes(&["claude-code"], before.as_bytes()), before);
    stage.flush();
    let batch = stage.json(["ctl", "session", "one"])["batches"][0].clone();
    assert_eq!(
        (&batch["response"], &batch["status"]),
        (&json!("Fixed: the comma"), &json!("closed")),
        "{batch}"
    );
}

#[test]
fn the_doctor_reports_events_that_could_not_be_parsed() {
    let stage = is_kept(|_| b"Segmentation fault (core dumped)\n".to_vec(), 1);
    let output = stage.recall(["doctor"]);
    assert!(
        output.stdout.contains("1 event could not be parsed; the last came from claude-code just now"),
        "{output:?}"
    );
}

#[test]
fn calls_with_a_lone_surrogate_are_shown_and_their_plan_is_stored() {
    let stage = Stage::new().daemon();
    let call = |number: u32, tool: &str, input: &str| {
        let event = stage.event(
            "one",
            "PostToolUse",
            json!({"tool_name": tool, "tool_use_id": number.to_string(),
            "tool_input": "@", "tool_response": {"type": "create"}}),
        );
        stage.hook_bytes(&["claude-code"], event.to_string().replace("\"@\"", input).as_bytes());
    };
    stage.hook(&stage.event("one", "UserPromptSubmit", json!({"prompt": "go"})));
    call(1, "Edit", r#"{"file_path":"src/a.rs","old_string":"\ud83d","new_string":"x"}"#);
    let plan = stage.project().join(".claude/plans/p.md");
    call(
        2,
        "Write",
        &format!(r##"{{"file_path":{:?},"content":"# Plan \udcff\n- one"}}"##, plan.to_str().unwrap()),
    );
    stage.flush();
    assert_eq!(stage.recall(["ctl", "session", "one"]).code(), 0);
    let plans = stage.json(["sql", "SELECT title FROM plans"]);
    assert_eq!(plans["rows"].as_array().unwrap().len(), 1, "{plans}");
}

/// A hook reads all of its input.
#[test]
fn writing_to_a_hook_never_ends_in_a_broken_pipe() {
    use std::io::Write;
    use std::process::Stdio;

    let stage = Stage::new().daemon();
    let event = stage.event("one", "Stop", json!({})).to_string();
    let with = |behind: &str| format!("{event}{behind}").into_bytes();
    let long = "x".repeat(300_000);
    type Case<'a> = (&'a [&'a str], Option<(&'a str, &'a str)>, Vec<u8>);
    let cases: [Case<'_>; 6] = [
        (&["claude-code"], Some(("RECALL_DISABLE", "1")), long.clone().into_bytes()),
        (&["--help"], None, long.clone().into_bytes()),
        (&["--version"], None, long.clone().into_bytes()),
        (&["--frob"], None, long.into_bytes()),
        (&["claude-code"], None, with(&" ".repeat(300_000))),
        (&["claude-code"], None, with(&"{\"a\":1}".repeat(40_000))),
    ];
    for (arguments, variable, input) in cases {
        let mut command = stage.command("recall-shim");
        command
            .args(arguments)
            .envs(variable)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        let written = stdin.write_all(&input);
        drop(stdin);
        assert!(
            child.wait().unwrap().success() && written.is_ok(),
            "{arguments:?} {variable:?}: {written:?}"
        );
    }
}

#[test]
fn deeply_nested_json_is_stored_and_shown() {
    is_kept(|_| vec![b'['; 100_000], 1);
    let deep = |stage: &Stage| {
        let event = stage.event("one", "PostToolUse", json!({"tool_name": "Read", "tool_response": "@"}));
        let nested = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
        event.to_string().replace("\"@\"", &nested).into_bytes()
    };
    // recall only looks for the end of a call's answer, so any depth works. The commands that show it must handle it
    // too.
    let stage = is_kept(deep, 0);
    let session = stage.json(["ctl", "session", "one"]);
    assert_eq!(session["batches"][0]["activities"][0]["tool_name"], "Read");
    assert_eq!(stage.recall(["ctl", "session", "one"]).code(), 0);
    assert_eq!(stage.recall(["show", "a1"]).code(), 0);
}

#[test]
fn nul_bytes_are_kept() {
    is_kept(|_| vec![0; 1000], 1);
    let stage = is_kept(|stage| prompt_with(stage, "one", b"before\\u0000after"), 0);
    let prompt = stage.json(["ctl", "session", "one"])["batches"][0]["prompt"].clone();
    assert_eq!(prompt, "before\0after");
}

#[test]
fn a_prompt_with_a_lone_surrogate_keeps_the_text_around_it() {
    let stage = Stage::new().daemon();
    let output = stage.hook_bytes(&["claude-code"], &prompt_with(&stage, "one", b"before \\ud83d after"));
    ends_well(&output, "");
    let events = &status(&stage)["events"];
    assert_eq!(events["stored"], 1, "{events}");
    if events["unparsed"] == 0 {
        let prompt = stage.json(["ctl", "session", "one"])["batches"][0]["prompt"].clone();
        let prompt = prompt.as_str().unwrap();
        assert!(prompt.starts_with("before ") && prompt.ends_with(" after"), "{prompt:?}");
    }
}

#[test]
fn five_megabytes_of_output_are_truncated_but_keep_both_ends() {
    let text = format!("BEGIN {} END", "x".repeat(5 * 1024 * 1024));
    let length = text.len();
    let stage = is_kept(
        |stage| {
            let fields = json!({"tool_name": "Bash", "tool_input": {"command": "yes"},
                "tool_response": {"stdout": text}, "tool_use_id": "t1"});
            stage.event("one", "PostToolUse", fields).to_string().into_bytes()
        },
        0,
    );
    let session = stage.json(["ctl", "session", "one"]);
    let activity = &session["batches"][0]["activities"][0];
    assert_eq!(activity["tool_use_id"], "t1", "what stands behind the long text is there");
    let stored = activity["response"]["stdout"].as_str().unwrap();
    assert!(stored.len() < 512 * 1024, "{}", stored.len());
    assert!(stored.starts_with("BEGIN ") && stored.ends_with(" END"));
    assert!(stored.contains(&length.to_string()), "its true length is told");
}

#[test]
fn an_event_with_an_unknown_or_missing_agent_name_is_stored() {
    let stage = Stage::new().daemon();
    let event = stage.event("one", "UserPromptSubmit", json!({"prompt": "hello"})).to_string();
    for arguments in [&["from-the-future"][..], &[], &["claude-code", "UserPromptSubmit"]] {
        ends_well(&stage.hook_bytes(arguments, event.as_bytes()), "");
    }
    let events = &status(&stage)["events"];
    assert_eq!((&events["stored"], &events["unparsed"]), (&json!(3), &json!(0)), "{events}");
}

/// Returns a command's whole answer, as a person sees it, without what differs between two runs.
fn masked_output(stage: &Stage, output: &CommandOutput) -> String {
    let text = format!("exit {}\n-- stdout\n{}-- stderr\n{}", output.code(), output.stdout, output.stderr);
    masked_text(&text, stage)
}

macro_rules! assert_output_snapshot {
    ($stage:expr, $name:literal, $($word:expr),+) => {
        insta::assert_snapshot!($name, masked_output(&$stage, &$stage.recall([$($word),+])))
    };
}

#[test]
fn commands_report_unknown_ids_sessions_projects_and_times() {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    stage.flush();
    assert_output_snapshot!(stage, "no_such_session", "ctl", "session", "nobody");
    assert_output_snapshot!(stage, "why_no_such_session", "why", "nobody");
    assert_output_snapshot!(stage, "no_such_observation", "show", "999");
    assert_output_snapshot!(stage, "no_such_prompt", "show", "p999");
    assert_output_snapshot!(stage, "no_id", "show", "x1y");
    assert_output_snapshot!(stage, "no_time", "search", "rounding", "--since", "the other day");
    assert_output_snapshot!(stage, "no_such_project", "search", "rounding", "--project", "unheard-of");
    assert_output_snapshot!(stage, "no_such_folder", "search", "rounding", "--project", "./not/here");
    assert_output_snapshot!(stage, "nothing_found", "search", "photosynthesis");
}

#[test]
fn an_ambiguous_session_id_is_rejected() {
    let stage = Stage::new().daemon();
    for session in ["twin-1", "twin-2"] {
        stage.hook(&stage.event(session, "SessionStart", json!({"source": "startup"})));
    }
    assert_output_snapshot!(stage, "several_sessions", "ctl", "session", "twin");
    assert_eq!(stage.json(["ctl", "session", "twin-1"])["session_id"], "twin-1");
}

#[test]
fn a_search_query_is_never_a_syntax_error() {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    stage.flush();
    for query in ["\"", "(((", "a AND", "file:/", "*", "~^:\\", "-", "[1 TO", "never:since", "🧾"] {
        let output = stage.recall(["search", "--json", "--", query]);
        assert_eq!(output.code(), 0, "{query}: {output:?}");
        assert!(output.json()["results"].is_array(), "{query}");
    }
    let without = stage.json(["search", "rounding", "-discount"]);
    let with = stage.json(["search", "rounding"]);
    assert!(without["total"].as_u64() < with["total"].as_u64(), "{without} {with}");
}

#[test]
fn a_wrong_command_line_is_rejected_with_an_explanation() {
    let stage = Stage::new();
    assert_output_snapshot!(stage, "unknown_command", "remind");
    assert_output_snapshot!(stage, "unknown_option", "ctl", "status", "--jason");
    assert_output_snapshot!(stage, "missing_argument", "show");
}

#[test]
fn ctl_reports_a_missing_daemon_and_starts_none() {
    let stage = Stage::new();
    assert_output_snapshot!(stage, "no_daemon", "ctl", "status");
    assert_output_snapshot!(stage, "no_daemon_to_stop", "ctl", "stop");
    assert!(!stage.home().join("data/recall.db").exists(), "ctl starts nothing");
}

/// Everyday commands work without a running daemon.
#[test]
fn a_pause_starts_the_daemon_and_survives_its_restart() {
    let stage = Stage::new();
    let output = stage.recall(["pause"]);
    assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{output:?}");
    assert_eq!(stage.recall(["ctl", "stop"]).code(), 0);
    let output = stage.recall(["sessions"]);
    assert!(output.stdout.starts_with("No sessions yet."), "{output:?}");
    assert!(stage.recall(["status"]).stdout.contains("Paused until `recall resume`"));
    assert_eq!(stage.recall(["ctl", "stop"]).code(), 0);
}

#[test]
fn a_search_starts_the_daemon_and_answers() {
    let stage = Stage::new();
    let event = stage.event("one", "UserPromptSubmit", json!({"prompt": "Where is the flamingo kept?"}));
    stage.hook(&event);
    assert_eq!(stage.spooled().len(), 1);
    let output = stage.recall(["search", "flamingo", "--json"]);
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(output.json()["results"].is_array());
    // The daemon goes on running, and has stored the waiting event.
    stage.flush();
    assert_eq!(stage.json(["search", "flamingo"])["results"][0]["kind"], "prompt");
}

#[test]
fn a_daemon_that_never_answers_is_reported_and_the_event_is_spooled() {
    let stage = Stage::new().variable("RECALL_ANSWER_MS", "50");
    std::fs::create_dir_all(stage.home().join("run")).unwrap();
    let _silent = UnixListener::bind(stage.socket()).unwrap();
    let doctor = stage.recall(["doctor", "--json"]);
    assert_eq!(doctor.code(), 1, "{doctor:?}");
    let report = doctor.json();
    let daemon = report["findings"].as_array().unwrap().iter().find(|each| each["area"] == "daemon").unwrap();
    assert_eq!(daemon["health"], "bad", "{daemon}");
    assert!(daemon["what"].as_str().unwrap().contains("did not respond"), "{daemon}");
    // The agent does not wait for the daemon, and nothing is lost.
    let hook = stage.hook(&stage.event("one", "Stop", json!({})));
    assert_eq!(hook.stdout, "");
    assert_eq!(stage.spooled().len(), 1);
}

#[test]
fn ctl_reports_a_daemon_that_accepts_no_connection() {
    let stage = Stage::new();
    std::fs::create_dir_all(stage.home().join("run")).unwrap();
    let full = UnixListener::bind(stage.socket()).unwrap();
    rustix::net::listen(&full, 0).unwrap();
    let _first = std::os::unix::net::UnixStream::connect(stage.socket()).unwrap();
    assert_output_snapshot!(stage, "no_answer", "ctl", "status");
}

#[test]
fn ctl_reports_a_daemon_that_closes_the_connection() {
    let stage = Stage::new();
    std::fs::create_dir_all(stage.home().join("run")).unwrap();
    let listener = UnixListener::bind(stage.socket()).unwrap();
    let rude = std::thread::spawn(move || drop(listener.accept().unwrap()));
    let output = stage.recall(["ctl", "status"]);
    rude.join().unwrap();
    assert_eq!(output.code(), 3, "{output:?}");
    assert!(output.stderr.contains("The daemon did not respond"), "{output:?}");
}

#[test]
fn a_broken_config_is_reported_and_does_not_stop_the_daemon() {
    let stage = Stage::new().config("[timers]\nbatch_idle_s = 5\nbatch_idle = 3\n").daemon();
    let doctor = stage.recall(["doctor", "--json"]);
    assert_eq!(doctor.code(), 1, "{doctor:?}");
    let report = doctor.json();
    let config = report["findings"].as_array().unwrap().iter().find(|each| each["area"] == "config").unwrap();
    assert_eq!(config["health"], "bad", "{config}");
    let what = config["what"].as_str().unwrap();
    assert!(what.contains("config.toml, line 3, column 1: unknown key `batch_idle` in [timers]"), "{what}");
    // The daemon uses the defaults.
    stage.discount_session("first");
    stage.flush();
    assert_eq!(stage.json(["ctl", "session", "first"])["status"], "completed");
    assert!(stage.log().contains("the configuration has an error"), "{}", stage.log());
}

#[test]
fn a_home_that_is_a_file_is_reported_and_not_changed() {
    let stage = Stage::new();
    std::fs::write(stage.home(), "not a folder").unwrap();
    assert_output_snapshot!(stage, "home_is_a_file", "daemon");
    // A hook cannot keep its event anywhere, but it does not disturb the agent.
    stage.hook(&stage.event("one", "Stop", json!({})));
    assert_eq!(stage.recall(["search", "anything"]).code(), 3);
    assert_eq!(stage.recall(["doctor"]).code(), 1);
    assert_eq!(std::fs::read_to_string(stage.home()).unwrap(), "not a folder");
}

#[test]
fn a_database_of_a_newer_program_is_rejected_and_not_changed() {
    let mut stage = Stage::new().daemon();
    stage.discount_session("first");
    stage.flush();
    stage.stop_daemon();
    let database = rusqlite::Connection::open(stage.database()).unwrap();
    database.pragma_update(None, "user_version", 999).unwrap();
    drop(database);
    let before = std::fs::read(stage.database()).unwrap();
    assert_output_snapshot!(stage, "database_too_new", "daemon");
    assert_eq!(std::fs::read(stage.database()).unwrap(), before);
    // Events wait for the program that understands the database.
    stage.hook(&stage.event("one", "Stop", json!({})));
    assert_eq!(stage.spooled().len(), 1);
}

/// Agents' sandboxes do this: every `connect` fails with EPERM.
#[test]
fn commands_report_a_sandbox_that_forbids_the_connection() {
    use recall_tests::faults::syscalls::strace_works;

    if !strace_works() {
        println!("skipped: strace is missing or may not trace");
        return;
    }
    let stage = Stage::new().daemon();
    let sandboxed = |arguments: &[&str]| {
        let recall = stage.command("recall");
        let mut command = std::process::Command::new("strace");
        command.args(["-f", "-qq", "-o", "/dev/null", "-e", "inject=connect:error=EPERM"]);
        command.arg(recall.get_program()).args(arguments).env_clear().current_dir(stage.project());
        command.envs(recall.get_envs().filter_map(|(name, value)| Some((name, value?))));
        recall_tests::run(command, b"")
    };
    let search = sandboxed(&["search", "x"]);
    assert_eq!(search.code(), 3, "{search:?}");
    assert!(search.stderr.contains("The sandbox around this command forbids the connection"), "{search:?}");
    assert!(!search.stderr.contains("lost"), "{search:?}");
    assert_eq!(sandboxed(&["statusline"]).stdout, "recall cannot be reached from this sandbox\n");
    let doctor = sandboxed(&["doctor"]);
    assert!(doctor.stdout.contains("the sandbox around this command forbids the connection"), "{doctor:?}");
    assert!(!doctor.stdout.contains("another user") && !doctor.stdout.contains("lost"), "{doctor:?}");
}
