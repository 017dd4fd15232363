//! Redacts secrets from what agents report, before anything is written, indexed, logged or sent.
//!
//! A secret is recognised by its format (provider tokens, private keys, JWTs), its position (the password in a url, an
//! `Authorization` header) or its name (`KEY=value`). It is replaced by `[redacted:KIND]`, which depends only on the
//! kind, so equal texts stay equal. Of files that are secret as a whole, only the name is kept.
//!
//! Guarantees: JSON stays JSON of the same shape. A text without secrets is returned borrowed. Redacting twice changes
//! nothing more. Time is linear in the text, except for the user's `extra` patterns.
//!
//! Not detected: a secret that looks like a word; hexadecimal or base64 without an announcing word; a secret split
//! over two strings.

mod byte_set;
mod rules;
mod plausibility;
mod cursor;
mod assignment;
mod sentence;
mod http;
mod command_line;
mod key_block;
mod password_file;
mod url;
mod shapes;
pub(super) mod shell_words;
mod cut;
mod mnemonic;
pub(super) mod json_text;
mod secret_files;
mod secret_commands;
mod elsewhere;
pub mod own_calls;
mod scan;

#[cfg(test)]
mod tests;

use std::borrow::Cow;

pub use self::elsewhere::Outputs;
pub use self::secret_files::{NamedIn, is_secret_file, named_in};

use regex::{Regex, RegexBuilder};
use sha2::{Digest, Sha256};

use self::json_text::{Replacement, Role, StringPlace, rewrite};
use self::plausibility::{ValuePosition, is_secret};
use self::scan::{Scanner, Secret};
use self::secret_files::Suspect;
use self::shapes::SearchScope;
use super::event::{
    HookEvent, HookEventKind, HostFacts, MessageOrigin, Notification, PromptText, Subagent, SubagentTask,
    ToolCall, ToolResult, ToolStart,
};
use super::ids::{CallId, PromptId, SessionId};
use super::plan::PlanChange;
use super::task_list::{Task, TaskChange};
use super::text::pattern_fault;

/// The prefix of every replacement.
pub const MARK: &str = "[redacted:";

/// The user's redaction settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RedactionPolicy {
    pub mode: RedactionMode,
    /// Regular expressions for additional secrets. Their running time is the user's responsibility.
    pub extra: Vec<String>,
    /// Regular expressions for exceptions. A secret that contains a match is kept.
    pub allow: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum RedactionMode {
    #[default]
    On,
    /// Nothing is redacted, not even secret files.
    Off,
}

