//! Tests sentence embeddings: a search finds texts that share no word with it, vectors are deleted with what they
//! were made of, and without a model everything else goes on.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use recall_tests::Stage;
use recall_tests::provider::{Asked, Behaviour, Provider};
use serde_json::{Value, json};

/// No files.
pub(crate) const NOWHERE: [PathBuf; 0] = [];

/// Returns the folder of the tiny model in the fixtures. Words of one group have nearly the same vector.
pub(crate) fn tiny() -> PathBuf {
    recall_tests::workspace().join("tests/fixtures/tiny-model")
}

pub(crate) fn local(model: &str) -> String {
    format!("[embedding]\nbackend = \"local\"\nmodel = \"{model}\"\n")
}

pub(crate) fn with_tiny() -> Stage {
    Stage::new().config(&local(tiny().to_str().unwrap()))
}

/// Plays a few turns about different things. No two turns have a word in common.
pub(crate) fn talk(stage: &Stage) {
    let turns = [
        ("login", "Signin is sluggish.", "Password latency: sluggish authentication."),
        ("colour", "Theme palette", "Palette theme palette."),
        ("parser", "Grammar?", "Grammar syntax grammar."),
    ];
    for (id, prompt, answer) in turns {
        stage.session(id, prompt, &[], answer);
    }
    stage.flush();
}

pub(crate) fn embedding(stage: &Stage) -> Value {
    stage.json(["ctl", "status"])["embedding"].clone()
}

/// Returns the rows of vectors in the database.
pub(crate) fn rows(stage: &Stage) -> Vec<(String, i64, Vec<u8>, Vec<u8>)> {
    let database = rusqlite::Connection::open(stage.database()).unwrap();
    let mut rows =
        database.prepare("SELECT kind, row, model, packed FROM vectors ORDER BY kind, row").unwrap();
    let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?, row.get(3)?))).unwrap();
    rows.collect::<Result<_, _>>().unwrap()
}

/// Counts the vectors whose document does not exist.
pub(crate) fn orphans(stage: &Stage) -> i64 {
    let database = rusqlite::Connection::open(stage.database()).unwrap();
    let sql = "SELECT count(*) FROM vectors v WHERE
        (v.kind = 'observation' AND NOT EXISTS (SELECT 1 FROM observations d WHERE d.id = v.row))
        OR (v.kind = 'summary' AND NOT EXISTS (SELECT 1 FROM session_summaries d WHERE d.id = v.row))
        OR (v.kind = 'prompt' AND NOT EXISTS (SELECT 1 FROM prompt_batches d WHERE d.id = v.row AND d.prompt IS NOT NULL))
        OR (v.kind = 'response' AND NOT EXISTS (SELECT 1 FROM prompt_batches d WHERE d.id = v.row AND d.response IS NOT NULL))
        OR (v.kind = 'plan' AND NOT EXISTS (SELECT 1 FROM plans d WHERE d.id = v.row))
        OR (v.kind = 'activity' AND NOT EXISTS (SELECT 1 FROM activities d WHERE d.id = v.row))
        OR v.kind NOT IN ('observation', 'summary', 'prompt', 'response', 'plan', 'compaction', 'activity')";
    database.query_row(sql, [], |row| row.get(0)).unwrap()
}

/// Returns the files below the stage's home that contain these bytes.
pub(crate) fn holding(stage: &Stage, bytes: &[u8]) -> Vec<PathBuf> {
    fn visit(folder: &Path, bytes: &[u8], found: &mut Vec<PathBuf>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                visit(&path, bytes, found);
            } else if path.is_file()
                && std::fs::read(&path).unwrap_or_default().windows(bytes.len()).any(|window| window == bytes)
            {
                found.push(path);
            }
        }
    }
    let mut found = Vec::new();
    visit(&stage.home(), bytes, &mut found);
    found
}

