//! Tests the idle times of sessions, with the whole actor tree and a paused clock.

use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use super::test_system::Tree;
use recall_config::Config;
use recall_domain::lifecycle::LifecycleKind;

fn seconds(range: std::ops::RangeInclusive<u64>, took: Duration) {
    assert!(range.contains(&took.as_secs()), "{took:?} is not within {range:?} s");
}

#[tokio::test(start_paused = true)]
async fn an_idle_batch_is_closed_and_later_its_session_ends() {
    let mut tree = Tree::start(Config::default()).await;
    tree.hook("SessionStart", json!({"source": "startup"})).await;
    tree.hook("UserPromptSubmit", json!({"prompt": "go"})).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    // The silence counts from the last event.
    tree.hook("PostToolUse", json!({"tool_name": "Bash", "tool_input": {}, "tool_response": {}})).await;
    let (took, _) = tree.wait_for("s", "batch_closed").await;
    seconds(300..=361, took);
    let (took, end) = tree.wait_for("s", "session_end").await;
    seconds(3600 - 361..=3361, took);
    assert!(matches!(end, LifecycleKind::SessionEnd { reason, .. } if reason == "idle"));
    // The next event starts the next life.
    tree.hook("Stop", json!({"last_assistant_message": "Done."})).await;
    let (_, start) = tree.wait_for("s", "session_start").await;
    assert!(matches!(start, LifecycleKind::SessionStart { life: 2, resumed_from: Some(_), .. }), "{start:?}");
    tree.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_running_call_keeps_only_the_batch_of_its_own_session_open() {
    let mut tree = Tree::start(Config::default()).await;
    let call = json!({"tool_name": "Bash", "tool_input": {"command": "make world"}, "tool_use_id": "t1"});
    tree.hook("UserPromptSubmit", json!({"prompt": "go"})).await;
    tree.hook("PreToolUse", call.clone()).await;
    tree.hook_of("other", "UserPromptSubmit", json!({"prompt": "go"})).await;
    tree.wait_for("other", "batch_closed").await;
    tokio::time::sleep(Duration::from_secs(600)).await;
    assert_eq!(tree.batch_states(), ["open"]);
    tree.hook("PostToolUse", call).await;
    let (took, _) = tree.wait_for("s", "batch_closed").await;
    seconds(300..=361, took);
    tree.stop().await;
}

#[tokio::test(start_paused = true)]
async fn idle_times_follow_the_users_settings() {
    let mut config = Config::default();
    (config.idle.batch_ms, config.idle.session_ms, config.housekeeping_s) = (5_000, 20_000, 1);
    let mut tree = Tree::start(config).await;
    tree.hook("UserPromptSubmit", json!({"prompt": "go"})).await;
    let (took, _) = tree.wait_for("s", "batch_closed").await;
    seconds(5..=6, took);
    let (took, _) = tree.wait_for("s", "session_end").await;
    seconds(14..=16, took);
    tree.stop().await;
}

#[tokio::test(start_paused = true)]
async fn an_ended_session_releases_its_actor_and_can_start_again() {
    let mut tree = Tree::start(Config::default()).await;
    tree.hook("UserPromptSubmit", json!({"prompt": "go"})).await;
    tree.hook_of("other", "UserPromptSubmit", json!({"prompt": "go"})).await;
    tree.hook("SessionEnd", json!({"reason": "other"})).await;
    assert_eq!(tree.sessions().await, 2);
    // The session continues meanwhile, and ends again.
    tokio::time::sleep(Duration::from_secs(8)).await;
    tree.hook("UserPromptSubmit", json!({"prompt": "wait"})).await;
    tree.hook("SessionEnd", json!({"reason": "logout"})).await;
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert_eq!(tree.sessions().await, 2);
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert_eq!(tree.sessions().await, 1);
    tree.hook("UserPromptSubmit", json!({"prompt": "and now?"})).await;
    assert_eq!(tree.sessions().await, 2);
    for expected in 1..=3 {
        let (_, start) = tree.wait_for("s", "session_start").await;
        assert!(matches!(start, LifecycleKind::SessionStart { life, .. } if life == expected), "{start:?}");
    }
    tree.stop().await;
}

#[tokio::test(start_paused = true)]
async fn only_some_of_many_live_sessions_keep_an_actor_and_the_rest_still_work() {
    let tree = Tree::start(Config::default()).await;
    let sessions: Vec<String> = (0..200).map(|nth| format!("many-{nth}")).collect();
    for session in &sessions {
        tree.hook_of(session, "UserPromptSubmit", json!({"prompt": "go"})).await;
    }
    let live = tree.sessions().await;
    assert!((20..=80).contains(&live), "{live}");
    // A call without an actor still finds its turn.
    let call = json!({"tool_name": "Read", "tool_input": {"file_path": "/a"}, "tool_response": {}});
    tree.hook_of(&sessions[0], "PostToolUse", call).await;
    let batches = tree.services.readers.read(|db| {
        let session = db.find_sessions(&sessions[0])?.remove(0);
        db.batches(session.row)
    });
    assert_eq!(batches.unwrap().len(), 1);
    tree.stop().await;
}

#[tokio::test(start_paused = true)]
async fn orphaned_batches_and_activities_are_repaired_within_a_round() {
    let mut tree = Tree::start(Config::default()).await;
    tree.hook("UserPromptSubmit", json!({"prompt": "go"})).await;
    tree.hook(
        "PostToolUse",
        json!({"tool_name": "Read", "tool_input": {"file_path": "/a"}, "tool_response": {}}),
    )
    .await;
    tree.hook(
        "Stop",
        json!({"last_assistant_message": "The parser drops the last line, because it looks for a newline."}),
    )
    .await;
    // An older version or a restored backup may leave such rows.
    let other = rusqlite::Connection::open(tree.home.path().join("data/recall.db")).unwrap();
    other
        .execute_batch(
            "UPDATE activities SET batch = NULL; DELETE FROM jobs; UPDATE prompt_batches SET compressed_at = NULL;",
        )
        .unwrap();
    let left = |what: &str| -> i64 { other.query_row(what, [], |row| row.get(0)).unwrap() };
    let begun = Instant::now();
    while left("SELECT count(*) FROM jobs") == 0 {
        // The next round announces the job.
        tree.bus_events.recv().await.unwrap();
        seconds(0..=61, begun.elapsed());
    }
    assert_eq!(left("SELECT count(*) FROM activities WHERE batch IS NULL"), 0);
    tree.stop().await;
}
