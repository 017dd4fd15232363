//! The lease: a file next to the lock file that names the process that holds the data folder.
//!
//! A process of this boot and PID namespace can be looked up by its id and start time. For any other process only the
//! heartbeat counts: a number in the file that increases every few seconds. A lease also identifies its lock file, so
//! a copy of the data folder counts as held by nobody.

use std::fs::{File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use recall_protocol::boot::BootStamp;

use super::file_system::FileSystem;

/// The maximum size of a lease that is read.
const LONGEST: u64 = 4096;
/// The pause between two checks for a heartbeat.
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Identifies the process that holds a folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lease {
    pub(super) host: String,
    /// The boot id of its kernel, in hex digits.
    pub(super) boot: String,
    /// The inode of its PID namespace; 0 if there is none.
    pub(super) space: u64,
    pub(super) pid: u32,
    /// The start time of the process, in ticks since the boot; 0 if unknown.
    pub(super) started: u64,
    /// The inode of the lock file.
    pub(super) lock: u64,
    /// The number of heartbeats so far.
    pub(super) beat: u64,
}

/// The state of the process that a lease names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Life {
    Living,
    Over,
    /// The process cannot be looked up from here.
    Unclear,
}

impl Lease {
    /// Creates the lease of this process.
    pub(super) fn of_this_process(lock: u64) -> Self {
        let boot = BootStamp::now().boot_id.iter().map(|byte| format!("{byte:02x}")).collect();
        let pid = std::process::id();
        let started = match process(pid) {
            Process::Runs { started } => started,
            Process::Gone | Process::Unknown => 0,
        };
        Self { host: host(), boot, space: space(), pid, started, lock, beat: 0 }
    }

    pub(super) fn to_text(&self) -> String {
        let Self { host, boot, space, pid, started, lock, beat } = self;
        // The heartbeat has a fixed width, so it can be overwritten in place.
        format!(
            "host {host}\nboot {boot}\nspace {space}\npid {pid}\nstarted {started}\nlock {lock}\nbeat {beat:020}\n"
        )
    }

    /// Returns `None` unless every line is present.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut lines = text.split_inclusive('\n').filter_map(|line| line.strip_suffix('\n'));
            lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        };
        Some(Self {
            host: value("host")?.to_owned(),
            boot: value("boot")?.to_owned(),
            space: value("space")?.parse().ok()?,
            pid: value("pid")?.parse().ok()?,
            started: value("started")?.parse().ok()?,
            lock: value("lock")?.parse().ok()?,
            beat: value("beat")?.parse().ok()?,
        })
    }

    /// Reads a lease. `None` if it is missing, incomplete, or not a regular file of ours.
    pub(super) fn read(path: &Path) -> Option<Self> {
        let file = open(path).ok()?;
        let found = file.metadata().ok()?;
        if !found.is_file() || found.uid() != rustix::process::geteuid().as_raw() {
            return None;
        }
        let mut text = String::new();
        file.take(LONGEST).read_to_string(&mut text).ok()?;
        Self::parse(&text)
    }

    /// Whether both leases were written by the same process.
    pub(super) fn is_of_same_process(&self, other: &Self) -> bool {
        self.is_of_same_system(other) && (self.pid, self.started) == (other.pid, other.started)
    }

    /// Whether the process of the lease can be looked up on this system.
    pub(super) fn is_of_same_system(&self, other: &Self) -> bool {
        (&self.boot, self.space) == (&other.boot, other.space)
    }

    /// Evaluates a lease found next to a lock that this process now holds.
    pub(super) fn judged_by(&self, own: &Self, system: FileSystem) -> Life {
        if self.lock != own.lock || self.is_of_same_process(own) {
            return Life::Over;
        }
        let is_named = self.started != 0 && own.started != 0 && !self.boot.bytes().all(|digit| digit == b'0');
        if is_named && self.is_of_same_system(own) {
            return match process(self.pid) {
                Process::Runs { started } if started == self.started => Life::Living,
                Process::Runs { .. } | Process::Gone => Life::Over,
                Process::Unknown => Life::Unclear,
            };
        }
        match system {
            // Its process held the lock that we now hold, so it has ended.
            FileSystem::Local => Life::Over,
            FileSystem::Shared(_) => Life::Unclear,
        }
    }

    /// Waits for a heartbeat of a lease whose process cannot be looked up. Blocks.
    pub(super) fn beats_within(&self, path: &Path, patience: Duration) -> Life {
        let begun = Instant::now();
        loop {
            match Self::read(path) {
                Some(now) if now == *self => {}
                Some(_) => return Life::Living,
                None => return Life::Over,
            }
            if begun.elapsed() >= patience {
                return Life::Over;
            }
            std::thread::sleep(LOOK_EVERY);
        }
    }
}

