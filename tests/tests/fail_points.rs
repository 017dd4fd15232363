//! Tests that a daemon that dies at any step of its code loses nothing and stores nothing twice. A session that
//! crashes does not affect others.

use std::process::Stdio;

use recall_protocol::wire::{Deliver, Reply};
use recall_system::faults::Point;
use recall_tests::checks::keeping::{self, deliver_until_accepted};
use recall_tests::faults::points::{Arrival, Death, Manner, Remains, endure};
use recall_tests::faults::process::Daemon;
use recall_tests::{DISCOUNT_ANSWER, Stage, has_faults};
use serde_json::json;

/// Returns the final state without any kill.
fn undisturbed() -> Remains {
    let (_, remains) = endure(&mut Stage::new(), &[], Arrival::Mixed);
    assert!(remains.verdict.is_clean(), "{}", remains.verdict);
    assert!(remains.made.iter().all(|made| *made > 0) && remains.unfinished == 0, "{remains:?}");
    remains
}

/// Plays each plan. Returns which deaths happened, and the final states. Several plans run at a time, because most of
/// the time is waiting.
fn try_all<const N: usize>(plans: &[[Death; N]]) -> (Vec<Death>, Vec<Remains>) {
    let play = |deaths: &[Death; N]| {
        let (died, remains) = endure(&mut Stage::new(), deaths, Arrival::Mixed);
        let names = deaths.map(|death| death.to_string());
        assert!(remains.verdict.is_clean(), "{names:?}: {}", remains.verdict);
        assert_eq!(remains.unfinished, 0, "{names:?}");
        (died, remains)
    };
    let outcomes = std::thread::scope(|scope| {
        let shares: Vec<_> = plans
            .chunks(plans.len().div_ceil(4))
            .map(|some| scope.spawn(move || some.iter().map(play).collect::<Vec<_>>()))
            .collect();
        shares.into_iter().flat_map(|share| share.join().unwrap()).collect::<Vec<_>>()
    });
    let (died, remains): (Vec<_>, Vec<_>) = outcomes.into_iter().unzip();
    (died.concat(), remains)
}

/// Returns the points that need no model, no vectors and no sharing. `models/budget.rs`, `embedding.rs` and
/// `sharing_kills.rs` test the others.
fn without_models() -> impl Iterator<Item = Point> {
    let others = [Point::OF_MODELS.as_slice(), &Point::OF_VECTORS, &Point::OF_SHARING].concat();
    Point::ALL.into_iter().filter(move |point| !others.contains(point))
}

/// The daemon dies once at each point. A point that is never reached fails the test too.
#[test]
fn a_daemon_killed_at_any_fail_point_loses_and_doubles_no_event() {
    let deaths: Vec<_> = without_models().map(|at| Death { at, passes: 0, manner: Manner::AtOnce }).collect();
    let (died, remains) = try_all(&deaths.iter().map(|death| [*death]).collect::<Vec<_>>());
    assert_eq!(died, deaths, "some points were never reached");
    let undisturbed = undisturbed();
    for (death, remains) in deaths.iter().zip(remains) {
        assert_eq!(remains, undisturbed, "{death}");
    }
}

/// `cargo test -p recall-tests --release -- --ignored at_any_two_points --nocapture`
///
/// The test does not compare what was made of the events. If live events overtake spooled ones, an answer may come
/// before its prompt. The batch of the prompt then stays open until it has been silent for long.
#[test]
#[ignore = "some hundred deaths"]
fn daemons_killed_in_turn_at_any_two_points_lose_no_event() {
    let pairs = without_models().flat_map(|first| without_models().map(move |second| [first, second]));
    let plans: Vec<_> = pairs
        .flat_map(|pair| [0, 2].map(|passes| pair.map(|at| Death { at, passes, manner: Manner::AtOnce })))
        .collect();
    let deaths = try_all(&plans).0.len();
    println!("{} trials, {deaths} deaths: 0 lost, 0 twice, 0 misplaced", plans.len());
    assert!(deaths > plans.len(), "hardly anybody died");
}

fn prompt(stage: &Stage, session: &str, id: &str) -> Deliver {
    let fields = json!({"prompt": format!("Question {id}"), "prompt_id": id});
    stage.delivery(&stage.event(session, "UserPromptSubmit", fields))
}

