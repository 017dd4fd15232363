//! Frames: length, version and body of a message.
//!
//! ```text
//! u32 little-endian   length of the body in bytes, at most 16 MiB
//! u8                  protocol version
//! body                one value, see `codec`
//! ```
//!
//! The header is checked before anything is allocated. Reads and writes check the deadline before every system call: a
//! socket's own timeout restarts with each call, so a peer that sends single bytes could block its client forever. The
//! asynchronous side uses the same [`header`], [`parse_header`], [`encode_frame`] and [`decode_body`] with its own IO.

use std::io::{self, ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};

use crate::codec::{self, DecodeError, EncodeError, MAX_BODY, Message};
use crate::planted::{Fault, planted};

/// The version this build writes.
pub const PROTOCOL_VERSION: u8 = 2;
/// The oldest version this build reads.
pub const MIN_VERSION: u8 = 2;
/// The newest version this build reads.
pub const MAX_VERSION: u8 = 2;
/// The number of bytes before the body.
pub const HEADER_LEN: usize = 5;

/// A checked header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The length of the body in bytes, at most [`MAX_BODY`].
    pub len: usize,
    /// Between [`MIN_VERSION`] and [`MAX_VERSION`].
    pub version: u8,
}

/// Why a header was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HeaderError {
    /// The daemon replies with `Reply::Version`.
    #[error("protocol version {version} is not between {MIN_VERSION} and {MAX_VERSION}")]
    UnknownVersion { version: u8 },
    /// The daemon replies with `Reply::TooBig`.
    #[error("frame of {len} bytes is larger than {MAX_BODY}")]
    TooBig { len: u64 },
}

