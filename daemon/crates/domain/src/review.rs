//! A person's verdict on a note, and what may be injected before there is one.

/// A person's verdict on a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays as it is.
    Kept,
    /// It is wrong or useless: no session is told of it unasked, and it replaces nothing.
    Rejected,
}

/// Which notes sessions are told of unasked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tellable {
    #[default]
    Everything,
    /// Only what a person wrote, pinned or kept.
    Reviewed,
}
