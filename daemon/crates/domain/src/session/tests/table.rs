//! Tests every event in every state, and the resulting state.

use std::fmt::Write as _;

use super::*;

/// The states, each with the script that leads to it. The line `suspend` is not an event. It suspends the session
/// directly.
const STATES: [(&str, &str); 6] = [
    ("unknown", ""),
    ("initialized", "start"),
    ("active", "start; prompt p1 a; tool p1 Read; stop p1 x; prompt p2 b"),
    ("suspended, nothing asked", "start; suspend"),
    ("suspended", "start; prompt p1 a; stop p1 x; prompt p2 b; suspend"),
    ("completed", "start; prompt p1 a; stop p1 x; end other"),
];

const EVENTS: [&str; 20] = [
    "start startup",
    "start resume",
    "start clear",
    "start compact",
    "start fork",
    "prompt p3 c",
    "private p3",
    "machine p3",
    "call p2 Bash c1",
    "tool p2 Bash c1",
    "settled p2 c1",
    "helper p2",
    "helped p2 found",
    "compact p2",
    "compacted p2",
    "stop p2 y",
    "failed p2",
    "end logout",
    "note p2",
    "internal p2",
];

#[test]
fn every_event_has_the_recorded_effects_in_every_session_state() {
    let mut table = String::new();
    for (name, story) in STATES {
        let _ = writeln!(table, "## {name}");
        for event in EVENTS.into_iter().chain(["wait 301", "wait 3601"]) {
            let before = play(story).0;
            let (session, effects) = play(&format!("{story}; {event}"));
            let known = play(story).1.len();
            let news: Vec<String> = effects.iter().skip(known).map(in_short).collect();
            let life = match (before.life, session.life) {
                (before, now) if before == now => String::new(),
                (_, now) => format!(", life {now}"),
            };
            let _ = writeln!(table, "{event}: {}{life}; {}", session.status.as_str(), news.join(", "));
        }
        table.push('\n');
    }
    insta::assert_snapshot!("table", table);
}

/// Returns an effect's name with the data that distinguishes it.
fn in_short(effect: &Effect) -> String {
    let batch = |name: &str, seq: &Seq| format!("{name} {}", seq.0);
    match effect {
        Effect::BeginLife { life, source } => format!("begin life {life} by {}", source.as_str()),
        Effect::Resume { suspended_for_ms, .. } => format!("resume after {suspended_for_ms} ms"),
        Effect::SetStatus(status) => status.as_str().to_owned(),
        Effect::OpenBatch { seq, source, .. } => batch(&format!("open {}", source.as_str()), seq),
        Effect::CloseBatch { seq, why } => batch(&format!("close ({})", why.as_str()), seq),
        Effect::CompressBatch { seq } => batch("compress", seq),
        Effect::FlushChunk { seq } => batch("flush", seq),
        Effect::Respond { seq, .. } => batch("answer", seq),
        Effect::AddActivity { seq, activity } => {
            let what = match &activity.content {
                ActivityContent::Tool(_) => "call",
                ActivityContent::Other { .. } => "note",
                ActivityContent::Hidden { .. } => "hidden",
            };
            format!("keep {what} in {}", seq.map_or(0, |seq| seq.0))
        }
        Effect::Complete { reason, tally } => {
            format!("end by {reason} after {} messages", tally.message_count)
        }
        other => {
            let debug = format!("{other:?}");
            debug.split([' ', '{', '(']).next().unwrap().to_owned()
        }
    }
}

#[test]
fn a_resumed_session_reports_how_long_it_was_suspended() {
    let (_, effects) = play("start; prompt p1 a; suspend; wait 7200; tool p1 Read");
    let resumed: Vec<_> = effects
        .iter()
        .filter_map(|effect| match effect {
            Effect::Resume { suspended_for_ms, .. } => Some(suspended_for_ms / 1000),
            _ => None,
        })
        .collect();
    assert_eq!(resumed, [7200]);
    // No event could arrive before the daemon was back, so the hour starts then.
    let (mut session, _) = play("start; prompt p1 a; suspend");
    let back = Timestamp(100_000_000);
    let watch = |seconds: i64| Watch { now: Timestamp(back.0 + seconds * 1000), since: back };
    session = session.on_idle(watch(299), IDLE).next;
    assert_eq!(session.batches[0].state, BatchState::Open);
    session = session.on_idle(watch(301), IDLE).next;
    assert_eq!((session.status, session.batches[0].state), (SessionStatus::Suspended, BatchState::Closed));
    session = session.on_idle(watch(3601), IDLE).next;
    assert_eq!((session.status, session.suspended), (SessionStatus::Completed, None));
}

