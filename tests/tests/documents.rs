//! Tests what a program can check in the documents: links lead to something, and what they name exists.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use regex::Regex;

/// Returns the Markdown files of the root, of `docs/` and its folders, and of other folders that have a page.
fn documents(root: &Path) -> Vec<PathBuf> {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let mut found = entries(root);
    let mut folders = vec![root.join("docs")];
    while let Some(folder) = folders.pop() {
        let (deeper, files): (Vec<_>, Vec<_>) = entries(&folder).into_iter().partition(|path| path.is_dir());
        folders.extend(deeper);
        found.extend(files);
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    found.extend(["fuzz/README.md", "tests/fixtures/recorded/README.md"].map(|page| root.join(page)));
    found
}

/// Returns a heading's name in a link: `## What it costs` is `#what-it-costs`.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || [' ', '-', '_'].contains(c));
    kept.collect::<String>().trim().to_lowercase().replace(' ', "-")
}

fn has_heading(path: &Path, name: &str) -> bool {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().filter(|line| line.starts_with('#')).any(|line| anchor(line.trim_start_matches('#')) == name)
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() {
    let mut links = 0;
    for document in documents(recall_tests::workspace()) {
        let text = std::fs::read_to_string(&document).unwrap();
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            if link.contains("://") {
                continue;
            }
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            let target =
                if file.is_empty() { document.clone() } else { document.parent().unwrap().join(file) };
            assert!(target.exists(), "{}: {link} leads nowhere", document.display());
            assert!(
                heading.is_empty() || has_heading(&target, heading),
                "{}: {link} leads to no heading",
                document.display()
            );
            links += 1;
        }
    }
    assert!(links > 50, "only {links} links were found");
}

/// A reader who starts at the README finds every page.
#[test]
fn every_page_is_in_the_index() {
    let root = recall_tests::workspace();
    let readme = std::fs::read_to_string(root.join("README.md")).unwrap();
    assert!(readme.contains("](docs/README.md)"));
    let index = std::fs::read_to_string(root.join("docs/README.md")).unwrap();
    let decisions = std::fs::read_to_string(root.join("docs/decisions/README.md")).unwrap();
    for page in documents(root).iter().filter(|page| page.starts_with(root.join("docs"))) {
        let name = page.file_name().unwrap().to_str().unwrap();
        let list = if page.starts_with(root.join("docs/decisions")) { &decisions } else { &index };
        assert!(name == "README.md" || list.contains(&format!("]({name})")), "{name} is in no index");
    }
}

/// A reader decides within a minute.
#[test]
fn the_readme_is_short() {
    let readme = std::fs::read_to_string(recall_tests::workspace().join("README.md")).unwrap();
    let words = readme.split_whitespace().count();
    assert!(words <= 700, "{words} words");
}

#[test]
fn every_command_is_on_the_page_of_commands() {
    let stage = recall_tests::Stage::new();
    let page = std::fs::read_to_string(recall_tests::workspace().join("docs/commands.md")).unwrap();
    let help = stage.recall(["--help"]).stdout;
    let command = Regex::new(r"(?m)^  ([a-z]+)  +\S").unwrap();
    let known: HashSet<&str> =
        command.captures_iter(&help).map(|found| found.get(1).unwrap().as_str()).collect();
    assert!(known.len() > 20, "{known:?}");
    for name in &known {
        assert!(*name == "help" || page.contains(&format!("`recall {name}")), "`recall {name}` is missing");
    }
    let named = Regex::new(r"`recall ([a-z]+)").unwrap();
    for document in documents(recall_tests::workspace()) {
        let text = std::fs::read_to_string(&document).unwrap();
        // The text of a status line looks like a command: "recall is not running".
        for name in named
            .captures_iter(&text)
            .map(|found| found.get(1).unwrap().as_str())
            .filter(|name| *name != "is")
        {
            let is_there = known.contains(name) || stage.recall([name, "--help"]).code() == 0;
            assert!(is_there, "{}: there is no `recall {name}`", document.display());
        }
    }
}

/// Returns all files that git tracks, and new ones.
fn tracked_files(root: &Path) -> Vec<String> {
    let mut git = std::process::Command::new("git");
    git.arg("-C").arg(root).args(["ls-files", "--cached", "--others", "--exclude-standard"]);
    let listed = git.output().unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let listed = String::from_utf8(listed.stdout).unwrap();
    listed.lines().filter(|file| root.join(file).is_file()).map(str::to_owned).collect()
}

/// Returns the names between backticks in a document, outside of code blocks.
fn named_in(text: &str) -> Vec<String> {
    let outside = text.split("```").step_by(2).collect::<Vec<_>>().join("\n");
    let name = Regex::new("`([^`\n]+)`").unwrap();
    name.captures_iter(&outside).map(|found| found.get(1).unwrap().as_str().to_owned()).collect()
}

/// Names that are not in the sources: names of other programs, and a placeholder for a name that the reader chooses.
const PLACEHOLDERS: [&str; 3] = ["mcp_recall_search", "gateway_stop", "NAME"];

