//! Checks against strangers: other users, foreign files in recall's folders, and clients with false claims.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::time::Duration;

use recall_protocol::codec::MAX_BODY;
use recall_protocol::frame::{PROTOCOL_VERSION, decode_frame, encode_frame};
use recall_protocol::query::Ping;
use recall_protocol::spool::SpoolName;
use recall_protocol::wire::{Reply, Request};
use serde_json::{Value, json};

use crate::faults::handover::paths;
use crate::faults::intruder::{self, UID, can_change_user, open_to_all};
use crate::faults::process::Daemon;
use crate::{Stage, run};

/// How long a check waits for an answer. An answer that takes longer will not arrive.
const PATIENCE: Duration = Duration::from_secs(30);

fn prompt(stage: &Stage, text: &str, id: &str) -> Value {
    stage.event("one", "UserPromptSubmit", json!({"prompt": text, "prompt_id": id}))
}

fn stored(stage: &Stage) -> Value {
    stage.json(["ctl", "status"])["events"]["stored"].clone()
}

/// Writes these bytes to the socket. Returns everything that the other end sends until it closes.
pub fn answer_to(socket: &Path, bytes: &[u8]) -> Vec<u8> {
    let mut stream = UnixStream::connect(socket).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    // The daemon may close the connection of a refused client before the end.
    let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(std::net::Shutdown::Write));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    answer
}

/// Another user gets no answer from the daemon. `test` is the name of the calling test, which is started again as the
/// other user.
pub fn another_user_gets_no_answer_from_the_daemon(stage: Stage, test: &str) {
    let ping = encode_frame(&Request::Query(Ping.into())).unwrap();
    if intruder::role().is_some() {
        println!("answered {} bytes", answer_to(&intruder::socket(), &ping).len());
        return;
    }
    if !can_change_user() {
        println!("skipped: only the superuser can become another");
        return;
    }
    let stage = stage.daemon();
    // The check opens the folders to all users, so that only the daemon's check of its peer is left. The daemon
    // closes them again now and then, so they are opened again.
    let let_in = || {
        for folder in [stage.user_home(), stage.home(), stage.home().join("run"), stage.home().join("data")] {
            open_to_all(&folder);
        }
        for file in [stage.socket(), stage.home().join("data/recall.lock")] {
            std::fs::set_permissions(file, std::fs::Permissions::from_mode(0o666)).unwrap();
        }
    };
    let output_as = |uid| {
        let asked = (0..20).map(|_| {
            let_in();
            let output = intruder::command(&stage, test, "ask", uid).output().unwrap();
            String::from_utf8_lossy(&output.stdout).into_owned()
        });
        asked.into_iter().find(|stdout| stdout.contains("answered ")).unwrap_or_default()
    };
    assert!(output_as(UID).contains("answered 0 bytes"), "{}", output_as(UID));
    let ours = output_as(rustix::process::geteuid().as_raw());
    assert!(ours.contains("answered ") && !ours.contains("answered 0 bytes"), "{ours}");
    assert!(stage.log().contains("refused a connection from another user"), "{}", stage.log());

    // Recall's own client does not work for another user either.
    let_in();
    let mut command = stage.command("recall");
    command.args(["ctl", "status"]);
    std::os::unix::process::CommandExt::uid(&mut command, UID);
    assert_eq!(run(command, b"").code(), 3);
    assert_eq!(stored(&stage), 0);
}

/// A daemon of another user gets no event. `test` is the name of the calling test.
pub fn a_false_daemon_of_another_user_gets_no_payload(stage: Stage, test: &str) {
    const OVER: &[u8] = b"over";
    if intruder::role().is_some() {
        let listener = UnixListener::bind(intruder::socket()).unwrap();
        std::fs::set_permissions(intruder::socket(), std::fs::Permissions::from_mode(0o666)).unwrap();
        println!("listening");
        let (mut received, mut visitors) = (0, 0);
        loop {
            let mut bytes = Vec::new();
            let mut visitor = listener.accept().unwrap().0;
            // A client waits for an answer after it has sent something. Until then it has sent enough.
            visitor.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            let _ = visitor.read_to_end(&mut bytes);
            if bytes == OVER {
                break;
            }
            visitors += 1;
            received += bytes.len();
        }
        println!("heard {received} bytes from {visitors} visitors");
        return;
    }
    if !can_change_user() {
        println!("skipped: only the superuser can become another");
        return;
    }
    paths(&stage).create_folders().unwrap();
    for folder in [stage.user_home(), stage.home(), stage.home().join("run")] {
        open_to_all(&folder);
    }
    let mut daemon = intruder::command(&stage, test, "serve", UID).spawn().unwrap();
    let mut stdout = BufReader::new(daemon.stdout.take().unwrap());
    let mut line = String::new();
    while !line.contains("listening") {
        line.clear();
        assert_ne!(stdout.read_line(&mut line).unwrap(), 0, "the false daemon does not listen");
    }
    let hook = stage.hook(&prompt(&stage, "Between the two of us", "p1"));
    let status = stage.recall(["ctl", "status"]);
    UnixStream::connect(stage.socket()).unwrap().write_all(OVER).unwrap();
    let mut rest = String::new();
    stdout.read_to_string(&mut rest).unwrap();
    daemon.wait().unwrap();
    assert!(rest.contains("heard 0 bytes from 2 visitors"), "{rest}");
    assert_eq!((hook.stdout.as_str(), stage.spooled().len()), ("", 1));
    assert_eq!(status.code(), 3, "{status:?}");
}

/// A link in the spool is not read. So somebody who can create a name there cannot make recall read its target.
pub fn a_symlink_in_the_spool_is_not_read(stage: Stage) {
    let stage = stage.daemon();
    let delivery = stage.delivery(&prompt(&stage, "Somewhere else", "p1"));
    let elsewhere = stage.user_home().join("elsewhere");
    let name = SpoolName::new(delivery.captured_at_ms, delivery.event_id);
    std::fs::write(&elsewhere, encode_frame(&Request::Deliver(delivery)).unwrap()).unwrap();
    std::os::unix::fs::symlink(&elsewhere, stage.home().join("state/spool/new").join(name.as_str())).unwrap();
    stage.flush();
    assert_eq!(stored(&stage), 0, "a symlink was followed");
    assert!(stage.spooled().is_empty());
    assert!(stage.home().join("state/spool/bad").join(name.as_str()).is_symlink());
}

pub fn a_symlinked_runtime_folder_is_rejected(stage: Stage) {
    paths(&stage).create_state_folder().unwrap();
    let elsewhere = stage.user_home().join("elsewhere");
    std::fs::create_dir(&elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, stage.home().join("run")).unwrap();
    let mut daemon = Daemon::spawn(&stage);
    let listens = daemon.wait_until_it_listens(&stage);
    assert!(listens.is_err(), "a folder behind a symlink was taken");
}

/// The daemon refuses the length before it allocates memory and before it reads any more.
pub fn a_message_longer_than_the_limit_is_rejected(stage: Stage) {
    let stage = stage.daemon();
    for length in [MAX_BODY as u32 + 1, u32::MAX] {
        let mut frame = length.to_le_bytes().to_vec();
        frame.push(PROTOCOL_VERSION);
        let reply: Reply = decode_frame(&answer_to(&stage.socket(), &frame)).unwrap();
        assert_eq!(reply, Reply::TooBig);
    }
}
