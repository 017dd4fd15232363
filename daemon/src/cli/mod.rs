//! The command line: one file per command.
//!
//! **Invariant:** commands talk to the daemon over its socket and never open the database while a daemon runs.

mod examples;
mod parser_message;
mod overview;
pub mod failure;
pub mod client;
pub mod terminal;
pub mod filter;
pub mod page;
pub mod keeping;
pub mod in_the_way;
pub(crate) mod consent;
pub mod daemon;
pub mod search;
mod summary;
pub mod show;
pub mod timeline;
pub mod context;
pub mod why;
pub mod past_work;
pub mod handoff;
pub mod friction;
pub mod outline;
pub mod wrong;
pub mod stats;
pub mod sql;
pub mod silent_agents;
pub mod statusline;
pub mod config;
pub mod guard;
pub mod model;
pub mod forget;
pub mod remember;
pub mod resolve;
pub mod review;
pub mod remote;
mod restricted;
pub mod share;
pub mod sync;
pub mod team;
mod team_place;
pub mod ctl;
pub mod install;
pub mod uninstall;
mod purge;
pub mod doctor;
pub mod demo;
pub mod edit;
pub mod pin;
pub mod undo;
pub mod export;
pub mod import;
pub mod improve;
pub mod ui;
pub mod mcp;
pub mod completions;
pub mod man;
mod candidates;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::{ArgMatches, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use client::Start;
use failure::{ExitKind, Failure};

use recall_system::faults::VERSION;

/// A memory for coding agents that outlives the session.
///
/// recall uses your agents' hooks to record what they do. It makes these records searchable, and gives later sessions
/// the relevant part. Nothing leaves this machine unless you configure a remote model or share a project.
#[derive(Debug, Parser)]
#[command(name = "recall", version = VERSION, max_term_width = 100)]
struct Arguments {
    /// When to use colours: auto, always or never; NO_COLOR also turns them off
    #[arg(
        long,
        global = true,
        display_order = 900,
        value_name = "WHEN",
        value_enum,
        default_value = "auto",
        hide_possible_values = true
    )]
    color: Colour,
    /// Print long output without a pager
    #[arg(long, global = true, display_order = 901)]
    no_pager: bool,
    #[command(subcommand)]
    command: Command,
}

/// When colours are used.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Colour {
    /// On a terminal.
    Auto,
    Always,
    Never,
}

