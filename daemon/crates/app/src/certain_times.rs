//! Tracks when recording of a session was certainly on.
//!
//! An agent's record also contains what was typed while recall was off, in a folder that was then excluded, or in a
//! program without recall. So a record alone proves nothing. But between two hooks of one turn that this daemon
//! stored, with none discarded in between, recording was on.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use recall_protocol::wire::ShimContext;

use recall_domain::event::{HookEvent, HookEventKind};
use recall_domain::ids::{SessionKey, Timestamp};
use recall_domain::order::Order;

/// The maximum number of tracked sessions. Beyond that, those idle for longest are dropped.
const MOST_SESSIONS: usize = 1_000;
/// The maximum number of time spans per session.
const MOST_SPANS: usize = 1_000;
/// How long before a session's start its first prompt may have been recorded, in milliseconds.
const BEFORE_START_MS: i64 = 60_000;
/// The maximum clock change between two hooks, in milliseconds.
const CLOCKS_APART_MS: i64 = 2_000;

/// The times at which recording of each session was certainly on. Cheap to clone.
#[derive(Clone, Default)]
pub struct CertainTimes(Arc<Mutex<HashMap<SessionKey, Course>>>);

/// The time from a hook to a later one of the same session, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub since_ms: i64,
    pub until_ms: i64,
}

/// The times in which a session was certainly recorded.
#[derive(Clone, Debug)]
pub struct Certain {
    pub transcript: String,
    pub context: ShimContext,
    /// Spans within a turn that a hook began.
    pub(crate) in_turns: Vec<Span>,
    /// The other spans, if no hook has ever reported a prompt. The last prompt in each of them began the turn after
    /// it.
    pub between: Vec<Span>,
}

/// Where an agent's prompts are found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PromptSource {
    Hooks,
    /// Only in the agent's record. The agent's sessions start after their first prompt.
    Record,
}

/// A stored hook's event, and the capture rules under which it was stored.
#[derive(Clone, Copy, Debug)]
pub struct NotedHook<'a> {
    pub event: &'a HookEvent,
    pub prompts: PromptSource,
    pub at: Order,
    /// The version of the rules.
    pub rules: u64,
}

/// Which spans to use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanExtent {
    /// Only those within turns, because hooks may still be in transit.
    Turns,
    All,
}

#[derive(Default)]
struct Course {
    /// The last hook, and the version of the capture rules at that time. `None` if the next hook continues nothing.
    last: Option<(Order, u64)>,
    is_in_turn: bool,
    has_reported_prompts: bool,
    transcript: Option<String>,
    context: ShimContext,
    in_turns: Vec<Span>,
    between: Vec<Span>,
    touched: Timestamp,
    /// The silence in which this session was last examined.
    looked_after: Option<Timestamp>,
}

impl CertainTimes {
    /// Records that a hook's event was stored.
    pub fn note(&self, key: &SessionKey, hook: &NotedHook<'_>, context: &ShimContext) {
        let mut courses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if courses.len() >= MOST_SESSIONS && !courses.contains_key(key) {
            let oldest = courses.iter().min_by_key(|(_, course)| course.touched).map(|(key, _)| key.clone());
            courses.retain(|key, _| Some(key) != oldest.as_ref());
        }
        courses.entry(key.clone()).or_default().note(hook, context);
    }

    /// Records that an event of the session was not stored, so the next one continues nothing.
    pub(crate) fn break_off(&self, key: &SessionKey) {
        let mut courses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(course) = courses.get_mut(key) {
            (course.last, course.is_in_turn) = (None, false);
        }
    }

    /// Returns the certain spans. `None` if nothing is certain or no record is known.
    pub fn of(&self, key: &SessionKey, extent: SpanExtent) -> Option<Certain> {
        let courses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        courses.get(key)?.certain(extent)
    }

    /// Returns the sessions that have been silent for this long, each once per silence.
    pub fn silent(&self, now: Timestamp, for_ms: i64) -> Vec<SessionKey> {
        let mut courses = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut silent = Vec::new();
        for (key, course) in courses.iter_mut() {
            if now.since(course.touched) >= for_ms && course.looked_after != Some(course.touched) {
                course.looked_after = Some(course.touched);
                silent.push(key.clone());
            }
        }
        silent
    }
}

