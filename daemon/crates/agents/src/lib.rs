//! The agents. Each has a folder and one [`AgentSpec`]; this file lists them.
//!
//! An agent's reader turns its raw JSON into a [`HookEvent`]. Its envelope renders context as exactly the bytes that
//! the agent expects on a hook's stdout. The installer, the doctor and the default settings use its spec.
//!
//! If an agent does not report how a turn ended, its transcript is read; if it reports only the path of an approved
//! plan, that file is read. Both go through [`named_file`]. Apart from the delivery itself there is no other input.
//!
//! **Invariant:** nothing here stores, searches or decides what an event means. An agent's name and spellings are in its
//! folder, and its module in this file. Only the hook client's table repeats some ([`recall_protocol::agents`]).

mod amp;
mod antigravity;
mod auggie;
mod chain;
mod claude_code;
mod cline;
mod codex;
mod command_code;
mod copilot_cli;
mod cursor;
pub mod demo;
mod devin;
mod droid;
pub mod failure;
pub mod format;
mod gemini_cli;
mod goose;
mod grok;
#[cfg(test)]
mod golden;
mod host;
pub mod history;
pub mod json;
mod kilo;
mod kimi_code;
mod kiro;
mod lenient;
pub mod memories;
pub mod named_file;
mod openclaw;
mod opencode;
mod pi;
mod placeholder;
mod qwen_code;
pub mod settings;
pub mod turns;
mod vscode_copilot;
mod windsurf;

use std::path::{Path, PathBuf};

use recall_protocol::agents::Wait;
use recall_protocol::json_field;
use recall_protocol::wire::Deliver;

// Many agents copied this one's format.
use self::claude_code as copied_format;
use self::format::Format;
use self::history::RecordedHistory;
use self::memories::Memories;
use self::named_file::RefusedFile;
use self::settings::{AgentVersion, Install};
use recall_domain::conventions::Conventions;
use recall_domain::event::{EventName, HookEvent, HookEventKind, PromptText};
use recall_domain::guard::Refusal;
use recall_domain::ids::PromptId;
use recall_domain::material::{Action, BatchSource};
use serde_json::{Map, Value};

/// The session that `recall demo` plays.
pub use self::claude_code::demo::session as demo_session;

/// All supported agents.
pub const AGENTS: Agents = Agents::new(&[
    &claude_code::SPEC,
    &codex::SPEC,
    &gemini_cli::SPEC,
    &copilot_cli::SPEC,
    &opencode::SPEC,
    &qwen_code::SPEC,
    &cursor::SPEC,
    &vscode_copilot::SPEC,
    &windsurf::SPEC,
    &openclaw::SPEC,
    &droid::SPEC,
    &devin::SPEC,
    &kiro::SPEC,
    &pi::SPEC,
    &auggie::SPEC,
    &cline::SPEC,
    &grok::SPEC,
    &antigravity::SPEC,
    &kimi_code::SPEC,
    &kilo::SPEC,
    &goose::SPEC,
    &amp::SPEC,
    &command_code::SPEC,
]);

/// The facts about an agent that recall needs.
#[derive(Debug)]
pub struct AgentSpec {
    /// The first word of the shim's command line.
    pub name: &'static str,
    /// The name shown to people.
    pub title: &'static str,
    pub host: Host,
    /// How the agent names its events and tools, and how it reports failures.
    pub format: Format,
    /// Reads one delivery. [`Self::event`] calls it.
    pub read: fn(&Format, &Deliver) -> Result<HookEvent, Unreadable>,
    /// Renders the answer to an event in the agent's format. The output contains context, a notice, or both.
    pub envelope: fn(event: &str, &HookOutput) -> Vec<u8>,
    /// Parses a stored call, from the tool's name and the agent's JSON of input and response.
    pub action: fn(&Format, tool_name: &str, input: &str, response: Option<&str>) -> Action,
    /// Whether the error text of a failed call says that the user rejected it.
    pub rejected: fn(error: &str) -> Option<Rejected>,
    /// Reads a turn's answer from the transcript. Blocks.
    pub reply: fn(&ReplyRequest) -> Result<Option<RecordedReply>, RefusedFile>,
    /// Reads a plan's file if a call named only its path. Blocks.
    pub plan_file: fn(&PlanRequest) -> Result<Option<String>, RefusedFile>,
    /// The texts that open and close a block that the program adds to an answer for the model.
    pub injected_block: Option<(&'static str, &'static str)>,
    pub conventions: Conventions,
    /// The folders of its plans: the default of `capture.plan_folders`.
    pub plan_folders: &'static [&'static str],
    /// Tools whose calls are useless in a memory: the default of `capture.skip_tools`.
    pub skipped_tools: &'static [&'static str],
    pub guards: GuardAnswers,
    pub install: Install,
    /// The location of its earlier sessions. `None` if they cannot be imported.
    pub history: Option<RecordedHistory>,
    /// The location of its own memory. `None` if that cannot be imported.
    pub memories: Option<Memories>,
    /// Its program as a writer of notes. `None` if it is not used for that.
    pub notes: Option<NotesProgram>,
}

