//! Which folders are one project: clones of all sorts are, and a folder that only says so is not.

// Test code: a panic is how it says that something is wrong.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use recall_tests::repository::Repository;
use recall_tests::{DISCOUNT_PROMPT, Stage};
use serde_json::{Value, json};

const REMOTE: &str = "git@github.com:acme/secret.git";

/// A project of a remote in which something was learned, cloned as one has it from a server.
fn stage() -> (Stage, Repository) {
    let stage = Stage::new();
    let server = Repository::init(&stage.user_home().join("server"));
    server.commit("two");
    clone(&stage, &stage.project(), &[]);
    let stage = stage.daemon();
    stage.discount_session("victim");
    stage.flush();
    assert_eq!(project_of(&stage, "victim"), "git:github.com/acme/secret");
    (stage, server)
}

/// A clone of the server that names the remote.
fn clone(stage: &Stage, folder: &Path, how: &[&str]) -> Repository {
    let server = format!("file://{}", stage.user_home().join("server").display());
    let mut arguments = vec!["clone", "-q"];
    arguments.extend(how);
    arguments.extend([server.as_str(), folder.to_str().unwrap()]);
    Repository(stage.user_home()).git(&arguments);
    let clone = Repository(folder.to_owned());
    clone.git(&["remote", "set-url", "origin", REMOTE]);
    clone
}

fn project_of(stage: &Stage, session: &str) -> Value {
    stage.json(["ctl", "session", session])["project_id"].clone()
}

/// What a session is told that starts in a folder and asks about what is known.
fn told(stage: &Stage, folder: &Path, session: &str) -> String {
    let hook = |name: &str, fields: Value| {
        let mut event = stage.event(session, name, fields);
        event["cwd"] = json!(folder);
        let mut command = stage.command("recall-shim");
        command.arg("claude-code").current_dir(folder);
        recall_tests::run(command, event.to_string().as_bytes()).stdout
    };
    let started = hook("SessionStart", json!({"source": "startup"}));
    let asked = hook("UserPromptSubmit", json!({"prompt": DISCOUNT_PROMPT, "prompt_id": "p"}));
    let cart = json!({"tool_name": "Read", "tool_input": {"file_path": folder.join("src/cart.rs")}});
    let opened = hook("PreToolUse", cart);
    stage.flush();
    format!("{started}{asked}{opened}")
}

#[track_caller]
fn joins(stage: &Stage, folder: &Path, session: &str) {
    let told = told(stage, folder, session);
    assert!(told.contains("Rounding happens once"), "{told}");
    assert_eq!(project_of(stage, session), project_of(stage, "victim"));
}

#[track_caller]
fn stays_out(stage: &Stage, folder: &Path, session: &str) {
    assert_eq!(told(stage, folder, session), "", "not a line, not a count");
    let info = stage.json(["ctl", "session", session]);
    assert_ne!(info["project_id"], project_of(stage, "victim"));
    let here = folder.to_str().unwrap();
    assert_eq!(stage.json(["context", "--cwd", here])["text"], "");
    let found = stage.json(["search", "rounding", "--project", here]);
    assert_eq!(found["total"], 0, "{found}");
    let forgotten = stage.json(["forget", "--dry-run", "--project", here]);
    assert_eq!(forgotten["observations"], 0, "{forgotten}");
}

#[test]
fn clones_worktrees_and_moved_folders_are_one_project() {
    let (stage, server) = stage();
    let beside = |name: &str| -> PathBuf { stage.user_home().join(name) };
    let tree = beside("tree");
    Repository(stage.project()).git(&["worktree", "add", "-q", tree.to_str().unwrap(), "-b", "x"]);
    joins(&stage, &tree, "worktree");
    server.commit("three");
    clone(&stage, &beside("clone"), &[]);
    joins(&stage, &beside("clone"), "clone");
    clone(&stage, &beside("borrows"), &["--reference", stage.project().to_str().unwrap()]);
    joins(&stage, &beside("borrows"), "borrows");
    // The clone's latest commit is all it has, and the second clone has it.
    clone(&stage, &beside("shallow"), &["--depth", "1"]);
    joins(&stage, &beside("shallow"), "shallow");
    std::fs::rename(beside("clone"), beside("moved")).unwrap();
    joins(&stage, &beside("moved"), "moved");
}

#[test]
fn a_folder_moved_before_anything_else_is_known_shows_what_was_worked_on() {
    let (stage, _server) = stage();
    let moved = stage.user_home().join("moved");
    std::fs::rename(stage.project(), &moved).unwrap();
    std::fs::create_dir(stage.project()).unwrap();
    joins(&stage, &moved, "moved");
}