/// Opens a lease for reading. This makes a network file system query its server.
pub(super) fn open(path: &Path) -> std::io::Result<File> {
    let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
    OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)
}

/// The state of a process, according to the system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Process {
    Runs {
        started: u64,
    },
    Gone,
    /// The system does not provide the information.
    Unknown,
}

#[cfg(target_os = "linux")]
fn process(pid: u32) -> Process {
    let Ok(text) = std::fs::read_to_string(format!("/proc/{pid}/stat")) else {
        return if Path::new("/proc/self/stat").exists() { Process::Gone } else { Process::Unknown };
    };
    of_stat(&text).unwrap_or(Process::Unknown)
}

/// Parses a line of `/proc/PID/stat`. The name is in parentheses, and may itself contain parentheses.
#[cfg(any(target_os = "linux", test))]
fn of_stat(text: &str) -> Option<Process> {
    let (_, fields) = text.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return Some(Process::Gone);
    }
    Some(Process::Runs { started: fields.nth(18)?.parse().ok()? })
}

#[cfg(not(target_os = "linux"))]
fn process(_pid: u32) -> Process {
    Process::Unknown
}

/// The inode of this process's PID namespace.
fn space() -> u64 {
    std::fs::metadata("/proc/self/ns/pid").map_or(0, |found| found.ino())
}

/// The name of this machine or container, to show to people.
fn host() -> String {
    let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let name: String =
        name.chars().filter(|letter| !letter.is_control() && !letter.is_whitespace()).collect();
    if name.is_empty() { "unnamed".to_owned() } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NFS: FileSystem = FileSystem::Shared("NFS");

    fn lease() -> Lease {
        Lease::of_this_process(7)
    }

    #[test]
    fn a_truncated_lease_is_rejected() {
        let lease = lease();
        let text = lease.to_text();
        assert_eq!(Lease::parse(&text), Some(lease));
        for cut in 0..text.len() {
            assert_eq!(Lease::parse(&text[..cut]), None, "{cut}");
        }
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn the_lease_of_a_process_on_this_system_lasts_while_it_runs() {
        let own = lease();
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let Process::Runs { started } = process(child.id()) else { panic!("it runs") };
        let other = Lease { pid: child.id(), started, ..own.clone() };
        for system in [FileSystem::Local, NFS] {
            assert_eq!(other.judged_by(&own, system), Life::Living);
            let reused = Lease { started: started + 1, ..other.clone() };
            assert_eq!(reused.judged_by(&own, system), Life::Over, "another process got its id");
            let copied = Lease { lock: 8, ..other.clone() };
            assert_eq!(copied.judged_by(&own, system), Life::Over, "a copy of the folder");
        }
        child.kill().unwrap();
        // A zombie holds nothing, nor does a collected one.
        while process(child.id()) != Process::Gone {
            std::thread::yield_now();
        }
        assert_eq!(other.judged_by(&own, NFS), Life::Over);
        child.wait().unwrap();
        assert_eq!(other.judged_by(&own, NFS), Life::Over);
    }

    #[test]
    fn a_lease_of_another_system_is_unclear_on_nfs_and_over_on_a_local_disk() {
        let own = lease();
        let elsewhere = Lease { boot: "ab".repeat(16), host: "far".to_owned(), ..own.clone() };
        let container = Lease { space: own.space + 1, ..own.clone() };
        for other in [elsewhere, container] {
            assert_eq!(other.judged_by(&own, FileSystem::Local), Life::Over);
            assert_eq!(other.judged_by(&own, NFS), Life::Unclear);
        }
    }

    #[test]
    fn a_lease_is_living_only_if_its_heartbeat_increases() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("lease");
        let found = lease();
        std::fs::write(&path, found.to_text()).unwrap();
        assert_eq!(found.beats_within(&path, Duration::ZERO), Life::Over);
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| found.beats_within(&path, Duration::from_secs(30)));
            let beaten = folder.path().join("beaten");
            std::fs::write(&beaten, Lease { beat: 1, ..found.clone() }.to_text()).unwrap();
            std::fs::rename(&beaten, &path).unwrap();
            assert_eq!(waits.join().unwrap(), Life::Living);
        });
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found.beats_within(&path, Duration::from_secs(30)), Life::Over);
    }

    #[test]
    fn a_process_name_with_parentheses_is_parsed() {
        let line = "12 (a) b) (c) S 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 4 0 991 1 2";
        assert_eq!(of_stat(line), Some(Process::Runs { started: 991 }));
        let zombie = "12 (a) Z 1 1 1 0 -1 4194560 1 2 3 4 5 6 7 8 20 0 4 0 991 1 2";
        assert_eq!(of_stat(zombie), Some(Process::Gone));
        assert_eq!(of_stat("12"), None);
    }
}
