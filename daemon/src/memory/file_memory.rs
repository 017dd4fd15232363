//! What is worth a word when an agent opens a file, and what a session was told already.
//!
//! A note about a file interrupts, so only what one must know before touching it is told: what went wrong there, what
//! was decided, what is dangerous. A file that was written as a whole since a note was made is another file; edits and
//! what happens outside an agent's tools change a file only in part, as far as anybody can tell, and count for nothing.

use std::collections::HashSet;

use super::ids::{ObservationId, SessionId, Timestamp};
use super::observation::ObservationType;

/// The sorts of observations that are told of a file.
pub const TOLD_OF_A_FILE: [ObservationType; 4] =
    [ObservationType::Gotcha, ObservationType::Security, ObservationType::Decision, ObservationType::Bugfix];

/// What is less important is not worth interrupting for, 1 to 10.
pub const LEAST_IMPORTANCE: u8 = 5;

/// What a session was told since its conversation was last emptied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InjectedSet {
    pub observations: HashSet<ObservationId>,
    /// Files of which something was told, relative to the project's folder.
    pub files: HashSet<String>,
}

impl InjectedSet {
    /// What of this was not told before, and is from now on.
    pub fn add(&mut self, observations: Vec<ObservationId>, file: Option<String>) -> Self {
        Self {
            observations: observations.into_iter().filter(|id| self.observations.insert(*id)).collect(),
            files: file.into_iter().filter(|file| self.files.insert(file.clone())).collect(),
        }
    }

    /// Nobody heard it.
    pub fn take_back(&mut self, news: &Self) {
        self.observations.retain(|id| !news.observations.contains(id));
        self.files.retain(|file| !news.files.contains(file));
    }
}

/// An observation about the file at hand, as far as deciding about it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    pub id: ObservationId,
    /// The session that made it; `None` for one written by hand.
    pub session: Option<&'a SessionId>,
    pub at: Timestamp,
    /// When other work than that which made the observation last wrote the whole file.
    pub rewritten: Option<Timestamp>,
}

impl Candidate<'_> {
    /// Whether `listener` should hear it. What it has found out itself stands in its own conversation.
    pub fn is_news(&self, listener: &SessionId, injected: &InjectedSet) -> bool {
        self.session != Some(listener)
            && !injected.observations.contains(&self.id)
            && self.rewritten.is_none_or(|rewritten| rewritten <= self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_news_is_taken_back() {
        let mut injected = InjectedSet { observations: [ObservationId(1)].into(), ..InjectedSet::default() };
        let news = injected.add(vec![ObservationId(1), ObservationId(2)], Some("a.rs".to_owned()));
        assert_eq!(injected.add(vec![ObservationId(2)], Some("a.rs".to_owned())), InjectedSet::default());
        injected.take_back(&news);
        assert_eq!(
            injected,
            InjectedSet { observations: [ObservationId(1)].into(), ..InjectedSet::default() }
        );
    }

    #[test]
    fn what_was_told_found_out_or_overwritten_is_no_news() {
        let (here, there) = (SessionId::from("here"), SessionId::from("there"));
        let note =
            Candidate { id: ObservationId(1), session: Some(&there), at: Timestamp(10), rewritten: None };
        let is_news = |candidate: Candidate<'_>| candidate.is_news(&here, &InjectedSet::default());
        assert!(is_news(note));
        assert!(is_news(Candidate { session: None, ..note }));
        assert!(!is_news(Candidate { session: Some(&here), ..note }));
        assert!(is_news(Candidate { rewritten: Some(Timestamp(10)), ..note }));
        assert!(!is_news(Candidate { rewritten: Some(Timestamp(11)), ..note }));
        let injected = InjectedSet { observations: [ObservationId(1)].into(), ..InjectedSet::default() };
        assert!(!note.is_news(&here, &injected));
        assert!(Candidate { id: ObservationId(2), ..note }.is_news(&here, &injected));
    }
}
