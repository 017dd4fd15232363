//! Tests the gateway over its real socket: events that are reported over HTTP are stored like those of hooks, and
//! unauthorized calls are refused.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::time::{Duration, Instant};

use recall_tests::screen::Screen;
use recall_tests::{DISCOUNT_ANSWER, DISCOUNT_PROMPT, Stage, masked};
use serde_json::{Value, json};

/// An answer of the gateway.
struct Answer {
    status: u16,
    head: String,
    body: String,
}

impl Answer {
    #[track_caller]
    fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {:?}", self.body))
    }

    fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value).next()
    }
}

/// A program that knows the note.
struct Gateway {
    address: String,
    token: String,
}

impl Gateway {
    fn of(stage: &Stage) -> Self {
        let path = stage.home().join("run/gateway.json");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let note: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
        let address = note["url"].as_str().unwrap().strip_prefix("http://").unwrap().to_owned();
        Self { address, token: note["token"].as_str().unwrap().to_owned() }
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(&self.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream
    }

    /// Sends exactly these bytes.
    fn send(&self, request: &[u8]) -> Answer {
        let mut stream = self.connect();
        // The gateway may refuse the request before its end.
        let _ = stream.write_all(request);
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer).into_owned();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        Answer { status, head: head.to_owned(), body: body.to_owned() }
    }

    fn request(&self, method: &str, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = format!("{method} {path} HTTP/1.1\r\nContent-Length: {}\r\n", body.len());
        if !headers.iter().any(|(name, _)| *name == "Host") {
            request.push_str(&format!("Host: {}\r\n", self.address));
        }
        for (name, value) in headers {
            request.push_str(&format!("{name}: {value}\r\n"));
        }
        self.send(format!("{request}\r\n{body}").as_bytes())
    }

    fn bearer(&self) -> String {
        format!("Bearer {}", self.token)
    }

    #[track_caller]
    fn get(&self, path: &str) -> Value {
        let answer = self.request("GET", path, &[("Authorization", &self.bearer())], "");
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }

    #[track_caller]
    fn post(&self, path: &str, body: &Value) -> Value {
        let answer = self.request("POST", path, &[("Authorization", &self.bearer())], &body.to_string());
        assert_eq!(answer.status, 200, "{path}: {}", answer.body);
        answer.json()
    }
}

fn open() -> (Stage, Gateway) {
    let stage = Stage::new().config("[gateway]\nenabled = true\n").daemon();
    // The daemon answers questions once the gateway is open.
    stage.json(["ctl", "status"]);
    let gateway = Gateway::of(&stage);
    (stage, gateway)
}

/// Reports the session that [`Stage::discount_session`] reports by hooks, but as an extension does.
fn report_session(stage: &Stage, gateway: &Gateway, id: &str) {
    let cwd = stage.project();
    let started =
        gateway.post("/api/context/inject", &json!({"session_id": id, "cwd": cwd, "source": "startup"}));
    assert_eq!(started["status"], "ok");
    let prompt = format!("{id}-p1");
    let init = gateway.post(
        "/api/sessions/init",
        &json!({"claudeSessionId": id, "project": "shop", "cwd": cwd, "prompt": DISCOUNT_PROMPT, "prompt_id": prompt}),
    );
    assert_eq!(init["promptNumber"], 1, "{init}");
    for (number, call) in stage.discount_calls().into_iter().enumerate() {
        let mut body = call;
        body["claudeSessionId"] = json!(id);
        body["cwd"] = json!(cwd);
        body["tool_use_id"] = json!(format!("{id}-t{number}"));
        body["prompt_id"] = json!(prompt);
        gateway.post("/api/sessions/observations", &body);
    }
    // This call uses the number that `init` returned.
    gateway.post(
        &format!("/sessions/{}/summarize", init["sessionDbId"]),
        &json!({"last_user_message": DISCOUNT_PROMPT, "last_assistant_message": DISCOUNT_ANSWER, "prompt_id": prompt}),
    );
    gateway.post("/api/sessions/complete", &json!({"claudeSessionId": id, "reason": "other"}));
}

