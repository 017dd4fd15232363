//! Tests a remote that is encrypted. Remotes are encrypted unless their owner says otherwise. The machines of a team
//! can read what is sent. Other readers of the remote cannot.

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

use recall_tests::Stage;
use recall_tests::postgres::Cluster;
use serde_json::{Value, json};

use super::sharing::{MOSS, RULE, Shared, done, exchange, found, id_of, machine, remember, sync};
use super::sharing_database::{init, passwords, url};

/// A running command that a person reads and answers.
struct Open {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Open {
    fn start(stage: &Stage, arguments: &[&str]) -> Self {
        let mut command = stage.command("recall");
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Self { child, input, output: BufReader::new(output) }
    }

    /// Returns the next line that contains this text.
    fn line(&mut self, text: &str) -> String {
        let mut line = String::new();
        while self.output.read_line(&mut line).unwrap() > 0 {
            if line.contains(text) {
                return line.trim().to_owned();
            }
            line.clear();
        }
        panic!("no line with {text:?}");
    }

    fn say(&mut self, line: &str) {
        writeln!(self.input, "{line}").unwrap();
    }

    #[track_caller]
    fn ended(mut self) -> String {
        let mut rest = String::new();
        self.output.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success(), "{rest}");
        rest
    }
}

/// Starts a machine that knows the remote.
fn with_remote(author: &str, device: &str, url: &str) -> Stage {
    let stage = machine(author, device, "");
    done(&stage.recall(["remote", "add", "team", url]));
    stage
}

fn share(stage: &Stage) {
    done(&stage.recall(["share", "--with", "team", "--yes"]));
}

/// Creates the team. Returns its words.
pub(super) fn begin(stage: &Stage) -> String {
    stage.json(["team", "init", "team"])["words"].as_str().unwrap().to_owned()
}

/// Lets a machine in, as two people do it.
pub(super) fn let_in(by: &Stage, newcomer: &Stage) {
    let mut inviting = Open::start(by, &["team", "invite", "team", "--yes"]);
    inviting.line("Tell these words");
    let words = {
        let mut line = String::new();
        inviting.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    };
    assert_eq!(words.split(' ').count(), 12, "{words}");
    let mut joining = Open::start(newcomer, &["team", "join", "team"]);
    joining.say(&words);
    let compared = |line: String| line.rsplit_once(": ").unwrap().1.to_owned();
    let there = compared(joining.line("Both sides must show"));
    assert_eq!(compared(inviting.line("Both sides must show")), there);
    assert_eq!(there.split(' ').count(), 6);
    assert!(inviting.ended().contains("Admitted"));
    assert!(joining.ended().contains("Joined"));
}

/// Returns whether these words let a machine in.
pub(super) fn joins_by(stage: &Stage, words: &str) -> bool {
    let mut joining = Open::start(stage, &["team", "join", "team", "--json"]);
    joining.say(words);
    let mut rest = String::new();
    joining.output.read_to_string(&mut rest).unwrap();
    joining.child.wait().unwrap().success()
}

pub(super) fn folder(shared: &Shared) -> String {
    std::fs::create_dir_all(shared.path()).unwrap();
    shared.path().to_str().unwrap().to_owned()
}

fn error_of(stage: &Stage) -> String {
    let output = stage.recall(["sync", "--now", "--json"]);
    output.json()["shares"][0]["error"].as_str().unwrap_or_default().to_owned()
}

fn standings(stage: &Stage) -> Vec<(String, String)> {
    let listed = stage.json(["team", "members", "team"]);
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let members = listed["members"].as_array().unwrap().iter();
    let mut members: Vec<_> =
        members.map(|member| (text(&member["author"]), text(&member["standing"]))).collect();
    members.sort();
    members
}

