//! `recall uninstall`: takes recall out of the agents' settings, then away from the service manager.
//!
//! The hooks go first: an agent whose hook names a program that is gone complains at every event. What recall
//! remembers stays.

use std::io::Write;

use anyhow::Context;

use super::consent::{Answer, Consent};
use super::install::agent::{AGENTS, AgentSpec};
use super::install::{Edit, EditAction, agent_names, environment};
use crate::service::commands::{Commands, Processes};
use crate::service::environment::Environment;
use crate::service::{Removal, Service};

/// Take recall's hooks out of your coding agents and remove its service
///
/// Only recall's own entries go. What it remembers stays, and so do its programs.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct UninstallArgs {
    /// Uninstall from this agent only, which leaves the service; may be given several times [default: every agent]
    #[arg(long = "agent", value_name = "AGENT", value_parser = agent_names())]
    pub agents: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    /// Show what would change and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Leave the service and a running daemon alone
    #[arg(long)]
    pub keep_service: bool,
}

/// Runs the command. `out` is written with colours; give it a stream that takes them away where they do not belong.
pub fn run(args: &UninstallArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let environment = environment()?;
    let mut input = std::io::stdin().lock();
    let consent = if args.dry_run {
        Consent::ShowOnly
    } else if args.yes {
        Consent::Given
    } else {
        Consent::at_terminal(&mut input)
    };
    let named = args.agents.iter().filter_map(|name| AgentSpec::named(name)).collect();
    let (agents, daemon) = match (args.agents.is_empty(), args.keep_service) {
        (true, false) => (AGENTS.to_vec(), Daemon::Remove),
        (true, true) => (AGENTS.to_vec(), Daemon::Keep),
        // The other agents' hooks still need it.
        (false, _) => (named, Daemon::Keep),
    };
    Uninstallation { environment: &environment, agents, daemon, commands: &Processes }.run(consent, out)
}

/// What becomes of the service and of a running daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Daemon {
    Keep,
    Remove,
}

struct Uninstallation<'a> {
    environment: &'a Environment,
    agents: Vec<&'static AgentSpec>,
    daemon: Daemon,
    commands: &'a dyn Commands,
}

impl Uninstallation<'_> {
    fn run(self, consent: Consent<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut edits = Vec::new();
        for agent in &self.agents {
            let edit = Edit::plan(agent, self.environment, EditAction::Remove)?;
            if edit.is_needed() {
                writeln!(out, "{}: recall's hooks go out of {}", agent.title, edit.file.path().display())?;
                if consent.shows_changes() {
                    edit.show(out)?;
                }
                edits.push(edit);
            } else {
                writeln!(out, "{}: no hooks of recall.", agent.title)?;
            }
        }
        if edits.is_empty() && self.daemon == Daemon::Keep {
            return Ok(());
        }
        if consent.obtain("Uninstall recall?", out)? == Answer::Leave {
            return Ok(());
        }
        for edit in edits {
            let title = edit.agent.title;
            edit.apply()?;
            writeln!(out, "Removed the hooks of {title}.")?;
        }
        if self.daemon == Daemon::Remove {
            self.remove_daemon(out)?;
        }
        Ok(())
    }

    fn remove_daemon(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let service = Service::new(self.environment, self.commands);
        let removal = service.uninstall().context("the hooks are removed; the service is not")?;
        if let Removal::Removed(_) = removal {
            writeln!(out, "Removed the service.")?;
        }
        // One that a hook started knows no service. None may run at all, so a failure says nothing.
        if let Ok(recall) = std::env::current_exe() {
            let _ = self.commands.run(recall.as_os_str(), &["ctl", "stop"]);
        }
        writeln!(out, "What recall remembers is kept.")?;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::commands::CommandError;
    use insta::assert_snapshot;
    use std::cell::RefCell;
    use std::ffi::OsStr;
    use std::fs;
    use std::path::PathBuf;

    const ALREADY: &str = include_str!("../../tests/settings/5-already-recall.json");

    /// No service manager and no daemon; remembers the settings at the time of every call.
    struct Absent<'a> {
        settings: &'a PathBuf,
        seen: RefCell<Vec<String>>,
    }

    impl Commands for Absent<'_> {
        fn run(&self, program: &OsStr, _args: &[&str]) -> Result<String, CommandError> {
            self.seen.borrow_mut().push(fs::read_to_string(self.settings).unwrap_or_default());
            Err(CommandError::NotStarted { line: program.display().to_string(), why: "absent".into() })
        }
    }

    struct Home {
        folder: tempfile::TempDir,
        environment: Environment,
        settings: PathBuf,
    }

    fn home(text: &str) -> Home {
        let folder = tempfile::tempdir().unwrap();
        let environment = Environment::new(folder.path().into(), []);
        let settings = AGENTS[0].settings_path(&environment);
        fs::create_dir(folder.path().join(".claude")).unwrap();
        fs::write(&settings, text).unwrap();
        Home { folder, environment, settings }
    }

    impl Home {
        fn run(&self, daemon: Daemon, consent: Consent<'_>) -> anyhow::Result<String> {
            let commands = Absent { settings: &self.settings, seen: RefCell::default() };
            let agents = AGENTS.to_vec();
            let uninstallation =
                Uninstallation { environment: &self.environment, agents, daemon, commands: &commands };
            let mut out = anstream::StripStream::new(Vec::new());
            uninstallation.run(consent, &mut out)?;
            for settings in commands.seen.take() {
                assert!(
                    !settings.contains("/recall-shim"),
                    "the hooks are gone before anything else happens"
                );
            }
            Ok(String::from_utf8(out.into_inner())?.replace(&self.folder.path().display().to_string(), "~"))
        }
    }

    #[test]
    fn hooks_then_service_then_daemon() {
        let home = home(ALREADY);
        for unit in [".config/systemd/user/recall.socket", "Library/LaunchAgents/recall.daemon.plist"] {
            let path = home.folder.path().join(unit);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        assert_snapshot!(home.run(Daemon::Remove, Consent::Given).unwrap(), @"
        Claude Code: recall's hooks go out of ~/.claude/settings.json
        Removed the hooks of Claude Code.
        Removed the service.
        What recall remembers is kept.
        ");
        let text = fs::read_to_string(&home.settings).unwrap();
        assert!(text.contains("echo mine") && text.contains("total-recall-backup.sh"));
        assert_snapshot!(home.run(Daemon::Keep, Consent::Unavailable).unwrap(), @"Claude Code: no hooks of recall.");
    }

    #[test]
    fn showing_and_a_no_change_nothing() {
        let home = home(ALREADY);
        let said = home.run(Daemon::Keep, Consent::ShowOnly).unwrap();
        assert!(said.contains("-            \"command\": \"/opt/recall-0.0.1/recall-shim"), "{said}");
        home.run(Daemon::Keep, Consent::Ask(&mut "no\n".as_bytes())).unwrap();
        assert_eq!(fs::read_to_string(&home.settings).unwrap(), ALREADY);
    }

    #[test]
    fn broken_settings_stop_everything() {
        let home = home("{");
        assert!(home.run(Daemon::Remove, Consent::Given).is_err());
        assert_eq!(fs::read_to_string(&home.settings).unwrap(), "{");
    }
}
