//! Checks the hooks of the agents.

use std::path::PathBuf;

use super::{Area, Finding};
use crate::cli::client::{Client, Start, this_folder};
use crate::cli::install::hook_settings::HookSwitch;
use crate::cli::install::inspection::{self, AgentReport, ConnectedBy, EventState, Presence, SettingsState};
use crate::cli::install::second_settings::SecondCommands;
use crate::cli::silent_agents::{Silence, SilentAgent, silent};
use crate::cli::terminal::ago;
use recall_agents::AGENTS;
use recall_protocol::query::Glance;

pub(super) fn agents(findings: &mut Vec<Finding>) {
    let mut area = Area { name: "agents", findings };
    let here = std::env::current_dir().unwrap_or_default();
    let root = PathBuf::from(recall_repository::facts(&here).folder);
    let (found, absent): (Vec<_>, Vec<_>) = inspection::inspect(AGENTS, &[here, root])
        .into_iter()
        .partition(|report| report.presence == Presence::Found);
    let silent = silent_now();
    for report in &found {
        agent(&mut area, report, silent.iter().find(|silent| silent.spec.name == report.agent));
    }
    if !absent.is_empty() {
        let titles: Vec<_> = absent.iter().map(|report| report.title).collect();
        area.note(format!("not on this machine: {}", titles.join(", ")), "");
    }
}

/// Returns the agents that report nothing any more. Other checks report a daemon that does not respond.
fn silent_now() -> Vec<SilentAgent> {
    let folder = this_folder();
    let glance = Client::connect(Start::Never).and_then(|mut client| client.ask(Glance { folder })?.read());
    glance.map(|glance| silent(AGENTS, &glance)).unwrap_or_default()
}

/// Reports on an agent. `silent` says why it reports nothing any more.
fn agent(area: &mut Area<'_>, report: &AgentReport, silent: Option<&SilentAgent>) {
    let version = report.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let title = format!("{}{version}", report.title);
    registered_again(area, report, &title);
    let install = format!("Run `recall install --agent {}`.", report.agent);
    let settings = report.settings.display();
    match silent.map(|silent| (&silent.why, ago(silent.last))) {
        Some((Silence::Gone, last)) => {
            let what = format!("{title}: its hooks are gone from {settings}; it last reported {last}");
            return area.bad(what, &install);
        }
        Some((Silence::Unreported(at), last)) => {
            let what = format!(
                "{title}: its hooks in {settings} report nothing; it recorded a session {}, and last reported {last}",
                ago(*at)
            );
            area.bad(what, &silent.map(SilentAgent::hint).unwrap_or_default());
        }
        // Said below.
        Some((Silence::Off(..), _)) | None => {}
    }
    if let Some(tried) = report.tried {
        let what = format!("{title} is newer than {tried}, the newest version tested with recall");
        area.note(what, "If it complains about hooks, or its sessions are missing, please report it.");
    }
    let (events, switch, plugin) = match &report.state {
        SettingsState::Missing => return area.note(format!("{title}: not connected"), &install),
        SettingsState::Unreadable(why) => {
            return area.bad(format!("{title}: {why}"), "The agent ignores this file and all its hooks.");
        }
        SettingsState::Read { events, switch, plugin } => (events, switch, plugin),
    };
    let healthy = events.iter().filter(|event| event.state == EventState::Installed).count();
    if events.iter().all(|event| event.state == EventState::Missing) {
        area.note(format!("{title}: not connected"), &install);
    } else if healthy == events.len() {
        let how = match report.connected_by {
            ConnectedBy::Hooks => format!("{healthy} hooks"),
            ConnectedBy::Plugin => "a plugin".to_owned(),
        };
        area.good(format!("{title}: {how} in {settings}; {}", report.given));
    } else {
        for event in events.iter().filter(|event| event.state != EventState::Installed) {
            let name = &event.event;
            let what = match &event.state {
                EventState::Installed => continue,
                EventState::Missing => format!("{name} is not registered"),
                EventState::ShimMissing(path) => {
                    format!("{name} runs {}, which does not exist", path.display())
                }
                EventState::ShimNotExecutable(path) => {
                    format!("{name} runs {}, which is not executable", path.display())
                }
                EventState::Duplicate(times) => format!("{name} is registered {times} times"),
                EventState::Partial => format!("{name} has a matcher that hides some events"),
                EventState::OtherShim(path) => format!("{name} runs a different shim, {}", path.display()),
                EventState::Outdated => format!("{name} is registered in an outdated form"),
                EventState::Unwanted => format!("{name} is registered but not used"),
            };
            area.bad(format!("{title}: {what}"), &install);
        }
    }
    if let HookSwitch::Off(setting) = switch {
        area.bad(format!("{title}: hooks are disabled in {settings}"), &format!("Remove {setting}."));
    }
    if let Some(plugin) = plugin {
        area.bad(
            format!("{title}: the plugin {plugin} reports every event a second time"),
            "Remove one of the two.",
        );
    }
}

/// Reports hooks that the project's settings register again.
fn registered_again(area: &mut Area<'_>, report: &AgentReport, title: &str) {
    for again in &report.again {
        let (first, path) = (again.first.display(), again.path.display());
        let hint = format!("Remove recall's hooks from {path}.");
        let what = format!("{title}: {} hooks of {first} are also in {path}", again.events);
        match again.commands {
            SecondCommands::Same => area.note(format!("{what}; harmless, each runs once"), &hint),
            SecondCommands::Different => area.bad(what, &hint),
        }
    }
}
