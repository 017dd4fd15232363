//! The launch agent of macOS: `recall.daemon`, started at login, after a crash and by a connection to its socket.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use recall_protocol::paths::Paths;

use super::commands::{CommandError, Commands};
use super::environment::Environment;
use super::{ServiceError, UnitFile, line_of, passed_on};

const AGENT: &str = include_str!("../../launchd/recall.daemon.plist");
const LABEL: &str = "recall.daemon";
/// The placeholder in the property list that installation replaces.
const PROGRAM: &str = "<string>/usr/local/bin/recall</string>";
/// The placeholder of the socket in the property list.
const SOCKET_PATH: &str = "<string>/var/empty/recall.sock</string>";
const NO_VARIABLES: &str = "\t<key>EnvironmentVariables</key>\n\t<dict>\n\t</dict>\n";

fn launchctl(commands: &dyn Commands, args: &[&str]) -> Result<String, CommandError> {
    commands.run(OsStr::new("launchctl"), args)
}

/// The launchd domain of the user's agents while the user is logged in graphically.
fn domain() -> String {
    format!("gui/{}", rustix::process::getuid().as_raw())
}

fn target() -> String {
    format!("{}/{LABEL}", domain())
}

pub(super) fn unavailable(commands: &dyn Commands) -> Option<String> {
    match launchctl(commands, &["print", &domain()]) {
        Ok(_) => None,
        Err(_) => Some("launchd has no graphical session for this user".into()),
    }
}

pub(super) fn paths(environment: &Environment) -> Vec<PathBuf> {
    vec![environment.home().join("Library/LaunchAgents").join(format!("{LABEL}.plist"))]
}

pub(super) fn files(recall: &Path, environment: &Environment) -> Result<Vec<UnitFile>, ServiceError> {
    let text = agent_text(recall, environment)?;
    Ok(paths(environment).into_iter().map(|path| UnitFile { path, text: text.clone() }).collect())
}

fn agent_text(recall: &Path, environment: &Environment) -> Result<String, ServiceError> {
    let mut variables = String::from("\t<key>EnvironmentVariables</key>\n\t<dict>\n");
    for (name, folder) in passed_on(environment)? {
        variables += &format!("\t\t<key>{name}</key>\n\t\t<string>{}</string>\n", escaped(&folder));
    }
    variables += "\t</dict>\n";
    let program = format!("<string>{}</string>", escaped(&line_of(recall)?));
    let socket = format!("<string>{}</string>", escaped(&line_of(places(environment)?.socket()?)?));
    let agent = AGENT.replacen(PROGRAM, &program, 1).replacen(SOCKET_PATH, &socket, 1);
    Ok(agent.replacen(NO_VARIABLES, &variables, 1))
}

/// Returns recall's paths in the daemon's environment, which contains only the variables that are passed on.
fn places(environment: &Environment) -> Result<Paths, ServiceError> {
    let passed_on = passed_on(environment)?;
    Ok(Paths::from_variables(&|name| match name {
        "HOME" => Some(environment.home().into()),
        _ => passed_on.iter().find(|(passed, _)| *passed == name).map(|(_, folder)| folder.into()),
    })?)
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

/// Returns the first of the program arguments.
pub(super) fn program(text: &str) -> Option<PathBuf> {
    let (_, arguments) = text.split_once("<key>ProgramArguments</key>")?;
    let (_, first) = arguments.split_once("<string>")?;
    let (path, _) = first.split_once("</string>")?;
    Some(path.replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").into())
}

pub(super) fn start(
    commands: &dyn Commands,
    files: &[UnitFile],
    environment: &Environment,
    stop_daemon: impl FnOnce(),
) -> Result<(), ServiceError> {
    // An agent must be unloaded before it is loaded again. Usually none is loaded yet.
    let _ = launchctl(commands, &["bootout", &target()]);
    stop_daemon();
    // launchd creates a socket, but not its folder.
    places(environment)?.create_folders()?;
    for file in files {
        launchctl(commands, &["bootstrap", &domain(), &line_of(&file.path)?])?;
    }
    Ok(())
}

pub(super) fn stop(commands: &dyn Commands) {
    let _ = launchctl(commands, &["bootout", &target()]);
}

pub(super) fn is_listening(commands: &dyn Commands) -> bool {
    launchctl(commands, &["print", &target()]).is_ok()
}

pub(super) fn states(commands: &dyn Commands) -> Vec<(String, String)> {
    let state = match launchctl(commands, &["print", &target()]) {
        Ok(text) => {
            text.lines().find_map(|line| line.trim().strip_prefix("state = ")).unwrap_or("loaded").to_owned()
        }
        Err(_) => "not loaded".to_owned(),
    };
    vec![(LABEL.to_owned(), state)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::server::listener::LAUNCHD_SOCKET;
    use plist::Value;

    fn parse(text: &str) -> plist::Dictionary {
        let value = Value::from_reader_xml(text.as_bytes()).expect("a property list");
        value.into_dictionary().expect("a dictionary")
    }

    #[test]
    fn the_property_list_in_the_repository_is_valid() {
        let agent = parse(AGENT);
        assert_eq!(agent["Label"].as_string(), Some(LABEL));
        assert_eq!(agent["Umask"].as_unsigned_integer(), Some(0o077));
        assert_eq!(agent["KeepAlive"].as_dictionary().unwrap()["SuccessfulExit"].as_boolean(), Some(false));
        let socket = agent["Sockets"].as_dictionary().unwrap()[LAUNCHD_SOCKET].as_dictionary().unwrap();
        assert_eq!(socket["SockPathMode"].as_unsigned_integer(), Some(0o600));
        let replaced = [PROGRAM, SOCKET_PATH, NO_VARIABLES];
        assert!(replaced.iter().all(|text| AGENT.contains(text)), "what installation replaces is there");
    }

    #[test]
    fn program_path_and_folders_are_escaped_in_the_property_list() {
        // The runtime folder is not passed on, so the socket is not there.
        let variables = [("XDG_STATE_HOME", "/data/<mine>"), ("XDG_RUNTIME_DIR", "/run/user/501")];
        let variables = variables.map(|(name, value)| (name.into(), value.into()));
        let environment = Environment::new("/Users/dev".into(), variables);
        let recall = Path::new("/Users/R&D <x>/bin/recall");
        let text = agent_text(recall, &environment).unwrap();
        let agent = parse(&text);
        let arguments = agent["ProgramArguments"].as_array().unwrap();
        assert_eq!(arguments[0].as_string(), recall.to_str());
        assert_eq!(arguments[1].as_string(), Some("daemon"));
        let variables = agent["EnvironmentVariables"].as_dictionary().unwrap();
        assert_eq!(variables["XDG_STATE_HOME"].as_string(), Some("/data/<mine>"));
        let socket = agent["Sockets"].as_dictionary().unwrap()[LAUNCHD_SOCKET].as_dictionary().unwrap();
        let path = places(&environment).unwrap().socket().unwrap().to_str().map(str::to_owned);
        assert_eq!(socket["SockPathName"].as_string().map(str::to_owned), path);
        assert_eq!(program(&text).as_deref(), Some(recall));
        assert_eq!(program("<plist/>"), None);
    }
}