#[test]
fn a_session_reported_over_http_is_stored_like_one_from_hooks() {
    let by_hooks = Stage::new().daemon();
    by_hooks.discount_session("first");
    by_hooks.flush();
    let (by_http, gateway) = open();
    report_session(&by_http, &gateway, "first");
    by_http.flush();
    let stored = |stage: &Stage| masked(&stage.json(["ctl", "session", "first"]), stage);
    assert_eq!(stored(&by_http), stored(&by_hooks));
    assert_eq!(masked(&gateway.get("/api/sessions/first"), &by_http), stored(&by_hooks), "and told so");

    let found = gateway.get("/api/search?query=cart+rounding");
    let id = &found["results"][0]["id"];
    assert_eq!(gateway.get(&format!("/api/items/{id}"))["items"][0]["id"], *id);
    assert!(gateway.get("/api/search/observations?query=cart")["total"].as_u64() > Some(0));
    assert!(gateway.get("/api/search/by-file?filePath=cart.rs")["total"].as_u64() > Some(0));
    assert_eq!(gateway.get("/api/search/prompts?query=discount")["results"][0]["kind"], "prompt");
    assert_eq!(gateway.get("/api/sessions")["sessions"][0]["session_id"], "first");
    assert!(!gateway.get("/api/timeline?anchor=first")["items"].as_array().unwrap().is_empty());
    assert!(gateway.get("/api/stats")["spending"].is_array());
    assert_eq!(gateway.get("/api/processing"), json!({"isProcessing": false, "queueDepth": 0}));
    let path = format!("/api/context/inject?cwd={}", by_http.project().display());
    let context = gateway.request("GET", &path, &[("Authorization", &gateway.bearer())], "");
    assert!(context.body.contains("cart"), "{}", context.body);
    let started = gateway.post(
        "/api/context/inject",
        &json!({"session_id": "second", "cwd": by_http.project(), "source": "startup"}),
    );
    assert!(started["context"].as_str().unwrap().contains("cart"), "{started}");
    by_http.flush();
    assert_eq!(gateway.get("/api/why/second")["injections"][0]["moment"], "start");

    let id = id.as_i64().unwrap();
    let marked = gateway.post("/api/mark", &json!({"ids": [id], "validity": "resolved"}));
    assert_eq!(marked["items"][0]["status"], "resolved");
    let seen = gateway.post("/api/forget", &json!({"ids": [id]}));
    assert_eq!(seen["items"][0]["id"], id, "{seen}");
    // A program has no current folder, so it must name a project or ask for all of them.
    let words = json!({"words": ["cart"]});
    let bearer = [("Authorization", gateway.bearer())];
    let bearer: Vec<(&str, &str)> = bearer.iter().map(|(name, value)| (*name, value.as_str())).collect();
    let refused = gateway.request("POST", "/api/forget", &bearer, &words.to_string());
    assert!(refused.status == 400 && refused.body.contains("No project is named"), "{}", refused.body);
    for scope in [json!({"project": "shop"}), json!({"all": true})] {
        let mut body = words.clone();
        body.as_object_mut().unwrap().extend(scope.as_object().unwrap().clone());
        assert!(gateway.post("/api/forget", &body)["prompts"].as_u64() > Some(0));
    }
    gateway.post("/api/forget", &json!({"ids": [id], "step": "forget"}));
    let gone =
        gateway.request("GET", &format!("/api/items/{id}"), &[("Authorization", &gateway.bearer())], "");
    assert_eq!((gone.status, &gone.json()["error"]["kind"]), (404, &json!("not_found")));
}

#[test]
fn days_entries_projects_and_threads_are_listed_over_http() {
    let (stage, gateway) = open();
    stage.discount_session("first");
    stage.flush();
    for text in ["Anna owns billing", "Anna owns the shipping"] {
        gateway.post("/api/remember", &json!({"text": text, "type": "contact", "project": "shop"}));
    }
    let days = gateway.get("/api/days");
    let day = &days["days"][0];
    assert_eq!((&day["prompts"], &day["sessions"]), (&json!(1), &json!(1)), "{days}");
    let count = day["observations"].as_u64().unwrap();
    let (since, until) = (day["since"].as_str().unwrap(), day["until"].as_str().unwrap());
    let of_day =
        gateway.get(&format!("/api/entries?since={since}&until={until}&kinds=observation&limit=100"));
    let of_day = of_day["entries"].as_array().unwrap();
    assert_eq!(of_day.len() as u64, count);
    assert_eq!(of_day[0]["title"], "Anna owns the shipping", "the newest first");
    let next = gateway.get("/api/entries?kinds=observation&types=contact&skip=1&limit=1");
    assert_eq!(next["entries"][0]["title"], "Anna owns billing", "{next}");
    assert_eq!(gateway.get("/api/days?types=contact&kinds=observation")["days"][0]["observations"], 2);
    assert_eq!(gateway.get(&format!("/api/entries?until={since}"))["entries"], json!([]));
    let projects = gateway.get("/api/projects");
    assert_eq!(projects["projects"][0]["name"], "shop", "{projects}");
    assert_eq!(projects["projects"][0]["observations"], count);
    assert_eq!(gateway.get("/api/threads"), json!({"threads": [], "total": 0}));
    let id = &of_day[0]["id"];
    gateway.post("/api/mark", &json!({"ids": [id], "validity": "resolved"}));
    let threads = gateway.get(&format!("/api/threads?of={id}&project=shop"));
    let statement = &threads["threads"][0]["statements"][0];
    assert_eq!(
        (&statement["status"], &statement["reason"]),
        (&json!("resolved"), &json!("manually")),
        "{threads}"
    );
    for (path, status) in [
        ("/api/days?kinds=activity", 400),
        ("/api/entries?types=nonsense", 400),
        ("/api/threads?of=p1", 400),
        ("/api/days?project=unheard-of", 404),
    ] {
        let answer = gateway.request("GET", path, &[("Authorization", &gateway.bearer())], "");
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
    }
}