/// An agent's program as a model that writes notes.
#[derive(Clone, Copy, Debug)]
pub struct NotesProgram {
    /// The value of `compression.backend`.
    pub backend: &'static str,
    /// The model that it calls, as people name it.
    pub model: &'static str,
}

/// How guards answer this agent, see [`recall_domain::guard`].
#[derive(Clone, Copy, Debug)]
pub struct GuardAnswers {
    /// The event before a call, registered only for guards. `None` if it is among the agent's events, or if calls
    /// cannot be refused.
    pub before: Option<EventSpec>,
    /// The answer that refuses a call, or asks the user.
    pub refusal: Option<fn(Refusal, &str) -> Vec<u8>>,
    pub asking: Asking,
    /// How text about an allowed call is delivered. `None` if the agent takes no text before a call.
    pub advice: Option<Advice>,
    /// How a shell command is changed before it runs. `None` if the agent cannot do that without also granting
    /// consent.
    pub command_change: Option<CommandChange>,
    /// The answer that adds a warning to a call's result.
    pub warning: Option<fn(&str) -> Vec<u8>>,
}

impl GuardAnswers {
    pub const NONE: Self = Self {
        before: None,
        refusal: None,
        asking: Asking::Asks,
        advice: None,
        command_change: None,
        warning: None,
    };
}

impl GuardAnswers {
    /// Whether these guards do anything before a call.
    pub fn are_for(&self, guarding: Guarding) -> bool {
        match guarding {
            Guarding::Off => false,
            Guarding::Calls => self.refusal.is_some(),
            Guarding::Commands => self.command_change.is_some(),
        }
    }
}

/// How a shell command is changed before it runs.
#[derive(Clone, Copy, Debug)]
pub struct CommandChange {
    /// Tools whose `command` a shell of the sh family runs.
    pub tools: &'static [&'static str],
    /// Adds a call's new input to an answer, which may be empty.
    pub add: fn(answer: &[u8], input: Map<String, Value>) -> Vec<u8>,
}

/// How text about an allowed call is delivered.
#[derive(Clone, Copy, Debug)]
pub struct Advice {
    pub to: Advised,
    pub answer: fn(&str) -> Vec<u8>,
}

/// Who receives text about an allowed call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advised {
    Model,
    User,
}

impl Advice {
    /// The most common form.
    const CONTEXT: Self = Self { to: Advised::Model, answer: format::answer::advice };
}

/// What an agent does if a guard wants to ask the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Asking {
    Asks,
    /// A hook cannot ask the user, so the call is refused.
    Refuses,
}

/// How recall detects that an agent is used on this machine.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Its program, which is asked for its version.
    pub program: &'static str,
    /// Folders in which its own installers put the program, relative to the home folder. They are searched if it is
    /// not on the `PATH`.
    pub other_places: &'static [&'static str],
    /// Its folder, relative to the home folder.
    pub folder: &'static str,
    /// The variable that replaces the whole folder.
    pub folder_variable: Option<&'static str>,
    /// The version assumed if the program does not report its own: old enough to be common, new enough to be useful.
    pub assumed_version: AgentVersion,
    /// The newest version that was tested with recall. `None` if none was.
    pub tried: Option<AgentVersion>,
    /// Texts that only this agent's payloads contain. Some agents also run other agents' hooks, under their names.
    pub marks: &'static [Mark],
}

/// A text field that identifies the agent of a payload.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    pub field: &'static str,
    /// A part of the field's value; empty if the field alone is enough.
    pub part: &'static str,
}

impl Mark {
    fn is_in(self, payload: &[u8]) -> bool {
        // The field is nearly always absent, which a search for its name shows faster than reading all names.
        memchr::memmem::find(payload, self.field.as_bytes()).is_some()
            && json_field::field(payload, self.field).is_some_and(|value| value.contains(self.part))
    }
}