impl From<Colour> for anstream::ColorChoice {
    fn from(colour: Colour) -> Self {
        match colour {
            Colour::Auto => Self::Auto,
            // Unconditionally, as a pipe or a pager needs them.
            Colour::Always => Self::AlwaysAnsi,
            Colour::Never => Self::Never,
        }
    }
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Connect recall to the agents on this machine
    Install(install::InstallArgs),
    /// Disconnect recall from the agents; your memory stays
    Uninstall(uninstall::UninstallArgs),
    /// Check the installation, and suggest how to fix problems
    Doctor(doctor::DoctorArgs),
    /// Import sessions that your agents recorded earlier
    Import(import::ImportArgs),
    /// Have the configured model rewrite older notes
    ///
    /// It rewrites notes of the built-in compressor, newest sessions first, within the limits of `[compression]`. It
    /// leaves notes that you edited or pinned unchanged. It shows the estimated cost before it starts. If it is
    /// interrupted, run the same command again to continue.
    Improve(improve::ImproveArgs),
    /// Export the memory as JSON Lines or as Markdown pages
    Export(export::ExportArgs),
    /// Replay a recorded session, and show what the next one receives
    Demo(demo::DemoArgs),
    /// Search observations, prompts, answers and tool calls
    Search(search::SearchArgs),
    /// Show observations, prompts, answers or sessions in full
    Show(show::ShowArgs),
    /// Show what happened around an item or in a session
    Timeline(timeline::TimelineArgs),
    /// Show how a command was run here, and which attempts failed
    How(past_work::HowArgs),
    /// Show where an error occurred before, and what fixed it
    Fix(past_work::FixArgs),
    /// Show which sessions changed a file or a line, and why
    Blame(past_work::BlameArgs),
    /// Show recurring problems
    Friction(friction::FrictionArgs),
    /// Show where the code declares a name
    Outline(outline::OutlineArgs),
    /// Show what a person or an agent needs to continue a session
    Handoff(handoff::HandoffArgs),
    /// Show what the next session in a folder receives
    Context(context::ContextArgs),
    /// Show what a session received and why, or which ones got an item
    Why(why::WhyArgs),
    /// Browse the memory in the terminal, or with --web in a browser
    Ui(ui::UiArgs),
    /// Serve the memory to an agent's model over MCP
    Mcp(mcp::McpArgs),
    /// Show daily model costs, and how injected notes were used
    Stats(stats::StatsArgs),
    /// Print one line for a shell's prompt or an agent's status line
    Statusline(statusline::StatuslineArgs),
    /// Run a read-only SQL query
    Sql(sql::SqlArgs),
    /// Show, change and check the settings
    #[command(subcommand)]
    Config(config::ConfigCommand),
    /// List the guards, or test them on a tool call
    #[command(subcommand)]
    Guard(guard::GuardCommand),
    /// Install, list and remove sentence models
    #[command(subcommand)]
    Model(model::ModelCommand),
    /// Store a note of your own
    Remember(remember::RememberArgs),
    /// Mark an observation as resolved, or reopen it
    Resolve(resolve::ResolveArgs),
    /// Rewrite an observation in your editor
    Edit(edit::EditArgs),
    /// Review automatic notes: keep, edit, reject or pin them
    ///
    /// On a terminal, this opens `recall ui` with the observations that nobody has reviewed, newest first. recall no
    /// longer injects rejected observations, and searches show them as resolved.
    Review(review::ReviewArgs),
    /// Pin observations to the start of every session
    Pin(pin::PinArgs),
    /// Mark a note as wrongly injected
    ///
    /// recall no longer injects it on that kind of occasion (session start, prompt, file or command), until you
    /// rewrite it. Searches still find it. If the note is not true at all, use `recall resolve`.
    Wrong(wrong::WrongArgs),
    /// Undo an edit, pin or verdict, even one from another machine
    Undo(undo::UndoArgs),
    /// Delete items permanently, from backups too
    ///
    /// Forgetting a prompt also removes its answer, its tool calls and the observations made from them. A new backup
    /// replaces all earlier ones. Forgotten events are not stored again, even if an agent sends them again.
    Forget(forget::ForgetArgs),
    /// Manage the folders and databases used for sharing
    #[command(subcommand)]
    Remote(remote::RemoteCommand),
    /// Manage which machines can read an encrypted remote
    #[command(subcommand)]
    Team(team::TeamCommand),
    /// Share a project's notes with other machines
    ///
    /// Before anything leaves this machine, recall shows what would be shared, and asks. Preferences and corrections
    /// are not shared, unless all machines are yours (--personal). Prompts and answers are shared only with --prompts
    /// and --answers. You can search other people's notes; sessions receive them only with --inject.
    Share(share::ShareArgs),
    /// Stop sharing a project; removes others' notes, keeps yours
    Unshare(share::UnshareArgs),
    /// Show what is shared, and how up to date each machine is
    Sync(sync::SyncArgs),
    /// Show the state of the daemon
    Status(ctl::status::StatusArgs),
    /// List sessions of this project, newest first
    Sessions(ctl::sessions::SessionsArgs),
    /// Follow session events live
    Events(ctl::events::EventsArgs),
    /// Stop recording and injecting for a while
    Pause(ctl::pause::PauseArgs),
    /// Resume recording
    Resume(ctl::pause::ResumeArgs),
    /// Manage the daemon: backups, jobs, index, stop
    #[command(subcommand)]
    Ctl(ctl::CtlCommand),
    /// Run the daemon in the foreground
    Daemon(daemon::DaemonArgs),
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs),
    /// Run one query for the daemon
    #[command(hide = true)]
    SqlReader(sql::SqlReaderArgs),
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man(man::ManArgs),
}

impl Command {
    /// Whether the command prints once, for people. Its output fits the screen and may be paged.
    fn is_read(&self) -> bool {
        match self {
            Self::Search(_) | Self::Show(_) | Self::Timeline(_) | Self::Context(_) | Self::Why(_) => true,
            Self::How(_) | Self::Fix(_) | Self::Blame(_) | Self::Handoff(_) | Self::Friction(_) => true,
            Self::Outline(_) => true,
            Self::Stats(_) | Self::Status(_) | Self::Sessions(_) | Self::Doctor(_) | Self::Sync(_) => true,
            Self::Undo(args) => args.list,
            Self::Review(args) => args.lists(),
            Self::Model(command) => matches!(command, model::ModelCommand::List(_)),
            Self::Config(command) => matches!(command, config::ConfigCommand::List(_)),
            Self::Ctl(command) => matches!(
                command,
                ctl::CtlCommand::Status(_)
                    | ctl::CtlCommand::Sessions(_)
                    | ctl::CtlCommand::Session(_)
                    | ctl::CtlCommand::Jobs(_)
            ),
            _ => false,
        }
    }

