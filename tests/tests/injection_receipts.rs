//! Tests receipts: an item counts as injected only if a hook was there to receive it, and only once.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

use recall_protocol::frame::{self, encode_frame};
use recall_protocol::wire::{Deliver, Reply, Request};
use recall_system::faults::Point;
use recall_tests::Stage;
use recall_tests::faults::process::Daemon;
use rustix::event::PollFlags;
use serde_json::{Value, json};

const LINE: &str = "Rounding happens once";
const PATIENCE: Duration = Duration::from_secs(30);

/// Returns a stage whose project has a memory.
fn stage() -> Stage {
    let stage = Stage::new().daemon();
    stage.discount_session("before");
    stage.flush();
    stage
}

fn asks(stage: &Stage, prompt: &str) -> Value {
    let fields = json!({"prompt": "Why is the cart total rounded after summing?", "prompt_id": prompt});
    stage.event("asks", "UserPromptSubmit", fields)
}

/// Sends an event as a hook does, and leaves the rest to the caller.
fn hand_over(stage: &Stage, event: &Deliver) -> UnixStream {
    let mut stream = UnixStream::connect(stage.socket()).unwrap();
    stream.write_all(&encode_frame(&Request::Deliver(event.clone())).unwrap()).unwrap();
    stream
}

/// Waits until an event of the session is stored. Only then does `flush` know of it.
fn wait_until_taken(stage: &Stage) {
    let deadline = Instant::now() + PATIENCE;
    while stage.recall(["ctl", "session", "asks"]).code() != 0 {
        assert!(Instant::now() < deadline, "the event is not stored\n{}", stage.log());
    }
    stage.flush();
}

fn injections(stage: &Stage) -> usize {
    stage.json(["ctl", "session", "asks"])["injections"].as_array().unwrap().len()
}

#[test]
fn notes_missed_by_a_disconnected_hook_are_injected_by_the_next_one() {
    let mut stage = stage();
    drop(hand_over(&stage, &stage.delivery(&asks(&stage, "p1"))));
    wait_until_taken(&stage);
    assert_eq!(injections(&stage), 0);
    assert!(stage.hook(&asks(&stage, "p2")).context().contains(LINE));
    stage.flush();
    assert_eq!(injections(&stage), 1);
    assert!(!stage.hook(&asks(&stage, "p3")).context().contains(LINE), "it was heard");
    stage.kill_daemon();
    stage.start_daemon();
    assert!(!stage.hook(&asks(&stage, "p4")).context().contains(LINE), "and is not forgotten");
}

/// Other systems do not report whether sent bytes were read.
#[cfg(target_os = "linux")]
#[test]
fn notes_that_a_hook_left_unread_are_injected_by_the_next_one() {
    let mut stage = stage();
    let stream = hand_over(&stage, &stage.delivery(&asks(&stage, "p1")));
    let deadline = Instant::now() + PATIENCE;
    while frame::wait(&stream, PollFlags::IN, PATIENCE).unwrap() == frame::Waited::NotYet {
        assert!(Instant::now() < deadline, "no answer\n{}", stage.log());
    }
    drop(stream);
    stage.flush();
    assert_eq!(injections(&stage), 0);
    stage.kill_daemon();
    stage.start_daemon();
    assert!(stage.hook(&asks(&stage, "p2")).context().contains(LINE));
}

#[test]
fn a_hook_is_answered_although_the_disk_stalls() {
    let mut stage = Stage::new().variable("RECALL_ANSWER_MS", "5000").daemon();
    stage.discount_session("before");
    assert!(
        !stage
            .hook(&stage.event("asks", "UserPromptSubmit", json!({"prompt": "Hello", "prompt_id": "p1"})))
            .context()
            .contains(LINE)
    );
    stage.flush();
    stage.kill_daemon();
    // The stall is longer than the hook waits, so any answer comes without the commit. The stalled commit may be the
    // event's or an earlier one of a compressor, because a compressor works on the interrupted session.
    let points = format!("{}=1*sleep(7000)->off", Point::Commit.name());
    let mut daemon = Daemon::spawn_armed(&stage, &points, Stdio::null());
    daemon.wait_until_it_listens(&stage).unwrap();
    assert!(stage.hook(&asks(&stage, "p2")).context().contains(LINE), "{}", stage.log());
    stage.flush();
    let events = stage.json(["ctl", "status"])["events"].clone();
    assert_eq!(
        (&events["duplicates"], &events["spooled"]),
        (&json!(1), &json!(0)),
        "it was kept twice: {events}\n{}",
        stage.log()
    );
    assert_eq!(injections(&stage), 1);
    let prompts = stage.json(["ctl", "session", "asks"])["batches"].as_array().unwrap().len();
    assert_eq!(prompts, 2);
    assert!(!stage.hook(&asks(&stage, "p3")).context().contains(LINE), "it was heard");
}

