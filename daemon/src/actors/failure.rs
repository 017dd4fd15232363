//! Reports why an actor failed, without content.
//!
//! A panic message may quote stored text. A supervisor receives either such a message or one of our errors. Only our
//! errors are logged and shown to the user. The location of a panic is logged when it happens.

use ractor::ActorProcessingErr;

use recall_store::{OpenStoreError, StoreError};

/// The actor stopped itself. The message contains no content.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct GaveUp(pub String);

/// The writer stops because no later write can succeed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the database is damaged: {0}")]
pub struct DatabaseDamaged(pub String);

/// Returns why an actor failed.
pub(super) fn reason(error: &ActorProcessingErr) -> String {
    fn message<E: std::error::Error + 'static>(error: &ActorProcessingErr) -> Option<String> {
        error.downcast_ref::<E>().map(ToString::to_string)
    }
    let ours =
        [message::<GaveUp>, message::<DatabaseDamaged>, message::<StoreError>, message::<OpenStoreError>];
    ours.iter().find_map(|message| message(error)).unwrap_or_else(|| "it panicked".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_errors_are_reported() {
        assert_eq!(reason(&GaveUp("job 7 panicked".to_owned()).into()), "job 7 panicked");
        assert_eq!(reason(&DatabaseDamaged("page 3".to_owned()).into()), "the database is damaged: page 3");
        assert_eq!(reason(&"index out of bounds: a secret".into()), "it panicked");
    }
}
