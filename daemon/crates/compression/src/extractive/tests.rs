//! Tests the whole compressor with small batches in many styles.

use proptest::prelude::*;

use super::*;
use recall_domain::ids::{EventId, Timestamp};
use recall_domain::material::{Action, BatchSource, CallOutcome, EditHunk, SourcedText, Step, WriteKind};
use recall_domain::observation::ObservationType;

const ROOT: &str = "/home/dev/shop";

/// A batch builder. It numbers events in the order in which they are added.
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
        let changes = vec![EditHunk { before: before.to_owned(), after: after.to_owned() }];
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

/// Returns the text of all observations.
fn observed_text(batch: &BatchMaterial) -> String {
    observed(batch)
        .iter()
        .map(|draft| format!("{} {} {}\n", draft.title, draft.narrative, draft.facts.join(" ")))
        .collect()
}

#[track_caller]
fn check(batch: &BatchMaterial, present: &[&str], absent: &[&str]) {
    let observed_text = observed_text(batch);
    for words in present {
        assert!(observed_text.contains(words), "{words}: {observed_text}");
    }
    for words in absent {
        assert!(!observed_text.contains(words), "{words}: {observed_text}");
    }
}

#[test]
fn a_decision_from_a_planning_file_names_only_that_file() {
    let decision =
        "Invoices are numbered per year because the tax office rejects gaps, so `next_number` takes a lock.";
    for file in ["STATE.md", "docs/adr/0007-numbers.md", "planning/ROADMAP.md", "tasks/12.md"] {
        let batch = Batch::asked("Go on with the invoices")
            .edited("src/invoice.rs", "fn a() {}", "fn b() {}")
            .edited("src/number.rs", "fn a() {}", "fn b() {}")
            .edited(file, "", &format!("## Decisions\n\n- {decision}\n"))
            .answered("Done.");
        let drafts = observed(&batch);
        let found = drafts.iter().find(|draft| draft.title.contains("numbered per year"));
        assert_eq!(
            found.map(|draft| draft.files_modified.clone()),
            Some(vec![file.to_owned()]),
            "{drafts:?}"
        );
    }
}

#[test]
fn routine_batches_yield_no_observations() {
    for batch in [
        Batch::asked("git pull").ran("git pull", "Already up to date.").answered("Already up to date."),
        Batch::asked("run the tests").ran("make test", "12 passed").answered("All 12 tests pass."),
        Batch::asked("look around").read("src/a.rs").read("src/b.rs").interrupted(),
        Batch::asked("thanks!").answered("You're welcome! Let me know if there is anything else."),
    ] {
        assert_eq!(observed(&batch), [], "{batch:?}");
    }
}

#[test]
fn a_cause_in_an_answer_is_kept_without_backticks() {
    let batch = Batch::asked("why is startup so slow?").answered(
        "Startup is slow because `Config::load` resolves every replica's host name synchronously. \
         The database itself opens in 40 ms.\n\nShall I change it?",
    );
    check(&batch, &["Config::load resolves every replica's host name"], &["`"]);
}

#[test]
fn the_fault_described_in_a_commit_message_is_kept() {
    let batch = Batch::asked("fix the flaky pool test")
        .edited("src/pool.rs", "sleep(10)", "notified().await")
        .ran(
            "git commit -am \"$(cat <<'EOF'\nfix(pool): wait for the drain with Notify\n\nThe worker signalled before \
             the counter was decremented, so a waiter could see\na stale count.\n\nCo-Authored-By: A <a@b.c>\nEOF\n)\"",
            "[main 88aa001] fix(pool): wait for the drain with Notify\n 1 file changed",
        )
        .answered("Committed as 88aa001.");
    check(
        &batch,
        &["wait for the drain with Notify", "a waiter could see a stale count"],
        &["Co-Authored-By"],
    );
    assert_eq!(observed(&batch)[0].files_modified, ["src/pool.rs"]);
}

