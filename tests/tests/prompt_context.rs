//! Tests that text injected at a prompt is current, and says what has changed.

use std::fs::File;
use std::time::{Duration, SystemTime};

use recall_tests::repository::Repository;
use recall_tests::{DISCOUNT_ANSWER, Stage};
use serde_json::json;

const QUESTION: &str = "How does the staging gateway treat idle connections?";
const REMARK: &str = "The staging gateway drops idle connections after 50 seconds, see src/gateway.rs.";

fn ask(stage: &Stage, session: &str, prompt: &str) -> String {
    stage
        .hook(&stage.event(session, "UserPromptSubmit", json!({"prompt": prompt, "prompt_id": "p"})))
        .context()
}

/// Writes a file of the project with a time of change `later` from now.
fn write(stage: &Stage, name: &str, later: Duration) {
    let path = stage.project().join(name);
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    File::create(path).unwrap().set_modified(SystemTime::now() + later).unwrap();
}

#[test]
fn an_injected_note_shows_that_its_file_has_changed_since() {
    let stage = Stage::new().daemon();
    let _ = Repository::init(&stage.project());
    write(&stage, "src/gateway.rs", Duration::ZERO);
    assert_eq!(stage.recall(["remember", REMARK, "--type", "gotcha"]).code(), 0);
    stage.flush();
    let context = ask(&stage, "one", QUESTION);
    assert!(context.contains(REMARK) && !context.contains("changed since"), "{context}");
    write(&stage, "src/gateway.rs", Duration::from_secs(7200));
    let context = ask(&stage, "two", QUESTION);
    assert!(context.contains("(src/gateway.rs has changed since)") && context.contains(REMARK), "{context}");
    let start = stage.hook(&stage.event("three", "SessionStart", json!({"source": "startup"}))).context();
    assert!(start.contains("(src/gateway.rs has changed since)"), "a start says so too: {start}");
    stage.flush();
    let why = stage.recall(["why", "three"]).stdout;
    assert!(why.contains("src/gateway.rs has changed since"), "{why}");
}

/// The lines of a file, and an answer that depends on the second one.
const LINES: &str = "pub const HEAT: u32 = 220;\npub const MOST_LOAVES: u32 = 40;\n";
const LOAVES: &str =
    "The oven takes 40 loaves, `MOST_LOAVES` in src/oven.rs, because more of them stay raw in the middle.";

#[test]
fn a_note_is_injected_only_while_the_lines_it_refers_to_are_in_the_file() {
    let stage = Stage::new().daemon();
    let _ = Repository::init(&stage.project());
    let file = stage.project().join("src/oven.rs");
    let event = |name: &str, fields| stage.hook(&stage.event("one", name, fields));
    event("UserPromptSubmit", json!({"prompt": "Why do the loaves stay raw?", "prompt_id": "p"}));
    let call = json!({"tool_name": "Write", "tool_use_id": "t", "prompt_id": "p",
                      "tool_input": {"file_path": file, "content": LINES},
                      "tool_response": {"type": "create", "filePath": file}});
    event("PostToolUse", call);
    event("Stop", json!({"last_assistant_message": LOAVES, "prompt_id": "p"}));
    event("SessionEnd", json!({"reason": "other"}));
    stage.flush();
    let ask_with_file = |session: &str, content: &str| {
        write(&stage, "src/oven.rs", Duration::ZERO);
        std::fs::write(&file, content).unwrap();
        let written = File::options().write(true).open(&file).unwrap();
        written.set_modified(SystemTime::now() + Duration::from_secs(7200)).unwrap();
        ask(&stage, session, "How many loaves does the oven take?")
    };
    let other = LINES.replace("220", "180") + "pub const BAKERS: u32 = 3;\n";
    for (session, content) in [("two", LINES), ("three", other.as_str())] {
        let context = ask_with_file(session, content);
        assert!(
            context.contains("takes 40 loaves") && !context.contains("changed since"),
            "{session}: {context}"
        );
    }
    let context = ask_with_file("four", &LINES.replace("40", "60"));
    assert!(!context.contains("takes 40 loaves"), "{context}");
}

