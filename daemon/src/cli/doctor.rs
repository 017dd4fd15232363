//! `recall doctor`: what is installed, running and reachable, and what to do about what is not.

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
use super::install::inspection::{self, AgentReport, EventState, Presence, SettingsState};
use super::install::second_settings::SecondCommands;
use super::keeping;
use super::terminal::{self, BOLD, DIM, ERROR, GOOD, WARNING};
use crate::actors::subscriber::SubscriberCounters;
use crate::app::capture_rules::project_files;
use crate::app::clock;
use crate::config::Config;
use crate::project_file::Captured;
use crate::repository::{self, Ignored};
use crate::server::answers::found::{IdentityAnswer, UnprovenClaimAnswer};
use crate::server::answers::status::{PingAnswer, RepairAnswer, StatusAnswer};
use crate::server::run::{self, foreign_files, repair_note};
use crate::service;
use crate::store::recent_repairs;

const ANSWER_WITHIN: Duration = Duration::from_secs(2);
/// After that a loss is history.
const RECENTLY: Duration = Duration::from_secs(7 * 24 * 3600);

#[derive(Debug, Args)]
pub struct DoctorArgs {
    /// Write JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Health {
    Good,
    /// Works, and could be better.
    Note,
    Bad,
}

/// One thing that was looked at.
#[derive(Debug, Serialize)]
struct Finding {
    health: Health,
    area: &'static str,
    what: String,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    hint: Option<String>,
}

#[derive(Serialize)]
struct Report {
    healthy: bool,
    findings: Vec<Finding>,
}

/// # Errors
/// When something is broken; a [`Failure`] with exit code 1.
pub fn run(args: &DoctorArgs, out: &mut dyn Write) -> anyhow::Result<()> {
    let paths = Paths::from_env().context("finding recall's folders")?;
    let mut findings = Vec::new();
    programs(&mut findings);
    folders(&paths, &mut findings);
    config(&paths, &mut findings);
    project(&mut findings);
    identity(&paths, &mut findings);
    daemon(&paths, &mut findings);
    database(&paths, &mut findings);
    spool(&paths, &mut findings);
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
    let what =
        if broken == 1 { "One thing is broken".to_owned() } else { format!("{broken} things are broken") };
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

/// Collects findings of one area.
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
                area.good(format!("recall-shim beside it at {}", shim.display()));
            } else {
                area.bad(
                    format!("there is no recall-shim beside it at {}", shim.display()),
                    "Install both programs into one folder: ./install.sh does.",
                );
            }
        }
        Err(error) => area.bad(format!("{error:#}"), ""),
    }
}

fn folders(paths: &Paths, findings: &mut Vec<Finding>) {
    let mut area = Area { name: "folders", findings };
    for (name, path) in
        [("data", paths.data_dir()), ("state", paths.state_dir()), ("socket", paths.runtime_dir())]
    {
        let shown = format!("{name} folder {}", path.display());
        match (folder::check_writable(path), folder::look(path)) {
            (Ok(()), FolderState::Absent) => {
                area.note(format!("{shown} is not there yet"), "The daemon makes it.");
            }
            (Ok(()), FolderState::Open) => {
                area.note(format!("{shown} is open to others"), "The daemon closes it when it starts.");
            }
            (Ok(()), _) => area.good(shown),
            (Err(error), _) => area.bad(keeping::reason(&error), folder_hint(&error)),
        }
    }
    for foreign in foreign_files(paths) {
        area.bad(foreign.to_string(), "The daemon does not start with it: move it away.");
    }
    if let Err(error) = paths.socket() {
        area.bad(error.to_string(), "");
    }
}

