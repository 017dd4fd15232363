//! A program on its own terminal, and its screen.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

/// How long a test waits. Everything is faster than this, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program on a terminal. It ends at the end of the test.
pub struct Screen {
    keyboard: File,
    output: Receiver<Vec<u8>>,
    parser: vt100::Parser,
    child: Child,
}

impl Screen {
    /// Starts the program on a screen with this many columns and rows.
    pub fn of(mut command: Command, (columns, rows): (u16, u16)) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&keyboard, size).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap().into_string().unwrap();
        let terminal = || Stdio::from(OpenOptions::new().read(true).write(true).open(&name).unwrap());
        // crossterm reads keys from stdin if it is a terminal.
        command.stdin(terminal()).stdout(terminal()).stderr(terminal()).env("TERM", "xterm-256color");
        let child = command.spawn().unwrap();
        let keyboard = File::from(keyboard);
        let mut reader = keyboard.try_clone().unwrap();
        let (tell, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            // When the program has closed its terminal, the last read fails.
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if tell.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { keyboard, output, parser: vt100::Parser::new(rows, columns, 0), child }
    }

    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen fulfils the condition.
    #[track_caller]
    pub fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let shown = self.parser.screen().contents();
            if is_so(&shown) {
                return;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(bytes) => self.parser.process(&bytes),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                    panic!("{what} is not to be seen:\n{shown}")
                }
            }
        }
    }

    /// Returns the screen as text.
    pub fn text(&self) -> String {
        self.parser.screen().contents()
    }

    #[track_caller]
    pub fn shows(&mut self, text: &str) {
        self.until(text, |shown| shown.contains(text));
    }

    pub fn end(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