/// Waits until the writer stalls. It holds the database's lock while it commits, for a few milliseconds without a
/// stall.
fn wait_until_the_writer_stalls(stage: &Stage) {
    let database = rusqlite::Connection::open(stage.database()).unwrap();
    database.busy_timeout(Duration::from_millis(500)).unwrap();
    let deadline = Instant::now() + PATIENCE;
    loop {
        assert!(Instant::now() < deadline, "the disk does not stall\n{}", stage.log());
        if database.execute_batch("BEGIN IMMEDIATE").is_err() {
            return;
        }
        database.execute_batch("ROLLBACK").unwrap();
    }
}

/// A session without an actor reads the store at once, even while the writer waits for something.
#[test]
fn a_hook_is_answered_although_the_disk_stalls_for_another_session() {
    let mut stage = Stage::new().variable("RECALL_ANSWER_MS", "5000").daemon();
    stage.discount_session("before");
    // The actor of a session that has not ended starts with the daemon.
    for (session, event) in [("asks", "SessionEnd"), ("other", "Stop")] {
        let prompt = json!({"prompt": "Hello", "prompt_id": "p1"});
        stage.hook(&stage.event(session, "UserPromptSubmit", prompt));
        stage.hook(&stage.event(session, event, json!({"prompt_id": "p1"})));
    }
    stage.flush();
    stage.kill_daemon();
    let points = format!("{}=1*sleep(7000)->off", Point::Commit.name());
    let mut daemon = Daemon::spawn_armed(&stage, &points, Stdio::null());
    daemon.wait_until_it_listens(&stage).unwrap();
    let other = stage.event("other", "UserPromptSubmit", json!({"prompt": "Go on", "prompt_id": "p2"}));
    let _other = hand_over(&stage, &stage.delivery(&other));
    wait_until_the_writer_stalls(&stage);
    assert!(stage.hook(&asks(&stage, "p2")).context().contains(LINE), "{}", stage.log());
}

/// On a busy machine, anything can be slow at a start: the disk, or the lookup after the commit.
#[test]
fn a_session_start_gets_the_titles_if_the_rest_is_not_ready_in_time() {
    for (slow, duplicates) in [(Point::Recall, 0), (Point::Commit, 1)] {
        let mut stage = Stage::new().variable("RECALL_ANSWER_MS", "5000").daemon();
        stage.discount_session("earlier");
        stage.session(
            "before",
            "Choose the paper",
            &[],
            "Receipts are printed on paper of 80 mm, because the printers cut it there.",
        );
        stage.flush();
        stage.kill_daemon();
        // The stall is longer than the hook waits.
        let points = format!("{}=1*sleep(7000)->off", slow.name());
        let mut daemon = Daemon::spawn_armed(&stage, &points, Stdio::null());
        daemon.wait_until_it_listens(&stage).unwrap();
        // The session is not stored yet. Only its folder shows the project.
        let start = stage.event("asks", "SessionStart", json!({"source": "startup"}));
        let context = stage.hook(&start).context();
        assert!(
            context.contains("## Known") && context.contains(LINE),
            "{slow:?}: {context}\n{}",
            stage.log()
        );
        assert!(context.contains("## Last session"), "{slow:?}: {context}");
        stage.flush();
        let events = stage.json(["ctl", "status"])["events"].clone();
        assert_eq!(
            (&events["duplicates"], &events["spooled"]),
            (&json!(duplicates), &json!(0)),
            "{slow:?}: {events}"
        );
        assert_eq!(injections(&stage), 1, "{slow:?}");
        assert!(!stage.hook(&asks(&stage, "p1")).context().contains(LINE), "{slow:?}: it was told");
        daemon.kill();
    }
}

