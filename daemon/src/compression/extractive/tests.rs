//! The compressor as a whole, over small batches of many styles.

use proptest::prelude::*;

use super::*;
use crate::memory::ids::{EventId, Timestamp};
use crate::memory::material::{Action, BatchSource, CallOutcome, Change, SourcedText, Step, WriteKind};
use crate::memory::observation::ObservationType;

const ROOT: &str = "/home/dev/shop";

/// A batch in the making; events are numbered in the order in which they are added.
#[derive(Default)]
struct Batch {
    material: BatchMaterial,
    events: u8,
}

impl Batch {
    fn asked(prompt: &str) -> Self {
        let mut batch = Self::default();
        batch.material.root = Some(ROOT.to_owned());
        batch.material.prompt_number = 1;
        batch.material.prompt = Some(SourcedText { event: batch.event(), text: prompt.to_owned() });
        batch
    }

    fn after(mut self, answer: &str) -> Self {
        self.material.previous_response = Some(answer.to_owned());
        self.material.prompt_number = 2;
        self
    }

    fn event(&mut self) -> EventId {
        self.events += 1;
        EventId([self.events; 16])
    }

    fn step(mut self, outcome: CallOutcome, action: Action) -> Self {
        let event = self.event();
        let step = Step { event, at: Timestamp(0), tool: "tool".to_owned(), outcome, subagent: None, action };
        self.material.steps.push(step);
        self
    }

    fn edited(self, path: &str, before: &str, after: &str) -> Self {
        let changes = vec![Change { before: before.to_owned(), after: after.to_owned() }];
        self.step(CallOutcome::Done, Action::Edit { path: format!("{ROOT}/{path}"), changes })
    }

    fn wrote(self, path: &str, content: &str) -> Self {
        let path = format!("{ROOT}/{path}");
        self.step(
            CallOutcome::Done,
            Action::Write { path, content: content.to_owned(), kind: WriteKind::Created },
        )
    }

    fn read(self, path: &str) -> Self {
        self.step(CallOutcome::Done, Action::Read { path: format!("{ROOT}/{path}") })
    }

    fn read_in_vain(self, path: &str) -> Self {
        let failed = CallOutcome::Failed { error: "File does not exist.".to_owned() };
        self.step(failed, Action::Read { path: format!("{ROOT}/{path}") })
    }

    fn ran(self, command: &str, output: &str) -> Self {
        let action =
            Action::Command { command: command.to_owned(), description: None, output: output.to_owned() };
        self.step(CallOutcome::Done, action)
    }

    fn answered(mut self, answer: &str) -> BatchMaterial {
        self.material.response = Some(SourcedText { event: self.event(), text: answer.to_owned() });
        self.material
    }

    fn interrupted(self) -> BatchMaterial {
        self.material
    }
}

fn observed(batch: &BatchMaterial) -> Vec<ObservationDraft> {
    Extractive.draft(batch)
}

/// One line per observation, most worthy first: `type: title [files]`.
#[track_caller]
fn check(batch: &BatchMaterial, expected: &[&str]) {
    let told: Vec<String> = observed(batch)
        .iter()
        .map(|draft| {
            let kind = draft.kind.as_str();
            let files = draft.files_modified.join(" ");
            format!("{kind}: {}{}", draft.title, if files.is_empty() { files } else { format!(" [{files}]") })
        })
        .collect();
    assert_eq!(told, expected);
}

/// Everything the observations say.
fn told(batch: &BatchMaterial) -> String {
    observed(batch)
        .iter()
        .map(|draft| format!("{} {} {}\n", draft.title, draft.narrative, draft.facts.join(" ")))
        .collect()
}

#[test]
fn routine_makes_nothing() {
    check(
        &Batch::asked("git pull").ran("git pull", "Already up to date.").answered("Already up to date."),
        &[],
    );
    check(&Batch::asked("run the tests").ran("make test", "12 passed").answered("All 12 tests pass."), &[]);
    check(&Batch::asked("look around").read("src/a.rs").read("src/b.rs").interrupted(), &[]);
    check(&Batch::asked("thanks!").answered("You're welcome! Let me know if there is anything else."), &[]);
}

#[test]
fn a_cause_without_headings_is_found() {
    let batch = Batch::asked("why is startup so slow?").answered(
        "Startup is slow because `Config::load` resolves every replica's host name synchronously. \
         The database itself opens in 40 ms.",
    );
    check(
        &batch,
        &[
            "discovery: Startup is slow because `Config::load` resolves every replica's host name synchronously",
        ],
    );
}

#[test]
fn headings_become_labels_and_titles() {
    let batch = Batch::asked("the pool test is flaky").answered(
        "## Root cause\n\nThe worker signals before `pending` is decremented, so the waiter sees a stale count.\n\n\
         ## What I checked\n\nAll tests pass.",
    );
    check(
        &batch,
        &[
            "discovery: Root cause: The worker signals before `pending` is decremented, so the waiter sees a stale count",
        ],
    );
}

