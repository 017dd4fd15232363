//! Where files are stored. The shim, the daemon and every command compute the same paths.
//!
//! | what | default | with `RECALL_HOME=DIR` |
//! |---|---|---|
//! | config | `$XDG_CONFIG_HOME/recall/config.toml` | `DIR/config.toml` |
//! | database, lock, index, backups | `$XDG_DATA_HOME/recall/` | `DIR/data/` |
//! | spool, log | `$XDG_STATE_HOME/recall/` | `DIR/state/` |
//! | socket | `$XDG_RUNTIME_DIR/recall/` if it is ours alone, else the state folder | `DIR/run/` |
//!
//! macOS has its own folders instead of XDG's (the `directories` crate knows them). A socket's path is limited to
//! about a hundred bytes. A longer one moves to the user's runtime folder under a name made from a hash of the long
//! path, so shim and daemon compute the same path independently. Processes with different environments may still
//! disagree, for example a hook without `XDG_RUNTIME_DIR`; then the lock file beside the database names the live
//! socket, see [`LockNote`].

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use crate::folder::{self, FolderError, FolderState};
use crate::losses::{BESIDE_SPOOL, Counter};

/// The longest socket path that the system accepts, in bytes without the terminating NUL (`sun_path` of
/// `sockaddr_un`).
pub const MAX_SOCKET_PATH: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

const SOCKET_NAME: &str = "recall.sock";

/// Why the paths could not be determined.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PathsError {
    #[error("neither HOME nor RECALL_HOME is set")]
    NoHome,
    #[error("{variable} must be an absolute path, not {}", path.display())]
    NotAbsolute { variable: &'static str, path: PathBuf },
    #[error(
        "socket path {} is longer than {MAX_SOCKET_PATH} bytes and there is no private runtime folder; set RECALL_HOME to a shorter path",
        path.display()
    )]
    SocketPathTooLong { path: PathBuf },
}

/// All paths that recall uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Paths {
    config_file: PathBuf,
    data_dir: PathBuf,
    state_dir: PathBuf,
    runtime_dir: PathBuf,
    socket: Result<PathBuf, PathsError>,
    /// `RECALL_HOME` itself, so that it is created private too.
    home: Option<PathBuf>,
    /// `XDG_RUNTIME_DIR`, whether used or not.
    xdg_runtime: Option<PathBuf>,
    /// The state folder used without `RECALL_HOME`.
    usual_state_dir: Option<PathBuf>,
}

impl Paths {
    /// Reads `RECALL_HOME`, or else `XDG_*` and `HOME`. Creates nothing.
    pub fn from_env() -> Result<Self, PathsError> {
        Self::from_variables(&|name| std::env::var_os(name))
    }

