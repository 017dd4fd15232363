//! The guard rules, by name.

/// A rule. Every reason names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    Secrets,
    Environment,
    Ssh,
    Git,
    LockFiles,
    System,
    Erase,
    Yours,
    Outside,
}

impl Rule {
    pub const ALL: [Self; 9] = [
        Self::Secrets,
        Self::Environment,
        Self::Ssh,
        Self::Git,
        Self::LockFiles,
        Self::System,
        Self::Erase,
        Self::Yours,
        Self::Outside,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Secrets => "secrets",
            Self::Environment => "environment",
            Self::Ssh => "ssh",
            Self::Git => "git",
            Self::LockFiles => "lock-files",
            Self::System => "system",
            Self::Erase => "erase",
            Self::Yours => "yours",
            Self::Outside => "outside",
        }
    }

    /// Parses a rule's name.
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|rule| rule.name() == name)
    }

    /// A description of the calls that a guard covers.
    pub fn covers(self) -> &'static str {
        match self {
            Self::Secrets => ".env*, private keys, credential stores: what recall never stores either",
            Self::Environment => "commands that print the whole environment: env, printenv, export -p",
            Self::Ssh => "everything in a folder .ssh or .gnupg",
            Self::Git => "everything in a folder .git",
            Self::LockFiles => {
                "files that a package manager writes: Cargo.lock, package-lock.json, go.sum, ..."
            }
            Self::System => {
                "what belongs to the system: /etc, /usr, /bin, /lib, /boot, /System, /Library, ..."
            }
            Self::Erase => "rm -r of the root, a home folder, a folder above the project, or its .git",
            Self::Yours => "guards.write_paths, guards.read_paths",
            Self::Outside => {
                "web pages, results of MCP tools and documents from elsewhere that read like instructions"
            }
        }
    }

    /// The reason, as a clause about the file.
    pub(super) fn because(self) -> &'static str {
        match self {
            Self::Secrets => "which may hold secrets",
            Self::Environment => "where keys and passwords of other programs are",
            Self::Ssh => "which decides about access to other machines",
            Self::Git => "which belongs to git itself",
            Self::LockFiles => "which only its package manager should write",
            Self::System => "which belongs to the system, and not to this work",
            Self::Erase => "which holds far more than one piece of work",
            Self::Yours | Self::Outside => "which the user's own settings name",
        }
    }
}
