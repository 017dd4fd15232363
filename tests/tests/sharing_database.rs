//! Tests that several machines share one memory through a PostgreSQL database. Each machine is a separate home, and
//! each test has its own server. The tests of the folder hold here too, because the rounds are the same. These tests
//! are about the server.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use recall_tests::postgres::{Cluster, Way, password_of};
use recall_tests::repository::Repository;
use recall_tests::{CommandOutput, Stage};
use serde_json::{Value, json};

use super::sharing::{MOSS, RULE, ask, done, exchange, found, id_of, machine, remember, start, sync};

/// A query that finds only the note. Without the kind it would also find a prompt that has these words.
const NOTE: &str = "invoices kind:observation";

/// Returns the address of the database for a role.
pub(super) fn url(role: &str, port: u16, parameters: &str) -> String {
    format!("postgres://{role}@127.0.0.1:{port}/memory?sslmode=disable{parameters}")
}

/// Writes the passwords of these roles to the file that `psql` reads.
pub(super) fn passwords(stage: &Stage, roles: &[&str]) {
    let path = stage.user_home().join(".pgpass");
    std::fs::create_dir_all(stage.user_home()).unwrap();
    let line = |role: &&str| format!("127.0.0.1:*:memory:{role}:{}\n", password_of(role));
    std::fs::write(&path, roles.iter().map(line).collect::<String>()).unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
}

/// Sets up the database for all members.
pub(super) fn init(cluster: &Cluster) {
    let stage = Stage::new();
    passwords(&stage, &["admin"]);
    let members = ["--member", "mia", "--member", "ben", "--member", "zoe"];
    let url = url("admin", cluster.server_port(), "");
    done(&stage.recall(["remote", "init", &url].into_iter().chain(members)));
}

pub(super) fn add(stage: &Stage, url: &str, terms: &[&str]) -> CommandOutput {
    done(&stage.recall(["remote", "add", "team", url, "--plaintext"]));
    let arguments = ["share", "--with", "team", "--yes"];
    stage.recall(arguments.into_iter().chain(terms.iter().copied()))
}

/// Starts a machine that shares the project through a port.
fn sharing(author: &str, port: u16, terms: &[&str]) -> Stage {
    let stage = machine(author, &format!("{author}s-laptop"), "");
    passwords(&stage, &[author]);
    done(&add(&stage, &url(author, port, ""), terms));
    stage
}

#[track_caller]
fn error_of(stage: &Stage) -> String {
    let output = stage.recall(["sync", "--now", "--json"]);
    assert_eq!(output.code(), 1, "{output:?}");
    output.json()["shares"][0]["error"].as_str().unwrap().to_owned()
}

/// Returns the number of the server's rows that contain a text.
fn stored(cluster: &Cluster, text: &str) -> String {
    cluster.sql("memory", &format!("SELECT count(*) FROM recall.record WHERE body LIKE '%{text}%'"))
}

/// Returns whether a file below a folder contains a text. The file of passwords does not count.
fn leaked(folder: &Path, text: &str) -> bool {
    std::fs::read_dir(folder).unwrap().flatten().any(|entry| {
        let path = entry.path();
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => leaked(&path, text),
            Ok(kind) if kind.is_file() && !path.ends_with(".pgpass") => {
                let bytes = std::fs::read(&path).unwrap_or_default();
                bytes.windows(text.len()).any(|window| window == text.as_bytes())
            }
            _ => false,
        }
    })
}

