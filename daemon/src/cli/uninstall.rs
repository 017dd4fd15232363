//! `recall uninstall`: removes recall from the agents' settings, then its service.
//!
//! The hooks are removed first, because an agent reports an error for every hook whose program is missing. The memory
//! stays, unless the user wants it deleted.

use std::io::Write;

use anyhow::Context;
use recall_protocol::paths::Paths;

use super::consent::{Confirmation, Consent};
use super::install::agent::{LocalAgent, SettingsOwner};
use super::install::{Edit, EditAction, agent_names, connected, environment, this_project};
use super::purge;
use super::terminal::bytes;
use crate::service::commands::{Commands, Processes};
use crate::service::environment::Environment;
use crate::service::{Removal, Service};
use recall_agents::{AGENTS, AgentSpec};
use recall_app::welcome::Welcome;

/// Remove recall's hooks from your coding agents, and its service
///
/// Only recall's own entries are removed. Your memory and the programs stay.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct UninstallArgs {
    /// Disconnect only this agent, and keep the service; can be given several times [default: every agent]
    #[arg(long = "agent", value_name = "AGENT", value_parser = agent_names())]
    pub agents: Vec<String>,
    /// Change the settings of this folder's project instead of your own; keeps the service
    #[arg(long)]
    pub project: bool,
    /// Do not ask for confirmation
    #[arg(long, short)]
    pub yes: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Keep the service and a running daemon
    #[arg(long)]
    pub keep_service: bool,
    /// Also delete the memory: all recorded data, backups, and installed sentence models
    #[arg(long, conflicts_with_all = ["agents", "project", "keep_service"])]
    pub purge: bool,
}

/// Runs the command. `out` receives colours; pass a stream that removes them if necessary.
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
    let named = args.agents.iter().filter_map(|name| AGENTS.named(name)).collect();
    let folder = args.project.then(this_project).transpose()?;
    let scope = folder.as_deref().map_or(SettingsOwner::User, SettingsOwner::Project);
    let (agents, daemon) = match (args.agents.is_empty(), args.keep_service || args.project) {
        (true, false) if args.purge => (AGENTS.iter().collect(), Daemon::Purge),
        (true, false) => (AGENTS.iter().collect(), Daemon::Remove),
        (true, true) => (AGENTS.iter().collect(), Daemon::Keep),
        // The other agents' hooks still need the service.
        (false, _) => (named, Daemon::Keep),
    };
    Uninstallation { environment: &environment, agents, scope, daemon, commands: &Processes }
        .run(consent, out)
}

/// What to do with the service and a running daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Daemon {
    Keep,
    Remove,
    /// Stops it, and also deletes the memory.
    Purge,
}

pub(crate) struct Uninstallation<'a> {
    pub(crate) environment: &'a Environment,
    pub(crate) agents: Vec<&'static AgentSpec>,
    pub(crate) scope: SettingsOwner<'a>,
    pub(crate) daemon: Daemon,
    pub(crate) commands: &'a dyn Commands,
}

