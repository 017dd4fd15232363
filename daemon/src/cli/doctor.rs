//! `recall doctor`: checks what is installed, running and reachable, and suggests fixes.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use recall_protocol::client::{ConnectError, Connection};
use recall_protocol::folder::{self, FolderError, FolderState};
use recall_protocol::frame::Deadline;
use recall_protocol::losses::Losses;
use recall_protocol::paths::Paths;
use recall_protocol::query::{Identity, Ping, Status};
use recall_protocol::spool::Spool;
use serde::Serialize;

use super::client::{Client, Start, this_folder, this_program};
use super::failure::Failure;
use super::install::hook_settings::HookSwitch;
use super::install::inspection::{self, AgentReport, ConnectedBy, EventState, Presence, SettingsState};
use super::install::second_settings::SecondCommands;
use super::keeping;
use super::terminal::{self, BOLD, DIM, ERROR, GOOD, WARNING};
use crate::agents::AGENTS;
use crate::app::answers::found::{IdentityAnswer, UnprovenClaimAnswer};
use crate::app::answers::status::SubscriberCounters;
use crate::app::answers::status::{PingAnswer, RepairAnswer, StatusAnswer};
use crate::app::capture_rules::project_files;
use crate::app::clock;
use crate::config::Config;
use crate::project_file::Captured;
use crate::repository::{self, Ignored};
use crate::server::run::{self, foreign_files, repair_note};
use crate::service;
use crate::store::recent_repairs;

const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// Older losses are only a note.
const RECENTLY: Duration = Duration::from_secs(7 * 24 * 3600);

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
    /// Works, but could be better.
    Note,
    Bad,
}

/// The result of one check.
#[derive(Debug, Serialize)]
struct Finding {
    health: Health,
    area: &'static str,
    what: String,
    /// What the user can do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Serialize)]
struct Report {
    healthy: bool,
    findings: Vec<Finding>,
}

/// Fails with exit code 1 when something is broken.
pub fn run(args: &DoctorArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let paths = Paths::from_env().context("finding recall's folders")?;
    let mut findings = Vec::new();
    programs(&mut findings);
    let unusable = folders(&paths, &mut findings);
    config(&paths, &mut findings);
    project(&mut findings);
    identity(&paths, &mut findings);
    daemon(&paths, &mut findings);
    database(&paths, &mut findings);
    spool(&paths, &unusable, &mut findings);
    agents(&mut findings);
    service_manager(&mut findings);
    let broken = findings.iter().filter(|finding| finding.health == Health::Bad).count();
    if args.json {
        serde_json::to_writer(&mut *out, &Report { healthy: broken == 0, findings })?;
        writeln!(out)?;
    } else {
        tell(out, &findings)?;
    }
    if broken == 0 {
        return Ok(());
    }
    let what = if broken == 1 { "1 problem found".to_owned() } else { format!("{broken} problems found") };
    Err(Failure::failed(what).into())
}

fn tell(out: &mut dyn Write, findings: &[Finding]) -> std::io::Result<()> {
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
                    "Install both programs into one folder, as ./install.sh does.",
                );
            }
        }
        Err(error) => area.bad(format!("{error:#}"), ""),
    }
}

/// Checks recall's folders. Returns the cause of each failure, because several folders may fail for one cause.
fn folders(paths: &Paths, findings: &mut Vec<Finding>) -> Vec<PathBuf> {
    let mut area = Area { name: "folders", findings };
    let keeping = keeping::obstacle(paths).map(|error| cause(&error));
    let mut unusable = Vec::new();
    for (name, path) in
        [("data", paths.data_dir()), ("state", paths.state_dir()), ("socket", paths.runtime_dir())]
    {
        let shown = format!("{name} folder {}", path.display());
        match (folder::check_writable(path), folder::look(path)) {
            (Ok(()), FolderState::Absent) => {
                area.note(format!("{shown} does not exist yet"), "The daemon creates it.");
            }
            (Ok(()), FolderState::Open) => {
                area.note(
                    format!("{shown} is readable by other users"),
                    "The daemon makes it private when it starts.",
                );
            }
            (Ok(()), _) => area.good(shown),
            (Err(error), _) => {
                let cause = cause(&error);
                if unusable.contains(&cause) {
                    continue;
                }
                let mut hint = folder_hint(&error).to_owned();
                if keeping.as_ref() == Some(&cause) {
                    hint.push_str(" Until then no event can be kept.");
                }
                area.bad(keeping::reason(&error), &hint);
                unusable.push(cause);
            }
        }
    }
    for foreign in foreign_files(paths) {
        area.bad(foreign.to_string(), "The daemon does not start until you move it away.");
    }
    if let Err(error) = paths.socket() {
        area.bad(error.to_string(), "");
    }
    unusable
}

