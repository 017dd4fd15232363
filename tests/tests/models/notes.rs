//! Tests the results of a model that answers for one turn.

use recall_tests::Stage;
use recall_tests::provider::{Behaviour, Provider, TOKENS_IN, TOKENS_OUT, well};
use serde_json::{Value, json};

use super::turns::{job, observations, origins, turn};

#[test]
fn both_apis_produce_notes_and_their_cost_is_counted() {
    for backend in ["anthropic", "openai"] {
        let provider = Provider::start(well);
        let key = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(key.path(), "sk-mock-key\n").unwrap();
        let keys = format!(
            "api_key_file = '{}'\nusd_per_mtok_in = 1.0\nusd_per_mtok_out = 2.0",
            key.path().display()
        );
        let stage = Stage::new().config(&provider.config(backend, &keys)).daemon();
        stage.discount_session("s1");
        stage.flush();

        let name = format!("{backend}:mock");
        assert_eq!(origins(&stage, "s1"), [name.as_str()]);
        let session = stage.json(["ctl", "session", "s1"]);
        assert_eq!(session["summary"]["learned"], "Mocks answer.");
        // The model named step 1 as evidence. A file that it does not name is not added.
        assert_eq!(session["observations"][0]["evidence"].as_array().unwrap().len(), 3);
        assert_eq!(session["observations"][0]["files_modified"], json!([]));

        let asked = provider.asked();
        assert_eq!(asked.len(), 2, "one call for the batch and one for the session");
        let sent_key = asked[0].header("x-api-key").or_else(|| asked[0].header("authorization"));
        assert_eq!(sent_key.map(|key| key.trim_start_matches("Bearer ")), Some("sk-mock-key"));
        assert!(asked[0].text().contains("cargo test cart"));

        let stats = stage.json(["stats"]);
        assert_eq!(stats["spending"][0]["backend"], name.as_str());
        assert_eq!(stats["total"]["calls"], 2);
        assert_eq!(stats["total"]["tokens_in"], 2 * TOKENS_IN);
        let usd = stats["total"]["usd"].as_f64().unwrap();
        assert!((usd - 2.0 * (TOKENS_IN + 2 * TOKENS_OUT) as f64 / 1e6).abs() < 1e-9, "{usd}");
        let status = stage.json(["ctl", "status"]);
        assert_eq!(status["compression"]["tokens_today"], provider.charged());
        assert_eq!(job(&stage, "s1")["cuts"]["left_out"], 0);
        assert!(!stage.log().contains("sk-mock-key"));
    }
}

#[test]
fn a_model_changes_the_notes_and_nothing_else() {
    let provider = Provider::start(well);
    let extractive = Stage::new().daemon();
    let model = Stage::new().config(&provider.config("openai", "")).daemon();
    let sessions = [&extractive, &model].map(|stage| {
        stage.discount_session("s1");
        turn(stage, "s2");
        stage.flush();
        let session = |id: &str| {
            let mut session = recall_tests::masked(&stage.json(["ctl", "session", id]), stage);
            assert!(!session["observations"].as_array().unwrap().is_empty());
            let own = session.as_object_mut().unwrap();
            for made in ["observations", "summary", "title", "injections"] {
                own.remove(made);
            }
            session
        };
        [session("s1"), session("s2")]
    });
    assert_eq!(sessions[0], sessions[1]);
    let jobs = |stage: &Stage| stage.json(["ctl", "status"])["jobs"].clone();
    assert_eq!(jobs(&extractive), jobs(&model));
}

/// Returns one observation about the cart, like a model that has read the earlier note.
fn noted(title: &str, replaces: &str) -> Behaviour {
    let observation = json!({"type": "change", "title": title, "subtitle": "", "narrative": "Large orders need it.",
        "facts": [], "concepts": [], "files_read": [], "files_modified": ["src/cart.rs"], "importance": 6,
        "evidence": [2], "replaces": replaces});
    Behaviour::Answers(json!({"observations": [observation]}).to_string())
}

