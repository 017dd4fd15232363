//! Reads stdin until there is enough, however the agent treats its end of the pipe.
//!
//! Agents are known to leave stdin open, to never write, to write slowly, and to send a hundred megabytes. So reading
//! ends with the first complete JSON value, the end of the file or the end of patience, whichever comes first; what
//! came is kept in any case. Patience is spent by waiting, not by work, or a slow machine would cut off a large event;
//! who delivers gets more of it: a second for each 16 MiB, which a drip never reaches.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use recall_protocol::frame::{self, Waited};
use recall_protocol::json_scan::{Cleaned, Progress, Scanner};
use rustix::event::PollFlags;
use rustix::io::Errno;

/// Waiting for stdin that never completes.
const PATIENCE: Duration = Duration::from_secs(1);
/// The amount of input that earns another `PATIENCE`.
const PACE: usize = 16 * 1024 * 1024;
/// As much as a pipe holds by default.
const CHUNK: usize = 64 * 1024;

/// Reads and cleans one event's JSON.
pub(crate) fn read(stdin: BorrowedFd<'_>) -> Cleaned {
    read_with(stdin, PATIENCE)
}

fn read_with(stdin: BorrowedFd<'_>, mut patience: Duration) -> Cleaned {
    let mut scanner = Scanner::default();
    let mut chunk = vec![0; CHUNK];
    let mut towards_pace = 0_usize;
    while !patience.is_zero() {
        let before = Instant::now();
        let waited = frame::wait(&stdin, PollFlags::IN, patience);
        patience = patience.saturating_sub(before.elapsed());
        match waited {
            Ok(Waited::Ready) => {}
            Ok(Waited::NotYet) => continue,
            Err(_) => break,
        }
        match rustix::io::read(stdin, &mut chunk) {
            Ok(0) => break,
            Ok(read) => {
                towards_pace += read;
                if towards_pace >= PACE {
                    towards_pace -= PACE;
                    patience += PATIENCE;
                }
                if scanner.feed(chunk.get(..read).unwrap_or_default()) == Progress::Complete {
                    break;
                }
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(_) => break,
        }
    }
    scanner.finish()
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsFd;

    use recall_protocol::wire::Flags;

    use super::*;

    #[test]
    fn a_complete_value_is_enough_though_the_pipe_stays_open() {
        let (reader, mut writer) = std::io::pipe().expect("pipe");
        writer.write_all(b"{\"a\":1}\n").expect("writes");
        let cleaned = read(reader.as_fd());
        assert_eq!(cleaned, Cleaned { payload: b"{\"a\":1}".to_vec(), flags: Flags::default() });
        drop(writer);
    }

    #[test]
    fn the_end_of_the_file_is_enough_though_the_value_is_not_complete() {
        let (reader, mut writer) = std::io::pipe().expect("pipe");
        writer.write_all(b"{\"a\":").expect("writes");
        drop(writer);
        let cleaned = read(reader.as_fd());
        assert_eq!(cleaned, Cleaned { payload: b"{\"a\":".to_vec(), flags: Flags::INCOMPLETE });
    }

    #[test]
    fn patience_ends_and_what_came_is_kept() {
        let (reader, mut writer) = std::io::pipe().expect("pipe");
        writer.write_all(b"[1,").expect("writes");
        let cleaned = read_with(reader.as_fd(), Duration::from_millis(50));
        assert_eq!(cleaned, Cleaned { payload: b"[1,".to_vec(), flags: Flags::INCOMPLETE });
        drop(writer);
    }
}
