//! Observations and summaries: the results of compression, and people's changes to them.

pub(crate) mod by_hand;
pub(crate) mod checkout_records;
pub(crate) mod choice;
pub(crate) mod editing;
pub(crate) mod evidence;
pub(crate) mod file_notes;
pub(crate) mod changes;
pub(crate) mod hand_changes;
pub(crate) mod histories;
pub(crate) mod kept_memories;
pub(crate) mod results;
pub(crate) mod review;
pub(crate) mod sessions_elsewhere;
pub(crate) mod subjects;
pub(crate) mod threads;
pub(crate) mod injection_uses;
