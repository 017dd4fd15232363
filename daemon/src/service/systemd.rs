//! The systemd user units: `recall.socket`, which is enabled, and `recall.service`, which starts on a connection to
//! the socket.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::commands::{CommandError, Commands};
use super::environment::Environment;
use super::{ServiceError, UnitFile, line_of, passed_on, remove};

const SOCKET_UNIT: &str = include_str!("../../systemd/recall.socket");
const SERVICE_UNIT: &str = include_str!("../../systemd/recall.service");
const SOCKET: &str = "recall.socket";
const SERVICE: &str = "recall.service";
/// The line of the service that names the program. All other lines are the same as in the repository.
const EXEC_START: &str = "ExecStart=";

fn systemctl(commands: &dyn Commands, args: &[&str]) -> Result<String, CommandError> {
    let args: Vec<_> = std::iter::once("--user").chain(args.iter().copied()).collect();
    commands.run(OsStr::new("systemctl"), &args)
}

/// Returns why the user's manager cannot be used, in one line; `None` if it responds.
pub(super) fn unavailable(commands: &dyn Commands) -> Option<String> {
    match systemctl(commands, &["show-environment"]) {
        Ok(_) => None,
        Err(CommandError::NotStarted { .. }) => Some("systemd is not available".into()),
        Err(_) => Some("the systemd user manager does not respond".into()),
    }
}

fn folder(environment: &Environment) -> PathBuf {
    let config = environment.folder("XDG_CONFIG_HOME").filter(|folder| folder.is_absolute());
    config.unwrap_or_else(|| environment.home().join(".config")).join("systemd/user")
}

pub(super) fn paths(environment: &Environment) -> Vec<PathBuf> {
    [SOCKET, SERVICE].map(|name| folder(environment).join(name)).to_vec()
}

pub(super) fn files(recall: &Path, environment: &Environment) -> Result<Vec<UnitFile>, ServiceError> {
    let texts = [SOCKET_UNIT.to_owned(), service_text(recall, environment)?];
    let files = paths(environment).into_iter().zip(texts);
    Ok(files.map(|(path, text)| UnitFile { path, text }).collect())
}

fn service_text(recall: &Path, environment: &Environment) -> Result<String, ServiceError> {
    let mut lines = Vec::new();
    for line in SERVICE_UNIT.lines() {
        if line.starts_with(EXEC_START) {
            for (name, folder) in passed_on(environment)? {
                lines.push(format!("Environment={}", quoted(&format!("{name}={folder}"))));
            }
            lines.push(format!("{EXEC_START}{} daemon", quoted(&line_of(recall)?)));
        } else {
            lines.push(line.to_owned());
        }
    }
    Ok(lines.join("\n") + "\n")
}

/// Quotes a word for systemd: in double quotes, with `%` doubled (see "Quoting" in systemd.syntax(7)).
fn quoted(word: &str) -> String {
    format!("\"{}\"", word.replace('\\', "\\\\").replace('"', "\\\"").replace('%', "%%"))
}

/// Returns the program that a service's text starts; the reverse of [`quoted`].
pub(super) fn program(text: &str) -> Option<PathBuf> {
    let line = text.lines().find_map(|line| line.strip_prefix(EXEC_START))?;
    let Some(rest) = line.strip_prefix('"') else {
        return line.split_whitespace().next().map(PathBuf::from);
    };
    let mut word = String::new();
    let mut characters = rest.chars();
    loop {
        match characters.next()? {
            '"' => return Some(word.into()),
            // Both characters escape the next one.
            '\\' | '%' => word.push(characters.next()?),
            other => word.push(other),
        }
    }
}

/// Makes the manager reload the files and start the socket.
pub(super) fn start(commands: &dyn Commands, stop_daemon: impl FnOnce()) -> Result<(), ServiceError> {
    systemctl(commands, &["daemon-reload"])?;
    // A socket cannot be restarted while its service is running. Usually neither is loaded yet.
    let _ = systemctl(commands, &["stop", SOCKET, SERVICE]);
    stop_daemon();
    systemctl(commands, &["enable", "--now", SOCKET])?;
    Ok(())
}

/// Stops both units. Without a manager neither runs, so a failure is ignored.
pub(super) fn stop(commands: &dyn Commands) {
    let _ = systemctl(commands, &["disable", "--now", SOCKET]);
    let _ = systemctl(commands, &["stop", SERVICE]);
}

/// Removes leftovers after the files are gone.
pub(super) fn forget(commands: &dyn Commands, environment: &Environment) -> Result<(), ServiceError> {
    // `disable` removes this link, unless no manager responded.
    remove(&folder(environment).join("sockets.target.wants").join(SOCKET))?;
    let _ = systemctl(commands, &["daemon-reload"]);
    // These folders were created for the units and the socket. A folder with other files in it stays.
    let units = folder(environment);
    let of_socket = environment.folder("XDG_RUNTIME_DIR").map(|runtime| runtime.join("recall"));
    let above = units.parent().map(Path::to_path_buf);
    for made in
        [Some(units.join("sockets.target.wants")), Some(units), above, of_socket].into_iter().flatten()
    {
        let _ = std::fs::remove_dir(made);
    }
    Ok(())
}

pub(super) fn is_listening(commands: &dyn Commands) -> bool {
    ["is-enabled", "is-active"].iter().all(|verb| systemctl(commands, &[verb, "--quiet", SOCKET]).is_ok())
}