#[test]
fn unreviewed_items_are_listed_and_can_be_rejected_or_kept() {
    let (stage, gateway) = open();
    stage.discount_session("first");
    stage.flush();
    gateway
        .post("/api/remember", &json!({"text": "Anna owns billing", "type": "contact", "project": "shop"}));
    let waiting = || gateway.get("/api/review?project=shop&limit=100");
    let listed = waiting();
    let ids: Vec<&Value> = listed["entries"].as_array().unwrap().iter().map(|entry| &entry["id"]).collect();
    assert!(!ids.is_empty() && listed["waiting"] == ids.len(), "{listed}");
    let reviewed = gateway.post("/api/review", &json!({"ids": ids, "verdict": "rejected"}));
    assert!(reviewed["items"].as_array().unwrap().iter().all(|item| item["rejected"] == true), "{reviewed}");
    let nothing = json!({"entries": [], "waiting": 0, "quarantined": [], "quarantined_in_all": 0});
    assert_eq!(waiting(), nothing);
    let reviewed = gateway.post("/api/review", &json!({"ids": [ids[0]], "verdict": "kept"}));
    assert_eq!(
        (&reviewed["items"][0]["status"], &reviewed["items"][0]["reviewed"]),
        (&json!("active"), &json!(true))
    );
    assert_eq!(gateway.get("/api/friction?project=shop&since=30d")["items"], json!([]));
    for (path, status) in [("/api/review?project=unheard-of", 404), ("/api/review?since=nonsense", 400)] {
        let answer = gateway.request("GET", path, &[("Authorization", &gateway.bearer())], "");
        assert_eq!(answer.status, status, "{path}: {}", answer.body);
    }
}

#[test]
fn context_to_inject_is_returned_over_http_and_recorded() {
    let (stage, gateway) = open();
    stage.discount_session("first");
    stage.flush();
    let by_name = gateway.request(
        "GET",
        "/api/context/inject?project=shop",
        &[("Authorization", &gateway.bearer())],
        "",
    );
    assert!(by_name.status == 200 && by_name.body.contains("cart"), "{}", by_name.body);
    let unknown = gateway.request(
        "GET",
        "/api/context/inject?project=other",
        &[("Authorization", &gateway.bearer())],
        "",
    );
    assert_eq!((unknown.status, unknown.body.as_str()), (200, ""), "callers inject what is answered");
    let body = json!({"session_id": "second", "cwd": stage.project(), "prompt": "How is the cart total rounded with a discount?"});
    let init = gateway.post("/api/sessions/init", &body);
    stage.flush();
    let recorded = gateway.get("/api/why/second");
    let given = init["context"].as_str().unwrap();
    assert!(given.contains("cart"), "{init} {recorded}");
    assert!(!recorded["injections"].as_array().unwrap().is_empty(), "{recorded}");
}

/// The gateway accepts the bodies of clients that were written for other workers.
#[test]
fn clients_of_other_workers_need_not_repeat_the_folder() {
    let (stage, gateway) = open();
    let init = gateway.post(
        "/sessions/init",
        &json!({"sessionId": "c1", "project": "shop", "cwd": stage.project(), "userPrompt": "Paint the cart red", "promptNumber": 1}),
    );
    let next = json!({"project": "shop", "userPrompt": "Now paint it blue", "promptNumber": 2});
    for path in [format!("/sessions/{}/init", init["sessionDbId"]), "/sessions/c1/init".to_owned()] {
        let again = gateway.post(&path, &next);
        assert_eq!(again["sessionDbId"], init["sessionDbId"], "{again}");
    }
    gateway.post(
        "/api/sessions/observations",
        &json!({"sessionId": "c1", "tool_name": "Bash", "tool_input": {"command": "ls"}}),
    );
    gateway.post("/api/sessions/complete", &json!({"claudeSessionId": "c1", "reason": "exit"}));
    stage.flush();
    let stored = gateway.get("/api/sessions/c1");
    assert_eq!((&stored["project"], &stored["status"]), (&json!("shop"), &json!("completed")), "{stored}");
    assert_eq!(stored["batches"].as_array().map(Vec::len), Some(3), "{stored}");

    let refused = |path: &str, body: Value| {
        gateway.request("POST", path, &[("Authorization", &gateway.bearer())], &body.to_string()).status
    };
    assert_eq!(refused("/api/sessions/complete", json!({"sessionId": "unheard-of"})), 404);
    assert_eq!(
        refused("/api/sessions/observations", json!({"sessionId": "unheard-of", "tool_name": "Bash"})),
        404
    );
    assert_eq!(refused("/api/sessions/summarize", json!({"sessionId": "unheard-of"})), 404);
    assert_eq!(refused("/sessions/init", json!({"sessionId": "unheard-of", "prompt": "Go"})), 400);
    stage.flush();
    assert_eq!(gateway.get("/api/sessions")["total"], 1, "no session of an unknown folder");
}