fn call(stage: &Stage, session: &str, id: &str, turn: &str) -> Deliver {
    let fields = json!({"tool_name": "Bash", "tool_input": {"command": format!("make {id}")},
        "tool_response": {"stdout": "done", "stderr": ""}, "tool_use_id": id, "prompt_id": turn});
    stage.delivery(&stage.event(session, "PostToolUse", fields))
}

/// Returns the ids of a session's calls, by turn.
fn calls(stage: &Stage, session: &str) -> Vec<Vec<String>> {
    let session = stage.json(["ctl", "session", session]);
    let batches = session["batches"].as_array().unwrap().iter();
    let ids = |batch: &serde_json::Value| {
        let activities = batch["activities"].as_array().unwrap().iter();
        activities.map(|activity| activity["tool_use_id"].as_str().unwrap().to_owned()).collect()
    };
    batches.map(ids).collect()
}

fn armed(stage: &Stage, points: &str) -> Daemon {
    let mut daemon = Daemon::spawn_armed(stage, points, Stdio::null());
    daemon.wait_until_it_listens(stage).unwrap();
    daemon
}

#[track_caller]
fn all_stored(replies: &[Reply]) {
    assert!(replies.iter().all(|reply| matches!(reply, Reply::Ack { .. })), "{replies:?}");
}

#[test]
fn a_crashed_session_resumes_from_the_store_and_affects_no_other() {
    let stage = Stage::new();
    // Two events of each session pass, then one crashes its session.
    let _daemon = armed(&stage, &format!("{}=4*off->1*panic->off", Point::Enqueue.name()));
    let before = ["one", "two"]
        .map(|session| [prompt(&stage, session, "p1"), call(&stage, session, &format!("{session}-a"), "p1")]);
    all_stored(&stage.deliver(before.iter().flatten()));

    let crashing = call(&stage, "one", "one-b", "p1");
    assert_eq!(stage.deliver([&crashing]), [Reply::Busy]);
    // The same event is offered again, as from the spool. It did not cause the crash.
    let sibling = call(&stage, "two", "two-b", "p1");
    all_stored(&stage.deliver([&sibling]));
    all_stored(&[deliver_until_accepted(&stage, &crashing)]);
    all_stored(&stage.deliver([&prompt(&stage, "one", "p2"), &call(&stage, "one", "one-c", "p2")]));

    assert_eq!(calls(&stage, "one"), [vec!["one-a", "one-b"], vec!["one-c"]]);
    assert_eq!(calls(&stage, "two"), [vec!["two-a", "two-b"]]);
    assert_eq!(stage.log().matches("a session actor failed").count(), 1, "{}", stage.log());
    assert_eq!(stage.json(["ctl", "status"])["events"]["unparsed"], 0);
}

#[test]
fn an_event_that_crashes_its_session_twice_is_stored_unparsed() {
    let stage = Stage::new();
    let _daemon = armed(&stage, &format!("{}=1*off->2*panic->off", Point::Enqueue.name()));
    all_stored(&stage.deliver([&prompt(&stage, "one", "p1")]));
    // The event goes through the spool, which offers it until it is accepted.
    stage.spool(&call(&stage, "one", "poison", "p1"));
    stage.flush();
    assert!(stage.spooled().is_empty());
    all_stored(&stage.deliver([&call(&stage, "one", "cure", "p1")]));
    assert_eq!(calls(&stage, "one"), [["cure"]]);
    let events = &stage.json(["ctl", "status"])["events"];
    assert_eq!((&events["stored"], &events["unparsed"]), (&json!(3), &json!(1)), "{events}");

    let database = rusqlite::Connection::open(stage.database()).unwrap();
    let (why, payload): (String, Vec<u8>) = database
        .query_row("SELECT parse_error, payload FROM unparsed", [], |row| Ok((row.get(0)?, row.get(1)?)))
        .unwrap();
    assert_eq!(why, "it crashed its session twice");
    assert!(String::from_utf8(payload).unwrap().contains("poison"), "the payload is kept");
}

