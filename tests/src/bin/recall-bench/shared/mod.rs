//! Measures sharing through a PostgreSQL database at the size of a company's department: 200 machines of 20 projects.
//! The server is temporary and runs on this machine, so it shares the processors with all the machines.

mod made;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use recall_sync::address::Address;
use recall_sync::remote::{NewEntries, Remote, StatementCache};
use recall_sync::team::Team;
use recall_system::secret::KeySource;
use recall_tests::Stage;
use recall_tests::postgres::{Cluster, password_of};
use recall_tests::repository::Repository;
use serde_json::Value;
use tokio::runtime::Runtime;
use tokio::sync::Semaphore;

use super::percentile;
use made::{SPACES, Space, WRITERS, sealed};

/// How many rounds of each machine send something, and how many run at a time.
const ROUNDS: usize = 20;
const AT_ONCE: usize = 8;
/// The number of rounds in which nothing is new.
const IDLE_ROUNDS: u32 = 200;
/// The number of entries that each colleague logs while somebody is away for a week.
const OF_A_WEEK: usize = 200;
/// The settings of a server for many machines.
const SETTINGS: &str = "fsync = on\nlog_statement = none\nshared_buffers = 512MB\nmax_connections = 100\nmax_wal_size = 4GB\nssl = on";

/// A server with the logs of all machines.
struct Place {
    cluster: Cluster,
    team: Team,
    id: String,
    spaces: Vec<Space>,
    keys: tempfile::TempDir,
}

/// Prints the costs of this many records.
pub(super) fn measure(records: usize) {
    let Some(mut place) = Place::new() else { return };
    let begun = Instant::now();
    let parts = made::fill(&place.cluster, &place.team, &mut place.spaces, records);
    place.cluster.sql("memory", "ANALYZE recall.record, recall.segment, recall.device");
    println!(
        "# {records} records in {parts} parts, of {} machines in {SPACES} projects (made in {:.0} s)\n",
        SPACES * WRITERS,
        begun.elapsed().as_secs_f64()
    );
    place.print_sizes();
    let runtime = Runtime::new().unwrap();
    // The first read of a table loads it.
    let _ = runtime.block_on(place.poll());
    place.print_polls(&runtime, "a connection for each round, with TLS");
    place.print_appends(&runtime);
    let newcomer = place.print_first_pull();
    place.print_absence(&runtime, newcomer);
    let Some(place) = place.pooled() else { return };
    let _ = runtime.block_on(place.poll());
    place.print_polls(&runtime, "through PgBouncer");
}

impl Place {
    fn new() -> Option<Self> {
        let mut cluster = Cluster::start()?;
        let keys = tempfile::tempdir().unwrap();
        let made = Command::new("openssl")
            .args("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost -keyout key -out cert".split(' '))
            .current_dir(keys.path())
            .output();
        assert!(made.unwrap().status.success(), "openssl makes a certificate");
        let read = |name: &str| std::fs::read_to_string(keys.path().join(name)).unwrap();
        let (cert, key) =
            (cluster.server_file("cert", &read("cert")), cluster.server_file("key", &read("key")));
        let files = format!("ssl_cert_file = '{}'\nssl_key_file = '{}'", cert.display(), key.display());
        cluster.configure("postgresql.conf", &format!("{SETTINGS}\n{files}"));
        let stage = Stage::new();
        passwords(&stage.user_home(), "admin");
        let admin = format!("postgres://admin@127.0.0.1:{}/memory?sslmode=require", cluster.server_port());
        let arguments = ["remote", "init", &admin, "--member", "mia", "--member", "zoe"];
        let output = stage.recall(arguments);
        assert_eq!(output.code(), 0, "{output:?}");
        let id = cluster.sql("memory", "SELECT id FROM recall.meta");
        let team = Team::begin(&id, &recall_domain::sync::DeviceId::default(), &[]).unwrap();
        passwords(keys.path(), "mia");
        let spaces = made::spaces(&team, keys.path());
        Some(Self { cluster, team, id, spaces, keys })
    }

