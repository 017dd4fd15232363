//! `recall install`: registers recall's hooks with the coding agents of this user and sets up the service.
//!
//! Nothing is written before all of it was worked out, and with `--dry-run` nothing at all.

pub mod agent;
pub mod hook_entry;
pub mod hook_settings;
pub mod inspection;
pub mod second_settings;

mod claude_code;
mod difference;
mod edit;
mod programs;
mod settings_file;
mod version;

use crate::cli::consent::{Answer, Consent};
pub(super) use edit::{Edit, EditAction};
pub use version::AgentVersion;

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::PossibleValuesParser;

use crate::cli::failure::Failure;
use crate::service::commands::Processes;
use crate::service::environment::Environment;
use crate::service::{Plan, Service, ServiceChange};
use agent::{AGENTS, AgentSpec};
use hook_settings::HookSwitch;
use programs::{Programs, ProgramsError};

/// Register recall's hooks with your coding agents and start it at login
///
/// Settings are merged: everything that is not recall's keeps its place and its bytes, and one copy of the file
/// before is kept beside it. Running it again changes nothing.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct InstallArgs {
    /// Install into this agent only; may be given several times [default: every agent found]
    #[arg(long = "agent", value_name = "AGENT", value_parser = agent_names())]
    pub agents: Vec<String>,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    /// Show what would change and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Leave the service manager alone; hooks start the daemon by themselves
    #[arg(long)]
    pub no_service: bool,
    /// The hook client to register [default: recall-shim beside recall]
    #[arg(long, value_name = "PATH")]
    pub shim: Option<PathBuf>,
}

/// The parser of `--agent`, for `install` and `uninstall` alike.
pub(super) fn agent_names() -> PossibleValuesParser {
    PossibleValuesParser::new(AGENTS.iter().map(|agent| agent.name))
}

/// Runs the command. `out` is written with colours; give it a stream that takes them away where they do not belong.
pub fn run(args: &InstallArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let environment = environment()?;
    let programs = Programs::find(&environment, args.shim.as_deref()).map_err(no_program)?;
    let mut input = std::io::stdin().lock();
    let consent = if args.dry_run {
        Consent::ShowOnly
    } else if args.yes {
        Consent::Given
    } else {
        Consent::at_terminal(&mut input)
    };
    let service = (!args.no_service).then(|| Service::new(&environment, &Processes));
    let agents = selected(&args.agents, &environment);
    Installation { environment: &environment, programs: &programs, agents, service }.run(consent, out)
}

/// The surroundings of this process, or the user's way out.
pub(super) fn environment() -> anyhow::Result<Environment> {
    let failure = || Failure::failed("no home folder is known").hint("set HOME to an absolute path");
    Environment::of_process().ok_or_else(|| failure().into())
}

fn no_program(error: ProgramsError) -> anyhow::Error {
    let failure = Failure::failed(error.to_string());
    match error {
        ProgramsError::NoShim(_) => {
            failure.hint("put recall-shim beside recall, or name it with --shim").into()
        }
        _ => failure.into(),
    }
}

/// The agents that were named, else those that seem to be in use.
fn selected(names: &[String], environment: &Environment) -> Vec<&'static AgentSpec> {
    if names.is_empty() {
        return AGENTS.iter().copied().filter(|agent| agent.is_present(environment)).collect();
    }
    names.iter().filter_map(|name| AgentSpec::named(name)).collect()
}

struct Installation<'a> {
    environment: &'a Environment,
    programs: &'a Programs,
    agents: Vec<&'static AgentSpec>,
    service: Option<Service<'a>>,
}

