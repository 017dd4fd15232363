//! The format that most agents send, with small differences: the reader of its events and the envelopes of its answers.
//!
//! A [`Format`] contains what is specific to an agent: the names of its events and tools. A function in the agent's
//! folder handles its peculiarities, after the event was read here. Fields change between versions. So every field
//! except the session's id is optional, unknown fields are ignored, and unknown events are stored unprocessed.

pub mod answer;
pub mod payload;
pub mod plans;
pub mod tool;
pub mod tools;
pub(super) mod typed;

use recall_protocol::wire::{Deliver, Flags};

use self::payload::Payload;
use self::tools::Tools;
use super::failure::{FailureRules, ResultSource};
use super::json::string;
use super::{EventSpec, Unreadable};
use recall_domain::event::{
    Audience, EventName, HookEvent, HookEventKind, Notification, PromptText, StartContext, StartSource,
    Subagent, ToolCall, ToolResult, ToolStart,
};
use recall_domain::ids::{CallId, PromptId, SessionId};

/// One agent's part of the format.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// The events that the agent is configured to report. Other spellings of a name count as the same event:
    /// `sessionStart`.
    pub events: &'static [EventSpec],
    /// Other names of events, from older versions and other dialects, in [`letters`].
    pub also: &'static [(&'static str, Meaning)],
    pub tools: Tools,
    pub failures: FailureRules,
    /// The payload's field with the prompt. Its other spellings are read, too.
    pub prompt_field: &'static str,
}

/// The meaning of such a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Is(EventName),
    /// The session ends, for this reason if the event has none.
    Ends(&'static str),
    /// Internal to the agent's program. Other events report it, too.
    Internal,
}

/// A name reduced to lower-case letters and digits: `session_start`, `SessionStart` and `session:start` are one.
pub fn letters(name: &str) -> String {
    name.chars().filter(char::is_ascii_alphanumeric).map(|letter| letter.to_ascii_lowercase()).collect()
}

impl Format {
    /// Defaults for an agent's format.
    pub const PLAIN: Self = Self {
        events: &[],
        also: &[],
        tools: Tools(&[]),
        failures: FailureRules::COMMON,
        prompt_field: "prompt",
    };

    fn meaning(&self, name: &str) -> Option<Meaning> {
        let exactly = self.events.iter().find(|event| event.name == name);
        if let Some(event) = exactly {
            return Some(Meaning::Is(event.is));
        }
        let spelled = letters(name);
        let also = self.also.iter().find(|(other, _)| *other == spelled).map(|(_, meaning)| *meaning);
        also.or_else(|| {
            let event = self.events.iter().find(|event| letters(event.name) == spelled)?;
            Some(Meaning::Is(event.is))
        })
        // All agents that have it use this name, and some do not register it.
        .or_else(|| (spelled == "notification").then_some(Meaning::Is(EventName::Notification)))
    }

    /// Reads one event.
    ///
    /// # Errors
    /// The payload is not one JSON object, or it names no session or no event.
    pub fn read(&self, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
        self.event(&Payload::read(delivery)?, delivery)
    }

    /// # Errors
    /// The payload names no session or no event.
    pub fn event(&self, payload: &Payload, delivery: &Deliver) -> Result<HookEvent, Unreadable> {
        let name = payload.event_name(delivery);
        let means_message =
            |name: &String| self.meaning(name) == Some(Meaning::Is(EventName::MessageReceived));
        let session = match name.as_ref().is_some_and(means_message) {
            true => payload.session_of_message(),
            false => payload.session(),
        };
        let session = session.ok_or(Unreadable::NoSession)?;
        let name = name.ok_or(Unreadable::NoEvent)?;
        let what = self.what(&name, payload, delivery);
        let is_message = matches!(what, HookEventKind::Prompt { .. } | HookEventKind::MessageReceived { .. });
        let is_of_course = matches!(
            what,
            HookEventKind::SessionStart { .. }
                | HookEventKind::SessionEnd { .. }
                | HookEventKind::SessionSuspend { .. }
                | HookEventKind::PreCompact { .. }
                | HookEventKind::PostCompact { .. }
        );
        let origin = if is_message { payload.origin(&session) } else { None };
        let subagent = payload.word(payload::SUBAGENT);
        Ok(HookEvent {
            session: SessionId(session),
            prompt: payload.word(payload::TURN).map(PromptId),
            cwd: payload.folder(),
            transcript_path: payload.word(payload::TRANSCRIPT),
            title: payload.text(&["session_title"]).and_then(|title| one_line(&title)),
            subagent: subagent.map(|id| Subagent { id, kind: payload.word(payload::SUBAGENT_KIND) }),
            origin,
            host: if is_of_course { payload.host_facts() } else { None },
            what,
        })
    }