#[test]
fn a_leaving_host_suspends_its_session_and_the_next_event_resumes_it() {
    let outcome = |story: &str| {
        let (session, effects) = play(story);
        let labels = effects.iter().filter_map(|effect| match effect {
            Effect::Suspend { reason, tally } => Some(format!("{reason} after {}", tally.message_count)),
            Effect::Resume { .. } => Some("back".to_owned()),
            Effect::FlushChunk { seq } => Some(format!("flush {}", seq.0)),
            Effect::Complete { .. } => Some("end".to_owned()),
            _ => None,
        });
        (session.status, labels.collect::<Vec<_>>().join("; "))
    };
    let asked = "start; prompt p1 a; call p1 Bash c1";
    let suspended = SessionStatus::Suspended;
    let check = |story: &str, status, expected: &str| {
        assert_eq!(outcome(story), (status, expected.to_owned()), "{story}");
    };
    check(&format!("{asked}; leave restart"), suspended, "flush 1; restart after 1");
    check(
        &format!("{asked}; leave restart; return"),
        SessionStatus::Active,
        "flush 1; restart after 1; back",
    );
    check(&format!("{asked}; leave a; tool p1 Read"), SessionStatus::Active, "flush 1; a after 1; back");
    check(&format!("{asked}; leave a; end"), SessionStatus::Completed, "flush 1; a after 1; back; end");
    check(&format!("{asked}; leave a; leave b"), suspended, "flush 1; a after 1");
    // Ended sessions and late events are not suspended.
    check("start; end; @1 leave a", SessionStatus::Completed, "end");
    check(&format!("{asked}; @1 leave a"), SessionStatus::Active, "");
    let (session, _) = play(&format!("{asked}; leave a"));
    assert_eq!(session.calls, [], "a host that is gone runs nothing");
}

#[test]
fn a_running_call_keeps_its_batch_open() {
    check("start; prompt p1 a; call p1 Bash c1; wait 900", "1 open user []");
    check("start; prompt p1 a; call p1 Bash c1; tool p1 Bash c1; wait 301", "1 closed(idle) user [Bash]");
    check("start; prompt p1 a; call p1 Bash c1; settled p1 c1; wait 301", "1 closed(idle) user []");
    // A closed turn runs nothing, and no call runs for longer than a session may be silent.
    check(
        "start; prompt p1 a; call p1 Bash c1; prompt p2 b; wait 301",
        "1 closed(next_prompt) user []; 2 closed(idle) user []",
    );
    check("start; prompt p1 a; call p1 Bash c1; wait 3601", "1 closed(idle) user []");
    // A call does not run if its end arrived first.
    let (session, _) = play("start; prompt p1 a; tool p1 Bash c1; @2 call p1 Bash c1");
    assert_eq!(session.calls, []);
}

#[test]
fn a_session_tracks_at_most_256_calls_without_results() {
    let calls = (0..300).map(|nth| format!("call p1 Bash c{nth}"));
    let story = format!("start; prompt p1 a; {}", calls.collect::<Vec<_>>().join("; "));
    let abandoned = |story: &str| {
        let (session, effects) = play(story);
        let abandoned = effects.into_iter().filter_map(|effect| match effect {
            Effect::AbandonCalls { calls } => Some(calls),
            _ => None,
        });
        let ids = abandoned.flatten().map(|call| call.id.as_str().to_owned()).collect::<Vec<_>>();
        (session.calls.len(), ids)
    };
    let (running, ids) = abandoned(&story);
    assert_eq!((running, ids.len(), ids[0].as_str(), ids[43].as_str()), (256, 44, "c0", "c43"));
    let (running, ids) = abandoned(&format!("{story}; stop p1 x"));
    assert_eq!((running, ids.len()), (0, 300));
}

#[test]
fn a_long_batch_is_flushed_in_pieces() {
    let flushed = |story: &str| {
        let effects = play(story).1;
        effects.iter().filter(|effect| matches!(effect, Effect::FlushChunk { .. })).count()
    };
    assert_eq!(flushed("prompt p1 a; tool p1 A; tool p1 A; tool p1 A"), 0);
    assert_eq!(
        flushed("prompt p1 a; tool p1 A; tool p1 A; tool p1 A; tool p1 A; tool p1 A; tool p1 A; tool p1 A"),
        1
    );
    assert_eq!(flushed("prompt p1 a; tool p1 A; compact p1; tool p1 A; tool p1 A; tool p1 A"), 1);
    assert_eq!(flushed("private p1; tool p1 A; tool p1 A; tool p1 A; tool p1 A; compact p1"), 0);
}

