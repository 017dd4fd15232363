//! Tests that the order in which events arrive does not change what is finally stored.
//!
//! The scripts do what agents really do. Their events arrive late, as after a daemon was away or busy.

use std::fmt::Write as _;

use proptest::prelude::*;
use rusqlite::Connection;

use crate::database::text::Unpacked;
use crate::sessions::rehydration::{Daemon, call};
use recall_domain::event::{Audience, HookEventKind, PromptText, StartContext, StartSource, ToolCall};
use recall_domain::ids::{EventId, Timestamp};
use recall_domain::material::BatchSource;
use recall_domain::plan::PlanChange;
use recall_domain::task_list::{TaskChange, TaskState};

/// An event, and its turn by the agent's own id.
type TestEvent = (HookEventKind, Option<String>);

/// One turn of a session.
#[derive(Clone, Debug)]
enum Turn {
    /// A prompt, this many calls, an answer.
    Whole {
        calls: usize,
        privately: bool,
    },
    /// Interrupted: no event reports its end.
    CutOff {
        calls: usize,
    },
    /// Another prompt is typed while the turn runs, and answered with it.
    Joined {
        before: usize,
        after: usize,
    },
    /// Another prompt is typed, and interrupts the turn.
    Overtaken {
        before: usize,
        after: usize,
    },
    /// A subagent works, and still does after the next turn.
    InBackground {
        calls: usize,
    },
    Planned,
    /// Creates two tasks, and deletes or finishes one of them.
    Listed(TaskState),
    Compacted,
    /// A background agent has ended, and a program makes the prompt.
    Notified {
        calls: usize,
    },
    /// A command of the user that the model answers. No event reports a prompt.
    Shell,
    /// Calls whose prompt is never reported, and perhaps an answer.
    Unasked {
        calls: usize,
        answered: bool,
    },
}

fn any_turn() -> impl Strategy<Value = Turn> {
    prop_oneof![
        4 => (0usize..4, prop::bool::weighted(0.2)).prop_map(|(calls, privately)| Turn::Whole { calls, privately }),
        2 => (0usize..3).prop_map(|calls| Turn::CutOff { calls }),
        1 => (0usize..2, 0usize..2).prop_map(|(before, after)| Turn::Joined { before, after }),
        1 => (0usize..2, 1usize..3).prop_map(|(before, after)| Turn::Overtaken { before, after }),
        1 => (1usize..3).prop_map(|calls| Turn::InBackground { calls }),
        1 => Just(Turn::Planned),
        1 => prop::sample::select(vec![TaskState::Deleted, TaskState::Done]).prop_map(Turn::Listed),
        1 => Just(Turn::Compacted),
        2 => (0usize..3).prop_map(|calls| Turn::Notified { calls }),
        1 => Just(Turn::Shell),
    ]
}

/// A session that is first reported in the middle: its earliest events have no prompt.
fn any_beginning() -> impl Strategy<Value = Vec<Turn>> {
    let unasked = (1usize..3, prop::bool::weighted(0.3))
        .prop_map(|(calls, answered)| vec![Turn::Unasked { calls, answered }]);
    prop_oneof![3 => Just(Vec::new()), 2 => unasked]
}

/// Whether the agent names the turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TurnIds {
    Named,
    Unnamed,
}

/// Writes a session as a list of events.
struct Script {
    bus_events: Vec<TestEvent>,
    /// Later events of a subagent.
    later: Vec<TestEvent>,
    turns: usize,
    calls: usize,
}

impl Script {
    fn of(turns: &[Turn], ids: TurnIds) -> Vec<TestEvent> {
        let mut script = Self { bus_events: Vec::new(), later: Vec::new(), turns: 0, calls: 0 };
        let source = StartSource::Startup;
        script.bus_events.push((HookEventKind::SessionStart { source, audience: Audience::Nobody }, None));
        for turn in turns {
            let before = std::mem::take(&mut script.later);
            script.write(turn);
            script.bus_events.extend(before);
        }
        let Self { mut bus_events, later, .. } = script;
        bus_events.extend(later);
        bus_events.push((HookEventKind::SessionEnd { reason: "other".to_owned() }, None));
        if ids == TurnIds::Unnamed {
            bus_events.iter_mut().for_each(|(_, id)| *id = None);
        }
        bus_events
    }

    fn push(&mut self, what: HookEventKind, turn: &str) {
        self.bus_events.push((what, Some(turn.to_owned())));
    }

