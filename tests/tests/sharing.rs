//! Tests that several machines share one memory through a folder that all of them can read. Each machine is a
//! separate home.

use std::path::{Path, PathBuf};

use recall_protocol::query::Remember;
use recall_tests::repository::Repository;
use recall_tests::{CommandOutput, Stage};
use serde_json::{Value, json};

use super::notes_by_hand::noted;

pub(super) const RULE: &str = "Invoices are never deleted, only cancelled: ask Hedwig first";
pub(super) const MOSS: &str = "Moss grows on the northern wall of the boiler house";

/// The folder that all machines can read.
pub(super) struct Shared(tempfile::TempDir);

impl Shared {
    pub(super) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(super) fn path(&self) -> PathBuf {
        self.0.path().join("folder")
    }

    pub(super) fn files(&self) -> Vec<PathBuf> {
        let mut files = Vec::new();
        collect(self.0.path(), &mut files);
        files.sort();
        files
    }

    /// Returns the files of logs.
    pub(super) fn parts(&self) -> Vec<PathBuf> {
        self.files().into_iter().filter(|path| path.extension().is_some_and(|of| of == "jsonl")).collect()
    }

    pub(super) fn contains(&self, text: &str) -> bool {
        self.files().iter().any(|path| contains(path, text))
    }
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { collect(&path, files) } else { files.push(path) }
    }
}

fn contains(path: &Path, text: &str) -> bool {
    let bytes = std::fs::read(path).unwrap();
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}

/// Starts a machine with a clone of the project.
pub(super) fn machine(author: &str, device: &str, more: &str) -> Stage {
    let text = format!("{more}\n[sync]\nauthor = {author:?}\ndevice = {device:?}\n");
    let stage = Stage::new().config(&text);
    let repository = Repository::init(&stage.project());
    repository.git(&["remote", "add", "origin", "git@example.com:acme/shop.git"]);
    stage.daemon()
}

#[track_caller]
pub(super) fn done(output: &CommandOutput) -> &CommandOutput {
    assert_eq!(output.code(), 0, "{output:?}");
    output
}

pub(super) fn share(stage: &Stage, shared: &Shared, terms: &[&str]) {
    std::fs::create_dir_all(shared.path()).unwrap();
    done(&stage.recall(["remote", "add", "team", shared.path().to_str().unwrap(), "--plaintext"]));
    let arguments = ["share", "--with", "team", "--yes"];
    done(&stage.recall(arguments.into_iter().chain(terms.iter().copied())));
}

/// Starts a machine that shares the project.
fn sharing(author: &str, device: &str, shared: &Shared, terms: &[&str]) -> Stage {
    let stage = machine(author, device, "");
    share(&stage, shared, terms);
    stage
}

pub(super) fn remember(stage: &Stage, text: &str) -> String {
    let remembered = stage.json(["remember", text, "--type", "gotcha"]);
    remembered["items"][0]["id"].as_i64().unwrap().to_string()
}

#[track_caller]
pub(super) fn sync(stage: &Stage) -> Value {
    let state = stage.json(["sync", "--now"]);
    assert_eq!(state["shares"][0]["error"], Value::Null, "{state}");
    stage.flush();
    state
}

pub(super) fn exchange(stages: &[&Stage]) {
    for _ in 0..2 {
        stages.iter().for_each(|stage| drop(sync(stage)));
    }
}

/// Returns the only note that a search finds, or `null`.
pub(super) fn found(stage: &Stage, words: &str) -> Value {
    let answer = stage.json(["search", words]);
    assert!(answer["results"].as_array().unwrap().len() <= 1, "{answer}");
    answer["results"][0].clone()
}

pub(super) fn id_of(stage: &Stage, words: &str) -> String {
    found(stage, words)["id"].as_str().map_or_else(|| found(stage, words)["id"].to_string(), str::to_owned)
}

pub(super) fn start(stage: &Stage, session: &str) -> String {
    stage.hook(&stage.event(session, "SessionStart", json!({"source": "startup"}))).context()
}

pub(super) fn ask(stage: &Stage, session: &str, prompt: &str) -> String {
    let prompt = json!({"prompt": prompt, "prompt_id": "p"});
    stage.hook(&stage.event(session, "UserPromptSubmit", prompt)).context()
}

#[test]
fn a_note_of_one_machine_is_found_on_another_with_its_author() {
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    remember(&mia, RULE);
    mia.discount_session("cart");
    mia.flush();
    sync(&mia);
    let ben = sharing("ben", "desktop", &shared, &[]);
    ben.flush();
    let note = found(&ben, "invoices cancelled hedwig");
    assert_eq!((&note["author"], &note["device"]), (&json!("mia"), &json!("laptop")), "{note}");
    assert_eq!(note["title"], RULE);
    // The observations of the session were received too.
    let answer = ben.json(["search", "rounding happens once"]);
    assert_eq!(answer["results"][0]["author"], "mia", "{answer}");
    assert!(ben.recall(["search", "invoices"]).stdout.contains(", by mia, laptop"));
    assert!(ben.recall(["show", &id_of(&ben, "invoices")]).stdout.contains(" by mia, laptop"));
    // A reader does not send the note again. The author's own machine does not receive it, and shows no author for
    // it.
    let state = sync(&ben);
    assert_eq!(state["shares"][0]["logged"], 0, "{state}");
    let state = sync(&mia);
    assert_eq!(state["shares"][0]["received"], 0, "{state}");
    assert_eq!(found(&mia, "invoices cancelled hedwig")["author"], Value::Null);
}

#[test]
fn only_shared_projects_are_sent_and_nothing_without_a_share() {
    let shared = Shared::new();
    let mia = machine("mia", "laptop", "");
    remember(&mia, RULE);
    std::fs::create_dir_all(shared.path()).unwrap();
    done(&mia.recall(["remote", "add", "team", shared.path().to_str().unwrap(), "--plaintext"]));
    let state = mia.json(["sync", "--now"]);
    assert_eq!(state["shares"], json!([]));
    let preview = mia.json(["share", "--with", "team", "--dry-run"]);
    assert_eq!(
        (&preview["observations"], &preview["identity"]),
        (&json!(1), &json!("git:example.com/acme/shop"))
    );
    assert_eq!(preview["samples"], json!([RULE]));
    // Nothing is shared until the question is answered.
    assert_eq!(mia.recall(["share", "--with", "team"]).code(), 2);
    assert_eq!(shared.files(), Vec::<PathBuf>::new());

    let other = mia.user_home().join("private");
    Repository::init(&other).git(&["remote", "add", "origin", "git@example.com:mia/private.git"]);
    mia.json(["remember", MOSS, "--project", other.to_str().unwrap()]);
    mia.json(["remember", "I want tabs in Makefiles only", "--type", "preference"]);
    done(&mia.recall(["share", "--with", "team", "--yes"]));
    assert!(shared.contains("Hedwig") && !shared.contains("Moss") && !shared.contains("Makefiles"));
    // A plain folder has no name that other machines know.
    let plain = mia.user_home().join("plain");
    std::fs::create_dir(&plain).unwrap();
    let output = mia.recall(["share", plain.to_str().unwrap(), "--with", "team", "--yes"]);
    assert!(output.code() == 2 && output.stderr.contains("cannot recognise"), "{output:?}");
}

