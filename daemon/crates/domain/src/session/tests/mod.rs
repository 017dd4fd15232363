//! Tests the session's rules with scripts. A script has one event per line, and a test compares the resulting
//! batches.

mod table;

use std::collections::HashMap;

use proptest::prelude::*;

use super::*;
use crate::event::{
    HookEventKind, PromptText, StartContext, Subagent, SubagentTask, ToolCall, ToolResult, ToolStart,
};
use crate::guard::Rule;
use crate::ids::{CallId, EventId, SessionId};
use crate::plan::PlanChange;

const IDLE: IdlePolicy = IdlePolicy { batch_ms: 300_000, session_ms: 3_600_000 };

fn policy() -> CapturePolicy {
    CapturePolicy {
        skip_tools: vec!["TodoWrite".to_owned()],
        plan_folders: vec![".claude/plans".to_owned()],
        plan_prompts: &["Implement the following plan:"],
        chunk: Load { activities: 4, bytes: 1000 },
    }
}

/// Reads one line of a script: `start`, `prompt p1 text`, `dropped p1 text` (the agent dropped the start's context
/// too), `queued p1 text`, `private p1`, `private-dropped p1`, `machine p1`, `call p1 Bash c1`, `tool p1 Bash c1`,
/// `settled p1 c1 c2`, `plan p1 FILE text`, `give p1 c1 explore text`, `helper p1`, `helped p1 text`, `failed p1`,
/// `internal p1`, `compact p1`, `compacted p1`, `stop p1 text`, `note p1`, `leave restart`, `return`, `end other`,
/// `wait 300`. A dash means that there is no prompt id.
fn event(line: &str) -> Option<HookEvent> {
    let mut words = line.split_whitespace();
    let mut kind = words.next().unwrap();
    if kind.starts_with('@') {
        kind = words.next().unwrap();
    }
    let mut subagent = None;
    let mut id = || words.next().filter(|word| *word != "-").map(PromptId::from);
    let (prompt, what) = match kind {
        "start" => {
            let source = StartSource::parse(words.next().unwrap_or("startup"));
            (None, HookEventKind::SessionStart { source, audience: Audience::Person })
        }
        "prompt" | "dropped" => {
            let prompt = id();
            let text = PromptText::Text(words.collect::<Vec<_>>().join(" "));
            let start = if kind == "dropped" { StartContext::Dropped } else { StartContext::Shown };
            (prompt, HookEventKind::Prompt { text, source: BatchSource::User, start })
        }
        "private" => {
            let (text, start) = (PromptText::WhollyPrivate, StartContext::Shown);
            (id(), HookEventKind::Prompt { text, source: BatchSource::User, start })
        }
        "private-dropped" => {
            let (text, start) = (PromptText::WhollyPrivate, StartContext::Dropped);
            (id(), HookEventKind::Prompt { text, source: BatchSource::User, start })
        }
        "machine" => {
            let text = PromptText::Text("<task-notification>".to_owned());
            (
                id(),
                HookEventKind::Prompt {
                    text,
                    source: BatchSource::AgentNotification,
                    start: StartContext::Dropped,
                },
            )
        }
        "tool" => {
            let prompt = id();
            let name = words.next().unwrap().to_owned();
            let result = ToolResult::Done("{}".to_owned());
            let use_id = words.next().map(CallId::from);
            let (input, duration_ms, plan, launched, rewrote) = ("{}".to_owned(), None, None, None, None);
            let call = ToolCall { name, use_id, input, result, duration_ms, plan, launched, rewrote };
            (prompt, HookEventKind::Tool(call))
        }
        "call" => {
            let prompt = id();
            let name = words.next().unwrap().to_owned();
            let use_id = words.next().map(CallId::from);
            let file = words.next().map(str::to_owned);
            if words.next() == Some("helper") {
                subagent = Some(Subagent { id: "a1".to_owned(), kind: Some("explore".to_owned()) });
            }
            (
                prompt,
                HookEventKind::ToolStart(ToolStart {
                    name,
                    use_id,
                    input: "{}".to_owned(),
                    file,
                    task: None,
                    refused_by: None,
                }),
            )
        }
        "refused" => {
            let prompt = id();
            let call = ToolStart {
                name: words.next().unwrap().to_owned(),
                use_id: words.next().map(CallId::from),
                input: "{}".to_owned(),
                file: None,
                task: None,
                refused_by: Some(Rule::Secrets),
            };
            (prompt, HookEventKind::ToolStart(call))
        }
        "settled" => {
            let prompt = id();
            let refused = |use_id: &str| ToolCall {
                name: "Bash".to_owned(),
                use_id: Some(use_id.into()),
                input: "{}".to_owned(),
                result: ToolResult::Failed("no".to_owned()),
                duration_ms: None,
                plan: None,
                launched: None,
                rewrote: None,
            };
            (prompt, HookEventKind::ToolBatch(words.map(refused).collect()))
        }
        "plan" => {
            let prompt = id();
            let path = words.next().unwrap().to_owned();
            let plan = match words.collect::<Vec<_>>().join(" ") {
                text if path == "approved" => PlanChange::Approved { path: None, text: Some(text) },
                text => PlanChange::File { path, text },
            };
            let call = ToolCall {
                name: "Write".to_owned(),
                use_id: None,
                input: "{}".to_owned(),
                result: ToolResult::Done("{}".to_owned()),
                duration_ms: None,
                plan: Some(plan),
                launched: None,
                rewrote: None,
            };
            (prompt, HookEventKind::Tool(call))
        }
        "give" => {
            let prompt = id();
            let use_id = words.next().map(CallId::from);
            let kind = words.next().unwrap().to_owned();
            let task = Some(SubagentTask { kind, text: words.collect::<Vec<_>>().join(" ") });
            let (name, input) = ("Agent".to_owned(), "{}".to_owned());
            let (file, refused_by) = (None, None);
            (prompt, HookEventKind::ToolStart(ToolStart { name, use_id, input, file, task, refused_by }))
        }
        "helper" => {
            subagent = Some(Subagent { id: "a1".to_owned(), kind: Some("explore".to_owned()) });
            (id(), HookEventKind::SubagentStart)
        }
        "helped" => {
            subagent = Some(Subagent { id: "a1".to_owned(), kind: Some("explore".to_owned()) });
            let prompt = id();
            (prompt, HookEventKind::SubagentStop { message: Some(words.collect::<Vec<_>>().join(" ")) })
        }
        "failed" => {
            let (error, detail) = ("overloaded".to_owned(), "{}".to_owned());
            (id(), HookEventKind::StopFailure { error, detail })
        }
        "internal" => (id(), HookEventKind::Internal { name: "SubagentStop".to_owned() }),
        "compacted" => {
            let (trigger, summary) = ("auto".to_owned(), Some("In short".to_owned()));
            (id(), HookEventKind::PostCompact { trigger, summary })
        }
        "stop" => {
            let prompt = id();
            let text = words.collect::<Vec<_>>().join(" ");
            (prompt, HookEventKind::Stop { message: Some(text).filter(|text| !text.is_empty()) })
        }
        "note" => (id(), HookEventKind::Other { name: "Notification".to_owned(), detail: "{}".to_owned() }),
        "compact" => (id(), HookEventKind::PreCompact { trigger: "auto".to_owned() }),
        "leave" => {
            (None, HookEventKind::SessionSuspend { reason: words.next().unwrap_or("other").to_owned() })
        }
        "return" => (None, HookEventKind::SessionResume),
        "end" => (None, HookEventKind::SessionEnd { reason: words.next().unwrap_or("other").to_owned() }),
        "wait" => return None,
        other => panic!("no such line: {other}"),
    };
    Some(HookEvent {
        session: SessionId::from("s"),
        prompt,
        cwd: None,
        transcript_path: None,
        title: None,
        subagent,
        origin: None,
        host: None,
        what,
    })
}

