//! Sends events as they happen, as server-sent events. The last thousand are kept, so a reader that reconnects
//! continues where it stopped. A reader that is further behind is told how many events it missed. Nothing waits for a
//! reader.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use hyper::body::Bytes;
use serde_json::{Value, json};
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::task::AbortHandle;
use tokio::time::{Instant, sleep, timeout, timeout_at};

use super::answer::{Refusal, unanswered};
use recall_app::bus::{Bus, BusEvent};
use recall_app::clock;
use recall_app::lifecycle_json::to_json;
use recall_protocol::wire::Reply;
use recall_store::Readers;

const KEPT: usize = 1024;
const READERS: usize = 64;
/// The interval of comments in a quiet stream. They show both sides that the other is alive.
const BEAT: Duration = Duration::from_secs(15);
/// The maximum length of a text in an event. Prompts can be long, and a thousand events are kept.
const MOST_CONTENT: usize = 2_000;
/// Changes of the memory are reported at most once per this period.
const CHANGES_TOGETHER: Duration = Duration::from_millis(500);
/// The maximum number of waiting jobs that are counted: after an import there are many.
const MOST_COUNTED: u32 = 1_000;
/// How long to collect events for one write. The delay is imperceptible.
const TOGETHER: Duration = Duration::from_millis(25);
/// The maximum bytes per write, and therefore the most that a stalled reader holds.
const MOST_TOGETHER: usize = 64 * 1024;

/// The latest events of a daemon. Cheap to clone.
#[derive(Clone)]
pub(super) struct LiveEvents {
    /// Distinguishes this gateway's events from those of an earlier one.
    epoch: i64,
    kept: Arc<Mutex<VecDeque<(u64, Bytes)>>>,
    /// The number of the last event. Closed when the daemon stops.
    last: watch::Receiver<u64>,
    places: Arc<Semaphore>,
}

impl LiveEvents {
    /// Starts following the bus. Aborting the handle ends it: readers then get everything that has happened until now.
    pub(super) fn of(bus: &Bus, readers: Readers) -> (Self, AbortHandle) {
        let kept = Arc::<Mutex<VecDeque<(u64, Bytes)>>>::default();
        let (sender, last) = watch::channel(0);
        let epoch = clock::now().0;
        let (mut events, mut rows) = (bus.listen(), bus.follow_rows());
        let log = Arc::clone(&kept);
        let telling = tokio::spawn(async move {
            let mut number = 0;
            let mut push = |name: &str, data: Value| {
                number += 1;
                let text = format!("id: {epoch}-{number}\nevent: {name}\ndata: {data}\n\n");
                let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
                if log.len() == KEPT {
                    log.pop_front();
                }
                log.push_back((number, text.into()));
                drop(log);
                let _ = sender.send(number);
            };
            let (mut reported, mut changed) = (None, None);
            loop {
                let next = async {
                    tokio::select! {
                        event = events.recv() => Some(event),
                        Ok(()) = rows.changed() => None,
                    }
                };
                let event = match changed {
                    Some(at) => timeout_at(at, next).await,
                    None => Ok(next.await),
                };
                // Notes and imports cause no other event.
                if event.is_err() || changed.is_some_and(|at| at <= Instant::now()) {
                    changed = None;
                    push("memory_changed", json!({}));
                }
                let Ok(event) = event else { continue };
                let Some(event) = event else {
                    changed.get_or_insert_with(|| Instant::now() + CHANGES_TOGETHER);
                    continue;
                };
                match event {
                    Ok(BusEvent::LifecycleEvent(event)) => {
                        let (name, data) = named(to_json(&event));
                        push(name, data);
                    }
                    Ok(BusEvent::WorkQueued | BusEvent::JobDone { .. } | BusEvent::JobFailed { .. }) => {
                        let waiting = jobs_waiting(&readers).await;
                        if let Some(count) = waiting.filter(|_| reported != waiting) {
                            reported = waiting;
                            push(
                                "processing_status",
                                json!({"isProcessing": count > 0, "queueDepth": count}),
                            );
                        }
                    }
                    Ok(BusEvent::Stopped) | Err(RecvError::Closed) => return,
                    Err(RecvError::Lagged(missed)) => push("lagged", json!({"lagged": missed})),
                    Ok(_) => {}
                }
            }
        });
        (Self { epoch, kept, last, places: Arc::new(Semaphore::new(READERS)) }, telling.abort_handle())
    }