#[test]
fn only_pages_of_configured_origins_may_call_the_gateway() {
    let stage = Stage::new()
        .config("[gateway]\nenabled = true\norigins = ['https://editor.example', 'vscode-webview://abc1', 'http://10.0.0.1', 'https://x/y']\n")
        .daemon();
    stage.json(["ctl", "status"]);
    let gateway = Gateway::of(&stage);
    let bearer = gateway.bearer();
    let call = |method: &str, origin: &str, headers: &[(&str, &str)]| {
        gateway.request(method, "/api/status", &[headers, &[("Origin", origin)]].concat(), "")
    };
    for origin in ["https://editor.example", "vscode-webview://abc1"] {
        let asked = call("OPTIONS", origin, &[("Access-Control-Request-Method", "GET")]);
        assert_eq!((asked.status, asked.header("access-control-allow-origin")), (204, Some(origin)));
        assert_eq!(asked.header("access-control-allow-credentials"), None);
        let answered = call("GET", origin, &[("Authorization", &bearer)]);
        assert_eq!((answered.status, answered.header("access-control-allow-origin")), (200, Some(origin)));
        assert_eq!(call("GET", origin, &[]).status, 401, "it needs the token like everybody");
    }
    for origin in
        ["https://editor.example.evil", "http://editor.example", "http://10.0.0.1", "https://x/y", "null"]
    {
        let answered = call("GET", origin, &[("Authorization", &bearer)]);
        assert_eq!(
            (answered.status, answered.header("access-control-allow-origin")),
            (403, None),
            "{origin}"
        );
    }
    let output = stage.recall(["doctor"]).stdout;
    assert!(output.contains("gateway.origins: \"http://10.0.0.1\" is not an origin"), "{output}");
}

/// A page that was not named can send calls too, and the browser sends them without asking. The gateway refuses them.
#[test]
fn refused_calls_do_not_use_up_the_rate_limit_of_allowed_ones() {
    let (_stage, gateway) = open();
    let evil = [("Origin", "https://evil.example")];
    let began = Instant::now();
    let refused: Vec<u16> =
        (0..300).map(|_| gateway.request("GET", "/api/status", &evil, "").status).collect();
    // 100 calls at once and 50 a second are free. So 300 are too many only if the machine makes them within four
    // seconds.
    let are_too_many = began.elapsed() < Duration::from_secs(4);
    assert!(refused.contains(&429) || !are_too_many, "there is an end to it");
    assert!(refused.iter().all(|status| [403, 429].contains(status)), "{refused:?}");
    gateway.get("/api/status");
}

#[test]
fn raw_hooks_and_api_prompts_are_stored_without_private_text() {
    let (stage, gateway) = open();
    let prompt = "Paint the cart <private>for Mallory</private> red";
    let event = stage.event("raw", "UserPromptSubmit", json!({"prompt": prompt}));
    gateway.request(
        "POST",
        "/api/hooks/claude-code",
        &[("Authorization", &gateway.bearer())],
        &event.to_string(),
    );
    gateway
        .post("/api/sessions/init", &json!({"session_id": "api", "cwd": stage.project(), "prompt": prompt}));
    stage.flush();
    for session in ["raw", "api"] {
        let stored = gateway.get(&format!("/api/sessions/{session}")).to_string();
        assert!(stored.contains("Paint the cart") && !stored.contains("Mallory"), "{stored}");
    }
}

#[test]
fn the_welcome_notice_is_returned_only_for_the_first_session() {
    let (stage, gateway) = open();
    std::fs::write(stage.home().join("state/welcome"), "").unwrap();
    let start = |id: &str| {
        let body = json!({"session_id": id, "cwd": stage.project(), "source": "startup", "model": "m"});
        let answer = gateway.post("/api/context/inject", &body);
        assert_eq!(answer["context"], "", "an empty project says nothing to the agent");
        answer["notice"].as_str().unwrap().to_owned()
    };
    let notice = start("first");
    assert!(notice.contains("recall ui") && notice.contains("recall pause"), "{notice}");
    assert_eq!(start("second"), "");
}

#[test]
fn a_prompt_that_is_not_stored_is_answered_as_skipped() {
    let (stage, gateway) = open();
    let init = |id: &str, prompt: &str| {
        let body = json!({"session_id": id, "cwd": stage.project(), "prompt": prompt});
        let answer = gateway.post("/api/sessions/init", &body);
        (answer["sessionDbId"].clone(), answer["skipped"].clone(), answer["reason"].clone())
    };
    assert_eq!(init("shop-1", "Paint it red"), (json!(1), json!(false), Value::Null));
    assert_eq!(init("shop-1", "<private>Paint it</private>"), (json!(1), json!(true), json!("private")));
    assert_eq!(stage.recall(["pause", "--for", "1h"]).code(), 0);
    assert_eq!(
        init("shop", "Paint it red"),
        (Value::Null, json!(true), Value::Null),
        "not the number of another"
    );
}

fn configure_only(stage: &Stage, text: &str) {
    std::fs::write(stage.home().join("config.toml"), text).unwrap();
}

