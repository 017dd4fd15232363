//! Reads stdin until there is enough, however the agent treats its end of the pipe.
//!
//! Agents are known to leave stdin open, to never write, to write slowly, and to send a hundred megabytes. So reading
//! ends with the first complete JSON value, the end of the file or the deadline, whichever comes first; what came is
//! kept in any case. The deadline moves only for those who deliver: a second more for each 16 MiB, which a drip never
//! reaches.

use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant};

use recall_protocol::frame::{self, Deadline, Waited};
use recall_protocol::json_scan::{Cleaned, Progress, Scanner};
use rustix::event::PollFlags;
use rustix::io::Errno;

/// For stdin that never completes.
const PATIENCE: Duration = Duration::from_secs(1);
/// The amount of input that earns another `PATIENCE`.
const PACE: u32 = 16 * 1024 * 1024;
/// As much as a pipe holds by default.
const CHUNK: usize = 64 * 1024;

/// Reads and cleans one event's JSON. `started` is when the process began.
pub(crate) fn read(stdin: BorrowedFd<'_>, started: Instant) -> Cleaned {
    let mut scanner = Scanner::default();
    let mut chunk = vec![0; CHUNK];
    let mut received = 0_usize;
    loop {
        let paces = u32::try_from(received / PACE as usize).unwrap_or(u32::MAX);
        let patience = PATIENCE.saturating_mul(paces.saturating_add(1));
        let Some(left) = Deadline::from_instant(started, patience).remaining() else { break };
        match frame::wait(&stdin, PollFlags::IN, left) {
            Ok(Waited::Ready) => {}
            Ok(Waited::NotYet) => continue,
            Err(_) => break,
        }
        match rustix::io::read(stdin, &mut chunk) {
            Ok(0) => break,
            Ok(read) => {
                received = received.saturating_add(read);
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
        let cleaned = read(reader.as_fd(), Instant::now());
        assert_eq!(cleaned, Cleaned { payload: b"{\"a\":1}".to_vec(), flags: Flags::default() });
        drop(writer);
    }

    #[test]
    fn the_end_of_the_file_is_enough_though_the_value_is_not_complete() {
        let (reader, mut writer) = std::io::pipe().expect("pipe");
        writer.write_all(b"{\"a\":").expect("writes");
        drop(writer);
        let cleaned = read(reader.as_fd(), Instant::now());
        assert_eq!(cleaned, Cleaned { payload: b"{\"a\":".to_vec(), flags: Flags::INCOMPLETE });
    }

    #[test]
    fn a_deadline_in_the_past_ends_it_at_once() {
        let (reader, _writer) = std::io::pipe().expect("pipe");
        let long_ago = Instant::now().checked_sub(PATIENCE).expect("the clock has run a second");
        assert_eq!(read(reader.as_fd(), long_ago).flags, Flags::INCOMPLETE);
    }
}
