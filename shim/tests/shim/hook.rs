//! Tests the real shim against daemons of every behaviour, and with stdin of every kind.

use std::fs;
use std::io::{Read, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;
use std::time::Duration;

use recall_protocol::frame::{self, Waited, encode_frame};
use recall_protocol::paths::LockNote;
use recall_protocol::wire::{Flags, Reply};
use rustix::event::PollFlags;

use crate::support::{Home, accept, acknowledge, feed, finish, read_deliver};

const STOP: &[u8] = br#"{"session_id":"s1","hook_event_name":"Stop"}"#;
const START: &[u8] = br#"{"session_id":"s1","hook_event_name":"SessionStart","source":"startup"}"#;

// A daemon that answers.

#[test]
fn the_daemons_answer_is_printed_byte_for_byte() {
    let home = Home::new();
    let daemon = home.daemon(|_| acknowledge("{\"hookSpecificOutput\":{\"additionalContext\":\"ä\\n\"}}"));
    let run = home.run(&["claude-code"], START);
    assert_eq!(run.stdout, "{\"hookSpecificOutput\":{\"additionalContext\":\"ä\\n\"}}");
    let event = daemon.join().expect("daemon");
    assert_eq!(event.payload, START);
    assert_eq!(
        (event.agent.as_str(), event.event_name.as_str(), event.flags),
        ("claude-code", "", Flags::default())
    );
    assert!(event.captured_at_ms > 1_700_000_000_000 && event.boot_ns > 0 && event.event_id.0 != [0; 16]);
    let cwd = home.dir.path().canonicalize().expect("exists");
    assert_eq!(event.context.cwd, cwd.to_str().expect("utf-8"));
    assert!(home.spooled().is_empty());
}

#[test]
fn the_shim_succeeds_if_the_agent_does_not_read_the_answer() {
    let home = Home::new();
    let daemon = home.daemon(|_| acknowledge("{}"));
    let (reader, writer) = std::io::pipe().expect("pipe");
    drop(reader);
    let mut command = home.shim(&["claude-code"]);
    finish(feed(command.stdout(writer).spawn().expect("starts"), START));
    daemon.join().expect("daemon");
}

#[test]
fn the_shim_succeeds_with_closed_standard_streams() {
    let home = Home::new();
    let daemon = home.daemon(|_| acknowledge("{}"));
    let script = "exec \"$0\" claude-code <&- >&- 2>&-";
    let arguments = ["-c", script, env!("CARGO_BIN_EXE_recall-shim")];
    let mut command = home.shim_at(Path::new("/bin/sh"), &arguments);
    assert!(command.status().expect("runs").success());
    assert!(daemon.join().expect("daemon").payload.is_empty());
}

#[test]
fn arguments_and_folders_are_sent_with_the_event() {
    let home = Home::new();
    let daemon = home.daemon(|_| acknowledge(""));
    let mut command = home.shim(&["codex", "PostToolUse"]);
    command.env("CODEX_HOME", "/codex").env("CLAUDE_PROJECT_DIR", "/not-codex");
    let run = finish(feed(command.spawn().expect("starts"), b"{}"));
    assert_eq!(run.stdout, "");
    let event = daemon.join().expect("daemon");
    assert_eq!((event.agent.as_str(), event.event_name.as_str()), ("codex", "PostToolUse"));
    assert_eq!(event.context.config_dir.as_deref(), Some("/codex"));
    assert_eq!(event.context.project_dir, None);
}

#[test]
fn without_arguments_the_agent_is_claude_code() {
    let home = Home::new();
    let daemon = home.daemon(|_| acknowledge(""));
    let mut command = home.shim(&[]);
    command.env("CLAUDE_PROJECT_DIR", "/project").env("CLAUDE_CONFIG_DIR", "/config");
    finish(feed(command.spawn().expect("starts"), STOP));
    let event = daemon.join().expect("daemon");
    assert_eq!(event.agent, "claude-code");
    assert_eq!(event.context.project_dir.as_deref(), Some("/project"));
    assert_eq!(event.context.config_dir.as_deref(), Some("/config"));
}

#[test]
fn a_duplicate_reply_counts_as_an_acknowledgement() {
    let home = Home::new();
    let daemon = home.daemon(|_| encode_frame(&Reply::Duplicate { stdout: b"{}".to_vec() }).expect("fits"));
    assert_eq!(home.run(&["claude-code"], STOP).stdout, "{}");
    daemon.join().expect("daemon");
    assert!(home.spooled().is_empty());
}

#[test]
fn an_unsaved_reply_is_printed_and_its_event_is_spooled() {
    let home = Home::new();
    let daemon = home.daemon(|_| encode_frame(&Reply::Unsaved { stdout: b"{}".to_vec() }).expect("fits"));
    assert_eq!(home.run(&["claude-code"], STOP).stdout, "{}");
    daemon.join().expect("daemon");
    assert_eq!(home.spooled().len(), 1);
}

#[test]
fn an_empty_answer_becomes_an_object_for_agents_that_need_one() {
    for agent in ["gemini-cli", "opencode", "cursor"] {
        let home = Home::new();
        let daemon = home.daemon(|_| acknowledge(""));
        assert_eq!(home.run(&[agent], STOP).stdout, "{}", "{agent}");
        daemon.join().expect("daemon");
    }
}

#[test]
fn a_socket_named_only_in_the_lock_file_is_found() {
    let home = Home::with_folders();
    let socket = home.dir.path().join("elsewhere.sock");
    let listener = UnixListener::bind(&socket).expect("binds");
    fs::write(home.paths.lock_file(), LockNote { pid: 1, socket }.to_bytes()).expect("writes");
    let daemon = thread::spawn(move || {
        let mut client = accept(&listener);
        let event = read_deliver(&mut client);
        client.write_all(&acknowledge("{}")).expect("answers");
        event
    });
    assert_eq!(home.run(&["claude-code"], STOP).stdout, "{}");
    assert_eq!(daemon.join().expect("daemon").payload, STOP);
}

// A daemon that does not acknowledge: the event is in the spool.

#[test]
fn an_event_is_spooled_if_the_reply_does_not_acknowledge_it() {
    let frame = |reply: &Reply| encode_frame(reply).expect("fits");
    let mut newer = acknowledge("{}");
    newer[4] = frame::PROTOCOL_VERSION + 1;
    let mut longer = acknowledge("{}");
    longer.push(0);
    let answers = [
        ("busy", frame(&Reply::Busy)),
        ("too big", frame(&Reply::TooBig)),
        (
            "version",
            frame(&Reply::Version { min: frame::PROTOCOL_VERSION + 1, max: frame::PROTOCOL_VERSION + 2 }),
        ),
        ("shutting down", frame(&Reply::ShuttingDown)),
        ("invalid", frame(&Reply::Invalid("no".to_owned()))),
        ("an answer to a query", frame(&Reply::Json(b"{}".to_vec()))),
        ("a frame of another version", newer),
        ("bytes left over", longer),
        ("garbage", b"HTTP/1.1 200 OK\r\n\r\n".to_vec()),
        ("a hostile length", vec![255, 255, 255, 255, 1]),
    ];
    for (name, bytes) in answers {
        let home = Home::new();
        let daemon = home.daemon(move |_| bytes);
        assert_eq!(home.run(&["claude-code"], STOP).stdout, "", "{name}");
        assert_eq!(home.only_spooled(), daemon.join().expect("daemon"), "{name}");
    }
}

#[test]
fn an_event_is_spooled_if_the_daemons_answer_is_truncated() {
    let home = Home::with_folders();
    let listener = UnixListener::bind(home.paths.socket().expect("short")).expect("binds");
    let daemon = thread::spawn(move || {
        let mut client = accept(&listener);
        read_deliver(&mut client);
        let answer = acknowledge("{\"a\":1}");
        client.write_all(&answer[..answer.len() - 1]).expect("answers");
    });
    assert_eq!(home.run(&["gemini-cli"], STOP).stdout, "{}");
    daemon.join().expect("daemon");
    assert_eq!(home.only_spooled().payload, STOP);
}

#[test]
fn a_daemon_that_never_answers_does_not_block_the_agent() {
    let home = Home::new();
    let daemon = home.daemon(|_| Vec::new());
    let mut command = home.shim(&["claude-code"]);
    // This is long enough to send the event on a busy machine.
    command.env("RECALL_ANSWER_MS", "3000");
    assert_eq!(finish(feed(command.spawn().expect("starts"), STOP)).stdout, "");
    assert_eq!(home.only_spooled(), daemon.join().expect("daemon"));
}

#[test]
fn a_daemon_that_never_accepts_does_not_block_the_agent() {
    let home = Home::with_folders();
    let _listener = UnixListener::bind(home.paths.socket().expect("short")).expect("binds");
    let mut command = home.shim(&["claude-code"]);
    command.env_remove("RECALL_ANSWER_MS");
    assert_eq!(finish(feed(command.spawn().expect("starts"), START)).stdout, "");
    assert_eq!(home.only_spooled().payload, START);
}

#[test]
#[cfg(target_os = "linux")]
fn a_full_socket_backlog_does_not_block_the_agent() {
    let home = Home::with_folders();
    let socket = home.paths.socket().expect("short");
    let listener = UnixListener::bind(socket).expect("binds");
    rustix::net::listen(&listener, 0).expect("a backlog of one");
    let _first = UnixStream::connect(socket).expect("takes the one place");
    let mut command = home.shim(&["claude-code"]);
    command.env_remove("RECALL_ANSWER_MS");
    finish(feed(command.spawn().expect("starts"), STOP));
    assert_eq!(home.only_spooled().payload, STOP);
}

#[test]
fn an_event_is_spooled_if_no_daemon_listens_at_the_socket() {
    let absent = Home::new();
    absent.run(&["claude-code"], START);
    assert_eq!(absent.only_spooled().payload, START);

    let stale = Home::with_folders();
    drop(UnixListener::bind(stale.paths.socket().expect("short")).expect("binds"));
    stale.run(&["claude-code"], STOP);
    assert_eq!(stale.only_spooled().payload, STOP);

    let file = Home::with_folders();
    fs::write(file.paths.socket().expect("short"), "").expect("writes");
    file.run(&["claude-code"], STOP);
    assert_eq!(file.only_spooled().payload, STOP);
}

#[test]
fn spooled_events_are_distinct_ordered_and_private() {
    let home = Home::new();
    for n in 0..5 {
        home.run(&["claude-code"], format!("{{\"n\":{n}}}").as_bytes());
    }
    let events = home.spooled();
    let mut by_boot = events.clone();
    by_boot.sort_by_key(|event| (event.boot_id, event.boot_ns));
    let payloads: Vec<_> = by_boot.iter().map(|event| String::from_utf8_lossy(&event.payload)).collect();
    assert_eq!(payloads, (0..5).map(|n| format!("{{\"n\":{n}}}")).collect::<Vec<_>>());
    for file in fs::read_dir(home.paths.spool_dir().join("new")).expect("lists") {
        let mode = file.expect("entry").metadata().expect("metadata").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
    assert_eq!(fs::read_dir(home.paths.spool_dir().join("tmp")).expect("lists").count(), 0);
}

#[test]
fn the_shim_answers_the_agent_even_if_no_file_can_be_written() {
    let home = Home::new();
    fs::create_dir(home.dir.path().join("home")).expect("mkdir");
    fs::write(home.paths.state_dir(), "a file in the way").expect("writes");
    assert_eq!(home.run(&["gemini-cli"], STOP).stdout, "{}");
    let mut nowhere = home.shim(&["opencode", "SessionStart"]);
    nowhere.env("RECALL_HOME", "relative");
    assert_eq!(finish(feed(nowhere.spawn().expect("starts"), START)).stdout, "{}");
}

#[test]
fn the_shim_does_nothing_inside_recalls_own_compressor() {
    let home = Home::new();
    let mut command = home.shim(&["claude-code"]);
    // Stdin stays open and empty. The shim must not read it.
    let mut child = command.env("RECALL_DISABLE", "1").spawn().expect("starts");
    let stdin = child.stdin.take();
    assert_eq!(finish(child).stdout, "");
    drop(stdin);
    assert!(!home.dir.path().join("home").exists());
}

// Starting the daemon.

/// Puts the shim into a folder together with a `recall` that is a script, and returns the shim's new path.
fn beside_a_daemon(home: &Home, script: &str) -> PathBuf {
    let bin = home.dir.path().join("bin");
    fs::create_dir(&bin).expect("mkdir");
    let source = home.dir.path().join("script");
    fs::write(&source, script).expect("writes");
    fs::set_permissions(&source, fs::Permissions::from_mode(0o755)).expect("chmod");
    // Another process copies the files. If this process had a file open for writing while another test forks, the
    // system would refuse to run that file.
    for (from, to) in [(Path::new(env!("CARGO_BIN_EXE_recall-shim")), "recall-shim"), (&source, "recall")] {
        assert!(Command::new("cp").arg(from).arg(bin.join(to)).status().expect("cp").success());
    }
    bin.join("recall-shim")
}

/// Returns the shim in a folder without a daemon to start. Next to the tested binary there may be a real daemon,
/// which would outlive the test.
fn without_a_daemon(home: &Home, arguments: &[&str]) -> Command {
    let shim = home.dir.path().join("recall-shim");
    fs::hard_link(env!("CARGO_BIN_EXE_recall-shim"), &shim)
        .or_else(|_| fs::copy(env!("CARGO_BIN_EXE_recall-shim"), &shim).map(drop))
        .expect("is there");
    let mut command = home.shim_at(&shim, arguments);
    command.env_remove("RECALL_NO_DAEMON_START").env("PATH", home.dir.path());
    command
}

/// A named pipe through which a script reports to the test.
struct ReportPipe {
    path: PathBuf,
    pipe: fs::File,
}

impl ReportPipe {
    fn new(home: &Home) -> Self {
        let path = home.dir.path().join("told");
        assert!(Command::new("mkfifo").arg(&path).status().expect("mkfifo").success());
        let flags = rustix::fs::OFlags::NONBLOCK.bits().cast_signed();
        let pipe = fs::OpenOptions::new().read(true).custom_flags(flags).open(&path).expect("opens");
        Self { path, pipe }
    }

    /// Waits for the script, with a time limit. Returns everything that it writes.
    fn read(mut self) -> String {
        let waited = frame::wait(&self.pipe, PollFlags::IN, Duration::from_secs(120)).expect("waits");
        assert_eq!(waited, Waited::Ready, "the script has not been started");
        rustix::io::ioctl_fionbio(&self.pipe, false).expect("blocking from here on");
        let mut text = String::new();
        self.pipe.read_to_string(&mut text).expect("reads");
        text
    }
}

#[test]
fn a_daemon_is_started_detached_and_with_a_scrubbed_environment() {
    let home = Home::new();
    let pipe = ReportPipe::new(&home);
    let path = pipe.path.display();
    let script = format!(
        "#!/bin/sh\nread -r pid comm state parent group rest < /proc/$$/stat\n\
         fds=$(readlink /proc/$$/fd/0 /proc/$$/fd/1 /proc/$$/fd/2)\n\
         {{ echo \"$1 $PWD $pid $group\"; echo \"$fds\"; /usr/bin/env; }} > {path}\n"
    );
    let shim = beside_a_daemon(&home, &script);
    let mut command = home.shim_at(&shim, &["claude-code"]);
    command
        .env_remove("RECALL_NO_DAEMON_START")
        .env("PATH", "/usr/bin:/bin")
        .env("ANTHROPIC_API_KEY", "secret")
        .env("CLAUDE_CODE_MESSAGING_TOKEN", "secret");
    finish(feed(command.spawn().expect("starts"), STOP));
    let report = pipe.read();
    let mut lines = report.lines();
    let first: Vec<_> = lines.next().expect("a line").split(' ').collect();
    assert_eq!(first[..2], ["daemon", "/"]);
    assert_eq!(first[2], first[3], "the leader of its own group");
    assert_eq!(lines.by_ref().take(3).collect::<Vec<_>>(), ["/dev/null"; 3]);
    let environment: Vec<_> = lines.collect();
    assert!(environment.iter().any(|line| line.starts_with("RECALL_HOME=")));
    assert!(!report.contains("secret"), "{report}");
    assert_eq!(home.only_spooled().payload, STOP);
}

#[test]
fn hooks_in_quick_succession_start_at_most_one_daemon() {
    let home = Home::new();
    let starts = home.dir.path().join("starts");
    let shim = beside_a_daemon(&home, &format!("#!/bin/sh\necho started >> {}\n", starts.display()));
    for _ in 0..3 {
        let mut command = home.shim_at(&shim, &["claude-code"]);
        command.env_remove("RECALL_NO_DAEMON_START");
        finish(feed(command.spawn().expect("starts"), STOP));
    }
    assert_eq!(home.spooled().len(), 3);
    let stamp = fs::metadata(home.paths.start_stamp()).expect("a stamp");
    assert_eq!(stamp.len(), 1);
    // The first start may not be finished yet. A second start would write a second line.
    let lines = fs::read_to_string(&starts).unwrap_or_default();
    assert!(lines.lines().count() <= 1, "{lines}");
}

#[test]
fn a_session_start_waits_for_the_daemon_it_starts() {
    let home = Home::new();
    home.paths.create_folders().expect("folders");
    // This test's own daemon starts to listen when the script starts.
    let pipe = ReportPipe::new(&home);
    let shim = beside_a_daemon(&home, &format!("#!/bin/sh\necho started > {}\n", pipe.path.display()));
    let socket = home.paths.socket().expect("short").to_path_buf();
    let daemon = thread::spawn(move || {
        assert_eq!(pipe.read(), "started\n");
        let listener = UnixListener::bind(&socket).expect("binds");
        let mut client = accept(&listener);
        let event = read_deliver(&mut client);
        client.write_all(&acknowledge("{\"context\":1}")).expect("answers");
        event
    });
    let mut command = home.shim_at(&shim, &["claude-code"]);
    command.env_remove("RECALL_NO_DAEMON_START");
    let run = finish(feed(command.spawn().expect("starts"), START));
    assert_eq!(run.stdout, "{\"context\":1}");
    assert_eq!(daemon.join().expect("daemon").payload, START);
    assert!(home.spooled().is_empty());
}

#[test]
fn an_event_is_spooled_if_the_daemons_binary_is_missing() {
    let home = Home::new();
    let mut command = without_a_daemon(&home, &["gemini-cli", "SessionStart"]);
    assert_eq!(finish(feed(command.spawn().expect("starts"), START)).stdout, "{}");
    assert_eq!(home.only_spooled().payload, START);
}

#[test]
fn a_daemon_starts_with_a_safe_path_and_without_core_dumps() {
    let home = Home::new();
    let pipe = ReportPipe::new(&home);
    let script =
        format!("#!/bin/sh\n{{ echo \"$PATH\"; ulimit -Sc; ulimit -Hc; }} > {}\n", pipe.path.display());
    let shim = beside_a_daemon(&home, &script);
    let folder = |name: &str, mode: u32| {
        let folder = home.dir.path().join(name);
        fs::create_dir_all(&folder).expect("mkdir");
        fs::set_permissions(&folder, fs::Permissions::from_mode(mode)).expect("chmod");
        folder.canonicalize().expect("is there")
    };
    let project = folder("project", 0o755);
    let cwd = folder("project/src", 0o755);
    folder("project/.git", 0o755);
    let (modules, open) = (folder("project/node_modules/.bin", 0o755), folder("open", 0o777));
    let (good, usr) = (folder("good", 0o755), Path::new("/usr/bin").canonicalize().expect("is there"));
    let path = std::env::join_paths([&modules, Path::new("bin"), &open, &good, &usr]).expect("no colons");
    let mut command = home.shim_at(&shim, &["claude-code"]);
    command
        .env_remove("RECALL_NO_DAEMON_START")
        .env("PATH", path)
        .env("HOME", home.dir.path())
        .env("CLAUDE_PROJECT_DIR", project)
        .current_dir(cwd);
    finish(feed(command.spawn().expect("starts"), STOP));
    assert_eq!(pipe.read(), format!("{}:{}\n0\n0\n", good.display(), usr.display()));
}

// A person at a terminal.

#[test]
fn help_and_version_are_printed_and_nothing_is_started() {
    for (arguments, expected) in [
        (&["--help"][..], "Usage: recall-shim AGENT [EVENT]"),
        (&["-h"], "Usage: recall-shim AGENT [EVENT]"),
        (&["claude-code", "--help"], "Usage: recall-shim AGENT [EVENT]"),
        (&["claude-code", "Stop", "--help"], "Usage: recall-shim AGENT [EVENT]"),
        (&["--version"], concat!("recall-shim ", env!("CARGO_PKG_VERSION"))),
    ] {
        let home = Home::new();
        let mut child = home.shim(arguments).env_remove("RECALL_NO_DAEMON_START").spawn().expect("starts");
        // A person's terminal stays open and sends nothing.
        let stdin = child.stdin.take();
        let run = finish(child);
        assert!(run.stdout.contains(expected), "{arguments:?}: {}", run.stdout);
        drop(stdin);
        assert!(!home.dir.path().join("home").exists(), "{arguments:?}");
    }
}

#[test]
fn an_unknown_option_alone_is_reported_on_stderr_only() {
    let home = Home::new();
    let mut child = home.shim(&["--foo"]).env_remove("RECALL_NO_DAEMON_START").spawn().expect("starts");
    let stdin = child.stdin.take();
    let output = child.wait_with_output().expect("ends");
    drop(stdin);
    assert!(output.status.success() && output.stdout.is_empty(), "{output:?}");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(stderr.contains("unknown option: \"--foo\""), "{stderr}");
    assert!(!home.dir.path().join("home").exists());
}

#[test]
fn an_unknown_option_beside_an_agents_name_is_ignored_and_the_event_kept() {
    for arguments in [&["claude-code", "--foo"][..], &["--foo", "claude-code"], &["claude-code", "--"]] {
        let home = Home::new();
        assert_eq!(home.run(arguments, STOP).stdout, "", "{arguments:?}");
        assert_eq!(home.only_spooled().agent, "claude-code");
    }
}

#[test]
fn an_event_of_an_unknown_agent_is_spooled() {
    let home = Home::new();
    assert_eq!(home.run(&["from-the-future"], STOP).stdout, "");
    assert_eq!(home.only_spooled().agent, "from-the-future");
}

// Folders of another user.

#[test]
fn nothing_is_written_into_a_spool_of_another_user() {
    if !rustix::process::geteuid().is_root() {
        println!("skipped: only the superuser can give folders away");
        return;
    }
    let spool = ["state/spool", "state/spool/tmp", "state/spool/new"];
    // The foreign folders belong to another user and are writable for everybody.
    for foreign in [&["state"][..], &spool] {
        let home = Home::new();
        let base = home.dir.path().join("home");
        for name in ["state", "state/spool", "state/spool/tmp", "state/spool/new", "run"] {
            fs::create_dir_all(base.join(name)).expect("mkdir");
        }
        for name in foreign {
            fs::set_permissions(base.join(name), fs::Permissions::from_mode(0o777)).expect("chmod");
            std::os::unix::fs::chown(base.join(name), Some(65534), Some(65534)).expect("chown");
        }
        let mut command = without_a_daemon(&home, &["claude-code"]);
        assert_eq!(finish(feed(command.spawn().expect("starts"), STOP)).stdout, "");
        let names = |folder: &str| {
            let entries = fs::read_dir(base.join(folder)).expect("lists");
            entries.map(|entry| entry.expect("reads").file_name()).collect::<Vec<_>>()
        };
        assert!(names("state/spool/tmp").is_empty() && names("state/spool/new").is_empty());
        assert!(
            !names("state/spool").contains(&"level".into())
                && !names("state/spool").contains(&"dropped".into())
        );
        // There is one record. It contains the second in which the event was lost.
        assert_eq!(fs::metadata(base.join("run/dropped")).expect("counted").len(), 4, "{foreign:?}");
    }
}
