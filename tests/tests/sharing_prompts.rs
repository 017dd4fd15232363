//! Tests that prompts and final answers are sent only if the share says so. Other machines then find them, but no
//! session gets them injected.

use recall_tests::Stage;
use serde_json::{Value, json};

use super::sharing::{MOSS, RULE, Shared, ask, done, exchange, machine, remember, share, start, sync};

const PROMPT: &str = "Why does the harbour crane stop at noon on Thursdays?";
const ANSWER: &str = "The harbour crane stops at noon on Thursdays because its brakes are inspected then.";
const KEY: &str = concat!("gh", "p_16C7e42F292c6912E7710c838347Ae178B4a");

fn talk(stage: &Stage, session: &str, prompt: &str, answer: &str) {
    stage.session(session, prompt, &[], answer);
    stage.hook(&stage.event(session, "SessionEnd", json!({"reason": "other"})));
    stage.flush();
}

fn prompts_and_answers(stage: &Stage) -> Vec<Value> {
    let answer = stage.json(["search", "harbour crane noon", "-n", "50"]);
    let results = answer["results"].as_array().unwrap().iter();
    results.filter(|result| result["kind"] == "said").cloned().collect()
}

/// Returns whether the folder has an entry of this kind with a text. The kind matters, because observations repeat
/// the text of an answer.
fn leaves(shared: &Shared, kind: &str, text: &str) -> bool {
    let of_kind = format!("\"kind\":\"{kind}\"");
    let has = |line: &str| line.contains(&of_kind) && line.contains(text);
    shared.parts().iter().any(|path| std::fs::read_to_string(path).unwrap().lines().any(has))
}

fn preview(stage: &Stage, terms: &[&str]) -> Value {
    let arguments = ["share", "--with", "team", "--dry-run"];
    stage.json(arguments.into_iter().chain(terms.iter().copied()))
}

#[test]
fn prompts_and_answers_are_sent_only_if_shared_and_are_never_injected() {
    let shared = Shared::new();
    let (mia, ben) = (machine("mia", "laptop", ""), machine("ben", "desktop", ""));
    talk(&mia, "crane", PROMPT, ANSWER);
    talk(&mia, "key", &format!("Use the key {KEY} for the harbour crane"), "I use it.");
    // The preview counts what would be sent.
    std::fs::create_dir_all(shared.path()).unwrap();
    done(&mia.recall(["remote", "add", "team", shared.path().to_str().unwrap(), "--plaintext"]));
    let plain = preview(&mia, &[]);
    assert_eq!((&plain["prompts"], &plain["answers"]), (&json!(0), &json!(0)), "{plain}");
    let both = preview(&mia, &["--prompts", "--answers"]);
    assert_eq!((&both["prompts"], &both["answers"]), (&json!(2), &json!(2)), "{both}");
    let output = mia.recall(["share", "--with", "team", "--dry-run", "--prompts"]).stdout;
    assert!(output.contains("2 prompts of") && !output.contains("answer"), "{output}");

    done(&mia.recall(["share", "--with", "team", "--yes"]));
    share(&ben, &shared, &["--inject"]);
    exchange(&[&mia, &ben]);
    assert!(prompts_and_answers(&ben).is_empty() && !leaves(&shared, "prompt", "stop at noon"));

    done(&mia.recall(["share", "--with", "team", "--yes", "--prompts", "--answers"]));
    exchange(&[&mia, &ben]);
    assert!(mia.recall(["share", "--list"]).stdout.contains("with prompts, with answers"));
    let found = prompts_and_answers(&ben);
    let titles: Vec<&str> = found.iter().map(|result| result["title"].as_str().unwrap()).collect();
    assert!(titles.iter().any(|title| title.starts_with("asked: Why does the harbour crane")), "{titles:?}");
    assert!(titles.iter().any(|title| title.starts_with("answered: The harbour crane stops")), "{titles:?}");
    assert!(
        found.iter().all(|result| result["author"] == "mia" && result["device"] == "laptop"),
        "{found:?}"
    );
    let id =
        found.iter().find(|result| result["title"].as_str().unwrap().starts_with("asked")).unwrap()["id"]
            .clone();
    let id = id.as_str().unwrap();
    let shown = ben.recall(["show", id]).stdout;
    assert!(shown.contains(PROMPT) && shown.contains("by mia, laptop"), "{shown}");
    let item = ben.json(["show", id])["items"][0].clone();
    assert_eq!((&item["author"], &item["text"]), (&json!("mia"), &json!(PROMPT)));
    assert_eq!(ben.json(["search", "kind:said by:mia", "-n", "50"])["total"], 4);
    assert_eq!(ben.json(["search", "kind:said", "--mine"])["total"], 0);
    // A secret that the current rules recognise is never sent.
    assert!(!shared.contains(KEY));

    // A received prompt is not a wish of the user of this machine, and it is not injected.
    let prompt = "Why does the harbour crane stop at noon on Thursdays, and when does it go on?";
    for context in [start(&ben, "s1"), ask(&ben, "s2", prompt)] {
        assert!(!context.contains("asked:") && !context.contains("the user said"), "{context}");
        assert!(!context.contains(PROMPT), "{context}");
    }
    let rows = ben.json([
        "sql",
        "SELECT count(*) FROM user_prompts WHERE prompt_text LIKE '%stop at noon on Thursdays?%'",
    ]);
    assert_eq!(rows["rows"][0][0], 0, "{rows}");
    let export = ben.user_home().join("memory.jsonl");
    done(&ben.recall(["export", export.to_str().unwrap()]));
    assert!(!std::fs::read_to_string(&export).unwrap().contains(PROMPT), "it comes again by its share");
}

