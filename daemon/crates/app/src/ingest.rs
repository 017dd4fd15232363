//! Passes an event from its delivery, or from the spool, to its session.
//!
//! Private text and secrets are removed ([`parsing`]) before an event reaches a session or the store. The hook client
//! removes private text too, but other senders and spool files may contain it.

mod nested;
mod parsing;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use recall_protocol::wire::{Deliver, Flags, Reply};
use tracing::Instrument;

use self::parsing::{
    Folders, Judged, Parsed, ParsedDelivery, ReadableEvent, apart, cleanse, forget_long_paths,
    length_of_folder, parse, without_private_text,
};
use super::capture_rules::{CaptureRules, EventRules};
use super::certain_times::{CertainTimes, NotedHook, PromptSource, SpanExtent};
use super::clock;
use super::crashes::Crashes;
use super::event_trace::EventTrace;
use super::forgetting::{Forgetting, Request};
use super::guards::{ChangedCall, GuardAnswer, GuardFinding};
use super::injection_receipt::Recipient;
use super::pause::PauseSwitch;
use super::ports::{AcceptedEvent, Ports, WriteFailed, Writer};
use super::settings::{CurrentRedactor, Settings};
use super::unreported::unreported;
use recall_agents::{Agents, HookOutput};
use recall_config::Deleted;
use recall_domain::event::{Audience, ConversationPlace, EventName, HookEvent, HookEventKind};
use recall_domain::ids::{AgentName, SessionId, SessionKey, Timestamp};
use recall_domain::order::Order;
use recall_domain::redaction::Outputs;
use recall_repository::project_file::Captured;
use recall_store::{MessageApart, Readers, Selection, Unparsed, UnparsedOutcome, Unreadable as Unread};
use recall_system::faults::{self, Fault, Point, planted};

/// The time limit of a reply. The shim has given up by then; the event is stored anyway, or will be offered again.
const ANSWER_WITHIN: Duration = Duration::from_secs(15);

/// The payload size in bytes above which it is parsed and redacted on its own thread, so that other events do not
/// wait.
const LARGE: usize = 64 << 10;

/// How long a guard's answer waits for the commit. A hook before a call waits only 20 ms; the hook client then keeps
/// the event in the spool.
const GUARD_WITHIN: Duration = Duration::from_millis(5);
/// How long an answer with a modified command waits for the commit. It may wait longer, because it includes the
/// command's context.
const CHANGE_WITHIN: Duration = Duration::from_millis(12);

/// Receives events and passes them to their sessions. Cheap to clone.
#[derive(Clone)]
pub struct Ingest<P> {
    pub agents: Agents,
    pub ports: P,
    pub crashes: Crashes,
    pub redactor: CurrentRedactor,
    pub counters: Arc<Counters>,
    pub pauses: PauseSwitch,
    pub capture_rules: CaptureRules,
    pub settings: Settings,
    pub readers: Readers,
    pub certain_times: CertainTimes,
    pub forgetting: Forgetting<P>,
}

/// The counters for `status`, since the daemon started.
#[derive(Debug, Default)]
pub struct Counters {
    pub accepted: AtomicU64,
    pub duplicates: AtomicU64,
    pub busy: AtomicU64,
    /// Calls and prompts that arrived under two event ids because two hooks reported them.
    pub told_twice: AtomicU64,
    /// Events that arrived during a pause and were not stored.
    pub paused: AtomicU64,
    /// Events of excluded projects.
    pub excluded: AtomicU64,
    /// When the last of these two kinds arrived, in milliseconds since 1970.
    left_out_at: AtomicI64,
    /// Calls that a guard refused or asked about.
    pub guarded: AtomicU64,
    /// Calls that proceeded with a guard's notice.
    pub advised: AtomicU64,
    /// Results that a guard warned about.
    pub warned: AtomicU64,
}

impl Counters {
    fn left_out(&self, counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
        self.left_out_at.fetch_max(clock::now().0, Ordering::Relaxed);
    }

    /// Returns the moment since which everything that arrived is stored, for a daemon that has run for this long.
    pub fn stored_since(&self, running: Duration) -> Timestamp {
        let running = i64::try_from(running.as_millis()).unwrap_or(i64::MAX);
        let started = clock::now().0.saturating_sub(running);
        Timestamp(started.max(self.left_out_at.load(Ordering::Relaxed)))
    }
}

