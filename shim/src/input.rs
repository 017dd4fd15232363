//! Reads stdin until there is enough, however the agent treats its end of the pipe.
//!
//! Some agents leave stdin open, never write, write slowly, or send a hundred megabytes. So reading ends at the first
//! complete JSON value, at the end of the file or on a timeout, whichever comes first, and everything read is kept.
//! Only waiting counts towards the timeout, not work, because a slow machine would otherwise truncate a large event.
//! Each 16 MiB of input extends the timeout by a second; a trickle never reaches that.
//!
//! A writer whose reader has gone gets an error or is killed by a signal. So after the delivery the shim also reads
//! what follows the value ([`drain`]), but only if more input had already followed it.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use recall_protocol::frame::{self, Waited};
use recall_protocol::json_scan::{Cleaned, Progress, Scanner};
use rustix::buffer::spare_capacity;
use rustix::event::PollFlags;
use rustix::io::Errno;

/// The timeout while waiting for stdin.
const TIMEOUT: Duration = Duration::from_secs(1);
/// The number of bytes of input that extends the timeout by another `TIMEOUT`.
const PACE: usize = 16 * 1024 * 1024;
/// The default capacity of a pipe.
const CHUNK: usize = 64 * 1024;

/// How long the writer may pause after the value.
const PAUSE: Duration = Duration::from_millis(50);
/// The number of white-space bytes after the value that do not announce more input: a line end.
const LINE_END: usize = 2;

/// The bytes read, and whether the writer may send more.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Input {
    pub(crate) cleaned: Cleaned,
    pub(crate) behind: Behind,
}

/// The expected text after the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    Nothing,
    More,
}

/// Reads and cleans one event's JSON.
pub(crate) fn read(stdin: BorrowedFd<'_>) -> Input {
    read_with(stdin, TIMEOUT)
}

/// Reads and discards further input until the writer pauses.
pub(crate) fn drain(stdin: BorrowedFd<'_>) {
    let mut chunk = Vec::with_capacity(CHUNK);
    let end = Instant::now() + TIMEOUT;
    while Instant::now() < end {
        if !matches!(frame::wait(&stdin, PollFlags::IN, PAUSE), Ok(Waited::Ready)) {
            return;
        }
        chunk.clear();
        match rustix::io::read(stdin, spare_capacity(&mut chunk)) {
            Ok(0) => return,
            Ok(_) | Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => return,
        }
    }
}

fn read_with(stdin: BorrowedFd<'_>, mut timeout: Duration) -> Input {
    let mut behind = Behind::Nothing;
    let mut scanner = Scanner::default();
    // The buffer is not cleared: an event is far shorter, and untouched pages cost nothing.
    let mut chunk = Vec::with_capacity(CHUNK);
    let mut towards_pace = 0_usize;
    while !timeout.is_zero() {
        let before = Instant::now();
        let waited = frame::wait(&stdin, PollFlags::IN, timeout);
        timeout = timeout.saturating_sub(before.elapsed());
        match waited {
            Ok(Waited::Ready) => {}
            Ok(Waited::NotYet) => continue,
            Err(_) => break,
        }
        chunk.clear();
        match rustix::io::read(stdin, spare_capacity(&mut chunk)) {
            Ok(0) => break,
            Ok(read) => {
                towards_pace += read;
                if towards_pace >= PACE {
                    towards_pace -= PACE;
                    timeout += TIMEOUT;
                }
                if scanner.feed(&chunk) == Progress::Complete {
                    if read == chunk.capacity() || scanner.behind() > LINE_END {
                        behind = Behind::More;
                    }
                    break;
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => break,
        }
    }
    Input { cleaned: scanner.finish(), behind }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use recall_protocol::wire::Flags;

    use super::*;

    #[test]
    fn reading_ends_at_a_complete_value_while_the_pipe_stays_open() {
        let (reader, mut writer) = std::io::pipe().expect("pipe");
        writer.write_all(b"{\"a\":1}\n").expect("writes");
        let input = read(reader.as_fd());
        assert_eq!(input.cleaned, Cleaned { payload: b"{\"a\":1}".to_vec(), flags: Flags::default() });
        assert_eq!(input.behind, Behind::Nothing);
        drop(writer);
    }

    #[test]
    fn an_incomplete_value_is_kept_at_the_end_of_the_file() {
        let (reader, mut writer) = std::io::pipe().expect("pipe");
        writer.write_all(b"{\"a\":").expect("writes");
        drop(writer);
        let cleaned = read(reader.as_fd()).cleaned;
        assert_eq!(cleaned, Cleaned { payload: b"{\"a\":".to_vec(), flags: Flags::INCOMPLETE });
    }

    #[test]
    fn input_before_the_timeout_is_kept() {
        let (reader, mut writer) = std::io::pipe().expect("pipe");
        writer.write_all(b"[1,").expect("writes");
        let cleaned = read_with(reader.as_fd(), Duration::from_millis(50)).cleaned;
        assert_eq!(cleaned, Cleaned { payload: b"[1,".to_vec(), flags: Flags::INCOMPLETE });
        drop(writer);
    }

    #[test]
    fn input_after_the_value_is_drained() {
        for behind in [vec![b' '; 200_000], b"{\"b\":2}".repeat(30_000), b"\n{\"b\":2}".to_vec()] {
            let (reader, mut writer) = std::io::pipe().expect("pipe");
            let written = std::thread::spawn(move || {
                writer.write_all(b"{\"a\":1}").and_then(|()| writer.write_all(&behind))
            });
            let Input { cleaned, behind } = read(reader.as_fd());
            assert_eq!(cleaned.payload, b"{\"a\":1}");
            if behind == Behind::More {
                drain(reader.as_fd());
            }
            drop(reader);
            // If the first piece arrived alone, the shim does not look for more.
            assert!(written.join().expect("writer").is_ok() || behind == Behind::Nothing);
        }
    }
}
