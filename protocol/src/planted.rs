//! Planted faults: tests deliberately disable a protection to prove that the tests notice.
//!
//! In builds with the feature `faults`, the variable `RECALL_PLANTED` names a [`Fault`], and the one protection
//! against it is skipped. In every other build [`planted`] is `false` at compile time, and the program contains
//! neither the variable nor any fault's name. Only the end-to-end tests enable the feature, as a dev-dependency.
//!
//! A fault is one line at the protection. The daemon's pure rooms contain none; their callers undo the protection
//! instead. A new protection needs a fault here and a row in `tests/tests/planted.rs`.

/// A protection that can be disabled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The writer answers before it commits.
    AckBeforeCommit,
    /// An event with a known id is stored again.
    NoEventKey,
    /// The same call, or the same message of a turn, is stored again under another event id.
    NoSecondKey,
    /// A spool file is removed before its event is stored.
    UnlinkBeforeCommit,
    /// A job in progress is also leased to another compressor.
    NoLease,
    /// An event that crashes its session is retried forever.
    NoParking,
    /// Late events are ordered by arrival time.
    OrderOfArrival,
    /// The daemon serves any user.
    AnyPeer,
    /// Clients talk to any user's daemon.
    AnyDaemon,
    /// Symlinks are followed.
    FollowLinks,
    /// A frame may have any length.
    NoLengthCap,
    /// `<private>` and recall's own blocks are kept.
    KeepPrivate,
    /// Secrets are kept.
    KeepSecrets,
    /// Stored text reaches a model unescaped.
    NoEscaping,
    /// Agents' text is logged.
    LogContent,
    /// HTTP redirects from a provider are followed.
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

    /// The fault's name in the variable.
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

/// Whether this fault is planted: never, in this build.
#[cfg(not(feature = "faults"))]
#[inline(always)]
pub const fn planted(_: Fault) -> bool {
    false
}

/// Whether this fault is planted. The variable is read only once, because some callers check for every byte.
#[cfg(feature = "faults")]
pub fn planted(fault: Fault) -> bool {
    static NAMED: std::sync::OnceLock<Option<std::ffi::OsString>> = std::sync::OnceLock::new();
    NAMED.get_or_init(|| std::env::var_os(PLANTED)).as_ref().is_some_and(|name| name == fault.name())
}

/// The variable that names the fault.
#[cfg(feature = "faults")]
pub const PLANTED: &str = "RECALL_PLANTED";