impl Host {
    /// The folders in which the agent keeps its files. `moved` is where the user moved them.
    pub fn folders(&self, home: &Path, moved: Option<&str>) -> Vec<PathBuf> {
        moved.map(PathBuf::from).into_iter().chain([home.join(self.folder)]).collect()
    }
}

/// One event of an agent.
#[derive(Clone, Copy, Debug)]
pub struct EventSpec {
    /// The agent's name for it.
    pub name: &'static str,
    /// The event that it means to recall.
    pub is: EventName,
    /// The first version in which recall registers the event.
    pub since: AgentVersion,
    /// How long the hook client waits.
    pub wait: Wait,
    /// The most context that the answer may contain. `None` if the event is not answered.
    pub answer: Option<Cap>,
}

impl EventSpec {
    /// An event without an answer.
    const fn reported(name: &'static str, is: EventName) -> Self {
        Self { name, is, since: AgentVersion(0, 0, 0), wait: Wait::Report, answer: None }
    }

    const fn answered(name: &'static str, is: EventName, wait: Wait, cap: Cap) -> Self {
        Self { name, is, since: AgentVersion(0, 0, 0), wait, answer: Some(cap) }
    }
}

/// A limit on the length of an answer's context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cap {
    pub utf16_units: u64,
}

impl Cap {
    pub const NONE: Self = Self { utf16_units: u64::MAX };

    fn allows(self, text: &str) -> bool {
        text.encode_utf16().count() as u64 <= self.utf16_units
    }
}

impl AgentSpec {
    /// Defaults for an agent's spec.
    const PLAIN: Self = Self {
        name: "",
        title: "",
        host: Host {
            program: "",
            other_places: &[],
            folder: "",
            folder_variable: None,
            assumed_version: AgentVersion(0, 0, 0),
            tried: None,
            marks: &[],
        },
        format: Format::PLAIN,
        read: Format::read,
        envelope: format::answer::nested,
        action: |format, tool, input, response| format.tools.action(tool, input, response),
        rejected: |_| None,
        reply: |_| Ok(None),
        plan_file: |_| Ok(None),
        injected_block: None,
        conventions: Conventions {
            work_trees: &[],
            plan_prompts: &[],
            machine_prompts: &[],
            foreign_lines: &[],
            empty_answers: &[],
            failed_answers: &[],
        },
        plan_folders: &[],
        skipped_tools: &[],
        guards: GuardAnswers::NONE,
        install: Install::NOTHING,
        history: None,
        memories: None,
        notes: None,
    };

    /// Reads one delivery and applies the rules that all agents share. A session without an id of its own is
    /// identified by its folder. Programs put messages and notices into prompts, each in its own form; the forms of
    /// the copied format may occur anywhere.
    ///
    /// # Errors
    /// See [`Self::read`].
    pub fn event(&self, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
        let mut event = self.read_leniently(delivery)?;
        placeholder::replace_placeholder(&mut event, delivery);
        if let HookEventKind::Prompt { text: PromptText::Text(text), source, .. } = &mut event.what
            && !source.is_made_by_machine()
            && let Some(machine) = self.machine_source(text)
        {
            *source = machine;
        }
        Ok(event)
    }