#[test]
fn only_one_of_several_simultaneous_hooks_gets_the_notes() {
    let stage = stage();
    // One prompt comes from a hook that is registered more than once. Another prompt comes at the same time.
    let prompts = ["p1", "p1", "p1", "p2"];
    let events = prompts.map(|prompt| stage.delivery(&asks(&stage, prompt)));
    let streams: Vec<_> = events.iter().map(|event| hand_over(&stage, event)).collect();
    let answers: Vec<Reply> = streams
        .into_iter()
        .map(|mut stream| frame::read_frame(&mut stream, frame::Deadline::after(PATIENCE)).unwrap())
        .collect();
    let with_notes = answers.iter().filter(|answer| match answer {
        Reply::Ack { stdout } | Reply::Duplicate { stdout } => String::from_utf8_lossy(stdout).contains(LINE),
        other => panic!("{other:?}"),
    });
    assert_eq!(with_notes.count(), 1);
    stage.flush();
    assert_eq!(injections(&stage), 1);
}

#[test]
fn a_prompt_gets_the_passage_that_answers_it_and_small_talk_gets_none() {
    let stage = Stage::new().daemon();
    let filler =
        "Nothing else was changed in this part, and all of its checks still pass as they did. ".repeat(3);
    let answer = format!(
        "## Currency converter\n\nThe converter caches its exchange rates for six hours in `rates.json`, because the \
         provider blocks whoever asks more often. {filler}\n\n## Receipt printer\n\nThe printer `Vec<Line>` wraps at \
         42 columns. {filler}"
    );
    stage.session("one", "Look after the converter and the printer", &[], &answer);
    stage.flush();
    let asks = |text: &str, id: &str| {
        let prompt = json!({"prompt": text, "prompt_id": id});
        stage.hook(&stage.event("two", "UserPromptSubmit", prompt)).context()
    };
    let given = asks("Why does the currency converter cache its exchange rates for hours?", "p1");
    assert!(given.contains("the provider blocks whoever asks more often"), "{given}");
    assert!(given.len() < answer.len(), "a passage and not the whole: {given}");
    let stop =
        json!({"last_assistant_message": "Because of the provider. Shall I go on?", "prompt_id": "p1"});
    stage.hook(&stage.event("two", "Stop", stop));
    assert_eq!(asks("yes, go on", "p2"), "");
    assert_eq!(asks("commit this", "p3"), "");
    stage.flush();
    let items = &stage.json(["why", "two"])["injections"][0]["items"];
    assert!(items[0]["reason"].as_str().unwrap().contains("an answer"), "{items}");
    let decided = &stage.json(["context", "--prompt", "thanks!"])["decision"];
    assert!(decided["prompt"].as_f64().unwrap() * decided["answer"].as_f64().unwrap() < 0.22, "{decided}");
    assert!(stage.recall(["context", "--prompt", "thanks!"]).stdout.contains("earlier sessions can help:"));
}

#[test]
fn a_session_that_starts_again_gets_only_new_notes() {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    stage.flush();
    let start = |agent: &str, source: &str| {
        let event = stage.event("again", "SessionStart", json!({"source": source}));
        stage.hook_bytes(&[agent], event.to_string().as_bytes())
    };
    let output = start("claude-code", "startup");
    assert!(output.context().contains("recall: memory of"), "{output:?}");
    let prompt = |text: &str, id: &str| {
        stage.hook(&stage.event("again", "UserPromptSubmit", json!({"prompt": text, "prompt_id": id})));
    };
    prompt("Go ahead", "p1");
    stage.flush();
    let again = start("claude-code", "startup");
    assert_eq!(again.context(), "", "{again:?}");
    // The session ends, and starts again for the next prompt.
    stage.hook(&stage.event("again", "SessionEnd", json!({"reason": "other"})));
    stage.flush();
    assert_eq!(start("claude-code", "startup").context(), "");
    prompt("Go on", "p2");
    let output = stage.recall(["remember", "The gazette is printed on Tuesdays"]);
    assert_eq!(output.code(), 0, "{output:?}");
    stage.flush();
    let news = start("claude-code", "startup").context();
    assert!(news.contains("gazette") && !news.contains("rounds the total"), "{news}");
    // A conversation that was emptied gets everything again.
    stage.hook(&stage.event("again", "PreCompact", json!({"trigger": "manual"})));
    let compacted = start("claude-code", "compact").context();
    assert!(compacted.contains("recall: memory of"), "{compacted}");
}