#[test]
fn a_note_with_a_new_value_in_other_words_supersedes_the_old_note() {
    let provider = Provider::start(|_, number| match number {
        0 => noted("`max_items` is 99", "none"),
        1 => noted("Carts of large orders: `max_items` went up to 200", "k1"),
        2 => noted("Carts are read in one go now, orders are not", "k1"),
        _ => noted("Up to 300 per cart, the limit `max_items` followed", "k1"),
    });
    let stage = Stage::new().config(&provider.config("openai", "concurrency = 1")).daemon();
    for session in ["s1", "s2", "s3", "s4"] {
        turn(&stage, session);
        stage.flush();
    }
    let asked = provider.asked();
    assert!(!asked[0].text().contains("Noted before"), "{}", asked[0].text());
    assert!(asked[1].text().contains("[k1] max_items is 99"), "{}", asked[1].text());
    let [old, new, other, newest] =
        ["s1", "s2", "s3", "s4"].map(|session| observations(&stage, session)[0].clone());
    assert_eq!((&old["status"], &old["superseded_by"]), (&json!("superseded"), &new["id"]));
    // An observation that the model does not name stays as it is.
    assert_eq!((&new["status"], &new["superseded_by"]), (&json!("superseded"), &newest["id"]));
    assert_eq!((&other["status"], &newest["status"]), (&json!("active"), &json!("active")));
    let undone = stage.recall(["resolve", "--undo", &old["id"].to_string()]);
    assert_eq!(undone.code(), 0, "{undone:?}");
    assert_eq!(observations(&stage, "s1")[0]["status"], "active");
}

#[test]
fn an_empty_model_answer_is_accepted_and_stores_no_notes() {
    let provider = Provider::start(|_, _| Behaviour::Answers("{\"observations\": []}".to_owned()));
    let stage = Stage::new().config(&provider.config("anthropic", "")).daemon();
    turn(&stage, "s1");
    stage.flush();
    assert_eq!(job(&stage, "s1")["status"], "done");
    assert_eq!(observations(&stage, "s1"), Vec::<Value>::new());
    assert_eq!(provider.asked().len(), 1);
}

#[test]
fn a_model_may_correct_an_unusable_answer() {
    let provider = Provider::start(|asked, number| match number {
        0 => Behaviour::Answers("Certainly!".to_owned()),
        _ => well(asked, number),
    });
    let stage = Stage::new().config(&provider.config("openai", "")).daemon();
    turn(&stage, "s1");
    stage.flush();
    assert_eq!(origins(&stage, "s1"), ["openai:mock"]);
    assert_eq!(provider.asked().len(), 2);
    assert!(provider.asked()[1].text().contains("could not be used"));
}

#[test]
fn a_server_without_schema_support_is_asked_without_a_schema() {
    let provider = Provider::start(|asked, number| match asked.body.get("response_format") {
        Some(_) => Behaviour::Status(400),
        None => well(asked, number),
    });
    let stage = Stage::new().config(&provider.config("openai", "concurrency = 1")).daemon();
    turn(&stage, "s1");
    turn(&stage, "s2");
    stage.flush();
    assert_eq!(origins(&stage, "s2"), ["openai:mock"]);
    assert_eq!(provider.asked().len(), 3, "it is told once");
}

#[test]
fn config_test_makes_one_call_and_reports_whether_the_model_answers() {
    let provider = Provider::start(well);
    let stage = Stage::new().config(&provider.config("anthropic", ""));
    let output = stage.recall(["config", "test"]);
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(output.stdout.contains("anthropic:mock answered"), "{output:?}");
    assert_eq!(provider.asked().len(), 1);

    provider.change(|_, _| Behaviour::Status(401));
    let output = stage.recall(["config", "test"]);
    assert_eq!(output.code(), 1);
    assert!(output.stdout.contains("did not respond: the provider rejects the key: 401"), "{output:?}");
    assert!(output.stderr.contains("built-in compressor"), "{output:?}");

    let output = Stage::new().recall(["config", "test"]);
    assert_eq!((output.code(), output.stdout.contains("No model is configured")), (0, true), "{output:?}");
}

#[test]
fn config_test_reports_a_model_that_only_chats_as_unusable() {
    let provider =
        Provider::start(|_, _| Behaviour::Answers("Sure! I am here and happy to help.".to_owned()));
    let stage = Stage::new().config(&provider.config("openai", ""));
    let output = stage.recall(["config", "test"]);
    assert_eq!(output.code(), 1, "{output:?}");
    let stdout = &output.stdout;
    assert!(stdout.contains("openai:mock answered twice, but recall cannot use the answers"), "{stdout}");
    assert!(output.stderr.contains("1 of 1 models cannot be used"), "{output:?}");
    assert_eq!(provider.asked().len(), 2, "it may correct itself once");
    let output = stage.recall(["config", "test", "--json"]);
    assert_eq!((output.code(), output.json()["models"][0]["works"].clone()), (1, json!(false)), "{output:?}");

    provider.change(well);
    let output = stage.recall(["config", "test"]);
    assert!(
        output.code() == 0 && output.stdout.contains("with 1 observation of a small session"),
        "{output:?}"
    );
    let report = stage.json(["config", "test"]);
    assert_eq!(
        (&report["models"][0]["model"], &report["models"][0]["works"]),
        (&json!("openai:mock"), &json!(true))
    );
}