    fn call(&mut self) -> HookEventKind {
        self.calls += 1;
        HookEventKind::Tool(call(&format!("c{}", self.calls)))
    }

    fn change_tasks(&mut self, change: TaskChange, turn: &str) {
        self.calls += 1;
        let plan = Some(PlanChange::Tasks(change));
        self.push(HookEventKind::Tool(ToolCall { plan, ..call(&format!("c{}", self.calls)) }), turn);
    }

    fn work(&mut self, calls: usize, turn: &str) {
        for _ in 0..calls {
            let call = self.call();
            self.push(call, turn);
        }
    }

    fn ask(&mut self, turn: &str, text: PromptText) {
        self.push(
            HookEventKind::Prompt { text, source: BatchSource::User, start: StartContext::Shown },
            turn,
        );
    }

    fn turn(&mut self) -> String {
        self.turns += 1;
        format!("p{}", self.turns)
    }

    fn write(&mut self, turn: &Turn) {
        let id = self.turn();
        let text = |words: &str| PromptText::Text(format!("{words} {id}"));
        let answer = |id: &str| HookEventKind::Stop { message: Some(format!("answer to {id}")) };
        if !matches!(turn, Turn::Whole { .. } | Turn::Notified { .. } | Turn::Shell | Turn::Unasked { .. }) {
            self.ask(&id, text("ask"));
        }
        match turn {
            Turn::Whole { calls, privately } => {
                let text = if *privately { PromptText::WhollyPrivate } else { text("ask") };
                self.ask(&id, text);
                self.work(*calls, &id);
                self.push(answer(&id), &id);
            }
            Turn::CutOff { calls } => self.work(*calls, &id),
            Turn::Notified { calls } => {
                let source = BatchSource::AgentNotification;
                self.push(
                    HookEventKind::Prompt { text: text("notified"), source, start: StartContext::Shown },
                    &id,
                );
                self.work(*calls, &id);
                self.push(answer(&id), &id);
            }
            Turn::Joined { before, after } => {
                self.work(*before, &id);
                self.ask(&id, text("also"));
                self.work(*after, &id);
                self.push(answer(&id), &id);
            }
            Turn::Overtaken { before, after } => {
                self.work(*before, &id);
                self.ask(&id, text("rather"));
                let next = self.turn();
                self.work(*after, &next);
                self.push(answer(&next), &next);
            }
            Turn::InBackground { calls } => {
                self.push(HookEventKind::SubagentStart, &id);
                self.push(answer(&id), &id);
                for _ in 0..*calls {
                    let call = self.call();
                    self.later.push((call, Some(id.clone())));
                }
                let message = Some(format!("found for {id}"));
                self.later.push((HookEventKind::SubagentStop { message }, Some(id.clone())));
            }
            Turn::Planned => {
                self.calls += 1;
                let plan =
                    PlanChange::File { path: "/h/plans/a.md".to_owned(), text: format!("# Plan of {id}") };
                let call = ToolCall { plan: Some(plan), ..call(&format!("c{}", self.calls)) };
                self.push(HookEventKind::Tool(call), &id);
                self.push(answer(&id), &id);
            }
            Turn::Listed(state) => {
                let names = [format!("{id}a"), format!("{id}b")];
                for name in &names {
                    let add = TaskChange::Add { id: name.clone(), subject: format!("do {name}") };
                    self.change_tasks(add, &id);
                }
                let [done, _] = names;
                self.change_tasks(TaskChange::Update { id: done, subject: None, state: Some(*state) }, &id);
                self.push(answer(&id), &id);
            }
            Turn::Compacted => {
                self.work(1, &id);
                self.push(HookEventKind::PreCompact { trigger: "auto".to_owned() }, &id);
                let summary = Some(format!("so far {id}"));
                self.push(HookEventKind::PostCompact { trigger: "auto".to_owned(), summary }, &id);
                self.push(answer(&id), &id);
            }
            Turn::Shell => self.push(answer(&id), &id),
            Turn::Unasked { calls, answered } => {
                self.work(*calls, &id);
                if *answered {
                    self.push(answer(&id), &id);
                }
            }
        }
    }
}

