#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use recall_config::{Config, Excluded};

// Any text is a configuration. One with errors says so, and does not exclude less than the last valid one.
fuzz_target!(|text: &[u8]| {
    let home = tempfile::tempdir().expect("a folder for the file");
    let (path, note) = (home.path().join("config.toml"), home.path().join("last_good"));
    fs::write(&path, "[capture]\nexclude = [\"/home/mia/diary\"]\n").expect("the folder is writable");
    let before = Config::in_force(&path, &note);
    assert!(before.problems.is_empty());
    fs::write(&path, text).expect("the folder is writable");
    let loaded = Config::obeyed(&path, &note);
    if !loaded.problems.is_empty() {
        let keeps = match &loaded.config.excluded {
            Excluded::Projects(patterns) => patterns.iter().any(|pattern| pattern == "/home/mia/diary"),
            Excluded::Everything => true,
        };
        assert!(keeps, "an error lifted an exclusion");
    }
});
