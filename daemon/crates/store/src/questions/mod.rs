//! Answers questions about more than one table: lists, names, projects, counts.

pub(crate) mod authors;
pub(crate) mod browsing;
pub(crate) mod names;
pub(crate) mod projects;
pub(crate) mod reading;
pub(crate) mod statistics;
