use super::*;

#[track_caller]
fn check(title: &str, expected: Option<&str>) {
    let key = of_title(ObservationType::Decision, title);
    assert_eq!(key.as_ref().map(SubjectKey::as_str), expected, "{title:?}");
}

#[test]
fn statements_of_different_values_of_a_setting_share_a_subject_key() {
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
fn statements_without_a_value_or_a_name_have_no_subject_key() {
    for title in [
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
        check(title, None);
    }
}

#[test]
fn a_rule_and_its_opposite_share_a_subject_key() {
    check("User: always use tabs", Some("rule: use tabs"));
    check("User: please never use tabs", Some("rule: use tabs"));
    check("User: don't push to main, ask first", Some("rule: push to main"));
    check("User: use pnpm instead of npm", Some("instead of: npm"));
    check("User: always", None);
    assert_eq!(of_title(ObservationType::Discovery, "Always use tabs"), None, "only who decides rules");
    let rule = of_title(ObservationType::Decision, "Always use tabs");
    assert!(rule.is_some());
    assert_eq!(of_title(ObservationType::Preference, "Never use tabs"), rule);
    assert_eq!(of_title(ObservationType::Correction, "Use tabs"), None);
}
