//! Decides which records of a damaged file belong together, if each record names the one before it.

use std::collections::HashMap;

/// Whether a record connects to its prompt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// Its prompt, or the beginning, is in the same unbroken chain.
    Whole,
    /// A record between it and its prompt is missing, or the prompt itself.
    Broken,
}

/// The records so far.
#[derive(Default)]
pub(super) struct Chain(HashMap<String, Link>);

impl Chain {
    /// Starts a new chain with a prompt, whatever is missing before it.
    pub(super) fn begin(&mut self, id: &str) {
        self.0.insert(id.to_owned(), Link::Whole);
    }

    /// Adds a record. The first record may follow a missing one, because a copy or the end of a file begins in the
    /// middle.
    pub(super) fn follow(&mut self, id: &str, parent: Option<&str>) -> Link {
        let link = match parent {
            Some(parent) if !self.0.is_empty() => self.0.get(parent).copied().unwrap_or(Link::Broken),
            _ => Link::Whole,
        };
        self.0.insert(id.to_owned(), link);
        link
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_after_a_lost_one_are_broken_until_the_next_prompt() {
        let mut chain = Chain::default();
        assert_eq!(chain.follow("a", Some("elsewhere")), Link::Whole);
        assert_eq!(chain.follow("b", Some("a")), Link::Whole);
        assert_eq!(chain.follow("d", Some("c")), Link::Broken);
        assert_eq!(chain.follow("e", Some("d")), Link::Broken);
        assert_eq!(chain.follow("f", None), Link::Whole);
        chain.begin("g");
        assert_eq!(chain.follow("h", Some("g")), Link::Whole);
    }
}
