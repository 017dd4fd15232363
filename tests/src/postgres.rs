//! A PostgreSQL server for one test. It has its own folder, port and user, and ends with the test. It touches nothing
//! else on the machine. In front of it a test can put PgBouncer in transaction mode, or a `Way` on which it cuts the
//! network.

use std::io::{BufRead, BufReader, BufWriter, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// The server's user if the tests run as root, because the server refuses to run as root.
const NOBODY: u32 = 65_534;
/// The unit in which the kernel counts processor time, on every Linux.
const TICKS_A_SECOND: f64 = 100.0;
const PATIENCE: Duration = Duration::from_secs(60);
/// How many ports to try. Another program may take a free port before the server does.
const PORTS_TO_TRY: usize = 5;

/// A server, and PgBouncer in front of it if the test wants it.
pub struct Cluster {
    folder: tempfile::TempDir,
    programs: PathBuf,
    server: Option<Child>,
    pooler: Option<(Child, u16)>,
    port: u16,
}

/// Returns the password of a role. It contains the role's name, so that a test can find whose password leaked.
pub fn password_of(role: &str) -> String {
    format!("swordfish: of {role}")
}

impl Cluster {
    /// Starts a server with the roles `admin` (the superuser), `mia`, `ben` and `zoe`, and an empty database
    /// `memory`. Prints a line and returns `None` if PostgreSQL is not installed.
    pub fn start() -> Option<Self> {
        let Some(programs) = programs() else {
            println!("skipped: PostgreSQL is not installed");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o755)).unwrap();
        let mut cluster = Self { folder, programs, server: None, pooler: None, port: 0 };
        std::fs::create_dir(cluster.own()).unwrap();
        cluster.give(&cluster.own());
        let secret = cluster.write("own/password", &password_of("admin"));
        let made = cluster
            .program("initdb")
            .args(["--no-sync", "--username=admin", "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C"])
            .arg(format!("--pwfile={}", secret.display()))
            .arg("-D")
            .arg(cluster.data())
            .stdout(Stdio::null())
            .status();
        assert!(made.unwrap().success(), "initdb");
        let settings = "listen_addresses = '127.0.0.1'\nfsync = off\nshared_buffers = 16MB\nmax_connections = 40\n\
                        logging_collector = off\nlog_statement = all\n";
        let file = cluster.data().join("postgresql.conf");
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, format!("{text}\n{settings}")).unwrap();
        let mut ports = std::iter::repeat_with(free_port).take(PORTS_TO_TRY);
        let is_up = ports.any(|port| {
            cluster.port = port;
            cluster.takes_port()
        });
        assert!(is_up, "the server does not start: {}", cluster.log());
        for role in ["mia", "ben", "zoe"] {
            cluster.sql("postgres", &format!("CREATE ROLE {role} LOGIN PASSWORD '{}'", password_of(role)));
        }
        cluster.sql("postgres", "CREATE DATABASE memory");
        Some(cluster)
    }

    /// Puts PgBouncer in front, in transaction mode and with one connection to the server for each role. Prints a
    /// line and returns `None` if it is not installed.
    pub fn pooled(mut self) -> Option<Self> {
        let Some(program) = in_path("pgbouncer") else {
            println!("skipped: PgBouncer is not installed");
            return None;
        };
        let users = ["admin", "mia", "ben", "zoe"]
            .map(|role| format!("\"{role}\" \"{}\"\n", password_of(role)))
            .concat();
        let users = self.write("own/users.txt", &users);
        for port in std::iter::repeat_with(free_port).take(PORTS_TO_TRY) {
            let settings = format!(
                "[databases]\n* = host=127.0.0.1 port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
                 auth_type = scram-sha-256\nauth_file = {}\npool_mode = transaction\ndefault_pool_size = 1\nunix_socket_dir =\n",
                self.port,
                users.display()
            );
            let settings = self.write("own/pgbouncer.ini", &settings);
            let mut child = self.as_user(&program).arg(settings).stderr(Stdio::null()).spawn().unwrap();
            if self.answers_at(port, &mut child) {
                self.pooler = Some((child, port));
                return Some(self);
            }
        }
        panic!("PgBouncer does not start");
    }

    /// Returns the port for the machines.
    pub fn port(&self) -> u16 {
        self.pooler.as_ref().map_or(self.port, |(_, port)| *port)
    }

    /// Returns the server's own port, which bypasses a pooler.
    pub fn server_port(&self) -> u16 {
        self.port
    }

    /// Runs statements as the superuser. Returns what `psql` prints, one line for each row.
    pub fn sql(&self, database: &str, statements: &str) -> String {
        let output = self.sql_as("admin", database, statements);
        output.unwrap_or_else(|error| panic!("{statements}: {error}"))
    }

    /// Runs statements as a role. Returns the error output of `psql` as `Err`.
    pub fn sql_as(&self, role: &str, database: &str, statements: &str) -> Result<String, String> {
        let output = self.psql(role, database, statements).output().unwrap();
        match output.status.success() {
            true => Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()),
            false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
        }
    }

    /// Begins a transaction of the superuser. It runs a statement and stays open.
    pub fn held_open(&self, statement: &str) -> HeldOpen {
        let mut command = self.psql("admin", "memory", "");
        command.args([
            "-c",
            "BEGIN",
            "-c",
            statement,
            "-c",
            "SELECT 'is open'",
            "-c",
            "SELECT pg_sleep(600)",
        ]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        while !line.contains("is open") {
            line.clear();
            assert!(stdout.read_line(&mut line).unwrap() > 0, "psql ended");
        }
        HeldOpen(child)
    }

    fn psql(&self, role: &str, database: &str, statements: &str) -> Command {
        self.psql_at(self.port, role, database, statements)
    }

    fn psql_at(&self, port: u16, role: &str, database: &str, statements: &str) -> Command {
        let mut command = Command::new(self.programs.join("psql"));
        command
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-p"])
            .arg(port.to_string())
            .args(["-U", role, "-d", database, "-c", statements])
            .env("PGPASSWORD", password_of(role));
        command
    }

    /// Puts many rows into a table of the database `memory`. The rows are lines in the format of `COPY`.
    pub fn loading(&self, table: &str) -> Loading {
        let mut command = self.psql("admin", "memory", &format!("COPY {table} FROM STDIN"));
        let mut psql = command.stdin(Stdio::piped()).spawn().unwrap();
        let rows = BufWriter::with_capacity(1 << 20, psql.stdin.take().unwrap());
        Loading { psql, rows }
    }

    /// Returns the processor time that the server and all its processes have used, in seconds.
    pub fn cpu_seconds(&self) -> f64 {
        let server = self.server.as_ref().map(Child::id).unwrap_or_default();
        // The time of a process that has ended is counted for the server.
        let children = std::fs::read_to_string(format!("/proc/{server}/task/{server}/children"));
        let children = children.unwrap_or_default();
        let children = children.split_whitespace().filter_map(|pid| pid.parse().ok());
        children.chain([server]).map(cpu_seconds_of).sum()
    }

    /// Ends the server, as an administrator does.
    pub fn stop(&mut self) {
        if let Some(mut server) = self.server.take() {
            signal(&server, rustix::process::Signal::INT);
            server.wait().unwrap();
        }
    }

    /// Starts the server again on its port.
    pub fn run(&mut self) {
        assert!(self.takes_port(), "the server does not start: {}", self.log());
    }

    /// Starts the server. Returns `false` if another program has its port, such as the server of another test.
    fn takes_port(&mut self) -> bool {
        let log = std::fs::File::options().create(true).append(true).open(self.log_path()).unwrap();
        let mut server = self.program("postgres");
        server.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]).arg("-k").arg(self.own());
        server.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        let mut server = server.spawn().unwrap();
        let is_up = self.answers_at(self.port, &mut server);
        self.server = Some(server);
        is_up
    }

    /// Waits until this server answers at a port. Returns `false` if the program that should listen there has ended.
    fn answers_at(&self, port: u16, program: &mut Child) -> bool {
        let data = self.data().display().to_string();
        let started = Instant::now();
        loop {
            let output = self.psql_at(port, "admin", "postgres", "SHOW data_directory").output().unwrap();
            if output.status.success() && String::from_utf8_lossy(&output.stdout).trim_end() == data {
                return true;
            }
            if program.try_wait().unwrap().is_some() {
                return false;
            }
            assert!(started.elapsed() < PATIENCE, "nothing answers at {port}: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Adds lines to a file of the server's settings, such as `pg_hba.conf`, so that they take precedence over the
    /// existing lines.
    pub fn configure(&mut self, file: &str, lines: &str) {
        let path = self.data().join(file);
        let text = std::fs::read_to_string(&path).unwrap();
        // Of two settings the last one takes effect, and of two rules the first one.
        let text =
            if file == "postgresql.conf" { format!("{text}\n{lines}\n") } else { format!("{lines}\n{text}") };
        std::fs::write(&path, text).unwrap();
        self.stop();
        self.run();
    }

    /// Writes a file that only the server can read.
    pub fn server_file(&self, name: &str, text: &str) -> PathBuf {
        self.write(&format!("own/{name}"), text)
    }

    /// Stops the server and copies its data, as a backup does.
    pub fn back_up(&mut self) -> PathBuf {
        let copy = self.own().join("backup");
        self.stop();
        let copied = self.as_user(Path::new("cp")).arg("-r").args([&self.data(), &copy]).status();
        assert!(copied.unwrap().success());
        self.run();
        copy
    }

    /// Replaces the server's data with a copy.
    pub fn restore(&mut self, copy: &Path) {
        self.stop();
        std::fs::remove_dir_all(self.data()).unwrap();
        std::fs::rename(copy, self.data()).unwrap();
        self.run();
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.log_path()).unwrap_or_default()
    }

    fn own(&self) -> PathBuf {
        self.folder.path().join("own")
    }

    fn data(&self) -> PathBuf {
        self.own().join("data")
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("server.log")
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        self.give(&path);
        path
    }

    fn give(&self, path: &Path) {
        if rustix::process::geteuid().is_root() {
            chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
        }
    }

    fn program(&self, name: &str) -> Command {
        self.as_user(&self.programs.join(name))
    }

    fn as_user(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.own());
        if rustix::process::geteuid().is_root() {
            command.uid(NOBODY).gid(NOBODY);
        }
        command
    }
}