    /// The events that the agent can report.
    pub fn events(&self) -> &'static [EventSpec] {
        self.format.events
    }

    /// Parses a stored call, see [`Self::action`](field@Self::action).
    pub fn action(&self, tool_name: &str, input: &str, response: Option<&str>) -> Action {
        (self.action)(&self.format, tool_name, input, response)
    }

    /// Also reads payloads that are almost JSON.
    fn read_leniently(&self, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
        let legible = || {
            let payload = lenient::legible(&delivery.payload)?;
            Some(Deliver { payload, ..delivery.clone() })
        };
        if json::has_surrogates(&delivery.payload)
            && let Some(legible) = legible()
        {
            return (self.read)(&self.format, &legible);
        }
        match (self.read)(&self.format, delivery) {
            Err(error @ (Unreadable::NotUtf8(_) | Unreadable::NotJson(_))) => {
                legible().and_then(|legible| (self.read)(&self.format, &legible).ok()).ok_or(error)
            }
            read => read,
        }
    }

    /// The source of a prompt that no person typed, if its text shows it.
    fn machine_source(&self, prompt: &str) -> Option<BatchSource> {
        let copied = &copied_format::SPEC;
        let own = copied.without_injected_blocks(prompt);
        if own.trim().is_empty() && !prompt.trim().is_empty() {
            return Some(BatchSource::System);
        }
        self.conventions.machine_source(&own).or_else(|| copied.conventions.machine_source(&own))
    }

    /// Renders the answer as the hook's stdout. Empty if the event is not answered or there is nothing to say.
    pub fn answer(&self, mut output: HookOutput) -> Vec<u8> {
        let answered = self.event_for(output.event);
        let Some((event, cap)) = answered.and_then(|event| Some((event, event.answer?))) else {
            return Vec::new();
        };
        output.context.take_if(|text| !cap.allows(text));
        if output.context.is_none() && output.notice.is_none() {
            return Vec::new();
        }
        (self.envelope)(event.name, &output)
    }

    /// Whether the agent accepts context at an event.
    pub fn takes_context_at(&self, event: EventName) -> bool {
        self.event_for(event).is_some_and(|known| known.answer.is_some())
    }

    /// Whether its prompts are reported by no hook, and only its record contains them.
    pub fn leaves_prompts_to_its_record(&self) -> bool {
        self.history.is_some_and(|history| history.tail.is_some())
            && self.event_for(EventName::Prompt).is_none()
    }

    /// The agent's event for this name. Some agents report a failed call like any other.
    fn event_for(&self, name: EventName) -> Option<&'static EventSpec> {
        let of = |name| self.events().iter().find(|event| event.is == name);
        of(name).or_else(|| if name == EventName::ToolFailure { of(EventName::Tool) } else { None })
    }

    /// When the agent receives context, as a phrase that continues "it ...".
    pub fn given(&self) -> String {
        const MOMENTS: [(EventName, &str); 5] = [
            (EventName::SessionStart, "at a session's start"),
            (EventName::Prompt, "with a prompt"),
            (EventName::ToolStart, "when a file is opened or a command runs"),
            (EventName::ToolFailure, "when a command has failed"),
            (EventName::SubagentStart, "when a subagent starts"),
        ];
        let moments =
            MOMENTS.iter().filter(|(moment, _)| self.takes_context_at(*moment)).map(|(_, words)| *words);
        let moments: Vec<_> = moments.collect();
        match moments.is_empty() {
            true => "it only reports".to_owned(),
            false => format!("it gets context {}", moments.join(", ")),
        }
    }

    /// Removes the blocks that the agent's program adds to a text.
    pub(crate) fn without_injected_blocks(&self, text: &str) -> String {
        let Some((open, close)) = self.injected_block else { return text.to_owned() };
        let mut out = String::with_capacity(text.len());
        let mut rest = text;
        while let Some((before, inside)) = rest.split_once(open) {
            out.push_str(before);
            rest = inside.split_once(close).map_or("", |(_, after)| after);
        }
        out.push_str(rest);
        out
    }

    /// The largest context that the answer to any event may have.
    pub fn cap(&self) -> Cap {
        let caps = self.events().iter().filter_map(|event| event.answer);
        caps.min_by_key(|cap| cap.utf16_units).unwrap_or(Cap::NONE)
    }

    /// The events that a version can report. `None` means that the version is unknown.
    pub fn events_of(&self, version: Option<AgentVersion>) -> impl Iterator<Item = &EventSpec> {
        let version = version.unwrap_or(self.host.assumed_version);
        self.events().iter().filter(move |event| event.since <= version)
    }

    /// Like [`Self::events_of`], with the event that only guards need.
    pub fn events_with_guards(
        &'static self,
        version: Option<AgentVersion>,
        guarding: Guarding,
    ) -> impl Iterator<Item = &'static EventSpec> {
        let before = self.guards.before.as_ref().filter(|_| self.guards.are_for(guarding));
        self.events_of(version).chain(before)
    }
}

/// Whether calls are checked before they run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Guarding {
    #[default]
    Off,
    Calls,
    /// Only their commands are changed.
    Commands,
}

/// A list of agents. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Agents(&'static [&'static AgentSpec]);

