//! The commands of `recall`. A row declares a command: the parser, the help with its examples, the output and the call
//! come from it. So a new command is a file, and a row here.

use std::io::Write;

use clap::Subcommand;

use super::client::Start;
use super::output::{Notices, Output};
use super::{
    completions, config, context, ctl, daemon, demo, doctor, edit, export, forget, friction, guard, handoff,
    import, improve, install, man, mcp, model, outline, past_work, pin, remember, remote, resolve, review,
    search, share, show, sql, stats, statusline, sync, team, timeline, ui, undo, uninstall, why, wrong,
};

/// The purpose of a command: a heading in `recall --help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Look,
    Change,
    Watch,
    Share,
    Connect,
    SetUp,
    /// For recall itself; not in the help.
    Hidden,
}

impl Group {
    /// The groups in the help, in order, with their headings.
    pub(super) const SHOWN: [(Self, &'static str); 6] = [
        (Self::Look, "Look"),
        (Self::Change, "Change"),
        (Self::Watch, "Watch"),
        (Self::Share, "Share"),
        (Self::Connect, "Connect"),
        (Self::SetUp, "Set up"),
    ];
}

fn page<A>(_: &A) -> Output {
    Output::Page
}

fn lines<A>(_: &A) -> Output {
    Output::Lines
}

fn screen<A>(_: &A) -> Output {
    Output::Screen
}

fn program<A>(_: &A) -> Output {
    Output::Program
}

fn all<A>(_: &A) -> Notices {
    Notices::All
}

fn events<A>(_: &A) -> Notices {
    Notices::Events
}

fn none<A>(_: &A) -> Notices {
    Notices::None
}

/// What the help says of a command beside its description.
pub(super) struct HelpEntry {
    variant: &'static str,
    pub(super) group: Group,
    /// Command lines with what they do.
    pub(super) examples: &'static [(&'static str, &'static str)],
}

impl HelpEntry {
    /// The command as a user types it.
    pub(super) fn name(&self) -> String {
        self.variant.to_lowercase()
    }

