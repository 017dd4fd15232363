//! Many writers, and a daemon that is killed again and again while they write.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::Duration;

use super::handover::{AcceptedBy, Handover};
use super::oracle::{Oracle, Verdict};
use super::process::Daemon;
use super::script::{Script, Step, TurnIds};
use crate::Stage;

/// A kill comes this long after the daemon's start, or after it first listened, at the latest; in milliseconds.
const LATEST_KILL_MS: u64 = 400;
/// Events of one session.
const SESSION_LENGTH: usize = 125;
/// Far longer than a healthy daemon needs: what is tested is what happens when it dies, and that is noticed at once.
const PATIENCE: Duration = Duration::from_secs(20);

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub events: usize,
    pub writers: usize,
    pub kills: usize,
    pub seed: u64,
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    pub verdict: Verdict,
    /// Events that the daemon acknowledged; those of real shims are in neither figure.
    pub by_daemon: usize,
    pub by_spool: usize,
    /// Rounds in which an event was on its way when the daemon died.
    pub hits: usize,
    /// Whatever no promise allows, e.g. a shim with an exit code.
    pub complaints: Vec<String>,
}

#[derive(Default)]
struct Tally {
    by_daemon: AtomicUsize,
    by_spool: AtomicUsize,
    under_way: AtomicUsize,
    complaints: Mutex<Vec<String>>,
}

/// Carries out the plan: in each round a daemon is started, every writer has its share of the events to hand over, and
/// the daemon is killed at a random moment, sometimes before it listens. The first writer runs real shims.
pub fn survive(plan: Plan) -> Outcome {
    let mut stage = Stage::new();
    // The binaries, before anybody counts milliseconds.
    crate::binaries();
    let (oracle, tally) = (Oracle::default(), Tally::default());
    let (begin, end) = (Barrier::new(plan.writers + 1), Barrier::new(plan.writers + 1));
    let share = plan.events.div_ceil(plan.writers * plan.kills);
    let mut hits = 0;
    std::thread::scope(|scope| {
        for writer in 0..plan.writers {
            let mut events = Events::new(plan.seed, writer);
            let (stage, oracle, tally, begin, end) = (&stage, &oracle, &tally, &begin, &end);
            scope.spawn(move || {
                let handover = Handover::new(stage, PATIENCE);
                for _ in 0..plan.kills {
                    begin.wait();
                    for _ in 0..share {
                        let (script, step) = events.next_event();
                        hand_over(stage, &handover, writer, script, step, oracle, tally);
                    }
                    end.wait();
                }
            });
        }
        let mut random = fastrand::Rng::with_seed(plan.seed);
        for _ in 0..plan.kills {
            let mut daemon = Daemon::spawn(&stage);
            if random.bool()
                && let Err(complaint) = daemon.wait_until_it_listens(&stage)
            {
                tally.complaints.lock().unwrap().push(complaint);
            }
            begin.wait();
            // The moment of the kill is the fault itself; nothing waits for anything here.
            std::thread::sleep(Duration::from_millis(random.u64(1..=LATEST_KILL_MS)));
            hits += usize::from(tally.under_way.load(Ordering::Acquire) > 0);
            daemon.kill();
            end.wait();
        }
    });
    let mut complaints = tally.complaints.into_inner().unwrap();
    let dropped = Handover::new(&stage, PATIENCE).spool().dropped();
    if dropped > 0 {
        complaints.push(format!("{dropped} events were not accepted"));
    }
    let verdict = oracle.verdict(&mut stage);
    let (by_daemon, by_spool) = (tally.by_daemon.into_inner(), tally.by_spool.into_inner());
    Outcome { verdict, by_daemon, by_spool, hits, complaints }
}

/// The events of one writer: one session after another.
struct Events {
    writer: usize,
    sessions: usize,
    random: fastrand::Rng,
    script: Script,
    at: usize,
}

impl Events {
    fn new(seed: u64, writer: usize) -> Self {
        let random = fastrand::Rng::with_seed(seed.wrapping_add(1 + writer as u64));
        let script = Script { session: String::new(), turn_ids: TurnIds::Sent, steps: Vec::new() };
        Self { writer, sessions: 0, random, script, at: 0 }
    }

    fn next_event(&mut self) -> (&Script, Step) {
        if self.at == self.script.steps.len() {
            self.sessions += 1;
            let turn_ids = if self.sessions.is_multiple_of(2) { TurnIds::Absent } else { TurnIds::Sent };
            // Of one length each, so that no id is the beginning of another.
            let session = format!("writer-{}-session-{:04}", self.writer, self.sessions);
            self.script = Script::random(session, SESSION_LENGTH, turn_ids, &mut self.random);
            self.at = 0;
        }
        let step = self.script.steps[self.at];
        self.at += 1;
        (&self.script, step)
    }
}

fn hand_over(
    stage: &Stage,
    handover: &Handover<'_>,
    writer: usize,
    script: &Script,
    step: Step,
    oracle: &Oracle,
    tally: &Tally,
) {
    let event = script.event(stage, step);
    tally.under_way.fetch_add(1, Ordering::AcqRel);
    let accepted =
        if writer == 0 { handover.run_shim(&event) } else { handover.deliver(&stage.delivery(&event)) };
    tally.under_way.fetch_sub(1, Ordering::AcqRel);
    match accepted {
        Ok(by) => {
            oracle.accept(&script.session, step);
            match by {
                AcceptedBy::Daemon => tally.by_daemon.fetch_add(1, Ordering::Relaxed),
                AcceptedBy::Spool => tally.by_spool.fetch_add(1, Ordering::Relaxed),
                AcceptedBy::Shim => 0,
            };
        }
        Err(complaint) => tally.complaints.lock().unwrap().push(complaint),
    }
}