fn folder_hint(error: &FolderError) -> &'static str {
    match error {
        FolderError::Symlink { .. } => "Put a real folder in its place.",
        FolderError::NotAFolder { .. } => "Move that file away.",
        FolderError::Foreign { .. } => "Make it yours, or move it away.",
        FolderError::Create { .. } | FolderError::Write { .. } | FolderError::Restrict { .. } => {
            "Make its place yours and writable, or point RECALL_HOME to one that is."
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
            false => area.good(format!("no {}: everything at its default", file.display())),
        }
    }
    for problem in &loaded.problems {
        area.bad(format!("{}, {problem}", file.display()), "");
    }
    if !loaded.problems.is_empty() {
        area.note(loaded.consequence(), "");
    }
}

/// What the project of this folder says of itself, where it says something.
fn project(findings: &mut Vec<Finding>) {
    let Ok(folder) = std::env::current_dir() else { return };
    let facts = repository::facts(&folder);
    let home = std::env::home_dir().unwrap_or_default();
    let files = project_files(&folder, &facts, &home);
    let mut area = Area { name: "project", findings };
    for Ignored { path, why } in repository::ignored(&folder) {
        area.note(
            format!("{} is ignored: {why}", path.display()),
            "A repository counts only as far as it is yours or root's, no other user may write it, and no symlink leads \
             out of it: somebody else could decide what is remembered here. `chown` and `chmod go-w` make it yours.",
        );
    }
    if let Some(target) = &facts.mentions.pointed_at {
        area.note(
            format!(
                "{} is a project of its own: its .git points at {target}, which does not point back",
                facts.folder
            ),
            "Anybody can write such a pointer, so nothing of that repository's project is told here. `git worktree repair` \
             mends a worktree that was moved; `git config core.worktree \"$PWD\"` in the folder itself mends one whose git \
             folder lies elsewhere.",
        );
    }
    for unread in &facts.mentions.unread {
        area.note(
            format!("{}: its .git/config includes a file that is not read: {unread}", facts.folder),
            "Remotes that are named there are not compared with capture.exclude. If one of them leads to an excluded \
             project, exclude this folder too.",
        );
    }
    for (root, rules) in files {
        let root = root.display();
        if rules.captured == Captured::No && rules.complaints.is_empty() {
            area.note(format!("{root} asks that nothing of it is kept"), "Its .recall.toml says so.");
        }
        for complaint in rules.complaints {
            area.note(
                format!("{root}: {complaint}"),
                "A project's .recall.toml may only hold `exclude`, `disable` and `alias`. It counts if it is a regular file \
                 of yours or root's that no other user may write.",
            );
        }
    }
}

/// Why the folder at hand stands alone, where it names a project that it is not believed to be of.
fn identity(paths: &Paths, findings: &mut Vec<Finding>) {
    let request = Identity { folder: this_folder() };
    // A daemon that is not there, or of another version, is told of elsewhere.
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
            "{folder} is a project of its own, \"{project}\": its .git/config names {remote}, which is the project \
             \"{other}\", but it shows no commit of that"
        ),
        "Anybody can write such a line, so nothing of that project is told here. If it is a clone, `git fetch` brings \
         a commit that shows it, and the next session joins; `git repack -a -d` does where it borrows another folder's \
         commits. If it is another project, `alias = \"NAME\"` in its .recall.toml gives it a name of its own.",
    );
}

fn daemon(paths: &Paths, findings: &mut Vec<Finding>) {
    let mut area = Area { name: "daemon", findings };
    match Connection::open(paths, Deadline::after(ANSWER_WITHIN)) {
        Ok(_) => match Client::connect_at(paths, Start::Never).and_then(|mut client| status(&mut client)) {
            Ok((PingAnswer { version, pid }, status)) => {
                area.good(format!("running and answering: version {version}, pid {pid}"));
                if version != env!("CARGO_PKG_VERSION") {
                    area.note(
                        format!("it is of another version than this program ({})", env!("CARGO_PKG_VERSION")),
                        "`recall ctl stop` ends it; the next hook starts the new one.",
                    );
                }
                if let Some(status) = status {
                    trouble(&mut area, &status);
                }
            }
            Err(error) => area.bad(
                format!("{error:#}"),
                "The log may say why; `recall ctl stop` and a new start may help.",
            ),
        },
        Err(ConnectError::NothingListens) if keeping::obstacle(paths).is_some() => {
            area.bad("not running, and events cannot wait for it: they are lost", "Mend the folders first.");
        }
        Err(ConnectError::NothingListens) => {
            area.note(
                "not running",
                "Nothing is lost: the next hook starts it, and events wait in the spool.",
            );
        }
        Err(error) => area.bad(format!("cannot be reached: {error}"), "Is another user's socket in the way?"),
    }
}