fn play(story: &str) -> (Session, Vec<Effect>) {
    let (mut session, mut effects) = (Session::default(), Vec::new());
    let mut at = Timestamp(1_000);
    for (number, line) in story.split(';').map(str::trim).filter(|line| !line.is_empty()).enumerate() {
        if line == "suspend" {
            if session.life > 0 && session.status != SessionStatus::Completed {
                session.suspended.get_or_insert(at);
                session.status = SessionStatus::Suspended;
            }
            continue;
        }
        let decision = match event(line) {
            Some(event) => {
                // `@3 prompt …` was captured before the fourth line and arrives now.
                let place = line.strip_prefix('@').and_then(|rest| rest.split_whitespace().next());
                let boot_ns =
                    place.map_or(number as u64 * 10, |place| place.parse::<u64>().unwrap() * 10 - 5);
                let order = Order { boot: [1; 16], boot_ns, wall: at };
                // The event's id contains its time.
                let id = (u128::from(boot_ns) << 64) + number as u128;
                let capture = Capture { event: EventId(id.to_be_bytes()), at, order };
                session.on_event(&event, capture, &policy())
            }
            None => {
                at.0 += line.strip_prefix("wait ").unwrap().parse::<i64>().unwrap() * 1000;
                // A suspended session is watched again from the end of the wait.
                let since = if session.suspended.is_some() { at } else { Timestamp(0) };
                session.on_idle(Watch { now: at, since }, IDLE)
            }
        };
        session = decision.next;
        effects.extend(decision.effects);
        at.0 += 1;
    }
    (session, effects)
}