#[test]
fn edits_and_deletions_reach_all_machines_and_deleted_text_leaves_the_remote() {
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    let ben = sharing("ben", "desktop", &shared, &[]);
    let zoe = sharing("zoe", "devbox", &shared, &[]);
    remember(&mia, RULE);
    exchange(&[&mia, &ben, &zoe]);
    let id = id_of(&ben, "invoices");
    done(&ben.recall(["edit", &id, "--title", "Invoices are cancelled by Ottilie"]));
    done(&ben.recall(["resolve", &id]));
    exchange(&[&mia, &ben, &zoe]);
    for stage in [&mia, &ben, &zoe] {
        let note = found(stage, "invoices");
        assert_eq!(note["title"], "Invoices are cancelled by Ottilie", "{note}");
        assert_eq!(note["status"], "resolved", "{note}");
    }
    assert_eq!(found(&zoe, "invoices")["author"], "mia", "an edit takes nobody's name away");
    done(&zoe.recall(["resolve", "--reopen", &id_of(&zoe, "invoices")]));
    exchange(&[&mia, &ben, &zoe]);
    assert_eq!(found(&mia, "invoices")["status"], "active");

    assert!(shared.contains("Ottilie") && shared.contains("Hedwig"));
    done(&zoe.recall(["forget", &id_of(&zoe, "invoices"), "--yes"]));
    exchange(&[&mia, &ben, &zoe]);
    for stage in [&mia, &ben, &zoe] {
        assert_eq!(found(stage, "invoices"), Value::Null);
        done(&stage.recall(["ctl", "backup"]));
    }
    assert!(!shared.contains("Ottilie") && !shared.contains("Hedwig"));
    // A machine that joins later does not receive it either.
    let new = sharing("new", "desk", &shared, &[]);
    new.flush();
    assert_eq!(found(&new, "invoices"), Value::Null);
}

#[test]
fn changes_by_others_are_listed_with_their_author_and_undone_everywhere() {
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    let ben = sharing("ben", "desktop", &shared, &[]);
    let own = remember(&mia, RULE);
    remember(&mia, MOSS);
    exchange(&[&mia, &ben]);
    let id = id_of(&ben, "invoices");
    done(&ben.recall(["edit", &id, "--title", "Invoices are cancelled by Ottilie"]));
    exchange(&[&mia, &ben]);
    done(&ben.recall(["resolve", &id]));
    exchange(&[&mia, &ben]);
    assert_eq!(found(&mia, "invoices")["status"], "resolved");

    let listed = mia.recall(["undo", "--list"]).stdout;
    assert!(
        listed.contains("resolve") && listed.contains("edit") && listed.contains("ben, desktop"),
        "{listed}"
    );
    let changes = mia.json(["undo", "--list"])["changes"].clone();
    let names = |change: &Value| (change["change"].clone(), change["author"].clone());
    let of_ben = |what: &str| (json!(what), json!("ben"));
    let kinds_and_authors: Vec<_> = changes.as_array().unwrap().iter().map(names).collect();
    assert_eq!(kinds_and_authors, [of_ben("resolve"), of_ben("edit")]);
    let shown = mia.recall(["show", &own]).stdout;
    assert!(
        shown.contains("Last changed by ben, desktop") && shown.contains(&format!("`recall undo {own}`")),
        "{shown}"
    );
    // A plain `undo` does not undo changes of other people.
    assert_eq!(mia.recall(["undo"]).stdout, "There is nothing to undo.\n");
    for what in ["resolve", "edit"] {
        let output = mia.recall(["undo", &own]);
        assert!(
            output.stdout.starts_with(&format!("Undone: {what} of #{own}, by ben, desktop: ")),
            "{output:?}"
        );
    }
    exchange(&[&mia, &ben]);
    for stage in [&mia, &ben] {
        let note = found(stage, "invoices");
        assert_eq!((&note["title"], &note["status"]), (&json!(RULE), &json!("active")), "{note}");
    }
    // Ben's machine lists the undo as a change by mia.
    assert!(ben.recall(["undo", "--list"]).stdout.contains("mia, laptop"));

    // An own change is not undone if another person has changed the note since.
    done(&mia.recall(["edit", &own, "--title", "Invoices are cancelled by Emil"]));
    exchange(&[&mia, &ben]);
    done(&ben.recall(["edit", &id, "--title", "Invoices are cancelled by Frieda"]));
    exchange(&[&mia, &ben]);
    let output = mia.recall(["undo"]);
    assert!(
        output.code() != 0
            && output.stderr.contains("ben has changed")
            && output.stderr.contains(&format!("recall undo {own}")),
        "{output:?}"
    );
    assert!(found(&mia, "invoices")["title"].as_str().unwrap().contains("Frieda"));

    // A deletion cannot be undone, and the list says so.
    done(&ben.recall(["forget", &id_of(&ben, "moss"), "--yes"]));
    exchange(&[&mia, &ben]);
    let listed = mia.recall(["undo", "--list"]).stdout;
    assert!(
        listed.contains("ben, desktop deleted 1 item that you had") && listed.contains("cannot be undone"),
        "{listed}"
    );
    assert!(!listed.contains("Moss") && !ben.recall(["undo", "--list"]).stdout.contains("deleted"));
}

#[test]
fn an_import_does_not_restore_a_note_forgotten_on_another_machine() {
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    let ben = sharing("ben", "desktop", &shared, &[]);
    let id = remember(&mia, RULE);
    let export = mia.user_home().join("memory.jsonl");
    done(&mia.recall(["export", export.to_str().unwrap()]));
    exchange(&[&mia, &ben]);
    let export_of_ben = ben.user_home().join("memory.jsonl");
    done(&ben.recall(["export", export_of_ben.to_str().unwrap()]));
    done(&mia.recall(["forget", &id, "--yes"]));
    exchange(&[&mia, &ben]);
    // In an export, a note of another person keeps its author.
    let of_ben = std::fs::read_to_string(&export_of_ben).unwrap();
    assert!(of_ben.contains("\"author\":\"mia\"") && of_ben.contains("\"device\":\"laptop\""), "{of_ben}");
    for stage in [&mia, &ben] {
        let imported = stage.json(["import", "recall", export.to_str().unwrap()]);
        assert_eq!(imported["rows"]["forgotten"], 1, "{imported}");
        stage.flush();
        assert_eq!(found(stage, "invoices"), Value::Null);
    }
}

