//! Tests the answers to mistyped commands. They name the mistake and what to do instead. Nothing is changed.

use std::fs::OpenOptions;
use std::io::Read;
use std::process::Stdio;

use recall_tests::Stage;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

/// The wrong commands, their exit codes, and texts of their answers. Usage errors end with 2, refusals with 1. stdout
/// has only help that was asked for.
const WRONG: [(&[&str], i32, &str); 77] = [
    (&["serach", "cart"], 2, "a similar subcommand exists: 'search'"),
    (&["sesions"], 2, "a similar subcommand exists: 'sessions'"),
    (&["confg", "list"], 2, "'config'"),
    (&["find", "cart"], 2, "Did you mean `recall search`?"),
    (&["delete", "1"], 2, "Did you mean `recall forget`?"),
    (&["restart"], 2, "Did you mean `recall ctl stop`?"),
    (&["frobnicate"], 2, "unrecognized subcommand 'frobnicate'"),
    (&["help", "serch"], 2, "Did you mean `recall search`?"),
    (&["ctl", "statsu"], 2, "a similar subcommand exists: 'status'"),
    (&["config"], 2, "Usage: recall config"),
    (&["search"], 2, "For example: recall search rounding cents"),
    (&["search", ""], 2, "The query is empty: what should be found?\n"),
    (&["search", "type:bugfx"], 2, "Did you mean type:bugfix?"),
    (&["search", "typ:bugfix"], 2, "Did you mean type:bugfix?"),
    (&["search", "type:"], 2, "Known: bugfix, feature"),
    (&["search", "since:someday"], 2, "try 2h, yesterday, 2026-11-01"),
    (&["search", "cart", "--since", "someday"], 2, "try 2h, yesterday, 2026-11-01"),
    (&["search", "cart", "-n", "0"], 2, "give a whole number from 1 on"),
    (&["search", "cart", "--limit", "many"], 2, "give a whole number from 1 on"),
    (&["search", "cart", "--all", "--project", "shop"], 2, "cannot be used with '--project <PROJECT>'"),
    (&["search", "cart", "--project", "unheard-of"], 1, "`recall sessions --all` shows all projects"),
    (&["search", "cart", "--project", "shp"], 1, "Did you mean \"shop\"? `recall sessions --all`"),
    (&["search", "cart", "--project", "./nowhere"], 2, "Give a project's name or an existing folder."),
    (&["search", "cart", "--colour"], 2, "a similar argument exists: '--color'"),
    (&["show"], 2, "For example: recall show 12"),
    (&["show", "banana"], 2, "\"banana\" is not an ID, and no session's ID begins with it."),
    (&["show", "1", "banana"], 2, "An observation's ID is a number (123 or #123)"),
    (&["show", "9999"], 1, "`recall search WORDS` finds what there is."),
    (&["show", "9998"], 1, "The newest is 1."),
    (&["timeline"], 2, "For example: recall timeline 12"),
    (&["timeline", "nowhere"], 1, "`recall sessions --all` lists all sessions."),
    (&["timeline", "1", "--before", "many"], 2, "give a whole number"),
    (&["context", "--cwd"], 2, "a value is required for '--cwd <DIR>'"),
    (&["context", "--cwd", "/no/such/folder"], 2, "There is no folder /no/such/folder."),
    (&["why", "p99"], 1, "There is no prompt p99."),
    (&["why", "nowhere"], 1, "There is no session \"nowhere\"."),
    (&["remember"], 2, "For example: recall remember 'Prices are in cents.'"),
    (&["remember", "-"], 2, "There is no text to remember."),
    (&["remember", "-", "more"], 2, "`-` must stand alone"),
    (&["remember", "<private>x</private>"], 2, "The whole text is private"),
    (&["remember", "note", "--importance", "11"], 2, "11 is not in 1..=10"),
    (&["remember", "note", "--type", "bugfx"], 2, "Did you mean bugfix? The types are bugfix, feature"),
    (&["remember", "note", "--project", "unheard-of"], 1, "Name its folder, or run this in it."),
    (&["remember", "note", "--project", "shp"], 1, "Did you mean \"shop\"? Name its folder"),
    (&["resolve"], 2, "For example: recall resolve 12"),
    (&["pin", "banana"], 2, "\"banana\" is not an ID."),
    (&["review", "--reject", "banana"], 2, "\"banana\" is not an ID."),
    (&["edit", "1", "--type", "bugfx"], 2, "\"bugfx\" is not a type."),
    (&["resolve", "banana"], 2, "\"banana\" is not an ID."),
    (&["resolve", "9999"], 1, "There is no observation 9999."),
    (&["resolve", "--query", "cart", "--yes", "--dry-run"], 2, "cannot be used with"),
    (&["resolve", "--query", "", "--yes"], 2, "The query is empty"),
    (&["resolve", "--query", "type:bugfx", "--yes"], 2, "Did you mean type:bugfix?"),
    (&["forget", "--query", "type:discovery cart", "--yes"], 2, "takes words and \"phrases\", not filters"),
    (&["forget", "--query", "cart since:yesterdy", "--yes"], 2, "--project, --session, --since and --until"),
    (&["forget"], 2, "Use ids, --session, --project"),
    (&["forget", "1"], 2, "Use --yes to confirm, or --dry-run to see the changes."),
    (&["forget", "9999", "--yes"], 1, "There is no observation 9999."),
    (&["forget", "--since", "someday", "--yes"], 2, "Invalid time \"someday\""),
    (&["pause", "--for", "soon"], 2, "Try 30m, 2h or \"1 day\"."),
    (&["ctl", "session", "nowhere"], 1, "There is no session \"nowhere\"."),
    (&["ctl", "session", "frist"], 1, "Did you mean \"first\"?"),
    (&["ctl", "retry", "banana"], 2, "give the number of a job"),
    (&["events", "--kinds", "session_over"], 2, "There are session_start, session_suspend"),
    (&["sql"], 2, "For example: recall sql"),
    (&["export", "--project", "unheard-of"], 1, "`recall sessions --all` shows all projects"),
    (&["import", "claud-code"], 2, "a similar value exists: 'claude-code'"),
    (&["stats", "--days", "many"], 2, "give a whole number"),
    (&["config", "get", "timers.batch_idle"], 2, "Did you mean timers.batch_idle_s?"),
    (&["config", "get", "compresion.backend"], 2, "Did you mean compression.backend?"),
    (&["config", "set", "timers.batch_idle_s"], 2, "For example: recall config set context.start_tokens 500"),
    (&["config", "set", "timers.batch_idle_s", "soon"], 2, "it must be a whole number from 1 to 86400."),
    (&["config", "set", "durability.sync", "fast"], 2, "it must be one of full, normal."),
    (&["config", "unset", "colour"], 2, "`recall config list` shows all settings."),
    (&["model", "remove", "nothing"], 1, "See `recall model list`."),
    (&["completions", "bsh"], 2, "a similar value exists: 'bash'"),
    (&["status", "--color=maybe"], 2, "[possible values: auto, always, never]"),
];