#[test]
fn machines_of_two_people_share_a_database_behind_a_pooler() {
    let Some(cluster) = Cluster::start().and_then(Cluster::pooled) else { return };
    init(&cluster);
    let port = cluster.port();
    let mia = sharing("mia", port, &[]);
    remember(&mia, RULE);
    mia.discount_session("cart");
    mia.flush();
    let state = sync(&mia);
    assert_eq!(
        (&state["shares"][0]["kind"], &state["shares"][0]["sent"]),
        (&json!("postgres"), &state["shares"][0]["logged"]),
        "{state}"
    );
    assert!(state["shares"][0]["sent_last"].as_u64() > Some(1), "{state}");
    let output = mia.recall(["sync", "--now"]).stdout;
    assert!(output.contains("in sync") && output.contains(", nothing new"), "{output}");
    // The second machine is mia's too. The colleague has notes injected into sessions.
    let desk = sharing("mia", port, &[]);
    let ben = sharing("ben", port, &["--inject"]);
    [&desk, &ben].into_iter().for_each(Stage::flush);
    for stage in [&desk, &ben] {
        let note = found(stage, "invoices cancelled hedwig");
        assert_eq!((&note["author"], &note["title"]), (&json!("mia"), &json!(RULE)), "{note}");
    }
    let context = start(&ben, "s") + &ask(&ben, "s", "May I delete invoices, or are they only cancelled?");
    assert!(context.contains("Hedwig") && context.contains("(by mia)"), "{context}");

    done(&ben.recall(["edit", &id_of(&ben, NOTE), "--title", "Invoices are cancelled by Ottilie"]));
    exchange(&[&mia, &desk, &ben]);
    for stage in [&mia, &desk] {
        assert_eq!(found(stage, NOTE)["title"], "Invoices are cancelled by Ottilie");
    }
    assert_ne!((stored(&cluster, "Hedwig"), stored(&cluster, "Ottilie")), ("0".to_owned(), "0".to_owned()));
    done(&mia.recall(["forget", &id_of(&mia, NOTE), "--yes"]));
    exchange(&[&mia, &desk, &ben]);
    for stage in [&mia, &desk, &ben] {
        assert_eq!(found(stage, NOTE), Value::Null);
    }
    assert_eq!((stored(&cluster, "Hedwig"), stored(&cluster, "Ottilie")), ("0".to_owned(), "0".to_owned()));
    let state = sync(&mia);
    assert_eq!(state["shares"][0]["forgotten"]["everywhere"], 1, "{state}");

    assert!(mia.recall(["doctor"]).stdout.contains("sharing through team (PostgreSQL): 1 project"));
    assert_eq!(mia.json(["ctl", "status"])["sharing"][0]["kind"], "postgres");
    let metrics = mia.recall(["ctl", "status", "--prometheus"]).stdout;
    assert!(metrics.contains("recall_sync_remotes{kind=\"postgres\"} 1"), "{metrics}");
    // The password is only in the file of passwords.
    for (stage, role) in [(&mia, "mia"), (&desk, "mia"), (&ben, "ben")] {
        let home = stage.home();
        assert!(!leaked(home.parent().unwrap(), &password_of(role)));
        let called = std::fs::read(format!("/proc/{}/cmdline", stage.daemon_pid())).unwrap_or_default();
        assert!(!String::from_utf8_lossy(&called).contains("swordfish"));
    }
    let listed = mia.recall(["remote", "list"]).stdout;
    assert!(listed.contains("postgres://mia@") && !listed.contains("swordfish"), "{listed}");
    assert!(!cluster.log().contains("PREPARE") && !cluster.log().contains("LISTEN"));
}

#[test]
fn a_stopped_server_loses_nothing_and_waiting_notes_are_sent_later() {
    let Some(mut cluster) = Cluster::start() else { return };
    init(&cluster);
    let mia = sharing("mia", cluster.port(), &[]);
    let ben = sharing("ben", cluster.port(), &[]);
    cluster.stop();
    remember(&mia, RULE);
    let error = error_of(&mia);
    assert!(error.contains("cannot reach 127.0.0.1:"), "{error}");
    let output = mia.recall(["doctor"]).stdout;
    assert!(output.contains("sharing through team (PostgreSQL) has failed, and 1 changes wait"), "{output}");
    // Sessions work as usual.
    mia.discount_session("cart");
    mia.flush();
    assert!(start(&mia, "next").contains("cart"));
    cluster.run();
    let state = sync(&mia);
    assert_eq!(state["shares"][0]["sent"], state["shares"][0]["logged"], "{state}");
    sync(&ben);
    assert_eq!(found(&ben, "invoices")["author"], "mia");
}

#[derive(Clone, Copy)]
enum Disk {
    Full,
    WithRoom,
}