const PLAN: &str = "# Plan: coins\n\n1. Exchange rates of the Frankfurt bourse\n2. Tests";

/// Plays a session that has a summary and an approved plan.
fn planned_session(stage: &Stage, id: &str) {
    let plan = json!({"tool_name": "ExitPlanMode", "tool_input": {},
                      "tool_response": {"plan": PLAN, "filePath": stage.user_home().join(".claude/plans/coins.md")}});
    let calls: Vec<Value> = stage.discount_calls().into_iter().chain([plan]).collect();
    stage.session(
        id,
        "Plan the exchange of coins, and round the cart's total once",
        &calls,
        "Rounded the total once.",
    );
    stage.flush();
}

/// Returns the ids of the documents of a kind.
fn documents(stage: &Stage, kind: &str) -> Vec<String> {
    let answer = stage.json(["search", &format!("kind:{kind}")]);
    let results = answer["results"].as_array().unwrap();
    results.iter().map(|result| result["id"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn shared_summaries_and_plans_are_found_with_their_author() {
    for (terms, is_injected) in [(&["--inject"][..], true), (&[], false)] {
        let shared = Shared::new();
        let mia = sharing("mia", "laptop", &shared, &[]);
        planned_session(&mia, "cart");
        sync(&mia);
        // Prompts and answers are not sent. The path of the plan's file is not sent either, because it is in a home
        // folder.
        assert!(shared.contains("Frankfurt") && !shared.contains("coins.md"));
        let ben = sharing("ben", "desktop", &shared, terms);
        ben.flush();
        let (summaries, plans) = (documents(&ben, "summary"), documents(&ben, "plan"));
        assert_eq!((summaries.len(), plans.len()), (1, 1));
        let shown = ben.json(["show", &summaries[0]])["items"][0].clone();
        assert_eq!((&shown["author"], &shown["device"]), (&json!("mia"), &json!("laptop")), "{shown}");
        assert_eq!(shown["session_id"], Value::Null);
        assert!(ben.recall(["show", &summaries[0]]).stdout.contains("by mia, laptop"));
        let plan = ben.json(["show", &plans[0]])["items"][0].clone();
        assert_eq!(
            (&plan["text"], &plan["author"], &plan["state"]),
            (&json!(PLAN), &json!("mia"), &json!("approved"))
        );
        assert_eq!(plan["path"], Value::Null);
        assert!(ben.recall(["search", "Frankfurt bourse"]).stdout.contains(", by mia, laptop"));
        let around = ben.json(["timeline", &summaries[0]]);
        let items = around["items"].as_array().unwrap();
        assert!(!items.is_empty() && items.iter().all(|item| item["author"] == "mia"), "{around}");
        assert!(ben.recall(["timeline", &summaries[0]]).stdout.contains(", by mia"));
        let before = start(&ben, "first");
        assert_eq!(before.contains("Last session of mia"), is_injected, "{before}");
        ben.discount_session("own");
        ben.flush();
        let context = start(&ben, "second");
        let (own, others) = (context.find("## Last session ("), context.find("## Last session of mia"));
        assert!(
            own.is_some() && others.is_some() == is_injected && (others.is_none() || own < others),
            "{context}"
        );
        // The export contains nothing of the other session, because that session does not exist on this machine.
        let export = ben.user_home().join("memory.jsonl");
        done(&ben.recall(["export", export.to_str().unwrap()]));
        assert!(!contains(&export, "Frankfurt"));
        let state = sync(&ben);
        assert_eq!(state["shares"][0]["error"], Value::Null, "{state}");
    }
}

#[test]
fn a_share_proposed_by_a_project_starts_only_after_a_person_accepts_it() {
    let shared = Shared::new();
    let mia = machine("mia", "laptop", "");
    remember(&mia, RULE);
    let output = mia.recall(["share"]);
    assert!(output.code() == 2 && output.stderr.contains("No remote was named"), "{output:?}");
    std::fs::write(mia.project().join(".recall.toml"), "[share]\nremote = 'team'\ninject = true\n").unwrap();
    let output = mia.recall(["share", "--yes"]);
    assert!(
        output.code() == 2 && output.stderr.contains("which the project's .recall.toml proposes"),
        "{output:?}"
    );
    std::fs::create_dir_all(shared.path()).unwrap();
    done(&mia.recall(["remote", "add", "team", shared.path().to_str().unwrap(), "--plaintext"]));
    mia.recall(["sync", "--now"]);
    assert!(mia.recall(["doctor"]).stdout.contains("proposes to share its notes through \"team\""));
    // Nothing is shared until a person answers, whatever the file proposes.
    let output = mia.recall(["share"]);
    assert!(output.code() == 2 && output.stdout.contains(".recall.toml proposes this remote"), "{output:?}");
    assert_eq!((shared.files(), mia.json(["share", "--list"])["shares"].clone()), (Vec::new(), json!([])));
    done(&mia.recall(["share", "--yes"]));
    assert!(shared.contains("Hedwig"));
    assert_eq!(mia.json(["share", "--list"])["shares"][0]["inject"], true);
    assert!(!mia.recall(["doctor"]).stdout.contains("proposes to share"));
    // Later changes of the file have no effect.
    std::fs::write(mia.project().join(".recall.toml"), "[share]\nremote = 'other'\n").unwrap();
    let state = sync(&mia);
    assert_eq!(
        (&state["shares"][0]["remote"], &state["shares"][0]["inject"]),
        (&json!("team"), &json!(true))
    );
}

#[test]
fn status_doctor_and_metrics_report_the_state_of_sharing() {
    let shared = Shared::new();
    let mia = machine("mia", "laptop", "");
    let metrics = |stage: &Stage| stage.recall(["ctl", "status", "--prometheus"]).stdout;
    assert_eq!(mia.json(["ctl", "status"])["sharing"], json!([]));
    assert!(!metrics(&mia).contains("recall_sync"));
    share(&mia, &shared, &[]);
    remember(&mia, RULE);
    sync(&mia);
    let state = mia.json(["ctl", "status"])["sharing"][0].clone();
    assert_eq!(
        (&state["remote"], &state["projects"], &state["waiting"]),
        (&json!("team"), &json!(1), &json!(0))
    );
    assert!(state["synced_at"].is_string() && state["error"].is_null(), "{state}");
    let status = mia.recall(["ctl", "status"]).stdout;
    assert!(status.contains("sharing      team (a folder): 1 project, all sent, in sync "), "{status}");
    assert!(
        mia.recall(["doctor"]).stdout.contains("sharing through team (a folder): 1 project, 0 changes wait")
    );
    let samples = metrics(&mia);
    for name in ["failing", "to_come", "stopped_machines", "clocks_off"] {
        assert!(samples.contains(&format!("recall_sync_{name}{{remote=\"team\"}} 0")), "{name}: {samples}");
    }
    std::fs::rename(shared.path(), shared.0.path().join("aside")).unwrap();
    remember(&mia, MOSS);
    mia.recall(["sync", "--now"]);
    let status = mia.recall(["ctl", "status"]).stdout;
    assert!(status.contains("1 waiting") && status.contains("does not exist"), "{status}");
    let output = mia.recall(["doctor"]).stdout;
    assert!(output.contains("sharing through team (a folder) has failed, and 1 changes wait"), "{output}");
    let samples = metrics(&mia);
    for line in ["recall_sync_failing{remote=\"team\"} 1", "recall_sync_waiting{remote=\"team\"} 1"] {
        assert!(samples.contains(line), "{samples}");
    }
}

#[test]
fn sync_shows_which_machines_have_confirmed_a_deletion() {
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    let ben = sharing("ben", "desktop", &shared, &[]);
    let zoe = sharing("zoe", "devbox", &shared, &[]);
    remember(&mia, RULE);
    let id = remember(&mia, MOSS);
    exchange(&[&mia, &ben, &zoe]);
    let forgotten = |stage: &Stage| sync(stage)["shares"][0]["forgotten"].clone();
    assert_eq!(forgotten(&mia), json!({"total": 0, "everywhere": 0, "machines": 2, "waiting": []}));
    let output = mia.recall(["forget", &id, "--yes"]);
    assert!(done(&output).stdout.contains("`recall sync` shows which machines have"), "{output:?}");
    let state = forgotten(&mia);
    assert_eq!((&state["total"], &state["everywhere"]), (&json!(1), &json!(0)), "{state}");
    assert_eq!(state["waiting"][0]["confirmed"], 0, "{state}");
    sync(&ben);
    let state = forgotten(&mia);
    assert_eq!(state["waiting"][0]["confirmed"], 1, "{state}");
    let missing = state["waiting"][0]["missing"].as_array().unwrap().clone();
    assert!(missing.len() == 1 && missing[0].as_str().unwrap().starts_with("zoe, devbox ("), "{state}");
    let stdout = mia.recall(["sync"]).stdout;
    assert!(
        stdout.contains("the last confirmed by 1 of 2 machines") && stdout.contains("not yet by zoe, devbox"),
        "{stdout}"
    );
    // A machine that claims more progress than it has signed is not believed.
    let files: Vec<PathBuf> =
        shared.files().into_iter().filter(|path| path.ends_with("progress.json")).collect();
    assert_eq!(files.len(), 3);
    for file in files {
        let text = std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, text.replace(":2}", ":9}").replace(":3}", ":9}")).unwrap();
    }
    assert_eq!(forgotten(&mia)["waiting"][0]["confirmed"], 0);
    exchange(&[&ben, &zoe]);
    assert_eq!(forgotten(&mia), json!({"total": 1, "everywhere": 1, "machines": 2, "waiting": []}));
    assert!(mia.recall(["sync"]).stdout.contains("forgotten: 1 item, confirmed by 2 machines"));
    // The deletion was not ben's, so his machine does not count it. Nothing is written when nothing is new.
    assert_eq!(forgotten(&ben)["total"], 0);
    let changed = |shared: &Shared| -> Vec<_> {
        shared.files().into_iter().map(|path| std::fs::metadata(path).unwrap().modified().unwrap()).collect()
    };
    let before = changed(&shared);
    exchange(&[&mia, &ben, &zoe]);
    assert_eq!(changed(&shared), before);
}

#[test]
fn a_search_by_author_finds_only_items_of_that_author() {
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    let zoe = sharing("zoe", "devbox", &shared, &[]);
    let ben = sharing("ben", "desktop", &shared, &[]);
    for (stage, who) in [(&mia, "mia"), (&zoe, "zoe"), (&ben, "ben")] {
        remember(stage, &format!("The invoices of {who} are cancelled by Hedwig"));
    }
    planned_session(&mia, "cart");
    exchange(&[&mia, &zoe, &ben]);
    ben.flush();
    let found = |arguments: &[&str]| -> Vec<String> {
        let answer = ben.json(["search"].iter().chain(arguments).copied());
        let results = answer["results"].as_array().unwrap();
        let mut authors: Vec<String> =
            results.iter().map(|result| result["author"].as_str().unwrap_or("ben").to_owned()).collect();
        authors.sort();
        authors
    };
    assert_eq!(found(&["invoices"]), ["ben", "mia", "zoe"]);
    assert_eq!(found(&["invoices", "--by", "Mia"]), ["mia"]);
    assert_eq!(found(&["invoices", "--by", "ben"]), ["ben"]);
    assert_eq!(found(&["invoices", "--mine"]), ["ben"]);
    assert_eq!(found(&["invoices", "by:mia by:zoe"]), ["mia", "zoe"]);
    assert_eq!(found(&["invoices", "-by:mia"]), ["ben", "zoe"]);
    assert_eq!(found(&["invoices", "by:me"]), ["ben"]);
    assert!(found(&["--by", "mia", "kind:summary"]) == ["mia"] && found(&["kind:plan", "--mine"]).is_empty());
    let output = ben.recall(["search", "invoices", "--by", "mya"]);
    assert!(output.stdout.contains("No author \"mya\" is known. Did you mean \"mia\"?"), "{output:?}");
    // The search also finds a note that is not indexed yet, and imported notes.
    remember(&ben, "The invoices of the attic are cancelled by Ottilie");
    assert_eq!(found(&["invoices", "--mine"]).len(), 2);
    let export = ben.user_home().join("memory.jsonl");
    done(&ben.recall(["export", export.to_str().unwrap()]));
    let alone = machine("eve", "tablet", "");
    done(&alone.recall(["import", "recall", export.to_str().unwrap(), "--own"]));
    alone.flush();
    assert_eq!(alone.json(["search", "invoices", "--by", "mia"])["total"], 1);
    assert_eq!(alone.json(["search", "invoices", "--mine"])["total"], 2);
}

#[test]
fn a_forgotten_summary_stays_deleted_after_an_import_or_a_restore() {
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    let ben = sharing("ben", "desktop", &shared, &[]);
    planned_session(&mia, "cart");
    let export = mia.user_home().join("memory.jsonl");
    done(&mia.recall(["export", export.to_str().unwrap()]));
    exchange(&[&mia, &ben]);
    let backup = ben.user_home().join("backup.db");
    done(&ben.recall(["ctl", "backup", backup.to_str().unwrap()]));
    for kind in ["summary", "plan"] {
        let ids = documents(&ben, kind);
        done(&ben.recall(["forget", &ids[0], "--yes"]));
    }
    exchange(&[&mia, &ben]);
    mia.flush();
    assert!(!shared.contains("Frankfurt"));
    assert_eq!(documents(&mia, "plan"), Vec::<String>::new());
    let none = |ben: &Stage, way: &str| {
        ben.flush();
        assert_eq!((documents(ben, "summary").len(), documents(ben, "plan").len()), (0, 0), "{way}");
    };
    none(&ben, "sync");
    done(&ben.recall(["import", "recall", export.to_str().unwrap()]));
    none(&ben, "import");
    done(&ben.recall(["ctl", "restore", backup.to_str().unwrap(), "--yes"]));
    none(&ben, "restore");
    exchange(&[&mia, &ben]);
    none(&ben, "sync after the restore");
}

#[test]
fn forgetting_a_session_removes_its_summary_from_all_machines() {
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    let ben = sharing("ben", "desktop", &shared, &[]);
    planned_session(&mia, "cart");
    exchange(&[&mia, &ben]);
    assert_eq!((documents(&ben, "summary").len(), documents(&ben, "plan").len()), (1, 1));
    done(&mia.recall(["forget", "--session", "cart", "--yes"]));
    exchange(&[&mia, &ben]);
    ben.flush();
    assert_eq!((documents(&ben, "summary").len(), documents(&ben, "plan").len()), (0, 0));
    assert!(!shared.contains("Frankfurt"));
}

#[test]
fn a_session_imported_on_a_second_machine_is_not_duplicated() {
    let shared = Shared::new();
    let laptop = sharing("mia", "laptop", &shared, &["--personal", "--inject"]);
    let desktop = sharing("mia", "desktop", &shared, &["--personal", "--inject"]);
    planned_session(&laptop, "cart");
    let export = laptop.user_home().join("memory.jsonl");
    done(&laptop.recall(["export", export.to_str().unwrap()]));
    done(&desktop.recall(["import", "recall", export.to_str().unwrap(), "--own"]));
    exchange(&[&laptop, &desktop]);
    for stage in [&laptop, &desktop] {
        stage.flush();
        assert_eq!((documents(stage, "summary").len(), documents(stage, "plan").len()), (1, 1));
        let id = documents(stage, "summary").remove(0);
        assert_eq!(stage.json(["show", &id])["items"][0]["session_id"], "cart");
    }
}

#[test]
fn a_plan_that_contains_a_secret_is_held_back_and_named() {
    let shared = Shared::new();
    let mia = machine("mia", "laptop", "");
    planned_session(&mia, "cart");
    let config = mia.home().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}\n[redaction]\nextra = ['Frankfurt']\n")).unwrap();
    mia.flush();
    std::fs::create_dir_all(shared.path()).unwrap();
    done(&mia.recall(["remote", "add", "team", shared.path().to_str().unwrap(), "--plaintext"]));
    let preview = mia.json(["share", "--with", "team", "--dry-run"]);
    assert_eq!((&preview["summaries"], &preview["plans"]), (&json!(1), &json!(1)), "{preview}");
    let plan = documents(&mia, "plan").remove(0);
    let is_named = |held: &Value| held.as_array().unwrap().iter().any(|held| held["id"] == json!(plan));
    assert!(is_named(&preview["held"]), "{preview}");
    let output = mia.recall(["share", "--with", "team", "--dry-run"]).stdout;
    assert!(output.contains("1 summary and 1 plan"), "{output}");
    done(&mia.recall(["share", "--with", "team", "--yes"]));
    let state = sync(&mia);
    assert!(is_named(&state["shares"][0]["held"]) && !shared.contains("Frankfurt"), "{state}");
}

#[test]
fn notes_of_others_are_injected_only_if_the_share_allows_it() {
    let injected_and_found = |terms: &[&str]| {
        let shared = Shared::new();
        let mia = sharing("mia", "laptop", &shared, &[]);
        remember(&mia, RULE);
        sync(&mia);
        let ben = sharing("ben", "desktop", &shared, terms);
        ben.flush();
        let is_found = found(&ben, "invoices")["title"] == RULE;
        let at_start = start(&ben, "s");
        assert_eq!(at_start.contains("(by mia)"), at_start.contains("Hedwig"), "{at_start}");
        let both = at_start + &ask(&ben, "s", "May I delete invoices, or are they only cancelled?");
        (both.contains("Hedwig"), is_found)
    };
    assert_eq!(injected_and_found(&[]), (false, true));
    assert_eq!(injected_and_found(&["--inject"]), (true, true));
}

#[test]
fn a_newer_note_of_a_colleague_replaces_an_older_one_on_each_machine() {
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    mia.discount_session("cart");
    mia.flush();
    let results = mia.json(["search", "kind:observation rounding happens once"])["results"].clone();
    let older = mia.json(["show", &results[0]["id"].to_string()])["items"][0].clone();
    let uuid = older["uuid"].as_str().unwrap().to_owned();
    let ben = sharing("ben", "desktop", &shared, &["--inject"]);
    let zoe = sharing("zoe", "devbox", &shared, &[]);
    let facts = older["facts"].as_array().unwrap().iter().filter_map(Value::as_str);
    let parts = [&older["title"], &older["narrative"]].into_iter().filter_map(Value::as_str).chain(facts);
    let text = parts.collect::<Vec<_>>().join(". ");
    remember(&ben, &format!("Ottilie wants refunds treated alike. {text}"));
    let noted = mia.json(["sync"])["shares"][0]["logged"].clone();
    exchange(&[&mia, &ben, &zoe]);
    let status = |stage: &Stage| {
        let sql = format!("SELECT status FROM observations WHERE uuid = '{uuid}'");
        stage.json(["sql", &sql])["rows"][0][0].clone()
    };
    assert_eq!((status(&ben), status(&zoe)), (json!("superseded"), json!("superseded")));
    // On mia's machine a search finds the newer note, but it is not injected. The older one stays active, because
    // sessions would otherwise receive neither.
    assert_eq!(status(&mia), "active");
    assert!(start(&mia, "next").contains(older["title"].as_str().unwrap()), "{older}");
    done(&mia.recall(["share", "--with", "team", "--inject", "--yes"]));
    exchange(&[&mia]);
    assert_eq!(status(&mia), "superseded");
    assert!(mia.recall(["show", &older["id"].to_string()]).stdout.contains("Ottilie"));
    assert!(start(&mia, "after").contains("Ottilie"));
    // No machine has sent the replacement to another.
    assert_eq!(mia.json(["sync"])["shares"][0]["logged"], noted);
    assert_eq!(sync(&zoe)["shares"][0]["logged"], 0);
    // A user who wants to keep both notes reopens the older one once.
    done(&mia.recall(["resolve", "--reopen", &older["id"].to_string()]));
    exchange(&[&mia, &ben, &zoe]);
    assert_eq!([&mia, &ben, &zoe].map(status), [json!("active"), json!("active"), json!("active")]);
    done(&mia.recall(["undo"]));
    exchange(&[&mia, &ben, &zoe]);
    assert_eq!(
        [&mia, &ben, &zoe].map(status),
        [json!("superseded"), json!("superseded"), json!("superseded")]
    );
}

#[test]
fn a_persons_own_machines_share_preferences_and_pins() {
    let shared = Shared::new();
    let laptop = sharing("mia", "laptop", &shared, &["--personal", "--inject"]);
    let desktop = sharing("mia", "desktop", &shared, &["--personal", "--inject"]);
    laptop.json(["remember", "I want tabs in Makefiles only", "--type", "preference"]);
    let id = remember(&laptop, RULE);
    done(&laptop.recall(["pin", &id]));
    exchange(&[&laptop, &desktop]);
    let context = start(&desktop, "s");
    assert!(context.contains("Makefiles") && context.contains("Hedwig"), "{context}");
    assert_eq!(desktop.json(["show", &id_of(&desktop, "invoices")])["items"][0]["pinned"], true);
    done(&desktop.recall(["pin", "--off", &id_of(&desktop, "invoices")]));
    exchange(&[&laptop, &desktop]);
    assert_eq!(laptop.json(["show", &id])["items"][0]["pinned"], false);
}

#[test]
fn rejections_reach_all_machines_and_reviews_only_the_reviewers_own() {
    for (terms, to_others) in [(&["--personal", "--inject"][..], true), (&["--inject"], false)] {
        let shared = Shared::new();
        let laptop = sharing("mia", "laptop", &shared, terms);
        let desktop = sharing("mia", "desktop", &shared, terms);
        for text in [RULE, MOSS] {
            let remark = Remember { text: text.to_owned(), importance: Some(9), ..Remember::default() };
            noted(&laptop, remark);
        }
        laptop.flush();
        exchange(&[&laptop, &desktop]);
        let waiting = |stage: &Stage| stage.json(["review"])["waiting"].clone();
        assert_eq!((waiting(&laptop), waiting(&desktop)), (json!(2), json!(2)), "each looks for itself");
        assert!(start(&desktop, "s1").contains("Moss"));
        done(&desktop.recall(["review", "--reject", &id_of(&desktop, "moss")]));
        done(&laptop.recall(["review", "--keep", &id_of(&laptop, "invoices")]));
        exchange(&[&laptop, &desktop]);
        let moss = laptop.json(["show", &id_of(&laptop, "moss")])["items"][0].clone();
        assert_eq!((&moss["status"], &moss["rejected"]), (&json!("resolved"), &json!(true)), "{moss}");
        assert!(!start(&laptop, "s2").contains("Moss"));
        assert_eq!(waiting(&desktop), if to_others { 0 } else { 1 });
        done(&laptop.recall(["resolve", "--reopen", &id_of(&laptop, "moss")]));
        exchange(&[&laptop, &desktop]);
        assert!(start(&desktop, "s3").contains("Moss"));
    }
}

#[test]
fn daemon_kills_between_sync_rounds_lose_and_duplicate_no_notes() {
    let shared = Shared::new();
    let mut mia = sharing("mia", "laptop", &shared, &[]);
    let mut ben = sharing("ben", "desktop", &shared, &[]);
    for number in 0..6 {
        remember(&mia, &format!("Rule {number} of the house was written by Hedwig in chapter {number}"));
        if number % 3 == 0 {
            sync(&mia);
        }
        mia.kill_daemon();
        mia.start_daemon();
        sync(&mia);
        if number % 2 == 0 {
            ben.kill_daemon();
            ben.start_daemon();
        }
        sync(&ben);
    }
    let state = sync(&ben);
    assert_eq!(state["shares"][0]["received"], 6, "{state}");
    assert_eq!(state["shares"][0]["devices"].as_array().unwrap().len(), 1, "{state}");
}

#[test]
fn partial_files_are_waited_for_and_conflict_copies_are_ignored() {
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    remember(&mia, RULE);
    sync(&mia);
    let part = shared.parts().pop().unwrap();
    let whole = std::fs::read(&part).unwrap();
    let folder = part.parent().unwrap();
    std::fs::write(folder.join("000000000001-000000000001 (conflicted copy 2026).jsonl"), b"{}").unwrap();
    std::fs::write(folder.join(".tmp-of-a-killed-daemon"), &whole[..10]).unwrap();
    std::fs::write(&part, &whole[..whole.len() / 2]).unwrap();
    let ben = sharing("ben", "desktop", &shared, &[]);
    let state = sync(&ben);
    let device = &state["shares"][0]["devices"][0];
    assert!(device["error"].as_str().unwrap().contains("is not complete yet"), "{state}");
    assert_eq!(device["seq"], 0);
    std::fs::write(&part, &whole).unwrap();
    let state = sync(&ben);
    assert_eq!(
        (&state["shares"][0]["devices"][0]["error"], &state["shares"][0]["received"]),
        (&Value::Null, &json!(1))
    );
}

#[test]
fn a_forged_damaged_or_missing_log_file_stops_only_its_own_machine() {
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    let zoe = sharing("zoe", "devbox", &shared, &[]);
    remember(&zoe, MOSS);
    sync(&zoe);
    for number in 0..2 {
        remember(&mia, &format!("Rule {number} of the house was written by Hedwig in chapter {number}"));
        sync(&mia);
    }
    let of_mia: Vec<PathBuf> = shared.parts().into_iter().filter(|path| contains(path, "Hedwig")).collect();
    let whole = std::fs::read_to_string(&of_mia[0]).unwrap();
    let stopped = |ben: &Stage| {
        let state = sync(ben);
        let devices = state["shares"][0]["devices"].as_array().unwrap().clone();
        let errors: Vec<String> =
            devices.iter().filter_map(|device| device["error"].as_str().map(str::to_owned)).collect();
        assert_eq!(found(ben, "moss")["author"], "zoe", "the others are read");
        errors.join("; ")
    };
    std::fs::write(&of_mia[0], whole.replace("\"author\":\"mia\"", "\"author\":\"eve\"")).unwrap();
    let ben = sharing("ben", "desktop", &shared, &[]);
    assert!(stopped(&ben).contains("is not signed by its machine"));
    std::fs::write(&of_mia[0], whole.replace("Hedwig", "Hedwyg")).unwrap();
    assert!(stopped(&ben).contains("is damaged"));
    std::fs::remove_file(&of_mia[0]).unwrap();
    assert!(stopped(&ben).contains("its entries 1 to 1 are missing"));
    // The author's machine notices that the file is missing, and sends it again.
    sync(&mia);
    assert_eq!(stopped(&ben), "");
    assert_eq!(ben.json(["sync"])["shares"][0]["received"], 3);
}

#[test]
fn a_copied_data_folder_gets_its_own_device_id_and_no_notes_are_lost() {
    let shared = Shared::new();
    let mut mia = sharing("mia", "laptop", &shared, &[]);
    remember(&mia, RULE);
    sync(&mia);
    assert!(mia.stop_daemon().success());
    // The copy is another machine that was set up from an image of the first.
    let mut copy = Stage::new();
    let copied = std::process::Command::new("cp")
        .arg("-r")
        .args([mia.home().join("data"), mia.home().join("config.toml")])
        .arg({
            std::fs::create_dir_all(copy.home()).unwrap();
            copy.home()
        })
        .status()
        .unwrap();
    assert!(copied.success());
    let repository = Repository::init(&copy.project());
    repository.git(&["remote", "add", "origin", "git@example.com:acme/shop.git"]);
    mia.start_daemon();
    copy.start_daemon();
    let project = |stage: &Stage| stage.project().to_str().unwrap().to_owned();
    remember(&mia, MOSS);
    sync(&mia);
    copy.json([
        "remember",
        "Cents are integers in every table of the ledger",
        "--project",
        "git:example.com/acme/shop",
    ]);
    let state = sync(&copy);
    assert!(state["notices"][0].as_str().unwrap().contains("nothing is lost"), "{state}");
    sync(&mia);
    let (one, other) = (sync(&mia), sync(&copy));
    assert_ne!(one["device"], other["device"]);
    for (stage, other) in [(&mia, &copy), (&copy, &mia)] {
        for words in ["hedwig", "moss", "cents ledger"] {
            let answer = stage.json(["search", words, "--all"]);
            assert_eq!(
                answer["total"],
                1,
                "{words} in {}, beside {}: {answer}",
                project(stage),
                project(other)
            );
        }
    }
    // After that there are no more notices and no errors.
    assert_eq!(
        (sync(&mia)["notices"].clone(), sync(&copy)["shares"][0]["error"].clone()),
        (json!([]), Value::Null)
    );
}

#[test]
fn a_remote_restored_from_an_older_backup_is_sent_the_missing_entries() {
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    for number in 0..3 {
        remember(&mia, &format!("Rule {number} of the house was written by Hedwig in chapter {number}"));
        sync(&mia);
    }
    for part in shared.parts().into_iter().skip(1) {
        std::fs::remove_file(part).unwrap();
    }
    let state = sync(&mia);
    assert_eq!(state["notices"], json!([]), "{state}");
    let ben = sharing("ben", "desktop", &shared, &[]);
    assert_eq!(sync(&ben)["shares"][0]["received"], 3);
}

#[test]
fn a_missing_or_different_shared_folder_is_reported_and_loses_nothing() {
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    let aside = shared.0.path().join("aside");
    std::fs::rename(shared.path(), &aside).unwrap();
    let failing = |expected: &str| {
        let output = mia.recall(["sync", "--now"]);
        assert!(output.code() == 1 && output.stdout.contains(expected), "{expected}: {output:?}");
    };
    remember(&mia, RULE);
    failing("does not exist");
    std::fs::create_dir(shared.path()).unwrap();
    failing("it may not be mounted");
    assert_eq!(shared.parts(), Vec::<PathBuf>::new());
    std::fs::write(shared.path().join("recall-sync.json"), "{\"format\":\"recall-sync\",\"id\":\"another\"}")
        .unwrap();
    failing("is a different folder than before");
    std::fs::remove_dir_all(shared.path()).unwrap();
    std::fs::rename(&aside, shared.path()).unwrap();
    let state = sync(&mia);
    assert_eq!((&state["shares"][0]["sent"], shared.contains("Hedwig")), (&json!(1), true), "{state}");
}

#[test]
fn a_damaged_device_key_is_named_and_not_replaced() {
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    sync(&mia);
    remember(&mia, RULE);
    let key = mia.home().join("data/device.json");
    std::fs::write(&key, "torn").unwrap();
    let output = mia.recall(["sync", "--now"]);
    assert!(output.code() == 1 && output.stdout.contains("data/device.json"), "{output:?}");
    assert!(!output.stdout.contains("in sync"), "{output:?}");
    assert_eq!(std::fs::read_to_string(&key).unwrap(), "torn");
    std::fs::remove_file(&key).unwrap();
    let state = sync(&mia);
    assert!(shared.contains("Hedwig") && state["shares"][0]["sent"].as_i64() > Some(0), "{state}");
}

#[test]
fn a_shared_folder_that_cannot_be_written_is_still_read() {
    if rustix::process::getuid().is_root() {
        eprintln!("skipped: root may write everywhere");
        return;
    }
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    remember(&mia, RULE);
    sync(&mia);
    let ben = sharing("ben", "desktop", &shared, &[]);
    remember(&ben, MOSS);
    let space = shared.parts()[0].parent().unwrap().parent().unwrap().to_owned();
    let mode =
        |mode| std::fs::set_permissions(&space, std::os::unix::fs::PermissionsExt::from_mode(mode)).unwrap();
    mode(0o555);
    let output = ben.recall(["sync", "--now"]);
    mode(0o755);
    assert!(output.code() == 1 && output.stdout.contains("cannot make"), "{output:?}");
    ben.flush();
    assert_eq!(found(&ben, "hedwig")["author"], "mia");
}

#[test]
fn a_note_that_current_rules_call_a_secret_is_held_back_and_named() {
    let shared = Shared::new();
    let mia = machine("mia", "laptop", "");
    let id = remember(&mia, "The badge of the boiler house is ACME-4711");
    remember(&mia, RULE);
    let config = mia.home().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}\n[redaction]\nextra = ['ACME-[0-9]+']\n")).unwrap();
    mia.flush();
    std::fs::create_dir_all(shared.path()).unwrap();
    done(&mia.recall(["remote", "add", "team", shared.path().to_str().unwrap(), "--plaintext"]));
    let preview = mia.json(["share", "--with", "team", "--dry-run"]);
    assert_eq!(preview["held"][0]["id"].to_string(), id, "{preview}");
    assert!(!preview.to_string().contains("ACME-4711"), "{preview}");
    done(&mia.recall(["share", "--with", "team", "--yes"]));
    let state = sync(&mia);
    assert_eq!(state["shares"][0]["held"][0]["id"].to_string(), id, "{state}");
    assert!(mia.recall(["sync"]).stdout.contains("held back"));
    // The whole badge is searched for, because the number alone sometimes occurs in a hash.
    assert!(shared.contains("Hedwig") && !shared.contains("ACME-4711") && !shared.contains("boiler"));
    // The log goes on without the note that is held back.
    let ben = sharing("ben", "desktop", &shared, &[]);
    assert_eq!(sync(&ben)["shares"][0]["received"], 1);
}