#[test]
fn a_note_from_a_commits_body_has_the_commits_subject_as_title() {
    let batch = Batch::asked("fix the flaky pool test")
        .edited("src/pool.rs", "sleep(10)", "notified().await")
        .ran(
            "git commit -am \"$(cat <<'EOF'\nfix(pool): wait for the drain with Notify\n\nIn March we had two pools. The worker \
             signalled before `Pool::count` was decremented, so a waiter could see a stale count and hang.\nEOF\n)\"",
            "[main 88aa001] fix(pool): wait for the drain with Notify\n 1 file changed",
        )
        .answered("Committed as 88aa001.");
    let drafts = observed(&batch);
    assert_eq!(drafts[0].title, "Pool: wait for the drain with Notify", "{drafts:?}");
    assert!(drafts.iter().skip(1).all(|draft| draft.title != drafts[0].title), "{drafts:?}");
}

#[test]
fn a_note_about_a_turn_with_one_commit_has_the_commits_subject_as_title() {
    let batch = Batch::asked("address the review")
        .edited("src/till.rs", "old", "new")
        .ran("git commit -am 'fix(till): report drawers that stay closed'", "[main 1a2b3c4] fix")
        .answered(
            "Addressed both review comments and pushed 1a2b3c4.\n\nIf the drawer and the printer both fail, the error of the \
             drawer now includes the failure of the printer, because `Till::close` dropped the second one.",
        );
    let observed = observed(&batch);
    let [note] = observed.as_slice() else { panic!("{observed:?}") };
    assert_eq!(note.title, "Till: report drawers that stay closed");
    assert_eq!(note.kind, ObservationType::Bugfix);
    assert!(note.narrative.contains("includes the failure of the printer"), "{note:?}");
    assert!(!note.narrative.contains("review comments"), "{note:?}");
}

#[test]
fn a_rejected_call_is_kept_with_the_users_reason() {
    let rejected = CallOutcome::Rejected { reason: Some("never round in the view".to_owned()) };
    let changes = vec![EditHunk { before: String::new(), after: "total.round()".to_owned() }];
    let path = format!("{ROOT}/src/view.rs");
    let batch = Batch::asked("show the total").step(rejected, Action::Edit { path, changes }).interrupted();
    let drafts = observed(&batch);
    assert_eq!(drafts[0].title, "User rejected an edit of `src/view.rs`: never round in the view");
    assert_eq!((drafts[0].importance.get(), &drafts[0].files_read), (8, &vec!["src/view.rs".to_owned()]));
}

#[test]
fn a_long_rejection_reason_is_put_into_the_narrative() {
    let reason = "the ledger needs the exact amount, and every rounding before it costs the auditors a day";
    let rejected = CallOutcome::Rejected { reason: Some(reason.to_owned()) };
    let action = Action::Command {
        command: format!("cargo run --bin migrate -- --rounding {}", "half-up ".repeat(20)),
        description: None,
        output: String::new(),
    };
    let drafts = observed(&Batch::asked("migrate the totals").step(rejected, action).interrupted());
    assert!(drafts[0].title.starts_with("User rejected the command `cargo run --bin migrate"), "{drafts:?}");
    check_title(&drafts[0].title);
    assert_eq!(drafts[0].narrative, reason);
}

#[test]
fn a_batch_does_not_repeat_the_previous_answer() {
    let cause = "Startup is slow because `Config::load` resolves every replica's host name synchronously.";
    let first = Batch::asked("why is startup so slow?").answered(cause);
    check(&first, &["resolves every replica's host name"], &[]);
    let new = "`export_rows` loads all rows before the first byte is written, so nginx gives up after 60 s.";
    let second = Batch::asked("why does the export time out?")
        .after(cause)
        .answered(&format!("{cause}\n\n**Root cause:** {new}"));
    check(&second, &["nginx gives up after 60 s"], &["resolves every replica's host name"]);
}

#[test]
fn contacts_reminders_and_decisions_in_prompts_are_kept() {
    for (prompt, kind, title) in [
        ("Anna owns billing", ObservationType::Contact, "Anna owns billing"),
        ("Remind me to rotate the key", ObservationType::NextStep, "Rotate the key"),
        ("We decided to drop Windows", ObservationType::Decision, "Decided to drop Windows"),
    ] {
        let drafts = observed(&Batch::asked(prompt).answered("Understood."));
        let found: Vec<_> = drafts.iter().map(|draft| (draft.kind, draft.title.as_str())).collect();
        assert_eq!(found, [(kind, title)]);
    }
}