#[test]
fn narrower_terms_forget_and_unshare_remove_shared_prompts_and_answers() {
    let shared = Shared::new();
    let (mia, ben) = (machine("mia", "laptop", ""), machine("ben", "desktop", ""));
    talk(&mia, "crane", PROMPT, ANSWER);
    share(&mia, &shared, &["--prompts", "--answers"]);
    share(&ben, &shared, &[]);
    exchange(&[&mia, &ben]);
    assert_eq!(prompts_and_answers(&ben).len(), 2);
    // Items that may no longer be sent are withdrawn.
    done(&mia.recall(["share", "--with", "team", "--yes", "--prompts"]));
    exchange(&[&mia, &ben]);
    assert_eq!(prompts_and_answers(&ben).len(), 1);
    assert!(!leaves(&shared, "response", "brakes") && leaves(&shared, "prompt", "at noon"));
    done(&mia.recall(["share", "--with", "team", "--yes", "--prompts", "--answers"]));
    exchange(&[&mia, &ben]);
    assert_eq!(prompts_and_answers(&ben).len(), 2);
    assert!(leaves(&shared, "response", "brakes"));
    // The author forgets the answer. It is deleted on all machines.
    let answer = mia.json(["search", "kind:response harbour crane brakes"]);
    let id = answer["results"][0]["id"].as_str().unwrap().to_owned();
    done(&mia.recall(["forget", &id, "--yes"]));
    exchange(&[&mia, &ben]);
    assert_eq!(prompts_and_answers(&ben).len(), 1);
    assert!(!shared.contains("its brakes are inspected"));
    let copies = |stage: &Stage, text: &str| {
        let bytes = std::fs::read(stage.database()).unwrap();
        bytes.windows(text.len()).any(|window| window == text.as_bytes())
    };
    assert!(!copies(&ben, "its brakes are inspected"));
    // Ending the share removes received items, on this machine only.
    done(&ben.recall(["unshare"]));
    ben.flush();
    assert!(prompts_and_answers(&ben).is_empty());
    assert_eq!(mia.json(["search", "kind:prompt harbour crane"])["total"], 1);
    let again = share_again(&ben);
    assert_eq!(again, 1);
    // The reader forgets the prompt. The author's machine loses the prompt, but no work of the session.
    remember(&mia, RULE);
    let id = prompts_and_answers(&ben)[0]["id"].as_str().unwrap().to_owned();
    done(&ben.recall(["forget", &id, "--yes"]));
    exchange(&[&ben, &mia]);
    mia.flush();
    assert_eq!(mia.json(["search", "kind:prompt harbour crane"])["total"], 0);
    assert_eq!(mia.json(["ctl", "session", "crane"])["batches"].as_array().unwrap().len(), 1);
    remember(&mia, MOSS);
    sync(&mia);
}

/// Shares again. Returns the number of prompts and answers that are received again.
fn share_again(stage: &Stage) -> usize {
    done(&stage.recall(["share", "--with", "team", "--yes"]));
    sync(stage);
    prompts_and_answers(stage).len()
}
