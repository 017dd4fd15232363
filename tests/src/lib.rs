//! An isolated stage for end-to-end tests: its own home, the real binaries, and hooks that run as an agent runs them.
//!
//! Nothing sleeps in order to wait: `recall ctl flush` returns when everything is done. Processes that a stage
//! started end with it.

// Test code panics to report a failure.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

pub mod archive;
pub mod checks;
pub mod faults;
pub mod postgres;
pub mod provider;
pub mod replay;
pub mod repository;
pub mod screen;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use recall_protocol::boot::{self, BootStamp};
use recall_protocol::client::Connection;
use recall_protocol::environment::DAEMON_SETTINGS;
use recall_protocol::frame::{self, Deadline};
use recall_protocol::spool::SpoolName;
use recall_protocol::wire::{Deliver, EventId, Flags, Reply, Request, ShimContext};
use recall_system::faults::{Fault, VERSION, WITH_FAULTS};
use serde_json::{Value, json};

/// A home, and the daemon that may run in it.
pub struct Stage {
    folder: tempfile::TempDir,
    daemon: Option<Child>,
    environment: Vec<(String, String)>,
}

pub const DISCOUNT_PROMPT: &str = "Add a percentage discount to the cart total";
pub const DISCOUNT_ANSWER: &str = "The cart total now takes a percentage discount. Rounding happens once, after summing, \
    because rounding each line lost up to a cent per line. Negative discounts are still not refused.";

/// How a process ended, and its output.
#[derive(Debug)]
pub struct CommandOutput {
    pub status: ExitStatus,
    pub stdout: String,
    pub stderr: String,
}

impl CommandOutput {
    pub fn code(&self) -> i32 {
        self.status.code().unwrap_or(-1)
    }

    /// Returns the output as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout)
            .unwrap_or_else(|error| panic!("no JSON ({error}): {:?} {:?}", self.stdout, self.stderr))
    }

    /// Returns the context for the model in a hook's answer, or "".
    pub fn context(&self) -> String {
        let answer: Value = serde_json::from_str(&self.stdout).unwrap_or(Value::Null);
        let context = answer.pointer("/hookSpecificOutput/additionalContext").and_then(Value::as_str);
        context.unwrap_or_default().to_owned()
    }
}

/// Returns the folder of the binaries under test. `cargo test --workspace` has built them. They are built here if
/// they are missing, older than the sources, or of another kind than this build. Tests need programs with faults, and
/// the bench must not measure such programs. So a test never runs old binaries.
pub fn binaries() -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    FOLDER.get_or_init(|| {
        // A test binary is in TARGET/PROFILE/deps. A program is in TARGET/PROFILE.
        let own = std::env::current_exe().unwrap();
        let folder = own.parent().unwrap();
        let profile = if folder.ends_with("deps") { folder.parent().unwrap() } else { folder }.to_owned();
        let is_old = |(program, sources): (&str, &[&str])| {
            let sources = sources.iter().map(|folder| newest(&workspace().join(folder)));
            modified(&profile.join(program)) < sources.max().flatten()
        };
        let programs: [(&str, &[&str]); 2] = [
            ("recall", &["protocol/src", "daemon/src", "daemon/crates", "daemon/viewer"]),
            ("recall-shim", &["protocol/src", "shim/src"]),
        ];
        if programs.into_iter().any(is_old) || !are_of_our_kind(&profile) {
            build(&profile);
            assert!(are_of_our_kind(&profile), "the programs and the tests differ in their faults");
        }
        profile
    })
}

/// Returns whether both programs are of this build's kind: with faults or without.
fn are_of_our_kind(profile: &Path) -> bool {
    let version = Command::new(profile.join("recall")).arg("--version").output();
    let version = version.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    version.is_ok_and(|version| version.trim_end().ends_with(VERSION))
        && has_faults(&profile.join("recall-shim")) == WITH_FAULTS
}

/// Returns whether a program contains faults. It then contains the name of a variable that causes them.
pub fn has_faults(program: &Path) -> bool {
    let bytes = std::fs::read(program).unwrap();
    ["RECALL_FAILPOINTS", "RECALL_PLANTED"]
        .iter()
        .any(|name| memchr::memmem::find(&bytes, name.as_bytes()).is_some())
}

