//! Finds the user's own words in a prompt, and the statement in them.

use super::clause::{Opening, opening, trimmed};
use super::plain::{capitalized, plain};
use super::word::bare;

/// The user's own words in a prompt: without text added by programs, quoted reviews, logs and code. Empty if nothing is
/// left, or if a machine wrote the whole prompt.
pub(crate) fn own_words(prompt: &str) -> String {
    let prompt = without_tags(prompt);
    let text = prompt.trim();
    const MACHINES: [&str; 6] = [
        "[Request interrupted",
        "Caveat: The messages below",
        "This session is being continued from",
        "Base directory for this skill",
        "# AGENTS.md",
        "A background task",
    ];
    if MACHINES.iter().any(|opening| text.starts_with(opening)) {
        return String::new();
    }
    let text = without_command(text);
    let mut words: Vec<&str> = Vec::new();
    let (mut fenced, mut quoted) = (false, false);
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.starts_with("```") || trimmed.starts_with("~~~") {
            fenced = !fenced;
            continue;
        }
        let quotes = trimmed.matches("\"\"\"").count();
        if quotes > 0 {
            let before = trimmed.split("\"\"\"").next().unwrap_or_default();
            if !quoted && !before.trim().is_empty() {
                words.push(before.trim());
            }
            if quotes % 2 == 1 {
                quoted = !quoted;
            }
            continue;
        }
        if fenced || quoted || is_foreign(trimmed) {
            continue;
        }
        words.push(line.trim_end());
    }
    words.join("\n").trim().to_owned()
}

/// Whether a line was pasted: quotations, logs, traces, diffs, tables, shell prompts.
fn is_foreign(line: &str) -> bool {
    if line.starts_with("> ")
        || line.starts_with("$ ")
        || line.starts_with("[Image")
        || line.starts_with("[Pasted")
        || line.starts_with('│')
        || line.starts_with('|')
    {
        return true;
    }
    super::never(line, super::SourceKind::Prompt, super::Within::End).is_some_and(|why| {
        matches!(why, super::Never::Pasted | super::Never::Notice | super::Never::Boilerplate)
    })
}

/// Removes `<a-name>…</a-name>`, the form that programs write, and `<skill name="x">…</skill>` at the beginning of a
/// line.
fn without_tags(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // So many tags of programs are looked for, so that the time stays linear.
    const MOST: usize = 256;
    let mut looked = 0;
    let mut rest = text;
    while let Some(at) = rest.find('<') {
        let (before, tag) = (rest.get(..at).unwrap_or_default(), rest.get(at + 1..).unwrap_or_default());
        let name: String =
            tag.chars().take(40).take_while(|c| c.is_ascii_lowercase() || matches!(c, '-' | '_')).collect();
        out.push_str(before);
        let behind = tag.get(name.len()..).unwrap_or_default();
        let attributes = behind.get(..behind.floor_char_boundary(200)).and_then(|near| near.split_once('>'));
        let has_attributes = attributes
            .is_some_and(|(attributes, _)| attributes.starts_with(' ') && attributes.contains("=\""));
        let is_alone = before.is_empty() || before.ends_with('\n');
        let is_program =
            name.contains(['-', '_']) && name.len() < 40 || is_alone && has_attributes && !name.is_empty();
        let close = format!("</{name}>");
        looked += usize::from(is_program);
        let end = (is_program && looked <= MOST).then(|| tag.find(&close)).flatten();
        match end {
            Some(end) => rest = tag.get(end + close.len()..).unwrap_or_default(),
            _ => {
                out.push('<');
                rest = tag;
            }
        }
    }
    out.push_str(rest);
    out
}

/// The arguments of a slash command are the user's words; its name is not.
fn without_command(text: &str) -> &str {
    let Some(command) = text.strip_prefix('/') else { return text };
    let name = command.split_whitespace().next().unwrap_or_default();
    if name.contains(['/', '.']) { text } else { command.get(name.len()..).unwrap_or_default().trim_start() }
}