#[test]
fn a_commit_is_told_once_with_its_hash() {
    let batch = Batch::asked("fix the flaky pool test")
        .edited("src/pool.rs", "sleep(10)", "notified().await")
        .ran(
            "git commit -am \"$(cat <<'EOF'\nfix(pool): wait for the drain with Notify\n\nThe worker signalled before \
             the counter was decremented, so a waiter could see\na stale count.\n\nCo-Authored-By: A <a@b.c>\nEOF\n)\"",
            "[main 88aa001] fix(pool): wait for the drain with Notify\n 1 file changed",
        )
        .answered("Committed as 88aa001.");
    check(&batch, &["bugfix: fix(pool): wait for the drain with Notify [src/pool.rs]"]);
    let drafts = observed(&batch);
    assert_eq!(drafts[0].subtitle.as_deref(), Some("commit 88aa001 on main"));
    assert_eq!(
        drafts[0].narrative,
        "The worker signalled before the counter was decremented, so a waiter could see a stale count."
    );
}

#[test]
fn the_users_rules_corrections_and_choices_are_decisions() {
    let rule = Batch::asked("commit it, but never push to main from here").answered("Committed.");
    check(&rule, &["decision: User: commit it, but never push to main from here"]);
    let choice = Batch::asked("take sqlite")
        .after("Both work. Plain files, or SQLite with a migration: which do you want?")
        .interrupted();
    assert!(
        told(&choice).contains("In answer to: Both work. Plain files, or SQLite with a migration"),
        "{}",
        told(&choice)
    );
    let correction = Batch::asked("no, the server closes the connection, not the client")
        .after("The client closes the connection.")
        .answered("Right.");
    check(&correction, &["decision: User: no, the server closes the connection, not the client"]);
}

#[test]
fn what_the_user_would_not_have_weighs_most() {
    let importance = |batch: &BatchMaterial| observed(batch)[0].importance.get();
    let correction = Batch::asked("no, use the helper in money.rs")
        .after("Rounding is done by hand in `cart.rs` now.")
        .edited("src/cart.rs", "round()", "money::round()")
        .answered("Done.");
    check(&correction, &["decision: User: no, use the helper in money.rs"]);
    assert_eq!(importance(&correction), 8);
    let rejected = CallOutcome::Rejected { said: Some("never round in the view".to_owned()) };
    let changes = vec![Change { before: String::new(), after: "total.round()".to_owned() }];
    let path = format!("{ROOT}/src/view.rs");
    let batch = Batch::asked("show the total").step(rejected, Action::Edit { path, changes }).interrupted();
    check(&batch, &["decision: User rejected an edit of `src/view.rs`: never round in the view"]);
    assert_eq!(
        (importance(&batch), observed(&batch)[0].files_read.clone()),
        (8, vec!["src/view.rs".to_owned()])
    );
    let undone = Batch::asked("undo that, it hangs")
        .after("The reader takes chunks of 64 kB now, because single lines were slow.")
        .ran("git checkout -- src/reader.rs", "")
        .answered("Taken back.");
    assert!(
        told(&undone).contains("User had this taken back: The reader takes chunks of 64 kB now"),
        "{}",
        told(&undone)
    );
    // A first prompt turns against nothing.
    let first = Batch::asked("don't use floats for money").answered("Understood.");
    assert!(importance(&first) < 8);
}

#[test]
fn a_check_that_fails_at_the_end_is_told_and_one_that_passes_again_is_not() {
    let failing = |batch: Batch| {
        batch.step(
            CallOutcome::Failed { error: "Exit code 101\nerror: 2 targets failed in the cart".to_owned() },
            Action::Command {
                command: "cargo test -p shop".to_owned(),
                description: None,
                output: String::new(),
            },
        )
    };
    let left = failing(Batch::asked("round once").edited("src/cart.rs", "a", "b")).interrupted();
    let told = observed(&left);
    let fails = told.iter().find(|draft| draft.title == "Fails: `cargo test -p shop`").unwrap();
    assert_eq!(fails.files_modified, ["src/cart.rs"]);
    assert_eq!(fails.subject.as_ref().unwrap().as_str(), "check: cargo test -p shop");
    let mended = failing(Batch::asked("round once"))
        .edited("src/cart.rs", "a", "b")
        .ran("cargo test -p shop", "test result: ok. 3 passed; 0 failed")
        .interrupted();
    assert!(observed(&mended).iter().all(|draft| !draft.title.starts_with("Fails")));
}