#[test]
fn a_clone_of_a_repository_on_this_disk_stays_its_project_while_that_goes_on() {
    let stage = Stage::new();
    let origin = Repository::init(&stage.project());
    let stage = stage.daemon();
    stage.discount_session("victim");
    stage.flush();
    let clone = stage.user_home().join("clone");
    Repository(stage.user_home()).git(&[
        "clone",
        "-q",
        stage.project().to_str().unwrap(),
        clone.to_str().unwrap(),
    ]);
    joins(&stage, &clone, "fresh");
    origin.commit("two");
    joins(&stage, &clone, "behind");
    Repository(clone.clone()).commit("three");
    joins(&stage, &clone, "apart");
}

#[test]
fn a_folder_that_names_a_remote_is_told_nothing_of_it() {
    let (stage, _server) = stage();
    let beside = |name: &str| -> PathBuf { stage.user_home().join(name) };
    let config = format!("[remote \"origin\"]\n\turl = {REMOTE}\n");
    let unpacked = beside("unpacked/shop");
    std::fs::create_dir_all(unpacked.join(".git")).unwrap();
    std::fs::write(unpacked.join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
    std::fs::write(unpacked.join(".git/config"), &config).unwrap();
    stays_out(&stage, &unpacked, "unpacked");
    let name = format!("shop in {}", beside("unpacked").display());
    assert_eq!(stage.json(["ctl", "session", "unpacked"])["project"], name);
    // With what every repository has, and what the other one has, lent by itself.
    std::fs::write(unpacked.join(".git/HEAD"), "e69de29bb2d1d6434b8b29ae775ad8c2e48c5391\n").unwrap();
    std::fs::write(stage.project().join("empty"), "").unwrap();
    Repository(stage.project()).git(&["add", "empty"]);
    std::fs::create_dir_all(unpacked.join(".git/objects/info")).unwrap();
    let lender = stage.project().join(".git/objects");
    std::fs::write(unpacked.join(".git/objects/info/alternates"), lender.to_str().unwrap()).unwrap();
    stays_out(&stage, &unpacked, "lent");
    std::fs::remove_dir_all(unpacked.join(".git/objects")).unwrap();
    std::os::unix::fs::symlink(&lender, unpacked.join(".git/objects")).unwrap();
    stays_out(&stage, &unpacked, "linked");
    // With a history of its own.
    let other = Repository::init(&beside("other/shop"));
    other.git(&["remote", "add", "origin", REMOTE]);
    stays_out(&stage, &other.0, "other");
    std::fs::remove_dir_all(other.0.join(".git/logs")).unwrap();
    std::fs::write(other.0.join(".git/shallow"), other.git(&["rev-parse", "HEAD"])).unwrap();
    stays_out(&stage, &other.0, "shallow");
    // The repository on this disk.
    let local = Repository::init(&beside("local/shop"));
    local.git(&["remote", "add", "origin", stage.project().to_str().unwrap()]);
    stays_out(&stage, &local.0, "local");
    // By pointing at it.
    let pointer = beside("pointer/shop");
    std::fs::create_dir_all(&pointer).unwrap();
    std::fs::write(pointer.join(".git"), format!("gitdir: {}", stage.project().join(".git").display()))
        .unwrap();
    stays_out(&stage, &pointer, "pointer");
    // What it does is not told to the other either.
    assert_eq!(
        stage.json(["ctl", "sessions", "--project", stage.project().to_str().unwrap()])["sessions"]
            .as_array()
            .unwrap()
            .len(),
        1
    );
}

#[test]
fn the_doctor_explains_why_a_folder_stands_alone() {
    let (stage, _server) = stage();
    let doctor = |folder: &Path| {
        let mut command = stage.command("recall");
        command.arg("doctor").current_dir(folder);
        recall_tests::run(command, b"").stdout
    };
    let other = Repository::init(&stage.user_home().join("other/shop"));
    other.git(&["remote", "add", "origin", "https://dev:hunter2@github.com/acme/secret.git"]);
    let said = doctor(&other.0);
    let whole = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let name = format!("shop in {}", stage.user_home().join("other").display());
    for part in [
        &*other.0.to_string_lossy(),
        &name,
        "names github.com/acme/secret",
        "the project \"shop\"",
        "shows no commit of that",
        "`git fetch`",
        "`alias = \"NAME\"`",
    ] {
        assert!(whole.contains(part), "{part:?} in {said}");
    }
    assert!(!said.contains("hunter2"), "{said}");
    // A folder inside is the same, a clone is believed, and so is what says nothing.
    std::fs::create_dir(other.0.join("src")).unwrap();
    assert!(doctor(&other.0.join("src")).contains("shows no commit of that"));
    clone(&stage, &stage.user_home().join("clone"), &[]);
    for believed in [stage.user_home().join("clone"), stage.project(), stage.user_home()] {
        let said = doctor(&believed);
        assert!(!said.contains("shows no commit"), "{said}");
    }
    let local = Repository::init(&stage.user_home().join("local/shop"));
    local.git(&["remote", "add", "origin", stage.project().to_str().unwrap()]);
    assert!(doctor(&local.0).contains("shows no commit of that"));
}
