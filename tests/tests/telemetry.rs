//! Tests the traces and metrics that a collector receives.

use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};

use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::metrics::v1::metric::Data;
use opentelemetry_proto::tonic::metrics::v1::number_data_point;
use opentelemetry_proto::tonic::trace::v1::Span;
use opentelemetry_proto::tonic::trace::v1::status::StatusCode;
use prost::Message;
use recall_protocol::wire::{Deliver, Reply};
use recall_tests::provider::{Asked, Behaviour, Provider, TOKENS_IN, TOKENS_OUT, well};
use recall_tests::{DISCOUNT_ANSWER, DISCOUNT_PROMPT, Stage};
use serde_json::json;

/// Starts a collector that accepts everything.
fn collector() -> Provider {
    Provider::start(|_, _| taken())
}

fn taken() -> Behaviour {
    Behaviour::Raw { status: 200, headers: Vec::new(), body: Vec::new() }
}

fn config(collector: &Provider) -> String {
    format!("[telemetry]\notlp_endpoint = '{}'\n", collector.url())
}

fn spans(asked: &[Asked]) -> Vec<Span> {
    let traces = asked.iter().filter(|asked| asked.path == "/v1/traces");
    traces
        .flat_map(|asked| {
            assert_eq!(asked.header("content-type"), Some("application/x-protobuf"));
            let request = ExportTraceServiceRequest::decode(unpacked(asked).as_slice()).unwrap();
            request.resource_spans.into_iter().flat_map(|of| of.scope_spans).flat_map(|of| of.spans)
        })
        .collect()
}

/// Returns the body without compression, which another collector may have used.
fn unpacked(asked: &Asked) -> Vec<u8> {
    if asked.header("content-encoding") != Some("gzip") {
        return asked.bytes.clone();
    }
    let mut gzip =
        Command::new("gzip").arg("-dc").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    gzip.stdin.take().unwrap().write_all(&asked.bytes).unwrap();
    gzip.wait_with_output().unwrap().stdout
}

/// Waits until a span with each of these names has arrived.
#[track_caller]
fn wait_for(collector: &Provider, names: &[&str]) -> Vec<Span> {
    loop {
        let asked = collector.asked();
        let spans = spans(&asked);
        if names.iter().all(|name| spans.iter().any(|span| span.name == *name)) {
            return spans;
        }
        collector.wait_for(asked.len() + 1);
    }
}

#[track_caller]
fn named<'a>(spans: &'a [Span], name: &str) -> &'a Span {
    let found: Vec<_> = spans.iter().filter(|span| span.name == name).collect();
    assert_eq!(found.len(), 1, "{name}: {found:#?}");
    found[0]
}

fn attribute_of<'a>(span: &'a Span, key: &str) -> Option<&'a Value> {
    let found = span.attributes.iter().find(|attribute| attribute.key == key);
    found.and_then(|attribute| attribute.value.as_ref()?.value.as_ref())
}

fn text(text: &str) -> Value {
    Value::StringValue(text.to_owned())
}