#[test]
fn data_in_an_encrypted_remote_is_readable_only_by_the_team() {
    let shared = Shared::new();
    let place = folder(&shared);
    let mia = with_remote("mirabelle", "laptop", &place);
    assert!(mia.recall(["remote", "list"]).stdout.contains("team"));
    remember(&mia, RULE);
    // Without a key nothing is sent.
    let output = mia.recall(["share", "--with", "team", "--yes"]);
    assert!(
        output.stdout.contains("it is encrypted before it leaves")
            && output.stdout.contains("recall team init"),
        "{output:?}"
    );
    assert!(error_of(&mia).contains("create a team with `recall team init REMOTE`"));
    assert!(!shared.files().iter().any(|path| path.extension().is_some_and(|of| of == "jsonl")));
    let words = begin(&mia);
    mia.discount_session("cart");
    mia.flush();
    sync(&mia);
    let ben = with_remote("benedikt", "desktop", &place);
    let_in(&mia, &ben);
    share(&ben);
    exchange(&[&ben, &mia]);
    ben.flush();
    let note = found(&ben, "hedwig");
    assert_eq!((&note["author"], &note["device"]), (&json!("mirabelle"), &json!("laptop")), "{note}");
    done(&ben.recall(["edit", &id_of(&ben, "hedwig"), "--title", "Invoices are cancelled by Ottilie"]));
    exchange(&[&ben, &mia]);
    assert_eq!(found(&mia, "invoices")["title"], "Invoices are cancelled by Ottilie");
    // The words of the team let a third machine in.
    let zoe = with_remote("zoraida", "devbox", &place);
    assert!(joins_by(&zoe, &words));
    share(&zoe);
    exchange(&[&zoe, &mia, &ben]);
    assert_eq!(found(&zoe, "invoices")["author"], "mirabelle");
    let member = |author: &str| (author.to_owned(), "member".to_owned());
    assert_eq!(standings(&mia), ["benedikt", "mirabelle", "zoraida"].map(member));
    // A reader of the folder sees no texts and no names of people or machines. The words are long, because the folder
    // is full of random letters, which soon spell a name of three letters.
    for word in
        ["Hedwig", "Ottilie", "Rounding", "rounding", "mirabelle", "benedikt", "laptop", "desktop", "devbox"]
    {
        assert!(!shared.contains(word), "{word}");
    }
    let key = mia.home().join("data/teams");
    assert!(key.read_dir().unwrap().count() > 0);
    done(&mia.recall(["forget", &id_of(&mia, "invoices"), "--yes"]));
    exchange(&[&mia, &ben, &zoe]);
    let state = sync(&mia);
    assert_eq!(state["shares"][0]["forgotten"]["everywhere"], 1, "{state}");
    for stage in [&mia, &ben, &zoe] {
        assert_eq!(found(stage, "invoices"), Value::Null);
    }
    // Nothing is written when nothing is new.
    let changed = || -> Vec<_> {
        shared.files().into_iter().map(|path| std::fs::metadata(path).unwrap().modified().unwrap()).collect()
    };
    let before = changed();
    exchange(&[&mia, &ben, &zoe]);
    assert_eq!(changed(), before);
}

#[test]
fn a_removed_member_reads_nothing_new_and_their_notes_stay() {
    let shared = Shared::new();
    let place = folder(&shared);
    let mia = with_remote("mia", "laptop", &place);
    begin(&mia);
    share(&mia);
    let ben = with_remote("ben", "desktop", &place);
    let zoe = with_remote("zoe", "devbox", &place);
    for newcomer in [&ben, &zoe] {
        let_in(&mia, newcomer);
        share(newcomer);
    }
    remember(&ben, RULE);
    exchange(&[&ben, &mia, &zoe]);
    let output = mia.recall(["team", "remove", "team", "ben", "--yes"]);
    assert!(done(&output).stdout.contains("They are not shown again"), "{output:?}");
    sync(&zoe);
    remember(&mia, MOSS);
    remember(&zoe, "Cents are integers in every table of the ledger");
    exchange(&[&mia, &zoe]);
    assert!(error_of(&ben).contains("was removed from the team"));
    remember(&ben, "Plugs of the greenhouse are yellow");
    assert!(error_of(&ben).contains("was removed from the team"));
    ben.flush();
    for words in ["moss", "cents ledger"] {
        assert_eq!(found(&ben, words), Value::Null);
    }
    // Only an owner can remove machines, let machines in, and name other owners.
    assert!(zoe.recall(["team", "members", "team"]).stdout.contains("Only one machine owns the team"));
    for arguments in [
        ["team", "remove", "team", "mia"],
        ["team", "invite", "team", "--yes"],
        ["team", "owner", "team", "mia"],
    ] {
        let output = zoe.recall(arguments);
        assert!(output.code() != 0 && output.stderr.contains("only an owner of the team"), "{output:?}");
    }
    let output = mia.recall(["team", "owner", "team", "zoe"]);
    assert!(done(&output).stdout.contains("zoe, devbox may admit and remove others"), "{output:?}");
    let output = zoe.recall(["team", "members", "team"]).stdout;
    assert_eq!(output.matches(", owner").count(), 2, "{output}");
    let new = with_remote("new", "desk", &place);
    let_in(&zoe, &new);
    share(&new);
    exchange(&[&new, &zoe, &mia]);
    new.flush();
    for (words, author) in [("hedwig", "ben"), ("moss", "mia"), ("cents ledger", "zoe")] {
        assert_eq!(found(&new, words)["author"], author, "{words}");
    }
    let standing = |author: &str, is: &str| (author.to_owned(), is.to_owned());
    let expected = [
        standing("ben", "removed"),
        standing("mia", "member"),
        standing("new", "member"),
        standing("zoe", "member"),
    ];
    assert_eq!(standings(&mia), expected);
    assert_eq!(standings(&new), expected);
}

