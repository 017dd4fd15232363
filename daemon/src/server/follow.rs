//! Serves `recall events` over the Unix socket by writing the rows of an [`EventFeed`](recall_app::event_feed).

use interprocess::local_socket::tokio::Stream;
use recall_protocol::frame::encode_frame;
use recall_protocol::wire::{ErrorKind, Reply};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use recall_app::event_feed::{EventFeed, EventFilter, FollowError};
use recall_domain::lifecycle::LifecycleKind;

/// Writes rows until the client disconnects or the daemon stops.
pub async fn serve(stream: &mut Stream, filter: EventFilter, event_feed: &EventFeed) {
    let mut rows = match event_feed.follow(filter) {
        Ok(rows) => rows,
        Err(error) => {
            let _ = write(stream, &refusal(&error)).await;
            return;
        }
    };
    loop {
        let mut byte = [0];
        let row = tokio::select! {
            row = rows.next() => row,
            // The client sends nothing more, so a read means that it disconnected.
            _ = stream.read(&mut byte) => return,
        };
        let reply = row.map_or(Reply::ShuttingDown, |row| Reply::Json(row.to_string().into_bytes()));
        if write(stream, &reply).await.is_err() || reply == Reply::ShuttingDown {
            return;
        }
    }
}

fn refusal(error: &FollowError) -> Reply {
    match error {
        FollowError::Full => Reply::Busy,
        FollowError::UnknownKind(_) => {
            let hint = format!("There are {}.", LifecycleKind::NAMES.join(", "));
            Reply::Failed { kind: ErrorKind::Invalid, what: error.to_string(), hint }
        }
    }
}

/// Takes as long as the client takes to read; only this task waits.
async fn write(stream: &mut Stream, reply: &Reply) -> Result<(), ()> {
    let frame = encode_frame(reply).map_err(drop)?;
    stream.write_all(&frame).await.map_err(drop)
}
