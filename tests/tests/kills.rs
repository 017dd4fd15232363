//! Tests that nothing accepted is lost and nothing is stored twice, whichever process is killed and whenever. Late
//! events take the place that they would have had.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use recall_protocol::frame::decode_frame;
use recall_protocol::wire::Request;
use recall_tests::Stage;
use recall_tests::checks::keeping::late_events_are_placed_correctly;
use recall_tests::faults::clock::Clock;
use recall_tests::faults::handover::{Handover, paths};
use recall_tests::faults::kills::{Outcome, Plan, Trouble, survive};
use recall_tests::faults::oracle::Oracle;
use recall_tests::faults::process::signal;
use recall_tests::faults::script::{Script, Step, TurnIds};
use recall_tests::faults::syscalls::{Fault, calls_of_shim, shim_with, strace_works, was_killed};
use rustix::process::Signal;
use serde_json::json;

#[track_caller]
fn survives(plan: Plan) {
    let begun = Instant::now();
    let Outcome { verdict, by_daemon, by_spool, hits, clock: (boots, backward), commands, complaints } =
        survive(plan);
    println!("{plan:?}: {verdict}");
    println!(
        "{by_daemon} acknowledged, {by_spool} spooled, {hits} kills met an event on its way, {boots} boots, \
         {backward} steps of the clock backward, {commands} commands answered, {:?}",
        begun.elapsed()
    );
    assert!(complaints.is_empty(), "{complaints:?}");
    assert_eq!(verdict.accepted, plan.events);
    assert!(verdict.is_clean(), "{verdict}");
    // On a busy machine, a few kills may all miss, and the daemon may be too slow for each of a few events.
    let few = plan.kills < 20;
    assert!(few || (by_daemon > 0 && by_spool > 0), "the plan tests nothing");
    assert!(few || hits > 0, "no kill met an event on its way");
    let clock_steps = matches!(plan.trouble, Trouble::StopsAndClockSteps { .. });
    assert!(!clock_steps || (boots > 1 && backward > 0), "the clock was right all the time");
    assert!(few || !plan.trouble.has_people() || commands > 0, "nobody did anything");
}

#[test]
fn a_daemon_killed_at_any_moment_loses_and_duplicates_no_event() {
    survives(Plan { events: 2_000, writers: 4, kills: 20, seed: 1, trouble: Trouble::None });
}

/// `cargo test -p recall-tests --release -- --ignored a_thousand_kills_lose_no_event --nocapture`; `RECALL_KILLS` makes it shorter,
/// with 100 events for each kill.
#[test]
#[ignore = "runs for ten minutes and more"]
fn a_thousand_kills_lose_no_event() {
    let kills = std::env::var("RECALL_KILLS").map_or(1000, |kills| kills.parse().unwrap());
    survives(Plan { events: kills * 100, writers: 4, kills, seed: 2, trouble: Trouble::None });
}

/// `cargo test -p recall-tests -- --ignored nine_runs_of_kills_during_commands_lose_no_event --nocapture`
#[test]
#[ignore = "nine runs of 3,600 events, some minutes each"]
fn nine_runs_of_kills_during_commands_lose_no_event() {
    for seed in 11..20 {
        survives(Plan { events: 3_600, writers: 4, kills: 36, seed, trouble: Trouble::Commands });
    }
}

/// `cargo test -p recall-tests -- --ignored nine_runs_of_kills_while_homes --nocapture`;
/// `RECALL_REPLAYS` makes it shorter.
#[test]
#[ignore = "nine runs of 3,600 events, some minutes each"]
fn nine_runs_of_kills_while_homes_are_deleted_lose_no_event() {
    let replays = std::env::var("RECALL_REPLAYS").map_or(9, |replays| replays.parse().unwrap());
    for seed in 21..21 + replays {
        survives(Plan { events: 3_600, writers: 4, kills: 36, seed, trouble: Trouble::DeletedHomes });
    }
}

