//! Tests the installer that downloads: it accepts what has the published checksum, and nothing else.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use recall_tests::{CommandOutput, Stage, run, workspace};

const VERSION: &str = "1.2.3";

fn target() -> String {
    let system = if cfg!(target_os = "macos") { "apple-darwin" } else { "unknown-linux-musl" };
    format!("{}-{system}", std::env::consts::ARCH)
}

fn shell(script: &str, folder: &Path) -> CommandOutput {
    let mut command = Command::new("sh");
    command.args(["-euc", script]).current_dir(folder);
    let output = run(command, b"");
    assert_eq!(output.code(), 0, "{output:?}");
    output
}

/// Creates a folder of downloads with an archive of two programs that print their names.
fn downloads(stage: &Stage) -> PathBuf {
    let folder = stage.user_home().join("downloads");
    let name = format!("recall-{VERSION}-{}", target());
    fs::create_dir_all(folder.join(&name)).unwrap();
    for program in ["recall", "recall-shim"] {
        fs::write(folder.join(&name).join(program), format!("#!/bin/sh\necho {program} \"$@\"\n")).unwrap();
    }
    fs::create_dir_all(folder.join(&name).join("share/man/man1")).unwrap();
    fs::write(folder.join(&name).join("share/man/man1/recall.1"), ".TH RECALL 1\n").unwrap();
    let sum = "(sha256sum \"$1\" 2>/dev/null || shasum -a 256 \"$1\")";
    shell(
        &format!("set -- {name}.tar.gz; tar -czf \"$1\" {name}; {sum} > \"$1.sha256\"; rm -r {name}"),
        &folder,
    );
    folder
}

fn get(stage: &Stage, downloads: &Path, arguments: &[&str]) -> CommandOutput {
    let mut command = Command::new("sh");
    command.arg(workspace().join("tools/get.sh")).args(arguments);
    command.env("HOME", stage.user_home()).env("RECALL_VERSION", VERSION);
    command.env("RECALL_DOWNLOADS", format!("file://{}", downloads.display()));
    run(command, b"")
}

#[test]
fn an_archive_with_the_published_checksum_is_installed_and_connected() {
    let stage = Stage::new();
    let downloads = downloads(&stage);
    let output = get(&stage, &downloads, &[]);
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(output.stdout.contains("recall install --yes"), "{output:?}");
    let bin = stage.user_home().join(".local/bin");
    let mut names: Vec<_> = fs::read_dir(&bin).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["recall", "recall-shim"], "nothing else is left there");
    assert_eq!(run(Command::new(bin.join("recall-shim")), b"").stdout, "recall-shim\n");

    assert!(stage.user_home().join(".local/share/man/man1/recall.1").exists());

    let prefix = stage.user_home().join("elsewhere");
    let output = get(&stage, &downloads, &["--prefix", prefix.to_str().unwrap(), "--no-connect"]);
    assert_eq!(output.code(), 0, "{output:?}");
    assert!(!output.stdout.contains("install --yes"), "{output:?}");
    assert!(prefix.join("bin/recall").exists());
}

#[test]
fn an_archive_with_another_checksum_is_rejected() {
    let stage = Stage::new();
    let downloads = downloads(&stage);
    let archive = downloads.join(format!("recall-{VERSION}-{}.tar.gz", target()));
    let mut bytes = fs::read(&archive).unwrap();
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(&archive, bytes).unwrap();
    let output = get(&stage, &downloads, &[]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains("checksum"), "{output:?}");
    assert!(!stage.user_home().join(".local/bin").exists());
}

#[test]
fn a_checksum_given_by_the_user_replaces_the_published_one() {
    let stage = Stage::new();
    let downloads = downloads(&stage);
    let pinned = |sum: &str| {
        let mut command = Command::new("sh");
        command.arg(workspace().join("tools/get.sh")).arg("--no-connect");
        command.env("HOME", stage.user_home()).env("RECALL_VERSION", VERSION).env("RECALL_SHA256", sum);
        command.env("RECALL_DOWNLOADS", format!("file://{}", downloads.display()));
        run(command, b"")
    };
    let output = pinned(&"0".repeat(64));
    assert!(output.code() == 1 && output.stderr.contains("checksum"), "{output:?}");
    assert!(!stage.user_home().join(".local").exists());
    let name = format!("recall-{VERSION}-{}.tar.gz.sha256", target());
    let published = fs::read_to_string(downloads.join(name)).unwrap();
    assert_eq!(pinned(published.split(' ').next().unwrap()).code(), 0);
}

#[test]
fn a_truncated_installer_installs_nothing() {
    let stage = Stage::new();
    let downloads = downloads(&stage);
    let whole = fs::read_to_string(workspace().join("tools/get.sh")).unwrap();
    let before_last = whole.trim_end().rfind('\n').unwrap();
    let ends: Vec<usize> =
        whole.match_indices('\n').map(|(at, _)| at + 1).filter(|end| *end <= before_last + 1).collect();
    for end in ends {
        let mut command = Command::new("sh");
        command.env("HOME", stage.user_home()).env("RECALL_VERSION", VERSION);
        command.env("RECALL_DOWNLOADS", format!("file://{}", downloads.display()));
        let output = run(command, &whole.as_bytes()[..end]);
        assert!(!stage.user_home().join(".local").exists(), "{end}: {output:?}");
        assert!(!output.stdout.contains("Installed"), "{end}: {output:?}");
    }
}

#[test]
fn the_installer_reports_a_missing_checksum_or_download_address() {
    let stage = Stage::new();
    let downloads = downloads(&stage);
    fs::remove_file(downloads.join(format!("recall-{VERSION}-{}.tar.gz.sha256", target()))).unwrap();
    let output = get(&stage, &downloads, &[]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains("cannot download"), "{output:?}");

    let mut unfilled = Command::new("sh");
    unfilled.arg(workspace().join("tools/get.sh")).env("HOME", stage.user_home());
    unfilled.env_remove("RECALL_DOWNLOADS");
    let output = run(unfilled, b"");
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains("install.sh"), "{output:?}");
}