impl Course {
    fn note(&mut self, hook: &NotedHook<'_>, context: &ShimContext) {
        let NotedHook { event, prompts, at, rules } = *hook;
        if self.last.is_some_and(|(last, _)| at.is_before(&last)) {
            // The event is late, and says nothing about the time since.
            return;
        }
        let starts = matches!(event.what, HookEventKind::SessionStart { .. });
        let before = self.last.filter(|(_, then)| *then == rules && !starts).map(|(last, _)| last);
        if let Some(span) = before.and_then(|last| span(&last, &at)) {
            if self.is_in_turn { join(&mut self.in_turns, span) } else { add(&mut self.between, span) }
        }
        if starts && prompts == PromptSource::Record {
            // A prompt caused the session to start.
            let until_ms = at.wall.0;
            add(&mut self.between, Span { since_ms: until_ms.saturating_sub(BEFORE_START_MS), until_ms });
        }
        match event.what {
            HookEventKind::Prompt { .. } => (self.is_in_turn, self.has_reported_prompts) = (true, true),
            HookEventKind::SessionStart { .. }
            | HookEventKind::Stop { .. }
            | HookEventKind::StopFailure { .. }
            | HookEventKind::SessionEnd { .. } => self.is_in_turn = false,
            _ => {}
        }
        let ends = matches!(event.what, HookEventKind::SessionEnd { .. });
        self.last = (!ends).then_some((at, rules));
        self.touched = at.wall;
        self.context = context.clone();
        if event.transcript_path.is_some() {
            self.transcript.clone_from(&event.transcript_path);
        }
    }

    fn certain(&self, extent: SpanExtent) -> Option<Certain> {
        let takes_all = extent == SpanExtent::All && !self.has_reported_prompts;
        let between = if takes_all { self.between.clone() } else { Vec::new() };
        let in_turns = self.in_turns.clone();
        let (context, transcript) = (self.context.clone(), self.transcript.clone()?);
        (!in_turns.is_empty() || !between.is_empty()).then_some(Certain {
            transcript,
            context,
            in_turns,
            between,
        })
    }
}

impl Span {
    pub fn holds(&self, at_ms: i64) -> bool {
        at_ms > self.since_ms && at_ms < self.until_ms
    }
}

/// Returns the time from one hook to the next. `None` if they belong to different boots, or if the clock changed in
/// between, because the times in a record then do not show what happened in between.
fn span(from: &Order, to: &Order) -> Option<Span> {
    let passed = i64::try_from(to.boot_ns.checked_sub(from.boot_ns)? / 1_000_000).ok()?;
    let is_steady = (to.wall.0 - from.wall.0 - passed).abs() <= CLOCKS_APART_MS;
    (from.boot == to.boot && from.boot != [0; 16] && is_steady)
        .then_some(Span { since_ms: from.wall.0, until_ms: to.wall.0 })
}

/// Adds a span, extending the last one if there is no gap.
fn join(spans: &mut Vec<Span>, span: Span) {
    match spans.last_mut() {
        Some(last) if last.until_ms == span.since_ms => last.until_ms = span.until_ms,
        _ => add(spans, span),
    }
}

