//! Tests events for other programs: followers, and the commands that the user has subscribed.

use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use recall_protocol::client::Connection;
use recall_protocol::frame::Deadline;
use recall_protocol::query::Follow;
use recall_protocol::wire::{Reply, Request};
use recall_tests::Stage;
use serde_json::{Value, json};

/// A running `recall ctl events --follow --json` that already receives every event.
struct Follower {
    program: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Follower {
    #[track_caller]
    fn start(stage: &Stage, arguments: &[&str]) -> Self {
        let mut command = stage.command("recall");
        command.args(["ctl", "events", "--follow", "--json"]).args(arguments);
        let mut program =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let lines = BufReader::new(program.stdout.take().unwrap()).lines();
        let mut follower = Self { program, lines };
        assert_eq!(follower.next(), Some(json!({"event": "following"})));
        follower
    }

    fn next(&mut self) -> Option<Value> {
        self.lines.next().map(|line| serde_json::from_str(&line.unwrap()).unwrap())
    }

    /// Returns everything that it prints until it ends, and its exit status.
    fn finish(mut self) -> (Vec<Value>, ExitStatus) {
        let events = std::iter::from_fn(|| self.next()).collect();
        (events, self.program.wait().unwrap())
    }
}

impl Drop for Follower {
    fn drop(&mut self) {
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

fn named<'a>(events: &'a [Value], session: &str) -> Vec<&'a str> {
    let of_session = events.iter().filter(|event| event["session_id"] == session);
    of_session.map(|event| event["event"].as_str().unwrap()).collect()
}

fn times(events: &[Value], session: &str, name: &str) -> usize {
    named(events, session).iter().filter(|event| **event == name).count()
}

#[test]
fn a_follower_gets_each_event_once_until_the_daemon_stops() {
    let mut stage = Stage::new().daemon();
    let everything = Follower::start(&stage, &[]);
    let ends = Follower::start(&stage, &["--kinds", "session_start,session_end", "--session", "sho"]);
    stage.discount_session("shop-1");
    let prompt = stage.event("other", "UserPromptSubmit", json!({"prompt": "Go", "prompt_id": "p1"}));
    let prompt = stage.delivery(&prompt);
    stage.deliver([&prompt, &prompt]);
    stage.flush();
    let session = stage.json(["ctl", "session", "shop-1"]);
    stage.stop_daemon();

    let (events, status) = everything.finish();
    assert!(status.success(), "{status:?} {events:?}");
    for name in ["session_start", "message_received", "batch_closed", "summary_created", "session_end"] {
        assert_eq!(times(&events, "shop-1", name), 1, "{name}: {events:#?}");
    }
    let observations = session["observations"].as_array().unwrap();
    assert_eq!(times(&events, "shop-1", "observation_created"), observations.len(), "{events:#?}");
    assert_eq!(named(&events, "other"), ["session_start", "message_received", "session_suspend"]);
    let end = events.iter().find(|event| event["event"] == "session_end").unwrap();
    assert_eq!((&end["agent"], &end["reason"]), (&json!("claude-code"), &json!("other")), "{end}");
    assert!(end["at"].as_str().unwrap().ends_with('Z'), "{end}");

    let (events, status) = ends.finish();
    assert!(status.success(), "{status:?} {events:?}");
    assert_eq!(named(&events, "shop-1"), ["session_start", "session_end"]);
    assert_eq!(events.len(), 2, "{events:?}");
}

#[test]
fn session_and_turn_events_report_their_counts() {
    let mut stage = Stage::new().daemon();
    let follower = Follower::start(&stage, &[]);
    stage.discount_session("shop-1");
    stage.flush();
    let observations = stage.json(["ctl", "session", "shop-1"])["observations"].as_array().unwrap().len();
    // The session goes on, and a call fails.
    let turn = |fields: Value| {
        let mut fields = fields;
        fields["prompt_id"] = json!("p2");
        fields
    };
    stage.hook(&stage.event("shop-1", "UserPromptSubmit", turn(json!({"prompt": "Run the tests"}))));
    let failed = json!({"tool_name": "Bash", "tool_use_id": "t9", "tool_input": {"command": "cargo test"},
        "error": "exit code 101"});
    stage.hook(&stage.event("shop-1", "PostToolUseFailure", turn(failed)));
    stage.stop_daemon();
    let (first, _) = follower.finish();
    stage.start_daemon();
    let follower = Follower::start(&stage, &[]);
    stage.hook(&stage.event("shop-1", "Stop", turn(json!({"last_assistant_message": "They fail."}))));
    stage.hook(&stage.event("shop-1", "SessionEnd", json!({"reason": "other"})));
    stage.stop_daemon();
    let (second, _) = follower.finish();

    let counts = |event: &Value| {
        ["prompt_count", "tool_call_count", "observation_count"].map(|name| event[name].as_u64().unwrap())
    };
    let of = |events: &[Value], name: &str| -> Vec<[u64; 3]> {
        events.iter().filter(|event| event["event"] == name).map(counts).collect()
    };
    let kept = observations as u64;
    assert!(kept > 0);
    assert_eq!(of(&first, "session_start"), [[0, 0, 0], [1, 3, kept]]);
    assert_eq!(of(&first, "session_suspend"), [[2, 4, kept]]);
    assert_eq!(of(&second, "session_resume"), [[2, 4, kept]]);
    // The last turn may or may not be compressed by then.
    let end = &of(&second, "session_end")[..];
    assert!(matches!(end, [[2, 4, made]] if *made >= kept), "{end:?}");
    let closed = |events: &[Value]| -> Vec<Value> {
        let closed = events.iter().filter(|event| event["event"] == "batch_closed").map(|event| {
            assert!(event["duration_ms"].as_i64().unwrap() >= 0, "{event}");
            json!([
                event["prompt_number"],
                event["source"],
                event["reason"],
                event["tool_call_count"],
                event["failed_call_count"],
                event["changed_file_count"]
            ])
        });
        closed.collect()
    };
    assert_eq!(closed(&first), [json!([1, "user", "stop", 3, 0, 1])]);
    assert_eq!(closed(&second), [json!([2, "user", "stop", 1, 1, 0])]);
}

#[test]
fn a_message_event_names_its_sender_and_channel_if_the_host_does() {
    let mut stage = Stage::new().daemon();
    let follower = Follower::start(&stage, &["--kinds", "message_received,summary_created"]);
    let host = |name: &str, fields: Value| {
        stage.hook_bytes(&["openclaw", name], fields.to_string().as_bytes());
    };
    host(
        "message_received",
        json!({"session_id": "chat", "from": "telegram:4711", "timestamp": 1_795_218_000_000_i64,
        "content": "The total is wrong. <private>heliotrope</private>", "metadata": {"channel": "telegram",
        "account": "shop-bot", "conversation": "4711"}}),
    );
    host(
        "message:received",
        json!({"sessionKey": "chat", "context": {"from": "discord:9", "content": "Hi",
        "channelId": "discord"}}),
    );
    host(
        "UserPromptSubmit",
        json!({"session_id": "chat", "prompt": "The total is wrong.", "sender_id": "4711"}),
    );
    stage.hook(&stage.event("plain", "UserPromptSubmit", json!({"prompt": "Go", "prompt_id": "p1"})));
    stage.discount_session("shop-1");
    stage.flush();
    let session = stage.json(["ctl", "session", "chat"]);
    assert_eq!(session["batches"].as_array().unwrap().len(), 1, "a message is no prompt: {session}");
    stage.stop_daemon();
    let (events, _) = follower.finish();
    let details: Vec<Value> = events
        .iter()
        .filter(|event| event["event"] == "message_received" && event["session_id"] != "shop-1")
        .map(|event| {
            let mut event = event.clone();
            ["event", "session_id", "agent", "session_key", "workspace", "at"]
                .iter()
                .for_each(|key| drop(event.as_object_mut().unwrap().remove(*key)));
            event
        })
        .collect();
    let expected = [
        json!({"from": "telegram:4711", "content": "The total is wrong. ", "channel_id": "telegram",
               "account_id": "shop-bot", "conversation_id": "4711", "sender": "telegram:4711",
               "timestamp": 1_795_218_000_000_i64}),
        // A message on another channel has no field of the one before. The session stays on the new channel.
        json!({"from": "discord:9", "content": "Hi", "channel_id": "discord", "sender": "discord:9"}),
        json!({"from": "4711", "content": "The total is wrong.", "channel_id": "discord", "sender": "4711",
               "sender_id": "4711", "prompt_number": 1}),
        json!({"from": "user", "content": "Go", "prompt_number": 1}),
    ];
    assert_eq!(details, expected);
    let summary = events.iter().find(|event| event["event"] == "summary_created").unwrap();
    assert!(summary["id"].as_str().is_some_and(|id| id.starts_with('s')), "as `show` takes it: {summary}");
}

#[test]
fn a_follower_fails_on_an_unknown_kind_or_a_killed_daemon() {
    let mut stage = Stage::new().daemon();
    let output = stage.recall(["ctl", "events", "--follow", "--kinds", "session_over"]);
    assert_eq!(output.code(), 2, "{output:?}");
    assert!(output.stderr.contains("session_over") && output.stderr.contains("session_end"), "{output:?}");
    let follower = Follower::start(&stage, &[]);
    stage.kill_daemon();
    let (events, status) = follower.finish();
    assert_eq!((events, status.code()), (vec![], Some(3)));
}

/// The test sends more events than a follower may fall behind, and more text than its socket can hold.
#[test]
fn a_slow_follower_blocks_no_event_and_is_sent_its_missed_count() {
    const PROMPTS: usize = 900;
    let stage = Stage::new().daemon();
    let deadline = || Deadline::after(Duration::from_secs(60));
    let connection = Connection::open_socket(&stage.socket(), deadline()).unwrap();
    let query = Follow { session: None, kinds: vec!["message_received".to_owned()] };
    let mut slow = connection.follow(&Request::Query(query.into()), deadline()).unwrap();
    let mut next_event = || match slow.wait().unwrap() {
        Reply::Json(line) => serde_json::from_slice::<Value>(&line).unwrap(),
        other => panic!("{other:?}"),
    };
    assert_eq!(next_event(), json!({"event": "following"}));
    let text = "Go on. ".repeat(400);
    let prompts: Vec<_> = (0..PROMPTS)
        .map(|nth| {
            let fields = json!({"prompt": text, "prompt_id": format!("p{nth}")});
            stage.delivery(&stage.event("busy", "UserPromptSubmit", fields))
        })
        .collect();
    let answers = stage.deliver(&prompts);
    assert!(answers.iter().all(|answer| matches!(answer, Reply::Ack { .. })), "the daemon waited");
    let mut received_first = 0;
    let missed = loop {
        let event = next_event();
        match event["event"].as_str() {
            Some("message_received") => received_first += 1,
            _ => break event,
        }
    };
    assert_eq!(missed["event"], "lagged", "{missed}");
    assert!(missed["lagged"].as_u64().is_some_and(|missed| missed > 0), "{missed}");
    assert!(received_first < PROMPTS);
}

/// Creates a fifo and reads it until no writer has it open. A program that opens it finds a reader.
fn fifo(stage: &Stage, name: &str) -> JoinHandle<String> {
    let path = stage.user_home().join(name);
    let mode = rustix::fs::Mode::RWXU;
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    std::thread::spawn(move || std::fs::read_to_string(path).unwrap())
}

fn subscribe(event: &str, script: &str) -> String {
    format!("[[subscribe]]\nevents = ['{event}']\ncommand = ['sh', '-c', '''{script}''']\n")
}

/// Asks until the counts of subscriptions are as expected. Each question starts a process, so this is no busy loop.
#[track_caller]
fn until(stage: &Stage, expected: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let counts = stage.json(["ctl", "status"])["subscribe"].clone();
        if expected(&counts) {
            return counts;
        }
        assert!(Instant::now() < deadline, "it stays so: {counts}\n{}", stage.log());
    }
}

