//! Tests recall on a separate machine where systemd is PID 1: a user logs in, installs it, works and removes it.

use std::path::{Path, PathBuf};
use std::process::Command;

use recall_tests::{Stage, binaries, run};
use serde_json::json;

/// The packages of a machine where each user has a systemd manager.
const PACKAGES: &str = "systemd,systemd-sysv,dbus,dbus-user-session,libpam-systemd";

/// Runs as root when everything has been started.
const CHECK: &str = "#!/bin/sh
set -eu
systemctl start user@1000.service
loginctl enable-linger dev
runuser -u dev -- sh /check/user
";

/// Runs as the user. What it finds goes to stdout, line by line.
const USER: &str = "
export HOME=/home/dev XDG_RUNTIME_DIR=/run/user/1000 DBUS_SESSION_BUS_ADDRESS=unix:path=/run/user/1000/bus
export PATH=/opt/recall:/usr/bin:/bin RECALL_ANSWER_MS=10000
unit() { systemctl --user show -p \"$1\" --value \"$2\"; }
set -eu
cd; mkdir .claude shop
mkdir .config
kept() { find . /run/user/1000 -path ./.local -prune -o -path '*/inaccessible/*' -prune -o -print | sort; }
kept > /tmp/before
recall install --agent claude-code --yes >&2
echo \"socket $(unit ActiveState recall.socket), $(unit UnitFileState recall.socket)\"
echo \"service before a hook $(unit ActiveState recall.service)\"
for event in /check/events/*; do recall-shim claude-code < \"$event\"; done
echo \"service after hooks $(unit ActiveState recall.service)\"
recall ctl flush >&2
before=$(unit MainPID recall.service)
systemctl --user kill -s SIGKILL recall.service
# Whoever asks waits in the socket until the service is back.
recall ctl flush >&2
echo \"restarts $(unit NRestarts recall.service)\"
[ \"$(unit MainPID recall.service)\" != \"$before\" ] && echo 'another process'
recall status >&2 && echo 'status fine'
recall search 'cart rounds' --all --json
recall doctor >&2 && echo 'doctor fine'
recall uninstall --yes >&2
echo \"socket $(unit LoadState recall.socket), service $(unit LoadState recall.service)\"
kept > /tmp/after
comm -3 /tmp/before /tmp/after | sed 's/^/left: /'
";

const UNIT: &str = "[Unit]
After=multi-user.target dbus.service systemd-logind.service
[Service]
Type=oneshot
ExecStart=/bin/sh /check/root
ExecStopPost=/bin/systemctl --no-block poweroff
StandardOutput=file:/check/out
StandardError=file:/check/err
";

/// Returns the root of a Debian with a few packages. `RECALL_BOOTED_ROOT` names a folder that keeps it for the next
/// time.
fn root(scratch: &Path) -> Option<PathBuf> {
    let kept = std::env::var_os("RECALL_BOOTED_ROOT").map(PathBuf::from);
    let root = kept.unwrap_or_else(|| scratch.join("root"));
    if !root.join("home/dev").exists() {
        let mut make = Command::new("mmdebstrap");
        make.args(["--variant=apt", "--customize-hook=chroot \"$1\" useradd -m -s /bin/sh dev"]);
        make.arg(format!("--include={PACKAGES}")).arg("bookworm").arg(&root);
        make.status().ok()?.success().then_some(())?;
    }
    Some(root)
}

#[test]
#[ignore = "makes and boots a machine: mmdebstrap, systemd-nspawn, root"]
fn recall_installs_works_and_uninstalls_on_a_booted_machine() {
    let has =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|out| out.status.success());
    if !rustix::process::geteuid().is_root() || !has("mmdebstrap") || !has("systemd-nspawn") {
        println!("skipped: needs the superuser, mmdebstrap and systemd-nspawn");
        return;
    }
    let stage = Stage::new();
    let Some(root) = root(&stage.user_home()) else {
        println!("skipped: no Debian can be had here");
        return;
    };
    let check = stage.user_home().join("check");
    std::fs::create_dir_all(check.join("events")).unwrap();
    for (name, text) in [("root", CHECK), ("user", USER), ("check.service", UNIT)] {
        std::fs::write(check.join(name), text).unwrap();
    }
    let mut call = stage.discount_calls()[1].clone();
    call["tool_use_id"] = json!("t1");
    let events = [
        ("SessionStart", json!({"source": "startup"})),
        ("UserPromptSubmit", json!({"prompt": recall_tests::DISCOUNT_PROMPT, "prompt_id": "p"})),
        ("PostToolUse", call),
        ("Stop", json!({"last_assistant_message": recall_tests::DISCOUNT_ANSWER, "prompt_id": "p"})),
        ("SessionEnd", json!({"reason": "other"})),
    ];
    for (number, (name, fields)) in events.into_iter().enumerate() {
        let mut event = stage.event("one", name, fields);
        event["cwd"] = json!("/home/dev/shop");
        std::fs::write(check.join(format!("events/{number}")), event.to_string()).unwrap();
    }
    // Changes to the system are dropped. Nothing of this machine is visible except the programs.
    let mut boot = Command::new("systemd-nspawn");
    boot.args([
        "--quiet",
        "--boot",
        "--volatile=overlay",
        "--register=no",
        "--keep-unit",
        "--private-network",
    ]);
    boot.arg("--directory").arg(&root);
    boot.arg(format!("--bind={}:/check", check.display()));
    boot.arg(format!("--bind-ro={}:/opt/recall", binaries().display()));
    boot.arg(format!(
        "--bind-ro={}:/etc/systemd/system/check.service",
        check.join("check.service").display()
    ));
    boot.arg("systemd.wants=check.service");
    let booted = run(boot, b"");
    let read = |name: &str| std::fs::read_to_string(check.join(name)).unwrap_or_default();
    let (out, err) = (read("out"), read("err"));
    println!("{}\n{err}\n{out}", booted.stdout);
    for line in [
        "socket active, enabled",
        "service before a hook inactive",
        "service after hooks active",
        "restarts 1",
        "another process",
        "status fine",
        "doctor fine",
        "socket not-found, service not-found",
    ] {
        assert!(out.lines().any(|known| known == line), "{line}");
    }
    assert!(out.contains("Rounding happens once"), "it is found after the restart");
    assert!(!out.contains("left: "), "everything but the memory is gone");
}