#[test]
fn a_session_is_one_trace_without_its_content() {
    let (collector, model) = (collector(), Provider::start(well));
    let prices = "usd_per_mtok_in = 1.0\nusd_per_mtok_out = 5.0";
    let stage = Stage::new().config(&(config(&collector) + &model.config("openai", prices))).daemon();
    stage.hook(&stage.event("s", "SessionStart", json!({"source": "startup"})));
    let prompt = json!({"prompt": DISCOUNT_PROMPT, "prompt_id": "p1"});
    stage.hook(&stage.event("s", "UserPromptSubmit", prompt));
    for (number, mut call) in stage.discount_calls().into_iter().enumerate() {
        call["tool_use_id"] = json!(format!("toolu_{number}"));
        call["prompt_id"] = json!("p1");
        stage.hook(&stage.event("s", "PostToolUse", call));
    }
    let stop = json!({"last_assistant_message": DISCOUNT_ANSWER, "prompt_id": "p1"});
    stage.hook(&stage.event("s", "Stop", stop));
    stage.hook(&stage.event("s", "UserPromptSubmit", json!({"prompt": "run the tests", "prompt_id": "p2"})));
    let call = json!({"tool_name": "Bash", "tool_use_id": "toolu_9", "prompt_id": "p2", "duration_ms": 120,
        "tool_input": {"command": "cargo test very_private_name"}, "error": "exit code 101: very_private_output"});
    stage.hook(&stage.event("s", "PostToolUseFailure", call));
    stage.hook(&stage.event("s", "Stop", json!({"prompt_id": "p2", "last_assistant_message": "They fail."})));
    stage.hook(&stage.event("s", "SessionEnd", json!({"reason": "logout"})));
    stage.flush();
    let names = [
        "session claude-code",
        "invoke_agent claude-code",
        "execute_tool Bash",
        "compress batch",
        "compress summary",
        "chat mock",
    ];
    let spans = wait_for(&collector, &names);
    let summaries = |spans: &[Span]| spans.iter().filter(|span| span.name == "compress summary").count();
    assert_eq!(summaries(&spans), 1, "a summary is made after each turn, and told once");
    let session = named(&spans, "session claude-code");
    assert!(session.parent_span_id.is_empty());
    assert_eq!(attribute_of(session, "recall.session.end_reason"), Some(&text("logout")));
    let failed = spans
        .iter()
        .find(|span| attribute_of(span, "gen_ai.tool.call.id") == Some(&text("toolu_9")))
        .unwrap();
    assert_eq!(failed.end_time_unix_nano - failed.start_time_unix_nano, 120_000_000);
    assert_eq!(failed.status.as_ref().unwrap().code, StatusCode::Error as i32);
    assert_eq!(attribute_of(failed, "error.type"), Some(&text("failed")));
    let parent = |span: &Span| {
        spans.iter().find(|other| other.span_id == span.parent_span_id).map(|parent| parent.name.clone())
    };
    for (child, expected) in [
        ("invoke_agent", "session claude-code"),
        ("execute_tool", "invoke_agent claude-code"),
        ("compress batch", "invoke_agent claude-code"),
    ] {
        for span in spans.iter().filter(|span| span.name.starts_with(child)) {
            assert_eq!(parent(span).as_deref(), Some(expected), "{}", span.name);
            assert!(span.start_time_unix_nano <= span.end_time_unix_nano);
        }
    }
    let asked = spans.iter().find(|span| span.name == "chat mock").unwrap();
    assert_eq!(attribute_of(asked, "gen_ai.usage.input_tokens"), Some(&Value::IntValue(TOKENS_IN as i64)));
    assert_eq!(attribute_of(asked, "gen_ai.usage.output_tokens"), Some(&Value::IntValue(TOKENS_OUT as i64)));
    let dollars = (TOKENS_IN as f64 + 5.0 * TOKENS_OUT as f64) / 1e6;
    assert_eq!(attribute_of(asked, "recall.cost.usd"), Some(&Value::DoubleValue(dollars)));
    assert!(spans.iter().all(|span| span.trace_id == session.trace_id));
    for asked in collector.asked() {
        let sent = String::from_utf8_lossy(&asked.bytes).into_owned();
        for content in
            [DISCOUNT_PROMPT, DISCOUNT_ANSWER, "run the tests", "They fail", "very_private", "cart"]
        {
            assert!(!sent.contains(content), "{content:?} was sent to {}", asked.path);
        }
    }
}

fn of_call<'a>(spans: &'a [Span], id: &str) -> &'a Span {
    let found: Vec<_> =
        spans.iter().filter(|span| attribute_of(span, "gen_ai.tool.call.id") == Some(&text(id))).collect();
    assert_eq!(found.len(), 1, "{id}: {found:?}");
    found[0]
}

fn nanoseconds(span: &Span) -> u64 {
    span.end_time_unix_nano - span.start_time_unix_nano
}

/// Delivers events that were captured a given number of milliseconds after the first one.
struct Recording<'a> {
    stage: &'a Stage,
    began: i64,
}

impl<'a> Recording<'a> {
    fn of(stage: &'a Stage) -> Self {
        Self { stage, began: stage.delivery(&json!({})).captured_at_ms - 100_000 }
    }

    #[track_caller]
    fn at(&self, ms: i64, event: &str, mut fields: serde_json::Value) {
        fields["prompt_id"] = json!("p1");
        let delivery = self.stage.delivery(&self.stage.event("s", event, fields));
        let answers = self.stage.deliver([&Deliver { captured_at_ms: self.began + ms, ..delivery }]);
        assert!(matches!(answers[..], [Reply::Ack { .. }]), "{answers:?}");
    }
}