#[test]
fn answers_to_questions_and_plans_are_decisions() {
    let exchanges = vec![("Which conflict strategy?".to_owned(), "Last writer wins".to_owned())];
    let asked = Batch::asked("go on").step(CallOutcome::Done, Action::Ask { exchanges }).interrupted();
    check(&asked, &["decision: User chose: Last writer wins"]);
    let text = "# Offline sync\n\n1. Add a clock per field\n2. Keep tombstones for 30 days\n".to_owned();
    let plan =
        Batch::asked("plan it").step(CallOutcome::Done, Action::Plan { text, path: None }).interrupted();
    check(&plan, &["decision: Plan: Offline sync"]);
    assert_eq!(observed(&plan)[0].facts, ["Add a clock per field", "Keep tombstones for 30 days"]);
}

#[test]
fn open_ends_are_told_apart_from_facts() {
    let batch = Batch::asked("make the export stream")
        .edited("app/export.py", "q.all()", "q.yield_per(500)")
        .answered(
            "The export streams with `yield_per(500)` now, because loading all rows first hit the 60 s timeout. \
             You will still need to raise `proxy_read_timeout` for the PDF export.",
        );
    let drafts = observed(&batch);
    let open = drafts.iter().find(|draft| draft.title.starts_with("Open: ")).unwrap();
    assert_eq!(open.title, "Open: You will still need to raise `proxy_read_timeout` for the PDF export");
    assert_eq!(open.kind, ObservationType::Decision);
    assert!(
        drafts
            .iter()
            .any(|draft| draft.title.contains("`yield_per(500)`") && draft.kind != ObservationType::Decision)
    );
}

#[test]
fn work_that_never_reached_an_answer_is_told_with_its_files() {
    let batch = Batch::asked("make the config lazy").edited("src/config.rs", "a", "b").interrupted();
    check(&batch, &["change: Begun: make the config lazy [src/config.rs]"]);
    let question = Batch::asked("is the client writing this into the global ignore file?").interrupted();
    check(
        &question,
        &["decision: User (unanswered): is the client writing this into the global ignore file?"],
    );
}

#[test]
fn comments_speak_where_the_answer_does_not() {
    let comment = "// Closes the sender before joining: the receiver blocks for ever otherwise,\n// because a clone lives in the thread.\n";
    let batch = Batch::asked("shutdown hangs")
        .edited("src/pool.rs", "", comment)
        .answered("Build complete. Try it again.");
    assert!(told(&batch).contains("the receiver blocks for ever otherwise"), "{}", told(&batch));
}

#[test]
fn notes_written_into_files_are_read() {
    let note = "# Testing\n\n- The emulator must be started with `--no-window`, otherwise the runner hangs without a display.\n";
    let batch = Batch::asked("write that down").wrote("docs/testing.md", note).answered("Noted.");
    assert!(told(&batch).contains("otherwise the runner hangs"), "{}", told(&batch));
}

#[test]
fn german_answers_are_understood() {
    let batch = Batch::asked("Der Login schlägt bei Umlauten fehl").edited("src/login.ts", "latin1", "utf8").answered(
        "Behoben. Das Passwort wurde in `login.ts` als latin1 gelesen, die Registrierung speichert es aber als UTF-8. \
         Deshalb passt der Hash bei Umlauten nie.\n\nSoll ich das committen?",
    );
    let told = told(&batch);
    assert!(told.contains("Deshalb passt der Hash bei Umlauten nie"), "{told}");
    assert!(!told.contains("Soll ich"), "{told}");
}

#[test]
fn a_private_batch_makes_nothing_of_its_words() {
    let mut batch = Batch::asked("never tell anybody about `secret_plan`")
        .answered("Understood: `secret_plan` must never be shown, because the key is in it.");
    batch.source = BatchSource::Private;
    check(&batch, &[]);
    assert_eq!(Extractive.sum_up(&SessionMaterial { batches: vec![batch] }), None);
}

#[test]
fn what_the_answer_before_said_is_not_said_again() {
    let answer =
        "The cache is never invalidated because `reset()` runs before the write and nobody calls it again.";
    check(&Batch::asked("again please").after(answer).answered(answer), &[]);
}

#[test]
fn a_summary_tells_request_findings_work_and_open_ends() {
    let first = Batch::asked("Please find out why the export times out for big tenants").read("app/export.py").read_in_vain("app/exports.py").answered(
        "**Root cause:** `export_rows` loads all rows before the first byte is written, so nginx gives up after 60 s.",
    );
    let second = Batch::asked("fix it")
        .edited("app/export.py", "q.all()", "q.yield_per(500)")
        .ran("pytest -q 2>&1 | tail -3", "5 passed")
        .ran("git commit -am 'fix: stream the export'", "[main 1a2b3c4] fix: stream the export")
        .answered("Committed as 1a2b3c4. Not pushed yet.");
    let summary = Extractive.sum_up(&SessionMaterial { batches: vec![first, second] }).unwrap();
    assert_eq!(summary.title, "find out why the export times out for big tenants → fix: stream the export");
    assert_eq!(summary.request, "find out why the export times out for big tenants");
    assert!(summary.learned.contains("loads all rows before the first byte"), "{}", summary.learned);
    assert_eq!(summary.completed, "fix: stream the export (1a2b3c4)");
    assert_eq!(summary.next_steps, "Not pushed yet");
    assert_eq!(summary.investigated, "export.py");
    assert_eq!(summary.notes, "Checks: `pytest -q`");
}

