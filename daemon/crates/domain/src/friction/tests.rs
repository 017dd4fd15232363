use super::failures::form;
use super::*;
use crate::ids::EventId;
use crate::material::{BatchMaterial, CallOutcome, SessionMaterial, SourcedText, Step};
use crate::past_work::testing::{done, edited, failed, session};

const LOCK: &str = "error: could not acquire the lock of /var/lib/shop/index.lock";

fn counts_of(found: &[Friction], kind: FrictionKind) -> Vec<(String, u32, usize)> {
    let of_kind = found.iter().filter(|friction| friction.kind == kind);
    of_kind.map(|friction| (friction.what.clone(), friction.times, friction.met.len())).collect()
}

#[test]
fn variable_parts_of_error_messages_are_ignored() {
    assert_eq!(form("error: lock /a/b/x.lock held 20 ms"), form("error: lock /tmp/x.lock held 7 ms"));
    assert_eq!(form("bad object 0a1b2c3d4e"), form("bad object ffff00001111"));
    assert_eq!(form("src/a.rs:12:5: expected `;`"), form("a.rs:9:1: expected `;`"));
    assert_ne!(form("error: no such file a.rs"), form("error: no such file b.rs"));
    assert_ne!(form("error E0277: x"), form("error E0308: x"));
}

#[test]
fn a_failure_needs_three_sessions_and_commands_come_before_tools() {
    let edit = || Step {
        outcome: CallOutcome::Failed { error: "String to replace not found in the file".to_owned() },
        ..edited("src/a.rs")
    };
    let sessions = [
        session("a", [failed("npm test", LOCK), failed("npm test", LOCK), edit()]),
        session("b", [failed("npm test", LOCK), done("make unlock", ""), done("npm test", "ok"), edit()]),
        session("c", [failed("npm test", LOCK), failed("npm ci", "error: only here it is"), edit()]),
    ];
    let found = friction(&sessions);
    let error = "String to replace not found in the file".to_owned();
    assert_eq!(counts_of(&found, FrictionKind::Failure), [(LOCK.to_owned(), 4, 3), (error, 3, 3)]);
    let (kind, text) = found[0].remember.clone().unwrap();
    assert_eq!(kind, ObservationType::Gotcha);
    assert_eq!(text, format!("When `npm test` says \"{LOCK}\": run `make unlock`."));
    assert_eq!(found[1].remember, None, "the project cannot help it");
    assert_eq!(counts_of(&friction(&sessions[..2]), FrictionKind::Failure), []);
}

#[test]
fn a_check_without_its_wrapper_program_is_the_suggested_remedy() {
    let error = "error: unrecognized subcommand 'bun'";
    let of = |id: &str| session(id, [failed("rtk bun run test", error), done("bun run test", "ok")]);
    let found = friction(&[of("a"), of("b"), of("c")]);
    let text = found[0].remember.clone().unwrap().1;
    assert_eq!(text, format!("When `rtk bun run test` says \"{error}\": run `bun run test`."));
}

#[test]
fn an_error_of_a_piped_check_counts_and_one_in_a_printed_file_does_not() {
    let of = |id: &str| {
        session(
            id,
            [
                done("cargo test 2>&1 | tail -5", "error: linker `cc` not found in the path"),
                done("cat notes.md | head", "error: this line is only read and never met"),
            ],
        )
    };
    let found = friction(&[of("a"), of("b"), of("c")]);
    let errors = counts_of(&found, FrictionKind::Failure);
    assert_eq!(errors, [("error: linker `cc` not found in the path".to_owned(), 3, 3)]);
}

fn turn(prompt: &str, answer: Option<&str>, steps: Vec<Step>) -> BatchMaterial {
    let sourced = |text: &str| SourcedText { event: EventId([0; 16]), text: text.to_owned() };
    BatchMaterial {
        prompt: Some(sourced(prompt)),
        response: answer.map(sourced),
        steps,
        ..BatchMaterial::default()
    }
}

fn of_turns(id: &str, batches: Vec<BatchMaterial>) -> PastSession {
    PastSession { id: SessionId(id.to_owned()), material: SessionMaterial { batches } }
}