/// Delivers a turn with calls that end well, fail, are refused, never end, or end after the turn.
fn calls_of_every_end(stage: &Stage) {
    let recording = Recording::of(stage);
    let at = |ms, event, fields| recording.at(ms, event, fields);
    let call = |id: &str| json!({"tool_name": "Bash", "tool_use_id": id, "tool_input": {"command": "make"}});
    let with = |mut fields: serde_json::Value, key: &str, value: serde_json::Value| {
        fields[key] = value;
        fields
    };
    let of_helper = |id: &str| with(call(id), "agent_id", json!("helper"));
    at(0, "UserPromptSubmit", json!({"prompt": "make it"}));
    at(1_000, "PreToolUse", call("well"));
    at(1_500, "PreToolUse", call("failing"));
    at(1_600, "PreToolUse", call("refused"));
    at(1_700, "PreToolUse", call("endless"));
    at(1_800, "PreToolUse", of_helper("behind"));
    at(1_900, "PreToolUse", of_helper("lost"));
    // The duration that the agent reports does not include the time that the user took to decide.
    let result = with(call("well"), "tool_response", json!("made"));
    at(3_500, "PostToolUse", with(result, "duration_ms", json!(200)));
    at(3_600, "PostToolUseFailure", with(call("failing"), "error", json!("exit code 2")));
    let settled = ["well", "failing", "refused"].map(call);
    at(3_700, "PostToolBatch", json!({"tool_calls": settled}));
    at(5_000, "Stop", json!({"last_assistant_message": "Made."}));
    at(6_000, "PostToolUse", with(of_helper("behind"), "tool_response", json!("made")));
    at(9_000, "SessionEnd", json!({"reason": "other"}));
}

/// Checks the spans of the calls in `calls_of_every_end`.
fn check_calls(spans: &[Span]) {
    let turn = named(spans, "invoke_agent claude-code");
    for (id, ms, end) in [
        ("well", 2_500, None),
        ("failing", 2_100, Some("failed")),
        ("refused", 2_100, Some("refused")),
        ("endless", 3_300, Some("no_result")),
        ("behind", 4_200, None),
        ("lost", 7_100, Some("no_result")),
    ] {
        let span = of_call(spans, id);
        assert_eq!(nanoseconds(span), ms * 1_000_000, "{id}");
        assert_eq!(attribute_of(span, "error.type"), end.map(text).as_ref(), "{id}");
        assert_eq!(span.parent_span_id, turn.span_id, "{id}");
        assert_eq!(span.trace_id, turn.trace_id, "{id}");
    }
    assert_eq!(attribute_of(of_call(spans, "well"), "recall.tool.duration_ms"), Some(&Value::IntValue(200)));
}

#[test]
fn the_span_of_a_tool_call_ends_with_the_call_its_turn_or_its_session() {
    let collector = collector();
    let stage = Stage::new().config(&config(&collector)).daemon();
    calls_of_every_end(&stage);
    stage.flush();
    check_calls(&wait_for(&collector, &["session claude-code", "invoke_agent claude-code"]));
}

#[test]
fn the_span_of_a_tool_call_survives_a_restart_of_the_daemon() {
    let collector = collector();
    let mut stage = Stage::new().config(&config(&collector)).daemon();
    let began = Recording::of(&stage).began;
    let mut call = json!({"tool_name": "Bash", "tool_use_id": "long", "tool_input": {"command": "make"}});
    let recording = Recording { stage: &stage, began };
    recording.at(0, "UserPromptSubmit", json!({"prompt": "make it"}));
    recording.at(1_000, "PreToolUse", call.clone());
    assert!(stage.stop_daemon().success());
    stage.start_daemon();
    call["tool_response"] = json!("made");
    let recording = Recording { stage: &stage, began };
    recording.at(61_000, "PostToolUse", call);
    recording.at(62_000, "Stop", json!({}));
    stage.flush();
    let spans = wait_for(&collector, &["execute_tool Bash"]);
    assert_eq!(nanoseconds(of_call(&spans, "long")), 60_000_000_000);
}

