//! Selects notes to inject when an agent opens a file, and tracks what a session has already received.
//!
//! A note about a file is an interruption, so it is limited to what must be known before touching the file: failures,
//! decisions and dangers. Notes from before the whole file was rewritten are outdated. Edits, and changes outside an
//! agent's tools, alter only part of a file, so they do not count.

use std::collections::HashSet;

use super::context::InjectedExtent;
use super::document::{DocumentKey, DocumentKind};
use super::ids::{ObservationId, SessionId, Timestamp};
use super::observation::ObservationType;
use super::passage::PassageKey;

/// Types of observations that are injected for a file.
pub const INJECTED_FOR_FILE: [ObservationType; 6] = [
    ObservationType::Gotcha,
    ObservationType::Security,
    ObservationType::Decision,
    ObservationType::Bugfix,
    ObservationType::Preference,
    ObservationType::Correction,
];

/// The minimum importance for an interruption, from 1 to 10.
pub const LEAST_IMPORTANCE: u8 = 5;

/// Items injected into a session's conversation since it was last emptied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InjectedSet {
    pub observations: HashSet<ObservationId>,
    /// Observations of which only the title was injected.
    pub titles: HashSet<ObservationId>,
    /// Other documents, injected as a whole or in part.
    pub documents: HashSet<(DocumentKey, InjectedExtent)>,
    /// Files about which something was injected, relative to the project's folder.
    pub files: HashSet<String>,
}

impl InjectedSet {
    /// Records an injection. Returns the part that is new.
    pub fn add(&mut self, given: Self) -> Self {
        // An observation injected in full no longer counts as a mere title.
        self.titles.retain(|id| given.titles.contains(id) || !given.observations.contains(id));
        Self {
            observations: given.observations.into_iter().filter(|id| self.observations.insert(*id)).collect(),
            titles: given.titles.into_iter().filter(|id| self.titles.insert(*id)).collect(),
            documents: given.documents.into_iter().filter(|key| self.documents.insert(*key)).collect(),
            files: given.files.into_iter().filter(|file| self.files.insert(file.clone())).collect(),
        }
    }

    /// The documents of a block, and the file that the block was about. A session's state is not recorded, because it
    /// is derived from its prompts and what followed.
    pub fn of_items(
        items: impl IntoIterator<Item = (DocumentKey, InjectedExtent)>,
        file: Option<String>,
    ) -> Self {
        let mut given = Self { files: file.into_iter().collect(), ..Self::default() };
        let mut whole = HashSet::new();
        for (document, extent) in items {
            if document.kind == DocumentKind::Observation {
                let id = ObservationId(document.row);
                given.observations.insert(id);
                if extent == InjectedExtent::Title {
                    given.titles.insert(id)
                } else {
                    whole.insert(id)
                };
            } else {
                given.documents.insert((document, extent));
            }
        }
        given.titles.retain(|id| !whole.contains(id));
        given
    }

    /// Whether a passage was injected, alone or as part of its document.
    pub fn has(&self, key: PassageKey) -> bool {
        let PassageKey { document, part } = key;
        match document.kind {
            DocumentKind::Observation => {
                let id = ObservationId(document.row);
                self.observations.contains(&id) && !self.titles.contains(&id)
            }
            _ => [InjectedExtent::Whole, InjectedExtent::Passage(part)]
                .into_iter()
                .any(|extent| self.documents.contains(&(document, extent))),
        }
    }

    /// Documents whose text the reader knows, and how much of it, in order.
    pub fn texts(&self) -> Vec<(DocumentKey, InjectedExtent)> {
        let observation = |id: &ObservationId| DocumentKey { kind: DocumentKind::Observation, row: id.0 };
        let known = self.observations.iter().filter(|id| !self.titles.contains(id));
        let whole = known.map(|id| (observation(id), InjectedExtent::Whole));
        let others = self.documents.iter().filter(|(_, extent)| *extent != InjectedExtent::Title).copied();
        let mut texts: Vec<_> = whole.chain(others).collect();
        texts.sort_unstable();
        texts
    }

    /// Removes an injection that was never delivered.
    pub fn remove(&mut self, injection: &Self) {
        self.observations.retain(|id| !injection.observations.contains(id));
        self.titles.retain(|id| !injection.titles.contains(id));
        self.documents.retain(|key| !injection.documents.contains(key));
        self.files.retain(|file| !injection.files.contains(file));
    }
}

/// The properties that decide whether an observation is injected for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileNote<'a> {
    pub id: ObservationId,
    /// The session that made the observation. `None` if a person wrote it.
    pub session: Option<&'a SessionId>,
    pub at: Timestamp,
    /// When a batch other than its own last rewrote the whole file.
    pub rewritten: Option<Timestamp>,
}

impl FileNote<'_> {
    /// Whether to inject the observation into session `reader`. A session's own observations are already in its
    /// conversation.
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
        let given = |ids: &[i64]| {
            let key = |kind, row| DocumentKey { kind, row };
            let items = ids.iter().map(|id| (key(DocumentKind::Observation, *id), InjectedExtent::Whole));
            let items = items.chain([(key(DocumentKind::Response, 4), InjectedExtent::Passage(1))]);
            InjectedSet::of_items(items, Some("a.rs".to_owned()))
        };
        let passage =
            |part| PassageKey { document: DocumentKey { kind: DocumentKind::Response, row: 4 }, part };
        let injection = injected.add(given(&[1, 2]));
        assert_eq!(injected.add(given(&[2])), InjectedSet::default());
        assert!(injected.has(passage(1)) && !injected.has(passage(0)));
        let of_three =
            PassageKey { document: DocumentKey { kind: DocumentKind::Observation, row: 3 }, part: 0 };
        let three = |extent| InjectedSet::of_items([(of_three.document, extent)], None);
        injected.add(three(InjectedExtent::Title));
        assert!(
            injected.observations.contains(&ObservationId(3)) && !injected.has(of_three),
            "only its title"
        );
        injected.add(three(InjectedExtent::Whole));
        assert!(
            injected.has(of_three) && injected.texts().contains(&(of_three.document, InjectedExtent::Whole))
        );
        injected.remove(&three(InjectedExtent::Whole));
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
            FileNote { id: ObservationId(1), session: Some(&there), at: Timestamp(10), rewritten: None };
        let is_new_to = |candidate: FileNote<'_>| candidate.is_new_to(&here, &InjectedSet::default());
        assert!(is_new_to(note));
        assert!(is_new_to(FileNote { session: None, ..note }));
        assert!(!is_new_to(FileNote { session: Some(&here), ..note }));
        assert!(is_new_to(FileNote { rewritten: Some(Timestamp(10)), ..note }));
        assert!(!is_new_to(FileNote { rewritten: Some(Timestamp(11)), ..note }));
        let injected = InjectedSet { observations: [ObservationId(1)].into(), ..InjectedSet::default() };
        assert!(!note.is_new_to(&here, &injected));
        assert!(FileNote { id: ObservationId(2), ..note }.is_new_to(&here, &injected));
    }
}
