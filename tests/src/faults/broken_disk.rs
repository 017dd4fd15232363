//! A disk that fails under a running daemon. strace is attached to the daemon and fakes the results of some of its
//! system calls.

use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal};

use crate::Stage;

/// The faked result of a system call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    /// This error, e.g. `EIO`.
    Error(&'static str),
    /// No byte was written. This is the shortest of short writes.
    NothingWritten,
}

/// Which calls fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    Always,
    /// The n-th call of each thread, counted from 1.
    Once(usize),
}

/// The system call that fails, with its faked result.
#[derive(Clone, Copy, Debug)]
pub struct Breakage {
    pub call: &'static str,
    pub answer: Answer,
    pub when: When,
}

/// A daemon with a broken disk. The disk is broken until this is dropped.
pub struct Broken {
    strace: Child,
    trace: PathBuf,
}

impl Broken {
    /// Breaks the disk of the stage's daemon. When this returns, all of its threads are traced.
    pub fn begin(stage: &Stage, breakage: Breakage) -> Self {
        let Breakage { call, answer, when } = breakage;
        let answer = match answer {
            Answer::Error(error) => format!("error={error}"),
            Answer::NothingWritten => "retval=0".to_owned(),
        };
        let when = match when {
            When::Always => String::new(),
            When::Once(at) => format!(":when={at}"),
        };
        let trace = stage.user_home().join("trace");
        let mut command = Command::new("strace");
        command.args(["-f", "-p", &stage.daemon_pid().to_string(), "-e", &format!("trace={call}")]);
        command.args(["-e", &format!("inject={call}:{answer}{when}"), "-o"]).arg(&trace);
        // Threads also wake each other with `write`. Only the writes to the log go to the disk.
        if call == "write" {
            command.arg("-P").arg(stage.home().join("state/log/recall.log"));
        }
        let mut strace =
            command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
        let mut stderr = BufReader::new(strace.stderr.take().unwrap()).lines();
        let first = stderr.next().unwrap().unwrap();
        assert!(first.contains("attached"), "{first}");
        // strace continues to report new threads, and its output must be read.
        std::thread::spawn(move || stderr.for_each(drop));
        Self { strace, trace }
    }

    /// Repairs the disk. Returns how many calls got a faked result.
    pub fn end(mut self) -> usize {
        self.let_go();
        std::fs::read_to_string(&self.trace).unwrap().matches("(INJECTED)").count()
    }

    /// Interrupts strace. It detaches then, and the traced process continues.
    fn let_go(&mut self) {
        let _ = rustix::process::kill_process(Pid::from_child(&self.strace), Signal::INT);
        let _ = self.strace.wait();
    }
}

impl Drop for Broken {
    fn drop(&mut self) {
        self.let_go();
    }
}