fn build(profile: &Path) {
    let mut build = Command::new(env!("CARGO"));
    build.args(["build", "--quiet", "--locked", "--workspace", "--bins"]);
    if WITH_FAULTS {
        // This also builds the tests, because they enable the faults and choose the features of other crates.
        // Otherwise most crates would be built again.
        build.args(["--test", "end_to_end"]);
    }
    if profile.ends_with("release") {
        build.arg("--release");
    }
    // Build scripts would take Cargo's variables for this test as a change. They would run again here, and once more
    // in the next build outside.
    let vars = std::env::vars_os().map(|(name, _)| name);
    let of_this_test = ["CARGO_PKG_", "CARGO_MANIFEST_", "CARGO_BIN_", "CARGO_CRATE_", "CARGO_PRIMARY_"];
    for name in vars.filter(|name| of_this_test.iter().any(|kind| name.to_string_lossy().starts_with(kind))) {
        build.env_remove(name);
    }
    build.arg("--target-dir").arg(profile.parent().unwrap());
    let built = build.current_dir(workspace()).status().unwrap();
    assert!(built.success(), "the binaries under test do not build");
}

fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|file| file.modified()).ok()
}

/// Returns the time of the newest file below a folder.
fn newest(folder: &Path) -> Option<SystemTime> {
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    entries
        .filter_map(
            |entry| if entry.path().is_dir() { newest(&entry.path()) } else { modified(&entry.path()) },
        )
        .max()
}

/// Returns the folder of the workspace's own manifest.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap()
}

impl Default for Stage {
    fn default() -> Self {
        Self::new()
    }
}