fn configure(stage: &Stage, text: &str) {
    configure_only(stage, text);
    stage.flush();
}

#[test]
fn changed_gateway_settings_close_connections_and_replace_the_token() {
    let (stage, gateway) = open();
    let port = gateway.address.rsplit(':').next().unwrap();
    let mut live = listen(&gateway, None);
    assert_eq!(event(&mut live).unwrap().1, "connected");
    let status = || stage.json(["ctl", "status"])["gateway"].clone();
    assert_eq!(status(), json!({"url": format!("http://{}", gateway.address), "failure": null}));
    configure(&stage, "[gateway]\nenabled = false\n");
    while event(&mut live).is_some() {}
    assert!(TcpStream::connect(&gateway.address).is_err(), "nobody listens");
    assert_eq!(status(), json!({"url": null, "failure": null}));
    // Each change closes the gateway and opens it again at the same port.
    for origin in ["https://a.example", "https://b.example", "https://c.example"] {
        configure(&stage, &format!("[gateway]\nenabled = true\nport = {port}\norigins = ['{origin}']\n"));
        let reopened = Gateway::of(&stage);
        assert_eq!(reopened.address, gateway.address);
        reopened.get("/api/status");
        let old = reopened.request("GET", "/api/status", &[("Authorization", &gateway.bearer())], "");
        assert_eq!(old.status, 401, "the token from before counts no longer");
    }
}

#[test]
fn a_gateway_port_in_use_is_reported() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let stage = Stage::new().config(&format!("[gateway]\nenabled = true\nport = {port}\n")).daemon();
    let failure = format!("The gateway cannot listen on port {port}: ");
    let output = stage.recall(["status"]).stdout;
    assert!(output.contains(&format!("gateway      closed: {failure}")), "{output}");
    let doctor = stage.recall(["doctor"]);
    assert!(doctor.stdout.contains(&format!("bad   the gateway is closed: {failure}")), "{doctor:?}");
    let asked = stage.recall(["ui", "--web"]);
    assert!(asked.code() != 0 && asked.stderr.contains("gateway.port"), "{asked:?}");
    drop(taken);
    assert_eq!(stage.recall(["ui", "--web"]).code(), 0);
    assert_eq!(stage.json(["ctl", "status"])["gateway"]["failure"], Value::Null);
}

/// Returns the next event of a stream: its id, name and data.
fn event(lines: &mut impl BufRead) -> Option<(String, String, Value)> {
    let (mut id, mut name, mut data) = (String::new(), String::new(), Value::Null);
    loop {
        let mut line = String::new();
        if lines.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        match line.trim_end().split_once(": ") {
            Some(("id", value)) => id = value.to_owned(),
            Some(("event", value)) => name = value.to_owned(),
            Some(("data", value)) => data = serde_json::from_str(value).unwrap(),
            _ if line.trim_end().is_empty() && !name.is_empty() => return Some((id, name, data)),
            _ => {}
        }
    }
}

/// Returns the events of a stream, up to one of this name.
fn events_until(lines: &mut impl BufRead, last: &str) -> Vec<(String, String)> {
    let mut events = Vec::new();
    while let Some((id, name, _)) = event(lines) {
        let is_last = name == last;
        events.push((id, name));
        if is_last {
            break;
        }
    }
    events
}

fn listen(gateway: &Gateway, last: Option<&str>) -> BufReader<TcpStream> {
    let mut stream = gateway.connect();
    let last = last.map(|id| format!("Last-Event-ID: {id}\r\n")).unwrap_or_default();
    let (host, bearer) = (&gateway.address, gateway.bearer());
    write!(stream, "GET /stream HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer}\r\n{last}\r\n").unwrap();
    BufReader::new(stream)
}

#[test]
fn events_are_streamed_live_and_replayed_after_a_reconnect() {
    let (mut stage, gateway) = open();
    let mut live = listen(&gateway, None);
    assert_eq!(event(&mut live).unwrap().1, "connected");
    stage.discount_session("first");
    let (mut received, mut has_ended, mut processing) = (Vec::new(), false, Value::Null);
    // Compression ends at some time, and the stream reports it.
    while !has_ended || processing != json!({"isProcessing": false, "queueDepth": 0}) {
        let (id, name, data) = event(&mut live).unwrap();
        if name == "processing_status" {
            processing = data;
        }
        if !has_ended {
            has_ended = name == "session_ended";
            received.push((id, name));
        }
    }
    let names: Vec<&str> = received.iter().map(|(_, name)| name.as_str()).collect();
    assert!(names.contains(&"session_started") && names.contains(&"prompt"), "{names:?}");
    drop(live);

    let mut again = listen(&gateway, Some(&received[0].0));
    assert_eq!(event(&mut again).unwrap().2, json!({"lost": false}));
    assert_eq!(events_until(&mut again, "session_ended"), received[1..], "nothing twice, nothing missing");
    let mut strange = listen(&gateway, Some("1-1"));
    assert_eq!(event(&mut strange).unwrap().2, json!({"lost": true}), "of another daemon");
    drop(strange);
    stage.stop_daemon();
    while event(&mut again).is_some() {}
    assert!(!stage.home().join("run/gateway.json").exists());
}

