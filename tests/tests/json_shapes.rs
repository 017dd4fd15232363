//! The JSON that other programs rely on, and the same answers as text, after one small session.
//!
//! Values that differ between two runs (times, ids of events, paths, sizes) are masked. Everything else must be the
//! same.

use recall_tests::{DISCOUNT_ANSWER, DISCOUNT_PROMPT, Stage, masked, masked_text};
use serde_json::{Value, json};

/// Plays one session whose ids are the same each time, because each job is done before the next one is requested.
fn played() -> Stage {
    let stage = Stage::new().daemon();
    stage.hook(&stage.event(
        "first-session",
        "SessionStart",
        json!({"source": "startup", "model": "claude"}),
    ));
    let prompt = json!({"prompt": DISCOUNT_PROMPT, "prompt_id": "p1"});
    stage.hook(&stage.event("first-session", "UserPromptSubmit", prompt));
    for (number, mut call) in stage.discount_calls().into_iter().enumerate() {
        call["tool_use_id"] = json!(format!("t{number}"));
        call["prompt_id"] = json!("p1");
        call["duration_ms"] = json!(12);
        stage.hook(&stage.event("first-session", "PostToolUse", call));
    }
    let stop = json!({"last_assistant_message": DISCOUNT_ANSWER, "prompt_id": "p1"});
    stage.hook(&stage.event("first-session", "Stop", stop));
    stage.flush();
    stage.hook(&stage.event("first-session", "SessionEnd", json!({"reason": "other"})));
    stage.flush();
    stage.hook(&stage.event(
        "second-session",
        "SessionStart",
        json!({"source": "startup", "model": "claude"}),
    ));
    stage.flush();
    stage
}

macro_rules! shapes {
    ($stage:expr, $name:literal, $($word:expr),+) => {
        insta::assert_json_snapshot!($name, masked(&$stage.json([$($word),+]), &$stage));
        let output = $stage.recall([$($word),+]);
        assert_eq!((output.code(), output.stderr.as_str()), (0, ""));
        insta::assert_snapshot!(concat!($name, "_for_people"), masked_text(&output.stdout, &$stage));
    };
}

#[test]
fn output_of_reading_commands_matches_the_snapshots() {
    let stage = played();
    shapes!(stage, "search", "search", "rounding");
    shapes!(stage, "search_explained", "search", "rounding", "--explain", "-n", "1");
    shapes!(stage, "show_observation", "show", "1");
    shapes!(stage, "show_summary", "show", "s1");
    shapes!(stage, "show_prompt", "show", "p1");
    shapes!(stage, "show_response", "show", "r1");
    shapes!(stage, "show_activity", "show", "a2");
    shapes!(stage, "timeline", "timeline", "1");
    shapes!(stage, "timeline_of_session", "timeline", "first-session");
    shapes!(stage, "context", "context");
    shapes!(stage, "context_for_prompt", "context", "--prompt", "Why is rounding done once after summing?");
    shapes!(stage, "handoff", "handoff", "first-session");
    shapes!(stage, "review", "review", "--list");
    shapes!(stage, "friction", "friction");
    shapes!(stage, "why", "why", "second-session");
    shapes!(stage, "why_observation", "why", "1");
    // Everything that was given to a session names that session.
    let why = stage.json(["why", "second-session"]);
    let items = why["injections"][0]["items"].as_array().unwrap();
    let ids: Vec<String> = items.iter().map(|item| item["id"].to_string().replace('"', "")).collect();
    assert!(ids.iter().any(|id| id.starts_with('p')), "{why}");
    for id in ids {
        let given = stage.json(["why", &id]);
        assert_eq!(given["given"][0]["session_id"], "second-session", "{id}: {given}");
    }
}

#[test]
fn output_of_administration_commands_matches_the_snapshots() {
    let stage = played();
    shapes!(stage, "ctl_status", "ctl", "status");
    shapes!(stage, "ctl_sessions", "ctl", "sessions");
    shapes!(stage, "ctl_session", "ctl", "session", "first-session");
    shapes!(stage, "ctl_jobs", "ctl", "jobs");
    shapes!(stage, "ctl_flush", "ctl", "flush");
}

#[test]
fn output_for_an_empty_memory_matches_the_snapshots() {
    let stage = Stage::new().daemon();
    shapes!(stage, "no_sessions", "ctl", "sessions");
    shapes!(stage, "no_jobs", "ctl", "jobs");
    shapes!(stage, "no_context", "context");
    shapes!(stage, "no_results", "search", "anything");
}

#[test]
fn output_of_doctor_matches_the_snapshots() {
    let stage = played();
    let output = stage.recall(["doctor", "--json"]);
    let mut report = output.json();
    // Findings about the machine's agents and service manager differ between machines.
    let ours = |finding: &Value| finding["area"] != "agents" && finding["area"] != "service";
    report["findings"].as_array_mut().unwrap().retain(ours);
    report.as_object_mut().unwrap().remove("healthy");
    insta::assert_json_snapshot!("doctor", masked(&report, &stage));
    let people = stage.recall(["doctor"]).stdout;
    let ours = people.split("agents\n").next().unwrap();
    insta::assert_snapshot!("doctor_for_people", masked_text(ours, &stage));
}