/// Where the failure is: the folder itself, or the parent in which it cannot be created.
fn cause(error: &FolderError) -> PathBuf {
    match error {
        FolderError::Create { path, .. } => {
            let above = path.ancestors().skip(1).find(|above| above.symlink_metadata().is_ok());
            above.unwrap_or(path).to_owned()
        }
        FolderError::Symlink { path }
        | FolderError::NotAFolder { path }
        | FolderError::Foreign { path, .. }
        | FolderError::Write { path, .. }
        | FolderError::Restrict { path, .. } => path.clone(),
    }
}

fn folder_hint(error: &FolderError) -> &'static str {
    match error {
        FolderError::Symlink { .. } => "Replace it with a real folder.",
        FolderError::NotAFolder { .. } => "Move the file away.",
        FolderError::Foreign { .. } => "Change its owner to you, or move it away.",
        FolderError::Create { .. } | FolderError::Write { .. } | FolderError::Restrict { .. } => {
            "Make its parent yours and writable, or set RECALL_HOME to another folder."
        }
    }
}

fn config(paths: &Paths, findings: &mut Vec<Finding>) {
    let mut area = Area { name: "config", findings };
    let file = paths.config_file();
    let loaded = Config::obeyed(file, &run::last_config(paths));
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
        area.note(loaded.consequence(), "");
    }
}

/// Reports what the files of the current project say.
fn project(findings: &mut Vec<Finding>) {
    let Ok(folder) = std::env::current_dir() else { return };
    let facts = repository::facts(&folder);
    let home = std::env::home_dir().unwrap_or_default();
    let files = project_files(&folder, &facts, &home);
    let mut area = Area { name: "project", findings };
    for Ignored { path, why } in repository::ignored(&folder) {
        area.note(
            format!("{} is ignored: {why}", path.display()),
            "Files of a repository are read only if they belong to you or root, nobody else may write them, and no symlink \
             leads out of it. Use `chown` and `chmod go-w` to fix that.",
        );
    }
    if let Some(target) = &facts.mentions.pointed_at {
        area.note(
            format!(
                "{} is treated as a separate project: its .git points at {target}, which does not point back",
                facts.folder
            ),
            "Anybody can write such a pointer, so this folder gets no notes of that project. For a worktree that was moved, \
             run `git worktree repair`; for a git folder elsewhere, run `git config core.worktree \"$PWD\"` here.",
        );
    }
    for unread in &facts.mentions.unread {
        area.note(
            format!("{}: .git/config includes a file that recall does not read: {unread}", facts.folder),
            "Its remotes are not compared with capture.exclude. If one of them is an excluded project, exclude this folder \
             too.",
        );
    }
    for (root, rules) in files {
        let root = root.display();
        if rules.captured == Captured::No && rules.complaints.is_empty() {
            area.note(format!("{root} is not recorded"), "Its .recall.toml says so.");
        }
        for complaint in rules.complaints {
            area.note(
                format!("{root}: {complaint}"),
                ".recall.toml may contain `exclude`, `disable` and `alias`. It must be a regular file of yours or root's that \
                 no other user may write.",
            );
        }
    }
}

/// Reports why the current folder is not treated as part of the project that it names.
fn identity(paths: &Paths, findings: &mut Vec<Finding>) {
    let request = Identity { folder: this_folder() };
    // The other checks report a missing daemon or one of another version.
    let Ok(answer) = Client::connect_at(paths, Start::Never)
        .and_then(|mut client| client.ask_within(request, ANSWER_WITHIN)?.read())
    else {
        return;
    };
    let IdentityAnswer { folder, project, doubted: Some(doubted) } = answer else { return };
    let UnprovenClaimAnswer { remote, project: other, .. } = doubted;
    let mut area = Area { name: "project", findings };
    area.note(
        format!(
            "{folder} is treated as a separate project, \"{project}\": its .git/config names {remote} (project \
             \"{other}\"), but it contains none of that project's commits"
        ),
        "Anybody can write such a line, so this folder gets no notes of that project. For a clone, run `git fetch` (or \
         `git repack -a -d` if it borrows another folder's objects); the next session then joins the project. For \
         another project, name it with `alias = \"NAME\"` in its .recall.toml.",
    );
}

fn daemon(paths: &Paths, findings: &mut Vec<Finding>) {
    let mut area = Area { name: "daemon", findings };
    match Connection::open(paths, Deadline::after(ANSWER_WITHIN)) {
        Ok(_) => match Client::connect_at(paths, Start::Never).and_then(|mut client| status(&mut client)) {
            Ok((PingAnswer { version, pid }, status)) => {
                area.good(format!("running, version {version}, pid {pid}"));
                if version != env!("CARGO_PKG_VERSION") {
                    area.note(
                        format!("its version differs from this program's ({})", env!("CARGO_PKG_VERSION")),
                        "Run `recall ctl stop`; the next hook starts the new version.",
                    );
                }
                if let Some(status) = status {
                    trouble(&mut area, &status);
                }
            }
            Err(error) => {
                area.bad(format!("{error:#}"), "See the daemon's log, or restart it with `recall ctl stop`.")
            }
        },
        // The checks of the folders and the spool report why it cannot start.
        Err(ConnectError::NothingListens) if keeping::obstacle(paths).is_some() => {}
        Err(ConnectError::NothingListens) => {
            area.note("not running", "The next hook starts it; events wait in the spool.");
        }
        Err(error) => area
            .bad(format!("cannot be reached: {error}"), "Check whether the socket belongs to another user."),
    }
}