impl Agents {
    pub const fn new(agents: &'static [&'static AgentSpec]) -> Self {
        Self(agents)
    }

    pub fn iter(self) -> impl Iterator<Item = &'static AgentSpec> {
        self.0.iter().copied()
    }

    pub fn named(self, name: &str) -> Option<&'static AgentSpec> {
        self.iter().find(|spec| spec.name == name)
    }

    /// The agent of that name. An unknown agent is read in the format that many agents copied, with its events in any
    /// spelling ([`host`]). It gets no answers, because its answer format is unknown.
    pub fn spec(self, name: &str) -> &'static AgentSpec {
        self.named(name).unwrap_or(&host::SPEC)
    }

    /// The real agent of a delivery that came under another's name. Some agents also run another agent's hooks.
    pub fn real_sender(self, delivery: &Deliver) -> Option<&'static AgentSpec> {
        self.iter()
            .filter(|spec| spec.name != delivery.agent)
            .find(|spec| spec.host.marks.iter().any(|mark| mark.is_in(&delivery.payload)))
    }

    /// The plan folders of all agents, without repetitions.
    pub fn plan_folders(self) -> Vec<String> {
        let mut folders: Vec<String> = Vec::new();
        for folder in self.iter().chain([&host::SPEC]).flat_map(|spec| spec.plan_folders) {
            if !folders.iter().any(|known| known == folder) {
                folders.push((*folder).to_owned());
            }
        }
        folders
    }

    pub fn skipped_tools(self) -> Vec<String> {
        self.iter().flat_map(|spec| spec.skipped_tools).map(|&tool| tool.to_owned()).collect()
    }

    /// A cap that every agent accepts.
    pub fn cap(self) -> Cap {
        self.iter().map(AgentSpec::cap).min_by_key(|cap| cap.utf16_units).unwrap_or(Cap::NONE)
    }
}

/// The user denied permission for a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejected {
    /// The user's reason, if any.
    pub reason: Option<String>,
}

/// The answer to look up, and where to look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplyRequest {
    /// The transcript's path in the agent's JSON.
    pub transcript: String,
    pub prompt: Option<PromptId>,
    /// The user's home folder.
    pub home: PathBuf,
    /// The agent's folder, if the user moved it.
    pub config_dir: Option<String>,
}

/// An answer as the agent recorded it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedReply {
    pub text: String,
    /// Milliseconds since 1970, if the record says when it was given.
    pub at_ms: Option<i64>,
}

/// The plan file to read, and the folders where it may be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRequest {
    /// The path in the agent's JSON.
    pub path: String,
    /// The user's home folder.
    pub home: PathBuf,
    /// The agent's folder, if the user moved it.
    pub config_dir: Option<String>,
    /// The folder of the session's project.
    pub root: Option<String>,
    /// Plan folders, see [`is_plan_file`](recall_domain::plan::is_plan_file).
    pub folders: Vec<String>,
}

/// The output of a hook: context for the agent, and a notice for the user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HookOutput {
    /// The answered event.
    pub event: EventName,
    /// For the model.
    pub context: Option<String>,
    /// One line for the user.
    pub notice: Option<String>,
}

/// Why a payload cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    #[error("not UTF-8: {0}")]
    NotUtf8(#[from] std::str::Utf8Error),
    #[error("not a JSON object: {0}")]
    NotJson(#[from] serde_json::Error),
    #[error("no session id")]
    NoSession,
    #[error("no event name, neither in the payload nor on the command line")]
    NoEvent,
}

#[cfg(test)]
mod tests {
    use recall_protocol::agents::{AgentRow, ROWS};

    use super::*;

    #[test]
    fn the_hook_clients_table_agrees_with_the_specs() {
        for spec in AGENTS.iter() {
            let row = AgentRow::of(spec.name);
            assert_eq!((row.name, row.prompt_field), (spec.name, spec.format.prompt_field), "{}", spec.name);
            assert_eq!(row.config_dir, spec.host.folder_variable, "{}", spec.name);
            for event in spec.events() {
                assert_eq!(row.wait(event.name), event.wait, "{} {}", spec.name, event.name);
            }
        }
        for (at, row) in ROWS.iter().enumerate() {
            assert!(
                ROWS.iter().skip(at + 1).all(|other| other.name != row.name),
                "{} is listed twice",
                row.name
            );
        }
    }

    #[test]
    fn context_over_the_cap_is_dropped_and_events_without_a_cap_get_no_answer() {
        let spec = AGENTS.spec("claude-code");
        let answer = |event: EventName, length: usize, notice: Option<&str>| {
            let (context, notice) = (Some("é".repeat(length)), notice.map(str::to_owned));
            !spec.answer(HookOutput { event, context, notice }).is_empty()
        };
        let most = usize::try_from(spec.cap().utf16_units).unwrap();
        assert!(answer(EventName::Prompt, most, None));
        assert!(!answer(EventName::Prompt, most + 1, None));
        assert!(answer(EventName::SessionStart, most + 1, Some("a notice")));
        assert!(!answer(EventName::Stop, 1, Some("a notice")));
    }
}