/// A session of the server with an open transaction.
pub struct HeldOpen(Child);

impl HeldOpen {
    pub fn close(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Some((mut pooler, _)) = self.pooler.take() {
            signal(&pooler, rustix::process::Signal::TERM);
            let _ = pooler.kill();
            let _ = pooler.wait();
        }
        self.stop();
    }
}

/// Rows that are being copied into a table.
pub struct Loading {
    psql: Child,
    rows: BufWriter<ChildStdin>,
}

impl Loading {
    /// Ends the copy. Returns when all rows are in the table.
    pub fn end(self) {
        let Self { mut psql, rows } = self;
        drop(rows.into_inner().unwrap());
        assert!(psql.wait().unwrap().success(), "COPY");
    }
}

impl Write for Loading {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.rows.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.rows.flush()
    }
}

/// Returns the processor time of a process and of its children that have ended, in seconds. Returns 0 if there is no
/// such process.
pub fn cpu_seconds_of(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    // The name of the program may contain spaces. After it come the state and numbers.
    let after = stat.rsplit_once(')').map(|(_, after)| after).unwrap_or_default();
    let ticks: f64 =
        after.split_whitespace().skip(11).take(4).filter_map(|ticks| ticks.parse::<f64>().ok()).sum();
    ticks / TICKS_A_SECOND
}