/// Makes each call of the server that writes into a table fail as on a full disk, or work again.
fn put(disk: Disk, cluster: &Cluster, table: &str) {
    let fail = "CREATE OR REPLACE FUNCTION public.full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
        RAISE EXCEPTION 'could not extend file \"base/16384/2619\": No space left on device' USING ERRCODE = '53100';
        END $$";
    let change = match disk {
        Disk::Full => format!(
            "{fail}; CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON recall.{table} FOR EACH ROW EXECUTE FUNCTION public.full_disk()"
        ),
        Disk::WithRoom => format!("DROP TRIGGER full_disk ON recall.{table}"),
    };
    cluster.sql("memory", &change);
}

#[test]
fn a_full_server_loses_nothing_and_receives_waiting_notes_once_it_has_room() {
    let Some(cluster) = Cluster::start() else { return };
    init(&cluster);
    let mia = sharing("mia", cluster.port(), &[]);
    let ben = sharing("ben", cluster.port(), &[]);
    remember(&mia, RULE);
    exchange(&[&mia, &ben]);
    let id = id_of(&mia, NOTE);
    for table in ["record", "device", "segment"] {
        put(Disk::Full, &cluster, table);
        remember(&mia, &format!("Moss of the {table} grows on the northern wall"));
        let error = error_of(&mia);
        assert!(error.contains("is full. Nothing is lost"), "{table}: {error}");
        let output = mia.recall(["sync"]).stdout;
        assert!(output.contains("is full") && output.contains("next try at"), "{table}: {output}");
        assert!(output.contains("1 waiting"), "{table}: {output}");
        // Machines still read, and work on this machine goes on.
        assert_eq!(found(&ben, NOTE)["author"], "mia");
        assert_eq!(found(&mia, &format!("\"{table} grows\""))["kind"], "observation");
        put(Disk::WithRoom, &cluster, table);
        let state = sync(&mia);
        assert_eq!(state["shares"][0]["sent"], state["shares"][0]["logged"], "{table}: {state}");
        sync(&ben);
        assert_eq!(found(&ben, &format!("\"{table} grows\""))["author"], "mia");
    }
    // A deletion that the server cannot write reaches all machines later.
    put(Disk::Full, &cluster, "record");
    done(&mia.recall(["forget", &id, "--yes"]));
    assert!(error_of(&mia).contains("is full"));
    assert_ne!(stored(&cluster, "Hedwig"), "0");
    put(Disk::WithRoom, &cluster, "record");
    exchange(&[&mia, &ben]);
    assert_eq!((stored(&cluster, "Hedwig"), found(&ben, NOTE)), ("0".to_owned(), Value::Null));
}

#[test]
fn an_open_transaction_on_the_server_delays_and_hides_nothing() {
    let Some(cluster) = Cluster::start() else { return };
    init(&cluster);
    let mia = sharing("mia", cluster.port(), &[]);
    let ben = sharing("ben", cluster.port(), &[]);
    remember(&mia, RULE);
    exchange(&[&mia, &ben]);
    // This transaction is older than all that follow. It stays open with an uncommitted row.
    let mut open = cluster.held_open("CREATE TABLE public.mine AS SELECT txid_current()");
    remember(&mia, MOSS);
    sync(&mia);
    remember(&ben, "Cents are integers in every table of the ledger");
    exchange(&[&ben, &mia]);
    assert_eq!(
        (&found(&ben, "moss")["author"], &found(&mia, "cents ledger")["author"]),
        (&json!("mia"), &json!("ben"))
    );
    open.close();
}

