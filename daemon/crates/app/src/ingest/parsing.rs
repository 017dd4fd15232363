//! Parses a delivery, and removes private text, secrets and everything that the rules exclude.

use std::path::PathBuf;
use std::sync::Arc;

use recall_protocol::json_field::{self, is_wholly_private};
use recall_protocol::json_scan::clean;
use recall_protocol::privacy::has_tags;
use recall_protocol::wire::{Deliver, Flags, ShimContext};
use sha2::{Digest, Sha256};

use crate::capture_rules::{CaptureRules, EventRules, whole};
use crate::clock;
use crate::guards::{ChangedCall, GuardAnswer, as_wanted, changed, judge};
use recall_agents::{AgentSpec, Unreadable};
use recall_domain::event::{HookEvent, HookEventKind, is_too_long};
use recall_domain::guard::Guards;
use recall_domain::ids::{AgentName, CallId, Timestamp};
use recall_domain::project::identifying_folder;
use recall_domain::redaction::{Outputs, Redactor, own_calls};
use recall_store::{Delivery, Unparsed};

/// A delivery that was parsed, with its secrets removed.
pub(super) enum ParsedDelivery {
    Event(Box<ReadableEvent>),
    Unparsed(Box<Unparsed>),
}

pub(super) struct ReadableEvent {
    pub(super) event: HookEvent,
    /// The delivery without its payload.
    pub(super) deliver: Deliver,
    pub(super) second: Option<[u8; 16]>,
}

/// Whether all named folders are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Folders {
    Known,
    /// A folder name was too long for a path.
    Dropped,
}

/// Removes paths that are too long: text that is not a path would cause a lookup for each of its parts.
pub(super) fn forget_long_paths(context: &mut ShimContext) -> Folders {
    let is_long = |path: &String| is_too_long(path);
    context.config_dir.take_if(|path| is_long(path));
    let project = context.project_dir.take_if(|path| is_long(path));
    if is_long(&context.cwd) {
        context.cwd.clear();
        return Folders::Dropped;
    }
    if project.is_some() { Folders::Dropped } else { Folders::Known }
}

/// Checks the folder that the payload names.
pub(super) fn length_of_folder(deliver: &Deliver, event: &Result<HookEvent, String>) -> Folders {
    let is_long = match event {
        Ok(event) => event.cwd.as_deref().is_some_and(is_too_long),
        Err(_) => json_field::field(&deliver.payload, "cwd").is_some_and(|cwd| is_too_long(&cwd)),
    };
    if is_long { Folders::Dropped } else { Folders::Known }
}

/// A parsed delivery.
pub(super) struct Parsed {
    pub(super) deliver: Deliver,
    /// The event, or why it could not be parsed.
    pub(super) event: Result<HookEvent, String>,
    pub(super) own_folder: Folders,
    /// All words of the event's calls that may name a file.
    pub(super) names: Vec<String>,
    pub(super) guard: Option<GuardAnswer>,
    pub(super) change: Option<ChangedCall>,
}

impl Parsed {
    /// Returns where the agent works according to its hook and its event: the project's folder, the hook's working
    /// folder, and the payload's folder. The first one determines the project.
    pub(super) fn folders(&self, capture_rules: &CaptureRules) -> Vec<PathBuf> {
        let context = &self.deliver.context;
        let here = PathBuf::from(capture_rules.spelled_out(&context.cwd).as_ref());
        let named = match &self.event {
            Ok(event) => event.cwd.clone(),
            Err(_) => json_field::field(&self.deliver.payload, "cwd").map(|cwd| cwd.into_owned()),
        };
        let named = named.filter(|named| !is_too_long(named));
        let made_whole = |named: &str| {
            let named = Some(named).filter(|named| !named.is_empty())?;
            Some(whole(&capture_rules.spelled_out(named), &here))
        };
        let project = context.project_dir.as_deref();
        let strongest = identifying_folder(
            &[project, named.as_deref(), Some(&*context.cwd)].map(Option::unwrap_or_default),
        );
        let [strongest, project, own] =
            [Some(strongest), project, named.as_deref()].map(|folder| folder.and_then(made_whole));
        let mut folders = Vec::new();
        for folder in [strongest, project, Some(here), own].into_iter().flatten() {
            if !folders.contains(&folder) {
                folders.push(folder);
            }
        }
        folders
    }
}

/// Removes private text by the hook client's rules. If there is none, this costs a single search for a bracket.
pub(super) fn without_private_text(deliver: Deliver, spec: &AgentSpec) -> Deliver {
    if !has_tags(&deliver.payload) {
        return deliver;
    }
    let cleaned = clean(&deliver.payload);
    let mut flags = deliver.flags.with(cleaned.flags);
    if is_wholly_private(&cleaned, spec.format.prompt_field) {
        flags = flags.with(Flags::WHOLLY_PRIVATE);
    }
    Deliver { payload: cleaned.payload, flags, ..deliver }
}