/// Who answers, and how it is; `None` where a daemon of another version says that in another shape.
fn status(client: &mut Client) -> anyhow::Result<(PingAnswer, Option<StatusAnswer>)> {
    let ping = client.ask_within(Ping, ANSWER_WITHIN)?.read()?;
    match client.ask_within(Status, ANSWER_WITHIN)?.read() {
        Ok(status) => Ok((ping, Some(status))),
        Err(_) if ping.version != env!("CARGO_PKG_VERSION") => Ok((ping, None)),
        Err(error) => Err(error),
    }
}

/// What a running daemon says of itself that somebody should look at.
fn trouble(area: &mut Area<'_>, status: &StatusAnswer) {
    if status.paused.is_some() {
        area.note(super::ctl::pause::sentence(status.paused.as_ref()), "`recall ctl resume` ends it.");
    }
    let dead = status.jobs.dead;
    if dead > 0 {
        area.note(format!("{dead} compression jobs were given up"), "See `recall ctl jobs`.");
    }
    let twice = status.events.told_twice;
    if twice > 0 {
        area.note(
            format!("{twice} calls and prompts were told by two hooks, and stored and answered once"),
            "An agent runs recall's hooks twice: from the user's and a project's settings, or because it \
             also reads another agent's. Keep one of them.",
        );
    }
    subscriptions(area, &status.subscribe);
}

/// The commands of `[[subscribe]]`, where they fail.
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
            format!("{dropped} events came faster than their subscribed commands ended"),
            "Subscribe to fewer events, or let the command end sooner.",
        );
    }
}

/// What the daemon has left written: it need not run for this.
fn database(paths: &Paths, findings: &mut Vec<Finding>) {
    let repairs = recent_repairs(&repair_note(paths), clock::now());
    if repairs.is_empty() && !paths.database().exists() {
        return;
    }
    let mut area = Area { name: "database", findings };
    if repairs.is_empty() {
        area.good(format!("{}, no damage found in the last week", paths.database().display()));
    }
    for repair in repairs {
        area.note(
            terminal::repair(&RepairAnswer::from(repair)),
            "What came between the two is only in the damaged file: `sqlite3 FILE .recover` may read some of it.",
        );
    }
}

fn spool(paths: &Paths, findings: &mut Vec<Finding>) {
    let mut area = Area { name: "spool", findings };
    match keeping::obstacle(paths) {
        Some(error) => area.bad(
            format!("no event can be kept while no daemon answers: {}", keeping::reason(&error)),
            folder_hint(&error),
        ),
        None => {
            let waiting = Spool::new(paths).list(usize::MAX).map_or(0, |names| names.len());
            area.good(format!("{waiting} events wait for the daemon"));
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
                "They are gone. See that the daemon runs and stays, and that recall's folders can be written.",
            );
        } else {
            area.note(sentence, "They are gone.");
        }
    }
    losses.told();
}

fn agents(findings: &mut Vec<Finding>) {
    let mut area = Area { name: "agents", findings };
    let here = std::env::current_dir().unwrap_or_default();
    let root = PathBuf::from(repository::facts(&here).folder);
    for report in inspection::inspect(&[here, root]) {
        agent(&mut area, &report);
    }
}

