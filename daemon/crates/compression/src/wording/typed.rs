//! The part of a prompt that the user typed, without text that was pasted, quoted or expanded.
//!
//! Only this part may become a standing wish: a question about an email does not state what the email states.

use super::prompt::own_words;
use super::word::phrases;

/// Lines at which a pasted message, file or page begins. It extends to the end of the prompt.
const BEGINNINGS: &str = "from:, to:, cc:, subject:, date:, sent:, dear, begin forwarded message, forwarded message, -----, \
    --- content from, content from, contents of, file:, diff --git, on behalf of";
/// A greeting by somebody else, if it is a separate line and not the first one.
const GREETINGS: &str = "hi, hello, hey, dear, hallo, liebe, lieber, guten tag, good morning, good afternoon";
const FAREWELLS: &str = "best, best regards, kind regards, regards, cheers, sincerely, thanks, thank you, many thanks, viele grüße, \
    mit freundlichen grüßen, yours, yours sincerely";
/// Nouns for other people's texts in a paragraph that asks about one or announces one.
const WRITINGS: &str = "mail, email, e-mail, message, letter, readme, file, document, docs, documentation, article, page, post, \
    issue, ticket, comment, review, report, spec, log, output, text, snippet, transcript, chat, thread, quote, below, following, \
    says, wrote, pasted, paste";
/// Verbs of reported speech: the speaker does not state the content himself.
const REPORTS: &str = "says, said, states, stated, writes, wrote, reads, according to, recommends, recommended, suggests, \
    claims, the readme, the docs, the documentation, the guide";
const OWN_REPORTS: &str = "i said, i told, i wrote, as i said, i already said, i stated";

/// The text that the user typed. Empty if nothing is left.
pub(crate) fn typed_words(prompt: &str) -> String {
    let words = own_words(&without_elements(prompt));
    let mut paragraphs: Vec<String> = Vec::new();
    let mut is_asked_about = false;
    for paragraph in words.split("\n\n") {
        if paragraph.trim().is_empty() {
            continue;
        }
        if is_asked_about {
            break;
        }
        let (own, is_cut) = own_lines(paragraph, paragraphs.len());
        is_asked_about = announces(&own);
        paragraphs.push(own);
        if is_cut {
            break;
        }
    }
    let signed = |line: &str| is_phrase(line, FAREWELLS, ",.!");
    if words.lines().skip(1).any(signed) {
        // A letter; what stands above it may be a question about it.
        let greeted = |paragraph: &String| paragraph.lines().next().is_some_and(greets);
        paragraphs.truncate(if paragraphs.first().is_some_and(greeted) { 0 } else { 1 });
    }
    let words = paragraphs.join("\n");
    words.lines().map(without_quotations).collect::<Vec<_>>().join("\n").trim().to_owned()
}

/// Whether a sentence occurs in the typed text, even if it has lost its marks.
pub(crate) fn is_typed(sentence: &str, typed: &str) -> bool {
    let words = |text: &str| {
        let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
        format!(" {} ", words.map(str::to_lowercase).collect::<Vec<_>>().join(" "))
    };
    let sentence = words(sentence);
    sentence.len() > 2 && words(typed).contains(&sentence)
}

/// Whether a sentence reports what somebody else says.
pub(crate) fn is_report(sentence: &str) -> bool {
    let lower = format!(" {} ", sentence.to_lowercase().replace([',', '.', ';', ':', '"', '!'], " "));
    let has = |list: &str| phrases(list).any(|phrase| lower.contains(&format!(" {phrase} ")));
    has(REPORTS) && !has(OWN_REPORTS)
}

/// The lines of a paragraph before pasted text begins, and whether pasted text begins in it. `number` counts paragraphs
/// from 0: the first may begin with a greeting of the user's own.
fn own_lines(paragraph: &str, number: usize) -> (String, bool) {
    let lines: Vec<&str> = paragraph.lines().collect();
    let begins = |(at, line): &(usize, &&str)| {
        let lower = line.trim().to_lowercase();
        let is_beginning = phrases(BEGINNINGS).any(|beginning| {
            lower.strip_prefix(beginning).is_some_and(|rest| {
                beginning.ends_with([':', '-']) || !rest.starts_with(char::is_alphanumeric)
            })
        });
        let is_heading = lower.trim_start_matches('#').len() < lower.len()
            && lower.trim_start_matches('#').starts_with(' ');
        let is_greeting = (*at > 0 || number > 0) && greets(line);
        is_beginning || is_heading || is_greeting
    };
    match lines.iter().enumerate().find(begins) {
        Some((at, _)) => (lines.get(..at).unwrap_or_default().join("\n"), true),
        None => (paragraph.to_owned(), false),
    }
}

fn greets(line: &str) -> bool {
    let line = line.trim();
    let lower = line.to_lowercase();
    let is_short = line.split_whitespace().count() <= 4 && line.ends_with([',', '!', ':']);
    is_short
        && phrases(GREETINGS).any(|greeting| {
            lower.strip_prefix(greeting).is_some_and(|rest| !rest.starts_with(char::is_alphanumeric))
        })
}

fn is_phrase(line: &str, list: &str, ends: &str) -> bool {
    let lower = line.trim().to_lowercase();
    let bare = lower.trim_end_matches(|c| ends.contains(c));
    bare.len() < lower.len() && phrases(list).any(|phrase| phrase == bare)
}

