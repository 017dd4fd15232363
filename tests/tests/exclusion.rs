//! Tests that nothing of an excluded project is kept, whichever folder an event names and wherever a call comes from.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use recall_protocol::wire::Deliver;
use recall_tests::faults::disk::SmallDisk;
use recall_tests::repository::Repository;
use recall_tests::{Stage, run};
use serde_json::{Value, json};

const CANARY: &str = "the heron flies at noon";

/// Returns a stage and the folder of a project that the user excludes.
fn stage() -> (Stage, PathBuf) {
    let stage = Stage::new().config("[capture]\nexclude = ['~/clients/acme']\n");
    let excluded = stage.user_home().join("clients/acme");
    std::fs::create_dir_all(excluded.join("src")).unwrap();
    std::fs::write(excluded.join("plan.txt"), CANARY).unwrap();
    (stage.daemon(), excluded)
}

fn beside(stage: &Stage, name: &str) -> PathBuf {
    let folder = stage.user_home().join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// Returns an event of a hook that runs in `cwd`. `project` and `own` are the folders that the agent names.
fn event(stage: &Stage, cwd: &Path, project: Option<&str>, own: Option<&str>, session: &str) -> Deliver {
    let mut event = stage.event(session, "UserPromptSubmit", json!({"prompt": CANARY}));
    event["cwd"] = json!(own);
    let mut delivery = stage.delivery(&event);
    delivery.context.cwd = cwd.to_string_lossy().into_owned();
    delivery.context.project_dir = project.map(str::to_owned);
    delivery
}

fn in_folder(stage: &Stage, folder: &Path) -> Deliver {
    event(stage, folder, None, folder.to_str(), "one")
}

#[track_caller]
fn counts(stage: &Stage, stored: u64, excluded: u64) {
    stage.flush();
    let events = stage.json(["ctl", "status"])["events"].clone();
    assert_eq!((&events["stored"], &events["excluded"]), (&json!(stored), &json!(excluded)), "{events}");
}

#[test]
fn an_event_that_names_an_excluded_folder_is_excluded() {
    let (stage, excluded) = stage();
    let other = beside(&stage, "other");
    let link = stage.user_home().join("link");
    symlink(&excluded, &link).unwrap();
    let (inside, absolute) = (excluded.join("src"), excluded.to_str());
    let cut_off = |cwd: &Path| {
        let mut delivery = event(&stage, &other, None, cwd.to_str(), "cut");
        let end = delivery.payload.len() - 1;
        delivery.payload.truncate(end);
        delivery
    };
    let too_long = format!("{}{}", excluded.display(), "/.".repeat(2_100));
    let of_excluded = [
        event(&stage, &other, None, absolute, "a"),
        event(&stage, &other, absolute, other.to_str(), "b"),
        event(&stage, &excluded, Some("."), other.to_str(), "c"),
        event(&stage, &excluded, Some("."), None, "d"),
        event(&stage, &other, Some("../clients/acme"), None, "e"),
        event(&stage, &other, None, Some("../clients/acme/src"), "f"),
        event(&stage, &inside, None, None, "g"),
        event(&stage, &excluded.join("gone/deeper"), None, None, "h"),
        event(&stage, &link, None, None, "i"),
        event(&stage, &link.join("src/gone"), None, None, "j"),
        event(&stage, &other, None, link.to_str(), "k"),
        event(&stage, &other, link.to_str(), None, "l"),
        cut_off(&excluded),
        event(&stage, &other, None, Some("~/clients/acme"), "m"),
        event(&stage, &other, Some("~/clients/acme/src"), None, "n"),
        event(&stage, &other, None, Some(&format!("file://{}", excluded.display())), "o"),
        event(&stage, &other, None, Some(&format!("file://localhost{}", excluded.display())), "p"),
        event(&stage, &other, None, Some(&too_long), "q"),
        event(&stage, Path::new(&too_long), None, other.to_str(), "r"),
        event(&stage, &other, Some(&too_long), other.to_str(), "s"),
    ];
    stage.deliver(&of_excluded);
    counts(&stage, 0, of_excluded.len() as u64);
    // One of the two is not a whole event, and is kept as it came.
    stage.deliver(&[in_folder(&stage, &other), cut_off(&other)]);
    counts(&stage, 2, of_excluded.len() as u64);
    // The same through the hook client.
    let mut shim = stage.command("recall-shim");
    shim.arg("claude-code").current_dir(&excluded).env("CLAUDE_PROJECT_DIR", ".");
    let fields = json!({"prompt": CANARY, "prompt_id": "p", "cwd": "."});
    run(shim, stage.event("hook", "UserPromptSubmit", fields).to_string().as_bytes());
    counts(&stage, 2, of_excluded.len() as u64 + 1);
}

#[test]
fn an_exclusion_pattern_through_a_symlink_excludes_its_target() {
    let stage = Stage::new();
    let real = beside(&stage, "disk/clients/acme");
    symlink(stage.user_home().join("disk/clients"), stage.user_home().join("clients")).unwrap();
    let stage = stage.config("[capture]\nexclude = ['~/clients/*']\n").daemon();
    stage.deliver(&[in_folder(&stage, &real)]);
    counts(&stage, 0, 1);
}

#[test]
fn work_trees_and_clones_of_an_excluded_folder_are_excluded() {
    let (stage, excluded) = stage();
    let main = Repository::init(&excluded);
    let home = stage.user_home();
    let (tree, copy, copies_copy) = (home.join("tree"), home.join("copy"), home.join("copies-copy"));
    main.git(&["worktree", "add", "-q", tree.to_str().unwrap(), "-b", "x"]);
    main.git(&["clone", "-q", ".", copy.to_str().unwrap()]);
    Repository(copy.clone()).git(&["clone", "-q", ".", copies_copy.to_str().unwrap()]);
    let orphan = home.join("orphan");
    main.git(&["clone", "-q", ".", orphan.to_str().unwrap()]);
    Repository(orphan.clone()).git(&["remote", "set-url", "origin", "../clients/acme/gone"]);
    let folders = [&excluded, &tree, &copy, &copies_copy, &orphan];
    for folder in folders {
        std::fs::create_dir_all(folder.join("deep")).unwrap();
        stage.deliver(&[in_folder(&stage, folder), in_folder(&stage, &folder.join("deep"))]);
    }
    counts(&stage, 0, 2 * folders.len() as u64);
    let other = Repository::init(&beside(&stage, "other"));
    stage.deliver(&[in_folder(&stage, &other.0)]);
    counts(&stage, 1, 2 * folders.len() as u64);
}

#[test]
fn clones_are_excluded_however_they_name_the_excluded_repository() {
    let (stage, excluded) = stage();
    let main = Repository::init(&excluded);
    let home = stage.user_home();
    let url = excluded.display().to_string();
    let spellings: [&[&[&str]]; 7] = [
        &[
            &["remote", "set-url", "origin", "https://example.com/x.git"],
            &["remote", "add", "upstream", &url],
        ],
        &[
            &["remote", "set-url", "origin", "https://example.com/x.git"],
            &["remote", "set-url", "--push", "origin", &url],
        ],
        &[
            &["remote", "set-url", "origin", "client:acme"],
            &["config", &format!("url.{}/.insteadOf", home.join("clients").display()), "client:"],
        ],
        &[&["remote", "set-url", "origin", &format!("file://localhost{url}")]],
        &[&["remote", "set-url", "origin", "link"]],
        &[&["remote", "remove", "origin"], &["config", "include.path", "more"]],
        &[&["remote", "remove", "origin"], &["config", "include.path", "../../more"]],
    ];
    std::fs::write(home.join("more"), format!("[remote \"a\"]\nurl = {url}\n")).unwrap();
    for (number, commands) in spellings.iter().enumerate() {
        let folder = home.join(format!("copy-{number}"));
        main.git(&["clone", "-q", ".", folder.to_str().unwrap()]);
        let copy = Repository(folder);
        symlink(&excluded, copy.0.join("link")).unwrap();
        std::fs::copy(home.join("more"), copy.0.join(".git/more")).unwrap();
        commands.iter().for_each(|command| drop(copy.git(command)));
        stage.deliver(&[in_folder(&stage, &copy.0)]);
        counts(&stage, 0, number as u64 + 1);
    }
    // A git folder elsewhere is checked too, although it does not say to which folder it belongs.
    let pointer = beside(&stage, "pointer");
    std::fs::write(pointer.join(".git"), format!("gitdir: {url}/.git")).unwrap();
    stage.deliver(&[in_folder(&stage, &pointer)]);
    counts(&stage, 0, spellings.len() as u64 + 1);
}

#[test]
fn a_project_file_applies_to_its_subfolders_work_trees_and_clones() {
    let stage = Stage::new().daemon();
    let home = stage.user_home();
    let disabled = |folder: &Path| {
        std::fs::create_dir_all(folder).unwrap();
        std::fs::write(folder.join(".recall.toml"), "disable = true").unwrap();
    };
    // Without git, the file applies to everything below its folder.
    disabled(&home.join("notes"));
    std::fs::create_dir_all(home.join("notes/2026/may")).unwrap();
    // With git, the file applies to the whole repository, its work trees and its clones, even if it is not committed.
    let main = Repository::init(&home.join("main"));
    let (tree, copy) = (home.join("tree"), home.join("copy"));
    main.git(&["worktree", "add", "-q", tree.to_str().unwrap(), "-b", "x"]);
    main.git(&["clone", "-q", ".", copy.to_str().unwrap()]);
    disabled(&main.0);
    // The file can also apply to a part of a repository.
    let part = Repository::init(&home.join("part"));
    disabled(&part.0.join("packages/app"));
    let silent =
        [home.join("notes/2026/may"), main.0.join("src"), tree, copy, part.0.join("packages/app/src")];
    for folder in &silent {
        std::fs::create_dir_all(folder).unwrap();
        stage.deliver(&[in_folder(&stage, folder)]);
    }
    counts(&stage, 0, silent.len() as u64);
    // A repository inside the folder is not affected.
    let own = Repository::init(&home.join("notes/own"));
    stage.deliver(&[in_folder(&stage, &own.0), in_folder(&stage, &part.0)]);
    counts(&stage, 2, silent.len() as u64);
}

#[test]
fn a_call_into_an_excluded_folder_is_stored_without_content() {
    let (stage, excluded) = stage();
    let home = stage.user_home();
    let other = beside(&stage, "other");
    std::fs::write(beside(&stage, "silent").join(".recall.toml"), "disable = true").unwrap();
    symlink(excluded.join("plan.txt"), other.join("link.txt")).unwrap();
    let (plan, silent) = (excluded.join("plan.txt"), home.join("silent/plan.txt"));
    let (plan, silent) = (plan.display(), silent.display());
    let read = |path: &str| ("Read", json!({"file_path": path}));
    let bash = |command: String| ("Bash", json!({"command": command, "description": CANARY}));
    let calls = [
        read(&plan.to_string()),
        read(&silent.to_string()),
        read("../clients/acme/plan.txt"),
        read(other.join("link.txt").to_str().unwrap()),
        ("Write", json!({"file_path": excluded.join("new/plan.txt"), "content": CANARY})),
        ("Edit", json!({"file_path": plan.to_string(), "old_string": "x", "new_string": CANARY})),
        ("Grep", json!({"pattern": CANARY, "path": excluded})),
        ("Glob", json!({"pattern": format!("{}/**/*.txt", excluded.display())})),
        ("mcp__files__read", json!({"uri": format!("file://{plan}")})),
        bash(format!("cat {plan}")),
        bash(format!("echo {CANARY} > {plan}")),
        bash(format!("cat > {plan} <<EOF\n{CANARY}\nEOF\n")),
        bash(format!("python3 -c \"open('{plan}').write('{CANARY}')\"")),
        bash("sed -i 's/noon/night/' ~/clients/acme/plan.txt".to_owned()),
        bash("cat $HOME/clients/acme/plan.txt".to_owned()),
        bash("cd ../clients/acme && cat plan.txt".to_owned()),
        bash("cat link.txt".to_owned()),
        bash("cd ../clients && cat acme/plan.txt".to_owned()),
        bash("pushd ../clients; cat acme/plan.txt".to_owned()),
        bash("D=../clients; cat $D/acme/plan.txt".to_owned()),
        bash("cat \"../clients\"/acme/plan.txt".to_owned()),
        bash("cat ../clien\\ts/'acme'/plan.txt".to_owned()),
    ];
    let mut deliveries = Vec::new();
    for (number, (tool, input)) in calls.iter().enumerate() {
        for (name, fields) in [
            ("PreToolUse", json!({})),
            ("PostToolUse", json!({"tool_response": {"content": CANARY, "stdout": CANARY}})),
        ] {
            let mut fields = fields;
            fields["tool_name"] = json!(tool);
            fields["tool_input"] = input.clone();
            fields["tool_use_id"] = json!(format!("t{number}"));
            let mut event = stage.event("one", name, fields);
            event["cwd"] = json!(other);
            let mut delivery = stage.delivery(&event);
            delivery.context.cwd = other.to_string_lossy().into_owned();
            deliveries.push(delivery);
        }
    }
    stage.deliver(&deliveries);
    stage.flush();
    let session = stage.json(["ctl", "session", "one"]);
    for word in ["heron", "night"] {
        assert!(!session.to_string().contains(word), "{session}");
    }
    let activities = session["batches"][0]["activities"].as_array().cloned().unwrap_or_default();
    let inputs: Vec<String> = activities.iter().map(|activity| activity["input"].to_string()).collect();
    assert_eq!(inputs.len(), calls.len(), "{session}");
    for input in &inputs {
        assert!(
            ["acme", "silent", "link.txt", "cat [redacted"].iter().any(|name| input.contains(name)),
            "{input}"
        );
    }
    assert!(inputs.iter().any(|input| input.contains("python3")), "{inputs:?}");
    assert!(!in_database(&stage, "heron"));

    // What a search over several projects found in the excluded one is not kept. Other results are kept.
    let found = format!("{plan}:1:{CANARY}\nsrc/a.rs:1:fn main\n");
    let grep = |response: Value, id: &str| {
        let fields = json!({"tool_name": "Grep", "tool_use_id": id, "tool_response": response,
                            "tool_input": {"pattern": "the", "path": home}});
        let mut event = stage.event("two", "PostToolUse", fields);
        event["cwd"] = json!(other);
        let mut delivery = stage.delivery(&event);
        delivery.context.cwd = other.to_string_lossy().into_owned();
        delivery
    };
    stage.deliver(&[
        grep(json!({"mode": "content", "content": found}), "g1"),
        grep(json!({"mode": "content", "content": "src/a.rs:1:the egret"}), "g2"),
    ]);
    stage.flush();
    let session = stage.json(["ctl", "session", "two"]).to_string();
    assert!(!session.contains("heron") && session.contains("egret"), "{session}");
}

/// Returns whether a word is in the bytes of the database's files.
fn in_database(stage: &Stage, word: &str) -> bool {
    ["", "-wal"].iter().any(|suffix| {
        let path = format!("{}{suffix}", stage.database().display());
        let bytes = std::fs::read(path).unwrap_or_default();
        bytes.windows(word.len()).any(|window| window == word.as_bytes())
    })
}

#[test]
fn an_excluded_folder_is_recognized_under_another_spelling_or_path() {
    // A keyboard sends the letter and its accent as one character. The disk of another system stores them as two.
    let (composed, apart) = ("caf\u{e9}", "cafe\u{301}");
    let config = format!("[capture]\nexclude = ['~/clients/{composed}', '~/mounted/*']\n");
    let stage = Stage::new().config(&config).daemon();
    let excluded = beside(&stage, &format!("clients/{apart}/src"));
    stage.deliver(&[in_folder(&stage, &excluded)]);
    counts(&stage, 0, 1);
    // The same folder has a second path, as a folder has many names on a file system that ignores case.
    let (original, other) = (beside(&stage, "mounted/shop"), beside(&stage, "other"));
    let mount = |arguments: &[&str]| {
        let done =
            std::process::Command::new("mount").args(arguments).stderr(std::process::Stdio::null()).status();
        done.is_ok_and(|done| done.success())
    };
    let parent = original.parent().unwrap();
    if !mount(&["--bind", parent.to_str().unwrap(), other.to_str().unwrap()]) {
        println!("skipped: mounting needs root");
        return;
    }
    stage.deliver(&[in_folder(&stage, &other.join("shop"))]);
    let done = std::process::Command::new("umount").arg(&other).status().unwrap();
    assert!(done.success());
    counts(&stage, 0, 2);
}

/// On a real disk that ignores case, one folder has many names.
#[test]
fn exclusions_ignore_case_on_a_case_insensitive_disk() {
    let stage = Stage::new().config("[capture]\nexclude = ['~/disk/Client-A', '~/disk/Secret-*']\n");
    let at = stage.user_home().join("disk");
    let Some(disk) = SmallDisk::without_case(&at) else {
        println!("skipped: no disk without case can be mounted here (lowntfs-3g)");
        return;
    };
    let stage = stage.daemon();
    for folder in ["client-a/src", "secret-one", "shop/secrets", "client-b"] {
        std::fs::create_dir_all(at.join(folder)).unwrap();
    }
    let mut excluded = 0;
    for folder in ["client-a", "CLIENT-A/src", "Client-A/SRC", "secret-one", "SECRET-ONE", "Secret-One"] {
        stage.deliver(&[in_folder(&stage, &at.join(folder))]);
        excluded += 1;
        counts(&stage, 0, excluded);
    }
    // Calls of another project name files in the excluded folders, and a file that their own project excludes.
    std::fs::write(at.join("shop/.recall.toml"), "exclude = ['secrets/']").unwrap();
    let read = |path: &str, id: &str| {
        let fields = json!({"tool_name": "Read", "tool_use_id": id, "tool_input": {"file_path": at.join(path)},
            "tool_response": {"content": CANARY}});
        let mut event = stage.event("one", "PostToolUse", fields);
        event["cwd"] = json!(at.join("SHOP"));
        let mut delivery = stage.delivery(&event);
        delivery.context.cwd = at.join("SHOP").to_string_lossy().into_owned();
        delivery
    };
    stage.deliver(&[
        read("CLIENT-a/SRC/plan.txt", "a"),
        read("sEcret-ONE/plan.txt", "b"),
        read("Shop/SECRETS/plan.txt", "c"),
    ]);
    stage.flush();
    assert!(!in_database(&stage, CANARY));
    drop(stage);
    drop(disk);
}

#[test]
fn an_excluded_file_is_recognized_through_a_link_or_in_another_case() {
    let stage = Stage::new().daemon();
    let folder = beside(&stage, "careful");
    std::fs::create_dir_all(folder.join("secrets")).unwrap();
    std::fs::write(folder.join(".recall.toml"), "exclude = ['secrets/']").unwrap();
    std::fs::write(folder.join("secrets/plan.txt"), CANARY).unwrap();
    symlink(folder.join("secrets/plan.txt"), folder.join("notes.txt")).unwrap();
    symlink(folder.join("secrets"), folder.join("open")).unwrap();
    let read = |path: &str, id: &str| {
        let fields = json!({"tool_name": "Read", "tool_use_id": id, "tool_input": {"file_path": folder.join(path)},
            "tool_response": {"content": CANARY}});
        let mut event = stage.event("one", "PostToolUse", fields);
        event["cwd"] = json!(folder);
        let mut delivery = stage.delivery(&event);
        delivery.context.cwd = folder.to_string_lossy().into_owned();
        delivery
    };
    stage.deliver(&[
        read("secrets/plan.txt", "a"),
        read("Secrets/Plan.txt", "b"),
        read("notes.txt", "c"),
        read("open/plan.txt", "d"),
    ]);
    stage.flush();
    let session = stage.json(["ctl", "session", "one"]).to_string();
    assert!(!session.contains(CANARY), "{session}");
}