/// A proxy to a port of this machine. A test can cut its connections.
pub struct Way {
    port: u16,
    state: Arc<Mutex<Passage>>,
}

struct Passage {
    /// How many more bytes pass towards the server. With `None`, all pass.
    left: Option<usize>,
    open: Vec<TcpStream>,
}

impl Way {
    pub fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let own = listener.local_addr().unwrap().port();
        let state = Arc::new(Mutex::new(Passage { left: None, open: Vec::new() }));
        let shared = Arc::clone(&state);
        std::thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                pass(&client, port, &shared);
            }
        });
        Self { port: own, state }
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Lets this many bytes pass towards the server. Then it cuts every connection.
    pub fn cut_after(&self, bytes: usize) {
        self.set(Some(bytes));
    }

    /// Lets everything pass again.
    pub fn mend(&self) {
        self.set(None);
    }

    fn set(&self, left: Option<usize>) {
        let mut passage = self.state.lock().unwrap();
        passage.left = left;
        for stream in passage.open.drain(..) {
            let _ = stream.shutdown(Shutdown::Both);
        }
    }
}

fn pass(client: &TcpStream, port: u16, state: &Arc<Mutex<Passage>>) {
    let Ok(server) = TcpStream::connect(("127.0.0.1", port)) else { return };
    let clones = [client, &server].map(|stream| stream.try_clone().unwrap());
    state.lock().unwrap().open.extend(clones);
    let (mut from_client, mut to_server) = (client.try_clone().unwrap(), server.try_clone().unwrap());
    let shared = Arc::clone(state);
    std::thread::spawn(move || {
        let mut buffer = [0_u8; 4096];
        while let Ok(read @ 1..) = from_client.read(&mut buffer) {
            let passes = match &mut shared.lock().unwrap().left {
                None => read,
                Some(left) => {
                    let passes = read.min(*left);
                    *left -= passes;
                    passes
                }
            };
            if to_server.write_all(&buffer[..passes]).is_err() || passes < read {
                break;
            }
        }
        let _ = to_server.shutdown(Shutdown::Both);
        let _ = from_client.shutdown(Shutdown::Both);
    });
    let (mut from_server, mut to_client) = (server, client.try_clone().unwrap());
    std::thread::spawn(move || {
        let _ = std::io::copy(&mut from_server, &mut to_client);
        let _ = to_client.shutdown(Shutdown::Both);
    });
}

/// Returns the folder of the server's programs. Debian keeps it outside of the `PATH`.
fn programs() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let mut folders: Vec<PathBuf> = versions.map(|version| version.path().join("bin")).collect();
    folders.sort();
    folders.extend(in_path("postgres").and_then(|program| program.parent().map(Path::to_owned)));
    let is_whole =
        |folder: &PathBuf| ["initdb", "postgres", "psql"].iter().all(|name| folder.join(name).exists());
    folders.into_iter().rev().find(is_whole)
}

/// Returns the path of a program in the `PATH` or in the administrator's folder.
fn in_path(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    folders.map(|folder| folder.join(name)).find(|program| program.exists())
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn signal(child: &Child, signal: rustix::process::Signal) {
    let _ = rustix::process::kill_process(rustix::process::Pid::from_child(child), signal);
}