#[test]
fn a_notification_is_sent_to_followers_without_secrets() {
    let stage = Stage::new().daemon();
    let mut follower = Follower::start(&stage, &["--kinds", "notification"]);
    let notify = |fields: Value| stage.hook(&stage.event("s", "Notification", fields));
    stage.hook(&stage.event("s", "UserPromptSubmit", json!({"prompt": "Fix the cart"})));
    let output = notify(json!({"notification_type": "permission_prompt",
        "message": concat!("Claude needs your permission to use Bash with ghp", "_0123456789abcdefghijABCDEFGHIJ012345")}));
    assert_eq!(output.stdout, "");
    let event = follower.next().unwrap();
    assert_eq!((&event["event"], &event["session_id"]), (&json!("notification"), &json!("s")), "{event}");
    assert_eq!((&event["kind"], &event["title"]), (&json!("permission_prompt"), &Value::Null), "{event}");
    let message = event["message"].as_str().unwrap();
    assert!(message.starts_with("Claude needs your permission") && !message.contains("ghp_"), "{message}");
    // Followers get only the kind of a notification in a private turn.
    stage.hook(&stage.event("s", "UserPromptSubmit", json!({"prompt": "<private>heron</private>"})));
    notify(json!({"notification_type": "idle_prompt", "message": "waiting about the heron"}));
    let event = follower.next().unwrap();
    assert_eq!((&event["kind"], &event["message"]), (&json!("idle_prompt"), &Value::Null), "{event}");
}

