//! Tests a configuration with mistakes, and one that changes: what is excluded stays excluded, and every command
//! reports the mistakes.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

use recall_tests::Stage;
use serde_json::json;

/// Excludes the stage's own project.
const EXCLUDE: &str = "[capture]\nexclude = ['shop']\n";

fn write(stage: &Stage, text: &str) {
    // Editors write a file this way.
    let draft = stage.home().join("config.toml.new");
    std::fs::write(&draft, text).unwrap();
    std::fs::rename(draft, stage.home().join("config.toml")).unwrap();
}

fn prompt(stage: &Stage, session: &str, text: &str) {
    stage.hook(&stage.event(session, "UserPromptSubmit", json!({"prompt": text, "prompt_id": session})));
}

#[track_caller]
fn counts(stage: &Stage, stored: u64, excluded: u64) {
    stage.flush();
    let events = stage.json(["ctl", "status"])["events"].clone();
    assert_eq!((&events["stored"], &events["excluded"]), (&json!(stored), &json!(excluded)), "{events}");
}

#[test]
fn exclusions_apply_despite_other_config_errors_and_commands_report_them() {
    let text = format!("{EXCLUDE}chunk_kb = 0\n[context]\nstart_token = 900\n[timers]\nbatch_idle_s = 'x'\n");
    let stage = Stage::new().config(&text).daemon();
    stage.discount_session("first");
    counts(&stage, 0, 7);
    let status = stage.json(["ctl", "status"]);
    let errors = status["config"]["errors"].as_array().unwrap();
    let lines: Vec<_> =
        errors.iter().map(|error| error.as_str().unwrap().split(',').next().unwrap()).collect();
    assert_eq!(lines, ["line 3", "line 5", "line 7"], "{status}");
    // There was never a file without errors.
    assert_eq!(
        status["config"]["consequence"], "Valid settings are used; the rest have their defaults.",
        "{status}"
    );
    let output = stage.recall(["ctl", "status"]).stdout;
    assert!(
        output.contains(
            "config.toml, line 5, column 1: unknown key `start_token` in [context]; did you mean `start_tokens`?"
        ),
        "{output}"
    );
    let search = stage.recall(["search", "anything"]).stdout;
    assert!(search.contains("config.toml has errors: line 3, column 1: capture.chunk_kb is 0"), "{search}");
    assert_eq!(stage.json(["search", "anything"])["config_errors"].as_array().unwrap().len(), 3);
    let doctor = stage.recall(["doctor"]);
    assert_eq!(doctor.code(), 1);
    for line in ["line 3", "line 5", "line 7"] {
        assert!(doctor.stdout.contains(&format!("config.toml, {line}, column ")), "{}", doctor.stdout);
    }
    // A session that starts in another project shows the errors to the user.
    let other = stage.user_home().join("other");
    std::fs::create_dir(&other).unwrap();
    let mut start = stage.event("two", "SessionStart", json!({"source": "startup", "model": "claude"}));
    start["cwd"] = json!(other);
    let mut delivery = stage.delivery(&start);
    delivery.context.cwd = other.to_string_lossy().into_owned();
    let reply = stage.deliver(&[delivery]).remove(0);
    let recall_protocol::wire::Reply::Ack { stdout } = reply else { panic!("{reply:?}") };
    let notice = String::from_utf8(stdout).unwrap();
    assert!(notice.contains("config.toml has errors: line 3") && notice.contains("and 2 more"), "{notice}");
}

