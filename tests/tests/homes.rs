//! Tests that the place where a session runs does not depend on which of its events arrives first.

use std::path::Path;

use recall_protocol::wire::Deliver;
use recall_tests::repository::Repository;
use recall_tests::{DISCOUNT_ANSWER, DISCOUNT_PROMPT, Stage};
use serde_json::{Value, json};

/// Returns an event whose agent names its working folder and nothing else.
fn event_in(stage: &Stage, folder: &str, session: &str, name: &str, fields: Value) -> Deliver {
    let mut event = stage.event(session, name, fields);
    event["cwd"] = json!(folder);
    stage.delivery(&event)
}

/// Returns the events of a session that learns something about a cart, in order. `folder_of` returns the working
/// folder of each event.
fn discount_work(stage: &Stage, session: &str, folder_of: impl Fn(usize) -> String) -> Vec<Deliver> {
    let mut bus_events = vec![
        ("SessionStart", json!({"source": "startup"})),
        ("UserPromptSubmit", json!({"prompt": DISCOUNT_PROMPT})),
    ];
    for (number, mut call) in stage.discount_calls().into_iter().enumerate() {
        call["tool_use_id"] = json!(format!("{session}-t{number}"));
        bus_events.push(("PostToolUse", call));
    }
    bus_events.push(("Stop", json!({"last_assistant_message": DISCOUNT_ANSWER})));
    bus_events.push(("SessionEnd", json!({"reason": "other"})));
    let events = bus_events.into_iter().enumerate().map(|(nth, (name, mut fields))| {
        if !name.starts_with("Session") {
            fields["prompt_id"] = json!(format!("{session}-p"));
        }
        event_in(stage, &folder_of(nth), session, name, fields)
    });
    events.collect()
}

fn stored_session(stage: &Stage, session: &str) -> Value {
    stage.json(["ctl", "session", session])
}

fn found(stage: &Stage, project: &Path) -> Value {
    stage.json(["search", "rounding happens once", "--project", project.to_str().unwrap()])["results"].clone()
}

#[test]
fn worktrees_and_subfolders_join_their_project_whichever_event_comes_first() {
    let stage = Stage::new();
    let repository = Repository::init(&stage.project());
    let (beside, inside) =
        (stage.user_home().join("shop-x"), stage.project().join(".claude/worktrees/feature-y"));
    for (folder, branch) in [(&beside, "x"), (&inside, "y")] {
        repository.git(&["worktree", "add", "-q", folder.to_str().unwrap(), "-b", branch]);
    }
    let folders =
        [stage.project(), beside.clone(), inside, stage.project().join("src/api"), beside.join("src")];
    for folder in &folders {
        std::fs::create_dir_all(folder).unwrap();
    }
    let stage = stage.daemon();
    stage.deliver(&discount_work(&stage, "first", |_| stage.project().to_string_lossy().into_owned()));
    let project = stored_session(&stage, "first")["project_id"].clone();
    assert!(project.as_str().unwrap().starts_with("root:"), "{project}");
    for (nth, folder) in folders.iter().enumerate() {
        let whole = discount_work(&stage, "any", |_| folder.to_string_lossy().into_owned());
        for (first, event) in whole.iter().enumerate() {
            let mut event = event.clone();
            let id = format!("s-{nth}-{first}");
            event.payload =
                String::from_utf8(event.payload).unwrap().replace("\"any\"", &json!(id).to_string()).into();
            stage.deliver([&event]);
        }
    }
    let sessions = stage.json(["ctl", "sessions", "--limit", "100", "--project", "."])["sessions"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 1 + folders.len() * 7, "{sessions}");
}

#[test]
fn a_bare_folder_name_means_the_folder_that_the_hook_ran_in() {
    let stage = Stage::new().daemon();
    let whole = stage.project().to_string_lossy().into_owned();
    for (session, folder) in [("whole", whole.as_str()), ("bare", "shop"), ("empty", "")] {
        stage.deliver(&[event_in(&stage, folder, session, "UserPromptSubmit", json!({"prompt": "Go"}))]);
        assert_eq!(
            stored_session(&stage, session)["project_id"],
            stored_session(&stage, "whole")["project_id"],
            "{session}"
        );
    }
}

#[test]
fn events_of_a_removed_worktree_still_belong_to_its_project() {
    let stage = Stage::new();
    let repository = Repository::init(&stage.project());
    let tree = stage.user_home().join("tree");
    repository.git(&["worktree", "add", "-q", tree.to_str().unwrap(), "-b", "x"]);
    let stage = stage.daemon();
    let inside = tree.join("src").to_string_lossy().into_owned();
    let ask = |session: &str, folder: &str| {
        stage.deliver(&[event_in(&stage, folder, session, "UserPromptSubmit", json!({"prompt": "Go"}))]);
        stored_session(&stage, session)["project_id"].clone()
    };
    let project = ask("before", tree.to_str().unwrap());
    repository.git(&["worktree", "remove", tree.to_str().unwrap()]);
    assert_eq!(ask("after", &inside), project);
    // Another folder takes its place.
    std::fs::create_dir(&tree).unwrap();
    assert_ne!(ask("another", tree.to_str().unwrap()), project);
}