/// Checks the limits of an index line.
#[track_caller]
fn check_title(title: &str) {
    assert!(title.chars().count() <= 100, "long: {title}");
    assert!(!title.contains('…') && !title.ends_with("..."), "ellipsis: {title}");
    assert!(!title.ends_with('?'), "question: {title}");
    for mark in ["- ", "* ", "+ ", "• ", "# ", "> ", "1. ", "**", "User:", "Plan:", "Open:"] {
        assert!(!title.starts_with(mark), "mark: {title}");
    }
}

#[test]
fn a_check_that_still_fails_is_kept_and_one_that_passes_again_is_not() {
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
    let drafts = observed(&left);
    let fails = drafts.iter().find(|draft| draft.title == "`cargo test -p shop` fails").unwrap();
    assert_eq!(fails.files_modified, ["src/cart.rs"]);
    assert_eq!(fails.subject.as_ref().unwrap().as_str(), "check: cargo test -p shop");
    let mended = failing(Batch::asked("round once"))
        .edited("src/cart.rs", "a", "b")
        .ran("cargo test -p shop", "test result: ok. 3 passed; 0 failed")
        .interrupted();
    assert!(observed(&mended).iter().all(|draft| !draft.title.ends_with(" fails")));
}

#[test]
fn an_added_comment_is_kept_if_the_answer_explains_nothing() {
    let comment = "// Closes the sender before joining: the receiver blocks for ever otherwise,\n// because a clone lives in the thread.\n";
    let batch = Batch::asked("shutdown hangs")
        .edited("src/pool.rs", "", comment)
        .answered("Build complete. Try it again.");
    check(&batch, &["the receiver blocks for ever otherwise"], &[]);
}

#[test]
fn german_statements_are_kept_and_german_questions_are_not() {
    let batch = Batch::asked("Der Login schlägt bei Umlauten fehl").edited("src/login.ts", "latin1", "utf8").answered(
        "Behoben. Das Passwort wurde in `login.ts` als latin1 gelesen, die Registrierung speichert es aber als UTF-8. \
         Deshalb passt der Hash bei Umlauten nie.\n\nSoll ich das committen?",
    );
    let drafts = Extractive.draft_session(&SessionMaterial { batches: vec![batch] }, SessionExtent::Whole);
    assert!(
        mentions(&drafts, "wurde in login.ts als latin1 gelesen") && !mentions(&drafts, "Soll ich"),
        "{drafts:?}"
    );
}

#[test]
fn a_private_batch_yields_no_observations_and_no_summary() {
    let mut batch = Batch::asked("never tell anybody about `secret_plan`")
        .answered("Understood: `secret_plan` must never be shown, because the key is in it.");
    batch.source = BatchSource::Private;
    assert_eq!(observed(&batch), []);
    assert_eq!(Extractive.sum_up(&SessionMaterial { batches: vec![batch] }), None);
}

/// Returns a session in which the second batch contradicts the first.
fn session() -> SessionMaterial {
    let first = Batch::asked("Please find out why the export times out for big tenants").read("app/export.py").answered(
        "**Root cause:** `export_rows` loads all rows before the first byte is written, so nginx gives up after 60 s.",
    );
    let second = Batch::asked("fix it")
        .edited("app/export.py", "q.all()", "q.yield_per(500)")
        .ran("pytest -q 2>&1 | tail -3", "5 passed")
        .ran("git commit -am 'fix: stream the export with yield_per'", "[main 1a2b3c4] fix: stream the export")
        .answered(
            "The export streams with `yield_per(500)` now: `export_rows` loaded all rows before the first byte was \
             written, so nginx gave up after 60 s.",
        );
    SessionMaterial { batches: vec![first, second] }
}

#[test]
fn a_repeated_fact_appears_once_in_a_session() {
    let draft = Extractive.draft_session(&session(), SessionExtent::Whole);
    assert_eq!(draft.batches.len(), 2);
    let observations: Vec<&ObservationDraft> = draft.batches.iter().flatten().collect();
    let mentions_timeout =
        |draft: &&&ObservationDraft| format!("{} {}", draft.title, draft.narrative).contains("after 60 s");
    assert_eq!(observations.iter().filter(mentions_timeout).count(), 1, "{observations:?}");
}

