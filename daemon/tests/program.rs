//! The program itself starts and knows itself. That this file is here also makes `cargo test` build the program, which
//! the end-to-end tests run.

use std::process::Command;

#[test]
fn the_program_says_its_version_and_refuses_nonsense() {
    let version = Command::new(env!("CARGO_BIN_EXE_recall")).arg("--version").output().unwrap();
    // The tests of the workspace are built with faults, and then it says so.
    assert_eq!(
        String::from_utf8_lossy(&version.stdout),
        format!("recall {}\n", recall_system::faults::VERSION)
    );
    assert!(recall_system::faults::VERSION.starts_with(env!("CARGO_PKG_VERSION")));
    let nonsense = Command::new(env!("CARGO_BIN_EXE_recall")).arg("nonsense").output().unwrap();
    assert_eq!(nonsense.status.code(), Some(2));
    assert!(nonsense.stdout.is_empty());
}
