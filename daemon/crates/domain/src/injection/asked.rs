//! Extracts what a prompt asks. Locations and program output are not its subject.

use std::borrow::Cow;

/// Hosts whose addresses begin with an owner and a repository.
const FORGES: [&str; 5] = ["github.com", "gitlab.com", "bitbucket.org", "codeberg.org", "gitea.com"];
/// Path components that precede a number or a name.
const SORTS: [&str; 16] = [
    "issues",
    "issue",
    "pull",
    "pulls",
    "pr",
    "merge_requests",
    "discussions",
    "commit",
    "commits",
    "blob",
    "tree",
    "raw",
    "actions",
    "runs",
    "job",
    "releases",
];
/// Words that precede a number, in a path or a sentence.
const NUMBERED: [&str; 11] = [
    "issue",
    "issues",
    "pr",
    "prs",
    "pull",
    "pulls",
    "mr",
    "merge_requests",
    "ticket",
    "discussion",
    "discussions",
];

/// Returns a prompt without the hosts, owners and repositories of its addresses, and without stack frames and log
/// lines.
pub fn of(prompt: &str) -> Cow<'_, str> {
    if !prompt.lines().any(is_printed) && !prompt.contains("://") && !prompt.contains('#') {
        return Cow::Borrowed(prompt);
    }
    let kept = prompt.lines().filter(|line| !is_printed(line));
    let text = kept.map(without_addresses).collect::<Vec<_>>().join("\n");
    // If the prompt is only a log, its words are all there is.
    if text.trim().is_empty() { Cow::Borrowed(prompt) } else { Cow::Owned(text) }
}

/// Whether a program printed the line: a stack frame, or a log line with a time.
fn is_printed(line: &str) -> bool {
    let line = line.trim_start();
    let is_frame = line.starts_with("at ") && line.ends_with(')') && line.contains('(')
        || line.starts_with("File \"") && line.contains(", line ")
        || line.strip_prefix('#').is_some_and(|rest| {
            let rest = rest.trim_start_matches(|c: char| c.is_ascii_digit());
            rest.trim_start().starts_with("0x")
        });
    is_frame || begins_with_time(line)
}

/// Whether the line begins with `2026-02-11T16:05:52` or `16:05:52`, perhaps in brackets.
fn begins_with_time(line: &str) -> bool {
    let line = line.trim_start_matches(['[', '(']);
    let shape: String = line.chars().take(19).map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let is_date = shape.starts_with("0000-00-00T00:00") || shape.starts_with("0000-00-00 00:00");
    is_date || shape.starts_with("00:00:00")
}

fn without_addresses(line: &str) -> String {
    let words = line.split(' ').map(|word| match word.find("://") {
        Some(at) => {
            let begins = word.get(..at).unwrap_or_default().rfind(|c: char| !c.is_ascii_alphanumeric());
            let (before, address) = word.split_at(begins.map_or(0, |begins| begins + 1).min(at));
            format!("{before} {}", rest_of_address(address)).trim_start().to_owned()
        }
        None => match word.split_once('#') {
            // `owner/repository#12`
            Some((place, number))
                if place.contains('/') && number.starts_with(|c: char| c.is_ascii_digit()) =>
            {
                format!("#{number}")
            }
            _ => word.to_owned(),
        },
    });
    words.collect::<Vec<_>>().join(" ")
}

/// Returns what an address names: an issue number, a file, a page of a site.
fn rest_of_address(address: &str) -> String {
    let end = address.find([')', ']', '>', '"', '\'', '`']).unwrap_or(address.len());
    let (address, after) = address.split_at(end);
    let place = address.split_once("://").map_or("", |(_, place)| place);
    let place = place.split(['?', '#']).next().unwrap_or_default();
    let mut parts = place.split('/').filter(|part| !part.is_empty());
    let host = parts.next().unwrap_or_default();
    let parts: Vec<&str> = parts.collect();
    let owned = if FORGES.iter().any(|forge| host.ends_with(forge)) { 2 } else { 0 };
    let sort = parts.iter().rposition(|part| SORTS.contains(part)).map_or(0, |place| place + 1);
    let named = parts.get(owned.max(sort)..).unwrap_or_default();
    let is_numbered = sort > 0 && parts.get(sort - 1).is_some_and(|part| NUMBERED.contains(part));
    let mark = if is_numbered { "#" } else { "" };
    format!("{mark}{}{after}", named.join("/"))
}