impl<P: Ports> Ingest<P> {
    /// Stores an event that has just arrived; see [`Self::take_traced`].
    pub async fn take(&self, deliver: Deliver, recipient: Recipient) -> Reply {
        let trace = EventTrace::begin(deliver.event_id, Instant::now());
        self.take_traced(deliver, recipient, trace).await
    }

    /// Stores an event and returns the reply. Never fails: an event that cannot be accepted gets BUSY.
    pub async fn take_traced(&self, deliver: Deliver, recipient: Recipient, trace: EventTrace) -> Reply {
        let reply = self.stored(deliver, recipient, &trace).instrument(trace.span()).await;
        trace.answered(&reply);
        reply
    }

    async fn stored(&self, mut deliver: Deliver, recipient: Recipient, trace: &EventTrace) -> Reply {
        let context = forget_long_paths(&mut deliver.context);
        // The name comes from a command line and may contain anything.
        deliver.agent = match self.agents.real_sender(&deliver) {
            Some(spec) => spec.name.to_owned(),
            None => self.redactor.get().redact_id(&deliver.agent).into_owned(),
        };
        if deliver.captured_at_ms <= 0 {
            // The clock is not set yet. An event of 1970 would count as old, and as silent ever since.
            deliver.captured_at_ms = clock::now().0;
        }
        if self.pauses.covers(&captured(&deliver)) {
            self.counters.left_out(&self.counters.paused);
            return Reply::Ack { stdout: self.paused_answer(&deliver) };
        }
        let judged = match recipient {
            Recipient::Agent(_) => Judged::Yes,
            Recipient::Nobody => Judged::No,
        };
        let Some(mut parsed) = self.parse(deliver, judged).await else {
            return self.counted(Reply::Busy);
        };
        // The folders that the event names are unknown.
        if [context, parsed.own_folder].contains(&Folders::Dropped) && self.capture_rules.exclude_anything() {
            self.break_off(&parsed);
            return self.let_go(&parsed.deliver);
        }
        let folders = parsed.folders(&self.capture_rules);
        let event_rules = self.capture_rules.event_rules(folders, std::mem::take(&mut parsed.names)).await;
        if event_rules.captured() == Captured::No {
            self.break_off(&parsed);
            return self.let_go(&parsed.deliver);
        }
        let change = parsed.change.take();
        match (parsed.guard.take(), change) {
            (None, None) => self.keep(parsed, event_rules, recipient, trace).await,
            (None, Some(change)) => {
                let kept = self.keep(parsed, event_rules, recipient, trace);
                with_change(tokio::time::timeout(CHANGE_WITHIN, kept).await.unwrap_or(Reply::Busy), change)
            }
            (Some(answer), change) => {
                let change = change.filter(|_| answer.refused_by().is_none());
                let reply = self.keep_guarded(parsed, event_rules, answer, trace).await;
                match change {
                    Some(change) => with_change(reply, change),
                    None => reply,
                }
            }
        }
    }

    async fn keep(
        &self,
        parsed: Parsed,
        event_rules: EventRules,
        recipient: Recipient,
        trace: &EventTrace,
    ) -> Reply {
        let alias = event_rules.rules.first().and_then(|rules| rules.alias.clone());
        let reply = match self.cleanse(parsed, event_rules).await {
            Some(ParsedDelivery::Event(event)) => self.pass_on(*event, recipient, alias, trace).await,
            Some(ParsedDelivery::Unparsed(unparsed)) => self.keep_raw(unparsed).await,
            None => Reply::Busy,
        };
        self.counted(reply)
    }

