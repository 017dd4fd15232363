//! Tests the cost account, and how kills affect it.

use std::process::Stdio;

use recall_system::faults::Point;
use recall_tests::faults::process::Daemon;
use recall_tests::provider::{Behaviour, Provider, TOKENS_IN, TOKENS_OUT, well};
use recall_tests::{DISCOUNT_ANSWER, Stage};
use serde_json::json;

use super::turns::{job, observations, origins, turn};

#[test]
fn the_daily_token_budget_is_never_exceeded_and_jobs_still_finish() {
    const CAP: u64 = 16_000;
    let provider = Provider::start(well);
    let keys = format!("tokens_per_day = {CAP}\nconcurrency = 1");
    let stage = Stage::new().config(&provider.config("openai", &keys)).daemon();
    // More turns than the cap has room for, at 350 tokens each.
    for number in 0..60 {
        let session = format!("s{number}");
        let prompt_id = format!("p{number}");
        let prompt = json!({"prompt": format!("Prompt {number}"), "prompt_id": prompt_id});
        let stop = json!({"last_assistant_message": DISCOUNT_ANSWER, "prompt_id": prompt_id});
        let events = [
            stage.delivery(&stage.event(&session, "UserPromptSubmit", prompt)),
            stage.delivery(&stage.event(&session, "Stop", stop)),
        ];
        stage.deliver(&events);
    }
    stage.flush();
    let spent = stage.json(["ctl", "status"])["compression"]["tokens_today"].as_u64().unwrap();
    assert!(spent <= CAP && provider.charged() == spent, "{spent} of {CAP}, {} charged", provider.charged());
    assert!(spent > CAP / 4, "{spent}: the cap is what stopped it, not something else");
    let jobs = stage.json(["ctl", "status"])["jobs"].clone();
    assert_eq!((jobs["dead"].as_u64(), jobs["retrying"].as_u64()), (Some(0), Some(0)), "{jobs}");
    assert!(provider.asked().len() < 60);
}

#[test]
fn kills_exceed_no_budget_and_duplicate_no_note() {
    // The cap has room for one call in each life of the daemon.
    const CAP: u64 = 50_000;
    let provider = Provider::start(|_, _| Behaviour::Held);
    let keys = format!("tokens_per_day = {CAP}\nconcurrency = 1");
    let mut stage = Stage::new().config(&provider.config("openai", &keys)).daemon();
    turn(&stage, "s1");
    let spent =
        |stage: &Stage| stage.json(["ctl", "status"])["compression"]["tokens_today"].as_u64().unwrap();
    for kill in 1..=3 {
        // The daemon dies while the call or its answer is under way.
        provider.wait_for(kill);
        stage.kill_daemon();
        stage.start_daemon();
        let now = spent(&stage);
        assert!(now >= 5_000 * kill as u64 && now <= CAP, "after kill {kill}: {now}");
    }
    provider.let_go();
    provider.change(well);
    stage.flush();
    let found = observations(&stage, "s1");
    let titles: std::collections::BTreeSet<&str> =
        found.iter().map(|observation| observation["title"].as_str().unwrap()).collect();
    assert_eq!(titles.len(), found.len(), "no note twice: {titles:?}");
    assert!(!found.is_empty());
    // At most one call was made in each life of the daemon.
    assert!(provider.asked().len() <= 4, "{}", provider.asked().len());
    let now = spent(&stage);
    assert!(now <= CAP && now >= provider.charged(), "{now}, {} charged", provider.charged());
}

#[test]
fn an_answer_lost_before_its_commit_costs_exactly_one_more_call() {
    let provider = Provider::start(well);
    let mut stage = Stage::new().config(&provider.config("openai", "concurrency = 1"));
    // The answer has arrived and its rows are written, but they are not committed.
    let mut daemon =
        Daemon::spawn_armed(&stage, &format!("{}=return(kill)", Point::Result.name()), Stdio::null());
    daemon.wait_until_it_listens(&stage).unwrap();
    turn(&stage, "s1");
    assert!(!daemon.wait().success());
    assert_eq!(provider.asked().len(), 1);
    stage.start_daemon();
    stage.flush();
    assert_eq!(provider.asked().len(), 2);
    assert_eq!(origins(&stage, "s1"), ["openai:mock"]);
    assert_eq!(observations(&stage, "s1").len(), 1);
    assert_eq!(job(&stage, "s1")["status"], "done");
    // Both answers were charged, and the account contains both and nothing else.
    let spent = stage.json(["ctl", "status"])["compression"]["tokens_today"].as_u64().unwrap();
    assert_eq!((spent, provider.charged()), (2 * (TOKENS_IN + TOKENS_OUT), spent));
}