#[test]
fn denied_database_access_is_explained_with_a_remedy() {
    let Some(cluster) = Cluster::start() else { return };
    let port = cluster.port();
    let mia = machine("mia", "laptop", "");
    let with_password = format!("postgres://mia:{}@127.0.0.1:{port}/memory", "swordfish");
    for arguments in
        [["remote", "add", "team", &with_password].as_slice(), &["remote", "init", &with_password]]
    {
        let output = mia.recall(arguments.iter().copied());
        assert!(output.code() == 2 && output.stderr.contains("~/.pgpass"), "{output:?}");
        assert!(!output.stderr.contains("swordfish"), "{output:?}");
    }
    let output = add(&mia, &url("mia", port, ""), &[]);
    assert!(
        output.stdout.contains("asks for a password of mia") && output.stdout.contains(".pgpass"),
        "{output:?}"
    );
    passwords(&mia, &["mia"]);
    assert!(
        error_of(&mia).contains("the database memory is not set up for recall: run `recall remote init`")
    );
    let stage = Stage::new();
    passwords(&stage, &["admin", "mia"]);
    // A role without CREATEROLE cannot set up the database.
    let output = stage.recall(["remote", "init", &url("mia", port, "")]);
    assert!(output.code() == 1 && output.stderr.contains("needs CREATEROLE"), "{output:?}");
    let output = stage.recall(["remote", "init", &url("admin", port, ""), "--member", "nobody"]);
    assert!(output.code() == 1 && output.stderr.contains("no role \"nobody\""), "{output:?}");
    done(&stage.recall(["remote", "init", &url("admin", port, ""), "--json"]));
    let error = error_of(&mia);
    assert!(
        error.contains("mia may not use recall's functions") && error.contains("recall_member"),
        "{error}"
    );
    // A role that may only read can still read.
    cluster.sql("memory", "GRANT recall_reader TO mia; GRANT recall_member TO ben");
    let ben = sharing("ben", port, &[]);
    remember(&ben, MOSS);
    sync(&ben);
    remember(&mia, RULE);
    assert!(error_of(&mia).contains("may not use recall's functions"));
    mia.flush();
    assert_eq!(found(&mia, "moss")["author"], "ben");
    std::fs::write(mia.user_home().join(".pgpass"), concat!("*:*:*:*", ":wrong\n")).unwrap();
    let error = error_of(&mia);
    assert!(error.contains("refuses mia") && error.contains(".pgpass"), "{error}");
    std::fs::set_permissions(mia.user_home().join(".pgpass"), std::fs::Permissions::from_mode(0o644))
        .unwrap();
    assert!(error_of(&mia).contains("chmod 600"));
    // An option can name another file of passwords.
    let file = mia.user_home().join("secret");
    std::fs::write(&file, password_of("mia") + "\n").unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    cluster.sql("memory", "GRANT recall_member TO mia");
    done(&mia.recall(["unshare"]));
    done(&mia.recall(["remote", "remove", "team"]));
    let arguments = [
        "remote",
        "add",
        "team",
        &url("mia", port, ""),
        "--plaintext",
        "--password-file",
        file.to_str().unwrap(),
    ];
    done(&mia.recall(arguments));
    done(&mia.recall(["share", "--with", "team", "--yes"]));
    assert_eq!(sync(&mia)["shares"][0]["error"], Value::Null);
}