impl Uninstallation<'_> {
    pub(crate) fn run(self, consent: Consent<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut edits = Vec::new();
        for &spec in &self.agents {
            let agent = LocalAgent { spec, environment: self.environment, scope: self.scope };
            let install = &spec.install;
            let planned = Edit::plan(agent, &[install.hooks, install.server], &EditAction::Remove)?;
            for edit in planned.into_iter().filter(Edit::is_needed) {
                // Two agents may read the same file.
                if edits.iter().any(|known: &Edit| known.file.path() == edit.file.path()) {
                    continue;
                }
                writeln!(out, "{}: remove recall's entries from {}", spec.title, edit.file.path().display())?;
                if consent.shows_changes() {
                    edit.show(out)?;
                }
                edits.push(edit);
            }
        }
        if edits.is_empty() {
            writeln!(out, "No agent has recall's hooks.")?;
        }
        if edits.is_empty() && self.daemon == Daemon::Keep {
            if !matches!(consent, Consent::ShowOnly) {
                self.forget_connected();
            }
            return Ok(());
        }
        let memory = super::install::paths(self.environment);
        let mut question = "Uninstall recall?";
        if let (Daemon::Purge, Some(paths)) = (self.daemon, &memory) {
            let (size, place) = (bytes(purge::size(paths)), paths.data_dir().display());
            writeln!(
                out,
                "Memory: delete {place} and all events waiting to be stored ({size}). This cannot be undone."
            )?;
            question = "Uninstall recall and delete the memory?";
        }
        if consent.obtain(question, out)? == Confirmation::Leave {
            return Ok(());
        }
        let mut reported = "";
        for edit in edits {
            let title = edit.spec.title;
            edit.apply()?;
            if title != reported {
                writeln!(out, "Removed the hooks of {title}.")?;
            }
            reported = title;
        }
        self.forget_connected();
        if let Some(paths) = &memory {
            Welcome::new(paths.state_dir()).withdraw();
        }
        if self.daemon != Daemon::Keep {
            self.remove_daemon(out)?;
            if let Some(paths) = &memory {
                self.leave(paths, out)?;
            }
        }
        Ok(())
    }

    /// Forgets which agents were connected, so that nobody reports their hooks as missing.
    fn forget_connected(&self) {
        for spec in self.agents.iter().filter(|_| self.scope == SettingsOwner::User) {
            connected::forget(self.environment, spec.name);
        }
    }

    /// Deletes the memory, or prints where it stays.
    fn leave(&self, paths: &Paths, out: &mut dyn Write) -> anyhow::Result<()> {
        let place = paths.data_dir().display();
        if self.daemon == Daemon::Purge {
            let left = purge::delete(paths).context("removed the hooks, but not the memory")?;
            writeln!(out, "Deleted the memory.")?;
            for folder in left {
                writeln!(out, "{} stays: it contains files that are not recall's.", folder.display())?;
            }
            if paths.config_file().exists() {
                writeln!(out, "Your settings stay in {}.", paths.config_file().display())?;
            }
        } else if paths.data_dir().is_dir() {
            let size = bytes(purge::size(paths));
            writeln!(
                out,
                "Your memory stays in {place} ({size}). Delete it with `recall uninstall --purge`."
            )?;
        }
        Ok(())
    }

    fn remove_daemon(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        let service = Service::new(self.environment, self.commands);
        let removal = service.uninstall().context("removed the hooks, but not the service")?;
        if let Removal::Removed(_) = removal {
            writeln!(out, "Removed the service.")?;
        }
        // Stops a daemon that a hook started. None may be running, so a failure is ignored.
        if let Ok(recall) = std::env::current_exe() {
            let _ = self.commands.run(recall.as_os_str(), &["ctl", "stop"]);
        }
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

    /// Reports no service manager and no daemon, and records the settings at every call.
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
        let settings = LocalAgent {
            spec: AGENTS.spec("claude-code"),
            environment: &environment,
            scope: SettingsOwner::User,
        }
        .settings();
        fs::create_dir(folder.path().join(".claude")).unwrap();
        fs::write(&settings, text).unwrap();
        Home { folder, environment, settings }
    }

    impl Home {
        fn run(&self, daemon: Daemon, consent: Consent<'_>) -> anyhow::Result<String> {
            let commands = Absent { settings: &self.settings, seen: RefCell::default() };
            let agents = AGENTS.iter().collect();
            let uninstallation = Uninstallation {
                environment: &self.environment,
                agents,
                scope: SettingsOwner::User,
                daemon,
                commands: &commands,
            };
            let mut out = anstream::StripStream::new(Vec::new());
            let result = uninstallation.run(consent, &mut out);
            let seen = commands.seen.take();
            if result.is_err() {
                assert!(seen.is_empty(), "commands ran before the error");
            }
            result?;
            for settings in seen {
                assert!(
                    !settings.contains("/recall-shim"),
                    "the hooks are gone before anything else happens"
                );
            }
            Ok(String::from_utf8(out.into_inner())?.replace(&self.folder.path().display().to_string(), "~"))
        }
    }

    #[test]
    fn hooks_are_removed_before_the_service() {
        let home = home(ALREADY);
        for unit in [".config/systemd/user/recall.socket", "Library/LaunchAgents/recall.daemon.plist"] {
            let path = home.folder.path().join(unit);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        assert_snapshot!(home.run(Daemon::Remove, Consent::Given).unwrap(), @"
        Claude Code: remove recall's entries from ~/.claude/settings.json
        Removed the hooks of Claude Code.
        Removed the service.
        ");
        let text = fs::read_to_string(&home.settings).unwrap();
        assert!(text.contains("echo mine") && text.contains("total-recall-backup.sh"));
        assert_snapshot!(home.run(Daemon::Keep, Consent::Unavailable).unwrap(), @"No agent has recall's hooks.");
    }

    #[test]
    fn a_dry_run_or_answering_no_changes_nothing() {
        let home = home(ALREADY);
        let output = home.run(Daemon::Keep, Consent::ShowOnly).unwrap();
        assert!(output.contains("-            \"command\": \"/opt/recall-0.0.1/recall-shim"), "{output}");
        home.run(Daemon::Keep, Consent::Ask(&mut "no\n".as_bytes())).unwrap();
        assert_eq!(fs::read_to_string(&home.settings).unwrap(), ALREADY);
    }

    #[test]
    fn uninstalling_fails_on_broken_settings_and_leaves_them_unchanged() {
        let home = home("{ recall");
        assert!(home.run(Daemon::Remove, Consent::Given).is_err());
        assert_eq!(fs::read_to_string(&home.settings).unwrap(), "{ recall");
    }
}
