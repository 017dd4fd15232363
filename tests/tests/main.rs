//! All end-to-end tests, as one program. Linking one program takes seconds. One program for each file took minutes
//! and gigabytes. `cargo test -p recall-tests lifecycle::` runs one file.

// Test code reports a failure by a panic.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout, clippy::print_stderr)]

mod agent_names;
mod bad_input;
mod booted;
mod bounds;
mod branches;
mod broken_disk;
mod by_hand;
mod choice;
mod command_memory;
mod compression;
mod config_command;
mod configuration;
mod damaged_records;
mod delivery;
mod demo;
mod documents;
mod download;
mod editing;
mod embedding;
mod friction;
mod full_disk;
mod vector_files;
mod events;
mod extension;
mod exclusion;
mod fail_points;
mod file_memory;
mod fixtures;
mod forgetting;
mod gateway;
mod golden;
mod growth;
mod guards;
mod handoff;
mod harm;
mod healing;
mod hints;
mod homes;
mod hostile_fields;
mod hostile_project;
mod hostile_text;
mod identity;
mod idle;
mod import;
mod import_memories;
mod injection_receipts;
mod install;
mod intruders;
mod json_shapes;
mod kills;
mod late_answers;
mod lifecycle;
mod lineage;
mod machine_prompts;
mod main_job;
mod mcp;
mod metrics;
mod model_get;
mod models;
mod notes_by_hand;
mod one_folder;
mod other_agents;
mod outlines;
mod other_users;
mod pages;
mod past_work;
mod planted;
mod portable;
mod prompt_context;
mod replay;
mod replay_order;
mod review;
mod screens;
mod service_unit;
mod sharing;
mod sharing_database;
mod sharing_kills;
mod sharing_limits;
mod sharing_prompts;
mod sharing_quarantine;
mod sharing_readers;
mod sharing_team;
mod shells;
mod shim_dependencies;
mod shipped;
mod statusline;
mod subagent_tasks;
mod telemetry;
mod titles;
mod two_names;
mod ui;
mod upkeep;
mod used_notes;
mod viewer;
mod walls;
mod wrong_invocations;

/// A file that is not listed above would not run, without an error.
#[test]
fn every_test_file_is_listed_in_main_rs() {
    let here = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let lines: Vec<String> = include_str!("main.rs").lines().map(str::to_owned).collect();
    for entry in std::fs::read_dir(here).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_string_lossy();
        let code =
            path.extension().is_some_and(|extension| extension == "rs") || path.join("mod.rs").is_file();
        assert!(
            !code || name == "main" || lines.contains(&format!("mod {name};")),
            "{name} has no line in tests/tests/main.rs"
        );
    }
}