#[test]
fn a_subscribed_command_gets_the_event_and_no_secret_of_the_daemon() {
    let stage = Stage::new().variable("ANTHROPIC_API_KEY", "sk-heliotrope");
    let (input, variables) = (fifo(&stage, "told"), fifo(&stage, "variables"));
    let stage =
        stage.config(&subscribe("session_end", "cat >\"$HOME/told\"; env >\"$HOME/variables\"")).daemon();
    stage.discount_session("s");
    let event: Value = serde_json::from_str(&input.join().unwrap()).unwrap();
    assert_eq!((&event["event"], &event["session_id"]), (&json!("session_end"), &json!("s")), "{event}");
    let environment = variables.join().unwrap();
    assert!(environment.lines().any(|line| line == "RECALL_DISABLE=1"), "{environment}");
    assert!(!environment.contains("heliotrope"), "{environment}");
    let counts = until(&stage, |counts| counts["runs"] == 1);
    assert_eq!((&counts["failures"], &counts["dropped"]), (&json!(0), &json!(0)), "{counts}");
}

/// This test takes as long as the deadline of a command, which is five seconds.
#[test]
fn hanging_subscribed_commands_and_leftover_children_are_killed() {
    let stage = Stage::new();
    let (hanging, child) = (fifo(&stage, "hanging"), fifo(&stage, "child"));
    let config = [
        subscribe("session_start", "exec 3>\"$HOME/hanging\"; echo begun >&3; sleep 20; echo outlived >&3"),
        subscribe("session_end", "exec 3>\"$HOME/child\"; echo begun >&3; (sleep 20; echo outlived >&3) &"),
        "[[subscribe]]\nevents = ['session_end']\ncommand = ['/no/such/program']\n".to_owned(),
    ];
    let stage = stage.config(&config.concat()).daemon();
    stage.discount_session("s");
    assert!(stage.spooled().is_empty(), "an agent was kept waiting");
    assert_eq!(child.join().unwrap(), "begun\n");
    assert_eq!(hanging.join().unwrap(), "begun\n");
    let counts = until(&stage, |counts| counts["failures"] == 2);
    assert_eq!(counts["runs"], 3, "{counts}");
    let found = stage.recall(["doctor"]).stdout;
    assert!(found.contains("2 of 3 subscribed commands failed"), "{found}");
}

