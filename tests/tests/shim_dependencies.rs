//! Tests that the shim links no heavy crates, which lets it start in a millisecond, and that only one module uses the
//! codec of the wire.
//!
//! Both are properties of the sources, so the tests read them there: the dependency tree as cargo resolves it, and
//! the files that name the codec's crate.

use std::path::{Path, PathBuf};
use std::process::Command;

use recall_tests::workspace;

/// Returns the crates that a workspace member links on this platform, each once.
fn linked(package: &str) -> Vec<String> {
    let mut tree = Command::new(env!("CARGO"));
    tree.args(["tree", "--locked", "--offline", "-p", package, "--edges", "normal"]);
    tree.args(["--prefix", "none", "--format", "{p}"]).current_dir(workspace());
    let output = tree.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let mut names: Vec<String> =
        text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

const HEAVY: [&str; 9] =
    ["tokio", "ractor", "regex", "rustls", "reqwest", "rusqlite", "tantivy", "clap", "serde_json"];

#[test]
fn the_shim_links_no_heavy_crates() {
    let names = linked("recall-shim");
    assert!(names.iter().any(|name| name == "recall-protocol"), "{names:?}");
    let heavy: Vec<_> = names.iter().filter(|name| HEAVY.contains(&name.as_str())).collect();
    assert!(heavy.is_empty(), "recall-shim links {heavy:?}");
}

#[test]
fn the_dependency_check_finds_the_daemons_heavy_crates() {
    let names = linked("recall-memory");
    for expected in ["tokio", "ractor", "rusqlite", "tantivy", "clap", "serde_json"] {
        assert!(names.iter().any(|name| name == expected), "{expected} not in {names:?}");
    }
}

/// Finds all Rust sources below a folder.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn only_one_module_uses_the_codec_crate() {
    let mut found = Vec::new();
    for folder in ["protocol/src", "shim/src", "daemon/src", "daemon/crates"] {
        sources(&workspace().join(folder), &mut found);
    }
    let names_it = |path: &PathBuf| {
        let text = std::fs::read_to_string(path).unwrap();
        text.lines().map(str::trim_start).any(|line| !line.starts_with("//") && line.contains("bincode::"))
    };
    let namers: Vec<_> = found
        .iter()
        .filter(|path| names_it(path))
        .map(|path| path.strip_prefix(workspace()).unwrap())
        .collect();
    assert_eq!(namers, [Path::new("protocol/src/codec.rs")]);
}
