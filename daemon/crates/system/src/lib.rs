//! Access to the operating system: files that others may have written, programs of the user, secrets, and the
//! ownership of the data folder.
//!
//! [`faults`] is in this crate because every step of an event's handling may have a fail point.

pub mod faults;
pub mod holding;
pub mod process_group;
pub mod secret;
pub mod trusted_file;
