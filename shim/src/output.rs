//! Prints the answer completely or not at all.
//!
//! Half a JSON object is worse than none, because agents pass it to the model. So printing starts only if stdout is
//! writable now. If the agent is gone, the output is dropped.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use recall_protocol::frame::{self, Deadline, Waited};
use rustix::event::PollFlags;
use rustix::io::Errno;

/// How long stdout may stay full before the answer is dropped.
const TIMEOUT: Duration = Duration::from_millis(20);
/// How long the reader may take once printing has begun.
const TIMEOUT_ONCE_BEGUN: Duration = Duration::from_secs(1);

/// Prints to stdout. Errors are ignored, because there is nowhere to report them.
pub(crate) fn print(bytes: &[u8]) {
    if !bytes.is_empty() {
        let _ = print_to(rustix::stdio::stdout(), bytes);
    }
}

fn print_to(stdout: BorrowedFd<'_>, bytes: &[u8]) -> io::Result<()> {
    let mut deadline = Deadline::after(TIMEOUT);
    let mut rest = bytes;
    while !rest.is_empty() {
        let left = deadline.remaining().ok_or(io::ErrorKind::TimedOut)?;
        if frame::wait(&stdout, PollFlags::OUT, left)? == Waited::NotYet {
            continue;
        }
        match rustix::io::write(stdout, rest) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => {
                rest = rest.get(written..).unwrap_or_default();
                deadline = Deadline::after(TIMEOUT_ONCE_BEGUN);
            }
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(errno) => return Err(errno.into()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::io::Read;
    use std::os::fd::AsFd;
    use std::thread;

    use super::*;

    #[test]
    fn a_long_answer_is_printed_whole() {
        let (mut reader, writer) = io::pipe().expect("pipe");
        let answer: Vec<u8> = (0..500_000_u32).map(|n| n as u8).collect();
        let expected = answer.clone();
        let printer = thread::spawn(move || print_to(writer.as_fd(), &answer));
        let mut printed = Vec::new();
        reader.read_to_end(&mut printed).expect("reads");
        assert!(printed == expected);
        printer.join().expect("printer").expect("printed");
    }

    #[test]
    fn printing_to_a_full_stdout_times_out() {
        let (_reader, writer) = io::pipe().expect("pipe");
        rustix::io::ioctl_fionbio(&writer, true).expect("nonblocking");
        while rustix::io::write(&writer, &[0; 4096]).is_ok() {}
        let error = print_to(writer.as_fd(), b"{}").expect_err("full");
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[test]
    fn printing_to_a_closed_pipe_causes_an_error_and_no_signal() {
        let (reader, writer) = io::pipe().expect("pipe");
        drop(reader);
        let error = print_to(writer.as_fd(), b"{}").expect_err("gone");
        assert_eq!(error.kind(), io::ErrorKind::BrokenPipe);
    }
}
