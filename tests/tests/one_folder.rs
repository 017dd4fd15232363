//! Tests that a data folder has one daemon, wherever the folder is and whatever happens to it, and that this daemon
//! can be found.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use recall_tests::faults::process::{Daemon, listens};
use recall_tests::faults::syscalls::strace_works;
use recall_tests::{CommandOutput, Stage, run};
use serde_json::{Value, json};

/// Much longer than a daemon needs to notice anything.
const PATIENCE: Duration = Duration::from_secs(60);

#[track_caller]
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::yield_now();
    }
}

fn prompt(stage: &Stage, id: &str) -> Value {
    stage.event(&format!("s-{id}"), "UserPromptSubmit", json!({"prompt": id, "prompt_id": id}))
}

fn stored(stage: &Stage) -> Value {
    stage.json(["ctl", "status"])["events"]["stored"].clone()
}

/// Returns a command for a daemon whose system calls strace changes.
fn traced(stage: &Stage, change: &str) -> Command {
    let daemon = stage.command("recall");
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null", "-e", change]).arg(daemon.get_program()).arg("daemon");
    command.env_clear().envs(daemon.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

/// Simulates a file system whose mounts do not share their locks. Every process gets the lock.
const EVERYBODY_LOCKS: &str = "inject=flock:retval=0";
/// Makes `statfs(2)` name NFS.
const ON_NFS: &str = "inject=statfs:poke_exit=@arg2=6969000000000000";

#[test]
fn where_locks_are_not_shared_a_second_daemon_exits_and_names_the_first() {
    if !strace_works() {
        println!("skipped: strace is missing or may not trace");
        return;
    }
    let stage = Stage::new().daemon();
    stage.hook(&prompt(&stage, "before"));
    let output: CommandOutput = run(traced(&stage, EVERYBODY_LOCKS), b"");
    assert_eq!(output.code(), 1, "{output:?}");
    let name = format!("pid {}", stage.daemon_pid());
    assert!(output.stderr.contains(&name) && output.stderr.contains("recall ctl stop"), "{output:?}");
    // The first daemon has noticed nothing.
    stage.hook(&prompt(&stage, "after"));
    assert_eq!(stored(&stage), 2);
    assert!(stage.spooled().is_empty());
}

#[test]
fn a_daemon_whose_lease_is_taken_over_exits() {
    let stage = Stage::new();
    let mut first = Daemon::spawn(&stage);
    first.wait_until_it_listens(&stage).unwrap();
    // Another machine believed that the daemon was dead, and has written its own lease.
    let lease = stage.home().join("data/recall.lease");
    let other =
        std::fs::read_to_string(&lease).unwrap().replace("boot ", "boot f").replace("host ", "host far-");
    std::fs::write(stage.home().join("other"), other).unwrap();
    std::fs::rename(stage.home().join("other"), &lease).unwrap();
    stage.hook(&prompt(&stage, "late"));
    until("it goes on", || first.ended().is_some());
    assert!(stage.log().contains("far-"), "{}", stage.log());
    assert!(lease.exists(), "the other one's lease is not taken away");
    assert!(
        stage.recall(["doctor"]).stdout.contains("not running"),
        "locks are shared here, so nobody holds it"
    );
}

#[test]
fn on_a_network_file_system_the_database_has_no_write_ahead_log() {
    if !strace_works() {
        println!("skipped: strace is missing or may not trace");
        return;
    }
    let mut stage = Stage::new().daemon();
    stage.discount_session("with-a-log");
    stage.kill_daemon();
    let log = stage.home().join("data/recall.db-wal");
    assert!(log.exists());
    let mut command = traced(&stage, ON_NFS);
    let mut daemon =
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("it answers", || {
        stage.recall(["ctl", "status"]).code() == 0 || daemon.try_wait().unwrap().is_some()
    });
    if !stage.log().contains("lies on NFS") {
        println!("skipped: this strace cannot change what a call returns");
        end(daemon);
        return;
    }
    stage.discount_session("without");
    stage.flush();
    assert!(!log.exists() && !stage.home().join("data/recall.db-shm").exists());
    let found =
        stage.json(["search", "rounding happens once", "--project", stage.project().to_str().unwrap()]);
    assert!(!found["results"].as_array().unwrap().is_empty(), "{found}");
    let sessions = stage.json(["ctl", "sessions"])["sessions"].clone();
    assert_eq!(sessions.as_array().unwrap().len(), 2, "{sessions}");
    assert_eq!(stage.recall(["ctl", "backup"]).code(), 0);
    let pid = stage.json(["ctl", "status"])["pid"].clone();
    assert_eq!(stage.recall(["ctl", "stop"]).code(), 0, "{pid}");
    daemon.wait().unwrap();
    let database = rusqlite::Connection::open(stage.database()).unwrap();
    let mode: String = database.query_row("PRAGMA journal_mode", [], |row| row.get(0)).unwrap();
    assert_eq!(mode, "delete", "a log of before is gone");
}

fn end(mut daemon: Child) {
    let _ = daemon.kill();
    let _ = daemon.wait();
}

/// A change of the home while its daemon runs.
#[derive(Clone, Copy, Debug)]
enum Accident {
    Deleted,
    Moved,
    Replaced,
    DataReplaced,
}

/// Checks that the old daemon ends, and takes away nothing that belongs to the next one.
#[track_caller]
fn the_old_daemon_ends(change: Accident) {
    let stage = Stage::new();
    let mut old = Daemon::spawn(&stage);
    old.wait_until_it_listens(&stage).unwrap();
    stage.discount_session("before");
    let (home, aside) = (stage.home(), stage.user_home().join("aside"));
    match change {
        Accident::Deleted => std::fs::remove_dir_all(&home).unwrap(),
        Accident::Moved => std::fs::rename(&home, &aside).unwrap(),
        Accident::Replaced => {
            std::fs::rename(&home, &aside).unwrap();
            std::fs::create_dir(&home).unwrap();
        }
        Accident::DataReplaced => std::fs::rename(home.join("data"), &aside).unwrap(),
    }
    // These hooks find no daemon. Their events wait in the new spool, which the old daemon sees too.
    for id in 0..30 {
        stage.hook(&prompt(&stage, &format!("p{id}")));
    }
    let mut next = Daemon::spawn(&stage);
    next.wait_until_it_listens(&stage).unwrap();
    for id in 30..60 {
        stage.hook(&prompt(&stage, &format!("p{id}")));
    }
    until("the old daemon lives on", || old.ended().is_some());
    assert!(listens(&stage.socket(), next.pid()), "it took the next one's socket away");
    stage.flush();
    assert_eq!(stored(&stage), 60, "{change:?}");
    assert_eq!(stage.recall(["ctl", "check"]).code(), 0);
    next.kill();
    assert!(
        stage.log().contains("the daemon ends") || !matches!(change, Accident::DataReplaced),
        "{}",
        stage.log()
    );
    if let Accident::Moved | Accident::Replaced = change {
        // The moved database is intact.
        let moved = rusqlite::Connection::open(aside.join("data/recall.db")).unwrap();
        let sessions: u32 = moved.query_row("SELECT count(*) FROM sessions", [], |row| row.get(0)).unwrap();
        assert_eq!(sessions, 1);
    }
}

#[test]
fn a_daemon_whose_home_was_deleted_ends() {
    the_old_daemon_ends(Accident::Deleted);
}

#[test]
fn a_daemon_whose_home_was_moved_ends() {
    the_old_daemon_ends(Accident::Moved);
}

#[test]
fn a_daemon_whose_home_was_replaced_ends() {
    the_old_daemon_ends(Accident::Replaced);
}

#[test]
fn a_daemon_whose_data_folder_was_replaced_ends() {
    the_old_daemon_ends(Accident::DataReplaced);
}

#[test]
fn a_command_names_the_process_that_holds_the_lock() {
    let stage = Stage::new();
    let mut daemon = Daemon::spawn(&stage);
    daemon.wait_until_it_listens(&stage).unwrap();
    daemon.kill();
    let lock = stage.home().join("data/recall.lock");
    let file = std::fs::File::open(&lock).unwrap();
    file.lock().unwrap();
    let output = stage.recall(["search", "anything"]);
    assert_eq!(output.code(), 3, "{output:?}");
    for name in ["lock", &std::process::id().to_string()] {
        assert!(output.stderr.contains(name), "{output:?}");
    }
    let output = stage.recall(["doctor"]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stdout.contains("holds the lock"), "{output:?}");
    drop(file);
    assert!(stage.recall(["doctor"]).stdout.contains("not running"));
}

/// A copy of a folder contains its daemon's files, but belongs to no daemon.
#[test]
fn a_daemon_starts_on_a_copy_of_a_home_in_use() {
    let stage = Stage::new().daemon();
    stage.discount_session("one");
    stage.flush();
    let copy = Stage::new();
    let copied = Command::new("cp").arg("-a").args([stage.home(), copy.home()]).status().unwrap();
    assert!(copied.success());
    let mut daemon = Daemon::spawn(&copy);
    daemon.wait_until_it_listens(&copy).unwrap();
    assert_eq!(copy.json(["ctl", "status"])["sessions"]["total"], 1);
    stage.hook(&prompt(&stage, "here"));
    assert!(stage.spooled().is_empty());
}

/// Checks that hooks reach a living daemon again after a change of its socket.
#[track_caller]
fn is_reached_again(change: impl FnOnce(&Path)) {
    let stage = Stage::new().daemon();
    stage.hook(&prompt(&stage, "before"));
    let pid = stage.daemon_pid();
    change(&stage.socket());
    until("nobody reaches it", || listens(&stage.socket(), pid));
    stage.hook(&prompt(&stage, "after"));
    stage.flush();
    assert_eq!(stored(&stage), 2);
    let mode = |path: &Path| path.symlink_metadata().unwrap().permissions().mode() & 0o777;
    until("the modes stay", || {
        mode(&stage.socket()) == 0o600 && mode(stage.socket().parent().unwrap()) == 0o700
    });
}

#[test]
fn a_daemon_replaces_a_socket_that_was_removed_or_changed() {
    is_reached_again(|socket| std::fs::remove_file(socket).unwrap());
    is_reached_again(|socket| std::fs::remove_dir_all(socket.parent().unwrap()).unwrap());
    is_reached_again(|socket| {
        let folder = socket.parent().unwrap();
        std::fs::rename(folder, folder.with_extension("old")).unwrap();
        std::fs::create_dir(folder).unwrap();
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).unwrap();
    });
    // First a socket without a listener, then a file.
    is_reached_again(|socket| {
        std::fs::remove_file(socket).unwrap();
        drop(std::os::unix::net::UnixListener::bind(socket).unwrap());
    });
    is_reached_again(|socket| {
        std::fs::remove_file(socket).unwrap();
        std::fs::write(socket, "").unwrap();
    });
    is_reached_again(|socket| {
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o000)).unwrap();
        std::fs::set_permissions(socket.parent().unwrap(), std::fs::Permissions::from_mode(0o555)).unwrap();
    });
}