#[test]
fn repeated_database_setup_changes_nothing_and_a_newer_schema_is_rejected() {
    let Some(cluster) = Cluster::start() else { return };
    let port = cluster.port();
    // Setting up needs no superuser.
    cluster.sql("memory", "ALTER ROLE zoe CREATEROLE; GRANT CREATE ON DATABASE memory TO zoe");
    let stage = Stage::new();
    passwords(&stage, &["admin", "zoe"]);
    let init = |role: &str| stage.recall(["remote", "init", &url(role, port, ""), "--json"]);
    let outputs: Vec<CommandOutput> = std::thread::scope(|scope| {
        let both: Vec<_> = (0..2).map(|_| scope.spawn(|| init("zoe"))).collect();
        both.into_iter().map(|one| one.join().unwrap()).collect()
    });
    let mut outcomes: Vec<Value> =
        outputs.iter().map(|output| done(output).json()["outcome"].clone()).collect();
    outcomes.sort_by_key(Value::to_string);
    assert_eq!(outcomes, [json!("current"), json!("made")]);
    let id = cluster.sql("memory", "SELECT id FROM recall.meta");
    assert_eq!(done(&init("admin")).json()["outcome"], "current");
    assert_eq!(cluster.sql("memory", "SELECT id FROM recall.meta"), id);
    let zoe = sharing("zoe", port, &[]);
    remember(&zoe, RULE);
    sync(&zoe);
    // A role of the server cannot access any table's rows, whatever it is granted, and cannot write for the machine
    // of another role.
    let device = cluster.sql("memory", "SELECT space || ''',''' || device FROM recall.device");
    cluster.sql("memory", "GRANT recall_member TO ben; GRANT USAGE ON SCHEMA recall TO mia; GRANT SELECT ON recall.record TO mia");
    let refused = |role: &str, statement: &str, why: &str| {
        let error = cluster.sql_as(role, "memory", statement).unwrap_err();
        assert!(error.contains(why), "{statement}: {error}");
    };
    refused("ben", "SELECT * FROM recall.record", "permission denied");
    refused("ben", "SELECT recall.own_device('', '')", "permission denied");
    refused(
        "ben",
        &format!("SELECT recall.blank('{device}', ARRAY[1])"),
        "writes here as zoe, and not as ben",
    );
    refused("ben", "SELECT recall.say_progress('a', 'b', 'c')", "not the name of a space");
    let body = "repeat('x', 262145)";
    let append = format!(
        "SELECT recall.append('{device}', '', '', 1, '', '', '{{a}}', '{{a}}', '{{1}}', ARRAY[{body}], '{{a}}')"
    );
    refused("ben", &append, "too many or too large");
    assert_eq!(cluster.sql_as("mia", "memory", "SELECT count(*) FROM recall.record").unwrap(), "0");
    assert_ne!(cluster.sql("memory", "SELECT count(*) FROM recall.record"), "0");

    cluster.sql("memory", "UPDATE recall.meta SET schema = 9");
    let output = init("admin");
    assert!(
        output.code() == 1 && output.stderr.contains("was set up by a newer recall (schema 9"),
        "{output:?}"
    );
    assert!(error_of(&zoe).contains("newer recall (schema 9"));
    cluster.sql("memory", "UPDATE recall.meta SET schema = 1, id = 'another'");
    assert!(error_of(&zoe).contains("is not the one that was there before"));
    cluster.sql("memory", "DROP SCHEMA recall CASCADE; CREATE SCHEMA recall");
    let output = init("admin");
    assert!(output.stderr.contains("a schema called recall that is not recall's"), "{output:?}");
}

#[test]
fn a_server_restored_from_an_older_copy_is_sent_the_missing_entries() {
    let Some(mut cluster) = Cluster::start() else { return };
    init(&cluster);
    let mia = sharing("mia", cluster.port(), &[]);
    remember(&mia, RULE);
    sync(&mia);
    let copy = cluster.back_up();
    remember(&mia, MOSS);
    sync(&mia);
    let ben = sharing("ben", cluster.port(), &[]);
    assert_eq!(sync(&ben)["shares"][0]["received"], 2);
    cluster.restore(&copy);
    // A server that is behind does not disturb a machine that has already read further.
    assert_eq!(sync(&ben)["shares"][0]["received"], 2);
    let state = sync(&mia);
    assert_eq!(state["notices"], json!([]), "{state}");
    let zoe = sharing("zoe", cluster.port(), &[]);
    for stage in [&ben, &zoe] {
        assert_eq!(sync(stage)["shares"][0]["received"], 2);
    }
}

#[test]
fn a_changed_log_entry_stops_only_its_own_machine_and_is_named() {
    let Some(cluster) = Cluster::start() else { return };
    init(&cluster);
    let mia = sharing("mia", cluster.port(), &[]);
    let zoe = sharing("zoe", cluster.port(), &[]);
    let ben = sharing("ben", cluster.port(), &[]);
    remember(&mia, RULE);
    exchange(&[&mia, &ben]);
    let of_mia = "device = (SELECT device FROM recall.device WHERE login = 'mia')";
    let change = |statement: &str| drop(cluster.sql("memory", &format!("{statement} WHERE {of_mia}")));
    let device_error = |stage: &Stage| {
        let state = sync(stage);
        let devices = state["shares"][0]["devices"].as_array().unwrap();
        let mia = devices.iter().find(|device| device["author"] == "mia" || device["author"] == "").unwrap();
        mia["error"].as_str().unwrap_or_default().to_owned()
    };
    change("UPDATE recall.device SET hash = repeat('0', 64)");
    assert!(device_error(&ben).contains("its entry 1 differs from the one that was read before"));
    // The other machines are still read.
    remember(&zoe, MOSS);
    exchange(&[&zoe]);
    assert!(!device_error(&ben).is_empty());
    assert_eq!(found(&ben, "moss")["author"], "zoe");
    // Mia's machine finds another log under its name and takes a new name. Nothing is lost.
    let state = sync(&mia);
    assert!(state["notices"][0].as_str().unwrap().contains("nothing is lost"), "{state}");
    let late = sharing("ben", cluster.port(), &[]);
    late.flush();
    assert_eq!(found(&late, "invoices")["author"], "mia");
    // A machine that reads an entry for the first time refuses it if it was changed on the server.
    cluster.sql("memory", "UPDATE recall.record SET body = replace(body, 'Moss', 'Gold')");
    let newcomer = sharing("ben", cluster.port(), &[]);
    let devices = sync(&newcomer)["shares"][0]["devices"].clone();
    assert!(devices.to_string().contains("is damaged"), "{devices}");
    assert_eq!(found(&newcomer, "gold"), Value::Null);
}

