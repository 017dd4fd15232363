//! What the system gives: files that others may have written, programs of the user, secrets, who holds the data folder.
//!
//! [`faults`] is here because every step of an event's handling may have a fail point.

pub mod faults;
pub mod holding;
pub mod process_group;
pub mod secret;
pub mod trusted_file;