    fn pooled(self) -> Option<Self> {
        Some(Self { cluster: self.cluster.pooled()?, ..self })
    }

    /// Returns the remote as a machine first has it: without a connection.
    fn remote(&self) -> Remote {
        remote(&self.address("mia"), self.keys.path())
    }

    /// Returns the address for a role. A connection is encrypted, as through a network. The pooler runs beside the
    /// server and has no certificate.
    fn address(&self, role: &str) -> String {
        let mode = if self.cluster.port() == self.cluster.server_port() { "require" } else { "disable" };
        format!("postgres://{role}@127.0.0.1:{}/memory?sslmode={mode}", self.cluster.port())
    }

    fn print_sizes(&self) {
        println!("| table | rows | table MB | index MB | bytes a record |\n|---|---:|---:|---:|---:|");
        for table in ["record", "segment", "device"] {
            let sizes = self.cluster.sql(
                "memory",
                &format!(
                    "SELECT sum(pg_table_size(r)), sum(pg_indexes_size(r)), (SELECT count(*) FROM recall.{table}),
                        (SELECT count(*) FROM recall.record)
                     FROM (SELECT coalesce(inhrelid, 'recall.{table}'::regclass) AS r
                           FROM (SELECT 'recall.{table}'::regclass AS parent) p LEFT JOIN pg_inherits ON inhparent = parent) t"
                ),
            );
            let numbers: Vec<f64> = sizes.split('|').map(|number| number.parse().unwrap()).collect();
            let [table_bytes, index_bytes, rows, records] = numbers[..] else { panic!("{sizes}") };
            println!(
                "| `{table}` | {rows} | {:.0} | {:.0} | {:.0} |",
                table_bytes / 1e6,
                index_bytes / 1e6,
                (table_bytes + index_bytes) / records
            );
        }
        println!();
    }

    /// Runs the queries of a round in which nothing is new. Returns the time.
    async fn poll(&self) -> Duration {
        let begun = Instant::now();
        let remote = self.remote();
        remote.enter(Some(self.id.clone())).await.unwrap();
        let statements = remote.statements(&self.id, &mut StatementCache::default()).await.unwrap();
        assert!(statements.len() >= SPACES * WRITERS, "{}", statements.len());
        let logs = remote.logs(&self.spaces[1].id, &BTreeMap::new()).await.unwrap();
        assert_eq!(logs.len(), WRITERS);
        begun.elapsed()
    }

    /// Prints the costs of rounds. In each, a machine was just started and finds nothing new.
    fn print_polls(&self, runtime: &Runtime, how: &str) {
        let cpu_of = |question: &dyn Fn()| {
            let before = self.cluster.cpu_seconds();
            (0..IDLE_ROUNDS).for_each(|_| question());
            (self.cluster.cpu_seconds() - before) * 1000.0 / f64::from(IDLE_ROUNDS)
        };
        let enter = || async { drop(self.remote().enter(Some(self.id.clone())).await.unwrap()) };
        let connecting = cpu_of(&|| runtime.block_on(enter()));
        let took = RefCell::new(Vec::new());
        let cpu = cpu_of(&|| took.borrow_mut().push(runtime.block_on(self.poll()).as_secs_f64() * 1000.0));
        let mut took = took.into_inner();
        println!(
            "{how}: a question for what is new takes p50 {:.1} ms, p99 {:.1} ms, and {cpu:.2} ms of the server's processor, {connecting:.2} of them for the connection",
            percentile(&mut took, 50.0),
            percentile(&mut took, 99.0)
        );
    }