    /// Like [`Self::keep`], but with a guard's answer instead of context.
    async fn keep_guarded(
        &self,
        parsed: Parsed,
        event_rules: EventRules,
        GuardAnswer { finding, stdout }: GuardAnswer,
        trace: &EventTrace,
    ) -> Reply {
        let event = parsed.deliver.event_id;
        match &finding {
            GuardFinding::Refusal(verdict) => {
                let (guard, decision) = (verdict.rule.name(), verdict.decision.name());
                tracing::info!(%event, guard, decision, "a guard refused a call");
                self.counters.guarded.fetch_add(1, Ordering::Relaxed);
            }
            GuardFinding::Advice(verdict) => {
                tracing::info!(%event, guard = verdict.rule.name(), "a guard advised on a call");
                self.counters.advised.fetch_add(1, Ordering::Relaxed);
            }
            GuardFinding::Warning(_) => {
                tracing::info!(%event, "a guard warned about a result");
                self.counters.warned.fetch_add(1, Ordering::Relaxed);
            }
        }
        let (ingest, trace) = (self.clone(), trace.clone());
        let kept = async move { ingest.keep(parsed, event_rules, Recipient::Nobody, &trace).await };
        let kept = tokio::spawn(kept.in_current_span());
        match tokio::time::timeout(GUARD_WITHIN, kept).await {
            Ok(Ok(Reply::Ack { .. })) => Reply::Ack { stdout },
            Ok(Ok(Reply::Duplicate { .. })) => Reply::Duplicate { stdout },
            Ok(_) | Err(_) => Reply::Unsaved { stdout },
        }
    }

