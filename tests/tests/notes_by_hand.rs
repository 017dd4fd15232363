//! Tests that notes which a person wrote or pinned come before everything that machines made: at a start, at a prompt
//! about them, and in a search.

use std::time::Duration;

use recall_protocol::client::Connection;
use recall_protocol::frame::Deadline;
use recall_protocol::query::{AgentRemark, Remember};
use recall_protocol::wire::{Reply, Request};
use recall_tests::Stage;
use serde_json::{Value, json};

const MOSS: &str =
    "Moss grows on the northern wall of the boiler house, where the gutter leaked in the storm";
const RULE: &str = "Invoices are never deleted, only cancelled: ask Hedwig first";

fn start(stage: &Stage, session: &str) -> String {
    stage.hook(&stage.event(session, "SessionStart", json!({"source": "startup"}))).context()
}

fn ask(stage: &Stage, session: &str, prompt: &str) -> String {
    stage
        .hook(&stage.event(session, "UserPromptSubmit", json!({"prompt": prompt, "prompt_id": "p"})))
        .context()
}

/// Starts a stage with sessions that mention invoices more often than the rule does.
fn busy() -> Stage {
    let stage = Stage::new().daemon();
    for (id, prompt, answer) in [
        (
            "pdf",
            "Print invoices as PDF.",
            "Invoices are printed as PDF by `invoices/print.rs`; invoices keep their layout.",
        ),
        (
            "mail",
            "Send the invoices by mail.",
            "Decision: invoices are sent by mail at night, because the invoices of a day are one batch.",
        ),
        (
            "tax",
            "Which invoices carry tax?",
            "All invoices carry tax. Foreign invoices name the country of the invoices' tax.",
        ),
        (
            "number",
            "Number the invoices.",
            "Invoices are numbered per customer. The number of invoices is read from `invoices/number.rs`.",
        ),
    ] {
        stage.session(id, prompt, &[], answer);
    }
    stage.discount_session("cart");
    stage.flush();
    stage
}

/// Stores a note of an agent's model. No person wrote it.
pub(crate) fn noted(stage: &Stage, remark: Remember) {
    let deadline = || Deadline::after(Duration::from_secs(30));
    let remark = Remember { project: stage.project().to_string_lossy().into_owned(), ..remark };
    let mut connection = Connection::open_socket(&stage.socket(), deadline()).unwrap();
    let reply = connection.ask(&Request::Query(AgentRemark { remark }.into()), deadline()).unwrap();
    assert!(matches!(reply, Reply::Json(_)), "{reply:?}");
}

fn first_of(stage: &Stage, query: &str) -> Value {
    stage.json(["search", query, "--explain"])["results"][0].clone()
}

#[test]
fn a_note_written_by_hand_ranks_first_in_a_search() {
    let stage = busy();
    assert_ne!(first_of(&stage, "invoices")["title"], RULE);
    assert_eq!(stage.recall(["remember", RULE]).code(), 0);
    for query in ["invoices", "Invoice", "cancelled invoices"] {
        let first = first_of(&stage, query);
        assert_eq!(first["title"], RULE, "{query}: {first}");
        assert!(first["why"]["factors"]["by_hand"].as_f64().unwrap() > 1.0, "{first}");
    }
    // The rule has one of these words. Others have all of them.
    assert_ne!(first_of(&stage, "are invoices sent by mail at night")["title"], RULE);
    // A note that no longer holds does not come first.
    let id = first_of(&stage, "invoices")["id"].to_string();
    assert_eq!(stage.recall(["resolve", &id]).code(), 0);
    stage.flush();
    assert_ne!(first_of(&stage, "invoices")["title"], RULE);
}

#[test]
fn the_newer_of_two_conflicting_notes_ranks_first() {
    let stage = Stage::new().daemon();
    for (old, new) in [
        ("Orders are kept in SQLite", "Orders are kept in Postgres"),
        ("The gateway gives up after 30 s", "The gateway gives up after 90 s"),
        ("Invoices are rendered by wkhtmltopdf", "Invoices are rendered by Typst"),
    ] {
        assert_eq!(stage.recall(["remember", old]).code(), 0);
        assert_eq!(stage.recall(["remember", new]).code(), 0);
        let found = stage.json(["search", old]);
        let titles: Vec<&str> =
            found["results"].as_array().unwrap().iter().filter_map(|one| one["title"].as_str()).collect();
        let at = |title: &str| titles.iter().position(|found| *found == title);
        // If both notes are about one thing, a newer value replaces the older note.
        assert!(at(new) == Some(0) && at(old) != Some(0), "{titles:?}");
    }
}

