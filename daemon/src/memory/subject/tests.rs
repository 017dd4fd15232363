use super::*;

#[track_caller]
fn check(said: &str, expected: Option<&str>) {
    let key = of_title(ObservationType::Decision, said);
    assert_eq!(key.as_ref().map(SubjectKey::as_str), expected, "{said:?}");
}

#[test]
fn a_thing_and_its_value() {
    let retries = Some("value: is number: max_retries | ");
    check("`max_retries` is 3", retries);
    check("`max_retries` is now 5, because the gateway is slow", retries);
    check("Raised `max_retries` from 3 to 5", retries);
    check("The request limit is 30 s for the shop", Some("value: is number: request limit | for the shop"));
    check("The request limit is 60 s for the blog", Some("value: is number: request limit | for the blog"));
    check("`retry` is enabled", Some("value: is switch: retry | "));
    check("`retry` is no longer supported", Some("value: is switch: retry | "));
    check("Disabled `retry`", Some("value: is switch: retry | "));
    check("The log format defaults to `json`", Some("value: defaults name: log format | "));
    check("The daemon listens on `:8080`", None);
    check("The shop daemon listens on `:8080`", Some("value: runs number: shop daemon | "));
}

#[test]
fn what_has_no_value_or_no_name_has_no_key() {
    for said in [
        "`Config::load` is slow because it resolves host names",
        "It is 3",
        "This is `broken`",
        "`pool` uses 5 threads",
        "Is `max_retries` 3?",
        "The cache is never invalidated",
        "Rounding happens once, after summing",
        "A limit that nobody would ever word the same way twice again is 3",
        "`max_retries` was 3",
        "",
        "is 3",
    ] {
        check(said, None);
    }
}

#[test]
fn a_rule_and_its_contrary_are_one_subject() {
    check("User: always use tabs", Some("rule: use tabs"));
    check("User: please never use tabs", Some("rule: use tabs"));
    check("User: don't push to main, ask first", Some("rule: push to main"));
    check("User: use pnpm instead of npm", Some("instead of: npm"));
    check("User: always", None);
    assert_eq!(of_title(ObservationType::Discovery, "Always use tabs"), None, "only who decides rules");
}

#[track_caller]
fn task(open: &str, done: &str, is_settled: bool) {
    let (open_key, done_key) = (of_title(ObservationType::Decision, open), of_completed_task(done));
    assert_eq!(open_key.is_some() && open_key == done_key, is_settled, "{open_key:?} {done_key:?}");
}

#[test]
fn what_was_left_to_do_is_done_in_the_same_words() {
    let open = "Open: You will still need to raise `proxy_read_timeout` for the PDF export";
    task(open, "Raised `proxy_read_timeout` to 120 s", true);
    task(open, "chore: raise `proxy_read_timeout`", true);
    task(open, "`proxy_read_timeout` is raised now", true);
    task(open, "Lowered `proxy_read_timeout`", false);
    task(open, "Raised `proxy_send_timeout`", false);
    task(open, "I have not raised `proxy_read_timeout`", false);
    task(open, "You should raise `proxy_read_timeout`", false);
    task("Open: PR#68 is not merged yet", "Merged PR#68", true);
    task("Open: PR#68 is not merged yet", "Merged PR#69", false);
    task("Open: Update the docs in `README.md`", "Updated the tests in `README.md`", false);
    task("Open: Nothing is settled", "Nothing is settled", false);
}

#[test]
fn delivery_needs_no_name() {
    let key = |said: &str| of_title(ObservationType::Decision, said).map(|key| key.to_string());
    assert_eq!(key("Open: Not pushed yet.").as_deref(), Some("delivery: push"));
    assert_eq!(key("Open: Committed locally and not pushed yet"), None, "two things at once");
    assert_eq!(key("Open: push it tomorrow"), None);
}

#[test]
fn the_same_question_is_the_same_choice() {
    assert_eq!(of_choice("Which conflict  strategy?"), of_choice("which `conflict` strategy"));
    assert_ne!(of_choice("Which conflict strategy?"), of_choice("Which strategy for conflicts?"));
    assert_eq!(of_choice("Why?"), None);
}