/// Tests, functions, environment variables and files must exist if a document names them.
#[test]
fn every_code_name_in_a_document_exists_in_the_sources() {
    let root = recall_tests::workspace();
    let files = tracked_files(root);
    let identifier = Regex::new("[A-Za-z_][A-Za-z0-9_]*").unwrap();
    let mut identifiers = HashSet::new();
    for file in files.iter().filter(|file| !file.ends_with(".md")) {
        let text = String::from_utf8_lossy(&std::fs::read(root.join(file)).unwrap()).into_owned();
        identifiers.extend(identifier.find_iter(&text).map(|found| found.as_str().to_owned()));
    }
    let folders: HashSet<&str> = files
        .iter()
        .flat_map(|file| {
            [Some(file.as_str()), file.strip_prefix("daemon/src/"), file.strip_prefix("daemon/crates/")]
        })
        .flatten()
        .filter_map(|file| file.split_once('/').map(|(folder, _)| folder))
        .collect();
    let of_code = Regex::new(r"^(?:[a-z][a-z0-9]*(?:_[a-z0-9]+)+(?:_?…)?|RECALL_[A-Z_]+(?:=.*)?)$").unwrap();
    let method = Regex::new(r"^([A-Z][A-Za-z]+)::([a-z_]+)(?:\(\))?$").unwrap();
    let path = Regex::new(r"^([A-Za-z_.0-9-]+)/[A-Za-z_.0-9/-]+?(?::\d+)?$").unwrap();
    let mut wrong = Vec::new();
    let mut seen = 0;
    for document in documents(root) {
        let text = std::fs::read_to_string(&document).unwrap();
        let names = named_in(&text);
        for name in names.iter().filter(|name| !PLACEHOLDERS.iter().any(|any| name.contains(any))) {
            let exists = if of_code.is_match(name) {
                let whole = name.split('=').next().unwrap_or(name);
                match whole.strip_suffix('…') {
                    Some(begin) => {
                        identifiers.iter().any(|known| known.starts_with(begin.trim_end_matches('_')))
                    }
                    None => identifiers.contains(whole),
                }
            } else if let Some(parts) = method.captures(name) {
                identifiers.contains(&parts[1]) && identifiers.contains(&parts[2])
            } else if let Some(parts) = path.captures(name).filter(|parts| folders.contains(&parts[1])) {
                let place = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(':');
                let place = if name.contains(':') { place } else { name.as_str() };
                let near = document.parent().unwrap().to_path_buf();
                let roots = [
                    root.to_path_buf(),
                    root.join("daemon/src"),
                    root.join("daemon"),
                    root.join("tests"),
                    near,
                ];
                // `store/database/row.rs` is a file of the crate `store`.
                let of_crate = root.join("daemon/crates").join(&parts[1]).join("src");
                let inside = place.split_once('/').map_or("", |(_, rest)| rest);
                roots.iter().any(|folder| folder.join(place).exists()) || of_crate.join(inside).exists()
            } else {
                continue;
            };
            seen += 1;
            if !exists {
                wrong.push(format!("{}: `{name}`", document.strip_prefix(root).unwrap().display()));
            }
        }
    }
    assert!(seen > 300, "only {seen} names were looked up");
    assert!(wrong.is_empty(), "nothing in the sources is called so:\n{}", wrong.join("\n"));
}

/// A configuration key must exist if a document names it.
#[test]
fn every_setting_that_a_document_names_exists() {
    let stage = recall_tests::Stage::new();
    let listed = stage.json(["config", "list"]);
    let listed = listed.as_array().or_else(|| listed["settings"].as_array()).unwrap();
    let known: HashSet<&str> = listed.iter().filter_map(|setting| setting["key"].as_str()).collect();
    assert!(known.len() > 40, "{known:?}");
    let sections: HashSet<&str> =
        known.iter().filter_map(|key| key.split_once('.')).map(|(section, _)| section).collect();
    let key = Regex::new(r"^([a-z_]+)\.[a-z_]+(?: = .*)?$").unwrap();
    let ends =
        [".rs", ".md", ".sh", ".json", ".toml", ".db", ".txt", ".lease", ".log", ".js", ".pid", ".sock"];
    let mut wrong = Vec::new();
    for document in documents(recall_tests::workspace()) {
        for name in named_in(&std::fs::read_to_string(&document).unwrap()) {
            let Some(section) = key.captures(&name).map(|parts| parts[1].to_owned()) else { continue };
            let whole = name.split(" = ").next().unwrap_or(&name);
            if sections.contains(section.as_str())
                && !ends.iter().any(|end| whole.ends_with(end))
                && !known.contains(whole)
            {
                wrong.push(format!("{}: `{name}`", document.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "there is no such setting:\n{}", wrong.join("\n"));
}

#[test]
fn every_decision_has_its_number_a_status_and_a_date() {
    let status = Regex::new(r"(?m)^Status: (?:accepted|superseded by \d+), \d{4}-\d{2}-\d{2}$").unwrap();
    let folder = recall_tests::workspace().join("docs/decisions");
    for page in documents(recall_tests::workspace()).iter().filter(|page| page.starts_with(&folder)) {
        let name = page.file_name().unwrap().to_str().unwrap();
        if name == "README.md" {
            continue;
        }
        let text = std::fs::read_to_string(page).unwrap();
        assert!(status.is_match(&text), "{name}");
        let number: u32 = name.split('-').next().unwrap().parse().unwrap();
        assert!(text.starts_with(&format!("# {number}. ")), "{name} begins without its number");
    }
}