/// Lets three sessions ask the same question, one after the other. The note is injected into each.
fn inject_into_three_sessions(after_each: impl Fn(&Stage, &str)) -> Stage {
    let stage = Stage::new().daemon();
    assert_eq!(stage.recall(["remember", REMARK, "--type", "gotcha"]).code(), 0);
    for session in ["one", "two", "three"] {
        stage.flush();
        let context = ask(&stage, session, QUESTION);
        assert!(context.contains(REMARK), "{session}: {context}");
        after_each(&stage, session);
    }
    stage
}

#[test]
fn a_note_is_injected_again_when_another_session_asks_the_same_question() {
    let stage = inject_into_three_sessions(|_, _| ());
    let output = stage.recall(["context", "--prompt", QUESTION]).stdout;
    assert!(output.contains("best answer (#1)"), "{output}");
}

#[test]
fn a_session_that_left_a_question_unanswered_hides_no_note() {
    let stage = inject_into_three_sessions(|stage, session| {
        stage.hook(&stage.event(session, "SessionEnd", json!({"reason": "other"})));
    });
    stage.flush();
    // The question is the title of a session that has no answer.
    assert_eq!(stage.json(["ctl", "session", "one"])["title"], QUESTION);
}

#[test]
fn a_note_stored_a_moment_ago_is_injected_at_the_next_prompt() {
    let stage = Stage::new().daemon();
    assert_eq!(stage.recall(["remember", REMARK, "--type", "gotcha"]).code(), 0);
    let context = ask(&stage, "one", QUESTION);
    assert!(context.contains(REMARK), "without a flush: {context}");
    // Acknowledged events of hooks are included.
    stage.session("two", "Add a percentage discount to the cart total", &[], DISCOUNT_ANSWER);
    let context = ask(&stage, "three", "Why does rounding of the cart total happen once after summing?");
    assert!(context.contains("rounding each line lost up to a cent"), "{context}");
}

#[test]
fn a_prompt_that_names_an_unknown_issue_gets_nothing_injected() {
    let stage = Stage::new().daemon();
    stage.session("one", "Add a percentage discount to the cart total", &[], DISCOUNT_ANSWER);
    stage.flush();
    let question = "Why does rounding of the cart total happen once after summing?";
    let elsewhere = format!("{question} See https://github.com/acme/shop/issues/97#issuecomment-3");
    assert_eq!(ask(&stage, "two", &elsewhere), "");
    stage.flush();
    let context = ask(&stage, "three", question);
    assert!(context.contains("rounding each line lost up to a cent"), "{context}");
}

#[test]
fn all_open_sessions_with_the_same_question_get_the_answer() {
    let stage = Stage::new().daemon();
    stage.session("one", "Add a percentage discount to the cart total", &[], DISCOUNT_ANSWER);
    stage.flush();
    for session in ["two", "three", "four"] {
        let context = ask(&stage, session, "Why does rounding of the cart total happen once after summing?");
        assert!(context.contains("rounding each line lost up to a cent"), "{session}: {context}");
    }
}

#[test]
fn an_answer_that_a_later_one_changed_is_not_injected() {
    let stage = Stage::new().daemon();
    let turns = [
        (
            "Why do payments fail now and then?",
            "The gateway client gives up after 30 s because the bank answers late.",
        ),
        (
            "ok, raise it then",
            "Done. The gateway client now gives up after 90 s, because the bank once took 70 s.",
        ),
    ];
    for (number, (prompt, answer)) in turns.iter().enumerate() {
        let id = format!("p{number}");
        let event = |name: &str, fields| stage.hook(&stage.event("one", name, fields));
        event("UserPromptSubmit", json!({"prompt": prompt, "prompt_id": id}));
        event("Stop", json!({"last_assistant_message": answer, "prompt_id": id}));
    }
    stage.hook(&stage.event("one", "SessionEnd", json!({"reason": "other"})));
    stage.flush();
    let question = "After how many seconds does the gateway client give up?";
    let context = ask(&stage, "two", question);
    assert!(context.contains("after 90 s") && !context.contains("after 30 s"), "{context}");
    let start = stage.hook(&stage.event("three", "SessionStart", json!({"source": "startup"}))).context();
    assert!(start.contains("after 90 s") && !start.contains("after 30 s"), "{start}");
    let context = ask(&stage, "three", question);
    assert!(!context.contains("after 30 s"), "{context}");
    // A search finds both, the newer one first.
    let found = stage.json(["search", "gateway client gives up"]).to_string();
    assert!(found.find("after 90 s") < found.find("after 30 s"), "{found}");
}