#[test]
fn a_socket_that_another_process_listens_on_is_not_replaced() {
    let stage = Stage::new().daemon();
    std::fs::remove_file(stage.socket()).unwrap();
    let other = std::os::unix::net::UnixListener::bind(stage.socket()).unwrap();
    until("it says nothing", || stage.log().contains("another process is listening"));
    assert!(listens(&stage.socket(), std::process::id()));
    // When the other process is gone, the daemon gets its socket back.
    drop(other);
    until("nobody reaches it", || listens(&stage.socket(), stage.daemon_pid()));
}

/// A shell has keys that the daemon does not need.
#[test]
fn a_daemon_that_a_command_starts_keeps_few_variables_of_its_shell() {
    let stage = Stage::new();
    let mut command = stage.command("recall");
    command.args(["search", "anything"]).env("SOME_API_KEY", "heliotrope").env("GIT_DIR", "/elsewhere");
    let output = run(command, b"");
    let pid = stage.json(["ctl", "status"])["pid"].clone();
    let environment = std::fs::read_to_string(format!("/proc/{pid}/environ")).unwrap_or_default();
    assert!(!environment.contains("heliotrope") && !environment.contains("GIT_DIR"), "{output:?}");
    assert!(!Path::new("/proc/self").exists() || environment.contains("RECALL_HOME="), "{environment}");
}