    fn what(&self, name: &str, payload: &Payload, delivery: &Deliver) -> HookEventKind {
        let (event, reason) = match self.meaning(name) {
            Some(Meaning::Is(event)) => (event, "other"),
            Some(Meaning::Ends(reason)) => (EventName::SessionEnd, reason),
            Some(Meaning::Internal) => return HookEventKind::Internal { name: name.to_owned() },
            None => return other(name, delivery),
        };
        let is_in_subagent = payload.word(payload::SUBAGENT).is_some();
        let reason = || payload.word(&["reason"]).unwrap_or_else(|| reason.to_owned());
        let trigger = || payload.word(&["trigger"]).unwrap_or_else(|| "auto".to_owned());
        match event {
            EventName::SessionStart => {
                let source = match payload.word(&["source"]) {
                    Some(source) => StartSource::parse(&source),
                    // A conversation that replaced another one.
                    None if payload.word(payload::CONTINUES).is_some() => StartSource::Clear,
                    None => StartSource::Startup,
                };
                HookEventKind::SessionStart { source, audience: Audience::Nobody }
            }
            // A subagent's prompts and turns are also reported by its start and its stop.
            EventName::Prompt | EventName::Stop if is_in_subagent => {
                HookEventKind::Internal { name: name.to_owned() }
            }
            EventName::Prompt => self.prompt(name, payload, delivery),
            EventName::ToolStart => match payload.word(payload::TOOL) {
                Some(tool) => HookEventKind::ToolStart(self.tool_start(tool, payload)),
                None => other(name, delivery),
            },
            EventName::Tool | EventName::ToolFailure => match payload.word(payload::TOOL) {
                Some(tool) => HookEventKind::Tool(self.tool_call(tool, event, payload)),
                None => other(name, delivery),
            },
            EventName::ToolBatch => HookEventKind::ToolBatch(settled_calls(payload)),
            EventName::SubagentStart => HookEventKind::SubagentStart,
            EventName::SubagentStop => {
                HookEventKind::SubagentStop { message: payload.message_text(payload::MESSAGE) }
            }
            EventName::PreCompact => HookEventKind::PreCompact { trigger: trigger() },
            EventName::PostCompact => HookEventKind::PostCompact {
                trigger: trigger(),
                summary: payload.message_text(payload::COMPACTED),
            },
            // `stop_hook_active` (also `stopHookActive`) says that a hook made the agent continue. Recall never answers
            // a Stop, so that was another hook, and the turn's later answer replaces the earlier one anyway.
            EventName::Stop => HookEventKind::Stop { message: payload.message_text(payload::MESSAGE) },
            EventName::StopFailure => HookEventKind::StopFailure {
                error: payload.word(&["error", "error_type"]).unwrap_or_else(|| "unknown".to_owned()),
                detail: text(delivery),
            },
            EventName::SessionEnd => HookEventKind::SessionEnd { reason: reason() },
            EventName::SessionSuspend => HookEventKind::SessionSuspend { reason: reason() },
            EventName::SessionResume => HookEventKind::SessionResume,
            EventName::SessionDelete => match payload.word(payload::DELETED) {
                Some(deleted) => HookEventKind::SessionDelete { deleted: SessionId(deleted) },
                None => other(name, delivery),
            },
            EventName::MessageReceived => HookEventKind::MessageReceived {
                content: payload.word(&["content", "text"]).filter(|text| !text.trim().is_empty()),
                detail: text(delivery),
            },
            EventName::Notification => HookEventKind::Notification {
                notification: Notification {
                    kind: payload.word(&["notification_type"]),
                    title: payload.word(&["title"]),
                    message: payload.word(&["message", "notification_message"]),
                },
                detail: text(delivery),
            },
            EventName::Other => other(name, delivery),
        }
    }