#[test]
fn kills_while_homes_are_deleted_lose_no_event() {
    survives(Plan { events: 400, writers: 4, kills: 5, seed: 20, trouble: Trouble::DeletedHomes });
}

#[test]
fn kills_during_commands_lose_no_event() {
    survives(Plan { events: 400, writers: 4, kills: 5, seed: 10, trouble: Trouble::Commands });
}

#[test]
fn stops_kills_and_clock_steps_keep_the_event_order_of_every_session() {
    let trouble = Trouble::StopsAndClockSteps { boots: 3 };
    survives(Plan { events: 640, writers: 8, kills: 5, seed: 3, trouble });
}

/// `cargo test -p recall-tests --release -- --ignored a_hundred_kills_under_clock_steps_lose_no_event --nocapture`
#[test]
#[ignore = "runs for a minute and more"]
fn a_hundred_kills_under_clock_steps_lose_no_event() {
    let trouble = Trouble::StopsAndClockSteps { boots: 7 };
    survives(Plan { events: 12_000, writers: 8, kills: 100, seed: 4, trouble });
}

#[test]
fn late_events_are_placed_by_their_turn_id() {
    (0..4).for_each(|seed| late_events_are_placed_correctly(Stage::new(), seed, TurnIds::Sent, &Clock::True));
}

#[test]
fn late_events_without_a_turn_id_are_placed_by_their_time() {
    (0..4)
        .for_each(|seed| late_events_are_placed_correctly(Stage::new(), seed, TurnIds::Absent, &Clock::True));
}

/// Tests late events with a stepped wall clock. The spool is drained in the order of the wall clock, which differs
/// from the order of the events.
#[track_caller]
fn late_events_find_their_place_under_clock_steps(seeds: std::ops::Range<u64>) {
    for seed in seeds {
        for turn_ids in [TurnIds::Sent, TurnIds::Absent] {
            late_events_are_placed_correctly(Stage::new(), seed, turn_ids, &Clock::stepped(seed, 3, 20));
        }
    }
}

#[test]
fn late_events_are_placed_correctly_when_the_wall_clock_jumps() {
    late_events_find_their_place_under_clock_steps(0..2);
}

/// `cargo test -p recall-tests --release -- --ignored many_late_events_under_clock_steps_are_placed_correctly --nocapture`
#[test]
#[ignore = "some hundred daemons one after another"]
fn many_late_events_under_clock_steps_are_placed_correctly() {
    late_events_find_their_place_under_clock_steps(100..200);
}

#[test]
fn a_suspended_and_resumed_daemon_keeps_the_event_order_of_every_session() {
    const WRITERS: usize = 8;
    const EVENTS: usize = 40;
    let mut stage = Stage::new().daemon();
    let (oracle, over) = (Oracle::default(), AtomicBool::new(false));
    std::thread::scope(|scope| {
        let writers: Vec<_> = (0..WRITERS)
            .map(|writer| {
                let (stage, oracle) = (&stage, &oracle);
                scope.spawn(move || {
                    let mut random = fastrand::Rng::with_seed(writer as u64);
                    let turn_ids = if writer % 2 == 0 { TurnIds::Sent } else { TurnIds::Absent };
                    let script = Script::random(format!("writer-{writer}"), EVENTS, turn_ids, &mut random);
                    // The shim waits this long. If the daemon is stopped for longer, the event is in the spool.
                    let handover = Handover::new(stage, Duration::from_millis(60));
                    for step in &script.steps {
                        handover.deliver(&stage.delivery(&script.event(stage, *step))).unwrap();
                        oracle.accept(&script.session, *step);
                    }
                })
            })
            .collect();
        let (stage, over) = (&stage, &over);
        scope.spawn(move || {
            let mut random = fastrand::Rng::with_seed(77);
            while !over.load(Ordering::Acquire) {
                // The stop is the fault itself. These sleeps wait for nothing.
                signal(stage, Signal::STOP);
                std::thread::sleep(Duration::from_millis(random.u64(1..=150)));
                signal(stage, Signal::CONT);
                std::thread::sleep(Duration::from_millis(random.u64(1..=80)));
            }
        });
        let failed = writers.into_iter().filter_map(|writer| writer.join().err()).count();
        over.store(true, Ordering::Release);
        assert_eq!(failed, 0);
    });
    stage.flush();
    stage.kill_daemon();
    let verdict = oracle.verdict(&mut stage);
    assert_eq!(verdict.accepted, WRITERS * EVENTS);
    assert!(verdict.is_clean(), "{verdict}");
}

