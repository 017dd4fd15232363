//! Tests a project that only some members of a team may read.

use recall_tests::Stage;
use recall_tests::postgres::Cluster;
use recall_tests::repository::Repository;
use serde_json::{Value, json};

use super::sharing::{MOSS, RULE, Shared, done, machine, remember};
use super::sharing_database::{init, passwords, url};
use super::sharing_team::{begin, folder, joins_by, let_in};

const CENTS: &str = "Cents are integers in every table of the ledger";

/// Starts a machine that has clones of two projects and knows the remote.
fn with_two_projects(author: &str, device: &str, place: &str) -> Stage {
    let stage = machine(author, device, "");
    Repository::init(&ledger(&stage)).git(&["remote", "add", "origin", "git@example.com:acme/ledger.git"]);
    passwords(&stage, &["mia"]);
    done(&stage.recall(["remote", "add", "team", place]));
    stage
}

fn ledger(stage: &Stage) -> std::path::PathBuf {
    stage.user_home().join("ledger")
}

fn in_ledger(stage: &Stage, text: &str) {
    stage.json(["remember", text, "--type", "gotcha", "--project", ledger(stage).to_str().unwrap()]);
}

/// Returns the only note of both projects that a search finds, or `null`.
fn found(stage: &Stage, words: &str) -> Value {
    let answer = stage.json(["search", words, "--all"]);
    assert!(answer["results"].as_array().unwrap().len() <= 1, "{answer}");
    answer["results"][0].clone()
}

fn share_both(stage: &Stage) {
    done(&stage.recall(["share", "--with", "team", "--yes"]));
    done(&stage.recall(["share", ledger(stage).to_str().unwrap(), "--with", "team", "--yes"]));
}

/// Restricts the second project to these members and shares it. Returns the project's words if they are new.
fn restrict(stage: &Stage, only: &str) -> Value {
    let ledger = ledger(stage);
    let arguments = ["share", ledger.to_str().unwrap(), "--with", "team", "--only", only, "--yes"];
    stage.json(arguments)["words"].clone()
}

/// Runs a round and returns the error of the second project.
fn round(stage: &Stage) -> String {
    let state = stage.recall(["sync", "--now", "--json"]).json();
    stage.flush();
    let shares = state["shares"].as_array().unwrap().iter();
    let errors = shares.map(|share| (share["identity"].as_str().unwrap(), share["error"].as_str()));
    let mut of_ledger = String::new();
    for (identity, error) in errors {
        match identity {
            "git:example.com/acme/ledger" => of_ledger = error.unwrap_or_default().to_owned(),
            _ => assert_eq!(error, None, "{state}"),
        }
    }
    of_ledger
}

fn rounds(stages: &[&Stage]) {
    for _ in 0..2 {
        stages.iter().for_each(|stage| drop(round(stage)));
    }
}

const NOT_A_READER: &str = "this one is not among them";

