//! A cache of batches' provisional observations. A session is drafted again after each turn, while most of its
//! batches stay the same, and judging a batch takes longer than looking it up.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use recall_domain::material::BatchMaterial;
use recall_domain::observation::ObservationDraft;

/// The maximum number of cached batches, enough for a few long sessions. When it is reached, the cache is cleared.
const MOST: usize = 512;

/// Why an observation is part of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// The session selected it, or a rule added it.
    Chosen,
    /// Its batch reported it when it ended, and the session would not have.
    Left,
}

pub(super) type Announcement = Vec<(Standing, ObservationDraft)>;

/// A shared cache; clones share its content. It never changes a result.
#[derive(Clone, Default)]
pub struct Announced(Arc<Known>);

#[derive(Default)]
struct Known {
    /// Keyed randomly, so that nobody can craft two batches with the same hash.
    hashes: RandomState,
    announcements: Mutex<HashMap<u64, Announcement>>,
}

impl Announced {
    /// The cached result for `batch`; `make` computes a missing one.
    pub(super) fn of(
        &self,
        batch: &BatchMaterial,
        make: impl FnOnce(&BatchMaterial) -> Announcement,
    ) -> Announcement {
        let hash = self.hash(batch);
        let announcements = || self.0.announcements.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = announcements().get(&hash) {
            return known.clone();
        }
        let made = make(batch);
        let mut announcements = announcements();
        if announcements.len() >= MOST {
            announcements.clear();
        }
        announcements.insert(hash, made.clone());
        made
    }

    /// A hash of everything that affects the drafts. Earlier statements do not, because only models use them.
    fn hash(&self, batch: &BatchMaterial) -> u64 {
        let BatchMaterial {
            prompt_number,
            source,
            prompt,
            response,
            previous_response,
            earlier: _,
            steps,
            root,
            conventions,
        } = batch;
        let mut hash = self.0.hashes.build_hasher();
        (prompt_number, source, prompt, response, previous_response).hash(&mut hash);
        (steps, root, conventions).hash(&mut hash);
        hash.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_domain::ids::EventId;
    use recall_domain::material::SourcedText;

    fn batch(number: u32, answer: &str) -> BatchMaterial {
        let response = Some(SourcedText { event: EventId([1; 16]), text: answer.to_owned() });
        BatchMaterial { prompt_number: number, response, ..BatchMaterial::default() }
    }

    #[test]
    fn a_batch_is_judged_once_until_it_changes() {
        let announced = Announced::default();
        let mut judged = 0;
        let mut judge = |batch: &BatchMaterial| {
            announced.of(batch, |_| {
                judged += 1;
                Vec::new()
            });
            judged
        };
        assert_eq!(judge(&batch(1, "The pool drains.")), 1);
        assert_eq!(judge(&batch(1, "The pool drains.")), 1);
        assert_eq!(judge(&batch(1, "The pool hangs.")), 2);
        let after =
            BatchMaterial { previous_response: Some("Yes.".to_owned()), ..batch(1, "The pool hangs.") };
        assert_eq!(judge(&after), 3);
        for number in 2..2 * MOST as u32 {
            judge(&batch(number, ""));
        }
        assert!(announced.0.announcements.lock().unwrap().len() <= MOST);
    }
}
