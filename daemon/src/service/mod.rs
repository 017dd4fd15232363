//! The daemon as a user service: a systemd user unit with its socket, or a launch agent.
//!
//! The service is optional. Without a service manager (containers, remote shells without a session) the hook client
//! starts the daemon. So "unavailable" is a result here, not an error.
//!
//! **Invariant:** other programs run only through [`Commands`], and the process's environment is read only through
//! [`Environment`]. Nothing here knows agents.

pub mod commands;
pub mod environment;
mod launchd;
mod systemd;

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use recall_protocol::folder::FolderError;
use recall_protocol::paths::PathsError;
use thiserror::Error;

use commands::{CommandError, Commands, Processes};
use environment::Environment;

/// Why the service could not be set up.
#[derive(Debug, Error)]
pub enum ServiceError {
    #[error("cannot {deed} {}", path.display())]
    Io { deed: &'static str, path: PathBuf, source: io::Error },
    #[error(transparent)]
    Command(#[from] CommandError),
    /// A unit file consists of lines of text, and this path does not fit in one.
    #[error("{} contains characters that a service file cannot contain", .0.display())]
    Path(PathBuf),
    #[error(transparent)]
    Places(#[from] PathsError),
    #[error(transparent)]
    Folder(#[from] FolderError),
    #[error("cannot find the home folder")]
    NoHome,
}

/// The service manager of this system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Manager {
    Systemd,
    Launchd,
}

impl Manager {
    fn here() -> Self {
        if cfg!(target_os = "macos") { Self::Launchd } else { Self::Systemd }
    }
}

/// A file for the service manager, with its intended content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnitFile {
    pub path: PathBuf,
    pub text: String,
}

impl UnitFile {
    fn is_current(&self) -> bool {
        fs::read_to_string(&self.path).is_ok_and(|text| text == self.text)
    }

    /// Replaces the file atomically, so that the manager never reads half a unit.
    fn write(&self) -> Result<(), ServiceError> {
        let failed = |deed| move |source| ServiceError::Io { deed, path: self.path.clone(), source };
        let folder = self.path.parent().unwrap_or(Path::new("/"));
        fs::create_dir_all(folder).map_err(failed("create the folder of"))?;
        let mut temporary = tempfile::NamedTempFile::new_in(folder).map_err(failed("write"))?;
        temporary.write_all(self.text.as_bytes()).map_err(failed("write"))?;
        temporary.as_file().sync_all().map_err(failed("write"))?;
        temporary.persist(&self.path).map_err(|error| failed("write")(error.error))?;
        Ok(())
    }
}

fn remove(path: &Path) -> Result<(), ServiceError> {
    match fs::remove_file(path) {
        Err(source) if source.kind() != io::ErrorKind::NotFound => {
            Err(ServiceError::Io { deed: "remove", path: path.to_path_buf(), source })
        }
        _ => Ok(()),
    }
}

/// The result of [`Service::plan`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    /// No service manager is available; the text is the reason, in one line.
    Unavailable(String),
    /// Everything is set up already.
    Current,
    /// These files would be written, and the service would be (re)started.
    Write(Vec<UnitFile>),
}

/// The result of [`Service::install`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ServiceChange {
    Unavailable(String),
    Current,
    Installed(Vec<PathBuf>),
}

/// The result of [`Service::uninstall`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Removal {
    NothingThere,
    Removed(Vec<PathBuf>),
}

/// The state of the service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Status {
    Unavailable(String),
    NotInstalled,
    Installed(Installed),
}

/// An installed service, which may not work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Installed {
    pub files: Vec<PathBuf>,
    /// The program that the service starts.
    pub program: Option<PathBuf>,
    /// Whether that program exists and is executable.
    pub program_state: ProgramState,
    /// The state of each unit as the manager reports it, such as `recall.socket` and `active`.
    pub units: Vec<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProgramState {
    Executable,
    Missing,
}

/// The user's service in an environment.
#[derive(Clone, Copy)]
pub struct Service<'a> {
    manager: Manager,
    environment: &'a Environment,
    commands: &'a dyn Commands,
}

impl<'a> Service<'a> {
    pub fn new(environment: &'a Environment, commands: &'a dyn Commands) -> Self {
        Self { manager: Manager::here(), environment, commands }
    }