/// Plays a script in this order and returns what is stored. Where `forgets` is set, the session is reloaded from the
/// store.
fn stored(script: &[TestEvent], order: &[usize], forgets: &[bool]) -> String {
    let mut daemon = Daemon::new();
    for (step, nth) in order.iter().enumerate() {
        let (what, turn) = script[*nth].clone();
        let nth = *nth as u64 + 1;
        // As far apart as random ids.
        let id = EventId((u128::from(nth) << 64).to_be_bytes());
        daemon.happen(what, turn.as_deref(), (id, nth * 10, Timestamp(nth.cast_signed())));
        if forgets.get(step).is_some_and(|forget| *forget) {
            daemon.rehydrate();
        }
    }
    describe_rows(&daemon.db)
}

/// The rows, one line each. Events appear by their position in the script.
fn describe_rows(db: &Connection) -> String {
    let mut text = String::new();
    for (name, sql) in [
        (
            "batch",
            "SELECT prompt_number, source, status, prompt_id, asked_in, prompt,
                     hex(substr(response_event, 7, 2)), response
             FROM prompt_batches ORDER BY prompt_number",
        ),
        (
            "activity",
            "SELECT b.prompt_number, hex(substr(a.event_id, 7, 2)), a.kind, a.tool_name, a.prompt_id, a.input
             FROM activities a LEFT JOIN prompt_batches b ON b.id = a.batch ORDER BY a.event_id",
        ),
        (
            "subagent",
            "SELECT b.prompt_number, g.message FROM subagents g LEFT JOIN prompt_batches b ON b.id = g.batch
             ORDER BY g.agent_id",
        ),
        (
            "compaction",
            "SELECT b.prompt_number, c.trigger, c.started_at, c.ended_at, c.summary FROM compactions c
             LEFT JOIN prompt_batches b ON b.id = c.batch ORDER BY c.started_at",
        ),
        (
            "plan",
            "SELECT text, (SELECT group_concat(number) FROM (
                SELECT DISTINCT b.prompt_number AS number FROM plan_batches l JOIN prompt_batches b ON
                b.id = l.batch
                WHERE l.plan = plans.id ORDER BY number)) FROM plans ORDER BY kind",
        ),
    ] {
        let mut statement = db.prepare(sql).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let _ = write!(text, "{name}");
            for column in 0..columns {
                let value = match row.get_ref(column).unwrap() {
                    rusqlite::types::ValueRef::Integer(number) => number.to_string(),
                    rusqlite::types::ValueRef::Null => "-".to_owned(),
                    _ => row.get::<_, Unpacked>(column).unwrap().0,
                };
                let _ = write!(text, " {value}");
            }
            text.push('\n');
        }
    }
    text
}

/// The arrival order of a script's events: each may be late by this many others.
fn arrivals(delays: &[usize], events: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..events).collect();
    order.sort_by_key(|nth| (nth + delays.get(*nth).copied().unwrap_or_default(), *nth));
    order
}

fn any_delays() -> impl Strategy<Value = Vec<usize>> {
    prop::collection::vec(prop_oneof![3 => Just(0usize), 1 => 1usize..12], 60)
}

#[track_caller]
fn is_the_same(
    turns: &[Turn],
    ids: TurnIds,
    delays: &[usize],
    forgets: &[bool],
) -> Result<(), TestCaseError> {
    let script = Script::of(turns, ids);
    let expected = stored(&script, &(0..script.len()).collect::<Vec<_>>(), &[]);
    let order = arrivals(delays, script.len());
    let found = stored(&script, &order, forgets);
    prop_assert!(expected == found, "in the order {order:?}\nexpected\n{expected}\nfound\n{found}");
    Ok(())
}

