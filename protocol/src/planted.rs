//! Faults that a test plants on purpose, to see that the tests of a protection notice when it is gone.
//!
//! A check that cannot fail proves nothing. In builds with the feature `faults` the variable `RECALL_PLANTED` names one
//! [`Fault`], and at the one place where recall protects itself against it, it does not. In every other build
//! [`planted`] is `false` at compile time, and neither the variable nor any fault's name is in the program. Only the
//! end-to-end tests ask for the feature, as a dependency for building tests: no build of a program has it.
//!
//! A fault is one line at the protection, and never in the daemon's pure rooms: what those do is undone by whoever asks
//! them. A protection that is new brings its fault with it, and a row in `tests/tests/planted.rs`.

/// What recall can be made to do wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The writer answers before it commits.
    AckBeforeCommit,
    /// An event id that is there already is stored once more.
    NoEventKey,
    /// The same call, or the same words of the same turn, under another event id are stored once more.
    NoSecondKey,
    /// A spool file goes before its event is stored.
    UnlinkBeforeCommit,
    /// A job that a compressor works on is given to the next as well.
    NoLease,
    /// An event that crashes its session is tried for ever.
    NoParking,
    /// Late events stand where they arrive.
    OrderOfArrival,
    /// The daemon serves every user.
    AnyPeer,
    /// Clients talk to every user's daemon.
    AnyDaemon,
    /// Symlinks are followed.
    FollowLinks,
    /// A frame may have any length.
    NoLengthCap,
    /// `<private>` and recall's own blocks are kept.
    KeepPrivate,
    /// Secrets are kept.
    KeepSecrets,
    /// Stored text is given to a model as it is.
    NoEscaping,
    /// What an agent said is logged.
    LogContent,
    /// A provider may send its callers elsewhere.
    FollowRedirects,
}

impl Fault {
    pub const ALL: [Self; 16] = [
        Self::AckBeforeCommit,
        Self::NoEventKey,
        Self::NoSecondKey,
        Self::UnlinkBeforeCommit,
        Self::NoLease,
        Self::NoParking,
        Self::OrderOfArrival,
        Self::AnyPeer,
        Self::AnyDaemon,
        Self::FollowLinks,
        Self::NoLengthCap,
        Self::KeepPrivate,
        Self::KeepSecrets,
        Self::NoEscaping,
        Self::LogContent,
        Self::FollowRedirects,
    ];

    /// As the variable names it.
    pub fn name(self) -> &'static str {
        match self {
            Self::AckBeforeCommit => "ack-before-commit",
            Self::NoEventKey => "no-event-key",
            Self::NoSecondKey => "no-second-key",
            Self::UnlinkBeforeCommit => "unlink-before-commit",
            Self::NoLease => "no-lease",
            Self::NoParking => "no-parking",
            Self::OrderOfArrival => "order-of-arrival",
            Self::AnyPeer => "any-peer",
            Self::AnyDaemon => "any-daemon",
            Self::FollowLinks => "follow-links",
            Self::NoLengthCap => "no-length-cap",
            Self::KeepPrivate => "keep-private",
            Self::KeepSecrets => "keep-secrets",
            Self::NoEscaping => "no-escaping",
            Self::LogContent => "log-content",
            Self::FollowRedirects => "follow-redirects",
        }
    }
}

/// Whether this fault was planted.
#[cfg(not(feature = "faults"))]
#[inline(always)]
pub const fn planted(_: Fault) -> bool {
    false
}

/// Whether this fault was planted. The variable is read once: some ask for every byte.
#[cfg(feature = "faults")]
pub fn planted(fault: Fault) -> bool {
    static NAMED: std::sync::OnceLock<Option<std::ffi::OsString>> = std::sync::OnceLock::new();
    NAMED.get_or_init(|| std::env::var_os(PLANTED)).as_ref().is_some_and(|name| name == fault.name())
}

/// The variable that names the fault.
#[cfg(feature = "faults")]
pub const PLANTED: &str = "RECALL_PLANTED";