    /// Like [`Self::from_env`], but reads variables from any source. An empty variable counts as unset. A relative
    /// `XDG_*` is ignored, as its specification demands. A relative `RECALL_HOME` is an error, because it would mean a
    /// different memory in every folder.
    pub fn from_variables(variable: &dyn Fn(&str) -> Option<OsString>) -> Result<Self, PathsError> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty()).map(PathBuf::from);
        let runtime = || set("XDG_RUNTIME_DIR").filter(|path| path.is_absolute());
        if let Some(home) = set("RECALL_HOME") {
            if !home.is_absolute() {
                return Err(PathsError::NotAbsolute { variable: "RECALL_HOME", path: home });
            }
            let runtime_dir = home.join("run");
            return Ok(Self {
                config_file: home.join("config.toml"),
                data_dir: home.join("data"),
                state_dir: home.join("state"),
                socket: socket_path(&runtime_dir, runtime()),
                runtime_dir,
                home: Some(home),
                xdg_runtime: runtime(),
                usual_state_dir: Places::find(&set).ok().map(|places| places.state_dir),
            });
        }
        let places = Places::find(&set)?;
        let runtime_dir = runtime()
            .filter(|parent| usable_runtime(parent))
            .map_or_else(|| places.state_dir.clone(), |parent| parent.join("recall"));
        Ok(Self {
            config_file: places.config_dir.join("config.toml"),
            data_dir: places.data_dir,
            state_dir: places.state_dir,
            socket: socket_path(&runtime_dir, runtime()),
            runtime_dir,
            home: None,
            xdg_runtime: runtime(),
            usual_state_dir: None,
        })
    }

    pub fn config_file(&self) -> &Path {
        &self.config_file
    }

    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    pub fn database(&self) -> PathBuf {
        self.data_dir.join("recall.db")
    }

    /// The file that the running daemon locks. It contains a [`LockNote`].
    pub fn lock_file(&self) -> PathBuf {
        self.data_dir.join("recall.lock")
    }

    pub fn index_dir(&self) -> PathBuf {
        self.data_dir.join("index")
    }

    /// The folder of installed sentence models.
    pub fn models_dir(&self) -> PathBuf {
        self.data_dir().join("models")
    }

    /// The folder of vector files.
    pub fn vectors_dir(&self) -> PathBuf {
        self.data_dir.join("vectors")
    }

    pub fn backups_dir(&self) -> PathBuf {
        self.data_dir.join("backups")
    }

    pub fn state_dir(&self) -> &Path {
        &self.state_dir
    }

    pub fn spool_dir(&self) -> PathBuf {
        self.state_dir.join("spool")
    }

    pub fn log_dir(&self) -> PathBuf {
        self.state_dir.join("log")
    }

    pub fn log_file(&self) -> PathBuf {
        self.log_dir().join("recall.log")
    }

    /// The file that the shim touches when it starts a daemon. Its age is the time since the last attempt.
    pub fn start_stamp(&self) -> PathBuf {
        self.state_dir.join("daemon-start")
    }

    /// The folder of the socket. For the fallback of a long path it is the parent.
    pub fn runtime_dir(&self) -> &Path {
        self.socket.as_deref().ok().and_then(Path::parent).unwrap_or(&self.runtime_dir)
    }

    /// The file that tells programs how to reach the gateway.
    pub fn gateway_note(&self) -> PathBuf {
        self.runtime_dir().join("gateway.json")
    }

    /// The page that opens the viewer in a browser.
    pub fn viewer_page(&self) -> PathBuf {
        self.runtime_dir().join("viewer.html")
    }

    /// The socket on which the daemon listens, unless the lock file names another one.
    ///
    /// Fails only if the path is too long for a socket and there is no private runtime folder to fall back to.
    pub fn socket(&self) -> Result<&Path, PathsError> {
        self.socket.as_deref().map_err(Clone::clone)
    }

    /// The socket that the lock file names, if it is not [`Self::socket`].
    pub fn socket_in_lock_file(&self) -> Option<PathBuf> {
        let note = LockNote::read(&self.lock_file())?;
        (Some(note.socket.as_path()) != self.socket.as_deref().ok()).then_some(note.socket)
    }

    /// The folders that must be ours alone before anything is written to the state folder, outermost first.
    pub fn state_folders(&self) -> Vec<PathBuf> {
        self.below_home(&self.state_dir)
    }

    /// The files that can count lost events, preferred first. Several memories may share the last ones.
    pub(crate) fn loss_counters(&self) -> Vec<Counter> {
        let spool = [self.state_folders(), vec![self.spool_dir()]].concat();
        let within = [spool, self.below_home(&self.runtime_dir), self.below_home(&self.data_dir)];
        let name = format!("dropped-{:016x}", fnv1a(self.state_dir.as_os_str().as_bytes()));
        let outside = runtime_parents(self.xdg_runtime.clone())
            .filter(|parent| usable_runtime(parent))
            .map(|parent| parent.join("recall"))
            .chain(self.usual_state_dir.clone());
        let counter = |file: &str, folders| Counter { folders, file: file.to_owned() };
        let within = within.into_iter().map(|folders| counter(BESIDE_SPOOL, folders));
        within.chain(outside.map(|folder| counter(&name, vec![folder]))).collect()
    }

    fn below_home(&self, folder: &Path) -> Vec<PathBuf> {
        self.home.iter().cloned().chain([folder.to_path_buf()]).collect()
    }

    /// Creates the data, state and runtime folders with mode 0700, and removes access for group and others from
    /// existing ones. Refuses symlinks, files and other users' folders.
    pub fn create_folders(&self) -> Result<(), FolderError> {
        if let Some(home) = &self.home {
            folder::create_private(home)?;
        }
        for path in [self.data_dir(), self.state_dir(), self.runtime_dir()] {
            folder::create_private(path)?;
        }
        Ok(())
    }

    /// Creates only what the spool needs, for a shim that runs before any setup.
    pub fn create_state_folder(&self) -> Result<(), FolderError> {
        if let Some(home) = &self.home {
            folder::create_private(home)?;
        }
        folder::create_private(&self.state_dir)
    }
}

