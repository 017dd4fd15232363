//! Tests that files which another user puts in the way of a session, or in the place of recall's own files, have no
//! effect, block nothing, and are named.

use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, lchown, symlink};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use recall_tests::faults::intruder::{UID, can_change_user, open_to_all};
use recall_tests::faults::process::peak_memory;
use recall_tests::repository::Repository;
use recall_tests::{CommandOutput, Stage, run};
use serde_json::{Value, json};

/// Returns whether the test has to be skipped, because it cannot become another user.
fn skipped() -> bool {
    if !can_change_user() {
        println!("skipped: only the superuser can become another user");
    }
    !can_change_user()
}

/// Makes a folder that everybody may put files into, like /tmp.
fn shared(stage: &Stage) -> PathBuf {
    open_to_all(&stage.user_home());
    let shared = stage.user_home().join("shared");
    std::fs::create_dir_all(&shared).unwrap();
    std::fs::set_permissions(&shared, Permissions::from_mode(0o1777)).unwrap();
    shared
}

/// Runs a script in the folder as the other user.
#[track_caller]
fn other_user(folder: &Path, script: &str) {
    let mut shell = Command::new("sh");
    shell.args(["-euc", script]).current_dir(folder).uid(UID).gid(UID);
    assert!(shell.status().unwrap().success(), "{script}");
}

fn prompt_in(stage: &Stage, folder: &Path, session: &str) {
    let mut event = stage.event(session, "UserPromptSubmit", json!({"prompt": "hello", "prompt_id": "p"}));
    event["cwd"] = json!(folder);
    let mut command = stage.command("recall-shim");
    command.arg("claude-code").current_dir(folder);
    run(command, event.to_string().as_bytes());
    stage.flush();
}