#[test]
fn all_machines_of_one_person_own_the_team() {
    let shared = Shared::new();
    let place = folder(&shared);
    let (laptop, desktop) = (with_remote("mia", "laptop", &place), with_remote("mia", "desktop", &place));
    let words = begin(&laptop);
    assert!(joins_by(&desktop, &words));
    for stage in [&laptop, &desktop] {
        done(&stage.recall(["share", "--with", "team", "--yes", "--personal"]));
    }
    exchange(&[&laptop, &desktop]);
    assert!(!desktop.recall(["team", "members", "team"]).stdout.contains("Only one machine owns"));
    // The laptop is stolen.
    done(&desktop.recall(["team", "remove", "team", "laptop", "--yes"]));
    remember(&desktop, MOSS);
    sync(&desktop);
    assert!(error_of(&laptop).contains("was removed from the team"));
}

#[test]
fn a_machine_without_the_teams_key_neither_reads_nor_adds_notes() {
    let (shared, elsewhere) = (Shared::new(), Shared::new());
    let mia = with_remote("mia", "laptop", &folder(&shared));
    let ben = with_remote("ben", "desktop", &folder(&elsewhere));
    let eve = with_remote("eve", "desk", &folder(&shared));
    let refused = |stage: &Stage, arguments: &[&str], why: &str| {
        let output = stage.recall(arguments.iter().copied());
        assert!(output.code() != 0 && output.stderr.contains(why), "{arguments:?}: {output:?}");
    };
    refused(&mia, &["team", "members", "team"], "has no key");
    let words = begin(&mia);
    refused(&mia, &["team", "init", "team"], "This machine is in the team already");
    refused(&eve, &["team", "init", "team"], "the team already exists");
    let of_ben = begin(&ben);
    for wrong in [of_ben.as_str(), "one two", ""] {
        assert!(!joins_by(&eve, wrong), "{wrong}");
    }
    assert!(joins_by(&eve, &words));
    refused(&mia, &["team", "remove", "team", "nobody"], "no other member matches");
    refused(&mia, &["team", "remove", "team", "mia"], "no other member matches");
    share(&eve);
    refused(&eve, &["team", "leave", "team"], "still shared");
    done(&eve.recall(["unshare"]));
    done(&eve.recall(["team", "leave", "team"]));
    share(&eve);
    assert!(error_of(&eve).contains("this machine has no key"));
    // A remote that is not encrypted says so, and has no team.
    let open = machine("mia", "laptop", "");
    let place = Shared::new();
    let output = open.recall(["remote", "add", "open", &folder(&place), "--plaintext"]);
    assert!(done(&output).stdout.contains("is not encrypted"), "{output:?}");
    refused(&open, &["team", "init", "open"], "needs no team");
    assert!(open.recall(["remote", "list"]).stdout.contains("not encrypted"));
    // A machine that adds the remote without encryption cannot read what a team has encrypted.
    let careless = machine("zoe", "devbox", "");
    remember(&mia, RULE);
    share(&mia);
    sync(&mia);
    done(&careless.recall(["remote", "add", "team", &folder(&shared), "--plaintext"]));
    done(&careless.recall(["share", "--with", "team", "--yes"]));
    let devices = sync(&careless)["shares"][0]["devices"].clone();
    assert!(devices.to_string().contains("are encrypted"), "{devices}");
    remember(&careless, MOSS);
    sync(&careless);
    let devices = sync(&mia)["shares"][0]["devices"].clone();
    assert!(devices.to_string().contains("has not proved that it has the team's key"), "{devices}");
    assert_eq!(found(&mia, "moss"), Value::Null);
    // The key is deleted with the memory.
    let teams = mia.home().join("data/teams");
    assert!(teams.is_dir());
    done(&mia.recall(["uninstall", "--purge", "--yes"]));
    assert!(!teams.exists());
}

#[test]
fn an_encrypted_database_remote_stores_no_readable_text() {
    let Some(cluster) = Cluster::start().and_then(Cluster::pooled) else { return };
    init(&cluster);
    let on = |author: &str, device: &str| {
        let stage = machine(author, device, "");
        passwords(&stage, &[author]);
        done(&stage.recall(["remote", "add", "team", &url(author, cluster.port(), "")]));
        stage
    };
    let (mia, ben) = (on("mia", "laptop"), on("ben", "desktop"));
    begin(&mia);
    let_in(&mia, &ben);
    [&mia, &ben].into_iter().for_each(share);
    remember(&mia, RULE);
    exchange(&[&mia, &ben]);
    assert_eq!(found(&ben, "hedwig")["author"], "mia");
    let all = cluster.sql(
        "memory",
        "SELECT s.header, r.body, d.progress FROM recall.record r, recall.segment s, recall.device d",
    );
    assert!(!all.is_empty());
    for word in ["Hedwig", "laptop", "desktop", "\"mia\""] {
        assert!(!all.contains(word), "{word}");
    }
    done(&mia.recall(["team", "remove", "team", "ben", "--yes"]));
    remember(&mia, MOSS);
    sync(&mia);
    assert!(error_of(&ben).contains("was removed from the team"));
    assert_eq!(found(&ben, "moss"), Value::Null);
}