#[track_caller]
pub(crate) fn finds_the_login(stage: &Stage) {
    let answer = stage.json(["search", "slow login", "--explain"]);
    let best = &answer["results"][0];
    assert_eq!(best["session_id"], "login", "{answer}");
    let sources = best["why"]["sources"].as_array().unwrap();
    let meaning =
        sources.iter().find(|source| source["source"] == "meaning").expect("it is found by its meaning");
    assert!(meaning["cosine"].as_f64().unwrap() > 0.5, "{meaning}");
    let output = stage.recall(["search", "slow login", "--explain"]);
    assert!(output.stdout.contains("found by meaning"), "{output:?}");
    assert!(!output.stdout.contains("has nothing; lacks nothing"), "{output:?}");
}

#[test]
fn a_search_finds_texts_that_share_no_word_with_it() {
    let stage = with_tiny().daemon();
    talk(&stage);
    finds_the_login(&stage);
    let state = embedding(&stage);
    assert_eq!(
        (&state["backend"], &state["state"], &state["waiting"]),
        (&json!("local"), &json!("ready"), &json!(0))
    );
    assert!(state["embedded"].as_i64().unwrap() >= 6, "{state}");
    let doctor = stage.recall(["doctor"]);
    assert!(doctor.stdout.contains("search by meaning: local"), "{doctor:?}");
    // Filters also apply to what is found by its meaning.
    let colour = stage.json(["search", "slow login session:colour"]);
    assert!(
        colour["results"].as_array().unwrap().iter().all(|hit| hit["session_id"] == "colour"),
        "{colour}"
    );
    assert_eq!(stage.json(["search", "slow login project:nowhere"])["results"], json!([]));
}