#[test]
fn a_subscribed_command_ends_when_the_daemon_is_killed() {
    let stage = Stage::new();
    let (begun, hanging) = (fifo(&stage, "begun"), fifo(&stage, "hanging"));
    let script = "exec 3>\"$HOME/hanging\"; echo begun >\"$HOME/begun\"; sleep 20; echo outlived >&3";
    let mut stage = stage.config(&subscribe("session_start", script)).daemon();
    stage.hook(&stage.event("s", "SessionStart", json!({"source": "startup"})));
    assert_eq!(begun.join().unwrap(), "begun\n");
    stage.kill_daemon();
    assert_eq!(hanging.join().unwrap(), "", "it went on without the daemon");
}

fn stream(events: &str, script: &str) -> String {
    format!("[[subscribe]]\nevents = [{events}]\nmode = 'stream'\ncommand = ['sh', '-c', '''{script}''']\n")
}

#[test]
fn a_stream_command_reads_a_line_for_each_event_until_the_daemon_stops() {
    let stage = Stage::new();
    let input = fifo(&stage, "told");
    let config = stream("'session_start', 'session_end'", "exec cat >\"$HOME/told\"");
    let mut stage = stage.config(&config).daemon();
    for session in ["one", "two"] {
        stage.discount_session(session);
    }
    stage.flush();
    assert_eq!(until(&stage, |counts| counts["runs"] == 1)["failures"], 0);
    stage.stop_daemon();
    let lines: Vec<Value> =
        input.join().unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let received: Vec<_> =
        lines.iter().map(|line| (line["event"].as_str().unwrap(), &line["session_id"])).collect();
    let (one, two) = (json!("one"), json!("two"));
    let expected =
        [("session_start", &one), ("session_end", &one), ("session_start", &two), ("session_end", &two)];
    assert_eq!(received, expected);
    assert_eq!(lines[0]["workspace"], json!(stage.project()));
    assert_eq!(lines[0]["session_key"], format!("{}:one", lines[0]["agent"].as_str().unwrap()));
}