#[test]
fn a_viewer_link_works_only_once() {
    let stage = Stage::new().daemon();
    assert!(!stage.home().join("run/gateway.json").exists(), "closed until somebody asks");
    let output = stage.recall(["ui", "--web"]);
    assert_eq!(output.code(), 0, "{output:?}");
    let gateway = Gateway::of(&stage);
    let own = format!("http://{}", gateway.address);
    let key = output.stdout.trim().strip_prefix(&format!("{own}/#/open/")).unwrap().to_owned();
    let open = || gateway.request("POST", "/api/open", &[("Origin", &own)], &json!({"key": key}).to_string());
    let opened = open();
    assert_eq!(opened.status, 200, "{}", opened.body);
    let cookie = opened.header("set-cookie");
    assert_eq!(cookie, None, "browsers send cookies to every port of this machine");
    let page = opened.json()["token"].as_str().unwrap().to_owned();
    let again = open();
    assert_eq!(again.status, 401);
    assert!(again.body.contains("This link was already used"), "{}", again.body);
    let unknown = gateway.request("POST", "/api/open", &[], &json!({"key": "0"}).to_string());
    assert_eq!(unknown.status, 401);
    let status = |token: &str| {
        let bearer = format!("Bearer {token}");
        gateway.request("GET", "/api/status", &[("Authorization", &bearer)], "").status
    };
    assert_eq!((status(&page), status(&key)), (200, 401));
    let cookie = format!("recall_{}={page}", gateway.address.rsplit(':').next().unwrap());
    assert_eq!(gateway.request("GET", "/api/status", &[("Cookie", &cookie)], "").status, 401);
    let again = stage.recall(["ui", "--web"]);
    assert!(again.stdout.starts_with(&own) && again.stdout != output.stdout, "the same gateway, a new link");
}

