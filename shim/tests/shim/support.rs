//! A home for each test, the real binary, and a one-thread daemon whose answers the test chooses.

use std::fs::File;
use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use recall_protocol::frame::{self, HEADER_LEN, Waited, decode_body, encode_frame, parse_header};
use recall_protocol::paths::Paths;
use recall_protocol::spool::Spool;
use recall_protocol::wire::{Deliver, Reply, Request};
use rustix::event::PollFlags;

/// A home that is deleted at the end of the test.
pub(crate) struct Home {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) paths: Paths,
}

/// The result of a run of the shim.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) stdout: String,
}

impl Home {
    pub(crate) fn new() -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        let home = dir.path().join("home");
        let paths = Paths::from_variables(&|name| (name == "RECALL_HOME").then(|| home.clone().into()))
            .expect("an absolute home");
        Self { dir, paths }
    }

    pub(crate) fn with_folders() -> Self {
        let home = Self::new();
        home.paths.create_folders().expect("folders");
        home
    }

    /// Returns the shim with only this home in its environment. It starts no daemon unless a test allows it. It waits
    /// longer than usual, because the machine may be busy and this daemon is only a thread.
    pub(crate) fn shim(&self, arguments: &[&str]) -> Command {
        self.shim_at(Path::new(env!("CARGO_BIN_EXE_recall-shim")), arguments)
    }

    pub(crate) fn shim_at(&self, binary: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(binary);
        command
            .args(arguments)
            .env_clear()
            .env("RECALL_HOME", self.dir.path().join("home"))
            .env("RECALL_NO_DAEMON_START", "1")
            .env("RECALL_ANSWER_MS", "10000")
            .current_dir(self.dir.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Returns an input: `beginning`, then a hundred times `megabyte`, then `end`. It is a file, so the shim never
    /// waits for a part of it. The writer of a pipe may be slow on a busy machine.
    pub(crate) fn input(&self, beginning: &str, megabyte: &str, end: &str) -> File {
        let path = self.dir.path().join("input");
        let mut file = File::create(&path).expect("creates");
        file.write_all(beginning.as_bytes()).expect("writes");
        for _ in 0..100 {
            file.write_all(megabyte.as_bytes()).expect("writes");
        }
        file.write_all(end.as_bytes()).expect("writes");
        File::open(path).expect("opens")
    }

    /// Runs the shim with `stdin`, which ends after these bytes.
    pub(crate) fn run(&self, arguments: &[&str], stdin: &[u8]) -> Run {
        finish(feed(self.shim(arguments).spawn().expect("starts"), stdin))
    }

    /// Returns the events in the spool, oldest first.
    pub(crate) fn spooled(&self) -> Vec<Deliver> {
        let spool = Spool::new(&self.paths);
        let names = spool.list(usize::MAX).expect("lists");
        names.iter().map(|name| spool.read(name).expect("a whole event")).collect()
    }

    /// Returns the only event in the spool.
    #[track_caller]
    pub(crate) fn only_spooled(&self) -> Deliver {
        let mut events = self.spooled();
        assert_eq!(events.len(), 1, "one event in the spool");
        events.remove(0)
    }

    /// Starts a daemon for one connection. `answer` receives the delivered event and returns the bytes of the reply.
    pub(crate) fn daemon(
        &self,
        answer: impl FnOnce(&Deliver) -> Vec<u8> + Send + 'static,
    ) -> JoinHandle<Deliver> {
        self.paths.create_folders().expect("folders");
        let listener = UnixListener::bind(self.paths.socket().expect("short enough")).expect("binds");
        thread::spawn(move || {
            let mut client = accept(&listener);
            let deliver = read_deliver(&mut client);
            let bytes = answer(&deliver);
            // The shim may have ended already, which is allowed.
            let _ = client.write_all(&bytes);
            let _ = client.read_to_end(&mut Vec::new());
            deliver
        })
    }
}

/// Waits for a client, with a time limit.
pub(crate) fn accept(listener: &UnixListener) -> UnixStream {
    let waited = frame::wait(listener, PollFlags::IN, Duration::from_secs(120)).expect("waits");
    assert_eq!(waited, Waited::Ready, "nobody has connected");
    listener.accept().expect("accepts").0
}

pub(crate) fn acknowledge(stdout: &str) -> Vec<u8> {
    encode_frame(&Reply::Ack { stdout: stdout.as_bytes().to_vec() }).expect("fits")
}

pub(crate) fn read_deliver(client: &mut UnixStream) -> Deliver {
    let mut header = [0; HEADER_LEN];
    client.read_exact(&mut header).expect("a header");
    let header = parse_header(header).expect("a good header");
    let mut body = vec![0; header.len];
    client.read_exact(&mut body).expect("a body");
    match decode_body(header, &body).expect("a request") {
        Request::Deliver(deliver) => deliver,
        Request::Query(query) => panic!("the shim asks no questions: {query:?}"),
    }
}

/// Writes all of `stdin` and closes it.
pub(crate) fn feed(mut child: Child, stdin: &[u8]) -> Child {
    let mut pipe = child.stdin.take().expect("piped");
    // A shim that has read enough may stop reading.
    let _ = pipe.write_all(stdin);
    child
}

/// Waits for the shim, which always exits with 0 and an empty stderr.
#[track_caller]
pub(crate) fn finish(child: Child) -> Run {
    let Output { status, stdout, stderr } = child.wait_with_output().expect("ends");
    assert!(status.success(), "{status}");
    assert_eq!(String::from_utf8_lossy(&stderr), "");
    Run { stdout: String::from_utf8(stdout).expect("utf-8") }
}