fn doctor(stage: &Stage, folder: &Path) -> String {
    let mut command = stage.command("recall");
    command.arg("doctor").current_dir(folder);
    run(command, b"").stdout.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn events(stage: &Stage) -> Value {
    stage.json(["ctl", "status"])["events"].clone()
}

#[test]
fn files_that_another_user_plants_above_a_session_have_no_effect() {
    if skipped() {
        return;
    }
    let stage = Stage::new().daemon();
    let victim = Repository::init(&stage.project());
    victim.git(&["remote", "add", "origin", "git@github.com:acme/secret.git"]);
    stage.discount_session("victim");
    stage.flush();
    let shared = shared(&stage);
    let work = shared.join("work");
    std::fs::create_dir(&work).unwrap();
    let elsewhere = stage.user_home().join("elsewhere.git");
    std::fs::create_dir_all(elsewhere.join("objects")).unwrap();
    std::fs::write(elsewhere.join("HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(elsewhere.join("config"), "").unwrap();
    let repository = "mkdir -p .git/objects && echo 'ref: refs/heads/main' >.git/HEAD && printf \
                      '[remote \"origin\"]\\n\\turl = git@github.com:acme/secret.git\\n' >.git/config";
    let project = work.canonicalize().unwrap();
    for (number, (script, what)) in [
        (repository.to_owned(), ".git"),
        (format!("echo 'gitdir: {}' >.git", elsewhere.display()), ".git"),
        (format!("ln -s {} .git", elsewhere.display()), ".git"),
        ("mkfifo .git".to_owned(), ".git"),
        ("echo 'disable = true' >.recall.toml; chmod 644 .recall.toml".to_owned(), ".recall.toml"),
        ("printf \"alias = 'evil'\" >.recall.toml; chmod 600 .recall.toml".to_owned(), ".recall.toml"),
        ("mkfifo .recall.toml".to_owned(), ".recall.toml"),
        ("ln -s /dev/zero .recall.toml".to_owned(), ".recall.toml"),
        ("mkdir .recall.toml".to_owned(), ".recall.toml"),
    ]
    .into_iter()
    .enumerate()
    {
        other_user(&shared, &script);
        // One session is below the shared folder, and one is in it.
        for (folder, name) in [(&work, "below"), (&shared, "beside")] {
            let session = format!("{name}-{number}");
            prompt_in(&stage, folder, &session);
            let info = stage.json(["ctl", "session", &session]);
            let path = folder.canonicalize().unwrap();
            assert_eq!(info["project_id"], format!("path:{}", path.display()), "{script}");
            assert_ne!(info["project"], "evil");
        }
        let output = doctor(&stage, if what == ".git" { &work } else { &shared });
        assert!(
            output.contains(what) && output.contains("ignored: it belongs to user 65534"),
            "{script}: {output}"
        );
        other_user(&shared, "rm -rf .git .recall.toml");
        assert!(!doctor(&stage, &work).contains("ignored"));
    }
    assert_eq!(events(&stage)["excluded"], 0);
    assert_eq!(project, work.canonicalize().unwrap());
}

#[test]
fn a_repository_writable_by_others_is_ignored_unless_its_group_is_private() {
    let stage = Stage::new().daemon();
    let repository = Repository::init(&stage.project());
    let dot_git = stage.project().join(".git");
    prompt_in(&stage, &stage.project(), "first");
    let id =
        |session: &str| stage.json(["ctl", "session", session])["project_id"].as_str().unwrap().to_owned();
    assert!(id("first").starts_with("root:"), "{}", id("first"));
    std::fs::set_permissions(&dot_git, Permissions::from_mode(0o777)).unwrap();
    prompt_in(&stage, &stage.project(), "open");
    assert!(id("open").starts_with("path:"), "{}", id("open"));
    assert!(doctor(&stage, &repository.0).contains(".git is ignored: other users can write to it"));
    if skipped() {
        return;
    }
    // These are the permissions of umask 002. The superuser's group has no other members.
    for (group, expected) in [(0, "root:"), (UID, "path:")] {
        lchown(&dot_git, None, Some(group)).unwrap();
        std::fs::set_permissions(&dot_git, Permissions::from_mode(0o775)).unwrap();
        let session = format!("group-{group}");
        prompt_in(&stage, &stage.project(), &session);
        assert!(id(&session).starts_with(expected), "{}", id(&session));
    }
}

#[test]
fn recording_is_off_where_other_users_may_write_the_project_file() {
    let stage = Stage::new().daemon();
    let file = stage.project().join(".recall.toml");
    std::fs::write(&file, "disable = false").unwrap();
    std::fs::set_permissions(&file, Permissions::from_mode(0o666)).unwrap();
    prompt_in(&stage, &stage.project(), "one");
    let events = events(&stage);
    assert_eq!((&events["stored"], &events["excluded"]), (&json!(0), &json!(1)));
    let output = doctor(&stage, &stage.project());
    assert!(output.contains("recording is off here: other users can write to it"), "{output}");
}

const SUBSCRIBED: &str = "[[subscribe]]\nevents = ['session_start', 'session_end']\ncommand = ['sh', '-c', 'touch \"$HOME/touched\"']\n";

/// Checks that bad settings are ignored: none of them has an effect, the daemon serves, and the doctor gives the
/// reason.
#[track_caller]
fn config_is_ignored(make: impl FnOnce(&Path), why: &str) {
    let stage = Stage::new().config(SUBSCRIBED);
    let config = stage.home().join("config.toml");
    make(&config);
    let stage = stage.daemon();
    stage.discount_session("one");
    stage.flush();
    assert_eq!(events(&stage)["stored"], 7);
    assert!(peak_memory(stage.daemon_pid()) < 300 << 20);
    let output = doctor(&stage, &stage.project());
    assert!(output.contains(&format!("{}, ", config.display())) && output.contains(why), "{output}");
    assert!(!stage.user_home().join("touched").exists(), "a command ran");
}

#[test]
fn a_config_that_is_not_the_users_own_small_regular_file_is_ignored() {
    let replace = |make: fn(&Path)| {
        move |config: &Path| {
            std::fs::remove_file(config).unwrap();
            make(config);
        }
    };
    config_is_ignored(
        replace(|config| rustix::fs::mkfifoat(rustix::fs::CWD, config, 0o600.into()).unwrap()),
        "it is not a regular file",
    );
    config_is_ignored(replace(|config| symlink("/dev/zero", config).unwrap()), "it is not a regular file");
    config_is_ignored(
        |config| std::fs::write(config, format!("{SUBSCRIBED}{}", "#\n".repeat(1 << 20))).unwrap(),
        "it is larger than",
    );
    config_is_ignored(
        |config| std::fs::set_permissions(config, Permissions::from_mode(0o646)).unwrap(),
        "other users can write to it",
    );
    if skipped() {
        return;
    }
    let give = |config: &Path| lchown(config, Some(UID), Some(UID)).unwrap();
    config_is_ignored(give, "it belongs to user 65534");
    // A link of the other user to a file of ours.
    config_is_ignored(
        |config| {
            std::fs::rename(config, config.with_extension("ours")).unwrap();
            symlink(config.with_extension("ours"), config).unwrap();
            give(config);
        },
        "it belongs to user 65534",
    );
}

#[test]
fn a_config_behind_the_users_own_symlink_is_used() {
    let stage = Stage::new().config(SUBSCRIBED);
    let config = stage.home().join("config.toml");
    std::fs::rename(&config, stage.user_home().join("dotfile.toml")).unwrap();
    symlink("../dotfile.toml", &config).unwrap();
    let stage = stage.daemon();
    stage.discount_session("one");
    stage.flush();
    assert!(doctor(&stage, &stage.project()).contains(&format!("ok {}", config.display())));
    // The subscription exists. It may not have run yet.
    assert_ne!(stage.json(["ctl", "status"])["subscribe"], Value::Null);
}

#[test]
fn the_daemon_refuses_state_files_of_another_user_and_names_them() {
    if skipped() {
        return;
    }
    for name in [
        "data/recall.db",
        "data/recall.db-wal",
        "data/recall.lock",
        "state/pauses.json",
        "state/spool",
        "state/repairs.json",
    ] {
        let stage = Stage::new();
        let path = stage.home().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, "").unwrap();
        lchown(&path, Some(UID), Some(UID)).unwrap();
        let CommandOutput { status, stderr, .. } = stage.recall(["daemon"]);
        assert_eq!(status.code(), Some(1), "{name}");
        assert!(stderr.contains(&format!("{} belongs to user 65534", path.display())), "{stderr}");
        assert!(
            doctor(&stage, &stage.project()).contains(&format!("{} belongs to user 65534", path.display()))
        );
    }
}

#[test]
fn a_pipe_in_place_of_a_state_file_pauses_recording_and_blocks_nothing() {
    let stage = Stage::new();
    std::fs::create_dir_all(stage.home().join("state")).unwrap();
    for name in ["pauses.json", "repairs.json"] {
        let note = stage.home().join("state").join(name);
        rustix::fs::mkfifoat(rustix::fs::CWD, note, 0o600.into()).unwrap();
    }
    let stage = stage.daemon();
    prompt_in(&stage, &stage.project(), "one");
    // Nothing is stored, because the user's pauses are unknown.
    assert_eq!(events(&stage)["stored"], 0);
    assert!(doctor(&stage, &stage.project()).contains("Paused"));
}

/// Runs a program from a shell with umask 0.
fn without_umask(stage: &Stage, program: &str, arguments: &[&str], stdin: &[u8]) -> CommandOutput {
    let own = stage.command(program);
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 0; exec \"$0\" \"$@\""]).arg(own.get_program()).args(arguments);
    shell.env_clear().envs(own.get_envs().filter_map(|(name, value)| Some((name, value?))));
    shell.current_dir(stage.project());
    run(shell, stdin)
}