impl Stage {
    /// Makes an empty home and an empty project, without a daemon.
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("rc-").tempdir().unwrap();
        std::fs::create_dir(folder.path().join("shop")).unwrap();
        Self { folder, daemon: None, environment: Vec::new() }
    }

    /// Adds a `config.toml`.
    #[must_use]
    pub fn config(self, text: &str) -> Self {
        std::fs::create_dir_all(self.home()).unwrap();
        std::fs::write(self.home().join("config.toml"), text).unwrap();
        self
    }

    /// Adds a variable to the environment of every program that runs here.
    #[must_use]
    pub fn variable(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Plants a fault in recall.
    #[must_use]
    pub fn planted(self, fault: Fault) -> Self {
        self.variable("RECALL_PLANTED", fault.name())
    }

    /// Starts a daemon and waits until it answers.
    #[must_use]
    pub fn daemon(mut self) -> Self {
        self.start_daemon();
        self
    }

    /// Returns `RECALL_HOME`.
    pub fn home(&self) -> PathBuf {
        self.folder.path().join("recall")
    }

    /// Returns the project's folder.
    pub fn project(&self) -> PathBuf {
        self.folder.path().join("shop")
    }

    /// Returns the user's home, where agents keep their settings.
    pub fn user_home(&self) -> PathBuf {
        self.folder.path().to_owned()
    }

    pub fn socket(&self) -> PathBuf {
        self.home().join("run/recall.sock")
    }

    pub fn database(&self) -> PathBuf {
        self.home().join("data/recall.db")
    }

    /// Returns the files that wait in the spool.
    pub fn spooled(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.home().join("state/spool/new")).into_iter().flatten();
        entries.map(|entry| entry.unwrap().path()).collect()
    }

    /// Sends a prompt of a session. `number` distinguishes it from the session's other prompts.
    pub fn ask(&self, session: &str, number: u32, prompt: &str) {
        let event = json!({"prompt": prompt, "prompt_id": format!("{session}-p{number}")});
        self.hook(&self.event(session, "UserPromptSubmit", event));
    }

    /// Sends a shell command of a session. It failed if there is an error. `number` distinguishes it from the
    /// session's other calls.
    pub fn ran(&self, session: &str, number: u32, command: &str, error: Option<&str>) {
        let mut call = json!({"tool_name": "Bash", "tool_input": {"command": command}, "tool_use_id": format!("{session}-t{number}")});
        let name = match error {
            Some(error) => {
                call["error"] = json!(error);
                "PostToolUseFailure"
            }
            None => {
                call["tool_response"] = json!({"stdout": "ok", "stderr": ""});
                "PostToolUse"
            }
        };
        self.hook(&self.event(session, name, call));
    }

    /// Returns a program under test with only this stage's environment.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(binaries().join(program));
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_default())
            .env("HOME", self.user_home())
            .env("RECALL_HOME", self.home())
            .env("RECALL_NO_DAEMON_START", "1")
            // The bench measures times on an idle machine. Here everything runs at once.
            .env("RECALL_ANSWER_MS", "10000")
            // This publishes no models, so nothing here uses the network.
            .env("RECALL_PUBLISHED", "/dev/null")
            .env("NO_COLOR", "1")
            .env("TZ", "UTC")
            .current_dir(self.project());
        // A person may plant a fault by hand, to see a test fail.
        if let Some(fault) = std::env::var_os("RECALL_PLANTED") {
            command.env("RECALL_PLANTED", fault);
        }
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        command
    }

    #[track_caller]
    pub fn start_daemon(&mut self) {
        assert!(self.daemon.is_none(), "a daemon runs already");
        let mut command = self.command("recall");
        command.arg("daemon").envs(DAEMON_SETTINGS);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let daemon = command.spawn().unwrap();
        let pid = daemon.id();
        self.daemon = Some(daemon);
        let deadline = Instant::now() + Duration::from_secs(30);
        while !faults::process::listens(&self.socket(), pid) {
            let ended = self.daemon.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "the daemon ended: {ended:?}\n{}", self.log());
            assert!(Instant::now() < deadline, "the daemon does not listen\n{}", self.log());
            // No client can connect before the daemon listens.
            std::thread::yield_now();
        }
    }

    pub fn daemon_pid(&self) -> u32 {
        self.daemon.as_ref().expect("no daemon runs").id()
    }

    /// Sends SIGKILL, so the daemon cannot shut down.
    pub fn kill_daemon(&mut self) {
        let mut daemon = self.daemon.take().expect("no daemon runs");
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Waits until the daemon ends by itself.
    pub fn daemon_ended(&mut self) -> ExitStatus {
        self.daemon.take().expect("no daemon runs").wait().unwrap()
    }

    /// Sends a signal to the daemon, and returns its exit status.
    pub fn signal_daemon(&mut self, signal: rustix::process::Signal) -> ExitStatus {
        let mut daemon = self.daemon.take().expect("no daemon runs");
        rustix::process::kill_process(rustix::process::Pid::from_child(&daemon), signal).unwrap();
        daemon.wait().unwrap()
    }

    /// Runs `recall ctl stop` and returns the daemon's exit status.
    pub fn stop_daemon(&mut self) -> ExitStatus {
        let output = self.recall(["ctl", "stop"]);
        assert_eq!(output.code(), 0, "{output:?}");
        self.daemon.take().expect("no daemon runs").wait().unwrap()
    }

    /// Returns the daemon's log.
    pub fn log(&self) -> String {
        let entries = std::fs::read_dir(self.home().join("state/log")).into_iter().flatten();
        entries.filter_map(|entry| std::fs::read_to_string(entry.unwrap().path()).ok()).collect()
    }

    /// Runs a hook with exactly these bytes on stdin.
    pub fn hook_bytes(&self, arguments: &[&str], stdin: &[u8]) -> CommandOutput {
        let mut command = self.command("recall-shim");
        command.args(arguments);
        run(command, stdin)
    }

    /// Runs a hook of Claude Code. Checks its promise each time: exit 0, no stderr, and one object or nothing.
    #[track_caller]
    pub fn hook(&self, event: &Value) -> CommandOutput {
        let mut line = serde_json::to_vec(event).unwrap();
        line.push(b'\n');
        let output = self.hook_bytes(&["claude-code"], &line);
        assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{output:?}");
        assert!(output.stdout.is_empty() || output.json().is_object(), "{output:?}");
        output
    }

    /// Returns the event as a shim would deliver it, with a new event id.
    pub fn delivery(&self, event: &Value) -> Deliver {
        let stamp = BootStamp::now();
        Deliver {
            event_id: EventId::new(boot::wall_ms()),
            agent: "claude-code".to_owned(),
            event_name: String::new(),
            captured_at_ms: boot::wall_ms(),
            boot_id: stamp.boot_id,
            boot_ns: stamp.boot_ns,
            context: ShimContext {
                pid: std::process::id(),
                cwd: self.project().to_string_lossy().into_owned(),
                ..ShimContext::default()
            },
            payload: serde_json::to_vec(event).unwrap(),
            flags: Flags::default(),
        }
    }

    /// Sends events over one connection, without a shim, and returns the answers.
    #[track_caller]
    pub fn deliver<'a>(&self, deliveries: impl IntoIterator<Item = &'a Deliver>) -> Vec<Reply> {
        let deadline = || Deadline::after(Duration::from_secs(30));
        let mut connection = Connection::open_socket(&self.socket(), deadline()).unwrap();
        let ask =
            |delivery: &Deliver| connection.ask(&Request::Deliver(delivery.clone()), deadline()).unwrap();
        deliveries.into_iter().map(ask).collect()
    }

    /// Leaves an event in the spool, like a shim without an answer.
    #[track_caller]
    pub fn spool(&self, delivery: &Deliver) {
        let name = SpoolName::new(delivery.captured_at_ms, delivery.event_id);
        let folder = self.home().join("state/spool");
        std::fs::create_dir_all(folder.join("new")).unwrap();
        let frame = frame::encode_frame(&Request::Deliver(delivery.clone())).unwrap();
        // The file must appear complete. Otherwise the daemon finds half of it.
        let whole = folder.join(format!("whole-{}", name.as_str()));
        std::fs::write(&whole, frame).unwrap();
        std::fs::rename(whole, folder.join("new").join(name.as_str())).unwrap();
    }

    /// Runs `recall`.
    pub fn recall<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> CommandOutput {
        let mut command = self.command("recall");
        command.args(arguments);
        run(command, b"")
    }

    /// Runs `recall` with `--json` and expects it to succeed.
    #[track_caller]
    pub fn json<'a>(&self, arguments: impl IntoIterator<Item = &'a str>) -> Value {
        let output = self.recall(arguments.into_iter().chain(["--json"]));
        assert_eq!(output.code(), 0, "{output:?}");
        output.json()
    }

    #[track_caller]
    pub fn flush(&self) {
        let output = self.recall(["ctl", "flush"]);
        assert_eq!(output.code(), 0, "{output:?}\n{}", self.log());
    }

    /// Plays a whole session: start, prompt, calls, answer and end.
    #[track_caller]
    pub fn session(&self, id: &str, prompt: &str, calls: &[Value], answer: &str) {
        self.hook(&self.event(id, "SessionStart", json!({"source": "startup"})));
        self.hook(&self.event(
            id,
            "UserPromptSubmit",
            json!({"prompt": prompt, "prompt_id": format!("{id}-p1")}),
        ));
        for (number, call) in calls.iter().enumerate() {
            let mut call = call.clone();
            call["tool_use_id"] = json!(format!("{id}-t{number}"));
            call["prompt_id"] = json!(format!("{id}-p1"));
            self.hook(&self.event(id, "PostToolUse", call));
        }
        let stop = json!({"last_assistant_message": answer, "prompt_id": format!("{id}-p1")});
        self.hook(&self.event(id, "Stop", stop));
        self.hook(&self.event(id, "SessionEnd", json!({"reason": "other"})));
    }

    /// Plays a session about a cart's discount, from which something can be learned.
    #[track_caller]
    pub fn discount_session(&self, id: &str) {
        self.session(id, DISCOUNT_PROMPT, &self.discount_calls(), DISCOUNT_ANSWER);
    }

    /// Returns the tool calls of that session.
    pub fn discount_calls(&self) -> [Value; 3] {
        let cart = self.project().join("src/cart.rs");
        let source = "fn total(&self) -> u64 { self.lines.iter().map(Line::rounded).sum() }";
        let better = "fn total(&self) -> u64 { round(self.lines.iter().map(Line::exact).sum()) }";
        [
            json!({"tool_name": "Read", "tool_input": {"file_path": cart},
                   "tool_response": {"type": "text", "file": {"filePath": cart, "content": source}}}),
            json!({"tool_name": "Edit",
                   "tool_input": {"file_path": cart, "old_string": source, "new_string": better},
                   "tool_response": {"filePath": cart, "oldString": source, "newString": better}}),
            json!({"tool_name": "Bash", "tool_input": {"command": "cargo test cart", "description": "Run the tests"},
                   "tool_response": {"stdout": "test result: ok. 7 passed; 0 failed", "stderr": ""}}),
        ]
    }

    /// Returns an event of Claude Code with its base fields and these fields.
    pub fn event(&self, session: &str, name: &str, fields: Value) -> Value {
        let project = self.project();
        let mut event = json!({
            "session_id": session,
            "transcript_path": format!("{}/.claude/projects/shop/{session}.jsonl", self.user_home().display()),
            "cwd": project,
            "hook_event_name": name,
        });
        for (key, value) in fields.as_object().into_iter().flatten() {
            event[key] = value.clone();
        }
        event
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        // A daemon started by a command or the shim is not a child of this process.
        let note = recall_protocol::paths::LockNote::read(&self.home().join("data/recall.lock"));
        if let Some(pid) = note.and_then(|note| rustix::process::Pid::from_raw(note.pid.cast_signed())) {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
        }
    }
}

