//! Measures what recall costs, in one run: the shim's wall time compared with a program that does nothing, durable
//! events per second, and search, context, memory, start and catch-up by size.
//!
//! `cargo run --release -p recall-tests --bin recall-bench [-- --shim PATH] [--runs N] [--sizes 1000,10000,100000]
//! [--curves FILE.svg] [--readers 50] [--model FOLDER] [--shared 2000000]
//! [--backlog 1073741824]`
//!
//! Compare only times of the same run. On a shared machine, times of two runs are not comparable.

// A measurement that fails can only report that and end.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Parser;
use recall_domain::conventions::Conventions;
use recall_domain::event::StartSource;
use recall_domain::fixes::Traces;
use recall_domain::ids::{AgentName, EventId, ProjectKey, SessionId, SessionKey, Timestamp};
use recall_domain::lifecycle::Tally;
use recall_domain::material::BatchSource;
use recall_domain::observation::{Importance, ObservationDraft, ObservationType};
use recall_domain::session::{BatchState, CloseReason, Effect, NewPrompt, Seq};
use recall_protocol::client::Connection;
use recall_protocol::environment::DAEMON_SETTINGS;
use recall_protocol::frame::Deadline;
use recall_protocol::paths::Paths;
use recall_protocol::query::{Explain, Filter, Flush, Query, Search, Status, Stop};
use recall_protocol::wire::{Deliver, Flags, Reply, Request, ShimContext};
use recall_store::{
    BatchResult, Changes, Delivery, Durability, Duty, FinishJob, FinishedJob, JobResult, LeaseJob,
    SessionOrigin, StoreWriter, Transaction,
};
use recall_system::holding::Holding;
use recall_tests::has_faults;
use serde_json::{Value, json};

const CLIENTS: usize = 8;
const EVENTS_PER_CLIENT: usize = 5_000;
const QUERIES: usize = 1_000;
const WORDS: &str = "login session token cache retry socket parser index writer reader batch timeout schema migration \
                     cart discount receipt rounding currency price order stock invoice tax refund checkout webhook \
                     daemon stream buffer render prompt terminal colour stack queue lock thread deadlock leak panic \
                     config default flag path folder permission owner symlink cursor page query filter rank score";

mod backlog;
mod curves;
mod made_vectors;
mod readers;
mod replay;
mod shared;

fn main() {
    let options = Options::parse();
    let programs = recall_tests::binaries();
    let shim = options.shim.clone().unwrap_or_else(|| programs.join("recall-shim"));
    let spoilt = [programs.join("recall"), shim.clone()].into_iter().find(|it| has_faults(it));
    assert!(
        spoilt.is_none(),
        "{spoilt:?} is a build for fault tests: cargo build --release --workspace --bins"
    );
    if let Some(events) = options.replay {
        return replay::play(events, options.bytes, options.under.as_deref());
    }
    if let Some(records) = options.shared {
        return shared::measure(records);
    }
    if let Some(bytes) = options.backlog {
        return backlog::measure(bytes);
    }
    println!("# recall bench ({} shim runs, {CLIENTS} clients)\n", options.runs);
    if options.runs > 0 {
        println!("one flush of a 4 KiB append: {:.2} ms in the median", flush_time());
        for sync in [Sync::Full, Sync::Normal] {
            shim_times(&shim, options.runs, sync);
            throughput(sync);
        }
    }
    if options.readers > 0 {
        readers::measure(options.readers);
    }
    println!(
        "\n| observations | documents | search p50 / p99 ms | start p50 / p99 ms | prompt p50 / p99 ms | event p50 / p99 ms | own MiB | mapped MiB | cold start ms | documents/s |"
    );
    println!("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|");
    let measured = options.sizes.iter().map(|size| at_size(*size, &options));
    let measured: Vec<AtSize> = measured.collect();
    if let Some(path) = &options.curves {
        std::fs::write(path, curves::svg(&measured)).unwrap();
    }
}

