//! Tests `recall export`, and the import of its files and of claude-mem's database.

use std::path::{Path, PathBuf};

use recall_tests::Stage;
use recall_tests::screen::Screen;
use serde_json::{Value, json};

fn worked() -> Stage {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    stage.flush();
    stage.json(["remember", "The cart is painted green", "--type", "preference"]);
    stage
}

fn export(stage: &Stage, arguments: &[&str]) -> PathBuf {
    let path = stage.user_home().join("memory.jsonl");
    let _ = std::fs::remove_file(&path);
    let output =
        stage.recall(["export", path.to_str().unwrap()].into_iter().chain(arguments.iter().copied()));
    assert_eq!(output.code(), 0, "{output:?}");
    path
}

fn lines(path: &Path) -> Vec<Value> {
    std::fs::read_to_string(path).unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn import(stage: &Stage, path: &Path) -> Value {
    stage.json(["import", "recall", path.to_str().unwrap()])["rows"].clone()
}

/// Returns the content of a memory, without its own numbers and times of storing.
fn content(stage: &Stage) -> Vec<String> {
    let path = export(stage, &[]);
    let mut content: Vec<String> = lines(&path)
        .into_iter()
        .skip(1)
        .filter(|line| line["kind"] != "session")
        .map(|mut line| {
            // An import adds this prefix, because the author was elsewhere.
            if let Some(origin) =
                line["origin"].as_str().map(|origin| origin.trim_start_matches("import:").to_owned())
            {
                line["origin"] = json!(origin);
            }
            line.as_object_mut().map(|line| line.remove("aliases"));
            line.to_string()
        })
        .collect();
    content.sort();
    content
}

#[test]
fn an_exported_memory_is_imported_completely_and_once() {
    let stage = worked();
    let path = export(&stage, &[]);
    let head = &lines(&path)[0];
    assert_eq!((&head["format"], &head["version"]), (&json!("recall-export"), &json!(1)));
    let other = Stage::new().daemon();
    let added = import(&other, &path);
    assert_eq!((&added["added"]["session"], &added["skipped"]), (&json!(1), &json!(0)), "{added}");
    assert_eq!(content(&other), content(&stage));
    other.flush();
    let found = other.json(["search", "rounding happens once"]);
    assert!(found["results"][0]["snippet"].as_str().unwrap().contains("Rounding"), "{found}");
    let (here, there) = (stage.json(["ctl", "session", "first"]), other.json(["ctl", "session", "first"]));
    assert_eq!(here["started_at"], there["started_at"]);
    assert_eq!(here["batches"][0]["prompt"], there["batches"][0]["prompt"]);

    let again = import(&other, &path);
    assert_eq!((&again["added"], &again["skipped"]), (&json!({}), &json!(0)), "{again}");
    assert_eq!(content(&other), content(&stage));
}

#[test]
fn an_import_merges_two_memories() {
    let (stage, other) = (worked(), Stage::new().daemon());
    other.discount_session("second");
    other.flush();
    let own = content(&other).len();
    let added = import(&other, &export(&stage, &[]));
    assert_eq!(added["added"]["session"], 1, "{added}");
    assert!(content(&other).len() > own);
    assert_eq!(other.json(["ctl", "sessions", "--all"])["sessions"].as_array().unwrap().len(), 2);
}

#[test]
fn an_export_can_be_limited_by_project_and_time() {
    let stage = worked();
    let all = lines(&export(&stage, &[])).len();
    assert_eq!(lines(&export(&stage, &["--project", "shop"])).len(), all);
    let output = stage.recall(["export", "--project", "elsewhere"]);
    assert_eq!(output.code(), 1, "{output:?}");
    // The export has only the head and the project.
    assert_eq!(lines(&export(&stage, &["--since", "2100-01-01"])).len(), 2);
    let output = stage.recall(["export"]);
    assert_eq!(output.stdout.lines().count(), all, "without a file it goes to stdout");
}

#[test]
fn an_import_skips_forgotten_and_excluded_sessions() {
    let stage = worked();
    let path = export(&stage, &[]);
    stage.json(["forget", "--session", "first", "--yes"]);
    let added = import(&stage, &path);
    assert!(added["added"].get("session").is_none(), "{added}");
    assert_eq!(stage.json(["search", "rounding"])["total"], 0);

    let other = Stage::new();
    std::fs::create_dir_all(other.home()).unwrap();
    let folder = stage.project().display().to_string();
    std::fs::write(other.home().join("config.toml"), format!("[capture]\nexclude = [{folder:?}]\n")).unwrap();
    let other = other.daemon();
    let added = import(&other, &path);
    assert!(added["added"].get("session").is_none() && added["added"].get("prompt").is_none(), "{added}");
    assert_eq!(other.json(["ctl", "sessions"])["sessions"], json!([]));
}

#[test]
fn an_import_removes_secrets_and_private_text() {
    let stage = worked();
    let path = export(&stage, &[]);
    let text = std::fs::read_to_string(&path).unwrap();
    // The token is in two parts, because no source file may contain text that looks like a secret.
    let token = ["ghp_", "0123456789abcdefghijklmnopqrstuvwxyzAB"].concat();
    let planted =
        text.replace("painted green", &format!("painted <private>by Mallory</private> with {token}"));
    assert_ne!(planted, text);
    std::fs::write(&path, planted).unwrap();
    let other = Stage::new().daemon();
    import(&other, &path);
    let back = std::fs::read_to_string(export(&other, &[])).unwrap();
    assert!(back.contains("painted") && !back.contains("Mallory") && !back.contains("ghp_0123"), "{back}");
}

#[test]
fn a_file_that_is_not_an_export_is_rejected() {
    let stage = Stage::new().daemon();
    let path = stage.user_home().join("x.jsonl");
    for (content, message) in [
        ("hello\n", "is not an export of recall"),
        ("{\"format\":\"recall-export\",\"version\":99}\n", "newer recall"),
    ] {
        std::fs::write(&path, content).unwrap();
        let output = stage.recall(["import", "recall", path.to_str().unwrap()]);
        assert!(output.code() == 1 && output.stderr.contains(message), "{output:?}");
    }
    let output = stage.recall(["import", "recall"]);
    assert_eq!(output.code(), 2, "{output:?}");
    std::fs::write(&path, "{\"format\":\"recall-export\",\"version\":1}\n{\"kind\":\"future\"}\nnot json\n{\"kind\":\"prompt\"}\n").unwrap();
    assert_eq!(import(&stage, &path), json!({"added": {}, "known": 0, "skipped": 3}));
    let output = stage.recall(["export", path.to_str().unwrap()]);
    assert!(
        output.code() == 1 && output.stderr.contains("does not exist yet"),
        "nothing is overwritten: {output:?}"
    );
}

/// Writes an export with these lines after its head.
fn write_export(stage: &Stage, lines: &[Value]) -> PathBuf {
    let path = stage.user_home().join("made.jsonl");
    let lines: Vec<String> = lines.iter().map(Value::to_string).collect();
    let head = json!({"format": "recall-export", "version": 1});
    std::fs::write(&path, format!("{head}\n{}\n", lines.join("\n"))).unwrap();
    path
}

fn note(uuid: &str, more: Value) -> Value {
    let mut line = json!({"kind": "observation", "uuid": uuid, "project": "git:github.com/acme/shop", "type": "preference",
        "title": format!("Lines say {uuid}"), "narrative": "So.", "origin": "user", "created_at": 1_750_000_000_000_i64, "facts": [], "concepts": [], "files_read": [],
        "files_modified": [], "importance": 5, "evidence": []});
    line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    line
}

/// Returns the project of those notes.
fn shop() -> Value {
    json!({"kind": "project", "key": "git:github.com/acme/shop", "name": "shop", "aliases": ["git:github.com/acme/shop"],
        "created_at": 1})
}

#[test]
fn an_import_skips_lines_with_impossible_values_and_takes_the_rest() {
    let stage = worked();
    let session = json!({"kind": "session", "agent": "claude-code", "session_id": "made", "project": "git:github.com/acme/shop",
        "started_at": 1, "last_event_at": 2});
    let prompt = |more: Value| {
        let mut line = json!({"kind": "prompt", "session": "claude-code:made", "seq": 1, "prompt_number": 1, "source": "user",
            "prompt": "Why wombats?", "opened_at": 1});
        line.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        line
    };
    let bad = [
        note("a", json!({"facts": [1]})),
        note("b", json!({"facts": "x"})),
        note("c", json!({"evidence": {}})),
        note("d", json!({"created_at": i64::MAX})),
        prompt(json!({"prompt_event": "01"})),
        prompt(json!({"seq": i64::MAX})),
        prompt(json!({"prompt_number": 5_000_000_000_i64})),
        prompt(json!({"prompt_number": -5})),
    ];
    let good = note("e", json!({"facts": ["Wombats dig"]}));
    let lines: Vec<Value> =
        [shop(), session].into_iter().chain(bad.clone()).chain([good, json!([1])]).collect();
    let rows = import(&stage, &write_export(&stage, &lines));
    let unfit = rows["unfit"].as_object().unwrap();
    assert_eq!(unfit.values().map(|count| count.as_u64().unwrap()).sum::<u64>(), bad.len() as u64, "{rows}");
    assert_eq!(rows["added"]["observation"], 1, "{rows}");
    stage.flush();
    assert_eq!(stage.json(["search", "wombats dig", "--all"])["total"], 1);
    assert_eq!(stage.json(["ctl", "check"])["healthy"], true);
}

#[test]
fn an_imported_file_cannot_pin_notes_claim_authorship_or_join_projects() {
    let stage = worked();
    let own = lines(&export(&stage, &[])).into_iter().find(|line| line["kind"] == "project").unwrap();
    let evil = json!({"kind": "project", "key": "git:github.com/evil/x", "name": "x", "aliases": [own["key"]], "created_at": 1});
    let token = ["ghp_", "0123456789abcdefghijklmnopqrstuvwxyzAB"].concat();
    let planted =
        note("p", json!({"pinned_at": 1, "files_read": [format!("<private>Mallory</private>{token}")]}));
    let rows = import(&stage, &write_export(&stage, &[shop(), evil, planted]));
    assert_eq!((&rows["unpinned"], &rows["aliases"]), (&json!(1), &json!(1)), "{rows}");
    let back = lines(&export(&stage, &[]));
    let note = back.iter().find(|line| line["uuid"] == "p").unwrap();
    assert_eq!((&note["origin"], &note["pinned_at"]), (&json!("import:user"), &Value::Null), "{note}");
    assert!(!note.to_string().contains("Mallory") && !note.to_string().contains("ghp_0123"), "{note}");
    let evil = back.iter().find(|line| line["key"] == "git:github.com/evil/x").unwrap();
    assert_eq!(evil["aliases"], json!(["git:github.com/evil/x"]));
}

/// Returns the lines of a session of another machine, with one call.
fn session_and_call(id: &str, cwd: &str, call: Value) -> [Value; 2] {
    let session = json!({"kind": "session", "agent": "claude-code", "session_id": id, "project": "git:github.com/acme/shop",
        "cwd": cwd, "started_at": 1, "last_event_at": 2});
    let mut line = json!({"kind": "call", "session": format!("claude-code:{id}"), "event_id": format!("{:032x}", id.len()),
        "call_kind": "tool", "tool_name": "Bash", "failed": 0, "at": 1, "response": "\"done\""});
    line.as_object_mut().unwrap().extend(call.as_object().unwrap().clone());
    [session, line]
}

#[test]
fn a_hostile_import_file_bypasses_no_redaction_or_exclusion() {
    let stage = Stage::new();
    let (secret, quiet) = (stage.user_home().join("secret"), stage.user_home().join("quiet"));
    for folder in [&secret, &quiet] {
        std::fs::create_dir_all(folder).unwrap();
    }
    std::fs::write(quiet.join(".recall.toml"), "disable = true\n").unwrap();
    std::fs::write(secret.join("plan.txt"), "x").unwrap();
    let stage =
        stage.config(&format!("[capture]\nexclude = [{:?}]\n", secret.display().to_string())).daemon();
    stage.discount_session("first");
    stage.flush();
    let victim = lines(&export(&stage, &[])).into_iter().find(|line| line["kind"] == "project").unwrap();
    let token = ["ghp_", "0123456789abcdefghijklmnopqrstuvwxyzAB"].concat();
    let by_name = json!({"kind": "project", "key": format!("mem:{}", victim["name"].as_str().unwrap()), "name": victim["name"], "by_name": true});
    let joined = note("joined", json!({"project": by_name["key"]}));
    let plan = secret.join("plan.txt").display().to_string();
    let mut made = vec![
        shop(),
        by_name,
        joined,
        note("elsewhere", json!({"files_read": [plan]})),
        note(
            "leaks",
            json!({"files_modified": [format!("a/{token}")], "origin": format!("by {token}"),
            "concepts": [token], "subtitle": token, "made_as": token}),
        ),
    ];
    made.extend(session_and_call(
        "aa",
        &format!("/tmp/{token}"),
        json!({"input": json!({"file_path": plan, "content": "WOMBAT-1"}).to_string()}),
    ));
    made.extend(session_and_call(
        "aaa",
        "/tmp",
        json!({"input": json!({"command": format!("cat {plan}")}).to_string(), "response": "\"WOMBAT-2\""}),
    ));
    made.extend(session_and_call(
        "aaaa",
        stage.user_home().to_str().unwrap(),
        json!({"input": json!({"command": "cat secret/plan.txt"}).to_string(), "response": "\"WOMBAT-3\""}),
    ));
    made.extend(session_and_call(
        "aaaaa",
        "/tmp",
        json!({"input": r#"{"command":"echo <\u0070rivate>WOMBAT-4</private>"}"#, "tool_use_id": token}),
    ));
    made.extend(session_and_call(
        "aaaaaa",
        "/tmp",
        json!({"input": json!({"command": "DB_PASSWORD=WOMBAT-5-swordfish make"}).to_string()}),
    ));
    made.extend(session_and_call("aaaaaaa", quiet.to_str().unwrap(), json!({"input": "\"WOMBAT-6\""})));
    made.extend(session_and_call("aaaaaaaa", secret.to_str().unwrap(), json!({"input": "\"WOMBAT-7\""})));
    let rows = import(&stage, &write_export(&stage, &made));
    assert_eq!((&rows["aliases"], &rows["added"]["call"]), (&json!(1), &json!(5)), "{rows}");
    let back = lines(&export(&stage, &[]));
    let joined = back.iter().find(|line| line["uuid"] == "joined").unwrap();
    assert!(joined["project"].as_str().unwrap().starts_with("mem:"), "{joined}");
    let text = std::fs::read_to_string(export(&stage, &[])).unwrap();
    for kept_out in ["WOMBAT", "ghp_0123", "\"elsewhere\""] {
        let line = text.lines().find(|line| line.contains(kept_out));
        assert!(line.is_none(), "{kept_out}: {line:?}");
    }
}

#[test]
fn an_exclusion_applies_to_later_imports() {
    let mut stage = Stage::new().daemon();
    let folder = stage.user_home().join("later").display().to_string();
    let first = session_and_call("aa", &folder, json!({"input": "\"one\""}));
    import(&stage, &write_export(&stage, &[&[shop()], &first[..]].concat()));
    stage.stop_daemon();
    std::fs::write(stage.home().join("config.toml"), format!("[capture]\nexclude = [{folder:?}]\n")).unwrap();
    stage.start_daemon();
    let mut made = vec![shop(), note("late", json!({"files_read": [format!("{folder}/x")]}))];
    made.extend(first);
    made.extend(session_and_call("aaa", &folder, json!({"input": "\"two\""})));
    made.extend(session_and_call(
        "aaaa",
        "/tmp",
        json!({"input": json!({"file_path": format!("{folder}/x"), "content": "three"}).to_string()}),
    ));
    let rows = import(&stage, &write_export(&stage, &made));
    assert_eq!(
        (&rows["added"]["session"], &rows["added"]["call"], &rows["added"]["observation"]),
        (&json!(1), &json!(1), &Value::Null),
        "{rows}"
    );
    let text = std::fs::read_to_string(export(&stage, &[])).unwrap();
    assert!(!text.contains("two") && !text.contains("three"), "{text}");
}

#[test]
fn importing_an_own_export_restores_pins_authors_and_project_names() {
    let stage = worked();
    let pinned = stage.json(["search", "painted green"])["results"][0]["id"].to_string();
    stage.json(["pin", &pinned]);
    let path = export(&stage, &[]);
    let projects_and_pins = |stage: &Stage| -> Vec<Value> {
        let lines = lines(&export(stage, &[])).into_iter();
        let lines = lines.filter(|line| line["kind"] == "project" || line["origin"] == "user");
        lines.filter(|line| line["kind"] == "project" || !line["pinned_at"].is_null()).collect()
    };
    let own = projects_and_pins(&stage);
    assert_eq!(own.len(), 2, "{own:?}");
    let arguments = ["import", "recall", path.to_str().unwrap(), "--own"];
    let other = Stage::new().daemon();
    let rows = other.json(arguments)["rows"].clone();
    assert!(
        rows.get("unpinned").is_none() && rows.get("aliases").is_none() && rows.get("unsigned").is_none(),
        "{rows}"
    );
    assert_eq!(projects_and_pins(&other), own);

    let careful = Stage::new().daemon();
    let output = careful.recall(["import", "recall", path.to_str().unwrap()]);
    assert!(output.stdout.contains("`--own` imports these, too"), "{output:?}");
    assert_eq!(projects_and_pins(&careful).len(), 1);
    careful.json(arguments);
    assert_eq!(projects_and_pins(&careful), own, "what came before is believed now");
}

#[test]
fn at_a_terminal_an_import_asks_before_it_accepts_pins() {
    let stage = worked();
    let pinned = stage.json(["search", "painted green"])["results"][0]["id"].to_string();
    stage.json(["pin", &pinned]);
    let path = export(&stage, &[]);
    for (key, pins) in [("n\r", 0), ("y\r", 1)] {
        let other = Stage::new().daemon();
        let mut command = other.command("recall");
        command.args(["import", "recall", path.to_str().unwrap()]);
        let mut screen = Screen::of(command, (120, 30));
        screen.shows("The file contains 1 pinned note, 1 note by you");
        screen.press(key);
        screen.shows("Added as it was written");
        screen.end();
        let count = lines(&export(&other, &[])).iter().filter(|line| !line["pinned_at"].is_null()).count();
        assert_eq!(count, pins, "{key:?}");
    }
}

#[test]
fn no_import_or_restore_brings_forgotten_data_back() {
    let stage = worked();
    stage.json(["remember", "The wombat is painted red", "--type", "decision"]);
    stage.flush();
    let (copy, backup) = (export(&stage, &[]), stage.user_home().join("older.db"));
    stage.json(["ctl", "backup", backup.to_str().unwrap()]);
    let prompt = stage.json(["search", "kind:prompt discount"])["results"][0]["id"].clone();
    let prompt = prompt.as_str().map_or("p1".to_owned(), str::to_owned);
    stage.json(["forget", &prompt, "--yes"]);
    let noted = stage.json(["search", "wombat"])["results"][0]["id"].to_string();
    stage.json(["forget", &noted, "--yes"]);
    stage.flush();
    let kept = content(&stage);
    let rows = import(&stage, &copy);
    assert!(rows["forgotten"].as_u64() > Some(0) && rows["added"] == json!({}), "{rows}");
    assert_eq!(content(&stage), kept);
    let done = stage.json(["ctl", "restore", backup.to_str().unwrap(), "--yes"]);
    assert_eq!((&done["forgotten"]["prompts"], &done["left_behind"]), (&json!(1), &json!([])), "{done}");
    assert!(done["forgotten"]["observations"].as_u64() > Some(0), "{done}");
    assert_eq!(stage.json(["search", "wombat"])["total"], 0);
    let output = stage.recall(["ctl", "restore", backup.to_str().unwrap(), "--yes"]);
    assert!(
        output.stdout.contains("Left out because it has since been forgotten: ")
            && output.stdout.contains(", 1 prompt, "),
        "{output:?}"
    );
    stage.flush();
    assert_eq!(stage.json(["search", "wombat"])["total"], 0);
    let rows = import(&stage, &copy);
    assert!(rows["added"].get("observation").is_none() && rows["added"].get("call").is_none(), "{rows}");
}

#[test]
fn check_names_an_unreadable_row_and_forget_deletes_it() {
    let stage = worked();
    let note = stage.json(["search", "painted green"])["results"][0]["id"].to_string();
    let database = stage.home().join("data/recall.db");
    let db = rusqlite::Connection::open(&database).unwrap();
    db.execute(
        "UPDATE observations SET facts = '[1]', evidence = '{}', created_at = 'x' WHERE id = ?1",
        [&note],
    )
    .unwrap();
    drop(db);
    stage.json(["ctl", "reindex"]);
    let output = stage.recall(["ctl", "check"]);
    assert!(output.code() == 1 && output.stdout.contains(&format!("recall forget {note}")), "{output:?}");
    assert_eq!(stage.json(["search", "painted green"])["total"], 1);
    stage.json(["forget", &note, "--yes"]);
    assert_eq!(stage.json(["ctl", "check"])["healthy"], true);
}

#[test]
fn restoring_from_a_pipe_is_rejected() {
    let stage = worked();
    let pipe = stage.user_home().join("pipe.db");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let output = stage.recall(["ctl", "restore", pipe.to_str().unwrap(), "--yes"]);
    assert!(output.code() != 0 && output.stderr.contains("not a regular file"), "{output:?}");
    stage.json(["ctl", "backup", stage.user_home().join("after.db").to_str().unwrap()]);
}

/// Makes a database with the columns of claude-mem 13 that matter.
fn claude_mem(folder: &Path) {
    std::fs::create_dir_all(folder).unwrap();
    let db = rusqlite::Connection::open(folder.join("claude-mem.db")).unwrap();
    db.execute_batch(
        r#"CREATE TABLE sdk_sessions (id INTEGER PRIMARY KEY, content_session_id TEXT, memory_session_id TEXT, project TEXT,
                platform_source TEXT DEFAULT 'claude', user_prompt TEXT, started_at TEXT, started_at_epoch INTEGER,
                status TEXT, custom_title TEXT);
           CREATE TABLE user_prompts (id INTEGER PRIMARY KEY, session_db_id INTEGER, content_session_id TEXT,
                prompt_number INTEGER, prompt_text TEXT, created_at TEXT, created_at_epoch INTEGER);
           CREATE TABLE observations (id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, text TEXT, type TEXT, title TEXT,
                subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT, files_read TEXT, files_modified TEXT,
                prompt_number INTEGER, created_at TEXT, created_at_epoch INTEGER, merged_into_project TEXT,
                origin_device_id TEXT, origin_local_id TEXT);
           CREATE TABLE session_summaries (id INTEGER PRIMARY KEY, memory_session_id TEXT, project TEXT, request TEXT,
                investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT, notes TEXT, prompt_number INTEGER,
                created_at TEXT, created_at_epoch INTEGER);
           INSERT INTO sdk_sessions VALUES (1, 'cs-1', 'ms-1', 'blog', 'claude', '', '', 1750000000000, 'active', NULL),
                (2, 'cs-2', 'ms-2', 'observer-sessions', 'claude', '', '', 1750000000000, 'active', NULL);
           INSERT INTO user_prompts VALUES (1, 1, 'cs-1', 1, 'Why are drafts published?', '', 1750000001000),
                (2, NULL, 'cs-1', 2, 'Fix it', '', 1750000002000), (4, 1, 'cs-1', 3, '[media prompt]', '', 1750000002500),
                (5, 1, 'cs-1', 4, 'You are a Claude-Mem, a specialized observer tool.', '', 1750000002600), (3, 2, 'cs-2', 1, 'You observe', '', 1750000002000);
           INSERT INTO observations VALUES
                (1, 'ms-1', 'blog', NULL, 'bugfix', 'Drafts are no longer published by the nightly job', NULL,
                 '["The job ignored the flag"]', 'The nightly job ignored the draft flag.', '["gotcha: a trap", "bugfix"]', '["jobs/nightly.rb"]',
                 'jobs/nightly.rb', 2, '', 1750000003000, NULL, NULL, NULL),
                (2, 'ms-1', 'blog', 'Only text', 'how-it-works', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, '', 1750000004000, NULL, NULL, NULL),
                (3, 'gone', 'blog', NULL, 'decision', 'Posts are written in Markdown', NULL, '', 'So.', '', '', '', NULL, '', 1740000000000, NULL, NULL, NULL),
                (4, 'ms-2', 'observer-sessions', NULL, 'change', 'Debris', NULL, '', '', '', '', '', NULL, '', 1750000005000, NULL, NULL, NULL),
                (5, 'gone too', 'blog/fast-feed', NULL, 'discovery', NULL, NULL, '["The feed is built twice"]', '', '', '', '',
                 NULL, '', 1750000007000, 'blog', 'laptop', '77');
           INSERT INTO session_summaries VALUES (1, 'ms-1', 'blog', 'Stop drafts', '', 'early', '', '', '', 1, '', 1750000003000),
                (2, 'ms-1', 'blog', 'Stop drafts from being published', '', 'The flag counts', 'The job skips drafts', '', '', 2, '', 1750000006000);"#,
    )
    .unwrap();
}

#[test]
fn the_database_of_claude_mem_is_imported_once() {
    let stage = Stage::new().daemon();
    claude_mem(&stage.user_home().join(".claude-mem"));
    let counted = stage.json(["import", "--dry-run"]);
    assert_eq!(counted["rows"]["added"]["observation"], 4, "{counted}");
    let rows = stage.json(["import", "claude-mem"])["rows"].clone();
    let expected = json!({"project": 1, "session": 1, "prompt": 3, "observation": 4, "summary": 1});
    assert_eq!((&rows["added"], &rows["skipped"]), (&expected, &json!(0)), "{rows}");
    stage.flush();
    let found = stage.json(["search", "drafts nightly", "--project", "blog"]);
    let best = &found["results"][0];
    assert_eq!((&best["type"], &best["session_id"]), (&json!("bugfix"), &json!("cs-1")), "{found}");
    assert!(best["created_at"].as_str().unwrap().starts_with("2025-06-15"), "{best}");
    let shown = stage.json(["show", &best["id"].to_string()]);
    let item = shown.as_array().map_or(&shown["items"][0], |items| &items[0]);
    assert_eq!(item["origin"], "import:claude-mem", "{shown}");
    assert_eq!(
        (&item["facts"][0], &item["files_modified"][0]),
        (&json!("The job ignored the flag"), &json!("jobs/nightly.rb"))
    );
    let session = stage.json(["ctl", "session", "cs-1"]);
    assert_eq!(session["batches"][0]["prompt"], "Why are drafts published?", "{session}");
    assert_eq!(item["concepts"], json!(["gotcha"]), "a keyword without its text, and not the type: {shown}");
    assert_eq!(session["batches"][2]["source"], "system", "nobody typed it: {session}");
    let sql = |query: &str| stage.json(["sql", query])["rows"].clone();
    assert_eq!(
        sql("SELECT prompt_number, prompt_text FROM user_prompts WHERE claude_session_id = 'cs-1'"),
        json!([[1, "Why are drafts published?"], [2, "Fix it"], [3, "[media prompt]"]])
    );
    assert_eq!(
        sql("SELECT claude_session_id, first_user_prompt FROM sdk_sessions"),
        json!([["cs-1", "Why are drafts published?"]])
    );
    let merged = stage.json(["search", "feed built twice", "--project", "blog"]);
    assert_eq!(
        merged["results"][0]["title"], "The feed is built twice",
        "its work tree is of that project: {merged}"
    );
    let kept = stage.json(["search", "Markdown posts"]);
    assert_eq!(kept["results"][0]["session_id"], Value::Null, "an orphan is kept: {kept}");
    assert_eq!(stage.json(["search", "Debris"])["total"], 0);
    let again = stage.json(["import", "claude-mem"])["rows"].clone();
    assert_eq!(again["added"], json!({}), "{again}");
}

#[test]
fn an_import_skips_only_the_items_that_are_too_long() {
    let stage = Stage::new().daemon();
    let long = note("long", json!({"narrative": "x".repeat(20 << 20)}));
    let rows = import(
        &stage,
        &write_export(&stage, &[shop(), note("before", json!({})), long, note("behind", json!({}))]),
    );
    assert_eq!((&rows["added"]["observation"], &rows["unfit"]), (&json!(2), &json!({"length": 1})), "{rows}");

    let folder = stage.user_home().join(".claude-mem");
    claude_mem(&folder);
    let db = rusqlite::Connection::open(folder.join("claude-mem.db")).unwrap();
    db.execute("UPDATE observations SET narrative = CAST(zeroblob(70000000) AS TEXT) WHERE id = 1", [])
        .unwrap();
    drop(db);
    let rows = stage.json(["import", "claude-mem"])["rows"].clone();
    assert_eq!((&rows["added"]["observation"], &rows["unfit"]), (&json!(3), &json!({"length": 1})), "{rows}");
    let output = stage.recall(["import", "claude-mem"]);
    assert!(output.stdout.contains("Left out 1 line, too long to be read"), "{output:?}");
}
