//! Sums a session up.
use crate::memory::material::SessionMaterial;
use crate::memory::observation::SummaryDraft;
pub(super) fn summarize(_session: &SessionMaterial) -> Option<SummaryDraft> {
    None
}