/// Why a policy is invalid. The keys are those of the configuration.
#[derive(Debug, thiserror::Error)]
pub enum RedactionError {
    #[error("redaction.{key}: `{pattern}` is not a valid pattern: {fault}")]
    Pattern { key: &'static str, pattern: String, fault: String },
    #[error("redaction.{key}: `{pattern}` matches everything")]
    MatchesEverything { key: &'static str, pattern: String },
    #[error("the automaton of redaction cannot be built: {0}")]
    Automaton(#[from] aho_corasick::BuildError),
}

/// The size limit of compiled patterns, in bytes.
const PATTERN_SIZE: usize = 1 << 20;

/// Applies a policy. Built once and used from any thread.
pub struct Redactor {
    /// `None` if redaction is off.
    scanner: Option<Scanner>,
}

impl Redactor {
    /// Compiles a policy.
    ///
    /// # Errors
    /// A pattern is invalid, too large, or matches the empty text.
    pub fn new(policy: &RedactionPolicy) -> Result<Self, RedactionError> {
        let extra = compile("extra", &policy.extra)?;
        let allow = compile("allow", &policy.allow)?;
        let scanner = match policy.mode {
            RedactionMode::On => Some(Scanner::new(extra, allow)?),
            RedactionMode::Off => None,
        };
        Ok(Self { scanner })
    }

    /// Redacts plain text.
    pub fn redact_text<'a>(&self, text: &'a str) -> Cow<'a, str> {
        let Some(scanner) = &self.scanner else { return Cow::Borrowed(text) };
        settled(text, |text| Self::text_once(scanner, text))
    }

    fn text_once<'a>(scanner: &Scanner, text: &'a str) -> Cow<'a, str> {
        let secrets = scanner.secrets(text, SearchScope::Everywhere);
        if secrets.is_empty() {
            return Cow::Borrowed(text);
        }
        let mut out = String::with_capacity(text.len());
        let mut copied = 0;
        for secret in secrets {
            out.push_str(text.get(copied..secret.range.start).unwrap_or_default());
            out.push_str(&mark(secret.kind));
            copied = secret.range.end;
        }
        out.push_str(text.get(copied..).unwrap_or_default());
        Cow::Owned(out)
    }

    /// Redacts the strings of a JSON text, with their escapes resolved. The value of a sensitive field is redacted
    /// entirely. Text outside of strings is kept, so input that is not JSON needs [`Self::redact_bytes`].
    pub fn redact_json<'a>(&self, json: &'a str) -> Cow<'a, str> {
        let Some(scanner) = &self.scanner else { return Cow::Borrowed(json) };
        if scanner.is_clean_json(json) {
            return Cow::Borrowed(json);
        }
        settled(json, |json| Self::json_once(scanner, json))
    }

    fn json_once<'a>(scanner: &Scanner, json: &'a str) -> Cow<'a, str> {
        rewrite(json, |StringPlace { role, text }| {
            let secrets = scanner.secrets(text, SearchScope::Everywhere);
            if let Role::Value { key } = role
                && secrets.is_empty()
                && let Some(name) = scanner.name_of_key(key)
                && is_secret(text, name, ValuePosition::Field)
                && scanner.counts(text, 0..text.len())
            {
                return vec![Replacement { range: 0..text.len(), text: Cow::Owned(mark(name.kind())) }];
            }
            let replace =
                |secret: Secret| Replacement { range: secret.range, text: Cow::Owned(mark(secret.kind)) };
            secrets.into_iter().map(replace).collect()
        })
    }

    /// Redacts a payload of unknown type: JSON, a part of it, or something else. If anything is redacted, invalid
    /// UTF-8 becomes U+FFFD.
    pub fn redact_bytes<'a>(&self, payload: &'a [u8]) -> Cow<'a, [u8]> {
        let text = String::from_utf8_lossy(payload);
        let strings = self.redact_payload(&text);
        // Scans once more as plain text, because a secret may be outside of what looks like a string.
        let all = self.redact_text(&strings);
        if *all == *text { Cow::Borrowed(payload) } else { Cow::Owned(all.into_owned().into_bytes()) }
    }

    /// Redacts every text of an event. Ids and folders are redacted as in [`Self::redact_id`].
    pub fn redact_event(&self, event: HookEvent) -> HookEvent {
        if self.scanner.is_none() {
            return event;
        }
        // Destructured completely, so a new field does not compile until it is handled here.
        let HookEvent {
            session: SessionId(session),
            prompt,
            cwd,
            transcript_path,
            title,
            subagent,
            origin,
            host,
            what,
        } = event;
        let title = self.owned_option(title);
        let session = SessionId(self.id(session));
        let prompt = prompt.map(|PromptId(id)| PromptId(self.id(id)));
        let (cwd, transcript_path) =
            (cwd.map(|path| self.id(path)), transcript_path.map(|path| self.id(path)));
        let subagent = subagent
            .map(|Subagent { id, kind }| Subagent { id: self.id(id), kind: kind.map(|kind| self.id(kind)) });
        let origin = origin.map(|origin| {
            let MessageOrigin {
                sender,
                channel,
                account,
                conversation,
                session_key,
                sent_at,
                sender_id,
                sender_name,
                sender_username,
                thread,
                message,
            } = *origin;
            let redact = |id: Option<String>| id.map(|id| self.id(id));
            Box::new(MessageOrigin {
                sender: redact(sender),
                channel: redact(channel),
                account: redact(account),
                conversation: redact(conversation),
                session_key: redact(session_key),
                sent_at,
                sender_id: redact(sender_id),
                sender_name: redact(sender_name),
                sender_username: redact(sender_username),
                thread: redact(thread),
                message: redact(message),
            })
        });
        let host = host.map(|host| {
            let HostFacts { continues, message_count, compacted_count } = *host;
            let continues = continues.map(|SessionId(id)| SessionId(self.id(id)));
            Box::new(HostFacts { continues, message_count, compacted_count })
        });
        let what = match what {
            HookEventKind::SessionStart { source, audience } => {
                HookEventKind::SessionStart { source, audience }
            }
            HookEventKind::Prompt { text: PromptText::Text(text), source, start } => {
                HookEventKind::Prompt { text: PromptText::Text(self.owned_text(text)), source, start }
            }
            HookEventKind::Prompt { text: PromptText::WhollyPrivate, source, start } => {
                HookEventKind::Prompt { text: PromptText::WhollyPrivate, source, start }
            }
            HookEventKind::ToolStart(ToolStart { name, use_id, input, file, task, refused_by }) => {
                let input = input_without_contents(input, &is_secret_file);
                let input = self.redact_json(&input).into_owned();
                let task = task.map(|SubagentTask { kind, text }| SubagentTask {
                    kind: self.id(kind),
                    text: self.owned_text(text),
                });
                let use_id = use_id.map(|CallId(id)| CallId(self.id(id)));
                HookEventKind::ToolStart(ToolStart {
                    name: self.id(name),
                    use_id,
                    input,
                    file: self.owned_option(file),
                    task,
                    refused_by,
                })
            }
            HookEventKind::Tool(call) => HookEventKind::Tool(self.redact_call(call)),
            HookEventKind::ToolBatch(calls) => {
                HookEventKind::ToolBatch(calls.into_iter().map(|call| self.redact_call(call)).collect())
            }
            HookEventKind::SubagentStart => HookEventKind::SubagentStart,
            HookEventKind::SubagentStop { message } => {
                HookEventKind::SubagentStop { message: self.owned_option(message) }
            }
            HookEventKind::PreCompact { trigger } => {
                HookEventKind::PreCompact { trigger: self.owned_text(trigger) }
            }
            HookEventKind::PostCompact { trigger, summary } => HookEventKind::PostCompact {
                trigger: self.owned_text(trigger),
                summary: self.owned_option(summary),
            },
            HookEventKind::Stop { message } => HookEventKind::Stop { message: self.owned_option(message) },
            HookEventKind::StopFailure { error, detail } => HookEventKind::StopFailure {
                error: self.owned_text(error),
                detail: self.redact_payload(&detail).into_owned(),
            },
            HookEventKind::MessageReceived { content, detail } => HookEventKind::MessageReceived {
                content: self.owned_option(content),
                detail: self.redact_payload(&detail).into_owned(),
            },
            HookEventKind::Notification { notification, detail } => HookEventKind::Notification {
                notification: Notification {
                    kind: self.owned_option(notification.kind),
                    title: self.owned_option(notification.title),
                    message: self.owned_option(notification.message),
                },
                detail: self.redact_payload(&detail).into_owned(),
            },
            HookEventKind::SessionSuspend { reason } => HookEventKind::SessionSuspend { reason },
            HookEventKind::SessionResume => HookEventKind::SessionResume,
            HookEventKind::SessionDelete { deleted: SessionId(id) } => {
                HookEventKind::SessionDelete { deleted: SessionId(self.id(id)) }
            }
            HookEventKind::Draft => HookEventKind::Draft,
            HookEventKind::Internal { name } => HookEventKind::Internal { name: self.id(name) },
            HookEventKind::SessionEnd { reason } => {
                HookEventKind::SessionEnd { reason: self.owned_text(reason) }
            }
            HookEventKind::Other { name, detail } => {
                let detail = self.redact_payload(&detail).into_owned();
                HookEventKind::Other { name: self.id(name), detail }
            }
        };
        HookEvent { session, prompt, cwd, transcript_path, title, subagent, origin, host, what }
    }

    /// Removes the contents of hidden files from the event, even if redaction is off.
    pub fn hide_files(event: HookEvent, is_hidden: &dyn Fn(&str) -> bool) -> HookEvent {
        let what = match event.what {
            HookEventKind::Tool(call) => HookEventKind::Tool(without_contents(call, is_hidden)),
            HookEventKind::ToolBatch(calls) => HookEventKind::ToolBatch(
                calls.into_iter().map(|call| without_contents(call, is_hidden)).collect(),
            ),
            HookEventKind::ToolStart(ToolStart { name, use_id, input, file, task, refused_by }) => {
                let input = input_without_contents(input, is_hidden);
                HookEventKind::ToolStart(ToolStart { name, use_id, input, file, task, refused_by })
            }
            HookEventKind::Other { name, detail } if secret_files::is_named(&detail, is_hidden) => {
                let detail = secret_files::without_contents(&detail, Suspect::ContentFields, is_hidden);
                HookEventKind::Other { name, detail: detail.into_owned() }
            }
            what => what,
        };
        HookEvent { what, ..event }
    }

    fn redact_call(&self, call: ToolCall) -> ToolCall {
        let call = without_secret_output(call);
        let ToolCall { name, use_id, input, result, duration_ms, plan, launched, rewrote } =
            without_contents(call, &is_secret_file);
        let name = self.id(name);
        let use_id = use_id.map(|CallId(id)| CallId(self.id(id)));
        let launched = launched.map(|id| self.id(id));
        let input = self.redact_json(&input).into_owned();
        let result = match result {
            ToolResult::Done(json) => ToolResult::Done(self.redact_json(&json).into_owned()),
            ToolResult::Failed(error) => ToolResult::Failed(self.redact_error(error)),
        };
        let plan = plan.map(|plan| self.redact_plan(plan));
        let rewrote = self.owned_option(rewrote);
        ToolCall { name, use_id, input, result, duration_ms, plan, launched, rewrote }
    }

    fn redact_plan(&self, change: PlanChange) -> PlanChange {
        match change {
            PlanChange::File { path, text } => {
                PlanChange::File { path: self.id(path), text: self.owned_text(text) }
            }
            PlanChange::Approved { path, text } => {
                PlanChange::Approved { path: path.map(|path| self.id(path)), text: self.owned_option(text) }
            }
            PlanChange::ApprovedEarlier { path, now } => {
                PlanChange::ApprovedEarlier { path: self.id(path), now: self.owned_text(now) }
            }
            PlanChange::Tasks(TaskChange::List(tasks)) => {
                let redacted = tasks
                    .into_iter()
                    .map(|Task { subject, state }| Task { subject: self.owned_text(subject), state });
                PlanChange::Tasks(TaskChange::List(redacted.collect()))
            }
            PlanChange::Tasks(TaskChange::Add { id, subject }) => {
                PlanChange::Tasks(TaskChange::Add { id: self.id(id), subject: self.owned_text(subject) })
            }
            PlanChange::Tasks(TaskChange::Update { id, subject, state }) => {
                let subject = self.owned_option(subject);
                PlanChange::Tasks(TaskChange::Update { id: self.id(id), subject, state })
            }
        }
    }

    /// Redacts an id, a name or a path. Only secrets with a known format count. A short hash in the mark keeps ids
    /// distinct that differ only in a secret.
    pub fn redact_id<'a>(&self, id: &'a str) -> Cow<'a, str> {
        let Some(scanner) = &self.scanner else { return Cow::Borrowed(id) };
        let secrets = scanner.secrets(id, SearchScope::FormatsOnly);
        if secrets.is_empty() {
            return Cow::Borrowed(id);
        }
        let mut out = String::with_capacity(id.len());
        let mut copied = 0;
        for secret in secrets {
            out.push_str(id.get(copied..secret.range.start).unwrap_or_default());
            let hash = Sha256::digest(id.get(secret.range.clone()).unwrap_or_default());
            let digits = hash.iter().take(4).map(|byte| format!("{byte:02x}")).collect::<String>();
            out.push_str(&mark(&format!("{}-{digits}", secret.kind)));
            copied = secret.range.end;
        }
        out.push_str(id.get(copied..).unwrap_or_default());
        Cow::Owned(out)
    }

    fn id(&self, id: String) -> String {
        match self.redact_id(&id) {
            Cow::Borrowed(_) => id,
            Cow::Owned(redacted) => redacted,
        }
    }

    fn owned_option(&self, text: Option<String>) -> Option<String> {
        text.map(|text| self.owned_text(text))
    }

    /// Redacts an error: plain text, or JSON if the agent gave no text.
    fn redact_error(&self, error: String) -> String {
        if error.starts_with(['{', '[', '"']) && serde_json::from_str::<serde::de::IgnoredAny>(&error).is_ok()
        {
            return self.redact_json(&error).into_owned();
        }
        self.owned_text(error)
    }

    /// Redacts a whole hook payload, including contents of secret files.
    fn redact_payload<'a>(&self, payload: &'a str) -> Cow<'a, str> {
        if self.scanner.is_none() {
            return Cow::Borrowed(payload);
        }
        let is_secret =
            secret_files::is_named(payload, &is_secret_file) || secret_commands::is_named(payload);
        let json = match is_secret {
            true => secret_files::without_contents(payload, Suspect::ContentFields, &is_secret_file),
            false => secret_files::without_shown(payload, &is_secret_file),
        };
        let Cow::Owned(json) = json else { return self.redact_json(payload) };
        Cow::Owned(self.redact_json(&json).into_owned())
    }

    fn owned_text(&self, text: String) -> String {
        match self.redact_text(&text) {
            Cow::Borrowed(_) => text,
            Cow::Owned(redacted) => redacted,
        }
    }
}