/// Orders that once led to a different result.
#[test]
fn arrival_orders_that_once_changed_the_result_no_longer_do() {
    let whole = |calls, privately| Turn::Whole { calls, privately };
    for (turns, ids, order) in [
        // The turn of a call without a prompt is first known by that call, not by earlier contents of its batch.
        (vec![Turn::Overtaken { before: 1, after: 1 }], TurnIds::Named, vec![0, 4, 2, 3, 5, 6, 1]),
        // The end of the second compaction arrives before that of the first.
        (
            vec![Turn::Shell, Turn::Compacted, Turn::Compacted],
            TurnIds::Unnamed,
            vec![0, 1, 2, 3, 4, 6, 7, 8, 10, 5, 9, 11, 12],
        ),
        // The agent's summary covers nothing of a private prompt after it, and everything of one before it.
        (vec![Turn::Compacted, whole(0, true)], TurnIds::Named, vec![0, 1, 2, 3, 5, 6, 4, 7, 8]),
        (vec![whole(0, true), Turn::Compacted], TurnIds::Named, vec![0, 2, 3, 4, 5, 6, 7, 1, 8]),
        // The same with a plan.
        (vec![whole(0, true), Turn::Shell, Turn::Planned], TurnIds::Named, vec![0, 2, 3, 5, 1, 4, 6, 7]),
        // A prompt typed during a turn first counts for the turn after it.
        (
            vec![Turn::Overtaken { before: 0, after: 1 }, Turn::Shell],
            TurnIds::Named,
            vec![0, 1, 2, 5, 3, 4, 6],
        ),
        // Work before the first prompt belongs to that prompt, unless it was answered before or the prompt is private.
        (
            vec![Turn::Unasked { calls: 1, answered: false }, Turn::Shell, whole(0, false)],
            TurnIds::Named,
            vec![0, 2, 3, 1, 4, 5],
        ),
        (
            vec![Turn::Unasked { calls: 2, answered: true }, whole(1, false)],
            TurnIds::Named,
            vec![0, 2, 4, 1, 5, 3, 6, 7],
        ),
        (
            vec![Turn::Unasked { calls: 1, answered: false }, whole(1, true), whole(1, false)],
            TurnIds::Named,
            vec![0, 1, 5, 6, 2, 3, 4, 7, 8],
        ),
        // The answer to the work before the first prompt arrives before that work.
        (
            vec![Turn::Unasked { calls: 1, answered: true }, Turn::CutOff { calls: 1 }],
            TurnIds::Unnamed,
            vec![0, 2, 1, 3, 4, 5],
        ),
        // Work before a prompt was typed does not belong to its turn.
        (
            vec![
                Turn::Unasked { calls: 1, answered: true },
                whole(0, false),
                Turn::Joined { before: 0, after: 1 },
            ],
            TurnIds::Named,
            vec![0, 2, 3, 4, 5, 6, 1, 7, 8, 9],
        ),
        // Work before a program's prompt is first known by a call of that prompt's turn, and so is its answer.
        (
            vec![Turn::Unasked { calls: 2, answered: true }, Turn::Notified { calls: 1 }],
            TurnIds::Named,
            vec![0, 3, 5, 1, 2, 4, 6, 7],
        ),
        (
            vec![Turn::Unasked { calls: 2, answered: true }, Turn::Notified { calls: 1 }],
            TurnIds::Named,
            vec![0, 5, 6, 2, 3, 1, 4, 7],
        ),
        // The answer that keeps early work from a user's prompt is that of a program's prompt, which arrives last.
        (
            vec![Turn::Unasked { calls: 1, answered: false }, Turn::Notified { calls: 1 }, whole(0, false)],
            TurnIds::Named,
            vec![0, 3, 4, 5, 1, 2, 6, 7],
        ),
        // A plan counts as the work of the turn before its own, which made one, too.
        (vec![Turn::Planned, Turn::Planned], TurnIds::Unnamed, vec![0, 1, 3, 5, 4, 6, 7, 2]),
    ] {
        let script = Script::of(&turns, ids);
        let expected = stored(&script, &(0..script.len()).collect::<Vec<_>>(), &[]);
        assert_eq!(stored(&script, &order, &[]), expected, "{turns:?} in the order {order:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_order_of_arrival_changes_nothing_where_turns_have_ids(
        beginning in any_beginning(),
        turns in prop::collection::vec(any_turn(), 1..6),
        delays in any_delays(),
        forgets in prop::collection::vec(prop::bool::weighted(0.2), 60),
    ) {
        let turns: Vec<_> = beginning.into_iter().chain(turns).collect();
        is_the_same(&turns, TurnIds::Named, &delays, &forgets)?;
    }

    /// For agents without turn ids, a prompt typed during work is like any other, and events after a private prompt are
    /// hidden at once, whatever caused them.
    #[test]
    fn the_order_of_arrival_changes_nothing_where_turns_have_no_ids(
        beginning in any_beginning(),
        turns in prop::collection::vec(any_turn(), 1..6),
        delays in any_delays(),
        forgets in prop::collection::vec(prop::bool::weighted(0.2), 60),
    ) {
        let turns: Vec<_> = beginning
            .into_iter()
            .chain(turns)
            .map(|turn| match turn {
                Turn::Whole { calls, .. } => Turn::Whole { calls, privately: false },
                // Its calls belong to the running turn.
                Turn::InBackground { calls } => Turn::CutOff { calls },
                other => other,
            })
            .collect();
        is_the_same(&turns, TurnIds::Unnamed, &delays, &forgets)?;
    }
}
