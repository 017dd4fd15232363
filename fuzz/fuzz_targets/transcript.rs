#![no_main]

use std::fs;

use libfuzzer_sys::fuzz_target;
use recall_agents::AGENTS;

// The first byte chooses the agent; the rest is a file in which it recorded a session. Any file is a session or is refused.
fuzz_target!(|bytes: &[u8]| {
    let [agent, recorded @ ..] = bytes else { return };
    let readers: Vec<_> = AGENTS.iter().filter_map(|spec| spec.history).collect();
    let reader = readers[usize::from(*agent) % readers.len()];
    let folder = tempfile::tempdir().expect("a folder for the file");
    let path = folder.path().join("session.jsonl");
    fs::write(&path, recorded).expect("the folder is writable");
    let _ = (reader.is_session)(&path);
    let _ = (reader.read)(&path, None);
});