#[test]
fn unshare_removes_received_notes_and_keeps_own_notes() {
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    let ben = sharing("ben", "desktop", &shared, &[]);
    remember(&mia, RULE);
    remember(&ben, MOSS);
    exchange(&[&mia, &ben]);
    let output = ben.recall(["unshare"]);
    assert!(done(&output).stdout.contains("1 item from others was removed"), "{output:?}");
    ben.flush();
    assert_eq!((found(&ben, "hedwig"), found(&ben, "moss")["title"].clone()), (Value::Null, json!(MOSS)));
    assert_eq!(ben.json(["share", "--list"])["shares"], json!([]));
    assert_eq!(found(&mia, "moss")["author"], "ben");
    let output = ben.recall(["unshare"]);
    assert!(output.code() == 1 && output.stderr.contains("is not shared"), "{output:?}");
    // A machine that shares again reads everything again, and sends nothing twice.
    done(&ben.recall(["share", "--with", "team", "--yes"]));
    exchange(&[&mia, &ben]);
    assert_eq!(
        (found(&ben, "hedwig")["author"].clone(), found(&mia, "moss")["author"].clone()),
        (json!("mia"), json!("ben"))
    );
    done(&ben.recall(["unshare"]));
    done(&ben.recall(["remote", "remove", "team"]));
}