/// Returns the batches after the effects, for example `1 closed(stop) user [Read] 'answer'`.
fn batches(effects: &[Effect]) -> String {
    let mut rows = Rows::default();
    effects.iter().for_each(|effect| rows.apply(effect));
    let lines = rows.rows.iter().enumerate().map(|(number, Row { source, state, calls, answer, .. })| {
        let mut calls: Vec<_> = calls.iter().collect();
        calls.sort_by_key(|call| call.event.0);
        let names: Vec<_> = calls.into_iter().map(|call| call.name.as_str()).collect();
        let answer = answer.map(|event| format!(" '{}'", rows.texts[&event.0])).unwrap_or_default();
        format!("{} {state} {source} [{}]{answer}", number + 1, names.join(" "))
    });
    lines.collect::<Vec<_>>().join("; ")
}

/// The rows that a store would contain.
#[derive(Default)]
struct Rows {
    rows: Vec<Row>,
    /// The texts of answers.
    texts: HashMap<[u8; 16], String>,
}

struct Row {
    source: &'static str,
    state: String,
    calls: Vec<Call>,
    answer: Option<EventId>,
    turn: Option<PromptId>,
}

#[derive(Clone)]
struct Call {
    event: EventId,
    turn: Option<PromptId>,
    name: String,
}

impl Call {
    fn order(&self) -> Order {
        let boot_ns = (u128::from_be_bytes(self.event.0) >> 64) as u64;
        Order { boot: [1; 16], boot_ns, wall: Timestamp(0) }
    }
}

impl Rows {
    fn row(&mut self, seq: Seq) -> &mut Row {
        &mut self.rows[seq.0 as usize - 1]
    }

    fn apply(&mut self, effect: &Effect) {
        match effect {
            Effect::OpenBatch { source, state, prompt_id, .. } => {
                let state = if *state == BatchState::Waiting { "waiting" } else { "open" }.to_owned();
                let (source, turn) = (source.as_str(), prompt_id.clone());
                self.rows.push(Row { source, state, calls: Vec::new(), answer: None, turn });
            }
            Effect::AdoptRecovery { seq, source, .. } => self.row(*seq).source = source.as_str(),
            Effect::MergeRecovery { from, to } => {
                let calls = std::mem::take(&mut self.row(*from).calls);
                self.row(*to).calls.extend(calls);
            }
            Effect::SetSource { seq, source } => self.row(*seq).source = source.as_str(),
            Effect::RunBatch { seq, prompt_id } => {
                self.row(*seq).state = "open".to_owned();
                self.row(*seq).turn = Some(prompt_id.clone());
            }
            Effect::SetTurn { seq, turn } => self.row(*seq).turn.clone_from(turn),
            Effect::SetState { seq, state } => {
                let state = if *state == BatchState::Waiting { "waiting" } else { "open" };
                self.row(*seq).state = state.to_owned();
            }
            Effect::CloseBatch { seq, why } => self.row(*seq).state = format!("closed({})", why.as_str()),
            Effect::Respond { seq, event, text, prompt_id } => {
                self.texts.insert(event.0, text.clone());
                self.set_aside(*seq, prompt_id.as_ref());
                self.row(*seq).answer = Some(*event);
            }
            Effect::SetAside { seq } => self.set_aside(*seq, None),
            Effect::TakeAnswer { seq, event } => {
                self.drop_answer(*event);
                self.row(*seq).answer = Some(*event);
            }
            Effect::DropAnswer { event } => self.drop_answer(*event),
            Effect::ShareAnswer { from, to } => self.row(*to).answer = self.row(*from).answer,
            Effect::Rearrange { periods, among, hidden } => self.rearrange(periods, among, hidden),
            Effect::AddActivity { seq: Some(seq), activity } => {
                let name = match &activity.content {
                    ActivityContent::Tool(call) => call.name.clone(),
                    ActivityContent::Other { name, detail } => {
                        self.texts.insert(activity.event.0, detail.clone());
                        format!("({name})")
                    }
                    ActivityContent::Hidden { name } => format!("hidden {name}"),
                };
                let call = Call { event: activity.event, turn: activity.prompt.clone(), name };
                self.row(*seq).calls.push(call);
            }
            _ => {}
        }
    }

    /// Removes the batch's answer. It becomes a call, unless the new answer ends the same turn.
    fn set_aside(&mut self, seq: Seq, by: Option<&PromptId>) {
        let row = self.row(seq);
        let Some(event) = row.answer.take() else { return };
        if by.is_none() {
            row.calls.push(Call { event, turn: None, name: "(Stop)".to_owned() });
        }
    }

    fn drop_answer(&mut self, event: EventId) {
        self.rows.iter_mut().for_each(|row| row.calls.retain(|call| call.event != event));
    }