/// The contents of the daemon's lock file: its process id and the path of its socket, one per line. Further lines
/// belong to later versions and are ignored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LockNote {
    pub pid: u32,
    pub socket: PathBuf,
}

impl LockNote {
    /// The content of the lock file.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = format!("{}\n", self.pid).into_bytes();
        bytes.extend_from_slice(self.socket.as_os_str().as_bytes());
        bytes.push(b'\n');
        bytes
    }

    /// Parses the lock file; `None` unless both lines are complete and the path is absolute.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let mut lines = bytes.split(|byte| *byte == b'\n');
        let pid = std::str::from_utf8(lines.next()?).ok()?.trim().parse().ok()?;
        let socket = PathBuf::from(OsStr::from_bytes(lines.next()?));
        // The newline after the path proves that it was written completely.
        lines.next()?;
        socket.is_absolute().then_some(Self { pid, socket })
    }

    /// Reads a lock file. `None` if it is missing, incomplete, or not a regular file of ours.
    pub fn read(path: &Path) -> Option<Self> {
        let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file =
            fs::OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path).ok()?;
        let metadata = file.metadata().ok()?;
        if !metadata.is_file() || metadata.uid() != rustix::process::geteuid().as_raw() {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(4096).read_to_end(&mut bytes).ok()?;
        Self::parse(&bytes)
    }
}

/// The platform's folders for one user.
struct Places {
    config_dir: PathBuf,
    data_dir: PathBuf,
    state_dir: PathBuf,
}

impl Places {
    #[cfg(not(target_os = "macos"))]
    fn find(set: &dyn Fn(&str) -> Option<PathBuf>) -> Result<Self, PathsError> {
        let place = |variable: &str, below_home: &str| -> Result<PathBuf, PathsError> {
            if let Some(path) = set(variable).filter(|path| path.is_absolute()) {
                return Ok(path.join("recall"));
            }
            let home = set("HOME").ok_or(PathsError::NoHome)?;
            if !home.is_absolute() {
                return Err(PathsError::NotAbsolute { variable: "HOME", path: home });
            }
            Ok(home.join(below_home).join("recall"))
        };
        Ok(Self {
            config_dir: place("XDG_CONFIG_HOME", ".config")?,
            data_dir: place("XDG_DATA_HOME", ".local/share")?,
            state_dir: place("XDG_STATE_HOME", ".local/state")?,
        })
    }

    #[cfg(target_os = "macos")]
    fn find(_set: &dyn Fn(&str) -> Option<PathBuf>) -> Result<Self, PathsError> {
        let project = directories::ProjectDirs::from("", "", "recall").ok_or(PathsError::NoHome)?;
        Ok(Self {
            config_dir: project.config_dir().to_path_buf(),
            data_dir: project.data_dir().to_path_buf(),
            // macOS has no state folder; a separate one keeps the rows of the table distinct.
            state_dir: project.data_local_dir().join("state"),
        })
    }
}

/// Whether `parent/recall` may hold our socket: it is our folder with mode 0700, or it does not exist and `parent` is.
fn usable_runtime(parent: &Path) -> bool {
    match folder::look(&parent.join("recall")) {
        FolderState::Private => true,
        FolderState::Absent => folder::look(parent) == FolderState::Private,
        FolderState::Open | FolderState::Foreign | FolderState::Symlink | FolderState::NotAFolder => false,
    }
}

/// The socket's path, or the short fallback if that is too long.
fn socket_path(runtime_dir: &Path, xdg_runtime: Option<PathBuf>) -> Result<PathBuf, PathsError> {
    let path = runtime_dir.join(SOCKET_NAME);
    if path.as_os_str().len() <= MAX_SOCKET_PATH {
        return Ok(path);
    }
    let name = format!("{:016x}.sock", fnv1a(path.as_os_str().as_bytes()));
    runtime_parents(xdg_runtime)
        .filter(|parent| usable_runtime(parent))
        .map(|parent| parent.join("recall").join(&name))
        .find(|stand_in| stand_in.as_os_str().len() <= MAX_SOCKET_PATH)
        .ok_or(PathsError::SocketPathTooLong { path })
}

