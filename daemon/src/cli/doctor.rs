//! `recall doctor`: checks what is installed, running and reachable, and suggests fixes.

mod agents;
mod daemon;
mod folders;
mod project;

use std::collections::HashSet;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use recall_protocol::paths::Paths;
use serde::Serialize;

use super::client::this_program;
use super::failure::Failure;
use super::terminal::{BOLD, DIM, ERROR, GOOD, WARNING, counted};
use crate::server::run::last_config;
use crate::service;
use recall_config::Config;

const ANSWER_WITHIN: Duration = Duration::from_secs(2);

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    Good,
    /// It works, but could be better.
    Note,
    Bad,
}

/// The result of one check.
#[derive(Debug, Serialize)]
struct Finding {
    health: Health,
    area: &'static str,
    what: String,
    /// The next step for the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Serialize)]
struct Report {
    healthy: bool,
    findings: Vec<Finding>,
}

/// Fails with exit code 1 if something is broken.
pub fn run(args: &DoctorArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let paths = Paths::from_env().context("Cannot find recall's folders")?;
    let mut findings = Vec::new();
    programs(&mut findings);
    let unusable = folders::folders(&paths, &mut findings);
    config(&paths, &mut findings);
    project::project(&mut findings);
    project::identity(&paths, &mut findings);
    daemon::daemon(&paths, &mut findings);
    daemon::database(&paths, &mut findings);
    folders::spool(&paths, &unusable, &mut findings);
    agents::agents(&mut findings);
    service_manager(&mut findings);
    let mut seen = HashSet::new();
    findings.retain(|finding| finding.health == Health::Good || seen.insert(finding.what.clone()));
    let broken = findings.iter().filter(|finding| finding.health == Health::Bad).count();
    if args.json {
        serde_json::to_writer(&mut *out, &Report { healthy: broken == 0, findings })?;
        writeln!(out)?;
    } else {
        print(out, &findings)?;
        if broken == 0 {
            let notes = findings.iter().filter(|finding| finding.health == Health::Note).count();
            let notes = match notes {
                0 => String::new(),
                notes => format!("; {} to read", counted(notes, "note", "notes")),
            };
            writeln!(out, "{GOOD}No problem found{GOOD:#}{notes}.")?;
        }
    }
    if broken == 0 {
        return Ok(());
    }
    let what = if broken == 1 { "1 problem found".to_owned() } else { format!("{broken} problems found") };
    Err(Failure::failed(what).into())
}

fn print(out: &mut dyn Write, findings: &[Finding]) -> std::io::Result<()> {
    let mut area = "";
    for finding in findings {
        if finding.area != area {
            area = finding.area;
            writeln!(out, "{BOLD}{area}{BOLD:#}")?;
        }
        match finding.health {
            Health::Good => writeln!(out, "  {GOOD}ok{GOOD:#}    {}", finding.what)?,
            Health::Note => writeln!(out, "  {WARNING}note{WARNING:#}  {}", finding.what)?,
            Health::Bad => writeln!(out, "  {ERROR}bad{ERROR:#}   {}", finding.what)?,
        }
        if let Some(hint) = &finding.hint {
            writeln!(out, "        {DIM}{hint}{DIM:#}")?;
        }
    }
    Ok(())
}

/// Collects the findings of one area.
struct Area<'a> {
    name: &'static str,
    findings: &'a mut Vec<Finding>,
}

impl Area<'_> {
    fn good(&mut self, what: impl Into<String>) {
        self.add(Health::Good, what.into(), None);
    }

    fn note(&mut self, what: impl Into<String>, hint: &str) {
        self.add(Health::Note, what.into(), Some(hint.to_owned()));
    }

    fn bad(&mut self, what: impl Into<String>, hint: &str) {
        self.add(Health::Bad, what.into(), Some(hint.to_owned()));
    }

    fn add(&mut self, health: Health, what: String, hint: Option<String>) {
        let hint = hint.filter(|hint| !hint.is_empty());
        self.findings.push(Finding { health, area: self.name, what, hint });
    }
}

fn programs(findings: &mut Vec<Finding>) {
    let mut area = Area { name: "programs", findings };
    match this_program() {
        Ok(program) => {
            area.good(format!("recall {} at {}", env!("CARGO_PKG_VERSION"), program.display()));
            let shim = program.with_file_name("recall-shim");
            if shim.is_file() {
                area.good(format!("recall-shim at {}", shim.display()));
            } else {
                area.bad(
                    format!("no recall-shim at {}", shim.display()),
                    "Install both programs into one folder with ./install.sh.",
                );
            }
        }
        Err(error) => area.bad(format!("{error:#}"), ""),
    }
}

fn config(paths: &Paths, findings: &mut Vec<Finding>) {
    let mut area = Area { name: "config", findings };
    let file = paths.config_file();
    let loaded = Config::obeyed(file, &last_config(paths));
    if loaded.problems.is_empty() {
        match file.exists() {
            true => area.good(file.display().to_string()),
            false => area.good(format!("no {}; using the defaults", file.display())),
        }
    }
    for problem in &loaded.problems {
        area.bad(format!("{}, {problem}", file.display()), "");
    }
    if !loaded.problems.is_empty() {
        area.note(loaded.consequence(), "Fix the file with `recall config edit`.");
    }
}

fn service_manager(findings: &mut Vec<Finding>) {
    let mut area = Area { name: "service", findings };
    match service::status() {
        Ok(service::Status::Unavailable(why)) => {
            area.note(format!("no service manager: {why}"), "The shim starts the daemon.");
        }
        Ok(service::Status::NotInstalled) => {
            area.note(
                "not installed as a service",
                "Run `recall install` to set it up; until then the shim starts the daemon.",
            );
        }
        Ok(service::Status::Installed(installed)) => {
            let program =
                installed.program.as_deref().map_or_else(|| Path::new("?").display(), Path::display);
            if installed.program_state == service::ProgramState::Missing {
                return area.bad(
                    format!("the service starts {program}, which does not exist"),
                    "Run `recall install`.",
                );
            }
            let units: Vec<_> =
                installed.units.iter().map(|(unit, state)| format!("{unit} {state}")).collect();
            area.good(format!("{program}: {}", units.join(", ")));
        }
        Err(error) => area.note(error.to_string(), ""),
    }
}