    fn rearrange(&mut self, periods: &[Period], among: &[Seq], hidden: &[Seq]) {
        for seq in among {
            for call in std::mem::take(&mut self.row(*seq).calls) {
                let is_note = call.name.starts_with('(');
                let seat = if is_note { Period::seat } else { Period::seat_of_call };
                let seat = seat(periods, call.turn.as_ref(), &call.order()).unwrap();
                self.row(seat).calls.push(call);
            }
        }
        for seq in hidden {
            for call in &mut self.row(*seq).calls {
                call.name = format!("hidden {}", call.name.trim_start_matches("hidden "));
            }
        }
    }
}

#[track_caller]
fn check(story: &str, expected: &str) {
    assert_eq!(batches(&play(story).1), expected);
}

#[test]
fn a_prompt_opens_a_batch_that_collects_the_following_events() {
    check("start; prompt p1 hello; tool p1 Read; stop p1 done", "1 closed(stop) user [Read] 'done'");
    check("start; prompt - a; tool - Read; prompt - b", "1 closed(next_prompt) user [Read]; 2 open user []");
    check("start; prompt p1 a; end clear", "1 closed(session_end) user []");
}

#[test]
fn a_closed_batch_still_gets_its_own_activities() {
    // A background agent continues after the turn's end.
    check(
        "start; prompt p1 a; stop p1 x; tool p1 Bash; machine p2; stop p2 y",
        "1 closed(stop) user [Bash] 'x'; 2 closed(stop) agent_notification [] 'y'",
    );
    let (_, effects) = play("start; prompt p1 a; stop p1 x; tool p1 Bash");
    let compressions = effects.iter().filter(|effect| matches!(effect, Effect::CompressBatch { .. })).count();
    assert_eq!(compressions, 2);
}

#[test]
fn a_prompt_queued_during_a_turn_waits_for_the_answer() {
    check(
        "start; prompt p1 a; prompt p1 b; tool p1 Read; stop p1 both",
        "1 closed(stop) user [Read] 'both'; 2 closed(stop) queued [] 'both'",
    );
    // The turn was interrupted, so the queued prompt becomes the next turn.
    check(
        "start; prompt p1 a; prompt p1 b; tool p2 Read; stop p2 second",
        "1 closed(next_prompt) user []; 2 closed(stop) queued [Read] 'second'",
    );
    check(
        "start; prompt p1 a; prompt p1 b; stop p2 second",
        "1 closed(next_prompt) user []; 2 closed(stop) queued [] 'second'",
    );
}

#[test]
fn a_private_prompt_hides_its_calls_and_answer() {
    let story = "start; private p1; tool p1 Read; note p1; tool p1 TodoWrite; stop p1 secret; prompt p2 b";
    check(story, "1 closed(stop) private [hidden Read hidden Notification]; 2 open user []");
    let (session, effects) = play(story);
    assert_eq!(session.prompts, 2);
    assert!(!effects.contains(&Effect::CompressBatch { seq: Seq(1) }));
}

#[test]
fn only_a_call_without_a_prompt_opens_a_recovery_batch() {
    check("tool - Read; stop - x", "1 closed(stop) recovery [Read] 'x'");
    check("start; note -; note -; prompt p1 a", "1 open user []");
    check("start; tool - TodoWrite", "");
}

#[test]
fn calls_of_skipped_tools_are_kept_as_asides_and_not_as_activities() {
    let (_, effects) = play("start; prompt p1 a; tool p1 TodoWrite; stop p1 x");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::AddAside { .. })));
    assert!(!effects.iter().any(|effect| matches!(effect, Effect::AddActivity { .. })));
}

#[test]
fn a_call_refused_by_a_guard_is_published_once_and_keeps_no_batch_open() {
    let published = |story: &str| -> Vec<(String, CallEnd)> {
        let calls = play(story).1.into_iter().flat_map(|effect| match effect {
            Effect::PublishCall { call } => vec![(call.tool, call.end)],
            Effect::AbandonCalls { calls } => {
                let end =
                    |rule: Option<Rule>| rule.map_or(CallEnd::Failed, |rule| CallEnd::Refused(Some(rule)));
                calls.into_iter().map(|call| (call.tool.unwrap(), end(call.refused_by))).collect()
            }
            _ => Vec::new(),
        });
        calls.collect()
    };
    let refused = |tool: &str| vec![(tool.to_owned(), CallEnd::Refused(Some(Rule::Secrets)))];
    assert_eq!(published("start; prompt p1 a; refused p1 Bash; stop p1 x"), refused("Bash"));
    assert_eq!(published("start; prompt p1 a; refused p1 Bash c1; stop p1 x"), refused("Bash"));
    assert_eq!(published("start; prompt p1 a; refused p1 Bash c1; settled p1 c1; stop p1 x"), []);
    // The answer arrived too late for the agent, so the call ran.
    assert_eq!(published("start; prompt p1 a; refused p1 Bash c1; tool p1 Bash c1; stop p1 x"), []);
    assert_eq!(published("start; private p1; refused p1 Bash; stop p1 x"), []);
    check("start; prompt p1 a; refused p1 Bash c1; wait 301", "1 closed(idle) user []");
}