fn add(spans: &mut Vec<Span>, span: Span) {
    spans.push(span);
    let surplus = spans.len().saturating_sub(MOST_SPANS);
    spans.drain(..surplus);
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_agents::AGENTS;
    use recall_domain::ids::{AgentName, SessionId};

    fn key() -> SessionKey {
        SessionKey { agent: AgentName("claude-code".to_owned()), id: SessionId("s".to_owned()) }
    }

    fn at(ms: i64) -> Order {
        Order { boot: [1; 16], boot_ns: ms.unsigned_abs() * 1_000_000, wall: Timestamp(ms) }
    }

    fn event(name: &str) -> HookEvent {
        let payload = format!(
            r#"{{"session_id":"s","transcript_path":"/t","hook_event_name":"{name}","prompt":"p","tool_name":"Bash"}}"#
        );
        AGENTS.spec("claude-code").event(&deliver(&payload)).unwrap()
    }

    fn noted_hook(event: &HookEvent, at: Order, rules: u64) -> NotedHook<'_> {
        NotedHook { event, prompts: PromptSource::Hooks, at, rules }
    }

    fn deliver(payload: &str) -> recall_protocol::wire::Deliver {
        recall_protocol::wire::Deliver {
            event_id: recall_protocol::wire::EventId([1; 16]),
            agent: "claude-code".to_owned(),
            event_name: String::new(),
            captured_at_ms: 0,
            boot_id: [0; 16],
            boot_ns: 0,
            context: ShimContext::default(),
            payload: payload.as_bytes().to_vec(),
            flags: recall_protocol::wire::Flags::default(),
        }
    }

    fn played(events: &[(&str, i64)]) -> CertainTimes {
        let times = CertainTimes::default();
        for (name, ms) in events {
            match *name {
                "let go" => times.break_off(&key()),
                name => times.note(&key(), &noted_hook(&event(name), at(*ms), 0), &ShimContext::default()),
            }
        }
        times
    }

    /// The begin and end of spans, in milliseconds.
    type Pairs = Vec<(i64, i64)>;

    fn spans(times: &CertainTimes, extent: SpanExtent) -> (Pairs, Pairs) {
        let pairs = |spans: Vec<Span>| spans.iter().map(|span| (span.since_ms, span.until_ms)).collect();
        times
            .of(&key(), extent)
            .map_or_else(Default::default, |found| (pairs(found.in_turns), pairs(found.between)))
    }

    #[test]
    fn recording_is_certain_only_for_turns_enclosed_by_hooks() {
        let times = played(&[
            ("SessionStart", 10),
            ("UserPromptSubmit", 20),
            ("PostToolUse", 30),
            ("Stop", 40),
            ("UserPromptSubmit", 60),
            // The program ended, another one ran without recall, and a third continues.
            ("SessionStart", 90),
            ("UserPromptSubmit", 100),
            ("let go", 0),
            ("Stop", 120),
            ("SessionEnd", 130),
            ("PostToolUse", 150),
        ]);
        assert_eq!(spans(&times, SpanExtent::All), (vec![(20, 40)], vec![]));
    }

    #[test]
    fn without_prompt_hooks_recording_is_certain_between_hooks() {
        let events = [("SessionStart", 10), ("PostToolUse", 30), ("Stop", 40), ("PostToolUse", 70)];
        let times = played(&events);
        assert_eq!(spans(&times, SpanExtent::All), (vec![], vec![(10, 30), (30, 40), (40, 70)]));
        assert_eq!(spans(&times, SpanExtent::Turns), (vec![], vec![]));
        times.note(&key(), &noted_hook(&event("UserPromptSubmit"), at(80), 0), &ShimContext::default());
        assert_eq!(spans(&times, SpanExtent::All), (vec![], vec![]));
    }

    #[test]
    fn with_prompts_only_in_the_record_the_minute_before_a_start_is_certain() {
        let times = CertainTimes::default();
        let start = event("SessionStart");
        let note = |at| {
            let hook = NotedHook { event: &start, prompts: PromptSource::Record, at, rules: 0 };
            times.note(&key(), &hook, &ShimContext::default());
        };
        note(at(70_000));
        assert_eq!(spans(&times, SpanExtent::All), (vec![], vec![(10_000, 70_000)]));
    }

    #[test]
    fn new_rules_a_reboot_or_a_clock_change_end_certainty() {
        let context = ShimContext::default();
        for (next, rules) in [
            (at(20), 1),
            (Order { boot: [2; 16], ..at(20) }, 0),
            (Order { wall: Timestamp(90_000), ..at(20) }, 0),
            (Order { wall: Timestamp(-90_000), ..at(20) }, 0),
        ] {
            let times = played(&[("UserPromptSubmit", 10)]);
            times.note(&key(), &noted_hook(&event("Stop"), next, rules), &context);
            assert_eq!(spans(&times, SpanExtent::All), (vec![], vec![]), "{next:?}");
        }
    }

    #[test]
    fn a_silent_session_is_reported_once_and_tracked_sessions_are_limited() {
        let times = played(&[("UserPromptSubmit", 10), ("Stop", 20)]);
        assert!(times.silent(Timestamp(25), 10).is_empty());
        assert_eq!(times.silent(Timestamp(40), 10), [key()]);
        assert!(times.silent(Timestamp(50), 10).is_empty());
        for number in 0..2_000 {
            let key = SessionKey { id: SessionId(number.to_string()), ..key() };
            times.note(&key, &noted_hook(&event("Stop"), at(100 + number), 0), &ShimContext::default());
        }
        assert_eq!(times.0.lock().unwrap().len(), MOST_SESSIONS);
    }
}