pub(super) fn states(commands: &dyn Commands) -> Vec<(String, String)> {
    let state = |unit: &str| match systemctl(commands, &["is-active", unit]) {
        // `is-active` exits with a failure in every state except the good ones.
        Ok(state) | Err(CommandError::Failed { output: state, .. }) => state,
        Err(error) => error.to_string(),
    };
    [SOCKET, SERVICE].map(|unit| (unit.to_owned(), state(unit))).to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    /// The sections, each with its keys. A key that occurs twice or outside a section fails the test.
    fn parse(text: &str) -> HashMap<String, HashMap<String, String>> {
        let mut sections: HashMap<String, HashMap<String, String>> = HashMap::new();
        let mut current = None;
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            if let Some(name) = line.strip_prefix('[').and_then(|line| line.strip_suffix(']')) {
                current = Some(name.to_owned());
                continue;
            }
            let (key, value) = line.split_once('=').expect(line);
            let section = sections.entry(current.clone().expect("a section first")).or_default();
            match section.get_mut(key) {
                // Assignments of this key add up (systemd.exec(5)); all other keys must occur once.
                Some(before) if ["Environment", "SystemCallFilter"].contains(&key) => {
                    before.push_str(&format!(" {value}"));
                }
                before => {
                    assert_eq!(before, None, "{key} twice");
                    section.insert(key.to_owned(), value.to_owned());
                }
            }
        }
        sections
    }

    fn environment(variables: &[(&str, &str)]) -> Environment {
        let variables = variables.iter().map(|(name, value)| (name.into(), value.into()));
        Environment::new("/home/dev".into(), variables)
    }

    #[test]
    fn the_socket_unit_is_private_and_has_no_trigger_limit() {
        let unit = parse(SOCKET_UNIT);
        assert_eq!(unit["Socket"]["ListenStream"], "%t/recall/recall.sock");
        assert_eq!(unit["Socket"]["SocketMode"], "0600");
        assert_eq!(unit["Socket"]["DirectoryMode"], "0700");
        assert_eq!(unit["Socket"]["TriggerLimitIntervalSec"], "0");
        assert_eq!(unit["Install"]["WantedBy"], "sockets.target");
    }

    #[test]
    fn the_service_has_a_watchdog_and_restarts_without_limit() {
        let unit = parse(SERVICE_UNIT);
        assert_eq!(unit["Service"]["Type"], "notify");
        assert_eq!(unit["Service"]["Restart"], "on-failure");
        assert_eq!(unit["Unit"]["StartLimitIntervalSec"], "0");
        assert!(unit["Service"].contains_key("WatchdogSec"));
        assert_eq!(unit["Unit"]["Requires"], SOCKET);
        assert_eq!(unit["Install"]["Also"], SOCKET);
    }

    #[test]
    fn the_service_unit_restricts_memory_privileges_and_system_calls() {
        let service = &parse(SERVICE_UNIT)["Service"];
        for (key, value) in [
            ("LimitCORE", "0"),
            ("MemoryMax", "2G"),
            ("OOMPolicy", "continue"),
            ("NoNewPrivileges", "yes"),
            ("RestrictNamespaces", "yes"),
            ("SystemCallFilter", "@system-service ~@privileged"),
        ] {
            assert_eq!(service[key], value, "{key}");
        }
    }

    #[test]
    fn the_written_unit_differs_from_the_repository_only_in_its_program() {
        let text = service_text(Path::new("/opt/my bin/recall"), &environment(&[])).unwrap();
        let differing: Vec<_> =
            text.lines().zip(SERVICE_UNIT.lines()).filter(|(ours, given)| ours != given).collect();
        let program = "ExecStart=\"/opt/my bin/recall\" daemon";
        assert_eq!(differing, [(program, "ExecStart=/usr/local/bin/recall daemon")]);
        assert_eq!(text.lines().count(), SERVICE_UNIT.lines().count());
    }

    #[test]
    fn absolute_xdg_folders_are_passed_to_the_service() {
        let environment = environment(&[
            ("XDG_STATE_HOME", "/data/100% \"mine\""),
            ("XDG_DATA_HOME", "relative"),
            ("XDG_CONFIG_HOME", ""),
        ]);
        let unit = parse(&service_text(Path::new("/usr/bin/recall"), &environment).unwrap());
        let passed_on = r#""XDG_STATE_HOME=/data/100%% \"mine\"""#;
        let assigned = &unit["Service"]["Environment"];
        assert!(assigned.contains(passed_on), "{assigned}");
        assert!(!assigned.contains("XDG_DATA_HOME") && !assigned.contains("XDG_CONFIG_HOME"), "{assigned}");
    }

    #[test]
    fn a_program_path_with_a_line_break_is_rejected() {
        let refused = service_text(Path::new("/opt/a\nExecStartPre=/bin/rm"), &environment(&[]));
        assert!(matches!(refused, Err(ServiceError::Path(_))));
    }

    proptest! {
        #[test]
        fn the_program_path_is_read_back_unchanged(path in "/[a-zA-Z0-9 '%$äß./\"\\\\-]{0,40}") {
            let text = service_text(Path::new(&path), &environment(&[])).unwrap();
            prop_assert_eq!(program(&text), Some(PathBuf::from(path)));
        }
    }

    #[test]
    fn an_unquoted_program_path_is_read() {
        assert_eq!(program(SERVICE_UNIT), Some("/usr/local/bin/recall".into()));
        assert_eq!(program("[Service]\n"), None);
        assert_eq!(program("ExecStart=\"/unclosed"), None);
    }
}