#[test]
fn the_span_of_a_refused_call_ends_at_once_and_names_the_guards_rule() {
    let collector = collector();
    let guards = "[guards]\nreads = 'deny'\nwrites = 'ask'\n";
    let stage = Stage::new().config(&(config(&collector) + guards)).daemon();
    let send = |agent: &str, event: &str, fields: serde_json::Value| {
        let delivery = stage.delivery(&stage.event(&format!("of-{agent}"), event, fields));
        let answers = stage.deliver([&Deliver { agent: agent.to_owned(), ..delivery }]);
        assert!(matches!(answers[..], [Reply::Ack { .. } | Reply::Unsaved { .. }]), "{answers:?}");
    };
    // After a refusal Codex reports nothing more about the call. It cannot ask the user, so a write is refused as
    // well.
    send("codex", "UserPromptSubmit", json!({"prompt": "show it", "turn_id": "t1"}));
    let call = |id: &str, command: &str| {
        json!({"tool_name": "Bash", "tool_use_id": id, "turn_id": "t1",
        "tool_input": {"command": command}})
    };
    send("codex", "PreToolUse", call("codex-read", "cat .env"));
    send("codex", "PreToolUse", call("codex-write", "rm -rf .git"));
    send("codex", "PreToolUse", call("codex-lost", "make"));
    send("codex", "Stop", json!({"turn_id": "t1", "last_assistant_message": "It was refused."}));
    // Gemini reports nothing more either, and it gives calls no ids.
    send("gemini-cli", "BeforeAgent", json!({"prompt": "show it"}));
    let read = json!({"tool_name": "read_file", "tool_input": {"file_path": ".env"}});
    send("gemini-cli", "BeforeTool", read);
    send("gemini-cli", "AfterAgent", json!({"prompt": "show it", "prompt_response": "It was refused."}));
    // Claude Code reports how each call of a step ended.
    let turn = |mut fields: serde_json::Value| {
        fields["prompt_id"] = json!("p1");
        fields
    };
    let read =
        json!({"tool_name": "Read", "tool_use_id": "claude-read", "tool_input": {"file_path": ".env"}});
    send("claude-code", "UserPromptSubmit", turn(json!({"prompt": "show it"})));
    send("claude-code", "PreToolUse", turn(read.clone()));
    send("claude-code", "PostToolBatch", turn(json!({"tool_calls": [read]})));
    send("claude-code", "Stop", turn(json!({"last_assistant_message": "It was refused."})));
    stage.flush();
    let names =
        ["invoke_agent codex", "execute_tool read_file", "invoke_agent claude-code", "execute_tool Bash"];
    let spans = wait_for(&collector, &names);
    for (id, end, rule) in [
        ("codex-read", "refused", Some("secrets")),
        ("codex-write", "refused", Some("git")),
        ("codex-lost", "no_result", None),
        ("claude-read", "refused", Some("secrets")),
    ] {
        let span = of_call(&spans, id);
        assert_eq!(attribute_of(span, "error.type"), Some(&text(end)), "{id}");
        assert_eq!(attribute_of(span, "recall.guard.rule"), rule.map(text).as_ref(), "{id}");
    }
    assert_eq!(nanoseconds(of_call(&spans, "codex-read")), 0);
    let session = stage.json(["ctl", "session", "of-claude-code"]);
    assert_eq!(session["batches"][0]["activities"][0]["refused_by"], "secrets", "{session}");
    let of_gemini = named(&spans, "execute_tool read_file");
    assert_eq!(attribute_of(of_gemini, "error.type"), Some(&text("refused")));
    assert_eq!(attribute_of(of_gemini, "recall.guard.rule"), Some(&text("secrets")));
    let turn = spans.iter().find(|span| span.name == "invoke_agent gemini-cli").unwrap();
    assert_eq!(of_gemini.parent_span_id, turn.span_id);
    for asked in collector.asked() {
        assert!(!String::from_utf8_lossy(&asked.bytes).contains(".env"), "no path is told");
    }
}

