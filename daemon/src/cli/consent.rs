//! Decides whether changes may be made: dry run, `--yes`, a question at the terminal, or no terminal to ask at.

use std::io::{BufRead, IsTerminal, Write};

use crate::cli::failure::Failure;

/// How changes are confirmed.
pub(crate) enum Consent<'a> {
    /// `--dry-run`: show the changes and write nothing.
    ShowOnly,
    /// `--yes`.
    Given,
    /// Ask, and read the answer from this input.
    Ask(&'a mut dyn BufRead),
    /// There is no terminal to ask at.
    Unavailable,
}

/// The decision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Confirmation {
    Go,
    Leave,
}

impl Confirmation {
    /// Asks. Anything except a clear yes means no.
    pub(crate) fn read(input: &mut dyn BufRead, question: &str, out: &mut dyn Write) -> anyhow::Result<Self> {
        write!(out, "{question} [y/N] ")?;
        out.flush()?;
        let mut answer = String::new();
        input.read_line(&mut answer)?;
        Ok(if matches!(answer.trim().to_lowercase().as_str(), "y" | "yes") { Self::Go } else { Self::Leave })
    }
}

impl<'a> Consent<'a> {
    /// Asks at `input` only if stdin is a terminal; a script would wait forever.
    pub(crate) fn at_terminal(input: &'a mut dyn BufRead) -> Self {
        if std::io::stdin().is_terminal() { Self::Ask(input) } else { Self::Unavailable }
    }

    /// Whether the changes are shown before they are made.
    pub(crate) fn shows_changes(&self) -> bool {
        matches!(self, Self::ShowOnly | Self::Ask(_))
    }

    /// Decides, and asks if necessary.
    pub(crate) fn obtain(self, question: &str, out: &mut dyn Write) -> anyhow::Result<Confirmation> {
        match self {
            Self::ShowOnly => {
                writeln!(out, "Dry run; nothing was changed.")?;
                Ok(Confirmation::Leave)
            }
            Self::Given => Ok(Confirmation::Go),
            Self::Ask(input) => {
                let answer = Confirmation::read(input, question, out)?;
                if answer == Confirmation::Leave {
                    writeln!(out, "Nothing was changed.")?;
                }
                Ok(answer)
            }
            Self::Unavailable => {
                Err(Failure::usage("Cannot ask for confirmation without a terminal; nothing was changed")
                    .hint("Use --yes to confirm, or --dry-run to see the changes.")
                    .into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_clear_yes_counts_as_consent() {
        #[track_caller]
        fn check(typed: &str, answer: Confirmation) {
            let mut input = typed.as_bytes();
            let mut out = Vec::new();
            assert_eq!(Consent::Ask(&mut input).obtain("Do it?", &mut out).unwrap(), answer);
            assert!(out.starts_with(b"Do it? [y/N] "));
        }
        check("y\n", Confirmation::Go);
        check(" YES \n", Confirmation::Go);
        check("n\n", Confirmation::Leave);
        check("\n", Confirmation::Leave);
        check("", Confirmation::Leave);
        check("yep\n", Confirmation::Leave);
    }

    #[test]
    fn the_error_without_a_terminal_names_the_yes_option() {
        let error = Consent::Unavailable.obtain("Do it?", &mut Vec::new()).unwrap_err();
        let failure = error.downcast_ref::<Failure>().unwrap();
        assert_eq!(failure.kind.code(), 2);
        assert!(failure.hint.as_deref().unwrap().contains("--yes"));
    }
}
