//! Tests that sessions can be restored from the store at any moment by any daemon: nothing is lost, and each event of
//! their lives is published once.

use proptest::prelude::*;
use rusqlite::Connection;

use crate::database::migration;
use crate::{
    Changes, Delivery, EventOutcome, IdleEffects, Operation, Reader, SessionOrigin, SuspendAll, Suspension,
    Transaction, execute,
};
use recall_domain::conventions::Conventions;
use recall_domain::event::{
    Audience, Capture, HookEvent, HookEventKind, Notification, PromptText, StartContext, StartSource,
    Subagent, SubagentTask, ToolCall, ToolResult, ToolStart,
};
use recall_domain::guard::Rule;
use recall_domain::ids::{AgentName, EventId, ProjectKey, PromptId, SessionId, SessionKey, Timestamp};
use recall_domain::lifecycle::LifecycleKind;
use recall_domain::material::BatchSource;
use recall_domain::order::Order;
use recall_domain::session::{
    BatchState, CapturePolicy, Decision, Growth, IdlePolicy, Load, Response, Session, TurnSeen, Watch,
};

const IDLE: IdlePolicy = IdlePolicy { batch_ms: 300_000, session_ms: 3_600_000 };

#[derive(Clone, Debug)]
enum Move {
    /// An event and its turn.
    Event(HookEventKind, Option<&'static str>),
    /// An event that was captured this many moves ago.
    Late(HookEventKind, Option<&'static str>, u64),
    /// The last event is delivered again.
    Again,
    /// Seconds pass.
    Wait(i64),
    /// The session's actor loses its state.
    Forget,
    Stop,
    Kill,
}

pub(crate) struct Daemon {
    pub(crate) db: Connection,
    key: SessionKey,
    session: Session,
    now: i64,
    started: i64,
    moves: u64,
    last: Option<Transaction>,
    changes: Changes,
}

impl Daemon {
    pub(crate) fn new() -> Self {
        let mut db = Connection::open_in_memory().unwrap();
        db.execute_batch("PRAGMA foreign_keys = ON").unwrap();
        let nowhere = std::path::Path::new("");
        migration::migrate(&mut db, nowhere, nowhere).unwrap();
        let key = SessionKey { agent: AgentName::from("claude-code"), id: SessionId::from("s") };
        let session = Session::default();
        Self { db, key, session, now: 1_000, started: 0, moves: 100, last: None, changes: Changes::default() }
    }

    fn policy() -> CapturePolicy {
        CapturePolicy {
            skip_tools: Vec::new(),
            plan_folders: vec!["plans".to_owned()],
            plan_prompts: &[],
            chunk: Load { activities: 3, bytes: 10_000 },
        }
    }

    fn play(&mut self, step: Move) {
        self.moves += 1;
        self.now += 1;
        match step {
            Move::Event(what, prompt) => self.take(what, prompt, self.moves * 10),
            Move::Late(what, prompt, ago) => self.take(what, prompt, (self.moves - ago) * 10 - 5),
            Move::Again => {
                if let Some(transaction) = self.last.clone() {
                    let written = self.write(transaction);
                    assert_eq!(written, EventOutcome::Duplicate);
                }
            }
            Move::Wait(seconds) => {
                self.now += seconds * 1000;
                let watch = Watch { now: Timestamp(self.now), since: Timestamp(self.started) };
                let Decision { next, effects, .. } = self.session.clone().on_idle(watch, IDLE);
                self.session = next;
                if !effects.is_empty() {
                    self.write(IdleEffects { session: self.key.clone(), effects, at: Timestamp(self.now) });
                }
            }
            Move::Forget => self.rehydrate(),
            Move::Stop => self.restart(Suspension::Stop),
            Move::Kill => self.restart(Suspension::Crash),
        }
    }

    fn take(&mut self, what: HookEventKind, prompt: Option<&str>, boot_ns: u64) {
        // As far apart as random ids.
        let id = EventId((u128::from(self.moves) << 64).to_be_bytes());
        self.happen(what, prompt, (id, boot_ns, Timestamp(self.now)));
    }

    pub(crate) fn happen(
        &mut self,
        what: HookEventKind,
        prompt: Option<&str>,
        (id, boot_ns, at): (EventId, u64, Timestamp),
    ) {
        let subagent = matches!(what, HookEventKind::SubagentStart | HookEventKind::SubagentStop { .. })
            .then(|| Subagent { id: format!("of {}", prompt.unwrap_or_default()), kind: None });
        let event = HookEvent {
            prompt: prompt.map(PromptId::from),
            subagent,
            ..HookEvent::bare(self.key.id.clone(), what)
        };
        let order = Order { boot: [1; 16], boot_ns, wall: at };
        let capture = Capture { event: id, at, order };
        let decision = self.session.clone().on_event(&event, capture, &Self::policy());
        let transaction = Transaction {
            conventions: Conventions::default(),
            session: self.key.clone(),
            origin: SessionOrigin {
                project: vec![ProjectKey::from("path:/shop")],
                ..SessionOrigin::default()
            },
            delivery: Delivery {
                event: id,
                key: None,
                agent: self.key.agent.clone(),
                event_name: "any".to_owned(),
                captured_at: at,
                boot_id: order.boot,
                boot_ns,
                flags: 0,
                stored_at: at,
            },
            changed_files: Vec::new(),
            effects: decision.effects,
        };
        self.last = Some(transaction.clone());
        self.write(transaction);
        self.session = decision.next;
    }

    fn write<O: Operation>(&mut self, operation: O) -> O::Output {
        execute(&self.db, operation, &mut self.changes).unwrap()
    }

    fn restart(&mut self, why: Suspension) {
        self.write(SuspendAll { at: Timestamp(self.now), why });
        self.started = self.now;
        self.rehydrate();
    }

    pub(crate) fn rehydrate(&mut self) {
        self.session = self.stored();
    }

    fn stored(&self) -> Session {
        Reader(&self.db).known_session(&self.key).unwrap().map(|known| known.session).unwrap_or_default()
    }

    /// Checks each life: a start, pauses in pairs, an end. An end may come during a pause.
    fn check_lives(&self) {
        let Some(known) = Reader(&self.db).known_session(&self.key).unwrap() else { return };
        let record = Reader(&self.db).life_events(known.row).unwrap();
        let published: Vec<_> = self
            .changes
            .events
            .iter()
            .filter(|event| is_of_a_life(&event.what))
            .map(|event| event.what.name())
            .collect();
        assert_eq!(published, record.iter().map(|row| row.name.as_str()).collect::<Vec<_>>());
        let mut expected = "session_start";
        let mut life = 0;
        for row in record.iter().filter(|row| row.name.starts_with("session_")) {
            match (row.name.as_str(), expected) {
                ("session_start", "session_start") => (life, expected) = (life + 1, "live"),
                ("session_suspend", "live") => expected = "session_resume",
                ("session_resume", "session_resume") => expected = "live",
                ("session_end", "live" | "session_resume") => expected = "session_start",
                (name, _) => panic!("{name} where {expected} is due: {record:?}"),
            }
            assert_eq!(row.life, life);
        }
        assert_eq!(life, self.session.life);
    }
}

fn is_of_a_life(kind: &LifecycleKind) -> bool {
    !matches!(
        kind,
        LifecycleKind::MessageReceived { .. }
            | LifecycleKind::BatchClosed(_)
            | LifecycleKind::Notification(_)
    )
}

pub(crate) fn call(use_id: &str) -> ToolCall {
    ToolCall {
        name: "Bash".to_owned(),
        use_id: Some(use_id.into()),
        input: "{\"command\":\"make\"}".to_owned(),
        result: ToolResult::Done("\"ok\"".to_owned()),
        duration_ms: None,
        plan: None,
        launched: None,
        rewrote: None,
    }
}

fn any_event() -> impl Strategy<Value = (HookEventKind, Option<&'static str>)> {
    let source = prop::sample::select(vec![StartSource::Startup, StartSource::Resume, StartSource::Compact]);
    let use_id = prop::sample::select(vec!["c1", "c2", "c3"]);
    let what = prop_oneof![
        source.prop_map(|source| HookEventKind::SessionStart { source, audience: Audience::Nobody }),
        Just(HookEventKind::Prompt {
            text: PromptText::Text("go".to_owned()),
            source: BatchSource::User,
            start: StartContext::Shown
        }),
        Just(HookEventKind::Prompt {
            text: PromptText::WhollyPrivate,
            source: BatchSource::User,
            start: StartContext::Shown
        }),
        (use_id.clone(), any::<bool>()).prop_map(|(id, gives)| HookEventKind::ToolStart(ToolStart {
            name: "Agent".to_owned(),
            use_id: Some(id.into()),
            input: "{}".to_owned(),
            file: None,
            task: gives.then(|| SubagentTask { kind: "explore".to_owned(), text: format!("do {id}") }),
            refused_by: (!gives).then_some(Rule::Secrets),
        })),
        use_id.clone().prop_map(|id| HookEventKind::Tool(call(id))),
        // One call may run while others are refused, and no two ids are equal.
        (use_id, any::<u32>()).prop_map(|(id, refused)| HookEventKind::ToolBatch(vec![
            call(id),
            call(&format!("refused {refused}"))
        ])),
        Just(HookEventKind::SubagentStart),
        Just(HookEventKind::SubagentStop { message: Some("found".to_owned()) }),
        Just(HookEventKind::PreCompact { trigger: "auto".to_owned() }),
        Just(HookEventKind::PostCompact { trigger: "auto".to_owned(), summary: Some("short".to_owned()) }),
        Just(HookEventKind::Stop { message: Some("done".to_owned()) }),
        Just(HookEventKind::StopFailure { error: "overloaded".to_owned(), detail: "{}".to_owned() }),
        Just(HookEventKind::SessionEnd { reason: "other".to_owned() }),
        Just(HookEventKind::SessionSuspend { reason: "restart".to_owned() }),
        Just(HookEventKind::SessionResume),
        Just(HookEventKind::MessageReceived { content: Some("hi".to_owned()), detail: "{}".to_owned() }),
        Just(HookEventKind::Other { name: "Setup".to_owned(), detail: "{}".to_owned() }),
        Just(HookEventKind::Notification { notification: Notification::default(), detail: "{}".to_owned() }),
    ];
    (what, prop::sample::select(vec![None, Some("p1"), Some("p2"), Some("p3")]))
}

fn any_move() -> impl Strategy<Value = Move> {
    prop_oneof![
        12 => any_event().prop_map(|(what, prompt)| Move::Event(what, prompt)),
        2 => (any_event(), 1u64..20).prop_map(|((what, prompt), ago)| Move::Late(what, prompt, ago)),
        1 => Just(Move::Again),
        2 => (0i64..8000).prop_map(Move::Wait),
        1 => Just(Move::Forget),
        1 => Just(Move::Stop),
        1 => Just(Move::Kill),
    ]
}

fn any_move_in_order() -> impl Strategy<Value = Move> {
    prop_oneof![
        12 => any_event().prop_map(|(what, prompt)| Move::Event(what, prompt)),
        1 => Just(Move::Again),
        2 => (0i64..8000).prop_map(Move::Wait),
        1 => Just(Move::Stop),
        1 => Just(Move::Kill),
    ]
}

/// Returns the turns that were first seen during a private batch. Nothing of it is stored.
fn seen_in_private(session: &Session) -> Vec<PromptId> {
    let is_private = |seen: &&TurnSeen| {
        let during = session.batches.iter().rev().find(|batch| !seen.at.is_before(&batch.opened));
        during.is_some_and(|batch| batch.source == BatchSource::Private)
    };
    session.turns_seen.iter().filter(is_private).map(|seen| seen.turn.clone()).collect()
}

/// Removes differences that do not matter: an activity before any batch may open a recovery batch earlier, and the
/// contents of a closed one are not counted.
fn comparable(mut session: Session, private: &[PromptId]) -> Session {
    for batch in session.batches.iter_mut().filter(|batch| batch.state == BatchState::Closed) {
        batch.growth = Growth::default();
    }
    for batch in session.batches.iter_mut().filter(|batch| batch.source == BatchSource::Recovery) {
        batch.opened = Order::default();
    }
    session.early.sort_by(|a, b| a.turn.cmp(&b.turn));
    session.calls.sort_by(|a, b| a.id.cmp(&b.id));
    // A turn only matters if something waited for it.
    let waited = session.batches.iter().filter(|batch| {
        batch.asked_in.is_some() && batch.asked_in != batch.prompt && batch.source != BatchSource::Private
    });
    let turns: Vec<_> = waited.map(|batch| batch.prompt.clone()).collect();
    session
        .turns_seen
        .retain(|seen| turns.contains(&Some(seen.turn.clone())) && !private.contains(&seen.turn));
    session.turns_seen.sort_by(|a, b| a.turn.cmp(&b.turn));
    // If a turn ended more than once, the last end is stored.
    let held = session.batches.iter().filter_map(|batch| match &batch.response {
        Response::Known(answer) => Some(answer),
        _ => None,
    });
    for end in held.chain(&session.spare) {
        let of_turn = |seen: &&mut TurnSeen| Some(&seen.turn) == end.prompt.as_ref();
        let seen = session.turns_seen.iter_mut().find(of_turn).filter(|seen| seen.at.is_before(&end.at));
        if let Some(seen) = seen {
            seen.at = end.at;
        }
    }
    session.spare.sort_by_key(|answer| answer.event.0);
    session
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_session_life_has_one_start_and_at_most_one_end(moves in prop::collection::vec(any_move(), 1..40)) {
        let mut daemon = Daemon::new();
        for step in moves {
            daemon.play(step);
            daemon.check_lives();
        }
        // Prompts are numbered by position.
        daemon.rehydrate();
        let prompts = daemon.session.batches.iter().filter(|batch| batch.source != BatchSource::Recovery);
        let numbers: Vec<u32> = prompts.map(|batch| batch.number).collect();
        prop_assert_eq!(numbers, (1..=daemon.session.prompts).collect::<Vec<_>>());
    }

    #[test]
    fn a_session_loaded_from_the_store_equals_the_one_in_memory(
        moves in prop::collection::vec(any_move_in_order(), 1..40),
    ) {
        let mut daemon = Daemon::new();
        for step in moves {
            daemon.play(step);
            let private = seen_in_private(&daemon.session);
            let comparable = |session| comparable(session, &private);
            prop_assert_eq!(comparable(daemon.stored()), comparable(daemon.session.clone()));
        }
    }
}