    /// Returns the changes that [`Service::install`] would make for the daemon in the program `recall`.
    pub fn plan(&self, recall: &Path) -> Result<Plan, ServiceError> {
        if let Some(why) = self.unavailable() {
            return Ok(Plan::Unavailable(why));
        }
        let files = self.files(recall)?;
        if files.iter().all(UnitFile::is_current) && self.is_listening() {
            return Ok(Plan::Current);
        }
        Ok(Plan::Write(files))
    }

    /// Writes the files and starts the service. Stops a daemon that was started by hand. Changes nothing if everything
    /// is already set up.
    pub fn install(&self, recall: &Path) -> Result<ServiceChange, ServiceError> {
        let files = match self.plan(recall)? {
            Plan::Unavailable(why) => return Ok(ServiceChange::Unavailable(why)),
            Plan::Current => return Ok(ServiceChange::Current),
            Plan::Write(files) => files,
        };
        for file in &files {
            file.write()?;
        }
        // A running daemon holds the lock, so the manager's daemon would exit immediately, again and again. If no
        // daemon is running, the command fails, which is ignored.
        let stop_daemon = || drop(self.commands.run(recall.as_os_str(), &["ctl", "stop"]));
        match self.manager {
            Manager::Systemd => systemd::start(self.commands, stop_daemon)?,
            Manager::Launchd => launchd::start(self.commands, &files, self.environment, stop_daemon)?,
        }
        Ok(ServiceChange::Installed(files.into_iter().map(|file| file.path).collect()))
    }

    /// Stops the service and removes its files. Works even without the manager.
    pub fn uninstall(&self) -> Result<Removal, ServiceError> {
        let paths: Vec<_> = self.paths().into_iter().filter(|path| path.exists()).collect();
        if paths.is_empty() {
            return Ok(Removal::NothingThere);
        }
        match self.manager {
            Manager::Systemd => systemd::stop(self.commands),
            Manager::Launchd => launchd::stop(self.commands),
        }
        for path in &paths {
            remove(path)?;
        }
        if self.manager == Manager::Systemd {
            systemd::forget(self.commands, self.environment)?;
        }
        Ok(Removal::Removed(paths))
    }

    pub fn status(&self) -> Status {
        let files: Vec<_> = self.paths().into_iter().filter(|path| path.exists()).collect();
        if files.is_empty() {
            return self.unavailable().map_or(Status::NotInstalled, Status::Unavailable);
        }
        let texts = files.iter().filter_map(|path| fs::read_to_string(path).ok());
        let program = texts.into_iter().find_map(|text| match self.manager {
            Manager::Systemd => systemd::program(&text),
            Manager::Launchd => launchd::program(&text),
        });
        let program_state = match &program {
            Some(program) if environment::is_executable(program) => ProgramState::Executable,
            _ => ProgramState::Missing,
        };
        let units = match self.manager {
            Manager::Systemd => systemd::states(self.commands),
            Manager::Launchd => launchd::states(self.commands),
        };
        Status::Installed(Installed { files, program, program_state, units })
    }

    fn unavailable(&self) -> Option<String> {
        // Each user has one service, which serves only one home.
        if self.environment.variable("RECALL_HOME").is_some() {
            return Some("RECALL_HOME is set; the service only serves the default home".into());
        }
        match self.manager {
            Manager::Systemd => systemd::unavailable(self.commands),
            Manager::Launchd => launchd::unavailable(self.commands),
        }
    }

    fn is_listening(&self) -> bool {
        match self.manager {
            Manager::Systemd => systemd::is_listening(self.commands),
            Manager::Launchd => launchd::is_listening(self.commands),
        }
    }

    fn files(&self, recall: &Path) -> Result<Vec<UnitFile>, ServiceError> {
        match self.manager {
            Manager::Systemd => systemd::files(recall, self.environment),
            Manager::Launchd => launchd::files(recall, self.environment),
        }
    }

    fn paths(&self) -> Vec<PathBuf> {
        match self.manager {
            Manager::Systemd => systemd::paths(self.environment),
            Manager::Launchd => launchd::paths(self.environment),
        }
    }
}

/// The variables that locate recall's files. A service manager does not know the variables of a login shell; without
/// them the daemon would look for the spool elsewhere.
const PASSED_ON: [&str; 3] = ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"];