#[test]
fn a_call_of_a_skipped_tool_has_a_span_without_content() {
    let collector = collector();
    let stage = Stage::new().config(&config(&collector)).daemon();
    let recording = Recording::of(&stage);
    let at = |ms, event, fields| recording.at(ms, event, fields);
    let call = |id: &str| json!({"tool_name": "Skill", "tool_use_id": id, "tool_input": {"skill": "very_private_name"}});
    let ended = |id: &str, key: &str| {
        let mut call = call(id);
        call[key] = json!("very_private_output");
        call
    };
    at(0, "UserPromptSubmit", json!({"prompt": "do it"}));
    for id in ["well", "failing", "refused", "endless"] {
        at(1_000, "PreToolUse", call(id));
    }
    at(1_500, "PostToolUse", ended("well", "tool_response"));
    at(2_000, "PostToolUseFailure", ended("failing", "error"));
    let settled = ["well", "failing", "refused"].map(call);
    at(2_500, "PostToolBatch", json!({"tool_calls": settled}));
    at(5_000, "Stop", json!({"last_assistant_message": "Done."}));
    stage.flush();
    let spans = wait_for(&collector, &["invoke_agent claude-code", "execute_tool Skill"]);
    let turn = named(&spans, "invoke_agent claude-code");
    for (id, ms, end) in [
        ("well", 500, None),
        ("failing", 1_000, Some("failed")),
        ("refused", 1_500, Some("refused")),
        ("endless", 4_000, Some("no_result")),
    ] {
        let span = of_call(&spans, id);
        assert_eq!((nanoseconds(span), &span.parent_span_id), (ms * 1_000_000, &turn.span_id), "{id}");
        assert_eq!(attribute_of(span, "error.type"), end.map(text).as_ref(), "{id}");
    }
    for asked in collector.asked() {
        assert!(!String::from_utf8_lossy(&asked.bytes).contains("very_private"), "no content is told");
    }
}

#[test]
fn a_session_that_is_deleted_before_it_ends_leaves_no_open_span() {
    const HOUR: i64 = 60 * 60 * 1000;
    let collector = collector();
    // With these timers silence ends no turn and no session, whenever the daemon first checks its sessions.
    let timers = "[timers]\nbatch_idle_s = 86_400\nsession_idle_s = 86_400\n";
    let stage = Stage::new().config(&(config(&collector) + timers)).daemon();
    let recording = Recording { stage: &stage, began: stage.delivery(&json!({})).captured_at_ms - 12 * HOUR };
    let call = |id: &str| json!({"tool_name": "Bash", "tool_use_id": id, "tool_input": {"command": "make"}});
    recording.at(0, "UserPromptSubmit", json!({"prompt": "make it"}));
    recording.at(1_000, "PreToolUse", call("done"));
    let mut done = call("done");
    done["tool_response"] = json!("made");
    recording.at(2_000, "PostToolUse", done);
    recording.at(3_000, "PreToolUse", call("running"));
    stage.flush();
    assert_eq!(stage.recall(["ctl", "prune", "--older-than", "6h", "--yes"]).code(), 0);
    let spans = wait_for(&collector, &["session claude-code"]);
    let (life, turn) = (named(&spans, "session claude-code"), named(&spans, "invoke_agent claude-code"));
    assert_eq!(attribute_of(life, "recall.session.end_reason"), Some(&text("retention")));
    assert_eq!((&turn.parent_span_id, nanoseconds(life)), (&life.span_id, 3_000_000_000));
    for (id, end) in [("done", None), ("running", Some("no_result"))] {
        let span = of_call(&spans, id);
        assert_eq!(
            (attribute_of(span, "error.type"), &span.parent_span_id),
            (end.map(text).as_ref(), &turn.span_id),
            "{id}"
        );
    }
}

/// A program that is killed when the test ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `RECALL_COLLECTOR` names a collector of another project (`rotel-agent`). It accepts what recall sends, and passes
/// it on to our collector.
#[test]
fn a_third_party_collector_accepts_and_forwards_all_spans() {
    let Some(program) = std::env::var_os("RECALL_COLLECTOR") else { return };
    let behind = collector();
    let ports = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [http, grpc] = ports.each_ref().map(|port| port.local_addr().unwrap().to_string());
    drop(ports);
    let mut command = Command::new(program);
    command.args([
        "start",
        "--otlp-http-endpoint",
        &http,
        "--otlp-grpc-endpoint",
        &grpc,
        "--batch-timeout",
        "100ms",
    ]);
    command.args([
        "--exporter",
        "otlp",
        "--otlp-exporter-endpoint",
        &behind.url(),
        "--otlp-exporter-protocol",
        "http",
    ]);
    let _between = Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    while TcpStream::connect(&http).is_err() {}
    let stage = Stage::new().config(&format!("[telemetry]\notlp_endpoint = 'http://{http}'\n")).daemon();
    calls_of_every_end(&stage);
    stage.flush();
    let spans = wait_for(
        &behind,
        &["session claude-code", "invoke_agent claude-code", "execute_tool Bash", "compress batch"],
    );
    check_calls(&spans);
    let session = named(&spans, "session claude-code");
    assert_eq!(attribute_of(session, "gen_ai.conversation.id"), Some(&text("s")));
    assert!(spans.iter().all(|span| span.trace_id == session.trace_id), "nothing is lost on the way");
    let status = &stage.json(["ctl", "status"])["telemetry"];
    assert_eq!((&status["dropped"], &status["failures"]), (&json!(0), &json!(0)), "{status}");
}