const CAUSES: [&str; 4] = [
    "The invoice counter skipped numbers because `next_number` released its lock before the row was written.",
    "Refunds lost their sign because `Gateway::post` formatted amounts with `abs()`.",
    "The nightly export stopped at 1,000 rows because `fetch_page` ignored the `next` cursor.",
    "Labels printed twice because `PrintQueue::retry` kept the job after the printer had confirmed it.",
];

fn mentions(drafts: &SessionDraft, title: &str) -> bool {
    let has_title = |draft: &ObservationDraft| format!("{} {}", draft.title, draft.narrative).contains(title);
    drafts.batches.iter().flatten().any(has_title)
}

#[test]
fn a_session_keeps_the_observations_of_each_turn() {
    let turns: Vec<BatchMaterial> =
        CAUSES.iter().map(|cause| Batch::asked("Why is that?").answered(cause)).collect();
    let announced: Vec<String> = turns.iter().flat_map(observed).map(|draft| draft.title).collect();
    let session = SessionMaterial { batches: turns };
    let drafts = Extractive.draft_session(&session, SessionExtent::Whole);
    assert_eq!(announced.len(), CAUSES.len(), "{announced:?}");
    for title in announced {
        assert!(mentions(&drafts, &title), "{title}: {drafts:?}");
    }
}

#[test]
fn a_repeated_question_and_answer_yield_one_observation() {
    let ask = |before: Option<&str>| {
        let batch = Batch::asked("Why do refunds lose their sign?");
        before
            .map_or(Batch::asked("Why do refunds lose their sign?"), |before| batch.after(before))
            .answered(CAUSES[1])
    };
    let session = SessionMaterial { batches: vec![ask(None), ask(Some(CAUSES[1]))] };
    let drafts = Extractive.draft_session(&session, SessionExtent::Whole);
    assert!(mentions(&drafts, "Refunds lost their sign"), "{drafts:?}");
    let all: Vec<&ObservationDraft> = drafts.batches.iter().flatten().collect();
    assert_eq!(all.len(), 1, "{all:?}");
    assert!(all[0].evidence.len() == 1 || all[0].evidence.contains(&EventId([2; 16])));
}

#[test]
fn a_session_with_one_fact_yields_one_observation() {
    for fact in [
        "I checked the branch again: the port is read from `OVEN_PORT`.",
        "The old label printer might need a restart after each update.",
        "Restarted the importer, and its log says that two rows have no customer.",
    ] {
        let session = SessionMaterial { batches: vec![Batch::asked("How is it?").answered(fact)] };
        assert_eq!(
            Extractive.draft_session(&session, SessionExtent::Whole).batches.iter().flatten().count(),
            1,
            "{fact}"
        );
    }
    let talk = SessionMaterial { batches: vec![Batch::asked("Thanks").answered("You're welcome!")] };
    assert_eq!(Extractive.draft_session(&talk, SessionExtent::Whole).batches.iter().flatten().count(), 0);
}

#[test]
fn observations_of_a_session_have_different_importances() {
    let draft = Extractive.draft_session(&session(), SessionExtent::Whole);
    let mut importances: Vec<u8> =
        draft.batches.iter().flatten().map(|draft| draft.importance.get()).collect();
    importances.sort_unstable();
    let count = importances.len();
    importances.dedup();
    assert_eq!(importances.len(), count);
}

#[test]
fn a_summary_contains_the_request_the_work_and_the_state_of_git() {
    let summary = Extractive.sum_up(&session()).unwrap();
    assert_eq!(summary.title, "Stream the export with yield_per");
    assert!(summary.request.contains("why the export times out"), "{}", summary.request);
    assert!(summary.completed.ends_with("Commit 1a2b3c4 on main"), "{}", summary.completed);
    assert_eq!(summary.next_steps, "Commit 1a2b3c4 is not pushed");
}

/// Returns the summary of a session. Its answer states what is done, followed by `rest`.
fn summed(rest: &str) -> SummaryDraft {
    let answer = format!(
        "The importer reads the new format now, because the old one had no time zone: `parse_rows` took every stamp \
         for local time.\n\n{rest}"
    );
    let batch = Batch::asked("Make the importer read the new format")
        .edited("src/importer.rs", "parse_rows(row)", "parse_rows(row, zone)")
        .answered(&answer);
    Extractive.sum_up(&SessionMaterial { batches: vec![batch] }).unwrap()
}

