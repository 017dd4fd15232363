//! A daemon that a test kills, stops and continues, in addition to the stage's own.

use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::Stage;

/// How long a daemon may take to start. A daemon that takes longer will not start.
const PATIENCE: Duration = Duration::from_secs(30);

/// A running `recall daemon`. It is killed when dropped.
pub struct Daemon {
    child: Child,
}

impl Daemon {
    /// Starts a daemon without waiting for it.
    pub fn spawn(stage: &Stage) -> Self {
        Self::spawn_with(stage, Stdio::null())
    }

    /// Like [`Self::spawn`], with stderr redirected.
    pub fn spawn_with(stage: &Stage, stderr: Stdio) -> Self {
        Self::spawn_armed(stage, "", stderr)
    }

    /// Like [`Self::spawn_with`], with fail points armed, in the syntax of the `fail` crate.
    pub fn spawn_armed(stage: &Stage, points: &str, stderr: Stdio) -> Self {
        let mut command = stage.command("recall");
        command.env("RECALL_FAILPOINTS", points);
        command.arg("daemon").stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        Self { child: command.spawn().unwrap() }
    }

    /// Waits until the socket accepts connections.
    ///
    /// # Errors
    /// When the daemon ends first, or takes half a minute.
    pub fn wait_until_it_listens(&mut self, stage: &Stage) -> Result<(), String> {
        let begun = Instant::now();
        while !listens(&stage.socket(), self.pid()) {
            if let Some(ended) = self.child.try_wait().unwrap() {
                return Err(format!("the daemon ended with {ended}"));
            }
            if begun.elapsed() > PATIENCE {
                return Err("the daemon does not listen".to_owned());
            }
            std::thread::yield_now();
        }
        Ok(())
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns how the daemon ended, or `None` if it runs.
    pub fn ended(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().unwrap()
    }

    /// Waits until the daemon ends.
    pub fn wait(mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }

    /// Sends the daemon a signal that it survives: SIGSTOP, SIGCONT.
    pub fn signal(&self, signal: Signal) {
        rustix::process::kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Sends SIGKILL. Returns when the process is gone.
    pub fn kill(self) {
        drop(self);
    }
}

/// Returns whether this process listens at the socket. A socket that the test itself closed stays open for a moment
/// in each process that another test is starting.
pub fn listens(socket: &Path, pid: u32) -> bool {
    let Ok(stream) = std::os::unix::net::UnixStream::connect(socket) else { return false };
    #[cfg(target_os = "linux")]
    return rustix::net::sockopt::socket_peercred(&stream)
        .is_ok_and(|peer| u32::try_from(peer.pid.as_raw_nonzero().get()) == Ok(pid));
    #[cfg(not(target_os = "linux"))]
    {
        let _ = (stream, pid);
        true
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Sends the stage's daemon a signal that it survives: SIGSTOP, SIGCONT.
pub fn signal(stage: &Stage, signal: Signal) {
    let pid = Pid::from_raw(stage.daemon_pid().cast_signed()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

/// Returns the peak memory of a process in bytes, or 0 if the system does not report it.
pub fn peak_memory(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let kib =
        status.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse().ok());
    kib.map_or(0, |kib: u64| kib << 10)
}

/// Fills the backlog of a daemon that does not accept connections. The backlog is full until the result is dropped.
pub fn fill_backlog(stage: &Stage) -> Vec<rustix::fd::OwnedFd> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, connect, socket};
    let address = SocketAddrUnix::new(stage.socket()).unwrap();
    let connected = (0..5_000).map_while(|_| {
        let client = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        rustix::io::ioctl_fionbio(&client, true).unwrap();
        connect(&client, &address).ok().map(|()| client)
    });
    connected.collect()
}

/// Returns whether no process holds the home, not even one that is ending.
fn is_free(stage: &Stage) -> bool {
    let lock = std::fs::File::open(stage.home().join("data/recall.lock"));
    lock.is_ok_and(|lock| lock.try_lock().is_ok())
}

/// Kills every daemon of the home except these, whatever its parent and its state. This includes a daemon that a
/// killed command has forked, even before it runs its own program.
pub fn kill_all(stage: &Stage, spared: &[u32]) {
    let home = format!("RECALL_HOME={}\0", stage.home().display());
    let program = crate::binaries().join("recall");
    loop {
        let mut is_quiet = true;
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            if spared.contains(&pid.cast_unsigned()) {
                continue;
            }
            // If a process has ended or belongs to another user, its link cannot be read.
            if !std::fs::read_link(entry.path().join("exe")).is_ok_and(|exe| exe == program) {
                continue;
            }
            let of = |what: &str| std::fs::read(entry.path().join(what)).unwrap_or_default();
            let environment = of("environ");
            if environment.is_empty() {
                // The process is about to run its program, and may be a daemon of this home.
                is_quiet = false;
                continue;
            }
            let is_ours = memchr::memmem::find(&environment, home.as_bytes()).is_some();
            let is_daemon = of("cmdline").ends_with(b"recall\0daemon\0");
            let parent = format!("PPid:\t{}\n", std::process::id());
            let is_command = memchr::memmem::find(&of("status"), parent.as_bytes()).is_some();
            if is_ours && (is_daemon || !is_command) {
                is_quiet = false;
                let _ = rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL);
            }
        }
        if is_quiet && is_free(stage) {
            return;
        }
        std::thread::yield_now();
    }
}
