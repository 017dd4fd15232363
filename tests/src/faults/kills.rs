//! Runs many writers, and a daemon that is killed again and again while they write.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Barrier, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::json;

use super::clock::Clock;
use super::handover::{AcceptedBy, Handover};
use super::oracle::{DECOY, Oracle, OracleVerdict};
use super::process::{Daemon, kill_all};
use super::script::{Script, Step, TurnIds};
use crate::Stage;

/// The latest moment of a kill, in milliseconds after the daemon's start or after it first listened.
const LATEST_KILL_MS: u64 = 400;
/// The longest stop of the daemon, in milliseconds.
const LONGEST_STOP_MS: u64 = 150;
/// The number of events in one session.
const SESSION_LENGTH: usize = 125;
/// Far longer than a healthy daemon needs. The tests are about a dying daemon, and its death is noticed at once.
const PATIENCE: Duration = Duration::from_secs(20);
/// How long the shim waits. After a longer stop the event is in the spool.
const SHIMS_PATIENCE: Duration = Duration::from_millis(60);

/// The number of daemons that outlive their home.
const OUTLIVING: usize = 4;

/// The number of people who use the memory at the same time.
const PEOPLE: usize = 2;

/// How large a run is, and what happens in it.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    pub events: usize,
    pub writers: usize,
    pub kills: usize,
    pub seed: u64,
    pub trouble: Trouble,
}

/// What happens besides the kills.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    None,
    /// The daemon is stopped (SIGSTOP) and continued before it is killed. The wall clock jumps back and forth by
    /// hours, and the machine boots this many times. Only real shims use the true time. The first writer runs them.
    StopsAndClockSteps {
        boots: usize,
    },
    /// People use the memory meanwhile. They search, import, forget what they imported, back up and reindex.
    Commands,
    /// Like [`Self::Commands`], and some daemons lose their home. They are stopped when it is deleted. They continue
    /// one by one while others use the new home in its place.
    DeletedHomes,
}

impl Trouble {
    fn clock(self, plan: Plan) -> Clock {
        match self {
            Self::None | Self::Commands | Self::DeletedHomes => Clock::True,
            Self::StopsAndClockSteps { boots } => {
                Clock::stepped(plan.seed, boots, (plan.events - plan.events / plan.writers).div_ceil(boots))
            }
        }
    }

    /// Returns whether people use the memory meanwhile.
    pub fn has_people(self) -> bool {
        matches!(self, Self::Commands | Self::DeletedHomes)
    }

    fn patience(self) -> Duration {
        match self {
            Self::None | Self::Commands | Self::DeletedHomes => PATIENCE,
            Self::StopsAndClockSteps { .. } => SHIMS_PATIENCE,
        }
    }
}

/// The result of a run.
#[derive(Debug)]
pub struct Outcome {
    pub verdict: OracleVerdict,
    /// Events that the daemon acknowledged. Events of real shims are in neither count.
    pub by_daemon: usize,
    pub by_spool: usize,
    /// Rounds in which an event was being delivered when the daemon died.
    pub hits: usize,
    /// The number of boots, and how often the wall clock went backward.
    pub clock: (u64, usize),
    /// Commands of people which a daemon answered.
    pub commands: usize,
    /// Broken promises, for example a shim with an exit code.
    pub complaints: Vec<String>,
}

#[derive(Default)]
struct Tally {
    by_daemon: AtomicUsize,
    by_spool: AtomicUsize,
    under_way: AtomicUsize,
    commands: AtomicUsize,
    complaints: Mutex<Vec<String>>,
}