/// Checks that `open` is among the next steps, and nowhere else.
#[track_caller]
fn check_open(rest: &str, open: &str) {
    let summary = summed(rest);
    assert!(summary.next_steps.contains(open), "{rest}: {summary:?}");
    for field in [&summary.completed, &summary.learned, &summary.request] {
        assert!(!field.contains(open), "{rest}: {summary:?}");
    }
}

#[test]
fn entries_under_headings_for_open_work_are_only_in_the_next_steps() {
    for (name, entry) in [
        ("## Next steps\n", "Migrate the old bookings"),
        ("### Next Steps:\n", "Migrate the old bookings"),
        ("**Next steps**\n", "Migrate the old bookings"),
        ("**Next steps:**\n", "Migrate the old bookings"),
        ("Next steps:\n", "Migrate the old bookings"),
        ("Next steps:\n\n", "Migrate the old bookings"),
        ("Still to do:\n", "Migrate the old bookings"),
        ("## Still to do\n", "Migrate the old bookings"),
        ("## Remaining\n", "Migrate the old bookings"),
        ("Remaining work:\n", "Migrate the old bookings"),
        ("## What remains\n", "Migrate the old bookings"),
        ("## TODO\n", "Migrate the old bookings"),
        ("TODOs:\n", "Migrate the old bookings"),
        ("## What's left\n", "Migrate the old bookings"),
        ("What’s left:\n", "Migrate the old bookings"),
        ("## Follow-ups\n", "Migrate the old bookings"),
        ("Follow-up work:\n", "Migrate the old bookings"),
        ("## Open\n", "Migrate the old bookings"),
        ("Open items:\n", "Migrate the old bookings"),
        ("## Not done yet\n", "Migrate the old bookings"),
        ("I have not done these:\n", "Migrate the old bookings"),
        ("Left for later:\n", "Migrate the old bookings"),
        ("Before you merge:\n", "Migrate the old bookings"),
        ("## Nächste Schritte\n", "Alte Buchungen umstellen"),
        ("Noch offen:\n", "Alte Buchungen umstellen"),
        ("## Was noch fehlt\n", "Alte Buchungen umstellen"),
        ("## Prochaines étapes\n", "Migrer les anciennes réservations"),
        ("Reste à faire :\n", "Migrer les anciennes réservations"),
        ("## Próximos pasos\n", "Migrar las reservas antiguas"),
        ("Pendiente:\n", "Migrar las reservas antiguas"),
        ("## 次のステップ\n", "古い予約データを新しい形式に移行する"),
        ("残作業：\n", "古い予約データを新しい形式に移行する"),
        ("## 下一步\n", "把旧的预订数据迁移到新的格式上"),
        ("待办：\n", "把旧的预订数据迁移到新的格式上"),
        ("## 다음 단계\n", "이전 예약 데이터를 새 형식으로 이전하기"),
        ("남은 작업:\n", "이전 예약 데이터를 새 형식으로 이전하기"),
    ] {
        for mark in ["- ", "1. ", "* ", "- [ ] "] {
            check_open(&format!("{name}{mark}{entry}\n"), entry);
        }
    }
}

#[test]
fn a_sentence_about_open_work_is_only_in_the_next_steps() {
    for (answer, open) in [
        ("- [ ] Migrate the old bookings", "Migrate the old bookings"),
        ("Next steps: migrate the old bookings.", "igrate the old bookings"),
        ("TODO: migrate the old bookings", "igrate the old bookings"),
        ("We still need to migrate the old bookings.", "migrate the old bookings"),
        ("The old bookings are not migrated yet.", "old bookings are not migrated yet"),
        ("I have not migrated the old bookings.", "not migrated the old bookings"),
        ("The old bookings keep local time; that is not mended yet.", "that is not mended yet"),
        (
            "The old bookings keep local time, and rows that nobody reads stay; they are not migrated yet.",
            "not migrated yet",
        ),
        ("The old bookings are left for later.", "old bookings are left for later"),
        ("All that remains is the old bookings.", "remains is the old bookings"),
        ("Die alten Buchungen müssen noch umgestellt werden.", "alten Buchungen müssen noch"),
        ("Il reste à migrer les anciennes réservations.", "migrer les anciennes réservations"),
        ("Queda por migrar las reservas antiguas.", "migrar las reservas antiguas"),
        ("古い予約データの移行はまだ完了していません。", "まだ完了していません"),
        ("旧的预订数据还没有迁移到新的格式上。", "还没有迁移"),
        ("이전 예약 데이터는 아직 새 형식으로 이전하지 않았습니다.", "이전하지 않았습니다"),
    ] {
        check_open(answer, open);
    }
}

