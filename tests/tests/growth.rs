//! Plays a month of work without a model. Tests that what recall keeps grows with the work, and that nothing else
//! grows.
//!
//! The capture times of the events make the days. The daemon's clock is the real one, and housekeeping runs every
//! second.

use std::path::Path;
use std::time::Duration;

use recall_protocol::boot;
use recall_tests::Stage;
use recall_tests::faults::handover::Handover;
use serde_json::{Value, json};

const DAY_MS: i64 = 24 * 3_600_000;
/// Two files of 4 MiB.
const LOG_CAP: u64 = 8 << 20;
/// SQLite moves the write-ahead log into the database by itself after 4,000 pages with their headers. The group of
/// writes that exceeds this limit is added. A round of housekeeping does it sooner, but the time since the last one
/// is unknown.
const WAL_CAP: u64 = 4_000 * (4_096 + 24) + (4 << 20);
/// Rows that the indexer has read and that the next round removes.
const INDEX_LOG_CAP: u64 = 1_000;
/// Bytes of the database for each byte that agents reported.
const DATABASE_RATIO: f64 = 4.0;
/// Bytes of the index for each byte of the database.
const INDEX_RATIO: f64 = 1.0;

/// Everything that could grow, in bytes or rows.
#[derive(Clone, Copy, Debug, Default)]
struct Grown {
    reported: u64,
    database: u64,
    wal: u64,
    index: u64,
    backups: u64,
    spool: u64,
    log: u64,
    index_log_rows: u64,
    waiting_jobs: u64,
}

struct Month {
    stage: Stage,
    random: fastrand::Rng,
    reported: u64,
}

impl Month {
    /// Plays one day: some sessions of some turns. About every tenth event waits in the spool.
    fn day(&mut self, day: i64, days: i64, sessions: usize) {
        let midnight = boot::wall_ms() - (days - day) * DAY_MS;
        for session in 0..sessions {
            let events = self.random_session(&format!("day-{day:02}-session-{session}"), day);
            let handover = Handover::new(&self.stage, Duration::from_secs(20));
            for (minute, event) in (0..).zip(&events) {
                let mut delivery = self.stage.delivery(event);
                delivery.captured_at_ms = midnight + minute * 60_000;
                self.reported += delivery.payload.len() as u64;
                if self.random.u8(0..10) == 0 {
                    handover.keep(&delivery).unwrap();
                } else {
                    handover.deliver(&delivery).unwrap();
                }
            }
        }
    }

    fn random_session(&mut self, id: &str, day: i64) -> Vec<Value> {
        let mut events = vec![self.stage.event(id, "SessionStart", json!({"source": "startup"}))];
        for turn in 0..3 {
            events.extend(self.random_turn(id, day, turn));
        }
        events.push(self.stage.event(id, "SessionEnd", json!({"reason": "other"})));
        events
    }

    /// Returns the events of a turn: a prompt, calls with some output, and an answer.
    fn random_turn(&mut self, id: &str, day: i64, turn: usize) -> Vec<Value> {
        let turn_id = format!("{id}-turn-{turn}");
        let topic = self.words(3);
        let prompt = json!({"prompt": format!("Make the {topic} work"), "prompt_id": turn_id});
        let mut events = vec![self.stage.event(id, "UserPromptSubmit", prompt)];
        for call in 0..4 {
            let path = self.stage.project().join(format!("src/part_{}.rs", self.random.u8(0..60)));
            let lines = self.random.usize(5..80);
            let body = (0..lines).map(|_| self.words(8)).collect::<Vec<_>>().join("\n");
            let fields = json!({"tool_name": "Edit", "tool_use_id": format!("{turn_id}-{call}"), "prompt_id": turn_id,
                "tool_input": {"file_path": path, "old_string": "old", "new_string": body},
                "tool_response": {"filePath": path, "newString": body}});
            events.push(self.stage.event(id, "PostToolUse", fields));
        }
        let answer = format!(
            "The {topic} works since day {day}: {} failed because {}, so {} is checked first.",
            self.words(2),
            self.words(4),
            self.words(2)
        );
        let stop = json!({"last_assistant_message": answer, "prompt_id": turn_id});
        events.push(self.stage.event(id, "Stop", stop));
        events
    }