    fn prompt(&self, name: &str, payload: &Payload, delivery: &Deliver) -> HookEventKind {
        let prompt =
            payload.message_text(&[self.prompt_field]).or_else(|| payload.message_text(payload::PROMPT));
        let is_empty = prompt.as_ref().is_some_and(|prompt| prompt.trim().is_empty());
        let text = prompt_text(prompt, delivery);
        if is_empty && text != PromptText::WhollyPrivate {
            // Some agents report each further model call within a turn as an empty prompt.
            return HookEventKind::Internal { name: name.to_owned() };
        }
        HookEventKind::Prompt { text, source: typed::source(payload), start: StartContext::Shown }
    }

    fn tool_start(&self, name: String, payload: &Payload) -> ToolStart {
        let input = payload.raw(payload::INPUT).unwrap_or("{}");
        ToolStart {
            use_id: payload.word(payload::CALL).map(CallId),
            file: self.tools.file(&name, input),
            task: self.tools.task(&name, input),
            refused_by: None,
            input: input.to_owned(),
            name,
        }
    }

    fn tool_call(&self, name: String, event: EventName, payload: &Payload) -> ToolCall {
        let mut call = ToolCall {
            use_id: payload.word(payload::CALL).map(CallId),
            input: payload.raw(payload::INPUT).unwrap_or("{}").to_owned(),
            result: ToolResult::Done(String::new()),
            duration_ms: payload.number(payload::DURATION),
            plan: None,
            launched: None,
            rewrote: None,
            name,
        };
        let response = payload.raw(payload::RESPONSE);
        let failure = match event {
            EventName::ToolFailure => Some(self.failures.failure_text(&payload.top, response)),
            _ => self.failures.error_text(ResultSource::of(&call.name), &payload.top, response),
        };
        if let Some(words) = failure {
            call.result = ToolResult::Failed(words);
            return call;
        }
        self.tools.effects(&mut call, response);
        call.result = ToolResult::Done(response.unwrap_or("null").to_owned());
        call
    }
}

/// Renders a title as one line, truncated.
fn one_line(title: &str) -> Option<String> {
    const LONGEST: usize = 120;
    let words = recall_domain::text::one_line(title);
    let line: String = words.chars().filter(|character| !character.is_control()).take(LONGEST).collect();
    (!line.is_empty()).then_some(line)
}

fn other(name: &str, delivery: &Deliver) -> HookEventKind {
    HookEventKind::Other { name: name.to_owned(), detail: text(delivery) }
}

fn text(delivery: &Deliver) -> String {
    String::from_utf8_lossy(&delivery.payload).into_owned()
}

/// Returns the calls of an event that reports several. Their responses are the texts that the model received. The
/// event does not say whether a call ran, so each is read as one that did not; those that ran have rows already.
fn settled_calls(payload: &Payload) -> Vec<ToolCall> {
    let calls = payload.calls();
    let named = calls.iter().filter_map(|call| Some((call.word_of(payload::TOOL)?, call)));
    named
        .map(|(name, call)| {
            let response =
                call.raw_of(payload::RESPONSE).map(|raw| string(raw).unwrap_or_else(|| raw.to_owned()));
            ToolCall {
                name,
                use_id: call.word_of(payload::CALL).map(CallId),
                input: call.raw_of(payload::INPUT).unwrap_or("{}").to_owned(),
                result: ToolResult::Failed(response.unwrap_or_default()),
                duration_ms: None,
                plan: None,
                launched: None,
                rewrote: None,
            }
        })
        .collect()
}

/// Returns the text of a prompt. If removing private text left nothing, the prompt is private as a whole. The hook
/// client cannot flag that if the prompt is inside a nested object.
pub(super) fn prompt_text(text: Option<String>, delivery: &Deliver) -> PromptText {
    let text = text.unwrap_or_default();
    let is_stripped = text.trim().is_empty() && delivery.flags.contains(Flags::STRIPPED);
    match is_stripped || delivery.flags.contains(Flags::WHOLLY_PRIVATE) {
        true => PromptText::WhollyPrivate,
        false => PromptText::Text(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_is_one_line() {
        assert_eq!(one_line(" Cart\n\tdiscount ").as_deref(), Some("Cart discount"));
        assert_eq!(one_line(" \n "), None);
        assert_eq!(one_line(&"é".repeat(500)).map(|line| line.chars().count()), Some(120));
    }

    #[test]
    fn a_name_is_reduced_to_lowercase_letters_and_digits() {
        assert_eq!(letters("session:compact-Before_2"), "sessioncompactbefore2");
    }
}