#[test]
fn a_mistyped_command_is_explained_and_changes_nothing() {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    stage.flush();
    let before = stage.json(["ctl", "status"])["observations"].clone();
    for (words, code, expected) in WRONG {
        let output = stage.recall(words.iter().copied());
        assert_eq!((output.code(), output.stdout.as_str()), (code, ""), "{words:?}: {output:?}");
        assert!(output.stderr.contains(expected), "{words:?}: {}", output.stderr);
        assert!(!output.stderr.contains("panicked"), "{words:?}: {}", output.stderr);
    }
    assert_eq!(stage.json(["ctl", "status"])["observations"], before);
}

#[test]
fn a_search_without_a_word_says_so() {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    stage.flush();
    for query in ["***", "\"\"", "-"] {
        let output = stage.recall(["search", query]);
        assert_eq!(
            output.stdout, "Nothing found: the query contains no words to search for.\n",
            "{output:?}"
        );
    }
    let output = stage.recall(["search", "-\"percentage discount\" cart"]);
    assert!(output.code() == 0 && output.stdout.contains("Edit src/cart.rs"), "{output:?}");
}

/// A search with an unknown name does not fail. It suggests the name that may be meant.
#[test]
fn a_search_suggests_a_similar_known_name() {
    let stage = Stage::new().daemon();
    stage.discount_session("first");
    stage.flush();
    for (word, expected) in [
        ("project:shp", "No project \"shp\" is known. Did you mean \"shop\"?"),
        ("agent:claude", "No agent \"claude\" is known. Did you mean \"claude-code\"?"),
        ("session:frist", "No session is known whose id begins with \"frist\". Did you mean \"first\"?"),
        ("file:crat.rs", "No file \"crat.rs\" is known. Did you mean \"cart.rs\"?"),
    ] {
        let output = stage.recall(["search", "cart", word]);
        assert_eq!((output.code(), output.stderr.as_str()), (0, ""), "{word}: {output:?}");
        assert!(output.stdout.contains(expected), "{word}: {}", output.stdout);
    }
    // Known names cause no message.
    let output = stage.recall(["search", "nowhere-to-be-found", "file:cart", "agent:claude-code"]);
    assert!(!output.stdout.contains("mean"), "{}", output.stdout);
    // As a command, `note` suggests `remember`. As an argument it suggests nothing.
    let output = stage.recall(["serach", "note"]);
    assert!(output.stderr.contains("search") && !output.stderr.contains("remember"), "{}", output.stderr);
    // A synonym of `forget` does not suggest `remember`, which is only spelled like it.
    let output = stage.recall(["remove", "1"]);
    assert!(
        output.stderr.contains("`recall forget`") && !output.stderr.contains("remember"),
        "{}",
        output.stderr
    );
}

#[test]
fn the_hook_client_explains_itself_at_a_terminal_and_starts_nothing() {
    let stage = Stage::new();
    for (arguments, expected) in [
        (&["--help"][..], "Usage: recall-shim AGENT [EVENT]"),
        (&["--version"], "recall-shim "),
        (&["--nothing"], "unknown option"),
        (&[], "Usage: recall-shim AGENT [EVENT]"),
        (&["status"], "Usage: recall-shim AGENT [EVENT]"),
    ] {
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&keyboard).unwrap();
        unlockpt(&keyboard).unwrap();
        let name = ptsname(&keyboard, Vec::new()).unwrap().into_string().unwrap();
        let terminal = OpenOptions::new().read(true).write(true).open(&name).unwrap();
        let mut command = stage.command("recall-shim");
        // The hook client is allowed to start a daemon.
        command.args(arguments).env_remove("RECALL_NO_DAEMON_START").stdin(Stdio::from(terminal));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut text = String::new();
        child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
        child.stderr.take().unwrap().read_to_string(&mut text).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(text.contains(expected), "{arguments:?}: {text}");
        assert!(!stage.home().exists(), "{arguments:?} made something");
    }
}