#[test]
fn a_mistake_in_the_settings_does_not_end_a_share() {
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    remember(&mia, RULE);
    sync(&mia);
    let ben = sharing("ben", "desktop", &shared, &[]);
    let config = ben.home().join("config.toml");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, format!("{text}\n[timers\n")).unwrap();
    ben.recall(["sync", "--now"]);
    assert_eq!(found(&ben, "hedwig")["author"], "mia");
    std::fs::write(&config, text).unwrap();
    assert_eq!(sync(&ben)["shares"][0]["received"], 1);
}

#[test]
fn the_key_of_a_data_folder_is_in_no_backup_and_in_no_export() {
    let shared = Shared::new();
    let mia = sharing("mia", "laptop", &shared, &[]);
    remember(&mia, RULE);
    sync(&mia);
    let file = mia.home().join("data/device.json");
    let mode = std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(&file).unwrap().permissions());
    assert_eq!(mode & 0o777, 0o600);
    let key: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    let seed = key["seed"].as_str().unwrap();
    let (export, backup) = (mia.user_home().join("memory.jsonl"), mia.user_home().join("backup.db"));
    done(&mia.recall(["export", export.to_str().unwrap()]));
    done(&mia.recall(["ctl", "backup", backup.to_str().unwrap()]));
    for path in [&export, &backup] {
        assert!(!contains(path, seed), "{}", path.display());
    }
    assert!(!shared.contains(seed));
}