#[test]
fn a_pinned_or_edited_note_ranks_first_in_a_search() {
    let stage = Stage::new().daemon();
    noted(
        &stage,
        Remember {
            text: "Invoices are printed, invoices are mailed, and invoices are kept".to_owned(),
            ..Remember::default()
        },
    );
    noted(
        &stage,
        Remember {
            text: "Once a year the ledger closes and all invoices go to the archive".to_owned(),
            ..Remember::default()
        },
    );
    let first = || first_of(&stage, "invoices")["id"].clone();
    assert_eq!(first(), 1);
    assert_eq!(stage.recall(["pin", "2"]).code(), 0);
    stage.flush();
    assert_eq!(first(), 2);
    assert_eq!(stage.recall(["undo"]).code(), 0);
    stage.flush();
    assert_eq!(first(), 1);
    assert_eq!(stage.recall(["edit", "2", "--title", "Hedwig keeps the archive of invoices"]).code(), 0);
    stage.flush();
    assert_eq!(first(), 2);
    let start = start(&stage, "later");
    let own = start.find("## Written or pinned by hand").expect(&start);
    let known = start.find("## Known").expect(&start);
    assert!(start[own..known].contains("Hedwig keeps the archive"), "{start}");
    assert!(start[known..].contains("invoices are mailed"), "{start}");
}

#[test]
fn notes_by_hand_come_first_at_a_session_start_and_leave_room_for_others() {
    let stage = busy();
    for number in 0..40 {
        let rule = format!("Rule {number}: the ledger of year {number} is closed and stays as it is");
        assert_eq!(stage.recall(["remember", &rule, "--importance", "6"]).code(), 0);
    }
    let output = stage.recall(["remember", RULE]);
    assert!(
        output
            .stdout
            .ends_with("get this note when they start (position 1), and at prompts and commands about it.\n"),
        "{output:?}"
    );
    let context = start(&stage, "later");
    let own = context.find("## Written or pinned by hand").expect(&context);
    let last = context.find("## Last session").expect(&context);
    let known = context.find("## Known").expect(&context);
    assert!(
        own < context.find(RULE).unwrap() && context.find(RULE).unwrap() < last && last < known,
        "{context}"
    );
    assert!(last - own <= context.len() * 6 / 10, "the state and what machines noted have room: {context}");
    // There is no room for one more note of low importance, and the command says so.
    let output = stage.recall(["remember", MOSS, "--importance", "1"]);
    assert!(output.stdout.contains("The text at their start has no room for it; `recall pin "), "{output:?}");
    assert!(!start(&stage, "later still").contains("Moss"), "{output:?}");
    let id = output.stdout.split(['#', ':']).nth(1).unwrap();
    assert_eq!(stage.recall(["pin", id]).code(), 0);
    assert!(start(&stage, "at last").contains(MOSS));
}

#[test]
fn a_note_by_hand_is_injected_only_at_a_prompt_about_it() {
    let stage = busy();
    // This session started before the note was written.
    start(&stage, "running");
    assert_eq!(stage.recall(["remember", RULE]).code(), 0);
    for other in
        ["Make the buttons of the basket round", "Go ahead", "Where does the layout of the basket come from?"]
    {
        let context = ask(&stage, "running", other);
        assert!(!context.contains("Hedwig"), "{other}: {context}");
    }
    let context = ask(&stage, "running", "Write a job that deletes old invoices");
    assert!(context.contains(RULE), "{context}");
    assert_eq!(context.matches("Hedwig").count(), 1, "{context}");
    let again = ask(&stage, "running", "Write another job that deletes invoices");
    assert!(!again.contains("Hedwig"), "once: {again}");
    // A session that got the note at its start does not get it again.
    assert!(start(&stage, "new").contains(RULE));
    assert!(!ask(&stage, "new", "Write a job that deletes old invoices").contains("Hedwig"));
    stage.flush();
    let why = stage.json(["why", "running"]).to_string();
    assert!(why.contains("written or pinned by hand, and about this"), "{why}");
}
