//! Selects notes to inject when an agent opens a file, and tracks what a session already received.
//!
//! A note about a file interrupts. So it is limited to what must be known before the file is touched: failures,
//! decisions and dangers. Notes from before the whole file was rewritten are outdated. Edits, and changes outside of
//! an agent's tools, alter a file only in part, so they do not count.

use std::collections::HashSet;

use super::ids::{ObservationId, SessionId, Timestamp};
use super::observation::ObservationType;

/// Types of observations that are injected for a file.
pub const INJECTED_FOR_FILE: [ObservationType; 6] = [
    ObservationType::Gotcha,
    ObservationType::Security,
    ObservationType::Decision,
    ObservationType::Bugfix,
    ObservationType::Preference,
    ObservationType::Correction,
];

/// Less important observations are not worth an interruption, 1 to 10.
pub const LEAST_IMPORTANCE: u8 = 5;

/// What was injected into a session's conversation since it was last emptied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InjectedSet {
    pub observations: HashSet<ObservationId>,
    /// Files for which something was injected, relative to the project's folder.
    pub files: HashSet<String>,
}

impl InjectedSet {
    /// Records an injection. Returns the part of it that is new.
    pub fn add(&mut self, observations: Vec<ObservationId>, file: Option<String>) -> Self {
        Self {
            observations: observations.into_iter().filter(|id| self.observations.insert(*id)).collect(),
            files: file.into_iter().filter(|file| self.files.insert(file.clone())).collect(),
        }
    }

    /// Removes an injection that was not delivered.
    pub fn remove(&mut self, injection: &Self) {
        self.observations.retain(|id| !injection.observations.contains(id));
        self.files.retain(|file| !injection.files.contains(file));
    }
}

/// The properties of an observation that decide whether it is injected for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate<'a> {
    pub id: ObservationId,
    /// The session that made it. `None` if it was written by hand.
    pub session: Option<&'a SessionId>,
    pub at: Timestamp,
    /// When a batch other than its own last wrote the whole file.
    pub rewritten: Option<Timestamp>,
}

impl Candidate<'_> {
    /// Whether to inject it into the session `reader`. Its own observations are already in its conversation.
    pub fn is_new_to(&self, reader: &SessionId, injected: &InjectedSet) -> bool {
        self.session != Some(reader)
            && !injected.observations.contains(&self.id)
            && self.rewritten.is_none_or(|rewritten| rewritten <= self.at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removing_an_injection_keeps_earlier_ones() {
        let mut injected = InjectedSet { observations: [ObservationId(1)].into(), ..InjectedSet::default() };
        let injection = injected.add(vec![ObservationId(1), ObservationId(2)], Some("a.rs".to_owned()));
        assert_eq!(injected.add(vec![ObservationId(2)], Some("a.rs".to_owned())), InjectedSet::default());
        injected.remove(&injection);
        assert_eq!(
            injected,
            InjectedSet { observations: [ObservationId(1)].into(), ..InjectedSet::default() }
        );
    }

    #[test]
    fn injected_own_and_overwritten_notes_are_not_new() {
        let (here, there) = (SessionId::from("here"), SessionId::from("there"));
        let note =
            Candidate { id: ObservationId(1), session: Some(&there), at: Timestamp(10), rewritten: None };
        let is_new_to = |candidate: Candidate<'_>| candidate.is_new_to(&here, &InjectedSet::default());
        assert!(is_new_to(note));
        assert!(is_new_to(Candidate { session: None, ..note }));
        assert!(!is_new_to(Candidate { session: Some(&here), ..note }));
        assert!(is_new_to(Candidate { rewritten: Some(Timestamp(10)), ..note }));
        assert!(!is_new_to(Candidate { rewritten: Some(Timestamp(11)), ..note }));
        let injected = InjectedSet { observations: [ObservationId(1)].into(), ..InjectedSet::default() };
        assert!(!note.is_new_to(&here, &injected));
        assert!(Candidate { id: ObservationId(2), ..note }.is_new_to(&here, &injected));
    }
}