    fn counted(&self, reply: Reply) -> Reply {
        let counter = match &reply {
            Reply::Ack { .. } | Reply::Unsaved { .. } => &self.counters.accepted,
            Reply::Duplicate { .. } => &self.counters.duplicates,
            _ => &self.counters.busy,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        reply
    }

    /// Returns the reply for an event of an excluded project.
    fn let_go(&self, deliver: &Deliver) -> Reply {
        self.counters.left_out(&self.counters.excluded);
        let report = self.settings.report();
        let notice = report.nothing_is_captured.then(|| report.notice()).flatten();
        Reply::Ack { stdout: notice.map_or_else(Vec::new, |notice| self.notice_at_start(deliver, notice)) }
    }

    /// Returns an empty reply, with a line for the user at a session's start.
    fn paused_answer(&self, deliver: &Deliver) -> Vec<u8> {
        let Some(pause) = self.pauses.current(&clock::moment()) else { return Vec::new() };
        self.notice_at_start(deliver, format!("recall: {}", pause.in_words()))
    }

    /// Renders a line for the user, only at a session's start.
    fn notice_at_start(&self, deliver: &Deliver, notice: String) -> Vec<u8> {
        let spec = self.agents.spec(&deliver.agent);
        match spec.event(deliver).map(|event| event.what) {
            Ok(what @ HookEventKind::SessionStart { audience: Audience::Person, .. }) => {
                spec.answer(HookOutput { event: what.name(), context: None, notice: Some(notice) })
            }
            _ => Vec::new(),
        }
    }

    /// Returns the session of an event; `None` if the event cannot be parsed.
    pub(crate) fn session_of(&self, deliver: &Deliver) -> Option<SessionKey> {
        let spec = self.agents.real_sender(deliver);
        let name = spec.map_or(deliver.agent.as_str(), |spec| spec.name);
        let event = self.agents.spec(name).event(deliver).ok()?;
        Some(SessionKey { agent: AgentName(name.to_owned()), id: event.session })
    }

    /// Parses a delivery. `None` if the parser panicked.
    async fn parse(&self, deliver: Deliver, judged: Judged) -> Option<Parsed> {
        faults::reach(Point::Decode);
        if planted(Fault::LogContent) {
            tracing::info!(payload = %String::from_utf8_lossy(&deliver.payload));
        }
        if self.crashes.is_poison(deliver.event_id) {
            tracing::error!(event = %deliver.event_id, "an event crashed its session twice and is stored unparsed");
            let event = Err("it crashed its session twice".to_owned());
            let spec = self.agents.spec(&deliver.agent);
            let deliver = without_private_text(deliver, spec);
            let own_folder = length_of_folder(&deliver, &event);
            return Some(Parsed { deliver, event, own_folder, names: Vec::new(), guard: None, change: None });
        }
        let guards = self.settings.guards().map(|guards| (guards, judged));
        let outputs = if self.capture_rules.exclude_anything() { Outputs::Searched } else { Outputs::Left };
        let spec = self.agents.spec(&deliver.agent);
        if deliver.payload.len() <= LARGE {
            return Some(parse(deliver, spec, outputs, guards));
        }
        aside(move || parse(deliver, spec, outputs, guards)).await
    }

    /// Like [`Self::parse`], for the removal of secrets.
    async fn cleanse(&self, parsed: Parsed, event_rules: EventRules) -> Option<ParsedDelivery> {
        let redactor = self.redactor.get();
        if parsed.deliver.payload.len() <= LARGE {
            return Some(cleanse(parsed, &redactor, &event_rules));
        }
        aside(move || cleanse(parsed, &redactor, &event_rules)).await
    }

    async fn pass_on(
        &self,
        ReadableEvent { event, deliver, second }: ReadableEvent,
        recipient: Recipient,
        alias: Option<String>,
        trace: &EventTrace,
    ) -> Reply {
        let mut event = event;
        match &event.what {
            HookEventKind::Draft => return Reply::Ack { stdout: Vec::new() },
            HookEventKind::SessionDelete { deleted } => {
                let key = SessionKey { agent: AgentName(deliver.agent.clone()), id: deleted.clone() };
                if let Err(error) = self.forget_deleted(key).await {
                    tracing::warn!(%error, "cannot forget a deleted session");
                    return Reply::Busy;
                }
            }
            _ => {}
        }
        if !event.session.is_known() {
            let Some(session) = self.session_in_place(&event, &deliver).await else {
                return self.publish_alone(event, deliver).await;
            };
            event.session = session;
        }
        let key = SessionKey { agent: AgentName(deliver.agent.clone()), id: event.session.clone() };
        trace.identify(&key, event.name());
        if !deliver.flags.contains(Flags::IMPORTED) {
            self.look_for_unreported(&key, &event, &deliver).await;
        }
        let accepted = AcceptedEvent { event, deliver, key: second, alias, recipient, trace: trace.clone() };
        self.ports.deliver(key, accepted, ANSWER_WITHIN).await.unwrap_or(Reply::Busy)
    }

    /// Forgets a session that was deleted in its agent, if the user wants that. Its rows are gone when this returns.
    async fn forget_deleted(&self, key: SessionKey) -> Result<(), WriteFailed> {
        if self.settings.deleted() == Deleted::Kept {
            return Ok(());
        }
        let readers = self.readers.clone();
        let found = aside(move || readers.read(|db| db.known_session(&key))).await;
        let Some(known) = found.transpose()?.flatten() else { return Ok(()) };
        let request = Request { what: Selection::Session(known.row), unreadable: Unread::Stays };
        self.forgetting.forget_rows(request).await
    }

    /// Ends the session's certain times, because an event was not stored.
    fn break_off(&self, parsed: &Parsed) {
        if let Ok(event) = &parsed.event {
            let agent = AgentName(parsed.deliver.agent.clone());
            self.certain_times.break_off(&SessionKey { agent, id: event.session.clone() });
        }
    }

    /// Takes over prompts that no hook reported, at the end of a turn or session.
    async fn look_for_unreported(&self, key: &SessionKey, event: &HookEvent, deliver: &Deliver) {
        let prompts = match self.agents.spec(key.agent.as_str()).leaves_prompts_to_its_record() {
            true => PromptSource::Record,
            false => PromptSource::Hooks,
        };
        let (at, rules) = (captured(deliver), self.capture_rules.version());
        self.certain_times.note(key, &NotedHook { event, prompts, at, rules }, &deliver.context);
        match event.what {
            // No hook that would report a prompt is in transit.
            HookEventKind::Stop { .. } if prompts == PromptSource::Record => {
                self.take_unreported(key, SpanExtent::All).await;
            }
            HookEventKind::Stop { .. } => self.take_unreported(key, SpanExtent::Turns).await,
            HookEventKind::SessionEnd { .. } => self.take_unreported(key, SpanExtent::All).await,
            _ => {}
        }
    }

    /// Takes over unreported prompts of sessions that have been silent for this long.
    pub async fn take_unreported_of_silent(&self, now: Timestamp, for_ms: i64) {
        for key in self.certain_times.silent(now, for_ms) {
            self.take_unreported(&key, SpanExtent::All).await;
        }
    }

    async fn take_unreported(&self, key: &SessionKey, extent: SpanExtent) {
        let home = std::env::home_dir().filter(|home| home.is_absolute());
        let (Some(certain), Some(home)) = (self.certain_times.of(key, extent), home) else { return };
        let spec = self.agents.spec(key.agent.as_str());
        let (key, readers, pauses) = (key.clone(), self.readers.clone(), self.pauses.clone());
        let found = aside(move || unreported(spec, &key, certain, (&readers, &pauses), home)).await;
        match found {
            Some(Ok(prompts)) => {
                for prompt in prompts {
                    nested::take(self, prompt).await;
                }
            }
            Some(Err(refused)) => tracing::debug!(%refused, "cannot read a transcript record for prompts"),
            None => {}
        }
    }

    /// Returns the session of an event that names only a place.
    async fn session_in_place(&self, event: &HookEvent, deliver: &Deliver) -> Option<SessionId> {
        let place = ConversationPlace::from(event.origin.as_deref()?);
        let (readers, agent) = (self.readers.clone(), AgentName(deliver.agent.clone()));
        let find = move || readers.read(|db| db.session_in_place(&agent, &place));
        tokio::task::spawn_blocking(find).await.ok()?.ok()?
    }

    /// Publishes a message that belongs to no session.
    async fn publish_alone(&self, event: HookEvent, deliver: Deliver) -> Reply {
        let (HookEventKind::MessageReceived { content, .. }, Some(origin)) = (event.what, event.origin)
        else {
            return Reply::Busy;
        };
        let delivery = apart(deliver, EventName::MessageReceived.as_str().to_owned());
        self.written(self.ports.writer().write(MessageApart { delivery, content, origin }).await)
    }

    async fn keep_raw(&self, unparsed: Box<Unparsed>) -> Reply {
        self.written(self.ports.writer().write(*unparsed).await)
    }

    fn written(&self, outcome: Result<UnparsedOutcome, WriteFailed>) -> Reply {
        match outcome {
            Ok(UnparsedOutcome::Duplicate) => Reply::Duplicate { stdout: Vec::new() },
            Ok(UnparsedOutcome::Stored) => Reply::Ack { stdout: Vec::new() },
            Err(error) => {
                tracing::warn!(%error, "cannot store an unreadable event");
                Reply::Busy
            }
        }
    }
}

fn captured(deliver: &Deliver) -> Order {
    Order { boot: deliver.boot_id, boot_ns: deliver.boot_ns, wall: Timestamp(deliver.captured_at_ms) }
}

/// Adds a modified command to a reply. The command must not run unmodified because the disk is slow.
fn with_change(reply: Reply, change: ChangedCall) -> Reply {
    match reply {
        Reply::Ack { stdout } => Reply::Ack { stdout: change.added_to(&stdout) },
        Reply::Duplicate { stdout } => Reply::Duplicate { stdout: change.added_to(&stdout) },
        Reply::Unsaved { stdout } => Reply::Unsaved { stdout: change.added_to(&stdout) },
        _ => Reply::Unsaved { stdout: change.added_to(&[]) },
    }
}

/// Runs work on its own thread. `None` if it panicked.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    tokio::task::spawn_blocking(work)
        .await
        .inspect_err(|error| tracing::error!(panicked = error.is_panic(), "cannot read a payload"))
        .ok()
}