/// The counts of `ctl status` must be right, not only in the right place.
#[test]
fn the_counts_in_the_status_are_correct() {
    let stage = played();
    let status = stage.json(["ctl", "status"]);
    let session = stage.json(["ctl", "session", "first-session"]);
    assert_eq!(status["observations"], json!(session["observations"].as_array().unwrap().len()));
    assert_eq!(status["jobs"]["done"], json!(stage.json(["ctl", "jobs"])["jobs"].as_array().unwrap().len()));
    assert_eq!(status["events"]["stored"], 8);
    assert_eq!(status["sessions"], json!({"live": 1, "total": 2}));
    assert_eq!(status["bytes"]["database"].as_u64().map(|bytes| bytes > 0), Some(true));
    assert_eq!(status["pid"], stage.daemon_pid());
}

#[test]
fn help_of_every_command_matches_the_snapshots() {
    let stage = Stage::new();
    let help_of = |path: &str| {
        let output = stage.recall(path.split_whitespace().chain(["--help"]));
        assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{path}");
        masked_text(&output.stdout, &stage)
    };
    let overview = help_of("");
    insta::assert_snapshot!("help", overview);
    // Checks every command that a help text names, and its subcommands.
    let mut waiting = subcommands(&overview);
    assert!(waiting.len() > 30, "{overview}");
    while let Some(path) = waiting.pop() {
        let shown = help_of(&path);
        waiting.extend(subcommands(&shown).iter().map(|name| format!("{path} {name}")));
        insta::assert_snapshot!(format!("help {path}").replace(' ', "_"), shown);
    }
}

/// Returns the commands that a help text lists, under `Commands:` or in recall's own groups.
fn subcommands(help: &str) -> Vec<String> {
    let lists = help.split("\n\n").filter(|part| {
        let head = part.lines().next().unwrap_or_default();
        head.ends_with(':') && !matches!(head, "Options:" | "Arguments:" | "Examples:")
    });
    let lines = lists.flat_map(|part| part.lines().skip(1));
    let names = lines.filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    let names = names.filter_map(|line| line.split_whitespace().next()).map(str::to_owned);
    names.filter(|name| name != "help").collect()
}

#[test]
fn piped_output_has_colours_only_on_request() {
    let stage = played();
    let output = stage.recall(["search", "rounding"]);
    assert!(!output.stdout.contains('\u{1b}'), "{output:?}");
    // On request there are colours, and the words of the query are highlighted.
    let output = stage.recall(["search", "rounding", "--color", "always"]);
    assert!(output.stdout.contains("\u{1b}[1m\u{1b}[33mrounding\u{1b}[0m"), "{output:?}");
    let output = stage.recall(["search", "rounding", "--color=never"]);
    assert!(!output.stdout.contains('\u{1b}'), "{output:?}");
}

/// Lines break between words at every width, and nothing is lost.
#[test]
fn text_output_fits_the_width_of_the_screen() {
    let stage = played();
    let note = "The ledger is kept in cents, because three customers were billed fractions of a cent in the first \
                release, and every sum has been rounded once, at its end, since then.";
    let remembered = stage.recall(["remember", note, "--file", "src/ledger/rounding/half_even_rounding.ts"]);
    assert_eq!(remembered.code(), 0, "{remembered:?}");
    let edited = stage.recall([
        "edit",
        "2",
        "--title",
        "The ledger is kept in cents since three customers were billed fractions",
    ]);
    assert_eq!(edited.code(), 0, "{edited:?}");
    assert_eq!(stage.recall(["pin", "2"]).code(), 0);
    stage.flush();
    for (name, line) in [
        ("search", "search cents"),
        ("explained", "search cents --explain"),
        ("show", "show 1"),
        ("show_edited", "show 2"),
        ("show_summary", "show s1"),
        ("show_prompt", "show p1"),
        ("show_response", "show r1"),
        ("show_activity", "show a2"),
        ("timeline", "timeline 1"),
        ("timeline_of_session", "timeline first-session"),
        ("context", "context"),
        ("context_for_prompt", "context --prompt rounding"),
        ("why", "why 1"),
        ("why_session", "why second-session"),
        ("sessions", "sessions"),
        ("session", "ctl session first-session"),
        ("jobs", "ctl jobs"),
        ("status", "status"),
        ("stats", "stats"),
        ("config", "config list"),
        ("doctor", "doctor"),
        ("changes", "undo --list"),
        ("models", "model list"),
        ("guards", "guard list"),
        ("sql", "sql select&id,type,title&from&observations"),
        ("statusline", "statusline"),
        ("config_table", "config get context"),
        ("found_nothing", "search nowhere-to-be-found"),
        ("all_sessions", "sessions --all"),
        ("forget_preview", "forget --session first-session --dry-run"),
        ("resolve_preview", "resolve --query ledger --dry-run"),
        ("prune_preview", "ctl prune --older-than 90d"),
        ("imported", "import --dry-run"),
    ] {
        // The SQL statement contains spaces, which the table writes as `&`.
        let line: Vec<String> = line.split(' ').map(|word| word.replace('&', " ")).collect();
        let line: Vec<&str> = line.iter().map(String::as_str).collect();
        let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        let plain = masked_text(&stage.recall(line.iter().copied()).stdout, &stage);
        for width in [80, 120, 200] {
            let mut command = stage.command("recall");
            command.args(&line).env("COLUMNS", width.to_string());
            let output = recall_tests::run(command, b"");
            for shown in output.stdout.lines() {
                let fits = shown.chars().count() <= width || shown.split_whitespace().count() == 1;
                assert!(fits, "{name} at {width}: {shown:?}");
            }
            let masked = masked_text(&output.stdout, &stage);
            // Only the first lines of a snippet are shown, and only the beginning of a cell.
            if !matches!(name, "sql" | "search" | "explained" | "status" | "config" | "session" | "doctor") {
                assert_eq!(words(&masked), words(&plain), "{name} at {width}");
            }
            // Line breaks depend on figures of this run, and the doctor's report depends on the machine.
            if !matches!(name, "status" | "explained" | "config" | "doctor") {
                insta::assert_snapshot!(format!("{name}_at_{width}"), masked);
            }
        }
    }
}