#[test]
fn calls_are_found_by_meaning_but_read_files_are_not() {
    let stage = with_tiny().daemon();
    let call = |tool: &str, input: Value, output: &str| json!({"tool_name": tool, "tool_input": input, "tool_response": output});
    let calls = [
        call("Bash", json!({"command": "trace"}), "Password latency: sluggish authentication."),
        call("Read", json!({"file_path": "/p/signin.txt"}), "Signin password: sluggish latency."),
    ];
    stage.session("trace", "Theme palette", &calls, "Palette theme palette.");
    stage.flush();
    let calls_found = || -> Vec<String> {
        let found = stage.json(["search", "slow login"]);
        let calls = found["results"].as_array().unwrap().iter().filter(|hit| hit["kind"] == "activity");
        calls.map(|hit| hit["title"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(calls_found(), ["Bash trace"]);
    let of_calls: Vec<usize> =
        rows(&stage).iter().filter(|row| row.0 == "activity").map(|row| row.3.len()).collect();
    assert!(of_calls.len() == 2 && of_calls[0] > 0 && of_calls[1] == 0, "{of_calls:?}");
    assert_eq!((&embedding(&stage)["waiting"], orphans(&stage)), (&json!(0), 0));
    // A later call is found too, and a forgotten one is not.
    stage.session(
        "later",
        "Grammar?",
        &[call("Bash", json!({"command": "again"}), "Signin is sluggish.")],
        "Syntax.",
    );
    stage.flush();
    let mut both = calls_found();
    both.sort();
    assert_eq!(both, ["Bash again", "Bash trace"]);
    stage.recall(["forget", "--session", "trace", "--yes"]);
    assert_eq!((calls_found(), orphans(&stage)), (vec!["Bash again".to_owned()], 0));
}

#[test]
fn without_a_model_search_by_words_still_works() {
    let stage = Stage::new().config(&local("minilm")).daemon();
    talk(&stage);
    assert_eq!(stage.json(["search", "slow login"])["results"], json!([]));
    assert_ne!(stage.json(["search", "sluggish"])["total"], 0);
    let state = embedding(&stage);
    assert_eq!(state["state"], "unusable");
    assert!(state["why"].as_str().unwrap().contains("recall model add"), "{state}");
    let output = stage.recall(["ctl", "status"]);
    assert!(output.stdout.contains("there is no "), "{output:?}");
    assert_eq!(stage.recall(["doctor"]).code(), 1);
}

#[test]
fn a_forgotten_session_leaves_no_vector() {
    let stage = with_tiny().daemon();
    talk(&stage);
    let before = rows(&stage);
    assert_eq!(stage.recall(["forget", "--yes", "--session", "login"]).code(), 0);
    stage.flush();
    let after = rows(&stage);
    let gone: Vec<_> = before.iter().filter(|row| !after.contains(row)).collect();
    assert!(gone.len() >= 2 && after.len() >= 4, "{} of {}", gone.len(), before.len());
    for (kind, row, _, packed) in gone {
        assert_eq!(holding(&stage, packed), NOWHERE, "the vector of {kind} {row}");
    }
    assert!(!holding(&stage, &after[0].3).is_empty(), "the scan finds what is there");
    assert_eq!(orphans(&stage), 0);
    let answer = stage.json(["search", "slow login"]);
    assert!(answer["results"].as_array().unwrap().iter().all(|hit| hit["session_id"] != "login"), "{answer}");
}

#[test]
fn a_kill_while_vectors_are_made_loses_and_doubles_no_vector() {
    let mut stage = with_tiny().daemon();
    for round in 0..6 {
        for number in 0..20 {
            let id = format!("s{round}-{number}");
            let prompt = json!({"prompt": format!("Slow login {id}"), "prompt_id": id});
            let stop =
                json!({"last_assistant_message": format!("The parser of {id} has syntax."), "prompt_id": id});
            stage.deliver(&[
                stage.delivery(&stage.event(&id, "UserPromptSubmit", prompt)),
                stage.delivery(&stage.event(&id, "Stop", stop)),
            ]);
        }
        // The daemon is killed while another command makes vectors. The test does not wait for that command.
        let mut flush = stage.command("recall");
        let flush = flush.args(["ctl", "flush"]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut flush = flush.spawn().unwrap();
        let _ = embedding(&stage);
        stage.kill_daemon();
        let _ = flush.wait();
        stage.start_daemon();
    }
    stage.flush();
    let state = embedding(&stage);
    assert_eq!((&state["waiting"], orphans(&stage)), (&json!(0), 0), "{state}");
    assert!(state["embedded"].as_i64().unwrap() >= 240, "{state}");
    assert_eq!(state["embedded"].as_u64().unwrap() as usize, rows(&stage).len());
}

#[test]
fn a_model_is_installed_used_removed_and_swapped() {
    let mut stage = Stage::new();
    let folder = tiny();
    let added = stage.recall(["model", "add", folder.to_str().unwrap(), "--name", "tiny"]);
    let output = added.stdout.clone();
    assert_eq!(added.code(), 0, "{added:?}");
    assert!(output.contains("16 dimensions") && output.contains("[embedding]"), "{output}");
    assert!(!output.contains("ctl stop"), "settings count at once: {output}");
    let listed = stage.json(["model", "list"]);
    let hash = listed["models"][0]["sha256"].as_str().unwrap().to_owned();
    assert!(output.contains(&hash) && hash.len() == 64, "{listed}");

    stage = stage.config(&local("tiny"));
    stage.start_daemon();
    talk(&stage);
    finds_the_login(&stage);
    assert_eq!(embedding(&stage)["model_hash"], json!(hash));
    assert_eq!(stage.json(["model", "list"])["models"][0]["configured"], true);

    // If the daemon is killed right after the model is removed, the model's vectors are deleted all the same.
    let removed = stage.recall(["model", "remove", "tiny"]);
    assert!(removed.stdout.contains("still names it"), "{removed:?}");
    stage.kill_daemon();
    stage.start_daemon();
    stage.flush();
    assert_eq!((rows(&stage).len(), &embedding(&stage)["state"]), (0, &json!("unusable")));
    assert_ne!(stage.json(["search", "sluggish"])["total"], 0);

    // Another model under the same name makes new vectors. None of the old ones stays.
    let other = stage.user_home().join("other");
    std::fs::create_dir(&other).unwrap();
    for file in ["config.json", "model.safetensors", "vocab.txt"] {
        std::fs::copy(folder.join(file), other.join(file)).unwrap();
    }
    std::fs::write(other.join("tokenizer_config.json"), "{\"do_lower_case\": false}").unwrap();
    assert_eq!(stage.recall(["model", "add", folder.to_str().unwrap(), "--name", "tiny"]).code(), 0);
    stage.flush();
    let first = rows(&stage);
    assert_eq!(stage.recall(["model", "remove", "tiny"]).code(), 0);
    assert_eq!(stage.recall(["model", "add", other.to_str().unwrap(), "--name", "tiny"]).code(), 0);
    stage.flush();
    let second = rows(&stage);
    assert!(!first.is_empty() && first.len() == second.len());
    assert!(first.iter().all(|(.., model, _)| second.iter().all(|(.., other, _)| model != other)));

    // Without a model there are no vectors.
    std::fs::write(stage.home().join("config.toml"), "").unwrap();
    stage.kill_daemon();
    stage.start_daemon();
    stage.flush();
    assert_eq!((rows(&stage).len(), &embedding(&stage)["state"]), (0, &json!("off")));
}

#[test]
fn a_folder_that_is_not_a_model_is_rejected_with_advice() {
    let stage = Stage::new();
    let error_of = |arguments: &[&str]| {
        let output = stage.recall(arguments.iter().copied());
        assert_eq!(output.code(), 1, "{output:?}");
        output.stderr.clone()
    };
    let empty = stage.project();
    let refused = error_of(&["model", "add", empty.to_str().unwrap()]);
    assert!(refused.contains("config.json is missing") && refused.contains("vocab.txt"), "{refused}");
    for no_folder in [stage.user_home().join("nowhere"), tiny().join("config.json")] {
        let refused = error_of(&["model", "add", no_folder.to_str().unwrap()]);
        assert!(refused.contains("is not a folder") && refused.contains("A model is a folder"), "{refused}");
    }
    let pointer = stage.user_home().join("pointer");
    std::fs::create_dir(&pointer).unwrap();
    for file in ["config.json", "vocab.txt"] {
        std::fs::copy(tiny().join(file), pointer.join(file)).unwrap();
    }
    std::fs::write(pointer.join("model.safetensors"), "version https://git-lfs.github.com/spec/v1\nsize 9\n")
        .unwrap();
    let refused = error_of(&["model", "add", pointer.to_str().unwrap()]);
    assert!(refused.contains("git lfs pull"), "{refused}");
    let refused = error_of(&["model", "add", tiny().to_str().unwrap(), "--name", "../x"]);
    assert!(refused.contains("is not a name for a model"), "{refused}");
    let refused = error_of(&["model", "remove", "tiny"]);
    assert!(refused.contains("no model tiny") && refused.contains("recall model list"), "{refused}");
    assert!(!stage.home().join("data/models").exists());
}

/// Answers like an embeddings server. A text's vector shows whether it is about something slow.
fn vectors(asked: &Asked, _number: u64) -> Behaviour {
    let texts = asked.body["input"].as_array().cloned().unwrap_or_default();
    let slow = |text: &Value| {
        let text = text.as_str().unwrap_or_default().to_lowercase();
        ["slow", "sluggish", "latency"].iter().any(|word| text.contains(word))
    };
    let data: Vec<Value> = texts
        .iter()
        .enumerate()
        .map(|(index, text)| json!({"index": index, "embedding": if slow(text) { [2.0, 0.1] } else { [0.1, 2.0] }}))
        .collect();
    let body = json!({"data": data, "usage": {"prompt_tokens": 10 * texts.len()}}).to_string();
    Behaviour::Raw { status: 200, headers: Vec::new(), body: body.into_bytes() }
}

fn remote(provider: &Provider, more: &str) -> String {
    let url = provider.url();
    format!("[embedding]\nbackend = \"openai\"\nmodel = \"m\"\nbase_url = \"{url}/v1\"\n{more}")
}

#[test]
fn a_remote_server_makes_vectors_and_their_tokens_are_counted() {
    let provider = Provider::start(vectors);
    // All texts wait when the server is configured. On a slow machine each would be sent as soon as it is stored.
    let mut stage = Stage::new().daemon();
    talk(&stage);
    stage.stop_daemon();
    let stage = stage.config(&remote(&provider, "")).daemon();
    stage.flush();
    finds_the_login(&stage);
    let asked = provider.asked();
    assert!(asked.iter().all(|asked| asked.path == "/v1/embeddings" && asked.body["model"] == "m"));
    assert!(
        asked.iter().any(|asked| asked.body["input"].as_array().unwrap().len() > 1),
        "texts are sent together"
    );
    let spent = stage.json(["ctl", "status"])["compression"]["tokens_today"].as_u64().unwrap();
    let texts: usize = asked.iter().map(|asked| asked.body["input"].as_array().unwrap().len()).sum();
    assert_eq!(spent, 10 * texts as u64);
}

#[test]
fn a_failing_server_or_an_empty_budget_does_not_stop_search() {
    let provider = Provider::start(|_, _| Behaviour::Status(500));
    let stage = Stage::new().config(&remote(&provider, "")).daemon();
    talk(&stage);
    assert_ne!(stage.json(["search", "sluggish"])["total"], 0);
    assert_ne!(embedding(&stage)["waiting"], 0);
    assert!(embedding(&stage)["why"].as_str().unwrap().contains("500"), "{}", embedding(&stage));
    for report in ["status", "doctor"] {
        let output = stage.recall([report]).stdout;
        let line = output.lines().find(|line| line.contains("openai, m")).unwrap();
        assert!(line.contains("has a problem: 500"), "{output}");
    }

    let provider = Provider::start(vectors);
    let capped = remote(&provider, "[compression]\ntokens_per_day = 1\n");
    let stage = Stage::new().config(&capped).daemon();
    talk(&stage);
    assert_ne!(stage.json(["search", "sluggish"])["total"], 0);
    assert_eq!(provider.asked().len(), 0);
    assert!(embedding(&stage)["why"].as_str().unwrap().contains("budget"), "{}", embedding(&stage));
}

#[test]
fn changed_embedding_settings_take_effect_without_a_restart() {
    let (first, second) = (Provider::start(vectors), Provider::start(vectors));
    let stage = Stage::new().config(&remote(&first, "")).daemon();
    talk(&stage);
    finds_the_login(&stage);
    let settle = |text: &str, is_done: &dyn Fn(&Value) -> bool| {
        std::fs::write(stage.home().join("config.toml"), text).unwrap();
        let deadline = Instant::now() + Duration::from_secs(30);
        while !is_done(&embedding(&stage)) {
            assert!(Instant::now() < deadline, "{}\n{}", embedding(&stage), stage.log());
            stage.flush();
        }
    };
    let before = embedding(&stage)["model_hash"].clone();
    settle(&remote(&second, ""), &|now| now["model_hash"] != before && now["waiting"] == 0);
    let asked = first.asked().len();
    finds_the_login(&stage);
    assert_eq!(first.asked().len(), asked, "the first server is asked no more");
    settle("", &|now| now["state"] == "off");
    let asked = second.asked().len();
    assert_eq!(stage.json(["search", "slow login"])["results"], json!([]));
    assert_eq!((second.asked().len(), rows(&stage).len()), (asked, 0), "neither is the second");
}

#[test]
fn config_test_asks_the_sentence_model_for_a_vector() {
    let provider = Provider::start(vectors);
    let stage = Stage::new().config(&remote(&provider, ""));
    let output = stage.recall(["config", "test"]);
    assert_eq!((output.code(), provider.asked().len()), (0, 1), "{output:?}");
    assert!(output.stdout.contains("openai:m computed a vector of 2 dimensions"), "{output:?}");
    provider.change(|_, _| Behaviour::Status(401));
    let output = stage.recall(["config", "test"]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(
        output.stdout.contains("rejects the key: 401") && output.stderr.contains("words only"),
        "{output:?}"
    );
    let output = with_tiny().recall(["config", "test"]);
    assert!(output.code() == 0 && output.stdout.contains("computed a vector"), "{output:?}");
    let output = Stage::new().config(&local("nope")).recall(["config", "test"]);
    assert!(output.code() == 1 && output.stdout.contains("recall model add"), "{output:?}");
}

/// Returns the numbers of the sessions whose texts were sent, in the order of sending.
fn sessions_of(asked: &[Asked]) -> Vec<usize> {
    let texts = asked.iter().flat_map(|asked| asked.body["input"].as_array().cloned().unwrap_or_default());
    let number = |text: Value| {
        let text = text.as_str()?.to_owned();
        text.split(|c: char| !c.is_ascii_alphanumeric())
            .find_map(|word| word.strip_prefix("sess")?.parse().ok())
    };
    texts.filter_map(number).collect()
}

/// Stores many sessions with a prompt and an answer each. They have no vectors yet.
fn many_sessions(count: usize) -> Stage {
    let mut stage = Stage::new().daemon();
    for number in 0..count {
        let id = format!("sess{number}");
        let prompt = json!({"prompt": format!("Slow login in {id}?"), "prompt_id": id});
        let stop = json!({"last_assistant_message": format!("The parser of {id} is slow."), "prompt_id": id});
        stage.deliver(&[
            stage.delivery(&stage.event(&id, "UserPromptSubmit", prompt)),
            stage.delivery(&stage.event(&id, "Stop", stop)),
        ]);
    }
    stage.flush();
    stage.kill_daemon();
    stage
}

#[test]
fn vectors_of_the_newest_sessions_are_made_first() {
    let provider = Provider::start(vectors);
    let mut stage = many_sessions(50).config(&remote(&provider, ""));
    stage.start_daemon();
    stage.flush();
    let sent = sessions_of(&provider.asked());
    assert!(sent.len() >= 100 && sent.is_sorted_by(|a, b| a >= b), "the newest sessions first: {sent:?}");
    let state = embedding(&stage);
    assert_eq!(state["waiting"], 0, "{state}");
    assert!(state["per_second"].as_f64().unwrap() > 0.0 && state["seconds_left"] == 0, "{state}");
}

#[test]
fn a_crash_repeats_at_most_one_batch_of_vectors() {
    let provider = Provider::start(vectors);
    let stage = many_sessions(40).config(&remote(&provider, ""));
    let mut stage = stage.variable("RECALL_FAILPOINTS", "vectors.stored=11*off->return(kill)");
    stage.start_daemon();
    assert!(!stage.daemon_ended().success());
    let mut stage = stage.variable("RECALL_FAILPOINTS", "");
    stage.start_daemon();
    stage.flush();
    assert_eq!(embedding(&stage)["waiting"], 0);
    let sent: usize =
        provider.asked().iter().map(|asked| asked.body["input"].as_array().unwrap().len()).sum();
    let stored = embedding(&stage)["embedded"].as_u64().unwrap() as usize;
    // Each text is one passage here, and a batch has eight texts.
    assert!((stored..=stored + 8).contains(&sent), "{sent} sent for {stored}");
}

#[test]
fn a_model_is_measured_on_the_users_own_questions() {
    let stage = Stage::new();
    assert_eq!(stage.recall(["model", "add", tiny().to_str().unwrap(), "--name", "tiny"]).code(), 0);
    let stage = stage.config(&local("tiny")).daemon();
    talk(&stage);
    let id = stage.json(["search", "slow login"])["results"][0]["id"].clone();
    let id = id.as_str().map_or_else(|| id.to_string(), str::to_owned);
    let file = stage.user_home().join("questions.tsv");
    std::fs::write(&file, format!("slow login\t#{id}\n\ncolour scheme\tp9999\n")).unwrap();
    let bench = ["model", "bench", "tiny", file.to_str().unwrap()];
    let measured = stage.json(bench);
    assert!(measured["passage_ms"].as_f64().unwrap() > 0.0, "{measured}");
    let ranking = &measured["ranking"];
    assert_eq!((&ranking["questions"], &ranking["words"]["first_5"]), (&json!(2), &json!(0.0)), "{measured}");
    assert_eq!(ranking["words_and_meaning"]["first"], 50.0, "{measured}");
    let output = stage.recall(bench);
    assert!(output.stdout.contains("words and meaning") && output.stdout.contains("a passage"), "{output:?}");
    std::fs::write(&file, "no tab").unwrap();
    let output = stage.recall(bench);
    assert!(output.code() == 2 && output.stderr.contains("has no tab"), "{output:?}");
}

#[test]
fn a_prompt_is_compared_with_notes_by_meaning_if_there_is_a_model() {
    let stage = with_tiny().daemon();
    talk(&stage);
    let decision = stage.json(["context", "--prompt", "Why is the login so slow again?"])["decision"].clone();
    let by_meaning = |parts: &Value| parts.as_array().unwrap().iter().any(|part| part["feature"] == "cosine");
    assert!(by_meaning(&decision["answer_parts"]), "{decision}");
    // Without a model, words decide.
    let stage = Stage::new().daemon();
    talk(&stage);
    let decision =
        stage.json(["context", "--prompt", "Why is the login so sluggish again?"])["decision"].clone();
    assert!(!decision["best"].is_null() && !by_meaning(&decision["answer_parts"]), "{decision}");
}

#[test]
fn resolve_by_query_matches_by_meaning_and_forget_only_by_words() {
    let stage = with_tiny().daemon();
    for note in ["Signin is sluggish", "Deploy rollout"] {
        assert_eq!(stage.recall(["remember", note]).code(), 0);
    }
    stage.flush();
    let marked = stage.recall(["resolve", "--query", "slow login", "--dry-run"]).stdout;
    assert!(marked.contains("#1 Signin is sluggish"), "{marked}");
    assert!(!marked.contains("#2"), "{marked}");
    let forgotten = stage.recall(["forget", "--query", "slow login", "--dry-run"]).stdout;
    assert!(!forgotten.contains("Signin"), "{forgotten}");
    let forgotten = stage.recall(["forget", "--query", "sluggish", "--dry-run"]).stdout;
    assert!(forgotten.contains("1 observation"), "{forgotten}");
}

#[test]
fn a_note_repeated_by_a_newer_one_is_not_injected_at_a_start() {
    let mut stage = with_tiny().daemon();
    let key = format!("path:{}", stage.project().canonicalize().unwrap().display());
    let note = |uuid: &str, day: i64, title: &str, origin: &str| {
        json!({"kind": "observation", "uuid": uuid, "project": key, "type": "discovery", "title": title,
            "narrative": "", "origin": origin, "created_at": 1_750_000_000_000_i64 + day * 86_400_000, "facts": [],
            "concepts": [], "files_read": [], "files_modified": [], "importance": 5, "evidence": []})
    };
    let lines = [
        json!({"format": "recall-export", "version": 1}),
        json!({"kind": "project", "key": key, "name": "shop", "aliases": [key], "created_at": 1}),
        note("a", 1, "the login is slow", "extractive"),
        note("b", 2, "sluggish is the signin of the password", "extractive"),
        note("c", 1, "invoice 7 was slow in billing", "extractive"),
        note("d", 2, "the billing delay of invoice 8", "extractive"),
    ];
    let path = stage.user_home().join("made.jsonl");
    std::fs::write(&path, lines.map(|line| line.to_string()).join("\n")).unwrap();
    assert_eq!(stage.recall(["import", "recall", path.to_str().unwrap()]).code(), 0);
    stage.flush();
    let output = stage.recall(["context"]).stdout;
    let is_injected = |title: &str| output.contains(title);
    assert!(!is_injected("the login is slow") && is_injected("sluggish is the signin"), "{output}");
    assert!(is_injected("invoice 7") && is_injected("invoice 8"), "two numbers are two things: {output}");
    // Without the model, recall does not know that the two mean the same.
    assert_eq!(stage.recall(["config", "set", "embedding.backend", "none"]).code(), 0);
    stage.stop_daemon();
    stage.start_daemon();
    assert!(stage.recall(["context"]).stdout.contains("the login is slow"));
}