    /// Returns the events after `last_id`, or from now on.
    pub(super) fn read(&self, last_id: Option<&str>) -> Result<mpsc::Receiver<Bytes>, Refusal> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| unanswered(&Reply::Busy))?;
        let now = *self.last.borrow();
        let resumed =
            last_id.and_then(|id| id.split_once('-')).filter(|(epoch, _)| *epoch == self.epoch.to_string());
        let resumed = resumed.and_then(|(_, number)| number.parse().ok()).filter(|number| *number <= now);
        let hello = json!({"lost": last_id.is_some() && resumed.is_none()});
        let hello = format!("event: connected\ndata: {hello}\n\n");
        let (send, receive) = mpsc::channel(1);
        let events = self.clone();
        tokio::spawn(async move {
            // Ends with the reader or the daemon.
            let _ = events.feed(resumed.unwrap_or(now), hello.into(), &send).await;
            drop(place);
        });
        Ok(receive)
    }

    async fn feed(mut self, mut from: u64, hello: Bytes, to: &mpsc::Sender<Bytes>) -> Option<()> {
        to.send(hello).await.ok()?;
        loop {
            while let Some(events) = self.next(&mut from) {
                to.send(events).await.ok()?;
                // Collects later events too; otherwise many readers of many events cost a write each.
                sleep(TOGETHER).await;
            }
            tokio::select! {
                () = to.closed() => return None,
                news = timeout(BEAT, self.last.changed()) => match news {
                    Ok(changed) => changed.ok()?,
                    Err(_) => to.send(Bytes::from_static(b":\n\n")).await.ok()?,
                },
            }
        }
    }

    /// Returns as many events after `from` as fit into one write, and advances `from` past them.
    fn next(&self, from: &mut u64) -> Option<Bytes> {
        let mut together = Vec::new();
        for (number, event) in self.after(*from) {
            if number > *from + 1 {
                let missed = json!({"lagged": number - *from - 1});
                together.extend_from_slice(format!("event: lagged\ndata: {missed}\n\n").as_bytes());
            }
            together.extend_from_slice(&event);
            *from = number;
            if together.len() >= MOST_TOGETHER {
                break;
            }
        }
        (!together.is_empty()).then(|| together.into())
    }

    fn after(&self, from: u64) -> Vec<(u64, Bytes)> {
        let kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        // Numbers are consecutive, so the position can be computed. This matters because many readers visit each
        // event.
        let first = kept.front().map_or(0, |(number, _)| *number);
        let known = usize::try_from((from + 1).saturating_sub(first)).unwrap_or(usize::MAX);
        kept.range(known.min(kept.len())..).cloned().collect()
    }
}

/// The number of compression jobs that wait or run. `None` if the store cannot be read.
async fn jobs_waiting(readers: &Readers) -> Option<i64> {
    let readers = readers.clone();
    let count = move || readers.read(|db| db.jobs_under_way(MOST_COUNTED));
    tokio::task::spawn_blocking(count).await.ok()?.ok()
}

/// Returns the event under the name that readers of such streams know.
fn named(mut event: Value) -> (&'static str, Value) {
    if let Some(Value::String(content)) = event.get_mut("content")
        && let Some((at, _)) = content.char_indices().nth(MOST_CONTENT)
    {
        content.truncate(at);
    }
    let name = match event["event"].as_str().unwrap_or_default() {
        "session_start" => "session_started",
        "session_suspend" => "session_suspended",
        "session_resume" => "session_resumed",
        "session_end" => "session_ended",
        "message_received" => "prompt",
        "observation_created" => "observation",
        "observation_replaced" => "observation_replaced",
        "summary_created" => "summary",
        "before_compaction" => "before_compaction",
        "after_compaction" => "after_compaction",
        "batch_closed" => "batch_closed",
        "job_dead" => "job_dead",
        _ => "event",
    };
    (name, event)
}
