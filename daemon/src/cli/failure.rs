//! Defines how a command fails: what happened, why, what to do next, and the exit code.

use std::fmt;

use recall_protocol::wire::ErrorKind;

/// The documented exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitKind {
    /// 1: the command line was valid, but the command failed.
    Failed,
    /// 2: the command line is invalid.
    Usage,
    /// 3: no daemon responds.
    Unreachable,
}

impl ExitKind {
    pub fn code(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::Usage => 2,
            Self::Unreachable => 3,
        }
    }
}

impl From<ErrorKind> for ExitKind {
    fn from(kind: ErrorKind) -> Self {
        match kind {
            // The input can never be valid, whatever is stored.
            ErrorKind::Invalid => Self::Usage,
            ErrorKind::NotFound | ErrorKind::Busy | ErrorKind::Conflict | ErrorKind::Internal => Self::Failed,
            ErrorKind::Unavailable => Self::Unreachable,
        }
    }
}

/// A failure to show to the user. Wrap it in `anyhow` like any error; `main` downcasts it.
#[derive(Debug)]
pub struct Failure {
    pub kind: ExitKind,
    /// The error: a sentence without a full stop.
    pub what: String,
    /// The next step for the user, shown on its own line.
    pub hint: Option<String>,
    /// Why the daemon refused, if it did.
    pub refusal: Option<ErrorKind>,
}

impl Failure {
    fn new(kind: ExitKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into(), hint: None, refusal: None }
    }

    pub fn failed(what: impl Into<String>) -> Self {
        Self::new(ExitKind::Failed, what)
    }

    /// A request that the daemon rejected.
    pub fn refused(kind: ErrorKind, what: impl Into<String>) -> Self {
        Self { refusal: Some(kind), ..Self::new(kind.into(), what) }
    }

    pub fn usage(what: impl Into<String>) -> Self {
        Self::new(ExitKind::Usage, what)
    }

    pub fn unreachable(what: impl Into<String>) -> Self {
        Self::new(ExitKind::Unreachable, what)
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Failure {}

/// Returns the kind of the daemon's refusal, if this error is one.
pub fn refused_as(error: &anyhow::Error) -> Option<ErrorKind> {
    error.downcast_ref::<Failure>().and_then(|failure| failure.refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kind_of_an_error_determines_the_exit_code() {
        let code = |kind: ErrorKind| ExitKind::from(kind).code();
        let failed = [ErrorKind::NotFound, ErrorKind::Busy, ErrorKind::Conflict, ErrorKind::Internal];
        assert!(failed.into_iter().all(|kind| code(kind) == 1));
        assert_eq!(code(ErrorKind::Invalid), 2);
        assert_eq!(code(ErrorKind::Unavailable), 3);
    }
}