/// Returns the call without the contents of a hidden file that it names.
fn without_contents(call: ToolCall, is_hidden: &dyn Fn(&str) -> bool) -> ToolCall {
    if !secret_files::is_named(&call.input, is_hidden) {
        let shown = |json: &str| secret_files::without_shown(json, is_hidden).into_owned();
        let result = match &call.result {
            ToolResult::Done(json) => ToolResult::Done(shown(json)),
            ToolResult::Failed(error) => {
                ToolResult::Failed(secret_files::without_shown_text(&shown(error), is_hidden))
            }
        };
        return ToolCall { input: shown(&call.input), result, ..call };
    }
    let input = input_without_contents(call.input, is_hidden);
    let result = match &call.result {
        ToolResult::Done(json) => {
            let json = secret_files::without_contents(json, Suspect::Everything, is_hidden);
            ToolResult::Done(json.into_owned())
        }
        ToolResult::Failed(_) => ToolResult::Failed(secret_files::mark()),
    };
    ToolCall { input, result, plan: None, ..call }
}

/// Returns the call without the output of a command that prints secrets.
fn without_secret_output(call: ToolCall) -> ToolCall {
    if !secret_commands::is_named(&call.input) {
        return call;
    }
    let result = match &call.result {
        ToolResult::Done(json) => {
            let json = secret_files::without_contents(json, Suspect::Everything, &|_| false);
            ToolResult::Done(json.into_owned())
        }
        ToolResult::Failed(_) => ToolResult::Failed(secret_files::mark()),
    };
    ToolCall { result, ..call }
}