#[test]
fn a_batch_with_a_plan_becomes_a_plan_batch() {
    let plan = "/h/.claude/plans/p.md";
    check(&format!("prompt p1 a; plan p1 {plan} text; stop p1 x"), "1 closed(stop) plan [Write] 'x'");
    let sources = |story: &str| play(story).0.batches.iter().map(|batch| batch.source).collect::<Vec<_>>();
    assert_eq!(sources(&format!("prompt p1 a; plan p1 {plan} text")), [BatchSource::Plan]);
    assert_eq!(sources("prompt p1 a; plan p1 approved text"), [BatchSource::Plan]);
    assert_eq!(sources("prompt p1 a; plan p1 /h/README.md text"), [BatchSource::User]);
    assert_eq!(sources(&format!("private p1; plan p1 {plan} text")), [BatchSource::Private]);
    assert_eq!(sources(&format!("prompt p1 do {plan} now")), [BatchSource::Plan]);
    let kept = |story: &str| {
        let effects = play(story).1;
        effects.iter().filter(|effect| matches!(effect, Effect::KeepPlan { .. })).count()
    };
    assert_eq!(kept(&format!("prompt p1 a; plan p1 {plan} text; plan p1 approved text")), 2);
    assert_eq!(kept(&format!("private p1; plan p1 {plan} text")), 0);
    assert_eq!(kept("prompt p1 Implement the following plan: one two"), 1);
}

#[test]
fn a_subagents_answer_does_not_end_the_turn() {
    let (_, effects) = play("start; prompt p1 a; helper p1; helped p1 Found it; stop p1 mine");
    let answer = effects.iter().find_map(|effect| match effect {
        Effect::EndSubagent { subagent, message, .. } => {
            Some((subagent.id.clone(), message.clone().unwrap()))
        }
        _ => None,
    });
    assert_eq!(answer, Some(("a1".to_owned(), "Found it".to_owned())));
    assert_eq!(batches(&effects), "1 closed(stop) user [] 'mine'");
    let (_, effects) = play("start; private p1; helped p1 secret");
    assert!(effects.iter().any(|effect| matches!(effect, Effect::EndSubagent { message: None, .. })));
}

#[test]
fn a_compaction_counts_its_messages_and_hides_a_private_summary() {
    let ended = |story: &str| {
        let effects = play(story).1.into_iter();
        let ends = effects.filter_map(|effect| match effect {
            Effect::EndCompaction { message_count, since_last, summary, .. } => {
                Some((message_count, since_last, summary.is_some()))
            }
            _ => None,
        });
        ends.collect::<Vec<_>>()
    };
    let story = "start; prompt p1 a; stop p1 x; prompt p2 b; compact p2; start compact; compacted p2; stop p2 y; compact; compacted";
    assert_eq!(ended(story), [(3, 3, true), (4, 1, true)]);
    assert_eq!(ended("start; private p1; compacted"), [(1, 1, false)]);
}

#[test]
fn a_reported_reply_replaces_one_from_the_transcript() {
    let (session, _) = play("start; prompt p1 a; tool p1 Read");
    let next = event("prompt p2 b").unwrap();
    assert_eq!(session.unanswered_batch_before(&next).map(|batch| batch.seq), Some(Seq(1)));
    assert_eq!(session.unanswered_batch_before(&event("prompt p1 queued").unwrap()), None);
    assert_eq!(session.unanswered_batch_before(&event("stop p1 words").unwrap()), None);
    assert!(session.unanswered_batch_before(&event("stop p1").unwrap()).is_some());
    assert!(session.unanswered_batch_before(&event("end other").unwrap()).is_some());
    assert_eq!(session.unanswered_batch_before(&event("start compact").unwrap()), None);
    assert_eq!(play("start; private p1").0.unanswered_batch_before(&next), None);
    let watch = |ms| Watch { now: Timestamp(ms), since: Timestamp(0) };
    assert_eq!(session.unanswered_batch_on_idle(watch(200_000), IDLE), None);
    assert!(session.unanswered_batch_on_idle(watch(400_000), IDLE).is_some());

    let (session, effects) = session.with_reply(Seq(1), "Half done.");
    assert_eq!(effects, [Effect::RecoverReply { seq: Seq(1), text: "Half done.".to_owned() }]);
    assert_eq!(session.clone().with_reply(Seq(1), "Other.").1, [], "it has one");
    assert_eq!(session.unanswered_batch_before(&next), None);
    let order = Order { boot: [1; 16], boot_ns: 1_000, wall: Timestamp(9) };
    let capture = Capture { event: EventId([7; 16]), at: Timestamp(9), order };
    let decision = session.on_event(&event("stop p1 All done.").unwrap(), capture, &policy());
    assert!(matches!(decision.next.batches[0].response, Response::Known { .. }));
}

#[test]
fn a_reply_found_after_the_turns_end_is_compressed_and_summarized() {
    let (session, _) = play("start; prompt p1 a; stop p1; end other");
    assert!(session.unanswered_batch(Seq(1)).is_some());
    let (session, effects) = session.with_reply(Seq(1), "Done.");
    let seq = Seq(1);
    let recovered = Effect::RecoverReply { seq, text: "Done.".to_owned() };
    assert_eq!(effects, [recovered, Effect::CompressBatch { seq }, Effect::Summarize]);
    assert_eq!(session.unanswered_batch(seq), None);
}
