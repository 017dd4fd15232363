//! Limits the memory for the frames of all connections.
//!
//! A frame may be 16 MiB, and there are hundreds of connections. So a frame's memory beyond its first piece comes from
//! one budget, piece by piece as its bytes arrive: a client that only announces a large frame holds nothing. Nearly
//! all events fit into the first piece and need none of the budget. A client that finds the budget exhausted gets
//! BUSY, and a shim then keeps its event in the spool.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// The size of a frame's first buffer. With all connections in use that is 32 MiB.
const FIRST_PIECE: usize = 64 * 1024;
/// The maximum that a frame takes from the budget at once.
const PIECE: usize = 1 << 20;
/// The budget of all frames together, beyond their first pieces.
const BUDGET: usize = 64 << 20;
/// A shim gives up after 60 ms, so memory that comes later than this is useless to it.
const WITHIN: Duration = Duration::from_millis(40);

/// The budget, shared by all connections.
#[derive(Clone)]
pub struct Room {
    left: Arc<Semaphore>,
}

/// The bytes of a frame, with their share of the budget until this is dropped.
pub struct Body {
    pub bytes: Vec<u8>,
    share: Option<OwnedSemaphorePermit>,
}

/// Why a body could not be read.
#[derive(Debug, thiserror::Error)]
pub enum RoomError {
    /// Other frames use the whole budget.
    #[error("no memory is left for this frame")]
    Full,
    #[error("the frame is incomplete")]
    Io(#[from] io::Error),
}

impl Default for Room {
    fn default() -> Self {
        Self::of(BUDGET)
    }
}

impl Room {
    fn of(bytes: usize) -> Self {
        Self { left: Arc::new(Semaphore::new(bytes)) }
    }

    /// Reads a body of this length. Its memory grows with the bytes that arrive, not with the announced length.
    ///
    /// # Errors
    /// Fails when the body is not complete in time, or the budget is exhausted.
    pub async fn read(
        &self,
        stream: &mut (impl AsyncRead + Unpin),
        length: usize,
    ) -> Result<Body, RoomError> {
        let mut body = Body { bytes: Vec::new(), share: None };
        body.bytes.reserve_exact(length.min(FIRST_PIECE));
        loop {
            let piece = body.bytes.capacity().min(length) - body.bytes.len();
            let mut limited = (&mut *stream).take(piece as u64);
            while limited.limit() > 0 {
                if limited.read_buf(&mut body.bytes).await? == 0 {
                    return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
                }
            }
            if body.bytes.len() == length {
                return Ok(body);
            }
            let more = body.bytes.len().min(PIECE).min(length - body.bytes.len());
            body.add(self.take(more).await?);
            body.bytes.reserve_exact(more);
        }
    }

    async fn take(&self, bytes: usize) -> Result<OwnedSemaphorePermit, RoomError> {
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        match timeout(WITHIN, Arc::clone(&self.left).acquire_many_owned(bytes)).await {
            Ok(Ok(share)) => Ok(share),
            Ok(Err(_)) | Err(_) => Err(RoomError::Full),
        }
    }
}

impl Body {
    fn add(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.share {
            Some(share) => share.merge(more),
            None => self.share = Some(more),
        }
    }

    /// Drops the bytes and keeps the share, for the value decoded from them.
    pub fn into_share(self) -> Share {
        Share { _permit: self.share }
    }
}

/// A share of the budget, held until this is dropped.
pub struct Share {
    _permit: Option<OwnedSemaphorePermit>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: usize = 100_000;

    #[tokio::test]
    async fn a_frame_takes_budget_only_beyond_its_first_piece() {
        let room = Room::of(2 * SECOND);
        let whole: Vec<u8> = (0..FIRST_PIECE + SECOND).map(|at| at as u8).collect();
        let body = room.read(&mut &whole[..], whole.len()).await.unwrap();
        assert!(body.bytes == whole);
        assert_eq!(room.left.available_permits(), SECOND);
        let share = body.into_share();
        assert_eq!(room.left.available_permits(), SECOND);
        drop(share);
        assert_eq!(room.left.available_permits(), 2 * SECOND);
        assert!(matches!(room.read(&mut &whole[..], whole.len() + 1).await, Err(RoomError::Io(_))));
        assert_eq!(room.left.available_permits(), 2 * SECOND);
    }

    #[tokio::test]
    async fn small_frames_pass_even_when_the_budget_is_exhausted() {
        let room = Room::of(SECOND);
        let whole = vec![7; FIRST_PIECE + SECOND];
        let holder = room.read(&mut &whole[..], whole.len()).await.unwrap();
        let refused = room.read(&mut &whole[..], FIRST_PIECE + 1).await;
        assert!(matches!(refused, Err(RoomError::Full)));
        assert_eq!(room.read(&mut &whole[..], FIRST_PIECE).await.unwrap().bytes.len(), FIRST_PIECE);
        drop(holder);
        assert!(room.read(&mut &whole[..], FIRST_PIECE + 1).await.is_ok());
    }

    #[tokio::test]
    async fn a_large_announced_frame_takes_no_budget_until_its_bytes_arrive() {
        let room = Room::of(SECOND);
        let (mut slow, mut theirs) = tokio::io::duplex(SECOND);
        let reading = tokio::spawn({
            let room = room.clone();
            async move { room.read(&mut theirs, 16 << 20).await.map(drop) }
        });
        tokio::io::AsyncWriteExt::write_all(&mut slow, &[0; 1000]).await.unwrap();
        tokio::task::yield_now().await;
        assert_eq!(room.left.available_permits(), SECOND);
        drop(slow);
        assert!(matches!(reading.await.unwrap(), Err(RoomError::Io(_))));
    }
}