/// Runs the test with three machines. At first, two of them read both projects and the third reads only one.
fn plays(place: &str, everything: impl Fn() -> String) {
    let mia = with_two_projects("mia", "laptop", place);
    let team_words = begin(&mia);
    let jan = with_two_projects("jan", "desktop", place);
    let ben = with_two_projects("ben", "devbox", place);
    let_in(&mia, &jan);
    let_in(&mia, &ben);
    done(&mia.recall(["share", "--with", "team", "--yes"]));
    remember(&mia, RULE);
    in_ledger(&mia, MOSS);
    // Only an owner can restrict a project, and only to members.
    let path = ledger(&ben).to_str().unwrap().to_owned();
    let output = ben.recall(["share", &path, "--with", "team", "--only", "jan", "--yes"]);
    assert!(output.code() != 0 && output.stderr.contains("only an owner of the team"), "{output:?}");
    let path = ledger(&mia).to_str().unwrap().to_owned();
    let output = mia.recall(["share", &path, "--with", "team", "--only", "eve", "--yes"]);
    assert!(output.code() != 0 && output.stderr.contains("no other member matches"), "{output:?}");
    let output = mia.recall(["share", &path, "--with", "team", "--only", "jan", "--dry-run"]);
    assert!(done(&output).stdout.contains("Only these machines of the team can read it: "), "{output:?}");
    let words = restrict(&mia, "jan");
    let words = words.as_str().unwrap();
    assert_eq!(words.split(' ').count(), 24);

    [&jan, &ben].into_iter().for_each(share_both);
    rounds(&[&jan, &mia, &ben]);
    assert!(round(&ben).contains(NOT_A_READER));
    assert_eq!((round(&jan), round(&mia)), (String::new(), String::new()));
    for stage in [&jan, &ben] {
        assert_eq!(found(stage, "hedwig")["author"], "mia");
    }
    assert_eq!(found(&jan, "moss")["author"], "mia");
    assert_eq!(found(&ben, "moss"), Value::Null);
    // Notes of the third machine stay on it. The other machines go on.
    in_ledger(&ben, "Plugs of the greenhouse are yellow");
    in_ledger(&jan, CENTS);
    rounds(&[&ben, &jan, &mia]);
    assert_eq!(found(&mia, "cents ledger")["author"], "jan");
    assert_eq!(found(&ben, "cents ledger"), Value::Null);
    assert_eq!(found(&mia, "plugs greenhouse"), Value::Null);
    let all = everything();
    // The texts contain spaces, because random letters sometimes spell a short word.
    assert!(!["Moss grows", "Cents are", "Hedwig first"].iter().any(|word| all.contains(word)));

    // Every machine shows who can read the project.
    for (stage, expected) in
        [(&mia, "readable only by "), (&jan, "readable only by "), (&ben, "readable only by other machines")]
    {
        for arguments in [["share", "--list"].as_slice(), &["team", "members", "team"]] {
            let output = stage.recall(arguments.iter().copied());
            assert!(done(&output).stdout.contains(expected), "{output:?}");
        }
    }
    let listed = mia.json(["team", "members", "team"]);
    let of_ledger = &listed["restricted"][0];
    assert_eq!(of_ledger["project"], "git:example.com/acme/ledger");
    let mut readers: Vec<&str> =
        of_ledger["readers"].as_array().unwrap().iter().map(|one| one["author"].as_str().unwrap()).collect();
    readers.sort_unstable();
    assert_eq!(readers, ["jan", "mia"]);

    // The third machine is added, and reads what was written before. The second is removed, and reads nothing new.
    assert_eq!(restrict(&mia, "jan,ben"), Value::Null, "nobody was taken out: the key is the same");
    rounds(&[&ben, &mia]);
    assert_eq!(round(&ben), "");
    assert_eq!(found(&ben, "moss")["author"], "mia");
    assert_eq!(found(&mia, "plugs greenhouse")["author"], "ben");
    let new_words = restrict(&mia, "ben");
    assert_ne!(new_words, json!(words));
    in_ledger(&mia, "Bolts of the gate are greased in May");
    rounds(&[&mia, &ben, &jan]);
    assert!(round(&jan).contains(NOT_A_READER));
    assert_eq!(found(&ben, "bolts gate")["author"], "mia");
    assert_eq!(found(&jan, "bolts gate"), Value::Null);
    assert_eq!(found(&ben, "cents ledger")["author"], "jan", "what was written before stays");
    let output = mia.recall(["share", &path, "--with", "team", "--only", "jan,ben", "--yes"]);
    assert!(output.code() != 0 && output.stderr.contains("was removed from this project"), "{output:?}");

    // A user who has lost all machines needs the words of the team to join, and the words of the project to read it.
    let new = with_two_projects("mia", "desk", place);
    assert!(joins_by(&new, &team_words));
    share_both(&new);
    assert!(round(&new).contains(NOT_A_READER));
    assert!(!joins_by(&new, words), "these are of an older key");
    assert!(joins_by(&new, new_words.as_str().unwrap()));
    rounds(&[&new, &mia]);
    assert_eq!(round(&new), "");
    for words in ["moss", "bolts gate", "hedwig"] {
        assert_eq!(found(&new, words)["author"], "mia", "{words}");
    }
    // A member that the team removes reads neither project.
    done(&mia.recall(["team", "remove", "team", "ben", "--yes"]));
    in_ledger(&mia, "Hens of the yard sleep at nine");
    rounds(&[&mia, &new]);
    assert!(round_of_removed(&ben).contains("was removed from the team"));
    assert_eq!(found(&ben, "hens yard"), Value::Null);
    assert_eq!(found(&new, "hens yard")["author"], "mia");
}

fn round_of_removed(stage: &Stage) -> String {
    let state = stage.recall(["sync", "--now", "--json"]).json();
    state["shares"][0]["error"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn only_named_members_read_a_restricted_project() {
    let shared = Shared::new();
    plays(&folder(&shared), || {
        let read =
            |path: std::path::PathBuf| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned();
        shared.files().into_iter().map(read).collect()
    });
}

#[test]
fn only_named_members_read_a_restricted_project_of_a_database() {
    let Some(cluster) = Cluster::start() else { return };
    init(&cluster);
    // All machines of this test have the same login.
    plays(&url("mia", cluster.server_port(), ""), || {
        cluster.sql(
            "memory",
            "SELECT s.header, r.body, d.progress FROM recall.record r, recall.segment s, recall.device d",
        )
    });
}

#[test]
fn a_project_on_an_unencrypted_remote_cannot_be_restricted() {
    let shared = Shared::new();
    let mia = machine("mia", "laptop", "");
    done(&mia.recall(["remote", "add", "team", &folder(&shared), "--plaintext"]));
    let output = mia.recall(["share", "--with", "team", "--only", "jan", "--yes"]);
    assert!(output.code() == 2 && output.stderr.contains("is not encrypted"), "{output:?}");
}
