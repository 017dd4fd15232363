//! `recall install`: registers recall's hooks with the user's coding agents and sets up the service.
//!
//! All changes are planned before anything is written. With `--dry-run` nothing is written.

pub mod agent;
pub mod hook_entry;
pub mod hook_settings;
pub mod inspection;
pub mod second_settings;

mod difference;
mod edit;
mod programs;
mod settings_file;
mod version;

use crate::cli::consent::{Answer, Consent};
pub(super) use edit::{Edit, EditAction};

use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::PossibleValuesParser;

use crate::agents::{AGENTS, AgentSpec, Agents};
use crate::cli::failure::Failure;
use crate::service::commands::Processes;
use crate::service::environment::Environment;
use crate::service::{Plan, Service, ServiceChange};
use agent::{LocalAgent, Registration};
use hook_settings::HookSwitch;
pub(crate) use programs::Programs;
use programs::ProgramsError;

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

/// The parser of `--agent` for `install` and `uninstall`.
pub(super) fn agent_names() -> PossibleValuesParser {
    PossibleValuesParser::new(AGENTS.iter().map(|agent| agent.name))
}

/// Runs the command. `out` receives colours; pass a stream that removes them where needed.
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
    let agents = selected(AGENTS, &args.agents, &environment);
    Installation { environment: &environment, programs: &programs, known: AGENTS, agents, service }
        .run(consent, out)
}

/// The environment of this process, or what the user can do instead.
pub(super) fn environment() -> anyhow::Result<Environment> {
    let failure = || Failure::failed("Cannot find the home folder").hint("Set HOME to an absolute path.");
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

/// The named agents, else those that seem to be in use.
fn selected(known: Agents, names: &[String], environment: &Environment) -> Vec<&'static AgentSpec> {
    if names.is_empty() {
        return known.iter().filter(|spec| LocalAgent { spec, environment }.is_present()).collect();
    }
    names.iter().filter_map(|name| known.named(name)).collect()
}

pub(crate) struct Installation<'a> {
    pub(crate) environment: &'a Environment,
    pub(crate) programs: &'a Programs,
    /// Every agent.
    pub(crate) known: Agents,
    pub(crate) agents: Vec<&'static AgentSpec>,
    pub(crate) service: Option<Service<'a>>,
}

impl Installation<'_> {
    pub(crate) fn run(self, consent: Consent<'_>, out: &mut dyn Write) -> anyhow::Result<()> {
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

    /// Plans each agent's change and warns if something would keep the hooks from working.
    fn plan(&self, out: &mut dyn Write) -> anyhow::Result<Vec<Edit>> {
        if self.agents.is_empty() {
            let titles: Vec<_> = self.known.iter().map(|spec| spec.title).collect();
            writeln!(out, "No coding agent was found (looked for {}).", titles.join(", "))?;
            writeln!(out, "Run `recall install` again once there is one.")?;
        }
        let mut edits = Vec::new();
        for &spec in &self.agents {
            let agent = LocalAgent { spec, environment: self.environment };
            let (version, shim) = (agent.version(), shim_text(&self.programs.shim)?.to_owned());
            let count = spec.events_of(version).count();
            let edit = Edit::plan(agent, EditAction::Register(Registration { version, shim }))?;
            let path = edit.file.path().display();
            let title = spec.title;
            match version {
                Some(version) => writeln!(out, "{title} {version}: {count} hooks in {path}")?,
                None => {
                    writeln!(out, "{title}: {count} hooks in {path}")?;
                    writeln!(out, "  Could not detect the agent's version; newer hooks were skipped.")?;
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

    /// The service to set up; `None` if there is nothing to do.
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

/// Settings are text, so the path must be valid UTF-8.
fn shim_text(shim: &Path) -> anyhow::Result<&str> {
    let failure = || Failure::failed(format!("the path of {} is not valid UTF-8", shim.display()));
    shim.to_str().ok_or_else(|| failure().hint("move recall to another folder").into())
}

fn warn(edit: &Edit, out: &mut dyn Write) -> anyhow::Result<()> {
    let Some(survey) = edit.survey() else { return Ok(()) };
    if let HookSwitch::Off(setting) = survey.switch {
        writeln!(out, "  Warning: {setting} is true there, so {} runs no hooks.", edit.spec.title)?;
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
    let (title, backup) = (edit.spec.title, edit.file.backup_path());
    edit.apply()?;
    writeln!(out, "Installed the hooks of {title}. Its next session will be remembered.")?;
    if backup.exists() {
        writeln!(out, "  The settings before are in {}", backup.display())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