fn agent(area: &mut Area<'_>, report: &AgentReport) {
    let version = report.version.as_ref().map(|version| format!(" {version}")).unwrap_or_default();
    let title = format!("{}{version}", report.title);
    if report.presence == Presence::Absent {
        return area.note(format!("{} is not on this machine", report.title), "");
    }
    registered_again(area, report, &title);
    let install = format!("Run `recall install --agent {}`.", report.agent);
    let settings = report.settings.display();
    let (events, switch, plugin) = match &report.state {
        SettingsState::Missing => return area.note(format!("{title}: not connected"), &install),
        SettingsState::Unreadable(why) => {
            return area
                .bad(format!("{title}: {why}"), "The agent ignores such a file, and every hook in it.");
        }
        SettingsState::Read { events, switch, plugin } => (events, switch, plugin),
    };
    let healthy = events.iter().filter(|event| event.state == EventState::Installed).count();
    if events.iter().all(|event| event.state == EventState::Missing) {
        area.note(format!("{title}: not connected"), &install);
    } else if healthy == events.len() {
        area.good(format!("{title}: {healthy} events connected in {settings}"));
    } else {
        for event in events.iter().filter(|event| event.state != EventState::Installed) {
            let name = &event.event;
            let what = match &event.state {
                EventState::Installed => continue,
                EventState::Missing => format!("{name} is not connected"),
                EventState::ShimMissing(path) => {
                    format!("{name} runs {}, which is not there", path.display())
                }
                EventState::ShimNotExecutable(path) => {
                    format!("{name} runs {}, which is no program", path.display())
                }
                EventState::Duplicate(times) => format!("{name} is connected {times} times"),
                EventState::Partial => format!("{name} has a matcher that hides some of it"),
                EventState::OtherShim(path) => format!("{name} runs another shim, {}", path.display()),
                EventState::Outdated => format!("{name} is connected in an older form"),
                EventState::Unwanted => format!("{name} is connected and not used"),
            };
            area.bad(format!("{title}: {what}"), &install);
        }
    }
    if *switch != HookSwitch::On {
        area.bad(format!("{title}: hooks are switched off in {settings}"), "Remove disableAllHooks.");
    }
    if let Some(plugin) = plugin {
        area.bad(
            format!("{title}: the plugin {plugin} tells every event a second time"),
            "Keep one of the two.",
        );
    }
}

/// Hooks of the project at hand that tell what others tell already.
fn registered_again(area: &mut Area<'_>, report: &AgentReport, title: &str) {
    for again in &report.again {
        let (first, path) = (again.first.display(), again.path.display());
        let hint =
            format!("Remove recall's hooks from {path}; those that `recall install` writes are enough.");
        let what = format!("{title}: {} events of {first} are connected again in {path}", again.events);
        match again.commands {
            SecondCommands::Same => area.note(format!("{what}, by the same commands, which run once"), &hint),
            SecondCommands::Different => area.bad(what, &hint),
        }
    }
}

fn service_manager(findings: &mut Vec<Finding>) {
    let mut area = Area { name: "service", findings };
    match service::status() {
        Ok(service::Status::Unavailable(why)) => {
            area.note(format!("no service manager: {why}"), "The shim starts the daemon by itself.");
        }
        Ok(service::Status::NotInstalled) => {
            area.note(
                "not set up as a service",
                "`recall install` does it; until then the shim starts the daemon.",
            );
        }
        Ok(service::Status::Installed(installed)) => {
            let program =
                installed.program.as_deref().map_or_else(|| Path::new("?").display(), Path::display);
            if installed.program_state == service::ProgramState::Missing {
                return area
                    .bad(format!("it would start {program}, which is not there"), "Run `recall install`.");
            }
            let units: Vec<_> =
                installed.units.iter().map(|(unit, state)| format!("{unit} {state}")).collect();
            area.good(format!("{program}: {}", units.join(", ")));
        }
        Err(error) => area.note(error.to_string(), ""),
    }
}
