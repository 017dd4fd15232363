//! Parses the subject of a commit in the form of Conventional Commits 1.0: `fix(cart)!: round once`.

use recall_domain::observation::ObservationType;

const TYPES: [&str; 13] = [
    "feat", "fix", "docs", "chore", "refactor", "test", "tests", "perf", "ci", "build", "style", "revert",
    "feature",
];

/// The type of work that a commit's subject names. `None` if it has no such prefix.
pub(crate) fn committed_kind(subject: &str) -> Option<ObservationType> {
    Conventional::of(subject)?.kind()
}

pub(super) struct Conventional<'a> {
    name: &'a str,
    pub(super) scope: &'a str,
    pub(super) description: &'a str,
}

impl<'a> Conventional<'a> {
    /// `None` if the type is unknown here.
    pub(super) fn of(subject: &'a str) -> Option<Self> {
        let (label, description) = subject.trim_start().split_once(": ")?;
        let label = label.trim_end_matches('!');
        let (name, scope) = match label.split_once('(') {
            Some((name, scope)) => (name, scope.trim_end_matches(')')),
            None => (label, ""),
        };
        TYPES.contains(&name).then_some(Self { name, scope, description })
    }

    /// The type that the author gives the commit. Other prefixes say where it was made, not what it is.
    pub(super) fn kind(&self) -> Option<ObservationType> {
        match self.name {
            "feat" | "feature" => Some(ObservationType::Feature),
            "fix" => Some(ObservationType::Bugfix),
            "refactor" => Some(ObservationType::Refactor),
            _ => None,
        }
    }
}