/// Every user of a machine can read the arguments of a program.
#[test]
fn the_browser_is_started_without_a_secret_in_its_arguments() {
    let stage = Stage::new().daemon();
    let tools = stage.user_home().join("tools");
    let arguments_file = stage.user_home().join("opened-with");
    std::fs::create_dir(&tools).unwrap();
    for opener in ["xdg-open", "open"] {
        let path = tools.join(opener);
        std::fs::write(&path, format!("#!/bin/sh\nprintf '%s\\n' \"$@\" >'{}'\n", arguments_file.display()))
            .unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = stage.command("recall");
    command.args(["ui", "--web"]).env("PATH", format!("{}:/usr/bin:/bin", tools.display()));
    let mut screen = Screen::of(command, (120, 30));
    screen.shows("enter this code");
    assert!(screen.end().success());
    // recall does not wait for the opener.
    let page = std::iter::repeat_with(|| std::fs::read_to_string(&arguments_file).unwrap_or_default());
    let page = page.into_iter().find(|page| page.ends_with('\n')).unwrap();
    let page = page.trim();
    assert_eq!(page, stage.home().join("run/viewer.html").display().to_string(), "nothing but the page");
    assert_eq!(std::fs::metadata(page).unwrap().permissions().mode() & 0o777, 0o600);
    let text = std::fs::read_to_string(page).unwrap();
    let key = text.split("/#/open/").nth(1).unwrap().split('"').next().unwrap();
    let gateway = Gateway::of(&stage);
    let opened = gateway.request("POST", "/api/open", &[], &json!({"key": key}).to_string());
    assert_eq!(opened.status, 200, "{}", opened.body);
    let mut other = std::process::Command::new("setpriv");
    other.args(["--reuid=65534", "--regid=65534", "--clear-groups", "cat", page]);
    match other.output() {
        Ok(read) if rustix::process::getuid().is_root() => {
            assert!(!read.status.success() && read.stdout.is_empty(), "{read:?}");
        }
        _ => println!("skipped: only the superuser can become another"),
    }
}

/// A killed daemon leaves its note, and any program may take its port.
#[test]
fn the_gateway_file_is_bound_to_the_daemon_that_wrote_it() {
    let mut stage = Stage::new().config("[gateway]\nenabled = true\n").daemon();
    stage.json(["ctl", "status"]);
    let path = stage.home().join("run/gateway.json");
    let read = || -> Value { serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap() };
    let note = read();
    assert_eq!(note["pid"], stage.daemon_pid());
    if let Ok(stat) = std::fs::read_to_string(format!("/proc/{}/stat", note["pid"])) {
        let started = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap();
        assert_eq!(note["started"].to_string(), started);
    }
    // The listener proves that it knows the token, although the request does not contain it.
    let gateway = Gateway::of(&stage);
    let prove = |challenge: &str| {
        gateway.request("GET", &format!("/api/health?challenge={challenge}"), &[], "").json()["proof"].clone()
    };
    let proof = prove("once");
    assert_eq!(proof, json!(hmac(&gateway.token, "once")));
    assert_ne!(proof, prove("twice"));
    assert_eq!(gateway.get("/api/health"), json!({"status": "ok"}));

    stage.kill_daemon();
    let _squatter = std::net::TcpListener::bind(&gateway.address);
    configure_only(&stage, "");
    stage.start_daemon();
    stage.json(["ctl", "status"]);
    assert!(!path.exists(), "a note of a daemon that is gone");
}

/// Returns the HMAC-SHA256 in hexadecimal digits. Computes it with the program that others would use.
fn hmac(key: &str, text: &str) -> String {
    let mut python = std::process::Command::new("python3");
    let program =
        "import hmac,sys; print(hmac.new(sys.argv[1].encode(), sys.argv[2].encode(), 'sha256').hexdigest())";
    let output = python.args(["-c", program, key, text]).output().unwrap();
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

/// A description, the method, the path, the headers, and the status of the answer.
type Attack<'a> = (&'a str, &'a str, &'a str, &'a [(&'a str, &'a str)], u16);

#[test]
fn attacks_are_refused() {
    let (stage, gateway) = open();
    let (bearer, host) = (gateway.bearer(), gateway.address.clone());
    let old = format!("Bearer {}", "0".repeat(64));
    let port = host.rsplit(':').next().unwrap();
    let rebound = format!("evil.example:{port}");
    let attacks: [Attack<'_>; 14] = [
        ("no token", "GET", "/api/status", &[], 401),
        ("an old token", "GET", "/api/status", &[("Authorization", &old)], 401),
        ("metrics without a token", "GET", "/metrics", &[], 401),
        ("another scheme", "GET", "/api/status", &[("Authorization", "Basic eDp5")], 401),
        ("an invented cookie", "GET", "/api/status", &[("Cookie", "recall=1; recall_0=1")], 401),
        (
            "another page",
            "GET",
            "/api/status",
            &[("Authorization", &bearer), ("Origin", "https://evil.example")],
            403,
        ),
        ("a sandboxed page", "GET", "/api/status", &[("Authorization", &bearer), ("Origin", "null")], 403),
        ("a rebound name", "GET", "/api/status", &[("Authorization", &bearer), ("Host", &rebound)], 403),
        ("a rebound name, on the page", "GET", "/", &[("Host", &rebound)], 403),
        ("a preflight", "OPTIONS", "/api/status", &[("Origin", "https://evil.example")], 403),
        ("a path upwards", "GET", "/../run/gateway.json", &[("Authorization", &bearer)], 404),
        ("the same, encoded", "GET", "/%2e%2e/run/gateway.json", &[("Authorization", &bearer)], 404),
        ("a slash in an id", "GET", "/api/items/..%2F..%2Fetc", &[("Authorization", &bearer)], 400),
        ("another method", "DELETE", "/api/status", &[("Authorization", &bearer)], 405),
    ];
    for (what, method, path, headers, expected) in attacks {
        let answer = gateway.request(method, path, headers, "");
        assert_eq!(answer.status, expected, "{what}: {}", answer.body);
        assert!(answer.json()["error"]["what"].is_string(), "{what}");
        assert_eq!(answer.header("access-control-allow-origin"), None, "{what}");
        assert!(answer.header("content-security-policy").unwrap().contains("default-src 'none'"), "{what}");
        assert!(!answer.body.contains(&gateway.token), "{what}");
    }
    let head = format!("POST /api/sessions/init HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer}\r\n");
    let huge = gateway.send(format!("{head}Content-Length: 99999999\r\n\r\n").as_bytes());
    assert_eq!(huge.status, 413, "{}", huge.body);
    let lies = format!(
        "{head}Content-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\nGET / HTTP/1.1\r\n\r\n"
    );
    let lies = gateway.send(lies.as_bytes());
    assert!(lies.body.matches("HTTP/1.1").count() == 0, "one answer a connection");
    let two_hosts =
        gateway.send(format!("GET / HTTP/1.1\r\nHost: {host}\r\nHost: {rebound}\r\n\r\n").as_bytes());
    assert_eq!(two_hosts.status, 403);
    let long = "x".repeat(20_000);
    let long = gateway.send(format!("GET /{long} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes());
    assert!((400..500).contains(&long.status), "{}", long.status);
    for body in ["", "[]", "{", "{\"prompt\": 7, \"session_id\": \"x\", \"cwd\": \"/\"}", "\"text\""] {
        let answer = gateway.request("POST", "/api/sessions/init", &[("Authorization", &bearer)], body);
        assert_eq!(answer.status, 400, "{body}: {}", answer.body);
    }
    assert_eq!(stage.json(["ctl", "sessions"])["sessions"], json!([]), "nothing was stored");
}

#[test]
fn a_slow_client_times_out_without_delaying_others() {
    let (_stage, gateway) = open();
    let mut nothing = gateway.connect();
    let mut slow = gateway.connect();
    let (host, bearer) = (&gateway.address, gateway.bearer());
    write!(
        slow,
        "POST /api/processing HTTP/1.1\r\nHost: {host}\r\nAuthorization: {bearer}\r\nContent-Length: 100\r\n\r\n{{"
    )
    .unwrap();
    assert_eq!(gateway.get("/api/health")["status"], "ok", "others are served");
    let mut answer = String::new();
    slow.read_to_string(&mut answer).unwrap();
    assert!(answer.starts_with("HTTP/1.1 408"), "{answer}");
    let mut answer = Vec::new();
    let _ = nothing.read_to_end(&mut answer);
    assert!(!answer.starts_with(b"HTTP/1.1 200"), "who says nothing is let go");
}

/// Any program on this machine can connect. A connection that sends nothing or sends slowly does not delay others.
#[test]
fn connections_without_a_token_do_not_delay_other_calls() {
    let (_stage, gateway) = open();
    let host = &gateway.address;
    let slow = format!("POST /api/health HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n\r\n");
    let page = format!("GET / HTTP/1.1\r\nHost: {host}\r\nContent-Length: 100\r\n\r\n{{");
    for _ in 0..5 {
        let began = Instant::now();
        let mut held: Vec<TcpStream> = (0..150)
            .map(|number| {
                let mut stream = gateway.connect();
                match number % 3 {
                    0 => stream.write_all(slow.as_bytes()).unwrap(),
                    1 => stream.write_all(page.as_bytes()).unwrap(),
                    _ => {}
                }
                stream
            })
            .collect();
        let idle = gateway.connect();
        held.push(gateway.connect());
        gateway.get("/api/status");
        // The call did not wait until the connections before it were closed.
        idle.set_nonblocking(true).unwrap();
        let state = (&idle).read(&mut [0; 1]).map_err(|error| error.kind());
        if state == Err(std::io::ErrorKind::WouldBlock) {
            return;
        }
        assert!(began.elapsed() > Duration::from_secs(2), "let go early: {state:?}");
    }
    println!("skipped: this machine is too slow now");
}

#[test]
fn the_openapi_document_describes_real_paths_and_required_fields() {
    let (_stage, gateway) = open();
    let document = gateway.get("/api/openapi.json");
    for (path, operations) in document["paths"].as_object().unwrap() {
        if operations["get"].is_null() || path.ends_with("stream") {
            continue;
        }
        for parameter in operations["get"]["parameters"].as_array().unwrap() {
            assert!(parameter["schema"]["type"].is_string(), "{path}: {parameter}");
        }
        let answer =
            gateway.request("GET", &path.replace("{id}", "p1"), &[("Authorization", &gateway.bearer())], "");
        // The item may be missing, or the call incomplete. But the address is known, and the daemon does not fail.
        assert!(matches!(answer.status, 200 | 400 | 404), "{path}: {} {}", answer.status, answer.body);
        assert!(!answer.body.contains("exists at this address"), "{path}");
    }
    // Each body is a type with its required fields.
    let schema = |path: &str| {
        let body = &document["paths"][path]["post"]["requestBody"]["content"]["application/json"]["schema"];
        let name = body["$ref"].as_str().and_then(|name| name.strip_prefix("#/components/schemas/"));
        document["components"]["schemas"][name.unwrap_or_default()].clone()
    };
    for (path, required) in [
        ("/api/sessions/init", json!(["session_id", "prompt"])),
        ("/sessions/{id}/observations", json!(["tool_name"])),
        ("/api/mark", json!(["ids", "validity"])),
        ("/api/remember", json!(["text", "project"])),
    ] {
        assert_eq!(schema(path)["required"], required, "{path}: {}", schema(path));
    }
}

/// If `RECALL_SCHEMATHESIS` names the program, it generates calls from the OpenAPI document. No answer is a server
/// error, or one that the document does not describe.
#[test]
fn generated_calls_are_answered_as_the_openapi_document_says() {
    let Some(program) = std::env::var_os("RECALL_SCHEMATHESIS") else { return };
    let (stage, gateway) = open();
    stage.discount_session("s");
    stage.flush();
    let url = format!("http://{}", gateway.address);
    let mut command = std::process::Command::new(program);
    command.args([
        "run",
        &format!("{url}/api/openapi.json"),
        "--url",
        &url,
        "--seed",
        "7",
        "--max-examples",
        "10",
    ]);
    command.args(["--header", &format!("Authorization: {}", gateway.bearer()), "--phases", "fuzzing"]);
    command.args([
        "--checks",
        "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance",
    ]);
    // A stream has no end.
    command.args(["--exclude-path", "/api/stream", "--exclude-path", "/stream"]);
    let output = command.current_dir(stage.user_home()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

/// The viewer makes the same call.
#[test]
fn search_over_http_finds_a_session_by_its_meaning() {
    let model = crate::embedding::local(crate::embedding::tiny().to_str().unwrap());
    let stage = Stage::new().config(&format!("{model}[gateway]\nenabled = true\n")).daemon();
    crate::embedding::talk(&stage);
    let found = Gateway::of(&stage).get("/api/search?query=slow%20login");
    assert_eq!(found["results"][0]["session_id"], "login", "{found}");
}