#[test]
fn the_last_answer_of_a_turn_counts() {
    check("start; prompt p1 a; stop p1 first; stop p1 second", "1 closed(stop) user [] 'second'");
    check("start; prompt p1 a; end other; stop p1 late", "1 closed(session_end) user [] 'late'");
}

#[test]
fn idle_time_closes_the_batch_and_then_ends_the_session() {
    check("start; prompt p1 a; wait 299", "1 open user []");
    check("start; prompt p1 a; wait 301", "1 closed(idle) user []");
    let (session, effects) = play("start; prompt p1 a; wait 301; wait 3600; wait 3600");
    assert_eq!(session.status, SessionStatus::Completed);
    assert!(session.is_at_rest());
    let ends = effects.iter().filter(|effect| matches!(effect, Effect::Complete { .. })).count();
    assert_eq!(ends, 1);
    // If a session ended because of silence, its next call makes it active again.
    let (session, _) = play("start; prompt p1 a; wait 7200; tool p1 Read");
    assert_eq!((session.status, session.life), (SessionStatus::Active, 2));
}

#[test]
fn each_life_of_a_session_begins_and_ends_once() {
    let lives = |story: &str| {
        let (session, effects) = play(story);
        let begun = effects.iter().filter(|effect| matches!(effect, Effect::BeginLife { .. })).count();
        let ended = effects.iter().filter(|effect| matches!(effect, Effect::Complete { .. })).count();
        (begun, ended, session.status)
    };
    assert_eq!(lives("start; prompt p1 a; end other; end other"), (1, 1, SessionStatus::Completed));
    assert_eq!(lives("start; end clear; start resume"), (2, 1, SessionStatus::Initialized));
    assert_eq!(lives("start; start compact; prompt p1 a"), (1, 0, SessionStatus::Active));
    assert_eq!(lives("end other"), (1, 1, SessionStatus::Completed));
    let suspended = Session { status: SessionStatus::Suspended, life: 1, ..Session::default() };
    let resumed = event("tool - Read").unwrap();
    let capture = Capture { event: EventId([9; 16]), at: Timestamp(1), order: Order::default() };
    let decision = suspended.on_event(&resumed, capture, &policy());
    assert_eq!((decision.next.status, decision.next.life), (SessionStatus::Active, 1));
}

#[test]
fn only_session_starts_prompts_tool_calls_and_subagents_get_context() {
    let ask = |story: &str| {
        let (before, last) = story.rsplit_once(';').unwrap_or(("start", story));
        let order = Order { boot: [1; 16], boot_ns: 1_000, wall: Timestamp(9) };
        let capture = Capture { event: EventId([7; 16]), at: Timestamp(9), order };
        play(before).0.on_event(&event(last.trim()).unwrap(), capture, &policy()).ask
    };
    assert_eq!(ask("start; start clear"), Some(ContextAsk::Start(StartSource::Clear, Audience::Person)));
    assert_eq!(ask("start; prompt p1 why"), Some(ContextAsk::Prompt("why".to_owned())));
    // If the agent dropped the context of the start, it is injected again with the first prompt. A private prompt
    // gets only that.
    let first = |text: &str| Some(ContextAsk::First(Some(text.to_owned())));
    for story in [
        "dropped p1 why",
        "start; dropped p1 why",
        "start; machine p0; dropped p1 why",
        "tool p0 Read; dropped p1 why",
    ] {
        assert_eq!(ask(story), first("why"), "{story}");
    }
    assert_eq!(ask("start; private-dropped p1"), Some(ContextAsk::First(None)));
    for asked in [
        "prompt p1 a",
        "dropped p1 a",
        "private-dropped p1",
        "dropped p1 a; end other; start",
        "dropped p1 a; compact p1",
    ] {
        assert_eq!(
            ask(&format!("start; {asked}; dropped p2 why")),
            Some(ContextAsk::Prompt("why".to_owned())),
            "{asked}"
        );
    }
    let file = || Some(ContextAsk::File("/shop/cart.rs".to_owned()));
    assert_eq!(ask("start; prompt p1 a; call p1 Read c1 /shop/cart.rs"), file());
    assert_eq!(ask("prompt p1 a; call p1 Bash c1; call p1 Edit c2 /shop/cart.rs"), file());
    let call = ask("start; prompt p1 a; call p1 Bash c1");
    assert!(
        matches!(&call, Some(ContextAsk::Call { tool, failure: None, .. }) if tool == "Bash"),
        "{call:?}"
    );
    let task = |text: &str| Some(ContextAsk::Task(text.to_owned()));
    assert_eq!(ask("start; prompt p1 a; give p1 c1 explore look at it; helper p1"), task("look at it"));
    // The start of a subagent does not name its call, so either of the two may be meant.
    let two = "start; prompt p1 a; give p1 c1 explore look; give p1 c2 explore find; helper p1";
    assert_eq!(ask(two), task("find\nlook"));
    for silent in [
        "start; prompt p1 a; give p1 c1 review look; helper p1",
        "start; prompt p1 a; give p1 c1 explore look; tool p1 Agent c1; helper p1",
        "start; private p1; give p1 c1 explore look; helper p1",
        "start; prompt p1 a; helper p1",
        "start; machine p1",
        "start; private p1",
        "start; dropped p1 a; private-dropped p2",
        "start; prompt p1 a; stop p1 x",
        "start; end other",
        "start; private p1; call p1 Bash c1",
        "start; prompt p1 a; tool p1 Bash c1",
        "start; private p1; call p1 Read c1 /shop/cart.rs",
        "start; prompt p1 a; call p1 Read c1 /shop/cart.rs helper",
    ] {
        assert_eq!(ask(silent), None, "{silent}");
    }
}