#[test]
fn a_stopped_turn_is_reported_with_the_users_next_prompt() {
    let work = || vec![done("npm run build", "")];
    let stopped = |id: &str| {
        of_turns(
            id,
            vec![
                turn("Sort them", None, work()),
                turn("By date, I said", Some("By date."), work()),
                turn("Only a question", None, Vec::new()),
                turn("The last one is still open", None, work()),
            ],
        )
    };
    let found = friction(&[stopped("a"), stopped("b"), stopped("c")]);
    assert_eq!(
        counts_of(&found, FrictionKind::Stop).first().map(|(_, times, met)| (*times, *met)),
        Some((3, 3))
    );
    assert_eq!(found[0].example.as_deref(), Some("asked \"Sort them\", then \"By date, I said\""));
    assert!(friction(&[stopped("a"), stopped("b")]).is_empty(), "two may be chance");
}

#[test]
fn a_repeatedly_denied_call_is_reported_with_the_reason() {
    let denied = |line: &str, reason: Option<&str>| Step {
        outcome: CallOutcome::Rejected { reason: reason.map(str::to_owned) },
        ..done(line, "")
    };
    let found = friction(&[
        session(
            "a",
            [denied("git push --force origin main", Some("never push")), denied("rm -rf build", None)],
        ),
        session("b", [denied("git push origin main", None)]),
    ]);
    assert_eq!(counts_of(&found, FrictionKind::Denial), [("git push origin main".to_owned(), 2, 2)]);
    let (_, text) = found[0].remember.clone().unwrap();
    assert_eq!(text, "Do not ask for `git push origin main`: never push");
}

#[test]
fn workarounds_are_found_in_command_options_and_answers() {
    let answer = "Done.\n\n- For now the tax table is read from a file. It works.\n```\nfor now: a line of code here\n```\n\
        > for now, somebody quoted this";
    let one = |id: &str, line: &str| {
        of_turns(id, vec![turn("Do it", Some(answer), vec![edited("src/tax.rs"), done(line, "")])])
    };
    let found = friction(&[one("a", "git commit --no-verify -m x"), one("b", "git commit -m y --no-verify")]);
    assert_eq!(
        counts_of(&found, FrictionKind::Workaround),
        [
            ("`--no-verify` switches a check off".to_owned(), 2, 2),
            ("For now the tax table is read from a file.".to_owned(), 2, 2),
        ]
    );
    let once = friction(&[one("a", "git commit --no-verify -m x")]);
    assert_eq!(counts_of(&once, FrictionKind::Workaround).len(), 1, "an option once is an exception");
    let proposal = of_turns("a", vec![turn("How?", Some(answer), vec![done("ls", "")])]);
    assert!(friction(&[proposal]).is_empty(), "nothing was done");
}

#[test]
fn a_file_change_is_no_remedy_and_timeouts_are_counted_per_command() {
    let sessions = ["a", "b", "c"].map(|id| {
        session(
            id,
            [
                failed("npm test", LOCK),
                edited("src/lock.rs"),
                failed("npm test", "AssertionError: Expected values to be strictly equal"),
                done("npm test", "ok"),
                failed(&format!("make {id}"), "Command timed out after 2m 0s"),
            ],
        )
    });
    let found = friction(&sessions);
    assert_eq!(counts_of(&found, FrictionKind::Failure), [(LOCK.to_owned(), 3, 3)]);
    let (_, text) = found[0].remember.clone().unwrap();
    assert_eq!(text, format!("When `npm test` says \"{LOCK}\": …"));
}

#[test]
fn a_call_repeatedly_refused_by_a_guard_is_reported_as_denied() {
    let refused = |line: &str| {
        Step {
        outcome: CallOutcome::Failed {
            error: "PreToolUse:Bash hook error: recall guard `secrets`: this call would open `.env`, which may hold \
                    secrets. The user's settings forbid it."
                .to_owned(),
        },
        ..done(line, "")
    }
    };
    let found = friction(&[
        session("a", [refused("cat .env")]),
        session("b", [refused("cat .env"), refused("head .env.local")]),
        session("c", [refused("cat .env")]),
    ]);
    assert_eq!(counts_of(&found, FrictionKind::Denial), [("cat .env".to_owned(), 3, 3)]);
    assert_eq!(counts_of(&found, FrictionKind::Failure), [], "it is no failure");
    assert_eq!(found[0].example.as_deref(), Some("recall guard `secrets` refused it"));
    assert_eq!(
        found[0].remember.clone().unwrap().1,
        "Do not try `cat .env`; the guard `secrets` refuses it."
    );
}