/// Possible runtime folders of a user. A hook may run without the variable although the daemon has it, so the usual
/// folder is always included.
fn runtime_parents(xdg_runtime: Option<PathBuf>) -> impl Iterator<Item = PathBuf> {
    let usual = PathBuf::from(format!("/run/user/{}", rustix::process::geteuid().as_raw()));
    let other = (xdg_runtime.as_ref() != Some(&usual)).then_some(usual);
    xdg_runtime.into_iter().chain(other)
}

/// FNV-1a, 64 bits. It must be the same in both binaries, which the standard library's hasher does not guarantee. A
/// collision is no attack, because the folder is ours alone.
fn fnv1a(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3)
    })
}

/// A path as text for the wire, lossy: a path that is not UTF-8 must not stop an event.
pub fn lossy(path: PathBuf) -> String {
    String::from_utf8(path.into_os_string().into_vec())
        .unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn paths(variables: &[(&str, &str)]) -> Result<Paths, PathsError> {
        let variables: HashMap<String, OsString> =
            variables.iter().map(|(name, value)| ((*name).to_owned(), OsString::from(value))).collect();
        Paths::from_variables(&|name| variables.get(name).cloned())
    }

    fn private_tempdir() -> tempfile::TempDir {
        let dir = tempfile::tempdir().expect("temp dir");
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o700)).expect("chmod");
        dir
    }

    #[test]
    fn recall_home_holds_everything() {
        let paths = paths(&[("RECALL_HOME", "/r"), ("HOME", "/h"), ("XDG_DATA_HOME", "/d")]).expect("paths");
        assert_eq!(paths.config_file(), Path::new("/r/config.toml"));
        assert_eq!(paths.database(), Path::new("/r/data/recall.db"));
        assert_eq!(paths.lock_file(), Path::new("/r/data/recall.lock"));
        assert_eq!(paths.index_dir(), Path::new("/r/data/index"));
        assert_eq!(paths.backups_dir(), Path::new("/r/data/backups"));
        assert_eq!(paths.spool_dir(), Path::new("/r/state/spool"));
        assert_eq!(paths.log_file(), Path::new("/r/state/log/recall.log"));
        assert_eq!(paths.runtime_dir(), Path::new("/r/run"));
        assert_eq!(paths.socket(), Ok(Path::new("/r/run/recall.sock")));
    }

    #[test]
    #[cfg(not(target_os = "macos"))]
    fn the_defaults_are_those_of_xdg() {
        let paths = paths(&[("HOME", "/h"), ("XDG_STATE_HOME", "relative"), ("XDG_CONFIG_HOME", "/c")]);
        let paths = paths.expect("paths");
        assert_eq!(paths.config_file(), Path::new("/c/recall/config.toml"));
        assert_eq!(paths.data_dir(), Path::new("/h/.local/share/recall"));
        assert_eq!(paths.state_dir(), Path::new("/h/.local/state/recall"));
        assert_eq!(paths.socket(), Ok(Path::new("/h/.local/state/recall/recall.sock")));
    }

    #[test]
    #[cfg(not(target_os = "macos"))]
    fn a_missing_or_relative_home_is_an_error() {
        assert_eq!(paths(&[]), Err(PathsError::NoHome));
        assert_eq!(paths(&[("RECALL_HOME", ""), ("HOME", "")]), Err(PathsError::NoHome));
        assert!(matches!(paths(&[("RECALL_HOME", "here")]), Err(PathsError::NotAbsolute { .. })));
        assert!(matches!(paths(&[("HOME", "here")]), Err(PathsError::NotAbsolute { .. })));
    }

    #[test]
    #[cfg(not(target_os = "macos"))]
    fn the_runtime_folder_is_used_only_if_it_is_private() {
        let runtime = private_tempdir();
        let at = |runtime: &Path| {
            let runtime = runtime.to_str().expect("utf-8");
            paths(&[("HOME", "/h"), ("XDG_RUNTIME_DIR", runtime)]).expect("paths").runtime_dir().to_path_buf()
        };
        let fallback = Path::new("/h/.local/state/recall");
        assert_eq!(at(runtime.path()), runtime.path().join("recall"));

        let ours = runtime.path().join("recall");
        fs::create_dir(&ours).expect("mkdir");
        fs::set_permissions(&ours, fs::Permissions::from_mode(0o750)).expect("chmod");
        assert_eq!(at(runtime.path()), fallback, "open to the group");
        fs::set_permissions(&ours, fs::Permissions::from_mode(0o700)).expect("chmod");
        assert_eq!(at(runtime.path()), ours);

        fs::rename(&ours, runtime.path().join("elsewhere")).expect("rename");
        std::os::unix::fs::symlink("elsewhere", &ours).expect("symlink");
        assert_eq!(at(runtime.path()), fallback, "a symlink");
        fs::remove_file(&ours).expect("unlink");
        fs::set_permissions(runtime.path(), fs::Permissions::from_mode(0o755)).expect("chmod");
        assert_eq!(at(runtime.path()), fallback, "a parent open to others");
        assert_eq!(at(Path::new("relative")), fallback);
    }

    #[test]
    fn a_long_socket_path_moves_to_the_runtime_folder() {
        let runtime = private_tempdir();
        let long = format!("/{}", "x".repeat(MAX_SOCKET_PATH));
        let xdg = runtime.path().to_str().expect("utf-8");
        let first = paths(&[("RECALL_HOME", &long), ("XDG_RUNTIME_DIR", xdg)]).expect("paths");
        let socket = first.socket().expect("stand-in").to_path_buf();
        assert!(
            socket.starts_with(runtime.path().join("recall")) && socket.as_os_str().len() <= MAX_SOCKET_PATH
        );
        assert_eq!(first.runtime_dir(), runtime.path().join("recall"));

        let other = format!("/{}", "y".repeat(MAX_SOCKET_PATH));
        let other = paths(&[("RECALL_HOME", &other), ("XDG_RUNTIME_DIR", xdg)]).expect("paths");
        assert_ne!(other.socket().expect("stand-in"), socket, "another home, another socket");
    }

    #[test]
    fn the_longest_allowed_socket_path_is_used_unchanged() {
        let home = format!("/{}", "x".repeat(MAX_SOCKET_PATH - "/".len() - "/run/recall.sock".len()));
        let socket = paths(&[("RECALL_HOME", &home)]).expect("paths").socket().expect("fits").to_path_buf();
        assert_eq!(socket, Path::new(&home).join("run/recall.sock"));
        assert_eq!(socket.as_os_str().len(), MAX_SOCKET_PATH);
    }

    #[test]
    fn the_lock_file_names_the_live_socket() {
        let home = private_tempdir();
        let paths = paths(&[("RECALL_HOME", home.path().to_str().expect("utf-8"))]).expect("paths");
        assert_eq!(paths.socket_in_lock_file(), None);
        paths.create_folders().expect("folders");
        let note = LockNote { pid: 42, socket: PathBuf::from("/elsewhere/recall.sock") };
        fs::write(paths.lock_file(), note.to_bytes()).expect("write");
        assert_eq!(paths.socket_in_lock_file(), Some(note.socket));
        let same = LockNote { pid: 42, socket: paths.socket().expect("fits").to_path_buf() };
        fs::write(paths.lock_file(), same.to_bytes()).expect("write");
        assert_eq!(paths.socket_in_lock_file(), None, "nothing new");
    }

    #[test]
    fn only_a_complete_lock_note_is_parsed() {
        let note = LockNote { pid: 7, socket: PathBuf::from("/s") };
        assert_eq!(note.to_bytes(), b"7\n/s\n");
        assert_eq!(LockNote::parse(b"7\n/s\nlater: more\n"), Some(note));
        for torn in [&b""[..], b"7", b"7\n", b"7\n/s", b"x\n/s\n", b"7\nrelative\n", b"\n\n\n"] {
            assert_eq!(LockNote::parse(torn), None, "{torn:?}");
        }
    }

    #[test]
    fn a_lock_file_behind_a_symlink_is_not_read() {
        let dir = private_tempdir();
        fs::write(dir.path().join("real"), "7\n/s\n").expect("write");
        std::os::unix::fs::symlink("real", dir.path().join("link")).expect("symlink");
        assert_eq!(LockNote::read(&dir.path().join("link")), None);
        assert!(LockNote::read(&dir.path().join("real")).is_some());
    }
}
