//! Renders the Markdown of a handoff as an HTML page: escaped, with its own style, without scripts and links.

/// The head forbids loading anything, in case something slips through.
const HEAD: &str = "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
<meta name=\"viewport\" content=\"width=device-width\">\n\
<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n";
const STYLE: &str = "<style>\nbody { font: 16px/1.5 system-ui, sans-serif; max-width: 46rem; margin: 2rem auto; padding: 0 1rem; \
color: #1f2328; background: #fff }\nh1 { font-size: 1.5rem } h2 { font-size: 1.1rem; margin: 1.6rem 0 .3rem }\n\
p { margin: .3rem 0 } ul { margin: .3rem 0; padding-left: 1.4rem }\n\
code { font: .9em ui-monospace, monospace; background: #f0f1f3; padding: .1em .3em; border-radius: .3em; overflow-wrap: anywhere }\n\
@media (prefers-color-scheme: dark) { body { color: #e6e6e6; background: #16181c } code { background: #2a2d33 } }\n</style>\n";

/// Renders the whole page. A handoff has only headings, entries and code.
pub(super) fn page(markdown: &str) -> String {
    let title = markdown.lines().next().unwrap_or_default().trim_start_matches("# ");
    let mut page = format!("{HEAD}<title>{}</title>\n{STYLE}</head>\n<body>\n", escaped(title));
    let mut is_in_list = false;
    for line in markdown.lines().filter(|line| !line.trim().is_empty()) {
        let entry = line.strip_prefix("- ");
        match (entry.is_some(), is_in_list) {
            (true, false) => page.push_str("<ul>\n"),
            (false, true) => page.push_str("</ul>\n"),
            _ => {}
        }
        is_in_list = entry.is_some();
        let (tag, text) = match (entry, line.strip_prefix("# "), line.strip_prefix("## ")) {
            (Some(entry), ..) => ("li", entry),
            (_, Some(heading), _) => ("h1", heading),
            (_, _, Some(heading)) => ("h2", heading),
            _ => ("p", line),
        };
        page.push_str(&format!("<{tag}>{}</{tag}>\n", with_code(text)));
    }
    if is_in_list {
        page.push_str("</ul>\n");
    }
    page + "</body>\n</html>\n"
}

/// Escapes text and formats backtick pairs as code.
fn with_code(text: &str) -> String {
    let parts: Vec<&str> = text.split('`').collect();
    let mut out = String::new();
    for (at, part) in parts.iter().enumerate() {
        // The last part follows the last backtick; a backtick without a partner is an ordinary character.
        match (at % 2 == 1, at + 1 < parts.len()) {
            (true, true) => out.push_str(&format!("<code>{}</code>", escaped(part))),
            (true, false) => out.push_str(&format!("`{}", escaped(part))),
            _ => out.push_str(&escaped(part)),
        }
    }
    out
}

fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_lists_and_code_are_rendered_and_other_markup_is_escaped() {
        let page = page(
            "# Handoff: a < b\n\nSession `x`.\n\n## Open\n- one `two` & three\n- <script>alert(1)</script>\n\nLast ` line",
        );
        assert!(
            page.contains("<title>Handoff: a &lt; b</title>") && page.contains("<h1>Handoff: a &lt; b</h1>"),
            "{page}"
        );
        assert!(page.contains("<h2>Open</h2>\n<ul>\n<li>one <code>two</code> &amp; three</li>\n"), "{page}");
        assert!(
            page.contains("<li>&lt;script&gt;alert(1)&lt;/script&gt;</li>\n</ul>\n<p>Last ` line</p>"),
            "{page}"
        );
        assert!(!page.contains("<script"), "{page}");
    }
}