    /// Prints the costs when each machine of the other projects sends a few entries in some rounds. Several machines
    /// send at a time.
    fn print_appends(&mut self, runtime: &Runtime) {
        let (address, keys, id) = (self.address("mia"), self.keys.path().to_owned(), self.id.clone());
        let before = self.cluster.cpu_seconds();
        let begun = Instant::now();
        let permits = Arc::new(Semaphore::new(AT_ONCE));
        let mut rounds = Vec::new();
        for round in 0..ROUNDS {
            for writer in 0..WRITERS {
                for space in self.spaces.iter_mut().skip(1) {
                    let writer = &mut space.writers[writer];
                    let count = writer.few();
                    let part = sealed(&space.keys, writer.entries(count, super::now().0 + round as i64));
                    rounds.push((part, Arc::clone(&writer.device)));
                }
            }
        }
        let (count, entries) =
            (rounds.len(), rounds.iter().map(|(part, _)| part.records.len()).sum::<usize>());
        let (mut whole, mut appended) = runtime.block_on(async {
            let (mut whole, mut appended) = (Vec::new(), Vec::new());
            let mut running = Vec::new();
            for (part, device) in rounds {
                let permit = Arc::clone(&permits).acquire_owned().await.unwrap();
                let (address, keys, id) = (address.clone(), keys.clone(), id.clone());
                running.push(tokio::spawn(async move {
                    let took = send(&remote(&address, &keys), &id, part, &device).await;
                    drop(permit);
                    took
                }));
            }
            for round in running {
                let (round, append) = round.await.unwrap();
                whole.push(round);
                appended.push(append);
            }
            (whole, appended)
        });
        let seconds = begun.elapsed().as_secs_f64();
        let cpu = (self.cluster.cpu_seconds() - before) * 1000.0 / count as f64;
        println!(
            "{count} rounds that send {entries} entries, {AT_ONCE} at a time: {:.0} a second; append p50 {:.1} ms, p99 {:.1} ms; the whole round p50 {:.1} ms, p99 {:.1} ms; {cpu:.2} ms of the server's processor each",
            count as f64 / seconds,
            percentile(&mut appended, 50.0),
            percentile(&mut appended, 99.0),
            percentile(&mut whole, 50.0),
            percentile(&mut whole, 99.0),
        );
    }

    /// Prints the costs when a colleague joins, with a daemon as it is installed.
    fn print_first_pull(&self) -> Stage {
        let stage = Stage::new().config("[sync]\nauthor = \"zoe\"\ndevice = \"new\"\n");
        Repository::init(&stage.project()).git(&["remote", "add", "origin", "git@example.com:acme/shop.git"]);
        passwords(&stage.user_home(), "zoe");
        let stage = stage.daemon();
        run_recall(&stage, &["remote", "add", "team", &self.address("zoe")], "");
        run_recall(&stage, &["team", "join", "team"], &self.team.words().unwrap());
        let before = self.cluster.cpu_seconds();
        let begun = Instant::now();
        run_recall(&stage, &["share", "--with", "team", "--inject", "--yes"], "");
        let first = begun.elapsed().as_secs_f64();
        let mut rounds = 1;
        let mut state = stage.json(["sync"]);
        while waiting(&state) > 0 {
            state = stage.json(["sync", "--now"]);
            rounds += 1;
        }
        let read = begun.elapsed().as_secs_f64();
        stage.flush();
        let usable = begun.elapsed().as_secs_f64();
        let found = stage.json(["search", "by:dev3 kind:observation"]);
        println!(
            "first pull of a new colleague, {} notes: first round {first:.1} s, all read after {read:.1} s ({rounds} rounds), all found after {usable:.1} s ({} by a search); {:.2} s of the server's processor, {:.1} s of the daemon's",
            state["shares"][0]["received"],
            found["total"],
            self.cluster.cpu_seconds() - before,
            cpu_of(stage.daemon_pid()),
        );
        let before = (self.cluster.cpu_seconds(), cpu_of(stage.daemon_pid()));
        let begun = Instant::now();
        for _ in 0..IDLE_ROUNDS {
            stage.json(["sync", "--now"]);
        }
        let each = |seconds: f64| seconds * 1000.0 / f64::from(IDLE_ROUNDS);
        let cpu = each(self.cluster.cpu_seconds() - before.0);
        println!(
            "a round of a daemon without anything new: {:.1} ms; {cpu:.2} ms of the server's processor, which is {:.3} ms a second for a machine that works (each minute) and {:.3} for one that does not (each ten minutes); {:.2} ms of the daemon's",
            each(begun.elapsed().as_secs_f64()),
            cpu / 60.0,
            cpu / 600.0,
            each(cpu_of(stage.daemon_pid()) - before.1),
        );
        stage
    }