    /// Whether a user types the command like this.
    pub(super) fn is_named(&self, word: &str) -> bool {
        self.variant.eq_ignore_ascii_case(word)
    }
}

macro_rules! commands {
    ($(
        $(#[$meta:meta])*
        $name:ident($args:ty): $group:ident, $output:expr, $notices:expr, $run:expr,
            [$(($line:literal, $what:literal)),* $(,)?];
    )+) => {
        #[derive(Debug, Subcommand)]
        pub(super) enum Command {
            $($(#[$meta])* $name($args),)+
        }

        /// An entry for each command, in the order of the help.
        pub(super) const HELP_ENTRIES: &[HelpEntry] = &[
            $(HelpEntry {
                variant: stringify!($name),
                group: Group::$group,
                examples: &[$(($line, $what)),*],
            },)+
        ];

        impl Command {
            /// How the output is written.
            pub(super) fn output(&self) -> Output {
                match self {
                    $(Self::$name(args) => {
                        let output: fn(&$args) -> Output = $output;
                        output(args)
                    })+
                }
            }

            /// What the command also warns about.
            pub(super) fn notices(&self) -> Notices {
                match self {
                    $(Self::$name(args) => {
                        let notices: fn(&$args) -> Notices = $notices;
                        notices(args)
                    })+
                }
            }

            /// Runs the command, which writes its output to `out`.
            pub(super) fn run(&self, out: &mut dyn Write) -> anyhow::Result<()> {
                match self {
                    $(Self::$name(args) => {
                        let run: fn(&$args, &mut dyn Write) -> anyhow::Result<()> = $run;
                        run(args, out)
                    })+
                }
            }
        }
    };
}

// Name(arguments): group, output, notices, function, examples. The most used commands of a group come first.
commands! {
    /// Search observations, prompts, answers and tool calls
    Search(search::SearchArgs): Look, page, all, search::run, [
        ("recall search rounding cents", "texts with both words come first"),
        ("recall search '\"half even\" -float type:decision'", "a phrase, a word to leave out, a filter"),
        ("recall search file:login.rs since:2d --all", "in all projects"),
    ];
    /// Show observations, prompts, answers or sessions in full
    Show(show::ShowArgs): Look, page, all, show::run, [
        ("recall show 12", "an observation"),
        ("recall show 12 p7", "several"),
        ("recall show 52ab9f", "a session"),
    ];
    /// Show what happened around an item or in a session
    Timeline(timeline::TimelineArgs): Look, page, all, timeline::run, [
        ("recall timeline 12 --before 3", "the events around it"),
        ("recall timeline 52ab9f", "a session"),
    ];
    /// List sessions of this project, newest first
    Sessions(ctl::sessions::SessionsArgs): Look,
        page, all, |args, out| ctl::sessions::run(args, Start::IfNeeded, out), [
        ("recall sessions --since 2d", "sessions of this project"),
        ("recall sessions --all", "of all"),
    ];
    /// Show how a command was run here, and which attempts failed
    How(past_work::HowArgs): Look, page, all, past_work::how, [
        ("recall how deploy", "command lines that worked, newest first"),
        ("recall how cargo test --all", "in all projects"),
    ];
    /// Show where an error occurred before, and what fixed it
    Fix(past_work::FixArgs): Look, page, all, past_work::fix, [
        ("recall fix 'cannot find -lssl'", "what made this error go away"),
        ("recall fix - < make.log", "finds the error in this output"),
    ];
    /// Show which sessions changed a file or a line, and why
    Blame(past_work::BlameArgs): Look, page, all, past_work::blame, [
        ("recall blame src/cart.rs", "the turns that changed this file"),
        ("recall blame src/cart.rs:42", "the turns that wrote this line"),
    ];
    /// Show where the code declares a name
    Outline(outline::OutlineArgs): Look, page, all, outline::run, [
        ("recall outline passage cache", "where `PassageCache` is declared"),
        ("recall outline src/cart.rs", "what this file declares"),
    ];
    /// Show recurring problems
    Friction(friction::FrictionArgs): Look, page, all, friction::run, [
        ("recall friction", "the last 7 days, in this project"),
        ("recall friction --since 30d --all", "the last 30 days, in all projects"),
    ];
    /// Show what a person or an agent needs to continue a session
    Handoff(handoff::HandoffArgs): Look, page, all, handoff::run, [
        ("recall handoff", "the latest session here"),
        ("recall handoff 52ab9f --to codex", "inject it into that agent's next session here"),
        ("recall handoff --file handoff.html", "one page to send to somebody"),
    ];
    /// Show what the next session in a folder receives
    Context(context::ContextArgs): Look, page, all, context::run, [
        ("recall context", "what a new session here receives"),
        ("recall context --prompt 'Why cents?'", "what this prompt receives"),
    ];
    /// Show what a session received and why, or which ones got an item
    Why(why::WhyArgs): Look, page, all, why::run, [
        ("recall why 52ab9f", "what was injected into a session"),
        ("recall why 12", "which sessions received an observation"),
    ];
    /// Browse the memory in the terminal, or with --web in a browser
    Ui(ui::UiArgs): Look, screen, all, ui::run, [
        ("recall ui rounding", "begin with a search"),
    ];
    /// Store a note of your own
    Remember(remember::RememberArgs): Change, lines, all, remember::run, [
        ("recall remember 'Prices are in cents.' --type decision", "for this project"),
        ("recall remember - < notes.md", "from stdin"),
    ];
    /// Review automatic notes: keep, edit, reject or pin them
    ///
    /// On a terminal, this opens `recall ui` with the observations that nobody has reviewed, newest first. recall no
    /// longer injects rejected observations, and searches show them as resolved.
    Review(review::ReviewArgs): Change,
        |args| if args.lists() { Output::Page } else { Output::Lines }, all, review::run, [
        ("recall review", "review this project's new observations"),
        ("recall review --list --all -n 50", "print those of all projects"),
        ("recall review --keep 12 13", "keep both"),
        ("recall review --reject 14", "recall no longer injects it"),
    ];
    /// Rewrite an observation in your editor
    Edit(edit::EditArgs): Change, lines, all, edit::run, [
        ("recall edit 12", "in $VISUAL or $EDITOR"),
        ("recall edit 12 --title 'Prices are in cents'", ""),
    ];
    /// Pin observations to the start of every session
    Pin(pin::PinArgs): Change, lines, all, pin::run, [
        ("recall pin 12", "inject it first at every session start"),
        ("recall pin 12 --off", "unpin it"),
    ];
    /// Mark an observation as resolved, or reopen it
    Resolve(resolve::ResolveArgs): Change, lines, all, resolve::run, [
        ("recall resolve 12", "recall no longer injects it"),
        ("recall resolve --reopen 12", "recall injects it again"),
    ];
    /// Mark a note as wrongly injected
    ///
    /// recall no longer injects it on that kind of occasion (session start, prompt, file or command), until you
    /// rewrite it. Searches still find it. If the note is not true at all, use `recall resolve`.
    Wrong(wrong::WrongArgs): Change, lines, all, wrong::run, [
        ("recall wrong 12", "do not inject it on that occasion again"),
        ("recall wrong --undo 12", "allow injecting it again"),
    ];
    /// Delete items permanently, from backups too
    ///
    /// Forgetting a prompt also removes its answer, its tool calls and the observations made from them. A new backup
    /// replaces all earlier ones. Forgotten events are not stored again, even if an agent sends them again.
    Forget(forget::ForgetArgs): Change, lines, all, forget::run, [
        ("recall forget 12 p7 --dry-run", "show what would be removed"),
        ("recall forget --query quokka", "in this project; asks first"),
        ("recall forget --since 2d --all", "in all projects"),
    ];
    /// Undo an edit, pin or verdict, even one from another machine
    Undo(undo::UndoArgs): Change,
        |args| if args.list { Output::Page } else { Output::Lines }, all, undo::run, [
        ("recall undo --list", "what can be undone"),
        ("recall undo", "undo your last change"),
        ("recall undo 12", "undo the last change of one item, whoever made it"),
    ];
    /// Show the state of the daemon
    Status(ctl::status::StatusArgs): Watch, page, events, ctl::status::run, [
        ("recall status", "is the daemon running, and what is it doing?"),
    ];
    /// Follow session events live
    Events(ctl::events::EventsArgs): Watch,
        program, all, |args, out| ctl::events::run(args, Start::IfNeeded, out), [
        ("recall events --kinds session_start,session_end", "until Ctrl-C"),
        ("recall events -n 1", "wait for the next one"),
    ];
    /// Stop recording and injecting for a while
    Pause(ctl::pause::PauseArgs): Watch,
        lines, all, |args, out| ctl::pause::pause(args, Start::IfNeeded, out), [
        ("recall pause --for 2h", "resume automatically after two hours"),
        ("recall pause", "until `recall resume`"),
    ];
    /// Resume recording
    Resume(ctl::pause::ResumeArgs): Watch,
        lines, all, |args, out| ctl::pause::resume(args, Start::IfNeeded, out), [
        ("recall resume", "record again"),
    ];
    /// Show daily model costs, and how injected notes were used
    Stats(stats::StatsArgs): Watch, page, all, stats::run, [
        ("recall stats --days 30", "the last 30 days"),
    ];
    /// Share a project's notes with other machines
    ///
    /// Before anything leaves this machine, recall shows what would be shared, and asks. Preferences and corrections
    /// are not shared, unless all machines are yours (--personal). Prompts and answers are shared only with --prompts
    /// and --answers. You can search other people's notes; sessions receive them only with --inject.
    Share(share::ShareArgs): Share, lines, all, share::run, [
        ("recall share --with mine --personal --inject", "with your own machines"),
        ("recall share --with team --dry-run", "show what would be shared"),
        ("recall share --with team --prompts --answers", "also share prompts and answers"),
        ("recall share --list", "what is shared"),
    ];
    /// Stop sharing a project; removes others' notes, keeps yours
    Unshare(share::UnshareArgs): Share, lines, all, share::stop, [
        ("recall unshare", "stop sharing this project"),
    ];
    /// Show what is shared, and how up to date each machine is
    Sync(sync::SyncArgs): Share, page, all, sync::run, [
        ("recall sync", "how up to date each machine is"),
        ("recall sync --now", "sync now, and report the result"),
    ];
    /// Manage the folders and databases used for sharing
    #[command(subcommand)]
    Remote(remote::RemoteCommand): Share, lines, all, remote::run, [];
    /// Manage which machines can read an encrypted remote
    #[command(subcommand)]
    Team(team::TeamCommand): Share, screen, all, team::run, [];
    /// Serve the memory to an agent's model over MCP
    Mcp(mcp::McpArgs): Connect, program, none, |_, _| mcp::run(), [
        ("recall mcp", "agents start this"),
    ];
    /// Print one line for a shell's prompt or an agent's status line
    Statusline(statusline::StatuslineArgs): Connect, program, none, statusline::run, [
        ("recall statusline", "for the current folder"),
        ("recall statusline --cwd ~/shop", "for another folder"),
    ];
    /// Import sessions that your agents recorded earlier
    Import(import::ImportArgs): Connect, lines, all, import::run, [
        ("recall import", "everything found"),
        ("recall import --dry-run", "only show what was found"),
        ("recall import claude-code --since 30d", "from one agent"),
        ("recall import codex ~/backup/sessions", "from another folder"),
        ("recall import memories", "the agents' own memories"),
        ("recall import recall memory.jsonl", "a file that `recall export` wrote"),
    ];
    /// Have the configured model rewrite older notes
    ///
    /// It rewrites notes of the built-in compressor, newest sessions first, within the limits of `[compression]`. It
    /// leaves notes that you edited or pinned unchanged. It shows the estimated cost before it starts. If it is
    /// interrupted, run the same command again to continue.
    Improve(improve::ImproveArgs): Connect, lines, all, improve::run, [
        ("recall improve --dry-run", "what it would cost"),
        ("recall improve --since 30d --project .", "only recent sessions of this project; asks first"),
    ];
    /// Export the memory as JSON Lines or as Markdown pages
    Export(export::ExportArgs): Connect, program, all, export::run, [
        ("recall export memory.jsonl", "everything"),
        ("recall export --project . --since 90d > shop.jsonl", "one project, the last 90 days"),
        ("recall export --markdown ~/notes/memory", "Markdown pages"),
    ];
    /// Run a read-only SQL query
    Sql(sql::SqlArgs): Connect, program, all, sql::run, [
        ("recall sql \"SELECT project, count(*) FROM user_prompts GROUP BY project\"", ""),
        ("recall sql --csv \"SELECT id, type, title FROM observations\" > notes.csv", ""),
    ];
    /// Connect recall to the agents on this machine
    Install(install::InstallArgs): SetUp, screen, events, install::run, [
        ("recall install --dry-run", "show what would change"),
        ("recall install", "connect all agents"),
    ];
    /// Disconnect recall from the agents; your memory stays
    Uninstall(uninstall::UninstallArgs): SetUp, screen, events, uninstall::run, [
        ("recall uninstall --dry-run", "show what would change"),
        ("recall uninstall --purge", "also delete the memory"),
    ];
    /// Check the installation, and suggest how to fix problems
    Doctor(doctor::DoctorArgs): SetUp, page, none, doctor::run, [
        ("recall doctor", "what is wrong, and how to fix it"),
    ];
    /// Replay a recorded session, and show what the next one receives
    Demo(demo::DemoArgs): SetUp, lines, events, demo::run, [
        ("recall demo", "in a temporary folder"),
    ];
    /// Show, change and check the settings
    #[command(subcommand)]
    Config(config::ConfigCommand): SetUp, config::ConfigCommand::output, all, config::run, [];
    /// List the guards, or test them on a tool call
    #[command(subcommand)]
    Guard(guard::GuardCommand): SetUp, lines, all, guard::run, [];
    /// Install, list and remove sentence models
    #[command(subcommand)]
    Model(model::ModelCommand): SetUp, model::ModelCommand::output, all, model::run, [];
    /// Print a completion script for a shell
    Completions(completions::CompletionsArgs): SetUp, program, none, completions::run, [
        ("recall completions bash > ~/.local/share/bash-completion/completions/recall", ""),
    ];
    /// Manage the daemon: backups, jobs, index, stop
    #[command(subcommand)]
    Ctl(ctl::CtlCommand): SetUp, ctl::CtlCommand::output, ctl::CtlCommand::notices, ctl::run, [];
    /// Run the daemon in the foreground
    Daemon(daemon::DaemonArgs): SetUp, program, none, daemon::run, [
        ("recall daemon", "in the foreground, to see why it does not start"),
    ];
    /// Run one query for the daemon
    #[command(hide = true)]
    SqlReader(sql::SqlReaderArgs): Hidden, program, none, |_, out| sql::serve(out), [];
    /// Write the manual pages into a folder
    #[command(hide = true)]
    Man(man::ManArgs): Hidden, program, none, man::run, [];
}
