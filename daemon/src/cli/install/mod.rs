//! `recall install`: registers recall's hooks with the user's coding agents and sets up the service.
//!
//! All changes are planned before anything is written. With `--dry-run` nothing is written.

pub mod agent;
pub mod hook_entry;
pub mod hook_settings;
pub mod inspection;
pub mod second_settings;

pub(crate) mod connected;
mod difference;
mod edit;
mod json_values;
mod notes;
mod part;
mod programs;
pub(crate) mod settings_file;
mod toml_settings;
mod version;

use crate::cli::consent::{Confirmation, Consent};
use crate::cli::import;
use crate::cli::model::offer::Offer;
pub(super) use edit::{Edit, EditAction};

use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::builder::PossibleValuesParser;

use recall_protocol::paths::Paths;

use crate::cli::failure::Failure;
use crate::cli::terminal::WARNING;
use crate::server::run::last_config;
use crate::service::commands::Processes;
use crate::service::environment::Environment;
use crate::service::{Plan, Service, ServiceChange};
use agent::{LocalAgent, Registration, SettingsOwner};
use hook_settings::HookSwitch;
pub(crate) use programs::Programs;
use programs::ProgramsError;
use recall_agents::settings::InstalledPart;
use recall_agents::{AGENTS, AgentSpec, Agents, Guarding};
use recall_app::settings::guards_of;
use recall_app::welcome::Welcome;
use recall_config::Config;

/// Register recall's hooks with your coding agents and start it at login
///
/// Settings are merged: everything else in the file stays unchanged, including comments, and a copy of the previous
/// file is kept next to it. Running it again changes nothing.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct InstallArgs {
    /// Connect only this agent; can be given several times [default: every agent found]
    #[arg(long = "agent", value_name = "AGENT", value_parser = agent_names())]
    pub agents: Vec<String>,
    /// Change the settings of this folder's project instead of your own
    #[arg(long)]
    pub project: bool,
    /// Also let agents query the memory: register the MCP server `recall mcp`, and a skill for agents that have
    /// skills
    #[arg(long)]
    pub mcp: bool,
    /// Do not ask
    #[arg(long, short)]
    pub yes: bool,
    /// Show what would change, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Also import earlier sessions, as `recall import` does
    #[arg(long, conflicts_with = "dry_run")]
    pub import: bool,
    /// Do not set up a service; hooks start the daemon when they need it
    #[arg(long)]
    pub no_service: bool,
    /// Do not download the sentence model, which lets searches find text by its meaning
    #[arg(long)]
    pub no_model: bool,
    /// Ask for the sentence model, whatever else is not asked
    #[arg(long, hide = true, conflicts_with = "no_model")]
    pub ask_model: bool,
    /// The hook client to register [default: recall-shim beside recall]
    #[arg(long, value_name = "PATH")]
    pub shim: Option<PathBuf>,
}

/// The parser of `--agent` for `install` and `uninstall`.
pub(super) fn agent_names() -> PossibleValuesParser {
    PossibleValuesParser::new(AGENTS.iter().map(|agent| agent.name))
}