fn numbers(session: &Session) -> Vec<(u32, u32)> {
    session.batches.iter().map(|batch| (batch.seq.0, batch.number)).collect()
}

#[test]
fn a_late_event_is_inserted_in_order() {
    // A call between two prompts belongs to the first of them.
    check(
        "start; prompt - a; prompt - b; @2 tool - Read",
        "1 closed(next_prompt) user [Read]; 2 open user []",
    );
    // A late prompt between another prompt and its later calls takes over those calls.
    let story = "start; prompt - a; tool - Read; tool - Bash; prompt - d; @3 prompt - late";
    let (session, effects) = play(story);
    assert_eq!(
        batches(&effects),
        "1 closed(next_prompt) user [Read]; 2 open user []; 3 closed(next_prompt) user [Bash]"
    );
    assert_eq!(numbers(&session), [(1, 1), (3, 2), (2, 3)]);
    assert_eq!(session.prompts, 3);
    // The next prompt is the fourth and is placed last.
    let (session, _) = play(&format!("{story}; prompt - e"));
    assert_eq!(numbers(&session), [(1, 1), (3, 2), (2, 3), (4, 4)]);
    // This prompt comes before all others. It is private, so it hides what it takes over.
    let (session, effects) = play("start; prompt - a; tool - Read; @1 private -");
    assert_eq!(numbers(&session), [(2, 1), (1, 2)]);
    assert!(batches(&effects).ends_with("2 closed(next_prompt) private []"));
}

#[test]
fn a_late_prompt_gets_the_answer_of_its_own_turn() {
    let (session, _) = play("start; prompt p1 a; stop p2 second; @2 prompt p2 b; prompt p3 c");
    let known = |batch: &Batch| matches!(batch.response, Response::Known { .. });
    assert_eq!(session.batches.iter().map(known).collect::<Vec<_>>(), [false, true, false]);
    // An answer to an unknown turn does not replace the answer of another turn.
    check("start; prompt p1 a; stop p1 first; stop p2 second", "1 closed(stop) user [(Stop)] 'first'");
}

#[test]
fn a_late_prompt_adopts_the_calls_and_answer_of_a_recovery_batch() {
    let (session, _) = play("start; tool p1 Read; stop p1 done; @1 prompt p1 a; prompt p2 b");
    let shown: Vec<_> = session.batches.iter().map(|batch| (batch.source, batch.number)).collect();
    assert_eq!(shown, [(BatchSource::User, 1), (BatchSource::User, 2)]);
    assert!(matches!(session.batches[0].response, Response::Known { .. }));
    // The next late prompt takes its calls out of that batch.
    let story = "start; tool - Read; tool - Bash; @1 prompt - a; @2 prompt - b";
    assert_eq!(numbers(&play(story).0), [(1, 1), (2, 2)]);
    check(story, "1 closed(next_prompt) user [Read]; 2 open user [Bash]");
    check("start; tool p1 Read; @1 private p1", "1 open private [hidden Read]");
}