    fn words(&mut self, count: usize) -> String {
        const SYLLABLES: [&str; 12] =
            ["ka", "lo", "mi", "ren", "tu", "sol", "ba", "den", "fi", "gor", "nu", "pe"];
        let word = |random: &mut fastrand::Rng| -> String {
            (0..3).map(|_| SYLLABLES[random.usize(0..SYLLABLES.len())]).collect()
        };
        (0..count).map(|_| word(&mut self.random)).collect::<Vec<_>>().join(" ")
    }

    /// Waits until everything is stored, compressed and indexed. Returns the sizes.
    fn grown(&self) -> Grown {
        self.stage.flush();
        let (data, state) = (self.stage.home().join("data"), self.stage.home().join("state"));
        let database = rusqlite::Connection::open(self.stage.database()).unwrap();
        let count =
            |sql: &str| database.query_row(sql, [], |row| row.get::<_, u32>(0)).map(u64::from).unwrap();
        Grown {
            reported: self.reported,
            // This includes what is still in the write-ahead log.
            database: count("SELECT page_count * page_size FROM pragma_page_count, pragma_page_size"),
            wal: bytes(&data.join("recall.db-wal")),
            index: bytes(&data.join("index")),
            backups: bytes(&data.join("backups")),
            spool: bytes(&state.join("spool")),
            log: bytes(&state.join("log")),
            index_log_rows: count("SELECT count(*) FROM index_log"),
            waiting_jobs: count("SELECT count(*) FROM jobs WHERE status <> 'done'"),
        }
    }
}

/// Returns the size of a file, or of all files below a folder, or 0 if there is none.
fn bytes(path: &Path) -> u64 {
    let Ok(found) = std::fs::symlink_metadata(path) else { return 0 };
    if !found.is_dir() {
        return found.len();
    }
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.map(|entry| bytes(&entry.path())).sum()
}

/// Plays this many days with this many sessions each, and checks what has grown by then.
#[track_caller]
fn stays_bounded(days: i64, sessions: usize) {
    let stage = Stage::new().config("[timers]\nhousekeeping_s = 1\n").daemon();
    let mut month = Month { stage, random: fastrand::Rng::with_seed(25), reported: 0 };
    let (mut first, mut half) = (Grown::default(), Grown::default());
    for day in 0..days {
        month.day(day, days, sessions);
        if day == 0 {
            first = month.grown();
        }
        if day == days / 2 {
            half = month.grown();
        }
    }
    let last = month.grown();
    println!("after a day {first:?}\nafter half {half:?}\nafter {days} days {last:?}");
    println!(
        "{} bytes a day reported, {} in the database, {} in the index",
        last.reported / days as u64,
        last.database / days as u64,
        last.index / days as u64
    );
    assert!(last.log < LOG_CAP && last.wal < WAL_CAP, "{last:?}");
    // The spool has only its folders and its level, and no event.
    assert!(last.spool < 4096 && month.stage.spooled().is_empty(), "{last:?}");
    assert!(last.index_log_rows < INDEX_LOG_CAP && last.waiting_jobs == 0, "{last:?}");
    assert!((last.database as f64) < DATABASE_RATIO * last.reported as f64 + 1e6, "{last:?}");
    assert!((last.index as f64) < INDEX_RATIO * last.database as f64 + 1e6, "{last:?}");
    assert!(last.backups <= 2 * last.database, "{last:?}");
    // The second half of the time adds what the first half did, and no more.
    let (before, after) = (half.database - first.database, last.database - half.database);
    assert!(after as f64 <= 1.5 * before as f64 + 1e6, "{before} bytes, then {after}");
}

#[test]
fn a_month_of_little_work_keeps_disk_use_within_limits() {
    stays_bounded(30, 1);
}

/// `cargo test -p recall-tests --release -- --ignored a_month_of_much_work_keeps --nocapture`
#[test]
#[ignore = "fifteen thousand events"]
fn a_month_of_much_work_keeps_disk_use_within_limits() {
    stays_bounded(30, 30);
}