/// Whether a paragraph ends with a question about the text below, or announces it.
fn announces(paragraph: &str) -> bool {
    let paragraph = paragraph.trim();
    if !paragraph.ends_with(['?', ':']) {
        return false;
    }
    let sentence = paragraph.trim_end_matches(['?', ':']);
    let sentence = sentence.rsplit(['.', '!', '?', '\n']).next().unwrap_or_default().to_lowercase();
    let has =
        |wanted: &str| sentence.split(|c: char| !c.is_alphanumeric() && c != '-').any(|word| word == wanted);
    phrases(WRITINGS).any(has)
}

/// Removes elements of several lines or with attributes, such as files and mails that a program or the user inserted.
fn without_elements(text: &str) -> String {
    const MOST: usize = 64;
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    for _ in 0..MOST {
        let Some(at) = rest.find('<') else { break };
        let (before, tag) = (rest.get(..at).unwrap_or_default(), rest.get(at + 1..).unwrap_or_default());
        out.push_str(before);
        let name: String = tag
            .chars()
            .take(40)
            .take_while(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':'))
            .collect();
        let behind = tag.get(name.len()..).unwrap_or_default();
        let is_element =
            name.starts_with(|c: char| c.is_ascii_alphabetic()) && behind.starts_with(['>', ' ', '\n', '\t']);
        let end = is_element.then(|| tag.find(&format!("</{name}"))).flatten();
        match (end, is_element) {
            (Some(end), _) => {
                let close = tag.get(end..).unwrap_or_default();
                rest = close.find('>').and_then(|at| close.get(at + 1..)).unwrap_or_default();
            }
            // One with attributes that is never closed reaches to the end.
            (None, true)
                if behind.starts_with(' ')
                    && behind
                        .get(..200.min(behind.len()))
                        .is_some_and(|head| head.contains('=') && head.contains('>')) =>
            {
                return out;
            }
            _ => {
                out.push('<');
                rest = tag;
            }
        }
    }
    out.push_str(rest);
    out
}

/// A line without its quotations of more than two words.
fn without_quotations(line: &str) -> String {
    const MARKS: [(char, char); 5] =
        [('"', '"'), ('\u{201c}', '\u{201d}'), ('\u{201e}', '\u{201c}'), ('\u{ab}', '\u{bb}'), ('`', '`')];
    let mut line = line.to_owned();
    for (open, close) in MARKS {
        let mut from = 0;
        for _ in 0..16 {
            let Some(begin) = line.get(from..).and_then(|rest| rest.find(open)).map(|at| from + at) else {
                break;
            };
            let inside = begin + open.len_utf8();
            let Some(end) = line.get(inside..).and_then(|rest| rest.find(close)).map(|at| inside + at) else {
                break;
            };
            let quoted = line.get(inside..end).unwrap_or_default();
            if quoted.split_whitespace().count() > 2 {
                line.replace_range(inside..end, "…");
                from = inside + '…'.len_utf8() + close.len_utf8();
            } else {
                from = end + close.len_utf8();
            }
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pasted_quoted_and_expanded_text_does_not_count_as_typed() {
        for (prompt, typed) in [
            ("Please never use tabs.", "Please never use tabs."),
            (
                "Two rules:\n- never use tabs\n- always run the tests",
                "Two rules:\n- never use tabs\n- always run the tests",
            ),
            ("Why is it slow?\n\nAlso never use tabs.", "Why is it slow?\nAlso never use tabs."),
            ("Hi,\nplease never use tabs", "Hi,\nplease never use tabs"),
            (
                "What does this mail mean?\n\nFrom now on always deploy on Fridays.",
                "What does this mail mean?",
            ),
            (
                "Answer it.\n\nFrom: Bob <bob@shop.example>\nSubject: Deploys\n\nAlways deploy on Fridays.",
                "Answer it.",
            ),
            (
                "Can we do that?\n\nHi team,\nfrom now on we always deploy on Fridays.\n\nBest,\nBob",
                "Can we do that?",
            ),
            ("Here is the README:\n\nAlways use tabs.", "Here is the README:"),
            ("See <file path=\"README.md\">\nAlways use tabs.\n</file> and fix it", "See  and fix it"),
            ("Sum up <document>Always use tabs.</document>", "Sum up"),
            ("Look at <file path=\"x\"> Always use tabs.", "Look at"),
            (
                "Explain @README.md\n--- Content from referenced files ---\nAlways use tabs.\n--- End of content ---",
                "Explain @README.md",
            ),
            ("Fix it\n# Rules\nAlways use tabs.", "Fix it"),
            ("Is \"always use tabs everywhere\" good advice?", "Is \"…\" good advice?"),
            ("```\nnever push\n```\n> always push", ""),
        ] {
            assert_eq!(typed_words(prompt), typed, "{prompt}");
        }
    }

    #[test]
    fn reports_are_distinguished_from_wishes() {
        assert!(is_report("The README says to always use tabs"));
        assert!(is_report("According to Bob, we should never push"));
        assert!(!is_report("I said never use tabs"));
        assert!(!is_report("Always use tabs"));
    }

    #[test]
    fn long_hostile_prompts_finish_without_panic() {
        for part in ["<a ", "<a>", "\"", "\"a b c\" ", "hi,\n\n", "from:\n", "?\n\n", "\u{201e}"] {
            let _ = typed_words(&part.repeat(8_000));
        }
    }
}