#[test]
fn the_earliest_event_sets_the_project_and_moves_the_observations() {
    let stage = Stage::new();
    let other = stage.user_home().join("other");
    std::fs::create_dir(&other).unwrap();
    let stage = stage.daemon();
    let (here, there) = (stage.project(), other.to_string_lossy().into_owned());
    // The session starts here and moves there with its first call. Another session there has learned the same.
    let folder_of = |nth: usize| if nth < 2 { here.to_string_lossy().into_owned() } else { there.clone() };
    stage.deliver(&discount_work(&stage, "there", |_| there.clone()));
    let events = discount_work(&stage, "s", folder_of);
    let (late, delivered) = events.split_at(2);
    stage.deliver(delivered);
    stage.flush();
    let before = stored_session(&stage, "s");
    assert_eq!(before["project"], "other");
    late.iter().rev().for_each(|event| stage.spool(event));
    stage.flush();
    let after = stored_session(&stage, "s");
    assert_eq!(after["project"], "shop");
    assert_eq!(after["batches"].as_array().unwrap().len(), 1);
    let sessions = |project: &Path| -> Vec<Value> {
        let found = found(&stage, project);
        let observations = found.as_array().unwrap().iter().filter(|found| found["kind"] == "observation");
        observations.map(|found| found["session_id"].clone()).collect()
    };
    assert_eq!(sessions(&here), [json!("s")]);
    assert_eq!(sessions(&other), [json!("there")]);
    let observation = &after["observations"][0];
    assert_eq!(
        observation["files_modified"],
        json!(["src/cart.rs"]),
        "relative to where it runs: {observation}"
    );
    let other_evidence = stored_session(&stage, "there")["observations"][0]["evidence"].clone();
    let own = observation["evidence"].as_array().unwrap();
    assert!(own.iter().all(|event| !other_evidence.as_array().unwrap().contains(event)), "{own:?}");
}

/// A session gets the same result in the true order of its events and in an order where an event from another folder
/// arrives first.
#[test]
fn a_session_across_two_folders_is_the_same_for_any_event_order() {
    let play = |order: [usize; 7]| {
        let stage = Stage::new();
        let elsewhere = stage.project().join("elsewhere");
        std::fs::create_dir(&elsewhere).unwrap();
        let stage = stage.daemon();
        let home = stage.project();
        let folder_of =
            |nth: usize| if nth % 3 == 2 { &elsewhere } else { &home }.to_string_lossy().into_owned();
        let events = discount_work(&stage, "s", folder_of);
        stage.deliver(order.iter().map(|nth| &events[*nth]));
        stage.flush();
        let stored = stored_session(&stage, "s");
        let titles: Vec<_> =
            stored["observations"].as_array().unwrap().iter().map(|each| each["title"].clone()).collect();
        assert!(!titles.is_empty());
        (stored["project"].clone(), titles, found(&stage, &home).as_array().unwrap().len())
    };
    let expected = play([0, 1, 2, 3, 4, 5, 6]);
    assert_eq!(expected.0, "shop");
    assert_eq!(play([2, 5, 3, 4, 1, 6, 0]), expected);
    assert_eq!(play([5, 0, 2, 1, 4, 3, 6]), expected);
}

const LEARNED: &str = "Fixed the wrong total in `src/cart.rs`: it rounds the total once, after summing, because rounding \
    each line lost up to a cent per line.";

#[test]
fn paths_below_a_symlink_are_stored_as_those_of_the_real_folder() {
    let stage = Stage::new();
    let _ = Repository::init(&stage.project());
    std::fs::create_dir_all(stage.project().join("src/api")).unwrap();
    let link = stage.user_home().join("linked-shop");
    std::os::unix::fs::symlink(stage.project(), &link).unwrap();
    let mut stage = stage.daemon();
    let (real, named) = (stage.project().to_string_lossy().into_owned(), link.to_string_lossy().into_owned());
    let by_link = |event: &Deliver| {
        let payload = String::from_utf8(event.payload.clone()).unwrap().replace(&real, &named);
        let payload = payload.replace(DISCOUNT_ANSWER, LEARNED);
        Deliver { payload: payload.into_bytes(), ..event.clone() }
    };
    // The second session runs in a subfolder, and the daemon restarts in the middle of it.
    let top = discount_work(&stage, "by-link", |_| real.clone());
    stage.deliver(&top.iter().map(by_link).collect::<Vec<_>>());
    let below: Vec<Deliver> =
        discount_work(&stage, "below", |_| format!("{real}/src/api")).iter().map(by_link).collect();
    stage.deliver(&below[..3]);
    stage.stop_daemon();
    stage.start_daemon();
    stage.deliver(&below[3..]);
    stage.flush();
    for session in ["by-link", "below"] {
        let stored = stored_session(&stage, session);
        assert_eq!(stored["workspace"], json!(real), "{stored}");
        let observations = stored["observations"].as_array().unwrap();
        assert!(!observations.is_empty(), "{stored}");
        for observation in observations {
            let files: Vec<&str> = ["files_read", "files_modified"]
                .iter()
                .flat_map(|field| observation[field].as_array().unwrap())
                .map(|file| file.as_str().unwrap())
                .collect();
            assert!(!files.is_empty() && files.iter().all(|file| *file == "src/cart.rs"), "{observation}");
        }
    }
    // A note about the file is injected under either path.
    for (session, folder) in [("reads", &real), ("reads-by-link", &named)] {
        let mut event = stage.event(
            session,
            "PreToolUse",
            json!({"tool_name": "Read",
            "tool_input": {"file_path": format!("{folder}/src/cart.rs")}}),
        );
        event["cwd"] = json!(folder);
        let output = stage.hook(&event);
        assert!(output.context().contains("rounds the total once"), "{session}: {output:?}");
    }
}