#[test]
fn network_cuts_during_a_sync_lose_and_duplicate_nothing() {
    let Some(cluster) = Cluster::start() else { return };
    init(&cluster);
    let way = Way::to(cluster.port());
    let mia = sharing("mia", way.port(), &[]);
    let ben = sharing("ben", way.port(), &[]);
    let mut notes = 0;
    for bytes in [0, 60, 400, 700, 1000, 1300, 1600, 1900, 2200, 2500, 2900, 3500] {
        notes += 1;
        remember(&mia, &format!("Rule {notes} of the house was written by Hedwig in chapter {notes}"));
        for stage in [&mia, &ben] {
            way.cut_after(bytes);
            stage.recall(["sync", "--now"]);
            way.mend();
        }
    }
    exchange(&[&mia, &ben]);
    let state = sync(&ben);
    assert_eq!((&state["shares"][0]["received"], &state["notices"]), (&json!(notes), &json!([])), "{state}");
    assert_eq!(sync(&mia)["notices"], json!([]));
    let entries = "SELECT count(*), count(DISTINCT seq), max(seq) FROM recall.record";
    assert_eq!(cluster.sql("memory", entries), format!("{notes}|{notes}|{notes}"));
}

#[test]
fn a_copied_data_folder_loses_no_notes_with_a_database_remote() {
    let Some(cluster) = Cluster::start() else { return };
    init(&cluster);
    let mut mia = sharing("mia", cluster.port(), &[]);
    remember(&mia, RULE);
    sync(&mia);
    assert!(mia.stop_daemon().success());
    let mut copy = Stage::new();
    std::fs::create_dir_all(copy.home()).unwrap();
    let copied = Command::new("cp")
        .arg("-r")
        .args([mia.home().join("data"), mia.home().join("config.toml"), copy.home()])
        .status();
    assert!(copied.unwrap().success());
    passwords(&copy, &["mia"]);
    let repository = Repository::init(&copy.project());
    repository.git(&["remote", "add", "origin", "git@example.com:acme/shop.git"]);
    mia.start_daemon();
    copy.start_daemon();
    remember(&mia, MOSS);
    sync(&mia);
    copy.json(["remember", "Cents are integers in every ledger", "--project", "git:example.com/acme/shop"]);
    let state = sync(&copy);
    assert!(state["notices"][0].as_str().unwrap().contains("nothing is lost"), "{state}");
    exchange(&[&mia, &copy]);
    for stage in [&mia, &copy] {
        for words in ["hedwig", "moss", "cents ledger"] {
            assert_eq!(stage.json(["search", words, "--all"])["total"], 1, "{words}");
        }
    }
}

/// A certificate authority and its certificates, made by the program `openssl`.
struct Certificates(tempfile::TempDir);

impl Certificates {
    fn make() -> Option<Self> {
        if Command::new("openssl").arg("version").output().is_err() {
            println!("skipped: openssl is not installed");
            return None;
        }
        let made = Self(tempfile::tempdir().unwrap());
        made.openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=ours -keyout ca.key -out ca.pem");
        made.openssl("req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=theirs -keyout o.key -out other.pem");
        std::fs::write(made.0.path().join("san"), "subjectAltName=DNS:localhost\n").unwrap();
        for (name, subject) in [("server", "localhost"), ("mia", "mia")] {
            made.openssl(&format!(
                "req -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -subj /CN={subject} -keyout {name}.key -out {name}.csr"
            ));
            made.openssl(&format!(
                "x509 -req -in {name}.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile san -out {name}.pem"
            ));
            let key = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(made.0.path().join(format!("{name}.key")), key).unwrap();
        }
        Some(made)
    }