/// The costs of a memory of one size. Times are in milliseconds: the median and the 99th percentile.
struct AtSize {
    documents: usize,
    search: [f64; 2],
    start: [f64; 2],
    prompt: [f64; 2],
    event: [f64; 2],
    /// The time from the start of the process to its first answer to a search.
    cold_start: f64,
}

/// Prints what recall costs on this machine.
#[derive(Parser)]
struct Options {
    /// The hook client to measure, instead of the one beside this program
    #[arg(long)]
    shim: Option<PathBuf>,
    /// How often each program is started (0 skips the hook client and the throughput)
    #[arg(long, default_value_t = 1_000)]
    runs: usize,
    /// Measure hooks while this many readers follow the gateway's events, one of which reads nothing
    #[arg(long, default_value_t = 0)]
    readers: usize,
    /// Only send this many events to a daemon and stop it
    #[arg(long)]
    replay: Option<usize>,
    /// The size of each call among these events
    #[arg(long, default_value_t = 1_000, requires = "replay")]
    bytes: usize,
    /// Run that daemon under this command, such as "valgrind --tool=callgrind"
    #[arg(long, requires = "replay")]
    under: Option<String>,
    /// Only measure sharing through a PostgreSQL server with this many records of 200 machines
    #[arg(long)]
    shared: Option<usize>,
    /// Only measure how this many bytes of notes are shared for the first time, through a folder
    #[arg(long)]
    backlog: Option<usize>,
    /// Draw the times by size into this SVG file
    #[arg(long)]
    curves: Option<PathBuf>,
    /// How many observations the searched memory holds
    #[arg(long, value_delimiter = ',', default_values_t = [1_000, 10_000, 100_000])]
    sizes: Vec<usize>,
    /// Keep the generated memories in this folder and use those that exist, because large ones take long to make
    #[arg(long)]
    memories: Option<PathBuf>,
    /// Search by meaning as well, with the sentence model in this folder
    #[arg(long)]
    model: Option<PathBuf>,
}

/// The values of `durability.sync`.
#[derive(Clone, Copy)]
enum Sync {
    Full,
    Normal,
}

impl Sync {
    fn as_str(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Normal => "normal",
        }
    }
}

/// Returns the time of one flush to disk, in milliseconds.
fn flush_time() -> f64 {
    let folder = tempfile::Builder::new().prefix("rb-").tempdir().unwrap();
    let mut file = std::fs::File::create(folder.path().join("log")).unwrap();
    let mut took = times(200, || {
        let begun = Instant::now();
        file.write_all(&[7; 4096]).unwrap();
        file.sync_data().unwrap();
        begun.elapsed()
    });
    percentile(&mut took, 50.0)
}

/// A daemon in its own home.
struct Services {
    folder: tempfile::TempDir,
    paths: Paths,
    daemon: Option<Child>,
}

