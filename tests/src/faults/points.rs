//! A daemon that dies at a step of its own code, while it handles an event.
//!
//! The steps are the product's own list, [`Point::ALL`]. When a test starts the daemon, it chooses the step.

use std::cell::Cell;
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use recall_protocol::boot;
use recall_protocol::wire::Deliver;
use recall_system::faults::Point;
use rustix::process::Signal;

use super::handover::Handover;
use super::oracle::{Oracle, OracleVerdict};
use super::process::Daemon;
use super::script::{Script, Step, TurnIds};
use crate::Stage;

/// Far longer than a daemon needs for its next step.
const PATIENCE: Duration = Duration::from_secs(30);
const TURNS: usize = 4;

/// The point at which a daemon dies, after it has passed the point a few times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Death {
    pub at: Point,
    pub passes: u32,
    pub manner: Manner,
}

/// How the daemon dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    AtOnce,
    /// Everything that the daemon sent before still arrives.
    Slowly,
}

impl fmt::Display for Death {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let word = match self.manner {
            Manner::AtOnce => "kill",
            Manner::Slowly => "kill slowly",
        };
        match self.passes {
            0 => write!(f, "{}=return({word})", self.at.name()),
            passes => write!(f, "{}={passes}*off->return({word})", self.at.name()),
        }
    }
}

/// How the events of a trial arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Arrival {
    /// The first turn is in the spool when the first daemon starts. The other turns arrive live.
    Mixed,
    /// All events are in the spool.
    Spooled,
}

/// The state at the end of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Remains {
    pub verdict: OracleVerdict,
    /// Results made from the events: observations, summaries and documents of the index.
    pub made: [u64; 3],
    /// Jobs that are not done.
    pub unfinished: u64,
}

/// Plays a session to one daemon after another. Each is meant to die, except the last one. Returns the deaths that
/// happened, and the final state of the last daemon.
pub fn endure(stage: &mut Stage, deaths: &[Death], arrival: Arrival) -> (Vec<Death>, Remains) {
    let (script, oracle) = (script(), Oracle::default());
    let handover = Handover::new(stage, PATIENCE);
    // Each event is a millisecond later by the agent's clock, so that the spool keeps their order.
    let (begun, count) = (boot::wall_ms(), Cell::new(0));
    let event = |step: &Step| {
        count.set(count.get() + 1);
        Deliver { captured_at_ms: begun + count.get(), ..stage.delivery(&script.event(stage, *step)) }
    };
    let first_turn = script.steps.iter().position(|step| matches!(step, Step::Stop { .. }));
    let (spooled, live) = script.steps.split_at(match arrival {
        Arrival::Mixed => first_turn.unwrap() + 1,
        Arrival::Spooled => script.steps.len(),
    });
    for step in spooled {
        handover.keep(&event(step)).unwrap();
        oracle.accept(&script.session, *step);
    }
    let mut shares = live.chunks(live.len().div_ceil(deaths.len().max(1)).max(1));
    let mut died = Vec::new();
    for death in deaths {
        let mut daemon = Daemon::spawn_armed(stage, &death.to_string(), Stdio::null());
        // If the daemon dies before it listens, its events go to the spool.
        let _ = daemon.wait_until_it_listens(stage);
        for step in shares.next().unwrap_or_default() {
            handover.deliver(&event(step)).unwrap();
            oracle.accept(&script.session, *step);
        }
        let flushed = stage.recall(["ctl", "flush"]).code() == 0;
        died.extend(dies(daemon, flushed).then_some(*death));
    }
    let mut last = Daemon::spawn(stage);
    last.wait_until_it_listens(stage).unwrap();
    for step in shares.flatten() {
        handover.deliver(&event(step)).unwrap();
        oracle.accept(&script.session, *step);
    }
    stage.flush();
    let status = stage.json(["ctl", "status"]);
    let count = |pointer: &str| status.pointer(pointer).and_then(serde_json::Value::as_u64).unwrap();
    let made = [count("/observations"), count("/summaries"), count("/index/documents")];
    let unfinished = ["pending", "running", "retrying", "dead"].map(|state| count(&format!("/jobs/{state}")));
    last.kill();
    (died, Remains { verdict: oracle.verdict(stage), made, unfinished: unfinished.iter().sum() })
}

/// Returns a session of a few turns.
fn script() -> Script {
    let mut steps = vec![Step::Start];
    for turn in 1..=TURNS {
        steps.push(Step::Prompt { turn });
        steps.extend((1..=2).map(|call| Step::Call { turn, call }));
        steps.push(Step::Stop { turn });
    }
    Script { session: "endured".to_owned(), turn_ids: TurnIds::Sent, steps }
}

/// Returns whether the daemon dies as planned. When the flush returns, the last work may still be one step from its
/// end.
fn dies(mut daemon: Daemon, flushed: bool) -> bool {
    let deadline = Instant::now() + if flushed { Duration::from_secs(3) } else { PATIENCE };
    while Instant::now() < deadline {
        if let Some(status) = daemon.ended() {
            return status.signal() == Some(Signal::KILL.as_raw());
        }
        std::thread::yield_now();
    }
    false
}