/// Why a frame could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    #[error("the deadline has passed")]
    Deadline,
    /// The peer closed the connection between frames, which is the normal end.
    #[error("the peer has closed the connection")]
    Closed,
    /// The peer closed the connection inside a frame.
    #[error("the connection ended inside a frame")]
    Torn,
    #[error(transparent)]
    Header(#[from] HeaderError),
    #[error(transparent)]
    Encode(#[from] EncodeError),
    #[error(transparent)]
    Decode(#[from] DecodeError),
    #[error("the connection failed")]
    Io(#[source] io::Error),
}

/// The latest time at which an operation may still begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Deadline(Instant);

impl Deadline {
    pub fn after(time: Duration) -> Self {
        Self::from_instant(Instant::now(), time)
    }

    /// The deadline `time` after `start`, or in one hour if that exceeds the clock's range.
    pub fn from_instant(start: Instant, time: Duration) -> Self {
        Self(
            start.checked_add(time).or_else(|| start.checked_add(Duration::from_secs(3600))).unwrap_or(start),
        )
    }

    /// The remaining time, or `None` once the deadline has passed.
    pub fn remaining(self) -> Option<Duration> {
        self.0.checked_duration_since(Instant::now()).filter(|left| !left.is_zero())
    }
}

/// Builds the five header bytes for a body of `len` bytes.
pub fn header(len: usize, version: u8) -> Result<[u8; HEADER_LEN], HeaderError> {
    if len > MAX_BODY {
        return Err(HeaderError::TooBig { len: len as u64 });
    }
    // MAX_BODY fits into 32 bits, so nothing is truncated.
    let [a, b, c, d] = (len as u32).to_le_bytes();
    Ok([a, b, c, d, version])
}

/// Reads and checks a header. An unknown version is reported before an excessive length, because the length's meaning
/// depends on the version.
pub fn parse_header(bytes: [u8; HEADER_LEN]) -> Result<Header, HeaderError> {
    let [a, b, c, d, version] = bytes;
    if !(MIN_VERSION..=MAX_VERSION).contains(&version) {
        return Err(HeaderError::UnknownVersion { version });
    }
    let len = u32::from_le_bytes([a, b, c, d]);
    match usize::try_from(len) {
        Ok(len) if len <= MAX_BODY || planted(Fault::NoLengthCap) => Ok(Header { len, version }),
        Ok(_) | Err(_) => Err(HeaderError::TooBig { len: u64::from(len) }),
    }
}

/// Encodes a message as a complete frame, for the socket or a spool file.
pub fn encode_frame<M: Message>(message: &M) -> Result<Vec<u8>, FrameError> {
    let mut frame = Vec::with_capacity(HEADER_LEN.saturating_add(message.size_hint().min(MAX_BODY)));
    frame.extend_from_slice(&[0; HEADER_LEN]);
    codec::encode_into(message, &mut frame)?;
    let bytes = header(frame.len().saturating_sub(HEADER_LEN), PROTOCOL_VERSION)?;
    if let Some(start) = frame.first_chunk_mut::<HEADER_LEN>() {
        *start = bytes;
    }
    Ok(frame)
}

/// Decodes a body after its header.
pub fn decode_body<M: Message>(header: Header, body: &[u8]) -> Result<M, FrameError> {
    match header.version {
        // All versions so far have the same layout. A different layout needs its own arm.
        MIN_VERSION..=MAX_VERSION => Ok(codec::decode(body)?),
        version => Err(HeaderError::UnknownVersion { version }.into()),
    }
}

/// Decodes exactly one frame made by [`encode_frame`].
pub fn decode_frame<M: Message>(frame: &[u8]) -> Result<M, FrameError> {
    let (start, body) = frame.split_first_chunk::<HEADER_LEN>().ok_or(FrameError::Torn)?;
    let header = parse_header(*start)?;
    if body.len() < header.len {
        return Err(FrameError::Torn);
    }
    if body.len() > header.len {
        return Err(DecodeError::TrailingBytes { read: header.len, len: body.len() }.into());
    }
    decode_body(header, body)
}

/// Writes all of `frame` to a nonblocking stream before `deadline`.
pub fn write_frame<S: Write + AsFd>(
    stream: &mut S,
    frame: &[u8],
    deadline: Deadline,
) -> Result<(), FrameError> {
    let mut rest = frame;
    while !rest.is_empty() {
        let left = deadline.remaining().ok_or(FrameError::Deadline)?;
        match stream.write(rest) {
            Ok(0) => return Err(FrameError::Io(ErrorKind::WriteZero.into())),
            Ok(written) => rest = rest.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                wait(stream, PollFlags::OUT, left).map_err(FrameError::Io)?;
            }
            Err(error) => return Err(FrameError::Io(error)),
        }
    }
    Ok(())
}

/// Reads one message from a nonblocking stream before `deadline`. Bytes of a second frame would count as trailing
/// bytes, so clients must wait for each reply before the next request.
pub fn read_frame<M: Message, S: Read + AsFd>(stream: &mut S, deadline: Deadline) -> Result<M, FrameError> {
    // Most replies fit into the first read together with their header, so a reply takes two system calls.
    let mut start = [0; 4096];
    let mut filled = 0;
    while filled < HEADER_LEN {
        let free = start.get_mut(filled..).unwrap_or_default();
        match read_some(stream, free, deadline)? {
            0 if filled == 0 => return Err(FrameError::Closed),
            0 => return Err(FrameError::Torn),
            read => filled += read,
        }
    }
    let (head, early) =
        start.get(..filled).unwrap_or_default().split_first_chunk::<HEADER_LEN>().ok_or(FrameError::Torn)?;
    let header = parse_header(*head)?;
    if early.len() > header.len {
        return Err(DecodeError::TrailingBytes { read: header.len, len: early.len() }.into());
    }
    if early.len() == header.len {
        return decode_body(header, early);
    }
    // Allocates as bytes arrive, not as the header announces.
    let mut body = early.to_vec();
    let mut chunk = vec![0; header.len.saturating_sub(body.len()).min(64 * 1024)];
    while body.len() < header.len {
        let want = header.len.saturating_sub(body.len()).min(chunk.len());
        let free = chunk.get_mut(..want).unwrap_or_default();
        let read = read_some(stream, free, deadline)?;
        if read == 0 {
            return Err(FrameError::Torn);
        }
        body.extend_from_slice(free.get(..read).unwrap_or_default());
    }
    decode_body(header, &body)
}

/// Reads a stream of messages.
#[derive(Debug, Default)]
pub struct Frames {
    /// Bytes received but not yet returned as messages.
    arrived: Vec<u8>,
}

impl Frames {
    /// Returns the next message. A message that is incomplete at the deadline is kept for the next call.
    pub fn next<M: Message, S: Read + AsFd>(
        &mut self,
        stream: &mut S,
        deadline: Deadline,
    ) -> Result<M, FrameError> {
        let mut chunk = [0; 4096];
        loop {
            if let Some((head, rest)) = self.arrived.split_first_chunk::<HEADER_LEN>() {
                let header = parse_header(*head)?;
                if let Some(body) = rest.get(..header.len) {
                    let message = decode_body(header, body);
                    self.arrived.drain(..HEADER_LEN + header.len);
                    return message;
                }
            }
            match read_some(stream, &mut chunk, deadline)? {
                0 if self.arrived.is_empty() => return Err(FrameError::Closed),
                0 => return Err(FrameError::Torn),
                read => self.arrived.extend_from_slice(chunk.get(..read).unwrap_or_default()),
            }
        }
    }
}

/// Waits for bytes and reads once. Returns 0 if the peer closed its side.
fn read_some<S: Read + AsFd>(
    stream: &mut S,
    free: &mut [u8],
    deadline: Deadline,
) -> Result<usize, FrameError> {
    loop {
        let left = deadline.remaining().ok_or(FrameError::Deadline)?;
        // A reply is never there at once, so waiting first saves a failing read.
        if wait(stream, PollFlags::IN, left).map_err(FrameError::Io)? == Waited::NotYet {
            continue;
        }
        match stream.read(free) {
            Ok(read) => return Ok(read),
            Err(error) if matches!(error.kind(), ErrorKind::Interrupted | ErrorKind::WouldBlock) => {}
            Err(error) => return Err(FrameError::Io(error)),
        }
    }
}

/// The result of waiting for a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// A read or write will not block, even if it reports an error.
    Ready,
    /// Time ran out, or a signal arrived.
    NotYet,
}

/// Waits until the descriptor is ready for `flags`, for at most `left`.
pub fn wait<F: AsFd>(descriptor: &F, flags: PollFlags, left: Duration) -> io::Result<Waited> {
    let timeout = Timespec::try_from(left).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 });
    match rustix::event::poll(&mut [PollFd::new(descriptor, flags)], Some(&timeout)) {
        Ok(0) | Err(rustix::io::Errno::INTR) => Ok(Waited::NotYet),
        Ok(_) => Ok(Waited::Ready),
        Err(errno) => Err(errno.into()),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixStream;
    use std::thread;

    use proptest::prelude::*;

    use super::*;
    use crate::query::{Ping, Query};
    use crate::wire::{Reply, Request};

    const SOON: Duration = Duration::from_secs(20);

    fn pair() -> (UnixStream, UnixStream) {
        let (ours, theirs) = UnixStream::pair().expect("socket pair");
        ours.set_nonblocking(true).expect("nonblocking");
        (ours, theirs)
    }

    #[test]
    fn a_frame_has_the_documented_bytes() {
        let frame = encode_frame(&Request::Query(Query::Ping(Ping))).expect("fits");
        assert_eq!(frame, [8, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn headers_with_a_wrong_length_or_version_are_rejected() {
        assert_eq!(parse_header([5, 0, 0, 0, 2]), Ok(Header { len: 5, version: 2 }));
        assert_eq!(parse_header([0, 0, 0, 1, 2]), Ok(Header { len: MAX_BODY, version: 2 }));
        assert_eq!(parse_header([1, 0, 0, 1, 2]), Err(HeaderError::TooBig { len: MAX_BODY as u64 + 1 }));
        assert_eq!(
            parse_header([255, 255, 255, 255, 2]),
            Err(HeaderError::TooBig { len: u64::from(u32::MAX) })
        );
        assert_eq!(parse_header([255, 255, 255, 255, 0]), Err(HeaderError::UnknownVersion { version: 0 }));
        assert_eq!(parse_header([5, 0, 0, 0, 1]), Err(HeaderError::UnknownVersion { version: 1 }));
        assert_eq!(parse_header([5, 0, 0, 0, 3]), Err(HeaderError::UnknownVersion { version: 3 }));
        assert!(header(MAX_BODY + 1, 2).is_err());
    }

    #[test]
    fn a_large_answer_is_read_in_pieces_from_a_socket() {
        let (mut ours, mut theirs) = pair();
        let reply = Reply::Json((0..3_000_000_u32).map(|n| n as u8).collect());
        let frame = encode_frame(&reply).expect("fits");
        let writer = thread::spawn(move || theirs.write_all(&frame).expect("reader is there"));
        assert_eq!(read_frame::<Reply, _>(&mut ours, Deadline::after(SOON)).expect("arrives"), reply);
        writer.join().expect("writer");
    }

    #[test]
    fn a_large_request_is_written_in_pieces_to_a_socket() {
        let (mut ours, mut theirs) = pair();
        let frame = vec![9; 3_000_000];
        let reader = thread::spawn(move || {
            let mut all = Vec::new();
            theirs.read_to_end(&mut all).expect("reads");
            all
        });
        write_frame(&mut ours, &frame, Deadline::after(SOON)).expect("written");
        drop(ours);
        assert!(reader.join().expect("reader") == frame);
    }

    #[test]
    fn an_answer_in_single_bytes_is_put_together() {
        let (mut ours, mut theirs) = pair();
        let reply = Reply::Version { min: 3, max: 4 };
        let frame = encode_frame(&reply).expect("fits");
        let writer = thread::spawn(move || {
            for byte in frame {
                theirs.write_all(&[byte]).expect("reader is there");
            }
        });
        assert_eq!(read_frame::<Reply, _>(&mut ours, Deadline::after(SOON)).expect("arrives"), reply);
        writer.join().expect("writer");
    }

    #[test]
    fn consecutive_answers_are_read_separately() {
        let (mut ours, mut theirs) = pair();
        let replies = [Reply::Json(vec![7; 5000]), Reply::Busy, Reply::Json(vec![8])];
        let bytes: Vec<u8> = replies.iter().flat_map(|reply| encode_frame(reply).expect("fits")).collect();
        let (early, late) = bytes.split_at(bytes.len() - 3);
        theirs.write_all(early).expect("written");
        let mut frames = Frames::default();
        let mut next = |left| frames.next::<Reply, _>(&mut ours, Deadline::after(left));
        assert_eq!(next(SOON).expect("the first"), replies[0]);
        assert_eq!(next(SOON).expect("the second"), replies[1]);
        assert!(matches!(next(Duration::from_millis(1)), Err(FrameError::Deadline)));
        theirs.write_all(late).expect("written");
        assert_eq!(next(SOON).expect("the third"), replies[2]);
        drop(theirs);
        assert!(matches!(next(SOON), Err(FrameError::Closed)));
    }

    #[test]
    fn reading_and_writing_stop_at_the_deadline() {
        let (mut ours, _theirs) = pair();
        let deadline = Deadline::after(Duration::from_millis(5));
        assert!(matches!(read_frame::<Reply, _>(&mut ours, deadline), Err(FrameError::Deadline)));
        let deadline = Deadline::after(Duration::from_millis(5));
        assert!(matches!(write_frame(&mut ours, &vec![0; 8_000_000], deadline), Err(FrameError::Deadline)));
        let passed = Deadline::after(Duration::ZERO);
        assert!(matches!(read_frame::<Reply, _>(&mut ours, passed), Err(FrameError::Deadline)));
    }

    #[test]
    fn a_stream_end_between_frames_differs_from_one_inside_a_frame() {
        let (mut ours, theirs) = pair();
        drop(theirs);
        assert!(matches!(read_frame::<Reply, _>(&mut ours, Deadline::after(SOON)), Err(FrameError::Closed)));
        for cut in 1..9 {
            let (mut ours, mut theirs) = pair();
            let frame = encode_frame(&Reply::Busy).expect("fits");
            theirs.write_all(&frame[..cut]).expect("written");
            drop(theirs);
            let result = read_frame::<Reply, _>(&mut ours, Deadline::after(SOON));
            assert!(matches!(result, Err(FrameError::Torn)), "cut at {cut}: {result:?}");
        }
    }

    #[test]
    fn a_frame_file_must_hold_exactly_one_frame() {
        let frame = encode_frame(&Reply::Busy).expect("fits");
        assert_eq!(decode_frame::<Reply>(&frame).expect("whole"), Reply::Busy);
        let mut longer = frame.clone();
        longer.push(0);
        assert!(matches!(decode_frame::<Reply>(&longer), Err(FrameError::Decode(_))));
        for cut in 0..frame.len() {
            assert!(matches!(decode_frame::<Reply>(&frame[..cut]), Err(FrameError::Torn)));
        }
    }

    proptest! {
        #[test]
        fn headers_survive_encoding_and_parsing(len in 0..=MAX_BODY) {
            let bytes = header(len, PROTOCOL_VERSION).expect("fits");
            prop_assert_eq!(parse_header(bytes), Ok(Header { len, version: PROTOCOL_VERSION }));
        }

        #[test]
        fn no_bytes_make_the_frame_decoder_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(reply) = decode_frame::<Reply>(&bytes) {
                prop_assert_eq!(encode_frame(&reply).expect("fits"), bytes);
            }
        }
    }
}