#[test]
fn a_stream_command_that_ends_is_started_again_and_reported() {
    let stage = Stage::new();
    let config = stream("'session_start', 'session_end'", "exec <&-");
    let stage = stage.config(&config).daemon();
    stage.discount_session("one");
    stage.discount_session("two");
    let counts = until(&stage, |counts| counts["runs"].as_u64() >= Some(2));
    assert!(counts["last_failure"].as_str().unwrap().starts_with("sh ended"), "{counts}");
    let found = stage.recall(["doctor"]).stdout;
    assert!(found.contains("subscribed commands failed"), "{found}");
}

#[test]
fn events_for_a_slow_stream_command_are_dropped_and_counted() {
    /// More prompts than the queue and the pipe can hold.
    const PROMPTS: usize = 2_500;
    let stage = Stage::new();
    let input = fifo(&stage, "told");
    let script = "exec 3>\"$HOME/told\"; while ! [ -e \"$HOME/go\" ]; do sleep 0.05; done; exec cat >&3";
    let mut stage = stage.config(&stream("'message_received'", script)).daemon();
    let prompt = |number: usize| {
        stage.delivery(&stage.event("one", "UserPromptSubmit", json!({"prompt": format!("Step {number}")})))
    };
    let prompts: Vec<_> = (0..PROMPTS).map(prompt).collect();
    stage.deliver(&prompts);
    let counts = until(&stage, |counts| counts["dropped"].as_u64() > Some(0));
    assert_eq!((&counts["runs"], &counts["failures"]), (&json!(1), &json!(0)), "{counts}");
    let found = stage.recall(["doctor"]).stdout;
    assert!(found.contains("a subscribed command is too slow"), "{found}");
    std::fs::write(stage.user_home().join("go"), "").unwrap();
    let last = prompt(PROMPTS);
    // The command must read queued events before there is room for new ones.
    stage.deliver([&last]);
    stage.stop_daemon();
    let lines: Vec<Value> =
        input.join().unwrap().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let numbers =
        lines.iter().filter_map(|line| line["content"].as_str()?.strip_prefix("Step ")?.parse().ok());
    let numbers: Vec<usize> = numbers.collect();
    assert!(numbers.len() < PROMPTS && numbers.is_sorted(), "in order, and not all: {}", numbers.len());
    for (at, line) in lines.iter().enumerate().filter(|(_, line)| line["event"] == "lagged") {
        let (before, after) = (&lines[at - 1]["content"], &lines[at + 1]["content"]);
        assert!(line["lagged"].as_u64() > Some(0) && before != after, "{line}");
    }
}

