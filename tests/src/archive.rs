//! Writes a memory of any size to a file that `recall import` reads.

use std::fs::OpenOptions;
use std::io::{BufWriter, Write};
use std::path::Path;

use serde_json::{Value, json};

use crate::Stage;

/// The size of a note of the archive, in bytes.
pub const NOTE: usize = 10_000;

/// Exports the stage's only note, and appends notes like it until they have `bytes` bytes. Returns their number.
pub fn write(stage: &Stage, path: &Path, bytes: usize) -> usize {
    let notes = bytes / NOTE;
    let output = stage.recall(["export", path.to_str().unwrap()]);
    assert_eq!(output.code(), 0, "{output:?}");
    let text = std::fs::read_to_string(path).unwrap();
    let is_note = |line: &Value| line.get("narrative").is_some();
    let note = text.lines().map(|line| serde_json::from_str(line).unwrap()).find(is_note).unwrap();
    let filler = "lorem ipsum dolor ".repeat(NOTE / 18);
    let mut archive = BufWriter::new(OpenOptions::new().append(true).open(path).unwrap());
    for nth in 0..notes {
        let mut note = note.clone();
        note["uuid"] = json!(format!("01890a5d-ac96-474b-bcce-{nth:012x}"));
        note["title"] = json!(format!("Archive, volume {nth}"));
        note["narrative"] = json!(format!("note {nth} of the archive {filler}"));
        writeln!(archive, "{note}").unwrap();
    }
    archive.flush().unwrap();
    notes
}
