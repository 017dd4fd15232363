//! Removes Markdown marks from a text that is shown as one line.

/// One line without list marks, bold, links, status signs and needless backticks.
pub(crate) fn plain(text: &str) -> String {
    let row = row(text).map(|(name, cells)| match cells.is_empty() {
        true => name.to_owned(),
        false => format!("{name}: {}", cells.join("; ")),
    });
    let text = row.as_deref().unwrap_or(text);
    let text = without_links(&without_signs(text));
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let line = without_emphasis(without_list_mark(&line));
    let line = without_ticks(&line);
    without_list_mark(&line).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// A table row as its subject and what it says about it, without row numbers. `None` if it is not a row.
pub(super) fn row(text: &str) -> Option<(&str, Vec<&str>)> {
    let cells = text.strip_prefix("| ")?.split(" | ").map(str::trim);
    let mut cells = cells.skip_while(|cell| !cell.chars().any(char::is_alphabetic));
    let name = cells.next()?;
    Some((name, cells.filter(|cell| cell.chars().any(char::is_alphanumeric)).collect()))
}

/// Removes emoji, check marks, box lines and the like. Arrows stay, because they have a meaning.
fn without_signs(text: &str) -> String {
    text.chars()
        .map(|c| match c {
            '\u{2600}'..='\u{27bf}'
            | '\u{1f000}'..='\u{1faff}'
            | '\u{fe0f}'
            | '\u{200d}'
            | '\u{2500}'..='\u{25ff}' => ' ',
            other => other,
        })
        .collect()
}

/// `[text](address)` becomes `text`.
fn without_links(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    // So many links, so that the time stays linear.
    const MOST: usize = 64;
    let mut rest = text;
    for _ in 0..MOST {
        let Some(at) = rest.find("](") else { break };
        let (before, after) = (rest.get(..at).unwrap_or_default(), rest.get(at + 2..).unwrap_or_default());
        let open = before.rfind('[');
        let close = after
            .find([')', ' ', '\n'])
            .filter(|close| after.get(*close..).is_some_and(|it| it.starts_with(')')));
        match (open, close) {
            (Some(open), Some(close)) => {
                out.push_str(before.get(..open).unwrap_or_default());
                out.push_str(before.get(open + 1..).unwrap_or_default());
                rest = after.get(close + 1..).unwrap_or_default();
            }
            _ => {
                out.push_str(before);
                out.push_str("](");
                rest = after;
            }
        }
    }
    out.push_str(rest);
    out
}

/// Removes the marks of a list, a heading or a quotation at the beginning of a line.
pub(super) fn without_list_mark(line: &str) -> &str {
    let mut rest = line.trim_start();
    loop {
        let before = rest;
        for mark in
            ["- [ ] ", "- [x] ", "[ ] ", "[x] ", "- ", "* ", "+ ", "• ", "– ", "◦ ", "> ", "│ ", "└ ", "├ "]
        {
            rest = rest.strip_prefix(mark).unwrap_or(rest).trim_start();
        }
        let heading = rest.trim_start_matches('#');
        if heading.len() < rest.len() && heading.starts_with(' ') {
            rest = heading.trim_start();
        }
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        if (1..=2).contains(&digits)
            && let Some(item) = rest.get(digits..)
            && let Some(item) = item.strip_prefix(". ").or_else(|| item.strip_prefix(") "))
        {
            rest = item.trim_start();
        }
        if rest.len() == before.len() {
            return rest;
        }
    }
}

/// Removes `**` and `__` around words, and single `*` or `_` around words.
fn without_emphasis(line: &str) -> String {
    let mut out = String::with_capacity(line.len());
    let mut in_code = false;
    // A last backtick without a partner opens nothing.
    let mut paired = line.matches('`').count() / 2 * 2;
    let characters: Vec<char> = line.chars().collect();
    let mut at = 0;
    while let Some(&c) = characters.get(at) {
        let before = at.checked_sub(1).and_then(|at| characters.get(at)).copied().unwrap_or(' ');
        let after = characters.get(at + 1).copied().unwrap_or(' ');
        if c == '`' && paired > 0 {
            in_code = !in_code;
            paired -= 1;
        }
        if !in_code && c == '*' && after == '*' {
            at += 2;
            continue;
        }
        let opens = !before.is_alphanumeric() && after.is_alphabetic();
        let closes =
            (before.is_alphanumeric() || matches!(before, '.' | '!' | ')')) && !after.is_alphanumeric();
        // No farther than this, so that the time stays linear.
        const FAR: usize = 80;
        let is_pair = |from: usize| {
            characters
                .get(from + 1..characters.len().min(from + FAR))
                .is_some_and(|rest| rest.windows(2).any(|pair| pair[0].is_alphanumeric() && pair[1] == '*'))
        };
        if !in_code
            && c == '*'
            && (closes && !matches!(after, '.' | '/') || opens && is_pair(at) && after != '.')
        {
            at += 1;
            continue;
        }
        out.push(c);
        at += 1;
    }
    out
}

/// Removes backticks around text that is recognizable as code without them. Around a plain word they stay.
fn without_ticks(line: &str) -> String {
    if line.matches('`').count() % 2 == 1 {
        return line.replace('`', "");
    }
    let mut out = String::with_capacity(line.len());
    for (nth, part) in line.split('`').enumerate() {
        let is_word = !part.is_empty() && part.chars().all(|c| c.is_lowercase());
        if nth % 2 == 1 && is_word {
            out.push('`');
            out.push_str(part);
            out.push('`');
        } else {
            out.push_str(if nth % 2 == 1 { part.trim() } else { part });
        }
    }
    out
}

/// Whether brackets and quotes are closed.
pub(super) fn is_balanced(text: &str) -> bool {
    let mut open = Vec::new();
    for c in text.chars() {
        match c {
            '(' => open.push(')'),
            '[' => open.push(']'),
            '{' => open.push('}'),
            '“' => open.push('”'),
            ')' | ']' | '}' | '”' if open.pop() != Some(c) => return false,
            _ => {}
        }
    }
    open.is_empty()
        && text.matches('"').count().is_multiple_of(2)
        && text.matches('`').count().is_multiple_of(2)
}

/// The text with a capital letter at its beginning, unless it begins with a code name.
pub(super) fn capitalized(text: &str) -> String {
    let first = text.split_whitespace().next().unwrap_or_default();
    if super::word::is_identifier(first)
        || first.chars().any(|c| !c.is_alphanumeric() && !matches!(c, ',' | '-' | '\'' | ':' | '.'))
    {
        return text.to_owned();
    }
    let mut characters = text.chars();
    match characters.next() {
        Some(first) => first.to_uppercase().chain(characters).collect(),
        None => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(text: &str, expected: &str) {
        assert_eq!(plain(text), expected);
    }

    #[test]
    fn markdown_marks_are_removed_and_words_are_kept() {
        check("- **Cart**: the total is *rounded* once", "Cart: the total is rounded once");
        check(
            "3. ✅ See [the notes](https://shop.example/a) of `src/cart.rs`",
            "See the notes of src/cart.rs",
        );
        check("## Why  not\n tabs", "Why not tabs");
        check("> `stop` ends a turn, `max_items` a page", "`stop` ends a turn, max_items a page");
        check("All *.md files and a ` alone", "All *.md files and a alone");
        check("`**• Kept as it was", "Kept as it was");
        check("2024 was long", "2024 was long");
        check("a[0](b) → c", "a0 → c");
        check("", "");
    }

    #[test]
    fn a_table_row_becomes_a_line_about_its_first_cell() {
        check("| 3 | `till` | prints \"a | b\" once | - | **fixed**", "`till`: prints \"a; b\" once; fixed");
        check("| till", "till");
        check("| 1 | 2", "| 1 | 2");
        check("`a | b` is a type", "a | b is a type");
    }

    #[test]
    fn unbalanced_brackets_and_quotes_are_detected() {
        assert!(is_balanced("a (b [c]) \"d\" `e`"));
        for open in ["a (b", "a) b", "a \"b", "a `b", "(a]"] {
            assert!(!is_balanced(open), "{open}");
        }
    }

    #[test]
    fn code_names_are_not_capitalized() {
        assert_eq!(capitalized("the cart"), "The cart");
        assert_eq!(capitalized("cart_total is wrong"), "cart_total is wrong");
        assert_eq!(capitalized("`cart` is wrong"), "`cart` is wrong");
    }
}