#[test]
fn the_first_user_prompt_adopts_unanswered_calls_before_it() {
    check("start; tool - Read; prompt - a; tool - Bash; stop - x", "1 closed(stop) user [Read Bash] 'x'");
    check("start; tool p1 Read; prompt p1 a; stop p1 x", "1 closed(stop) user [Read] 'x'");
    check("start; tool p1 Read; prompt p2 a", "1 open user [Read]");
    let (session, effects) = play("start; tool - Read; wait 301; prompt - a; prompt - b");
    assert_eq!(numbers(&session), [(1, 1), (2, 2)]);
    assert_eq!(batches(&effects), "1 closed(next_prompt) user [Read]; 2 open user []");
    // The call arrives late.
    check("start; prompt - a; @1 tool - Read", "1 open user [Read]");
    check("start; prompt p2 a; @1 tool p1 Read", "1 open user [Read]");
    check("start; tool - Read; tool - Bash; @2 prompt - a", "1 open user [Read Bash]");
    // An answered turn stays separate. A later private prompt does not hide its calls.
    let story = "start; tool - Read; stop - x; prompt - a";
    check(story, "1 closed(stop) recovery [Read] 'x'; 2 open user []");
    let private = "1 closed(next_prompt) recovery [Read]; 2 open private []";
    check("start; tool - Read; private -", private);
    // A machine's notification is about other work.
    let notified = "1 closed(next_prompt) recovery [Read]; 2 open agent_notification [Bash]";
    check("start; tool p1 Read; machine p2; tool p2 Bash", notified);
    let moved = "1 open agent_notification [Bash]; 2 closed(next_prompt) recovery [Read]";
    check("start; machine p2; tool p2 Bash; @1 tool p1 Read", moved);
    // Calls of the machine's turn may arrive before it. The batch then belongs to the turn of its first call.
    let waited = "start; wait 1; wait 1; wait 1; tool p2 Bash";
    let story = format!("{waited}; @1 tool p1 Read; @2 stop p1 x; @3 machine p2");
    check(&story, "1 closed(stop) recovery [Read] 'x'; 2 open agent_notification [Bash]");
    let answered = format!("{waited}; stop p2 y; @1 tool p1 Read");
    check(&answered, "1 closed(stop) recovery [Read Bash (Stop)]");
    let separate = "1 closed(stop) recovery [Read] 'x'; 2 closed(stop) agent_notification [Bash] 'y'";
    check(&format!("{answered}; @2 stop p1 x; @3 machine p2"), separate);
    // A person's first prompt takes these calls over, even past the machine's turn.
    let adopted = "1 open user [Read]; 2 closed(next_prompt) agent_notification [Bash]";
    let story = "start; tool p1 Read; machine p2; tool p2 Bash; prompt p3 a";
    check(story, adopted);
    assert_eq!(numbers(&play(story).0), [(2, 1), (1, 2)]);
    check("start; tool p1 Read; prompt p3 a; @2 machine p2", &adopted.replace("[Bash]", "[]"));
    // Without the ids of turns it is unknown which turn an answer belongs to.
    let separate =
        "1 closed(next_prompt) recovery [Read]; 2 closed(next_prompt) agent_notification []; 3 open user []";
    check("start; tool - Read; machine -; prompt - a", separate);
    let adopted = "1 closed(next_prompt) agent_notification [Bash]; 2 open user [Read]";
    check("start; machine p2; tool p2 Bash; prompt p3 a; @1 tool p1 Read", adopted);
    check(
        "start; tool p1 Read; machine p2; private p3",
        "1 closed(next_prompt) recovery [Read]; 2 closed(next_prompt) agent_notification []; 3 open private []",
    );
    // The same holds if the answer arrives late.
    let story = "start; tool - Read; prompt - a; @2 stop - x";
    check(story, "1 open user []; 2 closed(stop) recovery [Read] 'x'");
    assert_eq!(numbers(&play(story).0), [(2, 0), (1, 1)]);
    let story = "start; tool - Read; prompt - a; tool - Bash; @2 private -";
    check(
        story,
        "1 open user [Bash]; 2 closed(next_prompt) recovery [Read]; 3 closed(next_prompt) private []",
    );
    assert_eq!(numbers(&play(story).0), [(2, 0), (3, 1), (1, 2)]);
    let story = "start; private -; @1 tool - Read; @1 prompt - a";
    assert_eq!(play(story).0.batches.iter().map(|batch| batch.number).collect::<Vec<_>>(), [1, 2]);
}

/// After a crash at any of these moments there is a summary, or a job for one.
#[test]
fn every_end_of_a_turn_requests_a_summary() {
    let asks = |story: &str, last: &str| {
        let before = play(story).1.len();
        let effects = play(&format!("{story}; {last}")).1;
        effects.iter().skip(before).filter(|effect| **effect == Effect::Summarize).count()
    };
    let story = "start; prompt p1 a; tool p1 Read";
    for last in [
        "prompt p2 b",
        "private p2",
        "wait 301",
        "wait 3601",
        "compact p1",
        "stop p1 x",
        "failed p1",
        "end other",
    ] {
        assert_eq!(asks(story, last), 1, "{last}");
    }
    assert_eq!(asks("start; prompt p1 a; prompt p1 b", "tool p2 Read"), 1, "what was typed meanwhile runs");
    for last in ["tool p1 Read", "note p1", "prompt p1 b", "wait 299"] {
        assert_eq!(asks(story, last), 0, "{last}");
    }
    assert_eq!(asks("start; prompt p1 a; stop p1 x", "prompt p2 b"), 0, "nothing was left open");
}

