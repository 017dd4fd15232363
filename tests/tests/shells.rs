//! Tests completion in real shells, and that formatters read the manual pages without a warning. A test skips a shell
//! or formatter that is missing, and says so.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use recall_tests::{Stage, binaries, run, workspace};

const PATIENCE: Duration = Duration::from_secs(30);

/// A script that prints the candidates for a line as bash has them, one per line.
const BASH: &str = r#"
source <(recall completions bash)
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
_clap_complete_recall recall "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// zsh's completion system works only while a line is edited, so the script replaces two of its functions.
const ZSH: &str = r#"
compdef() { :; }
_describe() { print -l -- "${(@P)argv[-1]}"; }
source <(recall completions zsh)
words=("$@"); CURRENT=$#
_clap_dynamic_completer_recall
"#;

const FISH: &str = r#"
recall completions fish | source
complete --do-complete "$argv"
"#;

fn is_here(program: &str) -> bool {
    let is_here = Command::new(program).arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_here {
        println!("skipped: {program} is not installed");
    }
    is_here
}

/// Returns the lines that a shell prints for the words of a command line. The last word is being typed.
fn completed(stage: &Stage, shell: &str, words: &[&str]) -> Vec<String> {
    // The command is allowed to start a daemon.
    let recall = stage.command("recall");
    let mut command = Command::new(shell);
    command.env_clear().current_dir(stage.project());
    command.envs(recall.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.env_remove("RECALL_NO_DAEMON_START");
    let usual = std::env::var_os("PATH").unwrap();
    let path = [binaries().to_owned()].into_iter().chain(std::env::split_paths(&usual));
    command.env("PATH", std::env::join_paths(path).unwrap());
    match shell {
        "bash" => command.args(["--norc", "-c", BASH, "bash"]).args(words),
        "zsh" => command.args(["-f", "-c", ZSH, "zsh"]).args(words),
        _ => command.args(["--no-config", "-c", FISH]).arg(words.join(" ")),
    };
    let output = run(command, b"");
    assert_eq!(output.stderr, "", "{shell} {words:?}: {output:?}");
    output.stdout.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn shells_complete_commands_and_values_from_the_memory() {
    let stage = Stage::new().daemon();
    stage.discount_session("52ab9f04-one");
    stage.flush();
    let note = "Prices are in cents: $(touch planted)";
    assert_eq!(stage.recall(["remember", note]).code(), 0);
    // The name of this folder contains a shell command.
    let hostile = stage.user_home().join("$(touch planted)");
    std::fs::create_dir(&hostile).unwrap();
    let mut remember = stage.command("recall");
    remember.args(["remember", "Elsewhere."]).current_dir(&hostile);
    assert_eq!(run(remember, b"").code(), 0);
    stage.flush();
    // This project has only notes.
    let notes = stage.user_home().join("notes");
    std::fs::create_dir(&notes).unwrap();
    let mut remember = stage.command("recall");
    remember.args(["remember", "Something else."]).current_dir(&notes);
    assert_eq!(run(remember, b"").code(), 0);
    for shell in ["bash", "zsh", "fish"] {
        if !is_here(shell) {
            continue;
        }
        let offered = |words: &[&str]| completed(&stage, shell, words);
        // bash shows no descriptions. zsh puts one after a colon, fish after a tab.
        let bare = |words: &[&str]| -> Vec<String> {
            let ends = |character: char| character == '\t' || (shell == "zsh" && character == ':');
            offered(words).iter().map(|line| line.split(ends).next().unwrap_or_default().to_owned()).collect()
        };
        // Completion does not wait long. On a busy machine it may lack what only the daemon knows.
        let has = |words: &[&str], value: &str| {
            let deadline = Instant::now() + PATIENCE;
            loop {
                let found = bare(words);
                if found.iter().any(|one| one == value) {
                    return;
                }
                assert!(Instant::now() < deadline, "{shell} {words:?}: {found:?}");
            }
        };
        has(&["recall", "sho"], "show");
        has(&["recall", "show", ""], "1");
        has(&["recall", "show", "p"], "p1");
        has(&["recall", "show", "--"], "--json");
        has(&["recall", "timeline", "52"], "52ab9f04-one");
        has(&["recall", "ctl", "session", ""], "52ab9f04-one");
        has(&["recall", "search", "cents", "--project", ""], "shop");
        has(&["recall", "forget", "--project", "no"], "notes");
        has(&["recall", "remember", "--type", "tr"], "trade_off");
        has(&["recall", "config", "set", "context.st"], "context.start_tokens");
        has(&["recall", "forget", "--session", "5"], "52ab9f04-one");
        has(&["recall", "search", "ty"], if shell == "zsh" { "type" } else { "type:" });
        match shell {
            // bash breaks words at colons and passes only the last piece.
            "bash" => {
                has(&["recall", "search", "type:bug"], "bugfix");
                has(&["recall", "search", "cents", "project:"], "shop");
            }
            _ => assert!(offered(&["recall", "search", "type:bug"]).join("\n").contains("bugfix")),
        }
        assert!(bare(&["recall", "show", "x"]).is_empty());
        let projects = bare(&["recall", "search", "--project", ""]);
        assert!(projects.iter().all(|name| !name.contains('$')), "{projects:?}");
        if shell != "bash" {
            let offers_title = |words: &[&str]| offered(words).join("\n").contains("Prices are in cents");
            let deadline = Instant::now() + PATIENCE;
            while !offers_title(&["recall", "show", ""]) {
                assert!(Instant::now() < deadline, "{shell}: no title");
            }
        }
    }
    assert!(!stage.project().join("planted").exists());
}

#[test]
fn completion_without_a_daemon_offers_no_ids_and_starts_no_daemon() {
    let stage = Stage::new();
    for shell in ["bash", "zsh", "fish"].into_iter().filter(|shell| is_here(shell)) {
        assert!(
            completed(&stage, shell, &["recall", "show", ""]).iter().all(|line| line.starts_with('-')),
            "{shell}"
        );
        assert!(!completed(&stage, shell, &["recall", "pa"]).is_empty(), "{shell}");
    }
    assert!(!stage.home().exists());
}

#[test]
fn completion_does_not_wait_for_a_daemon_that_does_not_answer() {
    let stage = Stage::new().variable("RECALL_ANSWER_MS", "100").daemon();
    let daemon = rustix::process::Pid::from_raw(i32::try_from(stage.daemon_pid()).unwrap()).unwrap();
    rustix::process::kill_process(daemon, rustix::process::Signal::STOP).unwrap();
    let since = Instant::now();
    let offered = completed(&stage, "bash", &["recall", "show", ""]);
    rustix::process::kill_process(daemon, rustix::process::Signal::CONT).unwrap();
    assert!(offered.iter().all(|line| line.starts_with('-')), "{offered:?}");
    // Other commands wait for half a minute.
    assert!(since.elapsed() < Duration::from_secs(20));
}

/// Writes the manual pages as the installer and the packages do. Returns their paths.
fn manual(stage: &Stage) -> Vec<PathBuf> {
    let share = stage.user_home().join("share");
    let mut write = Command::new(workspace().join("tools/documents"));
    write.env("HOME", stage.user_home()).env("RECALL_HOME", stage.home());
    write.arg(binaries().join("recall")).arg(&share);
    let output = run(write, b"");
    assert_eq!((output.code(), output.stdout.as_str(), output.stderr.as_str()), (0, "", ""), "{output:?}");
    assert!(!stage.home().exists());
    for script in [
        "bash-completion/completions/recall",
        "zsh/site-functions/_recall",
        "fish/vendor_completions.d/recall.fish",
    ] {
        assert!(std::fs::read_to_string(share.join(script)).unwrap().contains("RECALL_COMPLETE"), "{script}");
    }
    std::fs::read_dir(share.join("man/man1")).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn manual_pages_are_read_without_a_warning() {
    let stage = Stage::new();
    let pages = manual(&stage);
    for name in ["recall.1", "recall-search.1", "recall-ctl-status.1", "recall-config-set.1"] {
        assert!(pages.iter().any(|page| page.ends_with(name)), "{name}");
    }
    // `recall man` has no page, because it is not meant to be typed.
    assert!(!pages.iter().any(|page| page.ends_with("recall-man.1")));
    for (program, options) in
        [("groff", &["-man", "-ww", "-z", "-Tutf8"][..]), ("mandoc", &["-Tlint", "-Wwarning"])]
    {
        // mandoc has no `--version`.
        let is_here = Command::new(program).arg("-h").output().is_ok();
        if !is_here {
            println!("skipped: {program} is not installed");
            continue;
        }
        for page in &pages {
            let read = Command::new(program).args(options).arg(page).output().unwrap();
            let output = [read.stdout, read.stderr].concat();
            assert!(output.is_empty(), "{}: {}", page.display(), String::from_utf8_lossy(&output));
        }
    }
    if is_here("man") && is_here("groff") {
        let mut man = Command::new("man");
        man.env("MANPAGER", "cat").env("MANWIDTH", "100").arg("-l");
        let page = pages.iter().find(|page| page.ends_with("recall-search.1")).unwrap();
        let text = run_man(man, page);
        assert!(text.contains("recall-search - Search observations"), "{text}");
        assert!(text.contains("recall search rounding cents"), "{text}");
    }
}

fn run_man(mut man: Command, page: &Path) -> String {
    let read = man.arg(page).env("LC_ALL", "C.UTF-8").env("GROFF_NO_SGR", "1").output().unwrap();
    assert!(read.stderr.is_empty(), "{}", String::from_utf8_lossy(&read.stderr));
    // Each bold letter is printed twice.
    let text = String::from_utf8_lossy(&read.stdout).into_owned();
    let mut plain = String::new();
    for character in text.chars() {
        match character {
            '\u{8}' => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    plain
}
