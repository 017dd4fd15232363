//! The help of `recall` itself: the commands grouped by purpose.

use std::fmt::Write as _;

use clap::Command;
use clap::builder::{StyledStr, Styles};

use super::commands::{Group, HELP_ENTRIES, HelpEntry};

const FIRST_STEPS: &str = "\
Examples:
  recall search rounding cents     search the memory
  recall show 12                   read observation 12 in full
  recall context                   see what the next session here receives
  recall ui                        browse the memory

Run `recall COMMAND --help` for details and examples.";

/// The command line with grouped help.
pub(super) fn with_overview(command: Command) -> Command {
    let template = template(&command);
    command.help_template(template).after_help(FIRST_STEPS)
}

fn template(command: &Command) -> StyledStr {
    let styles = Styles::styled();
    let (header, literal) = (styles.get_header(), styles.get_literal());
    let shown = HELP_ENTRIES.iter().filter(|entry| entry.group != Group::Hidden);
    let longest = shown.map(|entry| entry.name().len()).max().unwrap_or_default();
    let mut text = StyledStr::new();
    // Writing into a string does not fail.
    let _ = write!(text, "{{about-with-newline}}\n{{usage-heading}} {{usage}}\n");
    for (group, heading) in Group::SHOWN {
        let _ = write!(text, "\n{header}{heading}:{header:#}\n");
        for name in HELP_ENTRIES.iter().filter(|entry| entry.group == group).map(HelpEntry::name) {
            let about = command.find_subcommand(&name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(text, "  {literal}{name:longest$}{literal:#}  {about}");
        }
    }
    let _ = write!(text, "\n{header}Options:{header:#}\n{{options}}{{after-help}}");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_help_lists_each_command_once() {
        let shown = HELP_ENTRIES.iter().filter(|entry| entry.group != Group::Hidden);
        let mut grouped: Vec<String> = shown.map(HelpEntry::name).collect();
        let command = super::super::command_line();
        let mut known: Vec<&str> = command
            .get_subcommands()
            .filter(|inner| !inner.is_hide_set())
            .map(|inner| inner.get_name())
            .collect();
        grouped.sort_unstable();
        known.sort_unstable();
        assert_eq!(grouped, known);
    }

    #[test]
    fn no_help_line_is_wider_than_a_terminal() {
        let help = super::super::command_line().render_help().to_string();
        let (ours, _) = help.split_once("Options:").unwrap();
        for line in ours.lines().chain(FIRST_STEPS.lines()) {
            assert!(line.chars().count() <= 80, "{line}");
        }
    }
}