#[test]
fn a_late_older_answer_does_not_replace_a_newer_one() {
    check(
        "start; prompt - a; tool - Read; stop - second; @2 stop - first",
        "1 closed(stop) user [(Stop) Read] 'second'",
    );
    // The turn itself has a later answer.
    check(
        "start; prompt p1 a; tool p1 Read; stop p1 second; @2 stop p1 first",
        "1 closed(stop) user [Read] 'second'",
    );
}

#[test]
fn late_events_neither_restart_nor_end_a_session() {
    let (session, _) = play("start; prompt p1 a; end other; @2 tool p1 Read; @2 stop p1 late");
    assert_eq!((session.status, session.life), (SessionStatus::Completed, 1));
    let (session, _) = play("start; prompt p1 a; stop p1 x; prompt p2 b; @3 end other");
    assert_eq!((session.status, session.life), (SessionStatus::Active, 1));
}

fn any_line() -> impl Strategy<Value = String> {
    let id = prop::sample::select(vec!["-", "p1", "p2", "p3"]);
    let kind = prop::sample::select(vec![
        "start",
        "start resume",
        "start compact",
        "prompt",
        "private",
        "machine",
        "tool",
        "stop",
        "note",
        "compact",
        "end",
        "wait",
        "call",
        "settled",
        "plan",
        "helper",
        "helped",
        "failed",
        "compacted",
        "internal",
        "suspend",
    ]);
    let late = prop::option::weighted(0.2, 1u32..30);
    (kind, id, 0u32..8000, late).prop_map(|(kind, id, seconds, late)| {
        let line = match kind {
            "tool" => format!("tool {id} Read c1"),
            "call" => format!("call {id} Read c1"),
            "settled" => format!("settled {id} c1 c2"),
            "plan" => format!("plan {id} .claude/plans/p.md text"),
            "suspend" => return "suspend".to_owned(),
            "stop" => format!("stop {id} answer"),
            "wait" => return format!("wait {seconds}"),
            "start" | "start resume" | "start compact" | "end" => kind.to_owned(),
            other => format!("{other} {id} text"),
        };
        late.map_or(line.clone(), |place| format!("@{place} {line}"))
    })
}

proptest! {
    #[test]
    fn any_order_of_events_leaves_a_consistent_session(lines in prop::collection::vec(any_line(), 1..40)) {
        let (session, effects) = play(&lines.join("; "));
        let open = session.batches.iter().filter(|batch| batch.state == BatchState::Open).count();
        prop_assert!(open <= 1);
        prop_assert!(session.batches.windows(2).all(|pair| !pair[1].opened.is_before(&pair[0].opened)));
        // Every effect names a batch that was opened before.
        let mut opened = 0;
        let mut lives = 0i32;
        for effect in &effects {
            match effect {
                Effect::OpenBatch { seq, .. } => {
                    opened += 1;
                    prop_assert_eq!(*seq, Seq(opened));
                }
                Effect::RunBatch { seq, .. } | Effect::CloseBatch { seq, .. } | Effect::Respond { seq, .. }
                | Effect::AddAside { seq, .. } | Effect::CompressBatch { seq }
                | Effect::AdoptRecovery { seq, .. }
                | Effect::Renumber { seq, .. } | Effect::SetTurn { seq, .. } | Effect::SetState { seq, .. }
                | Effect::SetAside { seq } | Effect::TakeAnswer { seq, .. } | Effect::ShareAnswer { to: seq, .. }
                | Effect::AddActivity { seq: Some(seq), .. } => prop_assert!(seq.0 >= 1 && seq.0 <= opened),
                Effect::MergeRecovery { from, to } => {
                    prop_assert!(from != to && from.0 <= opened && to.0 <= opened);
                    // If a batch that was merged away was the last, its number is free again.
                    opened -= u32::from(from.0 == opened);
                }
                Effect::BeginLife { .. } => lives += 1,
                Effect::Complete { .. } => lives -= 1,
                _ => {}
            }
            prop_assert!((0..=1).contains(&lives), "a life begins and ends once");
        }
        prop_assert_eq!(lives == 0, session.life == 0 || session.status == SessionStatus::Completed);
        if session.status == SessionStatus::Completed {
            prop_assert_eq!(open, 0);
            prop_assert_eq!(&session.calls, &[]);
        }
        // Prompts are numbered in the order in which they were typed.
        let prompts: Vec<u32> = session
            .batches
            .iter()
            .filter(|batch| batch.source != BatchSource::Recovery)
            .map(|batch| batch.number)
            .collect();
        prop_assert_eq!(&prompts, &(1..=session.prompts).collect::<Vec<_>>());
    }
}
