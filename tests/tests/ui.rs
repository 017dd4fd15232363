//! Tests `recall ui` in a terminal: what a user types, and what the screen then shows.

use recall_tests::Stage;
use recall_tests::screen::Screen;
use serde_json::{Value, json};

const SIZE: (u16, u16) = (120, 30);

#[test]
fn a_user_can_search_resolve_and_forget_in_the_terminal_ui() {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    let remembered = ["remember", "The greenhouse door sticks in winter", "--type", "gotcha"];
    assert_eq!(stage.recall(remembered).code(), 0);
    stage.flush();

    let mut command = stage.command("recall");
    command.arg("ui");
    let mut screen = Screen::of(command, SIZE);
    screen.shows("greenhouse door");
    screen.press("greenhouse");
    screen.until("one result", |shown| shown.contains("1/1"));
    screen.press("\r");
    screen.shows("q leave");

    screen.press("r");
    screen.shows("is resolved");
    screen.press("r");
    screen.shows("is active");
    screen.press("f");
    screen.shows("Forget this permanently?");
    screen.press("n");
    screen.until("the question is gone", |shown| !shown.contains("permanently"));
    screen.press("f");
    screen.shows("Forget this permanently?");
    screen.press("y");
    screen.shows("Forgotten: 1 observation");

    screen.press("\t");
    screen.shows("completed");
    screen.press("\r");
    screen.shows("session first");
    screen.press("q");
    assert!(screen.end().success());
    let found = stage.json(["search", "greenhouse"]);
    assert_eq!(found["results"].as_array().map(Vec::len), Some(0), "{found}");
}

#[test]
fn a_user_can_open_a_thread_and_pin_its_newest_note() {
    let stage = Stage::new().daemon();
    for seconds in ["30", "60", "90"] {
        let note = format!("Timeout of the gateway is {seconds} seconds");
        assert_eq!(stage.recall(["remember", &note, "--type", "gotcha"]).code(), 0);
    }
    let mut command = stage.command("recall");
    command.arg("ui");
    // With this size the list takes the whole width.
    let mut screen = Screen::of(command, (100, 30));
    screen.shows("Timeout of the gateway is 90 seconds");
    // Shift-Tab, twice.
    screen.press("\x1b[Z\x1b[Z");
    screen.shows("Timeout of the gateway is 90 seconds (3)");
    screen.press("\r");
    screen.shows("thread of #3");
    screen.shows("Timeout of the gateway is 30 seconds");
    screen.press("p");
    screen.shows("#3 is pinned");
    assert_eq!(stage.json(["show", "3"])["items"][0]["pinned"], true);
    screen.press("u");
    screen.shows("Undone: pin of #3");
    assert_eq!(stage.json(["show", "3"])["items"][0]["pinned"], false);
    // A click on a tab.
    screen.press("\x1b[<0;12;1M");
    screen.until("the first tab", |shown| !shown.contains("thread of"));
    screen.press("q");
    assert!(screen.end().success());
}

#[test]
fn an_editor_started_by_the_ui_gets_the_terminal_alone() {
    let stage = Stage::new().daemon();
    assert_eq!(stage.recall(["remember", "The greenhouse door sticks", "--type", "gotcha"]).code(), 0);
    let mut command = stage.command("recall");
    // The editor waits for a typed line. The interface would read its keys as commands.
    let editor = r#"sh -c 'echo now type; read word; sed -i s/sticks/$word/ "$1"' editor"#;
    command.arg("ui").env("EDITOR", editor).env_remove("VISUAL").env("TMPDIR", stage.user_home());
    let mut screen = Screen::of(command, SIZE);
    screen.shows("greenhouse door sticks");
    screen.press("\re");
    screen.shows("now type");
    screen.press("quietens\r");
    screen.shows("#1 is edited; u undoes it");
    screen.shows("greenhouse door quietens");
    assert_eq!(stage.json(["show", "1"])["items"][0]["title"], "The greenhouse door quietens");
    screen.press("u");
    screen.shows("Undone: edit of #1");
    screen.shows("greenhouse door sticks");
    // The mouse works again.
    screen.press("\x1b[<0;25;1M");
    screen.until("the sessions", |shown| !shown.contains("greenhouse"));
    screen.press("q");
    assert!(screen.end().success());
}

#[test]
fn a_long_list_is_loaded_in_pages() {
    let stage = Stage::new().daemon();
    assert_eq!(stage.recall(["remember", "Note 0 of the greenhouse", "--type", "gotcha"]).code(), 0);
    let export = stage.recall(["export"]).stdout;
    let (mut lines, note): (Vec<_>, Vec<_>) =
        export.lines().map(str::to_owned).partition(|line| !line.contains("Note 0"));
    let note: Value = serde_json::from_str(&note[0]).unwrap();
    for number in 1..1_350 {
        let mut note = note.clone();
        note["uuid"] = json!(format!("0190a000-0000-7000-8000-{number:012}"));
        note["title"] = json!(format!("Note {number} of the greenhouse"));
        // Several notes have the same time.
        note["created_at"] = json!(note["created_at"].as_i64().unwrap() - number / 7);
        lines.push(note.to_string());
    }
    let file = stage.user_home().join("notes.jsonl");
    std::fs::write(&file, lines.join("\n")).unwrap();
    let output = stage.recall(["import", "recall", file.to_str().unwrap()]);
    assert_eq!(output.code(), 0, "{output:?}");

    let mut command = stage.command("recall");
    command.arg("ui");
    let mut screen = Screen::of(command, SIZE);
    screen.shows("1/300+");
    screen.press("\r");
    for shown in ["300/600+", "600/900+", "900/1200+", "1200/1350 "] {
        screen.press("G");
        screen.shows(shown);
    }
    screen.press("G");
    screen.shows("1350/1350");
    screen.press("q");
    assert!(screen.end().success());
}

#[test]
fn the_ui_without_a_terminal_suggests_another_command() {
    let stage = Stage::new();
    let output = stage.recall(["ui"]);
    assert_eq!(output.code(), 2);
    assert!(output.stderr.contains("recall search"), "{output:?}");
}

#[test]
fn the_ui_finds_notes_by_the_meaning_of_typed_words() {
    let stage = crate::embedding::with_tiny().daemon();
    for note in ["Signin is sluggish", "Deploy rollout"] {
        assert_eq!(stage.recall(["remember", note]).code(), 0);
    }
    stage.flush();
    let mut command = stage.command("recall");
    command.arg("ui");
    let mut screen = Screen::of(command, SIZE);
    // The newest note comes first.
    screen.until("both notes", |shown| {
        shown.contains("Deploy rollout") && shown.find("Deploy rollout") < shown.find("Signin is sluggish")
    });
    screen.press("slow login");
    screen.until("the one that says it in other words", |shown| {
        shown
            .find("Signin is sluggish")
            .is_some_and(|at| shown.find("Deploy rollout").is_none_or(|other| at < other))
    });
    screen.press("\r");
    screen.shows("q leave");
    screen.press("q");
    assert!(screen.end().success());
}