/// Whether guards judge a call, because an agent is waiting for the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    Yes,
    No,
}

pub(super) fn parse(
    deliver: Deliver,
    spec: &AgentSpec,
    outputs: Outputs,
    guards: Option<(Arc<Guards>, Judged)>,
) -> Parsed {
    let deliver = without_private_text(deliver, spec);
    let mut event = spec.event(&deliver).map_err(|error| parse_error(&error));
    if let (Some((guards, _)), Ok(event)) = (&guards, &mut event) {
        as_wanted(guards, event);
    }
    let own_folder = length_of_folder(&deliver, &event);
    let mut event = event.map(HookEvent::without_long_paths);
    let names = event.as_ref().map_or_else(|_| Vec::new(), |event| Redactor::file_names(event, outputs));
    // The guard sees the payload before redaction, which may replace a name.
    let (guard, change) = match (&guards, &event) {
        (Some((guards, Judged::Yes)), Ok(event)) => {
            (judge(guards, spec, event, &deliver.context.cwd), changed(guards, spec, event))
        }
        _ => (None, None),
    };
    if let (Ok(HookEvent { what: HookEventKind::ToolStart(start), .. }), Some(answer)) = (&mut event, &guard)
    {
        start.refused_by = answer.refused_by();
    }
    Parsed { deliver, event, own_folder, names, guard, change }
}

pub(super) fn cleanse(
    Parsed { mut deliver, event, .. }: Parsed,
    redactor: &Redactor,
    event_rules: &EventRules,
) -> ParsedDelivery {
    let event = match event {
        Ok(event) => event,
        Err(why) => return ParsedDelivery::Unparsed(Box::new(unparsed(deliver, why, redactor))),
    };
    // The second key uses the payload before redaction, because calls that differ only in a secret are different
    // calls.
    let second = second_key(&event, &deliver);
    deliver.payload = Vec::new();
    deliver.event_name = redactor.redact_id(&deliver.event_name).into_owned();
    let event = own_calls::without_answers(event);
    let event = Redactor::reduce_to_names(event, &event_rules.elsewhere);
    let event = match event_rules.hides_anything() {
        true => Redactor::hide_files(event, &|path| event_rules.hides(path)),
        false => event,
    };
    ParsedDelivery::Event(Box::new(ReadableEvent { event: redactor.redact_event(event), deliver, second }))
}

pub(super) fn unparsed(deliver: Deliver, parse_error: String, redactor: &Redactor) -> Unparsed {
    Unparsed {
        payload: redactor.redact_bytes(&deliver.payload).into_owned(),
        delivery: {
            let name = redactor.redact_id(&deliver.event_name).into_owned();
            apart(deliver, name)
        },
        parse_error,
    }
}

/// Builds the acceptance of an event that belongs to no session.
pub(super) fn apart(deliver: Deliver, event_name: String) -> Delivery {
    Delivery {
        event: deliver.event_id,
        key: None,
        agent: AgentName(deliver.agent),
        event_name,
        captured_at: Timestamp(deliver.captured_at_ms),
        boot_id: deliver.boot_id,
        boot_ns: deliver.boot_ns,
        flags: deliver.flags.0,
        stored_at: clock::now(),
    }
}

/// Describes what was wrong and where, without content, because the parser's own message may quote the payload.
pub(super) fn parse_error(error: &Unreadable) -> String {
    match error {
        Unreadable::NotJson(error) => {
            format!(
                "not a JSON object: {:?} at line {}, column {}",
                error.classify(),
                error.line(),
                error.column()
            )
        }
        other => other.to_string(),
    }
}

/// Returns the key that identifies a call under different event ids: the agent's own id of the call or, without one,
/// the turn's id with the whole payload, or a payload that contains the time. Without any of these every event is
/// stored.
pub(super) fn second_key(event: &HookEvent, deliver: &Deliver) -> Option<[u8; 16]> {
    let mut hash = Sha256::new();
    match (&event.what, &event.prompt) {
        (HookEventKind::Tool(call), _) if call.use_id.is_some() => {
            hash.update(if call.is_failed() { "failure" } else { "result" });
            hash.update([0]);
            hash.update(call.use_id.as_ref().map_or("", CallId::as_str));
        }
        (HookEventKind::ToolStart(call), _) if call.use_id.is_some() => {
            hash.update("start");
            hash.update([0]);
            hash.update(call.use_id.as_ref().map_or("", CallId::as_str));
        }
        (_, Some(prompt)) => {
            hash.update(prompt.as_str());
            hash.update([0]);
            hash.update(&deliver.payload);
        }
        (_, None) if json_field::field(&deliver.payload, "timestamp").is_some() => {
            hash.update(event.name());
            hash.update([0]);
            hash.update(&deliver.payload);
        }
        _ => return None,
    }
    hash.finalize().first_chunk().copied()
}