/// Commands ask about the current project, if recall knows it and the command names nothing else.
#[test]
fn commands_ask_about_the_current_project_by_default() {
    let stage = played();
    let other = stage.user_home().join("other");
    std::fs::create_dir(&other).unwrap();
    let mut start = stage.event("elsewhere", "SessionStart", json!({"source": "startup", "model": "claude"}));
    start["cwd"] = json!(other);
    stage.hook(&start);
    stage.flush();
    let run = |folder: &std::path::Path, line: &str| {
        let mut command = stage.command("recall");
        command.args(line.split(' ')).current_dir(folder);
        recall_tests::run(command, b"")
    };
    let sessions =
        |folder: &std::path::Path, line: &str| run(folder, line).json()["sessions"].as_array().unwrap().len();
    assert_eq!(sessions(&stage.project(), "sessions --json"), 2);
    assert_eq!(sessions(&other, "sessions --json"), 1);
    assert_eq!(sessions(&other, "sessions --all --json"), 3);
    // This folder belongs to no known project.
    assert_eq!(sessions(&stage.user_home(), "ctl sessions --json"), 3);
    let found = |folder: &std::path::Path, line: &str| run(folder, line).stdout;
    assert!(found(&other, "search rounding").starts_with("Nothing found in this project; `--all`"));
    for line in ["search rounding --all", "search rounding project:shop", "search rounding --project shop"] {
        assert!(found(&other, line).contains("matches, "), "{line}: {}", found(&other, line));
    }
    assert!(found(&stage.project(), "search rounding").contains("in this project, "));
}

/// Every documented field exists, independent of the snapshots.
#[test]
fn documented_fields_exist_in_the_json_output() {
    let stage = played();
    let check = |value: &Value, fields: &str| {
        for field in fields.split_whitespace() {
            assert!(value.get(field).is_some(), "no {field} in {value}");
        }
    };
    let found = stage.json(["search", "rounding"]);
    check(&found, "results total took_ms");
    check(
        &found["results"][0],
        "id kind type title snippet project agent session_id prompt_number created_at score",
    );
    let observation = &stage.json(["show", "1"])["items"][0];
    check(
        observation,
        "id uuid type title subtitle narrative facts concepts files_read files_modified importance status \
         superseded_by origin session_id prompt_number evidence created_at",
    );
    let session = stage.json(["ctl", "session", "first"]);
    check(
        &session,
        "session_id agent project project_id status reason title started_at ended_at suspended_at first_user_prompt \
         batches observations summary compaction_summaries injections",
    );
    check(
        &session["batches"][0],
        "prompt_number source status prompt prompt_event_id response response_event_id activities",
    );
    check(
        &session["batches"][0]["activities"][0],
        "event_id kind tool_name tool_use_id failed input response at",
    );
    check(&session["summary"], "title request investigated learned completed next_steps notes created_at");
    check(&stage.json(["why", "second"])["injections"][0], "at moment tokens items");
    let status = stage.json(["ctl", "status"]);
    check(
        &status,
        "version pid uptime_s protocol home sessions events jobs observations summaries index compression bytes \
         rss_bytes own_bytes mapped_bytes",
    );
    check(&status["events"], "stored duplicates spooled dropped unparsed");
    check(&status["jobs"], "pending running retrying done dead");
    check(&stage.json(["ctl", "jobs"])["jobs"][0], "id kind session_id status attempts error");
    // Evidence names events of the session itself.
    let known: Vec<&Value> = session["batches"][0]["activities"]
        .as_array()
        .unwrap()
        .iter()
        .map(|activity| &activity["event_id"])
        .chain([&session["batches"][0]["prompt_event_id"], &session["batches"][0]["response_event_id"]])
        .collect();
    let evidence = observation["evidence"].as_array().unwrap();
    assert!(!evidence.is_empty() && evidence.iter().all(|event| known.contains(&event)), "{evidence:?}");
}