/// Returns the variables of [`PASSED_ON`] that are set to an absolute path, as text.
fn passed_on(environment: &Environment) -> Result<Vec<(&'static str, String)>, ServiceError> {
    let set = PASSED_ON.into_iter().filter_map(|name| Some((name, environment.folder(name)?)));
    set.filter(|(_, folder)| folder.is_absolute())
        .map(|(name, folder)| Ok((name, line_of(&folder)?)))
        .collect()
}

/// Returns a path as one line of text.
fn line_of(path: &Path) -> Result<String, ServiceError> {
    let text = path.to_str().filter(|text| !text.chars().any(char::is_control));
    text.map(str::to_owned).ok_or_else(|| ServiceError::Path(path.to_path_buf()))
}

/// Sets up the service of this process's user; `recall` is the program's absolute path.
pub fn install(recall: &Path) -> Result<ServiceChange, ServiceError> {
    let environment = Environment::of_process().ok_or(ServiceError::NoHome)?;
    Service::new(&environment, &Processes).install(recall)
}

/// Removes the service of this process's user.
pub fn uninstall() -> Result<Removal, ServiceError> {
    let environment = Environment::of_process().ok_or(ServiceError::NoHome)?;
    Service::new(&environment, &Processes).uninstall()
}

/// The state of the service of this process's user.
pub fn status() -> Result<Status, ServiceError> {
    let environment = Environment::of_process().ok_or(ServiceError::NoHome)?;
    Ok(Service::new(&environment, &Processes).status())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::ffi::OsStr;
    use std::os::unix::fs::PermissionsExt;

    /// Records the commands it is given, and fails for those that a test names.
    #[derive(Default)]
    struct Recorded {
        lines: RefCell<Vec<String>>,
        failing: &'static [&'static str],
    }

    impl Recorded {
        fn failing(failing: &'static [&'static str]) -> Self {
            Self { failing, ..Self::default() }
        }

        fn take(&self) -> Vec<String> {
            self.lines.take()
        }
    }

    impl Commands for Recorded {
        fn run(&self, program: &OsStr, args: &[&str]) -> Result<String, CommandError> {
            let name = Path::new(program).file_name().unwrap_or_default();
            let line = format!("{} {}", name.display(), args.join(" "));
            self.lines.borrow_mut().push(line.clone());
            if self.failing.iter().any(|failing| line.contains(failing)) {
                return Err(CommandError::Failed { line, output: "inactive".into() });
            }
            Ok("active".into())
        }
    }

    fn systemd<'a>(environment: &'a Environment, commands: &'a Recorded) -> Service<'a> {
        Service { manager: Manager::Systemd, environment, commands }
    }

    fn home(variables: &[(&str, &str)]) -> (tempfile::TempDir, Environment) {
        let folder = tempfile::tempdir().unwrap();
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        let environment = Environment::new(folder.path().into(), variables);
        (folder, environment)
    }

    const RECALL: &str = "/opt/bin/recall";

    #[test]
    fn systemd_units_are_installed_once_and_removed_completely() {
        let (folder, environment) = home(&[]);
        let units = folder.path().join(".config/systemd/user");
        let commands = Recorded::default();
        let service = systemd(&environment, &commands);
        assert_eq!(service.status(), Status::NotInstalled);
        commands.take();

        let paths = vec![units.join("recall.socket"), units.join("recall.service")];
        assert_eq!(service.install(Path::new(RECALL)).unwrap(), ServiceChange::Installed(paths.clone()));
        assert_eq!(
            commands.take(),
            [
                "systemctl --user show-environment",
                "systemctl --user daemon-reload",
                "systemctl --user stop recall.socket recall.service",
                "recall ctl stop",
                "systemctl --user enable --now recall.socket",
            ]
        );
        assert_eq!(service.install(Path::new(RECALL)).unwrap(), ServiceChange::Current);
        assert!(matches!(service.plan(Path::new("/new/recall")).unwrap(), Plan::Write(_)));
        assert!(fs::read_to_string(&paths[1]).unwrap().contains(RECALL));

        assert_eq!(service.uninstall().unwrap(), Removal::Removed(paths));
        assert!(!folder.path().join(".config/systemd").exists(), "the folders for the units are gone too");
        assert_eq!(service.uninstall().unwrap(), Removal::NothingThere);
    }

    #[test]
    fn installing_a_launch_agent_creates_the_folder_of_its_socket() {
        let (folder, environment) = home(&[]);
        let commands = Recorded::default();
        let service = Service { manager: Manager::Launchd, environment: &environment, commands: &commands };
        let path = folder.path().join("Library/LaunchAgents/recall.daemon.plist");
        let outcome = service.install(Path::new(RECALL)).unwrap();
        assert_eq!(outcome, ServiceChange::Installed(vec![path.clone()]));
        let user = format!("gui/{}", rustix::process::getuid().as_raw());
        assert_eq!(
            commands.take(),
            [
                format!("launchctl print {user}"),
                format!("launchctl bootout {user}/recall.daemon"),
                "recall ctl stop".to_owned(),
                format!("launchctl bootstrap {user} {}", path.display()),
            ]
        );
        let agent = plist::Value::from_file(&path).unwrap().into_dictionary().unwrap();
        let socket = agent["Sockets"].as_dictionary().unwrap()["recall"].as_dictionary().unwrap();
        let socket = Path::new(socket["SockPathName"].as_string().unwrap());
        assert!(socket.parent().unwrap().is_dir());
        assert_eq!(service.install(Path::new(RECALL)).unwrap(), ServiceChange::Current);
        assert_eq!(service.uninstall().unwrap(), Removal::Removed(vec![path]));
    }

    #[test]
    fn without_a_service_manager_nothing_is_written() {
        let (folder, environment) = home(&[]);
        let commands = Recorded::failing(&["show-environment"]);
        let service = systemd(&environment, &commands);
        let why = "the systemd user manager does not respond";
        assert_eq!(service.install(Path::new(RECALL)).unwrap(), ServiceChange::Unavailable(why.into()));
        assert_eq!(service.status(), Status::Unavailable(why.into()));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_custom_recall_home_gets_no_service() {
        let (_folder, environment) = home(&[("RECALL_HOME", "/tmp/memory")]);
        let commands = Recorded::default();
        let outcome = systemd(&environment, &commands).install(Path::new(RECALL)).unwrap();
        assert!(matches!(outcome, ServiceChange::Unavailable(why) if why.contains("RECALL_HOME")));
        assert_eq!(commands.take(), Vec::<String>::new());
    }

    #[test]
    fn a_disabled_socket_makes_the_plan_write_the_units_again() {
        let (_folder, environment) = home(&[]);
        systemd(&environment, &Recorded::default()).install(Path::new(RECALL)).unwrap();
        let commands = Recorded::failing(&["is-enabled"]);
        let plan = systemd(&environment, &commands).plan(Path::new(RECALL)).unwrap();
        assert!(matches!(plan, Plan::Write(_)));
    }

    #[test]
    fn a_failed_service_manager_command_is_an_error_with_its_output() {
        let (_folder, environment) = home(&[]);
        let commands = Recorded::failing(&["enable"]);
        let error = systemd(&environment, &commands).install(Path::new(RECALL)).unwrap_err();
        assert_eq!(error.to_string(), "`systemctl --user enable --now recall.socket` failed: inactive");
    }

    #[test]
    fn the_status_shows_that_the_program_is_missing() {
        let (folder, environment) = home(&[]);
        let recall = folder.path().join("recall");
        fs::write(&recall, "").unwrap();
        fs::set_permissions(&recall, fs::Permissions::from_mode(0o755)).unwrap();
        let commands = Recorded::failing(&["is-active recall.service"]);
        let service = systemd(&environment, &commands);
        service.install(&recall).unwrap();
        let Status::Installed(installed) = service.status() else { panic!("it is installed") };
        assert_eq!(
            (installed.program.as_deref(), installed.program_state),
            (Some(&*recall), ProgramState::Executable)
        );
        let states = [("recall.socket", "active"), ("recall.service", "inactive")];
        assert_eq!(installed.units, states.map(|(unit, state)| (unit.to_owned(), state.to_owned())));
        fs::remove_file(&recall).unwrap();
        let Status::Installed(installed) = service.status() else { panic!("it is installed") };
        assert_eq!(installed.program_state, ProgramState::Missing);
    }
}