/// Today's account: calls, tokens, and the assumed part of both.
#[derive(Debug, PartialEq, Eq)]
struct Account {
    calls: u64,
    tokens: u64,
    assumed_calls: u64,
    assumed_tokens: u64,
}

fn account(stage: &Stage) -> Account {
    let total = stage.json(["stats", "--days", "2"])["total"].clone();
    let count = |key: &str| total[key].as_u64().unwrap_or_else(|| panic!("no {key} in {total}"));
    Account {
        calls: count("calls"),
        tokens: count("tokens_in") + count("tokens_out"),
        assumed_calls: count("assumed_calls"),
        assumed_tokens: count("assumed_tokens"),
    }
}

/// Starts a daemon that dies at this point during a turn of `s1`.
fn dies_at(stage: &Stage, point: Point) {
    let mut daemon = Daemon::spawn_armed(stage, &format!("{}=return(kill)", point.name()), Stdio::null());
    daemon.wait_until_it_listens(stage).unwrap();
    turn(stage, "s1");
    assert!(!daemon.wait().success(), "{point:?} was never reached");
}

#[test]
fn a_model_call_is_accounted_for_wherever_the_daemon_dies() {
    const CHARGED: u64 = TOKENS_IN + TOKENS_OUT;
    for (point, asked) in Point::OF_MODELS.into_iter().zip([0, 1, 1]) {
        let provider = Provider::start(well);
        let mut stage = Stage::new().config(&provider.config("openai", "concurrency = 1"));
        dies_at(&stage, point);
        assert_eq!(provider.asked().len(), asked, "{point:?}");
        stage.start_daemon();
        stage.flush();
        // One more call was made, and its answer is stored once.
        let calls = provider.asked().len();
        assert_eq!(calls, asked + 1, "{point:?}");
        assert_eq!(origins(&stage, "s1"), ["openai:mock"], "{point:?}");
        assert_eq!(observations(&stage, "s1").len(), 1, "{point:?}");
        let now = account(&stage);
        assert!(now.tokens >= provider.charged(), "{point:?}: {now:?}, {} charged", provider.charged());
        let output = stage.recall(["stats"]).stdout;
        if point == Point::Booked {
            let (calls, charged) = (calls as u64, provider.charged());
            assert_eq!(now, Account { calls, tokens: charged, assumed_calls: 0, assumed_tokens: 0 });
            assert!(!output.contains("at the most"), "{output}");
        } else {
            // The cost is unknown, so the account keeps the reservation, and `stats` says so.
            assert_eq!((now.calls, now.assumed_calls), (2, 1), "{point:?}: {now:?}");
            assert_eq!(now.tokens, now.assumed_tokens + CHARGED, "{point:?}: {now:?}");
            assert!(now.assumed_tokens > 4_096, "{point:?}: {now:?}, less than an answer may have");
            let text = format!(
                "1 of them without a reported cost, counted at their maximum ({} tokens)",
                now.assumed_tokens
            );
            assert!(output.contains(&text), "{output}");
        }
    }
}

#[test]
fn calls_of_unknown_cost_count_against_the_cap() {
    // The cap has room for one call, but not for another.
    const CAP: u64 = 9_000;
    for point in [Point::Reserved, Point::Answered] {
        let provider = Provider::start(well);
        let keys = format!("tokens_per_day = {CAP}\nconcurrency = 1");
        let mut stage = Stage::new().config(&provider.config("openai", &keys));
        dies_at(&stage, point);
        let asked = provider.asked().len();
        stage.start_daemon();
        stage.flush();
        assert_eq!(provider.asked().len(), asked, "{point:?}: there was no room for another call");
        assert!(origins(&stage, "s1").iter().all(|origin| origin == "extractive"));
        let now = account(&stage);
        assert!(now.tokens <= CAP && now.tokens == now.assumed_tokens, "{point:?}: {now:?}");
        let today = stage.json(["ctl", "status"])["compression"]["tokens_today"].as_u64();
        assert_eq!(today, Some(now.tokens), "{point:?}");
    }
}