#[cfg(test)]
mod tests {
    use recall_protocol::wire::{EventId, ShimContext};

    use super::*;
    use recall_agents::AGENTS;
    use recall_domain::event::PromptText;
    use recall_domain::redaction::{RedactionPolicy, Redactor};

    fn deliver(payload: &str) -> Deliver {
        Deliver {
            event_id: EventId([1; 16]),
            agent: "claude-code".to_owned(),
            event_name: String::new(),
            captured_at_ms: 0,
            boot_id: [0; 16],
            boot_ns: 0,
            context: ShimContext::default(),
            payload: payload.as_bytes().to_vec(),
            flags: Flags::default(),
        }
    }

    fn take(payload: &str) -> ParsedDelivery {
        let event_rules = EventRules::default();
        cleanse(
            parse(deliver(payload), AGENTS.spec("claude-code"), Outputs::Searched, None),
            &Redactor::new(&RedactionPolicy::default()).unwrap(),
            &event_rules,
        )
    }

    #[test]
    fn an_excluded_event_resets_the_time_since_which_all_is_stored() {
        let counters = Counters::default();
        let hour = Duration::from_secs(3600);
        let ago = |since: Timestamp| clock::now().0 - since.0;
        assert!(ago(counters.stored_since(hour)) >= 3_600_000);
        counters.left_out(&counters.excluded);
        assert!(ago(counters.stored_since(hour)) < 60_000);
        assert_eq!(counters.excluded.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn secrets_in_prompts_calls_answers_and_notifications_are_redacted() {
        for (name, fields) in [
            ("UserPromptSubmit", r#""prompt": "use DB_PASSWORD=swordfish""#),
            ("PostToolUse", r#""tool_name": "x", "tool_input": {"password": "swordfish"}"#),
            ("PostToolUse", r#""tool_name": "x", "tool_response": "DB_PASSWORD=swordfish""#),
            ("PostToolUseFailure", r#""tool_name": "x", "error": "DB_PASSWORD=swordfish""#),
            ("Stop", r#""last_assistant_message": "DB_PASSWORD=swordfish""#),
            ("Notification", r#""message": "DB_PASSWORD=swordfish""#),
        ] {
            let payload = format!(r#"{{"session_id": "s", "hook_event_name": "{name}", {fields}}}"#);
            let ParsedDelivery::Event(taken) = take(&payload) else { panic!("{name} is readable") };
            let event = format!("{:?}", taken.event);
            assert!(!event.contains("swordfish") && event.contains("[redacted:password]"), "{event}");
            assert!(taken.deliver.payload.is_empty());
        }
    }

    #[test]
    fn private_text_that_a_sender_left_in_an_event_is_removed() {
        for (name, fields) in [
            ("UserPromptSubmit", r#""prompt": "a <private>heron</private> b""#),
            ("UserPromptSubmit", r#""prompt": "a \u003cPRIVATE\u003eheron""#),
            ("PostToolUse", r#""tool_name": "x", "tool_input": {"a": "<private>heron</private>"}"#),
            ("PostToolUse", r#""tool_name": "x", "tool_response": ["<private>", {"text": "heron"}]"#),
            ("PostToolUseFailure", r#""tool_name": "x", "error": "<recall-context>heron</recall-context>""#),
            ("Stop", r#""last_assistant_message": "&lt;recall-context&gt;heron""#),
            ("Notification", r#""message": "<private>heron""#),
        ] {
            let payload = format!(r#"{{"session_id": "s", "hook_event_name": "{name}", {fields}}}"#);
            let ParsedDelivery::Event(taken) = take(&payload) else { panic!("{name} is readable") };
            let event = format!("{:?}", taken.event);
            assert!(!event.contains("heron"), "{event}");
            assert!(taken.deliver.flags.contains(Flags::STRIPPED), "{event}");
        }
        let ParsedDelivery::Unparsed(kept) = take(r#"{"prompt": "a <private>heron"#) else {
            panic!("cut off")
        };
        assert_eq!(String::from_utf8_lossy(&kept.payload), r#"{"prompt": "a "#);
    }

    #[test]
    fn a_prompt_of_only_private_text_is_marked_as_wholly_private() {
        let prompt = |text: &str| {
            let payload = format!(
                r#"{{"session_id": "s", "hook_event_name": "UserPromptSubmit", "prompt": "{text}"}}"#
            );
            let ParsedDelivery::Event(taken) = take(&payload) else { panic!("readable") };
            taken.event.what
        };
        let wholly = |text: &str| {
            matches!(prompt(text), HookEventKind::Prompt { text: PromptText::WhollyPrivate, .. })
        };
        assert!(wholly(" <private>heron</private>") && wholly("<private>heron"));
        assert!(!wholly("heron") && !wholly("a <private>heron") && !wholly(""));
    }

    #[test]
    fn unreadable_payloads_are_kept_with_their_secrets_redacted() {
        let ParsedDelivery::Unparsed(kept) = take(r#"{"prompt": "DB_PASSWORD=swordfish"#) else {
            panic!("cut off")
        };
        assert_eq!(String::from_utf8_lossy(&kept.payload), r#"{"prompt": "DB_PASSWORD=[redacted:password]"#);
    }

    #[test]
    fn the_second_key_is_computed_from_the_unredacted_payload() {
        let key = |secret: &str| {
            let payload = format!(
                r#"{{"session_id":"s","hook_event_name":"Stop","prompt_id":"p","a":"PASSWORD={secret}"}}"#
            );
            let ParsedDelivery::Event(taken) = take(&payload) else { panic!("readable") };
            taken.second
        };
        assert!(key("swordfish").is_some());
        assert_eq!(key("swordfish"), key("swordfish"));
        assert_ne!(key("swordfish"), key("goldfish"));
    }
}
