//! A person's verdict on a note, and what may be injected before there is one.

pub use recall_protocol::query::ReviewVerdict;

/// Which notes may be injected unasked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Injectable {
    #[default]
    Everything,
    /// Only what a person wrote, pinned or kept.
    Reviewed,
}
