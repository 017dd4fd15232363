//! Finding things again.