/// Runs the command. `out` receives colours; pass a stream that removes them if necessary.
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
    let service = (!args.no_service && !args.project).then(|| Service::new(&environment, &Processes));
    let agents = selected(AGENTS, &args.agents, &environment);
    let folder = args.project.then(this_project).transpose()?;
    let scope = folder.as_deref().map_or(SettingsOwner::User, SettingsOwner::Project);
    let access = if args.mcp { Access::HooksAndServer } else { Access::Hooks };
    // A user who has a memory was asked before.
    let is_first = paths(&environment).is_some_and(|paths| !paths.database().exists());
    let installed = agents.clone();
    let installation = Installation {
        environment: &environment,
        programs: &programs,
        known: AGENTS,
        agents,
        scope,
        access,
        service,
    };
    let answer = installation.run(consent, out)?;
    if answer == Confirmation::Go {
        let consent = match (args.import, is_first && !args.project) {
            (true, _) => Some(Consent::Given),
            (false, true) if !args.yes => Some(Consent::at_terminal(&mut input)),
            (false, true) => Some(Consent::Unavailable),
            (false, false) => None,
        };
        consent.map_or(Ok(()), |consent| import::offer(consent, out))?;
    }
    let may_ask = answer == Confirmation::Go && !args.yes && !args.project && std::io::stdin().is_terminal();
    if let Some(paths) = paths(&environment).filter(|_| may_ask) {
        notes::offer(&installed, &paths, &mut input, out)?;
    }
    let offer = match answer {
        _ if args.no_model || args.project => return Ok(()),
        Confirmation::Leave if args.dry_run => Offer::Show,
        Confirmation::Leave => return Ok(()),
        Confirmation::Go if std::io::stdin().is_terminal() && (args.ask_model || !args.yes) => {
            Offer::Ask(&mut input)
        }
        Confirmation::Go => Offer::Get,
    };
    match paths(&environment) {
        Some(paths) => offer.make(&paths, out),
        None => Ok(()),
    }
}

/// The user's settings.
pub(in crate::cli) fn config(environment: &Environment) -> Option<Config> {
    let paths = paths(environment)?;
    Some(Config::obeyed(paths.config_file(), &last_config(&paths)).config)
}

/// Whether the user's guards check calls.
pub(in crate::cli) fn guarding(environment: &Environment) -> Guarding {
    match config(environment).and_then(|config| guards_of(&config)) {
        Some(guards) if guards.judge_calls() => Guarding::Calls,
        Some(guards) if guards.change_commands() => Guarding::Commands,
        _ => Guarding::Off,
    }
}

/// Returns the folder of the project that contains the current folder.
pub(super) fn this_project() -> anyhow::Result<PathBuf> {
    let here = std::env::current_dir().context("Cannot find the current folder")?;
    let root = PathBuf::from(recall_repository::facts(&here).folder);
    Ok(if root.as_os_str().is_empty() { here } else { root })
}

/// Returns the environment of this process, or advice for the user if it has none.
pub(super) fn environment() -> anyhow::Result<Environment> {
    let failure = || Failure::failed("Cannot find the home folder").hint("Set HOME to an absolute path.");
    Environment::of_process().ok_or_else(|| failure().into())
}

fn no_program(error: ProgramsError) -> anyhow::Error {
    let failure = Failure::failed(error.to_string());
    match error {
        ProgramsError::NoShim(_) => {
            failure.hint("Install it beside recall with ./install.sh, or name it with --shim.").into()
        }
        _ => failure.into(),
    }
}

/// Returns the named agents, or else those that seem to be in use.
fn selected(known: Agents, names: &[String], environment: &Environment) -> Vec<&'static AgentSpec> {
    if names.is_empty() {
        return known
            .iter()
            .filter(|spec| LocalAgent { spec, environment, scope: SettingsOwner::User }.is_present())
            .collect();
    }
    names.iter().filter_map(|name| known.named(name)).collect()
}

/// What agents get access to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    Hooks,
    /// Their models can also query the memory.
    HooksAndServer,
}

pub(crate) struct Installation<'a> {
    pub(crate) environment: &'a Environment,
    pub(crate) programs: &'a Programs,
    /// Every agent.
    pub(crate) known: Agents,
    pub(crate) agents: Vec<&'static AgentSpec>,
    pub(crate) scope: SettingsOwner<'a>,
    pub(crate) access: Access,
    pub(crate) service: Option<Service<'a>>,
}