#[test]
fn the_log_has_one_line_for_each_change_of_a_sessions_state() {
    let mut stage = Stage::new().daemon();
    let say = |stage: &Stage, name: &str, fields: Value| stage.hook(&stage.event("shop-1", name, fields));
    say(&stage, "SessionStart", json!({"source": "startup"}));
    say(&stage, "UserPromptSubmit", json!({"prompt": "Why is the heron blue?"}));
    say(&stage, "PreCompact", json!({"trigger": "auto"}));
    say(&stage, "PostCompact", json!({"trigger": "auto", "compact_summary": "The heron is blue."}));
    stage.stop_daemon();
    stage.start_daemon();
    say(&stage, "UserPromptSubmit", json!({"prompt": "And the heron's beak?"}));
    say(&stage, "SessionEnd", json!({"reason": "logout"}));
    stage.flush();
    let log = stage.log();
    for expected in [
        "session started agent=\"claude-code\" session=\"shop-1\" life=1 source=\"startup\"",
        "conversation compacted agent=\"claude-code\" session=\"shop-1\" compactions=1",
        "session suspended agent=\"claude-code\" session=\"shop-1\" reason=\"daemon_stop\"",
        "session resumed agent=\"claude-code\" session=\"shop-1\" suspended_for_ms=",
        "session ended agent=\"claude-code\" session=\"shop-1\" reason=\"logout\" duration_ms=",
    ] {
        assert_eq!(log.matches(expected).count(), 1, "{expected}: {log}");
    }
    assert!(!log.contains("heron"), "{log}");
}

