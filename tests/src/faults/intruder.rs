//! Another user: the test's own program, started again under another uid.
//!
//! A test that needs another user first calls [`role`]. If the process has a role, it is the other user. It then
//! plays its part and returns.

use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Stage;

/// `nobody` on most systems. Any uid except ours works.
pub const UID: u32 = 65_534;

const ROLE: &str = "RECALL_TEST_ROLE";

/// Returns the role of this process, or `None` in the test itself.
pub fn role() -> Option<String> {
    std::env::var(ROLE).ok()
}

/// Returns whether this process may become another user.
pub fn can_change_user() -> bool {
    rustix::process::geteuid().is_root()
}

/// Returns this test's program as another user, with the role `role` in the test of this name. The program is in the
/// stage's folder, which every user may enter from now on.
pub fn command(stage: &Stage, test: &str, role: &str, uid: u32) -> Command {
    open_to_all(&stage.user_home());
    let program = stage.user_home().join("intruder");
    if !program.exists() {
        // Another process copies the file. If this process had the file open for writing while another test forks,
        // the system would refuse to run it.
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

/// Returns the socket that the role uses.
pub fn socket() -> PathBuf {
    PathBuf::from(std::env::var_os("SOCKET").unwrap())
}

/// Lets every user read, write and enter the path.
pub fn open_to_all(path: &Path) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o777)).unwrap();
}