/// For example, a daemon that runs out of memory leaves no message.
#[test]
fn a_batch_that_kills_the_daemon_each_time_is_given_up() {
    const MOST: u32 = 2;
    let mut stage = Stage::new().config(&format!("[compression]\nmax_attempts = {MOST}\n"));
    let deadly = format!("{}=return(kill)", Point::Lease.name());
    let mut daemon = armed(&stage, &deadly);
    let stop = json!({"last_assistant_message": DISCOUNT_ANSWER, "prompt_id": "p1"});
    all_stored(&stage.deliver([&prompt(&stage, "one", "p1")]));
    // The daemon may die before it answers.
    stage.hook(&stage.event("one", "Stop", stop));
    for _ in 1..MOST {
        assert!(!daemon.wait().success());
        daemon = Daemon::spawn_armed(&stage, &deadly, Stdio::null());
    }
    assert!(!daemon.wait().success());

    stage.start_daemon();
    stage.flush();
    let jobs = stage.json(["ctl", "jobs"])["jobs"].clone();
    let given_up: Vec<_> = jobs.as_array().unwrap().iter().filter(|job| job["status"] == "dead").collect();
    assert_eq!(given_up.len(), 1, "{jobs}");
    assert!(
        given_up[0]["error"].as_str().unwrap().contains("the daemon ended during each attempt"),
        "{jobs}"
    );
    let session = stage.json(["ctl", "session", "one"]);
    assert!(!session["observations"].as_array().unwrap().is_empty(), "the built-in one stands in: {session}");
}

#[test]
fn a_crashing_event_is_parked_and_not_processed_again() {
    keeping::an_event_that_crashes_its_session_is_set_aside(Stage::new());
}

/// A session that is restarted must not read the store before everything that its predecessor queued is committed.
#[test]
fn a_session_crash_loses_no_event_that_is_not_committed_yet() {
    let stage = &Stage::new();
    // The first commit takes long. Meanwhile the second of the two events crashes the session.
    let points = [(Point::Commit, "1*sleep(500)->off"), (Point::Enqueue, "1*off->1*panic->off")];
    let points = points.map(|(point, actions)| format!("{}={actions}", point.name()));
    let _daemon = armed(stage, &points.join(";"));
    let first = [prompt(stage, "one", "p1"), call(stage, "one", "a", "p1")];
    let after = call(stage, "one", "b", "p1");
    std::thread::scope(|scope| {
        let both: Vec<_> =
            first.iter().map(|delivery| scope.spawn(move || stage.deliver([delivery]).remove(0))).collect();
        // The second of the two events, whichever it is, is refused at once, while the first is still being
        // committed.
        let crashed = loop {
            match both.iter().position(|delivering| delivering.is_finished()) {
                Some(crashed) => break crashed,
                None => std::thread::yield_now(),
            }
        };
        all_stored(&[&after, &first[crashed]].map(|delivery| deliver_until_accepted(stage, delivery)));
    });
    stage.flush();
    assert_eq!(calls(stage, "one"), [["a", "b"]], "{}", stage.log());
}

#[test]
fn a_database_write_that_the_disk_refuses_loses_no_event() {
    for point in [Point::Begin, Point::Insert, Point::Commit] {
        let mut stage = Stage::new();
        let daemon = armed(&stage, &format!("{}=1*off->2*return(refuse)->off", point.name()));
        for number in 0..6 {
            stage.hook(&stage.event(
                "one",
                "PostToolUse",
                json!({"tool_name": "Bash", "tool_input": {},
                "tool_response": {}, "tool_use_id": format!("t{number}")}),
            ));
        }
        stage.flush();
        assert_eq!(calls(&stage, "one"), [["t0", "t1", "t2", "t3", "t4", "t5"]], "{point:?}");
        assert_eq!(stage.json(["ctl", "status"])["events"]["stored"], 6, "{point:?}");
        daemon.kill();
        stage.start_daemon();
        stage.flush();
        assert_eq!(calls(&stage, "one").concat().len(), 6, "{point:?}");
    }
}

#[test]
fn the_tested_programs_have_fail_points_and_reject_unknown_ones() {
    let stage = Stage::new();
    for program in ["recall", "recall-shim"] {
        assert!(has_faults(&recall_tests::binaries().join(program)), "{program}");
    }
    let mut command = stage.command("recall");
    command.args(["daemon"]).env("RECALL_FAILPOINTS", "writer.comit=return(kill)");
    let output = recall_tests::run(command, b"");
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains("there is no point"), "{output:?}");
}