impl Installation<'_> {
    pub(crate) fn run(self, consent: Consent<'_>, out: &mut dyn Write) -> anyhow::Result<Confirmation> {
        let edits = self.plan(out)?;
        let connected: Vec<&str> = edits.iter().map(|edit| edit.spec.name).collect();
        if consent.shows_changes() {
            for edit in edits.iter().filter(|edit| edit.is_needed()) {
                edit.show(out)?;
            }
        }
        let service = self.plan_service(out)?;
        if edits.iter().any(Edit::is_needed) || service.is_some() {
            if consent.obtain("Make these changes?", out)? == Confirmation::Leave {
                return Ok(Confirmation::Leave);
            }
            self.register(edits, out)?;
            if let Some(service) = service {
                self.start(&service, out)?;
            }
        } else if let Consent::ShowOnly = consent {
            return Ok(Confirmation::Leave);
        }
        for agent in connected.into_iter().filter(|_| self.scope == SettingsOwner::User) {
            connected::remember(self.environment, agent);
        }
        Ok(Confirmation::Go)
    }

    /// Plans each agent's changes, and warns if something would keep the hooks from working.
    fn plan(&self, out: &mut dyn Write) -> anyhow::Result<Vec<Edit>> {
        if self.agents.is_empty() {
            let titles: Vec<_> = self.known.iter().map(|spec| spec.title).collect();
            writeln!(out, "No coding agent was found (looked for {}).", titles.join(", "))?;
            writeln!(out, "Run `recall install` again once you have installed one.")?;
        }
        let mut edits = Vec::new();
        for &spec in &self.agents {
            let agent = LocalAgent { spec, environment: self.environment, scope: self.scope };
            edits.extend(self.plan_agent(agent, out)?);
        }
        Ok(edits)
    }

    fn plan_agent(&self, agent: LocalAgent<'_>, out: &mut dyn Write) -> anyhow::Result<Vec<Edit>> {
        let title = agent.spec.title;
        let parts: &[&'static [InstalledPart]] = match self.access {
            Access::Hooks => &[agent.spec.install.hooks],
            Access::HooksAndServer => &[agent.spec.install.hooks, agent.spec.install.server],
        };
        let version = agent.version();
        let registration = Registration {
            version,
            shim: text_of(&self.programs.shim)?.to_owned(),
            recall: text_of(&self.programs.recall)?.to_owned(),
            guarding: guarding(self.environment),
        };
        let guarding = registration.guarding;
        let edits = Edit::plan(agent, parts, &EditAction::Register(registration))?;
        let settings = inspection::hooks_file(agent).filter(|_| agent.has_place_for_hooks());
        let Some(path) = settings else {
            match self.scope {
                SettingsOwner::Project(_) => writeln!(out, "{title}: has no project settings; skipped.")?,
                SettingsOwner::User => writeln!(out, "{title}: has no file for hooks yet; skipped.")?,
            }
            return Ok(Vec::new());
        };
        let version_text = version.map(|version| format!(" {version}")).unwrap_or_default();
        match agent.is_connected_by_plugin() {
            true => writeln!(out, "{title}{version_text}: a plugin in {}", path.display())?,
            false => {
                let count = agent.spec.events_with_guards(version, guarding).count();
                writeln!(out, "{title}{version_text}: {count} hooks in {}", path.display())?;
            }
        }
        if version.is_none() {
            skipped_hooks(agent.spec, out)?;
        }
        if !edits.iter().any(Edit::is_needed) {
            writeln!(out, "  Already installed; nothing to change.")?;
        }
        for (edit, mode) in edits.iter().filter_map(|edit| Some((edit, edit.file.open_mode()?))) {
            let path = edit.file.path().display();
            writeln!(
                out,
                "  {WARNING}Other users can write to {path} (mode {mode:o}) and change what your agent runs.{WARNING:#}"
            )?;
            writeln!(out, "  recall does not change the mode. To fix it: chmod go-w '{path}'")?;
        }
        for edit in edits.iter().filter(|edit| edit.is_needed() && edit.file.path() != path) {
            writeln!(out, "  Also {}", edit.file.path().display())?;
        }
        for edit in edits.iter().filter(|edit| edit.is_left_out()) {
            let path = edit.file.path().display();
            writeln!(out, "  {path} is yours and stays, so recall does not get that event.")?;
        }
        let (switch, plugin) = inspection::obstacles(agent, &edits);
        if let HookSwitch::Off(setting) = switch {
            writeln!(out, "  Warning: {setting} is set there, so {title} runs no hooks.")?;
        }
        if let Some(plugin) = plugin {
            writeln!(out, "  Warning: the plugin {plugin} contains the same hooks; disable one of the two.")?;
        }
        Ok(edits)
    }

    fn register(&self, edits: Vec<Edit>, out: &mut dyn Write) -> anyhow::Result<()> {
        let mut connected: Vec<&'static AgentSpec> = Vec::new();
        for edit in edits.into_iter().filter(Edit::is_needed) {
            let (spec, backup) = (edit.spec, edit.file.backup_path());
            edit.apply()?;
            if !connected.iter().any(|known| known.name == spec.name) {
                writeln!(out, "Installed the hooks of {}.", spec.title)?;
                connected.push(spec);
            }
            if backup.exists() {
                writeln!(out, "  The previous settings are in {}", backup.display())?;
            }
        }
        if connected.is_empty() {
            return Ok(());
        }
        for spec in &connected {
            if let Some(then) = spec.install.then {
                writeln!(out, "{then}")?;
            }
        }
        self.announce();
        writeln!(out, "Next: start a new session of {}; it will be remembered.", list(&connected))?;
        writeln!(
            out,
            "      `recall doctor` checks that everything works, `recall context` shows what is remembered here."
        )?;
        writeln!(out, "      `recall uninstall` reverts everything.")?;
        Ok(())
    }

    /// Makes the first session greet the user. If there is already a memory, no greeting is needed.
    fn announce(&self) {
        let Some(paths) = paths(self.environment) else { return };
        if self.scope == SettingsOwner::User
            && !paths.database().exists()
            && paths.create_state_folder().is_ok()
        {
            // If this fails, there is no greeting, which is no reason to stop.
            let _ = Welcome::new(paths.state_dir()).announce();
        }
    }

    /// Returns the service to set up; `None` if there is nothing to do.
    fn plan_service(&self, out: &mut dyn Write) -> anyhow::Result<Option<Service<'_>>> {
        let Some(service) = self.service else { return Ok(None) };
        match service.plan(&self.programs.recall)? {
            Plan::Unavailable(why) => {
                writeln!(out, "Service: skipped, because {why}. Hooks start the daemon by themselves.")?;
                Ok(None)
            }
            Plan::Current => {
                writeln!(out, "Service: already set up.")?;
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

/// Lists the hooks that need a newer version, if the agent's version is unknown.
fn skipped_hooks(spec: &AgentSpec, out: &mut dyn Write) -> std::io::Result<()> {
    let known: Vec<&str> = spec.events_of(None).map(|event| event.name).collect();
    let names = spec.events().iter().map(|event| event.name);
    let skipped: Vec<&str> = names.filter(|name| !known.contains(name)).collect();
    if skipped.is_empty() {
        return Ok(());
    }
    let (title, program, skipped) = (spec.title, spec.host.program, skipped.join(", "));
    writeln!(
        out,
        "  {title}'s version is unknown, so these hooks were skipped: {skipped}. Run `recall install` again once \
         `{program} --version` works."
    )
}

/// Formats a list as `A, B or C`.
fn list(agents: &[&'static AgentSpec]) -> String {
    let titles: Vec<_> = agents.iter().map(|spec| spec.title).collect();
    match titles.split_last() {
        Some((last, [])) => (*last).to_owned(),
        Some((last, before)) => format!("{} or {last}", before.join(", ")),
        None => String::new(),
    }
}

/// Returns the path as text. Settings are text, so it must be valid UTF-8.
fn text_of(program: &Path) -> anyhow::Result<&str> {
    let failure = || Failure::failed(format!("the path of {} is not valid UTF-8", program.display()));
    program.to_str().ok_or_else(|| failure().hint("move recall to another folder").into())
}

/// The paths of recall's files in this environment; `None` without a home folder.
pub(super) fn paths(environment: &Environment) -> Option<Paths> {
    let variable = |name: &str| match name {
        "HOME" => Some(environment.home().as_os_str().to_owned()),
        _ => environment.variable(name).map(ToOwned::to_owned),
    };
    Paths::from_variables(&variable).ok()
}

#[cfg(test)]
mod tests;