    /// Whether the command reports line by line what it does. Output for scripts stays unchanged, and so does a diff
    /// of settings.
    fn reports_line_by_line(&self) -> bool {
        match self {
            Self::Import(_)
            | Self::Improve(_)
            | Self::Demo(_)
            | Self::Remember(_)
            | Self::Edit(_)
            | Self::Pin(_)
            | Self::Review(_)
            | Self::Wrong(_)
            | Self::Undo(_)
            | Self::Resolve(_)
            | Self::Remote(_)
            | Self::Share(_)
            | Self::Unshare(_) => true,
            Self::Forget(_) | Self::Pause(_) | Self::Resume(_) | Self::Guard(_) | Self::Model(_) => true,
            Self::Ctl(command) => !matches!(command, ctl::CtlCommand::Events(_)),
            Self::Config(command) => !command.is_for_programs(),
            _ => false,
        }
    }

    /// Whether all output of the command is for people. Programs read the output of the others unchanged.
    fn is_for_people(&self) -> bool {
        match self {
            Self::Export(_)
            | Self::Sql(_)
            | Self::SqlReader(_)
            | Self::Completions(_)
            | Self::Man(_)
            | Self::Daemon(_)
            | Self::Mcp(_)
            | Self::Statusline(_)
            | Self::Events(_) => false,
            Self::Ctl(command) => !matches!(command, ctl::CtlCommand::Events(_)),
            Self::Config(command) => !command.is_for_programs(),
            _ => true,
        }
    }

    /// Whether the command also warns about events that cannot be stored or were lost.
    fn warns(&self) -> bool {
        // The doctor reports this in detail, nobody reads the daemon's output, a shell reads the completion script,
        // and a prompt line has no room for it.
        !matches!(
            self,
            Self::Doctor(_)
                | Self::Daemon(_)
                | Self::Completions(_)
                | Self::Man(_)
                | Self::Mcp(_)
                | Self::SqlReader(_)
                | Self::Statusline(_)
        )
    }
}

impl Command {
    /// Whether the command also warns of agents that report nothing any more. Some say it themselves or change it.
    fn warns_of_silent_agents(&self) -> bool {
        let is_exempt =
            matches!(self, Self::Status(_) | Self::Install(_) | Self::Uninstall(_) | Self::Demo(_))
                || matches!(self, Self::Ctl(ctl::CtlCommand::Status(_) | ctl::CtlCommand::Stop(_)));
        self.warns() && self.is_for_people() && !is_exempt
    }
}

/// Runs a command line and returns the exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let Some(code) = completions::answer(&arguments) {
        return code;
    }
    let arguments = search::shield(arguments);
    let words: Vec<String> =
        arguments.iter().skip(1).map(|word| word.to_string_lossy().into_owned()).collect();
    let matches = command_line().try_get_matches_from(arguments);
    let parsed = matches.and_then(|matches| Ok((Arguments::from_arg_matches(&matches)?, matches)));
    let (parsed, matches) = match parsed {
        Ok(parsed) => parsed,
        Err(error) => {
            // Help and version are not errors; clap picks the right stream for each.
            let code = if error.use_stderr() { ExitKind::Usage.code() } else { 0 };
            parser_message::print(error, &words);
            return ExitCode::from(code);
        }
    };
    // The MCP library locks stdout for each message.
    if matches!(parsed.command, Command::Mcp(_)) {
        return mcp::run().map_or_else(|error| report(&error), |()| ExitCode::SUCCESS);
    }
    anstream::ColorChoice::from(parsed.color).write_global();
    let (warns, of_agents) = (parsed.command.warns(), parsed.command.warns_of_silent_agents());
    let outcome = if parsed.command.is_read() && !asks_for_json(&matches) {
        let paging = if parsed.no_pager { page::Paging::Off } else { page::Paging::Allowed };
        let mut read = Vec::new();
        let outcome = dispatch(parsed.command, &mut read);
        let text = page::harmless(&String::from_utf8_lossy(&read));
        let fitted = page::width().map_or_else(|| text.clone(), |width| page::fit(&text, width));
        page::print(&fitted, paging).map_err(anyhow::Error::from).and(outcome)
    } else {
        let is_line_report = parsed.command.reports_line_by_line() && !asks_for_json(&matches);
        let out = anstream::AutoStream::auto(std::io::stdout().lock());
        let mut out = page::Fitted::new(out, page::width().filter(|_| is_line_report));
        if parsed.command.is_for_people() && !asks_for_json(&matches) {
            let mut out = page::Harmless::new(out);
            dispatch(parsed.command, &mut out).and_then(|()| Ok(out.flush()?))
        } else {
            dispatch(parsed.command, &mut out).and_then(|()| Ok(out.flush()?))
        }
    };
    if warns {
        keeping::warn();
    }
    if of_agents {
        silent_agents::warn();
    }
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => report(&error),
    }
}