#[test]
fn a_broken_config_keeps_the_exclusions_of_the_last_valid_one() {
    let mut stage = Stage::new().config(EXCLUDE).daemon();
    // The daemon writes the note before it answers anything.
    stage.flush();
    let note = stage.home().join("state/last-config.json");
    assert_eq!(note.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    let file = stage.home().join("config.toml");
    let broken: [fn(&Path); 4] = [
        |file| std::fs::write(file, "[capture]\nexclude = 'shop'\n").unwrap(),
        |file| std::fs::write(file, "[capture\nexclude = ").unwrap(),
        |file| std::fs::write(file, [0xff, 0xfe, 0]).unwrap(),
        |file| {
            std::fs::remove_file(file).unwrap();
            std::fs::create_dir(file).unwrap();
        },
    ];
    for broken in broken {
        stage.stop_daemon();
        broken(&file);
        stage.start_daemon();
        prompt(&stage, "one", "hello");
        counts(&stage, 0, 1);
        let config = stage.json(["ctl", "status"])["config"].clone();
        assert!(!config["errors"].as_array().unwrap().is_empty());
        let consequence = config["consequence"].as_str().unwrap();
        assert!(consequence.contains("exclusions of the last file without errors"), "{config}");
    }
    // The corrected file takes effect as it is written.
    std::fs::remove_dir(&file).unwrap();
    write(&stage, "[capture]\nexclude = ['else']\n");
    stage.flush();
    prompt(&stage, "two", "hello");
    counts(&stage, 1, 1);
    assert_eq!(stage.json(["ctl", "status"])["config"]["errors"], json!([]));
}

#[test]
fn nothing_is_recorded_while_the_exclusions_are_unreadable() {
    let stage = Stage::new().config("[capture]\nexclude = 'else'\n").daemon();
    prompt(&stage, "one", "hello");
    counts(&stage, 0, 1);
    let start = stage.event("one", "SessionStart", json!({"source": "startup", "model": "claude"}));
    let notice = stage.hook(&start).stdout;
    assert!(notice.contains("Recording is off") && notice.contains("line 2"), "{notice}");
    let status = stage.recall(["ctl", "status"]).stdout;
    assert!(status.contains("Recording is off"), "{status}");
    assert!(stage.recall(["doctor"]).stdout.contains("Recording is off"));
    // The file is corrected while the daemon runs.
    write(&stage, "[capture]\nexclude = ['else']\n");
    stage.flush();
    prompt(&stage, "two", "hello");
    counts(&stage, 1, 2);
}

#[test]
fn changed_redactions_and_exclusions_take_effect_while_the_daemon_runs() {
    let stage = Stage::new().daemon();
    prompt(&stage, "one", "hello ACME-1");
    counts(&stage, 1, 0);
    write(&stage, "[redaction]\nextra = ['ACME-\\d+']\n[context]\nstart_tokens = 70\n");
    stage.flush();
    prompt(&stage, "two", "hello ACME-1");
    counts(&stage, 2, 0);
    let prompt_of = |id: &str| stage.json(["ctl", "session", id])["batches"][0]["prompt"].to_string();
    assert!(prompt_of("one").contains("ACME-1") && !prompt_of("two").contains("ACME-1"));
    write(&stage, EXCLUDE);
    stage.flush();
    prompt(&stage, "three", "hello");
    counts(&stage, 2, 1);
    // A mistake does not cancel the exclusion.
    write(&stage, "[capture]\nexclude = 7\n");
    stage.flush();
    prompt(&stage, "four", "hello");
    counts(&stage, 2, 2);
    // The daemon also takes up a change without a flush.
    write(&stage, "");
    let deadline = Instant::now() + Duration::from_secs(30);
    while stage.json(["ctl", "status"])["config"]["errors"] != json!([]) {
        assert!(Instant::now() < deadline, "the change is not taken up");
    }
    prompt(&stage, "five", "hello");
    counts(&stage, 3, 2);
}

/// Settings that an actor reads when it starts take effect too. The actor is restarted, and the daemon and its
/// sessions go on.
#[test]
fn changed_settings_take_effect_without_a_restart_of_the_daemon() {
    let stage = Stage::new().daemon();
    let pid = stage.daemon_pid();
    let read = |session: &str, id: &str| {
        let call = json!({"tool_name": "Read", "tool_use_id": id, "prompt_id": session,
            "tool_input": {"file_path": stage.project().join("notes.md")}, "tool_response": {"content": "the text"}});
        stage.hook(&stage.event(session, "PostToolUse", call));
    };
    prompt(&stage, "one", "hello");
    read("one", "t1");
    stage.flush();
    let events_file = stage.user_home().join("said");
    let script = format!("cat >>'{}'", events_file.display());
    write(
        &stage,
        &format!(
            "[capture]\nskip_tools = ['Read']\n[durability]\nsync = 'normal'\n[timers]\nbatch_idle_s = 9\n\
             housekeeping_s = 9\n[gateway]\nenabled = true\n[telemetry]\notlp_endpoint = 'http://127.0.0.1:1'\n\
             [compression]\nbackend = 'openai'\nmodel = 'm'\nbase_url = 'http://127.0.0.1:1'\n\
             [[subscribe]]\nevents = ['message_received']\ncommand = ['sh', '-c', '''{script}''']\n"
        ),
    );
    stage.flush();
    let status = stage.json(["ctl", "status"]);
    assert_eq!(status["compression"]["backend"], "openai:m", "{status}");
    assert_eq!(status["telemetry"]["endpoint"], "http://127.0.0.1:1", "{status}");
    assert!(stage.home().join("run/gateway.json").exists());
    // A session that was already live goes on.
    read("one", "t2");
    prompt(&stage, "two", "and goodbye");
    stage.flush();
    let session = stage.json(["ctl", "session", "one"]);
    let calls = session["batches"][0]["activities"].as_array().unwrap();
    assert!(calls.len() == 1 && session["batches"][0]["prompt"] == "hello", "{session}");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !std::fs::read_to_string(&events_file).unwrap_or_default().contains("\"two\"") {
        assert!(Instant::now() < deadline, "the new subscription is not told");
    }
    // The change is undone.
    write(&stage, "");
    stage.flush();
    let status = stage.json(["ctl", "status"]);
    assert_eq!(status["compression"]["backend"], "extractive", "{status}");
    assert_eq!((&status["telemetry"]["endpoint"], &status["pid"]), (&json!(null), &json!(pid)), "{status}");
    assert!(!stage.home().join("run/gateway.json").exists());
    read("one", "t3");
    stage.flush();
    let session = stage.json(["ctl", "session", "one"]);
    assert_eq!(session["batches"][0]["activities"].as_array().unwrap().len(), 2, "{session}");
}

#[test]
fn config_set_leaves_the_rest_of_the_file_unchanged() {
    let stage = Stage::new();
    let file = stage.home().join("config.toml");
    let say = |words: &[&str]| stage.recall(["config"].into_iter().chain(words.iter().copied()));
    assert_eq!(say(&["path"]).stdout.trim(), file.to_str().unwrap());
    assert_eq!(say(&["get", "context.start_tokens"]).stdout, "600\n");
    std::fs::create_dir_all(stage.home()).unwrap();
    write(&stage, "# mine\n[context]\nnotice = false # quiet\n");
    let output = say(&["set", "context.start_tokens", "500"]);
    assert!(output.code() == 0 && output.stdout.starts_with("context.start_tokens = 500\n"), "{output:?}");
    assert_eq!(say(&["set", "context.notice", "true"]).code(), 0);
    let output = say(&["set", "capture.exclude", "[\"~/clients/*\"]"]);
    assert!(output.stdout.contains("within two seconds"), "{output:?}");
    assert_eq!(say(&["set", "durability.sync", "normal"]).code(), 0, "a text needs no quotes");
    assert_eq!(
        std::fs::read_to_string(&file).unwrap(),
        "# mine\n[context]\nnotice = true # quiet\nstart_tokens = 500\n\n[capture]\nexclude = [\"~/clients/*\"]\n\n\
         [durability]\nsync = \"normal\"\n"
    );
    assert_eq!(say(&["get", "durability.sync"]).stdout, "normal\n");
    let listed = stage.json(["config", "list"]);
    let of = |key: &str| {
        let settings = listed["settings"].as_array().unwrap();
        settings.iter().find(|setting| setting["key"] == key).unwrap().clone()
    };
    assert_eq!(of("context.start_tokens")["origin"], "file");
    assert_eq!(
        of("timers.batch_idle_s"),
        json!({"key": "timers.batch_idle_s", "value": 300, "default": 300, "origin": "default", "line": null,
               "allowed": "a whole number from 1 to 86400",
               "meaning": "Seconds without activity after which a prompt counts as ended"})
    );
    assert_eq!(
        say(&["set", "context.start_tokens", "--unset"]).stdout.lines().next(),
        Some("context.start_tokens = 600")
    );

    let before = std::fs::read_to_string(&file).unwrap();
    for (words, message) in [
        (["set", "context.start_tokens", "-5"], "must be"),
        (["set", "context.start_tokens", "99999"], "it must be 0 to 10000"),
        (["set", "durability.sync", "fast"], "one of full, normal"),
        (["set", "context.start_token", "5"], "Did you mean context.start_tokens?"),
        (["set", "notice", "true"], "Did you mean context.notice?"),
        (["set", "subscribe.events", "x"], "config edit"),
    ] {
        let output = say(&words);
        assert!(output.code() == 2 && output.stderr.contains(message), "{words:?}: {output:?}");
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
}