#[test]
fn mistaken_sharing_commands_fail_and_name_the_mistake() {
    let stage = machine("mia", "laptop", "");
    for (arguments, code, expected) in [
        (&["remote", "add", "team", "/nowhere/at/all"][..], 1, "There is no folder"),
        (&["remote", "add", "team", "https://host/a"], 2, "error: The address is neither a folder"),
        (&["remote", "remove", "team"], 2, "There is no remote"),
        (&["share", "--with", "team"], 2, "There is no remote"),
        (&["share", "--with", "team", "--list"], 2, "cannot be used with"),
        (&["unshare"], 1, "is not shared"),
    ] {
        let output = stage.recall(arguments.iter().copied());
        assert!(output.code() == code && output.stderr.contains(expected), "{arguments:?}: {output:?}");
    }
    assert!(stage.recall(["sync"]).stdout.starts_with("Nothing is shared."));
    assert!(stage.recall(["share", "--list"]).stdout.starts_with("Nothing is shared."));
    assert!(stage.recall(["remote", "list"]).stdout.starts_with("No remotes."));
    let shared = Shared::new();
    share(&stage, &shared, &[]);
    let output = stage.recall(["share", "/nowhere/at/all", "--with", "team"]);
    assert!(output.code() == 1 && output.stderr.contains("There is no folder /nowhere/at/all"), "{output:?}");
}

#[test]
fn a_second_remote_receives_all_notes_from_before_it_was_added() {
    let (first, second) = (Shared::new(), Shared::new());
    let mia = sharing("mia", "laptop", &first, &[]);
    for number in 0..3 {
        remember(&mia, &format!("Rule {number} of the house was written by Hedwig in chapter {number}"));
        sync(&mia);
    }
    std::fs::create_dir_all(second.path()).unwrap();
    done(&mia.recall(["remote", "add", "other", second.path().to_str().unwrap(), "--plaintext"]));
    done(&mia.recall(["share", "--with", "other", "--yes"]));
    let ben = sharing("ben", "desktop", &second, &[]);
    assert_eq!(sync(&ben)["shares"][0]["received"], 3);
    // Notes that were received from one remote are not sent to the other.
    remember(&ben, MOSS);
    exchange(&[&ben, &mia]);
    assert_eq!(found(&mia, "moss")["author"], "ben");
    assert!(second.contains("Moss") && !first.contains("Moss"));
}