impl Installation<'_> {
    fn run(self, consent: Consent<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
        let edits = self.plan(out)?;
        if consent.shows_changes() {
            for edit in edits.iter().filter(|edit| edit.is_needed()) {
                edit.show(out)?;
            }
        }
        let service = self.plan_service(out)?;
        if edits.iter().any(Edit::is_needed) || service.is_some() {
            if consent.obtain("Make these changes?", out)? == Answer::Leave {
                return Ok(());
            }
            for edit in edits {
                register(edit, out)?;
            }
            if let Some(service) = service {
                self.start(&service, out)?;
            }
        }
        Ok(())
    }

    /// Works out every agent's change, and says what stands in the way of the hooks' working.
    fn plan(&self, out: &mut dyn Write) -> anyhow::Result<Vec<Edit>> {
        if self.agents.is_empty() {
            let titles: Vec<_> = AGENTS.iter().map(|agent| agent.title).collect();
            writeln!(out, "No coding agent was found (looked for {}).", titles.join(", "))?;
            writeln!(out, "Run `recall install` again once there is one.")?;
        }
        let mut edits = Vec::new();
        for agent in &self.agents {
            let version = agent.version(self.environment);
            let shim = shim_text(&self.programs.shim)?;
            let hooks = (agent.hooks)(version, shim);
            let count = hooks.len();
            let edit = Edit::plan(agent, self.environment, EditAction::Register(hooks))?;
            let path = edit.file.path().display();
            let title = agent.title;
            match version {
                Some(version) => writeln!(out, "{title} {version}: {count} hooks in {path}")?,
                None => {
                    writeln!(out, "{title}: {count} hooks in {path}")?;
                    writeln!(out, "  It did not tell its version, so newer hooks are left out.")?;
                }
            }
            if !edit.is_needed() {
                writeln!(out, "  They are installed already; nothing to change.")?;
            }
            warn(&edit, out)?;
            edits.push(edit);
        }
        Ok(edits)
    }

    /// The service that is to be set up; `None` when there is nothing to do.
    fn plan_service(&self, out: &mut dyn Write) -> anyhow::Result<Option<Service<'_>>> {
        let Some(service) = self.service else { return Ok(None) };
        match service.plan(&self.programs.recall)? {
            Plan::Unavailable(why) => {
                writeln!(out, "Service: left out, because {why}. Hooks start the daemon by themselves.")?;
                Ok(None)
            }
            Plan::Current => {
                writeln!(out, "Service: set up already.")?;
                Ok(None)
            }
            Plan::Write(files) => {
                for file in files {
                    writeln!(out, "Service: {}", file.path.display())?;
                }
                Ok(Some(service))
            }
        }
    }

    fn start(&self, service: &Service<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
        let outcome = service.install(&self.programs.recall);
        let outcome =
            outcome.context("the hooks are installed and work without the service, which failed")?;
        if let ServiceChange::Installed(_) = outcome {
            writeln!(out, "The service is set up; the first hook starts the daemon.")?;
        }
        Ok(())
    }
}

/// Settings are text, so the path in them must be.
fn shim_text(shim: &Path) -> anyhow::Result<&str> {
    let failure = || Failure::failed(format!("the path of {} is not valid UTF-8", shim.display()));
    shim.to_str().ok_or_else(|| failure().hint("move recall to another folder").into())
}

fn warn(edit: &Edit, out: &mut dyn Write) -> anyhow::Result<()> {
    let Ok(survey) = hook_settings::survey(edit.text().unwrap_or_default()) else { return Ok(()) };
    if survey.switch == HookSwitch::Off {
        writeln!(out, "  Warning: disableAllHooks is true there, so {} runs no hooks.", edit.agent.title)?;
    }
    if let Some(plugin) = survey.plugin {
        writeln!(out, "  Warning: the plugin {plugin} brings the same hooks; disable one of the two.")?;
    }
    Ok(())
}

fn register(edit: Edit, out: &mut dyn Write) -> anyhow::Result<()> {
    if !edit.is_needed() {
        return Ok(());
    }
    let (title, backup) = (edit.agent.title, edit.file.backup_path());
    edit.apply()?;
    writeln!(out, "Installed the hooks of {title}. Its next session will be remembered.")?;
    if backup.exists() {
        writeln!(out, "  The settings before are in {}", backup.display())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