/// Runs a program to its end.
pub fn run(mut command: Command, stdin: &[u8]) -> CommandOutput {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The program may stop reading early.
    let _ = child.stdin.take().unwrap().write_all(stdin);
    let output = child.wait_with_output().unwrap();
    CommandOutput {
        status: output.status,
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// Returns the events of a recorded session, without the recording's own numbers.
pub fn recording(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    text.lines()
        .map(|line| {
            let mut event: Value = serde_json::from_str(line).unwrap();
            let object = event.as_object_mut().unwrap();
            object.remove("_id");
            object.remove("_t_ms");
            event
        })
        .collect()
}

/// Returns a copy in which everything is masked that differs between two runs: ids, times, paths of this stage,
/// sizes.
pub fn masked(value: &Value, stage: &Stage) -> Value {
    mask(value, "", stage)
}

/// Masks the same in text that people read: times, durations, sizes and process ids.
pub fn masked_text(text: &str, stage: &Stage) -> String {
    const VARYING: [(&str, &str); 16] = [
        (r"\d{4}-\d\d-\d\dT[0-9:.]+Z", "[time]"),
        (r"\d{4}-\d\d-\d\d \d\d:\d\d", "[time]"),
        (r"\b\d+(\.\d+)? ms\b", "[n] ms"),
        (r"\bpid \d+", "pid [n]"),
        (r"(?m)^\d{4}-\d\d-\d\d$", "[date]"),
        (r"(?m)^  \d\d:\d\d  ", "  [min]  "),
        (r"\bup \d+ (s|min)\b", "up [time]"),
        (r"\b\d+(\.\d+)? (B|[KMG]iB)\b", "[bytes]"),
        (r"\bscore \d\.\d+", "score [n]"),
        (r"this one knows \d+", "this one knows [n]"),
        (r"\b\d+ % (an answer|a prompt|known here)", "[n] % $1"),
        // A word's frequency also counts rows of the index that were replaced and are not merged yet.
        (r"\b(recency|moment|text|fit) +\d\.\d+", "$1 [n]"),
        (r"((?:best\s+answer[\s(#a-z0-9)]*:|(?:known|saying)\s+here:|=)\s+)\d+\s+%", "$1[n] %"),
        (r"\b\d+\.\d+\.\d+\b", "[version]"),
        (r"\bjust now\b|\b\d+ min ago\b", "[age]"),
        (r"(?m)[ \t]+$", ""),
    ];
    let mut text = text.replace(&*stage.user_home().to_string_lossy(), "[home]");
    text = text.replace(&*binaries().to_string_lossy(), "[bin]");
    for (pattern, mask) in VARYING {
        text = regex::Regex::new(pattern).unwrap().replace_all(&text, mask).into_owned();
    }
    text
}

fn mask(value: &Value, key: &str, stage: &Stage) -> Value {
    const VARYING: [&str; 23] = [
        // This figure depends on compression.
        "observation_count",
        "uuid",
        "samples",
        "created_at",
        "started_at",
        "ended_at",
        "updated_at",
        "edited_at",
        "suspended_for_ms",
        "at",
        "took_ms",
        "pid",
        "uptime_s",
        "rss_bytes",
        "own_bytes",
        "mapped_bytes",
        "event_id",
        "prompt_event_id",
        "response_event_id",
        "score",
        "version",
        "duration_ms",
        "life_ms",
    ];
    match value {
        Value::Null => Value::Null,
        _ if VARYING.contains(&key) => json!(format!("[{key}]")),
        Value::Array(list) if key == "evidence" => json!(format!("[{} events]", list.len())),
        Value::Object(sizes) if key == "bytes" => {
            sizes.keys().map(|name| (name.clone(), json!("[bytes]"))).collect()
        }
        Value::Object(object) => {
            object.iter().map(|(key, value)| (key.clone(), mask(value, key, stage))).collect()
        }
        Value::Array(list) => list.iter().map(|value| mask(value, "", stage)).collect(),
        Value::String(text) => json!(masked_text(text, stage)),
        // These numbers are computed from ages.
        Value::Number(number) if number.is_f64() => json!("[number]"),
        other => other.clone(),
    }
}