/// A sentence of the user as a statement: without courtesy, and without phrases that only introduce it.
///
/// `Please never use tabs` becomes `Never use tabs`, `remind me to rotate the key` becomes `Rotate the key`, `I want a
/// warning first` becomes `The user wants a warning first`.
pub(crate) fn statement(sentence: &str) -> String {
    let sentence = plain(sentence);
    let mut rest = trimmed(sentence.trim()).to_owned();
    const COURTESIES: [&str; 36] = [
        "please ",
        "can you please ",
        "can you ",
        "could you please ",
        "could you ",
        "would you ",
        "i want you to ",
        "i'd like you to ",
        "i would like you to ",
        "you should ",
        "you need to ",
        "we need to ",
        "we should ",
        "let's ",
        "lets ",
        "ok, ",
        "okay, ",
        "ok ",
        "okay ",
        "so ",
        "now ",
        "and ",
        "but ",
        "hm, ",
        "hmm, ",
        "yes, ",
        "yeah, ",
        "no, ",
        "also, ",
        "also ",
        "actually, ",
        "actually ",
        "just ",
        "hey, ",
        "hi, ",
        "well, ",
    ];
    for _ in 0..4 {
        let lower = rest.to_lowercase();
        let Some(found) = COURTESIES.iter().find(|courtesy| lower.starts_with(**courtesy)) else { break };
        match rest.get(found.len()..) {
            Some(after) if !after.trim().is_empty() => rest = after.trim_start().to_owned(),
            _ => break,
        }
    }
    // `can you add x?` asks for a deed.
    if rest.len() < sentence.len() && opening(&rest) == Opening::Imperative {
        rest = trimmed(rest.trim_end_matches('?')).to_owned();
    }
    const TURNS: [(&str, &str); 16] = [
        ("remind me to ", ""),
        ("remember to ", ""),
        ("don't forget to ", ""),
        ("do not forget to ", ""),
        ("don't let me forget to ", ""),
        ("remember that ", ""),
        ("note that ", ""),
        ("keep in mind that ", ""),
        ("make sure that ", ""),
        ("make sure to ", "Always "),
        ("we decided to ", "Decided to "),
        ("i decided to ", "Decided to "),
        ("i want ", "The user wants "),
        ("i would like ", "The user wants "),
        ("i'd like ", "The user wants "),
        ("i prefer ", "The user prefers "),
    ];
    let lower = rest.to_lowercase();
    for (phrase, instead) in TURNS {
        if lower.starts_with(phrase)
            && let Some(after) = rest.get(phrase.len()..)
        {
            rest = format!("{instead}{after}");
            break;
        }
    }
    if bare(rest.split_whitespace().next().unwrap_or_default()) == "we"
        && let Some((_, after)) = rest.split_once(' ')
        && after.starts_with("use ")
    {
        rest = format!("The project uses {}", after.get(4..).unwrap_or_default());
    }
    capitalized(&rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_users_own_words_are_read() {
        let prompt = "<ide_selection>cart.rs</ide_selection>Look at this review: \"\"\"\nThe cart must never round.\n\"\"\"\nIt is wrong, we round once.\n\
            ```\nfn total() {}\n```\n> quoted\n2026-01-02T03:04:05Z ERROR no cart\n$ cargo test";
        assert_eq!(own_words(prompt), "Look at this review:\nIt is wrong, we round once.");
        assert_eq!(own_words("This session is being continued from another one."), "");
        assert_eq!(own_words("<system-reminder>x</system-reminder>"), "");
        assert_eq!(own_words("/review the cart only"), "the cart only");
        let skill =
            "<skill name=\"carts\" location=\"/a/b\">\nAlways round carts.\n</skill>\nround the total";
        assert_eq!(own_words(skill), "round the total");
        assert_eq!(own_words("a < b and Vec<u8> stay"), "a < b and Vec<u8> stay");
    }

    #[test]
    fn long_hostile_prompts_finish_without_panic() {
        for part in [
            "<a-b",
            "<",
            "\n<a b=\"c\">",
            "](",
            "[x](",
            "*a ",
            "- ",
            "(",
            "\u{201c}",
            "a/",
            "`",
            "\"\"\"",
            "If a, ",
        ] {
            let prompt = part.repeat(8_000);
            let words = own_words(&prompt);
            let _ = statement(&words);
        }
    }

    #[test]
    fn a_prompt_sentence_becomes_a_statement_without_courtesy() {
        for (sentence, expected) in [
            ("Please never use tabs.", "Never use tabs"),
            ("ok, can you remind me to rotate the key", "Rotate the key"),
            ("We decided to drop Windows", "Decided to drop Windows"),
            ("I want a warning first", "The user wants a warning first"),
            ("we use pnpm here", "The project uses pnpm here"),
            ("Anna owns billing", "Anna owns billing"),
        ] {
            assert_eq!(statement(sentence), expected);
        }
    }
}