/// Kills the shim at every `step`-th of its system calls, without a daemon. The shim spools, and never leaves half a
/// file in `new/`. Returns the number of kills.
#[track_caller]
fn killed_beside_the_spool(payload: usize, step: usize) -> usize {
    let stage = Stage::new();
    paths(&stage).create_folders().unwrap();
    let calls = calls_of_shim(&stage, call(&stage, 0, payload).as_bytes());
    let mut killed = 0;
    for (number, (name, at)) in calls.iter().enumerate().step_by(step) {
        let before = stage.spooled().len();
        let fault = Fault::Kill { call: name, at: *at };
        let output = shim_with(&stage, fault, call(&stage, number + 1, payload).as_bytes());
        let spooled = stage.spooled();
        for file in &spooled {
            let frame = std::fs::read(file).unwrap();
            assert!(matches!(decode_frame(&frame), Ok(Request::Deliver(_))), "half a file: {fault:?}");
        }
        if was_killed(&output) {
            killed += 1;
        } else {
            assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{fault:?}: {output:?}");
            assert_eq!(spooled.len(), before + 1, "{fault:?}");
        }
    }
    killed
}

/// Does the same with a daemon. An event of a killed shim is stored once or not at all, and never in part. An event
/// of a shim that was not killed is stored.
#[track_caller]
fn killed_beside_the_daemon(payload: usize, step: usize) -> usize {
    let stage = Stage::new().daemon();
    let calls = calls_of_shim(&stage, call(&stage, 0, payload).as_bytes());
    let (mut killed, mut accepted) = (0, vec!["call-0".to_owned()]);
    for (number, (name, at)) in calls.iter().enumerate().step_by(step) {
        let fault = Fault::Kill { call: name, at: *at };
        let output = shim_with(&stage, fault, call(&stage, number + 1, payload).as_bytes());
        if was_killed(&output) {
            killed += 1;
        } else {
            assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{fault:?}: {output:?}");
            accepted.push(format!("call-{}", number + 1));
        }
    }
    stage.flush();
    let session = stage.json(["ctl", "session", "killed"]);
    let batches = session["batches"].as_array().unwrap();
    let activities = batches.iter().flat_map(|batch| batch["activities"].as_array().unwrap());
    let ids: Vec<_> = activities.map(|activity| activity["tool_use_id"].as_str().unwrap()).collect();
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len(), "stored twice");
    assert!(accepted.iter().all(|id| ids.contains(&id.as_str())), "accepted and not stored");
    assert_eq!(stage.json(["ctl", "status"])["events"]["unparsed"], 0, "half an event was stored");
    killed
}

fn call(stage: &Stage, number: usize, payload: usize) -> String {
    let fields = json!({"tool_name": "Bash", "tool_use_id": format!("call-{number}"),
        "tool_input": {"command": "cat notes"}, "tool_response": {"stdout": "x".repeat(payload), "stderr": ""}});
    stage.event("killed", "PostToolUse", fields).to_string()
}

const PAYLOADS: [usize; 3] = [700, 20_000, 600_000];

#[test]
fn a_shim_killed_at_some_system_calls_leaves_no_half_event() {
    if !strace_works() {
        println!("skipped: strace is missing or may not trace");
        return;
    }
    for killed in [killed_beside_the_spool(PAYLOADS[0], 7), killed_beside_the_daemon(PAYLOADS[1], 11)] {
        assert!(killed > 3, "{killed} killed");
    }
}

