//! Caches the subjects of notes by hand. Each prompt and each command is compared with all of them, and tokenizing is
//! most of that work: with 40 notes it was two thirds of what a command cost.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use recall_search::subjects;

/// The capacity, which exceeds what one comparison examines. When it is full the cache is cleared, which also drops
/// notes that were edited or forgotten.
const MOST: usize = 512;

type Subjects = Arc<[(String, f32)]>;

/// The cached subjects of notes by hand. Cheap to clone; clones share their contents.
#[derive(Clone, Default)]
pub struct SubjectCache(Arc<Mutex<HashMap<String, Subjects>>>);

impl SubjectCache {
    /// Returns the subjects of a text, each with its share.
    pub fn subjects(&self, text: &str) -> Subjects {
        let known = || self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(subjects) = known().get(text) {
            return Arc::clone(subjects);
        }
        let made: Subjects = subjects(text).into();
        let mut known = known();
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(text.to_owned(), Arc::clone(&made));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_the_same_subjects_each_time_and_the_cache_is_bounded() {
        let cache = SubjectCache::default();
        let text = "The importer closes its file before it renames it";
        assert!(!subjects(text).is_empty());
        for _ in 0..2 {
            assert_eq!(*cache.subjects(text), *subjects(text));
        }
        for number in 0..2 * MOST {
            cache.subjects(&format!("note {number}"));
        }
        assert!(cache.0.lock().unwrap().len() <= MOST);
        assert_eq!(*cache.subjects(text), *subjects(text));
    }
}