/// The log names what happened and how long it took. It contains no text of the session.
#[test]
fn the_log_traces_events_and_queries_and_status_shows_latencies() {
    const CANARY: &str = "heliotrope-quokka-7741";
    let stage = Stage::new().variable("RECALL_LOG", "debug").daemon();
    let untouched = stage.json(["ctl", "status"]);
    assert_eq!(untouched["latency"]["hook_answers"], Value::Null, "{untouched}");
    let prompt = json!({"prompt": format!("What is {CANARY}?"), "prompt_id": "p1"});
    let prompt = stage.delivery(&stage.event("traced-session", "UserPromptSubmit", prompt));
    stage.deliver([&prompt]);
    let stop = json!({"last_assistant_message": format!("It is {CANARY}."), "prompt_id": "p1"});
    stage.hook(&stage.event("traced-session", "Stop", stop));
    stage.flush();
    assert_ne!(stage.json(["search", CANARY])["total"], 0, "it was heard");

    let log = stage.log();
    let id = format!("event{{id={}", prompt.event_id);
    let line = log.lines().find(|line| line.contains(&id) && line.contains("answered an event"));
    let line = line.unwrap_or_else(|| panic!("no line of {id}: {log}"));
    for part in ["agent=claude-code", "name=UserPromptSubmit", "session=traced-session", "reply=\"ack\""] {
        assert!(line.contains(part), "{part}: {line}");
    }
    let micros = |field: &str| -> u64 {
        let value = line.split(field).nth(1).unwrap_or_else(|| panic!("no {field} {line}"));
        value.split(|c: char| !c.is_ascii_digit()).next().unwrap().parse().unwrap()
    };
    let total = micros(" total_us=");
    for part in [" queue_us=", " commit_us=", " context_us="] {
        assert!(micros(part) <= total, "{part}: {line}");
    }
    let query =
        log.lines().find(|line| line.contains("name=\"Search\"") && line.contains("answered a query"));
    assert!(query.is_some_and(|line| line.contains("query{id=") && line.contains("total_us=")), "{log}");
    assert!(!log.contains(CANARY), "the log repeats it: {log}");

    let latency = &stage.json(["ctl", "status"])["latency"];
    for (kind, least) in [("hook_answers", 2), ("commits", 1)] {
        let quantiles = &latency[kind];
        assert!(quantiles["samples"].as_u64() >= Some(least), "{latency}");
        assert!(quantiles["p50_ms"].as_f64() > Some(0.0), "{latency}");
        assert!(quantiles["p50_ms"].as_f64() <= quantiles["p99_ms"].as_f64(), "{latency}");
    }
    let people = stage.recall(["ctl", "status"]).stdout;
    assert!(people.contains("hook answers p50 ") && people.contains("commits p50 "), "{people}");
}

#[test]
fn a_message_without_a_session_belongs_to_its_conversations_session() {
    let mut stage = Stage::new().daemon();
    let follower = Follower::start(&stage, &["--kinds", "message_received"]);
    let host = |name: &str, fields: Value| {
        let output = stage.hook_bytes(&["openclaw", name], fields.to_string().as_bytes());
        assert_eq!(output.code(), 0, "{output:?}");
    };
    let place = |conversation: &str| json!({"channelId": "telegram", "accountId": "shop-bot", "conversationId": conversation});
    let message = |text: &str, mut fields: Value| {
        fields["content"] = json!(text);
        host("message_received", fields);
    };
    let key = "agent:main:telegram:direct:4711";
    // No session belongs to that conversation yet.
    message("a", place("4711"));
    message("b", json!({"sessionKey": key}));
    host(
        "UserPromptSubmit",
        json!({"session_id": "chat", "session_key": key, "prompt": "Go", "channel": "telegram",
        "account": "shop-bot", "conversation": "4711"}),
    );
    message("c", place("4711"));
    message("d", json!({"ctx": place("4711")}));
    message("e", json!({"sessionKey": key, "senderName": "Ada", "threadId": 7, "messageId": "m1"}));
    // A program that knows no session id sends the key in its place.
    message("f", json!({"session_id": key, "session_key": key}));
    message("g", place("9"));
    host("SessionEnd", json!({"session_id": "chat", "session_key": key, "reason": "new"}));
    message("h", place("4711"));
    stage.flush();
    let sessions = stage.json(["ctl", "sessions"])["sessions"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 1, "{sessions}");
    assert_eq!(sessions[0]["status"], "completed", "a message begins no life: {sessions}");
    stage.stop_daemon();
    let (events, _) = follower.finish();
    let messages: Vec<(&str, &Value)> =
        events.iter().map(|event| (event["content"].as_str().unwrap(), &event["session_id"])).collect();
    let (none, chat) = (&Value::Null, &json!("chat"));
    let expected =
        [("a", none), ("b", none), ("Go", chat), ("c", chat), ("d", chat), ("e", chat), ("f", chat)];
    assert_eq!(messages, [&expected[..], &[("g", none), ("h", none)]].concat());
    let named = events.iter().find(|event| event["content"] == "e").unwrap();
    assert_eq!(
        (&named["sender_name"], &named["thread_id"], &named["message_id"]),
        (&json!("Ada"), &json!("7"), &json!("m1"))
    );
    assert_eq!(events[1]["session_key"], key);
}
