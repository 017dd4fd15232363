//! The documents' links lead somewhere.

use std::path::{Path, PathBuf};

/// The Markdown files of the root, and of `docs/` and what is beneath it.
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
    found
}

/// A heading's name in a link: `## What it costs` is `#what-it-costs`.
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