impl Services {
    fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("rb-").tempdir().unwrap();
        let home = folder.path().as_os_str().to_owned();
        let paths =
            Paths::from_variables(&|name: &str| (name == "RECALL_HOME").then(|| home.clone())).unwrap();
        paths.create_folders().unwrap();
        Self { folder, paths, daemon: None }
    }

    fn start(&mut self) {
        self.start_under(None);
    }

    /// Starts the daemon with another program, which is given as a command line.
    fn start_under(&mut self, starter: Option<&str>) {
        let program = recall_tests::binaries().join("recall");
        let mut words = starter.unwrap_or_default().split_whitespace();
        let mut command = match words.next() {
            Some(starter) => {
                let mut command = Command::new(starter);
                command.args(words).arg(program);
                command
            }
            None => Command::new(program),
        };
        command.arg("daemon").env("RECALL_HOME", self.folder.path());
        // The shim and the service start it with these settings too.
        command.envs(DAEMON_SETTINGS);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let daemon = self.daemon.insert(command.spawn().unwrap());
        while Connection::open(&self.paths, Deadline::after(Duration::from_secs(1))).is_err() {
            let ended = daemon.try_wait().unwrap();
            assert!(ended.is_none(), "the daemon ended: {ended:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn set(&self, sync: Sync) {
        let text = format!("[durability]\nsync = \"{}\"\n", sync.as_str());
        std::fs::create_dir_all(self.paths.config_file().parent().unwrap()).unwrap();
        std::fs::write(self.paths.config_file(), text).unwrap();
    }

    fn use_model(&self, model: &Path) {
        let text = format!("[embedding]\nbackend = \"local\"\nmodel = {:?}\n", model.canonicalize().unwrap());
        std::fs::create_dir_all(self.paths.config_file().parent().unwrap()).unwrap();
        std::fs::write(self.paths.config_file(), text).unwrap();
    }

    fn connect(&self) -> Connection {
        Connection::open(&self.paths, Deadline::after(Duration::from_secs(5))).unwrap()
    }

    fn memory(&self) -> Memory {
        let pid = self.daemon.as_ref().unwrap().id();
        let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        let mib = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")?.parse::<f64>().ok());
            kib.unwrap_or(f64::NAN) / 1024.0
        };
        Memory { own: mib("RssAnon:"), mapped: mib("RssFile:") }
    }

    fn ask(&self, query: impl Into<Query>) -> Value {
        let deadline = Deadline::after(Duration::from_secs(600));
        match self.connect().ask(&Request::Query(query.into()), deadline).unwrap() {
            Reply::Json(bytes) => serde_json::from_slice(&bytes).unwrap(),
            other => panic!("{other:?}"),
        }
    }
}

/// The memory of a process, in MiB. It is NaN if the system has no `/proc`.
struct Memory {
    own: f64,
    /// Pages of files, including the program's own. The system takes them back when it needs the memory.
    mapped: f64,
}

