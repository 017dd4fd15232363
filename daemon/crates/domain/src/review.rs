//! A person's verdict on a note, and what may be injected before there is one.

/// A person's verdict on a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It stays as it is.
    Kept,
    /// It is wrong or useless: it is never injected unasked, and it replaces nothing.
    Rejected,
}

/// Which notes may be injected unasked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tellable {
    #[default]
    Everything,
    /// Only what a person wrote, pinned or kept.
    Reviewed,
}