    /// Prints the costs when somebody returns after a week in which all colleagues worked.
    fn print_absence(&mut self, runtime: &Runtime, mut stage: Stage) {
        assert!(stage.stop_daemon().success());
        let (address, keys) = (self.address("mia"), self.keys.path().to_owned());
        let space = &mut self.spaces[0];
        let mut parts = 0;
        for writer in &mut space.writers {
            let remote = remote(&address, &keys);
            let mut made = 0;
            while made < OF_A_WEEK {
                let next = writer.few().min(OF_A_WEEK - made);
                let part = sealed(&space.keys, writer.entries(next, super::now().0));
                runtime.block_on(remote.append(part, &writer.device)).unwrap();
                made += next;
                parts += 1;
            }
        }
        stage.start_daemon();
        let begun = Instant::now();
        let mut state = stage.json(["sync", "--now"]);
        let first = begun.elapsed().as_secs_f64();
        while waiting(&state) > 0 {
            state = stage.json(["sync", "--now"]);
        }
        stage.flush();
        println!(
            "a week's absence, {} entries in {parts} parts: read after {first:.2} s, found after {:.2} s",
            OF_A_WEEK * WRITERS,
            begun.elapsed().as_secs_f64()
        );
    }
}

/// Runs a round that sends something. Returns the times of the whole round and of the append, in milliseconds.
async fn send(
    remote: &Remote,
    id: &str,
    part: NewEntries,
    device: &Arc<recall_sync::device::Device>,
) -> (f64, f64) {
    let begun = Instant::now();
    let space = part.header.space.clone();
    remote.enter(Some(id.to_owned())).await.unwrap();
    remote.statements(id, &mut StatementCache::default()).await.unwrap();
    remote.logs(&space, &BTreeMap::new()).await.unwrap();
    let asked = begun.elapsed();
    let put = remote.append(part, device).await.unwrap();
    assert_eq!(put, recall_sync::folder::Put::Written);
    let whole = begun.elapsed();
    (whole.as_secs_f64() * 1000.0, (whole - asked).as_secs_f64() * 1000.0)
}

/// Returns how many entries of other machines a machine knows of but has not read.
fn waiting(state: &Value) -> u64 {
    let share = &state["shares"][0];
    assert_eq!(share["error"], Value::Null, "{state}");
    let of = |device: &Value| {
        device["available"]
            .as_u64()
            .unwrap_or_default()
            .saturating_sub(device["seq"].as_u64().unwrap_or_default())
    };
    share["devices"].as_array().unwrap().iter().map(of).sum()
}

fn remote(address: &str, keys: &Path) -> Remote {
    let url = format!("{address}&passfile={}", keys.join(".pgpass").display());
    Remote::at(Address::parse(&url).unwrap(), KeySource::None)
}

fn passwords(folder: &Path, role: &str) {
    let path = folder.join(".pgpass");
    std::fs::write(&path, format!("127.0.0.1:*:memory:{role}:{}\n", password_of(role))).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

fn run_recall(stage: &Stage, arguments: &[&str], input: &str) {
    let mut command = stage.command("recall");
    command.args(arguments);
    let output = recall_tests::run(command, format!("{input}\n").as_bytes());
    assert_eq!(output.code(), 0, "{arguments:?}: {output:?}");
}

/// Returns the processor time of a process, in seconds.
fn cpu_of(pid: u32) -> f64 {
    recall_tests::postgres::cpu_seconds_of(pid)
}
