//! What time does to sessions, with the whole tree running and the clock standing still until it is moved on.

use std::sync::Arc;
use std::time::Duration;

use ractor::{Actor, ActorRef};
use recall_protocol::paths::Paths;
use recall_protocol::spool::Spool;
use recall_protocol::wire::{Deliver, EventId, Flags, Reply, ShimContext};
use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::time::Instant;

use super::bus::Happening;
use super::clock;
use super::intake::Listener;
use super::root::{self, Blueprint, House, Root, RootMessage};
use crate::compression::extractive::Extractive;
use crate::config::Config;
use crate::memory::lifecycle::Said;
use crate::memory::redaction::Redactor;
use crate::store::{self, Durability};

struct Tree {
    house: House,
    root: ActorRef<RootMessage>,
    happenings: Receiver<Happening>,
    home: tempfile::TempDir,
}

impl Tree {
    /// Nobody compresses: a thread outside of the runtime would not be waited for by its clock.
    async fn start(mut config: Config) -> Self {
        config.compression.concurrency = 0;
        config.durability = Durability::Normal;
        let home = tempfile::tempdir().unwrap();
        let paths =
            Paths::from_variables(&|name| (name == "RECALL_HOME").then(|| home.path().into())).unwrap();
        paths.create_folders().unwrap();
        std::fs::create_dir_all(paths.backups_dir()).unwrap();
        let spool = Spool::new(&paths);
        spool.create_folders().unwrap();
        let blueprint = Blueprint {
            database: paths.database(),
            backups: paths.backups_dir(),
            repair_note: home.path().join("repairs.json"),
            pause_note: home.path().join("pauses.json"),
            index_folder: paths.index_dir(),
            spool,
            redactor: Arc::new(Redactor::new(&config.redaction).unwrap()),
            config,
            compressor: Arc::new(Extractive),
        };
        let house = House::new(&blueprint);
        let (root, _) = Actor::spawn(None, Root, (blueprint, house.clone())).await.unwrap();
        let happenings = house.bus.listen();
        Self { house, root, happenings, home }
    }

    /// Sends an event of the session `s`.
    async fn hook(&self, name: &str, fields: Value) {
        self.hook_of("s", name, fields).await;
    }

    async fn hook_of(&self, session: &str, name: &str, fields: Value) {
        let mut event = json!({"session_id": session, "hook_event_name": name, "prompt_id": "p1"});
        for (key, value) in fields.as_object().unwrap() {
            event[key] = value.clone();
        }
        let at = clock::now();
        let deliver = Deliver {
            event_id: EventId::new(at.0),
            agent: "claude-code".to_owned(),
            event_name: String::new(),
            captured_at_ms: at.0,
            boot_id: [1; 16],
            boot_ns: at.0.unsigned_abs() * 1_000_000,
            context: ShimContext { cwd: self.home.path().display().to_string(), ..ShimContext::default() },
            payload: event.to_string().into_bytes(),
            flags: Flags::default(),
        };
        let reply = self.house.intake.take(deliver, Listener::Agent).await;
        assert!(matches!(reply, Reply::Ack { .. }), "{reply:?}");
    }

    /// Moves the clock on until something of this name is said of the session, and tells how long that took.
    async fn wait_for(&mut self, session: &str, name: &str) -> (Duration, Said) {
        let begun = Instant::now();
        loop {
            if let Happening::Lifecycle(said) = self.happenings.recv().await.unwrap()
                && said.session.as_ref().is_some_and(|key| key.id.as_str() == session)
                && said.what.name() == name
            {
                return (begun.elapsed(), said.what.clone());
            }
        }
    }

    fn batch_states(&self) -> Vec<String> {
        let states = self.house.readers.read(|db| {
            let session = store::find_sessions(db, "s")?.remove(0);
            Ok::<_, store::StoreError>(
                store::batches(db, session.row)?.into_iter().map(|batch| batch.status).collect(),
            )
        });
        states.unwrap()
    }

    async fn stop(self) {
        root::stop(&self.root).await;
    }
}

fn seconds(range: std::ops::RangeInclusive<u64>, took: Duration) {
    assert!(range.contains(&took.as_secs()), "{took:?} is not within {range:?} s");
}

#[tokio::test(start_paused = true)]
async fn a_silent_batch_is_closed_and_later_its_session() {
    let mut tree = Tree::start(Config::default()).await;
    tree.hook("SessionStart", json!({"source": "startup"})).await;
    tree.hook("UserPromptSubmit", json!({"prompt": "go"})).await;
    tokio::time::sleep(Duration::from_secs(200)).await;
    // Counted from the last sign of life.
    tree.hook("PostToolUse", json!({"tool_name": "Bash", "tool_input": {}, "tool_response": {}})).await;
    let (took, _) = tree.wait_for("s", "batch_closed").await;
    seconds(300..=361, took);
    let (took, end) = tree.wait_for("s", "session_end").await;
    seconds(3600 - 361..=3361, took);
    assert!(matches!(end, Said::SessionEnd { reason, .. } if reason == "idle"));
    // The next event begins the next life.
    tree.hook("Stop", json!({"last_assistant_message": "Done."})).await;
    let (_, start) = tree.wait_for("s", "session_start").await;
    assert!(matches!(start, Said::SessionStart { life: 2, resumed_from: Some(_), .. }), "{start:?}");
    tree.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_running_call_keeps_its_batch_and_other_sessions_are_not_its_business() {
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
async fn the_timers_are_the_users() {
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
async fn orphans_are_found_within_a_round() {
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
    // As an older version or a restored backup may leave them.
    let other = rusqlite::Connection::open(tree.home.path().join("data/recall.db")).unwrap();
    other
        .execute_batch(
            "UPDATE activities SET batch = NULL; DELETE FROM jobs; UPDATE prompt_batches SET compressed_at = NULL;",
        )
        .unwrap();
    let left = |what: &str| -> i64 { other.query_row(what, [], |row| row.get(0)).unwrap() };
    let begun = Instant::now();
    while left("SELECT count(*) FROM jobs") == 0 {
        // The next round says that there is work.
        tree.happenings.recv().await.unwrap();
        seconds(0..=61, begun.elapsed());
    }
    assert_eq!(left("SELECT count(*) FROM activities WHERE batch IS NULL"), 0);
    tree.stop().await;
}