#[test]
fn a_private_turn_leaves_no_span() {
    let collector = collector();
    let stage = Stage::new().config(&config(&collector)).daemon();
    for (prompt, tool) in [("<private>what I earn</private>", "Grep"), ("list the files", "Glob")] {
        stage.hook(&stage.event("s", "UserPromptSubmit", json!({"prompt": prompt, "prompt_id": tool})));
        let call = json!({"tool_name": tool, "tool_use_id": tool, "prompt_id": tool, "tool_input": {"pattern": "x"},
            "tool_response": "x"});
        stage.hook(&stage.event("s", "PostToolUse", call));
        stage.hook(&stage.event("s", "Stop", json!({"prompt_id": tool})));
    }
    stage.flush();
    let spans = wait_for(&collector, &["execute_tool Glob"]);
    assert!(spans.iter().all(|span| span.name != "execute_tool Grep"), "{spans:?}");
    assert_eq!(spans.iter().filter(|span| span.name == "invoke_agent claude-code").count(), 1);
}

#[test]
fn the_daemons_metrics_are_exported() {
    let collector = collector();
    let stage = Stage::new().config(&config(&collector)).daemon();
    let _ = stage.json(["ctl", "status"]);
    let measured = loop {
        let asked = collector.asked();
        if let Some(measured) = asked.iter().find(|asked| asked.path == "/v1/metrics") {
            break ExportMetricsServiceRequest::decode(measured.bytes.as_slice()).unwrap();
        }
        collector.wait_for(asked.len() + 1);
    };
    let metrics = &measured.resource_metrics[0].scope_metrics[0].metrics;
    let of = |name: &str| metrics.iter().find(|metric| metric.name == name).unwrap();
    assert_eq!(of("recall.uptime").unit, "s");
    let Some(Data::Gauge(memory)) = &of("recall.resident_memory").data else { panic!("no gauge") };
    let Some(number_data_point::Value::AsDouble(bytes)) = memory.data_points[0].value else {
        panic!("no value")
    };
    assert!(bytes > 1e6, "{bytes}");
    let Some(Data::Sum(lost)) = &of("recall.events_lost").data else { panic!("no sum") };
    assert!(lost.is_monotonic && lost.data_points[0].start_time_unix_nano > 0);
}

#[test]
fn spans_that_a_collector_refused_are_sent_again() {
    let traces = AtomicU64::new(0);
    let collector = Provider::start(move |asked, _| match asked.path.as_str() {
        "/v1/traces" if traces.fetch_add(1, Ordering::SeqCst) == 0 => Behaviour::Status(503),
        _ => taken(),
    });
    let stage = Stage::new().config(&config(&collector)).daemon();
    stage.discount_session("s");
    stage.flush();
    let name = "invoke_agent claude-code";
    let again = loop {
        let asked = collector.asked();
        let traces: Vec<_> = asked.iter().filter(|asked| asked.path == "/v1/traces").cloned().collect();
        if let [_, again, ..] = &traces[..] {
            break spans(std::slice::from_ref(again));
        }
        collector.wait_for(asked.len() + 1);
    };
    assert!(again.iter().any(|span| span.name == name), "what was not taken comes again");
    let telemetry = &stage.json(["ctl", "status"])["telemetry"];
    assert!(telemetry["failures"].as_u64().unwrap() > 0, "{telemetry}");
    assert_eq!(telemetry["last_failure"], "the collector responded with 503");
    assert_eq!(telemetry["dropped"], 0);
    let output = stage.recall(["status"]).stdout;
    assert!(output.contains(&format!("telemetry    {}", collector.url())), "{output}");
    assert!(output.contains("the collector responded with 503"), "{output}");
}

#[test]
fn a_collector_that_does_not_respond_blocks_nothing() {
    let collector = Provider::start(|_, _| Behaviour::Silence);
    let mut stage = Stage::new().config(&config(&collector)).daemon();
    stage.discount_session("s");
    stage.flush();
    assert!(stage.json(["ctl", "status"])["observations"].as_u64().unwrap() > 0);
    assert!(stage.stop_daemon().success());
}
