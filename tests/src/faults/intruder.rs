//! Another user: the test's own program, started again under another uid.
//!
//! A test that needs one first calls [`role`]. If it has a role, it is the other user: it plays its part and returns.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Stage;

/// `nobody` on most systems; any uid except ours will do.
pub const UID: u32 = 65_534;

const ROLE: &str = "RECALL_TEST_ROLE";

/// The role of this process, unless it is the test itself.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Whether this process may become another user.
pub fn can_change_user() -> bool {
    rustix::process::geteuid().is_root()
}

/// This test's program as another user, with the role `role` in the test of this name. It is in the stage's folder,
/// which everybody may enter from now on.
pub fn command(stage: &Stage, test: &str, role: &str, uid: u32) -> Command {
    open_to_all(&stage.user_home());
    let program = stage.user_home().join("intruder");
    if !program.exists() {
        // Another process does the copying. If this one had the file open for writing while another test forks, the
        // system would refuse to run it.
        let copied = Command::new("cp").arg(std::env::current_exe().unwrap()).arg(&program).status();
        assert!(copied.unwrap().success());
    }
    let mut command = Command::new(program);
    command
        .args(["--exact", test, "--nocapture"])
        .env_clear()
        .env(ROLE, role)
        .env("SOCKET", stage.socket())
        .current_dir("/")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .uid(uid)
        .gid(uid);
    command
}

/// The socket that the role is about.
pub fn socket() -> PathBuf {
    PathBuf::from(std::env::var_os("SOCKET").unwrap())
}

/// Lets every user in.
pub fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}