fn input_without_contents(input: String, is_hidden: &dyn Fn(&str) -> bool) -> String {
    match secret_files::is_named(&input, is_hidden) {
        true => secret_files::without_contents(&input, Suspect::Everything, is_hidden).into_owned(),
        false => secret_files::without_shown(&input, is_hidden).into_owned(),
    }
}

/// Repeats until nothing changes, because removing one secret may expose an adjacent one. The number of passes is
/// bounded, because a user's pattern may match the mark.
fn settled<'a>(text: &'a str, once: impl for<'b> Fn(&'b str) -> Cow<'b, str>) -> Cow<'a, str> {
    const MOST: usize = 4;
    let Cow::Owned(mut redacted) = once(text) else { return Cow::Borrowed(text) };
    for _ in 1..MOST {
        let Cow::Owned(again) = once(&redacted) else { break };
        redacted = again;
    }
    Cow::Owned(redacted)
}

/// Returns at most the first `most` bytes of a text, cut between characters.
fn beginning(text: &str, most: usize) -> &str {
    (0..4).find_map(|back| text.get(..most.checked_sub(back)?)).unwrap_or(text)
}

fn compile(key: &'static str, patterns: &[String]) -> Result<Vec<Regex>, RedactionError> {
    let compile = |pattern: &String| {
        let compiled = RegexBuilder::new(pattern).size_limit(PATTERN_SIZE).build();
        match compiled {
            Ok(regex) if regex.is_match("") => {
                Err(RedactionError::MatchesEverything { key, pattern: pattern.clone() })
            }
            Ok(regex) => Ok(regex),
            Err(error) => {
                Err(RedactionError::Pattern { key, pattern: pattern.clone(), fault: pattern_fault(&error) })
            }
        }
    };
    patterns.iter().map(compile).collect()
}

/// The replacement of a secret. It contains no characters that JSON would escape.
fn mark(kind: &str) -> String {
    [MARK, kind, "]"].concat()
}