    fn openssl(&self, arguments: &str) {
        let output =
            Command::new("openssl").args(arguments.split(' ')).current_dir(self.0.path()).output().unwrap();
        assert!(output.status.success(), "{arguments}: {output:?}");
    }

    fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.0.path().join(name)).unwrap()
    }

    /// Returns the parameter of an address that names a file.
    fn parameter(&self, name: &str, file: &str) -> String {
        format!("&{name}={}", self.0.path().join(file).display())
    }
}

#[test]
fn server_certificates_are_verified_and_client_certificates_accepted() {
    let Some(mut cluster) = Cluster::start() else { return };
    let Some(certificates) = Certificates::make() else { return };
    init(&cluster);
    let port = cluster.port();
    let url = |host: &str, parameters: &str| format!("postgres://mia@{host}:{port}/memory?{parameters}");
    let mia = machine("mia", "laptop", "");
    let file = mia.user_home().join(".pgpass");
    std::fs::write(&file, format!("*:*:*:*:{}\n", password_of("mia"))).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let attempt = |url: &str| {
        mia.recall(["unshare"]);
        mia.recall(["remote", "remove", "team"]);
        add(&mia, url, &[]);
        let state = mia.recall(["sync", "--now", "--json"]).json();
        state["shares"][0]["error"].as_str().unwrap_or_default().to_owned()
    };
    // Nothing is sent unencrypted unless the address allows it.
    let error = attempt(&url("localhost", ""));
    assert!(error.contains("offers no encryption") && error.contains("sslmode=disable"), "{error}");
    let (cert, key) = (certificates.text("server.pem"), certificates.text("server.key"));
    let (cert, key) = (cluster.server_file("server.pem", &cert), cluster.server_file("server.key", &key));
    let ca = cluster.server_file("ca.pem", &certificates.text("ca.pem"));
    let (cert, key, ca) = (cert.display(), key.display(), ca.display());
    let settings =
        format!("ssl = on\nssl_cert_file = '{cert}'\nssl_key_file = '{key}'\nssl_ca_file = '{ca}'");
    cluster.configure("postgresql.conf", &settings);
    // The machine does not know this authority.
    let error = attempt(&url("localhost", ""));
    assert!(error.contains("cannot verify the identity of"), "{error}");
    let ours = certificates.parameter("sslrootcert", "ca.pem");
    let other = certificates.parameter("sslrootcert", "other.pem");
    for (host, parameters, is_in) in [
        ("localhost", ours.clone(), true),
        ("localhost", other.clone(), false),
        // The certificate is for another name.
        ("127.0.0.1", ours.clone(), false),
        ("127.0.0.1", format!("{ours}&sslmode=verify-ca"), true),
        ("127.0.0.1", format!("{other}&sslmode=verify-ca"), false),
        ("127.0.0.1", "&sslmode=require".to_owned(), true),
    ] {
        let error = attempt(&url(host, &parameters));
        assert_eq!(error.is_empty(), is_in, "{host} {parameters}: {error}");
        assert!(is_in || error.contains("cannot verify the identity"), "{error}");
    }
    // A certificate replaces the password.
    cluster.configure("pg_hba.conf", "hostssl memory mia 127.0.0.1/32 cert\nhostssl memory mia ::1/128 cert");
    std::fs::remove_file(&file).unwrap();
    let error = attempt(&url("localhost", &ours));
    assert!(error.contains("refuses mia") || error.contains("certificate"), "{error}");
    let own = certificates.parameter("sslcert", "mia.pem") + &certificates.parameter("sslkey", "mia.key");
    assert_eq!(attempt(&url("localhost", &format!("{ours}{own}"))), "");
    let loose = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(certificates.0.path().join("mia.key"), loose).unwrap();
    assert!(attempt(&url("localhost", &format!("{ours}{own}"))).contains("chmod 600"));
}
