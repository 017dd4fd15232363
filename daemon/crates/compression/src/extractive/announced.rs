//! Remembers what batches told when they ended. A session is drafted anew after its turns, but most of its batches stay
//! as they are, and to judge one takes longer than to recognise it.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, Hasher, RandomState};
use std::sync::{Arc, Mutex, PoisonError};

use recall_domain::material::BatchMaterial;
use recall_domain::observation::ObservationDraft;

/// Batches of a few long sessions. Beyond this the cache begins anew.
const MOST: usize = 512;

/// Why an observation is among those of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It is chosen among all, or told by rule.
    Chosen,
    /// Its batch told it when it ended, and the session would not.
    Left,
}

pub(super) type Announcement = Vec<(Standing, ObservationDraft)>;

/// Cheap to clone; clones share what they know. Whatever it knows, the result is the same.
#[derive(Clone, Default)]
pub struct Announced(Arc<Known>);

#[derive(Default)]
struct Known {
    /// Its keys are random, so that nobody can write two batches that are taken for one.
    hashes: RandomState,
    told: Mutex<HashMap<u64, Announcement>>,
}

impl Announced {
    /// What `batch` told, made by `make` unless that is known.
    pub(super) fn of(
        &self,
        batch: &BatchMaterial,
        make: impl FnOnce(&BatchMaterial) -> Announcement,
    ) -> Announcement {
        let hash = self.hash(batch);
        let told = || self.0.told.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = told().get(&hash) {
            return known.clone();
        }
        let made = make(batch);
        let mut told = told();
        if told.len() >= MOST {
            told.clear();
        }
        told.insert(hash, made.clone());
        made
    }

    /// Of all that the drafts depend on. Earlier statements are for models alone.
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
        assert!(announced.0.told.lock().unwrap().len() <= MOST);
    }
}
