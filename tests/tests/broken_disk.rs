//! Tests a disk that fails under the daemon: only stored events are acknowledged, nothing is damaged, and capture
//! goes on by itself when the disk works again.

use std::time::{Duration, Instant};

use recall_tests::Stage;
use recall_tests::faults::broken_disk::{Answer, Breakage, Broken, When};
use recall_tests::faults::handover::{AcceptedBy, Handover};
use recall_tests::faults::oracle::Oracle;
use recall_tests::faults::script::{Script, Step, TurnIds};
use recall_tests::faults::syscalls::strace_attaches;

/// Far longer than a healthy daemon needs.
const PATIENCE: Duration = Duration::from_secs(20);
/// The number of events in each breakage.
const EVENTS: usize = 4;

/// The daemon's system calls on its disk, and how a broken disk answers. No fault here reports lost bytes as written,
/// because no program survives that.
const FAULTS: [(&str, Answer); 8] = [
    ("pwrite64", Answer::Error("EIO")),
    ("pwrite64", Answer::Error("ENOSPC")),
    ("pwrite64", Answer::NothingWritten),
    ("fsync", Answer::Error("EIO")),
    ("fdatasync", Answer::Error("EIO")),
    ("openat", Answer::Error("EIO")),
    ("rename", Answer::Error("EIO")),
    ("write", Answer::Error("EIO")),
];

/// One session that goes on while the disk fails now and then.
struct Trial {
    stage: Stage,
    oracle: Oracle,
    script: Script,
    delivered: usize,
}

impl Trial {
    fn new(seed: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let script = Script::random("broken".to_owned(), 8_000, TurnIds::Sent, &mut random);
        let stage = Stage::new().daemon();
        // A daemon that cannot even open its database ends. The next program that needs a daemon starts it again.
        stage.flush();
        Self { stage, oracle: Oracle::default(), script, delivered: 0 }
    }

    /// Delivers the next event. The shim's own files are on a disk that works.
    fn tell(&mut self) -> AcceptedBy {
        let step: Step = self.script.steps[self.delivered];
        self.delivered += 1;
        let delivery = self.stage.delivery(&self.script.event(&self.stage, step));
        let by = Handover::new(&self.stage, PATIENCE).deliver(&delivery).unwrap();
        self.oracle.accept(&self.script.session, step);
        by
    }

    /// Delivers some events while the disk is broken. Returns how many calls failed, and how long after the repair
    /// the daemon accepted an event again.
    fn suffer(&mut self, breakage: Breakage) -> (usize, Duration) {
        let broken = Broken::begin(&self.stage, breakage);
        let accepted: Vec<_> = (0..EVENTS).map(|_| self.tell()).collect();
        let failed = broken.end();
        let mended = Instant::now();
        let syncs = matches!(breakage.call, "fsync" | "pwrite64");
        if breakage.when == When::Always && syncs {
            assert!(failed > 0, "{breakage:?}: nothing failed");
            assert!(!accepted.contains(&AcceptedBy::Daemon), "{breakage:?}: a false acknowledgement");
        }
        while self.tell() != AcceptedBy::Daemon {
            assert!(
                mended.elapsed() < PATIENCE,
                "{breakage:?}: capture does not go on\n{}",
                self.stage.log()
            );
        }
        (failed, mended.elapsed())
    }

    /// Checks that every accepted event is stored, once and in its place, and that the database is sound.
    #[track_caller]
    fn end(mut self) {
        self.stage.kill_daemon();
        let verdict = self.oracle.verdict(&mut self.stage);
        assert!(verdict.is_clean(), "{verdict}");
        let kept = std::fs::read_dir(self.stage.home().join("data")).unwrap();
        let aside =
            kept.filter(|file| file.as_ref().unwrap().file_name().to_string_lossy().contains(".damaged-"));
        assert_eq!(aside.count(), 0, "a sound database was set aside");
    }
}

#[track_caller]
fn endures(times: impl Iterator<Item = When> + Clone, seed: u64) -> (usize, Duration) {
    let mut trial = Trial::new(seed);
    let (mut failed, mut slowest) = (0, Duration::ZERO);
    for (call, answer) in FAULTS {
        for when in times.clone() {
            let (calls, resumed) = trial.suffer(Breakage { call, answer, when });
            failed += calls;
            slowest = slowest.max(resumed);
        }
    }
    println!("{failed} calls failed, {} events, capture went on after {slowest:?} at most", trial.delivered);
    assert!(failed > 0, "nothing failed");
    trial.end();
    (failed, slowest)
}

#[test]
fn no_event_is_lost_while_the_disk_fails() {
    if !strace_attaches() {
        println!("skipped: strace is missing or may not be attached");
        return;
    }
    endures([When::Always].into_iter(), 1);
}

#[test]
fn no_event_is_lost_if_a_single_system_call_fails() {
    if !strace_attaches() {
        println!("skipped: strace is missing or may not be attached");
        return;
    }
    endures([When::Once(2)].into_iter(), 2);
}

/// `cargo test -p recall-tests --release -- --ignored no_event_is_lost_whichever_system_call_of_the_daemon_fails --nocapture`
#[test]
#[ignore = "some hundred times strace is attached to a daemon"]
fn no_event_is_lost_whichever_system_call_of_the_daemon_fails() {
    if !strace_attaches() {
        println!("skipped: strace is missing or may not be attached");
        return;
    }
    let (_, slowest) = endures((1..=40).map(When::Once).chain([When::Always]), 3);
    assert!(slowest < Duration::from_secs(1), "capture went on after {slowest:?}");
}