/// Returns the paths below a folder that other users may read or write.
fn open_paths(folder: &Path) -> Vec<String> {
    let (mut folders, mut open) = (vec![folder.to_owned()], Vec::new());
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap().flatten() {
            let about = entry.path().symlink_metadata().unwrap();
            if about.is_dir() {
                folders.push(entry.path());
            }
            let mode = about.permissions().mode() & 0o777;
            if !about.is_symlink() && mode & 0o077 != 0 {
                open.push(format!("{} {mode:o}", entry.path().display()));
            }
        }
    }
    open
}

#[test]
fn files_of_recall_are_private_even_without_a_umask() {
    let stage = Stage::new();
    let own = |name: &str| stage.user_home().join(name).display().to_string();
    let event = stage.event("first", "UserPromptSubmit", json!({"prompt": "hello", "prompt_id": "p"}));
    // The first event goes into the spool. Then a command starts a daemon.
    without_umask(&stage, "recall-shim", &["claude-code"], event.to_string().as_bytes());
    for arguments in [
        &["remember", "Deploys go out on Fridays."][..],
        &["ctl", "flush"],
        &["search", "deploys"],
        &["config", "set", "context.start_tokens", "100"],
        &["ctl", "backup", &own("backup.db")],
        &["export", &own("export.jsonl")],
        &["ctl", "reindex"],
        &["pause"],
        &["resume"],
        &["sql", "SELECT 1"],
    ] {
        let output = without_umask(&stage, "recall", arguments, b"");
        assert_eq!(output.code(), 0, "{arguments:?}: {output:?}");
    }
    let event = stage.event("first", "Stop", json!({"last_assistant_message": "done"}));
    without_umask(&stage, "recall-shim", &["claude-code"], event.to_string().as_bytes());
    stage.flush();
    assert_eq!(open_paths(&stage.home()), Vec::<String>::new());
    for file in ["backup.db", "export.jsonl"] {
        let mode = std::fs::metadata(own(file)).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode, 0o600, "{file}");
    }
    stage.recall(["ctl", "stop"]);
}