/// Whether the command has `--json`.
fn asks_for_json(matches: &ArgMatches) -> bool {
    let mut here = matches;
    while let Some((_, inner)) = here.subcommand() {
        here = inner;
    }
    here.try_get_one::<bool>("json").ok().flatten().copied().unwrap_or_default()
}

fn dispatch(command: Command, out: &mut dyn Write) -> anyhow::Result<()> {
    match command {
        Command::Install(args) => install::run(&args, out),
        Command::Uninstall(args) => uninstall::run(&args, out),
        Command::Doctor(args) => doctor::run(&args, out),
        Command::Import(args) => import::run(&args, out),
        Command::Improve(args) => improve::run(&args, out),
        Command::Export(args) => export::run(&args, out),
        Command::Demo(args) => demo::run(&args, out),
        Command::Search(args) => search::run(&args, out),
        Command::Show(args) => show::run(&args, out),
        Command::Timeline(args) => timeline::run(&args, out),
        Command::How(args) => past_work::how(&args, out),
        Command::Fix(args) => past_work::fix(&args, out),
        Command::Blame(args) => past_work::blame(&args, out),
        Command::Friction(args) => friction::run(&args, out),
        Command::Outline(args) => outline::run(&args, out),
        Command::Handoff(args) => handoff::run(&args, out),
        Command::Context(args) => context::run(&args, out),
        Command::Why(args) => why::run(&args, out),
        Command::Ui(args) => ui::run(&args, out),
        Command::Mcp(_) => mcp::run(),
        Command::Stats(args) => stats::run(&args, out),
        Command::Statusline(args) => statusline::run(&args, out),
        Command::Sql(args) => sql::run(&args, out),
        Command::SqlReader(_) => sql::serve(out),
        Command::Config(command) => config::run(&command, out),
        Command::Guard(command) => guard::run(&command, out),
        Command::Model(command) => model::run(&command, out),
        Command::Remember(args) => remember::run(&args, out),
        Command::Edit(args) => edit::run(&args, out),
        Command::Pin(args) => pin::run(&args, out),
        Command::Review(args) => review::run(&args, out),
        Command::Wrong(args) => wrong::run(&args, out),
        Command::Undo(args) => undo::run(&args, out),
        Command::Resolve(args) => resolve::run(&args, out),
        Command::Forget(args) => forget::run(&args, out),
        Command::Remote(command) => remote::run(&command, out),
        Command::Team(command) => team::run(&command, out),
        Command::Share(args) => share::run(&args, out),
        Command::Unshare(args) => share::stop(&args, out),
        Command::Sync(args) => sync::run(&args, out),
        Command::Status(args) => ctl::status::run(&args, out),
        Command::Sessions(args) => ctl::sessions::run(&args, Start::IfNeeded, out),
        Command::Events(args) => ctl::events::run(&args, Start::IfNeeded, out),
        Command::Pause(args) => ctl::pause::pause(&args, Start::IfNeeded, out),
        Command::Resume(args) => ctl::pause::resume(&args, Start::IfNeeded, out),
        Command::Ctl(command) => ctl::run(command, out),
        Command::Daemon(args) => daemon::run(&args, out),
        Command::Completions(args) => completions::run(&args, out),
        Command::Man(args) => man::run(&args, out),
    }
}

/// Whether the reader of our output has closed it.
fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<std::io::Error>().is_some_and(|io| io.kind() == std::io::ErrorKind::BrokenPipe)
    })
}

/// Prints what happened, why, and what to do next.
fn report(error: &anyhow::Error) -> ExitCode {
    let mut err = anstream::AutoStream::auto(std::io::stderr().lock());
    let (red, bold) = (terminal::ERROR, terminal::BOLD);
    // The name of a file or folder may contain anything.
    let what = page::harmless(&error.to_string());
    let _ = writeln!(err, "{red}error:{red:#} {bold}{what}{bold:#}{}", full_stop(&what));
    for cause in error.chain().skip(1) {
        let _ = writeln!(err, "  because: {}", page::harmless(&cause.to_string()));
    }
    let failure = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
    if let Some(hint) = failure.and_then(|failure| failure.hint.as_ref()) {
        let _ = writeln!(err, "  hint: {}", page::harmless(hint));
    }
    ExitCode::from(failure.map_or(ExitKind::Failed, |failure| failure.kind).code())
}

/// Returns a full stop, unless the sentence ends with its own punctuation.
fn full_stop(sentence: &str) -> &'static str {
    if sentence.ends_with(['.', '?', '!']) { "" } else { "." }
}

/// The clap command, for completion scripts.
pub(crate) fn command_line() -> clap::Command {
    overview::with_overview(examples::with_examples(Arguments::command()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_command_line_definition_is_valid() {
        super::command_line().debug_assert();
    }
}
