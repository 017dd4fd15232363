//! Tests that released programs have no fail points and no planted faults. No selection of packages builds them in,
//! and an installed program ignores the variables that would arm them.

use std::path::Path;
use std::process::Command;

use recall_tests::{Stage, has_faults, run, workspace};

/// Returns whether a build of these packages has faults, as cargo resolves it.
fn builds_faults(arguments: &[&str]) -> bool {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--locked", "--offline", "--prefix", "none", "--format", "{p} [{f}]"]).args(arguments);
    let output = tree.current_dir(workspace()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("recall-protocol v"), "{text}");
    text.lines()
        .any(|line| line.starts_with("fail v") || line.contains("[faults") || line.contains(",faults"))
}

#[test]
fn no_build_of_a_program_contains_planted_faults() {
    for packages in
        [&["-p", "recall-memory"][..], &["-p", "recall-shim"], &["-p", "recall-tests"], &["--workspace"]]
    {
        assert!(!builds_faults(&[packages, &["--edges", "normal,build"]].concat()), "{packages:?}");
    }
}

#[test]
fn a_build_of_the_tests_contains_planted_faults() {
    assert!(builds_faults(&["-p", "recall-tests", "--edges", "normal,build,dev"]));
    for program in ["recall", "recall-shim"] {
        assert!(has_faults(&recall_tests::binaries().join(program)), "{program}");
    }
}

/// `cargo test -p recall-tests -- --ignored installed_programs_contain_no_planted_faults --nocapture`
#[test]
#[ignore = "builds both programs as they are shipped"]
fn installed_programs_contain_no_planted_faults() {
    let stage = Stage::new();
    let mut install = Command::new(workspace().join("install.sh"));
    install.args(["--prefix"]).arg(stage.user_home()).args(["--no-agents", "--no-service", "--no-demo"]);
    let output = run(install, b"");
    assert_eq!(output.code(), 0, "{output:?}");
    let installed = |program: &str| Path::new(&stage.user_home()).join("bin").join(program);
    for program in ["recall", "recall-shim"] {
        assert!(!has_faults(&installed(program)), "{program}");
    }
    let mut version = Command::new(installed("recall"));
    version.arg("--version");
    assert_eq!(run(version, b"").stdout, format!("recall {}\n", env!("CARGO_PKG_VERSION")));
}