/// Returns the numbers of issues, pull requests and the like that a text names.
pub fn numbers(text: &str) -> Vec<&str> {
    let mut numbers = Vec::new();
    let mut before = "";
    for word in text.split(|c: char| c.is_whitespace() || matches!(c, '/' | '(' | ')' | '[' | ']' | ',')) {
        let bare = word.trim_matches(|c: char| !c.is_alphanumeric() && c != '#');
        let is_number = |it: &str| !it.is_empty() && it.bytes().all(|byte| byte.is_ascii_digit());
        let (is_marked, number) = match bare.rsplit_once('#') {
            Some((_, number)) if is_number(number) => (true, number),
            // The fragment of an address is a position within its page.
            head => (
                NUMBERED.iter().any(|it| before.eq_ignore_ascii_case(it)),
                head.map_or(bare, |(page, _)| page),
            ),
        };
        if is_number(number) && is_marked && !numbers.contains(&number) {
            numbers.push(number);
        }
        before = bare;
    }
    numbers
}

/// Whether a prompt names an issue or pull request that none of these texts names. Then nothing is known about it,
/// whatever else they share.
pub fn names_what_is_unknown<'a>(prompt: &str, mut texts: impl Iterator<Item = &'a str>) -> bool {
    let asked = numbers(prompt);
    !asked.is_empty() && !texts.any(|text| numbers(text).iter().any(|number| asked.contains(number)))
}

/// Whether a text names other issues or pull requests than the prompt does.
pub fn is_of_another_number(prompt: &str, text: &str) -> bool {
    let (asked, named) = (numbers(prompt), numbers(text));
    !asked.is_empty() && !named.is_empty() && !named.iter().any(|number| asked.contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(prompt: &str, asked: &str) {
        assert_eq!(of(prompt), asked);
    }

    #[test]
    fn an_address_is_reduced_to_the_issue_file_or_page_it_names() {
        check("why is https://github.com/acme/shop/issues/41 open?", "why is #41 open?");
        check("see [the PR](https://gitlab.com/acme/shop/merge_requests/7).", "see [the PR]( #7).");
        check("as in acme/shop#12, please", "as in #12, please");
        check("read https://github.com/acme/shop/blob/main/src/cart.rs now", "read main/src/cart.rs now");
        check("https://shop.example.org/checkout?step=2 is slow", "checkout is slow");
        check("https://github.com/acme/shop", "https://github.com/acme/shop");
        check("the cart rounds twice", "the cart rounds twice");
    }

    #[test]
    fn log_lines_and_stack_frames_are_not_part_of_the_question() {
        check(
            "the cart fails:\n2026-02-11T16:05:52 INFO started\nTypeError: total is null\n    at round (cart.js:4:2)",
            "the cart fails:\nTypeError: total is null",
        );
        check("16:05:52 INFO started", "16:05:52 INFO started");
    }

    #[test]
    fn only_issue_and_pull_request_numbers_are_found() {
        assert_eq!(
            numbers("issue 41 and PR #7, in 30 s, by https://x.org/a/b/pull/9 or #41"),
            ["41", "7", "9"]
        );
        assert_eq!(numbers("https://x.org/a/b/issues/41#issuecomment-977"), ["41"]);
        assert_eq!(numbers("rounds to 2 digits since 2024"), [] as [&str; 0]);
    }

    #[test]
    fn an_issue_number_that_no_text_names_is_unknown() {
        let texts = ["The cart rounds once.", "It closes #41."];
        let is_unknown = |prompt: &str| names_what_is_unknown(prompt, texts.into_iter());
        assert!(is_unknown("why does https://github.com/acme/shop/issues/97#issuecomment-41 fail?"));
        assert!(!is_unknown("why does https://github.com/acme/shop/issues/41 fail?"));
        assert!(!is_unknown("why does the cart round once?"));
    }

    #[test]
    fn a_text_about_another_issue_number_is_recognized() {
        let prompt = "why does https://github.com/acme/shop/issues/41 fail?";
        assert!(is_of_another_number(prompt, "PR #7 rounds once."));
        assert!(!is_of_another_number(prompt, "PR #7 rounds once and closes #41."));
        assert!(!is_of_another_number(prompt, "It rounds once.") && !is_of_another_number("why?", "PR #7"));
    }
}