/// Carries out the plan. In each round a daemon is started, and every writer delivers its share of the events. The
/// daemon is killed at a random moment, sometimes before it listens. The first writer runs real shims.
pub fn survive(plan: Plan) -> Outcome {
    let mut stage = Stage::new();
    // This builds the binaries before any time is measured.
    crate::binaries();
    let (oracle, tally, clock) = (Oracle::default(), Tally::default(), plan.trouble.clock(plan));
    let (begin, end) = (Barrier::new(plan.writers + 1), Barrier::new(plan.writers + 1));
    let share = plan.events.div_ceil(plan.writers * plan.kills);
    let over = AtomicBool::new(false);
    let mut hits = 0;
    let mut outliving = if plan.trouble == Trouble::DeletedHomes { outlive(&stage) } else { Vec::new() };
    let spared: Vec<u32> = outliving.iter().map(Daemon::pid).collect();
    std::thread::scope(|scope| {
        for writer in 0..plan.writers {
            let mut events = Events::new(plan.seed, writer);
            let scene = EffectContext { stage: &stage, oracle: &oracle, tally: &tally, clock: &clock };
            let (begin, end) = (&begin, &end);
            scope.spawn(move || {
                let handover = Handover::new(scene.stage, plan.trouble.patience());
                for _ in 0..plan.kills {
                    begin.wait();
                    for _ in 0..share {
                        let (script, step) = events.next_event();
                        scene.hand_over(&handover, writer, script, step);
                    }
                    end.wait();
                }
            });
        }
        let over = &over;
        if plan.trouble.has_people() {
            let (stage, tally) = (&stage, &tally);
            (0..PEOPLE).for_each(|person| drop(scope.spawn(move || work(stage, tally, over, person))));
        }
        let mut random = fastrand::Rng::with_seed(plan.seed);
        for round in 0..plan.kills {
            let mut daemon = Daemon::spawn(&stage);
            let is_killed_at_work = round % 4 == 3;
            if (random.bool() || is_killed_at_work)
                && let Err(complaint) = daemon.wait_until_it_listens(&stage)
                && !plan.trouble.has_people()
            {
                // This is no complaint if people run commands. A command may have started another daemon, and then
                // this one exits.
                tally.complaints.lock().unwrap().push(complaint);
            }
            begin.wait();
            let wakes = |nth: usize| round == (nth + 1) * plan.kills / (OUTLIVING + 2);
            outliving
                .iter()
                .enumerate()
                .filter(|(nth, _)| wakes(*nth))
                .for_each(|(_, old)| old.signal(Signal::CONT));
            if is_killed_at_work {
                wait_for_an_answer(&tally);
            }
            // The moment of the kill is the fault. The sleep does not wait for anything.
            let until_kill = Duration::from_millis(random.u64(1..=LATEST_KILL_MS));
            if matches!(plan.trouble, Trouble::StopsAndClockSteps { .. }) {
                std::thread::sleep(until_kill.mul_f64(random.f64()));
                daemon.signal(Signal::STOP);
                std::thread::sleep(Duration::from_millis(random.u64(1..=LONGEST_STOP_MS)));
                daemon.signal(Signal::CONT);
            }
            std::thread::sleep(until_kill);
            hits += usize::from(tally.under_way.load(Ordering::Acquire) > 0);
            daemon.kill();
            if plan.trouble.has_people() {
                kill_all(&stage, &spared);
            }
            end.wait();
        }
        over.store(true, Ordering::Release);
    });
    if plan.trouble.has_people() {
        kill_all(&stage, &spared);
    }
    let mut complaints = tally.complaints.into_inner().unwrap();
    if !outliving.iter_mut().all(ends) {
        complaints.push("a daemon outlives its home".to_owned());
    }
    let dropped = Handover::new(&stage, PATIENCE).dropped();
    if dropped > 0 {
        complaints.push(format!("{dropped} events were not accepted"));
    }
    let verdict = oracle.verdict(&mut stage);
    let (by_daemon, by_spool) = (tally.by_daemon.into_inner(), tally.by_spool.into_inner());
    let commands = tally.commands.into_inner();
    Outcome { verdict, by_daemon, by_spool, hits, clock: clock.troubles(), commands, complaints }
}

