//! Checks that no event is lost, none is stored twice, and each is in its place.

use std::process::Stdio;
use std::time::Duration;

use recall_protocol::wire::{Deliver, Reply};
use recall_system::faults::Point;
use serde_json::{Value, json};

use crate::Stage;
use crate::checks::outcome::{is_duplicate, is_stored, stored};
use crate::faults::clock::Clock;
use crate::faults::handover::Handover;
use crate::faults::oracle::Oracle;
use crate::faults::points::{Arrival, Death, Manner, endure};
use crate::faults::process::Daemon;
use crate::faults::script::{Script, TurnIds};

fn prompt(stage: &Stage, id: &str) -> Deliver {
    let fields = json!({"prompt": "Add a discount", "prompt_id": id});
    stage.delivery(&stage.event("one", "UserPromptSubmit", fields))
}

fn call(stage: &Stage, use_id: &str) -> Deliver {
    let input = json!({"file_path": stage.project().join("cart.rs")});
    let fields =
        json!({"tool_name": "Read", "tool_input": input, "tool_response": {}, "tool_use_id": use_id});
    stage.delivery(&stage.event("one", "PostToolUse", fields))
}

fn batches(stage: &Stage) -> Vec<Value> {
    stage.json(["ctl", "session", "one"])["batches"].as_array().unwrap().clone()
}

pub fn an_event_is_stored_once_across_a_restart(stage: Stage) {
    let mut stage = stage.daemon();
    // The event has no id from the agent, so there is no second key.
    let event = stage.event("one", "UserPromptSubmit", json!({"prompt": "Add a discount"}));
    let delivery = stage.delivery(&event);
    is_stored(stage.deliver([&delivery]).first());
    stage.kill_daemon();
    stage.start_daemon();
    is_duplicate(stage.deliver([&delivery]).first());
    stored(&stage, 1, 1);
    assert_eq!(batches(&stage).len(), 1);
}

pub fn a_tool_call_is_stored_once(stage: Stage) {
    let mut stage = stage.daemon();
    let calls = ["t1", "t1", "t2"].map(|id| call(&stage, id));
    let replies = stage.deliver(&calls);
    is_stored(replies.first());
    is_duplicate(replies.get(1));
    is_stored(replies.get(2));
    stored(&stage, 2, 1);

    // A restarted daemon has to ask the database, and it recognises the event too.
    stage.kill_daemon();
    stage.start_daemon();
    is_duplicate(stage.deliver([&call(&stage, "t1")]).first());
    stored(&stage, 2, 1);
    assert_eq!(batches(&stage)[0]["activities"].as_array().unwrap().len(), 2);
}

/// The events of one session may arrive in any order: some live and in time, the others later from the spool.
pub fn late_events_are_placed_correctly(stage: Stage, seed: u64, turn_ids: TurnIds, clock: &Clock) {
    let mut stage = stage.daemon();
    let mut random = fastrand::Rng::with_seed(seed);
    let script = Script::random("late".to_owned(), 60, turn_ids, &mut random);
    let oracle = Oracle::default();
    let handover = Handover::new(&stage, Duration::from_secs(20));
    let mut late = Vec::new();
    for step in &script.steps {
        let mut delivery = stage.delivery(&script.event(&stage, *step));
        clock.stamp(&mut delivery);
        if random.u8(0..10) < 4 {
            late.push(delivery);
        } else {
            handover.deliver(&delivery).unwrap();
        }
        oracle.accept(&script.session, *step);
    }
    random.shuffle(&mut late);
    for some in late.chunks(5) {
        for delivery in some {
            handover.keep(delivery).unwrap();
        }
        stage.flush();
    }
    stage.kill_daemon();
    let verdict = oracle.verdict(&mut stage);
    assert!(verdict.is_clean(), "seed {seed}, {turn_ids:?}, {clock:?}: {verdict}");
}

/// A daemon that dies just before its commit has not acknowledged or removed anything.
pub fn no_event_is_lost_before_its_commit(mut stage: Stage, arrival: Arrival) {
    let death = Death { at: Point::Commit, passes: 1, manner: Manner::Slowly };
    let (died, remains) = endure(&mut stage, &[death], arrival);
    assert_eq!(died, [death]);
    let verdict = remains.verdict;
    assert_eq!(verdict.stored, verdict.accepted, "accepted and not stored: {verdict}");
    assert!(verdict.is_clean(), "{verdict}");
}

/// A job has one compressor, however long it takes. Other compressors look for work meanwhile.
pub fn a_job_belongs_to_one_compressor(mut stage: Stage) {
    let points = format!("{}=1*sleep(2500)->off", Point::Lease.name());
    let mut daemon = Daemon::spawn_armed(&stage, &points, Stdio::null());
    daemon.wait_until_it_listens(&stage).unwrap();
    stage.discount_session("one");
    stage.flush();
    daemon.kill();
    stage.start_daemon();
    stage.flush();
    stage.kill_daemon();
    let database = rusqlite::Connection::open(stage.database()).unwrap();
    let (jobs, attempts): (u32, u32) = database
        .query_row("SELECT count(*), max(attempts) FROM jobs WHERE status = 'done'", [], |row| {
            Ok((row.get(0)?, row.get(1)?))
        })
        .unwrap();
    assert!(jobs > 0, "there was nothing to do");
    assert_eq!(attempts, 1, "somebody was given a job that somebody else had");
}

/// Delivers an event again while it is refused, as the spool does, at most twenty times. A session that has just
/// crashed refuses events until its supervisor notices.
pub fn deliver_until_accepted(stage: &Stage, delivery: &Deliver) -> Reply {
    let mut offers = (0..20).map(|_| stage.deliver([delivery]).remove(0));
    offers.find(|reply| *reply != Reply::Busy).unwrap_or(Reply::Busy)
}

/// An event that crashes its session is tried twice. Then it is stored unprocessed, so that it is not delivered for
/// ever.
pub fn an_event_that_crashes_its_session_is_set_aside(stage: Stage) {
    let points = format!("{}=1*off->panic", Point::Enqueue.name());
    let mut daemon = Daemon::spawn_armed(&stage, &points, Stdio::null());
    daemon.wait_until_it_listens(&stage).unwrap();
    let (before, poison) = (prompt(&stage, "p1"), call(&stage, "poison"));
    is_stored(stage.deliver([&before]).first());
    assert_eq!(stage.deliver([&poison]), [Reply::Busy]);
    is_stored(Some(&deliver_until_accepted(&stage, &poison)));
    is_duplicate(stage.deliver([&poison]).first());
    let events = &stage.json(["ctl", "status"])["events"];
    assert_eq!((&events["stored"], &events["unparsed"]), (&json!(2), &json!(1)), "{events}");
}
