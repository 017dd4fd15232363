//! Tests that `recall config` changes one key at a time, keeps everything else, and writes no mistake into the file.

use recall_tests::{CommandOutput, Stage};
use serde_json::json;

const TEXT: &str = "# mine\n[timers]\nbatch_idle_s = 60 # short\n";

fn file(stage: &Stage) -> String {
    std::fs::read_to_string(stage.home().join("config.toml")).unwrap_or_default()
}

/// Runs `recall config edit` with a shell script as the editor. `$1` is the file.
fn edit(script: &str) -> (Stage, CommandOutput) {
    let stage = Stage::new();
    let program = stage.user_home().join("editor.sh");
    std::fs::write(&program, script).unwrap();
    let stage = stage.variable("EDITOR", &format!("sh {}", program.display()));
    let output = stage.recall(["config", "edit"]);
    (stage, output)
}

#[test]
fn a_setting_is_set_shown_and_unset() {
    let stage = Stage::new().config(TEXT);
    let output = stage.recall(["config", "set", "context.start_tokens", "100"]);
    assert_eq!(
        (output.code(), output.stdout.lines().next()),
        (0, Some("context.start_tokens = 100")),
        "{output:?}"
    );
    assert_eq!(file(&stage), format!("{TEXT}\n[context]\nstart_tokens = 100\n"));
    assert_eq!(stage.recall(["config", "get", "context.start_tokens"]).stdout, "100\n");
    let listed = stage.json(["config", "list", "--changed"]);
    let origins: Vec<_> =
        listed["settings"].as_array().unwrap().iter().map(|key| (&key["key"], &key["line"])).collect();
    assert_eq!(
        origins,
        [(&json!("timers.batch_idle_s"), &json!(3)), (&json!("context.start_tokens"), &json!(6))]
    );
    let stdout = stage.recall(["config", "list"]).stdout;
    assert!(stdout.contains("line 6, default 600"), "{stdout}");
    assert_eq!(stage.recall(["config", "unset", "context.start_tokens"]).code(), 0);
    assert_eq!(stage.recall(["config", "get", "context.start_tokens"]).stdout, "600\n");
    assert!(file(&stage).starts_with(TEXT), "{}", file(&stage));
    let path = stage.recall(["config", "path"]).stdout;
    assert_eq!(path.trim_end(), stage.home().join("config.toml").to_string_lossy());
}

#[test]
fn a_bad_setting_is_rejected_with_a_hint_and_changes_nothing() {
    let stage = Stage::new().config(TEXT);
    for (arguments, expected) in [
        (["timers.batch_idle_s", "soon"], "it must be a whole number from 1 to 86400"),
        (["timers.batch_idle_s", "0"], "it must be 1 to 86400"),
        (["timers.batch_idle", "7"], "Did you mean timers.batch_idle_s?"),
        (["subscribe", "x"], "recall config edit"),
    ] {
        let output = stage.recall(["config", "set"].into_iter().chain(arguments));
        assert_eq!(output.code(), 2, "{output:?}");
        assert!(output.stderr.contains(expected), "{output:?}");
    }
    assert_eq!(file(&stage), TEXT);
}

#[test]
fn config_set_warns_before_text_is_sent_to_another_machine() {
    let stage = Stage::new();
    let set = |key: &str, value: &str| stage.recall(["config", "set", key, value]).stdout;
    let warned = "will leave this machine: it is sent to models.example,";
    assert!(!set("compression.model", "m").contains("leave"));
    let stdout = set("compression.base_url", "https://models.example/v1");
    assert!(
        stdout.starts_with("Text of your sessions would be sent to models.example"),
        "not asked yet: {stdout}"
    );
    let stdout = set("compression.backend", "openai");
    assert!(stdout.contains(warned), "{stdout}");
    assert!(stdout.find("leave") < stdout.find("compression.backend = "), "{stdout}");
    assert!(!set("compression.timeout_s", "30").contains("leave"), "it is known");
    assert!(!set("compression.base_url", "http://127.0.0.1:11434/v1").contains("leave"));
    assert!(set("compression.base_url", "https://models.example").contains(warned));
    let output = stage.recall(["config", "set", "compression.fallback", "claude-cli"]);
    assert!(output.stdout.contains("the provider of the program that writes the notes"), "{output:?}");
}

#[test]
fn a_cap_in_dollars_needs_the_models_prices() {
    let remote = "[compression]\nbackend = 'openai'\nmodel = 'm'\nbase_url = 'https://models.example'\n";
    let stage = Stage::new().config(remote);
    let set = |key: &str, value: &str| stage.recall(["config", "set", key, value]);
    for key in ["compression.usd_per_day", "compression.project_usd_per_day"] {
        let output = set(key, "2");
        let why = "has no effect, because the price of m is not set: set compression.usd_per_mtok_in";
        assert!(output.code() == 2 && output.stderr.contains(why), "{output:?}");
    }
    assert_eq!(file(&stage), remote);
    assert_eq!(set("compression.usd_per_mtok_out", "10").code(), 0);
    assert_eq!(set("compression.usd_per_day", "2").code(), 0);
    // If the user writes it by hand, it is an error of the file.
    let stage = Stage::new().config(&format!("{remote}usd_per_day = 2\n"));
    let stdout = stage.recall(["config", "list"]).stdout;
    assert!(stdout.contains("compression.usd_per_day has no effect"), "{stdout}");
    let free = remote.replace("https://models.example", "http://127.0.0.1:1/v1");
    let stage = Stage::new().config(&format!("{free}usd_per_day = 2\n"));
    let stdout = stage.recall(["config", "list"]).stdout;
    assert!(!stdout.contains("caps nothing"), "{stdout}");
}

#[test]
fn config_edit_opens_a_template_and_saves_only_a_valid_file() {
    let (stage, output) = edit("sed -i 's/^# start_tokens = .*/start_tokens = 70/' \"$1\"\n");
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(file(&stage).contains("# Tokens injected after a compaction"), "{}", file(&stage));
    assert_eq!(stage.recall(["config", "get", "context.start_tokens"]).stdout, "70\n");

    let (stage, output) = edit("echo 'start_token = 70' > \"$1\"\n");
    assert_eq!((output.code(), file(&stage).as_str()), (1, ""), "{output:?}");
    assert!(
        output.stdout.contains(
            "line 1, column 1: `start_token` is outside of a table; did you mean `start_tokens` in [context]?"
        ),
        "{output:?}"
    );
    let kept = output.stderr.split("Your changes are in ").nth(1).unwrap().trim().trim_end_matches('.');
    assert_eq!(std::fs::read_to_string(kept).unwrap(), "start_token = 70\n");
    std::fs::remove_file(kept).unwrap();

    let (stage, output) = edit("exit 3\n");
    assert_eq!((output.code(), file(&stage).as_str()), (1, ""), "{output:?}");
    let (_, output) = edit("exit 0\n");
    assert_eq!((output.code(), output.stdout.as_str()), (0, "Nothing was changed.\n"), "{output:?}");
}

#[test]
fn a_changed_context_budget_takes_effect_while_the_daemon_runs() {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    stage.flush();
    let given = || {
        let start = stage.event("next", "SessionStart", json!({"source": "startup", "model": "claude"}));
        stage.hook(&start).stdout
    };
    assert!(given().contains("additionalContext"));
    assert_eq!(stage.recall(["config", "set", "context.start_tokens", "0"]).code(), 0);
    stage.flush();
    assert!(!given().contains("additionalContext"));
}
