//! The feed of lifecycle events for followers on any connection.
//!
//! A follower that reads slowly misses events and is told how many; nothing waits for it. Following has no deadline,
//! because days may pass without an event, so the number of followers is limited.

use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::bus::{Bus, BusEvent};
use super::lifecycle_json::to_json;
use recall_domain::lifecycle::{LifecycleEvent, LifecycleKind};

/// The maximum number of concurrent followers.
const FOLLOWERS: u32 = 64;

/// Starts followers. Cheap to clone.
#[derive(Clone)]
pub struct EventFeed {
    bus: Bus,
    places: Arc<Semaphore>,
}

/// Which events a follower wants.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Only events of sessions whose id begins with this text.
    pub session: Option<String>,
    /// Only events of these names; empty means all.
    pub kinds: Vec<String>,
}

/// Why a follower was rejected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FollowError {
    #[error("Too many clients follow events already")]
    Full,
    #[error("There are no events named {0:?}")]
    UnknownKind(String),
}

/// The rows of one follower. Dropping it frees its place.
pub struct EventRows {
    filter: EventFilter,
    bus_events: Receiver<BusEvent>,
    announced: Announced,
    _place: OwnedSemaphorePermit,
}

/// Whether the follower was told that following has begun.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Announced {
    No,
    Yes,
}

impl EventFeed {
    pub fn new(bus: Bus) -> Self {
        Self { bus, places: Arc::new(Semaphore::new(FOLLOWERS as usize)) }
    }

    /// Starts following. Fails if there are too many followers or the filter names an unknown event.
    pub fn follow(&self, filter: EventFilter) -> Result<EventRows, FollowError> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| FollowError::Full)?;
        if let Some(unknown) = filter.kinds.iter().find(|kind| !LifecycleKind::NAMES.contains(&kind.as_str()))
        {
            return Err(FollowError::UnknownKind(unknown.clone()));
        }
        let bus_events = self.bus.listen();
        Ok(EventRows { filter, bus_events, announced: Announced::No, _place: place })
    }

    /// Waits up to `within` until there are no followers.
    pub async fn wait_until_empty(&self, within: Duration) {
        let _ = tokio::time::timeout(within, self.places.acquire_many(FOLLOWERS)).await;
    }
}

impl EventRows {
    /// Returns the next row: an object with `event`. The first row says that following has begun. `None` means that
    /// the daemon is stopping.
    ///
    /// Cancelling a call loses no row.
    pub async fn next(&mut self) -> Option<Value> {
        if self.announced == Announced::No {
            self.announced = Announced::Yes;
            return Some(json!({"event": "following"}));
        }
        loop {
            match self.bus_events.recv().await {
                Ok(BusEvent::LifecycleEvent(event)) if self.filter.takes(&event) => {
                    return Some(to_json(&event));
                }
                Ok(BusEvent::Stopped) | Err(RecvError::Closed) => return None,
                Err(RecvError::Lagged(missed)) => return Some(json!({"event": "lagged", "lagged": missed})),
                Ok(_) => {}
            }
        }
    }
}

impl EventFilter {
    fn takes(&self, event: &LifecycleEvent) -> bool {
        let kind = self.kinds.is_empty() || self.kinds.iter().any(|kind| kind == event.what.name());
        let id = event.session.as_ref().map(|session| session.id.as_str());
        kind && self.session.as_ref().is_none_or(|begin| id.is_some_and(|id| id.starts_with(begin)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use recall_domain::ids::{JobId, SessionKey, Timestamp};
    use recall_domain::lifecycle::ClosedBatch;

    fn closed(session: &str, prompt_number: u32) -> BusEvent {
        let key = SessionKey { agent: "claude-code".into(), id: session.into() };
        let what = LifecycleKind::BatchClosed(ClosedBatch { prompt_number, ..ClosedBatch::default() });
        BusEvent::LifecycleEvent(Arc::new(LifecycleEvent {
            session: Some(key),
            workspace: None,
            place: Box::default(),
            at: Timestamp(0),
            what,
        }))
    }

    fn filter(session: Option<&str>, kinds: &[&str]) -> EventFilter {
        let kinds = kinds.iter().map(|kind| (*kind).to_owned()).collect();
        EventFilter { session: session.map(str::to_owned), kinds }
    }

    #[tokio::test]
    async fn a_follower_gets_the_events_it_asks_for_until_the_daemon_stops() {
        let bus = Bus::default();
        let mut rows = EventFeed::new(bus.clone()).follow(filter(Some("ab"), &["batch_closed"])).unwrap();
        assert_eq!(rows.next().await, Some(json!({"event": "following"})));
        bus.publish(BusEvent::JobDone { job: JobId(1) });
        bus.publish(closed("other", 1));
        bus.publish(closed("abc", 2));
        bus.publish(BusEvent::Stopped);
        let row = rows.next().await.unwrap();
        assert_eq!((&row["session_id"], &row["prompt_number"]), (&json!("abc"), &json!(2)));
        assert_eq!(rows.next().await, None);
    }

    #[tokio::test]
    async fn a_slow_follower_gets_the_number_of_events_it_missed() {
        let bus = Bus::default();
        let mut rows = EventFeed::new(bus.clone()).follow(EventFilter::default()).unwrap();
        (0..1_100).for_each(|number| bus.publish(closed("s", number)));
        rows.next().await;
        let lagged = rows.next().await.unwrap();
        let missed = lagged["lagged"].as_u64().unwrap();
        assert_eq!(
            (&lagged["event"], rows.next().await.unwrap()["prompt_number"].as_u64()),
            (&json!("lagged"), Some(missed))
        );
    }

    #[tokio::test]
    async fn unknown_event_names_and_too_many_followers_are_refused() {
        let feed = EventFeed::new(Bus::default());
        let unknown = feed.follow(filter(None, &["batch_closed", "nonsense"])).err();
        assert_eq!(unknown, Some(FollowError::UnknownKind("nonsense".to_owned())));
        let mut followers: Vec<EventRows> =
            (0..FOLLOWERS).map(|_| feed.follow(EventFilter::default()).unwrap()).collect();
        assert_eq!(feed.follow(EventFilter::default()).err(), Some(FollowError::Full));
        followers.pop();
        assert!(feed.follow(EventFilter::default()).is_ok(), "a follower that leaves frees its place");
    }
}