/// Waits until the daemon acknowledges one more event. Otherwise, on a busy machine, each kill might come before the
/// first one.
fn wait_for_an_answer(tally: &Tally) {
    let (begun, before) = (Instant::now(), tally.by_daemon.load(Ordering::Relaxed));
    while tally.by_daemon.load(Ordering::Relaxed) == before && begun.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
}

/// Starts daemons, stops them and deletes their home.
fn outlive(stage: &Stage) -> Vec<Daemon> {
    let begin = |_| {
        let mut daemon = Daemon::spawn(stage);
        daemon.wait_until_it_listens(stage).unwrap();
        daemon.signal(Signal::STOP);
        std::fs::remove_dir_all(stage.home()).unwrap();
        daemon
    };
    (0..OUTLIVING).map(begin).collect()
}

/// Returns whether the daemon ends by itself.
fn ends(daemon: &mut Daemon) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE {
        if daemon.ended().is_some() {
            return true;
        }
        std::thread::yield_now();
    }
    false
}

/// Does the work of one person until the run is over. Commands that fail because the daemon dies are repeated later.
fn work(stage: &Stage, tally: &Tally, over: &AtomicBool, person: usize) {
    for nth in person.. {
        if over.load(Ordering::Acquire) {
            return;
        }
        let decoy = format!("{DECOY}-{person}-{}", nth / 6);
        let output = match nth % 6 {
            0 => {
                record(stage, &decoy);
                stage.recall(["import", "claude-code"])
            }
            1 => stage.recall(["search", "rounds after summing"]),
            2 => stage.recall(["ctl", "backup"]),
            3 => stage.recall(["forget", "--yes", "--session", &decoy]),
            4 => stage.recall(["ctl", "reindex"]),
            _ => stage.recall(["forget", "--yes", "--query", &decoy]),
        };
        tally.commands.fetch_add(usize::from(output.code() == 0), Ordering::Relaxed);
    }
}

/// Writes a session with this id as the agent records it.
fn record(stage: &Stage, session: &str) {
    let line = |role: &str, uuid: &str, parent: Option<String>, text: &str| {
        json!({"type": role, "uuid": format!("{session}-{uuid}"), "parentUuid": parent, "sessionId": session,
            "cwd": "/home/dev/shop", "timestamp": "2026-11-20T10:02:00Z",
            "message": {"role": role, "content": [{"type": "text", "text": format!("{session} {text}")}]}})
        .to_string()
    };
    let asked = line("user", "q", None, "Why does the decoy round twice?");
    let answered = line("assistant", "a", Some(format!("{session}-q")), "It rounds each line, then the sum.");
    let folder = stage.user_home().join(".claude/projects/-home-dev-shop");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join(format!("{session}.jsonl")), [asked, answered].join("\n")).unwrap();
}

/// The events of one writer, one session after another.
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
            // All ids have the same length, so no id is the beginning of another.
            let session = format!("writer-{}-session-{:04}", self.writer, self.sessions);
            self.script = Script::random(session, SESSION_LENGTH, turn_ids, &mut self.random);
            self.at = 0;
        }
        let step = self.script.steps[self.at];
        self.at += 1;
        (&self.script, step)
    }
}

/// State that every writer needs.
#[derive(Clone, Copy)]
struct EffectContext<'a> {
    stage: &'a Stage,
    oracle: &'a Oracle,
    tally: &'a Tally,
    clock: &'a Clock,
}

impl EffectContext<'_> {
    fn hand_over(self, handover: &Handover<'_>, writer: usize, script: &Script, step: Step) {
        let Self { stage, oracle, tally, clock } = self;
        let event = script.event(stage, step);
        tally.under_way.fetch_add(1, Ordering::AcqRel);
        let accepted = if writer == 0 {
            handover.run_shim(&event)
        } else {
            let mut delivery = stage.delivery(&event);
            clock.stamp(&mut delivery);
            handover.deliver(&delivery)
        };
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
}
