//! `recall ui` in a terminal of its own: what a user types, and what stands on the screen then.

// Test code: a panic is how it says that something is wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use recall_tests::Stage;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};

const ROWS: u16 = 30;
const COLUMNS: u16 = 120;
/// Nothing here takes longer, not even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A program on a terminal. Ends with the test.
struct Screen {
    keyboard: File,
    output: Receiver<Vec<u8>>,
    parser: vt100::Parser,
    child: Child,
}

impl Screen {
    fn of(mut command: Command) -> Self {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let size = Winsize { ws_row: ROWS, ws_col: COLUMNS, ws_xpixel: 0, ws_ypixel: 0 };
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
            // The last reader gets an error when the program has closed its terminal.
            while let Ok(length @ 1..) = reader.read(&mut buffer) {
                if tell.send(buffer[..length].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { keyboard, output, parser: vt100::Parser::new(ROWS, COLUMNS, 0), child }
    }

    fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// Waits until the screen is so.
    #[track_caller]
    fn until(&mut self, what: &str, is_so: impl Fn(&str) -> bool) {
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

    #[track_caller]
    fn shows(&mut self, text: &str) {
        self.until(text, |shown| shown.contains(text));
    }

    fn end(&mut self) -> ExitStatus {
        self.child.wait().unwrap()
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_user_looks_around_and_forgets() {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    let remembered = ["remember", "The greenhouse door sticks in winter", "--type", "gotcha"];
    assert_eq!(stage.recall(remembered).code(), 0);
    stage.flush();

    let mut command = stage.command("recall");
    command.arg("ui");
    let mut screen = Screen::of(command);
    screen.shows("greenhouse door");
    screen.press("greenhouse");
    screen.until("one result", |shown| shown.contains("1/1"));
    screen.press("\r");
    screen.shows("q leave");

    screen.press("r");
    screen.shows("is resolved");
    screen.press("r");
    screen.shows("is active");
    screen.press("f");
    screen.shows("Forget this permanently?");
    screen.press("n");
    screen.until("the question is gone", |shown| !shown.contains("permanently"));
    screen.press("f");
    screen.shows("Forget this permanently?");
    screen.press("y");
    screen.shows("Forgotten: 1 observation");

    screen.press("\t");
    screen.shows("completed");
    screen.press("\r");
    screen.shows("session first");
    screen.press("q");
    assert!(screen.end().success());
    let found = stage.json(["search", "greenhouse"]);
    assert_eq!(found["results"].as_array().map(Vec::len), Some(0), "{found}");
}

#[test]
fn without_a_terminal_it_says_what_to_use_instead() {
    let stage = Stage::new();
    let said = stage.recall(["ui"]);
    assert_eq!(said.code(), 2);
    assert!(said.stderr.contains("recall search"), "{said:?}");
}