impl Drop for Services {
    fn drop(&mut self) {
        if let Some(mut daemon) = self.daemon.take() {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

fn shim_times(shim: &Path, runs: usize, sync: Sync) {
    let mut services = Services::new();
    services.set(sync);
    services.start();
    let payload = |size: usize| {
        let event = json!({"session_id": "bench", "hook_event_name": "PostToolUse", "cwd": "/tmp", "tool_name": "Bash",
            "tool_input": {"command": "cat notes"}, "tool_response": {"stdout": "x".repeat(size), "stderr": ""}});
        event.to_string().into_bytes()
    };
    let (small, large) = (payload(850), payload(20_000));
    let mut columns: [Vec<f64>; 3] = Default::default();
    for _ in 0..runs {
        // The programs run in turn, so that other load on the machine affects all of them.
        columns[0].push(run(Path::new("/bin/true"), &[], services.folder.path()));
        columns[1].push(run(shim, &small, services.folder.path()));
        columns[2].push(run(shim, &large, services.folder.path()));
    }
    println!("\n`sync = \"{}\"`\n", sync.as_str());
    println!("| program | p50 ms | p99 ms | p50 beside /bin/true |\n|---|---:|---:|---:|");
    let nothing = percentile(&mut columns[0], 50.0);
    for (name, times) in ["/bin/true", "shim, 1 KB", "shim, 20 KB"].iter().zip(&mut columns) {
        let (p50, p99) = (percentile(times, 50.0), percentile(times, 99.0));
        println!("| {name} | {p50:.2} | {p99:.2} | {:.2}x |", p50 / nothing);
    }
    let stored = services.ask(Status)["events"]["stored"].clone();
    println!("\nstored of {}: {stored}", 2 * runs);
}

/// Starts a program, sends its input and waits for its end. Returns the time that an agent waits.
fn run(program: &Path, stdin: &[u8], home: &Path) -> f64 {
    let begun = Instant::now();
    let mut command = Command::new(program);
    command.env_clear().env("RECALL_HOME", home).env("RECALL_NO_DAEMON_START", "1");
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let _ = child.stdin.take().unwrap().write_all(stdin);
    assert!(child.wait().unwrap().success());
    begun.elapsed().as_secs_f64() * 1000.0
}

fn throughput(sync: Sync) {
    let mut services = Services::new();
    services.set(sync);
    services.start();
    let begun = Instant::now();
    std::thread::scope(|scope| {
        for client in 0..CLIENTS {
            let services = &services;
            scope.spawn(move || {
                let mut connection = services.connect();
                for number in 0..EVENTS_PER_CLIENT {
                    let event = json!({"session_id": format!("client-{client}"), "hook_event_name": "PostToolUse",
                        "cwd": "/tmp", "tool_name": "Bash", "tool_use_id": format!("t{number}"),
                        "tool_input": {"command": format!("make step-{number}")},
                        "tool_response": {"stdout": "x".repeat(700), "stderr": ""}});
                    let request = deliver(&event, (client * EVENTS_PER_CLIENT + number) as u128 + 1);
                    let reply = connection.ask(&request, Deadline::after(Duration::from_secs(20))).unwrap();
                    assert!(matches!(reply, Reply::Ack { .. }), "{reply:?}");
                }
            });
        }
    });
    let seconds = begun.elapsed().as_secs_f64();
    let rate = (CLIENTS * EVENTS_PER_CLIENT) as f64 / seconds;
    let status = services.ask(Status);
    assert_eq!(status["events"]["stored"], CLIENTS * EVENTS_PER_CLIENT);
    println!(
        "\nevents a second from {CLIENTS} clients, each acknowledged after its commit (`sync = \"{}\"`): {rate:.0}",
        sync.as_str()
    );
    let Memory { own, mapped } = services.memory();
    println!("daemon's memory afterwards: {own:.1} MiB of its own, {mapped:.1} MiB of mapped files");
}

fn deliver(event: &Value, id: u128) -> Request {
    Request::Deliver(Deliver {
        event_id: EventId(id.to_be_bytes()),
        agent: "claude-code".to_owned(),
        event_name: String::new(),
        captured_at_ms: now().0,
        boot_id: [1; 16],
        boot_ns: 0,
        context: ShimContext { cwd: "/tmp".to_owned(), ..ShimContext::default() },
        payload: event.to_string().into_bytes(),
        flags: Flags::default(),
    })
}

fn now() -> Timestamp {
    recall_app::clock::now()
}

fn at_size(size: usize, options: &Options) -> AtSize {
    let mut services = Services::new();
    if let Some(model) = &options.model {
        services.use_model(model);
    }
    std::fs::create_dir_all(services.paths.backups_dir()).unwrap();
    let kept = options.memories.as_deref().map(|folder| {
        folder.join(format!("{size}{}.db", if options.model.is_some() { "-with-vectors" } else { "" }))
    });
    match kept {
        Some(kept) if kept.exists() => {
            std::fs::copy(kept, services.paths.database()).unwrap();
        }
        Some(kept) => {
            populate(&services.paths, (size, options.model.as_deref()));
            std::fs::create_dir_all(kept.parent().unwrap()).unwrap();
            std::fs::copy(services.paths.database(), kept).unwrap();
        }
        None => populate(&services.paths, (size, options.model.as_deref())),
    }
    let begun = Instant::now();
    services.start();
    services.ask(Flush);
    let built = begun.elapsed().as_secs_f64();
    // The documents of a batch are its observations, its prompt and its answer.
    let documents = size + 2 * size.div_ceil(5);
    let cold_start = cold_start(&mut services);

    let mut random = Random(7);
    let searched = times(QUERIES, || {
        let text = random.words(3);
        let begun = Instant::now();
        let filter = Filter { limit: Some(10), ..Filter::default() };
        services.ask(Search { text, filter, explain: Explain::No, folder: None });
        begun.elapsed()
    });
    let mut connection = services.connect();
    let mut number = 0u128;
    let mut before_their_commit = 0;
    let mut hook = |event: Value| {
        number += 1;
        let request = deliver(&event, number + (1 << 64));
        let begun = Instant::now();
        let reply = connection.ask(&request, Deadline::after(Duration::from_secs(20))).unwrap();
        let took = begun.elapsed();
        let stdout = match reply {
            Reply::Ack { stdout } => stdout,
            Reply::Unsaved { stdout } => {
                before_their_commit += 1;
                stdout
            }
            other => panic!("{other:?}"),
        };
        (took, stdout)
    };
    let mut silent = 0;
    let mut session = 0;
    let started = times(QUERIES / 2, || {
        session += 1;
        let (took, stdout) = hook(json!({"session_id": format!("new-{session}"), "cwd": "/bench/project",
            "hook_event_name": "SessionStart", "source": "startup"}));
        silent += usize::from(stdout.is_empty());
        took
    });
    assert_eq!(silent, 0, "every start must be answered to be measured");
    let mut session = 0;
    let prompted = times(QUERIES / 2, || {
        session += 1;
        let prompt = format!("How does the {} handle the {}?", random.words(1), random.words(2));
        hook(json!({"session_id": format!("new-{session}"), "cwd": "/bench/project",
            "hook_event_name": "UserPromptSubmit", "prompt": prompt}))
        .0
    });
    let mut call = 0;
    let stored = times(QUERIES, || {
        call += 1;
        hook(json!({"session_id": "new-1", "cwd": "/bench/project", "hook_event_name": "PostToolUse",
            "tool_name": "Bash", "tool_use_id": format!("t{call}"),
            "tool_input": {"command": format!("make step-{call}")},
            "tool_response": {"stdout": "x".repeat(700), "stderr": ""}}))
        .0
    });
    let status = services.ask(Status);
    assert_eq!(status["observations"], size);
    if before_their_commit > 0 {
        eprintln!("{before_their_commit} answers were given before their commits, for the disk stalled");
    }
    let Memory { own, mapped } = services.memory();
    let spread = |mut times: Vec<f64>| [percentile(&mut times, 50.0), percentile(&mut times, 99.0)];
    let [search, start, prompt, event] = [searched, started, prompted, stored].map(spread);
    let pair = |[p50, p99]: [f64; 2]| format!("{p50:.2} / {p99:.2}");
    println!(
        "| {size} | {documents} | {} | {} | {} | {} | {own:.1} | {mapped:.1} | {cold_start:.0} | {:.0} |",
        pair(search),
        pair(start),
        pair(prompt),
        pair(event),
        documents as f64 / built,
    );
    AtSize { documents, search, start, prompt, event, cold_start }
}

/// Returns the median of several starts.
fn cold_start(services: &mut Services) -> f64 {
    let mut random = Random(5);
    let mut took = times(5, || {
        services.ask(Stop);
        services.daemon.take().unwrap().wait().unwrap();
        let begun = Instant::now();
        services.start();
        let filter = Filter { limit: Some(10), ..Filter::default() };
        let text = random.words(3);
        services.ask(Search { text, filter, explain: Explain::No, folder: None });
        begun.elapsed()
    });
    percentile(&mut took, 50.0)
}

fn times(count: usize, mut measured: impl FnMut() -> Duration) -> Vec<f64> {
    (0..count).map(|_| measured().as_secs_f64() * 1000.0).collect()
}

fn percentile(times: &mut [f64], percent: f64) -> f64 {
    times.sort_by(f64::total_cmp);
    times[((times.len() - 1) as f64 * percent / 100.0).round() as usize]
}

/// Fills a database with the store's own writes: sessions with prompts, answers and five observations per batch. Adds
/// vectors if there is a sentence model.
fn populate(paths: &Paths, (size, model): (usize, Option<&Path>)) {
    let connection =
        StoreWriter::open(&paths.database(), &paths.backups_dir(), Durability::Normal, &Holding::default())
            .unwrap();
    let mut random = Random(42);
    let start = now().0 - 90 * 86_400_000;
    let mut made = 0;
    let mut batch = 0;
    while made < size {
        connection.begin().unwrap();
        for _ in 0..200 {
            if made >= size {
                break;
            }
            batch += 1;
            let at = Timestamp(start + (made as i64) * 90 * 86_400_000 / size as i64);
            connection.execute(asked(batch, at, &mut random), &mut Changes::default()).unwrap();
            let lease = LeaseJob { worker: "bench".to_owned(), duty: Duty::All, now: at, until: at };
            let Some(job) = connection.execute(lease, &mut Changes::default()).unwrap() else {
                panic!("no job")
            };
            let drafts: Vec<_> = (0..5.min(size - made)).map(|n| draft(made + n, &mut random)).collect();
            made += drafts.len();
            let result = JobResult::Observations(BatchResult {
                drafts,
                settled: Vec::new(),
                traces: Traces::default(),
                source_tokens: 4_000,
            });
            // The result is marked as a model's. The built-in compressor would select again among its own results,
            // from texts without content.
            let finished =
                FinishedJob { job: job.id, result, origin: "anthropic".into(), cuts: None, now: at };
            connection.execute(FinishJob(finished), &mut Changes::default()).unwrap();
        }
        connection.commit(&Changes::default()).unwrap();
    }
    if let Some(model) = model {
        made_vectors::make(paths, &connection, model);
    }
}

/// Returns one session with one closed batch.
fn asked(number: usize, at: Timestamp, random: &mut Random) -> Transaction {
    let event = EventId((number as u128).to_be_bytes());
    let text = Some(format!("Please look at the {}", random.words(8)));
    let prompt = NewPrompt { event, text, asked_in: None, origin: None };
    Transaction {
        conventions: Conventions::default(),
        session: SessionKey {
            agent: AgentName::from("claude-code"),
            id: SessionId(format!("session-{number}")),
        },
        origin: SessionOrigin {
            precedence: recall_store::Precedence::Later,
            project: vec![ProjectKey::from("path:/bench/project")],
            project_name: "project".to_owned(),
            replaced: None,
            root: Some("/bench/project".to_owned()),
            alias: None,
            cwd: None,
            transcript_path: None,
            place: None,
        },
        delivery: Delivery {
            event,
            key: None,
            agent: AgentName::from("claude-code"),
            event_name: "UserPromptSubmit".to_owned(),
            captured_at: at,
            boot_id: [0; 16],
            boot_ns: 0,
            flags: 0,
            stored_at: at,
        },
        effects: vec![
            Effect::BeginLife { life: 1, source: StartSource::Startup },
            Effect::OpenBatch {
                seq: Seq(1),
                number: 1,
                source: BatchSource::User,
                state: BatchState::Open,
                prompt_id: None,
                prompt: Some(prompt),
            },
            Effect::Respond {
                seq: Seq(1),
                event,
                text: format!("It was the {}.", random.words(60)),
                prompt_id: None,
            },
            Effect::CloseBatch { seq: Seq(1), why: CloseReason::Stop },
            Effect::CompressBatch { seq: Seq(1) },
            Effect::Complete { reason: "other".to_owned(), tally: Tally::default() },
        ],
        changed_files: Vec::new(),
    }
}

fn draft(number: usize, random: &mut Random) -> ObservationDraft {
    let (kind, _) = ObservationType::ALL[number % ObservationType::ALL.len()];
    ObservationDraft {
        kind,
        title: format!("{} {number}", random.words(7)),
        subtitle: None,
        narrative: random.words(45),
        facts: vec![random.words(12)],
        concepts: vec![random.words(1)],
        files_read: Vec::new(),
        files_modified: vec![format!("src/{}.rs", random.words(1))],
        importance: Importance::clamped(1 + (number % 10) as i64),
        evidence: Vec::new(),
        subject: None,
    }
}

/// Random numbers that are the same in every run (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    /// Returns words as frequent as in real text (Zipf's law), without stop words.
    fn words(&mut self, count: usize) -> String {
        let known: Vec<&str> = WORDS.split_whitespace().collect();
        let words: Vec<String> = (0..count)
            .map(|_| {
                let chance = (self.next() % (1 << 52)) as f64 / (1u64 << 52) as f64;
                let rank = (50.0 * 400f64.powf(chance)) as usize;
                format!("{}{}", known[rank % known.len()], rank)
            })
            .collect();
        words.join(" ")
    }
}