/// The daemon's identity and status; no status if a daemon of another version uses another format.
fn status(client: &mut Client) -> anyhow::Result<(PingAnswer, Option<StatusAnswer>)> {
    let ping = client.ask_within(Ping, ANSWER_WITHIN)?.read()?;
    match client.ask_within(Status, ANSWER_WITHIN)?.read() {
        Ok(status) => Ok((ping, Some(status))),
        Err(_) if ping.version != env!("CARGO_PKG_VERSION") => Ok((ping, None)),
        Err(error) => Err(error),
    }
}

/// Problems that a running daemon reports.
fn trouble(area: &mut Area<'_>, status: &StatusAnswer) {
    if status.paused.is_some() {
        area.note(
            super::ctl::pause::sentence(status.paused.as_ref()),
            "Run `recall ctl resume` to continue.",
        );
    }
    let dead = status.jobs.dead;
    if dead > 0 {
        area.note(format!("{dead} compression jobs failed"), "Run `recall ctl jobs --dead` for details.");
    }
    let twice = status.events.told_twice;
    if twice > 0 {
        area.note(
            format!("{twice} events were reported by two hooks; each was stored once"),
            "recall's hooks are registered twice, in the user's and a project's settings or in those of two agents. Remove \
             one of them.",
        );
    }
    subscriptions(area, &status.subscribe);
}

/// Failing commands of `[[subscribe]]`.
fn subscriptions(area: &mut Area<'_>, subscribe: &SubscriberCounters) {
    let SubscriberCounters { runs, failures, dropped, .. } = *subscribe;
    if failures > 0 {
        let last = subscribe.last_failure.as_deref().unwrap_or_default();
        area.note(
            format!("{failures} of {runs} subscribed commands failed: {last}"),
            "See [[subscribe]] in config.toml.",
        );
    }
    if dropped > 0 {
        area.note(
            format!("{dropped} events dropped: a subscribed command is too slow"),
            "Subscribe to fewer events, or make the command faster.",
        );
    }
}

/// Repairs that the daemon has recorded; needs no running daemon.
fn database(paths: &Paths, findings: &mut Vec<Finding>) {
    let repairs = recent_repairs(&repair_note(paths), clock::now());
    if repairs.is_empty() && !paths.database().exists() {
        return;
    }
    let mut area = Area { name: "database", findings };
    if repairs.is_empty() {
        area.good(format!("{}, no damage found", paths.database().display()));
    }
    for repair in repairs {
        area.note(
            terminal::repair(&RepairAnswer::from(repair)),
            "Anything newer is only in the damaged file; `sqlite3 FILE .recover` may recover some of it.",
        );
    }
}

fn spool(paths: &Paths, unusable: &[PathBuf], findings: &mut Vec<Finding>) {
    let mut area = Area { name: "spool", findings };
    match keeping::obstacle(paths) {
        Some(error) if unusable.contains(&cause(&error)) => {}
        Some(error) => area.bad(
            format!("events are lost while the daemon is down: {}", keeping::reason(&error)),
            folder_hint(&error),
        ),
        None => {
            let waiting = Spool::new(paths).list(usize::MAX).map_or(0, |names| names.len());
            area.good(format!("{waiting} events waiting for the daemon"));
        }
    }
    let losses = Losses::new(paths);
    let lost = losses.lost();
    if lost.events > 0 {
        let sentence = keeping::lost_sentence(&lost);
        let is_recent = lost.last.and_then(|last| last.elapsed().ok()).is_none_or(|age| age < RECENTLY);
        if is_recent {
            area.bad(
                sentence,
                "They cannot be recovered. Make sure that the daemon runs and that recall's folders are writable.",
            );
        } else {
            area.note(sentence, "They cannot be recovered.");
        }
    }
    losses.told();
}

fn agents(findings: &mut Vec<Finding>) {
    let mut area = Area { name: "agents", findings };
    let here = std::env::current_dir().unwrap_or_default();
    let root = PathBuf::from(repository::facts(&here).folder);
    let (found, absent): (Vec<_>, Vec<_>) = inspection::inspect(AGENTS, &[here, root])
        .into_iter()
        .partition(|report| report.presence == Presence::Found);
    for report in &found {
        agent(&mut area, report);
    }
    if !absent.is_empty() {
        let titles: Vec<_> = absent.iter().map(|report| report.title).collect();
        area.note(format!("not on this machine: {}", titles.join(", ")), "");
    }
}

fn agent(area: &mut Area<'_>, report: &AgentReport) {
    let version = report.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let title = format!("{}{version}", report.title);
    registered_again(area, report, &title);
    let install = format!("Run `recall install --agent {}`.", report.agent);
    let settings = report.settings.display();
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

/// Hooks that the project's settings register again.
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
