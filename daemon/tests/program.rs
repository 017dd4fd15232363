//! Tests that the program starts and prints its version. Because of this file, `cargo test` also builds the program,
//! which the end-to-end tests run.

use std::process::Command;

#[test]
fn the_program_prints_its_version_and_rejects_an_unknown_command() {
    let version = Command::new(env!("CARGO_BIN_EXE_recall")).arg("--version").output().unwrap();
    // The workspace's tests build the program with faults. Its version then says so.
    assert_eq!(
        String::from_utf8_lossy(&version.stdout),
        format!("recall {}\n", recall_system::faults::VERSION)
    );
    assert!(recall_system::faults::VERSION.starts_with(env!("CARGO_PKG_VERSION")));
    let nonsense = Command::new(env!("CARGO_BIN_EXE_recall")).arg("nonsense").output().unwrap();
    assert_eq!(nonsense.status.code(), Some(2));
    assert!(nonsense.stdout.is_empty());
}
