//! `recall ui` in a terminal of its own: what a user types, and what stands on the screen then.

use recall_tests::Stage;
use recall_tests::screen::Screen;

const SIZE: (u16, u16) = (120, 30);

#[test]
fn a_user_looks_around_and_forgets() {
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
fn without_a_terminal_it_says_what_to_use_instead() {
    let stage = Stage::new();
    let said = stage.recall(["ui"]);
    assert_eq!(said.code(), 2);
    assert!(said.stderr.contains("recall search"), "{said:?}");
}