#[test]
fn a_summary_leaves_out_what_was_taken_back() {
    let commit = Batch::asked("read in chunks")
        .ran("git commit -am 'perf: read in chunks'", "[main 1a2b3c4] perf: read in chunks")
        .answered("Committed as 1a2b3c4.");
    let revert = Batch::asked("it hangs now, undo that")
        .ran("git revert --no-edit HEAD", "[main 5d6e7f8] Revert \"perf: read in chunks\"")
        .answered("Reverted.");
    let summary = Extractive.sum_up(&SessionMaterial { batches: vec![commit, revert] }).unwrap();
    assert_eq!(summary.completed, "Revert \"perf: read in chunks\" (5d6e7f8)");
}

#[test]
fn an_empty_session_has_no_summary() {
    assert_eq!(Extractive.sum_up(&SessionMaterial::default()), None);
}

/// Texts that look like answers: words, code, headings, lists, leads, fences.
fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        "\\PC{0,40}",
        "(because|never|fixed|not|Root cause|Open question|todo|weil|nicht) ",
        "[a-z]{1,8}[A-Z_.][a-z]{1,8}",
        Just("\n\n".to_owned()),
        Just("\n- ".to_owned()),
        Just("\n## ".to_owned()),
        Just("**".to_owned()),
        Just("`".to_owned()),
        Just("\n```\n".to_owned()),
        Just(". ".to_owned()),
        Just("? ".to_owned()),
        Just(" (".to_owned()),
        Just(")".to_owned()),
        Just("git commit -m \"$(cat <<'EOF'\n".to_owned()),
        Just("EOF\n)\"".to_owned()),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    // Each case is a whole batch and a session of two.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn whatever_a_batch_holds_the_result_keeps_its_promises(
        prompt in text(), answer in text(), previous in text(), command in text(), content in text(), error in text(),
    ) {
        let batch = Batch::asked(&prompt)
            .after(&previous)
            .edited("src/a.rs", &previous, &content)
            .wrote("docs/a.md", &content)
            .ran(&command, &error)
            .step(
                CallOutcome::Failed { error: error.clone() },
                Action::Command { command: command.clone(), description: None, output: String::new() },
            )
            .ran(&format!("X=1 {command}"), "")
            .step(CallOutcome::Done, Action::Ask { exchanges: vec![(prompt.clone(), answer.clone())] })
            .step(CallOutcome::Done, Action::Plan { text: content.clone(), path: None })
            .answered(&answer);
        let drafts = observed(&batch);
        prop_assert_eq!(&drafts, &observed(&batch));
        prop_assert!(drafts.len() <= selection::MOST);
        let mut events: Vec<EventId> = batch.steps.iter().map(|step| step.event).collect();
        events.extend([&batch.prompt, &batch.response].into_iter().flatten().map(|said| said.event));
        for draft in &drafts {
            prop_assert!(!draft.title.trim().is_empty());
            prop_assert!(!draft.title.contains('\n'));
            prop_assert!(!draft.evidence.is_empty());
            prop_assert!(draft.evidence.iter().all(|event| events.contains(event)));
            let touched = ["src/a.rs", "docs/a.md"];
            let files = draft.files_modified.iter().chain(&draft.files_read);
            prop_assert!(files.into_iter().all(|file| touched.contains(&file.as_str())));
        }
        let session = SessionMaterial { batches: vec![batch.clone(), batch] };
        prop_assert_eq!(Extractive.sum_up(&session), Extractive.sum_up(&session));
    }
}

#[test]
fn a_list_of_next_steps_is_the_summarys_and_what_was_left_out_is_not() {
    let batch = Batch::asked("stream the export of `export_rows`")
        .edited("app/export.py", "q.all()", "q.yield_per(500)")
        .answered(
            "The export of `export_rows` is streamed now, because nginx gave up after 60 s.\n\n\
             **Not included:**\n- The import, not pushed yet\n\n**What's left:**\n- Push the branch\n- Ask Ada about `q.count()`\n\n\
             The two failing tests are pre-existing and remain.",
        );
    let summary = Extractive.sum_up(&SessionMaterial { batches: vec![batch] }).unwrap();
    assert_eq!(summary.next_steps, "Push the branch; Ask Ada about `q.count()`");
}
