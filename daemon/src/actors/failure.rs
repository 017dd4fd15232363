//! How an actor ended, in words that may be told.
//!
//! The words of a panic may quote the text that it stumbled over, and an actor's failure comes to its supervisor as
//! such words or as an error of ours. Only ours go on, into the log and to the user; a panic's place is logged where
//! it happens.

use ractor::ActorProcessingErr;

use crate::store::{OpenStoreError, StoreError};

/// An actor's own end. Its words hold no content.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct GaveUp(pub String);

/// The writer's end when no later write can succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the database is damaged: {0}")]
pub struct DatabaseDamaged(pub String);

/// Why an actor failed.
pub(super) fn reason(error: &ActorProcessingErr) -> String {
    fn told<E: std::error::Error + 'static>(error: &ActorProcessingErr) -> Option<String> {
        error.downcast_ref::<E>().map(ToString::to_string)
    }
    let ours = [told::<GaveUp>, told::<DatabaseDamaged>, told::<StoreError>, told::<OpenStoreError>];
    ours.iter().find_map(|told| told(error)).unwrap_or_else(|| "it panicked".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_words_are_told() {
        assert_eq!(reason(&GaveUp("job 7 panicked".to_owned()).into()), "job 7 panicked");
        assert_eq!(reason(&DatabaseDamaged("page 3".to_owned()).into()), "the database is damaged: page 3");
        assert_eq!(reason(&"index out of bounds: a secret".into()), "it panicked");
    }
}
