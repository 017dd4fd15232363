//! Tests which crate may use which library, and how the crates are compiled. The compiler refuses a library that a
//! crate's `Cargo.toml` does not name.

use std::collections::BTreeSet;
use std::path::Path;

/// Libraries that only some crates may use, with those crates. `recall` is the program.
const WALLS: [(&str, &[&str]); 6] = [
    // Agents keep sessions in their own databases. The memory that `recall import` reads is a database too.
    ("rusqlite", &["agents", "recall", "store"]),
    // The file of a sentence model is mapped in the same way as the index's files.
    ("tantivy", &["embedding", "search"]),
    // The program fetches sentence models; the settings check addresses.
    ("reqwest", &["config", "providers", "recall", "telemetry"]),
    ("ractor", &["recall"]),
    ("clap", &["recall"]),
    ("ratatui", &["recall"]),
];

/// Returns the crates that name this library among their dependencies, without the dependencies of tests.
fn users(daemon: &Path, library: &str) -> BTreeSet<String> {
    let rooms = daemon.join("crates").read_dir().unwrap().map(|room| room.unwrap().path());
    let crates = rooms.map(|room| (room.file_name().unwrap().to_str().unwrap().to_owned(), room));
    crates
        .chain([("recall".to_owned(), daemon.to_owned())])
        .filter(|(_, folder)| {
            let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).unwrap();
            let (_, rest) = manifest.split_once("[dependencies]").unwrap_or_default();
            let own = rest.split("[dev-dependencies]").next().unwrap_or_default();
            own.lines()
                .any(|line| line.strip_prefix(library).is_some_and(|rest| rest.starts_with(['.', ' ', '='])))
        })
        .map(|(name, _)| name)
        .collect()
}

#[test]
fn each_restricted_library_is_used_only_by_its_allowed_crates() {
    let daemon = recall_tests::workspace().join("daemon");
    for (library, allowed) in WALLS {
        let allowed: BTreeSet<String> = allowed.iter().map(|name| (*name).to_owned()).collect();
        assert_eq!(users(&daemon, library), allowed, "{library}");
    }
}

#[test]
fn the_domain_depends_on_no_workspace_crate_but_the_protocol() {
    let manifest = recall_tests::workspace().join("daemon/crates/domain/Cargo.toml");
    let manifest = std::fs::read_to_string(manifest).unwrap();
    let rooms = manifest.lines().filter(|line| line.starts_with("recall-"));
    assert_eq!(rooms.collect::<Vec<_>>(), ["recall-protocol.workspace = true"]);
}

/// Reads the name of the package in this folder.
fn package(folder: &Path) -> Option<String> {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let name = manifest.lines().find_map(|line| line.strip_prefix("name = "))?;
    Some(name.trim_matches('"').to_owned())
}

/// An optimised crate takes minutes to compile after each change.
#[test]
fn no_crate_of_the_workspace_is_optimised_in_development() {
    let root = recall_tests::workspace();
    let rooms = root.join("daemon/crates").read_dir().unwrap().map(|room| room.unwrap().path());
    let folders = rooms.chain(["protocol", "shim", "daemon", "tests"].map(|name| root.join(name)));
    let packages: BTreeSet<String> = folders.filter_map(|folder| package(&folder)).collect();

    let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
    let (_, rest) = manifest.split_once("\n[profile.dev.package]\n").unwrap();
    let unoptimised = rest.lines().take_while(|line| !line.starts_with('['));
    let unoptimised: BTreeSet<String> =
        unoptimised.filter_map(|line| line.strip_suffix(" = { opt-level = 0 }")).map(str::to_owned).collect();
    assert_eq!(unoptimised, packages);
}
