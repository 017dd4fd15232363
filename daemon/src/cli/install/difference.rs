//! Shows an edit as a unified diff.

use std::io::{self, Write};
use std::path::Path;

use anstyle::{AnsiColor, Style};
use similar::{ChangeTag, TextDiff};

const ADDED: Style = AnsiColor::Green.on_default();
const REMOVED: Style = AnsiColor::Red.on_default();
const PLACE: Style = AnsiColor::Cyan.on_default();

/// Writes the diff with three lines of context. `before` is `None` for a new file.
///
/// The text is coloured; use a writer such as `anstream`'s to remove the colour.
pub(crate) fn write_difference(
    out: &mut dyn Write,
    path: &Path,
    before: Option<&str>,
    after: Option<&str>,
) -> io::Result<()> {
    let name = |text: Option<&str>| match text {
        Some(_) => path.display().to_string(),
        None => "/dev/null".to_owned(),
    };
    writeln!(out, "--- {}", name(before))?;
    writeln!(out, "+++ {}", name(after))?;
    let difference = TextDiff::from_lines(before.unwrap_or_default(), after.unwrap_or_default());
    for hunk in difference.unified_diff().context_radius(3).iter_hunks() {
        writeln!(out, "{PLACE}{}{PLACE:#}", hunk.header())?;
        for change in hunk.iter_changes() {
            let (sign, style) = match change.tag() {
                ChangeTag::Delete => ('-', REMOVED),
                ChangeTag::Insert => ('+', ADDED),
                ChangeTag::Equal => (' ', Style::new()),
            };
            let line = change.value().trim_end_matches(['\r', '\n']);
            writeln!(out, "{style}{sign}{line}{style:#}")?;
            if change.missing_newline() {
                writeln!(out, "\\ No newline at end of file")?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use insta::assert_snapshot;

    fn plain(before: Option<&str>, after: Option<&str>) -> String {
        let mut out = anstream::StripStream::new(Vec::new());
        write_difference(&mut out, Path::new("/home/dev/settings.json"), before, after).unwrap();
        String::from_utf8(out.into_inner()).unwrap()
    }

    #[test]
    fn a_change_is_shown_as_a_unified_diff() {
        assert_snapshot!(plain(Some("{\n  \"a\": 1\n}"), Some("{\n  \"a\": 2\n}")), @r#"
        --- /home/dev/settings.json
        +++ /home/dev/settings.json
        @@ -1,3 +1,3 @@
         {
        -  "a": 1
        +  "a": 2
         }
        \ No newline at end of file
        "#);
    }

    #[test]
    fn the_diff_of_a_new_or_deleted_file_names_dev_null() {
        assert_snapshot!(plain(None, Some("{}\n")), @"
        --- /dev/null
        +++ /home/dev/settings.json
        @@ -0,0 +1 @@
        +{}
        ");
        assert!(plain(Some("{}\n"), None).contains("+++ /dev/null\n"));
    }
}