#[test]
fn work_of_a_later_turn_and_answered_offers_are_no_longer_open() {
    let first =
        Batch::asked("Make the importer read the new format").edited("src/importer.rs", "a", "b").answered(
            "The importer reads the new format now, because the old one had no time zone.\n\n## Next steps\n\
         - Migrate the old bookings\n- Describe the format in the handbook\n\nWant me to drop the old table?",
        );
    let second = Batch::asked("Migrate the old bookings, too")
        .edited("src/bookings.rs", "a", "b")
        .answered("Migrated the old bookings: 3 of them had no zone and got that of their hotel.");
    let open = |batches: &[BatchMaterial]| {
        Extractive.sum_up(&SessionMaterial { batches: batches.to_vec() }).unwrap().next_steps
    };
    let before = open(std::slice::from_ref(&first));
    assert!(before.contains("Migrate the old bookings") && before.contains("Want me to drop"), "{before}");
    let after = open(&[first, second]);
    assert!(after.contains("Describe the format in the handbook"), "{after}");
    assert!(!after.contains("old bookings") && !after.contains("Want me to drop"), "{after}");
}

#[test]
fn a_request_is_not_listed_as_learned() {
    let asked = "The importer drops the time zone of every row that comes from the hotels in Lisbon, please look into it";
    let summary = Extractive
        .sum_up(&SessionMaterial { batches: vec![Batch::asked(asked).answered(
            "`parse_rows` took every stamp for local time, so the zone was lost. It is read from the hotel now.",
        )] })
        .unwrap();
    assert!(!summary.learned.contains("Lisbon"), "{summary:?}");
}

#[test]
fn an_empty_session_has_no_summary() {
    assert_eq!(
        Extractive.draft_session(&SessionMaterial::default(), SessionExtent::Whole),
        SessionDraft::default()
    );
}

/// Generates texts that resemble answers: words, code, headings, lists, leads, fences.
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
        "(User: |Plan: |Open: |\\* |1\\. |• |> |Decision: )[A-Z][a-z]{2,9} (is|keeps|drops) (the|its) [a-z]{4,9}",
        Just("... ".to_owned()),
        Just("… ".to_owned()),
        Just("git commit -m \"$(cat <<'EOF'\n".to_owned()),
        Just("EOF\n)\"".to_owned()),
    ];
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| pieces.concat())
}

proptest! {
    // Each case is a whole batch and a session of two batches.
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn drafts_of_any_batch_are_repeatable_and_within_their_limits(
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
        prop_assert!(drafts.len() <= super::drafts::MOST);
        let mut events: Vec<EventId> = batch.steps.iter().map(|step| step.event).collect();
        events.extend([&batch.prompt, &batch.response].into_iter().flatten().map(|sourced| sourced.event));
        for draft in &drafts {
            prop_assert!(!draft.title.trim().is_empty());
            prop_assert!(!draft.title.contains('\n'));
            check_title(&draft.title);
            prop_assert!(!draft.evidence.is_empty());
            prop_assert!(draft.evidence.iter().all(|event| events.contains(event)));
            let touched = ["src/a.rs", "docs/a.md"];
            let files = draft.files_modified.iter().chain(&draft.files_read);
            prop_assert!(files.into_iter().all(|file| touched.contains(&file.as_str())));
        }
        let session = SessionMaterial { batches: vec![batch.clone(), batch] };
        prop_assert_eq!(Extractive.draft_session(&session, SessionExtent::Whole), Extractive.draft_session(&session, SessionExtent::Whole));
    }
}