/// `cargo test -p recall-tests --release -- --ignored a_shim_killed_at_every_system_call --nocapture`
#[test]
#[ignore = "some hundred runs under strace"]
fn a_shim_killed_at_every_system_call_leaves_no_half_event() {
    if !strace_works() {
        println!("skipped: strace is missing or may not trace");
        return;
    }
    for payload in PAYLOADS {
        let counts = [
            ("spool", killed_beside_the_spool(payload, 1)),
            ("daemon", killed_beside_the_daemon(payload, 1)),
        ];
        for (beside, killed) in counts {
            println!("{payload} bytes beside the {beside}: {killed} kills, 0 half events");
            assert!(killed > 20, "{killed} killed");
        }
    }
}

#[test]
fn a_shim_whose_system_calls_fail_spools_or_counts_its_event() {
    if !strace_works() {
        println!("skipped: strace is missing or may not trace");
        return;
    }
    for (call_name, error) in [("openat", "EIO"), ("write", "ENOSPC"), ("rename", "EIO")] {
        for at in 1..=4 {
            let stage = Stage::new();
            paths(&stage).create_folders().unwrap();
            let fault = Fault::Refuse { call: call_name, error, at };
            let output = shim_with(&stage, fault, call(&stage, at, 700).as_bytes());
            if output.stderr.contains("cannot open shared object file") {
                // The loader could not open its library, so the shim has not started.
                continue;
            }
            assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{fault:?}: {output:?}");
            let handover = Handover::new(&stage, Duration::ZERO);
            let (kept, dropped) = (stage.spooled(), handover.dropped());
            assert_eq!(kept.len() as u64 + dropped, 1, "{fault:?}: kept or counted");
            for file in kept {
                assert!(decode_frame::<Request>(&std::fs::read(file).unwrap()).is_ok(), "{fault:?}");
            }
        }
    }
}

#[test]
fn a_session_start_delivered_and_spooled_is_stored_once_after_a_kill() {
    let mut stage = Stage::new().daemon();
    let script = Script { session: "again".to_owned(), turn_ids: TurnIds::Sent, steps: vec![Step::Start] };
    let oracle = Oracle::default();
    let delivery = stage.delivery(&script.event(&stage, Step::Start));
    let handover = Handover::new(&stage, Duration::from_secs(20));
    handover.deliver(&delivery).unwrap();
    handover.keep(&delivery).unwrap();
    oracle.accept("again", Step::Start);
    stage.kill_daemon();
    let verdict = oracle.verdict(&mut stage);
    assert!(verdict.is_clean(), "{verdict}");
}

/// Calls arrive before their prompts, and the prompts arrive in the worst order. After a kill, the daemon must know
/// the same about the batch without a prompt.
#[test]
fn a_batch_that_waits_for_its_prompt_survives_a_kill() {
    let mut stage = Stage::new().daemon();
    let steps: Vec<_> =
        (1..=4).flat_map(|turn| [Step::Prompt { turn }, Step::Call { turn, call: 1 }]).collect();
    let script = Script { session: "waits".to_owned(), turn_ids: TurnIds::Sent, steps };
    let oracle = Oracle::default();
    let mut deliveries: Vec<_> =
        script.steps.iter().map(|step| stage.delivery(&script.event(&stage, *step))).collect();
    for (second, delivery) in (0..).zip(&mut deliveries) {
        delivery.captured_at_ms += second * 1_000;
    }
    script.steps.iter().for_each(|step| oracle.accept(&script.session, *step));
    // The call of the last turn comes first, then the call of the first turn.
    let of = |turn: usize, place: usize| &deliveries[(turn - 1) * 2 + place];
    stage.deliver([of(4, 1), of(1, 1)]);
    stage.kill_daemon();
    stage.start_daemon();
    stage.deliver([of(2, 0), of(3, 0), of(1, 0), of(4, 0), of(2, 1), of(3, 1)]);
    stage.kill_daemon();
    let verdict = oracle.verdict(&mut stage);
    assert!(verdict.is_clean(), "{verdict}");
}
